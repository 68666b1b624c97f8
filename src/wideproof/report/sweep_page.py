"""The page of a sweep: figures and exponents in one HTML file, figures as files beside it."""

from __future__ import annotations

from pathlib import Path

from wideproof.report.figures import save_figure
from wideproof.report.html import FIGURES, REPORT, environment, inline_svg
from wideproof.report.proof_words import versions
from wideproof.report.sweep_figures import Drawn, sweep_figure
from wideproof.storage import write_bytes
from wideproof.sweeps import Sweep, summary


def save_sweep_page(done: Sweep) -> Path:
    """Write `report.html` and every figure as SVG and PNG to the folder of a sweep.

    Parameters
    ----------
    done
        A sweep, finished or not.

    Returns
    -------
    Path
        The path of the page.
    """
    figures = [found for wanted in done.study.figures if (found := sweep_figure(done.results, wanted)) is not None]
    page = environment().get_template("sweep.html")
    shown = [(one, inline_svg(one.figure, f"figure-{k}", one.title)) for k, one in enumerate(figures)]
    text = page.render(sweep=done, figures=shown, measures=summary(done.results), versions=versions())
    (done.folder / FIGURES).mkdir(exist_ok=True)
    for k, one in enumerate(figures):
        for kind in ("svg", "png"):
            save_figure(one.figure, done.folder / FIGURES / f"{k + 1}-{_name(one)}.{kind}")
    write_bytes(done.folder / REPORT, text.encode())
    return done.folder / REPORT


def _name(one: Drawn) -> str:
    return "".join(c if c.isalnum() else "-" for c in one.title.lower())[:60]
