"""Every operator that is read: the network agrees with ONNX's reference evaluator, and has the layers one expects."""

import math

import numpy as np
import pytest
from onnx import TensorProto

from tests.networks.exchange.making import FEW, IMAGE, MLP, cnn, draw, mlp, model, rows
from wideproof.networks.exchange import Model, agreement, from_onnx

f32 = np.float32
PLAIN = ["Relu", "Sigmoid", "Tanh", "Softplus", "Erf", "Elu", "Softsign", "Mish", "Gelu", "Sin", "Atan"]
ROOT, HALF, ONE = f32(math.sqrt(2)), f32(0.5), f32(1)
GELU = {"r": ROOT, "i": f32(math.sqrt(0.5)), "p": HALF, "o": ONE}
ERF = [("Div", "h r", "t"), ("Erf", "t", "e"), ("Add", "e o", "s")]
SCALE = {"m": np.linspace(0.5, 2, 6, dtype=f32)}
PIXEL = {"m": np.array([0.5, 2, 3], f32).reshape(3, 1, 1)}
NORM = draw(3, gamma=(6,), beta=(6,), mean=(6,)) | {"var": np.linspace(0.5, 2, 6, dtype=f32)}
BN = ("BatchNormalization", "h gamma beta mean var", "n")
NORM3 = {key: array[:3] for key, array in NORM.items()}


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


CASES = {
    **{kind: mlp((kind, "h", "g")) for kind in PLAIN},
    "Swish": mlp(("Swish", "h", "g"), opset=24),
    "Dropout": mlp(("Relu", "h", "r"), ("Dropout", "r", "g")),
    "Dropout-inputs": mlp(("Relu", "h", "r"), ("Dropout", "r p t", "g"), tensors={"p": HALF, "t": np.array(False)}),
    "Identity": mlp(("Identity", "h", "r"), ("Relu", "r", "g")),
    "Cast": mlp(("Cast", "h", "r", {"to": TensorProto.DOUBLE}), ("Relu", "r", "s"), ("Cast", "s", "g", {"to": 1})),
    # GELU, SiLU, softplus, mish and softsign in parts
    "gelu-x-gate-half": mlp(*ERF, ("Mul", "h s", "u"), ("Mul", "u p", "g"), tensors=GELU),
    "gelu-half-x-gate": mlp(*ERF, ("Mul", "p h", "u"), ("Mul", "u s", "g"), tensors=GELU),
    "gelu-x-half-gate": mlp(*ERF, ("Mul", "s p", "u"), ("Mul", "h u", "g"), tensors=GELU),
    "gelu-by-two": mlp(*ERF, ("Mul", "h s", "u"), ("Div", "u p2", "g"), tensors=GELU | {"p2": f32(2)}),
    "gelu-mul-inverse": mlp(
        ("Mul", "i h", "t"), ("Erf", "t", "e"), ("Add", "o e", "s"), ("Mul", "h s", "u"), ("Mul", "u p", "g"),
        tensors=GELU,
    ),
    "gelu-scaled": mlp(*ERF, ("Mul", "h s", "u"), ("Mul", "u q", "g"), tensors=GELU | {"q": f32(0.3)}),
    "no-gelu": mlp(("Div", "h r", "t"), ("Erf", "t", "e"), ("Mul", "e p", "g"), tensors=GELU),
    "silu": mlp(("Sigmoid", "h", "s"), ("Mul", "h s", "g")),
    "silu-other-order": mlp(("Sigmoid", "h", "s"), ("Mul", "s h", "g")),
    "softplus-parts": mlp(("Exp", "h", "e"), ("Add", "e o", "s"), ("Log", "s", "g"), tensors={"o": ONE}),
    "softplus-pytorch": mlp(
        ("Softplus", "h", "s"), ("Greater", "h t", "w"), ("Where", "w h s", "g"), tensors={"t": f32(20)}
    ),
    "mish-softplus": mlp(("Softplus", "h", "s"), ("Tanh", "s", "t"), ("Mul", "h t", "g")),
    "mish-parts": mlp(
        ("Exp", "h", "e"), ("Add", "o e", "s"), ("Log", "s", "l"), ("Tanh", "l", "t"), ("Mul", "t h", "g"),
        tensors={"o": ONE},
    ),
    "softsign-parts": mlp(("Abs", "h", "a"), ("Add", "a o", "s"), ("Div", "h s", "g"), tensors={"o": ONE}),
    # layers of weights
    "Gemm-transB": model(
        [("Gemm", "x W b", "h", {"transB": 1}), ("Relu", "h", "g"), ("Gemm", "g V", "y", {"transB": 1})],
        draw(W=(6, 4), b=(6,), V=(1, 6)),
    ),
    "Gemm-alpha-beta": model(
        [("Gemm", "x W b", "h", {"alpha": 0.7, "beta": 1.3}), ("Tanh", "h", "g"), ("Gemm", "g V c", "y")], MLP
    ),
    "Gemm-one-bias": mlp(("Relu", "h", "g"), tensors=draw(b=(1,))),
    "MatMul-Add": model(
        [("MatMul", "x W", "m"), ("Add", "m b", "h"), ("Tanh", "h", "g"), ("MatMul", "g V", "n"), ("Add", "c n", "y")],
        MLP,
    ),
    "MatMul-vector": model([("MatMul", "x W", "h"), ("Sin", "h", "g"), ("MatMul", "g v", "y")], draw(W=(4, 6), v=(6,))),
    "MatMul-transposed": model(
        [("Transpose", "U", "W"), ("MatMul", "x W", "h"), ("Sin", "h", "g"), ("MatMul", "g V", "y")],
        draw(U=(6, 4), V=(6, 2)),
    ),
    "constant-nodes": model(
        [
            ("Constant", "", "two", {"value_float": 2.0}),
            ("Constant", "", "s", {"value_ints": [-1, 6]}),
            ("MatMul", "x W", "h"), ("Div", "h two", "d"), ("Erf", "d", "e"), ("Reshape", "e s", "g"),
            ("MatMul", "g V", "y"),
        ],
        draw(W=(4, 6), V=(6, 2)),
    ),
    "no-hidden-layer": model([("Gemm", "x W b", "y")], draw(W=(4, 2), b=(2,))),
    "no-hidden-layer-image": model(
        [("Flatten", "x", "f"), ("Gemm", "f W b", "y")], draw(W=(8, 2), b=(2,)), ("N", 2, 2, 2)
    ),
    "linear-layers": mlp(("Identity", "h", "g")),
    "shared-weight": model(
        [
            ("Gemm", "x W b", "a"), ("Tanh", "a", "h"), ("Gemm", "h U b", "i"), ("Tanh", "i", "j"),
            ("Gemm", "j U b", "k"), ("Tanh", "k", "g"), ("Gemm", "g V", "y"),
        ],
        draw(W=(4, 6), b=(6,), U=(6, 6), V=(6, 2)),
    ),
    "float16": mlp(("Tanh", "h", "g"), tensors={key: array.astype(np.float16) for key, array in MLP.items()},
                   kind=TensorProto.FLOAT16),
    "float64": mlp(("Tanh", "h", "g"), tensors={key: array.astype(np.float64) for key, array in MLP.items()},
                   kind=TensorProto.DOUBLE),
    # sums and products with constants
    "normalised-input": model(
        [("Sub", "x m", "c"), ("Div", "c s", "z"), ("Gemm", "z W b", "h"), ("Relu", "h", "g"), ("Gemm", "g V", "y")],
        {**draw(W=(4, 6), b=(6,), V=(6, 2), m=(1, 4)), "s": np.array([1, 2, 0.3, 4], f32)},
    ),
    "input-by-255": model(
        [("Div", "x s", "z"), ("Gemm", "z W b", "h"), ("Relu", "h", "g"), ("Gemm", "g V", "y")],
        {**draw(W=(4, 6), b=(6,), V=(6, 2)), "s": f32(255)},
    ),
    "Scaler": model(
        [("ai.onnx.ml:Scaler", "x", "z", {"offset": [0.1, 0.2, 0.3, 0.4], "scale": [1.0, 2.0, 3.0, 0.7]}),
         ("Gemm", "z W b", "h"), ("Relu", "h", "g"), ("Gemm", "g V", "y")], draw(W=(4, 6), b=(6,), V=(6, 2)),
    ),
    "one-minus-x": model(
        [("Sub", "o x", "z"), ("Gemm", "z W b", "h"), ("Relu", "h", "g"), ("Gemm", "g V", "y")],
        {**draw(W=(4, 6), b=(6,), V=(6, 2)), "o": ONE},
    ),
    "Mul-scalar-after": mlp(("Relu", "h", "r"), ("Mul", "r m", "g"), tensors={"m": f32(0.3)}),
    "Mul-scalar-before": mlp(("Mul", "m h", "r"), ("Relu", "r", "g"), tensors={"m": f32(0.3)}),
    "Mul-negative": mlp(("Relu", "h", "r"), ("Mul", "r m", "g"), tensors={"m": f32(-0.3)}),
    "Mul-vector": mlp(("Tanh", "h", "r"), ("Mul", "r m", "g"), tensors=SCALE),
    "Mul-channels": cnn(("Tanh", "h", "r"), ("Mul", "r m", "t"), ("Flatten", "t", "g"), tensors=PIXEL),
    "Div-scalar": mlp(("Relu", "h", "r"), ("Div", "r m", "g"), tensors={"m": f32(3)}),
    "Div-vector": mlp(("Tanh", "h", "r"), ("Div", "r m", "g"), tensors=SCALE),
    "Neg": mlp(("Tanh", "h", "r"), ("Neg", "r", "g")),
    "Add-fixed": mlp(("Tanh", "h", "r"), ("Add", "r m", "g"), tensors=SCALE),
    "Add-fixed-scalar": mlp(("Tanh", "h", "r"), ("Add", "r m", "g"), tensors={"m": f32(0.3)}),
    "Sub-fixed": mlp(("Tanh", "h", "r"), ("Sub", "r m", "g"), tensors=SCALE),
    "two-biases": mlp(("Add", "h m", "r"), ("Relu", "r", "g"), tensors=SCALE),
    "scaled-output": model(
        [("Gemm", "x W b", "h"), ("Relu", "h", "g"), ("Gemm", "g V c", "o"), ("Mul", "o s", "q"), ("Add", "q m", "y")],
        {**MLP, "s": f32(2.5), "m": f32(-1)},
    ),
    "shifted-output": model(
        [("Gemm", "x W b", "h"), ("Relu", "h", "g"), ("Gemm", "g V c", "o"), ("Add", "o m", "y")],
        {**MLP, "m": np.array([1, 2, 3], f32)},
    ),
    # sums of values
    "skip-behind": mlp(
        ("Relu", "h", "r"), ("Gemm", "r U", "a"), ("Tanh", "a", "t"), ("Add", "r t", "g"), tensors=draw(U=(6, 6))
    ),
    "skip-behind-scaled": mlp(
        ("Relu", "h", "r"), ("Gemm", "r U", "a"), ("Tanh", "a", "t"), ("Mul", "t m", "s"), ("Add", "s r", "g"),
        tensors={**draw(U=(6, 6)), "m": f32(0.25)},
    ),
    "skip-before": mlp(
        ("Relu", "h", "r"), ("Gemm", "r U", "a"), ("Add", "r a", "t"), ("Tanh", "t", "g"), tensors=draw(U=(6, 6))
    ),
    "skip-without-activation": mlp(
        ("Relu", "h", "r"), ("Gemm", "r U", "a"), ("Add", "r a", "g"), tensors=draw(U=(6, 6))
    ),
    "sum-of-two-layers": model(
        [("MatMul", "x W", "a"), ("Tanh", "a", "t"), ("MatMul", "t U", "u"), ("MatMul", "x W", "c"),
         ("Add", "u c", "s"), ("Add", "s b", "h"), ("Relu", "h", "g"), ("MatMul", "g V", "y")],
        draw(W=(4, 6), U=(6, 6), b=(6,), V=(6, 2)),
    ),
    "sum-read-twice": mlp(
        ("Relu", "h", "r"), ("Tanh", "h", "t"), ("Add", "r t", "s"), ("Sin", "s", "i"), ("Add", "s i", "g")
    ),
    "difference-of-values": mlp(("Relu", "h", "r"), ("Tanh", "h", "t"), ("Sub", "r t", "g")),
    "value-and-itself": mlp(("Tanh", "h", "t"), ("Add", "t t", "g")),
    # images and signals
    "Conv": cnn(("Relu", "h", "r"), ("Flatten", "r", "g")),
    "Conv-flatten-first": cnn(("Flatten", "h", "f"), ("Relu", "f", "g")),
    "Conv-strides-pads": model(
        [("Conv", "x K", "h", {"strides": [2, 1], "pads": [1, 0, 0, 1]}), ("Relu", "h", "r"), ("Flatten", "r", "g"),
         ("Gemm", "g V", "y")], draw(K=(3, 2, 3, 2), V=(54, 2)), ("N", 2, 6, 6),
    ),
    **{f"Conv-{how}": model(
        [("Conv", "x K", "h", {"strides": [2, 1], "auto_pad": how}), ("Relu", "h", "r"), ("Flatten", "r", "g"),
         ("Gemm", "g V", "y")], draw(K=(3, 2, 3, 2), V=(size, 2)), ("N", 2, 6, 6),
    ) for how, size in (("SAME_UPPER", 54), ("SAME_LOWER", 54), ("VALID", 30))},
    "Conv-1d": model(
        [("Conv", "x K k", "h", {"pads": [1, 1]}), ("Gelu", "h", "r"), ("Flatten", "r", "g"), ("Gemm", "g V", "y")],
        draw(K=(3, 2, 3), k=(3,), V=(21, 2)), ("N", 2, 7),
    ),
    "Conv-vector-as-signal": model(
        [("Unsqueeze", "x a", "u"), ("Conv", "u K k", "h"), ("Gelu", "h", "r"), ("Flatten", "r", "g"),
         ("Gemm", "g V", "y")], {**draw(K=(3, 1, 3), k=(3,), V=(15, 2)), "a": ints(1)}, ("N", 7),
    ),
    "Reshape-vector-to-image": model(
        [("Reshape", "x s", "u"), ("Conv", "u K k", "h"), ("Gelu", "h", "r"), ("Flatten", "r", "g"),
         ("Gemm", "g V", "y")], {**draw(K=(3, 1, 2, 3), k=(3,), V=(6, 2)), "s": ints(-1, 1, 2, 4)}, ("N", 8),
    ),
    "Conv-Add": cnn(("Add", "h m", "s"), ("Relu", "s", "r"), ("Flatten", "r", "g"), tensors=PIXEL),
    "Conv-bias-by-Add": model(
        [("Conv", "x K", "h"), ("Add", "h m", "s"), ("Relu", "s", "r"), ("GlobalAveragePool", "r", "q"),
         ("Flatten", "q", "g"), ("Gemm", "g V c", "y", {"transB": 1})], {**FEW, **PIXEL}, ("N", 2, 6, 6),
    ),
    "residual-block": cnn(
        ("Relu", "h", "r"), ("Conv", "r L l", "v", {"pads": [1, 1, 1, 1]}), ("Add", "v r", "s"), ("Relu", "s", "t"),
        ("Flatten", "t", "g"), tensors=draw(L=(3, 3, 3, 3), l=(3,)),
    ),
    "residual-with-pooled-shortcut": cnn(
        ("Relu", "h", "r"), ("Conv", "r L l", "v", {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
        ("AveragePool", "r", "q", {"kernel_shape": [2, 2], "strides": [2, 2]}), ("Add", "q v", "s"),
        ("Tanh", "s", "t"), ("Flatten", "t", "g"), tensors=draw(L=(3, 3, 3, 3), l=(3,), V=(2, 27)),
    ),
    "AveragePool": cnn(
        ("Relu", "h", "r"), ("AveragePool", "r", "q", {"kernel_shape": [2, 3], "strides": [2, 3]}),
        ("Flatten", "q", "g"), tensors=draw(V=(2, 18)),
    ),
    "AveragePool-padded": cnn(
        ("Relu", "h", "r"),
        ("AveragePool", "r", "q", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
        ("Flatten", "q", "g"),
    ),
    "AveragePool-1d": model(
        [("AveragePool", "x", "q", {"kernel_shape": [3]}), ("Flatten", "q", "f"), ("Gemm", "f W", "h"),
         ("Tanh", "h", "g"), ("Gemm", "g V", "y")], draw(W=(10, 6), V=(6, 2)), ("N", 2, 7),
    ),
    "GlobalAveragePool": cnn(("Relu", "h", "r"), ("GlobalAveragePool", "r", "q"), ("Flatten", "q", "g"), few=True),
    "GlobalAveragePool-Squeeze": cnn(
        ("Relu", "h", "r"), ("GlobalAveragePool", "r", "q"), ("Squeeze", "q a", "g"), few=True,
        tensors={"a": ints(2, 3)},
    ),
    "ReduceMean-keep": cnn(
        ("Relu", "h", "r"), ("ReduceMean", "r a", "q"), ("Flatten", "q", "g"), few=True, tensors={"a": ints(2, 3)}
    ),
    "ReduceMean": cnn(
        ("Relu", "h", "r"), ("ReduceMean", "r a", "g", {"keepdims": 0}), few=True, tensors={"a": ints(-1, -2)}
    ),
    "ReduceMean-attribute": cnn(
        ("Relu", "h", "r"), ("ReduceMean", "r", "g", {"keepdims": 0, "axes": [2, 3]}), few=True, opset=13
    ),
    "pool-conv": cnn(
        ("AveragePool", "h", "q", {"kernel_shape": [2, 2]}), ("Conv", "q L", "v"), ("Relu", "v", "r"),
        ("Flatten", "r", "g"), tensors=draw(L=(2, 3, 1, 1), V=(2, 50)),
    ),
    "Reshape": cnn(("Relu", "h", "r"), ("Reshape", "r s", "g"), tensors={"s": ints(-1, 108)}),
    "Reshape-zero": cnn(("Relu", "h", "r"), ("Reshape", "r s", "g"), tensors={"s": ints(0, -1)}),
    "Reshape-by-Shape": cnn(
        ("Relu", "h", "r"), ("Shape", "r", "z"), ("Gather", "z i", "n"), ("Unsqueeze", "n i1", "u"),
        ("Concat", "u m", "s", {"axis": 0}), ("Reshape", "r s", "g"),
        tensors={"i": np.int64(0), "i1": ints(0), "m": ints(-1)},
    ),
    "fixed-batch": model(
        [("Conv", "x K k", "h"), ("Relu", "h", "r"), ("Reshape", "r s", "g"), ("Gemm", "g V", "y")],
        {**draw(K=(3, 2, 3, 3), k=(3,), V=(48, 2)), "s": ints(2, -1)}, (2, 2, 6, 6),
    ),
    "Transpose-nothing": cnn(("Sin", "h", "r"), ("Transpose", "r", "t", {"perm": [0, 1, 2, 3]}), ("Flatten", "t", "g")),
    "Squeeze-output": model(
        [("Gemm", "x W b", "h"), ("Relu", "h", "g"), ("Gemm", "g V", "o"), ("Squeeze", "o a", "y")],
        {**draw(W=(4, 6), b=(6,), V=(6, 1)), "a": ints(1)},
    ),
    "Reshape-output": model(
        [("Gemm", "x W b", "h"), ("Relu", "h", "g"), ("Gemm", "g V", "o"), ("Reshape", "o a", "y")],
        {**draw(W=(4, 6), b=(6,), V=(6, 1)), "a": ints(-1)},
    ),
    # batch normalisation
    "BatchNormalization": mlp(BN, ("Relu", "n", "g"), tensors=NORM),
    "BatchNormalization-Conv": cnn(BN, ("Relu", "n", "r"), ("Flatten", "r", "g"), tensors=NORM3),
    "BatchNormalization-no-bias": model(
        [("MatMul", "x W", "h"), BN, ("Relu", "n", "g"), ("MatMul", "g V", "y")], {**draw(W=(4, 6), V=(6, 2)), **NORM}
    ),
    "BatchNormalization-first": model(
        [(BN[0], BN[1].replace("h", "x", 1), "n"), ("MatMul", "n W", "y")], {**NORM, **draw(W=(6, 1))}, ("N", 6)
    ),
    "BatchNormalization-behind-activation": mlp(
        ("Relu", "h", "r"), (BN[0], BN[1].replace("h", "r", 1), "g"), tensors=NORM
    ),
    "BatchNormalization-padded": cnn(
        ("Relu", "h", "r"), (BN[0], BN[1].replace("h", "r", 1), "n"), ("Conv", "n L", "v", {"pads": [1, 1, 1, 1]}),
        ("Relu", "v", "w"), ("Flatten", "w", "g"), tensors={**NORM3, **draw(L=(3, 3, 3, 3))},
    ),
    "BatchNormalization-shared": model(
        [("MatMul", "x W", "i"), ("Tanh", "i", "j"), ("MatMul", "j W", "h"), BN, ("MatMul", "n V", "y")],
        {**draw(W=(6, 6), V=(6, 2)), **NORM}, ("N", 6),
    ),
    # activations that are sums of others
    **{f"{kind}-default": mlp((kind, "h", "g")) for kind in (
        "LeakyRelu", "HardSigmoid", "HardSwish", "Selu", "Celu", "Abs")},
    "LeakyRelu": mlp(("LeakyRelu", "h", "g", {"alpha": 0.3})),
    "LeakyRelu-steep": mlp(("LeakyRelu", "h", "g", {"alpha": 1.5})),
    "LeakyRelu-negative": mlp(("LeakyRelu", "h", "g", {"alpha": -0.5})),
    "HardSigmoid": mlp(("HardSigmoid", "h", "g", {"alpha": 0.5, "beta": 0.25})),
    "Elu-alpha": mlp(("Elu", "h", "g", {"alpha": 0.5})),
    "Elu-large": mlp(("Elu", "h", "g", {"alpha": 2.5})),
    "Celu": mlp(("Celu", "h", "g", {"alpha": 0.5})),
    "Gelu-tanh": mlp(("Gelu", "h", "g", {"approximate": "tanh"})),
    "Clip-nothing": mlp(("Clip", "h", "g")),
    "Clip": mlp(("Clip", "h l u", "g"), tensors={"l": f32(-0.5), "u": f32(0.75)}),
    "Clip-below": mlp(("Clip", "h l", "g"), tensors={"l": f32(-0.5)}),
    "Clip-six": cnn(("Clip", "h l u", "r"), ("Flatten", "r", "g"), tensors={"l": f32(0), "u": f32(6)}),
    "Clip-attributes": mlp(("Clip", "h", "g", {"min": -1.0, "max": 0.5}), opset=9),
    "PRelu": mlp(("PRelu", "h s", "g"), tensors={"s": np.linspace(-0.5, 1.5, 6, dtype=f32)}),
    "PRelu-channels": cnn(("PRelu", "h m", "r"), ("Flatten", "r", "g"), tensors=PIXEL),
    "Max": mlp(("Tanh", "h", "t"), ("Sin", "h", "s"), ("Max", "t s", "g")),
    "Min-constant": mlp(("Min", "h m", "g"), tensors=SCALE),
    # convolutions and pooling
    "Conv-groups": cnn(
        ("Conv", "h L l", "q", {"group": 3}), ("Relu", "q", "r"), ("Flatten", "r", "g"),
        tensors=draw(L=(6, 1, 3, 3), l=(6,), V=(2, 96)),
    ),
    "Conv-dilations": cnn(
        ("Conv", "h L", "q", {"dilations": [2, 1], "pads": [2, 0, 1, 0], "strides": [2, 1]}), ("Relu", "q", "r"),
        ("Flatten", "r", "g"), tensors=draw(L=(2, 3, 3, 3), V=(2, 24)),
    ),
    "ConvTranspose": cnn(
        ("ConvTranspose", "h L l", "q", {"strides": [2, 1], "pads": [1, 0, 0, 1], "output_padding": [1, 0]}),
        ("Relu", "q", "r"), ("Flatten", "r", "g"), tensors=draw(L=(3, 2, 3, 2), l=(2,), V=(2, 156)),
    ),
    "ConvTranspose-cut": cnn(
        ("ConvTranspose", "h L", "q", {"strides": [2, 2], "pads": [1, 1, 1, 1]}), ("Flatten", "q", "g"),
        tensors=draw(L=(3, 1, 1, 1), V=(2, 81)),
    ),
    "ConvTranspose-1d": model(
        [("ConvTranspose", "x L l", "h", {"strides": [3], "dilations": [2]}), ("Gelu", "h", "r"), ("Flatten", "r", "g"),
         ("Gemm", "g V", "y")], draw(L=(2, 3, 2), l=(3,), V=(63, 2)), ("N", 2, 7),
    ),
    "MaxPool": cnn(
        ("Relu", "h", "r"), ("MaxPool", "r", "q", {"kernel_shape": [2, 2], "strides": [2, 2]}), ("Flatten", "q", "g"),
        tensors=draw(V=(2, 27)),
    ),
    "MaxPool-padded": cnn(
        ("Tanh", "h", "r"), ("MaxPool", "r", "q", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ("Flatten", "q", "g"), tensors=draw(V=(2, 27)),
    ),
    "MaxPool-of-the-input": model(
        [("MaxPool", "x", "h", {"kernel_shape": [3], "dilations": [2]}), ("Flatten", "h", "g"), ("Gemm", "g V", "y")],
        draw(V=(6, 2)), ("N", 2, 7),
    ),
    "GlobalMaxPool": cnn(("Relu", "h", "r"), ("GlobalMaxPool", "r", "q"), ("Flatten", "q", "g"), few=True),
    "ReduceMax": cnn(
        ("Tanh", "h", "r"), ("ReduceMax", "r a", "q", {"keepdims": 0}), ("Flatten", "q", "g"),
        tensors={"a": ints(1, 3), **draw(V=(2, 6))},
    ),
    "AveragePool-without-the-padding": cnn(
        ("AveragePool", "h", "q", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}), ("Flatten", "q", "g")
    ),
    "AveragePool-ceil-that-changes-nothing": cnn(
        ("AveragePool", "h", "q", {"kernel_shape": [4, 4], "ceil_mode": 1}), ("Flatten", "q", "g"),
        tensors=draw(V=(2, 27)),
    ),
    # layouts
    "Transpose": cnn(("Tanh", "h", "r"), ("Transpose", "r", "q", {"perm": [0, 2, 3, 1]}), ("Flatten", "q", "g")),
    "channels-last": model(
        [("Transpose", "x", "c", {"perm": [0, 3, 1, 2]}), ("Conv", "c K k", "h"), ("Relu", "h", "r"),
         ("Transpose", "r", "l", {"perm": [0, 2, 3, 1]}), ("Add", "l m", "s"), ("Reshape", "s t", "g"),
         ("MatMul", "g V", "y")], {**draw(K=(3, 2, 3, 3), k=(3,), V=(48, 2), m=(3,)), "t": ints(-1, 48)},
        ("N", 6, 6, 2),
    ),
    "vector-to-image": mlp(
        ("Relu", "h", "r"), ("Reshape", "r s", "i"), ("Conv", "i L", "v", {"pads": [1, 1, 1, 1]}), ("Tanh", "v", "t"),
        ("Flatten", "t", "g"), tensors={"s": ints(-1, 1, 2, 3), **draw(L=(2, 1, 3, 3), V=(12, 3))},
    ),
    "Slice": mlp(
        ("Relu", "h", "r"), ("Slice", "r s e a t", "g"),
        tensors={"s": ints(5), "e": ints(-7), "a": ints(1), "t": ints(-2), **draw(V=(3, 3))},
    ),
    "Slice-attributes": cnn(
        ("Slice", "h", "q", {"starts": [1, 0], "ends": [5, 9], "axes": [2, 3]}), ("Flatten", "q", "g"),
        tensors=draw(V=(2, 72)), opset=9,
    ),
    "Split-Concat": mlp(
        ("Relu", "h", "r"), ("Split", "r s", ("p", "q"), {"axis": 1}), ("Tanh", "q", "t"),
        ("Concat", "t p o", "g", {"axis": 1}),
        tensors={"s": ints(2, 4), "o": np.array([[0.5, -1]], f32), **draw(V=(8, 3))}, shape=(1, 4),
    ),
    "Concat-images": cnn(
        ("Relu", "h", "r"), ("Concat", "r h x", "j", {"axis": 1}), ("Conv", "j L", "v"), ("Tanh", "v", "w"),
        ("Flatten", "w", "g"), tensors=draw(L=(2, 8, 3, 3), V=(2, 32)),
    ),
    "Gather": mlp(("Relu", "h", "r"), ("Gather", "r i", "g", {"axis": 1}), tensors={"i": ints(5, 0, 0, 3, 3, 3)}),
    "Pad": cnn(
        ("Tanh", "h", "r"), ("Pad", "r p v", "q"), ("Flatten", "q", "g"),
        tensors={"p": ints(0, 0, 1, 0, 0, 0, 0, 2), "v": f32(0.5), **draw(V=(2, 168))},
    ),
    "Pad-attributes": cnn(
        ("Pad", "h", "q", {"pads": [0, 0, 1, 1, 0, 0, 0, 1]}), ("Flatten", "q", "g"), tensors=draw(V=(2, 168)), opset=9,
    ),
    "Expand": mlp(
        ("Unsqueeze", "h a", "u"), ("Expand", "u s", "e"), ("Flatten", "e", "f"), ("Tanh", "f", "g"),
        tensors={"a": ints(1), "s": ints(1, 2, 1), **draw(V=(12, 3))},
    ),
    "Upsample": cnn(
        ("Upsample", "h s", "u", {"mode": "nearest"}), ("Tanh", "u", "r"), ("Flatten", "r", "g"),
        tensors={"s": np.array([1, 1, 2, 1], f32), **draw(V=(2, 216))}, opset=9,
    ),
    "DepthToSpace": cnn(
        ("Conv", "h L", "q"), ("DepthToSpace", "q", "d", {"blocksize": 2}), ("Flatten", "d", "g"),
        tensors=draw(L=(4, 3, 3, 3), V=(2, 64)),
    ),
    "tokens": model(
        [("MatMul", "x W", "h"), ("Add", "h b", "i"), ("Add", "i p", "e"), ("Gelu", "e", "r"), ("MatMul", "r U", "u"),
         ("Tanh", "u", "t"), ("Add", "t r", "s"), ("ReduceMean", "s a", "g", {"keepdims": 0}), ("MatMul", "g V", "y")],
        {**draw(W=(4, 6), b=(6,), p=(1, 5, 6), U=(6, 6), V=(6, 2)), "a": ints(1)}, ("N", 5, 4),
    ),
    "tokens-mixed": model(
        [("MatMul", "M x", "h"), ("Tanh", "h", "t"), ("Flatten", "t", "g"), ("MatMul", "g V", "y")],
        draw(M=(3, 5), V=(12, 2)), ("N", 5, 4),
    ),
    "MatMul-of-images": cnn(("MatMul", "h U", "q"), ("Flatten", "q", "g"), tensors=draw(U=(6, 6))),
    "mean-channels": cnn(
        ("ReduceMean", "h a", "q"), ("Flatten", "q", "g"), tensors={"a": ints(1), **draw(V=(2, 36))}
    ),
    "sum-of-axes": cnn(
        ("ReduceSum", "h a", "q", {"keepdims": 0}), ("Tanh", "q", "g"), tensors={"a": ints(3, 1), **draw(V=(2, 6))}
    ),
    "constant-image": cnn(("Add", "h m", "q"), ("Flatten", "q", "g"), tensors=draw(m=(3, 6, 6))),
    "product-image": cnn(("Tanh", "h", "t"), ("Mul", "t m", "q"), ("Flatten", "q", "g"), tensors=draw(m=(1, 6, 6))),
    "repeated-in-a-sum": cnn(
        ("GlobalAveragePool", "h", "p"), ("Add", "h p", "q"), ("Relu", "q", "r"), ("Flatten", "r", "g")
    ),
    "wide-product": model([("Mul", "x m", "h"), ("MatMul", "h W", "y")], draw(m=(5000,), W=(5000, 1)), ("N", 5000)),
    "four-axes-and-rows": model(
        [("Reshape", "x s", "i"), ("Conv", "i K", "c"), ("Flatten", "c", "g"), ("MatMul", "g V", "y")],
        {"s": ints(-1, 2, 6, 6), **draw(K=(1, 2, 3, 3), V=(16, 2))}, ("N", 2, 2, 3, 6),
    ),
    "no-axis-of-rows": model(
        [("MatMul", "W x", "h"), ("Relu", "h", "g"), ("MatMul", "g V", "o"), ("Add", "o b", "y")],
        draw(W=(6, 4), V=(6, 2), b=(2,)), (4,),
    ),
    "one-row-without-its-axis": model(
        [("Squeeze", "x a", "v"), ("Slice", "v s e", "l"), ("Unsqueeze", "l a", "m"), ("Gemm", "m W b", "h"),
         ("Relu", "h", "g"), ("Gemm", "g V c", "y")],
        {**MLP, **draw(W=(2, 6)), "a": ints(0), "s": ints(1), "e": ints(3)}, (1, 4),
    ),
    # ends that are no layer of weights
    "activation-end": model([("Gemm", "x W b", "h"), ("Relu", "h", "y")], MLP),
    "scaled-activation-end": model(
        [("Gemm", "x W b", "h"), ("Tanh", "h", "t"), ("Mul", "t m", "y")], {**MLP, "m": f32(2)}
    ),
    "sum-end": model(
        [("MatMul", "x W", "h"), ("Tanh", "h", "t"), ("MatMul", "t U", "u"), ("Add", "h u", "y")],
        draw(W=(4, 6), U=(6, 6)),
    ),
    "image-end": model([("Conv", "x K", "y")], draw(K=(2, 2, 3, 3)), ("N", 2, 6, 6)),
    "Conv-Flatten-end": model([("Conv", "x K", "h"), ("Flatten", "h", "y")], draw(K=(2, 2, 3, 3)), ("N", 2, 6, 6)),
    "two-outputs-joined": model(
        [("Gemm", "x W b", "h"), ("Tanh", "h", "t"), ("Gemm", "t V c", "p"), ("Gemm", "t U", "q"),
         ("Concat", "p q", "y", {"axis": 1})], {**MLP, **draw(U=(6, 2))},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_reference_evaluator(name):
    proto = CASES[name]
    read = from_onnx(proto.SerializeToString())
    assert agreement(proto, read, rows(proto)) < 1e-12
    assert set(read.params) == set(read.network.graph.weights)
    assert all(array.dtype == np.float64 for array in read.params.values())
    assert read.network.from_config(read.network.to_config()) == read.network


def read(name: str) -> Model:
    return from_onnx(CASES[name])


def activations(model: Model) -> list[str]:
    return [node.activation.name for node in model.network.graph.layers]


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith(("gelu", "silu", "mish", "soft"))])
def test_written_out_activations_are_one_layer(name):
    kind = {"silu": "swish"}.get(name.partition("-")[0], name.partition("-")[0])
    assert activations(read(name)) == [kind]
    assert read(name).network.graph.layers[0].scale == (f32(0.3).astype(float) * 2 if name == "gelu-scaled" else 1)


def test_activations_and_scales_join_their_layer():
    for name in ("Relu", "Conv", "MatMul-Add", "Mul-scalar-after", "Cast", "residual-block", "skip-behind-scaled"):
        layers = read(name).network.graph.layers
        assert len(layers) == (2 if name in ("residual-block", "skip-behind-scaled") else 1), name
    assert read("Mul-scalar-after").network.graph.layers[0].scale == f32(0.3)


def test_normalising_the_input_is_one_layer():
    for name in ("normalised-input", "Scaler", "one-minus-x", "input-by-255"):
        first, second = read(name).network.graph.layers
        assert (first.activation.name, second.activation.name) == ("identity", "relu")


def test_a_residual_sum_behind_an_activation_is_a_skip():
    for name, scale in (("skip-behind", 1.0), ("skip-behind-scaled", 0.25)):
        last = read(name).network.graph.layers[1]
        assert (last.skip, last.scale, last.activation.name) == (0, scale, "tanh")


def test_a_sum_before_an_activation_is_terms_of_one_layer():
    for name, weights in (("skip-before", [None, "U"]), ("sum-of-two-layers", ["U", "W", "b"])):
        last = read(name).network.graph.layers[1]
        assert [term.weight for term in last.terms] == weights
        assert last.skip is None


def test_weights_keep_names_and_have_a_row_for_each_unit():
    model = read("Relu")
    assert {name: array.shape for name, array in model.params.items()} == {
        "W": (6, 4), "b": (6,), "V": (3, 6), "c": (3,),
    }  # fmt: skip
    np.testing.assert_array_equal(model.params["W"], MLP["W"].T.astype(np.float64))
    np.testing.assert_array_equal(read("Conv").params["K"], IMAGE["K"].astype(np.float64))
    assert read("MatMul-transposed").params["U"].shape == (6, 4)
    assert model.network.trained_names == ("W", "b", "V", "c")
    assert (model.network.graph.read_out, model.network.graph.bias) == ("V", "c")


def test_constants_are_fixed_weights():
    model = read("normalised-input")
    assert model.network.trained_names == ("W", "b", "V")
    assert set(model.params) == {"W", "b", "V", "fixed1", "fixed2"}
    again = model.fresh(3)
    np.testing.assert_array_equal(again["fixed1"], model.params["fixed1"])
    assert not np.array_equal(again["W"], model.params["W"])
    assert "fixed1" not in read("scaled-output").network.trained_names


def test_a_shared_weight_is_one_weight():
    model = read("shared-weight")
    assert len(model.network.graph.uses("U")) == 2
    assert len(model.network.graph.uses("b")) == 3


def test_without_a_hidden_layer_there_is_an_identity():
    for name in ("no-hidden-layer", "no-hidden-layer-image"):
        (node,) = read(name).network.graph.layers
        assert (node.terms[0].weight, node.activation.name) == (None, "identity")


def test_one_output_is_one_number():
    for name in ("Squeeze-output", "Reshape-output", "MatMul-vector", "Gemm-transB"):
        assert read(name).network.output_shape == ()


def test_what_was_folded_is_noted():
    assert any("folded into W" in note for note in read("BatchNormalization").notes)
    assert any("multiplied into the weights" in note for note in read("Gemm-alpha-beta").notes)
    assert read("Relu").notes == ()
