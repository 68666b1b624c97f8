"""Checks of single arguments: each returns the plain value, or refuses it in a sentence with the argument's name."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from wideproof.errors import InputError

LONGEST = 60  # characters of a refused value that are shown

Check = Callable[[str, Any], Any]


def number(words: str, fits: Callable[[float], bool], finite: bool = True) -> Check:
    """Return the check that an argument is a number for which `fits` is true; `words` say what that is.

    Truth values are no numbers, nor are texts and arrays; NaN never fits, and infinity only where not `finite`.

    >>> positive = number("a positive number", lambda value: value > 0)
    >>> positive("step_size", np.float32(0.5))
    0.5
    >>> positive("step_size", -1.0)
    Traceback (most recent call last):
    ...
    wideproof.errors.InputError: step_size must be a positive number, got -1.0
    """

    def check(name: str, value: Any) -> float:
        plain = _plain(value)
        if math.isnan(plain) or (finite and math.isinf(plain)) or not fits(plain):
            raise refusal(name, words, value)
        return plain

    return check


def whole_number(least: int, most: int, words: str | None = None) -> Check:
    """Return the check that an argument is a whole number from `least` to `most`.

    >>> whole_number(1, 3)("batch", 4)
    Traceback (most recent call last):
    ...
    wideproof.errors.InputError: batch must be a whole number from 1 to 3, got 4
    """

    def check(name: str, value: Any) -> int:
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or not least <= value <= most:
            raise refusal(name, words or f"a whole number from {least} to {most}", value)
        return int(value)

    return check


def one_of(*words: str, because: str = "") -> Check:
    """Return the check that an argument is one of some words.

    >>> one_of("float64", "enclosed")("level", "rigorous")
    Traceback (most recent call last):
    ...
    wideproof.errors.InputError: level must be 'float64' or 'enclosed', got 'rigorous'
    """

    def check(name: str, value: Any) -> str:
        if not (isinstance(value, str) and value in words):
            *others, last = map(repr, words)
            raise refusal(name, f"{', '.join(others)} or {last}", value, because)
        return value

    return check


def flag(name: str, value: Any) -> bool:
    """Check that an argument is a truth value."""
    if not isinstance(value, bool | np.bool_):
        raise refusal(name, "True or False", value)
    return bool(value)


def mapping(name: str, value: Any) -> Mapping[str, Any]:
    """Check that an argument has values by name."""
    if not (isinstance(value, Mapping) and all(isinstance(key, str) for key in value)):
        raise refusal(name, "a dictionary with texts as its keys", value)
    return value


def refusal(name: str, words: str, value: Any, because: str = "") -> InputError:
    """Return what is raised: the argument's name, what it must be, what came, and what to do or why."""
    shown = " ".join(repr(value).split())
    shown = shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}…"
    return InputError(f"{name} must be {words}, got {shown}{f': {because}' if because else ''}")


def _plain(value: Any) -> float:
    """Return a number as a float, and anything else as NaN."""
    if not isinstance(value, int | float | np.integer | np.floating) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:  # a whole number beyond the floats
        return math.inf if value > 0 else -math.inf
