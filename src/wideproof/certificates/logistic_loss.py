r"""The logistic loss: gradient descent takes it to a given smaller value (Theorem 3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from jaxtyping import Float

from wideproof.certificates.staircase import Staircase, above, below


def _psi(loss: Float[np.ndarray, "k"], n: int) -> Float[np.ndarray, "k"]:
    r"""A lower bound of $\|p\|$ by the mean logistic loss, $p_i = 1 - e^{-\ell_i}$ (Lemma 5)."""
    concave = (1 - math.exp(-1)) * np.minimum(1, math.sqrt(n) * loss)
    return np.maximum(concave, np.maximum(-np.expm1(-n * loss) / math.sqrt(n), -np.expm1(-loss)))


def slopes(loss: float, n: int) -> tuple[float, float]:
    r"""Bound $\|p\|$ and $\ell''$ by the mean logistic loss: $(n q (1 - e^{-L}))^{1/2}$ and $q (1 - q)$ or 1/4.

    Every $p_i = |\ell_i'|$ is at most $q = 1 - e^{-nL}$, and their mean at most $1 - e^{-L}$.

    >>> small, large = slopes(0.01, 4), slopes(2.0, 4)
    >>> round(small[0], 3), round(small[1], 3), round(large[1], 3)
    (0.04, 0.038, 0.25)
    """
    q = -math.expm1(-n * loss)
    bend = q * (1 - q) if q < 0.5 else 0.25
    return math.sqrt(-n * q * math.expm1(-loss)) * (1 + 1e-12), bend * (1 + 1e-12)


def loss_integrals(low: float, high: float, n: int, cells: int = 4096) -> tuple[float, float]:
    r"""Bound $\int dL / \psi$ and $\int dL / \psi^2$ from `low` to `high` from above: $\psi$ increases.

    >>> first, second = loss_integrals(0.1, 0.2, 4)
    >>> 0 < first < second
    True
    """
    edges = np.geomspace(low, high, cells + 1)
    psi = _psi(edges[:-1], n) * (1 - 1e-12)
    steps = np.diff(edges)
    with np.errstate(divide="ignore"):  # the square of a very small ψ is 0, and the integral infinite
        return float((steps / psi).sum()) * (1 + 1e-9), float((steps / psi**2).sum()) * (1 + 1e-9)


@dataclass(frozen=True)
class LogisticDescent:
    """What Theorem 3 concludes: gradient descent on the mean logistic loss reaches `epsilon` within `steps` steps.

    From the anchor, whose loss is `loss`, and from every start within `distance` of it.
    """

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
    distance: float = 0.0

    @property
    def radius(self) -> float:
        """How far from the anchor gradient descent can get before it has reached `epsilon`."""
        return self.staircase.radii[-1]


def logistic_descent(
    n: int, loss: float, epsilon: float, s: float, S: float,
    constant_at: Callable[[float], float], *, c: float = 0.5, kink: float = math.inf, eta: float | None = None,
    distance: float = 0.0,
) -> LogisticDescent | None:  # fmt: skip
    r"""Return what Theorem 3 concludes for this `epsilon`, or `None`; the ball must stay below the radius `kink`.

    By default the step size is $2(1 - c)/\beta$. For a given `eta` it is $c = 1 - \eta\beta/2$ that follows. From
    starts within `distance` the loss is at most $L_0 + b\,\epsilon/\sqrt n$ with $b \le S + s$.

    >>> found = logistic_descent(4, 0.5, 0.4, 1.0, 1.0, lambda radius: 0.01, eta=8.0, distance=0.01)
    >>> round(found.c, 2), found.inner > 0.01
    (0.72, True)
    """
    if not (0 < epsilon < loss and s > 0):
        return None
    most = loss + (S + s) * distance / math.sqrt(n) * (1 + 1e-9)
    first, second = loss_integrals(epsilon, most, n)
    if not math.isfinite(second):
        return None
    size, bend = slopes(most, n)
    for growth in (1.0 + 1e-9, 1.02, 1.1, 1.3, 1.7, 2.0):
        share = c if eta is None else 1 - eta * bend * S * S / (2 * n)
        outer = 0.0
        for _ in range(4 if eta is None else 16):
            if not share > 0:
                break
            inner = distance * (1 + 1e-9) + growth * n * first / (share * s)
            outer = max(outer, inner * (1 + 1e-9))
            if outer >= kink:
                break
            stairs = Staircase((inner, outer), (constant_at(inner), constant_at(outer)))
            m, _ = stairs.integrals()
            if m > Fraction(s):
                break
            b = above(Fraction(S) + m)
            curve = (bend * b * b + stairs.constants[1] * size) / n
            step = 2 * (1 - share) / curve * (1 - 1e-12) if eta is None else eta
            reach = inner + step * b * size / n * (1 + 1e-9)
            steep = eta is not None and share > 1 - eta * curve / 2 * (1 + 1e-12)
            if steep or reach > stairs.radii[1]:  # a larger ball is steeper, and what is steeper needs a larger ball
                share = 1 - step * curve / 2 * (1 + 1e-3) if steep else share
                outer = max(outer, reach * (1 + (1e-6 if eta is None else 1e-3)))
                continue
            m1, whole = stairs.integrals(1)
            room = Fraction(s) * (Fraction(inner) - Fraction(distance)) - whole
            if room < Fraction(n) * Fraction(first) / Fraction(share):
                break
            sigma = below(Fraction(s) - m1)
            steps = math.ceil(n * n * second / (share * step * sigma**2) * (1 + 1e-12))
            return LogisticDescent(n, loss, epsilon, share, s, S, stairs, inner, step, steps, first, second, distance)
    return None


def least_loss(
    n: int, loss: float, s: float, S: float, constant_at: Callable[[float], float], *, kink: float = math.inf,
    eta: float | None = None, distance: float = 0.0,
) -> LogisticDescent | None:  # fmt: skip
    """Return the conclusion of Theorem 3 for the least loss that it reaches, by bisection in its logarithm."""

    def look(exponent: float) -> LogisticDescent | None:
        low = loss * math.exp(exponent)
        return logistic_descent(n, loss, low, s, S, constant_at, kink=kink, eta=eta, distance=distance)

    exponents: Sequence[float] = np.linspace(-1e-3, -25, 60).tolist()
    best = None
    low, high = 0.0, None
    for e in exponents:
        found = look(e)
        if found is None:
            high = e
            break
        best, low = found, e
    for _ in range(12):
        if high is None or best is None:
            break
        middle = (low + high) / 2
        found = look(middle)
        best, low, high = (found, middle, high) if found else (best, low, middle)
    return best
