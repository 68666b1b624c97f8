"""The estimate on unseen rows that `prove` prints, against rows that were kept out; and coin tosses.

    python benchmarks/estimates.py FOLDER [--tables 30] [--splits 5] [--proofs 10] [--jobs 2]

FOLDER holds one .npz for each table, as for `uci.py`: `X` and `y`. The tables are the smallest with 60 rows or more. A
split is a random 60 % of the rows of each class, equal rows together, the rest to see what comes true: the accuracy
there. Steps are not followed (`budget=0`), so `alpha` is larger than by default. The first splits of the ten smallest
tables are proved by `wp.prove`, and `proof.predict` predicts; of the others the very weights that it predicts with are
found, those that gradient descent tends to from the initial ones, without the certificate (`limits.fit_near`). On the
same rows: support vectors with the Gaussian kernel, C and gamma chosen by five folds of the training rows, and a random
forest of 200 trees.

Coin tosses: 100 normal rows with 20, 60, 100 or 300 columns, labels half and half or 70 to 30 at random, and how many
fresh tosses of the same kind the network would predict.

Results are kept after each split; a run that was interrupted goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from jax import enable_x64
from joblib import Parallel, delayed
from peers.common import RESULTS, machine, versions
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC

import wideproof as wp
from wideproof.data import distinct, equal_rows
from wideproof.proving.limits import fit_near
from wideproof.proving.predictor import Predictor

LEAST_ROWS, SHARE = 60, 0.6
COSTS, GAMMAS = 2.0 ** np.arange(-2, 11, 3), 2.0 ** np.arange(-3, 4, 2)  # gamma in units of 1/columns
TREES, FOLDS = 200, 5
COLUMNS, MAJORITIES, SEEDS, TOSSES, FRESH = (20, 60, 100, 300), (0.5, 0.7), 10, 100, 1000
FAR = 0.05  # a table that is off by more, beyond two standard errors, is named


def split(x: np.ndarray, y: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows to prove something about, 60 % of each class, and the others; equal rows are on one side."""
    first, place = equal_rows(x)
    rng, known = np.random.default_rng(seed), np.zeros(len(first), bool)
    for one in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y[first] == one))
        known[rows[: max(1, round(SHARE * len(rows)))]] = True
    return np.flatnonzero(known[place]), np.flatnonzero(~known[place])


def support_vectors(x: np.ndarray, y: np.ndarray) -> Any:
    """Return a classifier whose settings were chosen by folds of these rows."""
    grid = {"C": COSTS.tolist(), "gamma": (GAMMAS / x.shape[1]).tolist()}
    return GridSearchCV(SVC(), grid, cv=StratifiedKFold(FOLDS, shuffle=True, random_state=0)).fit(x, y)


def proved(rows: np.ndarray, names: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
    """Prove it, and predict new rows with the proof."""
    proof = wp.prove((rows, names), budget=0.0, steps=2)
    estimate = proof.estimates[0] if proof.estimates else None
    return proof.predict(new), {
        "estimate": None if estimate is None else asdict(estimate), "proved": proof.proved,
        "limit": proof.limit is not None, "network": str(proof.network),
    }  # fmt: skip


def fitted(rows: np.ndarray, names: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
    """Predict new rows with the weights that the proof would predict with."""
    choice = wp.choose(wp.load((rows, names)), budget=0.0)
    first = {name: np.asarray(weight, np.float64) for name, weight in choice.network.init(choice.seed).items()}
    with enable_x64(True):
        weights = fit_near(choice.network, first, distinct(choice.data))
        assert weights is not None
        answers = Predictor(choice.network, weights, choice.data).predict(new)
    estimate = None if choice.estimate is None else asdict(choice.estimate)
    return answers, {"estimate": estimate, "network": str(choice)}


def measured(path: Path, seed: int, prove: bool) -> tuple[str, int, dict[str, Any]]:
    """Take one part of a table, and see how the estimate comes true on the other."""
    with np.load(path, allow_pickle=False) as found:
        x, y = found["X"].astype(np.float64), found["y"]
    known, new = split(x, y, seed)
    names = np.array([f"class {one}" for one in y])
    began = time.process_time()
    answers, about = (proved if prove else fitted)(x[known], names[known], x[new])
    spent = time.process_time() - began
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of classes with fewer rows than folds
        svc = float(np.mean(support_vectors(x[known], y[known]).predict(x[new]) == y[new]))
    forest = RandomForestClassifier(TREES, random_state=0).fit(x[known], y[known])
    row = {
        "rows": len(known), "new": len(new), "accuracy": float(np.mean(answers == names[new])), **about, "svc": svc,
        "forest": float(np.mean(forest.predict(x[new]) == y[new])), "seconds": spent,
    }  # fmt: skip
    return path.stem, seed, row


def tossed(columns: int, majority: float, seed: int) -> list[float]:
    """Return the estimate for labels that have nothing to do with the rows, and what comes out on fresh ones."""
    rng = np.random.default_rng([columns, round(100 * majority), seed])
    names = rng.permutation(np.where(np.arange(TOSSES) < round(majority * TOSSES), "heads", "tails"))
    rows, new = rng.standard_normal((TOSSES, columns)), rng.standard_normal((FRESH, columns))
    answers, found = fitted(rows, names, new)
    assert found["estimate"] is not None
    heads = float(np.mean(answers == "heads"))
    return [found["estimate"]["value"], majority * heads + (1 - majority) * (1 - heads)]


def mean(values: Any) -> tuple[float, float]:
    """Return the mean with its standard error."""
    values = np.asarray(values, float)
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def summary(tables: dict[str, dict[str, dict[str, Any]]], tosses: dict[str, list[list[float]]]) -> dict[str, Any]:
    """Return what all tables and all tosses say together."""
    rows: dict[str, Any] = {}
    for name, splits in tables.items():
        with_one = [row for row in splits.values() if row["estimate"] is not None]
        if not with_one:
            continue
        off, error = mean([row["estimate"]["value"] - row["accuracy"] for row in with_one])
        means = {key: float(np.mean([row[key] for row in with_one])) for key in ("accuracy", "svc", "forest")}
        rows[name] = {"off": off, "error": error, "estimate": means["accuracy"] + off, **means}
    found: dict[str, Any] = {"tables": rows}
    for key, one, other in (
        ("off", "estimate", "accuracy"),
        ("svc", "svc", "accuracy"),
        ("forest", "forest", "accuracy"),
    ):
        if rows:
            found[key] = mean([row[one] - row[other] for row in rows.values()])
    found["far"] = [name for name, row in rows.items() if abs(row["off"]) > FAR + 2 * row["error"]]
    found["splits"] = sum(len(splits) for splits in tables.values())
    found["no estimate"] = sum(row["estimate"] is None for splits in tables.values() for row in splits.values())
    proofs = [row for splits in tables.values() for row in splits.values() if "proved" in row]
    found["proofs"] = [len(proofs), sum(row["proved"] for row in proofs), sum(row["limit"] for row in proofs)]
    found["tosses"] = {}
    for majority in MAJORITIES:
        every = [value for key, values in tosses.items() if key.startswith(f"{majority:g} ") for value in values]
        for key, values in {**{k: v for k, v in tosses.items() if k.startswith(f"{majority:g} ")},
                            f"{majority:g} all": every}.items():  # fmt: skip
            if values:
                estimates, came = np.transpose(values)
                found["tosses"][key] = {"estimate": mean(estimates), "accuracy": mean(came),
                                        "off": mean(estimates - came)}  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tables", type=int, default=30)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--proofs", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULTS / "estimates.json")
    options = parser.parse_args()
    sizes = {}
    for path in options.folder.glob("*.npz"):
        with np.load(path, allow_pickle=False) as found:
            sizes[path] = len(found["y"])
    if not sizes:
        parser.error(f"{options.folder} holds no .npz")
    paths = sorted((p for p in sizes if sizes[p] >= LEAST_ROWS), key=lambda p: (sizes[p], p.stem))[: options.tables]
    kept = json.loads(options.out.read_text()) if options.out.exists() else {}
    tables: dict[str, Any] = {path.stem: kept.get("tables", {}).get(path.stem, {}) for path in paths}
    tosses: dict[str, list[list[float]]] = kept.get("tosses", {})
    about = {"machine": machine(), "versions": versions("wideproof", "scikit-learn", "numpy", "jax")}

    def keep() -> None:
        found = {**about, "summary": summary(tables, tosses), "tables": tables, "tosses": tosses}
        options.out.write_text(json.dumps(found, indent=1) + "\n")

    for majority in MAJORITIES:
        for columns in COLUMNS:
            values = tosses.setdefault(f"{majority:g} {columns}", [])
            values += [tossed(columns, majority, seed) for seed in range(len(values), SEEDS)]
            print(f"tosses, {majority:g}, {columns} columns: {np.mean(values, axis=0)}", flush=True)
            keep()
    todo = [
        (path, seed, seed == 0 and place < options.proofs)
        for seed in range(options.splits)
        for place, path in enumerate(paths)
        if str(seed) not in tables[path.stem]
    ]
    done: Any = Parallel(n_jobs=options.jobs, return_as="generator_unordered")(delayed(measured)(*one) for one in todo)
    for name, seed, row in done:
        tables[name][str(seed)] = row
        value = math.nan if row["estimate"] is None else row["estimate"]["value"]
        print(f"{seed} {name:34} {value:.3f} came out {row['accuracy']:.3f}, svc {row['svc']:.3f}, "
              f"forest {row['forest']:.3f} ({row['seconds']:.1f} s)", flush=True)  # fmt: skip
        keep()
    print(json.dumps(summary(tables, tosses), indent=1))


if __name__ == "__main__":
    main()
