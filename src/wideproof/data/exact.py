"""Numbers that float64 cannot tell apart must not become equal in silence: find them before they are converted."""

import re
from collections.abc import Sequence
from decimal import Decimal

import numpy as np

NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)
_SURE_DIGITS = 15  # two decimals of at most this many digits never share a float64
_SMALLEST = 2.3e-308  # below it float64 keeps fewer digits


def is_number(field: str) -> bool:
    """Say whether a field is a decimal number (or an infinity) in ASCII digits.

    >>> [is_number(field) for field in ("-1.5e3", ".5", "inf", "1_000", "nan", "1,5")]
    [True, True, True, False, False, False]
    """
    return bool(NUMBER.fullmatch(field) or _INFINITE.fullmatch(field))


def inexact(values: np.ndarray) -> int | None:
    """Return the flat position of the first number that float64 does not hold exactly, None if there is none.

    >>> inexact(np.array([2**53, 2**53 + 1])), inexact(np.array([2**53, 2**60]))
    (1, None)
    """
    if values.dtype.kind in "iu" and values.dtype.itemsize == 8:
        flat = values.ravel()
        for k in np.flatnonzero((flat > 2**53) | (flat < -(2**53) if values.dtype.kind == "i" else False)).tolist():
            if int(np.float64(flat[k])) != int(flat[k]):
                return k
    elif values.dtype.kind == "f" and values.dtype.itemsize > 8:
        flat = values.ravel()
        with np.errstate(over="ignore", under="ignore"):
            lost = (flat.astype(np.float64).astype(flat.dtype) != flat) & (flat == flat)
        return int(np.argmax(lost)) if lost.any() else None
    return None


def lost_whole(fields: Sequence[str], values: np.ndarray) -> int | None:
    """Return the first whole number in text that float64 does not hold exactly, None if there is none.

    >>> lost_whole(["9007199254740992", "9007199254740993"], np.array([2.0**53, 2.0**53]))
    1
    """
    for k in np.flatnonzero(np.isfinite(values) & (np.abs(values) >= 2.0**53)).tolist():
        field = fields[k].strip()
        if field.lstrip("+-").isdecimal() and Decimal(field) != Decimal(int(values[k])):
            return k
    return None


def merged(fields: Sequence[str], values: np.ndarray) -> tuple[int, int] | None:
    """Return two rows whose numbers differ in text and agree in float64, None if there are none.

    >>> texts = ["0.1234567890123456789", "0.1234567890123456788", "1.0", "1"]
    >>> merged(texts, np.array([float(text) for text in texts]))
    (0, 1)
    """
    if len(set(fields)) == len(np.unique(values)):  # as many numbers as texts: none has two
        return None
    first: dict[str, int] = {}
    for k, text in enumerate(fields):
        first.setdefault(text, k)
    same: dict[float, list[str]] = {}
    for text, k in first.items():
        same.setdefault(float(values[k]), []).append(text)
    for value, texts in same.items():
        if len(texts) > 1 and any(_could_merge(text, value) for text in texts):
            exact = [Decimal(text) for text in texts]
            for text, number in zip(texts, exact, strict=True):
                if number != exact[0]:
                    return first[texts[0]], first[text]
    return None


def _could_merge(field: str, value: float) -> bool:
    if not np.isfinite(value):
        return False
    if len(field) <= _SURE_DIGITS and abs(value) >= _SMALLEST:
        return False
    digits = re.sub(r"[eE].*|[^0-9]", "", field).strip("0")
    return len(digits) > _SURE_DIGITS or (abs(value) < _SMALLEST and digits != "")
