r"""How fast the Jacobian can change near the anchor.

$\|J(\theta) - J(\theta')\| \le \Lambda(R) \|\theta - \theta'\|$ for all $\theta, \theta'$ within $R$ of the anchor.

On a ball of radius $R$ the best constant is $\sup \|D^2 F\|$. A direction $u$ enters through the norms
$t_w = \|U_w\|_F$ of its parts, one for each trained array; every bound is a vector or a quadratic form in $t$.
`docs/theory/certificates.md` has the recursion and its proof. An example that stands for $r$ equal rows counts
$\sqrt r$ times wherever examples are summed over.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from wideproof.certificates.anchor import DENSE, Anchor
from wideproof.certificates.enclosure import UP
from wideproof.certificates.tangents import Tangents
from wideproof.networks import Graph, Read


class Ball(NamedTuple):
    """Bounds over the ball, one row per example (a single row for the whole batch), one column per trained array."""

    inputs: dict[Read, Float[np.ndarray, "n"]]  # norms of what matrices multiply
    z: list[Float[np.ndarray, "n K"]]  # |z - z0| <= z . t
    x: dict[int, Float[np.ndarray, "n K"]]


class Tangent(NamedTuple):
    """Bounds of a direction's effect, with rows and columns as in `Ball`."""

    z: Sequence[Float[np.ndarray, "n K"]]  # |dz| <= z . t
    x: Mapping[int, Float[np.ndarray, "n K"]] | Sequence[Float[np.ndarray, "n K"]]


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
    found = []
    for forms, whole in _ways(anchor, radius):
        per_example = float(
            np.sqrt(sum((root * top) ** 2 for root, top in zip(anchor.roots, _tops(forms), strict=True)))
        )
        combined = _top(np.sqrt(np.square(forms * anchor.roots[:, None, None]).sum(axis=0)))
        found.append((per_example, combined, _top(whole)))
    return Lipschitz(*(np.min(found, axis=0) * _margin(anchor)).tolist())


def batch_constants(anchor: Anchor, radius: float, parts: Sequence[Int[np.ndarray, "_"]]) -> Float[np.ndarray, "parts"]:
    r"""Bound $\Lambda$ of some examples' outputs alone on the ball of `radius`, for each part."""
    found = []
    for forms, _ in _ways(anchor, radius):
        tops = np.array(_tops(forms))
        together = [_top(np.sqrt(np.square(forms[part]).sum(axis=0))) for part in parts]
        found.append(np.minimum([np.sqrt(np.square(tops[part]).sum()) for part in parts], together))
    return np.min(found, axis=0) * _margin(anchor)


def _margin(anchor: Anchor) -> float:
    """A verifier takes norms of these forms within 1e-9."""
    return UP + 1e-8 if anchor.level == "enclosed" else 1.0


def _ways(anchor: Anchor, radius: float) -> list[tuple[Float[np.ndarray, "n K K"], Float[np.ndarray, "K K"]]]:
    """The forms of every example and of all together, for each way to the tangents at the anchor."""
    each = ball(anchor, radius, anchor.inputs, len(anchor.slope[0]))
    whole = ball(anchor, radius, _together(anchor), 1)
    at_most, hidden = backward(anchor, radius, each)
    known = [node.activation.known for node in anchor.graph.layers]
    bends = [f.smoothness * radius * _lengths(moved) for f, moved in zip(known, each.z, strict=True)]
    found = []
    for at in (_layer_by_layer(anchor), anchor.tangents):
        if at is None:
            continue
        capped = at is not anchor.tangents
        one = tangent(anchor, radius, each, anchor.slope, bends, Tangent(at.z, at.x), capped)
        together = tangent(
            anchor, radius, whole, _most(anchor.slope), _most(bends), Tangent(at.all_z, at.all_x), capped
        )
        whole_form = _batch_form(anchor, one, together, at_most, hidden)
        found.append((_forms(anchor, one, at_most, hidden), whole_form))
    return found


def _together(anchor: Anchor) -> dict[Read, Float[np.ndarray, "1"]]:
    return {k: np.array([v]) for k, v in anchor.all_inputs.items()}


def _most(each: Sequence[Float[np.ndarray, "n"]]) -> list[Float[np.ndarray, "1"]]:
    return [a.max(keepdims=True) for a in each]


def ball(anchor: Anchor, radius: float, inputs: Mapping[Read, Float[np.ndarray, "n"]], n: int) -> Ball:
    """Bound how far values are from those at the anchor; `inputs` are the norms there, for `n` examples each."""
    graph, columns = anchor.graph, {name: i for i, name in enumerate(anchor.graph.trained)}
    still = np.zeros((n, len(columns)))
    x, seen, z = _still(graph, still), {}, []
    for k, node in enumerate(graph.layers):
        z.append(still.copy())
        for t in node.terms:
            z[k] += anchor.omega[k, t] * x[t.source]
            read = graph.read(k, t)
            if read in inputs:
                seen[read] = inputs[read] + t.map.factor * radius * _lengths(x[t.source])
            if t.weight in columns:
                z[k][:, columns[t.weight]] += seen[read]
        x[k] = node.scale * node.activation.known.lipschitz * z[k] + (0 if node.skip is None else x[node.skip])
    return Ball(seen, z, x)


def _still(graph: Graph, still: Float[np.ndarray, "n K"]) -> dict[int, Float[np.ndarray, "n K"]]:
    return {-1 - t: still for t in range(graph.times or 1)}


def _layer_by_layer(anchor: Anchor) -> Tangents:
    """Bound tangents at the anchor by the norms of the matrices."""
    graph, columns = anchor.graph, {name: i for i, name in enumerate(anchor.graph.trained)}

    def run(
        inputs: Mapping[Read, Float[np.ndarray, "n"]], slopes: Sequence[Float[np.ndarray, "n"]]
    ) -> tuple[tuple[Float[np.ndarray, "n K"], ...], ...]:
        still = np.zeros((len(slopes[0]), len(columns)))
        x, z = _still(graph, still), []
        for k, node in enumerate(graph.layers):
            z.append(still.copy())
            for t in node.terms:
                z[k] += anchor.omega[k, t] * x[t.source]
                if t.weight in columns:
                    z[k][:, columns[t.weight]] += inputs[graph.read(k, t)]
            x[k] = node.scale * slopes[k][:, None] * z[k] + (0 if node.skip is None else x[node.skip])
        return tuple(z), tuple(x[k] for k in range(len(z)))

    return Tangents(*run(anchor.inputs, anchor.slope), *run(_together(anchor), _most(anchor.slope)))


def tangent(
    anchor: Anchor,
    radius: float,
    near: Ball,
    slopes: Sequence[Float[np.ndarray, "n"]],
    bends: Sequence[Float[np.ndarray, "n"]],
    at: Tangent,
    capped: bool,
) -> Tangent:
    """Bound tangents in the ball by those at the anchor and by how much they can change on the way.

    Slopes change by at most `bends`; where tangents at the anchor were bounded by the largest slope alone (`capped`),
    slope and change together by at most $L_1$.
    """
    graph, columns = anchor.graph, {name: i for i, name in enumerate(anchor.graph.trained)}
    x = {k: v for k, v in near.x.items() if k < 0}
    z, change = [], dict(x)
    for k, node in enumerate(graph.layers):
        off = np.zeros_like(near.z[k])
        for t in node.terms:
            off += anchor.omega[k, t] * change[t.source]
            if t.weight in columns:
                off += t.map.factor * radius * x[t.source]
                off[:, columns[t.weight]] += t.map.factor * radius * _lengths(near.x[t.source])
        z.append(at.z[k] + off)
        most = node.activation.known.lipschitz
        bend = np.minimum(bends[k], np.maximum(most - slopes[k], 0)) if capped else bends[k]
        change[k] = node.scale * (slopes[k][:, None] * off + bend[:, None] * z[k])
        if node.skip is not None:
            change[k] += change[node.skip]
        x[k] = at.x[k] + change[k]
    return Tangent(z, x)


def backward(
    anchor: Anchor, radius: float, each: Ball
) -> tuple[list[Float[np.ndarray, "n"]], list[Float[np.ndarray, "n"]]]:
    r"""Bound, for each node and example, the largest column of $b$ and the norm of $g$ over the ball."""
    graph, columns = anchor.graph, {name: i for i, name in enumerate(anchor.graph.trained)}
    change = [np.zeros_like(each.z[0]) for _ in graph.layers]
    if graph.read_out in columns:
        for k in graph.sites:
            change[k][:, columns[graph.read_out]] += 1
    columns_of_b: list[np.ndarray] = [np.empty(0)] * len(graph.layers)
    g: list[np.ndarray] = [np.empty(0)] * len(graph.layers)
    for k in reversed(range(len(graph.layers))):
        node = graph.layers[k]
        first, second = node.activation.known.lipschitz, node.activation.known.smoothness
        far = radius * _lengths(change[k])
        b = anchor.b2[k] + far
        columns_of_b[k] = anchor.b_max[k] + far
        change_g = second * anchor.b_max[k][:, None] * each.z[k] + first * change[k]
        g[k] = np.minimum(first * b, anchor.g2[k] + radius * _lengths(change_g))
        if node.skip is not None and node.skip >= 0:
            change[node.skip] += change[k]
        for t in node.terms:
            if t.source >= 0:
                change[t.source] += node.scale * anchor.omega[k, t] * change_g
                if t.weight in columns:
                    change[t.source][:, columns[t.weight]] += node.scale * t.map.factor * g[k]
    return columns_of_b, g


def _forms(
    anchor: Anchor, each: Tangent, columns_of_b: list[Float[np.ndarray, "n"]], g: list[Float[np.ndarray, "n"]]
) -> Float[np.ndarray, "n K K"]:
    """The quadratic form of every example: `n x K x K`."""
    graph, columns = anchor.graph, {name: i for i, name in enumerate(anchor.graph.trained)}
    q = np.zeros((anchor.n, len(columns), len(columns)))
    for k, node in enumerate(graph.layers):
        q += (node.scale * node.activation.known.smoothness * columns_of_b[k])[:, None, None] * _outer(
            each.z[k], each.z[k]
        )
        for t in node.terms:
            if t.weight in columns:
                q += _cross(node.scale * t.map.factor * g[k][:, None] * each.x[t.source], columns[t.weight])
    if graph.read_out in columns:
        q += _cross(_sites(anchor, each), columns[graph.read_out])
    return q


def _batch_form(
    anchor: Anchor,
    each: Tangent,
    whole: Tangent,
    columns_of_b: list[Float[np.ndarray, "n"]],
    g: list[Float[np.ndarray, "n"]],
) -> Float[np.ndarray, "K K"]:
    graph, columns = anchor.graph, {name: i for i, name in enumerate(anchor.graph.trained)}
    q = np.zeros((1, len(columns), len(columns)))
    for k, node in enumerate(graph.layers):
        mixed = _outer(each.z[k].max(axis=0, keepdims=True), whole.z[k])
        q += node.scale * node.activation.known.smoothness * columns_of_b[k].max() * (mixed + mixed.swapaxes(1, 2)) / 2
        for t in node.terms:
            if t.weight in columns:
                q += _cross(node.scale * t.map.factor * g[k].max() * whole.x[t.source], columns[t.weight])
    if graph.read_out in columns:
        q += _cross(_sites(anchor, whole), columns[graph.read_out])
    return q[0]


def _sites(anchor: Anchor, reached: Tangent) -> Float[np.ndarray, "n K"]:
    return np.sqrt(sum(np.square(reached.x[k]) for k in anchor.graph.sites))


def _cross(vectors: Float[np.ndarray, "n K"], column: int) -> Float[np.ndarray, "n K K"]:
    """$e v^T + v e^T$ for every row v."""
    out = np.zeros((*vectors.shape, vectors.shape[1]))
    out[:, column, :] += vectors
    out[:, :, column] += vectors
    return out


def _outer(a: Float[np.ndarray, "n K"], b: Float[np.ndarray, "n K"]) -> Float[np.ndarray, "n K K"]:
    return a[:, :, None] * b[:, None, :]


def _lengths(vectors: Float[np.ndarray, "n K"]) -> Float[np.ndarray, "n"]:
    return np.sqrt(np.square(vectors).sum(axis=1))


def _top(q: Float[np.ndarray, "K K"]) -> float:
    r"""Bound the largest eigenvalue of a nonnegative symmetric matrix by $\max_i (Qv)_i / v_i$, any $v > 0$."""
    size = float(q.max(initial=0.0))
    if size == 0:
        return 0.0
    w, vectors = np.linalg.eigh(q)
    v = np.abs(vectors[:, -1]) + 1e-12
    bound = float(((q @ v) / v).max())
    return min(bound, float(q.sum(axis=1).max())) if bound >= w[-1] else float(q.sum(axis=1).max())


def _tops(forms: Float[np.ndarray, "n K K"]) -> list[float]:
    """Return the same for every matrix: one by one, or of very many at a time."""
    if len(forms) <= DENSE:
        return [_top(q) for q in forms]
    w, vectors = np.linalg.eigh(forms)
    v, rows = np.abs(vectors[:, :, -1]) + 1e-12, forms.sum(axis=2).max(axis=1)
    bound = (np.einsum("nij,nj->ni", forms, v) / v).max(axis=1)
    return np.where(bound >= w[:, -1], np.minimum(bound, rows), rows).tolist()


def sign_slack(anchor: Anchor, radius: float) -> float:
    r"""Return the least of $|z| / (R \|v\|)$ over all ReLU units, where $R \|v\|$ bounds how far each can move.

    Above 1 no unit changes its sign in the ball of `radius`; infinite where nothing can move.
    """
    return min((float(ratio.min()) for ratio in _sign_ratios(anchor, radius).values()), default=float("inf"))


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
    k = min(ratios, key=lambda k: float(ratios[k].min()))
    i, p, j = (int(a) for a in np.unravel_index(int(ratios[k].argmin()), ratios[k].shape))
    return k, i, j, float(anchor.clearance[k][i, p, j])


def _sign_ratios(anchor: Anchor, radius: float) -> dict[int, Float[np.ndarray, "n p m"]]:
    graph, columns = anchor.graph, {name: i for i, name in enumerate(anchor.graph.trained)}
    each = ball(anchor, radius, anchor.inputs, len(anchor.slope[0])) if anchor.clearance else None
    ratios = {}
    for k, clearance in anchor.clearance.items():
        assert each is not None
        n, _, units = clearance.shape
        v = np.zeros((n, units, len(columns)))
        for t in graph.layers[k].terms:
            once = t.map.once(t.weight is not None)
            size = once if t.weight is None else anchor.rows[t.weight] * once
            v += np.broadcast_to(size, units)[None, :, None] * each.x[t.source][:, None, :]
            if t.weight in columns:
                v[:, :, columns[t.weight]] += each.inputs[graph.read(k, t)][:, None]
        far = radius * np.sqrt(np.square(v).sum(axis=2))[:, None, :] * UP
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios[k] = np.where(far > 0, clearance / far, np.inf)
    return ratios
