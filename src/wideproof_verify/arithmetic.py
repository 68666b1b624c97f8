r"""Balls (Arb) for everything that is claimed; float64 only as a witness that balls or whole numbers then check.

Arrays of balls are NumPy arrays of `arb`, so `+`, `*` and `sum` are ball arithmetic entry by entry, and a comparison of
balls is true only when it holds for all the numbers in them. Large arrays are `Near` instead: float64 with radii, whose
norms are balls again.
"""

import contextlib
import math
from decimal import Context
from typing import Any

import numpy as np
from flint import arb, arb_mat, ctx  # pyright: ignore[reportAttributeAccessIssue]

from wideproof_verify import near
from wideproof_verify.near import Near

Balls = Any  # an array of `arb`, one of them, or `Near`
ROUNDING = 2.0**-53
balls: Any = np.frompyfunc(arb, 1, 1)
larger: Any = np.frompyfunc(lambda a, b: a.max(b), 2, 1)
smaller: Any = np.frompyfunc(lambda a, b: a.min(b), 2, 1)
root: Any = np.frompyfunc(lambda a: a.nonnegative_part().sqrt(), 1, 1)
above: Any = np.frompyfunc(lambda a: math.nextafter(float(a.upper()), math.inf), 1, 1)  # a float that is not below


def short(value: float, rounding: str) -> str:
    """Return six digits, rounded to the side on which the sentence stays true."""
    return f"{Context(prec=6, rounding=rounding).create_decimal(value).normalize():.6g}"


def middle(a: Balls) -> np.ndarray:
    """Return float64 numbers next to the centres."""
    return a.astype(np.float64)


def norm(a: Balls, axis: Any = None) -> Balls:
    """Return the Euclidean norm along `axis`; of large arrays an upper bound."""
    return balls(near.lengths(a, axis)) if isinstance(a, Near) else root((a * a).sum(axis=axis))


def longest(a: Balls, axis: int, rest: tuple[int, ...]) -> Balls:
    """Return the largest norm along `axis` over the axes `rest` of what is left; `axis` -1 takes absolute values."""
    if isinstance(a, Near):
        return balls((a.largest() if axis < 0 else near.lengths(a, axis)).max(axis=rest))
    found = abs(a) if axis < 0 else norm(a, axis)
    for k in sorted(rest, reverse=True):
        found = larger.reduce(found, axis=k)
    return found


def ball(a: Balls) -> arb:
    """Return one number as a ball."""
    return near.balls_of(a) if isinstance(a, Near) else a


def matrix(a: Balls) -> Any:
    """Return a two-dimensional array as a matrix of Arb; a large one as it is."""
    return a if isinstance(a, arb_mat | Near) else arb_mat(a.shape[0], a.shape[1], a.ravel().tolist())


def product(a: Balls, b: Balls) -> Balls:
    """Return the matrix product."""
    if isinstance(a, Near):
        return near.product(a, b)
    c = matrix(a) * matrix(b)
    return np.fromiter(c.entries(), dtype=object).reshape(c.nrows(), c.ncols())


def gram(a: np.ndarray) -> tuple[np.ndarray, float]:
    r"""Return g and e with $\|a^\top a - g\|_2 \le e$, for float64 `a`.

    With columns scaled to norm at most 2^26, a = h + l/2^t + d, h, l whole: all sums in h'h and h'l stay below 2^53, so
    float64 adds them exactly in any order. What is dropped is at most |l/2^t|² + 2|a||d| + 3|d|² (Frobenius norms).
    """
    rows, columns = a.shape
    longest = float(np.sqrt(np.square(a).sum(axis=0).max())) * (1 + 1e-6)
    if not 1e-140 < longest < 1e140 or rows > 2**40:
        return np.zeros((columns, columns)), np.inf if a.any() else 0.0
    unit, shift = 2.0 ** (np.ceil(np.log2(longest)) - 26), 2.0 ** (25 - np.ceil(np.log2(rows) / 2))
    whole = np.rint(a / unit)
    low = np.rint((a / unit - whole) * shift)
    high_high, high_low = whole.T @ whole, (whole.T @ low) / shift
    dropped = np.sqrt(rows * columns) / (2 * shift)
    e = np.square(low / shift).sum() + 2 * np.sqrt(columns) * 2.0**26 * dropped + 3 * dropped**2
    e += 4 * ROUNDING * (np.linalg.norm(high_high) + 2 * np.linalg.norm(high_low))
    return (high_high + (high_low + high_low.T)) * unit**2, float(e * unit**2 * (1 + 1e-6))


def largest_eigenvalue(g: np.ndarray, e: float) -> float:
    r"""Return an upper bound of the eigenvalues of every symmetric matrix within `e` of `g` in norm.

    $\tau I - g = R R^\top + E$ gives $g \preceq (\tau + \|E\|_F) I$; R is float Cholesky, untrusted, E is bounded.
    """
    if not np.isfinite(e) or not np.isfinite(g).all():
        return np.inf
    g = (g + g.T) / 2
    block = np.eye(len(g)) if len(g) <= 500 else _krylov(g)
    top = np.linalg.eigvalsh(block.T @ (g @ block))[-1]
    for tau in (top * (1 + 1e-9), top * (1 + 1e-6), top * (1 + 1e-3)):
        gap = np.diag(np.full(len(g), tau)) - g
        try:
            square, error = gram(np.linalg.cholesky(gap).T)
        except np.linalg.LinAlgError:
            continue
        error += np.linalg.norm(gap - square) + e + 4 * ROUNDING * (np.linalg.norm(square) + np.linalg.norm(g) + tau)
        return float(tau + error * (1 + 1e-6)) * (1 + 1e-15)
    return float(np.linalg.norm(g) + e) * (1 + 1e-6)


def largest(g: Near) -> float:
    """Return a number above the eigenvalues of a large symmetric matrix."""
    g = g.plain()
    return largest_eigenvalue(g.mid, float(near.lengths(Near(g.rad + np.abs(g.mid - g.mid.T)), None)))


def spectral_norm(a: Balls) -> arb:
    r"""Return an upper bound of the spectral norm: $\|\hat a\|_2 + \|a - \hat a\|_F$ with $\hat a$ in float64."""
    if isinstance(a, Near):
        centre, apart = a.mid, arb(float(near.lengths(Near(a.plain().rad), None)))
    else:
        centre = middle(a)
        apart = arb(0) if a.dtype == np.float64 else norm(a - balls(centre))
    return arb(largest_eigenvalue(*gram(centre if centre.shape[1] <= centre.shape[0] else centre.T))).sqrt() + apart


def at_least(g: Near, level: float) -> bool | None:
    r"""Return whether no eigenvalue of a large symmetric matrix is below `level`: proved, refuted, or `None`.

    $g - (\text{level} + \delta) I = R R^\top + E$ proves it if $\|E\|_F \le \delta$; R is float Cholesky, untrusted, E
    is bounded. A vector whose Rayleigh quotient is below refutes it.
    """
    g = g.plain()
    centre, e = (g.mid + g.mid.T) / 2, float(near.lengths(Near(g.rad + np.abs(g.mid - g.mid.T)), None))
    if not np.isfinite(centre).all():
        return None
    size = 4 * (len(centre) + 8) * ROUNDING * float(np.linalg.norm(centre)) + 2 * e
    for delta in (2 * size, 16 * size):
        shifted = centre - np.diag(np.full(len(centre), level + delta))
        try:
            square = near.inner(Near(np.linalg.cholesky(shifted)))
        except np.linalg.LinAlgError:
            continue
        error = np.linalg.norm(shifted - square.mid) + np.linalg.norm(square.rad) + e
        error += 4 * ROUNDING * (np.linalg.norm(square.mid) + np.linalg.norm(centre) + abs(level) + delta)
        if error * (1 + 1e-6) < delta * (1 - 1e-6):
            return True
    v = _lowest(centre)
    above = float(v @ (centre @ v) / (v @ v)) + size * (1 + 1e-6)
    return False if above < level else None


def _lowest(g: np.ndarray) -> np.ndarray:
    """Return a vector near the eigenvector of the smallest eigenvalue."""
    block = np.eye(len(g))
    if len(g) > 500:
        with contextlib.suppress(np.linalg.LinAlgError):  # small ones are large ones of the inverse
            block = np.linalg.qr(np.hstack([_krylov(np.linalg.inv(g)), _krylov(g)]))[0]
    return block @ np.linalg.eigh(block.T @ (g @ block))[1][:, 0]


def _krylov(g: np.ndarray, most: int = 200) -> np.ndarray:
    """Return orthonormal columns that hold the eigenvectors at both ends, or nearly (Lanczos)."""
    v = np.random.default_rng(0).standard_normal(len(g))
    basis = np.empty((len(g), min(most, len(g))))
    for k in range(basis.shape[1]):
        for _ in range(2):
            v = v - basis[:, :k] @ (basis[:, :k].T @ v)
        size = np.linalg.norm(v)
        if not size > 1e-12:
            return basis[:, :k]
        basis[:, k] = v / size
        v = g @ basis[:, k]
    return basis


def positive_definite(a: Balls) -> bool | None:
    r"""Return whether the symmetric `a` is positive definite: proved, refuted, or `None` at this precision.

    A float inverse C of a float Cholesky factor is the witness: $\|C a C^\top - I\|_F < 1$ proves it. If that is too
    coarse: L D L' of the exact centre of `a`, shifted by the distance from `a`, in many more bits.
    """
    one = balls(np.eye(len(a)))
    try:
        inverse = balls(np.linalg.inv(np.linalg.cholesky(middle(a))))
        if norm(product(product(inverse, a), inverse.T) - one) < 1:
            return True
    except np.linalg.LinAlgError:
        pass
    a = np.where(np.tri(len(a), dtype=bool), a, a.T)  # the lower half, which the pivots are taken from, is all of it
    centre, apart = np.frompyfunc(arb.mid, 1, 1)(a), norm(np.frompyfunc(arb.rad, 1, 1)(a)).upper()
    with ctx.workprec(2 * ctx.prec + 4 * len(a)):
        return pivots_positive(centre - apart * one) or (None if pivots_positive(centre + apart * one) else False)


def pivots_positive(a: Balls) -> bool:
    """Return whether all pivots of L D L' are positive."""
    a = a.copy()
    for k in range(len(a)):
        if not a[k, k] > 0:
            return False
        column = a[k + 1 :, k] / a[k, k]
        for i in range(k + 1, len(a)):
            a[i, k + 1 : i + 1] -= column[i - k - 1] * a[k + 1 : i + 1, k]
    return True
