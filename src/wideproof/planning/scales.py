r"""How much the outputs are multiplied: the least $\alpha$ whose steps can be followed in time, then larger ones."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from wideproof.certificates import DENSE, seconds_to_follow
from wideproof.networks import Network
from wideproof.networks.starts import DOUBLED
from wideproof.planning.outlook import Outlook

BUDGET = 120.0  # seconds that prover and verifier may take to follow steps
LADDER = tuple(a * 10.0**k for k in range(12) for a in (1, 3))
SLACK, BOTH = 1.5, 1.5  # of forecast steps; of the verifier's seconds, for the prover that follows them too
MOST_STEPS = 8192  # that are ever followed
SHOWN_STEPS, OPERATIONS, PER_UNIT = 256, 1e11, 500  # of training that nothing waits for


class Scale(NamedTuple):
    r"""A scale of the outputs to try.

    If the forecast is 0 steps, the proof is one of the initial weights themselves.

    Attributes
    ----------
    alpha
        The factor $\alpha$ of the outputs.
    forecast
        Forecast number of steps until the theorem applies.
    most
        Maximum number of steps to follow.
    """

    alpha: float
    forecast: int
    most: int

    @property
    def at_once(self) -> bool:
        """Whether no step has to be followed."""
        return self.forecast == 0


def seconds_of(network: Network, rows: int) -> float:
    """Return about how long prover and verifier take to follow one step; infinity where no look on the way is cheap."""
    graph = network.graph.unrolled
    if rows * graph.outputs * len(graph.sites) > DENSE:
        return math.inf
    zeros = {name: np.broadcast_to(0.0, law.shape) for name, law in network.laws().items()}
    return BOTH * seconds_to_follow(graph, zeros, rows, [0.0])


def seconds_ahead(scale: Scale, per: float) -> float:
    """Return the seconds of following the steps of a scale, at `per` seconds each; none take none.

    >>> seconds_ahead(Scale(10.0, 16, 24), 0.5), seconds_ahead(Scale(200.0, 0, 24), math.inf)
    (8.0, 0.0)
    """
    return 0.0 if scale.at_once else scale.forecast * per


def ladder(outlook: Outlook, per: float, budget: float, shown: int, steps: int | None = None) -> tuple[Scale, ...]:
    r"""Return the scales to try: the least $\alpha$ whose steps fit, about 3 and 30 times it, and one at once.

    Parameters
    ----------
    outlook
        Of the network with $\alpha = 1$.
    per
        Seconds of following a step.
    budget
        Seconds for all steps.
    shown
        How many steps are taken where none has to be followed.
    steps
        The most that are to be taken, where that is not left open.

    Examples
    --------
    >>> from wideproof.networks import FullyConnected
    >>> network = FullyConnected(3, 64, 1, "erf", start="doubled")
    >>> outlook = Outlook(network, None, np.array([1.0, 10.0]), np.array([1.0, 1.0]), 0.02)
    >>> [tuple(scale) for scale in ladder(outlook, 1.0, 24.0, 256)]
    [(10.0, 16, 24), (30.0, 5, 24), (200.0, 0, 256)]
    >>> [scale.alpha for scale in ladder(outlook, 1.0, 1e4, 256)]
    [1.0, 3.0, 30.0, 200.0]
    """
    most = int(min(MOST_STEPS, budget / per, math.inf if steps is None else steps))
    most = most if begins_in_pairs(outlook.network) else 0
    at_once = one_digit(2 * outlook.before)
    if not math.isfinite(at_once):  # a singular matrix: no scale helps
        return (Scale(1.0, max(most, 1), max(most, 1)),)
    found = [
        Scale(alpha, ahead, most)
        for alpha in LADDER
        if alpha < at_once and (ahead := max(outlook.steps(alpha), 1)) * SLACK <= most
    ]
    return (*found[:2], *found[3:4], Scale(max(at_once, 1.0), 0, shown if steps is None else steps))


def insisted(
    outlook: Outlook, per: float, budget: float, alpha: float, shown: int, steps: int | None = None
) -> tuple[Scale, ...]:
    """Return the one scale that was asked for, with as many steps as it may need; see `ladder`."""
    forecast = min(outlook.steps(alpha), MOST_STEPS) if begins_in_pairs(outlook.network) else 0
    if steps is None:
        steps = int(min(MOST_STEPS, max(budget / per, 4 * forecast))) if forecast else shown
    return (Scale(float(alpha), forecast, steps),)


def begins_in_pairs(network: Network) -> bool:
    """Return whether outputs begin at 0 because units come in pairs: then all weights move at first."""
    return getattr(network, "start", None) == DOUBLED


def shown_steps(network: Network, rows: int) -> int:
    """Return how many steps are taken where the proof does not wait for them: some seconds' worth."""
    return int(np.clip(steps_within(network, rows), 2, SHOWN_STEPS))


def steps_within(network: Network, rows: int) -> float:
    """Return how many steps of training the usual number of operations is."""
    laws = list(network.laws().values())
    weights, units = sum(math.prod(law.shape) for law in laws), sum(law.shape[0] for law in laws[:-1])
    return OPERATIONS / (rows * (6 * weights + PER_UNIT * units))


def one_digit(value: float) -> float:
    """Round up to one digit.

    >>> one_digit(127.0), one_digit(0.9), one_digit(3e5)
    (200.0, 0.9, 300000.0)
    """
    if not 0 < value < math.inf:
        return value
    power = math.floor(math.log10(value) + 1e-12)
    return float(f"{math.ceil(value / 10.0**power - 1e-9)}e{power}")
