r"""Preparation, bias and ridge chosen by folds, with the preparation fitted again without the rows that are predicted.

Leaving one row out in closed form supposes that the matrix of the others does not depend on it. Where means and
deviations were taken from all rows it does, and with as many columns as rows the answer is worthless: of rows that add
up to 0 the one left out is minus the sum of the others. So every fold is predicted from the rest, and everything that
is fitted is fitted to the rest. Folds have the classes of all rows, or their quantiles; equal rows are one row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import scipy.linalg
from jaxtyping import Float, Int

from wideproof.estimators.limit_kernel import LimitKernel
from wideproof.estimators.preparation import Preparation, fit_preparation, has_codes
from wideproof.estimators.ridge import GRID, LeaveOneOut, Left, Merged
from wideproof.estimators.rough import Kernel, rough

# Rows by which a preparation is chosen, and ridges, as shares of the kernel's diagonal.
MOST_CHOOSING = 1000
SHARES = 10.0 ** np.array([-5.0, -3.0, -2.0, -1.0, 0.0, 1.0])
FOLDS = 5
SMALL, MIDDLE = 200, 600  # rows up to which there are five folds, and three; of more there are two
LEAST = 10  # rows, of fewer nothing is chosen
FEW_RIDGES = 8  # up to which a factorization for each is quicker than one eigendecomposition


class Setting(NamedTuple):
    """A preparation with its constant coordinate."""

    preparation: str | None
    bias: float


class Raw(NamedTuple):
    """Distinct inputs as they were given, and how they are prepared.

    `blocks` has the numbers of last columns that are indicators of one column of texts; `centred` says that the mean
    was taken off the targets.
    """

    data: Merged
    blocks: tuple[int, ...]
    centred: bool
    setting: Setting

    def fit(self, rest: Merged) -> Preparation:
        """Fit the preparation to some rows."""
        return fit_preparation(self.setting.preparation, self.setting.bias, rest.x, rest.weight, self.blocks)

    def some(self, most: int, rng: np.random.RandomState) -> Raw:
        """Return at most so many rows, drawn at random."""
        n = len(self.data.x)
        if n <= most:
            return self
        return self._replace(data=self.data.take(np.sort(rng.choice(n, most, replace=False))))


class Compared(NamedTuple):
    """A setting and its error on rows left out, in units of the variance of the targets, with its best ridge."""

    setting: Setting
    error: float


def folds_of(data: Merged, parts: int, rng: np.random.RandomState) -> Int[np.ndarray, "n"]:
    """Return the number of the fold of every row, whatever the order of the rows.

    >>> data = Merged(np.arange(6.0)[:, None], np.array([[1.0], [-1], [1], [-1], [1], [-1]]), np.ones(6), np.zeros(1))
    >>> found = folds_of(data, 3, np.random.RandomState(0))
    >>> [sorted(data.y[found == k, 0].tolist()) for k in range(3)]
    [[-1.0, 1.0], [-1.0, 1.0], [-1.0, 1.0]]
    """
    n = len(data.x)
    first = np.lexsort(data.x.T[::-1])
    target = data.y[first, 0] if data.y.shape[1] == 1 else np.argmax(data.y[first], axis=1)
    order = first[np.lexsort((rng.permutation(n), target))]
    places = np.concatenate([rng.permutation(parts) for _ in range(-(-n // parts))])[:n]
    fold = np.empty(n, np.int64)
    fold[order] = places
    return fold


def held_out(
    kernel: Kernel,
    raw: Raw,
    fold: Int[np.ndarray, "n"],
    ridges: Float[np.ndarray, "r"],
    *,
    shares: bool,
    diagonal: Callable[[Float[np.ndarray, "n d"]], Float[np.ndarray, "n"]] | None = None,
) -> LeaveOneOut:
    """Predict each fold from the rest, prepared as the rest says, for every ridge.

    With `shares` the ridges are shares of the mean of the kernel's diagonal. With `diagonal`, the kernel of each
    example with itself, the one ridge also gives the variances of the Gaussian process there.
    """
    data = raw.data
    values, variance_there = np.empty((len(ridges), *data.y.shape)), None if diagonal is None else np.zeros(len(data.x))
    level = np.zeros(fold.max() + 1)
    for k in range(len(level)):
        rest, left = data.take(np.flatnonzero(fold != k)), fold == k
        preparation = raw.fit(rest)
        rows, new = preparation(rest.x), preparation(data.x[left])
        matrix, cross = kernel(rows), kernel(new, rows)
        level[k] = np.trace(matrix) / len(matrix)
        mean = np.average(rest.y, axis=0, weights=rest.weight) if raw.centred else np.zeros(data.y.shape[1])
        root = np.sqrt(rest.weight)
        matrix *= root
        matrix *= root[:, None]
        unit = level[k] if shares else 1.0
        for place, beta in enumerate(_solutions(matrix, root[:, None] * (rest.y - mean), unit * ridges)):
            values[place, left] = cross @ (root[:, None] * beta) + mean
        if diagonal is not None and variance_there is not None:
            inside = next(_solutions(matrix, root[:, None] * cross.T, unit * ridges))
            taken = np.einsum("ij,ij->j", root[:, None] * cross.T, inside)
            variance_there[left] = np.maximum(diagonal(new) - taken, 0)
    spread = np.square(data.y - np.average(data.y, axis=0, weights=data.weight))
    variance = np.average(spread, axis=0, weights=data.weight)
    each = np.square(values - data.y) / np.where(variance > 0, variance, 1.0)
    errors = np.average(each.mean(axis=2), axis=1, weights=data.weight)
    errors = np.where(np.isfinite(errors), errors, np.inf)
    left = Left(values[int(np.flatnonzero(errors == errors.min())[-1])], data.y, data.weight, variance_there)
    return LeaveOneOut(ridges * (level.mean() if shares else 1.0), errors, left, len(level))


def _solutions(
    matrix: Float[np.ndarray, "n n"], y: Float[np.ndarray, "n c"], ridges: Float[np.ndarray, "r"]
) -> Iterator[Float[np.ndarray, "n c"]]:
    """Yield the solution for each ridge; NaN where the matrix is singular."""
    if len(ridges) > FEW_RIDGES:
        eigenvalues, vectors = scipy.linalg.eigh(matrix, check_finite=False)
        inside = vectors.T @ y
        for ridge in ridges:
            yield vectors @ (inside / np.maximum(eigenvalues + ridge, np.finfo(float).tiny)[:, None])
        return
    for ridge in ridges:
        regular = matrix.copy(order="F")
        np.einsum("ii->i", regular)[:] += ridge
        try:
            factor = scipy.linalg.cho_factor(regular, lower=True, overwrite_a=True, check_finite=False)
            yield scipy.linalg.cho_solve(factor, y, check_finite=False)
        except scipy.linalg.LinAlgError:
            yield np.full_like(y, np.nan)


def settings(
    preparation: str | None, bias: float | str, x: Float[np.ndarray, "n d"], weight: Float[np.ndarray, "n"],
    images: bool, homogeneous: bool,
) -> list[Setting]:  # fmt: skip
    """Return the settings that `"auto"` compares; those first that are taken where errors are equal.

    Inputs of different norms are left to homogeneous networks (ReLU), whose kernel of them is as quick.
    """
    kinds: list[str | None] = [preparation]
    if preparation == "auto":
        kinds = ["sphere", "ranks", *(["codes"] if has_codes(x, weight) else []), "standardize", None]
        kinds = kinds if homogeneous else kinds[:-2]
    found = []
    for kind in kinds:
        if not isinstance(bias, str):
            found.append(Setting(kind, bias))
        elif images:
            found.append(Setting(kind, 0.0))
        elif preparation != "auto":
            found.append(Setting(kind, 1.0))
        else:
            norm = np.sqrt(np.average(np.nansum(np.square(x), axis=1), weights=weight)) if kind is None else 1.0
            found += [Setting(kind, float(norm))] * bool(norm) + [Setting(kind, 0.0)]
    return found


def choose_setting(
    kernel: LimitKernel,
    raw: Raw,
    candidates: Sequence[Setting],
    ridge: float | str | Sequence[float],
    rng: np.random.RandomState,
) -> tuple[Setting, list[Compared]]:
    """Return the setting with the least error on rows left out, and the errors of all."""
    if len(candidates) == 1 or len(raw.data.x) < LEAST:
        return candidates[0], []
    some = raw.some(MOST_CHOOSING, rng)
    n = len(some.data.x)
    fold = folds_of(some.data, FOLDS if n <= SMALL else 3 if n <= MIDDLE else 2, rng)
    shares = isinstance(ridge, str)
    ridges = SHARES if shares else np.sort(np.atleast_1d(np.asarray(ridge, float)))
    quick = rough(kernel)
    found = [
        Compared(one, float(held_out(quick, some._replace(setting=one), fold, ridges, shares=shares).errors.min()))
        for one in candidates
    ]
    return min(found, key=lambda one: one.error).setting, found


def left_out_by_folds(
    kernel: LimitKernel,
    raw: Raw,
    ridges: Float[np.ndarray, "r"] | None,
    rng: np.random.RandomState,
    *,
    parts: int | None = None,
    variances: bool = False,
) -> LeaveOneOut:
    """Return what leaving out in closed form would, by folds: everything is fitted again."""
    some = raw.some(MOST_CHOOSING, rng)
    n = len(some.data.x)
    many = 10 if n <= SMALL else 5 if n <= MIDDLE else 3
    fold = folds_of(some.data, min(many if parts is None else parts, n), rng)
    given = GRID if ridges is None else np.sort(ridges)
    return held_out(kernel, some, fold, given, shares=ridges is None, diagonal=kernel.diagonal if variances else None)


def needs_folds(raw: Raw) -> bool:
    """Return whether leaving out in closed form is not to be trusted: as many fitted columns as rows, or more.

    >>> data = Merged(np.eye(3)[:2], np.zeros((2, 1)), np.ones(2), np.zeros(1))
    >>> [needs_folds(Raw(data, (), True, Setting(kind, 1.0))) for kind in ("sphere", None)]
    [True, False]
    """
    rows, columns = raw.data.x.shape
    return raw.setting.preparation is not None and rows > 1 and columns >= rows
