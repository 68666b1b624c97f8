"""Large arrays in float64 with radii: every radius covers the truth, from exact fractions and from balls."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx  # pyright: ignore[reportAttributeAccessIssue]

from wideproof_verify import double, floats
from wideproof_verify.arithmetic import BALLS, FLOATS, balls, positive_definite
from wideproof_verify.eigenvalues import FEW, Symmetric
from wideproof_verify.floats import Floats
from wideproof_verify.functions import ACTIVATIONS, ENDS


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def exact(a: np.ndarray, b: np.ndarray, i: int, j: int) -> Fraction:
    return sum((Fraction(x) * Fraction(y) for x, y in zip(a[i].tolist(), b[:, j].tolist(), strict=True)), Fraction(0))


@pytest.mark.parametrize("shape", [(3, 1, 4), (5, 7, 2), (20, 67, 9), (2, 5000, 2)])
@pytest.mark.parametrize("spread", [0, 8])
def test_products_contain_the_exact_one(rng, shape, spread):
    """Entries of very different sizes in a row are the hard case of cutting into slices."""
    rows, inner, columns = shape
    a = rng.standard_normal((rows, inner)) * 10.0 ** rng.uniform(-spread, spread, (rows, inner))
    b = rng.standard_normal((inner, columns)) * 10.0 ** rng.uniform(-spread, spread, (inner, columns))
    found = floats.product(Floats(a), Floats(b))
    for i in range(rows):
        for j in range(columns):
            assert abs(exact(a, b, i, j) - Fraction(float(found.mid[i, j]))) <= Fraction(float(found.rad[i, j]))
    size = np.abs(a).max(axis=1)[:, None] * np.abs(b).max(axis=0)
    assert (found.rad < 1e-12 * inner * size + 1e-200).all()  # and is of use


def test_a_rounded_product_would_be_caught(rng):
    """The radius is not idle: float64's own product is often outside of a tenth of it."""
    a, b = rng.standard_normal((4, 4000)), rng.standard_normal((4000, 4))
    found = floats.product(Floats(a), Floats(b))
    wrong = found.mid + 2 * found.rad
    assert all(
        abs(exact(a, b, i, j) - Fraction(float(wrong[i, j]))) > Fraction(float(found.rad[i, j]))
        for i in range(4)
        for j in range(4)
    )


def test_inner_products_are_those_of_two_arrays(rng):
    a = rng.standard_normal((30, 5000))
    one, two = floats.product(Floats(a), Floats(a).T), floats.product(Floats(a), Floats(a.T.copy()))
    assert np.array_equal(one.mid, one.mid.T)
    assert (np.abs(one.mid - two.mid) <= one.rad + two.rad).all()


def test_radii_of_factors_count(rng):
    a, off = rng.standard_normal((5, 40)), 1e-3 * rng.uniform(size=(5, 40))
    b = rng.standard_normal((40, 6))
    found = floats.product(Floats(a, off), Floats(b, np.full(b.shape, 1e-4)))
    for _ in range(50):
        moved = (a + off * rng.uniform(-1, 1, a.shape)) @ (b + 1e-4 * rng.uniform(-1, 1, b.shape))
        assert (np.abs(moved - found.mid) <= found.rad).all()


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_activations_contain_the_balls(rng, name):
    z = np.concatenate(
        [3 * rng.standard_normal(203), rng.uniform(-60, 60, 40), [0.0, -0.0, 1 / 128, -40.0, 40.0, 1e-300]]
    )
    pair = ACTIVATIONS[name].both
    value, slope = FLOATS.activate(name, Floats(z))
    with ctx.workprec(200):
        for i, at in enumerate(z.tolist()):
            for found, truth in zip((value, slope), pair(arb(at)), strict=True):
                off = abs(truth.mid() - arb(float(found.mid[i])))
                assert off <= arb(float(found.rad[i])) + truth.rad(), (name, at)
    if ACTIVATIONS[name].series:
        assert value.rad[np.abs(z) <= 40].max() < 2e-14


@pytest.mark.parametrize("fine", [False, True])
@pytest.mark.parametrize("name", sorted(ENDS))
def test_blocks_in_which_some_are_saturated_are_as_each_alone(rng, name, fine, monkeypatch):
    """Polynomials for some and ends for others, in many blocks, in threads: the same bits as number by number."""
    least = (ENDS[name][2] if fine else ENDS[name][1])[0]
    z = np.append(rng.uniform(-2 * least, 2 * least, 150), [least, -least, math.nextafter(least, 0), 0.0])
    low = np.spacing(np.abs(z)) / 2 * rng.uniform(-1, 1, z.shape) if fine else None
    rad = rng.uniform(0, 1e-12, z.shape)
    alone = [floats.activate(name, Floats(z, rad, low)[k : k + 1]) for k in range(len(z))]
    monkeypatch.setattr(double, "BLOCK", 8)
    monkeypatch.setattr(double, "CORES", 3)
    for part, found in enumerate(floats.activate(name, Floats(z, rad, low))):
        for kind in ("mid", "rad", "low")[: 3 if fine else 2]:
            assert np.array_equal(getattr(found, kind), [getattr(one[part], kind)[0] for one in alone]), kind


@pytest.mark.parametrize("fine", [False, True])
@pytest.mark.parametrize("name", sorted(ENDS))
def test_saturated_units_are_closed(rng, name, fine, monkeypatch):
    """Beyond its end no ball is asked for, and what is said holds; what is no number stays so."""
    least = (ENDS[name][2] if fine else ENDS[name][1])[0]
    some = [math.nextafter(least, 100), least + 1e-9, 750.0, 1e6, 1e300]
    z = np.concatenate([rng.uniform(least, 300, 60), rng.uniform(least, least + 0.01, 60), some])
    z = np.concatenate([z, -z])
    low = np.spacing(np.abs(z)) / 2 * rng.uniform(-1, 1, z.shape) if fine else None
    pair = ACTIVATIONS[name].both
    with monkeypatch.context() as patch:
        patch.setattr(floats, "from_balls", None)
        found = floats.activate(name, Floats(z, None, low))
    with ctx.workprec(5000):
        for i, at in enumerate(z.tolist()):
            here = arb(at) + (0 if low is None else arb(float(low[i])))
            for part, truth in zip(found, pair(here) if abs(at) < 1e3 else (None, None), strict=True):
                if truth is not None:
                    centre = arb(float(part.mid[i])) + (0 if part.low is None else arb(float(part.low[i])))
                    assert abs(truth - centre) <= arb(float(part.rad[i])), (name, at)
    odd = floats.activate(name, Floats(np.array([np.nan, np.inf]), None, np.zeros(2) if fine else None))
    assert not any(np.isfinite(part.mid[0] + part.rad[0]) for part in odd)


def test_a_wrong_end_is_outside(monkeypatch):
    """Ends that are a thousandth too short do not hold the balls."""
    z, kind = np.array([40.001]), ENDS["softplus"]
    for short, right in ((0.999, False), (1.0, True)):
        monkeypatch.setitem(ENDS, "softplus", (kind[0], (kind[1][0], short * 4.2484e-18, kind[1][2]), kind[2]))
        monkeypatch.setattr(floats, "TINY", 0.0)
        value, _ = floats.activate("softplus", Floats(z - 0.001 + 1e-14))
        with ctx.workprec(200):
            at = arb(float((z - 0.001 + 1e-14)[0]))
            off = abs(at.exp().log1p() - arb(float(value.mid[0])))
            assert bool(off <= arb(float(value.rad[0]))) == right


def test_a_moved_coefficient_is_outside(rng, monkeypatch):
    """A table that is wrong in one digit does not stay within the radii."""
    table = floats.taylor("erf") * (1 + 1e-13)
    monkeypatch.setattr(floats, "taylor", lambda name: table)
    z = np.linspace(0.3, 2, 50)
    value, _ = floats.activate("erf", Floats(z))
    with ctx.workprec(128):
        assert any(
            abs(arb(at).erf() - arb(float(v))) > arb(float(r)) for at, v, r in zip(z, value.mid, value.rad, strict=True)
        )


def test_arithmetic_of_arrays(rng):
    a, b = rng.standard_normal((4, 5)), rng.standard_normal((4, 5))
    fractions = {"sum": Floats(a) + Floats(b), "product": Floats(a) * Floats(b)}
    for i in range(4):
        for j in range(5):
            x, y = Fraction(float(a[i, j])), Fraction(float(b[i, j]))
            for name, truth in (("sum", x + y), ("product", x * y)):
                found = fractions[name]
                assert abs(truth - Fraction(float(found.mid[i, j]))) <= Fraction(float(found.rad[i, j]))
    whole = sum((Fraction(float(v)) for v in a.ravel()), Fraction(0))
    total = Floats(a).sum((0, 1))
    assert abs(whole - Fraction(float(total.mid))) <= Fraction(float(total.rad))
    square = sum((Fraction(float(v)) ** 2 for v in a.ravel()), Fraction(0))
    assert Fraction(float(floats.lengths(Floats(a), None))) ** 2 >= square


@pytest.mark.parametrize("n", [40, 520])
def test_levels_of_a_spectrum(rng, n):
    """Proved just below the smallest eigenvalue, refuted just above it; the same for the largest, turned round.

    Where there are many rows nothing is refuted: that would take their eigenvalues.
    """
    basis, no = np.linalg.qr(rng.standard_normal((n, n)))[0], False if n <= FEW else None
    for least in (1e-6, -1e-6):
        values = np.concatenate([[least], np.linspace(1, 5, n - 1)])
        a = (basis * values) @ basis.T
        g = FLOATS.symmetric(Floats((a + a.T) / 2))
        assert FLOATS.at_least(g, arb(least - 1e-8)) is True
        assert FLOATS.at_least(g, arb(least + 1e-8)) is no
        assert FLOATS.at_least(g, arb(0)) is (True if least > 0 else no)
        assert FLOATS.at_most(g, arb(5.0001)) is True
        assert FLOATS.at_most(g, arb(4.9)) is no
        wide = FLOATS.symmetric(Floats(g.mid, np.full(g.mid.shape, 1e-7)))
        assert FLOATS.at_least(wide, arb(least - 1e-8)) is None  # the radii leave it open
        assert 5 <= FLOATS.largest(g) < 5.01
    assert positive_definite(balls(BALLS.middle(balls(np.eye(3))))) is True


def test_levels_of_a_small_spectrum_in_balls(rng):
    basis = np.linalg.qr(rng.standard_normal((12, 12)))[0]
    a = (basis * np.linspace(1e-6, 5, 12)) @ basis.T
    g = balls((a + a.T) / 2)
    assert BALLS.at_least(g, arb(1e-6 - 1e-8)) is True
    assert BALLS.at_least(g, arb(1e-6 + 1e-8)) is False
    assert BALLS.at_most(g, arb(5.0001)) is True
    assert BALLS.at_most(g, arb(4.9)) is False
    assert 5 * (1 - 1e-12) <= BALLS.largest(g) < 5.01


def test_numbers_that_are_not_finite_prove_nothing():
    with np.errstate(all="ignore"):  # as the verifier does
        assert Symmetric(np.full((3, 3), np.nan), 0.0).at_least(-1e300) is None
        assert Symmetric(np.eye(3), np.nan).at_least(-1.0) is None
        assert Symmetric(np.eye(3), np.inf).at_least(-1.0) is None
        found = floats.product(Floats(np.full((2, 2), np.inf)), Floats(np.eye(2)))
        assert not np.isfinite(found.mid).all()
        assert FLOATS.at_least(FLOATS.symmetric(found), arb(-1e300)) is None
