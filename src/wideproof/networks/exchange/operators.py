"""What each operator does to values: sums, products, layers of weights, activations."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from wideproof.errors import InputError
from wideproof.networks.activations import ACTIVATIONS
from wideproof.networks.exchange.build import Builder, Value
from wideproof.networks.exchange.program import Op

Handler = Callable[[Builder, Op], Value]

ELEMENTWISE = {
    "Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "Softplus": "softplus", "Erf": "erf",
    "Softsign": "softsign", "Mish": "mish", "Gelu": "gelu", "Swish": "swish", "Sin": "sin", "Atan": "arctan",
}  # fmt: skip


def contracted(b: Builder, value: Value, axis: int, rows: np.ndarray, name: str, op: Op, fixed: bool = False) -> Value:
    """Return a matrix, one row per unit, times an axis of a value, at every place of the other axes."""
    axis %= len(value.full)
    value = b.bared(value) if axis == 0 else value
    full = value.full
    if axis == 0 and not value.bare:
        raise InputError(f"{op} combines rows of the data, which must stay apart")
    moved = np.moveaxis(np.arange(math.prod(full)).reshape(full), axis, 0)
    others = moved.shape[1:]
    inner = (len(moved), *([math.prod(others)] if len(full) > 2 or (value.bare and len(full) > 1) else []))
    found = b.dense(b.laid(b.picked(value, moved.reshape(1, *inner))), rows, name, op, fixed)
    return b.picked(found, np.moveaxis(np.arange(math.prod(found.shape)).reshape(len(rows), *others), 0, axis))


def gemm(b: Builder, op: Op) -> Value:
    """Return `alpha A B + beta C`."""
    weight = b.constant(op, 1)
    if weight is None or op.options.get("transA", 0) or weight.ndim != 2:
        raise InputError(f"{op} must multiply the network's value from the right by a constant, with transA = 0")
    value = b.seen(op)
    if len(value.full) != 2 and not op.options.get("tokens"):
        said = value.shape if value.bare else ("N", *value.shape)
        raise InputError(f"{op} multiplies a value of shape {said} by a matrix: flatten it to (N, features) before it")
    rows = weight if op.options.get("transB", 0) else weight.T
    alpha, beta = op.options.get("alpha", 1.0), op.options.get("beta", 1.0)
    for factor in {alpha, beta} - {1.0}:
        b.notes.append(f"{op}: the factor {factor:g} is multiplied into the weights")
    value = contracted(b, value, -1, alpha * rows if alpha != 1 else rows, op.inputs[1], op)
    return biased(b, op, value, beta)


def matmul(b: Builder, op: Op) -> Value:
    """Return the value times a constant matrix, on its last axis or its last but one, or times one vector."""
    left, right = b.constant(op, 0), b.constant(op, 1)
    weight, at = (left, 0) if left is not None else (right, 1)
    while weight is not None and weight.ndim > 2 and weight.shape[0] == 1:
        weight = weight[0]
    if weight is None or weight.ndim not in (1, 2) or (at == 0 and weight.ndim == 1):
        raise InputError(
            f"{op} must multiply the network's value by a constant matrix: products of two values are not read"
        )
    value = b.seen(op, 1 - at)
    if at == 0:
        return contracted(b, value, -2 if len(value.full) > 1 else -1, weight, op.inputs[0], op)
    found = contracted(b, value, -1, weight.T if weight.ndim == 2 else weight[None], op.inputs[1], op)
    if weight.ndim == 2:
        return found
    return b.picked(found, np.arange(math.prod(found.shape)).reshape(found.full[:-1]))


def biased(b: Builder, op: Op, value: Value, factor: float = 1.0) -> Value:
    """Return the value plus the third input of a Gemm or a Conv."""
    shift = b.constant(op, 2)
    if shift is None:
        if len(op.inputs) > 2 and op.inputs[2]:
            raise InputError(f"{op} adds a value that is not a constant: use Add")
        return value
    if op.kind != "Gemm":
        shift = shift.reshape(-1, *(1,) * (len(value.shape) - 1))
    return added(b, op, value, np.asarray(factor * shift), op.inputs[2], True)


def added(b: Builder, op: Op, value: Value, array: np.ndarray, name: str, named: bool) -> Value:
    """Return the value plus a constant, which keeps its name where it is a number for each feature, in their order."""
    array = array.astype(np.float64)
    value = b.widened(value, array.shape) if array.ndim and b.single else value
    table = b.table(value, array, op)
    keeps = named and np.array_equal(array.reshape(-1), table[0])
    if not keeps and b.program.names.get(name, name) in (b.program.trained or ()):
        b.notes.append(f"{b.program.names.get(name, name)} is added at every position in its own way, and stays fixed")
    return b.shift(value, table, op, name if keeps else "")


def _operands(b: Builder, op: Op) -> tuple[Value, Value | np.ndarray, bool]:
    """Return the value, what it is combined with, and whether the value comes second."""
    first, second = (b.known[name] for name in op.inputs[:2])
    if isinstance(first, Value):
        return b.seen(op), b.seen(op, 1) if isinstance(second, Value) else second, False
    return b.seen(op, 1), first, True


def together(b: Builder, op: Op, first: Value, second: Value) -> tuple[Value, Value]:
    """Return two values that lie alike, repeated where that is needed."""
    try:
        first, second = b.widened(first, second.full), b.widened(second, first.full)
    except ValueError:
        raise InputError(
            f"{op} adds values of the shapes {first.shape} and {second.shape}: they must be the same"
        ) from None
    return (first, second) if first.like(second) else (b.laid(first), b.laid(second))


def add(b: Builder, op: Op) -> Value:
    """Return a sum or a difference of two values, or of a value and a constant."""
    value, other, swapped = _operands(b, op)
    sign = -1.0 if op.kind == "Sub" else 1.0
    if isinstance(other, Value):
        other = b.scaled(other, sign, op) if sign < 0 else other
        value, other = together(b, op, value, other)
        return replace(value, terms=value.terms + other.terms, own=value.own | other.own)
    if swapped and sign < 0:
        value, sign = b.scaled(value, -1.0, op), 1.0
    return added(b, op, value, np.asarray(sign * other), op.inputs[0 if swapped else 1], sign > 0 and op.kind == "Add")


def multiply(b: Builder, op: Op) -> Value:
    """Return the product of a value and a constant, or the quotient."""
    value, other, swapped = _operands(b, op)
    if isinstance(other, Value) or (swapped and op.kind == "Div"):
        raise InputError(
            f"{op} does not multiply by a constant: of products of two values only GELU as x/2 (1 + erf(x/sqrt 2)), "
            "SiLU as x sigmoid(x), Mish as x tanh(softplus(x)) and Softsign are supported"
        )
    other = other.astype(np.float64)
    if op.kind == "Div" and not other.all():
        raise InputError(f"{op} divides by zero")
    factors = np.asarray(1 / other) if op.kind == "Div" else other
    if factors.size == 1 and factors.ndim <= len(value.full):
        return b.scaled(value, float(factors.reshape(-1)[0]), op)
    value = b.widened(value, factors.shape) if b.single else value
    return b.multiplied(value, b.table(value, factors, op), op)


def negative(b: Builder, op: Op) -> Value:
    """Return minus the value."""
    return b.scaled(b.seen(op), -1.0, op)


def scaler(b: Builder, op: Op) -> Value:
    """Return `(x - offset) scale`, as scikit-learn's scalers are written."""
    value = b.value(op)
    offset, scale = (
        np.asarray(op.options.get(key, [start]), float) for key, start in (("offset", 0.0), ("scale", 1.0))
    )
    shifted = b.shift(value, -b.table(value, offset, op), op)
    return b.multiplied(shifted, b.table(shifted, scale, op), op)


def batch_norm(b: Builder, op: Op) -> Value:
    """Fold the normalisation into the weights before it; where that cannot be done it is a layer that stays fixed."""
    value = b.value(op)
    arrays = [b.constant(op, k) for k in range(1, 5)]
    if op.options.get("training_mode", 0) or not op.options.get("spatial", 1) or any(a is None for a in arrays):
        raise InputError(f"{op} is in training mode: export the model for inference, as `model.eval()` does in PyTorch")
    column = (-1, *(1,) * (len(value.shape) - 1))
    tables = [b.table(value, a.reshape(column), op) for a in arrays if a is not None]
    gamma, beta, mean, variance = (table[0] for table in tables)
    total = variance + op.options.get("epsilon", 1e-5)
    if not (total > 0).all():
        raise InputError(f"{op} has a variance that is not positive")
    factor = gamma / np.sqrt(total)
    rest = beta - factor * mean
    weights = [(term.weight, term.moves) for term in value.terms]
    sole = all(name is not None and b.counts[name] == 1 for name, _ in weights)
    if not sole or not any(moves and name not in b.fixed for name, moves in weights):
        b.notes.append(f"{op} is a layer of its own, whose scale and shift stay fixed")
        return b.shift(b.multiplied(value, factor[None], op), rest[None], op)
    for name, _ in weights:
        assert name is not None
        b.params[name] *= factor.reshape(-1, *(1,) * (b.params[name].ndim - 1))
    shifts = [name for name, moves in weights if not moves]
    names = ", ".join(str(name) for name, moves in weights if moves)
    b.folded.append((op, names))
    if shifts:
        b.params[shifts[0] or ""] += rest
        return value
    return b.shift(value, rest[None], op, op.inputs[2])


def elementwise(b: Builder, op: Op) -> Value:
    """Return an activation."""
    name = ELEMENTWISE[op.kind]
    if op.kind == "Swish" and op.options.get("alpha", 1.0) != 1:
        raise InputError(f"{op} has alpha = {op.options['alpha']:g}: only 1 is supported")
    if op.kind == "Gelu" and op.options.get("approximate", "none") != "none":
        name = "gelu_tanh"
    return b.activated(b.seen(op), ACTIVATIONS[name])


LAYERS: dict[str, Handler] = {
    "Gemm": gemm, "MatMul": matmul, "Add": add, "Sub": add, "Mul": multiply, "Div": multiply,
    "Neg": negative, "BatchNormalization": batch_norm, "ai.onnx.ml.Scaler": scaler,
    **dict.fromkeys(ELEMENTWISE, elementwise),
}  # fmt: skip
