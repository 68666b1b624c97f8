r"""Depth, activation and network chosen by leaving examples out, in one call, and then fitted to all of them.

Every candidate's leave-one-out error comes in closed form, for the best ridge of its own, on the same examples (all of
them, or the same random subset of many): no fold is fitted again, and test examples are never looked at.
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
from wideproof.estimators.classifier import NTKClassifier
from wideproof.estimators.regressor import KernelEstimator, NTKRegressor

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
    ) -> None:
        self.estimator = estimator
        self.depths = depths
        self.activations = activations
        self.networks = networks
        self.kernels = kernels

    def _base(self) -> KernelEstimator:
        raise NotImplementedError

    def candidates(self) -> list[dict[str, Any]]:
        """Return the settings that are compared; ReLU networks have no other activation."""
        found = []
        for network, kernel, activation, depth in product(self.networks, self.kernels, self.activations, self.depths):
            if not network.endswith("relu") or activation == "relu":
                found.append({"network": network, "kernel": kernel, "activation": activation, "depth": depth})
        if not found:
            raise InputError("there is nothing to compare: give at least one network, kernel, activation and depth")
        return found

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelSearch:
        """Compare the candidates, and fit the best one to all examples with the ridge that it did best with."""
        base = self._base()
        rows: dict[str, list[Any]] = {"params": [], "loo_error": [], "ridge": [], "seconds": []}
        for settings in self.candidates():
            began = time.perf_counter()
            found = _with(base, settings).left_out(X, y, sample_weight)
            rows["params"].append(settings)
            rows["loo_error"].append(float(found.errors.min()))
            rows["ridge"].append(found.best)
            rows["seconds"].append(time.perf_counter() - began)
        best = int(np.argmin(rows["loo_error"]))
        self.cv_results_ = {name: np.array(values) if name != "params" else values for name, values in rows.items()}
        self.best_index_, self.best_params_ = best, {**rows["params"][best], "ridge": rows["ridge"][best]}
        self.best_estimator_ = _with(base, self.best_params_).fit(X, y, sample_weight)
        self.n_features_in_ = self.best_estimator_.n_features_in_
        if hasattr(self.best_estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.best_estimator_.feature_names_in_
        return self

    def predict(self, X: Any) -> Shaped[np.ndarray, "n *c"]:
        """Predict with the best one."""
        check_is_fitted(self)
        return self.best_estimator_.predict(X)


class NTKClassifierCV(ClassifierMixin, KernelSearch):
    """Classification by the kernel that leaves the least error on examples left out.

    Parameters
    ----------
    estimator
        An `NTKClassifier` with the settings that all candidates share; `None` is the default one.
    depths, activations, networks, kernels
        What is compared: all combinations.

    Attributes
    ----------
    best_params_, best_estimator_
        The settings of the least error with their ridge, and that estimator fitted to all examples.
    cv_results_
        Settings, leave-one-out error in units of the targets' variance, ridge and seconds of every candidate.

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
        """Compare the candidates, and fit the best one to all examples."""
        super().fit(X, y, sample_weight)
        self.classes_ = self.best_estimator_.classes_
        return self

    def decision_function(self, X: Any) -> Float[np.ndarray, "n *c"]:
        """Return the scores of the best one."""
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)


class NTKRegressorCV(RegressorMixin, KernelSearch):
    """Regression by the kernel that leaves the least error on examples left out.

    Parameters and attributes are those of `NTKClassifierCV`, with an `NTKRegressor`.

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
