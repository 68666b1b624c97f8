"""What a judgement may cost, and whether this machine may judge at all.

The self-test asks of this machine what the bounds suppose of every machine. Costs are estimated from the sizes in the
files before anything is computed; the time is looked at again while it runs (`refusals.check`).
"""

import math
import os
from functools import cache
from typing import NamedTuple

import numpy as np

from wideproof_verify.certificate import Certificate
from wideproof_verify.passes import DENSE
from wideproof_verify.refusals import NotJudgedError

HOUR = 3600.0
# Seconds of this kind of machine, generous: one product of float64 numbers, of Arb's, one operation of small arrays.
PRODUCT, BALL, CALL = 4e-10, 1.2e-7, 2e-6


class Cost(NamedTuple):
    """Seconds and bytes, about."""

    seconds: float
    memory: float

    def __str__(self) -> str:
        return f"about {said(self.seconds)} and {self.memory / 2**30:.2g} GiB"


def said(seconds: float) -> str:
    """Return seconds in words."""
    for size, unit in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.2g} seconds"


def memory_here() -> float:
    """Return three quarters of this machine's memory, in bytes; 8 GiB where it does not say."""
    try:
        return 0.75 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 8.0 * 2**30


def require_within(cost: Cost, seconds: float, memory: float) -> None:
    """Raise `NotJudgedError` if what is estimated is more than what is allowed."""
    for found, most, option in ((cost.seconds, seconds, "--time"), (cost.memory, memory, "--memory")):
        if not found <= most:
            limit = said(seconds) if option == "--time" else f"{memory / 2**30:.3g} GiB"
            raise NotJudgedError(f"it would take {cost}, and {limit} is allowed: allow more with {option}")


def cost(c: Certificate, bits: int) -> Cost:
    """Return seconds and bytes for a proof in so many bits (53: float64)."""
    if c.theorem == "impossible":
        return Cost(0.1 + CALL * c.targets.size, 16.0 * c.x.size)
    net, n = c.network, len(c.x)
    float64 = bits == 53
    size = 1.0 if float64 else bits / 128
    unit = 8 * PRODUCT if float64 else BALL * size  # six to eight products of slices
    each = 32.0 if float64 else 250.0 * size  # bytes of a number in use
    spots = [math.prod(grid) for grid, _ in net.sizes[net.inputs :]]
    values = sum(units * math.prod(grid) for grid, units in net.sizes)
    work = sum(math.prod(net.layouts[t.weight][1:]) * spots[k] for k, t in net.terms() if t.weight)
    rows = net.outputs * len(net.sites)
    once = n * work * unit  # one pass forward
    passes, memory = once * (1 + 2 * rows), each * n * values * (3 + 3 * rows)
    if c.theorem in ("fit", "finite"):
        passes, memory = once, each * n * values * 3
    else:
        total = rows * n  # of the Jacobian
        lean = float64 and total > DENSE and net.read_out in net.trained and net.outputs > 1
        count = n if lean else total
        widths = sum(sum(net.layouts[name][1:]) for name in net.trained)
        passes += count * count * widths * unit + count**3 * (3 * PRODUCT if float64 else 4 * BALL * size)
        memory += each * count * count * (0.5 if count > DENSE else 2)
        radii = len(c.claims.get("radii", ()))
        passes += radii * len(net.nodes) * len(net.trained) * n * 40 * CALL
        if c.sharp:
            pushed = sum(math.prod(net.layouts[name][1:]) for name in net.hidden) * len(net.nodes)
            passes += n * pushed * values * unit
    weights = sum(math.prod(shape[1:]) * min(shape[1:]) for shape in net.layouts.values())
    passes += weights * (20 * PRODUCT if float64 else 20 * PRODUCT + BALL)
    if "batch" in c.claims and "partition" not in c.claims:
        passes += n * n * 20 * CALL
    if c.start is not None:
        passes += _steps(c, once / n / unit, rows, len(net.nodes))
        memory += 64.0 * n * values * (4 + 2 * rows)
    return Cost(0.5 + passes, 2**27 + memory + 4.0 * 8 * sum(w.size for w in c.weights.values()))


def _steps(c: Certificate, work: float, rows: int, nodes: int) -> float:
    """Return seconds for the steps from a start: growth each time, and the arithmetic that the bits ask for."""
    assert c.start is not None
    n = len(c.x) if c.start.batches is None else c.start.batches.shape[1]
    growth = n * work * (4 + 4 * rows) * 8 * PRODUCT + (rows * n) ** 2 * 60 * PRODUCT * (1 + rows * n / 100)
    growth += nodes * len(c.network.trained) * 150 * CALL
    fine = n * work * 3 * 40 * PRODUCT
    balls = n * work * 3 * BALL + sum(w.size for w in c.weights.values()) * CALL
    total = 0.0
    for bits in c.start.bits:
        total += growth + (0 if bits < 45 else fine if bits < 90 else balls * max(1.0, bits / 128))
    return total


@cache
def self_test() -> None:
    """Raise `NotJudgedError` unless float64 rounds to nearest, has subnormals, and BLAS adds whole numbers exactly."""
    one, u, least = np.ones(8), math.ldexp(1.0, -53), math.ldexp(1.0, -1074)
    nearest = (one + u == 1).all() and (one + 3 * u == 1 + 4 * u).all() and (-one - 3 * u == -1 - 4 * u).all()
    rooted = (np.sqrt(np.full(8, 2.0)) == float.fromhex("0x1.6a09e667f3bcdp+0")).all()
    third = (np.full(8, 1.0) / 3.0 == float.fromhex("0x1.5555555555555p-2")).all()
    faint = (np.full(8, least) * 1.0 == least).all() and (np.full(8, 2 * least) * 0.5 == least).all()
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-(2**23), 2**23, size) for size in ((96, 64), (64, 80)))  # sums below 64 · 2^46 = 2^52
    whole = (a.astype(object) @ b.astype(object)).astype(np.float64)
    exact = np.array_equal(a.astype(np.float64) @ b.astype(np.float64), whole)
    turned = np.array_equal(a.T.astype(np.float64).T @ np.ascontiguousarray(b.T).astype(np.float64).T, whole)
    for holds, what in (
        (nearest, "float64 does not round to nearest"), (rooted and third, "√ or ÷ of float64 is not rounded"),
        (faint, "float64 has no subnormal numbers here"), (exact and turned, "products of whole numbers are not exact"),
    ):  # fmt: skip
        if not holds:
            raise NotJudgedError(f"this machine failed the self-test: {what}")
