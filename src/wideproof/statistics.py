r"""Exponents $s$ of $y \sim x^s$: the slope of $\log y$ against $\log x$ by least squares, with 95 % intervals; shares.

Each function with an interval returns the slope, its lower and its upper end. Three intervals answer three questions:
how well one line is known from the scatter around it, how much it varies from draw to draw if draws are normal, and
the same without that assumption.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

CONFIDENCE = 0.95
RESAMPLES = 2000


def at_least_share(successes: int, trials: int, confidence: float = CONFIDENCE) -> float:
    r"""Return the share that a probability is at least, with this confidence: the one-sided Clopper-Pearson bound.

    It is the $p$ with $\Pr[\mathrm{Bin}(n, p) \ge k] = 1 - \text{confidence}$ for $k$ successes in $n$ trials; for
    $k = n$, $(1 - \text{confidence})^{1/n}$.

    >>> round(at_least_share(60, 60), 4), at_least_share(0, 60)
    (0.9513, 0.0)
    """
    from scipy import stats

    return float(stats.beta.ppf(1 - confidence, successes, trials - successes + 1)) if successes else 0.0


def log_slopes(x: Float[np.ndarray, "points"], y: Float[np.ndarray, "rows points"]) -> Float[np.ndarray, "rows"]:
    """Return the slope of each row.

    >>> log_slopes(np.array([1.0, 2.0, 4.0]), np.array([[1.0, 2.0, 4.0], [5.0, 20.0, 80.0]])).round(12).tolist()
    [1.0, 2.0]
    """
    log_x = np.log(x) - np.log(x).mean()
    return np.log(y) @ log_x / (log_x @ log_x)


def line_slope(x: Float[np.ndarray, "points"], y: Float[np.ndarray, "points"]) -> tuple[float, float, float]:
    """Return the slope of one line through three or more points, with the interval from the scatter around it.

    >>> [round(end, 2) for end in line_slope(np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.0, 5.0]))]
    [1.16, -0.02, 2.34]
    """
    from scipy import stats

    fit: Any = stats.linregress(np.log(x), np.log(y))
    return _around(float(fit.slope), float(fit.stderr), x.size - 2)


def mean_slope(x: Float[np.ndarray, "points"], y: Float[np.ndarray, "rows points"]) -> tuple[float, float, float]:
    """Return the mean slope of two or more rows, with Student's interval over rows.

    >>> [round(end, 2) for end in mean_slope(np.array([1.0, 2.0]), np.array([[1.0, 2.0], [1.0, 4.0]]))]
    [1.5, -4.85, 7.85]
    """
    slopes = log_slopes(x, y)
    return _around(float(slopes.mean()), float(slopes.std(ddof=1) / np.sqrt(slopes.size)), slopes.size - 1)


def bootstrap_slope(
    x: Float[np.ndarray, "points"], y: Float[np.ndarray, "rows points"], seed: int = 0
) -> tuple[float, float, float]:
    """Return the mean slope of the rows, and its interval under resampling of rows; one row has none: not a number.

    >>> x = np.array([1.0, 2.0, 4.0])
    >>> bootstrap_slope(x, np.stack([x**-0.5, 2 * x**-0.5]))
    (-0.5, -0.5, -0.5)
    """
    slopes = log_slopes(x, y)
    if slopes.size == 1:
        return round(float(slopes[0]), 12), np.nan, np.nan
    rng = np.random.default_rng(seed)
    means = slopes[rng.integers(0, slopes.size, (RESAMPLES, slopes.size))].mean(axis=1)
    low, high = np.quantile(means, [0.5 - CONFIDENCE / 2, 0.5 + CONFIDENCE / 2])
    return round(float(slopes.mean()), 12), round(float(low), 12), round(float(high), 12)


def _around(value: float, error: float, freedom: int) -> tuple[float, float, float]:
    from scipy import stats

    reach = float(stats.t.ppf(0.5 + CONFIDENCE / 2, freedom)) * error
    return value, value - reach, value + reach
