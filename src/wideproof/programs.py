"""Compiled programs that are kept for the next run, by JAX's persistent cache, in the user's cache folder.

Commands call `keep` before JAX is imported; importing the library changes no setting of JAX. The folder is
`$XDG_CACHE_HOME/wideproof` or `~/.cache/wideproof`; `WIDEPROOF_CACHE` names another one or says `off`, and who has set
`JAX_COMPILATION_CACHE_DIR` is left alone. Machines that share a home folder share no programs: there is one folder
for each set of processor features, although JAX's own keys tell them apart too.

JAX can limit its cache itself, but then takes a lock at every program and reads the age of every other one whenever it
writes; hundreds of jobs that start at once would wait for each other. So the folder is tidied once a run instead.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import importlib
import os
import platform
import shutil
import sys
import time
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from wideproof.errors import InputError
from wideproof.storage import number_of_bytes

PLACE, SIZE, OFF = "WIDEPROOF_CACHE", "WIDEPROOF_CACHE_SIZE", "off"
MOST = 1_000_000_000  # bytes; a proof leaves 1 to 5 million
SETTLED = 60.0  # seconds after which nobody writes to a file any more
# Of JAX: the folder, and how long compiling must take for a program to be kept. Most of ours take a tenth of a second.
FOLDER, LEAST = "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs"
ENABLED = "JAX_ENABLE_COMPILATION_CACHE"
ENTRY = "*-cache"
CPUINFO = Path("/proc/cpuinfo")
# Two processes may meet at one file; the one that reads half of it compiles the program itself.
SILENT = "ignore:Error reading persistent compilation cache entry"


class Kept(NamedTuple):
    """What is kept: the folder (`None` if nothing is), programs, bytes, and the most bytes that are kept.

    `most` is `None` where the user's own setting of JAX decides.
    """

    folder: Path | None
    programs: int
    bytes: int
    most: int | None

    def __str__(self) -> str:
        if self.folder is None:
            return "not kept"
        limit = "" if self.most is None else f", at most {self.most / 1e6:.0f} MB"
        return f"{self.programs}, {self.bytes / 1e6:.1f} MB{limit}, in {self.folder}"


def keep(where: str | Path | None = None) -> Path | None:
    """Keep compiled programs from now on, in this process and those it starts; return the folder, or `None` if off.

    Parameters
    ----------
    where
        A folder, or `"off"`; by default what the environment says, and the user's cache folder where it says nothing.
        A folder that cannot be made or written to counts as off.

    Examples
    --------
    >>> keep("off") is None
    True
    """
    if where == OFF:
        os.environ[ENABLED] = "false"
        _tell_jax("jax_enable_compilation_cache", False)
        return None
    if where is None and FOLDER.upper() in os.environ:
        return Path(os.environ[FOLDER.upper()])
    root, most = _root(where), _most()
    if root is None:
        return None
    own = root / _features()
    try:
        own.mkdir(mode=0o700, parents=True, exist_ok=True)  # who can write here can run code as the user
        tidy(root, most)
    except OSError:
        return None
    if not os.access(own, os.W_OK):
        return None
    atexit.register(_tidy_quietly, root, most)
    _set(FOLDER, str(own), given=True)
    _set(LEAST, 0.0)
    # On some processors XLA logs an error with every program that it loads, and then computes correctly.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if SILENT not in os.environ.get("PYTHONWARNINGS", ""):
        os.environ["PYTHONWARNINGS"] = ",".join(filter(None, (os.environ.get("PYTHONWARNINGS"), SILENT)))
        warnings.filterwarnings("ignore", SILENT.partition(":")[2])
    return own


def kept() -> Kept:
    """Return what is kept now, as the environment says."""
    if os.environ.get(ENABLED, "").lower() in ("0", "false"):
        return Kept(None, 0, 0, None)
    if FOLDER.upper() in os.environ and not _ours(Path(os.environ[FOLDER.upper()])):
        root, most = Path(os.environ[FOLDER.upper()]), None
    else:
        root, most = _root(None), _most()
    if root is None:
        return Kept(None, 0, 0, None)
    sizes = [entry.size for entry in _entries(root)]
    return Kept(root, len(sizes), sum(sizes), most)


def clear() -> Kept:
    """Remove all programs that are kept in the user's cache folder, those of other machines too; return what was.

    A folder that the user gave to JAX itself is not touched.
    """
    found = kept()
    if found.folder is None:
        return found
    if found.most is None:
        raise InputError(f"{found.folder} is the folder of {FOLDER.upper()}, not of wideproof: remove it yourself")
    for folder in found.folder.glob("*"):
        if folder.is_dir() and _ours(folder):
            shutil.rmtree(folder, ignore_errors=True)
    return found


def tidy(root: Path, most: int) -> None:
    """Remove what is torn, and what was not used for longest until at most `most` bytes are left.

    A program is looked into once, by the first run that finds it settled: a full disk leaves half of one behind, which
    JAX would fail to read at every run and never replace.
    """
    now, mark = time.time(), root / ".looked-at"
    since = mark.stat().st_mtime if mark.exists() else 0.0
    entries = list(_entries(root))
    for entry in list(entries):
        if since <= entry.written < now - SETTLED and not _whole(entry.path):
            entry.path.unlink(missing_ok=True)
            entries.remove(entry)
    mark.touch()
    os.utime(mark, (now - SETTLED, now - SETTLED))
    total = sum(entry.size for entry in entries)
    for entry in sorted(entries, key=lambda entry: (entry.used, entry.path.name)):
        if total <= most:
            break
        entry.path.unlink(missing_ok=True)
        total -= entry.size


class _Entry(NamedTuple):
    path: Path
    written: float
    used: float
    size: int


def _entries(root: Path) -> Iterator[_Entry]:
    for path in (*root.glob(ENTRY), *root.glob(f"*/{ENTRY}")):
        with contextlib.suppress(OSError):  # another process was quicker
            found = path.stat()
            yield _Entry(path, found.st_mtime, max(found.st_atime, found.st_mtime), found.st_size)


def _whole(path: Path) -> bool:
    """Say whether a program can be unpacked: by zlib, or by Zstandard where JAX found it."""
    try:
        content = path.read_bytes()
    except OSError:
        return True  # gone, which is as good
    for name in ("zlib", "compression.zstd", "zstandard"):
        with contextlib.suppress(ImportError):
            module = importlib.import_module(name)
            with contextlib.suppress(getattr(module, "ZstdError", zlib.error), EOFError):
                module.decompress(content)
                return True
    return False


def _root(where: str | Path | None) -> Path | None:
    """Return the folder of all machines."""
    given = str(where) if where is not None else os.environ.get(PLACE, "")
    if given == OFF:
        return None
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
        return Path(given).expanduser().absolute() if given else home / "wideproof"
    except RuntimeError:  # there is no home
        return None


def _most() -> int:
    return number_of_bytes(os.environ[SIZE], SIZE) if os.environ.get(SIZE) else MOST


def _features() -> str:
    """Return a name for what this processor can do; programs for another one may be wrong here, or not run at all."""
    said = [platform.machine(), platform.processor()]
    with contextlib.suppress(OSError):
        lines = CPUINFO.read_text().splitlines()
        said += sorted({line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))})
    return f"programs-{hashlib.sha256('|'.join(said).encode()).hexdigest()[:16]}"


def _ours(folder: Path) -> bool:
    return folder.name.startswith("programs-")


def _set(name: str, value: str | float, *, given: bool = False) -> None:
    """Set an option of JAX for this process and its children, unless the user has; `given` overrides that."""
    if given or name.upper() not in os.environ:
        os.environ[name.upper()] = str(value)
        _tell_jax(name, value)


def _tell_jax(name: str, value: object) -> None:
    if "jax" in sys.modules:  # it has read the environment already
        sys.modules["jax"].config.update(name, value)


def _tidy_quietly(root: Path, most: int) -> None:
    with contextlib.suppress(OSError):
        tidy(root, most)
