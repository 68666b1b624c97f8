"""What `wideproof gram` prints: tables for people, a dictionary for programs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from wideproof.report.terminal import COLOUR

if TYPE_CHECKING:
    from rich.console import Console

    from wideproof.kernels import Gram, Prediction, Spectrum
    from wideproof.planning import GramStudy

MOST_ROWS = 12  # of the table of predicted losses
MOST_CULPRITS = 5


def show_gram(console: Console, found: GramStudy, quiet: bool) -> None:
    """Print facts, verdict, parts, prediction and notes of a Gram matrix.

    Parameters
    ----------
    console
        The console to print to.
    found
        The study to print.
    quiet
        Print the verdict alone.
    """
    from rich.markup import escape

    colour = COLOUR[found.answer]
    if quiet:
        console.print(f"[{colour}]{escape(found.spectrum.verdict)}[/]")
        return
    console.print(_facts(found))
    console.print(f"\n[{colour}]{escape(found.spectrum.verdict)}[/]")
    for culprit in found.spectrum.culprits[:MOST_CULPRITS]:
        console.print(f"  {culprit}", markup=False)
    if found.layers:
        console.print(_layers(found))
    if found.course is not None:
        _show_course(console, found, found.course)
    elif found.spectrum.eigenvalues is None:
        console.print("\nThe course of gradient descent needs all eigenvalues: use --method dense for it.")
    for note in found.notes:
        console.print(f"note: {note}", markup=False)


def gram_summary(found: GramStudy) -> dict[str, Any]:
    """Return a study of a Gram matrix as plain values, as `--json` prints it.

    Parameters
    ----------
    found
        The study.

    Returns
    -------
    dict[str, Any]
        The values by name.
    """
    from wideproof.networks import to_config

    data, gram = found.data, found.gram
    return {
        "positive_definite": found.answer.truth, "verdict": found.spectrum.verdict, "notes": list(found.notes),
        "data": {"name": data.name, "n": data.n, "digest": data.digest,
                 "preparation": [str(step) for step in data.preparation]},
        "network": to_config(found.network), "infinite": found.settings.infinite,
        "seed": None if found.settings.infinite else found.settings.seed,
        "gram": {"rows": gram.shape[0], "names": list(gram.names), "source": gram.source, "precision": gram.precision,
                 "device": gram.device, "error": gram.error},
        "spectrum": _spectrum(found.spectrum),
        "layers": {name: {"share": share, **_spectrum(found.layers[name])} for name, share in shares(gram).items()},
        "prediction": None if found.course is None else _course(found, found.course),
    }  # fmt: skip


def _spectrum(found: Spectrum) -> dict[str, Any]:
    condition = found.condition
    ends = {
        key: {"value": end.value, "radius": end.radius}
        for key, end in (("smallest", found.smallest), ("largest", found.largest))
    }
    return {
        **ends, "condition": getattr(condition, "value", math.inf), "rank": found.rank,
        "stable_step": found.stable_step, "method": found.method,
        "culprits": [culprit._asdict() for culprit in found.culprits],
    }  # fmt: skip


def _course(found: GramStudy, course: Prediction) -> dict[str, Any]:
    return {
        "objective": "half_sum" if course.scale == 1 else "mean", "start": _start(found), "step": course.step_size,
        "stable_step": course.stable_step, "target_loss": found.settings.target_loss,
        "steps": course.steps_to(found.settings.target_loss), "limit_loss": course.limit_loss, "advice": course.advice,
        "table": [{"loss": loss, "steps": steps} for loss, steps in decades(course, found.settings.target_loss)],
    }  # fmt: skip


def shares(gram: Gram) -> dict[str, float]:
    """Return the share of the trace that the part of every weight has."""
    traces = {name: float(np.trace(np.asarray(block, np.float64))) for name, block in gram.blocks.items()}
    total = sum(traces.values())
    return {name: trace / total if total else math.nan for name, trace in traces.items()}


def decades(course: Prediction, target: float) -> list[tuple[float, int | None]]:
    """Return the losses 1, 1/10, 1/100, ... of the first one down to the target, with the steps they take."""
    first = float(course.loss(0))
    wanted = [first]
    if first > target:
        count = math.log10(first / target)
        stride = max(1, math.ceil(count / MOST_ROWS))
        wanted += [first * 10.0**-k for k in range(stride, math.ceil(count - 1e-9), stride)] + [target]
    reached = [(loss, course.steps_to(loss)) for loss in wanted]
    never = [k for k, (_, steps) in enumerate(reached) if steps is None]
    return [*reached[: never[0]], reached[-1]] if never else reached  # one "never" says it all


def _facts(found: GramStudy) -> Any:
    from rich.markup import escape
    from rich.table import Table

    gram, spectrum = found.gram, found.spectrum
    facts = Table.grid(padding=(0, 2))
    facts.add_column(no_wrap=True)
    facts.add_column(overflow="fold")
    facts.add_row("data", escape(str(found.data)))
    facts.add_row("network", escape(found.described))
    facts.add_row("Gram matrix", f"{found.where}; {gram.shape[0]} rows, sum over {', '.join(gram.names)}")
    facts.add_row("arithmetic", f"{gram.precision} on {gram.device}; off by at most {gram.error:.2g} in norm")
    facts.add_row("λ min", str(spectrum.smallest))
    facts.add_row("λ max", str(spectrum.largest))
    facts.add_row("condition number", "unknown" if isinstance(spectrum.condition, float) else str(spectrum.condition))
    if not spectrum.decided and spectrum.rank is not None:
        facts.add_row("rank", f"at least {spectrum.rank} of {gram.shape[0]}")
    scale = 1.0 if found.course is None else found.course.scale
    rule = "2/λmax" if scale == 1 else "2n/λmax"
    facts.add_row("stable step", f"below {spectrum.stable_step / scale:.6g}, which is {rule}")
    return facts


def _layers(found: GramStudy) -> Any:
    from rich.table import Table

    table = Table(title="\nParts of the weights", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for column in ("weight", "share of the trace", "λ min", "λ max"):
        table.add_column(column)
    for name, share in shares(found.gram).items():
        part = found.layers[name]
        table.add_row(name, f"{100 * share:.2f} %", str(part.smallest), str(part.largest))
    return table


def _start(found: GramStudy) -> str:
    return "outputs 0" if found.settings.infinite else "the outputs of this network"


def _show_course(console: Console, found: GramStudy, course: Prediction) -> None:
    from rich.table import Table

    kind = "half the sum" if course.scale == 1 else "half the mean"
    console.print(
        f"\nGradient descent on {kind} of squares, step {course.step_size:.4g}, predicted from {_start(found)}:",
        soft_wrap=True,
    )
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("loss", "steps"):
        table.add_column(column, justify="right")
    table.add_column("")
    rows = decades(course, found.settings.target_loss)
    for k, (loss, steps) in enumerate(rows):
        what = "the start" if k == 0 else "the target" if k == len(rows) - 1 else ""
        table.add_row(f"{loss:.3g}", "never" if steps is None else f"{steps}", what)
    console.print(table)
    if course.advice:
        console.print(f"note: {course.advice}", markup=False)
    if not found.spectrum.decided:
        radius = found.spectrum.smallest.radius
        console.print(f"note: eigenvalues below {radius:.2g} are not resolved, so neither is what they predict")
