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

from wideproof_verify import near
from wideproof_verify.activations import ACTIVATIONS
from wideproof_verify.arithmetic import Balls, above, arb, balls, largest, norm, spectral_norm
from wideproof_verify.bounds import kappa, operator_norm
from wideproof_verify.graphs import Network, Phi
from wideproof_verify.losses import Loss
from wideproof_verify.near import Near
from wideproof_verify.networks import Anchor

# name: bound of |σ'''|; these are the activations whose σ'' is computed
THIRD = {"erf": 2.2568, "tanh": 2.0, "sigmoid": 0.125, "softplus": 0.0963, "sin": 1.0}
FLOOR, SPREAD = 0.05, 100.0  # the least weight of an example: of the mean square of ℓ', of R ‖J‖; any weights will do
DRIFT = 0.02  # share of its norm that a weight may move before its norm is bounded anew


class Norms:
    """Norms of weights along a path: bounded once, then kept as long as the weight is near."""

    def __init__(self) -> None:
        self.known: dict[Any, tuple[np.ndarray, arb]] = {}

    def bound(self, name: str | None, weight: np.ndarray | None, phi: Phi) -> arb:
        """Return a bound of ‖x ↦ Mφ(x)‖."""
        if weight is None:
            return kappa(phi)
        before = self.known.get((name, phi))
        if before is not None:
            moved = kappa(phi) * norm(Near(weight) - Near(before[0]))
            if moved < DRIFT * before[1]:
                return before[1] + moved
        self.known[name, phi] = weight, operator_norm(weight, phi)
        return self.known[name, phi][1]


def bent(name: str, z: Near) -> Near | None:
    """Return σ''(z), or `None` where only L2 is known.

    The coefficients of σ' around k/64 are at most C ≤ 3.5 (Cauchy): what follows degree 8 adds less than 1e-14 to σ'',
    rounding less than 1e-13. Beyond ±40 all of them but the sine have |σ''| < 1e-16.
    """
    if name not in THIRD:
        return None
    flat = (np.abs(z.mid) > near.REACH) & np.isfinite(z.mid) & (name != "sin")
    known = np.abs(z.mid) <= near.REACH  # what is no number is not
    inside = np.where(known, z.mid, 0.0).ravel()
    k = np.rint(inside * near.STEP)
    at, d, value = k.astype(np.int64) + near.STEP * near.REACH, inside - k / near.STEP, 0 * inside
    for j in range(near.TERMS - 1, 1, -1):
        value = value * d + j * (j - 1) * near.taylor(name)[j][at]
    most = float(above(arb(ACTIVATIONS[name][1]()[1])))
    slack = 1e-12 + THIRD[name] * z.rad * (1 + 1e-9)
    return Near(np.where(known, value.reshape(z.shape), 0.0), np.where(known | flat, slack, most))


class Reach:
    """How far values and outputs move near these weights, at most: what a forward pass tells, with weights `p`."""

    def __init__(self, anchor: Anchor, weights: dict[str, np.ndarray], p: np.ndarray, norms: Norms):
        net = self.net = anchor.network
        self.p, self.least, weight = p, arb(float(p.min())), Near(p.reshape(1, -1, 1))
        omega = lambda t: norms.bound(t.weight, weights.get(t.weight), t.phi)  # noqa: E731
        self.omega = {(k, t): omega(t) for k, t in net.terms()}
        self.first = [arb(ACTIVATIONS[v.activation][1]()[0]) for v in net.nodes]
        self.read = {(t.value, t.phi): anchor.gathered(t) for _, t in net.terms() if t.weight in net.trained}
        self.sizes = {at: spectral_norm(_flat(phi * weight)) for at, phi in self.read.items()}
        self.far = [norm(_flat(anchor.values[s] * weight)) for s in net.sites]
        self.read_out = norms.bound(net.read_out, weights[net.read_out], Phi("identity", ()))

    def tangents(self, radius: arb) -> tuple[list, list, dict]:
        """Return Z, T and X."""
        net, unit = self.net, self.unit
        speeds, paths, sizes = [], [0 * unit[net.trained[0]]] * net.inputs, {}
        for k, node in enumerate(net.nodes):
            speed = paths[0]
            for t in node.terms:
                moves = kappa(t.phi) * radius if t.weight in unit else arb(0)
                speed = speed + (self.omega[k, t] + moves) * paths[t.value]
                if t.weight in unit:
                    sizes[k, t] = self.sizes[t.value, t.phi] + kappa(t.phi) * radius * norm(paths[t.value])
                    speed = speed + sizes[k, t] * unit[t.weight]
            speeds.append(speed)
            path = arb(node.scale) * self.first[k] * speed
            paths.append(path + (0 if node.skip is None else paths[node.skip]))
        return speeds, paths, sizes

    @property
    def unit(self) -> dict[str, Balls]:
        """e(w) of every trained array."""
        one = balls(np.eye(len(self.net.trained)))
        return {name: one[k] for k, name in enumerate(self.net.trained)}

    def site(self, paths: list) -> Balls:
        """T of all sites together."""
        return np.array([norm(np.array(column)) for column in zip(*(paths[s] for s in self.net.sites), strict=True)])

    def change(self, radius: arb, paths: list) -> Balls:
        """Return F."""
        net, unit, site = self.net, self.unit, self.site(paths)
        moved = (self.read_out + (radius if net.read_out in unit else 0)) * site
        if net.read_out in unit:
            moved = moved + (norm(np.array(self.far)) + radius * norm(site)) * unit[net.read_out]
        if net.bias in unit:
            count = arb(len(self.p) * len(net.sites)).sqrt()
            moved = moved + count * arb(float(self.p.max())) * unit[net.bias]
        return moved

    def moved(self, radius: arb) -> arb:
        """Return how far the outputs of all examples, as one vector, can move in the ball."""
        return radius * norm(self.change(radius, self.tangents(radius)[1])) / self.least


class Point(Reach):
    """One float64 pass on a batch: what bounds the growth of an error near these weights."""

    def __init__(
        self,
        net: Network,
        weights: dict[str, np.ndarray],
        x: np.ndarray,
        y: np.ndarray,
        loss: Loss,
        norms: Norms,
        squares: dict,
        radius: arb,
    ):
        self.loss = loss
        anchor = self.anchor = Anchor(net, weights, x, large=True, keep=True)
        self.seeds = loss.slopes(anchor.outputs, y)
        anchor.lean = False
        anchor.differentiate()
        self.gram = anchor.gram(near.rough)
        rows = self.seeds.reshape(1, *self.seeds.shape, 1)
        backs = [(b * rows).sum(axis=1) for b in anchor.backs]
        gains = anchor.gains = [b * s for b, s in zip(backs, anchor.slopes, strict=True)]
        sizes = near.lengths(self.seeds, 0)
        wide = SPREAD * float(radius) * float(norm(self.gram)) ** 0.5  # more than ℓ' changes in the ball
        p = np.sqrt(np.maximum(sizes, max(FLOOR * np.sqrt(np.square(sizes).mean()), wide) + 1e-100))
        super().__init__(anchor, weights, p, norms)
        inverse = Near((1 / self.p).reshape(1, -1, 1) * (1 + 4 * near.U))  # not below 1/p
        self.second = [arb(ACTIVATIONS[v.activation][1]()[1]) for v in net.nodes]
        self.third = [arb(THIRD.get(v.activation, 0)) for v in net.nodes]
        self.gamma = [
            (spectral_norm if any(t.value >= net.inputs for t in node.terms) else norm)(_flat(g * inverse))
            for node, g in zip(net.nodes, gains, strict=True)
        ]
        square = np.square(1 / self.p).reshape(1, -1, 1) * (1 + 8 * near.U)
        self.longest = [_most(b.largest() * square) for b in backs]
        curves = [bent(v.activation, z) for v, z in zip(net.nodes, anchor.pre, strict=True)]
        self.bends = [
            self.second[k] * self.longest[k] if c is None else _most(b.largest() * c.largest() * square)
            for k, (b, c) in enumerate(zip(backs, curves, strict=True))
        ]
        self.own = {}
        for name in net.trained:
            uses = net.uses(name)
            if len(uses) != 1 or uses[0][1].value >= net.inputs or curves[uses[0][0]] is None:
                continue
            k, t = uses[0]
            if (t.value, t.phi) not in squares:
                phi = _flat(self.read[t.value, t.phi])
                inner = near.rough(phi.T, phi)
                squares[t.value, t.phi] = inner * inner
            d = _flat(backs[k] * curves[k])
            forms = (near.rough(d, squares[t.value, t.phi]) * d).sum(axis=1).largest()
            self.own[k, t] = _most(forms).sqrt()
        self.rho = norm(self.seeds)
        sides = (self.seeds * inverse[:, :, 0]).reshape(len(net.sites), net.outputs, -1).transpose(1, 0, 2)
        self.rest = spectral_norm(_flat(sides))  # one read-out meets all sites: their columns stand side by side

    def form(self, bends: list, gains: list, out: arb, own: dict, tangents: tuple) -> arb:
        """Return ‖Q‖."""
        net, unit, (speeds, paths, sizes) = self.net, self.unit, tangents
        q = np.full((len(unit), len(unit)), arb(0))
        for k, node in enumerate(net.nodes):
            q = q + arb(node.scale) * bends[k] * np.multiply.outer(speeds[k], speeds[k])
            for t in node.terms:
                if t.weight in unit:
                    e = unit[t.weight]
                    q = q + arb(node.scale) * kappa(t.phi) * gains[k] * _pair(e, paths[t.value])
                    if (k, t) in own:
                        less = own[k, t] - bends[k] * sizes[k, t] ** 2
                        q = q + arb(node.scale) * less.min(arb(0)) * np.multiply.outer(e, e)
        if net.read_out in unit:
            q = q + out * _pair(unit[net.read_out], self.site(paths))
        return norm(q) if norm(q) < 1e-100 else spectral_norm(q)  # float64 cannot square what is smaller

    def growth(self, eta: arb, radius: arb) -> tuple[arb, list[arb]]:
        """Return G, and for every node |Z|: how fast a z may move, times the weight of its example."""
        net, unit, (beta, least) = self.net, self.unit, (arb(self.loss.curvature), self.least)
        tangents = speeds, paths, sizes = self.tangents(radius)
        free, moved = net.read_out in unit, self.change(radius, paths)
        shift = beta * norm(moved) / least**2
        back, turn, steep = [arb(0)] * len(net.nodes), [arb(0)] * len(net.nodes), [arb(0)] * len(net.nodes)
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
                if t.value < net.inputs or not t.moves:
                    continue
                own = kappa(t.phi) * (self.gamma[k] + radius * turn[k]) if t.weight in unit else 0
                back[t.value - net.inputs] += arb(node.scale) * (self.omega[k, t] * turn[k] + own)
                reach = self.omega[k, t] + (kappa(t.phi) * radius if t.weight in unit else 0)
                steep[t.value - net.inputs] += arb(node.scale) * self.first[k] * reach * steep[k]
        apart = [
            radius * (self.second[k] * back[k] + self.third[k] * self.longest[k] * norm(speeds[k])) / least
            for k in range(len(net.nodes))
        ]
        bends = [b + a for b, a in zip(self.bends, apart, strict=True)]
        gains = [g + radius * t for g, t in zip(self.gamma, turn, strict=True)]
        own = {
            (k, t): size + apart[k] * sizes[k, t] ** 2
            + self.bends[k] * (sizes[k, t] ** 2 - self.sizes[t.value, t.phi] ** 2)
            for (k, t), size in self.own.items()
        }  # fmt: skip
        bend = self.form(bends, gains, self.rest + radius * shift, own, tangents)
        wide = self.form(
            [l2 * v / least**2 for l2, v in zip(self.second, steep, strict=True)],
            [l1 * v / least for l1, v in zip(self.first, steep, strict=True)], 1 / least, {}, tangents,
        )  # fmt: skip
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
            limit = float(above(radius * speed)) / self.p.reshape(1, -1, 1) * (1 + 8 * near.U)
            if isinstance(z, Near):
                open_, below = np.abs(z.mid) * (1 - 8 * near.U) <= z.rad + limit, z.mid < 0
            else:
                pairs = np.broadcast(z, limit)
                open_ = np.array([not abs(a) > arb(float(b)) for a, b in pairs]).reshape(z.shape)
                below = np.array([bool(a < 0) for a in z.ravel()]).reshape(z.shape)
            slope = self.anchor.slopes[k]
            open_ = open_ | ~(np.abs(slope.mid - ~below) <= slope.rad)
            reads = [off.get(t.value) if t.phi.kind == "identity" else None for t in node.terms]
            silent = np.all([np.zeros(z.shape[1:], bool) if r is None else r for r in reads], axis=0)
            if (open_ & ~silent).any():
                return False
            if node.skip is None:
                off[net.inputs + k] = silent | (below & ~open_).all(axis=0)
        return True

    def steepest(self, eta: arb) -> arb:
        """Bound ‖J‖: λ ≤ (Σ λ⁴)^¼ of JJᵀ, or the largest one where that is too much for this step size."""
        quick = norm(near.rough(self.gram, self.gram)).sqrt()
        return (quick if eta * quick <= 2 else arb(largest(self.gram))).sqrt()


def _pair(a: Balls, b: Balls) -> Balls:
    return np.multiply.outer(a, b) + np.multiply.outer(b, a)


def _flat(a: Balls) -> Balls:
    return a.reshape(len(a), -1)


def _most(a: np.ndarray) -> arb:
    return arb(float(a.max()) * (1 + 16 * near.U) + near.TINY)
