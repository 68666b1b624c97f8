"""The generalization bound's terms, each by two routes."""

import itertools

import numpy as np
import pytest

from wideproof.kernels import gram
from wideproof.monitors.generalization import GeneralizationBound, layer_grams, linear_term, rounded_radius
from wideproof.monitors.residual import residual_pass
from wideproof.networks import ResidualReLU

NETWORK = ResidualReLU(input_dim=4, width=24, depth=3, residual_scale=0.3)


@pytest.fixture
def x(rng):
    points = rng.standard_normal((6, 4))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


@pytest.fixture
def params():
    return NETWORK.init(0)


@pytest.fixture
def seen(params, x):
    return residual_pass(NETWORK, params, x)


def test_layer_grams_against_the_kernel(seen, params, x):
    np.testing.assert_allclose(layer_grams(seen).sum(axis=0), np.asarray(gram(NETWORK, params, x)), rtol=1e-8)


def test_linear_term_by_ascent(seen, rng):
    """For one choice of signs the supremum over the product of balls is the sum of the gradients' norms."""
    radius, grams = 0.2, layer_grams(seen)
    exact = linear_term(grams, radius)
    total = 0.0
    for signs in itertools.product((-1.0, 1.0), repeat=6):
        for layer in seen.steps:
            gradient = seen.scale(layer) * seen.x(layer - 1).T @ (np.array(signs)[:, None] * seen.b(layer))
            total += radius / 6 * np.linalg.norm(gradient) / 2**6
    assert exact.value == pytest.approx(total)
    assert exact.error == 0
    assert exact.value <= exact.trace_bound <= np.sqrt(2) * exact.value


def test_linear_term_drawn_agrees_with_enumerated(rng):
    half = rng.standard_normal((2, 13, 5))
    grams = half @ np.swapaxes(half, 1, 2)
    drawn = linear_term(grams, 1.0, draws=20_000)
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=13)))
    exact = np.sqrt(np.einsum("ki,lij,kj->kl", signs, grams, signs)).sum(axis=1).mean() / 13
    assert abs(drawn.value - exact) < 4 * drawn.error


def test_generalization_bound_by_hand():
    found = GeneralizationBound(0.1, 0.5, 100, 25, 0.1, linear=0.3, attacked=0.7, certified=5.0)
    assert found.paper == pytest.approx(
        0.2 + 0.5 ** (4 / 3) * np.sqrt(100 * np.log(100)) + 1 + np.sqrt(np.log(10) / 25)
    )
    assert found.calibrated == pytest.approx(0.2 + 1.0 + np.sqrt(np.log(10) / 25))
    assert found.explicit == pytest.approx(0.2 + 1.0 + 6 * np.sqrt(np.log(20) / 50))
    assert found.proved == pytest.approx(found.explicit + 4.3)
    assert list(found.variants()) == ["paper", "calibrated", "explicit", "proved"]


def test_rounded_radius_rounds_up_and_spends_no_more_than_delta():
    radii = [rounded_radius(r, 1.0, 0.1) for r in np.linspace(0.01, 1, 100)]
    assert all(r <= up < 2 * r + 1e-12 for (up, _), r in zip(radii, np.linspace(0.01, 1, 100), strict=True))
    assert sum({delta for _, delta in radii}) < 0.1
    with pytest.raises(ValueError, match="at most the largest"):
        rounded_radius(2.0)
