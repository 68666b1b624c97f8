"""The seven networks as lists of nodes, and one pass forward and back through them in balls.

    z_k = Σ_t M_t φ(x_src(t)),   x_k = [skip] x_{k-1} + s_k σ(z_k),   f = C x_site

φ gathers patches in the convolutional network and is the identity elsewhere. Values are arrays (features, examples,
positions); the number of a value counts the inputs (one, or one per time) first, then the nodes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from wideproof_verify import near
from wideproof_verify.arithmetic import Balls, above, arb, balls, matrix, product, root
from wideproof_verify.near import Near

DENSE = 2000  # rows of a Jacobian whose Gram matrix is formed


def _sigmoid(z: arb) -> arb:
    return 1 / (1 + (-z).exp())


# name: z -> (value, slope), and () -> (bound of |slope|, Lipschitz constant of the slope)
ACTIVATIONS = {
    "softplus": (lambda z: (z.exp().log1p(), _sigmoid(z)), lambda: (1, 0.25)),
    "sigmoid": (lambda z: (_sigmoid(z), _sigmoid(z) * _sigmoid(-z)), lambda: (0.25, 1 / (6 * arb(3).sqrt()))),
    "tanh": (lambda z: (z.tanh(), z.sech() * z.sech()), lambda: (1, 4 / (3 * arb(3).sqrt()))),
    "erf": (
        lambda z: (z.erf(), 2 * (-z * z).exp() / arb.pi().sqrt()),
        lambda: (2 / arb.pi().sqrt(), 4 / (2 * arb.pi() * arb(1).exp()).sqrt()),
    ),
    "arctan": (lambda z: (z.atan(), 1 / (1 + z * z)), lambda: (1, 3 * arb(3).sqrt() / 8)),
    "sin": (lambda z: (z.sin(), z.cos()), lambda: (1, 1)),
    "swish": (lambda z: (z * _sigmoid(z), _sigmoid(z) * (1 + z * _sigmoid(-z))), lambda: (arb("1.09984"), 0.5)),
    "gelu": (
        lambda z: (z * (p := (-z / arb(2).sqrt()).erfc() / 2), p + z * (-z * z / 2).exp() / (2 * arb.pi()).sqrt()),
        lambda: (arb("1.12891"), (2 / arb.pi()).sqrt()),
    ),
    "mish": (  # t = tanh(log(1 + e^z))
        lambda z: (z * (t := 1 - 2 / (z.exp() * (z.exp() + 2) + 2)), t + z * (1 - t * t) * _sigmoid(z)),
        lambda: (arb("1.0885"), arb("0.64421")),
    ),
    "elu": (lambda z: (z.max(arb(0)) + z.min(arb(0)).expm1(), z.min(arb(0)).exp()), lambda: (1, 1)),
    "softsign": (lambda z: (z / (1 + abs(z)), 1 / (1 + abs(z)) / (1 + abs(z))), lambda: (1, 2)),
    "identity": (lambda z: (z, arb(1)), lambda: (1, 0)),
    "relu": (  # a fixed pattern: a sign that is not known gives the slope [0, 1], an exact zero the slope 0
        lambda z: (z.max(arb(0)), arb(1) if z > 0 else arb(0) if z <= 0 else arb(0.5, 0.5)),
        lambda: (1, 0),
    ),
}
# c with c E[σ(Z)²] = 1 for a standard normal Z, in the order above
C_SIGMA = dict(zip(ACTIVATIONS, (
    1.0854865029883434, 3.408559841623103, 2.5361754332174535, 2.1525788606075986, 2.223700160381501,
    2.3130352854993315, 2.810761124074471, 2.351715614073373, 2.210715729937989, 1.5505188080679273,
    5.46406222364552, 1.0, 2.0,
), strict=True))  # fmt: skip


@dataclass(frozen=True)
class Node:
    """`terms` are pairs (weight, number of the value it multiplies)."""

    terms: tuple[tuple[str, int], ...]
    scale: float
    skip: bool


@dataclass(frozen=True)
class Network:
    """`sites` are the values that the read-out multiplies, `window` is the size of a patch."""

    activation: str
    nodes: tuple[Node, ...]
    inputs: int
    sites: tuple[int, ...]
    read_out: str
    trained: tuple[str, ...]
    outputs: int
    window: int


def zeros(shape: tuple[int, ...], large: bool) -> Balls:
    """Return exact zeros."""
    return Near(np.zeros(shape)) if large else np.full(shape, arb(0))


def patches(x: Balls, q: int) -> Balls:
    """Row `channel * q + o` of position j holds the channel at position j + o - q // 2, zero outside."""
    if q == 1:
        return x
    margin = zeros((*x.shape[:2], q // 2), isinstance(x, Near))
    padded = np.concatenate([margin, x, margin], axis=2)
    return np.stack([padded[:, :, o : o + x.shape[2]] for o in range(q)], axis=1).reshape(-1, *x.shape[1:])


class Anchor:
    """Everything at the stored weights: `outputs` (outputs, examples), `values` x, `pre` z, `slopes` σ'(z), and as
    (features, outputs, examples, positions) b_k = ∂F/∂x_k in `backs` and g_k = b_k σ'(z_k) in `gains`.

    An example stands for `counts` equal rows; `roots` are the square roots of these numbers. `large` arrays are `Near`.
    With more rows of the Jacobian than `DENSE` its Gram matrix is not formed, only its part by the read-out (`lean`),
    and b of the last layer, which is the same for all examples, is kept once.
    """

    def __init__(
        self, network: Network, weights: dict[str, np.ndarray], x: np.ndarray, counts: Any = None, large: bool = False
    ):
        self.network, self.floats, self.n, self.large = network, weights, len(x), large
        self.lift = Near if large else balls
        counts = np.ones(self.n) if counts is None else np.asarray(counts, np.float64)
        self.roots: Balls = root(balls(counts))
        self.repeated = bool((counts != 1).any())
        self.matrices = {name: matrix(self.lift(weight)) for name, weight in weights.items()}
        times = np.moveaxis(x, 1, 0)[..., None] if network.inputs > 1 else x.reshape(1, self.n, x.shape[1], -1)
        self.values: list[Balls] = [self.lift(given.transpose(1, 0, 2)) for given in times]
        self.pre, self.slopes = [], []
        for node in network.nodes:
            z: Balls = sum(self.apply(self.matrices[name], self.gathered(source)) for name, source in node.terms)
            value, slope = self.activate(z)
            self.values.append(arb(node.scale) * value + (self.values[-1] if node.skip else 0))
            self.slopes.append(slope)
            self.pre.append(z if network.activation == "relu" else None)
        self.read = [self.values[s].transpose(0, 2, 1).reshape(-1, self.n) for s in network.sites]
        self.outputs: Balls = np.concatenate([product(self.matrices[network.read_out], r) for r in self.read])
        wide = len(network.sites) == 1 and network.read_out in network.trained and len(self.read[0]) >= self.n
        self.lean = large and wide and self.outputs.size > DENSE

    def activate(self, z: Balls) -> tuple[Balls, Balls]:
        """Return σ(z) and σ'(z)."""
        pair, constants = ACTIVATIONS[self.network.activation]
        if not self.large:
            return np.frompyfunc(pair, 1, 2)(z)
        first, second = (float(above(arb(c))) for c in constants())
        return near.activate(self.network.activation, pair, first, second, z)

    def weighted(self, a: Balls, *axes: int) -> Balls:
        """Multiply by the square roots of the examples' counts along axes that run over examples."""
        if not self.repeated:
            return a
        roots = near.close(self.roots) if isinstance(a, Near) else self.roots
        for axis in axes:
            times = roots if a.shape[axis] == self.n else np.concatenate([roots] * (a.shape[axis] // self.n))
            a = a * times.reshape(*(-1 if k == axis else 1 for k in range(a.ndim)))
        return a

    def gathered(self, value: int) -> Balls:
        """Return φ of a value."""
        return patches(self.values[value], self.network.window)

    def apply(self, weight: Balls, x: Balls) -> Balls:
        """Return the weight times every column."""
        return product(weight, x.reshape(len(x), -1)).reshape(-1, *x.shape[1:])

    def differentiate(self) -> "Anchor":
        """Fill `backs` and `gains`, from the last node to the first."""
        net, count = self.network, len(self.network.nodes)
        self.backs: list[Balls] = [0] * count
        self.gains: list[Balls] = [None] * count
        for k, site in enumerate(net.sites):
            features, _, positions = self.values[site].shape
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
            if node.skip:
                self.backs[k - 1] = self.backs[k - 1] + back
            if self.lean and all(source < net.inputs for _, source in node.terms):
                continue
            gain = self.gains[k] = back * self.slopes[k][:, None]
            for name, source in node.terms:
                if source >= net.inputs:
                    # The adjoint of a convolution has the same filters, turned round, from outputs to inputs.
                    turned = self.floats[name].reshape(len(gain), -1, net.window)[:, :, ::-1].transpose(1, 0, 2)
                    pulled = patches(gain.reshape(len(gain), -1, gain.shape[3]), net.window)
                    pulled = self.apply(self.lift(turned.reshape(len(turned), -1)), pulled)
                    pulled = pulled.reshape(-1, *gain.shape[1:])
                    self.backs[source - net.inputs] = self.backs[source - net.inputs] + arb(node.scale) * pulled
        return self

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

    def gram(self) -> Balls:
        """Return JJᵀ over the trained arrays, rows (output, example).

        The gradient of a weight is Σ s g φᵀ over its uses (nodes, positions): either uses are paired, Σ ⟨g, g'⟩⟨φ, φ'⟩,
        or gradients are written out, whichever is less work.
        """
        net, n, rows, total = self.network, self.n, self.outputs.size, 0
        if net.read_out in net.trained:
            x, sites = matrix(np.concatenate(self.read, axis=1)), len(net.sites)
            same = np.eye(net.outputs).reshape(1, net.outputs, 1, 1, net.outputs, 1)
            inner = product(x.transpose(), x).reshape(sites, 1, n, sites, 1, n)
            total = (inner * self.lift(same)).reshape(rows, rows)
        for name in (name for name in net.trained if name != net.read_out):
            uses = [(k, source) for k, node in enumerate(net.nodes) for w, source in node.terms if w == name]
            if not uses:
                continue
            phi = np.concatenate([self.gathered(source) for _, source in uses], axis=2)
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
