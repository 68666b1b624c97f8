r"""What is minimized: a loss of the outputs, summed or averaged as the paper has it.

| paper              | objective                                                  | `Objective`                        |
|--------------------|------------------------------------------------------------|------------------------------------|
| Du et al. 2019     | $\tfrac12 \sum_i (f(x_i) - y_i)^2$                         | `Objective(SQUARED, "half_sum")`   |
| Allen-Zhu et al.   | $\tfrac12 \sum_i \sum_{\ell \ge 2} \|B h_{i,\ell} - y^*\|^2$ | `Objective(SQUARED, "half_sum")` |
| Zou, Frei et al.   | $\tfrac1n \sum_i \ell(y_i f(x_i))$                         | `Objective(LOGISTIC, "mean")`      |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array, Float

from wideproof.errors import InputError
from wideproof.training.losses import Loss, SquaredLoss

Task = Literal["binary", "multiclass", "regression"]


@dataclass(frozen=True)
class Objective:
    r"""A loss with its normalization: `half_sum` (squared loss only) or `mean`.

    The mean of the squared loss is $\tfrac1{2n} \sum_i (f(x_i) - y_i)^2$, so a step size for the mean is $n$ times one
    for the half sum.

    Examples
    --------
    >>> from wideproof.training.losses import SQUARED
    >>> objective = Objective(SQUARED, "half_sum")
    >>> objective.value(jnp.array([1.0, 2.0]), jnp.array([0.0, 0.0])).item()
    2.5
    """

    loss: Loss
    reduction: Literal["half_sum", "mean"]

    def __post_init__(self) -> None:
        if self.reduction == "half_sum" and not isinstance(self.loss, SquaredLoss):
            raise InputError(f"half_sum goes with the squared loss; {self.loss.name} is averaged: use 'mean'")

    def value(self, outputs: Float[Array, "n *k"], targets: Float[Array, "n *k"]) -> Float[Array, ""]:
        """Return the objective."""
        if isinstance(self.loss, SquaredLoss):
            total = 0.5 * jnp.sum(jnp.square(outputs - targets))
        else:
            total = jnp.sum(self.loss.value(targets * outputs))
        return total / outputs.shape[0] if self.reduction == "mean" else total

    def cotangent(self, outputs: Float[Array, "n *k"], targets: Float[Array, "n *k"]) -> Float[Array, "n *k"]:
        """Return the derivative of the objective with respect to the outputs."""
        if isinstance(self.loss, SquaredLoss):
            slope = outputs - targets
        else:
            slope = targets * self.loss.derivative(targets * outputs)
        return slope / outputs.shape[0] if self.reduction == "mean" else slope

    def batch_scale(self, n: int, batch: int) -> float:
        """Return the factor that makes a batch's objective an unbiased estimate of the whole one's."""
        return n / batch if self.reduction == "half_sum" else 1.0

    def curvature(self, n: int) -> float | None:
        """Return the bound on the second derivative in each output, or `None` where there is none."""
        if self.loss.smoothness is None:
            return None
        return self.loss.smoothness / n if self.reduction == "mean" else self.loss.smoothness


def training_error(outputs: Float[Array, "n *k"], targets: Float[Array, "n *k"], task: Task) -> Float[Array, ""]:
    r"""Return the fraction of examples on the wrong side: $y f \le 0$, or another class scores as high.

    It is NaN for regression. For sequences an example counts as wrong if any scored step is.

    Parameters
    ----------
    outputs, targets
        Arrays of one shape, examples along the first axis.
    task
        `"binary"`, `"multiclass"` or `"regression"`.

    Examples
    --------
    >>> training_error(jnp.array([0.5, -1.0]), jnp.array([1.0, 1.0]), "binary").item()
    0.5
    """
    if task == "regression":
        return jnp.full((), jnp.nan, outputs.dtype)
    if task == "binary":
        right = outputs * targets > 0
    else:
        own = jnp.sum(jnp.where(targets > 0, outputs, 0), axis=-1)
        best_other = jnp.max(jnp.where(targets > 0, -jnp.inf, outputs), axis=-1)
        right = own > best_other
    wrong = ~right.reshape(outputs.shape[0], -1).all(axis=1)
    return jnp.sum(wrong.astype(outputs.dtype)) / outputs.shape[0]
