"""Networks as ONNX files."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wideproof.errors import InputError
from wideproof.networks.base import Network
from wideproof.networks.exchange.onnx_file import require_onnx
from wideproof.networks.exchange.onnx_program import TRAINED
from wideproof.networks.graph import Graph, Node, Term
from wideproof.networks.maps import Average, Flat, Identity, Ones, Patches, Select, Sizes
from wideproof.storage import write_bytes

OPSET, IR_VERSION, DOUBLE = 20, 9, 11
OPERATORS = {
    "relu": "Relu", "relu_closed": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "softplus": "Softplus", "erf": "Erf",
    "arctan": "Atan", "sin": "Sin", "mish": "Mish", "elu": "Elu", "softsign": "Softsign",
}  # fmt: skip


def to_onnx(network: Network, params: Mapping[str, Any], path: str | Path) -> None:
    """Write a feed-forward network with its weights, in float64; `path` is written whole or not at all.

    Weights have one row per unit and keep their names. Which of them are trained is written too, for `from_onnx`.

    Parameters
    ----------
    network
        The network.
    params
        Its weights, by name.
    path
        The file to write.

    Examples
    --------
    >>> import tempfile, onnx
    >>> from wideproof.networks import FullyConnected
    >>> from wideproof.networks.exchange import to_onnx
    >>> network = FullyConnected(input_dim=3, width=8, depth=2, activation="tanh")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     to_onnx(network, network.init(0), f"{folder}/model.onnx")
    ...     [node.op_type for node in onnx.load(f"{folder}/model.onnx").graph.node]
    ['Gemm', 'Tanh', 'Mul', 'Gemm', 'Tanh', 'Mul', 'Gemm']
    """
    onnx = require_onnx()
    graph = network.graph.unrolled
    if graph.times:
        raise InputError(f"{network.name} is recurrent: only feed-forward networks can be written as ONNX")
    missing = [name for name in graph.weights if name not in params]
    if missing:
        raise InputError(f"the weights {', '.join(missing)} of the network are not in `params`")
    writer = _Writer(graph, {name: graph.matrix(params, name) for name in graph.weights}, onnx)
    for k, node in enumerate(graph.layers):
        writer.layer(k, node)
    output = writer.read_out()
    info = onnx.helper.make_tensor_value_info
    made = onnx.helper.make_graph(
        writer.nodes, network.name, [info(writer.values[-1], DOUBLE, ["N", *graph.shape])],
        [info(output, DOUBLE, ["N", graph.outputs])],
        [onnx.numpy_helper.from_array(array, name) for name, array in writer.tensors.items()],
    )  # fmt: skip
    model = onnx.helper.make_model(
        made, opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="wideproof"
    )
    onnx.helper.set_model_props(model, {TRAINED: json.dumps(list(network.trained_names))})
    write_bytes(Path(path), model.SerializeToString())


class _Writer:
    """Collects operators and weights."""

    def __init__(self, graph: Graph, weights: Mapping[str, np.ndarray], onnx: Any) -> None:
        self.graph, self.weights, self.onnx = graph, weights, onnx
        self.nodes: list[Any] = []
        self.tensors: dict[str, np.ndarray] = {}
        self.taken = set(weights)
        self.values = {-1: self.name("x")}
        self.features = {-1: graph.shape[0]}

    def name(self, stem: str) -> str:
        """Return a name that nothing else has."""
        found = next(n for k in range(len(self.taken) + 1) if (n := f"{stem}_{k}" if k else stem) not in self.taken)
        self.taken.add(found)
        return found

    def put(self, kind: str, inputs: list[str], stem: str, **options: Any) -> str:
        """Add an operator and return the name of what it gives."""
        output = self.name(stem)
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [output], name=output, **options))
        return output

    def tensor(self, name: str, array: np.ndarray) -> str:
        """Add a weight, in one shape for all its uses."""
        before = self.tensors.setdefault(name, np.asarray(array, order="C"))
        if before.shape != array.shape:
            raise InputError(f"the weight {name!r} is used in two shapes, which one ONNX weight cannot have")
        return name

    def number(self, value: float) -> str:
        """Add a constant."""
        return self.tensor(self.name("number"), np.asarray(value, np.float64))

    def layer(self, k: int, node: Node) -> None:
        """Add the operators of a node."""
        stem, grid = f"layer{k + 1}", self.graph.grids[k]
        shifts = [term.weight for term in node.terms if isinstance(term.map, Ones) and term.weight is not None]
        total = ""
        for term in (t for t in node.terms if t.moves):
            takes = [shifts.pop(0)] if shifts and term.weight is not None else []
            part = self.term(term, takes, stem, grid)
            self.features[k] = len(self.weights[term.weight]) if term.weight else self._through(term)
            total = part if not total else self.put("Add", [total, part], stem)
        for name in shifts:
            column = self.weights[name].reshape(-1, *(1,) * len(grid))
            total = self.put("Add", [total, self.tensor(name, column)], stem)
        total = self.activate(node.activation.name, total, stem)
        if node.scale != 1:
            total = self.put("Mul", [total, self.number(node.scale)], stem)
        if node.skip is not None:
            total = self.put("Add", [self.values[node.skip], total], stem)
        self.values[k] = total

    def _through(self, term: Term) -> int:
        """Return how many features come out of a term without a weight."""
        if isinstance(term.map, Select):
            return term.map.features
        grid = self.graph.grids[term.source]
        return self.features[term.source] * (int(np.prod(grid)) if isinstance(term.map, Flat) else 1)

    def term(self, term: Term, shift: list[str], stem: str, grid: Sizes) -> str:
        """Add a weight's use, or that of a map alone."""
        x = self.mapped(term.map, term.source, term.weight is not None, stem)
        if term.weight is None:
            return x
        matrix = self.weights[term.weight]
        biases = [self.tensor(name, self.weights[name].reshape(-1)) for name in shift]
        if not grid:
            return self.put("Gemm", [x, self.tensor(term.weight, matrix), *biases], stem, transB=1)
        phi = term.map if isinstance(term.map, Patches) and not isinstance(term.map, Average) else None
        size = (1,) * len(grid) if phi is None else phi.size
        kernel = self.tensor(term.weight, matrix.reshape(len(matrix), -1, *size))
        options = {} if phi is None else _window(phi)
        return self.put("Conv", [x, kernel, *biases], stem, **options)

    def mapped(self, phi: Identity, source: int, weighted: bool, stem: str) -> str:
        """Add what happens before a weight meets a value."""
        x = self.values[source]
        if isinstance(phi, Average):
            return self.put("AveragePool", [x], stem, count_include_pad=1, kernel_shape=phi.size, **_window(phi))
        if isinstance(phi, Select):
            return self.selected(phi, x, stem)
        if isinstance(phi, Patches) and not weighted:
            raise InputError("the network gathers windows without a weight, which ONNX has no operator for")
        return self.put("Flatten", [x], stem) if isinstance(phi, Flat) and self.graph.grids[source] else x

    def selected(self, phi: Select, x: str, stem: str) -> str:
        """Add a selection: entries of one long vector by their numbers, the last of which is a zero."""
        places, flat = math.prod(phi.positions), self.put("Flatten", [x], stem) if phi.positions else x
        zero = phi.index < 0
        if zero.any():
            pads = self.tensor(self.name("pads"), np.array([0, 0, 0, 1], np.int64))
            flat = self.put("Pad", [flat, pads], stem)
        here = np.where(zero, phi.entries, phi.index % phi.inputs * places + phi.index // phi.inputs)
        order = here.reshape(-1, phi.features).T.reshape(-1)
        found = self.put("Gather", [flat, self.tensor(self.name("order"), order)], stem, axis=1)
        if phi.times is not None:
            times = phi.times.reshape(-1, phi.features).T.reshape(-1)
            found = self.put("Mul", [found, self.tensor(self.name("times"), times)], stem)
        if not phi.out:
            return found
        shape = self.tensor(self.name("shape"), np.array([-1, phi.features, *phi.out], np.int64))
        return self.put("Reshape", [found, shape], stem)

    def activate(self, name: str, x: str, stem: str) -> str:
        """Add an activation."""
        if name == "identity":
            return x
        if name == "swish":
            return self.put("Mul", [x, self.put("Sigmoid", [x], stem)], stem)
        if name == "gelu_tanh":
            return self.put("Gelu", [x], stem, approximate="tanh")
        if name == "ramp":
            return self.ramp(x, stem)
        if name == "gelu":
            root = self.put("Div", [x, self.number(np.sqrt(2.0))], stem)
            gate = self.put("Add", [self.put("Erf", [root], stem), self.number(1.0)], stem)
            return self.put("Mul", [self.put("Mul", [x, gate], stem), self.number(0.5)], stem)
        if name not in OPERATORS:
            raise InputError(f"ONNX has no operator for the activation {name!r}: {', '.join(OPERATORS)} have one")
        return self.put(OPERATORS[name], [x], stem)

    def ramp(self, x: str, stem: str) -> str:
        """Add the ramp: (hardswish(y) + relu(y + 3)/2 + relu(y - 3)/2) / 6 of y = 3 x."""
        y = self.put("Mul", [x, self.number(3.0)], stem)
        sides = [self.put("Relu", [self.put("Add", [y, self.number(c)], stem)], stem) for c in (3.0, -3.0)]
        kinks = self.put("Mul", [self.put("Add", sides, stem), self.number(0.5)], stem)
        both = self.put("Add", [self.put("HardSwish", [y], stem), kinks], stem)
        return self.put("Mul", [both, self.number(1 / 6)], stem)

    def read_out(self) -> str:
        """Add the read-out."""
        g = self.graph
        x = self.mapped(Flat(), g.sites[0], True, "read_out")
        bias = [] if g.bias is None else [self.tensor(g.bias, self.weights[g.bias].reshape(-1))]
        return self.put("Gemm", [x, self.tensor(g.read_out, self.weights[g.read_out]), *bias], "outputs", transB=1)


def _window(phi: Patches) -> dict[str, Any]:
    before, after = zip(*phi.padding, strict=True)
    apart = {"dilations": phi.dilation} if phi.dilation else {}
    return {"strides": phi.stride, "pads": (*before, *after), **apart}
