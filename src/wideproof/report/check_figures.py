"""The figure of a scale check: what was measured, the fitted line, and the printed exponent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wideproof.papers import Slope
from wideproof.report.proof_figures import EXPECTED, RUN, STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def slope_figure(slope: Slope) -> Figure:
    """Draw every measurement, the fitted line and a line of the printed exponent, both axes logarithmic."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter

    with matplotlib.rc_context(STYLE):  # pyright: ignore[reportArgumentType]
        figure = Figure(figsize=(4.2, 2.5))
        axes = figure.add_axes((0.15, 0.19, 0.83, 0.78))  # fixed: finding the best place takes most of the time
        middle = np.exp(np.nanmean(np.log(np.where(slope.y > 0, slope.y, np.nan)), axis=0))
        ends = np.array([slope.x.min(), slope.x.max()])
        pivot_x, pivot_y = np.exp(np.log(slope.x).mean()), np.exp(np.log(middle).mean())
        measured = np.where(slope.y > 0, slope.y, np.nan)
        axes.plot(np.tile(slope.x, len(measured)), measured.ravel(), "o", color=RUN, ms=2.6, alpha=0.55)
        fitted, printed = (pivot_y * (ends / pivot_x) ** s for s in (slope.value, slope.printed))
        axes.plot(ends, fitted, "-", color=RUN, lw=1.4, label=f"fitted {slope.value:.2f}")
        sense = "" if slope.sense == "equal" else f"{slope.sense} "
        axes.plot(ends, printed, "--", color=EXPECTED, lw=1.3, label=f"printed {sense}{slope.printed:g}")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(slope.x if slope.x.size <= 6 else slope.x[:: slope.x.size // 5 + 1])
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.3g}")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
        if axes.get_ylim()[1] < 10 * axes.get_ylim()[0]:
            axes.yaxis.set_minor_formatter(lambda value, _: f"{value:.2g}")
        axes.set_xlabel(slope.variable)
        axes.legend(loc="best")
        return figure
