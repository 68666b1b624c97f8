"""What removing a row does: against fits without it, and against arithmetic in 60 digits."""

# pyright: reportAttributeAccessIssue=false

import mpmath as mp
import numpy as np
import pytest

from wideproof.errors import InputError
from wideproof.estimators import NTKClassifier, NTKRegressor
from wideproof.estimators.influence import influence
from wideproof.estimators.limit_kernel import LimitKernel
from wideproof.estimators.preparation import fit_preparation


@pytest.mark.parametrize("intercept", [True, False])
def test_fifty_rows_are_removed_and_fitted_again(intercept, rng):
    n = 50 if intercept else 10
    x, new = rng.normal(size=(n, 3)), rng.normal(size=(7, 3))
    y, weight = np.column_stack([x[:, 0] ** 2, rng.normal(3, 1, n)]), rng.uniform(0.5, 2, n)
    ready = fit_preparation("sphere", 1.0, x, weight)
    settings = {"preparation": None, "bias": 0.0, "ridge": 0.05, "fit_intercept": intercept}  # as it was chosen
    x, new = ready(x), ready(new)
    model = NTKRegressor(**settings).fit(x, y, weight)
    found, before = model.influence(new), model.predict(new)
    assert found.bound.shape == (7, n, 2)
    for i in range(n):
        rest = np.arange(n) != i
        after = NTKRegressor(**settings).fit(x[rest], y[rest], weight[rest]).predict(new)
        np.testing.assert_allclose(found.moves[:, i], after - before, atol=1e-11)
        assert (np.abs(after - before) <= found.bound[:, i] + 1e-11).all()
    assert (found.bound <= 1.0001 * np.abs(found.moves) + 1e-9).all()  # no wider than it must be
    assert found.largest.shape == (n,)
    assert str(found).startswith(f"Removing one of {n} training rows moves these 7 predictions by at most")
    assert "rows that move most" in found._repr_html_()


def exactly(matrix, cross, y, weight, ridge, centred):
    """Solve without each row in 60 digits, from the same float64 numbers."""
    n = len(y)
    with mp.workdps(60):
        w, kernel, target = (np.vectorize(mp.mpf, otypes=[object])(one) for one in (weight, matrix, y))
        side = np.vectorize(mp.mpf, otypes=[object])(cross)

        def predicted(rows):
            mean = sum(w[j] * target[j] for j in rows) / sum(w[j] for j in rows) if centred else mp.mpf(0)
            a = mp.matrix([[kernel[i, j] + (mp.mpf(ridge) / w[i] if i == j else 0) for j in rows] for i in rows])
            dual = mp.lu_solve(a, mp.matrix([target[j] - mean for j in rows]))
            return [mean + sum(one[j] * dual[k] for k, j in enumerate(rows)) for one in side]

        whole = predicted(range(n))
        without = [predicted([j for j in range(n) if j != i]) for i in range(n)]
        return [[after[k] - whole[k] for after in without] for k in range(len(cross))]


@pytest.mark.parametrize("ridge", [1.0, 1e-7])
@pytest.mark.parametrize("centred", [True, False])
def test_the_bound_holds_to_the_last_digit(ridge, centred, rng):
    x, new = rng.normal(size=(10, 2)), rng.normal(size=(3, 2))
    x[1] = x[0] + 1e-3  # nearly equal rows: the matrix is nearly singular where the ridge is small
    matrix, cross = LimitKernel()(x), LimitKernel()(new, x)
    y, weight = rng.normal(size=(10, 1)), np.ones(10)
    if centred:
        y = y - y.mean()  # its mean is of the size of rounding, and counts
    found = influence(matrix, cross, y, weight, ridge, centred)
    truth = exactly(matrix, cross, y[:, 0], weight, ridge, centred)
    off = 0.0
    for k in range(3):
        for i in range(10):
            assert abs(truth[k][i]) <= mp.mpf(float(found.bound[k, i, 0]))
            off = max(off, float(abs(truth[k][i] - mp.mpf(float(found.moves[k, i, 0])))))
    room = (found.bound - np.abs(found.moves)).max()
    assert 0 < off <= room < 1e-3  # what is computed is off, and the bound is wider by at least as much


def test_a_wrong_inverse_is_noticed(rng, monkeypatch):
    x = rng.normal(size=(10, 2))
    matrix, given = LimitKernel()(x), (np.eye(10)[:2], np.ones((10, 1)), np.ones(10), 0.1, False)
    right = influence(matrix, *given)
    slightly = np.linalg.inv(matrix + 0.1 * np.eye(10)) * (1 + 1e-6)
    monkeypatch.setattr("wideproof.estimators.influence._inverse", lambda a: slightly)
    wider = influence(matrix, *given)
    assert (wider.bound >= np.abs(right.moves)).all()
    assert (wider.bound - np.abs(wider.moves)).max() > 1e-7 > (right.bound - np.abs(right.moves)).max()
    monkeypatch.setattr("wideproof.estimators.influence._inverse", lambda a: 0.5 * slightly)
    with pytest.raises(InputError, match="too near to a singular one"):
        influence(matrix, *given)


def test_who_has_no_influence(rng):
    x = rng.normal(size=(12, 2))
    x[1] = x[0]
    with pytest.raises(InputError, match="use a larger ridge"):
        influence(LimitKernel()(x), np.eye(12)[:1], np.ones((12, 1)), np.ones(12), 0.0, False)
    y = np.arange(12) % 2
    with pytest.raises(InputError, match="method='ridge'"):
        NTKClassifier(method="svc").fit(x, y).influence(x)
    assert NTKClassifier().fit(x, y).influence(x[:3]).bound.shape == (3, 11)  # equal rows are one
    three = NTKClassifier().fit(x, np.arange(12) % 3).influence(x[:2])
    assert three.moves.shape == (2, 11, 3)
