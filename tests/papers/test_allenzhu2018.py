"""Allen-Zhu et al. (2018): planted violations fail, and nothing is decided by too little."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from tests.papers.labs import plant, quick
from wideproof.answers import Answer
from wideproof.monitors.recurrent import Fresh, fresh
from wideproof.papers.allenzhu2018 import fake_gradient, gradients, hypotheses, initialization
from wideproof.papers.allenzhu2018.convergence import theorem_1, training_widths
from wideproof.papers.allenzhu2018.distributions import eventually, fits
from wideproof.papers.allenzhu2018.lab import Lab, step_limit
from wideproof.papers.allenzhu2018.percentiles import corollary_a_15
from wideproof.papers.check import scales

pytestmark = pytest.mark.xdist_group("allenzhu2018")

LAB = quick("allenzhu2018")


# ---- planted violations ---------------------------------------------------------------------------------------------


def with_weights(change):
    """Return a laboratory whose recurrent weights are changed before anything is measured."""
    lab = Lab("quick")
    for width in lab.widths:
        for seed in lab.many:
            weights = LAB.weights(width, seed)
            plant(lab, change(dict(weights)), Lab.weights, width, seed)
    return lab


def test_wrong_variance_lets_states_fade():
    lab = with_weights(lambda w: {**w, "W": w["W"] / np.sqrt(2), "A": w["A"] / np.sqrt(2)})
    assert initialization.lemma_b_3(lab).outcome is Answer.FAILS
    assert initialization.claim_b_5(lab).outcome is Answer.FAILS


def test_wrong_variance_is_seen_in_the_kernel():
    lab = with_weights(lambda w: {**w, "W": 0.8 * w["W"]})
    assert gradients.theorem_5(lab).outcome is Answer.FAILS


def test_not_a_number_decides_nothing():
    lab = with_weights(lambda w: {**w, "W": np.full_like(w["W"], np.nan)})
    assert initialization.lemma_b_3(lab).outcome is not Answer.HOLDS
    assert initialization.claim_b_5(lab).outcome is not Answer.HOLDS


def test_a_shifted_backward_index(monkeypatch):
    def shifted(seen, losses):
        moved = replace(seen, mask=np.roll(seen.mask, 1, axis=1))
        return fake_gradient.triple_sum(moved, losses)

    monkeypatch.setattr(hypotheses, "triple_sum", shifted)
    assert hypotheses.fact_2_5(LAB).outcome is Answer.FAILS


def test_directions_that_are_not_orthogonal(monkeypatch):
    def raw(h):
        states = h.transpose(1, 0, 2).reshape(-1, h.shape[-1])
        return Fresh(h, np.linalg.norm(h, axis=-1), (states / np.linalg.norm(states, axis=1, keepdims=True)).T)

    assert hypotheses.footnote_9(LAB).outcome is Answer.HOLDS
    monkeypatch.setattr(hypotheses, "fresh", raw)
    assert hypotheses.footnote_9(LAB).outcome is Answer.FAILS
    assert fresh is not raw


def test_too_large_a_step_breaks_the_theorem():
    lab = Lab("quick")
    lab._kept.update(LAB._kept)
    for width in training_widths(lab):
        plant(lab, LAB.runs(width, steps=30, constant=2.5), Lab.runs, width)
    assert theorem_1(lab).outcome is Answer.FAILS


def test_a_plateau_breaks_the_rate():
    def flat(run):
        loss = np.array(run.records["loss"])
        loss[50:60] = loss[50]
        return replace(run, records={**run.records, "loss": loss})

    lab = Lab("quick")
    lab._kept.update(LAB._kept)
    for width in training_widths(lab):
        plant(lab, [flat(run) for run in LAB.runs(width)], Lab.runs, width)
    assert theorem_1(lab).outcome is Answer.FAILS


def test_separation_that_shrinks_with_its_square():
    deltas = (0.1, 0.01, 1e-3, 1e-4)
    lab = Lab("quick")
    for delta in deltas:
        for tail in ("zero", "shared"):
            for seed in lab.seeds:
                case = (delta, 4, tail, lab.widths[-1], seed)
                plant(lab, np.square(initialization.separations(LAB, *case)), initialization.separations, *case)
    assert initialization.eq_4_3(lab).outcome is Answer.FAILS


def test_vectors_that_crowd_at_zero(monkeypatch):
    lab = Lab("quick")
    crowded = ([0.0] * 3, [0.1] * 3)
    lab._kept["goodness"] = crowded
    assert corollary_a_15(lab).outcome is Answer.FAILS


def test_an_exponent_that_is_too_good():
    found = np.array([[gradients.eigenvalues(LAB, m, seed) for m in LAB.widths] for seed in LAB.many])[..., 0]
    assert scales("least eigenvalue", "m", LAB.widths, found, 1.0, sense="at least").outcome is Answer.HOLDS
    assert scales("least eigenvalue", "m", LAB.widths, found, 1.5, sense="at least").outcome is Answer.FAILS


def test_few_draws_decide_nothing():
    assert fits("few", np.random.default_rng(0).normal(size=50), stats.norm.cdf).outcome is Answer.UNDECIDED


@pytest.mark.parametrize(
    ("ratios", "outcome"), [([3, 2, 0.9], "holds"), ([3, 2, 1.5], "undecided"), ([1.5, 2, 3], "fails")]
)
def test_claims_for_large_widths(ratios, outcome):
    rows = np.outer([1.0, 1.001, 0.999], ratios)
    assert eventually("ratio", "m", [100, 200, 400], rows).outcome.value == outcome


def test_step_limit_of_batches():
    kernel = np.diag([4.0, 1.0, 2.0, 1.0])
    assert step_limit(kernel, 2) == 0.25
    assert step_limit(kernel, 2, batch=1) == pytest.approx(1 / 8)
    assert step_limit(kernel, 2, batch=2) == pytest.approx(1 / 4)
