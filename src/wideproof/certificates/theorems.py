r"""The theorems as exact arithmetic on their claims.

A claim is a float64 number. What follows from claims by sums and products is computed with rational numbers and
rounded in the safe direction, so a conclusion is true whenever the claims are.

Theorem 1 (descent). $J$ is $\Lambda_j$-Lipschitz on the ball of radius $t_j$; $M(t) = \int_0^t \Lambda$ is the
integral of a staircase and $\varphi(t) = \rho - s t + \int_0^t M$. If $M(R) \le s$ and $\varphi(R) < 0$ at $R = t_J$,
then for every $0 < \eta \le 1/b^2$ gradient descent never leaves the ball, and
$\|r_{k+1}\| \le (1 - \eta \sigma^2) \|r_k\|$ with $\sigma = s - M(R)$, $b = S + M(R)$.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

CELLS = (1, 8, 64, 512)  # steps of the staircase that are tried, one after the other


def below(value: Fraction) -> float:
    """Return the largest float that does not exceed `value`.

    >>> below(Fraction(1, 3)) <= Fraction(1, 3) < math.nextafter(below(Fraction(1, 3)), 1)
    True
    """
    near = float(value)
    return near if Fraction(near) <= value else math.nextafter(near, -math.inf)


def above(value: Fraction) -> float:
    """Return the smallest float that is not below `value`.

    >>> above(Fraction(1, 4))
    0.25
    """
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


class Staircase(NamedTuple):
    r"""Radii $t_1 < \dots < t_J$ and a Lipschitz constant $\Lambda_j$ of the Jacobian on each ball."""

    radii: tuple[float, ...]
    constants: tuple[float, ...]

    def integrals(self, cells: int | None = None) -> tuple[Fraction, Fraction]:
        r"""Return $M$ and $\int M$ at the end of the first `cells` cells.

        >>> Staircase((2.0,), (3.0,)).integrals()
        (Fraction(6, 1), Fraction(6, 1))
        """
        m = whole = t = Fraction(0)
        for end, constant in list(zip(self.radii, self.constants, strict=True))[:cells]:
            step, slope = Fraction(end) - t, Fraction(constant)
            whole += m * step + slope * step * step / 2
            m += slope * step
            t = Fraction(end)
        return m, whole


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


def climb(rho: float, s: float, constant_at: Callable[[float], float]) -> Staircase | None:
    r"""Look for radii at which Theorem 1 holds: one constant if that suffices, else ever finer staircases.

    `constant_at(R)` is a Lipschitz constant on the ball of radius R, non-decreasing in R.

    >>> climb(0.5, 1.0, lambda radius: 0.5).constants
    (0.5,)
    """
    if not s > 0:
        return None
    if rho == 0:
        rho = 1e-300
    for cells in CELLS:
        found = _one_constant(rho, s, constant_at) if cells == 1 else _stairs(rho, s, constant_at, cells)
        if found is not None:
            return found
    return None


def _one_constant(rho: float, s: float, constant_at: Callable[[float], float]) -> Staircase | None:
    radius, best = 2 * rho / s, None
    for _ in range(6):
        constant = constant_at(radius)
        square = s * s - 2 * constant * rho
        if not square > 0:
            return best
        root = math.sqrt(square)
        smallest = 2 * rho / (s + root)
        # Between the two zeros of the parabola, near the first.
        wider = smallest + min(1e-6 * smallest, 0.1 * root / constant if constant > 0 else math.inf)
        if wider > radius:
            return best
        best = Staircase((wider,), (constant_at(wider),))
        if wider >= radius * (1 - 1e-6):
            return best
        radius = wider
    return best


def _stairs(rho: float, s: float, constant_at: Callable[[float], float], cells: int) -> Staircase | None:
    step = 2 * rho / s / cells
    m = whole = 0.0
    radii, constants = [], []
    for j in range(1, 2 * cells + 1):
        radii.append(j * step)
        constants.append(constant_at(radii[-1]))
        whole += m * step + constants[-1] * step * step / 2
        m += constants[-1] * step
        if m > s:
            return None
        if rho - s * radii[-1] + whole < -1e-12 * rho:
            return Staircase(tuple(radii), tuple(constants))
    return None


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


class NestedSets(NamedTuple):
    r"""What is known at the start of a network with one hidden layer whose output weights are trained too."""

    scale: float
    lipschitz: float
    smoothness: float
    inputs: float  # the spectral norm of all inputs
    longest: float  # the longest input
    largest: float  # the largest output weight
    row: float  # the largest norm of a unit's activations over the examples


def nested(rho: float, s: float, known: NestedSets, cells: int = 2000) -> tuple[Staircase, tuple[float, ...]] | None:
    r"""Run Theorem 1 on sets in which every single output weight stays small, and return the bounds $A_j$ as well.

    Along the path $|\delta a_j| \le \bar a$, from the time integral $\sum \eta \|r_k\| \le \int dt / (s - M)$.
    """
    q = known.scale * known.inputs * known.lipschitz
    p = known.scale * known.inputs * known.longest * known.smoothness
    step = 2 * rho / s / cells
    m = whole = time = 0.0
    radii, constants, bounds = [], [], []
    cap = known.largest
    for j in range(1, 2 * cells + 1):
        t = j * step
        for _ in range(60):
            constant = (p * cap / 2 + math.hypot(p * cap / 2, q)) * (1 + 1e-12)
            next_m = m + constant * step
            if not next_m < s:
                return None
            next_time = time + step / (s - next_m)
            moved = min(t, known.scale * cap * known.lipschitz * known.inputs * next_time)
            needed = known.scale * (known.row + known.lipschitz * known.inputs * moved) * next_time
            wanted = (known.largest + min(t, needed)) * (1 + 1e-9)
            if cap > wanted * (1 - 1e-10):
                break
            cap = wanted * (1 + 1e-8)
        else:
            return None
        whole += m * step + constant * step * step / 2
        m, time = next_m, next_time
        radii.append(t)
        constants.append(constant)
        bounds.append(cap)
        if rho - s * t + whole < -1e-12 * rho:
            return Staircase(tuple(radii), tuple(constants)), tuple(bounds)
    return None


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
        outer = inner
        for _ in range(4):
            if outer >= kink:
                break
            stairs = Staircase((inner, max(outer, inner * (1 + 1e-9))), (constant_at(inner), constant_at(outer)))
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
