"""A run taken a few steps at a time, by somebody who looks on, and who may change the step size or the data."""

from __future__ import annotations

import dataclasses
import time

import jax
import jax.numpy as jnp
import numpy as np

from wideproof.data import AnyDataset
from wideproof.errors import InputError
from wideproof.precision import double
from wideproof.training.layout import arrays, gather, limits_for
from wideproof.training.loop import Status, compiled, record_shapes, static_part
from wideproof.training.recording import DENSE, capacity_for, read
from wideproof.training.run import Run

MOST_KEPT = 100_000


class Stepper:
    """Takes the steps of `train`, with the same bits, a few at a time.

    A step is recorded if the whole loss is evaluated at it (`Recipe.record_every`). Of more than `MOST_KEPT` records
    the run keeps the first ones and then 64 for each doubling of the step.

    Parameters
    ----------
    run
        The run to continue.

    Examples
    --------
    >>> from wideproof.data import load
    >>> from wideproof.networks import FullyConnected
    >>> from wideproof.training import Recipe, begin, train
    >>> data, network = load("sphere:n=4,d=3,separation=0.5,seed=1"), FullyConnected(3, 32, 1)
    >>> stepper = Stepper(begin(network, data, Recipe(steps=20)))
    >>> stepper.advance(5)[0].tolist()
    [0, 1, 2, 3, 4]
    >>> bool(stepper.advance(100)[1]["loss"][-1] == train(network, data, Recipe(steps=20)).loss)
    True
    """

    @double
    def __init__(self, run: Run):
        self._run, self._seen, self._seconds = run, [], run.seconds
        self._problem, self._carry = arrays([run], batched=False)
        static = static_part(run.recipe, run.data.n)
        self._shapes = record_shapes(run.network, static, run.data.task, {}, self._carry, self._problem)
        self._capacity = capacity_for(self._shapes)
        self._chunk = compiled(run.network, static, run.data.task, (), self._capacity)
        self._steps, self._over = run.step, run.status is not Status.RUNNING

    @property
    def step(self) -> int:
        """How many steps have been taken."""
        return self._steps

    @property
    def over(self) -> bool:
        """Whether the run has ended: it reached its target or its limit, or diverged."""
        return self._over

    @property
    def longest(self) -> int:
        """How many steps `advance` can take at once and record each of them."""
        return self._capacity - 1

    @double
    def advance(self, steps: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Take some steps.

        Parameters
        ----------
        steps
            Maximum number of steps to take.

        Returns
        -------
        tuple[array, dict[str, array]]
            The recorded steps, and loss and error before each of them.
        """
        if steps < 1:
            raise InputError(f"a run advances by at least one step, got {steps}")
        recipe, run = self._run.recipe, self._run
        end = min(self._steps + min(steps, self.longest), recipe.steps + 1)
        if self._over:
            return np.zeros(0, np.int64), {"loss": np.zeros(0), "error": np.zeros(0)}
        began = time.perf_counter()
        limits = limits_for(recipe, end, run.record_unit, recipe.check_unit(run.data.n))
        self._carry, records = self._chunk(self._carry, self._problem, limits)
        found = read(jax.device_get(records), self._shapes, None)
        self._seconds += time.perf_counter() - began
        self._steps, self._over = int(self._carry.step), int(self._carry.status) != Status.RUNNING
        self._seen.append(found)
        return found

    @property
    @double
    def run(self) -> Run:
        """The run as it stands: weights, records, whether it is over."""
        if self._seen:
            self._run = _thinned(gather(self._run, jax.device_get(self._carry), self._seen, None, self._seconds))
            self._seen = []
        return self._run

    @double
    def steer(self, step_size: float | None = None, data: AnyDataset | None = None) -> None:
        """Continue with another step size, or with other examples of the same number and shape.

        The settings of the run are then those from here on, and `train` cannot repeat it from its start.

        Parameters
        ----------
        step_size
            The new step size (learning rate); by default unchanged.
        data
            The new data; by default unchanged.
        """
        run = self.run
        if step_size is not None:
            if not 0 <= step_size < np.inf:
                raise InputError(f"the step size must be a number >= 0, got {step_size}")
            run = dataclasses.replace(run, step_size=float(step_size))
            self._problem = self._problem._replace(step_size=jnp.asarray(step_size, run.recipe.precision))
        if data is not None:
            if data.x.shape != run.data.x.shape or data.y.shape != run.data.y.shape:
                raise InputError(
                    f"a run goes on with examples of the same shapes, {run.data.x.shape} and {run.data.y.shape}, got "
                    f"{data.x.shape} and {data.y.shape}: begin a new one"
                )
            run = dataclasses.replace(run, data=data)
            weights = run.recipe.weights(data)
            arrays = jax.tree.map(lambda a: jnp.array(np.asarray(a, run.recipe.precision)), (data.x, data.y, weights))
            self._problem = self._problem._replace(x=arrays[0], targets=arrays[1], weights=arrays[2])
        self._run = run


def _thinned(run: Run) -> Run:
    """A run that somebody watches for hours does not fill the memory."""
    if len(run.steps) <= MOST_KEPT:
        return run
    place = np.where(run.steps < DENSE, run.steps, DENSE + np.floor(64 * np.log2(np.maximum(run.steps, 1))))
    kept = np.flatnonzero(np.diff(place, append=-1))
    records = {name: values[kept] for name, values in run.records.items()}
    return dataclasses.replace(run, steps=run.steps[kept], records=records)
