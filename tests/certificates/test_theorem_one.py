"""Theorem 1 as arithmetic: its five conclusions on quadratic maps, its threshold, and exact rounding."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from tests.certificates.making import quadratic_maps, residuals
from wideproof.certificates.squared_loss import descent, existence, proof_ratio, steps_to
from wideproof.certificates.staircase import Staircase, above, below, climb

ROUNDING = 1e-11  # of float64 gradient descent over some thousand steps, relative to the start


@pytest.mark.parametrize("share", [1.0, 0.1])
def test_all_conclusions_on_quadratic_maps(rng, share):
    """Every step of gradient descent, at the largest certified step size and at a tenth of it."""
    count = 45
    h = np.concatenate([rng.uniform(0.0, 0.49, count - 9), np.full(9, 0.4999)])
    r0, j0, b, rho, s, largest, constant = quadratic_maps(rng, count, 3, 5, h)
    found = []
    for k in range(count):
        stairs = climb(float(rho[k]), float(s[k]), lambda radius, k=k: float(constant[k]))
        assert stairs is not None
        most = descent(float(rho[k]), float(s[k]), float(largest[k]), stairs)
        assert most is not None
        one = descent(float(rho[k]), float(s[k]), float(largest[k]), stairs, eta=share * most.eta, epsilon=1e-30)
        assert one is not None
        assert one.h == pytest.approx(h[k], rel=1e-12)
        found.append(one)
    eta, sigma, radius, rate, bound_b = (
        np.array([getattr(one, name) for one in found]) for name in ("eta", "sigma", "radius", "rate", "b")
    )
    t, path = np.zeros((count, 5)), np.zeros(count)
    r, j = residuals(r0, j0, b, t)
    seen = [(t.copy(), path.copy())]
    moving, before = np.ones(count, bool), np.full(count, np.inf)
    for step in range(2500):
        size, tolerance = np.linalg.norm(r, axis=1), ROUNDING * rho
        assert np.all(path <= radius * (1 + ROUNDING))
        assert np.all(size <= rho - s * path + constant * path**2 / 2 + tolerance)
        assert np.all(size <= (1 - rate) * before + tolerance)
        assert np.all(size[moving] <= (rho * (1 - rate) ** step + tolerance)[moving])
        if step < 50 or step % 25 == 0:
            values = np.linalg.svd(j, compute_uv=False)
            assert np.all(values[:, -1] >= s - constant * path - ROUNDING)
            assert np.all(values[:, -1] >= sigma - ROUNDING)
            assert np.all(values[:, 0] <= bound_b + ROUNDING)
            assert np.all(values[:, -1] ** 2 >= s**2 - 2 * constant * (rho - size) - ROUNDING)
            seen.append((t.copy(), path.copy()))
        moving = size > 1e-9 * rho  # below, rounding decides
        if not moving.any():
            break
        before = np.where(moving, size, np.inf)
        move = eta[:, None] * np.einsum("kip,ki->kp", j, r) * moving[:, None]
        t, path = t - move, path + np.linalg.norm(move, axis=1)
        r, j = residuals(r0, j0, b, t)
    converged = np.linalg.norm(r, axis=1) <= 1e-9 * rho
    assert converged.sum() > count / 2
    for before, length in seen:  # conclusion 4, for those that arrived
        far = np.linalg.norm(t - before, axis=1)
        assert np.all(far[converged] <= (radius - length + 1e-8 * radius)[converged])
    if share == 1.0:  # the theorem is tight: extremal maps use their whole radius
        assert np.max(path / radius) > 0.99


def test_the_planted_violation_is_seen():
    """With a Lipschitz constant claimed a third too small the majorant is broken: the checks above can fail."""
    rho, s, true = 1.0, 1.0, 0.45
    stairs = climb(rho, s, lambda radius: true / 1.5)
    assert stairs is not None
    found = descent(rho, s, s, stairs)
    assert found is not None
    t, path = 0.0, 0.0
    for _ in range(2000):
        move = found.eta * (-s + true * t) * (rho - s * t + true * t * t / 2)
        t, path = t - move, path + abs(move)
    assert path > found.radius


@pytest.mark.parametrize("h", [0.1, 0.4, 0.499, 0.4999])
def test_the_scalar_of_the_threshold_converges(h):
    """ρ − sθ + Λθ²/2 has a zero exactly for h ≤ 1/2, and gradient descent finds it."""
    rho, s = 2.0, 0.5
    constant = h * s * s / rho
    stairs = climb(rho, s, lambda radius: constant)
    assert stairs is not None
    found = descent(rho, s, s, stairs)
    assert found is not None
    zero = 2 * rho / (s + math.sqrt(s * s - 2 * constant * rho))
    assert zero <= found.radius <= zero * (1 + 2e-6)
    t = 0.0
    for _ in range(found.steps if h < 0.4999 else 20_000):
        t -= found.eta * (-s + constant * t) * (rho - s * t + constant * t * t / 2)
        assert t <= found.radius
    if h < 0.4999:
        assert 0.5 * (rho - s * t + constant * t * t / 2) ** 2 <= found.epsilon


@pytest.mark.parametrize("h", [0.5, 0.5 + 1e-12, 0.500001, 0.6, 3.0])
@pytest.mark.parametrize(("rho", "s"), [(1.0, 1.0), (2.0, 0.5), (1e-7, 1e-3)])
def test_one_half_and_more_is_refused(h, rho, s):
    constant = above(Fraction(h) * Fraction(s) ** 2 / Fraction(rho))
    assert climb(rho, s, lambda radius: constant) is None
    for share in (0.9, 0.999999, 1.0):  # near the lowest point of the majorant
        assert descent(rho, s, s, Staircase((share * s / constant,), (constant,))) is None


@pytest.mark.parametrize(("at_zero", "hopeless"), [(0.5, True), (0.5 - 1e-9, False)])
def test_a_climb_without_hope_asks_for_one_constant(at_zero, hopeless):
    """Λρ/s² of a half at the anchor is one half at every radius."""
    asked = []

    def constant(radius: float) -> float:
        asked.append(radius)
        return at_zero + radius

    assert climb(1.0, 1.0, constant) is None
    assert (asked == [0.0]) == hopeless


@pytest.mark.parametrize(("rho", "s"), [(1.0, 1.0), (2.0, 0.5), (1e-7, 1e-3)])
def test_just_below_one_half_is_accepted(rho, s):
    constant = below(Fraction("0.4999") * Fraction(s) ** 2 / Fraction(rho))
    stairs = climb(rho, s, lambda radius: constant)
    assert stairs is not None
    found = descent(rho, s, 3.0 * s, stairs)
    assert found is not None
    assert found.h < 0.5
    assert found.sigma > 0


def test_a_constant_jacobian_has_radius_rho_over_s():
    stairs = climb(3.0, 0.25, lambda radius: 0.0)
    assert stairs is not None
    found = descent(3.0, 0.25, 1.0, stairs)
    assert found is not None
    assert 12 < found.radius <= 12 * (1 + 2e-6)
    assert (found.sigma, found.b, found.eta, found.h) == (0.25, 1.0, 1.0, 0.0)
    assert found.rate == 0.0625


def test_no_residual_needs_no_step():
    stairs = climb(0.0, 1.0, lambda radius: 5.0)
    assert stairs is not None
    found = descent(0.0, 1.0, 2.0, stairs)
    assert found is not None
    assert found.steps == 0
    assert found.radius < 1e-290


@pytest.mark.parametrize("epsilon", [0.125, 0.2, 1e9])
def test_a_target_above_the_loss_needs_no_step(epsilon):
    found = descent(0.5, 1.0, 2.0, Staircase((0.6,), (0.1,)), epsilon=epsilon)
    assert found is not None
    assert found.steps == 0


@pytest.mark.parametrize("s", [0.0, -1.0, math.nan])
def test_no_singular_value_no_proof(s):
    assert climb(1.0, s, lambda radius: 0.0) is None
    assert descent(1.0, s, 1.0, Staircase((1.0,), (0.0,))) is None
    assert proof_ratio(1.0, s, 1.0) == math.inf


@pytest.mark.parametrize("factor", [0.0, -1.0, 1.9, 2.0, math.nan, math.inf])
def test_a_step_size_out_of_range_is_refused(factor):
    stairs = Staircase((0.6,), (0.1,))
    found = descent(0.5, 1.0, 2.0, stairs)
    assert found is not None
    assert descent(0.5, 1.0, 2.0, stairs, eta=found.eta * factor) is None
    assert descent(0.5, 1.0, 2.0, stairs, eta=found.eta * 0.5) is not None


def test_staircases_certify_what_one_constant_does_not():
    """θ ↦ ρ − sθ + Λ(θ²/2 + cθ³/6): the constant on a ball of radius R is Λ(1 + cR)."""
    rho, s, base, growth = 1.0, 1.0, 0.2, 1.0

    def constant(radius):
        return base * (1 + growth * radius)

    stairs = climb(rho, s, constant)
    assert stairs is not None
    assert len(stairs.radii) > 1
    assert list(stairs.constants) == [constant(t) for t in stairs.radii]
    found = descent(rho, s, s, stairs)
    assert found is not None
    for radius in np.linspace(0.01, 5, 500):  # one constant is not enough: no ball holds its own R∞
        one = constant(radius)
        assert 2 * one * rho > s * s or 2 * rho / (s + math.sqrt(s * s - 2 * one * rho)) > radius
    t = path = 0.0
    before = rho
    for _ in range(20_000):
        r = rho - s * t + base * (t**2 / 2 + growth * t**3 / 6)
        assert abs(r) <= before * (1 - found.rate) * (1 + 1e-12) or before == rho
        before = abs(r)
        if before < 1e-12:
            break
        move = found.eta * (-s + base * (t + growth * t**2 / 2)) * r
        t, path = t - move, path + abs(move)
    assert before < 1e-12
    assert path <= found.radius


def test_a_growing_constant_without_a_zero_is_refused():
    rho, s, base, growth = 1.0, 1.0, 0.4, 1.0
    t = np.linspace(0, 10, 100_001)
    assert (rho - s * t + base * (t**2 / 2 + growth * t**3 / 6)).min() > 0
    assert climb(rho, s, lambda radius: base * (1 + growth * radius)) is None


def test_integrals_of_a_staircase(rng):
    radii = np.cumsum(rng.random(7)).tolist()
    constants = np.cumsum(rng.random(7)).tolist()
    m, whole = Staircase(tuple(radii), tuple(constants)).integrals()
    grid = np.linspace(0, radii[-1], 200_001)
    cell = np.minimum(np.searchsorted(radii, grid[1:] - 1e-12), 6)
    slopes = np.asarray(constants)[cell]
    running = np.concatenate([[0], np.cumsum(slopes * np.diff(grid))])
    assert float(m) == pytest.approx(running[-1], rel=1e-4)
    assert float(whole) == pytest.approx(np.trapezoid(running, grid), rel=1e-4)
    first, _ = Staircase(tuple(radii), tuple(constants)).integrals(1)
    assert first == Fraction(radii[0]) * Fraction(constants[0])


def brute_force(rho, rate, epsilon):
    """The least k with ((1 - rate)^k rho)² ≤ 2 epsilon, in exact arithmetic."""
    size, k = Fraction(rho), 0
    while size * size > 2 * Fraction(epsilon):
        size, k = size * (1 - Fraction(rate)), k + 1
    return k


def test_steps_against_brute_force(rng):
    """Never too few, and at most one too many."""
    for _ in range(400):
        rho, rate = float(rng.uniform(0.1, 10)), float(rng.uniform(0.2, 0.99))
        epsilon = float(10 ** rng.uniform(-8, 1))
        exact = brute_force(rho, rate, epsilon)
        assert exact <= steps_to(rho, rate, epsilon) <= exact + 1


def test_steps_at_ties():
    """Where the exact count is a whole number, or rounding of it could fall on either side."""
    for k in range(1, 40):
        assert k <= steps_to(1.0, 0.5, 2.0 ** (-2 * k - 1)) <= k + 1
        lower = math.nextafter(2.0 ** (-2 * k - 1), 0)
        assert steps_to(1.0, 0.5, lower) == k + 1
    for rate in (0.1, 0.3, 0.7):
        for k in range(1, 12):
            size = Fraction(1 - Fraction(rate)) ** k
            for epsilon in (below(size * size / 2), above(size * size / 2)):
                exact = brute_force(1.0, rate, epsilon)
                assert exact <= steps_to(1.0, rate, epsilon) <= exact + 1


def test_no_step_only_where_the_residual_is_there_already(rng):
    for _ in range(200):
        epsilon = float(10 ** rng.uniform(-12, 0))
        rho = math.sqrt(2 * epsilon)
        for size in (math.nextafter(rho, 0), rho, math.nextafter(rho, 1)):
            assert steps_to(size, 0.01, epsilon) >= brute_force(size, 0.01, epsilon)


@pytest.mark.parametrize("rate", [1e-3, 1e-6, 1e-12])
def test_steps_of_slow_rates(rate):
    """Against 40 digits."""
    with mpmath.workdps(40):
        exact = int(mpmath.ceil(mpmath.log(1 / mpmath.sqrt(2e-12)) / -mpmath.log1p(-mpmath.mpf(rate))))
    found = steps_to(1.0, rate, 1e-12)
    assert exact <= found <= exact * (1 + 1e-8) + 1


def test_a_rate_of_one_needs_one_step():
    assert steps_to(3.0, 1.0, 1e-12) == 1


def test_rounding_is_exact_in_both_directions(rng):
    values = [Fraction(int(a), int(b)) for a, b in rng.integers(-(2**60), 2**60, (500, 2)) if b]
    values += [Fraction(float(v)) for v in rng.standard_normal(50)] + [Fraction(0), Fraction(1, 10**310)]
    values += [v + Fraction(1, 2**200) for v in values[-60:]] + [v - Fraction(1, 2**200) for v in values[-60:]]
    for v in values:
        low, high = below(v), above(v)
        assert Fraction(low) <= v <= Fraction(high)
        assert Fraction(math.nextafter(low, math.inf)) > v
        assert Fraction(math.nextafter(high, -math.inf)) < v
        assert low == high or math.nextafter(low, math.inf) == high


def test_what_descent_states_follows_from_its_claims(rng):
    """sigma, b, eta, rate and h, each rounded to the safe side, checked with rational numbers."""
    for _ in range(100):
        rho, s, more = (float(v) for v in rng.uniform(0.1, 1.0, 3))
        constant = float(rng.uniform(0, 0.49)) * s * s / rho
        stairs = climb(rho, s, lambda radius, c=constant: c)
        assert stairs is not None
        d = descent(rho, s, s + more, stairs)
        assert d is not None
        m, whole = stairs.integrals()
        assert Fraction(rho) - Fraction(s) * Fraction(d.radius) + whole < 0
        assert Fraction(d.sigma) <= Fraction(s) - m
        assert Fraction(d.b) >= Fraction(s + more) + m
        assert Fraction(d.eta) * Fraction(d.b) ** 2 <= 1
        assert Fraction(d.rate) <= Fraction(d.eta) * Fraction(d.sigma) ** 2
        assert Fraction(d.h) >= Fraction(constant) * Fraction(rho) / Fraction(s) ** 2
        assert Fraction(1 - Fraction(d.rate)) < 1


@pytest.mark.parametrize(("distance", "passes"), [(0.49, True), (0.4999999, True), (0.5, False), (0.6, False)])
def test_existence_has_the_same_threshold(distance, passes):
    """Λ = s = 1: h' is the distance."""
    found = existence(1.0, distance, lambda radius: 1.0)
    assert (found is not None) == passes
    if found is not None:
        zero = 2 * distance / (1 + math.sqrt(1 - 2 * distance))
        assert zero <= found.radius <= zero * (1 + 1e-6)
        assert found.radius <= found.staircase.radii[-1]
