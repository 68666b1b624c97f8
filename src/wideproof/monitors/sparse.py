r"""Suprema over sparse vectors: exact where sorting gives them, from below where the problem is hard."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike


def top_norms(vectors: ArrayLike) -> Float[np.ndarray, "*examples m"]:
    r"""Return $\max\{\langle q, a\rangle : \|a\|_2 = 1, \|a\|_0 \le s\}$ for every $s = 1..m$ at once, exactly.

    The maximum is the norm of the $s$ largest entries of $q$. The last axis holds $s$.

    Parameters
    ----------
    vectors
        The vectors $q$, along the last axis.

    Returns
    -------
    array
        One number for each $s$ along the last axis.

    Examples
    --------
    >>> top_norms([3.0, 0.0, -4.0])
    array([4., 5., 5.])
    """
    squares = np.sort(np.square(np.asarray(vectors, float)), axis=-1)[..., ::-1]
    return np.sqrt(np.cumsum(squares, axis=-1))


class SparseForm(NamedTuple):
    r"""A value of $b^\top A a$ for $s$-sparse unit vectors.

    Attributes
    ----------
    value
        The largest value that was found.
    exact
        Whether it is known to be the maximum.
    """

    value: float
    exact: bool


def sparse_form(matrix: ArrayLike, s: int, other: int | None = None, restarts: int = 8, seed: int = 0) -> SparseForm:
    r"""Return $\sup b^\top A a$ over unit vectors with $\|a\|_0 \le s$ and $\|b\|_0 \le$ `other` (or `s`).

    The value is exact if both bounds are 1 (the largest entry), if one of them is 1 (the largest row or column norm
    over its largest entries) or if neither restricts. Otherwise the problem is NP-hard: alternating truncated power
    steps from the best columns and from random starts give a lower bound.

    Parameters
    ----------
    matrix
        $A$.
    s
        Maximum number of nonzero entries of $a$.
    other
        Maximum number of nonzero entries of $b$; by default `s`.
    restarts
        Number of random starts of the search.
    seed
        Seed of these starts.

    Returns
    -------
    SparseForm
        The value, and whether it is the maximum.

    Examples
    --------
    >>> sparse_form([[1.0, -5.0], [2.0, 3.0]], 1)
    SparseForm(value=5.0, exact=True)
    """
    a = np.asarray(matrix, float)
    rows, columns = a.shape
    left, right = min(s if other is None else other, rows), min(s, columns)
    if left == 1:
        return SparseForm(float(top_norms(a)[:, right - 1].max()), True)
    if right == 1:
        return SparseForm(float(top_norms(a.T)[:, left - 1].max()), True)
    if left == rows and right == columns:
        return SparseForm(float(np.linalg.norm(a, 2)), True)
    rng = np.random.default_rng(seed)
    best = np.argsort(-top_norms(a.T)[:, left - 1])[:restarts]
    starts = [np.eye(columns)[j] for j in best] + [rng.normal(size=columns) for _ in range(restarts)]
    return SparseForm(max(_climb(a, start, left, right) for start in starts), False)


def _climb(a: Float[np.ndarray, "l r"], start: Float[np.ndarray, "r"], left: int, right: int, steps: int = 50) -> float:
    v, reached = _truncate(start, right), 0.0
    for _ in range(steps):
        w = _truncate(a @ v, left)
        v = _truncate(a.T @ w, right)
        value = float(w @ a @ v)
        if value <= reached * (1 + 1e-12):
            break
        reached = value
    return reached


def _truncate(vector: Float[np.ndarray, "m"], s: int) -> Float[np.ndarray, "m"]:
    kept = np.zeros_like(vector)
    largest = np.argpartition(-np.abs(vector), s - 1)[:s]
    kept[largest] = vector[largest]
    norm = np.linalg.norm(kept)
    return kept / norm if norm > 0 else kept
