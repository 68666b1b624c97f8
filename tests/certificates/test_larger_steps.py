"""Step sizes between 1/b² and 2/(b² + s²): Theorem 1 with less of s, its ends, and what the verifier says."""

import copy
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from tests.certificates.making import Reference, quadratic_maps, residuals, signs, sphere
from tests.certificates.rewriting import parts, put
from tests.certificates.test_certified_runs import follow, least_eigenvalue
from wideproof.certificates import Descent, Problem, certify
from wideproof.certificates.squared_loss import descent, find_descent, kappa
from wideproof.certificates.staircase import Staircase, climb
from wideproof.certificates.widths import doubled
from wideproof.data import Dataset
from wideproof.errors import InputError
from wideproof.networks import FullyConnected
from wideproof_verify import verify

ROUNDING = 1e-11


def with_one_constant(rho, s, largest, constant, **more):
    return find_descent(rho, s, largest, lambda pull: climb(rho, pull, lambda radius: constant), **more)


def test_kappa_is_rounded_down_and_falls(rng):
    with mpmath.workdps(50):
        for _ in range(200):
            s = float(rng.uniform(0.05, 1.0))
            b = s + float(rng.uniform(0, 2))
            eta = float(rng.uniform(1 / b**2, 2 / (b**2 + s**2)))
            beta, eps = mpmath.mpf(eta) * mpmath.mpf(b) ** 2, mpmath.mpf(eta) * mpmath.mpf(s) ** 2
            exact = mpmath.sqrt(1 - (beta - 1) ** 2 / (1 - beta * eps))
            found = kappa(eta, b, s)
            assert exact * (1 - mpmath.mpf("1e-15")) - mpmath.mpf("1e-15") <= found <= exact
            assert kappa(eta * 1.001, b, s) <= found
            assert kappa(eta, b * 1.001, s) <= found
            assert kappa(eta, b, s * 1.001) <= found


@pytest.mark.parametrize(("s", "b"), [(1.0, 2.0), (0.25, 4.0), (1.0, 1.5)])
def test_the_interval_is_exact_where_the_jacobian_is_constant(s, b):
    """Λ = 0: b is S itself."""
    stairs = Staircase((100.0,), (0.0,))
    end = Fraction(2) / (Fraction(b) ** 2 + Fraction(s) ** 2)
    inside, outside = float(end) * (1 - 1e-9), math.nextafter(float(end), 1)
    found = descent(1e-6, s, b, stairs, eta=inside)
    assert found is not None
    assert 0 < found.kappa < 1e-3
    assert found.rate == pytest.approx(inside * s * found.kappa * s, rel=1e-12)
    assert descent(1e-6, s, b, stairs, eta=outside) is None
    assert descent(1e-6, s, b, stairs, eta=1 / b**2 * (1 + 1e-9)) is not None


def test_a_ball_that_is_too_small_for_what_is_left_of_s():
    """Enough at 1/b², not enough beyond: the radius has to grow with the step size."""
    stairs = climb(0.5, 1.0, lambda radius: 0.25)
    assert stairs is not None
    safe = descent(0.5, 1.0, 2.0, stairs)
    assert safe is not None
    assert descent(0.5, 1.0, 2.0, stairs, eta=1.2 * safe.eta) is None
    wider = with_one_constant(0.5, 1.0, 2.0, 0.25, eta=1.2 * safe.eta)
    assert wider is not None
    assert wider.radius > safe.radius
    assert wider.kappa < 1
    assert wider.h == pytest.approx(0.125 / wider.kappa**2, rel=1e-12)


def test_the_threshold_is_half_of_kappa_squared():
    """h < κ²/2: a ratio of 0.45 passes at 1/b² and not where κ² is below 0.9."""
    rho, s, largest = 1.0, 1.0, 3.0
    safe = with_one_constant(rho, s, largest, 0.45)
    assert safe is not None
    assert safe.kappa == 1
    assert with_one_constant(rho, s, largest, 0.45, eta=1.1 * safe.eta) is not None
    beyond = 1.5 * safe.eta
    assert kappa(beyond, safe.b, s) ** 2 < 0.9
    assert with_one_constant(rho, s, largest, 0.45, eta=beyond) is None
    assert with_one_constant(rho, s, largest, 0.1, eta=beyond) is not None


@pytest.mark.parametrize("beta", [1.05, 1.2, 1.4])
def test_all_conclusions_on_quadratic_maps(rng, beta):
    """Every step of gradient descent at β/b²: path, majorant, rate, singular values."""
    count = 45
    r0, j0, b, rho, s, largest, constant = quadratic_maps(rng, count, 3, 5, rng.uniform(0.0, 0.4, count))
    found = []
    for k in range(count):
        given = tuple(float(v[k]) for v in (rho, s, largest, constant))
        safe = with_one_constant(*given)
        assert safe is not None
        found.append(with_one_constant(*given, eta=beta * safe.eta, epsilon=1e-30))
    kept = np.array([one is not None for one in found])
    assert kept.sum() >= 8
    r0, j0, b, rho, s, constant = (v[kept] for v in (r0, j0, b, rho, s, constant))
    eta, sigma, radius, rate, bound_b, share = (
        np.array([getattr(one, name) for one in found if one is not None])
        for name in ("eta", "sigma", "radius", "rate", "b", "kappa")
    )
    assert np.all(share < 1)
    assert np.all(eta * bound_b**2 > 1)
    t, path = np.zeros((kept.sum(), 5)), np.zeros(kept.sum())
    r, j = residuals(r0, j0, b, t)
    before = np.full(kept.sum(), np.inf)
    for _ in range(600):
        size, tolerance = np.linalg.norm(r, axis=1), ROUNDING * rho
        assert np.all(path <= radius * (1 + ROUNDING))
        assert np.all(size <= rho - share * s * path + constant * path**2 / 2 + tolerance)
        assert np.all(size <= (1 - rate) * before + tolerance)
        values = np.linalg.svd(j, compute_uv=False)
        assert np.all(values[:, -1] >= sigma - ROUNDING)
        assert np.all(values[:, 0] <= bound_b + ROUNDING)
        moving = size > 1e-9 * rho
        if not moving.any():
            break
        before = np.where(moving, size, np.inf)
        move = eta[:, None] * np.einsum("kip,ki->kp", j, r) * moving[:, None]
        t, path = t - move, path + np.linalg.norm(move, axis=1)
        r, j = residuals(r0, j0, b, t)
    assert np.mean(np.linalg.norm(r, axis=1) <= 1e-9 * rho) > 0.5


def test_without_kappa_the_majorant_is_false():
    """A linear map with its residual on both ends of the spectrum: at 1.6/b² it falls less than s times the path."""
    s, b = 0.3, 1.0
    eta = 1.6 / b**2
    worst = 0.0
    for share in np.linspace(0.01, 0.99, 99):
        r = np.array([math.sqrt(share), math.sqrt(1 - share)])
        values = np.array([s, b])
        path = np.linalg.norm(eta * values * r)
        size = np.linalg.norm((1 - eta * values**2) * r)
        worst = max(worst, size - (1 - s * path))
        assert size <= 1 - kappa(eta, b, s) * s * path + 1e-12
    assert worst > 0.01


@pytest.fixture(scope="module")
def problem():
    network = FullyConnected(4, 64, 1, trained=("hidden",))
    data = Dataset(sphere(4, 4, 1), signs(4, 1), "binary")
    return network, doubled(network, seed=0, scale=60.0), data


def test_a_network_at_a_larger_step(problem):
    """Inside the radius and below the proven rate at every step; and the rate is faster than that at 1/b²."""
    network, start, data = problem
    safe = certify(Problem(network, data).at(start)).descent
    assert safe is not None
    found = certify(Problem(network, data).at(start), Descent(step_size=1.5 * safe.eta)).descent
    assert found is not None
    assert 0.7 < found.kappa < 0.95
    assert found.radius > safe.radius
    assert found.rate > safe.rate
    ref = Reference(network, start, data.x)
    steps, path = follow(found, ref.both, ref.theta, data.y, least_eigenvalue, 5, 1e-10 * found.rho)
    assert steps > 5
    assert 0.2 < path / found.radius <= 1


@pytest.mark.parametrize("factor", [1.01, 1.3, 1.6])
def test_prover_and_verifier_agree(tmp_path, problem, factor):
    network, start, data = problem
    safe = certify(Problem(network, data).at(start))
    assert safe.certificate is not None
    assert "kappa" not in safe.certificate.claims
    made = certify(
        Problem(network, data).at(start), Descent(step_size=factor * safe.certificate.claims["eta"])
    ).certificate
    assert made is not None
    assert 0 < made.claims["kappa"] < 1
    verdict = verify(made.save(tmp_path / "one"))
    assert verdict.answer == "proved", verdict.reason
    assert any(name == "eta (b² + s²) < 2" for name, _, _ in verdict.checks)


LIES = {  # what is claimed instead, and the inequality that fails
    "a larger kappa": (lambda c: {"kappa": c["kappa"] * (1 + 1e-9)}, "kappa² ≤"),
    "a larger step": (lambda c: {"eta": c["eta"] * (1 + 1e-9)}, "kappa² ≤"),
    "a step outside": (lambda c: {"eta": 2.0001 / (c["b"] ** 2 + c["s"] ** 2)}, "eta (b² + s²) < 2"),
    "a step far outside": (lambda c: {"eta": 3 / c["b"] ** 2, "kappa": 0.5}, "eta (b² + s²) < 2"),
    "no kappa": (lambda c: {"kappa": None}, "eta b² ≤ 1"),
    "a negative kappa": (lambda c: {"kappa": -c["kappa"]}, "kappa > 0"),
    "a kappa of one": (lambda c: {"kappa": 1.0}, "kappa² ≤"),
    "a smaller radius": (lambda c: {"radii": [0.999 * t for t in c["radii"]]}, "rho − (kappa s) t_J + ∫M < 0"),
    "a faster rate": (lambda c: {"rate": c["rate"] * (1 + 1e-9)}, "rate ≤ eta sigma ((kappa s) − M_J)"),
    "a smaller ratio": (lambda c: {"h": c["h"] * (1 - 1e-9)}, "h ≥ Λ_J rho / (kappa s)²"),
}


@pytest.mark.parametrize("lie", LIES)
def test_planted_violations_are_named(tmp_path, problem, lie):
    network, start, data = problem
    safe = certify(Problem(network, data).at(start)).descent
    assert safe is not None
    made = certify(Problem(network, data).at(start), Descent(step_size=1.5 * safe.eta)).certificate
    assert made is not None
    document, arrays = parts(made.save(tmp_path / "true"))
    false = copy.deepcopy(document)
    false["claims"] |= LIES[lie][0](false["claims"])
    false["claims"] = {name: value for name, value in false["claims"].items() if value is not None}
    verdict = verify(put(tmp_path / "false", false, arrays, digests=True))
    assert verdict.answer == "not proved"
    assert verdict.reason.startswith(LIES[lie][1]), verdict.reason


def test_outside_the_interval_nothing_is_certified(problem):
    network, start, data = problem
    safe = certify(Problem(network, data).at(start)).descent
    assert safe is not None
    end = 2 / (safe.b**2 + safe.s**2)
    for step_size in (end, 1.001 * end, 100 * end):
        attempt = certify(Problem(network, data).at(start), Descent(step_size=step_size))
        assert not attempt.passed
        assert attempt.obstacle is not None
        assert attempt.obstacle.quantity == "step size"
        assert attempt.obstacle.needed == safe.eta
        assert "must be below 2/(b² + s²)" in attempt.obstacle.reason
    near = certify(
        Problem(network, data).at(start), Descent(step_size=0.999 * end)
    ).obstacle  # inside, but almost nothing of s is left
    assert near is not None
    assert "leaves too little of s" in near.reason
    with pytest.raises(InputError, match="positive number"):
        certify(Problem(network, data).at(start), Descent(step_size=-1.0))
