"""Accuracy on small classification sets: infinitely wide networks, SVC with the Gaussian kernel, random forests.

    python benchmarks/uci.py FOLDER [--only NAME ...] [--limit N] [--jobs 2] [--methods ntk rbf forest]

FOLDER holds one .npz for each set: `X` (standardized), `y`, the tuning split `tune_train`, `tune_val`, and four folds
`fold0_train`, `fold0_test`, ... The protocol is that of Fernández-Delgado et al. (2014) and Arora et al. (2020):
settings are chosen by their accuracy on `tune_val` after training on `tune_train`, then the accuracy is the mean over
the folds. Of equally accurate settings the one with the best neighbours in the grid is taken, for all methods alike.

`ntk`: ReLU networks of depth 1 to 5 with no layer fixed, all but the last, or all (the covariance), inputs as given or
with a constant coordinate, a support vector machine with C from 1e-2 to 1e4 or ridge regression on signs. A kernel is
computed on all points of a set, divided by the mean of its diagonal, and indexed by the splits. `rbf`: C from 2^-5 to
2^15, gamma from 2^-15 to 2^3. `forest`: 500 trees, three numbers of features at a split.

Prints a row for each set, then for each method the mean accuracy, the share of sets with at least 90 % (P90) and 95 %
(P95) of the best accuracy of any method there, PMA (mean share of that best), and how often each beats each. `--limit`
takes the smallest sets. Writes results/uci.json.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the cores work on different sets

import numpy as np
import scipy.linalg
from joblib import Parallel, delayed
from peers.common import RESULTS, machine, versions, write_json
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from wideproof.estimators import LimitKernel

COSTS = 10.0 ** np.arange(-2, 5)
RIDGES = 10.0 ** np.arange(-4, 2)
DEPTHS = range(1, 6)
RBF_COSTS = 2.0 ** np.arange(-5, 16, 2)
GAMMAS = 2.0 ** np.arange(-15, 4, 2)
TREES = 500
MOST_ITERATIONS = 200_000  # of libsvm: large C on noisy sets would go on for hours

Split = tuple[np.ndarray, np.ndarray]


class Task(NamedTuple):
    """A set: inputs, labels, the tuning split and the folds, each as indices of training and test examples."""

    name: str
    x: np.ndarray
    y: np.ndarray
    tuning: Split
    folds: list[Split]


class Choice(NamedTuple):
    """A setting: its place in the grid of its family, and how it labels test examples from training examples."""

    family: str
    place: tuple[int, ...]
    words: str
    label: Callable[[Split], np.ndarray]


def load(path: Path) -> Task:
    with np.load(path, allow_pickle=False) as z:
        folds = [(z[f"fold{k}_train"], z[f"fold{k}_test"]) for k in range(4)]
        return Task(path.stem, z["X"].astype(np.float64), z["y"], (z["tune_train"], z["tune_val"]), folds)


def accuracy(task: Task, choice: Choice, split: Split) -> float:
    return float(np.mean(choice.label(split) == task.y[split[1]]))


class Parts:
    """A kernel matrix on all points, and its parts for one split: training with training, test with training."""

    def __init__(self, matrix: np.ndarray) -> None:
        self.matrix = matrix
        self.held: tuple[Split, np.ndarray, np.ndarray] | None = None

    def __call__(self, split: Split) -> tuple[np.ndarray, np.ndarray]:
        """Return the parts of `split`, those of the last one without work."""
        if self.held is None or self.held[0] is not split:
            train, test = split
            self.held = split, self.matrix[np.ix_(train, train)], self.matrix[np.ix_(test, train)]
        return self.held[1], self.held[2]


def support_vectors(parts: Parts, y: np.ndarray, cost: float) -> Callable[[Split], np.ndarray]:
    def label(split: Split) -> np.ndarray:
        train, test = parts(split)
        model = SVC(kernel="precomputed", C=cost, max_iter=MOST_ITERATIONS, cache_size=400)
        return model.fit(train, y[split[0]]).predict(test)

    return label


def signs_by_ridge(parts: Parts, y: np.ndarray, ridge: float) -> Callable[[Split], np.ndarray]:
    classes = np.unique(y)

    def label(split: Split) -> np.ndarray:
        train, test = parts(split)
        codes = np.where(y[split[0]][:, None] == classes, 1.0, -1.0)
        regularized = train + ridge * np.eye(len(train))
        dual = scipy.linalg.solve(regularized, codes, assume_a="pos", overwrite_a=True, check_finite=False)
        return classes[np.argmax(test @ dual, axis=1)]

    return label


def ntk(task: Task) -> Iterator[Choice]:
    with_constant = np.c_[task.x, np.full(len(task.x), np.sqrt(task.x.shape[1]))]
    for constant, x in enumerate((task.x, with_constant)):
        for depth in DEPTHS:
            for place, fixed in enumerate(sorted({0, depth - 1, depth})):
                matrix = LimitKernel(depth=depth, fixed_layers=fixed)(x)
                matrix /= np.trace(matrix) / len(matrix)
                parts = Parts(matrix)
                words = f"depth {depth}, {fixed} fixed, {'constant' if constant else 'as given'}"
                for k, cost in enumerate(COSTS):
                    label = support_vectors(parts, task.y, cost)
                    yield Choice("svc", (constant, depth, place, k), f"{words}, C {cost:g}", label)
                for k, ridge in enumerate(RIDGES):
                    label = signs_by_ridge(parts, task.y, ridge)
                    yield Choice("ridge", (constant, depth, place, k), f"{words}, ridge {ridge:g}", label)


def rbf(task: Task) -> Iterator[Choice]:
    for j, gamma in enumerate(GAMMAS):
        parts = Parts(rbf_kernel(task.x, gamma=gamma))
        for k, cost in enumerate(RBF_COSTS):
            label = support_vectors(parts, task.y, cost)
            yield Choice("svc", (j, k), f"C {cost:g}, gamma {gamma:g}", label)


def forest(task: Task) -> Iterator[Choice]:
    d = task.x.shape[1]
    numbers = sorted({min(d, max(1, round(share * d**0.5))) for share in (0.5, 1, 2)})

    def labelled(features: int) -> Callable[[Split], np.ndarray]:
        def label(split: Split) -> np.ndarray:
            train, test = split
            model = RandomForestClassifier(TREES, max_features=features, random_state=0)  # pyright: ignore[reportArgumentType]
            return model.fit(task.x[train], task.y[train]).predict(task.x[test])

        return label

    for k, features in enumerate(numbers):
        yield Choice("forest", (k,), f"{features} features", labelled(features))


METHODS = {"ntk": ntk, "rbf": rbf, "forest": forest}


def chosen(scores: dict[tuple[str, tuple[int, ...]], float]) -> tuple[str, tuple[int, ...]]:
    """Return the best place; of equal ones the one with the best neighbours, one step away along each axis."""

    def neighbours(key: tuple[str, tuple[int, ...]]) -> float:
        family, place = key
        around = [
            scores[family, (*place[:axis], place[axis] + step, *place[axis + 1 :])]
            for axis in range(len(place))
            for step in (-1, 1)
            if (family, (*place[:axis], place[axis] + step, *place[axis + 1 :])) in scores
        ]
        return float(np.mean(around)) if around else 0.0

    return max(scores, key=lambda key: (scores[key], neighbours(key)))


def measured(task: Task, method: str) -> dict[str, Any]:
    """Tune on the split, then return the accuracy over the folds; the kernels are made a second time, not kept."""
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of SVC: the accuracy says what it is worth
        scores = {(c.family, c.place): accuracy(task, c, task.tuning) for c in METHODS[method](task)}
        best = chosen(scores)
        choice = next(c for c in METHODS[method](task) if (c.family, c.place) == best)
        folds = [accuracy(task, choice, fold) for fold in task.folds]
    return {
        "accuracy": float(np.mean(folds)), "folds": folds, "tuning": scores[best],
        "setting": f"{choice.family}: {choice.words}", "seconds": time.perf_counter() - started,
    }  # fmt: skip


def row(path: Path, methods: list[str]) -> dict[str, Any]:
    task = load(path)
    found = {method: measured(task, method) for method in methods}
    cells = "  ".join(f"{method} {100 * r['accuracy']:6.2f} ({r['seconds']:5.1f} s)" for method, r in found.items())
    print(f"{task.name:34} n {len(task.y):5}  {cells}", flush=True)
    return {"name": task.name, "n": len(task.y), "features": task.x.shape[1], "results": found}


def summary(rows: list[dict[str, Any]], methods: list[str]) -> dict[str, Any]:
    table = np.array([[r["results"][m]["accuracy"] for m in methods] for r in rows])
    share = table / table.max(axis=1, keepdims=True)
    wins = {
        a: {b: int(np.sum(table[:, i] > table[:, j])) for j, b in enumerate(methods)} for i, a in enumerate(methods)
    }
    return {
        m: {
            "mean": 100 * table[:, i].mean(), "P90": 100 * np.mean(share[:, i] >= 0.9),
            "P95": 100 * np.mean(share[:, i] >= 0.95), "PMA": 100 * share[:, i].mean(), "wins": wins[m],
            "seconds": sum(r["results"][m]["seconds"] for r in rows),
        }
        for i, m in enumerate(methods)
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--limit", type=int, help="so many of the smallest sets")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULTS / "uci.json")
    options = parser.parse_args()
    paths = [p for p in options.folder.glob("*.npz") if not options.only or p.stem in options.only]
    if not paths:
        parser.error(f"{options.folder} holds no .npz of these names")
    size = {path: len(load(path).y) for path in paths}
    paths = sorted(paths, key=lambda path: (size[path], path.stem))[: options.limit]
    started = time.perf_counter()
    # The largest first, so that the cores end together.
    done: Any = Parallel(n_jobs=options.jobs)(delayed(row)(path, options.methods) for path in reversed(paths))
    rows: list[dict[str, Any]] = sorted(done, key=lambda r: r["name"])
    seconds = time.perf_counter() - started
    found = summary(rows, options.methods)
    print(f"\n{len(rows)} sets in {seconds:.0f} s")
    print("method     mean    P90    P95    PMA      s  sets on which it beats ...")
    for method, f in found.items():
        wins = ", ".join(f"{other} {count}" for other, count in f["wins"].items() if other != method)
        print(
            f"{method:8} {f['mean']:6.2f} {f['P90']:6.1f} {f['P95']:6.1f} {f['PMA']:6.2f} {f['seconds']:6.0f}  {wins}"
        )
    about = {"machine": machine(), "versions": versions("wideproof", "scikit-learn", "numpy", "jax")}
    write_json(options.out, {**about, "seconds": seconds, "summary": found, "sets": rows})


if __name__ == "__main__":
    main()
