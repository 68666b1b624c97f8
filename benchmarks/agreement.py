"""Agreement of our Gram matrices with neural-tangents, to 1e-10, wherever it has the architecture.

    python benchmarks/agreement.py [--neural-tangents-python PATH] [--only finite|limit]

Finite: the empirical NTK of fully-connected networks (1 and 3 outputs) and of Zou's deep ReLU network with its signs
held fixed, same weights. Infinite: NTK and NNGP kernel of fully-connected networks where neural-tangents has a closed
form, depths 1 to 5, inputs of norm 1 and of unequal norms, parallel and opposite inputs among them. The library has no
layer that is not trained; for Zou's network the read-out's part of its NTK, the NNGP kernel, is taken off.

Its ReLU kernels take an angle from a square root of 1 - rho^2, which leaves half of the digits where two inputs are
parallel, on the diagonal too: those entries are held to mpmath (the closed form at 30 digits), and the column
`their parallel` shows how far the library is from it; it does not count. Differences are relative to the largest entry.
Exit status 1 if one is above 1e-10.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from limits import exact
from peers.common import PEERS, add_interpreters, interpreter, run_child, save_job

from wideproof.kernels import gram, limit_gram, nngp
from wideproof.networks import DeepReLU, FullyConnected, get_activation

LIMIT = 1e-10
CLOSED_FORM = ("erf", "relu", "sin", "gelu", "identity")


def inputs(n: int, unit: bool, hard: bool = False) -> np.ndarray:
    """Random inputs; `hard` makes the second opposite and the third parallel to the first."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 5))
    if hard:
        x[1], x[2] = -1.5 * x[0], 0.5 * x[0]
    return x / np.linalg.norm(x, axis=1, keepdims=True) if unit else x


def finite_jobs() -> list[tuple[str, dict[str, Any], dict[str, np.ndarray], dict[str, Any]]]:
    """Name, job, arrays, and our matrices by kernel."""
    jobs = []
    for activation in ("softplus", "tanh", "erf"):
        for outputs in (1, 3):
            sizes = {"input_dim": 5, "width": 48, "depth": 3, "outputs": outputs}
            network = FullyConnected(5, 48, 3, get_activation(activation), outputs)
            params, x = network.init(0), inputs(12, unit=False)
            job = {
                "kind": "fc", "method": "structured", "sizes": sizes, "activation": activation,
                "c_sigma": network.activation.c_sigma,
            }  # fmt: skip
            ours = {"ntk": np.asarray(gram(network, params, x))}
            jobs.append((f"finite {activation}, {outputs} outputs", job, {**params, "x": x}, ours))
    for depth in (1, 3):
        network = DeepReLU(5, 48, depth)
        params, x = network.init(0), inputs(12, unit=True)
        ours = {"ntk": np.asarray(gram(network, params, x))}
        jobs.append((f"finite deep-relu, depth {depth}", {"kind": "deep-relu"}, {**params, "x": x}, ours))
    return jobs


def limit_jobs() -> list[tuple[str, dict[str, Any], dict[str, np.ndarray], dict[str, Any]]]:
    jobs = []
    for activation in CLOSED_FORM:
        for depth in range(1, 6):
            for unit in (True, False):
                sigma = get_activation(activation)
                network = FullyConnected(5, 8, depth, sigma)
                x = inputs(12, unit, hard=True)
                job = {"kind": "limit", "activation": activation, "depth": depth, "c_sigma": sigma.c_sigma}
                ours = {"ntk": np.asarray(limit_gram(network, x)), "nngp": np.asarray(nngp(network, x))}
                name = f"limit {activation}, depth {depth}, {'unit' if unit else 'unequal'} norms"
                jobs.append((name, job, {"x": x}, ours))
    for depth in (1, 3, 5):
        x = inputs(12, unit=True, hard=True)
        job = {"kind": "limit", "activation": "relu", "depth": depth, "c_sigma": 2.0}
        # ReLU being homogeneous, Zou's function is Du's with W = sqrt(2/m) omega, omega the weights of Du: its Gram
        # matrix is m/2 times the NTK without the read-out. The NNGP kernels differ, since Zou's signs are balanced.
        width = 8
        ours = {"hidden": np.asarray(limit_gram(DeepReLU(5, width, depth), x)) / (width / 2)}
        jobs.append((f"limit deep-relu, depth {depth}, hidden", job, {"x": x}, ours))
    return jobs


def difference(a: np.ndarray, b: np.ndarray) -> float:
    gap = np.max(np.abs(a - b)) / np.max(np.abs(b))
    return float(gap) if np.isfinite(gap) else np.inf


def at_parallel(matrix: np.ndarray, x: np.ndarray, depth: int, get: str) -> tuple[np.ndarray, float]:
    """Put the exact values into the entries of parallel inputs; return the new matrix and how far it moved."""
    directions = x / np.linalg.norm(x, axis=1, keepdims=True)
    pairs = np.argwhere(np.abs(directions @ directions.T) > 1 - 1e-12)
    ntk, covariance = (np.array(kernel, float) for kernel in exact("relu", depth, x, pairs.tolist()))
    better = matrix.copy()
    better[tuple(pairs.T)] = {"ntk": ntk, "nngp": covariance, "hidden": ntk - covariance}[get]
    return better, difference(matrix, better)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["finite", "limit"])
    parser.add_argument("--limit", type=float, default=600, help="seconds for neural-tangents")
    add_interpreters(parser, "neural-tangents")
    options = parser.parse_args()
    python = interpreter(options, "neural-tangents")
    if python is None:
        return 2
    jobs = [*(finite_jobs() if options.only != "limit" else []), *(limit_jobs() if options.only != "finite" else [])]
    with tempfile.TemporaryDirectory() as folder:
        arrays = {f"{i}/{key}": np.asarray(a) for i, job in enumerate(jobs) for key, a in job[2].items()}
        files = save_job(folder, {"jobs": [job[1] for job in jobs]}, arrays)
        out = str(Path(folder, "out.npz"))
        answer = run_child([python, str(PEERS / "neural_tangents_agreement.py"), *files, out], options.limit, 8)
        if "failed" in answer:
            print(f"neural-tangents: {answer['failed']}")
            return 2
        with np.load(out) as found:
            theirs = {key: found[key] for key in found.files}
    print(f"neural-tangents: {answer['versions']}")
    worst = 0.0
    for i, (name, job, arrays, ours) in enumerate(jobs):
        if "hidden" in ours:
            theirs[f"{i}/hidden"] = theirs[f"{i}/ntk"] - theirs[f"{i}/nngp"]
        shown = {}
        for get, matrix in ours.items():
            other = theirs[f"{i}/{get}"]
            if job.get("activation") == "relu" and job["kind"] == "limit":
                other, shown[f"their parallel {get}"] = at_parallel(other, arrays["x"], job["depth"], get)
            shown[get] = difference(matrix, other)
            worst = max(worst, shown[get])
        over = any(d > LIMIT for get, d in shown.items() if not get.startswith("their"))
        columns = "  ".join(f"{get} {d:.1e}" for get, d in shown.items())
        print(f"{name:44} {columns}{'  DIFFERS' if over else ''}")
    print(f"largest relative difference {worst:.1e}, allowed {LIMIT:.0e}")
    return 1 if worst > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
