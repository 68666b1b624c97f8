"""Train, resume, train many: the host side of the compiled loop."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from wideproof.data import AnyDataset
from wideproof.errors import InputError
from wideproof.interrupts import stop_request
from wideproof.networks import Network
from wideproof.precision import double
from wideproof.progress import Progress, Watch, shown
from wideproof.resources import cores, memory
from wideproof.storage import new_folder
from wideproof.training.gauss_newton import require_room
from wideproof.training.layout import arrays, arrays_of_one, gather, limits_for
from wideproof.training.loop import Status, compiled, record_shapes, start, static_part
from wideproof.training.losses import CrossEntropy, MarginLoss
from wideproof.training.recipe import Recipe
from wideproof.training.recording import Measure, capacity_for, read, stride
from wideproof.training.run import Run, save_description, save_start, save_state
from wideproof.training.schedules import ends_with_the_steps
from wideproof.training.step_size import step_size_for

CHUNK_SECONDS = 0.5


@shown
@double
def train(
    network: Network,
    data: AnyDataset,
    recipe: Recipe | None = None,
    *,
    record: Mapping[str, Measure] | None = None,
    folder: str | Path | None = None,
    checkpoint_seconds: float = 30.0,
    progress: Watch | None = None,
    start: Run | None = None,
) -> Run:
    """Train a network by gradient descent or SGD.

    Parameters
    ----------
    network
        The network.
    data
        The prepared data.
    recipe
        The settings of training; by default those of `Recipe()`.
    record
        Functions of `(state, info)` by name, evaluated inside the compiled loop at every recorded step.
    folder
        The folder for checkpoints, from which `resume` continues with the same result, bit for bit; by default none are
        kept.
    checkpoint_seconds
        Minimum time between two checkpoints.
    progress
        Callback; receives a `Progress` after each chunk of steps.
    start
        The run at step 0, if `begin` has made it already from the same network, data and initial weights.

    Returns
    -------
    Run
        The trained network and what was recorded. Divergence is a result (`run.status`), not an exception.

    Notes
    -----
    Ctrl-C and SIGTERM stop the run after the current chunk of steps. It is saved if there is a `folder`, and then the
    signal acts as usual: Ctrl-C raises `KeyboardInterrupt`, SIGTERM ends the process, and a handler of the caller's own
    is called. If that handler returns, so does `train`, with `Status.RUNNING`. A second signal acts at once. `resume`
    and `train_many` do the same.

    Examples
    --------
    >>> from wideproof.data import load
    >>> from wideproof.networks import FullyConnected
    >>> data = load("sphere:n=4,d=3,separation=0.5,seed=1")
    >>> run = train(FullyConnected(input_dim=3, width=64, depth=1), data, Recipe(steps=2000, target_loss=1e-3))
    >>> run.status.name, run.loss <= 1e-3
    ('TARGET', True)
    """
    recipe = recipe or Recipe()
    with stop_request():
        run = begin(network, data, recipe) if start is None else dataclasses.replace(start, recipe=recipe)
        if folder is not None:
            with new_folder(Path(folder)) as new:
                save_start(new, run)
                save_state(new, run)
        return _drive([run], record or {}, Path(folder) if folder else None, checkpoint_seconds, progress)[0]


@shown
@double
def resume(
    folder: str | Path,
    *,
    record: Mapping[str, Measure] | None = None,
    steps: int | None = None,
    checkpoint_seconds: float = 30.0,
    progress: Watch | None = None,
) -> Run:
    """Continue an interrupted run; the result is the same, bit for bit, as without the interruption.

    Parameters
    ----------
    folder
        The folder of the run.
    record
        The functions that the run records; they must be given again.
    steps
        A new maximum number of steps, with which a run that has reached the old one continues as well.
    checkpoint_seconds
        Minimum time between two checkpoints.
    progress
        Callback, as in `train`.

    Returns
    -------
    Run
        The continued run.
    """
    folder = Path(folder)
    run = Run.load(folder)
    if steps is not None:
        longer = _longer(run, steps)
        if steps < run.step:
            raise InputError(f"{folder} is at step {run.step} already, past the limit of {steps} asked for: give more")
        run = longer
        save_description(folder, run)
    return _go_on(run, record or {}, folder, checkpoint_seconds, progress)


@double
def extend(run: Run, steps: int, folder: Path, progress: Watch | None = None) -> Run:
    """Continue a run that is in memory, and save it.

    Parameters
    ----------
    run
        The run.
    steps
        Maximum number of steps, including those already taken.
    folder
        The folder of the run.
    progress
        Callback, as in `train`.

    Returns
    -------
    Run
        The continued run.
    """
    run = _longer(run, steps)
    save_description(folder, run)
    return _go_on(run, {}, folder, 30.0, progress)


@shown
@double
def train_many(
    network: Network,
    data: AnyDataset,
    recipe: Recipe | None = None,
    *,
    seeds: Sequence[int] = tuple(range(8)),
    record: Mapping[str, Measure] | None = None,
    how: str = "auto",
    progress: Watch | None = None,
) -> list[Run]:
    """Train the same network from several seeds, with one compilation.

    Parameters
    ----------
    network
        The network.
    data
        The prepared data.
    recipe
        The settings of training; its seed is replaced.
    seeds
        Seeds of the initial weights and of the minibatches.
    record
        Functions to record, as in `train`.
    how
        `"batch"` trains seeds in one program, as extra rows of every product, as many as fit into half of the memory.
        `"loop"` trains them in parallel on the machine's cores, each with exactly the numbers of `train`. `"auto"`
        batches on accelerators and loops on CPUs, where batching small products was measured to be slower.
    progress
        Callback, as in `train`.

    Returns
    -------
    list[Run]
        One run for each seed.

    Examples
    --------
    >>> from wideproof.data import load
    >>> from wideproof.networks import FullyConnected
    >>> data = load("sphere:n=4,d=3,separation=0.5,seed=1")
    >>> runs = train_many(FullyConnected(3, 32, 1), data, Recipe(steps=20), seeds=[3, 4])
    >>> [run.recipe.seed for run in runs]
    [3, 4]
    """
    recipe = recipe or Recipe()
    if how not in ("auto", "batch", "loop"):
        raise InputError(f"seeds are trained by 'batch', 'loop' or 'auto', got {how!r}")
    if how == "auto":
        how = "loop" if jax.default_backend() == "cpu" else "batch"
    recipes = [dataclasses.replace(recipe, seed=int(seed)) for seed in seeds]
    train_all = _in_batches if how == "batch" else _side_by_side
    with stop_request():
        return train_all(network, data, recipes, record or {}, progress)


def _in_batches(
    network: Network,
    data: AnyDataset,
    recipes: list[Recipe],
    measures: Mapping[str, Measure],
    progress: Watch | None,
) -> list[Run]:
    runs = [begin(network, data, recipe) for recipe in recipes]
    lanes = max(1, int(_memory() // (2 * _needed(network, recipes[0])))) if recipes else 1
    parts = [runs[k : k + lanes] for k in range(0, len(runs), lanes)]
    return [run for part in parts for run in _drive(part, measures, None, 0.0, progress)]


def _side_by_side(
    network: Network,
    data: AnyDataset,
    recipes: list[Recipe],
    measures: Mapping[str, Measure],
    _: Watch | None,
) -> list[Run]:
    """Train each recipe in a thread; what asks the caller's thread to stop asks these too."""

    @double
    def one(recipe: Recipe) -> Run:
        return _drive([begin(network, data, recipe)], measures, None, 0.0, None)[0]

    first = one(recipes[0])  # compiles before the threads ask for the same program
    contexts = [copy_context() for _ in recipes[1:]]
    with ThreadPoolExecutor(cores() if jax.default_backend() == "cpu" else 1) as pool:
        return [first, *pool.map(lambda context, recipe: context.run(one, recipe), contexts, recipes[1:])]


@double
def begin(network: Network, data: AnyDataset, recipe: Recipe, weights: Mapping[str, np.ndarray] | None = None) -> Run:
    """Return the run at step 0, with initial weights and step size.

    Parameters
    ----------
    network
        The network.
    data
        The prepared data.
    recipe
        The settings of training.
    weights
        Initial weights by name; by default drawn from the recipe's seed.

    Returns
    -------
    Run
        The run, which `train` takes as `start`.
    """
    _require_fit(network, data, recipe)
    with jax.default_device(jax.devices("cpu")[0]):  # the same start on every device, without a launch per operation
        drawn = network.init(recipe.seed, recipe.precision) if weights is None else weights
        initial = {name: np.asarray(weight, recipe.precision) for name, weight in drawn.items()}
        trained = network.as_params({name: initial[name] for name in network.trained_names})
        carry = start(recipe, trained, jnp.ones((), recipe.precision))
        optimizer = tuple(np.asarray(leaf) for leaf in jax.tree.leaves(carry.optimizer))
    step_size = step_size_for(network, initial, data, recipe)
    return Run(
        network=network,
        recipe=recipe,
        data=data,
        step_size=step_size,
        status=Status.RUNNING,
        step=0,
        initial=initial,
        params=initial,
        steps=np.zeros(0, np.int64),
        records={},
        optimizer=optimizer,
        ceiling=float("inf"),
        seconds=0.0,
    )


def _require_fit(network: Network, data: AnyDataset, recipe: Recipe) -> None:
    needed, there = _needed(network, recipe), _memory()
    if needed > there:
        raise InputError(
            f"{network} has {network.number_of_weights:.2g} weights, and training them takes about {needed / 1e9:.3g} "
            f"GB where this machine has {there / 1e9:.3g} GB: use a smaller width or depth"
        )
    if recipe.optimizer == "gauss-newton":
        require_room(data.y.size, np.dtype(recipe.precision).itemsize)
    if not network.takes(data.input_shape):
        raise InputError(
            f"{network.name} takes examples of shape {network.input_shape} and '{data.name}' has {data.input_shape}: "
            "build the network for this data"
        )
    if network.output_shape != data.target_shape:
        raise InputError(
            f"{network.name} gives outputs of shape {network.output_shape} and '{data.name}' has targets of shape "
            f"{data.target_shape}: choose another number of outputs, or other labels"
        )
    loss = recipe.objective.loss
    recipe.weights(data)
    if isinstance(loss, MarginLoss) and data.task == "regression" and (np.abs(data.y) != 1).any():
        raise InputError(
            f"the {loss.name} loss needs labels -1 and +1, and '{data.name}' has real targets: use the squared loss"
        )
    if isinstance(loss, CrossEntropy) and data.task == "regression" and not _are_probabilities(data.y):
        raise InputError(
            f"cross-entropy needs a class for every example of '{data.name}', or probabilities that add up to 1: build "
            "it from labels (`from_labels`, task 'multiclass'), or use the squared loss"
        )
    if recipe.stop_at_zero_error and data.task == "regression":
        raise InputError(f"'{data.name}' has real targets, so it has no training error: stop at a target loss")
    if recipe.batch is not None and recipe.batch > data.n:
        raise InputError(f"batch is {recipe.batch} and '{data.name}' has {data.n} examples: use at most {data.n}")


def _are_probabilities(y: np.ndarray) -> bool:
    return y.ndim > 1 and y.shape[-1] > 1 and bool((y >= 0).all() and np.abs(y.sum(axis=-1) - 1).max() <= 1e-12)


def _needed(network: Network, recipe: Recipe) -> int:
    """Return the bytes that one run takes, about: weights at the start and now, gradients, what the update makes."""
    return 4 * network.number_of_weights * np.dtype(recipe.precision).itemsize


def _memory() -> int:
    """Return the bytes of memory of this machine (of its device, where the weights go to one)."""
    device = jax.devices()[0].memory_stats() if jax.default_backend() != "cpu" else None
    if device and "bytes_limit" in device:
        return int(device["bytes_limit"])
    return memory()


def _go_on(
    run: Run,
    measures: Mapping[str, Measure],
    folder: Path,
    checkpoint_seconds: float,
    progress: Watch | None,
) -> Run:
    """Drive a run that is under way, or had reached a step limit that has been raised; return any other as it is."""
    if run.status is Status.LIMIT and run.step < run.recipe.steps:
        run = _reopen(run)
    if run.status is not Status.RUNNING:
        return run
    with stop_request():
        return _drive([run], measures, folder, checkpoint_seconds, progress)[0]


def _longer(run: Run, steps: int) -> Run:
    if run.batches is not None and steps != run.recipe.steps:
        raise InputError("the batches of this run came from elsewhere: no seed gives those of further steps")
    if steps != run.recipe.steps and ends_with_the_steps(run.recipe.schedule):  # pyright: ignore[reportArgumentType]
        raise InputError(
            f"the schedule {run.recipe.schedule!r} of this run ends at step {run.recipe.steps}, so with {steps} steps "
            "all of its step sizes are others: train again from the start with more steps"
        )
    return dataclasses.replace(run, recipe=dataclasses.replace(run.recipe, steps=steps))


def _reopen(run: Run) -> Run:
    """Undo what a step limit wrote: the last step is evaluated again, and recorded only if it is due."""
    keep = run.steps < run.step
    return dataclasses.replace(
        run,
        status=Status.RUNNING,
        steps=run.steps[keep],
        records={name: values[keep] for name, values in run.records.items()},
    )


def _drive(
    runs: list[Run],
    measures: Mapping[str, Measure],
    folder: Path | None,
    checkpoint_seconds: float,
    progress: Watch | None,
) -> list[Run]:
    """Run chunks until every run has stopped or the user asks to; several runs go as one batch."""
    taken = sorted({"loss", "error", "step"} & set(measures))
    if taken:
        raise InputError(f"{', '.join(taken)} is recorded in any case: choose another name in `record`")
    lead, batched = runs[0], len(runs) > 1
    recipe, unit, thinning = lead.recipe, lead.record_unit, lead.recipe.record_every == 0
    problem, carry = arrays(runs, batched)
    static = static_part(recipe, lead.data.n)
    shapes = record_shapes(lead.network, static, lead.data.task, measures, *arrays_of_one(carry, problem, batched))
    capacity = capacity_for(shapes)
    chunk = compiled(lead.network, static, lead.data.task, tuple(measures.items()), capacity, batched)
    seen: list[list[tuple[np.ndarray, dict[str, np.ndarray]]]] = [[] for _ in runs]
    seconds, length, saved = lead.seconds, 8, time.perf_counter()

    with stop_request() as stop_requested:
        step = lead.step
        carry, _ = chunk(
            carry, problem, limits_for(recipe, step, unit, 1)
        )  # no step yet: compiles, so that `seconds` does not
        while True:
            chunk_end = min(step + min(length, (capacity - 1) * stride(step, unit, thinning)), recipe.steps + 1)
            limits = limits_for(recipe, chunk_end, unit, recipe.check_unit(lead.data.n))
            began = time.perf_counter()
            carry, records = chunk(carry, problem, limits)
            status = np.atleast_1d(np.asarray(carry.status))
            elapsed = time.perf_counter() - began
            seconds += elapsed
            records = jax.device_get(records)
            for i, rows in enumerate(seen):
                rows.append(read(records, shapes, i if batched else None))
            before, step = step, int(np.max(np.asarray(carry.step)))
            if progress is not None:
                progress(_progress(seen[0], step, recipe.steps, (step - before) / max(elapsed, 1e-9)))
            over = bool((status != Status.RUNNING).all()) or stop_requested()
            if over or (folder and time.perf_counter() - saved >= checkpoint_seconds):
                now = jax.device_get(carry)
                runs = [gather(run, now, seen[i], i if batched else None, seconds) for i, run in enumerate(runs)]
                seen = [[] for _ in runs]
                if folder:
                    save_state(folder, runs[0])
                saved = time.perf_counter()
            if over:
                return runs
            length = int(np.clip(length * CHUNK_SECONDS / max(elapsed, 1e-9), 1, 8 * length))


def _progress(seen: list[tuple[np.ndarray, dict[str, np.ndarray]]], step: int, steps: int, rate: float) -> Progress:
    rows = next((values for at, values in reversed(seen) if len(at)), None)
    loss, error = (math.nan, math.nan) if rows is None else (float(rows["loss"][-1]), float(rows["error"][-1]))
    shown = [f"loss {loss:.3g}", *([] if math.isnan(error) else [f"error {error:.3g}"]), f"{rate:.0f} steps/s"]
    return Progress("training", step, steps, ", ".join(shown), {"loss": loss, "error": error, "rate": rate})
