"""`wideproof prove`: from a data file to a proof that training fits it."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wideproof.cli.options import (
    ActivationName,
    Classes,
    CRes,
    FilterSize,
    Header,
    Json,
    Kind,
    Limit,
    Prepare,
    ResidualScale,
    Target,
    Task,
    Trained,
    find_data,
    find_problem,
    kind_for,
    number_or_word,
    print_json,
)
from wideproof.cli.train import new_name, progress_bar
from wideproof.errors import InputError

if TYPE_CHECKING:
    from wideproof.data import AnyDataset
    from wideproof.networks import Network

SOURCE, CLASSES, EXAMPLES = "digits", "0,1", 200
FAMILIES = {"vectors": "fully-connected", "images": "conv-residual", "sequences": "elman-rnn"}
DEPTHS = (1, 2, 3)
SMALL = 64  # width of a network that only stands for all of them


def prove_command(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="[DATA]", help="A data file or name (default: 200 digits, 0 against 1).", show_default=False
        ),
    ] = None,
    target: Target = None,
    classes: Classes = None,
    limit: Limit = None,
    header: Header = None,
    kind: Kind = None,
    task: Task = "auto",
    prepare: Prepare = "auto",
    network: Annotated[str | None, typer.Option(help="See `wideproof networks` (default: the plan's choice).")] = None,
    width: Annotated[str, typer.Option(help="Units per layer, or auto: the plan's choice.")] = "auto",
    depth: Annotated[int | None, typer.Option(help="Hidden layers (default: the plan's choice).")] = None,
    activation: ActivationName = None,
    c_res: CRes = None,
    residual_scale: ResidualScale = None,
    filter_size: FilterSize = None,
    trained: Trained = None,
    steps: Annotated[int, typer.Option(help="Most steps of training; what is left is polished away.")] = 2048,
    step_size: Annotated[str, typer.Option(help="A number, safe or paper.")] = "safe",
    seed: Annotated[int, typer.Option(help="Decides the start.")] = 0,
    sharp: Annotated[bool, typer.Option("--sharp", help="Sharper Lipschitz constants; slower.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder; one that exists is continued.")] = None,
    json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Audit the data, choose a network, train it, and prove that gradient descent reaches zero loss.

    The proof is checked by an independent verifier in ball arithmetic before anything is called proved. Exit code 0 if
    it is proved, 1 if zero loss is proved impossible, 2 if neither. An interrupted proof goes on with the same command
    and --out.
    """
    from wideproof.data.conflicts import conflicts
    from wideproof.planning.candidates import kind_of
    from wideproof.proving import prove
    from wideproof.report import proof_text, save_report
    from wideproof.training import Recipe

    if source is None:
        source, classes, limit = SOURCE, classes or CLASSES, EXAMPLES if limit is None else limit
    units = _units(width)
    silent = quiet or json

    def say(text: str) -> None:
        if not silent:
            typer.echo(text, err=True)

    options = {"c_res": c_res, "residual_scale": residual_scale, "filter_size": filter_size}
    if units is not None and network is not None:
        data, model = find_problem(
            source, target, classes, limit, header, kind, task, prepare=prepare, network=network, depth=depth,
            trained=trained, width=units, activation=activation, **options,
        )  # fmt: skip
    else:
        kind = kind or (kind_for(source, [network]) if network else None)
        loaded = find_data(source, target, classes, limit, header, kind, task)
        family = network or FAMILIES[kind_of(loaded)]
        if conflicts(loaded).least_square > 0:  # then any network will do: none fits
            data, model = find_problem(
                source, target, classes, limit, header, kind, task, prepare="none" if prepare == "auto" else prepare,
                network=family, depth=depth, trained=trained, width=units or SMALL, activation=activation, **options,
            )  # fmt: skip
        else:
            data, model = _planned(loaded, family, units, depth, prepare, trained, activation, say, **options)
    folder = out or new_name(Path("proofs"), data.name.partition(":")[0])
    say(f"{data}\n{model}")
    recipe = Recipe(steps=steps, seed=seed, step_size=number_or_word(step_size))
    try:
        with progress_bar(steps, silent) as bar:
            proof = prove(data, model, folder=folder, recipe=recipe, sharp=sharp, stage=say, progress=bar)
    except KeyboardInterrupt:
        typer.echo(f"interrupted: the same command with --out {shlex.quote(str(folder))} goes on from here", err=True)
        raise typer.Exit(2) from None
    save_report(proof, folder)
    if json:
        print_json(proof.to_dict())
    else:
        typer.echo(proof_text(proof))
    raise typer.Exit(0 if proof.proved else 1 if proof.impossible else 2)


def _planned(
    data: AnyDataset,
    family: str,
    units: int | None,
    depth: int | None,
    prepare: str,
    trained: str | None,
    activation: str | None,
    say: Callable[[str], None],
    **options: float | None,
) -> tuple[AnyDataset, Network]:
    """Choose what was left open from the infinite-width Gram matrices."""
    import dataclasses

    import numpy as np

    from wideproof.data import prepare as prepared
    from wideproof.planning import plan
    from wideproof.planning.candidates import ACTIVATIONS

    if data.task == "regression" and prepare == "auto" and np.ptp(data.y) > 0:
        data = prepared(data, "scale_targets")  # weights stay near their start only if the targets are of size 1
    say("planning")
    found = plan(
        data,
        networks=[family],
        activations=ACTIVATIONS if activation is None else [activation],
        depths=DEPTHS if depth is None else [depth],
        preparations=None if prepare == "auto" else [prepare],
    )
    if found.recommendation is None:
        raise InputError(f"the plan recommends nothing: {'; '.join(found.notes) or 'no candidate is decided'}")
    say(f"planned: {found.recommendation}")
    model = found.recommendation.network
    changes: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    if trained is not None:
        changes["trained"] = tuple(part.strip() for part in trained.split(","))
    if units is not None:
        changes["width"] = units
    return prepared(data, found.recommendation.row.candidate.preparation), dataclasses.replace(model, **changes)


def _units(width: str) -> int | None:
    if width == "auto":
        return None
    if not width.isdigit() or int(width) < 1:
        raise InputError(f"--width is auto or a whole number of at least 1, got {width!r}")
    return int(width)
