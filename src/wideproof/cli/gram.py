"""`wideproof gram`: is the Gram matrix of a network on this data positive definite, and what follows from it?"""

from __future__ import annotations

import contextlib
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
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
    print_json,
)
from wideproof.errors import InputError

if TYPE_CHECKING:
    from wideproof.data import AnyDataset
    from wideproof.kernels import Gram, Prediction, Spectrum
    from wideproof.networks import Network


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
        str, network_option(help="See `wideproof networks`; or an ONNX file, with its own weights.")
    ] = "fully-connected",
    width: Annotated[int | None, network_option(help="Units per layer, m: the network drawn from --seed.")] = None,
    infinite: Annotated[
        bool, network_option("--infinite", help="Infinite width (as without --width), scaled to --width if given.")
    ] = False,
    depth: Depth = None,
    activation: ActivationName = None,
    c_res: CRes = None,
    residual_scale: ResidualScale = None,
    filter_size: FilterSize = None,
    trained: Trained = None,
    seed: Annotated[int, typer.Option(help="Seed of the weights at finite width.")] = 0,
    layers: Annotated[bool, typer.Option("--layers", help="Also show the part of each weight matrix.")] = False,
    precision: Annotated[str, typer.Option(help="float64, float32, or tf32 on a GPU.")] = "float64",
    memory: Annotated[
        str | None, typer.Option(help="Working memory, as in 500MB (default 2GiB, or a quarter of a GPU).")
    ] = None,
    method: Annotated[
        str, typer.Option(help="How to find eigenvalues: auto, dense (all) or lanczos (both ends).")
    ] = "auto",
    step_size: Annotated[
        str, typer.Option("--step-size", "--step", help="Step size to predict with: a number, or safe: 1/λmax.")
    ] = "safe",
    reduction: Reduction = "auto",
    target_loss: Annotated[float, typer.Option(help="Predict the steps to this squared loss.")] = 1e-6,
    plot: Annotated[
        Path | None, typer.Option(help="Write the spectrum and the predicted loss to .svg or .png.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Write the matrix to this new .npz or .zarr.")] = None,
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
    from wideproof.cli.gram_output import show_study, summary
    from wideproof.report import require_figure_path, require_gram_path, save_figure, save_gram, spectrum_figure
    from wideproof.storage import number_of_bytes

    given, limit_asked = None, infinite or (width is None and not is_model(network))
    room = None if memory is None else number_of_bytes(memory, "--memory")
    settings = Settings(limit_asked, seed, layers, precision, room, method, number_or_word(step_size),
                        reduction, target_loss, plot is not None)  # fmt: skip
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
    with _spinner(quiet or json or not speaks) as doing:
        found = study(data, model, settings, doing, given)
    job.leave()
    if not speaks:
        raise typer.Exit(found.answer.exit_code)
    described = summary(found)
    if save is not None:
        about = {key: described[key] for key in ("data", "network", "infinite", "seed", "spectrum")}
        save_gram(save, found.gram, found.spectrum, about)
    if plot is not None:
        title = f"{data.name}, n = {data.n}: {model.name}, {found.where}"
        drawn = spectrum_figure(
            found.spectrum, layers=found.layers, course=found.course, target_loss=target_loss, title=title
        )
        save_figure(drawn, plot)
    if json:
        print_json(described)
    else:
        console = Console(highlight=False)
        show_study(console, found, quiet)
        for what, path in (("matrix", save), ("figure", plot)):
            if path is not None:
                console.print(f"{what} in {path}", markup=False, soft_wrap=True)
    raise typer.Exit(found.answer.exit_code)


@dataclass(frozen=True)
class Settings:
    """What the command was asked for, besides data and network."""

    infinite: bool
    seed: int
    layers: bool
    precision: str
    memory: int | None
    method: str
    step_size: float | str
    reduction: str
    target_loss: float
    everything: bool

    def __post_init__(self) -> None:
        if not (math.isfinite(self.target_loss) and self.target_loss > 0):
            raise InputError(
                f"--target-loss must be a number > 0, got {self.target_loss}: use a small one, such as 1e-6"
            )
        if isinstance(self.step_size, str) and self.step_size != "safe":
            raise InputError(f"--step-size must be a number or safe, got {self.step_size!r}")
        if not isinstance(self.step_size, str) and not (math.isfinite(self.step_size) and self.step_size > 0):
            raise InputError(f"--step-size must be a number > 0, got {self.step_size}: use safe for 1/λmax")
        if self.method not in ("auto", "dense", "lanczos"):
            raise InputError(f"--method must be auto, dense or lanczos, got {self.method!r}")
        if self.everything and self.method == "lanczos":
            raise InputError("--plot draws all eigenvalues, and lanczos finds only two: use --method dense")


@dataclass(frozen=True, eq=False)
class Study:
    """What was computed; `course` is None where there are too many rows for all eigenvalues, or no Gram matrix."""

    data: AnyDataset
    network: Network
    settings: Settings
    gram: Gram
    spectrum: Spectrum
    course: Prediction | None
    notes: tuple[str, ...]
    layers: dict[str, Spectrum] = field(default_factory=dict)

    @property
    def answer(self) -> Answer:
        """Whether the matrix is positive definite. Equal inputs make equal rows, whatever rounds."""
        if self.spectrum.singular:
            return Answer.FAILS
        return Answer.of(self.spectrum.positive_definite if self.spectrum.decided else None)

    @property
    def where(self) -> str:
        """The width, in words."""
        width = getattr(self.network, "width", None)
        if width is None:
            return "the model's weights"
        if not self.settings.infinite:
            return f"width {width}, seed {self.settings.seed}"
        return f"infinite width{f', scaled to width {width}' if self._grows else ''}"

    @property
    def described(self) -> str:
        """The network in words; without a width where that has no part in the result."""
        text = str(self.network)
        return re.sub(r"width=[^,]+, ", "", text) if self.settings.infinite and not self._grows else text

    @property
    def _grows(self) -> bool:
        """Whether a part of the limit is in proportion to the width."""
        from wideproof.networks import RecurrentLimit

        limit = self.network.limit()
        return isinstance(limit, RecurrentLimit) or any(layer.factor != 1 for layer in limit.layers)


def study(
    data: AnyDataset,
    network: Network,
    settings: Settings,
    doing: Callable[[str], None],
    given: Mapping[str, np.ndarray] | None = None,
) -> Study:
    """Compute the Gram matrix, its spectrum and the prediction, at `given` weights or at those of the seed.

    `doing` is told what is under way.
    """
    from wideproof.cli.gram_notes import notes
    from wideproof.kernels import LARGE, gram, limit_gram, predict, spectrum
    from wideproof.training import Recipe

    scale = Recipe(loss="squared", reduction=settings.reduction, seed=settings.seed).objective.curvature(data.n)
    assert scale is not None
    options = {"by_weight": settings.layers, "precision": settings.precision, "memory": settings.memory}
    doing(f"the Gram matrix of {data.n} examples")
    params = given or ({} if settings.infinite else network.init(settings.seed))
    matrix = limit_gram(network, data.x, **options) if settings.infinite else gram(network, params, data.x, **options)
    doing(f"the eigenvalues of {matrix.shape[0]} rows")
    small = settings.method == "auto" and matrix.shape[0] <= LARGE
    dense = small or settings.everything or settings.method == "dense"
    method = "dense" if dense else "lanczos"
    found = spectrum(matrix, method=method, points=data.x, vectors=dense)
    parts = {}
    for name, block in matrix.blocks.items():
        doing(f"the eigenvalues of the part of {name}")
        parts[name] = spectrum(block, error=matrix.error, method=method)
    course = None
    if dense and (found.positive_definite or not found.decided):
        y = network.scored(data.y)
        start = 0.0 if settings.infinite else network.scored(np.asarray(network(params, data.x)))
        if settings.infinite and y.ndim == 3:  # one matrix for every output: its rows are examples and steps
            y = y.reshape(-1, y.shape[-1])
        step = 1 / (scale * found.largest.value) if isinstance(settings.step_size, str) else settings.step_size
        course = predict(matrix, y, start, step, scale=scale, eigen=found)
    doing("the assumptions")
    said = notes(data, network)
    return Study(data, network, settings, matrix, found, course, said, parts)


@contextlib.contextmanager
def _spinner(quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show on stderr what is under way, if there is a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda text: None
        return
    with console.status("the data") as status:
        yield status.update
