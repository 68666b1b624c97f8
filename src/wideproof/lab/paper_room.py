"""The room of papers: every statement with its formula, what the standard study found, and a measurement on demand."""

from __future__ import annotations

import asyncio
import functools
import json
import time
from collections.abc import AsyncGenerator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from wideproof.errors import InputError
from wideproof.lab.children import Places, child
from wideproof.lab.formulas import said
from wideproof.lab.server import PAGE
from wideproof.papers import PAPERS, SIZES, Statement, index, stored
from wideproof.report import paper
from wideproof.report.check_words import spoken

BEAT = 1.0  # seconds between two signs of life
MOST_BODY = 1 << 16


def routes() -> list[BaseRoute]:
    """Return the addresses of this room."""
    places = Places(2, "measurements are")

    async def papers(request: Request) -> Response:
        return Response(await asyncio.to_thread(listing), media_type="application/json", headers=PAGE)

    async def statement(request: Request) -> Response:
        one = _every().get(request.path_params["name"])
        if one is None:
            return JSONResponse({"error": "there is no such statement"}, 404, headers=PAGE)
        return JSONResponse(await asyncio.to_thread(described, one, whole=True), headers=PAGE)

    async def measure(request: Request) -> Response:
        study, seed, names = await asked(request)
        place = places.one()
        place.__enter__()  # given back when the answer ends, however it does

        async def lines() -> AsyncGenerator[str]:
            async for line in measured(study, seed, names):
                yield json.dumps(line) + "\n"

        return _Lines(lines(), place)

    return [
        Route("/rooms/papers", papers),
        Route("/rooms/papers/{name}", statement),
        Route("/rooms/measure", measure, methods=["POST"]),
    ]


class _Lines(StreamingResponse):
    """Lines as they come; when the page goes, what makes them is ended."""

    def __init__(self, lines: AsyncGenerator[str], place: Any):
        super().__init__(lines, media_type="application/x-ndjson", headers=PAGE)
        self.lines, self.place = lines, place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.place.__exit__(None, None, None)
            await self.lines.aclose()


async def asked(request: Request) -> tuple[str, int, list[str]]:
    """Return study, seed and names of what is to be measured."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BODY:
            raise InputError("this is too much to measure at once")
    try:
        given = json.loads(body)
        study, seed, names = given["study"], given["seed"], given["names"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError("a measurement needs a study, a seed and names of statements") from None
    if study not in SIZES:
        raise InputError(f"a study is {', '.join(SIZES)}")
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**32:
        raise InputError("a seed is a whole number >= 0")
    known = _every()
    if not isinstance(names, list) or not names or len(set(map(str, names))) != len(names):
        raise InputError("a measurement needs names of statements, each once")
    for name in names:
        if not isinstance(name, str) or name not in known or not known[name].checkable:
            raise InputError("there is no such statement to measure")
    return study, seed, names


async def measured(study: str, seed: int, names: list[str]) -> AsyncGenerator[dict[str, Any]]:
    """Yield what the measuring process says, a sign of life where it says nothing, and how it ended."""
    began = time.perf_counter()
    async with child("wideproof.lab.measurer", study, str(seed), *names) as process:
        assert process.stdout is not None
        reading = asyncio.create_task(process.stdout.readline())
        try:
            while True:
                done, _ = await asyncio.wait({reading}, timeout=BEAT)
                seconds = time.perf_counter() - began
                if not done:
                    yield {"state": "at work", "seconds": seconds}
                    continue
                if not reading.result():
                    break
                yield {**json.loads(reading.result()), "seconds": seconds}
                reading = asyncio.create_task(process.stdout.readline())
        finally:
            reading.cancel()
        if await process.wait() != 0:
            yield {"state": "lost", "text": "the measurement was lost: is there enough memory?"}
        else:
            yield {"state": "ended", "seconds": time.perf_counter() - began}


@functools.cache
def _every() -> dict[str, Statement]:
    return {one.name: one for key in PAPERS for one in index(key)}


@functools.cache
def listing() -> bytes:
    """Return all statements with their formulas, and what they can be sought by, as JSON."""
    rows = [described(one, whole=False) for one in _every().values()]
    found = {"study": stored()["study"], "papers": {key: paper(key) for key in PAPERS}, "statements": rows}
    return json.dumps(found, separators=(",", ":")).encode()


def described(one: Statement, *, whole: bool) -> dict[str, Any]:
    """Return one statement; as a whole with all that was measured."""
    found = stored()["statements"].get(one.name)
    row: dict[str, Any] = {
        "name": one.name, "paper": one.paper, "spoken": spoken(one), "title": one.title, "kind": one.kind,
        "role": one.role, "check": one.check, "checkable": one.checkable, "expected": one.expected.value,
        "why": one.why, "erratum": one.erratum, "says": said(one),
        "outcome": found["outcome"] if found else None, "numbers": found["numbers"] if found else "",
    }  # fmt: skip
    if whole:
        more = {"part": one.part, "network": one.network, "paper_title": paper(one.paper), "found": found}
        row |= {**more, "study": stored()["study"], "seed": stored()["seeds"][0]}
    return row
