"""Operators that average over positions or only change a shape, and the walk through all operators."""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from wideproof.errors import InputError
from wideproof.networks.exchange.advice import refusal
from wideproof.networks.exchange.build import Builder, Value
from wideproof.networks.exchange.model import Model
from wideproof.networks.exchange.operators import LAYERS, window
from wideproof.networks.exchange.passes import simplify
from wideproof.networks.exchange.program import BATCH, ENDS, Op, Program, axes_of, fold
from wideproof.networks.maps import Average, Sizes


def average_pool(b: Builder, op: Op) -> Value:
    """Return averages over windows."""
    value = b.value(op)
    grid, size = value.shape[1:], tuple(op.options.get("kernel_shape", ()))
    if len(grid) not in (1, 2) or len(size) != len(grid):
        raise InputError(f"{op} must average over windows of signals (1-D) or images (2-D)")
    phi = window(op, grid, size, Average)
    if op.options.get("ceil_mode", 0):
        raise InputError(f"{op} has ceil_mode = 1, where windows stand over the edge: use 0")
    if any(map(any, phi.padding)) and not op.options.get("count_include_pad", 0):
        raise InputError(f"{op} leaves the padding out of its averages: use count_include_pad = 1, or no padding")
    return b.pooled(value, phi)


def global_average(b: Builder, op: Op) -> Value:
    """Return the average over all positions, which keep their axes."""
    value = b.value(op)
    grid = value.shape[1:]
    if len(grid) not in (1, 2):
        raise InputError(f"{op} must average over the positions of signals (1-D) or images (2-D)")
    return b.pooled(value, Average(grid, grid, (1,) * len(grid), ((0, 0),) * len(grid)))


def reduce_mean(b: Builder, op: Op) -> Value:
    """Return the average over all positions."""
    rank = len(b.value(op).shape) + 1
    axes = sorted(normalize_axis_tuple(axes_of(op, b.known) or (), rank))
    if rank < 3 or axes != list(range(2, rank)):
        raise InputError(
            f"{op} averages over the axes {axes}: only all positions of an image (axes 2, 3) are supported"
        )
    value = global_average(b, op)
    return value if op.options.get("keepdims", 1) else b.flat(value)


def reshaped(b: Builder, value: Value, shape: Sizes, op: Op) -> Value:
    """Return the value in another shape, where that does not mix positions and features."""
    if shape == value.shape:
        return value
    if math.prod(shape) == math.prod(value.shape):
        if len(shape) < 2:
            flat = b.flat(value)
            return Value(flat.terms, shape, flat.own)
        if -1 in value.own and value.plain is not None and value.shape == b.shape and len(shape) < 4:
            b.shape = shape
            return Value(value.terms, shape, value.own)
    raise InputError(
        f"{op} makes {('N', *shape)} of {('N', *value.shape)}: values can be flattened to (N, features), and only the "
        "input itself can be laid out as an image"
    )


def reshape(b: Builder, op: Op) -> Value:
    """Return the value in the shape that is asked for, the rows kept."""
    value, target = b.value(op), b.constant(op, 1)
    if target is None:
        raise InputError(f"{op} takes a shape that is not known beforehand")
    old = (b.program.batch or BATCH, *value.shape)
    zero = bool(op.options.get("allowzero", 0))
    new = [old[k] if s == 0 and not zero else int(s) for k, s in enumerate(target.reshape(-1))]
    size, known = math.prod(value.shape), math.prod(s for s in new[1:] if s != -1)
    if new[:1] == [-1] and known == size and -1 not in new[1:]:
        new[0] = old[0]
    if new[1:].count(-1) == 1 and known > 0 and size % known == 0:
        new = [size // known if k and s == -1 else s for k, s in enumerate(new)]
    if not new or new[0] != old[0] or math.prod(new[1:]) != size or min(new) < 1:
        raise InputError(f"{op} makes {target.tolist()} of {('N', *value.shape)}: the rows must stay as they are")
    return reshaped(b, value, tuple(new[1:]), op)


def squeeze(b: Builder, op: Op) -> Value:
    """Return the value without axes of length 1."""
    value = b.value(op)
    rank = len(value.shape) + 1
    axes = axes_of(op, b.known)
    gone = [k for k, s in enumerate(value.shape, 1) if s == 1] if axes is None else normalize_axis_tuple(axes, rank)
    if any(k == 0 or value.shape[k - 1] != 1 for k in gone):
        raise InputError(f"{op} removes the axes {axes} of {('N', *value.shape)}: only axes of length 1 can go")
    return reshaped(b, value, tuple(s for k, s in enumerate(value.shape, 1) if k not in gone), op)


def unsqueeze(b: Builder, op: Op) -> Value:
    """Return the value with further axes of length 1."""
    value = b.value(op)
    axes = axes_of(op, b.known) or []
    rank, rest = len(value.shape) + 1 + len(axes), iter(("N", *value.shape))
    new = normalize_axis_tuple(axes, rank)
    shape = [1 if k in new else next(rest) for k in range(rank)]
    if shape[0] != "N":
        raise InputError(f"{op} puts an axis before the rows")
    return reshaped(b, value, tuple(int(s) for s in shape[1:]), op)


def flatten(b: Builder, op: Op) -> Value:
    """Return the value as one vector per row."""
    value = b.value(op)
    axis = op.options.get("axis", 1)
    if axis not in (1, -len(value.shape)):
        raise InputError(f"{op} flattens from axis {axis}: only axis 1 keeps the rows")
    return reshaped(b, value, (math.prod(value.shape),), op)


def transpose(b: Builder, op: Op) -> Value:
    """Return the value, if nothing is transposed."""
    value = b.value(op)
    order = list(op.options.get("perm", range(len(value.shape), -1, -1)))
    if order != list(range(len(value.shape) + 1)):
        raise InputError(f"{op} changes the order of axes to {order}: export the model with channels before positions")
    return value


SHAPES = {
    "AveragePool": average_pool, "GlobalAveragePool": global_average, "ReduceMean": reduce_mean, "Reshape": reshape,
    "Squeeze": squeeze, "Unsqueeze": unsqueeze, "Flatten": flatten, "Transpose": transpose,
}  # fmt: skip
HANDLERS = {**LAYERS, **SHAPES}
RANDOM = (
    "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial", "Dropout",
)  # fmt: skip
MOST = {
    "BatchNormalization": 5, "Gemm": 3, "Conv": 3,
    **dict.fromkeys(("MatMul", "Add", "Sub", "Mul", "Div", "Reshape", "Squeeze", "Unsqueeze", "ReduceMean"), 2),
}  # fmt: skip
"""How many inputs operators have, at most; one where they are not here."""
MALFORMED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
CONTROL = ("If", "Loop", "Scan", "SequenceMap")


def build(program: Program) -> Model:
    """Return the network that a program is."""
    try:
        program = simplify(program)
    except MALFORMED as error:
        raise (
            error if isinstance(error, InputError) else InputError(f"the model is not well formed: {error}")
        ) from error
    b = Builder(program)
    for op in program.ops:
        unknown = [name for name in op.inputs if name and name not in b.known]
        if unknown:
            raise InputError(f"{op} reads {unknown[0]!r}, which nothing before it computes")
        try:
            b.keep(op.output, _run(b, op))
        except MALFORMED as error:
            raise error if isinstance(error, InputError) else InputError(f"{op} is not well formed: {error}") from error
    if program.output not in b.known:
        raise InputError(f"nothing computes the output {program.output!r}")
    return b.finish()


def _run(b: Builder, op: Op) -> Value | np.ndarray:
    if op.kind in RANDOM:
        raise InputError(
            f"{op} draws random numbers: export the model for inference, as `model.eval()` does in PyTorch"
        )
    if op.kind in CONTROL:
        raise InputError(f"{op} is control flow: only networks whose layers are always the same can be read")
    if op.kind == "Shape":
        whole = np.array([b.program.batch or BATCH, *b.value(op).shape], np.int64)
        return whole[op.options.get("start", 0) : op.options.get("end")]
    if all(isinstance(b.known[name], np.ndarray) for name in op.inputs if name):
        return fold(op, b.known)
    if op.output == b.program.output and op.kind in ENDS:
        raise InputError(f"the network ends in {op}: with `logits=True` it is read up to the linear layer before it")
    if op.kind not in HANDLERS:
        raise refusal(op)
    if len(op.inputs) > MOST.get(op.kind, 1):
        raise InputError(f"{op} has {len(op.inputs)} inputs: the file is damaged")
    return HANDLERS[op.kind](b, op)
