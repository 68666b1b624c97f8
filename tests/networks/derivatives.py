"""Outputs, Jacobians and their directional derivatives of small networks in plain NumPy, by a backward pass.

Nothing is compiled and nothing is shared with the package but the graph's own data: maps are matrices written out
(`written`), activations and their derivatives are formulas. Directions of the second derivative are taken together.
`automatic` says what automatic differentiation finds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import expit

from tests.networks.reference import VALUES, inner
from tests.networks.written import settled, written
from wideproof.machine import in_numpy
from wideproof.networks import Network

Weights = Mapping[str, np.ndarray]


def _mish(z: np.ndarray) -> np.ndarray:
    t, p = np.tanh(np.logaddexp(0, z)), expit(z)
    slope = (1 - t * t) * p
    return 2 * slope + z * slope * (1 - p - 2 * t * p)


def _gelu_tanh(z: np.ndarray) -> np.ndarray:
    p, slope = expit(inner(z)), np.sqrt(8 / np.pi) * (1 + 0.134145 * z**2)
    bend = np.sqrt(8 / np.pi) * 0.26829 * z
    return p * (1 - p) * (2 * slope + z * ((1 - 2 * p) * slope**2 + bend))


FIRST = {**VALUES, "relu_closed": (VALUES["relu"][0], lambda z: 1.0 * (z >= 0))}
# Second derivatives; zero where the first one jumps.
BENDS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "softplus": lambda z: expit(z) * expit(-z),
    "sigmoid": lambda z: expit(z) * expit(-z) * (expit(-z) - expit(z)),
    "tanh": lambda z: -2 * np.tanh(z) * (1 - np.tanh(z) ** 2),
    "erf": lambda z: -4 / np.sqrt(np.pi) * z * np.exp(-z * z),
    "arctan": lambda z: -2 * z / (1 + z * z) ** 2,
    "sin": lambda z: -np.sin(z),
    "swish": lambda z: expit(z) * expit(-z) * (2 + z * (expit(-z) - expit(z))),
    "gelu": lambda z: (2 - z * z) * np.exp(-z * z / 2) / np.sqrt(2 * np.pi),
    "mish": _mish,
    "elu": lambda z: np.where(z > 0, 0.0, np.exp(np.minimum(z, 0))),
    "gelu_tanh": _gelu_tanh,
    "ramp": lambda z: np.where(abs(z) < 1, 0.5, 0.0),
    "softsign": lambda z: -2 * np.sign(z) / (1 + abs(z)) ** 3,
    "identity": np.zeros_like,
    "relu": np.zeros_like,
    "relu_closed": np.zeros_like,
}


class _Use(NamedTuple):
    """A term that reads a value: weight, source, and the map as a matrix (`None` is the identity)."""

    weight: str | None
    source: int
    map: np.ndarray | None
    positions: int


class _Layer(NamedTuple):
    uses: list[_Use]
    biases: list[str]
    activation: str
    scale: float
    skip: int | None


class _Pass(NamedTuple):
    """Values and pre-activations of all nodes, and their derivatives along directions (which come first)."""

    weights: dict[str, np.ndarray]
    moves: dict[str, np.ndarray]
    values: dict[int, np.ndarray]
    rates: dict[int, np.ndarray]
    z: list[np.ndarray]
    dz: list[np.ndarray]
    read: list[list[np.ndarray]]
    dread: list[list[np.ndarray]]


class Derivatives:
    """A network on a batch of inputs. Rows of Jacobians are (example, site, output), columns the weights `names`.

    These are by default the trained ones.
    """

    def __init__(self, network: Network, x: np.ndarray, names: Sequence[str] | None = None) -> None:
        graph, x = network.graph.unrolled, np.asarray(x, np.float64)
        self.graph, self.names, self.n = graph, tuple(names or network.trained_names), len(x)
        self.shapes = {name: law.shape for name, law in network.laws().items()}
        if graph.times:
            self.inputs = {-1 - t: x[:, t : t + 1] for t in range(graph.times)}
        else:
            self.inputs = {-1: x.reshape(len(x), graph.shape[0], -1).swapaxes(1, 2)}
        rows = {name: len(self.matrix(name, np.empty(shape))) for name, shape in self.shapes.items()}
        features, self.layers = dict.fromkeys(self.inputs, graph.shape[0]), []
        for k, node in enumerate(graph.layers):
            uses = []
            for term in node.terms:
                if not term.moves:
                    continue
                matrix, divisor, count = written(settled(term.map, graph.grids[term.source]), features[term.source])
                wide = len(matrix) // count
                same = matrix.shape[0] == matrix.shape[1] and (matrix == np.eye(len(matrix))).all() and divisor == 1
                uses.append(_Use(term.weight, term.source, None if same else matrix / divisor, count))
                features[k] = wide if term.weight is None else rows[term.weight]
            biases = [term.weight for term in node.terms if not term.moves and term.weight is not None]
            self.layers.append(_Layer(uses, biases, node.activation.name, node.scale, node.skip))

    def matrix(self, name: str, weight: np.ndarray) -> np.ndarray:
        """Return a weight with one row for each unit; axes before its own are left alone."""
        shape = self.shapes[name]
        lead = weight.shape[: weight.ndim - len(shape)]
        if name == self.graph.read_out:
            return weight.reshape(*lead, self.graph.outputs, -1)
        if len(shape) == 1:
            return weight[..., None]
        return weight.swapaxes(-1, -2) if self.graph.columns else weight.reshape(*lead, shape[0], -1)

    def _flat(self, name: str, rows: np.ndarray) -> np.ndarray:
        """Undo `matrix`, and lay the weight out as a vector."""
        turned = self.graph.columns and len(self.shapes[name]) > 1 and name != self.graph.read_out
        *lead, high, wide = rows.shape
        return (rows.swapaxes(-1, -2) if turned else rows).reshape(*lead, high * wide)

    def _directions(self, along: np.ndarray) -> dict[str, np.ndarray]:
        """Cut directions into weights: `directions x 1 x rows x columns`."""
        parts = self._cut(along).items()
        return {name: self.matrix(name, part.reshape(-1, *self.shapes[name]))[:, None] for name, part in parts}

    def _cut(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        cuts = np.cumsum([int(np.prod(self.shapes[name])) for name in self.names])[:-1]
        return dict(zip(self.names, np.split(rows, cuts, axis=1), strict=True))

    def forward(self, params: Weights, along: np.ndarray | None = None) -> _Pass:
        """Run the network; with `along`, directions in the trained weights, every derivative along them too."""
        weights = {name: self.matrix(name, np.asarray(params[name], np.float64)) for name in self.shapes}
        moves = {} if along is None else self._directions(along)
        lanes = 0 if along is None else len(along)
        run = _Pass(weights, moves, dict(self.inputs), {}, [], [], [], [])
        run.rates.update({k: np.zeros((lanes, *value.shape)) for k, value in self.inputs.items()})
        for k, layer in enumerate(self.layers):
            z: Any = 0.0
            dz: Any = 0.0
            run.read.append([])
            run.dread.append([])
            for use in layer.uses:
                u, du = (_gather(use, part) for part in (run.values[use.source], run.rates[use.source]))
                run.read[k].append(u)
                run.dread[k].append(du)
                if use.weight is None:
                    z, dz = z + u, dz + du
                    continue
                weight = weights[use.weight]
                z, dz = z + u @ weight.T, dz + du @ weight.T
                if use.weight in moves:
                    dz = dz + u @ moves[use.weight].swapaxes(-1, -2)
            for name in layer.biases:
                z = z + weights[name][:, 0]
                if name in moves:
                    dz = dz + moves[name][..., None, :, 0]
            value, slope = (layer.scale * part(z) for part in FIRST[layer.activation])
            rate = slope * dz
            if layer.skip is not None:
                value, rate = value + run.values[layer.skip], rate + run.rates[layer.skip]
            run.values[k], run.rates[k] = value, rate
            run.z.append(z)
            run.dz.append(dz)
        return run

    def outputs(self, params: Weights) -> np.ndarray:
        """All scored outputs, in one vector."""
        return self._outputs(self.forward(params))

    def _outputs(self, run: _Pass) -> np.ndarray:
        graph = self.graph
        found = np.stack([_vector(run.values[site]) @ run.weights[graph.read_out].T for site in graph.sites], axis=1)
        return (found if graph.bias is None else found + run.weights[graph.bias][:, 0]).ravel()

    def jacobian(self, params: Weights, along: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Outputs, Jacobian, and the derivatives of the Jacobian along each direction."""
        graph, run = self.graph, self.forward(params, along)
        per, lanes = graph.outputs, len(graph.sites) * graph.outputs
        seeds, dseeds = {}, {}
        rows, drows = self._nothing(run, lanes), self._nothing(run, lanes, rates=True)
        for s, site in enumerate(graph.sites):
            value, name = run.values[site], graph.read_out
            positions, features = value.shape[1:]

            def laid(rows: np.ndarray, shape: tuple[int, int] = (features, positions)) -> np.ndarray:
                return rows.reshape(*rows.shape[:-1], *shape).swapaxes(-1, -2)[..., None, :, :]

            seeds[site] = np.zeros((lanes, *value.shape))
            seeds[site][s * per : (s + 1) * per] = laid(run.weights[name])
            dseeds[site] = np.zeros((len(run.rates[site]), lanes, *value.shape))
            if name in run.moves:
                dseeds[site][:, s * per : (s + 1) * per] = laid(run.moves[name][:, 0])
            for o in range(per):
                if name in rows:
                    rows[name][s * per + o, :, o] = _vector(value)
                    drows[name][:, s * per + o, :, o] = _vector(run.rates[site])
                if graph.bias in rows:
                    rows[graph.bias][s * per + o, :, o] = 1.0
        self._backward(run, seeds, dseeds, rows, drows)
        return self._outputs(run), self._join(rows), self._join(drows)

    def blocks(self, params: Weights) -> dict[str, np.ndarray]:
        """The Jacobian, one block of columns for each weight."""
        return self._cut(self.jacobian(params)[1])

    def hidden(self, params: Weights, k: int) -> dict[str, np.ndarray]:
        """Derivatives of every entry of a node by each of the weights: `entries x examples x rows x columns`."""
        run = self.forward(params)
        size = run.values[k][0].size
        seed = np.broadcast_to(np.eye(size).reshape(size, 1, *run.values[k].shape[1:]), (size, *run.values[k].shape))
        rows, nothing = self._nothing(run, size), self._nothing(run, size, rates=True)
        self._backward(run, {k: seed}, {k: np.zeros((0, *seed.shape))}, rows, nothing)
        return rows

    def _nothing(self, run: _Pass, lanes: int, rates: bool = False) -> dict[str, np.ndarray]:
        first = (len(next(iter(run.rates.values()))),) if rates else ()
        return {name: np.zeros((*first, lanes, self.n, *run.weights[name].shape)) for name in self.names}

    def _join(self, rows: dict[str, np.ndarray]) -> np.ndarray:
        """Examples before sites and outputs, all weights in one row."""
        found = np.concatenate([self._flat(name, rows[name]) for name in self.names], axis=-1).swapaxes(-2, -3)
        *lead, examples, lanes, size = found.shape
        return found.reshape(*lead, examples * lanes, size)

    def _backward(
        self, run: _Pass, seeds: dict[int, np.ndarray], dseeds: dict[int, np.ndarray],
        rows: dict[str, np.ndarray], drows: dict[str, np.ndarray],
    ) -> None:  # fmt: skip
        """Add to `rows` what the weights do to what is seeded, and to `drows` how that changes along the directions."""
        back, dback = dict(seeds), dict(dseeds)
        for k in reversed(range(len(self.layers))):
            if k not in back:
                continue
            layer, b, db = self.layers[k], back[k], dback[k]
            slope = layer.scale * FIRST[layer.activation][1](run.z[k])
            g = b * slope
            dg = db * slope
            if len(dg):
                dg = dg + b * (layer.scale * BENDS[layer.activation](run.z[k]) * run.dz[k])[:, None]
            if layer.skip is not None:
                _add(back, layer.skip, b)
                _add(dback, layer.skip, db)
            for name in layer.biases:
                if name in rows:
                    rows[name] += g.sum(axis=-2)[..., None]
                    drows[name] += dg.sum(axis=-2)[..., None]
            for use, u, du in zip(layer.uses, run.read[k], run.dread[k], strict=True):
                if use.weight in rows:
                    rows[use.weight] += g.swapaxes(-1, -2) @ u
                    drows[use.weight] += dg.swapaxes(-1, -2) @ u + g.swapaxes(-1, -2) @ du[:, None]
                if use.source < 0:
                    continue
                pushed, dpushed = g, dg
                if use.weight is not None:
                    pushed, dpushed = g @ run.weights[use.weight], dg @ run.weights[use.weight]
                    if use.weight in run.moves:
                        dpushed = dpushed + g @ run.moves[use.weight][:, None]
                shape = run.values[use.source].shape[1:]
                _add(back, use.source, _spread(use, pushed, shape))
                _add(dback, use.source, _spread(use, dpushed, shape))


def _gather(use: _Use, value: np.ndarray) -> np.ndarray:
    if use.map is None:
        return value
    *lead, positions, features = value.shape
    found = value.reshape(*lead, positions * features) @ use.map.T
    return found.reshape(*lead, use.positions, len(use.map) // use.positions)


def _spread(use: _Use, value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if use.map is None:
        return value
    *lead, positions, features = value.shape
    return (value.reshape(*lead, positions * features) @ use.map).reshape(*lead, *shape)


def _vector(value: np.ndarray) -> np.ndarray:
    """All positions of a value as one vector, feature by feature."""
    return value.swapaxes(-1, -2).reshape(*value.shape[:-2], value.shape[-1] * value.shape[-2])


def _add(to: dict[int, np.ndarray], k: int, part: np.ndarray) -> None:
    if k >= 0:
        to[k] = to[k] + part if k in to else part


def automatic(network: Network, params: Weights, x: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, ...]:
    """Outputs, Jacobian and its derivative along `u` by JAX, whose programs NumPy runs: none is compiled."""
    names = network.trained_names
    cuts = np.cumsum([params[name].size for name in names])[:-1].tolist()

    def pushed(step: Any) -> Any:
        def outputs(step: Any) -> Any:
            there = {name: jnp.asarray(weight) for name, weight in params.items()}
            for name, part in zip(names, jnp.split(step, cuts), strict=True):
                there[name] = there[name] + part.reshape(there[name].shape)
            return network.scored(network.forward(network.linear(there), jnp.asarray(x)).outputs).ravel()

        def jacobian(step: Any) -> Any:
            out, back = jax.vjp(outputs, step)
            return jax.vmap(lambda c: back(c)[0])(jnp.eye(out.size)), out

        (jac, out), (change, _) = jax.jvp(jacobian, (step,), (jnp.asarray(u),))
        return out, jac, change

    return in_numpy(pushed, np.zeros_like(u))
