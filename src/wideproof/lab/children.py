"""Processes that work for one request: few at a time, each with a time limit, and ended when the request ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator

from starlette.requests import Request

from wideproof.errors import InputError, JobError

LINE = 32 << 20  # bytes of one line, or of one answer


class BusyError(InputError):
    """As many are at work as may be."""


class Places:
    """How many may be at work at once."""

    def __init__(self, most: int, what: str):
        self.most, self.what, self.taken = most, what, 0

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        """Take a place, or say that there is none."""
        if self.taken >= self.most:
            raise BusyError(f"{self.most} {self.what} at work already: wait for one of them, or stop it")
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1


@contextlib.asynccontextmanager
async def child(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Give `python -m ARGUMENTS` with its output in a pipe; whatever is left of it is killed at the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL, start_new_session=True, limit=LINE,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def output_of(request: Request, seconds: float, *arguments: str) -> tuple[int, bytes]:
    """Return exit code and output of `python -m ARGUMENTS`; raise where it takes too long or nobody waits any more."""
    async with child(*arguments) as process:
        assert process.stdout is not None
        reading = asyncio.create_task(_read(process.stdout))
        leaving = asyncio.create_task(_left(request))
        try:
            done, _ = await asyncio.wait({reading, leaving}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if reading in done:
                return await process.wait(), reading.result()
            if leaving in done:
                raise JobError("the answer is no longer needed")
            raise JobError(f"it was stopped after {seconds:.0f} seconds")
        finally:
            for task in (reading, leaving):
                task.cancel()


async def _read(stream: asyncio.StreamReader) -> bytes:
    parts, size = [], 0
    while part := await stream.read(1 << 16):
        parts.append(part)
        size += len(part)
        if size > LINE:
            raise JobError("its answer is too long")
    return b"".join(parts)


async def _left(request: Request) -> None:
    """Wait until the page has gone; the request's body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
