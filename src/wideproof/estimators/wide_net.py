"""Networks of finite width, trained by (stochastic) gradient descent as the papers write it: `fit` and `predict`."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from wideproof.certificates import certify
from wideproof.data import Dataset, Task
from wideproof.errors import InputError
from wideproof.estimators.classifier import class_codes, from_scores
from wideproof.estimators.limit_kernel import NETWORKS
from wideproof.estimators.preparation import fit_preparation
from wideproof.networks import build, from_config, to_config
from wideproof.training import Recipe, train


class WideNet(BaseEstimator):
    """What regressor and classifier share: settings, training, outputs."""

    def __init__(
        self,
        *,
        network: str = "fully-connected",
        width: int = 256,
        depth: int = 2,
        activation: str = "softplus",
        loss: str = "squared",
        steps: int = 1000,
        step_size: float | str = "safe",
        constant: float = 1.0,
        batch: int | None = None,
        optimizer: str = "plain",
        target_loss: float | None = None,
        preparation: str | None = "sphere",
        bias: float = 1.0,
        certify: bool = False,
        precision: str = "float64",
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.network = network
        self.width = width
        self.depth = depth
        self.activation = activation
        self.loss = loss
        self.steps = steps
        self.step_size = step_size
        self.constant = constant
        self.batch = batch
        self.optimizer = optimizer
        self.target_loss = target_loss
        self.preparation = preparation
        self.bias = bias
        self.certify = certify
        self.precision = precision
        self.random_state = random_state

    def _train(self, x: Float[np.ndarray, "n d"], y: Float[np.ndarray, "n c"], task: Task) -> None:
        """Train on targets `n x outputs` and set what training leaves behind."""
        recipe = self._recipe(len(x))
        if self.certify and (self.loss != "squared" or self.precision != "float64"):
            raise InputError("certify=True is about the squared loss in float64: use loss='squared', 'float64'")
        self.preparation_ = fit_preparation(self.preparation, self.bias, x, np.ones(len(x)))
        targets = y[:, 0] if y.shape[1] == 1 else y
        data = Dataset(self.preparation_(x), targets, task, "the training data")
        network = build(self.network, data.input_shape, data.target_shape, **self._options())
        run = train(network, data, recipe)
        if run.ending == "diverged":
            warnings.warn(run.advice, ConvergenceWarning, stacklevel=3)
        self.network_ = to_config(network)
        self.params_ = {name: np.asarray(weight) for name, weight in run.params.items()}
        self.n_iter_, self.step_size_, self.ending_ = run.step, run.step_size, run.ending
        self.loss_, self.loss_curve_, self.loss_steps_ = run.loss, run.records["loss"], run.steps
        about = {"anchor": "the trained weights", "seed": recipe.seed, "steps": run.step}
        self.certificate_: Any = certify(network, run.params, data, about=about) if self.certify else None

    def _recipe(self, n: int) -> Recipe:
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31)
        batch = None if self.batch is None or self.batch >= n else self.batch
        return Recipe(
            loss=self.loss, steps=self.steps, step_size=self.step_size, constant=self.constant, batch=batch,
            optimizer=self.optimizer, target_loss=self.target_loss, seed=int(seed), precision=self.precision,
        )  # fmt: skip

    def _options(self) -> dict[str, object]:
        if self.network not in NETWORKS:
            raise InputError(
                f"network must be one of those that take vectors, {', '.join(NETWORKS)}; got {self.network!r}"
            )
        options: dict[str, object] = {"width": self.width, "depth": self.depth}
        if self.network in ("fully-connected", "residual"):
            options["activation"] = self.activation
        return options

    def _outputs(self, x: Any) -> Float[np.ndarray, "n *out"]:
        check_is_fitted(self)
        prepared = self.preparation_(np.asarray(validate_data(self, x, reset=False, dtype=np.float64)))
        network = from_config(self.network_)
        return np.asarray(network(self.params_, prepared), np.float64)


class WideNetRegressor(RegressorMixin, WideNet):
    """Regression by a network of finite width, trained by gradient descent on half the sum of squares.

    Targets are brought to mean 0 and variance 1 for training, and predictions back.

    Parameters
    ----------
    network
        `"fully-connected"`, `"residual"`; for one output also `"deep-relu"`, `"residual-relu"`, which have ReLU units
        whatever `activation` says.
    width, depth, activation
        As for the network.
    loss, steps, step_size, constant, batch, optimizer, target_loss, precision
        As for `Recipe`.
    preparation, bias
        As for `NTKRegressor`.
    certify
        Whether to try and prove that gradient descent, gone on with, reaches zero loss from the trained weights.
    random_state
        Decides the start and the minibatches; a whole number is `Recipe`'s seed.

    Attributes
    ----------
    network_, params_
        The network as a dictionary (`wideproof.networks.from_config`) and its trained weights.
    n_iter_, step_size_, ending_, loss_
        Steps taken, step size, why training stopped, the last loss.
    loss_curve_, loss_steps_
        The recorded losses, and their steps.
    certificate_
        With `certify=True` an `Attempt`: `passed`, `certificate`, and what is in the way if there is none.

    Examples
    --------
    >>> x = np.linspace(-1, 1, 8)[:, None]
    >>> model = WideNetRegressor(width=64, steps=300).fit(x, x[:, 0])
    >>> bool(model.score(x, x[:, 0]) > 0.95)
    True
    """

    def fit(self, X: Any, y: Any) -> WideNetRegressor:
        """Train on inputs `n x d` and targets `n` or `n x outputs`."""
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        targets = np.asarray(y, np.float64).reshape(len(y), -1)
        deviation = targets.std(axis=0)
        self.target_mean_, self.target_scale_ = targets.mean(axis=0), np.where(deviation > 0, deviation, 1.0)
        self._train(X, (targets - self.target_mean_) / self.target_scale_, "regression")
        self._vector = np.ndim(y) == 1
        return self

    def predict(self, X: Any) -> Float[np.ndarray, "n *c"]:
        """Return the trained network's outputs, in the units of the targets."""
        outputs = self._outputs(X)
        found = outputs.reshape(len(outputs), -1) * self.target_scale_ + self.target_mean_
        return found[:, 0] if self._vector else found

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class WideNetClassifier(ClassifierMixin, WideNet):
    """Classification by a network of finite width, trained by gradient descent on signs.

    Two classes are one output and signs -1, +1; more are one output a class against the rest (not for `"deep-relu"` and
    `"residual-relu"`, which have one output). Parameters and attributes are those of `WideNetRegressor`; `loss` may be
    any of `wideproof losses`.

    Examples
    --------
    >>> x = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    >>> WideNetClassifier(width=64, steps=200).fit(x, ["no", "no", "yes", "yes"]).predict(x).tolist()
    ['no', 'no', 'yes', 'yes']
    """

    def fit(self, X: Any, y: Any) -> WideNetClassifier:
        """Train on inputs `n x d` and labels of any kind."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, codes = class_codes(np.asarray(y))
        self._train(X, codes, "binary" if len(self.classes_) == 2 else "multiclass")
        return self

    def decision_function(self, X: Any) -> Float[np.ndarray, "n *c"]:
        """Return the trained network's outputs: positive for the second of two classes, or one for each class."""
        return self._outputs(X)

    def predict(self, X: Any) -> Shaped[np.ndarray, "n"]:
        """Return the classes of new inputs."""
        scores = self.decision_function(X)
        return from_scores(self.classes_, scores)
