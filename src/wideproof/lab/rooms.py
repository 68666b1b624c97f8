"""The lab's other rooms: proofs that lie in a folder, the papers' statements, sweeps."""

from __future__ import annotations

import io
import shutil
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.routing import BaseRoute

from wideproof.errors import InputError as InputError

if TYPE_CHECKING:
    from wideproof.lab.server import Answer, Lab


def inside(folder: Path, name: str) -> Path | None:
    """Return the folder called `name` in `folder`, or `None` if it is not there or not inside."""
    found = (folder / name).resolve()
    return found if found.is_dir() and found != folder.resolve() and found.is_relative_to(folder.resolve()) else None


def columns_of(path: Path) -> list[str]:
    """Return the names of a table's columns."""
    from wideproof.data.tables import read_text

    return list(read_text(path).labels)


def zipped(folder: Path) -> bytes:
    """Return the files of a folder as one archive, in a folder of its name."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir()):
            if path.is_file():
                archive.write(path, f"{folder.name}/{path.name}")
    return content.getvalue()


def keep(folder: Path, among: Path) -> Path:
    """Copy a proof to where proofs lie, under a name that is free, and return its place."""
    among.mkdir(parents=True, exist_ok=True)
    place, count = among / folder.name, 1
    while place.exists():
        place, count = among / f"{folder.name}-{count}", count + 1
    shutil.copytree(folder, place, ignore=shutil.ignore_patterns("stages.jsonl"))
    return place


def routes(lab: Lab, answer: Answer) -> list[BaseRoute]:
    """Return the addresses of the other rooms."""
    found: list[Any] = []
    return found
