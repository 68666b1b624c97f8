"""Steps per second of `wideproof.train` against a plain PyTorch loop, a plain JAX loop and the machine's GEMM rate.

    python benchmarks/training.py [--json FILE] [--activation softplus ...] [--case tiny ...] [--quick]

Same network (Du et al. 2019, eq. 2), data, dtype and step size for all, in one run, rounds interleaved, best round
of each. PyTorch is used if it is installed (`pip install torch`). The GEMM rate is the best that NumPy's BLAS or XLA
reach on the three products of a hidden layer, so the last column says how much of the machine the whole step uses.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from wideproof.data import Dataset
from wideproof.networks import FullyConnected, get_activation
from wideproof.training import Measure, Recipe, train, train_many

try:
    torch: Any = importlib.import_module("torch")
except ImportError:  # the comparison is then left out, and the table says so
    torch = None

CASES = {"tiny": (20, 64, 2, 20_000, 1_000), "small": (100, 256, 3, 800, 200), "large": (500, 2048, 3, 16, 8)}
QUICK = {"tiny": (20, 64, 2, 200, 20)}
INPUT_DIM = 10


def problem(n: int, width: int, depth: int, activation: str) -> tuple[FullyConnected, Dataset]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, INPUT_DIM))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    network = FullyConnected(INPUT_DIM, width, depth, get_activation(activation))
    return network, Dataset(x, y, "binary", name="random")


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def ours(network: FullyConnected, data: Dataset, precision: str, steps: int, **options) -> Callable[[], float]:
    recipe = Recipe(step_size=1e-3, steps=steps, precision=precision, record_every=10**9)

    def run() -> float:
        done = train(network, data, recipe, **options)
        return done.seconds / (done.step + 1)  # the loss after the last step is one more evaluation

    train(network, data, Recipe(step_size=1e-3, steps=2, precision=precision, record_every=10**9), **options)
    return run


def plain_jax(network: FullyConnected, data: Dataset, precision: str, steps: int) -> Callable[[], float]:
    """What one writes by hand: `jax.jit` of a step with `jax.value_and_grad`, called from a Python loop."""
    functions = {"softplus": jax.nn.softplus, "tanh": jnp.tanh, "relu": jax.nn.relu}
    sigma = functions[network.activation.name]
    scale = float(np.sqrt(network.activation.c_sigma / network.width))

    def loss(params: dict, x: jax.Array, y: jax.Array) -> jax.Array:
        for h in range(1, network.depth + 1):
            x = scale * sigma(x @ params[f"W{h}"].T)
        return 0.5 * jnp.sum((x @ params["a"] - y) ** 2)

    @jax.jit
    def step(params: dict, x: jax.Array, y: jax.Array, step_size: float) -> tuple[dict, jax.Array]:
        value, grad = jax.value_and_grad(loss)(params, x, y)
        return jax.tree.map(lambda p, g: p - step_size * g, params, grad), value

    def run(steps: int = steps) -> float:
        with jax.enable_x64(True):
            x, y = (jnp.asarray(a, precision) for a in (data.x, data.y))
            step_size = np.dtype(precision).type(1e-3)

            def go() -> None:
                params = network.init(0, precision)
                for _ in range(steps):
                    params, value = step(params, x, y, step_size)
                jax.block_until_ready((params, value))

            return seconds(go) / steps

    run(2)
    return run


def plain_torch(network: FullyConnected, data: Dataset, precision: str, steps: int) -> Callable[[], float]:
    functions = {"softplus": torch.nn.functional.softplus, "tanh": torch.tanh, "relu": torch.relu}
    sigma = functions[network.activation.name]
    scale = float(np.sqrt(network.activation.c_sigma / network.width))
    dtype = getattr(torch, precision)
    x, y = (torch.tensor(np.array(a), dtype=dtype) for a in (data.x, data.y))

    def run(steps: int = steps) -> float:
        weights = [torch.tensor(np.array(w), dtype=dtype, requires_grad=True) for w in network.init(0).values()]
        optimizer = torch.optim.SGD(weights, lr=1e-3)

        def go() -> None:
            for _ in range(steps):
                optimizer.zero_grad()
                h = x
                for weight in weights[:-1]:
                    h = scale * sigma(h @ weight.T)
                loss = 0.5 * ((h @ weights[-1] - y) ** 2).sum()
                loss.backward()
                optimizer.step()

        return seconds(go) / steps

    run(2)
    return run


def operations(n: int, width: int, depth: int) -> int:
    """Multiplications and additions of all matrix products of one step, forward and backward."""
    square = 3 * 2 * n * width * width * (depth - 1)
    first = 2 * 2 * n * width * INPUT_DIM
    last = 3 * 2 * n * width
    return square + first + last


def gemm_rate(n: int, width: int, precision: str, rounds: int) -> float:
    """Operations per second of the three products of a hidden layer, each by the faster of NumPy and XLA."""
    rng = np.random.default_rng(0)
    u = rng.normal(size=(n, width)).astype(precision)
    w = rng.normal(size=(width, width)).astype(precision)
    with jax.enable_x64(True):
        ju, jw = jnp.asarray(u), jnp.asarray(w)
        products = [
            (lambda: u @ w.T, jax.jit(lambda u, w: u @ w.T)),
            (lambda: u @ w, jax.jit(lambda u, w: u @ w)),
            (lambda: u.T @ u, jax.jit(lambda u, w: lax.optimization_barrier(u.T) @ u)),
        ]
        repeat = max(1, int(2e9 / (2 * n * width * width)))
        total = 0.0
        for blas, xla in products:
            xla(ju, jw)

            def by_blas(blas: Callable = blas) -> None:
                for _ in range(repeat):
                    blas()

            def by_xla(xla: Callable = xla) -> None:
                for _ in range(repeat):
                    out = xla(ju, jw)
                out.block_until_ready()

            total += min(seconds(f) for _ in range(rounds) for f in (by_blas, by_xla)) / repeat
    return 3 * 2 * n * width * width / total


def _output(i: int) -> Measure:
    return lambda state, info: info.outputs[i]


TEN = {f"output{i}": _output(i) for i in range(8)}


def recording(network: FullyConnected, data: Dataset, precision: str, steps: int, rounds: int) -> float:
    """Cost of recording ten scalars at every step (loss, error and eight outputs), relative to recording none."""
    bare = Recipe(step_size=1e-3, steps=steps, precision=precision, record_every=10**9)
    full = Recipe(step_size=1e-3, steps=steps, precision=precision, record_every=1)
    calls = [lambda: train(network, data, bare).seconds, lambda: train(network, data, full, record=TEN).seconds]
    best = [np.inf, np.inf]
    for call in calls:
        call()
    for _ in range(rounds):
        best = [min(b, call()) for b, call in zip(best, calls, strict=True)]
    return best[1] / best[0] - 1


def seeds(precision: str, rounds: int, steps: int, count: int) -> dict[str, float]:
    """Seconds for some seeds of the tiny case: one `train` after another, side by side, batched."""
    n, width, depth, _, _ = CASES["tiny"]
    network, data = problem(n, width, depth, "softplus")
    recipe = Recipe(step_size=1e-3, steps=steps, precision=precision, record_every=10**9)
    ways: dict[str, Callable[[], object]] = {
        "one by one": lambda: [
            train(network, data, Recipe(**{**recipe.to_config(), "seed": seed})) for seed in range(count)
        ],
        "loop": lambda: train_many(network, data, recipe, seeds=range(count), how="loop"),
        "batch": lambda: train_many(network, data, recipe, seeds=range(count), how="batch"),
        "auto": lambda: train_many(network, data, recipe, seeds=range(count)),
    }
    for way in ways.values():
        way()
    return {name: min(seconds(way) for _ in range(rounds)) for name, way in ways.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--activation", nargs="*", default=["softplus", "tanh"])
    parser.add_argument("--case", nargs="*", choices=list(CASES))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--no-seeds", action="store_true")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, a smoke run")
    options = parser.parse_args()
    cases, (seed_steps, count) = (QUICK, (50, 4)) if options.quick else (CASES, (3000, 32))
    chosen, rounds = options.case or list(cases), options.rounds or (1 if options.quick else 5)
    if set(chosen) - set(cases):
        parser.error(f"cases of --quick are {', '.join(cases)}")
    versions = {"jax": jax.__version__, "torch": getattr(torch, "__version__", None), "numpy": np.__version__}
    print(f"{platform.processor() or platform.machine()}, {jax.devices()[0].device_kind}; {versions}")
    print(f"{'case':6} {'dtype':8} {'activation':10} {'ours':>10} {'JAX':>10} {'PyTorch':>10} steps/s"
          f"  {'x JAX':>6} {'x torch':>7} {'GFLOP/s':>8} {'of GEMM':>8} {'10 scalars':>10}")  # fmt: skip
    rows = []
    for case in chosen:
        n, width, depth, steps, slow_steps = cases[case]
        for precision in ("float32", "float64"):
            rate = gemm_rate(n, width, precision, rounds)
            for activation in options.activation:
                network, data = problem(n, width, depth, activation)
                ways = {
                    "ours": ours(network, data, precision, steps),
                    "jax": plain_jax(network, data, precision, slow_steps),
                }
                if torch is not None:
                    ways["torch"] = plain_torch(network, data, precision, slow_steps)
                best = dict.fromkeys(ways, np.inf)
                for _ in range(rounds):
                    best = {name: min(best[name], way()) for name, way in ways.items()}
                flops = operations(n, width, depth) / best["ours"]
                cost = recording(network, data, precision, steps, rounds * (3 if case == "tiny" else 1))
                row = {
                    "case": case, "precision": precision, "activation": activation,
                    **{f"{name}_steps_per_second": 1 / value for name, value in best.items()},
                    "gflops": flops / 1e9, "gemm_gflops": rate / 1e9, "of_gemm": flops / rate, "recording": cost,
                }  # fmt: skip
                rows.append(row)
                torch_rate = 1 / best["torch"] if "torch" in best else np.nan
                print(f"{case:6} {precision:8} {activation:10} {1 / best['ours']:10.1f} {1 / best['jax']:10.1f}"
                      f" {torch_rate:10.1f}         {best['jax'] / best['ours']:6.2f}"
                      f" {1 / (best['ours'] * torch_rate):7.2f} {flops / 1e9:8.1f} {flops / rate:8.2f}"
                      f" {100 * cost:9.1f}%", flush=True)  # fmt: skip
    result = {"versions": versions, "rows": rows}
    if not options.no_seeds:
        for precision in ("float32", "float64"):
            result[f"seeds_{precision}"] = times = seeds(precision, rounds, seed_steps, count)
            print(f"{count} seeds, tiny, {precision}: " + ", ".join(
                f"{name} {value:.2f} s ({times['one by one'] / value:.2f}x)" for name, value in times.items()
            ), flush=True)  # fmt: skip
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
