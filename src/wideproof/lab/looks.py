"""What the bench shows of a network: where it stands on the way to a proof, what was predicted, what it computes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from wideproof.certificates import DENSE, Attempt, Problem, certify, distance, length
from wideproof.certificates.passes import run as forward
from wideproof.data import AnyDataset, apply, distinct
from wideproof.kernels import limit_gram, predict
from wideproof.networks import Network
from wideproof.training import Run

CELLS = 160  # rows of the Gram matrix that a page draws
GRID = 41  # points of the plane along each axis
LINE = 201
FAR = 1e3  # times the first loss: what is predicted beyond is not drawn
HORIZON = 10**7  # steps that a predicted curve goes on for


@dataclass(frozen=True, eq=False)
class Look:
    r"""Where a network stands at one step.

    Attributes
    ----------
    h, residual, s, constant
        The proof ratio $h = \Lambda \rho / s^2$ and what it is made of.
    largest
        $\lambda_{\max}$ of the Gram matrix.
    top
        $\eta \lambda_{\max}$, which is stable below 2.
    moved, relative
        The distance from the start, and the same in lengths of the weights there.
    flipped
        The share of pre-activations whose sign is another than at the start.
    eigenvalues
        Of the Gram matrix of all examples, falling.
    gram
        Its correlations, at most `CELLS` examples of it.
    obstacle
        Why there is no proof here, in one sentence.
    """

    step: int
    h: float
    residual: float
    s: float
    constant: float
    largest: float
    top: float
    moved: float
    relative: float
    flipped: float
    eigenvalues: np.ndarray
    gram: np.ndarray
    obstacle: str
    attempt: Attempt


def look(run: Run, signs: list[np.ndarray]) -> Look:
    """Measure a run where it stands; `signs` are those of its pre-activations at the start.

    All of it is ordinary arithmetic: good for a meter, not for a proof.
    """
    network, data = run.network, run.data
    attempt = certify(Problem(network, data).at(run.params), level="float64")
    anchor = attempt.anchor
    if anchor is None:
        raise ValueError("these examples contradict each other, so there is nothing to measure")
    eigenvalues, cells = np.zeros(0), np.zeros((0, 0))
    if not anchor.lean:
        matrix = (anchor.gram.mid + anchor.gram.mid.T) / 2
        place = distinct(data).place  # equal inputs are one row of the anchor's matrix: here each has its own
        repeats = (len(place) - len(matrix) // anchor.outputs) * anchor.outputs
        eigenvalues = np.append(np.linalg.eigvalsh(matrix)[::-1], np.zeros(repeats))
        cells = _correlations(matrix, anchor.outputs, place)
    largest = float(eigenvalues[0]) if len(eigenvalues) else anchor.S**2
    moved = distance(network.trained_names, run.params, run.initial)
    size = length({name: np.asarray(run.initial[name], np.float64) for name in network.trained_names})
    now = signs_of(network, run.params, data)
    flipped = np.mean([np.mean(a != b) for a, b in zip(now, signs, strict=True)])
    constant = attempt.h * anchor.s**2 / anchor.residual if anchor.residual > 0 and anchor.s > 0 else math.nan
    obstacle = "" if attempt.obstacle is None else str(attempt.obstacle)
    return Look(
        run.step, attempt.h, anchor.residual, anchor.s, constant, largest, run.step_size * largest, moved,
        moved / size if size else math.nan, float(flipped), eigenvalues, cells, obstacle, attempt,
    )  # fmt: skip


def _correlations(matrix: np.ndarray, outputs: int, place: np.ndarray) -> np.ndarray:
    """The first output's part of the matrix with ones on the diagonal, of at most `CELLS` examples."""
    rows = np.arange(0, len(matrix), outputs)[place]
    rows = rows[:: -(-len(rows) // CELLS)]
    size = np.sqrt(np.maximum(np.diagonal(matrix)[rows], 1e-300))
    return matrix[np.ix_(rows, rows)] / np.outer(size, size)


def signs_of(network: Network, params: Mapping[str, np.ndarray], data: AnyDataset) -> list[np.ndarray]:
    """Return for each layer which pre-activations are positive."""
    return [z.mid > 0 for z in forward(network.graph, params, data.x, tracked=False).z]


def _drawn_steps() -> np.ndarray:
    found = [*range(100)]
    while found[-1] < 2e9:
        found.append(math.ceil(found[-1] * 1.01))
    return np.array(found)


DRAWN = _drawn_steps()  # where a page draws curves: all of the first hundred steps, then each one per cent later


def thinned(steps: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return of rising steps those that a page shows: the last one up to each step that it draws.

    >>> thinned(np.arange(98, 106), np.arange(8))[0].tolist()
    [98, 99, 100, 101, 103, 105]
    """
    place = np.searchsorted(DRAWN, steps)
    last = np.flatnonzero(np.diff(place, append=-1))
    return steps[last], values[last]


@dataclass(frozen=True, eq=False)
class Forecast:
    """The loss that a fixed Gram matrix foretells, from the step `origin` on."""

    origin: int
    steps: np.ndarray
    loss: np.ndarray


def drawn(loss: Callable[[np.ndarray], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the steps at which a predicted course is drawn, and its loss there; one that diverges leaves the picture.

    >>> drawn(lambda k: 10.0**k)[0].tolist()
    [0.0, 1.0, 2.0, 3.0]
    """
    steps = np.unique(np.round(np.concatenate([np.arange(64), np.geomspace(64, HORIZON, 700)])))
    with np.errstate(over="ignore"):
        found = loss(steps)
    known = np.isfinite(found) & (found <= FAR * found[0])
    return steps[known], found[known]


def foretell(found: Look, run: Run) -> Forecast | None:
    """Return the loss that the Gram matrix of a look predicts for gradient descent from there."""
    anchor = found.attempt.anchor
    if anchor is None or anchor.lean or run.step_size == 0:
        return None
    errors = anchor.errors.mid
    course = predict(anchor.gram.mid, np.zeros(errors.shape), errors, run.step_size)
    least = distinct(run.data).least_loss[0]
    steps, loss = drawn(lambda k: course.loss(k) + least)
    return Forecast(found.step, steps + found.step, loss)


def frame_of(data: AnyDataset) -> tuple[np.ndarray, np.ndarray]:
    """Return middle and half widths of the picture of such data: [-1, 1], or more where they go beyond it.

    >>> from wideproof.data import Dataset
    >>> [side.tolist() for side in frame_of(Dataset([[0.0], [10.0]], [1.0, 2.0], "regression"))]
    [[5.0], [5.5]]
    """
    low, high = data.x.min(axis=0), data.x.max(axis=0)
    if low.min() >= -1 and high.max() <= 1:
        return np.zeros(low.shape), np.ones(low.shape)
    return (low + high) / 2, np.maximum(0.55 * (high - low), 1e-9)


def grid_of(data: AnyDataset) -> np.ndarray | None:
    """Return the points at which a function of one or two numbers is drawn; `None` for other data."""
    if data.x.ndim != 2 or data.x.shape[1] > 2:
        return None
    middle, half = frame_of(data)
    if data.x.shape[1] == 1:
        return middle + half * np.linspace(-1, 1, LINE)[:, None]
    axis = np.linspace(-1, 1, GRID)
    return middle + half * np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)


class Twin:
    r"""The infinitely wide network, trained on the same examples with the same step size, from the mean start 0.

    Its outputs after k steps are those of regression with the limit of the Gram matrix, stopped early. The read-out's
    scale multiplies the parts of the hidden weights.
    """

    def __init__(self, run: Run, grid: np.ndarray | None, scale: float = 1.0):
        network, data = run.network, run.data
        if data.n > DENSE or network.data_kind != "vectors":
            raise ValueError("the infinitely wide network is drawn for a moderate number of vectors")
        self._names, self._scale, self._network = network.trained_names, scale, network
        matrix = self._kernel(data.x, None)
        start = np.zeros(data.y.shape)
        self.course = predict(matrix, data.y, start, run.step_size) if run.step_size > 0 else None
        self._cross = None if grid is None else self._kernel(apply(data.preparation, grid), data.x)

    def _kernel(self, x: np.ndarray, other: np.ndarray | None) -> np.ndarray:
        found = limit_gram(self._network, x, other, by_weight=True)
        read_out = self._network.graph.read_out
        return sum(np.asarray(part) * (1.0 if name == read_out else self._scale**2)
                   for name, part in found.blocks.items())  # type: ignore[return-value]  # fmt: skip

    def loss(self, steps: np.ndarray) -> np.ndarray:
        """Return the loss after each number of steps."""
        return np.full(len(steps), np.nan) if self.course is None else self.course.loss(steps)

    def outputs(self, step: int) -> np.ndarray | None:
        """Return the first output on the grid after `step` steps."""
        if self._cross is None or self.course is None:
            return None
        shape = (len(self._cross), *self.course.targets.shape[1:])
        return self.course.outputs_at(self._cross, np.zeros(shape), step).reshape(len(self._cross), -1)[:, 0]
