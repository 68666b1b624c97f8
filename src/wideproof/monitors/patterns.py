"""Activation patterns: which units are active, how many change, how many are close to changing."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Int
from numpy.typing import ArrayLike


def active(values: ArrayLike, at_zero: bool = False) -> Bool[np.ndarray, "*examples m"]:
    r"""Return the mask $1\{z > 0\}$, or $1\{z \ge 0\}$ if the paper counts zero as active.

    Parameters
    ----------
    values
        Preactivations $z$.
    at_zero
        Whether zero counts as active.

    Returns
    -------
    array
        The mask, in the shape of `values`.
    """
    z = np.asarray(values)
    return z >= 0 if at_zero else z > 0


def flips(mask: ArrayLike, other: ArrayLike) -> Int[np.ndarray, "*examples"]:
    """Return the number of units whose activation differs between two patterns, for every example.

    Parameters
    ----------
    mask
        A pattern of activations, units along the last axis.
    other
        A second one, of the same shape.

    Returns
    -------
    array
        One number for each example.

    Examples
    --------
    >>> flips([[True, False]], [[True, True]])
    array([1])
    """
    return np.count_nonzero(np.asarray(mask) != np.asarray(other), axis=-1)


def union_of_flips(mask: ArrayLike, other: ArrayLike) -> int:
    """Return the number of units whose activation differs for at least one example.

    Parameters
    ----------
    mask
        A pattern of activations, examples along the first axis.
    other
        A second one, of the same shape.

    Returns
    -------
    int
        The number of units.
    """
    return int((np.asarray(mask) != np.asarray(other)).any(axis=0).sum())


def small_values(values: ArrayLike, beta: ArrayLike) -> Int[np.ndarray, "..."]:
    r"""Return the number of units with $|z| \le \beta$ for every example and every $\beta$.

    Values are sorted once, so that many thresholds cost as much as one.

    Parameters
    ----------
    values
        Preactivations $z$, units along the last axis.
    beta
        Thresholds.

    Returns
    -------
    array
        Numbers in the shape `(*examples, *beta)`.

    Examples
    --------
    >>> small_values([[0.1, -0.2, 3.0]], [0.15, 1.0])
    array([[1, 2]])
    """
    ordered = np.sort(np.abs(np.asarray(values, float)), axis=-1)
    flat = ordered.reshape(-1, ordered.shape[-1])
    thresholds = np.asarray(beta, float)
    counts = np.stack([np.searchsorted(row, thresholds, side="right") for row in flat])
    return counts.reshape(*ordered.shape[:-1], *thresholds.shape)
