"""What `wideproof doctor` prints: errors in units in the last place, versions, and what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Group

    from wideproof.doctor import Examination


def doctor_view(found: Examination) -> Group:
    """Return an examination of this machine for a terminal.

    Parameters
    ----------
    found
        The result of `wideproof.doctor.examine`.

    Returns
    -------
    Group
        The tables.
    """
    from rich.console import Group
    from rich.markup import escape
    from rich.table import Table

    title = "Largest errors, in units in the last place"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for column in ("what", "by", "precision", "error", "allowed", ""):
        table.add_column(column, no_wrap=True)
    for finding in found.findings:
        verdict = "[green]ok[/]" if finding.right else "[bold red]wrong[/]"
        error, allowed = f"{finding.error:.3g}", f"{finding.allowed:g}"
        table.add_row(finding.what, finding.by, finding.precision, error, allowed, verdict)
    facts = [
        f"[bold]{name}[/]: " + ", ".join(f"{key} {escape(str(value))}" for key, value in values.items())
        for name, values in (("Versions", found.versions), ("Machine", found.machine))
    ]
    wrong = [
        f"[bold red]wrong[/]: {finding.what} by {finding.by} in {finding.precision}, off by {finding.error:.3g} "
        f"units in the last place, {escape(finding.where)}"
        for finding in found.wrong
    ]
    advice = "Do not trust results of this machine: use another version of jaxlib, NumPy or SciPy."
    return Group(table, *facts, *wrong, advice if wrong else "All is right.")
