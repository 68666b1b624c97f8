"""Gradient descent and SGD as one compiled loop that runs a chunk of steps without returning to Python.

The loop is the same program however the steps are cut into chunks, so a run that was stopped and resumed
takes the same steps, bit for bit, as one that was not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jaxtyping import Array, Float, Int

from wideproof.networks import Network, gradient, linearize
from wideproof.training.objective import Task, training_error
from wideproof.training.recipe import Recipe

MOST_RECORDS = 4096
RECORD_BYTES = 2**26
"""One chunk holds at most this many records and bytes of them."""

_MINIBATCHES = 2**31 - 1  # folded into the seed's key; parameters use small numbers


class Status(IntEnum):
    """Why a run stopped; the loop itself only ever ends with one of these."""

    RUNNING = 0
    TARGET = 1
    ZERO_ERROR = 2
    LIMIT = 3
    DIVERGED = 4


class State(NamedTuple):
    """What a step needs of the past."""

    step: Int[Array, ""]
    params: dict[str, Array]


class Info(NamedTuple):
    """What a step computed on its way: free to record, never carried over.

    With minibatches `loss`, `error` and `outputs` are those of the whole data set, `grad` is the batch's.
    """

    loss: Float[Array, ""]
    error: Float[Array, ""]
    outputs: Float[Array, "n *k"]
    grad: dict[str, Array]


Measure = Callable[[State, Info], Any]


class Carry(NamedTuple):
    """The state of a run between two steps."""

    step: Int[Array, ""]
    trained: dict[str, Array]
    optimizer: Any
    ceiling: Float[Array, ""]
    status: Int[Array, ""]


class Records(NamedTuple):
    """What was recorded in one chunk: the first `count` rows are filled."""

    count: Int[Array, ""]
    steps: Int[Array, " r"]
    values: dict[str, Any]


class Limits(NamedTuple):
    """Numbers that steer a chunk and may change from call to call."""

    chunk_end: Int[Array, ""]
    steps: Int[Array, ""]
    unit: Int[Array, ""]
    check_unit: Int[Array, ""]
    target: Float[Array, ""]
    factor: Float[Array, ""]


class Problem(NamedTuple):
    """The arrays of one training problem."""

    x: Array
    targets: Array
    fixed: dict[str, Array]
    step_size: Float[Array, ""]
    key: Array


def start(recipe: Recipe, trained: dict[str, Array], step_size: Array) -> Carry:
    """Return the carry at step 0."""
    dtype = next(iter(trained.values())).dtype
    return Carry(
        jnp.zeros((), jnp.int64),
        trained,
        recipe.transformation(step_size).init(trained),
        jnp.full((), jnp.inf, dtype),
        jnp.zeros((), jnp.int32),
    )


def minibatch(key: Array, step: Array, n: int, batch: int) -> Int[Array, " b"]:
    """Return a uniform random subset of `batch` of `n` examples, without replacement, fresh at each step."""
    key = jax.random.fold_in(jax.random.fold_in(key, _MINIBATCHES), step)
    if batch == 1:
        return jax.random.randint(key, (1,), 0, n)
    return jax.random.permutation(key, n)[:batch]


@lru_cache(maxsize=64)
def compiled(
    network: Network,
    recipe: Recipe,
    task: Task,
    measures: tuple[tuple[str, Measure], ...],
    capacity: int,
    batched: bool = False,
) -> Callable[[Carry, Problem, Limits], tuple[Carry, Records]]:
    """Return the compiled chunk: `(carry, problem, limits) -> (carry, records)`.

    It runs until `limits.chunk_end` or until the run stops, recording at most `capacity` steps. `recipe` must have its run-time numbers
    normalized away (see `static_part`), so that one program serves every step size, seed and limit.
    With `batched`, carry, problem and records have a leading axis of independent runs.
    """
    chunk = _chunk(network, recipe, task, dict(measures), capacity)
    if batched:
        problem_axes = Problem(x=None, targets=None, fixed=0, step_size=0, key=0)  # pyright: ignore[reportArgumentType]
        chunk = jax.vmap(chunk, in_axes=(0, problem_axes, None))
    return jax.jit(chunk, donate_argnums=(0,))


def static_part(recipe: Recipe, n: int) -> Recipe:
    """Return the recipe with only what shapes the compiled program, so that equal programs are compiled once."""
    batch = recipe.batch if recipe.batch is not None and recipe.batch < n else None
    return Recipe(
        loss=recipe.loss, reduction=recipe.reduction, step_size=1.0, steps=0, batch=batch,
        stop_at_zero_error=recipe.stop_at_zero_error, optimizer=recipe.optimizer, precision=recipe.precision,
        record_every=min(recipe.record_every, 2),
    )  # fmt: skip


def _chunk(
    network: Network, recipe: Recipe, task: Task, measures: Mapping[str, Measure], capacity: int
) -> Callable:
    objective = recipe.objective
    every_step = recipe.record_every == 1 and recipe.batch is None

    def observe(state: State, info: Info) -> dict[str, Any]:
        return _observe(measures, state, info)

    def full_step(carry: Carry, problem: Problem) -> tuple[Info, Array]:
        """One gradient over the whole data set: its loss comes for free."""
        params = {**problem.fixed, **carry.trained}
        line = linearize(network, params, problem.x)
        outputs, score = jax.vjp(network.scored, line.outputs)
        targets = network.scored(problem.targets)
        cotangent = score(objective.cotangent(outputs, targets))[0]
        grad = gradient(network, params, line, cotangent)
        info = Info(objective.value(outputs, targets), training_error(outputs, targets, task), outputs, grad)
        return info, jnp.ones((), bool)

    def batch_step(carry: Carry, problem: Problem, due: Array) -> tuple[Info, Array]:
        """One gradient over a random subset; the whole loss only where it is `due`."""
        assert recipe.batch is not None
        n = problem.x.shape[0]
        params = {**problem.fixed, **carry.trained}
        chosen = minibatch(problem.key, carry.step, n, recipe.batch)
        line = linearize(network, params, problem.x[chosen])
        outputs, score = jax.vjp(network.scored, line.outputs)
        slope = objective.cotangent(outputs, network.scored(problem.targets[chosen]))
        grad = gradient(network, params, line, score(objective.batch_scale(n, recipe.batch) * slope)[0])
        targets = network.scored(problem.targets)

        def whole() -> Array:
            return network.scored(network.forward(network.linear(params), problem.x).outputs)

        outputs = lax.cond(due, whole, lambda: jnp.zeros_like(targets))
        info = Info(objective.value(outputs, targets), training_error(outputs, targets, task), outputs, grad)
        return info, due

    def body(problem: Problem, limits: Limits, loop: tuple[Carry, Records]) -> tuple[Carry, Records]:
        carry, records = loop
        k = carry.step
        scheduled = jnp.ones((), bool) if every_step else _scheduled(k, limits.unit, recipe.record_every == 0)
        last = k >= limits.steps
        if recipe.batch is None:
            info, known = full_step(carry, problem)
        else:
            info, known = batch_step(carry, problem, scheduled | last | (k % limits.check_unit == 0))
        ceiling = jnp.where(k == 0, limits.factor * info.loss, carry.ceiling)
        status = jnp.where(last, int(Status.LIMIT), int(Status.RUNNING))
        if recipe.stop_at_zero_error:
            status = jnp.where(known & (info.error == 0), int(Status.ZERO_ERROR), status)
        status = jnp.where(known & (info.loss <= limits.target), int(Status.TARGET), status)
        diverged = known & ~(info.loss <= jnp.maximum(ceiling, jnp.finfo(ceiling.dtype).tiny))
        status = jnp.where(diverged, int(Status.DIVERGED), status).astype(jnp.int32)
        done = status != int(Status.RUNNING)

        wanted = scheduled | done
        records = _write(
            records, k, wanted, _seen(observe, carry, info, wanted, problem, bool(measures), every_step)
        )

        updates, optimizer = recipe.transformation(problem.step_size).update(
            info.grad, carry.optimizer, carry.trained
        )
        moved = optax.apply_updates(carry.trained, updates)
        keep = lambda new, old: jnp.where(done, old, new)  # noqa: E731
        return Carry(
            jnp.where(done, k, k + 1),
            jax.tree.map(keep, moved, carry.trained),
            jax.tree.map(keep, optimizer, carry.optimizer),
            ceiling,
            status,
        ), records

    def chunk(carry: Carry, problem: Problem, limits: Limits) -> tuple[Carry, Records]:
        shapes = record_shapes(network, recipe, task, measures, carry, problem)
        records = Records(
            jnp.zeros((), jnp.int32),
            jnp.zeros(capacity, jnp.int64),
            jax.tree.map(lambda leaf: jnp.zeros((capacity, *leaf.shape), leaf.dtype), shapes),
        )

        def going(loop: tuple[Carry, Records]) -> Array:
            carry, _ = loop
            return (carry.step < limits.chunk_end) & (carry.status == int(Status.RUNNING))

        return lax.while_loop(going, lambda loop: body(problem, limits, loop), (carry, records))

    return chunk


def _observe(measures: Mapping[str, Measure], state: State, info: Info) -> dict[str, Any]:
    return {"loss": info.loss, "error": info.error} | {
        name: measure(state, info) for name, measure in measures.items()
    }


def record_shapes(
    network: Network,
    recipe: Recipe,
    task: Task,
    measures: Mapping[str, Measure],
    carry: Carry,
    problem: Problem,
) -> dict[str, Any]:
    """Return the shape and dtype of what one record holds, without computing it."""

    def one(carry: Carry, problem: Problem) -> dict[str, Any]:
        params = {**problem.fixed, **carry.trained}
        outputs = network.scored(network.forward(network.linear(params), problem.x).outputs)
        targets = network.scored(problem.targets)
        loss = recipe.objective.value(outputs, targets)
        info = Info(loss, training_error(outputs, targets, task), outputs, carry.trained)
        return _observe(measures, State(carry.step, params), info)

    return jax.eval_shape(one, carry, problem)


def capacity_for(shapes: Mapping[str, Any]) -> int:
    """Return how many records one chunk can hold."""
    row = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))
    return int(min(MOST_RECORDS, max(16, RECORD_BYTES // row)))


DENSE = 1024
"""With `record_every=0` the first so many evaluations are recorded, then half as many per doubling."""


def _scheduled(step: Array, unit: Array, thinning: bool) -> Array:
    if not thinning:
        return step % unit == 0
    count = step // unit
    doublings = jnp.maximum(64 - lax.clz(count | 1) - DENSE.bit_length() + 1, 0)
    return (step % unit == 0) & (count & ((1 << doublings) - 1) == 0)


def stride(step: int, unit: int, thinning: bool) -> int:
    """Return the distance between two recorded steps from `step` on; the host's twin of the compiled schedule.

    >>> [stride(step, 1, True) for step in (0, 1023, 1024, 2048, 5000)]
    [1, 1, 2, 4, 8]
    """
    if not thinning:
        return unit
    return unit << max((step // unit | 1).bit_length() - DENSE.bit_length() + 1, 0)


def _seen(
    observe: Callable,
    carry: Carry,
    info: Info,
    wanted: Array,
    problem: Problem,
    costly: bool,
    every_step: bool,
) -> dict[str, Any]:
    """Evaluate the measures, where there are any only at the steps that are recorded."""
    state = State(carry.step, {**problem.fixed, **carry.trained})
    if every_step or not costly:
        return observe(state, info)
    shapes = jax.eval_shape(observe, state, info)
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    return lax.cond(wanted, lambda: observe(state, info), lambda: nothing)


def _write(records: Records, step: Array, wanted: Array, seen: dict[str, Any]) -> Records:
    """Write a row at the end; where it is not wanted the next one overwrites it."""
    row = records.count
    put = lambda buffer, value: lax.dynamic_update_index_in_dim(buffer, value, row, 0)  # noqa: E731
    return Records(row + wanted, put(records.steps, step), jax.tree.map(put, records.values, seen))
