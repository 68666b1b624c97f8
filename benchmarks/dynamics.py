"""Predicted and real course of gradient descent, for all seven networks, against the width.

    python benchmarks/dynamics.py [--largest 4096] [--json FILE]

The Gram matrix of the start predicts the loss of discrete gradient descent on the squared loss. `deviation` is the
largest relative deviation of the real loss from the predicted one until it has fallen to a tenth, the mean over
seeds; its slope in the width is a log-log fit. For the Elman network the late rate of the log loss is set against
2 log(1 - eta lambda_min).
"""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from wideproof.data import AnyDataset, load, prepare
from wideproof.kernels import compare, gram, predict, spectrum
from wideproof.kernels.comparison import Comparison
from wideproof.networks import Network, build
from wideproof.training import Recipe, train

WIDTHS = (256, 512, 1024, 2048, 4096)
SEEDS = {256: 8, 512: 6, 1024: 4, 2048: 3, 4096: 2}
VECTORS = "sphere:n=10,d=10,separation=0.5"
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "fully-connected": (VECTORS, "unit", {"depth": 3, "activation": "tanh"}),
    "residual": (VECTORS, "unit", {"depth": 3, "activation": "softplus"}),
    "conv-residual": ("digits-images", "unit", {"depth": 2, "activation": "tanh"}),
    "deep-relu": (VECTORS, "unit", {"depth": 3}),
    "residual-relu": (VECTORS, "unit", {"depth": 2}),
    "elman-rnn": ("sequences:n=4,length=4,features=6,separation=0.5", "", {}),
    "deep-rnn": ("sequences:n=4,length=4,features=6,separation=0.5", "", {"depth": 2}),
}


def problem(name: str) -> tuple[AnyDataset, dict[str, Any]]:
    source, steps, options = CASES[name]
    data = load(source, classes=(0, 1), limit=6) if source == "digits-images" else load(source)
    return prepare(data, steps) if steps else data, options


def course(network: Network, data: AnyDataset, seed: int, decades: float) -> Comparison:
    """Run gradient descent until the loss has fallen by `decades`, and compare it with its prediction."""
    params = network.init(seed)
    found = gram(network, params, data.x)
    eigen = spectrum(found, method="dense", vectors=True)
    with jax.enable_x64(True):
        start, targets = (np.asarray(network.scored(jnp.asarray(v))) for v in (network(params, data.x), data.y))
    step = 0.5 / eigen.largest.value
    predicted = predict(found, targets.ravel(), start.ravel(), step, eigen=eigen)
    target = float(predicted.loss(0)) * 10**-decades
    run = train(network, data, Recipe(step_size=step, steps=3000, target_loss=target, seed=seed, record_every=1))
    return compare(predicted, run.records["loss"], run.steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=4096)
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows = []
    for name in given.cases:
        data, options = problem(name)
        widths, means = [w for w in WIDTHS if w <= given.largest], []
        for width in widths:
            network = build(name, data.input_shape, data.target_shape, width=width, **options)
            found = [course(network, data, seed, 1.1).first_decade for seed in range(SEEDS[width])]
            means.append(float(np.mean(found)))
            rows.append({"network": name, "width": width, "deviation": means[-1], "largest": max(found)})
            print(f"{name:16s} width {width:5d}: deviation {means[-1]:.4f} (largest {max(found):.4f})", flush=True)
        if len(widths) > 1:
            slope = float(np.polyfit(np.log(widths), np.log(means), 1)[0])
            rows.append({"network": name, "slope": slope})
            print(f"{name:16s} slope of the deviation in the width: {slope:.2f}", flush=True)
    if "elman-rnn" in given.cases:
        data, options = problem("elman-rnn")
        network = build("elman-rnn", data.input_shape, data.target_shape, width=given.largest, **options)
        for seed in range(2):
            rate = course(network, data, seed, 10)
            rows.append(
                {"network": "elman-rnn", "width": given.largest, "rate": rate.rate, "predicted": rate.slowest_rate}
            )
            print(f"elman-rnn: late rate {rate.rate:.5f} per step, 2 log(1 - eta lambda_min) {rate.slowest_rate:.5f}, "
                  f"ratio {rate.rate / rate.slowest_rate:.3f}", flush=True)  # fmt: skip
    if given.json:
        versions = {"jax": jax.__version__, "numpy": np.__version__, "python": platform.python_version()}
        given.json.write_text(json.dumps({"versions": versions, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
