"""Finite: the loss after the last step of a run, and whether every example is on the right side there.

The steps are repeated from the initial weights (`certify_from_start`), so that nothing is asked of the end: neither a
small residual, nor a positive definite Gram matrix, nor the squared loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NotRequired, TypedDict

import numpy as np
from jaxtyping import Float


class Claims(TypedDict):
    """What is claimed about the end of the steps."""

    loss: float
    margin: NotRequired[float]


@dataclass(frozen=True)
class Finite:
    r"""The loss after the steps of a run, for `certify_from_start`: nothing is claimed about more steps.

    The claims leave room for the ball around the end of the exact steps, about $10^{-6} + 10^{-4} L$.

    Examples
    --------
    >>> import wideproof as wp
    >>> from wideproof.certificates import certify_from_start
    >>> data = wp.prepare(wp.load("iris", classes=("setosa", "versicolor"), limit=12), "standardize,sphere")
    >>> network = wp.build("deep-relu", data.input_shape, data.target_shape, width=16, depth=2)
    >>> run = wp.train(network, data, wp.Recipe(loss="logistic", steps=50, step_size=0.5, batch=4))
    >>> certify_from_start(run, Finite()).certificate.theorem
    'finite'
    """


def slack(loss: float) -> float:
    """Return what the ball around the end of the steps may add to the loss, or take from a margin.

    >>> slack(1.0)
    0.000101
    """
    return 1e-6 + 1e-4 * abs(loss)


def claims_of(loss: float, margin: float) -> Claims:
    """Return the claims about an end with this loss and this least margin.

    >>> claims_of(1.0, -0.5), sorted(claims_of(1.0, 0.5))
    ({'loss': 1.000101}, ['loss', 'margin'])
    """
    room = slack(loss)
    return Claims(loss=loss + room, margin=margin - room) if margin > 2 * room else Claims(loss=loss + room)


def margin_of(outputs: Float[np.ndarray, "n c"], y: Float[np.ndarray, "n c"]) -> float:
    """Return the least margin: of one output y f, of several the own one less the best other one.

    >>> margin_of(np.array([[3.0, 1.0], [0.0, 0.5]]), np.array([[1.0, -1.0], [-1.0, 1.0]]))
    0.5
    """
    if y.shape[1] == 1:
        return float((outputs * y).min())
    own = np.where(y > 0, outputs, 0).sum(axis=1)
    return float((own - np.where(y > 0, -math.inf, outputs).max(axis=1)).min())
