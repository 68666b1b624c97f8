r"""The widths that Section 5 asks for: condition (5.1), and how the later choices of $\beta$, $s$, $\tau$ meet it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq

from wideproof.papers.check import Check, at_most, conclude, identity
from wideproof.papers.statement import Section, misprint
from wideproof.papers.zou2018.lab import Lab

statement = Section("hypothesis", "relu")


def _width(log_failure: Callable[[float], float], delta: float) -> float:
    r"""Return the width at which a failure probability, given by its logarithm, is $\delta$."""
    root: Any = brentq(lambda log_m: log_failure(float(np.exp(log_m))) - np.log(delta), -20.0, 80.0)
    return float(np.exp(root))


def _pairs(n: int, depth: int, phi: float, beta: float, delta: float) -> list[tuple[float, float]]:
    """Return for each condition of (5.1) the solved and the printed size, the missing term added to the third."""
    log, net = np.log(n**2 * depth / delta), n * np.log(n**2 / phi)
    return [
        (_width(lambda m: np.log(n**2 * depth) - m * phi**4 / depth**4, delta), depth**4 / phi**4 * log),
        (_width(lambda m: np.log(n * depth) - m**1.5 * beta, delta), (np.log(n * depth / delta) / beta) ** (2 / 3)),
        (_width(lambda s: np.log(n * depth**2) - s, delta), np.log(n * depth**2 / delta)),
        (_width(lambda m: net - m * phi / n, delta), n**2 / phi * np.log(n**2 / phi) + n / phi * np.log(1 / delta)),
    ]


@statement("How wide, how sparse and how separated Theorem 5.1 wants things to be", "exact")
@misprint("a term n φ⁻¹ log(1/δ) is missing for very small δ")
def eq_5_1(lab: Lab) -> Check:
    r"""$m \ge C\max\{L^4\phi^{-4}\log\frac{n^2L}\delta, (\beta^{-1}\log\frac{nL}\delta)^{2/3},
    n^2\phi^{-1}\log\frac{n^2}\phi\}$ and $s \ge C\log\frac{nL^2}\delta$.

    Each term is the width at which the union bound of its lemma comes down to $\delta$: solved here, with the constants
    in the exponents put to 1. The third comes from a net of $(n^2/\phi)^n$ points and has $\delta$ in it as well.
    """
    rng, found, third = lab.rng("conditions"), [], []
    for _ in range(lab.pick(40, 200, 1000)):
        n, depth = int(rng.integers(4, 200)), int(rng.integers(1, 40))
        phi, beta, delta = (10 ** rng.uniform(low, -0.3) for low in (-3, -3, -2))
        found += _pairs(n, depth, phi, beta, delta)
        third.append((n / phi * np.log(1 / delta), n**2 / phi * np.log(n**2 / phi)))
    solved, closed = np.array(found).T
    return conclude(
        identity("widths at which the union bounds come down to δ", solved / closed, 1.0, tolerance=1e-9),
        at_most("the missing term n φ⁻¹ log(1/δ), against the third one, δ >= 0.01", *np.array(third).T),
        assumptions=("n in [4, 200), L in [1, 40), φ and β from 0.001, δ from 0.01; constants 1",),
    )


@Section("initialization", "relu")(
    "The values of β, s and τ that the proofs use later, and why the final width satisfies (5.1)", "bound"
)
def remark_5_2(lab: Lab) -> Check:
    r"""$\beta = L^{4/3}\tau^{2/3}m^{-1/2}$, $s = L^{4/3}\tau^{2/3}m$ and $\tau = n^{-9}L^{-17}\phi^3$ turn (5.1) into
    $m \ge n^6L^{10}\phi^{-2}$ and less, which the widths of the theorems are.

    Powers of $n$, $L$ and $\phi$, logarithms left out.
    """
    tau, layers = np.array([-9.0, -17.0, 3.0]), np.array([0.0, 1.0, 0.0])
    # s >= 1 is L^{4/3} τ^{2/3} m >= 1; β^{-2/3} <= m is L^{-8/9} τ^{-4/9} m^{1/3} <= m
    from_s = -(4 / 3 * layers + 2 / 3 * tau)
    from_beta = (-8 / 9 * layers - 4 / 9 * tau) * 3 / 2
    terms = np.array([[0.0, 4.0, -4.0], from_s, [2.0, 0.0, -1.0]])
    widths = np.array([[26.0, 38.0, -8.0], [25.0, 38.0, -8.0]])  # Theorem 4.1 with ε = ℓ(0)/n, p >= 1/2
    sign = np.array([1.0, 1.0, -1.0])  # φ is below 1
    return conclude(
        identity("the conditions on β and on s are the same", from_beta, from_s),
        identity("they are m >= n⁶ L^10 φ^-2", from_s, [6.0, 10.0, -2.0]),
        at_most("powers of n, L, 1/φ in (5.1), against those of the width", (terms * sign)[:, None], widths * sign),
    )
