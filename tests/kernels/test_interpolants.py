"""Interpolants of functions of the correlation against the functions themselves."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wideproof.errors import InputError
from wideproof.kernels.duals import covariance, slope_covariance
from wideproof.kernels.interpolants import interpolate, measured_error


def duals_of(name, a):
    return lambda theta: {"value": covariance(name, a, a, theta), "slope": slope_covariance(name, a, a, theta)}


@pytest.fixture
def correlations(rng):
    near = np.concatenate([1 - np.logspace(-16, -1, 16), np.logspace(-16, -1, 8), [0.0, 1.0]])
    return np.concatenate([rng.uniform(-1, 1, 60), near, -near])


@pytest.mark.parametrize(
    ("name", "a"),
    [("relu", 1.0), ("softplus", 1.0), ("tanh", 1.0), ("tanh", 20.0), ("erf", 100.0)],
)
def test_values_at_random_and_extreme_correlations(name, a, correlations):
    fitted = interpolate(duals_of(name, a))
    got = fitted(correlations)
    # arccos loses digits next to the ends; half angles do not.
    angles = 2 * np.arctan2(np.sqrt(1 - correlations), np.sqrt(1 + correlations))
    for key, exact in duals_of(name, a)(angles).items():
        assert np.abs(got[key] - exact).max() < 1e-12 * np.abs(exact).max()
        assert fitted.error[key] <= 1e-13
        assert fitted.degrees[key] <= 32


@pytest.mark.parametrize("name", ["relu", "tanh"])
def test_ends_are_exact(name):
    fitted = interpolate(duals_of(name, 1.0))
    ends = duals_of(name, 1.0)(np.array([0.0, np.pi]))
    got = fitted(np.array([1.0, -1.0]))
    beyond = fitted(np.array([1.0 + 3e-16, -1.0 - 3e-16]))
    for key in ends:
        assert np.abs(got[key] - ends[key]).max() < 1e-13
        assert np.array_equal(got[key], beyond[key])


def test_simple_kernels_need_one_piece_and_constants_one_term():
    assert interpolate(duals_of("relu", 1.0)).pieces == 1
    fitted = interpolate(lambda theta: {"one": np.ones_like(theta), "zero": np.zeros_like(theta), "rho": np.cos(theta)})
    assert fitted.degrees == {"one": 0, "zero": 0, "rho": 2}
    assert fitted(np.ones((2, 3)))["one"].shape == (2, 3)


def test_deep_relu_kernel(correlations):
    """Twenty normalized layers: a function with singularities close to correlation 1."""

    def deep(theta):
        for _ in range(20):
            rho = 2 * covariance("relu", 1.0, 1.0, theta)
            # 1 - rho without cancellation is not at hand, so angles are kept from squares.
            theta = np.arccos(np.clip(rho, -1, 1))
        return {"kernel": np.cos(theta)}

    fitted = interpolate(deep, tolerance=1e-12)
    assert measured_error(fitted, deep, np.arccos(correlations))["kernel"] < 1e-11


def test_a_planted_error_is_caught(rng):
    f = duals_of("tanh", 1.0)
    fitted = interpolate(f)
    theta = rng.uniform(0, np.pi, 60)
    exact = f(theta)
    assert max(measured_error(fitted, lambda _: exact, theta).values()) < 1e-13
    for k, half in ((0, 0), (5, 1), (20, 0)):
        wrong = fitted.coefficients["value"].copy()
        wrong[k, half, 0] += 1e-10
        planted = replace(fitted, coefficients=fitted.coefficients | {"value": wrong})
        assert measured_error(planted, lambda _: exact, theta)["value"] > 1e-11
        assert np.abs(planted(np.cos(theta))["value"] - fitted(np.cos(theta))["value"]).max() > 1e-11


def test_inside_jit_as_constant_and_as_argument():
    fitted = interpolate(duals_of("relu", 1.0))
    traces = []

    @jax.jit
    def apply(interpolant, rho):
        traces.append(1)
        return interpolant(rho)["value"]

    rho = jnp.linspace(-1, 1, 101)
    assert np.abs(apply(fitted, rho) - fitted(rho)["value"]).max() < 1e-15
    assert np.abs(jax.jit(lambda rho: fitted(rho)["value"])(rho) - fitted(rho)["value"]).max() < 1e-15
    doubled = replace(fitted, coefficients={name: 2 * c for name, c in fitted.coefficients.items()})
    assert np.abs(apply(doubled, rho) - 2 * fitted(rho)["value"]).max() < 1e-15
    assert len(traces) == 1


def test_single_precision_stays_single():
    fitted = interpolate(duals_of("erf", 20.0))
    rho = np.linspace(-1, 1, 201, dtype=np.float32)
    got = fitted(rho)["value"]
    assert got.dtype == np.float32
    assert np.abs(got - fitted(rho.astype(float))["value"]).max() < 2e-6


def test_angles_are_few():
    asked = []

    def f(theta):
        asked.append(theta.size)
        return {"value": covariance("erf", 50.0, 50.0, theta)}

    interpolate(f)
    assert sum(asked) <= 400
    assert len(asked) <= 3


def test_what_cannot_be_reached_is_said():
    with pytest.raises(InputError, match="jump is wanted to 1e-13, but 129 angles"):
        interpolate(lambda theta: {"jump": (theta > 1).astype(float)})
    with pytest.raises(InputError, match="no 4 pieces of degree 32 reach"):
        interpolate(lambda theta: {"wave": np.cos(150 * np.sin(theta / 2))})
