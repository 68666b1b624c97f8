"""Run a study: what is finished is kept, what is new is done, and the results are one labelled data set."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import xarray as xr

from wideproof.answers import Answer
from wideproof.errors import InputError
from wideproof.progress import Progress, Watch
from wideproof.resources import cores
from wideproof.sweeps.engines import Outcome, in_batches, in_processes, in_threads, on_cluster
from wideproof.sweeps.store import Store
from wideproof.sweeps.study import Study
from wideproof.sweeps.task import Task, tasks_of


@dataclass(frozen=True)
class Sweep:
    """A sweep that ended: its results, how many tasks were done before and now, and those that failed."""

    study: Study
    folder: Path
    results: xr.Dataset
    kept: int
    done: int
    failed: tuple[Outcome, ...]
    seconds: float

    @property
    def answer(self) -> Answer:
        """Whether every task was done."""
        return Answer.of(not self.failed)


def sweep(
    study: Study,
    folder: str | Path,
    *,
    workers: int = 1,
    threads: int | None = None,
    batch: bool | None = None,
    cluster: str | None = None,
    progress: Watch | None = None,
) -> Sweep:
    """Carry out the tasks of a study that are not finished yet, and assemble the results.

    Parameters
    ----------
    folder
        A new one, or one of an earlier run of this study; finished tasks are never run again.
    workers
        Processes on this machine; 1 works here.
    threads
        Tasks side by side in this process; as many as there are cores by default.
    batch
        Whether this process trains the seeds of one network in one program; by default on accelerators only, since on a
        CPU threads were measured to be faster, and give each run the bits that it has alone.
    cluster
        The address of a Dask scheduler, as in `tcp://host:8786`.
    progress
        Called after each task.
    """
    began = time.perf_counter()
    store, tasks = Store(folder, study), tasks_of(study)
    kept, done, failed = _carry_out(
        store, tasks, lambda left: _engine(left, workers, threads, batch, cluster), progress
    )  # fmt: skip
    results = store.assemble(tasks)
    return Sweep(study, Path(folder), results, kept, done, failed, time.perf_counter() - began)


@dataclass(frozen=True)
class Part:
    """A part of a sweep that ended: how many of its tasks were done before and now, and those that failed."""

    kept: int
    done: int
    failed: tuple[Outcome, ...]
    seconds: float

    @property
    def answer(self) -> Answer:
        """Whether every task was done."""
        return Answer.of(not self.failed)


def sweep_part(
    study: Study,
    folder: str | Path,
    number: int,
    parts: int,
    *,
    threads: int | None = None,
    batch: bool | None = None,
    progress: Watch | None = None,
) -> Part:
    """Carry out one of several parts of a study, as one job of many on a cluster; `sweep` gathers the results.

    Parts may run in any order, at the same time, and again: what is finished is skipped, each result written whole.

    Parameters
    ----------
    folder
        The folder of the sweep, the same for all parts.
    number, parts
        Which one, from 1, of how many.
    threads, batch, progress
        As for `sweep`.
    """
    if not 1 <= number <= parts:
        raise InputError(f"parts are numbered from 1 to how many there are, as in 3/10, got {number}/{parts}")
    began = time.perf_counter()
    store, tasks = Store(folder, study, shared=True), part_of(tasks_of(study), number, parts)
    kept, done, failed = _carry_out(store, tasks, lambda left: _engine(left, 1, threads, batch, None), progress)
    return Part(kept, done, failed, time.perf_counter() - began)


def part_of(tasks: Sequence[Task], number: int, parts: int) -> list[Task]:
    """Return neighbours, which have programs in common, as many in every part as in any other, or one more.

    >>> [part_of("abcdefg", k, 3) for k in (1, 2, 3)]
    [['a', 'b'], ['c', 'd'], ['e', 'f', 'g']]
    """
    return list(tasks[len(tasks) * (number - 1) // parts : len(tasks) * number // parts])


def _carry_out(
    store: Store,
    tasks: Sequence[Task],
    engine: Callable[[list[Task]], Generator[Outcome]],
    progress: Watch | None,
) -> tuple[int, int, tuple[Outcome, ...]]:
    """Do what is not done, keep it, and return how many tasks were kept and done, and those that failed."""
    began = time.perf_counter()
    finished = store.finished(tasks)
    outcomes = engine([task for task in tasks if task.digest not in finished])
    failed: list[Outcome] = []
    done = 0

    def note(ended: bool = False) -> None:
        store.note(len(finished) + done, [one.error for one in failed], len(tasks), ended=ended)

    note()
    with contextlib.closing(outcomes), contextlib.ExitStack() as ending:
        ending.callback(note, ended=True)
        for outcome in outcomes:
            if outcome.values is None:
                failed.append(outcome)
            else:
                store.keep(outcome.task, outcome.values, outcome.seconds, outcome.companions)
                done += 1
            note()
            if progress is not None:
                rate = (done + len(failed)) / (time.perf_counter() - began)
                text = f"{rate:.2g} tasks/s" + (f", {len(failed)} failed" if failed else "")
                ended = len(finished) + done + len(failed)
                progress(Progress("sweeping", ended, len(tasks), text, outcome))
    return len(finished), done, tuple(failed)


def _engine(
    tasks: list[Task], workers: int, threads: int | None, batch: bool | None, cluster: str | None
) -> Generator[Outcome]:
    if cluster is not None and tasks:
        return on_cluster(tasks, cluster)
    if workers > 1:
        return in_processes(tasks, workers)
    if batch if batch is not None else jax.default_backend() != "cpu":
        return in_batches(tasks)
    return in_threads(tasks, threads or cores())
