"""One pass forward and back through the nodes of a network, every value enclosed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Shaped

from wideproof.certificates.enclosure import UP, Ball, activate, add, divided, exact, multiply, product, scaled
from wideproof.networks import Graph, Read, Term
from wideproof.networks.maps import Average, Flat, Identity, Ones, Patches, Select

EXTENDED = 4e9  # products of long doubles that are worth their time
READ_OUT = 5e8  # the same for the last layer alone


@dataclass(frozen=True, eq=False)
class Pass:
    """A forward and a backward pass through the nodes, enclosed.

    Attributes
    ----------
    inputs
        What matrices multiply, a value behind a map: `n x p x fan-in`.
    z, values, slopes
        Pre-activations, values and slopes of each node: `n x p x m`.
    b, g
        Cotangents of each node's value and pre-activation: `n x c x p x m`. In a lean pass b of the last node, the same
        for all examples, is there once, and g is `None` where nothing is behind it.
    outputs
        All scored outputs of an example: `n x c`.
    """

    graph: Graph
    inputs: Mapping[Read, Ball]
    z: tuple[Ball, ...]
    values: tuple[Ball, ...]
    slopes: tuple[Ball, ...]
    b: tuple[Ball, ...]
    g: tuple[Ball | None, ...]
    outputs: Ball

    def gain(self, k: int) -> Ball:
        """Return g of a node in a pass that is not lean."""
        found = self.g[k]
        assert found is not None
        return found


def run(
    graph: Graph,
    params: Mapping[str, np.ndarray],
    x: Float[np.ndarray, "n ..."],
    tracked: bool = True,
    omega: Mapping[str, float] | None = None,
    lean: bool = False,
) -> Pass:
    """Run the network on all examples, forward and backward; `omega` bounds the spectral norms of its matrices."""
    omega = omega or {}
    forward = _forward(graph, params, x, tracked, omega, np.float64)
    if tracked and graph.kinked and _work(graph, params, len(x)) < EXTENDED:
        forward = _forward(graph, params, x, tracked, omega, np.longdouble)
    inputs, z, values, slopes, outputs = forward
    b, g = _backward(graph, params, values, slopes, tracked, omega, lean)
    return Pass(graph, inputs, tuple(z), tuple(values), tuple(slopes), b, g, outputs)


def features(
    graph: Graph, params: Mapping[str, np.ndarray], x: Float[np.ndarray, "n ..."], tracked: bool = True
) -> tuple[Ball, Ball]:
    """Return what the read-out multiplies, in the order of its columns, and the outputs: one row for each example."""
    dtype = np.longdouble if tracked and graph.kinked and _work(graph, params, len(x)) < EXTENDED else np.float64
    _, _, values, _, outputs = _forward(graph, params, x, tracked, {}, dtype)
    return values[graph.sites[0]].map(lambda a: a.swapaxes(1, 2)).joined(2), outputs


def _work(graph: Graph, params: Mapping[str, np.ndarray], n: int) -> int:
    return n * sum(params[t.weight].size for _, t in graph.terms() if t.weight is not None)


def _forward(
    graph: Graph,
    params: Mapping[str, np.ndarray],
    x: Float[np.ndarray, "n ..."],
    tracked: bool,
    omega: Mapping[str, float],
    dtype: type,
) -> tuple[dict[Read, Ball], list[Ball], list[Ball], list[Ball], Ball]:
    """Run forward; ReLU networks in long double where that is cheap, since their errors are not smoothed on the way."""

    def matrix(key: str) -> Shaped[np.ndarray, "m fan_in"]:
        return graph.matrix(params, key).astype(dtype)

    seen = {-1 - t: exact(part.astype(dtype), tracked) for t, part in enumerate(graph.inputs(x))}
    inputs: dict[Read, Ball] = {}

    def met(k: int, term: Term) -> Ball:
        read = graph.read(k, term)
        if read not in inputs:
            inputs[read] = reading(seen[term.source], term.map, math.prod(graph.grids[k]))
        u = inputs[read]
        return u if term.weight is None else product(u, matrix(term.weight), omega.get(term.weight))

    z, values, slopes = [], [], []
    for k, node in enumerate(graph.layers):
        z.append(add(*(met(k, t) for t in node.terms)))
        value, slope = activate(node.activation, z[-1])
        value = scaled(value, node.scale)
        values.append(value if node.skip is None else add(seen[node.skip], value))
        slopes.append(slope)
        seen[k] = values[-1]
    read = by_position(graph, params, values[graph.sites[0]].mid.shape[1]).astype(dtype)
    read = read.reshape(len(read), -1)
    size = float(np.sqrt(np.square(read.astype(np.float64)).sum())) * UP
    last = [values[k].joined(2) for k in graph.sites]
    if tracked and len(graph.sites) * last[0].mid.size * len(read) < READ_OUT:
        # The residual is all that is left of a fit: long double here makes its bound a hundred times smaller.
        read, last = read.astype(np.longdouble), [Ball(u.mid.astype(np.longdouble), u.rad, u.norm) for u in last]
    sites = [product(u, read, size) for u in last]
    if graph.bias is not None:
        level = matrix(graph.bias).astype(read.dtype).T
        sites = [add(site, exact(np.broadcast_to(level, site.mid.shape), tracked)) for site in sites]
    sites = [site.rounded() for site in sites]
    radii = [site.rad for site in sites if site.rad is not None]
    outputs = Ball(
        np.concatenate([site.mid for site in sites], axis=1), np.concatenate(radii, axis=1) if radii else None
    )
    rounded = [[ball.rounded() for ball in part] for part in (z, values, slopes)]
    return {k: u.rounded() for k, u in inputs.items()}, *rounded, outputs  # pyright: ignore[reportReturnType]


def _backward(
    graph: Graph,
    params: Mapping[str, np.ndarray],
    values: list[Ball],
    slopes: list[Ball],
    tracked: bool,
    omega: Mapping[str, float],
    lean: bool,
) -> tuple[tuple[Ball, ...], tuple[Ball | None, ...]]:
    n, c, count = len(values[0].mid), graph.outputs, len(graph.layers)
    gathered: dict[int, list[Ball]] = {k: [] for k in range(-(graph.times or 1), count)}
    for site, k in enumerate(graph.sites):
        positions, units = values[k].mid.shape[1:]
        read = by_position(graph, params, positions)
        if lean:
            start = read[None]
        else:
            start = np.zeros((n, c * len(graph.sites), positions, units))
            start[:, site * c : (site + 1) * c] = read
        gathered[k].append(exact(start, tracked))
    b: dict[int, Ball] = {}
    g: dict[int, Ball | None] = {}
    for k in reversed(range(count)):
        node = graph.layers[k]
        if not gathered[k]:  # nothing scored depends on this node
            gathered[k].append(exact(np.zeros((n, c * len(graph.sites), *values[k].mid.shape[1:])), tracked))
        b[k], g[k] = add(*gathered[k]), None
        if node.skip is not None and node.skip >= 0:
            gathered[node.skip].append(b[k])
        if lean and all(t.source < 0 for t in node.terms):
            continue
        g[k] = behind = multiply(b[k], _for_outputs(slopes[k]))
        for t in node.terms:
            if t.source >= 0 and t.moves:
                back = scaled(behind, node.scale)
                if t.weight is not None:
                    transposed = np.ascontiguousarray(graph.matrix(params, t.weight).T)
                    back = product(back, transposed, omega.get(t.weight))
                gathered[t.source].append(returning(back, t.map, values[t.source].mid.shape[1]))
    return tuple(b[k] for k in range(count)), tuple(g[k] for k in range(count))


def _for_outputs(slope: Ball) -> Ball:
    """Give an axis for the outputs to what all of them share."""
    if slope.rad is None:
        return Ball(slope.mid[:, None], None)
    return Ball(slope.mid[:, None], slope.rad[:, None], slope.off[:, None])


def by_position(graph: Graph, params: Mapping[str, np.ndarray], positions: int) -> Float[np.ndarray, "c p m"]:
    """Return the read-out as `outputs x positions x units`."""
    read = graph.matrix(params, graph.read_out).reshape(graph.outputs, -1, positions)
    return np.ascontiguousarray(read.transpose(0, 2, 1))


def reading(x: Ball, phi: Identity, positions: int) -> Ball:
    """Return what a weight multiplies, at so many positions: `x` behind a map."""
    if isinstance(phi, Ones):
        return exact(np.ones((len(x.mid), positions, 1), x.mid.dtype), x.rad is not None)
    if isinstance(phi, Average):
        shifts = phi.shifts
        return divided(add(*(x.map(lambda a, o=o: shifts(a)[o]) for o in range(phi.count))), phi.count)
    if isinstance(phi, Flat):
        return x if x.mid.shape[-2] == 1 else x.map(lambda a: phi.gather(a)[..., None, :])
    if isinstance(phi, Select):
        shape = *x.mid.shape[:-2], math.prod(phi.out), phi.features
        return _times(x.map(lambda a: phi.pick(a.reshape(*a.shape[:-2], -1)).reshape(shape)), phi)
    return x.map(phi.gather) if isinstance(phi, Patches) else x


def _times(x: Ball, phi: Select) -> Ball:
    """Multiply what a selection picked."""
    if phi.times is None:
        return x
    return multiply(
        x, exact(phi.times.reshape(math.prod(phi.out), phi.features).astype(x.mid.dtype), x.rad is not None)
    )


def returning(y: Ball, phi: Identity, positions: int) -> Ball:
    """Apply the adjoint of a map whose source has so many positions."""
    if isinstance(phi, Flat) and positions > 1:
        return y.map(lambda a: a.reshape(*a.shape[:-2], -1, positions).swapaxes(-1, -2))
    if isinstance(phi, Select):
        shape, picked = (*y.mid.shape[:-2], positions, phi.inputs), _times(y, phi)
        beyond = picked.map(lambda a: np.pad(a.reshape(*a.shape[:-2], -1), [(0, 0)] * (a.ndim - 2) + [(0, 1)]))
        return add(*(beyond.map(lambda a, at=at: a[..., at].reshape(shape)) for at in phi.readers))
    if not isinstance(phi, Patches):
        return y
    count, unshift = phi.count, phi.unshift
    if isinstance(phi, Average):
        return divided(add(*(y.map(lambda a, o=o: unshift(a, o)) for o in range(count))), count)

    def place(a: np.ndarray, o: int) -> np.ndarray:
        return unshift(a.reshape(*a.shape[:-1], -1, count)[..., o], o)

    return add(*(y.map(lambda a, o=o: place(a, o)) for o in range(phi.count)))
