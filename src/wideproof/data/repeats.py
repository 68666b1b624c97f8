r"""Rows with equal inputs as one example with a weight, and the least loss that contradicting targets leave.

For groups $g$ of equal inputs with $m_g$ rows each and mean target $\bar y_g$, every function $f$ of the input has

$$ \tfrac12 \sum_i \|f(x_i) - y_i\|^2 = \tfrac12 \sum_g m_g \|f(x_g) - \bar y_g\|^2 + L^*, \qquad
   L^* = \tfrac12 \sum_g \sum_{i \in g} \|y_i - \bar y_g\|^2 . $$

So $L^*$ is the least loss of any function of these inputs, gradient descent on all rows is gradient descent on the
weighted sum over the groups, and its global minimum is $L^*$.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from weakref import WeakKeyDictionary

import numpy as np

from wideproof.data.dataset import AnyDataset


@dataclass(frozen=True, eq=False)
class Distinct:
    """The distinct inputs of a data set, each with its mean target and its multiplicity.

    Attributes
    ----------
    x
        The distinct inputs, in the order of their first rows.
    y
        The mean target of each.
    counts
        The number of rows with each input.
    place
        For every row, the position of its input in `x`.
    least
        The least loss $L^*$ of any function of the inputs, exactly.
    clashing
        For every distinct input, whether its rows have different targets.
    """

    x: np.ndarray
    y: np.ndarray
    counts: np.ndarray
    place: np.ndarray
    least: Fraction
    clashing: np.ndarray

    @property
    def n(self) -> int:
        """The number of distinct inputs."""
        return len(self.x)

    @property
    def repeated(self) -> bool:
        """Whether any input is there twice."""
        return self.n < len(self.place)

    @property
    def least_loss(self) -> tuple[float, float]:
        r"""Floats around $L^*$: one not above it, one not below."""
        near = float(self.least)
        low = near if Fraction(near) <= self.least else math.nextafter(near, -math.inf)
        return low, near if Fraction(near) >= self.least else math.nextafter(near, math.inf)

    @property
    def contradicting(self) -> np.ndarray:
        """The rows that have an equal row with another target."""
        return np.flatnonzero(self.clashing[self.place])


_KNOWN: WeakKeyDictionary[AnyDataset, Distinct] = WeakKeyDictionary()


def distinct(data: AnyDataset) -> Distinct:
    """Group equal inputs (as numbers, so that -0.0 equals 0.0); computed once for each data set.

    Parameters
    ----------
    data
        A data set of any kind.

    Returns
    -------
    Distinct
        The distinct inputs.

    Examples
    --------
    >>> from wideproof.data.dataset import Dataset
    >>> found = distinct(Dataset([[0.0], [1.0], [0.0]], [1, -1, -1], "binary"))
    >>> found.counts.tolist(), found.y.tolist(), float(found.least), found.contradicting.tolist()
    ([2, 1], [0.0, -1.0], 1.0, [0, 2])
    """
    if data not in _KNOWN:
        _KNOWN[data] = _distinct(data.x, data.y)
    return _KNOWN[data]


def equal_rows(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Group equal rows.

    Parameters
    ----------
    x
        An array with the rows along its first axis.

    Returns
    -------
    tuple[array, array]
        The position of the first row of every group, in order, and for every row the number of its group.

    Examples
    --------
    >>> first, place = equal_rows(np.array([[2.0], [0.0], [2.0], [-0.0]]))
    >>> first.tolist(), place.tolist()
    ([0, 1], [0, 1, 0, 1])
    """
    flat = np.ascontiguousarray(x.reshape(len(x), -1) + 0.0)
    if flat.itemsize == 8 and len(np.unique(_keys(flat))) == len(flat):
        return np.arange(len(flat)), np.arange(len(flat))
    whole = flat.view(np.dtype((np.void, flat.itemsize * flat.shape[1]))).ravel()
    _, first, inverse = np.unique(whole, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return first[order], rank[inverse.ravel()]


def _keys(flat: np.ndarray) -> np.ndarray:
    """Return a whole number for every row, the same for equal rows; sorting rows takes four times as long."""
    weights = np.random.default_rng(0).integers(0, 2**64, flat.shape[1], np.uint64)
    return flat.view(np.uint64) @ weights


def _distinct(x: np.ndarray, y: np.ndarray) -> Distinct:
    first, place = equal_rows(x)
    counts = np.bincount(place, minlength=len(first))
    targets = y.reshape(len(y), -1)
    means = targets[first].copy()
    clashing = np.zeros(len(first), bool)
    np.logical_or.at(clashing, place, (targets != means[place]).any(axis=1))
    least = Fraction(0)
    for g in np.flatnonzero(clashing):
        for j, column in enumerate(targets[place == g].T):
            exact = [Fraction(value) for value in column.tolist()]
            mean = sum(exact, Fraction(0)) / len(exact)
            means[g, j] = float(mean)
            least += sum(((value - mean) * (value - mean) for value in exact), Fraction(0)) / 2
    return Distinct(x[first], means.reshape(len(first), *y.shape[1:]), counts, place, least, clashing)
