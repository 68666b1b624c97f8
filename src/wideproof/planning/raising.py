"""The scale of a proof of the initial weights themselves: about the least one with which float64 finds such a proof."""

from __future__ import annotations

import math

from wideproof.certificates import Problem, certify
from wideproof.planning.choosing import Choice
from wideproof.planning.scales import Scale, one_digit
from wideproof.precision import double

COMFORTABLE = 0.4  # a ratio below this is certified; between this and 1/2 a little more training costs nothing
RAISED = 8  # times that another scale is tried


@double
def raised(choice: Choice) -> Choice:
    """Raise the scale of the outputs until the initial weights have a proof themselves, or lower it if there is room.

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
    if not choice.scales or not choice.scales[0].at_once:
        return choice
    proved = None
    for _ in range(RAISED):
        network, alpha = choice.network, choice.scales[0].alpha
        first = certify(Problem(network, choice.data).at(network.init(choice.seed)), level="float64")
        if not math.isfinite(first.h) or (proved is not None and not first.passed):
            break
        proved = choice if first.passed else None
        wanted = one_digit(alpha * first.h / COMFORTABLE)  # the ratio falls with the scale
        wanted = max(wanted, 1.0) if first.passed else max(wanted, one_digit(1.5 * alpha))
        if first.passed and wanted >= alpha:
            break
        choice = choice.at((Scale(wanted, 0, choice.steps),))
    return choice if proved is None else proved
