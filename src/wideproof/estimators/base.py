"""What regression and classification with infinitely wide networks share: kernel, preparation, ridge, estimates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, clone
from sklearn.utils import Tags, _safe_indexing, check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from wideproof.errors import InputError
from wideproof.estimators.choosing import MOST_CHOOSING, Raw, Setting, choose_setting, left_out_by_folds, needs_folds
from wideproof.estimators.choosing import settings as settings_to_compare
from wideproof.estimators.columns import Columns, read_both, read_inputs
from wideproof.estimators.influence import Influence, influence
from wideproof.estimators.limit_kernel import LimitKernel
from wideproof.estimators.on_device import is_there
from wideproof.estimators.preparation import check_preparation, fit_preparation
from wideproof.estimators.ridge import LeaveOneOut, Merged, check_ridge, choose, fit_ridge, merge
from wideproof.estimators.unseen import Unseen, on_unseen


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
        preparation: str | None = "auto",
        bias: float | str = "auto",
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

    columns_: Columns | None

    def _limit_kernel(self) -> LimitKernel:
        jobs = effective_n_jobs(self.n_jobs)  # pyright: ignore[reportArgumentType]  None is joblib's default
        shape = None if self.image_shape is None else tuple(self.image_shape)
        return LimitKernel(self.network, self.depth, self.activation, self.kernel, self.fixed_layers, jobs, shape)

    def left_out(self, X: Any, y: Any, sample_weight: Any = None, *, by_folds: bool = False) -> LeaveOneOut:
        """Return the leave-one-out errors of the candidates for the ridge, without fitting.

        Of many examples a random subset is taken, the same for every kernel: see `ridge`. With `by_folds`, and where a
        fitted preparation has as many columns as there are rows, ten folds are left out instead, and the preparation is
        fitted without each of them.

        Examples
        --------
        >>> from wideproof.estimators import NTKRegressor
        >>> x = np.linspace(-1, 1, 20)[:, None]
        >>> found = NTKRegressor(ridge=[1e-3, 10.0]).left_out(x, x[:, 0] ** 2)
        >>> found.best
        0.001
        """
        kernel, raw = self._limit_kernel(), self._chosen(self._given(X, y, sample_weight))
        found = self._by_folds(kernel, raw, by_folds)
        if found is None:
            there = is_there(self.device)
            _, found, _ = choose(kernel, self._prepare(raw), self.ridge, raw.centred, self._rng(), there)
        if found is None:
            raise InputError(f"a single ridge leaves nothing to choose: take ridge='loo' or several, got {self.ridge}")
        return found

    def chosen_inputs(self, X: Any, y: Any, sample_weight: Any = None) -> dict[str, Any]:
        """Return the preparation and the bias that `fit` would take, without fitting.

        Examples
        --------
        >>> from wideproof.estimators import NTKRegressor
        >>> x = np.linspace(-1, 1, 20)[:, None]
        >>> sorted(NTKRegressor().chosen_inputs(x, x[:, 0] ** 2))
        ['bias', 'preparation']
        """
        self._chosen(self._given(X, y, sample_weight))
        return self.setting_._asdict()

    def estimate(self, X: Any, y: Any, sample_weight: Any = None, *, folds: int = 5) -> Unseen:
        """Estimate how good predictions are on new rows, by folds in which everything is chosen and fitted again.

        The preparation, the bias and the ridge are chosen without the rows that are predicted, so the estimate is not
        optimistic: on labels by coin tosses it is one half within its standard error.

        Examples
        --------
        >>> from wideproof.estimators import NTKRegressor
        >>> x = np.linspace(-1, 1, 40)[:, None]
        >>> found = NTKRegressor().estimate(x, x[:, 0] ** 2)
        >>> found.kind, bool(found.value > 0.99)
        ('R²', True)
        """
        check = clone(self)
        x, _ = read_both(check, X, y, multi_output=True)
        used, weight = used_rows(self, x, sample_weight)
        rows = np.arange(len(x))[used]
        targets = np.asarray(y)[rows]
        some = _safe_indexing(X, rows)
        return on_unseen(self, some, targets, x[rows], None if sample_weight is None else weight, folds, 0)

    def influence(self, X: Any) -> Influence:
        """Bound how far each prediction moves if one training row is removed, rounding counted.

        Training rows are the distinct ones, in their order; a row is removed with its copies. The preparation and the
        ridge stay as they were chosen. Decision values of a classifier are its predictions here. The bound is about the
        kernel matrix as it is in float64.

        Examples
        --------
        >>> from wideproof.estimators import NTKRegressor
        >>> x = np.linspace(-1, 1, 20)[:, None]
        >>> model = NTKRegressor(preparation="sphere", ridge=0.01).fit(x, x[:, 0] ** 2)
        >>> rest = np.arange(20) != 7
        >>> found = model.influence([[0.3]])
        >>> found.bound.shape, bool(abs(found.moves[0, 7]) <= found.bound[0, 7] < 0.1)
        ((1, 20), True)
        """
        x, fit = self._prepared(X), getattr(self, "_fit", None)
        if fit is None:
            raise InputError("influence is about ridge regression: use method='ridge'")
        kernel = self._limit_kernel()
        found = influence(kernel(fit.x), kernel(x, fit.x), fit.y, np.square(fit.root_weight), fit.ridge, fit.centred)
        if self._one_output:
            return Influence(found.moves[:, :, 0], found.bound[:, :, 0])
        return found

    @property
    def _one_output(self) -> bool:
        """Whether predictions have one axis."""
        return self._fit.y.shape[1] == 1

    def _given(self, X: Any, y: Any, sample_weight: Any) -> Given:
        """Check the data and return what is fitted; each estimator has its own targets."""
        raise NotImplementedError

    def _chosen(self, given: Given) -> Raw:
        """Choose the preparation, fit it, and return the distinct inputs as they were given."""
        kernel, data = self._limit_kernel(), merge(given.x, given.targets, given.weight)
        raw = Raw(data, () if self.columns_ is None else self.columns_.blocks, given.centred, Setting(None, 0.0))
        some = raw.some(MOST_CHOOSING, self._rng()).data
        images = self.image_shape is not None
        candidates = settings_to_compare(self.preparation, self.bias, some.x, some.weight, images, kernel.homogeneous)
        for one in candidates:
            check_preparation(*one)
        ridge = self.ridge if getattr(self, "method", "ridge") == "ridge" else "loo"
        check_ridge(ridge)
        self.setting_, self.compared_ = choose_setting(kernel, raw, candidates, ridge, self._rng())
        raw = raw._replace(setting=self.setting_)
        self.preparation_ = fit_preparation(*self.setting_, given.x, given.weight, raw.blocks)
        return raw

    def _prepare(self, raw: Raw) -> Merged:
        """Return the distinct inputs, prepared."""
        data = raw.data
        return Merged(self.preparation_(data.x), data.y, data.weight, data.within)

    def _by_folds(self, kernel: LimitKernel, raw: Raw, insist: bool = False) -> LeaveOneOut | None:
        """Return the errors of the ridges by folds, where there are several and closed forms are not to be trusted."""
        several = isinstance(self.ridge, str) or np.ndim(self.ridge) == 1
        if not several or not (needs_folds(raw) or (insist and len(raw.data.x) > 1)):
            return None
        ridges = None if isinstance(self.ridge, str) else np.asarray(self.ridge, float)
        return left_out_by_folds(kernel, raw, ridges, self._rng())

    def _rng(self) -> np.random.RandomState:
        return check_random_state(self.random_state)

    def _fit_ridge(self, given: Given) -> Raw:
        """Fit, and set what fitting leaves behind; return what was fitted."""
        kernel, raw = self._limit_kernel(), self._chosen(given)
        folds = self._by_folds(kernel, raw)
        self._fit = fit_ridge(
            kernel, self._prepare(raw), self.ridge if folds is None else folds.best, centred=given.centred,
            solver=self.solver, rank=self.rank, tolerance=self.tol, memory=self.memory, device=self.device,
            rng=self._rng(), checkpoint=self.checkpoint, verbose=self.verbose,
        )  # fmt: skip
        self.X_fit_, self.dual_coef_ = self._fit.x, self._fit.dual
        self.loo_: Any = self._fit.loo if folds is None else folds
        self.ridge_ = self._fit.ridge
        self.solver_, self.n_iter_, self.error_ = self._fit.solver, self._fit.iterations, self._fit.error
        return raw

    def _prepared(self, x: Any) -> Float[np.ndarray, "n p"]:
        check_is_fitted(self)
        return self.preparation_(read_inputs(self, x))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        return tags
