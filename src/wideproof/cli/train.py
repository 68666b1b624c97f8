"""`wideproof train`, `resume`, `show`: run gradient descent and look at what it did."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wideproof.answers import Answer
from wideproof.cli.options import (
    DEFAULT_WIDTH,
    ActivationName,
    Classes,
    CRes,
    Depth,
    FilterSize,
    Header,
    Json,
    Kind,
    Limit,
    NetworkName,
    Prepare,
    Reduction,
    ResidualScale,
    Source,
    Start,
    Target,
    Task,
    Trained,
    find_problem,
    network_option,
    number_or_word,
    numbers_or_word,
    one_of,
    print_json,
)
from wideproof.cli.stopping import continuable, say_nothing_is_kept
from wideproof.cli.watching import watching
from wideproof.errors import InputError

if TYPE_CHECKING:
    from wideproof.training import Run

Plot = Annotated[Path | None, typer.Option(help="Write the loss curve to this .svg or .png file.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar, no curve.")]


def train_command(
    source: Source,
    target: Target = None,
    classes: Classes = None,
    limit: Limit = None,
    header: Header = None,
    kind: Kind = None,
    task: Task = "auto",
    prepare: Prepare = "auto",
    network: NetworkName = "fully-connected",
    width: Annotated[int, network_option(help="Units per layer, m.")] = DEFAULT_WIDTH,
    depth: Depth = None,
    activation: ActivationName = None,
    c_res: CRes = None,
    residual_scale: ResidualScale = None,
    filter_size: FilterSize = None,
    start: Start = None,
    trained: Trained = None,
    loss: Annotated[str | None, typer.Option(help="The loss: see `wideproof losses` (default: the paper's).")] = None,
    reduction: Reduction = "auto",
    step_size: Annotated[str, typer.Option(help="Step size: a number, safe or paper.")] = "safe",
    constant: Annotated[float, typer.Option(help="Factor that multiplies the rule's step size.")] = 1.0,
    steps: Annotated[int, typer.Option(help="The step limit.")] = 10_000,
    target_loss: Annotated[float | None, typer.Option(help="Stop at this loss.")] = None,
    zero_error: Annotated[bool, typer.Option("--zero-error", help="Stop at zero training error.")] = False,
    batch: Annotated[int | None, typer.Option(help="Minibatch size: SGD instead of gradient descent.")] = None,
    shuffle: Annotated[
        bool, typer.Option("--shuffle", help="With --batch: epochs, in which every example is used once.")
    ] = False,
    label_smoothing: Annotated[
        float, typer.Option(help="With cross_entropy: the share of every label that is spread over all classes.")
    ] = 0.0,
    class_weights: Annotated[
        str | None, typer.Option(help="Weights of the classes: balanced, or a number for each, as in 1,5,1.")
    ] = None,
    optimizer: Annotated[
        str,
        one_of(
            "plain",
            "momentum",
            "nesterov",
            "adam",
            "adamw",
            says="The optimizer: plain, momentum, nesterov, adam or adamw.",
        ),
    ] = "plain",
    momentum: Annotated[
        float | None, typer.Option(help="The coefficient of momentum and nesterov (default: 0.9).")
    ] = None,
    weight_decay: Annotated[
        float | None, typer.Option(help="Weight decay; decoupled for adamw (default: 0, and 0.01 for adamw).")
    ] = None,
    schedule: Annotated[
        str, typer.Option(help="How the step size changes: constant, cosine, linear, steps(30), warmup(50) cosine.")
    ] = "constant",
    seed: Annotated[int, typer.Option(help="Seed of the initial weights and the minibatches.")] = 0,
    precision: Annotated[str, one_of("float64", "float32", says="Arithmetic: float64 or float32.")] = "float64",
    record_every: Annotated[
        int, typer.Option(help="Steps between records; 0 records the first 1024 steps, then fewer and fewer.")
    ] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for the run (default: a new one under runs/).")] = None,
    checkpoint_seconds: Annotated[float, typer.Option(help="Least time between checkpoints, in seconds.")] = 30.0,
    plot: Plot = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train one of the papers' networks by gradient descent or SGD.

    Ctrl-C saves the run and says how to resume it, and so does SIGTERM. Exit code 0 if it reached what was asked for (a
    target loss, zero error; or the step limit if nothing was asked), 1 if not, 130 after Ctrl-C.
    """
    from wideproof.training import Recipe, train

    data, model = find_problem(
        source, target, classes, limit, header, kind, task, prepare=prepare, network=network, depth=depth,
        trained=trained, width=width, activation=activation, c_res=c_res, residual_scale=residual_scale,
        filter_size=filter_size, start=start,
    )  # fmt: skip
    recipe = Recipe(
        loss=loss or ("logistic" if model.paper in ("zou2018", "frei2019") and data.task == "binary" else "squared"),
        reduction=reduction, step_size=number_or_word(step_size), constant=constant, steps=steps,
        target_loss=target_loss, stop_at_zero_error=zero_error, batch=batch, optimizer=optimizer, seed=seed,
        precision=precision, record_every=record_every, label_smoothing=label_smoothing,
        class_weights=numbers_or_word(class_weights), shuffle=shuffle, momentum=momentum, weight_decay=weight_decay,
        schedule=schedule,
    )  # fmt: skip
    folder = out or new_name(Path("runs"), f"{data.name.partition(':')[0]}-{network}")
    _check_plot(plot)
    if not (quiet or json):
        typer.echo(f"{data}\n{model}")
    with continuable(lambda: _interrupted(folder, plot, json, quiet)), watching(quiet or json) as progress:
        run = train(model, data, recipe, folder=folder, checkpoint_seconds=checkpoint_seconds, progress=progress)
    _finish(run, folder, plot, json, quiet)


def resume_command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The run's folder.", show_default=False)],
    steps: Annotated[int | None, typer.Option(help="A new step limit.")] = None,
    checkpoint_seconds: Annotated[float, typer.Option(help="Least time between checkpoints, in seconds.")] = 30.0,
    plot: Plot = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Continue an interrupted run; it ends with the same bits as without the interruption.

    Exit codes as for `train`.
    """
    from wideproof.training import resume

    _check_plot(plot)
    with continuable(lambda: _interrupted(folder, plot, json, quiet)), watching(quiet or json) as progress:
        run = resume(folder, steps=steps, checkpoint_seconds=checkpoint_seconds, progress=progress)
    _finish(run, folder, plot, json, quiet)


def show_command(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The run's folder.", show_default=False)],
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Show a run: how it ended and its loss curve; with --json also its settings.

    Exit codes as for `train`, and 2 if the run is not finished.
    """
    from wideproof.training import Run

    _check_plot(plot)
    _finish(Run.load(folder), folder, plot, json, quiet=False)


def _interrupted(folder: Path, plot: Path | None, json: bool, quiet: bool) -> None:
    """Show what was saved, and how to resume it."""
    from wideproof.training import Run

    try:
        run = Run.load(folder)
    except InputError:  # a second signal came before anything was saved
        say_nothing_is_kept()
    else:
        _show(run, folder, plot, json, quiet)


def _finish(run: Run, folder: Path, plot: Path | None, json: bool, quiet: bool) -> None:
    from wideproof.training import Status

    _show(run, folder, plot, json, quiet)
    unfinished = run.status is Status.RUNNING
    raise typer.Exit(2 if unfinished else 1 if run.succeeded is Answer.FAILS else 0)


def _show(run: Run, folder: Path, plot: Path | None, json: bool, quiet: bool) -> None:
    from wideproof.report import loss_figure, run_summary, run_text, save_figure

    if plot is not None and len(run.steps):
        save_figure(loss_figure(run), plot)
    if json:
        print_json(run_summary(run, folder))
    else:
        typer.echo(run_text(run, folder, plot=plot, drawn=not quiet))


def _check_plot(plot: Path | None) -> None:
    from wideproof.report import require_figure_path

    if plot is not None:
        require_figure_path(plot)


def new_name(parent: Path, stem: str) -> Path:
    """Return `parent/stem-k` with the first number k that is free."""
    number = 1
    while (parent / f"{stem}-{number}").exists():
        number += 1
    return parent / f"{stem}-{number}"
