"""Seconds by stage of `wideproof prove TABLE`: on the CPU and on the accelerator, with compiled programs new and kept.

    python benchmarks/stages.py TABLE [--repeat 3] [--out results.json]

Each proof is a process of its own. The first on each device compiles everything; the others find its programs in a
cache folder of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

from tables import one  # pyright: ignore[reportMissingImports]

STAGES = ("loading", "choosing", "training", "certifying", "verifying", "comparing")


def main() -> None:
    parser = argparse.ArgumentParser(description="Seconds by stage of a proof, on every device there is.")
    parser.add_argument("table", type=Path)
    parser.add_argument("--repeat", type=int, default=3, help="proofs with kept programs")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seconds", type=float, default=600, help="most for one proof")
    given = parser.parse_args()
    found: dict[str, Any] = {"table": given.table.name, "runs": []}
    print(f"{'device':8} {'programs':8} " + " ".join(f"{name:>10}" for name in (*STAGES, "the rest", "all")))
    for device, platforms in {"cpu": "cpu", "default": ""}.items():
        with tempfile.TemporaryDirectory() as cache:
            os.environ.pop("JAX_COMPILATION_CACHE_DIR", None)
            os.environ |= {"WIDEPROOF_CACHE": cache, "JAX_PLATFORMS": platforms}
            rows = [one(given.table, given.seconds, []) for _ in range(1 + given.repeat)]
        for programs, taken in (("new", rows[:1]), ("kept", rows[1:])):
            stages = {name: statistics.median(row.get("stages", {}).get(name, 0.0) for row in taken) for name in STAGES}
            total = statistics.median(row["seconds"] for row in taken)
            rest = total - sum(stages.values())  # Python's start, imports, and the report
            numbers = (*stages.values(), rest, total)
            print(f"{device:8} {programs:8} " + " ".join(f"{value:10.2f}" for value in numbers), flush=True)
            outcome = sorted({row["outcome"] for row in taken})
            said = {"device": device, "programs": programs, "stages": stages, "rest": rest, "seconds": total}
            found["runs"].append({**said, "outcome": outcome, "sentence": taken[0]["sentence"]})
    for row in found["runs"]:
        print(f"{row['device']}, {row['programs']}: {', '.join(row['outcome'])}: {row['sentence']}")
    if given.out is not None:
        given.out.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
