"""The figures that a study asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import xarray as xr

from wideproof.report.proof_figures import STYLE, TEXT
from wideproof.sweeps.analysis import Exponent, exponents, fraction, threshold
from wideproof.sweeps.study import Figure as Wanted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#a0468c", "#8a6d00", "#3a3a3a")


class Drawn(NamedTuple):
    """A figure, its title, and the exponents that it shows, if any."""

    title: str
    figure: Figure
    exponents: list[Exponent]
    factor: bool = False


def draw(results: xr.Dataset, wanted: Wanted) -> Drawn | None:
    """Draw one figure of a study; None where nothing of it has been measured yet."""
    import matplotlib
    from matplotlib.figure import Figure

    found = _exponents(results, wanted)
    if not np.isfinite(results[wanted.quantity].values).any():
        return None
    title = wanted.title or f"{wanted.quantity} against {wanted.x}"
    with matplotlib.rc_context(STYLE):  # pyright: ignore[reportArgumentType]
        figure = Figure(figsize=(5.4, 3.3), layout="constrained")
        axes = figure.add_subplot()
        if wanted.kind in ("slope", "factor"):
            _slopes(axes, found, wanted)
        elif wanted.kind == "threshold":
            _threshold(axes, results, wanted, found)
        else:
            _table(figure, axes, results, wanted)
    return Drawn(title, figure, found, wanted.kind == "factor")


def _exponents(results: xr.Dataset, wanted: Wanted) -> list[Exponent]:
    if wanted.kind in ("slope", "factor"):
        return exponents(results, wanted.quantity, wanted.x, factor=wanted.kind == "factor")
    if wanted.kind == "threshold" and wanted.y is not None:
        curve = threshold(results, wanted.quantity, wanted.x, wanted.y)
        return exponents(curve.to_dataset(name="needed"), "needed", wanted.x)
    return []


def _slopes(axes: Axes, found: list[Exponent], wanted: Wanted) -> None:
    for k, one in enumerate(found):
        colour = COLOURS[k % len(COLOURS)]
        middle = np.exp(np.log(one.y).mean(axis=0))
        axes.plot(np.tile(one.x, (len(one.y), 1)).T, one.y.T, "o", color=colour, ms=2.6, alpha=0.4)
        label = ", ".join(str(v) for v in one.where.values()) or wanted.quantity
        axes.plot(
            one.x, middle, "-", color=colour, lw=1.5, label=f"{label}: {one.value:.2f} [{one.low:.2f}, {one.high:.2f}]"
        )
    if found and wanted.printed is not None:
        first = found[0]
        start = np.exp(np.log(first.y[:, 0]).mean())
        line = start * (first.x / first.x[0]) ** wanted.printed
        axes.plot(first.x, line, "--", color=TEXT, lw=1.1, label=f"printed: {wanted.printed:g}")
    _logarithmic(axes, wanted.x, found[0].x if found else None)
    if wanted.kind == "factor":
        axes.set_xscale("linear")
        axes.set_xlabel(f"{wanted.x.replace('_', ' ')} (factors per unit in the legend)")
    axes.set_ylabel(wanted.quantity.replace("_", " "))
    if found:
        axes.legend(loc="best")


def _threshold(axes: Axes, results: xr.Dataset, wanted: Wanted, found: list[Exponent]) -> None:
    assert wanted.y is not None
    curve = threshold(results, wanted.quantity, wanted.x, wanted.y)
    x = np.asarray(curve.coords[wanted.x].values, float)
    label = f"exponent {found[0].value:.2f}" if found else None
    axes.plot(x, curve.values, "o-", color=COLOURS[0], ms=4, label=label)
    _logarithmic(axes, wanted.x, x)
    axes.set_ylabel(f"{wanted.y} needed")
    if label:
        axes.legend(loc="best")


def _table(figure: Figure, axes: Axes, results: xr.Dataset, wanted: Wanted) -> None:
    from matplotlib.colors import LogNorm, Normalize

    assert wanted.y is not None
    table = fraction(results, wanted.quantity, wanted.x, wanted.y)
    phase = wanted.kind == "phase"
    positive = table.values[np.isfinite(table.values) & (table.values > 0)]
    scale = None if phase or not positive.size else LogNorm(positive.min(), positive.max())
    scale = Normalize(0, 1) if phase else scale
    image = axes.imshow(table.values, origin="lower", aspect="auto", cmap="viridis", norm=scale)
    for (row, column), value in np.ndenumerate(table.values):
        shown = "" if not np.isfinite(value) else f"{value:.2f}" if phase else f"{value:.2g}"
        axes.text(column, row, shown, ha="center", va="center", fontsize=7.5, color="#ffffff", alpha=0.95)
    axes.set_xticks(range(table.shape[1]), [str(v) for v in table.coords[wanted.x].values])
    axes.set_yticks(range(table.shape[0]), [str(v) for v in table.coords[wanted.y].values])
    axes.set_xlabel(wanted.x)
    axes.set_ylabel(wanted.y)
    axes.grid(False)
    name = "fraction of seeds" if phase else wanted.quantity.replace("_", " ")
    figure.colorbar(image, ax=axes, label=name)


def _logarithmic(axes: Axes, name: str, ticks: np.ndarray | None) -> None:
    from matplotlib.ticker import NullFormatter

    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(name.replace("_", " "))
    if ticks is not None:
        axes.set_xticks(ticks)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
