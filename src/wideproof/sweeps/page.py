"""The page of a sweep: figures and exponents in one HTML file, figures as files beside it."""

from __future__ import annotations

from pathlib import Path

from wideproof.report.figures import save_figure
from wideproof.report.html import FIGURES, REPORT, environment, inline_svg
from wideproof.report.proof_words import versions
from wideproof.storage import write_bytes
from wideproof.sweeps.figures import Drawn, draw
from wideproof.sweeps.sweep import Sweep


def save_page(done: Sweep) -> Path:
    """Write `report.html` and every figure as SVG and PNG to the sweep's folder; return the page's path."""
    figures = [found for wanted in done.study.figures if (found := draw(done.results, wanted)) is not None]
    page = environment().get_template("sweep.html")
    shown = [(one, inline_svg(one.figure, f"figure-{k}", one.title)) for k, one in enumerate(figures)]
    text = page.render(sweep=done, figures=shown, measures=summary(done), versions=versions())
    (done.folder / FIGURES).mkdir(exist_ok=True)
    for k, one in enumerate(figures):
        for kind in ("svg", "png"):
            save_figure(one.figure, done.folder / FIGURES / f"{k + 1}-{_name(one)}.{kind}")
    write_bytes(done.folder / REPORT, text.encode())
    return done.folder / REPORT


def _name(one: Drawn) -> str:
    return "".join(c if c.isalnum() else "-" for c in one.title.lower())[:60]


def summary(done: Sweep) -> list[tuple[str, float, float, float, int]]:
    """Return smallest, middle and largest value of every measure, and how many are missing."""
    rows = []
    for name, array in done.results.data_vars.items():
        numbers = array.values.ravel()
        known = numbers[numbers == numbers]
        if known.size:
            quantiles = (float(known.min()), float(sorted(known)[known.size // 2]), float(known.max()))
            rows.append((str(name), *quantiles, int(numbers.size - known.size)))
    return rows
