r"""What Zou et al. (2018) measure in a deep ReLU network, from one pass through it.

With activation matrices $\Sigma_{l,i} = \mathrm{Diag}(1\{W_l^\top x_{l-1,i} > 0\})$ a pass is a product of matrices:

$$ x_{l,i} = \Sigma_{l,i} W_l^\top x_{l-1,i}, \qquad
   b_{l,i} = \Sigma_{l,i} W_{l+1} \Sigma_{l+1,i} \cdots W_L \Sigma_{L,i} v, \qquad
   \nabla_{W_l} f(x_i) = x_{l-1,i} b_{l,i}^\top, $$

and $q_{l,i} = W_l b_{l,i}$ is the output as a linear form in $x_{l-1,i}$. Layers are counted from 1, as in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike
from scipy.optimize import nnls

from wideproof.monitors.norms import SMALL, operator_norm
from wideproof.monitors.recorded_pass import trace
from wideproof.monitors.sparse import top_norms
from wideproof.networks import DeepReLU


@dataclass(frozen=True)
class ReLUPass:
    r"""One pass on $n$ examples; rows are examples, tuples are over layers.

    Attributes
    ----------
    weights
        $W_1, \dots, W_L$, units as columns.
    signs
        The output signs $v$.
    layers
        $x_0, \dots, x_L$: one entry more than the others.
    values
        $W_l^\top x_{l-1}$ for $l = 1..L$.
    back
        $b_1, \dots, b_L$.
    outputs
        $f(x_i)$.
    """

    weights: tuple[Float[np.ndarray, "_ _"], ...]
    signs: Float[np.ndarray, "m"]
    layers: tuple[Float[np.ndarray, "n _"], ...]
    values: tuple[Float[np.ndarray, "n _"], ...]
    back: tuple[Float[np.ndarray, "n _"], ...]
    outputs: Float[np.ndarray, "n"]

    @property
    def depth(self) -> int:
        """The number of hidden layers."""
        return len(self.weights)

    @property
    def width(self) -> int:
        r"""The least width $m$."""
        return min(w.shape[1] for w in self.weights)

    @property
    def widest(self) -> int:
        r"""The largest width $M$."""
        return max(w.shape[1] for w in self.weights)

    def mask(self, layer: int) -> Bool[np.ndarray, "n m"]:
        r"""Return the diagonals of $\Sigma_{l,i}$, one row per example."""
        return self.values[layer - 1] > 0

    def form(self, layer: int) -> Float[np.ndarray, "n m"]:
        r"""Return $q_{l,i} = W_l b_{l,i}$, one row per example."""
        return self.back[layer - 1] @ self.weights[layer - 1].T

    def only(self, examples: ArrayLike | slice) -> ReLUPass:
        """Return the pass on some of the examples."""
        keep = examples if isinstance(examples, slice) else np.asarray(examples)
        layers, values, back = (tuple(a[keep] for a in part) for part in (self.layers, self.values, self.back))
        return ReLUPass(self.weights, self.signs, layers, values, back, self.outputs[keep])


def relu_pass(network: DeepReLU, params: Mapping[str, ArrayLike], x: ArrayLike) -> ReLUPass:
    """Run the network on a batch and arrange what the paper speaks of by layer.

    Examples
    --------
    >>> network = DeepReLU(input_dim=3, width=4, depth=2)
    >>> seen = relu_pass(network, network.init(0), np.eye(3))
    >>> bool(np.allclose(seen.outputs, np.sum(seen.form(2) * seen.layers[1], axis=1)))
    True
    """
    weights = {name: np.asarray(weight, float) for name, weight in params.items()}
    found = trace(network, weights, np.asarray(x, float))
    names = [f"W{layer}" for layer in range(1, network.depth + 1)]
    return ReLUPass(
        tuple(weights[name] for name in names),
        weights["v"],
        (np.asarray(x, float), *found.features),
        tuple(found.values[name][0] for name in names),
        tuple(found.cotangents[name][0] for name in names),
        found.outputs,
    )


def gradients(seen: ReLUPass, c: ArrayLike) -> tuple[Float[np.ndarray, "_ _"], ...]:
    r"""Return $\sum_i c_i \nabla_{W_l} f(x_i) = \sum_i c_i x_{l-1,i} b_{l,i}^\top$ for every layer.

    With $c_i = \ell'(y_i f(x_i)) y_i / n$ it is $\nabla_{W_l} L_S$.
    """
    weights = np.asarray(c, float)[:, None]
    return tuple((weights * x).T @ b for x, b in zip(seen.layers, seen.back, strict=False))


def tangent_gram(seen: ReLUPass) -> Float[np.ndarray, "n n"]:
    r"""Return $\sum_l (X_{l-1} X_{l-1}^\top) \circ (B_l B_l^\top)$, the inner products of all gradients."""
    return layer_grams(seen).sum(axis=0)


def layer_grams(seen: ReLUPass) -> Float[np.ndarray, "L n n"]:
    r"""Return $(X_{l-1} X_{l-1}^\top) \circ (B_l B_l^\top)$ for every layer, stacked."""
    return np.stack([(x @ x.T) * (b @ b.T) for x, b in zip(seen.layers, seen.back, strict=False)])


def interlayer(seen: ReLUPass, example: int, first: int, last: int, closed: bool = False) -> Float[np.ndarray, "m p"]:
    r"""Return $W_{l_2}^\top \prod_{r=l_1}^{l_2-1} \Sigma_{r,i} W_r^\top$ as a matrix, $1 \le l_1 \le l_2 \le L$.

    `closed` multiplies by $\Sigma_{l_2,i}$ as well: then it maps $x_{l_1-1,i}$ to $x_{l_2,i}$.

    Examples
    --------
    >>> network = DeepReLU(input_dim=3, width=4, depth=2)
    >>> seen = relu_pass(network, network.init(0), np.eye(3))
    >>> bool(np.allclose(interlayer(seen, 0, 1, 2, closed=True) @ seen.layers[0][0], seen.layers[2][0]))
    True
    """
    product = seen.weights[first - 1].T
    for layer in range(first + 1, last + 1):
        product = seen.weights[layer - 1].T @ (seen.mask(layer - 1)[example][:, None] * product)
    return seen.mask(last)[example][:, None] * product if closed else product


def interlayer_norm(seen: ReLUPass, example: int, first: int, last: int, closed: bool = False) -> float:
    r"""Return the spectral norm of `interlayer`, without forming the product where it is large."""
    columns, rows = seen.weights[first - 1].shape[0], seen.weights[last - 1].shape[1]
    if min(rows, columns) <= SMALL and max(rows, columns) <= 2 * SMALL:
        return float(np.linalg.norm(interlayer(seen, example, first, last, closed), 2))
    masks = [seen.mask(layer)[example] for layer in range(first, last + 1)]
    masks[-1] = masks[-1] if closed else np.ones_like(masks[-1])
    steps = list(zip(seen.weights[first - 1 : last], masks, strict=True))

    def apply(vector: Float[np.ndarray, "_"]) -> Float[np.ndarray, "_"]:
        for weight, mask in steps:
            vector = mask * (weight.T @ vector)
        return vector

    def adjoint(vector: Float[np.ndarray, "_"]) -> Float[np.ndarray, "_"]:
        for weight, mask in reversed(steps):
            vector = weight @ (mask * vector)
        return vector

    return operator_norm((rows, columns), lambda v: apply(v.ravel()), lambda v: adjoint(v.ravel()))


def sparse_output(seen: ReLUPass, layer: int) -> Float[np.ndarray, "n s"]:
    r"""Return $\sup\{v^\top (\prod_{r=l}^L \Sigma_{r,i} W_r^\top) a : \|a\|_2 = 1, \|a\|_0 \le s\}$, exactly.

    One row per example and one column for every $s$: the norm of the $s$ largest entries of $q_{l,i}$.
    """
    return top_norms(seen.form(layer))


def node_gradient_norms(seen: ReLUPass, labels: ArrayLike, a: ArrayLike) -> Float[np.ndarray, "m"]:
    r"""Return $\|\frac1n \sum_i a_i y_i \sigma'(\langle w_{L,j}, x_{L-1,i}\rangle) x_{L-1,i}\|_2$ of every unit $j$.

    Examples
    --------
    >>> network = DeepReLU(input_dim=3, width=4, depth=2)
    >>> seen = relu_pass(network, network.init(0), np.eye(3))
    >>> node_gradient_norms(seen, [1, -1, 1], np.ones(3)).shape
    (4,)
    """
    features = seen.layers[-2]
    weights = (np.asarray(a, float) * np.asarray(labels, float) / len(features))[:, None] * seen.mask(seen.depth)
    squares = np.einsum("ij,ij->j", weights, (features @ features.T) @ weights)
    return np.sqrt(np.maximum(squares, 0))


def last_layer_form(seen: ReLUPass, labels: ArrayLike) -> Float[np.ndarray, "n n"]:
    r"""Return the matrix $Q$ with $\|\nabla_{W_L} L_S\|_F^2 = a^\top Q a$ for the slopes $a_i = -\ell'(y_i f(x_i))$.

    $Q_{ii'} = y_i y_{i'} \langle x_{L-1,i}, x_{L-1,i'}\rangle K_{ii'} / n^2$, $K$ counting units active on both.
    """
    y, n = np.asarray(labels, float), len(seen.outputs)
    active = seen.mask(seen.depth).astype(float)
    return np.outer(y, y) * (seen.layers[-2] @ seen.layers[-2].T) * (active @ active.T) / n**2


class Worst(NamedTuple):
    r"""The least value $c^*$ of a form over the simplex and the weights that reach it."""

    value: float
    weights: Float[np.ndarray, "n"]


def worst_weights(form: ArrayLike) -> Worst:
    r"""Return $\min\{a^\top Q a : a \ge 0, \sum_i a_i = 1\}$ for positive semidefinite $Q$, exactly.

    Non-negative least squares on $[R; 1^\top] a = e_{\text{last}}$ with $Q = R^\top R$, normalized afterwards.

    Examples
    --------
    >>> worst = worst_weights(np.diag([1.0, 3.0]))
    >>> round(worst.value, 12), worst.weights.round(12).tolist()
    (0.75, [0.75, 0.25])
    """
    q = np.asarray(form, float)
    values, vectors = np.linalg.eigh(q)
    scale = max(float(values[-1]), np.finfo(float).tiny)
    root = np.sqrt(np.maximum(values, 0) / scale)[:, None] * vectors.T
    a, _ = nnls(np.vstack([root, np.ones(len(q))]), np.eye(len(q) + 1)[-1])
    a = a / a.sum()
    return Worst(float(a @ q @ a), a)


def gradient_norms(seen: ReLUPass, c: ArrayLike) -> Float[np.ndarray, "L"]:
    r"""Return $\|\sum_i c_i \nabla_{W_l} f(x_i)\|_2$ for every layer: rank $n$, from two triangular factors."""
    weights, norms = np.asarray(c, float)[:, None], []
    for x, b in zip(seen.layers, seen.back, strict=False):
        left, right = (np.asarray(np.linalg.qr(part.T, mode="r")) for part in (weights * x, b))
        norms.append(float(np.linalg.norm(left @ right.T, 2)))
    return np.array(norms)


def upper_ratios(seen: ReLUPass, slopes: ArrayLike, labels: ArrayLike) -> Float[np.ndarray, "L"]:
    r"""Return $n \|\nabla_{W_l} L_S\|_2 / (\sqrt M \sum_i |\ell'_i|)$ for every layer."""
    a = np.abs(np.asarray(slopes, float))
    return gradient_norms(seen, a * np.asarray(labels, float)) / (np.sqrt(seen.widest) * a.sum())


def descent_coefficients(
    losses: ArrayLike, slope_sums: ArrayLike, step_size: float, width: int
) -> Float[np.ndarray, "k"]:
    r"""Return $\gamma_k = (L_S(k) - L_S(k+1)) / (\eta m S_k^2)$ along a run, $S = \sum_i |\ell'_i|$."""
    loss, sums = np.asarray(losses, float), np.asarray(slope_sums, float)
    return (loss[:-1] - loss[1:]) / (step_size * width * sums[: len(loss) - 1] ** 2)


def linear_parts(seen: ReLUPass, c: ArrayLike, step_size: float) -> Float[np.ndarray, "L n"]:
    r"""Return $u_{l,i} = -\eta\, b_{l,i}^\top (\sum_{i'} c_{i'} \nabla_{W_l} f(x_{i'}))^\top x_{l-1,i}$, by layer.

    The change of $f(x_i)$ to first order when $W_l$ moves by $-\eta \sum_{i'} c_{i'} \nabla_{W_l} f(x_{i'})$.
    """
    return -step_size * layer_grams(seen) @ np.asarray(c, float)


def remainder(before: ReLUPass, after: ReLUPass, c: ArrayLike, step_size: float) -> Float[np.ndarray, "n"]:
    r"""Return $f(x_i)$ after a step, minus before, minus $\sum_l u_{l,i}$: what the linearization misses.

    Examples
    --------
    >>> network = DeepReLU(input_dim=3, width=4, depth=2)
    >>> params = network.init(0)
    >>> seen = relu_pass(network, params, np.eye(3))
    >>> moves = gradients(seen, np.ones(3))
    >>> moved = {"W1": params["W1"] - 1e-6 * moves[0], "W2": params["W2"] - 1e-6 * moves[1], "v": params["v"]}
    >>> bool(np.abs(remainder(seen, relu_pass(network, moved, np.eye(3)), np.ones(3), 1e-6)).max() < 1e-9)
    True
    """
    return after.outputs - before.outputs - linear_parts(before, c, step_size).sum(axis=0)
