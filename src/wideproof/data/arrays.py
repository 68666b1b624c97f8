"""Read inputs and labels from NumPy files; nothing that needs pickle is ever opened."""

import math
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from wideproof.data.tables import target_position
from wideproof.data.words import meant, plain
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
            f"{plain(path.name)} holds an array of shape {table.shape}: give two axes and at least two columns, "
            "or use .npz with the keys x and y"
        )
    if table.dtype.kind not in "biuf":
        raise InputError(f"{plain(path.name)} holds values of {table.dtype}: give real numbers")
    position = target_position(target, None, table.shape[1], plain(path.name))
    return np.delete(table, position, axis=1), table[:, position]


def read_npz(path: Path, *, target: str | int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the arrays `x` (or `data`) and `y` (or `target`, `labels`) of an archive, in any case.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder) / "t.npz", X=np.eye(2), labels=[0, 1])
    ...     read_npz(Path(folder) / "t.npz")[1].tolist()
    [0, 1]
    """
    arrays = _load(path)
    if not isinstance(arrays, dict):
        raise InputError(
            f"{plain(path.name)} is a single array, not an archive: rename it to .npy or save it with np.savez"
        )
    return _from_arrays(arrays, path, target)


def read_inputs(path: Path) -> np.ndarray:
    """Return the one array of a .npy file, target and all, or the inputs of a .npz archive.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder) / "t.npz", x=np.eye(2), y=[0, 1])
    ...     read_inputs(Path(folder) / "t.npz").tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    loaded = _load(path)
    return _pick(loaded, INPUT_KEYS, path, "the inputs") if isinstance(loaded, dict) else loaded


def _load(path: Path) -> Any:
    head = b""
    try:
        with path.open("rb") as file:
            head = file.read(2)
            file.seek(0)
            _require_complete(file, path.stat().st_size)
            loaded = np.load(file, allow_pickle=False)
            if not isinstance(loaded, np.lib.npyio.NpzFile):
                return loaded
            with loaded:
                archive: Any = loaded.zip
                for member in archive.infolist():
                    with archive.open(member) as inner:
                        _require_complete(inner, member.file_size)
                arrays = {key: loaded[key] for key in loaded.files}
        if not all(isinstance(array, np.ndarray) for array in arrays.values()):
            raise ValueError("a member is no array")
        return arrays
    except ValueError as error:
        if "pickle" in str(error).lower() and head[:1] in (b"\x80", b"\x93", b"P"):
            raise InputError(
                f"{plain(path.name)} is refused: it needs pickle, which can run code; save plain arrays of numbers "
                "or text with np.savez"
            ) from None
        raise _damaged(path, "neither an array nor an archive" if "pickle" in str(error) else error) from None
    except MemoryError:
        raise InputError(
            f"{plain(path.name)} holds more than this machine's memory: save fewer rows or columns"
        ) from None
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        OSError,
        KeyError,
        NotImplementedError,
        OverflowError,
        SyntaxError,
    ) as error:
        raise _damaged(path, error) from None


def _require_complete(file: Any, size: int) -> None:
    """Raise before anything is allocated if the header of an array declares more bytes than the file has."""
    if file.read(6) == b"\x93NUMPY":
        version = tuple(file.read(2))
        reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        if version in ((1, 0), (2, 0)):
            shape, _order, dtype = reader(file)
            declared = math.prod(shape) * dtype.itemsize
            if not dtype.hasobject and declared > size:
                raise EOFError(f"its header declares {declared} bytes and it has {size}")
    if file.seekable():
        file.seek(0)


def _damaged(path: Path, error: Exception | str) -> InputError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return InputError(
        f"{plain(path.name)} is damaged or not a NumPy file ({reason}): write it again with np.save or np.savez"
    )


def _from_arrays(arrays: dict[str, np.ndarray], path: Path, target: str | int | None) -> tuple[np.ndarray, np.ndarray]:
    x = _pick(arrays, INPUT_KEYS, path, "the inputs")
    if target is None:
        labels = _pick(arrays, TARGET_KEYS, path, "the targets")
    elif isinstance(target, str) and target in arrays:
        labels = arrays[target]
    else:
        raise InputError(
            f"{plain(path.name)} has no array '{target}'{meant(target, arrays)}: choose the target among "
            f"{', '.join(arrays)}"
        )
    if x.ndim < 2:
        raise InputError(f"{plain(path.name)} holds inputs of shape {x.shape}: give one row for each example")
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    return x, labels


def _pick(arrays: dict[str, np.ndarray], keys: tuple[str, ...], path: Path, what: str) -> np.ndarray:
    found = [name for key in keys for name in arrays if name.lower() == key]
    if not found:
        raise InputError(
            f"{plain(path.name)} holds {', '.join(arrays) or 'nothing'}: save {what} under the key '{keys[0]}'"
            + (" or name the key with `target`" if keys is TARGET_KEYS else "")
        )
    if len(found) > 1 and found[0].lower() == found[1].lower():
        raise InputError(f"{plain(path.name)} holds both '{found[0]}' and '{found[1]}': keep one of them")
    return arrays[found[0]]
