"""A model cut in two: the head, which is read as a network, and what everything before it gives for some rows.

Before the head anything may stand that ONNX's reference evaluator, or PyTorch, can compute.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wideproof.errors import InputError
from wideproof.networks.exchange.agreement import (
    DOUBLE,
    exact_operators,
    inference_operators,
    require_agreement,
    require_close,
    widened,
)
from wideproof.networks.exchange.model import Model
from wideproof.networks.exchange.onnx_file import EXTERNAL, read_proto, to_array
from wideproof.networks.exchange.onnx_in import from_onnx
from wideproof.networks.exchange.program import shown
from wideproof.networks.exchange.torch_in import difference, from_torch
from wideproof.networks.exchange.torch_runs import require_torch

BLOCK = 64  # rows that go through the backbone together
COMPARED = 100
MOST_NAMED = 12


@dataclass(frozen=True, eq=False)
class Head:
    """The last layers of a model, and the features that everything before them gives.

    Attributes
    ----------
    model
        The head as a network with its weights.
    features
        One row for each row of the table, in float64.
    source
        Name of the file or of the module's class.
    layer
        The layer with which the head begins, as it was asked for.
    evaluator
        What computed the features, in a few words.
    """

    model: Model
    features: np.ndarray
    source: str
    layer: str
    evaluator: str


def cut_head(model: Any, layer: str, x: Any, shape: Sequence[int] | None = None) -> Head:
    """Read the layers from one on as a network, and compute their inputs for some rows.

    Parameters
    ----------
    model
        Path of an ONNX file or its bytes, or a PyTorch module.
    layer
        The layer with which the head begins: in a file the name of a node, of a value or of a weight (`"fc.weight"`, or
        `"fc"` for weights that begin so); in a module the name of a submodule (`"fc"`, `"layers.3"`).
    x
        Rows of the table, one example each.
    shape
        The shape of one example; by default that of the rows.

    Returns
    -------
    Head
        The head with its features.

    Examples
    --------
    >>> import tempfile
    >>> from wideproof.networks import Sketch
    >>> from wideproof.networks.exchange import to_onnx
    >>> sketch = Sketch(2)
    >>> network = sketch.read_out(sketch.dense(sketch.dense(sketch.input, 8, "gelu"), 4, "tanh"), 3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     to_onnx(network, network.init(0), f"{folder}/model.onnx")
    ...     head = cut_head(f"{folder}/model.onnx", "W2", np.eye(2))
    >>> print(head.model)
    network of 1 hidden layer, 51 numbers in W2, b2, W3, b3
    >>> head.features.shape
    (2, 8)
    """
    rows = np.asarray(x, np.float64)
    rows = rows if shape is None else rows.reshape(len(rows), *shape)
    if isinstance(model, str | Path | bytes):
        return _of_file(model, layer, rows)
    if hasattr(model, "get_submodule"):
        return _of_module(model, layer, rows)
    raise InputError(
        f"head is for an ONNX file or a PyTorch module, got {type(model).__name__}: a network of this library is "
        "certified as a whole, or with the weights that `trained` names"
    )


def _finite(features: np.ndarray, layer: str) -> np.ndarray:
    """Return features as they are stored: a row for each example, C-contiguous in float64."""
    flat = np.ascontiguousarray(features.reshape(len(features), -1), np.float64)
    bad = np.flatnonzero(~np.isfinite(flat).all(axis=1))
    if len(bad):
        raise InputError(f"row {bad[0]} has a feature before {layer!r} that is not finite: prepare or remove it")
    return flat


# ONNX files


def _of_file(source: Any, layer: str, x: np.ndarray) -> Head:
    proto, folder = read_proto(source)
    value, gives = _value_before(proto.graph, layer)
    part = _from_here(proto, folder, value, gives, layer)
    found, evaluator = _evaluated(proto, folder, value, layer, x)
    _set_input(part, value, found.shape[1:])
    head, features = from_onnx(part, logits=True), _finite(found, layer)
    require_agreement(part, head, features[:COMPARED])
    name = Path(source).name if isinstance(source, str | Path) else "the model"
    return Head(head, features, name, layer, evaluator)


def _value_before(graph: Any, layer: str) -> tuple[str, set[str]]:
    """Return the name of the one value that a layer reads, other than constants, and what the layer gives."""
    known = _constants(graph)
    node = _find(graph, known, layer)
    reads = [name for name in node.input if name and name not in known]
    if len(dict.fromkeys(reads)) != 1:
        count = len(dict.fromkeys(reads))
        raise InputError(f"the layer {layer!r} reads {count} values, {shown(*reads)}: a head begins where it is one")
    return reads[0], set(node.output)


def _constants(graph: Any) -> set[str]:
    """Return the names of what does not depend on the input."""
    known = {tensor.name for tensor in graph.initializer} | {tensor.values.name for tensor in graph.sparse_initializer}
    for node in graph.node:
        if all(name in known for name in node.input if name):
            known |= set(node.output)
    return known


def _find(graph: Any, known: set[str], layer: str) -> Any:
    """Return the node that a name means: its own, that of what it gives, of a weight, or of several weights."""
    nodes = [node for node in graph.node if not set(node.output) <= known]
    tests: tuple[Callable[[Any], bool], ...] = (
        lambda node: node.name == layer,
        lambda node: layer in node.output,
        lambda node: any(name == layer and name in known for name in node.input),
        lambda node: any(name.startswith(f"{layer}.") and name in known for name in node.input),
        lambda node: f"/{layer}/" in f"/{node.name}".replace("//", "/"),
    )
    for test in tests:
        if found := next((node for node in nodes if layer and test(node)), None):
            return found
    with_weights = [node for node in nodes if known & set(node.input)]
    named = [next(n for n in node.input if n in known) for node in with_weights[-MOST_NAMED:]]
    raise InputError(
        f"the model has no layer {layer!r}: give a node, a value or a weight, such as {shown(*named) or 'its output'}"
    )


def _from_here(proto: Any, folder: Path | None, value: str, gives: set[str], layer: str) -> Any:
    """Return the model from a value on; it must be all that this reads."""
    import onnx
    from onnx import numpy_helper

    graph, known = proto.graph, _constants(proto.graph)
    makers = {name: node for node in graph.node for name in node.output}
    inputs = {entry.name for entry in graph.input} - known
    depends = set(gives)
    for node in graph.node:
        if depends & set(node.input):
            depends |= set(node.output)
    outputs = [entry for entry in graph.output if entry.name in depends]
    if not outputs:
        raise InputError(f"no output of the model depends on the layer {layer!r}: choose another one")
    needed, rest = set(), [entry.name for entry in outputs]
    while rest:
        name = rest.pop()
        if name in inputs and name != value:
            raise InputError(
                f"what comes after {layer!r} reads {shown(name)} too, past {shown(value)}: choose a layer through "
                "which everything passes"
            )
        if name != value and name in makers and name not in needed:
            needed |= {name}
            rest += [read for read in makers[name].input if read]
    kept = [node for node in graph.node if set(node.output) & needed]
    read = {name for node in kept for name in node.input}
    tensors = [
        numpy_helper.from_array(to_array(t, folder), t.name) if t.data_location == EXTERNAL else t
        for t in graph.initializer if t.name in read
    ]  # fmt: skip
    entry = next((e for e in graph.input if e.name not in known), None)
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    del made.functions[:]
    ends = [onnx.helper.make_tensor_value_info(end.name, end.type.tensor_type.elem_type, None) for end in outputs]
    start = onnx.helper.make_tensor_value_info(value, DOUBLE, [_batch(entry)])
    made.graph.CopyFrom(onnx.helper.make_graph(kept, "head", [start], ends, tensors))
    return made


def _batch(entry: Any) -> int | str:
    dims = [] if entry is None else entry.type.tensor_type.shape.dim
    return dims[0].dim_value if len(dims) and dims[0].dim_value > 0 else "N"


def _set_input(part: Any, value: str, shape: tuple[int, ...]) -> None:
    import onnx

    batch = _batch(part.graph.input[0])
    part.graph.input[0].CopyFrom(onnx.helper.make_tensor_value_info(value, DOUBLE, [batch, *shape]))


def _evaluated(proto: Any, folder: Path | None, value: str, layer: str, x: np.ndarray) -> tuple[np.ndarray, str]:
    """Return a value of a model for all rows, in float64, or where that cannot be in the model's own types."""
    from onnx.reference import ReferenceEvaluator

    known = {tensor.name for tensor in proto.graph.initializer}
    entries = [entry for entry in proto.graph.input if entry.name not in known]
    if len(entries) != 1:
        raise InputError(f"the model has the inputs {shown(*(e.name for e in entries))}: rows of a table are one input")
    (entry,) = entries
    if value == entry.name:
        return _laid(entry, x, np.float64), "nothing: the table itself"
    first = None
    for wide in (True, False):
        try:
            made = widened(proto, value, folder, roots=False) if wide else _until(proto, value)
            given = made.graph.input[0]
            kind = np.float64 if wide else np.float32
            kind = kind if given.type.tensor_type.elem_type in (1, 10, 11) else np.int64
            evaluator = ReferenceEvaluator(made, new_ops=exact_operators() if wide else inference_operators())
            found = _run(evaluator, value, entry, _laid(entry, x, kind))
        except Exception as error:
            first = first or error
            continue
        how = "with its constants and inputs in float64" if wide else "in the model's own types"
        return found, f"ONNX's reference evaluator {how}"
    said = (str(first).strip() or type(first).__name__).splitlines()[0]
    raise InputError(
        f"ONNX's reference evaluator cannot compute what stands before {layer!r}: {said}; give the PyTorch module, or "
        "the features as a table and the head as a model of its own"
    )


def _laid(entry: Any, x: np.ndarray, kind: Any) -> np.ndarray:
    """Return rows in the shape that an input has; sizes that are not known are left to the rows."""
    sizes = [d.dim_value for d in entry.type.tensor_type.shape.dim][1:]
    laid = x if not sizes or sizes.count(0) > 1 else x.reshape(len(x), *(size or -1 for size in sizes))
    if kind is np.int64 and (laid != np.round(laid)).any():
        raise InputError(f"the input {entry.name!r} is of whole numbers, and the rows are not")
    return laid.astype(kind)


def _run(evaluator: Any, value: str, entry: Any, laid: np.ndarray) -> np.ndarray:
    fixed, parts = _batch(entry), []
    step = fixed if isinstance(fixed, int) else BLOCK
    for start in range(0, len(laid), step):
        part = laid[start : start + step]
        missing = step - len(part) if isinstance(fixed, int) else 0
        whole = np.concatenate([part, np.repeat(part[-1:], missing, axis=0)])
        with np.errstate(all="ignore"):  # what is not finite is said later
            found = np.asarray(evaluator.run([value], {entry.name: whole})[0])
        if found.shape[:1] != (len(whole),):
            raise InputError(f"the value {value!r} has the shape {found.shape} for {len(whole)} rows")
        parts.append(found[: len(part)].astype(np.float64))
    return np.concatenate(parts)


def _until(proto: Any, value: str) -> Any:
    """Return the model up to a value, as it is."""
    import onnx

    made = onnx.ModelProto()
    made.CopyFrom(proto)
    if any(tensor.data_location == EXTERNAL for tensor in made.graph.initializer):
        raise InputError("weights in another file are read in float64 only")
    makers = {name: node for node in proto.graph.node for name in node.output}
    needed, rest = set(), [value]
    while rest:
        name = rest.pop()
        if name in makers and name not in needed:
            needed |= {name}
            rest += makers[name].input
    del made.graph.node[:], made.graph.output[:]
    made.graph.node.extend(node for node in proto.graph.node if set(node.output) & needed)
    made.graph.output.append(onnx.helper.make_empty_tensor_value_info(value))
    constants = {tensor.name for tensor in made.graph.initializer}
    inputs = [entry for entry in proto.graph.input if entry.name not in constants]
    del made.graph.input[:]
    made.graph.input.extend(inputs)
    return made


# PyTorch modules


def _of_module(module: Any, layer: str, x: np.ndarray) -> Head:
    torch = require_torch()
    exact = copy.deepcopy(module).cpu().double().eval()
    known = [name for name, _ in exact.named_modules() if name]
    if layer not in known:
        raise InputError(
            f"the module has no layer {layer!r}: its last ones are {shown(*known[-MOST_NAMED:]) or 'none'}"
        )
    first = exact.get_submodule(layer)
    children = [name for name, _ in exact.named_children()]
    inside = isinstance(exact, torch.nn.Sequential) and layer in children
    head = exact[children.index(layer) :] if inside else first
    seen: list[Any] = []
    hook = first.register_forward_pre_hook(lambda _, args, kwargs: seen.append((args, kwargs)), with_kwargs=True)
    parts = []
    try:
        for start in range(0, len(x), BLOCK):
            rows = x[start : start + BLOCK]
            seen.clear()
            whole = _passed(exact, rows, layer)
            parts.append(_read(seen, layer, len(rows), torch))
            _require_end(head, parts[-1], whole, layer, torch)
    finally:
        hook.remove()
    found = torch.cat(parts)
    model = from_torch(head, found[:2], logits=True)
    features = _finite(found.numpy(), layer)
    few = found[:COMPARED]
    if not any("left out" in note for note in model.notes):
        with torch.no_grad():
            require_close(difference(head(few), model, few), "the module in float64", "module")
    return Head(model, features, type(module).__name__, layer, "PyTorch in float64")


def _passed(module: Any, rows: np.ndarray, layer: str) -> Any:
    """Return what a module gives for rows of numbers, or where it does not take them of whole numbers."""
    torch = require_torch()
    given = torch.as_tensor(rows)
    first = None
    for one in (given, given.long()) if (rows == np.round(rows)).all() else (given,):
        try:
            with torch.no_grad():
                return module(one)
        except Exception as error:
            first = first or error
    said = (str(first).strip() or type(first).__name__).splitlines()[0]
    raise InputError(
        f"the module does not take examples of shape {rows.shape[1:]}: {said} (on the way to {layer!r})"
    ) from first


def _read(seen: list[Any], layer: str, n: int, torch: Any) -> Any:
    """Return what a layer was given: one tensor, once, with a row for each example."""
    if len(seen) != 1:
        raise InputError(f"the layer {layer!r} is called {len(seen)} times in a pass: a head begins where it is once")
    values = [*seen[0][0], *seen[0][1].values()]
    if len(values) != 1 or not torch.is_tensor(values[0]) or values[0].shape[:1] != (n,):
        raise InputError(
            f"the layer {layer!r} reads {len(values)} values: a head begins where it is one tensor of rows"
        )
    if values[0].dtype != torch.float64:
        kind = str(values[0].dtype).removeprefix("torch.")
        raise InputError(f"the features before {layer!r} are {kind} in a module of float64: it rounds inside")
    return values[0].detach().clone()


def _require_end(head: Any, features: Any, whole: Any, layer: str, torch: Any) -> None:
    """Refuse a layer after which the module does more."""
    with torch.no_grad():
        own = head(features)
    same = torch.is_tensor(own) and torch.is_tensor(whole) and own.shape == whole.shape
    off = float((own - whole).abs().max()) if same else math.inf
    if not same or not off <= 1e-12 * float(whole.abs().max()):
        raise InputError(
            f"the module goes on after {layer!r}: make one submodule of it and of everything after it, or a Sequential "
            "of the backbone and the head"
        )
