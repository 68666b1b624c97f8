r"""$\Lambda(R)$: how fast the Jacobian can change in the ball of radius R around the stored weights.

Vectors have one component per trained array, e(w) is a unit vector, t = (‖U_w‖_F) for a direction U; all are upper
bounds. At the stored weights n = ‖φ(x)‖₂, ω = ‖x ↦ Mφ(x)‖, β2 = ‖b‖_F, β∞ = longest column of b, γ = ‖g‖₂ with outputs
and positions side by side, d = max|σ'|, ζ = ‖∂z/∂w‖, τ = ‖∂x/∂w‖; κ = ‖φ‖; D = L2 R|ZP| bounds how far σ' moves.
Plain: ζ_k = Σ_t ω τ_src + [trained] n_src e(w), τ_k = τ_skip + s d ζ_k, D ≤ L1 − d. Sharp: ζ, τ themselves.

    ball      N = n + κR|TP|   ZP_k = Σ_t ω TP_src + [trained] N_src e(w)   TP_k = TP_skip + s L1 ZP_k
    tangent   E_k = Σ_t ω E'_src + [trained] κR (T_src + |TP_src| e(w))     E'_k = E'_skip + s (d E_k + D Z_k)
              Z_k = ζ_k + E_k,  T_k = τ_k + E'_k
    back      DB_k = [site, C trained] e(C) + Σ_{k' skips to k} DB_k' + Σ_{t reads k} s' ([trained] κ NG' e(w) + ω gp')
              gp = L2 β∞ ZP + L1 DB,  NB = β2 + R|DB|,  NB∞ = β∞ + R|DB|,  NG = min(L1 NB, γ + R|gp|)
    form      Q = Σ_k s (L2 NB∞ Z Zᵀ + NG Σ_{t trained} κ [e(w), T_src]) + [C trained] [e(C), T~],  [a, b] = a bᵀ + b aᵀ

Where an example stands for r equal rows, its form counts √r times in the sums over i, and columns of all examples as
one matrix are multiplied by √r. T~ = √Σ_sites T². In the ball |δz_k| ≤ Z_k·t, |δx_k| ≤ T_k·t, |D²F_i[U, U]| ≤ tᵀ Q_i
t. Λ: the least of (Σ_i ‖Q_i‖²)^½, the norm of (Σ_i Q_{i,kl}²)^½, and ‖Q‖ for all examples' columns as one matrix,
where Z Zᵀ is half of [max_i Z_i, Z].
"""

from itertools import product as pairs
from typing import Any

import numpy as np
from flint import arb  # pyright: ignore[reportAttributeAccessIssue]

from wideproof_verify.arithmetic import Array, above, balls, larger, norm, root, smaller
from wideproof_verify.functions import ACTIVATIONS
from wideproof_verify.graphs import Term
from wideproof_verify.passes import Anchor
from wideproof_verify.refusals import check


def pair(a: Any, b: Any) -> Any:
    """Return [a, b]; further axes run along."""
    return a[:, None] * b[None, :] + b[:, None] * a[None, :]


def _most(arrays: list[Any]) -> list[Any]:
    return [larger.reduce(a, axis=-1, keepdims=True) for a in arrays]


def _perron(q: Any) -> Any:
    """Bound the norm of every matrix q[:, i], symmetric and without negative entries: max_k (Qv)_k / v_k, any v > 0."""
    top = np.abs(np.linalg.eigh(np.asarray(q.astype(np.float64)).swapaxes(0, 1))[1][:, :, -1]) + 1e-12
    found = [(q * v[None]).sum(axis=2) / v.T for v in (balls(top), balls(np.ones(top.shape)))]
    return smaller(*(larger.reduce(bound, axis=0) for bound in found))


class Bounds:
    """Norms at the stored weights, taken once; `lipschitz` and `sign` then cost little for each radius."""

    def __init__(self, anchor: Anchor, sharp: bool):
        self.anchor, self.ops, net = anchor, anchor.ops, anchor.network
        self.net, units = net, balls(np.eye(len(net.trained)))
        self.unit = {name: units[:, k, None] for k, name in enumerate(net.trained)}
        constants = [ACTIVATIONS[node.activation].constants() for node in net.nodes]
        self.first, self.second = ([arb(pair[i]) for pair in constants] for i in (0, 1))
        known: dict = {}
        self.omega = {(k, t): self._operator(t, known) for k, t in net.terms()}
        read = {(t.value, t.phi): anchor.gathered(t) for _, t in net.terms() if t.weight in self.unit}
        self.each = {at: self._spectral(phi) for at, phi in read.items()}
        flat = {at: anchor.weighted(phi, 1).reshape(len(phi), 1, -1) for at, phi in read.items()}
        self.batch = {at: self._spectral(phi) for at, phi in flat.items()}
        self._back_norms()
        self.slope = [self.ops.most(s, (0, 2)) for s in anchor.slopes]
        self.views = (self.each, self.slope), (self.batch, _most(self.slope))
        self.ways = [[self.sweep(*view, arb(0)) for view in self.views], *([self._tangents()] if sharp else [])]

    def _back_norms(self) -> None:
        """Bound β2, β∞ and γ of every node."""
        anchor, every = self.anchor, np.full(self.anchor.n, arb(1))  # what all examples share is kept once
        self.beta2 = [self.ops.norm(b, (0, 1, 3)) * every for b in anchor.backs]
        self.beta_max = [self.ops.most(b, (0, 2), 1) * every for b in anchor.backs]
        self.gamma = [self._gain(k) for k in range(len(self.net.nodes))]

    def _spectral(self, a: Array) -> Any:
        """Return the norm of every matrix a[:, i]."""
        if a.shape[2] == 1:
            return self.ops.norm(a, (0, 2))
        return balls(np.array([self.ops.spectral_norm(b) for b in a.swapaxes(0, 1)], dtype=object))

    def _gain(self, k: int) -> Any:
        """Return γ, or the Frobenius norms of g where it is too large to be kept."""
        if self.anchor.lean:
            return self.anchor.gain(k)
        g = self.anchor.gains[k].transpose(0, 2, 1, 3)
        return self._spectral(g.reshape(len(g), self.anchor.n, -1))

    def steepest(self, read_out: arb) -> arb:
        """Bound ‖J‖: of one array ‖J_w‖ ≤ Σ_uses s max_i γ_i ‖φ‖, `read_out` is ‖JJᵀ‖ of the read-out."""
        net, total = self.net, read_out
        if net.bias in self.unit:
            total = total + arb(float(self.anchor.counts.sum()))
        for name in net.hidden:
            parts = [
                arb(net.nodes[k].scale) * larger.reduce(self.gamma[k]) * self.batch[t.value, t.phi][0]
                for k, t in net.uses(name)
            ]
            total = total + sum(parts, arb(0)) ** 2
        return total.sqrt()

    def _operator(self, term: Term, known: dict) -> arb:
        """Bound ω, once for each weight and map."""
        at = term.weight, term.phi
        if at not in known:
            known[at] = term.phi.norm(None if term.weight is None else self.anchor.floats[term.weight], self.ops)
        return known[at]

    def _push(self, i: int, name: str, count: int) -> tuple[list[Array], list[Array]]:
        """Return ∂z, ∂x by what the `count` columns of φ add to z: (features, units × count, positions), example i."""
        anchor, net, at, zs, xs = self.anchor, self.net, 0, [], [0] * self.net.inputs
        for k, node in enumerate(net.nodes):
            units, places = anchor.slopes[k][:, i].shape
            z = self.ops.zeros((units, len(anchor.floats[name]) * count, places))
            for t in node.terms:
                if t.value >= net.inputs and t.moves:
                    z = z + anchor.apply(t.weight, t.phi.gather(xs[t.value], self.ops))
                if t.weight == name:
                    own = np.eye(units)[:, :, None, None] * np.eye(count)[:, at : at + places]
                    z, at = z + self.ops.lift(own.reshape(z.shape)), at + places
            zs.append(z)
            x = arb(node.scale) * (anchor.slopes[k][:, i, None] * z)
            xs.append(x if node.skip is None else x + xs[node.skip])
        return zs, xs[net.inputs :]

    def _tangents(self) -> list[tuple]:
        """Return ζ, τ of every example, and of all together; ζ is left 0 where L2 = 0 and nothing needs it.

        U ↦ δz is A vec(U φ), φ all columns that U multiplies: ‖A (φᵀφ ⊗ I) Aᵀ‖^½, and for all examples max_i ‖A_i‖ ‖φ‖.
        """
        net, ops, shape = self.net, self.ops, (2, len(self.net.nodes), len(self.unit), self.anchor.n)
        size, gain, far = (balls(np.zeros(s)) for s in (shape, shape, (shape[2], 1)))
        for (w, name), i in pairs(enumerate(net.trained), range(shape[3])):
            if not (uses := [t for _, t in net.uses(name)]):
                continue
            phi = np.concatenate([self.anchor.gathered(t)[:, i] for t in uses], axis=1)
            count, length = phi.shape[1], ops.norm(phi)
            far[w] = norm(np.concatenate([self.batch[t.value, t.phi] for t in uses]))
            moved, inner = self._push(i, name, count), ops.product(phi.T, phi)
            for at in pairs([0, 1], range(shape[1]), [w], [i]):
                if at[0] == 0 and self.second[at[1]].is_zero():
                    continue
                block = moved[at[0]][at[1]]
                wide = block.swapaxes(1, 2).reshape(-1, block.shape[1])
                gain[at] = ops.spectral_norm(wide)
                mixed = ops.product(wide.reshape(-1, count), inner).reshape(wide.shape)
                size[at] = gain[at] * length if count == 1 else ops.spectral_norm(ops.product(mixed, wide.T)).sqrt()
        every = norm(self.anchor.weighted(size, 3), axis=3)[..., None]
        whole = smaller(larger.reduce(gain, axis=3, keepdims=True) * far[None, None], every)
        return [(z, [0] * net.inputs + list(x)) for z, x in (size, whole)]

    def sweep(self, sizes: dict, slope: list[Any], radius: arb) -> tuple[list[Any], list[Any]]:
        """Return ζ, τ by the norms of the matrices (radius 0, slope d), or ZP, TP (slope L1); τ, TP of inputs are 0."""
        speeds, paths = [], [balls(np.zeros((len(self.unit), slope[0].size)))] * self.net.inputs
        for k, (node, steep) in enumerate(zip(self.net.nodes, slope, strict=True)):
            check()
            speed = paths[0]
            for t in node.terms:
                speed = speed + self.omega[k, t] * paths[t.value]
                if t.weight in self.unit:
                    size = sizes[t.value, t.phi] + t.phi.kappa * radius * norm(paths[t.value], axis=0)
                    speed = speed + self.unit[t.weight] * size[None]
            path = arb(node.scale) * (steep[None] * speed)
            paths.append(path if node.skip is None else path + paths[node.skip])
            speeds.append(speed)
        return speeds, paths

    def tangent(self, radius: arb, near: list, bends: list, sharp: int, view: int) -> tuple[list[Any], list[Any]]:
        """Return Z, T; `near` are ZP, TP, `bends` is D, `view` is 0 for every example, 1 for all together."""
        (_, moved), (_, slope), at = near[view], self.views[view], self.ways[sharp][view]
        speeds, paths, changes = [], moved[: self.net.inputs], moved[: self.net.inputs]
        for k, node in enumerate(self.net.nodes):
            check()
            off = moved[0]
            for t in node.terms:
                off = off + self.omega[k, t] * changes[t.value]
                if t.weight in self.unit:
                    own = paths[t.value] + self.unit[t.weight] * norm(moved[t.value], axis=0)[None]
                    off = off + t.phi.kappa * radius * own
            speeds.append(at[0][k] + off)
            bend = bends[k] if sharp else smaller(bends[k], self.first[k] - slope[k])
            change = arb(node.scale) * (slope[k][None] * off + bend[None] * speeds[k])
            changes.append(change if node.skip is None else change + changes[node.skip])
            paths.append(at[1][len(paths)] + changes[-1])
        return speeds, paths

    def ball(self, radius: arb) -> list[tuple[list[Any], list[Any]]]:
        """Return ZP, TP of every example, and of all together."""
        flat = [[most + 0 * d for most, d in zip(self.first, slope, strict=True)] for _, slope in self.views]
        return [self.sweep(sizes, steep, radius) for (sizes, _), steep in zip(self.views, flat, strict=True)]

    def back(self, radius: arb, shifts: list[Any]) -> tuple[list[Any], list[Any]]:
        """Return NB∞ and NG of every node."""
        net, count, change = self.net, len(self.net.nodes), [0 * shift for shift in shifts]
        longest: list[Any] = [arb(0)] * count
        gains: list[Any] = [arb(0)] * count
        for site in net.sites if net.read_out in self.unit else ():
            change[site - net.inputs] = change[site - net.inputs] + np.broadcast_to(
                self.unit[net.read_out], change[site - net.inputs].shape
            )
        for k in reversed(range(count)):
            check()
            gain = self.second[k] * (self.beta_max[k][None] * shifts[k]) + self.first[k] * change[k]
            far = radius * norm(change[k], axis=0)
            size, longest[k] = self.beta2[k] + far, self.beta_max[k] + far
            gains[k] = smaller(self.first[k] * size, self.gamma[k] + radius * norm(gain, axis=0))
            skip = net.nodes[k].skip
            if skip is not None and skip >= net.inputs:
                change[skip - net.inputs] = change[skip - net.inputs] + change[k]
            for t in net.nodes[k].terms:
                if t.value >= net.inputs:
                    own = self.omega[k, t] * gain
                    if t.weight in self.unit:
                        own = own + self.unit[t.weight] * (t.phi.kappa * gains[k])[None]
                    change[t.value - net.inputs] = change[t.value - net.inputs] + arb(net.nodes[k].scale) * own
        return longest, gains

    def form(self, longest: list, gains: list, widest: list, speeds: list, paths: list) -> Any:
        """Return Q, the matrices q[:, i]; `widest` is Z again, or max_i Z_i for all examples together."""
        net, one = self.net, balls(np.ones((1, paths[0].shape[1])))
        q: Any = 0
        for k, node in enumerate(net.nodes):
            check()
            half = arb(node.scale) * self.second[k] / 2
            q = half * (longest[k][None, None] * pair(widest[k], speeds[k])) + q
            for t in node.terms:
                if t.weight in self.unit:
                    own = pair(self.unit[t.weight] * one, paths[t.value])
                    q = arb(node.scale) * t.phi.kappa * (gains[k][None, None] * own) + q
        if net.read_out in self.unit:
            q = pair(self.unit[net.read_out] * one, root(sum(paths[v] * paths[v] for v in net.sites))) + q
        return q.swapaxes(1, 2)

    def forms(self, radius: arb) -> list[tuple[Any, Any]]:
        """Return Q of every example and Q of all of them together, once for each way to ζ and τ."""
        check()
        near, found = self.ball(radius), []
        bends = [most * radius * norm(shift, axis=0) for most, shift in zip(self.second, near[0][0], strict=True)]
        longest, gains = self.back(radius, near[0][0])
        for sharp in range(len(self.ways)):
            speeds, paths = self.tangent(radius, near, bends, sharp, 0)
            whole = self.tangent(radius, near, _most(bends), sharp, 1)
            q = self.form(longest, gains, speeds, speeds, paths)
            found.append((q, self.form(_most(longest), _most(gains), _most(speeds), *whole)))
        return found

    def lipschitz(self, radius: arb) -> arb:
        """Return Λ(R)."""
        found, weighted = [], self.anchor.weighted
        for q, p in self.forms(radius):
            together = norm(weighted(q, 1), axis=1)[:, None]
            found += [norm(weighted(_perron(q), 0)), *_perron(together), *_perron(p)]
        return smaller.reduce(found)

    def parts(self, radius: arb, parts: list[np.ndarray]) -> Any:
        """Return Λ(R) of some examples alone, for each part."""
        found = []
        for q, _ in self.forms(radius):
            each = _perron(q)
            found.append([norm(each[i]).min(_perron(norm(q[:, i], axis=1)[:, None])[0]) for i in parts])
        return smaller.reduce(np.array(found, dtype=object), axis=0)

    def sign(self, radius: arb) -> tuple[bool | None, arb, arb]:
        r"""Check |z_{k,j}| > R |Σ_t [trained] N_src e(w) + ‖row j of M‖ TP_src| for all units and examples.

        Where the right side is exactly zero the unit cannot move. Returns the answer and both sides, where it fails.
        """
        (_, moved), _ = self.ball(radius)
        for z, node in zip(self.anchor.pre, self.net.nodes, strict=True):
            if z is None:
                continue
            limits = radius * norm(sum(self._reach(t, len(z), moved, radius) for t in node.terms), axis=1)
            limits = np.broadcast_to(limits[:, :, None], z.shape)
            open_, _ = self.ops.sides(z, above(limits).astype(np.float64))
            for size, limit in zip(abs(self.ops.balls(z[open_])), limits[open_], strict=True):
                if not (size > limit or limit.is_zero()):
                    return False if size <= limit else None, size, limit
        return True, arb(1), arb(0)

    def _reach(self, t: Term, units: int, moved: list[Any], radius: arb) -> Any:
        """Return how far a term takes the z of every unit, by each trained array and for each example."""
        rows = np.ones(units) if t.weight is None else self.ops.norm(self.anchor.matrices[t.weight], 1)
        once = t.phi.once(t.weight is not None)
        found = once * (balls(rows)[:, None, None] * moved[t.value][None])
        if t.weight in self.unit:
            far = self.each[t.value, t.phi] + t.phi.kappa * radius * norm(moved[t.value], axis=0)
            found = found + np.broadcast_to((self.unit[t.weight] * far[None])[None], found.shape)
        return found
