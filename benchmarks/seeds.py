"""32 seeds of the tiny case in one call, against one `train` after another, on whatever device JAX finds.

python benchmarks/seeds.py [--json FILE] [--steps 2000] [--count 32]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import jax
import numpy as np

from training import problem, seeds
from wideproof.training import Recipe, train, train_many
from wideproof.training.loop import compiled


def same_numbers(precision: str, count: int) -> float:
    """The largest relative difference of the loss curves, batched against one by one."""
    network, data = problem(20, 64, 2, "softplus")
    recipe = Recipe(step_size=1e-3, steps=200, precision=precision)
    together = train_many(network, data, recipe, seeds=range(count), how="batch")
    worst = 0.0
    for run in together:
        alone = train(network, data, run.recipe)
        worst = max(worst, float(np.max(np.abs(run.records["loss"] / alone.records["loss"] - 1))))
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--count", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    device = jax.devices()[0].device_kind
    print(f"{device}, jax {jax.__version__}: {options.count} seeds, {options.steps} steps, n 20, width 64, depth 2")
    result: dict = {"device": device, "jax": jax.__version__, "steps": options.steps, "count": options.count}
    for precision in ("float32", "float64"):
        compiled.cache_clear()
        times = seeds(precision, options.rounds, options.steps, options.count)
        programs = compiled.cache_info().currsize
        difference = same_numbers(precision, 8)
        result[precision] = {"seconds": times, "programs": programs, "largest_difference": difference}
        shown = ", ".join(f"{name} {value:.3f} s ({times['one by one'] / value:.2f}x)" for name, value in times.items())
        print(f"{precision}: {shown}; programs {programs}; largest relative difference {difference:.1e}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
