"""The exponent of a power law from measurements, with an interval that says how well they fix it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from wideproof.answers import Answer
from wideproof.errors import InputError
from wideproof.statistics import line_slope, mean_slope

Sense = Literal["at most", "at least", "equal"]
LEAST_POINTS = 3


@dataclass(frozen=True)
class Slope:
    r"""A fitted exponent $s$ of $y \sim x^s$ beside the printed one.

    Attributes
    ----------
    variable
        Name of `x`, such as `"m"`.
    x
        The points.
    y
        One value for each point, or one row for each draw.
    value
        The fitted exponent.
    low
        Lower end of its 95 % interval: over independent draws if `y` has three or more rows, otherwise from the scatter
        around the line.
    high
        Upper end of the interval.
    printed
        The exponent in the paper.
    sense
        Whether the exponent should be `"at most"`, `"at least"` or `"equal"` to the printed one.
    allowance
        How much a fit over a finite range may differ from the printed exponent.
    """

    variable: str
    x: np.ndarray
    y: np.ndarray
    value: float
    low: float
    high: float
    printed: float
    sense: Sense
    allowance: float

    def __str__(self) -> str:
        return (
            f"exponent in {self.variable} {self.value:.2f} [{self.low:.2f}, {self.high:.2f}], "
            f"printed {'' if self.sense == 'equal' else self.sense + ' '}{self.printed:g}"
        )

    def verdict(self) -> Answer:
        """Return whether the exponent is as printed or better; undecided when the interval covers the limit."""
        top, bottom = self.printed + self.allowance, self.printed - self.allowance
        above = self.low > top if self.sense != "at least" else False
        below = self.high < bottom if self.sense != "at most" else False
        if above or below:
            return Answer.FAILS
        inside_top = self.high <= top or self.sense == "at least"
        inside_bottom = self.low >= bottom or self.sense == "at most"
        return Answer.HOLDS if inside_top and inside_bottom else Answer.UNDECIDED

    def room(self) -> float:
        """Return how far the fitted exponent is from the nearest limit; positive inside."""
        up, down = self.printed + self.allowance - self.value, self.value - self.printed + self.allowance
        return float({"at most": up, "at least": down, "equal": min(up, down)}[self.sense])

    def constant(self) -> float:
        r"""Return the largest $y / x^s$ for the printed exponent $s$, with all other factors of the bound in it."""
        return float(np.max(self.y / self.x**self.printed))

    def below(self, factor: float) -> str:
        r"""Say that no value exceeds a factor times $x^s$ with the printed exponent $s$.

        Parameters
        ----------
        factor
            The factor.

        Returns
        -------
        str
            The inequality.

        Examples
        --------
        >>> x = np.array([1.0, 4.0, 16.0])
        >>> fit_slope("m", x, 3 * x**0.5, 0.5).below(3.0), fit_slope("kη", x, 3 * x, 1.0).below(3.0)
        ('all values <= 3 m^0.5', 'all values <= 3 (kη)')
        """
        plain = re.fullmatch(r"([a-z]{2,}|[^\W\d_])\d?", self.variable)
        name = self.variable if plain else f"({self.variable})"
        power = {0.0: "", 1.0: f" {name}"}.get(self.printed, f" {name}^{self.printed:.3g}")
        return f"all values <= {factor:.3g}{power}"


def fit_slope(
    variable: str, x: ArrayLike, y: ArrayLike, printed: float, sense: Sense = "at most", allowance: float = 0.1
) -> Slope | None:
    """Fit the exponent by least squares in logarithms; None if fewer than three points are positive and finite.

    With three or more draws every draw is fitted by itself and the interval is Student's over draws. Where a draw has
    a zero (a count can), the mean over draws is fitted instead.
    """
    points, values = np.asarray(x, float), np.atleast_2d(np.asarray(y, float))
    if points.ndim != 1 or values.ndim != 2 or values.shape[1] != points.size:
        raise InputError(f"a slope needs one value per point: {points.shape} points, values {values.shape}")
    if not np.isfinite(values).all() or not np.isfinite(points).all() or (points <= 0).any() or (values < 0).any():
        return None
    kept = values.mean(axis=0) > 0
    points, values = points[kept], values[:, kept]
    if np.unique(points).size < LEAST_POINTS:
        return None
    if values.shape[0] < LEAST_POINTS or (values == 0).any():
        value, low, high = line_slope(points, values.mean(axis=0))
    else:
        value, low, high = mean_slope(points, values)
    return Slope(variable, points, values, value, low, high, float(printed), sense, allowance)
