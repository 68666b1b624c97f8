"""How a table became inputs, as a value that can be written down, and the same treatment for new rows."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from wideproof.data.columns import Column, Reading, read_column
from wideproof.data.tables import Table
from wideproof.data.words import complain, counted, listed, shown
from wideproof.errors import InputError


@dataclass(frozen=True)
class Encoding:
    """How the columns of a table were turned into inputs.

    Parameters
    ----------
    columns
        The columns that were used, in the order of the table.
    width
        Number of columns of the table, including the target.
    target
        Name of the target column; `None` if the targets did not come from the table.
    target_position
        Its position; `None` likewise.
    named
        Whether the table names its columns; if not, new rows are matched by position.
    decimal
        The decimal mark of the text file.
    left_out
        Columns that were not used, with reasons.
    classes
        Names of the classes.
    labels
        The classes as they are written in the table.
    notes
        What was done to the columns, in at most three lines.

    Examples
    --------
    >>> encoding = Encoding((Column("age", 0, "number", 30.0, indicator=True),), 2, "price", 1)
    >>> encoding.inputs
    ('age', 'age missing')
    >>> Encoding.from_json(encoding.to_json()) == encoding
    True
    """

    columns: tuple[Column, ...]
    width: int
    target: str | None = None
    target_position: int | None = None
    named: bool = True
    decimal: Literal[".", ","] = "."
    left_out: tuple[tuple[str, str], ...] = ()
    classes: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs, one for each column of `x`."""
        return tuple(name for column in self.columns for name in column.inputs)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, numbers exact."""
        plain = asdict(self)
        plain["columns"] = [asdict(column) | {"categories": list(column.categories)} for column in self.columns]
        plain["left_out"] = [list(pair) for pair in self.left_out]
        return plain | {key: list(plain[key]) for key in ("classes", "labels", "notes")}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> "Encoding":
        """Rebuild what `to_json` wrote.

        Parameters
        ----------
        plain
            The result of `to_json`.

        Returns
        -------
        Encoding
            The encoding.
        """
        try:
            fields: dict[str, Any] = dict(plain)
            fields["columns"] = tuple(
                Column(**{**one, "categories": tuple(one["categories"])}) for one in plain["columns"]
            )
            fields["left_out"] = tuple((name, reason) for name, reason in plain["left_out"])
            return cls(**{**fields, **{key: tuple(plain[key]) for key in ("classes", "labels", "notes")}})
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"the description of the table's columns is damaged ({error}): write it again") from None


def encode(encoding: Encoding, table: Any) -> np.ndarray:
    """Return the inputs of new rows, encoded like the rows of the training table, bit for bit.

    Parameters
    ----------
    encoding
        The encoding of the training data, `data.encoding`.
    table
        A file, a frame, or an array with the columns of the training table. The target column is optional, and other
        columns are ignored. An unknown category sets none of its inputs to 1; missing values are filled as in training.

    Returns
    -------
    array
        The inputs, one row for each row of the table.

    Examples
    --------
    >>> import pandas as pd
    >>> from wideproof.data import load
    >>> data = load(pd.DataFrame({"a": [1.0, 2.0, 4.0], "c": ["u", "v", "u"], "y": [0, 1, 0]}))
    >>> encode(data.encoding, pd.DataFrame({"c": ["v", "w"], "a": [7.0, None]})).tolist()
    [[7.0, 0.0, 1.0], [2.0, 0.0, 0.0]]
    """
    return inputs_of(*_placed(encoding, table))


def new_rows(encoding: Encoding, table: Any) -> Table:
    """Read a file, a frame or an array like the training table, once for `encode` and `unseen`.

    Parameters
    ----------
    encoding
        The encoding of the training data, `data.encoding`.
    table
        New rows, as for `encode`; a table that was already read is returned as it is.

    Returns
    -------
    Table
        The fields of the table.

    Examples
    --------
    >>> import pandas as pd
    >>> from wideproof.data import load
    >>> data = load(pd.DataFrame({"a": [1.0, 2.0, 4.0], "y": [0, 1, 0]}))
    >>> rows = new_rows(data.encoding, pd.DataFrame({"a": [7.0]}))
    >>> encode(data.encoding, rows).tolist(), new_rows(data.encoding, rows) is rows
    ([[7.0]], True)
    """
    from wideproof.data.frames import as_table

    if isinstance(table, Table):
        return table
    return as_table(table, expected=[c.name for c in encoding.columns], decimal=encoding.decimal)


def unseen(encoding: Encoding, table: Any) -> tuple[str, ...]:
    """Say which columns of new rows have a text that does not occur in the training table.

    Parameters
    ----------
    encoding
        The encoding of the training data, `data.encoding`.
    table
        New rows, as for `encode`.

    Returns
    -------
    tuple[str, ...]
        A sentence for each such column.

    Examples
    --------
    >>> import pandas as pd
    >>> from wideproof.data import load
    >>> data = load(pd.DataFrame({"a": [1.0, 2.0, 4.0], "c": ["u", "v", "u"], "y": [0, 1, 0]}))
    >>> print(*unseen(data.encoding, pd.DataFrame({"a": [7.0, 8.0], "c": ["v", "w"]})))
    column 'c': 1 row has a value that the training table does not hold ('w'): all inputs of this column are 0 there,
    which the network has never seen
    """
    columns, rows = _placed(encoding, table)
    return tuple(
        sentence
        for column in columns
        if column.kind == "text" and (sentence := _unseen_in(column, read_column(rows, column.position, column)))
    )


def _unseen_in(column: Column, reading: Reading) -> str:
    known = set(column.categories)
    new = [value for value in reading.present.tolist() if value not in known]
    if not new:
        return ""
    values = listed([f"'{shown(value)}'" for value in dict.fromkeys(new)])
    return (
        f"column '{column.name}': {counted(len(new), 'row')} {'has' if len(new) == 1 else 'have'} a value that the "
        f"training table does not hold ({values}): all inputs of this column are 0 there, which the network has never "
        "seen"
    )


def _placed(encoding: Encoding, table: Any) -> tuple[list[Column], Table]:
    """Return the columns at their positions in a new table, and that table."""
    rows = new_rows(encoding, table)
    positions = _matched(encoding, rows)
    return [replace(column, position=j) for column, j in zip(encoding.columns, positions, strict=True)], rows


def inputs_of(columns: Sequence[Column], table: Table) -> np.ndarray:
    """Return the inputs that the columns, at their positions in the table, become.

    >>> from wideproof.data.frames import as_table
    >>> inputs_of([Column("a", 1, "number", 0.5, indicator=True)], as_table(np.array([[1.0, np.nan]]))).tolist()
    [[0.5, 1.0]]
    """
    readings = [read_column(table, column.position, column) for column in columns]
    complain(table.source, [problem for reading in readings for problem in reading.problems])
    return blocks_of(columns, readings)


def blocks_of(columns: Sequence[Column], readings: Sequence[Reading]) -> np.ndarray:
    """Return the inputs that the columns, which were read, become."""
    blocks = [_block(column, reading) for column, reading in zip(columns, readings, strict=True)]
    return np.concatenate(blocks, axis=1)


def _block(column: Column, reading: Reading) -> np.ndarray:
    if column.kind == "text":
        from sklearn.preprocessing import OneHotEncoder

        known = np.array(column.categories, dtype=object)
        only: Any = [known]
        encoder = OneHotEncoder(categories=only, handle_unknown="ignore", sparse_output=False)
        filled = np.where(reading.missing, np.array(column.fill, dtype=object), reading.values)
        block: Any = encoder.fit(known[:, None]).transform(filled[:, None])
    else:
        block = np.where(reading.missing, column.fill, reading.values)[:, None].astype(np.float64)
    return np.column_stack([block, reading.missing]) if column.indicator else block


def _matched(encoding: Encoding, table: Table) -> list[int]:
    """Return where the columns stand in a new table: by name if both have names, by position otherwise."""
    if encoding.named and table.named:
        there = {name: j for j, name in reversed(list(enumerate(table.labels)))}
        missing = [f"'{column.name}'" for column in encoding.columns if column.name not in there]
        if missing:
            raise InputError(
                f"{table.source} lacks the columns {listed(missing, 30)} (it has {listed(table.labels, 30)}): "
                "give the new rows every column that the training table was read from"
            )
        return [there[column.name] for column in encoding.columns]
    target = encoding.target_position
    if table.width == encoding.width:
        return [column.position for column in encoding.columns]
    if target is not None and table.width == encoding.width - 1:
        return [column.position - (column.position > target) for column in encoding.columns]
    without = "" if target is None else f" or {encoding.width - 1} without the target"
    raise InputError(
        f"{table.source} has {table.width} columns without names where the training table has "
        f"{encoding.width}{without}: give the new rows the columns of the training table"
    )
