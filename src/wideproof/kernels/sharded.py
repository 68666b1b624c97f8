"""Kernel matrices over several devices, of one process or of many: a ring in which every pair of shards meets once.

Each device keeps the records of its share of the examples. The shares travel round the ring; a device computes the
block between its own share and the visitor's, and for a symmetric matrix it sends the transpose back to the visitor's
home, so that each device computes about half of its rows. With `jax.distributed` the same program runs over processes.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.typing import ArrayLike
from jaxtyping import Array, PyTree

from wideproof.errors import InputError, JobError
from wideproof.kernels import on_cpu, tiles
from wideproof.kernels.agreement import require_agreement
from wideproof.kernels.contraction import AnyArray
from wideproof.kernels.tiles import Examples, Kernel, Record, State, examples

AXIS = "shares"


def assemble(
    kernel: Kernel[State, Record], state: State, x: Examples, other: Examples | None = None, memory: int | None = None
) -> Mapping[str, AnyArray]:
    """Return the kernel matrices: by tiles on one device or on the processor, by the ring where JAX sees several.

    With several processes all must call this with the same data; each gets the whole matrix. The first matrix of its
    kind is compared with NumPy: see `agreement`.
    """
    found = _assemble(kernel, state, x, other, memory)
    require_agreement(kernel, state, x, other, found)
    return found


def _assemble(
    kernel: Kernel[State, Record], state: State, x: Examples, other: Examples | None, memory: int | None
) -> Mapping[str, AnyArray]:
    if jax.device_count() == 1:
        if kernel.by_numpy and jax.default_backend() == "cpu":
            return on_cpu.assemble(kernel, state, x, other, memory)
        return tiles.assemble(kernel, state, x, other, memory)
    try:
        return _ring(kernel, state, x, other, memory)
    except jax.errors.JaxRuntimeError as error:
        if jax.process_count() == 1:
            raise
        raise JobError(
            f"process {jax.process_index()} of {jax.process_count()} lost contact with another one, so the matrix "
            "cannot be finished: see why that process ended, and start the job again"
        ) from error


def _ring(
    kernel: Kernel[State, Record], state: State, x: Examples, other: Examples | None, memory: int | None
) -> dict[str, Array]:
    devices = np.array(jax.devices())
    mesh = Mesh(devices, (AXIS,))
    if jax.process_count() > 1:
        _require_same((state, x, other))
    n = examples(x)
    share = -(-n // len(devices))
    rows = _spread(mesh, _pad(x, share * len(devices)))
    everywhere = partial(jax.device_put, device=NamedSharding(mesh, PartitionSpec()))
    chunk = _chunk(kernel, state, x, share if other is None else examples(other), memory)
    chunk = next(c for c in range(min(chunk, share), 0, -1) if share % c == 0)
    replicated = None if other is None else jax.tree.map(everywhere, other)
    found = _program(kernel, mesh, chunk, n)(jax.tree.map(everywhere, state), rows, replicated)
    if jax.process_count() > 1:
        found = {key: multihost_utils.process_allgather(matrix, tiled=True) for key, matrix in found.items()}
    return {key: matrix[: kernel.rows * n] for key, matrix in found.items()}


@lru_cache(maxsize=64)
def _program(kernel: Kernel, mesh: Mesh, chunk: int, n: int) -> Callable[..., Mapping[str, Array]]:
    shares = PartitionSpec(AXIS)
    across = jax.shard_map(
        partial(_share, kernel, chunk, mesh.size), mesh=mesh, in_specs=(PartitionSpec(), shares, PartitionSpec()),
        out_specs=shares, check_vma=False,
    )  # fmt: skip

    def program(state: PyTree[Array], x: PyTree[Array], other: PyTree[Array] | None) -> Mapping[str, AnyArray]:
        found = across(state, x, other)
        columns = kernel.rows * (n if other is None else examples(other))
        return {key: matrix[:, :columns] for key, matrix in found.items()}

    return jax.jit(program)


def _share(
    kernel: Kernel[State, Record], chunk: int, count: int, state: State, x: PyTree[Array], other: PyTree[Array] | None
) -> Mapping[str, AnyArray]:
    """Compute one device's rows."""
    mine = kernel.keep(kernel.record(state, x))
    if other is not None:
        return _blocks(kernel, chunk, state, mine, kernel.keep(kernel.record(state, other)))
    home, size = lax.axis_index(AXIS), kernel.rows * examples(x)
    dtype = kernel.dtype(x)
    rows = {key: jnp.zeros((size, size * count), dtype) for key in kernel.keys}
    visitor = mine
    for distance in range(count // 2 + 1):
        blocks = _blocks(kernel, chunk, state, mine, visitor)
        rows = _place(rows, blocks, (home + distance) % count * size)
        if 0 < distance < count - distance:
            back = [(i, (i + distance) % count) for i in range(count)]
            sent = {key: lax.ppermute(block.T, AXIS, back) for key, block in blocks.items()}
            rows = _place(rows, sent, (home - distance) % count * size)
        onward = [(i, (i - 1) % count) for i in range(count)]
        visitor = jax.tree.map(lambda leaf, onward=onward: lax.ppermute(leaf, AXIS, onward), visitor)
    return rows


def _place(rows: Mapping[str, Array], blocks: Mapping[str, AnyArray], column: Array) -> dict[str, Array]:
    return {key: lax.dynamic_update_slice_in_dim(rows[key], blocks[key], column, axis=1) for key in rows}


def _blocks(
    kernel: Kernel[State, Record], chunk: int, state: State, left: Record, right: Record
) -> Mapping[str, AnyArray]:
    """Compute the blocks between two sets of records, `chunk` examples of the left one at a time."""
    count = examples(left) // chunk
    if count == 1:
        return kernel.block(state, left, right)
    cut = jax.tree.map(lambda leaf: leaf.reshape(count, chunk, *leaf.shape[1:]), left)
    found = lax.map(lambda part: kernel.block(state, part, right), cut)
    return {key: block.reshape(-1, block.shape[-1]) for key, block in found.items()}


def _chunk(kernel: Kernel[State, Record], state: State, x: Examples, columns: int, memory: int | None) -> int:
    memory = tiles.default_memory() if memory is None else memory
    example, pair = tiles.need(kernel, state, x)
    chunk = int((memory - 2 * example * columns) / (pair * columns))
    if chunk < 1:
        raise InputError(
            f"memory={memory} bytes is too small for one row of tiles: on {jax.device_count()} devices each needs "
            f"{math.ceil((2 * example + pair) * columns)}; use more devices or give at least that"
        )
    return chunk


def _pad(x: Examples, n: int) -> PyTree[np.ndarray]:
    """Repeat the last example up to `n` of them."""
    missing = n - examples(x)
    return jax.tree.map(lambda leaf: np.concatenate([leaf, np.repeat(leaf[-1:], missing, axis=0)]), x)


def _spread(mesh: Mesh, x: PyTree[np.ndarray]) -> PyTree[Array]:
    """Give every device its share; a process hands out only what its own devices need."""
    sharding = NamedSharding(mesh, PartitionSpec(AXIS))
    return jax.tree.map(
        lambda leaf: jax.make_array_from_callback(leaf.shape, sharding, lambda index, leaf=leaf: leaf[index]), x
    )


def _require_same(data: PyTree[ArrayLike]) -> None:
    """Check that all processes bring the same data: the same numbers in the same order."""
    found = hashlib.sha256()
    for leaf in map(np.asarray, jax.tree.leaves(data)):
        found.update(f"{leaf.shape} {leaf.dtype}".encode() + np.ascontiguousarray(leaf).tobytes())
    gathered = np.asarray(multihost_utils.process_allgather(np.frombuffer(found.digest(), np.uint8)))
    if (gathered != gathered[0]).any():
        raise InputError(
            "the processes of this job were given different data or weights: give each the same file and the same seed"
        )
