r"""Arrays that are too large for balls: float64 numbers, each with a bound of how far off it may be.

What is trusted beyond Arb: + − × ÷ √ of float64 round to nearest, so each is off by at most u = 2^-53 of its result,
and whole numbers below 2^53 are added exactly in any order. Products of matrices rest on the second alone: rows and
columns are cut into slices of whole numbers so short that every sum of products stays below 2^53 (Ozaki's scheme).
Activations are Taylor polynomials around the points k/64, with coefficients from Arb. `TINY` covers underflow.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np
from flint import arb, arb_series, ctx  # pyright: ignore[reportAttributeAccessIssue]

U, TINY, MOST = 2.0**-53, 1e-280, 4096
FAINT = 1e-150  # far above the root of every sum of squares that underflowed
STRUCTURE = (np.concatenate, np.stack, np.moveaxis, np.broadcast_to)


def up(count: int) -> float:
    """A factor that covers the rounding of sums of so many numbers of one sign, and of some operations around."""
    return 1 + 2 * (count + 16) * U


class Near:
    """Numbers within `rad` of `mid`, entry by entry; supports what the passes do with arrays of balls."""

    __array_priority__ = 1000

    def __init__(self, mid: np.ndarray, rad: np.ndarray | None = None):
        self.mid, self.rad = mid, np.zeros_like(mid) if rad is None else np.broadcast_to(rad, mid.shape)
        self.shape, self.ndim, self.size, self.dtype = mid.shape, mid.ndim, mid.size, None

    def moved(self, change: Any) -> "Near":
        """Apply what only moves, repeats or drops entries."""
        return Near(change(self.mid), change(self.rad))

    def __len__(self) -> int:
        return len(self.mid)

    def __getitem__(self, at: Any) -> "Near":
        return self.moved(lambda a: a[at])

    def reshape(self, *shape: Any) -> "Near":
        """Return the entries in another shape."""
        return self.moved(lambda a: a.reshape(*shape))

    def transpose(self, *axes: Any) -> "Near":
        """Return the axes in another order."""
        return self.moved(lambda a: a.transpose(*axes))

    def swapaxes(self, i: int, j: int) -> "Near":
        """Exchange two axes."""
        return self.moved(lambda a: a.swapaxes(i, j))

    def ravel(self) -> "Near":
        """Return the entries in one row."""
        return self.reshape(-1)

    @property
    def T(self) -> "Near":
        """The matrix turned round."""
        return self.transpose()

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function not in STRUCTURE:
            return NotImplemented

        def part(a: Any, k: int) -> Any:
            if isinstance(a, list):
                return [part(b, k) for b in a]
            return (a.mid, a.rad)[k] if isinstance(a, Near) else a

        return Near(*(function(*(part(a, k) for a in args), **kwargs) for k in (0, 1)))

    def __add__(self, other: Any) -> "Near":
        if not isinstance(other, Near):  # the 0 that a sum begins with
            return self
        mid = self.mid + other.mid
        return Near(mid, (self.rad + other.rad + U * np.abs(mid)) * (1 + 8 * U))

    __radd__ = __add__

    def __neg__(self) -> "Near":
        return Near(-self.mid, self.rad)

    def __sub__(self, other: "Near") -> "Near":
        return self + -other

    def __mul__(self, other: Any) -> "Near":
        other = other if isinstance(other, Near) else close(other)
        mid = self.mid * other.mid
        rad = np.abs(self.mid) * other.rad + self.rad * (np.abs(other.mid) + other.rad) + U * np.abs(mid) + TINY
        return Near(mid, rad * (1 + 8 * U))

    __rmul__ = __mul__

    def sum(self, axis: Any) -> "Near":
        """Return sums along axes, added up in any order."""
        axes = axis if isinstance(axis, tuple) else (axis,)
        mid, count = self.mid.sum(axis=axis), math.prod(self.shape[k] for k in axes)
        rad = (self.rad + 2 * count * U * np.abs(self.mid)).sum(axis=axis) * up(count) + TINY
        return Near(mid, rad)

    def largest(self) -> np.ndarray:
        """Upper bounds of the absolute values."""
        return (np.abs(self.mid) + self.rad) * (1 + 4 * U)


def close(values: Any) -> Near:
    """Return balls as float64 numbers with radii."""
    balls = np.asarray(values, dtype=object)
    mid = balls.astype(np.float64)
    apart = np.frompyfunc(lambda a, m: math.nextafter(float(abs(arb(a) - arb(m)).upper()), math.inf), 2, 1)
    off = np.asarray(apart(balls, mid), np.float64)
    return Near(mid, np.where(off > 5e-324, off, 0.0))


def lengths(a: Near, axis: Any) -> np.ndarray:
    """Return upper bounds of the Euclidean norms along `axis`."""
    total = np.square(a.largest()).sum(axis=axis)
    return np.sqrt(total) * up(a.size // max(1, np.size(total))) + FAINT


def slices(a: np.ndarray, bits: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Cut the rows of `a` into whole numbers: a = Σ_j part_j 2^(−j bits) scale, up to half a unit of the last."""
    top = np.abs(a).max(axis=1, keepdims=True, initial=0.0)
    scale = np.ldexp(1.0, np.frexp(top)[1])
    rest, parts = a / scale, []
    for _ in range(3):
        rest = rest * 2.0**bits
        parts.append(np.rint(rest))
        rest = rest - parts[-1]
    return parts, scale


def product(a: Near, b: Near) -> Near:
    """Return the matrix product, as many columns at a time as stay exact."""
    total = Near(np.zeros((a.shape[0], b.shape[1])))
    for first in range(0, a.shape[1], MOST):
        cut = slice(first, first + MOST)
        total = total + _sliced(a.mid[:, cut], b.mid[cut].T)
    far, near = (lengths(Near(part), 1) if part.any() else np.zeros(len(part)) for part in (a.rad, a.mid))
    off, size = (lengths(Near(part), 0) if part.any() else np.zeros(part.shape[1]) for part in (b.rad, b.mid))
    rad = total.rad + (np.multiply.outer(near, off) + np.multiply.outer(far, size + off)) * (1 + 8 * U) + TINY
    return Near(total.mid, rad * (1 + 4 * U))


def inner(rows: Near) -> Near:
    """Return all inner products of the rows."""
    return product(rows, rows.T)


def _sliced(a: np.ndarray, b: np.ndarray) -> Near:
    """A bᵀ: with 3 slices each, the sums of the first two orders are whole numbers below 2^53, and so exact."""
    k = a.shape[1]
    bits = (53 - math.ceil(math.log2(k))) // 2 if k > 1 else 26
    same = a.ctypes.data == b.ctypes.data and a.shape == b.shape and a.strides == b.strides  # one array, seen twice
    (a1, a2, a3), left = slices(a, bits)
    (b1, b2, b3), right = ((a1, a2, a3), left) if same else slices(b, bits)
    if same:
        second, third = a1 @ a2.T, a1 @ a3.T
        second, third = second + second.T, third + third.T + a2 @ a2.T
    else:
        second, third = a1 @ b2.T + a2 @ b1.T, a1 @ b3.T + a2 @ b2.T + a3 @ b1.T
    step = 2.0**-bits
    mid = a1 @ b1.T + (second + third * step) * step
    # What is left out, and the rounding of the last two orders and of the sum.
    rest = (1.6 * k * step**3 + 8 * k * step * U) * (1 + 8 * U)
    unit = left * right[:, 0]
    return Near(mid * (step * step) * unit, (3 * U * np.abs(mid) * (step * step) + rest) * unit * (1 + 8 * U) + TINY)


# name: value as a power series, and a bound of |σ'| on the complex plane within distance 1 of the real line
SERIES = {
    "erf": (lambda z: z.erf(), 3.1),
    "tanh": (lambda z: 1 - 2 / ((2 * z).exp() + 1), 3.5),
    "sigmoid": (lambda z: 1 / ((-z).exp() + 1), 1.1),
    "softplus": (lambda z: (z.exp() + 1).log(), 1.1),
    "sin": (lambda z: z.sin(), 1.6),
}
STEP, REACH, TERMS = 64, 40, 10


@lru_cache(maxsize=len(SERIES))
def _table(name: str) -> np.ndarray:
    """Return the Taylor coefficients around k/64, |k| ≤ 64·40."""
    cap, ctx.cap = ctx.cap, TERMS
    try:
        with ctx.workprec(192):
            points = [SERIES[name][0](arb_series([arb(k) / STEP, 1])) for k in range(-STEP * REACH, STEP * REACH + 1)]
            return np.array([[float(arb(c)) for c in [*s.coeffs(), *[0] * TERMS][:TERMS]] for s in points])
    finally:
        ctx.cap = cap


def activate(name: str, pair: Any, first: float, second: float, z: Near) -> tuple[Near, Near]:
    """Return σ(z) and σ'(z); `pair` computes both in balls, `first` and `second` are bounds of |σ'| and |σ''|."""
    value, slope = np.empty(z.shape), np.empty(z.shape)
    off, bend = np.zeros(z.shape), np.zeros(z.shape)
    flat = [a.reshape(-1) for a in (z.mid, value, slope, off, bend)]
    inside = np.abs(flat[0]) <= REACH if name in SERIES else np.zeros(z.size, bool)
    for start in range(0, z.size, 1 << 16):
        at = slice(start, start + (1 << 16))
        if name in SERIES:
            flat[1][at], flat[2][at], flat[3][at], flat[4][at] = _polynomial(name, np.where(inside[at], flat[0][at], 0))
    for i in np.flatnonzero(~inside):
        for k, ball in enumerate(pair(arb(float(flat[0][i])))):
            near = close(ball)
            flat[1 + k][i], flat[3 + k][i] = near.mid, near.rad
    rads = [(off + first * z.rad) * (1 + 8 * U) + TINY, (bend + second * z.rad) * (1 + 8 * U) + TINY]
    return Near(value, rads[0]), Near(slope, rads[1])


def _polynomial(name: str, z: np.ndarray) -> tuple[np.ndarray, ...]:
    r"""Return value, slope and their errors for |z| ≤ 40.

    By Cauchy's estimate the slope's coefficients are at most C. So with h = 1/128 what follows its last one, of degree
    8, is at most C h^9 / (1 − h), and h times that bounds the value's. Coefficients are rounded by u of their size,
    each step of Horner's rule by u of what it adds up; all but the constant terms are at most C h / (1 − h)².
    """
    table, bound, h = _table(name), SERIES[name][1], 1 / (2 * STEP)
    k = np.rint(z * STEP)
    row, d = table[k.astype(np.int64) + STEP * REACH], z - k / STEP  # the difference is exact
    value, slope = row[:, -1], (TERMS - 1) * row[:, -1]
    for j in range(TERMS - 2, 0, -1):
        value, slope = value * d + row[:, j], slope * d + j * row[:, j]
    value = value * d + row[:, 0]
    rest = bound * h ** (TERMS - 1) / (1 - h)
    rounding = 8 * U * bound * h
    return value, slope, 3 * U * np.abs(value) + rounding + h * rest, 4 * U * np.abs(slope) + rounding + rest
