"""`wideproof verify`: hand a certificate to the independent verifier."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

from wideproof.cli.options import Json, print_json

if TYPE_CHECKING:
    from wideproof_verify import Verdict


class VerifyCommand(TyperCommand):
    """A bad command line ends with the verifier's code for it: 2 would say that the certificate is malformed."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, and give errors of usage that code."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if getattr(error, "exit_code", None) == 2:
                from wideproof_verify.__main__ import USAGE

                vars(error)["exit_code"] = USAGE
            raise


def verify_command(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="The folder of the certificate, of the proof, or of several proofs.",
            show_default=False,
        ),
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
    is not judged, because it would take more time or memory than is allowed, 64 if the command line is not
    understood. The same verifier runs without JAX: `python -m wideproof_verify FOLDER`. For a folder of random starts
    (`prove --seeds`) it also compares them with what was fixed for all, and says what they say of all starts.
    """
    from wideproof.proving import is_of_starts
    from wideproof_verify.__main__ import main

    if is_of_starts(folder):
        _verify_starts(folder, time, memory, balls, json)
    limits = ["--time", time, *(["--memory", memory] if memory is not None else [])]
    raise typer.Exit(main([str(folder), *limits, *(["--balls"] if balls else []), *(["--json"] if json else [])]))


def _verify_starts(folder: Path, time: str, memory: str | None, balls: bool, json: bool) -> NoReturn:
    """Verify every certificate of a folder of random starts, and say what they say of all starts."""
    from wideproof.proving import verify_starts
    from wideproof_verify.__main__ import CODES, USAGE, seconds, size

    try:
        limits: dict[str, Any] = {"time": seconds(time), "memory": None if memory is None else size(memory)}
    except argparse.ArgumentTypeError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(USAGE) from None

    def tell(seed: int, verdict: Verdict) -> None:
        if not json:
            typer.echo(f"start-{seed}: {verdict.answer}: {verdict.statement or verdict.reason}")

    found = verify_starts(folder, tell, balls=balls, **limits)
    print_json(found.to_dict()) if json else typer.echo(str(found))
    worst = max((CODES[one.answer] for one in found.verdicts.values()), default=0)
    raise typer.Exit(worst or (0 if found.confirmed else CODES["not proved"]))
