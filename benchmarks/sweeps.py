"""What a sweep costs besides its tasks, and what a second Dask worker brings.

    python benchmarks/sweeps.py [--tasks 2000] [--larger 80] [--out FOLDER]

1. `--tasks` small tasks of one shape (n 8, width 16, 50 steps), in this process and on a cluster with one worker:
   milliseconds a task of everything that is not the task itself (store, files, scheduling, assembling), and how many
   programs were compiled by the first task and by all the others.
2. `--larger` tasks of about 0.15 s on clusters of one and of two workers with one thread each: tasks per
   second, after workers were started and programs compiled. One and two take turns three times, and the medians count.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

import jax
from distributed import Client, LocalCluster
from peers.common import RESULTS, machine, versions, write_json

from wideproof import Progress
from wideproof.sweeps import Study, sweep

COMPILED = "/jax/core/compile/backend_compile_duration"


def study(tasks: int, first: int = 0, width: int = 16, steps: int = 50) -> Study:
    return Study.model_validate(
        {
            "name": "cost", "measures": ["loss", "distance"],
            "data": {"source": "sphere", "n": 8, "d": 4, "separation": 0.2},
            "network": {"name": "fully-connected", "width": width, "depth": 2},
            "training": {"steps": steps}, "axes": {"seed": list(range(first, first + tasks))},
        }
    )  # fmt: skip


def local(workers: int) -> Any:
    """Return a cluster of processes with one thread each."""
    return LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0")


def timed(what: Study, cluster: str | None = None) -> tuple[float, float]:
    """Return the seconds of a sweep, and those of its tasks, which run one after another on each worker."""
    inside: list[float] = []

    def count(p: Progress) -> None:
        inside.append(p.latest.seconds if p.latest else 0.0)

    with tempfile.TemporaryDirectory() as folder:
        done = sweep(what, Path(folder) / "store", threads=1, cluster=cluster, progress=count)
    if done.failed:
        raise SystemExit(f"{len(done.failed)} tasks failed: {done.failed[0].error}")
    return done.seconds, sum(inside)


def overhead(tasks: int) -> dict[str, Any]:
    compiled: list[float] = []

    def note(event: str, duration_secs: float, **_: str | int) -> None:
        if event == COMPILED:
            compiled.append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(note)
    timed(study(1))
    first = len(compiled)
    found = {"tasks": tasks, "compiled by the first": first, "here": besides(tasks, None)}
    found["compiled by the others"] = len(compiled) - first
    with local(1) as cluster:
        timed(study(1), cluster.scheduler_address)
        found["cluster"] = besides(tasks, cluster.scheduler_address)
    return found


def besides(tasks: int, cluster: str | None) -> dict[str, float]:
    """Return milliseconds a task: inside it, and besides it."""
    seconds, inside = timed(study(tasks, first=1), cluster)
    return {"seconds": seconds, "task_ms": 1e3 * inside / tasks, "overhead_ms": 1e3 * (seconds - inside) / tasks}


def throughput(tasks: int, workers: int) -> dict[str, Any]:
    size = {"width": 64, "steps": 8000}
    with local(workers) as cluster:
        with Client(cluster) as client:
            client.wait_for_workers(workers)
        timed(study(4 * workers, **size), cluster.scheduler_address)
        seconds, inside = timed(study(tasks, first=1000, **size), cluster.scheduler_address)
    return {
        "workers": workers,
        "tasks": tasks,
        "seconds": seconds,
        "per_second": tasks / seconds,
        "task_s": inside / tasks,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--larger", type=int, default=80)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    cost = overhead(options.tasks)
    print(f"programs compiled by the first task {cost['compiled by the first']}, "
          f"by {options.tasks} others {cost['compiled by the others']}")  # fmt: skip
    for where in ("here", "cluster"):
        c = cost[where]
        print(
            f"{where:8} {c['seconds']:6.1f} s  task {c['task_ms']:6.2f} ms  overhead {c['overhead_ms']:6.2f} ms a task"
        )
    rows = [throughput(options.larger, workers) for _ in range(3) for workers in (1, 2)]
    for r in rows:
        print(f"{r['workers']} workers {r['per_second']:6.2f} tasks/s  task {r['task_s']:.3f} s")
    one, two = (statistics.median(r["per_second"] for r in rows if r["workers"] == workers) for workers in (1, 2))
    ratio = two / one
    print(f"two workers against one: {ratio:.2f}")
    about = {"machine": machine(), "versions": versions("wideproof", "jax", "distributed", "zarr", "xarray")}
    write_json(options.out / "sweeps.json", {**about, "overhead": cost, "throughput": rows, "ratio": ratio})


if __name__ == "__main__":
    main()
