r"""Candidates of one hidden layer that begin at output 0, compared by the Gram matrices of the very networks.

All are compared on some of the rows, the best of them on all. Of those whose estimate is within a standard error of
the best one's, the one is taken whose proof fits into the time with the least $\alpha$, and of these the one with the
fewest steps, unless it is slow. Where there are several outputs, steps are forecast for those few by the matrix of all
outputs together (`coupled`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from wideproof.data import Dataset, Distinct, distinct, flattens, merges, prepare
from wideproof.errors import InputError
from wideproof.networks import FullyConnected
from wideproof.networks.starts import DOUBLED, ZERO
from wideproof.planning.estimates import Estimate
from wideproof.planning.outlook import Outlook, forecast
from wideproof.planning.scales import Scale, insisted, ladder, seconds_ahead, seconds_of
from wideproof.progress import Progress, Watch
from wideproof.threads import one_blas_thread

FIRST = ("standardize", "whiten", "onehot,standardize", "ranks", "ranks,whiten")  # before `sphere`
RADII = {"erf": (8, 16, 32, 64), "sin": (2, 3, 4)}
OTHER_RADII = (4, 8, 16)
COMPARED, MOST_ROWS = 400, 2000  # distinct rows that all candidates, and the best of them, are compared on
FINALISTS, FINALISTS_ZERO = 6, 3
WITHIN = 1.0  # standard errors: a candidate that is nearer to the best is as good
QUICK = 15.0  # seconds of following: what takes fewer counts as equally quick
FEW = 20  # steps to follow: fewer of them are forecast well at any width
WHITEN = 4  # distinct rows for each column that whitening needs: of fewer it makes equal distances
UNITS, UNITS_ZERO = 4_000_000, 60_000_000  # rows times units, of steps that are followed and of none
NARROWEST, NARROW, WIDEST = 1024, 2048, 8192


class Asked(NamedTuple):
    """What is given, and kept."""

    width: int | None
    depth: int | None
    activation: str | None
    prepare: str
    start: str | None
    seed: int
    budget: float
    alpha: float | None
    steps: int | None
    options: dict[str, Any]

    @property
    def fixed(self) -> str | None:
        """The preparation that is asked for; `None` where it is open."""
        return None if self.prepare == "auto" else "" if self.prepare == "none" else self.prepare


class Merits(NamedTuple):
    r"""What candidates are sorted by: whether a proof is to be expected, estimate, scale, seconds and steps to follow.

    Seconds count from `QUICK` on, steps from `FEW` on. Among quick candidates the one with the fewest steps comes
    first: the forecast takes the Jacobian for constant, and in few steps of a wide network it changes least.

    Examples
    --------
    >>> def merits(value, alpha, seconds, steps):
    ...     return Merits(True, Estimate("accuracy", value, 0.5, 0.02, 100), alpha, seconds, steps)
    >>> found = [merits(0.9, 1.0, 5.0, 60), merits(0.895, 1.0, 9.0, 30), merits(0.896, 1.0, 30.0, 20),
    ...          merits(0.89, 3.0, 1.0, 9), merits(0.8, 1.0, 1.0, 9)]
    >>> [one.estimate.value for one in sorted(found, key=lambda one: one.key(best_of(found)))]
    [0.895, 0.9, 0.896, 0.89, 0.8]
    """

    provable: bool
    estimate: Estimate | None
    alpha: float
    seconds: float
    steps: int = 0

    @property
    def slow(self) -> float:
        """The seconds, where they count."""
        return self.seconds if self.seconds > QUICK else 0.0

    @property
    def many(self) -> float:
        """The steps, where they count."""
        return float(self.steps) if self.steps > FEW else 0.0

    @property
    def value(self) -> float:
        """The estimate, or minus infinity where there is none."""
        found = self.estimate
        return -math.inf if found is None or not math.isfinite(found.value) else found.value

    def below(self, best: Merits, errors: float = WITHIN) -> bool:
        """Return whether the estimate is so many standard errors below the best one, or farther."""
        error = 0.0 if best.estimate is None else best.estimate.error
        return self.value < best.value - errors * error

    def key(self, best: Merits) -> tuple[float, ...]:
        """Sort: good estimates first, then the least scale, what is quick, the fewest steps, seconds, the estimate."""
        far = not self.provable or self.below(best)
        order = (self.alpha, self.slow, self.many, self.seconds, -self.value)
        return float(far), -self.value if far else 0.0, *order


def best_of(found: Sequence[Merits]) -> Merits:
    """Return the one with the best estimate, of those of which a proof is to be expected if there are any."""
    return max([one for one in found if one.provable] or found, key=lambda one: one.value)


class Compared(NamedTuple):
    """A candidate of one hidden layer with what its Gram matrix says: its outlook, the scale it needs, seconds of it.

    `seconds` is what prover and verifier take to follow the forecast steps, and `rows` says how many distinct ones it
    was compared on. `ahead` is the outlook that the scale was read off: that of all outputs together where it was made.
    """

    preparation: str
    outlook: Outlook
    scale: Scale
    seconds: float
    rows: int
    ahead: Outlook

    @property
    def estimate(self) -> Estimate | None:
        """On the rows it was compared on, leaving out each in turn."""
        return self.outlook.estimate

    @property
    def network(self) -> FullyConnected:
        """The network that was looked at."""
        assert isinstance(self.outlook.network, FullyConnected)
        return self.outlook.network

    @property
    def provable(self) -> bool:
        """Whether a proof is to be expected, for some scale of the outputs."""
        return self.outlook.reach > 0

    @property
    def merits(self) -> Merits:
        """What it is sorted by."""
        return Merits(self.provable, self.estimate, self.scale.alpha, self.seconds, self.scale.forecast)


class Rounds(NamedTuple):
    """What was compared to the end, and what was left behind before."""

    last: list[Compared]
    left: list[Compared]


def compared(data: Dataset, start: str, ask: Asked, notes: list[str], progress: Watch | None) -> Rounds:
    """Compare all candidates on some rows, and the best of them on all (or on very many)."""
    groups, ready = distinct(data), dict[str, Dataset]()
    wanted = candidates(data, ask)
    width = ask.width or _width(groups, start)
    few = ask.width or min(width, NARROW)

    def seen(name: str, steps: str, rows: int, width: int) -> Compared:
        if steps not in ready:
            made = prepare(data, steps) if steps else data
            if merges(data, made):
                raise InputError(
                    f"`{steps}` makes different rows of '{data.name}' equal, so a proof would be about the "
                    "preparation: leave `prepare` out, or end it with sphere"
                )
            if same := flattens(made):
                raise InputError(same)
            ready[steps] = made
        own = part(ready[steps], rows)
        outputs = math.prod(data.target_shape)
        network = FullyConnected(own.input_shape[0], width, 1, name, outputs=outputs, start=start)  # pyright: ignore[reportArgumentType]
        outlook = forecast(network, own, ask.seed)
        return judged(steps, outlook, outlook, distinct(own).n)

    def judged(steps: str, outlook: Outlook, ahead: Outlook, rows: int) -> Compared:
        per = seconds_of(outlook.network, groups.n)
        if ask.alpha is None:
            scale = ladder(ahead, per, ask.budget, 1, ask.steps)[0]
        else:
            scale = insisted(ahead, per, ask.budget, ask.alpha, 1, ask.steps)[0]
        return Compared(steps, outlook, scale, seconds_ahead(scale, per), rows, ahead)

    def coupled(one: Compared) -> Compared:
        if one.network.outputs == 1 or start != DOUBLED or one.rows < groups.n:
            return one
        ahead = forecast(one.network, ready[one.preparation], ask.seed, joint=True)
        return judged(one.preparation, one.outlook, ahead, one.rows)

    def run(todo: Sequence[tuple[str, str]], rows: int, width: int, done: int, total: int) -> list[Compared]:
        found = []
        for k, (name, steps) in enumerate(todo):
            if progress is not None:
                progress(Progress("choosing", done + k, total, f"{name}, prepared by {steps or 'nothing'}"))
            try:
                one = seen(name, steps, rows, width)
            except InputError as error:
                notes.append(f"left out {steps}: {error}")
                continue
            found.append(one)
        return found

    finalists = FINALISTS if start == DOUBLED else FINALISTS_ZERO
    with one_blas_thread():
        total = len(wanted) + finalists
        found = run(wanted, COMPARED, few, 0, total)
        if not found:
            raise InputError(notes[-1].partition(": ")[2] if notes else f"nothing can be compared on '{data.name}'")
        best = _finalists(found, finalists)
        left = [one for one in found if not any(one is other for other in best)]
        if len(found) > 1 and (groups.n > COMPARED or width != few):
            again = [(one.network.activation.name, one.preparation) for one in best]
            best = run(again, MOST_ROWS, width, len(wanted), total)
        most = best_of([one.merits for one in best])
        best = [one if one.merits.below(most) else coupled(one) for one in best]
        top = ranked(best)[0]
        narrower = [] if ask.width or start == ZERO else [w for w in (width // 2, width // 4) if w >= NARROWEST]
        if groups.n <= MOST_ROWS:
            name = top.network.activation.name
            best += [coupled(seen(name, top.preparation, MOST_ROWS, w)) for w in narrower]
    return Rounds(best, left)


def candidates(data: Dataset, ask: Asked) -> list[tuple[str, str]]:
    """Return the activations and preparations that are compared."""
    names = [ask.activation] if ask.activation else list(RADII)
    if ask.fixed is not None:
        return [(name, ask.fixed) for name in names]
    return [
        (name, f"{first},sphere({r})")
        for name in names
        for first in _firsts(data)
        for r in RADII.get(name, OTHER_RADII)
    ]


def part(data: Dataset, rows: int) -> Dataset:
    """Return the rows of so many distinct inputs, the same whenever it is asked."""
    groups = distinct(data)
    if groups.n <= rows:
        return data
    chosen = np.random.default_rng(0).permutation(groups.n)[:rows]
    return data.take(np.flatnonzero(np.isin(groups.place, chosen)))


def _firsts(data: Dataset) -> list[str]:
    """Return what may come before the sphere: whitening only where there are enough rows for it."""
    columns, rows = data.x.shape[1], distinct(data).n
    ordinary = WHITEN * columns <= rows
    found = [first for first in FIRST if ordinary or "whiten" not in first]
    codes = any(3 <= len(np.unique(column)) <= 12 for column in data.x.T)
    return found if codes else [first for first in found if "onehot" not in first]


def _finalists(found: Sequence[Compared], count: int) -> list[Compared]:
    """Return the best by their estimates, and of those within a standard error the ones that need the fewest steps."""
    order = sorted(found, key=lambda one: one.merits.value, reverse=True)
    near = [one for one in order if not one.merits.below(order[0].merits, 1.0)]
    half = (count + 1) // 2
    quick = sorted((one for one in near if one not in order[:half]), key=lambda one: one.outlook.steps(10.0))
    return [*order[:half], *quick[: count - half]]


def ranked(found: Sequence[Compared]) -> list[Compared]:
    """Return what was compared, the best first."""
    best = best_of([one.merits for one in found])
    return sorted(found, key=lambda one: one.merits.key(best))


def _width(groups: Distinct, start: str) -> int:
    """Return the largest power of two with rows times units within a limit; for a zero read-out more than rows."""
    if start == ZERO:
        wide = 1 << max(NARROWEST.bit_length() - 1, math.ceil(math.log2(4 * groups.n)))
        return wide if wide * groups.n <= UNITS_ZERO else wide // 2
    most = min(WIDEST, UNITS // groups.n)
    return max(NARROWEST, 1 << (max(most, 1).bit_length() - 1))
