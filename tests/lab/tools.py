"""What the tests of the lab share: a server as people start it, and the far end of its socket."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from websockets.sync.client import ClientConnection, connect

from wideproof.lab.frames import parse

PATIENCE = 120  # seconds after which a test gives up; nothing is decided by how long it took
TINY = {"data": {"name": "blobs", "n": 6}, "networks": [{"width": 16, "depth": 1}]}
T = TypeVar("T")


class Answer(NamedTuple):
    code: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


class Server:
    """`wideproof lab` as a process of its own, in a folder of its own."""

    def __init__(self, folder: Path, *arguments: str):
        self.temp, self.proofs = folder / "temp", folder / "proofs"
        self.temp.mkdir()
        command = [sys.executable, "-m", "wideproof", "lab", "--no-browser", "--folder", str(self.proofs), *arguments]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
            env=os.environ | {"TMPDIR": str(self.temp), "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        assert self.process.stdout is not None
        self.said = ""
        for line in self.process.stdout:
            self.said += line
            if "Ctrl-C" in line:
                break
        found = re.search(r"http://(\S+):(\d+)/\?token=(\S+)", self.said)
        assert found, self.said
        self.address, self.port, self.token = found[0], int(found[2]), found[3]
        self.host = f"127.0.0.1:{self.port}"
        self.cookie = f"wideproof-lab-{self.port}={self.token}"

    def request(self, method: str, path: str, body: Any = None, **headers: str | None) -> Answer:
        """Ask as the page does; a header that is `None` is left out."""
        usual = {"Host": self.host, "Cookie": self.cookie, "Origin": f"http://{self.host}"}
        sent = {name: value for name, value in {**usual, **headers}.items() if value is not None}
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            line.request(method, path, body, sent)
            answer = line.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            line.close()

    def get(self, path: str, **headers: str | None) -> Answer:
        return self.request("GET", path, **headers)

    def tab(self, **options: Any) -> Tab:
        return Tab(self, **options)

    def workers(self) -> list[int]:
        """The processes that the server has started, and those that they have."""
        return descendants(self.process.pid)

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate()


class Tab:
    """What a page does with its socket."""

    def __init__(self, server: Server, *, origin: str | None = "own", cookie: str | None = "own", host: str = ""):
        headers = {} if cookie is None else {"Cookie": server.cookie if cookie == "own" else cookie}
        line = connect(
            f"ws://{host or server.host}/socket",
            origin=f"http://{server.host}" if origin == "own" else origin,  # pyright: ignore[reportArgumentType]
            additional_headers=headers, open_timeout=PATIENCE, max_size=2**26, proxy=None,
        )  # fmt: skip
        self._open = contextlib.ExitStack()
        self.socket: ClientConnection = self._open.enter_context(line)

    def send(self, **command: Any) -> None:
        self.socket.send(json.dumps(command))

    def hear(self, *kinds: str) -> dict[str, Any]:
        """Return the next message of one of these kinds."""
        seen = []
        for _ in range(10_000):
            message = self.socket.recv(timeout=PATIENCE)
            if isinstance(message, str):
                fields = json.loads(message)
            else:
                kind, fields, arrays = parse(message)
                fields = {"kind": kind, **fields, "arrays": arrays}
            seen.append(fields["kind"])
            if fields["kind"] in kinds:
                return fields
        raise AssertionError(f"none of {kinds} in 10 000 messages, but {set(seen)}")

    def close(self) -> None:
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextlib.contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[Server]:
    server = Server(folder, *arguments)
    try:
        yield server
    finally:
        server.stop()


def until(check: Callable[[], T | None], what: str) -> T:
    """Ask again and again until there is an answer; whoever waits in vain fails."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = check()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited in vain: {what}")


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not asked how does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def descendants(pid: int) -> list[int]:
    """The processes below a process that run."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and alive(int(entry.name)):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError, IndexError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found, below = [], [pid]
    while below:
        below = [child for child, parent in parents.items() if parent in below]
        found += below
    return found


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except (FileNotFoundError, ProcessLookupError):
        return ""
