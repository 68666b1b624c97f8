"""What is said of predictions: rows outside the training rows, ties, and which rows are held out."""

import dataclasses
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import wideproof as wp
from wideproof.data import Dataset
from wideproof.errors import InputError
from wideproof.networks import FullyConnected, get_activation
from wideproof.proving import Predictor, beginning, stages
from wideproof.proving.limits import Limit
from wideproof.proving.ranges import Ranges
from wideproof.proving.stages import _split, _without_limit
from wideproof.training import Status


def plain(params):
    return {name: np.asarray(weight, np.float64) for name, weight in params.items()}


def test_rows_outside_are_counted_with_their_columns():
    rng = np.random.default_rng(0)
    data, new = Dataset(rng.random((50, 8)), np.ones(50), "regression"), rng.random((30, 8)) * 1.1 - 0.05
    found = Ranges.of(data)
    by_hand = [(row[j] > max(data.x[:, j])) or (row[j] < min(data.x[:, j])) for row in new for j in range(8)]
    assert found.outside(new).ravel().tolist() == by_hand
    assert found.outside(new).any()
    assert found.sentence(data.x) == ""
    assert "more columns: extrapolated" in found.sentence(new + 5)
    one = np.clip(new[:1], found.low, found.high)
    one[0, 3] = 7.0
    names = tuple("abcdefgh")
    assert found.sentence(one, names) == (
        "1 of 1 row lies outside the range of the training rows, in d (1): extrapolated"
    )


@pytest.mark.parametrize("outputs", [1, 3])
def test_ties_are_named_as_ties(outputs):
    """With a read-out of zeros all outputs are equal."""
    network = FullyConnected(2, 8, 1, outputs=outputs)
    zero = {name: np.zeros_like(weight) for name, weight in network.init(0).items()}
    y = np.array([1.0, -1.0, 1.0]) if outputs == 1 else 2 * np.eye(3) - 1
    names = ("no", "yes") if outputs == 1 else ("red", "green", "blue")
    data = Dataset(np.eye(3)[:, :2], y, "binary" if outputs == 1 else "multiclass", classes=names)
    model = Predictor(network, zero, data)
    assert model.predict(np.eye(2)).tolist() == [" or ".join(names)] * 2
    assert model.remarks(np.eye(2)) == (
        "2 predictions are ties: the network's outputs for two or more classes are equal there, and all of these are "
        "named",
    )
    apart = dataclasses.replace(model, params=plain(network.init(0)))
    assert set(apart.predict(np.eye(2)).tolist()) <= set(names)
    assert apart.remarks(np.eye(2)) == ()


def test_some_ties_among_other_rows():
    network = FullyConnected(2, 8, 1, outputs=3)
    data = Dataset(np.eye(3)[:, :2], 2 * np.eye(3) - 1, "multiclass", classes=("a", "b", "c"))
    model = Predictor(network, plain(network.init(0)), data)
    outputs = np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 1.0], [3.0, 3.0, 3.0]])
    assert model.classes_of(outputs).tolist() == ["a or b", "b", "a or b or c"]


def frame(n=40):
    rng = np.random.default_rng(0)
    days = pd.date_range("2024-01-01", periods=n)[rng.permutation(n)]
    a = rng.standard_normal(n)
    return pd.DataFrame({"a": a, "day": days, "y": np.where(a > 0, "up", "down")}), days


def test_the_last_rows_are_held_out_where_there_are_dates():
    table, _ = frame()
    data = wp.load(table, target="y")
    when = data.x[:, 1]
    kept, out = _split(data, 0.25, when)
    assert out is not None
    assert (kept.n, out.n) == (30, 10)
    assert kept.x[:, 1].max() < out.x[:, 1].min()
    same = np.where(when > np.median(when), when.max(), when)  # the last day has half of the rows
    kept, out = _split(data, 0.25, same)
    assert out is not None
    assert out.n == 20
    with pytest.raises(InputError, match=r"more than half of the table.*hold out less"):
        _split(data, 0.25, np.where(when > np.sort(when)[5], when.max(), when))


def test_a_proof_says_so_and_a_folder_knows_the_ranges(tmp_path):
    table, days = frame()
    found = wp.prove(table, target="y", holdout=0.25, budget=0.0, steps=2, folder=tmp_path / "p")
    folds, held = found.estimates
    assert (folds.date, held.date, held.rows) == ("day", "day", 10)
    assert str(held).startswith("On the last 10 rows by day, held out: ")
    assert any(note.startswith("both estimates differ by ") for note in found.notes)
    model = Predictor.load(tmp_path / "p")
    assert model.ranges is not None
    early = table["day"].isin(days.sort_values()[:30].tolist())
    assert model.ranges.high[0] == table["a"][early].max()
    assert model.remarks(table[early])[:1] != found.model.remarks(table[~early])[:1]
    (said, *_) = found.model.remarks(table[~early])
    assert said.startswith("10 of 10 rows lie outside the range of the training rows, in day (10)")
    assert not any("outside" in sentence for sentence in model.remarks(table[early]))


def test_weights_that_are_not_the_limit_are_told_apart_from_the_estimate():
    """The folds are predicted by the limit of gradient descent, and two steps are not it."""
    run = SimpleNamespace(step=2)
    assert _without_limit(run, None) == (  # pyright: ignore[reportArgumentType]
        "predictions are made with the weights after 2 steps of training: those that gradient descent tends to were "
        "not found, and an estimate by cross-validation is about those"
    )
    assert "with the initial weights:" in _without_limit(SimpleNamespace(step=0), None)  # pyright: ignore[reportArgumentType]


def test_numbers_that_may_be_other_are_told_with_the_bound():
    rng = np.random.default_rng(0)
    data = Dataset(rng.normal(size=(9, 3)), rng.normal(size=9), "regression")
    network = FullyConnected(input_dim=3, width=16, depth=1, activation=get_activation("erf"))
    params = plain(network.init(0))
    limit = Limit(params, 0.0, 0.1, 0.0)
    model, change = Predictor(network, params, data, limit), limit.change(network, data.x)
    assert change is not None
    worst = change.max() / np.std(data.y)
    (said,) = model.remarks(data.x)
    found = re.fullmatch(
        r"9 of 9 predictions may be other by more than a hundredth of the standard deviation of the targets, at most "
        r"(\S+) % of it, at the exact limit of gradient descent, which is known only up to a bound",
        said,
    )
    assert found is not None
    assert worst <= float(found[1]) / 100 < 2 * worst
    near = Predictor(network, params, data, Limit(params, 0.0, 1e-6, 0.0))
    assert near.remarks(data.x) == ()


@pytest.mark.parametrize(
    ("kinked", "why"), [(True, ": a unit could switch on or off on the way"), (False, ", its proof ratio is 0.5")]
)
def test_a_unit_that_may_switch_is_named_as_the_reason(monkeypatch, kinked, why):
    """Looks put 0.5 in place of a smaller ratio that does not suffice: 0.5 is not the reason then."""
    monkeypatch.setattr(beginning, "require_followable", lambda run: None)
    job, run = SimpleNamespace(from_start=None), SimpleNamespace(step=3, status=Status.LIMIT)
    network = SimpleNamespace(graph=SimpleNamespace(kinked=kinked))
    found = beginning.begun(job, network, run, 0.5)  # pyright: ignore[reportArgumentType]
    assert found.notes == (f"{beginning.NOT_BEGUN}: after 3 steps training is not near enough to a fit{why}",)


def test_a_smaller_step_size_is_tried_more_than_once(monkeypatch):
    """A smaller step leads elsewhere, where a still smaller one may be needed: two were not always enough."""
    sizes, real = [], stages.begun

    def steep(job, network, run, h):
        sizes.append(run.step_size)
        return beginning.Begun(step_size=0.9 * run.step_size) if len(sizes) < 3 else real(job, network, run, h)

    monkeypatch.setattr(stages, "begun", steep)
    names = {"classes": ("setosa", "versicolor"), "limit": 12}
    found = wp.prove("iris", alpha=1.0, width=256, activation="erf", prepare="standardize,sphere(4)", **names)  # pyright: ignore[reportArgumentType]
    assert found.proved_from == "initial weights"
    assert found.start is not None
    assert np.allclose(sizes, sizes[0] * np.array([1, 0.9, 0.81]))
    assert found.start.step_size == sizes[2]
