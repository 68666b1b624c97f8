"""A worker at the other end of two pipes, for who has no event loop: commands go in, a thread hears the frames."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from wideproof.lab.worker import ENVIRONMENT


class Worker:
    """A process that trains. It ends with `end`, or with the process that started it.

    Parameters
    ----------
    hear
        Called with each frame, in a thread.
    lost
        Called in the same thread if the worker ends by itself, with what is known of it.
    arguments
        Of `wideproof.lab.worker`.
    folder
        For what it compiles, which other workers read, and for what it has to say about errors.
    """

    def __init__(
        self, hear: Callable[[bytes], None], lost: Callable[[str], None], arguments: Sequence[Path], folder: Path
    ):
        self._hear, self._lost, self._ended = hear, lost, False
        self._writing = threading.Lock()
        with (folder / "worker.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "wideproof.lab.worker", *map(str, arguments)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True,
                env=os.environ | ENVIRONMENT | {"JAX_COMPILATION_CACHE_DIR": str(folder / "compiled")},
            )  # fmt: skip
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def do(self, command: Mapping[str, Any]) -> None:
        """Hand over a command."""
        assert self.process.stdin is not None
        with self._writing, contextlib.suppress(OSError, ValueError):  # it has ended: `lost` says so
            self.process.stdin.write(json.dumps(dict(command)).encode() + b"\n")
            self.process.stdin.flush()

    def end(self) -> None:
        """End the worker and the proofs that it has at work."""
        self._ended = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if threading.current_thread() is not self._thread:
            self._thread.join(5)
        self._shut()

    def _shut(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        read = self.process.stdout.read
        while len(head := read(4)) == 4:
            (length,) = struct.unpack("<I", head)
            message = read(length)
            if len(message) < length:
                break
            if not self._ended:
                self._hear(message)
        code = self.process.wait()
        if not self._ended:
            self._shut()
            self._lost(f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}")
