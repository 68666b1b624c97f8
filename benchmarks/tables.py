"""Prove every table of a folder, one after another, as a person at the shell would: outcome, seconds by stage, memory.

    python benchmarks/tables.py FOLDER [--out results.json] [--most-bytes N] [--seconds 900] [--lanes 1] [--cores 2]

Each table is a process of its own (`wideproof prove TABLE --json`). With `--lanes` several run at once, each on
`--cores` of its own. Results are kept after each; a run that was interrupted goes on where it was, and tables that are
done are not done again.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from peers.common import machine, versions, write_json

TABLES = (".csv", ".tsv", ".txt", ".npz", ".npy", ".parquet")


def one(path: Path, seconds: float, more: list[str], cores: Sequence[int] = ()) -> dict[str, Any]:
    """Prove one table, with `more` options, on these cores or on all, and return what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "wideproof", "prove", str(path), "--json", "--out", f"{folder}/proof"]
        command += more
        if cores:
            command = ["taskset", "--cpu-list", ",".join(map(str, cores)), *command]
        began = time.perf_counter()
        with Path(folder, "out").open("w+") as out, Path(folder, "err").open("w+") as err:
            child = subprocess.Popen(command, stdout=out, stderr=err)
            code, usage = _wait(child, began + seconds)
            took = time.perf_counter() - began
            out.seek(0)
            err.seek(0)
            text, said = out.read(), err.read()
    result: dict[str, Any] = {"seconds": round(took, 1), "code": code, "memory_gb": round(usage, 2)}
    try:
        found = json.loads(text)
    except ValueError:
        lines = said.strip().splitlines()
        answer = f"no answer in {seconds:.0f} s" if code is None else lines[-1] if lines else "nothing was said"
        return {**result, "outcome": "none", "sentence": answer}
    least = found["data"]["least_loss"]
    outcome = "proved" if found["proved"] else "impossible" if found["impossible"] else "not proved"
    return {
        **result,
        "outcome": "least loss" if found["proved"] and least > 0 else outcome,
        "sentence": found["headline"],
        **{key: found[key] for key in ("start", "proved_from", "followed", "alpha", "share_moved")},
        "limit": found["limit"],
        "notes": [note for note in found["notes"] if note.startswith(("not proved from", "outputs are multiplied"))],
        "rows": found["data"]["n"],
        "distinct": found["data"]["distinct"],
        "least_loss": least,
        "stages": {name: round(value, 2) for name, value in found["seconds"].items()},
        "network": found["network"],
        "preparation": found["data"]["preparation"],
        "estimate": found["estimates"][0] if found["estimates"] else None,
    }


def _wait(child: subprocess.Popen, deadline: float) -> tuple[int | None, float]:
    """Wait for a child until the deadline; return its exit code and its peak memory in GB."""
    while True:
        done, status, usage = os.wait4(child.pid, os.WNOHANG)
        if done:
            child.returncode = os.waitstatus_to_exitcode(status)
            return child.returncode, usage.ru_maxrss / 1e6
        if time.perf_counter() > deadline:
            child.kill()
            _, _, usage = os.wait4(child.pid, 0)
            return None, usage.ru_maxrss / 1e6
        time.sleep(0.05)


def shown(name: str, row: dict[str, Any]) -> str:
    estimate = row.get("estimate")
    use = "" if not estimate else f"{100 * estimate['value']:5.1f} ({100 * estimate['guess']:.1f})"
    stages = " ".join(f"{stage[:5]} {seconds:.1f}" for stage, seconds in row.get("stages", {}).items())
    return f"{name:32} {row['outcome']:11} {row['seconds']:6.1f} s {row['memory_gb']:5.2f} GB  {use:13} {stages}"


def summary(rows: dict[str, dict[str, Any]]) -> str:
    proved = [row for row in rows.values() if row["outcome"] in ("proved", "least loss")]
    seconds = [row["seconds"] for row in rows.values()]
    faster = sum(
        row["stages"].get("verifying", 0) < row["stages"].get("training", 0) + row["stages"].get("certifying", 0)
        for row in proved
    )
    return (
        f"{len(proved)} of {len(rows)} proved; median {statistics.median(seconds):.1f} s, most {max(seconds):.1f} s; "
        f"verified faster than trained and certified: {faster}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/tables.json"))
    parser.add_argument("--most-bytes", type=float, default=float("inf"), help="leave larger files out")
    parser.add_argument("--seconds", type=float, default=900)
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--more", default="", help="further options of `prove`, as in --more=--from-start")
    parser.add_argument("--lanes", type=int, default=1, help="tables at once, each on cores of its own")
    parser.add_argument("--cores", type=int, default=2, help="of a lane")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no table after so long")
    options = parser.parse_args()
    known = sorted(os.sched_getaffinity(0))
    if options.lanes > 1 and options.cores * options.lanes > len(known):
        parser.error(f"{options.lanes} lanes of {options.cores} cores each do not fit on {len(known)} cores")
    kept = json.loads(options.out.read_text()) if options.out.exists() else {}
    rows: dict[str, dict[str, Any]] = kept.get("rows", {})
    cores = options.cores if options.lanes > 1 else len(known)
    about = {"machine": {**machine(), "cores": cores}, "lanes": options.lanes, "versions": versions("wideproof", "jax")}
    only = set(filter(None, options.only.split(",")))
    paths = [path for path in options.folder.iterdir() if path.suffix in TABLES and (not only or path.stem in only)]
    paths = sorted(
        (path for path in paths if path.stat().st_size <= options.most_bytes), key=lambda p: p.stat().st_size
    )
    lanes: SimpleQueue[Sequence[int]] = SimpleQueue()
    for k in range(options.lanes):
        lanes.put(known[cores * k : cores * (k + 1)] if options.lanes > 1 else ())
    began = time.monotonic()

    def prove(path: Path) -> None:
        if path.stem not in rows and time.monotonic() - began < 60 * options.minutes:
            lane = lanes.get()
            rows[path.stem] = one(path, options.seconds, options.more.split(), lane)
            lanes.put(lane)
            write_json(options.out, {**about, "rows": dict(rows)})
        if path.stem in rows:
            print(shown(path.stem, rows[path.stem]), flush=True)

    with ThreadPoolExecutor(options.lanes) as pool:
        list(pool.map(prove, paths))
    print(summary(rows))


if __name__ == "__main__":
    main()
