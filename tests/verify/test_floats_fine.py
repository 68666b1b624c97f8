"""Double-doubles with radii: the exact result, from balls of many bits, is within every radius, and few are wide."""

from typing import Any

import numpy as np
import pytest
from flint import arb, ctx  # pyright: ignore[reportAttributeAccessIssue]

from wideproof_verify import double, floats
from wideproof_verify.arithmetic import FLOATS
from wideproof_verify.floats import Floats, from_balls, product
from wideproof_verify.functions import ACTIVATIONS

BITS = 5000  # sums and products of so widely spread numbers are then exact


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def numbers(rng, shape: tuple[int, ...], kind: str = "plain", low: bool = True) -> Any:
    """Random numbers with radius 0; low parts are sometimes zero, small, or half a unit of the last place."""
    mid = rng.standard_normal(shape)
    if kind == "spread":
        mid = mid * 2.0 ** rng.integers(-60, 60, shape)
    elif kind == "denormal":
        mid = mid * 2.0 ** rng.integers(-1074, -900, shape)
    elif kind == "whole":
        mid = np.rint(4 * mid)
    if not low:
        return Floats(mid)
    tail = np.spacing(mid) / 2 * rng.choice([-1, -0.3, 0, 2.0**-40, 0.7, 1], shape) * rng.uniform(0.5, 1, shape)
    return Floats(*(lambda s: (s[0], None, s[1]))(double.two_sum(mid, tail)))


def check(found: Any, truth: Any, sharp: Any = 0) -> None:
    """Every exact number is within the radius, and no radius is above 2^-99 times the number or `sharp`."""
    with ctx.workprec(BITS):
        centres = found.exact().balls()
        for centre, rad, true in zip(np.ravel(centres), np.ravel(found.rad), np.ravel(truth), strict=True):
            assert abs(centre - true) <= arb(float(rad)), (centre, true, rad)
    assert (found.rad <= np.maximum(sharp, np.abs(found.mid)) * 2.0**-99 + 1e-279).all()
    assert (np.abs(found.low) <= double.U * np.abs(found.mid) + 5e-324).all()


def operations(rng, kind: str) -> None:
    shape = (30, 7)
    for low in (True, False):
        a, b = numbers(rng, shape, kind), numbers(rng, shape, kind, low)
        with ctx.workprec(BITS):
            x, y = a.balls(), b.balls()
            check(a + b, x + y)
            check(b - a, y - x)
            check(a * b, x * y)
            # nearly everything cancels
            near_a = Floats(*(lambda s: (s[0], None, s[1]))(double.two_sum(a.mid * (1 + 2.0**-52), b.mid * 2.0**-70)))
            check(a - near_a, x - near_a.balls())
            check(a.sum(0), x.sum(axis=0), 6 * np.abs(a.mid).sum(axis=0))
            check(a.sum((0, 1)), x.sum(), 9 * np.abs(a.mid).sum())


@pytest.mark.parametrize("kind", ["plain", "spread", "denormal", "whole"])
def test_operations(rng, kind):
    operations(rng, kind)


@pytest.mark.parametrize(
    ("shape", "kind"),
    [((5, 1, 4), "plain"), ((4, 2, 3), "spread"), ((3, 255, 3), "plain"), ((3, 256, 3), "spread"),
     ((2, 5000, 2), "plain"), ((4, 9, 3), "denormal"), ((4, 30, 3), "whole"), ((2, 0, 2), "plain")],
)  # fmt: skip
def test_products(rng, shape, kind):
    rows, k, columns = shape
    for low, other in ((True, True), (False, True), (True, False)):
        a, b = numbers(rng, (rows, k), kind, low), numbers(rng, (k, columns), kind, other)
        found = product(a, b)
        with ctx.workprec(BITS):
            x, y = a.balls(), b.balls()
            truth = np.array([[sum(x[i] * y[:, j], arb(0)) for j in range(columns)] for i in range(rows)])
        largest = np.multiply.outer(np.abs(a.mid).max(axis=1, initial=0), np.abs(b.mid).max(axis=0, initial=0))
        blocks = 1 + k // floats.MOST
        check(found, truth, blocks * np.abs(found.mid) + 6 * k * 2.0**-4 * largest)


def test_products_that_cancel(rng):
    """Rows orthogonal to columns in all their high bits."""
    a = numbers(rng, (3, 40))
    b: Any = np.concatenate([a.T, -a.T + numbers(rng, (40, 3)) * Floats(np.full((40, 3), 2.0**-90))])
    wide: Any = np.concatenate([a, a], axis=1)
    found = product(wide, b.exact())
    with ctx.workprec(BITS):
        x, y = wide.balls(), b.exact().balls()
        check(found, [[sum(x[i] * y[:, j], arb(0)) for j in range(3)] for i in range(3)], 80 * 16 * 2.0**-4)


def test_radii_of_factors_count(rng):
    a, b = numbers(rng, (4, 9)), numbers(rng, (9, 3))
    wide, broad = Floats(a.mid, np.full(a.shape, 1e-25), a.low), Floats(b.mid, np.full(b.shape, 1e-24), b.low)
    one, two = arb(1e-25), arb(1e-24)
    with ctx.workprec(300):
        for sign in np.sign(rng.standard_normal((20, 2))):
            x, y = a.balls() + one * arb(sign[0]), b.balls() + two * arb(sign[1])
            check_wide(product(wide, broad), np.array([[sum(r * c, arb(0)) for c in y.T] for r in x]))
            check_wide(wide * broad[:4, :1], x * y[:4, :1])
            check_wide(wide[:, :3] + broad[:4], x[:, :3] + y[:4])
    assert (product(wide, broad).rad < 1e-22).all()


def check_wide(found: Floats, truth: np.ndarray) -> None:
    assert all(
        abs(c - t) <= arb(float(r))
        for c, t, r in zip(found.exact().balls().flat, truth.flat, found.rad.flat, strict=True)
    )


@pytest.mark.parametrize("name", sorted(set(ACTIVATIONS) - {"relu", "identity"}))
def test_activations(rng, name):
    nodes = rng.integers(-2560, 2561, 12) / 64
    points = [0.0, -0.0, 1 / 128, -1 / 128, 3 / 128, 40.0, -40.0, 39.9921875, 2.0**-30, -(2.0**-60), 1e-300, 5e-324]
    z = np.concatenate([3 * rng.standard_normal(150), nodes, nodes + 1 / 128, points, [40.1, -41.0, 55.5]])
    tail = np.spacing(z) / 2 * rng.choice([-1, 0, 0.4, 1], z.shape)
    mid, low = double.two_sum(z, tail)
    pair = ACTIVATIONS[name].both
    first, second = (float(arb(c).upper()) for c in ACTIVATIONS[name].constants())
    found = floats.activate(name, Floats(mid, None, low))
    with ctx.workprec(400):
        truth = [pair(x) for x in Floats(mid, None, low).balls()]
        for k in (0, 1):
            check(found[k], [t[k].mid() for t in truth], 4 + np.abs(found[k].mid))
    wide = floats.activate(name, Floats(mid, np.full(z.shape, 1e-20), low))
    assert (wide[0].rad >= found[0].rad + 0.99e-20 * first).all()
    assert (wide[1].rad >= found[1].rad + 0.99e-20 * second).all()


@pytest.mark.parametrize("name", sorted(name for name in ACTIVATIONS if ACTIVATIONS[name].series))
def test_tables_are_full_and_bounded(name):
    """No coefficient is in doubt, and those of the slope keep to Cauchy's estimate."""
    for table in (floats.taylor(name), floats.taylor(name, floats.FINE, floats.LOWS)):
        assert np.isfinite(table).all()
    slopes = np.abs(table[1 : floats.FINE]) * np.arange(1, floats.FINE)[:, None]
    assert slopes.max() <= ACTIVATIONS[name].strip


def test_a_smaller_unit_is_caught(rng, monkeypatch):
    monkeypatch.setattr(double, "V", 2.0**-120)
    for test, *given in ((operations, "plain"), (test_activations, "tanh"), (test_activations, "softplus")):
        with pytest.raises(AssertionError):
            test(rng, *given)


def test_one_slice_less_or_a_moved_coefficient_is_caught(rng, monkeypatch):
    with monkeypatch.context() as patch:
        cut = double._cut
        patch.setattr(double, "_cut", lambda a, low, bits, count: cut(a, low, bits, count - 1))
        with pytest.raises(AssertionError):
            test_products(rng, (3, 256, 3), "plain")
    table = floats.taylor("erf", floats.FINE, floats.LOWS).copy()
    table[floats.FINE] += 2.0**-95
    monkeypatch.setattr(floats, "taylor", lambda *_: table)
    with pytest.raises(AssertionError):
        test_activations(rng, "erf")


def test_balls_and_back(rng):
    with ctx.workprec(300):
        some = [arb(1) / 3, arb.pi() * 10**40, -arb(2).sqrt() / 10**200, arb(0), arb(1), arb(1, 1e-40), arb(7) ** -400]
        found = from_balls(some, fine=True)
        held = found.balls()
        for given, back in zip(some, held, strict=True):
            assert back.contains(given)
        assert (found.rad <= 2.0**-104 * np.abs(found.mid) + 1e-39 * (np.arange(7) == 5) + 5e-324).all()
        assert from_balls(some).rad[-1] > 0  # what is below all float64 numbers is not 0
        assert (from_balls(some).rad[3:5] == found.rad[3:5]).all()
        third = numbers(rng, (3,)) * (arb(1) / 3)
        assert (third.rad < 1e-29).all()
        assert from_balls(arb(1) / 3, fine=True).balls().rad() < 1e-30


def test_structure(rng):
    a, b = numbers(rng, (4, 6)), numbers(rng, (4, 6), low=False)

    def same(found: Any, change: Any, *given: Floats) -> None:
        for part in ("mid", "low", "rad"):
            parts = [np.zeros(g.shape) if getattr(g, part) is None else getattr(g, part) for g in given]
            assert np.array_equal(getattr(found, part), change(*parts)), part

    a: Any = Floats(a.mid, rng.uniform(size=a.shape), a.low)
    same(np.concatenate([b, a], axis=1), lambda x, y: np.concatenate([x, y], axis=1), b, a)
    same(np.stack([a, b]), lambda x, y: np.stack([x, y]), a, b)
    same(np.moveaxis(a, 0, 1), lambda x: x.T, a)
    same(np.broadcast_to(a, (2, 4, 6)), lambda x: np.broadcast_to(x, (2, 4, 6)), a)
    for change in (
        lambda x: x.T, lambda x: x[1:, None], lambda x: x.reshape(3, -1), lambda x: x.swapaxes(0, 1),
        lambda x: x.ravel(), lambda x: x.transpose(1, 0),
    ):  # fmt: skip
        same(change(a), change, a)
    both: Any = np.concatenate([b, b])
    total: Any = sum([b, a])
    assert both.low is None
    assert total.low is not None
    with ctx.workprec(300):
        size = [abs(c) + arb(float(r)) for c, r in zip(a.exact().balls().flat, a.rad.flat, strict=True)]
        assert all(arb(float(m)) >= s for m, s in zip(a.largest().flat, size, strict=True))
        assert arb(float(floats.lengths(a, None))) ** 2 >= sum((s * s for s in size), arb(0))
        assert all(p.contains(c) for p, c in zip(a.plain().balls().flat, a.exact().balls().flat, strict=True))
    assert a[:0].sum(0).shape == (6,)


def test_low_parts_count_where_only_high_ones_are_used():
    one = Floats(np.eye(2), None, np.full((2, 2), 2.0**-54) * np.eye(2))
    g = FLOATS.symmetric(one)
    assert FLOATS.at_least(g, arb(1)) is not False
    assert FLOATS.at_least(g, arb(1) + arb(2.0**-54)) is not False
    assert FLOATS.at_most(g, arb(1)) is not True
    assert FLOATS.spectral_norm(one) >= 1 + arb(2.0**-54)
    assert FLOATS.largest(g) >= 1 + arb(2.0**-54)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan, 1e300, 1.7e308])
def test_what_is_not_finite_has_no_radius(bad):
    with np.errstate(all="ignore"):
        a = Floats(np.array([[bad, 1.0], [2.0, 3.0]]), None, np.zeros((2, 2)))
        huge = Floats(np.full((2, 2), 1e300), None, np.zeros((2, 2)))
        results = {"times": (a * huge)[0, :1], "product": product(a, huge)[0], "sum": (a * huge).sum(1)[:1]}
        if not abs(bad) < 1e308:
            results |= {"plus": (a + a)[0, :1]}
        if not np.isfinite(bad):
            results |= {"scalar": (a * (arb(1) / 3))[0, :1], "product by 1": product(a, Floats(np.eye(2)))[0]}
        for name, found in results.items():
            assert not np.isfinite(found.rad).any(), name
            assert not (found.largest() < np.inf).any(), name
        if np.isnan(bad):
            for found in floats.activate("tanh", a):
                assert not np.isfinite(found.rad[0, 0])
        for values in ([arb("nan")], [arb(0, np.inf)]):
            assert not np.isfinite(from_balls(values, fine=True).rad).any()
            assert not np.isfinite(from_balls(values).rad).any()
