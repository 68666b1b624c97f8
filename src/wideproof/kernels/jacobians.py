"""Jacobians of a function as records of a kernel: passes of single examples in a stated amount of memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, PyTree

from wideproof.errors import InputError
from wideproof.kernels.contraction import AnyArray
from wideproof.kernels.finite import ROUNDOFF
from wideproof.kernels.tiles import Examples, Kernel, examples, need
from wideproof.resources import cores

PIECE, MOST_PIECES = 4096, 64  # terms of a sum, and pieces of one leaf
MIXED = 1e-3  # outputs in a batch of two that differ by more, relative to the largest, depend on the other example
SHARE = 4  # of the memory, the part that passes through the function may take


@dataclass(frozen=True)
class FunctionKernel(Kernel[PyTree[Array], tuple[AnyArray, ...]]):
    """The Gram matrix of a function; the state is its parameters, a record the rows of the Jacobian, by leaf.

    `leaves` are the place, path and size of those to sum over, `chunk` how many examples pass at a time.
    """

    function: Callable[..., Array]
    batched: bool
    leaves: tuple[tuple[int, str, int], ...]
    outputs: int
    by_weight: bool
    precision: str
    chunk: int = 1

    @property
    def rows(self) -> int:
        """Rows of the matrix for one example: its number of outputs."""
        return self.outputs

    @property
    def family(self) -> tuple[Hashable, ...]:
        """Nothing: what a function consists of is not known, so it is not compared with NumPy."""
        return ()

    @property
    def keys(self) -> tuple[str, ...]:
        """One matrix for every leaf, or the total."""
        return tuple(path for _, path, _ in self.leaves) if self.by_weight else ("total",)

    @property
    def by_numpy(self) -> bool:
        """Blocks are plain products."""
        return True

    @property
    def terms(self) -> int:
        """Terms of the longest piece of a sum, and the number of pieces."""
        return max(_piece(size) for *_, size in self.leaves) + sum(-(-size // _piece(size)) for *_, size in self.leaves)

    def dtype(self, x: Examples) -> np.dtype:
        """Return the dtype of the matrix; examples may be integers."""
        return np.dtype(self.precision)

    def values(self, state: PyTree[Array], example: PyTree[Array]) -> Array:
        """Return the outputs of one example in a row."""
        batch = jax.tree.map(lambda leaf: leaf[None], example) if self.batched else example
        return self.function(state, batch).reshape(-1)

    def jacobian(self, state: PyTree[Array], example: PyTree[Array]) -> tuple[Array, ...]:
        """Return the gradients of all outputs of one example, `(outputs, size)` for each leaf."""
        leaves, tree = jax.tree.flatten(state)

        def values(weights: tuple[Array, ...]) -> Array:
            moved = dict(zip((place for place, *_ in self.leaves), weights, strict=True))
            return self.values(tree.unflatten([moved.get(k, leaf) for k, leaf in enumerate(leaves)]), example)

        outputs, pull = jax.vjp(values, tuple(leaves[place] for place, *_ in self.leaves))
        (rows,) = jax.vmap(pull)(jnp.eye(self.outputs, dtype=outputs.dtype))
        return tuple(row.reshape(self.outputs, -1) for row in rows)

    def each(self, work: Callable[[PyTree[Array]], PyTree[Array]], x: PyTree[Array]) -> PyTree[Array]:
        """Apply `work` to every example, `chunk` of them side by side."""
        return jax.vmap(work)(x) if self.chunk >= examples(x) else lax.map(work, x, batch_size=self.chunk)

    def record(self, state: PyTree[Array], x: PyTree[Array]) -> tuple[Array, ...]:
        """Return the Jacobian, `(n, outputs, size)` for each leaf."""
        return self.each(partial(self.jacobian, state), x)

    def block(
        self, state: PyTree[Array], left: tuple[AnyArray, ...], right: tuple[AnyArray, ...]
    ) -> dict[str, AnyArray]:
        """Return the products of two blocks of rows, summed piece by piece."""
        parts: dict[str, AnyArray] = {}
        for (_, path, size), a, b in zip(self.leaves, left, right, strict=True):
            key, a, b = path if self.by_weight else "total", a.reshape(-1, size), b.reshape(-1, size)
            for start in range(0, size, _piece(size)):
                cut = slice(start, start + _piece(size))
                part = a[:, cut] @ b[:, cut].T
                if key in parts:
                    parts[key] += part
                else:
                    parts[key] = part
        return parts

    def pair_bytes(self, left: tuple[jax.ShapeDtypeStruct, ...]) -> float:
        """Return the bytes of the blocks of a pair: one for every key, and the product that is added to it."""
        return (len(self.keys) + 1.0) * self.outputs**2 * np.dtype(self.precision).itemsize


def within(
    kernel: FunctionKernel, state: PyTree[Array], sides: list[PyTree[Array]], memory: int
) -> tuple[FunctionKernel, int]:
    """Choose how many examples pass at a time, and return what is left of the memory for tiles."""
    example, pair = need(kernel, state, sides[0])
    passes, convolves = _passes(kernel, state, sides[0])
    workers = cores() if jax.default_backend() == "cpu" and jax.device_count() == 1 else 1
    tile = int((2 + workers) * example + workers * pair) + 1
    if memory < passes + tile:
        count = sum(size for *_, size in kernel.leaves)
        raise InputError(
            f"memory={memory} bytes is too small: the gradients of {kernel.outputs} outputs by {count} parameters take "
            f"{example} for one example, and a pair of examples needs {passes + tile}; give at least that, or use "
            "fewer parameters by `names`"
        )
    chunk = max(1, min(memory // SHARE, memory - tile) // passes)
    if convolves and jax.default_backend() == "cpu":
        chunk = 1  # side by side, gradients of filters are grouped convolutions: ten times as slow
    chunk = min(chunk, max(map(examples, sides)))
    return replace(kernel, chunk=chunk), memory - chunk * passes


def _passes(kernel: FunctionKernel, state: PyTree[Array], x: PyTree[Array]) -> tuple[int, bool]:
    """Return the bytes of all values on the way of one example, and whether there are convolutions among them."""
    leaves, tree = jax.tree.flatten((state, x))
    return _count_passes(kernel, tree, tuple(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves))


@lru_cache(maxsize=256)
def _count_passes(kernel: FunctionKernel, tree: Hashable, shapes: tuple[jax.ShapeDtypeStruct, ...]) -> tuple[int, bool]:
    state, x = jax.tree.unflatten(tree, shapes)
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), x)
    steps = list(_equations(jax.make_jaxpr(kernel.jacobian)(state, one).jaxpr))
    avals = [variable.aval for step in steps for variable in step.outvars]
    held = sum(math.prod(aval.shape) * getattr(aval.dtype, "itemsize", 8) for aval in avals if hasattr(aval, "shape"))
    return max(held, 1), any(step.primitive.name.startswith("conv_") for step in steps)


def _equations(jaxpr: Any) -> Iterator[Any]:  # types that JAX does not make public
    """Yield every operation, of inner programs too; those of a loop once, since its steps share their memory."""
    for step in jaxpr.eqns:
        yield step
        for value in jax.tree.leaves(tuple(step.params.values()), is_leaf=lambda v: hasattr(v, "eqns")):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from _equations(inner)


def _piece(size: int) -> int:
    """Terms that are summed in one product: few, and in few products."""
    return max(min(size, PIECE), -(-size // MOST_PIECES))


def rounding(terms: int, precision: str) -> float:
    r"""Return $\gamma_k / (1 - \gamma_k)$: how far sums of `terms` products are off, relative to the computed norms.

    The products of tf32 have both factors rounded, and are added in float32.

    >>> rounding(100, "float64") < 1.2e-14 < rounding(100, "float32") < 6.1e-6 < 1.9e-3 < rounding(100, "tf32")
    True
    """
    unit = ROUNDOFF["float32" if precision == "tf32" else precision]
    if terms * unit > 0.25:
        raise InputError(f"sums of {terms} terms are more than {precision} can bound: use precision='float64'")
    gamma = terms * unit / (1 - terms * unit) + (4 * ROUNDOFF["tf32"] if precision == "tf32" else 0)
    return gamma / (1 - gamma)
