r"""Stochastic gradient descent with a fixed Gram matrix: the first two moments of its residual, step by step."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jax.typing import ArrayLike

from wideproof.errors import InputError
from wideproof.kernels.dynamics import Prediction, predict
from wideproof.kernels.gram_result import Gram
from wideproof.kernels.spectrum import Spectrum


@dataclass(frozen=True, eq=False)
class Stochastic:
    r"""Moments of SGD with a fixed Gram matrix, after 0, 1, 2, ... steps.

    Attributes
    ----------
    prediction
        Gradient descent with the same step, which is the mean: $\mathbb{E}\, e(k) = (I - \eta s G)^k e(0)$.
    batch
        Examples per step.
    loss
        $\tfrac s2\, \mathbb{E} \|e(k)\|^2$.
    variance
        $\mathbb{E} \|e(k) - \mathbb{E}\, e(k)\|^2$, the trace of the covariance.
    moment
        $\mathbb{E}\, e e^\top$ after the last step, summed over outputs that share the matrix.
    """

    prediction: Prediction
    batch: int
    loss: np.ndarray
    variance: np.ndarray
    moment: np.ndarray = field(repr=False)


def sgd(
    gram: ArrayLike | Gram,
    targets: ArrayLike,
    start: ArrayLike,
    step_size: float,
    batch: int,
    steps: int,
    *,
    scale: float = 1.0,
    eigen: Spectrum | None = None,
) -> Stochastic:
    r"""Return the mean and variance of SGD with a fixed Gram matrix, for batches drawn as in `wideproof.training`.

    Every step draws a uniform subset of B of the n examples, without replacement and independent of the other steps,
    and scales its gradient to be unbiased: $e(k+1) = (I - \tfrac{\eta s n}{B} G P)\, e(k)$ with $P$ the projection to
    the batch. Two different examples are drawn together with probability $p_2 = \tfrac{B (B - 1)}{n (n - 1)}$, so
    $\mathbb{E}[P M P] = p_2 M + (\tfrac Bn - p_2)\, M \circ S$, where $S$ is 1 for outputs of the same example, and

    $$ M' = M - \eta s\, (G M + M G) + \big(\tfrac{\eta s n}{B}\big)^2 G\, \mathbb{E}[P M P]\, G $$

    is the exact value of $M = \mathbb{E}\, e e^\top$ one step later. A step costs three products of $N \times N$
    matrices. If the batch holds all examples, this is gradient descent and the variance is 0. The first axis of the
    targets counts examples.

    Parameters
    ----------
    gram
        The $N \times N$ Gram matrix, held fixed during training.
    targets
        $y$, with the examples along the first axis.
    start
        The outputs before the first step, in the shape of the targets, or one number for all.
    step_size
        Step size (learning rate) $\eta$.
    batch
        Batch size $B$, at most the number of examples.
    steps
        Number of steps.
    scale
        $s$ in $\tfrac s2 \|y - u\|^2$: 1 for the half sum, $1/n$ for the mean over n examples.
    eigen
        `spectrum(gram, vectors=True)`, if it is known.

    Returns
    -------
    Stochastic
        The expected loss and the variance after 0, 1, ..., `steps` steps.

    Examples
    --------
    >>> moments = sgd(np.eye(2), np.ones(2), 0.0, step_size=0.5, batch=1, steps=1)
    >>> moments.loss.tolist(), moments.variance.tolist()
    ([1.0, 0.5], [0.0, 0.5])
    """
    g = np.asarray(gram, np.float64)
    course = predict(gram, targets, start, step_size, scale=scale, eigen=eigen)
    n, width = len(course.targets), len(g) // len(course.targets)
    if not 1 <= batch <= n or steps < 0:
        raise InputError(
            f"batch must be between 1 and {n} examples and steps >= 0, got batch {batch} and {steps} steps"
        )
    e = course.residual(0).reshape(len(g), -1)
    single = batch / n
    both = single if batch == n else batch * (batch - 1) / (n * (n - 1))
    factor = (course.step_size * course.scale / single) ** 2
    moment = e @ e.T
    trace = np.empty(steps + 1)
    trace[0] = np.trace(moment)
    with np.errstate(over="ignore", invalid="ignore"):  # a step that is too large makes infinite moments
        for k in range(steps):
            drift = g @ moment
            drawn = both * moment
            own, seen = (m.reshape(n, width, n, width) for m in (drawn, moment))
            i = np.arange(n)
            own[i, :, i] += (single - both) * seen[i, :, i]
            moment = moment - course.step_size * course.scale * (drift + drift.T) + factor * (g @ drawn @ g)
            moment = (moment + moment.T) / 2
            trace[k + 1] = np.trace(moment)
        mean = 2 / course.scale * course.loss(np.arange(steps + 1))
        variance = np.maximum(trace - mean, 0.0) if batch < n else np.zeros(steps + 1)
    return Stochastic(course, int(batch), course.scale / 2 * trace, variance, moment)
