"""Activations that are sums of others: what has one or two kinks is written with ReLUs, exactly."""

from __future__ import annotations

import math

import numpy as np

from wideproof.errors import InputError
from wideproof.networks.activations import ELU, RAMP, RELU, SOFTPLUS
from wideproof.networks.exchange.build import Builder, Value
from wideproof.networks.exchange.operators import Handler, together
from wideproof.networks.exchange.program import Op
from wideproof.networks.graph import Term


def shared(b: Builder, value: Value) -> Value:
    """Return the value as a node, which several others may read."""
    return value.now(Term(None, b.settle(value)))


def times(b: Builder, value: Value, factor: float, op: Op) -> Value:
    """Return a multiple; a negative one is a selection of everything."""
    if factor >= 0:
        return b.scaled(value, factor, op)
    count = math.prod(value.inner)
    return value.now(b.selecting(value, np.arange(count), value.inner, np.full(count, float(factor))))


def moved(b: Builder, value: Value, by: float, op: Op) -> Value:
    """Return the value plus a number."""
    return b.shift(value, np.full((1, value.features), by), op) if by else value


def combined(b: Builder, op: Op, *parts: tuple[float, Value]) -> Value:
    """Return a sum of multiples of values that lie alike."""
    found = [times(b, value, factor, op) for factor, value in parts if factor]
    return found[0].now(*(term for value in found for term in value.terms))


def relu(b: Builder, value: Value, offset: float, op: Op, sign: float = 1.0) -> Value:
    """Return a ReLU of the value, or of minus the value, plus a number."""
    return b.activated(moved(b, times(b, value, sign, op), offset, op), RELU)


def leaky(b: Builder, op: Op) -> Value:
    """Return alpha x + (1 - alpha) relu(x)."""
    x, alpha = shared(b, b.seen(op)), float(op.options.get("alpha", np.float32(0.01)))
    return combined(b, op, (alpha, x), (1 - alpha, relu(b, x, 0.0, op)))


def prelu(b: Builder, op: Op) -> Value:
    """Return s x + (1 - s) relu(x) with a slope s for each channel, which stays fixed."""
    x, slope = shared(b, b.seen(op)), b.constant(op, 1)
    if slope is None:
        raise InputError(f"{op} takes a slope that is computed")
    if slope.ndim == 1 and slope.size > 1 and x.full[-1] != slope.size and len(x.full) > 2:
        slope = slope.reshape(-1, *(1,) * (len(x.full) - 2))
    table = b.table(x, slope.astype(np.float64), op)
    b.notes.append(f"{op}: its slopes stay fixed")
    line, bent = b.multiplied(x, table, op), b.multiplied(relu(b, x, 0.0, op), 1 - table, op)
    return line.now(*line.terms, *bent.terms)


def clip(b: Builder, op: Op) -> Value:
    """Return min(max(x, low), high) as low + relu(x - low) - relu(x - high)."""
    limits: list[float] = []
    for at, (key, start) in enumerate((("min", -math.inf), ("max", math.inf)), 1):
        given = b.constant(op, at)
        limits.append(float(op.options.get(key, start)) if given is None else float(given.reshape(())))
    if len(op.inputs) > 1 and any(name and b.constant(op, k) is None for k, name in enumerate(op.inputs) if k):
        raise InputError(f"{op} takes a limit that is computed")
    low, high = limits
    return clipped(b, shared(b, b.seen(op)), low, high, op)


def clipped(b: Builder, x: Value, low: float, high: float, op: Op) -> Value:
    """Return a value between two numbers; one of them may be infinite."""
    if not low < high:
        raise InputError(f"{op} cuts off below {low:g} and above {high:g}")
    low = -math.inf if low < -1e30 else low  # the least and the largest float32 stand for no limit
    high = math.inf if high > 1e30 else high
    if low == -math.inf:
        return x if high == math.inf else combined(b, op, (1.0, x), (-1.0, relu(b, x, -high, op)))
    first = relu(b, x, -low, op)
    if high < math.inf:
        first = combined(b, op, (1.0, first), (-1.0, relu(b, x, -high, op)))
    return moved(b, first, low, op)


def hard_sigmoid(b: Builder, op: Op) -> Value:
    """Return alpha x + beta between 0 and 1."""
    alpha, beta = float(op.options.get("alpha", np.float32(0.2))), float(op.options.get("beta", 0.5))
    return clipped(b, shared(b, moved(b, times(b, b.seen(op), alpha, op), beta, op)), 0.0, 1.0, op)


def hard_swish(b: Builder, op: Op) -> Value:
    """Return x clip(x/6 + 1/2, 0, 1) as 6 ramp(x/3) - relu(x + 3)/2 - relu(x - 3)/2."""
    x = shared(b, b.seen(op))
    smooth = b.activated(b.scaled(x, 1 / 3, op), RAMP, 6.0)
    return combined(b, op, (1.0, smooth), (-0.5, relu(b, x, 3.0, op)), (-0.5, relu(b, x, -3.0, op)))


def elu(b: Builder, op: Op) -> Value:
    """Return ELU with any alpha, or SELU: elu and relu, times numbers."""
    selu = op.kind == "Selu"
    alpha = float(op.options.get("alpha", 1.67326319217681884765625 if selu else 1.0))
    gamma = float(op.options.get("gamma", 1.05070102214813232421875)) if selu else 1.0
    if alpha < 0 or gamma < 0:
        raise InputError(f"{op} has alpha = {alpha:g} and gamma = {gamma:g}: numbers of at least 0 are read")
    if alpha == 1:
        return b.activated(b.seen(op), ELU, gamma)
    x = shared(b, b.seen(op))
    smooth = b.activated(x, ELU, gamma * alpha)
    return combined(b, op, (1.0, smooth), (gamma * (1 - alpha), relu(b, x, 0.0, op)))


def celu(b: Builder, op: Op) -> Value:
    """Return alpha elu(x / alpha)."""
    alpha = float(op.options.get("alpha", 1.0))
    if not alpha > 0:
        raise InputError(f"{op} has alpha = {alpha:g}: it must be positive")
    return b.activated(b.scaled(b.seen(op), 1 / alpha, op), ELU, alpha)


def absolute(b: Builder, op: Op) -> Value:
    """Return 2 relu(x) - x."""
    x = shared(b, b.seen(op))
    return combined(b, op, (2.0, relu(b, x, 0.0, op)), (-1.0, x))


def log_sigmoid(b: Builder, op: Op) -> Value:
    """Return -softplus(-x)."""
    return times(b, b.activated(times(b, b.seen(op), -1.0, op), SOFTPLUS), -1.0, op)


def extreme(b: Builder, op: Op) -> Value:
    """Return the larger of two values, or of a value and a number: a + relu(c - a); the smaller as a - relu(a - c)."""
    sign = -1.0 if op.kind == "Min" else 1.0
    values = [b.seen(op, k) for k in range(len(op.inputs)) if isinstance(b.known[op.inputs[k]], Value)]
    found = values[0]
    for other in values[1:]:
        first, second = together(b, op, found, other)
        first = shared(b, first)
        gap = combined(b, op, (sign, second), (-sign, first))
        found = combined(b, op, (1.0, first), (sign, b.activated(gap, RELU)))
    for array in (b.constant(op, k) for k in range(len(op.inputs))):
        if array is not None:
            found = b.widened(found, array.shape) if array.ndim and b.single else found
            x, level = shared(b, found), b.table(found, array.astype(np.float64), op)
            gap = b.activated(b.shift(times(b, x, -sign, op), sign * level, op), RELU)
            found = combined(b, op, (1.0, x), (sign, gap)) if gap.like(x) else _apart(b, op, x, sign, gap)
    return found


def _apart(b: Builder, op: Op, x: Value, sign: float, gap: Value) -> Value:
    return combined(b, op, (1.0, b.laid(x)), (sign, b.laid(gap)))


PIECEWISE: dict[str, Handler] = {
    "LeakyRelu": leaky, "PRelu": prelu, "Clip": clip, "HardSigmoid": hard_sigmoid, "HardSwish": hard_swish,
    "Elu": elu, "Selu": elu, "Celu": celu, "Abs": absolute, "LogSigmoid": log_sigmoid, "Max": extreme, "Min": extreme,
}  # fmt: skip
