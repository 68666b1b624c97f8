"""What `wideproof audit` prints: the facts of a data set, and what each paper asks of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wideproof.report.terminal import COLOUR
from wideproof.titles import PAPERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Group
    from rich.table import Table

    from wideproof.data import Audit

MOST_PAIRS, MOST_LISTED = 5, 8


def audit_view(found: Audit) -> Group:
    """Return an audit as tables for a terminal.

    Parameters
    ----------
    found
        The result of `wp.audit`.

    Returns
    -------
    Group
        The tables.
    """
    from rich.console import Group
    from rich.markup import escape

    if found.zero_loss_possible:
        zero = "\nZero training loss is not ruled out by the data.\n"
    else:
        zero = f"\n[red]Zero training loss is impossible[/]: {escape(str(found.conflicts))}\n"
    return Group(_facts(found), zero, _verdicts(found))


def _facts(found: Audit) -> Table:
    from rich.markup import escape
    from rich.table import Table

    geometry = found.geometry
    facts = Table.grid(padding=(0, 2))
    shape = " x ".join(map(str, found.input_shape))
    facts.add_row("data", f"{escape(found.name)}: {found.n} examples of {shape}, {found.task}")
    facts.add_row("norms", f"{found.norms[0]:.6g} to {found.norms[1]:.6g}")
    if found.zero_rows:
        facts.add_row("zero rows", _listed(found.zero_rows))
    if found.constant_columns:
        facts.add_row("constant columns", _listed(found.constant_columns))
    facts.add_row("separation δ", _pair(geometry.nearest))
    if found.task != "regression":
        facts.add_row("opposite labels φ", _pair(geometry.opposite))
    facts.add_row("parallel pairs", _pairs(geometry.parallel_count, geometry.parallel))
    facts.add_row("antipodal pairs", _pairs(geometry.antipodal_count, geometry.antipodal))
    facts.add_row("repeated inputs", f"{found.conflicts.duplicate_groups} groups")
    margin = str(found.margin) if found.margin else "not computed"
    facts.add_row("margin γ (Frei)", f"{margin}{f': {found.margin_note}' if found.margin_note else ''}")
    facts.add_row("numbering", "examples and columns are counted from 0")
    return facts


def _verdicts(found: Audit) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("paper", "assumption", "", "measured", "what to do"):
        table.add_column(column, overflow="fold")
    for verdict in found.verdicts:
        status = f"[{COLOUR[verdict.status]}]{verdict.status}[/]"
        said = (verdict.assumption, status, escape(verdict.detail), escape(verdict.remedy))
        table.add_row(PAPERS[verdict.paper], *said)
    return table


def _pair(pair: tuple[float, int, int] | None) -> str:
    return "none" if pair is None else f"{pair[0]:.6g}, between {pair[1]} and {pair[2]}"


def _pairs(count: int, listed: Sequence[tuple[int, int]]) -> str:
    if not count:
        return "0"
    shown = ", ".join(f"{i}-{j}" for i, j in listed[:MOST_PAIRS])
    return f"{count}: {shown}{', ...' if count > MOST_PAIRS else ''}"


def _listed(items: Sequence[int]) -> str:
    more = ", ..." if len(items) > MOST_LISTED else ""
    return f"{len(items)}: {', '.join(map(str, items[:MOST_LISTED]))}{more}"
