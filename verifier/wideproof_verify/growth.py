r"""How much one step of gradient descent can enlarge an error: a bound G of ‖I − η∇²L‖ on a ball of radius R.

    G = max(1 + ηN, η (ℓ''‖J‖² + N) − 1),   ∇²L = Jᵀ diag(ℓ'') J + S,   N ≥ ‖S‖,   S = Σ ℓ'_i ∇²f_i

S is the second derivative of Σ ℓ'_i f_i with ℓ' held fixed, and b, g are the adjoints of that function. For any weights
p_i > 0 of the examples, columns δz_i p_i and g_i / p_i (‖·‖ of all examples as one matrix), e(w) a unit vector, and
with upper bounds Z·t, T·t of ‖δz diag(p)‖_F, ‖δx diag(p)‖_F for a direction with norms t:

    tangent   X = ‖φ(x) diag(p)‖ + κR|T_src|   Z_k = Σ_t (ω + κR) T_src + [trained] X e(w)   T_k = T_skip + s L1 Z_k
    outputs   F = (‖C‖ + R) T_site + X_site e(C) + ‖p‖ e(c)     |Δℓ'/p| ≤ R β|F| / min p²,  β = sup ℓ''
    adjoint   |Δb/p| ≤ R DB:  DB_site = ‖C‖ β|F|/min p² + |ℓ'/p|,  DB_src += s (ω DG + κ (Γ + R DG)),  DB_skip += DB
              |Δg/p| ≤ R DG = R (L1 DB + L2 c |Z|),  c = max |b_ji|/p_i²,  Γ = ‖g diag(1/p)‖
    form      Q = Σ_k s (d Z Zᵀ + Σ_t κ (Γ + R DG) [e(w), T_src]) + (|ℓ'/p| + …) [e(C), T_site],  N = ‖Q‖
              d = max |b σ''|/p² + R (L2 DB + L3 c |Z|)/min p, or L2 (c + R DB/min p)

Where a weight reads the inputs and is used once, its own block of d Z Zᵀ is max_j ‖Σ_i b_ji σ''(z_ji) φ_i φ_iᵀ‖_F. With
ReLU nothing of this needs L2, but every |z_ji| has to exceed R|Z|/p_i. The bound of J in the ball uses the same form.
"""

from typing import Any

import numpy as np
from flint import arb  # pyright: ignore[reportAttributeAccessIssue]

from wideproof_verify.arithmetic import Arithmetic, above, balls, norm
from wideproof_verify.bounds import pair
from wideproof_verify.double import U
from wideproof_verify.functions import ACTIVATIONS
from wideproof_verify.graphs import Network
from wideproof_verify.losses import Loss
from wideproof_verify.maps import Map
from wideproof_verify.passes import Anchor

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

    def tangents(self, radius: arb) -> tuple[list, list, dict]:
        """Return Z, T and X."""
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
        return speeds, paths, sizes

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


class Point(Reach):
    """One pass on a batch: what bounds the growth of an error near these weights."""

    def __init__(
        self, net: Network, weights: dict[str, Any], x: np.ndarray, y: np.ndarray, loss: Loss, norms: Norms,
        squares: dict, radius: arb,
    ):  # fmt: skip
        self.loss, ops = loss, norms.ops
        anchor = Anchor(net, weights, x, ops=ops, keep=True)
        self.seeds = loss.slopes(anchor.outputs, y, ops)
        anchor.lean = False
        anchor.differentiate()
        self.gram = anchor.gram(ops.rough)
        rows = self.seeds.reshape(1, *self.seeds.shape, 1)
        backs = [(b * rows).sum(axis=1) for b in anchor.backs]
        gains = anchor.gains = [b * s for b, s in zip(backs, anchor.slopes, strict=True)]
        self.rho = ops.norm(self.seeds)
        super().__init__(anchor, self._weights(radius, ops.middle), norms)
        inverse = ops.lift((1 / self.p).reshape(1, -1, 1) * (1 + 4 * U))  # not below 1/p
        square = ops.lift(np.square(1 / self.p).reshape(1, -1, 1) * (1 + 8 * U))
        self.third = [arb(ACTIVATIONS[v.activation].third) for v in net.nodes]
        self.gamma = [
            (ops.spectral_norm if any(t.value >= net.inputs for t in node.terms) else ops.norm)(_flat(g * inverse))
            for node, g in zip(net.nodes, gains, strict=True)
        ]
        heavy = [b * square for b in backs]
        self.longest = [ops.most(b, (0, 1, 2)) for b in heavy]
        curves = [ops.bend(v.activation, z) for v, z in zip(net.nodes, anchor.pre, strict=True)]
        self.bends = [
            self.second[k] * self.longest[k] if c is None else ops.most(b * c, (0, 1, 2))
            for k, (b, c) in enumerate(zip(heavy, curves, strict=True))
        ]
        self.own = self._own(backs, curves, squares)
        sides = (self.seeds * inverse[:, :, 0]).reshape(len(net.sites), net.outputs, -1).transpose(1, 0, 2)
        self.rest = ops.spectral_norm(_flat(sides))  # one read-out meets all sites: their columns stand side by side

    def _weights(self, radius: arb, middle: Any) -> np.ndarray:
        """Return p: about the roots of the norms of ℓ', and not much less than ℓ' changes in the ball."""
        sizes = np.linalg.norm(middle(self.seeds), axis=0)
        wide = SPREAD * float(radius) * float(np.sqrt(np.linalg.norm(middle(self.gram))))
        return np.sqrt(np.maximum(sizes, max(FLOOR * float(np.sqrt(np.square(sizes).mean())), wide) + 1e-100))

    def _own(self, backs: list, curves: list, squares: dict) -> dict:
        """Return max_j ‖Σ_i b_ji σ''(z_ji) φ_i φ_iᵀ‖_F of every weight that reads the inputs, once."""
        net, found, rough = self.net, {}, self.ops.rough
        for name in net.hidden:
            (k, t), *others = net.uses(name)
            if others or t.value >= net.inputs or curves[k] is None:
                continue
            if (t.value, t.phi) not in squares:
                phi = _flat(self.read[t.value, t.phi])
                inner = rough(phi.T, phi)
                squares[t.value, t.phi] = inner * inner
            d = _flat(backs[k] * curves[k])
            found[k, t] = self.ops.most((rough(d, squares[t.value, t.phi]) * d).sum(axis=1), (0,)).sqrt()
        return found

    def form(self, bends: list, gains: list, out: arb, own: dict, tangents: tuple) -> arb:
        """Return ‖Q‖."""
        net, unit, (speeds, paths, sizes) = self.net, self.unit, tangents
        q = balls(np.zeros((len(unit), len(unit))))
        for k, node in enumerate(net.nodes):
            q = q + arb(node.scale) * bends[k] * (speeds[k][:, None] * speeds[k][None, :])
            for t in node.terms:
                if t.weight in unit:
                    e = unit[t.weight]
                    q = q + arb(node.scale) * t.phi.kappa * gains[k] * pair(e, paths[t.value])
                    if (k, t) in own:
                        less = own[k, t] - bends[k] * sizes[k, t] ** 2
                        q = q + arb(node.scale) * less.min(arb(0)) * (e[:, None] * e[None, :])
        if net.read_out in unit:
            q = q + out * pair(unit[net.read_out], self.site(paths))
        return norm(q) if norm(q) < 1e-100 else self.ops.spectral_norm(q)  # float64 cannot square what is smaller

    def adjoints(self, radius: arb, tangents: tuple) -> tuple[list, list, list, arb]:
        """Return DB and DG of every node, how much it can matter to the outputs, and the bound of Δℓ' over R."""
        net, unit, (speeds, paths, _) = self.net, self.unit, tangents
        free, shift = net.read_out in unit, arb(self.loss.curvature) * norm(self.change(radius, paths)) / self.least**2
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
        beta, least, count = arb(self.loss.curvature), self.least, range(len(self.net.nodes))
        tangents = speeds, _, sizes = self.tangents(radius)
        back, turn, steep, shift = self.adjoints(radius, tangents)
        apart = [
            radius * (self.second[k] * back[k] + self.third[k] * self.longest[k] * norm(speeds[k])) / least
            for k in count
        ]
        bends = [self.bends[k] + apart[k] for k in count]
        gains = [self.gamma[k] + radius * turn[k] for k in count]
        own = {
            (k, t): size + apart[k] * sizes[k, t] ** 2
            + self.bends[k] * (sizes[k, t] ** 2 - self.sizes[t.value, t.phi] ** 2)
            for (k, t), size in self.own.items()
        }  # fmt: skip
        bend = self.form(bends, gains, self.rest + radius * shift, own, tangents)
        first, second = ([most[k] * steep[k] / least for k in count] for most in (self.first, self.second))
        wide = self.form([v / least for v in second], first, 1 / least, {}, tangents)
        upper = eta * beta * (self.steepest(eta * beta) + wide * radius) ** 2 + eta * bend - 1
        return (1 + eta * bend).max(upper), [norm(z) for z in speeds]

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

    def steepest(self, eta: arb) -> arb:
        """Bound ‖J‖: λ ≤ (Σ λ⁴)^¼ of JJᵀ, or the largest one where that is too much for this step size."""
        quick = self.ops.norm(self.ops.rough(self.gram, self.gram)).sqrt()
        return (quick if eta * quick <= 2 else self.ops.largest(self.ops.symmetric(self.gram))).sqrt()


def _flat(a: Any) -> Any:
    return a.reshape(len(a), -1)
