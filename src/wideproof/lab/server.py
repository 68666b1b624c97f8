"""The lab's web server: one page, one socket for each tab, and a guard in front of both.

Whoever opens a page of this server must know the token, once: it becomes a cookie that only this server gets. Requests
whose Host is another name, or whose Origin is another page, are refused, so that neither a rebound name nor a foreign
page can talk to it. Each tab has a worker, a process of its own, which ends with the tab.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import json
import os
import re
import secrets
import shutil
import signal
import struct
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from wideproof.lab import rooms
from wideproof.lab.settings import FILES
from wideproof.lab.worker import ENVIRONMENT

STATIC = Path(__file__).parent / "static"
MOST_TABS = 8
ANYWHERE = {"0.0.0.0", "[::]"}
MOST_UPLOAD = 32 << 20  # bytes of a table
MOST_COMMAND = 1 << 17  # bytes of a message from a page
PAGE = {
    "content-security-policy": (
        "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'; object-src 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}
REPORT = {
    **PAGE,
    "content-security-policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:",
}


class Lab:
    """What the server knows: where it may write, who may enter, which tabs are open."""

    def __init__(self, folder: Path, names: set[str], port: int, token: str | None = None):
        self.folder, self.port, self.token = folder, port, token or secrets.token_urlsafe(24)
        self.names, self.cookie = names, f"wideproof-lab-{port}"
        self.work = Path(tempfile.mkdtemp(prefix="wideproof-lab-"))
        self.tabs = 0
        self.workers: set[asyncio.subprocess.Process] = set()
        self.spare: tuple[str, asyncio.subprocess.Process] | None = None
        self.closed, self._starting = False, asyncio.Lock()

    def is_own(self, host: str | None) -> bool:
        """Return whether a Host header is this server's; one that listens everywhere has any number for a name."""
        name, _, port = (host or "").rpartition(":")
        if not name:
            name, port = port, "80"
        anywhere = not ANYWHERE.isdisjoint(self.names)
        return port == str(self.port) and (name in self.names or (anywhere and _is_number(name)))

    def knows(self, given: str | None) -> bool:
        """Return whether this is the token."""
        return given is not None and hmac.compare_digest(given.encode(), self.token.encode())

    async def worker(self) -> tuple[str, asyncio.subprocess.Process]:
        """Return the name of a new tab and its worker: the one that was started in advance, if there is one."""
        async with self._starting:
            found, self.spare = self.spare, None
            if found is not None:
                if found[1].returncode is None:
                    return found
                self.workers.discard(found[1])
            return await self._start()

    async def prepare(self) -> None:
        """Start a worker for the next tab: it takes seconds to be ready."""
        async with self._starting:
            if self.spare is None and self.tabs < MOST_TABS and not self.closed:
                self.spare = await self._start()

    async def _start(self) -> tuple[str, asyncio.subprocess.Process]:
        tab = secrets.token_hex(8)
        started = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "wideproof.lab.worker", str(self.work / "uploads"), str(self.work / "tabs" / tab),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, start_new_session=True,
            env={"JAX_COMPILATION_CACHE_DIR": str(self.work / "compiled")} | os.environ | ENVIRONMENT,
        )  # fmt: skip
        self.workers.add(started)
        if self.closed:
            await self.end(started)
        return tab, started

    async def end(self, worker: asyncio.subprocess.Process) -> int:
        """End a worker and all that it started; return how it ended."""
        _kill(worker.pid)
        code = await worker.wait()
        self.workers.discard(worker)
        return code

    async def close(self) -> None:
        """End all workers, and then remove what was not kept: they could still write."""
        self.closed = True
        for worker in list(self.workers):
            await self.end(worker)
        self.clear()

    def clear(self) -> None:
        """Remove what was not kept, and end what still runs where the server was not allowed to close."""
        for worker in self.workers:
            _kill(worker.pid)
        shutil.rmtree(self.work, ignore_errors=True)


class Guard:
    """Lets in what comes from this server's own pages, with the token."""

    def __init__(self, app: ASGIApp, lab: Lab):
        self.app, self.lab = app, lab

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with a sentence, or pass the request on."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is None:
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await WebSocket(scope, receive, send).close(1008, refusal[:120])
        else:
            await PlainTextResponse(refusal + "\n", 403, PAGE)(scope, receive, send)

    def _refusal(self, scope: Scope) -> str | None:
        headers = Headers(scope=scope)
        if not self.lab.is_own(headers.get("host")):
            return "this server answers under its own name only: open the address that `wideproof lab` printed"
        origin, changes = headers.get("origin"), scope["type"] == "websocket" or scope["method"] not in ("GET", "HEAD")
        if (origin is not None or changes) and origin != f"http://{headers.get('host')}":
            return "this server talks to its own pages only"
        request = Request(scope) if scope["type"] == "http" else None
        if request is not None and scope["path"] == "/" and self.lab.knows(request.query_params.get("token")):
            return None
        cookies = headers.get("cookie", "")
        found = re.search(rf"(?:^|;\s*){re.escape(self.lab.cookie)}=([^;]*)", cookies)
        if not self.lab.knows(found.group(1) if found else None):
            return "this page needs a token: open the whole address that `wideproof lab` printed"
        return None


def make_app(lab: Lab) -> Starlette:
    """Return the application."""

    async def home(request: Request) -> Response:
        if "token" in request.query_params:  # it goes into a cookie, and out of the address
            answer = RedirectResponse("/", 303, PAGE)
            answer.set_cookie(lab.cookie, lab.token, httponly=True, samesite="strict")
            return answer
        return FileResponse(STATIC / "index.html", headers=PAGE)

    async def upload(request: Request) -> Response:
        name = request.query_params.get("name", "")
        suffix = Path(name).suffix.lower()
        if suffix not in FILES:
            return _sorry(f"a table is one of {', '.join(FILES)}: {name[:60]!r} is not", 415)
        uploads = lab.work / "uploads"
        uploads.mkdir(exist_ok=True)
        identity = secrets.token_hex(8)
        plain = re.sub(r"[^A-Za-z0-9_.]+", "_", Path(name).stem)[:40]
        place = uploads / f"{identity}-{plain}{suffix}"
        if not await receive_file(request, place, MOST_UPLOAD):
            return _sorry(f"a table is at most {MOST_UPLOAD >> 20} MB: this one is larger", 413)
        try:
            columns = await asyncio.to_thread(rooms.columns_of, place)
        except rooms.InputError as error:
            place.unlink()
            return _sorry(str(error), 422)
        return JSONResponse({"id": identity, "name": plain, "columns": columns}, headers=PAGE)

    async def proof_file(request: Request) -> Response:
        tab, name, which = (request.path_params[key] for key in ("tab", "name", "file"))
        folder = own_proof(tab, name)
        if folder is None:
            return _sorry("there is no such proof", 404)
        return await proof_answer(folder, which)

    def own_proof(tab: str, name: str) -> Path | None:
        if not re.fullmatch(r"[0-9a-f]{16}", tab) or not re.fullmatch(r"[\w.=-]{1,99}", name, re.ASCII):
            return None
        return rooms.inside(lab.work / "tabs", f"{tab}/{name}")

    async def proof_answer(folder: Path, which: str) -> Response:
        if which == "report.html" and (folder / which).is_file():
            return FileResponse(folder / which, headers=REPORT)
        if which == "certificate.zip" and (folder / "certificate").is_dir():
            content = await asyncio.to_thread(rooms.zipped, folder / "certificate")
            plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", folder.name)[:60]
            given = {"content-disposition": f'attachment; filename="{plain}-certificate.zip"'}
            return Response(content, media_type="application/zip", headers=PAGE | given)
        return _sorry("there is no such file", 404)

    async def keep(request: Request) -> Response:
        tab, name = request.path_params["tab"], request.path_params["name"]
        folder = own_proof(tab, name)
        if folder is None:
            return _sorry("there is no such proof", 404)
        kept = await asyncio.to_thread(rooms.keep, folder, lab.folder)
        return JSONResponse({"folder": str(kept)}, headers=PAGE)

    async def socket(websocket: WebSocket) -> None:
        await serve_tab(lab, websocket)

    routes = [
        Route("/", home),
        Route("/upload", upload, methods=["POST"]),
        Route("/tabs/{tab}/{name}/keep", keep, methods=["POST"]),
        Route("/tabs/{tab}/{name}/{file}", proof_file),
        *rooms.routes(lab, proof_answer),
        WebSocketRoute("/socket", socket),
        Mount("/static", _Static(directory=STATIC)),
    ]

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await lab.prepare()
        yield
        await lab.close()

    app = Starlette(routes=routes, lifespan=lifespan)
    app.add_middleware(Guard, lab=lab)  # pyright: ignore[reportArgumentType]
    return app


class _Static(StaticFiles):
    def file_response(self, *arguments: Any, **options: Any) -> Response:
        answer = super().file_response(*arguments, **options)
        answer.headers.update(PAGE)
        return answer


def _sorry(text: str, code: int) -> Response:
    return JSONResponse({"error": text}, code, headers=PAGE)


async def receive_file(request: Request, place: Path, most: int) -> bool:
    """Write a request's body to a file; return `False`, and leave none, where it is larger than `most` bytes."""
    if int(request.headers.get("content-length") or 0) > most:
        return False
    size, whole = 0, False
    try:
        with place.open("wb") as file:
            async for part in request.stream():
                size += len(part)
                if size > most:
                    return False
                file.write(part)
        whole = True
    except ClientDisconnect:
        pass
    finally:
        if not whole:
            place.unlink()
    return whole


async def serve_tab(lab: Lab, websocket: WebSocket) -> None:
    """Give a tab its worker, and carry messages between the two until one of them is gone."""
    await websocket.accept()
    if lab.tabs >= MOST_TABS:
        await websocket.close(1013, f"{MOST_TABS} tabs are open already: close one of them")
        return
    lab.tabs += 1
    try:
        while await _serve_worker(lab, websocket):
            pass
    finally:
        lab.tabs -= 1


async def _serve_worker(lab: Lab, websocket: WebSocket) -> bool:
    """Serve a tab with one worker until one of them is gone; return whether the tab is still there."""
    tab, worker = await lab.worker()
    outward = asyncio.create_task(_outward(worker, websocket, tab))
    inward = asyncio.create_task(_inward(worker, websocket))
    tasks = (outward, inward, asyncio.create_task(_soon(lab)))
    try:
        await asyncio.wait({outward, inward}, return_when=asyncio.FIRST_COMPLETED)
        closed = inward.done() or lab.closed
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        code = await lab.end(worker)
        shutil.rmtree(lab.work / "tabs" / tab, ignore_errors=True)
    if closed:
        return False
    why = f"the process that trained was lost ({_how(code)}): a new one has been started, press reset"
    try:
        await websocket.send_text(json.dumps({"kind": "lost", "text": why}))
    except (WebSocketDisconnect, RuntimeError):
        return False
    return True


async def _soon(lab: Lab) -> None:
    """Have a worker ready for the next tab, once this one has had time to start."""
    await asyncio.sleep(8)
    await asyncio.shield(lab.prepare())


async def _outward(worker: asyncio.subprocess.Process, websocket: WebSocket, tab: str) -> None:
    assert worker.stdout is not None
    await websocket.send_text(json.dumps({"kind": "tab", "tab": tab}))
    with contextlib.suppress(asyncio.IncompleteReadError):
        while True:
            (length,) = struct.unpack("<I", await worker.stdout.readexactly(4))
            await websocket.send_bytes(await worker.stdout.readexactly(length))


async def _inward(worker: asyncio.subprocess.Process, websocket: WebSocket) -> None:
    assert worker.stdin is not None
    while True:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            return
        line = _command(message.get("text"))
        if line is None:
            await websocket.send_text(json.dumps({"kind": "error", "text": "this message was no command: ignored"}))
            continue
        with contextlib.suppress(ConnectionError):
            worker.stdin.write(line)
            await worker.stdin.drain()


def _command(text: str | None) -> bytes | None:
    """Return a message of a page as one line of JSON, or `None` where it is no object."""
    if text is None or len(text) > MOST_COMMAND:
        return None
    try:
        command = json.loads(text)
        return json.dumps(command).encode() + b"\n" if isinstance(command, dict) else None
    except (ValueError, RecursionError):
        return None


def _is_number(name: str) -> bool:
    """Return whether a host is an address in numbers, which no name server can point elsewhere."""
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _how(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"


Answer = Callable[[Path, str], Awaitable[Response]]
