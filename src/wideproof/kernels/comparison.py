"""A run beside the course that a Gram matrix predicts for it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jax.typing import ArrayLike

from wideproof.cards import Told
from wideproof.errors import InputError
from wideproof.kernels.dynamics import ROUNDING, Prediction


@dataclass(frozen=True)
class Comparison(Told):
    r"""A run beside its prediction. Deviations are of the loss, relative to the predicted one.

    Attributes
    ----------
    first_decade
        The largest deviation until the predicted loss is a tenth of the first.
    overall
        The largest deviation at all recorded steps whose predicted loss is above rounding.
    rate
        Slope of the run's log loss per step, fitted over the later half of its steps, above the predicted limit.
    predicted_rate
        The same fit to the prediction.
    slowest_rate
        $2 \log |1 - \eta s \lambda|$ of the slowest direction that moves, which rules in the end.
    """

    first_decade: float
    overall: float
    rate: float
    predicted_rate: float
    slowest_rate: float

    def __str__(self) -> str:
        return (
            f"the loss is within {self.first_decade:.2g} of the prediction over its first decade and within "
            f"{self.overall:.2g} over all steps; its late log-rate is {self.rate:.3g} per step, predicted "
            f"{self.predicted_rate:.3g}, in the end {self.slowest_rate:.3g}"
        )


def compare(prediction: Prediction, losses: ArrayLike, steps: ArrayLike) -> Comparison:
    """Compare the recorded losses of a run with their prediction.

    Parameters
    ----------
    prediction
        The prediction for the same data, start and step size.
    losses
        The recorded losses of the run.
    steps
        The steps at which they were recorded, in the same order.

    Returns
    -------
    Comparison
        Relative deviations from the predicted loss, and the late rates of both.

    Examples
    --------
    >>> from wideproof.kernels import predict
    >>> course = predict(np.eye(1), np.ones(1), 0.0, step_size=0.5)
    >>> print(compare(course, np.array([0.5, 0.125, 0.033]), np.arange(3)))  # the last one would be 0.03125
    the loss is within 0 of the prediction over its first decade and within 0.056 over all steps;
    its late log-rate is -1.33 per step, predicted -1.39, in the end -1.39
    """
    run, k = np.asarray(losses, np.float64), np.asarray(steps)
    if run.ndim != 1 or run.shape != k.shape or not len(run):
        raise InputError(
            f"a comparison needs one loss per recorded step, got shapes {run.shape} and {k.shape}: "
            "give run.records['loss'] and run.steps"
        )
    predicted = prediction.loss(k)
    first = float(prediction.loss(0))
    above = predicted > ROUNDING * first
    with np.errstate(invalid="ignore"):
        deviation = np.abs(run - predicted) / np.where(above, predicted, 1)
    deviation = np.where(np.isfinite(deviation), deviation, math.inf)
    late = above & (2 * k >= k.max())
    moving = prediction._logs[(prediction.eigenvalues > 0) & (prediction._squares > ROUNDING * first)]
    limit = prediction.limit_loss if prediction.converges else 0.0
    return Comparison(
        float(deviation[above & (predicted >= first / 10)].max(initial=0.0)),
        float(deviation[above].max(initial=0.0)),
        _slope(k[late], run[late] - limit),
        _slope(k[late], predicted[late] - limit),
        2 * float(moving.max()) if len(moving) else 0.0,
    )


def _slope(k: np.ndarray, losses: np.ndarray) -> float:
    """The slope of log losses, by least squares; NaN for fewer than two of them."""
    usable = np.isfinite(losses) & (losses > 0)
    k, losses = k[usable].astype(np.float64), losses[usable]
    if len(np.unique(k)) < 2:
        return math.nan
    k = k - k.mean()
    return float(k @ np.log(losses) / (k @ k))
