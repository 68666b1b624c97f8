"""Seeds of one network in a sweep: one after another, side by side in threads, batched in one program.

    python benchmarks/sweep_batches.py [--seeds 32] [--widths 64 256 1024] [--out FOLDER]

Prints seconds of whole sweeps (store and measures included) after one sweep that compiles, the largest relative
difference between batched values and those of single runs, and whether a batched sweep repeated gives the same bits.
`sweep` batches on accelerators and takes threads on CPUs; this is where that choice comes from.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
from peers.common import RESULTS, machine, versions, write_json

from wideproof.resources import cores
from wideproof.sweeps import Study, Sweep, sweep

STEPS = 2000


def study(width: int, seeds: int, first: int) -> Study:
    return Study.model_validate(
        {
            "name": "seeds", "measures": ["loss", "distance", "lambda_min"],
            "data": {"source": "sphere", "n": 20, "d": 10, "separation": 0.3},
            "network": {"name": "fully-connected", "width": width, "depth": 2},
            "training": {"steps": STEPS}, "axes": {"seed": list(range(first, first + seeds))},
        }
    )  # fmt: skip


def done(width: int, seeds: int, first: int, options: dict[str, Any]) -> Sweep:
    with tempfile.TemporaryDirectory() as folder:
        return sweep(study(width, seeds, first), Path(folder) / "store", **options)


def row(width: int, seeds: int) -> dict[str, Any]:
    ways: dict[str, dict[str, Any]] = {
        "one by one": {"threads": 1, "batch": False}, "side by side": {"threads": cores(), "batch": False},
        "batched": {"batch": True},
    }  # fmt: skip
    results: dict[str, Sweep] = {}
    found: dict[str, Any] = {"width": width, "seeds": seeds}
    for name, options in ways.items():
        done(width, seeds, 1000, options)
        results[name] = done(width, seeds, 0, options)
        found[name] = results[name].seconds
    again = done(width, seeds, 0, ways["batched"]).results
    alone, together = results["one by one"].results, results["batched"].results
    found["difference"] = max(float(np.max(np.abs(together[q] / alone[q] - 1))) for q in alone.data_vars)
    found["same bits again"] = again.identical(together)
    found["threads same bits"] = results["side by side"].results.identical(alone)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=32)
    parser.add_argument("--widths", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    rows = []
    for width in options.widths:
        rows.append(row(width, options.seeds))
        print(" ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in rows[-1].items()), flush=True)
    name = jax.devices()[0].device_kind.split()[-1].lower()
    about = {"machine": machine(), "device": jax.devices()[0].device_kind, "versions": versions("jax"), "steps": STEPS}
    write_json(options.out / f"sweep-batches-{name}.json", {**about, "rows": rows})


if __name__ == "__main__":
    main()
