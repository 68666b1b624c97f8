"""Figures as files: SVG or PNG, by the name's suffix."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wideproof.errors import InputError
from wideproof.report.proof_words import RAISED
from wideproof.storage import write_bytes
from wideproof.training import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from wideproof.kernels import Prediction, Spectrum
    from wideproof.planning import GramStudy

_INK, _SECOND = "#1f4e79", "#b5541c"


def loss_figure(run: Run) -> Figure:
    """Draw the loss, and the training error if there is one, against the step.

    Parameters
    ----------
    run
        The training run.

    Returns
    -------
    Figure
        The figure.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.add_subplot()
    positive = run.records["loss"] > 0
    axes.semilogy(run.steps[positive], run.records["loss"][positive], color=_INK, lw=1.8, label="loss")
    if run.recipe.target_loss is not None and run.recipe.target_loss > 0:
        axes.axhline(run.recipe.target_loss, color=_INK, lw=0.8, ls=":", label="target loss")
    axes.set_xlabel("step")
    axes.set_ylabel(f"training loss ({run.recipe.loss}, {run.recipe.objective.reduction.replace('_', ' ')})")
    axes.grid(alpha=0.25, which="major")
    axes.spines[["top", "right"]].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    if not np.isnan(run.records["error"]).all():
        right = axes.twinx()
        right.plot(run.steps, run.records["error"], color=_SECOND, lw=1.2, label="training error")
        right.set_ylim(-0.02, max(0.55, float(np.nanmax(run.records["error"])) * 1.05))
        right.set_ylabel("training error", color=_SECOND)
        right.spines[["top"]].set_visible(False)
        more = right.get_legend_handles_labels()
        handles, labels = handles + more[0], labels + more[1]
    axes.legend(handles, labels, frameon=False, loc="upper right")
    axes.set_title(f"{run.data.name}, n = {run.data.n}: {_short(run)}", fontsize=10, loc="left")
    return figure


def spectrum_figure(
    spectrum: Spectrum,
    *,
    layers: Mapping[str, Spectrum] | None = None,
    course: Prediction | None = None,
    target_loss: float | None = None,
    title: str = "",
) -> Figure:
    """Draw the eigenvalues in descending order with their radius, and beside them the predicted loss.

    Parameters
    ----------
    spectrum
        A spectrum with all eigenvalues.
    layers
        Spectra of the parts of single weights, drawn as thin lines.
    course
        The prediction whose loss is drawn.
    target_loss
        Draw the loss down to this value, if it is reached.
    title
        Title of the figure.

    Returns
    -------
    Figure
        The figure.
    """
    from matplotlib.figure import Figure

    if spectrum.eigenvalues is None:
        raise InputError("a figure needs all eigenvalues, and Lanczos finds only two: use method='dense'")
    panels = 1 if course is None else 2
    figure = Figure(figsize=(7 if panels == 1 else 10.5, 4.2), layout="constrained")
    _draw_spectrum(figure.add_subplot(1, panels, 1), spectrum, layers or {})
    if course is not None:
        _draw_course(figure.add_subplot(1, panels, 2), course, target_loss)
    if title:
        figure.suptitle(title, fontsize=10, x=0.01, ha="left")
    return figure


def gram_figure(found: GramStudy) -> Figure:
    """Draw the spectrum of a Gram matrix, the spectra of its parts, and the predicted loss.

    Parameters
    ----------
    found
        A study with all eigenvalues.

    Returns
    -------
    Figure
        The figure.
    """
    return spectrum_figure(
        found.spectrum,
        layers=found.layers,
        course=found.course,
        target_loss=found.settings.target_loss,
        title=f"{found.data.name}, n = {found.data.n}: {found.network.name}, {found.where}",
    )


def _draw_spectrum(axes: Axes, spectrum: Spectrum, layers: Mapping[str, Spectrum]) -> None:
    assert spectrum.eigenvalues is not None
    values, radius = spectrum.eigenvalues[::-1], spectrum.smallest.radius
    known = values[values > radius]
    # The band matters where it can be seen: not many decades below the smallest eigenvalue.
    floor = known[-1] / 3 if len(known) == len(values) and known[-1] > 100 * radius else max(radius / 10, 1e-300)
    order = np.arange(1, len(values) + 1)
    for name, part in layers.items():
        if part.eigenvalues is not None:
            own = part.eigenvalues[::-1]
            floor = min(floor, own[own > part.smallest.radius].min(initial=floor) / 2)
            axes.plot(order, np.where(own > part.smallest.radius, own, np.nan), lw=0.9, alpha=0.8, label=name)
    band = np.maximum(values - radius, floor), np.maximum(values + radius, floor)
    axes.fill_between(order, *band, color=_INK, alpha=0.2, lw=0, label=f"± {radius:.1e}")
    total = np.where(values > radius, values, np.nan)
    axes.plot(order, total, color=_INK, lw=1.8, marker="." if len(values) <= 100 else "", label="Gram matrix", zorder=3)
    if len(known) < len(values):
        axes.axhline(radius, color=_SECOND, lw=0.8, ls=":", label="undecided below")
    axes.set_yscale("log")
    axes.set_ylim(bottom=floor)
    axes.set_xlabel("eigenvalue, from the largest")
    axes.set_ylabel("λ")
    _finish(axes)


def _draw_course(axes: Axes, course: Prediction, target_loss: float | None) -> None:
    wanted = None if target_loss is None else course.steps_to(target_loss)
    slow = course.half_lives[np.isfinite(course.half_lives)].max(initial=1.0)
    last = 1.5 * wanted if wanted else min(20 * slow, 1e9)
    steps = np.unique(np.geomspace(1, max(last, 10) + 1, 400).astype(int)) - 1
    losses = course.loss(steps)
    usable = np.isfinite(losses) & (losses > 0)
    axes.set_yscale("log")
    if last > 1000:
        axes.set_xscale("log")
    axes.plot(steps[usable] + 1, losses[usable], color=_INK, lw=1.8, label="predicted loss")
    if target_loss is not None:
        axes.axhline(target_loss, color=_SECOND, lw=0.8, ls=":", label=f"target {target_loss:.3g}")
        if wanted is not None:
            axes.plot([wanted + 1], [course.loss(wanted)], "o", ms=5, color=_SECOND, label=f"after {wanted} steps")
    axes.set_xlabel("step + 1")
    axes.set_ylabel(f"squared loss, step size {course.step_size:.3g}")
    _finish(axes)


def _finish(axes: Axes) -> None:
    axes.grid(alpha=0.25, which="major")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)


def label_plainly(figure: Figure) -> None:
    """Let logarithmic axes be labelled in plain text, 10⁻³, where Matplotlib would set a formula for every label.

    Setting formulas was more than a third of the work of a report.
    """
    from matplotlib.ticker import LogFormatterSciNotation

    class Plain(LogFormatterSciNotation):
        def __call__(self, x: float, pos: int | None = None) -> str:
            return in_plain_text(super().__call__(x, pos))

    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if type(axis.get_major_formatter()) is LogFormatterSciNotation:
                axis.set_major_formatter(Plain())
            if type(axis.get_minor_formatter()) is LogFormatterSciNotation:
                axis.set_minor_formatter(Plain(labelOnlyBase=False))


def in_plain_text(label: str) -> str:
    r"""Return a power of ten that Matplotlib wrote as a formula as plain text.

    >>> in_plain_text(r"$\mathdefault{-2\times10^{-13}}$"), in_plain_text("")
    ('−2×10⁻¹³', '')
    """
    inside = re.sub(r"^\$\\mathdefault\{(.*)\}\$$", r"\1", label).replace(r"\times", "×").replace("-", "−")
    return re.sub(r"\^\{(.*?)\}", lambda power: power[1].replace("−", "-").translate(RAISED), inside)


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Write a figure as SVG or PNG; nothing is left behind if that fails.

    Parameters
    ----------
    figure
        A matplotlib figure.
    path
        The file to write; the suffix, `.svg` or `.png`, decides the format.

    Returns
    -------
    Path
        The path.
    """
    path = Path(path)
    kind = require_figure_path(path)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=150)
    write_bytes(path, buffer.getvalue())
    return path


def require_figure_path(path: Path) -> str:
    """Check that a figure can be written to a path before the work is done.

    Parameters
    ----------
    path
        The file to write later; its suffix must be `.svg` or `.png`.

    Returns
    -------
    str
        The format.
    """
    kind = path.suffix.lower().removeprefix(".")
    if kind not in ("svg", "png"):
        raise InputError(f"figures must be written as .svg or .png, got {path.name!r}")
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {path.parent}; create it first")
    if path.is_dir():
        raise InputError(f"cannot write {path}: it is a directory; choose another name")
    return kind


def _short(run: Run) -> str:
    network = run.network
    sizes = ", ".join(f"{key} {getattr(network, key)}" for key in ("width", "depth", "length") if hasattr(network, key))
    activation = getattr(network, "activation", None)
    return f"{network.name}{f' ({activation.name})' if activation else ''}, {sizes}"
