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

from wideproof.cards import card
from wideproof.data import AnyDataset, Distinct

PARTS = {5: "fifth", 10: "tenth"}
CHOSEN, AFTER_THE_CHOICE = ", chosen anew", ", after the choice"  # ends of `Estimate.how`
SMALL = 20  # rows of a matrix of which all eigenvalues are as quickly found as one


@dataclass(frozen=True)
class Estimate:
    """An estimate of the quality of predictions on unseen rows.

    Attributes
    ----------
    kind
        `"accuracy"` (the share of right classes) or `"R²"`.
    value
        The accuracy or R² of the network.
    guess
        The same for a constant answer: the most frequent class, or the mean.
    error
        The standard error of `value`.
    rows
        Number of rows that were left out or held out.
    how
        The method: `"folds"` or `"folds at infinite width"` (with many rows), `"leave-one-out"` (at infinite width, to
        compare candidates) or `"held out"`. A suffix says how candidates were chosen: `", chosen anew"` if preparation
        and activation were chosen again without each fold, `", after the choice"` if they were chosen with all rows.
    date
        The column of dates, if the predicted rows are the last ones; empty otherwise.
    typical
        For a single real target: the root mean square error, and that of predicting the mean. `None` otherwise.
    parts
        Number of folds; each is predicted from all others.
    """

    kind: str
    value: float
    guess: float
    error: float
    rows: int
    how: str = "leave-one-out"
    date: str = ""
    typical: tuple[float, float] | None = None
    parts: int = 5

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
        if self.typical is not None:
            number += (
                f" (typical error {self.typical[0]:.3g} in the target's own units, {self.typical[1]:.3g} for the mean)"
            )
        text = f"{self._where()}: {number}; always answering {what}: {guess}."
        if self.useless:
            text += " That is no better than guessing: the proof is about these rows, not about new ones."
        return text

    def _repr_html_(self) -> str:
        facts = {
            self.kind: f"{self.value:.3f} ± {self.error:.3f}", "a constant answer": f"{self.guess:.3f}",
            "how": self._where(), "better than guessing": "no" if self.useless else "yes",
        }  # fmt: skip
        if self.typical is not None:
            facts["typical error"] = f"{self.typical[0]:.3g}; {self.typical[1]:.3g} for the mean"
        return card("Estimate on unseen rows", facts)

    def _where(self) -> str:
        rows = f"{self.rows} row{'' if self.rows == 1 else 's'}"
        if self.how == "leave-one-out":
            return f"Leaving out each of the {rows} in turn (at infinite width)"
        if not self.how.startswith("folds"):
            held = rows.replace(" ", " held out ")
            return f"On the last {rows} by {self.date}, held out" if self.date else f"On {held}"
        wide = self.how.startswith("folds at infinite width")
        which, rest = f"Each {PARTS[self.parts]} of {'' if wide else 'the '}{rows}", "the rest"
        if self.date:
            which, rest = f"The last {rows} by {self.date}", "the rows before"
        way = "at infinite width (from its own start)" if wide else "by this network (linear at its start)"
        choice = ""
        if self.how.endswith(CHOSEN):
            choice = ", preparation and activation chosen without " + ("them" if self.date else "it")
        if self.how.endswith(AFTER_THE_CHOICE):
            choice = ", after the preparation was chosen with all rows (a little optimistic)"
        return f"{which}, predicted from {rest} {way}{choice}"


def gap(folds: Estimate, held_out: Estimate) -> str:
    """Compare an estimate by folds with the result on held-out rows, and say whether chance explains the difference.

    Parameters
    ----------
    folds
        The estimate by folds.
    held_out
        The result on held-out rows.

    Returns
    -------
    str
        A sentence.

    Examples
    --------
    >>> folds, held_out = Estimate("accuracy", 0.9, 0.5, 0.03, 100, "folds"), Estimate("accuracy", 0.85, 0.5, 0.04, 25)
    >>> print(gap(folds, held_out))
    both estimates differ by 5.0 points, and by up to 10.0 points they would by chance alone (two standard errors)
    """
    scale, unit = (100, "points") if folds.kind == "accuracy" else (1, "in R²")
    far, chance = abs(folds.value - held_out.value), 2 * math.hypot(folds.error, held_out.error)
    digits = 1 if scale == 100 else 3
    text = f"both estimates differ by {scale * far:.{digits}f} {unit}, "
    if far <= chance:
        return f"{text}and by up to {scale * chance:.{digits}f} {unit} they would by chance alone (two standard errors)"
    later = " the held out rows are later ones;" if held_out.date else ""
    return (
        f"{text}more than the {scale * chance:.{digits}f} of two standard errors:{later} the folds are predicted from "
        "fewer rows by the network as it is linear at its start, the held out rows by its final weights"
    )


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
    """Score outputs against the targets of some data.

    Parameters
    ----------
    data
        The data with the true targets.
    outputs
        Predicted outputs, one row for each example.
    how
        How the outputs were computed; see `Estimate`.

    Returns
    -------
    Estimate
        Accuracy or R², with its standard error.

    Examples
    --------
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
        typical = None
        if y.shape[1] == 1:
            typical = math.sqrt(float(rest.sum()) / data.n), math.sqrt(total / data.n)
        return Estimate("R²", value, 0.0, error, data.n, how, typical=typical)
    each = np.concatenate([-outputs, outputs], axis=1) if data.task == "binary" else outputs
    best = each == each.max(axis=1, keepdims=True)  # of equal outputs each class is as good an answer
    right = float(np.mean(best[np.arange(data.n), labels] / best.sum(axis=1)))
    guess = float(np.bincount(labels).max() / data.n)
    return Estimate("accuracy", right, guess, math.sqrt(max(right * (1 - right), 0.25 / data.n) / data.n), data.n, how)
