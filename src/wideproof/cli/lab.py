"""`wideproof lab`: the bench in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def lab_command(
    folder: Annotated[Path, typer.Option(help="Folder with proofs; new ones are saved there too.")] = Path("proofs"),
    port: Annotated[int, typer.Option(help="The port to listen on (default: a free one).", show_default=False)] = 0,
    host: Annotated[str, typer.Option(help="The address to listen on; any but this machine's own gets a warning.")] = (
        "127.0.0.1"
    ),
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address and open nothing.")] = False,
) -> None:
    """Watch a network become provable, in the browser: train it, see what was predicted, download the certificate.

    Only this machine can reach the page, and only with the token in its address. Ctrl-C ends it.
    """
    from wideproof.lab import serve

    serve(folder, host=host, port=port, browser=not no_browser, tell=typer.echo)
