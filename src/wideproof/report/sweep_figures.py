"""The figures that a study asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import xarray as xr

from wideproof.report.proof_figures import STYLE
from wideproof.sweeps import Exponent, Threshold, curves_of, fitted, fraction, label
from wideproof.sweeps import Figure as Wanted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#a0468c", "#8a6d00", "#3a3a3a")
ON_LIGHT, ON_DARK = "#101418", "#ffffff"  # numbers in a table's cells, whatever the page is like


class Drawn(NamedTuple):
    """A figure, its title, the exponents that it shows, if any, and beside each what theory has."""

    title: str
    figure: Figure
    exponents: list[Exponent]
    factor: bool = False
    predicted: tuple[str, ...] = ()


def sweep_figure(results: xr.Dataset, wanted: Wanted) -> Drawn | None:
    """Draw one figure of a study.

    Parameters
    ----------
    results
        The results of a sweep.
    wanted
        A figure of its study.

    Returns
    -------
    Drawn | None
        The figure; `None` if nothing of it has been measured yet.
    """
    import matplotlib
    from matplotlib.figure import Figure

    curves = curves_of(results, wanted)
    found = fitted(results, wanted, curves)
    if not np.isfinite(results[wanted.quantity].values).any():
        return None
    if wanted.kind in ("slope", "factor") and not found:
        return None
    title = wanted.title or f"{wanted.quantity} against {wanted.x}"
    with matplotlib.rc_context(STYLE):  # pyright: ignore[reportArgumentType]
        figure = Figure(figsize=(5.4, 3.3), layout="constrained")
        if wanted.kind in ("phase", "map"):
            _tables(figure, results, wanted)
        else:
            axes = figure.add_subplot()
            _slopes(axes, found, wanted) if wanted.kind != "threshold" else _threshold(axes, curves, wanted)
            figure.legend(loc="outside lower left", borderaxespad=0.3)
    predicted = [wanted.printed_at(one.where) for one in found]
    shown = tuple("" if p is None else f"{p:g}" for p in predicted) if any(p is not None for p in predicted) else ()
    return Drawn(title, figure, found, wanted.kind == "factor", shown)


def _slopes(axes: Axes, found: list[Exponent], wanted: Wanted) -> None:
    for k, one in enumerate(found):
        colour = COLOURS[k % len(COLOURS)]
        middle = np.exp(np.log(one.y).mean(axis=0))
        axes.plot(np.tile(one.x, (len(one.y), 1)).T, one.y.T, "o", color=colour, ms=2.6, alpha=0.4)
        named = f"{one.label or wanted.quantity.replace('_', ' ')}: {one.value:.2f} {one.interval}".rstrip()
        printed = wanted.printed_at(one.where)
        if printed is not None:
            line = middle[-1] * (one.x / one.x[-1]) ** printed
            axes.plot(one.x, line, "--", color=colour, lw=1.0)
            named += f", predicted {printed:g} (dashed)"
        axes.plot(one.x, middle, "-", color=colour, lw=1.5, label=named)
    _logarithmic(axes, wanted.x, found[0].x if found else None)
    if wanted.kind == "factor":
        axes.set_xscale("linear")
        axes.set_xlabel(f"{wanted.x.replace('_', ' ')} (factors per unit below)")
    axes.set_ylabel(wanted.quantity.replace("_", " "))


def _threshold(axes: Axes, curves: list[Threshold], wanted: Wanted) -> None:
    for k, one in enumerate(curves):
        fit = one.exponent
        said = "no exponent" if fit is None else f"exponent {fit.value:.2f} {fit.interval}".rstrip()
        left = one.x[~np.isfinite(one.needed)]
        if left.size:
            said += f"; no {wanted.y} tried suffices at {', '.join(f'{v:g}' for v in left)}"
        named = f"{label(one.where)}: {said}" if one.where else said
        printed, there = wanted.printed_at(one.where), np.flatnonzero(np.isfinite(one.needed))
        if printed is not None and there.size:
            line = one.needed[there[0]] * (one.x / one.x[there[0]]) ** printed
            axes.plot(one.x, line, "--", color=COLOURS[k % len(COLOURS)], lw=1.0)
            named += f", predicted {printed:g} (dashed)"
        axes.plot(one.x, one.needed, "o-", color=COLOURS[k % len(COLOURS)], ms=4, label=named)
        _logarithmic(axes, wanted.x, one.x)
    axes.set_ylabel(f"{wanted.y} needed")


def _tables(figure: Figure, results: xr.Dataset, wanted: Wanted) -> None:
    """Draw one table for each value of the other axes, one below the other, on one scale."""
    from matplotlib.colors import LogNorm, Normalize

    assert wanted.y is not None
    tables = [
        (where, table.dropna(wanted.y, how="all"))  # what no seed was run at is not shown
        for where, table in fraction(results, wanted.quantity, wanted.x, wanted.y)
    ]
    phase = wanted.kind == "phase"
    every = np.concatenate([table.values.ravel() for _, table in tables])
    positive = every[np.isfinite(every) & (every > 0)]
    scale = None if phase or not positive.size else LogNorm(positive.min(), positive.max())
    scale = Normalize(0, 1) if phase else scale
    figure.set_size_inches(5.4, 3.3 * len(tables))
    panels = figure.subplots(len(tables), 1, squeeze=False)[:, 0]
    for axes, (where, table) in zip(panels, tables, strict=True):
        image = axes.imshow(table.values, origin="lower", aspect="auto", cmap="viridis", norm=scale)
        for (row, column), value in np.ndenumerate(table.values):
            shown = "" if not np.isfinite(value) else f"{value:.2f}" if phase else f"{value:.2g}"
            colour = ON_LIGHT if np.isfinite(value) and _light(image, value) else ON_DARK
            axes.text(column, row, shown, ha="center", va="center", fontsize=7.5, color=colour)
        axes.set_xticks(range(table.shape[1]), [str(v) for v in table.coords[wanted.x].values])
        axes.set_yticks(range(table.shape[0]), [str(v) for v in table.coords[wanted.y].values])
        axes.set_title(label(where))
        axes.set_xlabel(wanted.x)
        axes.set_ylabel(wanted.y)
        axes.grid(False)
        name = "fraction of seeds" if phase else wanted.quantity.replace("_", " ")
        figure.colorbar(image, ax=axes, label=name)


def _light(image: AxesImage, value: float) -> bool:
    red, green, blue, _ = image.to_rgba(np.array([value]))[0]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.55


def _logarithmic(axes: Axes, name: str, ticks: np.ndarray | None) -> None:
    from matplotlib.ticker import NullFormatter

    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(name.replace("_", " "))
    if ticks is not None:
        axes.set_xticks(ticks)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
