"""Inputs as they come, as one matrix of numbers: arrays, sparse matrices, and frames with columns of texts.

Columns of numbers come first, in their order; a column of texts or categories becomes an indicator for each value that
the training rows have. Missing values stay NaN, and a missing text has no indicator that is 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from jaxtyping import Float
from sklearn.utils.validation import check_array, check_X_y, validate_data

from wideproof.errors import InputError

Matrix = Float[np.ndarray, "n d"]
NUMERIC = "biuf"


@dataclass(frozen=True)
class Columns:
    """How the columns of a frame become numbers: the positions of numbers, and the values of each column of texts."""

    numbers: tuple[int, ...]
    texts: tuple[tuple[int, tuple[Any, ...]], ...]

    @property
    def blocks(self) -> tuple[int, ...]:
        """The numbers of indicators, one for each column of texts."""
        return tuple(len(values) for _, values in self.texts)

    def names(self, given: tuple[str, ...]) -> tuple[str, ...]:
        """Return a name for each column of the matrix."""
        texts = (f"{given[j]}={value}" for j, values in self.texts for value in values)
        return (*(given[j] for j in self.numbers), *texts)

    def __call__(self, frame: Any) -> Matrix:
        """Return the matrix of a frame with these columns."""
        parts = [_numbers(frame.iloc[:, j])[:, None] for j in self.numbers]
        for j, values in self.texts:
            found = frame.iloc[:, j].astype(object).to_numpy()
            parts.append(np.column_stack([found == value for value in values]).astype(float))
        return np.concatenate(parts, axis=1)


def fit_columns(frame: Any) -> Columns:
    """Decide which columns of a pandas frame hold numbers, and list the values of the others.

    >>> import pandas as pd
    >>> found = fit_columns(pd.DataFrame({"a": ["x", "y", "x"], "b": [1, 2, 3]}))
    >>> found.numbers, found.texts
    ((1,), ((0, ('x', 'y')),))
    """
    numbers, texts = [], []
    for j in range(frame.shape[1]):
        column = frame.iloc[:, j]
        if _is_number(column):
            numbers.append(j)
            continue
        try:
            values = sorted(set(column[column.notna()].astype(object)))
        except TypeError:
            raise InputError(
                f"column {frame.columns[j]!r} mixes kinds of values: make it numbers, texts or categories"
            ) from None
        if not values:
            raise InputError(f"column {frame.columns[j]!r} has no value: leave it out")
        texts.append((j, tuple(values)))
    return Columns(tuple(numbers), tuple(texts))


def _is_number(column: Any) -> bool:
    kind = getattr(column.dtype, "kind", "O")
    if column.dtype == "category":
        return False
    if kind == "O":
        return all(isinstance(one, int | float | np.number) for one in column[column.notna()])
    return kind in NUMERIC or kind in "mM"


def _numbers(column: Any) -> Float[np.ndarray, "n"]:
    """Return a column of numbers, truth values or dates (in days) as floats."""
    if getattr(column.dtype, "kind", "O") in "mM":
        zero = np.datetime64(0, "s") if column.dtype.kind == "M" else np.timedelta64(0, "s")
        plain = column.dt.tz_localize(None) if getattr(column.dtype, "tz", None) is not None else column
        return ((plain - zero) / np.timedelta64(1, "D")).to_numpy(np.float64, na_value=np.nan)
    return column.to_numpy(np.float64, na_value=np.nan)


def _is_mixed(X: Any) -> bool:
    """Return whether this is a frame of which a column holds something else than numbers."""
    if not hasattr(X, "columns") or scipy.sparse.issparse(X):
        return False
    frame = _as_pandas(X)
    return any(not _is_number(column) or getattr(column.dtype, "kind", "O") in "mM" for _, column in frame.items())


def _as_pandas(X: Any) -> Any:
    return X if hasattr(X, "iloc") else X.to_pandas()


CHECKS: dict[str, Any] = {"dtype": np.float64, "accept_sparse": "csr", "ensure_all_finite": "allow-nan"}


def read_both(estimator: Any, X: Any, y: Any, **checks: Any) -> tuple[Matrix, Any]:
    """Check inputs and targets to fit, note the columns in `estimator.columns_`, and return a matrix and the targets.

    Checks are scikit-learn's, with its messages; NaN is allowed in the inputs, infinity is not.
    """
    estimator.columns_ = None
    if _is_mixed(X):
        validate_data(estimator, X, y, skip_check_array=True)
        X, y = check_X_y(_fitted(estimator, X), y, estimator=estimator, **CHECKS, **checks)
    else:
        X, y = validate_data(estimator, X, y, **CHECKS, **checks)
    return dense(X), y


def read_only(estimator: Any, X: Any) -> Matrix:
    """Check inputs to fit that have no targets, and note the columns in `estimator.columns_`."""
    estimator.columns_ = None
    if _is_mixed(X):
        validate_data(estimator, X, skip_check_array=True)
        return dense(check_array(_fitted(estimator, X), estimator=estimator, **CHECKS))
    return dense(validate_data(estimator, X, **CHECKS))


def _fitted(estimator: Any, X: Any) -> Matrix:
    frame = _as_pandas(X)
    estimator.columns_ = fit_columns(frame)
    return estimator.columns_(frame)


def read_inputs(estimator: Any, X: Any) -> Matrix:
    """Check new inputs of a fitted estimator, and return them as a matrix."""
    columns = estimator.columns_
    if columns is None:
        return dense(validate_data(estimator, X, reset=False, **CHECKS))
    if not hasattr(X, "columns"):
        raise InputError(
            f"{type(estimator).__name__} was fitted to a frame with columns of texts: give new rows as a frame with "
            f"the same columns, got {type(X).__name__}"
        )
    validate_data(estimator, X, reset=False, skip_check_array=True)
    return dense(check_array(columns(_as_pandas(X)), estimator=estimator, **CHECKS))


def dense(x: Any) -> Matrix:
    """Return a matrix of numbers of what may be sparse."""
    return np.asarray(x.toarray() if scipy.sparse.issparse(x) else x)
