"""One network's Gram matrix on one data set: is it positive definite, and what follows from it?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from wideproof.answers import Answer
from wideproof.data import AnyDataset
from wideproof.kernels import LARGE, Gram, Prediction, Spectrum, gram, limit_gram, predict, spectrum
from wideproof.networks import Network, RecurrentLimit
from wideproof.planning.assumptions import notes
from wideproof.progress import Progress, Watch, unwatched
from wideproof.training import Recipe


@dataclass(frozen=True)
class GramSettings:
    r"""What to compute in a study of a Gram matrix.

    Attributes
    ----------
    infinite
        Whether to compute the matrix at infinite width.
    seed
        Seed of the weights at finite width.
    layers
        Whether to study the part of each weight as well.
    precision
        The arithmetic, as in `gram`.
    memory
        Bytes of working memory, as in `gram`.
    method
        The eigenvalue solver, as in `spectrum`.
    step_size
        Step size (learning rate) of the predicted training, or `"safe"`: $1/\lambda_{\max}$.
    reduction
        Reduction of the squared loss: `"half_sum"` or `"mean"`.
    target_loss
        The loss down to which training is predicted.
    everything
        Whether to compute all eigenvalues.
    """

    infinite: bool
    seed: int = 0
    layers: bool = False
    precision: str = "float64"
    memory: int | None = None
    method: str = "auto"
    step_size: float | str = "safe"
    reduction: str = "half_sum"
    target_loss: float = 1e-6
    everything: bool = False


@dataclass(frozen=True, eq=False)
class GramStudy:
    """A Gram matrix with its spectrum and the training that it predicts.

    Attributes
    ----------
    data
        The prepared data.
    network
        The network.
    settings
        What was asked for.
    gram
        The Gram matrix.
    spectrum
        Its eigenvalues, with radii.
    course
        The predicted training; `None` without a Gram matrix, or with too many rows to compute all eigenvalues.
    notes
        Assumptions of the papers that fail, and other remarks, one sentence each.
    layers
        The spectrum of each weight's part, by name; empty unless asked for.
    """

    data: AnyDataset
    network: Network
    settings: GramSettings
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
        limit = self.network.limit()
        return isinstance(limit, RecurrentLimit) or any(layer.factor != 1 for layer in limit.layers)


def study_gram(
    network: Network,
    params: Mapping[str, np.ndarray] | None,
    data: AnyDataset,
    settings: GramSettings,
    *,
    progress: Watch = unwatched,
) -> GramStudy:
    """Compute a Gram matrix, its spectrum and the training that it predicts; say which assumptions of the papers fail.

    Parameters
    ----------
    network
        Any network.
    params
        The weights; `None` draws them from the seed of `settings`, or computes the limit of infinite width.
    data
        The prepared data.
    settings
        What to compute.
    progress
        Callback; receives a `Progress` before each part of the work.

    Returns
    -------
    GramStudy
        The results.

    Examples
    --------
    >>> from wideproof.data import load
    >>> from wideproof.networks import build
    >>> data = load("sphere:n=5,d=3,separation=0.5")
    >>> network = build("deep-relu", data.input_shape, data.target_shape, width=8, depth=1)
    >>> study_gram(network, None, data, GramSettings(infinite=True)).answer.value
    'holds'
    """

    def doing(text: str) -> None:
        progress(Progress("gram", text=text))

    scale = Recipe(loss="squared", reduction=settings.reduction, seed=settings.seed).objective.curvature(data.n)
    assert scale is not None
    options = {"by_weight": settings.layers, "precision": settings.precision, "memory": settings.memory}
    doing(f"computing the Gram matrix of {data.n} examples")
    weights = params or ({} if settings.infinite else network.init(settings.seed))
    matrix = limit_gram(network, data.x, **options) if settings.infinite else gram(network, weights, data.x, **options)
    doing(f"computing the eigenvalues of {matrix.shape[0]} rows")
    small = settings.method == "auto" and matrix.shape[0] <= LARGE
    dense = small or settings.everything or settings.method == "dense"
    method = "dense" if dense else "lanczos"
    found = spectrum(matrix, method=method, points=data.x, vectors=dense)
    parts = {}
    for name, block in matrix.blocks.items():
        doing(f"computing the eigenvalues of the part of {name}")
        parts[name] = spectrum(block, error=matrix.error, method=method)
    course = None
    if dense and (found.positive_definite or not found.decided):
        y = network.scored(data.y)
        start = 0.0 if settings.infinite else network.scored(np.asarray(network(weights, data.x)))
        if settings.infinite and y.ndim == 3:  # one matrix for every output: its rows are examples and steps
            y = y.reshape(-1, y.shape[-1])
        step = 1 / (scale * found.largest.value) if isinstance(settings.step_size, str) else settings.step_size
        course = predict(matrix, y, start, step, scale=scale, eigen=found)
    doing("checking the assumptions")
    said = notes(data, network)
    return GramStudy(data, network, settings, matrix, found, course, said, parts)
