r"""Probabilities of classes from decision values, calibrated on examples that were left out.

`"scaled"`: the probabilities are $\mathrm{softmax}(a f(x))$, of two classes $1 / (1 + e^{-a f(x)})$, with the one
number $a > 0$ under which the labels of examples left out are likeliest. `"gp"` is the softmax read-out of the Gaussian
process: the expectation of that softmax over the posterior of $f(x)$ with mean $m$ and variance $v$, by the usual
approximation $a m / \sqrt{1 + \pi a^2 v / 8}$. Neither changes which class is likeliest.

Labels are smoothed as Platt does, by one example more of each class: where all are right $a$ stays finite.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from wideproof.estimators.ridge import Left

READ_OUTS = ("scaled", "gp")
SMALLEST, LARGEST = 1e-3, 1e3  # of a, in units of one over the targets' size


def shares(
    scores: Float[np.ndarray, "n c"], a: float, variance: Float[np.ndarray, "n"] | None = None
) -> Float[np.ndarray, "n k"]:
    """Return the probabilities of all classes; one column of scores is that of the second of two classes.

    >>> shares(np.array([[0.0], [1.0]]), 2.0).round(4).tolist()
    [[0.5, 0.5], [0.1192, 0.8808]]
    """
    return softmax(_logits(scores, a, variance), axis=1)


def _logits(
    scores: Float[np.ndarray, "n c"], a: float, variance: Float[np.ndarray, "n"] | None
) -> Float[np.ndarray, "n k"]:
    size = np.full(len(scores), a) if variance is None else a / np.sqrt(1 + math.pi * a * a * variance / 8)
    logits = size[:, None] * scores
    return np.concatenate([np.zeros_like(logits), logits], axis=1) if scores.shape[1] == 1 else logits


def calibrate(left: Left, amplitude: float | None = None) -> float:
    """Return the factor under which the labels of examples left out are likeliest.

    With `amplitude` their variances count, times it.

    >>> y = np.array([[1.0], [1.0], [-1.0], [-1.0]])
    >>> sure = calibrate(Left(y, y, np.ones(4)))
    >>> unsure = calibrate(Left(y * [[1], [1], [1], [-1]], y, np.ones(4)))
    >>> sure > unsure > 0
    True
    """
    y, weight = left.y, left.weight
    if y.shape[1] == 1:
        second = (y[:, 0] + 1) / 2  # of equal inputs with both labels, the share of the second
        target = np.column_stack([1 - second, second])
    else:
        target = (y + 1) / 2
    count = weight @ target
    k = target.shape[1]
    smooth = (count + 1) / (count + k)
    rest = (1 - smooth) / (k - 1)
    target = target * (smooth - rest) + np.sum(target * rest, axis=1, keepdims=True)
    variance = None if amplitude is None or left.variance is None else amplitude * left.variance

    def loss(log_a: float) -> float:
        found = log_softmax(_logits(left.values, math.exp(log_a), variance), axis=1)
        return -float(np.sum(weight[:, None] * target * found) / weight.sum())

    found = minimize_scalar(loss, bounds=(math.log(SMALLEST), math.log(LARGEST)), method="bounded")
    return math.exp(float(found.x))  # pyright: ignore[reportAttributeAccessIssue]
