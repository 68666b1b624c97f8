"""The printed bounds in numbers worked out by hand, at constants that are all different: no operator can be another.

Unless said otherwise $c_\\sigma = 4$, $L = 3$, $\\beta = 5$, $c_{w,0} = 1/2$, $c_{x,0} = 7$, $a_{2,0} = 11$,
$a_{4,0} = 13$, $c_{res} = 2/3$, $R = 1/10$, and for images $p = 16$ positions, filters of $q = 9$.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from wideproof.monitors import relu, smooth
from wideproof.monitors.generalization import GeneralizationBound, linear_term, rounded_radius
from wideproof.monitors.residual import Pass
from wideproof.monitors.residual_moves import certified_remainder, weight_distance
from wideproof.networks import ConvResidual, FullyConnected, Residual, get_activation

ROUND = replace(get_activation("softplus"), name="round", c_sigma=4.0, lipschitz=3.0, smoothness=5.0)
C = smooth.Constants(weights=0.5, features=7.0, read_out=11.0, read_out_4=13.0)
E2, E6 = math.exp(2), math.exp(6)  # exp(2 c_res c_w L) = e², over images with √q beside L: e⁶


def fully(depth: int) -> FullyConnected:
    return FullyConnected(3, 8, depth, ROUND)


RESIDUAL = Residual(3, 8, 5, ROUND, 2 / 3)
IMAGES = ConvResidual(2, 16, 8, 5, filter_size=9, activation=ROUND, c_res=2 / 3)


def test_geometric_sums():
    np.testing.assert_allclose(smooth.geometric(6.0, np.array([0, 1, 2, 3])), [0, 1, 7, 43])
    np.testing.assert_allclose(smooth.geometric(0.5, np.array([1, 2, 3])), [1, 1.5, 1.75])
    np.testing.assert_allclose(smooth.geometric(1.0, np.array([1, 4])), [1, 4])


def test_features_of_fully_connected_layers():
    # √c_σ L c_x R = 2·3·7/10 = 4.2, times 1, 1 + 6, 1 + 6 + 36
    np.testing.assert_allclose(smooth.feature_bound(fully(3), C, 0.1), [4.2, 29.4, 180.6])


def test_features_of_residual_layers():
    # (2·3 + 7/(1/2)) e² R = 20 e²/10
    np.testing.assert_allclose(smooth.feature_bound(RESIDUAL, C, 0.1), [2 * E2] * 5)
    # (2·3·3 + 14) e⁶ R = 32 e⁶/10
    np.testing.assert_allclose(smooth.feature_bound(IMAGES, C, 0.1), [3.2 * E6] * 5)


def test_gram_matrix_of_a_fully_connected_network():
    # g = 7; (2·5·7·13² + 3·2·9)·3·4·7²·11²·7 = 11884·498036 and 12·9·49·4·11 = 232848; n R = 1.7
    assert smooth.gram_bound(fully(2), C, 17, 0.1) == pytest.approx(5_918_892_672 * 1.7, rel=1e-14)


def test_gram_matrix_of_a_residual_network():
    # c_x = 20 e²; 3·7·121 c_x + 2·5·49·169 (c_x + 7) + 12·49·11 = 85351 c_x + 586138; (2/3)²/25 · 9 · 1.7 = 0.272
    found = smooth.gram_bound(RESIDUAL, C, 17, 0.1)
    assert found == pytest.approx(0.272 * (1_707_020 * E2 + 586_138), rel=1e-13)
    # Each half of the sum is a thousandth of the bound or more, so that this comparison sees it.
    assert 586_138 / (1_707_020 * E2) > 1e-2


def test_gram_matrix_over_images():
    # c_x = 32 e⁶; 3·7·3·121·16 c_x = 121968 c_x; 2·5·49·169·4 (3 c_x + 7) = 331240 (3 c_x + 7); 12·49·3·11·4 = 77616;
    # (2/3)²/25 · 3 · 1.7 = 6.8/75
    found = smooth.gram_bound(IMAGES, C, 17, 0.1)
    assert found == pytest.approx(6.8 / 75 * (35_702_016 * E6 + 2_396_296), rel=1e-13)


def test_steps_of_a_fully_connected_network():
    # 4·7·11·5 = 1540, times 6² where 2 √c_σ L c_w = 6, and times 1 where it is 1/2
    assert smooth.step_bound(fully(2), C, 25) == pytest.approx(dict.fromkeys(("W1", "W2", "a"), 55_440.0), rel=1e-14)
    small = smooth.step_bound(fully(2), C._replace(weights=1 / 24), 25)
    assert small == pytest.approx(dict.fromkeys(("W1", "W2", "a"), 1_540.0), rel=1e-14)


@pytest.mark.parametrize(
    ("network", "first", "inner"),
    [
        (RESIDUAL, 9_240 * E2, 616 * E2),  # 1540·3 e² = 4620 e², times √c_σ = 2 or c_res/H = 2/15
        (IMAGES, 110_880 * E6, 7_392 * E6),  # and √(16·9) = 12 times as much
    ],
)
def test_steps_of_residual_networks(network, first, inner):
    hidden = dict.fromkeys(("W2", "W3", "W4", "W5"), inner)
    found = smooth.step_bound(network, C, 25)
    assert found == pytest.approx({"W1": first, **hidden, "a": 140.0}, rel=1e-13)  # 4·7·5
    assert smooth.step_bound(network, C, 25, printed=True) == pytest.approx(
        {"W1": inner, **hidden, "a": inner}, rel=1e-13
    )


def test_the_whole_way_of_the_weights():
    assert smooth.total_bound({"W1": 7.0, "a": 0.5}, residual=3.0, lambda_0=0.25) == {"W1": 336.0, "a": 24.0}


def test_what_moves_are_divided_by():
    moved = smooth.tracked_movement({"W": np.diag([4.0, 6.0])}, {"W": np.diag([1.0, 2.0])}, 25)
    assert moved == {"W": 1.0}
    outputs, first_order = np.array([[1.0], [8.0], [2.0]]), np.array([[3.0], [4.0], [9.0]])
    np.testing.assert_allclose(smooth.second_order_change(outputs, first_order, 0.5), [[5.5], [-8.0]])


def test_descent_coefficients_and_upper_ratios():
    # (7 - 4)/(0.1·10·2²) and (4 - 1)/(0.1·10·5²)
    found = relu.descent_coefficients([7.0, 4.0, 1.0], [2.0, 5.0, 9.0], 0.1, 10)
    np.testing.assert_allclose(found, [0.75, 0.12])
    # One layer, two orthogonal examples of norm 2 and 3 with b of norm 1: the gradients' sum is diagonal.
    unit, x = np.eye(4)[:2], np.diag([2.0, 3.0])
    seen = relu.ReLUPass((np.zeros((2, 4)),), np.ones(4), (x, unit), (unit,), (unit,), np.zeros(2))
    # n ‖∇‖₂ / (√M Σ|ℓ'|) with slopes 5 and 1: max(5·2, 1·3) / (2·6)
    np.testing.assert_allclose(relu.upper_ratios(seen, [-5.0, 1.0], [1.0, -1.0]), [10 / 12])


def test_bound_by_traces():
    # tr 9 and tr 16: (6/3)(3 + 4); of diagonal forms every choice of signs has the same value
    grams = np.stack([np.diag([1.0, 4, 4]), np.diag([9.0, 3, 4])])
    assert linear_term(grams, 6.0) == pytest.approx((14.0, 0.0, 14.0))


@pytest.mark.parametrize("n", [2, 12])
def test_signs_are_enumerated(n):
    """(ξ₁ + ξ₂)² has the root 0 or 2, one as often as the other: 5/n times 1, where drawn signs would miss it."""
    gram = np.zeros((1, n, n))
    gram[0, :2, :2] = 1.0
    assert linear_term(gram, 5.0, draws=3) == pytest.approx((5 / n, 0.0, 5 / n * math.sqrt(2)))


def test_error_of_drawn_signs():
    """With ξᵀKξ = (ξ₁ + ξ₂)² the root is 0 or 2, so that the mean tells the share p of twos, and p the deviation."""
    gram, draws, radius = np.zeros((1, 13, 13)), 1000, 26.0
    gram[0, :2, :2] = 1.0
    found = linear_term(gram, radius, draws, seed=3)
    share = found.value / 4  # τ/n = 2, and twos
    assert share * draws == pytest.approx(round(share * draws))
    assert abs(share - 0.5) < 4 * 0.5 / math.sqrt(draws)
    assert found.error == pytest.approx(4 * math.sqrt(share * (1 - share) / (draws - 1)))
    assert found.trace_bound == pytest.approx(2 * math.sqrt(2))


@pytest.mark.parametrize(
    ("radius", "largest", "up", "spent"),
    [(0.3, 2.0, 0.5, 12), (2.0, 2.0, 2.0, 2), (1.1, 2.0, 2.0, 2), (0.9, 2.0, 1.0, 6), (0.2, 1.0, 0.25, 12)],
)
def test_radius_on_the_grid(radius, largest, up, spent):
    assert rounded_radius(radius, largest, 0.6) == pytest.approx((up, 0.6 / spent))
    with pytest.raises(ValueError, match="above 0"):
        rounded_radius(0.0, largest)


def test_every_right_side_of_the_generalization_bound():
    found = GeneralizationBound(0.1, 8.0, 100, 4, math.exp(-9), linear=0.3, attacked=0.7, certified=5.0)
    own = 0.2 + 1.5  # 2·0.1 + √(9/4)
    # 8^(4/3) √(100 log 100) = 16·10·√(log 100), 8 √(100/4) = 40
    assert found.paper == pytest.approx(own + 160 * math.sqrt(math.log(100)) + 40)
    assert found.calibrated == pytest.approx(own + 1.0)
    # 6 √(log(2 e⁹)/8): deviations of both sides of a loss between 0 and 1
    wide = 0.2 + 6 * math.sqrt((math.log(2) + 9) / 8)
    assert found.explicit == pytest.approx(wide + 1.0)
    assert found.proved == pytest.approx(wide + 5.3)
    assert found.linearized == pytest.approx(wide + 0.3)


def small_pass(weights) -> Pass:
    r"""Two units, $L = 2$, $\theta = 1/2$, the input (3, 4)."""
    x = [np.array([[3.0, 4.0]])]
    u = [x[0] @ weights[0]]
    x += [np.maximum(u[0], 0)]
    u += [x[1] @ weights[1]]
    x += [x[1] + 0.5 * np.maximum(u[1], 0)]
    u += [x[2] @ weights[2]]
    x += [np.maximum(u[2], 0)]
    return Pass(0.5, x, u, list(weights))


PASS = small_pass([np.eye(2), np.diag([4 / 3, 4.0]), np.diag([3.0, -2.0])])


def test_certified_remainder_by_hand():
    np.testing.assert_allclose(PASS.layers, [[[3, 4]], [[3, 4]], [[5, 12]], [[15, 0]]])
    np.testing.assert_allclose([PASS.q(1), PASS.q(2), PASS.q(3)], [[[5, 0]], [[3, 0]], [[1, -1]]])
    found = certified_remainder(PASS, 0.9)
    # ρ₁ = 0.9·5; one of 9, 9 + 16 is below ρ₁². ρ₂ = 0.9 (5 + 4.5) + 4·4.5; both. ρ₃ = 0.9 (13 + 17.775) + 3·17.775
    np.testing.assert_allclose(found.moves, [[4.5, 4.5 + 26.55 / 2, 81.0225]])
    np.testing.assert_array_equal(found.flips, [[1, 2, 2]])
    # 5·4.5, then (3·26.55 + 3·0.9·4.5)/2, then √2·81.0225 + 0.9·17.775
    np.testing.assert_allclose(found.remainder, [22.5 + 45.9 + 81.0225 * math.sqrt(2) + 15.9975])


def test_units_that_may_just_flip_are_counted():
    assert certified_remainder(PASS, 1.0).flips[0, 0] == 2  # 9 + 16 = ρ₁² = 25


def test_distance_of_weights_by_hand():
    moved = small_pass([np.eye(2) + np.diag([0, 5.0]), np.diag([4 / 3, 12.0]), np.diag([3.0, -9.0])])
    assert weight_distance(moved, PASS) == pytest.approx(5 + 8 / 2 + 7)
    assert weight_distance(PASS, PASS) == 0
