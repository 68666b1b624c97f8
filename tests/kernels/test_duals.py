"""Duals of activations against mpmath, closed forms, constants and Price's identity."""

import functools
from collections.abc import Callable
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from mpmath.calculus.quadrature import GaussLegendre

from wideproof import machine
from wideproof.errors import InputError
from wideproof.kernels import duals
from wideproof.kernels.duals import closed_form, covariance, covariance_grid, mean, slope_covariance
from wideproof.networks.activations import ACTIVATIONS, RELU, RELU_CLOSED, get_activation

mp = mpmath.mp


def normal_cdf(z):
    return mpmath.ncdf(z)


def softplus(z):
    return mpmath.log1p(mpmath.exp(z))


def sigmoid(z):
    return 1 / (1 + mpmath.exp(-z))


def inner(z):
    return mpmath.sqrt(8 / mpmath.pi) * (z + 0.044715 * z**3)


FUNCTIONS = {
    "softplus": softplus,
    "sigmoid": sigmoid,
    "tanh": mpmath.tanh,
    "erf": mpmath.erf,
    "arctan": mpmath.atan,
    "sin": mpmath.sin,
    "swish": lambda z: z * sigmoid(z),
    "gelu": lambda z: z * normal_cdf(z),
    "gelu_tanh": lambda z: z * sigmoid(inner(z)),
    "mish": lambda z: z * mpmath.tanh(softplus(z)),
    "elu": lambda z: z if z > 0 else mpmath.expm1(z),
    "softsign": lambda z: z / (1 + abs(z)),
    "identity": lambda z: z,
    "relu": lambda z: max(z, mpmath.mpf(0)),
}
SLOPES = {
    "softplus": sigmoid,
    "sigmoid": lambda z: sigmoid(z) * (1 - sigmoid(z)),
    "tanh": lambda z: mpmath.sech(z) ** 2,
    "erf": lambda z: 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-z * z),
    "arctan": lambda z: 1 / (1 + z * z),
    "sin": mpmath.cos,
    "swish": lambda z: sigmoid(z) * (1 + z * (1 - sigmoid(z))),
    "gelu": lambda z: normal_cdf(z) + z * mpmath.npdf(z),
    "gelu_tanh": lambda z: (
        sigmoid(inner(z))
        + z * sigmoid(inner(z)) * sigmoid(-inner(z)) * mpmath.sqrt(8 / mpmath.pi) * (1 + 0.134145 * z**2)
    ),
    "mish": lambda z: mpmath.tanh(softplus(z)) + z * mpmath.sech(softplus(z)) ** 2 * sigmoid(z),
    "elu": lambda z: mpmath.exp(min(z, 0)),
    "softsign": lambda z: 1 / (1 + abs(z)) ** 2,
    "identity": lambda z: mpmath.mpf(1),
    "relu": lambda z: mpmath.mpf(int(z > 0)),
}
PARALLEL = (0.0, np.pi)
FACTORS: dict[duals.Factor, Callable[..., np.ndarray]] = {"value": covariance, "slope": slope_covariance}


@functools.cache
def half_line():
    """Panels of Gauss-Legendre nodes on the half line with Gaussian weights, to 30 digits."""
    with mp.workdps(30):
        rule = GaussLegendre(mp).calc_nodes(4, mp.prec)
        borders = [mpmath.mpf(z) for z in (0, 1, 2, 3.5, 5.5, 8, 12)]
        panels = [((low + high) / 2, (high - low) / 2) for low, high in pairwise(borders)]
        nodes = [(middle + half * x, half * w) for middle, half in panels for x, w in rule]
        return [(z, w * mpmath.npdf(z)) for z, w in nodes]


def values(f, r):
    """f(r z) and f(-r z) at the nodes."""
    with mp.workdps(30):
        return [(f(mpmath.mpf(r) * z), f(-mpmath.mpf(r) * z)) for z, _ in half_line()]


def line(u, v, sign):
    """E[f(r Z) f(sign r' Z)] of what `values` gave for r and r'."""
    with mp.workdps(30):
        products = (p * q + m * n if sign > 0 else p * n + m * q for (p, m), (q, n) in zip(u, v, strict=True))
        total = mpmath.fsum(w * product for (_, w), product in zip(half_line(), products, strict=True))
        return float(total.real)


def trapezoid(f, r, r_prime, rho, step=0.25, reach=9.5):
    """E[f(u) f(v)] of a function analytic in a strip, by the trapezoidal rule in independent coordinates.

    u = r x and v = r' (rho x + sqrt(1 - rho^2) y): no polar coordinates, no sectors, functions by mpmath.
    """
    with mp.workdps(30):
        points = [mpmath.mpf(k) * step for k in range(-int(reach / step), int(reach / step) + 1)]
        density = np.array([float(mpmath.npdf(z) * step) for z in points])
        rho = mpmath.mpf(rho)
        perp = mpmath.sqrt(1 - rho * rho)
        first = np.array([float(f(r * z)) for z in points])
        second = np.array([[float(f(r_prime * (rho * x + perp * y))) for y in points] for x in points])
    return float((first * density) @ second @ density)


@pytest.mark.parametrize("name", list(ACTIVATIONS))
def test_parallel_and_opposite_match_thirty_digits(name):
    r, r_prime = 0.4, 1.7
    for f, public in ((FUNCTIONS[name], covariance), (SLOPES[name], slope_covariance)):
        u, v = values(f, r), values(f, r_prime)
        got = public(name, np.array([r**2, r**2, r_prime**2]), r_prime**2, np.array([0, np.pi, 0]))
        assert np.abs(got - [line(u, v, 1), line(u, v, -1), line(v, v, 1)]).max() < 1e-13


@pytest.mark.parametrize("name", list(ACTIVATIONS))
def test_mean(name):
    ones = [(mpmath.mpf(1), mpmath.mpf(1))] * len(half_line())
    assert abs(mean(name, 1.7) - line(values(FUNCTIONS[name], np.sqrt(1.7)), ones, 1)) < 1e-13


@pytest.mark.parametrize("name", ["tanh", "softplus", "gelu"])
def test_general_angles_match_an_independent_rule(name):
    r, r_prime, rho = 0.5, 0.9, -0.375
    theta = np.arccos(rho)
    assert abs(covariance(name, r**2, r_prime**2, theta) - trapezoid(FUNCTIONS[name], r, r_prime, rho)) < 1e-13
    assert abs(slope_covariance(name, r**2, r_prime**2, theta) - trapezoid(SLOPES[name], r, r_prime, rho)) < 1e-13


KINKED = {
    "arctan": np.arctan,
    "elu": lambda z: np.where(z > 0, z, np.expm1(np.minimum(z, 0))),
    "softsign": lambda z: z / (1 + np.abs(z)),
}


@pytest.mark.parametrize("name", list(KINKED))
@pytest.mark.parametrize("theta", [0.7, 2.0])
def test_kinked_activations_match_nested_integrals(name, theta):
    """E[f(u) f(v)] = E[f(u) E[f(v) | u]], the inner panels ending where v = 0."""
    r, r_prime, f = 0.8, 1.1, KINKED[name]
    nodes, weights = np.polynomial.legendre.leggauss(24)
    cos, sin, total = np.cos(theta), np.sin(theta), 0.0
    for low, high in pairwise([-9.0, -5.0, -2.5, -1.0, 0.0, 1.0, 2.5, 5.0, 9.0]):
        for x, w in zip((low + high) / 2 + (high - low) / 2 * nodes, (high - low) / 2 * weights, strict=True):
            kink = -cos * x / sin
            inner = sorted({-9.0, -4.0, 4.0, 9.0, *(np.clip(kink + d, -9.0, 9.0) for d in (-1.5, 0.0, 1.5))})
            for lo, hi in pairwise(inner):
                y = (lo + hi) / 2 + (hi - lo) / 2 * nodes
                part = (hi - lo) / 2 * weights @ (f(r_prime * (cos * x + sin * y)) * np.exp(-(y**2 + x**2) / 2))
                total += w * f(r * x) * part / (2 * np.pi)
    assert abs(covariance(name, r**2, r_prime**2, theta) - total) < 1e-12


@pytest.mark.parametrize("name", ["tanh", "softplus", "elu", "softsign", "relu", "gelu", "sin"])
@pytest.mark.parametrize("end", PARALLEL)
def test_no_digits_are_lost_next_to_the_ends(name, end):
    """Near an end E = E(end) + (c - c(end)) E[sigma' sigma'] + O(theta^3), and c - c(end) is known exactly."""
    delta = 1e-6
    theta = abs(end - delta)
    slope = slope_covariance(name, 1.0, 2.0, end)
    moved = np.sqrt(2.0) * (-1 if end == 0 else 1) * 2 * np.sin(delta / 2) ** 2
    expected = covariance(name, 1.0, 2.0, end) + moved * slope
    assert abs(covariance(name, 1.0, 2.0, theta) - expected) < 5e-15


@pytest.mark.parametrize("name", list(ACTIVATIONS))
def test_zero_variance_factors(name):
    activation = get_activation(name)
    at_zero, slope_at_zero = FUNCTIONS[name](mpmath.mpf(0)), SLOPES[name](mpmath.mpf(0))
    b, theta = 1.3, 1.1
    assert abs(covariance(name, 0.0, b, theta) - float(at_zero) * mean(name, b)) < 1e-13
    assert abs(covariance(name, 0.0, 0.0, theta) - activation.at_zero**2) < 1e-14
    assert abs(slope_covariance(name, 0.0, 0.0, theta) - float(slope_at_zero) ** 2) < 1e-14


def test_relu_at_zero_follows_its_convention():
    assert slope_covariance(RELU, 0.0, 1.0, 0.3) == 0.0
    assert slope_covariance(RELU_CLOSED, 0.0, 1.0, 0.3) == 0.5
    assert slope_covariance(RELU_CLOSED, 0.0, 0.0, 0.3) == 1.0


@pytest.mark.parametrize("name", list(ACTIVATIONS))
def test_constants(name):
    assert abs(covariance(name, 1.0, 1.0, 0.0) * ACTIVATIONS[name].c_sigma - 1) < 2e-14


@pytest.mark.parametrize("name", ["relu", "erf", "sin", "gelu", "identity"])
def test_closed_forms_are_the_quadrature(name, rng):
    a, b = rng.uniform(0, 3, (2, 20))
    theta = np.concatenate([[0.0, np.pi, 1e-6, np.pi - 1e-6], rng.uniform(0, np.pi, 16)])
    for factor, public in FACTORS.items():
        by_rule = duals._quadrature(ACTIVATIONS[name], factor, a, b, theta)
        assert np.abs(public(name, a, b, theta) - by_rule.values).max() < 1e-13
        assert by_rule.error.max() <= 1e-13
    both = closed_form(name)
    assert both is not None
    for function, public in zip(both, (covariance, slope_covariance), strict=True):
        got = np.asarray(function(*(np.asarray(x) for x in (a, b, np.sqrt(a * b) * np.cos(theta)))))
        near = (theta < 1e-3) | (theta > np.pi - 1e-3)
        assert np.abs(got - public(name, a, b, theta))[~near].max() < 1e-13
        assert np.abs(got - public(name, a, b, theta))[near].max() < 1e-8


def test_closed_forms_clip_and_take_large_variances():
    one = np.ones(2)
    for name in ("relu", "erf", "sin", "gelu", "identity"):
        forms = closed_form(name)
        assert forms is not None
        for function in forms:
            assert np.isfinite(function(one, one, np.array([1 + 1e-15, -1 - 1e-15]))).all()
            assert np.isfinite(function(0 * one, one, 0 * one)).all()
    assert closed_form("tanh") is None
    assert np.isfinite(covariance("sin", 1e5, 1e5, np.array([0.0, np.pi]))).all()
    assert abs(covariance("sin", 1e5, 1e5, 0.0) - 0.5) < 1e-15


@pytest.mark.parametrize("name", list(ACTIVATIONS))
def test_prices_identity(name):
    a, b, theta, h = 0.7, 1.9, np.array([0.6, 2.3]), 1e-3
    root = np.sqrt(a * b)
    at = lambda k: covariance(name, a, b, np.arccos(np.cos(theta) + k * h / root))  # noqa: E731
    difference = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * h)
    assert np.abs(difference - slope_covariance(name, a, b, theta)).max() < 1e-9


def test_grid_is_the_covariance(rng):
    r, theta = np.array([0.0, 0.3, 1.4]), np.array([0.0, 0.4, 2.0, np.pi])
    for name in ("tanh", "relu"):
        for factor, public in FACTORS.items():
            exact = public(name, r[:, None] ** 2, r**2, theta[:, None, None])
            assert np.abs(covariance_grid(name, r, theta, factor) - exact).max() < 1e-13


def test_shapes_and_types():
    out = covariance("tanh", 1.0, np.ones((2, 1)), np.zeros(3))
    assert isinstance(out, np.ndarray)
    assert out.shape == (2, 3)
    assert out.dtype == np.float64
    assert covariance("tanh", np.ones(0), 1.0, 1.0).shape == (0,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1.0, 1.0, 0.0), "a must be a finite variance"),
        ((1.0, np.nan, 0.0), "b must be a finite variance"),
        ((1.0, 1.0, 3.2), r"theta must be an angle in \[0, pi\]"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(InputError, match=message):
        covariance("tanh", *arguments)


def test_a_rule_that_does_not_settle_says_so():
    with pytest.raises(InputError, match="512 nodes differ by"):
        slope_covariance("arctan", 1e9, 1e9, 0.5)


def test_the_first_use_may_be_off_relative_to_large_values_and_absolutely_among_small_ones(monkeypatch):
    allowed = []
    monkeypatch.setattr(machine, "_TRUSTED", set())
    monkeypatch.setattr(machine, "require_agreement", lambda *arguments: allowed.append(arguments[3]))
    for factor in (0.5, 1.0, 40.0):
        duals._require_agreement("a rule", functools.partial(lambda factor, z: factor * z, factor), np.ones(2))
    unit = machine.tolerance(np.float64, duals.BLOCK**2)
    assert allowed == pytest.approx([unit, unit, 40 * unit], rel=1e-12)
