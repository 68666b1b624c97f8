"""Zou et al. (2018): planted violations are seen."""

from __future__ import annotations

import numpy as np
import pytest

from tests.papers.labs import quick
from wideproof.answers import Answer
from wideproof.monitors.patterns import small_values
from wideproof.papers import zou2018
from wideproof.papers.check import at_least, at_most, identity, law, scales
from wideproof.papers.zou2018 import descent, moves, starts, steps
from wideproof.papers.zou2018.hypotheses import excess
from wideproof.papers.zou2018.lab import Lab, look, margin_loss, walk

pytestmark = pytest.mark.xdist_group("zou2018")
LAB = quick("zou2018")


@pytest.mark.parametrize("clause", ["theorem_5_1_iii", "theorem_5_1_viii", "theorem_5_3_i"])
def test_clauses_carry_what_the_theorem_supposes(clause):
    met = [one.outcome for one in getattr(zou2018, clause)(LAB).hypotheses]
    assert met[0] is Answer.FAILS  # the widths and radii of the theorems are out of reach


# Planted violations: the science goes wrong, and the comparison of the statement says so.


def test_weights_with_fan_in_variance_have_wrong_norms():
    """N(0, 2/fan-in) in the first layer (d = 6) makes layer norms grow as √(m/d): not 1."""
    ratios = []
    for draw in range(200):
        start = dict(LAB.start(64, 3, draw))
        start["W1"] = start["W1"] * np.sqrt(64 / 6)
        seen = look(start, LAB.data().x)
        ratios.append((np.linalg.norm(seen.layers[1][0]) / np.linalg.norm(seen.layers[0][0])) ** 2)
    assert law("mean of the ratio is 1", ratios, 1.0).outcome is Answer.FAILS
    assert law("one draw", ratios[:1], 1.0).outcome is Answer.UNDECIDED


def test_unbalanced_signs_shift_the_outputs():
    outputs = []
    for draw in range(120):
        start = dict(LAB.start(64, 3, draw)) | {"v": np.ones(64)}
        outputs.append(look(start, LAB.data().x).outputs[0])
    assert law("mean of f(x_i)", outputs, 0.0).outcome is Answer.FAILS


def test_half_the_count_of_small_preactivations_is_too_few():
    """The constant 2 is right, 1/4 is not."""
    m, beta = 256, np.array([0.5, 1.0]) / np.sqrt(256)
    counts = small_values(LAB.seen(m).values[1], beta)
    assert at_most("count", counts, 2 * m**1.5 * beta, counts=True).outcome is Answer.HOLDS
    assert at_most("count", counts, 0.25 * m**1.5 * beta, counts=True).outcome is Answer.FAILS


def test_a_wrong_power_of_tau_is_refused():
    """Adversarial flips go as τ^{2/3}: claiming τ¹ fails."""
    flips = moves.over_radii(LAB, moves.flipped, "adversarial", moves.RADII, 256)
    assert scales("flips", "τ", moves.RADII, flips, 1.0, sense="at least").outcome is Answer.FAILS
    assert scales("flips", "τ", moves.RADII, flips, 2 / 3, sense="at least").outcome is Answer.HOLDS


def test_an_off_by_one_layer_breaks_the_telescoping():
    before = LAB.seen(128)
    shifted = np.sum(before.form(3) * before.layers[1][:, : before.form(3).shape[1]], axis=1)
    right = np.sum(before.form(3) * before.layers[2], axis=1)
    assert identity("f = q_3ᵀ x_2", before.outputs, right).outcome is Answer.HOLDS
    assert identity("f = q_3ᵀ x_1", before.outputs, shifted).outcome is Answer.FAILS


def test_too_large_a_step_is_no_descent():
    loss = margin_loss("squared_hinge")
    far = walk(LAB.start(64, 3, 0), LAB.data(), loss, 4.0 / 64, 4, None, np.random.default_rng(0))
    assert np.isnan(descent.least_descent(far, 64))
    ratios = far.losses[1:] / far.losses[:-1]
    assert at_most("L_S(k+1)/L_S(k)", ratios, 1.0).outcome is Answer.FAILS


def test_too_small_a_lambda_breaks_c_3():
    y, found = LAB.data().y, descent.walks(LAB, "squared_hinge")[0]
    change = y * np.diff(found.outputs, axis=0)
    for smoothness, outcome in ((2.0, Answer.HOLDS), (1.0, Answer.FAILS)):
        bound = (-found.slopes[:-1] * change + smoothness / 2 * change**2).mean(axis=1)
        check = excess("C.3", found.losses[1:], found.losses[:-1] + bound)
        assert check.outcome is outcome


def test_missing_labels_break_the_gradient_of_opposite_pairs():
    """Same-label copies cannot cancel; opposite labels on equal inputs leave no gradient: c* = 0."""
    data = LAB.data()
    x = data.x.copy()
    x[1] = x[0]
    seen = look(LAB.start(128, 3, 0), x)
    assert moves.worst_share(seen, data.y) < 1e-12
    assert at_least("c*/m", moves.worst_share(seen, data.y), moves.LEAST_SHARE * 0.3 / 8**5).outcome is Answer.FAILS
    assert moves.worst_share(LAB.seen(128), data.y) > 1e-6


def test_nothing_is_decided_by_nan_or_by_one_start():
    widths = np.array([32, 64, 128])
    assert scales("y", "m", widths, [[1.0, np.nan, 1.0]] * 3, 0.0).outcome is Answer.UNDECIDED
    assert scales("y", "m", widths[:2], [[1.0, 1.0]], 0.0).outcome is Answer.UNDECIDED
    assert at_most("y", [np.nan], [1.0]).outcome is Answer.UNDECIDED


def test_a_larger_power_of_eta_is_refused():
    """Margins move in proportion to η, so claiming η² from above (at least 2) fails."""
    moved = [[np.abs(steps.take(LAB, 128, k, s).change).max() for s in steps.SPEEDS] for k in range(3)]
    assert scales("Δ", "η", steps.SPEEDS, moved, 2.0, sense="at least").outcome is Answer.FAILS


def test_separation_fails_when_phi_is_out_of_scope():
    """At infinite width Lemma A.4 asks for φL up to about 3.2 only; at φL = 6 the bound is violated."""
    depth = 10
    bound = (1 - np.log(2) / (2 * depth)) ** np.arange(1, depth + 1)
    assert at_least("near", starts.limit_separations(0.3, depth) / 0.3, bound).outcome is Answer.HOLDS
    assert at_least("far", starts.limit_separations(0.6, depth) / 0.6, bound).outcome is Answer.FAILS


def test_laboratory_does_not_depend_on_order():
    one, other = Lab("quick"), Lab("quick")
    other.seen(64, draw=3)
    np.testing.assert_array_equal(one.seen(64).outputs, other.seen(64).outputs)
    assert Lab("quick", seed=1).seen(64).outputs[0] != one.seen(64).outputs[0]
