"""PyTorch modules as networks, through `torch.export`: its graph is read, no code of ours runs the module."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wideproof.errors import InputError
from wideproof.networks.exchange.agreement import require_close
from wideproof.networks.exchange.model import Model
from wideproof.networks.exchange.program import Op, Program, before_end
from wideproof.networks.exchange.shapes import build
from wideproof.networks.exchange.torch_runs import as_array, exported, inside, outputs, require_torch


def from_torch(module: Any, example: Any, *, logits: bool = False) -> Model:
    """Read a feed-forward PyTorch module, as it is in `eval` mode.

    Weights keep PyTorch's names; parameters that need no gradient, and buffers, are fixed. The outputs for `example`
    must agree with the module's in float64, up to 1e-10 of the largest. The module itself is not changed.

    Parameters
    ----------
    module
        A `torch.nn.Module` of one input and one output.
    example
        Rows of inputs, as a tensor or an array.
    logits
        Leave out a Softmax, LogSoftmax or Sigmoid at the end.

    Returns
    -------
    Model
        The network with its weights.

    Examples
    --------
    >>> import torch  # doctest: +SKIP
    >>> module = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.GELU(), torch.nn.Linear(8, 1))  # doctest: +SKIP
    >>> print(from_torch(module, torch.zeros(3, 2)))  # doctest: +SKIP
    network of 1 hidden layer, 33 numbers in 0.weight, 0.bias, 2.weight, 2.bias
    """
    torch = require_torch()
    if not isinstance(module, torch.nn.Module):
        raise InputError(f"from_torch takes a torch.nn.Module, got {type(module).__name__}")
    rows = torch.as_tensor(np.asarray(as_array(example), np.float64))
    if rows.ndim not in (2, 3, 4) or 0 in rows.shape:
        raise InputError(f"an example has the shape (rows, features) or (rows, channels, ...), got {tuple(rows.shape)}")
    exact = copy.deepcopy(module).cpu().double().eval()
    theirs, graph = outputs(exact, rows), exported(exact, rows)
    program = _program(graph, exact, rows, logits)
    model = build(program)
    if program.output not in graph.graph_signature.user_outputs:
        theirs = inside(graph, rows, program.output)
    require_close(difference(theirs, model, rows), "the module in float64", "module")
    return model


def logits_of(module: Any, rows: Any) -> Any:
    """Return what a module gives before a Softmax, LogSoftmax or Sigmoid at its end."""
    graph = exported(module, rows)
    return inside(graph, rows, _program(graph, module, rows, logits=True).output)


def difference(theirs: Any, model: Model, rows: Any) -> float:
    """Return the largest difference between a module's outputs in float64 and a network's, over the largest output."""
    theirs = as_array(theirs).reshape(len(rows), -1)
    ours = np.asarray(model.network(model.params, as_array(rows)), np.float64).reshape(len(rows), -1)
    if ours.shape != theirs.shape or not np.isfinite(theirs).all() or not np.isfinite(ours).all():
        return math.inf
    return float(np.abs(ours - theirs).max() / (np.abs(theirs).max() or 1.0))


def _program(graph: Any, module: Any, rows: Any, logits: bool) -> Program:
    """Return the operators of an exported module."""
    tensors = {**graph.state_dict, **graph.constants}
    constants, inputs = {}, []
    names = {}
    for spec in graph.graph_signature.input_specs:
        if spec.target is None:
            inputs.append(spec.arg.name)
            continue
        array = as_array(tensors[spec.target])
        constants[spec.arg.name] = array.astype(np.int64 if array.dtype.kind in "iu" else np.float64)
        names[spec.arg.name] = spec.target
    found = graph.graph_signature.user_outputs
    if len(inputs) != 1 or len(found) != 1 or not isinstance(found[0], str):
        raise InputError(f"the module has {len(inputs)} inputs and {len(found)} outputs: one of each can be read")
    reader = _Reader(constants, names)
    for node in graph.graph.nodes:
        if node.op == "call_function":
            reader.read(node)
    for name, array in constants.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise InputError(f"the weight {names.get(name, name)!r} holds numbers that are not finite")
    trained = frozenset(key for key, value in module.named_parameters() if value.requires_grad)
    ops, notes = reader.ops, list[str]()
    wanted = before_end(ops, found[0], notes) if logits else found[0]
    return Program(inputs[0], wanted, tuple(rows.shape[1:]), len(rows), ops, constants, names, trained, notes)


def _owner(node: Any) -> tuple[str, str]:
    """Return the place and the class of the layer that an operator belongs to; no class where it is not PyTorch's."""
    *_, (place, kind) = [("", ""), *(node.meta.get("nn_module_stack") or {}).values()]
    known = str(kind).startswith("torch.nn.")
    return place or node.name, str(kind).rpartition(".")[2] if known else ""


class _Reader:
    """Writes PyTorch's operators in ONNX's words."""

    def __init__(self, constants: dict[str, np.ndarray], names: dict[str, str]) -> None:
        self.constants, self.names = constants, names
        self.ops: list[Op] = []
        self.splits: dict[str, tuple[Any, int, list[int]]] = {}

    def operand(self, value: Any, node: Any) -> str:
        """Return the name of an argument; numbers and lists become constants."""
        if value is None or isinstance(value, str):
            return value or ""
        if hasattr(value, "name") and hasattr(value, "op"):
            return value.name
        name = f"{node.name}/{len(self.constants)}"
        array = np.asarray(value)
        self.constants[name] = array if array.dtype.kind == "i" and array.ndim else array.astype(np.float64)
        return name

    def put(self, kind: str, node: Any, *inputs: Any, output: str | None = None, **options: Any) -> None:
        """Add an operator."""
        names = tuple(self.operand(value, node) for value in inputs)
        self.ops.append(Op(kind, names, output or node.name, _owner(node)[0], options))

    def read(self, node: Any) -> None:
        """Add what an operator of PyTorch is."""
        from wideproof.networks.exchange.torch_operators import OPERATORS

        schema = getattr(node.target, "_schema", None)
        kind = "getitem" if schema is None else schema.name.removeprefix("aten::")
        known = {} if schema is None else dict(zip((a.name for a in schema.arguments), node.args, strict=False))
        rule: Callable[..., None] | None = OPERATORS.get(kind)
        _, layer = _owner(node)
        if rule is None:
            self.put(layer or f"aten.{kind}", node, *self.values(node))
            return
        defaults = (
            {} if schema is None else {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
        )
        try:
            rule(self, node, **({**defaults, **known, **node.kwargs} if schema is not None else {"args": node.args}))
        except InputError as error:
            self.put("refused", node, *self.values(node), said=str(error))

    def values(self, node: Any) -> list[Any]:
        """Return the values that an operator reads."""
        flat = [part for a in node.args for part in (a if isinstance(a, list | tuple) else [a])]
        return [part for part in flat if hasattr(part, "op")]
