r"""One interface for two kinds of numbers: float64 with radii (`Floats`), and balls of any precision (Arb).

Passes and theorems are written once, for an `Arithmetic`. Whatever the numbers are, norms and bounds are balls: arrays
of Arb's, so that `+`, `*` and `sum` are ball arithmetic entry by entry, and a comparison is true only when it holds for
all the numbers in them. Sums are of arrays of one shape, products of arrays with as many axes: nothing is broadcast
that is not written out.
"""

import math
from decimal import Context
from typing import Any

import numpy as np
from flint import arb, arb_mat, ctx  # pyright: ignore[reportAttributeAccessIssue]

from wideproof_verify import floats
from wideproof_verify.double import U
from wideproof_verify.eigenvalues import Symmetric
from wideproof_verify.floats import Floats
from wideproof_verify.functions import ACTIVATIONS
from wideproof_verify.refusals import check

Array = Any  # `Floats` or `Balls`
_arb: Any = np.frompyfunc(arb, 1, 1)
_mid: Any = np.frompyfunc(arb.mid, 1, 1)
_rad: Any = np.frompyfunc(arb.rad, 1, 1)


def _plain(a: Any) -> Any:
    return np.asarray(a) if isinstance(a, Balls) else a


class Balls(np.ndarray):
    """An array of Arb's that meets only arrays which fit it."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        shapes = {a.shape for a in inputs if isinstance(a, np.ndarray) and a.ndim}
        strict = ufunc in (np.add, np.subtract) or len(set(map(len, shapes))) > 1
        if method == "__call__" and len(shapes) > 1 and strict:
            raise ValueError(f"arrays of the shapes {sorted(shapes)} do not fit each other")
        options = {key: tuple(map(np.asarray, value)) if key == "out" else value for key, value in options.items()}
        found = getattr(ufunc, method)(*map(_plain, inputs), **options)
        if isinstance(found, tuple):
            return tuple(a.view(Balls) if isinstance(a, np.ndarray) else a for a in found)
        return found.view(Balls) if isinstance(found, np.ndarray) else found


def balls(a: Any) -> Any:
    """Return float64 numbers, or what holds Arb's, as an array of balls."""
    return np.asarray(_arb(a), dtype=object).view(Balls)


larger: Any = np.frompyfunc(lambda a, b: a.max(b), 2, 1)
smaller: Any = np.frompyfunc(lambda a, b: a.min(b), 2, 1)
root: Any = np.frompyfunc(lambda a: a.nonnegative_part().sqrt(), 1, 1)
above: Any = np.frompyfunc(lambda a: math.nextafter(float(a.upper()), math.inf), 1, 1)  # a float that is not below


def short(value: float, rounding: str) -> str:
    """Return six digits, rounded to the side on which the sentence stays true."""
    return f"{Context(prec=6, rounding=rounding).create_decimal(value).normalize():.6g}"


def norm(a: Any, axis: Any = None) -> Any:
    """Return the Euclidean norm of balls along `axis`."""
    return root((a * a).sum(axis=axis))


def product(a: Any, b: Any) -> Any:
    """Return the matrix product of balls."""
    check()
    a, b = (m if isinstance(m, arb_mat) else arb_mat(m.shape[0], m.shape[1], m.ravel().tolist()) for m in (a, b))
    c = a * b
    return np.fromiter(c.entries(), dtype=object).reshape(c.nrows(), c.ncols()).view(Balls)


class Arithmetic:
    """What passes and bounds do with numbers, here with balls; float64 has other methods of the same names.

    Unless `pure`, norms of matrices are bounded by way of float64, which is quicker.
    """

    def __init__(self, pure: bool = False):
        self.pure = pure

    def lift(self, a: Any) -> Array:
        """Return numbers in this arithmetic; what is in it already as it is."""
        return a if isinstance(a, Balls) else self.balls(a) if isinstance(a, Floats) else balls(a)

    def balls(self, a: Array) -> Any:
        """Return balls that hold the numbers."""
        return np.asarray(a.balls(), dtype=object).view(Balls) if isinstance(a, Floats) else a

    def middle(self, a: Array) -> np.ndarray:
        """Return float64 numbers nearby, for guesses."""
        return np.asarray(a.astype(np.float64))

    def split(self, a: Array) -> tuple[Array, arb]:
        """Return exact numbers next to these, and a bound of the distance of all of them."""
        return _mid(a), norm(_rad(a))

    def zeros(self, shape: tuple[int, ...]) -> Array:
        """Return exact zeros."""
        return self.lift(np.zeros(shape))

    def product(self, a: Array, b: Array) -> Array:
        """Return the matrix product."""
        return product(a, b)

    def rough(self, a: Array, b: Array) -> Array:
        """Return the matrix product, quickly, for bounds that may be generous."""
        return product(a, b)

    def summed(self, a: Array, b: Array) -> Array:
        """Return the sums of products along the second axis."""
        return (a * b).sum(axis=1)

    def activate(self, name: str, z: Array) -> tuple[Array, Array]:
        """Return σ(z) and σ'(z)."""
        check()
        return np.frompyfunc(ACTIVATIONS[name].both, 1, 2)(z)

    def bend(self, name: str, z: Array) -> Array | None:
        """Return σ''(z), or `None` where only a bound is known."""
        own = ACTIVATIONS[name].bend
        return None if own is None else np.frompyfunc(own, 1, 1)(z)

    def norm(self, a: Array, axis: Any = None) -> Any:
        """Return upper bounds of the Euclidean norms along `axis`, as balls."""
        return norm(a, axis)

    def lengths(self, a: Array, axis: int) -> np.ndarray:
        """Return upper bounds of the Euclidean norms along `axis`, as float64 numbers."""
        return np.asarray(above(norm(a, axis)), dtype=np.float64)

    def apart(self, a: Array, b: Array, axis: Any = None) -> Any:
        """Return upper bounds of the Euclidean norms of a − b along `axis`, as balls."""
        return norm(a - b, axis)

    def most(self, a: Array, rest: tuple[int, ...], axis: int | None = None) -> Any:
        """Bound the largest absolute values over the axes `rest`, or the largest norms along `axis`, as balls."""
        found = abs(a) if axis is None else norm(a, axis)
        for k in sorted(rest, reverse=True):
            found = larger.reduce(found, axis=k)
        return found

    def spectral_norm(self, a: Any) -> arb:
        """Return an upper bound of the spectral norm, also of float64 numbers or balls."""
        a = self.lift(a)
        if not self.pure:
            centre = self.middle(a)
            return (FLOATS.spectral_norm(centre) + norm(a - balls(centre))).upper()
        small = a if a.shape[1] <= a.shape[0] else a.T
        return root(self.largest(product(small.T, small))).upper()

    def symmetric(self, g: Array) -> Any:
        """Return a symmetric matrix for what follows."""
        return g

    def at_least(self, g: Any, level: arb) -> bool | None:
        """Return whether no eigenvalue is below `level`: proved, refuted, or `None`."""
        return positive_definite(g - level * balls(np.eye(len(g))))

    def at_most(self, g: Any, level: arb) -> bool | None:
        """Return whether no eigenvalue is above `level`: proved, refuted, or `None`."""
        return positive_definite(level * balls(np.eye(len(g))) - g)

    def largest(self, g: Any) -> arb:
        """Return an upper bound of the eigenvalues: the first guess that is enough, or the Frobenius norm."""
        centre = self.middle(g)
        top = float(np.linalg.eigvalsh((centre + centre.T) / 2)[-1]) if np.isfinite(centre).all() else math.nan
        for guess in (top * (1 + 1e-9), top * (1 + 1e-6), top * (1 + 1e-3)):
            if guess > 0 and self.at_most(g, arb(guess)):
                return arb(guess)
        return norm(g)

    def sides(self, z: Array, limits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which numbers may be within `limits` (float64) of 0, and which are below it."""
        open_: Any = np.frompyfunc(lambda a, b: not abs(a) > arb(float(b)), 2, 1)(np.asarray(z), limits)
        return open_.astype(bool), np.asarray(np.less(z, 0), dtype=bool)

    def holds(self, a: Array, values: np.ndarray) -> np.ndarray:
        """Return which numbers may be these float64 ones."""
        return np.frompyfunc(lambda ball, value: ball.contains(arb(value)), 2, 1)(np.asarray(a), values).astype(bool)


class FloatArithmetic(Arithmetic):
    """float64 numbers with radii; a symmetric matrix has one radius (`Symmetric`)."""

    def lift(self, a: Any) -> Array:
        return a if isinstance(a, Floats) else Floats(a) if a.dtype == np.float64 else floats.from_balls(a)

    def middle(self, a: Array) -> np.ndarray:
        return a.mid

    def split(self, a: Array) -> tuple[Array, arb]:
        return a.exact(), arb(float(floats.lengths(Floats(a.rad), None)))

    def product(self, a: Array, b: Array) -> Array:
        check()
        return floats.product(a, b)

    def rough(self, a: Array, b: Array) -> Array:
        check()
        return floats.rough(a, b)

    def summed(self, a: Array, b: Array) -> Array:
        check()
        return floats.summed(a, b)

    def activate(self, name: str, z: Array) -> tuple[Array, Array]:
        check()
        if name == "identity":
            return z, Floats(np.ones(z.shape))
        return floats.rectified(z) if name == "relu" else floats.activate(name, z)

    def bend(self, name: str, z: Array) -> Array | None:
        return floats.bent(name, z)

    def norm(self, a: Array, axis: Any = None) -> Any:
        found = floats.lengths(a, axis)
        return balls(found) if np.ndim(found) else arb(float(found))

    def lengths(self, a: Array, axis: int) -> np.ndarray:
        return floats.lengths(a, axis)

    def apart(self, a: Array, b: Array, axis: Any = None) -> Any:
        found = floats.lengths(a, axis, b)
        return balls(found) if np.ndim(found) else arb(float(found))

    def most(self, a: Array, rest: tuple[int, ...], axis: int | None = None) -> Any:
        found = (a.largest() if axis is None else floats.lengths(a, axis)).max(axis=rest, initial=0.0)
        return balls(found) if np.ndim(found) else arb(float(found))

    def spectral_norm(self, a: Any) -> arb:
        check()
        a = self.lift(a).plain()
        centre = Floats(a.mid if a.shape[1] <= a.shape[0] else a.mid.T)
        return (arb(Symmetric.of(floats.rough(centre.T, centre)).largest()).sqrt() + self.split(a)[1]).upper()

    def symmetric(self, g: Array) -> Any:
        return Symmetric.of(g)

    def at_least(self, g: Any, level: arb) -> bool | None:
        check()
        return g.at_least(above(level))

    def at_most(self, g: Any, level: arb) -> bool | None:
        check()
        return g.at_least(above(-level), -1)

    def largest(self, g: Any) -> arb:
        check()
        return arb(g.largest())

    def sides(self, z: Array, limits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        known = np.abs(z.mid) * (1 - 8 * U) > (z.plain().rad + limits) * (1 + 8 * U)  # not if a side is no number
        return ~known, z.mid < 0

    def holds(self, a: Array, values: np.ndarray) -> np.ndarray:
        return np.abs(a.mid - values) <= a.plain().rad


FLOATS, BALLS, PURE = FloatArithmetic(), Arithmetic(), Arithmetic(pure=True)


def positive_definite(a: np.ndarray) -> bool | None:
    r"""Return whether the symmetric matrix `a` of balls is positive definite: proved, refuted, or `None` in these bits.

    A float inverse C of a float Cholesky factor is the witness: $\|C a C^\top - I\|_F < 1$ proves it. If that is too
    coarse: L D L' of the exact centre of `a`, shifted by the distance from `a`, in many more bits.
    """
    one, a = balls(np.eye(len(a))), np.asarray(a)
    try:
        inverse = balls(np.linalg.inv(np.linalg.cholesky(a.astype(np.float64))))
        if norm(product(product(inverse, a), inverse.T) - one) < 1:
            return True
    except np.linalg.LinAlgError:
        pass
    a = np.where(np.tri(len(a), dtype=bool), a, a.T)  # the lower half, which the pivots are taken from, is all of it
    apart = norm(np.frompyfunc(arb.rad, 1, 1)(a)).upper() * np.asarray(one)
    centre: Any = np.frompyfunc(arb.mid, 1, 1)(a)
    with ctx.workprec(2 * ctx.prec + 4 * len(a)):
        return pivots_positive(centre - apart) or (None if pivots_positive(centre + apart) else False)


def pivots_positive(a: np.ndarray) -> bool:
    """Return whether all pivots of L D L' are positive."""
    a = a.copy()
    for k in range(len(a)):
        if not a[k, k] > 0:
            return False
        column = a[k + 1 :, k] / a[k, k]
        for i in range(k + 1, len(a)):
            a[i, k + 1 : i + 1] -= column[i - k - 1] * a[k + 1 : i + 1, k]
    return True
