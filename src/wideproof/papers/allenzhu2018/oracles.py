r"""What the quantities of the paper tend to as the width grows, computed without a network.

As $m \to \infty$,
$\langle h_{i,\ell}, h_{j,k}\rangle \to G[(i,\ell),(j,k)]$, with $q_{i,\ell} = \sum_{a\le\ell}\|x_{i,a}\|^2$,

$$ \cos\vartheta = \frac{G[(i,\ell-1),(j,k-1)] + \langle x_{i,\ell}, x_{j,k}\rangle}{\sqrt{q_{i,\ell}\, q_{j,k}}},
   \qquad
   G[(i,\ell),(j,k)] = \sqrt{q_{i,\ell}\, q_{j,k}}\; \frac{\sin\vartheta + (\pi-\vartheta)\cos\vartheta}{\pi} . $$
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar


class Limit(NamedTuple):
    r"""At infinite width: $q$ `(n, L)`, inner products $G$ and angles of pre-activations, both `(n, L, n, L)`."""

    q: np.ndarray
    gram: np.ndarray
    angles: np.ndarray


def limit_states(x: ArrayLike) -> Limit:
    """Return inner products of all hidden states, and angles between pre-activations, at infinite width.

    Examples
    --------
    >>> limit_states([[[1.0, 0.0], [0.0, 1.0]]]).gram[0, 1, 0, 1].round(12)
    np.float64(2.0)
    """
    tokens = np.asarray(x, float)
    length = tokens.shape[1]
    q = np.cumsum(np.square(tokens).sum(axis=-1), axis=1)
    inner = np.einsum("ila,jka->iljk", tokens, tokens)
    gram, angles = np.zeros_like(inner), np.zeros_like(inner)
    for time in range(length):
        for other in range(length):
            before = gram[:, time - 1, :, other - 1] if time and other else 0.0
            size = np.sqrt(np.outer(q[:, time], q[:, other]))
            cosine = np.clip((before + inner[:, time, :, other]) / size, -1, 1)
            angle = np.arccos(cosine)
            angles[:, time, :, other] = angle
            gram[:, time, :, other] = size * (np.sin(angle) + (np.pi - angle) * cosine) / np.pi
    return Limit(q, gram, angles)


def limit_kernel(x: ArrayLike) -> np.ndarray:
    r"""Return the limit of $K d / m$ for the scored times $2..L$, rows ordered by sequence and time.

    $$ K[(i,a),(j,b)] = \sum_{k=1}^{\min(a,b)-1} \kappa(a,b) \prod_{t=1}^{k-1} 2\kappa(a-t,b-t)\; G[(i,a-k),(j,b-k)], $$

    $\kappa = (\pi - \vartheta)/(2\pi)$ of the pre-activations.
    """
    found = limit_states(x)
    n, length = found.q.shape
    kappa = (np.pi - found.angles) / (2 * np.pi)
    kernel = np.zeros((n, length - 1, n, length - 1))
    for a in range(1, length):
        for b in range(1, length):
            passed = kappa[:, a, :, b]
            for k in range(1, min(a, b) + 1):
                kernel[:, a - 1, :, b - 1] += passed * found.gram[:, a - k, :, b - k]
                passed = passed * 2 * kappa[:, a - k, :, b - k]
    return kernel.reshape(n * (length - 1), -1)


def limit_fresh(x: ArrayLike) -> np.ndarray:
    r"""Return the limit of $\|(I - U_{\ell-1}U_{\ell-1}^\top) h_{i,\ell}\|$, `(n, L)`: roots of Schur complements of
    $G$.
    """
    gram = limit_states(x).gram
    n, length = gram.shape[:2]
    found = np.empty((n, length))
    for time in range(length):
        own = gram[np.arange(n), time, np.arange(n), time]
        if time:
            before = gram[:, :time, :, :time].reshape(n * time, n * time)
            cross = gram[:, :time, :, time].reshape(n * time, n)
            own = own - np.einsum("ai,ai->i", cross, np.linalg.solve(before, cross))
        found[:, time] = np.sqrt(own)
    return found


def product_limit(factors: int, extra: bool = False) -> float:
    r"""Return the limit of $\|DW \cdots DW\|_2$ for independent half-density $D$: free probability.

    $\min_{z>0} (1+z)^k (2+z)/z$ is its square for $k$ factors, with another $W$ in front $(1+z)^k (2+z)^2/z$.

    Examples
    --------
    >>> round(product_limit(1), 3), round(product_limit(0, extra=True), 3)
    (2.414, 2.828)
    """
    power = 2 if extra else 1
    least: Any = minimize_scalar(
        lambda log_z: factors * np.log1p(np.exp(log_z)) + power * np.log(2 + np.exp(log_z)) - log_z,
        bounds=(-12, 6), method="bounded", options={"xatol": 1e-10},
    )  # fmt: skip
    return float(np.exp(least.fun / 2))
