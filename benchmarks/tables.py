"""Prove every table of a folder, one after another, as a person at the shell would: outcome, seconds by stage, memory.

    python benchmarks/tables.py FOLDER [--out results.json] [--most-bytes N] [--seconds 900]

Each table is a process of its own (`wideproof prove TABLE --json`). Results are kept after each; a run that was
interrupted goes on where it was, and tables that are done are not done again.
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
from pathlib import Path
from typing import Any

TABLES = (".csv", ".tsv", ".txt", ".npz", ".npy", ".parquet")


def one(path: Path, seconds: float, more: list[str]) -> dict[str, Any]:
    """Prove one table, with `more` options, and return what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "wideproof", "prove", str(path), "--json", "--out", f"{folder}/proof"]
        command += more
        began = time.perf_counter()
        with open(f"{folder}/out", "w+") as out, open(f"{folder}/err", "w+") as err:
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
        "start": found["start"],
        "notes": [note for note in found["notes"] if note.startswith("not proved from")],
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
    options = parser.parse_args()
    rows: dict[str, dict[str, Any]] = json.loads(options.out.read_text()) if options.out.exists() else {}
    only = set(filter(None, options.only.split(",")))
    for path in sorted(options.folder.iterdir(), key=lambda path: path.stat().st_size):
        if path.suffix not in TABLES or path.stat().st_size > options.most_bytes or (only and path.stem not in only):
            continue
        if path.stem not in rows:
            rows[path.stem] = one(path, options.seconds, options.more.split())
            options.out.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
        print(shown(path.stem, rows[path.stem]), flush=True)
    print(summary(rows))


if __name__ == "__main__":
    main()
