r"""How much memory a certificate takes, before anything is computed.

For $n$ examples with $c$ outputs, $N = nc$ rows of the Jacobian and $U$ hidden values of an example, counted in float64
numbers: the passes hold about $(12 + 6c) n U$ (each value and slope with its radius, cotangents for every output), the
Gram matrix $N^2$, and its factor is made in a copy. With radii ten such matrices are there at a
time; of a wide read-out alone $n^2$ takes the place of $N^2$. On a device the matrix is there, with five more at a
time, and comes back in the end. The verifier holds about $(20 + 8c) n U + N^2$. What Python and its libraries take
themselves, half a GiB, and several with a GPU, is not counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, NamedTuple

import jax
import numpy as np

from wideproof.certificates.devices import accelerated
from wideproof.errors import InputError
from wideproof.networks import Graph
from wideproof.resources import free_memory

# With radii (`few` rows, or `radii` for layers that ask for them), one bound (`many`), a wide read-out alone (`lean`).
Way = Literal["few", "radii", "many", "lean"]
SPARE = 0.9  # of the memory that is free, what is counted on
GIB = 2.0**30


class Memory(NamedTuple):
    """Bytes that the prover takes, of the machine and of its device, and the verifier."""

    prover: float
    device: float
    verifier: float

    def __str__(self) -> str:
        there = f" and {self.device / GIB:.1f} GiB on the device" if self.device else ""
        return f"{self.prover / GIB:.1f} GiB{there}; {self.verifier / GIB:.1f} GiB to verify it"


def memory_needed(graph: Graph, params: Mapping[str, np.ndarray], n: int, way: Way = "many") -> Memory:
    """Return what a certificate for `n` examples takes.

    >>> from wideproof.networks import FullyConnected
    >>> network = FullyConnected(input_dim=784, width=1024, depth=1)
    >>> print(memory_needed(network.graph, network.init(0), 10_000))
    3.2 GiB; 3.4 GiB to verify it
    """
    graph, lean, radii = graph.unrolled, way == "lean", way in ("few", "radii")
    read = graph.matrix(params, graph.read_out)
    outputs = 0 if lean else len(read) * len(graph.sites)
    hidden = sum(
        max((len(graph.matrix(params, t.weight)) for t in node.terms if t.weight), default=read[0].size)
        * math.prod(graph.grids[k])
        for k, node in enumerate(graph.layers)
    )
    given = 6 * n * math.prod(graph.shape) * max(1, graph.times) + 4 * sum(map(np.size, params.values()))
    square = 8.0 * (n * max(1, outputs)) ** 2
    on_device = accelerated() and way == "many"
    matrices = 10 if radii else 8 if lean else 2
    prover = 8.0 * (given + (12 + 6 * outputs) * n * hidden) + matrices * square
    verifier = 8.0 * (given + (20 + 8 * outputs) * n * hidden) + (1.2 if way == "many" else 8) * square
    return Memory(prover, 6 * square if on_device else 0.0, verifier)


def require_memory(graph: Graph, params: Mapping[str, np.ndarray], n: int, way: Way) -> Memory:
    """Return what is needed, or raise with how many examples would fit."""

    def fits(count: int) -> bool:
        need = memory_needed(graph, params, count, way)
        return need.prover <= SPARE * free_memory() and need.device <= SPARE * device_memory()

    need = memory_needed(graph, params, n, way)
    if fits(n):
        return need
    low, high = 0, n
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    have = f"{free_memory() / GIB:.1f} GiB are free"
    if need.device > SPARE * device_memory():
        have += f", {device_memory() / GIB:.1f} GiB on the device"
    raise InputError(
        f"a certificate for {n} examples of this network needs {str(need).split(';')[0]}, and {have}: take at most "
        f"{low} examples, or a narrower network"
    )


def device_memory() -> float:
    """Return the bytes that JAX may take of its device; infinite where it does not say."""
    stats = jax.devices()[0].memory_stats() if accelerated() else None
    return float((stats or {}).get("bytes_limit", math.inf))
