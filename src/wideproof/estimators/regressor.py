"""Regression with infinitely wide networks: kernel ridge, which is the mean of a Gaussian process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import Tags

from wideproof.estimators.base import Given, KernelEstimator, used_rows
from wideproof.estimators.columns import read_both


class NTKRegressor(RegressorMixin, KernelEstimator):
    r"""Regression with the kernel of an infinitely wide network: $f(x) = \mu + k(x, X) (K + r I)^{-1} (y - \mu)$.

    $\mu$ is the weighted mean of the targets, so that a constant added to them is added to every prediction. With the
    tangent kernel and a ridge near 0, $f - \mu$ is the limit of gradient descent on an infinitely wide network whose
    outputs start at 0; with the covariance (`kernel="nngp"`) it is the posterior mean of that network.

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
    fit_intercept
        Whether to subtract the mean $\mu$ from the targets; otherwise $\mu = 0$.
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
    intercept_
        $\mu$, one number for each output.
    ridge_
        The ridge of the fit.
    loo_
        The leave-one-out errors by which it was chosen.
    X_fit_
        The distinct training inputs, prepared.
    dual_coef_
        The coefficients of the kernel at these inputs.
    error_
        A bound on the error of predictions from solving the system inexactly, divided by $\sqrt{k(x,x)}$; 0 for
        Cholesky, whose only error is rounding.
    amplitude_
        For each output, the amplitude with the largest likelihood of the Gaussian process; it scales the standard
        deviations.

    Examples
    --------
    >>> x = np.linspace(-1, 1, 9)[:, None]
    >>> model = NTKRegressor(ridge=1e-6).fit(x, x[:, 0] ** 2)
    >>> bool(abs(model.predict([[0.6]])[0] - 0.36) < 0.05)
    True
    >>> NTKRegressor().fit([[1.0]], [151.0]).predict([[1.0], [7.0]]).tolist()
    [151.0, 151.0]
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
        fit_intercept: bool = True,
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
        self.fit_intercept = fit_intercept

    def _given(self, X: Any, y: Any, sample_weight: Any) -> Given:
        X, y = read_both(self, X, y, multi_output=True, y_numeric=True)
        used, weight = used_rows(self, X, sample_weight)
        self._vector = np.ndim(y) == 1
        targets = np.asarray(y, np.float64).reshape(len(y), -1)[used]
        mean = np.average(targets, axis=0, weights=weight) if self.fit_intercept else np.zeros(targets.shape[1])
        self.intercept_ = float(mean[0]) if self._vector else mean
        return Given(X[used], targets - mean, weight, bool(self.fit_intercept))

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> NTKRegressor:
        """Fit to inputs `n x d` and targets `n` or `n x outputs`.

        Parameters
        ----------
        X
            Inputs, one example in each row.
        y
            Targets: a number or a row of numbers for each example.
        sample_weight
            Weights of the examples; by default all are 1.

        Returns
        -------
        NTKRegressor
            The fitted estimator.
        """
        self._fit_ridge(self._given(X, y, sample_weight))
        self.amplitude_ = self._fit.amplitude
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return predictions, and on request their standard deviations (of the function, without noise).

        Parameters
        ----------
        X
            Inputs, one example in each row.
        return_std
            Whether to return standard deviations as well.

        Returns
        -------
        Any
            The predictions, or a pair of predictions and standard deviations.
        """
        x = self._prepared(X)
        kernel = self._limit_kernel()
        mean = kernel.product(x, self.X_fit_, self.dual_coef_)
        mean = (mean[:, 0] if self._vector else mean) + self.intercept_
        if not return_std:
            return mean
        deviation = np.sqrt(np.outer(self._fit.variance(kernel, x), np.maximum(self.amplitude_, 0)))
        return mean, deviation[:, 0] if self._vector else deviation

    @property
    def _one_output(self) -> bool:
        return self._vector

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
