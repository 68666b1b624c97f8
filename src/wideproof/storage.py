"""Files without pickle and without halves: safetensors and JSON, written whole or not at all."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from wideproof.errors import InputError

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}


def number_of_bytes(text: str, name: str) -> int:
    """Read a number of bytes with a unit; `name` is what a mistake is called.

    >>> [number_of_bytes(text, "--memory") for text in ("500MB", "1.5 GiB", "1024")]
    [500000000, 1610612736, 1024]
    """
    found = re.fullmatch(r"([0-9.]+)\s*([KMGT]?I?)B?", text.strip().upper())
    if found is None or found[2] not in UNITS or found[1].count(".") > 1 or not float(f"0{found[1]}0") > 0:
        raise InputError(f"{name} must be a number of bytes, as in 500MB or 2GiB, got {text!r}")
    return int(float(found[1]) * UNITS[found[2]])


def plain(value: Any, odd: Callable[[float], Any] = lambda number: number) -> Any:
    """Return what JSON holds: named tuples as objects, NumPy's scalars as numbers; `odd` makes of what is not finite.

    >>> plain({"a": (np.float64(1.5), math.inf)}, odd=repr)
    {'a': [1.5, 'inf']}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(inner, odd) for key, inner in value.items()}
    if hasattr(value, "_asdict"):
        return plain(value._asdict(), odd)
    if isinstance(value, list | tuple):
        return [plain(inner, odd) for inner in value]
    if isinstance(value, np.generic):
        value = value.item()
    return odd(value) if isinstance(value, float) and not math.isfinite(value) else value


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Give a file to write to that becomes `path` at the end: a reader sees the old content or the new one.

    A full disk or an unwritable folder raises `InputError` and leaves no temporary file behind.
    """
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            temporary = Path(file.name)
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), 0o644)
        temporary.replace(path)
    except BaseException as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise InputError(
                f"cannot write {path}: {error.strerror or error}; free some space or choose another folder"
            ) from error
        raise


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old content or the new one, never a part."""
    with whole_file(path) as file:
        file.write(content)


def write_tensors(path: Path, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, Any]) -> None:
    """Write arrays and JSON-ready metadata as one safetensors file, atomically."""
    arrays = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    write_bytes(path, to_bytes(arrays, {"wideproof": json.dumps(metadata, allow_nan=False)}))


def read_tensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read what `write_tensors` wrote."""
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = json.loads((file.metadata() or {})["wideproof"])
            return {name: file.get_tensor(name) for name in file.keys()}, metadata  # noqa: SIM118
    except FileNotFoundError:
        raise InputError(f"there is no file {path}: is this a run folder?") from None
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise InputError(f"{path} is damaged or was not written by wideproof ({error})") from error


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write JSON, atomically."""
    write_bytes(path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object."""
    try:
        value = json.loads(path.read_text())
    except FileNotFoundError:
        raise InputError(f"there is no file {path}: is this a run folder?") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}): it is damaged or not JSON") from error
    if not isinstance(value, dict):
        raise InputError(f"{path} is damaged: it holds no JSON object")
    return value


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Give a temporary folder that becomes `path` at the end, or vanishes if anything fails.

    Raises `InputError` if `path` exists already.
    """
    if path.exists() or path.is_symlink():
        raise InputError(f"{path} exists already: resume it, or choose another folder")
    file = next((parent for parent in path.absolute().parents if parent.exists() and not parent.is_dir()), None)
    if file is not None:
        raise InputError(f"cannot create {path}: {file} is not a folder; choose another folder")
    made = [parent for parent in path.absolute().parents if not parent.exists()]
    try:
        path.absolute().parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=path.absolute().parent, prefix=f".{path.name}."))
    except OSError as error:
        _remove_empty(made)
        raise InputError(f"cannot create {path}: {error.strerror or error}; choose another folder") from error
    try:
        yield temporary
        temporary.chmod(0o755)
        temporary.rename(path)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        _remove_empty(made)
        if isinstance(error, OSError):
            raise InputError(f"cannot create {path}: {error.strerror or error}; choose another folder") from error
        raise


@contextlib.contextmanager
def replace_folder(path: Path) -> Iterator[Path]:
    """Give a temporary folder that takes the place of `path` at the end; the old one is removed only then.

    Whoever is killed in between leaves the old folder, the new one, or none: never a part of one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    old = None
    try:
        yield temporary
        temporary.chmod(0o755)
        if path.exists():
            old = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.old."))
            path.rename(old / path.name)
        temporary.rename(path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; choose another folder") from error
    finally:
        for rest in (temporary, old):
            if rest is not None:
                shutil.rmtree(rest, ignore_errors=True)


def _remove_empty(folders: list[Path]) -> None:
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()
