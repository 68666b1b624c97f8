"""`python -m wideproof.lab.worker UPLOADS WORK [GIVEN TEMPORARY]`: the bench of one tab, as a process of its own.

Commands come in as lines of JSON; frames go out, each behind its length in 4 bytes, little-endian. The process ends
when its input does; then it removes TEMPORARY, for whoever made that folder has gone.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import struct
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from wideproof.lab.bench import Bench

# One thread of BLAS: matrices are small here. What one tab has compiled, the others read.
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}


def main(arguments: list[str]) -> int:
    """Serve one tab until it is closed."""
    os.nice(5)  # pages come first
    out: BinaryIO = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # nothing that a library prints may get between the frames
    from wideproof.lab.bench import Bench
    from wideproof.lab.given import Given

    lock = threading.Lock()

    def send(message: bytes) -> None:
        with lock:
            whole = memoryview(struct.pack("<I", len(message)) + message)
            while whole:
                whole = whole[out.write(whole) :]

    commands: queue.Queue[dict[str, Any] | None] = queue.Queue()
    threading.Thread(target=_listen, args=(commands,), daemon=True).start()
    given = Given.load(Path(arguments[2])) if len(arguments) > 2 else None
    bench = Bench(send, Path(arguments[0]), Path(arguments[1]), given)
    try:
        _serve(bench, commands)
    except BrokenPipeError:  # nobody listens any more
        pass
    finally:
        bench.close()
        if len(arguments) > 3:
            shutil.rmtree(arguments[3], ignore_errors=True)
    return 0


def _serve(bench: Bench, commands: queue.Queue[dict[str, Any] | None]) -> None:
    bench.hello()
    while True:
        try:
            command = commands.get(timeout=bench.wait()) if bench.wait() > 0 else commands.get_nowait()
        except queue.Empty:
            bench.turn()
            continue
        if command is None:
            return
        bench.do(command)


def _listen(commands: queue.Queue[dict[str, Any] | None]) -> None:
    for line in sys.stdin.buffer:
        command = json.loads(line)
        if command.get("do") == "move":  # of several drags only the last one counts
            waiting = []
            while not commands.empty():
                waiting.append(commands.get())
            for one in waiting:
                if one is None or one.get("do") != "move":
                    commands.put(one)
        commands.put(command)
    commands.put(None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
