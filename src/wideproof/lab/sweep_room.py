"""The room of sweeps: how far those are that run, and what came of those that are done."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route

from wideproof.errors import JobError
from wideproof.lab.children import output_of
from wideproof.lab.rooms import inside, names_in, small_json
from wideproof.lab.server import PAGE, REPORT
from wideproof.sweeps.store import ABOUT, JOURNAL, PROGRESS, RESULTS

if TYPE_CHECKING:
    from wideproof.lab.server import Lab

PATIENCE = 180.0  # seconds that drawing may take
MOST_TASKS = 200_000  # finished tasks that are counted


def routes(lab: Lab) -> list[BaseRoute]:
    """Return the addresses of this room."""
    roots = {"here": Path.cwd(), "proofs": lab.folder}
    drawing = asyncio.Lock()

    def find(request: Request) -> Path | None:
        root, name = request.path_params["root"], request.path_params["name"]
        found = inside(roots[root], name) if root in roots else None
        return found if found is not None and (found / ABOUT).is_file() else None

    async def sweeps(request: Request) -> Response:
        return JSONResponse(await asyncio.to_thread(listing, roots), headers=PAGE)

    async def one(request: Request) -> Response:
        folder = find(request)
        if folder is None:
            return _none()
        about = await asyncio.to_thread(describe, folder)
        return JSONResponse({**about, "root": request.path_params["root"]}, headers=PAGE)

    async def results(request: Request) -> Response:
        folder = find(request)
        place = None if folder is None else drawn_at(lab.work, folder)
        if folder is None or place is None:
            return _none()
        async with drawing:
            if not (place / "found.json").is_file():
                place.mkdir(parents=True, exist_ok=True)
                found = await _draw(request, folder, place)
                (place / "found.json").write_text(json.dumps(found))
        found = json.loads((place / "found.json").read_text())
        if "error" in found:
            return JSONResponse(found, 422, headers=PAGE)
        return JSONResponse({**found, "version": place.name}, headers=PAGE)

    async def figure(request: Request) -> Response:
        folder, file = find(request), request.path_params["file"]
        place = None if folder is None else drawn_at(lab.work, folder)
        if place is None or not re.fullmatch(r"\d{1,3}-(light|dark)\.svg", file) or not (place / file).is_file():
            return _none()
        return FileResponse(place / file, media_type="image/svg+xml", headers=REPORT)

    async def report(request: Request) -> Response:
        folder = find(request)
        path = None if folder is None else folder / "report.html"
        if path is None or not path.is_file() or path.is_symlink():
            return _none()
        return FileResponse(path, headers=REPORT)

    return [
        Route("/rooms/sweeps", sweeps),
        Route("/rooms/sweeps/{root}/{name}", one),
        Route("/rooms/sweeps/{root}/{name}/results", results),
        Route("/rooms/sweeps/{root}/{name}/report.html", report),
        Route("/rooms/sweeps/{root}/{name}/{file}", figure),
    ]


def _none() -> Response:
    return JSONResponse({"error": "there is no such sweep, or no results yet"}, 404, headers=PAGE)


async def _draw(request: Request, folder: Path, place: Path) -> dict[str, Any]:
    code, output = await output_of(request, PATIENCE, "wideproof.lab.sweep_reader", str(folder), str(place))
    try:
        found = json.loads(output)
    except ValueError:
        found = None
    if code != 0 or not isinstance(found, dict):
        raise JobError("the results of this sweep could not be drawn: is the folder whole?")
    return found


def drawn_at(work: Path, folder: Path) -> Path | None:
    """Return where the figures of a sweep's present results belong; `None` where it has none."""
    try:
        stamp = (folder / RESULTS).stat().st_mtime_ns, (folder / ABOUT).stat().st_mtime_ns
    except OSError:
        return None
    name = hashlib.sha256(f"{folder}|{stamp}".encode()).hexdigest()[:16]
    return work / "sweeps" / name


def listing(roots: dict[str, Path]) -> dict[str, Any]:
    """Return the sweeps in some folders, those that run first, then the newest."""
    found, seen, more = [], set(), False
    for root, place in roots.items():
        names, cut = names_in(place)
        more = more or cut
        for name in names:
            folder = inside(place, name)
            if folder is None or folder in seen or not (folder / ABOUT).is_file():
                continue
            seen.add(folder)
            about = describe(folder)
            if about["study"]:
                found.append({**about, "root": root, "name": name})
    found.sort(key=lambda one: (one["state"] != "running", -one["when"]))
    return {"sweeps": found, "folders": sorted({str(place.resolve()) for place in roots.values()}), "more": more}


def describe(folder: Path) -> dict[str, Any]:
    """Return how far a sweep is, from the small files of its folder."""
    about, progress = small_json(folder / ABOUT), small_json(folder / PROGRESS)
    study = about.get("study") if isinstance(about.get("study"), dict) else {}
    assert isinstance(study, dict)
    done, results = _count(folder / JOURNAL), (folder / RESULTS).is_dir()
    total = _number(progress.get("total")) or _tasks(study)
    failed = _number(progress.get("failed")) or 0
    errors = progress.get("errors") if isinstance(progress.get("errors"), list) else []
    whole = results and (total is None or done >= total)
    state = "running" if _alive(progress) else "done" if whole else "failed" if failed else "unfinished"
    when = max((_when(folder / part) for part in (ABOUT, PROGRESS, RESULTS)), default=0.0)
    return {
        "name": folder.name, "study": str(about.get("name") or "")[:100], "title": str(study.get("title") or "")[:300],
        "state": state, "done": done, "failed": failed, "total": total, "when": when, "results": results,
        "report": (folder / "report.html").is_file(), "errors": [str(text)[:300] for text in (errors or [])[:5]],
        "axes": _axes(study),
    }  # fmt: skip


def _count(journal: Path) -> int:
    try:
        with os.scandir(journal) as entries:
            return sum(1 for _, one in zip(range(MOST_TASKS), entries, strict=False) if one.name.endswith(".json"))
    except OSError:
        return 0


def _alive(progress: dict[str, Any]) -> bool:
    """Return whether the process that wrote this is at work, on this machine."""
    pid = _number(progress.get("pid"))
    if progress.get("ended") is not False or not pid or progress.get("host") != socket.gethostname():
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def _axes(study: dict[str, Any]) -> list[str]:
    axes = study.get("axes")
    return [
        f"{str(name)[:40]}: {', '.join(str(value)[:20] for value in values[:12])}{' …' if len(values) > 12 else ''}"
        if isinstance(values, list) else f"{str(name)[:40]}: {str(values)[:20]}"
        for name, values in (axes.items() if isinstance(axes, dict) else ())
    ]  # fmt: skip


def _tasks(study: dict[str, Any]) -> int | None:
    axes, tasks = study.get("axes"), study.get("tasks")
    if isinstance(tasks, list) and tasks:
        return len(tasks)
    if not isinstance(axes, dict) or not axes:
        return None
    total = 1
    for values in axes.values():
        total *= len(values) if isinstance(values, list) else _number(values) or 1
    return total


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def _when(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
