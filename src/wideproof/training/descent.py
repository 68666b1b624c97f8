"""Gradient descent on residuals in groups, and whether it converged, beside what the Gram matrix predicts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, PyTree

from wideproof.answers import Answer
from wideproof.cards import Told
from wideproof.errors import InputError
from wideproof.kernels import ResidualCourse, Residuals
from wideproof.precision import double

DIVERGED = 1e6  # times the first objective
SOLVED = 1e-6  # times the first objective


@dataclass(frozen=True, eq=False)
class ResidualRun:
    """A run of gradient descent on residuals in groups.

    Attributes
    ----------
    params
        The parameters after the last step.
    step_size
        The step size (learning rate).
    groups
        For each group its part of the objective, at every step and after the last one.
    """

    params: PyTree
    step_size: float
    groups: Mapping[str, np.ndarray]

    @property
    def loss(self) -> np.ndarray:
        """The objective before each step and after the last one."""
        return np.sum(list(self.groups.values()), axis=0)

    @property
    def steps(self) -> np.ndarray:
        """The steps at which the objective is known."""
        return np.arange(len(self.loss))

    def against(self, course: ResidualCourse, target_loss: float | None = None) -> Convergence:
        """Return whether the run converged, beside its prediction.

        Parameters
        ----------
        course
            The prediction from the same parameters, with the same weights and step size.
        target_loss
            The objective that counts as converged; by default a millionth of the first one.

        Returns
        -------
        Convergence
            It holds if the run ended at or below the target. It fails if the run diverged, if the linearized residuals
            cannot reach the target, or if they reach it in the steps that were taken and the run did not. It is
            undecided if they need more steps than were taken.
        """
        return _judge(self, course, target_loss)


@dataclass(frozen=True)
class Convergence(Told):
    """Whether a run converged, and what the prediction says about it.

    Attributes
    ----------
    answer
        Whether it did; undecided if it needs more steps even by its prediction.
    reason
        Why, in one sentence.
    needed
        Predicted number of steps to the target; `None` if there is none.
    taken
        Number of steps after which the run first reached the target; `None` if it did not.
    """

    answer: Answer
    reason: str
    needed: int | None
    taken: int | None

    def __bool__(self) -> bool:
        return bool(self.answer)

    def __str__(self) -> str:
        return self.reason


@double
def descend(residuals: Residuals, params: PyTree, steps: int, step_size: float | None = None) -> ResidualRun:
    r"""Train by gradient descent on residuals in groups: $\theta \leftarrow \theta - \eta \nabla L(\theta)$.

    Parameters
    ----------
    residuals
        The residuals, with their weights.
    params
        The parameters at the start: a pytree, whose floating-point leaves are trained.
    steps
        Number of steps.
    step_size
        Step size (learning rate) $\eta$; by default that of `residuals.predict(params)`.

    Returns
    -------
    ResidualRun
        The parameters at the end, and the objective at every step by group.

    Examples
    --------
    $u' = -u$, $u(0) = 1$, by a polynomial of degree 3:

    >>> import jax
    >>> import jax.numpy as jnp
    >>> from wideproof.kernels import Residuals
    >>> def u(p, x):
    ...     return jnp.polyval(p, x)
    >>> ode = Residuals(
    ...     {"equation": lambda p, x: jax.grad(u, 1)(p, x) + u(p, x), "start": lambda p, x: u(p, x) - 1},
    ...     {"equation": np.linspace(0, 1, 5), "start": np.zeros(1)},
    ... )
    >>> course, run = ode.predict(np.zeros(4)), descend(ode, np.zeros(4), 3000)
    >>> bool(np.allclose(run.loss, course.loss(run.steps), rtol=1e-6))  # linear in the coefficients: exact
    True
    >>> print(run.against(course, target_loss=1e-4).reason)
    converged: the objective reached 0.0001 at step 799, predicted 799
    """
    if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 0:
        raise InputError(f"steps must be a whole number >= 0, got {steps!r}")
    if step_size is None:
        step_size = residuals.predict(params).step_size
    if not (math.isfinite(step_size) and step_size > 0):
        raise InputError(f"the step size must be a number > 0, got {step_size}")
    leaves, tree = jax.tree.flatten(jax.tree.map(jnp.asarray, params))
    trained = [jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves]

    def whole(moving: Sequence[Any]) -> PyTree:
        own = iter(moving)
        return tree.unflatten([next(own) if moves else leaf for leaf, moves in zip(leaves, trained, strict=True)])

    def losses(moving: list[Array], points: dict[str, PyTree]) -> tuple[Array, dict[str, Array]]:
        rows = residuals.traced(whole(moving), points)
        weights = residuals.weights_of({name: len(row) for name, row in rows.items()})
        parts = {name: weights[name] / 2 * jnp.vdot(row, row) for name, row in rows.items()}
        return sum(parts.values(), jnp.zeros(())), parts

    @jax.jit
    def run(
        moving: list[Array], points: dict[str, PyTree], step_size: Array
    ) -> tuple[list[Array], dict[str, Array], dict[str, Array]]:
        def step(now: list[Array], _: None) -> tuple[list[Array], dict[str, Array]]:
            slopes, parts = jax.grad(losses, has_aux=True)(now, points)
            return [leaf - step_size * slope for leaf, slope in zip(now, slopes, strict=True)], parts

        end, seen = lax.scan(step, moving, length=int(steps))
        return end, seen, losses(end, points)[1]

    moving = [leaf.astype(jnp.float64) for leaf, moves in zip(leaves, trained, strict=True) if moves]
    end, seen, last = run(moving, residuals.placed(), jnp.asarray(step_size))
    groups = {name: np.append(np.asarray(seen[name]), last[name]) for name in residuals.functions}
    return ResidualRun(jax.tree.map(np.asarray, whole(end)), float(step_size), groups)


def _judge(run: ResidualRun, course: ResidualCourse, target_loss: float | None) -> Convergence:
    first, steps = float(course.loss(0)), len(run.loss) - 1
    if not (course.step_size == run.step_size and math.isclose(first, float(run.loss[0]), rel_tol=1e-6)):
        raise InputError(
            f"the prediction begins at {first:.6g} with step size {course.step_size:.6g}, the run at "
            f"{float(run.loss[0]):.6g} with {run.step_size:.6g}: predict from the same parameters, weights and step"
        )
    target = SOLVED * first if target_loss is None else target_loss
    needed = course.steps_to(target)
    wild = np.flatnonzero(~(run.loss <= DIVERGED * first))
    if len(wild):
        stable = f"the linearized residuals need a step size below {course.prediction.stable_step:.3g}"
        text = f"diverged at step {wild[0]} with step size {run.step_size:.3g}; {stable}"
        return Convergence(Answer.FAILS, text, needed, None)
    if run.loss[-1] <= target:
        taken = int(np.flatnonzero(run.loss <= target)[0])
        predicted = "which was not predicted" if needed is None else f"predicted {needed}"
        text = f"converged: the objective reached {target:.3g} at step {taken}, {predicted}"
        return Convergence(Answer.HOLDS, text, needed, taken)
    last = {name: float(row[-1]) for name, row in run.groups.items()}
    most = max(last, key=lambda name: last[name])
    where = f"after {steps} steps the objective is {float(run.loss[-1]):.3g}, the largest part in '{most}'"
    if needed is None:
        text = f"not converged: {where}; with this Gram matrix {target:.3g} is never reached"
        return Convergence(Answer.FAILS, text, needed, None)
    if needed > steps:
        text = f"not yet: {where}; the linearized residuals reach {target:.3g} at step {needed}"
        return Convergence(Answer.UNDECIDED, text, needed, None)
    text = f"not converged: {where}, and the linearized residuals reach {target:.3g} at step {needed}"
    return Convergence(Answer.FAILS, f"{text}: the Gram matrix changed on the way", needed, None)
