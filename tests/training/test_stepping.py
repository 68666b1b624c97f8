"""A run taken a few steps at a time is the run that `train` takes at once."""

import numpy as np
import pytest

from wideproof.data import load
from wideproof.errors import InputError
from wideproof.networks import FullyConnected
from wideproof.training import Recipe, Status, Stepper, begin, stepping, train

DATA = load("sphere:n=6,d=3,separation=0.4,seed=1")
NETWORK = FullyConnected(3, 24, 1)


@pytest.mark.parametrize("options", [{}, {"batch": 2}, {"optimizer": "momentum"}], ids=str)
def test_the_same_bits_as_train(options):
    recipe = Recipe(steps=40, record_every=1, **options)
    stepper = Stepper(begin(NETWORK, DATA, recipe))
    for steps in (1, 5, 2, 100):
        stepper.advance(steps)
    whole, run = train(NETWORK, DATA, recipe), stepper.run
    assert stepper.over
    assert run.status is Status.LIMIT
    assert run.step == whole.step == 40
    np.testing.assert_array_equal(run.steps, whole.steps)
    for name, values in whole.records.items():
        np.testing.assert_array_equal(run.records[name], values)
    for name, weight in whole.params.items():
        np.testing.assert_array_equal(run.params[name], weight)


def test_the_same_step_size_changes_nothing():
    recipe = Recipe(steps=30, record_every=1)
    plain, steered = (Stepper(begin(NETWORK, DATA, recipe)) for _ in range(2))
    steered.advance(10)
    steered.steer(steered.run.step_size, DATA)
    steered.advance(20)
    plain.advance(30)
    np.testing.assert_array_equal(steered.run.records["loss"], plain.run.records["loss"])


def test_another_step_size_and_other_data():
    stepper = Stepper(begin(NETWORK, DATA, Recipe(steps=100, record_every=1)))
    stepper.advance(5)
    stepper.steer(0.0)
    _, found = stepper.advance(3)
    assert len(set(found["loss"].tolist())) == 1
    other = load("sphere:n=6,d=3,separation=0.4,seed=2")
    stepper.steer(None, other)
    _, found = stepper.advance(1)
    outputs = np.asarray(NETWORK(stepper.run.params, other.x))
    assert found["loss"][0] == pytest.approx(np.square(other.y - outputs).sum() / 2, rel=1e-12)
    assert stepper.run.data is other


def test_what_is_refused():
    stepper = Stepper(begin(NETWORK, DATA, Recipe(steps=100)))
    for size in (-1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="the step size must be a number"):
            stepper.steer(size)
    with pytest.raises(InputError, match="same shapes"):
        stepper.steer(None, load("sphere:n=5,d=3,separation=0.4"))
    with pytest.raises(InputError, match="at least one step"):
        stepper.advance(0)


def test_a_long_run_is_thinned(monkeypatch):
    monkeypatch.setattr(stepping, "MOST_KEPT", 2500)
    stepper = Stepper(begin(NETWORK, DATA, Recipe(steps=10**6, record_every=1)))
    while stepper.step < 3000:
        stepper.advance(700)
    run, whole = stepper.run, train(NETWORK, DATA, Recipe(steps=stepper.step, record_every=1))
    assert len(run.steps) < 1024 + 64 * 3
    np.testing.assert_array_equal(run.steps[:1024], np.arange(1024))
    assert run.steps[-1] == stepper.step - 1
    assert np.diff(np.log2(run.steps[1024:])).max() < 2 / 64
    np.testing.assert_array_equal(run.records["loss"], whole.records["loss"][run.steps])
