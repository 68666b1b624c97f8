"""What the estimators choose and accept: preparations by folds, frames, gaps, sparse rows, weights, probabilities."""

# scikit-learn has no types of its own; what pyright infers from its defaults is narrower than what it takes.
# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAssignmentType=false
# pyright: reportAttributeAccessIssue=false, reportOptionalMemberAccess=false

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from scipy.special import ndtri, softmax
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from wideproof.errors import InputError
from wideproof.estimators import InputPreparation, NTKClassifier, NTKClassifierCV, NTKRegressor, NTKRegressorCV
from wideproof.estimators.choosing import Raw, Setting, folds_of, held_out, left_out_by_folds, needs_folds, settings
from wideproof.estimators.limit_kernel import LimitKernel
from wideproof.estimators.preparation import fit_preparation
from wideproof.estimators.probability import calibrate, shares
from wideproof.estimators.ridge import GRID, Left, Merged
from wideproof.estimators.rough import rough


def coins(columns, seed, n=100):
    rng = np.random.default_rng([columns, seed])
    return rng.standard_normal((n, columns)), rng.permutation(np.arange(n) % 2)


@parametrize_with_checks([InputPreparation("codes")])
def test_the_transformer_keeps_the_contract(estimator, check):
    check(estimator)


def test_raw_scales_are_standardized_and_pixels_are_not(rng):
    x, y = load_wine(return_X_y=True)  # one column counts in thousands
    model = NTKClassifier().fit(x, y)
    assert model.setting_.preparation is not None
    errors = {one.setting: one.error for one in model.compared_}
    assert model.setting_ == min(errors, key=errors.__getitem__)
    assert errors[model.setting_] < 0.3 * max(errors.values())
    # All columns on one scale, and what tells the classes apart in the columns that vary most.
    lengths = np.r_[10.0, 10.0, np.full(40, 0.3)]
    x = rng.normal(size=(150, 42)) * lengths
    kept = NTKClassifier().fit(x, x[:, 0] * x[:, 1] > 0)
    assert kept.setting_.preparation is None
    fixed = NTKClassifier(preparation="sphere").fit(x, x[:, 0] * x[:, 1] > 0)
    assert fixed.setting_ == Setting("sphere", 1.0)
    assert fixed.compared_ == []


def test_codes_become_indicators_where_they_help(rng):
    codes = rng.integers(0, 6, size=(200, 3)).astype(float)
    y = np.isin(codes[:, 0], (0, 3, 4)) ^ np.isin(codes[:, 1], (1, 5))
    model = NTKClassifier().fit(codes[:150], y[:150])
    assert model.setting_.preparation == "codes"
    assert model.score(codes[150:], y[150:]) > 0.9


def test_the_preparations_by_hand(rng):
    x, weight = np.column_stack([rng.normal(size=12), np.arange(12) % 3 * 5.0]), rng.uniform(0.5, 2, 12)
    share = weight / weight.sum()

    def scaled(z, blocks):
        z = z - share @ z
        size = np.concatenate([np.full(b, np.sqrt((share @ z**2)[a : a + b].sum())) for a, b in blocks])
        return z / size / np.sqrt(len(blocks))

    def lifted(z, bias):
        z = np.c_[z, np.full(len(z), bias)]
        return z / np.linalg.norm(z, axis=1)[:, None]

    codes = np.c_[x[:, :1], x[:, 1:] == [[0.0, 5.0, 10.0]]]
    np.testing.assert_allclose(
        fit_preparation("codes", 2.0, x, weight)(x), lifted(scaled(codes, [(0, 1), (1, 3)]), 2.0), rtol=1e-12
    )
    below = (share[None, :] * (x[:, 0][None, :] < x[:, 0][:, None])).sum(1) + share / 2
    other = (share[None, :] * (x[:, 1][None, :] < x[:, 1][:, None])).sum(1)
    other += (share[None, :] * (x[:, 1][None, :] == x[:, 1][:, None])).sum(1) / 2
    ranks = np.c_[ndtri(below), ndtri(other)]
    found = fit_preparation("ranks", 1.0, x, weight)(x)
    np.testing.assert_allclose(found, lifted(scaled(ranks, [(0, 1), (1, 1)]), 1.0), rtol=1e-9)
    raw = fit_preparation(None, 3.0, x, weight)(x)
    np.testing.assert_array_equal(raw, np.c_[x, np.full(12, 3.0)])


def test_gaps_are_filled_and_marked(rng):
    x = rng.normal(size=(9, 2))
    x[[1, 4], 0] = np.nan
    prepared = fit_preparation(None, 0.0, x, np.ones(9))(x)
    middle = np.sort(x[~np.isnan(x[:, 0]), 0])[3]
    np.testing.assert_array_equal(prepared[[1, 4]], [[middle, x[1, 1], 1], [middle, x[4, 1], 1]])
    np.testing.assert_array_equal(prepared[0], [*x[0], 0])
    new = fit_preparation(None, 0.0, x, np.ones(9))(np.array([[0.5, np.nan]]))  # a gap where there was none
    np.testing.assert_allclose(new, [[0.5, x[:, 1].mean(), 0]])
    y = np.arange(9) % 2
    full = NTKClassifier().fit(x, y)
    assert np.isfinite(full.predict_proba([[np.nan, np.nan], [1.0, 2.0]])).all()
    with pytest.raises(ValueError, match="infinity"):
        full.predict([[np.inf, 0.0]])


def test_that_a_value_is_missing_can_be_what_tells(rng):
    x = rng.normal(size=(80, 2))
    gone = rng.random(80) < 0.5
    x[gone, 0] = np.nan
    model = NTKClassifier().fit(x[:60], gone[:60])
    assert model.score(x[60:], gone[60:]) == 1


def test_folds_do_not_depend_on_the_order_and_have_all_classes(rng):
    x, y = rng.normal(size=(40, 3)), rng.choice([-1.0, 1.0], size=(40, 1))
    data = Merged(x, y, np.ones(40), np.zeros(1))
    fold = folds_of(data, 5, np.random.RandomState(0))
    mixed = rng.permutation(40)
    again = folds_of(data.take(mixed), 5, np.random.RandomState(0))
    np.testing.assert_array_equal(fold[mixed], again)
    ups = [int((y[fold == k] > 0).sum()) for k in range(5)]
    assert max(ups) - min(ups) <= 1
    assert np.bincount(fold).tolist() == [8] * 5


@pytest.mark.parametrize("many", [True, False])
def test_folds_are_fits_to_the_rest(many, rng):
    x, y, weight = rng.normal(2, 3, size=(30, 4)), rng.normal(size=(30, 2)), rng.uniform(0.5, 2, 30)
    kernel, raw = LimitKernel(), Raw(Merged(x, y, weight, np.zeros(2)), (), True, Setting("sphere", 1.0))
    fold = np.arange(30) % 3
    ridges = np.geomspace(0.01, 1, 10 if many else 2)  # one eigendecomposition, or a factorization for each
    diagonal = None if many else kernel.diagonal
    found = held_out(kernel, raw, fold, ridges[:1] if diagonal else ridges, shares=False, diagonal=diagonal)
    expected = np.empty((len(found.ridges), 30, 2))
    for r, ridge in enumerate(found.ridges):
        for k in range(3):
            model = NTKRegressor(preparation="sphere", ridge=ridge).fit(x[fold != k], y[fold != k], weight[fold != k])
            expected[r, fold == k] = model.predict(x[fold == k])
            if diagonal:
                assert found.left.variance is not None
                variance = model._fit.variance(kernel, model.preparation_(x[fold == k]))
                np.testing.assert_allclose(found.left.variance[fold == k], variance, rtol=1e-8)
    spread = np.average((y - np.average(y, axis=0, weights=weight)) ** 2, axis=0, weights=weight)
    errors = [np.average(((v - y) ** 2 / spread).mean(1), weights=weight) for v in expected]
    np.testing.assert_allclose(found.errors, errors, rtol=1e-8)
    np.testing.assert_allclose(found.left.values, expected[int(np.argmin(errors))], rtol=1e-8, atol=1e-10)


def test_the_rough_kernel_is_near_the_kernel(rng):
    x, other = rng.normal(size=(30, 4)), rng.normal(size=(11, 4))
    x[3] = 0
    for kernel in (LimitKernel(depth=3), LimitKernel(activation="erf"), LimitKernel(kernel="nngp")):
        quick = rough(kernel)
        for sides in ((x,), (x, other)):
            exact = kernel(*sides)
            assert np.abs(quick(*sides) - exact).max() < 1e-6 * exact.max()
        unit = other / np.linalg.norm(other, axis=1)[:, None]
        exact = kernel(unit)
        assert np.abs(quick(unit) - exact).max() < 1e-6 * exact.max()


def test_what_is_compared():
    x, weight = np.random.default_rng(0).normal(size=(30, 2)), np.ones(30)
    kinds = [one.preparation for one in settings("auto", "auto", x, weight, False, True)]
    assert kinds == ["sphere"] * 2 + ["ranks"] * 2 + ["standardize"] * 2 + [None] * 2
    assert {one.preparation for one in settings("auto", "auto", x, weight, False, False)} == {"sphere", "ranks"}
    assert {one.bias for one in settings("auto", "auto", x, weight, True, True)} == {0.0}
    assert settings("ranks", "auto", x, weight, False, True) == [Setting("ranks", 1.0)]
    assert settings(None, 0.5, x, weight, False, True) == [Setting(None, 0.5)]
    assert "codes" in [one.preparation for one in settings("auto", 1.0, np.round(x), weight, False, True)]


def test_leaving_out_with_a_preparation_of_all_rows_is_not_used_where_it_is_wrong():
    """Rows that add up to 0: the one left out is minus the sum of the others, and a linear kernel knows it."""
    x, y = coins(300, 0)
    data = Merged(x, np.where(y, 1.0, -1.0)[:, None], np.ones(100), np.zeros(1))
    raw = Raw(data, (), True, Setting("standardize", 0.0))
    assert needs_folds(raw)
    assert not needs_folds(raw._replace(setting=Setting(None, 0.0)))
    model = NTKClassifier(preparation="standardize", bias=0.0).fit(x, y)
    assert model.loo_.folds == 10
    again = left_out_by_folds(LimitKernel(), raw, None, np.random.RandomState(0))
    np.testing.assert_allclose(model.loo_.errors, again.errors)
    assert len(again.ridges) == len(GRID)
    assert NTKClassifier(preparation="sphere").fit(x[:, :20], y).loo_.folds == 0


@pytest.mark.parametrize("columns", [20, 100, pytest.param(300, marks=pytest.mark.slow)])
def test_coin_tosses_are_estimated_as_such(columns):
    found = [NTKClassifier().estimate(*coins(columns, seed)) for seed in range(3)]
    values = [one.value for one in found]
    assert abs(np.mean(values) - 0.5) < 2 * found[0].error / np.sqrt(3)
    assert max(abs(one.value - 0.5) / one.error for one in found) < 3
    assert 0.07 < found[0].error < 0.08  # half of a tenth, times 1.5 for rows shared between folds


def test_an_estimate_is_of_fits_to_the_other_folds(rng):
    x = np.sort(rng.normal(size=(60, 1)), axis=0)
    y = np.sin(2 * x[:, 0])
    found = NTKRegressor(depth=1).estimate(np.repeat(x, 2, axis=0), np.repeat(y, 2) + rng.normal(size=120))
    assert found.kind == "R²"
    assert found.value < 0.5  # equal rows are on one side: their noise cannot be copied
    assert "R²" in str(found)
    told = pd.DataFrame({"a": np.where(y > 0, "up", "down"), "b": x[:, 0]})
    good = NTKClassifier().estimate(told, y > 0.0, folds=4)
    assert good.value > 0.95
    assert "4 parts of 60 rows" in str(good)
    with pytest.raises(InputError, match="folds must be a whole number from 2"):
        NTKClassifier().estimate(x, y > 0, folds=1)


def frame(rng, n=90):
    return pd.DataFrame({
        "size": rng.normal(size=n), "colour": rng.choice(["red", "green", "blue"], n),
        "kind": pd.Categorical(rng.choice(list("xyz"), n)), "day": pd.date_range("2020-01-01", periods=n),
        "count": pd.array(rng.integers(0, 50, n), dtype="Int64"), "on": rng.random(n) < 0.5,
    })  # fmt: skip


def test_frames_with_texts_categories_and_dates(rng):
    x = frame(rng)
    y = np.where((x["colour"] == "red") ^ (x["kind"] == "x"), "yes", "no")
    x.loc[3, "colour"], x.loc[4, "count"], x.loc[5, "size"] = None, pd.NA, np.nan
    model = NTKClassifier().fit(x.iloc[:70], y[:70])
    assert model.score(x.iloc[70:], y[70:]) > 0.75
    assert list(model.feature_names_in_) == list(x.columns)
    by_hand = pd.DataFrame({
        "size": x["size"], "day": (x["day"] - pd.Timestamp(0)).dt.days, "count": x["count"].astype(float),
        "on": x["on"].astype(float), **{c: (x["colour"] == c).astype(float) for c in ("blue", "green", "red")},
        **{k: (x["kind"] == k).astype(float) for k in "xyz"},
    }).to_numpy(float)  # fmt: skip
    raw = NTKClassifier(preparation=None, ridge=0.1).fit(x, y)
    other = NTKClassifier(preparation=None, ridge=0.1).fit(by_hand, y)
    np.testing.assert_allclose(raw.decision_function(x), other.decision_function(by_hand), atol=1e-9)
    new = x.iloc[:2].assign(colour=["violet", None])
    assert model.predict_proba(new).shape == (2, 2)
    with pytest.raises(InputError, match="give new rows as a frame"):
        model.predict(by_hand)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(x.rename(columns={"size": "length"}))
    with pytest.raises(InputError, match="'mixed' mixes kinds"):
        NTKClassifier().fit(x.assign(mixed=[1, "a"] * 45), y)
    with pytest.raises(InputError, match="'gone' has no value"):
        NTKClassifier().fit(x.assign(gone=pd.Categorical([None] * 90)), y)
    assert pickle.loads(pickle.dumps(model)).predict(new).tolist() == model.predict(new).tolist()


def test_a_column_of_texts_counts_as_one_column(rng):
    x = pd.DataFrame({"a": rng.choice(list("abcdefgh"), 100), "b": rng.normal(size=100)})
    ready = InputPreparation("standardize", bias=0.0).fit(x)
    variances = ready.transform(x).var(axis=0)
    np.testing.assert_allclose([variances[0], variances[1:].sum()], [0.5, 0.5])


def test_the_transformer_names_its_columns(rng):
    x = frame(rng)
    x.loc[2, "size"] = np.nan
    x["count"] = np.arange(90) % 4
    ready = InputPreparation("codes").set_output(transform="pandas")
    found = ready.fit_transform(x)
    assert list(found.columns) == [
        "size", "day", "count=0", "count=1", "count=2", "count=3", "on", "colour=blue", "colour=green", "colour=red",
        "kind=x", "kind=y", "kind=z", "size missing", "constant",
    ]  # fmt: skip
    np.testing.assert_allclose(np.square(found.to_numpy()).sum(axis=1), 1)
    y = (x["colour"] == "red").to_numpy()
    assert make_pipeline(InputPreparation(), SVC()).fit(x, y).score(x, y) > 0.95
    with pytest.raises(InputError, match="needs labels"):
        InputPreparation("auto").fit(x)


def test_sparse_rows_are_the_same_rows(rng):
    x = rng.normal(size=(40, 6)) * (rng.random((40, 6)) < 0.4)
    y = x[:, 0] > x[:, 1]
    one, other = NTKClassifier().fit(csr_matrix(x), y), NTKClassifier().fit(x, y)
    np.testing.assert_array_equal(one.predict_proba(csr_matrix(x)), other.predict_proba(x))
    target = x.sum(axis=1)
    np.testing.assert_array_equal(
        NTKRegressor().fit(csr_matrix(x), target).predict(x), NTKRegressor().fit(x, target).predict(x)
    )


def test_class_weights_are_weights_of_rows(rng):
    x = rng.normal(size=(60, 2))
    y = np.where(x[:, 0] + 0.8 * rng.normal(size=60) > 0.9, "rare", "usual")
    count = dict(zip(*np.unique(y, return_counts=True), strict=True))
    each = np.array([60 / (2 * count[one]) for one in y])
    balanced, weighted = NTKClassifier(class_weight="balanced").fit(x, y), NTKClassifier().fit(x, y, each)
    np.testing.assert_allclose(balanced.decision_function(x), weighted.decision_function(x), atol=1e-12)
    named = NTKClassifier(class_weight={"rare": 3.0}, ridge=0.5).fit(x, y)
    other = NTKClassifier(ridge=0.5).fit(x, y, np.where(y == "rare", 3.0, 1.0))
    np.testing.assert_allclose(named.decision_function(x), other.decision_function(x), atol=1e-12)
    plain = NTKClassifier(ridge=0.5).fit(x, y)
    assert named.decision_function(x).mean() < plain.decision_function(x).mean() - 0.05  # "rare" is the first class
    with pytest.raises(InputError, match="class_weight must be"):
        NTKClassifier(class_weight="even").fit(x, y)


def test_probabilities_are_calibrated(rng):
    """Labels drawn with known probabilities: of rows of which 70 to 80 % are said to be ones, so many are."""
    x = rng.normal(size=(800, 2))
    truth = 1 / (1 + np.exp(-2.5 * x[:, 0]))
    y = (rng.random(800) < truth).astype(int)
    for kind in ("scaled", "gp"):
        model = NTKClassifier(probability=kind).fit(x[:400], y[:400])
        found = model.predict_proba(x[400:])[:, 1]
        assert np.abs(found - truth[400:]).mean() < 0.08
        for low in (0.0, 0.25, 0.5, 0.75):
            some = (found >= low) & (found < low + 0.25)
            error = np.sqrt((found[some] * (1 - found[some])).sum()) / some.sum()
            assert abs(y[400:][some].mean() - found[some].mean()) < 3 * error
        np.testing.assert_array_equal(model.classes_[model.predict_proba(x).argmax(1)], model.predict(x))
    far = np.array([[30.0, 0.0]])
    fixed = {"preparation": "standardize", "ridge": 1.0}
    scaled, gp = (NTKClassifier(probability=kind, **fixed).fit(x[:400], y[:400]) for kind in ("scaled", "gp"))
    assert gp.predict_proba(far).max() < scaled.predict_proba(far).max()  # far away the process knows less
    assert not hasattr(NTKClassifier(method="svc"), "predict_proba")
    with pytest.raises(InputError, match="probability must be"):
        NTKClassifier(probability="yes").fit(x, y)


def test_the_factor_is_the_likeliest(rng):
    values = rng.normal(size=(500, 3))
    y = np.array([rng.choice(3, p=p) for p in softmax(2.0 * values, axis=1)])
    left = Left(values, np.where(y[:, None] == np.arange(3), 1.0, -1.0), np.ones(500))
    found = calibrate(left)
    assert abs(found - 2.0) < 0.3
    targets = np.eye(3)[y]
    smooth = (targets.sum(0) + 1) / (targets.sum(0) + 3)
    targets = np.where(targets == 1, smooth[y][:, None], ((1 - smooth) / 2)[y][:, None])

    def loss(a):
        return -np.mean(np.sum(targets * np.log(shares(values, a)), axis=1))

    assert loss(found) <= min(loss(found * 1.001), loss(found / 1.001))


def test_searches_over_preparations_refit_them():
    x, y = load_wine(return_X_y=True)
    search = NTKClassifierCV(depths=(1, 2), activations=("relu",), preparations=("sphere", None), biases=(0.0, 1.0))
    search.fit(x, y)
    assert len(search.cv_results_["params"]) == 8
    assert search.best_params_["preparation"] == "sphere"
    one = NTKClassifier(preparation="sphere", bias=1.0, depth=2).left_out(x, y, by_folds=True)
    place = search.cv_results_["params"].index({
        "network": "fully-connected", "kernel": "ntk", "activation": "relu", "depth": 2, "preparation": "sphere",
        "bias": 1.0,
    })  # fmt: skip
    assert search.cv_results_["loo_error"][place] == one.errors.min()
    assert one.folds == 10
    np.testing.assert_allclose(search.predict_proba(x).sum(axis=1), 1)
    once = NTKRegressorCV(depths=(1,), activations=("relu",)).fit(x, y)
    assert once.best_params_["preparation"] == NTKRegressor().chosen_inputs(x, y)["preparation"]
    assert clone(search).preparations == ("sphere", None)
