"""The figure of `wideproof theorem`: a row a theorem, the width of every inequality of its proof, widths that do."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from wideproof.errors import InputError
from wideproof.report.proof_figures import EXPECTED, RUN, STYLE
from wideproof.titles import PAPERS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from wideproof.theorems import Answer


def theorem_figure(found: Answer) -> Figure:
    """Draw, as powers of ten, the width that each inequality of each proof requires; the largest is the theorem's.

    Parameters
    ----------
    found
        The result of `wp.theorem`.

    Returns
    -------
    Figure
        The figure.
    """
    import matplotlib
    from matplotlib.figure import Figure

    asked = [asks for asks in found if asks.log10_width is not None]
    if not asked:
        raise InputError("no theorem asks for a width on these data, so there is nothing to draw: see why in the table")
    with matplotlib.rc_context(STYLE):  # pyright: ignore[reportArgumentType]
        figure = Figure(figsize=(7, 1.3 + 0.42 * len(asked)), layout="constrained")
        axes = figure.add_subplot()
        for row, asks in enumerate(asked):
            widths = [max(0.0, one.log10_width) for one in asks.requirements]
            axes.plot([0, widths[0]], [row, row], color=RUN, lw=1.0, alpha=0.35)
            axes.plot(widths[1:], [row] * len(widths[1:]), "|", color=RUN, ms=8, alpha=0.7)
            axes.plot(widths[0], row, "o", color=RUN, ms=6)
            axes.annotate(asks.requirements[0].lemma, (widths[0], row), (6, 0), textcoords="offset points", va="center",
                          fontsize=7.5)  # fmt: skip
        for width, name, style in ((found.trains, "trains", ":"), (found.proves, "proved", "--")):
            if width is not None:
                axes.axvline(math.log10(width), color=EXPECTED, lw=1.3, ls=style, label=f"{name}: {width}")
        axes.set_yticks(range(len(asked)), [f"{PAPERS[a.paper]}\n{a.theorem}" for a in asked], fontsize=8)
        axes.invert_yaxis()
        largest = max(asks.log10_width or 0.0 for asks in asked)
        axes.set_xlim(0, 1.3 * largest)
        axes.set_xlabel("width, as a power of ten")
        axes.set_title(f"{found.name}, n = {found.n}, depth {found.depth}, ε = {found.epsilon:g}")
        if found.trains is not None or found.proves is not None:
            axes.legend(loc="lower right")
        return figure
