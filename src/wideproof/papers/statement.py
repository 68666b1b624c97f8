"""The index of statements: what each paper says, under the paper's own name for it, and the function that checks it.

A statement registers itself: `Section` holds what the statements of a module share, and each has its title, how it is
checked, and where it needs them its misprint and its expected outcome above its function. The index that is read
(`statements.csv` of each paper, so that a list needs no network) is written from that by `wideproof.papers.catalogue`.
"""

from __future__ import annotations

import csv
import functools
import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module, resources
from typing import Any, TypeVar, cast

from wideproof.answers import Answer
from wideproof.errors import InputError
from wideproof.papers.check import Check, Kind
from wideproof.papers.study import Lab

PAPERS = ("zou2018", "du2019", "allenzhu2018", "frei2019")
CHECKABLE = ("exact", "bound", "scale", "oracle")
APPENDIX = {
    "du2019": 12,
    "frei2019": 4,
}  # equations numbered through the whole paper: the appendix begins with this one
REGISTERED: dict[str, dict[str, Statement]] = {paper: {} for paper in PAPERS}
F = TypeVar("F", bound=Callable[..., Check])


@dataclass(frozen=True)
class Statement:
    """One row of a paper's index.

    `id` is the paper's own name (`theorem_5_1_iii`), `kind` what the paper calls it, `role` its part in the proof,
    `check` how it can be checked (`none` and `proof_step` cannot be by themselves). `expected` is what a correct
    computation finds: `fails` for a statement that is false as printed, `undecided` for one that is out of reach,
    and then `why` says why. `module` is where its function is.
    """

    paper: str
    id: str
    kind: str
    part: str
    role: str
    check: str
    network: str
    expected: Answer
    why: str
    erratum: str
    module: str
    title: str

    @property
    def name(self) -> str:
        """The name of the statement among all papers, and of its function below `wideproof.papers`."""
        return f"{self.paper}.{self.id}"

    @property
    def checkable(self) -> bool:
        """Whether there is something to compute."""
        return self.check in CHECKABLE

    @property
    def formula(self) -> str:
        """What it says as a formula: the docstring of its function, a line for each paragraph."""
        text = inspect.getdoc(function_of(self.paper, self.id)) or ""
        return "\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))

    def measure(self, lab: Lab) -> Measured:
        """Check the statement in a laboratory of its paper; a computation that breaks off decides nothing."""
        function = getattr(import_module(f"wideproof.papers.{self.paper}"), self.id)
        start = time.perf_counter()
        try:
            check, broken = function(lab), False
        except Exception as error:  # one broken computation must not cost the other three hundred
            note = f"broke off with {type(error).__name__}: {error}"
            check, broken = Check(self.title, cast("Kind", self.check), Answer.UNDECIDED, note=note), True
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
        surprise = {Answer.FAILS: Answer.HOLDS, Answer.HOLDS: Answer.FAILS, Answer.UNDECIDED: None}
        if self.statement.expected is Answer.UNDECIDED:
            return self.check.outcome is not Answer.FAILS
        return self.check.outcome is not surprise[self.statement.expected]


@functools.cache
def index(paper: str) -> tuple[Statement, ...]:
    """Return the statements of one paper, in its order."""
    with resources.files("wideproof.papers").joinpath(paper, "statements.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return tuple(Statement(**{**row, "paper": paper, "expected": Answer(row["expected"])}) for row in rows)


def statements(wanted: str | None = None) -> tuple[Statement, ...]:
    """Return the checkable statements: all, one paper's, one, or those whose name begins so.

    Parameters
    ----------
    wanted
        A paper such as `zou2018`, a statement such as `zou2018.theorem_5_1_iii`, or the beginning of one.

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


def function_of(paper: str, name: str) -> Callable[..., Check]:
    """Return the function of a statement; its module is imported when somebody asks for it.

    Examples
    --------
    >>> print(function_of("zou2018", "lemma_c_1")().outcome)
    holds
    """
    module = next((one.module for one in index(paper) if one.id == name and one.checkable), None)
    if module is None:
        raise AttributeError(f"module 'wideproof.papers.{paper}' has no attribute {name!r}")
    return getattr(import_module(f"wideproof.papers.{paper}.{module}"), name)


def door(paper: str) -> tuple[Callable[[str], Callable[..., Check]], Callable[[], list[str]], Callable[..., None]]:
    """Return the `__getattr__` and `__dir__` of a paper's package, which gives its statements, and its `told`."""

    def names() -> list[str]:
        return [*vars(import_module(f"wideproof.papers.{paper}")), *(one.id for one in statements(paper))]

    return functools.partial(function_of, paper), names, functools.partial(told, paper)


def laboratory(paper: str, study: str = "quick", seed: int = 0) -> Lab:
    """Return a new laboratory for the statements of one paper.

    Parameters
    ----------
    study
        `"quick"`, `"standard"` or `"deep"`.
    seed
        Of all draws.
    """
    return import_module(f"wideproof.papers.{paper}.lab").Lab(study, seed)


# ---- how statements register themselves ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Section:
    """What the statements of a module share: their part in the proof, and the network they speak of.

    Called with a title it makes the decorator of a statement.

    Examples
    --------
    >>> statement = Section("convergence", "relu")
    >>> callable(statement("Gradient descent stays near its start", "scale"))
    True
    """

    role: str
    network: str

    def __call__(
        self, title: str, check: Kind, *, role: str = "", network: str = ""
    ) -> Callable[[Callable[[Any], Check]], Callable[..., Check]]:
        """Return the decorator that registers the function below as the check of the statement it is named after.

        Called without a laboratory the function uses a quick one of its paper, shared with the paper's others.
        """

        def register(function: Callable[[Any], Check]) -> Callable[..., Check]:
            paper, _, module = function.__module__.removeprefix("wideproof.papers.").partition(".")

            @functools.wraps(function)
            def measured(lab: Lab | None = None) -> Check:
                return function(_shared(paper) if lab is None else lab)

            name, said = function.__name__, vars(function).get("said", {})
            told(paper, name, check, role or self.role, network or self.network, title, module=module, **said)
            vars(measured)["statement"] = f"{paper}.{name}"
            return measured

        return register


tool = Section("tool", "none")  # what the proofs use and no network is in


def told(
    paper: str, name: str, check: str, role: str, network: str, title: str, *, kind: str = "", module: str = "",
    expected: Answer = Answer.HOLDS, why: str = "", erratum: str = "",
) -> None:  # fmt: skip
    """Register a statement; by itself, one that nothing can be computed for: a definition, or a step of a proof."""
    called, part = kind or _kind(name), _part(paper, name)
    REGISTERED[paper][name] = Statement(
        paper, name, called, part, role, check, network, expected, why, erratum, module, title
    )


def misprint(erratum: str) -> Callable[[F], F]:
    """Note at a statement what is misprinted in it."""
    return _saying(erratum=erratum)


def comes_out(expected: Answer, why: str) -> Callable[[F], F]:
    """Note at a statement that a correct computation does not find it true, and why."""
    return _saying(expected=expected, why=why)


def _saying(**more: Any) -> Callable[[F], F]:
    def note(function: F) -> F:
        vars(function).setdefault("said", {}).update(more)
        return function

    return note


def _kind(name: str) -> str:
    """Return what the paper calls it: numbered clauses, equations and remarks are properties."""
    kind, *rest = name.split("_")
    clause = len(rest) == 3 and rest[-1].isalpha()
    return "property" if clause or kind in ("eq", "remark", "footnote") else kind


def _part(paper: str, name: str) -> str:
    kind, place, *_ = name.split("_")
    late = kind == "eq" and place.isdigit() and int(place) >= APPENDIX.get(paper, 1000)
    return "appendix" if late or (len(place) == 1 and place.isalpha()) else "main"


@functools.cache
def _shared(paper: str) -> Lab:
    return laboratory(paper)
