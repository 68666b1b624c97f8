"""The network to train, with its width and step size, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wideproof.networks import Network, RecurrentLimit
from wideproof.planning.evaluation import Row
from wideproof.planning.width import Measured

LEARNS_BY_HEART = 2.0  # times the least left-out error: more is worth a sentence


@dataclass(frozen=True)
class Recommendation:
    """What to train.

    Attributes
    ----------
    row
        The candidate and what is known of it.
    network
        That network, for the prepared data, at the recommended width.
    tried
        The widths that were drawn, the last being the recommended one.
    seed
        The seed they were drawn with.
    reasons
        One sentence each.
    """

    row: Row
    network: Network
    tried: tuple[Measured, ...]
    seed: int
    reasons: tuple[str, ...]

    @property
    def width(self) -> int:
        """Units per layer."""
        return self.tried[-1].width

    @property
    def step_size(self) -> float:
        """Step size for half the sum of squares."""
        return self.tried[-1].step_size

    @property
    def wide_enough(self) -> bool:
        """Whether the drawn network has half of the limit's smallest eigenvalue."""
        return self.tried[-1].enough

    def __str__(self) -> str:
        return f"{self.row.candidate}; width {self.width}, step size {self.step_size:.4g}"


def recommend(ranked: Sequence[Row], network: Network, tried: tuple[Measured, ...], seed: int) -> Recommendation:
    """Recommend the first of the ranked rows, and say why in words."""
    decided = [row for row in ranked if row.decided]
    first, last = decided[0], decided[-1]
    reasons = [
        _ranking(first, last, len(ranked)),
        *_preparation(first, decided),
        _width(tried, seed),
        _step(network, tried[-1]),
    ]
    return Recommendation(first, network, tried, seed, (*reasons, *_left_out(first, decided)))


def _ranking(first: Row, last: Row, count: int) -> str:
    assert first.condition is not None
    assert last.condition is not None
    text = (
        f"fewest predicted steps of {count} candidates: {_steps(first)}, condition number {first.condition.value:.3g}"
    )
    return text if last is first else f"{text} (the slowest: {_steps(last)}, {last.condition.value:.3g})"


def _preparation(first: Row, decided: Sequence[Row]) -> list[str]:
    one = first.candidate
    others = [
        row
        for row in decided
        if row is not first and (row.candidate.network, row.candidate.activation, row.candidate.depth)
        == (one.network, one.activation, one.depth)
    ]  # fmt: skip
    told = [f"{row.candidate.preparation or 'nothing'} {_steps(row)}" for row in others]
    return [f"the same network takes, prepared by other steps: {'; '.join(told)}"] if told else []


def _width(tried: tuple[Measured, ...], seed: int) -> str:
    last = tried[-1]
    if last.enough:
        return (
            f"width {last.width} is the first power of two, from the number of examples up, whose drawn network (seed "
            f"{seed}) has half of the smallest eigenvalue of infinite width: it has {100 * last.share:.0f} %"
        )
    return (
        f"width {last.width} is as wide as was tried, and the drawn network (seed {seed}) has "
        f"{100 * last.share:.2g} % of the smallest eigenvalue of infinite width, less than half: expect more steps "
        "than predicted, or make it wider"
    )


def _step(network: Network, last: Measured) -> str:
    limit = network.limit()
    grows = isinstance(limit, RecurrentLimit) or any(layer.factor != 1 for layer in limit.layers)
    rule = "the step size is 1/λmax, by the larger of the drawn network's and the limit's"
    if grows:
        rule += "; λmax grows with the width, so the step falls in proportion"
    own = "never reaches the target" if last.steps is None else f"takes {short(last.steps)} steps to the target"
    return f"{rule}; with it the drawn network, its Gram matrix held fixed, {own} from its own start"


def _left_out(first: Row, decided: Sequence[Row]) -> list[str]:
    """A sentence where a slower network does much better on left-out examples."""
    best = min(decided, key=lambda row: (_number(row.left_out), _number(row.steps)))
    own, least = _number(first.left_out), _number(best.left_out)
    if best is first or own <= LEARNS_BY_HEART * least:
        return []
    return [
        f"fast is not good on new examples: on left-out ones its error is {own:.2g} of the targets, and {least:.2g} "
        f"with {best.candidate}, in {_steps(best)}"
    ]


def _number(value: float | int | None) -> float | int:
    return float("inf") if value is None else value


def _steps(row: Row) -> str:
    return "more steps than can be counted" if row.steps is None else f"{short(row.steps)} steps"


def short(count: int) -> str:
    """Return a number of steps in few characters.

    Parameters
    ----------
    count
        The number.

    Examples
    --------
    >>> short(80), short(1366170112)
    ('80', '1.4e9')
    """
    if count < 10**6:
        return str(count)
    mantissa, _, exponent = f"{count:.1e}".partition("e")
    return f"{mantissa}e{int(exponent)}"
