"""What Ctrl-C does to a run: it stops after the current chunk, or it raises, as the caller wishes."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

_ASKED: ContextVar[threading.Event | None] = ContextVar("stop_request", default=None)
_RAISE: ContextVar[threading.Event | None] = ContextVar("raise_interrupts", default=None)


@contextlib.contextmanager
def raising_interrupts(asked: threading.Event | None = None) -> Iterator[None]:
    """Let Ctrl-C raise inside `train`, for callers to whom half a run is worth nothing.

    In a thread, which no signal reaches, `train` raises after the chunk in which `asked` was set.
    """
    token = _RAISE.set(asked or threading.Event())
    try:
        yield
    finally:
        _RAISE.reset(token)


@contextlib.contextmanager
def stop_request() -> Iterator[Callable[[], bool]]:
    """Turn Ctrl-C and a polite kill into a request to stop after the current chunk; a second one stops at once.

    Inside another one it is the same request. An exception in the midst of JAX's compilation can be lost or worse, so
    all that comes before the first chunk belongs inside too.
    """
    outer = _ASKED.get()
    if outer is not None:
        yield outer.is_set
        return
    given_up = _RAISE.get()
    if given_up is not None or threading.current_thread() is not threading.main_thread():

        def raised() -> bool:
            if given_up is not None and given_up.is_set():
                raise KeyboardInterrupt
            return False

        yield raised
        return
    asked = threading.Event()
    old = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def ask(number: int, frame: Any) -> None:
        if asked.is_set():
            signal.signal(number, old[signal.Signals(number)])
            raise KeyboardInterrupt
        asked.set()

    for number in old:
        signal.signal(number, ask)
    token = _ASKED.set(asked)
    try:
        yield asked.is_set
    finally:
        _ASKED.reset(token)
        for number, handler in old.items():
            signal.signal(number, handler)
