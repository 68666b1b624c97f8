"""Lengths of weights: several arrays as one vector."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
from jax.typing import ArrayLike


def length(arrays: Mapping[str, np.ndarray]) -> float:
    """Return the Euclidean norm of several arrays together.

    Parameters
    ----------
    arrays
        Arrays by name.

    Returns
    -------
    float
        The norm.

    Examples
    --------
    >>> length({"W1": np.full((2, 2), 2.0), "a": np.array([3.0])})
    5.0
    """
    return math.sqrt(sum(float(np.square(a).sum()) for a in arrays.values()))


def distance(names: Iterable[str], here: Mapping[str, ArrayLike], there: Mapping[str, ArrayLike]) -> float:
    """Return the distance between two sets of arrays.

    Parameters
    ----------
    names
        The arrays to compare.
    here
        Arrays by name.
    there
        Other arrays with the same names.

    Returns
    -------
    float
        The Euclidean distance.

    Examples
    --------
    >>> distance(["a"], {"a": [1.0, 2.0], "W1": [5.0]}, {"a": [4.0, 6.0], "W1": [0.0]})
    5.0
    """
    return length({name: np.asarray(here[name], np.float64) - np.asarray(there[name], np.float64) for name in names})
