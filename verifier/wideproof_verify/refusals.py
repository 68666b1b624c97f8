"""How a judgement ends early, and the first checks of what a file says."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

MOST = 1.7976931348623157e308  # the largest float64 number
_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


class MalformedError(Exception):
    """The files are not a certificate."""


class NotProvedError(Exception):
    """An inequality is false; or, not `decided`, the bounds are too wide to tell."""

    def __init__(self, reason: str, decided: bool):
        super().__init__(reason)
        self.decided = decided


class NotJudgedError(Exception):
    """The machine, or the limits of time and memory, do not allow a judgement."""


def require(holds: Any, otherwise: str) -> None:
    """Raise `MalformedError` with the sentence `otherwise` unless `holds`."""
    if not holds:
        raise MalformedError(otherwise)


def is_number(value: Any) -> bool:
    """Return whether `value` is a finite JSON number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MOST


def is_size(value: Any, least: int = 1) -> bool:
    """Return whether `value` is a whole number of a reasonable size."""
    return type(value) is int and least <= value < 2**31


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Let `check` refuse to go on after so many seconds."""
    token = _deadline.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _deadline.reset(token)


def check() -> None:
    """Raise `NotJudgedError` if the time is over."""
    if time.monotonic() > _deadline.get():
        raise NotJudgedError("it was not done in the time that is allowed: allow more with --time")
