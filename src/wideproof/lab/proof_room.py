"""The room of proofs: what lies in the lab's folder, and certificates that somebody brings, verified on the spot."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from wideproof.certificates import ARRAYS, DOCUMENT
from wideproof.errors import JobError
from wideproof.lab import archives
from wideproof.lab.children import Places, output_of
from wideproof.lab.rooms import inside, names_in, small_json
from wideproof.lab.server import PAGE, receive_file
from wideproof.storage import plain

if TYPE_CHECKING:
    from wideproof.lab.server import Answer, Lab

PATIENCE = 600.0  # seconds that a verification may take
HEAD = 1 << 16  # characters of a report in which its headline stands
OUTCOMES = {"proved": "proved", "impossible": "impossible", "not-proved": "not proved"}


def routes(lab: Lab, answer: Answer) -> list[BaseRoute]:
    """Return the addresses of this room."""
    places = Places(2, "verifications are")

    async def proofs(request: Request) -> Response:
        return JSONResponse(await asyncio.to_thread(listing, lab.folder), headers=PAGE)

    async def file(request: Request) -> Response:
        folder, which = inside(lab.folder, request.path_params["name"]), request.path_params["file"]
        part = None if folder is None else folder / ("certificate" if which == "certificate.zip" else which)
        if folder is None or part is None or part.resolve() != folder / part.name:
            return _sorry("there is no such file", 404)
        return await answer(folder, which)

    async def again(request: Request) -> Response:
        folder = inside(lab.folder, request.path_params["name"])
        certificate = None if folder is None else inside(folder, "certificate")
        if certificate is None:
            return _sorry("there is no certificate in this folder", 404)
        with places.one():
            await request.body()
            return JSONResponse(await verdict(request, certificate), headers=PAGE)

    async def brought(request: Request) -> Response:
        size = request.query_params.get("document")
        if size is not None and not (size.isascii() and size.isdigit() and len(size) < 12):
            return _sorry("this certificate did not arrive whole: try again", 422)
        with places.one(), tempfile.TemporaryDirectory(prefix="brought-", dir=lab.work) as made:
            packed, folder = Path(made) / "packed", Path(made) / "certificate"
            folder.mkdir()
            if not await receive_file(request, packed, archives.MOST):
                most = archives.MOST >> 20
                return _sorry(f"a certificate is at most {most} MB here: use `wideproof verify` for larger ones", 413)
            if size is None:
                await asyncio.to_thread(archives.unzip, packed, folder)
            else:
                await asyncio.to_thread(archives.split, packed, folder, int(size))
            packed.unlink()
            return JSONResponse(await verdict(request, folder), headers=PAGE)

    return [
        Route("/rooms/proofs", proofs),
        Route("/rooms/proofs/{name}/verify", again, methods=["POST"]),
        Route("/rooms/proofs/{name}/{file}", file),
        Route("/rooms/verify", brought, methods=["POST"]),
    ]


def _sorry(text: str, code: int) -> Response:
    return JSONResponse({"error": text}, code, headers=PAGE)


async def verdict(request: Request, folder: Path) -> dict[str, Any]:
    """Return what the independent verifier says about a certificate."""
    try:
        _, output = await output_of(request, PATIENCE, "wideproof_verify", str(folder), "--json")
        said = json.loads(output)
        found = {key: said[key] for key in ("answer", "reason", "statement", "checks", "precision", "seconds")}
        return {**plain(found, odd=repr), "followed": len(said["course"])}
    except JobError as error:
        raise JobError(f"this certificate was not verified: {error}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise JobError("the verifier was lost: is there enough memory?") from None


def listing(folder: Path) -> dict[str, Any]:
    """Return the proofs that lie in a folder, the newest first."""
    names, more = names_in(folder)
    found = [about for name in names if (about := describe(folder, name)) is not None]
    return {"folder": str(folder.resolve()), "proofs": sorted(found, key=lambda one: -one["when"]), "more": more}


def describe(among: Path, name: str) -> dict[str, Any] | None:
    """Return what one folder says about itself; `None` if it holds no proof, or leads somewhere else."""
    folder = inside(among, name)
    if folder is None:
        return None
    try:
        run = small_json(folder / "run" / "run.json")
        certificate = _certificate(folder)
        report = _report(folder / "report.html")
        if not (run or certificate or report):
            return None
        parts = [folder / "report.html", folder / "certificate" / DOCUMENT, folder / "run" / "run.json"]
        when = next(part.stat().st_mtime for part in parts if part.is_file())
        about = certificate.get("anchor") or {}
        data = run.get("data") or {}
        choice = small_json(folder / "choice.json")
        steps = about.get("preparation") or choice.get("preparation") or ""
        size, outcome = _size(folder / "certificate"), report.get("outcome")
        if outcome not in (None, "", "not proved") and size is None:  # words that nothing stands behind
            outcome = "claimed"
        return {
            "name": name, "when": when, "report": bool(report),
            "outcome": outcome or ("claimed" if certificate else "unfinished"),
            "headline": report.get("headline") or str(certificate.get("summary") or "")[:600] or "No report yet.",
            "network": network_words(run.get("network") or choice.get("network") or {}),
            "data": str(data.get("name") or about.get("data") or "")[:200],
            "n": data.get("n") if isinstance(data.get("n"), int) else None,
            "prepared": (", ".join(map(str, steps)) if isinstance(steps, list) else str(steps))[:200],
            "bytes": size,
        }  # fmt: skip
    except (OSError, StopIteration, AttributeError, TypeError, ValueError):
        return None


def network_words(config: Mapping[str, Any]) -> str:
    """Return a network in a few words.

    >>> network_words({"network": "residual", "width": 64, "depth": 3, "activation": "tanh", "outputs": 1})
    'residual, width 64, depth 3, tanh'
    """
    kind = str(config.get("network") or "")[:60]
    sizes = [f"{key} {config[key]}" for key in ("width", "depth") if isinstance(config.get(key), int | str)]
    return ", ".join(filter(None, [kind, *sizes, str(config.get("activation") or "")]))[:160]


def _certificate(folder: Path) -> dict[str, Any]:
    whole = inside(folder, "certificate") is not None and (folder / "certificate" / ARRAYS).is_file()
    return small_json(folder / "certificate" / DOCUMENT) if whole else {}


def _size(folder: Path) -> int | None:
    sizes = [(folder / name).stat().st_size for name in (DOCUMENT, ARRAYS) if (folder / name).is_file()]
    return sum(sizes) if len(sizes) == 2 else None


def _report(path: Path) -> dict[str, str]:
    """Return outcome and headline as a report's first lines have them."""
    if not path.is_file() or path.is_symlink():
        return {}
    with path.open(encoding="utf-8", errors="replace") as file:
        head = _Head()
        head.feed(file.read(HEAD))
    return {"outcome": OUTCOMES.get(head.kind, ""), "headline": " ".join(head.text.split())[:600]}


class _Head(HTMLParser):
    """The class of a report's `main`, and the text of its first heading."""

    def __init__(self) -> None:
        super().__init__()
        self.kind, self.text, self.open, self.read = "", "", False, False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "main" and not self.kind:
            self.kind = dict(attrs).get("class") or ""
        self.open = self.open or (tag == "h1" and not self.read)

    def handle_endtag(self, tag: str) -> None:
        if tag == "h1":
            self.open, self.read = False, True

    def handle_data(self, data: str) -> None:
        if self.open:
            self.text += data
