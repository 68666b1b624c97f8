"""Any kernel matrix from tiles: half of them where it is symmetric, in a stated amount of working memory.

A kernel says two things: what to keep of each example (`record`, `keep`), and how the records of two sets of
examples make a block of the matrix (`block`). Finite networks and infinite-width limits are both of this form, so the
tiles here, the threads in `on_cpu` and the ring of devices in `sharded` serve both.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import Generic, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, PyTree

from wideproof.errors import InputError
from wideproof.kernels.contraction import AnyArray

# Small tiles (in rows of the products) make slow products. Tiles on the diagonal are cut further, into parts no
# smaller than SMALLEST_PART, of which half are mirrored.
FEWEST_TILES, SMALLEST_TILE, LARGEST_TILE = 8, 256, 4096
# Blocks above 32 MiB are fetched anew from the system each time: n = 20,000 took twice as long with tiles of 2500.
LARGEST_ON_CPU = 1280
PARTS, SMALLEST_PART = 2, 128

Examples = PyTree[AnyArray]  # with the examples along the first axis
State = TypeVar("State")  # a pytree of arrays: weights, or coefficients of interpolants
Record = TypeVar("Record")  # a pytree of arrays, with the examples along the first axis
Kept = TypeVar("Kept")


@dataclass(frozen=True)
class Kernel(ABC, Generic[State, Record]):
    """What a tile needs to know; hashable, so that a kernel of the same structure is compiled once.

    `State` is the type of what is handed to both methods, `Record` of what is kept of the examples: pytrees of arrays.
    """

    @property
    @abstractmethod
    def rows(self) -> int:
        """Rows of the matrix for one example: its number of outputs."""

    @property
    @abstractmethod
    def keys(self) -> tuple[str, ...]:
        """Names of the matrices that `block` returns."""

    @property
    def product_rows(self) -> int:
        """Rows that one example has in the largest matrix product of `block`."""
        return self.rows

    @property
    def family(self) -> tuple[Hashable, ...]:
        """What decides which operations `record` and `block` consist of: a name, and functions with a `name`.

        Empty where that is not known: then no matrix is compared with NumPy.
        """
        return (type(self).__name__,)

    @property
    def by_numpy(self) -> bool:
        """Whether `keep` and `block` are mostly large products, and take NumPy arrays too: see `on_cpu`."""
        return False

    def dtype(self, x: Examples) -> np.dtype:
        """Return the dtype of the matrices; by default that of the examples."""
        return jax.tree.leaves(x)[0].dtype

    @abstractmethod
    def record(self, state: State, x: PyTree[Array]) -> Record:
        """Return what a pass over the examples `x` leaves: arrays with the examples along the first axis."""

    def keep(self, record: Record) -> Record:
        """Return what is kept of a record, example by example; by default all of it."""
        return record

    @abstractmethod
    def block(self, state: State, left: Record, right: Record) -> Mapping[str, AnyArray]:
        """Return the blocks between two sets of records, each `(rows * n, rows * m)`."""

    @abstractmethod
    def pair_bytes(self, left: PyTree[jax.ShapeDtypeStruct]) -> float:
        """Return the bytes that `block` needs for one pair of examples, from the shapes of a record."""


def assemble(
    kernel: Kernel[State, Record], state: State, x: Examples, other: Examples | None = None, memory: int | None = None
) -> dict[str, Array]:
    """Return the kernel matrices of `x` with itself, or with `other`, tile by tile.

    `x` and `other` are arrays, or pytrees of arrays, with the examples along the first axis. `memory` bounds, in
    bytes, the records and the temporaries of a tile; the matrices themselves come on top.
    """
    plan = plan_tiles(kernel, state, x, other, memory)
    take = partial(_record, kernel, state)
    rows, columns = Side(take, x, plan), None
    if other is not None:
        columns = Side(take, other, plan)
    shape = (kernel.rows * examples(x), kernel.rows * examples(x if other is None else other))
    result = {key: jnp.zeros(shape, kernel.dtype(x)) for key in kernel.keys}
    parts = min(PARTS, max(1, kernel.product_rows * rows.tile // SMALLEST_PART))
    for i, left in rows.tiles():
        for j, right in rows.tiles(until=i) if columns is None else columns.tiles():
            if columns is None and i == j:
                blocks = _diagonal(kernel, parts, state, left)
            else:
                blocks = _block(kernel, state, left, right)
            result = _write(columns is None, result, blocks, kernel.rows * i, kernel.rows * j)
        jax.block_until_ready(result)  # no more than one row of tiles waits in memory
    return result


def default_memory() -> int:
    """Return 2 GiB on a CPU, a quarter of the device's memory elsewhere."""
    stats = jax.local_devices()[0].memory_stats() or {}
    return stats["bytes_limit"] // 4 if "bytes_limit" in stats else 2 << 30


def examples(x: Examples) -> int:
    """Return the number of examples of an array or a pytree of arrays."""
    return jax.tree.leaves(x)[0].shape[0]


@dataclass(frozen=True)
class Sizes:
    """Rows of the products of a tile, least and most, and how many tiles are at work at a time."""

    smallest: int
    largest: int
    workers: int = 1


@dataclass(frozen=True)
class Plan:
    """How many examples make a tile, and whether the records of all examples are kept."""

    tile: int
    keep: bool


def plan_tiles(
    kernel: Kernel[State, Record],
    state: State,
    x: Examples,
    other: Examples | None,
    memory: int | None,
    sizes: Sizes | None = None,
) -> Plan:
    """Choose the tile from the memory and from what products like."""
    if sizes is None:
        sizes = Sizes(SMALLEST_TILE, LARGEST_ON_CPU if jax.default_backend() == "cpu" else LARGEST_TILE)
    memory = default_memory() if memory is None else memory
    example, pair = need(kernel, state, x)
    pair *= sizes.workers
    longest, count = examples(x), examples(x)
    if other is not None:
        longest, count = max(longest, examples(other)), count + examples(other)
    keep = example * count <= memory / 2
    # Recording a tile needs about as much again as it leaves behind.
    available, side = (memory - example * count, 0.0) if keep else (memory, (2.0 + sizes.workers) * example)
    tile = int((-side + math.sqrt(side**2 + 4 * pair * available)) / (2 * pair))
    if tile < 1:
        raise InputError(
            f"memory={memory} bytes is too small for one tile: a pair of examples needs {math.ceil(pair + side)}; "
            f"give at least that, and better {math.ceil(64 * 64 * pair + 64 * side)} for tiles of 64 examples"
        )
    most = kernel.product_rows * longest
    rows = min(max(-(-most // FEWEST_TILES), sizes.smallest), sizes.largest)
    return Plan(min(tile, max(1, rows // kernel.product_rows)), keep)


def need(kernel: Kernel[State, Record], state: State, x: Examples) -> tuple[int, float]:
    """Return the bytes that the record of one example takes, and the temporaries of a pair."""
    leaves, tree = jax.tree.flatten((state, x))
    return _need(kernel, tree, tuple(jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves))


@lru_cache(maxsize=256)
def _need(kernel: Kernel, tree: Hashable, shapes: tuple[jax.ShapeDtypeStruct, ...]) -> tuple[int, float]:
    state, x = jax.tree.unflatten(tree, shapes)
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((1, *leaf.shape[1:]), leaf.dtype), x)
    record = jax.eval_shape(lambda state, one: kernel.keep(kernel.record(state, one)), state, one)
    example = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(record))
    return example, kernel.pair_bytes(record)


class Side(Generic[Kept]):
    """One side of the matrix in tiles of one size; the last one reaches back, so that all have the same shape."""

    def __init__(self, take: Callable[[Examples], Kept], x: Examples, plan: Plan) -> None:
        self.take, self.x = take, x
        n = examples(x)
        count = -(-n // plan.tile)
        self.tile = min(-(-n // count), n)
        self.starts = [min(i * self.tile, n - self.tile) for i in range(count)]
        self.kept = [self._take(start) for start in self.starts] if plan.keep else None

    def _take(self, start: int) -> Kept:
        if self.tile == examples(self.x):
            return self.take(self.x)
        return self.take(jax.tree.map(lambda leaf: leaf[start : start + self.tile], self.x))

    def tiles(self, until: int | None = None) -> Iterator[tuple[int, Kept]]:
        """Yield the first example and the records of each tile, up to the tile that starts at `until`."""
        for k, start in enumerate(self.starts):
            if until is not None and start > until:
                return
            yield start, self.kept[k] if self.kept is not None else self._take(start)


@partial(jax.jit, static_argnums=0)
def _record(kernel: Kernel[State, Record], state: State, x: PyTree[Array]) -> Record:
    return kernel.keep(kernel.record(state, x))


@partial(jax.jit, static_argnums=0)
def _block(kernel: Kernel[State, Record], state: State, left: Record, right: Record) -> Mapping[str, AnyArray]:
    return kernel.block(state, left, right)


@partial(jax.jit, static_argnums=(0, 1))
def _diagonal(kernel: Kernel[State, Record], parts: int, state: State, records: Record) -> dict[str, Array]:
    """Compute a symmetric block from parts on and below its diagonal."""
    n = examples(records)
    edges = [round(k * n / parts) for k in range(parts + 1)]
    cut = [jax.tree.map(lambda leaf, a=a, b=b: leaf[a:b], records) for a, b in pairwise(edges) if a < b]
    below = [[kernel.block(state, cut[i], cut[j]) for j in range(i + 1)] for i in range(len(cut))]
    return {
        key: jnp.block(
            [[below[i][j][key] if j <= i else below[j][i][key].T for j in range(len(cut))] for i in range(len(cut))]
        )
        for key in kernel.keys
    }


# A program of its own: together with the block, XLA was measured to compute it up to twice as slowly.
@partial(jax.jit, static_argnums=0, donate_argnums=1)
def _write(mirror: bool, result: dict[str, Array], blocks: dict[str, Array], i: Array, j: Array) -> dict[str, Array]:
    out = {}
    for key, block in blocks.items():
        written = lax.dynamic_update_slice(result[key], block, (i, j))
        out[key] = lax.dynamic_update_slice(written, block.T, (j, i)) if mirror else written
    return out
