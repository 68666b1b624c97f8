"""`wideproof audit`: do the theorems' assumptions hold for this data?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

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

if TYPE_CHECKING:
    from rich.console import Console

    from wideproof.data import Audit


def audit_command(
    source: Source,
    target: Target = None,
    classes: Classes = None,
    limit: Limit = None,
    header: Header = None,
    kind: Kind = None,
    task: Task = "auto",
    prepare: Annotated[str, typer.Option(help="Prepare first, as in whiten,unit.")] = "",
    paper: Annotated[str | None, typer.Option(help=f"Ask about one paper: {', '.join(PAPERS)}.")] = None,
    margin: Annotated[str, one_of("auto", "never", "full", says="The margin program: auto, full or never.")] = "auto",
    json: Json = False,
) -> None:
    """Audit a data set against the assumptions of the four papers.

    Exit code 0 if all data assumptions of the paper hold (without --paper: of at least one of them),
    1 if they do not, 2 if that could not be decided.
    """
    from rich.console import Console

    from wideproof.data import audit
    from wideproof.data import prepare as prepared

    if paper is not None and paper not in PAPERS:
        raise InputError(f"--paper must be one of {', '.join(PAPERS)}, got {paper!r}")
    data = find_data(source, target, classes, limit, header, kind, task)
    if prepare:
        data = prepared(data, prepare)
    found = audit(data, margin=margin)  # pyright: ignore[reportArgumentType]
    if json:
        print_json(found.to_dict() | {"holds": {key: found.holds(key).truth for key in PAPERS}})
    else:
        show_audit(Console(highlight=False), found)
    raise typer.Exit(found.holds(paper).exit_code)


def show_audit(console: Console, found: Audit) -> None:
    """Print an audit as tables."""
    from rich.markup import escape
    from rich.table import Table

    from wideproof.report import COLOUR

    clash, geometry = found.conflicts, found.geometry
    facts = Table.grid(padding=(0, 2))
    shape = " x ".join(map(str, found.input_shape))
    facts.add_row("data", f"{escape(found.name)}: {found.n} examples of {shape}, {found.task}")
    facts.add_row("norms", f"{found.norms[0]:.6g} to {found.norms[1]:.6g}")
    if found.zero_rows:
        facts.add_row("zero rows", _list(found.zero_rows))
    if found.constant_columns:
        facts.add_row("constant columns", _list(found.constant_columns))
    facts.add_row("separation δ", _pair(geometry.nearest))
    if found.task != "regression":
        facts.add_row("opposite labels φ", _pair(geometry.opposite))
    facts.add_row("parallel pairs", _pairs(geometry.parallel_count, geometry.parallel))
    facts.add_row("antipodal pairs", _pairs(geometry.antipodal_count, geometry.antipodal))
    facts.add_row("repeated inputs", f"{clash.duplicate_groups} groups")
    margin = str(found.margin) if found.margin else "not computed"
    facts.add_row("margin γ (Frei)", f"{margin}{f': {found.margin_note}' if found.margin_note else ''}")
    console.print(facts)
    if found.zero_loss_possible:
        console.print("\nZero training loss is not ruled out by the data.\n")
    else:
        console.print(f"\n[red]Zero training loss is impossible[/]: {clash}\n")
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("paper", "assumption", "", "measured", "what to do"):
        table.add_column(column, overflow="fold")
    for verdict in found.verdicts:
        table.add_row(
            PAPERS[verdict.paper],
            verdict.assumption,
            f"[{COLOUR[verdict.status]}]{verdict.status}[/]",
            verdict.detail,
            verdict.remedy,
        )
    console.print(table)


def _pair(pair: tuple[float, int, int] | None) -> str:
    return "none" if pair is None else f"{pair[0]:.6g}, between {pair[1]} and {pair[2]}"


def _pairs(count: int, listed: tuple[tuple[int, int], ...]) -> str:
    if not count:
        return "0"
    shown = ", ".join(f"{i}-{j}" for i, j in listed[:5])
    return f"{count}: {shown}{', ...' if count > 5 else ''}"


def _list(items: tuple[int, ...]) -> str:
    return f"{len(items)}: {', '.join(map(str, items[:8]))}{', ...' if len(items) > 8 else ''}"
