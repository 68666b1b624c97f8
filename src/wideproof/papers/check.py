r"""The answer to one statement: it holds, it fails, or these numbers cannot tell.

A check, of a paper's statement or of one's own, is made by one of six comparisons, each of which can come out in all
three ways:

| comparison | holds | fails | undecided |
|---|---|---|---|
| `identity`  | relative error at most the tolerance | larger | a value is not finite |
| `at_most`   | left side below the right one, everywhere | above, somewhere | a tie within rounding; not finite |
| `scales`    | the whole interval of the fitted exponent is no worse than printed | all of it is worse | in between |
| `law`       | the mean is within 4 standard errors | beyond 6 | in between; not finite |
| `frequency` | the interval of the success rate lies above the claim | below | in between |
| `agrees`    | an independent computation gives the same, to a tolerance | it does not | a value is not finite |

`conclude` joins the parts of a statement: it fails if a part fails, and holds only if every part holds. What a
statement supposes is checked too, and shown beside its conclusion, but does not enter the outcome.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from wideproof.answers import Answer
from wideproof.cards import Told
from wideproof.papers.slopes import Sense, Slope, fit_slope

ROUNDING = 1e-12
NEAR, FAR = 4.0, 6.0  # standard errors: within NEAR a law holds, beyond FAR it fails
CONFIDENCE = 0.95


Kind = Literal["exact", "bound", "scale", "oracle"]


@dataclass(frozen=True)
class Check(Told):
    r"""The result of a comparison: what was compared, the outcome, and by how much.

    Attributes
    ----------
    title
        What was compared, in words and symbols.
    kind
        `exact`, `bound`, `scale` or `oracle`.
    outcome
        `HOLDS`, `FAILS` or `UNDECIDED`.
    left
        The left side at the sample that is closest to (or furthest into) a violation.
    right
        The right side at the same sample.
    slack
        The relative difference of the sides: positive if the comparison holds.
    constant
        For bounds, the least factor of the right side with which it would hold. For scales of quantities that are
        bounded from above, the largest ratio of the measured value to the printed power; this is no constant of the
        paper, since it contains all other factors of the bound.
    slope
        For scales, the fitted exponent with its interval.
    samples
        Number of pairs of numbers that were compared.
    parts
        The comparisons that this check joins.
    hypotheses
        Checks of what the statement supposes.
    assumptions
        Choices made where the paper leaves one (constants, sizes, a finite set for "all").
    note
        Why it fails or is undecided; empty if it holds.
    frozen
        Whether the constant of the bound was fixed before, at other sizes and with other seeds (`frozen`).
    vacuous
        Whether the right side says nothing at any sample.
    """

    title: str
    kind: Kind
    outcome: Answer
    left: float | None = None
    right: float | None = None
    slack: float | None = None
    constant: float | None = None
    slope: Slope | None = None
    samples: int = 0
    parts: tuple[Check, ...] = ()
    hypotheses: tuple[Check, ...] = ()
    assumptions: tuple[str, ...] = ()
    note: str = ""
    frozen: bool = False
    vacuous: bool = False

    def __str__(self) -> str:
        said = f"{self.outcome}: {self.title}"
        shown = [text for text in (self.numbers(), self.note) if text]
        return f"{said} ({'; '.join(shown)})" if shown else said

    def numbers(self) -> str:
        """Return the measured figures in one line."""
        shown = []
        if self.slope is not None:
            shown.append(str(self.slope))
        if self.left is not None and self.right is not None:
            shown.append(f"{self.left:.4g} against {self.right:.4g}")
        if self.constant is not None and np.isfinite(self.constant):
            least = f"holds for C >= {self.constant:.3g}"
            shown.append(least if self.slope is None else self.slope.below(self.constant))
        return ", ".join(shown)

    def leaves(self) -> Iterator[Check]:
        """Yield the comparisons that this check joins, itself if it is one."""
        if not self.parts:
            yield self
        for part in self.parts:
            yield from part.leaves()


def identity(title: str, left: ArrayLike, right: ArrayLike, *, tolerance: float = 1e-10, kind: Kind = "exact") -> Check:
    r"""Compare two computations of the same quantity: $\max|a - b| \le$ `tolerance` $\cdot \max(|a|, |b|)$.

    Parameters
    ----------
    title
        What is compared.
    left
        The first computation, a number or an array.
    right
        The second one.
    tolerance
        Maximum difference relative to the largest value.
    kind
        The kind of the check: `"exact"`, or `"oracle"` for an independent computation (`agrees`).

    Returns
    -------
    Check
        The check.

    Examples
    --------
    >>> identity("sin² + cos² = 1", np.sin(1) ** 2 + np.cos(1) ** 2, 1.0).outcome.value
    'holds'
    """
    a, b = np.broadcast_arrays(np.asarray(left, float), np.asarray(right, float))
    _require_some(title, a)
    difference = np.abs(a - b)
    size = max(np.abs(a).max(), np.abs(b).max())
    if not np.isfinite(difference).all():
        return Check(title, kind, Answer.UNDECIDED, samples=a.size, note="a value is not finite")
    error = float(difference.max() / size) if size > 0 else 0.0
    worst = np.unravel_index(int(difference.argmax()), a.shape)
    outcome = Answer.HOLDS if error <= tolerance else Answer.FAILS
    return Check(title, kind, outcome, float(a[worst]), float(b[worst]), 1 - error / tolerance, samples=a.size)


def agrees(title: str, measured: ArrayLike, reference: ArrayLike, *, tolerance: float) -> Check:
    """Compare measured values with an independent computation.

    Parameters
    ----------
    title
        What is compared.
    measured
        The measured values.
    reference
        The values of the independent computation.
    tolerance
        Maximum difference relative to the largest value; it says how exact the reference is.

    Returns
    -------
    Check
        The check.

    Examples
    --------
    >>> print(agrees("π by 22/7", 22 / 7, np.pi, tolerance=1e-3).outcome)
    holds
    """
    return identity(title, measured, reference, tolerance=tolerance, kind="oracle")


def at_most(
    title: str,
    left: ArrayLike,
    right: ArrayLike,
    *,
    rounding: float = ROUNDING,
    counts: bool = False,
    largest: float = np.inf,
) -> Check:
    r"""Compare $a \le b$ at every sample.

    The relative slack at a sample is $(b - a) / \max(|a|, |b|)$; within `rounding` of zero the sample is undecided.

    Parameters
    ----------
    title
        What is compared.
    left
        The measured side $a$: numbers or arrays that broadcast with `right`.
    right
        Its bound $b$.
    rounding
        The relative difference below which a sample is a tie.
    counts
        Whether both sides are whole numbers, for which a tie holds.
    largest
        What the left side cannot exceed, such as 1 for a probability. A sample whose right side is no less says
        nothing and is left out; where all are, the check is undecided.

    Returns
    -------
    Check
        The check.

    Examples
    --------
    >>> check = at_most("x/2 <= x", np.arange(1, 5) / 2, np.arange(1, 5))
    >>> check.outcome.value, check.slack, check.constant
    ('holds', 0.5, 0.5)
    >>> print(at_most("a probability", [0.2, 0.3], [10.4, 151.0], largest=1.0))
    undecided: a probability (0.3 against 10.4; vacuous here: the left side cannot exceed 1, and no right side is below)
    """
    a, b = np.broadcast_arrays(np.asarray(left, float), np.asarray(right, float))
    _require_some(title, a)
    if np.isfinite(largest):
        empty = b >= largest
        if empty.all():
            note = f"vacuous here: the left side cannot exceed {largest:g}, and no right side is below"
            worst, least = float(a.max()), float(b.min())
            return Check(title, "bound", Answer.UNDECIDED, worst, least, samples=a.size, note=note, vacuous=True)
        a, b = a[~empty], b[~empty]
    if np.isnan(a).any() or np.isnan(b).any() or (np.isinf(a) & np.isinf(b)).any():
        return Check(title, "bound", Answer.UNDECIDED, samples=a.size, note="a value is not finite")
    size = np.maximum(np.abs(a), np.abs(b))
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(np.isinf(size), np.sign(b - a), np.where(size > 0, (b - a) / size, 0.0))
        ratios = np.where(b > 0, np.maximum(a, 0) / b, np.where(a > 0, np.inf, 0.0))
    worst = np.unravel_index(int(room.argmin()), room.shape)
    slack = float(room[worst])
    tie = abs(slack) <= rounding and not (counts or (a[worst] == 0 and b[worst] == 0))
    outcome = Answer.UNDECIDED if tie else Answer.HOLDS if slack >= 0 else Answer.FAILS
    note = "a tie within rounding" if tie else ""
    constant = float(ratios.max())
    return Check(title, "bound", outcome, float(a[worst]), float(b[worst]), slack, constant, samples=a.size, note=note)


def at_least(
    title: str, left: ArrayLike, right: ArrayLike, *, rounding: float = ROUNDING, counts: bool = False
) -> Check:
    r"""Compare $a \ge b$ at every sample; like `at_most`, with the sides exchanged and `left` still the measured one.

    Parameters
    ----------
    title
        What is compared.
    left
        The measured side $a$.
    right
        Its bound $b$.
    rounding
        The relative difference below which a sample is a tie.
    counts
        Whether both sides are whole numbers.

    Returns
    -------
    Check
        The check.

    Examples
    --------
    >>> print(at_least("x >= x/2", [1.0, 2.0], [0.5, 1.0]))
    holds: x >= x/2 (1 against 0.5; holds for constants up to 2 times the right side)
    """
    check = at_most(title, right, left, rounding=rounding, counts=counts)
    least = None if check.constant is None or check.constant == 0 else 1 / check.constant
    note = check.note or ("" if least is None else f"holds for constants up to {least:.3g} times the right side")
    return replace(check, left=check.right, right=check.left, constant=None, note=note)


def sides(samples: Iterable[Sequence[ArrayLike]]) -> tuple[np.ndarray, ...]:
    """Return the sides of a comparison from samples that were collected one by one.

    Parameters
    ----------
    samples
        For each sample the numbers or arrays of its sides, in one order.

    Returns
    -------
    tuple[array, ...]
        One array for each side.

    Examples
    --------
    >>> left, right = sides([(1.0, 2.0), ([3.0, 4.0], 5.0)])
    >>> left.tolist(), right.tolist()
    ([1.0, 3.0, 4.0], [2.0, 5.0, 5.0])
    """
    rows = [[side.ravel() for side in np.broadcast_arrays(*(np.asarray(s, float) for s in one))] for one in samples]
    if not rows:
        raise ValueError("nothing to compare: no sample was gathered")
    return tuple(np.concatenate(column) for column in zip(*rows, strict=True))


def scales(
    title: str,
    variable: str,
    x: ArrayLike,
    y: ArrayLike,
    printed: float,
    *,
    sense: Sense = "at most",
    allowance: float = 0.1,
    lower: bool = False,
) -> Check:
    r"""Fit $y \sim x^s$ and compare $s$ with the printed exponent.

    Parameters
    ----------
    title
        What `y` is.
    variable
        Name of `x`, such as `"m"`.
    x
        At least three points.
    y
        One value for each point, or one row for each independent draw (the interval is then over draws).
    printed
        The exponent in the paper.
    sense
        `"at most"`: a smaller exponent than the printed one is better; `"at least"`: a larger one is; `"equal"`:
        neither.
    allowance
        How much a fit over a finite range may differ from the printed exponent; 0.1 unless the title gives a reason.
    lower
        Whether the statement bounds $y$ from below, as in $y \ge C x$ for small $x$, with an exponent of at most 1.
        Then no factor of an upper bound is computed.

    Returns
    -------
    Check
        The check, with the fitted exponent as `slope`.

    Examples
    --------
    >>> x = np.array([1.0, 2.0, 4.0, 8.0])
    >>> scales("y", "x", x, [x**0.5, 1.1 * x**0.5, 0.9 * x**0.5], printed=1.0).outcome.value
    'holds'
    """
    slope = fit_slope(variable, x, y, printed, sense, allowance)
    samples = int(np.size(y))
    if slope is None:
        note = "no exponent can be fitted: fewer than three points are positive and finite"
        return Check(title, "scale", Answer.UNDECIDED, samples=samples, note=note)
    outcome = slope.verdict()
    note = "the interval of the exponent covers the limit" if outcome is Answer.UNDECIDED else ""
    constant = slope.constant() if sense == "at most" and not lower else None
    return Check(title, "scale", outcome, None, None, slope.room(), constant, slope, samples, note=note)


def law(title: str, samples: ArrayLike, expected: ArrayLike, *, kind: Kind = "exact") -> Check:
    """Compare the mean over independent draws (axis 0) with its expected value, in standard errors.

    Parameters
    ----------
    title
        The random quantity.
    samples
        One row for each draw.
    expected
        The expected mean of every column.
    kind
        The kind of the check: `"exact"`, or `"oracle"` if the expectation comes from an independent computation.

    Returns
    -------
    Check
        The check.

    Examples
    --------
    >>> draws = np.random.default_rng(0).normal(size=(100, 2))
    >>> print(law("normal draws", draws, 0.0).outcome, law("normal draws", draws, 1.0).outcome)
    holds fails
    """
    drawn = np.asarray(samples, float)
    _require_some(title, drawn)
    draws = drawn.shape[0]
    if draws < 3 or not np.isfinite(drawn).all():
        note = "a value is not finite" if draws >= 3 else "fewer than three draws"
        return Check(title, kind, Answer.UNDECIDED, samples=draws, note=note)
    mean, error = drawn.mean(axis=0), drawn.std(axis=0, ddof=1) / np.sqrt(draws)
    off = np.abs(mean - np.asarray(expected, float))
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(off <= ROUNDING * np.maximum(np.abs(mean), 1), 0.0, off / error)
    worst = np.unravel_index(int(z.argmax()), z.shape)
    score = float(z[worst])
    outcome = Answer.HOLDS if score <= NEAR else Answer.FAILS if score > FAR else Answer.UNDECIDED
    wanted = np.broadcast_to(np.asarray(expected, float), mean.shape)
    note = f"{score:.1f} standard errors, {draws} draws"
    return Check(
        title, kind, outcome, float(mean[worst]), float(wanted[worst]), 1 - score / NEAR, samples=draws, note=note
    )


def frequency(title: str, successes: int, trials: int, claimed: float) -> Check:
    """Compare a success rate with a claimed probability, by its exact (Clopper-Pearson) interval.

    Parameters
    ----------
    title
        What succeeds.
    successes
        Number of successes.
    trials
        Number of trials.
    claimed
        The claimed probability, a lower bound.

    Returns
    -------
    Check
        The check.

    Examples
    --------
    >>> print(frequency("heads", 98, 100, 0.9))
    holds: heads (0.98 against 0.9; 98 of 100, interval [0.930, 0.998])
    """
    from scipy import stats  # not above: a list of statements needs none of it

    if not 0 <= successes <= trials or trials < 1:
        raise ValueError(f"{title}: {successes} successes in {trials} trials")
    interval = stats.binomtest(successes, trials).proportion_ci(CONFIDENCE, method="exact")
    rate = successes / trials
    low, high = float(interval.low), float(interval.high)
    outcome = Answer.HOLDS if low >= claimed else Answer.FAILS if high < claimed else Answer.UNDECIDED
    note = f"{successes} of {trials}, interval [{low:.3f}, {high:.3f}]"
    slack = (rate - claimed) / max(rate, claimed, 1e-300)
    return Check(title, "bound", outcome, rate, claimed, slack, samples=trials, note=note)


def often(title: str, held: ArrayLike, claimed: float) -> Check:
    """Compare the share of successes with a claimed probability.

    Parameters
    ----------
    title
        The event.
    held
        One truth value for each trial.
    claimed
        The claimed probability, a lower bound.

    Returns
    -------
    Check
        The check.

    Examples
    --------
    >>> print(often("below 3", np.arange(100) % 50 < 49, 0.9).outcome)
    holds
    """
    found = np.asarray(held)
    return frequency(title, int(np.count_nonzero(found)), found.size, claimed)


def conclude(
    *parts: Check,
    title: str = "",
    hypotheses: Sequence[Check] = (),
    assumptions: Sequence[str] = (),
    note: str = "",
) -> Check:
    """Join the parts of a statement: it fails if one part fails, and holds if all hold.

    Parameters
    ----------
    *parts
        The comparisons, at least one.
    title
        What they say together; by default the title of the part that decides.
    hypotheses
        Checks of what the statement supposes; they do not change the outcome.
    assumptions
        Choices that were made because the statement leaves them open.
    note
        Why the outcome is what it is.

    Returns
    -------
    Check
        The check of the whole statement.

    Examples
    --------
    >>> print(conclude(at_most("1 <= 2", 1.0, 2.0), at_most("3 <= 2", 3.0, 2.0)).outcome)
    fails
    """
    if not parts:
        raise ValueError("a statement needs at least one comparison")
    outcomes = [part.outcome for part in parts]
    outcome = next((o for o in (Answer.FAILS, Answer.UNDECIDED) if o in outcomes), Answer.HOLDS)
    leaves = [leaf for part in parts for leaf in part.leaves()]
    # An exponent says more than an inequality with its constant; then what has the least room.
    worst = min(
        (leaf for leaf in leaves if leaf.outcome is outcome), key=lambda leaf: (leaf.slope is None, _room(leaf))
    )
    if len(parts) == 1 and not parts[0].parts:
        (only,) = parts
        return replace(
            only,
            title=title or only.title,
            hypotheses=tuple(hypotheses),
            assumptions=tuple(assumptions),
            note="; ".join(text for text in (only.note, note) if text),
        )
    return replace(
        worst,
        title=title or worst.title,
        outcome=outcome,
        samples=sum(leaf.samples for leaf in leaves),
        parts=tuple(parts),
        hypotheses=tuple(hypotheses),
        assumptions=tuple(assumptions),
        note="; ".join(text for text in (worst.note, note) if text),
    )


def _room(check: Check) -> float:
    return np.inf if check.slack is None else check.slack


def _require_some(title: str, values: np.ndarray) -> None:
    if not values.size:
        raise ValueError(f"nothing to compare in {title!r}")
