"""The index of statements: what each paper says, under the paper's own name for it, and the function that checks it."""

from __future__ import annotations

import csv
import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module, resources
from typing import TypeVar, cast

from wideproof.errors import InputError
from wideproof.papers.check import Check, Kind, Outcome
from wideproof.papers.study import Lab

PAPERS = ("zou2018", "du2019", "allenzhu2018", "frei2019")
CHECKABLE = ("exact", "bound", "scale", "oracle")
L = TypeVar("L", bound=Lab)


@dataclass(frozen=True)
class Statement:
    """One row of a paper's index.

    `id` is the paper's own name (`theorem_5_1_iii`), `kind` what the paper calls it, `role` its part in the proof,
    `check` how it can be checked (`none` and `proof_step` cannot be by themselves). `expected` is what a correct
    computation finds: `fails` for a statement that is false as printed, `undecided` for one that is out of reach,
    and then `why` says why.
    """

    paper: str
    id: str
    kind: str
    part: str
    role: str
    check: str
    network: str
    expected: Outcome
    why: str
    erratum: str
    title: str

    @property
    def name(self) -> str:
        """The name of the statement among all papers, and of its function below `wideproof.papers`."""
        return f"{self.paper}.{self.id}"

    @property
    def checkable(self) -> bool:
        """Whether there is something to compute."""
        return self.check in CHECKABLE

    def measure(self, lab: Lab) -> Measured:
        """Check the statement in a laboratory of its paper; a computation that breaks off decides nothing."""
        function = getattr(import_module(f"wideproof.papers.{self.paper}"), self.id)
        start = time.perf_counter()
        try:
            check, broken = function(lab), False
        except Exception as error:  # one broken computation must not cost the other three hundred
            note = f"broke off with {type(error).__name__}: {error}"
            check, broken = Check(self.title, cast("Kind", self.check), Outcome.UNDECIDED, note=note), True
        return Measured(self, check, time.perf_counter() - start, broken)


@dataclass(frozen=True)
class Measured:
    """A statement, what came out, the seconds it took, and whether the computation broke off."""

    statement: Statement
    check: Check
    seconds: float
    broken: bool = False

    @property
    def as_expected(self) -> bool:
        """Whether nothing fails that should hold, and nothing holds that is known to be false."""
        if self.broken:
            return False
        surprise = {Outcome.FAILS: Outcome.HOLDS, Outcome.HOLDS: Outcome.FAILS, Outcome.UNDECIDED: None}
        if self.statement.expected is Outcome.UNDECIDED:
            return self.check.outcome is not Outcome.FAILS
        return self.check.outcome is not surprise[self.statement.expected]


@functools.cache
def index(paper: str) -> tuple[Statement, ...]:
    """Return the statements of one paper, in its order."""
    with resources.files("wideproof.papers").joinpath(paper, "statements.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return tuple(Statement(**{**row, "paper": paper, "expected": Outcome(row["expected"])}) for row in rows)


def statements(wanted: str | None = None) -> tuple[Statement, ...]:
    """Return the checkable statements: all, one paper's, one, or those whose name begins so.

    Examples
    --------
    >>> [s.id for s in statements("zou2018.corollary_4_3")]
    ['corollary_4_3']
    """
    everything = tuple(s for paper in PAPERS for s in index(paper) if s.checkable)
    if wanted is None:
        return everything
    paper, _, name = wanted.partition(".")
    if paper not in PAPERS:
        raise InputError(f"there is no paper {paper!r}; the papers are {', '.join(PAPERS)}")
    found = tuple(s for s in everything if s.paper == paper and (not name or s.id == name))
    found = found or tuple(s for s in everything if s.paper == paper and s.id.startswith(name))
    if not found:
        raise InputError(f"{paper} has no checkable statement {name!r}: `wideproof check {paper} --list` shows them")
    return found


def laboratory(paper: str, study: str = "quick", seed: int = 0) -> Lab:
    """Return a new laboratory for the statements of one paper."""
    return import_module(f"wideproof.papers.{paper}.lab").Lab(study, seed)


def statement(function: Callable[[L], Check]) -> Callable[..., Check]:
    """Mark a function as the check of the statement that it is named after.

    Called without a laboratory it uses a quick one of its paper, which it shares with the paper's other statements.
    """
    paper = function.__module__.removeprefix("wideproof.papers.").partition(".")[0]

    @functools.wraps(function)
    def check(lab: L | None = None) -> Check:
        return function(cast("L", _shared(paper)) if lab is None else lab)

    vars(check)["statement"] = f"{paper}.{function.__name__}"
    return check


@functools.cache
def _shared(paper: str) -> Lab:
    return laboratory(paper)
