"""`wideproof gram`: is the Gram matrix of a network on this data positive definite, and what follows from it?"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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
    Prepare,
    Reduction,
    ResidualScale,
    Source,
    Target,
    Task,
    Trained,
    find_model,
    find_problem,
    is_model,
    network_option,
    number_or_word,
    one_of,
    print_json,
)
from wideproof.errors import InputError
from wideproof.progress import Watch, unwatched

if TYPE_CHECKING:
    from wideproof.planning import GramSettings


def gram_command(
    source: Source,
    target: Target = None,
    classes: Classes = None,
    limit: Limit = None,
    header: Header = None,
    kind: Kind = None,
    task: Task = "auto",
    prepare: Prepare = "auto",
    network: Annotated[
        str, network_option(help="The network: see `wideproof networks`; or an ONNX file, with its own weights.")
    ] = "fully-connected",
    width: Annotated[int | None, network_option(help="Units per layer, m, of a network drawn from --seed.")] = None,
    infinite: Annotated[
        bool,
        network_option("--infinite", help="Infinite width, as without --width; scaled to --width if both are given."),
    ] = False,
    depth: Depth = None,
    activation: ActivationName = None,
    c_res: CRes = None,
    residual_scale: ResidualScale = None,
    filter_size: FilterSize = None,
    trained: Trained = None,
    seed: Annotated[int, typer.Option(help="Seed of the weights at finite width.")] = 0,
    layers: Annotated[bool, typer.Option("--layers", help="Also show what each weight matrix contributes.")] = False,
    precision: Annotated[
        str, one_of("float64", "float32", "tf32", says="Arithmetic: float64, float32, or tf32 on a GPU.")
    ] = "float64",
    memory: Annotated[
        str | None, typer.Option(help="Working memory, as in 500MB (default: 2GiB, or a quarter of a GPU's).")
    ] = None,
    method: Annotated[
        str,
        one_of("auto", "dense", "lanczos", says="How to find eigenvalues: auto, dense (all) or lanczos (both ends)."),
    ] = "auto",
    step_size: Annotated[
        str, typer.Option("--step-size", "--step", help="Step size to predict with: a number, or safe: 1/λmax.")
    ] = "safe",
    reduction: Reduction = "auto",
    target_loss: Annotated[float, typer.Option(help="Predict the steps to this squared loss.")] = 1e-6,
    plot: Annotated[
        Path | None, typer.Option(help="Write the spectrum and the predicted loss to this .svg or .png file.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Write the matrix to this new .npz or .zarr file.")] = None,
    processes: Annotated[int, typer.Option(help="Share the work among this many processes.")] = 1,
    json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the verdict.")] = False,
) -> None:
    """Compute a Gram matrix, its spectrum with error radii, and the course of gradient descent it predicts.

    Without --width the network is infinitely wide. Exit code 0 if the matrix is positive definite, 1 if it is not, 2
    if that could not be decided.
    """
    from rich.console import Console

    from wideproof import processes as job
    from wideproof.planning import GramSettings, study_gram
    from wideproof.report import (
        gram_figure,
        gram_summary,
        require_figure_path,
        require_gram_path,
        save_figure,
        save_gram_study,
        show_gram,
    )
    from wideproof.storage import number_of_bytes

    given, limit_asked = None, infinite or (width is None and not is_model(network))
    room = None if memory is None else number_of_bytes(memory, "--memory")
    settings = GramSettings(limit_asked, seed, layers, precision, room, method, number_or_word(step_size),
                        reduction, target_loss, plot is not None)  # fmt: skip
    _require(settings)
    for path, check in ((plot, require_figure_path), (save, require_gram_path)):
        if path is not None:
            check(path)
    if is_model(network):
        data, model, given = find_model(source, target, classes, limit, header, task, prepare, network, trained)
    else:
        data, model = find_problem(
            source, target, classes, limit, header, kind, task, prepare=prepare, network=network, depth=depth,
            trained=trained, width=DEFAULT_WIDTH if width is None else width, activation=activation, c_res=c_res,
            residual_scale=residual_scale, filter_size=filter_size,
        )  # fmt: skip
    if processes != 1 and not job.started_here():
        raise typer.Exit(job.launch(sys.argv[1:], processes))
    speaks = job.join()
    with _spinner(quiet or json or not speaks) as progress:
        found = study_gram(model, given, data, settings, progress=progress)
    job.leave()
    if not speaks:
        raise typer.Exit(found.answer.exit_code)
    if save is not None:
        save_gram_study(save, found)
    if plot is not None:
        save_figure(gram_figure(found), plot)
    if json:
        print_json(gram_summary(found))
    else:
        console = Console(highlight=False)
        show_gram(console, found, quiet)
        for what, path in (("matrix", save), ("figure", plot)):
            if path is not None:
                console.print(f"{what} in {path}", markup=False, soft_wrap=True)
    raise typer.Exit(found.answer.exit_code)


def _require(settings: GramSettings) -> None:
    if not (math.isfinite(settings.target_loss) and settings.target_loss > 0):
        raise InputError(
            f"--target-loss must be a number > 0, got {settings.target_loss}: use a small one, such as 1e-6"
        )
    if isinstance(settings.step_size, str) and settings.step_size != "safe":
        raise InputError(f"--step-size must be a number or safe, got {settings.step_size!r}")
    if not isinstance(settings.step_size, str) and not (math.isfinite(settings.step_size) and settings.step_size > 0):
        raise InputError(f"--step-size must be a number > 0, got {settings.step_size}: use safe for 1/λmax")
    if settings.everything and settings.method == "lanczos":
        raise InputError("--plot draws all eigenvalues, and lanczos finds only two: use --method dense")


@contextlib.contextmanager
def _spinner(quiet: bool) -> Iterator[Watch]:
    """Show on stderr what is under way, if there is a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield unwatched
        return
    with console.status("starting") as status:
        yield lambda now: status.update(now.text)
