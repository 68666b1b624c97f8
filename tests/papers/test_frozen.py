"""Bounds with constants fixed before: what is counted, what fails, and that the stored constants can be made again."""

import numpy as np
import pytest

from wideproof.answers import Answer
from wideproof.errors import InputError
from wideproof.papers import PAPERS, frozen, laboratory
from wideproof.papers.catalogue import registered
from wideproof.papers.check import at_most
from wideproof.papers.frozen import Clause, Trials
from wideproof.papers.study import Lab


def normal(lab, size, draw):
    """The root mean square of eight means of `size` standard normal numbers."""
    return size, np.sqrt(np.mean(lab.rng("mean", size, draw).standard_normal((8, size)).mean(axis=1) ** 2))


def planted(power, monkeypatch, constant=None, least=False):
    """Trials of |mean| <= C size^power, calibrated at small sizes."""
    clause = Clause("mean", "|mean| <= C size^p", lambda one: (one[1], one[0] ** power), least, constant)
    monkeypatch.setattr(frozen, "REGISTERED", {})
    found = Trials("toy.mean", normal, (clause,), (16, 32), ((1024, 4096), (1024, 4096), (1024, 4096)), "size")
    monkeypatch.setattr(
        frozen, "constants", lambda: {"toy.mean": found.calibrate([Lab(seed=s) for s in range(10, 15)])}
    )
    return found


def test_a_bound_of_the_right_order_holds(monkeypatch):
    check = planted(-0.5, monkeypatch).check(Lab())
    assert check.outcome is Answer.HOLDS
    assert check.frozen
    assert check.samples == 60
    assert check.constant is not None
    assert 0.3 < check.constant < 1


def test_a_bound_that_falls_too_fast_fails(monkeypatch):
    """1/size in place of 1/√size: the constant of the small sizes is far too small for the large ones."""
    check = planted(-1.0, monkeypatch).check(Lab())
    assert check.outcome is Answer.FAILS
    assert "too often violated at 1024, 4096" in check.note


def test_violations_at_one_size_are_enough_to_fail(monkeypatch):
    trials = planted(-0.5, monkeypatch)
    lab = Lab()
    lab._kept["frozen", "toy.mean"] = [(1, {"mean": 0.0})] * 200 + [(2, {"mean": 1e9})] * 6
    check = trials.check(lab)
    assert check.left == pytest.approx(200 / 206)
    assert check.outcome is Answer.FAILS


@pytest.mark.parametrize(("constant", "outcome"), [(5.0, "holds"), (0.5, "fails")])
def test_a_named_constant_is_not_calibrated(monkeypatch, constant, outcome):
    trials = planted(-0.5, monkeypatch, constant)
    assert trials.calibrate([Lab(seed=10)]) == {}
    assert trials.check(Lab()).outcome.value == outcome


def test_a_bound_from_below(monkeypatch):
    """The mean is not bounded from below by any multiple of 1/√size: it may be as near to 0 as it likes."""
    clause = Clause("x", "x >= C", lambda one: (one, 2.0), least=True, constant=0.5)
    assert clause.ratio(4.0) == 0.5  # 2/4
    assert clause.constant == 0.5
    assert clause.ratio(np.nan) == np.inf
    assert Clause("x", "x <= C y", lambda one: (one, 0.0)).ratio(1.0) == np.inf


def test_a_joint_event_is_counted_on_the_same_draws():
    """Each clause is violated by a tenth of the draws, but not by the same ones: together it is a fifth."""
    values = [(1, {"a": 2.0 * (k % 10 == 0), "b": 2.0 * (k % 10 == 5)}) for k in range(2000)]
    clauses = tuple(Clause(name, name, lambda one: (one, 1.0), constant=1.0) for name in "ab")
    trials = Trials("toy.joint", normal, clauses, (), ((1,), (1,), (1,)), "size", delta=0.15)
    frozen.REGISTERED.pop("toy.joint")
    lab = Lab()
    lab._kept["frozen", "toy.joint"] = values
    assert [trials.check(lab, *names).outcome for names in (("a",), ("b",), ())] == [
        Answer.HOLDS, Answer.HOLDS, Answer.FAILS,
    ]  # fmt: skip


def test_a_clause_without_a_stored_constant_says_what_to_do(monkeypatch):
    trials = planted(-0.5, monkeypatch)
    monkeypatch.setattr(frozen, "constants", dict)
    with pytest.raises(InputError, match=r"run `python tools/constants.py`"):
        trials.check(Lab())


def test_stored_constants_are_those_of_the_clauses():
    for paper in PAPERS:
        registered(paper)
    wanted = {
        name: {one.name for one in trials.clauses if one.constant is None} for name, trials in frozen.REGISTERED.items()
    }
    assert {name: set(found) for name, found in frozen.constants().items()} == {k: v for k, v in wanted.items() if v}


@pytest.mark.parametrize("name", ["frei2019.lemma_4_1", "du2019.theorem_e_1.residual"])
def test_a_stored_constant_is_made_again(name):
    paper = name.partition(".")[0]
    registered(paper)
    labs = [laboratory(paper, "quick", seed) for seed in frozen.SEEDS]
    found = frozen.REGISTERED[name].calibrate(labs)
    for clause, kept in frozen.constants()[name].items():
        assert found[clause]["constant"] == pytest.approx(kept["constant"], rel=0.02)


def test_what_is_calibrated_on_is_smaller_than_what_is_tested():
    for paper in PAPERS:
        registered(paper)
    for name, trials in frozen.REGISTERED.items():
        tested = {str(size) for group in trials.large for size in group}
        assert not tested & {str(size) for size in trials.small}, name


def test_a_right_side_above_what_can_be_is_vacuous():
    check = at_most("P <= 10", [0.1, 0.2], [10.0, 1.0], largest=1.0)
    assert (check.outcome, check.vacuous) == (Answer.UNDECIDED, True)
    some = at_most("P <= some", [0.1, 0.9], [10.0, 0.5], largest=1.0)
    assert (some.outcome, some.left, some.vacuous) == (Answer.FAILS, 0.9, False)
    assert at_most("no limit", 1.0, np.inf).outcome is Answer.HOLDS
    assert at_most("nan", 1.0, np.nan, largest=1.0).outcome is Answer.UNDECIDED
