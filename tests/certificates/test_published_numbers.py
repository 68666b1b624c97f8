"""Widths (by Theorem 1) and residuals of the theory's tables, measured again: means over draws, since each differs."""

import math

import numpy as np
import pytest

from tests.certificates.making import at, signs, sphere, start
from wideproof.certificates import Problem, certify
from wideproof.certificates.lipschitz import lipschitz
from wideproof.certificates.polishing import polish
from wideproof.certificates.squared_loss import descent
from wideproof.certificates.staircase import _one_constant
from wideproof.certificates.widths import doubled, width_needed
from wideproof.data import Dataset
from wideproof.errors import InputError
from wideproof.networks import FullyConnected


def problem(n, d, seed):
    """Gaussian inputs of unit norm, labels ±1."""
    return Dataset(sphere(n, d, seed), signs(n, seed), "binary")


def widths(n, d, seeds, **more):
    network = FullyConnected(d, 16, 1, trained=("hidden",))
    found = [width_needed(network, problem(n, d, seed), seeds=(seed,), shares=(), **more) for seed in seeds]
    for one in found:
        check_bracket(one)
    return [one.widths[0] or 0 for one in found]


def check_bracket(needed):
    """The width passes, and what was tried below it did not."""
    (width,), (best,) = needed.widths, needed.attempts
    assert best is not None
    assert best.passed
    assert best.h < 0.5
    assert all(tried.passed == (tried.width >= width) for tried in needed.tried)
    below = [tried.width for tried in needed.tried if not tried.passed]
    assert width - max(below) <= max(2, 0.02 * width)


def drawn(network, seed=0, scale=1.0):
    """The doubled start by NumPy: the law of `doubled`, and nothing to compile at every width."""
    half = np.random.default_rng(seed + network.width).standard_normal((network.width // 2, network.input_dim))
    signs = np.repeat([scale, -scale], network.width // 2)
    return {"W1": np.concatenate([half, half]), "a": signs}


def test_width_for_ten_points_in_a_hundred_dimensions(monkeypatch):
    """88 to 120 in three draws, plus or minus a tenth."""
    monkeypatch.setattr("wideproof.certificates.widths.doubled", drawn)
    found = widths(10, 100, range(2))
    print(f"\nn = 10, d = 100: {found}, mean {np.mean(found):.0f}")
    assert 0.9 * 88 <= np.mean(found) <= 1.1 * 120


@pytest.mark.slow
def test_width_for_ten_points_with_the_start_of_the_package():
    found = widths(10, 100, range(6))
    print(f"\nn = 10, d = 100: {found}, mean {np.mean(found):.0f}")
    assert 0.9 * 88 <= np.mean(found) <= 1.1 * 120
    assert 0.8 * 88 <= min(found) <= max(found) <= 1.25 * 120


@pytest.mark.slow
def test_width_for_fifty_points_in_five_hundred_dimensions():
    """688 in one draw, plus or minus a twentieth."""
    found = widths(50, 500, range(3))
    print(f"\nn = 50, d = 500: {found}, mean {np.mean(found):.0f}")
    assert np.mean(found) == pytest.approx(688, rel=0.05)


def test_width_times_the_square_of_the_scale_is_what_counts():
    """Outputs ±2 halve the proof ratio, four times the width does so up to the draw."""
    data, network = problem(10, 100, 0), FullyConnected(100, 200, 1, trained=("hidden",))
    wide = FullyConnected(100, 800, 1, trained=("hidden",))
    one, two = (certify(Problem(network, data).at(doubled(network, 0, scale))).h for scale in (1.0, 2.0))
    assert two == pytest.approx(one / 2, rel=1e-6)
    four = certify(Problem(wide, data).at(doubled(wide, 0))).h
    assert four == pytest.approx(one / 2, rel=0.25)


def test_no_width_passes_for_an_input_of_zeros():
    """Hidden weights do not move its output: a Gram matrix that is singular at every width, and the search says so."""
    x = sphere(4, 6, 0)
    x[1] = 0
    network = FullyConnected(6, 16, 1, trained=("hidden",))
    found = width_needed(network, Dataset(x, np.array([1.0, 1, -1, -1]), "binary"), largest=128)
    assert found.widths == (None,)
    assert "no proof before training up to width 128" in str(found)


def test_odd_widths_cannot_be_doubled():
    with pytest.raises(InputError, match="even width"):
        doubled(FullyConnected(3, 7, 1))


# After training: softplus, all trained, 50 points on a sphere in R^20, random labels, width 256, polished.
# depth: (λ_min, the largest residual that is certified), each the outcome of one draw, and the median residual of 16
# draws here. One draw scatters by 12, 13, 13 and 21 % (standard deviation at depth 1, 2, 3, 5), so three draws say
# nothing about a tenth: at depth 3 the first three have the mean 0.0069, all 16 have 0.0074, and 11 are below the
# table's 0.0079. The definition is the same: at depth 3 the residual is 0.83 to 0.86 of λ_min / 2Λ(0) in every draw,
# and with the table's own λ_min and Λ this is 0.0076 to 0.0079. How the weights got where they are matters as much:
# trained by gradient descent to the residual 2.5 before polishing, 16 draws allow 0.0061 ± 0.0007.
PUBLISHED = {
    1: (0.052, 8.3e-2, 0.0807),
    2: (0.057, 1.9e-2, 0.0195),
    3: (0.064, 7.9e-3, 0.0075),
    5: (0.061, 1.1e-3, 9.5e-4),
}
DRAWS = 16


def largest_residual(s, constant):
    """The largest residual that one constant certifies, to a thousandth."""
    low, high = 1e-6, 1.0
    while high > low * 1.001:
        middle = math.sqrt(low * high)
        stairs = _one_constant(middle, s, constant)
        passes = stairs is not None and descent(middle, s, s, stairs) is not None
        low, high = (middle, high) if passes else (low, middle)
    return low


def thresholds(depth, seed):
    """One draw: λ_min, the Lipschitz constant at the anchor, and the largest residual that is certified."""
    network, x, y = FullyConnected(20, 256, depth), sphere(50, 20, seed), signs(50, seed)
    polished = polish(network, start(network, np.random.default_rng(seed)), x, y)
    assert polished.residuals[-1] < 1e-11
    plain = at(network, polished.params, x, y, level="float64")
    sharp = at(network, polished.params, x, y, sharp=True, level="float64") if depth > 1 else plain
    best = largest_residual(plain.s, lambda radius: lipschitz(sharp, radius).value)
    return plain.s**2, lipschitz(sharp, 0.0).value, best


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 2, 3, 5])
def test_residuals_that_can_be_certified_after_training(depth):
    """The table's draw among ours: its λ_min is in their range, and its residual is not above all of them.

    Were it a draw of the same law, it would be outside with probability 2/17 and 1/17. Tighter bounds certify more than
    the table, never less than the median noted here, and never more than one constant can: λ_min / 2Λ(0).
    """
    eigenvalue, constant, best = np.array([thresholds(depth, seed) for seed in range(DRAWS)]).T
    print(
        f"\ndepth {depth}: λ_min {np.mean(eigenvalue):.3g}, residual {np.mean(best):.3g} ± {np.std(best, ddof=1):.2g}"
    )
    published, residual, median = PUBLISHED[depth]
    assert eigenvalue.min() <= published <= eigenvalue.max()
    assert residual <= best.max()
    assert np.median(best) >= 0.98 * median
    assert np.all(best <= eigenvalue / (2 * constant))
