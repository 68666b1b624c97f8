"""Every comparison has a case that holds, a planted violation that fails, and one that decides nothing."""

import numpy as np
import pytest

from wideproof.answers import Answer
from wideproof.errors import InputError
from wideproof.papers import laboratory, stored, zou2018
from wideproof.papers.check import (
    agrees,
    at_least,
    at_most,
    conclude,
    frequency,
    identity,
    law,
    often,
    scales,
    sides,
)
from wideproof.papers.study import Lab

HOLDS, FAILS, UNDECIDED = Answer.HOLDS, Answer.FAILS, Answer.UNDECIDED
X = np.array([64.0, 128.0, 256.0, 512.0])
NOISE = np.random.default_rng(3).normal(size=(5, 4))


def power(exponent: float, noise: float = 0.02) -> np.ndarray:
    return 3 * X**exponent * np.exp(noise * NOISE)


@pytest.mark.parametrize(
    ("check", "outcome"),
    [
        (identity("a", [1.0, 2.0], [1.0, 2.0 + 1e-12]), HOLDS),
        (identity("a", [1.0, 2.0], [1.0, 2.001]), FAILS),
        (identity("a", [1.0, np.nan], [1.0, 2.0]), UNDECIDED),
        (identity("a", 0.0, 0.0), HOLDS),
        (agrees("a", [1.0], [1.001], tolerance=1e-2), HOLDS),
        (agrees("a", [1.0], [1.1], tolerance=1e-2), FAILS),
        (agrees("a", [1.0], [np.inf], tolerance=1e-2), UNDECIDED),
        (at_most("a", [1.0, 2.0], [1.5, 2.5]), HOLDS),
        (at_most("a", [1.0, 2.6], [1.5, 2.5]), FAILS),
        (at_most("a", [1.0, 2.5], [1.5, 2.5 * (1 + 1e-14)]), UNDECIDED),
        (at_most("a", [1.0, np.nan], [1.5, 2.5]), UNDECIDED),
        (at_most("a", [np.inf], [np.inf]), UNDECIDED),
        (at_most("a", [5.0], [np.inf]), HOLDS),
        (at_most("a", [np.inf], [5.0]), FAILS),
        (at_most("a", 0.0, 0.0), HOLDS),
        (at_most("a", [3], [3], counts=True), HOLDS),
        (at_most("a", [4], [3], counts=True), FAILS),
        (at_least("a", [2.0], [1.0]), HOLDS),
        (at_least("a", [1.0], [2.0]), FAILS),
        (at_least("a", [1.0], [1.0]), UNDECIDED),
        (scales("a", "m", X, power(0.5), 0.5), HOLDS),
        (scales("a", "m", X, power(0.5), 1.0), HOLDS),
        (scales("a", "m", X, power(1.0), 0.5), FAILS),
        (scales("a", "m", X, power(0.6, 0.5), 0.5), UNDECIDED),
        (scales("a", "m", X, power(0.5), 1.0, sense="equal"), FAILS),
        (scales("a", "m", X, power(0.5), 0.5, sense="equal"), HOLDS),
        (scales("a", "m", X, power(0.5), 1.0, sense="at least"), FAILS),
        (scales("a", "m", X, power(0.5), 0.2, sense="at least"), HOLDS),
        (scales("a", "m", X, power(0.5) * np.nan, 0.5), UNDECIDED),
        (scales("a", "m", X[:2], power(0.5)[:, :2], 0.5), UNDECIDED),
        (scales("a", "m", X, np.zeros((3, 4)), 0.5), UNDECIDED),
        (scales("a", "m", X, power(0.5, 0.002)[0], 0.5), HOLDS),
        (law("a", 2 + NOISE[:, 0] * 1e-3, 2.0), HOLDS),
        (law("a", 2.1 + NOISE[:, 0] * 1e-3, 2.0), FAILS),
        (law("a", [1.0, 1.0, 1.0], 1.0), HOLDS),
        (law("a", [1.0, 1.0, 1.0], 1.1), FAILS),
        (law("a", [1.0, 2.0], 1.5), UNDECIDED),
        (law("a", [1.0, np.nan, 2.0], 1.5), UNDECIDED),
        (frequency("a", 100, 100, 0.9), HOLDS),
        (frequency("a", 50, 100, 0.9), FAILS),
        (frequency("a", 9, 10, 0.9), UNDECIDED),
    ],
)
def test_three_answers(check, outcome):
    assert check.outcome is outcome, str(check)


def test_five_standard_errors_decide_nothing():
    draws = NOISE[:, 0]
    error = draws.std(ddof=1) / np.sqrt(draws.size)
    assert law("a", draws, draws.mean() + 5 * error).outcome is UNDECIDED


def test_slack_and_constant():
    check = at_most("a", [1.0, 6.0], [2.0, 8.0])
    assert check.slack == pytest.approx(0.25)
    assert check.constant == pytest.approx(0.75)
    assert (check.left, check.right) == (6.0, 8.0)
    violated = at_most("a", [3.0], [2.0])
    assert violated.slack == pytest.approx(-1 / 3)
    assert violated.constant == pytest.approx(1.5)
    assert at_most("a", [-3.0], [-1.0]).outcome is HOLDS


def test_the_interval_of_a_slope_covers_the_truth():
    """Over many draws of the noise, the 95 % interval misses the true exponent in about 5 % of the cases."""
    rng = np.random.default_rng(1)
    missed = 0
    for _ in range(400):
        y = X**-0.5 * np.exp(0.3 * rng.normal(size=(6, 4)))
        slope = scales("a", "m", X, y, 0.0).slope
        assert slope is not None
        missed += not slope.low <= -0.5 <= slope.high
    assert 5 <= missed <= 38  # 20 expected, 4 standard deviations


def test_the_interval_of_one_line_covers_the_truth():
    rng = np.random.default_rng(2)
    missed = 0
    for _ in range(400):
        slope = scales("a", "m", X, X**-0.5 * np.exp(0.3 * rng.normal(size=4)), 0.0).slope
        assert slope is not None
        missed += not slope.low <= -0.5 <= slope.high
    assert 5 <= missed <= 38


def test_constants_of_a_scale():
    check = scales("a", "m", X, 3 * X**0.5, 0.5)
    assert check.constant == pytest.approx(3)
    assert check.numbers().endswith("printed at most 0.5, all values <= 3 m^0.5")
    assert "all values <= 3 (1/ε)^2" in str(scales("a", "1/ε", X, 3 * X**2, 2.0))
    assert scales("a", "m", X, np.full(4, 3.0), 0.0).numbers().endswith(", all values <= 3")
    assert "C >=" not in str(conclude(check, check))
    assert at_most("a", 1.0, 2.0).numbers().endswith("holds for C >= 0.5")


def test_what_is_bounded_from_below_gets_no_factor_from_above():
    """For y >= C x with small x the exponent is at most 1, and the largest y/x says nothing about C."""
    check = scales("least share", "φ", [0.05, 0.1, 0.2, 0.4], [0.2, 0.3, 0.5, 0.8], 1.0, lower=True)
    assert check.outcome is HOLDS
    assert check.constant is None
    assert "<=" not in check.numbers()
    assert ">=" not in check.numbers()


def test_the_stored_study_says_of_lower_bounds_what_their_checks_say():
    """Statements that bound a least value from below, in a quantity that goes to zero."""
    kept, lower = stored()["statements"], []
    for name in ("zou2018.lemma_b_5", "zou2018.theorem_5_3_vii", "zou2018.eq_c_6", "allenzhu2018.theorem_3",
                 "allenzhu2018.eq_6_3", "allenzhu2018.lemma_a_19", "frei2019.lemma_4_3", "frei2019.eq_6"):  # fmt: skip
        leaves = [part for part in kept[name]["parts"] if "slope" in part]
        lower += [part for part in leaves if part["slope"]["variable"] in ("φ", "delta", "beta_-", "mu", "γ")]
    assert len(lower) == 8
    assert all(part["slope"]["sense"] == "at most" and "<=" not in part["numbers"] for part in lower)
    assert "holds for C" not in "".join(part["numbers"] for part in _slopes(list(kept.values())))


def _slopes(found):
    return [one for part in found for one in (part, *_slopes(part.get("parts", []))) if "slope" in one]


def test_zeros_are_averaged_over_draws():
    y = power(0.5)
    y[0, 0] = 0.0
    assert scales("a", "m", X, y, 1.0).outcome is HOLDS


def test_parts_are_joined():
    good, bad, open_ = at_most("good", 1.0, 2.0), at_most("bad", 3.0, 2.0), at_most("open", 2.0, 2.0)
    assert conclude(good, good).outcome is HOLDS
    assert conclude(good, open_).outcome is UNDECIDED
    assert conclude(good, open_, bad).outcome is FAILS
    joined = conclude(conclude(good, bad), open_)
    assert [leaf.title for leaf in joined.leaves()] == ["good", "bad", "open"]
    assert joined.left == 3.0
    with pytest.raises(ValueError, match="at least one"):
        conclude()


def test_hypotheses_do_not_enter_the_outcome():
    check = conclude(at_most("a", 1.0, 2.0), hypotheses=[at_most("width", 3.0, 2.0)], assumptions=["C = 1"], note="n")
    assert check.outcome is HOLDS
    assert check.hypotheses[0].outcome is FAILS
    assert check.assumptions == ("C = 1",)
    assert "n" in str(check)


def test_nothing_to_compare_is_a_mistake():
    for compare in (identity, at_most):
        with pytest.raises(ValueError, match="nothing to compare"):
            compare("a", [], [])
    with pytest.raises(ValueError, match="one value per point"):
        scales("a", "m", X, X[:3], 1.0)


def test_gathered_samples_are_compared_as_one_array():
    gathered = [(0.5, 1.0), ([1.0, 3.0], 2.0), (np.ones((2, 2)), np.full((2, 1), 4.0))]
    left, right = sides(gathered)
    assert left.tolist() == [0.5, 1.0, 3.0, 1.0, 1.0, 1.0, 1.0]
    assert right.tolist() == [1.0, 2.0, 2.0, 4.0, 4.0, 4.0, 4.0]
    check = at_most("one sample is too large", left, right)
    assert (check.outcome, check.left, check.right, check.samples) == (FAILS, 3.0, 2.0, 7)
    with pytest.raises(ValueError, match="no sample was gathered"):
        sides([])
    with pytest.raises(ValueError, match="longer"):
        sides([(1.0, 2.0), (1.0, 2.0, 3.0)])


def test_truth_values_are_counted():
    held = np.arange(40) % 20 != 7
    assert often("38 of 40", held, 0.8) == frequency("38 of 40", 38, 40, 0.8)
    assert often("38 of 40", held.tolist(), 0.999).outcome is FAILS
    assert often("all of a table", held.reshape(8, 5), 0.95).outcome is UNDECIDED


def test_a_grid_is_measured_draw_by_draw():
    """The order decides which random numbers a cell gets, where cells share a generator."""
    asked = []

    def measure(width, seed):
        asked.append((width, seed))
        return 10.0 * width + seed, -seed

    sums, seeds = Lab().over((1, 2, 3), (5, 7), measure)
    assert asked == [(width, seed) for seed in (5, 7) for width in (1, 2, 3)]
    assert sums.tolist() == [[15.0, 25.0, 35.0], [17.0, 27.0, 37.0]]
    assert seeds.tolist() == [[-5.0] * 3, [-7.0] * 3]
    assert Lab().over((4, 8), 3, lambda width, seed: width * seed).tolist() == [[0, 0], [4, 8], [8, 16]]


@pytest.mark.parametrize(
    ("widths", "said"),
    [
        ((64,), "at least 3 widths, got 64"), ((), "at least 3 widths, got none"),
        ((64, 64, 128), "must increase, got 64, 64, 128"), ((64, 256, 128), "must increase"),
        ((8, 16, 32), "at least 16"), ((64.0, 128.0, 256.0), "whole numbers"),
    ],
)  # fmt: skip
def test_widths_over_which_nothing_can_be_fitted_are_refused(widths, said):
    with pytest.raises(InputError, match=said):
        Lab(widths=widths)


def test_a_paper_with_paired_signs_needs_even_widths():
    with pytest.raises(InputError, match="use 66 for 65"):
        laboratory("zou2018", widths=(64, 65, 128))
    assert laboratory("allenzhu2018", widths=(64, 65, 128)).grid((1,), (2,), (3,)) == (64, 65, 128)


def test_what_is_kept_remembers_that_it_depends_on_the_widths():
    """The second statement that uses a kept measurement depends on the widths as much as the first."""
    lab = Lab()

    def over_widths():
        return lab.keep("over widths", lambda: sum(lab.grid((1, 2), (3,), (4,))))

    def outer():
        return lab.keep("outer", over_widths) + lab.keep("plain", lambda: 1)

    assert lab.asking(outer) == (4, True)
    assert lab.asking(outer) == (4, True)
    assert lab.asking(over_widths) == (3, True)
    assert lab.asking(lambda: lab.keep("plain", lambda: 1)) == (1, False)


def test_a_statement_is_measured_at_the_widths_asked_for_or_says_that_it_is_not():
    lab = laboratory("zou2018", widths=(32, 64, 256))
    outputs, scalar = zou2018.theorem_5_1_iii(lab), zou2018.lemma_c_1(lab)
    assert outputs.slope is not None
    assert outputs.slope.x.tolist() == [32, 64, 256]
    assert not any("not used" in text for text in outputs.assumptions)
    assert "the widths asked for are not used" in scalar.assumptions[-1]
    assert not any("not used" in text for text in zou2018.lemma_c_1().assumptions)


def test_every_width_asked_for_is_used():
    """Studies leave out the narrowest or the widest of their own for some statements; chosen ones stay."""
    lab = laboratory("zou2018", widths=(32, 64, 128))
    slope = next(part.slope for part in zou2018.theorem_5_1_v(lab).parts if part.slope and part.slope.variable == "m")
    assert slope.x.tolist() == [32, 64, 128]
    assert Lab().some((1, 2, 3), 1) == (2, 3)
    assert Lab().some((1, 2, 3), stop=2) == (1, 2)
    assert Lab(widths=(16, 32, 64)).some((16, 32, 64), 1) == (16, 32, 64)


def test_a_statement_says_what_it_takes():
    advice = r"takes a laboratory and nothing else, got width: .*laboratory\('zou2018', .*widths="
    with pytest.raises(InputError, match=advice):
        zou2018.theorem_5_1_i(width=1024)
    with pytest.raises(InputError, match="got 'standard'"):
        zou2018.theorem_5_1_i("standard")
    with pytest.raises(InputError, match="there is no paper 'zou2019'"):
        laboratory("zou2019")
