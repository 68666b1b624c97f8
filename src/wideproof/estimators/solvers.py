r"""Solve $(B + r I)\,\beta = y$ for kernel matrices: by Cholesky in place, by conjugate gradients, by Nyström.

The last two never hold $B$. Nyström's approximation of rank $m$, $\hat B = U S U^\top$ from $m$ columns, is the
preconditioner of the conjugate gradients, and $\beta = (\hat B + r I)^{-1} y$ is the Nyström answer itself. Either way
the residual $\varrho = y - (B + r I) \beta$ is computed with the whole matrix, tile by tile, and bounds the error: the
prediction $f(x) = \langle \phi(x), \Phi \beta \rangle$ is off by at most

$$ \|\phi(x)\| \, \|\Phi (B + r I)^{-1} \varrho\| \le \sqrt{k(x, x)} \, \frac{\|\varrho\|}{2 \sqrt r}, $$

since $\sqrt\lambda / (\lambda + r) \le 1 / (2 \sqrt r)$.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg

from wideproof.errors import InputError
from wideproof.kernels.cholesky import factor

Product = Callable[[np.ndarray], np.ndarray]


class Solved(NamedTuple):
    """A solution, how many iterations it took, and the bound on predictions divided by the root of k(x, x)."""

    beta: np.ndarray
    iterations: int
    error: float


def solve_cholesky(matrix: np.ndarray, ridge: float, y: np.ndarray) -> np.ndarray:
    """Replace a symmetric `matrix` by the factor of `matrix + ridge I`, and return the solution for `y`."""
    np.einsum("ii->i", matrix)[:] += ridge
    if not factor(matrix):
        raise InputError(
            f"the kernel matrix plus ridge {ridge:.3g} is singular to working precision (inputs that nearly agree): "
            "use a larger ridge, or ridge='loo'"
        )
    half = scipy.linalg.solve_triangular(matrix, y, lower=True, check_finite=False)
    return scipy.linalg.solve_triangular(matrix, half, lower=True, trans=1, check_finite=False)


@dataclass(frozen=True)
class Nystrom:
    r"""$\hat B = U S U^\top$ of low rank, and solutions with $\hat B + r I$."""

    basis: np.ndarray
    values: np.ndarray

    @staticmethod
    def build(columns: np.ndarray, chosen: np.ndarray) -> Nystrom:
        """Approximate from the `chosen` columns (Frangella, Tropp and Udell, 2021: a shift keeps it stable)."""
        corner = columns[chosen]
        shift = 4 * np.finfo(float).eps * max(float(np.trace(corner)), np.finfo(float).tiny)
        while True:
            try:
                root = scipy.linalg.cholesky(corner + shift * np.eye(len(corner)), lower=True, check_finite=False)
                break
            except scipy.linalg.LinAlgError:
                shift *= 10
        half = scipy.linalg.solve_triangular(root, columns.T, lower=True, check_finite=False).T
        basis, roots, _ = scipy.linalg.svd(half, full_matrices=False, check_finite=False)
        return Nystrom(basis, np.maximum(np.square(roots) - shift, 0))

    def solve(self, ridge: float, y: np.ndarray) -> np.ndarray:
        """Return the solution with this approximation in place of the matrix."""
        inside = self.basis.T @ y
        return (y - self.basis @ (inside * (self.values / (self.values + ridge))[:, None])) / ridge


def solve_iteratively(
    product: Product, approximation: Nystrom, ridge: float, y: np.ndarray, tolerance: float, most: int
) -> Solved:
    """Take at most `most` conjugate-gradient steps from the Nyström answer, every column of `y` on its own."""
    if not ridge > 0:
        raise InputError(f"conjugate gradients and Nyström need a ridge > 0, got {ridge}: use solver='cholesky'")
    beta = approximation.solve(ridge, y)
    residual = y - product(beta) - ridge * beta
    wanted = tolerance * np.linalg.norm(y, axis=0)
    direction = np.zeros_like(y)
    previous, step = np.ones(y.shape[1]), 0
    while step < most and (np.linalg.norm(residual, axis=0) > wanted).any():
        better = approximation.solve(ridge, residual)
        current = np.einsum("ij,ij->j", residual, better)
        direction = better + direction * (current / previous if step else 0.0)
        image = product(direction) + ridge * direction
        curvature = np.einsum("ij,ij->j", direction, image)
        length = np.where(curvature > 0, current / np.where(curvature > 0, curvature, 1), 0.0)
        beta = beta + length * direction
        residual = residual - length * image
        previous = np.where(current > 0, current, 1.0)
        step += 1
    if step:
        residual = y - product(beta) - ridge * beta  # the recursion's own residual drifts
    norms = np.linalg.norm(residual, axis=0)
    return Solved(beta, step, float(norms.max()) / (2 * math.sqrt(ridge)))
