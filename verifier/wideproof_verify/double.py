r"""Arrays of double-doubles: each number is the sum of two float64 numbers, high + low, with |low| ≤ u |high|.

As + − × round to nearest, `two_sum` (Knuth) and `two_product` (Veltkamp, Dekker) return the rounded result and its
error, exactly; the second but for underflow: where |ab| < 2^-968 everything in it stays below 2^-960. What each
operation loses is proved where it stands and is at most the unit V = 2^-100 = 64 u² of the result, u = 2^-53, plus
`TINY` wherever something is multiplied. Every operation ends with `two_sum` (or a product by a power of two after it),
so a low part that is not a number makes the high part not a number as well.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import numpy as np

BLOCK, SMALL = 1 << 15, 8  # numbers of a block that stays near the processor, and the least rows of one in products
CORES = os.cpu_count() or 1
U, V, TINY = math.ldexp(1.0, -53), math.ldexp(1.0, -100), 1e-280
Pair = tuple[np.ndarray, np.ndarray]


def blocks(shape: tuple[int, ...], least: int = 1) -> Iterator[slice]:
    """Yield slices of the first axis of about `BLOCK` entries each, and `least` rows."""
    step = max(least, BLOCK * shape[0] // max(1, math.prod(shape)))
    return (slice(start, start + step) for start in range(0, shape[0], step))


def each(work: Callable[[slice], None], parts: Iterable[slice], short: bool = False) -> None:
    """Do some work on every part, in threads unless it is short: no two parts may write to one place."""
    parts = list(parts)
    if CORES == 1 or len(parts) <= CORES or short:
        for part in parts:
            work(part)
        return
    with ThreadPoolExecutor(CORES) as pool:
        for done in [pool.submit(copy_context().run, work, part) for part in parts]:
            done.result()


def two_sum(a: np.ndarray, b: np.ndarray) -> Pair:
    """Return s and e with s + e = a + b; |e| ≤ u |s|."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def split(a: np.ndarray) -> Pair:
    """Return two numbers of 26 bits whose sum is `a`."""
    t = a * 134217729.0  # 2^27 + 1
    high = t - (t - a)
    return high, a - high


def two_product(a: np.ndarray, b: np.ndarray, cut: Pair | None = None) -> Pair:
    """Return p and e with p + e = ab; `cut` is `split(a)`."""
    p, (ah, al), (bh, bl) = a * b, cut or split(a), split(b)
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def add(a: np.ndarray, al: np.ndarray, b: np.ndarray, bl: np.ndarray) -> Pair:
    r"""Return a + al + b + bl within 8u² of the result.

    Let (s, e) be the sum of the high parts and (t, f) that of the low ones. Two sums are rounded: e + t, and what is
    left of s + (e + t), called g, plus f. If the high parts have opposite signs and differ by at most a factor 2, then
    e = 0 and the first is exact. If besides s and t do likewise, then g = 0 and the second is exact too; if not, then
    |t| ≤ 2 |s + t|, and so the second loses u |g + f| ≤ u (u + 2u) |s + t|. In all other cases |t| ≤ 4.1 u |s|, and
    both lose at most u (u + 4.1 u) |s| + u (1.1 u) |s|. Sums do not underflow.
    """
    (s, e), (t, f) = two_sum(a, b), two_sum(al, bl)
    s, e = two_sum(s, e + t)
    return two_sum(s, e + f)


def multiply(a: np.ndarray, al: np.ndarray, b: np.ndarray, bl: np.ndarray) -> Pair:
    """Return (a + al)(b + bl) within 9u² of the result.

    Of |ab|, at most u² are left out (al bl), and the four roundings lose u² + u² (both products), 2u² (their sum, at
    most 2u) and 3u² (the sum with e, at most 3u).
    """
    p, e = two_product(a, b)
    return two_sum(p, e + (a * bl + al * b))


def slice_bits(k: int) -> int:
    """Return β such that k products of whole numbers up to 2^β add up to at most 2^53."""
    return (53 - (k - 1).bit_length()) // 2 if k > 1 else 26


def _cut(a: np.ndarray, low: np.ndarray | None, bits: int, count: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Cut the rows into whole numbers: a + low = Σ_j part_j 2^(−j bits) scale, up to 0.51 of the last one's unit.

    All differences are exact. What is left is at most 1/2 of a unit, or 1/2 + u 2^bits with low parts, so
    |part_1| ≤ 2^bits and |part_j| ≤ 0.51 · 2^bits for j > 1. There are fewer parts if nothing is left.
    """
    scale = np.ldexp(1.0, np.frexp(np.abs(a).max(axis=1, keepdims=True, initial=0.0))[1])
    rest, tail, parts = a / scale, None if low is None else low / scale, []
    while len(parts) < count and rest.any():
        rest = np.ldexp(rest, bits)
        parts.append(np.rint(rest))
        rest = rest - parts[-1]
        if tail is not None:
            rest, tail = two_sum(rest, np.ldexp(tail, bits))
    return parts, scale


def sliced(
    a: np.ndarray, al: np.ndarray | None, b: np.ndarray, bl: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Return (a + al)(b + bl)ᵀ as high and low parts, and how far off it may be, for up to 4096 columns.

    With k columns, n slices of β ≥ 20 bits and all rows scaled to at most 1, products of slices are whole numbers up to
    k 4^β ≤ 2^53, exact in any order. Those of slices i + j > n + 1 are left out: slice i times what follows slice
    n + 1 − i, in all at most k 2^(−nβ) (0.51 + 0.51 + 0.26 (n − 1)). The others are added up from the smallest order to
    the largest. Every partial sum is at most M = k 4^β (1.2 + 0.27n), so every error e is at most uM, the sum of these,
    `low`, at most 1.1 n u M, and each of its at most n roundings in one order loses u times that; but orders after the
    first count 2^-β or less, and the first has one rounding: u times the last e and 2^-β of the former `low`.
    """
    if len(a) < len(b):
        high, low, rad = sliced(b, bl, a, al)
        return high.T, low.T, rad.T
    k, bits = a.shape[1], slice_bits(a.shape[1])
    n = -(-104 // bits)
    (others, right), found = _cut(b, bl, bits, n), np.empty((3, len(a), len(b)))

    def block(at: slice) -> None:
        parts, left = _cut(a[at], None if al is None else al[at], bits, n)
        found[:, at] = _added(parts, others, left * right[:, 0], k, bits)

    each(block, blocks((len(a), max(k, len(b))), SMALL))
    high, low, rad = found
    return high, low, rad


def _added(
    parts: list[np.ndarray], others: list[np.ndarray], unit: np.ndarray, k: int, bits: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Add up the orders of a product, as `sliced` says."""
    n, step = -(-104 // bits), math.ldexp(1.0, -bits)
    high, low = np.zeros(unit.shape), np.zeros(unit.shape)
    for order in reversed(range(n)):
        high, low = high * step, low * step
        for i in range(max(0, order + 1 - len(others)), min(order + 1, len(parts))):
            high, e = two_sum(high, parts[i] @ others[order - i].T)
            low += e
    high, low = two_sum(high, low)
    rest = k * (1.2 + 0.27 * n) * (math.ldexp(1.0, -n * bits) + 3 * n * n * step * U * U)
    rad = (V * np.abs(high) * (step * step) + rest) * unit * (1 + 8 * U) + TINY
    return high * (step * step) * unit, low * (step * step) * unit, rad


def horner(table: np.ndarray, lows: np.ndarray, k: np.ndarray, d: np.ndarray, dl: np.ndarray) -> tuple[Pair, Pair]:
    r"""Return Σ c_j d^j and its derivative; c_j is `table[j, k]` plus, for the first few j, `lows[j, k]`.

    Let |c_j| ≤ C/j for j ≥ 1 and |d| ≤ h ≤ 1/127. With q_j = Σ_(i≥j) c_i d^(i−j), which is c_j + d q_(j+1), and
    q_j' = q_(j+1) + d q_(j+1)', all but q_0 are at most B = 1.01 C. The steps without low parts lose at most 4uC in
    all. In the others a new low part is the sum of an error ≤ u (C + hB), a coefficient's or the other's low part, and
    some at most h times so large: it stays below 4uC. So its two roundings that are not h times smaller lose at most
    8u²C, h times more is left out or lost in products, coefficients are off by 2u²C, and errors from before count h
    times, those of q_(j+1) in q_j' once: each q_j, j ≥ 1, is within 13u²C, and each q_j' within 27u²C, apart from what
    was lost without low parts. That counts h^m in the value and m h^(m−1) + h^m in the slope, m = len(lows). The last
    step of the value loses 5u² (|c_0| + 2hB) more.
    """
    m, value, slope = len(lows), table[-1][k], np.zeros(d.shape)
    for j in range(len(table) - 2, m - 1, -1):
        value, slope = value * d + table[j][k], slope * d + value
    cut, low, tail = split(d), np.zeros(d.shape), np.zeros(d.shape)
    for j in range(m - 1, -1, -1):
        s, e = two_product(d, slope, cut)
        s, f = two_sum(value, s)
        slope, tail = s, f + (e + (d * tail + dl * slope) + low)
        s, e = two_product(d, value, cut)
        s, f = two_sum(table[j][k], s)
        value, low = s, f + (e + (d * low + dl * value) + lows[j][k])
    return two_sum(value, low), two_sum(slope, tail)
