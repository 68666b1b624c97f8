r"""Depth, activation, network and preparation chosen by leaving examples out, in one call, and then fitted to all.

Every candidate's leave-one-out error comes in closed form, for the best ridge of its own, on the same examples (all of
them, or the same random subset of many); test examples are never looked at. Where preparations are compared, or have as
many columns as there are rows, examples are left out in folds instead, for all candidates alike, and each fold's
preparation is fitted without it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from wideproof.errors import InputError
from wideproof.estimators.base import KernelEstimator
from wideproof.estimators.classifier import NTKClassifier
from wideproof.estimators.regressor import NTKRegressor

DEPTHS = (1, 2, 3, 4)
ACTIVATIONS = ("relu", "erf", "gelu")


def _with(base: KernelEstimator, settings: dict[str, Any]) -> Any:
    copy: Any = clone(base)
    return copy.set_params(**settings)


class KernelSearch(MetaEstimatorMixin, BaseEstimator):
    """What both searches share: candidates, their errors, and the best one fitted."""

    def __init__(
        self,
        estimator: KernelEstimator | None = None,
        *,
        depths: Sequence[int] = DEPTHS,
        activations: Sequence[str] = ACTIVATIONS,
        networks: Sequence[str] = ("fully-connected",),
        kernels: Sequence[str] = ("ntk",),
        preparations: Sequence[str | None] | None = None,
        biases: Sequence[float] | None = None,
    ) -> None:
        self.estimator = estimator
        self.depths = depths
        self.activations = activations
        self.networks = networks
        self.kernels = kernels
        self.preparations = preparations
        self.biases = biases

    def _base(self) -> KernelEstimator:
        raise NotImplementedError

    def candidates(self) -> list[dict[str, Any]]:
        """Return the settings that are compared; ReLU networks have no other activation."""
        found = []
        inputs: list[dict[str, Any]] = [{}]
        for name, values in (("preparation", self.preparations), ("bias", self.biases)):
            if values is not None:
                inputs = [{**one, name: value} for one in inputs for value in values]
        for network, kernel, activation, depth in product(self.networks, self.kernels, self.activations, self.depths):
            if not network.endswith("relu") or activation == "relu":
                settings = {"network": network, "kernel": kernel, "activation": activation, "depth": depth}
                found += [{**settings, **one} for one in inputs]
        if not found:
            raise InputError("there is nothing to compare: give at least one network, kernel, activation and depth")
        return found

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelSearch:
        """Compare the candidates, and fit the best one to all examples with the ridge that it did best with."""
        base = self._base()
        if self.preparations is None and base.preparation == "auto":  # once: it need not be chosen for every depth
            base = _with(base, base.chosen_inputs(X, y, sample_weight))
        rows: dict[str, list[Any]] = {"params": [], "loo_error": [], "ridge": [], "seconds": []}
        candidates = self.candidates()
        folds = len({(one.get("preparation", ""), one.get("bias", 0.0)) for one in candidates}) > 1
        for settings in candidates:
            began = time.perf_counter()
            found = _with(base, settings).left_out(X, y, sample_weight, by_folds=folds)
            rows["params"].append(settings)
            rows["loo_error"].append(float(found.errors.min()))
            rows["ridge"].append(found.best)
            rows["seconds"].append(time.perf_counter() - began)
        best = int(np.argmin(rows["loo_error"]))
        inputs = {"preparation": base.preparation, "bias": base.bias}
        self.cv_results_ = {name: np.array(values) if name != "params" else values for name, values in rows.items()}
        self.best_index_, self.best_params_ = best, {**inputs, **rows["params"][best], "ridge": rows["ridge"][best]}
        self.best_estimator_ = _with(base, self.best_params_).fit(X, y, sample_weight)
        self.n_features_in_ = self.best_estimator_.n_features_in_
        if hasattr(self.best_estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.best_estimator_.feature_names_in_
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        return tags

    def predict(self, X: Any) -> Shaped[np.ndarray, "n *c"]:
        """Predict with the best one."""
        check_is_fitted(self)
        return self.best_estimator_.predict(X)


class NTKClassifierCV(ClassifierMixin, KernelSearch):
    """Classification with the kernel that has the least leave-one-out error.

    Parameters
    ----------
    estimator
        An `NTKClassifier` with the settings that all candidates share; by default `NTKClassifier()`.
    depths
        Numbers of hidden layers to compare.
    activations
        Activations to compare.
    networks
        Networks to compare.
    kernels
        Kernels to compare; all combinations are candidates.
    preparations
        Preparations to compare; by default that of `estimator`, and if it is `"auto"` it is chosen once, before.
    biases
        Constant coordinates to compare; by default as for `preparations`.

    Attributes
    ----------
    best_params_
        The settings with the least error, including the ridge.
    best_estimator_
        The estimator with these settings, fitted to all examples.
    cv_results_
        For every candidate the settings, the leave-one-out error in units of the variance of the targets, the ridge,
        and the seconds.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(60, 2))
    >>> found = NTKClassifierCV(depths=(1, 2), activations=("relu",)).fit(x, x[:, 0] * x[:, 1] > 0)
    >>> found.best_params_["depth"] in (1, 2), len(found.cv_results_["loo_error"])
    (True, 2)
    """

    def _base(self) -> KernelEstimator:
        base: Any = NTKClassifier() if self.estimator is None else self.estimator
        if getattr(base, "method", "ridge") != "ridge":
            raise InputError(f"leaving out is in closed form for method='ridge' only, got {base.method!r}")
        return base

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> NTKClassifierCV:
        """Compare the candidates, and fit the best one to all examples.

        Parameters
        ----------
        X
            Inputs, one example in each row.
        y
            One label for each example.
        sample_weight
            Weights of the examples; by default all are 1.

        Returns
        -------
        NTKClassifierCV
            The fitted estimator.
        """
        super().fit(X, y, sample_weight)
        self.classes_ = self.best_estimator_.classes_
        return self

    def decision_function(self, X: Any) -> Float[np.ndarray, "n *c"]:
        """Return the values of the best estimator.

        Parameters
        ----------
        X
            Inputs, one example in each row.

        Returns
        -------
        array
            The values.
        """
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n classes"]:
        """Return the probability of each class by the best estimator.

        Parameters
        ----------
        X
            Inputs, one example in each row.

        Returns
        -------
        array
            One row for each example, one column for each class.
        """
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)


class NTKRegressorCV(RegressorMixin, KernelSearch):
    """Regression with the kernel that has the least leave-one-out error.

    Parameters
    ----------
    estimator
        An `NTKRegressor` with the settings that all candidates share; by default `NTKRegressor()`.
    depths
        Numbers of hidden layers to compare.
    activations
        Activations to compare.
    networks
        Networks to compare.
    kernels
        Kernels to compare; all combinations are candidates.
    preparations
        Preparations to compare; by default that of `estimator`, and if it is `"auto"` it is chosen once, before.
    biases
        Constant coordinates to compare; by default as for `preparations`.

    Attributes
    ----------
    best_params_
        The settings with the least error, including the ridge.
    best_estimator_
        The estimator with these settings, fitted to all examples.
    cv_results_
        For every candidate the settings, the leave-one-out error in units of the variance of the targets, the ridge,
        and the seconds.

    Examples
    --------
    >>> x = np.linspace(-1, 1, 30)[:, None]
    >>> found = NTKRegressorCV(depths=(1,), activations=("relu", "erf")).fit(x, np.sin(3 * x[:, 0]))
    >>> found.best_params_["activation"]
    'erf'
    """

    def _base(self) -> KernelEstimator:
        return NTKRegressor() if self.estimator is None else self.estimator

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
