"""Errata: the printed words, what is wrong with them and how much, what is right, and the measurement that decides."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

from wideproof.answers import Answer
from wideproof.papers.check import Check
from wideproof.papers.statement import PAPERS, Statement, index, statements
from wideproof.papers.study import Lab


class Fault(StrEnum):
    """What is the matter with a printed form, the gravest first.

    Examples
    --------
    >>> Fault("gap").meaning
    'a condition, a case or a term is missing; with it the argument stands'
    """

    ERROR = "error"
    INCONSISTENCY = "inconsistency"
    GAP = "gap"
    MISPRINT = "misprint"

    @property
    def meaning(self) -> str:
        """What the word says here."""
        return {
            Fault.ERROR: "false within the paper's own suppositions, and a number that follows changes",
            Fault.INCONSISTENCY: "two places disagree, a statement and its proof as a rule; a number depends on which",
            Fault.GAP: "a condition, a case or a term is missing; with it the argument stands",
            Fault.MISPRINT: "false as written, but what is meant is plain, and no result rests on the written form",
        }[self]


TEXTS = {
    "zou2018": "two text extractions of the preprint; in the one with the displays, p and q stand for brackets, "
    "“ for =, ď and ě for ≤ and ≥, ´ for −, ` for + and ℓ, ř for Σ, } for ‖",
    "du2019": "a text extraction of the paper with its appendices; fractions, roots and indices stand in one line",
    "allenzhu2018": "a conversion of version 4 of the preprint (October 28, 2018) to LaTeX, in which the reach of a "
    "root or of a fraction can be wrong: what rests on one of those alone is no entry",
    "frei2019": "a text extraction of the appendices; the main text was not read",
}


def counted(faults: Iterable[Fault]) -> str:
    """Return the number of faults of each kind.

    Parameters
    ----------
    faults
        The faults of some entries, in any order.

    Returns
    -------
    str
        The numbers in words, the gravest first.

    Examples
    --------
    >>> counted([Fault.GAP, Fault.ERROR, Fault.GAP])
    '1 error, 2 gaps'
    """
    found = Counter(faults)
    plural = {fault: f"{fault}s" for fault in Fault} | {Fault.INCONSISTENCY: "inconsistencies"}
    return ", ".join(f"{found[one]} {one if found[one] == 1 else plural[one]}" for one in Fault if found[one])


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
    """An entry of the errata of a paper.

    Attributes
    ----------
    paper
        Key of the paper.
    where
        Name of the place in the paper.
    printed
        The printed form, in one line.
    right
        The correct form, in one line.
    fault
        The kind of the fault.
    place
        Section, statement and display of the quotation.
    quotation
        The printed words, exactly as in the text, except that white space is normalized.
    under
        The assumptions under which both forms were measured, and whether the paper makes them.
    decide
        Function that measures both forms in a laboratory.
    statement
        The statement of the index that is concerned; empty if there is none.
    """

    paper: str
    where: str
    printed: str
    right: str
    fault: Fault
    place: str
    quotation: str
    under: str
    decide: Callable[[Lab], Decision]
    statement: str = ""

    @property
    def key(self) -> str:
        """The name of the entry: the paper and the function that decides."""
        return f"{self.paper}.{self.decide.__name__}"

    def concerns(self, name: str) -> bool:
        """Return whether an entry is about a statement or one of its clauses.

        Parameters
        ----------
        name
            Name of a statement, such as `lemma_a_12`.

        Returns
        -------
        bool
            Whether it is, or is named in the entry's `where`.
        """
        kind, *place = name.split("_")
        number = re.escape(".".join(place).upper())
        named = kind in self.where.lower() and re.search(rf"(?<![\w.]){number}(?!\w|\.\w)", self.where) is not None
        return self.statement == name or self.statement.startswith(f"{name}_") or named


D = TypeVar("D", bound=Callable[[Any], Decision])


class Entries(list[Erratum]):
    """The entries of one paper; called, it makes the decorator that adds the function below it as one more.

    Examples
    --------
    >>> erratum = Entries("zou2018")
    >>> @erratum(
    ...     "Lemma A.4", "all pairs", "pairs of different label", "lemma_a_4", fault=Fault.MISPRINT,
    ...     place="Appendix A", quotation="for all i, j = 1, . . . , n", under="Assumptions 3.4 and 3.5",
    ... )
    ... def separation_needs_labels(lab: Lab) -> Decision: ...
    >>> [entry.key for entry in erratum]
    ['zou2018.separation_needs_labels']
    """

    def __init__(self, paper: str) -> None:
        self.paper = paper

    def __call__(
        self, where: str, printed: str, right: str, statement: str, *, fault: Fault, place: str, quotation: str,
        under: str,
    ) -> Callable[[D], D]:  # fmt: skip
        """Return the decorator of a function that measures the printed form and the right one."""

        def add(decide: D) -> D:
            one = Erratum(self.paper, where, printed, right, fault, place, quotation, under, decide, statement)
            self.append(one)
            return decide

        return add


def errata(wanted: str | None = None) -> tuple[Erratum, ...]:
    """Return the entries of one paper, of one statement with its clauses, or of all four papers.

    Parameters
    ----------
    wanted
        A paper such as `zou2018`, or a statement such as `zou2018.lemma_a_12`.

    Returns
    -------
    tuple[Erratum, ...]
        The entries.

    Examples
    --------
    >>> {entry.paper for entry in errata("du2019")}
    {'du2019'}
    >>> [(entry.where, str(entry.fault)) for entry in errata("zou2018.lemma_a_12")]
    [('Lemma A.12, Corollary A.13', 'error')]
    """
    if wanted is None:
        return tuple(entry for paper in PAPERS for entry in _entries(paper))
    paper, names = wanted.partition(".")[0], [one.id for one in _named(wanted)]
    every = _entries(paper)
    return tuple(e for e in every if wanted == paper or any(e.concerns(name) for name in names))


def noted(wanted: str) -> tuple[str, ...]:
    """Return the notes of the index on the text of some statements; a note need not concern a number.

    Parameters
    ----------
    wanted
        A paper or a statement, as in `errata`.

    Returns
    -------
    tuple[str, ...]
        A sentence for each statement that has a note.

    Examples
    --------
    >>> noted("zou2018.eq_e_2")
    ("zou2018.eq_e_2: the last display names the sum's index i where the layer l is meant.",)
    """
    return tuple(f"{one.name}: {one.erratum or 'no misprint is known'}." for one in _named(wanted))


def _named(wanted: str) -> tuple[Statement, ...]:
    """Return what `statements` finds, or by its name one for which nothing can be computed."""
    paper, _, name = wanted.partition(".")
    exact = tuple(one for one in index(paper) if one.id == name) if paper in PAPERS else ()
    return exact or statements(wanted)


def _entries(paper: str) -> Entries:
    return import_module(f"wideproof.papers.{paper}.errata").erratum
