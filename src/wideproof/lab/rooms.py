"""The lab's other rooms: proofs that lie in a folder, the papers' statements, sweeps."""

from __future__ import annotations

import functools
import io
import itertools
import json
import os
import zipfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from wideproof.errors import InputError as InputError
from wideproof.errors import JobError
from wideproof.lab.keeping import keep as keep

if TYPE_CHECKING:
    from wideproof.lab.server import Answer, Lab

MOST_NAMES = 500  # folders that a room shows
MOST_JSON = 4 << 20  # bytes of a file that describes something


def inside(folder: Path, name: str) -> Path | None:
    """Return the folder called `name` in `folder`, or `None` if it is not there or not inside."""
    try:
        found = (folder / name).resolve()
        here = folder.resolve()
        return found if found.is_dir() and found != here and found.is_relative_to(here) else None
    except (OSError, ValueError):  # a name that is too long, or no name
        return None


def names_in(folder: Path) -> tuple[list[str], bool]:
    """Return the names of the folders in a folder, the newest first, and whether there are more than are shown."""
    try:
        with os.scandir(folder) as entries:
            seen = list(itertools.islice((one for one in entries if not one.name.startswith(".")), 20 * MOST_NAMES))
            folders = sorted((-one.stat().st_mtime, one.name) for one in seen if one.is_dir())
    except OSError:
        return [], False
    shown = [name for _, name in folders[:MOST_NAMES] if name.isprintable()]
    return shown, len(folders) > MOST_NAMES


def small_json(path: Path) -> dict[str, Any]:
    """Return what a JSON file says; nothing where it is missing, damaged, too large, or no object."""
    try:
        if not path.is_file() or path.stat().st_size > MOST_JSON:
            return {}
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def columns_of(path: Path) -> list[str]:
    """Return the names of a table's columns."""
    from wideproof.data import read_text

    return list(read_text(path).labels)


def zipped(folder: Path) -> bytes:
    """Return the files of a folder as one archive, in a folder of its name."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir()):
            if path.is_file() and not path.is_symlink():
                archive.write(path, f"{folder.name}/{path.name}")
    return content.getvalue()


def routes(lab: Lab, answer: Answer) -> list[BaseRoute]:
    """Return the addresses of the other rooms."""
    from wideproof.lab import paper_room, proof_room, sweep_room

    found = [*proof_room.routes(lab, answer), *paper_room.routes(), *sweep_room.routes(lab)]
    return [Route(one.path, _spoken(one.endpoint), methods=one.methods) for one in found if isinstance(one, Route)]


def _spoken(endpoint: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """Answer with a sentence where something is wrong."""
    from wideproof.lab.children import BusyError
    from wideproof.lab.server import PAGE

    @functools.wraps(endpoint)
    async def answered(request: Request) -> Response:
        try:
            return await endpoint(request)
        except InputError as error:
            return JSONResponse({"error": str(error)}, 429 if isinstance(error, BusyError) else 422, headers=PAGE)
        except JobError as error:
            return JSONResponse({"error": str(error)}, 500, headers=PAGE)
        except ClientDisconnect:
            return JSONResponse({"error": "the page has gone"}, 400, headers=PAGE)

    return answered
