"""A plan says what `prove` does: the same choice, numbers by other routes, reasons that are true of the numbers."""

import json
import math
from typing import Any

import numpy as np
import pytest

import wideproof as wp
from wideproof.answers import Answer
from wideproof.data import Dataset, distinct, load, prepare
from wideproof.errors import InputError
from wideproof.kernels import gram
from wideproof.networks import FullyConnected
from wideproof.planning import Estimate, Plan, plan
from wideproof.planning.comparing import Compared, Merits, best_of
from wideproof.planning.looking import Looked
from wideproof.planning.plan import why_not, why_taken
from wideproof.storage import plain

# pyright: reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
# pyright: reportArgumentType=false, reportOptionalOperand=false
TWO = ["standardize,sphere(4)", "standardize,sphere(8)"]


class Stop(Exception):
    """Raised where `prove` would begin to train."""


@pytest.fixture
def stored(monkeypatch, tmp_path):
    """What `prove` writes down as its choice before it trains."""

    def attempt(*arguments: object) -> None:
        raise Stop

    monkeypatch.setattr("wideproof.proving.stages._attempt", attempt)

    def choice(source: Any, **options: Any) -> dict[str, Any]:
        with pytest.raises(Stop):
            wp.prove(source, folder=tmp_path / "proof", **options)
        return json.loads((tmp_path / "proof" / "choice.json").read_text())

    return choice


@pytest.fixture(scope="module")
def planned() -> Plan:
    return plan("wine", limit=45, width=256, prepare=TWO, activation="erf")


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("iris", {"limit": 30, "width": 512}),
        ("diabetes", {"limit": 24, "seed": 3, "width": 512, "budget": 5.0}),
        ("wine", {"limit": 24, "options": {"start": "zero"}, "prepare": "ranks,sphere(4)"}),  # the scale is raised
        ("iris", {"limit": 24, "alpha": 10.0, "width": 128, "steps": 50, "classes": ("setosa", "virginica")}),
        ("iris", {"limit": 12, "network": "residual", "depth": 2, "width": 32, "prepare": "standardize,sphere(4)"}),
    ],
)  # fmt: skip
def test_it_is_the_choice_that_prove_stores(stored, source, options):
    found = plan(source, **options)
    there = stored(source, **options)
    mine = json.loads(json.dumps(plain(found.choice.to_dict())))
    assert {key: there[key] for key in mine} == mine
    assert there["digest"] == found.data.digest


def test_another_seed_is_another_choice(stored):
    options = {"limit": 12, "width": 64, "prepare": "standardize,sphere(4)", "activation": "erf"}
    there = stored("iris", seed=1, **options)
    sizes = [plan("iris", seed=seed, **options).choice.step_size for seed in (0, 1)]
    assert sizes[0] != sizes[1] == there["step_size"]


def test_numbers_of_a_row_by_another_route():
    """NumPy's eigenvalues of the empirical matrix of one output, n regressions, and the residual step by step."""
    data = load("diabetes", limit=40)
    data = data.take(np.r_[np.arange(40), :6])  # six rows are there twice
    found = plan(data, width=256, prepare="standardize,sphere(8)", activation="erf", budget=1e6)
    row, taken = found.rows[0], found.taken
    assert isinstance(taken, Compared)
    own = prepare(data, "standardize,sphere(8)")
    network = FullyConnected(own.input_shape[0], 256, 1, "erf", start="doubled")
    groups = distinct(own)
    assert groups.n < own.n
    matrix = np.asarray(gram(network, network.init(0), groups.x).matrix)
    roots = np.sqrt(groups.counts)
    weighted = matrix * np.outer(roots, roots)
    values = np.linalg.eigvalsh(weighted)
    assert row.rows == groups.n
    assert row.condition == pytest.approx(values[-1] / values[0], rel=1e-6)
    outputs = np.empty(groups.n)
    for i in range(groups.n):
        rest = np.delete(np.arange(groups.n), i)
        outputs[i] = matrix[i, rest] @ np.linalg.solve(matrix[np.ix_(rest, rest)], groups.y[rest])
    missed = own.y - outputs[groups.place]
    total = np.square(own.y - own.y.mean()).sum()
    assert row.estimate.value == pytest.approx(1 - np.square(missed).sum() / total, rel=1e-6)
    residual, steps = groups.y * roots, 0
    while np.linalg.norm(residual) > row.alpha * taken.outlook.reach:
        residual = residual - weighted @ residual / values[-1]
        steps += 1
    assert steps > 0
    assert abs(row.steps - steps) <= 1
    assert (found.alpha, found.steps) == (row.alpha, row.steps)


def as_said(one: Merits, taken: Merits, best: Merits, said: str) -> bool:
    """Whether a reason not to take a candidate is true of the numbers."""
    least = best.value - best.estimate.error
    as_good = one.provable and one.value >= least
    return {
        "no proof is to be expected": not one.provable,
        "predicts worse: more than a standard error below the best": one.provable and one.value < least,
        "as good, with a larger alpha": as_good and one.alpha > taken.alpha,
        "as good, with no alpha to be forecast": as_good and one.alpha == math.inf > taken.alpha,
        "as good, slower": as_good and one.alpha == taken.alpha and one.seconds > taken.seconds
        and (one.seconds > 15 or max(one.steps, 20) == max(taken.steps, 20)),
        "as good, with more steps": as_good and one.alpha == taken.alpha and one.steps > max(taken.steps, 20)
        and (max(one.seconds, taken.seconds) <= 15 or one.seconds == taken.seconds),
        "as good, its seconds are not forecast": as_good and one.seconds == math.inf > taken.seconds,
        "as good and as quick, with no better estimate": as_good and one.value <= taken.value
        and (one.alpha, one.seconds, max(one.steps, 20)) == (taken.alpha, taken.seconds, max(taken.steps, 20)),
    }[said]  # fmt: skip


def test_reasons_are_true_of_any_numbers():
    rng, seen = np.random.default_rng(0), set()
    for _ in range(300):
        found = [
            Merits(bool(rng.random() < 0.8), Estimate("accuracy", float(rng.choice([0.7, 0.89, 0.9])), 0.5, 0.03, 100),
                   float(rng.choice([1.0, 3.0, math.inf])), float(rng.choice([1.0, 2.0, 20.0, math.inf])),
                   int(rng.choice([5, 6, 30, 40])))
            for _ in range(5)
        ]  # fmt: skip
        best = best_of(found)
        if not best.provable:
            continue
        taken, *others = sorted(found, key=lambda one: one.key(best))
        for one in others:
            said = why_not(one, taken, best)
            assert as_said(one, taken, best, said), (one, taken, said)
            seen.add(said)
        sentence = why_taken([taken, *others], 0)
        good = [one for one in found if one.provable and not one.below(best)]
        assert ("needs the least alpha" in sentence) == any(one.alpha > taken.alpha for one in good)
        assert ("no other one that" in sentence) == (len(good) == 1)
    assert len(seen) == 8


def test_rows_are_listed_in_the_order_of_the_comparison(planned):
    assert planned.rows[0].why == "taken"
    assert planned.answer is Answer.HOLDS
    assert planned.seconds > 0
    for one in (planned, *planned.others):
        assert one.rows[0].preparation == one.choice.preparation
        assert str(one.estimate) in str(one)
    text = str(planned)
    for words in (planned.why, "Other combinations that were asked for", str(planned.choice.network), "allowed: 120 s"):
        assert words in text


def test_candidates_that_are_left_behind_are_told():
    found = plan("iris", limit=40, width=128)
    left = [row for row in found.rows if row.why.startswith("left behind on")]
    assert len(left) == len(found.choice.left) > 10
    assert len(found.rows) == len(left) + len(found.choice.looked)
    assert {row.preparation for row in left}.isdisjoint({""})
    assert f"({len(left)} were left behind before)" in found.why
    assert f"5 of {len(found.rows)} candidates" in found.text(5)
    assert f"{len(found.rows)} of {len(found.rows)} candidates" in found.text(0)
    json.dumps(plain(found.to_dict()))


def test_several_of_each_are_combined_and_the_best_is_first():
    found = plan("iris", limit=30, network=["fully-connected", "residual"], depth=2, width=[32, 64], activation="erf",
                 prepare="standardize,sphere(4)")  # fmt: skip
    asked = [(one.asked["network"], one.asked["width"]) for one in (found, *found.others)]
    assert sorted(asked) == [(n, w) for n in ("fully-connected", "residual") for w in (32, 64)]
    assert len(found.combinations) == 3
    best = best_of([one.merits for one in (found, *found.others)])
    keys = [one.merits.key(best) for one in (found, *found.others)]
    assert keys == sorted(keys)
    for name, width in asked:
        alone = plan("iris", limit=30, network=name, width=width, depth=2, activation="erf",
                     prepare="standardize,sphere(4)")  # fmt: skip
        (same,) = [one for one in (found, *found.others) if one.asked == alone.asked]
        assert same.choice.to_dict() == alone.choice.to_dict()


def test_combinations_that_do_not_fit_are_left_out_and_told():
    found = plan("iris", limit=12, network=["residual", "deep-relu"], depth=1, width=32, prepare=TWO[0])
    assert found.others == ()
    assert any("deep-relu has one output" in note for note in found.notes)
    with pytest.raises(InputError, match="deep-relu has one output"):
        plan("iris", limit=12, network="deep-relu", depth=[1, 2])


@pytest.mark.parametrize(("last", "least"), [([1.0, 0.0], 0), ([-1.0, 0.0], 1)])
def test_equal_rows_count_once_and_contradictions_are_told(last, least):
    x = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 2.0], [0.5, 2.0]])
    data = Dataset(x, np.array([1.0, -1.0, 1.0, last[0]]), "binary")
    found = plan(data, width=64, prepare="standardize,sphere(4)", activation="erf")
    assert "3 of 4: equal rows count as one" in str(found)
    told = "2 rows have an equal row with another target, so zero loss is impossible: the least loss of any function is"
    assert any(note.startswith(f"{told} {least},") for note in found.notes) == (least > 0)
    assert found.to_dict()["data"]["contradicting"] == ([2, 3] if least else [])


def test_rows_that_rounding_cannot_tell_apart_leave_it_undecided():
    x = np.array([[1.0, 0.0], [1.0, 1e-13], [0.0, 1.0]])
    found = plan(Dataset(x, np.array([1.0, -1.0, 1.0]), "binary"), width=64, prepare="none", activation="erf")
    assert found.answer is Answer.UNDECIDED
    assert found.answer.exit_code == 2


@pytest.mark.parametrize(
    ("source", "options", "network", "how"),
    [
        ("sequences:n=6,length=3,features=4,separation=0.3", {}, "elman-rnn", "compared at infinite width"),
        ("digits", {"kind": "images", "limit": 6, "classes": (0, 1), "network": "conv-residual"}, "conv-residual",
         "it is the only candidate"),
    ],
)  # fmt: skip
def test_other_kinds_of_data(source, options, network, how):
    found = plan(source, **options)
    assert found.choice.network.name == network
    assert isinstance(found.taken, Looked)
    assert found.steps is not None
    assert found.seconds is not None
    assert (found.steps > 0) == (found.seconds > 0)
    assert f"about {found.steps:,} to be followed from the start" in str(found)
    assert how in str(found)
    single = len(found.rows) == 1
    assert found.answer is (Answer.UNDECIDED if single else Answer.HOLDS)  # of one candidate nothing is computed


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"network": "transformer"}, "no network 'transformer'"),
        ({"network": []}, "network names at least one"),
        ({"network": FullyConnected(4, 8, 1)}, "a plan is for networks by name"),
        ({"activation": "swishy"}, "no activation 'swishy'"),
        ({"depth": 0}, "depth must be a whole number of at least 1"),
        ({"prepare": ["wash"]}, "'wash' is not a preparation step"),
        ({"budget": -1.0}, "budget must be a number of seconds"),
    ],
)
def test_misuse_is_one_sentence(options, words):
    with pytest.raises(InputError, match=words):
        plan("iris", limit=12, **options)
