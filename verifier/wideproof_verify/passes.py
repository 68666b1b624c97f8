"""One pass forward and back through the nodes of a network, in either arithmetic.

Values are arrays (features, examples, positions).
"""

import math
from typing import Any

import numpy as np
from flint import arb  # pyright: ignore[reportAttributeAccessIssue]

from wideproof_verify.arithmetic import FLOATS, Arithmetic, Array, FloatArithmetic, balls, root
from wideproof_verify.double import U
from wideproof_verify.eigenvalues import BLOCK, Symmetric
from wideproof_verify.floats import FAINT, Floats, up
from wideproof_verify.graphs import Network, Term

DENSE = 4000  # rows of a Jacobian whose Gram matrix is formed


class Anchor:
    """Everything at the stored weights: `outputs` (outputs, examples), `values` x, `pre` z, `slopes` σ'(z), and as
    (features, outputs, examples, positions) b_k = ∂F/∂x_k in `backs` and g_k = b_k σ'(z_k) in `gains`.

    An example stands for `counts` equal rows, whose square roots are `roots`. With more rows of the Jacobian than
    `DENSE` (`many`) float64 forms JJᵀ block by block; or, with a wide read-out, only its part by that (`lean`), and
    b of the last layer, which is the same for all examples, is kept once.
    """

    def __init__(
        self, network: Network, weights: dict[str, Any], x: np.ndarray, counts: np.ndarray | None = None,
        ops: Arithmetic = FLOATS, keep: bool = False,
    ):  # fmt: skip
        self.network, self.floats, self.n, self.ops = network, weights, len(x), ops
        self.repeated = counts is not None and bool((counts != 1).any())
        self.counts = np.ones(self.n) if counts is None else counts.astype(np.float64)
        self.matrices = {name: ops.lift(weight) for name, weight in weights.items()}
        times = np.moveaxis(x, 1, 0)[..., None] if network.times else x.reshape(1, self.n, network.shape[0], -1)
        self.values: list[Array] = [ops.lift(np.ascontiguousarray(given.transpose(1, 0, 2))) for given in times]
        self._forward(keep)
        self._read_out()
        wide = len(network.sites) == 1 and network.read_out in network.trained and len(self.read[0]) >= self.n
        self.many = isinstance(ops, FloatArithmetic) and self.outputs.size > DENSE
        self.lean = self.many and wide

    def _forward(self, keep: bool) -> None:
        """Fill `values`, `slopes` and `pre`, from the first node to the last."""
        ops, self.pre, self.slopes = self.ops, [], []
        for node in self.network.nodes:
            z: Array = sum(self.apply(t.weight, self.gathered(t)) for t in node.terms)
            value, slope = ops.activate(node.activation, z)
            value = value if node.scale == 1 else arb(node.scale) * value
            self.values.append(value if node.skip is None else value + self.values[node.skip])
            self.slopes.append(slope)
            self.pre.append(z if keep or node.activation == "relu" else None)

    def _read_out(self) -> None:
        """Fill `outputs`, and what they are read off."""
        network, ops = self.network, self.ops
        self.read = [self.values[s].transpose(0, 2, 1).reshape(-1, self.n) for s in network.sites]
        self.outputs: Array = np.concatenate([ops.product(self.matrices[network.read_out], r) for r in self.read])
        if network.bias is not None:
            level = np.concatenate([self.matrices[network.bias]] * len(self.read))
            self.outputs = self.outputs + np.broadcast_to(level, self.outputs.shape)

    @property
    def roots(self) -> Array:
        """The square roots of the counts; √ is rounded to nearest."""
        if self.ops is not FLOATS:
            return root(balls(self.counts))
        found = np.sqrt(self.counts)
        return Floats(found, np.where(found == np.rint(found), 0.0, 2 * U * found))

    def weighted(self, a: Array, *axes: int) -> Array:
        """Multiply by the square roots of the examples' counts along axes that run over examples."""
        if not self.repeated:
            return a
        roots = self.roots if isinstance(a, Floats) else self.ops.balls(self.roots)
        for axis in axes:
            times = roots if a.shape[axis] == self.n else np.concatenate([roots] * (a.shape[axis] // self.n))
            a = a * times.reshape(*(-1 if k == axis else 1 for k in range(a.ndim)))
        return a

    def gathered(self, term: Term) -> Array:
        """Return φ of a value."""
        return term.phi.gather(self.values[term.value], self.ops)

    def apply(self, weight: str | None, x: Array, turned: bool = False) -> Array:
        """Return a weight times every column, or its transpose; no weight is the identity."""
        if weight is None:
            return x
        whole = self.matrices[weight].T if turned else self.matrices[weight]
        return self.ops.product(whole, x.reshape(len(x), -1)).reshape(-1, *x.shape[1:])

    def differentiate(self, seeds: Array = None) -> "Anchor":
        """Fill `backs` and `gains`, from the last node to the first.

        With `seeds` (outputs, examples) they are those of the one function Σ seeds F, the seeds held fixed.
        """
        net, count = self.network, len(self.network.nodes)
        self.backs: list[Array] = [0] * count
        self.gains: list[Array] = [None] * count
        for k, site in enumerate(net.sites):
            self.backs[site - net.inputs] = self._last(k, seeds)
        for k in reversed(range(count)):
            node, back = net.nodes[k], self.backs[k]
            if isinstance(back, int):  # nothing scored depends on this node
                features, _, positions = self.values[net.inputs + k].shape
                rows = len(self.outputs) if seeds is None else 1
                back = self.backs[k] = self.ops.zeros((features, rows, self.n, positions))
            if node.skip is not None and node.skip >= net.inputs:
                self._add(node.skip, back)
            if self.lean and all(t.value < net.inputs for t in node.terms):
                continue
            gain = self.gains[k] = back * self.slopes[k][:, None]
            for t in node.terms:
                if t.value >= net.inputs and t.moves:
                    pulled = self.apply(t.weight, gain, turned=True)
                    pulled = t.phi.scatter(pulled, self.values[t.value].shape[2], self.ops)
                    self._add(t.value, pulled if node.scale == 1 else arb(node.scale) * pulled)
        return self

    def _add(self, value: int, back: Array) -> None:
        """Add to b of a node; one that is the same for all examples is kept once, if nothing else is added."""
        at = value - self.network.inputs
        before = self.backs[at]
        if not isinstance(before, int) and before.shape != back.shape:
            shape = np.broadcast_shapes(before.shape, back.shape)
            before, back = np.broadcast_to(before, shape), np.broadcast_to(back, shape)
        self.backs[at] = back + before

    def _last(self, k: int, seeds: Array) -> Array:
        """Return b of a site."""
        net = self.network
        features, _, positions = self.values[net.sites[k]].shape
        if seeds is not None:
            back = self.apply(net.read_out, seeds[k * net.outputs : (k + 1) * net.outputs], turned=True)
            return back.reshape(features, 1, positions, self.n).transpose(0, 1, 3, 2)
        read = self.matrices[net.read_out].reshape(net.outputs, features, 1, positions).transpose(1, 0, 2, 3)
        if self.lean:
            return read
        if len(net.sites) == 1:
            return np.broadcast_to(read, (features, net.outputs, self.n, positions))
        rows = [self.ops.zeros((features, net.outputs, self.n, positions))] * len(net.sites)
        rows[k] = np.broadcast_to(read, rows[k].shape)
        return np.concatenate(rows, axis=1)

    def gradient(self, seeds: Array) -> dict[str, Array]:
        """Return the gradients of Σ seeds F by the trained arrays, after `differentiate(seeds)`."""
        net, found, ops = self.network, {}, self.ops
        parts = [seeds[k * net.outputs : (k + 1) * net.outputs] for k in range(len(net.sites))]
        for name in net.trained:
            if name == net.read_out:
                found[name] = sum(ops.product(part, r.T) for part, r in zip(parts, self.read, strict=True))
            elif name == net.bias:
                level: Array = sum(part.sum(axis=1) for part in parts)
                found[name] = level.reshape(-1, 1)
            else:
                pairs = [(k, self.gains[k], self.gathered(t)) for k, t in net.uses(name)]
                found[name] = sum(
                    arb(net.nodes[k].scale) * ops.product(g.reshape(len(g), -1), x.reshape(len(x), -1).T)
                    for k, g, x in pairs
                )
        return found

    def along(self, direction: dict[str, Any]) -> Array:
        """Return the derivatives of the outputs along a direction of the trained weights: (outputs, examples)."""
        net, ops = self.network, self.ops
        step = {name: ops.lift(a) for name, a in direction.items()}
        moved: list[Array] = [None] * net.inputs  # inputs do not move
        for k, node in enumerate(net.nodes):
            units, _, places = self.slopes[k].shape
            z = ops.zeros((units, self.n, places))
            for t in node.terms:
                if t.weight in step:
                    phi = self.gathered(t)
                    z = z + ops.product(step[t.weight], phi.reshape(len(phi), -1)).reshape(z.shape)
                if t.moves and moved[t.value] is not None:
                    z = z + self.apply(t.weight, t.phi.gather(moved[t.value], ops))
            x = self.slopes[k] * z if node.scale == 1 else arb(node.scale) * (self.slopes[k] * z)
            before = None if node.skip is None else moved[node.skip]
            moved.append(x if before is None else x + before)
        (site,) = net.sites
        read = moved[site].transpose(0, 2, 1).reshape(-1, self.n)
        found = ops.product(self.matrices[net.read_out], read)
        if net.read_out in step:
            found = found + ops.product(step[net.read_out], self.read[0])
        return found + np.broadcast_to(step[net.bias], found.shape) if net.bias in step else found

    def gain(self, k: int) -> Any:
        """Return ‖g_k‖_F for every example of a lean pass, from Σ_outputs b² where g itself was not needed."""
        if self.gains[k] is not None:
            return self.ops.norm(self.gains[k], (0, 1, 3))
        square = np.square(self.backs[k].largest()).sum(axis=1) * up(self.network.outputs)
        size = (np.square(self.slopes[k].largest()) * square).sum(axis=(0, 2)) * up(4 + square.size)
        return balls(np.sqrt(size) * up(1) + FAINT)

    def matrix(self) -> Any:
        """Return JJᵀ for `at_least`, block by block; of the radii only the sum of their squares is kept.

        Of a lean pass it is the Gram matrix of the read-out alone for one output: JJᵀ is this or more for every output.
        """
        if self.lean:
            return self.ops.symmetric(self.weighted(self.ops.product(self.read[0].T, self.read[0]), 0, 1))
        if not self.many:
            return self.ops.symmetric(self.gram(self.ops.product))
        n, rows = self.n, len(self.outputs)
        mid, square, step = np.empty((rows, n, rows, n)), 0.0, max(1, BLOCK // rows)
        parts = [slice(i, min(i + step, n)) for i in range(0, n, step)]
        for left, right in ((a, b) for k, a in enumerate(parts) for b in parts[: k + 1]):
            block = self._block(left, right, self.ops.product)
            mid[:, right, :, left] = block.mid.transpose(2, 3, 0, 1)
            mid[:, left, :, right] = block.mid
            square += 2 * float(np.square(block.rad).sum())
        off = math.sqrt(square) * up((n * rows) ** 2) + FAINT
        return Symmetric(mid.reshape(rows * n, rows * n), off)

    def gram(self, product: Any) -> Array:
        """Return JJᵀ over the trained arrays, rows (output, example)."""
        whole = slice(0, self.n)
        return self._block(whole, whole, product).reshape(self.outputs.size, self.outputs.size)

    def own(self, i: int) -> Array:
        """Return JJᵀ of one example."""
        rows, one = len(self.outputs), slice(i, i + 1)
        return self._block(one, one, self.ops.product).reshape(rows, rows)

    def _block(self, left: slice, right: slice, product: Any) -> Array:
        """Return the products of gradients of two groups of examples: (rows, examples, rows, examples).

        The gradient of a weight is Σ s g φᵀ over its uses (nodes, positions): either uses are paired, Σ ⟨g, g'⟩⟨φ, φ'⟩,
        or gradients are written out, whichever is less work.
        """
        net, parts, rows = self.network, [left] if left == right else [left, right], len(self.outputs)
        sites, c, (high, wide) = len(net.sites), net.outputs, (part.stop - part.start for part in (left, right))

        def inner(sides: list[Array]) -> Array:  # columns of the first with columns of the last
            flat = [side.reshape(len(side), -1) for side in sides]
            return product(flat[0].T, flat[-1])

        total, same = 0, self.ops.lift(np.eye(c).reshape(1, c, 1, 1, c, 1))
        if net.read_out in net.trained:
            found = inner([np.stack([r[:, part] for r in self.read], axis=1) for part in parts])
            total = found.reshape(sites, 1, high, sites, 1, wide) * same
        if net.bias in net.trained:
            total = np.broadcast_to(same, (sites, c, high, sites, c, wide)) + total
        total = total if isinstance(total, int) else total.reshape(rows, high, rows, wide)
        for name in net.hidden:
            total = self._hidden(name, parts, high, wide, inner, product) + total
        if self.repeated:
            roots = [self.roots[part] for part in (left, right)]
            total = total * roots[0].reshape(1, -1, 1, 1) * roots[1].reshape(1, 1, 1, -1)
        return total

    def _hidden(self, name: str, parts: list[slice], high: int, wide: int, inner: Any, product: Any) -> Array:
        """Return what one weight adds to a block."""
        net, rows, uses = self.network, len(self.outputs), self.network.uses(name)
        phi = [np.concatenate([self.gathered(t)[:, part] for _, t in uses], axis=2) for part in parts]
        gain = [
            np.concatenate([arb(net.nodes[k].scale) * self.gains[k][:, :, part] for k, _ in uses], axis=3)
            for part in parts
        ]
        (fan_in, n, places), units = phi[0].shape, len(gain[0])
        paired = (n * places) ** 2 * fan_in + (rows * n * places) ** 2 * (units + 100)
        if paired <= rows * n * units * fan_in * (places + rows * n + 200):
            outer = inner(gain).reshape(rows, high, places, rows, wide, places)
            pairs = inner(phi).reshape(1, high, places, 1, wide, places) * outer
            found = pairs.sum(axis=(2, 5)) if places > 1 else pairs.reshape(rows, high, rows, wide)
        else:
            every = [[product(g[:, r, i], p[:, i].T).ravel() for r, i in np.ndindex(g.shape[1:3])]
                     for g, p in zip(gain, phi, strict=True)]  # fmt: skip
            found = inner([np.stack(each).T for each in every]).reshape(rows, high, rows, wide)
        return found
