r"""Which examples make a Gram matrix (nearly) singular: from the inputs, or from the matrix alone."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jax.typing import ArrayLike

from wideproof.data import pairs
from wideproof.errors import InputError

LISTED = 20  # pairs of one kind that are listed at most


class Culprit(NamedTuple):
    r"""Two examples that make a Gram matrix (nearly) singular.

    `what` is `"equal"`, `"parallel"` or `"antipodal"` inputs (within the tolerance of the data audit), `"nearest to
    parallel"` or `"nearest to antipodal"`, with the distance $\|\hat x_i \mp \hat x_j\|$ of the directions; without
    inputs `"alike"` or `"opposite"`, with the distance $\|\phi_i \mp \phi_j\|$ of the gradients, from the matrix.
    An input of zeros is `"zero"`, with $i = j$.
    """

    i: int
    j: int
    what: str
    distance: float

    def __str__(self) -> str:
        if self.what == "zero":
            return f"example {self.i} is zero"
        return f"examples {self.i} and {self.j} are {self.what} (distance {short(self.distance, 2)})"


def as_points(points: ArrayLike, rows: int) -> np.ndarray:
    """Return the inputs of a matrix with so many rows, one vector each, or say what is wrong with them."""
    x = np.asarray(points, dtype=np.float64)
    if x.ndim == 0 or not len(x) or rows % len(x):
        raise InputError(
            f"points are the inputs of the matrix's {rows} rows, one each or one for several outputs, "
            f"got shape {x.shape}: give the x that the Gram matrix was computed from"
        )
    return x.reshape(len(x), -1)


def from_points(x: np.ndarray) -> tuple[Culprit, ...]:
    """Return equal, parallel and antipodal inputs, and the pairs nearest to that."""
    found = pairs(x, listed=LISTED)
    listed = [Culprit(i, j, "parallel", _apart(x, i, j, 1)) for i, j in found.parallel]
    listed += [Culprit(i, j, "antipodal", _apart(x, i, j, -1)) for i, j in found.antipodal]
    listed = [c._replace(what="equal") if np.array_equal(x[c.i], x[c.j]) else c for c in listed]
    listed += [Culprit(int(i), int(i), "zero", 0.0) for i in np.flatnonzero(~x.any(axis=1))[:LISTED]]
    if not listed:
        nearest = (("nearest to parallel", found.direction), ("nearest to antipodal", found.antipode))
        listed = [Culprit(pair.i, pair.j, what, pair.distance) for what, pair in nearest if pair is not None]
    return tuple(sorted(listed, key=lambda c: (c.distance, c.what != "equal", c.i, c.j)))


def _apart(x: np.ndarray, i: int, j: int, sign: int) -> float:
    if np.array_equal(x[i], sign * x[j]):
        return 0.0
    return float(np.linalg.norm(x[i] / np.linalg.norm(x[i]) - sign * x[j] / np.linalg.norm(x[j])))


def from_matrix(a: np.ndarray, bottom: np.ndarray) -> tuple[Culprit, ...]:
    """Return the two most parallel gradients among the rows that weigh most in the bottom eigenvector."""
    rows = np.sort(np.argsort(-np.abs(bottom), kind="stable")[:LISTED])
    part = a[np.ix_(rows, rows)].astype(np.float64)
    diagonal = np.diagonal(part)
    root = np.sqrt(np.maximum(diagonal, 0))
    scale = np.outer(root, root)
    cosine = np.abs(np.divide(part, scale, out=np.ones_like(part), where=scale > 0))
    cosine[np.tril_indices(len(part))] = -1
    i, j = (int(k) for k in np.unravel_index(int(cosine.argmax()), cosine.shape))
    square = diagonal[i] + diagonal[j] - 2 * abs(part[i, j])
    what = "alike" if part[i, j] >= 0 else "opposite"
    return (Culprit(int(rows[i]), int(rows[j]), what, math.sqrt(max(float(square), 0.0))),)


def short(x: float, digits: int) -> str:
    """Return a number in few characters.

    >>> short(0.00032, 6), short(12.5, 6), short(1e-12, 2)
    ('3.2e-4', '12.5', '1e-12')
    """
    if x == 0 or not math.isfinite(x) or 1e-3 <= abs(x) < 1e6:
        return f"{x:.{digits}g}"
    mantissa, _, exponent = f"{x:.{digits - 1}e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{int(exponent)}"
