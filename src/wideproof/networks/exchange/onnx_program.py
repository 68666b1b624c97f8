"""The operators of an ONNX model, up to the output that is wanted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from wideproof.errors import InputError
from wideproof.networks.exchange.onnx_file import to_array
from wideproof.networks.exchange.program import Op, Program, before_end, live, shown

OLDEST = 7
FLOATS = (1, 10, 11)
STANDARD = ("", "ai.onnx")
LABELS = ("ArgMax", "ai.onnx.ml.ZipMap", "ai.onnx.ml.ArrayFeatureExtractor", "ai.onnx.ml.LabelEncoder")
TRAINED = "wideproof.trained"


def to_program(proto: Any, folder: Path | None, output: str | None, logits: bool) -> Program:
    """Return the operators of a model up to the output that is wanted."""
    graph = proto.graph
    versions = {entry.domain: entry.version for entry in proto.opset_import}
    version = max((versions[domain] for domain in STANDARD if domain in versions), default=0)
    if version < OLDEST:
        raise InputError(f"the model uses version {version} of ONNX's operators: convert it to {OLDEST} or later")
    if proto.functions:
        raise InputError("the model defines functions of its own: inline them first, with onnx.inliner")
    if graph.sparse_initializer:
        raise InputError("the model has sparse weights: write them in full")
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    ops = [op for node in graph.node for op in _operators(node, folder)]
    _check_names([op.output for op in ops], graph, tensors)
    name, shape, batch = _input(graph, tensors)
    notes: list[str] = []
    wanted = _output(ops, set(tensors), [entry.name for entry in graph.output], output, notes)
    if logits:
        wanted = before_end(ops, wanted, notes)
    ops = live(ops, [wanted])
    read = {part for op in ops for part in op.inputs}
    constants = {key: to_array(tensor, folder) for key, tensor in tensors.items() if key in read}
    constants |= {op.output: _constant(op, folder) for op in ops if op.kind == "Constant"}
    ops = [op for op in ops if op.kind != "Constant"]
    bare = _rank(graph, name) == 1
    return Program(name, wanted, shape, batch, ops, constants, trained=_trained(proto), notes=notes, bare=bare)


def _rank(graph: Any, name: str) -> int:
    return next(len(entry.type.tensor_type.shape.dim) for entry in graph.input if entry.name == name)


def _operators(node: Any, folder: Path | None) -> list[Op]:
    """Return the operator of a node; of one that splits a value, one for each part."""
    op = _operator(node)
    if op.kind == "ConstantOfShape":
        value = op.options.get("value")
        number = 0.0 if value is None else to_array(value, folder).reshape(-1)[0]
        return [replace(op, options={"number": number})]
    if op.kind != "Split":
        return [op]
    count = len(node.output)
    parts = enumerate(node.output)
    return [replace(op, output=name, options={**op.options, "part": k, "parts": count}) for k, name in parts if name]


def _operator(node: Any) -> Op:
    from onnx.helper import get_attribute_value

    kind = node.op_type if node.domain in STANDARD else f"{node.domain}.{node.op_type}"
    options = {}
    for attribute in node.attribute:
        try:
            value = get_attribute_value(attribute)
        except ValueError:
            raise InputError(
                f"{shown(kind)} {node.name!r} has an attribute {attribute.name!r} that cannot be read"
            ) from None
        options[attribute.name] = value.decode(errors="replace") if isinstance(value, bytes) else value
    return Op(kind, tuple(node.input), node.output[0] if node.output else "", node.name, options)


def _check_names(outputs: list[str], graph: Any, tensors: dict[str, Any]) -> None:
    taken = {entry.name for entry in graph.input} | set(tensors)
    for name in outputs:
        if not name or name in taken:
            raise InputError(f"the model computes {name!r} twice, or without a name: the file is damaged")
        taken.add(name)


def _input(graph: Any, tensors: dict[str, Any]) -> tuple[str, tuple[int, ...], int | None]:
    inputs = [entry for entry in graph.input if entry.name not in tensors]
    if len(inputs) != 1:
        names = shown(*(entry.name for entry in inputs))
        raise InputError(f"the network must have one input, and the model has {names}: join them into one")
    (entry,) = inputs
    kind = entry.type.tensor_type
    if kind.elem_type not in FLOATS:
        raise InputError(f"the input {entry.name!r} must be of floating-point numbers")
    sizes = [d.dim_value if d.HasField("dim_value") else None for d in kind.shape.dim]
    sides = tuple(s or d.dim_param or "?" for s, d in zip(sizes, kind.shape.dim, strict=True))
    known = tuple(s for s in sizes if s is not None)
    if len(sizes) == 1 and known and known[0] > 0:
        return entry.name, known, None
    if not 2 <= len(sizes) <= 8 or any(s is None or s < 1 for s in sizes[1:]) or (sizes[0] or 1) < 1:
        raise InputError(
            f"the input {entry.name!r} has the shape {sides}: it must be (N, features), (N, channels, length), "
            "(N, channels, height, width) or the like, with numbers for all but N; export the model with fixed sizes"
        )
    return entry.name, known[1:] if sizes[0] is not None else known, sizes[0]


def _output(ops: list[Op], tensors: set[str], outputs: list[str], asked: str | None, notes: list[str]) -> str:
    if asked is not None:
        if asked not in {op.output for op in ops}:
            raise InputError(f"the model computes no {asked!r}: its outputs are {shown(*outputs)}")
        return asked
    labels = [op for op in live(ops, outputs) if op.kind in LABELS]
    before = live(ops, [name for op in labels for name in op.inputs])
    last = _last_linear(before, tensors)
    if last is not None:
        kinds = dict.fromkeys(op.kind.rpartition(".")[2] for op in labels)
        behind = [op for op in live(ops, outputs) if op not in before and op not in labels and op.inputs]
        more = " and what is computed from them are" if behind else " is"
        notes.append(f"the network ends at {last!r}: what turns it into labels ({', '.join(kinds)}){more} left out")
        return last
    if len(outputs) != 1:
        raise InputError(f"the model has the outputs {shown(*outputs)}: choose one with `output`")
    return outputs[0]


def _last_linear(ops: list[Op], tensors: set[str]) -> str | None:
    known = tensors | {op.output for op in ops if op.kind == "Constant"}
    linear = [op.output for op in ops if op.kind in ("Gemm", "MatMul", "Conv") and known & set(op.inputs[1:2])]
    if not linear:
        return None
    biased = [op.output for op in ops if op.kind == "Add" and linear[-1] in op.inputs and known & set(op.inputs)]
    return (biased or linear)[-1]


def _constant(op: Op, folder: Path | None) -> np.ndarray:
    if len(op.options) == 1:
        (kind, value) = next(iter(op.options.items()))
        if kind == "value":
            return to_array(value, folder)
        if kind in ("value_float", "value_floats"):
            return np.asarray(value, np.float64)
        if kind in ("value_int", "value_ints"):
            return np.asarray(value, np.int64)
    raise InputError(f"{op} holds no dense numbers")


def _trained(proto: Any) -> frozenset[str] | None:
    said = [entry.value for entry in proto.metadata_props if entry.key == TRAINED]
    if not said:
        return None
    try:
        names = json.loads(said[0])
        return frozenset(str(name) for name in names)
    except (ValueError, TypeError, RecursionError):
        raise InputError(f"the model's note {TRAINED!r} cannot be read: remove it, or write the file again") from None
