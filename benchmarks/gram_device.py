"""Gram matrices on a GPU, as a fraction of the machine's own rate of matrix products.

    python benchmarks/gram_device.py [--largest 50000] [--json FILE]

`floor` counts the operations of one symmetric product for each factor (half of 2 n^2 m) and of the passes through the
network, at the rate that a product of 8192 x 8192 matrices reaches in the same arithmetic in this run. Seconds are
the best warm call with the matrix left on the device; `to host` adds the copy into a NumPy array.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from wideproof.kernels import gram, limit_gram
from wideproof.networks import FullyConnected, get_activation

DEPTH, FEATURES = 3, 64
MATMUL = {"float64": "highest", "float32": "highest", "tf32": "tensorfloat32"}


def best(run: Callable[[], object], rounds: int = 3) -> float:
    jax.block_until_ready(run())
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        jax.block_until_ready(run())
        times.append(time.perf_counter() - start)
    return min(times)


def rate(precision: str, size: int = 8192) -> float:
    """Operations per second of a large product in this arithmetic."""
    dtype = "float64" if precision == "float64" else "float32"
    with jax.enable_x64(True), jax.default_matmul_precision(MATMUL[precision]):
        a = jax.random.normal(jax.random.key(0), (size, size), dtype)
        product = jax.jit(lambda a, b: a @ b.T)
        return 2 * size**3 / best(lambda: product(a, a), 5)


def operations(n: int, width: int) -> float:
    """Forward and backward pass, and half of every product of the Gram matrix."""
    passes = 2 * n * width * (FEATURES + 2 * (DEPTH - 1) * width)
    return passes + n * n * (FEATURES + (2 * DEPTH - 1) * width)


def points(n: int) -> np.ndarray:
    x = np.random.default_rng(0).standard_normal((n, FEATURES))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=50_000)
    parser.add_argument("--width", type=int, default=8192)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if jax.default_backend() != "gpu":
        raise SystemExit("this benchmark needs a GPU; for a CPU see benchmarks/gram.py")
    rates = {precision: rate(precision, min(8192, given.width)) for precision in MATMUL}
    rows = []
    network = FullyConnected(FEATURES, given.width, DEPTH)
    params = network.init(0)
    print({precision: f"{r / 1e12:.1f} TFLOP/s" for precision, r in rates.items()}, flush=True)
    cases = [(n, p) for p in ("float32", "tf32") for n in (5_000, 10_000, 20_000, 50_000)] + [(20_000, "float64")]
    for n, precision in cases:
        if n > given.largest:
            continue
        with jax.enable_x64(True):
            dtype = "float64" if precision == "float64" else "float32"
            x, held = jnp.asarray(points(n), dtype), {name: jnp.asarray(w, dtype) for name, w in params.items()}
        found = best(lambda x=x, h=held, p=precision: gram(network, h, x, precision=p, on_device=True).matrix, 2)
        start = time.perf_counter()
        matrix = gram(network, held, x, precision=precision).matrix
        host = time.perf_counter() - start
        del matrix
        floor = operations(n, given.width) / rates[precision]
        rows.append({"n": n, "width": given.width, "precision": precision, "seconds": found, "to host": host,
                     "floor": floor, "fraction of floor": floor / found})  # fmt: skip
        print({key: round(v, 4) if isinstance(v, float) else v for key, v in rows[-1].items()}, flush=True)
    for n in (20_000, 50_000):
        if n > given.largest:
            continue
        x = points(n)
        for name in ("softplus", "relu"):
            limit = FullyConnected(FEATURES, 1, DEPTH, get_activation(name))
            for precision in ("float64", "float32"):
                found = best(lambda x=x, f=limit, p=precision: limit_gram(f, x, precision=p, on_device=True).matrix, 2)
                rows.append({"n": n, "limit": name, "precision": precision, "seconds": found})
                print({key: round(v, 4) if isinstance(v, float) else v for key, v in rows[-1].items()}, flush=True)
    report = {
        "device": jax.devices()[0].device_kind,
        "versions": {"jax": jax.__version__, "python": platform.python_version()},
        "product rates, operations per second": rates,
        "rows": rows,
    }
    if given.json:
        given.json.write_text(json.dumps(report, indent=2) + "\n")
    print(f"{jax.devices()[0].device_kind}, jax {jax.__version__}")


if __name__ == "__main__":
    main()
