r"""Gauss-Newton steps on the Gram matrix: from weights that nearly fit to weights that fit to rounding.

$$ \theta \leftarrow \theta - J^\top (G + \mu I)^{-1} r, \qquad G = J J^\top, $$

with $\mu = 0$ the shortest step that solves the linearized problem; the damping $\mu$ is raised while a step does not
help.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jax.typing import ArrayLike

from wideproof.kernels import gram
from wideproof.networks import Network
from wideproof.networks.base import gradient, linearize
from wideproof.precision import double


@dataclass(frozen=True, eq=False)
class Polished:
    """Weights after Gauss-Newton steps.

    Attributes
    ----------
    residuals : the norm of the residual before the first step and after each.
    moved : the distance from where the steps began.
    """

    params: dict[str, np.ndarray]
    residuals: tuple[float, ...]
    moved: float

    @property
    def steps(self) -> int:
        """How many steps were taken."""
        return len(self.residuals) - 1


@double
def polish(
    network: Network, params: Mapping[str, ArrayLike], x: np.ndarray, y: np.ndarray, *, steps: int = 60
) -> Polished:
    """Take Gauss-Newton steps until the residual stops falling; each is damped until it reduces the residual.

    >>> from wideproof.networks import FullyConnected
    >>> network = FullyConnected(input_dim=3, width=64, depth=1)
    >>> x = np.eye(3)
    >>> found = polish(network, network.init(0), x, np.array([1.0, -1.0, 1.0]))
    >>> found.residuals[-1] < 1e-12
    True
    """
    now = {name: np.asarray(weight, np.float64) for name, weight in params.items()}
    start, trained = now, network.trained_names
    x = np.asarray(x, np.float64)
    best = _residual(network, now, x, y)
    residuals = [float(np.linalg.norm(best))]
    damping = 0.0
    for _ in range(steps):
        if residuals[-1] == 0 or not np.isfinite(residuals[-1]):
            break
        matrix = np.asarray(gram(network, now, x).matrix)
        found = None
        for tried in _dampings(damping, float(np.trace(matrix)) / len(matrix)):
            weights = _solve(matrix, best.ravel(), tried)
            if weights is None:
                continue
            direction = _pull(network, now, x, weights.reshape(best.shape))
            there = now | {name: now[name] - direction[name] for name in trained}
            error = _residual(network, there, x, y)
            if np.linalg.norm(error) < residuals[-1]:
                found, damping = (there, error), tried
                break
        if found is None:
            break
        now, best = found
        fell = float(np.linalg.norm(best)) / residuals[-1]
        residuals.append(float(np.linalg.norm(best)))
        damping = damping / 10 if fell < 0.75 else damping
        if fell > 0.5 and residuals[-1] < 1e-11 * (1 + float(np.linalg.norm(y))):
            break
    moved = float(np.sqrt(sum(float(np.sum(np.square(now[name] - start[name]))) for name in trained)))
    return Polished(now, tuple(residuals), moved)


def _residual(network: Network, params: Mapping[str, np.ndarray], x: np.ndarray, y: np.ndarray) -> np.ndarray:
    outputs = np.asarray(network.scored(jnp.asarray(network(params, x))))
    return outputs - np.asarray(network.scored(jnp.asarray(y, jnp.float64)))


def _dampings(last: float, typical: float) -> list[float]:
    """Dampings to try: none, or from the last one that worked upwards."""
    smallest = 1e-6 * typical
    if last < smallest:
        return [0.0, *(smallest * 10.0**k for k in range(9))]
    return [last * 10.0**k for k in range(-1, 8)]


def _solve(matrix: np.ndarray, r: np.ndarray, damping: float) -> np.ndarray | None:
    try:
        with warnings.catch_warnings():  # a bad step is damped until it helps, or not taken
            warnings.simplefilter("ignore", scipy.linalg.LinAlgWarning)
            return scipy.linalg.solve(matrix + damping * np.eye(len(matrix)), r, assume_a="pos")
    except (scipy.linalg.LinAlgError, ValueError):
        return None


def _pull(
    network: Network, params: Mapping[str, np.ndarray], x: np.ndarray, weights: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the transposed Jacobian's product with `weights`, one number per scored output."""
    given = {name: jnp.asarray(weight) for name, weight in params.items()}
    line = linearize(network, given, jnp.asarray(x))
    _, back = jax.vjp(network.scored, line.outputs)
    (cotangent,) = back(jnp.asarray(weights))
    return {name: np.asarray(g) for name, g in gradient(network, given, line, cotangent).items()}
