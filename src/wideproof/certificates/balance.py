r"""Targets with a constant sum: one-hot labels and a read-out with fewer features than there are rows.

If $\sum_o y_{io} = t$ for every row and the network fits them, then $\sum_o C_o \cdot h_i + \sum_o c_o = t$ for more
rows than there are features, and with many rows it ends at $\sum_o C_o = 0$ and $\sum_o c_o = t$. The sum of the
outputs then depends on no hidden weight, and $J$ is singular at every such fit. But the set of weights with $\sum_o
C_o = 0$, $\sum_o c_o = t$ is kept by gradient descent (the gradients by $C_o$ and $c_o$ add up to 0 while the
residuals do), and on it the residuals of a row add up to 0. So Theorem 1 needs $\|J^\top v\| \ge s \|v\|$ for such
$v$ only, and adding $a\, 1 1^\top$ to every row's block of $G$ changes nothing for them. The equations must hold
exactly, in real numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from wideproof.certificates.enclosure import UNIT, Ball
from wideproof.networks import Graph

BITS = 42  # of the largest entry that rounding keeps, so that sums of some hundred entries are exact
CLOSE = 1e-5  # how far from balanced a fit may be, relative to the largest entry


def is_balanced(graph: Graph, params: Mapping[str, np.ndarray], y: Float[np.ndarray, "n ..."]) -> bool:
    """Return whether the rows of the read-out add up to exactly 0, and its biases to the sum of every row of targets.

    >>> from wideproof.networks import Sketch
    >>> sketch = Sketch(1)
    >>> graph = sketch.read_out(sketch.dense(sketch.input, 1, "tanh"), 2).graph
    >>> params = {"W2": np.array([[0.5], [-0.5]]), "b2": np.array([0.25, 0.75])}
    >>> is_balanced(graph, params, np.eye(2)), is_balanced(graph, params, 2 * np.eye(2))
    (True, False)
    """
    if graph.outputs < 2 or graph.times:
        return False
    read, level = _parts(graph, params)
    return all(math.fsum(column) == 0 for column in read.T) and all(math.fsum([*row, *-level]) == 0 for row in y)


def balanced(
    graph: Graph, params: Mapping[str, np.ndarray], y: Float[np.ndarray, "n ..."]
) -> dict[str, np.ndarray] | None:
    """Return weights near the given ones that are balanced exactly; `None` if the given ones are not nearly balanced.

    Parameters
    ----------
    graph
        The network.
    params
        Weights by name.
    y
        Targets, one row for each example.

    Returns
    -------
    dict[str, array] | None
        The balanced weights, or `None`.
    """
    if graph.outputs < 2 or graph.times or graph.bias is None or y.ndim != 2:
        return None
    totals = {math.fsum(row) for row in y}
    read, level = _parts(graph, params)
    size = float(np.abs(read).max(initial=np.abs(level).max()))
    (total, *others) = totals
    off = max(float(np.abs(read.sum(axis=0)).max()), abs(float(level.sum()) - total))
    if others or not 0 < size < math.inf or off > CLOSE * size:
        return None
    grid = 2.0 ** (math.ceil(math.log2(max(size, abs(total)))) - BITS)
    read, level = (grid * np.rint(part / grid) for part in (read, level))
    read[-1], level[-1] = -read[:-1].sum(axis=0), total - level[:-1].sum()
    new = dict(params)
    new[graph.read_out] = read.reshape(np.shape(params[graph.read_out]))
    new[graph.bias] = level.reshape(np.shape(params[graph.bias]))
    return new if is_balanced(graph, new, y) else None


def _parts(graph: Graph, params: Mapping[str, np.ndarray]) -> tuple[Float[np.ndarray, "c m"], Float[np.ndarray, "c"]]:
    read = graph.matrix(params, graph.read_out)
    level = np.zeros(graph.outputs) if graph.bias is None else np.asarray(params[graph.bias], np.float64).ravel()
    return read, level


def raised(matrix: Ball, outputs: int, entry: float) -> Ball:
    """Add a number to all entries of every row's own block."""
    mid = matrix.mid.copy()
    for i in range(0, len(mid), outputs):
        mid[i : i + outputs, i : i + outputs] += entry
    return Ball(mid, None if matrix.rad is None else matrix.rad + UNIT * np.abs(mid))
