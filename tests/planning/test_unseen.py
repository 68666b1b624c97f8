"""The estimate on unseen rows is about the very network, and knows nothing of the rows that it predicts."""

import numpy as np
import pandas as pd
import pytest

from tests.verify import making
from wideproof.data import Dataset, apply, distinct, load, prepare
from wideproof.errors import InputError
from wideproof.kernels import limit_gram
from wideproof.networks import FullyConnected, get_activation
from wideproof.planning import choosing, unseen
from wideproof.planning.unseen import by_folds


@pytest.mark.parametrize("outputs", [1, 3])
def test_a_fold_is_the_nearest_fit_of_the_linearized_network(outputs):
    """The second route: the shortest step of the weights by a dense Jacobian, from backward passes in NumPy."""
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


def toss(columns, seed):
    """Half and half at random: what the rows hold says nothing of it."""
    rng = np.random.default_rng([columns, seed])
    return Dataset(rng.standard_normal((100, columns)), rng.permutation(np.repeat([1.0, -1.0], 50)), "binary")


@pytest.mark.parametrize("columns", [20, 100, 200])
def test_coin_tosses_are_predicted_half_the_time(columns):
    """With fewer columns than rows, as many, and more; no preparation is fitted with the rows that are predicted."""
    values, errors = [], []
    for seed in range(8):
        data = toss(columns, seed)
        steps = "whiten,sphere(4)" if columns == 20 else "ranks,sphere(4)"
        found = by_folds(data, steps, FullyConnected(columns + 1, 256, 1), seed)
        assert found is not None
        if columns > 20:  # any two rows would be equally alike
            assert by_folds(data, "whiten,sphere(4)", FullyConnected(columns + 1, 256, 1), seed) is None
        values.append(found.value)
        errors.append(found.error)
    assert abs(np.mean(values) - 0.5) < 2 * np.mean(errors) / np.sqrt(len(values))


def test_no_row_helps_to_predict_itself():
    """Targets of one fold are replaced: predictions for that fold stay the same to the last bit."""
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((40, 3)), rng.standard_normal(40)
    network = FullyConnected(4, 64, 1)
    part = np.random.default_rng(0).permutation(40)[:: unseen.FOLDS][:: unseen.CUTS]
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
    assert found.estimate.how == "folds, chosen anew"
    assert found.looked[0].estimate is not None
    assert found.estimate.value < found.looked[0].estimate.value - 0.1


def test_folds_have_the_classes_of_all_rows():
    data = Dataset(np.arange(40.0)[:, None], 2 * np.eye(3)[np.repeat([0, 1, 2], [25, 10, 5])] - 1, "multiclass")
    parts = unseen.folds(distinct(data), data, np.random.default_rng(0).permutation(40))
    assert data.labels is not None
    assert [np.bincount(data.labels[part]).tolist() for part in parts] == [[5, 2, 1]] * 5


@pytest.mark.slow
def test_the_best_of_many_candidates_is_no_better_on_coin_tosses():
    """The choice is made anew without the fold; made with all rows the same tosses are predicted too often."""
    anew, lucky = [], []
    for columns in (20, 60):
        for seed in range(16):
            data = toss(columns, seed)
            found = choosing.choose(data, budget=0.0)
            assert found.estimate is not None
            anew.append(found.estimate.value)
            once = by_folds(data, found.preparation, found.network, found.seed)
            assert once is not None
            lucky.append(once.value)
    error = np.std(anew, ddof=1) / np.sqrt(len(anew))
    assert abs(np.mean(anew) - 0.5) < 2 * error
    assert np.mean(lucky) > 0.5 + 2 * error


def test_what_is_chosen_for_a_fold_is_best_on_the_other_rows_alone(monkeypatch):
    """The targets of a fold have no say in what it is predicted with, nor in the outputs."""
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((40, 3)), rng.standard_normal(40)
    part = np.random.default_rng(0).permutation(40)[:: unseen.FOLDS][:: unseen.CUTS]
    network, among = FullyConnected(4, 64, 1, start="doubled"), [("erf", "standardize,sphere(8)"), ("sin", "sphere(2)")]
    calls, original = [], unseen._best
    monkeypatch.setattr(unseen, "_best", lambda known, *a: calls.append(known) or original(known, *a))
    kept, predicted = [], unseen._predicted
    monkeypatch.setattr(unseen, "_predicted", lambda *a: kept.append(predicted(*a)) or kept[-1])
    for changed in (y, np.where(np.isin(np.arange(40), part), 1e6, y)):
        assert by_folds(Dataset(x, changed, "regression"), "standardize,sphere(8)", network, among=among) is not None
    parts = unseen.FOLDS * unseen.CUTS
    assert calls[0].digest == calls[parts].digest
    assert calls[1].digest != calls[parts + 1].digest
    assert np.array_equal(kept[0], kept[parts])


def test_the_best_is_the_one_that_leaves_out_best():
    """The second route: every candidate's rows left out one by one, by solving anew."""
    data = load("wine")
    assert isinstance(data, Dataset)
    assert data.labels is not None
    among = [("erf", "standardize,sphere(8)"), ("sin", "standardize,sphere(4)"), ("erf", "sphere(8)")]
    values = []
    for name, steps in among:
        ready = prepare(data, steps)
        network = FullyConnected(14, 64, 1, get_activation(name), outputs=3, start="doubled")
        matrix, right = limit_gram(network, ready.x).matrix, 0
        for k in range(data.n):
            rest = np.delete(np.arange(data.n), k)
            weights = np.linalg.solve(np.asarray(matrix)[np.ix_(rest, rest)], ready.y[rest])
            right += int((np.asarray(matrix)[k, rest] @ weights).argmax() == data.labels[k])
        values.append(right)
    assert len(set(values)) > 1
    steps, made = unseen._best(data, among, FullyConnected(14, 64, 1, outputs=3, start="doubled"))
    assert isinstance(made, FullyConnected)
    assert (made.activation.name, steps) == among[int(np.argmax(values))]


def data_days(days):
    """Days as numbers."""
    return (days - days.min()) / pd.Timedelta(days=1)


def test_dates_are_predicted_from_what_came_before():
    """What is learned from the past turns around later: random folds would not notice."""
    rng = np.random.default_rng(0)
    days = pd.date_range("2024-01-01", periods=100)[rng.permutation(100)]
    a = rng.standard_normal(100)
    y = np.where((a > 0) ^ (days >= days.sort_values()[80]), "up", "down")
    frame = pd.DataFrame({"a": a, "day": days, "y": y})
    found = by_folds(load(frame, target="y"), "standardize,sphere(4)", FullyConnected(3, 256, 1))
    assert found is not None
    assert (found.rows, found.date) == (20, "day")
    assert found.value < 0.3
    assert str(found).startswith("The last 20 rows by day, predicted from the rows before by this network (linear at ")
    frame["day"] = data_days(days) + 0.5  # the same as a number
    mixed = by_folds(load(frame, target="y"), "standardize,sphere(4)", FullyConnected(3, 256, 1))
    assert mixed is not None
    assert mixed.value > found.value
    assert mixed.date == ""


def test_whitening_with_as_many_directions_as_rows_is_not_a_candidate():
    rng = np.random.default_rng(0)
    data = Dataset(rng.standard_normal((30, 40)), rng.permutation(np.repeat([1.0, -1.0], 15)), "binary")
    with pytest.raises(InputError, match=r"equally alike.*use `standardize`, or more rows"):
        choosing.choose(data, prepare="whiten,sphere(8)")
    with pytest.raises(InputError, match="equally alike"):
        choosing.choose(data, prepare="whiten,sphere(8)", start="normal")
    for start in (None, "normal"):
        found = choosing.choose(data, start=start) if start else choosing.choose(data)
        assert "whiten" not in found.preparation
    enough = Dataset(np.r_[data.x, rng.standard_normal((12, 40))], np.r_[data.y, np.ones(12)], "binary")
    assert choosing.choose(enough, prepare="whiten,sphere(8)").preparation == "whiten,sphere(8)"
