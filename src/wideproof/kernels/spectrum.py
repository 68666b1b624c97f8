r"""The spectrum of a Gram matrix, every eigenvalue with a radius that covers what is wrong with it.

By Weyl's inequality a matrix that is off by $E$ has eigenvalues that are off by at most $\|E\|_2$. A radius is the
sum of three such norms:

* the entries: `Gram.error`, or $\varepsilon \max(\sum_i |a_{ii}|, \|A\|_F)$ for a bare array, which is what errors
  $|\Delta a_{ij}| \le \varepsilon \sqrt{a_{ii} a_{jj}}$ come to, $\varepsilon$ being that of the array's dtype;
* asymmetry: $\tfrac12 \|A - A^\top\|_F$, the distance of either triangle from the symmetric part;
* the solver, always in float64: see `spectrum`.

An eigenvalue whose interval covers zero is not reported as positive, zero or negative: it is undecided. Only what is
known besides the numbers, such as two equal examples (`Gram.singular`), makes a matrix singular.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.linalg
from jax.typing import ArrayLike
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from wideproof.cards import card, line
from wideproof.errors import InputError
from wideproof.kernels.cholesky import backward_error, factor
from wideproof.kernels.culprits import Culprit, as_points, from_matrix, from_points, short
from wideproof.kernels.gram_result import Gram, why_singular

Method = Literal["auto", "dense", "lanczos"]
LARGE = 3000  # above, "auto" takes Lanczos: three Cholesky factors cost less than a tridiagonal form

_EPS = float(np.finfo(np.float64).eps)
_BLOCK = 256
_CONVERGED: Any = 1e-12  # of an eigenvalue, relative, by ARPACK's own estimate

Product = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Enclosed:
    """A number known to lie within `radius` of `value`.

    Attributes
    ----------
    value
        The estimate.
    radius
        How far the number can be from `value`; not negative.

    Examples
    --------
    >>> print(Enclosed(3.2e-4, 1e-12), Enclosed(3.2e-4, 1e-12).decided)
    3.2e-4 ± 1e-12 True
    """

    value: float
    radius: float

    @property
    def low(self) -> float:
        """The least it can be."""
        return self.value - self.radius

    @property
    def high(self) -> float:
        """The most it can be."""
        return self.value + self.radius

    @property
    def decided(self) -> bool:
        """Whether its sign is known: the interval does not cover zero."""
        return abs(self.value) > self.radius

    def __str__(self) -> str:
        return f"{short(self.value, 6)} ± {short(self.radius, 2)}"


@dataclass(frozen=True, eq=False)
class Spectrum:
    r"""The eigenvalues of a Gram matrix, and what follows from them.

    Attributes
    ----------
    smallest, largest
        The extreme eigenvalues with their radii.
    method
        The solver: `"dense"` or `"lanczos"`.
    precision
        The arithmetic in which the entries were computed.
    eigenvalues
        All eigenvalues in ascending order, each within `smallest.radius`; `None` with Lanczos.
    vectors
        The eigenvectors in columns; `None` unless asked for.
    culprits
        Pairs of examples that explain why the sign of the smallest eigenvalue is undecided, the worst first.
    singular
        Why the exact matrix is singular whatever its rounding; empty if no reason is known.
    """

    smallest: Enclosed
    largest: Enclosed
    method: str
    precision: str
    eigenvalues: np.ndarray | None = field(default=None, repr=False)
    vectors: np.ndarray | None = field(default=None, repr=False)
    culprits: tuple[Culprit, ...] = ()
    singular: str = ""

    @property
    def decided(self) -> bool:
        """Whether the smallest eigenvalue is known to be positive or negative."""
        return self.smallest.decided and not self.singular

    @property
    def positive_definite(self) -> bool:
        """Whether the smallest eigenvalue is known to be positive."""
        return self.smallest.low > 0 and not self.singular

    @property
    def condition(self) -> Enclosed | float:
        r"""$\lambda_{\max} / \lambda_{\min}$; infinite unless the smallest eigenvalue is known to be positive."""
        if not self.positive_definite:
            return math.inf
        value = self.largest.value / self.smallest.value
        low, high = self.largest.low / self.smallest.high, self.largest.high / self.smallest.low
        return Enclosed(value, max(value - low, high - value))

    @property
    def rank(self) -> int | None:
        """How many eigenvalues are known to be positive; `None` from Lanczos, which finds two of them."""
        if self.eigenvalues is None:
            return None
        return int(np.count_nonzero(self.eigenvalues > self.smallest.radius))

    @property
    def stable_step(self) -> float:
        r"""$2 / \lambda_{\max}$, by its upper end: gradient descent on $\tfrac12 \|e\|^2$ converges below it."""
        return 2 / self.largest.high if self.largest.high > 0 else math.inf

    def _repr_html_(self) -> str:
        facts = {
            "verdict": self.verdict, "smallest eigenvalue": self.smallest, "largest eigenvalue": self.largest,
            "condition number": self.condition, "rank": "not known" if self.rank is None else f"at least {self.rank}",
            "steps converge below": f"{self.stable_step:.3g}", "computed by": f"{self.method}, {self.precision}",
        }  # fmt: skip
        facts |= {"explained by" if k == 0 else f"and by ({k + 1})": one for k, one in enumerate(self.culprits[:3])}
        picture = "" if self.eigenvalues is None else line(self.eigenvalues[::-1], "eigenvalues, the largest first")
        return card("Spectrum of a Gram matrix", facts, picture)

    @property
    def verdict(self) -> str:
        """What the smallest eigenvalue says, and what to do about it, in one sentence."""
        if self.singular:
            return f"singular: {self.singular}"
        if self.positive_definite:
            return f"positive definite: the smallest eigenvalue is {self.smallest}"
        if self.decided:
            return (
                f"indefinite: the smallest eigenvalue is {self.smallest}, which no Gram matrix has: check how the "
                "entries were computed, and that `error` covers it"
            )
        low, high = short(self.smallest.low, 2), short(self.smallest.high, 2)
        return f"undecided: the smallest eigenvalue is in [{low}, {high}]: {self._way_out}"

    @property
    def _way_out(self) -> str:
        first = self.culprits[0] if self.culprits else None
        if first is not None and first.what == "zero":
            return f"{first}: remove that"
        if self.precision != "float64":
            return f'{self.precision} cannot resolve it: compute the Gram matrix with precision="float64"'
        return "remove examples" if first is None else f"{first}: remove one of them, or separate the examples"

    def __str__(self) -> str:
        return f"{self.verdict}; the largest is {self.largest} ({self.method})"


def spectrum(
    gram: ArrayLike | Gram,
    *,
    error: float | None = None,
    method: Method = "auto",
    points: ArrayLike | None = None,
    vectors: bool = False,
) -> Spectrum:
    r"""Enclose the extreme eigenvalues of a Gram matrix; with the dense solver, all eigenvalues.

    Parameters
    ----------
    gram
        A symmetric matrix. The `error` of a `Gram` bounds the error of its entries, in spectral norm.
    error
        Replaces that bound; 0 declares the entries exact.
    method
        `"dense"`, `"lanczos"`, or `"auto"`: dense up to 3000 rows, or if all eigenvectors are asked for.
    points
        The inputs, one for each example. If given, equal or parallel inputs are named as the cause of a singular
        matrix.
    vectors
        Also return the eigenvectors.

    Returns
    -------
    Spectrum
        The extreme eigenvalues with radii, and the rest of the spectrum where it is known.

    Notes
    -----
    Dense: LAPACK's symmetric solvers are backward stable, $|\hat\lambda - \lambda| \le p(n)\, \varepsilon \|A\|_2$
    with a modest $p$ (LAPACK Users' Guide, 4.7). Here $p(n) = n + 8$; what was measured grows like $\sqrt n$.

    Lanczos: estimates from ARPACK, of the inverse for the smallest eigenvalue; only then are they proved. A Cholesky
    factorization of $A - sI$ that runs to its end shows $\lambda_{\min}(A) \ge s - \gamma_{n+2} \sum_i |a_{ii} - s|$,
    $\gamma_k = k u / (1 - k u)$ (Higham, Accuracy and Stability, Theorem 10.3; Rump, BIT 46, 2006); one of $sI - A$
    shows the like for $\lambda_{\max}$. The other sides are Rayleigh quotients with their rounding. One copy of
    the matrix is held beside the matrix itself.

    Examples
    --------
    >>> import numpy as np
    >>> found = spectrum(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> round(found.smallest.value, 12), round(found.stable_step, 12), found.decided
    (1.0, 0.666666666667, True)
    >>> print(spectrum(np.ones((2, 2)), points=np.array([[3.0], [3.0]])).culprits[0])
    examples 0 and 1 are equal (distance 0)
    """
    a = np.asarray(gram)
    precision = gram.precision if isinstance(gram, Gram) else ("float32" if a.dtype == np.float32 else "float64")
    if method not in ("auto", "dense", "lanczos"):
        raise InputError(f"the method must be 'auto', 'dense' or 'lanczos', got {method!r}")
    if a.ndim != 2 or a.shape[0] != a.shape[1] or not a.size:
        raise InputError(f"a spectrum needs a square matrix, got shape {a.shape}: give the Gram matrix of one data set")
    if a.dtype not in (np.float32, np.float64):
        a = a.astype(np.float64)
    if error is None and isinstance(gram, Gram):
        error = gram.error
    if error is not None and not error >= 0:
        raise InputError(f"error bounds a norm, so it must be a number >= 0, got {error}")
    n = len(a)
    x = None if points is None else as_points(points, n)
    size = _measure(a, error)
    dense = method == "dense" or n < 3 or (method == "auto" and (n <= LARGE or vectors))
    if vectors and not dense:
        raise InputError("Lanczos finds only two eigenvectors: use method='dense' for vectors=True")
    w = v = None
    if dense:
        smallest, largest, bottom, w, v = _dense(a, size, vectors)
    else:
        smallest, largest, bottom = _lanczos(a, size)
    culprits = ()
    if not smallest.decided and n > 1:
        culprits = from_matrix(a, _bottom(a) if bottom is None else bottom) if x is None else from_points(x)
    singular = gram.singular if isinstance(gram, Gram) else ""
    if not singular and any(culprit.what == "equal" for culprit in culprits):
        singular = why_singular(points)
    return Spectrum(smallest, largest, "dense" if dense else "lanczos", precision, w, v, culprits, singular)


class _Size(NamedTuple):
    """What one sweep over a matrix tells: `error` is that of the entries and of asymmetry together."""

    diagonal: np.ndarray
    frobenius: float
    rows: float
    error: float


def _measure(a: np.ndarray, error: float | None) -> _Size:
    """Check that the entries are finite and symmetric, and bound their error, in blocks of rows."""
    diagonal = np.diagonal(a).astype(np.float64)
    eps = float(np.finfo(a.dtype).eps)
    square = asymmetry = rows = largest = gap = 0.0
    where = (0, 0)
    for part in _parts(len(a)):
        block = a[part].astype(np.float64)
        if not np.isfinite(block).all():
            i, j = (int(k) for k in np.argwhere(~np.isfinite(block))[0])
            raise InputError(
                f"entry ({part.start + i}, {j}) of the Gram matrix is {block[i, j]}: "
                "look for NaN or overflow in the inputs and weights"
            )
        difference = np.abs(block - a[:, part].T)
        square += float(np.vdot(block, block))
        asymmetry += float(np.vdot(difference, difference))
        np.abs(block, out=block)
        rows, largest = max(rows, float(block.sum(axis=1).max())), max(largest, float(block.max()))
        if difference.max() > gap:
            i, j = np.unravel_index(int(difference.argmax()), difference.shape)
            gap, where = float(difference.max()), (part.start + int(i), int(j))
    frobenius = math.sqrt(square)
    error = eps * max(float(np.abs(diagonal).sum()), frobenius) if error is None else float(error)
    if gap > math.sqrt(eps) * largest + 2 * error:
        raise InputError(
            f"a Gram matrix is symmetric, but entries {where} and {where[::-1]} differ by {gap:.3g}: "
            "give the matrix of one data set with itself"
        )
    return _Size(diagonal, frobenius, rows, error + math.sqrt(asymmetry) / 2)


def _parts(n: int) -> Iterator[slice]:
    return (slice(top, min(top + _BLOCK, n)) for top in range(0, n, _BLOCK))


def _dense(
    a: np.ndarray, size: _Size, vectors: bool
) -> tuple[Enclosed, Enclosed, np.ndarray | None, np.ndarray, np.ndarray | None]:
    """All eigenvalues, and the eigenvectors if they are wanted."""
    copy = np.array(a.T, dtype=np.float64, order="F")
    v = None
    if vectors:
        w, v = scipy.linalg.eigh(copy, overwrite_a=True, check_finite=False)
    else:
        w = scipy.linalg.eigvalsh(copy, overwrite_a=True, check_finite=False)
    n = len(a)
    radius = size.error + dense_error(n, max(abs(float(w[0])), abs(float(w[-1]))))
    bottom = None if v is None else v[:, 0]
    return Enclosed(float(w[0]), radius), Enclosed(float(w[-1]), radius), bottom, w, v


def dense_error(n: int, norm: float) -> float:
    """How far a dense solver's eigenvalues of a symmetric matrix can be off: see the notes of `spectrum`.

    >>> dense_error(1, 5.0)
    0.0
    """
    return (n + 8) * _EPS * norm if n > 1 else 0.0


def _lanczos(a: np.ndarray, size: _Size) -> tuple[Enclosed, Enclosed, np.ndarray]:
    """Both ends from Lanczos, proved by Cholesky factors of the shifted matrix; all factors share one copy."""
    n = len(a)
    if size.frobenius == 0:
        return Enclosed(0.0, size.error), Enclosed(0.0, size.error), np.eye(n)[0]
    buffer = np.empty((n, n), order="F")
    rounding = n * _EPS * size.frobenius  # of a Rayleigh quotient: 2n operations, half an epsilon each

    def ends(sign: float, shifts: list[float]) -> tuple[float, float]:
        """Return a shift s with sign·(A - sI) positive definite, the first that works, and the bound it proves."""
        for s in shifts:
            if _factors(a, sign, s, buffer):
                return s, s - sign * _cholesky_error(n, float(np.abs(size.diagonal - s).sum()))
        return -sign * math.inf, -sign * math.inf

    top, _, residual = _rayleigh(a, lambda u: _times(a, u))
    trust = max(2 * residual, _cholesky_error(n, float(np.abs(size.diagonal - top).sum())))
    _, above = ends(-1.0, [top + trust, top + 1e3 * trust])
    above = min(above, size.rows)  # no eigenvalue exceeds a row's sum of absolute values
    largest = Enclosed(top, max(above - top, rounding) + size.error)

    trust = _cholesky_error(n, float(np.abs(size.diagonal).sum()))
    middle = -math.sqrt(trust * size.frobenius)
    shift, proved = ends(1.0, [0.0, -2 * trust, middle, -(1 + 1e-3) * size.frobenius - 4 * trust])
    low, bottom, residual = _rayleigh(a, lambda u: scipy.linalg.cho_solve((buffer, True), u, check_finite=False))
    trust = max(2 * residual, trust)
    proved = max(proved, ends(1.0, [s for s in (low - trust, low - 1e3 * trust) if s > shift])[1])
    return Enclosed(low, max(low - proved, rounding) + size.error), largest, bottom


def _cholesky_error(n: int, trace: float) -> float:
    """How far below zero the smallest eigenvalue can be although a Cholesky factorization ran to its end."""
    return backward_error(n) * trace


def _factors(a: np.ndarray, sign: float, shift: float, buffer: np.ndarray) -> bool:
    """Whether sign·(A - shift·I) has a Cholesky factor, which is then the lower triangle of `buffer`."""
    np.multiply(a.T, sign, out=buffer)
    buffer[np.diag_indices(len(a))] -= sign * shift
    return factor(buffer)


class _Operator(LinearOperator):
    """A matrix that is known by its products."""

    def __init__(self, n: int, product: Product) -> None:
        super().__init__(np.float64, (n, n))
        self._product = product

    def _matvec(self, x: np.ndarray) -> np.ndarray:
        return self._product(x)


def _rayleigh(a: np.ndarray, product: Product) -> tuple[float, np.ndarray, float]:
    """The Rayleigh quotient in `a` of the top eigenvector of `product`, that vector, and its residual."""
    start = np.random.default_rng(0).standard_normal(len(a))
    try:
        v = eigsh(_Operator(len(a), product), k=1, which="LA", v0=start, tol=_CONVERGED)[1][:, 0]
    except ArpackNoConvergence as unfinished:  # any vector gives a true bound, if a poor one
        v = unfinished.eigenvectors[:, 0] if unfinished.eigenvectors.size else start
    v = v / np.linalg.norm(v)
    image = _times(a, v)
    quotient = float(v @ image)
    return quotient, v, float(np.linalg.norm(image - quotient * v))


def _times(a: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The product in float64, a block of rows at a time if the matrix is stored in less."""
    v = v.ravel()
    if a.dtype == np.float64:
        return a @ v
    return np.concatenate([a[part].astype(np.float64) @ v for part in _parts(len(a))])


def _bottom(a: np.ndarray) -> np.ndarray:
    return scipy.linalg.eigh(a.astype(np.float64), subset_by_index=[0, 0], check_finite=False)[1][:, 0]
