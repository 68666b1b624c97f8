import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from wideproof.answers import Answer
from wideproof.data import Dataset, ImageDataset, SequenceDataset, audit, load, prepare
from wideproof.data import generators as g
from wideproof.errors import InputError


def verdict(found, paper, word):
    return next(v for v in found.verdicts if v.paper == paper and word in v.assumption)


def lowest(function):
    found: Any = minimize_scalar(function, bounds=(-40, 40))
    return found.fun


def test_planted_faults_are_found():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 4))
    x[5] = 0
    x[:, 2] = 7.0
    x[5] = 0
    x[9], x[14], x[20], x[25] = x[3], x[3], -2 * x[4], 3 * x[6]
    y = np.where(np.arange(30) % 2, 1.0, -1.0)
    y[[3, 9, 14]] = 1, 1, -1
    found = audit(Dataset(x, y, "binary"))
    assert found.zero_rows == (5,)
    assert found.norms[0] == 0
    assert found.conflicts.duplicate_groups == 1
    assert found.conflicts.duplicate_pairs == 3
    assert found.conflicts.pairs == 2
    assert found.conflicts.first == ((3, 14),)
    assert not found.zero_loss_possible
    assert found.separation == found.opposite_separation == 0
    assert set(found.geometry.parallel) == {(3, 9), (3, 14), (9, 14), (6, 25)}
    assert found.geometry.antipodal == ((4, 20),)
    assert found.margin is None
    assert "unit sphere" in found.margin_note
    assert [found.holds(paper) for paper in ("du2019", "zou2018", "frei2019")] == [Answer.FAILS] * 3
    assert found.holds("allenzhu2018") is Answer.UNDECIDED
    assert found.holds() is Answer.FAILS
    assert verdict(found, "zou2018", "3.5").remedy.startswith("none")
    assert verdict(found, "frei2019", "3.2").status == "fails"
    assert "remove row 5" in verdict(found, "du2019", "unit").remedy


def test_constant_columns():
    assert audit(Dataset(np.array([[1.0, 2], [1, 3]]), np.array([0.1, 0.2]), "regression")).constant_columns == (0,)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=4, max_size=12))
def test_least_losses_against_minimization(rows):
    x = np.array([[1.0 + place] for place, _ in rows])
    y = np.array([1.0 if up else -1.0 for _, up in rows])
    if abs(y.sum()) == len(y):
        return
    found = audit(Dataset(x, y, "binary")).conflicts
    square = logistic = wrong = 0.0
    for place in np.unique(x):
        here = y[x[:, 0] == place]
        square += lowest(lambda f, h=here: 0.5 * np.square(h - f).sum())
        logistic += lowest(lambda f, h=here: np.logaddexp(0, -h * f).sum())
        wrong += min((here > 0).sum(), (here < 0).sum())
    assert found.least_square == pytest.approx(square, abs=1e-9)
    assert found.least_logistic == pytest.approx(logistic / len(y), abs=1e-6)
    assert found.least_error == pytest.approx(wrong / len(y))
    brute = sum(x[i] == x[j] and y[i] != y[j] for i in range(len(y)) for j in range(i))
    assert found.pairs == brute


def test_regression_floor_is_a_quarter_of_the_squared_gap():
    data = Dataset(np.array([[1.0], [1.0], [2.0]]), np.array([0.0, 3.0, 1.0]), "regression")
    assert audit(data).conflicts.least_square == pytest.approx(9 / 4)
    assert audit(data).conflicts.least_error is None


@pytest.mark.parametrize(
    ("data", "paper"),
    [
        (g.sphere(20, 5, 0.3), "du2019"),
        (g.teacher(20, 5), "du2019"),
        (g.two_classes(20, 5, 0.3, mu=0.4), "zou2018"),
        (g.sequences(10, 4, 5, 0.2), "allenzhu2018"),
    ],
)
def test_made_to_order_data_hold_and_show_their_separation(data, paper):
    found = audit(data)
    assert found.holds(paper) is Answer.HOLDS, str(found)
    assert found.zero_loss_possible
    planted = {"sphere": 0.3, "two_classes": None, "sequences": 0.2, "teacher": None}[data.name]
    if planted is not None:
        assert found.separation == pytest.approx(planted, abs=1e-12)
        assert found.geometry.nearest is not None
        assert found.geometry.nearest[1:] == (0, 1)
    if data.name == "two_classes":
        assert found.opposite_separation == pytest.approx(0.3, abs=1e-12)


def test_every_assumption_can_fail_with_its_remedy():
    images = ImageDataset(np.ones((2, 2, 2)), np.array([50.0, 1.0]), "regression")
    found = audit(images)
    assert verdict(found, "du2019", "unit").remedy == "prepare with `unit`"
    assert verdict(found, "du2019", "bounded").status == "undecided"
    assert verdict(found, "du2019", "bounded").remedy == "prepare with `scale_targets`"
    assert verdict(found, "du2019", "parallel").remedy.startswith("none")
    assert {v.paper for v in found.verdicts} == {"du2019"}

    antipodal = audit(Dataset(np.array([[1.0, 0], [-1, 0], [0, 1]]), np.array([1.0, -1, 1]), "binary"))
    assert verdict(antipodal, "du2019", "parallel").remedy == "prepare with `constant`"
    repeated = audit(Dataset(np.array([[1.0, 0], [1, 0], [0, 1]]), np.array([1.0, 1, -1]), "binary"))
    assert verdict(repeated, "du2019", "parallel").remedy == "drop repeated rows, then audit again"
    assert repeated.zero_loss_possible
    scaled = audit(Dataset(np.array([[1.0, 0], [2, 0], [0, 1]]), np.array([1.0, 1, -1]), "binary"))
    assert "multiples" in verdict(scaled, "du2019", "parallel").remedy

    iris = audit(load("iris"))
    assert "binarize" in verdict(iris, "zou2018", "labels").remedy
    assert iris.opposite_separation is not None
    assert iris.opposite_separation > 0
    diabetes = audit(load("diabetes"))
    assert verdict(diabetes, "frei2019", "labels").remedy.startswith("none")
    assert diabetes.opposite_separation is None

    raw = audit(SequenceDataset(np.full((2, 3, 1), 2.0), np.zeros((2, 3, 1)), "regression"))
    status = {v.assumption: v.status for v in raw.verdicts}
    assert status == {
        "length >= 2": "holds",
        "token size >= 2": "fails",
        "first tokens of norm 1": "fails",
        "last coordinate of first tokens 1/sqrt(2)": "fails",
        "token norms at most 1": "fails",
        "2.1 first tokens apart": "fails",
        "bounded targets": "holds",
    }
    assert raw.zero_loss_possible


def test_prefix_conflicts():
    x = np.zeros((4, 3, 2))
    x[:, 0] = [[1, 0], [1, 0], [1, 0], [0, 1]]
    x[:, 1] = [[1, 1], [1, 1], [2, 2], [1, 1]]
    x[:, 2] = [[1, 0], [2, 0], [1, 0], [1, 0]]
    y = np.zeros((4, 3, 1))
    assert audit(SequenceDataset(x, y, "regression")).zero_loss_possible
    y[2, 0] = y[0, 0] = 9  # step 1 is not in the loss
    y[1, 2] = 4  # the prefixes of length 3 differ
    assert audit(SequenceDataset(x, y, "regression")).zero_loss_possible
    y[1, 1] = 3  # sequences 0 and 1 share two tokens
    found = audit(SequenceDataset(x, y, "regression"))
    assert not found.zero_loss_possible
    assert found.conflicts.first == ((0, 1),)
    assert found.conflicts.least_square == pytest.approx(9 / 4)
    x[1] = x[0]  # now also the third step, 0 against 4
    assert audit(SequenceDataset(x, y, "regression")).conflicts.least_square == pytest.approx(9 / 4 + 16 / 4)


def test_margin_on_a_part_is_an_upper_estimate():
    data = g.linear_margin(n=500, d=4, rho=0.3)
    found = audit(data)
    assert found.margin is not None
    assert found.margin.n <= 302
    assert found.margin.lower == 0
    assert found.margin.upper == pytest.approx(0.3 / np.sqrt(2 * np.pi), rel=1e-6)
    assert "upper estimate" in found.margin_note
    assert found.holds("frei2019") is Answer.UNDECIDED
    assert verdict(found, "frei2019", "3.2").detail.startswith("positive on these rows")
    assert audit(data, margin="never").margin is None
    assert audit(data, margin="never").holds("frei2019") is Answer.UNDECIDED
    remedy = audit(data, margin="never").verdicts[-1].remedy
    assert remedy == "`wideproof audit` computes it for rows that are prepared with `unit`"


def test_antipodes_with_opposite_labels_leave_the_margin_to_the_bracket():
    # y x over the antipodal pairs: 0 is in the hull of (1,0), (-1/2, ±√3/2), so the margin is 0
    turn = 2 * np.pi * np.arange(3) / 3
    half = np.column_stack([np.cos(turn), np.sin(turn)])
    data = Dataset(np.concatenate([half, -half]), np.repeat([1.0, -1.0], 3), "binary")
    found = audit(data)
    assert found.margin is not None
    assert found.margin.lower == 0
    assert verdict(found, "frei2019", "3.2").status == "undecided"
    assert "all inputs that may occur" not in verdict(found, "frei2019", "3.2").detail
    moved = audit(prepare(data, "constant"))
    assert verdict(moved, "frei2019", "3.2").detail.startswith("positive on these rows")


def test_labels_by_coin_flips_are_no_evidence_of_a_margin():
    """A sample without equal or antipodal rows always has a margin, which says nothing about other rows."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((40, 5))
    data = Dataset(x / np.linalg.norm(x, axis=1, keepdims=True), rng.choice([-1.0, 1.0], 40), "binary")
    found = audit(data)
    assert found.margin is not None
    assert found.margin.estimate > 0
    assert verdict(found, "frei2019", "3.2").status is Answer.UNDECIDED
    assert found.holds("frei2019") is Answer.UNDECIDED


def test_shown_and_stored():
    found = audit(g.xor())
    assert json.loads(json.dumps(found.to_dict()))["geometry"]["nearest"] == {
        "distance": 2**0.5,
        "i": 0,
        "j": 2,
    }
    lines = str(found).splitlines()
    assert lines[0] == "xor: 4 examples of 2, binary"
    assert lines[4] == "0 parallel and 2 antipodal pairs"
    assert audit(Dataset(np.ones((1, 2)), np.ones(1), "regression")).separation is None
    with pytest.raises(InputError, match="not one of the papers: use du2019"):
        found.holds("du2020")
    with pytest.raises(InputError, match="auto, never or full"):
        audit(g.xor(), margin="yes")  # pyright: ignore[reportArgumentType]
