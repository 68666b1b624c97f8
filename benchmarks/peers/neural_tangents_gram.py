"""One empirical NTK by neural-tangents, the network as a plain JAX function; started by ../gram.py."""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import neural_tangents as nt
import numpy as np
from common import gram_sample, load_job, measure, report, versions
from jax import lax

SIGMA = {
    "softplus": jax.nn.softplus, "tanh": jnp.tanh, "erf": jax.scipy.special.erf, "sin": jnp.sin,
    "gelu": lambda z: jax.nn.gelu(z, approximate=False), "relu": jax.nn.relu, "identity": lambda z: z,
}  # fmt: skip
METHODS = {"jacobian": 1, "ntk-vector": 2, "structured": 3}


def product(way: str) -> Callable:
    """Return `(x, W) -> x W`: stored as fan-in x fan-out, or as fan-out x fan-in and transposed where it is used."""
    return (lambda x, w: x @ w.T) if way == "transposed" else (lambda x, w: x @ w)


def stored(w: np.ndarray, way: str) -> jax.Array:
    return jnp.asarray(w if way == "transposed" else np.ascontiguousarray(w.T))


def fully_connected(job: dict, weights: dict, way: str) -> tuple[Callable, dict]:
    sigma, times = SIGMA[job["activation"]], product(way)
    scale = float(np.sqrt(job["c_sigma"] / job["sizes"]["width"]))
    names = [f"W{h}" for h in range(1, job["sizes"]["depth"] + 1)]

    def f(params: dict, x: jax.Array) -> jax.Array:
        for name in names:
            x = scale * sigma(times(x, params[name]))
        return times(x, params["a"])

    return f, {name: stored(np.atleast_2d(w), way) for name, w in weights.items()}


def recurrent(job: dict, weights: dict, way: str) -> tuple[Callable, dict]:
    times = product(way)
    a, b = (stored(weights[name], way) for name in "AB")

    def f(params: dict, x: jax.Array) -> jax.Array:
        drive = times(x, a)
        h = jax.nn.relu(drive[:, 0])
        outputs = []
        for t in range(1, x.shape[1]):
            h = jax.nn.relu(times(h, params["W"]) + drive[:, t])
            outputs.append(times(h, b))
        return jnp.concatenate(outputs, axis=-1)

    return f, {"W": stored(weights["W"], way)}


def convolutional(job: dict, weights: dict, way: str) -> tuple[Callable, dict]:
    """Patches times a matrix, or (`transposed`) a convolution with PyTorch's layout, out x in x window."""
    sigma, sizes, size = SIGMA[job["activation"]], job["sizes"], job["filter_size"]
    first = float(np.sqrt(job["c_sigma"] / sizes["width"]))
    later = float(job["c_res"] / (sizes["depth"] * np.sqrt(sizes["width"])))

    def gather(x: jax.Array) -> jax.Array:
        padded = jnp.pad(x, ((0, 0), (size // 2, size // 2), (0, 0)))
        shifted = [padded[:, o : o + x.shape[1]] for o in range(size)]
        return jnp.stack(shifted, axis=-1).reshape(*x.shape[:2], -1)

    def f(params: dict, x: jax.Array) -> jax.Array:
        if way == "transposed":
            layer = lambda x, w: lax.conv(x, w, (1,), "SAME")  # noqa: E731
        else:
            x, layer = jnp.swapaxes(x, 1, 2), lambda x, w: gather(x) @ w
        x = first * sigma(layer(x, params["W1"]))
        for h in range(2, sizes["depth"] + 1):
            x = x + later * sigma(layer(x, params[f"W{h}"]))
        return x.reshape(x.shape[0], -1) @ params["a"]

    a = weights["a"] if way == "transposed" else weights["a"].T
    params = {"a": jnp.asarray(a.reshape(-1, 1))}
    for h in range(1, sizes["depth"] + 1):
        w = weights[f"W{h}"]
        params[f"W{h}"] = jnp.asarray(w.reshape(w.shape[0], -1, size)) if way == "transposed" else stored(w, way)
    return f, params


KINDS = {"fc": fully_connected, "rnn": recurrent, "conv": convolutional}


def ntk(job: dict, weights: dict, x: np.ndarray) -> Callable[[], jax.Array]:
    """Return the call: `n x n x K x K`."""
    method, *options = job["method"].split(":")
    way = "transposed" if "transposed" in options else "plain"
    f, params = KINDS[job["kind"]](job, weights, way)
    kernel = nt.empirical_ntk_fn(f, trace_axes=(), vmap_axes=0, implementation=METHODS[method])
    points = jnp.asarray(x)
    if "batched" in options:
        kernel = nt.batch(kernel, batch_size=job["batch"], device_count=0)
        return lambda: jax.block_until_ready(kernel(points, None, params))
    compiled = jax.jit(lambda points, params: kernel(points, None, params))
    return lambda: jax.block_until_ready(compiled(points, params))


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    job, arrays = load_job()
    x = arrays.pop("x")
    kernel, times = measure(ntk(job, arrays, x), job["rounds"], job["budget"])
    matrix = np.asarray(kernel)
    trace = float(np.einsum("iikk->", matrix, dtype=np.float64))
    used = versions("neural-tangents", "jax", "jaxlib", "numpy")
    report(**times, **gram_sample(lambda i, j: matrix[i, j], trace, job), versions=used)


if __name__ == "__main__":
    main()
