"""From operators to layers: a value stays a sum of terms until something needs it as a node."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from itertools import count as numbers

import numpy as np

from wideproof.errors import InputError
from wideproof.networks.activations import IDENTITY, Activation
from wideproof.networks.base import Gaussian, Law, Zeros
from wideproof.networks.described import Described
from wideproof.networks.exchange.model import Model
from wideproof.networks.exchange.program import Op, Program, shown
from wideproof.networks.graph import Graph, Node, Term, bias
from wideproof.networks.maps import FLAT, IDENTITY_MAP, Average, Identity, Patches, Select, Sizes

WIDEST_DIAGONAL = 4096
RESERVED = re.compile(r"x\d+|u\d*|f|k|[-.\d]+(e-?\d+)?")
"""What the verifier calls values and numbers, and no weight."""
MOST_FOLDED = 4
"""So many normalisations that are folded are named one by one."""
LINEAR = ("Gemm", "MatMul", "Conv")
TAIL = ("Add", "Sub", "Mul", "Div", "Neg", "Reshape", "Flatten", "Squeeze", "Unsqueeze")


def standard(shape: Sizes) -> np.ndarray:
    """Return for every entry of a shape, features before positions, its number in a node's value, where they come last.

    >>> standard((2, 3)).tolist()
    [[0, 2, 4], [1, 3, 5]]
    """
    features, places = shape[0] if shape else 1, math.prod(shape[1:])
    return np.arange(features * places).reshape(places, features).T.reshape(shape)


@dataclass(frozen=True, eq=False)
class Value:
    """A sum of terms that is not yet a node.

    Attributes
    ----------
    terms
        Terms of a node.
    shape
        The shape of one example in the file.
    own
        Nodes that only this value reads: they can still be changed.
    layout
        What the terms give, as (features, *grid); the shape itself where nothing is said.
    at
        Where an entry of the file is in what the terms give; `standard(shape)` where nothing is said.
    bare
        Whether there is no axis of rows before the shape.
    """

    terms: tuple[Term, ...]
    shape: Sizes
    own: frozenset[int] = frozenset()
    layout: Sizes | None = None
    at: np.ndarray | None = None
    bare: bool = False

    @property
    def inner(self) -> Sizes:
        """What the terms give, as (features, *grid)."""
        return self.shape if self.layout is None else self.layout

    @property
    def entries(self) -> np.ndarray:
        """Where an entry of the file is in what the terms give."""
        return standard(self.shape) if self.at is None else self.at

    @property
    def full(self) -> Sizes:
        """The shape in the file, with one row."""
        return self.shape if self.bare else (1, *self.shape)

    @property
    def features(self) -> int:
        """How many features there are at a position of what the terms give."""
        return self.inner[0] if self.inner else 1

    @property
    def plain(self) -> Term | None:
        """The one term without a weight that the value is: a node as it stands, as a vector, or some of its entries."""
        only = self.terms[0] if len(self.terms) == 1 else None
        if only is None or only.weight is not None:
            return None
        return only if only.map in (IDENTITY_MAP, FLAT) or isinstance(only.map, Select) else None

    @property
    def shifted(self) -> bool:
        """Whether there is a bias already."""
        return any(not term.moves for term in self.terms)

    def like(self, other: Value) -> bool:
        """Return whether two values lie alike, so that their terms can be added."""
        return self.full == other.full and self.inner == other.inner and np.array_equal(self.entries, other.entries)

    def now(self, *terms: Term, own: frozenset[int] = frozenset()) -> Value:
        """Return other terms that lie alike."""
        return replace(self, terms=terms, own=own)


def _shortest(times: np.ndarray, features: int) -> tuple[float, ...]:
    """Return the numbers once, where they are the same at every position, or all the same."""
    if (times == times[0]).all():
        return (float(times[0]),)
    rows = times.reshape(-1, features)
    return tuple((rows[0] if (rows == rows[0]).all() else times).tolist())


class Builder:
    """Collects nodes and weights while the operators of a program are read."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.uses = program.uses()
        self.nodes: list[Node] = []
        self.params: dict[str, np.ndarray] = {}
        self.laws: dict[str, Law] = {}
        self.fixed: set[str] = set()
        self.counts: dict[str, int] = {}
        self.notes = list(program.notes)
        self.folded: list[tuple[Op, str]] = []
        self.trained = program.trained
        self.called: dict[str, str] = {}
        self.shape = program.shape if len(program.shape) < 4 else (math.prod(program.shape),)
        self.sizes: list[Sizes] = []
        sole = frozenset({-1}) if self.uses[program.input] == 1 else frozenset[int]()
        self.known: dict[str, Value | np.ndarray] = {**program.constants}
        first = Value((Term(None, -1),), program.shape, sole, bare=program.bare)
        if len(program.shape) > 3:
            at = np.arange(math.prod(program.shape)).reshape(program.shape)
            first = replace(first, layout=self.shape, at=at, own=frozenset())
        self.known[program.input] = first
        self.single = program.bare or program.batch == 1
        self.tail = self._tail()

    def _tail(self) -> set[str]:
        makers, name, found = {op.output: op for op in self.program.ops}, self.program.output, set[str]()
        while self.uses[name] == 1 and name in makers and makers[name].kind in TAIL:
            moving = [part for part in makers[name].inputs if part and part not in self.program.constants]
            if len(moving) != 1:
                return set()
            found.add(name)
            name = moving[0]
        return found if name in makers and makers[name].kind in LINEAR and self.uses[name] == 1 else set()

    def seen(self, op: Op, at: int = 0) -> Value:
        """Return an input that depends on the network's input, as it lies."""
        found = self.known[op.inputs[at]]
        if not isinstance(found, Value):
            raise InputError(f"{op} takes a constant where the network's value is expected")
        return found if self.uses[op.inputs[at]] == 1 else replace(found, own=frozenset())

    def value(self, op: Op, at: int = 0) -> Value:
        """Return an input that depends on the network's input, features before positions, behind the axis of rows."""
        found = self.seen(op, at)
        if found.bare and len(found.shape) > 1 and found.shape[0] == 1:
            found = self.picked(found, np.arange(math.prod(found.shape)).reshape(found.shape))
        return self.laid(found)

    def constant(self, op: Op, at: int) -> np.ndarray | None:
        """Return an input that is a constant, or `None`."""
        name = op.inputs[at] if len(op.inputs) > at else ""
        found = self.known[name] if name else None
        return found if isinstance(found, np.ndarray) else None

    def keep(self, name: str, value: Value | np.ndarray) -> None:
        """Remember what an operator gave; what several operators read becomes a node, unless it is one."""
        if isinstance(value, Value) and self.uses[name] > 1 and value.plain is None:
            value = value.now(Term(None, self.settle(value)))
        self.known[name] = value

    def bared(self, value: Value) -> Value:
        """Return a value of one row without its axis of rows."""
        if value.bare or not self.single:
            return value
        return replace(value, shape=value.full, layout=value.inner, at=value.entries.reshape(value.full), bare=True)

    def add(self, node: Node, inner: Sizes) -> int:
        """Add a node that gives (features, *grid), and return its number."""
        self.nodes.append(node)
        self.sizes.append(inner)
        return len(self.nodes) - 1

    def settle(self, value: Value) -> int:
        """Return the node (or the input) that has what the terms give, made where there is none yet."""
        plain = [t.source for t in value.terms if t.weight is None and t.map == IDENTITY_MAP]
        if len(plain) == len(value.terms) == 1:
            return plain[0]
        if len(plain) == len(value.terms) == 2:
            other, last = sorted(plain)
            if other < last and last in value.own and self.nodes[last].skip is None:
                self.nodes[last] = replace(self.nodes[last], skip=other)
                return last
        return self.add(Node(value.terms), value.inner)

    def reading(self, value: Value) -> tuple[int, Identity]:
        """Return the node that a weight reads what the terms give from, and the map in between."""
        term = value.plain
        return (self.settle(value), IDENTITY_MAP) if term is None else (term.source, term.map)

    def selecting(self, value: Value, index: np.ndarray, inner: Sizes, times: np.ndarray | None = None) -> Term:
        """Return a term that reads what the terms give at these numbers, −1 for 0, times numbers."""
        source, phi = self.reading(value)
        given = self.shape if source < 0 else self.sizes[source]
        features, grid = (given[0] if given else 1), given[1:]
        before = np.arange(features * math.prod(grid)).reshape(-1, features)
        if isinstance(phi, Select):
            before, scale = phi.index, phi.times
        else:
            before, scale = (before.T if phi == FLAT else before).reshape(-1), None
        read = np.where(index < 0, -1, before[index])
        if scale is not None:
            times = scale[index] * (1 if times is None else times)
        size = inner[0] if inner else 1
        if times is None and not inner[1:] and np.array_equal(read, standard(given).reshape(-1)):
            return Term(None, source, FLAT if grid else IDENTITY_MAP)
        if times is None and (size, inner[1:]) == (features, grid) and np.array_equal(read, np.arange(len(read))):
            return Term(None, source)
        chosen = () if times is None else _shortest(times, size)
        return Term(None, source, Select(grid, features, inner[1:], size, read, chosen))

    def laid(self, value: Value) -> Value:
        """Return the value with features before positions."""
        if value.at is None:
            return value
        features = value.shape[0] if value.shape else 1
        index = value.at.reshape(features, -1).T.reshape(-1)
        own = value.own if len(value.terms) == 1 else frozenset[int]()
        return Value((self.selecting(value, index, value.shape),), value.shape, own, bare=value.bare)

    def picked(self, value: Value, pick: np.ndarray) -> Value:
        """Return entries of a value, by an array of their numbers in the file, −1 for 0, in the shape of one row."""
        bare = not pick.ndim or pick.shape[0] != 1
        shape = pick.shape if bare else pick.shape[1:]
        new = np.where(pick < 0, -1, value.entries.reshape(-1)[pick]).reshape(shape)
        count = math.prod(value.inner)
        if new.size == count and np.array_equal(np.sort(new, axis=None), np.arange(count)):
            if value.inner == shape and np.array_equal(new, standard(shape)):
                return Value(value.terms, shape, value.own, bare=bare)
            return Value(value.terms, shape, value.own, value.inner, new, bare)
        features = shape[0] if shape else 1
        index = new.reshape(features, -1).T.reshape(-1)
        return Value((self.selecting(value, index, shape),), shape, bare=bare)

    def table(self, value: Value, array: np.ndarray, op: Op) -> np.ndarray:
        """Return a constant that meets a value as one number for each entry of what the terms give."""
        try:
            whole = np.broadcast_to(array, value.full)
        except ValueError:
            said = ("N", *value.shape) if not value.bare else value.shape
            raise InputError(f"{op} combines a constant of shape {array.shape} with a value of shape {said}") from None
        found = np.empty(whole.size)
        found[value.entries.reshape(-1)] = whole.reshape(-1)
        return found.reshape(-1, value.features)

    def widened(self, value: Value, full: Sizes) -> Value:
        """Return the value repeated to a shape in full, as NumPy repeats what is added to something larger."""
        full = np.broadcast_shapes(full, value.full)
        if full == value.full:
            return value
        return self.picked(value, np.broadcast_to(np.arange(math.prod(value.shape)).reshape(value.full), full))

    def activated(self, value: Value, activation: Activation, scale: float = 1.0) -> Value:
        """Return an activation of the value, times a number."""
        k = self.add(Node(value.terms, activation, scale), value.inner)
        return value.now(Term(None, k), own=frozenset({k}))

    def scaled(self, value: Value, factor: float, op: Op) -> Value:
        """Return a multiple of the value."""
        if not math.isfinite(factor):
            raise InputError(f"{op} multiplies by {factor}")
        if factor == 1:
            return value
        if factor < 0 or op.output in self.tail:
            return self.multiplied(value, np.full((1, value.features), factor), op)
        term = value.plain
        if term is not None and term.source >= 0 and term.source in value.own and self.nodes[term.source].skip is None:
            node = self.nodes[term.source]
            self.nodes[term.source] = replace(node, scale=node.scale * factor)
            return value
        return self.activated(value, IDENTITY, factor)

    def multiplied(self, value: Value, factors: np.ndarray, op: Op) -> Value:
        """Return the value with every entry multiplied by a number of its own, which stays fixed.

        A number for each feature is a diagonal matrix; where that is large, or positions differ, a selection of all.
        """
        if not np.isfinite(factors).all():
            raise InputError(f"{op} multiplies by numbers that are not finite")
        if value.features > WIDEST_DIAGONAL or np.ptp(factors, axis=0).any():
            count = math.prod(value.inner)
            times = np.broadcast_to(factors, (count // value.features, value.features)).reshape(-1)
            return value.now(self.selecting(value, np.arange(count), value.inner, times))
        shift, row = self._free(value), factors[0]
        if shift is not None:
            value = value.now(value.terms[0])
        source, phi = self.reading(value)
        term = Term(self.fix(np.diag(row), op), source, phi)
        return value.now(term, *([] if shift is None else [bias(self.fix(row * shift, op))]))

    def _free(self, value: Value) -> np.ndarray | None:
        """Take a fixed shift off a value that is an earlier one with nothing but this shift."""
        if len(value.terms) != 2 or value.now(value.terms[0]).plain is None:
            return None
        name = value.terms[1].weight
        if name not in self.fixed or value.terms[1].moves:
            return None
        self.fixed.remove(name)
        return self.params.pop(name)

    def shift(self, value: Value, by: np.ndarray, op: Op, name: str = "") -> Value:
        """Return the value plus a constant: a bias behind a layer of weights, else a fixed shift.

        Where positions differ, the shift is that of one long vector.
        """
        if not np.isfinite(by).all():
            raise InputError(f"{op} adds numbers that are not finite")
        if np.ptp(by, axis=0).any():
            index = standard(value.inner).reshape(-1)
            term = self.selecting(value, index, (index.size,))
            place = np.empty_like(index)
            place[index] = np.arange(index.size)
            value = replace(value, terms=(term,), layout=(index.size,), at=place[value.entries], own=frozenset())
            return value.now(term, bias(self.fix(by.reshape(-1)[index], op)))
        if value.shifted and op.output in self.tail:
            value = self.multiplied(value, np.ones((1, value.features)), op)
        layer = any(t.weight is not None and t.moves and t.weight not in self.fixed for t in value.terms)
        own = (layer and not value.shifted) or self.program.names.get(name, name) in (self.program.trained or ())
        weight = self.weight(name, by[0], op) if name and own else self.fix(by[0], op)
        return value.now(*value.terms, bias(weight))

    def pooled(self, value: Value, phi: Average) -> Value:
        """Return averages over windows."""
        return Value((Term(None, self.settle(value), phi),), (value.features, *phi.out))

    def dense(self, value: Value, rows: np.ndarray, name: str, op: Op, fixed: bool = False) -> Value:
        """Return a matrix, one row per unit, times the first axis of a value that is laid."""
        features = value.shape[0] if value.shape else 1
        if rows.ndim != 2 or rows.shape[1] != features:
            raise InputError(
                f"{op} multiplies a value of shape {('N', *value.shape)} by a matrix with {rows.shape[-1]} columns"
            )
        source, phi = self.reading(value)
        used = self.fix(rows, op) if fixed else self.weight(name, rows, op)
        return Value((Term(used, source, phi),), (rows.shape[0], *value.shape[1:]), bare=value.bare)

    def convolved(self, value: Value, kernel: np.ndarray, name: str, phi: Patches, op: Op) -> Value:
        """Return a convolution."""
        term = Term(self.weight(name, kernel, op), self.settle(value), phi)
        return Value((term,), (kernel.shape[0], *phi.out))

    def weight(self, name: str, array: np.ndarray, op: Op) -> str:
        """Register a use of a weight and return its name."""
        name = self._called(self.program.names.get(name, name))
        exact = np.array(array, np.float64, order="C")
        if exact.ndim == 0 or not exact.size or not np.isfinite(exact).all():
            raise InputError(f"the weight {name!r} of {op} is {'not finite' if exact.size else 'empty'}")
        before = self.params.setdefault(name, exact)
        if before is not exact and not np.array_equal(before, exact):
            raise InputError(
                f"the weight {name!r} of {op} is used a second time in another layout: give each layer its own weight"
            )
        self.counts[name] = self.counts.get(name, 0) + 1
        self.laws[name] = Zeros(exact.shape) if exact.ndim == 1 else Gaussian(exact.shape, 1 / exact[0].size)
        return name

    def _called(self, name: str) -> str:
        """Return a name as certificates can have it: "12", "x1" or "a b" are not names of weights there."""
        if name not in self.called:
            plain = re.sub(r"[^!-~]|[,;()\[\]{}+=*]", "_", name)[:100]
            taken = {*self.called.values(), *self.program.constants, *self.program.names.values()} - {name}
            start = plain if plain and not RESERVED.fullmatch(plain) else f"weight_{plain}"
            self.called[name] = next(n for k in numbers() if (n := f"{start}_{k}" if k else start) not in taken)
            if self.called[name] != name:
                self.notes.append(f"the weight {shown(name)!r} is called {self.called[name]!r} here")
        return self.called[name]

    def fix(self, array: np.ndarray, op: Op) -> str:
        """Register numbers that are not trained and return their name."""
        taken = {*self.program.constants, *self.program.names.values(), *self.params}
        name = next(f"fixed{k}" for k in range(1, len(taken) + 2) if f"fixed{k}" not in taken)
        self.fixed.add(name)
        return self.weight(name, array, op)

    def finish(self) -> Model:
        """Return the network whose outputs are the program's output."""
        value = self.known[self.program.output]
        if not isinstance(value, Value):
            raise InputError(f"the output {self.program.output!r} does not depend on the input")
        moving = [term for term in value.terms if term.moves]
        shifts = [term.weight for term in value.terms if not term.moves]
        (term, *others), own = moving, {term.weight for term in moving} - self.fixed - {None}
        plain = len(value.inner) < 2 and np.array_equal(value.entries.reshape(-1), np.arange(math.prod(value.inner)))
        linear = not others and len(shifts) < 2 and plain and not isinstance(term.map, Patches)
        once = all(self.counts[name or ""] == 1 for name in (term.weight, *shifts) if name)
        if linear and once and (own or (self.tail and term.weight)):
            read_out, level, site = term.weight or "", shifts[0] if shifts else None, term.source
            if site < 0 or isinstance(term.map, Select):
                site = self.add(Node((replace(term, weight=None),)), self._read(term))
        else:
            site, read_out, level = *self._as_it_is(value), None
        trained = None if self.trained is None else {self.called.get(name, name) for name in self.trained}
        chosen = tuple(n for n in self.params if n not in self.fixed and (trained is None or n in trained))
        if not chosen:
            raise InputError("the network has no layer of weights that could be trained")
        graph = Graph(self.shape, tuple(self.nodes), read_out, (site,), self.params[read_out].shape[0], chosen, level)
        order = graph.weights
        network = Described(graph, tuple((name, self.laws[name]) for name in order))
        notes = (*self._said_of_folded(), *self.notes)
        return Model(network, {name: self.params[name] for name in order}, notes, self.program.output)

    def _said_of_folded(self) -> list[str]:
        """Say which normalisations are multiplied into weights: each, or where they are many how many."""
        if len(self.folded) <= MOST_FOLDED:
            return [f"{op} is folded into {names}: a weight here is the product of both" for op, names in self.folded]
        (first, into), (last, end) = self.folded[0], self.folded[-1]
        return [
            f"{len(self.folded)} layers of {first.kind} are folded into the weights before them, from {first.name!r} "
            f"into {into} to {last.name!r} into {end}: a weight here is the product of both"
        ]

    def _read(self, term: Term) -> Sizes:
        given = self.shape if term.source < 0 else self.sizes[term.source]
        return (term.map.features, *term.map.out) if isinstance(term.map, Select) else given

    def _as_it_is(self, value: Value) -> tuple[int, str]:
        """Return a node that is the output, and a read-out that is the identity and stays fixed."""
        count = math.prod(value.shape)
        maker = next((op for op in self.program.ops if op.output == self.program.output), None)
        if maker is None or count > WIDEST_DIAGONAL:
            raise InputError(
                f"the network has {count} outputs, and does not end in a fully-connected layer: at most "
                f"{WIDEST_DIAGONAL} outputs can be read as they are; choose another output with `output` of from_onnx"
            )
        laid = self.laid(value)
        site = self.settle(laid)
        if site < 0:
            site = self.add(Node((Term(None, site),)), laid.inner)
        self.notes.append(f"the outputs are {maker} as it is: what reads them is the identity, which stays fixed")
        return site, self.fix(np.eye(count), maker)
