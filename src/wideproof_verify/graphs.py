"""The network of a certificate: a list of nodes, read and checked, and described in words.

    z_k = Σ_t M_t φ_t(x_src(t)),   x_k = [x_skip] + s_k σ_k(z_k),   f = C x_site + c

φ is the identity, all positions as one vector (feature by feature), windows around positions in one or two dimensions
(patches) or their averages, or the constant 1, which a bias multiplies. M may be missing: then it is the identity. A
value has a grid of positions and a number of features. Values are counted from the inputs (one, or one per time), then
the nodes.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from wideproof_verify.activations import ACTIVATIONS, C_SIGMA

KINDS = {"identity": (), "flat": (), "ones": ()} | dict.fromkeys(
    ("patches", "average"), ("positions", "size", "stride", "padding")
)
FIELDS = {"shape", "times", "columns", "nodes", "read_out", "bias", "sites", "outputs", "trained"}


class MalformedError(Exception):
    """The files are not a certificate."""


def require(holds: Any, otherwise: str) -> None:
    """Raise `MalformedError` with the sentence `otherwise` unless `holds`."""
    if not holds:
        raise MalformedError(otherwise)


def is_number(value: Any) -> bool:
    """Return whether `value` is a finite JSON number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def is_size(value: Any, least: int = 1) -> bool:
    """Return whether `value` is a whole number of a reasonable size."""
    return type(value) is int and least <= value < 2**31


@dataclass(frozen=True)
class Phi:
    """A map: `grid` is what comes out; `size`, `stride` and `padding` (zeros around) are of windows on `positions`."""

    kind: str
    grid: tuple[int, ...]
    positions: tuple[int, ...] = ()
    size: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    padding: tuple[tuple[int, int], ...] = ()

    @property
    def places(self) -> int:
        """How many positions come out."""
        return math.prod(self.grid)

    @property
    def count(self) -> int:
        """How many positions a window has."""
        return math.prod(self.size)

    @property
    def overlap(self) -> int:
        """How many windows a position is in, at most."""
        return math.prod(-(-q // s) for q, s in zip(self.size, self.stride, strict=True))

    @cached_property
    def table(self) -> np.ndarray:
        """The position that each place of each window reads; one beyond the last where that is outside."""
        reads = []
        for at in product(*map(range, self.grid)):
            for o in product(*map(range, self.size)):
                sides = zip(at, self.stride, o, self.padding, strict=True)
                place = [j * s + i - pad[0] for j, s, i, pad in sides]
                inside = all(0 <= i < p for i, p in zip(place, self.positions, strict=True))
                reads.append(int(np.ravel_multi_index(place, self.positions)) if inside else math.prod(self.positions))
        return np.array(reads).reshape(self.places, self.count)

    @cached_property
    def readers(self) -> np.ndarray:
        """For each position the windows' places that read it, as numbers into the flat table, filled up beyond it."""
        flat, count = self.table.ravel(), math.prod(self.positions)
        found = [np.flatnonzero(flat == i) for i in range(count)]
        most = max(map(len, found))
        return np.array([np.pad(places, (0, most - len(places)), constant_values=flat.size) for places in found])


@dataclass(frozen=True)
class Term:
    """A weight, or `None` for the identity, and the number of the value that it reads through a map."""

    weight: str | None
    value: int
    phi: Phi

    @property
    def moves(self) -> bool:
        """Whether what is read depends on the value."""
        return self.phi.kind != "ones"


@dataclass(frozen=True)
class Node:
    """A layer; `skip` is the number of the value that is added behind it."""

    terms: tuple[Term, ...]
    activation: str
    scale: float
    skip: int | None


@dataclass(frozen=True)
class Network:
    """`sites` are the values that the read-out and its `bias` are applied to, `outputs` how many numbers it gives."""

    shape: tuple[int, ...]
    nodes: tuple[Node, ...]
    inputs: int
    times: int
    sites: tuple[int, ...]
    read_out: str
    bias: str | None
    outputs: int
    trained: tuple[str, ...]
    columns: bool
    widths: tuple[int, ...]

    def uses(self, name: str) -> list[tuple[int, Term]]:
        """Return where a weight is used: nodes and terms."""
        return [(k, t) for k, t in self.terms() if t.weight == name]

    def terms(self) -> Iterator[tuple[int, Term]]:
        """Yield all terms, node by node."""
        return ((k, t) for k, node in enumerate(self.nodes) for t in node.terms)


def build(config: Any, weights: dict[str, np.ndarray]) -> tuple[Network, dict[str, np.ndarray]]:
    """Return the network and its weights as matrices with one row per unit."""
    require(isinstance(config, dict) and set(config) == FIELDS, f"the network's fields are not {', '.join(FIELDS)}")
    shape, times, outputs = config["shape"], config["times"], config["outputs"]
    require(isinstance(shape, list) and 0 < len(shape) <= 3 and all(map(is_size, shape)), f"shape is {shape!r}")
    require(isinstance(config["nodes"], list) and 0 < len(config["nodes"]) < 10**5, "there are no nodes")
    right = is_size(times, 0) and times != 1 and (times == 0 or len(shape) == 1) and times <= len(config["nodes"]) + 1
    require(right, f"times is {times!r}")
    require(is_size(outputs) and isinstance(config["columns"], bool), "outputs or columns are not right")
    for name in weights:  # names are printed in the verdict
        right = re.fullmatch(r"[^\s,;()]{1,120}", name) and name.isascii() and name.isprintable()
        require(right, f"a weight is called {name[:80]!r}")
    inputs, matrices, nodes = times or 1, {}, []
    sizes: list[tuple[tuple[int, ...], int]] = [(tuple(shape[1:]), shape[0])] * inputs

    def number(value: Any, before: int) -> int:
        require(type(value) is int and -inputs <= value < before, f"a node reads the value {value!r}")
        return value + inputs if value >= 0 else -1 - value

    for k, stated in enumerate(config["nodes"]):
        require(set(stated) == {"terms", "activation", "scale", "skip"}, f"node {k} has other fields")
        require(isinstance(stated["activation"], str) and stated["activation"] in ACTIVATIONS,
                f"there is no activation {stated['activation']!r}")  # fmt: skip
        scale = stated["scale"]
        require(is_number(scale) and 0 <= scale == float(scale), f"the scale of node {k} is {scale!r}")
        reads = [_read(term, lambda value, k=k: number(value, k), sizes) for term in stated["terms"]]
        grids = {phi.grid for _, _, phi, _ in reads if phi.kind != "ones"}
        require(len(grids) == 1, f"the terms of node {k} have different grids, or none")
        grid, terms, units = grids.pop(), [], set()
        for weight, value, phi, features in reads:
            phi = Phi("ones", grid) if phi.kind == "ones" else phi
            if weight is not None:
                matrix = _matrix(weight, weights, features, config["columns"] and phi.kind != "ones")
                require(np.array_equal(matrices.setdefault(weight, matrix), matrix), f"{weight!r} is used in two ways")
            require(weight is not None or phi.kind not in ("ones", "patches"), f"a term of node {k} has no weight")
            units.add(features if weight is None else len(matrices[weight]))
            terms.append(Term(weight, value, phi))
        skip = None if stated["skip"] is None else number(stated["skip"], k)
        sizes.append((grid, units.pop()))
        require(not units and (skip is None or sizes[skip] == sizes[-1]), f"node {k} adds values of different shapes")
        nodes.append(Node(tuple(terms), stated["activation"], float(stated["scale"]), skip))
    sites, read_out, level = config["sites"], config["read_out"], config["bias"]
    right = isinstance(sites, list) and len(sites) == max(1, times - 1) and len(set(map(str, sites))) == len(sites)
    require(right and all(is_size(k, 0) and k < len(nodes) for k in sites), f"sites are {sites!r}")
    (grid, features), *others = dict.fromkeys(sizes[inputs + k] for k in sites)
    fits = read_out in weights and weights[read_out].size == outputs * features * math.prod(grid)
    require(fits and not others and read_out not in matrices, f"the read-out {read_out!r} does not fit")
    matrices[read_out] = np.ascontiguousarray(weights[read_out].reshape(outputs, -1))
    if level is not None:
        fits = level in weights and weights[level].size == outputs and level not in matrices
        require(fits, f"the bias {level!r} of the read-out does not fit")
        matrices[level] = weights[level].reshape(outputs, 1)
    require(set(matrices) == set(weights), "there are weights that the network does not use")
    trained = config["trained"]
    right = isinstance(trained, list) and all(isinstance(name, str) and name in weights for name in trained)
    require(right and 0 < len(trained) == len(set(trained)), f"trained is {trained!r}")
    numbers = tuple(inputs + k for k in sites)
    widths = tuple(units for _, units in sizes[inputs:])
    return Network(
        tuple(shape), tuple(nodes), inputs, times, numbers, read_out, level, outputs, tuple(trained),
        config["columns"], widths,
    ), matrices  # fmt: skip


def _read(stated: Any, number: Any, sizes: list) -> tuple[str | None, int, Phi, int]:
    """Return weight, value, map and how many features the map gives."""
    require(isinstance(stated, dict) and set(stated) == {"weight", "source", "map"}, "a term has other fields")
    weight, value, given = stated["weight"], number(stated["source"]), stated["map"]
    require(weight is None or isinstance(weight, str), f"a weight is called {weight!r}")
    kind = given["kind"]
    require(kind in KINDS and set(given) == {"kind", *KINDS[kind]}, f"there is no map {given!r}")
    grid, features = sizes[value]
    if kind in ("identity", "ones"):
        return weight, value, Phi(kind, grid), features if kind == "identity" else 1
    if kind == "flat":
        return weight, value, Phi(kind, ()), features * math.prod(grid)
    windows = [given[name] for name in ("positions", "size", "stride")]
    right = all(isinstance(w, list) and len(w) == len(grid) and all(map(is_size, w)) for w in windows)
    pads = given["padding"]
    right = right and 0 < len(grid) == len(pads) and all(len(p) == 2 and all(is_size(i, 0) for i in p) for p in pads)
    require(right and tuple(windows[0]) == grid, f"the windows {given!r} do not fit the grid {grid}")
    positions, size, stride = map(tuple, windows)
    require(all(max(pad) < q for pad, q in zip(pads, size, strict=True)), "there are windows of zeros alone")
    out = tuple((p + sum(pad) - q) // s + 1 for p, q, s, pad in zip(positions, size, stride, pads, strict=True))
    require(min(out) > 0 and math.prod(out) * math.prod(size) < 2**24, f"windows of {size} on {grid} are not there")
    phi = Phi(kind, out, positions, size, stride, tuple((a, b) for a, b in pads))
    return weight, value, phi, features * (phi.count if kind == "patches" else 1)


def _matrix(name: str, weights: dict[str, np.ndarray], fan_in: int, columns: bool) -> np.ndarray:
    require(name in weights and weights[name].ndim > 0 and weights[name].size > 0, f"there is no weight {name!r}")
    weight = weights[name].reshape(-1, weights[name].shape[-1]).T if columns else weights[name]
    right = weight.size == len(weight) * fan_in
    require(right, f"the weight {name!r} has the shape {weights[name].shape}, for {fan_in} inputs")
    return np.ascontiguousarray(weight.reshape(len(weight), fan_in))


def describe(net: Network, weights: dict[str, np.ndarray]) -> str:
    """Say in words what the network is: one of the papers' by name, or its layers."""
    depth, m = len(net.nodes), net.widths[-1]
    sizes = f"{depth} hidden layer{'s' * (depth > 1)} of {m} units"
    if len(set(net.widths)) > 1:
        sizes = f"hidden layers of {', '.join(map(str, net.widths))} units"
    whose, used = _paper(net, weights), sorted({node.activation for node in net.nodes})
    if whose == "a recurrent network of Allen-Zhu et al.":
        layers = depth // net.times
        sizes = f"{layers} recurrent layer{'s' * (layers > 1)} of {m} units, over {net.times} times"
    extras = []
    if not whose:
        names = [t.weight for _, t in net.terms() if t.weight is not None]
        extras += sorted({t.phi.kind for _, t in net.terms()} - {"identity", "ones"})
        extras += ["biases"] * bool(net.bias or any(not t.moves for _, t in net.terms()))
        extras += ["skips"] * any(node.skip is not None for node in net.nodes)
        extras += ["shared weights"] * (len(set(names)) < len(names))
        extras += ["layers without effect"] * (len(_live(net)) < depth)
    sizes += f" ({', '.join(used)}{'; with ' if extras else ''}{', '.join(extras)})"
    trained = "all weights trained" if len(net.trained) == len(weights) else f"trained: {', '.join(net.trained)}"
    return f"{whose or 'a network'} with {sizes} and {net.outputs} output{'s' * (net.outputs > 1)}, {trained}"


def _live(net: Network) -> set[int]:
    """Return the values of nodes that the outputs depend on."""
    found, waiting = set(), list(net.sites)
    while waiting:
        value = waiting.pop()
        if value >= net.inputs and value not in found:
            node = net.nodes[value - net.inputs]
            found.add(value)
            waiting += [t.value for t in node.terms if t.moves] + ([] if node.skip is None else [node.skip])
    return found


def _paper(net: Network, weights: dict[str, np.ndarray]) -> str:
    """Return whose network it is, if nodes, factors and windows are exactly a paper's, and no weight is shared."""
    first, count, m = net.nodes[0], len(net.nodes), net.widths[0]
    names = {node.activation for node in net.nodes}
    if net.bias is not None or len(weights) != 1 + (count if not net.times else 2 * (count // net.times)):
        return ""
    if net.times:
        return "a recurrent network of Allen-Zhu et al." if names == {"relu"} and _unrolled(net) else ""
    chained = all(len(node.terms) == 1 and node.terms[0].value == k for k, node in enumerate(net.nodes))
    weighted = all(t.weight is not None for _, t in net.terms())
    if not chained or not weighted or len(names) > 1 or net.sites != (net.inputs + count - 1,):
        return ""
    scales, skips = [node.scale for node in net.nodes], [node.skip is not None for node in net.nodes]
    phi, behind = first.terms[0].phi, all(node.skip in (None, k) for k, node in enumerate(net.nodes))
    same = phi.kind == "identity" and not phi.grid
    if net.columns:
        signs = np.sort(weights[net.read_out].ravel())
        balanced = net.outputs == 1 and np.array_equal(signs, np.repeat([-1.0, 1.0], len(signs) // 2))
        fixed = net.read_out in net.trained or balanced
        if not (behind and same and names == {"relu"} and fixed):
            return ""
        if scales == [1.0] * count and not any(skips):
            return "a deep ReLU network of Zou et al."
        inner = skips == [False, *[True] * (count - 2), False] and len(set(net.widths)) == len(set(scales[1:-1])) == 1
        inner = inner and scales[0] == scales[-1] == 1 and min(scales) > 0
        return "a residual ReLU network of Frei et al." if inner else ""
    start = math.sqrt(C_SIGMA[first.activation] / m)
    if not behind or scales[0] != start or len(set(net.widths)) > 1 or min(scales) <= 0:
        return ""
    if same and scales == [start] * count and not any(skips):
        return "a fully-connected network of Du et al."
    if skips != [False] + [True] * (count - 1) or len(set(scales[1:])) > 1 or {t.phi for _, t in net.terms()} != {phi}:
        return ""
    half = phi.size[0] // 2 if len(phi.size) == 1 else 0
    centred = phi.kind == "patches" and phi.stride == (1,) and phi.size == (2 * half + 1,)
    if centred and phi.padding == ((half, half),):
        return "a convolutional residual network of Du et al."
    return "a residual network of Du et al." if same else ""


def _unrolled(net: Network) -> bool:
    """Whether the nodes are recurrent layers, each over all times, with the loss from the second time on."""
    length = net.times
    if len(net.nodes) % length or len(set(net.widths)) > 1:
        return False
    for k, node in enumerate(net.nodes):
        j, t = divmod(k, length)
        below, w = net.nodes[j * length].terms[0], net.nodes[j * length + 1].terms[0]
        wanted = [(below.weight, j * length + t)] if t == 0 else [(w.weight, length + k - 1), (below.weight, k)]
        plain = all(term.phi.kind == "identity" and term.weight for term in node.terms)
        if not plain or [(x.weight, x.value) for x in node.terms] != wanted or node.skip is not None or node.scale != 1:
            return False
    return net.sites == tuple(range(len(net.nodes) + 1, len(net.nodes) + length))
