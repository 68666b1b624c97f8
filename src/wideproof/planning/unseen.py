r"""What the network would say about rows it has not seen: every fold of the rows, predicted from the others.

For each fold the preparation is fitted to the other rows alone. The network is the one that is trained, at its own
initial weights $\theta_0$, output of the start included; gradient descent on its linearization there ends at

$$ f(x) = f_0(x) + k(x, X)\, k(X, X)^{-1} (y - f_0(X)), \qquad k(x, x') = J(x) J(x')^\top \text{ at } \theta_0 . $$

With very many rows of the Jacobian $k$ is that of infinite width, and the start's output is still the network's own.
The zero start has one small matrix for all outputs, and it is always its own.

*The choice.* Preparation and activation were chosen as those that predict these rows best. The best of thirty is partly
lucky: coin tosses would be predicted 54 % of the time. So each fold is predicted with what is best on the other rows,
leaving out each of those in turn at infinite width: a fold takes no part in choosing what predicts it.

*How many rows are known.* With a fifth left out, networks of few rows do worse than with all of them, and what is
chosen from few rows is worse. Where it is quick, a fold is cut in two: all is done anew for each tenth.

*Time.* Where a column holds dates the last fifth of the rows is predicted from those before it, as new rows will be.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Sequence

import numpy as np
import scipy.linalg

from wideproof.data import (
    AnyDataset,
    Dataset,
    Distinct,
    apply,
    date_column,
    distinct,
    flattens,
    last_rows,
    prepare,
    restore_targets,
)
from wideproof.errors import InputError
from wideproof.kernels import closed_gram, gram, has_closed_gram, limit_gram
from wideproof.networks import FullyConnected, Network, get_activation
from wideproof.networks.starts import DOUBLED, ZERO
from wideproof.planning.comparing import COMPARED, part
from wideproof.planning.estimates import AFTER_THE_CHOICE, CHOSEN, Estimate, leave_out, score
from wideproof.planning.outlook import first_gram
from wideproof.threads import one_blas_thread

FOLDS, CUTS = 5, 2  # smaller parts have other shares of the classes than the rest, where nothing can be learned
MOST_ROWS = 2000  # of the Jacobian, and of examples; beyond, the limit's matrix, and a part of the rows


def by_folds(
    data: AnyDataset, steps: str, network: Network, seed: int = 0, among: Sequence[tuple[str, str]] = ()
) -> Estimate | None:
    """Predict every fold of the rows from the others; equal rows are in one fold. `None` where that cannot be done.

    Parameters
    ----------
    data
        Before the preparation.
    steps
        The preparation, which is fitted for every fold anew.
    network, seed
        The network that is trained, and the seed of its initial weights.
    among
        The activations and preparations that it was chosen from, if it was: then the choice is made for every fold
        anew.

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
    whole = outputs.size <= MOST_ROWS or _starts_at_zero(network)
    how = "folds" if whole else "folds at infinite width"
    again = len(among) > 1 and _is_quick(network)
    when = date_column(data)
    later = None if when is None else last_rows(when[1][_firsts(groups)][order], 1 / FOLDS)
    parts = folds(groups, data, order) if later is None else [order[later]]
    size = len(order) * (1 if _starts_at_zero(network) else outputs.shape[1])
    cuts = 1 if later is not None else min(max(MOST_ROWS // size, 1), CUTS, min(map(len, parts)))
    try:
        with one_blas_thread(), warnings.catch_warnings():
            warnings.simplefilter("error", scipy.linalg.LinAlgWarning)
            for fold in [part[k::cuts] for part in parts for k in range(cuts)]:
                known = data.take(np.isin(groups.place, np.setdiff1d(order, fold)))
                ways = _best(known, among, network) if again else (steps, network)
                outputs[fold] = _predicted(known, groups.x[fold], *ways, seed, whole)
    except (
        InputError,
        scipy.linalg.LinAlgError,
        scipy.linalg.LinAlgWarning,
    ):  # a preparation that does not fit fewer rows, a singular matrix
        return None
    rows = np.flatnonzero(np.isin(groups.place, np.concatenate(parts)))
    how += CHOSEN if again else AFTER_THE_CHOICE if len(among) > 1 else ""
    found = score(data.take(rows), outputs[groups.place[rows]], how)
    if later is not None and when is not None:
        return dataclasses.replace(found, date=when[0])
    return dataclasses.replace(found, parts=cuts * FOLDS)


def folds(groups: Distinct, data: Dataset, order: np.ndarray) -> list[np.ndarray]:
    """Deal distinct rows out, one class after another: random folds of few rows have other shares of the classes.

    That matters where nothing can be learned: what is rare in a fold is frequent in the rest, so that of coin tosses
    less than half are predicted.

    >>> data = Dataset(np.arange(12.0)[:, None], [1, -1] * 6, "binary")
    >>> parts = folds(distinct(data), data, np.arange(12))
    >>> sorted(np.concatenate(parts).tolist()) == list(range(12)), [len(part) for part in parts]
    (True, [3, 3, 2, 2, 2])
    """
    if data.labels is not None:
        order = order[np.argsort(data.labels[_firsts(groups)][order], kind="stable")]
    return [order[k::FOLDS] for k in range(FOLDS)]


def _firsts(groups: Distinct) -> np.ndarray:
    """Return the first row of every distinct input."""
    return np.unique(groups.place, return_index=True)[1]


def _is_quick(network: Network) -> bool:
    """Return whether the choice can be made for every fold anew: its matrices are in closed form, or plain NumPy."""
    return isinstance(network, FullyConnected) and (has_closed_gram(network) or _is_plain(network))


def _is_plain(network: FullyConnected) -> bool:
    return network.depth == 1 and network.start in (DOUBLED, ZERO)


def _best(known: Dataset, among: Sequence[tuple[str, str]], network: Network) -> tuple[str, Network]:
    """Return the preparation, and the network with the activation, that predict known rows best, each left out."""
    assert isinstance(network, FullyConnected)
    tried: list[tuple[float, str, Network]] = []
    ready: dict[str, Dataset] = {}
    for activation, steps in among:
        try:
            own = ready[steps] = ready[steps] if steps in ready else part(prepare(known, steps), COMPARED)
        except InputError:
            continue
        if flattens(own):
            continue
        groups = distinct(own)
        made = dataclasses.replace(network, input_dim=own.x.shape[1], activation=get_activation(activation))
        matrix = closed_gram(made, groups.x).total if has_closed_gram(made) else first_gram(made, groups.x)
        left = leave_out(matrix, groups)
        if left is not None:
            value = score(own, left.outputs[groups.place].reshape(own.y.shape)).value
            tried.append((value if math.isfinite(value) else -math.inf, steps, made))
    if not tried:
        raise InputError("no preparation fits these rows: give more rows")
    _, steps, made = max(tried, key=lambda one: one[0])
    return steps, made


def _starts_at_zero(network: Network) -> bool:
    """Return whether the Gram matrix at the start is that of the last features, for every output."""
    return isinstance(network, FullyConnected) and network.start == ZERO and network.depth == 1


def _predicted(
    known: Dataset, new: np.ndarray, steps: str, network: Network, seed: int, whole: bool = True
) -> np.ndarray:
    """Return the outputs for `new` inputs, in the units of the targets, from the rows `known`."""
    ready = prepare(known, steps) if steps else known
    if same := flattens(ready):
        raise InputError(same)
    own, groups = ready.preparation[len(known.preparation) :], distinct(ready)
    x, y, count = np.concatenate([groups.x, apply(own, new)]), groups.y.reshape(groups.n, -1), groups.n
    fits = x.shape[1:] == network.input_shape
    made = network if fits else dataclasses.replace(network, input_dim=x.shape[1])  # pyright: ignore[reportCallIssue]
    params = made.init(seed)
    first = np.asarray(made(params, x), np.float64).reshape(len(x), -1)
    shared = not whole or _starts_at_zero(made)  # one matrix for all outputs
    if isinstance(made, FullyConnected) and _starts_at_zero(made):
        matrix = first_gram(made, x, seed)
    else:
        matrix = np.asarray((gram(made, params, x) if whole else limit_gram(made, x)).matrix, np.float64)
    rows = count * (1 if shared else y.shape[1])  # of the known part; they are (example, output)
    weights = scipy.linalg.solve(matrix[:rows, :rows], (y - first[:count]).reshape(rows, -1), assume_a="pos")
    return restore_targets(own, first[count:] + (matrix[rows:, :rows] @ weights).reshape(len(new), -1))
