"""Constants that a file computes from other constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from wideproof.errors import InputError
from wideproof.networks.exchange.arrange import ARRANGE, changed
from wideproof.networks.exchange.program import BATCH, LARGEST_FOLDED, Op, axes_of


def fold(op: Op, constants: Mapping[str, Any]) -> np.ndarray:
    """Return what an operator makes of constants."""
    try:
        return _fold(op, constants)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise error if isinstance(error, InputError) else InputError(f"{op} is not well formed: {error}") from error


def _fold(op: Op, constants: Mapping[str, Any]) -> np.ndarray:
    arrays = [np.asarray(constants[name]) for name in op.inputs if name]
    if op.kind in _ARITHMETIC:
        if np.prod([float(s) for s in np.broadcast_shapes(*(a.shape for a in arrays))]) > LARGEST_FOLDED:
            raise InputError(f"{op} computes a constant that is too large")
        return np.asarray(_ARITHMETIC[op.kind](*arrays))
    x = arrays[0]
    if op.kind == "Cast" and op.options.get("to") in CASTS:
        return x.astype(CASTS[op.options["to"]])
    if op.kind == "Concat":
        return np.concatenate(arrays, axis=op.options["axis"])
    if op.kind == "Shape":
        return np.array(x.shape, np.int64)[op.options.get("start", 0) : op.options.get("end")]
    if op.kind == "ConstantOfShape":
        return _filled(op, x)
    if (
        op.kind == "MatMul"
        and 0 < x.ndim < 3
        and 0 < arrays[1].ndim < 3
        and x.size * arrays[1].size < LARGEST_FOLDED**2
    ):
        return np.asarray(x @ arrays[1])
    if op.kind in _OVER_AXES:
        axes = axes_of(op, constants)
        if axes is None and op.options.get("noop_with_empty_axes", 0):
            return x
        found = _OVER_AXES[op.kind](
            x, axis=None if axes is None else tuple(axes), keepdims=bool(op.options.get("keepdims", 1))
        )
        return np.asarray(found, x.dtype)
    if op.kind == "Range":
        return _range(op, *(a.reshape(()).item() for a in arrays))
    if op.kind in ARRANGE:
        return changed(op, x, constants, 0)
    raise InputError(f"{op} works on constants only, which is not supported: fold it before the model is written")


def _range(op: Op, start: float, limit: float, step: float) -> np.ndarray:
    if not step or abs(limit - start) > LARGEST_FOLDED * abs(step):
        raise InputError(f"{op} computes a constant that is too large")
    return np.arange(start, limit, step)


def _filled(op: Op, shape: np.ndarray) -> np.ndarray:
    sizes = [int(s) for s in shape.reshape(-1)]
    if sizes[:1] == [BATCH]:
        sizes[0] = 1  # the same for every row
    if min(sizes, default=1) < 0 or np.prod([float(s) for s in sizes]) > LARGEST_FOLDED:
        raise InputError(f"{op} computes a constant that is too large")
    return np.full(sizes, op.options.get("number", 0.0))


_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Neg": np.negative, "Sqrt": np.sqrt, "Identity": np.asarray,
    "Div": lambda a, b: a // b if a.dtype.kind == b.dtype.kind == "i" else a / b,
    "Equal": np.equal, "Greater": np.greater, "Less": np.less, "Where": np.where, "Floor": np.floor,
    "Not": np.logical_not,
    "GreaterOrEqual": np.greater_equal, "LessOrEqual": np.less_equal, "And": np.logical_and, "Or": np.logical_or,
    "Max": np.maximum, "Min": np.minimum, "Abs": np.abs, "Mod": np.mod, "Relu": lambda a: np.maximum(a, 0),
    "Pow": lambda a, b: np.power(a, b) if a.dtype.kind == "f" else np.power(a.astype(np.float64), b).astype(a.dtype),
    "Exp": np.exp, "Log": np.log, "Sin": np.sin, "Cos": np.cos, "Tanh": np.tanh, "Reciprocal": np.reciprocal,
    "Sigmoid": lambda a: 0.5 * (1 + np.tanh(0.5 * a)), "Sign": np.sign, "Ceil": np.ceil,
}  # fmt: skip
_OVER_AXES: dict[str, Callable[..., Any]] = {
    "ReduceSum": np.sum, "ReduceMean": np.mean, "ReduceMax": np.max, "ReduceMin": np.min, "ReduceProd": np.prod,
}  # fmt: skip
CASTS = {1: np.float64, 11: np.float64, 6: np.int64, 7: np.int64, 9: np.bool_}
"""What constants become where a file casts them to float32, float64, int32, int64 or bool, by ONNX's numbers."""
LAYOUT = ("Identity", "Cast", "Transpose", "Reshape", "Squeeze", "Unsqueeze")
"""Operators that leave the entries of a weight as they are."""
FOLDED = (
    *LAYOUT, *_ARITHMETIC, "Concat", "Gather", "Slice", "Split", "Pad", "Expand", "Tile", "Flatten", "Shape",
    "ConstantOfShape", "MatMul", *_OVER_AXES, "Range",
)  # fmt: skip
