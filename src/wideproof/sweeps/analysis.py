"""Curves out of a sweep: exponents with bootstrap intervals, fractions of seeds, thresholds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from wideproof.cards import Told
from wideproof.statistics import RESAMPLES, bootstrap_slope, log_slopes
from wideproof.sweeps.study import SEEDS
from wideproof.sweeps.study import Figure as Wanted


def label(where: dict[str, Any]) -> str:
    """Return values of axes in words, numbers with the name of their axis.

    Parameters
    ----------
    where
        Values by the names of their axes.

    Returns
    -------
    str
        The words.

    Examples
    --------
    >>> label({"network": "residual", "depth": 3})
    'residual, depth 3'
    """
    return ", ".join(f"{v}" if isinstance(v, str) else f"{k.replace('_', ' ')} {v:g}" for k, v in where.items())


@dataclass(frozen=True)
class Exponent(Told):
    r"""A fitted exponent $s$ of $y \sim x^s$, or factor $s$ of $y \sim s^x$, with its 95 % bootstrap interval.

    Attributes
    ----------
    where
        The values of the other axes, by name.
    x
        The points of the fit.
    y
        The measured values at these points.
    value
        The fitted exponent or factor.
    low
        Lower end of the interval.
    high
        Upper end of the interval.
    left_out
        Points that were left out because a seed has no positive finite value there.
    """

    where: dict[str, Any]
    x: np.ndarray
    y: np.ndarray
    value: float
    low: float
    high: float
    left_out: tuple[float, ...] = ()

    @property
    def label(self) -> str:
        """The values of the other axes."""
        return label(self.where)

    def __str__(self) -> str:
        return f"{self.value:.2f} {self.interval}".rstrip() + (f" at {self.label}" if self.label else "")

    @property
    def interval(self) -> str:
        """The interval in brackets; empty where there is one seed only."""
        return "" if np.isnan(self.low) else f"[{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True)
class Threshold:
    """How much of one quantity is needed at each value of another.

    Attributes
    ----------
    where
        The values of the other axes, by name.
    x
        The values along the axis.
    needed
        The least value that is enough at each of them; not a number if none of the tried values is enough.
    exponent
        The exponent of `needed` along `x`; `None` unless at least two thresholds are known.
    """

    where: dict[str, Any]
    x: np.ndarray
    needed: np.ndarray
    exponent: Exponent | None


def exponents(results: xr.Dataset, quantity: str, axis: str, *, factor: bool = False) -> list[Exponent]:
    """Fit the exponent (or the factor per unit) of a quantity along an axis, for every combination of the other axes.

    Seeds are resampled as a whole, which preserves what they share along the axis. Points where some seed has no
    positive finite value are left out.

    Parameters
    ----------
    results
        The results of a sweep.
    quantity
        A measure of the study.
    axis
        The axis along which it is fitted.
    factor
        Fit a factor per unit of the axis instead of an exponent.

    Returns
    -------
    list[Exponent]
        One fit for each combination of the axes other than `axis` and the seeds.
    """
    array = _seeds_first(results[quantity], axis)
    others = [dim for dim in array.dims if dim not in ("seeds", axis)]
    found = []
    for chosen in np.ndindex(*(array.sizes[dim] for dim in others)):
        part = array.isel(dict(zip(others, chosen, strict=True))).transpose("seeds", axis)
        where = {str(dim): part.coords[dim].item() for dim in others}
        x, y = np.asarray(part.coords[axis].values, float), part.values
        kept = (np.isfinite(y) & (y > 0)).all(axis=0)
        if kept.sum() >= 2:
            fitted = bootstrap_slope(np.exp(x[kept]) if factor else x[kept], y[:, kept])
            fitted = tuple(np.exp(fitted).tolist()) if factor else fitted
            found.append(Exponent(where, x[kept], y[:, kept], *fitted, left_out=tuple(x[~kept].tolist())))
    return found


def fraction(results: xr.Dataset, quantity: str, x: str, y: str) -> list[tuple[dict[str, Any], xr.DataArray]]:
    """Return the mean over seeds (for `reached`: the fraction that reached the target) as tables over two axes.

    Parameters
    ----------
    results
        The results of a sweep.
    quantity
        A measure of the study.
    x
        The axis of the columns.
    y
        The axis of the rows.

    Returns
    -------
    list[tuple[dict[str, Any], xr.DataArray]]
        One table, with the values of the other axes, for each combination of them.
    """
    return [(where, part.mean("seeds")) for where, part in _by_seed(results, quantity, x, y)]


def thresholds(results: xr.Dataset, quantity: str, x: str, y: str, level: float = 0.5) -> list[Threshold]:
    """Find, for each value of `x`, the smallest `y` from which on the mean over seeds is at least `level`.

    The exponent of these thresholds along `x` is fitted too; its interval comes from resampling the seeds.

    Parameters
    ----------
    results
        The results of a sweep.
    quantity
        A measure of the study.
    x
        The axis along which thresholds are found.
    y
        The axis of the thresholds.
    level
        The mean over seeds that is enough.

    Returns
    -------
    list[Threshold]
        One result for each combination of the other axes.
    """
    found = []
    for where, part in _by_seed(results, quantity, x, y):
        table = part.sortby(y)
        places, heights = (np.asarray(table.coords[axis].values, float) for axis in (x, y))
        needed = _first(table.mean("seeds").values, heights, level)
        found.append(Threshold(where, places, needed, _exponent(where, places, table.values, heights, level)))
    return found


def _exponent(
    where: dict[str, Any], places: np.ndarray, values: np.ndarray, heights: np.ndarray, level: float
) -> Exponent | None:
    whole = _first(values.mean(axis=0), heights, level)
    kept = np.isfinite(whole)
    if kept.sum() < 2:
        return None
    rng, seeds = np.random.default_rng(0), len(values)
    slopes = []
    for _ in range(RESAMPLES):
        drawn = _first(values[rng.integers(0, seeds, seeds)].mean(axis=0), heights, level)
        if np.isfinite(drawn[kept]).all():
            slopes.append(log_slopes(places[kept], drawn[None, kept])[0])
    low, high = np.quantile(slopes, [0.025, 0.975]) if slopes and seeds > 1 else (np.nan, np.nan)
    value = bootstrap_slope(places[kept], whole[None, kept])[0]
    left_out = tuple(places[~kept].tolist())
    return Exponent(where, places[kept], whole[None, kept], value, float(low), float(high), left_out)


def _by_seed(results: xr.Dataset, quantity: str, x: str, y: str) -> Iterator[tuple[dict[str, Any], xr.DataArray]]:
    array = _seeds_first(results[quantity], x)
    others = [dim for dim in array.dims if dim not in ("seeds", x, y)]
    for chosen in np.ndindex(*(array.sizes[dim] for dim in others)):
        part = array.isel(dict(zip(others, chosen, strict=True)))
        yield {str(dim): part.coords[dim].item() for dim in others}, part.transpose("seeds", y, x)


def _first(table: np.ndarray, heights: np.ndarray, level: float) -> np.ndarray:
    """Return for each column the lowest height from which on all entries are at least `level`, or not a number.

    What is not a number was not tried.
    """
    untried = np.isnan(table)
    lasting = np.logical_and.accumulate(((table >= level) | untried)[::-1], axis=0)[::-1] & ~untried
    return np.array([heights[column.argmax()] if column.any() else np.nan for column in lasting.T])


def _seeds_first(array: xr.DataArray, axis: str) -> xr.DataArray:
    present = [dim for dim in SEEDS if dim in array.dims and dim != axis]
    return array.stack(seeds=present) if present else array.expand_dims("seeds")


def fitted(results: xr.Dataset, wanted: Wanted, curves: list[Threshold] | None = None) -> list[Exponent]:
    """Return the exponents that a figure shows.

    Parameters
    ----------
    results
        The results of a sweep.
    wanted
        A figure of its study.
    curves
        Its thresholds, if they are known.

    Returns
    -------
    list[Exponent]
        The exponents; empty for phase diagrams and maps.
    """
    if wanted.kind in ("slope", "factor"):
        return exponents(results, wanted.quantity, wanted.x, factor=wanted.kind == "factor")
    curves = curves_of(results, wanted) if curves is None else curves
    return [one.exponent for one in curves if one.exponent is not None]


def curves_of(results: xr.Dataset, wanted: Wanted) -> list[Threshold]:
    """Return the thresholds that a figure shows.

    Parameters
    ----------
    results
        The results of a sweep.
    wanted
        A figure of its study.

    Returns
    -------
    list[Threshold]
        The thresholds; empty for other kinds of figures.
    """
    if wanted.kind != "threshold" or wanted.y is None:
        return []
    return thresholds(results, wanted.quantity, wanted.x, wanted.y, wanted.level)


def summary(results: xr.Dataset) -> list[tuple[str, float, float, float, int]]:
    """Return the range of every measure.

    Parameters
    ----------
    results
        The results of a sweep.

    Returns
    -------
    list[tuple[str, float, float, float, int]]
        For every measure its name, smallest value, median, largest value, and the number of missing values.
    """
    rows = []
    for name, array in results.data_vars.items():
        numbers = array.values.ravel()
        known = numbers[numbers == numbers]
        if known.size:
            quantiles = (float(known.min()), float(sorted(known)[known.size // 2]), float(known.max()))
            rows.append((str(name), *quantiles, int(numbers.size - known.size)))
    return rows
