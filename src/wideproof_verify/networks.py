"""One pass forward and back through the nodes of a network, in balls.

Values are arrays (features, examples, positions).
"""

from typing import Any

import numpy as np

from wideproof_verify import near
from wideproof_verify.activations import ACTIVATIONS
from wideproof_verify.arithmetic import Balls, above, arb, balls, matrix, product, root
from wideproof_verify.graphs import Network, Phi, Term
from wideproof_verify.near import Near

DENSE = 2000  # rows of a Jacobian whose Gram matrix is formed


def zeros(shape: tuple[int, ...], large: bool) -> Balls:
    """Return exact zeros."""
    return Near(np.zeros(shape)) if large else np.full(shape, arb(0))


def read(x: Balls, phi: Phi) -> Balls:
    """Return φ(x); the rows of a window belong to features first, then to places in the window."""
    large = isinstance(x, Near)
    if phi.kind == "flat":
        return x.transpose(0, 2, 1).reshape(-1, x.shape[1], 1)
    if phi.kind == "ones":
        ones = np.ones((1, x.shape[1], phi.places))
        return Near(ones) if large else balls(ones)
    if phi.kind == "identity":
        return x
    beyond = np.concatenate([x, zeros((*x.shape[:2], 1), large)], axis=2)
    seen = beyond[:, :, phi.table]
    if phi.kind == "average":
        return (arb(1) / phi.count) * seen.sum(axis=3)
    return seen.transpose(0, 3, 1, 2).reshape(-1, x.shape[1], phi.places)


def pull(y: Balls, phi: Phi, positions: int) -> Balls:
    """Apply the adjoint of φ to (features, outputs, examples, positions), for a value with so many positions."""
    large, (_, outputs, n, places) = isinstance(y, Near), y.shape
    if phi.kind == "flat":
        return y.reshape(-1, positions, outputs, n).transpose(0, 2, 3, 1)
    if phi.kind == "identity":
        return y
    if phi.kind == "average":
        spread = (arb(1) / phi.count) * y[..., np.arange(places).repeat(phi.count)]
    else:
        windows = y.reshape(-1, phi.count, outputs, n, places).transpose(0, 2, 3, 4, 1)
        spread = windows.reshape(-1, outputs, n, places * phi.count)
    beyond = np.concatenate([spread, zeros((*spread.shape[:3], 1), large)], axis=3)
    return beyond[..., phi.readers].sum(axis=4)


def rectified(z: Near) -> tuple[Near, Near]:
    """Return max(z, 0) and its slope; a sign that is not known gives the slope [0, 1], an exact zero the slope 0."""
    open_ = (np.abs(z.mid) * (1 - 4 * near.U) <= z.rad) & (z.rad > 0)
    on = np.where(z.mid > 0, 1.0, 0.0)
    value = Near(on) * z
    slope = Near(np.where(open_, 0.5, on), np.where(open_, 0.5, 0.0))
    return Near(value.mid, np.where(open_, 2 * z.largest(), value.rad), value.low), slope


class Anchor:
    """Everything at the stored weights: `outputs` (outputs, examples), `values` x, `pre` z, `slopes` σ'(z), and as
    (features, outputs, examples, positions) b_k = ∂F/∂x_k in `backs` and g_k = b_k σ'(z_k) in `gains`.

    An example stands for `counts` equal rows; `roots` are the square roots of these numbers. `large` arrays are `Near`.
    With more rows of the Jacobian than `DENSE` (`many`) JJᵀ has no radii (`wide`); or, with a wide read-out,
    only its part by that is formed (`lean`), and b of the last layer, which is the same for all examples, is kept once.
    """

    def __init__(
        self,
        network: Network,
        weights: dict[str, Balls],
        x: np.ndarray,
        counts: Any = None,
        large: bool = False,
        keep: bool = False,
    ):
        self.network, self.floats, self.n, self.large = network, weights, len(x), large
        counts = np.ones(self.n) if counts is None else np.asarray(counts, np.float64)
        self.roots: Balls = root(balls(counts))
        self.repeated = bool((counts != 1).any())
        self.matrices = {name: matrix(self.lift(weight)) for name, weight in weights.items()}
        times = np.moveaxis(x, 1, 0)[..., None] if network.times else x.reshape(1, self.n, network.shape[0], -1)
        self.values: list[Balls] = [self.lift(given.transpose(1, 0, 2)) for given in times]
        self.pre, self.slopes = [], []
        for node in network.nodes:
            z: Balls = sum(self.apply(t.weight, self.gathered(t)) for t in node.terms)
            value, slope = self.activate(node.activation, z)
            self.values.append(arb(node.scale) * value + (0 if node.skip is None else self.values[node.skip]))
            self.slopes.append(slope)
            self.pre.append(z if keep or node.activation == "relu" else None)
        self.read = [self.values[s].transpose(0, 2, 1).reshape(-1, self.n) for s in network.sites]
        self.outputs: Balls = np.concatenate([product(self.matrices[network.read_out], r) for r in self.read])
        if network.bias is not None:
            self.outputs = self.outputs + self.lift(np.concatenate([weights[network.bias]] * len(self.read)))
        wide = len(network.sites) == 1 and network.read_out in network.trained and len(self.read[0]) >= self.n
        self.many = large and self.outputs.size > DENSE
        self.lean = self.many and wide

    def lift(self, a: Balls) -> Balls:
        """Return float64 numbers as balls or as `Near`; what is one already as it is."""
        return a if a.dtype != np.float64 else Near(a) if self.large else balls(a)

    def activate(self, name: str, z: Balls) -> tuple[Balls, Balls]:
        """Return σ(z) and σ'(z)."""
        pair, constants = ACTIVATIONS[name]
        if not self.large:
            return np.frompyfunc(pair, 1, 2)(z)
        if name == "identity":
            return z, Near(np.ones(z.shape))
        if name == "relu":
            return rectified(z)
        first, second = (float(above(arb(c))) for c in constants())
        return near.activate(name, pair, first, second, z)

    def weighted(self, a: Balls, *axes: int) -> Balls:
        """Multiply by the square roots of the examples' counts along axes that run over examples."""
        if not self.repeated:
            return a
        roots = near.close(self.roots) if isinstance(a, Near) else self.roots
        for axis in axes:
            times = roots if a.shape[axis] == self.n else np.concatenate([roots] * (a.shape[axis] // self.n))
            a = a * times.reshape(*(-1 if k == axis else 1 for k in range(a.ndim)))
        return a

    def gathered(self, term: Term) -> Balls:
        """Return φ of a value."""
        return read(self.values[term.value], term.phi)

    def apply(self, weight: str | None, x: Balls, turned: bool = False) -> Balls:
        """Return a weight times every column, or its transpose; no weight is the identity."""
        if weight is None:
            return x
        whole = matrix(self.lift(self.floats[weight].T)) if turned else self.matrices[weight]
        return product(whole, x.reshape(len(x), -1)).reshape(-1, *x.shape[1:])

    def differentiate(self, seeds: Balls = None) -> "Anchor":
        """Fill `backs` and `gains`, from the last node to the first.

        With `seeds` (outputs, examples) they are those of the one function Σ seeds F, the seeds held fixed.
        """
        net, count = self.network, len(self.network.nodes)
        self.backs: list[Balls] = [0] * count
        self.gains: list[Balls] = [None] * count
        for k, site in enumerate(net.sites):
            features, _, positions = self.values[site].shape
            if seeds is not None:
                back = self.apply(net.read_out, seeds[k * net.outputs : (k + 1) * net.outputs], turned=True)
                self.backs[site - net.inputs] = back.reshape(features, 1, positions, self.n).transpose(0, 1, 3, 2)
                continue
            read = self.lift(self.floats[net.read_out].reshape(net.outputs, features, 1, positions)).transpose(
                1, 0, 2, 3
            )
            if self.lean:
                back = read
            else:
                rows = [zeros((features, net.outputs, self.n, positions), self.large)] * len(net.sites)
                rows[k] = rows[k] + read
                back = np.concatenate(rows, axis=1)
            self.backs[site - net.inputs] = back
        for k in reversed(range(count)):
            node, back = net.nodes[k], self.backs[k]
            if isinstance(back, int):  # nothing scored depends on this node
                features, _, positions = self.values[net.inputs + k].shape
                rows = len(self.outputs) if seeds is None else 1
                back = self.backs[k] = zeros((features, rows, self.n, positions), self.large)
            if node.skip is not None and node.skip >= net.inputs:
                self.backs[node.skip - net.inputs] = self.backs[node.skip - net.inputs] + back
            if self.lean and all(t.value < net.inputs for t in node.terms):
                continue
            gain = self.gains[k] = back * self.slopes[k][:, None]
            for t in node.terms:
                if t.value >= net.inputs and t.moves:
                    pulled = pull(self.apply(t.weight, gain, turned=True), t.phi, self.values[t.value].shape[2])
                    self.backs[t.value - net.inputs] = self.backs[t.value - net.inputs] + arb(node.scale) * pulled
        return self

    def gradient(self, seeds: Balls) -> dict[str, Balls]:
        """Return the gradients of Σ seeds F by the trained arrays, after `differentiate(seeds)`."""
        net, found = self.network, {}
        parts = [seeds[k * net.outputs : (k + 1) * net.outputs] for k in range(len(net.sites))]
        for name in net.trained:
            if name == net.read_out:
                found[name] = sum(product(part, r.T) for part, r in zip(parts, self.read, strict=True))
            elif name == net.bias:
                level: Balls = sum(part.sum(axis=1) for part in parts)
                found[name] = level.reshape(-1, 1)
            else:
                pairs = [(arb(net.nodes[k].scale) * self.gains[k], self.gathered(t)) for k, t in net.uses(name)]
                found[name] = sum(product(g.reshape(len(g), -1), x.reshape(len(x), -1).T) for g, x in pairs)
        return found

    def gain(self, k: int) -> Balls:
        """Return ‖g_k‖_F for every example of a lean pass, from Σ_outputs b² where g itself was not needed."""
        if self.gains[k] is not None:
            return balls(near.lengths(self.gains[k], (0, 1, 3)))
        square = np.square(self.backs[k].largest()).sum(axis=1) * near.up(self.network.outputs)
        size = (np.square(self.slopes[k].largest()) * square).sum(axis=(0, 2)) * near.up(4 + square.size)
        return balls(np.sqrt(size) * near.up(1) + near.FAINT)

    def features(self) -> Balls:
        """Return the Gram matrix of the read-out alone for one output: JJᵀ is this or more for every one of them."""
        return self.weighted(near.inner(self.read[0].T), 0, 1)

    def gram(self, product: Any = product) -> Balls:
        """Return JJᵀ over the trained arrays, rows (output, example).

        The gradient of a weight is Σ s g φᵀ over its uses (nodes, positions): either uses are paired, Σ ⟨g, g'⟩⟨φ, φ'⟩,
        or gradients are written out, whichever is less work.
        """
        net, n, rows, total = self.network, self.n, self.outputs.size, 0
        sites, same = len(net.sites), np.eye(net.outputs).reshape(1, net.outputs, 1, 1, net.outputs, 1)
        if net.read_out in net.trained:
            x = matrix(np.concatenate(self.read, axis=1))
            inner = product(x.transpose(), x).reshape(sites, 1, n, sites, 1, n)
            total = (inner * self.lift(same)).reshape(rows, rows)
        if net.bias in net.trained:
            total = total + self.lift(np.broadcast_to(same, (sites, net.outputs, n) * 2).reshape(rows, rows))
        for name in (name for name in net.trained if name not in (net.read_out, net.bias)):
            uses = net.uses(name)
            phi = np.concatenate([self.gathered(t) for _, t in uses], axis=2)
            gain = np.concatenate([arb(net.nodes[k].scale) * self.gains[k] for k, _ in uses], axis=3)
            (fan_in, _, places), units = phi.shape, len(gain)
            paired = (n * places) ** 2 * fan_in + (rows * places) ** 2 * (units + 100)
            if paired <= rows * units * fan_in * (places + rows + 200):
                inner, outer = (product(v.transpose(), v) for v in (matrix(a.reshape(len(a), -1)) for a in (phi, gain)))
                shape = (-1, n, places, rows // n, n, places)
                inner, outer = inner.reshape(1, n, places, 1, n, places), outer.reshape(shape)
                total = total + (inner * outer).sum(axis=(2, 5)).reshape(rows, rows)
            else:
                each = np.stack([product(gain[:, r // n, r % n], phi[:, r % n].T).ravel() for r in range(rows)])
                total = total + product(each, each.T)
        return self.weighted(total, 0, 1)
