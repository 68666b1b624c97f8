"""The same rows through ONNX's reference evaluator in float64, and through the network that was read."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from jax.typing import ArrayLike

from wideproof.errors import InputError
from wideproof.networks.exchange.model import Model
from wideproof.networks.exchange.onnx_file import read_proto, to_array
from wideproof.networks.exchange.onnx_program import to_program
from wideproof.networks.exchange.passes import CLOSE, simplify

LARGEST_DIFFERENCE = 1e-10
FLOAT, HALF, DOUBLE = 1, 10, 11


def agreement(source: str | Path | bytes | Any, model: Model, x: ArrayLike) -> float:
    """Return the largest difference between the outputs of an ONNX model and of the network read from it.

    Both compute in float64: all constants of the model, and the rows, are cast to it exactly.

    Parameters
    ----------
    source
        The ONNX model: a path, its bytes, or the result of `onnx.load`.
    model
        The network that was read from it.
    x
        Inputs, one example in each row.

    Returns
    -------
    float
        The difference, relative to the largest output.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from wideproof.networks import Sketch
    >>> from wideproof.networks.exchange import agreement, from_onnx, to_onnx
    >>> sketch = Sketch(2)
    >>> network = sketch.read_out(sketch.dense(sketch.input, 8, "tanh"), 1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/model.onnx"
    ...     to_onnx(network, network.init(0), path)
    ...     agreement(path, from_onnx(path), np.eye(2)) < 1e-12
    True
    """
    rows = np.asarray(x, np.float64)
    if rows.ndim < 2 or not len(rows):
        raise InputError(f"rows to compare on have the shape (rows, ...), got {rows.shape}")
    ours = np.asarray(model.network(model.params, rows), np.float64).reshape(len(rows), -1)
    theirs = reference(source, model.output, rows)
    if not np.isfinite(theirs).all() or not np.isfinite(ours).all():
        return math.inf
    largest = np.abs(theirs).max()
    return float(np.abs(ours - theirs).max() / (largest if largest > 0 else 1.0))


def require_close(worst: float, other: str, what: str) -> None:
    """Refuse a network whose outputs are off by more than the largest difference that is allowed."""
    if not worst <= LARGEST_DIFFERENCE:
        raise InputError(
            f"the network that was read differs from {other} by {worst:.1e} of the largest output: please report the "
            f"{what}"
        )


def require_agreement(source: str | Path | bytes | Any, model: Model, x: ArrayLike) -> None:
    """Raise an error unless a network agrees with ONNX's reference evaluator.

    Parameters
    ----------
    source
        The ONNX model: a path, its bytes, or the result of `onnx.load`.
    model
        The network that was read from it.
    x
        Inputs, one example in each row.
    """
    require_close(agreement(source, model, x), "ONNX's reference evaluator", "file")


def reference(source: Any, output: str, rows: np.ndarray) -> np.ndarray:
    """Return the outputs by ONNX's reference evaluator in float64, `rows x outputs`."""
    from onnx.reference import ReferenceEvaluator

    proto = widened(source, output)
    (entry,) = proto.graph.input
    sizes = [d.dim_value if d.HasField("dim_value") else 0 for d in entry.type.tensor_type.shape.dim]
    bare = len(sizes) == 1
    laid = rows.reshape(-1) if bare else rows.reshape(len(rows), *sizes[1:])
    step = sizes[0] or len(laid)
    parts = []
    try:
        evaluator = ReferenceEvaluator(proto, new_ops=exact_operators())
        for start in range(0, len(laid), step):
            part = laid[start : start + step]
            whole = np.concatenate([part, np.repeat(part[-1:], step - len(part), axis=0)])
            (given,) = evaluator.run([output], {entry.name: whole})
            found = np.asarray(given, np.float64)
            parts.append(found.reshape(1, -1) if bare else found.reshape(step, -1)[: len(part)])
    except Exception as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"ONNX's reference evaluator cannot run the model: {first}") from error
    return np.concatenate(parts)


def exact_operators() -> list[type]:
    """Return Erf, Gelu and HardSwish in float64: the evaluator's own round to float32 on the way."""
    from onnx.reference.op_run import OpRun

    exact = np.vectorize(math.erf, otypes=[np.float64])

    class Erf(OpRun):
        op_domain = ""

        def _run(self, x: np.ndarray) -> tuple[np.ndarray]:
            return (exact(x),)

    class Gelu(OpRun):
        op_domain = ""

        def _run(self, x: np.ndarray, approximate: str | None = None) -> tuple[np.ndarray]:
            if approximate == "tanh":
                return (0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),)
            return (x * (0.5 * (1 + exact(x / math.sqrt(2)))),)

    class HardSwish(OpRun):
        op_domain = ""

        def _run(self, x: np.ndarray) -> tuple[np.ndarray]:
            return (x * np.clip(x / 6 + 0.5, 0, 1),)

    return [Erf, Gelu, HardSwish, *inference_operators()]


def inference_operators() -> list[type]:
    """Return BatchNormalization with its stored mean and variance, as a node with one output has it since version 7.

    The evaluator's own, of versions 7 to 13, mixes those of the batch into them.
    """
    from onnx.reference.op_run import OpRun

    class BatchNormalization(OpRun):
        op_domain = ""

        def _run(
            self,
            x: np.ndarray,
            scale: np.ndarray,
            shift: np.ndarray,
            mean: np.ndarray,
            variance: np.ndarray,
            epsilon: Any = None,
            momentum: Any = None,
            training_mode: Any = None,
            spatial: Any = None,
        ) -> tuple[np.ndarray]:
            if training_mode or sum(map(bool, self.onnx_node.output)) > 1:
                raise InputError("BatchNormalization is in training mode: export the model for inference")
            column = (-1, *(1,) * (x.ndim - 2))
            scale, shift, mean, variance = (a.reshape(column) for a in (scale, shift, mean, variance))
            near = 1e-5 if epsilon is None else epsilon
            return ((scale * (x - mean) / np.sqrt(variance + near) + shift).astype(x.dtype),)

    return [BatchNormalization]


def widened(source: Any, output: str, folder: Path | None = None, *, roots: bool = True) -> Any:
    """Return the model up to an output, with all floating-point numbers in float64.

    With `roots` the roots of a GELU that is written out are exact; `folder` is that of a model in memory.
    """
    import onnx
    from onnx import numpy_helper

    given, place = read_proto(source)
    folder = place or folder
    proto = onnx.ModelProto()
    proto.CopyFrom(given)
    graph = proto.graph
    makers = {name: node for node in graph.node for name in node.output}
    found, rest = set(), [output]
    while rest:
        node = makers.get(rest.pop())
        if node is not None and node.output[0] not in found:
            found.add(node.output[0])
            rest += node.input
    kept = [node for node in graph.node if node.output and node.output[0] in found]
    read = {name for node in kept for name in node.input}
    tensors = {t.name: to_array(t, folder) for t in graph.initializer if t.name in read}
    for node in kept:
        _widen(node, folder)
    if roots:
        own = {op.output for op in simplify(to_program(given, folder, output, logits=False)).ops}
        _exact_roots(kept, tensors, own)
    inputs = [entry for entry in graph.input if entry.name not in {t.name for t in graph.initializer}]
    for entry in inputs:
        if entry.type.tensor_type.elem_type in (FLOAT, HALF):
            entry.type.tensor_type.elem_type = DOUBLE
    new = onnx.helper.make_graph(
        kept, "widened", inputs, [onnx.helper.make_tensor_value_info(output, DOUBLE, None)],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in tensors.items()],
    )  # fmt: skip
    proto.graph.CopyFrom(new)
    return proto


def _widen(node: Any, folder: Path | None) -> None:
    """Let a node compute in float64."""
    from onnx import helper, numpy_helper

    if node.op_type == "Cast":
        for attribute in node.attribute:
            if attribute.name == "to" and attribute.i in (FLOAT, HALF):
                attribute.i = DOUBLE
    if node.op_type == "ConstantOfShape":
        given = next((a.t for a in node.attribute if a.name == "value"), None)
        if given is None or given.data_type in (FLOAT, HALF):
            number = np.zeros(1) if given is None else to_array(given, folder).reshape(1)
            del node.attribute[:]
            node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(number)))
    if node.op_type == "Constant" and len(node.attribute) == 1:
        (attribute,) = node.attribute
        if attribute.name == "value" and attribute.t.data_type in (FLOAT, HALF):
            array = to_array(attribute.t, folder)
        elif attribute.name in ("value_float", "value_floats"):
            array = np.asarray(helper.get_attribute_value(attribute), np.float64)
        else:
            return
        attribute.CopyFrom(helper.make_attribute("value", numpy_helper.from_array(array)))


def _exact_roots(nodes: list[Any], tensors: dict[str, np.ndarray], kept: set[str]) -> None:
    """Put the exact root of 2 or 1/2 where a GELU that is written out has it in float32.

    `kept` are the values that are a layer of their own: an Erf among them is no part of a GELU.
    """
    arguments = {node.input[0] for node in nodes if node.op_type == "Erf" and node.output[0] not in kept}
    constants = {
        n.output[0]: n.attribute[0].t for n in nodes if n.op_type == "Constant" and n.attribute[0].HasField("t")
    }
    for node in nodes:
        if node.op_type not in ("Mul", "Div") or node.output[0] not in arguments:
            continue
        for at, name in enumerate(node.input):
            array = tensors.get(name)
            if name in constants:
                array = to_array(constants[name], None)
            root = None if array is None or array.size != 1 else _root(float(array.reshape(())))
            if array is not None and root is not None:
                node.input[at] = f"{node.output[0]}/root"
                tensors[node.input[at]] = np.full(array.shape, root)


def _root(value: float) -> float | None:
    return next((exact for exact in (math.sqrt(2), math.sqrt(0.5)) if abs(value - exact) < CLOSE), None)
