"""Convolutions of all kinds, and pooling."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import TypeVar

import numpy as np

from wideproof.errors import InputError
from wideproof.networks.activations import IDENTITY, RELU
from wideproof.networks.exchange.build import Builder, Value, standard
from wideproof.networks.exchange.operators import Handler, biased
from wideproof.networks.exchange.program import Op
from wideproof.networks.graph import Node, Term
from wideproof.networks.maps import Average, Patches

P = TypeVar("P", bound=Patches)
MOST_GROUPS = 512


def conv(b: Builder, op: Op) -> Value:
    """Return a convolution in one or two dimensions; with groups each of them is a weight of its own."""
    value, kernel = b.value(op), b.constant(op, 1)
    if kernel is None or kernel.ndim not in (3, 4) or len(value.shape) != kernel.ndim - 1:
        raise InputError(f"{op} must apply a constant kernel to channels of signals (1-D) or images (2-D)")
    groups = int(op.options.get("group", 1))
    if groups < 1 or kernel.shape[1] * groups != value.features or len(kernel) % groups:
        raise InputError(f"{op} has a kernel for {kernel.shape[1] * groups} channels and reads {value.features}")
    phi = window(op, value.shape[1:], kernel.shape[2:], Patches)
    return biased(b, op, _grouped(b, op, value, kernel, phi, groups))


def _grouped(b: Builder, op: Op, value: Value, kernel: np.ndarray, phi: Patches, groups: int) -> Value:
    if groups == 1:
        return b.convolved(value, kernel, op.inputs[1], phi, op)
    if groups > MOST_GROUPS:
        raise InputError(f"{op} has {groups} groups: at most {MOST_GROUPS} can be read, each as a weight of its own")
    name = b.program.names.get(op.inputs[1], op.inputs[1])
    value = value.now(Term(None, b.settle(value)))
    numbers, wide, terms = (
        np.arange(math.prod(value.shape)).reshape(1, groups, -1, *value.shape[1:]),
        len(kernel) // groups,
        [],
    )
    out = np.full((len(kernel), *phi.out), -1)
    for g, part in enumerate(np.split(kernel, groups)):
        own = f"{name}/{g}"
        if b.trained is not None and name in b.trained:
            b.trained |= {own}
        found = b.convolved(b.laid(b.picked(value, numbers[:, g])), part, own, phi, op)
        place = out.copy()
        place[g * wide : (g + 1) * wide] = np.arange(math.prod(found.shape)).reshape(found.shape)
        terms += b.picked(found.now(Term(None, b.settle(found))), place[None]).terms
    b.notes.append(f"{op} has {groups} groups: {name} is read as {name}/0 to {name}/{groups - 1}, one weight for each")
    return Value(tuple(terms), out.shape)


def transposed(b: Builder, op: Op) -> Value:
    """Return a transposed convolution: one with the kernel turned round, of the value with zeros in between."""
    value, kernel = b.value(op), b.constant(op, 1)
    if (
        kernel is None
        or kernel.ndim not in (3, 4)
        or len(value.shape) != kernel.ndim - 1
        or len(kernel) != value.features
    ):
        raise InputError(f"{op} must apply a constant kernel to channels of signals (1-D) or images (2-D)")
    n, grid = kernel.ndim - 2, value.shape[1:]
    strides, apart, more = (
        [int(v) for v in op.options.get(key, (start,) * n)]
        for key, start in (("strides", 1), ("dilations", 1), ("output_padding", 0))
    )
    pads = [int(v) for v in op.options.get("pads", (0,) * 2 * n)]
    if (
        op.options.get("group", 1) != 1
        or op.options.get("auto_pad", "NOTSET") != "NOTSET"
        or "output_shape" in op.options
    ):
        raise InputError(f"{op} is a transposed convolution with groups or automatic padding, which is not read")
    sides = [
        (d * (q - 1) - pads[k], d * (q - 1) - pads[k + n] + more[k])
        for k, (q, d) in enumerate(zip(kernel.shape[2:], apart, strict=True))
    ]
    between = np.full((1, value.features, *(s * (g - 1) + 1 for s, g in zip(strides, grid, strict=True))), -1)
    between[(..., *(slice(None, None, s) for s in strides))] = np.arange(math.prod(value.shape)).reshape(value.shape)
    short = [(max(-a, 0), max(-z, 0)) for a, z in sides]  # padding that cuts off more than a kernel reaches over
    cut = tuple(slice(a, s - z) for (a, z), s in zip(short, between.shape[2:], strict=True))
    reach = [d * (q - 1) for q, d in zip(kernel.shape[2:], apart, strict=True)]
    far = [(max(a - r, 0), max(z - r, 0)) for (a, z), r in zip(sides, reach, strict=True)]  # zeros that windows lie in
    sides = [(min(a, r), min(z, r)) for (a, z), r in zip(sides, reach, strict=True)]
    value = b.laid(b.picked(value, np.pad(between[(..., *cut)], [(0, 0), (0, 0), *far], constant_values=-1)))
    turned = np.flip(kernel, tuple(range(2, n + 2))).swapaxes(0, 1)
    padding = tuple((max(a, 0), max(z, 0)) for a, z in sides)
    try:
        phi = Patches(value.shape[1:], kernel.shape[2:], (1,) * n, padding, tuple(apart))
    except InputError as error:
        raise InputError(f"{op} with the padding {pads}: {error}") from error
    return biased(b, op, b.convolved(value, turned, op.inputs[1], phi, op))


def window(op: Op, grid: tuple[int, ...], size: tuple[int, ...], kind: type[P]) -> P:
    """Return the windows of a convolution or a pooling."""
    n = len(grid)
    stride = tuple(int(s) for s in op.options.get("strides", (1,) * n))
    apart = tuple(int(d) for d in op.options.get("dilations", (1,) * n))
    if len(stride) != n or min(stride) < 1 or min(size) < 1 or len(apart) != n or min(apart) < 1:
        raise InputError(f"{op} has strides {stride} and dilations {apart} on a grid of {grid}")
    reach = [d * (q - 1) + 1 for q, d in zip(size, apart, strict=True)]
    how, pads = op.options.get("auto_pad", "NOTSET"), [int(p) for p in op.options.get("pads", (0,) * (2 * n))]
    if how in ("SAME_UPPER", "SAME_LOWER"):
        total = [max((-(-g // s) - 1) * s + q - g, 0) for g, q, s in zip(grid, reach, stride, strict=True)]
        less = [t // 2 if how == "SAME_UPPER" else t - t // 2 for t in total]
        padding = tuple((a, t - a) for a, t in zip(less, total, strict=True))
    elif how in ("NOTSET", "VALID") and len(pads) == 2 * n:
        padding = tuple(zip(pads[:n], pads[n:], strict=True)) if how == "NOTSET" else ((0, 0),) * n
    else:
        raise InputError(f"{op} has auto_pad {how!r} and pads {pads}")
    try:
        return kind(grid, tuple(int(q) for q in size), stride, padding, apart)
    except InputError as error:
        raise InputError(f"{op} with the padding {padding}: {error}") from error


def average_pool(b: Builder, op: Op) -> Value:
    """Return averages over windows."""
    value = b.value(op)
    grid, size = value.shape[1:], tuple(op.options.get("kernel_shape", ()))
    if len(grid) not in (1, 2) or len(size) != len(grid):
        raise InputError(f"{op} must average over windows of signals (1-D) or images (2-D)")
    phi = window(op, grid, size, Average)
    if op.options.get("ceil_mode", 0) and phi.out != _rounded_up(phi):
        raise InputError(f"{op} has ceil_mode = 1, where windows stand over the edge: use 0")
    found = b.pooled(value, phi)
    if any(map(any, phi.padding)) and not op.options.get("count_include_pad", 0):
        inside = np.ones((1, math.prod(grid), 1))
        share = np.sum(phi.shifts(inside), axis=0)[0] / phi.count
        return b.multiplied(found, np.broadcast_to(1 / share, (len(share), found.features)), op)
    return found


def _rounded_up(phi: Patches) -> tuple[int, ...]:
    sides = zip(phi.positions, phi.reach, phi.stride, phi.padding, strict=True)
    return tuple(-(-(p + sum(pad) - q) // s) + 1 for p, q, s, pad in sides)


def global_average(b: Builder, op: Op) -> Value:
    """Return the average over all positions, which keep their axes."""
    value = b.value(op)
    grid = value.shape[1:]
    if len(grid) not in (1, 2):
        raise InputError(f"{op} must average over the positions of signals (1-D) or images (2-D)")
    return b.pooled(value, Average(grid, grid, (1,) * len(grid), ((0, 0),) * len(grid)))


def max_pool(b: Builder, op: Op) -> Value:
    """Return the largest entry of every window: a + relu(b - a) is the larger of two.

    A ReLU right before it is taken behind it: where several entries are off there is no kink.
    """
    value = b.value(op)
    grid = value.shape[1:]
    size = grid if op.kind == "GlobalMaxPool" else tuple(op.options.get("kernel_shape", ()))
    if len(grid) not in (1, 2) or len(size) != len(grid):
        raise InputError(f"{op} must take the largest over windows of signals (1-D) or images (2-D)")
    phi = window(op, grid, size, Patches)
    if op.options.get("ceil_mode", 0) and phi.out != _rounded_up(phi):
        raise InputError(f"{op} has ceil_mode = 1, where windows stand over the edge: use 0")
    value, scale = _before_relu(b, value)
    features, places = value.features, np.arange(1, math.prod(grid) + 1).reshape(1, -1, 1)
    seen = np.stack(phi.shifts(places), axis=-1).reshape(-1, phi.count) - 1  # positions, −1 outside
    numbers = standard(value.shape).reshape(features, -1)
    windows = [[int(numbers[f, p]) for p in row if p >= 0] for f, row in product(range(features), seen.tolist())]
    found = largest(b, value, windows, (features, *phi.out))
    return found if scale is None else b.activated(found, RELU, scale)


def _before_relu(b: Builder, value: Value) -> tuple[Value, float | None]:
    """Take a ReLU off that only this value reads; return its scale."""
    only = value.plain
    last = len(b.nodes) - 1
    if only is None or only.map.kind != "identity" or not 0 <= only.source == last or last not in value.own:
        return value, None
    node = b.nodes[last]
    if node.activation is not RELU or node.skip is not None:
        return value, None
    b.nodes.pop()
    b.sizes.pop()
    return Value(node.terms, value.shape), node.scale


def largest(b: Builder, value: Value, windows: list[list[int]], shape: tuple[int, ...]) -> Value:
    """Return the largest of the entries in each window; entries are numbered as in a node, windows as in the file."""
    at, terms = b.settle(value), (Term(None, b.settle(value)),)
    while max(map(len, windows)) > 1:
        first, second, alone, later = [], [], [], []
        pairs = sum(len(w) // 2 for w in windows)
        for w in windows:
            half = len(w) // 2
            made = list(range(len(first), len(first) + half))
            first += w[0 : 2 * half : 2]
            second += w[1 : 2 * half : 2]
            if len(w) % 2:
                made.append(pairs + len(alone))
                alone.append(w[-1])
            later.append(made)
        now = value.now(Term(None, at))
        inner = (pairs,)
        minus = b.selecting(now, np.array(first), inner, np.full(pairs, -1.0))
        gap = b.add(Node((b.selecting(now, np.array(second), inner), minus), RELU), inner)
        whole = (pairs + len(alone),)
        kept = b.selecting(now, np.array(first + alone), whole)
        rest = np.concatenate([np.arange(pairs), np.full(len(alone), -1)])
        terms = (kept, b.selecting(Value((Term(None, gap),), inner), rest, whole))
        windows, at = later, b.add(Node(terms, IDENTITY), whole)
        value = Value((Term(None, at),), whole)
    order = np.array([w[0] for w in windows]).reshape(1, *shape)
    return b.laid(b.picked(replace(value, terms=(Term(None, at),)), _numbers(value, order)))


def _numbers(value: Value, order: np.ndarray) -> np.ndarray:
    """Return as numbers of the file's entries what are numbers of a node's."""
    back = np.empty(math.prod(value.inner), np.int64)
    back[value.entries.reshape(-1)] = np.arange(back.size)
    return back[order]


CONVOLUTIONS: dict[str, Handler] = {
    "Conv": conv, "ConvTranspose": transposed, "AveragePool": average_pool, "GlobalAveragePool": global_average,
    "MaxPool": max_pool, "GlobalMaxPool": max_pool,
}  # fmt: skip
