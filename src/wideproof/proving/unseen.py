r"""What the very network would say about rows it has not seen: every fold of the rows, predicted from the others.

For each fold the preparation is fitted to the other rows alone. The network is the one that is trained, at its own
initial weights $\theta_0$, output of the start included; gradient descent on its linearization there ends at

$$ f(x) = f_0(x) + k(x, X)\, k(X, X)^{-1} (y - f_0(X)), \qquad k(x, x') = J(x) J(x')^\top \text{ at } \theta_0 . $$

With very many rows of the Jacobian $k$ is that of infinite width, and the start's output is still the network's own.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import scipy.linalg

from wideproof.data import AnyDataset, Dataset, apply, distinct, prepare, restore_targets
from wideproof.errors import InputError
from wideproof.kernels import gram, limit_gram
from wideproof.networks import Network
from wideproof.proving.estimates import Estimate, score
from wideproof.threads import one_blas_thread

FOLDS = 5
MOST_ROWS = 2000  # of the Jacobian, and of examples; beyond, the limit's matrix, and a part of the rows


def by_folds(data: AnyDataset, steps: str, network: Network, seed: int = 0) -> Estimate | None:
    """Predict every fold of the rows from the others; equal rows are in one fold. `None` where that cannot be done.

    Parameters
    ----------
    data
        Before the preparation.
    steps
        The preparation, which is fitted for every fold anew.
    network, seed
        The network that is trained, and the seed of its initial weights.

    Examples
    --------
    >>> from wideproof.data import load
    >>> from wideproof.networks import FullyConnected
    >>> found = by_folds(load("iris"), "standardize,sphere(4)", FullyConnected(5, 256, 1, outputs=3))
    >>> found.rows, found.how, found.value > found.guess
    (150, 'folds', True)
    """
    groups = distinct(data)
    if not isinstance(data, Dataset) or network.data_kind != "vectors" or groups.n < 2 * FOLDS:
        return None
    order = np.random.default_rng(seed).permutation(groups.n)[:MOST_ROWS]
    outputs = np.zeros((groups.n, max(1, math.prod(data.target_shape))))
    whole = outputs.size <= MOST_ROWS
    try:
        with one_blas_thread():
            for part in np.array_split(order, FOLDS):
                known = data.take(np.isin(groups.place, np.setdiff1d(order, part)))
                outputs[part] = _predicted(known, groups.x[part], steps, network, seed, whole)
    except (InputError, scipy.linalg.LinAlgError):  # a preparation that does not fit fewer rows, a singular matrix
        return None
    rows = np.flatnonzero(np.isin(groups.place, order))
    return score(data.take(rows), outputs[groups.place[rows]], "folds" if whole else "folds at infinite width")


def _predicted(
    known: Dataset, new: np.ndarray, steps: str, network: Network, seed: int, whole: bool = True
) -> np.ndarray:
    """Return the outputs for `new` inputs, in the units of the targets, from the rows `known`."""
    ready = prepare(known, steps) if steps else known
    own, groups = ready.preparation[len(known.preparation) :], distinct(ready)
    x, y, count = np.concatenate([groups.x, apply(own, new)]), groups.y.reshape(groups.n, -1), groups.n
    fits = x.shape[1:] == network.input_shape
    made = network if fits else dataclasses.replace(network, input_dim=x.shape[1])  # pyright: ignore[reportCallIssue]
    params = made.init(seed)
    first = np.asarray(made(params, x), np.float64).reshape(len(x), -1)
    matrix = np.asarray((gram(made, params, x) if whole else limit_gram(made, x)).matrix, np.float64)
    rows = count * (y.shape[1] if whole else 1)  # of the known part; they are (example, output)
    weights = scipy.linalg.solve(matrix[:rows, :rows], (y - first[:count]).reshape(rows, -1), assume_a="pos")
    return restore_targets(own, first[count:] + (matrix[rows:, :rows] @ weights).reshape(len(new), -1))
