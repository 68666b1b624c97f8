"""Read a table from delimited text as it comes: encoding, separator, decimal commas and header are found out.

pandas cuts the text into fields and leaves them as they are written; `columns` decides what they mean.
"""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from wideproof.data.exact import NUMBER, is_number
from wideproof.data.formats import suffix_of, unpacked
from wideproof.data.words import MISSING, complain, meant, plain
from wideproof.data.written import COMMA, THOUSANDS, is_written, without_sign
from wideproof.errors import InputError

Header = bool | Literal["auto"]
SEPARATORS = ("\t", ";", "|", ",")
_SPARE = 50  # a row with more fields too many than this is refused while it is cut
_DATE_LIKE = re.compile(r"[0-9]{1,4}([-/.])[0-9]{1,2}\1[0-9]{1,4}(?:[tT ].*)?")
_NO_NAMES = frozenset({"nan", "true", "false", "yes", "no"})


@dataclass(frozen=True, eq=False)
class Table:
    """A table before it is encoded: columns by position, their names, and where each row stands in the source."""

    frame: Any
    names: tuple[str, ...]
    rows: np.ndarray
    source: str
    named: bool = True
    place: Literal["line", "row"] = "row"
    decimal: Literal[".", ","] = "."

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.names)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Printable names, all different; `column 3` where the source has none."""
        seen: dict[str, int] = {}
        result = []
        for j, name in enumerate(self.names):
            label = plain(name) or f"column {j}"
            seen[label] = seen.get(label, 0) + 1
            result.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
        return tuple(result)

    def where(self, row: int, j: int) -> str:
        """Return the place of one field for a message, as in `line 3, column 'a'`."""
        count = "" if self.place == "line" else " (counting from 0)"
        return f"{self.place} {self.rows[row]}{count}, {self.column(j)}"

    def column(self, j: int) -> str:
        """Return a column for a message: by its name, else by its number, from 1 for files that a spreadsheet opens."""
        if plain(self.names[j]):
            return f"column '{self.labels[j]}'"
        first = 1 if self.place == "line" else 0
        return f"column {j + first} (counting from {first})"


def read_text(
    path: Path, *, header: Header = "auto", expected: Sequence[str] = (), decimal: Literal[".", ",", "auto"] = "auto"
) -> Table:
    r"""Return the fields of a text table as they are written.

    The separator is the tab, semicolon, pipe, comma or white space that splits the first lines evenly.

    Parameters
    ----------
    path
        The file, which may be compressed by gzip (`.csv.gz`).
    header
        Whether the first row has the names of the columns. `"auto"` takes it as names if it has text in a column whose
        other fields are mostly numbers or dates, if none of its fields occurs again below, or if it has a name among
        `expected`.
    expected
        Names of columns that the table may have.
    decimal
        The decimal mark of numbers; detected by default.

    Returns
    -------
    Table
        The fields, with the names and the decimal mark.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "two.csv"
    ...     _ = file.write_text("height;kind\n1,5;a\n\n1,8;b\n")
    ...     table = read_text(file)
    >>> table.names, table.rows.tolist(), table.decimal
    (('height', 'kind'), [2, 4], ',')
    """
    name = plain(path.name)
    text = _decoded(unpacked(path), name)
    text = text[1:].lstrip(" ") if text.startswith("#") else text  # np.savetxt marks its header so
    said = re.match(r'"?sep=(.)"?\n', text)  # so spreadsheets say it
    text = text[said.end() - 1 :] if said else text
    separator = said[1] if said else _separator(text, suffix_of(path).startswith(".tsv"))
    frame, lines = _cut(text, separator, name)
    while frame.shape[1] > 2 and (frame[frame.shape[1] - 1] == "").all():  # every line ends in a separator
        frame = frame.iloc[:, :-1]
    names = _header(frame, header, expected)
    if names is not None:
        frame, lines = frame.iloc[1:].reset_index(drop=True), lines[1:]
        if not len(frame):
            raise InputError(f"{name} holds a header only: add one row for each example")
    mark = _decimal(frame) if decimal == "auto" else decimal
    shown = names if names is not None else ("",) * frame.shape[1]
    return Table(frame, tuple(shown), lines, name, names is not None, "line", mark)


def target_position(target: str | int | None, names: Sequence[str] | None, width: int, file: str) -> int:
    """Return the column of the target: by name, by position (negative from the end), the last by default.

    >>> target_position("b", ("a", "b", "c"), 3, "t.csv"), target_position(-1, None, 3, "t.csv")
    (1, 2)
    """
    if target is None:
        return width - 1
    if isinstance(target, str):
        found = [j for j, name in enumerate(names or ()) if target in (name, plain(name))]
        if len(found) == 1:
            return found[0]
        if found:
            raise InputError(f"{file} has {len(found)} columns called '{plain(target)}': choose the target by position")
        if not re.fullmatch(r"-?[0-9]{1,18}", target):
            there = f"its columns are {', '.join(map(plain, names[:30]))}" if names else "it has no header"
            hint = meant(target, names or ())
            raise InputError(
                f"{file} has no column '{plain(target)}'{hint}, {there}: choose the target by name or position"
            )
        target = int(target)
    if isinstance(target, bool) or not isinstance(target, int | np.integer):
        raise InputError(f"the target of {file} must be a name or a position, got {plain(repr(target))}")
    if not -width <= target < width:
        raise InputError(
            f"{file} has {width} columns, so there is no target at position {target}: use 0 to {width - 1}"
        )
    return int(target) % width


def _decoded(raw: bytes, name: str) -> str:
    order = ("utf-16",) if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else ("utf-8-sig", "cp1252", "latin-1")
    for encoding in order:
        try:
            text = raw.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\0" in text:
            break
        return text.replace("\r\n", "\n").replace("\r", "\n")
    raise InputError(f"{name} is not text (it holds zero bytes or broken characters): save it as UTF-8, or use .npz")


def _separator(text: str, tabs: bool) -> str:
    """Return the first separator that cuts the first lines evenly; a blank means white space."""
    head = text[:200_000]
    if tabs and "\t" in head:
        return "\t"
    best, most = " ", 0
    for one in SEPARATORS:
        counts = [len(row) for row in _first_rows(head, one)]
        if counts and counts[0] > 1 and len(set(counts)) == 1:
            return " " if one == "," and _blanks_between_decimal_commas(head) else one
        if counts and counts[0] - 1 > most:
            best, most = one, counts[0] - 1
    return best


def _first_rows(head: str, separator: str) -> list[list[str]]:
    rows = []
    try:
        for row in csv.reader(io.StringIO(head), delimiter=separator, skipinitialspace=True):
            if any(field.strip() for field in row):
                rows.append(row)
            if len(rows) == 20:
                break
    except csv.Error:
        pass
    return rows


def _blanks_between_decimal_commas(head: str) -> bool:
    """Say whether the lines (but the first, a header perhaps) read like `3,14 2,71`."""
    rows = [line.split() for line in head.splitlines() if line.strip()][:20]
    body = rows[1:] or rows
    even = len({len(row) for row in body}) == 1 and len(body[0]) > 1
    fields = [field for row in body for field in row]
    return even and any("," in f for f in fields) and all(COMMA.fullmatch(f) or is_number(f) for f in fields)


def _cut(text: str, separator: str, name: str) -> tuple[Any, np.ndarray]:
    """Return the fields of the rows that are not blank, and the line on which each row ends."""
    if separator == " ":
        text = "\n".join(" ".join(line.split()) for line in text.split("\n"))
    first = next(iter(_first_rows(text[:200_000], separator)), None)
    if first is None:
        raise InputError(f"{name} is empty: give a table with one row for each example")
    width = len(first)
    if (quick := _cut_quickly(text, separator, width)) is not None:
        return quick
    return _cut_carefully(text, separator, width, name)


def _cut_quickly(text: str, separator: str, width: int) -> tuple[Any, np.ndarray] | None:
    """Do what `_cut_carefully` does by pandas' C parser; None if there are quotes, or rows of another width."""
    import pandas as pd

    rows = text.split("\n")
    if '"' in text or any(row and row.count(separator) != width - 1 for row in rows):
        return None
    frame = pd.read_csv(
        io.StringIO(text), sep=separator, header=None, names=list(range(width)), index_col=False, dtype=str,
        keep_default_na=False, na_filter=False, skip_blank_lines=True, skipinitialspace=separator != " ",
        quoting=csv.QUOTE_NONE, engine="c",
    )  # fmt: skip
    lines = np.array([k for k, row in enumerate(rows, start=1) if row], dtype=np.int64)
    return (frame, lines) if len(frame) == len(lines) else None  # lines of nothing but blanks are a matter of care


def _cut_carefully(text: str, separator: str, width: int, name: str) -> tuple[Any, np.ndarray]:
    """Cut by the csv module, which knows where each row ends and how many fields it has."""
    import pandas as pd

    wider = width + min(_SPARE, max(0, 1 + max(line.count(separator) for line in text.split("\n")) - width))
    try:
        frame = pd.read_csv(
            io.StringIO(text), sep=separator, header=None, names=list(range(wider)), index_col=False, dtype=str,
            keep_default_na=False, na_filter=False, skip_blank_lines=False, skipinitialspace=separator != " ",
            engine="python",
        )  # fmt: skip
    except (pd.errors.ParserError, csv.Error) as error:
        reason = " ".join(str(error).split())
        if found := re.match(r"Expected [0-9]+ fields in line ([0-9]+), saw ([0-9]+)", reason):
            complain(name, [_ragged(int(found[1]), int(found[2]), 1, width)])
        raise InputError(f"{name} cannot be read as a table ({reason}): check its quotes") from None
    breaks = sum((frame[j].fillna("").str.count("\n").to_numpy() for j in frame.columns), np.zeros(len(frame)))
    lines = np.cumsum(1 + breaks).astype(np.int64)
    there = frame.notna().to_numpy()
    full = (there[:, 1:].any(axis=1)) | (frame[0].fillna("").str.strip() != "").to_numpy()
    frame, lines, counts = frame[full].reset_index(drop=True), lines[full], there[full].sum(axis=1)
    complain(name, [_ragged(lines[k], counts[k], lines[0], width) for k in np.flatnonzero(counts != width).tolist()])
    return frame.iloc[:, :width], lines


def _ragged(line: int, fields: int, first: int, width: int) -> str:
    return f"line {line}: {fields} fields where line {first} has {width}: give every row the same number of fields"


def _kinds(fields: Sequence[str]) -> Iterator[bool]:
    """Say of every field whether it is a number, a date or a truth value, rather than a name."""
    for field in fields:
        one = field.strip().lower()
        yield is_number(one) or one in _NO_NAMES or is_written(one.upper()) or bool(_DATE_LIKE.fullmatch(one))


def _header(frame: Any, header: Header, expected: Sequence[str]) -> list[str] | None:
    first = [str(field).strip() for field in frame.iloc[0]]
    if header == "auto":
        header = bool(set(expected) & set(map(plain, first))) or _looks_like_names(first, frame.iloc[1:101])
    return first if header else None


def _looks_like_names(first: list[str], below: Any) -> bool:
    typed = list(_kinds(first))
    if not len(below):
        return not any(typed)
    again = False
    for j, field in enumerate(first):
        column = below[j].str.strip()
        if not typed[j] and field.lower() not in MISSING and 2 * sum(_kinds(column)) > len(column):
            return True
        again = again or field in set(column)
    repeats = any(2 * below[j].nunique() <= len(below) for j in range(len(first)))
    return not again and not any(typed) and repeats and len(set(first)) == len(first)


def _decimal(frame: Any) -> Literal[".", ","]:
    """Return the comma if numbers are written like `3,14` somewhere and like `3.14` nowhere."""
    found = False
    for j in frame.columns:
        fields = [field for field in map(str.strip, frame[j].tolist()) if field.lower() not in MISSING]
        if not all(map(NUMBER.fullmatch, fields)):
            fields = list(map(without_sign, fields))
        commas = [field for field in fields if COMMA.fullmatch(field)]
        if len(commas) + sum(map(is_number, fields)) < len(fields):
            continue
        if any("." in field for field in fields):
            return "."
        found = found or any(not THOUSANDS.fullmatch(field) for field in commas)
    return "," if found else "."
