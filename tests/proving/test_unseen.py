"""The estimate on unseen rows is about the very network, and knows nothing of the rows that it predicts."""

import numpy as np
import pytest

from tests.verify import making
from wideproof.data import Dataset, apply, load, prepare
from wideproof.networks import FullyConnected
from wideproof.proving import choosing, unseen
from wideproof.proving.unseen import by_folds


@pytest.mark.parametrize("outputs", [1, 3])
def test_a_fold_is_the_nearest_fit_of_the_linearized_network(outputs):
    """The second route: the shortest step of the weights by a dense Jacobian, from automatic differentiation."""
    rng = np.random.default_rng(0)
    y = rng.standard_normal((12, outputs))[:, 0] if outputs == 1 else rng.standard_normal((12, outputs))
    known = Dataset(rng.standard_normal((12, 4)), y, "regression")
    network, new = FullyConnected(5, 40, 1, outputs=outputs), rng.standard_normal((3, 4))
    found = unseen._predicted(known, new, "standardize,sphere(4)", network, seed=3)
    ready, params = prepare(known, "standardize,sphere(4)"), network.init(3)
    inputs = np.concatenate([ready.x, apply(ready.preparation, new)])
    rows = making.jacobian(network, params, inputs).reshape(15, outputs, -1)
    first = np.asarray(network(params, inputs)).reshape(15, outputs)
    step = np.linalg.pinv(rows[:12].reshape(12 * outputs, -1)) @ (ready.y.reshape(12, -1) - first[:12]).ravel()
    np.testing.assert_allclose(found, first[12:] + rows[12:] @ step, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("columns", [20, 100, 200])
def test_coin_tosses_are_predicted_half_the_time(columns):
    """With fewer columns than rows, as many, and more; whitening is fitted without the rows that are predicted."""
    values, errors = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        data = Dataset(rng.standard_normal((100, columns)), np.where(rng.random(100) < 0.5, 1.0, -1.0), "binary")
        found = by_folds(data, "whiten,sphere(4)", FullyConnected(columns + 1, 256, 1), seed)
        assert found is not None
        values.append(found.value)
        errors.append(found.error)
    assert abs(np.mean(values) - 0.5) < 2 * np.mean(errors) / np.sqrt(len(values))


def test_no_row_helps_to_predict_itself():
    """Targets of one fold are replaced: predictions for that fold stay the same to the last bit."""
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((40, 3)), rng.standard_normal(40)
    network = FullyConnected(4, 64, 1)
    part = np.array_split(np.random.default_rng(0).permutation(40), unseen.FOLDS)[0]
    seen = []
    original = unseen._predicted
    for changed in (y, np.where(np.isin(np.arange(40), part), 1e6, y)):
        kept = []
        unseen._predicted = lambda *a, kept=kept: kept.append(original(*a)) or kept[-1]
        try:
            assert by_folds(Dataset(x, changed, "regression"), "standardize,sphere(2)", network) is not None
        finally:
            unseen._predicted = original
        seen.append(kept[0])
    assert np.array_equal(*seen)


def test_equal_rows_are_in_one_fold_and_rows_that_are_few_have_no_estimate():
    data = load("iris")
    twice = data.take(np.concatenate([np.arange(150), np.arange(150)]))
    network = FullyConnected(5, 128, 1, outputs=3)
    once, both = (by_folds(d, "standardize,sphere(4)", network) for d in (data, twice))
    assert once is not None
    assert both is not None
    assert both.value == pytest.approx(once.value, abs=1e-12)
    assert by_folds(data.take(np.arange(0, 150, 30)), "standardize,sphere(4)", network) is None


def test_beyond_many_rows_the_matrix_is_the_limits_and_the_start_still_counts(monkeypatch):
    data, network = load("iris"), FullyConnected(5, 4096, 1, outputs=3)
    exact = by_folds(data, "standardize,sphere(4)", network)
    monkeypatch.setattr(unseen, "MOST_ROWS", 160)
    wide = by_folds(data, "standardize,sphere(4)", network)
    assert exact is not None
    assert wide is not None
    assert abs(exact.value - wide.value) < 0.05
    assert (exact.how, wide.how) == ("folds", "folds at infinite width")
    assert "by this network (" in str(exact)
    assert "at infinite width" in str(wide)


def test_the_choice_prints_the_estimate_of_its_own_network():
    """Far from what infinite width promises, where the output of the random start stays in the network."""
    found = choosing.choose(load("wine"), start="normal")
    assert found.estimate is not None
    assert found.estimate.how == "folds"
    assert found.looked[0].estimate is not None
    assert found.estimate.value < found.looked[0].estimate.value - 0.1
