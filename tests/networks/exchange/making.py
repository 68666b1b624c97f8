"""ONNX models for tests, written operator by operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Tensors = dict[str, Any]
Step = tuple  # (operator, inputs, output) or (operator, inputs, output, attributes)


def model(
    steps: list[Step],
    tensors: Tensors,
    shape: tuple[Any, ...] = ("N", 4),
    *,
    outputs: tuple[str, ...] = ("y",),
    opset: int = 20,
    kind: int = TensorProto.FLOAT,
    inputs: tuple[str, ...] = ("x",),
) -> onnx.ModelProto:
    """Return a model; arrays keep their type, `y` is the output unless another is named."""
    nodes = []
    for step in steps:
        operator, reads, output, *rest = step
        domain, _, name = operator.rpartition(":")
        made = [output] if isinstance(output, str) else list(output)
        attributes = rest[0] if rest else {}
        nodes.append(helper.make_node(name, reads.split(), made, name=f"n_{made[0]}", domain=domain, **attributes))
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(name, kind, list(shape)) for name in inputs],
        [helper.make_tensor_value_info(name, kind, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in tensors.items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def draw(seed: int = 0, **shapes: tuple[int, ...]) -> Tensors:
    """Return random weights in float32."""
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


MLP = draw(W=(4, 6), b=(6,), V=(6, 3), c=(3,))
IMAGE = draw(K=(3, 2, 3, 3), k=(3,), V=(2, 108), c=(2,))
FEW = draw(K=(3, 2, 3, 3), k=(3,), V=(2, 3), c=(2,))
HIDDEN: list[Step] = [("Gemm", "x W b", "h")]
END: list[Step] = [("Gemm", "g V c", "y")]


def mlp(*middle: Step, **more: Any) -> onnx.ModelProto:
    """Return a layer `h`, some operators that make `g` of it, and a read-out."""
    tensors = {**MLP, **more.pop("tensors", {})}
    return model([*HIDDEN, *middle, *END], tensors, **more)


def cnn(*middle: Step, few: bool = False, **more: Any) -> onnx.ModelProto:
    """Return a convolution `h` of images of 2 x 6 x 6, some operators that make `g` of it, and a read-out."""
    tensors = {**(FEW if few else IMAGE), **more.pop("tensors", {})}
    first = ("Conv", "x K k", "h", {"pads": [1, 1, 1, 1]})
    end = ("Gemm", "g V c", "y", {"transB": 1})
    return model([first, *middle, end], tensors, ("N", 2, 6, 6), **more)


def rows(proto: onnx.ModelProto, count: int = 5, seed: int = 7) -> np.ndarray:
    """Return random rows for a model."""
    sizes = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
    sizes = sizes[1:] if len(sizes) > 1 else sizes
    return np.random.default_rng(seed).standard_normal((count, *sizes))
