r"""Gauss-Newton steps on the Gram matrix: from weights that nearly fit to weights that fit to rounding.

$$ \theta \leftarrow \theta - J^\top (G + \mu I)^{-1} r, \qquad G = J J^\top, $$

with $\mu = 0$ the shortest step that solves the linearized problem; the damping $\mu$ is raised while a step does not
help. On a GPU the matrix, its factor and the solutions stay there; of many rows the factor is made in a copy, in
blocks.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jax.typing import ArrayLike
from jaxtyping import Float

from wideproof.certificates.anchor import DENSE
from wideproof.certificates.devices import accelerated
from wideproof.certificates.lengths import distance, length
from wideproof.certificates.many import Place
from wideproof.kernels import gram
from wideproof.networks import Network, gradient, linearize
from wideproof.precision import double


@dataclass(frozen=True, eq=False)
class Polished:
    """Weights after Gauss-Newton steps.

    Attributes
    ----------
    params
        The weights, by name.
    residuals
        Norm of the residual before the first step and after each step; with weight decay, norm of the gradient.
    moved
        Distance from the weights before the first step.
    kind
        Which weights moved: `"all"`, or only the `"read-out"`; `"ridge"`: all of them, with weight decay.
    """

    params: dict[str, np.ndarray]
    residuals: tuple[float, ...]
    moved: float
    kind: str = "all"

    @property
    def steps(self) -> int:
        """How many steps were taken."""
        return len(self.residuals) - 1

    def share(self, network: Network, before: Mapping[str, np.ndarray]) -> float:
        """Return the distance relative to the length of the trained weights before the first step.

        Parameters
        ----------
        network
            The network.
        before
            Weights before the first step, by name.

        Returns
        -------
        float
            The ratio.
        """
        return self.moved / length({name: before[name] for name in network.trained_names})


def fit_read_out(
    network: Network,
    params: Mapping[str, ArrayLike],
    x: Float[np.ndarray, "n ..."],
    y: Float[np.ndarray, "n ..."],
    *,
    steps: int = 4,
) -> Polished | None:
    r"""Take the shortest step of the read-out alone that fits all targets.

    The outputs are linear in a trained read-out: $a \leftarrow a - r^\top (X X^\top)^{-1} X$ with the last features X,
    one small system for any number of outputs. It needs at least as many features as examples; the steps after the
    first only remove rounding errors.

    Parameters
    ----------
    network
        The network.
    params
        The initial weights, by name.
    x
        Inputs, one example in each row.
    y
        Targets, one row for each example.
    steps
        Maximum number of steps.

    Returns
    -------
    Polished | None
        The weights, or `None` if no read-out fits.

    Examples
    --------
    >>> from wideproof.networks import FullyConnected
    >>> network = FullyConnected(input_dim=3, width=64, depth=1)
    >>> found = fit_read_out(network, network.init(0), np.eye(3), np.array([1.0, -1.0, 1.0]))
    >>> found.residuals[-1] < 1e-12
    True
    """
    now = {name: np.asarray(weight, np.float64) for name, weight in params.items()}
    if network.paper != "du2019" or "a" not in network.trained_names or now["a"].size // max(1, y[0].size) < len(x):
        return None
    features = network.graph.alpha * np.asarray(network.features(now, x)[-1], np.float64).reshape(len(x), -1)
    weights, targets = now["a"].reshape(-1, features.shape[1]), np.asarray(y, np.float64).reshape(len(x), -1)
    try:
        factors = scipy.linalg.cho_factor(features @ features.T, check_finite=False)
    except scipy.linalg.LinAlgError:
        return None
    start, residuals = weights, [float(np.linalg.norm(features @ weights.T - targets))]
    for _ in range(steps):
        error = features @ weights.T - targets
        there = weights - scipy.linalg.cho_solve(factors, error, check_finite=False).T @ features
        residuals.append(float(np.linalg.norm(features @ there.T - targets)))
        if not residuals[-1] < residuals[-2]:
            residuals.pop()
            break
        weights = there
    moved = float(np.linalg.norm(weights - start))
    return Polished(now | {"a": weights.reshape(now["a"].shape)}, tuple(residuals), moved, "read-out")


@double
def polish(
    network: Network,
    params: Mapping[str, ArrayLike],
    x: Float[np.ndarray, "n ..."],
    y: Float[np.ndarray, "n ..."],
    *,
    steps: int = 60,
) -> Polished:
    """Take Gauss-Newton steps until the residual stops falling; each step is damped until it reduces the residual.

    Parameters
    ----------
    network
        The network.
    params
        The initial weights, by name.
    x
        Inputs, one example in each row.
    y
        Targets, one row for each example.
    steps
        Maximum number of steps.

    Returns
    -------
    Polished
        The weights, with the residual after each step.

    Examples
    --------
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
    best = residual_of(network, now, x, y)
    residuals = [float(np.linalg.norm(best))]
    damping = 0.0
    for _ in range(steps):
        if residuals[-1] == 0 or not np.isfinite(residuals[-1]):
            break
        matrix = gram(network, now, x, on_device=accelerated()).matrix
        found = None
        for tried in _dampings(damping, float(matrix.trace()) / len(matrix)):
            weights = solve(matrix, best.ravel(), tried)
            if weights is None:
                continue
            direction = pull(network, now, x, weights.reshape(best.shape))
            there = now | {name: now[name] - direction[name] for name in trained}
            error = residual_of(network, there, x, y)
            if np.linalg.norm(error) < residuals[-1]:
                found, damping = (there, error), tried
                break
        if found is None:
            break
        now, best = found
        fell = float(np.linalg.norm(best)) / residuals[-1]
        residuals.append(float(np.linalg.norm(best)))
        damping = damping / 10 if fell < 0.75 else damping
        fits = residuals[-1] < 1e-11 * (1 + float(np.linalg.norm(y)))
        if fits and (fell > 0.5 or best.size > DENSE):  # of many rows a step more takes long
            break
    return Polished(now, tuple(residuals), distance(trained, now, start))


class Regularized(NamedTuple):
    """The loss with weight decay, its gradient by the trained weights, and the gradient's norm."""

    loss: float
    gradient: dict[str, np.ndarray]
    size: float


@double
def regularized(
    network: Network,
    params: Mapping[str, np.ndarray],
    x: Float[np.ndarray, "n ..."],
    y: Float[np.ndarray, "n ..."],
    decay: float,
    centre: Mapping[str, np.ndarray],
) -> Regularized:
    r"""Return $\tfrac12 \|r\|^2 + \tfrac{\lambda}{2} \|\theta - \theta_c\|^2$ and its gradient."""
    error = residual_of(network, params, x, y)
    gaps = {name: params[name] - weight for name, weight in centre.items()}
    back = pull(network, params, x, error)
    gradient = {name: back[name] + decay * gap for name, gap in gaps.items()}
    loss = float(np.square(error).sum()) / 2 + decay * length(gaps) ** 2 / 2
    return Regularized(loss, gradient, length(gradient))


@double
def polish_ridge(
    network: Network,
    params: Mapping[str, ArrayLike],
    x: Float[np.ndarray, "n ..."],
    y: Float[np.ndarray, "n ..."],
    *,
    decay: float,
    centre: Mapping[str, ArrayLike] | None = None,
    steps: int = 100,
) -> Polished:
    r"""Take Gauss-Newton steps on the loss with weight decay until its gradient is zero up to rounding.

    The loss is $\tfrac12 \|r\|^2 + \tfrac{\lambda}{2} \|\theta - \theta_c\|^2$. With the gradient g, a step is
    $(J^\top J + \alpha I)^{-1} g = (g - J^\top (G + \alpha I)^{-1} J g) / \alpha$, where $\alpha = \lambda$, or larger
    while that does not help.

    Parameters
    ----------
    network
        The network.
    params
        The initial weights, by name.
    x
        Inputs, one example in each row.
    y
        Targets, one row for each example.
    decay
        Weight decay $\lambda$.
    centre
        $\theta_c$, by name; zero by default.
    steps
        Maximum number of steps.

    Returns
    -------
    Polished
        The weights, with the norm of the gradient after each step.

    Examples
    --------
    >>> from wideproof.networks import FullyConnected
    >>> network = FullyConnected(input_dim=3, width=64, depth=1)
    >>> found = polish_ridge(network, network.init(0), np.eye(3), np.array([1.0, -1.0, 1.0]), decay=0.5)
    >>> found.residuals[-1] < 1e-10
    True
    """
    now = {name: np.asarray(weight, np.float64) for name, weight in params.items()}
    start, trained, x = now, network.trained_names, np.asarray(x, np.float64)
    middle = {name: np.zeros_like(now[name]) if centre is None else np.asarray(centre[name]) for name in trained}
    loss, gradient, size = regularized(network, now, x, y, decay, middle)
    sizes, factor, stalled = [size], 1.0, 0
    for _ in range(steps):
        if size == 0 or not math.isfinite(size) or stalled > 2:
            break
        matrix = np.asarray(gram(network, now, x).matrix)
        pushed = _push(network, now, x, gradient)
        for alpha in (decay * factor * 4.0**k for k in range(-1 if factor > 1 else 0, 16)):
            solved = solve(matrix, pushed.ravel(), alpha)
            if solved is None:
                continue
            back = pull(network, now, x, solved.reshape(pushed.shape))
            there = now | {name: now[name] - (gradient[name] - back[name]) / alpha for name in trained}
            then = regularized(network, there, x, y, decay, middle)
            if then.loss < loss or (then.size < size and then.loss <= loss * (1 + 1e-12)):
                break
        else:
            break
        stalled = stalled + 1 if then.size > 0.9 * size and loss - then.loss <= 1e-12 * loss else 0
        factor, now, (loss, gradient, size) = alpha / decay, there, then
        sizes.append(size)
    return Polished(now, tuple(sizes), distance(trained, now, start), "ridge")


def _push(
    network: Network,
    params: Mapping[str, np.ndarray],
    x: Float[np.ndarray, "n ..."],
    direction: Mapping[str, np.ndarray],
) -> Float[np.ndarray, "n ..."]:
    """Return the Jacobian's product with a direction of the trained arrays."""
    given = {name: jnp.asarray(weight) for name, weight in params.items()}

    def outputs(moved: dict[str, jax.Array]) -> jax.Array:
        return network.scored(network.forward(network.linear(given | moved), jnp.asarray(x)).outputs)

    at = {name: given[name] for name in direction}
    return np.asarray(jax.jvp(outputs, (at,), ({name: jnp.asarray(u) for name, u in direction.items()},))[1])


@double
def residual_of(
    network: Network, params: Mapping[str, np.ndarray], x: Float[np.ndarray, "n ..."], y: Float[np.ndarray, "n ..."]
) -> Float[np.ndarray, "n ..."]:
    """Return the outputs minus the targets, for the outputs that enter the loss.

    Parameters
    ----------
    network
        The network.
    params
        Weights by name.
    x
        Inputs, one example in each row.
    y
        Targets, one row for each example.

    Returns
    -------
    array
        The differences.
    """
    return network.scored(np.asarray(network(params, x))) - network.scored(np.asarray(y, np.float64))


def _dampings(last: float, typical: float) -> list[float]:
    """Dampings to try: none, or from the last one that worked upwards."""
    smallest = 1e-6 * typical
    if last < smallest:
        return [0.0, *(smallest * 10.0**k for k in range(9))]
    return [last * 10.0**k for k in range(-1, 8)]


def solve(matrix: Any, r: Float[np.ndarray, "N"], damping: float) -> Float[np.ndarray, "N"] | None:
    """Solve a positive definite system, damped, where the matrix is; `None` where it is not."""
    if len(matrix) > DENSE or not isinstance(matrix, np.ndarray):
        solver = Place(matrix).solver(-damping)
        return None if solver is None else solver(r)
    try:
        with warnings.catch_warnings():  # a bad step is damped until it helps, or not taken
            warnings.simplefilter("ignore", scipy.linalg.LinAlgWarning)
            return scipy.linalg.solve(matrix + damping * np.eye(len(matrix)), r, assume_a="pos")
    except (scipy.linalg.LinAlgError, ValueError):
        return None


@double
def pull(
    network: Network,
    params: Mapping[str, np.ndarray],
    x: Float[np.ndarray, "n ..."],
    weights: Float[np.ndarray, "n ..."],
) -> dict[str, np.ndarray]:
    """Return the product of the transposed Jacobian with `weights`.

    Parameters
    ----------
    network
        The network.
    params
        Weights by name.
    x
        Inputs, one example in each row.
    weights
        One number for each scored output.

    Returns
    -------
    dict[str, array]
        One array for each trained weight.
    """
    return {name: np.asarray(g) for name, g in _pulled(network, dict(params), x, weights).items()}


@partial(jax.jit, static_argnums=0)  # one program; operation by operation it took thirty
def _pulled(network: Network, params: dict[str, jax.Array], x: jax.Array, weights: jax.Array) -> dict[str, jax.Array]:
    line = linearize(network, params, x)
    _, back = jax.vjp(network.scored, line.outputs)
    (cotangent,) = back(weights)
    return gradient(network, params, line, cotangent)
