"""Frei et al. (2019): planted violations are found."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tests.papers.labs import plant, quick
from wideproof.answers import Answer
from wideproof.data import Dataset
from wideproof.monitors.generalization import GeneralizationBound
from wideproof.monitors.residual import Pass
from wideproof.papers import frei2019
from wideproof.papers.frei2019 import generalization, perturbation
from wideproof.papers.frei2019.lab import Lab

pytestmark = pytest.mark.xdist_group("frei2019")

LAB = quick("frei2019")


# Planted violations


class FanIn(Lab):
    """The first layer drawn with the variance 2/d of its inputs, as libraries do, in place of 2/m."""

    def start(self, network, seed):
        weights = super().start(network, seed)
        return weights | {"W1": weights["W1"] * np.sqrt(network.width / network.input_dim)}


class TooWide(Lab):
    """Passes in law whose values are twice as large as they should be."""

    def in_law(self, *args, **kwargs):
        seen = super().in_law(*args, **kwargs)
        return Pass(seen.theta, [2 * x for x in seen.layers], [2 * u for u in seen.values], seen.weights)


class Unscaled(Lab):
    """The scale of residual branches does not shrink with the depth."""

    def network(self, width, depth=None, theta_depth=None):
        return replace(super().network(width, depth, theta_depth), residual_scale=0.2)


class BothLabels(Lab):
    """Two examples in one place with opposite labels: no margin."""

    def data(self, *args, **kwargs):
        data = super().data(*args, **kwargs)
        x = data.x.copy()
        x[1] = x[0]
        return Dataset(x, data.y, "binary", "both labels")


class TooFast(Lab):
    """A step size far beyond 8/m."""

    rate = 60.0

    def __init__(self, study):
        super().__init__(study)
        self.seeds = self.draws = range(3)


class Mirrored(Lab):
    """The direction α points the wrong way: labels exchanged."""

    def data(self, *args, **kwargs):
        data = super().data(*args, **kwargs)
        return Dataset(data.x, -data.y, "binary", "mirrored")


@pytest.mark.parametrize(
    ("lab", "names"),
    [
        (FanIn, ["lemma_b_1"]),
        (TooWide, ["eq_13", "lemma_4_1", "lemma_c_2"]),
        (Unscaled, ["lemma_4_1", "lemma_b_2", "lemma_b_3", "eq_10"]),
        (BothLabels, ["lemma_b_6"]),
        (TooFast, ["eq_6"]),
        (Mirrored, ["proposition_c_5", "eq_41"]),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_planted_violation_is_found(lab, names):
    for name in names:
        check = getattr(frei2019, name)(lab("quick"))
        assert check.outcome is Answer.FAILS, f"{name}: {check}"


def test_start_with_another_variance_is_found():
    lab = Lab("quick")
    width = lab.widths[-1]
    start = {name: 1.1 * np.asarray(w) for name, w in LAB.run(width, 0).initial.items()}
    plant(lab, SimpleNamespace(initial=start), Lab.run, width, 0)
    assert frei2019.assumption_3_4(lab).outcome is Answer.FAILS


def test_flips_of_a_worse_exponent_are_found(monkeypatch):
    monkeypatch.setattr(perturbation, "attacked_flips", lambda lab, m, s, radius, layer: int(0.1 * m * radius**0.5))
    assert frei2019.eq_30(LAB).outcome is Answer.FAILS


def test_a_wrong_activation_pattern_is_found():
    moved, base = perturbation.pair(LAB)
    values = [*base.values[:-1], -base.values[-1]]  # active and inactive last units exchanged
    lab = Lab("quick")
    plant(lab, (moved, Pass(base.theta, base.layers, values, base.weights)), perturbation.pair)
    assert frei2019.eq_16(lab).outcome is Answer.FAILS


def test_an_index_off_by_one_is_found():
    """The weights of two layers exchanged."""
    moved, base = perturbation.pair(LAB)
    weights = [base.weights[0], base.weights[2], base.weights[1], *base.weights[3:]]
    lab = Lab("quick")
    plant(lab, (moved, Pass(base.theta, base.layers, base.values, weights)), perturbation.pair)
    assert frei2019.eq_16(lab).outcome is Answer.FAILS


def test_a_bound_that_is_too_small_is_found():
    lab = Lab("quick")
    lab._kept.update(LAB._kept)
    for width in lab.widths:
        for seed in lab.draws:
            plant(
                lab,
                GeneralizationBound(0.0, 1e-9, width, 10**12, 0.1, 0.0, 0.0, 0.0),
                generalization.bound,
                width,
                seed,
            )
    check = frei2019.theorem_3_6(lab)
    assert check.outcome is Answer.FAILS
    assert "test error" in check.title or "2 E_D" in check.title


def test_not_a_number_decides_nothing():
    moved, base = perturbation.pair(LAB)
    lab = Lab("quick")
    broken = [x.copy() for x in moved.layers]
    broken[4][0, 0] = np.nan
    plant(lab, (Pass(moved.theta, broken, moved.values, moved.weights), base), perturbation.pair)
    assert frei2019.eq_17(lab).outcome is Answer.UNDECIDED


def test_a_single_draw_decides_nothing():
    lab = Lab("quick")
    lab.draws = lab.many = range(1)
    assert frei2019.eq_40(lab).outcome is Answer.UNDECIDED
    assert frei2019.eq_42(lab).outcome is Answer.UNDECIDED


def test_the_four_right_hand_sides_are_ordered():
    """The proof is the largest; without the remainder the explicit form is smaller than with it."""
    found = generalization.bound(LAB, LAB.widths[0], 0)
    assert found.proved > found.explicit > found.linearized
    assert found.explicit > found.calibrated
