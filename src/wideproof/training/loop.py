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
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Float, Int

from wideproof import machine
from wideproof.networks import Network, gradient, linearize
from wideproof.training import agreement, gauss_newton
from wideproof.training.objective import Task, training_error
from wideproof.training.recipe import Recipe
from wideproof.training.recording import Info, Measure, Records, State, empty, observe, read, scheduled, write
from wideproof.training.schedules import epoch_batch

_MINIBATCHES = 2**31 - 1  # folded into the seed's key; parameters use small numbers


class Status(IntEnum):
    """Why a run stopped; `RUNNING` between chunks."""

    RUNNING = 0
    TARGET = 1
    ZERO_ERROR = 2
    LIMIT = 3
    DIVERGED = 4


class Carry(NamedTuple):
    """The state of a run between two steps."""

    step: Int[Array, ""]
    trained: dict[str, Array]
    optimizer: Any
    ceiling: Float[Array, ""]
    status: Int[Array, ""]


class Problem(NamedTuple):
    """The arrays of one training problem."""

    x: Array
    targets: Array
    fixed: dict[str, Array]
    step_size: Float[Array, ""]
    seed: Int[Array, ""]
    weights: Array | None = None
    factors: Array | None = None

    def rate(self, step: Array) -> Array:
        """Return the step size of a step."""
        if self.factors is None:
            return self.step_size
        return self.step_size * self.factors[jnp.minimum(step, len(self.factors) - 1)]


class Limits(NamedTuple):
    """Numbers that steer a chunk and may change from call to call."""

    chunk_end: Int[Array, ""]
    steps: Int[Array, ""]
    unit: Int[Array, ""]
    check_unit: Int[Array, ""]
    target: Float[Array, ""]
    factor: Float[Array, ""]


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
    """Draw a uniform random subset of the examples without replacement, a new one for each step.

    Parameters
    ----------
    key
        A JAX random key; the step is folded into it.
    step
        Number of the step.
    n
        Number of examples.
    batch
        Batch size.

    Returns
    -------
    Array
        The positions of the drawn examples.
    """
    key = jax.random.fold_in(jax.random.fold_in(key, _MINIBATCHES), step)
    if batch == 1:
        return jax.random.randint(key, (1,), 0, n)
    return jax.random.permutation(key, n)[:batch]


def static_part(recipe: Recipe, n: int) -> Recipe:
    """Return the recipe with only what shapes the compiled program, so that equal programs are compiled once."""
    batch = recipe.batch if recipe.batch is not None and recipe.batch < n else None
    return Recipe(
        loss=recipe.loss, reduction=recipe.reduction, step_size=1.0, steps=0, batch=batch,
        stop_at_zero_error=recipe.stop_at_zero_error, optimizer=recipe.optimizer, precision=recipe.precision,
        label_smoothing=recipe.label_smoothing, shuffle=recipe.shuffle and batch is not None,
        momentum=recipe.momentum, weight_decay=recipe.weight_decay, damping=recipe.damping,
        record_every=min(recipe.record_every, 2),
    )  # fmt: skip


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

    It runs until `limits.chunk_end` or until the run stops, recording at most `capacity` steps. `recipe` must be
    the `static_part` of one, so that one program serves every step size, seed and limit.
    With `batched`, carry, problem (but the data) and records have a leading axis of independent runs.
    """
    chunk = _chunk(network, recipe, task, dict(measures), capacity)
    if batched:
        problem_axes = Problem(x=None, targets=None, fixed=0, step_size=0, seed=0)  # pyright: ignore[reportArgumentType]
        chunk = jax.vmap(chunk, in_axes=(0, problem_axes, None))
    # No compiler options: with vectors of 512 bits XLA was measured to compile a wrong arctan.
    program = jax.jit(chunk, donate_argnums=(0,))

    def checked(carry: Carry, problem: Problem, limits: Limits) -> tuple[Carry, Records]:
        """Run the program; before the first use of its kind in this process, compare one step with NumPy."""

        def check() -> bool:
            if not agreement.affordable(network, len(problem.x)):
                agreement.require_right_functions(network)
                return True
            return compare(carry, problem, limits)

        if not machine.traced(carry, problem):
            given = problem.weights is None, problem.factors is None
            kind = (*agreement.family(network, recipe, len(problem.x)), *given, batched)
            machine.trusted(kind, check)
        return program(carry, problem, limits)

    def compare(carry: Carry, problem: Problem, limits: Limits) -> bool:
        first = jax.tree.map(lambda leaf: leaf[0], carry) if batched else carry
        copied = jax.device_put(jax.tree.map(np.array, carry))  # the loop takes it over
        end = jax.device_put(np.asarray(np.max(np.asarray(carry.step)) + 1))
        after, records = program(copied, problem, limits._replace(chunk_end=end))
        own = problem
        if batched:
            fixed, step_size, seed = jax.tree.map(lambda leaf: leaf[0], problem[2:5])
            own = Problem(problem.x, problem.targets, fixed, step_size, seed, problem.weights, problem.factors)
            after = jax.tree.map(lambda a: a[0], after)
        shapes = record_shapes(network, recipe, task, dict(measures), first, own)
        steps, seen = read(records, shapes, 0 if batched else None)
        moved = after.trained if int(after.step) > int(first.step) else None
        loss = float(seen["loss"][0]) if len(steps) else None
        rate = own.rate(first.step)
        step = agreement.Step(own.x, own.targets, own.fixed, first.trained, moved, rate, loss, own.weights)
        agreement.require_agreement(network, recipe, step)
        return moved is not None or loss is not None

    return checked


def record_shapes(
    network: Network, recipe: Recipe, task: Task, measures: Mapping[str, Measure], carry: Carry, problem: Problem
) -> dict[str, Any]:
    """Return the shape and dtype of everything that one record holds, without computing it."""

    def one(carry: Carry, problem: Problem) -> dict[str, Array]:
        params = {**problem.fixed, **carry.trained}
        outputs = network.scored(network.forward(network.linear(params), problem.x).outputs)
        targets = network.scored(problem.targets)
        loss = recipe.objective.value(outputs, targets, problem.weights)
        info = Info(loss, training_error(outputs, targets, task), outputs, carry.trained)
        return observe(measures, State(carry.step, params), info)

    return jax.eval_shape(one, carry, problem)


def _chunk(
    network: Network, recipe: Recipe, task: Task, measures: Mapping[str, Measure], capacity: int
) -> Callable[[Carry, Problem, Limits], tuple[Carry, Records]]:
    objective, stochastic = recipe.objective, recipe.batch is not None
    every_step = recipe.record_every == 1 and not stochastic

    def scored(outputs: Array) -> Array:
        return network.scored(outputs)

    def batch_gradient(
        params: dict[str, Array], x: Array, targets: Array, weights: Array | None, scale: float
    ) -> tuple[Array, dict[str, Array]]:
        line = linearize(network, params, x)
        outputs, score = jax.vjp(scored, line.outputs)
        slope = objective.cotangent(outputs, network.scored(targets), weights)
        return outputs, gradient(network, params, line, score(scale * slope if scale != 1 else slope)[0])

    def draw(problem: Problem, step: Array, n: int, batch: int) -> tuple[Array, Array | None]:
        """Return the rows of a batch and, where some do not count, factors with which it has the mean of the others."""
        key = jax.random.key(problem.seed)
        if not recipe.shuffle:
            return minibatch(key, step, n, batch), None
        chosen, counts = epoch_batch(key, step, n, batch)
        if n % batch == 0:
            return chosen, None
        inside = counts.astype(problem.x.dtype)
        return chosen, inside * (batch / jnp.sum(inside))

    def evaluate(carry: Carry, problem: Problem, due: Array) -> Info:
        """One gradient; with minibatches the outputs on the whole data set only where they are `due`."""
        params = {**problem.fixed, **carry.trained}
        if recipe.batch is None:
            outputs, grad = batch_gradient(params, problem.x, problem.targets, problem.weights, 1.0)
        else:
            n = problem.x.shape[0]
            chosen, shares = draw(problem, carry.step, n, recipe.batch)
            scale = objective.batch_scale(n, recipe.batch)
            weights = None if problem.weights is None else problem.weights[chosen]
            if shares is not None:
                weights = shares if weights is None else shares * weights
            small, grad = batch_gradient(params, problem.x[chosen], problem.targets[chosen], weights, scale)
            outputs = lax.cond(
                due,
                lambda: network.scored(network.forward(network.linear(params), problem.x).outputs),
                lambda: jnp.zeros((n, *small.shape[1:]), small.dtype),
            )
        targets = network.scored(problem.targets)
        loss = objective.value(outputs, targets, problem.weights)
        return Info(loss, training_error(outputs, targets, task), outputs, grad)

    def judge(carry: Carry, info: Info, limits: Limits, known: Array, last: Array) -> tuple[Array, Array]:
        """Return the status after this evaluation, and the loss that counts as divergence."""
        ceiling = jnp.where(carry.step == 0, limits.factor * info.loss, carry.ceiling)
        status = jnp.where(last, int(Status.LIMIT), int(Status.RUNNING))
        if recipe.stop_at_zero_error:
            status = jnp.where(known & (info.error == 0), int(Status.ZERO_ERROR), status)
        status = jnp.where(known & (info.loss <= limits.target), int(Status.TARGET), status)
        # Looking at the gradients here also makes every update wait until all weights have been read: XLA can
        # then update them in place, where it would otherwise copy every matrix at every step.
        sound = jnp.stack([jnp.isfinite(g.ravel()[0]) for g in info.grad.values()]).all()
        bounded = info.loss <= jnp.maximum(ceiling, jnp.finfo(ceiling.dtype).tiny)
        return jnp.where(~sound | (known & ~bounded), int(Status.DIVERGED), status).astype(jnp.int32), ceiling

    def look(carry: Carry, info: Info, wanted: Array, problem: Problem) -> dict[str, Array]:
        """Evaluate what is recorded; measures cost nothing at the other steps."""
        state = State(carry.step, {**problem.fixed, **carry.trained})
        if every_step or not measures:
            return observe(measures, state, info)
        shapes = jax.eval_shape(lambda: observe(measures, state, info))
        nothing = {name: jnp.zeros(leaf.shape, leaf.dtype) for name, leaf in shapes.items()}
        return lax.cond(wanted, lambda: observe(measures, state, info), lambda: nothing)

    def downhill(carry: Carry, info: Info, problem: Problem) -> dict[str, Array]:
        """Return what the optimizer takes for the gradient."""
        if recipe.optimizer != "gauss-newton":
            return info.grad
        params = {**problem.fixed, **carry.trained}
        return gauss_newton.direction(
            network, params, problem.x, problem.targets, problem.weights, objective, recipe.damping
        )

    def body(problem: Problem, limits: Limits, carry: Carry, records: Records) -> tuple[Carry, Records]:
        k = carry.step
        due = jnp.ones((), bool) if every_step else scheduled(k, limits.unit, recipe.record_every == 0)
        last = k >= limits.steps
        known = (due | last | (k % limits.check_unit == 0)) if stochastic else jnp.ones((), bool)
        info = evaluate(carry, problem, known)
        status, ceiling = judge(carry, info, limits, known, last)
        done = status != int(Status.RUNNING)
        records = write(records, k, due | done, look(carry, info, due | done, problem))

        transformation = recipe.transformation(problem.rate(k))
        updates, optimizer = transformation.update(downhill(carry, info, problem), carry.optimizer, carry.trained)
        moved = optax.apply_updates(carry.trained, updates)
        trained, optimizer = jax.tree.map(
            lambda new, old: jnp.where(done, old, new), (moved, optimizer), (carry.trained, carry.optimizer)
        )
        return Carry(jnp.where(done, k, k + 1), trained, optimizer, ceiling, status), records

    def chunk(carry: Carry, problem: Problem, limits: Limits) -> tuple[Carry, Records]:
        records = empty(record_shapes(network, recipe, task, measures, carry, problem), capacity)

        def going(loop: tuple[Carry, Records]) -> Array:
            carry, _ = loop
            return (carry.step < limits.chunk_end) & (carry.status == int(Status.RUNNING))

        return lax.while_loop(going, lambda loop: body(problem, limits, *loop), (carry, records))

    return chunk
