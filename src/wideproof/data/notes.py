"""What is said of how a source was read: its columns and blanks, its classes, and the rows that are not used."""

import re
from collections.abc import Sequence

import numpy as np

from wideproof.data.columns import Column
from wideproof.data.words import counted, listed, shown

MOST_COUNTED = 6  # more classes than this are not counted
_KINDS = {"number": "number", "boolean": "yes/no", "text": "text", "date": "date"}
_FILLS = {"number": "median", "date": "median", "text": "most frequent", "boolean": "most frequent"}


def on_columns(
    columns: Sequence[Column],
    blanks: np.ndarray,
    remarks: Sequence[str],
    left_out: Sequence[tuple[str, str]],
    decimal: str,
) -> tuple[str, ...]:
    """Say in at most three lines what the columns are, what was done to blanks, and what was left out.

    `blanks` says of every row that is used, and of every column, whether the value was missing.

    >>> on_columns([Column("age", 0, "number", 30.0, indicator=True)], np.array([[True], [False]]), [], [], ".")
    ('1 column: 1 number', 'filled 1 missing value in age (median), with 1 indicator column')
    """
    lines = [f"{counted(len(columns), 'column')}: {', '.join(_kinds(columns, decimal))}"]
    said = [*_filled(columns, blanks), *remarks]
    if said:
        lines.append("; ".join(said))
    if left_out:
        lines.append(f"left out {listed([f'{name} ({reason})' for name, reason in left_out])}")
    return tuple(lines)


def _kinds(columns: Sequence[Column], decimal: str) -> list[str]:
    parts = []
    for kind, word in _KINDS.items():
        some = [column for column in columns if column.kind == kind]
        if not some:
            continue
        part = f"{len(some)} yes/no" if kind == "boolean" else counted(len(some), word)
        if kind == "number":
            part += " with decimal commas" if decimal == "," else ""
            signs = [f"{column.name} like {column.format}" for column in some if column.format]
            part += f" ({listed(signs)})" if signs else ""
        elif kind == "text":
            part += f" as one-hot ({listed([column.name for column in some])})"
        elif kind == "date" and any(column.format.startswith(("%m/", "%d/")) for column in some):
            first = next(column for column in some if column.format.startswith(("%m/", "%d/")))
            part += f" ({'month' if first.format.startswith('%m') else 'day'} first)"
        parts.append(part)
    return parts


def _filled(columns: Sequence[Column], blanks: np.ndarray) -> list[str]:
    counts = blanks.sum(axis=0).tolist()
    each = [(column, count) for column, count in zip(columns, counts, strict=True) if column.indicator and count]
    if not each:
        return []
    first = f" missing value{'' if each[0][1] == 1 else 's'}"
    parts = [
        f"{count}{'' if k else first} in {column.name} ({_FILLS[column.kind]})"
        for k, (column, count) in enumerate(each)
    ]
    indicators = sum(column.indicator for column in columns)
    return [f"filled {listed(parts)}, with {counted(indicators, 'indicator column')}"]


def on_rows(used: int, there: int, why: Sequence[str]) -> list[str]:
    """Say how many rows are used, and for whose sake the others are not; nothing if all are.

    >>> on_rows(200, 569, ["limit"]), on_rows(569, 569, ["limit"])
    (['200 of 569 rows are used (limit)'], [])
    """
    return [] if used == there else [f"{used} of {there} rows are used ({' and '.join(why)})"]


def leaves_out(notes: Sequence[str]) -> bool:
    """Return whether notes say that rows of the source are not used.

    >>> leaves_out(on_rows(200, 569, ["limit"])), leaves_out(["dropped 1 row without a target"]), leaves_out(["ok"])
    (True, True, False)
    """
    return any(re.search(r"\b\d+ of \d+ rows are used|\bdropped \d+ rows? ", note) for note in notes)


def on_classes(classes: Sequence[str], names: np.ndarray) -> list[str]:
    """Count the rows of each class, where the classes are few.

    >>> on_classes(("no", "yes"), np.array(["no", "yes", "no"]))
    ['2 classes: no (2) and yes (1)']
    """
    if not 0 < len(classes) <= MOST_COUNTED:
        return []
    counts = [f"{shown(one)} ({np.count_nonzero(names == one)})" for one in classes]
    return [f"{len(classes)} classes: {listed(counts, MOST_COUNTED)}"]


def on_alike(classes: Sequence[str]) -> list[str]:
    """Warn of classes that differ only in case or blanks: they may be meant as one.

    >>> on_alike(("No", "no", "yes"))
    ["'No' and 'no' are two classes: they differ only in case or blanks, write them alike if one class is meant"]
    """
    alike: dict[str, list[str]] = {}
    for one in classes:
        alike.setdefault(" ".join(one.casefold().split()), []).append(f"'{shown(one)}'")
    groups = [some for some in alike.values() if len(some) > 1]
    if not groups:
        return []
    said = [f"{listed(some)} are {'two' if len(some) == 2 else len(some)} classes" for some in groups]
    return [f"{listed(said, 3)}: they differ only in case or blanks, write them alike if one class is meant"]
