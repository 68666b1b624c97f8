"""What a judgement may cost, and whether this machine may judge at all.

The self-test asks of this machine what the bounds suppose of every machine. Costs are estimated from the sizes in the
files before anything is computed; the time is looked at again while it runs (`refusals.check`).
"""

import math
import os
from collections import Counter
from functools import cache
from typing import NamedTuple

import numpy as np

from wideproof_verify.certificate import Certificate
from wideproof_verify.maps import Patches
from wideproof_verify.passes import DENSE
from wideproof_verify.refusals import NotJudgedError, check
from wideproof_verify.tables import SQUARINGS

HOUR = 3600.0
# Seconds of this kind of machine, generous: one product of float64 numbers, of Arb's, one operation of small arrays.
PRODUCT, BALL, CALL = 1e-10, 1.2e-7, 2e-6


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
    net, n, float64 = c.network, len(c.x), bits == 53
    if c.theorem == "impossible":
        return Cost(0.1 + CALL * c.targets.size, 16.0 * c.x.size)
    unit, each = (8 * PRODUCT, 40.0) if float64 else (BALL * bits / 128, 400.0 * bits / 128)  # of a number in use
    spots = [math.prod(grid) for grid, _ in net.sizes[net.inputs :]]
    values = sum(units * math.prod(grid) for grid, units in net.sizes)
    work = sum(math.prod(net.layouts[t.weight][1:]) * spots[k] for k, t in net.terms() if t.weight)
    rows, once = net.outputs * len(net.sites), n * work * unit  # outputs of an example; one pass forward
    read = sum(
        t.phi.places * t.phi.features for _, t in net.terms() if isinstance(t.phi, Patches)
    )  # windows written out
    seconds, memory = 0.5 + once, each * n * (values * 3 + read)
    if c.theorem == "read_out":
        wide = net.layouts[net.read_out][2]
        seconds += (4 * n * wide * min(n, wide) + n * wide * rows) * unit
    elif c.theorem not in ("fit", "finite"):
        jacobian = _jacobian(c, rows, work, values, unit, each, float64)
        seconds, memory = seconds + 2 * rows * once + jacobian.seconds, memory + jacobian.memory
    for _, units, fan_in in net.layouts.values():
        seconds += units * fan_in * min(units, fan_in) * (20 * PRODUCT if float64 else unit)
    for _, t in net.terms():
        if isinstance(t.phi, Patches) and t.weight:  # a matrix for every frequency, a sum over the places of a window
            turns = math.prod(p + d * q for p, q, d in zip(t.phi.positions, t.phi.size, t.phi.dilation, strict=True))
            seconds += turns / 2 * (100 * CALL + t.phi.count * 5 * CALL + math.prod(net.layouts[t.weight][1:]) * BALL)
    if c.start is not None:
        tables = _tables(c, bits)
        seconds += _steps(c, work, rows, bits) + tables.seconds
        memory += 96.0 * n * values * (4 + 2 * rows) + tables.memory
    return Cost(seconds, 2**27 + memory + 32.0 * sum(w.size for w in c.weights.values()))


def _jacobian(c: Certificate, rows: int, work: float, values: int, unit: float, each: float, float64: bool) -> Cost:
    """Return what JJᵀ, its eigenvalues and Λ cost."""
    net, n = c.network, len(c.x)
    lean = float64 and rows * n > DENSE and net.read_out in net.trained and net.layouts[net.read_out][2] >= n
    count = n if lean and rows == net.outputs else rows * n
    sides = sum(sum(net.layouts[name][1:]) for name in net.trained)
    seconds = count**2 * sides * unit + count**3 * (4 * PRODUCT if float64 else unit)
    pairs = 0.0
    for name in net.hidden:  # gradients are paired position by position, or written out
        _, units, fan_in = net.layouts[name]
        places = n * sum(math.prod(net.sizes[net.inputs + k][0]) for k, _ in net.uses(name))
        paired = places**2 * fan_in + (rows * places) ** 2 * (units + 100)
        if paired <= rows * units * fan_in * (places + n * (rows * n + 200)):
            seconds, pairs = seconds + paired * unit, max(pairs, float(rows * places) ** 2)
    forms = len(net.nodes) * len(net.trained) * n * (40 + 6 * len(net.trained))
    seconds += len(c.claims["radii"]) * forms * CALL
    seconds += 20 * n * n * CALL if "batch" in c.claims else 0
    small = 400.0 * len(net.nodes) * len(net.trained) * n
    sharp = _sharp(c, unit, each, float64) if c.sharp else Cost(0.0, 0.0)
    memory = each * n * values * 3 * rows + each * (count**2 + pairs) + small
    return Cost(seconds + sharp.seconds, memory + sharp.memory)


def _sharp(c: Certificate, unit: float, each: float, float64: bool) -> Cost:
    """Return what the derivatives of all values by one weight cost, every entry of it at every place where it is used.

    Of one node they are a matrix, high × wide. It is formed from those before it, and its norm and that of its product
    with φ are taken; all nodes of one weight and one example are in memory together.
    """
    net, n = c.network, len(c.x)
    quick, seconds, memory = 2 * PRODUCT if float64 else unit, 0.0, 0.0
    uses: Counter[str | None] = Counter()  # places, in one pass: there may be many nodes and weights
    for k, t in net.terms():
        uses[t.weight] += math.prod(net.sizes[net.inputs + k][0])
    read = [[net.layouts[t.weight][1:] for t in v.terms if t.weight and t.value >= net.inputs] for v in net.nodes]
    work, fan = (np.array([float(found(sides)) for sides in read]) for found in (
        lambda sides: sum(map(math.prod, sides)), lambda sides: max((fan_in for _, fan_in in sides), default=0)
    ))  # fmt: skip
    spots, units = np.array([(float(math.prod(grid)), float(units)) for grid, units in net.sizes[net.inputs :]]).T
    high = units * spots
    for name in net.trained:
        check()
        count = float(uses[name])
        wide = net.layouts[name][1] * count
        less = np.minimum(high, wide)
        each_node = wide * spots * work * unit + 2 * ((high * wide * (less + 20) + less**3) * quick + 50 * CALL)
        if count > 1:
            each_node = each_node + 2 * (high * wide * (count + high) * unit + high**3 * quick)
        seconds += n * float(each_node.sum())
        most = float(np.maximum(2 * wide * spots * fan, 3 * high * (wide + high)).max())
        memory = max(memory, each * (2 * wide * float(high.sum()) + most + count**2))
    return Cost(seconds, memory)


def _steps(c: Certificate, work: float, rows: int, bits: int) -> float:
    """Return seconds for the steps from a start: growth each time, and the arithmetic that the bits ask for."""
    assert c.start is not None
    n = len(c.x) if c.start.batches is None else c.start.batches.shape[1]
    growth = 2e-3 * (1 + len(c.network.nodes)) + 32 * n * work * (1 + rows) * PRODUCT
    growth += (rows * n) ** 2 * (500 + 2 * rows * n) * PRODUCT
    if bits > 53:  # everything in balls
        growth += BALL * bits / 128 * ((rows * n) ** 3 + n * n * max(u for _, u in c.network.sizes) + n * work)
    fine = 120 * n * work * PRODUCT
    balls = 3 * n * work * BALL + sum(w.size for w in c.weights.values()) * CALL
    return sum(growth + (0 if b < 45 else fine if b < 90 else balls * max(1.0, b / 128)) for b in c.start.bits)


def _tables(c: Certificate, bits: int) -> Cost:
    """Return what tables cost: for every example and pair of nodes a product, and norms by a few more."""
    assert c.start is not None
    if not c.start.tables:
        return Cost(0.0, 0.0)
    net, times = c.network, sorted(c.start.tables)
    sides = [units * math.prod(grid) for grid, units in net.sizes[net.inputs :]]
    starts = sum(sides[k] for k in {k for name in net.hidden for k, _ in net.uses(name)})
    most = max(sides)
    batch = len(c.x) if c.start.batches is None else c.start.batches.shape[1]
    met = sum(min(len(c.x), batch * (end - k)) for k, end in zip(times, [*times[1:], c.start.steps], strict=True))
    unit = PRODUCT if bits == 53 else BALL * bits / 128
    pairs = met * len(net.nodes) * (1 + len(sides)) / 2 * 100 * CALL
    seconds = met * starts * sum(sides) / 2 * (most * (1 + 2 * SQUARINGS) + 50) * unit + pairs
    return Cost(seconds, (96.0 if bits == 53 else 800.0) * (len(sides) + 4) * most * most)


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
    left, right = (np.ascontiguousarray(m.T).astype(np.float64).T for m in (a, b))  # columns in a row of memory
    turned = np.array_equal(a.astype(np.float64) @ right, whole) and np.array_equal(left @ b.astype(np.float64), whole)
    for holds, what in (
        (nearest, "float64 does not round to nearest"), (rooted and third, "√ or ÷ of float64 is not rounded"),
        (faint, "float64 has no subnormal numbers here"), (exact and turned, "products of whole numbers are not exact"),
    ):  # fmt: skip
        if not holds:
            raise NotJudgedError(f"this machine failed the self-test: {what}")
