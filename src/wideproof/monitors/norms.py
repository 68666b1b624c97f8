r"""Norms of matrices and of operators that are never formed, and how far weights are from where they started."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.linalg import LinearOperator, svds

Map = Callable[[np.ndarray], np.ndarray]
SMALL = 200  # below this many rows or columns a dense decomposition is faster than iterating


def spectral_norm(matrix: ArrayLike) -> float:
    r"""Return $\|A\|_2$, from a decomposition if one side is small, otherwise by Lanczos iteration.

    Parameters
    ----------
    matrix
        $A$.

    Returns
    -------
    float
        The norm.

    Examples
    --------
    >>> spectral_norm(np.diag([3.0, 4.0]))
    4.0
    """
    a = np.asarray(matrix, float)
    if not a.any():
        return 0.0
    if min(a.shape) <= SMALL:
        return float(np.linalg.norm(a, 2))
    return operator_norm(a.shape, lambda v: a @ v, lambda v: a.T @ v)


def operator_norm(shape: tuple[int, int], apply: Map, adjoint: Map) -> float:
    r"""Return $\|A\|_2$ of an operator known by its products, to about 1e-10.

    Lanczos iteration from a fixed start: a lower estimate, exact up to rounding when it converges.

    Parameters
    ----------
    shape
        Rows and columns of $A$.
    apply
        The product $v \mapsto A v$.
    adjoint
        The product $w \mapsto A^\top w$.

    Returns
    -------
    float
        The norm.
    """
    if min(shape) == 1:
        column = apply(np.ones(1)) if shape[1] == 1 else adjoint(np.ones(1))
        return float(np.linalg.norm(column))
    start = np.random.default_rng(0).normal(size=min(shape))
    largest = svds(_Operator(shape, apply, adjoint), k=1, v0=start, return_singular_vectors=False)
    return float(np.asarray(largest)[0])


class _Operator(LinearOperator):
    def __init__(self, shape: tuple[int, int], apply: Map, adjoint: Map) -> None:
        super().__init__(np.dtype(float), shape)
        self._apply, self._back = apply, adjoint

    def _matvec(self, x: np.ndarray) -> np.ndarray:
        return self._apply(x.ravel())

    def _rmatvec(self, x: np.ndarray) -> np.ndarray:
        return self._back(x.ravel())


class Distance(NamedTuple):
    r"""The distance of a weight from its initial value.

    Attributes
    ----------
    spectral
        $\|\Delta W\|_2$.
    frobenius
        $\|\Delta W\|_F$.
    unit
        The largest norm of the change of one unit.
    """

    spectral: float
    frobenius: float
    unit: float


def distances(
    params: Mapping[str, ArrayLike], start: Mapping[str, ArrayLike], units: str = "rows"
) -> dict[str, Distance]:
    """Return the distance of each weight matrix from its initial value.

    Parameters
    ----------
    params
        Weights by name.
    start
        The initial weights, by name.
    units
        Whether a unit is one of the `"rows"` or one of the `"columns"`.

    Returns
    -------
    dict[str, Distance]
        The distances by name.

    Examples
    --------
    >>> distances({"W": np.eye(2)}, {"W": np.zeros((2, 2))})["W"].spectral
    1.0
    """
    found = {}
    for name, weight in params.items():
        change = np.asarray(weight, float) - np.asarray(start[name], float)
        change = change.reshape(change.shape[0], -1)
        by_unit = np.linalg.norm(change, axis=1 if units == "rows" else 0)
        found[name] = Distance(spectral_norm(change), float(np.linalg.norm(change)), float(by_unit.max()))
    return found
