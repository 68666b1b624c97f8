"""`wideproof certify`: from a trained model and a data file to a proof in the model's own loss."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wideproof.cli.options import (
    Classes,
    Header,
    Json,
    KeepIds,
    Limit,
    Missing,
    Source,
    Target,
    Task,
    loading,
    one_of,
)
from wideproof.cli.prove import answer
from wideproof.cli.train import new_name
from wideproof.cli.watching import watching


def certify_command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="An ONNX file.", show_default=False)],
    source: Source,
    target: Target = None,
    classes: Classes = None,
    limit: Limit = None,
    header: Header = None,
    task: Task = "auto",
    missing: Missing = "fill",
    keep_ids: KeepIds = False,
    prepare: Annotated[
        str, typer.Option(help="Preparation steps that the model's inputs need, as in standardize.")
    ] = "none",
    head: Annotated[
        str | None,
        typer.Option(
            metavar="LAYER",
            help="The layer with which the head begins, a node, value or weight: all before it makes the features that "
            "are the data, and the head is proved.",
            show_default=False,
        ),
    ] = None,
    trained: Annotated[
        str | None, typer.Option(help="Weights that gradient descent moves, by name (default: all).")
    ] = None,
    targets: Annotated[
        str,
        one_of(
            "auto",
            "signs",
            "one-hot",
            says="Labels as signs (-1, 1) or one-hot (0, 1); auto: whichever the outputs are closer to.",
        ),
    ] = "auto",
    loss: Annotated[
        str,
        one_of(
            "auto",
            "squared",
            "cross_entropy",
            "logistic",
            says="The loss it was trained with: squared, cross_entropy or logistic; auto: guessed from its last layer, "
            "outputs and labels.",
        ),
    ] = "auto",
    polish: Annotated[
        float,
        typer.Option(
            help="For squares: move the weights by at most this share of their length, as in 0.1, to where an exact "
            "fit is proved; inf: as far as it takes (default: nothing moves).",
            show_default=False,
        ),
    ] = 0.0,
    sharp: Annotated[bool, typer.Option("--sharp", help="Sharper Lipschitz constants; slower.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for the proof.")] = None,
    json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Prove what a trained model reaches on a table in its own loss, from its very weights.

    First what is true now: the loss, the least margin, the rows that are right. Then how far gradient descent takes the
    loss from there; with squares, that it fits the table exactly. Nothing is moved unless --polish allows it. An
    independent verifier checks the certificate before anything is called proved. Exit code 0 if it is proved, 2 if not.
    """
    from wideproof.proving import certify_model

    names = None if trained is None else [part.strip() for part in trained.split(",")]
    with watching(quiet or json, lines=True) as progress:
        proof = certify_model(
            model, source, head=head, trained=names, targets=targets, loss=loss, prepare=prepare, polish=polish,
            sharp=sharp, progress=progress, folder=out or new_name(Path("proofs"), model.stem),
            **loading(target, classes, limit, header, None, task, missing, keep_ids),
        )  # fmt: skip
    answer(proof, json)
