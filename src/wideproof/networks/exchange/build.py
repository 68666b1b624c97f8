"""From operators to layers: a value stays a sum of terms until something needs it as a node."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np

from wideproof.errors import InputError
from wideproof.networks.activations import IDENTITY, Activation
from wideproof.networks.base import Gaussian, Law, Zeros
from wideproof.networks.described import Described
from wideproof.networks.exchange.model import Model
from wideproof.networks.exchange.program import Op, Program
from wideproof.networks.graph import Graph, Node, Term, bias
from wideproof.networks.maps import FLAT, IDENTITY_MAP, Average, Identity, Patches, Sizes

WIDEST_DIAGONAL = 4096
LINEAR = ("Gemm", "MatMul", "Conv")
TAIL = ("Add", "Sub", "Mul", "Div", "Neg", "Reshape", "Flatten", "Squeeze", "Unsqueeze")


@dataclass(frozen=True)
class Value:
    """A sum of terms that is not yet a node.

    `shape` is that of one example in the file. `own` are nodes that only this value reads: they can still be changed.
    """

    terms: tuple[Term, ...]
    shape: Sizes
    own: frozenset[int] = frozenset()

    @property
    def features(self) -> int:
        """How many features there are at a position."""
        return self.shape[0] if self.shape else 1

    @property
    def plain(self) -> Term | None:
        """The one term without a weight that the value is, read as it stands or as one vector."""
        only = self.terms[0] if len(self.terms) == 1 else None
        return only if only is not None and only.weight is None and only.map in (IDENTITY_MAP, FLAT) else None

    @property
    def shifted(self) -> bool:
        """Whether there is a bias already."""
        return any(not term.moves for term in self.terms)


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
        self.shape = program.shape
        sole = frozenset({-1}) if self.uses[program.input] == 1 else frozenset[int]()
        self.known: dict[str, Value | np.ndarray] = {**program.constants}
        self.known[program.input] = Value((Term(None, -1),), program.shape, sole)
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

    def value(self, op: Op, at: int = 0) -> Value:
        """Return an input that depends on the network's input."""
        found = self.known[op.inputs[at]]
        if not isinstance(found, Value):
            raise InputError(f"{op} takes a constant where the network's value is expected")
        return found if self.uses[op.inputs[at]] == 1 else replace(found, own=frozenset())

    def constant(self, op: Op, at: int) -> np.ndarray | None:
        """Return an input that is a constant, or `None`."""
        name = op.inputs[at] if len(op.inputs) > at else ""
        found = self.known[name] if name else None
        return found if isinstance(found, np.ndarray) else None

    def keep(self, name: str, value: Value | np.ndarray) -> None:
        """Remember what an operator gave; what several operators read becomes a node, unless it is one."""
        if isinstance(value, Value) and self.uses[name] > 1 and value.plain is None:
            value = Value((Term(None, self.settle(value)),), value.shape)
        self.known[name] = value

    def add(self, node: Node) -> int:
        """Add a node and return its number."""
        self.nodes.append(node)
        return len(self.nodes) - 1

    def settle(self, value: Value) -> int:
        """Return the node (or the input) that has this value, made where there is none yet."""
        plain = [t.source for t in value.terms if t.weight is None and t.map == IDENTITY_MAP]
        if len(plain) == len(value.terms) == 1:
            return plain[0]
        if len(plain) == len(value.terms) == 2:
            other, last = sorted(plain)
            if other < last and last in value.own and self.nodes[last].skip is None:
                self.nodes[last] = replace(self.nodes[last], skip=other)
                return last
        return self.add(Node(value.terms))

    def reading(self, value: Value) -> tuple[int, Identity]:
        """Return the node that a weight reads the value from, and the map in between."""
        term = value.plain
        return (self.settle(value), IDENTITY_MAP) if term is None else (term.source, term.map)

    def activated(self, value: Value, activation: Activation) -> Value:
        """Return an activation of the value."""
        k = self.add(Node(value.terms, activation))
        return Value((Term(None, k),), value.shape, frozenset({k}))

    def scaled(self, value: Value, factor: float, op: Op) -> Value:
        """Return a multiple of the value."""
        if not math.isfinite(factor):
            raise InputError(f"{op} multiplies by {factor}")
        if factor == 1:
            return value
        if factor < 0 or op.output in self.tail:
            return self.multiplied(value, np.full(value.features, factor), op)
        term = value.plain
        if term is not None and term.source >= 0 and term.source in value.own and self.nodes[term.source].skip is None:
            node = self.nodes[term.source]
            self.nodes[term.source] = replace(node, scale=node.scale * factor)
            return value
        k = self.add(Node(value.terms, IDENTITY, factor))
        return Value((Term(None, k),), value.shape, frozenset({k}))

    def multiplied(self, value: Value, factors: np.ndarray, op: Op) -> Value:
        """Return the value with every feature multiplied by a number of its own, which stays fixed."""
        if value.features > WIDEST_DIAGONAL:
            raise InputError(
                f"{op} multiplies {value.features} features by a number each, which needs a matrix with as many rows "
                f"and columns: at most {WIDEST_DIAGONAL} are possible; scale the data instead"
            )
        shift = self._free(value)
        if shift is not None:
            value = Value(value.terms[:1], value.shape)
        source, phi = self.reading(value)
        term = Term(self.fix(np.diag(factors), op), source, phi)
        return Value((term, *([] if shift is None else [bias(self.fix(factors * shift, op))])), value.shape)

    def _free(self, value: Value) -> np.ndarray | None:
        """Take a fixed shift off a value that is an earlier one with nothing but this shift."""
        if len(value.terms) != 2 or replace(value, terms=value.terms[:1]).plain is None:
            return None
        name = value.terms[1].weight
        if name not in self.fixed or value.terms[1].moves:
            return None
        self.fixed.remove(name)
        return self.params.pop(name)

    def shift(self, value: Value, by: np.ndarray, op: Op, name: str = "") -> Value:
        """Return the value plus a number for each feature: a bias behind a layer of weights, else a fixed shift."""
        if value.shifted and op.output in self.tail:
            value = self.multiplied(value, np.ones(value.features), op)
        layer = any(t.weight is not None and t.moves and t.weight not in self.fixed for t in value.terms)
        own = (layer and not value.shifted) or self.program.names.get(name, name) in (self.program.trained or ())
        weight = self.weight(name, by, op) if name and own else self.fix(by, op)
        return replace(value, terms=(*value.terms, bias(weight)), own=frozenset())

    def pooled(self, value: Value, phi: Average) -> Value:
        """Return averages over windows."""
        return Value((Term(None, self.settle(value), phi),), (value.features, *phi.out))

    def flat(self, value: Value) -> Value:
        """Return the value as one vector."""
        if len(value.shape) == 1:
            return value
        if not value.shape:
            return replace(value, shape=(1,))
        k = self.settle(value)
        return Value((Term(None, k, FLAT),), (math.prod(value.shape),), value.own & {k})

    def dense(self, value: Value, rows: np.ndarray, name: str, op: Op) -> Value:
        """Return a matrix, one row per unit, times a vector."""
        if len(value.shape) != 1 or rows.ndim != 2 or rows.shape[1] != value.shape[0]:
            raise InputError(
                f"{op} multiplies a value of shape {('N', *value.shape)} by a matrix with {rows.shape[-1]} columns: "
                "flatten the value to (N, features) before it"
            )
        source, phi = self.reading(value)
        return Value((Term(self.weight(name, rows, op), source, phi),), (rows.shape[0],))

    def convolved(self, value: Value, kernel: np.ndarray, name: str, phi: Patches, op: Op) -> Value:
        """Return a convolution."""
        term = Term(self.weight(name, kernel, op), self.settle(value), phi)
        return Value((term,), (kernel.shape[0], *phi.out))

    def weight(self, name: str, array: np.ndarray, op: Op) -> str:
        """Register a use of a weight and return its name."""
        name = self.program.names.get(name, name)
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
        if len(moving) != 1 or len(shifts) > 1 or len(value.shape) > 1:
            _refuse_end(self.program, "a sum of several values" if len(value.shape) < 2 else "not one vector per row")
        (term,) = moving
        if term.weight is None or isinstance(term.map, Patches) or (term.weight in self.fixed and not self.tail):
            _refuse_end(self.program, "not a layer of weights")
        site = term.source if term.source >= 0 else self.add(Node((replace(term, weight=None),)))
        trained = self.program.trained
        graph = Graph(
            self.shape, tuple(self.nodes), term.weight, (site,), self.params[term.weight].shape[0],
            tuple(n for n in self.params if n not in self.fixed and (trained is None or n in trained)),
            shifts[0] if shifts else None,
        )  # fmt: skip
        order = graph.weights
        network = Described(graph, tuple((name, self.laws[name]) for name in order))
        return Model(network, {name: self.params[name] for name in order}, tuple(self.notes), self.program.output)


def _refuse_end(program: Program, what: str) -> NoReturn:
    maker = next((str(op) for op in program.ops if op.output == program.output), "the input")
    raise InputError(
        f"the network must end in a linear layer that reads one value; its output {program.output!r} comes from "
        f"{maker} and is {what}: end it at its last linear layer, which `output` of from_onnx can name"
    )
