"""Certificates that come from a page: an archive or the two files, each taken by its name and counted byte by byte."""

from __future__ import annotations

import shutil
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO

from wideproof.certificates import ARRAYS, DOCUMENT
from wideproof.errors import InputError

MOST = 256 << 20  # bytes of a certificate, packed or not
MOST_ENTRIES = 1000
PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # the others may ask for gigabytes to unpack anything


def unzip(archive: Path, folder: Path) -> None:
    """Write the certificate in a .zip to `folder`; nothing else of it is read, and no name of it is used."""
    try:
        with zipfile.ZipFile(archive) as opened:
            for name, entry in _entries(opened).items():
                with opened.open(entry) as source, (folder / name).open("wb") as sink:
                    _copy(source, sink, MOST)
    except InputError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError) as error:
        raise InputError(f"this .zip cannot be read ({str(error)[:120] or type(error).__name__})") from error


def _entries(opened: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    entries = opened.infolist()
    if len(entries) > MOST_ENTRIES:
        raise InputError(f"this .zip holds {len(entries)} files: a certificate is two")
    found: dict[str, zipfile.ZipInfo] = {}
    for entry in entries:
        path = PurePosixPath(entry.filename)
        if path.is_absolute() or ".." in path.parts or "\\" in entry.filename:
            raise InputError("this .zip names a place outside itself, and is not read")
        if path.name in (DOCUMENT, ARRAYS) and "__MACOSX" not in path.parts:
            if path.name in found:
                raise InputError(f"this .zip holds {path.name} more than once: pack one certificate")
            found[path.name] = entry
    for name in (DOCUMENT, ARRAYS):
        if name not in found:
            raise InputError(f"this .zip holds no certificate: {name} is missing")
    if any(entry.compress_type not in PACKED for entry in found.values()):
        raise InputError("this .zip uses a compression that is not supported: pack it with deflate")
    if sum(entry.file_size for entry in found.values()) > MOST:
        raise InputError(_too_large())
    return found


def split(joined: Path, folder: Path, size: int) -> None:
    """Write the two files that lie in one, the document first, to `folder`."""
    if not 0 <= size <= joined.stat().st_size:
        raise InputError("this certificate did not arrive whole: try again")
    with joined.open("rb") as source:
        with (folder / DOCUMENT).open("wb") as sink:
            sink.write(source.read(size))
        with (folder / ARRAYS).open("wb") as sink:
            shutil.copyfileobj(source, sink)


def _copy(source: IO[bytes], sink: IO[bytes], most: int) -> None:
    """Copy at most so many bytes, whatever the archive says about its size."""
    size = 0
    while part := source.read(1 << 20):
        size += len(part)
        if size > most:
            raise InputError(_too_large())
        sink.write(part)


def _too_large() -> str:
    return f"a certificate is at most {MOST >> 20} MB here: use `wideproof verify` for larger ones"
