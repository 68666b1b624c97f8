"""Bring frames, arrays and files of every kind into one form of table."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from wideproof.data import formats
from wideproof.data.formats import BOOKS, DATABASES, RECORDS, divided, from_plain, suffix_of
from wideproof.data.tables import Header, Table, read_text
from wideproof.data.words import plain
from wideproof.errors import InputError

TEXT = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
OTHERS = (".parquet", *BOOKS, *RECORDS, *DATABASES)


def as_table(
    source: Any,
    *,
    name: str = "the table",
    header: Header = "auto",
    expected: Sequence[str] = (),
    decimal: Literal[".", ",", "auto"] = "auto",
) -> Table:
    """Return a file, a frame or an array of two axes as a table.

    >>> as_table(np.array([[1.0, 2.0]])).width
    2
    """
    if isinstance(source, str | Path):
        return _from_file(Path(source), header, expected, decimal)
    if isinstance(source, dict) or (isinstance(source, list) and source and isinstance(source[0], dict)):
        return from_frame(from_plain(source, name), name)
    if not isinstance(source, np.ndarray | list | tuple):
        return from_frame(as_pandas(source), name)
    try:
        array = np.asarray(source)
    except ValueError:
        array = np.empty(0)
    if array.ndim != 2:
        raise InputError(f"{name} is an array of shape {array.shape}: give two axes, one row for each example")
    return from_array(array, name)


def from_frame(frame: Any, name: str) -> Table:
    """Return a pandas frame as a table whose rows are counted from 0; an index of dates is its first column.

    >>> import pandas as pd
    >>> from_frame(pd.DataFrame({"a": [1], "b": ["x"]}), "mine").names
    ('a', 'b')
    """
    import pandas as pd

    if isinstance(frame.index, pd.DatetimeIndex):
        days = str(frame.index.name or "date")
        frame = frame.copy(deep=False)
        frame.insert(0, days if days not in frame.columns else f"{days} of the index", frame.index)
    names = tuple(str(column) for column in frame.columns)
    plainly = frame.set_axis(list(range(frame.shape[1])), axis=1).reset_index(drop=True)
    return Table(plainly, names, np.arange(len(frame)), plain(name))


def from_array(array: np.ndarray, name: str) -> Table:
    """Return an array of two axes as a table without names.

    >>> from_array(np.eye(2), "mine").named
    False
    """
    import pandas as pd

    columns = {}
    for j in range(array.shape[1]):
        column = array[:, j]
        column = np.char.decode(column, "utf-8", "replace") if column.dtype.kind == "S" else column
        columns[j] = pd.Series(column.astype(object) if column.dtype.kind == "U" else column)
    return Table(pd.DataFrame(columns), ("",) * array.shape[1], np.arange(len(array)), plain(name), named=False)


def is_frame(source: Any) -> bool:
    """Say whether a source is a table with named columns: pandas, or what narwhals understands.

    >>> import pandas as pd
    >>> is_frame(pd.DataFrame({"a": [1]})), is_frame(np.eye(2))
    (True, False)
    """
    if isinstance(source, str | Path | np.ndarray | list | tuple | dict):
        return False
    return hasattr(source, "columns") or hasattr(source, "collect_schema") or hasattr(source, "__dataframe__")


def as_pandas(source: Any) -> Any:
    """Return a frame of any library as a pandas frame; whole numbers beside missing values stay whole.

    >>> import pandas as pd
    >>> as_pandas(pd.DataFrame({"a": [1]})).shape
    (1, 1)
    """
    import pandas as pd

    if isinstance(source, pd.Series):
        return source.to_frame()
    if isinstance(source, pd.DataFrame):
        return source
    what = f"{type(source).__module__.partition('.')[0]}.{type(source).__name__}"
    try:
        import narwhals.stable.v2 as nw

        frame: Any = nw.from_native(source)
        frame = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
        return frame.to_arrow().to_pandas(integer_object_nulls=True)
    except (TypeError, ImportError, AttributeError) as error:
        raise InputError(
            f"{what} cannot be read as a table ({error}): give a pandas frame, a file or an array"
        ) from None


def read_parquet(path: Path) -> Table:
    """Return the table of a Parquet file, its rows counted from 0.

    >>> import tempfile
    >>> import pandas as pd
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pd.DataFrame({"a": [1], "b": ["x"]}).to_parquet(Path(folder) / "t.parquet")
    ...     read_parquet(Path(folder) / "t.parquet").names
    ('a', 'b')
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError(
            f'{plain(path.name)} needs pyarrow, which is not installed: pip install "wideproof[parquet]", '
            "or save the table as .csv"
        ) from None
    try:
        frame = pq.read_table(path).to_pandas(integer_object_nulls=True, ignore_metadata=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = plain(" ".join(str(error).split()))[:120]
        raise InputError(f"{plain(path.name)} is damaged or not a Parquet file ({reason}): write it again") from None
    return from_frame(frame, path.name)


def _from_file(path: Path, header: Header, expected: Sequence[str], decimal: Any) -> Table:
    path, part = divided(path)
    suffix, name = suffix_of(path), plain(path.name)
    named = f"{path.name}{formats.SEPARATOR}{part}" if part else path.name
    try:
        if suffix in TEXT:
            return read_text(path, header=header, expected=expected, decimal=decimal)
        if suffix == ".parquet":
            return read_parquet(path)
        if suffix in (*BOOKS, *DATABASES):
            return from_frame((formats.read_book if suffix in BOOKS else formats.read_database)(path, part), named)
        if suffix in RECORDS:
            return from_frame(formats.read_json(path), path.name)
        if suffix in (".npy", ".npz"):
            from wideproof.data.arrays import read_inputs

            return from_array(read_inputs(path), name)
    except OSError as error:
        raise InputError(f"{plain(path)} cannot be read ({error.strerror or error}): check the path") from None
    raise InputError(f"{name} ends in '{plain(path.suffix)}': save it as one of {' '.join((*TEXT, *OTHERS))} .npy .npz")
