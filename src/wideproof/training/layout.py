"""The arrays of the compiled loop: laid out from runs, and gathered into runs again."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from wideproof.errors import InputError
from wideproof.training.loop import Carry, Limits, Problem, Status, start
from wideproof.training.recipe import Recipe
from wideproof.training.run import Run


def limits_for(recipe: Recipe, chunk_end: int, unit: int, check_unit: int) -> Limits:
    """Return the numbers that steer a chunk."""
    target = -np.inf if recipe.target_loss is None else recipe.target_loss
    whole = jax.device_put([np.asarray(value, np.int64) for value in (chunk_end, recipe.steps, unit, check_unit)])
    real = jax.device_put([np.asarray(value, recipe.precision) for value in (target, recipe.divergence_factor)])
    return Limits(whole[0], whole[1], whole[2], whole[3], real[0], real[1])


def arrays(runs: list[Run], batched: bool) -> tuple[Problem, Carry]:
    """Lay out the arrays of the compiled loop, stacked over runs if there are several, and move them at once."""
    lead, precision = runs[0], np.dtype(runs[0].recipe.precision)

    def stack(*leaves: Any) -> np.ndarray:
        return np.stack(leaves) if batched else np.asarray(leaves[0])

    def one(run: Run) -> tuple[dict[str, np.ndarray], tuple[np.ndarray, ...], dict[str, np.ndarray], list[np.ndarray]]:
        trained = {name: np.asarray(run.params[name]) for name in run.network.trained_names}
        fixed = {name: np.asarray(w) for name, w in run.params.items() if name not in trained}
        scalars = [
            np.asarray(run.step, np.int64), np.asarray(run.ceiling, precision), np.asarray(int(run.status), np.int32),
            np.asarray(run.step_size, precision), np.asarray(run.recipe.seed, np.int64),
        ]  # fmt: skip
        return trained, run.optimizer, fixed, scalars

    trained, leaves, fixed, scalars = jax.tree.map(stack, *map(one, runs))
    step, ceiling, status, step_size, seed = scalars
    shapes = jax.eval_shape(lambda t: start(lead.recipe, t, jnp.ones((), precision)), trained)
    optimizer = jax.tree.unflatten(jax.tree.structure(shapes.optimizer), leaves)
    x, targets = (np.asarray(a, precision) for a in (lead.data.x, lead.data.y))
    weights = lead.recipe.weights(lead.data)
    weights = None if weights is None else weights.astype(precision)
    factors = padded(lead.recipe.factors, precision)
    # Copies that nobody else has: the loop takes the carry over. `jnp.array` would compile a program for each shape.
    carry = jax.tree.map(np.array, Carry(step, trained, optimizer, ceiling, status))  # pyright: ignore[reportArgumentType]
    return jax.device_put((Problem(x, targets, fixed, step_size, seed, weights, factors), carry))  # pyright: ignore[reportArgumentType]


def padded(factors: np.ndarray | None, precision: np.dtype) -> np.ndarray | None:
    """Return the factors with the last one repeated to a power of two: a program is compiled for each length."""
    if factors is None:
        return None
    more = (1 << (len(factors) - 1).bit_length()) - len(factors)
    return np.pad(factors, (0, more), mode="edge").astype(precision)


def arrays_of_one(carry: Carry, problem: Problem, batched: bool) -> tuple[Carry, Problem]:
    """Return the shapes of one run of a batch."""
    if not batched:
        return carry, problem
    single = lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype)  # noqa: E731
    shared = {key: getattr(problem, key) for key in ("x", "targets", "weights", "factors")}
    own = problem._replace(**dict.fromkeys(shared))
    return jax.tree.map(single, carry), jax.tree.map(single, own)._replace(**shared)


def _lane(tree: Any, i: int | None) -> Any:
    return tree if i is None else jax.tree.map(lambda leaf: leaf[i], tree)


def gather(
    run: Run,
    carry: Carry,
    seen: list[tuple[np.ndarray, dict[str, np.ndarray]]],
    lane: int | None,
    seconds: float,
) -> Run:
    """Return the run as it stands now."""
    own = _lane(carry, lane)
    earlier = [(run.steps, dict(run.records))] if len(run.steps) else []
    parts = earlier + seen
    names = list(parts[0][1])
    if earlier and seen and set(names) != set(seen[0][1]):
        raise InputError(f"this run recorded {', '.join(sorted(names))}: resume it with the same functions in `record`")
    return dataclasses.replace(
        run,
        status=Status(int(own.status)),
        step=int(own.step),
        params=dict(run.initial) | {name: np.array(weight) for name, weight in own.trained.items()},
        steps=np.concatenate([steps for steps, _ in parts]),
        records={name: np.concatenate([values[name] for _, values in parts]) for name in names},
        optimizer=tuple(np.array(leaf) for leaf in jax.tree.leaves(own.optimizer)),
        ceiling=float(own.ceiling),
        seconds=seconds,
    )
