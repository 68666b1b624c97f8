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
from scipy import stats

from wideproof.answers import Answer
from wideproof.papers.slopes import Sense, Slope, fit_slope

ROUNDING = 1e-12
NEAR, FAR = 4.0, 6.0  # standard errors: within NEAR a law holds, beyond FAR it fails
CONFIDENCE = 0.95


Kind = Literal["exact", "bound", "scale", "oracle"]


@dataclass(frozen=True)
class Check:
    r"""What was compared, how it came out, and by how much.

    Attributes
    ----------
    title
        What was compared, in words and symbols.
    kind
        `exact`, `bound`, `scale` or `oracle`.
    outcome
        Holds, fails or undecided.
    left, right
        The two sides where they are closest to (or furthest into) a violation.
    slack
        The room left there, relative: positive when the comparison holds.
    constant
        For bounds, the least factor on the right side with which it would hold. For scales of what is bounded from
        above, the largest measured value over the printed power: no constant of the paper, since all other factors
        of its bound are in it.
    slope
        For scales, the fitted exponent with its interval.
    samples
        How many pairs of numbers were compared.
    parts, hypotheses
        The comparisons that this check joins, and those of what the statement supposes.
    assumptions
        Choices made where the paper leaves one (constants, sizes, a finite set for "all").
    note
        Why it fails or is undecided, when it does.
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
    r"""Compare two computations of one thing: $\max|a - b| \le$ `tolerance` $\cdot \max(|a|, |b|)$.

    Parameters
    ----------
    title
        What is compared.
    left, right
        The two computations, one value or an array each.
    tolerance
        How far apart they may be, relative to the largest value.
    kind
        How the check is called: `"exact"`, or `"oracle"` for an independent computation (`agrees`).

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
    """Compare with an independent computation, to a relative `tolerance` that says how exact the reference is.

    Parameters
    ----------
    title
        What is compared.
    measured, reference
        The values, and those of the independent computation.
    tolerance
        How far apart they may be, relative to the largest value.

    Examples
    --------
    >>> print(agrees("π by 22/7", 22 / 7, np.pi, tolerance=1e-3).outcome)
    holds
    """
    return identity(title, measured, reference, tolerance=tolerance, kind="oracle")


def at_most(
    title: str, left: ArrayLike, right: ArrayLike, *, rounding: float = ROUNDING, counts: bool = False
) -> Check:
    r"""Compare $a \le b$ at every sample; `counts` are whole numbers, for which a tie holds.

    The relative room at a sample is $(b - a) / \max(|a|, |b|)$; within `rounding` of zero it decides nothing.

    Parameters
    ----------
    title
        What is compared.
    left, right
        The measured side $a$ and its bound $b$: numbers or arrays that can be paired.
    rounding
        The relative difference below which a sample is a tie.
    counts
        Whether both sides are whole numbers.

    Examples
    --------
    >>> check = at_most("x/2 <= x", np.arange(1, 5) / 2, np.arange(1, 5))
    >>> check.outcome.value, check.slack, check.constant
    ('holds', 0.5, 0.5)
    """
    a, b = np.broadcast_arrays(np.asarray(left, float), np.asarray(right, float))
    _require_some(title, a)
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
    r"""Compare $a \ge b$ at every sample; as `at_most` with the sides exchanged, `left` staying the measured one.

    Parameters
    ----------
    title
        What is compared.
    left, right
        The measured side $a$ and its bound $b$.
    rounding
        The relative difference below which a sample is a tie.
    counts
        Whether both sides are whole numbers.

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
    """Return the sides of a comparison from samples gathered one by one, each a number or an array for every side.

    Parameters
    ----------
    samples
        Of each sample its sides, in one order.

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
        The name of `x`, such as `"m"`.
    x
        One value per point, at least three of them.
    y
        One value per point, or one row per independent draw (then the interval is over draws).
    printed
        The exponent in the paper.
    sense
        `"at most"` means that a smaller exponent than the printed one is better, `"at least"` that a larger one is,
        `"equal"` that neither is.
    allowance
        How far a fit over a finite range may be off; 0.1 unless a reason is given in the title.
    lower
        Whether the statement bounds $y$ from below, as $y \ge C x$ for small $x$, whose exponent is at most 1. Then no
        factor is given with which $y$ would be bounded from above.

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
    """Compare the mean over independent draws (axis 0) with what it should be, in standard errors.

    Parameters
    ----------
    title
        What is drawn.
    samples
        One row for each draw.
    expected
        What the mean should be, for every column.
    kind
        How the check is called: `"exact"`, or `"oracle"` where the expectation is computed otherwise.

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
    successes, trials
        How often it did, of how many times.
    claimed
        The probability with which it should, at least.

    Examples
    --------
    >>> print(frequency("heads", 98, 100, 0.9))
    holds: heads (0.98 against 0.9; 98 of 100, interval [0.930, 0.998])
    """
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
    """Compare with a claimed probability how often something held.

    Parameters
    ----------
    title
        What holds or does not.
    held
        One truth value for each trial.
    claimed
        The probability with which it should hold, at least.

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
    """Join the parts of a statement: fails if one fails, holds if all hold; hypotheses are kept beside.

    Parameters
    ----------
    parts
        The comparisons, at least one.
    title
        What they say together; by default that of the part that decides.
    hypotheses
        Checks of what the statement supposes; they do not enter the outcome.
    assumptions
        Choices that were made where the statement leaves one.
    note
        Why it comes out as it does.

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
