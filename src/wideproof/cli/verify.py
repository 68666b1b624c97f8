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
    time: Annotated[str, typer.Option(metavar="TIME", help="How long it may take: 90, 10m, 2h.")] = "1h",
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="How much memory it may use, as 4GB; by default three quarters of all.",
            show_default=False,
        ),
    ] = None,
    balls: Annotated[
        bool, typer.Option("--balls", help="Everything in ball arithmetic, nothing decided by float64; slow.")
    ] = False,
    json: Json = False,
) -> None:
    """Check every claim of a certificate, with a program that shares no code with the prover and bounds all rounding.

    Exit code 0 if it is proved, 1 if an inequality fails or is not decided, 2 if the certificate is malformed, 3 if it
    is not judged, because it would take more time or memory than is allowed. The same verifier runs without JAX:
    `python -m wideproof_verify FOLDER`.
    """
    from wideproof_verify.__main__ import main

    limits = ["--time", time, *(["--memory", memory] if memory is not None else [])]
    raise typer.Exit(main([str(folder), *limits, *(["--balls"] if balls else []), *(["--json"] if json else [])]))
