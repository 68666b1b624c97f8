"""Regression with infinitely wide networks: kernel ridge, which is the mean of a Gaussian process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from wideproof.estimators.limit_kernel import LimitKernel
from wideproof.estimators.preparation import fit_preparation
from wideproof.estimators.ridge import fit_ridge, merge


def used_rows(estimator: Any, x: np.ndarray, sample_weight: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return which examples have a positive weight, and the weights of those."""
    if sample_weight is None:
        return np.ones(len(x), bool), np.ones(len(x))
    weight = _check_sample_weight(sample_weight, x, dtype=np.float64)
    if (weight < 0).any():
        raise ValueError("Negative values in data passed to `sample_weight`")
    used = weight > 0
    if not used.any():
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return used, weight[used]


class KernelEstimator(BaseEstimator):
    """What regressor and classifier share: the kernel, the preparation, and ridge regression."""

    def __init__(
        self,
        *,
        network: str = "fully-connected",
        depth: int = 2,
        activation: str = "relu",
        kernel: str = "ntk",
        fixed_layers: int = 0,
        preparation: str | None = "sphere",
        bias: float = 1.0,
        ridge: float | str | Sequence[float] = "loo",
        solver: str = "auto",
        rank: int = 1000,
        tol: float = 1e-6,
        memory: int = 4 << 30,
        device: str = "auto",
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.network = network
        self.depth = depth
        self.activation = activation
        self.kernel = kernel
        self.fixed_layers = fixed_layers
        self.preparation = preparation
        self.bias = bias
        self.ridge = ridge
        self.solver = solver
        self.rank = rank
        self.tol = tol
        self.memory = memory
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _limit_kernel(self) -> LimitKernel:
        jobs = effective_n_jobs(self.n_jobs)  # pyright: ignore[reportArgumentType]  None is joblib's default
        return LimitKernel(self.network, self.depth, self.activation, self.kernel, self.fixed_layers, jobs)

    def _fit_ridge(self, x: np.ndarray, y: np.ndarray, weight: np.ndarray, centred: bool = False) -> None:
        """Fit targets `n x outputs` (`centred`: less their mean) and set what fitting leaves behind."""
        kernel = self._limit_kernel()
        self.preparation_ = fit_preparation(self.preparation, self.bias, x, weight)
        data = merge(x, y, weight)
        data = type(data)(self.preparation_(data.x), data.y, data.weight, data.within)
        self._fit = fit_ridge(
            kernel, data, self.ridge, centred=centred, solver=self.solver, rank=self.rank, tolerance=self.tol,
            memory=self.memory, device=self.device, rng=check_random_state(self.random_state),
        )  # fmt: skip
        self.X_fit_, self.dual_coef_ = self._fit.x, self._fit.dual
        self.loo_: Any = self._fit.loo
        self.ridge_ = self._fit.ridge
        self.solver_, self.n_iter_, self.error_ = self._fit.solver, self._fit.iterations, self._fit.error

    def _prepared(self, x: Any) -> np.ndarray:
        check_is_fitted(self)
        return self.preparation_(np.asarray(validate_data(self, x, reset=False, dtype=np.float64)))


class NTKRegressor(RegressorMixin, KernelEstimator):
    r"""Regression by the kernel of an infinitely wide network: $f(x) = \mu + k(x, X) (K + r I)^{-1} (y - \mu)$.

    $\mu$ is the mean of the targets, by weight, so that a constant added to them is added to every prediction.
    With the tangent kernel and a ridge near 0, $f - \mu$ is what gradient descent on an infinitely wide network
    (started at outputs 0) converges to; with the covariance (`kernel="nngp"`) it is the posterior mean of that network.

    Parameters
    ----------
    network, depth, activation, kernel, fixed_layers
        The kernel, as for `LimitKernel`.
    preparation
        `"sphere"`: standardize, append `bias` and divide by the norm; `"standardize"`: without the last; `None`: only
        append `bias`.
    bias
        The constant coordinate; 0 for none.
    ridge
        A number, `"loo"` or several numbers: then the one with the least leave-one-out error is taken, in closed form.
        Above 3,000 examples (15,000 on a GPU) the choice is made on that many.
    solver
        `"cholesky"`; `"cg"` (conjugate gradients, tile by tile, preconditioned by Nyström), `"nystrom"` (its first
        step); `"auto"` takes Cholesky where the matrix fits into `memory` bytes.
    rank, tol
        Columns of the Nyström approximation; the relative residual at which conjugate gradients stop.
    device
        `"auto"`: on a GPU where JAX sees one and the matrix fits into it; `"cpu"`; `"gpu"` insists.
    n_jobs
        Tiles of the kernel matrix (2048 x 2048) that are computed side by side; `None` is 1, or what joblib's context
        says, and -1 all cores. The result is the same, bit for bit.
    fit_intercept
        Whether to take $\mu$ off the targets; else $\mu = 0$.
    random_state
        Decides the Nyström columns and the subset for the ridge.

    Attributes
    ----------
    ridge_, loo_
        The ridge taken, and the leave-one-out errors it was chosen by.
    intercept_
        $\mu$, one number for each output.
    X_fit_, dual_coef_
        Prepared distinct training inputs, and the coefficients of the kernel at them.
    error_
        How far predictions can be off for want of a better solution, divided by $\sqrt{k(x,x)}$; 0 for Cholesky, where
        there is rounding only.
    amplitude_
        The factor, for each output, that makes the Gaussian process most likely; scales the deviations.

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
        preparation: str | None = "sphere",
        bias: float = 1.0,
        fit_intercept: bool = True,
        ridge: float | str | Sequence[float] = "loo",
        solver: str = "auto",
        rank: int = 1000,
        tol: float = 1e-6,
        memory: int = 4 << 30,
        device: str = "auto",
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        super().__init__(
            network=network, depth=depth, activation=activation, kernel=kernel, fixed_layers=fixed_layers,
            preparation=preparation, bias=bias, ridge=ridge, solver=solver, rank=rank, tol=tol, memory=memory,
            device=device, n_jobs=n_jobs, random_state=random_state,
        )  # fmt: skip
        self.fit_intercept = fit_intercept

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> NTKRegressor:
        """Fit to inputs `n x d` and targets `n` or `n x outputs`."""
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        used, weight = used_rows(self, X, sample_weight)
        targets = np.asarray(y, np.float64).reshape(len(y), -1)
        X, targets = X[used], targets[used]
        mean = np.average(targets, axis=0, weights=weight) if self.fit_intercept else np.zeros(targets.shape[1])
        self._fit_ridge(X, targets - mean, weight, centred=bool(self.fit_intercept))
        self._vector = np.ndim(y) == 1
        self.intercept_ = float(mean[0]) if self._vector else mean
        self.amplitude_ = self._fit.amplitude
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the mean, and if asked the standard deviation of the function (without noise) at new inputs."""
        x = self._prepared(X)
        kernel = self._limit_kernel()
        mean = kernel.product(x, self.X_fit_, self.dual_coef_)
        mean = (mean[:, 0] if self._vector else mean) + self.intercept_
        if not return_std:
            return mean
        deviation = np.sqrt(np.outer(self._fit.variance(kernel, x), np.maximum(self.amplitude_, 0)))
        return mean, deviation[:, 0] if self._vector else deviation

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
