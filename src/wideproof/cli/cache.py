"""`wideproof cache`: the compiled programs that are kept for the next run."""

from __future__ import annotations

from typing import Annotated

import typer

from wideproof.cli.options import Json, print_json


def cache_command(
    clear: Annotated[bool, typer.Option("--clear", help="Remove them all.")] = False,
    json: Json = False,
) -> None:
    """Show how many compiled programs are kept, where, and how much space they may take; remove them with --clear.

    Exit code 0.
    """
    from wideproof import programs

    found = programs.clear() if clear else programs.kept()
    if json:
        folder = None if found.folder is None else str(found.folder)
        print_json({**found._asdict(), "folder": folder, "cleared": clear})
    else:
        typer.echo(f"{'removed' if clear else 'compiled programs'}: {found}")
