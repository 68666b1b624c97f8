r"""Arrays of float64 numbers, each with a bound of how far off it may be: `Floats`.

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
from wideproof_verify.double import SMALL, TINY, U, blocks, each
from wideproof_verify.functions import ACTIVATIONS, ENDS

MOST = 4096
TALL = 64  # rows of a block in products of matrices where both have so many rows or more
FAINT = 1e-150  # far above the root of every sum of squares that underflowed
STRUCTURE = (np.concatenate, np.stack, np.moveaxis, np.broadcast_to)
_ball: Any = np.frompyfunc(arb, 1, 1)
_far: Any = np.frompyfunc(arb.abs_upper, 1, 1)


def up(count: int) -> float:
    """A factor that covers the rounding of sums of so many numbers of one sign, and of some operations around."""
    return 1 + 2 * (count + 16) * U


class Floats:
    """Numbers within `rad` of `mid`, or of `mid` + `low`, entry by entry; supports what passes do with arrays of balls.

    With `low`, the mid must be `mid` + `low` rounded to nearest. What is fine stays so, whatever it meets. Sums are of
    arrays of one shape, products of arrays with as many axes: nothing is broadcast that is not written out.
    """

    __array_priority__ = 1000

    def __init__(self, mid: np.ndarray, rad: np.ndarray | None = None, low: np.ndarray | None = None):
        self.mid, self.rad = mid, np.zeros_like(mid) if rad is None else rad
        self.low = low
        self.shape, self.ndim, self.size, self.dtype = mid.shape, mid.ndim, mid.size, None

    def moved(self, change: Any) -> "Floats":
        """Apply what only moves, repeats or drops entries."""
        return Floats(change(self.mid), change(self.rad), None if self.low is None else change(self.low))

    def __len__(self) -> int:
        return len(self.mid)

    def __getitem__(self, at: Any) -> "Floats":
        return self.moved(lambda a: a[at])

    def reshape(self, *shape: Any) -> "Floats":
        """Return the entries in another shape."""
        return self.moved(lambda a: a.reshape(*shape))

    def transpose(self, *axes: Any) -> "Floats":
        """Return the axes in another order."""
        return self.moved(lambda a: a.transpose(*axes))

    def swapaxes(self, i: int, j: int) -> "Floats":
        """Exchange two axes."""
        return self.moved(lambda a: a.swapaxes(i, j))

    def ravel(self) -> "Floats":
        """Return the entries in one row."""
        return self.reshape(-1)

    @property
    def T(self) -> "Floats":
        """The matrix turned round."""
        return self.transpose()

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function not in STRUCTURE:
            return NotImplemented

        def part(a: Any, k: int) -> Any:
            if isinstance(a, list):
                return [part(b, k) for b in a]
            return (a.mid, a.rad, _low(a))[k] if isinstance(a, Floats) else a

        def fine(a: Any) -> bool:
            return any(map(fine, a)) if isinstance(a, list) else isinstance(a, Floats) and a.low is not None

        return Floats(*(function(*(part(a, k) for a in args), **kwargs) for k in range(3 if fine(list(args)) else 2)))

    def __add__(self, other: Any) -> "Floats":
        if type(other) is int:  # the 0 that a sum begins with
            return self
        if self.shape != other.shape:
            raise ValueError(f"arrays of the shapes {self.shape} and {other.shape} are not added")
        if self.low is not None or other.low is not None:
            mid, low = double.add(self.mid, _low(self), other.mid, _low(other))
            return Floats(mid, (self.rad + other.rad + double.V * np.abs(mid)) * (1 + 8 * U), low)
        mid = self.mid + other.mid
        return Floats(mid, (self.rad + other.rad + U * np.abs(mid)) * (1 + 8 * U))

    __radd__ = __add__

    def __neg__(self) -> "Floats":
        return Floats(-self.mid, self.rad, None if self.low is None else -self.low)

    def __sub__(self, other: "Floats") -> "Floats":
        return self + -other

    def __mul__(self, other: Any) -> "Floats":
        other = other if isinstance(other, Floats) else from_balls(other, self.low is not None)
        if self.ndim != other.ndim and other.ndim:
            raise ValueError(f"arrays of the shapes {self.shape} and {other.shape} are not multiplied")
        if self.low is None and other.low is None:
            return _times(self, other)
        mid, low = double.multiply(self.mid, _low(self), other.mid, _low(other))
        rad = np.abs(self.mid) * other.rad + self.rad * (np.abs(other.mid) + other.rad) + double.V * np.abs(mid) + TINY
        return Floats(mid, rad * (1 + 8 * U), low)

    __rmul__ = __mul__

    def sum(self, axis: Any) -> "Floats":
        """Return sums along axes, added up in any order; fine ones by halves."""
        axes = axis if isinstance(axis, tuple) else (axis,)
        if self.low is not None:
            first = self.moved(lambda a: np.moveaxis(a, axes, range(len(axes))))
            a: Any = first.reshape(-1, *first.shape[len(axes) :])
            while len(a) > 1:
                half, odd = divmod(len(a), 2)
                both = a[:half] + a[half : 2 * half]
                a = np.concatenate([both, a[-1:]]) if odd else both
            return a[0] if len(a) else Floats(np.zeros(a.shape[1:]), None, np.zeros(a.shape[1:]))
        count = math.prod(self.shape[k] for k in axes)
        if count == 1:
            return self.moved(lambda a: a.squeeze(axis))
        mid = self.mid.sum(axis=axis)
        rad = (self.rad + 2 * count * U * np.abs(self.mid)).sum(axis=axis) * up(count) + TINY
        return Floats(mid, rad)

    def largest(self) -> np.ndarray:
        """Upper bounds of the absolute values."""
        return (np.abs(self.mid) + (self.rad if self.low is None else self.rad + np.abs(self.low))) * (1 + 4 * U)

    def plain(self) -> "Floats":
        """The same numbers without low parts."""
        return self if self.low is None else Floats(self.mid, (self.rad + np.abs(self.low)) * (1 + 4 * U))

    def exact(self) -> "Floats":
        """The centres, with radii 0."""
        return Floats(self.mid, None, self.low)

    def balls(self) -> Any:
        """Return balls that hold the numbers, with the same centres, as an array of Arb's."""
        with ctx.workprec(2200):  # more than the bits of any sum of two float64 numbers
            return _ball(self.mid) + _ball(_low(self)) + np.frompyfunc(arb, 2, 1)(np.zeros(self.shape), self.rad)


def _times(a: Floats, b: Floats) -> Floats:
    """Return the products entry by entry without low parts."""
    shape = np.broadcast_shapes(a.shape, b.shape)
    mid, rad = np.empty(shape), np.empty(shape)
    for at in blocks(shape) if shape else (...,):
        am, ar, bm, br = (c[at] if c.ndim and len(c) > 1 else c for c in (a.mid, a.rad, b.mid, b.rad))
        m, r = np.multiply(am, bm, out=mid[at]), np.multiply(np.abs(am), br, out=rad[at])
        r += ar * (np.abs(bm) + br)
        r += U * np.abs(m)
        r += TINY
        r *= 1 + 8 * U
    return Floats(mid, rad)


def summed(a: Floats, b: Floats) -> Floats:
    """Return (a b).sum(axis=1) of numbers without low parts; `b` is the same along the first axis."""
    shape = np.broadcast_shapes(a.shape, b.shape)
    mid, rad = np.empty((2, shape[0], *shape[2:]))
    for at in blocks(shape):
        part = (a[at] * b).sum(axis=1)
        mid[at], rad[at] = part.mid, part.rad
    return Floats(mid, rad)


def _low(a: Floats) -> np.ndarray:
    return np.zeros(a.shape) if a.low is None else a.low


def from_balls(values: Any, fine: bool = False) -> Floats:
    """Return balls as float64 numbers, or as double-doubles, with radii."""
    balls, low = np.asarray(values, dtype=object), None
    with ctx.workprec(2200):
        mid = balls.astype(np.float64)
        rest = balls - _ball(mid)
        if fine:
            mid, low = double.two_sum(mid, np.asarray(rest).astype(np.float64))
            rest = balls - _ball(mid) - _ball(low)
        far = np.asarray(_far(rest), dtype=object)
        none, size = np.asarray(far == 0, dtype=bool), far.astype(np.float64)
        return Floats(mid, np.where(none, 0.0, np.nextafter(size, np.inf)), low)


def lengths(a: Floats, axis: Any, less: Floats | None = None) -> Any:
    """Return upper bounds of the Euclidean norms along `axis`, of `a` or of `a` − `less`."""
    if less is not None and a.shape != less.shape:
        raise ValueError(f"arrays of the shapes {a.shape} and {less.shape} are not compared")
    mid = a.mid if less is None else a.mid - less.mid
    rest = [b for c in (a, less) if c is not None for b in (c.rad, c.low) if b is not None]
    kept = [k for k in range(a.ndim) if axis is not None and k not in np.atleast_1d(axis) % a.ndim]
    total = sum(np.sqrt(np.einsum(b, range(a.ndim), b, range(a.ndim), kept)) for b in (mid, *rest))
    return total * up(a.size // max(1, np.size(total))) + FAINT


def _long(a: np.ndarray, axis: int) -> np.ndarray:
    """Return upper bounds of the Euclidean norms of rows (1) or columns (0), also with low parts."""
    return np.sqrt(np.einsum(a, [0, 1], a, [0, 1], [1 - axis])) * up(a.shape[axis]) + FAINT


def slices(a: np.ndarray, bits: int, order: tuple[int, ...] = (0, 1, 2)) -> tuple[np.ndarray, np.ndarray]:
    """Cut the rows of `a` into whole numbers: a = Σ_j part_j 2^(−j bits) scale, up to half a unit of the last.

    The parts stand side by side, the j-th at place `order[j]`.
    """
    scale = np.ldexp(1.0, np.frexp(np.abs(a).max(axis=1, keepdims=True, initial=0.0))[1])
    rest, unit, k = a / scale, math.ldexp(1.0, bits), a.shape[1]
    parts = np.empty((len(a), 3 * k))
    for j in order:
        rest *= unit
        rest -= np.rint(rest, out=parts[:, j * k : (j + 1) * k])
    return parts, scale


def product(a: Floats, b: Floats) -> Floats:
    """Return the matrix product, as many columns at a time as stay exact."""
    if a.shape[1] != b.shape[0]:
        raise ValueError(f"matrices of the shapes {a.shape} and {b.shape} are not multiplied")
    total: Any = 0
    for first in range(0, max(1, a.shape[1]), MOST):
        left, right = a[:, first : first + MOST], b[first : first + MOST].T
        if left.low is None and right.low is None:
            total = _sliced(left.mid, right.mid) + total
        else:
            mid, low, rad = double.sliced(left.mid, left.low, right.mid, right.low)
            total = Floats(mid, rad, low) + total
    rad = total.rad + TINY
    if b.rad.any():
        rad += np.multiply.outer(_long(a.mid, 1), _long(b.rad, 0)) * (1 + 8 * U)
    if a.rad.any():
        rad += np.multiply.outer(_long(a.rad, 1), _long(b.mid, 0) + _long(b.rad, 0)) * (1 + 8 * U)
    rad *= 1 + 4 * U
    return Floats(total.mid, rad, total.low)


def rough(a: Floats, b: Floats) -> Floats:
    """Return the matrix product by float64 alone, for bounds: k products added in any order are off by 2ku Σ|ab|."""
    a, b = a.plain(), b.plain()
    rows, columns, far, off = _long(a.mid, 1), _long(b.mid, 0), _long(a.rad, 1), _long(b.rad, 0)
    rad = np.multiply.outer(rows, off + 2 * (a.shape[1] + 16) * U * columns) + np.multiply.outer(far, columns + off)
    return Floats(a.mid @ b.mid, rad * (1 + 16 * U) + TINY)


def _sliced(a: np.ndarray, b: np.ndarray) -> Floats:
    """A bᵀ: with 3 slices each, the sums of the first two orders are whole numbers up to 2^53, and so exact."""
    k, bits = a.shape[1], double.slice_bits(a.shape[1])
    if a.ctypes.data == b.ctypes.data and a.shape == b.shape and a.strides == b.strides:  # one array, seen twice
        parts, scale = slices(a, bits)
        a1, a2, a3 = (parts[:, j * k : (j + 1) * k] for j in range(3))
        second, third = a1 @ a2.T, a1 @ a3.T
        return Floats(*_total(a1 @ a1.T, second + second.T, third + third.T + a2 @ a2.T, scale * scale[:, 0], k, bits))
    if len(a) < len(b):
        return _sliced(b, a).T
    (few, right), mid, rad = slices(b, bits, (2, 1, 0)), np.empty((len(a), len(b))), np.empty((len(a), len(b)))
    for at in blocks((len(a), max(3 * k, len(b))), SMALL if len(b) < TALL else max(TALL, min(k // 4, 4 * TALL))):
        many, left = slices(a[at], bits)
        first, second, third = (many[:, : j * k] @ few[:, (3 - j) * k :].T for j in (1, 2, 3))
        mid[at], rad[at] = _total(first, second, third, left * right[:, 0], k, bits)
    return Floats(mid, rad)


def _total(
    first: np.ndarray, second: np.ndarray, third: np.ndarray, unit: np.ndarray, k: int, bits: int
) -> tuple[np.ndarray, np.ndarray]:
    """Add up the three orders of a product, and bound what they leave out: with slices of β bits,

    1.5 k 2^−3β and less of higher order; two roundings, of u each; and those of the third order, each at most 1 in
    units of 2^−4β, since its sums stay below 2^54.
    """
    step = math.ldexp(1.0, -bits)
    third *= step
    second += third
    second *= step
    first += second
    rest = (1.6 * k * step * step * step + 8 * k * step * U) * (1 + 8 * U)
    first *= step * step
    rad = np.abs(first)
    rad *= 3 * U
    rad += rest
    rad *= unit
    rad *= 1 + 8 * U
    rad += TINY
    first *= unit
    return first, rad


STEP, REACH, TERMS = 64, 40, 10
FINE, LOWS = 17, 9  # terms of a fine polynomial, and how many of its coefficients have low parts


@lru_cache(maxsize=32)
def taylor(name: str, terms: int = TERMS, lows: int = 0) -> np.ndarray:
    """Return the Taylor coefficients around k/64, |k| ≤ 64·40, one degree a row, then low parts of the first ones."""
    cap, ctx.cap, rows, least = ctx.cap, terms, [], arb(2) ** -150
    series = ACTIVATIONS[name].series
    assert series is not None
    try:
        with ctx.workprec(256):
            for k in range(-STEP * REACH, STEP * REACH + 1):
                c = [arb(c) for c in [*series(arb_series([arb(k) / STEP, 1])).coeffs(), *[0] * terms][:terms]]
                high = [float(a) if a.rad() < least else math.nan for a in c]
                rows.append([*high, *(float(a - arb(b)) for a, b in zip(c[:lows], high, strict=False))])
            return np.ascontiguousarray(np.array(rows).T)
    finally:
        ctx.cap = cap


def activate(name: str, z: Floats) -> tuple[Floats, Floats]:
    """Return σ(z) and σ'(z): by polynomials, by what they tend to where they have an end, and by balls else."""
    own, (first, second) = ACTIVATIONS[name], ACTIVATIONS[name].floats
    mid, low = z.mid.reshape(-1), None if z.low is None else z.low.reshape(-1)
    reach = reach_of(name, low is not None)
    found = np.empty((4 if low is None else 6, z.size))  # value, slope, their errors, and their low parts
    inside = np.zeros(z.size, bool)

    def block(at: slice) -> None:
        inside[at] = known = np.abs(mid[at]) <= reach  # what is no number is not
        some, here = slice(None) if known.all() else known, found[:, at]
        here[:, some] = _polynomial(name, mid[at][some]) if low is None else _fine(name, mid[at][some], low[at][some])
        if name in ENDS and some is known:
            inside[at] |= _ends(name, mid[at], None if low is None else low[at], here)

    if own.series:
        taylor(name, *(() if low is None else (FINE, LOWS)))  # in balls, whose bits all threads share
        each(block, blocks((z.size,)), low is None)
    if not inside.all():
        _by_balls(own.both, mid, low, ~inside, found)
    far = z.rad.reshape(-1)
    for at in blocks((z.size,)):
        for most, off in ((first, found[2, at]), (second, found[3, at])):
            off += most * far[at]
            off *= 1 + 8 * U
            off += TINY
    value, slope, off, bend, *lows = found.reshape(-1, *z.shape)
    return Floats(value, off, *lows[:1]), Floats(slope, bend, *lows[1:])


def reach_of(name: str, fine: bool = False) -> float:
    """Return up to which |z| polynomials are used: not where an activation is known by its ends."""
    _, near, far = ENDS.get(name, ("", (REACH,), (REACH,)))
    return min(REACH, (far if fine else near)[0])


def _ends(name: str, mid: np.ndarray, low: np.ndarray | None, found: np.ndarray) -> np.ndarray:
    """Fill what is known of numbers beyond the ends, where they are finite; return where."""
    kind, near, far = ENDS[name]
    least, *off = near if low is None else far
    at = (np.abs(mid) > least) & np.isfinite(mid)
    sign, zero = np.sign(mid[at]), np.zeros(int(at.sum()))
    step = (1 + sign) / 2
    value, slope = {"sign": (sign, zero), "step": (step, zero), "ramp": (step * mid[at], step)}[kind]
    found[:4, at] = value, slope, zero + off[0], zero + off[1]
    if low is not None:
        found[4:, at] = step * low[at] if kind == "ramp" else zero, zero
    return at


def _by_balls(both: Any, mid: np.ndarray, low: np.ndarray | None, at: np.ndarray, found: np.ndarray) -> None:
    """Fill what no polynomial reaches, number by number."""
    with ctx.workprec(ctx.prec if low is None else 256):
        point = _ball(mid[at]) if low is None else _ball(mid[at]) + _ball(low[at])
        for k, ball in enumerate(np.frompyfunc(both, 1, 2)(point)):
            exact = from_balls(ball, low is not None)
            found[k : k + 5 : 2, at] = (exact.mid, exact.rad) if low is None else (exact.mid, exact.rad, exact.low)


def _power(h: float, n: int) -> float:
    """An upper bound of h^n."""
    found = 1.0
    for _ in range(n):
        found *= h * (1 + 4 * U)
    return found


def _polynomial(name: str, z: np.ndarray) -> tuple[np.ndarray, ...]:
    r"""Return value, slope and their errors for |z| ≤ 40.

    By Cauchy's estimate the slope's coefficients are at most C. So with h = 1/128 what follows its last one, of degree
    8, is at most C h^9 / (1 − h), and h times that bounds the value's. Coefficients are rounded by u of their size,
    each step of Horner's rule by u of what it adds up; all but the constant terms are at most C h / (1 − h)².
    """
    table, bound, h = taylor(name), ACTIVATIONS[name].strip, 1 / (2 * STEP)
    k = np.rint(z * STEP)
    at, d = k.astype(np.int64) + STEP * REACH, z - k / STEP  # the difference is exact
    value = table[-1][at]
    slope = (TERMS - 1) * value
    for j in range(TERMS - 2, 0, -1):
        c = table[j][at]
        value *= d
        value += c
        slope *= d
        slope += j * c
    value *= d
    value += table[0][at]
    rest = bound * _power(h, TERMS - 1) / (1 - h) * (1 + 8 * U)
    rounding = 8 * U * bound * h
    return value, slope, 3 * U * np.abs(value) + rounding + h * rest, 4 * U * np.abs(slope) + rounding + rest


def _fine(name: str, z: np.ndarray, low: np.ndarray) -> tuple[np.ndarray, ...]:
    r"""Return value, slope, their errors and their low parts for |z| ≤ 40.

    As above, with h = 1/128 + 2^-40 because of the low part. What `double.horner` loses, with u² = V/64 and 9
    coefficients in double-double, is below V C for the slope, and below V (|value| + h C) for the value.
    """
    table, bound, h = taylor(name, FINE, LOWS), ACTIVATIONS[name].strip, 1 / (2 * STEP) + math.ldexp(1.0, -40)
    k = np.rint(z * STEP)
    d = double.two_sum(z - k / STEP, low)
    (value, tail), (slope, end) = double.horner(table[:FINE], table[FINE:], k.astype(np.int64) + STEP * REACH, *d)
    rest = bound * _power(h, FINE - 1) / (1 - h) * (1 + 8 * U)
    off = double.V * (np.abs(value) + h * bound) + h * rest
    return value, slope, off, np.full(z.shape, double.V * bound + rest), tail, end


def rectified(z: Floats) -> tuple[Floats, Floats]:
    """Return max(z, 0) and its slope; a sign that is not known gives the slope [0, 1], an exact zero the slope 0."""
    open_ = (np.abs(z.mid) * (1 - 4 * U) <= z.rad) & (z.rad > 0)
    on = np.where(z.mid > 0, 1.0, 0.0)
    value = Floats(on) * z
    slope = Floats(np.where(open_, 0.5, on), np.where(open_, 0.5, 0.0))
    return Floats(value.mid, np.where(open_, 2 * z.largest(), value.rad), value.low), slope


def bent(name: str, z: Floats) -> Floats | None:
    """Return σ''(z), or `None` where only L2 is known.

    The coefficients of σ' around k/64 are at most C ≤ 3.5 (Cauchy): with h = 1/128 what follows degree 4 adds less than
    5.1 C h⁴ < 7e-8 to σ'', rounding less than 1e-13. Beyond its end each of them has |σ''| < 1e-15; the sine has none.
    """
    if ACTIVATIONS[name].bend is None:
        return None
    table, (_, most), third = taylor(name), ACTIVATIONS[name].floats, ACTIVATIONS[name].third
    mid, far = z.mid.reshape(-1), z.plain().rad.reshape(-1)
    value, off = np.empty(z.size), np.empty(z.size)
    for at in blocks((z.size,)):
        known = np.abs(mid[at]) <= reach_of(name)  # what is no number is not
        flat = ~known & np.isfinite(mid[at]) & (name in ENDS)
        some = slice(None) if known.all() else known
        inside = mid[at][some]
        k = np.rint(inside * STEP)
        place, d = k.astype(np.int64) + STEP * REACH, inside - k / STEP
        found = 20 * table[5][place]
        for j in range(4, 1, -1):
            found *= d
            found += j * (j - 1) * table[j][place]
        value[at] = 0.0
        value[at][some] = found
        off[at] = np.where(known | flat, 1e-7 + third * far[at] * (1 + 1e-9), most)
    return Floats(value.reshape(z.shape), off.reshape(z.shape))
