"""The network of a certificate: a list of nodes, read and checked, and written out as formulas.

    z_k = Σ_t M_t φ_t(x_src(t)),   x_k = [x_skip] + s_k σ_k(z_k),   f = C x_site + c

φ is a map (`maps`); M may be missing: then it is the identity. A value has a grid of positions and features.
Values are counted from the inputs (one, or one per time), then the nodes.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np

from wideproof_verify.functions import ACTIVATIONS
from wideproof_verify.maps import MAPS, MOST_READS, Map, Ones
from wideproof_verify.refusals import is_number, is_size, require

FIELDS = ("shape", "times", "columns", "nodes", "read_out", "bias", "sites", "outputs", "trained")
MOST_NODES, MOST_LINES = 10**5, 12  # nodes of a graph, and how many of them are written out one by one


@dataclass
class Values:
    """What is known while nodes are read: grid and features of every value, shapes and layouts of weights."""

    inputs: int
    columns: bool
    shapes: dict[str, tuple[int, ...]]
    sizes: list[tuple[tuple[int, ...], int]]
    layouts: dict[str, tuple[bool, int, int]] = field(default_factory=dict)
    selected: int = 0  # entries of all selections so far

    def number(self, value: Any) -> int:
        """Return the number of a value that is there already: inputs are −1, −2, …, nodes 0, 1, …"""
        before = len(self.sizes) - self.inputs
        require(type(value) is int and -self.inputs <= value < before, f"a node reads the value {value!r}")
        return value + self.inputs if value >= 0 else -1 - value

    def units(self, term: "Term") -> int:
        """Return how many numbers a term gives at each position, and note how its weight is laid out."""
        name, phi = term.weight, term.phi
        if name is None:
            require(type(phi) not in (Ones, MAPS["patches"]), "a term has no weight")
            return phi.features
        shape = self.shapes.get(name, ())
        require(shape and math.prod(shape), f"there is no weight {name!r}")
        turned = self.columns and term.moves  # one column for each unit
        units = shape[-1] if turned else shape[0]
        layout = turned, units, phi.features
        right = math.prod(shape) == units * phi.features
        require(right, f"the weight {name!r} has the shape {shape}, for {phi.features} inputs")
        require(self.layouts.setdefault(name, layout) == layout, f"{name!r} is used in two ways")
        return units


def quoted(name: str) -> str:
    """Return a weight's name as it is printed: in quotation marks where it might be read as a formula."""
    return name if re.fullmatch(r"[A-Za-z_][\w.]*", name) and name not in ACTIVATIONS else f'"{name}"'


@dataclass(frozen=True)
class Term:
    """A weight, or `None` for the identity, and the number of the value that it reads through a map."""

    weight: str | None
    value: int
    phi: Map

    @classmethod
    def read(cls, stated: Any, known: Values) -> "Term":
        """Return the term that the file states."""
        require(isinstance(stated, dict) and set(stated) == {"weight", "source", "map"}, "a term has other fields")
        weight, given = stated["weight"], stated["map"]
        require(weight is None or isinstance(weight, str), f"a weight is called {weight!r}")
        kind = given["kind"]
        right = kind in MAPS and {"kind", *MAPS[kind].fields} == set(given) - set(MAPS[kind].optional)
        require(right, f"there is no map {str(given)[:200]}")
        value = known.number(stated["source"])
        phi = MAPS[kind].read(given, *known.sizes[value])
        known.selected += phi.places * phi.features if kind == "select" else 0
        require(known.selected < MOST_READS, "the selections are too large together")
        return cls(weight, value, phi)

    @property
    def moves(self) -> bool:
        """Whether what is read depends on the value."""
        return not isinstance(self.phi, Ones)

    def __str__(self) -> str:
        if not self.moves:
            return quoted(self.weight or "")
        return f"{quoted(self.weight)} {self.phi}" if self.weight else str(self.phi)


@dataclass(frozen=True)
class Node:
    """A layer; `skip` is the number of the value that is added behind it."""

    terms: tuple[Term, ...]
    activation: str
    scale: float
    skip: int | None

    @classmethod
    def read(cls, stated: Any, known: Values) -> "Node":
        """Return the node that the file states, and add what it gives to the known values."""
        require(isinstance(stated, dict) and set(stated) == {"terms", "activation", "scale", "skip"},
                f"a node has other fields: {str(stated)[:80]!r}")  # fmt: skip
        activation, scale, skip = stated["activation"], stated["scale"], stated["skip"]
        require(isinstance(activation, str) and activation in ACTIVATIONS, f"there is no activation {activation!r}")
        require(is_number(scale) and 0 <= scale == float(scale), f"the scale of a node is {scale!r}")
        terms = [Term.read(term, known) for term in stated["terms"]]
        grids = {t.phi.grid for t in terms if t.moves}
        require(len(grids) == 1, "the terms of a node have different grids, or none")
        (grid,) = grids
        terms = [t if t.moves else replace(t, phi=Ones(grid, 1)) for t in terms]
        units = {known.units(t) for t in terms}
        size = grid, min(units)
        value = None if skip is None else known.number(skip)
        right = len(units) == 1 and (value is None or known.sizes[value] == size)
        require(right, "a node adds values of different shapes")
        known.sizes.append(size)
        return cls(tuple(terms), activation, float(scale), value)


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
    sizes: tuple[tuple[tuple[int, ...], int], ...]
    layouts: dict[str, tuple[bool, int, int]]

    @classmethod
    def read(cls, config: Any, shapes: dict[str, tuple[int, ...]]) -> "Network":
        """Return the network that the file states, for weights of these shapes."""
        require(isinstance(config, dict) and set(config) == set(FIELDS), f"the network's fields: {', '.join(FIELDS)}")
        cls._check_sizes(config, shapes)
        shape, times, outputs, nodes = (config[name] for name in ("shape", "times", "outputs", "nodes"))
        inputs = times or 1
        known = Values(inputs, config["columns"], shapes, [(tuple(shape[1:]), shape[0])] * inputs)
        read = tuple(Node.read(node, known) for node in nodes)
        sites = cls._sites(config, known, len(read))
        require(set(known.layouts) == set(shapes), "there are weights that the network does not use")
        trained = config["trained"]
        right = isinstance(trained, list) and all(isinstance(name, str) and name in shapes for name in trained)
        require(right and 0 < len(trained) == len(set(trained)), f"trained is {trained!r}")
        return cls(
            tuple(shape), read, inputs, times, sites, config["read_out"], config["bias"], outputs, tuple(trained),
            tuple(known.sizes), known.layouts,
        )  # fmt: skip

    @staticmethod
    def _check_sizes(config: Any, shapes: dict[str, tuple[int, ...]]) -> None:
        shape, times, outputs, nodes = (config[name] for name in ("shape", "times", "outputs", "nodes"))
        require(isinstance(shape, list) and 0 < len(shape) <= 3 and all(map(is_size, shape)), f"shape is {shape!r}")
        require(isinstance(nodes, list) and 0 < len(nodes) < MOST_NODES, "there are no nodes, or too many")
        right = is_size(times, 0) and times != 1 and (times == 0 or len(shape) == 1) and times <= len(nodes) + 1
        require(right, f"times is {times!r}")
        require(is_size(outputs) and isinstance(config["columns"], bool), "outputs or columns are not right")
        for name in shapes:  # names are printed in the verdict
            right = re.fullmatch(r"[^\s,;()\[\]{}+=*\"]{1,120}", name) and name.isascii() and name.isprintable()
            right = right and not re.fullmatch(r"x\d+|u\d*|f|k|[-.\d]+(e-?\d+)?", name)  # would be read as a value
            require(right, f"a weight is called {name[:80]!r}")

    @staticmethod
    def _sites(config: Any, known: Values, count: int) -> tuple[int, ...]:
        """Return where the read-out is applied, after a look at its shape and its bias'."""
        sites, outputs = config["sites"], config["outputs"]
        right = isinstance(sites, list) and len(sites) == max(1, config["times"] - 1)
        right = right and all(is_size(k, 0) and k < count for k in sites) and len(set(sites)) == len(sites)
        require(right, f"sites are {sites!r}")
        (grid, features), *others = {known.sizes[known.inputs + k] for k in sites}
        require(not others, "the read-out is applied to values of different shapes")
        last = [(config["read_out"], features * math.prod(grid)), (config["bias"], 1)]
        for name, fan_in in last if config["bias"] is not None else last[:1]:
            fits = isinstance(name, str) and name in known.shapes and name not in known.layouts
            fits = fits and math.prod(known.shapes[name]) == outputs * fan_in
            require(fits, f"the read-out, or its bias, {name!r} does not fit")
            known.layouts[name] = False, outputs, fan_in
        return tuple(known.inputs + k for k in sites)

    def matrix(self, name: str, weight: np.ndarray) -> np.ndarray:
        """Return a weight as a matrix with one row per unit."""
        turned, units, fan_in = self.layouts[name]
        return np.ascontiguousarray((weight.reshape(-1, units).T if turned else weight).reshape(units, fan_in))

    def uses(self, name: str) -> list[tuple[int, Term]]:
        """Return where a weight is used: nodes and terms."""
        return [(k, t) for k, t in self.terms() if t.weight == name]

    def terms(self) -> Iterator[tuple[int, Term]]:
        """Yield all terms, node by node."""
        return ((k, t) for k, node in enumerate(self.nodes) for t in node.terms)

    @property
    def hidden(self) -> list[str]:
        """The trained weights of nodes."""
        return [name for name in self.trained if name not in (self.read_out, self.bias)]

    def formula(self, k: int, relative: bool) -> str:
        """Write a node out: u are inputs, x nodes, counted from 1, or from the node itself."""

        def called(value: int) -> str:
            letter, number = ("u", value + 1) if value < self.inputs else ("x", value - self.inputs + 1)
            if relative:
                return f"{letter}[k{number - k - 1:+d}]" if number != k + 1 else f"{letter}[k]"
            return "u" if letter == "u" and self.inputs == 1 else f"{letter}{number}"

        node = self.nodes[k]
        parts = [str(t).replace("{}", called(t.value)) for t in node.terms]
        turned = [t.weight is not None and self.layouts[t.weight][0] for t in node.terms]  # units are columns
        inside = " + ".join(p.replace(" ", "ᵀ ", 1) if turn else p for p, turn in zip(parts, turned, strict=True))
        body = inside if node.activation == "identity" else f"{node.activation}({inside})"
        body = body if node.scale == 1 else f"{node.scale!r} ({body})" if body == inside else f"{node.scale!r} {body}"
        return body if node.skip is None else f"{called(node.skip)} + {body}"

    def __str__(self) -> str:
        many, lines = len(self.nodes) > MOST_LINES, []
        for (text, _), group in groupby(range(len(self.nodes)), lambda k: (self.formula(k, many), many or k)):
            first, *others = (k + 1 for k in group)
            alone = f"x{first} = {self.formula(first - 1, relative=False)}"
            lines.append(f"x[k] = {text} for k = {first} to {others[-1]}" if others else alone)
        if len(lines) > MOST_LINES:
            lines[MOST_LINES - 1 :] = [f"and {len(lines) - MOST_LINES + 1} more formulas"]
        read, level = quoted(self.read_out), "" if self.bias is None else f" + {quoted(self.bias)}"
        ends = [site - self.inputs + 1 for site in self.sites]
        out = f"f = {read} x{ends[0]}{level}"
        if len(ends) > 1:
            where = f"x{ends[0]}, ..., x{ends[-1]}" if len(ends) > MOST_LINES else ", ".join(f"x{k}" for k in ends)
            out = f"f = {read} x{level} at {where}"
        widths = [units for _, units in self.sizes[self.inputs :]]
        sizes = f"{len(widths)} hidden layer{'s' * (len(widths) > 1)} of {widths[0]} units"
        if len(set(widths)) > 1:
            each = [f"{len(list(group))} of {units}" for units, group in groupby(widths)]
            sizes = f"hidden layers: {', '.join(each[:MOST_LINES])}{' ...' * (len(each) > MOST_LINES)} units"
        trained = "all weights trained"
        if len(self.trained) < len(self.layouts):
            trained = f"trained: {', '.join(map(quoted, self.trained))}"
        outputs = f"{self.outputs} output{'s' * (self.outputs > 1)}"
        return f"the network {'; '.join([*lines, out])} ({sizes}, {outputs}, {trained})"
