r"""Nyström's approximation of a kernel matrix, and solutions with it: the preconditioner of conjugate gradients.

$\hat B = C W^{-1} C^\top$ from $m$ columns $C$ of $B$ and the corner $W$ where they meet. With
$W + \delta I = L L^\top$ and $Q = C L^{-\top}$ it is $Q Q^\top$, and

$$ (\hat B + r I)^{-1} v = \frac1r \big(v - Q (r I + Q^\top Q)^{-1} Q^\top v\big) . $$

$\hat B \preceq B$ for every $\delta \ge 0$, so that $(B + r I)^{-1} \preceq (\hat B + r I)^{-1}$: this bounds errors.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from wideproof.kernels import Columns
from wideproof.precision import double


@dataclass(frozen=True)
class Nystrom:
    r"""$\hat B = U S U^\top$ of low rank, and solutions with $\hat B + r I$."""

    basis: Float[np.ndarray, "n m"]
    values: Float[np.ndarray, "m"]

    @staticmethod
    def build(columns: Float[np.ndarray, "n m"], chosen: Int[np.ndarray, "m"]) -> Nystrom:
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

    def solve(self, ridge: float, y: Float[np.ndarray, "n c"]) -> Float[np.ndarray, "n c"]:
        """Return the solution with this approximation in place of the matrix."""
        inside = self.basis.T @ y
        return (y - self.basis @ (inside * (self.values / (self.values + ridge))[:, None])) / ridge


@dataclass(frozen=True, eq=False)
class StreamedNystrom:
    r"""The same from columns that are never held; two Cholesky factors of size $m$ are.

    Attributes
    ----------
    columns
        $C$, without the weights.
    root
        The roots of the weights $w$ of all examples, which stand on both sides of $C$.
    low, inner
        $L$, and the factor of $r I + Q^T Q$.
    ridge
        The $r$ that `inner` was made for.
    """

    columns: Columns
    root: Float[np.ndarray, "n"]
    chosen: Int[np.ndarray, "m"]
    low: Array
    inner: Array
    ridge: float

    @staticmethod
    @double
    def build(
        columns: Columns, chosen: Int[np.ndarray, "m"], root: Float[np.ndarray, "n"], ridge: float
    ) -> StreamedNystrom:
        r"""Take $\delta$ as the least that lets the corner be factored, from 4 units of the last place of its trace."""
        own = columns.matrix.everywhere(root[chosen])
        corner = _scaled(columns.corner(), own)
        square = _scaled(columns.weighted_square(np.square(root)), own)
        trace = float(_trace(corner))
        shift = 4 * np.finfo(float).eps * max(trace, np.finfo(float).tiny)
        while True:
            low, inner = _factors(corner, square, shift, ridge)
            if bool(_finite(low)) and bool(_finite(inner)):
                return StreamedNystrom(columns, root, chosen, low, inner, ridge)
            shift *= 10

    @double
    def solve(self, ridge: float, y: Float[np.ndarray, "n c"]) -> Float[np.ndarray, "n c"]:
        """Return the solution with this approximation in place of the matrix; the ridge is the one it was made for."""
        if ridge != self.ridge:
            raise ValueError(f"this was built for the ridge {self.ridge}, got {ridge}")
        root, own = self.root[:, None], self.root[self.chosen][:, None]
        inside = self.columns.transposed_times(root * y)
        inside = _solve(self.low, self.inner, inside, self.columns.matrix.everywhere(own))
        return (y - root * np.asarray(self.columns.times(inside))) / ridge


@jax.jit
def _scaled(matrix: Array, root: Array) -> Array:
    return matrix * root[None, :] * root[:, None]


@jax.jit
def _trace(matrix: Array) -> Array:
    return jnp.trace(matrix)


@jax.jit
def _finite(matrix: Array) -> Array:
    return jnp.isfinite(matrix).all()


@jax.jit
def _factors(corner: Array, square: Array, shift: ArrayLike, ridge: ArrayLike) -> tuple[Array, Array]:
    one = jnp.eye(len(corner), dtype=corner.dtype)
    low = lax.linalg.cholesky(corner + shift * one, symmetrize_input=False)
    half = lax.linalg.triangular_solve(low, square, left_side=True, lower=True)
    both = lax.linalg.triangular_solve(low, half.T, left_side=True, lower=True)
    return low, lax.linalg.cholesky((both + both.T) / 2 + ridge * one, symmetrize_input=False)


@jax.jit
def _solve(low: Array, inner: Array, inside: Array, own: Array) -> Array:
    """Return D L⁻ᵀ (r I + QᵀQ)⁻¹ L⁻¹ D u."""

    def forward(factor: Array, v: Array) -> Array:
        return lax.linalg.triangular_solve(factor, v, left_side=True, lower=True)

    def backward(factor: Array, v: Array) -> Array:
        return lax.linalg.triangular_solve(factor, v, left_side=True, lower=True, transpose_a=True)

    return own * backward(low, backward(inner, forward(inner, forward(low, own * inside))))
