"""Cores and threads: how many there are, and BLAS held to one of them while others have work of their own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from functools import lru_cache

from threadpoolctl import ThreadpoolController

FEW = 1500  # rows of a matrix for which one thread is enough


class _Held:
    """How many hold BLAS to one thread now; the number is one for the whole process, so the last one puts it back."""

    lock = threading.Lock()
    count = 0
    limit = contextlib.ExitStack()


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let BLAS use one thread inside, in the whole process, until the last of those who asked for it has left.

    Where several threads have products of their own this is faster, and results do not depend on how many others are
    at work: BLAS adds in another order with another number of threads.
    """
    with _Held.lock:
        if _Held.count == 0:
            _Held.limit.enter_context(_controller().limit(limits=1, user_api="blas"))
        _Held.count += 1
    try:
        yield
    finally:
        with _Held.lock:
            _Held.count -= 1
            if _Held.count == 0:
                _Held.limit.close()


def threads_for(rows: int) -> contextlib.AbstractContextManager[None]:
    """Hold BLAS to one thread where matrices have few rows.

    They take a second at most, and where a machine has less to give than it has cores, threads that wait for each other
    took ten times as long.
    """
    return one_blas_thread() if rows <= FEW else contextlib.nullcontext()


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    import numpy.linalg  # noqa: F401
    import scipy.linalg  # noqa: F401  both bring a BLAS, and only what is loaded is found

    return ThreadpoolController()  # looks through the libraries of the process: once is enough
