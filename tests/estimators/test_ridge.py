"""Predictions against closed forms by another route: plain NumPy with `limit_gram`, brute force, scikit-learn."""

# scikit-learn has no types of its own; what pyright infers from its defaults is narrower than what it takes.
# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportAssignmentType=false
# pyright: reportAttributeAccessIssue=false

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel

from wideproof.errors import InputError
from wideproof.estimators import NTKClassifier, NTKKernel, NTKRegressor
from wideproof.estimators.limit_kernel import LimitKernel
from wideproof.estimators.ridge import GRID, Merged, fit_ridge, leave_one_out, merge
from wideproof.kernels import limit_gram, nngp
from wideproof.networks import build


def lifted(x, mean, std):
    """Return the preparation "sphere", written anew."""
    z = np.c_[(x - mean) / std / np.sqrt(x.shape[1]), np.ones(len(x))]
    return z / np.linalg.norm(z, axis=1)[:, None]


@pytest.mark.parametrize(
    ("network", "activation"),
    [("fully-connected", "relu"), ("fully-connected", "erf"), ("residual", "tanh"), ("deep-relu", "relu"),
     ("residual-relu", "relu")],
)  # fmt: skip
@pytest.mark.parametrize("kernel", ["ntk", "nngp"])
def test_predictions_are_the_closed_form(network, activation, kernel, rng):
    x, new = rng.normal(2, 3, size=(40, 5)), rng.normal(2, 3, size=(9, 5))
    y = rng.normal(size=(40, 2))
    settings = {"network": network, "depth": 2, "activation": activation, "kernel": kernel, "preparation": "sphere"}
    model = NTKRegressor(**settings, ridge=0.05).fit(x, y)
    a, b = (lifted(points, x.mean(0), x.std(0)) for points in (x, new))
    options = {"activation": activation} if network in ("fully-connected", "residual") else {}
    net = build(network, (6,), (), width=2, depth=2, **options)
    gram = limit_gram if kernel == "ntk" else nngp
    k, cross = gram(net, a).matrix, gram(net, b, a).matrix
    expected = y.mean(0) + cross @ np.linalg.inv(k + 0.05 * np.eye(40)) @ (y - y.mean(0))
    assert np.abs(model.predict(new) - expected).max() < 1e-10
    single = NTKRegressor(**settings, ridge=0.05).fit(x, y[:, 0])
    np.testing.assert_allclose(single.predict(new), expected[:, 0], atol=1e-10)


def test_fixed_layers_leave_their_part_out(rng):
    x = rng.normal(size=(7, 3))
    parts = limit_gram(build("fully-connected", (3,), (), width=2, depth=3, activation="relu"), x, by_weight=True)
    expected = parts.blocks["W3"] + parts.blocks["a"]
    np.testing.assert_allclose(LimitKernel(depth=3, fixed_layers=2)(x), expected, atol=1e-12)
    np.testing.assert_allclose(LimitKernel(depth=3, fixed_layers=3)(x), LimitKernel(depth=3, kernel="nngp")(x))


@pytest.mark.parametrize("activation", ["relu", "erf"])
def test_tiles_products_and_diagonals_agree(activation, rng, monkeypatch):
    kernel = LimitKernel(activation=activation)
    x, v = rng.normal(size=(50, 3)), rng.normal(size=(50, 2))
    whole, cross = kernel(x), kernel(x[:20], x)
    monkeypatch.setattr("wideproof.estimators.limit_kernel.TILE", 16)
    monkeypatch.setattr("wideproof.estimators.limit_kernel.FEW", 0)
    np.testing.assert_allclose(kernel(x), whole, atol=1e-12)
    np.testing.assert_allclose(kernel(x[:20], x), cross, atol=1e-12)
    np.testing.assert_allclose(np.tril(kernel.lower(x)), np.tril(whole), atol=1e-12)
    monkeypatch.setattr("wideproof.estimators.limit_kernel.BLOCK_BYTES", 8 * 50 * 32)
    np.testing.assert_allclose(kernel.product(x, x, v), whole @ v, atol=1e-11)
    np.testing.assert_allclose(kernel.diagonal(x), np.diag(whole), atol=1e-12)


def test_tiles_side_by_side_give_the_same_bits(rng, monkeypatch):
    monkeypatch.setattr("wideproof.estimators.limit_kernel.TILE", 16)
    monkeypatch.setattr("wideproof.estimators.limit_kernel.FEW", 0)
    x, y = rng.normal(size=(70, 3)), rng.normal(size=70)
    for first, second in (((), ()), ((x[:50],), (x[:50],))):
        np.testing.assert_array_equal(LimitKernel(jobs=3)(x, *first), LimitKernel()(x, *second))
    one, two, all_cores = (NTKRegressor(ridge=0.1, n_jobs=jobs).fit(x, y) for jobs in (None, 2, -1))
    for other in (two, all_cores):
        np.testing.assert_array_equal(other.predict(x), one.predict(x))


def test_an_error_in_a_tile_is_raised(rng, monkeypatch):
    def fails(self, x, other):
        raise MemoryError("no room")

    monkeypatch.setattr("wideproof.estimators.limit_kernel.TILE", 16)
    monkeypatch.setattr("wideproof.estimators.limit_kernel.FEW", 0)
    kernel = LimitKernel(jobs=2)
    kernel(rng.normal(size=(40, 3)))
    calls = iter([0])
    real = LimitKernel._block
    monkeypatch.setattr(LimitKernel, "_block", lambda *a: real(*a) if next(calls, None) is not None else fails(*a))
    with pytest.raises(MemoryError):
        kernel(rng.normal(size=(40, 3)))


def brute_force(matrix, y, weight, ridge, centred):
    """Leave every example out in turn and solve anew."""
    total = 0.0
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        a = matrix[np.ix_(rest, rest)] + ridge * np.diag(1 / weight[rest])
        mean = np.average(y[rest], weights=weight[rest]) if centred else 0.0
        total += weight[i] * (y[i] - mean - matrix[i, rest] @ np.linalg.solve(a, y[rest] - mean)) ** 2
    return total / weight.sum() / np.average((y - np.average(y, weights=weight)) ** 2, weights=weight)


@pytest.mark.parametrize("centred", [False, True])
def test_leave_one_out_errors_are_those_of_leaving_out(centred, rng):
    x, y, weight = rng.normal(size=(15, 3)), rng.normal(1, size=15), rng.uniform(0.5, 2, size=15)
    matrix = LimitKernel()(x)
    found = leave_one_out(matrix, y[:, None], weight, [1e-3, 0.1, 10.0], centred)
    expected = [brute_force(matrix, y, weight, ridge, centred) for ridge in found.ridges]
    np.testing.assert_allclose(found.errors, expected, rtol=1e-9)
    assert found.best == found.ridges[np.argmin(expected)]


@pytest.mark.parametrize("solver", ["cholesky", "cg", "nystrom"])
@pytest.mark.parametrize("ridge", [0.3, "loo"])
def test_a_constant_added_to_the_targets_is_added_to_the_predictions(solver, ridge, rng):
    x, y, weight = rng.normal(size=(60, 3)), rng.normal(size=(60, 2)), rng.uniform(0.1, 3, 60)
    shift = np.array([1e4, -300.0])
    plain, moved = (NTKRegressor(ridge=ridge, solver=solver).fit(x, y + s, weight) for s in (0.0, shift))
    assert moved.ridge_ == plain.ridge_
    np.testing.assert_allclose(moved.predict(x) - shift, plain.predict(x), atol=1e-9)
    np.testing.assert_allclose(moved.intercept_, np.average(y + shift, axis=0, weights=weight))
    np.testing.assert_allclose(moved.amplitude_, plain.amplitude_, rtol=1e-9)
    rigid = NTKRegressor(ridge=ridge, solver=solver, fit_intercept=False).fit(x, y + shift, weight)
    assert np.abs(rigid.predict(x) - moved.predict(x)).max() > 0.01


def test_diabetes_does_not_depend_on_where_the_targets_begin():
    x, y = load_diabetes(return_X_y=True)
    here, there = (NTKRegressor().fit(x[::2], y[::2] + s).score(x[1::2], y[1::2] + s) for s in (0, 10_000))
    assert here > 0.4
    assert there == pytest.approx(here, abs=1e-9)


def test_one_example_is_predicted_everywhere():
    model = NTKRegressor().fit([[1.0, 2.0]], [151.0])
    assert model.predict([[1.0, 2.0], [-3.0, 0.0]]).tolist() == [151.0, 151.0]
    assert model.intercept_ == 151


def test_the_ridge_follows_the_noise(rng):
    x = rng.normal(size=(150, 2))
    noises = (noise * rng.normal(size=150) for noise in (0.001, 1.0))
    quiet, loud = (NTKRegressor(preparation="sphere").fit(x, x[:, 0] + noise).ridge_ for noise in noises)
    assert quiet < 1e-2 < loud
    model = NTKRegressor(ridge=(0.1, 1.0)).fit(x, x[:, 0])
    assert model.ridge_ == 0.1
    assert model.loo_.errors.shape == (2,)
    assert len(NTKRegressor().fit(x, x[:, 0]).loo_.ridges) == len(GRID)


def test_above_the_limit_the_ridge_comes_from_a_subset(rng, monkeypatch):
    monkeypatch.setattr("wideproof.estimators.ridge.MOST_LEFT_OUT", 50)
    x = rng.normal(size=(150, 2))
    y = x[:, 0] + 0.3 * rng.normal(size=150)
    model = NTKRegressor().fit(x, y)
    np.testing.assert_allclose(model.predict(x), NTKRegressor(ridge=model.ridge_).fit(x, y).predict(x))


def test_equal_inputs_are_one_example(rng):
    x, y = rng.normal(size=(12, 2)), rng.normal(size=12)
    twice, weight = np.r_[x, x[:5]], np.r_[np.full(5, 2.0), np.ones(7)]
    repeated = NTKRegressor(ridge=0.1, preparation=None).fit(twice, np.r_[y, y[:5]])
    weighted = NTKRegressor(ridge=0.1, preparation=None).fit(x, y, weight)
    assert len(repeated.X_fit_) == 12
    matrix = LimitKernel()(np.c_[twice, np.ones(17)])
    both = np.r_[y, y[:5]]
    expected = both.mean() + matrix @ np.linalg.solve(matrix + 0.1 * np.eye(17), both - both.mean())
    np.testing.assert_allclose(repeated.predict(twice), expected, atol=1e-10)
    np.testing.assert_allclose(weighted.predict(twice), expected, atol=1e-10)


def test_deviations_are_those_of_the_gaussian_process(rng):
    x, y, new = rng.normal(size=(30, 2)), rng.normal(size=30), rng.normal(size=(8, 2))
    lift = np.c_[x, np.ones(30)] / np.sqrt(1 + (x**2).sum(1, keepdims=True))
    other = np.c_[new, np.ones(8)] / np.sqrt(1 + (new**2).sum(1, keepdims=True))
    model = NTKRegressor(preparation=None, bias=0, ridge=0.2, fit_intercept=False).fit(lift, y)
    mean, deviation = model.predict(other, return_std=True)
    kernel = NTKKernel(length_scale_bounds="fixed")
    process = GaussianProcessRegressor(kernel, alpha=0.2, optimizer=None).fit(x, y)
    expected, scale = process.predict(new, return_std=True), np.sqrt(model.amplitude_[0])
    np.testing.assert_allclose(mean, expected[0], atol=1e-10)
    np.testing.assert_allclose(deviation, scale * expected[1], atol=1e-10)
    # the amplitude is the most likely one
    likelihoods = [
        GaussianProcessRegressor(ConstantKernel(a, "fixed") * kernel, alpha=0.2 * a, optimizer=None)
        .fit(x, y).log_marginal_likelihood_value_
        for a in model.amplitude_[0] * np.array([0.9, 1.0, 1.1])
    ]  # fmt: skip
    assert np.argmax(likelihoods) == 1


def test_deviations_of_repeated_inputs_and_several_outputs(rng):
    x, y = rng.normal(size=(10, 2)), rng.normal(size=(10, 2))
    model = NTKRegressor(ridge=0.3, preparation=None).fit(np.r_[x, x[:4]], np.r_[y, y[:4] + 1])
    matrix = LimitKernel()(np.c_[np.r_[x, x[:4]], np.ones(14)])
    inverse = np.linalg.inv(matrix + 0.3 * np.eye(14))
    targets = np.r_[y, y[:4] + 1]
    targets = targets - targets.mean(0)
    np.testing.assert_allclose(model.amplitude_, np.diag(targets.T @ inverse @ targets) / 14)
    variance = np.diag(matrix - matrix @ inverse @ matrix)[:10]
    np.testing.assert_allclose(
        model.predict(x, return_std=True)[1], np.sqrt(np.outer(variance, model.amplitude_)), atol=1e-9
    )


@pytest.mark.parametrize("solver", ["cg", "nystrom"])
@pytest.mark.parametrize("rank", [10, 60])
def test_iterative_solutions_are_within_their_stated_error(solver, rank, rng):
    x, y = rng.normal(size=(120, 3)), rng.normal(size=120)
    new = rng.normal(size=(30, 3))
    exact = NTKRegressor(ridge=0.1).fit(x, y)
    model = NTKRegressor(ridge=0.1, solver=solver, rank=rank).fit(x, y)
    diagonal = LimitKernel().diagonal(model.preparation_(new))
    off = np.abs(model.predict(new) - exact.predict(new)) / np.sqrt(diagonal)
    assert off.max() <= model.error_
    assert exact.error_ == 0
    if solver == "cg":
        assert model.error_ < 1e-4
        assert model.n_iter_ > 0
    elif rank == 60:
        assert off.max() > model.error_ / 1e4  # the bound is not idle


def test_conjugate_gradients_with_weights_and_outputs(rng):
    x, y, weight = rng.normal(size=(80, 3)), rng.normal(size=(80, 2)), rng.uniform(0.1, 3, 80)
    exact = NTKRegressor(ridge=0.1).fit(x, y, weight)
    model = NTKRegressor(ridge=0.1, memory=1, rank=20, tol=1e-10).fit(x, y, weight)
    assert model.solver_ == "cg"
    np.testing.assert_allclose(model.predict(x), exact.predict(x), atol=1e-7)
    with pytest.raises(ValueError, match="deviations need the factor"):
        model.predict(x, return_std=True)


def test_conjugate_gradients_say_when_they_stop_early(rng, monkeypatch):
    monkeypatch.setattr("wideproof.estimators.ridge.MOST_STEPS", 2)
    with pytest.warns(UserWarning, match="stopped after 2 steps; predictions are off by at most"):
        NTKRegressor(ridge=1e-6, solver="cg", rank=5).fit(rng.normal(size=(60, 3)), rng.normal(size=60))


def test_a_singular_matrix_is_named():
    x = np.array([[1.0, 0.0], [1.0, 1e-14], [0.0, 1.0]])
    with pytest.raises(ValueError, match="singular to working precision"):
        NTKRegressor(ridge=0.0, preparation=None, bias=0).fit(x, [0.0, 1.0, 2.0])


def test_merging_keeps_order_and_sums():
    data = merge(np.array([[2.0], [-0.0], [0.0]]), np.array([[1.0], [2.0], [4.0]]), np.ones(3))
    assert data.x.tolist() == [[2.0], [0.0]]
    assert data.y.tolist() == [[1.0], [3.0]]
    assert data.within.tolist() == [2.0]


def test_interpolation_at_ridge_zero(rng):
    x, y = rng.normal(size=(30, 4)), rng.normal(size=30)
    np.testing.assert_allclose(NTKRegressor(ridge=0.0).fit(x, y).predict(x), y, atol=1e-8)


def test_classifier_fits_signs(rng):
    x, y = rng.normal(size=(40, 3)), np.array(["a", "b", "c"])[np.arange(40) % 3]
    model = NTKClassifier(ridge=0.1).fit(x, y)
    codes = np.where(y[:, None] == np.array(["a", "b", "c"]), 1.0, -1.0)
    expected = NTKRegressor(ridge=0.1, fit_intercept=False).fit(x, codes).predict(x)
    np.testing.assert_allclose(model.decision_function(x), expected, atol=1e-12)
    assert (model.predict(x) == np.array(["a", "b", "c"])[expected.argmax(1)]).all()


def test_support_vectors_are_those_of_a_precomputed_kernel(rng):
    from sklearn.svm import SVC

    x = rng.normal(size=(50, 3))
    y = x[:, 0] * x[:, 1] > 0
    model = NTKClassifier(method="svc", C=10.0, preparation=None, bias=0.0).fit(x, y)
    matrix = LimitKernel()(x)
    expected = SVC(kernel="precomputed", C=10.0).fit(matrix, y).decision_function(matrix)
    np.testing.assert_allclose(model.decision_function(x), expected, atol=1e-8)


def test_fit_ridge_keeps_only_half_of_a_matrix(rng):
    x, y = rng.normal(size=(20, 2)), rng.normal(size=(20, 1))
    fit = fit_ridge(LimitKernel(), Merged(x, y, np.ones(20), np.zeros(1)), 0.1)
    assert fit.factor is not None
    lower = np.tril(fit.factor)
    np.testing.assert_allclose(lower @ lower.T, LimitKernel()(x) + 0.1 * np.eye(20), atol=1e-12)


@pytest.mark.parametrize("kernel", ["ntk", "nngp"])
def test_images_have_the_kernel_of_the_convolutional_network(kernel, rng):
    x, new, y = rng.normal(size=(12, 8)), rng.normal(size=(5, 8)), rng.normal(size=12)
    settings = {"network": "conv-residual", "image_shape": (2, 4), "activation": "erf", "kernel": kernel}
    model = NTKRegressor(**settings, preparation=None, bias=0.0, ridge=0.1, fit_intercept=False).fit(x, y)
    net = build("conv-residual", (2, 4), (), width=2, depth=2, activation="erf")
    gram = limit_gram if kernel == "ntk" else nngp
    images, others = x.reshape(12, 2, 4), new.reshape(5, 2, 4)
    k, cross = gram(net, images).matrix, gram(net, others, images).matrix
    np.testing.assert_allclose(model.predict(new), cross @ np.linalg.solve(k + 0.1 * np.eye(12), y), atol=1e-10)
    np.testing.assert_allclose(model._limit_kernel().diagonal(x), np.diag(k), atol=1e-12)
    streamed = NTKRegressor(**settings, preparation=None, bias=0.0, ridge=0.1, fit_intercept=False, solver="cg",
                            rank=5, tol=1e-12).fit(x, y)  # fmt: skip
    np.testing.assert_allclose(streamed.predict(new), model.predict(new), atol=1e-8)


def test_shapes_that_are_no_images():
    with pytest.raises(InputError, match="image_shape, channels and pixels of a row, belongs to conv-residual"):
        LimitKernel("conv-residual")
    with pytest.raises(InputError, match="belongs to conv-residual; got network='residual'"):
        LimitKernel("residual", image_shape=(2, 4))
    with pytest.raises(InputError, match="two positive whole numbers"):
        LimitKernel("conv-residual", image_shape=(0, 4))
    with pytest.raises(InputError, match=r"rows of 9 entries are not images of 2 x 4.*bias=0"):
        NTKRegressor(network="conv-residual", image_shape=(2, 4), bias=1.0, ridge=1.0).fit(np.eye(8), np.arange(8.0))
