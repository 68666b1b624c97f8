r"""Gram matrices at infinite width, for every network, layer by layer or in sum.

$G / \text{factor}$ converges as the width grows; what is returned is the limit times the factor at the network's own
width, so that it can be put next to the Gram matrix of the finite network. Du's networks have factor 1; the parts of
the hidden weights of the ReLU networks (entries of variance $2/m$) grow in proportion to $m$.

Three routes, by what the data allow: vectors of one norm (and any vectors where the network is homogeneous) need one
polynomial in their correlation for the whole depth; activations with closed forms go layer by layer; the others use a
table in two variances and the correlation.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, PyTree

from wideproof.kernels import duals
from wideproof.kernels.contraction import AnyArray
from wideproof.kernels.correlations import correlation_and_gap, directions, leading_bits
from wideproof.kernels.finite import ROUNDOFF, check_names, require_finite, require_precision
from wideproof.kernels.gram_result import Gram, why_singular
from wideproof.kernels.interpolants import Interpolant, interpolate
from wideproof.kernels.recursion import COVARIANCE, Groups, Moments, moments, node_recursion, pair_recursion
from wideproof.kernels.sequences import SequenceKernel, relu_duals, token_arrays
from wideproof.kernels.sharded import assemble
from wideproof.kernels.tables import DualTable
from wideproof.kernels.tiles import Kernel
from wideproof.networks import LayeredLimit, Network, RecurrentLimit
from wideproof.precision import double

# Squared norms that agree to this are one norm.
SAME_NORM = 1e-13

# Inputs and moments by name, and for each layer the features of the standard deviations.
LayerRecord = tuple[Mapping[str, Array], list[Array]]


@double
def limit_gram(
    network: Network,
    x: ArrayLike,
    other: ArrayLike | None = None,
    *,
    names: Sequence[str] | None = None,
    by_weight: bool = False,
    precision: str = "float64",
    memory: int | None = None,
    on_device: bool = False,
) -> Gram:
    """Return the infinite-width Gram matrix on `x`, or between `x` and `other`, for one output coordinate.

    In the limit the output coordinates are independent and identically distributed, so every coordinate of a network
    with several outputs has this matrix. It is scaled to the network's own width: the parts of the hidden weights of
    the ReLU networks, whose entries have variance $2/m$, grow like $m/2$. Recurrent networks have one row for each
    example and scored time step.

    Parameters
    ----------
    network
        The network; its width sets the scale.
    x
        Inputs, with the examples along the first axis.
    other
        A second set of inputs, for the matrix between both.
    names
        The weights to sum over; by default the trained ones.
    by_weight
        Also return the part of each weight, in `blocks`.
    precision
        `"float64"`, `"float32"`, or `"tf32"` on an NVIDIA GPU.
    memory
        Bytes of working memory besides the matrix; by default 2 GiB, or a quarter of a GPU's memory.
    on_device
        Leave the matrix on the device, as a JAX array.

    Returns
    -------
    Gram
        The matrix, with a bound on its error.

    Examples
    --------
    Depth 1, softplus, orthogonal inputs of norm 1 (only the read-out sees them both):

    >>> import numpy as np
    >>> from wideproof.networks import FullyConnected
    >>> limit_gram(FullyConnected(input_dim=2, width=1, depth=1), np.eye(2)).matrix.round(6)
    array([[1.318459, 0.705275],
           [0.705275, 1.318459]])
    """
    chosen = check_names(network, names)
    groups = tuple((name, (name,)) for name in chosen) if by_weight else (("total", chosen),)
    found, error = _assemble(network, groups, x, other, precision, memory, on_device)
    total = reduce(operator.add, found.values()) if by_weight else found["total"]
    singular = why_singular(x) if other is None and not on_device else ""
    return Gram(total, chosen, "limit", precision, jax.default_backend(), error, found if by_weight else {}, singular)


@double
def nngp(
    network: Network,
    x: ArrayLike,
    other: ArrayLike | None = None,
    *,
    precision: str = "float64",
    memory: int | None = None,
    on_device: bool = False,
) -> Gram:
    r"""Return the covariance of one output coordinate over random initial weights, at infinite width.

    With fixed balanced signs (Zou et al., Frei et al.) the mean of the features cancels: $S^{(L)}_{ij} - b_i b_j$, on
    the diagonal $(1 - 1/\pi)\|x\|^2$.

    Parameters
    ----------
    network
        The network.
    x
        Inputs, with the examples along the first axis.
    other
        A second set of inputs, for the covariance between both.
    precision
        `"float64"`, `"float32"`, or `"tf32"` on an NVIDIA GPU.
    memory
        Bytes of working memory besides the matrix; by default 2 GiB, or a quarter of a GPU's memory.
    on_device
        Leave the matrix on the device, as a JAX array.

    Returns
    -------
    Gram
        The covariance matrix, with a bound on its error.

    Examples
    --------
    >>> import numpy as np
    >>> from wideproof.networks import DeepReLU
    >>> float(nngp(DeepReLU(input_dim=2, width=2, depth=1), np.eye(2)).matrix[0, 0].round(6))
    0.68169
    """
    found, error = _assemble(network, ((COVARIANCE, ()),), x, other, precision, memory, on_device)
    singular = why_singular(x) if other is None and not on_device else ""
    return Gram(found[COVARIANCE], (), "nngp", precision, jax.default_backend(), error, {}, singular)


class Pairs(NamedTuple):
    """A kernel of pairs of examples, and what it needs to compute any block of a matrix.

    Attributes
    ----------
    kernel
        Computes a block of the matrix from two sets of records.
    state
        Arrays that `kernel` needs for every block, such as tables of dual functions.
    sides
        The arrays of each side, with the examples along the first axis.
    error
        The error of an entry relative to the largest entry.
    """

    kernel: Kernel
    state: PyTree[AnyArray]
    sides: tuple[PyTree[Array], ...]
    error: float


@double
def limit_pairs(
    network: Network,
    *sides: ArrayLike,
    names: Sequence[str] | None = None,
    covariance: bool = False,
    precision: str = "float64",
    on_device: bool = False,
) -> Pairs:
    """Return a kernel that computes any block of an infinite-width matrix between examples of the given sides.

    Parameters
    ----------
    network
        Its width sets the scale of ReLU networks.
    *sides
        Sets of inputs, each with the examples along the first axis.
    names
        The weights to sum over; by default the trained ones.
    covariance
        Compute the covariance of the outputs (`nngp`) instead of the Gram matrix (`limit_gram`).
    precision
        `"float64"` or `"float32"`.
    on_device
        Prepare the examples on the device, and leave them there.

    Returns
    -------
    Pairs
        The kernel, its state, the arrays of each side, and its relative error.

    Examples
    --------
    >>> import numpy as np
    >>> from wideproof.networks import DeepReLU
    >>> found = limit_pairs(DeepReLU(input_dim=2, width=2, depth=1), np.eye(2))
    >>> found.kernel.keys
    ('total',)
    """
    groups = ((COVARIANCE, ()),) if covariance else (("total", check_names(network, names)),)
    return _pairs(network, groups, sides, precision, on_device)


def _pairs(network: Network, groups: Groups, sides: Sequence[ArrayLike], precision: str, on_device: bool) -> Pairs:
    dtype = require_precision(precision)
    given = [_side(network, side, on_device) for side in sides]
    limit = network.limit()
    if isinstance(limit, RecurrentLimit):
        kernel, state, inputs, relative = _sequences(limit, groups, [np.asarray(side) for side in given])
    else:
        kernel, state, inputs, relative = _layers(limit, groups, given, precision)
    arrays = tuple(jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), side) for side in inputs)
    relative += ROUNDOFF[precision] * (given[0][0].size + 64 * _depth(limit))
    return Pairs(kernel, state, arrays, relative)


def _side(network: Network, x: ArrayLike, on_device: bool) -> AnyArray:
    """Return examples of finite numbers, on the host unless they are to stay where JAX computes."""
    batch = network.as_batch({"": np.zeros(0)}, x)
    if on_device and bool(jnp.isfinite(batch).all()):
        return batch
    return np.asarray(require_finite(batch))


def _assemble(
    network: Network,
    groups: Groups,
    x: ArrayLike,
    other: ArrayLike | None,
    precision: str,
    memory: int | None,
    on_device: bool,
) -> tuple[Mapping[str, AnyArray], float]:
    sides = (x,) if other is None else (x, other)
    with jax.default_matmul_precision("tensorfloat32" if precision == "tf32" else "highest"):
        kernel, state, arrays, relative = _pairs(network, groups, sides, precision, on_device)
        found = assemble(kernel, state, arrays[0], arrays[1] if other is not None else None, memory)
    # Two reductions: the absolute values would be a second matrix in memory.
    largest = max(max(float(m.max(initial=0)), -float(m.min(initial=0))) for m in found.values())
    error = relative * len(found) * largest * math.sqrt(next(iter(found.values())).size)
    return (found if on_device else {key: np.asarray(matrix) for key, matrix in found.items()}), error


def _depth(limit: LayeredLimit | RecurrentLimit) -> int:
    return len(limit.layers) if isinstance(limit, LayeredLimit) else len(limit.recurrent)


def _sequences(
    limit: RecurrentLimit, groups: Groups, sides: list[np.ndarray]
) -> tuple[SequenceKernel, Interpolant, list[dict[str, np.ndarray]], float]:
    kernel = SequenceKernel(limit, groups, sides[0].shape[1])
    interpolant = relu_duals()
    error = 4 * sides[0].shape[1] * max(map(float, interpolant.error.values()))
    return kernel, interpolant, [token_arrays(limit, s) for s in sides], error


def _layers(
    limit: LayeredLimit, groups: Groups, sides: list[AnyArray], precision: str
) -> tuple[Kernel, Interpolant | list[DualTable], list[dict[str, AnyArray]], float]:
    # Positions before channels; a vector is an image of one position.
    pixels = [s.swapaxes(1, 2) if s.ndim == 3 else s[:, None, :] for s in sides]
    squares = [np.asarray(_squares(s)) for s in pixels]
    everything = np.concatenate(squares)
    low, high = everything.min(initial=np.inf), everything.max(initial=0.0)
    if limit.window is None and (limit.homogeneous or high - low <= SAME_NORM * high):
        level = 1.0 if limit.homogeneous else float(everything.mean())
        interpolant = _whole_depth(limit, groups, level)
        error = max(map(float, interpolant.error.values()))
        kinked = limit.activation.smoothness is None
        kernel = CorrelationKernel(tuple(key for key, _ in groups), limit.homogeneous, kinked)
        return kernel, interpolant, [directions(s[:, 0]) for s in pixels], error
    known = [moments(limit, q) for q in squares]
    tables: list[DualTable] = []
    if duals.closed_form(limit.activation) is None:
        for h in range(len(limit.layers)):
            spread = np.sqrt(np.concatenate([k.variances[h].ravel() for k in known]))
            tables.append(DualTable.build(limit.activation, float(spread.min()), float(spread.max())))
    error = float(sum(max(map(float, t.error.values())) for t in tables))
    if limit.activation.smoothness is None:
        # At parallel patches the correlation is rounded, and the ReLU's kernel moves with the root of that.
        error += len(limit.layers) * math.sqrt(2 * ROUNDOFF[precision] * (pixels[0][0].size + 16))
    kernel = LayerKernel(limit, groups)
    return kernel, tables, [_arrays(p, k) for p, k in zip(pixels, known, strict=True)], error


def _squares(pixels: AnyArray) -> AnyArray:
    """Return the squared norms of every position, computed where the examples are."""
    return (jnp if isinstance(pixels, jax.Array) else np).einsum("ilc,ilc->il", pixels, pixels)


def _arrays(pixels: AnyArray, known: Moments) -> dict[str, AnyArray]:
    stacked = {"variances": known.variances, "means": known.means, "offsets": known.offsets}
    columns = {key: np.stack(values, axis=1) for key, values in stacked.items()}
    return {"x": pixels, **columns, "last": known.last_offset}


@lru_cache(maxsize=64)
def _whole_depth(limit: LayeredLimit, groups: Groups, square: float) -> Interpolant:
    """Fit every wanted matrix as a function of the correlation, for vectors of one squared norm."""
    known = moments(limit, np.full((1, 1), square))
    last = float(known.last_offset.ravel()[0])

    def at(theta: np.ndarray) -> dict[str, np.ndarray]:
        found = node_recursion(limit, groups, known, theta)
        out = {key: np.broadcast_to(_wanted(limit, found, key, last * last), theta.shape) for key, _ in groups}
        return {key: np.asarray(values, float) for key, values in out.items()}

    return interpolate(at, count=3000)


def _wanted(
    limit: LayeredLimit, found: Mapping[str, AnyArray | None], key: str, mean_product: AnyArray | float
) -> AnyArray | float:
    values = found[key]
    if values is None:
        return 0.0
    return values - mean_product if key == COVARIANCE and limit.signs else values


@dataclass(frozen=True)
class CorrelationKernel(Kernel[Interpolant, Mapping[str, Array]]):
    """Matrices that are functions of the correlation alone; the state is their interpolant."""

    matrices: tuple[str, ...]
    scaled: bool
    kinked: bool

    @property
    def family(self) -> tuple[Hashable, ...]:
        """Polynomials of the correlation, with or without a kink."""
        return ("an infinite-width Gram matrix of vectors of one norm", self.scaled, self.kinked)

    @property
    def rows(self) -> int:
        """One output."""
        return 1

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the matrices."""
        return self.matrices

    def record(self, state: Interpolant, x: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return the directions, the norms, and for a kink the leading bits of the directions."""
        return {**x, **leading_bits(x["x"])} if self.kinked else x

    def block(self, state: Interpolant, left: Mapping[str, Array], right: Mapping[str, Array]) -> dict[str, Array]:
        """Evaluate the polynomials at the correlations."""
        found = state(*correlation_and_gap(left, right)) if self.kinked else state(left["x"] @ right["x"].T)
        if not self.scaled:
            return found
        norms = left["norm"][:, None] * right["norm"][None, :]
        return {key: values * norms for key, values in found.items()}

    def pair_bytes(self, left: Mapping[str, jax.ShapeDtypeStruct]) -> float:
        """Return the bytes of temporaries for one pair of examples."""
        return left["x"].dtype.itemsize * (2.0 + 3 * self.kinked + 2 * len(self.matrices))


@dataclass(frozen=True)
class LayerKernel(Kernel[list[DualTable], LayerRecord]):
    """The recursion layer by layer; the state is one table for each layer, or nothing where closed forms exist."""

    limit: LayeredLimit
    groups: Groups

    @property
    def family(self) -> tuple[Hashable, ...]:
        """The recursion of one activation."""
        return (f"an infinite-width Gram matrix with {self.limit.activation.name}", self.limit.window is None)

    @property
    def rows(self) -> int:
        """One output."""
        return 1

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the matrices."""
        return tuple(key for key, _ in self.groups)

    def record(self, state: list[DualTable], x: Mapping[str, Array]) -> LayerRecord:
        """Return the moments, and the tables' features of the standard deviations."""
        features = [t.features(jnp.sqrt(x["variances"][:, h])) for h, t in enumerate(state)]
        return x, features

    def block(self, state: list[DualTable], left: LayerRecord, right: LayerRecord) -> dict[str, Array]:
        """Run the recursion for all pairs and positions."""
        limit, forms = self.limit, duals.closed_form(self.limit.activation)
        (ours, our_features), (theirs, their_features) = left, right
        inner = jnp.einsum("ilc,jlc->lij", ours["x"], theirs["x"])

        def sides(key: str, h: int) -> tuple[Array, Array]:
            return ours[key][:, h].T[:, :, None], theirs[key][:, h].T[:, None, :]

        def dual(which: int, h: int, p: AnyArray) -> Array:
            a, b = sides("variances", h)
            if forms is not None:
                return jnp.asarray(forms[which](jnp.broadcast_to(a, p.shape), jnp.broadcast_to(b, p.shape), p))
            scale = jnp.sqrt(a * b)
            rho = jnp.where(scale > 0, p / jnp.where(scale > 0, scale, 1), 0)
            phi, psi = (jnp.swapaxes(features[h], 0, 1) for features in (our_features, their_features))
            return (state[h].slope if which else state[h].value)(phi, psi, rho)

        def cross(h: int) -> Array:
            (b_i, b_j), (mu_i, mu_j) = sides("offsets", h), sides("means", h)
            return b_i * mu_j + mu_i * b_j

        found = pair_recursion(limit, self.groups, inner, lambda h, p: dual(0, h, p), lambda h, p: dual(1, h, p), cross)
        means = ours["last"].T[:, :, None] * theirs["last"].T[:, None, :]
        out = {key: _wanted(limit, found, key, means) for key in self.keys}
        return {key: jnp.broadcast_to(values, inner.shape).sum(axis=0) for key, values in out.items()}

    def pair_bytes(self, left: tuple[Mapping[str, jax.ShapeDtypeStruct], list[jax.ShapeDtypeStruct]]) -> float:
        """Return the bytes of temporaries for one pair of examples."""
        x = left[0]["x"]
        return x.dtype.itemsize * x.shape[1] * (12.0 + 2 * len(self.groups))
