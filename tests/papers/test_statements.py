"""Every statement comes out as expected, every erratum is decided, and the index says what it must."""

import csv
from importlib import import_module, resources

import pytest

from tests.papers.labs import quick
from wideproof.answers import Answer
from wideproof.papers import catalogue
from wideproof.papers.check import at_most
from wideproof.papers.errata import errata
from wideproof.papers.statement import PAPERS, REGISTERED, Section, comes_out, index, misprint, statements

ROWS = {"zou2018": 84, "du2019": 66, "allenzhu2018": 138, "frei2019": 57}
CHECKABLE = {"zou2018": 82, "du2019": 58, "allenzhu2018": 125, "frei2019": 55}
# They train: five seconds and more. Other statements of the same papers train less.
SLOW = {"allenzhu2018.theorem_2", "allenzhu2018.theorem_informal", "zou2018.theorem_4_5", "zou2018.theorem_5_3"}


def of_the_paper(entry, key):
    """A parameter that runs where the other tests of its paper do, and share their laboratory."""
    marks = [pytest.mark.xdist_group(entry.paper), *([pytest.mark.slow] if key in SLOW else [])]
    return pytest.param(entry, id=key, marks=marks)


@pytest.mark.parametrize("statement", [of_the_paper(s, s.name) for s in statements()])
def test_statement_comes_out_as_expected(statement):
    check = statement.measure(quick(statement.paper)).check
    assert check.outcome is statement.expected, "\n".join(map(str, check.leaves()))
    assert statement.check in {leaf.kind for leaf in check.leaves()}
    assert all(leaf.samples for leaf in check.leaves())


@pytest.mark.parametrize("erratum", [of_the_paper(e, e.key) for e in errata()])
def test_erratum_is_decided(erratum):
    decision = erratum.decide(quick(erratum.paper))
    assert decision.decided, f"printed {decision.printed}; right {decision.right}"
    assert not erratum.statement or erratum.statement in {row.id for row in index(erratum.paper)}


@pytest.mark.parametrize("paper", PAPERS)
def test_every_checkable_statement_has_a_function_of_its_name(paper):
    module = import_module(f"wideproof.papers.{paper}")
    values = {name: getattr(module, name) for name in dir(module)}
    named = {name: value for name, value in values.items() if callable(value) and hasattr(value, "statement")}
    assert set(named) == {s.id for s in statements(paper)}
    assert len(named) == CHECKABLE[paper]
    assert all(function.statement == f"{paper}.{name}" for name, function in named.items())
    with pytest.raises(AttributeError, match="no attribute 'theorem_99'"):
        module.theorem_99


@pytest.mark.parametrize("paper", PAPERS)
def test_every_row_has_words(paper):
    rows = index(paper)
    assert len(rows) == ROWS[paper]
    assert all(row.title for row in rows)
    assert len({row.title for row in rows}) == len(rows)
    assert all(row.why for row in rows if row.expected is not Answer.HOLDS)


@pytest.mark.parametrize("paper", PAPERS)
def test_the_index_is_what_is_registered(paper):
    kept = resources.files("wideproof.papers").joinpath(paper, "statements.csv").read_text(encoding="utf-8")
    assert kept == catalogue.table(paper), "`python -m wideproof.papers.catalogue` writes it anew"


def test_a_statement_that_is_added_or_dropped_shows_in_the_index(monkeypatch):
    catalogue.registered("zou2018")
    known = dict(REGISTERED["zou2018"])
    monkeypatch.setitem(REGISTERED, "zou2018", known)
    del known["lemma_a_1"]
    Section("tool", "none")("Nothing exceeds itself", "bound")(lemma_a_99)
    rows = {row["id"]: row for row in csv.DictReader(catalogue.table("zou2018").splitlines())}
    assert "lemma_a_1" not in rows
    assert rows["lemma_a_99"] == {
        "id": "lemma_a_99", "kind": "lemma", "part": "appendix", "role": "tool", "check": "bound", "network": "none",
        "expected": "fails", "why": "planted", "erratum": "a misprint", "module": "planted",
        "title": "Nothing exceeds itself",
    }  # fmt: skip


@misprint("a misprint")
@comes_out(Answer.FAILS, "planted")
def lemma_a_99(lab):
    return at_most("1 <= 0", 1.0, 0.0)


lemma_a_99.__module__ = "wideproof.papers.zou2018.planted"
