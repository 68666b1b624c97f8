r"""Weights near the start, of five kinds: where statements about "all weights within $\tau$" are put to the test.

| family | move of $W_l$ | flips of activations |
|---|---|---|
| `gaussian` | a Gaussian matrix of spectral norm $\tau$ | of order $\tau m$ |
| `along` | a given direction, such as a gradient, scaled to spectral norm $\tau$ | of order $\tau m$ |
| `adversarial` | rank one, turning over the units closest to zero on one example | $\tau^{2/3} m$, the most possible |
| `toward` | along a training path, no further than $\tau$ | few |
| `scaled` | $\tau W_l / \|W_l\|_2$ | none: a negative control |

Parameters are dictionaries of arrays; `v` is never moved. Units are columns, as in Zou et al. (2018).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from wideproof.monitors.norms import spectral_norm

Weights = Mapping[str, ArrayLike]


def gaussian(params: Weights, tau: float, rng: np.random.Generator, names: Iterable[str] | None = None) -> dict:
    r"""Add a Gaussian matrix of spectral norm $\tau$ to every hidden weight (or to those in `names`).

    Examples
    --------
    >>> moved = gaussian({"W1": np.zeros((3, 4))}, 0.5, np.random.default_rng(0))
    >>> round(float(np.linalg.norm(moved["W1"], 2)), 12)
    0.5
    """
    chosen = _hidden(params) if names is None else tuple(names)
    return along(params, {name: rng.normal(size=np.shape(params[name])) for name in chosen}, tau)


def along(params: Weights, directions: Weights, tau: float) -> dict:
    r"""Move every weight that has a direction by it, scaled to spectral norm $\tau$.

    Examples
    --------
    >>> along({"W1": np.zeros((2, 2))}, {"W1": 7 * np.eye(2)}, 0.5)["W1"].tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """
    moved = {name: np.array(weight, float) for name, weight in params.items()}
    for name, direction in directions.items():
        change = np.asarray(direction, float)
        if change.any():
            moved[name] += tau / spectral_norm(change) * change
    return moved


def adversarial(
    params: Weights, layer: int, x: ArrayLike, tau: float, excess: float = 1e-6
) -> tuple[dict[str, Float[np.ndarray, "_ _"]], int]:
    r"""Turn over as many units of one layer as a move of spectral norm $\tau$ can, on one input `x` of that layer.

    $W_l \leftarrow W_l + x p^\top$ with $p_j = -(1+\epsilon) \langle w_{l,j}, x\rangle / \|x\|^2$ on the $s$ units of
    least $|\langle w_{l,j}, x\rangle|$ and 0 elsewhere; its norm is
    $(1+\epsilon) (\sum_{j \in \text{set}} \langle w_{l,j}, x\rangle^2)^{1/2} / \|x\|$. Returns the weights and $s$.

    Examples
    --------
    >>> moved, count = adversarial({"W1": np.array([[0.1, -0.2, 3.0]])}, 1, np.ones(1), 0.3)
    >>> count, (moved["W1"] > 0).tolist()
    (2, [[False, True, True]])
    """
    name = f"W{layer}"
    moved = {key: np.array(weight, float) for key, weight in params.items()}
    at = np.asarray(x, float)
    values = at @ moved[name]
    order = np.argsort(np.abs(values))
    reach = (1 + excess) * np.sqrt(np.cumsum(values[order] ** 2)) / np.linalg.norm(at)
    count = int(np.searchsorted(reach, tau, side="right"))
    chosen = order[:count]
    push = np.zeros_like(values)
    push[chosen] = -(1 + excess) * values[chosen] / (at @ at)
    moved[name] += np.outer(at, push)
    return moved, count


def toward(params: Weights, end: Weights, tau: float) -> dict:
    r"""Go from `params` towards `end` (a later step of training) in every weight, until spectral norm $\tau$ or there.

    Examples
    --------
    >>> toward({"W1": np.zeros((2, 2))}, {"W1": np.eye(2)}, 0.25)["W1"].tolist()
    [[0.25, 0.0], [0.0, 0.25]]
    """
    moved = {name: np.array(weight, float) for name, weight in params.items()}
    for name in _hidden(params):
        change = np.asarray(end[name], float) - moved[name]
        size = spectral_norm(change) if change.any() else 0.0
        moved[name] += change if size <= tau else tau / size * change
    return moved


def scaled(params: Weights, tau: float) -> dict:
    r"""Return $W_l (1 + \tau / \|W_l\|_2)$: a move of norm $\tau$ that flips no activation.

    Examples
    --------
    >>> scaled({"W1": 2 * np.eye(2)}, 1.0)["W1"].tolist()
    [[3.0, 0.0], [0.0, 3.0]]
    """
    return along(params, {name: params[name] for name in _hidden(params)}, tau)


def _hidden(params: Weights) -> tuple[str, ...]:
    return tuple(name for name in params if name.startswith("W"))
