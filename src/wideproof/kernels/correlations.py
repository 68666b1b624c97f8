r"""Correlations of rows, and how far they are from 1, to twice the digits of the arithmetic.

ReLU kernels have a kink at $\rho = \pm 1$: near it the angle matters, the square root of the gap $1 - |\rho|$, and
a gap rounded to $10^{-16}$ is an angle off by $10^{-8}$.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from wideproof.kernels.contraction import AnyArray

Rows = TypeVar("Rows", bound=AnyArray)


def directions(x: Rows) -> dict[str, Rows]:
    """Return rows of norm 1 and the norms, computed where the rows are; a row of zeros stays zero."""
    xp = x.__array_namespace__()
    norm = xp.sqrt(xp.sum(xp.square(x), axis=-1))
    return {"x": x / xp.where(norm > 0, norm, 1)[..., None], "norm": norm}


def leading_bits(x: Rows) -> dict[str, Rows]:
    """Split rows of norm 1 into leading bits, whose inner products are exact, and the rest; and say what 1 lacks."""
    xp = x.__array_namespace__()
    grid = 2.0 ** (22 if x.dtype == np.float64 else 11)
    high = xp.round(x * grid) / grid
    low = x - high
    short = (1 - xp.sum(high * high, axis=1)) - xp.sum((high + x) * low, axis=1)
    return {"high": high, "low": low, "short": short}


def correlation_and_gap(left: Mapping[str, Rows], right: Mapping[str, Rows]) -> tuple[Rows, Rows]:
    r"""Return $\rho$ and $1 - |\rho|$, the second to twice the digits of the arithmetic."""
    xp = left["x"].__array_namespace__()
    leading = left["high"] @ right["high"].T
    rest = left["high"] @ right["low"].T + left["low"] @ right["x"].T
    sign = xp.where(leading >= 0, 1.0, -1.0).astype(leading.dtype)
    gap = (1 - sign * leading) - sign * rest - (left["short"][:, None] + right["short"][None, :]) / 2
    # Below this the gap is rounding: rows at an angle of 3e-11 (float64) or less count as equal.
    resolved = 2.0 ** (-71 if gap.dtype == np.float64 else -31)
    return leading + rest, xp.where(gap > resolved, gap, 0)
