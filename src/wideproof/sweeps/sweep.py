"""Run a study: what is finished is kept, what is new is done, and the results are one labelled data set."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import xarray as xr

from wideproof.sweeps.engines import Outcome, in_process, in_processes, on_cluster
from wideproof.sweeps.store import Store
from wideproof.sweeps.study import Study
from wideproof.sweeps.task import tasks_of


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
    cluster: str | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Sweep:
    """Carry out the tasks of a study that are not finished yet, and assemble the results.

    Parameters
    ----------
    folder : a new one, or one of an earlier run of this study; finished tasks are never run again.
    workers : processes on this machine; 1 works here.
    cluster : the address of a Dask scheduler, as in `tcp://host:8786`.
    progress : called after each task.
    """
    began = time.perf_counter()
    store, tasks = Store(folder, study), tasks_of(study)
    finished = store.finished(tasks)
    left = [task for task in tasks if task.digest not in finished]
    if cluster is not None:
        outcomes = on_cluster(left, cluster)
    else:
        outcomes = in_process(left) if workers == 1 else in_processes(left, workers)
    failed: list[Outcome] = []
    done = 0
    for outcome in outcomes if left else ():
        if outcome.values is None:
            failed.append(outcome)
        else:
            store.keep(outcome.task, outcome.values, outcome.seconds)
            done += 1
        if progress is not None:
            rate = (done + len(failed)) / (time.perf_counter() - began)
            progress(Progress(len(finished) + done, len(failed), len(tasks), rate, outcome))
    results = store.assemble(tasks)
    return Sweep(study, Path(folder), results, len(finished), done, tuple(failed), time.perf_counter() - began)
