"""Kernel matrices on a processor: the passes by XLA, the products by NumPy's BLAS, tiles side by side in threads.

Each thread has a tile of its own and multiplies with one thread of BLAS. Nobody waits for anybody, products and
elementwise work overlap, the blocks of a tile stay in the cache, and the bits do not depend on the number of threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import jax
import numpy as np
from jaxtyping import Array, PyTree

from wideproof.kernels.tiles import Examples, Kernel, Record, Side, Sizes, State, examples, plan_tiles
from wideproof.resources import cores
from wideproof.threads import one_blas_thread

SMALLEST_TILE, LARGEST_TILE = 128, 512
# One matrix at a time: it has all cores.
_ALONE = threading.Lock()

Result = TypeVar("Result")


def assemble(
    kernel: Kernel[State, Record], state: State, x: Examples, other: Examples | None = None, memory: int | None = None
) -> dict[str, np.ndarray]:
    """Return the kernel matrices of `x` with itself, or with `other`; as `tiles.assemble`, in NumPy arrays."""
    workers = cores()
    plan = plan_tiles(kernel, state, x, other, memory, Sizes(SMALLEST_TILE, LARGEST_TILE, workers))
    shape = (kernel.rows * examples(x), kernel.rows * examples(x if other is None else other))
    result = {key: np.empty(shape, kernel.dtype(x)) for key in kernel.keys}
    mirror = other is None

    def fill(i: int, left: Future[Record], j: int, right: Future[Record]) -> None:
        first = left.result()
        for key, block in kernel.block(state, first, first if right is left else right.result()).items():
            rows, own_rows = _new(kernel.rows * i, len(block))
            columns, own_columns = _new(kernel.rows * j, block.shape[1])
            result[key][rows, columns] = block[own_rows, own_columns]
            if mirror and i != j:
                result[key][columns, rows] = block[own_rows, own_columns].T

    with _ALONE, one_blas_thread(), _Threads(workers) as threads:

        def take(cut: Examples) -> Future[Record]:
            return threads.start(kernel.keep, jax.tree.map(np.asarray, _record(kernel, state, cut)))

        rows = Side(take, x, plan)
        columns = rows if other is None else Side(take, other, plan)
        for i, left in rows.tiles():
            for j, right in columns.tiles(until=i - 1 if mirror else None):
                threads.start(fill, i, left, j, right)
            if mirror:
                threads.start(fill, i, left, i, left)
    return result


def _new(start: int, size: int) -> tuple[slice, slice]:
    """Return which rows of the matrix a tile writes, and where it has them: not those that the last one shares."""
    shared = -start % size
    return slice(start + shared, start + size), slice(shared, None)


@partial(jax.jit, static_argnums=0)
def _record(kernel: Kernel[State, Record], state: State, x: PyTree[Array]) -> Record:
    return kernel.record(state, x)


class _Threads:
    """A pool that lets little work wait, forgets what is done, and raises the first thing that went wrong."""

    def __init__(self, workers: int) -> None:
        self.pool = ThreadPoolExecutor(workers)
        self.places = threading.Semaphore(workers + 1)
        self.error: BaseException | None = None

    def start(self, work: Callable[..., Result], *arguments: object) -> Future[Result]:
        self.places.acquire()
        future = self.pool.submit(work, *arguments)
        future.add_done_callback(self._done)
        return future

    def _done(self, future: Future[Result]) -> None:
        if self.error is None and not future.cancelled():
            self.error = future.exception()
        self.places.release()

    def __enter__(self) -> _Threads:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.pool.shutdown(wait=True, cancel_futures=kind is not None)
        if kind is None and self.error is not None:
            raise self.error
