"""Seconds, peak memory and error of Gram matrices of Flax and Equinox models, beside `jax.jacrev`, in float64.

    python benchmarks/functions.py [--cases flax-mlp ...] [--methods wideproof jacrev jacrev-batch] [--rows 500]

`wideproof` is `gram(f, params, x)` with its default memory. `jacrev` maps `jax.jacrev` over the examples and multiplies
the whole Jacobian; `jacrev-batch` is `jax.jacrev` of the batch. Each has a process and a time limit of its own. `first`
is the first call with compilation, `again` the better of two more, GB the peak of resident memory above that before the
calls, `diff` the largest difference from `jacrev` relative to the largest entry.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

METHODS = ("wideproof", "jacrev", "jacrev-batch")
LIMIT_S, LIMIT_BYTES = 240, 10 << 30


def flax_mlp() -> tuple[Callable[..., Any], Any, tuple[int, ...]]:
    import jax
    from flax import linen as nn  # pyright: ignore[reportMissingImports]

    layers: list[Any] = [nn.Dense(512), nn.tanh, nn.Dense(512), nn.tanh, nn.Dense(512), nn.tanh, nn.Dense(1)]
    model = nn.Sequential(layers)
    return model.apply, model.init(jax.random.key(0), np.zeros((1, 64))), (64,)


def flax_cnn() -> tuple[Callable[..., Any], Any, tuple[int, ...]]:
    import jax
    from flax import linen as nn  # pyright: ignore[reportMissingImports]

    def pool(x: Any) -> Any:
        return nn.avg_pool(x, (2, 2), strides=(2, 2))

    def flat(x: Any) -> Any:
        return x.reshape(len(x), -1)

    layers: list[Any] = [nn.Conv(32, (3, 3)), nn.relu, pool, nn.Conv(64, (3, 3)), nn.relu, pool, flat, nn.Dense(1)]
    model = nn.Sequential(layers)
    return model.apply, model.init(jax.random.key(0), np.zeros((1, 8, 8, 1))), (8, 8, 1)


def nnx_mlp() -> tuple[Callable[..., Any], Any, tuple[int, ...]]:
    from flax import nnx  # pyright: ignore[reportMissingImports]

    rngs = nnx.Rngs(0)
    layers: list[Any] = [nnx.Linear(64, 256, rngs=rngs), nnx.gelu, nnx.Linear(256, 1, rngs=rngs)]
    graph, params = nnx.split(nnx.Sequential(*layers))
    return lambda params, x: nnx.merge(graph, params)(x), params, (64,)


def equinox_mlp() -> tuple[Callable[..., Any], Any, tuple[int, ...]]:
    import equinox as eqx  # pyright: ignore[reportMissingImports]
    import jax

    model = eqx.nn.MLP(64, 1, width_size=256, depth=3, activation=jax.nn.softplus, key=jax.random.key(0))
    params, static = eqx.partition(model, eqx.is_array)
    return lambda params, x: jax.vmap(eqx.combine(params, static))(x), params, (64,)


CASES = {
    "flax-mlp": ("flax", flax_mlp), "flax-cnn": ("flax", flax_cnn), "nnx-mlp": ("flax", nnx_mlp),
    "equinox-mlp": ("equinox", equinox_mlp),
}  # fmt: skip


def measure(case: str, method: str, rows: int, folder: Path) -> None:
    """Write the matrix and the figures of one method, in a process of its own."""
    import jax
    from sklearn.datasets import load_digits

    import wideproof as wp

    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT_BYTES, LIMIT_BYTES))
    jax.config.update("jax_enable_x64", True)
    function, params, shape = CASES[case][1]()
    params = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)
    x = load_digits(return_X_y=True)[0][:rows].reshape(rows, *shape) / 16
    call = {
        "wideproof": lambda: wp.gram(function, params, x),
        "jacrev": lambda: by_examples(params, x),
        "jacrev-batch": lambda: by_batch(params, x),
    }[method]

    @jax.jit
    def by_examples(params: Any, x: Any) -> Any:
        return product(jax.vmap(lambda one: jax.jacrev(lambda p: function(p, one[None]).ravel())(params))(x))

    @jax.jit
    def by_batch(params: Any, x: Any) -> Any:
        return product(jax.jacrev(lambda p: function(p, x).ravel())(params))

    def product(jacobian: Any) -> Any:
        leaves = [leaf.reshape(rows, -1) for leaf in jax.tree.leaves(jacobian)]
        return sum(leaf @ leaf.T for leaf in leaves)

    jax.block_until_ready(jax.jit(lambda x: x @ x)(np.eye(4)))
    before, seconds = resident(), []
    found: Any = None
    for _ in range(3):
        start = time.perf_counter()
        found = call()
        np.asarray(found)
        seconds.append(time.perf_counter() - start)
    told = {"first": seconds[0], "again": min(seconds[1:]), "gb": (peak() - before) / 1e9,
            "parameters": sum(leaf.size for leaf in jax.tree.leaves(params))}  # fmt: skip
    if method == "wideproof":
        told |= {"error": found.error, "verdict": str(wp.spectrum(found))}
    np.save(folder / f"{method}.npy", np.asarray(found))
    (folder / f"{method}.json").write_text(json.dumps(told))


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * float(resource.getpagesize())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--one", nargs=3, metavar=("CASE", "METHOD", "FOLDER"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        measure(asked.one[0], asked.one[1], asked.rows, Path(asked.one[2]))
        return
    print(f"{'case':12} {'method':13} {'first s':>8} {'again s':>8} {'GB':>6} {'diff':>8}")
    for case in asked.cases:
        package = CASES[case][0]
        if importlib.util.find_spec(package) is None:
            print(f"{case:12} needs {package}: pip install {package}")
            continue
        with tempfile.TemporaryDirectory() as name:
            show(case, asked.methods, asked.rows, Path(name))


def show(case: str, methods: list[str], rows: int, folder: Path) -> None:
    facts = {}
    for method in methods:
        command = [sys.executable, __file__, "--rows", str(rows), "--one", case, method, str(folder)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
            facts[method] = done.stderr.strip().splitlines()[-1][:80] if done.returncode else ""
        except subprocess.TimeoutExpired:
            facts[method] = f"more than {LIMIT_S} s"
    known = np.load(folder / "jacrev.npy") if (folder / "jacrev.npy").exists() else None
    last = {}
    for method in methods:
        if not (folder / f"{method}.json").exists():
            print(f"{case:12} {method:13} {facts[method]}")
            continue
        told = json.loads((folder / f"{method}.json").read_text())
        last = told if "verdict" in told else last
        off = "" if known is None else f"{np.abs(np.load(folder / f'{method}.npy') - known).max() / known.max():8.1e}"
        print(f"{case:12} {method:13} {told['first']:8.2f} {told['again']:8.2f} {told['gb']:6.2f} {off}", flush=True)
    if last:
        print(f"  {last['parameters']} parameters, off by at most {last['error']:.2g}: {last['verdict']}", flush=True)


if __name__ == "__main__":
    main()
