"""Many small kernels by neural-tangents in one process, finite and infinite; started by ../agreement.py."""

# pyright: reportMissingImports=false

from __future__ import annotations

import sys
import warnings

import jax
import jax.numpy as jnp
import neural_tangents as nt
import numpy as np
from common import load_job, report, versions
from neural_tangents_gram import ntk
from neural_tangents_limits import call


def finite(job: dict, arrays: dict) -> dict[str, np.ndarray]:
    """The empirical NTK as a matrix ordered by example, then output."""
    x = arrays.pop("x")
    if job["kind"] == "deep-relu":
        signs = jnp.asarray(arrays.pop("v"))

        def f(params: dict, x: jax.Array) -> jax.Array:
            for i in range(1, len(params) + 1):
                x = jax.nn.relu(x @ params[f"W{i}"])
            return x @ signs[:, None]

        params = {name: jnp.asarray(w) for name, w in arrays.items()}
        kernel = nt.empirical_ntk_fn(f, trace_axes=(), vmap_axes=0, implementation=1)(jnp.asarray(x), None, params)
    else:
        kernel = ntk(job, arrays, x)()
    n, _, k, _ = kernel.shape
    return {"ntk": np.asarray(kernel).transpose(0, 2, 1, 3).reshape(n * k, n * k)}


def infinite(job: dict, arrays: dict) -> dict[str, np.ndarray]:
    return {get: np.asarray(call(job, arrays["x"], get)()) for get in ("ntk", "nngp")}


def main() -> None:
    warnings.simplefilter("ignore")
    jax.config.update("jax_enable_x64", True)
    job, arrays = load_job()
    found = {}
    for i, one in enumerate(job["jobs"]):
        mine = {key.split("/", 1)[1]: a for key, a in arrays.items() if key.startswith(f"{i}/")}
        for get, matrix in (infinite if one["kind"] == "limit" else finite)(one, mine).items():
            found[f"{i}/{get}"] = matrix
    np.savez(sys.argv[3], **found)
    report(versions=versions("neural-tangents", "jax", "jaxlib", "numpy", "scipy"))


if __name__ == "__main__":
    main()
