"""Matrices at infinite width in plain NumPy against the compiled ones; nothing is compiled for small tables."""

import jax
import numpy as np
import pytest

from wideproof.estimators import LimitKernel, NTKClassifier, NTKRegressor
from wideproof.kernels import gram_on_host, is_on_host, limit_gram, nngp, on_host
from wideproof.networks import build

NAMES = [
    *[("fully-connected", activation) for activation in ("relu", "erf", "sin", "gelu", "identity")],
    *[("residual", activation) for activation in ("relu", "erf", "sin", "gelu", "identity")],
    ("deep-relu", None), ("residual-relu", None),
]  # fmt: skip


def made(name, activation, depth=3):
    options = {} if activation is None else {"activation": activation}
    return build(name, (5,), (), width=2, depth=depth, **options)


def rows_of(rng, kind, n):
    """Rows with near copies, opposite ones, multiples and (of different norms) a row of zeros."""
    x = rng.normal(size=(n, 5))
    x[1], x[2], x[3], x[4] = x[0] * (1 + 1e-9), -x[0], x[0] + 1e-7 * rng.normal(size=5), 2 * x[0]
    if kind == "unit":
        return x / np.linalg.norm(x, axis=1)[:, None]
    x[5] = 0
    return x


def outputs_of(model, new):
    return model.predict(new) if isinstance(model, NTKRegressor) else model.decision_function(new)


@pytest.mark.parametrize(("name", "activation"), NAMES)
@pytest.mark.parametrize("kind", ["any norm", "unit"])
@pytest.mark.parametrize("n", [30, 260], ids=["pair by pair", "by splines"])
def test_it_is_the_compiled_matrix(name, activation, kind, n, rng):
    network, x = made(name, activation), rows_of(rng, kind, n)
    assert is_on_host(network)
    assert (n * (n + 1) // 2 >= on_host.MANY) == (n == 260)
    for covariance, compiled in ((False, limit_gram), (True, nngp)):
        expected = compiled(network, x).matrix
        within = 1e-12 * np.abs(expected).max()
        found = gram_on_host(network, x, covariance=covariance)
        assert np.abs(found - expected).max() < within
        np.testing.assert_array_equal(found, found.T)
        assert np.abs(gram_on_host(network, x[:100], x, covariance=covariance) - expected[:100]).max() < within


def test_a_sum_over_some_weights(rng):
    network, x = made("fully-connected", "relu"), rng.normal(size=(9, 5))
    found = gram_on_host(network, x, names=("W3", "a"))
    np.testing.assert_allclose(found, limit_gram(network, x, names=("W3", "a")).matrix, rtol=1e-12)


def test_what_has_no_closed_form_is_not_known():
    assert not is_on_host(made("fully-connected", "tanh"))
    assert not is_on_host(build("conv-residual", (2, 5), (), width=2, depth=2, activation="erf"))


def test_a_spline_that_is_not_good_enough_is_not_used(rng, monkeypatch):
    network, x = made("fully-connected", "erf"), rng.normal(size=(10, 5))
    x *= 10 / np.linalg.norm(x, axis=1)[:, None]  # erf of such inputs is nearly a step: too sharp for a spline
    monkeypatch.setattr(on_host, "MANY", 1)
    monkeypatch.setattr(on_host, "MOST_KNOTS", on_host.KNOTS)
    on_host._spline.cache_clear()
    found, expected = gram_on_host(network, x), limit_gram(network, x).matrix
    assert on_host._spline.cache_info().currsize == 1
    assert np.abs(found - expected).max() < 1e-12 * np.abs(expected).max()


@pytest.mark.parametrize("settings", [{}, {"activation": "erf"}, {"preparation": "standardize", "activation": "gelu"},
                                      {"preparation": None, "bias": 0.0}])  # fmt: skip
def test_small_tables_are_fitted_without_compilation(settings, rng, monkeypatch):
    x, new, y = rng.normal(size=(120, 7)), rng.normal(size=(40, 7)), rng.normal(size=120)

    def refuse(*args, **kwargs):
        raise AssertionError("a small table was given to the compiler")

    models = NTKRegressor(ridge=0.05, **settings), NTKClassifier(ridge=0.05, **settings)
    compiled = []
    with monkeypatch.context() as patch:
        patch.setattr("wideproof.estimators.limit_kernel.FEW", 0)
        for model, target in zip(models, (y, y > 0), strict=True):
            model.fit(x, target)
            compiled.append(outputs_of(model, new))
    with monkeypatch.context() as patch:
        for name in ("limit_gram", "nngp", "limit_pairs"):
            patch.setattr(f"wideproof.estimators.limit_kernel.{name}", refuse)
        patch.setattr(jax, "jit", refuse)
        for model, target, expected in zip(models, (y, y > 0), compiled, strict=True):
            model.fit(x, target)
            outputs = outputs_of(model, new)
            # outputs are sums of coefficients times kernels, which are right to 1e-12 of the largest
            terms = np.abs(model.dual_coef_).sum() * model._limit_kernel().diagonal(model.X_fit_).max()
            assert np.abs(outputs - expected).max() < 1e-12 * terms
            NTKRegressor(**settings).fit(x, y).predict(new, return_std=True)


def test_a_few_examples_predict_many_without_compilation(rng, monkeypatch):
    kernel, x, new = LimitKernel(), rng.normal(size=(40, 3)), rng.normal(size=(300, 3))
    vectors, matrix = rng.normal(size=(40, 2)), kernel(new, x)
    monkeypatch.setattr("wideproof.estimators.limit_kernel.FEW", 50)

    def refuse(*args, **kwargs):
        raise AssertionError("compiled")

    monkeypatch.setattr("wideproof.estimators.limit_kernel.limit_gram", refuse)
    off = np.abs(kernel.product(new, x, vectors) - matrix @ vectors)
    assert (off < 1e-12 * matrix.max() * np.abs(vectors).sum(axis=0)).all()
