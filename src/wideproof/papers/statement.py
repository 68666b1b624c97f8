"""The index of statements: what each paper says, under the paper's own name for it, and the function that checks it.

A statement registers itself: `Section` holds what the statements of a module share, and each has its title, how it is
checked, and where it needs them its misprint and its expected outcome above its function. The index that is read
(`statements.csv` of each paper, so that a list needs no network) is written from that by `wideproof.papers.catalogue`.
"""

from __future__ import annotations

import csv
import functools
import inspect
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib import import_module, resources
from typing import Any, TypeVar, cast

from wideproof.answers import Answer
from wideproof.errors import InputError
from wideproof.papers.check import Check, Kind
from wideproof.papers.study import OWN_SIZES, Lab

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

    Attributes
    ----------
    paper
        Key of the paper.
    id
        The paper's own name, such as `theorem_5_1_iii`.
    kind
        What the paper calls it, such as a lemma.
    part
        The part of the paper.
    role
        Its role in the proof.
    check
        How it can be checked; with `none` and `proof_step` it cannot be checked by itself.
    network
        The network that it is about.
    expected
        The outcome of a correct computation: `fails` for a statement that is false as printed, `undecided` for one that
        is out of reach.
    why
        The reason, if `expected` is not that it holds.
    erratum
        A note on its text; empty if there is none.
    module
        The module of its function.
    title
        What it says, in a few words.
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
        """Check the statement in a laboratory of its paper; if the computation ends with an error, the statement is
        undecided.

        Parameters
        ----------
        lab
            The laboratory.

        Returns
        -------
        Measured
            The result.
        """
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
    """The result of measuring one statement.

    Attributes
    ----------
    statement
        The statement.
    check
        What was compared, and the outcome.
    seconds
        Time that it took.
    broken
        Whether the computation ended with an error.
    """

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
    """Return the statements of one paper, in its order.

    Parameters
    ----------
    paper
        Key of the paper, such as `"zou2018"`.

    Returns
    -------
    tuple[Statement, ...]
        The statements.
    """
    with resources.files("wideproof.papers").joinpath(paper, "statements.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return tuple(Statement(**{**row, "paper": paper, "expected": Answer(row["expected"])}) for row in rows)


def statements(wanted: str | None = None, words: Sequence[str] = ()) -> tuple[Statement, ...]:
    """Return the checkable statements of all papers, or some of them.

    Parameters
    ----------
    wanted
        A paper such as `zou2018`, a statement such as `zou2018.theorem_5_1_iii`, the beginning of one, or the paper's
        own spelling, `zou2018.Theorem 5.1 (iii)`; by default all papers.
    words
        Words that must all be in the name or the title.

    Returns
    -------
    tuple[Statement, ...]
        The statements, in the order of the papers.

    Examples
    --------
    >>> [s.id for s in statements("zou2018.corollary_4_3")]
    ['corollary_4_3']
    >>> [s.id for s in (*statements("zou.Lemma A.11"), *statements("zou2018", ["norms", "layer"]))]
    ['lemma_a_11', 'lemma_a_8']
    """
    everything = tuple(s for paper in PAPERS for s in index(paper) if s.checkable)
    found = everything if wanted is None else _named(wanted, everything)
    return tuple(one for one in found if all(_has(one, word) for word in words))


def _named(wanted: str, everything: Sequence[Statement]) -> tuple[Statement, ...]:
    start, _, name = (wanted if "." in wanted.split(" ")[0] else wanted.replace(" ", ".", 1)).partition(".")
    papers = [paper for paper in PAPERS if start and paper.startswith(start.lower())]
    if not papers:
        _require_paper(start)
    (paper,) = papers  # no two papers begin alike
    own, spelled = [one for one in everything if one.paper == paper], _spelled(name)
    for fits in (
        lambda one: not name or one.id == name, lambda one: one.id == spelled,
        lambda one: one.id.startswith(name), lambda one: bool(spelled) and one.id.startswith(spelled),
    ):  # fmt: skip
        if found := tuple(one for one in own if fits(one)):
            return found
    raise InputError(_not_there(paper, name, spelled, [one.id for one in own]))


def _not_there(paper: str, name: str, spelled: str, own: Sequence[str]) -> str:
    """Return why a statement is not among the checkable ones, and which come near."""
    if any(one.id == spelled for one in index(paper)):
        what = "a definition or a step of a proof, for which nothing can be computed by itself"
        return f"{paper} has no checkable statement {name!r}: it is {what}"
    place = spelled.partition("_")[2]
    near = [*(one for one in own if place and one.partition("_")[2] == place), *get_close_matches(spelled, own)]
    said = f"the nearest names are {', '.join(list(dict.fromkeys(near))[:3])}; " if near else ""
    return f"{paper} has no checkable statement {name!r}: {said}`wideproof check {paper} --list` shows them"


def _spelled(name: str) -> str:
    """Return the name of a statement's function for the paper's own spelling.

    >>> _spelled("Theorem 5.1 (iii)"), _spelled("Eq. (4.2)"), _spelled("Equation 4.2")
    ('theorem_5_1_iii', 'eq_4_2', 'eq_4_2')
    """
    return re.sub(r"\W+", "_", name.lower()).strip("_").replace("equation_", "eq_")


def _has(one: Statement, word: str) -> bool:
    return word.lower() in f"{one.name} {one.title}".lower() or (_spelled(word) or word) in one.name


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


def laboratory(paper: str, study: str = "quick", seed: int = 0, widths: Sequence[int] | None = None) -> Lab:
    """Return a new laboratory, which the functions of a paper's statements take.

    Parameters
    ----------
    paper
        `"zou2018"`, `"du2019"`, `"allenzhu2018"` or `"frei2019"`.
    study
        `"quick"`, `"standard"` or `"deep"`.
    seed
        Seed of all draws.
    widths
        Widths over which exponents in the width are fitted, instead of those of the study: at least three, increasing,
        even for `zou2018` and `frei2019`. A statement that does not use them says so in `Check.assumptions`.

    Returns
    -------
    Lab
        The laboratory.

    Examples
    --------
    >>> from wideproof.papers import zou2018
    >>> check = zou2018.theorem_5_1_iii(laboratory("zou2018", widths=(32, 64, 256)))
    >>> check.slope.x.tolist()
    [32.0, 64.0, 256.0]
    """
    _require_paper(paper)
    return import_module(f"wideproof.papers.{paper}.lab").Lab(study, seed, widths)


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

            name, said = function.__name__, vars(function).get("said", {})

            @functools.wraps(function)
            def measured(lab: Lab | None = None, *others: Any, **options: Any) -> Check:
                _require_laboratory(paper, name, lab, (*others, *options))
                return _measured(function, _shared(paper) if lab is None else lab)

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


def _measured(function: Callable[[Any], Check], lab: Lab) -> Check:
    """Return the check of a statement, which says where it does not use the widths that were asked for."""
    check, asked = lab.asking(lambda: function(lab))
    if lab.chosen is None or asked:
        return check
    return replace(check, assumptions=(*check.assumptions, OWN_SIZES))


def _require_laboratory(paper: str, name: str, lab: Any, others: tuple[Any, ...]) -> None:
    if not others and (lab is None or isinstance(lab, Lab)):
        return
    came = ", ".join(map(str, others)) if others else repr(lab)
    raise InputError(
        f"{paper}.{name} takes a laboratory and nothing else, got {came}: other sizes, seeds and widths are the "
        f"laboratory's, as in {paper}.{name}(laboratory({paper!r}, 'standard', seed=1, widths=(64, 256, 1024)))"
    )


def _require_paper(paper: str) -> None:
    if paper not in PAPERS:
        raise InputError(f"there is no paper {paper!r}; the papers are {', '.join(PAPERS)}")
