"""Classifiers as they come, nothing tuned: `NTKClassifier()` against scikit-learn's, with defaults and with a scaler.

    python benchmarks/classifiers.py FOLDER [--sets 30] [--rows 1100] [--folds 5] [--only NAME ...] [--no-digits]

FOLDER holds one .npz for each set: `X` and `y`. The sets are the smallest with 100 rows or more, and the digits that
come with scikit-learn. Accuracy is the mean over folds, the same for all; seconds are processor seconds of one fit, on
one core. `+` marks a classifier after `StandardScaler`. Of equal accuracies all get the mean of their ranks, and a set
is won by each of the best.

Results are kept after each set; a run that was interrupted goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from peers.common import RESULTS, machine, versions
from scipy.stats import rankdata
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import wideproof as wp

LEAST_ROWS = 100
METHODS: dict[str, Callable[[], Any]] = {
    "NTK": wp.NTKClassifier,
    "SVC": SVC,
    "forest": lambda: RandomForestClassifier(random_state=0),
    "boosting": lambda: HistGradientBoostingClassifier(random_state=0),
    "MLP": lambda: MLPClassifier(random_state=0),
}
SCALED = ("SVC", "forest", "boosting", "MLP")
NAMES = (*METHODS, *(f"{name}+" for name in SCALED))


def made(name: str) -> Any:
    """Return a new classifier of this name."""
    model = METHODS[name.rstrip("+")]()
    return make_pipeline(StandardScaler(), model) if name.endswith("+") else model


def measured(name: str, x: np.ndarray, y: np.ndarray, folds: int) -> dict[str, float]:
    """Return the mean accuracy over folds, its scatter between them, and the processor seconds of a fit."""
    scores, seconds = [], []
    for train, test in StratifiedKFold(folds, shuffle=True, random_state=0).split(x, y):
        model = made(name)
        began = time.process_time()
        model.fit(x[train], y[train])
        seconds.append(time.process_time() - began)
        scores.append(float(np.mean(model.predict(x[test]) == y[test])))
    return {"accuracy": float(np.mean(scores)), "scatter": float(np.std(scores)), "seconds": float(np.mean(seconds))}


def summary(sets: dict[str, Any]) -> dict[str, Any]:
    """Return for each method the mean accuracy and rank, the sets won, and seconds."""
    table = np.array([[row["results"][name]["accuracy"] for name in NAMES] for row in sets.values()])
    spent = np.array([[row["results"][name]["seconds"] for name in NAMES] for row in sets.values()])
    ranks = np.array([rankdata(-np.round(row, 9)) for row in table])
    best = np.round(table, 9) == np.round(table, 9).max(axis=1, keepdims=True)
    return {
        name: {
            "accuracy": float(100 * table[:, j].mean()), "rank": float(ranks[:, j].mean()),
            "wins": int(best[:, j].sum()), "seconds": float(np.median(spent[:, j])), "most": float(spent[:, j].max()),
            "better than NTK": [int(np.sum(table[:, j] > table[:, 0])), int(np.sum(table[:, j] < table[:, 0]))],
        }
        for j, name in enumerate(NAMES)
    }  # fmt: skip


def given(folder: Path, options: argparse.Namespace) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the sets by name, the smallest first."""
    found = {}
    for path in folder.glob("*.npz"):
        with np.load(path, allow_pickle=False) as arrays:
            x, y = arrays["X"].astype(np.float64), arrays["y"]
        if LEAST_ROWS <= len(y) <= options.rows and (not options.only or path.stem in options.only):
            found[path.stem] = x, y
    kept = dict(sorted(found.items(), key=lambda item: (len(item[1][1]), item[0]))[: options.sets])
    if not options.no_digits:
        digits: Any = load_digits()
        kept["digits"] = digits.data, digits.target
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", type=int, default=30)
    parser.add_argument("--rows", type=int, default=1100, help="most rows of a set")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--no-digits", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS / "classifiers.json")
    options = parser.parse_args()
    sets: dict[str, Any] = json.loads(options.out.read_text())["sets"] if options.out.exists() else {}
    about = {"machine": machine(), "versions": versions("wideproof", "scikit-learn", "numpy")}
    made("NTK").fit(np.eye(4), [0, 1, 0, 1])  # what is loaded on first use is no part of a fit
    warnings.simplefilter("ignore", ConvergenceWarning)  # of MLPClassifier: its default number of iterations
    warnings.simplefilter("ignore", UserWarning)  # of classes with fewer rows than folds
    for name, (x, y) in given(options.folder, options).items():
        results = sets.setdefault(name, {"n": len(y), "features": x.shape[1], "results": {}})["results"]
        for method in NAMES:
            if method not in results:
                results[method] = measured(method, x, y, options.folds)
        cells = "  ".join(f"{one} {100 * r['accuracy']:.1f} ({r['seconds']:.2f} s)" for one, r in results.items())
        print(f"{name:30} n {len(y):5}  {cells}", flush=True)
        done = {key: row for key, row in sets.items() if len(row["results"]) == len(NAMES)}
        options.out.write_text(json.dumps({**about, "summary": summary(done), "sets": sets}, indent=1) + "\n")
    for name, row in summary(sets).items():
        print(
            f"{name:10} {row['accuracy']:6.2f} %  rank {row['rank']:.2f}  wins {row['wins']:3}  {row['seconds']:.3f} s"
            f"  better than NTK on {row['better than NTK'][0]}, worse on {row['better than NTK'][1]}"
        )


if __name__ == "__main__":
    main()
