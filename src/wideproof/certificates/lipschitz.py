r"""How fast the Jacobian can change near the anchor.

$\|J(\theta) - J(\theta')\| \le \Lambda(R) \|\theta - \theta'\|$ for all $\theta, \theta'$ within $R$ of the anchor.

On a ball of radius $R$ the best constant is $\sup \|D^2 F\|$. A direction $u$ enters through the norms
$t_w = \|U_w\|_F$ of its parts, one for each trained array; every bound is a vector or a quadratic form in $t$.
`docs/certificates.md` has the recursion and its proof.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from wideproof.certificates.anchor import Anchor
from wideproof.certificates.enclosure import UP


class Reach(NamedTuple):
    """Bounds over the ball, one row per example (a single row for the whole batch), one column per trained array."""

    inputs: dict[int, np.ndarray]  # norms of what matrices multiply
    moved_z: list[np.ndarray]  # |z - z0| <= moved_z . t
    moved_x: dict[int, np.ndarray]
    z: list[np.ndarray]  # tangents: |dz| <= z . t
    x: dict[int, np.ndarray]


class Lipschitz(NamedTuple):
    r"""$\Lambda(R)$ by the three ways; the least of them counts."""

    per_example: float
    combined: float
    batch: float

    @property
    def value(self) -> float:
        """The least of the three."""
        return min(self)

    @property
    def way(self) -> str:
        """Which of the three it is."""
        return self._fields[int(np.argmin(self))].replace("_", " ")


def lipschitz(anchor: Anchor, radius: float) -> Lipschitz:
    r"""Bound $\Lambda$ on the ball of `radius` around the anchor."""
    each = reach(anchor, radius, anchor.inputs)
    whole = reach(anchor, radius, {k: np.array([v]) for k, v in anchor.all_inputs.items()}, merged=True)
    at_most, hidden = backward(anchor, radius, each)
    forms = _forms(anchor, each, at_most, hidden)
    per_example = float(np.sqrt(sum(_top(q) ** 2 for q in forms)))
    combined = _top(np.sqrt(np.square(forms).sum(axis=0)))
    up = UP if anchor.level == "enclosed" else 1.0
    return Lipschitz(per_example * up, combined * up, _top(_batch_form(anchor, each, whole, at_most, hidden)) * up)


def reach(anchor: Anchor, radius: float, inputs: Mapping[int, np.ndarray], merged: bool = False) -> Reach:
    """Run the ball and the tangent recursion; `merged` takes the largest middle factors over all examples."""
    graph, columns = anchor.graph, {name: i for i, name in enumerate(anchor.graph.trained)}
    first, second, kappa = graph.lipschitz, graph.smoothness, graph.patch_factor
    n = len(next(iter(inputs.values())))
    still = np.zeros((n, len(columns)))
    moved_x = {k: still for k in inputs if k < 0}
    x, seen = dict(moved_x), {k: v for k, v in inputs.items() if k < 0}
    moved_z, z = [], []
    for k, node in enumerate(graph.nodes):
        moved, tangent = still.copy(), still.copy()
        for t in node.terms:
            omega, trained = anchor.omega[t.name], t.name in columns
            moved += omega * moved_x[t.source]
            if (k, t.name) in anchor.middle:
                there = _lengths(moved_z[t.source])
                chi = anchor.middle[k, t.name] if not merged else anchor.middle[k, t.name].max(keepdims=True)
                sharper = chi + trained * radius * first + omega * second * radius * there
                factor = np.minimum((omega + trained * radius) * first, sharper)
                tangent += graph.nodes[t.source].scale * factor[:, None] * z[t.source]
            else:
                tangent += (omega + trained * kappa * radius) * x[t.source]
            if trained:
                moved[:, columns[t.name]] += seen[t.source]
                tangent[:, columns[t.name]] += seen[t.source]
        moved_z.append(moved)
        z.append(tangent)
        slope = np.full(n, first)
        if anchor.sharp and not node.skip and moved.shape[0]:
            here = anchor.slope[k] if not merged else anchor.slope[k].max(keepdims=True)
            slope = np.minimum(first, here + second * radius * _lengths(moved))
        moved_x[k] = node.scale * first * moved + (moved_x[k - 1] if node.skip else 0)
        x[k] = node.scale * slope[:, None] * tangent + (x[k - 1] if node.skip else 0)
        if k in inputs:
            seen[k] = inputs[k] + kappa * radius * _lengths(moved_x[k])
    return Reach(seen, moved_z, moved_x, z, x)


def backward(anchor: Anchor, radius: float, each: Reach) -> tuple[list[np.ndarray], list[np.ndarray]]:
    r"""Bound, for each node and example, the largest column of $b$ and the norm of $g$ over the ball."""
    graph, columns = anchor.graph, {name: i for i, name in enumerate(anchor.graph.trained)}
    first, second, kappa = graph.lipschitz, graph.smoothness, graph.patch_factor
    change = [np.zeros_like(each.moved_z[0]) for _ in graph.nodes]
    if graph.read_out in columns:
        for k in graph.outputs:
            change[k][:, columns[graph.read_out]] += 1
    columns_of_b: list[np.ndarray] = [np.empty(0)] * len(graph.nodes)
    g: list[np.ndarray] = [np.empty(0)] * len(graph.nodes)
    for k in reversed(range(len(graph.nodes))):
        node = graph.nodes[k]
        far = radius * _lengths(change[k])
        b = anchor.b2[k] + far
        columns_of_b[k] = anchor.b_max[k] + far
        change_g = second * anchor.b_max[k][:, None] * each.moved_z[k] + first * change[k]
        g[k] = np.minimum(first * b, anchor.g2[k] + radius * _lengths(change_g))
        if node.skip:
            change[k - 1] += change[k]
        for t in node.terms:
            if t.source >= 0:
                change[t.source] += node.scale * anchor.omega[t.name] * change_g
                if t.name in columns:
                    change[t.source][:, columns[t.name]] += node.scale * kappa * first * b
    return columns_of_b, g


def _forms(anchor: Anchor, each: Reach, columns_of_b: list[np.ndarray], g: list[np.ndarray]) -> np.ndarray:
    """The quadratic form of every example: `n x K x K`."""
    graph, columns = anchor.graph, {name: i for i, name in enumerate(anchor.graph.trained)}
    q = np.zeros((anchor.n, len(columns), len(columns)))
    for k, node in enumerate(graph.nodes):
        q += (node.scale * graph.smoothness * columns_of_b[k])[:, None, None] * _outer(each.z[k], each.z[k])
        for t in node.terms:
            if t.name in columns:
                q += _cross(node.scale * graph.patch_factor * g[k][:, None] * each.x[t.source], columns[t.name])
    if graph.read_out in columns:
        q += _cross(_sites(anchor, each), columns[graph.read_out])
    return q


def _batch_form(
    anchor: Anchor, each: Reach, whole: Reach, columns_of_b: list[np.ndarray], g: list[np.ndarray]
) -> np.ndarray:
    graph, columns = anchor.graph, {name: i for i, name in enumerate(anchor.graph.trained)}
    q = np.zeros((1, len(columns), len(columns)))
    for k, node in enumerate(graph.nodes):
        mixed = _outer(each.z[k].max(axis=0, keepdims=True), whole.z[k])
        q += node.scale * graph.smoothness * columns_of_b[k].max() * (mixed + mixed.swapaxes(1, 2)) / 2
        for t in node.terms:
            if t.name in columns:
                q += _cross(node.scale * graph.patch_factor * g[k].max() * whole.x[t.source], columns[t.name])
    if graph.read_out in columns:
        q += _cross(_sites(anchor, whole), columns[graph.read_out])
    return q[0]


def _sites(anchor: Anchor, reached: Reach) -> np.ndarray:
    return np.sqrt(sum(np.square(reached.x[k]) for k in anchor.graph.outputs))


def _cross(vectors: np.ndarray, column: int) -> np.ndarray:
    """$e v^T + v e^T$ for every row v."""
    out = np.zeros((*vectors.shape, vectors.shape[1]))
    out[:, column, :] += vectors
    out[:, :, column] += vectors
    return out


def _outer(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a[:, :, None] * b[:, None, :]


def _lengths(vectors: np.ndarray) -> np.ndarray:
    return np.sqrt(np.square(vectors).sum(axis=1))


def _top(q: np.ndarray) -> float:
    r"""Bound the largest eigenvalue of a nonnegative symmetric matrix by $\max_i (Qv)_i / v_i$, any $v > 0$."""
    size = float(q.max(initial=0.0))
    if size == 0:
        return 0.0
    w, vectors = np.linalg.eigh(q)
    v = np.abs(vectors[:, -1]) + 1e-12
    bound = float(((q @ v) / v).max())
    return min(bound, float(q.sum(axis=1).max())) if bound >= w[-1] else float(q.sum(axis=1).max())


def sign_slack(anchor: Anchor, radius: float) -> float:
    r"""Return the least of $|z| / (R \|v\|)$ over all ReLU units, where $R \|v\|$ bounds how far each can move.

    Above 1 no unit changes its sign in the ball of `radius`; infinite where nothing can move.
    """
    return min((float(ratio.min()) for ratio in _sign_ratios(anchor, radius)), default=float("inf"))


def kink_radius(anchor: Anchor) -> float:
    """Return a radius within which no ReLU unit changes its sign, the largest to three digits; infinite if smooth."""
    if not anchor.clearance:
        return math.inf
    low, high = 1e-30, 1e6
    if sign_slack(anchor, high) > 1:
        return high
    while high > low * 1.001:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if sign_slack(anchor, middle) > 1 else (low, middle)
    return low if sign_slack(anchor, low) > 1 else 0.0


def closest_to_a_kink(anchor: Anchor, radius: float) -> tuple[int, int, int, float]:
    """Return node, example, unit and |z| of the unit that is nearest to changing its sign."""
    ratios = _sign_ratios(anchor, radius)
    k = int(np.argmin([ratio.min() for ratio in ratios]))
    i, p, j = (int(a) for a in np.unravel_index(int(ratios[k].argmin()), ratios[k].shape))
    return k, i, j, float(anchor.clearance[k][i, p, j])


def _sign_ratios(anchor: Anchor, radius: float) -> list[np.ndarray]:
    graph, columns = anchor.graph, {name: i for i, name in enumerate(anchor.graph.trained)}
    each = reach(anchor, radius, anchor.inputs)
    ratios = []
    for k, node in enumerate(graph.nodes):
        if not anchor.clearance:
            break
        n, _, units = anchor.clearance[k].shape
        v = np.zeros((n, units, len(columns)))
        for t in node.terms:
            v += anchor.rows[t.name][None, :, None] * each.moved_x[t.source][:, None, :]
            if t.name in columns:
                v[:, :, columns[t.name]] += each.inputs[t.source][:, None]
        far = radius * np.sqrt(np.square(v).sum(axis=2))[:, None, :] * UP
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios.append(np.where(far > 0, anchor.clearance[k] / far, np.inf))
    return ratios
