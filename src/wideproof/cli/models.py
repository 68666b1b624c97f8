"""`wideproof models`: what is understood of a model, or what is in the way."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wideproof.cli.options import Json, print_json


def models_command(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="ONNX files.", show_default=False)],
    json: Json = False,
) -> None:
    """Say what is understood of models: layers, shapes, weights, loss; or everything that is in the way.

    Exit code 0 if all can be read, 1 if one cannot.
    """
    from wideproof.networks.exchange import overview

    found = [overview(file) for file in files]
    if json:
        print_json([one.to_dict() for one in found])
    else:
        for one in found:
            typer.echo(str(one))
    raise typer.Exit(int(any(one.obstacles for one in found)))
