r"""Numbers with the error they may have: midpoint and radius, in ordinary float64.

What is assumed of the machine: IEEE doubles, rounding to nearest, matrix products and Cholesky factors by the
conventional formulas in any order of summation, elementary functions within 4 units in the last place. Large products
may come from a GPU, where the same holds (`devices`). Then
$|\mathrm{fl}(AB) - AB| \le \gamma_k |A| |B|$ entrywise, $\gamma_k = k u / (1 - k u)$, $u = 2^{-53}$.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
import scipy.special
from jaxtyping import Float, Shaped

from wideproof.certificates.devices import matmul
from wideproof.kernels.cholesky import UNIT, backward_error, factor
from wideproof.networks import Activation

TINY = 1e-290  # far above every sum of underflows
UP = 1 + 1e-10  # covers a chain of 10^5 rounded operations on numbers of one sign
GUESS = 1e-7  # how much larger than its estimate a spectral norm is tried


def gamma(k: int, unit: float = UNIT) -> float:
    r"""Return $\gamma_k$, rounded up.

    >>> gamma(1) > 2**-53
    True
    """
    return (k + 2) * unit / (1 - (k + 2) * unit) * (1 + 4 * UNIT)


def unit_of(values: np.ndarray) -> float:
    """Return the unit roundoff of the numbers: $2^{-53}$, or that of the machine's long double."""
    return float(np.finfo(values.dtype).eps) / 2


class Ball(NamedTuple):
    """An array known up to `rad`, entry by entry; `rad = None` means that errors are not tracked.

    `norm`, if known, bounds the Euclidean norm of the error along the last axis: through many layers it grows with the
    spectral norms of the matrices, where the radii grow with the norms of their absolute values.
    """

    mid: np.ndarray
    rad: np.ndarray | None
    norm: np.ndarray | np.floating | None = None

    @property
    def above(self) -> np.ndarray:
        """Upper bounds of the absolute values."""
        return np.abs(self.mid) if self.rad is None else (np.abs(self.mid) + self.rad) * (1 + 4 * UNIT)

    @property
    def off(self) -> np.ndarray:
        """Upper bounds of the error's norm along the last axis."""
        if self.rad is None:
            return np.zeros(self.mid.shape[:-1])
        far = _length(self.rad) * UP
        return np.asarray(far if self.norm is None else np.minimum(far, self.norm))

    def map(self, change: Callable[[np.ndarray], np.ndarray]) -> Ball:
        """Apply what only moves, repeats or drops entries."""
        return Ball(change(self.mid), None if self.rad is None else change(self.rad))

    def joined(self, axes: int) -> Ball:
        """Return a matrix whose rows join the last `axes` axes."""
        lead = self.mid.shape[: self.mid.ndim - axes]
        rows = int(np.prod(lead))
        if self.rad is None:
            return Ball(self.mid.reshape(rows, -1), None)
        norm = _length(self.off.reshape(rows, -1)) * UP
        return Ball(self.mid.reshape(rows, -1), self.rad.reshape(rows, -1), norm)

    def rounded(self) -> Ball:
        """Return it in float64."""
        mid = self.mid.astype(np.float64)
        if self.rad is None:
            return Ball(mid, None)
        rad = (self.rad.astype(np.float64) + UNIT * np.abs(mid)) * (1 + 8 * UNIT) + TINY
        return Ball(mid, rad, (self.off.astype(np.float64) + UNIT * _length(mid)) * UP + TINY)


def _length(a: np.ndarray) -> np.ndarray:
    return np.asarray(np.sqrt(np.square(a).sum(axis=-1)))


def exact(values: np.ndarray, tracked: bool) -> Ball:
    """Return numbers that are what they are."""
    return Ball(values, np.zeros_like(values), np.zeros(values.shape[:-1])) if tracked else Ball(values, None)


def product(u: Ball, matrix: Shaped[np.ndarray, "m fan_in"], omega: float | None = None) -> Ball:
    """Return `u @ matrix.T` for a matrix that is exact; `omega` bounds its spectral norm."""
    mid = matmul(u.mid, matrix.T)
    if u.rad is None:
        return Ball(mid, None)
    g = gamma(matrix.shape[1], unit_of(mid))
    size = np.abs(matrix).T.astype(np.float64)
    fresh = (g * matmul(np.abs(u.mid).astype(np.float64), size)) * (1 + 4 * gamma(matrix.shape[1])) + TINY
    rad = (fresh + matmul(u.rad.astype(np.float64), size)) * (1 + 4 * gamma(matrix.shape[1])) + TINY
    if omega is None:
        return Ball(mid, rad)
    norm = (omega * u.off.astype(np.float64) + _length(fresh)) * UP
    return Ball(mid, np.minimum(rad, norm[..., None]), norm)


def add(*balls: Ball) -> Ball:
    """Return the sum."""
    total = balls[0]
    for ball in balls[1:]:
        mid = total.mid + ball.mid
        if total.rad is None or ball.rad is None:
            total = Ball(mid, None)
            continue
        unit = unit_of(mid)
        rad = (total.rad + ball.rad + unit * np.abs(mid)) * (1 + 4 * UNIT)
        total = Ball(mid, rad, (total.off + ball.off + unit * _length(mid)) * UP)
    return total


def multiply(a: Ball, b: Ball) -> Ball:
    """Return the product entry by entry, with broadcasting."""
    mid = a.mid * b.mid
    if a.rad is None or b.rad is None:
        return Ball(mid, None)
    rad = (np.abs(a.mid) * b.rad + a.rad * (np.abs(b.mid) + b.rad) + UNIT * np.abs(mid)) * (1 + 8 * UNIT) + TINY
    norm = np.abs(a.mid).max(axis=-1) * b.off + b.above.max(axis=-1) * a.off + UNIT * _length(mid)
    return Ball(mid, rad, norm * UP + TINY)


def scaled(a: Ball, factor: float) -> Ball:
    """Return `factor * a`."""
    mid = factor * a.mid
    if a.rad is None:
        return Ball(mid, None)
    unit, size = unit_of(mid), abs(factor)
    rad = (size * a.rad + unit * np.abs(mid)) * (1 + 4 * UNIT) + TINY
    return Ball(mid, rad, (size * a.off + unit * _length(mid)) * UP + TINY)


def lengths(a: Ball, axes: tuple[int, ...]) -> np.ndarray:
    """Return upper bounds of the Euclidean norms over the given axes."""
    entries = np.sqrt(np.sum(np.square(a.above), axis=axes)) * UP
    if a.rad is None or a.mid.ndim - 1 not in axes:
        return np.asarray(entries)
    rest = tuple(axis for axis in axes if axis != a.mid.ndim - 1)
    off = np.sqrt(np.sum(np.square(a.off), axis=rest)) if rest else a.off
    return np.asarray(np.minimum(entries, (np.sqrt(np.sum(np.square(a.mid), axis=axes)) + off) * UP))


def inner(rows: Ball) -> Ball:
    """Return all inner products of the rows of a matrix; the radii come from the rows' norms."""
    mid = matmul(rows.mid, rows.mid.T)
    if rows.rad is None:
        return Ball(mid, None)
    size, off = np.linalg.norm(rows.mid, axis=1) * UP, rows.off
    g = gamma(rows.mid.shape[1])
    rad = np.multiply.outer(size, g * size + off) + np.multiply.outer(off, size + off)
    return Ball(mid, rad * UP + TINY)


def spread(matrix: Ball) -> float:
    """Return an upper bound of the spectral norm of what a symmetric matrix may be off by."""
    return 0.0 if matrix.rad is None else float(matrix.rad.sum(axis=1).max()) * UP


def smallest_eigenvalue(matrix: Ball) -> float:
    r"""Return a number that the smallest eigenvalue is not below; it may be negative.

    If the Cholesky factorization of $A = \hat G - \tau I$ ends, then
    $\lambda_{\min} \ge \tau - e - \frac{\gamma}{1 - \gamma} \operatorname{tr} A - 2u \max_j \hat g_{jj}$.

    >>> 0.999999 < smallest_eigenvalue(exact(np.array([[2.0, 1.0], [1.0, 2.0]]), True)) < 1
    True
    """
    a = (matrix.mid + matrix.mid.T) / 2
    n, estimate = len(a), _lowest(a)
    if matrix.rad is None:
        return estimate
    trace = float(np.abs(np.diagonal(a)).sum())
    off = 0.5 * float(np.abs(matrix.mid - matrix.mid.T).sum(axis=1).max())
    tried = estimate - 2 * backward_error(n) * trace
    for turn in range(12):
        shifted = np.array(a, order="F")
        shifted[np.diag_indices(n)] -= tried
        lost = backward_error(n) * (trace + n * abs(tried)) + 2 * UNIT * (np.abs(np.diagonal(a)).max() + abs(tried))
        if factor(shifted):
            return float(tried - (spread(matrix) + off + lost) * UP - TINY)
        tried -= 2 * lost + abs(estimate) * 10.0 ** (turn - 12)
    return -np.inf


class _Inverse(scipy.sparse.linalg.LinearOperator):
    """The inverse of a matrix with these Cholesky factors."""

    def __init__(self, factors: tuple[np.ndarray, bool]):
        self.factors = factors
        super().__init__(np.float64, factors[0].shape)

    def _matvec(self, x: np.ndarray) -> np.ndarray:
        return scipy.linalg.cho_solve(self.factors, x, check_finite=False)


def _lowest(a: Float[np.ndarray, "N N"]) -> float:
    """Estimate the smallest eigenvalue: Lanczos on the inverse where all of them would take long."""
    n = len(a)
    if n > 500:
        try:
            factors = scipy.linalg.cho_factor(a, check_finite=False)
            start = np.random.default_rng(0).standard_normal(n)
            found = scipy.sparse.linalg.eigsh(_Inverse(factors), k=1, which="LA", v0=start, tol=1e-10)  # pyright: ignore[reportArgumentType]
            return 1 / float(found[0][0])
        except (scipy.linalg.LinAlgError, scipy.sparse.linalg.ArpackError):
            pass
    return float(scipy.linalg.eigvalsh(a, subset_by_index=[0, 0], check_finite=False)[0])


def largest_eigenvalue(matrix: Ball) -> float:
    """Return a number that the largest eigenvalue of a positive semidefinite matrix does not exceed.

    >>> 3 <= largest_eigenvalue(exact(np.array([[2.0, 1.0], [1.0, 2.0]]), True)) < 3.00001
    True
    """
    a = (matrix.mid + matrix.mid.T) / 2
    n = len(a)
    if n < 3:
        estimate = float(np.linalg.eigvalsh(a)[-1])
    elif n <= 400:
        estimate = float(scipy.linalg.eigvalsh(a, subset_by_index=[n - 1, n - 1], check_finite=False)[0])
    else:
        start = np.random.default_rng(0).standard_normal(n)
        found = scipy.sparse.linalg.eigsh(a, k=1, which="LA", v0=start, tol=1e-9)  # pyright: ignore[reportArgumentType]
        estimate = float(found[0][0])
    if matrix.rad is None or estimate <= 0:
        return max(estimate, 0.0) if matrix.rad is None else float(np.abs(a).sum(axis=1).max()) * UP + spread(matrix)
    trace = float(np.abs(np.diagonal(a)).sum())
    off = 0.5 * float(np.abs(matrix.mid - matrix.mid.T).sum(axis=1).max())
    for guess in (2 * GUESS, 1e-5, 1e-3):
        tried = estimate * (1 + guess)
        shifted = np.array(-a, order="F")
        shifted[np.diag_indices(n)] += tried
        if factor(shifted):
            lost = backward_error(n) * (trace + n * tried) + 2 * UNIT * (float(np.abs(np.diagonal(a)).max()) + tried)
            return (tried + spread(matrix) + off + lost) * UP
    return float(np.abs(a).sum(axis=1).max()) * UP + spread(matrix)


def spectral_norm(matrix: Ball) -> float:
    """Return an upper bound of the spectral norm, within a relative 1e-6 of it.

    >>> 3 <= spectral_norm(exact(np.diag([1.0, 3.0]), True)) < 3 * (1 + 1e-6)
    True
    """
    wide = matrix.mid.shape[0] <= matrix.mid.shape[1]
    gram = inner(matrix if wide else matrix.map(lambda a: np.ascontiguousarray(a.T)))
    return float(np.sqrt(largest_eigenvalue(gram))) * (UP if matrix.rad is not None else 1.0)


def divided(a: Ball, count: int) -> Ball:
    """Return `a / count`."""
    mid = a.mid / count
    if a.rad is None:
        return Ball(mid, None)
    unit = unit_of(mid)
    rad = (a.rad / count + unit * np.abs(mid)) * (1 + 8 * UNIT) + TINY
    return Ball(mid, rad, (a.off / count + unit * _length(mid)) * UP + TINY)


def activate(activation: Activation, z: Ball) -> tuple[Ball, Ball]:
    r"""Return $\sigma(z)$ and $\sigma'(z)$.

    The slope of a ReLU is that of the midpoint's sign; whoever uses it must show that no sign is in doubt.
    """
    f = activation.known
    value, slope = f.value(z.mid), f.slope(z.mid)
    if z.rad is None:
        return Ball(value, None), Ball(slope, None)
    if f.smoothness == 0:
        return Ball(value, z.rad, z.off), exact(slope.astype(np.float64), True)
    # Four units in the last place of each elementary function and the few operations around; products with z grow.
    ulps = 32 * UNIT * (1 + np.abs(z.mid)) if f.growth else np.full_like(z.mid, 16 * UNIT)
    off = ulps * (1 + np.abs(value)) if f.growth else ulps * np.maximum(np.abs(value), 2**-20)
    return _moved(value, off, z, f.lipschitz), _moved(slope, 2 * ulps if f.growth else ulps, z, f.smoothness)


def _moved(value: np.ndarray, fresh: np.ndarray, z: Ball, constant: float) -> Ball:
    assert z.rad is not None
    rad = (constant * z.rad + fresh) * (1 + 8 * UNIT) + TINY
    return Ball(value, rad, (constant * z.off + _length(fresh)) * UP + TINY)
