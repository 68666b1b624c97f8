r"""What is done to inputs before a network sees them: scaled columns, a constant coordinate, norm 1.

`"sphere"`, the default of the estimators, is $x \mapsto (z, \beta) / \|(z, \beta)\|$ with
$z = (x - \text{mean}) / (\text{std} \sqrt d)$: it keeps different inputs different (and not parallel), works for an
input of zeros, and has the norm 1 that the theorems ask for. `"standardize"` leaves the last step out, so that ReLU
networks grow linearly far away; `None` leaves the inputs as they are. $\beta$ is `bias`; 0 adds no coordinate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from wideproof.errors import InputError

PREPARATIONS = ("sphere", "standardize", None)


@dataclass(frozen=True)
class Preparation:
    """A fitted preparation: what is subtracted, what is multiplied, the constant coordinate, whether norms become 1."""

    mean: Float[np.ndarray, "d"]
    factor: Float[np.ndarray, "d"]
    bias: float | int
    unit: bool

    def __call__(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n p"]:
        """Prepare inputs, training inputs and new ones alike."""
        as_given = not self.mean.any() and (self.factor == 1).all()
        z = x if as_given else (x - self.mean) * self.factor  # copies of many images take time
        return with_constant(z, self.bias, self.unit)


def fit_preparation(
    kind: str | None, bias: float | int, x: Float[np.ndarray, "n d"], weight: Float[np.ndarray, "n"]
) -> Preparation:
    """Take means and deviations from the training inputs, with weights; constant columns become 0.

    >>> ready = fit_preparation("sphere", 1.0, np.array([[1.0], [3.0]]), np.ones(2))
    >>> ready(np.array([[2.0], [3.0]])).round(4)
    array([[0.    , 1.    ],
           [0.7071, 0.7071]])
    """
    if kind not in PREPARATIONS:
        raise InputError(f"preparation must be 'sphere', 'standardize' or None, got {kind!r}")
    if not (math.isfinite(bias) and bias >= 0):
        raise InputError(f"bias must be a number >= 0, got {bias!r}")
    d = x.shape[1]
    if kind is None:
        return Preparation(np.zeros(d), np.ones(d), bias, False)
    mean = np.average(x, axis=0, weights=weight)
    deviation = np.sqrt(np.average(np.square(x - mean), axis=0, weights=weight))
    varies = deviation > 1e-13 * np.abs(mean)
    factor = np.where(varies, 1 / np.where(varies, deviation * math.sqrt(d), 1), 0.0)
    return Preparation(mean, factor, bias, kind == "sphere")


def with_constant(z: Float[np.ndarray, "n d"], bias: float | int, unit: bool) -> Float[np.ndarray, "n p"]:
    """Append a constant coordinate (unless 0) and divide by the norm (if asked); zeros stay zeros."""
    if bias:
        z = np.concatenate([z, np.full((len(z), 1), float(bias))], axis=1)
    if not unit:
        return z
    norms = np.sqrt(np.einsum("ij,ij->i", z, z))
    return z / np.where(norms > 0, norms, 1)[:, None]
