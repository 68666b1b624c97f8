r"""The quantities of Frei et al. (2019) for one pass of a ReLU residual network, in the paper's own indices.

With $x_0$ the input, $u_l = W_l^\top x_{l-1}$ and $\Sigma_l = \mathrm{diag}\, 1\{u_l \ge 0\}$, the backward vectors
$q_l = (H_{l+1}^{L+1})^\top v$ obey $q_{L+1} = v$, $q_L = W_{L+1} \Sigma_{L+1} v$ and
$q_{l-1} = q_l + \theta W_l \Sigma_l q_l$; each gradient is rank one,
$\nabla_{W_l} f = \theta^{1(2 \le l \le L)} x_{l-1} (\Sigma_l q_l)^\top$.

Everything is NumPy: the sweeps over widths and depths would otherwise compile a program for each size. The pass agrees
with `trace` to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike
from scipy.optimize import nnls
from scipy.special import expit

from wideproof.monitors.norms import SMALL, operator_norm, spectral_norm
from wideproof.networks import ResidualReLU

Layer = Callable[[int, Float[np.ndarray, "n _"]], Float[np.ndarray, "n m"]]


@dataclass(frozen=True, eq=False)
class Pass:
    r"""One pass: layers count as in the paper, $x_0 \dots x_{L+1}$, $u_1 \dots u_{L+1}$, $q_1 \dots q_{L+1}$.

    `weights` is empty for a pass that was drawn in law (`pass_in_law`); such a pass has no backward vectors.
    """

    theta: float
    layers: list[Float[np.ndarray, "n _"]]
    values: list[Float[np.ndarray, "n m"]]
    weights: list[Float[np.ndarray, "_ m"]]

    @property
    def depth(self) -> int:
        """The paper's $L$."""
        return len(self.values) - 1

    @property
    def steps(self) -> range:
        r"""The layers $1..L+1$ that have weights."""
        return range(1, self.depth + 2)

    @cached_property
    def signs(self) -> Float[np.ndarray, "m"]:
        """The output signs $v$."""
        half = self.layers[-1].shape[1] // 2
        return np.repeat([1.0, -1.0], half)

    @cached_property
    def outputs(self) -> Float[np.ndarray, "n"]:
        """The outputs $f(x_i)$."""
        return self.layers[-1] @ self.signs

    def scale(self, layer: int) -> float:
        r"""Return $\theta$ for the residual layers $2 \le l \le L$, else 1."""
        return self.theta if 2 <= layer <= self.depth else 1.0

    def x(self, layer: int) -> Float[np.ndarray, "n _"]:
        """Return $x_l$ of every example, `(n, m)`."""
        return self.layers[layer]

    def u(self, layer: int) -> Float[np.ndarray, "n m"]:
        r"""Return $u_l = W_l^\top x_{l-1}$ of every example."""
        return self.values[layer - 1]

    def mask(self, layer: int) -> Bool[np.ndarray, "n m"]:
        r"""Return the diagonal of $\Sigma_l$: a unit at zero counts as active."""
        return self.values[layer - 1] >= 0

    @cached_property
    def weight_norms(self) -> list[float]:
        r"""The spectral norms $\|W_l\|_2$, $l = 1..L+1$."""
        return [spectral_norm(weight) for weight in self.weights]

    @cached_property
    def _backward(self) -> list[Float[np.ndarray, "n m"]]:
        found = [np.broadcast_to(self.signs, self.layers[-1].shape)]
        for layer in range(self.depth + 1, 1, -1):
            pulled = (self.mask(layer) * found[0]) @ self.weights[layer - 1].T
            found.insert(0, pulled if layer == self.depth + 1 else found[0] + self.theta * pulled)
        return found

    def q(self, layer: int) -> Float[np.ndarray, "n m"]:
        r"""Return $q_l = (H_{l+1}^{L+1})^\top v$ of every example."""
        return self._backward[layer - 1]

    def b(self, layer: int) -> Float[np.ndarray, "n m"]:
        r"""Return $\Sigma_l q_l$, which with $x_{l-1}$ makes the gradient."""
        return self.mask(layer) * self.q(layer)


def residual_pass(network: ResidualReLU, params: Mapping[str, ArrayLike], x: ArrayLike) -> Pass:
    """Run the network on a batch and keep what the paper's statements speak of.

    Examples
    --------
    >>> network = ResidualReLU(input_dim=3, width=8, depth=2)
    >>> seen = residual_pass(network, network.init(0), np.eye(3))
    >>> bool(np.allclose(seen.outputs, np.sum(seen.q(1) * seen.x(1), axis=1)))
    True
    """
    weights = [np.asarray(params[f"W{layer}"], float) for layer in range(1, network.depth + 2)]
    layers, values = _forward(x, network.depth, network.theta, lambda layer, u: u @ weights[layer - 1])
    return Pass(network.theta, layers, values, weights)


def pass_in_law(network: ResidualReLU, x: ArrayLike, rng: np.random.Generator, first: ArrayLike | None = None) -> Pass:
    r"""Draw a pass through a fresh network for a few inputs, without its $m \times m$ weights.

    Given the layer below, the $m$ units of a layer are independent, and one unit's values on the inputs are
    $N(0, \frac2m \langle x_i, x_j \rangle)$: the layers have exactly the law of a network drawn by the paper's rule,
    at a cost of $m n^2$ a layer. `first` gives $W_1$ where it is needed.

    Examples
    --------
    >>> seen = pass_in_law(ResidualReLU(3, 10**5, 2), np.eye(3), np.random.default_rng(0))
    >>> bool(np.all(np.abs(np.linalg.norm(seen.x(1), axis=1) - 1) < 0.02))
    True
    """

    def draw(layer: int, u: Float[np.ndarray, "n _"]) -> Float[np.ndarray, "n m"]:
        if layer == 1 and first is not None:
            return u @ np.asarray(first)
        values, vectors = np.linalg.eigh(u @ u.T)
        root = vectors * np.sqrt(np.maximum(values, 0))
        width = network.sizes()[layer]
        return np.sqrt(2 / width) * (root @ rng.standard_normal((len(u), width)))

    return Pass(network.theta, *_forward(x, network.depth, network.theta, draw), [])


def _forward(
    x: ArrayLike, depth: int, theta: float, linear: Layer
) -> tuple[list[Float[np.ndarray, "n _"]], list[Float[np.ndarray, "n m"]]]:
    layers, values = [np.asarray(x, float)], []
    for layer in range(1, depth + 2):
        values.append(linear(layer, layers[-1]))
        branch = np.maximum(values[-1], 0)
        layers.append(layers[-1] + theta * branch if 2 <= layer <= depth else branch)
    return layers, values


class Interlayer(NamedTuple):
    r"""$H_l^{l'}(x)$ as an operator that is never formed."""

    shape: tuple[int, int]
    apply: Callable[[np.ndarray], np.ndarray]
    adjoint: Callable[[np.ndarray], np.ndarray]

    def dense(self) -> Float[np.ndarray, "m p"]:
        """Return the matrix."""
        return self.apply(np.eye(self.shape[1]))

    def norm(self) -> float:
        """Return the spectral norm: of the matrix where it is small, else by Lanczos iteration."""
        if min(self.shape) <= SMALL:
            return spectral_norm(self.dense())
        return operator_norm(self.shape, self.apply, self.adjoint)


def interlayer(
    seen: Pass, first: int, last: int, example: int = 0, masks: list[Bool[np.ndarray, "m"]] | None = None
) -> Interlayer:
    r"""Return $H_l^{l'}(x)$ for $2 \le l \le l' + 1$: $(I + \theta \Sigma_{l'} W_{l'}^\top) \cdots (I + \theta \Sigma_l
    W_l^\top)$, with $\Sigma_{L+1} W_{L+1}^\top$ in front where $l' = L + 1$; the identity for $l = l' + 1$.

    `masks` puts other diagonals (from layer `first` on) in place of the activation patterns.

    Examples
    --------
    >>> network = ResidualReLU(input_dim=3, width=8, depth=2)
    >>> seen = residual_pass(network, network.init(0), np.eye(3))
    >>> bool(np.allclose(interlayer(seen, 2, 3).apply(seen.x(1)[0]), seen.x(3)[0]))
    True
    """
    if not 2 <= first <= last + 1 <= seen.depth + 2:
        raise ValueError(f"H_l^l' needs 2 <= l <= l' + 1 <= {seen.depth + 2}, got l = {first}, l' = {last}")
    steps = range(first, last + 1)
    diagonals = {layer: seen.mask(layer)[example] if masks is None else masks[layer - first] for layer in steps}
    final = seen.depth + 1

    def apply(a: Float[np.ndarray, "m *columns"]) -> Float[np.ndarray, "m *columns"]:
        for layer in steps:
            branch = (diagonals[layer] * (seen.weights[layer - 1].T @ a).T).T
            a = branch if layer == final else a + seen.theta * branch
        return a

    def adjoint(a: Float[np.ndarray, "m *columns"]) -> Float[np.ndarray, "m *columns"]:
        for layer in reversed(steps):
            branch = seen.weights[layer - 1] @ (diagonals[layer] * a.T).T
            a = branch if layer == final else a + seen.theta * branch
        return a

    rows = seen.x(last).shape[1]
    return Interlayer((rows, seen.x(first - 1).shape[1]), apply, adjoint)


def gradient_norms(seen: Pass) -> Float[np.ndarray, "n layers"]:
    r"""Return $\|\nabla_{W_l} f(x_i)\|_F = \theta^{1(2\le l\le L)} \|x_{l-1}\|\,\|\Sigma_l q_l\|$, `(n, L + 1)`."""
    norm = np.linalg.norm
    steps = range(1, seen.depth + 2)
    return np.stack(
        [seen.scale(layer) * norm(seen.x(layer - 1), axis=1) * norm(seen.b(layer), axis=1) for layer in steps], axis=1
    )


def surrogate_error(signed: ArrayLike) -> float:
    r"""Return $\mathcal E = -\frac1n \sum_i \ell'(y_i f(x_i))$ from the products $y_i f(x_i)$.

    >>> surrogate_error([0.0, 0.0])
    0.5
    """
    return float(expit(-np.asarray(signed, float)).mean())


def logistic_loss(signed: ArrayLike) -> float:
    r"""Return $\frac1n \sum_i \log(1 + e^{-y_i f(x_i)})$."""
    return float(np.logaddexp(0, -np.asarray(signed, float)).mean())


def loss_gradients(seen: Pass, y: ArrayLike) -> list[Float[np.ndarray, "_ m"]]:
    r"""Return $\nabla_{W_l} L_S = \frac1n \sum_i \ell'(y_i f_i)\, y_i \nabla_{W_l} f(x_i)$ for $l = 1..L+1$."""
    labels = np.asarray(y, float)
    slopes = -labels * expit(-labels * seen.outputs) / len(labels)
    return [seen.scale(layer) * seen.x(layer - 1).T @ (slopes[:, None] * seen.b(layer)) for layer in seen.steps]


def unit_gradients(seen: Pass, y: ArrayLike, weights: ArrayLike) -> Float[np.ndarray, "m m"]:
    r"""Return $g_j = \frac1n \sum_i a_i y_i \sigma'(w_{L+1,j}^\top x_{L,i})\, x_{L,i}$ for every last unit, `(m, m)`.

    With $a_i = -\ell'(y_i f_i)$ of other weights these are, up to the sign $-v_j$, the paper's $g_j$.
    """
    labelled = np.asarray(weights, float) * np.asarray(y, float) / len(seen.outputs)
    return (seen.mask(seen.depth + 1) * labelled[:, None]).T @ seen.x(seen.depth)


def least_unit_gradients(seen: Pass, y: ArrayLike) -> float:
    r"""Return $\min_a \sum_j \|g_j(a)\|^2 / (\frac1n \sum_i a_i)^2$ over all weights $a \ge 0$, exactly.

    The sum is a quadratic form in $a$ with the Gram matrix of $y_i x_{L,i} \otimes \mathrm{diag}\, \Sigma_{L+1,i}$, so
    the minimum is the squared distance of the hull of those vectors from zero.
    """
    labels, masks = np.asarray(y, float), seen.mask(seen.depth + 1).astype(float)
    gram = np.outer(labels, labels) * (seen.x(seen.depth) @ seen.x(seen.depth).T) * (masks @ masks.T)
    values, vectors = np.linalg.eigh(gram)
    return nearest_in_hull(vectors * np.sqrt(np.maximum(values, 0)))[0] ** 2


class HullPoint(NamedTuple):
    """The distance of a convex hull from zero, and the weights of its nearest point."""

    distance: float
    weights: Float[np.ndarray, "n"]


def nearest_in_hull(points: ArrayLike) -> HullPoint:
    r"""Return $\min_{p \in \Delta_n} \|\sum_i p_i z_i\|_2$ for the rows $z_i$.

    $\min_{p \ge 0} \|Z^\top p\|^2 + (1 - \sum p)^2$ has the same direction $p$ as the problem on the simplex, and
    non-negative least squares solves it by active sets.

    Examples
    --------
    >>> nearest_in_hull([[1.0, 1.0], [1.0, -1.0]]).distance
    1.0
    """
    z = np.asarray(points, float)
    size = np.abs(z).max()
    if size == 0:
        return HullPoint(0.0, np.full(len(z), 1 / len(z)))
    triangle = np.linalg.qr((z / size).T, mode="r")
    weights = nnls(np.vstack([triangle, np.ones(len(z))]), np.r_[np.zeros(len(triangle)), 1.0])[0]
    weights = weights / weights.sum()
    return HullPoint(float(np.linalg.norm(weights @ z)), weights)


def layer_margin(features: ArrayLike, y: ArrayLike) -> float:
    r"""Return $\max_{\|\alpha\|=1} \min_i y_i \langle \alpha, x_i \rangle$; 0 if no direction separates.

    Examples
    --------
    >>> round(layer_margin([[1.0, 0.5], [-1.0, 0.5]], [1, -1]), 12)
    1.0
    """
    signed = np.asarray(y, float)[:, None] * np.asarray(features, float)
    distance, weights = nearest_in_hull(signed)
    if distance <= 1e-9 * np.abs(signed).max():
        return 0.0
    return float((signed @ (weights @ signed)).min() / distance)
