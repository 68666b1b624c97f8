r"""What no network can fit: equal inputs with different targets, and the loss they leave behind.

A function of the input gives one output on a group of equal inputs, so the half-sum square loss is at least
$\sum_{\text{groups}} \tfrac12 \sum_{i} \|y_i - \bar y\|^2$. A recurrent network's output at step $\ell$
depends on the first $\ell$ tokens only, so for sequences the groups are those of equal prefixes, one set of
groups a step $\ell = 2..L$.
"""

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from wideproof.cards import Told
from wideproof.data.dataset import AnyDataset, SequenceDataset
from wideproof.data.geometry import groups_of_equal_rows

LISTED = 20


@dataclass(frozen=True)
class Conflicts(Told):
    """Repeated inputs and contradictions among them, with the least losses that they allow.

    For sequences, a contradicting pair is the first sequence with a shared prefix and one that differs from it in the
    target at a step of that prefix.

    Attributes
    ----------
    duplicate_groups
        Number of inputs that occur more than once.
    duplicate_pairs
        Number of pairs of equal inputs.
    duplicates
        The first of these pairs.
    pairs
        Number of contradicting pairs: equal inputs with different targets.
    first
        The first of these pairs.
    least_square
        The least squared loss of any function of the inputs.
    least_error
        The least training error of any function; `None` for regression.
    least_logistic
        The least logistic loss of any function; `None` for regression.
    """

    duplicate_groups: int
    duplicate_pairs: int
    duplicates: tuple[tuple[int, int], ...]
    pairs: int
    first: tuple[tuple[int, int], ...]
    least_square: float
    least_error: float | None
    least_logistic: float | None

    def __str__(self) -> str:
        first = f" (first: {self.first[0][0]} and {self.first[0][1]})" if self.first else ""
        parts = [f"{self.pairs} pairs of equal inputs have different targets{first}"]
        parts.append(f"least half-sum squared loss {self.least_square:.6g}")
        if self.least_error is not None:
            parts.append(f"least training error {self.least_error:.4g}")
        if self.least_logistic is not None:
            parts.append(f"least mean logistic loss {self.least_logistic:.6g}")
        return "; ".join(parts)


def conflicts(data: AnyDataset) -> Conflicts:
    """Find repeated inputs, contradictions, and the least possible losses; computed once for each data set.

    Parameters
    ----------
    data
        A data set of any kind.

    Returns
    -------
    Conflicts
        The numbers, and the first pairs.

    Examples
    --------
    >>> from wideproof.data.dataset import Dataset
    >>> found = conflicts(Dataset([[1.0], [1.0], [2.0]], [1, -1, 1], "binary"))
    >>> found.first, found.least_square
    (((0, 1),), 1.0)
    """
    if data not in _KNOWN:
        _KNOWN[data] = _conflicts(data)
    return _KNOWN[data]


_KNOWN: WeakKeyDictionary[AnyDataset, Conflicts] = WeakKeyDictionary()


def _conflicts(data: AnyDataset) -> Conflicts:
    groups = [group for group in groups_of_equal_rows(data.x) if len(group) > 1]
    y = data.y.reshape(data.n, -1)
    if isinstance(data, SequenceDataset):
        square, clashing = _prefixes(data)
    else:
        square = sum(half_square(y[group]) for group in groups)
        clashing = [group for group in groups if (y[group] != y[group[0]]).any()]
    contradicting, listed = _contradicting_pairs(clashing, y, data)
    labels = data.labels
    error = logistic = None
    if labels is not None:
        minority = sum(len(group) - np.bincount(labels[group]).max() for group in groups)
        error = float(minority / data.n)
        signs = data.y[:, -1] if isinstance(data, SequenceDataset) else y
        logistic = float(sum(_logistic(signs[group]) for group in groups) / data.n)
    return Conflicts(
        duplicate_groups=len(groups),
        duplicate_pairs=sum(len(group) * (len(group) - 1) // 2 for group in groups),
        duplicates=_list(groups),
        pairs=contradicting,
        first=listed,
        least_square=float(square),
        least_error=error,
        least_logistic=logistic,
    )


def half_square(y: np.ndarray) -> float:
    """Return half the sum of squares around the mean; exactly 0 if all rows are equal.

    Parameters
    ----------
    y
        Targets, one for each row.

    Returns
    -------
    float
        The half sum.
    """
    return 0.0 if (y == y[0]).all() else float(0.5 * np.square(y - y.mean(axis=0)).sum())


def _logistic(signs: np.ndarray) -> float:
    """The least sum of `log(1 + exp(-y f))`: number of labels times their entropy, in each column."""
    share = (signs > 0).mean(axis=0)
    mixed = share[(share > 0) & (share < 1)]
    return float(-len(signs) * (mixed * np.log(mixed) + (1 - mixed) * np.log1p(-mixed)).sum())


def _list(groups: list[np.ndarray]) -> tuple[tuple[int, int], ...]:
    listed: list[tuple[int, int]] = []
    for group in groups:
        listed += [(int(group[0]), int(other)) for other in group[1 : 1 + LISTED]]
        if len(listed) >= LISTED:
            break
    return tuple(listed[:LISTED])


def _contradicting_pairs(
    clashing: list[np.ndarray], y: np.ndarray, data: AnyDataset
) -> tuple[int, tuple[tuple[int, int], ...]]:
    """Count pairs in a group with different targets: all pairs less those with equal targets."""
    if isinstance(data, SequenceDataset):
        found = {pair for group in clashing for pair in [(int(group[0]), int(group[1]))]}
        return len(found), tuple(sorted(found))[:LISTED]
    count, listed = 0, []
    for group in clashing:
        same = groups_of_equal_rows(y[group])
        count += (len(group) ** 2 - sum(len(part) ** 2 for part in same)) // 2
        listed += [(int(group[part[0]]), int(group[same[0][0]])) for part in same[1:]]
    return count, tuple(tuple(sorted(pair)) for pair in listed[:LISTED])


def _prefixes(data: SequenceDataset) -> tuple[float, list[np.ndarray]]:
    """Return the least loss of the steps 2..L and, for each clash, two sequences that show it."""
    square, clashing = 0.0, []
    alive = [group for group in groups_of_equal_rows(data.x[:, 0]) if len(group) > 1]
    for step in range(1, data.x.shape[1]):
        split = []
        for group in alive:
            parts = groups_of_equal_rows(data.x[group, step])
            split += [group[part] for part in parts if len(part) > 1]
        alive = split
        for group in alive:
            here = data.y[group, step]
            square += half_square(here)
            other = np.flatnonzero((here != here[0]).any(axis=1))
            clashing += [np.array([group[0], group[k]]) for k in other]
    return square, clashing
