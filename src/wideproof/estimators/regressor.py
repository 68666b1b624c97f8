"""Regression with infinitely wide networks: kernel ridge, which is the mean of a Gaussian process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from wideproof.errors import InputError
from wideproof.estimators.limit_kernel import LimitKernel
from wideproof.estimators.on_device import is_there
from wideproof.estimators.preparation import fit_preparation
from wideproof.estimators.ridge import LeaveOneOut, Merged, choose, fit_ridge, merge


def used_rows(
    estimator: Any, x: Float[np.ndarray, "n d"], sample_weight: Any
) -> tuple[Bool[np.ndarray, "n"] | slice, Float[np.ndarray, "k"]]:
    """Return which examples have a positive weight, and the weights of those."""
    if sample_weight is None:
        return slice(None), np.ones(len(x))  # all of them, without a copy
    weight = _check_sample_weight(sample_weight, x, dtype=np.float64)
    if (weight < 0).any():
        raise ValueError("Negative values in data passed to `sample_weight`")
    used = weight > 0
    if not used.any():
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return used, weight[used]


class Given(NamedTuple):
    """What is fitted: inputs and targets of positive weight, and whether the mean was taken off the targets."""

    x: Float[np.ndarray, "n d"]
    targets: Float[np.ndarray, "n c"]
    weight: Float[np.ndarray, "n"]
    centred: bool


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
        image_shape: tuple[int, ...] | None = None,
        preparation: str | None = "sphere",
        bias: float = 1.0,
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
        self.network = network
        self.depth = depth
        self.activation = activation
        self.kernel = kernel
        self.fixed_layers = fixed_layers
        self.image_shape = image_shape
        self.preparation = preparation
        self.bias = bias
        self.ridge = ridge
        self.solver = solver
        self.rank = rank
        self.tol = tol
        self.memory = memory
        self.device = device
        self.n_jobs = n_jobs
        self.checkpoint = checkpoint
        self.verbose = verbose
        self.random_state = random_state

    def _limit_kernel(self) -> LimitKernel:
        jobs = effective_n_jobs(self.n_jobs)  # pyright: ignore[reportArgumentType]  None is joblib's default
        shape = None if self.image_shape is None else tuple(self.image_shape)
        return LimitKernel(self.network, self.depth, self.activation, self.kernel, self.fixed_layers, jobs, shape)

    def left_out(self, X: Any, y: Any, sample_weight: Any = None) -> LeaveOneOut:
        """Return the leave-one-out errors of the candidates for the ridge, without fitting.

        Of many examples a random subset is taken, the same for every kernel: see `ridge`.

        Examples
        --------
        >>> x = np.linspace(-1, 1, 20)[:, None]
        >>> found = NTKRegressor(ridge=[1e-3, 10.0]).left_out(x, x[:, 0] ** 2)
        >>> found.best
        0.001
        """
        given = self._given(X, y, sample_weight)
        device = is_there(self.device)
        _, found, _ = choose(self._limit_kernel(), self._merged(given), self.ridge, given.centred, self._rng(), device)
        if found is None:
            raise InputError(f"a single ridge leaves nothing to choose: take ridge='loo' or several, got {self.ridge}")
        return found

    def _given(self, X: Any, y: Any, sample_weight: Any) -> Given:
        """Check the data and return what is fitted; each estimator has its own targets."""
        raise NotImplementedError

    def _merged(self, given: Given) -> Merged:
        """Fit the preparation, and return the distinct prepared inputs."""
        self.preparation_ = fit_preparation(self.preparation, self.bias, given.x, given.weight)
        data = merge(given.x, given.targets, given.weight)
        return Merged(self.preparation_(data.x), data.y, data.weight, data.within)

    def _rng(self) -> np.random.RandomState:
        return check_random_state(self.random_state)

    def _fit_ridge(self, given: Given) -> None:
        """Fit, and set what fitting leaves behind."""
        self._fit = fit_ridge(
            self._limit_kernel(), self._merged(given), self.ridge, centred=given.centred, solver=self.solver,
            rank=self.rank, tolerance=self.tol, memory=self.memory, device=self.device, rng=self._rng(),
            checkpoint=self.checkpoint, verbose=self.verbose,
        )  # fmt: skip
        self.X_fit_, self.dual_coef_ = self._fit.x, self._fit.dual
        self.loo_: Any = self._fit.loo
        self.ridge_ = self._fit.ridge
        self.solver_, self.n_iter_, self.error_ = self._fit.solver, self._fit.iterations, self._fit.error

    def _prepared(self, x: Any) -> Float[np.ndarray, "n p"]:
        check_is_fitted(self)
        return self.preparation_(np.asarray(validate_data(self, x, reset=False, dtype=np.float64)))


class NTKRegressor(RegressorMixin, KernelEstimator):
    r"""Regression by the kernel of an infinitely wide network: $f(x) = \mu + k(x, X) (K + r I)^{-1} (y - \mu)$.

    $\mu$ is the mean of the targets, by weight, so that a constant added to them is added to every prediction.
    With the tangent kernel and a ridge near 0, $f - \mu$ is what gradient descent on an infinitely wide network
    (started at outputs 0) converges to; with the covariance (`kernel="nngp"`) it is the posterior mean of that network.

    Parameters
    ----------
    network, depth, activation, kernel, fixed_layers, image_shape
        The kernel, as for `LimitKernel`; `"conv-residual"` takes rows as images of `image_shape` and `bias=0`.
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
        Columns of the Nyström approximation (`None`: 1,000, on a GPU twenty times the root of n if that is more); the
        relative residual at which conjugate gradients stop.
    checkpoint
        A folder in which conjugate gradients keep where they stand: a killed `fit` that is called again with the same
        data and settings goes on from there and ends with the same bits.
    verbose
        Whether conjugate gradients show their course.
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
        image_shape: tuple[int, ...] | None = None,
        preparation: str | None = "sphere",
        bias: float = 1.0,
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
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        used, weight = used_rows(self, X, sample_weight)
        self._vector = np.ndim(y) == 1
        targets = np.asarray(y, np.float64).reshape(len(y), -1)[used]
        mean = np.average(targets, axis=0, weights=weight) if self.fit_intercept else np.zeros(targets.shape[1])
        self.intercept_ = float(mean[0]) if self._vector else mean
        return Given(X[used], targets - mean, weight, bool(self.fit_intercept))

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> NTKRegressor:
        """Fit to inputs `n x d` and targets `n` or `n x outputs`."""
        self._fit_ridge(self._given(X, y, sample_weight))
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
