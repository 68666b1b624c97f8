r"""What gradient descent from the start of any network will do, read off its Gram matrix and its certificates.

Of one hidden layer a forecast has a formula (`outlook`). Of the others $\alpha_1$, the least scale of the outputs of 1,
3, 10, 30, … with which Theorem 1 holds at the initial weights in float64, is looked for: every certificate counts what
there is to count, the units of a ReLU network that may not switch included. As the weights of a network with the scale
$\alpha$ move like those of targets $y/\alpha$, the theorem is taken to hold at the scale 1 where the residual has
fallen to $\|y\| / \alpha_1$: that is $s^2 / (2\Lambda)$ of the formula.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import scipy.linalg

from wideproof.certificates import Problem, certify, residual_of
from wideproof.data import AnyDataset, distinct
from wideproof.kernels import gram
from wideproof.networks import Network
from wideproof.planning.outlook import Outlook
from wideproof.planning.scales import LADDER


def measured(network: Network, data: AnyDataset, seed: int = 0) -> Outlook:
    """Look at the Gram matrix of all outputs at the start, and for the least scale with a proof there.

    Parameters
    ----------
    network
        Of the scale 1, with outputs 0 at its start.
    seed
        The seed of its initial weights.

    Examples
    --------
    >>> import wideproof as wp
    >>> data = wp.prepare(wp.load("iris", classes=("setosa", "virginica"), limit=10), "whiten,sphere(4)")
    >>> network = wp.build("residual", data.input_shape, data.target_shape, width=64, depth=2, start="doubled")
    >>> found = measured(network, data)
    >>> round(found.before, 6) in LADDER, found.steps(10.0) >= found.steps(100.0), found.steps(2 * found.before)
    (True, True, 0)
    """
    groups = distinct(data)
    params = {name: np.asarray(weight, np.float64) for name, weight in network.init(seed).items()}
    residuals = residual_of(network, params, groups.x, groups.y).reshape(groups.n, -1)
    roots = np.sqrt(groups.counts).repeat(residuals.shape[1])
    matrix = np.asarray(gram(network, params, groups.x).matrix, np.float64) * np.multiply.outer(roots, roots)
    values, vectors = scipy.linalg.eigh(matrix, check_finite=False, driver="evd")
    parts = np.abs(vectors.T @ (residuals.ravel() * roots))
    least = math.inf
    if values[0] > 1e-14 * values[-1]:
        least = least_scale(network, params, data)
    size = float(np.linalg.norm(parts))
    return Outlook(network, None, np.maximum(values, 0.0), parts, size / least)


def least_scale(network: Network, params: dict[str, np.ndarray], data: AnyDataset) -> float:
    """Return the least scale of 1, 3, 10, 30, … with a proof at these weights; infinity where none is known."""
    found, low, high = math.inf, 0, len(LADDER)
    while low < high:  # the larger the scale, the easier
        middle = (low + high) // 2
        scaled = dataclasses.replace(network, alpha=LADDER[middle])  # pyright: ignore[reportCallIssue]
        if certify(Problem(scaled, data).at(params), level="float64").passed:
            found, high = LADDER[middle], middle
        else:
            low = middle + 1
    return found
