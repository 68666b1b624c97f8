"""One job over several processes: start them here, or let a cluster's launcher start them, and join them with JAX.

`launch` runs a command of this program as several processes on this machine and watches them: when one dies, the
others are stopped and one sentence says so. On a cluster every process calls `join()` itself and `jax.distributed`
finds the others through the launcher's environment.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

import jax
from jax._src.distributed import global_state
from jax.experimental import multihost_utils

from wideproof.errors import InputError, JobError

PLACE = "WIDEPROOF_PROCESS"  # "index/count@address" in the environment of every process that `launch` starts
# Seconds after which the others notice a process that stopped answering.
PATIENCE = 20


def started_here() -> bool:
    """Return whether `launch` started this process."""
    return PLACE in os.environ


def join() -> bool:
    """Join the job that this process belongs to, if there is one; return whether this process is the one that speaks.

    Must be called before anything is computed. Without `launch` it looks for a cluster launcher (SLURM, Open MPI,
    Kubernetes and others that JAX knows) only if the environment variable `WIDEPROOF_CLUSTER` is set.
    """
    place = os.environ.get(PLACE)
    if place is None and "WIDEPROOF_CLUSTER" not in os.environ:
        return True
    # Otherwise JAX ends this process with a stack trace when another one dies; so the computation fails, and says why.
    jax.config.update("jax_enable_recoverability", True)
    try:
        if place is None:
            jax.distributed.initialize(heartbeat_timeout_seconds=PATIENCE)
        else:
            position, address = place.split("@")
            index, count = (int(part) for part in position.split("/"))
            jax.distributed.initialize(
                address, count, index, initialization_timeout=60, heartbeat_timeout_seconds=PATIENCE
            )
    except (RuntimeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise JobError(f"this process could not join its job ({reason}): are all the others running?") from error
    return jax.process_index() == 0


def leave() -> None:
    """Wait for the others at the end, so that none is left talking to a process that has gone.

    The first process answers for all of them, so it leaves last: one that says goodbye to nobody is aborted by JAX. To
    ask who lives is answered when all the others have asked as well, or have left.
    """
    if jax.process_count() == 1:
        return
    multihost_utils.sync_global_devices("wideproof: the job is done")
    if jax.process_index() > 0:
        jax.distributed.shutdown()
        return
    assert global_state.client is not None
    with contextlib.suppress(jax.errors.JaxRuntimeError):
        global_state.client.get_live_nodes(list(range(jax.process_count())))


def launch(arguments: Sequence[str], processes: int) -> int:
    """Run `python -m wideproof ARGUMENTS` as `processes` processes on this machine; return the exit code.

    The first process speaks for all.
    """
    if processes < 2:
        raise InputError(f"a job over processes needs at least 2 of them, got {processes}")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [sys.executable, "-m", "wideproof", *arguments]
    running = []
    for index in range(processes):
        # The second setting keeps remarks of JAX's own machinery out of the output.
        environment = os.environ | {PLACE: f"{index}/{processes}@{address}", "TF_CPP_MIN_LOG_LEVEL": "3"}
        quiet = None if index == 0 else subprocess.DEVNULL
        running.append(subprocess.Popen(command, env=environment, stdout=quiet, stderr=quiet))
    try:
        return watch(running)
    finally:
        stop(running)


def watch(running: Sequence[subprocess.Popen[bytes]]) -> int:
    """Wait until all processes have ended well; raise as soon as one has died."""
    while True:
        codes = [process.poll() for process in running]
        for index, code in enumerate(codes):
            # Exit codes 1 and 2 are answers, and all processes come to the same one.
            if code is not None and not 0 <= code <= 2:
                raise JobError(
                    f"process {index} of {len(running)} ended ({_how(code)}), so the job cannot be finished: the other "
                    "processes were stopped and nothing was written; start it again, with fewer if memory ran out"
                )
        if all(code is not None for code in codes):
            return max(code for code in codes if code is not None)
        time.sleep(0.05)


def stop(running: Sequence[subprocess.Popen[bytes]]) -> None:
    """End every process that still runs."""
    for process in running:
        if process.poll() is None:
            process.kill()
    for process in running:
        process.wait()


def _how(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"killed by {signal.Signals(-code).name}"
