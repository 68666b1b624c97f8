"""Seconds and accuracy of infinite-width Gram matrices (NTK): wideproof against neural-tangents, both in float64.

    python benchmarks/limits.py [--quick] [--large] [--methods wideproof ...]

Softplus of depth 3 at n = 1000 and ReLU of depth 5 at n = 4000, unit-norm points, one near-duplicate pair among them.
Softplus in neural-tangents is `stax.ElementwiseNumerical`, Gauss-Hermite quadrature with `deg` squared points an entry:
deg 25 is what its documentation starts from, deg 50 is accurate to rounding (`batched`: with `nt.batch`, since it keeps
n^2 deg^2 numbers in memory). Every method has a fresh process; `first` includes compilation. Errors are absolute,
over ten random pairs, ten diagonal entries and the near-duplicate, against mpmath at 30 digits.
`--large`: how time grows up to n = 20000 under a memory limit, and the smallest eigenvalue there.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
from peers.common import PEERS, RESULTS, add_interpreters, interpreter, machine, run_child, save_job, write_json
from peers.common import versions as installed

from wideproof.networks import get_activation

CASES = {"softplus": (1000, 3), "relu": (4000, 5)}
QUICK = {"softplus": (60, 3), "relu": (100, 5)}
INPUT_DIM = 32
BATCH = {25: 250, 50: 100}
GROWTH = (5000, 7000, 10000, 14000, 20000)  # below, the time is that of starting
DIGITS = 30


def points(n: int, near_duplicate: bool) -> np.ndarray:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, INPUT_DIM))
    if near_duplicate:
        x[-1] = x[0] + 1e-6 * rng.normal(size=INPUT_DIM)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def some_pairs(n: int) -> list[list[int]]:
    """Return the near-duplicate, ten diagonal entries and ten others."""
    rng = np.random.default_rng(1)
    return [[0, n - 1], *([i, i] for i in range(1, 11)), *(rng.choice(n - 1, 2, False).tolist() for _ in range(10))]


def exact(
    activation: str, depth: int, x: np.ndarray, pairs: list[list[int]], step: float = 0.22
) -> tuple[list[Any], list[Any]]:
    """Return NTK and NNGP kernel of a few pairs, at 30 digits: K <- c E[s s'], T <- K + T c E[ds ds']."""
    with mp.workdps(DIGITS + 10):
        c = 2 if activation == "relu" else 1 / softplus_moments(mp.mpf(1), mp.mpf(1), mp.mpf(1), step)[0]

        @cache
        def dual(p: Any, q: Any, k: Any) -> tuple[Any, Any]:
            value, slope = relu_moments(p, q, k) if activation == "relu" else softplus_moments(p, q, k, step)
            return c * value, c * slope

        ntks, covariances = [], []
        for i, j in pairs:
            a, b = ([mp.mpf(float(v)) for v in x[row]] for row in (i, j))
            p, q, k = mp.fdot(a, a), mp.fdot(b, b), mp.fdot(a, b)
            ntk = k
            for _ in range(depth):
                value, slope = dual(p, q, k)
                ntk = value + ntk * slope
                p, q, k = dual(p, p, p)[0], dual(q, q, q)[0], value
            ntks.append(ntk)
            covariances.append(k)
        return ntks, covariances


def relu_moments(p: Any, q: Any, k: Any) -> tuple[Any, Any]:
    """Arc-cosine kernels: E[s(u) s(v)] and E[s'(u) s'(v)] for (u, v) ~ N(0, [[p, k], [k, q]])."""
    norm = mp.sqrt(p * q)
    angle = mp.atan2(mp.sqrt(max(mp.mpf(0), p * q - k * k)), k)
    return norm * (mp.sin(angle) + (mp.pi - angle) * mp.cos(angle)) / (2 * mp.pi), (mp.pi - angle) / (2 * mp.pi)


def softplus_moments(p: Any, q: Any, k: Any, step: float) -> tuple[Any, Any]:
    """The same for softplus, by the trapezoidal rule on R^2, which converges geometrically for analytic integrands.

    The poles nearest to the real axis are at +-i pi, so with variances near 1 and step h the error is about
    exp(4.5 - 6 pi / h): below 1e-30 at h = 0.22. Halving h changes nothing (`main` prints the difference).
    """
    h = mp.mpf(step)
    nodes = [h * t for t in range(-int(12.5 / step), int(12.5 / step) + 1)]
    weights = [h * mp.npdf(t) for t in nodes]
    rest = q - k * k / p
    along, across = k / mp.sqrt(p), mp.sqrt(rest) if rest > mp.mpf(10) ** -DIGITS else mp.mpf(0)
    value = slope = mp.mpf(0)
    for t, w in zip(nodes, weights, strict=True):
        inner, inner_slope = _line(along * t, across, nodes, weights)
        e = mp.exp(-mp.sqrt(p) * t)
        value += w * (mp.log1p(e) + mp.sqrt(p) * t) * inner
        slope += w / (1 + e) * inner_slope
    return value, slope


def _line(center: Any, spread: Any, nodes: list, weights: list) -> tuple[Any, Any]:
    if not spread:
        e = mp.exp(-center)
        return mp.log1p(e) + center, 1 / (1 + e)
    value = slope = mp.mpf(0)
    for t, w in zip(nodes, weights, strict=True):
        z = center + spread * t
        e = mp.exp(-z)
        value += w * (mp.log1p(e) + z)
        slope += w / (1 + e)
    return value, slope


def methods(activation: str, n: int) -> dict[str, tuple[str, str, dict[str, Any]]]:
    """Name in the table: environment, script, options."""
    ours = {"wideproof": ("", "wideproof_limits.py", {})}
    if activation == "relu":
        return {**ours, "nt": ("neural-tangents", "neural_tangents_limits.py", {})}
    theirs = {}
    for deg, batch in BATCH.items():
        if deg == 25:
            theirs["nt deg 25"] = ("neural-tangents", "neural_tangents_limits.py", {"deg": deg})
        options = {"deg": deg, "batch": batch if n % batch == 0 else n // 2}
        theirs[f"nt deg {deg}, batched"] = ("neural-tangents", "neural_tangents_limits.py", options)
    return {**ours, **theirs}


def compare(activation: str, n: int, depth: int, options: Any) -> list[dict[str, Any]]:
    x, pairs = points(n, near_duplicate=True), some_pairs(n)
    reference, _ = exact(activation, depth, x, pairs)
    if activation == "softplus":
        again = exact(activation, depth, x, pairs[:1], step=0.17)[0][0]
        print(f"mpmath with a smaller step differs by {float(abs(again - reference[0])):.1e}")
    rows: list[dict[str, Any]] = []
    for name, (environment, script, told) in methods(activation, n).items():
        if options.methods and not any(name.startswith(m) for m in options.methods):
            continue
        job = {
            "activation": activation, "depth": depth, "c_sigma": get_activation(activation).c_sigma, "pairs": pairs,
            "rounds": options.rounds, "budget": options.limit / 3, **told,
        }  # fmt: skip
        answer = child(environment, script, job, x, options)
        if "entries" in answer:
            with mp.workdps(DIGITS + 10):
                off = [float(abs(mp.mpf(e) - r)) for e, r in zip(answer["entries"], reference, strict=True)]
            answer["error"], answer["diagonal_error"] = max(off[11:]), max(off[1:11])
            answer["near_duplicate_error"] = off[0]
        rows.append({"activation": activation, "n": n, "depth": depth, "method": name, **answer})
        show(rows[-1], rows[0])
    return rows


def child(
    environment: str, script: str, job: dict[str, Any], x: np.ndarray, options: Any, limit: float | None = None
) -> dict[str, Any]:
    python = options.pythons[environment]
    if python is None:
        return {"failed": f"no {environment}"}
    with tempfile.TemporaryDirectory() as folder:
        files = save_job(folder, job, {"x": x})
        return run_child([python, str(PEERS / script), *files], limit or options.limit, options.memory)


def show(row: dict[str, Any], ours: dict[str, Any]) -> None:
    line = f"{row['activation']:9} {row['n']:6} {row['depth']:5} {row['method']:20}"
    if "failed" in row:
        print(f"{line} {row['failed']}", flush=True)
        return
    ratio = row["seconds"] / ours.get("seconds", np.nan) if ours["method"] == "wideproof" else np.nan
    line += f" {row['seconds']:9.4g} {row['first_seconds']:9.4g} {row['peak_gb']:8.3f} {ratio:8.2f}"
    errors = (row["error"], row["diagonal_error"], row["near_duplicate_error"])
    print(line + "".join(f" {error:9.1e}" for error in errors), flush=True)


def growth(options: Any) -> list[dict[str, Any]]:
    """Time of `limit_gram` (softplus, depth 3) against n; the last has its smallest eigenvalue computed too."""
    sizes = (100, 200, 400) if options.quick else GROWTH
    rows = []
    for n in sizes:
        job = {
            "activation": "softplus", "depth": 3, "pairs": [[0, 0]], "rounds": options.rounds,
            "budget": options.limit / 3, "memory": int(options.bytes), "eigenvalue": n == sizes[-1],
        }  # fmt: skip
        answer = child(
            "", "wideproof_limits.py", job, points(n, near_duplicate=False), options, limit=3 * options.limit
        )
        rows.append({"n": n, **answer})
        print(f"n {n:6}: " + (answer.get("failed") or ", ".join(
            f"{key} {answer[key]:.4g}" for key in answer if isinstance(answer[key], float)
        )), flush=True)  # fmt: skip
    done = [row for row in rows if "seconds" in row]
    if len(done) > 1:
        slope = np.polyfit(np.log([r["n"] for r in done]), np.log([r["seconds"] for r in done]), 1)[0]
        print(f"seconds grow like n^{slope:.2f}")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--methods", nargs="*", help="beginnings of the methods' names")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=600, help="seconds for one method")
    parser.add_argument("--memory", type=float, default=20, help="GiB of resident memory for one method")
    parser.add_argument("--bytes", type=float, default=2e9, help="`memory` given to limit_gram with --large")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, a smoke run")
    parser.add_argument("--large", action="store_true", help="growth up to n = 20000 too")
    parser.add_argument("--json", type=Path, help="by default results/limits.json, of full runs only")
    add_interpreters(parser, "neural-tangents")
    options = parser.parse_args()
    options.pythons = {"": sys.executable, "neural-tangents": interpreter(options, "neural-tangents")}
    print(machine())
    print(f"{'':9} {'n':>6} {'depth':>5} {'method':20} {'seconds':>9} {'first':>9} {'GB':>8} {'/ ours':>8}"
          f" {'error':>9} {'diagonal':>9} {'near dup.':>9}")  # fmt: skip
    sizes = QUICK if options.quick else CASES
    rows = [row for name in options.cases for row in compare(name, *sizes[name], options)]
    result: dict[str, Any] = {
        "machine": machine(),
        "versions": installed("wideproof", "jax", "jaxlib", "numpy", "scipy", "mpmath"),
        "rows": rows,
    }
    if options.large:
        result["growth"] = growth(options)
    full = not options.quick and not options.methods and options.cases == list(CASES)
    if options.json or full:
        write_json(options.json or RESULTS / "limits.json", result)


if __name__ == "__main__":
    main()
