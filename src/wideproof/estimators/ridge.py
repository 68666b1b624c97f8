r"""Kernel ridge regression with weights, several outputs, and a ridge chosen by leaving examples out.

$$ \min_f \sum_i w_i \, (f(x_i) - y_i)^2 + r \|f\|^2, \qquad f(x) = \sum_i k(x, x_i) \, \sqrt{w_i} \, \beta_i, \qquad
   (W^{1/2} K W^{1/2} + r I) \, \beta = W^{1/2} y . $$

Equal inputs are one example with the sum of the weights and the mean of the targets: the minimizer is the same, the
matrix is smaller and not singular, and leaving one out leaves out all that is known about that input. With
$C = (W^{1/2} K W^{1/2} + r I)^{-1}$ the error of $f$ at $x_i$ when $x_i$ is left out is $[C W^{1/2} y]_i / C_{ii}$
(in units of $w_i^{-1/2}$): one eigendecomposition gives it for every ridge. Where targets are centred by their mean,
leaving $x_i$ out leaves it out of the mean $\mu_{-i}$ too; the error is linear in the targets, so it is
$[C W^{1/2} (y - \mu_{-i} 1)]_i / C_{ii}$.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.linalg
from jaxtyping import Float, Int
from sklearn.exceptions import ConvergenceWarning

from wideproof.data import equal_rows
from wideproof.errors import InputError
from wideproof.estimators import on_device
from wideproof.estimators.checkpoint import Checkpoint, digest_of
from wideproof.estimators.limit_kernel import LimitKernel
from wideproof.estimators.solvers import solve_cholesky
from wideproof.estimators.streaming import default_rank, solve_streamed

SOLVERS = ("auto", "cholesky", "cg", "nystrom")
# As shares of the mean of the kernel's diagonal.
GRID = 10.0 ** np.arange(-10.0, 2.5, 0.5)
# An eigendecomposition of so many examples takes seconds; of more, the ridge comes from a random subset this large.
MOST_LEFT_OUT = 3000
MOST_LEFT_OUT_THERE = 15_000  # the same on a device, where each ridge is a factorization and an inverse
MOST_STEPS = 500


@dataclass(frozen=True)
class Merged:
    """Distinct inputs with weights and mean targets; `within`: the weighted squares lost, for each output."""

    x: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, "n c"]
    weight: Float[np.ndarray, "n"]
    within: Float[np.ndarray, "c"]

    def take(self, rows: Int[np.ndarray, "m"]) -> Merged:
        """Return some of the inputs."""
        return Merged(self.x[rows], self.y[rows], self.weight[rows], self.within)


def merge(x: Float[np.ndarray, "n d"], y: Float[np.ndarray, "n c"], weight: Float[np.ndarray, "n"]) -> Merged:
    """Make one example of equal inputs, in the order of their first occurrence.

    >>> found = merge(np.array([[1.0], [2.0], [1.0]]), np.array([[0.0], [5.0], [3.0]]), np.array([1.0, 1.0, 2.0]))
    >>> found.x.tolist(), found.y.tolist(), found.weight.tolist()
    ([[1.0], [2.0]], [[2.0], [5.0]], [3.0, 1.0])
    """
    first, group = equal_rows(x)
    if len(first) == len(x):
        return Merged(x, y, weight, np.zeros(y.shape[1]))
    total = np.bincount(group, weight)
    mean = np.stack([np.bincount(group, weight * column) / total for column in y.T], axis=1)
    within = np.sum(weight[:, None] * np.square(y - mean[group]), axis=0)
    return Merged(x[first], mean, total, within)


@dataclass(frozen=True)
class Left:
    """Predictions for examples left out, beside their targets and weights; their variances if they were computed."""

    values: Float[np.ndarray, "n c"]
    y: Float[np.ndarray, "n c"]
    weight: Float[np.ndarray, "n"]
    variance: Float[np.ndarray, "n"] | None = None


@dataclass(frozen=True)
class LeaveOneOut:
    """Mean squared errors of examples left out, for each ridge; in units of each output's variance.

    `left` has the predictions with the best ridge; `folds` is the number of folds that were left out instead of single
    examples, or 0.
    """

    ridges: Float[np.ndarray, "r"]
    errors: Float[np.ndarray, "r"]
    left: Left | None = None
    folds: int = 0

    @property
    def best(self) -> float:
        """The ridge of the least error; of equal ones the largest."""
        return float(self.ridges[np.flatnonzero(self.errors == self.errors.min())[-1]])


def leave_one_out(
    matrix: Float[np.ndarray, "n n"],
    y: Float[np.ndarray, "n c"],
    weight: Float[np.ndarray, "n"],
    ridges: Sequence[float] | None,
    centred: bool = False,
) -> LeaveOneOut:
    """Return the leave-one-out errors of ridge regression, by one eigendecomposition.

    With `centred` it is regression of the targets less their mean, and the mean is that of the others.

    >>> leave_one_out(np.eye(2), np.array([[1.0], [-1.0]]), np.ones(2), [0.1]).errors.round(6).tolist()
    [1.0]
    >>> leave_one_out(np.eye(2), np.array([[1.0], [-1.0]]), np.ones(2), [0.1], centred=True).errors.round(6).tolist()
    [4.0]
    """
    candidates = GRID * np.trace(matrix) / len(matrix) if ridges is None else np.sort(np.asarray(ridges, float))
    root = np.sqrt(weight)
    values, vectors = scipy.linalg.eigh(root[:, None] * matrix * root, check_finite=False)
    inside, squares = vectors.T @ (root[:, None] * y), np.square(vectors)
    constant = vectors.T @ root
    others = _means_of_others(y, weight) if centred else np.zeros_like(y)
    spread = np.average(np.square(y - np.average(y, axis=0, weights=weight)), axis=0, weights=weight)
    unit = np.where(spread > 0, spread, 1.0) * weight.sum()
    errors, left = [], None
    for ridge in candidates:
        inverse = 1 / np.maximum(values + ridge, np.finfo(float).tiny)
        ones = (vectors @ (constant * inverse))[:, None]
        left_out = (vectors @ (inside * inverse[:, None]) - others * ones) / (squares @ inverse)[:, None]
        errors.append(np.mean(np.sum(np.square(left_out), axis=0) / unit))
        if left is None or errors[-1] <= min(errors):
            left = Left(y - left_out / root[:, None], y, weight)
    return LeaveOneOut(candidates, np.array(errors), left)


def _means_of_others(y: Float[np.ndarray, "n c"], weight: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n c"]:
    """Return, for each example, the weighted mean of the targets of the others; 0 where there are none."""
    rest = weight.sum() - weight if len(weight) > 1 else np.ones(1)
    return (weight @ y - weight[:, None] * y) / rest[:, None]


@dataclass(frozen=True)
class Fit:
    """A fitted function: inputs, coefficients, ridge, and for Cholesky the factor that gives deviations."""

    x: Float[np.ndarray, "n d"]
    dual: Float[np.ndarray, "n c"]
    ridge: float
    solver: str
    iterations: int
    error: float
    amplitude: Float[np.ndarray, "c"]
    loo: LeaveOneOut | None
    root_weight: Float[np.ndarray, "n"]
    factor: Float[np.ndarray, "n n"] | on_device.Factored | None
    y: Float[np.ndarray, "n c"]
    centred: bool

    def variance(self, kernel: LimitKernel, x: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m"]:
        """Return the variance at new inputs, of the Gaussian process with this covariance and noise `ridge`."""
        if self.factor is None:
            raise InputError(f"deviations need the factor of the matrix: fit with solver='cholesky', not {self.solver}")
        cross = self.root_weight[:, None] * kernel(self.x, x)
        if isinstance(self.factor, on_device.Factored):
            return np.maximum(kernel.diagonal(x) - np.einsum("ij,ij->j", cross, self.factor.solve(cross)), 0)
        half = scipy.linalg.solve_triangular(self.factor, cross, lower=True, check_finite=False, overwrite_b=True)
        return np.maximum(kernel.diagonal(x) - np.einsum("ij,ij->j", half, half), 0)


def fit_ridge(
    kernel: LimitKernel,
    data: Merged,
    ridge: float | str | Sequence[float],
    *,
    centred: bool = False,
    solver: str = "auto",
    rank: int | None = None,
    tolerance: float = 1e-6,
    memory: int = 4 << 30,
    device: str = "auto",
    rng: np.random.RandomState | None = None,
    checkpoint: str | Path | None = None,
    verbose: int = 0,
) -> Fit:
    """Fit by the chosen solver; `"auto"` is Cholesky where the matrix fits into `memory`, else conjugate gradients.

    `centred` says that the mean was taken off the targets, so that the ridge is chosen with the mean left out as well.
    On a GPU the matrix stays there, if it fits into its memory. Conjugate gradients keep where they stand in the folder
    `checkpoint` and show their course where `verbose` is not 0.
    """
    if solver not in SOLVERS:
        raise InputError(f"solver must be one of {', '.join(SOLVERS)}; got {solver!r}")
    n, rng = len(data.x), rng or np.random.RandomState(0)
    there = solver in ("auto", "cholesky") and on_device.is_wanted(device, n)
    if solver == "auto":
        solver = "cholesky" if there or 8 * n * n <= memory else "cg"
    root = np.sqrt(data.weight)
    target = root[:, None] * data.y
    chosen, loo, matrix = choose(kernel, data, ridge, centred, rng, there or on_device.is_there(device))
    if there:
        matrix = on_device.factor(kernel, data.x, root, chosen)
        beta, iterations, error = matrix.solve(target), 0, 0.0
    elif solver == "cholesky":
        if matrix is None or len(matrix) < n:
            matrix = kernel.lower(data.x)
        if (data.weight != 1).any():
            matrix *= root
            matrix *= root[:, None]
        beta, iterations, error = solve_cholesky(matrix, chosen, target), 0, 0.0
    else:
        matrix, most = None, MOST_STEPS if solver == "cg" else 0
        size = default_rank(n, on_device.is_there(device)) if rank is None else rank
        marks = np.sort(rng.choice(n, min(size, n), replace=False))
        keep = None
        if checkpoint is not None:
            problem = digest_of(data.x, target, root, marks, kernel, chosen, tolerance, most)
            keep = Checkpoint(Path(checkpoint), problem)
        beta, iterations, error = solve_streamed(
            kernel, data.x, root, target, marks, chosen, tolerance, most, memory, keep, verbose
        )
        if iterations == MOST_STEPS:
            warnings.warn(
                f"conjugate gradients stopped after {iterations} steps; predictions are off by at most {error:.2g} "
                "times the root of k(x, x): use a larger ridge, or a larger rank",
                ConvergenceWarning,
                stacklevel=3,
            )
    explained = np.einsum("ij,ij->j", target, beta)
    lost = data.within / chosen if chosen > 0 else 0.0
    amplitude = (explained + lost) / data.weight.sum()
    return Fit(
        data.x, root[:, None] * beta, chosen, solver, iterations, error, amplitude, loo, root, matrix, data.y, centred
    )


def check_ridge(ridge: float | str | Sequence[float]) -> Float[np.ndarray, "*r"] | None:
    """Return the ridges that are given, or nothing for `"loo"`."""
    grid = None if isinstance(ridge, str) else np.asarray(ridge, float)
    if (grid is None and ridge != "loo") or (grid is not None and not (np.isfinite(grid).all() and (grid >= 0).all())):
        raise InputError(f"ridge must be a number >= 0, several of them, or 'loo'; got {ridge!r}")
    return grid


def choose(
    kernel: LimitKernel,
    data: Merged,
    ridge: float | str | Sequence[float],
    centred: bool,
    rng: np.random.RandomState,
    there: bool,
) -> tuple[float, LeaveOneOut | None, Float[np.ndarray, "n n"] | None]:
    """Return the ridge, the errors it was chosen by, and the matrix that this took."""
    grid = check_ridge(ridge)
    if grid is not None and grid.ndim == 0:
        return float(grid), None, None
    some, most = data, MOST_LEFT_OUT_THERE if there else MOST_LEFT_OUT
    if len(data.x) > most:
        some = data.take(np.sort(rng.choice(len(data.x), most, replace=False)))
    if there:
        return _choose_there(kernel, some, grid, centred)
    matrix = kernel(some.x)
    found = leave_one_out(matrix, some.y, some.weight, None if grid is None else grid.tolist(), centred)
    return found.best, found, matrix


def _choose_there(
    kernel: LimitKernel, some: Merged, grid: Float[np.ndarray, "r"] | None, centred: bool
) -> tuple[float, LeaveOneOut, None]:
    """Choose the ridge where the matrix is: of given ones the best, else by a search over `GRID`."""
    matrix, level = on_device.dressed(kernel, some.x, some.weight)
    others = _means_of_others(some.y, some.weight) if centred else np.zeros_like(some.y)
    mean = np.average(some.y, axis=0, weights=some.weight)
    spread = np.average(np.square(some.y - mean), axis=0, weights=some.weight)
    unit = np.where(spread > 0, spread, 1.0) * some.weight.sum()
    best: tuple[float, Left | None] = (np.inf, None)

    def error(ridge: float) -> float:
        nonlocal best
        left_out = on_device.left_out(matrix, some.y, some.weight, others, ridge)
        found = float(np.mean(np.sum(np.square(left_out), axis=0) / unit))
        if found <= best[0]:
            best = found, Left(some.y - left_out / np.sqrt(some.weight)[:, None], some.y, some.weight)
        return found if np.isfinite(found) else np.inf

    if grid is None:
        errors = search_down(lambda k: error(GRID[k] * level), len(GRID), int(np.argmin(np.abs(np.log(GRID)))))
        found = LeaveOneOut(GRID[sorted(errors)] * level, np.array([errors[k] for k in sorted(errors)]), best[1])
    else:
        found = LeaveOneOut(np.sort(grid), np.array([error(float(ridge)) for ridge in np.sort(grid)]))
        found = LeaveOneOut(found.ridges, found.errors, best[1])
    return found.best, found, None


def search_down(error: Callable[[int], float], count: int, start: int) -> dict[int, float]:
    """Return the errors at the numbers around the least one, in few evaluations.

    In steps of two down from `start` until the error has not fallen twice in a row, up from it if it was the best, then
    at both neighbours of the best. A change by less than a thousandth, which says nothing about new examples, is no
    fall.

    >>> sorted(search_down(lambda k: abs(k - 5.0), 25, 20))
    [2, 4, 5, 6, 7, 8, 10, 12, 14, 16, 18, 20]
    """
    found: dict[int, float] = {}

    def walk(numbers: range) -> None:
        worse = 0
        for k in numbers:
            least = min(found.values(), default=math.inf)
            found[k] = error(k)
            worse = 0 if found[k] < 0.999 * least else worse + 1
            if worse == 2:
                return

    def best() -> int:
        return max(found, key=lambda k: (-found[k], k))

    walk(range(start, -1, -2))
    if best() == start:
        walk(range(start + 2, count, 2))
    for k in (best() - 1, best() + 1):
        if 0 <= k < count and k not in found:
            found[k] = error(k)
    return found
