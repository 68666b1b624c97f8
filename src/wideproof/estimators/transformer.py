"""The preparation of the estimators as a transformer of its own, for pipelines and for looking at."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from wideproof.errors import InputError
from wideproof.estimators.columns import Columns, read_inputs, read_only
from wideproof.estimators.preparation import fit_preparation


class InputPreparation(TransformerMixin, BaseEstimator):
    r"""What `NTKClassifier` and `NTKRegressor` do to inputs, as a transformer.

    Missing values are filled with medians and marked, texts of a frame become indicators, columns are scaled to
    variance $1/d$, a constant coordinate is appended, and with all kinds but `"standardize"` and `None` every row gets
    norm 1. `set_output(transform="pandas")` gives frames with names.

    Parameters
    ----------
    preparation
        `"sphere"`, `"standardize"`, `"codes"`, `"ranks"` or `None`, as in `NTKClassifier`.
    bias
        The constant coordinate; 0 for none.

    Attributes
    ----------
    preparation_
        The fitted preparation.

    Examples
    --------
    >>> ready = InputPreparation("standardize", bias=0.0).set_output(transform="pandas")
    >>> ready.fit_transform(np.array([[1.0], [3.0]]))
        x0
    0 -1.0
    1  1.0
    """

    columns_: Columns | None

    def __init__(self, preparation: str | None = "sphere", bias: float = 1.0) -> None:
        self.preparation = preparation
        self.bias = bias

    def fit(self, X: Any, y: Any = None) -> InputPreparation:
        """Fit to the training inputs.

        Parameters
        ----------
        X
            Inputs, one example in each row.
        y
            Not used.

        Returns
        -------
        InputPreparation
            The fitted transformer.
        """
        if self.preparation == "auto":
            raise InputError("preparation='auto' needs labels: give one of them, or see setting_ of a fitted estimator")
        x = read_only(self, X)
        blocks = () if self.columns_ is None else self.columns_.blocks
        self.preparation_ = fit_preparation(self.preparation, self.bias, x, np.ones(len(x)), blocks)
        return self

    def transform(self, X: Any) -> Any:
        """Prepare inputs.

        Parameters
        ----------
        X
            Inputs, one example in each row.

        Returns
        -------
        array
            The prepared inputs.
        """
        check_is_fitted(self)
        return self.preparation_(read_inputs(self, X))

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the prepared columns.

        Parameters
        ----------
        input_features
            Names of the columns; by default those of the fitted frame, or x0, x1, ...

        Returns
        -------
        array
            The names.
        """
        check_is_fitted(self)
        found: Any = _check_feature_names_in(self, input_features)
        given = tuple(str(name) for name in found)
        names = given if self.columns_ is None else self.columns_.names(given)
        return np.array(self.preparation_.names(names), object)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        return tags
