"""`wideproof audit`: do the theorems' assumptions hold for this data?"""

from __future__ import annotations

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
    one_of,
    print_json,
)
from wideproof.errors import InputError
from wideproof.titles import PAPERS


def audit_command(
    source: Source,
    target: Target = None,
    classes: Classes = None,
    limit: Limit = None,
    header: Header = None,
    kind: Kind = None,
    task: Task = "auto",
    prepare: Annotated[str, typer.Option(help="Preparation steps to apply first, as in whiten,unit.")] = "",
    paper: Annotated[str | None, typer.Option(help=f"Ask about one paper: {', '.join(PAPERS)}.")] = None,
    margin: Annotated[
        str, one_of("auto", "never", "full", says="Compute the margin: auto, full (on all examples) or never.")
    ] = "auto",
    json: Json = False,
) -> None:
    """Audit a data set against the assumptions of the four papers.

    Exit code 0 if all data assumptions of the paper hold (without --paper: of at least one paper),
    1 if they do not, 2 if that could not be decided.
    """
    from rich.console import Console

    from wideproof.data import audit
    from wideproof.data import prepare as prepared
    from wideproof.report import audit_view

    if paper is not None and paper not in PAPERS:
        raise InputError(f"--paper must be one of {', '.join(PAPERS)}, got {paper!r}")
    data = find_data(source, target, classes, limit, header, kind, task)
    if prepare:
        data = prepared(data, prepare)
    found = audit(data, margin=margin)  # pyright: ignore[reportArgumentType]
    if json:
        print_json(found.to_dict() | {"holds": {key: found.holds(key).truth for key in PAPERS}})
    else:
        Console(highlight=False).print(audit_view(found))
    raise typer.Exit(found.holds(paper).exit_code)
