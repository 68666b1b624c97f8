r"""What a network would do on rows it has not seen, in closed form, from its Gram matrix at infinite width.

Leaving example $i$ out of regression with the matrix $G$ changes its prediction by
$[G^{-1} y]_i / [G^{-1}]_{ii}$: one inverse instead of n fits. Equal rows are left out together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import eigsh

from wideproof.data import AnyDataset, Distinct

SMALL = 20  # rows of a matrix of which all eigenvalues are as quickly found as one


@dataclass(frozen=True)
class Estimate:
    """How good predictions on unseen rows are.

    Attributes
    ----------
    kind
        `"accuracy"` (the share of right classes) or `"R²"`.
    value, guess
        Of the network, and of always answering the most frequent class, or the mean.
    error
        The standard error of `value`.
    rows
        How many rows were left out or held out.
    how
        `"folds"`, `"folds at infinite width"` (of very many rows),
        `"leave-one-out"` (at infinite width, for comparing candidates) or `"held out"`.
    """

    kind: str
    value: float
    guess: float
    error: float
    rows: int
    how: str = "leave-one-out"

    @property
    def useless(self) -> bool:
        """Whether it is no better than guessing, within one standard error."""
        return self.value <= self.guess + self.error

    def __str__(self) -> str:
        number = f"{100 * self.value:.1f} ± {100 * self.error:.1f} % right"
        if self.kind != "accuracy":
            number = f"R² {self.value:.3f} ± {self.error:.3f}"
        guess = f"{100 * self.guess:.1f} %" if self.kind == "accuracy" else f"{self.guess:.0f}"
        what = "the most frequent class" if self.kind == "accuracy" else "the mean"
        where = f"On {self.rows} held out row{'' if self.rows == 1 else 's'}"
        if self.how == "leave-one-out":
            where = f"Leaving out each of the {self.rows} rows in turn (at infinite width)"
        if self.how == "folds":
            where = f"Each fifth of the {self.rows} rows, predicted from the rest by this network (linear at its start)"
        if self.how == "folds at infinite width":
            where = f"Each fifth of {self.rows} rows, predicted from the rest at infinite width (from its own start)"
        text = f"{where}: {number}; always answering {what}: {guess}."
        if self.useless:
            text += " That is no better than guessing: the proof is about these rows, not about new ones."
        return text


class LeftOut(NamedTuple):
    """Predictions for every distinct input from all others, and the ends of the weighted Gram matrix's spectrum."""

    outputs: np.ndarray
    smallest: float
    largest: float


def leave_out(matrix: np.ndarray, groups: Distinct) -> LeftOut | None:
    """Predict every distinct input from the others; `None` if the matrix is singular to rounding.

    >>> from wideproof.data import Dataset
    >>> from wideproof.data.repeats import distinct
    >>> groups = distinct(Dataset(np.eye(2), [1, -1], "binary"))
    >>> leave_out(np.array([[2.0, 1.0], [1.0, 2.0]]), groups).outputs.ravel().round(12).tolist()
    [-0.5, 0.5]
    """
    roots = np.sqrt(groups.counts)
    weighted = np.asarray(matrix * np.multiply.outer(roots, roots), order="F")
    try:
        factors = scipy.linalg.cho_factor(weighted, check_finite=False)
    except scipy.linalg.LinAlgError:
        return None
    inverse = _inverse(factors[0])
    if not np.isfinite(inverse).all():
        return None
    smallest, largest = 1 / top(inverse), top(weighted)
    if not smallest > 0:
        return None
    targets = groups.y.reshape(groups.n, -1) * roots[:, None]
    outputs = (targets - (inverse @ targets) / np.diagonal(inverse)[:, None]) / roots[:, None]
    return LeftOut(outputs, smallest, largest)


def _inverse(upper: np.ndarray) -> np.ndarray:
    """Return the inverse of a matrix from its Cholesky factor: a third of the work of solving for every column."""
    (potri,) = scipy.linalg.get_lapack_funcs(("potri",), (upper,))
    half = np.triu(potri(upper)[0])
    inverse = half + half.T
    np.fill_diagonal(inverse, half.diagonal())
    return inverse


def top(matrix: np.ndarray) -> float:
    """Return the largest eigenvalue of a positive semidefinite matrix, to six digits or more."""
    if len(matrix) <= SMALL:
        return float(np.linalg.eigvalsh(matrix)[-1])
    first = np.random.default_rng(0).standard_normal(len(matrix))
    return float(eigsh(matrix, 1, which="LA", v0=first, tol=1e-6, return_eigenvectors=False)[0])  # pyright: ignore[reportArgumentType]


def score(data: AnyDataset, outputs: np.ndarray, how: str = "leave-one-out") -> Estimate:
    """Compare outputs, one row an example, with the targets of `data`.

    >>> from wideproof.data import Dataset
    >>> data = Dataset(np.eye(4), [1, 1, 1, -1], "binary")
    >>> found = score(data, np.array([0.5, 0.1, -0.2, -1.0]))
    >>> found.value, found.guess
    (0.75, 0.75)
    """
    outputs = outputs.reshape(data.n, -1)
    labels = data.labels
    if labels is None:
        y = data.y.reshape(data.n, -1)
        total = float(np.square(y - y.mean(axis=0)).sum())
        rest = np.square(outputs - y).sum(axis=1)
        value = 1 - float(rest.sum()) / total if total > 0 else math.nan
        error = float(rest.std() * math.sqrt(data.n)) / total if total > 0 else math.nan
        return Estimate("R²", value, 0.0, error, data.n, how)
    answer = (outputs[:, 0] > 0).astype(int) if data.task == "binary" else outputs.argmax(axis=1)
    right = float(np.mean(answer == labels))
    guess = float(np.bincount(labels).max() / data.n)
    return Estimate("accuracy", right, guess, math.sqrt(max(right * (1 - right), 0.25 / data.n) / data.n), data.n, how)
