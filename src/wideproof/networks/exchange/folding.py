"""Constants that a file computes from other constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from wideproof.errors import InputError
from wideproof.networks.exchange.arrange import ARRANGE, changed
from wideproof.networks.exchange.program import LARGEST_FOLDED, Op


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
    if op.kind in ARRANGE:
        return changed(op, x, constants, 0)
    raise InputError(f"{op} works on constants only, which is not supported: fold it before the model is written")


def _filled(op: Op, shape: np.ndarray) -> np.ndarray:
    sizes = [int(s) for s in shape.reshape(-1)]
    if min(sizes, default=1) < 0 or np.prod([float(s) for s in sizes]) > LARGEST_FOLDED:
        raise InputError(f"{op} computes a constant that is too large")
    return np.full(sizes, op.options.get("number", 0.0))


_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Neg": np.negative, "Sqrt": np.sqrt, "Identity": np.asarray,
    "Div": lambda a, b: a // b if a.dtype.kind == b.dtype.kind == "i" else a / b,
    "Equal": np.equal, "Greater": np.greater, "Less": np.less, "Where": np.where, "Floor": np.floor,
    "Not": np.logical_not,
    "Max": np.maximum, "Min": np.minimum, "Abs": np.abs, "Mod": np.mod,
}  # fmt: skip
CASTS = {1: np.float64, 11: np.float64, 6: np.int64, 7: np.int64, 9: np.bool_}
"""What constants become where a file casts them to float32, float64, int32, int64 or bool, by ONNX's numbers."""
LAYOUT = ("Identity", "Cast", "Transpose", "Reshape", "Squeeze", "Unsqueeze")
"""Operators that leave the entries of a weight as they are."""
FOLDED = (
    *LAYOUT, *_ARITHMETIC, "Concat", "Gather", "Slice", "Split", "Pad", "Expand", "Tile", "Flatten", "Shape",
    "ConstantOfShape", "MatMul",
)  # fmt: skip
