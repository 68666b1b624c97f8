r"""How much one step of gradient descent can enlarge an error: a bound G of ‖I − η∇²L‖ on a ball of radius R.

    G = max(1 + ηN, η (‖diag(c)^½ J‖² + N) − 1),   ∇²L = Jᵀ diag(ℓ'') J + S,   N ≥ ‖S‖,   S = Σ ℓ'_i ∇²f_i

with c ≥ ℓ'' for every output, on the ball (`losses`).

S is the second derivative of Σ ℓ'_i f_i with ℓ' held fixed, and b, g are the adjoints of that function. For any weights
p_i > 0 of the examples, columns δz_i p_i and g_i / p_i (‖·‖ of all examples as one matrix), e(w) a unit vector, and
with upper bounds Z·t, T·t of ‖δz diag(p)‖_F, ‖δx diag(p)‖_F for a direction with norms t:

    tangent   X = ‖φ(x) diag(p)‖ + κR|T_src|   Z_k = Σ_t (ω + κR) T_src + [trained] X e(w)   T_k = T_skip + s L1 Z_k
    outputs   F = (‖C‖ + R) T_site + X_site e(C) + ‖p‖ e(c)     |Δℓ'/p| ≤ R β|F| / min p²,  β = max c
    adjoint   |Δb/p| ≤ R DB:  DB_site = ‖C‖ β|F|/min p² + |ℓ'/p|,  DB_src += s (ω DG + κ (Γ + R DG)),  DB_skip += DB
              |Δg/p| ≤ R DG = R (L1 DB + L2 c |Z|),  c = max |b_ji|/p_i²,  Γ = ‖g diag(1/p)‖
    form      Q = Σ_k s (d Z Zᵀ + Σ_t κ (Γ + R DG) [e(w), T_src]) + (|ℓ'/p| + …) [e(C), T_site],  N = ‖Q‖
              d = max |b σ''|/p² + R (L2 DB + L3 c |Z|)/min p, or L2 (c + R DB/min p)

Where a weight reads the inputs and is used once, its own block of d Z Zᵀ is max_j ‖Σ_i b_ji σ''(z_ji) φ_i φ_iᵀ‖_F. With
ReLU nothing of this needs L2, but every |z_ji| has to exceed R|Z|/p_i. From tables of a point before (`tables`) norms
of products of layers take the place of products of norms in T, Z and the first sum of the form. The bound of J in the
ball uses the same form; in the middle it comes from the Gram matrix, there or at a point before, from which J has not
moved far (`drifted`).
"""

from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb  # pyright: ignore[reportAttributeAccessIssue]

from wideproof_verify.arithmetic import Arithmetic, above, balls, larger, norm
from wideproof_verify.bounds import pair
from wideproof_verify.double import U
from wideproof_verify.functions import ACTIVATIONS
from wideproof_verify.graphs import Network
from wideproof_verify.losses import Loss
from wideproof_verify.maps import Map
from wideproof_verify.passes import Anchor
from wideproof_verify.tables import Near, Tables

FLOOR, SPREAD = 0.05, 100.0  # the least weight of an example: of the mean square of ℓ', of R ‖J‖; any weights will do
DRIFT = 0.02  # share of its norm that a weight may move before its norm is bounded anew
WHOLE = Map((), 0)  # of the read-out, which reads a value as it is


class Norms:
    """Norms of weights along a path: bounded once, then kept as long as the weight is near."""

    def __init__(self, ops: Arithmetic) -> None:
        self.ops, self.known = ops, {}

    def bound(self, name: str | None, weight: Any, phi: Map) -> arb:
        """Return a bound of ‖x ↦ Mφ(x)‖."""
        if weight is None:
            return phi.kappa
        before = self.known.get((name, phi))
        if before is not None:
            moved = phi.kappa * self.ops.norm(self.ops.lift(weight) - self.ops.lift(before[0]))
            if moved < DRIFT * before[1]:
                return before[1] + moved
        self.known[name, phi] = weight, phi.norm(weight, self.ops)
        return self.known[name, phi][1]


class Reach:
    """How far values and outputs move near these weights, at most: what a forward pass tells, with weights `p`."""

    def __init__(self, anchor: Anchor, p: np.ndarray, norms: Norms):
        net = self.net = anchor.network
        self.anchor, self.ops, self.p = anchor, anchor.ops, p
        self.least, weight = arb(float(p.min())), self.ops.lift(p.reshape(1, -1, 1))
        one = balls(np.eye(len(net.trained)))
        self.unit = {name: one[k] for k, name in enumerate(net.trained)}  # e(w)
        self.omega = {(k, t): norms.bound(t.weight, anchor.floats.get(t.weight or ""), t.phi) for k, t in net.terms()}
        self.first, self.second = (
            [arb(ACTIVATIONS[v.activation].constants()[i]) for v in net.nodes] for i in (0, 1)
        )  # fmt: skip
        self.read = {(t.value, t.phi): anchor.gathered(t) for _, t in net.terms() if t.weight in net.trained}
        self.sizes = {at: self.ops.spectral_norm(_flat(phi * weight)) for at, phi in self.read.items()}
        self.far = norm(balls([self.ops.norm(anchor.values[s] * weight) for s in net.sites]))
        self.read_out = norms.bound(net.read_out, anchor.floats[net.read_out], WHOLE)

    def tangents(self, radius: arb) -> tuple[list, list, dict, list | None]:
        """Return Z, T and X, and with tables the roots of the first sums in the form."""
        net, unit = self.net, self.unit
        speeds, paths, sizes = [], [0 * unit[net.trained[0]]] * net.inputs, {}
        for k, node in enumerate(net.nodes):
            speed = paths[0]
            for t in node.terms:
                moves = t.phi.kappa * radius if t.weight in unit else arb(0)
                speed = speed + (self.omega[k, t] + moves) * paths[t.value]
                if t.weight in unit:
                    sizes[k, t] = self.sizes[t.value, t.phi] + t.phi.kappa * radius * norm(paths[t.value])
                    speed = speed + sizes[k, t] * unit[t.weight]
            speeds.append(speed)
            path = arb(node.scale) * self.first[k] * speed
            paths.append(path if node.skip is None else path + paths[node.skip])
        return speeds, paths, sizes, None

    def site(self, paths: list) -> Any:
        """T of all sites together."""
        return norm(np.stack([paths[s] for s in self.net.sites]), axis=0)

    def change(self, radius: arb, paths: list) -> Any:
        """Return F."""
        net, unit, site = self.net, self.unit, self.site(paths)
        moved = (self.read_out + (radius if net.read_out in unit else 0)) * site
        if net.read_out in unit:
            moved = moved + (self.far + radius * norm(site)) * unit[net.read_out]
        if net.bias in unit:
            count = arb(len(self.p) * len(net.sites)).sqrt()
            moved = moved + count * arb(float(self.p.max())) * unit[net.bias]
        return moved

    def moved(self, radius: arb) -> arb:
        """Return how far the outputs of all examples, as one vector, can move in the ball."""
        return radius * norm(self.change(radius, self.tangents(radius)[1])) / self.least


class Kept:
    """What stays while the rows do: products of their inputs, and the last `Point` whose Gram matrix was formed."""

    def __init__(self) -> None:
        self.squares: dict = {}
        self.point: Point | None = None


class Point(Reach):
    """One pass on a batch: what bounds the growth of an error near these weights."""

    def __init__(
        self, net: Network, weights: dict[str, Any], x: np.ndarray, y: np.ndarray, loss: Loss, norms: Norms,
        kept: Kept, radius: arb, tables: Tables | None = None, at: np.ndarray | None = None,
    ):  # fmt: skip
        self.loss, self.y, self.kept, ops = loss, y, kept, norms.ops
        anchor = Anchor(net, weights, x, ops=ops, keep=True)
        self.seeds = loss.slopes(anchor.outputs, y, ops)
        anchor.lean = False
        self.whole = copy(anchor.differentiate())  # with g of every output
        rows = self.seeds.reshape(1, *self.seeds.shape, 1)
        backs = [ops.summed(b, rows) for b in anchor.backs]
        gains = anchor.gains = [b * s for b, s in zip(backs, anchor.slopes, strict=True)]
        self.rho = ops.norm(self.seeds)
        super().__init__(anchor, self._weights(radius, ops.middle), norms)
        inverse = ops.lift((1 / self.p).reshape(1, -1, 1) * (1 + 4 * U))  # not below 1/p
        square = balls(np.square(1 / self.p) * (1 + 8 * U))
        self.third = [arb(ACTIVATIONS[v.activation].third) for v in net.nodes]
        self.gamma = [
            ops.spectral_norm(_flat(g * inverse))
            if any(t.value >= net.inputs for t in node.terms)
            else norm(ops.norm(g, (0, 2)) * ops.balls(inverse).ravel())
            for node, g in zip(net.nodes, gains, strict=True)
        ]
        self.longest = [larger.reduce(ops.most(b, (0, 2)) * square) for b in backs]
        self.curves = [ops.bend(v.activation, z) for v, z in zip(net.nodes, anchor.pre, strict=True)]
        bent = [None if c is None else b * c for b, c in zip(backs, self.curves, strict=True)]
        self.bends = [
            self.second[k] * self.longest[k] if d is None else larger.reduce(ops.most(d, (0, 2)) * square)
            for k, d in enumerate(bent)
        ]
        self.own = self._own(bent, kept.squares)
        sides = (self.seeds * inverse[:, :, 0]).reshape(len(net.sites), net.outputs, -1).transpose(1, 0, 2)
        self.rest = ops.spectral_norm(_flat(sides))  # one read-out meets all sites: their columns stand side by side
        self.near = None if tables is None else Near(self, tables, np.arange(len(x)) if at is None else at)

    def tangents(self, radius: arb) -> tuple[list, list, dict, list | None]:
        """Return Z, T and X, and the roots of the first sums in the form if there are tables."""
        return super().tangents(radius) if self.near is None else self.near.tangents(radius)

    @cached_property
    def gram(self) -> Any:
        """JJᵀ."""
        return self.whole.gram(self.whole.ops.rough)

    def _weights(self, radius: arb, middle: Any) -> np.ndarray:
        """Return p: about the roots of the norms of ℓ', and not much less than ℓ' changes in the ball."""
        sizes = np.linalg.norm(middle(self.seeds), axis=0)
        gram = (self if self.kept.point is None else self.kept.point).gram  # about
        wide = SPREAD * float(radius) * float(np.sqrt(np.linalg.norm(middle(gram))))
        return np.sqrt(np.maximum(sizes, max(FLOOR * float(np.sqrt(np.square(sizes).mean())), wide) + 1e-100))

    def _own(self, bent: list, squares: dict) -> dict:
        """Return max_j ‖Σ_i b_ji σ''(z_ji) φ_i φ_iᵀ‖_F of every weight that reads the inputs, once."""
        net, found, rough, most = self.net, {}, self.ops.rough, self.ops.most
        for name in net.hidden:
            (k, t), *others = net.uses(name)
            if others or t.value >= net.inputs or bent[k] is None:
                continue
            if (t.value, t.phi) not in squares:
                phi = _flat(self.read[t.value, t.phi])
                few = len(phi) ** 2 <= phi.shape[1]  # then φφᵀ is less than all (φ_i·φ_j)²
                each = (phi[:, None] * phi[None]).reshape(-1, phi.shape[1]).T if few else rough(phi.T, phi)
                squares[t.value, t.phi] = few, each if few else each * each
            d, (few, each) = _flat(bent[k]), squares[t.value, t.phi]
            found[k, t] = most(rough(d, each), (0,), 1) if few else most((rough(d, each) * d).sum(axis=1), (0,)).sqrt()
        return found

    def heads(self, apart: list, own: dict, tangents: tuple) -> list:
        """Return the first sum of the form, a matrix for every node; `apart` is what the ball adds to d."""
        speeds, _, sizes, bent = tangents
        found = []
        for k, node in enumerate(self.net.nodes):
            far, part = apart[k] if bent is not None else self.bends[k] + apart[k], arb(node.scale)
            head = part * far * (speeds[k][:, None] * speeds[k][None, :])
            head = head if bent is None else head + bent[k][:, None] * bent[k][None, :]
            for t in node.terms:
                if t.weight is not None and (k, t) in own:
                    e, size = self.unit[t.weight], sizes[k, t] ** 2
                    more = apart[k] * size + self.bends[k] * (size - self.sizes[t.value, t.phi] ** 2)
                    less = part * (own[k, t] + more) - (head * (e[:, None] * e[None, :])).sum()
                    head = head + less.min(arb(0)) * (e[:, None] * e[None, :])
            found.append(head)
        return found

    def form(self, heads: list, gains: list, out: arb, paths: list) -> arb:
        """Return ‖Q‖, `heads` being its first sum."""
        net, unit = self.net, self.unit
        q = balls(np.zeros((len(unit), len(unit))))
        for k, node in enumerate(net.nodes):
            q = q + heads[k]
            for t in node.terms:
                if t.weight in unit:
                    e = unit[t.weight]
                    q = q + arb(node.scale) * t.phi.kappa * gains[k] * pair(e, paths[t.value])
        if net.read_out in unit:
            q = q + out * pair(unit[net.read_out], self.site(paths))
        return norm(q) if norm(q) < 1e-100 else self.ops.spectral_norm(q)  # float64 cannot square what is smaller

    def curvatures(self, radius: arb) -> np.ndarray | None:
        """Return c on the ball as one row, or `None` where it is 1."""
        moved = arb(0) if self.loss.pair is None else self.moved(radius).upper()
        found = self.loss.bends(self.anchor.outputs, self.seeds, self.y, moved)
        return None if found is None else found.ravel()

    def adjoints(self, radius: arb, beta: arb, tangents: tuple) -> tuple[list, list, list, arb]:
        """Return DB and DG of every node, how much it can matter to the outputs, and the bound of Δℓ' over R."""
        net, unit, (speeds, paths, *_) = self.net, self.unit, tangents
        free, shift = net.read_out in unit, beta * norm(self.change(radius, paths)) / self.least**2
        back, turn, steep = ([arb(0)] * len(net.nodes) for _ in range(3))
        for s in net.sites:
            back[s - net.inputs] = self.read_out * shift + ((self.rest + radius * shift) if free else 0)
            steep[s - net.inputs] = self.read_out + radius
        for k in reversed(range(len(net.nodes))):
            node = net.nodes[k]
            turn[k] = self.first[k] * back[k] + self.second[k] * self.longest[k] * norm(speeds[k])
            if node.skip is not None and node.skip >= net.inputs:
                back[node.skip - net.inputs] += back[k]
                steep[node.skip - net.inputs] += steep[k]
            for t in node.terms:
                if t.value >= net.inputs and t.moves:
                    own = t.phi.kappa * (self.gamma[k] + radius * turn[k]) if t.weight in unit else 0
                    back[t.value - net.inputs] += arb(node.scale) * (self.omega[k, t] * turn[k] + own)
                    reach = self.omega[k, t] + (t.phi.kappa * radius if t.weight in unit else 0)
                    steep[t.value - net.inputs] += arb(node.scale) * self.first[k] * reach * steep[k]
        return back, turn, steep, shift

    def growth(self, eta: arb, radius: arb) -> tuple[arb, list[arb]]:
        """Return G, and for every node |Z|: how fast a z may move, times the weight of its example."""
        bends, least, count = self.curvatures(radius), self.least, range(len(self.net.nodes))
        beta = arb(1) if bends is None else arb(float(bends.max()))
        tangents = speeds, paths, *_ = self.tangents(radius)
        back, turn, steep, shift = self.adjoints(radius, beta, tangents)
        apart = [
            radius * (self.second[k] * back[k] + self.third[k] * self.longest[k] * norm(speeds[k])) / least
            for k in count
        ]
        gains = [self.gamma[k] + radius * turn[k] for k in count]
        bend = self.form(self.heads(apart, self.own, tangents), gains, self.rest + radius * shift, paths)
        first, second = ([most[k] * steep[k] / least for k in count] for most in (self.first, self.second))
        squares = [z[:, None] * z[None, :] for z in speeds]
        bows = [arb(node.scale) * v / least * z for node, v, z in zip(self.net.nodes, second, squares, strict=True)]
        wide = self.form(bows, first, 1 / least, paths)
        lower, upper = 1 + eta * bend, arb("inf")
        for steepest in (self.drifted, self.steepest):  # the Gram matrix only where G would be larger without it
            if not upper <= lower:
                upper = eta * (steepest(eta, bends) + beta.sqrt() * wide * radius) ** 2 + eta * bend - 1
        return lower.max(upper), [norm(z) for z in speeds]

    def clear(self, anchor: Anchor, speeds: list[arb], radius: arb) -> bool:
        """Whether every pre-activation of a ReLU keeps its side within the distance `radius`, the side taken here.

        `anchor` may be a finer point than this one, and rounding may have moved a pre-activation over its kink. Where
        all that is read is off, z is exactly 0 whatever the weights are, and so is all that follows from it.
        """
        net, off = self.net, {}
        for k, (node, z, speed) in enumerate(zip(net.nodes, anchor.pre, speeds, strict=True)):
            if node.activation != "relu":
                continue
            limit = float(above(radius * speed)) / self.p.reshape(1, -1, 1) * (1 + 8 * U)
            open_, below = anchor.ops.sides(z, np.broadcast_to(limit, z.shape))
            open_ = open_ | ~self.ops.holds(self.anchor.slopes[k], np.where(below, 0.0, 1.0))
            reads = [off.get(t.value) if type(t.phi) is Map else None for t in node.terms]
            silent = np.all([np.zeros(z.shape[1:], bool) if r is None else r for r in reads], axis=0)
            if (open_ & ~silent[None]).any():
                return False
            if node.skip is None:
                off[net.inputs + k] = silent | (below & ~open_).all(axis=0)
        return True

    def drifted(self, eta: arb, bends: np.ndarray | None = None) -> arb:
        """Bound ‖diag(c)^½ J‖ from the last Gram matrix: gφᵀ − g°φ°ᵀ = (g − g°)φᵀ + g°(φ − φ°)ᵀ, over all positions."""
        net, last, ops, square = self.net, self.kept.point, self.ops, arb(0)
        if last is None:
            return arb("inf")
        for name in net.hidden:
            far = arb(0)
            for k, t in net.uses(name):
                (g, phi), (g0, phi0) = ((a.whole.gains[k], a.read[t.value, t.phi]) for a in (self, last))
                turned = ops.apart(g, g0, (0, 1, 3)) * ops.norm(phi, (0, 2))
                pushed = ops.norm(g0, (0, 1, 3)) * ops.apart(phi, phi0, (0, 2))
                far += arb(net.nodes[k].scale) * (norm(turned) + norm(pushed))
            square += far * far
        if net.read_out in net.trained:
            ends = ((self.anchor.values[s], last.anchor.values[s]) for s in net.sites)
            square += net.outputs * sum((ops.apart(x, x0) ** 2 for x, x0 in ends), arb(0))
        moved = square.upper().sqrt()
        if bends is None:
            return last.steep + moved
        grown = float(np.where(bends <= last.c, 1.0, bends / last.c).max()) * (1 + 4 * U)
        return arb(grown).sqrt() * last.steep + arb(float(bends.max())).sqrt() * moved

    def steepest(self, eta: arb, bends: np.ndarray | None = None) -> arb:
        """Bound ‖diag(c)^½ J‖: λ ≤ (Σ λ⁴)^¼ of the Gram matrix, or its largest one where that is too much."""
        ops, gram = self.ops, self.gram
        if bends is not None:
            roots = ops.lift(np.sqrt(bends) * (1 + 4 * U))  # not below the roots
            gram = gram * roots.reshape(-1, 1) * roots.reshape(1, -1)
        quick = ops.norm(ops.rough(gram, gram)).sqrt()
        self.steep = (quick if eta * quick <= 2 else ops.largest(ops.symmetric(gram))).sqrt()
        self.kept.point, self.c = self, bends
        return self.steep


def _flat(a: Any) -> Any:
    return a.reshape(len(a), -1)
