"""`wideproof plan`: which network to train on this data, before training anything."""

from __future__ import annotations

import shlex
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
    kind_for,
    one_of,
    print_json,
)
from wideproof.cli.watching import watching
from wideproof.errors import InputError


def plan_command(
    source: Source,
    target: Target = None,
    classes: Classes = None,
    limit: Limit = None,
    header: Header = None,
    kind: Kind = None,
    task: Task = "auto",
    prepare: Annotated[
        list[str] | None,
        typer.Option(
            help="Try only these steps, as in whiten,unit (none: as loaded); may be given several times. Default: "
            "as loaded, centred and whitened, each followed by what the network's paper needs.",
            show_default=False,
        ),
    ] = None,
    networks: Annotated[
        str | None,
        typer.Option(help="Networks to try, as in fully-connected,residual (default: all for this kind of data)."),
    ] = None,
    activations: Annotated[
        str, typer.Option(help="Activations to try in the smooth networks.")
    ] = "softplus,tanh,erf,gelu",
    depths: Annotated[str, typer.Option(help="Numbers of hidden layers to try.")] = "1,2,3,6",
    target_loss: Annotated[float, typer.Option(help="Predict the steps to this squared loss (half the sum).")] = 1e-6,
    by: Annotated[
        str, one_of("steps", "condition", says="Sort the table by steps, or by condition (the condition number).")
    ] = "steps",
    top: Annotated[int, typer.Option(help="Rows of the table; 0 shows all.")] = 12,
    seed: Annotated[int, typer.Option(help="Seed of the networks drawn to find the width.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(help="Write condition numbers against depth to this .svg or .png file.")
    ] = None,
    json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the recommendation.")] = False,
) -> None:
    """Rank networks, activations, depths and preparations by their Gram matrices at infinite width.

    Nothing is trained. Tables of more than 2000 rows are thinned out unless --limit is given. Exit code 0 if there
    is a network to recommend, 1 if equal examples rule it out, 2 if that could not be decided.
    """
    from rich.console import Console

    from wideproof.planning import MOST_ROWS, plan
    from wideproof.report import condition_figure, plan_summary, require_figure_path, save_figure, show_plan

    if top < 0:
        raise InputError(f"--top must be a number of rows >= 0, got {top}")
    if plot is not None:
        require_figure_path(plot)
    names = None if networks is None else _words(networks, "--networks")
    given = None if prepare is None else ["" if steps == "none" else steps for steps in prepare]
    kind = kind_for(source, names or []) if kind is None else kind
    data = find_data(source, target, classes, limit, header, kind, task)
    with watching(quiet or json) as progress:
        found = plan(
            data, networks=names, activations=_words(activations, "--activations"), depths=_numbers(depths),
            preparations=given, target_loss=target_loss, seed=seed, most_rows=MOST_ROWS if limit is None else None,
            progress=progress,
        )  # fmt: skip
    if plot is not None:
        save_figure(condition_figure(found), plot)
    options = {"target": target, "classes": classes, "limit": limit, "kind": kind, "task": task}
    options = {key: value for key, value in options.items() if value not in (None, "auto")}
    flag = [] if header is None else ["--header" if header else "--no-header"]
    command = shlex.join(["wideproof", "train", source, *(f"--{key}={value}" for key, value in options.items()), *flag])
    if json:
        print_json(plan_summary(found, command, by))
    else:
        console = Console(highlight=False)
        show_plan(console, found, command, by=by, top=top, quiet=quiet)
        if plot is not None:
            console.print(f"figure in {plot}", markup=False, soft_wrap=True)
    raise typer.Exit(found.answer.exit_code)


def _words(text: str, option: str) -> list[str]:
    """Split at commas.

    >>> _words("tanh, erf", "--activations")
    ['tanh', 'erf']
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise InputError(f"{option} names at least one, separated by commas, got {text!r}")
    return words


def _numbers(text: str) -> list[int]:
    """Read depths.

    >>> _numbers("1,2,6")
    [1, 2, 6]
    """
    words = _words(text, "--depths")
    for word in words:
        if not word.isdecimal():
            raise InputError(f"--depths must be whole numbers >= 1, as in 1,2,6, got {word!r}")
    return [int(word) for word in words]
