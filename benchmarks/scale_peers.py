"""Thousands of images on a processor: infinitely wide networks beside scikit-learn and GPyTorch, in one run.

    python benchmarks/scale_peers.py MNIST.npz [--n 5000] [--large 20000] [--gpytorch-python PATH]

Every method chooses its own settings without the test images, as its users would: leaving out in closed form here, the
grid of three-fold cross-validation for scikit-learn's kernel ridge regression and support vectors (Gaussian kernel), 20
steps of Adam on the marginal likelihood for GPyTorch. Seconds are those of choosing and fitting, and of predicting
10,000 images; `--large` fits so many with Wideproof alone. Writes `results/scale-peers.json`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from peers.common import (
    PEERS,
    RESULTS,
    add_interpreters,
    interpreter,
    machine,
    run_child,
    save_job,
    versions,
    write_json,
)
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

import wideproof as wp

IMAGES = {"preparation": None, "bias": 0.0}


class SignRidge(KernelRidge):
    """Kernel ridge regression on signs, one class against the rest."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SignRidge:  # noqa: D102
        return super().fit(X, np.where(y[:, None] == np.arange(10), 1.0, -1.0), sample_weight)

    def predict(self, X: Any) -> np.ndarray:  # noqa: D102
        return np.argmax(super().predict(X), axis=1)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: D102
        return float(np.mean(self.predict(X) == y))


def methods() -> dict[str, Any]:
    gammas = [0.5, 1.0, 2.0, 4.0]  # inputs have norm 1
    ridge = SignRidge(kernel="rbf")
    return {
        "NTKClassifier, gelu, depth 3": wp.NTKClassifier(depth=3, activation="gelu", n_jobs=-1, **IMAGES),
        "NTKClassifierCV, 6 candidates": wp.NTKClassifierCV(
            wp.NTKClassifier(n_jobs=-1, **IMAGES), depths=(1, 3), activations=("relu", "erf", "gelu")),
        "scikit-learn SVC": GridSearchCV(SVC(), {"C": [1, 10], "gamma": gammas}, cv=3, n_jobs=-1),
        "scikit-learn KernelRidge": GridSearchCV(ridge, {"alpha": [1e-4, 1e-2, 1.0], "gamma": gammas}, cv=3, n_jobs=-1),
    }  # fmt: skip


def unit(images: np.ndarray) -> np.ndarray:
    flat = images.reshape(len(images), -1).astype(np.float64)
    return flat / np.linalg.norm(flat, axis=1, keepdims=True)


def measured(name: str, model: Any, x: Any, y: Any, new: Any, right: Any) -> dict[str, Any]:
    began = time.perf_counter()
    model.fit(x, y)
    fitted = time.perf_counter() - began
    began = time.perf_counter()
    answers = model.predict(new)
    return row(name, len(x), fitted, time.perf_counter() - began, answers, right)


def row(name: str, n: int, fit: float, predict: float, answers: Any, right: Any) -> dict[str, Any]:
    wrong = float(np.mean(np.asarray(answers) != right))
    times = f"choose and fit {fit:7.1f} s, predict {predict:6.1f} s"
    print(f"{name:32} n {n:6,}: {times}, errors {100 * wrong:.2f} %", flush=True)
    return {"method": name, "n": n, "fit": fit, "predict": predict, "error": wrong}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--n", type=int, default=5000)
    parser.add_argument("--large", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=900)
    add_interpreters(parser, "gpytorch")
    options = parser.parse_args()
    with np.load(options.data) as file:
        x, y, new, right = (file[key] for key in ("x_train", "y_train", "x_test", "y_test"))
    few, labels, new = unit(x[: options.n]), y[: options.n], unit(new)
    rows = [measured(name, model, few, labels, new, right) for name, model in methods().items()]
    python = interpreter(options, "gpytorch")
    if python is not None:
        signs = np.where(labels[:, None] == np.arange(10), 1.0, -1.0)
        with tempfile.TemporaryDirectory() as folder:
            job = save_job(folder, {"steps": 20}, {"x": few, "new": new, "signs": signs})
            found = run_child([python, str(PEERS / "gpytorch_classify.py"), *job], options.seconds, 18)
        if "failed" in found:
            print("GPyTorch:", found["failed"])
            rows.append({"method": "GPyTorch", "n": options.n, "failed": found["failed"]})
        else:
            rows.append(row("GPyTorch", options.n, found["fit"], found["predict"], found["answers"], right))
    if options.large:
        model = wp.NTKClassifier(depth=3, activation="gelu", n_jobs=-1, **IMAGES)
        many, labels = unit(x[: options.large]), y[: options.large]
        rows.append(measured("NTKClassifier, gelu, depth 3", model, many, labels, new, right))
    found = {"machine": machine(), "versions": versions("jax", "scikit-learn"), "rows": rows}
    write_json(RESULTS / "scale-peers.json", found)


if __name__ == "__main__":
    main()
