"""Tables of duals for unequal variances against the quadrature."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wideproof.errors import InputError
from wideproof.kernels.duals import covariance, slope_covariance
from wideproof.kernels.tables import DualTable


def compare(table, r, r_prime, theta):
    left, right = table.features(r), table.features(r_prime)
    a, b = r[..., :, None] ** 2, r_prime[..., None, :] ** 2
    rho = np.cos(theta)
    return max(
        np.abs(table.value(left, right, rho) - covariance(table.activation, a, b, theta)).max(),
        np.abs(table.slope(left, right, rho) - slope_covariance(table.activation, a, b, theta)).max(),
    )


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [pytest.param("tanh", 0.1, 1.5, marks=pytest.mark.slow), ("softplus", 0.0, 1.0), ("elu", 0.9, 1.1)],
)
def test_random_points(name, low, high, rng):
    table = DualTable.build(name, low, high)
    r, r_prime = rng.uniform(low, high, 6), rng.uniform(low, high, 8)
    theta = rng.uniform(0, np.pi, (6, 8))
    theta[0, :4], r[0], r_prime[0] = (0, np.pi, 1e-6, np.pi - 1e-6), low, high
    assert compare(table, r, r_prime, theta) < 1e-11
    assert max(table.error.values()) <= 1e-12


def test_one_radius_needs_one_column(rng):
    table = DualTable.build("tanh", 1.0, 1.0)
    assert table.columns == 1
    assert compare(table, np.ones(3), np.ones(2), rng.uniform(0, np.pi, (3, 2))) < 1e-12


def test_narrow_ranges_need_few_columns():
    assert DualTable.build("elu", 0.9, 1.1).columns <= 9


def test_batches_jit_and_single_precision(rng):
    table = DualTable.build("elu", 0.9, 1.1)
    r, theta = rng.uniform(0.9, 1.1, (3, 4)), rng.uniform(0, np.pi, (3, 4, 4))
    assert compare(table, r, r, theta) < 1e-11
    phi, rho = jnp.asarray(table.features(r)), jnp.asarray(np.cos(theta))
    eager = table.value(phi, phi, rho)
    assert np.abs(jax.jit(lambda t, p, c: t.value(p, p, c))(table, phi, rho) - eager).max() < 1e-14
    assert np.abs(jax.jit(lambda p, c: table.value(p, p, c))(phi, rho) - eager).max() < 1e-14
    single = table.value(phi.astype(jnp.float32), phi.astype(jnp.float32), rho.astype(jnp.float32))
    assert single.dtype == np.float32
    assert np.abs(single - eager).max() < 1e-4


def test_builds_are_cached_on_a_coarse_range():
    table = DualTable.build("elu", 0.9, 1.1)
    assert DualTable.build("elu", 0.901, 1.099) is table
    assert table.low <= 0.9
    assert table.high >= 1.1


def test_a_planted_error_is_caught(rng):
    table = DualTable.build("elu", 0.9, 1.1)
    wrong = table.coefficients["slope"].copy()
    wrong[3, 0, 0, 0, 1] += 1e-8
    planted = replace(table, coefficients=table.coefficients | {"slope": wrong})
    r, theta = rng.uniform(0.9, 1.1, 8), rng.uniform(0, np.pi, (8, 8))
    assert compare(table, r, r, theta) < 1e-11
    assert compare(planted, r, r, theta) > 1e-10


@pytest.mark.parametrize(("low", "high"), [(-0.1, 1.0), (2.0, 1.0), (0.0, np.inf)])
def test_bad_ranges_are_named(low, high):
    with pytest.raises(InputError, match="0 <= low <= high"):
        DualTable.build("tanh", low, high)
