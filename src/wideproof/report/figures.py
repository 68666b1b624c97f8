"""Figures as files: SVG or PNG, by the name's suffix."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wideproof.errors import InputError
from wideproof.storage import write_bytes
from wideproof.training import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_INK, _SECOND = "#1f4e79", "#b5541c"


def loss_figure(run: Run) -> Figure:
    """Draw the loss, and the training error where there is one, against the step."""
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


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Write a figure as SVG or PNG; nothing is left behind if that fails."""
    path = Path(path)
    kind = require_figure_path(path)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=150)
    write_bytes(path, buffer.getvalue())
    return path


def require_figure_path(path: Path) -> str:
    """Check that a figure can be written to `path` before the work is done, and return its format."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in ("svg", "png"):
        raise InputError(f"figures are written as .svg or .png, got {path.name!r}")
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
