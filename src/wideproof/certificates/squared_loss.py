r"""The squared loss: gradient descent converges (Theorem 1), and weights with zero loss exist (Theorem 2).

Theorem 1. $J$ is $\Lambda_j$-Lipschitz on the ball of radius $t_j$; $M(t) = \int_0^t \Lambda$ is the integral of a
staircase and $\varphi(t) = \rho - s t + \int_0^t M$. If $M(R) \le s$ and $\varphi(R) < 0$ at $R = t_J$, then for every
$0 < \eta \le 1/b^2$ gradient descent never leaves the ball, and $\|r_{k+1}\| \le (1 - \eta \sigma^2) \|r_k\|$ with
$\sigma = s - M(R)$, $b = S + M(R)$.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from wideproof.certificates.staircase import Staircase, above, below


@dataclass(frozen=True)
class Descent:
    r"""What Theorem 1 concludes.

    Attributes
    ----------
    h : the proof ratio $\Lambda \rho / s^2$ at the outermost radius; below 1/2 one constant suffices.
    sigma, b : bounds of the Jacobian's singular values along the whole path.
    eta : the step size; `rate` : $\eta \sigma^2$, the share of the residual that every step removes at least.
    steps : after which the loss is at most `epsilon`.
    """

    rho: float
    s: float
    S: float
    staircase: Staircase
    h: float
    sigma: float
    b: float
    eta: float
    rate: float
    epsilon: float
    steps: int

    @property
    def radius(self) -> float:
        """How far from the anchor gradient descent can get."""
        return self.staircase.radii[-1]

    def bound(self, step: int | np.ndarray) -> np.ndarray:
        """Return the proven bound of the loss after so many steps."""
        return 0.5 * np.square(self.rho * np.power(1 - self.rate, step))


def proof_ratio(rho: float, s: float, constant: float) -> float:
    r"""Return $h = \Lambda \rho / s^2$, rounded up; infinite if $s = 0$.

    >>> proof_ratio(0.5, 1.0, 0.5)
    0.25
    """
    return above(Fraction(constant) * Fraction(rho) / Fraction(s) ** 2) if s > 0 else math.inf


def descent(
    rho: float,
    s: float,
    S: float,
    staircase: Staircase,
    *,
    eta: float | None = None,
    epsilon: float = 1e-12,
) -> Descent | None:
    """Return what Theorem 1 concludes from these claims, or `None` if its conditions fail.

    >>> found = descent(0.5, 1.0, 2.0, Staircase((1.0,), (0.5,)))
    >>> (found.h, found.sigma, found.b, found.eta) if found else None
    (0.25, 0.5, 2.5, 0.15999999999999998)
    >>> descent(1.0, 1.0, 2.0, Staircase((1.0,), (0.5,))) is None
    True
    """
    m, whole = staircase.integrals()
    if not (s > 0 and m <= Fraction(s)):
        return None
    radius = Fraction(staircase.radii[-1])
    if not Fraction(rho) - Fraction(s) * radius + whole < 0:
        return None
    sigma, b = below(Fraction(s) - m), above(Fraction(S) + m)
    if not sigma > 0:
        return None
    largest = below(1 / Fraction(b) ** 2)
    eta = largest if eta is None else eta
    if not 0 < eta <= largest:
        return None
    rate = below(Fraction(eta) * Fraction(sigma) ** 2)
    h = proof_ratio(rho, s, staircase.constants[-1])
    return Descent(rho, s, S, staircase, h, sigma, b, eta, rate, epsilon, steps_to(rho, rate, epsilon))


def steps_to(rho: float, rate: float, epsilon: float) -> int:
    r"""Return how many steps bring the residual from $\rho$ under $\sqrt{2 \varepsilon}$.

    >>> steps_to(1.0, 0.5, 0.5), steps_to(1.0, 0.5, 1 / 32)
    (0, 2)
    """
    target = 2 * Fraction(epsilon)
    if Fraction(rho) ** 2 <= target:
        return 0
    if rate >= 1:
        return 1
    count = max(0.0, math.log(rho / math.sqrt(2 * epsilon))) / -math.log1p(-rate)
    steps = max(1, math.ceil(count))
    if steps - count > 1e-9 * count:
        return steps
    # A tie: rounding decides nothing, exact arithmetic does where it is affordable.
    exact = steps <= 64 and (Fraction(rho) * (1 - Fraction(rate)) ** steps) ** 2 <= target
    return steps if exact else steps + 1


@dataclass(frozen=True)
class Existence:
    r"""What Theorem 2 concludes: a network with zero loss lies within `radius` of the anchor.

    Attributes
    ----------
    distance : $D \ge \sqrt{r^\top G^{-1} r}$, the length of the first Newton step.
    h : $h' = \Lambda D / s < 1/2$.
    """

    s: float
    distance: float
    staircase: Staircase
    h: float
    radius: float


def existence(s: float, distance: float, constant_at: Callable[[float], float]) -> Existence | None:
    """Return what Theorem 2 concludes, or `None`.

    >>> found = existence(1.0, 0.5, lambda radius: 0.5)
    >>> found.h if found else None
    0.25
    """
    if not (s > 0 and math.isfinite(distance)):
        return None
    constant = constant_at(2 * distance)
    h = above(Fraction(constant) * Fraction(distance) / Fraction(s))
    if not h < 0.5:
        return None
    radius = 2 * distance / (1 + math.sqrt(1 - 2 * h)) * (1 + 1e-12)
    return Existence(s, distance, Staircase((max(2 * distance, radius),), (constant,)), h, radius)
