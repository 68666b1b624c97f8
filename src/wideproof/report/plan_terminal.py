"""What `wideproof plan` prints: a table for people, a dictionary for programs."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from wideproof.report.terminal import COLOUR

if TYPE_CHECKING:
    from rich.console import Console

    from wideproof.planning import Plan, Recommendation, Row

WIDE = 108  # columns: narrower terminals see no smallest eigenvalues
UNSURE = 0.01  # of a condition number: a larger radius is shown


def show_plan(console: Console, found: Plan, command: str, *, by: str, top: int, quiet: bool) -> None:
    """Print the table, the recommendation with its reasons, what a proof needs, and notes.

    Parameters
    ----------
    console
        Where to.
    found
        The plan.
    command
        How it was asked for, which the next command begins with.
    by, top
        The order of the table, and how many rows it has.
    quiet
        The recommendation alone.
    """
    if not quiet:
        console.print(f"{found.data}", markup=False)
        console.print(_table(found, by, top, console.width >= WIDE))
    if found.recommendation is None:
        colour = COLOUR[found.answer]
        console.print(f"\n[{colour}]nothing to recommend: no Gram matrix is known to be positive definite[/]")
    else:
        _show_recommendation(console, found.recommendation, full_command(found, command), quiet)
    if not quiet:
        console.print(f"\nA proof before training, {proof(found)}", markup=False)
    if found.notes:
        console.print()
    for note in found.notes:
        console.print(f"note: {note}", markup=False)


def proof(found: Plan) -> str:
    """Say what a proof before training needs, for the activation and preparation that need least."""
    if found.proofs:
        return f"by one hidden layer with fixed outputs ±A: {found.proofs[0]}"
    return (
        "by one hidden layer with fixed outputs: not by the closed form, which is for vectors with one output, an "
        "activation with a Lipschitz derivative and a Gram matrix that is known to be positive definite"
    )


def full_command(found: Plan, command: str) -> str:
    """Return the command that trains the recommended network, or nothing."""
    if found.recommendation is None:
        return ""
    one, best = found.recommendation.row.candidate, found.recommendation
    options = [
        f"--prepare={one.preparation or 'none'}", f"--network={one.network}",
        *([] if one.network == "elman-rnn" else [f"--depth={one.depth}"]),
        *([] if one.activation is None else [f"--activation={one.activation}"]),
        f"--width={best.width}", f"--step-size={best.step_size:.4g}", "--loss=squared", "--reduction=half_sum",
        f"--target-loss={found.target_loss:g}", f"--seed={best.seed}",
    ]  # fmt: skip
    return f"{command} {shlex.join(options)}"


def plan_summary(found: Plan, command: str, by: str) -> dict[str, Any]:
    """Return what `--json` prints.

    Parameters
    ----------
    found
        The plan.
    command
        How it was asked for, which the next command begins with.
    by
        The order of the rows.
    """
    from wideproof.networks import to_config

    best = found.recommendation
    chosen = None if best is None else {
        **best.row.to_dict(), "config": to_config(best.network), "width": best.width, "step_size": best.step_size,
        "wide_enough": best.wide_enough, "reasons": list(best.reasons), "command": full_command(found, command),
        "tried": [asdict(one) for one in best.tried],
    }  # fmt: skip
    return {
        "answer": found.answer.truth, "recommendation": chosen, "target_loss": found.target_loss,
        "notes": list(found.notes),
        "data": {"name": found.data.name, "n": found.data.n, "digest": found.data.digest},
        "rows": [row.to_dict() for row in found.ranked(by)],
        "proofs": [{"activation": one.activation, "preparation": one.preparation, "need": one.need, "width": one.width,
                    "smallest": {"value": one.smallest.value, "radius": one.smallest.radius}} for one in found.proofs],
    }  # fmt: skip


def _show_recommendation(console: Console, best: Recommendation, command: str, quiet: bool) -> None:
    from rich.markup import escape

    console.print(f"\n[green]{escape(str(best))}[/]", soft_wrap=True)
    if not quiet:
        for reason in best.reasons:
            console.print(f"- {reason}", markup=False)
    console.print(f"train it with: {command}", markup=False, soft_wrap=True)


def _table(found: Plan, by: str, top: int, wide: bool) -> Any:
    from rich.table import Table

    rows = found.ranked(by)
    shown = rows[:top] if top else rows
    order = "steps" if by == "steps" else "condition number"
    title = f"\n{len(shown)} of {len(rows)} candidates, by {order}; steps to squared loss {found.target_loss:g}"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for column in ("network", "activation", "depth", "preparation"):
        table.add_column(column, justify="right" if column == "depth" else "left", no_wrap=True)
    for column in ("condition", "steps", "unseen", "λ min")[: 4 if wide else 3]:
        table.add_column(column, justify="left" if column == "λ min" else "right", no_wrap=True)
    for row in shown:
        table.add_row(*_cells(row)[: 8 if wide else 7])
    return table


def _cells(row: Row) -> tuple[str, ...]:
    from wideproof.planning import short

    one = row.candidate
    depth = "" if one.network == "elman-rnn" else str(one.depth)
    what = (one.network, one.activation or "", depth, one.preparation or "none")
    if row.condition is None or row.left_out is None:
        return (*what, "undecided", "undecided", "", f"{row.smallest}")
    condition = f"{row.condition.value:.3g}"
    if row.condition.radius > UNSURE * row.condition.value:
        condition += f" ± {row.condition.radius:.1g}"
    steps = "never" if row.steps is None else short(row.steps)
    return (*what, condition, steps, f"{row.left_out:.2g}", f"{row.smallest}")
