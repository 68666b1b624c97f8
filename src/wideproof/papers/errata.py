"""Misprints and gaps that change a number: what is printed, what is right, and the measurement that decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

from wideproof.answers import Answer
from wideproof.papers.check import Check
from wideproof.papers.statement import PAPERS
from wideproof.papers.study import Lab


class Decision(NamedTuple):
    """The printed form and the right one, measured side by side."""

    printed: Check
    right: Check

    @property
    def decided(self) -> bool:
        """Whether the printed form fails and the right one holds."""
        return self.printed.outcome is Answer.FAILS and self.right.outcome is Answer.HOLDS


@dataclass(frozen=True)
class Erratum:
    """One entry: `where` in the paper, `printed` and `right` in a line each, `decide` measures both in a laboratory."""

    paper: str
    where: str
    printed: str
    right: str
    decide: Callable[[Lab], Decision]
    statement: str = ""

    @property
    def key(self) -> str:
        """The name of the entry: the paper and the function that decides."""
        return f"{self.paper}.{self.decide.__name__}"


D = TypeVar("D", bound=Callable[[Any], Decision])


class Entries(list[Erratum]):
    """The entries of one paper; called, it makes the decorator that adds the function below it as one more.

    Examples
    --------
    >>> erratum = Entries("zou2018")
    >>> @erratum("Lemma A.4", "all pairs", "pairs of different label", "lemma_a_4")
    ... def separation_needs_labels(lab: Lab) -> Decision: ...
    >>> [entry.key for entry in erratum]
    ['zou2018.separation_needs_labels']
    """

    def __init__(self, paper: str) -> None:
        self.paper = paper

    def __call__(self, where: str, printed: str, right: str, statement: str) -> Callable[[D], D]:
        """Return the decorator of a function that measures the printed form and the right one."""

        def add(decide: D) -> D:
            self.append(Erratum(self.paper, where, printed, right, decide, statement))
            return decide

        return add


def errata(paper: str | None = None) -> tuple[Erratum, ...]:
    """Return the entries of one paper, or of all four.

    Examples
    --------
    >>> {entry.paper for entry in errata("du2019")}
    {'du2019'}
    """
    papers = PAPERS if paper is None else (paper,)
    return tuple(entry for name in papers for entry in import_module(f"wideproof.papers.{name}.errata").erratum)
