"""What `wideproof check` and `errata` print: statements, each result as it comes, what does not hold, misprints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wideproof.report import check_words as words
from wideproof.report.terminal import COLOUR
from wideproof.titles import PAPERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Group, RenderableType
    from rich.text import Text

    from wideproof.papers import Check, Erratum, Findings, Measured, Statement


def statements_view(chosen: Sequence[Statement], *, lines: bool = False) -> RenderableType:
    """Return a list of statements: what each says stands beside its name, or under itself where that is too long.

    Parameters
    ----------
    chosen
        What `statements` returned, or a part of it.
    lines
        One line for each, however long, for files and other programs.
    """
    from rich.table import Table
    from rich.text import Text

    if lines:
        longest = max((len(one.name) for one in chosen), default=0)
        return Text("\n".join(f"{one.name:{longest}}  {one.check:6}  {one.role:14}  {one.title}" for one in chosen))
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("statement", no_wrap=True)
    table.add_column("what it says (check, role)")
    for one in chosen:
        table.add_row(one.name, Text.assemble(one.title, (f" ({one.check}, {one.role})", "dim")))
    return table


def measured_line(one: Measured) -> Text:
    """Return the outcome of a statement, its name and its numbers as one line.

    Parameters
    ----------
    one
        A statement that was measured.
    """
    from rich.text import Text

    outcome = one.check.outcome.value
    text = Text(f"{outcome:10}", style=COLOUR[one.check.outcome] if one.as_expected else "bold red")
    text.append(f"{one.statement.name:32} ", style="default")
    text.append(one.check.numbers() or one.check.note, style="dim")
    return text


def findings_view(found: Findings) -> Group:
    """Return a study for a terminal: outcomes by role and paper, what does not hold and why, and the sum of it.

    Parameters
    ----------
    found
        What `examine` returned.
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 3, 0, 0))
    table.add_column("role")
    for key in words.papers_of(found):
        table.add_column(PAPERS[key], justify="right")
    for role, cells in words.matrix(found):
        table.add_row(role, *(words.cell(counted) for counted in cells))
    lines = [Text(f"\n{_open(one)}") for one in found.open]
    ending = Text(f"Study {found.study}, {found.seconds:.1f} seconds.")
    return Group(table, *lines, Text(f"\n{words.headline(found)}", style="bold"), ending)


def _open(one: Measured) -> str:
    mark = "" if one.as_expected else "UNEXPECTED "
    return f"{mark}{one.check.outcome} {one.statement.name}: {words.reason(one.statement, one.check.note)}"


def erratum_summary(entry: Erratum, printed: Check, right: Check, *, decided: bool) -> dict[str, Any]:
    """Return a misprint and the measurements that decide as plain values, for JSON and for pages.

    Parameters
    ----------
    entry
        One of `errata`.
    printed, right
        What is printed and what is right, measured.
    decided
        Whether the printed form fails and the right one holds.
    """
    return {
        "key": entry.key, "paper": entry.paper, "where": entry.where, "printed": entry.printed, "right": entry.right,
        "decided": decided, "printed_measured": str(printed), "right_measured": str(right),
    }  # fmt: skip


def erratum_view(row: Mapping[str, Any]) -> Group:
    """Return a misprint for a terminal: what is printed, what is right, and both as measured.

    Parameters
    ----------
    row
        Of `erratum_summary`.
    """
    from rich.console import Group
    from rich.markup import escape

    said = {key: escape(str(value)) for key, value in row.items()}
    return Group(
        f"[bold]{escape(PAPERS[row['paper']])}, {said['where']}[/]",
        f"  printed  {said['printed']}\n           [dim]{said['printed_measured']}[/]",
        f"  right    {said['right']}\n           [dim]{said['right_measured']}[/]\n",
    )
