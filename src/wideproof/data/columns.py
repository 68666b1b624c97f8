"""What the fields of one column mean: numbers, truth values, dates or text, and how they become inputs."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from wideproof.data.exact import NUMBER, inexact, is_number, lost_whole, merged
from wideproof.data.tables import Table
from wideproof.data.words import MISSING, plain, shown
from wideproof.data.written import COMMA, THOUSANDS, Written, how_written, is_written, without_sign

ColumnKind = Literal["number", "boolean", "text", "date"]
BOOLEANS = (("false", "true"), ("no", "yes"), ("f", "t"), ("n", "y"))
_TRUTH = {word: float(k) for pair in BOOLEANS for k, word in enumerate(pair)} | {"0": 0.0, "1": 1.0}
_ISO = r"[0-9]{4}-[0-9]{2}(?:-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?(?:Z|[+-][0-9:]{4,6})?)?)?"
_DAYS = ("%Y/%m/%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y")
FORMATS = ("ISO8601", *(day + time for time in ("", " %H:%M", " %H:%M:%S") for day in _DAYS))


@dataclass(frozen=True)
class Column:
    """How one column of a table becomes inputs.

    `fill` replaces a missing value, `categories` are those of a text, `format` is that of a date or of numbers with
    signs and marks, and with `indicator` one more input is 1 where the value was missing.

    >>> Column("sex", 0, "text", "male", ("female", "male"), True).inputs
    ('sex=female', 'sex=male', 'sex missing')
    """

    name: str
    position: int
    kind: ColumnKind
    fill: float | str
    categories: tuple[str, ...] = ()
    indicator: bool = False
    format: str = ""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs it becomes."""
        own = tuple(f"{self.name}={plain(one)}" for one in self.categories) if self.kind == "text" else (self.name,)
        return (*own, f"{self.name} missing") if self.indicator else own


@dataclass
class Reading:
    """The values of one column: floats (NaN where missing) or, for text, strings; and what is wrong with them.

    `unreadable` says that it is wrong for labels too, where any text will do. `merging` is the one problem, if there
    is any, that two different numbers are equal in float64.
    """

    kind: ColumnKind
    values: np.ndarray
    missing: np.ndarray
    format: str = ""
    problems: list[str] = field(default_factory=list)
    unreadable: bool = False
    merging: str = ""

    @property
    def besides_merging(self) -> list[str]:
        """The problems that matter also where different rows may have equal values, as targets may."""
        return [problem for problem in self.problems if problem != self.merging]

    @property
    def present(self) -> np.ndarray:
        """The values that are not missing."""
        return self.values[~self.missing]


def read_column(table: Table, j: int, known: Column | None = None) -> Reading:
    """Return what column `j` holds: as the `known` column was read, or found out.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({0: ["yes", "no", "?"], 1: ["2020-01-02", "1970-01-02", "NA"]})
    >>> table = Table(frame, ("a", "b"), np.arange(3), "t")
    >>> [(read_column(table, j).kind, read_column(table, j).values.tolist()) for j in (0, 1)]
    [('boolean', [1.0, 0.0, nan]), ('date', [18263.0, 1.0, nan])]
    """
    import pandas as pd

    series = table.frame[j]
    if isinstance(series.dtype, pd.CategoricalDtype):
        series = series.astype(object)
    kind = getattr(series.dtype, "kind", "O")
    if kind == "M":
        reading = _dates(pd.to_datetime(series, utc=True), "", table, j)
    elif kind == "m":
        reading = replace(_dates(series + pd.Timestamp(0, tz="UTC"), "", table, j), kind="number")
    elif kind in "biuf" and pd.api.types.is_numeric_dtype(series.dtype):
        reading = _typed(series, kind, table, j)
    elif kind == "c":
        return Reading(
            "number", np.zeros(len(series)), np.zeros(len(series), bool),
            problems=[f"{table.column(j)} holds complex numbers: give real numbers"],
        )  # fmt: skip
    else:
        return _text(series, table, j, known)
    if known is not None and known.kind == "text":
        names = [str(int(v)) if isinstance(v, float) and v.is_integer() else str(v) for v in series.astype(object)]
        return Reading("text", np.array(names, dtype=object), reading.missing)
    if known is not None and known.kind == "number" and known.format and Written.like(known.format).of_a_hundred:
        reading.problems = [
            f"{table.column(j)} holds {series.dtype} where the training table has numbers like '{known.format}': give "
            "it as text with this sign, since 0.03 and 3 % would be confused"
        ]
    elif known is not None and not _fits(known, reading):
        needed = {"number": "numbers", "boolean": "truth values", "date": "dates"}
        reading.problems = [f"{table.column(j)} holds {series.dtype} where {needed[known.kind]} are needed: convert it"]
    return reading


def _fits(known: Column, reading: Reading) -> bool:
    if known.kind == reading.kind or reading.missing.all():
        return True
    if known.kind == "boolean":
        return reading.kind == "number" and bool(np.isin(reading.present, (0.0, 1.0)).all())
    return known.kind == "number" and reading.kind == "boolean"


def _typed(series: Any, kind: str, table: Table, j: int) -> Reading:
    missing = series.isna().to_numpy(bool)
    present = series[~missing].to_numpy(dtype=getattr(series.dtype, "numpy_dtype", series.dtype))
    lost = inexact(present)
    with np.errstate(over="ignore"):
        values = np.full(len(series), np.nan)
        values[~missing] = present.astype(np.float64)
    problems = []
    if lost is not None:
        row = int(np.flatnonzero(~missing)[lost])
        problems.append(_too_many_digits(table, row, j, present[lost]))
    else:
        problems += _infinite(values, missing, table, j)
    return Reading("boolean" if kind == "b" else "number", values, missing, problems=problems)


def _text(series: Any, table: Table, j: int, known: Column | None) -> Reading:
    odd = None
    if series.dtype == object:
        odd = next((v for v in series if isinstance(v, list | tuple | dict | set | bytes | np.ndarray | complex)), None)
    gone = series.isna().to_numpy(bool)
    fields = [str(value).strip() for value in series.tolist()]
    if gone.any():
        fields = ["" if lost else one for one, lost in zip(fields, gone, strict=True)]
    if odd is None and known is None and fields and all(map(NUMBER.fullmatch, fields)):  # of many the most
        return _numbers(fields, np.zeros(len(fields), dtype=bool), table, j)
    lost = {one for one in set(fields) if one.lower() in MISSING}
    missing = np.array([one in lost for one in fields], dtype=bool)
    there = [one for one in fields if one not in lost] if lost else fields
    if odd is not None:
        problem = f"{table.column(j)} holds values of {type(odd).__name__}: give numbers, text or dates"
        return Reading("text", np.array(fields, dtype=object), missing, problems=[problem], unreadable=True)
    if known is not None:
        return _as_known(known, fields, missing, table, j)
    if there and all(_is_plain(one, table) for one in there):
        return _numbers(fields, missing, table, j)
    truth = {one.lower() for one in there}
    if any(truth == set(pair) for pair in BOOLEANS):
        return Reading("boolean", np.array([_TRUTH.get(one.lower(), np.nan) for one in fields]), missing)
    how = how_written(dict.fromkeys(there), table.decimal)
    if isinstance(how, Written):
        return _numbers(fields, missing, table, j, how)
    if there and (found := _find_dates(fields, missing, table, j)) is not None:
        return found
    reading = Reading("text", np.array(fields, dtype=object), missing)
    if how is not None:
        row = next(k for k, one in enumerate(fields) if one == how)
        reading.problems.append(f"{table.where(row, j)} holds '{shown(how)}'{_unclear(how, there)}")
        reading.unreadable = True
        return reading
    numbers = sum(is_number(one) or is_written(one) for one in there)
    texts = len(there) - numbers
    if numbers > texts and texts <= max(1, len(there) // 10):
        row = next(k for k, one in enumerate(fields) if not (missing[k] or is_number(one) or is_written(one)))
        reading.problems.append(_not_a_number(table, row, j, fields[row]))
    return reading


def _is_plain(one: str, table: Table) -> bool:
    return is_number(one) or (table.decimal == "," and bool(COMMA.fullmatch(one)))


def _unclear(one: str, there: Sequence[str]) -> str:
    signed = next((other for other in there if without_sign(other) != other), None)
    if without_sign(one) == one and signed is not None:
        return f" where others are written like '{shown(signed)}': write all of them with the sign, or none"
    number = without_sign(one)
    if COMMA.fullmatch(number) and not THOUSANDS.fullmatch(number):
        return (
            " with a decimal comma, in a table that is read with decimal points: write all its numbers with decimal "
            "points, or all with decimal commas"
        )
    if NUMBER.fullmatch(number) and number != one:
        return " where others have another sign: write all of them with one sign, or none"
    return ", whose mark may stand for decimals or thousands: write a decimal point, and no mark between thousands"


def _not_a_number(table: Table, row: int, j: int, one: str) -> str:
    return (
        f"{table.where(row, j)} holds the text '{shown(one)}' where a number is needed: "
        "correct it, or remove or encode the column"
    )


def _too_many_digits(table: Table, row: int, j: int, value: object) -> str:
    return (
        f"{table.where(row, j)} holds {shown(value)}, which has more digits than float64 keeps: "
        "subtract an offset from the column, or leave it out"
    )


def _infinite(values: np.ndarray, missing: np.ndarray, table: Table, j: int) -> list[str]:
    wrong = np.flatnonzero(~missing & ~np.isfinite(values))
    return [f"{table.where(int(k), j)} holds {values[k]}: give a finite number" for k in wrong[:1]]


def _numbers(fields: Sequence[str], missing: np.ndarray, table: Table, j: int, how: Written | None = None) -> Reading:
    """Read fields that are known to be numbers: plain ones, or all written in one way."""
    texts = fields
    if how is not None:
        texts = [how.plain(one) or "" for one in fields]
    elif table.decimal == ",":
        texts = [one.replace(",", ".") for one in fields]
    if missing.any():
        texts = ["nan" if lost else one for one, lost in zip(texts, missing, strict=True)]
    values = np.array(list(map(float, texts)))
    reading = Reading("number", values, missing, how.sample if how is not None else "")
    reading.problems += _infinite(values, missing, table, j)
    if (row := lost_whole(texts, values)) is not None:
        reading.problems.append(_too_many_digits(table, row, j, fields[row]))
    elif (pair := merged(texts, values)) is not None:
        places = f"{table.place}s {table.rows[pair[0]]} and {table.rows[pair[1]]}"
        reading.merging = (
            f"{table.column(j)} holds in {places} two different numbers, {shown(fields[pair[0]])} and "
            f"{shown(fields[pair[1]])}, that are equal in float64: subtract an offset from the column, or leave it out"
        )
        reading.problems.append(reading.merging)
    return reading


def _find_dates(fields: Sequence[str], missing: np.ndarray, table: Table, j: int) -> Reading | None:
    import pandas as pd

    first = next(one for one, lost in zip(fields, missing, strict=True) if not lost)
    if not any(c.isdigit() for c in first) or len(first) > 40:
        return None
    series: Any = pd.Series([None if lost else one for one, lost in zip(fields, missing, strict=True)], dtype=object)
    for form in FORMATS:
        if form == "ISO8601" and not series[~missing].str.fullmatch(_ISO).all():
            continue
        found: Any = pd.to_datetime(series, format=form, errors="coerce", utc=True)
        if not found[~missing].isna().any():
            return _dates(found, form, table, j)
    return None


def _dates(stamps: Any, form: str, table: Table, j: int) -> Reading:
    import pandas as pd

    missing = stamps.isna().to_numpy(bool)
    days = ((stamps - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)).to_numpy(np.float64)
    reading = Reading("date", days, missing, form)
    if len(np.unique(days[~missing])) < stamps.nunique():
        reading.problems.append(
            f"{table.column(j)} holds different times that are equal as days in float64: give them as numbers, "
            "or leave the column out"
        )
    return reading


def _as_known(known: Column, fields: Sequence[str], missing: np.ndarray, table: Table, j: int) -> Reading:
    """Read the fields as those of a column seen before, and complain of what does not fit."""
    if known.kind == "text":
        return Reading("text", np.array(fields, dtype=object), missing)
    there = [k for k in range(len(fields)) if not missing[k]]
    if known.kind == "number":
        how = Written.like(known.format) if known.format else None
        wrong = [k for k in there if not (how.plain(fields[k]) if how else _is_plain(fields[k], table))]
        if not wrong:
            reading = _numbers(fields, missing, table, j, how)
            reading.problems = reading.besides_merging
            return reading
    elif known.kind == "boolean":
        wrong = [k for k in there if fields[k].lower() not in _TRUTH]
        if not wrong:
            return Reading("boolean", np.array([_TRUTH.get(one.lower(), np.nan) for one in fields]), missing)
    else:
        import pandas as pd

        series = pd.Series([None if lost else one for one, lost in zip(fields, missing, strict=True)], dtype=object)
        found: Any = pd.to_datetime(series, format=known.format or "ISO8601", errors="coerce", utc=True)
        wrong = [k for k in there if pd.isna(found[k])]
        if not wrong:
            reading = _dates(found, known.format, table, j)
            reading.problems = []
            return reading
    problem = _not_a_number(table, wrong[0], j, fields[wrong[0]])
    if known.kind == "number" and known.format:
        problem = (
            f"{table.where(wrong[0], j)} holds '{shown(fields[wrong[0]])}' where the training table has numbers like "
            f"'{known.format}': write it like them"
        )
    elif known.kind != "number":
        needed = "yes or no" if known.kind == "boolean" else f"a date like the others ({known.format or 'ISO8601'})"
        problem = f"{table.where(wrong[0], j)} holds '{shown(fields[wrong[0]])}' where {needed} is needed: correct it"
    return Reading(known.kind, np.full(len(fields), np.nan), missing, problems=[problem])
