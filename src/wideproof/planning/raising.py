"""The scale of a proof of the initial weights themselves: the forecast one, raised until float64 finds such a proof."""

from __future__ import annotations

import math

from wideproof.certificates import Problem, certify
from wideproof.planning.choosing import Choice
from wideproof.planning.scales import Scale, one_digit
from wideproof.precision import double

COMFORTABLE = 0.4  # a ratio below this is certified; between this and 1/2 a little more training costs nothing
RAISED = 8  # times that the scale is raised


@double
def raised(choice: Choice) -> Choice:
    """Raise the scale of the outputs until the initial weights themselves can be certified.

    Parameters
    ----------
    choice
        The choice. It is returned unchanged if its proof is to follow steps of training.

    Returns
    -------
    Choice
        The choice with the scale that is needed.

    Examples
    --------
    >>> from wideproof.data import load
    >>> from wideproof.planning import choose
    >>> found = raised(choose(load("iris", limit=20), width=512, prepare="standardize,sphere(4)", budget=0.0))
    >>> found.scales[0].at_once
    True
    """
    for _ in range(RAISED):
        if not choice.scales or not choice.scales[0].at_once:
            break
        network, alpha = choice.network, choice.scales[0].alpha
        first = certify(Problem(network, choice.data).at(network.init(choice.seed)), level="float64")
        if first.passed or not math.isfinite(first.h):
            break
        choice = choice.at((Scale(one_digit(alpha * max(first.h / COMFORTABLE, 1.5)), 0, choice.steps),))
    return choice
