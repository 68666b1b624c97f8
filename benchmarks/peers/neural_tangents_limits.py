"""One infinite-width kernel by neural-tangents, in the parameterization of Du et al. (2019); started by ../limits.py.

Du: x^(h) = sqrt(c/m) sigma(W x^(h-1)), f = a^T x^(H), all entries N(0, 1), no biases. In neural-tangents' "ntk"
parameterization a Dense layer is W_std / sqrt(fan-in) W x: W_std = 1 on sqrt(d) x for the first layer and
W_std = sqrt(c) for all others give the same function of the same weights, so kernels and NTKs are equal.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import warnings
from collections.abc import Callable

import jax
import jax.numpy as jnp
import neural_tangents as nt
import numpy as np
from common import load_job, measure, report, versions
from neural_tangents import stax

LAYERS = {
    "erf": stax.Erf, "relu": stax.Relu, "sin": stax.Sin, "gelu": lambda: stax.Gelu(approximate=False),
    "identity": stax.Identity,
}  # fmt: skip


def kernel(job: dict) -> Callable:
    """Return `(x1, x2, get) -> kernel`; `job["deg"]` asks for Gauss-Hermite quadrature of softplus."""
    root = float(np.sqrt(job["c_sigma"]))
    layers = []
    for h in range(job["depth"]):
        if job.get("deg"):
            sigma = stax.ElementwiseNumerical(jax.nn.softplus, deg=job["deg"], df=jax.nn.sigmoid)
        else:
            sigma = LAYERS[job["activation"]]()
        layers += [stax.Dense(1, W_std=1.0 if h == 0 else root, b_std=None), sigma]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return stax.serial(*layers, stax.Dense(1, W_std=root, b_std=None))[2]


def call(job: dict, x: np.ndarray, get: str) -> Callable[[], jax.Array]:
    points = jnp.asarray(np.sqrt(x.shape[1]) * x)
    function = kernel(job)
    if job.get("batch"):
        batched = nt.batch(function, batch_size=job["batch"], device_count=0)
        return lambda: jax.block_until_ready(batched(points, None, get))
    compiled = jax.jit(lambda points: function(points, None, get))
    return lambda: jax.block_until_ready(compiled(points))


def main() -> None:
    warnings.simplefilter("ignore")
    jax.config.update("jax_enable_x64", True)
    job, arrays = load_job()
    matrix, times = measure(call(job, arrays["x"], "ntk"), job["rounds"], job["budget"])
    i, j = np.array(job["pairs"]).T
    used = versions("neural-tangents", "jax", "jaxlib", "numpy", "scipy")
    report(**times, entries=np.asarray(matrix)[i, j].tolist(), versions=used)


if __name__ == "__main__":
    main()
