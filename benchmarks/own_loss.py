"""Default scikit-learn networks in their own loss, proved at their very weights: which theorem, loss now, loss reached.

    python benchmarks/own_loss.py [--only iris] [--rows 60]

`MLPClassifier` and `MLPRegressor` as they come (100 ReLU units, Adam, L2 penalty 1e-4), and with tanh; 200 iterations,
which is their limit, and up to 3,000; 60 random rows of iris, breast cancer, wine and diabetes, inputs standardized,
of diabetes the target as it is. Each fit is written to an ONNX file with its Softmax or Sigmoid at the end, and the
table to arrays; then `wp.certify(file, table)` guesses the loss and proves what it can, with nothing moved. The truth
beside it is the same gradient descent in float64: after how many steps the claimed loss is in fact reached.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from onnx import TensorProto, helper, save
from peers.common import RESULTS, machine, versions
from scipy.special import expit, softmax
from sklearn import datasets
from sklearn.neural_network import MLPClassifier, MLPRegressor

import wideproof as wp

TABLES = {"iris": datasets.load_iris, "breast cancer": datasets.load_breast_cancer, "wine": datasets.load_wine,
          "diabetes": datasets.load_diabetes}  # fmt: skip
MOST = 10**6  # steps of cross-entropy that are taken to find the truth


def write(fit: Any, path: Path) -> None:
    """Write a fit as an ONNX file: a layer, its activation, a layer, and what makes probabilities of it."""
    kinds = {"relu": "Relu", "tanh": "Tanh"}
    arrays = {
        f"{kind}{k + 1}": a for kind, part in (("W", fit.coefs_), ("b", fit.intercepts_)) for k, a in enumerate(part)
    }
    nodes = [helper.make_node("Gemm", ["x", "W1", "b1"], ["z"]), helper.make_node(kinds[fit.activation], ["z"], ["h"]),
             helper.make_node("Gemm", ["h", "W2", "b2"], ["f"])]  # fmt: skip
    end = {"softmax": "Softmax", "logistic": "Sigmoid"}.get(fit.out_activation_)
    if end is not None:
        nodes.append(helper.make_node(end, ["f"], ["p"]))
    sides = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, ["N", size])
             for name, size in (("x", fit.n_features_in_), ("f" if end is None else "p", fit.n_outputs_))]  # fmt: skip
    weights = [helper.make_tensor(name, TensorProto.DOUBLE, a.shape, a.ravel()) for name, a in arrays.items()]
    graph = helper.make_graph(nodes, "fit", sides[:1], sides[1:], weights)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def hidden(fit: Any, x: np.ndarray) -> np.ndarray:
    """Return the features of the last layer, with a 1 at the end."""
    z = x @ fit.coefs_[0] + fit.intercepts_[0]
    return np.concatenate([np.maximum(z, 0) if fit.activation == "relu" else np.tanh(z), np.ones((len(x), 1))], axis=1)


def truth(fit: Any, x: np.ndarray, y: np.ndarray, claims: dict[str, Any]) -> int | None:
    """Return after how many of the claimed steps the claimed loss is reached in float64; `None` where not seen."""
    h, v = hidden(fit, x), np.concatenate([fit.coefs_[1], fit.intercepts_[1][None]])
    epsilon = claims["epsilon"]
    if fit.out_activation_ == "identity":  # the parts of the residual along the eigenvectors shrink by factors
        values, vectors = np.linalg.eigh(h @ h.T)
        parts = np.square(vectors.T @ (h @ v - y.reshape(len(y), -1))).sum(axis=1)
        rates = np.square(1 - claims["eta"] * np.maximum(values, 0))
        low, high = 0, int(claims["steps"])
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if parts @ rates**middle / 2 <= epsilon else (middle + 1, high)
        return low
    binary = fit.out_activation_ == "logistic"
    sign, own = (2.0 * y - 1)[:, None], np.eye(max(v.shape[1], 2))[y]  # `own` is read of several outputs alone
    for k in range(min(claims["steps"], MOST) + 1):
        f = h @ v
        if binary:
            loss, slope = float(np.logaddexp(0, -sign * f).mean()), -sign * expit(-sign * f)
        else:
            gaps = np.where(own > 0, -np.inf, f - f[own > 0][:, None])
            loss, slope = float(np.log1p(np.exp(gaps).sum(axis=1)).mean()), softmax(f, axis=1) - own
        if loss <= epsilon:
            return k
        eta = claims["eta"] if "eta" in claims else -1 / (claims["growth"] * math.expm1(-loss))
        v = v - eta * h.T @ slope / len(x)
    return None


def measured(name: str, activation: str, iterations: int, rows: int) -> dict[str, Any]:
    """Fit, prove and compare."""
    x, y = TABLES[name](return_X_y=True)
    pick = np.random.default_rng(0).permutation(len(x))[:rows]
    x, y = x[pick], y[pick]
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    kind = MLPRegressor if name == "diabetes" else MLPClassifier
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that 200 iterations are too few
        fit = kind(activation=activation, max_iter=iterations, random_state=0).fit(x, y)
    with tempfile.TemporaryDirectory() as place:
        write(fit, Path(place) / "model.onnx")
        begun = time.perf_counter()
        numbers = name == "diabetes"
        proof = wp.certify(Path(place) / "model.onnx", (x, y), task="regression" if numbers else "auto")
        seconds = time.perf_counter() - begun
    made, verdict = proof.certificate, proof.verdict
    claims = {} if made is None else dict(made.claims)
    same = made is not None and all(
        np.array_equal(np.sort(a, axis=None), np.sort(b, axis=None))
        for a, b in zip(
            [*fit.coefs_, *fit.intercepts_], [made.params[k] for k in ("W1", "W2", "b1", "b2")], strict=True
        )
    )
    now = claims.get("loss", claims.get("rho", math.nan) ** 2 / 2)
    to_zero = made is not None and ("separates" in claims or made.theorem == "descent")
    taken = truth(fit, x, y, claims) if claims else None
    return {
        "table": name, "activation": activation, "iterations": iterations, "ran": fit.n_iter_, "proved": proof.proved,
        "same weights": same, "theorem": None if made is None else made.theorem, "headline": proof.headline,
        "notes": list(proof.notes), "loss now": now, "right": claims.get("right"), "margin": claims.get("margin"),
        "loss reached": claims.get("epsilon"), "to zero": to_zero,
        "steps": claims.get("steps"), "growing": "growth" in claims, "true steps": taken,
        "seconds": seconds, "verifier": None if verdict is None else verdict.seconds,
        "bits": None if verdict is None else verdict.precision,
    }  # fmt: skip


def main() -> int:
    """Measure, print, and keep the figures."""
    reader = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    reader.add_argument("--only", help="one table")
    reader.add_argument("--rows", type=int, default=60)
    chosen = reader.parse_args()
    rows = []
    for activation in ("relu", "tanh"):
        for name in TABLES if chosen.only is None else [chosen.only]:
            for iterations in (200, 3000):
                rows.append(measured(name, activation, iterations, chosen.rows))
                print(json.dumps({key: rows[-1][key] for key in rows[-1] if key != "notes"}), flush=True)
    if chosen.only is None:
        found = {"machine": machine(), "versions": versions("numpy", "scikit-learn", "jax"), "rows": rows}
        (RESULTS / "own-loss.json").write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
