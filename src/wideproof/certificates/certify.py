"""The one entry to all theorems: at this point, by this theorem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from wideproof.certificates.arguments import instance_of
from wideproof.certificates.attempt import Attempt, Level
from wideproof.certificates.problem import Point
from wideproof.certificates.setting import Setting
from wideproof.certificates.theorem import Theorem
from wideproof.certificates.theorems.descent import Descent

F = TypeVar("F")

POINT = instance_of(Point, "a point, as `Problem(network, data).at(params)` returns one")
THEOREM = instance_of(Theorem, "a theorem, such as `Descent()` or `Momentum(0.9)`")


def certify(
    point: Point,
    theorem: Theorem[F] = Descent(),
    *,
    level: Level = "enclosed",
    sharp: bool = False,
    about: Mapping[str, Any] | None = None,
) -> Attempt[F]:
    """Try to prove a theorem about gradient descent at a point.

    Parameters
    ----------
    point
        Weights of a network on its data: `Problem(network, data).at(params)`.
    theorem
        What is to be proved, with its arguments; by default that gradient descent converges to a global minimum
        (`Descent`).
    level
        `"enclosed"` bounds every rounding error; `"float64"` is faster and proves nothing.
    sharp
        Use sharper Lipschitz constants, at the cost of one more pass and some spectral norms for each example.
    about
        Where the weights come from; it is written into the certificate.

    Returns
    -------
    Attempt
        A certificate, or the obstacle; with the numbers at the point, and what the theorem found.

    Examples
    --------
    >>> import numpy as np
    >>> from wideproof.certificates.polishing import polish
    >>> from wideproof.certificates.theorems.momentum import Momentum
    >>> from wideproof.certificates.problem import Problem
    >>> from wideproof.data import Dataset
    >>> from wideproof.networks import FullyConnected
    >>> network = FullyConnected(input_dim=3, width=64, depth=1)
    >>> problem = Problem(network, Dataset(np.eye(3), np.array([1.0, -1.0, 1.0]), "binary"))
    >>> point = problem.at(polish(network, network.init(0), problem.data.x, problem.data.y).params)
    >>> certify(point).passed, certify(point, Momentum(0.9)).passed
    (True, True)
    """
    point, theorem = POINT("point", point), THEOREM("theorem", theorem)
    setting = Setting(point, level, sharp, {} if about is None else about)
    return theorem.suited(point.problem).prove(setting)
