r"""Bounds whose constants were fixed before: calibrated at small sizes, stored, then tested at larger ones.

A paper's $Q \le C\,B$ leaves $C$ open. Whoever takes $C$ from the run that is judged compares the run with itself. Here
$C$ is 1.1 times the largest $Q/B$ at small sizes with the seeds 10 to 14, and is stored (`constants.json`, written by
`tools/constants.py`). The printed inequality, with all its variables and logarithms, is then measured at larger sizes
with other seeds. What a theorem says "with probability $1 - \delta$" is one draw with all its clauses as truth values,
and the violations are counted against $\delta$ by their Clopper-Pearson interval. A constant that a proof names is not
calibrated.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from wideproof.answers import Answer
from wideproof.errors import InputError
from wideproof.papers.check import Check, frequency
from wideproof.papers.study import Lab

FILE = "constants.json"
SEEDS = (10, 11, 12, 13, 14)  # of the calibration; no other study uses them
MARGIN = 1.1  # over the largest ratio of the calibration
DELTA = 0.1
TRIALS = (60, 120, 240)  # draws over all sizes, by the study: one violation of 60 is within 0.1
REGISTERED: dict[str, Trials] = {}


@dataclass(frozen=True)
class Clause:
    r"""One inequality of a statement, $Q \le C\,B$ or $Q \ge C\,B$.

    Attributes
    ----------
    name
        A short name, such as `"vi"`.
    title
        The inequality as printed, with `C`.
    sides
        Returns $Q$ and $B$ of what was drawn, numbers or arrays.
    least
        Whether it is a bound from below.
    constant
        The constant that the proof names; None if it is calibrated.
    """

    name: str
    title: str
    sides: Callable[[Any], tuple[ArrayLike, ArrayLike]]
    least: bool = False
    constant: float | None = None

    def ratio(self, seen: Any) -> float:
        r"""Return the worst $Q/B$ of one draw, or $B/Q$ for a bound from below: the inequality asks for it to be small.

        Parameters
        ----------
        seen
            What was drawn.

        Returns
        -------
        float
            The ratio; infinite where a value is not a number, or where nothing is above something.
        """
        left, right = (np.asarray(side, float) for side in self.sides(seen))
        above, below = np.broadcast_arrays(*((right, left) if self.least else (left, right)))
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(below > 0, above / below, np.where(above > 0, np.inf, 0.0))
        return float(np.where(np.isnan(ratios), np.inf, ratios).max())


@dataclass(frozen=True)
class Trials:
    """A statement as an event: what is drawn, at which sizes, and which inequalities have to hold together.

    Attributes
    ----------
    name
        The statement, such as `"zou2018.theorem_5_1"`.
    draw
        Returns one draw in a laboratory, at a size, with a number.
    clauses
        What has to hold of it.
    small
        Sizes of the calibration.
    large
        Sizes of the test: quick, standard, deep.
    said
        What the sizes are, such as `"m, L"`.
    delta
        The failure probability.
    trials
        Draws over all sizes: quick, standard, deep.
    calibrated
        Draws of the calibration for each size and seed.
    """

    name: str
    draw: Callable[[Any, Any, int], Any]
    clauses: tuple[Clause, ...]
    small: Sequence[Any]
    large: tuple[Sequence[Any], Sequence[Any], Sequence[Any]]
    said: str
    delta: float = DELTA
    trials: tuple[int, int, int] = TRIALS
    calibrated: int = 12

    def __post_init__(self) -> None:
        REGISTERED[self.name] = self

    def measured(self, lab: Lab) -> list[tuple[Any, dict[str, float]]]:
        """Return the ratio of every clause for every draw of the test, with the size."""

        def make() -> list[tuple[Any, dict[str, float]]]:
            sizes = lab.pick(*self.large)
            each = -(-lab.pick(*self.trials) // len(sizes))
            drawn = ((size, self.draw(lab, size, i)) for size in sizes for i in range(each))
            return [(size, {one.name: one.ratio(seen) for one in self.clauses}) for size, seen in drawn]

        return lab.keep(("frozen", self.name), make)

    def calibrate(self, labs: Sequence[Lab]) -> dict[str, dict[str, Any]]:
        """Return the constants of the clauses whose proof names none.

        Parameters
        ----------
        labs
            Laboratories of the paper, one for each of `SEEDS`.

        Returns
        -------
        dict[str, dict]
            For each such clause its constant, and what it was calibrated on.
        """
        open_ones = [one for one in self.clauses if one.constant is None]
        worst = dict.fromkeys((one.name for one in open_ones), 0.0)
        for lab in labs if open_ones else ():
            for size in self.small:
                for i in range(self.calibrated):
                    seen = self.draw(lab, size, i)
                    for one in open_ones:
                        worst[one.name] = max(worst[one.name], one.ratio(seen))
        count = len(labs) * len(self.small) * self.calibrated
        return {
            one.name: {
                "constant": _rounded_up(MARGIN * worst[one.name]), "draws": count, "sizes": [str(s) for s in self.small]
            }
            for one in open_ones
        }  # fmt: skip

    def limit(self, one: Clause) -> float:
        """Return the ratio up to which a clause holds: its constant, or one over it for a bound from below."""
        if one.constant is not None:
            return 1 / one.constant if one.least else one.constant
        found = constants().get(self.name, {}).get(one.name)
        if found is None:
            raise InputError(f"{self.name}, {one.name}: no constant is stored; run `python tools/constants.py`")
        return found["constant"]

    def check(self, lab: Lab, *names: str) -> Check:
        """Count how often some clauses hold together, by default all, against the failure probability.

        Parameters
        ----------
        lab
            The laboratory.
        *names
            Names of clauses.

        Returns
        -------
        Check
            The check. It fails also where violations at a single size are more than the probability allows.
        """
        chosen = [one for one in self.clauses if one.name in names or not names]
        used = [
            (size, max(ratios[one.name] / self.limit(one) for one in chosen)) for size, ratios in self.measured(lab)
        ]
        sizes = list(dict.fromkeys(size for size, _ in used))
        many = f"{', '.join(one.name for one in chosen)} at once"
        title = f"{chosen[0].title if len(chosen) == 1 else many}, with probability {1 - self.delta:g}"
        by_size = [frequency(title, *_counted(used, [size]), 1 - self.delta) for size in sizes]
        whole = frequency(title, *_counted(used, sizes), 1 - self.delta)
        failing = [str(size) for size, one in zip(sizes, by_size, strict=True) if one.outcome is Answer.FAILS]
        outcome = Answer.FAILS if failing else whole.outcome
        noted = f"{whole.note}; {self.said} = {', '.join(map(str, sizes))}; {self._constants(chosen)}"
        noted += f"; too often violated at {', '.join(failing)}" if failing else ""
        worst = float(max(ratio for _, ratio in used))
        return replace(whole, outcome=outcome, note=noted, constant=worst, frozen=True)

    def _constants(self, chosen: Sequence[Clause]) -> str:
        shown = [f"{self._shown(one):.3g} ({one.name})" for one in chosen]
        return f"C = {', '.join(shown) if len(shown) > 1 else shown[0].split(' ')[0]}"

    def _shown(self, one: Clause) -> float:
        return 1 / self.limit(one) if one.least else self.limit(one)


def _counted(used: Sequence[tuple[Any, float]], sizes: Sequence[Any]) -> tuple[int, int]:
    ratios = np.array([ratio for size, ratio in used if size in sizes])
    return int(np.count_nonzero(ratios <= 1)), ratios.size


def _rounded_up(value: float) -> float:
    """Return a number with three digits that is not below the value."""
    if value == 0:
        return 0.0
    digits = 2 - int(np.floor(np.log10(value)))
    return float(np.ceil(value * 10**digits) / 10**digits) if digits < 300 else value


@cache
def constants() -> dict[str, dict[str, dict[str, Any]]]:
    """Return the stored constants by statement and clause.

    Returns
    -------
    dict[str, dict]
        The constants, and what they were calibrated on.

    Examples
    --------
    >>> constants()["zou2018.theorem_5_1"]["iii"]["constant"] < 10
    True
    """
    return json.loads(resources.files("wideproof.papers").joinpath(FILE).read_text(encoding="utf-8"))
