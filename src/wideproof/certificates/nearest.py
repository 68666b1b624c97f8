r"""The fit that is nearest to given weights: where Theorem 4 puts its anchor.

Everything is plain NumPy, so that a search over widths compiles nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float

from wideproof.certificates.anchor import gram
from wideproof.certificates.jacobians import pull, push
from wideproof.certificates.lengths import distance
from wideproof.certificates.passes import Pass, run
from wideproof.certificates.polishing import solve
from wideproof.networks import Network


class Nearest(NamedTuple):
    r"""A fit next to a start, $\theta_0 - z = J(z)^\top w$ to rounding; `normal` is w, a number per scored output."""

    params: dict[str, np.ndarray]
    normal: Float[np.ndarray, "n ..."]
    residual: float


def nearest(
    network: Network,
    params: Mapping[str, ArrayLike],
    x: Float[np.ndarray, "n ..."],
    y: Float[np.ndarray, "n ..."],
    *,
    start: Mapping[str, ArrayLike] | None = None,
    steps: int = 30,
) -> Nearest | None:
    r"""Find the fit that is nearest to `params`, by $z \leftarrow \theta_0 - J^+ (J (\theta_0 - z) + r)$ at $z$.

    At the limit, $r = 0$ and $\theta_0 - z$ is normal to the set of fits.

    Parameters
    ----------
    network
        The network.
    params
        $\theta_0$, by name.
    x
        Inputs, one example in each row.
    y
        Targets, one row for each example.
    start
        The first iterate $z$; by default `params`.
    steps
        Maximum number of iterations.

    Returns
    -------
    Nearest | None
        The fit, or `None` if the iteration does not converge.

    Examples
    --------
    >>> from wideproof.networks import FullyConnected
    >>> network = FullyConnected(input_dim=3, width=64, depth=1)
    >>> found = nearest(network, network.init(0), np.eye(3), np.array([1.0, -1.0, 1.0]))
    >>> found is not None and found.residual < 1e-12
    True
    """
    first = {name: np.asarray(weight, np.float64) for name, weight in params.items()}
    now = {name: np.asarray(weight, np.float64) for name, weight in (start or params).items()}
    targets, trained = network.scored(np.asarray(y, np.float64)), network.trained_names
    best, settled = None, math.inf
    for _ in range(steps + 1):
        passed = _passed(network, now, x)
        error = passed.outputs.mid - targets.reshape(passed.outputs.mid.shape)
        change = push(passed, {name: first[name] - now[name] for name in trained})
        normal = solve(gram(passed, tuple(passed.graph.trained)).mid, (change + error).ravel(), 0.0)
        if normal is None or not np.isfinite(normal).all():
            return None
        best = Nearest(now, normal.reshape(targets.shape), float(np.linalg.norm(error)))
        back = pull(passed, normal.reshape(error.shape))
        there = now | {name: first[name] - back[name].reshape(first[name].shape) for name in trained}
        moved = distance(trained, there, now)
        if steps == 1 or (moved >= settled / 2 and settled < 1e-9):
            return best
        settled, now = moved, there
    return best if settled < 1e-9 else None


def pulled(
    network: Network,
    params: Mapping[str, np.ndarray],
    x: Float[np.ndarray, "n ..."],
    weights: Float[np.ndarray, "n ..."],
) -> dict[str, np.ndarray]:
    """Return the transposed Jacobian's product with `weights`, one number per scored output."""
    passed = _passed(network, params, x)
    back = pull(passed, weights.reshape(passed.outputs.mid.shape))
    return {name: change.reshape(np.shape(params[name])) for name, change in back.items()}


def _passed(network: Network, params: Mapping[str, np.ndarray], x: Float[np.ndarray, "n ..."]) -> Pass:
    return run(network.graph.unrolled, params, np.asarray(x, np.float64), tracked=False)
