"""Allen-Zhu et al. (2018), appendices C to I: names tie, and planted violations are seen.

That statements and errata come out as expected is tested with those of the main text.
"""

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.papers.labs import quick
from wideproof.answers import Answer
from wideproof.papers.allenzhu2018 import (
    attacked,
    fake_gradient,
    iterates,
    near_zero,
    perturbation,
    randomness,
    semismooth,
)
from wideproof.papers.allenzhu2018.errata_appendix import erratum
from wideproof.papers.allenzhu2018.lab import Lab
from wideproof.papers.check import identity, scales
from wideproof.papers.statement import index

pytestmark = pytest.mark.xdist_group("allenzhu2018")

MODULES = (
    "perturbation",
    "backward_stability",
    "rank_one",
    "near_zero",
    "randomness",
    "fake_gradient",
    "rows",
    "semismooth",
    "iterates",
)
ROWS = index("allenzhu2018")
FIRST = [row.id for row in ROWS].index("definition_c_1")
STATEMENTS = [row for row in ROWS[FIRST:] if row.checkable]
LAB = quick("allenzhu2018")


def functions() -> dict[str, Any]:
    found = {}
    for name in MODULES:
        module = import_module(f"wideproof.papers.allenzhu2018.{name}")
        for key, value in vars(module).items():
            if hasattr(value, "statement") and value.__module__ == module.__name__:
                found[key] = value
    return found


FUNCTIONS = functions()


def test_the_names_tie() -> None:
    assert sorted(FUNCTIONS) == sorted(row.id for row in STATEMENTS)
    assert len(STATEMENTS) == 56


def test_each_erratum_belongs_to_a_statement() -> None:
    assert {entry.statement for entry in erratum} <= set(FUNCTIONS)


# Planted violations.


def test_too_small_an_exponent_for_flips_fails() -> None:
    (check,) = perturbation.exponents(LAB, "flips", lambda seen: seen.flips, {"m": 1 / 3})
    assert check.outcome is Answer.FAILS


def test_without_the_mask_terms_the_unrolled_sum_fails() -> None:
    before, after, change = perturbation.moved(LAB)
    whole = (after.g - before.g)[:, -1]
    assert identity("g'", whole, perturbation.unrolled(before, after, change)).outcome is Answer.HOLDS
    assert identity("g'", whole, perturbation.unrolled(before, after, change, masks=False)).outcome is Answer.FAILS


def test_a_perturbation_beyond_the_radius_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    real = attacked.perturbation
    monkeypatch.setattr(attacked, "perturbation", lambda *args: 40 * real(*args))
    lab = Lab("quick")
    lab.chosen = (128,)
    assert perturbation.claim_c_3(lab).outcome is Answer.FAILS


def test_a_split_without_its_correction_has_another_law(monkeypatch: pytest.MonkeyPatch) -> None:
    real = randomness.split

    def uncorrected(seen: Any, theta: float, rng: np.random.Generator) -> randomness.Split:
        piece = real(seen, theta, rng)
        return piece._replace(u=piece.u + (1 - np.sqrt(1 - theta**2)) * piece.g1)  # u = θ g2

    monkeypatch.setattr(randomness, "split", uncorrected)
    assert randomness.lemma_e_4_a(Lab("quick")).outcome is Answer.FAILS
    assert randomness.lemma_e_5_a(Lab("quick")).outcome is Answer.FAILS
    assert randomness.lemma_e_5_b(Lab("quick")).outcome is Answer.FAILS


def test_weights_of_the_wrong_variance_have_another_law(monkeypatch: pytest.MonkeyPatch) -> None:
    real = randomness.unroll
    monkeypatch.setattr(randomness, "unroll", lambda params, x: real({**params, "W": 1.1 * params["W"]}, x))
    assert randomness.lemma_e_4_a(Lab("quick")).outcome is Answer.FAILS


def test_too_few_draws_decide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = randomness.splits
    monkeypatch.setattr(randomness, "splits", lambda lab, count: real(lab, 2))
    assert randomness.lemma_e_4_a(Lab("quick")).outcome is Answer.UNDECIDED


def test_a_single_draw_leaves_a_scattered_exponent_open() -> None:
    rows = [[seen.flips for seen in (attacked.shift(LAB, "random", m, 4, 1, 1.0) for m in LAB.widths)]]
    assert scales("flips", "m", LAB.widths, rows, 0.5).outcome is Answer.UNDECIDED


def test_a_threshold_beyond_the_fresh_part_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near_zero, "BETA_PLUS", 3.0)
    assert near_zero.lemma_d_4(Lab("quick")).outcome is Answer.FAILS


def test_losses_one_time_off_give_another_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    real = fake_gradient.backward
    monkeypatch.setattr(fake_gradient, "backward", lambda seen, losses: real(seen, np.roll(losses, 1, axis=1)))
    assert fake_gradient.definition_e_1(Lab("quick")).outcome is Answer.FAILS


def test_the_wrong_sign_between_two_points_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    real = semismooth.bridge
    monkeypatch.setattr(semismooth, "bridge", lambda a, b: -real(a, b))
    assert semismooth.proposition_g_3(Lab("quick")).outcome is Answer.FAILS


def test_too_large_a_step_raises_the_expected_objective(monkeypatch: pytest.MonkeyPatch) -> None:
    real = iterates.all_steps
    monkeypatch.setattr(
        iterates, "all_steps", lambda seen, y, step: real(seen, y, 400 * step)
    )  # 8 times the runs' step
    monkeypatch.setattr(iterates, "seeds", lambda lab: range(3))
    monkeypatch.setattr(iterates, "first_steps", lambda lab, m, seed: iterates.Steps(float(m), float(m)))
    assert iterates.eq_i_2(Lab("quick")).outcome is Answer.FAILS


def test_what_is_not_finite_decides_nothing() -> None:
    lab = Lab("quick")
    after = perturbation.moved(lab)[1]
    after.g[0, 2, 5] = np.nan
    assert perturbation.eq_c_2(lab).outcome is Answer.UNDECIDED


def test_near_zero_is_asked_of_the_first_sequence_and_away_of_all_others() -> None:
    """Units: near at (1, 1); away at time 1 in every other sequence; away at all later times in all."""
    far, close = 2 * near_zero.BETA_PLUS, 0.5 * near_zero.BETA_MINUS
    size = np.full((3, 4, 8), far)
    size[0, 1, :7] = close  # unit 7 is not near
    size[1, 1, 1] = size[2, 1, 2] = close  # units 1 and 2 are near in another sequence as well
    size[0, 2, 3] = size[1, 2, 4] = size[2, 3, 5] = close  # units 3, 4, 5 later
    size[:, 0] = close  # time 0 does not count
    seen: Any = SimpleNamespace(g=-size / np.sqrt(8), width=8)
    near, others, later = near_zero.near_masks(seen)
    assert near.tolist() == [True] * 7 + [False]
    assert np.flatnonzero(~others).tolist() == [1, 2]
    assert np.flatnonzero(~later).tolist() == [3, 4, 5]
