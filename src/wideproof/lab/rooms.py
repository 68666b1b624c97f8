"""The lab's other rooms: proofs that lie in a folder, the papers' statements, sweeps."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.routing import BaseRoute

from wideproof.errors import InputError as InputError
from wideproof.lab.keeping import keep as keep

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


def routes(lab: Lab, answer: Answer) -> list[BaseRoute]:
    """Return the addresses of the other rooms."""
    found: list[Any] = []
    return found
