r"""How good predictions are on rows that an estimator has not seen, by folds in which everything is fitted again.

Parts are predicted from rows that they share, so their errors are correlated: with k parts the variance of the mean is
taken $1 + k/(k-1)$ times as large as for independent rows, as Nadeau and Bengio (2003) propose.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from sklearn.base import clone, is_classifier
from sklearn.utils import _safe_indexing

from wideproof.cards import card
from wideproof.data import equal_rows
from wideproof.errors import InputError
from wideproof.estimators.choosing import folds_of
from wideproof.estimators.ridge import Merged


@dataclass(frozen=True)
class Unseen:
    """An estimate of the quality of predictions on new rows like these.

    Attributes
    ----------
    kind
        `"accuracy"`, the share of right classes, or `"R²"`.
    value
        The estimate.
    error
        Its standard error.
    guess
        The same for a constant answer: the most frequent class, or the mean.
    rows
        The number of rows that were predicted.
    folds
        The number of parts that were predicted, each from the others.
    """

    kind: str
    value: float
    error: float
    guess: float
    rows: int
    folds: int

    def __str__(self) -> str:
        what = f"Each of {self.folds} parts of {self.rows} rows, predicted from the others with all choices made anew"
        if self.kind == "accuracy":
            said = f"{100 * self.value:.1f} ± {100 * self.error:.1f} % right; always the most frequent class: "
            said += f"{100 * self.guess:.1f} %"
        else:
            said = f"R² {self.value:.3f} ± {self.error:.3f}"
        useless = self.value <= self.guess + self.error
        return f"{what}: {said}." + (" That is no better than guessing." if useless else "")

    def _repr_html_(self) -> str:
        number = f"{self.value:.3f} ± {self.error:.3f}"
        facts = {self.kind: number, "a constant answer": f"{self.guess:.3f}", "rows": self.rows, "parts": self.folds}
        return card("Predictions of new rows", facts)


def on_unseen(
    estimator: Any,
    X: Any,
    y: Any,
    x: Float[np.ndarray, "n d"],
    weight: Float[np.ndarray, "n"] | None,
    folds: int,
    seed: int,
) -> Unseen:
    """Predict each fold of `X` by a clone fitted to the others; `x` are the same rows as numbers.

    Equal rows are in one fold, and folds have the classes, or the quantiles of the targets, of all rows.
    """
    first, place = equal_rows(x)
    if not (isinstance(folds, int | np.integer) and 2 <= folds <= len(first)):
        raise InputError(f"folds must be a whole number from 2 to the {len(first)} different rows, got {folds!r}")
    targets = np.asarray(y)
    codes = np.unique(targets, return_inverse=True)[1] if is_classifier(estimator) else targets
    columns = np.asarray(codes, float).reshape(len(targets), -1)[:, :1]
    different = Merged(x[first], columns[first], np.ones(len(first)), np.zeros(1))
    fold = folds_of(different, folds, np.random.RandomState(seed))[place]
    answers = np.empty_like(targets)
    for k in range(folds):
        rest, left = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        model: Any = clone(estimator)
        model.fit(_safe_indexing(X, rest), targets[rest], None if weight is None else weight[rest])
        answers[left] = model.predict(_safe_indexing(X, left))
    shares = np.ones(len(targets)) if weight is None else weight
    return _scored(targets, answers, shares, folds, is_classifier(estimator))


def _scored(
    y: Shaped[np.ndarray, "n *c"],
    answers: Shaped[np.ndarray, "n *c"],
    weight: Float[np.ndarray, "n"],
    folds: int,
    classes: bool,
) -> Unseen:
    share = weight / weight.sum()
    spread = math.sqrt(float(np.sum(share**2)) * (1 + folds / (folds - 1)))
    if classes:
        value = float(share @ (answers == y))
        guess = max(float(share @ (y == one)) for one in np.unique(y))
        error = math.sqrt(max(value * (1 - value), 0.25 * spread**2)) * spread
        return Unseen("accuracy", value, error, guess, len(y), folds)
    y, answers = (np.asarray(one, float).reshape(len(y), -1) for one in (y, answers))
    total = float(np.sum(share[:, None] * np.square(y - share @ y)))
    if not total > 0:
        raise InputError("all targets are equal: there is nothing to predict")
    rest = np.square(y - answers).sum(axis=1)
    mean = float(share @ rest)
    error = math.sqrt(float(share @ np.square(rest - mean))) * spread / total
    return Unseen("R²", 1 - mean / total, error, 0.0, len(y), folds)
