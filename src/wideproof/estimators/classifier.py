"""Classification with infinitely wide networks: ridge regression on signs, or a support vector machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from sklearn.base import ClassifierMixin
from sklearn.svm import SVC
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from wideproof.errors import InputError
from wideproof.estimators.preparation import fit_preparation
from wideproof.estimators.regressor import Given, KernelEstimator, used_rows

METHODS = ("ridge", "svc")


def class_codes(y: Shaped[np.ndarray, "n"]) -> tuple[Shaped[np.ndarray, "classes"], Float[np.ndarray, "n c"]]:
    """Return the classes, and signs: one column for two classes, one column a class (against the rest) for more.

    >>> class_codes(np.array(["a", "b", "a"]))[1].tolist()
    [[-1.0], [1.0], [-1.0]]
    """
    classes, index = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            "This solver needs samples of at least 2 classes in the data, but the data contains only one class: "
            f"{classes.tolist()[0]!r}"
        )
    if len(classes) == 2:
        return classes, np.where(index == 1, 1.0, -1.0)[:, None]
    return classes, np.where(index[:, None] == np.arange(len(classes)), 1.0, -1.0)


def from_scores(classes: Shaped[np.ndarray, "classes"], scores: Float[np.ndarray, "n *c"]) -> Shaped[np.ndarray, "n"]:
    """Return the class of the largest score, or of the sign of a single one."""
    return classes[(scores > 0).astype(int) if scores.ndim == 1 else np.argmax(scores, axis=1)]


class NTKClassifier(ClassifierMixin, KernelEstimator):
    r"""Classification by the kernel of an infinitely wide network.

    `method="ridge"` fits signs $\pm 1$ by ridge regression, one class against the rest, and takes the largest value;
    `method="svc"` is scikit-learn's `SVC` with this kernel and the parameter `C`. Neither gives probabilities: values
    of `decision_function` are not calibrated (scikit-learn's `CalibratedClassifierCV` makes them so).

    Parameters
    ----------
    method, C
        As above; `ridge`, `solver` and what belongs to them are of use for the ridge only, `C` for `SVC` only.

    The others are those of `NTKRegressor`.

    Examples
    --------
    >>> x = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    >>> NTKClassifier(ridge=1e-3).fit(x, ["no", "no", "yes", "yes"]).predict(x).tolist()
    ['no', 'no', 'yes', 'yes']
    """

    def __init__(
        self,
        *,
        network: str = "fully-connected",
        depth: int = 2,
        activation: str = "relu",
        kernel: str = "ntk",
        fixed_layers: int = 0,
        image_shape: tuple[int, ...] | None = None,
        preparation: str | None = "sphere",
        bias: float = 1.0,
        method: str = "ridge",
        C: float = 1.0,
        ridge: float | str | Sequence[float] = "loo",
        solver: str = "auto",
        rank: int | None = None,
        tol: float = 1e-6,
        memory: int = 4 << 30,
        device: str = "auto",
        n_jobs: int | None = None,
        checkpoint: str | Path | None = None,
        verbose: int = 0,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        super().__init__(
            network=network, depth=depth, activation=activation, kernel=kernel, fixed_layers=fixed_layers,
            image_shape=image_shape, preparation=preparation, bias=bias, ridge=ridge, solver=solver, rank=rank, tol=tol,
            memory=memory, device=device, n_jobs=n_jobs, checkpoint=checkpoint, verbose=verbose,
            random_state=random_state,
        )  # fmt: skip
        self.method = method
        self.C = C

    def _given(self, X: Any, y: Any, sample_weight: Any) -> Given:
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        used, weight = used_rows(self, X, sample_weight)
        self.classes_, codes = class_codes(np.asarray(y)[used])
        return Given(X[used], codes, weight, False)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> NTKClassifier:
        """Fit to inputs `n x d` and labels of any kind."""
        if self.method not in METHODS:
            raise InputError(f"method must be 'ridge' or 'svc', got {self.method!r}")
        given = self._given(X, y, sample_weight)
        if self.method == "ridge":
            self._fit_ridge(given)
            return self
        self.preparation_ = fit_preparation(self.preparation, self.bias, given.x, given.weight)
        self.X_fit_ = self.preparation_(given.x)
        self.svc_ = SVC(kernel="precomputed", C=self.C)
        labels = from_scores(self.classes_, given.targets[:, 0] if len(self.classes_) == 2 else given.targets)
        weight = None if sample_weight is None else given.weight
        self.svc_.fit(self._limit_kernel()(self.X_fit_), labels, weight)
        return self

    def decision_function(self, X: Any) -> Float[np.ndarray, "n *c"]:
        """Return one value for each example (two classes: positive for the second) or for each example and class."""
        x = self._prepared(X)
        kernel = self._limit_kernel()
        if self.method == "svc":
            return self.svc_.decision_function(kernel(x, self.X_fit_))
        scores = kernel.product(x, self.X_fit_, self.dual_coef_)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> Shaped[np.ndarray, "n"]:
        """Return the classes of new inputs."""
        if self.method == "svc":
            x = self._prepared(X)
            return self.svc_.predict(self._limit_kernel()(x, self.X_fit_))
        scores = self.decision_function(X)
        return from_scores(self.classes_, scores)
