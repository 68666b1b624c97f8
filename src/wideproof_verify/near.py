r"""Arrays that are too large for balls: float64 numbers, each with a bound of how far off it may be.

What is trusted beyond Arb: + − × ÷ √ of float64 round to nearest, so each is off by at most u = 2^-53 of its result,
and whole numbers below 2^53 are added exactly in any order. Products of matrices rest on the second alone: rows and
columns are cut into slices of whole numbers so short that every sum of products stays below 2^53 (Ozaki's scheme);
`rough` ones, for bounds that may be generous, on the first, whatever the order in which the products are added.
Activations are Taylor polynomials around the points k/64, with coefficients from Arb. `TINY` covers underflow. With low
parts ("fine") all this is done in double-double, see `double`, where a rounding counts V = 2^-100 instead of u.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np
from flint import arb, arb_series, ctx  # pyright: ignore[reportAttributeAccessIssue]

from wideproof_verify import double
from wideproof_verify.double import TINY, U

MOST, BLOCK = 4096, 1 << 13
FAINT = 1e-150  # far above the root of every sum of squares that underflowed
STRUCTURE = (np.concatenate, np.stack, np.moveaxis, np.broadcast_to)


def up(count: int) -> float:
    """A factor that covers the rounding of sums of so many numbers of one sign, and of some operations around."""
    return 1 + 2 * (count + 16) * U


class Near:
    """Numbers within `rad` of `mid`, or of `mid` + `low`, entry by entry; supports what passes do with arrays of balls.

    With `low`, the mid must be `mid` + `low` rounded to nearest. What is fine stays so, whatever it meets.
    """

    __array_priority__ = 1000

    def __init__(self, mid: np.ndarray, rad: np.ndarray | None = None, low: np.ndarray | None = None):
        self.mid, self.rad = mid, np.zeros_like(mid) if rad is None else np.broadcast_to(rad, mid.shape)
        self.low = low
        self.shape, self.ndim, self.size, self.dtype = mid.shape, mid.ndim, mid.size, None

    def moved(self, change: Any) -> "Near":
        """Apply what only moves, repeats or drops entries."""
        return Near(change(self.mid), change(self.rad), None if self.low is None else change(self.low))

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
            if not isinstance(a, Near):
                return a
            return _low(a, a.shape) if k == 2 else (a.mid, a.rad)[k]

        def fine(a: Any) -> bool:
            return any(map(fine, a)) if isinstance(a, list) else isinstance(a, Near) and a.low is not None

        return Near(*(function(*(part(a, k) for a in args), **kwargs) for k in range(3 if fine(list(args)) else 2)))

    def __add__(self, other: Any) -> "Near":
        if not isinstance(other, Near):  # the 0 that a sum begins with
            return self
        if self.low is not None or other.low is not None:
            mid, low = double.add(self.mid, _low(self), other.mid, _low(other))
            return Near(mid, (self.rad + other.rad + double.V * np.abs(mid)) * (1 + 8 * U), low)
        mid = self.mid + other.mid
        return Near(mid, (self.rad + other.rad + U * np.abs(mid)) * (1 + 8 * U))

    __radd__ = __add__

    def __neg__(self) -> "Near":
        return Near(-self.mid, self.rad, None if self.low is None else -self.low)

    def __sub__(self, other: "Near") -> "Near":
        return self + -other

    def __mul__(self, other: Any) -> "Near":
        other = other if isinstance(other, Near) else close(other) if self.low is None else fine(other)
        if self.low is None and other.low is None:
            (mid, low), unit = (self.mid * other.mid, None), U
        else:
            (mid, low), unit = double.multiply(self.mid, _low(self), other.mid, _low(other)), double.V
        rad = np.abs(self.mid) * other.rad + self.rad * (np.abs(other.mid) + other.rad) + unit * np.abs(mid) + TINY
        return Near(mid, rad * (1 + 8 * U), low)

    __rmul__ = __mul__

    def sum(self, axis: Any) -> "Near":
        """Return sums along axes, added up in any order; fine ones by halves."""
        axes = axis if isinstance(axis, tuple) else (axis,)
        if self.low is not None:
            first = self.moved(lambda a: np.moveaxis(a, axes, range(len(axes))))
            a: Any = first.reshape(-1, *first.shape[len(axes) :])
            while len(a) > 1:
                half, odd = divmod(len(a), 2)
                both = a[:half] + a[half : 2 * half]
                a = np.concatenate([both, a[-1:]]) if odd else both
            return a[0] if len(a) else Near(np.zeros(a.shape[1:]), None, np.zeros(a.shape[1:]))
        mid, count = self.mid.sum(axis=axis), math.prod(self.shape[k] for k in axes)
        rad = (self.rad + 2 * count * U * np.abs(self.mid)).sum(axis=axis) * up(count) + TINY
        return Near(mid, rad)

    def largest(self) -> np.ndarray:
        """Upper bounds of the absolute values."""
        return (np.abs(self.mid) + (self.rad if self.low is None else self.rad + np.abs(self.low))) * (1 + 4 * U)

    def plain(self) -> "Near":
        """The same numbers without low parts."""
        return self if self.low is None else Near(self.mid, (self.rad + np.abs(self.low)) * (1 + 4 * U))


def _low(a: Near, shape: tuple[int, ...] = ()) -> np.ndarray:
    return np.zeros(shape) if a.low is None else a.low


def _distance(ball: arb, *parts: float) -> float:
    """A bound of the distance of a ball's numbers from a sum of float64 numbers."""
    off: Any = abs(sum((-arb(part) for part in parts), arb(ball)))
    off = off.upper()
    return 0.0 if off == 0 else math.nextafter(float(off), math.inf)


def close(values: Any) -> Near:
    """Return balls as float64 numbers with radii."""
    balls = np.asarray(values, dtype=object)
    mid = balls.astype(np.float64)
    return Near(mid, np.asarray(np.frompyfunc(_distance, 2, 1)(balls, mid), np.float64))


def fine(values: Any) -> Near:
    """Return balls as double-doubles with radii."""
    balls = np.asarray(values, dtype=object)
    with ctx.workprec(256):
        mid = balls.astype(np.float64)
        rest = np.asarray(np.frompyfunc(lambda a, m: float(arb(a) - arb(m)), 2, 1)(balls, mid), np.float64)
        mid, low = double.two_sum(mid, rest)
        return Near(mid, np.asarray(np.frompyfunc(_distance, 3, 1)(balls, mid, low), np.float64), low)


def exact(a: Near) -> Near:
    """Return the centres, with radii 0."""
    return Near(a.mid, None, a.low)


def balls_of(a: Near) -> Any:
    """Return balls that hold the numbers, with the same centres."""
    with ctx.workprec(2200):  # more than the bits of any sum of two float64 numbers
        ball = np.frompyfunc(lambda mid, low, rad: arb(mid) + arb(low) + arb(0, rad), 3, 1)
        return ball(a.mid, _low(a), a.rad)


def lengths(a: Near, axis: Any) -> np.ndarray:
    """Return upper bounds of the Euclidean norms along `axis`."""
    total = np.square(a.largest()).sum(axis=axis)
    return np.sqrt(total) * up(a.size // max(1, np.size(total))) + FAINT


def _long(a: np.ndarray, axis: int) -> np.ndarray:
    """Return upper bounds of the Euclidean norms of rows (1) or columns (0), also with low parts."""
    return np.sqrt(np.einsum(a, [0, 1], a, [0, 1], [1 - axis])) * up(a.shape[axis]) + FAINT


def slices(a: np.ndarray, bits: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Cut the rows of `a` into whole numbers: a = Σ_j part_j 2^(−j bits) scale, up to half a unit of the last."""
    top = np.abs(a).max(axis=1, keepdims=True, initial=0.0)
    scale = np.ldexp(1.0, np.frexp(top)[1])
    rest, parts = a / scale, []
    for _ in range(3):
        rest *= 2.0**bits
        parts.append(np.rint(rest))
        rest -= parts[-1]
    return parts, scale


def product(a: Near, b: Near) -> Near:
    """Return the matrix product, as many columns at a time as stay exact."""
    total: Any = 0
    for first in range(0, max(1, a.shape[1]), MOST):
        left, right = a[:, first : first + MOST], b[first : first + MOST].T
        if left.low is None and right.low is None:
            total = total + _sliced(left.mid, right.mid)
        else:
            mid, low, rad = double.sliced(left.mid, left.low, right.mid, right.low)
            total = total + Near(mid, rad, low)
    rad = total.rad + TINY
    if b.rad.any():
        rad += np.multiply.outer(_long(a.mid, 1), _long(b.rad, 0)) * (1 + 8 * U)
    if a.rad.any():
        rad += np.multiply.outer(_long(a.rad, 1), _long(b.mid, 0) + _long(b.rad, 0)) * (1 + 8 * U)
    rad *= 1 + 4 * U
    return Near(total.mid, rad, total.low)


def rough(a: Near, b: Near) -> Near:
    """Return the matrix product by float64 alone, for bounds: k products added in any order are off by 2ku Σ|ab|."""
    a, b = a.plain(), b.plain()
    rows, columns, far, off = _long(a.mid, 1), _long(b.mid, 0), _long(a.rad, 1), _long(b.rad, 0)
    rad = np.multiply.outer(rows, off + 2 * (a.shape[1] + 16) * U * columns) + np.multiply.outer(far, columns + off)
    return Near(a.mid @ b.mid, rad * (1 + 16 * U) + TINY)


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
        second, third = second + second.T, third + third.T
    else:
        second, third = a1 @ b2.T, a1 @ b3.T
        second += a2 @ b1.T
        third += a3 @ b1.T
    third += a2 @ b2.T
    step = 2.0**-bits
    third *= step
    second += third
    second *= step
    mid = a1 @ b1.T
    mid += second
    # What is left out, and the rounding of the last two orders and of the sum.
    rest = (1.6 * k * step**3 + 8 * k * step * U) * (1 + 8 * U)
    mid *= step * step
    rad, unit = np.abs(mid), left * right[:, 0]
    rad *= 3 * U
    rad += rest
    rad *= unit
    rad *= 1 + 8 * U
    rad += TINY
    mid *= unit
    return Near(mid, rad)


# name: value as a power series, and a bound of |σ'| on the complex plane within distance 1 of the real line
SERIES = {
    "erf": (lambda z: z.erf(), 3.1),
    "tanh": (lambda z: 1 - 2 / ((2 * z).exp() + 1), 3.5),
    "sigmoid": (lambda z: 1 / ((-z).exp() + 1), 1.1),
    "softplus": (lambda z: (z.exp() + 1).log(), 1.1),
    "sin": (lambda z: z.sin(), 1.6),
    # With s = sigmoid, |s| ≤ 1 and |s'| ≤ 1/(3.08 + x²), as |cosh(z/2)|² ≥ 1 + x²/4 − sin²(1/2): so |z s'| ≤ 0.5.
    "swish": (lambda z: z / ((-z).exp() + 1), 1.6),
    # |Φ(x + iy)| ≤ 1 + ∫_0^1 |φ(it)| dt ≤ 1.5, and |z φ(z)| ≤ (|x| + 1) e^((1 − x²)/2) / √(2π) ≤ 0.9.
    "gelu": (lambda z: z * ((z / arb(2).sqrt()).erf() + 1) / 2, 2.4),
}
STEP, REACH, TERMS = 64, 40, 10
FINE, LOWS = 17, 9  # terms of a fine polynomial, and how many of its coefficients have low parts


@lru_cache(maxsize=2 * len(SERIES))
def taylor(name: str, terms: int = TERMS, lows: int = 0) -> np.ndarray:
    """Return the Taylor coefficients around k/64, |k| ≤ 64·40, one degree a row, then low parts of the first ones."""
    cap, ctx.cap, rows = ctx.cap, terms, []
    try:
        with ctx.workprec(256):
            for k in range(-STEP * REACH, STEP * REACH + 1):
                c = [arb(c) for c in [*SERIES[name][0](arb_series([arb(k) / STEP, 1])).coeffs(), *[0] * terms][:terms]]
                high = [float(a) if a.rad() < 2.0**-150 else math.nan for a in c]
                rows.append([*high, *(float(a - arb(b)) for a, b in zip(c[:lows], high, strict=False))])
            return np.ascontiguousarray(np.array(rows).T)
    finally:
        ctx.cap = cap


def activate(name: str, pair: Any, first: float, second: float, z: Near) -> tuple[Near, Near]:
    """Return σ(z) and σ'(z); `pair` computes both in balls, `first` and `second` are bounds of |σ'| and |σ''|."""
    mid, low = z.mid.reshape(-1), None if z.low is None else z.low.reshape(-1)
    found = np.empty((4 if low is None else 6, z.size))  # value, slope, their errors, and their low parts
    inside = np.abs(mid) <= REACH if name in SERIES else np.zeros(z.size, bool)
    for start in range(0, z.size if name in SERIES else 0, BLOCK):
        at = slice(start, start + BLOCK)
        centre, within = np.where(inside[at], mid[at], 0), None if low is None else np.where(inside[at], low[at], 0)
        found[:, at] = _polynomial(name, centre) if within is None else _fine(name, centre, within)
    with ctx.workprec(ctx.prec if low is None else 256):
        for i in np.flatnonzero(~inside):
            for k, ball in enumerate(pair(arb(float(mid[i])) + (0 if low is None else arb(float(low[i]))))):
                near = close(ball) if low is None else fine(ball)
                found[k : k + 5 : 2, i] = (near.mid, near.rad) if low is None else (near.mid, near.rad, near.low)
    value, slope, off, bend, *lows = found.reshape(-1, *z.shape)
    rads = [(off + first * z.rad) * (1 + 8 * U) + TINY, (bend + second * z.rad) * (1 + 8 * U) + TINY]
    return Near(value, rads[0], *lows[:1]), Near(slope, rads[1], *lows[1:])


def _polynomial(name: str, z: np.ndarray) -> tuple[np.ndarray, ...]:
    r"""Return value, slope and their errors for |z| ≤ 40.

    By Cauchy's estimate the slope's coefficients are at most C. So with h = 1/128 what follows its last one, of degree
    8, is at most C h^9 / (1 − h), and h times that bounds the value's. Coefficients are rounded by u of their size,
    each step of Horner's rule by u of what it adds up; all but the constant terms are at most C h / (1 − h)².
    """
    table, bound, h = taylor(name), SERIES[name][1], 1 / (2 * STEP)
    k = np.rint(z * STEP)
    at, d = k.astype(np.int64) + STEP * REACH, z - k / STEP  # the difference is exact
    value = table[-1][at]
    slope = (TERMS - 1) * value
    for j in range(TERMS - 2, 0, -1):
        c = table[j][at]
        value, slope = value * d + c, slope * d + j * c
    value = value * d + table[0][at]
    rest = bound * h ** (TERMS - 1) / (1 - h)
    rounding = 8 * U * bound * h
    return value, slope, 3 * U * np.abs(value) + rounding + h * rest, 4 * U * np.abs(slope) + rounding + rest


def _fine(name: str, z: np.ndarray, low: np.ndarray) -> tuple[np.ndarray, ...]:
    r"""Return value, slope, their errors and their low parts for |z| ≤ 40.

    As above, with h = 1/128 + 2^-40 because of the low part. What `double.horner` loses, with u² = V/64 and 9
    coefficients in double-double, is below V C for the slope, and below V (|value| + h C) for the value.
    """
    table, bound, h = taylor(name, FINE, LOWS), SERIES[name][1], 1 / (2 * STEP) + 2.0**-40
    k = np.rint(z * STEP)
    d = double.two_sum(z - k / STEP, low)
    (value, tail), (slope, end) = double.horner(table[:FINE], table[FINE:], k.astype(np.int64) + STEP * REACH, *d)
    rest = bound * h ** (FINE - 1) / (1 - h)
    off = double.V * (np.abs(value) + h * bound) + h * rest
    return value, slope, off, np.full(z.shape, double.V * bound + rest), tail, end
