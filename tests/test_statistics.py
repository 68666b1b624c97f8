"""Slopes of power laws and their intervals against NumPy's fits and against counts of how often they cover."""

import numpy as np
import pytest

from wideproof.statistics import bootstrap_slope, line_slope, log_slopes, mean_slope

X = np.array([8.0, 16.0, 32.0, 64.0, 128.0])


def noisy(rows, seed=0):
    return X**-0.5 * np.exp(0.2 * np.random.default_rng(seed).normal(size=(rows, X.size)))


def test_slopes_are_those_of_polynomials_of_degree_one():
    y = noisy(4)
    expected = [np.polyfit(np.log(X), np.log(row), 1)[0] for row in y]
    np.testing.assert_allclose(log_slopes(X, y), expected, rtol=1e-12)
    assert mean_slope(X, y)[0] == pytest.approx(np.mean(expected), rel=1e-12)
    assert bootstrap_slope(X, y)[0] == pytest.approx(np.mean(expected), rel=1e-10)
    assert line_slope(X, y[0])[0] == pytest.approx(expected[0], rel=1e-12)


def test_the_interval_of_a_line_is_that_of_its_covariance():
    y = noisy(1)[0]
    value, low, high = line_slope(X, y)
    _, covariance = np.polyfit(np.log(X), np.log(y), 1, cov=True)
    reach = 3.182446305284263 * np.sqrt(covariance[0, 0])  # Student's 97.5 % point, 3 degrees of freedom
    assert (value - low, high - value) == pytest.approx((reach, reach), rel=1e-10)


def test_the_interval_over_rows_covers_the_truth_in_95_of_100_cases():
    missed = sum(not low <= -0.5 <= high for _, low, high in (mean_slope(X, noisy(5, seed)) for seed in range(400)))
    assert 3 <= missed <= 37  # 20 expected, 4 standard deviations


def test_one_row_has_no_bootstrap_interval():
    assert np.isnan(bootstrap_slope(X, noisy(1))[1:]).all()
