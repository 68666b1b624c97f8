"""One pass forward and back through the nodes of a network, every value enclosed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from wideproof.certificates.enclosure import UP, Ball, activate, add, exact, multiply, product, scaled
from wideproof.certificates.graph import Graph

EXTENDED = 4e9  # products of long doubles that are worth their time
READ_OUT = 5e8  # the same for the last layer alone


@dataclass(frozen=True, eq=False)
class Pass:
    """A forward and a backward pass through the nodes, enclosed.

    Attributes
    ----------
    inputs : for each source (node, or input at a negative number) what its matrices multiply: `n x p x fan-in`.
    z, values, slopes : pre-activations, values and slopes of each node: `n x p x m`.
    b, g : cotangents of each node's value and pre-activation: `n x c x p x m`. In a lean pass b of the last node, the
        same for all examples, is there once, and g is `None` where nothing is behind it.
    outputs : all scored outputs of an example: `n x c`.
    """

    graph: Graph
    inputs: Mapping[int, Ball]
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
    x: np.ndarray,
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


def _work(graph: Graph, params: Mapping[str, np.ndarray], n: int) -> int:
    return n * sum(params[t.name].size for node in graph.nodes for t in node.terms)


def _forward(
    graph: Graph,
    params: Mapping[str, np.ndarray],
    x: np.ndarray,
    tracked: bool,
    omega: Mapping[str, float],
    dtype: type,
) -> tuple[dict[int, Ball], list[Ball], list[Ball], list[Ball], Ball]:
    """Run forward; ReLU networks in long double where that is cheap, since their errors are not smoothed on the way."""
    name = graph.activation.name.removesuffix("_closed")

    def matrix(key: str) -> np.ndarray:
        return graph.matrix(params, key).astype(dtype)

    inputs = {
        -1 - t: patches(exact(part.astype(dtype), tracked), graph.window) for t, part in enumerate(graph.inputs(x))
    }
    z, values, slopes = [], [], []
    for k, node in enumerate(graph.nodes):
        z.append(add(*(product(inputs[t.source], matrix(t.name), omega.get(t.name)) for t in node.terms)))
        value, slope = activate(name, z[-1], graph.lipschitz, graph.smoothness)
        value = scaled(value, node.scale)
        values.append(add(values[-1], value) if node.skip else value)
        slopes.append(slope)
        inputs[k] = patches(values[-1], graph.window)
    read = matrix(graph.read_out)
    flat = read.reshape(len(read), -1)
    size = float(np.sqrt(np.square(flat.astype(np.float64)).sum())) * UP
    last = [values[k].joined(2) for k in graph.outputs]
    if tracked and len(graph.outputs) * last[0].mid.size * len(flat) < READ_OUT:
        # The residual is all that is left of a fit: long double here makes its bound a hundred times smaller.
        flat, last = flat.astype(np.longdouble), [Ball(u.mid.astype(np.longdouble), u.rad, u.norm) for u in last]
    sites = [product(u, flat, size).rounded() for u in last]
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
    read = graph.matrix(params, graph.read_out)
    n, c = 1 if lean else len(values[0].mid), len(read)
    gathered: list[list[Ball]] = [[] for _ in graph.nodes]
    for site, k in enumerate(graph.outputs):
        start = np.zeros((n, c * len(graph.outputs), *read.shape[1:]))
        start[:, site * c : (site + 1) * c] = read
        gathered[k].append(exact(start, tracked))
    b: dict[int, Ball] = {}
    g: dict[int, Ball | None] = {}
    for k in reversed(range(len(graph.nodes))):
        node = graph.nodes[k]
        if not gathered[k]:  # nothing scored depends on this node
            gathered[k].append(exact(np.zeros((n, c * len(graph.outputs), *values[k].mid.shape[1:])), tracked))
        b[k], g[k] = add(*gathered[k]), None
        if node.skip:
            gathered[k - 1].append(b[k])
        if lean and all(t.source < 0 for t in node.terms):
            continue
        g[k] = behind = multiply(b[k], _for_outputs(slopes[k]))
        for t in node.terms:
            if t.source >= 0:
                transposed = np.ascontiguousarray(graph.matrix(params, t.name).T)
                back = product(scaled(behind, node.scale), transposed, omega.get(t.name))
                gathered[t.source].append(_fold(back, graph.window))
    return tuple(b[k] for k in range(len(b))), tuple(g[k] for k in range(len(g)))


def _for_outputs(slope: Ball) -> Ball:
    """Give an axis for the outputs to what all of them share."""
    if slope.rad is None:
        return Ball(slope.mid[:, None], None)
    return Ball(slope.mid[:, None], slope.rad[:, None], slope.off[:, None])


def patches(x: Ball, size: int) -> Ball:
    """Gather the `size` pixels around each pixel, channel by channel, zero outside."""
    if size == 1:
        return x

    def gather(a: np.ndarray) -> np.ndarray:
        pixels, half = a.shape[-2], size // 2
        padded = np.pad(a, [(0, 0)] * (a.ndim - 2) + [(half, half), (0, 0)])
        shifted = [padded[..., o : o + pixels, :] for o in range(size)]
        return np.stack(shifted, axis=-1).reshape(*a.shape[:-1], -1)

    return x.map(gather)


def _fold(y: Ball, size: int) -> Ball:
    """The adjoint of `patches`."""
    if size == 1:
        return y
    half = size // 2

    def shift(a: np.ndarray, o: int) -> np.ndarray:
        """What offset `o` read at pixel p belongs to pixel p + o - half."""
        part = a.reshape(*a.shape[:-1], -1, size)[..., o]
        out = np.zeros_like(part)
        move, pixels = o - half, part.shape[-2]
        if abs(move) < pixels:
            source = slice(max(0, -move), pixels - max(0, move))
            target = slice(max(0, move), pixels - max(0, -move))
            out[..., target, :] = part[..., source, :]
        return out

    return add(*(y.map(lambda a, o=o: shift(a, o)) for o in range(size)))
