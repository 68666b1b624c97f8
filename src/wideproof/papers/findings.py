"""Many statements measured in one study: what came out, counted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wideproof.answers import Answer
from wideproof.papers.check import Check
from wideproof.papers.parallel import measure_beside, measure_here
from wideproof.papers.slopes import Slope
from wideproof.papers.statement import Measured, Statement
from wideproof.papers.study import OWN_SIZES
from wideproof.progress import Progress, Watch, shown


@dataclass(frozen=True)
class Findings:
    """The results of a study, in the order of the papers.

    Attributes
    ----------
    study
        Size of the study: `"quick"`, `"standard"` or `"deep"`.
    seed
        Seed of all draws.
    measured
        The results, one for each statement.
    seconds
        Time that the study took.
    widths
        The widths that were asked for; `None` for those of the study.
    """

    study: str
    seed: int
    measured: tuple[Measured, ...]
    seconds: float
    widths: tuple[int, ...] | None = None

    @property
    def surprises(self) -> tuple[Measured, ...]:
        """Statements that fail though they should hold, hold though they are known to be false, or broke off."""
        return tuple(one for one in self.measured if not one.as_expected)

    @property
    def answer(self) -> Answer:
        """Whether every statement came out as expected; undecided where one broke off."""
        if any(one.broken for one in self.surprises):
            return Answer.UNDECIDED
        return Answer.of(not self.surprises)

    @property
    def open(self) -> tuple[Measured, ...]:
        """Statements that do not hold: failed or undecided."""
        return tuple(one for one in self.measured if one.check.outcome is not Answer.HOLDS)

    @property
    def elsewhere(self) -> tuple[Measured, ...]:
        """Statements that do not use the widths that were asked for."""
        return tuple(one for one in self.measured if OWN_SIZES in one.check.assumptions)

    def counts(self, by: str = "paper") -> dict[str, Counter[Answer]]:
        """Count outcomes by a column of the index: `paper`, `role`, `kind`, `check`.

        Parameters
        ----------
        by
            The column: `"paper"`, `"role"`, `"kind"` or `"check"`.

        Returns
        -------
        dict[str, Counter[Answer]]
            For each value of the column, the number of each outcome.
        """
        found: dict[str, Counter[Answer]] = {}
        for one in self.measured:
            found.setdefault(getattr(one.statement, by), Counter())[one.check.outcome] += 1
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        return {
            "study": self.study, "seed": self.seed, "seconds": self.seconds,
            **({} if self.widths is None else {"widths": list(self.widths)}),
            "counts": {paper: {o.value: found[o] for o in Answer} for paper, found in self.counts().items()},
            "statements": [
                {**describe(one.statement), "as_expected": one.as_expected, "seconds": one.seconds, **_plain(one.check)}
                for one in self.measured
            ],
        }  # fmt: skip


@shown
def examine(
    wanted: Sequence[Statement],
    study: str = "quick",
    seed: int = 0,
    progress: Watch | None = None,
    workers: int = 1,
    widths: Sequence[int] | None = None,
) -> Findings:
    """Measure statements, with one laboratory for each paper.

    Parameters
    ----------
    wanted
        The result of `statements`, or a part of it.
    study
        `"quick"`, `"standard"` or `"deep"`.
    seed
        Seed of all draws.
    progress
        Callback; receives a `Progress` with each result (`latest`).
    workers
        Number of processes; with several, the papers are measured in parallel, with the same results.
    widths
        Widths over which exponents in the width are fitted, instead of those of the study; see `laboratory`.

    Returns
    -------
    Findings
        The results.

    Examples
    --------
    >>> from wideproof.papers import statements
    >>> examine(statements("zou2018.lemma_c_1")).measured[0].check.outcome.value
    'holds'
    """
    start = time.perf_counter()
    several = workers > 1 and len({one.paper for one in wanted}) > 1
    if several:
        results = measure_beside(wanted, study, seed, workers, widths)
    else:
        results = measure_here(wanted, study, seed, widths)
    found: dict[str, Measured] = {}
    for measured in results:
        found[measured.statement.name] = measured
        if progress is not None:
            progress(Progress("measuring", len(found), len(wanted), measured.statement.name, measured))
    ordered = tuple(found[one.name] for one in wanted)
    chosen = None if widths is None else tuple(widths)
    return Findings(study, seed, ordered, time.perf_counter() - start, chosen)


def describe(one: Statement) -> dict[str, str]:
    """Return a row of the index as plain values.

    Parameters
    ----------
    one
        A statement.

    Returns
    -------
    dict[str, str]
        The columns by name.
    """
    row = {"paper": one.paper, "id": one.id, "kind": one.kind, "check": one.check, "title": one.title}
    more = {"part": one.part, "role": one.role, "network": one.network, "expected": one.expected.value}
    return {**row, **more, "why": one.why, "erratum": one.erratum}


def _plain(check: Check) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "compared": check.title, "outcome": check.outcome.value, "left": check.left, "right": check.right,
        "slack": check.slack, "constant": check.constant, "samples": check.samples, "note": check.note,
    }  # fmt: skip
    if check.slope is not None:
        plain["slope"] = _plain_slope(check.slope)
    plain |= {key: True for key in ("frozen", "vacuous") if getattr(check, key)}
    if check.assumptions:
        plain["assumptions"] = list(check.assumptions)
    for name in ("parts", "hypotheses"):
        if getattr(check, name):
            plain[name] = [_plain(part) for part in getattr(check, name)]
    return plain


def _plain_slope(slope: Slope) -> dict[str, Any]:
    return {
        "variable": slope.variable, "value": slope.value, "interval": [slope.low, slope.high], "printed": slope.printed,
        "sense": slope.sense, "allowance": slope.allowance, "x": slope.x.tolist(), "y": slope.y.tolist(),
    }  # fmt: skip
