"""Misprints and gaps that change a number: what is printed, what is right, and the measurement that decides."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

from wideproof.answers import Answer
from wideproof.papers.check import Check
from wideproof.papers.statement import PAPERS, Statement, index, statements
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

    def concerns(self, name: str) -> bool:
        """Return whether a statement (`lemma_a_12`), or a clause of it, is the entry's or is named in its `where`."""
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


def errata(wanted: str | None = None) -> tuple[Erratum, ...]:
    """Return the entries of one paper, of one statement with its clauses, or of all four papers.

    Parameters
    ----------
    wanted
        A paper such as `zou2018`, or a statement such as `zou2018.lemma_a_12`.

    Examples
    --------
    >>> {entry.paper for entry in errata("du2019")}
    {'du2019'}
    >>> [entry.where for entry in errata("zou2018.lemma_a_12")]
    ['Lemma A.12, Corollary A.13']
    """
    if wanted is None:
        return tuple(entry for paper in PAPERS for entry in _entries(paper))
    paper, names = wanted.partition(".")[0], [one.id for one in _named(wanted)]
    every = _entries(paper)
    return tuple(e for e in every if wanted == paper or any(e.concerns(name) for name in names))


def noted(wanted: str) -> tuple[str, ...]:
    """Return a sentence for each statement: the misprint that its index notes, which may change no number.

    Parameters
    ----------
    wanted
        As for `errata`.

    Examples
    --------
    >>> noted("zou2018.eq_e_2")
    ('zou2018.eq_e_2: the last display sums over examples where layers are meant.',)
    """
    return tuple(f"{one.name}: {one.erratum or 'no misprint is known'}." for one in _named(wanted))


def _named(wanted: str) -> tuple[Statement, ...]:
    """Return what `statements` finds, or by its name one for which nothing can be computed."""
    paper, _, name = wanted.partition(".")
    exact = tuple(one for one in index(paper) if one.id == name) if paper in PAPERS else ()
    return exact or statements(wanted)


def _entries(paper: str) -> Entries:
    return import_module(f"wideproof.papers.{paper}.errata").erratum
