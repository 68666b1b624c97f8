r"""The Gram matrix of a finite network, from the inputs and cotangents of every use of a weight.

$$ G_{(i,k),(j,l)} = \sum_W \langle \partial f_k(x_i)/\partial W, \partial f_l(x_j)/\partial W \rangle
   = \sum_W \sum_{\text{uses}} \langle u_i, u_j' \rangle \langle b_{ik}, b_{jl}' \rangle . $$

No Jacobian is formed, and weights shared over time or position are summed exactly.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial, reduce

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Bool

from wideproof.errors import InputError
from wideproof.kernels.contraction import AnyArray, Uses, plan_uses
from wideproof.kernels.gram_result import Gram, why_singular
from wideproof.kernels.sharded import assemble
from wideproof.kernels.tiles import Kernel
from wideproof.networks import Network, linearize
from wideproof.precision import as_dtype, double

ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "tf32": 2.0**-11}
Recorded = dict[str, tuple[AnyArray, ...]]  # by weight: inputs and cotangents of its uses, or its gradients


@double
def gram(
    network: Network,
    params: Mapping[str, ArrayLike],
    x: ArrayLike,
    other: ArrayLike | None = None,
    *,
    names: Sequence[str] | None = None,
    by_weight: bool = False,
    precision: str = "float64",
    memory: int | None = None,
    on_device: bool = False,
) -> Gram:
    """Return the Gram matrix of the scored outputs on `x`, or between `x` and `other`.

    Parameters
    ----------
    names
        The weights to sum over; by default the trained ones.
    by_weight
        Also keep the part of each weight, the paper's $G^{(h)}$, in `blocks`.
    precision
        `"float64"`, `"float32"`, or on a GPU `"tf32"` (float32 with the products of its tensor cores).
    memory
        Bytes of working memory besides the result, by default 2 GiB, or a quarter of a GPU's; less makes smaller tiles.
    on_device
        Leave the matrix where it was computed, as a JAX array, instead of handing it out as a NumPy array.

    Examples
    --------
    >>> import numpy as np
    >>> from wideproof.networks import FullyConnected
    >>> network = FullyConnected(input_dim=3, width=16, depth=2)
    >>> result = gram(network, network.init(0), np.eye(3), by_weight=True)
    >>> result.shape, list(result.blocks)
    ((3, 3), ['W1', 'W2', 'a'])
    """
    dtype = require_precision(precision)
    chosen = check_names(network, names)
    state = {name: jnp.asarray(weight, dtype) for name, weight in params.items()}
    left = require_finite(network.as_batch(state, x))
    right = None if other is None else require_finite(network.as_batch(state, other))
    with jax.default_matmul_precision("tensorfloat32" if precision == "tf32" else "highest"):
        kernel = finite_kernel(network, len(left), chosen, by_weight)
        found = dict(assemble(kernel, state, left, right, memory))
    if by_weight:
        found["total"] = reduce(operator.add, found.values())
    error = _rounding(kernel, found["total"], precision, right is None)
    found = {key: jnp.asarray(matrix) if on_device else np.asarray(matrix) for key, matrix in found.items()}
    total = found.pop("total")
    count = sum(state[name].size for name in chosen)
    singular = "" if right is not None else why_singular(x, len(total), count)
    return Gram(total, chosen, "finite", precision, jax.default_backend(), error, found, singular)


@dataclass(frozen=True)
class FiniteKernel(Kernel[Mapping[str, AnyArray], Recorded]):
    """The Gram matrix of a network's weights; the state is the parameters."""

    network: Network
    uses: tuple[tuple[str, Uses], ...]
    by_weight: bool
    outputs: int
    terms: int

    @property
    def rows(self) -> int:
        """Rows of the matrix for one example: its number of scored outputs."""
        return self.outputs

    @property
    def family(self) -> tuple[Hashable, ...]:
        """The network's name, and its activation where it has a choice of one."""
        activation = getattr(self.network, "activation", None)
        return (f"the Gram matrix of {self.network.name}", *(() if activation is None else (activation,)))

    @property
    def keys(self) -> tuple[str, ...]:
        """One matrix for every weight, or the total."""
        return tuple(name for name, _ in self.uses) if self.by_weight else ("total",)

    @property
    def product_rows(self) -> int:
        """Rows that one example has in the largest matrix product: its outputs times the places that reach them."""
        return max(uses.product_rows for _, uses in self.uses)

    @property
    def by_numpy(self) -> bool:
        """Sums over pairs of places are faster by XLA, plain products by BLAS."""
        return all(uses.plain for _, uses in self.uses)

    def record(self, state: Mapping[str, Array], x: Array) -> Recorded:
        """Return inputs and cotangents of every use, per weight."""
        u, b = taps(self.network, state, x, tuple(name for name, _ in self.uses))
        return {name: (u[name], b[name]) for name, _ in self.uses}

    def keep(self, record: Recorded) -> Recorded:
        """Return inputs and cotangents of every use, or the gradients, per weight."""
        return {name: uses.record(*record[name]) for name, uses in self.uses}

    def block(self, state: Mapping[str, AnyArray], left: Recorded, right: Recorded) -> dict[str, AnyArray]:
        """Return the Gram matrix between two sets of records."""
        parts: dict[str, AnyArray] = {}
        for name, uses in self.uses:
            key, part = name if self.by_weight else "total", uses.block(left[name], right[name])
            if key in parts:
                parts[key] += part
            else:
                parts[key] = part
        return parts

    def pair_bytes(self, left: Mapping[str, tuple[jax.ShapeDtypeStruct, ...]]) -> float:
        """Return the bytes of temporaries for one pair of examples."""
        need = max(uses.pair_bytes(left[name][0].dtype.itemsize) for name, uses in self.uses)
        return need + 4 * self.outputs**2 * len(self.keys)


@lru_cache(maxsize=256)
def finite_kernel(network: Network, n: int, names: tuple[str, ...], by_weight: bool) -> FiniteKernel:
    """Plan the contraction of every weight for `n` examples, from the shapes of one."""
    state = {name: jax.device_put(np.zeros(law.shape)) for name, law in network.laws().items()}
    x = jax.device_put(np.zeros((1, *network.input_shape)))
    u, b = jax.eval_shape(partial(taps, network, names=names), state, x)
    outputs = jax.eval_shape(network.scored, jnp.zeros((1, *network.output_shape))).size
    reach = _reach(network, state, x, outputs, {name: math.prod(u[name].shape[1:-1]) for name in names})
    uses = tuple((name, plan_uses(n, u[name].shape[-1], b[name].shape[-1], reach[name])) for name in names)
    terms = sum(u[name].shape[-1] + b[name].shape[-1] + 4 for name in names)
    return FiniteKernel(network, uses, by_weight, outputs, terms)


def taps(
    network: Network, params: Mapping[str, Array], x: Array, names: tuple[str, ...], seed: float = 1.0
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return, for each weight, its inputs `(n, *places, a)` and its cotangents `(n, outputs, *places, b)`.

    A weight of one use has them in the shape of the pass, and one output has no axis: XLA copies what it reshapes, or
    computes it twice. `Uses` gives them the axes they lack.
    """
    line = linearize(network, params, x, names)
    scored, score = jax.vjp(network.scored, line.outputs)
    n, count = len(x), scored[0].size

    def one_output(k: Array) -> dict[str, Array]:
        cotangent = jnp.zeros((n, count), x.dtype).at[:, k].set(seed).reshape(scored.shape)
        pulled = line.pullback(score(cotangent)[0])
        return {name: _places(n, pulled[name]) for name in names}

    u = {name: _places(n, line.inputs[name]) for name in names}
    if count == 1:
        return u, one_output(jnp.zeros((), int))
    return u, jax.vmap(one_output, out_axes=1)(jnp.arange(count))


def _places(n: int, uses: Sequence[Array]) -> Array:
    """Lay several uses and their positions along one axis: `n x places x size`."""
    if len(uses) == 1:
        return uses[0]
    # Without the barrier XLA computes features twice, once for the next layer and once in the layout of the record.
    return jnp.concatenate([lax.optimization_barrier(u).reshape(n, -1, u.shape[-1]) for u in uses], axis=1)


def _reach(
    network: Network, state: dict[str, Array], x: Array, outputs: int, places: Mapping[str, int]
) -> dict[str, Bool[np.ndarray, "K P"]]:
    """Find which uses can reach which outputs: pull back NaN, which no zero can hide."""
    reach = {name: np.ones((outputs, count), bool) for name, count in places.items()}
    shared = tuple(name for name, count in places.items() if count > 1 and outputs > 1)
    if shared:
        with jax.debug_nans(False):
            found = _pull_nan(network, state, x, shared)
        reach |= {name: np.asarray(found[name]).reshape(outputs, -1) for name in shared}
    return reach


@partial(jax.jit, static_argnums=(0, 3))
def _pull_nan(network: Network, state: dict[str, Array], x: Array, names: tuple[str, ...]) -> dict[str, Array]:
    _, b = taps(network, state, x, names, seed=jnp.nan)
    return {name: jnp.isnan(b[name][0]).any(axis=-1) for name in names}


def _rounding(kernel: FiniteKernel, matrix: AnyArray, precision: str, symmetric: bool) -> float:
    r"""Bound $\|G - \hat G\|_2$ by unit roundoff x summed terms x trace: see `docs/reference/gram.md`."""
    scale = matrix.trace() if symmetric else math.sqrt(matrix.size) * max(matrix.max(), -matrix.min())
    return ROUNDOFF[precision] * kernel.terms * float(scale)


def require_precision(precision: str) -> np.dtype:
    """Check the name of the arithmetic against the device, and return its dtype."""
    if precision not in ROUNDOFF:
        raise InputError(f"precision must be one of {', '.join(ROUNDOFF)}, got {precision!r}")
    if precision == "tf32":
        if jax.default_backend() != "gpu":
            raise InputError(
                f"precision 'tf32' names the products of an NVIDIA GPU; this computation runs on "
                f"{jax.default_backend()}: use 'float32'"
            )
        return np.dtype("float32")
    return as_dtype(precision)


def require_finite(x: Array) -> Array:
    """Check that every entry of the examples is a number."""
    bad = np.flatnonzero(~np.isfinite(np.asarray(x)).reshape(len(x), -1).all(axis=1))
    if len(bad):
        raise InputError(f"example {bad[0]} has an entry that is not a finite number: remove or fill it first")
    return x


def check_names(network: Network, names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the weights to sum over, in the order of the forward pass."""
    if names is None:
        return network.trained_names
    known = tuple(network.laws())
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise InputError(f"{network.name} has the weights {', '.join(known)}; got {', '.join(unknown) or 'none'}")
    return tuple(name for name in known if name in names)
