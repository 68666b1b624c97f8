"""Networks of finite width, trained by (stochastic) gradient descent as the papers write it: `fit` and `predict`."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from wideproof.certificates import Problem, certify
from wideproof.data import Dataset, Task
from wideproof.errors import InputError
from wideproof.estimators.classifier import class_codes, from_scores
from wideproof.estimators.limit_kernel import NETWORKS
from wideproof.estimators.preparation import fit_preparation
from wideproof.networks import build, from_config, to_config
from wideproof.progress import unwatched
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
        recipe: dict[str, Any] | None = None,
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
        self.recipe = recipe
        self.preparation = preparation
        self.bias = bias
        self.certify = certify
        self.precision = precision
        self.random_state = random_state

    def _train(
        self,
        x: Float[np.ndarray, "n d"],
        y: Float[np.ndarray, "n c"],
        task: Task,
        weight: Float[np.ndarray, "n"] | None,
    ) -> None:
        """Train on targets `n x outputs` and set what training leaves behind."""
        weights = None if weight is None else tuple(weight.tolist())
        recipe = dataclasses.replace(self._recipe(len(x)), sample_weights=weights)
        if self.certify and (self.loss != "squared" or self.precision != "float64"):
            raise InputError("certify=True is about the squared loss in float64: use loss='squared', 'float64'")
        if self.certify and recipe.weighted:
            raise InputError("certify=True is about examples of equal weight: leave their weights out")
        shares = np.ones(len(x)) if weight is None else weight
        self.preparation_ = fit_preparation(self.preparation, self.bias, x, shares)
        targets = y[:, 0] if y.shape[1] == 1 else y
        data = Dataset(self.preparation_(x), targets, task, "the training data")
        network = build(self.network, data.input_shape, data.target_shape, **self._options())
        run = train(network, data, recipe, progress=unwatched)
        if run.ending == "diverged":
            warnings.warn(run.advice, ConvergenceWarning, stacklevel=3)
        self.network_ = to_config(network)
        self.params_ = {name: np.asarray(weight) for name, weight in run.params.items()}
        self.n_iter_, self.step_size_, self.ending_ = run.step, run.step_size, run.ending
        self.loss_, self.loss_curve_, self.loss_steps_ = run.loss, run.records["loss"], run.steps
        about = {"anchor": "the trained weights", "seed": recipe.seed, "steps": run.step}
        self.certificate_: Any = certify(Problem(network, data).at(run.params), about=about) if self.certify else None

    def _recipe(self, n: int) -> Recipe:
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31)
        batch = None if self.batch is None or self.batch >= n else self.batch
        more = self.recipe or {}
        known = {one.name for one in dataclasses.fields(Recipe)} - {*self.get_params(), "seed", "sample_weights"}
        if unknown := sorted(set(more) - known):
            raise InputError(
                f"recipe holds settings of `Recipe` that are no parameters here, {', '.join(sorted(known))}; got "
                f"{', '.join(unknown)}"
            )
        if batch is None and self.batch is not None:  # one batch has all examples, in whichever order
            more = {key: value for key, value in more.items() if key != "shuffle"}
        return Recipe(
            loss=self.loss, steps=self.steps, step_size=self.step_size, constant=self.constant, batch=batch,
            optimizer=self.optimizer, target_loss=self.target_loss, seed=int(seed), precision=self.precision,
            **more,
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
    """Regression with a network of finite width, trained by gradient descent on half the sum of squares.

    Targets are scaled to mean 0 and variance 1 for training, and predictions are scaled back.

    Parameters
    ----------
    network
        `"fully-connected"` or `"residual"`; for one output also `"deep-relu"` or `"residual-relu"`, which have ReLU
        units whatever `activation` says.
    width
        Number of hidden units in each layer.
    depth
        Number of hidden layers.
    activation
        Name of the activation.
    loss
        Name of the loss.
    steps
        Maximum number of steps.
    step_size
        Step size (learning rate): a number, or a rule of `Recipe`.
    constant
        Factor of the step size of a rule.
    batch
        Batch size; `None` trains by gradient descent on all examples.
    optimizer
        Name of the optimizer, as in `Recipe`.
    target_loss
        Stop when the loss is at most this; `None` takes all steps.
    recipe
        Further settings of `Recipe`, as in `{"class_weights": "balanced", "shuffle": True, "schedule": "cosine"}`.
    preparation
        `"sphere"`: standardize, append `bias` and divide by the norm; `"standardize"`: standardize and append `bias`;
        `None`: only append `bias`.
    bias
        The constant coordinate that is appended; 0 for none.
    certify
        Whether to try to prove that gradient descent, continued from the trained weights, reaches zero loss.
    precision
        `"float64"` or `"float32"`.
    random_state
        Seed of the initial weights and of the minibatches; a whole number is the seed of `Recipe`.

    Attributes
    ----------
    network_
        The network as a dictionary (`wideproof.networks.from_config`).
    params_
        The trained weights, by name.
    n_iter_
        Number of steps.
    step_size_
        The step size.
    ending_
        Why training stopped.
    loss_
        The last loss.
    loss_curve_
        The recorded losses.
    loss_steps_
        The steps at which they were recorded.
    certificate_
        With `certify=True` an `Attempt`: `passed`, `certificate`, and the obstacle if there is no certificate.

    Examples
    --------
    >>> x = np.linspace(-1, 1, 8)[:, None]
    >>> model = WideNetRegressor(width=64, steps=300).fit(x, x[:, 0])
    >>> bool(model.score(x, x[:, 0]) > 0.95)
    True
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> WideNetRegressor:
        """Train the network.

        Parameters
        ----------
        X
            Inputs, one example in each row.
        y
            Targets: a number or a row of numbers for each example.
        sample_weight
            Factors of the losses of the examples; by default all are 1.

        Returns
        -------
        WideNetRegressor
            The fitted estimator.
        """
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        targets = np.asarray(y, np.float64).reshape(len(y), -1)
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float64)
        mean = np.average(targets, axis=0, weights=weight)
        deviation = np.sqrt(np.average(np.square(targets - mean), axis=0, weights=weight))
        self.target_mean_, self.target_scale_ = mean, np.where(deviation > 0, deviation, 1.0)
        self._train(X, (targets - self.target_mean_) / self.target_scale_, "regression", weight)
        self._vector = np.ndim(y) == 1
        return self

    def predict(self, X: Any) -> Float[np.ndarray, "n *c"]:
        """Return the trained network's outputs, in the units of the targets.

        Parameters
        ----------
        X
            Inputs, one example in each row.

        Returns
        -------
        array
            The predictions.
        """
        outputs = self._outputs(X)
        found = outputs.reshape(len(outputs), -1) * self.target_scale_ + self.target_mean_
        return found[:, 0] if self._vector else found

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class WideNetClassifier(ClassifierMixin, WideNet):
    """Classification with a network of finite width, trained by gradient descent on signs or on softmax cross-entropy.

    Two classes are one output with signs -1 and +1; more classes have one output each, a class against the rest (not
    for `"deep-relu"` and `"residual-relu"`, which have one output). With `loss="cross_entropy"` there are probabilities
    (`predict_proba`).

    Parameters
    ----------
    network
        `"fully-connected"` or `"residual"`; for one output also `"deep-relu"` or `"residual-relu"`, which have ReLU
        units whatever `activation` says.
    width
        Number of hidden units in each layer.
    depth
        Number of hidden layers.
    activation
        Name of the activation.
    loss
        Name of the loss; any of `wideproof losses`.
    steps
        Maximum number of steps.
    step_size
        Step size (learning rate): a number, or a rule of `Recipe`.
    constant
        Factor of the step size of a rule.
    batch
        Batch size; `None` trains by gradient descent on all examples.
    optimizer
        Name of the optimizer, as in `Recipe`.
    target_loss
        Stop when the loss is at most this; `None` takes all steps.
    recipe
        Further settings of `Recipe`, as in `{"class_weights": "balanced", "shuffle": True, "schedule": "cosine"}`.
    preparation
        `"sphere"`: standardize, append `bias` and divide by the norm; `"standardize"`: standardize and append `bias`;
        `None`: only append `bias`.
    bias
        The constant coordinate that is appended; 0 for none.
    certify
        Whether to try to prove that gradient descent, continued from the trained weights, reaches zero loss.
    precision
        `"float64"` or `"float32"`.
    random_state
        Seed of the initial weights and of the minibatches; a whole number is the seed of `Recipe`.

    Attributes
    ----------
    network_
        The network as a dictionary (`wideproof.networks.from_config`).
    params_
        The trained weights, by name.
    n_iter_
        Number of steps.
    step_size_
        The step size.
    ending_
        Why training stopped.
    loss_
        The last loss.
    loss_curve_
        The recorded losses.
    loss_steps_
        The steps at which they were recorded.
    certificate_
        With `certify=True` an `Attempt`: `passed`, `certificate`, and the obstacle if there is no certificate.

    Examples
    --------
    >>> x = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    >>> WideNetClassifier(width=64, steps=200).fit(x, ["no", "no", "yes", "yes"]).predict(x).tolist()
    ['no', 'no', 'yes', 'yes']
    >>> model = WideNetClassifier(width=64, steps=200, loss="cross_entropy").fit(x, ["a", "b", "c", "c"])
    >>> model.predict_proba(x).argmax(axis=1).tolist()
    [0, 1, 2, 2]
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> WideNetClassifier:
        """Train the network.

        Parameters
        ----------
        X
            Inputs, one example in each row.
        y
            One label for each example.
        sample_weight
            Factors of the losses of the examples; by default all are 1.

        Returns
        -------
        WideNetClassifier
            The fitted estimator.
        """
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, codes = class_codes(np.asarray(y))
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float64)
        self._train(X, codes, "binary" if len(self.classes_) == 2 else "multiclass", weight)
        return self

    def decision_function(self, X: Any) -> Float[np.ndarray, "n *c"]:
        """Return the trained network's outputs: positive for the second of two classes, or one for each class.

        Parameters
        ----------
        X
            Inputs, one example in each row.

        Returns
        -------
        array
            The outputs.
        """
        return self._outputs(X)

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
        scores = self.decision_function(X)
        return from_scores(self.classes_, scores)

    @available_if(lambda self: self.loss == "cross_entropy")
    def predict_proba(self, X: Any) -> Float[np.ndarray, "n c"]:
        """Return the probabilities of the classes, in the order of `classes_`; only with `loss="cross_entropy"`.

        Parameters
        ----------
        X
            Inputs, one example in each row.

        Returns
        -------
        array
            One row for each example, one column for each class.
        """
        scores = self._outputs(X)
        return softmax(np.stack([np.zeros_like(scores), scores], axis=1) if scores.ndim == 1 else scores, axis=1)
