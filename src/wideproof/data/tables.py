"""Read a table of numbers with one target column from delimited text, naming the place of anything wrong."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from wideproof.errors import InputError

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
Header = bool | Literal["auto"]


def read_text(path: Path, *, target: str | int | None = None, header: Header = "auto") -> tuple[np.ndarray, np.ndarray]:
    r"""Return `(x, labels)` of a text table; labels are numbers if all are, text otherwise.

    The delimiter is the comma, semicolon, tab or white space that cuts the first lines evenly. With
    `header="auto"` the first row is a header if it has text in a column whose other fields are mostly
    numbers.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "two.csv"
    ...     _ = file.write_text("height,weight,kind\n1.5,60,a\n1.8,80,b\n")
    ...     x, labels = read_text(file)
    >>> x.tolist(), labels.tolist()
    ([[1.5, 60.0], [1.8, 80.0]], ['a', 'b'])
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        text = text[1:].lstrip(" ") if text.startswith("#") else text  # np.savetxt marks its header so
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path.name} is not UTF-8 text (byte {error.start}): save it as UTF-8, or use .npz or .parquet"
        ) from None
    try:
        rows, lines = _split(text, path)
    except csv.Error as error:
        raise InputError(f"{path.name} cannot be read as a table ({error}): check its quotes") from None
    if not rows:
        raise InputError(f"{path.name} is empty: give a table with one example a row")
    _require_rectangle(rows, lines, path)
    names = _header(rows, header)
    if names is not None:
        rows, lines = rows[1:], lines[1:]
        if not rows:
            raise InputError(f"{path.name} holds a header only: add one row for each example")
    width = len(rows[0])
    if width < 2:
        raise InputError(f"{path.name} has one column: give at least one input column and a target column")
    position = target_position(target, names, width, path.name)
    columns = list(zip(*rows, strict=True))
    labels = _target(columns[position], names, position, lines, path)
    x = np.empty((len(rows), width - 1))
    for k, j in enumerate(j for j in range(width) if j != position):
        x[:, k] = _numbers(columns[j], names, j, lines, path)
    return x, labels


def target_position(target: str | int | None, names: Sequence[str] | None, width: int, file: str) -> int:
    """Return the column of the target: by name, by position (negative from the end), the last by default."""
    if target is None:
        return width - 1
    if isinstance(target, str):
        found = [j for j, name in enumerate(names or ()) if name == target]
        if len(found) == 1:
            return found[0]
        if found:
            raise InputError(f"{file} has {len(found)} columns called '{target}': choose the target by position")
        if not target.lstrip("-").isdigit():
            there = f"its columns are {', '.join(names[:30])}" if names else "it has no header"
            raise InputError(f"{file} has no column '{target}' ({there}): choose the target by name or position")
        target = int(target)
    if not -width <= target < width:
        raise InputError(
            f"{file} has {width} columns, the target was asked at position {target}: take 0 to {width - 1}"
        )
    return target % width


def _split(text: str, path: Path) -> tuple[list[list[str]], list[int]]:
    """Return the rows that are not blank, each with its line number in the file."""
    delimiter = "\t" if path.suffix.lower() == ".tsv" else _delimiter(text)
    rows, lines = [], []
    for line, row in _cells(text, delimiter):
        if row and (len(row) > 1 or row[0].strip()):
            rows.append(row)
            lines.append(line)
    return rows, lines


def _cells(text: str, delimiter: str | None) -> Iterator[tuple[int, list[str]]]:
    if delimiter is None:
        yield from ((line, row.split()) for line, row in enumerate(text.splitlines(), start=1))
        return
    reader = csv.reader(text.splitlines(keepends=True), delimiter=delimiter, skipinitialspace=True, strict=True)
    for row in reader:
        yield reader.line_num, row


def _delimiter(text: str) -> str | None:
    """Return the first of tab ; , that cuts the first lines evenly; None means white space."""
    head = [line for line in text[:200_000].splitlines() if line.strip()][:20]
    best, most = None, 0
    for one in ("\t", ";", ","):
        counts = [len(row) for row in csv.reader(head, delimiter=one)]
        even = len(set(counts)) == 1 and counts[0] > 1
        if even:
            return one
        if counts and counts[0] - 1 > most:
            best, most = one, counts[0] - 1
    return best


def _require_rectangle(rows: list[list[str]], lines: list[int], path: Path) -> None:
    width = len(rows[0])
    for row, line in zip(rows, lines, strict=True):
        if len(row) != width:
            raise InputError(
                f"{path.name}, line {line}: {len(row)} fields where line {lines[0]} has {width}: "
                "give every row the same number of fields"
            )


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _header(rows: list[list[str]], header: Header) -> list[str] | None:
    if header == "auto":
        below = rows[1:101]
        header = not below and not any(_is_number(field) for field in rows[0])
        for j, field in enumerate(rows[0]):
            if below and not _is_number(field) and field.strip().lower() not in MISSING:
                numbers = sum(_is_number(row[j]) for row in below)
                header = header or 2 * numbers > len(below)
    return [name.strip() for name in rows[0]] if header else None


def _column(names: Sequence[str] | None, j: int) -> str:
    return f"column {j}" if names is None else f"column {j} ('{names[j]}')"


def _require_present(fields: Sequence[str], names: list[str] | None, j: int, lines: list[int], path: Path) -> None:
    for field, line in zip(fields, lines, strict=True):
        if field.strip().lower() in MISSING:
            shown = f"holds '{field.strip()}'" if field.strip() else "is empty"
            raise InputError(
                f"{path.name}, line {line}, {_column(names, j)} {shown}, a missing value: fill it in or remove the row"
            )


def _numbers(fields: Sequence[str], names: list[str] | None, j: int, lines: list[int], path: Path) -> np.ndarray:
    try:
        values = np.array(fields, dtype=np.float64)
    except ValueError:
        _require_present(fields, names, j, lines, path)
        line, field = next((li, f) for li, f in zip(lines, fields, strict=True) if not _is_number(f))
        raise InputError(
            f"{path.name}, line {line}, {_column(names, j)} holds the text '{field[:40]}' where a "
            "number is needed: "
            "correct it, or remove or encode the column"
        ) from None
    if not np.isfinite(values).all():
        _require_present(fields, names, j, lines, path)
        row = int(np.argmin(np.isfinite(values)))
        raise InputError(
            f"{path.name}, line {lines[row]}, {_column(names, j)} holds {values[row]}: give a finite number"
        )
    for row in np.flatnonzero(np.abs(values) >= 2.0**53).tolist():  # else two different numbers could be read as equal
        if fields[row].strip().lstrip("+-").isdigit() and int(fields[row]) != int(values[row]):
            raise InputError(
                f"{path.name}, line {lines[row]}, {_column(names, j)} holds {fields[row].strip()[:40]}, which has more "
                "digits than float64 keeps: subtract an offset from the column, or leave it out"
            )
    return values


def _target(fields: Sequence[str], names: list[str] | None, j: int, lines: list[int], path: Path) -> np.ndarray:
    _require_present(fields, names, j, lines, path)
    if all(_is_number(field) for field in fields):
        return _numbers(fields, names, j, lines, path)
    return np.array([field.strip() for field in fields])
