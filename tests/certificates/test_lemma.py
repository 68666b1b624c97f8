r"""The inequality behind the step size: $\|r\| - \|(I - A) r\| \ge \kappa \sqrt\varepsilon\, \|A^{1/2} r\|$.

$A$ has its spectrum in $[\varepsilon, \beta]$; $\kappa = 1$ for $\beta \le 1$, and
$\kappa^2 = 1 - (\beta - 1)^2 / (1 - \beta \varepsilon)$ for $1 < \beta < 2 - \varepsilon$.
"""

import numpy as np
import pytest

ROUNDING = 1e-14  # some ten operations on numbers of size 1


def slack(spectrum, r, eps, kappa=1.0):
    """Left minus right side for unit vectors; A is diagonal, which is no loss."""
    r = r / np.linalg.norm(r, axis=-1, keepdims=True)
    left = 1 - np.linalg.norm((1 - spectrum) * r, axis=-1)
    return left - kappa * np.sqrt(eps) * np.linalg.norm(np.sqrt(spectrum) * r, axis=-1)


def draws(rng, low, high, count=20_000, size=5):
    """Spectra in [low, high], some with their ends taken, and vectors, some on two eigenvectors only."""
    inside = rng.random((count, size)) ** rng.choice([0.3, 1.0, 4.0], (count, 1))
    spectrum = low[:, None] + (high - low)[:, None] * inside
    spectrum[: count // 2, 0], spectrum[: count // 2, 1] = low[: count // 2], high[: count // 2]
    r = rng.standard_normal((count, size)) * 10 ** rng.uniform(-3, 0, (count, size))
    r[: count // 4, 2:] = 0
    return spectrum, r


def kappa_of(beta, eps):
    return np.sqrt(1 - np.square(beta - 1) / (1 - beta * eps))


def test_no_spectrum_up_to_one_violates_it(rng):
    eps = rng.random(20_000) ** 2
    beta = eps + (1 - eps) * rng.random(20_000)
    assert slack(*draws(rng, eps, beta), eps).min() >= -ROUNDING


def test_equality_where_the_spectrum_is_one_point(rng):
    eps = rng.random(1000)
    spectrum = np.repeat(eps[:, None], 5, axis=1)
    found = slack(spectrum, rng.standard_normal((1000, 5)), eps)
    assert np.abs(found).max() <= ROUNDING


def test_equality_at_the_ends_zero_slack_needs_y_squared_equal_epsilon(rng):
    """beta = 1 and y² = eps: all mass at eps; a share at 1 costs (y - sqrt(eps))² / (sum of both sides)."""
    eps = rng.random(1000) * 0.9
    spectrum = np.stack([eps, np.ones(1000)], axis=1)
    assert np.abs(slack(spectrum, np.tile([1.0, 0.0], (1000, 1)), eps)).max() <= ROUNDING
    assert slack(spectrum, np.tile([1.0, 0.3], (1000, 1)), eps).min() > 1e-6


def test_steps_beyond_one_with_kappa(rng):
    beta = rng.uniform(1.0001, 1.9999, 20_000)
    eps = (2 - beta) * rng.random(20_000) * 0.999
    spectrum, r = draws(rng, eps, beta)
    assert slack(spectrum, r, eps, kappa_of(beta, eps)).min() >= -ROUNDING


@pytest.mark.parametrize("beta", [0.9, 1.5])
def test_a_larger_factor_is_violated(rng, beta):
    """The factor cannot be raised by a thousandth: on [eps, beta] the worst vector is on the two ends."""
    eps = 0.05
    share = np.linspace(0, 1, 20_001)
    spectrum = np.tile([eps, beta], (len(share), 1))
    r = np.sqrt(np.stack([share, 1 - share], axis=1))
    kappa = kappa_of(beta, eps) if beta > 1 else 1.0
    assert slack(spectrum, r, eps, kappa).min() >= -ROUNDING
    assert slack(spectrum, r, eps, 1.001 * kappa).min() < -1e-6
    if beta > 1:
        assert slack(spectrum, r, eps).min() < -1e-3  # and without kappa it is false
