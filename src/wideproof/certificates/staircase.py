r"""Lipschitz constants on balls of growing radius, and the search for radii at which Theorem 1 holds.

A claim is a float64 number. What follows from claims by sums and products is computed with rational numbers and
rounded in the safe direction, so a conclusion is true whenever the claims are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

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
    r"""Radii $t_1 < \dots < t_J$ and a Lipschitz constant $\Lambda_j$ of the Jacobian on each ball.

    With `caps` $A_j$ the sets are smaller than balls: every single output weight is at most $A_j$ there.

    Attributes
    ----------
    radii
        The radii $t_j$, in ascending order.
    constants
        The constants $\Lambda_j$.
    caps
        The bounds $A_j$ of single output weights; `None` for whole balls.
    """

    radii: tuple[float, ...]
    constants: tuple[float, ...]
    caps: tuple[float, ...] | None = None

    def integrals(self, cells: int | None = None) -> tuple[Fraction, Fraction]:
        r"""Return $M$ and $\int M$ at the end of the first `cells` cells.

        Parameters
        ----------
        cells
            Number of cells; by default all.

        Returns
        -------
        tuple[Fraction, Fraction]
            $M$ and its integral.

        Examples
        --------
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
    if 2 * constant_at(0.0) * rho >= s * s:  # then no constant at any radius is small enough
        return None
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
