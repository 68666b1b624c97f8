"""Seconds and peak memory of finite-width Gram matrices: wideproof, neural-tangents, nngeometry, torch.func.

    python benchmarks/gram.py [--precision float64 float32] [--cases fc-1000-1 ...] [--methods wideproof ...] [--quick]

All methods get the same weights and data, in one run. Each (method, case) has a fresh process, a time limit and a
memory limit; seconds are the best warm call, `first` is the first call with compilation, GB is the peak of resident
memory above what was resident before the calls. Every result is held to an independent one: the gradients of ten
examples by `jax.jacrev` in float64, and its trace to ours; `diff` is the largest difference relative to the largest
entry, WRONG if above 1e-10 (float64) or 1e-6 (float32). `floor` is the time of the counted operations (see
`operations`) at the best matrix-product rate that NumPy, XLA or PyTorch reach in this run.

neural-tangents: the network as a plain JAX function, its three implementations. `transposed` stores weights as PyTorch
does and writes x @ W.T (convolutions: `lax.conv`), which hides the product from its structured derivatives.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from peers.common import (
    PEERS,
    RESULTS,
    TOLERANCE,
    add_interpreters,
    interpreter,
    machine,
    run_child,
    save_job,
    write_json,
)
from peers.common import versions as installed
from sklearn.datasets import load_digits

from wideproof.networks import ConvResidual, ElmanRNN, FullyConnected, Network, get_activation

try:
    torch: Any = importlib.import_module("torch")
except ImportError:  # then it is left out of the GEMM rate
    torch = None

KINDS: dict[str, Callable[..., Network]] = {"fc": FullyConnected, "rnn": ElmanRNN, "conv": ConvResidual}
FC = {"input_dim": 64, "width": 1024, "depth": 3}
CASES: dict[str, tuple[str, int, dict[str, int]]] = {
    "fc-1000-1": ("fc", 1000, {**FC, "outputs": 1}),
    "fc-1000-10": ("fc", 1000, {**FC, "outputs": 10}),
    "fc-4000-1": ("fc", 4000, {**FC, "outputs": 1}),
    "fc-4000-10": ("fc", 4000, {**FC, "outputs": 10}),
    "rnn": ("rnn", 200, {"input_dim": 16, "width": 512, "length": 16}),
    "conv": ("conv", 300, {"channels": 1, "pixels": 64, "width": 128, "depth": 4}),
}
SMALL = {"input_dim": 8, "width": 32, "depth": 3}
QUICK: dict[str, tuple[str, int, dict[str, int]]] = {
    "fc-1": ("fc", 60, {**SMALL, "outputs": 1}),
    "fc-3": ("fc", 60, {**SMALL, "outputs": 3}),
    "rnn": ("rnn", 20, {"input_dim": 4, "width": 32, "length": 5}),
    "conv": ("conv", 20, {"channels": 1, "pixels": 64, "width": 8, "depth": 3}),
}
# Name in the table: environment, script, what the script is told.
METHODS: dict[str, tuple[str, str, str]] = {
    "wideproof": ("", "wideproof_gram.py", ""),
    "nt structured": ("neural-tangents", "neural_tangents_gram.py", "structured"),
    "nt structured, batched": ("neural-tangents", "neural_tangents_gram.py", "structured:batched"),
    "nt structured, transposed": ("neural-tangents", "neural_tangents_gram.py", "structured:transposed"),
    "nt jacobian": ("neural-tangents", "neural_tangents_gram.py", "jacobian"),
    "nt jacobian, transposed": ("neural-tangents", "neural_tangents_gram.py", "jacobian:transposed"),
    "nt ntk-vector": ("neural-tangents", "neural_tangents_gram.py", "ntk-vector"),
    "nngeometry": ("torch", "torch_gram.py", "nngeometry"),
    "torch.func jacobian": ("torch", "torch_gram.py", "torch.func jacobian"),
    "torch.func ntk-vector": ("torch", "torch_gram.py", "torch.func ntk-vector"),
}


def problem(kind: str, n: int, sizes: dict[str, int], precision: str) -> tuple[Network, dict[str, np.ndarray]]:
    """Return the network and the arrays of all methods: its weights and the data, `x`."""
    network = KINDS[kind](**sizes)
    rng = np.random.default_rng(0)
    x = (
        load_digits(return_X_y=True)[0][:n].reshape(n, 1, 64)
        if kind == "conv"
        else rng.normal(size=(n, *network.input_shape))
    )
    x = x / np.linalg.norm(x.reshape(n, -1), axis=1).reshape(n, *[1] * (x.ndim - 1))
    arrays = {**network.init(0), "x": x}
    return network, {name: np.asarray(array).astype(precision) for name, array in arrays.items()}


def truth(network: Network, arrays: dict[str, np.ndarray], sample: list[int]) -> np.ndarray:
    """Return the Gram matrix of the sampled examples from their gradients, in float64."""
    with jax.enable_x64(True):
        weights = {name: jnp.asarray(a, jnp.float64) for name, a in arrays.items()}
        x = weights.pop("x")[jnp.asarray(sample)]

        def outputs(trained: dict[str, jax.Array], one: jax.Array) -> jax.Array:
            linear = network.linear({**weights, **trained})
            return network.scored(network.forward(linear, one[None]).outputs).ravel()

        trained = {name: weights[name] for name in network.trained_names}
        total = np.zeros(())
        for name in trained:  # one weight at a time: a Jacobian of all would need more memory than the methods do
            jacobian = jax.jacrev(lambda w, one, name=name: outputs({name: w}, one))
            rows = [np.asarray(jacobian(trained[name], one)).reshape(-1, trained[name].size) for one in x]
            flat = np.concatenate(rows)
            total = total + flat @ flat.T
        return total


def operations(kind: str, n: int, sizes: dict[str, int]) -> float:
    """Multiplications and additions of the matrix products of one symmetric Gram matrix, the cheaper of two ways.

    A weight with fan-in u and fan-out b is used at T positions, P of its T K (position, output) pairs are not zero:
      in pairs      n^2 T^2 u + n^2 P^2 b             (inner products of inputs and of cotangents, half of each)
      in gradients  2 n P u b + (n K)^2 u b           (gradients first, then half of their inner products)
    The read-out needs n^2 u only, its cotangents being the identity. Passes: 2 n T u b forward; backward the same for
    every output and every use that the chain goes through (none below the first hidden layer).
    """
    m, k = sizes["width"], sizes.get("outputs", 1)
    if kind == "rnn":
        steps = sizes["length"] - 1
        pairs = steps * (steps + 1) // 2
        passes = 2 * n * ((steps + 1) * m * (sizes["input_dim"] + k) + steps * m * m)
        passes += 2 * n * (pairs - steps) * m * m
        return passes + _weight(n, steps * k, m, m, steps, pairs * k)
    depth, positions, window = sizes["depth"], sizes.get("pixels", 1), 3 if kind == "conv" else 1
    first = window * sizes.get("channels", sizes.get("input_dim", 0))
    fans = [first] + [window * m] * (depth - 1)
    forward = 2 * n * positions * (sum(fans) * m + m * k)
    backward = k * 2 * n * positions * sum(fans[1:]) * m
    products = sum(_weight(n, k, u, m, positions, positions * k) for u in fans)
    return forward + backward + products + n**2 * m * positions


def _weight(n: int, k: int, u: int, b: int, positions: int, pairs: int) -> float:
    in_pairs = n**2 * (positions**2 * u + pairs**2 * b)
    in_gradients = 2 * n * pairs * u * b + (n * k) ** 2 * u * b
    return min(in_pairs, in_gradients)


def gemm_rate(precision: str, rounds: int, quick: bool) -> float:
    """Operations per second of the fastest product of two matrices, by NumPy, XLA or PyTorch."""
    rng = np.random.default_rng(0)
    best = 0.0
    for n, m in [(200, 128)] if quick else [(2000, 1024), (4000, 1024)]:
        a, b = (rng.normal(size=shape).astype(precision) for shape in ((n, m), (m, n)))
        with jax.enable_x64(True):
            ja, jb, times = jnp.asarray(a), jnp.asarray(b), jax.jit(jnp.matmul)
            calls: list[Callable[[], object]] = [lambda: a @ b, lambda: times(ja, jb).block_until_ready()]  # noqa: B023
            if torch is not None:
                ta, tb = torch.from_numpy(a), torch.from_numpy(b)
                calls.append(lambda: ta @ tb)  # noqa: B023
            for call in calls:
                call()
                for _ in range(rounds):
                    start = time.perf_counter()
                    call()
                    best = max(best, 2 * n * n * m / (time.perf_counter() - start))
    return best


def judge(answer: dict[str, Any], exact: np.ndarray, trace: float | None, precision: str) -> str:
    """Put the largest relative difference into the answer; return what is wrong with it, if anything."""
    if "failed" in answer:
        return answer["failed"]
    sample = np.array(answer.pop("sample"))
    answer["difference"] = difference = float(np.max(np.abs(sample - exact)) / np.max(np.abs(exact)))
    if trace:  # of two rounded results, so half of their difference counts
        answer["trace_difference"] = abs(answer["trace"] / trace - 1)
        difference = max(difference, answer["trace_difference"] / 2)
    return "" if difference <= TOLERANCE[precision] else "WRONG"


def run_case(name: str, case: tuple[str, int, dict[str, int]], precision: str, rate: float, options: Any) -> list[dict]:
    kind, n, sizes = case
    network, arrays = problem(kind, n, sizes, precision)
    outputs = sizes["length"] - 1 if kind == "rnn" else sizes.get("outputs", 1)
    sample = [*range(5), *np.random.default_rng(1).choice(np.arange(5, n), 5, replace=False).tolist()]
    exact = truth(network, arrays, sample)
    softplus = get_activation("softplus")
    job = {
        "kind": kind, "sizes": sizes, "precision": precision, "rounds": options.rounds, "budget": options.limit / 3,
        "count": outputs, "sample": sample, "activation": "softplus", "c_sigma": softplus.c_sigma,
        "c_res": getattr(network, "c_res", None), "filter_size": getattr(network, "filter_size", None),
        "batch": next(b for b in (250, 100, 20) if n % b == 0),
    }  # fmt: skip
    floor = operations(kind, n, sizes) / rate
    rows: list[dict[str, Any]] = []
    trace = None
    with tempfile.TemporaryDirectory() as folder:
        for method in options.methods:
            environment, script, told = METHODS[method]
            python = options.pythons[environment]
            if python is None:
                answer: dict[str, Any] = {"failed": f"no {environment}"}
            else:
                files = save_job(folder, {**job, "method": told}, arrays)
                answer = run_child([python, str(PEERS / script), *files], options.limit, options.memory)
            status = judge(answer, exact, trace, precision)
            if method == "wideproof" and not status:
                trace = answer["trace"]
            rows.append({"case": name, "method": method, "status": status, "floor_seconds": floor, **answer})
            show(rows[-1], rows[0])
    rows.append({"case": name, "method": "floor", "status": "", "seconds": floor})
    show(rows[-1], rows[0])
    others = [r for r in rows[:-1] if r["method"].startswith("nt") and not r["status"]]
    if others:
        best = min(others, key=lambda r: r["seconds"])
        print(f"{name:12} best of neural-tangents: {best['method']}", flush=True)
    return rows


def show(row: dict[str, Any], ours: dict[str, Any]) -> None:
    line = f"{row['case']:12} {row['method']:26}"
    if "seconds" not in row:
        print(f"{line} {row['status']}", flush=True)
        return
    base = ours.get("seconds", np.nan) if ours["method"] == "wideproof" else np.nan
    line += f" {row['seconds']:9.4g}"
    if row["method"] == "floor":
        print(f"{line} {'':9} {'':8} {row['seconds'] / base:8.2f}", flush=True)
        return
    line += f" {row['first_seconds']:9.4g} {row['peak_gb']:8.3f} {row['seconds'] / base:8.2f}"
    line += f" {row['seconds'] / row['floor_seconds']:8.2f} {row['difference']:8.1e} {row['status']}"
    print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--precision", nargs="*", default=["float64", "float32"], choices=list(TOLERANCE))
    parser.add_argument("--cases", nargs="*")
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=300, help="seconds for one (method, case)")
    parser.add_argument("--memory", type=float, default=20, help="GiB of resident memory for one (method, case)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, a smoke run")
    parser.add_argument("--out", type=Path, help="folder of the results; by default written by full runs only")
    add_interpreters(parser, "neural-tangents", "torch")
    options = parser.parse_args()
    cases = QUICK if options.quick else CASES
    chosen = options.cases or list(cases)
    if set(chosen) - set(cases):
        parser.error(f"cases are {', '.join(cases)}")
    pythons: dict[str, str | None] = {"": sys.executable}
    for environment in {METHODS[method][0] for method in options.methods} - {""}:
        pythons[environment] = interpreter(options, environment)
    options.pythons = pythons
    full = not options.quick and chosen == list(cases) and options.methods == list(METHODS)
    out = options.out or (RESULTS if full else None)
    print(machine())
    for precision in options.precision:
        rate = gemm_rate(precision, max(options.rounds, 5), options.quick)
        print(f"\n{precision}, best matrix product {rate / 1e9:.1f} GFLOP/s")
        columns = "".join(f"{c:>9}" for c in ("GB", "/ ours", "/ floor", "diff"))
        print(f"{'case':12} {'method':26} {'seconds':>9} {'first':>9}{columns}")
        rows = [row for name in chosen for row in run_case(name, cases[name], precision, rate, options)]
        if out:
            result = {
                "machine": machine(), "versions": installed("wideproof", "jax", "jaxlib", "numpy", "torch"),
                "precision": precision, "gemm_gflops": rate / 1e9, "limit_seconds": options.limit,
                "memory_gib": options.memory, "sizes": {name: cases[name] for name in chosen}, "rows": rows,
            }  # fmt: skip
            write_json(out / f"gram-{precision}.json", result)


if __name__ == "__main__":
    main()
