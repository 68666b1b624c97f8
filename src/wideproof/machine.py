r"""Whether this machine computes what it was asked to: compiled programs against the same formulas in NumPy.

XLA has compiled wrong functions before: an arctan that was off by 1.25 on one kind of processor, from 64 entries on.
So the first result of every compiled program is compared with `in_numpy`, which goes through the program's own
operations one by one, in float64, with NumPy and SciPy. What is compared agrees to half the digits,
$\sqrt{u\,k}$ with unit roundoff $u$ and $k$ operations behind an entry: rounding stays far below, at about
$u \sqrt k$, and a function that is wrong lies far above.
"""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jax.core import Tracer

from wideproof.errors import MachineError

_TRUSTED: set[Hashable] = set()
_LOCK = threading.Lock()


def trusted(key: Hashable, check: Callable[[], bool | None]) -> None:
    """Run `check`, which raises `MachineError`, unless it came to an end before in this process for this `key`.

    A check that found nothing to compare returns `False`, and is run again the next time.

    >>> ran = []
    >>> for _ in range(2):
    ...     trusted("an example", lambda: ran.append("checked"))
    >>> ran
    ['checked']
    """
    if key in _TRUSTED:
        return
    if check() is not False:
        with _LOCK:  # two threads may both check: neither waits for the other, who may be compiling
            _TRUSTED.add(key)


def traced(*values: Any) -> bool:
    """Say whether any array is a tracer: inside `jit`, `grad` or `vmap` there is nothing to compare yet."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(values))


def tolerance(dtype: Any, operations: int) -> float:
    r"""Return $\sqrt{u\,k}$ for a dtype and a number of operations behind one entry.

    >>> 1e-8 < tolerance(np.float64, 100) < 2e-7
    True
    """
    return math.sqrt(np.finfo(dtype).eps / 2 * operations)


def require_agreement(what: str, found: Any, expected: Any, within: float, functions: tuple[Any, ...] = ()) -> None:
    """Raise unless `found` is within `within` of what NumPy says; `functions` are looked at to name the culprit.

    A function has a `name` and can be called on an array. Where NumPy overflows, or nearly, nothing is said.

    >>> require_agreement("a sum", np.ones(3), np.ones(3), 1e-8)
    >>> require_agreement("a sum", np.ones(3), np.array([1.0, 1.0, 1.5]), 1e-8)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    wideproof.errors.MachineError: a sum, as compiled on this machine, is off by 0.5 (NumPy says 1.5): run ...
    """
    found, expected = np.ravel(np.asarray(found, np.float64)), np.ravel(np.asarray(expected, np.float64))
    with np.errstate(invalid="ignore"):
        off = np.where(np.isfinite(found), np.abs(found - expected), np.inf)
        off = np.where(np.abs(expected) < OVERFLOWING, off, 0.0)
    if not off.size or off.max() <= within:
        return
    worst = int(np.argmax(off))
    for function in functions:
        require_function(function)
    raise MachineError(
        f"{what}, as compiled on this machine, is off by {off[worst]:.3g} (NumPy says {expected[worst]:.6g}): "
        "run `wideproof doctor`, and use another version of jaxlib"
    )


def require_function(function: Any) -> None:
    """Raise `MachineError` if a function (with a `name`) or its derivative, compiled for 1003 points, is wrong."""
    error, said = function_error(function)
    if not error <= FUNCTION_ERROR:
        raise MachineError(
            f"this machine's compiled {function.name} is wrong by {error:.3g} (NumPy says {said:.6g}): "
            "run `wideproof doctor`, and use another version of jaxlib"
        )


OVERFLOWING = 1e30  # float32 has overflowed on the way to such numbers
# In units of 1: activations are of that size on the points below.
FUNCTION_ERROR = 1e-10
_POINTS = np.linspace(-6.1, 5.0, 1003)  # whole registers and a remainder


def function_error(function: Any) -> tuple[float, float]:
    """Return how far a compiled function and its derivative are off, and what NumPy says there."""

    def both(z: Any) -> Any:
        value, pull = jax.vjp(function, z)
        return jnp.stack([value, pull(jnp.ones_like(z))[0]])

    with jax.enable_x64(True):
        found, expected = np.asarray(jax.jit(both)(_POINTS)), in_numpy(both, _POINTS)
    off = np.abs(found - expected)
    worst = np.unravel_index(np.argmax(off), off.shape)
    return float(off[worst]), float(expected[worst])


def in_numpy(function: Callable[..., Any], *arguments: Any) -> Any:
    """Evaluate a JAX function operation by operation with NumPy and SciPy, in float64; pytrees in, pytrees out.

    Operations that only pick and move entries, where NumPy has no simple twin, are done by JAX one at a time.

    >>> z = np.arange(3.0)
    >>> bool(in_numpy(lambda z: {"found": jnp.tanh(z) @ z}, z)["found"] == np.tanh(z) @ z)
    True
    """
    leaves, tree = jax.tree.flatten(arguments)
    leaves = [_wide(np.asarray(leaf)) for leaf in leaves]
    with jax.enable_x64(True):
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(*jax.tree.unflatten(tree, leaves))
        with np.errstate(all="ignore"):
            found = _run(closed.jaxpr, closed.consts, leaves)
    return jax.tree.unflatten(jax.tree.structure(shapes), found)


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype == np.float32 else array


def _run(jaxpr: Any, consts: Any, arguments: Any) -> list[Any]:
    """Run a jaxpr; what is not needed any more is forgotten."""
    values: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    values.update(zip(jaxpr.invars, arguments, strict=True))
    last = {v: i for i, eqn in enumerate(jaxpr.eqns) for v in eqn.invars if not hasattr(v, "val")}
    kept = {v for v in jaxpr.outvars if not hasattr(v, "val")}

    def read(v: Any) -> Any:
        return np.asarray(v.val if hasattr(v, "val") else values[v])

    for i, eqn in enumerate(jaxpr.eqns):
        inputs = [read(v) for v in eqn.invars]
        values.update(zip(eqn.outvars, _apply(eqn, inputs), strict=True))
        for v in eqn.invars:
            if not hasattr(v, "val") and last.get(v) == i and v not in kept:
                values.pop(v, None)
    return [read(v) for v in jaxpr.outvars]


def _apply(eqn: Any, inputs: list[Any]) -> list[Any]:
    name, params = eqn.primitive.name, eqn.params
    if name in ELEMENTWISE:
        return [ELEMENTWISE[name](*inputs)]
    if name in STRUCTURAL:
        return [STRUCTURAL[name](params, *inputs)]
    if name == "optimization_barrier":
        return inputs
    if name == "unstack":
        return list(np.moveaxis(inputs[0], params["axis"], 0))
    if name == "scan":
        return _scan(params, inputs)
    inner = next((params[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if key in params), None)
    if inner is not None:
        return _run(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), inputs)
    found = eqn.primitive.bind(*map(jnp.asarray, inputs), **params)
    return [np.asarray(leaf) for leaf in (found if eqn.primitive.multiple_results else [found])]


def _scan(params: Mapping[str, Any], inputs: list[Any]) -> list[Any]:
    consts, carries = params["num_consts"], params["num_carry"]
    fixed, carry, rows = inputs[:consts], inputs[consts : consts + carries], inputs[consts + carries :]
    order = range(params["length"])
    stacked: list[list[Any]] = []
    for i in reversed(order) if params["reverse"] else order:
        found = _run(params["jaxpr"].jaxpr, params["jaxpr"].consts, [*fixed, *carry, *(row[i] for row in rows)])
        carry = found[:carries]
        stacked.append(found[carries:])
    if params["reverse"]:
        stacked.reverse()
    return [*carry, *(np.stack(column) for column in zip(*stacked, strict=True))]


def _dot(params: Mapping[str, Any], a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Batch axes first, then what is left of `a`, then of `b`."""
    (over_a, over_b), (batch_a, batch_b) = params["dimension_numbers"]
    rest_a = [i for i in range(a.ndim) if i not in (*over_a, *batch_a)]
    rest_b = [i for i in range(b.ndim) if i not in (*over_b, *batch_b)]
    batch, left, right = ([x.shape[i] for i in axes] for x, axes in ((a, batch_a), (a, rest_a), (b, rest_b)))
    summed = math.prod(a.shape[i] for i in over_a)
    first = a.transpose(*batch_a, *rest_a, *over_a).reshape([*batch, math.prod(left), summed])
    second = b.transpose(*batch_b, *over_b, *rest_b).reshape([*batch, summed, math.prod(right)])
    return (first @ second).reshape([*batch, *left, *right])


def _broadcast(params: Mapping[str, Any], a: np.ndarray, *_: Any) -> np.ndarray:
    shape, axes = params["shape"], params["broadcast_dimensions"]
    laid = [1] * len(shape)
    for axis, size in zip(axes, a.shape, strict=True):
        laid[axis] = size
    return np.broadcast_to(a.reshape(laid), shape)


def _slice(params: Mapping[str, Any], a: np.ndarray) -> np.ndarray:
    strides = params["strides"] or (1,) * a.ndim
    cuts = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
    return a[tuple(slice(*cut) for cut in cuts)]


def _pad(params: Mapping[str, Any], a: np.ndarray, value: np.ndarray) -> np.ndarray:
    config = params["padding_config"]
    sizes = [low + high + size + max(size - 1, 0) * inside
             for size, (low, high, inside) in zip(a.shape, config, strict=True)]  # fmt: skip
    # Negative edges cut: lay everything out with positive ones first.
    room = [(max(low, 0), max(high, 0)) for low, high, _ in config]
    whole = [size + (max(low, 0) - low) + (max(high, 0) - high)
             for size, (low, high, _) in zip(sizes, config, strict=True)]  # fmt: skip
    result = np.full(whole, value, a.dtype)
    steps = [inside + 1 for *_, inside in config]
    inner = [slice(low, low + max(size - 1, 0) * step + 1 if size else low, step)
             for (low, _), size, step in zip(room, a.shape, steps, strict=True)]  # fmt: skip
    result[tuple(inner)] = a
    cut = [slice(max(-low, 0), size - max(-high, 0))
           for size, (low, high, _) in zip(whole, config, strict=True)]  # fmt: skip
    return result[tuple(cut)]


def _places(
    starts: np.ndarray, sizes: list[int], shape: tuple[int, ...], mapped: Any, own: Any, batched: Any, over: Any
) -> list[np.ndarray]:
    """Return, for each axis of an operand, where the entries of all windows lie: windows first, then their axes.

    `starts` has the windows' positions along its last axis, for the operand's axes `mapped`; `own` are the axes that a
    window keeps; `batched` axes of the operand go along with the axes `over` of `starts`.
    """
    windows, kept = starts.shape[:-1], [axis for axis in range(len(shape)) if axis in own]
    found = []
    for axis, size in enumerate(shape):
        at = starts[..., mapped.index(axis)] if axis in mapped else np.zeros(windows, np.int64)
        at = np.clip(at.astype(np.int64), 0, size - sizes[axis])
        if axis in batched:
            along = over[batched.index(axis)]
            at = np.arange(size).reshape([size if i == along else 1 for i in range(len(windows))]) + 0 * at
        laid = at.reshape([*windows, *([1] * len(kept))])
        if axis in kept:
            inner = [sizes[axis] if other == axis else 1 for other in kept]
            laid = laid + np.arange(sizes[axis]).reshape([*([1] * len(windows)), *inner])
        found.append(laid)
    return found


def _gather(params: Mapping[str, Any], a: np.ndarray, starts: np.ndarray) -> np.ndarray:
    how, sizes = params["dimension_numbers"], list(params["slice_sizes"])
    batched = tuple(how.operand_batching_dims)
    own = [axis for axis in range(a.ndim) if axis not in (*how.collapsed_slice_dims, *batched)]
    at = _places(starts, sizes, a.shape, how.start_index_map, own, batched, how.start_indices_batching_dims)
    found, windows = a[tuple(at)], starts.ndim - 1
    return np.moveaxis(found, range(windows, found.ndim), how.offset_dims)


def _scatter(params: Mapping[str, Any], a: np.ndarray, starts: np.ndarray, updates: np.ndarray) -> np.ndarray:
    how = params["dimension_numbers"]
    batched = tuple(how.operand_batching_dims)
    own = [axis for axis in range(a.ndim) if axis not in (*how.inserted_window_dims, *batched)]
    windows = starts.ndim - 1
    laid = np.moveaxis(updates, how.update_window_dims, range(windows, updates.ndim))
    sizes = [1] * a.ndim
    for axis, size in zip(own, laid.shape[windows:], strict=True):
        sizes[axis] = size
    mapped, over = how.scatter_dims_to_operand_dims, how.scatter_indices_batching_dims
    result = np.array(a)
    result[tuple(_places(starts, sizes, a.shape, mapped, own, batched, over))] = laid
    return result


def _dynamic_slice(params: Mapping[str, Any], a: np.ndarray, *starts: np.ndarray) -> np.ndarray:
    sizes = params["slice_sizes"]
    begins = [min(max(int(at), 0), whole - size) for at, whole, size in zip(starts, a.shape, sizes, strict=True)]
    return a[tuple(slice(at, at + size) for at, size in zip(begins, sizes, strict=True))]


def _select(which: np.ndarray, *cases: np.ndarray) -> np.ndarray:
    return np.where(which, cases[1], cases[0]) if len(cases) == 2 else np.choose(which, cases)


def _iota(params: Mapping[str, Any]) -> np.ndarray:
    shape, axis = params["shape"], params["dimension"]
    laid = [shape[axis] if i == axis else 1 for i in range(len(shape))]
    return np.broadcast_to(np.arange(shape[axis], dtype=params["dtype"]).reshape(laid), shape)


ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "add": operator.add, "add_any": operator.add, "sub": operator.sub, "mul": operator.mul, "neg": operator.neg,
    "div": lambda a, b: a / b if np.issubdtype(a.dtype, np.floating) else np.trunc(a / b).astype(a.dtype),
    "max": np.maximum, "min": np.minimum, "abs": np.abs, "sign": np.sign, "square": np.square, "sqrt": np.sqrt,
    "rsqrt": lambda z: 1 / np.sqrt(z), "exp": np.exp, "exp2": np.exp2, "log": np.log, "log1p": np.log1p,
    "expm1": np.expm1, "tanh": np.tanh, "sin": np.sin, "cos": np.cos, "tan": np.tan, "atan": np.arctan,
    "atan2": np.arctan2, "asin": np.arcsin, "acos": np.arccos, "sinh": np.sinh, "cosh": np.cosh,
    "logistic": scipy.special.expit, "erf": scipy.special.erf, "erfc": scipy.special.erfc,
    "erf_inv": scipy.special.erfinv, "pow": np.power, "floor": np.floor, "ceil": np.ceil, "round": np.rint,
    "ge": operator.ge, "gt": operator.gt, "le": operator.le, "lt": operator.lt, "eq": operator.eq, "ne": operator.ne,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor, "not": np.invert, "is_finite": np.isfinite,
    "select_n": _select, "stop_gradient": lambda a: a, "copy": lambda a: a, "copy_p": lambda a: a,
    "clamp": lambda low, a, high: np.clip(a, low, high),
}  # fmt: skip

STRUCTURAL: dict[str, Callable[..., Any]] = {
    "dot_general": _dot,
    "broadcast_in_dim": _broadcast,
    "reshape": lambda params, a: a.reshape(params["new_sizes"]),
    "squeeze": lambda params, a: a.squeeze(tuple(params["dimensions"])),
    "expand_dims": lambda params, a: np.expand_dims(a, tuple(params["dimensions"])),
    "transpose": lambda params, a: a.transpose(params["permutation"]),
    "rev": lambda params, a: np.flip(a, params["dimensions"]),
    "slice": _slice,
    "dynamic_slice": _dynamic_slice,
    "gather": _gather,
    "scatter": _scatter,
    "stack": lambda params, *parts: np.stack(parts, axis=params["axis"]),
    "pad": _pad,
    "concatenate": lambda params, *parts: np.concatenate(parts, axis=params["dimension"]),
    "iota": _iota,
    "convert_element_type": lambda params, a: _wide(a.astype(params["new_dtype"])),
    "integer_pow": lambda params, a: a ** params["y"],
    "reduce_sum": lambda params, a: a.sum(axis=tuple(params["axes"])),
    "reduce_max": lambda params, a: a.max(axis=tuple(params["axes"])),
    "reduce_min": lambda params, a: a.min(axis=tuple(params["axes"])),
    "reduce_or": lambda params, a: a.any(axis=tuple(params["axes"])),
    "reduce_and": lambda params, a: a.all(axis=tuple(params["axes"])),
}
