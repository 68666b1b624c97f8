"""How to train: everything that decides the numbers of a run, as one frozen value that JSON can hold."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import optax

from wideproof.errors import InputError
from wideproof.precision import as_dtype
from wideproof.training.losses import SquaredLoss, get_loss
from wideproof.training.objective import Objective

OPTIMIZERS = ("plain", "momentum", "nesterov", "adam")


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
        A number, `"safe"` (1 / largest curvature at the start) or `"paper"` (the theorem's scaling).
    constant
        Multiplies a rule's step size: the constant that the papers leave unstated.
    steps
        The step limit.
    target_loss
        Stop when the loss is at most this.
    stop_at_zero_error
        Stop when every training example is on the right side.
    batch
        Examples per step, a fresh uniform subset without replacement; `None` or all of them is gradient descent.
    optimizer
        `"plain"` as in the papers, or Optax's `"momentum"`, `"nesterov"`, `"adam"`.
    seed
        Decides the start and the minibatches.
    precision
        `"float64"` or `"float32"`.
    record_every
        Record every so many steps; 0 records the first 1024, then fewer and fewer, 512 per doubling.
    check_every
        With minibatches, how often the whole loss is evaluated; 0 is once per pass over the data.
    divergence_factor
        A loss this many times the first one counts as divergence.

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
    optimizer: str = "plain"
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
            if self.optimizer == "adam":
                raise InputError("adam rescales gradients, so no step-size rule fits it: give a number, such as 0.001")
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
        _ = self.objective

    @property
    def objective(self) -> Objective:
        """The loss with its normalization."""
        if self.reduction not in ("auto", "half_sum", "mean"):
            raise InputError(f"reduction must be 'half_sum' or 'mean', got {self.reduction!r}")
        loss = get_loss(self.loss)
        default = "half_sum" if isinstance(loss, SquaredLoss) else "mean"
        return Objective(loss, default if self.reduction == "auto" else self.reduction)  # pyright: ignore[reportArgumentType]

    def check_unit(self, n: int) -> int:
        """How many steps lie between two evaluations of the whole loss: 1 for gradient descent."""
        batch = n if self.batch is None else self.batch
        return 1 if batch >= n else self.check_every or -(-n // batch)

    def transformation(self, step_size: Any) -> optax.GradientTransformation:
        """Return the Optax transformation for a step size, which may be traced."""
        if self.optimizer == "adam":
            return optax.adam(step_size)
        momentum = None if self.optimizer == "plain" else 0.9
        return optax.sgd(step_size, momentum=momentum, nesterov=self.optimizer == "nesterov")

    def to_config(self) -> dict[str, Any]:
        """Return the settings as a dictionary that JSON can hold."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_config(config: Mapping[str, Any]) -> Recipe:
        """Rebuild the recipe that `to_config` described."""
        known = {field.name for field in dataclasses.fields(Recipe)}
        unknown = sorted(set(config) - known)
        if unknown:
            raise InputError(f"a recipe has no {', '.join(unknown)}: was it written by a newer version?")
        return Recipe(**config)
