"""What is chosen for a table: provable, of use on new rows, and never a preparation that merges rows."""

from typing import Any

import numpy as np
import pytest

import wideproof as wp
from wideproof.data import Dataset, prepare
from wideproof.data.preparation import apply, merges
from wideproof.data.repeats import distinct
from wideproof.errors import InputError
from wideproof.planning import choosing
from wideproof.planning.candidates import Candidate
from wideproof.planning.choosing import choose
from wideproof.planning.estimates import Estimate
from wideproof.planning.looking import Looked, rank

# pyright: reportArgumentType=false


def looked(steps: str, smallest: float, accuracy: float) -> Looked:
    return Looked(
        Candidate("fully-connected", "erf", 1, steps), smallest, 1.0, Estimate("accuracy", accuracy, 0.5, 0.02, 100)
    )


def test_provable_first_then_useful_then_well_conditioned():
    singular, plain, better, sharp = (
        looked("a", 1e-12, 0.99), looked("b", 0.1, 0.7), looked("c", 0.01, 0.9), looked("d", 0.02, 0.89),
    )  # fmt: skip
    assert rank([singular, plain, better, sharp])[0] is sharp  # within a standard error of the best, better conditioned
    assert rank([singular, plain, better])[0] is better
    assert rank([singular])[0] is singular


def test_rows_on_rays_stay_apart():
    """`unit` makes multiples equal; it is not taken, and what is taken keeps them apart."""
    x = np.array([[1.0, 2.0], [2.0, 4.0], [-1.0, 1.0], [0.0, 0.0]])
    data = Dataset(x, [1, -1, 1, -1], "binary")
    assert merges(data, prepare(Dataset(x[:3], [1, -1, 1], "binary"), "unit"))
    found = choose(data)
    assert not merges(data, found.data)
    assert distinct(found.data).n == 4
    assert found.looked[0].provable


XOR = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])


@pytest.mark.parametrize("make", [  # of few shapes, each of which is compiled
    lambda: Dataset(np.linspace(-3, 3, 40)[:, None], np.sin(np.linspace(-3, 3, 40)), "regression"),  # one column
    lambda: Dataset(np.column_stack([np.arange(4.0), np.zeros(4)]), [1, 1, -1, 1], "binary"),
    lambda: Dataset(np.column_stack([np.arange(4.0), np.ones(4)]), [1, 1, -1, 1], "binary"),
    lambda: Dataset(XOR, [-1, 1, 1, -1], "binary"),  # with a row of zeros
    lambda: Dataset(XOR[[0, 1, 1, 2, 3, 3]], [1, -1, 1, 1, -1, -1], "binary"),  # repeated and contradicting
    lambda: Dataset(np.arange(40.0)[:, None] * 1e6 + 1e9, np.arange(40.0) % 2 * 2 - 1, "binary"),  # far from zero
])  # fmt: skip
def test_awkward_tables_have_a_provable_choice(make):
    data = make()
    found = choose(data)
    assert found.looked[0].provable, found
    assert not merges(data, found.data)


def test_what_is_given_is_kept():
    data = wp.load("iris")
    found = choose(
        data, network="residual", depth=2, activation="tanh", width=96, prepare="whiten,sphere(2)", seed=3, c_res=0.3
    )
    assert str(found.network).startswith("residual(input_dim=5, width=96, depth=2, activation=tanh, c_res=0.3")
    assert (found.preparation, found.seed) == ("whiten,sphere(2)", 3)
    assert choose(data, prepare="none").data is data
    assert choose(data, trained=("hidden",)).network.trained_names == ("W1",)


@pytest.mark.parametrize(("options", "words"), [
    ({"network": "fully-connected", "c_res": 0.3}, "fully-connected has no option c_res"),
    ({"network": "elman-rnn", "filter_size": 3}, "elman-rnn has no option filter_size"),
    ({"residual_scale": 0.3}, "fully-connected has no option residual_scale"),
    ({"network": "deep-relu", "activation": "tanh"}, "deep-relu has no option activation"),
    ({"network": "transformer"}, "there is no network 'transformer'"),
    ({"prepare": "shuffle"}, "'shuffle' is not a preparation step"),
])  # fmt: skip
def test_options_that_do_not_fit_are_one_sentence(options, words):
    with pytest.raises(InputError, match=words):
        choose(wp.load("iris"), **options)


def test_rows_next_to_each_other_are_told_apart():
    """Points in pairs, 1e-9 apart: most preparations leave a singular matrix; `lift` gives a row alone its own bits."""
    rng = np.random.default_rng(0)
    x = np.repeat(rng.standard_normal((20, 2)), 2, axis=0)
    x[1::2] += 1e-9 * rng.standard_normal((20, 2))
    data = Dataset(x, np.tile([1.0, -1.0], 20), "binary")
    lifted = prepare(data, "standardize,lift,sphere(2)")
    again = apply(lifted.preparation, x[7:8])
    np.testing.assert_array_equal(again[0], lifted.x[7])  # a row alone gets the bits it had in the batch
    assert choose(data).looked[0].provable


def test_sphere_and_lift_say_what_they_need():
    data = wp.load("iris")
    for steps, words in (
        ("sphere(0)", "radius > 0"),
        ("sphere(x)", "radius > 0"),
        ("lift(none)", "number of features"),
    ):
        with pytest.raises(InputError, match=words):
            prepare(data, steps)
    assert np.allclose(np.linalg.norm(prepare(data, "sphere(4)").x, axis=1), 4)
    with pytest.raises(InputError, match="all rows of 'data' are equal"):
        prepare(Dataset(np.ones((3, 2)), [1.0, 2.0, 3.0], "regression"), "lift")


@pytest.mark.parametrize(
    ("rows", "outputs", "width"),
    [(100, 1, 256), (2000, 1, 4096), (4521, 1, 8192), (10_000, 1, 2048), (10_000, 10, 16_384)],
)
def test_thousands_of_rows_have_a_narrower_network(rows, outputs, width):
    """The whole Gram matrix takes less memory than a read-out as wide as there are rows, unless outputs are many."""
    x = np.random.default_rng(0).standard_normal((rows, 2))
    y = np.zeros((rows, outputs) if outputs > 1 else rows)
    candidate = Candidate("fully-connected", "erf", 1, "")
    assert choosing._width_at_least(Dataset(x, y, "regression"), candidate) == width


@pytest.mark.parametrize(
    ("rows", "width", "start", "units"),
    [(40, None, "doubled", 4096), (40, 6, "doubled", 6), (40, 7, "normal", 7), (4100, None, "zero", 16_384)],
)
def test_a_network_begins_at_zero_where_the_whole_matrix_is_formed(rows, width, start, units):
    rng = np.random.default_rng(0)
    data = Dataset(rng.standard_normal((rows, 2)), np.where(rng.random(rows) < 0.5, 1.0, -1.0), "binary")
    found: Any = wp.choose(data, width=width).network
    assert (found.start, found.width) == (start, units)
    other: Any = wp.choose(data.take(np.arange(20)), start="normal").network
    assert other.start == "normal"


def test_one_row_has_a_choice_and_no_estimate():
    found = wp.choose(Dataset(np.array([[0.3, 2.0]]), np.array([1.5]), "regression"))
    assert found.estimate is None
    assert found.network is not None


@pytest.mark.parametrize("size", [{"depth": 0}, {"width": 0}, {"depth": -1}])
def test_sizes_below_one_are_refused(size):
    with pytest.raises(InputError, match=r"must be a whole number of at least 1, got (0|-1)"):
        choose(wp.load("iris", limit=10), **size)


def test_rows_that_cannot_be_certified_are_refused_before_anything_is_computed(monkeypatch, rng):
    monkeypatch.setattr("wideproof.certificates.memory.free_memory", lambda: 1e8)
    monkeypatch.setattr("wideproof.planning.choosing.compared", lambda *_: pytest.fail("something was computed"))
    x = rng.normal(size=(4100, 2))
    with pytest.raises(InputError, match=r"at width 1024 needs .* take at most \d+ examples \(--limit\); NTKRegressor"):
        choose(wp.load((x, x[:, 0])))
