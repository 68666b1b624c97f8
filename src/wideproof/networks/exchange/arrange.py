"""Operators that only move, repeat or drop entries, or put zeros between them, as functions of an array.

Constants go through them as they are; of the network's values it is an array of their entries' numbers that does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from wideproof.errors import InputError
from wideproof.networks.exchange.program import LARGEST_FOLDED, Op, axes_of

Constants = Mapping[str, Any]
Change = Callable[[Op, np.ndarray, Constants, int], np.ndarray]


def constant(op: Op, at: int, constants: Constants) -> np.ndarray | None:
    """Return a constant input; `None` where there is none."""
    name = op.inputs[at] if len(op.inputs) > at else ""
    if not name:
        return None
    found = constants[name]
    if not isinstance(found, np.ndarray):
        raise InputError(f"{op} takes {name!r}, which is computed from the input, where only a constant can be read")
    return found


def integers(op: Op, key: str, at: int, constants: Constants) -> list[int] | None:
    """Return integers, which newer files give as an input and older ones as an attribute."""
    if key in op.options:
        return [int(v) for v in np.ravel(op.options[key])]
    found = constant(op, at, constants)
    return None if found is None else [int(v) for v in found.reshape(-1)]


def changed(op: Op, x: np.ndarray, constants: Constants, fill: int) -> np.ndarray:
    """Return what an operator makes of an array; `fill` stands where nothing comes from the array."""
    found = ARRANGE[op.kind](op, x, constants, fill)
    if found.size > LARGEST_FOLDED:
        raise InputError(f"{op} makes {found.size} numbers, which are too many")
    return found


def _transpose(op: Op, x: np.ndarray, constants: Constants, fill: int) -> np.ndarray:
    return x.transpose(op.options.get("perm"))


def _reshape(op: Op, x: np.ndarray, constants: Constants, fill: int) -> np.ndarray:
    target = integers(op, "shape", 1, constants) or []
    zero = bool(op.options.get("allowzero", 0))
    return x.reshape([x.shape[k] if s == 0 and not zero else s for k, s in enumerate(target)])


def _flatten(op: Op, x: np.ndarray, constants: Constants, fill: int) -> np.ndarray:
    axis = op.options.get("axis", 1) % (x.ndim + 1) if op.options.get("axis", 1) >= 0 else op.options["axis"] + x.ndim
    return x.reshape(math.prod(x.shape[:axis]), -1)


def _squeeze(op: Op, x: np.ndarray, constants: Constants, fill: int) -> np.ndarray:
    axes = axes_of(op, constants)
    return x.squeeze(None if axes is None else tuple(axes))


def _unsqueeze(op: Op, x: np.ndarray, constants: Constants, fill: int) -> np.ndarray:
    return np.expand_dims(x, tuple(axes_of(op, constants) or ()))


def _slice(op: Op, x: np.ndarray, constants: Constants, fill: int) -> np.ndarray:
    starts, ends = integers(op, "starts", 1, constants), integers(op, "ends", 2, constants)
    if starts is None or ends is None:
        raise InputError(f"{op} says no starts or ends")
    axes = integers(op, "axes", 3, constants) or list(range(len(starts)))
    steps = integers(op, "steps", 4, constants) or [1] * len(starts)
    cut = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        whole = step < 0 and end < -x.shape[axis]
        cut[axis] = slice(start, None if whole else end, step)
    return x[tuple(cut)]


def _split(op: Op, x: np.ndarray, constants: Constants, fill: int) -> np.ndarray:
    axis, parts, part = op.options.get("axis", 0), op.options["parts"], op.options["part"]
    even = -(-x.shape[axis] // parts)
    sizes = integers(op, "split", 1, constants) or [even] * (parts - 1) + [x.shape[axis] - even * (parts - 1)]
    ends = np.cumsum([0, *sizes])
    if len(sizes) != parts or ends[-1] != x.shape[axis]:
        raise InputError(f"{op} splits {x.shape[axis]} into {sizes}")
    return np.take(x, np.arange(int(ends[part]), int(ends[part + 1])), axis)


def _gather(op: Op, x: np.ndarray, constants: Constants, fill: int) -> np.ndarray:
    at = constant(op, 1, constants)
    if at is None or at.dtype.kind not in "iu" or at.size > LARGEST_FOLDED // max(x.size, 1):
        raise InputError(f"{op} needs whole numbers for what it gathers, and not too many")
    return np.asarray(np.take(x, at, op.options.get("axis", 0)))


def padding(op: Op, constants: Constants, ndim: int) -> tuple[list[tuple[int, int]], float]:
    """Return how much stands before and after each axis, and what."""
    pads = integers(op, "pads", 1, constants) or integers(op, "paddings", 1, constants) or []
    value = constant(op, 2, constants) if "pads" not in op.options else None
    level = float(op.options.get("value", 0.0) if value is None or not value.size else value.reshape(-1)[0])
    axes = [a % ndim for a in integers(op, "axes", 3, constants) or range(ndim)]
    sides = [(0, 0)] * ndim
    for k, axis in enumerate(axes):
        sides[axis] = pads[k], pads[k + len(axes)]
    return sides, level


def _pad(op: Op, x: np.ndarray, constants: Constants, fill: int) -> np.ndarray:
    sides, level = padding(op, constants, x.ndim)
    cut = tuple(slice(max(-a, 0), s - max(-b, 0)) for s, (a, b) in zip(x.shape, sides, strict=True))
    more = [(max(a, 0), max(b, 0)) for a, b in sides]
    if math.prod(s + sum(m) for s, m in zip(x.shape, more, strict=True)) > LARGEST_FOLDED:
        raise InputError(f"{op} makes too many numbers")
    mode = op.options.get("mode", "constant")
    if mode == "constant":
        return np.pad(x[cut], more, constant_values=fill or level)
    return np.pad(x[cut], more, mode=mode)


def _expand(op: Op, x: np.ndarray, constants: Constants, fill: int) -> np.ndarray:
    target = integers(op, "shape", 1, constants) or []
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(target)))


def _tile(op: Op, x: np.ndarray, constants: Constants, fill: int) -> np.ndarray:
    times = integers(op, "repeats", 1, constants) or []
    if x.size * math.prod(times) > LARGEST_FOLDED:
        raise InputError(f"{op} makes too many numbers")
    return np.tile(x, times)


def _enlarge(op: Op, x: np.ndarray, constants: Constants, fill: int) -> np.ndarray:
    how, near = op.options.get("coordinate_transformation_mode", ""), op.options.get("nearest_mode", "")
    usual = (how or "half_pixel") == "half_pixel" or (how == "asymmetric" and near == "floor")
    if op.options.get("mode", "nearest") != "nearest" or (len(op.inputs) > 2 and not usual):
        raise InputError(f"{op} interpolates between positions: only the nearest one, a whole number of times, is read")
    given = op.options.get("scales") or constant(op, 1 if len(op.inputs) == 2 else 2, constants)
    sizes = constant(op, 3, constants)
    if given is None or not np.size(given):
        given = [] if sizes is None else [new / old for new, old in zip(sizes.tolist(), x.shape, strict=True)]
    times = [float(s) for s in np.ravel(given)]
    if len(times) != x.ndim or any(s < 1 or s != int(s) for s in times) or x.size * math.prod(times) > LARGEST_FOLDED:
        raise InputError(f"{op} enlarges by {times}: only whole numbers are read")
    for axis, s in enumerate(times):
        x = np.repeat(x, int(s), axis)
    return x


def _depth(op: Op, x: np.ndarray, constants: Constants, fill: int) -> np.ndarray:
    b, (n, c, h, w) = int(op.options["blocksize"]), x.shape
    if op.kind == "SpaceToDepth":
        return x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4).reshape(n, c * b * b, h // b, w // b)
    if op.options.get("mode", "DCR") == "DCR":
        return x.reshape(n, b, b, c // b**2, h, w).transpose(0, 3, 4, 1, 5, 2).reshape(n, -1, h * b, w * b)
    return x.reshape(n, c // b**2, b, b, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, -1, h * b, w * b)


ARRANGE: dict[str, Change] = {
    "Transpose": _transpose, "Reshape": _reshape, "Flatten": _flatten, "Squeeze": _squeeze, "Unsqueeze": _unsqueeze,
    "Slice": _slice, "Split": _split, "Gather": _gather, "Pad": _pad, "Expand": _expand, "Tile": _tile,
    "Upsample": _enlarge, "Resize": _enlarge, "DepthToSpace": _depth, "SpaceToDepth": _depth,
}  # fmt: skip
