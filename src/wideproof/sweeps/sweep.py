"""Run a study: what is finished is kept, what is new is done, and the results are one labelled data set."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import xarray as xr

from wideproof.answers import Answer
from wideproof.errors import InputError
from wideproof.progress import Progress, Watch, shown
from wideproof.resources import cores
from wideproof.sweeps.bisection import decisive
from wideproof.sweeps.engines import Outcome, in_batches, in_processes, in_threads, on_cluster
from wideproof.sweeps.store import Store
from wideproof.sweeps.study import Study, require_parts
from wideproof.sweeps.task import Task, tasks_of


@dataclass(frozen=True)
class Sweep:
    """The result of a sweep.

    Attributes
    ----------
    study
        The study.
    folder
        The folder of the sweep.
    results
        The measured values; missing where a task is not done.
    kept
        Number of tasks that were done before.
    done
        Number of tasks that were done now.
    failed
        The tasks that failed, with their errors.
    seconds
        Time that the sweep took.
    """

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

    @property
    def count(self) -> int:
        """How many tasks there are: by bisection, those that were needed."""
        ended = self.kept + self.done + len(self.failed)
        return self.study.count if self.study.bisect is None else ended


@shown
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
    """Run the unfinished tasks of a study, and assemble the results.

    Parameters
    ----------
    study
        The result of `read_study`.
    folder
        A new folder, or that of an earlier run of this study; finished tasks are not run again.
    workers
        Number of processes on this machine; with 1, the tasks run in this process.
    threads
        Number of tasks that run in parallel in this process; by default the number of cores.
    batch
        Whether this process trains the seeds of one network in one program. By default only on accelerators: on a CPU
        threads were measured to be faster, and give each run the same bits as when it runs alone.
    cluster
        The address of a Dask scheduler, as in `tcp://host:8786`.
    progress
        Callback; receives a `Progress` after each task.

    Returns
    -------
    Sweep
        The results, with the tasks that failed.
    """
    began = time.perf_counter()
    store, tasks = Store(folder, study), tasks_of(study)
    run = functools.partial(_engine, workers=workers, threads=threads, batch=batch, cluster=cluster)
    if study.bisect is None:
        kept, done, failed = _carry_out(store, tasks, run, progress)
    else:
        kept, done, failed = _by_bisection(store, study, tasks, run, progress)
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
    """Run one of several parts of a study, as one of many jobs on a cluster; `sweep` gathers the results.

    Parts may run in any order, at the same time, and repeatedly: finished tasks are skipped, and every result is
    written whole.

    Parameters
    ----------
    study
        The result of `read_study`.
    folder
        The folder of the sweep, the same for all parts.
    number
        Number of this part, counted from 1.
    parts
        Number of parts.
    threads
        Number of tasks that run in parallel, as in `sweep`.
    batch
        Whether the seeds of one network are trained in one program, as in `sweep`.
    progress
        Callback; receives a `Progress` after each task.

    Returns
    -------
    Part
        How many tasks were done, and those that failed.
    """
    require_parts(study)
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


def _by_bisection(
    store: Store,
    study: Study,
    tasks: Sequence[Task],
    engine: Callable[[list[Task]], Generator[Outcome]],
    progress: Watch | None,
) -> tuple[int, int, tuple[Outcome, ...]]:
    """Do in rounds what decides where enough of the seeds succeed; nothing more once a task has failed."""
    kept, done, failed = len(store.finished(tasks)), 0, ()
    while not failed and (asked := decisive(study, tasks, store.finished(tasks))):
        _, now, failed = _carry_out(store, asked, engine, progress)
        done += now
    return kept, done, failed


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
