"""Estimates on unseen rows: the closed form against brute force, scores, and kernels in closed form."""

import dataclasses

import numpy as np
import pytest

from wideproof.data import Dataset
from wideproof.data.repeats import distinct
from wideproof.kernels import limit_gram
from wideproof.kernels.closed import closed_gram
from wideproof.networks import FullyConnected, get_activation
from wideproof.planning.estimates import Estimate, gap, leave_out, score, top

# pyright: reportArgumentType=false


@pytest.mark.parametrize("repeated", [False, True])
def test_leaving_out_is_regression_without_the_group(repeated):
    """Weighted regression with the matrix on all other groups, solved one by one."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((12, 5))
    if repeated:
        x[3], x[9], x[10] = x[0], x[0], x[2]
    y = np.where(rng.random(12) < 0.5, 1.0, -1.0)
    groups = distinct(Dataset(x, y, "binary"))
    half = rng.standard_normal((groups.n, groups.n))
    matrix = half @ half.T + 0.1 * np.eye(groups.n)
    found = leave_out(matrix, groups)
    assert found is not None
    for g in range(groups.n):
        rest = np.delete(np.arange(groups.n), g)
        root = np.sqrt(groups.counts[rest])
        weighted = matrix[np.ix_(rest, rest)] * np.multiply.outer(root, root)
        alone = matrix[g, rest] * root @ np.linalg.solve(weighted, groups.y[rest] * root)
        assert found.outputs[g, 0] == pytest.approx(alone, rel=1e-8, abs=1e-10)
    roots = np.sqrt(groups.counts)
    values = np.linalg.eigvalsh(matrix * np.multiply.outer(roots, roots))
    assert found.smallest == pytest.approx(values[0], rel=1e-3)
    assert found.largest == pytest.approx(values[-1], rel=1e-3)


def test_a_singular_matrix_has_no_estimate():
    groups = distinct(Dataset(np.eye(3), [1, -1, 1], "binary"))
    assert leave_out(np.ones((3, 3)), groups) is None


def test_scores():
    classes = Dataset(np.eye(4), 2 * np.eye(3)[[0, 1, 2, 0]] - 1, "multiclass")
    found = score(classes, np.array([[1.0, 0, 0], [0, 0, 1], [0, 0, 1], [1, 0, 0]]))
    assert (found.value, found.guess, found.kind) == (0.75, 0.5, "accuracy")
    numbers = Dataset(np.eye(4), [1.0, 2.0, 3.0, 4.0], "regression")
    assert score(numbers, numbers.y).value == 1
    assert score(numbers, np.full(4, 2.5)).value == 0
    assert score(numbers, np.full(4, 2.5)).useless


def test_the_sentence_says_which_rows_the_network_did_not_see():
    left, held = Estimate("accuracy", 0.9, 0.5, 0.01, 72), Estimate("R²", 0.9, 0.0, 0.01, 18, "held out")
    assert str(left).startswith("Leaving out each of the 72 rows in turn (at infinite width): 90.0 ± 1.0 % right; ")
    folds = Estimate("accuracy", 0.9, 0.5, 0.01, 72, "folds")
    assert str(folds).startswith("Each fifth of the 72 rows, predicted from the rest by this network (linear at ")
    assert str(held).startswith("On 18 held out rows: R² 0.900 ± 0.010; always answering the mean: 0.")
    assert str(Estimate("accuracy", 1.0, 0.5, 0.1, 1, "held out")).startswith("On 1 held out row: ")


def test_the_sentence_says_how_the_choice_was_made_and_which_rows_are_last():
    anew = Estimate("accuracy", 0.9, 0.5, 0.01, 72, "folds, chosen anew")
    assert "(linear at its start), preparation and activation chosen without it: 90.0 " in str(anew)
    more = dataclasses.replace(anew, parts=10)
    assert str(more).startswith("Each tenth of the 72 rows, predicted from the rest by this network ")
    after = Estimate("accuracy", 0.9, 0.5, 0.01, 72, "folds, after the choice")
    assert "after the preparation was chosen with all rows (a little optimistic): 90.0" in str(after)
    wide = str(Estimate("accuracy", 0.9, 0.5, 0.01, 72, "folds at infinite width, chosen anew", date="day"))
    assert wide.startswith(
        "The last 72 rows by day, predicted from the rows before at infinite width (from its own start), "
        "preparation and activation chosen without them: 90.0"
    )
    held = Estimate("accuracy", 0.9, 0.5, 0.01, 18, "held out", date="day")
    assert str(held).startswith("On the last 18 rows by day, held out: 90.0")


def test_numbers_have_their_own_units():
    numbers = Dataset(np.eye(4), [10.0, 20.0, 30.0, 40.0], "regression")
    found = score(numbers, numbers.y + np.array([3.0, -3.0, 3.0, -3.0]))
    assert found.typical == pytest.approx((3.0, np.std(numbers.y)))
    assert "(typical error 3 in the target's own units, 11.2 for the mean)" in str(found)
    both = Dataset(np.eye(4), np.c_[numbers.y, numbers.y], "regression")
    assert score(both, both.y).typical is None


def test_a_tie_is_right_by_its_share():
    classes = Dataset(np.eye(4), 2 * np.eye(3)[[0, 1, 2, 0]] - 1, "multiclass")
    assert score(classes, np.zeros((4, 3))).value == pytest.approx(1 / 3)
    two = Dataset(np.eye(4), [1, 1, 1, -1], "binary")
    assert score(two, np.array([0.0, 0.0, 1.0, 1.0])).value == 0.5


def test_a_gap_is_chance_or_explained():
    folds, near, far = (Estimate("accuracy", value, 0.5, 0.02, 100) for value in (0.9, 0.86, 0.7))
    assert "by up to 5.7 points they would by chance alone" in gap(folds, near)
    assert gap(folds, far).startswith(
        "both estimates differ by 20.0 points, more than the 5.7 of two standard errors: "
    )
    later = dataclasses.replace(far, date="day")
    assert "errors: the held out rows are later ones; the folds are predicted from fewer rows" in gap(folds, later)
    numbers = Estimate("R²", 0.9, 0.0, 0.01, 10), Estimate("R²", 0.8, 0.0, 0.1, 10)
    assert "differ by 0.100 in R², and by up to 0.201 in R²" in gap(*numbers)


def test_guessing_is_called_guessing():
    good, bad = Estimate("accuracy", 0.9, 0.5, 0.01, 100), Estimate("accuracy", 0.505, 0.5, 0.01, 100)
    assert "no better than guessing" not in str(good)
    assert "no better than guessing" in str(bad)


@pytest.mark.parametrize("n", [1, 3, 20, 21, 60])
def test_the_top_of_a_planted_spectrum(n, rng):
    """Small matrices, larger ones, and one whose two largest eigenvalues are close."""
    turned = np.linalg.qr(rng.standard_normal((n, n)))[0]
    values = np.linspace(0, 7, n) if n > 1 else np.array([7.0])
    values[: n // 2] = 6.99
    assert top(turned * values @ turned.T) == pytest.approx(7, rel=1e-6)
    assert top(3 * np.eye(n)) == pytest.approx(3, rel=1e-12)


def test_ends_of_the_spectrum_are_those_of_all_eigenvalues(rng):
    """Two routes: the inverse from a factor and a Krylov space here, all eigenvalues there; equal rows weigh more."""
    x = np.repeat(rng.standard_normal((40, 60)), rng.integers(1, 4, 40), axis=0)
    groups = distinct(Dataset(x, rng.choice([-1, 1], len(x)), "binary"))
    matrix = groups.x @ groups.x.T
    roots = np.sqrt(groups.counts)
    values = np.linalg.eigvalsh(matrix * np.multiply.outer(roots, roots))
    found = leave_out(matrix, groups)
    assert found is not None
    assert found.smallest == pytest.approx(values[0], rel=1e-6)
    assert found.largest == pytest.approx(values[-1], rel=1e-6)


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("name", "depth"),
    [("relu", 1), ("erf", 3), pytest.param("erf", 1, marks=SLOW), pytest.param("relu", 3, marks=SLOW)],
)
def test_closed_forms_are_the_limit(name, depth):
    """Two routes: plain NumPy here, interpolants and compiled tiles there; rows of different norms too."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((67, 4)) * rng.uniform(0.5, 3, (67, 1))
    network = FullyConnected(4, 16, depth, get_activation(name))
    found = closed_gram(network, x)
    np.testing.assert_allclose(found.total, limit_gram(network, x).matrix, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.read_out, limit_gram(network, x, names=["a"]).matrix, rtol=1e-9, atol=1e-12)
