"""`wideproof doctor`: whether this machine computes correctly."""

from __future__ import annotations

import typer

from wideproof.cli.options import Json, print_json


def doctor_command(json: Json = False) -> None:
    """Check that this machine computes functions, products and random draws correctly.

    Exit code 0 if all is right, 1 if something is wrong.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from wideproof.doctor import examine

    found = examine()
    if json:
        print_json(found.as_dict())
        raise typer.Exit(found.answer.exit_code)
    console = Console(highlight=False, soft_wrap=True)
    title = "Largest errors, in units in the last place"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for column in ("what", "by", "precision", "error", "allowed", ""):
        table.add_column(column, no_wrap=True)
    for finding in found.findings:
        verdict = "[green]ok[/]" if finding.right else "[bold red]wrong[/]"
        error, allowed = f"{finding.error:.3g}", f"{finding.allowed:g}"
        table.add_row(finding.what, finding.by, finding.precision, error, allowed, verdict)
    console.print(table)
    for title, values in (("Versions", found.versions), ("Machine", found.machine)):
        console.print(f"[bold]{title}[/]: " + ", ".join(f"{key} {escape(str(value))}" for key, value in values.items()))
    for finding in found.wrong:
        console.print(
            f"[bold red]wrong[/]: {finding.what} by {finding.by} in {finding.precision}, off by {finding.error:.3g} "
            f"units in the last place, {escape(finding.where)}"
        )
    if found.wrong:
        console.print("Do not trust results of this machine: use another version of jaxlib, NumPy or SciPy.")
    else:
        console.print("All is right.")
    raise typer.Exit(found.answer.exit_code)
