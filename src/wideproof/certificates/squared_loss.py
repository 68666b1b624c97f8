r"""The squared loss: gradient descent converges (Theorem 1), and weights with zero loss exist (Theorem 2).

Theorem 1. $J$ is $\Lambda_j$-Lipschitz on the ball of radius $t_j$; $M(t) = \int_0^t \Lambda$ is the integral of a
staircase and $\varphi(t) = \rho - s t + \int_0^t M$. If $M(R) \le s$ and $\varphi(R) < 0$ at $R = t_J$, then for every
$0 < \eta \le 1/b^2$ gradient descent never leaves the ball, and $\|r_{k+1}\| \le (1 - \eta \sigma^2) \|r_k\|$ with
$\sigma = s - M(R)$, $b = S + M(R)$. For $1/b^2 < \eta < 2/(b^2 + s^2)$ the same holds with
$\kappa s$ in place of $s$ in both conditions, and the rate $\eta \sigma (\kappa s - M(R))$. Where $J$ also jumps,
within $D/2$ of the one that s and S belong to and by at most D on a step, $M(R) + D/2$ takes the place of $M(R)$,
$\varphi(R)$ grows by $\tfrac32 D R$, and the rate is $\eta \sigma (\kappa s - M(R) - \tfrac32 D)$ (`jumps`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from jaxtyping import Float, Int

from wideproof.certificates.staircase import Staircase, above, below

ROUNDS = 32  # of making the ball larger for a step size beyond 1/b²


@dataclass(frozen=True)
class Convergence:
    r"""What Theorem 1 concludes.

    Attributes
    ----------
    h
        The proof ratio $\Lambda \rho / (\kappa s)^2$ at the outermost radius; below 1/2 one constant suffices.
    sigma, b
        Bounds of the Jacobian's singular values along the whole path.
    eta
        The step size
    kappa
        The share of s that it leaves, 1 up to $1/b^2$.
    rate
        $\eta \sigma (\kappa s - M(R))$, the share of the residual that every step removes at least.
    jump
        How far apart two Jacobians can be beyond what the staircase says: D, 0 without kinks.
    steps
        After which the loss is at most `epsilon`.
    """

    rho: float
    s: float
    S: float
    staircase: Staircase
    h: float
    sigma: float
    b: float
    eta: float
    kappa: float
    rate: float
    epsilon: float
    steps: int
    jump: float = 0.0

    @property
    def radius(self) -> float:
        """How far from the anchor gradient descent can get."""
        return self.staircase.radii[-1]

    def bound(self, step: int | Int[np.ndarray, "*k"]) -> Float[np.ndarray, "*k"]:
        """Return the proven bound of the loss after so many steps."""
        return np.asarray(0.5 * np.square(self.rho * np.power(1 - self.rate, step)))


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
    jump: float = 0.0,
) -> Convergence | None:
    """Return what Theorem 1 concludes from these claims, or `None` if its conditions fail.

    >>> found = descent(0.5, 1.0, 2.0, Staircase((1.0,), (0.5,)))
    >>> (found.h, found.sigma, found.b, found.eta) if found else None
    (0.25, 0.5, 2.5, 0.15999999999999998)
    >>> descent(1.0, 1.0, 2.0, Staircase((1.0,), (0.5,))) is None
    True
    """
    (m, whole), leap = staircase.integrals(), Fraction(jump)
    m, whole = m + leap / 2, whole + 3 * leap / 2 * Fraction(staircase.radii[-1])
    if not (s > 0 and m + leap < Fraction(s)):
        return None
    sigma, b = below(Fraction(s) - m), above(Fraction(S) + m)
    eta = below(1 / Fraction(b) ** 2) if eta is None else eta
    if not 0 < eta < math.inf:
        return None
    share = kappa(eta, b, s)
    pull = Fraction(share) * Fraction(s)
    if not Fraction(rho) - pull * Fraction(staircase.radii[-1]) + whole < 0:
        return None
    rate = below(Fraction(eta) * Fraction(sigma) * Fraction(below(pull - m - leap)))
    if not rate > 0:
        return None
    h = proof_ratio(rho, below(pull), staircase.constants[-1])
    return Convergence(rho, s, S, staircase, h, sigma, b, eta, share, rate, epsilon, steps_to(rho, rate, epsilon), jump)


def find_descent(
    rho: float,
    s: float,
    S: float,
    search: Callable[[float], Staircase | None],
    *,
    eta: float | None = None,
    epsilon: float = 1e-12,
) -> Convergence | None:
    r"""Look for radii from which Theorem 1 concludes, at this step size or at $1/b^2$; `None` if there are none.

    `search(pull)` looks for radii with $\rho - \text{pull}\, t + \int_0^t M < 0$. Beyond $1/b^2$ a larger ball leaves
    less of s and less of s needs a larger ball, until both fit or nothing is left.

    >>> from wideproof.certificates.staircase import climb
    >>> def search(pull):
    ...     return climb(0.5, pull, lambda radius: 0.25)
    >>> found = find_descent(0.5, 1.0, 2.0, search, eta=0.25)
    >>> (round(found.kappa, 3), round(found.radius, 3), round(found.b, 3)) if found else None
    (0.986, 0.545, 2.136)
    >>> find_descent(0.5, 1.0, 2.0, search, eta=0.4) is None
    True
    """
    share = 1.0
    for _ in range(ROUNDS):
        stairs = search(share * s)
        if stairs is None:
            return None
        found = descent(rho, s, S, stairs, eta=eta, epsilon=epsilon)
        if found is not None or eta is None:
            return found
        less = kappa(eta, above(Fraction(S) + stairs.integrals()[0]), s)
        if not 0 < less < share:
            return None
        share = less
    return None


def kappa(eta: float, b: float, s: float) -> float:
    r"""Return the share of s that a step size leaves, rounded down: 1 up to $1/b^2$, 0 from $2/(b^2 + s^2)$ on.

    Between them $\kappa^2 = \beta (2 - \beta - \varepsilon) / (1 - \beta \varepsilon)$ with $\beta = \eta b^2$ and
    $\varepsilon = \eta s^2$.

    >>> kappa(0.25, 2.0, 1.0), round(kappa(0.375, 2.0, 1.0), 3), kappa(0.4, 2.0, 1.0)
    (1.0, 0.655, 0.0)
    """
    beta, epsilon = Fraction(eta) * Fraction(b) ** 2, Fraction(eta) * Fraction(s) ** 2
    if beta <= 1:
        return 1.0
    if beta + epsilon >= 2:
        return 0.0
    square = beta * (2 - beta - epsilon) / (1 - beta * epsilon)
    root = math.sqrt(below(square))
    return root if Fraction(root) ** 2 <= square else math.nextafter(root, 0)


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
    distance
        $D \ge \sqrt{r^\top G^{-1} r}$, the length of the first Newton step.
    h
        $h' = \Lambda D / s < 1/2$.
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
