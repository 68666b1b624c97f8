"""scikit-learn's own checks of every estimator; cloning, pipelines, grid search; bad input in its words."""

# scikit-learn has no types of its own; what pyright infers from its defaults is narrower than what it takes.
# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAssignmentType=false
# pyright: reportAttributeAccessIssue=false

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_iris, make_regression
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

import wideproof as wp
from wideproof.errors import InputError
from wideproof.estimators import (
    NTKClassifier,
    NTKClassifierCV,
    NTKKernel,
    NTKRegressor,
    NTKRegressorCV,
    WideNetClassifier,
    WideNetRegressor,
)
from wideproof.networks import from_config

SMALL = {"width": 16, "depth": 1, "steps": 100, "activation": "tanh"}
FEW = {"depths": (1,), "activations": ("relu",)}
NETS = (WideNetRegressor(**SMALL), WideNetClassifier(**SMALL))
# Every size of data is a compilation of the training loop: only these of the checks are quick for finite networks.
QUICK = (
    "check_estimator_cloneable", "check_no_attributes_set_in_init", "check_estimators_unfitted", "check_mixin_order",
    "check_do_not_raise_errors_in_init_or_set_params", "check_estimators_empty_data_messages",
    "check_estimator_sparse_matrix", "check_n_features_in", "check_estimator_repr", "check_valid_tag_types",
)  # fmt: skip
# libsvm's own answer moves with the order of the examples; scikit-learn expects this of its SVC.
LIBSVM = {"check_sample_weight_equivalence_on_dense_data": "libsvm stops within a tolerance"}


@parametrize_with_checks([NTKRegressor(), NTKClassifier()])
def test_kernel_estimators_keep_the_contract(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([NTKClassifier(method="svc")], expected_failed_checks=lambda estimator: LIBSVM)
def test_support_vectors_keep_the_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", NETS, ids=lambda e: type(e).__name__)
def test_networks_keep_the_quick_part_of_the_contract(estimator):
    done = 0
    for instance, check in estimator_checks_generator(estimator):
        if check.func.__name__ in QUICK:
            check(instance)
            done += 1
    assert done == len(QUICK)


@pytest.mark.slow
@parametrize_with_checks([*NETS, NTKRegressor(solver="cg")])
def test_networks_and_conjugate_gradients_keep_the_contract(estimator, check):
    check(estimator)


def test_grid_search_over_depth_and_activation_in_a_pipeline():
    x, y = load_iris(return_X_y=True)
    grid = {"ntkclassifier__depth": [1, 3], "ntkclassifier__activation": ["relu", "erf"]}
    search = GridSearchCV(make_pipeline(StandardScaler(), NTKClassifier()), grid, cv=3).fit(x, y)
    assert search.best_score_ > 0.94
    assert set(search.best_params_) == set(grid)


@pytest.mark.slow
def test_a_grid_search_in_two_processes_finds_the_same():
    x, y = load_iris(return_X_y=True)
    one, two = (GridSearchCV(NTKClassifier(), {"depth": [1, 3]}, cv=3, n_jobs=jobs).fit(x, y) for jobs in (1, 2))
    np.testing.assert_array_equal(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"])


@pytest.mark.slow
def test_a_network_in_a_grid_search():
    x, y = load_iris(return_X_y=True)
    search = GridSearchCV(WideNetClassifier(**SMALL), {"depth": [1, 2]}, cv=2).fit(x[::3], y[::3])
    assert search.best_score_ > 0.85


def test_top_level_names():
    for name in ("NTKRegressor", "NTKClassifier", "WideNetRegressor", "WideNetClassifier", "NTKKernel"):
        assert getattr(wp, name).__name__ == name


def test_clones_have_equal_parameters():
    for estimator in (*NETS, NTKRegressor(depth=3, ridge=(0.1, 1.0)), NTKClassifier(method="svc", C=3.0)):
        assert str(clone(estimator).get_params()) == str(estimator.get_params())


@pytest.mark.parametrize("kind", [NTKRegressor, NTKClassifier, lambda: NETS[0], lambda: NETS[1]])
def test_bad_input_has_scikit_learns_words(kind, rng):
    x, y = rng.normal(size=(12, 3)), np.arange(12) % 3
    net = kind() in NETS
    holes = np.where(np.arange(3) == 1, np.nan if net else np.inf, x)
    words = "contains NaN" if net else "contains infinity"
    with pytest.raises(ValueError, match=words):
        kind().fit(holes, y)
    if net:
        with pytest.raises(TypeError, match=r"[Ss]parse"):
            kind().fit(csr_matrix(x), y)
    model = clone(kind()).fit(x, y)
    with pytest.raises(ValueError, match=r"X has 2 features, but .* is expecting 3 features"):
        model.predict(x[:, :2])
    with pytest.raises(ValueError, match=words):
        model.predict(holes)


@pytest.mark.parametrize("model", [NTKClassifier(), NTKClassifier(method="svc"), NETS[1]])
def test_one_class_is_named(model, rng):
    with pytest.raises(ValueError, match="at least 2 classes in the data, but the data contains only one class: 7"):
        clone(model).fit(rng.normal(size=(5, 2)), np.full(5, 7))


@pytest.mark.parametrize(("model", "off"), [(NTKRegressor(), 1e-12), (NTKRegressor(ridge=1e-8), 1e-12), (NETS[0], 0.2)])
def test_constant_targets_are_predicted(model, off, rng):
    x = rng.normal(size=(12, 3))
    predicted = clone(model).fit(x, np.full(12, 5.0)).predict(x)
    assert np.abs(predicted - 5).max() < off


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"network": "elman-rnn"}, "network must be one of"),
        ({"activation": "hat"}, "no activation 'hat'"),
        ({"network": "deep-relu", "activation": "tanh"}, "has ReLU units"),
        ({"kernel": "rbf"}, "'ntk' or 'nngp'"),
        ({"depth": 0}, "depth"),
        ({"fixed_layers": 3}, "leaves something to train"),
        ({"fixed_layers": 1, "kernel": "nngp"}, "nothing is trained"),
        ({"ridge": -1.0}, "ridge must be a number >= 0"),
        ({"ridge": "best"}, "ridge must be a number >= 0"),
        ({"preparation": "whiten"}, "preparation must be"),
        ({"bias": -1.0}, "bias must be"),
        ({"solver": "lu"}, "solver must be one of"),
        ({"solver": "cg", "ridge": 0.0}, "need a ridge > 0"),
    ],
)
def test_bad_settings_are_named_when_fitting(options, message, rng):
    with pytest.raises(ValueError, match=message):
        NTKRegressor(**options).fit(rng.normal(size=(6, 2)), np.arange(6.0))


def test_bad_settings_of_classifiers_and_networks(rng):
    x, y = rng.normal(size=(9, 2)), np.arange(9) % 3
    with pytest.raises(ValueError, match="method must be 'ridge' or 'svc'"):
        NTKClassifier(method="tree").fit(x, y)
    with pytest.raises(ValueError, match="has one output and the targets have 3"):
        WideNetClassifier(network="deep-relu", width=8).fit(x, y)
    with pytest.raises(ValueError, match="take vectors"):
        WideNetClassifier(network="conv-residual").fit(x, y)
    with pytest.raises(ValueError, match="about the squared loss"):
        WideNetClassifier(loss="logistic", certify=True).fit(x, y)
    with pytest.raises(ValueError, match="examples of equal weight"):
        WideNetRegressor(certify=True).fit(x, x[:, 0], sample_weight=np.ones(len(x)))
    with pytest.raises(ValueError, match=r"no parameters here, .*got loss, step"):
        WideNetClassifier(recipe={"loss": "logistic", "step": 3}).fit(x, y)


def test_cross_entropy_gives_probabilities():
    x, y = load_iris(return_X_y=True)
    names = np.array(["a", "b", "c"])[y]
    model = WideNetClassifier(**SMALL, loss="cross_entropy", recipe={"label_smoothing": 0.1}).fit(x, names)
    shares = model.predict_proba(x)
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-12)
    assert (model.classes_[shares.argmax(axis=1)] == model.predict(x)).all()
    assert model.score(x, names) > 0.9
    assert not hasattr(WideNetClassifier(), "predict_proba")
    two = WideNetClassifier(**SMALL, loss="cross_entropy").fit(x[:100], names[:100])
    other = WideNetClassifier(**SMALL, loss="logistic").fit(x[:100], names[:100])
    np.testing.assert_allclose(two.decision_function(x), other.decision_function(x), rtol=1e-9)
    np.testing.assert_allclose(two.predict_proba(x)[:, 1], 1 / (1 + np.exp(-two.decision_function(x))), rtol=1e-12)


def test_weights_of_samples_and_classes():
    x, y = load_iris(return_X_y=True)
    x, y = x[50::5], y[50::5]
    twice = np.r_[np.arange(len(x)), np.flatnonzero(y == 1)]
    classes = {"class_weights": (2.0, 1.0)}
    one = WideNetClassifier(**SMALL, loss="cross_entropy").fit(x, y, sample_weight=np.where(y == 1, 2.0, 1.0))
    other = WideNetClassifier(**SMALL, loss="cross_entropy").fit(x[twice], y[twice])
    np.testing.assert_allclose(one.decision_function(x), other.decision_function(x), rtol=1e-5, atol=1e-7)
    heavy = WideNetClassifier(**SMALL, loss="cross_entropy", recipe=classes).fit(x, y)
    assert (
        heavy.predict_proba(x)[:, 0].mean()
        > WideNetClassifier(**SMALL, loss="cross_entropy").fit(x, y).predict_proba(x)[:, 0].mean()
    )
    target = x[:, 0] + 10
    line = WideNetRegressor(**SMALL).fit(x, target, sample_weight=np.where(y == 1, 2.0, 1.0))
    doubled = WideNetRegressor(**SMALL).fit(x[twice], target[twice])
    np.testing.assert_allclose(line.predict(x), doubled.predict(x), rtol=1e-6)


def test_networks_are_the_runs_of_train():
    x, y = make_regression(n_samples=20, n_features=3, random_state=0)
    model = WideNetRegressor(**SMALL, random_state=3).fit(x, y)
    again = WideNetRegressor(**SMALL, random_state=3).fit(x, y)
    assert all((model.params_[name] == again.params_[name]).all() for name in model.params_)
    data = wp.data.Dataset(model.preparation_(x), (y - y.mean()) / y.std(), "regression")
    run = wp.train(from_config(model.network_), data, wp.Recipe(steps=100, seed=3))
    np.testing.assert_array_equal(run.params["W1"], model.params_["W1"])
    np.testing.assert_allclose(model.predict(x), run.predict(data.x) * y.std() + y.mean())
    assert model.n_iter_ == 100
    assert model.loss_curve_[-1] < model.loss_curve_[0]


def test_a_network_keeps_its_certificate_through_pickle(rng):
    x = rng.normal(size=(6, 8))
    y = np.arange(6) % 2
    model = WideNetClassifier(width=128, depth=1, activation="tanh", steps=400, certify=True).fit(x, y)
    assert model.certificate_.passed, model.certificate_
    assert "converges to zero training loss" in str(model.certificate_)
    other = pickle.loads(pickle.dumps(model))
    assert other.certificate_.descent == model.certificate_.descent
    np.testing.assert_array_equal(other.decision_function(x), model.decision_function(x))


def test_training_as_practised(rng):
    """Epochs, a schedule and weight decay by `recipe`; a batch of everything has no order."""
    x = rng.normal(size=(20, 3))
    y = (x[:, 0] > 0).astype(int)
    recipe = {"shuffle": True, "schedule": "warmup(5) cosine", "weight_decay": 0.1}
    common = {"width": 16, "steps": 60, "step_size": 0.02, "optimizer": "adamw", "loss": "cross_entropy"}
    model = WideNetClassifier(**common, batch=4, recipe=recipe).fit(x, y)
    assert model.loss_ < model.loss_curve_[0]
    same = WideNetClassifier(**common, batch=4, recipe=recipe).fit(x, y)
    assert all((model.params_[name] == same.params_[name]).all() for name in model.params_)
    whole = WideNetClassifier(**common, batch=99, recipe=recipe).fit(x, y)
    other = WideNetClassifier(**common, recipe={**recipe, "shuffle": False}).fit(x, y)
    assert all((whole.params_[name] == other.params_[name]).all() for name in whole.params_)


def test_minibatches_other_losses_and_divergence(rng):
    x = rng.normal(size=(20, 3))
    y = x[:, 0] > 0
    model = WideNetClassifier(**SMALL, loss="logistic", batch=5).fit(x, y)
    assert model.score(x, y) > 0.9
    with pytest.warns(UserWarning, match="left all bounds"):
        WideNetRegressor(**{**SMALL, "activation": "softplus"}, step_size=1e6).fit(x, x[:, 0])


def test_kernel_objects_in_gaussian_processes_svc_and_kernel_ridge(rng):
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.svm import SVC

    x, y = load_iris(return_X_y=True)
    x = StandardScaler().fit_transform(x)
    assert cross_val_score(SVC(kernel=NTKKernel(depth=3)), x, y, cv=3).mean() > 0.93
    points = rng.normal(size=(25, 2))
    target = np.sin(2 * points[:, 0])
    ridge = KernelRidge(kernel=NTKKernel(), alpha=0.1).fit(points, target)
    lifted = np.c_[points, np.ones(25)] / np.sqrt(1 + (points**2).sum(1, keepdims=True))
    exact = NTKRegressor(preparation=None, bias=0, ridge=0.1, fit_intercept=False).fit(lifted, target)
    np.testing.assert_allclose(ridge.predict(points), exact.predict(lifted), atol=1e-10)
    process = GaussianProcessRegressor(NTKKernel(), alpha=1e-3, random_state=0).fit(points, target)
    start = process.log_marginal_likelihood(NTKKernel().theta)
    assert process.log_marginal_likelihood_value_ >= start


def test_gradient_of_the_kernel_object(rng):
    x = rng.normal(size=(6, 2))
    for unit in (True, False):
        kernel = NTKKernel(0.7, depth=3, unit=unit)
        matrix, slope = kernel(x, eval_gradient=True)
        np.testing.assert_allclose(matrix, kernel(x, x), atol=1e-12)
        np.testing.assert_allclose(np.diag(matrix), kernel.diag(x), atol=1e-12)
        h = 1e-5
        ahead, behind = (kernel.clone_with_theta(kernel.theta + s)(x) for s in (h, -h))
        np.testing.assert_allclose(slope[:, :, 0], (ahead - behind) / (2 * h), atol=1e-7)
    assert NTKKernel(length_scale_bounds="fixed")(x, eval_gradient=True)[1].shape == (6, 6, 0)
    assert not kernel.is_stationary()


@parametrize_with_checks([NTKClassifierCV(**FEW), NTKRegressorCV(**FEW)])
def test_searches_keep_the_contract(estimator, check):
    check(estimator)


def test_a_search_takes_the_least_error_left_out(rng):
    x = rng.normal(size=(50, 2))
    y = np.sin(2 * x[:, 0]) + x[:, 1]
    base, networks = NTKRegressor(preparation="sphere"), ("fully-connected", "deep-relu")
    found = NTKRegressorCV(base, depths=(1, 3), activations=("relu", "erf"), networks=networks).fit(x, y)
    assert len(found.cv_results_["params"]) == 6  # deep-relu has one activation
    each = [NTKRegressor(preparation="sphere", **settings).fit(x, y) for settings in found.cv_results_["params"]]
    np.testing.assert_allclose(found.cv_results_["loo_error"], [model.loo_.errors.min() for model in each])
    best = each[int(np.argmin([model.loo_.errors.min() for model in each]))]
    np.testing.assert_allclose(found.predict(x[:5]), best.predict(x[:5]))
    assert found.best_params_["ridge"] == best.ridge_
    with pytest.raises(InputError, match="nothing to compare"):
        NTKRegressorCV(depths=()).fit(x, y)
    with pytest.raises(InputError, match="closed form for method='ridge'"):
        NTKClassifierCV(NTKClassifier(method="svc")).fit(x, y > 0)
    with pytest.raises(InputError, match="single ridge"):
        NTKRegressor(ridge=0.1).left_out(x, y)
