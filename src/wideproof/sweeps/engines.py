"""Where tasks are carried out: in this process, in processes beside it, or on a Dask cluster of the user's own.

In this process a CPU works at several tasks side by side, each with the numbers that it would have alone; an
accelerator trains the seeds of one network in one program.

Every engine yields `Outcome`s as they come, in any order. A worker that dies takes its task with it; the task is tried
again, three times at most. A task that raises is reported, not tried again: it would raise again.
"""

from __future__ import annotations

import dataclasses
import functools
import multiprocessing
import threading
import time
from collections.abc import Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

from wideproof.errors import InputError, JobError
from wideproof.sweeps.task import Task, Together, execute

TRIES = 3


@dataclass(frozen=True)
class Outcome:
    """A task with its values, or with the sentence why there are none."""

    task: Task
    values: dict[str, float] | None
    seconds: float
    error: str = ""
    companions: tuple[str, ...] = ()


def in_threads(tasks: Sequence[Task], threads: int) -> Generator[Outcome]:
    """Carry tasks out here, `threads` side by side; the first task of a shape runs alone of its kind: it compiles."""
    shapes: dict[str, list[Task]] = {}
    for task in tasks:
        shapes.setdefault(task.shape, []).append(task)
    given_up = threading.Event()
    pool = ThreadPoolExecutor(threads)
    attempt = functools.partial(_attempt, given_up=given_up)
    try:
        running = {pool.submit(attempt, first): others for first, *others in shapes.values()}
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                running |= {pool.submit(attempt, task): [] for task in running.pop(future)}
                yield future.result()
    finally:  # also where the caller was interrupted: nobody waits for what is not needed
        given_up.set()
        pool.shutdown(cancel_futures=True)


def in_batches(tasks: Sequence[Task], most: int = 64) -> Generator[Outcome]:
    """Carry tasks out here; up to `most` that differ in the seed only are trained in one program.

    The last bits of a run depend on how many others it is batched with, so they are finished together or not at all:
    every outcome names its companions.
    """
    families: dict[str, list[Task]] = {}
    for task in tasks:
        families.setdefault(task.kin, []).append(task)
    for family in families.values():
        for start in range(0, len(family), most):
            group = family[start : start + most]
            together = Together([task.seed for task in group]) if len(group) > 1 else None
            outcomes = [_attempt(task, together) for task in group]
            names = tuple(one.task.digest for one in outcomes if one.values is not None)
            yield from (dataclasses.replace(one, companions=names) for one in outcomes)


def in_processes(tasks: Sequence[Task], workers: int) -> Generator[Outcome]:
    """Carry tasks out in `workers` processes on this machine."""
    waiting = {task.digest: task for task in tasks}
    tries = dict.fromkeys(waiting, 0)
    while waiting:
        with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
            try:
                yield from _drain(pool, waiting, workers)
            except (KeyboardInterrupt, GeneratorExit):  # nobody waits for what is not needed
                for process in list((pool._processes or {}).values()):
                    process.kill()
                raise
            except BrokenProcessPool:
                for digest in list(waiting):
                    tries[digest] += 1
                if min(tries[digest] for digest in waiting) >= TRIES:
                    raise JobError(f"a worker process died {TRIES} times in a row: is there enough memory?") from None


def on_cluster(tasks: Sequence[Task], address: str) -> Generator[Outcome]:
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


def _attempt(task: Task, together: Together | None = None, given_up: threading.Event | None = None) -> Outcome:
    began = time.perf_counter()
    try:
        values = execute(task, together, given_up)
    except Exception as error:  # a task that cannot be done must not end the others
        return Outcome(task, None, time.perf_counter() - began, f"{type(error).__name__}: {error}")
    return Outcome(task, values, time.perf_counter() - began)


def _drain(pool: ProcessPoolExecutor, waiting: dict[str, Task], workers: int) -> Generator[Outcome]:
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
