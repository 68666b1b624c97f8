"""`wideproof prove` and `predict`: from a data file to a proof, and from a proof to predictions."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from wideproof.cli.options import (
    Classes,
    CRes,
    FilterSize,
    Header,
    Json,
    KeepIds,
    Kind,
    Limit,
    Missing,
    ResidualScale,
    Start,
    Target,
    Task,
    Trained,
    kind_for,
    loading,
    network_option,
    number_or_word,
    print_json,
    whole_number,
)
from wideproof.cli.stopping import continuable
from wideproof.cli.train import new_name
from wideproof.cli.watching import watching
from wideproof.errors import InputError

if TYPE_CHECKING:
    from wideproof.proving import LossProof, Proof, Starts

SOURCE, CLASSES, EXAMPLES = "digits", "0,1", 200


def prove_command(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA", help="A data file or name (default: 200 digits, 0 against 1).", show_default=False
        ),
    ] = None,
    target: Target = None,
    classes: Classes = None,
    limit: Limit = None,
    header: Header = None,
    kind: Kind = None,
    task: Task = "auto",
    missing: Missing = "fill",
    keep_ids: KeepIds = False,
    prepare: Annotated[
        str, network_option(help="Preparation, as in whiten,sphere(8); auto: chosen for the data; none: as it is.")
    ] = "auto",
    network: Annotated[
        str | None, network_option(help="The network: see `wideproof networks` (default: chosen for the data).")
    ] = None,
    width: Annotated[str, network_option(help="Units per layer, or auto: chosen for the data.")] = "auto",
    depth: Annotated[int | None, network_option(help="Hidden layers (default: chosen for the data).")] = None,
    activation: Annotated[str | None, network_option(help="Activation of the smooth networks (default erf).")] = None,
    c_res: CRes = None,
    residual_scale: ResidualScale = None,
    filter_size: FilterSize = None,
    start: Start = None,
    trained: Trained = None,
    steps: Annotated[
        int | None,
        typer.Option(help="Limit of training steps (default: what the budget allows)."),
    ] = None,
    step_size: Annotated[str, typer.Option(help="Step size: a number, safe, paper or auto.")] = "auto",
    batch: Annotated[int | None, typer.Option(help="Rows per step: SGD instead of gradient descent.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the initial weights.")] = 0,
    seeds: Annotated[
        int | None,
        typer.Option(
            help="Prove it from this many further random starts, each by itself, and say what share of all starts has "
            "a proof at least.",
            show_default=False,
        ),
    ] = None,
    slurm: Annotated[
        bool,
        typer.Option("--slurm", help="With --seeds: submit what is left as a SLURM job array, one start a task."),
    ] = False,
    slurm_options: Annotated[
        str, typer.Option(help='Options for sbatch, as in "--partition=gpu --time=02:00:00".', show_default=False)
    ] = "",
    part: Annotated[
        str | None,
        typer.Option(help="Prove one of the starts that --slurm began in the folder --out, as in 3/60."),
    ] = None,
    require_zero: Annotated[
        bool,
        typer.Option(
            "--require-zero", help="If labels contradict each other, prove that zero loss is impossible (exit code 1)."
        ),
    ] = False,
    holdout: Annotated[float, typer.Option(help="Hold out this share of the rows and test on them.")] = 0.0,
    sharp: Annotated[bool, typer.Option("--sharp", help="Sharper Lipschitz constants; slower.")] = False,
    from_start: Annotated[
        bool | None,
        typer.Option(
            "--from-start/--from-here",
            help="Prove it from the initial weights, however long that takes, or from the trained ones "
            "(default: from the initial ones, within the budget).",
            show_default=False,
        ),
    ] = None,
    alpha: Annotated[
        float | None,
        network_option(
            help="Multiply the outputs by this number, which makes weights move less (default: the least of 1, 3, 10, "
            "30, ... whose steps fit the budget)."
        ),
    ] = None,
    budget: Annotated[
        float, typer.Option(help="Seconds that following the steps from the start may take.", show_default=True)
    ] = 120.0,
    polish: Annotated[
        bool,
        typer.Option(
            "--polish", help="If nothing else is proved, find an exact fit near the trained weights by Gauss-Newton."
        ),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for the proof; an existing one is continued.")] = None,
    json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Prove that gradient descent reaches a global minimum on a table: zero loss, or the least that its labels allow.

    It loads the table, chooses a network that begins at output 0, trains it and certifies it from its initial weights;
    an independent verifier takes the steps again, with bounds on all rounding, before anything is called proved. With
    --seeds the same is done from many random starts, for a statement about all of them with 95 % confidence. Exit
    code 0 if it is proved, 1 if zero loss is proved impossible (--require-zero), 2 if neither. Run the same command
    with the same --out to continue an interrupted proof.
    """
    from wideproof.proving import prove

    if slurm_options and not slurm:
        raise InputError("--slurm-options say how a job array is made: give --slurm too")
    if part is not None:
        from wideproof.cli.slurm import start_command

        if slurm or source is not None:
            raise InputError("--part needs --out and nothing else: the folder holds the table and all options")
        start_command(out, part, json)
    if source is None:
        source, classes, limit = SOURCE, classes or CLASSES, EXAMPLES if limit is None else limit
    kind = kind or (kind_for(source, [network]) if network else None)
    folder = out or new_name(Path("proofs"), Path(source).stem.partition(":")[0])
    how = f"interrupted: run the same command with --out {shlex.quote(str(folder))} to continue"
    with continuable(lambda: typer.echo(how, err=True)), watching(quiet or json, lines=True) as progress:
        asked: dict[str, Any] = dict(
            network=network, width=whole_number(width, "--width", "auto"), depth=depth,
            activation=activation,
            options={"c_res": c_res, "residual_scale": residual_scale, "filter_size": filter_size, "start": start,
                     "trained": None if trained is None else tuple(part.strip() for part in trained.split(","))},
            prepare=prepare, folder=folder, seed=seed, steps=steps, step_size=number_or_word(step_size),
            batch=batch, require_zero=require_zero, holdout=holdout, sharp=sharp, alpha=alpha, budget=budget,
            from_start=from_start, polish=polish, progress=progress, seeds=seeds,
            **loading(target, classes, limit, header, kind, task, missing, keep_ids),
        )  # fmt: skip
        if slurm:
            from wideproof.cli.slurm import starts_command

            starts_command(out, asked, source, slurm_options, json)
        proof = prove(source, **asked)
    answer(proof, json)


def answer(proof: Proof | LossProof | Starts, json: bool) -> NoReturn:
    """Write the report, print what was proved, and end with its exit code."""
    proof.save_report()
    if json:
        print_json(proof.to_dict())
    else:
        typer.echo(str(proof))
    raise typer.Exit(proof.answer.exit_code)


def predict_command(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The folder that `prove` wrote.", show_default=False)
    ],
    source: Annotated[
        str, typer.Argument(metavar="DATA", help="A file with the same columns; the target is not needed.")
    ],
    out: Annotated[Path | None, typer.Option(help="The CSV file to write (default: print it).")] = None,
) -> None:
    """Predict new rows with the network of a proof, encoded and prepared as its own rows were.

    Writes a CSV with one row for each row of DATA: the number, or the class and the network's outputs, as output(yes)
    for the class yes. Texts that the training table does not hold are told.
    """
    from wideproof.data import new_rows, unseen
    from wideproof.proving import Predictor
    from wideproof.report import predictions_csv
    from wideproof.storage import write_bytes

    model = Predictor.load(folder)
    encoding = model.data.encoding
    rows = source if encoding is None else new_rows(encoding, source)
    text = predictions_csv(model, rows)
    for sentence in () if encoding is None else unseen(encoding, rows):
        typer.echo(sentence, err=True)
    for sentence in model.remarks(rows):
        typer.echo(sentence, err=True)
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_bytes(out, text.encode())
        typer.echo(f"{text.count(chr(10)) - 1} predictions in {out}", err=True)
