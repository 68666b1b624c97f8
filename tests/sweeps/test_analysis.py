"""Exponents, fractions and thresholds on data whose answer is known."""

import numpy as np
import pytest
import xarray as xr

from wideproof.report import sweep_figure
from wideproof.report.sweep_figures import ON_LIGHT
from wideproof.statistics import bootstrap_slope
from wideproof.sweeps.analysis import exponents, fraction, thresholds
from wideproof.sweeps.study import Figure

WIDTHS, SEEDS = np.array([64.0, 128.0, 256.0, 512.0]), 6
NOISE = np.exp(0.05 * np.random.default_rng(0).normal(size=(2, 4, SEEDS)))


def results():
    y = np.stack([WIDTHS**-0.5, 3 * WIDTHS**-1.0])[:, :, None] * NOISE
    return xr.Dataset(
        {"distance": (("network", "width", "seed"), y)},
        {"network": ["a", "b"], "width": WIDTHS, "seed": np.arange(SEEDS)},
    )


def test_exponents_for_each_value_of_the_other_axes():
    a, b = exponents(results(), "distance", "width")
    assert (a.where, b.where) == ({"network": "a"}, {"network": "b"})
    assert a.low < a.value < a.high
    assert a.value == pytest.approx(-0.5, abs=0.05)
    assert b.value == pytest.approx(-1.0, abs=0.05)


def test_factors():
    depth = np.array([1.0, 2.0, 4.0, 8.0])
    found = xr.Dataset({"q": (("depth", "seed"), 0.3 ** depth[:, None] * NOISE[0])}, {"depth": depth})
    (one,) = exponents(found, "q", "depth", factor=True)
    assert one.low <= one.value <= one.high
    assert one.value == pytest.approx(0.3, rel=0.03)


def test_the_interval_covers_the_truth():
    rng = np.random.default_rng(1)
    missed = 0
    for _ in range(200):
        _, low, high = bootstrap_slope(WIDTHS, WIDTHS**-0.5 * np.exp(0.3 * rng.normal(size=(12, 4))))
        missed += not low <= -0.5 <= high
    assert 2 <= missed <= 32  # about 10 to 16 expected: the bootstrap is a little narrow with 12 seeds


def test_values_that_have_no_logarithm_are_left_out():
    found = results()
    found["distance"][0, 0, 2] = np.nan
    found["distance"][0, 1, 0] = 0.0
    (a, _) = exponents(found, "distance", "width")
    assert a.x.tolist() == [256.0, 512.0]
    assert a.left_out == (64.0, 128.0)


def phases():
    reached = np.zeros((3, 4, 2))
    for row, first in enumerate((1, 2, 4)):
        reached[row, first:] = 1.0
    return xr.Dataset(
        {"reached": (("n", "width", "seed"), reached)}, {"n": [8.0, 16.0, 32.0], "width": WIDTHS, "seed": [0, 1]}
    )


def test_thresholds():
    (found,) = thresholds(phases(), "reached", "n", "width")
    assert found.needed[:2].tolist() == [128.0, 256.0]
    assert np.isnan(found.needed[2])
    dip = phases()
    dip["reached"][0, 2] = 0.0  # reached at 128, lost at 256: not lasting
    assert thresholds(dip, "reached", "n", "width")[0].needed[0] == 512.0


def test_fractions():
    ((_, table),) = fraction(phases(), "reached", "n", "width")
    assert table.dims == ("width", "n")
    assert table.sel(n=8.0).values.tolist() == [0.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("kind", ["slope", "factor", "phase", "map", "threshold"])
def test_every_figure_can_be_drawn(kind):
    if kind in ("slope", "factor"):
        drawn = sweep_figure(results(), Figure(kind=kind, quantity="distance", x="width", printed=-0.5))
        assert drawn is not None
        assert len(drawn.exponents) == 2
    else:
        drawn = sweep_figure(phases(), Figure(kind=kind, quantity="reached", x="n", y="width"))
    assert drawn is not None
    assert drawn.figure.axes


def test_nothing_measured_gives_no_figure():
    empty = results() * np.nan
    assert sweep_figure(empty, Figure(kind="slope", quantity="distance", x="width")) is None


def test_predictions_along_another_axis():
    wanted = Figure(kind="slope", quantity="distance", x="width", printed={"b": -1.0})
    drawn = sweep_figure(results(), wanted)
    assert drawn is not None
    assert drawn.predicted == ("", "-1")
    (legend,) = drawn.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        f"a: {drawn.exponents[0].value:.2f} [{drawn.exponents[0].low:.2f}, {drawn.exponents[0].high:.2f}]",
        f"b: {drawn.exponents[1].value:.2f} [{drawn.exponents[1].low:.2f}, {drawn.exponents[1].high:.2f}], "
        "predicted -1 (dashed)",
    ]


def test_numbers_in_a_table_are_readable():
    """Dark on light cells, light on dark ones."""
    drawn = sweep_figure(phases(), Figure(kind="phase", quantity="reached", x="n", y="width"))
    assert drawn is not None
    texts = drawn.figure.axes[0].texts
    assert {text.get_color() for text in texts if text.get_text() == "1.00"} == {ON_LIGHT}
    assert {text.get_color() for text in texts if text.get_text() == "0.00"} == {"#ffffff"}


def test_the_exponent_of_a_threshold_has_an_interval_over_seeds():
    """Every seed has a threshold of its own, n or 2n: the exponent is 1, and resampling moves single points by 2."""
    n, widths, seeds = np.array([8.0, 16.0, 32.0, 64.0]), 2.0 ** np.arange(2, 9), 9
    factor = 2.0 ** np.random.default_rng(3).integers(0, 2, (4, seeds))
    reached = (widths[None, :, None] >= (n[:, None] * factor)[:, None, :]).astype(float)
    found = xr.Dataset(
        {"reached": (("n", "width", "seed"), reached)}, {"n": n, "width": widths, "seed": np.arange(seeds)}
    )
    (whole,) = thresholds(found, "reached", "n", "width")
    one = whole.exponent
    assert one is not None
    assert one.low <= one.value <= one.high
    assert one.low < 1 < one.high
    assert one.high - one.low < 1.5
    alone = exponents(found.isel(seed=[0]).mean("width"), "reached", "n")
    assert alone[0].interval == ""


def test_no_threshold_at_all():
    (whole,) = thresholds(phases() * 0, "reached", "n", "width")
    assert whole.exponent is None
    assert np.isnan(whole.needed).all()


def test_other_axes_have_curves_and_panels_of_their_own():
    both = xr.concat([phases(), phases() * 0], dim=xr.Variable("network", ["a", "b"]))
    first, second = thresholds(both, "reached", "n", "width")
    assert (first.where, second.where) == ({"network": "a"}, {"network": "b"})
    assert first.exponent is not None
    assert second.exponent is None
    (_, a), (_, b) = fraction(both, "reached", "n", "width")
    assert a.values.max() == 1
    assert b.values.max() == 0
    drawn = sweep_figure(both, Figure(kind="phase", quantity="reached", x="n", y="width"))
    assert drawn is not None
    assert [axes.get_title(loc="left") for axes in drawn.figure.axes[:2]] == ["a", "b"]
    assert sweep_figure(both, Figure(kind="threshold", quantity="reached", x="n", y="width")) is not None
