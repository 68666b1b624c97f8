"""Classification with infinitely wide networks: ridge regression on signs, or a support vector machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from sklearn.base import ClassifierMixin
from sklearn.svm import SVC
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from wideproof.errors import InputError
from wideproof.estimators.base import Given, KernelEstimator, used_rows
from wideproof.estimators.choosing import Raw, left_out_by_folds
from wideproof.estimators.columns import read_both
from wideproof.estimators.probability import READ_OUTS, calibrate, shares

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


def class_weights(
    kind: dict[Any, float] | str, y: Shaped[np.ndarray, "n"], weight: Float[np.ndarray, "n"]
) -> Float[np.ndarray, "n"]:
    """Return a factor for the weight of each example; with `"balanced"` all classes have the same weight in sum.

    >>> class_weights("balanced", np.array([0, 0, 1]), np.array([1.0, 2.0, 1.0])).round(4).tolist()
    [0.6667, 0.6667, 2.0]
    """
    if not isinstance(kind, str):
        return compute_sample_weight(kind, y)
    if kind != "balanced":
        raise InputError(f"class_weight must be 'balanced', a dictionary or None, got {kind!r}")
    _, place = np.unique(y, return_inverse=True)
    total = np.bincount(place, weight)
    return (total.sum() / (len(total) * total))[place]


class NTKClassifier(ClassifierMixin, KernelEstimator):
    r"""Classification with the kernel of an infinitely wide network.

    `method="ridge"` fits signs $\pm 1$ by ridge regression, one class against the rest, and predicts the class with the
    largest value; `predict_proba` calibrates these values on examples left out. `method="svc"` is scikit-learn's `SVC`
    with this kernel, without probabilities.

    Parameters
    ----------
    network
        The network: `"fully-connected"`, `"residual"`, `"deep-relu"`, `"residual-relu"` or `"conv-residual"`. The
        kernel of `"deep-relu"` and `"residual-relu"` is that of width 2, where the factor $m/2$ of `limit_gram` is 1.
    depth
        Number of hidden layers.
    activation
        Name of the activation; networks of ReLU units ignore it.
    kernel
        `"ntk"`, the tangent kernel, or `"nngp"`, the covariance of the outputs.
    fixed_layers
        Number of first layers that are drawn and not trained; their part is left out of the tangent kernel.
    image_shape
        Channels and pixels of a row, for `"conv-residual"`, whose filters move along the pixels.
    preparation
        `"auto"`: one of the following, chosen on examples left out, each preparation fitted without them. `"sphere"`:
        standardize, append `bias` and divide by the norm; `"standardize"`: standardize and append `bias`; `"codes"` and
        `"ranks"`: `"sphere"` after columns of a few repeated values became indicators, or every column its normal
        scores; `None`: only append `bias`. Missing values are filled with medians, and a column marks them.
    bias
        The constant coordinate that is appended; 0 for none. `"auto"` chooses it together with `preparation="auto"`,
        and is 1 otherwise; for `"conv-residual"`, which needs 0, it is 0.
    method
        `"ridge"` or `"svc"`. The options of the solver are used with `"ridge"` only.
    C
        The parameter `C` of `SVC`; used with `method="svc"` only.
    class_weight
        Factors for the weights of the classes by their names, or `"balanced"`: all classes have the same weight in sum.
    probability
        How `predict_proba` reads decision values $f$: `"scaled"`, softmax of $a f$ with the $a$ under which the labels
        of examples left out are likeliest; `"gp"`, the expectation of that softmax under the Gaussian process, which is
        nearer to equal shares far from the training examples.
    ridge
        The ridge: a number, `"loo"`, or several numbers; of several (with `"loo"`, of a default grid) the one with the
        least leave-one-out error is taken, in closed form. With more than 3,000 examples (15,000 on a GPU) the choice
        is made on that many.
    solver
        `"cholesky"`; `"cg"`: conjugate gradients, tile by tile, preconditioned by Nyström; `"nystrom"`: the first step
        of `"cg"`; or `"auto"`: Cholesky if the matrix fits into `memory`.
    rank
        Number of columns of the Nyström approximation; by default 1,000, on a GPU twenty times the root of n if that is
        more.
    tol
        Relative residual at which conjugate gradients stop.
    memory
        Bytes for the kernel matrix, above which `solver="auto"` does not use Cholesky.
    device
        `"cpu"`, `"gpu"`, or `"auto"`: a GPU if JAX finds one with enough memory, for enough examples.
    n_jobs
        Number of tiles of the kernel matrix (2048 x 2048) that are computed in parallel; `None` is 1, or the value of
        joblib's context, and -1 all cores. The result is the same, bit for bit.
    checkpoint
        A folder for the state of conjugate gradients: if `fit` was interrupted, the same call continues from there and
        ends with the same bits.
    verbose
        Whether conjugate gradients print their progress.
    random_state
        Seed of the folds, of the Nyström columns and of the subset for the ridge.

    Attributes
    ----------
    setting_
        The preparation and the bias of the fit.
    compared_
        The settings that were compared, each with its error on examples left out, in units of the variance of the
        targets; empty where nothing was to choose.
    scale_
        $a$, the factor of decision values in `predict_proba`.

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
        preparation: str | None = "auto",
        bias: float | str = "auto",
        method: str = "ridge",
        C: float = 1.0,
        class_weight: dict[Any, float] | str | None = None,
        probability: str = "scaled",
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
        self.class_weight = class_weight
        self.probability = probability

    def _given(self, X: Any, y: Any, sample_weight: Any) -> Given:
        X, y = read_both(self, X, y)
        check_classification_targets(y)
        used, weight = used_rows(self, X, sample_weight)
        self.classes_, codes = class_codes(np.asarray(y)[used])
        if self.class_weight is not None:
            weight = weight * class_weights(self.class_weight, np.asarray(y)[used], weight)
        return Given(X[used], codes, weight, False)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> NTKClassifier:
        """Fit the classifier.

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
        NTKClassifier
            The fitted estimator.
        """
        if self.method not in METHODS:
            raise InputError(f"method must be 'ridge' or 'svc', got {self.method!r}")
        if self.probability not in READ_OUTS:
            raise InputError(f"probability must be 'scaled' or 'gp', got {self.probability!r}")
        given = self._given(X, y, sample_weight)
        if self.method == "ridge":
            raw = self._fit_ridge(given)
            self.amplitude_ = float(np.mean(self._fit.amplitude))
            self.scale_ = self._calibrated(raw)
            return self
        self._chosen(given)
        self.X_fit_ = self.preparation_(given.x)
        self.svc_ = SVC(kernel="precomputed", C=self.C)
        labels = from_scores(self.classes_, given.targets[:, 0] if len(self.classes_) == 2 else given.targets)
        weight = None if sample_weight is None and self.class_weight is None else given.weight
        self.svc_.fit(self._limit_kernel()(self.X_fit_), labels, weight)
        return self

    def _calibrated(self, raw: Raw) -> float:
        """Return the factor of decision values in probabilities, by examples left out."""
        gp = self.probability == "gp"
        left = None if self.loo_ is None or gp else self.loo_.left
        if left is None and len(raw.data.x) > 1:
            ridge = np.array([self.ridge_])
            left = left_out_by_folds(self._limit_kernel(), raw, ridge, self._rng(), parts=5, variances=gp).left
        return 1.0 if left is None else calibrate(left, self.amplitude_ if gp else None)

    def decision_function(self, X: Any) -> Float[np.ndarray, "n *c"]:
        """Return one value for each example (two classes: positive for the second) or for each example and class.

        Parameters
        ----------
        X
            Inputs, one example in each row.

        Returns
        -------
        array
            The values.
        """
        x = self._prepared(X)
        kernel = self._limit_kernel()
        if self.method == "svc":
            return self.svc_.decision_function(kernel(x, self.X_fit_))
        scores = kernel.product(x, self.X_fit_, self.dual_coef_)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> Shaped[np.ndarray, "n"]:
        """Predict labels.

        Parameters
        ----------
        X
            Inputs, one example in each row.

        Returns
        -------
        array
            One label for each example.
        """
        if self.method == "svc":
            x = self._prepared(X)
            return self.svc_.predict(self._limit_kernel()(x, self.X_fit_))
        scores = self.decision_function(X)
        return from_scores(self.classes_, scores)

    @available_if(lambda self: self.method == "ridge")
    def predict_proba(self, X: Any) -> Float[np.ndarray, "n classes"]:
        """Return the probability of each class; see `probability`.

        Parameters
        ----------
        X
            Inputs, one example in each row.

        Returns
        -------
        array
            One row for each example, one column for each class.
        """
        scores = self.decision_function(X)
        scores = scores[:, None] if scores.ndim == 1 else scores
        variance = None
        if self.probability == "gp":
            variance = self.amplitude_ * self._fit.variance(self._limit_kernel(), self._prepared(X))
        return shares(scores, self.scale_, variance)
