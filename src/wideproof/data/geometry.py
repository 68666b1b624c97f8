r"""Closest pairs, parallel pairs and repeated rows, in $O(n^2 d)$ time and $O(nd)$ memory.

One sweep over blocks of the Gram matrix bounds every $\|x_i - x_j\|^2 = \|x_i\|^2 + \|x_j\|^2 - 2 x_i^\top
x_j$ from below. The Gram form loses half of the digits, so every pair whose bound is under the least
distance found so far is computed again from the difference $x_i - x_j$ itself: the minimum is exact to a few
units in the last place.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from wideproof.data.repeats import equal_rows
from wideproof.errors import InputError

PARALLEL_TOLERANCE = 1e-8  # directions closer than this count as one
_EPS = float(np.finfo(np.float64).eps)
_CHUNK = 4096


class Pair(NamedTuple):
    """Two examples and the distance between them.

    Attributes
    ----------
    distance
        The distance.
    i
        Position of the first example.
    j
        Position of the second example.
    """

    distance: float
    i: int
    j: int


@dataclass(frozen=True)
class PairGeometry:
    r"""The extreme pairs of a data set.

    Directions are $\hat x = x / \|x\|$; rows that are zero have none. Pairs are parallel or antipodal if their
    directions, or one and the opposite of the other, differ by at most `PARALLEL_TOLERANCE`. All are counted, and the
    first are listed.

    Attributes
    ----------
    nearest
        The pair of the least distance; `None` for one example.
    opposite
        The pair of the least distance with different labels; `None` without labels.
    direction
        The pair of the least $\|\hat x_i - \hat x_j\|$.
    antipode
        The pair of the least $\|\hat x_i + \hat x_j\|$.
    parallel_count
        Number of parallel pairs.
    parallel
        The first of them.
    antipodal_count
        Number of antipodal pairs.
    antipodal
        The first of them.
    """

    nearest: Pair | None
    opposite: Pair | None
    direction: Pair | None
    antipode: Pair | None
    parallel_count: int
    parallel: tuple[tuple[int, int], ...]
    antipodal_count: int
    antipodal: tuple[tuple[int, int], ...]


def groups_of_equal_rows(x: np.ndarray) -> list[np.ndarray]:
    """Return the positions of every distinct row, in order of first appearance.

    Parameters
    ----------
    x
        An array with the rows along its first axis.

    Returns
    -------
    list[array]
        One array of positions for each distinct row.

    Examples
    --------
    >>> [group.tolist() for group in groups_of_equal_rows(np.array([[1.0], [2.0], [1.0]]))]
    [[0, 2], [1]]
    """
    place = equal_rows(np.asarray(x, np.float64))[1]
    order = np.argsort(place, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(place[order])) + 1)


def pairs(x: Any, labels: Any = None, *, block: int = 1024, listed: int = 20) -> PairGeometry:
    """Find the extreme pairs of some rows.

    Parameters
    ----------
    x
        Vectors, one in each row.
    labels
        Integers: pairs with different labels are opposite. By default there are no opposite pairs.
    block
        Number of rows in a block of distances.
    listed
        Maximum number of pairs to list.

    Returns
    -------
    PairGeometry
        The pairs.

    Examples
    --------
    >>> found = pairs(np.array([[1.0, 0.0], [0.6, 0.8], [-2.0, 0.0]]), [0, 1, 1])
    >>> found.nearest.i, found.nearest.j, found.antipodal
    (0, 1, ((0, 2),))
    """
    x = np.asarray(x, dtype=np.float64)
    if x.ndim != 2 or not np.isfinite(x).all():
        raise InputError(f"pairs need rows of finite numbers, got an array of shape {x.shape}: remove NaN first")
    labels = None if labels is None else np.asarray(labels)
    groups = groups_of_equal_rows(x)
    first = np.array([group[0] for group in groups])
    sizes = np.array([len(group) for group in groups])
    repeated = [group for group in groups if len(group) > 1]
    nearest = opposite = direction = None
    if repeated:
        nearest = Pair(0.0, int(repeated[0][0]), int(repeated[0][1]))
    if labels is not None:
        opposite = _equal_but_opposite(repeated, labels)
    moving = [group for group in repeated if x[group[0]].any()]
    parallel = _Listing(listed)
    for group in moving:
        parallel.add_group(group)
        direction = direction or Pair(0.0, int(group[0]), int(group[1]))
    sweep = _Sweep(x[first], None if labels is None else labels[first], block)
    nearest = nearest or sweep.nearest(first)
    if labels is not None and opposite is None:
        opposite = sweep.nearest(first, opposite=True)
    antipodal = _Listing(listed)
    along, against = sweep.directions(first, sizes, parallel, antipodal, groups)
    return PairGeometry(
        nearest, opposite, direction or along, against,
        parallel.count, parallel.pairs, antipodal.count, antipodal.pairs,
    )  # fmt: skip


def _equal_but_opposite(repeated: list[np.ndarray], labels: np.ndarray) -> Pair | None:
    for group in repeated:
        other = group[labels[group] != labels[group[0]]]
        if len(other):
            return Pair(0.0, int(group[0]), int(other[0]))
    return None


class _Listing:
    """Counts pairs and keeps the first of them."""

    def __init__(self, most: int) -> None:
        self.most, self.count = most, 0
        self._pairs: list[tuple[int, int]] = []

    def add_group(self, group: np.ndarray) -> None:
        self.count += len(group) * (len(group) - 1) // 2
        for a, i in enumerate(group):
            for j in group[a + 1 :]:
                if len(self._pairs) >= self.most:
                    return
                self._pairs.append((int(i), int(j)))

    def add_products(self, left: np.ndarray, right: np.ndarray, sizes: np.ndarray, groups: list[np.ndarray]) -> None:
        self.count += int((sizes[left] * sizes[right]).sum())
        for a, b in zip(left, right, strict=True):
            for i in groups[a]:
                for j in groups[b]:
                    if len(self._pairs) >= self.most:
                        return
                    self._pairs.append((int(min(i, j)), int(max(i, j))))

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        return tuple(sorted(self._pairs))


class _Sweep:
    """Blocks of the upper triangle of the Gram matrix of distinct rows."""

    def __init__(self, x: np.ndarray, labels: np.ndarray | None, block: int) -> None:
        self.x, self.labels, self.block = x, labels, block

    def _blocks(self, n: int):
        for top in range(0, n, self.block):
            for left in range(top, n, self.block):
                yield slice(top, min(top + self.block, n)), slice(left, min(left + self.block, n))

    def nearest(self, names: np.ndarray, *, opposite: bool = False) -> Pair | None:
        """Return the closest pair of rows, over those with different labels if `opposite`."""
        size = float(np.abs(self.x).max())
        scale = 2.0 ** -np.frexp(size)[1] if size > 0 else 1.0  # exact, and no square overflows
        x = self.x * scale
        centred = x - x.mean(axis=0)  # each entry is rounded once, relative to itself
        squares = np.square(centred).sum(axis=1)
        loss = 4 * (self.x.shape[1] + 8) * _EPS
        best: Pair | None = None
        for rows, columns in self._blocks(len(self.x)):
            bound = centred[rows] @ centred[columns].T
            bound *= -2
            bound += ((1 - loss) * squares[rows])[:, None]
            bound += (1 - loss) * squares[columns]
            if rows == columns:
                bound[np.tril_indices(len(bound))] = np.inf
            if best is not None and bound.min() >= best.distance**2:
                continue
            if opposite and self.labels is not None:
                bound[self.labels[rows][:, None] == self.labels[columns]] = np.inf
            best = self._refine(bound, rows.start, columns.start, best, _difference, x)
        return None if best is None else _named(best._replace(distance=best.distance / scale), names)

    def _refine(self, bound, top: int, left: int, best: Pair | None, measure, x: np.ndarray) -> Pair | None:
        """Compute from differences every pair whose bound is under the best, the most promising first."""
        lowest = int(bound.argmin())
        if bound.flat[lowest] == np.inf:
            return best
        i, j = divmod(lowest, bound.shape[1])
        distance = float(measure(x[[top + i]], x[[left + j]])[0])
        if best is None or distance < best.distance:
            best = Pair(distance, top + i, left + j)
        i, j = np.nonzero(bound < best.distance**2)
        order = np.argsort(bound[i, j], kind="stable")
        i, j = i[order], j[order]
        for start in range(0, len(i), _CHUNK):
            a, b = i[start : start + _CHUNK], j[start : start + _CHUNK]
            if bound[a[0], b[0]] >= best.distance**2:
                break
            found = measure(x[top + a], x[left + b])
            k = int(found.argmin())
            if found[k] < best.distance:
                best = Pair(float(found[k]), top + int(a[k]), left + int(b[k]))
        return best

    def directions(
        self,
        names: np.ndarray,
        sizes: np.ndarray,
        parallel: _Listing,
        antipodal: _Listing,
        groups: list[np.ndarray],
    ) -> tuple[Pair | None, Pair | None]:
        """Return the pairs nearest to parallel and to antipodal, and list those within the tolerance."""
        largest = np.abs(self.x).max(axis=1)
        moving = np.flatnonzero(largest > 0)
        x = np.ldexp(self.x[moving], -np.frexp(largest[moving])[1][:, None])  # exact: no digit is lost
        hat = x / np.linalg.norm(x, axis=1, keepdims=True)
        sides = ((1.0, _between_directions, parallel), (-1.0, _between_antipodes, antipodal))
        loss = 8 * (x.shape[1] + 8) * _EPS
        best: list[Pair | None] = [None, None]
        for rows, columns in self._blocks(len(x)):
            cosine = hat[rows] @ hat[columns].T
            if rows == columns:
                cosine[np.tril_indices(len(cosine))] = np.nan
            extremes = (np.fmax.reduce(cosine, axis=None), np.fmin.reduce(cosine, axis=None))
            for side, (sign, measure, listing) in enumerate(sides):
                least = 2 - 2 * sign * extremes[side] - loss
                if np.isnan(least):
                    continue
                now = best[side]
                if least <= PARALLEL_TOLERANCE**2:
                    i, j = np.nonzero(sign * cosine >= 1 - (PARALLEL_TOLERANCE**2 + loss) / 2)
                    for start in range(0, len(i), _CHUNK):
                        a, b = (
                            rows.start + i[start : start + _CHUNK],
                            columns.start + j[start : start + _CHUNK],
                        )
                        close = measure(x[a], x[b]) <= PARALLEL_TOLERANCE
                        listing.add_products(moving[a[close]], moving[b[close]], sizes, groups)
                if now is None or least < now.distance**2:
                    bound = np.where(np.isnan(cosine), np.inf, 2 - 2 * sign * cosine - loss)
                    best[side] = self._refine(bound, rows.start, columns.start, now, measure, x)
        along, against = (None if pair is None else _named(pair, names[moving]) for pair in best)
        return along, against


def _named(pair: Pair, names: np.ndarray) -> Pair:
    i, j = sorted((int(names[pair.i]), int(names[pair.j])))
    return Pair(pair.distance, i, j)


def _difference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    gap = a - b
    largest = np.abs(gap).max(axis=1)
    return largest * np.sqrt(np.square(gap / np.where(largest > 0, largest, 1.0)[:, None]).sum(axis=1))


def _between_directions(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    r"""$\|a/r - b/s\| = \|a - b + b (s - r)/s\| / r$ with $s - r = (b - a)^\top (b + a) / (r + s)$."""
    r, s = np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1)
    gap = a - b
    longer = -(gap * (a + b)).sum(axis=1) / (r + s)
    return np.linalg.norm(gap + b * (longer / s)[:, None], axis=1) / r


def _between_antipodes(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _between_directions(a, -b)


def nearest_opposite_each(x: np.ndarray, positive: np.ndarray, *, block: int = 1024) -> np.ndarray:
    """Return for every row its distance to the other class, in Gram accuracy: for ranking, not for reporting.

    >>> nearest_opposite_each(np.array([[0.0], [1.0], [3.0]]), np.array([True, False, False])).tolist()
    [1.0, 1.0, 3.0]
    """
    x = np.asarray(x, dtype=np.float64)
    result = np.full(len(x), np.inf)
    sides = np.flatnonzero(positive), np.flatnonzero(~positive)
    squares = np.square(x).sum(axis=1)
    for start in range(0, len(sides[0]), block):
        a = sides[0][start : start + block]
        for other in range(0, len(sides[1]), block):
            b = sides[1][other : other + block]
            square = squares[a][:, None] + squares[b] - 2 * (x[a] @ x[b].T)
            result[a] = np.minimum(result[a], square.min(axis=1))
            result[b] = np.minimum(result[b], square.min(axis=0))
    return np.sqrt(np.maximum(result, 0.0))
