"""Counting, surprises, and computations that break off."""

import json
import multiprocessing
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from wideproof.answers import Answer
from wideproof.errors import InputError, JobError
from wideproof.papers import statement as statement_module
from wideproof.papers import statements
from wideproof.papers.check import at_most, conclude, scales
from wideproof.papers.findings import Findings, examine
from wideproof.papers.parallel import measure_beside
from wideproof.papers.statement import PAPERS, Measured, index
from wideproof.papers.study import Lab

GOOD, BAD, OPEN = at_most("good", 1.0, 2.0), at_most("bad", 3.0, 2.0), at_most("open", 2.0, 2.0)
X = np.array([1.0, 2.0, 4.0])
FITTED = scales("fitted", "m", X, [X, 1.1 * X, X], 1.0)


def made(*checks, expected=Answer.HOLDS):
    rows = statements("zou2018")
    found = [Measured(replace(rows[k], expected=expected, why="w"), check, 0.5) for k, check in enumerate(checks)]
    return Findings("quick", 0, tuple(found), 1.0)


@pytest.mark.parametrize(
    ("expected", "check", "as_expected"),
    [
        ("holds", GOOD, True), ("holds", BAD, False), ("holds", OPEN, True),
        ("fails", GOOD, False), ("fails", BAD, True), ("fails", OPEN, True),
        ("undecided", GOOD, True), ("undecided", BAD, False), ("undecided", OPEN, True),
    ],
)  # fmt: skip
def test_what_is_a_surprise(expected, check, as_expected):
    found = made(check, expected=Answer(expected))
    assert (not found.surprises) is as_expected


def test_counts():
    found = made(GOOD, GOOD, BAD, OPEN)
    assert found.counts() == {"zou2018": Counter({Answer.HOLDS: 2, Answer.FAILS: 1, Answer.UNDECIDED: 1})}
    assert [one.check.title for one in found.open] == ["bad", "open"]
    assert sum(sum(c.values()) for c in found.counts("role").values()) == 4


def test_everything_becomes_json():
    check = conclude(GOOD, FITTED, hypotheses=[BAD], assumptions=["C = 1"])
    plain = json.loads(json.dumps(made(check, OPEN).to_dict()))
    assert plain["counts"]["zou2018"] == {"holds": 1, "fails": 0, "undecided": 1}
    first = plain["statements"][0]
    assert first["parts"][1]["slope"]["value"] == pytest.approx(1.0)
    assert first["hypotheses"][0]["outcome"] == "fails"
    assert first["assumptions"] == ["C = 1"]


def test_a_broken_computation_costs_only_itself(monkeypatch):
    row = statements("zou2018")[0]

    class Module:
        pass

    def broken(lab):
        raise FloatingPointError("overflow in layer 3")

    setattr(Module, row.id, staticmethod(broken))
    monkeypatch.setattr(statement_module, "import_module", lambda name: Module)
    measured = row.measure(Lab())
    assert measured.check.outcome is Answer.UNDECIDED
    assert not measured.as_expected
    assert measured.check.note == "broke off with FloatingPointError: overflow in layer 3"


CHEAP = (*statements("zou2018.lemma_c_1"), *statements("du2019.lemma_g_6"))


def test_processes_side_by_side_find_the_same():
    seen = []
    beside, here = (examine(CHEAP, progress=seen.append, workers=workers).to_dict() for workers in (2, 1))
    for found in (beside, here):
        found.pop("seconds")
        for one in found["statements"]:
            one.pop("seconds")
    assert beside == here
    assert len(seen) == 4


def test_a_process_that_ends_too_early_is_told():
    results = measure_beside(statements("zou2018"), "quick", 0, 1)
    next(results)
    (process,) = multiprocessing.active_children()
    process.kill()
    with pytest.raises(JobError, match="enough memory"):
        list(results)


def test_nobody_waits_for_results_that_are_not_wanted():
    results = measure_beside(statements("zou2018"), "quick", 0, 1)
    next(results)
    results.close()
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("paper", PAPERS)
def test_the_index_is_complete(paper):
    rows = index(paper)
    names = [row.id for row in rows]
    assert len(set(names)) == len(names)
    for row in rows:
        assert row.title, row.name
        assert bool(row.why) == (row.expected is not Answer.HOLDS), row.name
        assert row.check in ("exact", "bound", "scale", "oracle", "none", "proof_step"), row.name


def test_the_index_counts_what_the_papers_say():
    assert {paper: len(index(paper)) for paper in PAPERS} == {
        "zou2018": 84, "du2019": 66, "allenzhu2018": 138, "frei2019": 57,
    }  # fmt: skip
    assert len(statements()) == 320


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        ("zou2018.corollary_4_3", ["corollary_4_3"]),
        ("zou2018.theorem_5_1", ["theorem_5_1"]),
        ("zou2018.corollary_4", ["corollary_4_3", "corollary_4_6"]),
    ],
)
def test_names(wanted, ids):
    assert [one.id for one in statements(wanted)] == ids


@pytest.mark.parametrize("wanted", ["zou2019", "zou2018.theorem_9", "zou2018.eq_3_1"])
def test_unknown_names(wanted):
    with pytest.raises(InputError, match=r"no paper|no checkable"):
        statements(wanted)


def test_laboratories_repeat_and_keep():
    lab = Lab("standard", seed=1)
    assert lab.pick(1, 2, 3) == 2
    made_once = lab.keep("a", lambda: object())
    assert lab.keep("a", lambda: object()) is made_once
    assert (lab.rng("a", 1).normal(size=3) == Lab("standard", seed=1).rng("a", 1).normal(size=3)).all()
    assert (lab.rng("a", 1).normal(size=3) != lab.rng("a", 2).normal(size=3)).all()
    assert (lab.rng("a").normal(size=3) != Lab("standard", seed=2).rng("a").normal(size=3)).all()
    with pytest.raises(InputError, match="quick, standard, deep"):
        Lab("fast")


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("zou2018.Lemma A.11", "lemma_a_11"), ("zou2018.Theorem 5.1 (iii)", "theorem_5_1_iii"),
        ("zou Lemma A.11", "lemma_a_11"), ("allenzhu2018.Eq. (4.2)", "eq_4_2"), ("Allenzhu2018.Equation 4.2", "eq_4_2"),
    ],
)  # fmt: skip
def test_the_spelling_of_the_paper(wanted, found):
    assert [one.id for one in statements(wanted)] == [found]


def test_the_beginning_of_a_paper_selects_it():
    assert statements("zou") == statements("zou2018")
    assert statements("du") == statements("du2019")


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("zou2018.lemma_4_1", "no checkable statement 'lemma_4_1': the nearest names are theorem_4_1, "),
        ("zou2018.therem_5_1_iii", "the nearest names are theorem_5_1_iii"),
        ("zou2018.Eq. 3.1", "no checkable statement 'Eq. 3.1': it is a definition or a step of a proof"),
        ("zou2018.(?)", "no checkable statement"),
        ("zou2019.lemma_a_1", "there is no paper 'zou2019'"),
        (".lemma_a_1", "there is no paper ''"),
    ],
)
def test_a_name_that_is_not_there_gets_advice(wanted, said):
    with pytest.raises(InputError, match=re.escape(said)):
        statements(wanted)


def test_words_in_name_or_title():
    found = statements(None, ["norm"])
    assert 0 < len(found) < len(statements())
    assert all("norm" in f"{one.name} {one.title}".lower() for one in found)
    assert set(statements("zou2018", ["NORMS", "Lemma A"])) == {
        one for one in statements("zou2018.lemma_a_") if "norms" in one.title.lower()
    }


def test_widths_go_to_every_paper_and_process():
    found = examine(CHEAP, workers=2, widths=(32, 64, 128))
    assert found.widths == (32, 64, 128)
    assert [one.statement.name for one in found.elsewhere] == [one.name for one in CHEAP]
    plain = found.to_dict()
    assert plain["widths"] == [32, 64, 128]
    assert "the widths asked for are not used" in plain["statements"][0]["assumptions"][-1]
    assert "widths" not in made(GOOD).to_dict()
