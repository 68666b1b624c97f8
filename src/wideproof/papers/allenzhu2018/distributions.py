"""Exact probabilities that the appendix bounds, and the comparison of draws with a distribution."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from wideproof.answers import Answer
from wideproof.papers.check import Check
from wideproof.papers.slopes import fit_slope

LIKELY, UNLIKELY = 1e-3, 1e-7  # p-values: above, draws fit their law; below, they do not


def fits(title: str, draws: ArrayLike, cdf: Callable[[np.ndarray], np.ndarray]) -> Check:
    """Compare independent draws with a continuous distribution by the Kolmogorov-Smirnov test.

    It holds for p-values above 1e-3, fails below 1e-7, and is undecided in between or for fewer than 100 draws.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> [fits("normal", scale * rng.normal(size=2000), stats.norm.cdf).outcome.value for scale in (1.0, 1.3)]
    ['holds', 'fails']
    """
    sample = np.asarray(draws, float).ravel()
    if sample.size < 100 or not np.isfinite(sample).all():
        return Check(title, "exact", Answer.UNDECIDED, samples=sample.size, note="too few draws, or not finite")
    found = stats.kstest(sample, cdf)
    p = float(found.pvalue)
    outcome = Answer.HOLDS if p >= LIKELY else Answer.FAILS if p < UNLIKELY else Answer.UNDECIDED
    note = f"Kolmogorov-Smirnov distance {found.statistic:.2g}, p = {p:.2g}"
    return Check(title, "exact", outcome, p, LIKELY, p - LIKELY, samples=sample.size, note=note)


def rectified_cdf(t: ArrayLike, n: int) -> np.ndarray:
    r"""Return $\Pr[\sum_{i \le n} \max(x_i, 0)^2 \le t]$ for $x \sim N(0, I_n)$: chi-square of binomial order.

    Examples
    --------
    >>> float(rectified_cdf(0.0, 2))
    0.25
    """
    points = np.asarray(t, float)
    orders = np.arange(1, n + 1)
    weights = stats.binom.pmf(orders, n, 0.5)
    kept = weights > 1e-300
    terms = stats.chi2.cdf(points[..., None], orders[kept]) * weights[kept]
    return terms.sum(axis=-1) + 0.5**n * (points >= 0)


def rectified_tail(t: ArrayLike, n: int) -> np.ndarray:
    r"""Return $\Pr[\sum_{i \le n} \max(x_i, 0)^2 > t]$, precise where it is small."""
    points = np.asarray(t, float)
    orders = np.arange(1, n + 1)
    weights = stats.binom.pmf(orders, n, 0.5)
    kept = weights > 1e-300
    return (stats.chi2.sf(points[..., None], orders[kept]) * weights[kept]).sum(axis=-1) + 0.5**n * (points < 0)


def good_probability(m: int, alpha: float, threshold: float) -> float:
    r"""Return $\Pr$ that at least $(1-\alpha)/2$ of $m$ standard normals are $\ge t$ and as many $\le -t$, exactly.

    Examples
    --------
    >>> good_probability(3, 0.1, 0.0), round(good_probability(2, 0.1, 0.0), 12)
    (0.0, 0.5)
    """
    p = float(stats.norm.sf(threshold))
    needed = int(np.ceil((1 - alpha) / 2 * m - 1e-9))
    above = np.arange(needed, m - needed + 1)
    if not above.size:
        return 0.0
    below = stats.binom.sf(needed - 1, m - above, p / (1 - p))
    return float((stats.binom.pmf(above, m, p) * below).sum())


def excess_mean(m: float) -> float:
    r"""Return $\mathbb E \max(x^2 - \log m, 0)$, $x \sim N(0,1)$: $2[g\varphi(g) + (1 - g^2) Q(g)]$, $g^2 = \log m$."""
    g = np.sqrt(np.log(m))
    return float(2 * (g * stats.norm.pdf(g) + (1 - g * g) * stats.norm.sf(g)))


def excess_exponent(m: float) -> float:
    r"""Return $\max_\lambda [2 \lambda \sqrt m - m \log \mathbb E e^{\lambda y}]$, $y = \max(x^2 - \log m, 0)$.

    By Chernoff's bound, $\Pr[\sum_{i \le m} y_i \ge 2 \sqrt m]$ is at most $e$ to minus this.
    """
    g = np.sqrt(np.log(m))
    rates = np.linspace(0.005, 0.495, 99)
    # for lambda < 1/2:  E e^{lambda y} = 1 - 2 Q(g) + 2 m^{-lambda} Q(g sqrt(1 - 2 lambda)) / sqrt(1 - 2 lambda)
    shrink = np.sqrt(1 - 2 * rates)
    excess = 2 * m**-rates * stats.norm.sf(g * shrink) / shrink - 2 * stats.norm.sf(g)
    return float((2 * rates * np.sqrt(m) - m * np.log1p(excess)).max())


def eventually(title: str, variable: str, x: ArrayLike, ratios: ArrayLike) -> Check:
    """Compare a ratio with 1 where the claim is for large enough `x` only; rows are draws.

    It holds when the ratio is below 1 at the largest `x`, fails when it is above and does not fall, and is undecided
    when it is above and falls: then the note says where the fitted line reaches 1.
    """
    points, rows = np.asarray(x, float), np.atleast_2d(np.asarray(ratios, float))
    last = float(rows[:, -1].max())
    slope = fit_slope(variable, points, rows, 0.0)
    if slope is None:
        return Check(title, "bound", Answer.UNDECIDED, samples=rows.size, note="no trend can be fitted")
    if last < 1:
        return Check(title, "bound", Answer.HOLDS, last, 1.0, 1 - last, last, samples=rows.size)
    if slope.high >= 0:
        return Check(title, "bound", Answer.FAILS, last, 1.0, 1 - last, last, samples=rows.size)
    reach = points[-1] * float(np.exp(np.log(rows[:, -1].mean()) / -slope.value))
    note = f"falls like {variable}^{slope.value:.2f}: below 1 from about {variable} = {reach:.2g} on"
    return Check(title, "bound", Answer.UNDECIDED, last, 1.0, 1 - last, last, samples=rows.size, note=note)
