r"""$\Lambda(R)$: how fast the Jacobian can change in the ball of radius R around the stored weights.

Vectors have one component per trained array, e(w) is a unit vector, t = (‖U_w‖_F) for a direction U; all are upper
bounds. At the stored weights n = ‖φ(x)‖₂, ω = ‖x ↦ Mφ(x)‖, β2 = ‖b‖_F, β∞ = longest column of b, γ = ‖g‖; κ = ‖φ‖.

    ball      N = n + κR|TP|   ZP_k = Σ_t ω TP_src + [trained] N_src e(w)   TP_k = [skip] TP_{k-1} + s L1 ZP_k
    tangent   Z_k = Σ_t (ω + [trained] κR) T_src + [trained] N_src e(w)     T_k = [skip] T_{k-1} + s L1 Z_k
    back      DB_k = [site, C trained] e(C) + [next skips] DB_{k+1} + Σ_{t reads k} s' ([trained] κ L1 NB' e(w) + ω gp')
              gp = L2 β∞ ZP + L1 DB,  NB = β2 + R|DB|,  NB∞ = β∞ + R|DB|,  NG = min(L1 NB, γ + R|gp|)
    form      Q = Σ_k s (L2 NB∞ Z Zᵀ + NG Σ_{t trained} κ [e(w), T_src]) + [C trained] [e(C), T~],  [a, b] = a bᵀ + b aᵀ

T~ = √Σ_sites T². Anywhere in the ball |δz_k| ≤ Z_k·t, |δx_k| ≤ T_k·t, |D²F_i[U, U]| ≤ tᵀ Q_i t. Λ is the least of
(Σ_i λ_max(Q_i)²)^½, λ_max of (Σ_i Q_{i,kl}²)^½, and λ_max of the form with all examples' columns as one matrix, where
Z Zᵀ becomes half of [max_i Z_i, Z]. Sharp: where nothing is skipped, ‖M D_src‖ + [trained] R L1 + ω L2 R|ZP_src| and
max|σ'| + L2 R|ZP_k| may replace (ω + R) L1 between neighbours and L1 in T_k; D = diag|σ'|.
"""

from collections.abc import Callable

import numpy as np

from wideproof_verify import arithmetic
from wideproof_verify.arithmetic import Balls, above, arb, balls, larger, norm, root, smaller, spectral_norm
from wideproof_verify.networks import ACTIVATIONS, Anchor


def _pair(a: Balls, b: Balls) -> Balls:
    return a[:, None] * b[None, :] + b[:, None] * a[None, :]


class Bounds:
    """Norms at the stored weights, taken once; `lipschitz` and `sign` then cost little for each radius."""

    def __init__(self, anchor: Anchor, sharp: bool):
        self.anchor, net = anchor, anchor.network
        self.net, self.index = net, {name: k for k, name in enumerate(net.trained)}
        self.first, self.second = (arb(c) for c in ACTIVATIONS[net.activation][1]())
        self.kappa, positions = arb(net.window).sqrt(), anchor.values[0].shape[2]
        weights = {name for node in net.nodes for name, _ in node.terms}
        self.omega = {name: self.kappa * spectral_norm(anchor.floats[name]) for name in weights}
        self.each, self.batch = {}, {}
        for source in {source for node in net.nodes for name, source in node.terms if name in self.index}:
            phi = anchor.gathered(source)
            self.each[source] = norm(phi, axis=(0, 2)) if positions == 1 else self._spectral(phi)
            self.batch[source] = self._spectral(phi.reshape(len(phi), 1, -1))
        self.beta2 = [norm(b, axis=(0, 1, 3)) for b in anchor.backs]
        self.beta_max = [larger.reduce(larger.reduce(norm(b, axis=1), axis=2), axis=0) for b in anchor.backs]
        self.gamma = [norm(g, axis=(0, 1, 3)) for g in anchor.gains]
        if len(anchor.outputs) == 1 < positions:
            self.gamma = [smaller(f, self._spectral(g[:, 0])) for f, g in zip(self.gamma, anchor.gains, strict=True)]
        self.slope = [larger.reduce(larger.reduce(abs(s), axis=2), axis=0) for s in anchor.slopes]
        self.chi, self.sharp = {}, sharp and positions == 1
        for k, node in enumerate(net.nodes if self.sharp and net.window == 1 else ()):
            for t, (name, source) in enumerate(node.terms):
                if (below := source - net.inputs) >= 0 and not net.nodes[below].skip:
                    self.chi[k, t] = self._products(anchor.floats[name], above(abs(anchor.slopes[below])))

    def _spectral(self, a: Balls) -> Balls:
        return np.array([spectral_norm(a[:, i]) for i in range(a.shape[1])], dtype=object)

    def _products(self, weight: np.ndarray, slopes: np.ndarray) -> Balls:
        """‖M D_i‖ for every example, from one MᵀM; `slopes` are floats not below |σ'|."""
        (square, error), found = arithmetic.gram(weight), []
        for d in slopes[:, :, 0].T.astype(np.float64):
            scaled = d[:, None] * square * d
            error_i = error * float(d.max()) ** 2 * (1 + 1e-6) + 2.0**-50 * float(np.linalg.norm(scaled))
            found.append(arb(arithmetic.largest_eigenvalue(scaled, error_i)).sqrt())
        return np.array(found, dtype=object)

    def _unit(self, name: str, values: Balls) -> Balls:
        vector = np.full((len(self.index), len(values)), arb(0))
        vector[self.index[name]] = values
        return vector

    def sweep(self, extra: arb, reach: Callable, slope: list[Balls], chi: dict) -> tuple[list[Balls], list[Balls]]:
        """Return (ZP, TP) for `extra` 0, (Z, T) for κR; `reach(v, TP_v)` is N of value v, `chi` has sharper factors."""
        net, zero = self.net, np.full((len(self.index), slope[0].size), arb(0))
        speeds, paths = [], [zero] * net.inputs
        for k, node in enumerate(net.nodes):
            speed = zero
            for t, (name, v) in enumerate(node.terms):
                if (k, t) in chi:
                    speed = speed + arb(net.nodes[v - net.inputs].scale) * chi[k, t] * speeds[v - net.inputs]
                else:
                    speed = speed + (self.omega[name] + (extra if name in self.index else 0)) * paths[v]
                speed = speed + (self._unit(name, reach(v, paths[v])) if name in self.index else 0)
            own = arb(node.scale) * speed
            paths.append(paths[-1] + self.first * own if node.skip else slope[k] * own)
            speeds.append(speed)
        return speeds, paths

    def ball(
        self, radius: arb, sizes: dict[int, Balls], count: int
    ) -> tuple[dict[int, Balls], list[Balls], list[Balls]]:
        """Return N, TP of every value and ZP of every node."""
        flat = [np.full(count, self.first) for _ in self.net.nodes]
        shifts, moved = self.sweep(arb(0), lambda v, tp: sizes[v] + self.kappa * radius * norm(tp, axis=0), flat, {})
        return {v: size + self.kappa * radius * norm(moved[v], axis=0) for v, size in sizes.items()}, moved, shifts

    def back(self, radius: arb, shifts: list[Balls]) -> tuple[list[Balls], list[Balls]]:
        """Return NB∞ and NG of every node."""
        net, count, one = self.net, len(self.net.nodes), np.full(self.anchor.n, arb(1))
        change = [0 * shift for shift in shifts]
        for site in net.sites if net.read_out in self.index else ():
            change[site - net.inputs] = self._unit(net.read_out, one)
        longest, gains = [arb(0)] * count, [arb(0)] * count
        for k in reversed(range(count)):
            gain, far = (
                self.second * self.beta_max[k] * shifts[k] + self.first * change[k],
                radius * norm(change[k], axis=0),
            )
            size, longest[k] = self.beta2[k] + far, self.beta_max[k] + far
            gains[k] = smaller(self.first * size, self.gamma[k] + radius * norm(gain, axis=0))
            if net.nodes[k].skip:
                change[k - 1] = change[k - 1] + change[k]
            for name, v in net.nodes[k].terms:
                if v >= net.inputs:
                    own = self._unit(name, self.kappa * self.first * size) if name in self.index else 0
                    change[v - net.inputs] = change[v - net.inputs] + arb(net.nodes[k].scale) * (
                        self.omega[name] * gain + own
                    )
        return longest, gains

    def form(self, longest: list, gains: list, widest: list, speeds: list, paths: list) -> Balls:
        """Return Q, one matrix per column; `widest` is Z again, or max_i Z_i for all examples together."""
        net, one = self.net, np.full(paths[0].shape[1], arb(1))
        q = np.full((len(self.index), len(self.index), len(one)), arb(0))
        for k, node in enumerate(net.nodes):
            q = q + arb(node.scale) * self.second / 2 * longest[k] * _pair(widest[k], speeds[k])
            for name, v in (term for term in node.terms if term[0] in self.index):
                q = q + arb(node.scale) * self.kappa * gains[k] * _pair(self._unit(name, one), paths[v])
        if net.read_out in self.index:
            q = q + _pair(self._unit(net.read_out, one), root(sum(paths[v] * paths[v] for v in net.sites)))
        return q

    def forms(self, radius: arb) -> tuple[Balls, Balls]:
        """Return Q of every example, and Q of all of them together."""
        net, extra = self.net, self.kappa * radius
        reach, _, shifts = self.ball(radius, self.each, self.anchor.n)
        chi, slope = {}, [np.full(self.anchor.n, self.first) for _ in net.nodes]
        if self.sharp:
            far = [self.second * radius * norm(shift, axis=0) for shift in shifts]
            slope = [smaller(self.first, at + move) for at, move in zip(self.slope, far, strict=True)]
        for (k, t), at in self.chi.items():
            name, v = net.nodes[k].terms[t]
            more, omega = radius if name in self.index else arb(0), self.omega[name]
            chi[k, t] = smaller((omega + more) * self.first, at + more * self.first + omega * far[v - net.inputs])
        longest, gains = self.back(radius, shifts)
        speeds, paths = self.sweep(extra, lambda v, _: reach[v], slope, chi)
        each = self.form(longest, gains, speeds, speeds, paths)

        def most(arrays: list[Balls]) -> list[Balls]:
            return [larger.reduce(a, axis=-1, keepdims=True) for a in arrays]

        widest, chi = most(speeds), dict(zip(chi, most(list(chi.values())), strict=True))
        reach, _, _ = self.ball(radius, self.batch, 1)
        speeds, paths = self.sweep(extra, lambda v, _: reach[v], most(slope), chi)
        return each, self.form(most(longest), most(gains), widest, speeds, paths)

    def lipschitz(self, radius: arb) -> arb:
        """Return Λ(R)."""
        each, together = self.forms(radius)
        top = arithmetic.largest_eigenvalues
        return norm(top(each)).min(top(norm(each, axis=2)[:, :, None])[0]).min(top(together)[0])

    def sign(self, radius: arb) -> tuple[bool | None, arb, arb]:
        r"""Check |z_{k,j}| > R |Σ_t [trained] N_src e(w) + ‖row j of M‖ TP_src| for all units and examples.

        Where the right side is exactly zero the unit cannot move. Returns the answer and both sides, where it fails.
        """
        reach, moved, _ = self.ball(radius, self.each, self.anchor.n)
        for z, node in zip(self.anchor.pre, self.net.nodes, strict=True):
            vector: Balls = 0
            for name, v in node.terms:
                vector = vector + norm(balls(self.anchor.floats[name]), axis=1)[:, None, None] * moved[v]
                vector = vector + (self._unit(name, reach[v]) if name in self.index else 0)
            limits = np.broadcast_to((radius * norm(vector, axis=1))[:, :, None], z.shape)
            for size, limit in zip(abs(z).ravel(), limits.ravel(), strict=True):
                if not (size > limit or limit.is_zero()):
                    return False if size <= limit else None, size, limit
        return True, arb(1), arb(0)
