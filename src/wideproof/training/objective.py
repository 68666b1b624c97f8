r"""What is minimized: a loss of the outputs, summed or averaged as the paper has it.

| paper              | objective                                                  | `Objective`                        |
|--------------------|------------------------------------------------------------|------------------------------------|
| Du et al. 2019     | $\tfrac12 \sum_i (f(x_i) - y_i)^2$                         | `Objective(SQUARED, "half_sum")`   |
| Allen-Zhu et al.   | $\tfrac12 \sum_i \sum_{\ell \ge 2} \|B h_{i,\ell} - y^*\|^2$ | `Objective(SQUARED, "half_sum")` |
| Zou, Frei et al.   | $\tfrac1n \sum_i \ell(y_i f(x_i))$                         | `Objective(LOGISTIC, "mean")`      |

With weights $w_i$ of the examples (`Recipe.weights`) each term is multiplied by its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array, Float

from wideproof.errors import InputError
from wideproof.training.losses import CrossEntropy, Loss, SquaredLoss

Task = Literal["binary", "multiclass", "regression"]


@dataclass(frozen=True)
class Objective:
    r"""A loss with its normalization over the data.

    The mean of the squared loss is $\tfrac1{2n} \sum_i (f(x_i) - y_i)^2$, so a step size for the mean is $n$ times the
    step size for the half sum.

    Attributes
    ----------
    loss
        The loss of one example.
    reduction
        `"half_sum"` (squared loss only) or `"mean"`.

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

    def value(
        self, outputs: Float[Array, "n *k"], targets: Float[Array, "n *k"], weights: Float[Array, " n"] | None = None
    ) -> Float[Array, ""]:
        """Return the objective; `weights` multiply the terms of the examples.

        Parameters
        ----------
        outputs
            Outputs, one row for each example.
        targets
            Targets in the same shape.
        weights
            One factor for each example; by default 1.

        Returns
        -------
        Array
            The objective, a scalar.
        """
        if isinstance(self.loss, SquaredLoss):
            terms = jnp.square(outputs - targets)
        elif isinstance(self.loss, CrossEntropy):
            terms = self.loss.value(outputs, targets)
        else:
            terms = self.loss.value(targets * outputs)
        total = jnp.sum(_weighted(terms, weights))
        total = 0.5 * total if isinstance(self.loss, SquaredLoss) else total
        return total / outputs.shape[0] if self.reduction == "mean" else total

    def cotangent(
        self, outputs: Float[Array, "n *k"], targets: Float[Array, "n *k"], weights: Float[Array, " n"] | None = None
    ) -> Float[Array, "n *k"]:
        """Return the derivative of the objective with respect to the outputs.

        Parameters
        ----------
        outputs
            Outputs, one row for each example.
        targets
            Targets in the same shape.
        weights
            One factor for each example; by default 1.

        Returns
        -------
        Array
            The derivative, in the shape of the outputs.
        """
        if isinstance(self.loss, SquaredLoss):
            slope = outputs - targets
        elif isinstance(self.loss, CrossEntropy):
            slope = self.loss.derivative(outputs, targets)
        else:
            slope = targets * self.loss.derivative(targets * outputs)
        slope = _weighted(slope, weights)
        return slope / outputs.shape[0] if self.reduction == "mean" else slope

    def batch_scale(self, n: int, batch: int) -> float:
        """Return the factor that makes the objective of a batch an unbiased estimate of the whole objective.

        Parameters
        ----------
        n
            Number of examples.
        batch
            Batch size.

        Returns
        -------
        float
            The factor.
        """
        return n / batch if self.reduction == "half_sum" else 1.0

    def curvature(self, n: int, single: bool = False) -> float | None:
        """Return a bound on the second derivative with respect to the outputs of an example.

        Parameters
        ----------
        n
            Number of examples.
        single
            Whether every example has one output, which halves the curvature of cross-entropy.

        Returns
        -------
        float | None
            The bound; `None` if there is none.
        """
        bend = self.loss.smoothness
        if bend is None:
            return None
        bend = bend / 2 if single and isinstance(self.loss, CrossEntropy) else bend
        return bend / n if self.reduction == "mean" else bend


def _weighted(terms: Float[Array, "n *k"], weights: Float[Array, " n"] | None) -> Float[Array, "n *k"]:
    return terms if weights is None else weights.reshape(-1, *[1] * (terms.ndim - 1)) * terms


def training_error(outputs: Float[Array, "n *k"], targets: Float[Array, "n *k"], task: Task) -> Float[Array, ""]:
    r"""Return the fraction of examples on the wrong side: $y f \le 0$, or another class scores as high.

    It is NaN for regression. A sequence counts as wrong if any scored step is wrong.

    Parameters
    ----------
    outputs
        Outputs, with the examples along the first axis.
    targets
        Targets in the same shape.
    task
        `"binary"`, `"multiclass"` or `"regression"`.

    Returns
    -------
    Array
        The fraction.

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
