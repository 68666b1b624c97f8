"""How long a verifier takes to follow steps of training: what a step is made of, and rates that were measured.

The rates are those of one core (`benchmarks/from_start.py cost`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float, Int

from wideproof.certificates.tables import SQUARINGS, begins
from wideproof.networks import Graph

# Seconds of a step for every two layers, product, product of pairs, norm's cubed size, unit, and weight (`Work`).
# Gram matrices at few of the steps; with batches there is one a step, which is told too low.
PLAIN = (2.6e-3, 4.2e-10, 2e-11, 3e-11, 6e-8, 1e-8)
DOUBLE = (2.7e-3, 9e-10, 0.0, 0.0, 4.5e-7, 1.5e-7)
BALLS = (3e-3, 5e-9, 0.0, 0.0, 1.4e-5, 5e-6)
FLOAT64, DOUBLED = 34, 76  # bits that float64 and double-double have to offer, about
TABLE, PAIR = 6.5e-11, 3e-4  # of a product in a table, and of a pair of nodes for one example


class Work(NamedTuple):
    """What a verifier's step is made of.

    Attributes
    ----------
    layers
        How many nodes there are.
    passes
        Products forward, back for every output, and of gradients.
    pairs
        Those of the Gram matrix.
    norms
        Cubed sizes of the matrices whose norms are taken.
    units
        Values of activations.
    weights
        Entries of all matrices.
    """

    layers: int
    passes: float
    pairs: float
    norms: float
    units: float
    weights: float


def work_of(graph: Graph, params: Mapping[str, ArrayLike], rows: int) -> Work:
    """Count what a step on `rows` examples is made of.

    >>> from wideproof.networks import FullyConnected
    >>> network = FullyConnected(3, 16, 1)
    >>> work_of(network.graph, network.init(0), 5).units
    80.0
    """
    graph = graph.unrolled
    passes = pairs = units = norms = 0.0
    weights = {t.weight: float(np.size(np.asarray(params[t.weight or ""]))) for _, t in graph.terms()}
    columns = rows * graph.outputs * len(graph.sites)
    for k, t in graph.terms():
        matrix, places = graph.matrix(params, t.weight or ""), math.prod(graph.grids[k])
        out, fan_in = matrix.shape
        passes += out * fan_in * places * (2 * rows + columns)
        pairs += columns**2 * (out + fan_in)
        norms += min(fan_in, rows * places) ** 3 + min(out, rows * places) ** 3
        units += out * places * rows
    return Work(len(graph.layers), passes, pairs, norms + columns**3, units, sum(weights.values()))


def step_seconds(work: Work, bits: Sequence[float] | Float[np.ndarray, "steps"]) -> Float[np.ndarray, "steps"]:
    """Return about how long a verifier takes for steps of this work, with so many bits each.

    Every step is taken in float64, which bounds the growth; where that is not enough, once more in double-double or in
    balls, where every number is an object. The rates were measured on one core (`benchmarks/from_start.py cost`).

    >>> work = Work(layers=2, passes=4e6, pairs=1e6, norms=1e6, units=1e4, weights=2e4)
    >>> float64, double, balls = step_seconds(work, [20.0, 60.0, 120.0])
    >>> bool(float64 < double < balls)
    True
    """
    needed = np.asarray(bits, float)
    counts = np.array([(1 + work.layers) / 2, work.passes, work.pairs, work.norms, work.units, work.weights])
    plain, double, balls = (float(counts @ rates) for rates in (PLAIN, DOUBLE, BALLS))
    return plain + np.where(needed > DOUBLED, balls, np.where(needed > FLOAT64, double, 0.0))


def seconds_to_follow(
    graph: Graph, params: Mapping[str, ArrayLike], rows: int, bits: Sequence[float] | Float[np.ndarray, "steps"]
) -> float:
    """Estimate how long the verifier takes to follow steps of training.

    Parameters
    ----------
    graph
        The network.
    params
        Weights by name.
    rows
        Number of examples in each step.
    bits
        For every step, the number of bits.

    Returns
    -------
    float
        Seconds.

    Examples
    --------
    >>> from wideproof.networks import FullyConnected
    >>> network = FullyConnected(3, 16, 1)
    >>> 0.2 < seconds_to_follow(network.graph, network.init(0), 3, [20.0] * 100) < 2.0
    True
    """
    return float(step_seconds(work_of(graph, params, rows), bits).sum())


def table_seconds(graph: Graph, params: Mapping[str, ArrayLike], rows: int) -> float:
    """Return about how long a verifier takes for a table of so many examples: a product and two norms a pair of nodes.

    >>> from wideproof.networks import FullyConnected
    >>> network = FullyConnected(3, 16, 3)
    >>> 0 < table_seconds(network.graph, network.init(0), 5) < 0.02
    True
    """
    graph = graph.unrolled
    sides = [
        math.prod(graph.grids[k])
        * max((len(graph.matrix(params, t.weight)) for t in node.terms if t.weight), default=0)
        for k, node in enumerate(graph.layers)
    ]
    total = 0.0
    for k in begins(graph):
        for high in sides[k + 1 :]:
            total += PAIR + TABLE * high * sides[k] * (sides[k] + SQUARINGS * min(high, sides[k]))
    return rows * total


def tables_seconds(
    graph: Graph,
    params: Mapping[str, ArrayLike],
    tables: Sequence[int],
    steps: int,
    n: int,
    batches: Int[np.ndarray, "steps batch"] | None = None,
) -> float:
    """Return the seconds of all tables: each is made of the examples that are met before the next one."""
    if not tables:
        return 0.0
    ends = [*tables[1:], steps]
    met = [n if batches is None else len(np.unique(batches[a:b])) for a, b in zip(tables, ends, strict=True)]
    return table_seconds(graph, params, sum(met))
