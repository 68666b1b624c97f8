r"""The logistic loss: gradient descent takes it to a given smaller value (Theorem 3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from wideproof.certificates.staircase import Staircase, above, below


def _psi(loss: np.ndarray, n: int) -> np.ndarray:
    r"""A lower bound of $\|p\|$ by the mean logistic loss, $p_i = 1 - e^{-\ell_i}$ (Lemma 5)."""
    concave = (1 - math.exp(-1)) * np.minimum(1, math.sqrt(n) * loss)
    return np.maximum(concave, np.maximum(-np.expm1(-n * loss) / math.sqrt(n), -np.expm1(-loss)))


def loss_integrals(low: float, high: float, n: int, cells: int = 4096) -> tuple[float, float]:
    r"""Bound $\int dL / \psi$ and $\int dL / \psi^2$ from `low` to `high` from above: $\psi$ increases.

    >>> first, second = loss_integrals(0.1, 0.2, 4)
    >>> 0 < first < second
    True
    """
    edges = np.geomspace(low, high, cells + 1)
    psi = _psi(edges[:-1], n) * (1 - 1e-12)
    steps = np.diff(edges)
    return float((steps / psi).sum()) * (1 + 1e-9), float((steps / psi**2).sum()) * (1 + 1e-9)


@dataclass(frozen=True)
class LogisticDescent:
    """What Theorem 3 concludes: gradient descent on the mean logistic loss reaches `epsilon` within `steps` steps."""

    n: int
    loss: float
    epsilon: float
    c: float
    s: float
    S: float
    staircase: Staircase
    inner: float
    eta: float
    steps: int
    first_integral: float
    second_integral: float

    @property
    def radius(self) -> float:
        """How far from the anchor gradient descent can get before it has reached `epsilon`."""
        return self.staircase.radii[-1]


def logistic_descent(
    n: int, loss: float, epsilon: float, s: float, S: float,
    constant_at: Callable[[float], float], *, c: float = 0.5, kink: float = math.inf,
) -> LogisticDescent | None:  # fmt: skip
    """Return what Theorem 3 concludes for this `epsilon`, or `None`; the ball must stay below the radius `kink`."""
    if not (0 < epsilon < loss and s > 0):
        return None
    first, second = loss_integrals(epsilon, loss, n)
    needed = n * first / c
    for growth in (1.0 + 1e-9, 1.02, 1.1, 1.3, 1.7, 2.0):
        inner = growth * needed / s
        outer = inner * (1 + 1e-9)
        for _ in range(4):
            if outer >= kink:
                break
            stairs = Staircase((inner, outer), (constant_at(inner), constant_at(outer)))
            m, _ = stairs.integrals()
            if m > Fraction(s):
                break
            b = above(Fraction(S) + m)
            curve = (b * b / 4 + stairs.constants[1] * math.sqrt(n * min(1.0, loss))) / n
            eta = 2 * (1 - c) / curve * (1 - 1e-12)
            reach = inner + eta * b * math.sqrt(loss / n) * (1 + 1e-9)
            if reach > stairs.radii[1]:
                outer = reach * (1 + 1e-6)
                continue
            m1, whole = stairs.integrals(1)
            if Fraction(s) * Fraction(inner) - whole < Fraction(n) * Fraction(first) / Fraction(c):
                break
            sigma = below(Fraction(s) - m1)
            steps = math.ceil(n * n * second / (c * eta * sigma**2) * (1 + 1e-12))
            return LogisticDescent(n, loss, epsilon, c, s, S, stairs, inner, eta, steps, first, second)
    return None


def least_loss(
    n: int, loss: float, s: float, S: float,
    constant_at: Callable[[float], float], kink: float = math.inf,
) -> LogisticDescent | None:  # fmt: skip
    """Return the conclusion of Theorem 3 for the least loss that it reaches, by bisection in its logarithm."""
    exponents: Sequence[float] = np.linspace(-1e-3, -25, 60).tolist()
    best = None
    low, high = 0.0, None
    for e in exponents:
        found = logistic_descent(n, loss, loss * math.exp(e), s, S, constant_at, kink=kink)
        if found is None:
            high = e
            break
        best, low = found, e
    for _ in range(12):
        if high is None or best is None:
            break
        middle = (low + high) / 2
        found = logistic_descent(n, loss, loss * math.exp(middle), s, S, constant_at, kink=kink)
        best, low, high = (found, middle, high) if found else (best, low, middle)
    return best
