r"""Norms of products of layers, for every example, kept along the path: how far values move with pre-activations.

    A_hk = ∂z_h/∂z_k = Σ_t M_t φ_t(B_src,k),   A_kk = I,      B_vk = ∂x_v/∂z_k = [B_skip,k] + s σ'(z_v) A_vk

at one point θ° (`Tables`) give α° ≥ ‖diag(e°)^½ A°‖, with e° ≥ s ‖b‖ |σ''|, ‖b‖ over all outputs, and β° ≥ ‖B°‖. On the
ball of radius R around another point (`Row`s of `Near`), D = max |s σ'|, ΔD = max |s σ' − s σ'°|, Δ = ‖M − M°‖:

    size_hk = Σ_t (ω + κR) β_src,k                          ≥ ‖A‖
    a_hk    = Σ_t (κ(Δ + R) β°_src,k + (ω + κR) b_src,k)    ≥ ‖A − A°‖
    b_hk    = ΔD size + D° a + [b_skip,k]                   ≥ ‖B − B°‖
    β_hk    = min(β°_hk + b_hk, D size + [β_skip,k])        ≥ ‖B‖
    α²_hk   = min((α° + max e°^½ a)² + max(e − e°) size², max e size²)   ≥ ‖Aᵀ diag(e) A‖,  e that of the middle

D and ΔD grow by s L2 R|Z|/p on the ball. With X of `growth`, Z_h = Σ max_i size X e(w), T_v = Σ max_i β X e(w) over the
uses of trained weights, and in the first sum of the form max_i α |ℓ'_i|^½/p_i stands in place of (s d)^½ max_i size.
"""

from typing import Any, NamedTuple

import numpy as np
from flint import arb  # pyright: ignore[reportAttributeAccessIssue]

from wideproof_verify.arithmetic import Arithmetic, Array, FloatArithmetic, balls, larger, norm, root, smaller
from wideproof_verify.double import TINY, U
from wideproof_verify.floats import Floats, lengths
from wideproof_verify.functions import ACTIVATIONS
from wideproof_verify.graphs import Network
from wideproof_verify.maps import Map
from wideproof_verify.passes import Anchor
from wideproof_verify.refusals import check

SQUARINGS = 3  # of a matrix before its Frobenius norm is taken: (Σ λ^16)^(1/16) of its singular values


def steep(a: Array, ops: Arithmetic) -> arb:
    """Bound the spectral norm: ‖M‖² = ‖MMᵀ‖ again and again, and the Frobenius norm at last."""
    check()
    if not isinstance(ops, FloatArithmetic):
        return ops.spectral_norm(a)
    a = a.plain()
    scale = float(np.ldexp(1.0, np.frexp(np.abs(a.mid).max(initial=0.0))[1]))  # a power of two: squares stay in range
    return arb(scale) * _steep((a.mid if len(a) <= a.shape[1] else a.mid.T) / scale, SQUARINGS) + ops.split(a)[1]


def _steep(m: np.ndarray, squarings: int) -> float:
    """Return it for float64 numbers: k products added in any order are off by 2ku Σ|ab|, so MMᵀ by 2ku ‖M‖_F²."""
    far = float(lengths(Floats(m), None))
    if squarings == 0:
        return far
    off = 2 * (m.shape[1] + 16) * U * far * far * (1 + 8 * U) + TINY
    return float(np.sqrt((_steep(m @ m.T, squarings - 1) + off) * (1 + 4 * U))) * (1 + 4 * U)


def bows(anchor: Anchor, k: int, curve: Array | None) -> np.ndarray | None:
    """Return float64 bounds of s ‖b_k‖ |σ''(z_k)|, (units, examples, positions), b for every output; `None` for 0."""
    node, ops = anchor.network.nodes[k], anchor.ops
    second = ACTIVATIONS[node.activation].constants()[1]
    if arb(second).is_zero():
        return None
    size, scale = ops.lengths(anchor.backs[k], 1), float(np.nextafter(node.scale, np.inf))
    bend = float(arb(second).upper()) * (1 + 4 * U) if curve is None else ops.lengths(curve[:, None], 1)
    return size * bend * scale * (1 + 16 * U) + TINY


class Row(NamedTuple):
    """What is known of one example at θ°: slopes and e of every node, α and β by (value, node)."""

    slopes: list[Array]
    bows: list[np.ndarray | None]
    alpha: dict[tuple[int, int], arb]
    beta: dict[tuple[int, int], arb]


class Tables:
    """A point θ°, given by all its weights, and what is known of the examples that were asked for."""

    def __init__(self, net: Network, weights: dict[str, Any], x: np.ndarray, ops: Arithmetic) -> None:
        self.net, self.weights, self.x, self.ops = net, weights, x, ops
        self.rows: dict[int, Row] = {}
        self.begins = sorted({k for name in net.hidden for k, _ in net.uses(name)})

    def of(self, at: np.ndarray) -> list[Row]:
        """Return what is known of these examples."""
        missing = np.array([i for i in at.tolist() if i not in self.rows], np.int64)
        if missing.size:
            anchor = Anchor(self.net, self.weights, self.x[missing], ops=self.ops, keep=True)
            anchor.lean = False
            anchor.differentiate()
            curves = [self.ops.bend(v.activation, z) for v, z in zip(self.net.nodes, anchor.pre, strict=True)]
            bent = [bows(anchor, k, curve) for k, curve in enumerate(curves)]
            self.rows |= {int(row): self._row(anchor, bent, i) for i, row in enumerate(missing)}
        return [self.rows[i] for i in at.tolist()]

    def moved(self, name: str, weight: Any) -> arb:
        """Bound ‖M − M°‖."""
        return steep(self.ops.lift(weight) - self.ops.lift(self.weights[name]), self.ops)

    def _row(self, anchor: Anchor, bent: list[np.ndarray | None], i: int) -> Row:
        one, ops = slice(i, i + 1), self.ops
        slopes = [s[:, one] for s in anchor.slopes]
        row = Row(slopes, [None if e is None else e[:, one] for e in bent], {}, {})
        for k in self.begins:
            values: dict[int, Array] = {}
            for h in range(k, len(slopes)):
                node = self.net.nodes[h]
                inner = slopes[h] * arb(node.scale)
                if h == k:
                    row.beta[h, k] = ops.most(inner, (0, 1, 2))
                    values[h] = inner  # the diagonal of B_kk
                    continue
                found = self._push(anchor, h, k, values)
                e = row.bows[h]
                if found is not None and e is not None:
                    row.alpha[h, k] = steep(_matrix(found * ops.lift(np.sqrt(e) * (1 + 4 * U))), ops)
                ahead = None if found is None else inner * found
                source = -1 if node.skip is None else node.skip - self.net.inputs  # below 0: an input, or none
                skip = values.get(source)
                if skip is not None:
                    skip = self._whole(skip) if source == k else skip
                    ahead = skip if ahead is None else ahead + skip
                if ahead is not None:
                    values[h] = ahead
                    row.beta[h, k] = steep(_matrix(ahead), ops)
        return row

    def _push(self, anchor: Anchor, h: int, k: int, values: dict[int, Array]) -> Array | None:
        """Return A_hk as (features, columns, positions), or `None` for 0."""
        found: Array | None = None
        for t in self.net.nodes[h].terms:
            source = t.value - self.net.inputs
            if source not in values or not t.moves:
                continue
            inner = values[source]
            plain = source == k and type(t.phi) is Map and inner.shape[2] == 1
            if plain and t.weight is not None:  # a matrix times a diagonal one
                part = (anchor.matrices[t.weight] * inner.reshape(1, -1)).reshape(-1, len(inner), 1)
            else:
                inner = self._whole(inner) if source == k else inner
                part = t.phi.gather(inner, self.ops)
                if t.weight is not None:
                    flat = part.reshape(len(part), -1)
                    part = self.ops.rough(anchor.matrices[t.weight], flat).reshape(-1, *part.shape[1:])
            found = part if found is None else found + part
        return found

    def _whole(self, diagonal: Array) -> Array:
        """Write a diagonal matrix out: one column for every unit and position."""
        units, _, places = diagonal.shape
        one = np.eye(units * places).reshape(units, places, -1).transpose(0, 2, 1)
        return self.ops.lift(np.ascontiguousarray(one)) * diagonal


class Near:
    """What two passes say about the examples of a batch at another point, and the bounds on balls around it."""

    def __init__(self, point: Any, tables: Tables, at: np.ndarray) -> None:
        self.point, self.tables, ops, net = point, tables, point.ops, point.net
        rows, n = tables.of(at), len(at)
        self.alpha, self.beta = (
            {pair: balls([getattr(row, name)[pair] for row in rows]) for pair in getattr(rows[0], name)}
            for name in ("alpha", "beta")
        )
        self.gap = {name: tables.moved(name, point.anchor.floats[name]) for name in net.hidden}
        before = [np.concatenate([row.slopes[h] for row in rows], axis=1) for h in range(len(net.nodes))]
        here = point.anchor.slopes
        self.slope, self.old, self.turned = (
            [arb(v.scale) * ops.most(a, (0, 2)) for v, a in zip(net.nodes, found, strict=True)]
            for found in (here, before, [a - b for a, b in zip(here, before, strict=True)])
        )
        self.bows = [self._bows(point, rows, h) for h in range(len(net.nodes))]
        self.shares = root(ops.norm(point.seeds, 0)) / balls(point.p)
        self.inverse, self.zero = 1 / balls(point.p), balls(np.zeros(n))

    def _bows(self, point: Any, rows: list[Row], h: int) -> list[Any] | None:
        """Return max e, max (e − e°) and max e°^½ for every example."""
        here, known = bows(point.whole, h, point.curves[h]), [row.bows[h] for row in rows]
        if here is None:
            return None
        before = np.concatenate([e for e in known if e is not None], axis=1)
        apart = np.maximum(here - before, 0) * (1 + 4 * U)
        return [balls(a.max(axis=(0, 2))) for a in (here, apart, np.sqrt(before) * (1 + 8 * U))]

    def tangents(self, radius: arb) -> tuple[list, list, dict, list]:
        """Return Z, T and X, and for every node the root of its first sum in the form."""
        point, net, unit, begins = self.point, self.point.net, self.point.unit, self.tables.begins
        none, sizes, speeds, bent = 0 * unit[net.trained[0]], {}, [], []
        paths = [none] * net.inputs
        reach: dict[tuple[int, int], Any] = {}  # β
        off: dict[tuple[int, int], Any] = {}  # b
        for h, node in enumerate(net.nodes):
            uses = [t for t in node.terms if t.weight in unit]
            for t in uses:
                sizes[h, t] = point.sizes[t.value, t.phi] + t.phi.kappa * radius * norm(paths[t.value])
            size, apart = self._terms(h, radius, reach, off)
            speeds.append(self._sum(size, sizes, none))
            bent.append(self._sum(self._bent(h, size, apart), sizes, none))
            far = radius * norm(speeds[h]) * self.inverse * point.second[h] * arb(node.scale)
            most = smaller(self.slope[h] + far, self.zero + arb(node.scale) * point.first[h])
            skip = -1 if node.skip is None else node.skip - net.inputs  # below 0: an input, or none
            for k in begins:
                if k == h:
                    reach[h, k], off[h, k] = most, self.turned[h] + far
                elif (h, k) in self.beta:
                    whole, change = size.get(k, self.zero), apart.get(k, self.zero)
                    moved = (self.turned[h] + far) * whole + self.old[h] * change + off.get((skip, k), self.zero)
                    off[h, k] = moved
                    reach[h, k] = smaller(self.beta[h, k] + moved, most * whole + reach.get((skip, k), self.zero))
            paths.append(self._sum({k: reach[h, k] for k in begins if (h, k) in reach}, sizes, none))
        return speeds, paths, sizes, bent

    def _terms(self, h: int, radius: arb, reach: dict, off: dict) -> tuple[dict, dict]:
        """Return size_hk and a_hk for every node k that trained weights are used at."""
        point, net = self.point, self.point.net
        size: dict[int, Any] = {h: self.zero + arb(1)} if h in self.tables.begins else {}
        apart: dict[int, Any] = {h: self.zero} if h in self.tables.begins else {}
        for t in net.nodes[h].terms:
            source, trained = t.value - net.inputs, t.weight in point.unit
            omega = point.omega[h, t] + (t.phi.kappa * radius if trained else 0)
            gap = t.phi.kappa * (self.gap[t.weight] + radius) if trained else arb(0)
            for k in self.tables.begins:
                if t.moves and (source, k) in reach:
                    size[k] = size.get(k, self.zero) + omega * reach[source, k]
                    change = gap * self.beta[source, k] + omega * off[source, k]
                    apart[k] = apart.get(k, self.zero) + change
        return size, apart

    def _bent(self, h: int, size: dict, apart: dict) -> dict:
        """Return max_i α |ℓ'_i|^½/p_i for every k."""
        known = self.bows[h]
        if known is None:
            return {}
        most, change, roots = known
        scale = (arb(self.point.net.nodes[h].scale) * self.point.bends[h]).sqrt()
        found = {}
        for k, whole in size.items():
            plain = most * whole * whole
            if k != h:
                near = self.alpha[h, k] + roots * apart[k]
                plain = smaller(near * near + change * whole * whole, plain)
            found[k] = smaller(self.zero + larger.reduce(root(plain) * self.shares), scale * whole)
        return found

    def _sum(self, most: dict, sizes: dict, none: Any) -> Any:
        """Return Σ_u max_i (of u's node) X_u e(w_u)."""
        total = none
        for k, t in self.point.net.terms():  # a node may have the same term twice
            if k in most and (k, t) in sizes:
                total = total + larger.reduce(most[k]) * sizes[k, t] * self.point.unit[t.weight]
        return total


def _matrix(a: Array) -> Array:
    return a.swapaxes(1, 2).reshape(-1, a.shape[1])
