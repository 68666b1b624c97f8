"""`wideproof theorem`: how wide is wide enough for these data, by the theorems of the four papers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wideproof.cli.options import (
    Classes,
    Header,
    Json,
    Kind,
    Limit,
    Source,
    Target,
    Task,
    find_data,
    print_json,
)


def theorem_command(
    source: Source,
    target: Target = None,
    classes: Classes = None,
    limit: Limit = None,
    header: Header = None,
    kind: Kind = None,
    task: Task = "auto",
    depth: Annotated[int, typer.Option(help="Hidden layers.")] = 2,
    epsilon: Annotated[float, typer.Option(help="The accuracy, in each theorem's own loss.")] = 0.01,
    failure: Annotated[float, typer.Option(help="The probability with which a theorem may fail.")] = 0.05,
    batch: Annotated[int, typer.Option(help="Examples in a minibatch, where a theorem is about them.")] = 1,
    activation: Annotated[str, typer.Option(help="Activation of the smooth networks.")] = "softplus",
    details: Annotated[
        str | None, typer.Option(help="Show every inequality and constant of one theorem, as in 'Theorem 5.1'.")
    ] = None,
    widths: Annotated[
        bool, typer.Option("--widths", help="Also find a width that trains, and one that is proved: takes minutes.")
    ] = False,
    figure: Annotated[Path | None, typer.Option(help="Write the figure to this file, .svg or .png.")] = None,
    json: Json = False,
) -> None:
    """Say which width, step size and number of iterations each paper's theorem asks for on a table.

    Constants are traced through the proofs: each is a number with its place in the paper, and what could not be traced
    is named. Exit code 0 if at least one theorem applies to the data, 1 if none does.
    """
    from rich.console import Console

    from wideproof.report import require_figure_path, save_figure, theorem_figure, theorem_view
    from wideproof.theorems import theorem

    if figure is not None:
        require_figure_path(figure)
    data = find_data(source, target, classes, limit, header, kind, task)
    found = theorem(
        data, depth=depth, epsilon=epsilon, failure=failure, batch=batch, activation=activation, widths=widths
    )  # fmt: skip
    view = None if json else theorem_view(found, details=details)
    if figure is not None:
        save_figure(theorem_figure(found), figure)
    if json:
        print_json(found.to_dict())
    else:
        Console(highlight=False).print(view)
    raise typer.Exit(0 if any(asks.log10_width is not None for asks in found) else 1)
