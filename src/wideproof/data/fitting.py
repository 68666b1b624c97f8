"""Turn a table into inputs and labels: decide what each column is, fill or drop what is missing, write it down."""

import re
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from wideproof.data.columns import Column, Reading, read_column
from wideproof.data.encoding import Encoding, blocks_of
from wideproof.data.labels import MOST_CLASSES
from wideproof.data.notes import on_columns
from wideproof.data.tables import Table
from wideproof.data.words import MISSING, complain, counted, shown
from wideproof.errors import InputError

Missing = Literal["fill", "drop", "error"]
MANY = 50  # a text with more categories than this, and than half the rows, is left out
_ID_NAME = re.compile(r"(?:.*[_\-. ])?(?:id|uuid|guid)|index|idx|row_?number|unnamed: ?[0-9]+|", re.IGNORECASE)
_ID_CAMEL = re.compile(r".*[a-z0-9](?:Id|ID)")
_LEADING_ZERO = re.compile(r"[+-]?0[0-9]+(?:\.[0-9]*)?")
_FEW = 5  # fewer rows than this do not show that a column counts them


@dataclass(frozen=True, eq=False)
class Fitted:
    """Inputs and labels of a table, the place of each row in the source, and how they were made.

    `blanks` says of every row and column whether the value was missing, `remarks` which rows were dropped.
    """

    x: np.ndarray
    labels: Any
    rows: np.ndarray
    encoding: Encoding
    blanks: np.ndarray
    remarks: tuple[str, ...]

    def notes_on(self, used: np.ndarray) -> tuple[str, ...]:
        """Return the notes of the encoding, with the blanks of the used rows counted."""
        had = self.encoding
        return on_columns(had.columns, self.blanks[used], self.remarks, had.left_out, had.decimal)


def fit(
    table: Table,
    position: int | None,
    labels: Any = None,
    *,
    missing: Missing = "fill",
    keep_ids: bool = False,
    target: str | None = None,
) -> Fitted:
    """Return the inputs of a table and the labels in its column `position`, or those given apart.

    >>> from wideproof.data.frames import as_table
    >>> found = fit(as_table(np.array([[1.0, np.nan, 0], [2.0, 5.0, 1]])), 2)
    >>> found.x.tolist(), found.labels.tolist(), found.encoding.inputs
    ([[1.0, 5.0, 1.0], [2.0, 5.0, 0.0]], [0.0, 1.0], ('column 0', 'column 1', 'column 1 missing'))
    """
    if missing not in get_args(Missing):
        raise InputError(f"`missing` must be one of {', '.join(get_args(Missing))}, got '{missing}'")
    if table.width - (position is not None) < 1 or not len(table.rows):
        if table.width == 1 and table.place == "line":
            raise InputError(f"{table.source} has one column: give at least one input column and a target column")
        raise InputError(
            f"{table.source} has {len(table.rows)} rows and {table.width} columns: give one row for each example, "
            "at least one input column and a target"
        )
    problems: list[str] = []
    remarks: list[str] = []
    if position is not None:
        labels, lost = _labels(table, position, problems)
        target = table.labels[position]
    else:
        labels, lost = _given_labels(labels, table)
    if lost.any() and missing == "error":
        problems += _missing_problems(table, position, lost)
    elif lost.any() and not problems:
        if lost.all():
            raise InputError(f"{table.source} has no row with a target: choose another column with `target`")
        remarks.append(f"dropped {counted(int(lost.sum()), 'row')} without a target")
        table, labels = _without(table, lost), labels[~lost]
    used, readings, left_out = _choose(table, position, keep_ids, problems)
    holes = np.any([reading.missing for reading in readings], axis=0)
    if missing == "error":
        for j, reading in zip(used, readings, strict=True):
            problems += _missing_problems(table, j, reading.missing)
    complain(table.source, problems)
    if missing == "drop" and holes.any():
        if holes.all():
            raise InputError(f"every row of {table.source} has a missing value: fill them in, or use missing='fill'")
        remarks.append(f"dropped {counted(int(holes.sum()), 'row')} with a missing value")
        table, labels = _without(table, holes), labels[~holes]
        readings = [_kept(reading, ~holes) for reading in readings]
    columns = tuple(_fit(table.labels[j], j, reading) for j, reading in zip(used, readings, strict=True))
    blanks = np.column_stack([reading.missing for reading in readings])
    encoding = Encoding(
        columns, table.width, target, position, table.named, table.decimal, tuple(left_out),
        notes=on_columns(columns, blanks, remarks, left_out, table.decimal),
    )  # fmt: skip
    return Fitted(blocks_of(columns, readings), labels, table.rows, encoding, blanks, tuple(remarks))


def _kept(reading: Reading, keep: np.ndarray) -> Reading:
    """Return the reading of the rows that are kept."""
    return replace(reading, values=reading.values[keep], missing=reading.missing[keep])


def _without(table: Table, gone: np.ndarray) -> Table:
    return replace(table, frame=table.frame[~gone].reset_index(drop=True), rows=table.rows[~gone])


def _labels(table: Table, j: int, problems: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the raw labels (text if any has a leading zero, as 007 has) and where they are missing."""
    reading = read_column(table, j)
    fields = table.frame[j]
    if reading.kind == "text" or fields.dtype.kind not in "biufMm":
        texts = np.array([str(field).strip() for field in fields.astype(object).where(fields.notna(), "")])
        lost = np.array([text.lower() in MISSING for text in texts], dtype=bool)
        if reading.kind != "number" or any(_LEADING_ZERO.fullmatch(text) for text in texts):
            many = len(set(texts)) > max(MOST_CLASSES, len(texts) // 2)  # numbers, and one of them is misspelt
            problems += reading.problems if many or reading.unreadable else []
            return texts, lost
    problems += reading.besides_merging
    if fields.dtype.kind == "b" and not reading.missing.any():
        return fields.to_numpy(bool), reading.missing
    if fields.dtype.kind in "iu" and not reading.missing.any():
        return fields.to_numpy(fields.dtype), reading.missing
    return reading.values, reading.missing


def _given_labels(labels: Any, table: Table) -> tuple[Any, np.ndarray]:
    raw = np.asarray(labels)
    if raw.ndim == 0 or len(raw) != len(table.rows):
        count = len(raw) if raw.ndim else 1
        raise InputError(f"{table.source} has {len(table.rows)} rows and {count} labels: give one for each row")
    return raw, missing_labels(raw)


def missing_labels(raw: np.ndarray) -> np.ndarray:
    """Say where labels given as an array are missing: None, NaN or empty text; of several, any of them.

    >>> missing_labels(np.array(["a", "", "none"])).tolist()
    [False, True, False]
    """
    if raw.ndim == 2 and raw.dtype.kind == "f":
        return np.asarray(np.isnan(raw).any(axis=1))
    if raw.ndim != 1 or raw.dtype.kind not in "fOU":
        return np.zeros(len(raw) if raw.ndim else 0, dtype=bool)
    if raw.dtype.kind == "f":
        return np.isnan(raw)
    return np.array([one is None or str(one).strip() in ("", "nan", "<NA>", "NaT") for one in raw], dtype=bool)


def _missing_problems(table: Table, j: int | None, lost: np.ndarray) -> list[str]:
    """Return one problem, if there is any: the first missing value and how many more the column has."""
    if not lost.any():
        return []
    row, more = int(np.argmax(lost)), int(lost.sum()) - 1
    others = f" (and {more} more in this column)" if more else ""
    if j is None:
        return [f"row {table.rows[row]} (counting from 0) has no target{others}: fill it in or remove the row"]
    field = table.frame[j].iloc[row]
    text = str(field).strip() if isinstance(field, str) else ""
    what = f"holds '{shown(text)}'," if text else "is empty," if table.place == "line" else "is"
    return [f"{table.where(row, j)} {what} a missing value{others}: fill it in or remove the row"]


def _choose(
    table: Table, position: int | None, keep_ids: bool, problems: list[str]
) -> tuple[list[int], list[Reading], list[tuple[str, str]]]:
    """Return the columns to use, what they hold, and those left out with the reason."""
    found = {j: read_column(table, j) for j in range(table.width) if j != position}
    reasons = {j: reason for j, reading in found.items() if (reason := _reason(table, j, reading, keep_ids))}
    if len(reasons) == len(found):
        ranked = [j for j in found if not found[j].missing.all()]
        numbers = [j for j in ranked if found[j].kind != "text"]
        if not ranked:
            raise InputError(f"{table.source} has input columns without any value: give at least one input")
        del reasons[(numbers or ranked)[-1]]
    used = [j for j in found if j not in reasons]
    for j in used:
        problems += found[j].problems
    return used, [found[j] for j in used], [(table.labels[j], reasons[j]) for j in sorted(reasons)]


def _reason(table: Table, j: int, reading: Reading, keep_ids: bool) -> str:
    """Return why a column is left out; nothing if it is not."""
    present, n = reading.present, len(reading.values)
    if not len(present):
        return "empty"
    if reading.kind == "text" and reading.problems:  # numbers with a fault, which is told, rather than names
        return ""
    fields = table.frame[j][~reading.missing].map(str) if reading.problems else present  # floats can merge numbers
    distinct = len(set(fields.tolist()))
    if not keep_ids and distinct == n and n > 1:
        number = reading.kind == "number"
        whole = number and bool((present == np.floor(present)).all())
        if whole and n >= _FEW and present[0] in (0, 1) and bool((np.diff(present) == 1).all()):
            return "row numbers"
        name = table.names[j].strip()
        named = table.named and (_ID_NAME.fullmatch(name) or _ID_CAMEL.fullmatch(name))
        if named and (whole or reading.kind == "text" or (number and bool(reading.problems))):
            return "identifiers"
        if reading.kind == "text" and n > 20:
            return "all different"
    if reading.kind == "text" and distinct > MANY and distinct > n / 2:
        return f"{distinct} different texts"
    return ""


def _fit(name: str, j: int, reading: Reading) -> Column:
    """Return how a column is encoded, with what scikit-learn fits on it."""
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import OneHotEncoder

    present = reading.present[:, None]
    middle = "median" if reading.kind in ("number", "date") else "most_frequent"
    imputer: Any = SimpleImputer(strategy=middle).fit(present)
    indicator = bool(reading.missing.any())
    if reading.kind != "text":
        return Column(name, j, reading.kind, float(imputer.statistics_[0]), (), indicator, reading.format)
    encoder: Any = OneHotEncoder(handle_unknown="ignore").fit(present)
    categories = tuple(str(one) for one in encoder.categories_[0])
    return Column(name, j, "text", str(imputer.statistics_[0]), categories, indicator)


def uses_table(array: np.ndarray) -> bool:
    """Say whether an array of two axes needs encoding: it holds text, or numbers are missing.

    >>> uses_table(np.eye(2)), uses_table(np.array([[1.0, np.nan]]))
    (False, True)
    """
    return array.ndim == 2 and (array.dtype.kind in "OUS" or (array.dtype.kind == "f" and bool(np.isnan(array).any())))
