"""`wideproof verify`: hand a certificate to the independent verifier."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wideproof.cli.options import Json


def verify_command(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="The folder of the certificate, or of the proof.", show_default=False),
    ],
    json: Json = False,
) -> None:
    """Check every claim of a certificate, with a program that shares no code with the prover and bounds all rounding.

    Exit code 0 if it is proved, 1 if an inequality fails, 2 if the certificate is malformed. The same verifier runs
    without JAX: `python -m wideproof_verify FOLDER`.
    """
    from wideproof_verify.__main__ import main

    raise typer.Exit(main([str(folder), *(["--json"] if json else [])]))
