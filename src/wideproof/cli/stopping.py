"""How commands end that are interrupted: by the signal, after a word on how to go on."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

import typer

from wideproof.interrupts import deliver, handling

INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM


class Stopped(SystemExit):
    """The end of a command that was interrupted and has said how to go on."""


@contextlib.contextmanager
def continuable(say: Callable[[], None]) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end a command with a word on how to go on, which `say` prints.

    SIGTERM raises as Ctrl-C does, so that everything is left in order, and then ends the process after all. A second
    one does so at once.
    """
    terminated = threading.Event()

    def terminate(number: int, frame: FrameType | None) -> NoReturn:
        terminated.set()
        give_back()
        raise KeyboardInterrupt

    try:
        with handling((signal.SIGTERM,), terminate) as give_back:
            yield
        stopped = terminated.is_set()  # what was raised may have been lost in a callback
    except KeyboardInterrupt:
        stopped = True
    if stopped:
        say()
        if not terminated.is_set():
            raise Stopped(INTERRUPTED)
        sys.stdout.flush()
        sys.stderr.flush()
        deliver(signal.SIGTERM)
        raise Stopped(TERMINATED)


def say_nothing_is_kept() -> None:
    """Print that a command has to be started again."""
    typer.echo("interrupted before there was a result: run the same command to start again", err=True)
