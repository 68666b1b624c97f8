"""What a run records, when, and where it is kept inside the compiled loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

MOST_RECORDS = 4096
RECORD_BYTES = 2**26
"""One chunk holds at most this many records and bytes of them."""

DENSE = 1024
"""With `record_every=0` the first so many evaluations are recorded, then half as many per doubling."""

_SCALARS = ""  # the buffer that holds all floating-point scalars of a step in one row: one write instead of many


class State(NamedTuple):
    """The state of training before a step.

    Attributes
    ----------
    step
        Number of steps taken so far.
    params
        Weights by name.
    """

    step: Int[Array, ""]
    params: dict[str, Array]


class Info(NamedTuple):
    """What a step has computed, for functions that record.

    With minibatches, `loss`, `error` and `outputs` are those of the whole data set, and `grad` is the gradient of the
    batch.

    Parameters
    ----------
    loss
        The loss before the step.
    error
        The training error before the step.
    outputs : Array
        The outputs of all examples.
    grad
        The gradient of each trained weight.
    """

    loss: Float[Array, ""]
    error: Float[Array, ""]
    outputs: Float[Array, "n *k"]
    grad: dict[str, Array]


Measure = Callable[[State, Info], Any]


class Records(NamedTuple):
    """What was recorded in one chunk: the first `count` rows are filled."""

    count: Int[Array, ""]
    steps: Int[Array, " r"]
    values: dict[str, Array]


def observe(measures: Mapping[str, Measure], state: State, info: Info) -> dict[str, Array]:
    """Evaluate the loss, the error and the measures; names of nested values are joined by dots."""
    tree = {"loss": info.loss, "error": info.error} | {name: measure(state, info) for name, measure in measures.items()}
    return {
        ".".join(str(getattr(key, "key", getattr(key, "idx", key))) for key in path): jnp.asarray(leaf)
        for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]
    }


def capacity_for(shapes: Mapping[str, Any]) -> int:
    """Return how many records of these shapes one chunk can hold."""
    row = sum(leaf.size * leaf.dtype.itemsize for leaf in shapes.values())
    return int(min(MOST_RECORDS, max(16, RECORD_BYTES // row)))


def empty(shapes: Mapping[str, Any], capacity: int) -> Records:
    """Return buffers for `capacity` records."""
    rows = jax.eval_shape(_rows, dict(shapes))
    buffers = {name: jnp.zeros((capacity, *leaf.shape), leaf.dtype) for name, leaf in rows.items()}
    return Records(jnp.zeros((), jnp.int32), jnp.zeros(capacity, jnp.int64), buffers)


def write(records: Records, step: Array, wanted: Array, seen: dict[str, Array]) -> Records:
    """Write a row at the end; where it is not wanted the next one overwrites it."""
    at = records.count
    put = lambda buffer, value: lax.dynamic_update_index_in_dim(buffer, value, at, 0)  # noqa: E731
    return Records(at + wanted, put(records.steps, step), jax.tree.map(put, records.values, _rows(seen)))


def read(records: Records, shapes: Mapping[str, Any], lane: int | None) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return the recorded steps and values of one run, out of buffers that may hold several."""
    count = int(np.asarray(records.count) if lane is None else np.asarray(records.count)[lane])

    def rows(buffer: ArrayLike) -> np.ndarray:
        whole = np.asarray(buffer)
        return (whole[:count] if lane is None else whole[lane, :count]).copy()

    values = {name: rows(buffer) for name, buffer in records.values.items() if name != _SCALARS}
    table = rows(records.values[_SCALARS])
    values |= {name: table[:, i].copy() for i, name in enumerate(_scalars(shapes))}
    return rows(records.steps), {name: values[name] for name in shapes}


def _scalars(shapes: Mapping[str, Any]) -> list[str]:
    return [name for name, leaf in shapes.items() if leaf.shape == () and leaf.dtype == shapes["loss"].dtype]


def _rows(seen: dict[str, Array]) -> dict[str, Array]:
    together = _scalars(seen)
    rows = {name: value for name, value in seen.items() if name not in together}
    return rows | {_SCALARS: jnp.stack([seen[name] for name in together])}


def scheduled(step: Array, unit: Array, thinning: bool) -> Array:
    """Whether `step` is recorded: each `unit`, thinned out with the logarithm of the step if `thinning`."""
    if not thinning:
        return step % unit == 0
    count = step // unit
    doublings = jnp.maximum(64 - lax.clz(count | 1) - DENSE.bit_length() + 1, 0)
    return (step % unit == 0) & (count & ((1 << doublings) - 1) == 0)


def stride(step: int, unit: int, thinning: bool) -> int:
    """Return the distance between two recorded steps from `step` on; the host's twin of `scheduled`.

    >>> [stride(step, 1, True) for step in (0, 1023, 1024, 2048, 5000)]
    [1, 1, 2, 4, 8]
    """
    if not thinning:
        return unit
    return unit << max((step // unit | 1).bit_length() - DENSE.bit_length() + 1, 0)
