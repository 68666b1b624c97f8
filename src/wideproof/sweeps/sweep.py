"""Run a study: what is finished is kept, what is new is done, and the results are one labelled data set."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import jax
import xarray as xr

from wideproof.sweeps.engines import Outcome, in_batches, in_processes, in_threads, on_cluster
from wideproof.sweeps.store import Store
from wideproof.sweeps.study import Study
from wideproof.sweeps.task import Task, tasks_of
from wideproof.threads import cores


class Progress(NamedTuple):
    """How far a sweep is."""

    done: int
    failed: int
    total: int
    rate: float
    last: Outcome | None


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


def sweep(
    study: Study,
    folder: str | Path,
    *,
    workers: int = 1,
    threads: int | None = None,
    batch: bool | None = None,
    cluster: str | None = None,
    progress: Callable[[Progress], None] | None = None,
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
    finished = store.finished(tasks)
    left = [task for task in tasks if task.digest not in finished]
    outcomes = _engine(left, workers, threads, batch, cluster)
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
                progress(Progress(len(finished) + done, len(failed), len(tasks), rate, outcome))
    results = store.assemble(tasks)
    return Sweep(study, Path(folder), results, len(finished), done, tuple(failed), time.perf_counter() - began)


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
