"""`wideproof doctor`: whether this machine computes correctly."""

from __future__ import annotations

import typer

from wideproof.cli.options import Json, print_json


def doctor_command(json: Json = False) -> None:
    """Check that this machine computes functions, products and random draws correctly.

    Exit code 0 if all is right, 1 if something is wrong.
    """
    from rich.console import Console

    from wideproof.doctor import examine
    from wideproof.report import doctor_view

    found = examine()
    if json:
        print_json(found.as_dict())
    else:
        Console(highlight=False, soft_wrap=True).print(doctor_view(found))
    raise typer.Exit(found.answer.exit_code)
