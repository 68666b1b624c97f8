"""Read inputs and labels from NumPy and Parquet files; nothing that needs pickle is ever opened."""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from wideproof.data.tables import target_position
from wideproof.errors import InputError

INPUT_KEYS = ("x", "data")
TARGET_KEYS = ("y", "target", "targets", "label", "labels")


def read_npy(path: Path, *, target: str | int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return `(x, labels)` of one array with a row an example; the target is its last column by default.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "two.npy"
    ...     np.save(file, np.array([[1.0, 2.0, 0.0], [3.0, 4.0, 1.0]]))
    ...     x, labels = read_npy(file)
    >>> x.tolist(), labels.tolist()
    ([[1.0, 2.0], [3.0, 4.0]], [0.0, 1.0])
    """
    table = _load(path)
    if isinstance(table, dict):
        return _from_arrays(table, path, target)
    if table.ndim != 2 or table.shape[1] < 2:
        raise InputError(
            f"{path.name} holds an array of shape {table.shape}: give two axes and at least two columns, "
            "or use .npz with the keys x and y"
        )
    if table.dtype.kind not in "biuf":
        raise InputError(f"{path.name} holds values of {table.dtype}: give real numbers")
    position = target_position(target, None, table.shape[1], path.name)
    return np.delete(table, position, axis=1), table[:, position]


def read_npz(path: Path, *, target: str | int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the arrays `x` (or `data`) and `y` (or `target`, `labels`) of an archive, in any case."""
    arrays = _load(path)
    if not isinstance(arrays, dict):
        raise InputError(f"{path.name} is a single array, not an archive: rename it to .npy or save it with np.savez")
    return _from_arrays(arrays, path, target)


def _load(path: Path) -> Any:
    head = b""
    try:
        with path.open("rb") as file:
            head = file.read(2)
            file.seek(0)
            loaded = np.load(file, allow_pickle=False)
            if not isinstance(loaded, np.lib.npyio.NpzFile):
                return loaded
            with loaded:
                arrays = {key: loaded[key] for key in loaded.files}
        if not all(isinstance(array, np.ndarray) for array in arrays.values()):
            raise ValueError("a member is no array")
        return arrays
    except ValueError as error:
        if "pickle" in str(error).lower() and head[:1] in (b"\x80", b"\x93", b"P"):
            raise InputError(
                f"{path.name} is refused: it needs pickle, which can run code; save plain arrays of numbers "
                "or text with np.savez"
            ) from None
        raise _damaged(path, "neither an array nor an archive" if "pickle" in str(error) else error) from None
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        OSError,
        KeyError,
        NotImplementedError,
        SyntaxError,
    ) as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception | str) -> InputError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return InputError(f"{path.name} is damaged or no NumPy file ({reason}): write it again with np.save or np.savez")


def _from_arrays(arrays: dict[str, np.ndarray], path: Path, target: str | int | None) -> tuple[np.ndarray, np.ndarray]:
    x = _pick(arrays, INPUT_KEYS, path, "the inputs")
    if target is None:
        labels = _pick(arrays, TARGET_KEYS, path, "the targets")
    elif isinstance(target, str) and target in arrays:
        labels = arrays[target]
    else:
        raise InputError(f"{path.name} has no array '{target}': choose the target among {', '.join(arrays)}")
    if x.ndim < 2:
        raise InputError(f"{path.name} holds inputs of shape {x.shape}: give one row an example")
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    return x, labels


def _pick(arrays: dict[str, np.ndarray], keys: tuple[str, ...], path: Path, what: str) -> np.ndarray:
    found = [name for key in keys for name in arrays if name.lower() == key]
    if not found:
        raise InputError(
            f"{path.name} holds {', '.join(arrays) or 'nothing'}: save {what} under the key '{keys[0]}'"
            + (" or name the key with `target`" if keys is TARGET_KEYS else "")
        )
    if len(found) > 1 and found[0].lower() == found[1].lower():
        raise InputError(f"{path.name} holds both '{found[0]}' and '{found[1]}': keep one of them")
    return arrays[found[0]]


def read_parquet(path: Path, *, target: str | int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return `(x, labels)` of a Parquet table; the target is its last column by default."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError(
            f'{path.name} needs pyarrow, which is not installed: pip install "wideproof[parquet]", '
            "or save the table as .csv"
        ) from None
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError(f"{path.name} is damaged or no Parquet file ({reason}): write it again") from None
    names = table.column_names
    if table.num_rows == 0 or len(names) < 2:
        raise InputError(
            f"{path.name} has {table.num_rows} rows and {len(names)} columns: give one row an example, "
            "at least one input column and a target"
        )
    position = target_position(target, names, len(names), path.name)
    x = np.empty((table.num_rows, len(names) - 1))
    labels: Any = None
    for j, name in enumerate(names):
        column = table.column(j)
        if column.null_count:
            row = next(i for i, value in enumerate(column) if not value.is_valid)
            raise InputError(
                f"{path.name}, row {row} (counting from 0), column '{name}' is a missing value: "
                "fill it in or remove the row"
            )
        values = np.asarray(column.to_numpy())
        if j == position:
            labels = values
        elif values.dtype.kind in "biuf":
            x[:, j - (j > position)] = values
        else:
            raise InputError(
                f"{path.name}, column '{name}' holds {column.type} where numbers are needed: "
                "remove or encode the column"
            )
    return x, labels
