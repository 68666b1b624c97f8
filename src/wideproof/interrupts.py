"""What Ctrl-C and a polite kill do to a run: it stops after the current chunk and is saved, then the signal acts."""

from __future__ import annotations

import contextlib
import inspect
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from types import FrameType

Handler = Callable[[int, FrameType | None], None]

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
    """Turn Ctrl-C and a polite kill into a request to stop after the current chunk; then the signal is delivered.

    It is delivered at the end of the block, when all is saved, to whoever handled it before: Ctrl-C raises
    `KeyboardInterrupt` and SIGTERM ends the process, unless the caller's program has handlers of its own. A second
    signal is delivered at once. Signals that are ignored stay ignored.

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
    asked, waiting = threading.Event(), set[int]()

    def ask(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            waiting.discard(number)  # this one stands for both
            give_back()
            deliver(number)
        else:
            waiting.add(number)
            asked.set()

    try:
        with handling((signal.SIGINT, signal.SIGTERM), ask) as give_back:
            token = _ASKED.set(asked)
            try:
                yield asked.is_set
            finally:
                _ASKED.reset(token)
    finally:
        for number in waiting:
            deliver(number)


@contextlib.contextmanager
def handling(numbers: Iterable[int], handler: Handler) -> Iterator[Callable[[], None]]:
    """Handle signals in the block, and yield what gives them back before its end.

    Signals that are ignored, or handled outside of Python, stay as they are; so does what the block itself sets, and
    everything in a thread, which no signal reaches.
    """
    here = threading.current_thread() is threading.main_thread()
    known = {number: signal.getsignal(number) for number in numbers if here}
    old = {number: own for number, own in known.items() if own not in (None, signal.SIG_IGN)}

    def give_back() -> None:
        for number, own in old.items():
            if signal.getsignal(number) is handler:
                signal.signal(number, own)

    for number in old:
        signal.signal(number, handler)
    try:
        yield give_back
    finally:
        give_back()


def deliver(number: int) -> None:
    """Do what this signal does in this process: call its handler, or let the system act."""
    handler = signal.getsignal(number)
    if callable(handler):
        handler(number, inspect.currentframe())
    else:
        signal.raise_signal(number)
