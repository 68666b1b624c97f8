r"""Products with a kernel matrix that is never held: each tile is made, used for both of its sides, and dropped.

$$ (K v)_i = \sum_j K_{ij} v_j : \qquad \text{for } j \le i \text{ the tile } K_{ij} \text{ gives }
   (K v)_i \mathrel{+}= K_{ij} v_j \text{ and, for } j < i, \; (K v)_j \mathrel{+}= K_{ij}^\top v_i . $$

Half of the tiles are enough. What is kept is the records of the examples (for vectors the vectors themselves) and one
tile, so that a million examples need 6 GB and not 8,000. Several devices, of one process or of many, take the rows of
tiles in turn and add up what they have.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Generic, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, PyTree

from wideproof.errors import InputError
from wideproof.kernels.contraction import AnyArray
from wideproof.kernels.tiles import Examples, Kernel, Record, State, default_memory, examples, need
from wideproof.precision import double

AXIS = "rows"
# On a GPU larger tiles gain nothing; on a processor a tile of float64 should stay within its caches' reach.
LARGEST, LARGEST_ON_CPU = 8192, 2048
# Three passes of an H200's tensor cores: float32 products are 6e-7 off instead of 7e-5, 1.7 times as fast as float64.
MATMUL = {"float64": "highest", "float32": "highest"}
MATMUL_ON_GPU = {"float64": "highest", "float32": "TF32_TF32_F32_X3"}

Tree = TypeVar("Tree")


def _matmul(dtype: np.dtype) -> str:
    return (MATMUL_ON_GPU if jax.default_backend() == "gpu" else MATMUL)[dtype.name]


@dataclass(frozen=True, eq=False)
class Streamed(Generic[State, Record]):
    """The kernel matrix of `n` examples, known by its products with vectors.

    Attributes
    ----------
    kernel
        Computes a tile from two sets of records.
    state
        Arrays that `kernel` needs for every tile.
    records
        The records of all examples, padded to whole tiles, on every device.
    n
        The number of examples.
    tile
        The number of examples in a tile.
    mesh
        The devices that share the rows of tiles.
    """

    kernel: Kernel[State, Record]
    state: State
    records: Record
    n: int
    tile: int
    mesh: Mesh

    @property
    def tiles(self) -> int:
        """How many tiles a row of the whole matrix has."""
        return -(-self.n // self.tile)

    @double
    def product(self, vectors: np.ndarray, step: Callable[[float], None] | None = None) -> np.ndarray:
        r"""Return $K v$.

        Parameters
        ----------
        vectors
            $v$ in columns: one row for each example.
        step
            Callback; receives the share of the work that is done, between 0 and 1.

        Returns
        -------
        array
            $K v$, in the shape of `vectors`.
        """
        count = self.mesh.size
        dtype = self.kernel.dtype(self.records)
        padded = np.zeros((self.tiles * self.tile, vectors.shape[1]), dtype)
        padded[: self.n] = vectors
        v = self.everywhere(padded)
        empty = jax.jit(lambda: jnp.zeros((count, *padded.shape)), out_shardings=_spread(self.mesh))
        sums = empty()
        with jax.default_matmul_precision(_matmul(dtype)):
            add = _row_program(self.kernel, self.mesh, self.tile)
            for first in range(0, self.tiles, count):
                sums = add(self.state, self.records, v, sums, first)
                if step is not None:
                    jax.block_until_ready(sums)
                    step(min(1.0, ((first + count) / self.tiles) ** 2))
        return np.asarray(_total(self.mesh)(sums))[: self.n]

    @double
    def columns(self, which: np.ndarray) -> Columns[State, Record]:
        """Return some columns of the matrix, which are not computed before they are needed.

        Parameters
        ----------
        which
            The indices of the examples whose columns are meant.

        Returns
        -------
        Columns[State, Record]
            The columns, known by their products with vectors.
        """
        return Columns(self, _take(self.records, self.everywhere(which)))

    def everywhere(self, tree: PyTree[AnyArray]) -> PyTree[Array]:
        """Copy arrays to every device.

        Parameters
        ----------
        tree
            A pytree of arrays.

        Returns
        -------
        PyTree[Array]
            The same pytree on the devices of `mesh`.
        """
        return jax.device_put(tree, NamedSharding(self.mesh, PartitionSpec()))


@dataclass(frozen=True, eq=False)
class Columns(Generic[State, Record]):
    """Some columns $C$ of the kernel matrix: products with them, tile by tile, and $C^T D C$.

    Attributes
    ----------
    matrix
        The kernel matrix whose columns these are.
    chosen
        The records of the chosen examples, on every device.
    """

    matrix: Streamed[State, Record]
    chosen: Record

    @double
    def times(self, vectors: AnyArray) -> Array:
        """Return $C z$, computed on the device.

        Parameters
        ----------
        vectors
            $z$, one row for each chosen example.

        Returns
        -------
        Array
            $C z$, one row for each example.
        """
        return self._over_tiles(_times, vectors)

    @double
    def transposed_times(self, vectors: AnyArray) -> Array:
        r"""Return $C^\top v$, computed on the device.

        Parameters
        ----------
        vectors
            $v$, one row for each of the `n` examples.

        Returns
        -------
        Array
            $C^\top v$, one row for each chosen example.
        """
        return self._over_tiles(_transposed_times, vectors)

    @double
    def weighted_square(self, weight: np.ndarray) -> Array:
        r"""Return $C^\top D C$ for the diagonal matrix of the weights.

        Parameters
        ----------
        weight
            The diagonal of $D$: one number for each of the `n` examples.

        Returns
        -------
        Array
            $C^\top D C$, a square matrix with one row for each chosen example.
        """
        return self._over_tiles(_weighted_square, weight[:, None])

    @double
    def corner(self) -> Array:
        """Return the kernel matrix of the chosen examples alone.

        Returns
        -------
        Array
            A square matrix with one row for each chosen example.
        """
        with jax.default_matmul_precision("highest"):
            return _corner(self.matrix.kernel, self.matrix.state, self.chosen)

    def _over_tiles(self, program: Callable[..., Array], vectors: AnyArray) -> Array:
        whole = self.matrix
        v = whole.everywhere(vectors)
        with jax.default_matmul_precision("highest"):
            return program(whole.kernel, whole.tile, whole.n, whole.state, whole.records, self.chosen, v)


@double
def stream(
    kernel: Kernel[State, Record], state: State, x: Examples, memory: int | None = None
) -> Streamed[State, Record]:
    """Return the kernel matrix of the examples `x`, known by its products with vectors and never stored whole.

    Parameters
    ----------
    kernel
        Computes a tile, such as `limit_pairs(...).kernel`.
    state
        Arrays that `kernel` needs for every tile.
    x
        The examples.
    memory
        Bytes for the records and one tile on each device; by default 2 GiB, or a quarter of a GPU's memory.

    Returns
    -------
    Streamed[State, Record]
        The matrix; `product` multiplies it by vectors.

    Examples
    --------
    >>> from wideproof.kernels.limits import limit_pairs
    >>> from wideproof.networks import DeepReLU
    >>> x = np.eye(3)
    >>> kernel, state, (side,), _ = limit_pairs(DeepReLU(input_dim=3, width=2, depth=1), x)
    >>> stream(kernel, state, side).product(np.ones((3, 1))).round(6).ravel().tolist()
    [1.0, 1.0, 1.0]
    """
    if kernel.rows != 1:
        raise InputError(f"the streamed product is for kernels with one row for each example, got {kernel.rows}")
    n = examples(x)
    mesh = Mesh(np.array(jax.devices()), (AXIS,))
    tile = _tile(kernel, state, x, memory)
    filled = -(-n // tile) * tile
    padded = jax.tree.map(
        lambda leaf: jnp.concatenate([leaf, jnp.broadcast_to(leaf[:1], (filled - n, *leaf.shape[1:]))]), x
    )
    records = _records(kernel, state, padded)
    state, records = jax.device_put((state, records), NamedSharding(mesh, PartitionSpec()))
    return Streamed(kernel, state, records, n, tile, mesh)


@double
def product_between(
    kernel: Kernel[State, Record], state: State, x: Examples, other: Examples, vectors: np.ndarray
) -> np.ndarray:
    """Return the kernel matrix between `x` and `other` times `vectors`, computed tile by tile.

    Parameters
    ----------
    kernel
        Computes a tile, such as `limit_pairs(...).kernel`.
    state
        Arrays that `kernel` needs for every tile.
    x
        The examples of the rows.
    other
        The examples of the columns.
    vectors
        One row for each example of `other`.

    Returns
    -------
    array
        One row for each example of `x`.

    Examples
    --------
    >>> from wideproof.kernels.limits import limit_pairs
    >>> from wideproof.networks import DeepReLU
    >>> kernel, state, sides, _ = limit_pairs(DeepReLU(input_dim=2, width=2, depth=1), np.eye(2)[:1], np.eye(2))
    >>> product_between(kernel, state, *sides, np.ones((2, 1))).round(6).tolist()
    [[1.0]]
    """
    whole, n = stream(kernel, state, other), examples(x)
    parts = -(-n // LARGEST)
    size = -(-n // max(1, parts))  # equal parts: one program for all but the last
    found = [np.zeros((0, vectors.shape[1]))]
    for start in range(0, n, max(1, size)):
        some = jax.tree.map(lambda leaf, start=start: leaf[start : start + size], x)
        rows = whole.everywhere(_records(kernel, whole.state, some))
        found.append(np.asarray(Columns(whole, rows).transposed_times(vectors)))
    return np.concatenate(found)


def _tile(kernel: Kernel[State, Record], state: State, x: Examples, memory: int | None) -> int:
    """Return how many examples make a tile: at most half of the memory is for it."""
    memory = 2 * default_memory() if memory is None else memory
    example, pair = need(kernel, state, x)
    room = memory - 2 * example * examples(x)
    if room < pair * 64 * 64:
        fits = int((memory - pair * 64 * 64) / (2 * example))
        raise InputError(
            f"the records of {examples(x):,} examples take {2 * example * examples(x) / 1e9:.3g} GB and there are "
            f"{memory / 1e9:.3g} GB for them: that is enough for {max(0, fits):,} examples"
        )
    largest = LARGEST_ON_CPU if jax.default_backend() == "cpu" else LARGEST
    tile = min(largest, math.isqrt(int(room / pair)), 64 * -(-examples(x) // 64))
    tiles = -(-examples(x) // max(64, tile // 64 * 64))
    return 64 * -(-examples(x) // (64 * tiles))


def _spread(mesh: Mesh) -> NamedSharding:
    return NamedSharding(mesh, PartitionSpec(AXIS))


@lru_cache(maxsize=8)
def _total(mesh: Mesh) -> Callable[[Array], Array]:
    return jax.jit(lambda sums: sums.sum(axis=0), out_shardings=NamedSharding(mesh, PartitionSpec()))


@lru_cache(maxsize=32)
def _row_program(kernel: Kernel, mesh: Mesh, tile: int) -> Callable[..., Array]:
    each, all_ = PartitionSpec(AXIS), PartitionSpec()
    across = jax.shard_map(
        partial(_row, kernel, tile), mesh=mesh, in_specs=(all_, all_, all_, each, all_), out_specs=each, check_vma=False
    )
    return jax.jit(across, donate_argnums=3)


def _part(tree: Tree, i: Array, tile: int) -> Tree:
    return jax.tree.map(lambda leaf: lax.dynamic_slice_in_dim(leaf, i * tile, tile), tree)


def _tile_of(kernel: Kernel[State, Record], state: State, left: Record, right: Record) -> Array:
    found = kernel.block(state, left, right)
    return jnp.asarray(sum(found.values(), start=jnp.zeros((), next(iter(found.values())).dtype)))


def _row(
    kernel: Kernel[State, Record], tile: int, state: State, records: Record, v: Array, sums: Array, first: Array
) -> Array:
    """Add one device's row of tiles: its own part, and what its tiles give to the parts before it."""
    i = first + lax.axis_index(AXIS)
    here = i * tile < v.shape[0]
    i = jnp.where(here, i, 0)
    left, own = _part(records, i, tile), _part(v, i, tile)
    out = sums[0]

    def pair(j: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        total, out = carry
        block = _tile_of(kernel, state, left, _part(records, j, tile))
        total = total + (block @ _part(v, j, tile)).astype(total.dtype)
        back = _part(out, j, tile) + (block.T @ own).astype(out.dtype)
        return total, lax.dynamic_update_slice_in_dim(out, back, j * tile, axis=0)

    total = jnp.zeros(own.shape, out.dtype)
    total, out = lax.fori_loop(0, jnp.where(here, i, 0), pair, (total, out))
    total = total + (_tile_of(kernel, state, left, left) @ own).astype(total.dtype)
    total = _part(out, i, tile) + jnp.where(here, total, 0)
    return lax.dynamic_update_slice_in_dim(out, total, i * tile, axis=0)[None]


@partial(jax.jit, static_argnums=0)
def _records(kernel: Kernel[State, Record], state: State, x: PyTree[Array]) -> Record:
    return kernel.keep(kernel.record(state, x))


@jax.jit
def _take(records: Record, which: Array) -> Record:
    return jax.tree.map(lambda leaf: leaf[which], records)


@partial(jax.jit, static_argnums=0)
def _corner(kernel: Kernel[State, Record], state: State, chosen: Record) -> Array:
    return _tile_of(kernel, state, chosen, chosen)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _times(
    kernel: Kernel[State, Record], tile: int, n: int, state: State, records: Record, chosen: Record, z: Array
) -> Array:
    def one(i: Array) -> Array:
        return _tile_of(kernel, state, _part(records, i, tile), chosen) @ z

    return lax.map(one, jnp.arange(-(-n // tile))).reshape(-1, z.shape[1])[:n]


def _padded(v: Array, tile: int, n: int) -> Array:
    return jnp.pad(v, ((0, -(-n // tile) * tile - n), (0, 0)))


@partial(jax.jit, static_argnums=(0, 1, 2))
def _transposed_times(
    kernel: Kernel[State, Record], tile: int, n: int, state: State, records: Record, chosen: Record, v: Array
) -> Array:
    filled = _padded(v, tile, n)

    def add(i: Array, total: Array) -> Array:
        return total + _tile_of(kernel, state, chosen, _part(records, i, tile)) @ _part(filled, i, tile)

    start = jnp.zeros((examples(chosen), v.shape[1]), v.dtype)
    return lax.fori_loop(0, -(-n // tile), add, start)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _weighted_square(
    kernel: Kernel[State, Record], tile: int, n: int, state: State, records: Record, chosen: Record, weight: Array
) -> Array:
    filled = _padded(weight, tile, n)

    def add(i: Array, total: Array) -> Array:
        block = _tile_of(kernel, state, _part(records, i, tile), chosen)
        return total + (block * _part(filled, i, tile)).T @ block

    m = examples(chosen)
    return lax.fori_loop(0, -(-n // tile), add, jnp.zeros((m, m), weight.dtype))
