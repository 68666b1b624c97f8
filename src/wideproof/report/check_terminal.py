"""What `wideproof check` and `errata` print: statements, each result as it comes, what does not hold, errata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wideproof.answers import Answer
from wideproof.report import check_words as words
from wideproof.report.terminal import COLOUR
from wideproof.titles import PAPERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Group, RenderableType
    from rich.text import Text

    from wideproof.papers import Check, Erratum, Findings, Measured, Statement


FEW = 3  # statements of which everything is shown
LABEL = 10  # columns in front of what is said


def statements_view(chosen: Sequence[Statement], *, lines: bool = False) -> RenderableType:
    """Return a list of statements: each with its title beside its name, or below it if the line gets too long.

    Parameters
    ----------
    chosen
        The result of `statements`, or a part of it.
    lines
        Print one line for each statement, however long, for files and other programs.

    Returns
    -------
    RenderableType
        A table or lines of text.
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


def measured_view(one: Measured, of: int = 1, *, lines: bool = False) -> RenderableType:
    """Return the outcome of a statement and what was compared; for one of a few statements, all details.

    Parameters
    ----------
    one
        A measured statement.
    of
        Number of statements that are measured.
    lines
        Break no line, for files and other programs.

    Returns
    -------
    RenderableType
        Lines of text.
    """
    return _whole(one, lines) if of <= FEW else _short(one, lines)


def _short(one: Measured, lines: bool) -> RenderableType:
    """Return the decisive comparison with its numbers, in the line of the name or under it."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    shown = words.decisive(one.check)
    said = Text(f"{shown.title}: {one.check.numbers() or one.check.note}".removesuffix(": "), style="dim")
    if lines:
        return Text.assemble(_outcome(one), f"{one.statement.name:32} ", said)
    return Group(Text.assemble(_outcome(one), one.statement.name), Padding(said, (0, 0, 0, LABEL)))


def _whole(one: Measured, lines: bool) -> RenderableType:
    """Return formula, notes on the text, every comparison, what is supposed and what was chosen."""
    from rich.table import Table
    from rich.text import Text

    rows: list[tuple[str | Text, list[str]]] = [(_outcome(one), [one.statement.name]), *_about(one), ("", [""])]
    shown = [(label if k == 0 else "", text) for label, texts in rows for k, text in enumerate(texts)]
    if lines:
        said = (Text.assemble(label, " " * (LABEL - len(label)), text) if text else Text() for label, text in shown)
        return Text("\n").join(said)
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(width=LABEL - 1, style="dim")
    table.add_column()
    for label, text in shown:
        table.add_row(label, Text(text))
    return table


def _about(one: Measured) -> list[tuple[str | Text, list[str]]]:
    statement, check = one.statement, one.check
    why = statement.why if check.outcome is not Answer.HOLDS else ""
    more = check.note if all(check.note not in leaf.note for leaf in check.leaves()) else ""
    rows: list[tuple[str | Text, list[str]]] = [
        ("says", [statement.title, *statement.formula.splitlines()]),
        ("text", words.misprinted(statement)),
        ("measured", [f"{leaf.outcome}: {words.compared(leaf)}" for leaf in check.leaves()]),
        ("note", [text for text in (why, more) if text]),
        ("supposed", [words.supposed(part) for part in check.hypotheses]),
        ("chosen", list(check.assumptions)),
    ]
    return [(label, texts) for label, texts in rows if texts]


def _outcome(one: Measured) -> Text:
    from rich.text import Text

    style = COLOUR[one.check.outcome] if one.as_expected else "bold red"
    return Text(f"{one.check.outcome.value:{LABEL}}", style=style)


def findings_view(found: Findings) -> Group:
    """Return a study for a terminal: outcomes by role and paper, what does not hold and why, and the total.

    For a few statements only the total is shown, because `measured_view` has printed the rest.

    Parameters
    ----------
    found
        The result of `examine`.

    Returns
    -------
    Group
        Tables and text.
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    ending = Text(f"Study {found.study}, {found.seconds:.1f} seconds.")
    if len(found.measured) <= FEW:
        return Group(Text(words.headline(found), style="bold"), ending)
    table = Table(box=None, padding=(0, 3, 0, 0))
    table.add_column("role")
    for key in words.papers_of(found):
        table.add_column(PAPERS[key], justify="right")
    for role, cells in words.matrix(found):
        table.add_row(role, *(words.cell(counted) for counted in cells))
    lines = [Text(f"\n{_open(one)}") for one in found.open]
    marked = sum(bool(one.statement.erratum) for one in found.measured)
    if marked:
        ending.append(
            f" Something is noted on the text of {marked} of the statements: `wideproof check` of one shows it."
        )
    return Group(table, *lines, Text(f"\n{words.headline(found)}", style="bold"), ending)


def _open(one: Measured) -> str:
    mark = "" if one.as_expected else "UNEXPECTED "
    return f"{mark}{one.check.outcome} {one.statement.name}: {words.reason(one.statement, one.check.note)}"


def erratum_summary(entry: Erratum, printed: Check, right: Check, *, decided: bool) -> dict[str, Any]:
    """Return an entry and the measurements that decide as plain values, for JSON and for pages.

    Parameters
    ----------
    entry
        One entry of `errata`.
    printed
        The measurement of the printed form.
    right
        The measurement of the corrected form.
    decided
        Whether the printed form fails and the corrected one holds.

    Returns
    -------
    dict[str, Any]
        The values by name.
    """
    return {
        "key": entry.key, "paper": entry.paper, "where": entry.where, "printed": entry.printed, "right": entry.right,
        "fault": str(entry.fault), "place": entry.place, "quotation": entry.quotation, "under": entry.under,
        "decided": decided, "printed_measured": str(printed), "right_measured": str(right),
    }  # fmt: skip


def erratum_view(row: Mapping[str, Any]) -> Group:
    """Return an entry for a terminal: its kind, the printed words, the corrected form, and both measurements.

    Parameters
    ----------
    row
        The result of `erratum_summary`.

    Returns
    -------
    Group
        Lines of text.
    """
    from rich.console import Group
    from rich.markup import escape

    said = {key: escape(str(value)) for key, value in row.items()}
    return Group(
        f"[bold]{escape(PAPERS[row['paper']])}, {said['where']}[/]: {said['fault']}",
        f"  text     {said['quotation']}\n           [dim]{said['place']}[/]",
        f"  printed  {said['printed']}\n           [dim]{said['printed_measured']}[/]",
        f"  right    {said['right']}\n           [dim]{said['right_measured']}[/]",
        f"  under    {said['under']}\n",
    )
