"""Appendix A, first and last part: swapping randomness, Gaussian intervals, excesses, bounded differences."""

from __future__ import annotations

import itertools

import numpy as np
from scipy import stats

from wideproof.papers.allenzhu2018.distributions import excess_exponent, excess_mean
from wideproof.papers.allenzhu2018.lab import Lab
from wideproof.papers.check import Check, at_least, at_most, conclude, law, often, scales, sides
from wideproof.papers.statement import Section, misprint

statement = Section("tool", "none")

LEVELS = (0.01, 0.04, 0.09, 0.25, 0.5)


def failing_tables(lab: Lab, level: float) -> list[np.ndarray]:
    """Return 0/1 tables of failures with density at most `level`: scattered, and gathered in few rows or columns."""
    rng, size = lab.rng("tables", level), 200
    count = int(level * size * size)
    scattered = np.zeros(size * size)
    scattered[rng.choice(size * size, count, replace=False)] = 1
    tables = [scattered.reshape(size, size)]
    root = int(np.sqrt(level) * size)
    for rows in {max(1, root - 1), root, min(size, root + 1), int(level * size) or 1, size}:
        table = np.zeros((size, size))
        table[:rows, : min(size, count // rows)] = 1
        tables.append(table)
    return tables


@statement("An event of probability 1-ε has conditional probability 1-√ε for most X", "bound")
def fact_a_1(lab: Lab) -> Check:
    r"""If $f(X,Y)$ holds with probability $1-\varepsilon$, then
    $\Pr_X[\Pr_Y[f] \ge 1-\sqrt\varepsilon] \ge 1-\sqrt\varepsilon$.
    """
    tables = [table for level in LEVELS for table in failing_tables(lab, level)]
    roots = [np.sqrt(table.mean()) for table in tables]
    found = [((table.mean(axis=1) <= root).mean(), 1 - root) for table, root in zip(tables, roots, strict=True)]
    return conclude(
        at_least("share of X with Pr_Y[f] >= 1 - sqrt(eps), against 1 - sqrt(eps)", *sides(found), counts=True),
        assumptions=(f"finite tables, X a row and Y a column, with eps up to {max(LEVELS)}",),
    )


@statement("Values of at least a with probability ε make the conditional mean aε/2 often", "bound")
@misprint("true for f ≥ 0 only")
def fact_a_2(lab: Lab) -> Check:
    r"""For $f \ge 0$: $\Pr[f(X,Y) \ge a] \ge \varepsilon$ implies
    $\Pr_X[\mathbb E_Y f \ge a\varepsilon/2] \ge \varepsilon/2$.
    """
    found = []
    for level in LEVELS:
        for table in failing_tables(lab, level):
            values = table + 0.3 * lab.rng("values", level).uniform(size=table.shape) * (1 - table)  # >= a = 1 where 1
            half = table.mean() / 2
            found += [((one.mean(axis=1) >= half).mean(), half) for one in (values, table)]
    return conclude(
        at_least("share of X with E_Y f >= a eps/2, against eps/2", *sides(found), counts=True),
        assumptions=("finite tables, X a row and Y a column", "f >= 0, which the proof uses"),
    )


@statement("Excesses of Gaussian squares over log m rarely add up to 2√m", "scale")
@misprint("the mean is printed with (x-g)² for x²-g², on one side; y is sub-exponential, not sub-Gaussian")
def lemma_a_5(lab: Lab) -> Check:
    r"""For $y_i = \max\{x_i^2 - \log m, 0\}$, $x_i \sim N(0,1)$:
    $\Pr[\sum_{i\le m} y_i \ge 2\sqrt m] \le e^{-\Omega(\sqrt m)}$.
    """
    m = np.array([2.0**k for k in range(6, 25, 2)])
    exponents = [excess_exponent(size) for size in m]
    small = np.array([16, 64, 256])
    trials = lab.pick(4000, 20000, 200000)
    draws = {int(size): _excesses(lab, int(size), trials) for size in small}
    return conclude(
        scales("-log of Chernoff's bound on the probability", "m", m, exponents, printed=0.5, sense="at least"),
        *(often(f"share of draws below 2 sqrt(m), m = {m}", sums < 2 * np.sqrt(m), 1 - np.exp(-excess_exponent(m)))
          for m, sums in draws.items()),
        *(law(f"E sum y, m = {size}", sums, size * excess_mean(size)) for size, sums in draws.items()),
        at_most("sqrt(m) E y <= 1", [np.sqrt(size) * excess_mean(size) for size in m], 1.0),
        note="y is sub-exponential (not sub-Gaussian), which gives the same rate",
    )  # fmt: skip


def _excesses(lab: Lab, m: int, trials: int) -> np.ndarray:
    x = lab.rng("excess", m).standard_normal((trials, m))
    return np.maximum(x**2 - np.log(m), 0).sum(axis=1)


@statement("Probability of a Gaussian near zero, between two straight lines", "bound")
@misprint("with another mean only the lower bound is true")
def fact_a_12(lab: Lab) -> Check:
    r"""For $x \sim N(0,\sigma^2)$ and $t \in (0,\sigma]$:
    $\Pr[x \ge t] \in [\tfrac12(1 - \tfrac{4t}{5\sigma}), \tfrac12(1 - \tfrac{2t}{3\sigma})]$.

    The same without the halves for $|x|$; with another mean only the lower end remains true.
    """
    t = np.linspace(1e-4, 1, lab.pick(400, 2000, 10000))
    above = stats.norm.sf(t)
    means = np.linspace(0, 5, 51)[:, None]
    either = stats.norm.sf(t, loc=means) + stats.norm.cdf(-t, loc=means)
    return conclude(
        at_least("Pr[x >= t], from below", above, (1 - 4 * t / 5) / 2),
        at_most("Pr[x >= t], from above", above, (1 - 2 * t / 3) / 2),
        at_most("Pr[|x| >= t] at mean 0, from above", 2 * above, 1 - 2 * t / 3),
        at_least("Pr[|x| >= t] at any mean, from below", either, np.broadcast_to(1 - 4 * t / 5, either.shape)),
        assumptions=("sigma = 1; the claim is invariant", "means up to 5 sigma"),
    )


@statement("Bounded differences make a function concentrate", "bound")
@misprint("both inequalities are reversed and one exponent has the wrong sign")
def lemma_a_18(lab: Lab) -> Check:
    r"""Bounded differences $c_i$ give $\Pr[f - \mathbb E f \ge t] \le e^{-2t^2/\sum c_i^2}$ and the same below."""
    found, t = [], np.linspace(0.01, 1, 60)
    for n in (1, 2, 5, 20, 100, 1000):
        for p in (0.05, 0.3, 0.5, 0.9):
            above = stats.binom.sf(np.ceil(n * (p + t) - 1e-9) - 1, n, p)
            found.append((above, stats.binom.cdf(np.floor(n * (p - t) + 1e-9), n, p), np.exp(-2 * n * t**2)))
    upper, lower, bounds = sides(found)
    empty = _empty_bins(lab, 50, lab.pick(2000, 20000, 200000))
    mean = (1 - 1 / 50) ** 50  # share of empty bins
    return conclude(
        at_most("upper tail of a mean of n coin tosses", upper, bounds),
        at_most("lower tail of a mean of n coin tosses", lower, bounds),
        *(often(f"share of empty bins within {t} of its mean", np.abs(empty - mean) < t, 1 - 2 * np.exp(-2 * 50 * t**2))
          for t in (0.1, 0.15, 0.2)),
        assumptions=("f: a mean of coin tosses (exact tails), the share of bins left empty by 50 balls (drawn)",),
    )  # fmt: skip


def _empty_bins(lab: Lab, bins: int, trials: int) -> np.ndarray:
    balls = lab.rng("bins").integers(bins, size=(trials, bins))
    hit = np.zeros((trials, bins), bool)
    hit[np.arange(trials)[:, None], balls] = True
    return 1 - hit.mean(axis=1)


def switched_mean(n: int, mu: float, rare: float) -> tuple[float, float]:
    r"""Return $\Pr[f \ge \mu/2]$ and the exception probability $p$ of a mean of $n$ tosses with rare switches.

    $f$ is the mean of $n$ tosses of rate $\mu' = \mu/\Pr[\text{kept}]$, and 0 where two of $n$ switches (each on with
    probability `rare`) are on. Where no switch is on, a change of one coordinate moves $f$ by at most $1/n$.
    """
    kept = float(stats.binom.cdf(1, n, rare))
    exceptions = 1 - (1 - rare) ** n
    return kept * float(stats.binom.sf(np.ceil(n * mu / 2 - 1e-9) - 1, n, mu / kept)), exceptions


@statement("Concentration when differences are bounded except with small probability", "scale")
@misprint("the proof prints an increment ≥ c+√p for ≥ -(c+√p)")
def lemma_a_19(lab: Lab) -> Check:
    r"""Bounded differences $c$ but for probability $p$:
    $\Pr[f \ge \mu/2] \ge 1 - N^2\sqrt p - e^{-\Omega(\mu^2/(N(c^2+p)))}$.
    """
    n = np.array([320, 640, 1280, 2560, 5120])
    mus = np.array([0.1, 0.15, 0.2, 0.3, 0.4, 0.6])

    def exponent(count: int, mu: float) -> float:  # c = 1/N, p = 0
        return -float(stats.binom.logcdf(np.ceil(count * mu / 2 - 1e-9) - 1, count, mu))

    found = []
    for count, mu, rare in itertools.product((10, 30, 100), (0.3, 0.6), (1e-14, 1e-12, 1e-9)):
        chance, p = switched_mean(count, mu, rare)
        found.append((chance, 1 - count**2 * np.sqrt(p) - np.exp(-(mu**2) / (8 * count * (1 / count**2 + p)))))
    return conclude(
        scales("-log Pr[f < mu/2] of a mean of N tosses", "N", n, [exponent(k, 0.4) for k in n], 1, sense="at least"),
        scales(
            "the same at N = 640, at most mu^2 as mu falls", "mu", mus, [exponent(640, mu) for mu in mus], 2, lower=True
        ),
        at_least("Pr[f >= mu/2] with rare switches, constant 1/8 in the exponent", *sides(found)),
        assumptions=("f: a mean of N coin tosses, c = 1/N", "with switches, two of which set f to 0"),
    )
