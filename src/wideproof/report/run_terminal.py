"""What `wideproof train`, `resume` and `show` print of a run: text for people, a dictionary for programs."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING, Any

from wideproof.report.terminal import curve
from wideproof.training import Status

if TYPE_CHECKING:
    from pathlib import Path

    from wideproof.training import Run


def run_text(run: Run, folder: Path, *, plot: Path | None = None, drawn: bool = True) -> str:
    """Return the loss curve of a run, how it ended, advice, and its folder or how to resume it.

    Parameters
    ----------
    run
        The training run.
    folder
        The folder in which it is saved.
    plot
        The file of its loss figure, if there is one.
    drawn
        Whether to draw the curve.

    Returns
    -------
    str
        Several lines.
    """
    lines = []
    if drawn and len(run.steps):
        lines.append(f"training loss against step\n{curve(run.steps, run.records['loss'])}")
    lines.append(_ending(run))
    if run.advice:
        lines.append(run.advice)
    if run.status is Status.RUNNING:
        lines.append(f"resume it with: wideproof resume {shlex.quote(str(folder))}")
    else:
        lines.append(f"saved in {folder}" + (f", curve in {plot}" if plot else ""))
    return "\n".join(lines)


def run_summary(run: Run, folder: Path) -> dict[str, Any]:
    """Return a training run as plain values, as `--json` prints it.

    Parameters
    ----------
    run
        The training run.
    folder
        The folder in which it is saved.

    Returns
    -------
    dict[str, Any]
        The values by name.
    """
    from wideproof.networks import to_config

    return {
        "folder": str(folder), "ending": run.ending, "status": run.status.name, "succeeded": run.succeeded.truth,
        "step": run.step, "loss": run.loss, "error": run.error, "step_size": run.step_size, "seconds": run.seconds,
        "advice": run.advice, "network": to_config(run.network), "recipe": run.recipe.to_config(),
        "data": {"name": run.data.name, "n": run.data.n, "digest": run.data.digest,
                 "preparation": [str(step) for step in run.data.preparation]},
        "history": {"step": run.steps.tolist(), "loss": run.records["loss"].tolist() if len(run.steps) else []},
    }  # fmt: skip


def _ending(run: Run) -> str:
    error = "" if math.isnan(run.error) else f", training error {run.error:.4g}"
    rate = f", {run.step / run.seconds:.0f} steps/s" if run.seconds > 0 and run.step else ""
    return (
        f"{run.ending} at step {run.step}: loss {run.loss:.4g}{error} "
        f"(step size {run.step_size:.4g}, {run.seconds:.1f} s{rate})"
    )
