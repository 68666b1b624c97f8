"""PyTorch modules as networks, through `torch.export`: its graph is read, no code of ours runs the module."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from wideproof.errors import InputError
from wideproof.networks.exchange.agreement import require_close
from wideproof.networks.exchange.model import Model
from wideproof.networks.exchange.program import Op, Program
from wideproof.networks.exchange.shapes import build


def from_torch(module: Any, example: Any) -> Model:
    """Read a feed-forward PyTorch module, as it is in `eval` mode.

    Weights keep PyTorch's names; parameters that need no gradient, and buffers, are fixed. The outputs for `example`
    must agree with the module's in float64, up to 1e-10 of the largest. The module itself is not changed.

    Parameters
    ----------
    module
        A `torch.nn.Module` of one input and one output.
    example
        Rows of inputs, as a tensor or an array.

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
    rows = torch.as_tensor(np.asarray(_plain(example), np.float64))
    if rows.ndim not in (2, 3, 4) or 0 in rows.shape:
        raise InputError(f"an example has the shape (rows, features) or (rows, channels, ...), got {tuple(rows.shape)}")
    exact = copy.deepcopy(module).cpu().double().eval()
    model = build(_program(exact, rows))
    require_close(difference(exact, model, rows), "the module in float64", "module")
    return model


def require_torch() -> Any:
    """Return the package `torch`, or say how to get it."""
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise InputError("PyTorch modules need the package torch: pip install torch") from None
    return torch


def difference(module: Any, model: Model, rows: Any) -> float:
    """Return the largest difference between a module in float64 and a network, over the largest output."""
    torch = require_torch()
    with torch.no_grad():
        theirs = _plain(module(rows)).reshape(len(rows), -1)
    ours = np.asarray(model.network(model.params, _plain(rows)), np.float64).reshape(len(rows), -1)
    if ours.shape != theirs.shape or not np.isfinite(theirs).all() or not np.isfinite(ours).all():
        return math.inf
    return float(np.abs(ours - theirs).max() / (np.abs(theirs).max() or 1.0))


def _plain(value: Any) -> np.ndarray:
    return value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)


def _program(module: Any, rows: Any) -> Program:
    torch = require_torch()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exported = torch.export.export(module, (rows,)).run_decompositions({})
    except Exception as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"torch.export cannot export the module: {first}") from error
    tensors = {**exported.state_dict, **exported.constants}
    constants, inputs = {}, []
    names = {}
    for spec in exported.graph_signature.input_specs:
        if spec.target is None:
            inputs.append(spec.arg.name)
            continue
        array = _plain(tensors[spec.target])
        constants[spec.arg.name] = array.astype(np.int64 if array.dtype.kind in "iu" else np.float64)
        names[spec.arg.name] = spec.target
    outputs = exported.graph_signature.user_outputs
    if len(inputs) != 1 or len(outputs) != 1 or not isinstance(outputs[0], str):
        raise InputError(f"the module has {len(inputs)} inputs and {len(outputs)} outputs: one of each can be read")
    reader = _Reader(constants, names)
    for node in exported.graph.nodes:
        if node.op == "call_function":
            reader.read(node)
    for name, array in constants.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise InputError(f"the weight {names.get(name, name)!r} holds numbers that are not finite")
    wanted = {key for key, value in module.named_parameters() if value.requires_grad}
    ops = reader.ops
    return Program(inputs[0], outputs[0], tuple(rows.shape[1:]), len(rows), ops, constants, names, frozenset(wanted))


class _Reader:
    """Writes PyTorch's operators in ONNX's words."""

    def __init__(self, constants: dict[str, np.ndarray], names: dict[str, str]) -> None:
        self.constants, self.names = constants, names
        self.ops: list[Op] = []

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
        self.ops.append(Op(kind, names, output or node.name, node.name, options))

    def read(self, node: Any) -> None:
        """Add what an operator of PyTorch is."""
        from wideproof.networks.exchange.torch_operators import OPERATORS

        schema = getattr(node.target, "_schema", None)
        kind = "getitem" if schema is None else schema.name.removeprefix("aten::")
        known = {} if schema is None else dict(zip((a.name for a in schema.arguments), node.args, strict=False))
        rule: Callable[..., None] | None = OPERATORS.get(kind)
        if rule is None:
            self.put(f"aten.{kind}", node, *(a for a in node.args if hasattr(a, "op")))
            return
        defaults = (
            {} if schema is None else {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
        )
        rule(self, node, **({**defaults, **known, **node.kwargs} if schema is not None else {"args": node.args}))
