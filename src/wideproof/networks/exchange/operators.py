"""What each operator does to values: sums, products, layers of weights, activations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from wideproof.errors import InputError
from wideproof.networks.activations import ACTIVATIONS
from wideproof.networks.exchange.build import Builder, Value
from wideproof.networks.exchange.program import Op
from wideproof.networks.maps import Patches

Handler = Callable[[Builder, Op], Value]
P = TypeVar("P", bound=Patches)

ELEMENTWISE = {
    "Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "Softplus": "softplus", "Erf": "erf", "Elu": "elu",
    "Softsign": "softsign", "Mish": "mish", "Gelu": "gelu", "Swish": "swish", "Sin": "sin", "Atan": "arctan",
}  # fmt: skip


def gemm(b: Builder, op: Op) -> Value:
    """Return `alpha A B + beta C`."""
    weight = b.constant(op, 1)
    if weight is None or op.options.get("transA", 0):
        raise InputError(f"{op} must multiply the network's value from the right by a constant, with transA = 0")
    rows = weight if op.options.get("transB", 0) else weight.T
    alpha, beta = op.options.get("alpha", 1.0), op.options.get("beta", 1.0)
    for factor in {alpha, beta} - {1.0}:
        b.notes.append(f"{op}: the factor {factor:g} is multiplied into the weights")
    value = b.dense(b.value(op), alpha * rows if alpha != 1 else rows, op.inputs[1], op)
    return _biased(b, op, value, beta)


def matmul(b: Builder, op: Op) -> Value:
    """Return the value times a constant matrix, or times one vector."""
    weight = b.constant(op, 1)
    if weight is None or weight.ndim not in (1, 2):
        raise InputError(f"{op} must multiply the network's value from the right by a constant matrix")
    value = b.dense(b.value(op), weight.T if weight.ndim == 2 else weight[None], op.inputs[1], op)
    return value if weight.ndim == 2 else Value(value.terms, ())


def conv(b: Builder, op: Op) -> Value:
    """Return a convolution in one or two dimensions."""
    value, kernel = b.value(op), b.constant(op, 1)
    if kernel is None or kernel.ndim not in (3, 4) or len(value.shape) != kernel.ndim - 1:
        raise InputError(f"{op} must apply a constant kernel to channels of signals (1-D) or images (2-D)")
    if op.options.get("group", 1) != 1:
        raise InputError(
            f"{op} has {op.options['group']} groups: as one matrix it would train the zeros between them; use group = 1"
        )
    if kernel.shape[1] != value.features:
        raise InputError(f"{op} has a kernel for {kernel.shape[1]} channels and reads {value.features}")
    phi = window(op, value.shape[1:], kernel.shape[2:], Patches)
    return _biased(b, op, b.convolved(value, kernel, op.inputs[1], phi, op))


def window(op: Op, grid: tuple[int, ...], size: tuple[int, ...], kind: type[P]) -> P:
    """Return the windows of a convolution or a pooling."""
    n = len(grid)
    stride = tuple(int(s) for s in op.options.get("strides", (1,) * n))
    if any(d != 1 for d in op.options.get("dilations", ())):
        raise InputError(f"{op} has dilations {tuple(op.options['dilations'])}: only 1 is supported")
    if len(stride) != n or min(stride) < 1 or min(size) < 1:
        raise InputError(f"{op} has strides {stride} on a grid of {grid}")
    how, pads = op.options.get("auto_pad", "NOTSET"), [int(p) for p in op.options.get("pads", (0,) * (2 * n))]
    if how in ("SAME_UPPER", "SAME_LOWER"):
        total = [max((-(-g // s) - 1) * s + q - g, 0) for g, q, s in zip(grid, size, stride, strict=True)]
        less = [t // 2 if how == "SAME_UPPER" else t - t // 2 for t in total]
        padding = tuple((a, t - a) for a, t in zip(less, total, strict=True))
    elif how in ("NOTSET", "VALID") and len(pads) == 2 * n:
        padding = tuple(zip(pads[:n], pads[n:], strict=True)) if how == "NOTSET" else ((0, 0),) * n
    else:
        raise InputError(f"{op} has auto_pad {how!r} and pads {pads}")
    try:
        return kind(grid, tuple(int(q) for q in size), stride, padding)
    except InputError as error:
        raise InputError(f"{op} with the padding {padding}: {error}") from error


def _biased(b: Builder, op: Op, value: Value, factor: float = 1.0) -> Value:
    shift = b.constant(op, 2)
    if shift is None:
        if len(op.inputs) > 2 and op.inputs[2]:
            raise InputError(f"{op} adds a value that is not a constant: use Add")
        return value
    named = op.inputs[2] if shift.size == value.features else ""
    return b.shift(value, factor * _per_feature(shift, value.shape[:1], op), op, named)


def _per_feature(array: np.ndarray, shape: tuple[int, ...], op: Op) -> np.ndarray:
    """Return a constant, which meets values of a shape, as one number for each feature."""
    whole = (1, *shape)
    given = (1,) * (len(whole) - array.ndim) + array.shape
    if len(given) > len(whole) or any(g not in (1, s) for g, s in zip(given, whole, strict=True)):
        raise InputError(f"{op} combines a constant of shape {array.shape} with a value of shape {('N', *shape)}")
    table = array.reshape(given)[0].reshape(given[1] if shape else 1, -1)
    if np.ptp(table, axis=1).any():
        raise InputError(
            f"{op} has another number at each position: only one for each channel can be written as a layer"
        )
    return np.broadcast_to(table[:, 0], shape[:1] or (1,)).astype(np.float64)


def _operands(b: Builder, op: Op) -> tuple[Value, Value | np.ndarray, bool]:
    """Return the value, what it is combined with, and whether the value comes second."""
    first, second = (b.known[name] for name in op.inputs[:2])
    if isinstance(first, Value):
        return b.value(op), b.value(op, 1) if isinstance(second, Value) else second, False
    return b.value(op, 1), first, True


def add(b: Builder, op: Op) -> Value:
    """Return a sum or a difference of two values, or of a value and a constant."""
    value, other, swapped = _operands(b, op)
    sign = -1.0 if op.kind == "Sub" else 1.0
    if isinstance(other, Value):
        if value.shape != other.shape:
            raise InputError(f"{op} adds values of the shapes {value.shape} and {other.shape}: they must be the same")
        other = b.scaled(other, sign, op) if sign < 0 else other
        return Value(value.terms + other.terms, value.shape, value.own | other.own)
    if swapped and sign < 0:
        value, sign = b.scaled(value, -1.0, op), 1.0
    name = op.inputs[0 if swapped else 1] if sign > 0 and other.size == value.features else ""
    return b.shift(value, sign * _per_feature(other, value.shape, op), op, name if op.kind == "Add" else "")


def multiply(b: Builder, op: Op) -> Value:
    """Return the product of a value and a constant, or the quotient."""
    value, other, swapped = _operands(b, op)
    if isinstance(other, Value) or (swapped and op.kind == "Div"):
        raise InputError(
            f"{op} does not multiply by a constant: of products of two values only GELU as x/2 (1 + erf(x/sqrt 2)), "
            "SiLU as x sigmoid(x), Mish as x tanh(softplus(x)) and Softsign are supported"
        )
    factors = _per_feature(other, value.shape, op)
    if op.kind == "Div" and not factors.all():
        raise InputError(f"{op} divides by zero")
    factors = 1 / factors if op.kind == "Div" else factors
    return b.scaled(value, float(factors[0]), op) if other.size == 1 else b.multiplied(value, factors, op)


def negative(b: Builder, op: Op) -> Value:
    """Return minus the value."""
    return b.scaled(b.value(op), -1.0, op)


def scaler(b: Builder, op: Op) -> Value:
    """Return `(x - offset) scale`, as scikit-learn's scalers are written."""
    value = b.value(op)
    offset, scale = (
        np.asarray(op.options.get(key, [start]), float) for key, start in (("offset", 0.0), ("scale", 1.0))
    )
    shifted = b.shift(value, -_per_feature(offset, value.shape, op), op)
    return b.multiplied(shifted, _per_feature(scale, value.shape, op), op)


def batch_norm(b: Builder, op: Op) -> Value:
    """Fold the normalisation into the weights before it."""
    value = b.value(op)
    arrays = [b.constant(op, k) for k in range(1, 5)]
    if op.options.get("training_mode", 0) or not op.options.get("spatial", 1) or any(a is None for a in arrays):
        raise InputError(f"{op} is in training mode: export the model for inference, as `model.eval()` does in PyTorch")
    gamma, beta, mean, variance = (_per_feature(a.reshape(-1), value.shape[:1], op) for a in arrays if a is not None)
    weights = [(term.weight, term.moves) for term in value.terms]
    sole = all(name is not None and b.counts[name] == 1 for name, _ in weights)
    if not sole or not any(moves and name not in b.fixed for name, moves in weights):
        raise InputError(
            f"{op} does not come right behind a Conv or Gemm whose weights only it uses, so that it cannot be folded "
            "in: put it there, or leave it out"
        )
    total = variance + op.options.get("epsilon", 1e-5)
    if not (total > 0).all():
        raise InputError(f"{op} has a variance that is not positive")
    factor = gamma / np.sqrt(total)
    for name, _ in weights:
        assert name is not None
        b.params[name] *= factor.reshape(-1, *(1,) * (b.params[name].ndim - 1))
    rest = beta - factor * mean
    shifts = [name for name, moves in weights if not moves]
    b.notes.append(f"{op} is folded into {', '.join(str(name) for name, moves in weights if moves)}")
    if shifts:
        b.params[shifts[0] or ""] += rest
        return value
    return b.shift(value, rest, op, op.inputs[2])


def elementwise(b: Builder, op: Op) -> Value:
    """Return an activation."""
    alpha, approximate = op.options.get("alpha", 1.0), op.options.get("approximate", "none")
    if op.kind in ("Elu", "Swish") and alpha != 1:
        raise InputError(f"{op} has alpha = {alpha:g}: only 1 is supported")
    if op.kind == "Gelu" and approximate != "none":
        raise InputError(f"{op} is the approximation by tanh: only the exact GELU is supported, approximate='none'")
    return b.activated(b.value(op), ACTIVATIONS[ELEMENTWISE[op.kind]])


LAYERS: dict[str, Handler] = {
    "Gemm": gemm, "MatMul": matmul, "Conv": conv, "Add": add, "Sub": add, "Mul": multiply, "Div": multiply,
    "Neg": negative, "BatchNormalization": batch_norm, "ai.onnx.ml.Scaler": scaler,
    **dict.fromkeys(ELEMENTWISE, elementwise),
}  # fmt: skip
