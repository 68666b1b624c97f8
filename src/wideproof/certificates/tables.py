r"""Norms of products of layers along the path of training: a plan for the tables that a verifier makes.

For one example let $A_{hk} = \partial z_h / \partial z_k$ and $B_{vk} = \partial x_v / \partial z_k$. A table has
bounds of $\|\operatorname{diag}(e)^{1/2} A\|$ and $\|B\|$ at one point, $e \ge s \|b\| |\sigma''|$; at other points
they grow with the distance (`docs/theory/certificates.md`). A few examples stand for all of them here, in float64:
these are estimates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from wideproof.certificates.enclosure import Ball
from wideproof.certificates.passes import Pass, reading, run
from wideproof.networks import Graph, Term

EXAMPLES = 8  # whose norms are taken
SQUARINGS = 3  # as the verifier's
COST = 4.0  # bits of growth that a new table is made for
STEP = 1e-5  # of the differences that second derivatives are taken by
Pairs = dict[tuple[int, int], Float[np.ndarray, "n"]]


class Table(NamedTuple):
    r"""What is known at one point of some examples.

    Attributes
    ----------
    params
        Its weights.
    slopes
        $s \sigma'$ of every node: `n x p x m`.
    bows
        $e = s \|b\| |\sigma''|$ of every node, b for every output; `None` where $\sigma'' = 0$.
    alpha
        Bounds of $\|\operatorname{diag}(e)^{1/2} A_{hk}\|$.
    beta
        Bounds of $\|B_{hk}\|$.
    """

    params: Mapping[str, np.ndarray]
    slopes: list[Float[np.ndarray, "n p m"]]
    bows: list[Float[np.ndarray, "n p m"] | None]
    alpha: Pairs
    beta: Pairs


def sample(x: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "k ..."]:
    """Return a few of the examples, from the first to the last.

    >>> sample(np.arange(100.0)).tolist()
    [0.0, 14.0, 28.0, 42.0, 56.0, 70.0, 84.0, 99.0]
    """
    return x[np.unique(np.linspace(0, len(x) - 1, min(len(x), EXAMPLES)).astype(int))]


def steep(m: Float[np.ndarray, "a b"], squarings: int = SQUARINGS) -> float:
    r"""Bound the norm of a matrix by $\|M\|^2 = \|M M^\top\|$, again and again, and the Frobenius norm at last.

    >>> round(steep(np.diag([3.0, 1.0])), 6)
    3.0
    """
    if squarings == 0:
        return float(np.linalg.norm(m))
    return math.sqrt(steep(m @ m.T if len(m) <= m.shape[1] else m.T @ m, squarings - 1))


def begins(graph: Graph) -> list[int]:
    """Return the nodes at which trained weights are used."""
    names = [name for name in graph.trained if name not in (graph.read_out, graph.bias)]
    return sorted({k for name in names for k, _ in graph.uses(name)})


def table_of(graph: Graph, params: Mapping[str, np.ndarray], x: Float[np.ndarray, "n ..."]) -> Table:
    """Return the norms at these weights, of all these examples."""
    passed = run(graph, params, x, tracked=False)
    made = Table({name: np.array(w) for name, w in params.items()}, _slopes(passed), _bows(passed), {}, {})
    for k in begins(graph):
        found = [_pushed(graph, made, i, k) for i in range(len(x))]
        for which, pairs in enumerate((made.alpha, made.beta)):
            pairs |= {(h, k): np.array([one[which][h] for one in found]) for h in found[0][which]}
    return made


def _slopes(passed: Pass) -> list[Float[np.ndarray, "n p m"]]:
    return [node.scale * s.mid for node, s in zip(passed.graph.layers, passed.slopes, strict=True)]


def _bows(passed: Pass) -> list[Float[np.ndarray, "n p m"] | None]:
    found: list[Float[np.ndarray, "n p m"] | None] = []
    for node, ball, b in zip(passed.graph.layers, passed.z, passed.b, strict=True):
        known, z = node.activation.known, ball.mid
        curve = np.abs(known.slope(z + STEP) - known.slope(z - STEP)) / (2 * STEP)
        found.append(node.scale * np.linalg.norm(b.mid, axis=1) * curve if known.smoothness else None)
    return found


def _pushed(graph: Graph, made: Table, i: int, k: int) -> tuple[dict[int, float], dict[int, float]]:
    """Return α and β of all nodes after node k, for one example."""
    slope = made.slopes[k][i]
    ahead = {k: np.eye(slope.size).reshape(slope.size, *slope.shape) * slope}
    alpha, beta = {}, {k: float(np.abs(slope).max())}
    for h in range(k + 1, len(graph.layers)):
        node, parts = graph.layers[h], []
        for t in node.terms:
            if t.source in ahead and t.moves:
                u = reading(Ball(ahead[t.source], None), t.map, 0).mid
                parts.append(u if t.weight is None else u @ graph.matrix(made.params, t.weight).T)
        after = None if node.skip is None else ahead.get(node.skip)
        if parts:
            z, e = np.sum(parts, axis=0), made.bows[h]
            if e is not None:
                alpha[h] = steep((z * np.sqrt(e[i])).reshape(len(z), -1))
            after = z * made.slopes[h][i] + (0 if after is None else after)
        if after is not None:
            ahead[h] = after
            beta[h] = steep(after.reshape(len(after), -1))
    return alpha, beta


class Along(NamedTuple):
    """What tables say at another point: how values and pre-activations move with each trained array.

    Attributes
    ----------
    paths
        Of every value, by its number.
    speeds
        Of the pre-activations of every node.
    bent
        The root of the first sum of the form, for every node.
    """

    paths: dict[int, Float[np.ndarray, "K"]]
    speeds: list[Float[np.ndarray, "K"]]
    bent: list[Float[np.ndarray, "K"]]


def along(
    graph: Graph,
    params: Mapping[str, np.ndarray],
    x: Float[np.ndarray, "n ..."],
    made: Table,
    reads: Mapping[tuple[int, Term], float],
    omega: Mapping[tuple[int, Term], float],
) -> Along:
    """Carry a table on to these weights; `x` are its examples, `reads` and `omega` norms of inputs and matrices."""
    passed = run(graph, params, x, tracked=False)
    slopes, bows, n = _slopes(passed), _bows(passed), len(x)
    gap = {name: steep(graph.matrix(params, name) - graph.matrix(made.params, name))
           for name in graph.trained if name not in (graph.read_out, graph.bias)}  # fmt: skip
    reach: Pairs = {}
    off: Pairs = {}
    none = np.zeros(len(graph.trained))
    found = Along({-1 - t: none for t in range(graph.times or 1)}, [], [])

    def total(most: Mapping[int, Float[np.ndarray, "n"]]) -> Float[np.ndarray, "K"]:
        pairs = [(most[k].max() * reads[k, t], t) for k, t in graph.terms() if k in most and (k, t) in reads]
        return sum((size * (np.array(graph.trained) == t.weight) for size, t in pairs), none)

    for h, node in enumerate(graph.layers):
        size = {k: np.ones(n) for k in begins(graph) if k == h}
        apart = {k: np.zeros(n) for k in size}
        for t, k in ((t, k) for t in node.terms for k in begins(graph) if t.moves and (t.source, k) in reach):
            own, moved = reach[t.source, k], t.map.factor * gap.get(t.weight or "", 0.0)
            size[k] = size.get(k, 0) + omega[h, t] * own
            apart[k] = apart.get(k, 0) + moved * made.beta[t.source, k] + omega[h, t] * off[t.source, k]
        most, old, turned = (
            np.abs(a).max(axis=(1, 2)) for a in (slopes[h], made.slopes[h], slopes[h] - made.slopes[h])
        )
        for k in begins(graph):
            if k == h:
                reach[h, k], off[h, k] = most, turned
            elif (h, k) in made.beta:
                whole, change = size.get(k, np.zeros(n)), apart.get(k, np.zeros(n))
                skipped = -1 if node.skip is None else node.skip, k
                moved, skip = turned * whole + old * change + off.get(skipped, 0), reach.get(skipped, 0)
                off[h, k], reach[h, k] = moved, np.minimum(made.beta[h, k] + moved, most * whole + skip)
        found.paths[h] = total({k: reach[h, k] for k in begins(graph) if (h, k) in reach})
        found.speeds.append(total(size))
        found.bent.append(total(_bent(made, h, bows[h], size, apart)))
    return found


def _bent(
    made: Table,
    h: int,
    e: Float[np.ndarray, "n p m"] | None,
    size: Mapping[int, Float[np.ndarray, "n"]],
    apart: Mapping[int, Float[np.ndarray, "n"]],
) -> dict[int, Float[np.ndarray, "n"]]:
    """Return α of a node."""
    before = made.bows[h]
    if e is None or before is None:
        return {}
    most, root = e.max(axis=(1, 2)), np.sqrt(before.max(axis=(1, 2)))
    change, found = np.maximum(e - before, 0).max(axis=(1, 2)), {}
    for k, whole in size.items():
        plain = most * whole**2
        near = plain if k == h else np.square(made.alpha[h, k] + root * apart[k]) + change * whole**2
        found[k] = np.sqrt(np.minimum(near, plain))
    return found


class Plan:
    """Tables along a run: a new one where carrying the last one on has cost `COST` bits of growth."""

    def __init__(self, graph: Graph, x: Float[np.ndarray, "n ..."]) -> None:
        self.graph, self.x = graph, sample(x)
        self.steps: list[int] = []
        self.made: Table | None = None
        self.fresh = self.spent = 0.0

    def renew(self, step: int, params: Mapping[str, np.ndarray]) -> None:
        """Make a table at a step."""
        self.made, self.spent = table_of(self.graph, params, self.x), 0.0
        self.steps.append(step)

    def along(
        self,
        params: Mapping[str, np.ndarray],
        reads: Mapping[tuple[int, Term], float],
        omega: Mapping[tuple[int, Term], float],
    ) -> Along:
        """Carry the last table on to these weights."""
        assert self.made is not None
        return along(self.graph, params, self.x, self.made, reads, omega)

    def worn(self, share: float, rate: float, steps: int) -> bool:
        """Say whether a new table is due, `steps` after the last look; `share` is N over the residual.

        `rate` is the step size times the residual.
        """
        if self.fresh == 0.0:
            self.fresh = share
        self.spent += steps * math.log2((1 + rate * share) / (1 + rate * min(self.fresh, share)))
        return self.spent > COST

    def settle(self, share: float) -> None:
        """Note the share right after a table was made."""
        self.fresh = share
