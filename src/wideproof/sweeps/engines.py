"""Where tasks are carried out: in this process, in processes beside it, or on a Dask cluster of the user's own.

Every engine yields `Outcome`s as they come, in any order. A worker that dies takes its task with it; the task is tried
again, three times at most. A task that raises is reported, not tried again: it would raise again.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

from wideproof.errors import InputError, JobError
from wideproof.sweeps.task import Task, execute

TRIES = 3


@dataclass(frozen=True)
class Outcome:
    """A task with its values, or with the sentence why there are none."""

    task: Task
    values: dict[str, float] | None
    seconds: float
    error: str = ""


def in_process(tasks: Sequence[Task]) -> Iterator[Outcome]:
    """Carry tasks out here, one after another."""
    for task in tasks:
        yield _attempt(task)


def in_processes(tasks: Sequence[Task], workers: int) -> Iterator[Outcome]:
    """Carry tasks out in `workers` processes on this machine."""
    waiting = {task.digest: task for task in tasks}
    tries = dict.fromkeys(waiting, 0)
    while waiting:
        with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
            try:
                yield from _drain(pool, waiting, workers)
            except BrokenProcessPool:
                for digest in list(waiting):
                    tries[digest] += 1
                if min(tries[digest] for digest in waiting) >= TRIES:
                    raise JobError(f"a worker process died {TRIES} times in a row: is there enough memory?") from None


def on_cluster(tasks: Sequence[Task], address: str) -> Iterator[Outcome]:
    """Carry tasks out on the Dask cluster at `address`; a task whose worker dies is tried again there."""
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise InputError("a cluster needs Dask: `pip install wideproof[cluster]`") from None
    try:
        client = Client(address, timeout=10, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(f"no Dask scheduler answers at {address}: {error}") from None
    with client, client.as_current():
        futures = [client.submit(_attempt, task, key=task.digest, retries=TRIES, pure=True) for task in tasks]
        known = {task.digest: task for task in tasks}
        try:
            for future in as_completed(futures):
                if future.cancelled():  # nobody here cancels: the scheduler is gone
                    raise ConnectionError("its scheduler does not answer")
                yield future.result() if future.status == "finished" else _lost(known[future.key], future)
                future.release()
        except (OSError, TimeoutError) as error:
            raise JobError(f"the cluster at {address} went away: {error}; what is finished is kept") from None


def _attempt(task: Task) -> Outcome:
    began = time.perf_counter()
    try:
        values = execute(task)
    except Exception as error:  # a task that cannot be done must not end the others
        return Outcome(task, None, time.perf_counter() - began, f"{type(error).__name__}: {error}")
    return Outcome(task, values, time.perf_counter() - began)


def _drain(pool: ProcessPoolExecutor, waiting: dict[str, Task], workers: int) -> Iterator[Outcome]:
    """Keep every worker busy, and yield what is done; what was handed out and not done stays in `waiting`."""
    queue = iter(list(waiting.values()))
    running: set[Future[Outcome]] = set()
    while True:
        while len(running) < 2 * workers and (task := next(queue, None)) is not None:
            running.add(pool.submit(_attempt, task))
        if not running:
            return
        done, running = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            outcome = future.result()
            del waiting[outcome.task.digest]
            yield outcome


def _lost(task: Task, future: object) -> Outcome:
    return Outcome(task, None, 0.0, f"lost on the cluster {TRIES} times: {getattr(future, 'status', 'unknown')}")
