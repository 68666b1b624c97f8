"""How to train: everything that decides the numbers of a run, as one frozen value that JSON can hold."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import optax
from jaxtyping import Float

from wideproof.data import AnyDataset
from wideproof.errors import InputError
from wideproof.precision import as_dtype
from wideproof.training.losses import CrossEntropy, SquaredLoss, get_loss
from wideproof.training.objective import Objective
from wideproof.training.schedules import Schedule, factors, settled

Numbers = Sequence[float | int] | np.ndarray  # kept as a tuple
OPTIMIZERS = ("plain", "momentum", "nesterov", "adam", "adamw", "gauss-newton")
MOMENTUM, DECAY = 0.9, 0.01  # of momentum and Nesterov, and of AdamW, where none is given


@dataclass(frozen=True)
class Recipe:
    r"""Settings of gradient descent, or of stochastic gradient descent if `batch` is given.

    Attributes
    ----------
    loss
        Name of the loss; families take an exponent, as in `"canonical(0.75)"`.
    reduction
        `"half_sum"` or `"mean"`; by default the half sum for the squared loss and the mean otherwise.
    step_size
        Step size (learning rate): a number, `"safe"` (1 / largest curvature at the start) or `"paper"` (the theorem's
        scaling).
    constant
        Factor of the step size of a rule: the constant that the papers leave unstated.
    steps
        Maximum number of steps.
    target_loss
        Stop when the loss is at most this.
    stop_at_zero_error
        Stop when every training example is on the right side.
    batch
        Batch size: every step draws a uniform subset without replacement. `None` or all examples is gradient descent.
    shuffle
        Go through all examples in epochs instead: $\lceil n/B \rceil$ batches in a new random order, every example
        once. If $B$ does not divide $n$, the last batch of an epoch is shorter; its gradient is scaled like the others.
    optimizer
        With the gradient $g$ and the step size $\eta_k$: `"plain"`, $w \leftarrow w - \eta_k g$, as in the papers;
        `"momentum"`, $v \leftarrow \beta v + g$, $w \leftarrow w - \eta_k v$, as in PyTorch and Optax (with constant
        $\eta$ it is Polyak's heavy ball $w - \eta g + \beta (w - w_{\mathrm{before}})$); `"nesterov"`, the same $v$ and
        $w \leftarrow w - \eta_k (g + \beta v)$; `"adam"` and `"adamw"` with $\beta_1 = 0.9$, $\beta_2 = 0.999$,
        $\epsilon = 10^{-8}$, $w \leftarrow w - \eta_k \hat m / (\sqrt{\hat v} + \epsilon)$.
        `"gauss-newton"`, $w \leftarrow w - \eta_k \Delta$, is for the squared loss and all examples at once; its step
        size is 1 by `"safe"`.
    damping
        For Gauss–Newton, $\lambda$ in $\Delta = J^\top (J J^\top + \lambda I)^{-1} r$; 0 takes the shortest step that
        makes the linearized residuals least.
    momentum
        The coefficient $\beta$ of `"momentum"` and `"nesterov"`, from 0 to below 1; by default 0.9.
    weight_decay
        A number $\lambda$, by default 0, and 0.01 for `"adamw"`. For `"adamw"` it is decoupled: $-\eta_k \lambda w$ is
        added to the step. For all others it is coupled: $\lambda w$ is added to the gradient, which is that of the loss
        with $\tfrac\lambda2 \|w\|^2$. It concerns all trained weights, biases too. Losses are recorded without it.
    schedule
        Factors of the step size, $\eta_k = \eta c_k$: `"constant"`, `"cosine"`, `"linear"`, `"steps(30)"`,
        `"milestones(100,200)"`, `"warmup(50)"` or `"warmup(50) cosine"` (their formulas stand in the reference, under
        Training); a list of factors, of which the last holds for all later steps; or a function of the step's number,
        evaluated at once for as many steps as the recipe has.
    label_smoothing
        For cross-entropy, the share of every label that is spread evenly over all classes.
    class_weights
        A factor of the loss for every class, or `"balanced"`: $n / (C n_c)$ for $C$ classes with $n_c$ examples each.
    sample_weights
        A factor of the loss for every example. A mean is divided by the sum of the weights.
    seed
        Seed of the initial weights, and of the minibatches or of the order of the examples.
    precision
        `"float64"` or `"float32"`.
    record_every
        Number of steps between two records; 0 records the first 1024 steps, then 512 steps for each doubling.
    check_every
        With minibatches, number of steps between two evaluations of the whole loss; 0 is one pass over the data.
    divergence_factor
        The run counts as diverged if the loss exceeds the first loss by this factor.

    Examples
    --------
    >>> Recipe(loss="logistic").objective.reduction
    'mean'
    """

    loss: str = "squared"
    reduction: str = "auto"
    step_size: float | str = "safe"
    constant: float = 1.0
    steps: int = 10_000
    target_loss: float | None = None
    stop_at_zero_error: bool = False
    batch: int | None = None
    shuffle: bool = False
    optimizer: str = "plain"
    damping: float = 0.0
    momentum: float | None = None
    weight_decay: float | None = None
    schedule: Schedule = "constant"
    label_smoothing: float = 0.0
    class_weights: Numbers | str | None = None
    sample_weights: Numbers | None = None
    seed: int = 0
    precision: str = "float64"
    record_every: int = 0
    check_every: int = 0
    divergence_factor: float = 1e6

    def __post_init__(self) -> None:
        get_loss(self.loss)
        as_dtype(self.precision)
        if isinstance(self.step_size, str):
            if self.step_size not in ("safe", "paper"):
                raise InputError(f"the step size must be a number, 'safe' or 'paper', got {self.step_size!r}")
            if self.optimizer in ("adam", "adamw"):
                raise InputError(
                    f"{self.optimizer} rescales gradients, so no step-size rule fits it: give a number, such as 0.001"
                )
        elif not (math.isfinite(self.step_size) and self.step_size >= 0):
            raise InputError(f"the step size must be a number >= 0, got {self.step_size}")
        if not (math.isfinite(self.constant) and self.constant > 0):
            raise InputError(f"the constant of a step-size rule must be > 0, got {self.constant}")
        for key, least in (("steps", 0), ("record_every", 0), ("check_every", 0), ("seed", 0)):
            value = getattr(self, key)
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or not least <= value < 2**62:
                raise InputError(f"{key} must be a whole number >= {least} and below 2^62, got {value!r}")
        if self.batch is not None and (not isinstance(self.batch, int | np.integer) or self.batch < 1):
            raise InputError(f"batch must be a whole number >= 1, got {self.batch!r}")
        if self.target_loss is not None and not (math.isfinite(self.target_loss) and self.target_loss >= 0):
            raise InputError(f"the target loss must be a number >= 0, got {self.target_loss}")
        if not self.divergence_factor > 1:
            raise InputError(f"divergence_factor must be > 1, got {self.divergence_factor}")
        if self.optimizer not in OPTIMIZERS:
            raise InputError(f"there is no optimizer {self.optimizer!r}: choose one of {', '.join(OPTIMIZERS)}")
        self._check_method()
        self._check_gauss_newton()
        if not (isinstance(self.label_smoothing, int | float) and 0 <= self.label_smoothing < 1):
            raise InputError(f"label_smoothing must be a share >= 0 and below 1, got {self.label_smoothing!r}")
        if isinstance(self.class_weights, str):
            if self.class_weights != "balanced":
                raise InputError(
                    f"class_weights must be a number for every class, or 'balanced', got {self.class_weights!r}"
                )
        elif self.class_weights is not None:
            object.__setattr__(self, "class_weights", _positive("class_weights", self.class_weights, "class"))
        if self.sample_weights is not None:
            object.__setattr__(self, "sample_weights", _positive("sample_weights", self.sample_weights, "example"))
        objective = self.objective
        if self.step_size == "paper" and (self.weighted or self.decay or isinstance(objective.loss, CrossEntropy)):
            raise InputError(
                "no paper has a step size for cross-entropy, for weights of examples or for weight decay: use 'safe', "
                "or a number"
            )

    def _check_method(self) -> None:
        """Check the settings of the optimizer, and settle the schedule."""
        if self.shuffle and self.batch is None:
            raise InputError("shuffle=True is about batches, and every step takes all examples: give a batch size")
        if self.momentum is not None:
            if self.optimizer not in ("momentum", "nesterov"):
                raise InputError(
                    f"momentum={self.momentum} goes with optimizer='momentum' or 'nesterov', and it is "
                    f"{self.optimizer!r}"
                )
            if not (_is_number(self.momentum) and 0 <= self.momentum < 1):
                raise InputError(f"momentum must be a number from 0 to below 1, got {self.momentum!r}")
        if self.weight_decay is not None and not (_is_number(self.weight_decay) and 0 <= self.weight_decay < math.inf):
            raise InputError(f"weight_decay must be a number >= 0, got {self.weight_decay!r}")
        object.__setattr__(self, "shuffle", bool(self.shuffle))
        object.__setattr__(self, "schedule", settled(self.schedule, self.steps))

    @property
    def beta(self) -> float:
        """The coefficient of the momentum; 0 if there is none."""
        if self.optimizer not in ("momentum", "nesterov"):
            return 0.0
        return MOMENTUM if self.momentum is None else float(self.momentum)

    @property
    def decay(self) -> float:
        """The weight decay."""
        if self.weight_decay is not None:
            return float(self.weight_decay)
        return DECAY if self.optimizer == "adamw" else 0.0

    @property
    def plain(self) -> bool:
        """Whether all steps are one step size times a gradient of the loss."""
        return self.optimizer == "plain" and not self.decay and self.schedule == "constant"

    @property
    def method(self) -> str:
        """The method in words."""
        kind = {"momentum": f"momentum {self.beta:g}", "nesterov": f"Nesterov momentum {self.beta:g}"}
        batches = f"{'shuffled ' * self.shuffle}batches of {self.batch}"
        parts = ["gradient descent" if self.batch is None else f"SGD, {batches}"]
        if self.optimizer in ("adam", "adamw"):
            parts = [{"adam": "Adam", "adamw": "AdamW"}[self.optimizer], *([] if self.batch is None else [batches])]
        if self.optimizer == "gauss-newton":
            parts = [f"Gauss–Newton, damping {self.damping:g}" if self.damping else "Gauss–Newton"]
        parts += [kind[self.optimizer]] if self.optimizer in kind else []
        parts += [f"weight decay {self.decay:g}"] if self.decay else []
        named = self.schedule if isinstance(self.schedule, str) else "a list of factors"
        parts += [] if named == "constant" else [f"step sizes by {named}"]
        return ", ".join(parts)

    @property
    def factors(self) -> Float[np.ndarray, " k"] | None:
        """The factors of the step size at the steps, of which the last holds for all later ones; `None`: all are 1."""
        return factors(self.schedule, self.steps)  # pyright: ignore[reportArgumentType]

    def _check_gauss_newton(self) -> None:
        if not (isinstance(self.damping, int | float) and 0 <= self.damping < math.inf):
            raise InputError(f"damping must be a number >= 0, got {self.damping!r}")
        if self.optimizer != "gauss-newton":
            if self.damping:
                raise InputError(f"damping goes with optimizer='gauss-newton', and the optimizer is {self.optimizer!r}")
        elif not isinstance(get_loss(self.loss), SquaredLoss) or self.batch is not None or self.step_size == "paper":
            raise InputError(
                "gauss-newton is for the squared loss, with all examples in every step (leave `batch` out) and a "
                "number as step size, or 'safe', which is 1"
            )
        elif self.weight_decay:
            raise InputError("gauss-newton has no weight_decay: leave it out, or use damping, which shortens the steps")

    @property
    def objective(self) -> Objective:
        """The loss with its normalization."""
        if self.reduction not in ("auto", "half_sum", "mean"):
            raise InputError(f"reduction must be 'half_sum' or 'mean', got {self.reduction!r}")
        loss = get_loss(self.loss)
        if self.label_smoothing:
            if not isinstance(loss, CrossEntropy):
                raise InputError(f"label_smoothing goes with loss='cross_entropy', and the loss is {self.loss!r}")
            loss = dataclasses.replace(loss, smoothing=float(self.label_smoothing))
        default = "half_sum" if isinstance(loss, SquaredLoss) else "mean"
        return Objective(loss, default if self.reduction == "auto" else self.reduction)  # pyright: ignore[reportArgumentType]

    @property
    def weighted(self) -> bool:
        """Whether examples have weights."""
        return self.class_weights is not None or self.sample_weights is not None

    def weights(self, data: AnyDataset) -> Float[np.ndarray, " n"] | None:
        """Return the factors of the losses of the examples; their mean is 1 if the loss is averaged.

        Parameters
        ----------
        data
            The data.

        Returns
        -------
        array | None
            One factor for each example; `None` without weights.

        Examples
        --------
        >>> from wideproof.data import Dataset
        >>> data = Dataset(np.eye(3), np.array([1.0, -1.0, 1.0]), "binary")
        >>> Recipe(loss="logistic", class_weights="balanced").weights(data).tolist()
        [0.75, 1.5, 0.75]
        """
        if not self.weighted:
            return None
        weights = np.ones(data.n)
        if self.class_weights is not None:
            if data.labels is None:
                raise InputError(f"'{data.name}' has real targets, so it has no classes: leave class_weights out")
            counts = np.bincount(data.labels, minlength=2 if data.task == "binary" else data.y.shape[-1])
            if isinstance(self.class_weights, str):  # balanced
                weights = data.n / (len(counts) * counts[data.labels])
            elif len(self.class_weights) != len(counts):
                raise InputError(
                    f"'{data.name}' has {len(counts)} classes, and class_weights has {len(self.class_weights)} "
                    "numbers: give one for each class, in the order of the classes"
                )
            else:
                weights = np.array(self.class_weights, np.float64)[data.labels]
        if self.sample_weights is not None:
            if len(self.sample_weights) != data.n:
                raise InputError(
                    f"'{data.name}' has {data.n} examples, and sample_weights has {len(self.sample_weights)} numbers: "
                    "give one for each example"
                )
            weights = weights * np.array(self.sample_weights)
        if not weights.sum() > 0:
            raise InputError(f"all weights of the examples of '{data.name}' are 0: give some example a weight > 0")
        return weights / weights.mean() if self.objective.reduction == "mean" else weights

    def check_unit(self, n: int) -> int:
        """Return the number of steps between two evaluations of the whole loss: 1 for gradient descent.

        Parameters
        ----------
        n
            Number of examples.

        Returns
        -------
        int
            The number of steps.
        """
        batch = n if self.batch is None else self.batch
        return 1 if batch >= n else self.check_every or -(-n // batch)

    def transformation(self, step_size: Any) -> optax.GradientTransformation:
        """Return the Optax transformation of the optimizer; that of Gauss–Newton is given its direction as gradient.

        Parameters
        ----------
        step_size
            Step size (learning rate), which may be traced.

        Returns
        -------
        optax.GradientTransformation
            The transformation.
        """
        if self.optimizer == "adamw":
            return optax.adamw(step_size, weight_decay=self.decay)
        if self.optimizer == "adam":
            made = optax.adam(step_size)
        else:
            momentum = self.beta if self.optimizer in ("momentum", "nesterov") else None
            made = optax.sgd(step_size, momentum=momentum, nesterov=self.optimizer == "nesterov")
        return optax.chain(optax.add_decayed_weights(self.decay), made) if self.decay else made

    def to_config(self) -> dict[str, Any]:
        """Return the settings as a dictionary that JSON can hold."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_config(config: Mapping[str, Any]) -> Recipe:
        """Rebuild the recipe that `to_config` described.

        Parameters
        ----------
        config
            The result of `to_config`.

        Returns
        -------
        Recipe
            The recipe.
        """
        known = {field.name for field in dataclasses.fields(Recipe)}
        unknown = sorted(set(config) - known)
        if unknown:
            raise InputError(f"a recipe has no {', '.join(unknown)}: was it written by a newer version?")
        return Recipe(**config)


def _is_number(given: Any) -> bool:
    return isinstance(given, int | float | np.number) and not isinstance(given, bool)


def _positive(name: str, given: Any, of: str) -> tuple[float, ...]:
    """The numbers of a setting as a tuple, which JSON and a dictionary of programs can hold."""
    try:
        numbers = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a list of numbers, one for every {of}, got {given!r}") from None
    if numbers.ndim != 1 or not (np.isfinite(numbers) & (numbers >= 0)).all():
        raise InputError(f"{name} must be a list of numbers >= 0, one for every {of}, got {given!r}")
    return tuple(numbers.tolist())
