"""Ridge regression where the matrix is: against NumPy's solve, with JAX's default device standing for any."""

import numpy as np
import pytest

from wideproof.errors import InputError
from wideproof.estimators import NTKClassifier, NTKRegressor, on_device
from wideproof.estimators.limit_kernel import LimitKernel


@pytest.fixture
def problem():
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((90, 4)), rng.standard_normal((90, 2))
    return x, y, rng.uniform(0.5, 2.0, 90)


@pytest.fixture
def there(monkeypatch):
    """As if the host were a device with memory of its own."""
    monkeypatch.setattr(on_device, "device_memory", lambda: 8 << 30)
    monkeypatch.setattr(on_device, "LEAST", 1)


@pytest.mark.parametrize("tile", [64, 128])
@pytest.mark.parametrize("kernel", [LimitKernel(depth=2), LimitKernel(activation="erf", kernel="nngp")])
def test_the_factor_solves(problem, tile, kernel):
    x, y, weight = problem
    root = np.sqrt(weight)
    found = on_device.factor(kernel, x, root, 0.3, tile=tile)
    matrix = root[:, None] * kernel(x) * root + 0.3 * np.eye(len(x))
    np.testing.assert_allclose(found.solve(y), np.linalg.solve(matrix, y), rtol=1e-10, atol=1e-12)


def test_a_singular_matrix_is_said_to_be(problem):
    x, _, _ = problem
    with pytest.raises(InputError, match="singular to working precision"):
        on_device.factor(LimitKernel(), np.concatenate([x, x]), np.ones(2 * len(x)), 0.0, tile=64)


def test_examples_left_out_are_left_out(problem):
    x, y, weight = problem
    kernel = LimitKernel(depth=1)
    matrix, level = on_device.dressed(kernel, x, weight)
    assert level == pytest.approx(np.trace(kernel(x)) / len(x))
    errors = on_device.left_out(matrix, y, weight, np.zeros_like(y), 0.2)
    for i in (0, 17, 89):
        rest = np.arange(len(x)) != i
        root = np.sqrt(weight[rest])
        inside = root[:, None] * kernel(x[rest]) * root + 0.2 * np.eye(len(x) - 1)
        predicted = kernel(x[[i]], x[rest]) @ (root[:, None] * np.linalg.solve(inside, root[:, None] * y[rest]))
        np.testing.assert_allclose(errors[i], np.sqrt(weight[i]) * (y[i] - predicted[0]), rtol=1e-9)


def test_estimators_agree_with_the_host(problem, there):
    x, y, weight = problem
    new = np.random.default_rng(4).standard_normal((7, 4))
    host = NTKRegressor(depth=2, device="cpu").fit(x, y, weight)
    found = NTKRegressor(depth=2, device="gpu").fit(x, y, weight)
    assert isinstance(found._fit.factor, on_device.Factored)
    assert found.ridge_ == pytest.approx(host.ridge_)
    for a, b in zip(found.predict(new, return_std=True), host.predict(new, return_std=True), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


def test_many_classes_take_one_factor(problem, there):
    x, _, _ = problem
    labels = np.arange(90) % 3
    host, found = (NTKClassifier(ridge=1e-2, device=device).fit(x, labels) for device in ("cpu", "auto"))
    np.testing.assert_allclose(found.decision_function(x), host.decision_function(x), rtol=1e-9, atol=1e-11)


def test_a_given_grid_is_searched_whole(problem, there):
    x, y, _ = problem
    found = NTKRegressor(ridge=[1e-3, 1e-1, 10.0], device="gpu").fit(x, y)
    host = NTKRegressor(ridge=[1e-3, 1e-1, 10.0], device="cpu").fit(x, y)
    np.testing.assert_allclose(found.loo_.errors, host.loo_.errors, rtol=1e-8)
    assert found.ridge_ == host.ridge_


def test_what_is_asked_for_must_be_there(problem, monkeypatch):
    x, y, _ = problem
    with pytest.raises(InputError, match="device must be one of auto, cpu, gpu; got 'tpu'"):
        NTKRegressor(device="tpu").fit(x, y)
    with pytest.raises(InputError, match="sees none: use device='auto'"):
        NTKRegressor(device="gpu").fit(x, y)
    monkeypatch.setattr(on_device, "device_memory", lambda: 1 << 30)
    with pytest.raises(InputError, match=r"takes 0 GB, and this device has room for that of 0: use fewer"):
        NTKRegressor(device="gpu").fit(x, y)
