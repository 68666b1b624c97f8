"""`wideproof follow`: what a training run reached, proved from its first step on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wideproof.cli.options import Json, print_json
from wideproof.cli.watching import watching


def follow_command(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder that `train` wrote.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(help="Where the certificate is written (default: RUN-certificate).")
    ] = None,
    sharp: Annotated[bool, typer.Option("--sharp", help="Sharper Lipschitz constants; slower.")] = False,
    json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Prove what a training run reached, from its initial weights: a global minimum, or the loss after its last step.

    The independent verifier takes every step again, and bounds its distance from gradient descent without rounding; for
    SGD it takes the run's own batches. Exit code 0 if something is proved, 2 if not.
    """
    from wideproof.proving import follow
    from wideproof.report import followed_text
    from wideproof.training import Run

    place = out or folder.with_name(f"{folder.name}-certificate")
    with watching(quiet or json, lines=True) as progress:
        found = follow(Run.load(folder), place, sharp=sharp, progress=progress)
    if json:
        print_json(found.to_dict())
    else:
        typer.echo(followed_text(found))
    raise typer.Exit(found.answer.exit_code)
