"""`wideproof rocq`: write a certificate as a theorem that Rocq's kernel checks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

NOT, MALFORMED, NOT_JUDGED = 1, 2, 3  # as `verify` has them


def rocq_command(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="The folder of the certificate, or of the proof.", show_default=False),
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The file to write (default: FOLDER.v here).", show_default=False),
    ] = None,
    arithmetic: Annotated[str, typer.Option(metavar="WORD", help="How the proof computes: z, bigz or float.")] = "bigz",
    check: Annotated[bool, typer.Option("--check", help="Have Rocq check it, and look at its axioms.")] = False,
    time: Annotated[float, typer.Option(metavar="SECONDS", help="How long Rocq may take with --check.")] = 600.0,
) -> None:
    """Write a certificate as a theorem in Rocq (Coq), whose proof its kernel can check; with --check, have it checked.

    Covered is Theorem 1 for one hidden layer, from stored weights or from the initial ones of a short run, also with
    equal inputs; anything else is refused with the reason. Exit code 0 if the file is written (with --check: and the
    kernel accepts it), 1 if an inequality fails or the kernel refuses it, 2 if it is malformed, 3 if it is not
    judged: it is not covered, Rocq is not there, or takes more time.
    """
    from wideproof.errors import InputError
    from wideproof.rocq import FailsError, NotCoveredError, export
    from wideproof.rocq import check as checked

    try:
        exported = export(folder, arithmetic)
    except NotCoveredError as error:
        _end(f"Not judged: {error}.", NOT_JUDGED)
    except FailsError as error:
        _end(f"Not proved: {error}.", NOT)
    except InputError as error:
        _end(f"Malformed: {error}", MALFORMED)
    place = out or Path(f"{folder.resolve().name}.v")
    place.write_text(exported.text, encoding="utf-8")
    print(exported.sentence)
    if exported.weakened:
        print(f"A little weaker than in the certificate: {', '.join(exported.weakened)}.")
    print(f"Written to {place}.")
    if check:
        said = checked(exported.text, arithmetic, time)
        if not said.judged:
            _end(f"Not judged: {said.reason}.", NOT_JUDGED)
        if not said.accepted:
            _end(f"Not proved: {said.reason}.", NOT)
        print(f"Rocq's kernel accepts it ({said.seconds:.1f} s, {said.megabytes:.0f} MB); its axioms:")
        print("\n".join(f"  {axiom}" for axiom in said.axioms))


def _end(words: str, code: int) -> None:
    print(words)
    raise typer.Exit(code)
