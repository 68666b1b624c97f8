"""Tables in other files than delimited text: Excel, JSON, SQLite; and dictionaries, records and bunches in memory.

`PLACE::PART` names a sheet of a workbook or a table of a database; where there is only one it need not be named.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from wideproof.data.words import listed, meant, plain
from wideproof.errors import InputError

PACKED = ".gz"
BOOKS, RECORDS, DATABASES = (".xlsx", ".xlsm"), (".json", ".jsonl", ".ndjson"), (".db", ".sqlite", ".sqlite3")
SEPARATOR = "::"
MOST_UNPACKED = 4 << 30  # bytes of a compressed file, so that a small one cannot fill the memory


def divided(path: Path) -> tuple[Path, str]:
    """Return the file and the part of it that is named, if any.

    >>> divided(Path("sales.db::orders"))[1], divided(Path("a.csv"))[1]
    ('orders', '')
    """
    head, sign, part = str(path).rpartition(SEPARATOR)
    return (Path(head), part) if sign and Path(head).suffix.lower() in (*BOOKS, *DATABASES) else (path, "")


def suffix_of(path: Path) -> str:
    """Return the suffix in small letters; of a compressed file both, as `.csv.gz`.

    >>> suffix_of(Path("A.CSV.gz")), suffix_of(Path("b.json"))
    ('.csv.gz', '.json')
    """
    own = path.suffix.lower()
    return Path(path.stem).suffix.lower() + own if own == PACKED else own


def unpacked(path: Path) -> bytes:
    """Return the bytes of a file, decompressed if its name ends in .gz."""
    if path.suffix.lower() != PACKED:
        return path.read_bytes()
    import gzip

    try:
        with gzip.open(path) as file:
            found = file.read(MOST_UNPACKED + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{plain(path.name)} is damaged or not compressed by gzip ({error}): write it again") from None
    if len(found) > MOST_UNPACKED:
        raise InputError(f"{plain(path.name)} holds more than {MOST_UNPACKED >> 30} GB: give fewer rows")
    return found


def read_book(path: Path, part: str) -> Any:
    """Return a sheet of an Excel workbook as a frame; its first row has the names."""
    import pandas as pd

    name = plain(path.name)
    try:
        import openpyxl  # noqa: F401  # pyright: ignore[reportMissingModuleSource]  says whether it is there
    except ImportError:
        raise InputError(
            f'{name} needs openpyxl, which is not installed: pip install "wideproof[excel]", or save the sheet as .csv'
        ) from None
    try:
        with pd.ExcelFile(path, engine="openpyxl") as book:
            sheet = _part(part, [str(one) for one in book.sheet_names], name, "sheet")
            return pd.read_excel(book, sheet_name=sheet)
    except (zipfile.BadZipFile, KeyError, ValueError, OSError) as error:
        if isinstance(error, InputError | FileNotFoundError | PermissionError):
            raise
        raise InputError(f"{name} is damaged or not an Excel workbook ({_reason(error)}): save it again") from None


def read_database(path: Path, part: str) -> Any:
    """Return a table or a view of an SQLite database as a frame; nothing in the file is changed."""
    import sqlite3

    import pandas as pd

    name = plain(path.name)
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as base:
            wanted = "select name from sqlite_master where type in ('table', 'view') and name not like 'sqlite_%'"
            table = _part(part, [one for (one,) in base.execute(wanted)], name, "table")
            quoted = table.replace('"', '""')
            cursor = base.execute(f'select * from "{quoted}"')
            names = [column[0] for column in cursor.description]
            return pd.DataFrame(cursor.fetchall(), columns=names)
    except sqlite3.Error as error:
        raise InputError(f"{name} is damaged or not an SQLite database ({_reason(error)}): check the file") from None


def _part(part: str, there: Sequence[str], name: str, what: str) -> str:
    if not there:
        raise InputError(f"{name} has no {what}: write one, or name another file")
    if not part and len(there) == 1:
        return there[0]
    known = listed(list(map(plain, there)), 20)
    if not part:
        first = f"{name}{SEPARATOR}{plain(there[0])}"
        raise InputError(f"{name} has {len(there)} {what}s, {known}: say which, as {first}")
    if part not in there:
        raise InputError(f"{name} has no {what} '{plain(part)}'{meant(part, there)}: choose among {known}")
    return part


def read_json(path: Path) -> Any:
    """Return a frame of JSON: a list of records, a dictionary of columns, or a record on each line (.jsonl)."""
    name = plain(path.name)
    try:
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix.lower() == ".json":
            return from_plain(json.loads(text), name)
        return from_plain([json.loads(line) for line in text.splitlines() if line.strip()], name)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{name} is not JSON ({_reason(error)}): write it again") from None


def from_plain(value: Any, name: str) -> Any:
    """Return a frame of a dictionary of columns, or of a list of records.

    >>> from_plain([{"a": 1}, {"a": 2, "b": "x"}], "mine").shape, from_plain({"a": [1, 2]}, "mine").shape
    ((2, 2), (2, 1))
    """
    import pandas as pd

    if isinstance(value, Mapping):
        columns = {key: _column(one) for key, one in value.items()}
        sizes = {key: len(one) for key, one in columns.items() if one is not None}
        if not value or len(sizes) < len(columns) or len(set(sizes.values())) > 1:
            found = ", ".join(f"{plain(key)}: {sizes.get(key, 'no list')}" for key in list(columns)[:20])
            raise InputError(
                f"{name} is a dictionary, but not of columns of one length ({found or 'empty'}): give a list of values "
                "for each name"
            )
        frame = pd.DataFrame({str(key): one for key, one in columns.items()})
    elif isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
        frame = pd.DataFrame(value)
        frame.columns = [str(key) for key in frame.columns]
    else:
        raise InputError(f"{name} is no table: give a list of records, or a dictionary of columns")
    for column, values in frame.items():
        _require_fields(values, plain(column), name)
    return frame


def _require_fields(values: Any, column: str, name: str) -> None:
    """Refuse lists and records inside of fields."""
    if values.dtype.kind != "O":
        return
    for row, one in enumerate(values):
        if isinstance(one, list | dict | tuple | np.ndarray):
            raise InputError(
                f"{name}, row {row} (counting from 0), column '{column}' holds a {type(one).__name__}: give one value "
                "in each field"
            )


def _column(one: Any) -> list[Any] | np.ndarray | None:
    """Return the values of a column; of `{row: value}`, as pandas writes it, in the order of the rows."""
    if isinstance(one, Mapping):
        return list(one.values())
    if isinstance(one, str) or not hasattr(one, "__len__"):
        return None
    found = one if isinstance(one, list) else np.asarray(one)
    return None if isinstance(found, np.ndarray) and found.ndim != 1 else found


def from_bunch(bunch: Mapping[str, Any]) -> tuple[Any, Any] | None:
    """Return inputs and labels of a scikit-learn `Bunch`, or of a dictionary like it; None if it has no such keys.

    Inputs with names become a frame, whole numbers with names for them become these names.

    >>> from sklearn.datasets import load_iris
    >>> x, labels = from_bunch(load_iris())
    >>> list(x.columns)[0], str(labels[0])
    ('sepal length (cm)', 'setosa')
    """
    import pandas as pd

    if not ("data" in bunch and "target" in bunch) or np.ndim(bunch["target"]) < 1 or np.ndim(bunch["data"]) < 2:
        return None
    x, labels = bunch["data"], bunch["target"]
    names, classes = bunch.get("feature_names"), bunch.get("target_names")
    if not hasattr(x, "columns") and names is not None and np.ndim(x) == 2 and len(names) == np.shape(x)[1]:
        x = pd.DataFrame(np.asarray(x), columns=[str(name) for name in names])
    codes, texts = np.asarray(labels), np.asarray(() if classes is None else classes)
    whole = codes.ndim == 1 and codes.dtype.kind in "iu" and len(codes) > 0
    if texts.dtype.kind in "US" and whole and codes.min() >= 0 and codes.max() < len(texts):
        labels = texts[codes]
    return x, labels


def _reason(error: Exception) -> str:
    return plain(" ".join(str(error).split()))[:120]
