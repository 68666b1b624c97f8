"""Operators that move entries, join values or sum over axes, and the walk through all operators."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from wideproof.errors import InputError
from wideproof.networks.exchange.advice import ObstaclesError, refusal
from wideproof.networks.exchange.advice import plain as _plain
from wideproof.networks.exchange.arrange import ARRANGE, changed, constant, padding
from wideproof.networks.exchange.build import LINEAR, Builder, Value, standard
from wideproof.networks.exchange.convolutions import CONVOLUTIONS, global_average, largest
from wideproof.networks.exchange.folding import fold
from wideproof.networks.exchange.model import Model
from wideproof.networks.exchange.operators import LAYERS, contracted
from wideproof.networks.exchange.passes import simplify
from wideproof.networks.exchange.piecewise import PIECEWISE
from wideproof.networks.exchange.program import BATCH, ENDS, Op, Program, axes_of
from wideproof.networks.graph import Term


def arranged(b: Builder, op: Op) -> Value:
    """Return entries of the value in another order or shape; rows of the data stay apart."""
    value = b.seen(op)
    numbers = np.arange(math.prod(value.shape))
    pick = _changed(b, op, value, numbers.reshape(value.full))
    if not pick.size:
        raise InputError(f"{op} leaves nothing of {('N', *value.shape)}")
    whole = pick.shape[:1] == (1,) and 2 < pick.ndim < 5 and np.array_equal(pick.reshape(-1), numbers)
    if whole and -1 in value.own and value.plain is not None and value.shape == b.shape:
        b.shape = pick.shape[1:]  # the input itself can have any shape
        return Value(value.terms, b.shape, value.own)
    found = b.picked(value, pick)
    if op.kind == "Pad" and op.options.get("mode", "constant") == "constant":
        level = padding(op, b.known, pick.ndim)[1]
        if level:
            found = b.shift(found, b.table(found, np.where(pick < 0, level, 0.0), op), op)
    return found


def _changed(b: Builder, op: Op, value: Value, numbers: np.ndarray) -> np.ndarray:
    """Return what an operator makes of the numbers of the entries of one row."""
    if b.single or value.bare:
        return changed(op, numbers, b.known, -1)
    if op.kind == "Reshape":
        return numbers.reshape(1, *_target(b, op, value))
    pick = changed(op, numbers, b.known, -1)
    both = changed(op, np.concatenate([numbers, numbers + numbers.size]), b.known, -1)
    alone = both.shape == (2, *pick.shape[1:]) and pick.shape[:1] == (1,) and np.array_equal(both[:1], pick)
    if not alone or not np.array_equal(both[1:], np.where(pick < 0, -1, pick + numbers.size)):
        raise InputError(
            f"{op} mixes the rows of the data, or puts an axis before them: the rows must stay as they are"
        )
    return pick


def _target(b: Builder, op: Op, value: Value) -> tuple[int, ...]:
    """Return the shape that is asked for, the rows kept."""
    target = constant(op, 1, b.known)
    asked = np.ravel(op.options["shape"]) if target is None else target.reshape(-1)
    old = (b.program.batch or BATCH, *value.shape)
    zero = bool(op.options.get("allowzero", 0))
    new = [old[k] if s == 0 and not zero else int(s) for k, s in enumerate(asked)]
    size, known = math.prod(value.shape), math.prod(s for s in new[1:] if s != -1)
    if new[:1] == [-1] and known == size and -1 not in new[1:]:
        new[0] = old[0]
    if new[1:].count(-1) == 1 and known > 0 and size % known == 0:
        new = [size // known if k and s == -1 else s for k, s in enumerate(new)]
    if not new or new[0] != old[0] or math.prod(new[1:]) != size or min(new) < 1:
        raise InputError(f"{op} makes {asked.tolist()} of {('N', *value.shape)}: the rows must stay as they are")
    return tuple(new[1:])


def concatenated(b: Builder, op: Op) -> Value:
    """Return values and constants side by side: a sum of selections that put zeros for the others."""
    parts = [b.seen(op, k) if isinstance(b.known[name], Value) else b.known[name] for k, name in enumerate(op.inputs)]
    full = [part.full if isinstance(part, Value) else part.shape for part in parts]
    axis = op.options["axis"] % len(full[0])
    if axis == 0 and not all(part.bare for part in parts if isinstance(part, Value)):
        raise InputError(f"{op} puts rows of the data behind each other: the rows must stay as they are")
    whole = tuple(sum(f[axis] for f in full) if k == axis else s for k, s in enumerate(full[0]))
    if any(len(f) != len(whole) or f[:axis] + f[axis + 1 :] != whole[:axis] + whole[axis + 1 :] for f in full):
        raise InputError(f"{op} joins the shapes {', '.join(map(str, full))}")
    found: list[Value] = []
    rest, start = np.zeros(whole), 0
    for part, own in zip(parts, full, strict=True):
        where = (*(slice(None),) * axis, slice(start, start + own[axis]))
        start += own[axis]
        if isinstance(part, Value):
            pick = np.full(whole, -1)
            pick[where] = np.arange(math.prod(own)).reshape(own)
            found.append(b.laid(b.picked(part.now(Term(None, b.settle(part))) if part.plain is None else part, pick)))
        else:
            rest[where] = part
    joined = replace(found[0], terms=tuple(term for value in found for term in value.terms), own=frozenset())
    return b.shift(joined, b.table(joined, rest, op), op) if rest.any() else joined


def summed(b: Builder, op: Op) -> Value:
    """Return sums or averages over axes."""
    seen = b.seen(op)
    full, given = seen.full, axes_of(op, b.known)
    axes = sorted(normalize_axis_tuple(range(len(full)) if given is None else given, len(full)))
    if 0 in axes and not seen.bare:
        raise InputError(f"{op} combines rows of the data, which must stay apart")
    if op.kind == "ReduceMean" and len(full) in (3, 4) and axes == list(range(2, len(full))) and not seen.bare:
        value = global_average(b, op)
    else:
        value = _summed(b, op, seen, axes)
    keep = [1 if k in axes else s for k, s in enumerate(full)]
    shape = keep if op.options.get("keepdims", 1) else [s for k, s in enumerate(full) if k not in axes]
    return b.picked(value, np.arange(math.prod(value.shape)).reshape(shape))


def _summed(b: Builder, op: Op, seen: Value, axes: list[int]) -> Value:
    full, many = seen.full, math.prod(seen.full[a] for a in axes)
    moved = np.moveaxis(np.arange(math.prod(full)).reshape(full), axes, range(-len(axes), 0))
    row = np.full((1, many), 1 / many if op.kind == "ReduceMean" else 1.0)
    value = b.picked(seen, moved.reshape(*moved.shape[: len(full) - len(axes)], many))
    return contracted(b, value, -1, row, "", op, fixed=True)


def reduced_max(b: Builder, op: Op) -> Value:
    """Return the largest entry along axes."""
    value = b.laid(b.seen(op))
    full, given = value.full, axes_of(op, b.known)
    axes = sorted(normalize_axis_tuple(range(len(full)) if given is None else given, len(full)))
    if 0 in axes and not value.bare:
        raise InputError(f"{op} combines rows of the data, which must stay apart")
    numbers = np.moveaxis(standard(value.shape).reshape(full), axes, range(-len(axes), 0))
    rest = numbers.shape[: len(full) - len(axes)]
    windows = numbers.reshape(math.prod(rest), -1).tolist()
    found = largest(b, value, windows, (len(windows),))
    shape = [1 if k in axes else s for k, s in enumerate(full)] if op.options.get("keepdims", 1) else rest
    return b.picked(found, np.arange(len(windows)).reshape(shape))


SHAPES = {
    **dict.fromkeys(ARRANGE, arranged), "Concat": concatenated, "ReduceMean": summed, "ReduceSum": summed,
    "ReduceMax": reduced_max,
}  # fmt: skip
HANDLERS = {**LAYERS, **CONVOLUTIONS, **PIECEWISE, **SHAPES}
RANDOM = (
    "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial", "Dropout",
)  # fmt: skip
MOST = {
    "BatchNormalization": 5, "Gemm": 3, "Conv": 3, "ConvTranspose": 3, "Slice": 5, "Pad": 4, "Clip": 3, "Resize": 4,
    **dict.fromkeys(("Concat", "Max", "Min"), 1000),
    **dict.fromkeys(
        ("MatMul", "Add", "Sub", "Mul", "Div", "Reshape", "Squeeze", "Unsqueeze", "ReduceMean", "ReduceSum",
         "ReduceMax", "Gather", "Split", "Expand", "Tile", "Upsample", "PRelu"), 2,
    ),
}  # fmt: skip
"""How many inputs operators have, at most; one where they are not here."""
SAME_SHAPE = {
    *PIECEWISE, "Mul", "Div", "Softmax", "LogSoftmax", "Sign", "Floor", "Ceil", "Round", "Sqrt", "Pow", "Exp", "Log",
    "Cos", "Reciprocal", "Not", "Gelu", "Swish", "Dropout", "BatchNormalization", "CumSum", "Erf", "LRN",
    "layernorm", "layernormalization", "groupnorm", "groupnormalization", "instancenorm", "instancenormalization",
    "rmsnorm", "rmsnormalization", "softmax", "logsoftmax", "softmin", "softshrink", "hardshrink", "tanhshrink",
    "thresholdedrelu", "threshold", "glu", "rrelu", "localresponsenorm", "shrink", "hardmax",
}  # fmt: skip
"""Operators whose value, where it cannot be read, has the shape of their first one."""
LAYOUT_OF_SHAPES = ("Shape", "Size", "Cast", "Constant", "refused", "Identity", "aten.getitem")
MALFORMED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
CONTROL = ("If", "Loop", "Scan", "SequenceMap")


def build(program: Program) -> Model:
    """Return the network that a program is, or say everything that is in the way."""
    try:
        program = simplify(program)
    except MALFORMED as error:
        raise (
            error if isinstance(error, InputError) else InputError(f"the model is not well formed: {error}")
        ) from error
    b = Builder(program)
    found = list(_walked(b))
    if found:  # what stands inside a layer that cannot be read as a whole is not named as well
        whole = {op.name for op, _ in found if op.name and op.kind not in HANDLERS}
        said = dict.fromkeys(said for op, said in found if op.kind not in HANDLERS or op.name not in whole)
        raise ObstaclesError(list(said), _last_layer(b.program))
    if program.output not in b.known:
        raise InputError(f"nothing computes the output {program.output!r}")
    return b.finish()


def _last_layer(program: Program) -> str:
    """Return the name of the layer of weights that gives the output, or nothing where there is none."""
    makers, constants = {op.output: op for op in program.ops}, program.constants
    op = makers.get(program.output)
    moving = [] if op is None or op.kind != "Add" else [name for name in op.inputs if name not in constants]
    op = makers.get(moving[0]) if len(moving) == 1 else op
    if op is None or op.kind not in LINEAR or program.input in op.inputs:
        return ""
    weights = [name for name in op.inputs if name in constants]
    known = [program.names.get(name, name) for name in weights]
    return (op.name or known[0]) if len(op.inputs) - len(weights) == 1 else ""


def _walked(b: Builder) -> Iterator[tuple[Op, str]]:
    """Run all operators, and yield those with something in the way, and what.

    What an operator that cannot be read would give is its first value, where both have the same shape, so that those
    behind it are looked at too; where nothing is known of it, those that read it are left out.
    """
    lost: set[str] = set()
    for op in b.program.ops:
        unknown = [name for name in op.inputs if name and name not in b.known and name not in lost]
        if unknown:
            yield op, f"{op} reads {unknown[0]!r}, which nothing before it computes"
        elif lost.intersection(op.inputs):
            if op.kind not in HANDLERS and op.kind not in LAYOUT_OF_SHAPES:
                yield op, str(refusal(op))
        else:
            try:
                b.keep(op.output, _run(b, op))
                continue
            except MALFORMED as error:
                yield op, str(error) if isinstance(error, InputError) else f"{op} is not well formed: {error}"
            first = next((b.known[name] for name in op.inputs if isinstance(b.known.get(name), Value)), None)
            if isinstance(first, Value) and (op.kind in SAME_SHAPE or _plain(op.kind) in SAME_SHAPE):
                b.keep(op.output, first.now(*first.terms))
                continue
        lost.add(op.output)


def _run(b: Builder, op: Op) -> Value | np.ndarray:
    if op.kind in RANDOM:
        raise InputError(
            f"{op} draws random numbers: export the model for inference, as `model.eval()` does in PyTorch"
        )
    if op.kind in CONTROL:
        raise InputError(f"{op} is control flow: only networks whose layers are always the same can be read")
    if op.kind == "refused":
        raise InputError(str(op.options["said"]))
    if any(op.inputs) and all(isinstance(b.known[name], np.ndarray) for name in op.inputs if name):
        return fold(op, b.known)
    if op.kind == "Shape":
        value = b.seen(op)
        whole = np.array([*([] if value.bare else [b.program.batch or BATCH]), *value.shape], np.int64)
        return whole[op.options.get("start", 0) : op.options.get("end")]
    if op.output == b.program.output and op.kind in ENDS:
        raise InputError(f"the network ends in {op}: with `logits=True` it is read up to the linear layer before it")
    if op.kind not in HANDLERS:
        raise refusal(op)
    if len(op.inputs) > MOST.get(op.kind, 1):
        raise InputError(f"{op} has {len(op.inputs)} inputs: the file is damaged")
    return HANDLERS[op.kind](b, op)
