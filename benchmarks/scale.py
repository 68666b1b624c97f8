"""Infinitely wide networks on a GPU: images by the tens of thousands, exactly.

    python benchmarks/scale.py MNIST.npz [--rounds 3] [--search] [--largest 100000] [--json results.json]

The file holds `x_train`, `y_train`, `x_test`, `y_test`. For every setting: seconds of the first fit (it compiles), of
the best warm one with the ridge chosen by leaving examples out, and of the predictions; errors on the test images; the
error that examples left out have, by which a setting can be chosen without looking at the test images. `--search` has
`NTKClassifierCV` choose depth and activation so, in one call. `--largest` adds shifted images up to so many.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import wideproof as wp

SETTINGS: tuple[dict[str, Any], ...] = (
    *({"depth": depth, "activation": "relu"} for depth in (1, 2, 3, 4, 5)),
    {"depth": 3, "activation": "erf"},
    {"depth": 3, "activation": "gelu"},
)  # fmt: skip


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    found = run()
    return found, time.perf_counter() - began


def peak() -> float:
    """Return the most bytes that the device has held, in GB."""
    return (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0) / 1e9


def measure(setting: dict[str, Any], x: Any, y: Any, new: Any, right: Any, rounds: int) -> dict[str, Any]:
    def fit() -> wp.NTKClassifier:
        return wp.NTKClassifier(preparation=None, bias=0.0, **setting).fit(x, y)

    model, first = timed(fit)
    answers, first_answers = timed(lambda: model.predict(new))
    fits, predictions = [first] if rounds == 0 else [], [first_answers] if rounds == 0 else []
    for _ in range(rounds):
        del model
        model, seconds = timed(fit)
        fits.append(seconds)
        answers, seconds = timed(lambda: model.predict(new))  # noqa: B023
        predictions.append(seconds)
    row = {
        **setting, "n": len(x), "first_fit": first, "first_predict": first_answers, "fit": min(fits),
        "predict": min(predictions), "error": float(np.mean(answers != right)), "ridge": model.ridge_,
        "left_out": float(model.loo_.errors.min()) if model.loo_ is not None else None, "peak_gb": peak(),
    }  # fmt: skip
    print(json.dumps(row), flush=True)
    return row


def search(x: Any, y: Any, new: Any, right: Any, rounds: int) -> dict[str, Any]:
    """Choose depth and activation by leaving training images out, in one call."""

    def fit() -> wp.NTKClassifierCV:
        base = wp.NTKClassifier(preparation=None, bias=0.0)
        return wp.NTKClassifierCV(base, depths=(1, 2, 3, 4, 5), activations=("relu", "erf", "gelu")).fit(x, y)

    model, first = timed(fit)
    taken = [first]
    for _ in range(rounds):
        del model
        model, seconds = timed(fit)
        taken.append(seconds)
    row = {
        "search": len(model.cv_results_["loo_error"]), **model.best_params_, "n": len(x), "first_fit": first,
        "fit": min(taken), "error": float(np.mean(model.predict(new) != right)), "peak_gb": peak(),
    }  # fmt: skip
    print(json.dumps(row, default=str), flush=True)
    return row


def unit(images: np.ndarray) -> np.ndarray:
    flat = images.reshape(len(images), -1).astype(np.float64)
    return flat / np.linalg.norm(flat, axis=1, keepdims=True)


def shifted(images: np.ndarray, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return `count` images moved by one pixel in a random one of eight directions, and which ones they are."""
    rng = np.random.default_rng(seed)
    which = rng.choice(len(images), count, replace=count > len(images))
    moves = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0)]
    chosen = rng.integers(len(moves), size=count)
    out = np.empty_like(images[which])
    for k, move in enumerate(moves):
        out[chosen == k] = np.roll(images[which[chosen == k]], move, axis=(1, 2))
    return out, which


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", type=int, default=0, help="so many examples instead of all")
    parser.add_argument("--search", action="store_true")
    parser.add_argument("--largest", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with np.load(options.data) as file:
        x, y, new, right = (file[key] for key in ("x_train", "y_train", "x_test", "y_test"))
    if options.only:
        x, y = x[: options.only], y[: options.only]
    rows = [measure(setting, unit(x), y, unit(new), right, options.rounds) for setting in SETTINGS]
    measured = list(rows)
    if options.search:
        rows.append(search(unit(x), y, unit(new), right, min(options.rounds, 1)))
    if options.largest > len(x):
        more, which = shifted(x, options.largest - len(x))
        both = unit(np.concatenate([x, more]))
        labels = np.concatenate([y, y[which]])
        best = min(measured, key=lambda row: row["left_out"])
        setting = {"depth": best["depth"], "activation": best["activation"], "ridge": best["ridge"]}
        try:
            rows.append(measure(setting, both, labels, unit(new), right, options.rounds))
        except wp.InputError as error:
            print(error)
    versions = {"jax": jax.__version__, "python": platform.python_version()}
    found = {"device": jax.devices()[0].device_kind, "versions": versions,
             "rows": rows}  # fmt: skip
    if options.json:
        options.json.write_text(json.dumps(found, indent=1, default=str) + "\n")


if __name__ == "__main__":
    main()
