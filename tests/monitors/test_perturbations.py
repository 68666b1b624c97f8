"""Weights near the start: the right distance, the right flips."""

from __future__ import annotations

import numpy as np
import pytest

from wideproof.monitors import perturbations
from wideproof.monitors.relu import relu_pass
from wideproof.networks import DeepReLU

NETWORK = DeepReLU(4, 24, 2)
PARAMS = {name: np.asarray(weight) for name, weight in NETWORK.init(1).items()}
X = np.random.default_rng(2).normal(size=(5, 4))
BEFORE = relu_pass(NETWORK, PARAMS, X)


def distances(moved):
    return [np.linalg.norm(moved[name] - PARAMS[name], 2) for name in ("W1", "W2")]


@pytest.mark.parametrize(
    "move",
    [
        lambda: perturbations.gaussian(PARAMS, 0.2, np.random.default_rng(0)),
        lambda: perturbations.along(PARAMS, {n: np.ones_like(PARAMS[n]) for n in ("W1", "W2")}, 0.2),
        lambda: perturbations.scaled(PARAMS, 0.2),
        lambda: perturbations.toward(PARAMS, {n: PARAMS[n] + 1 for n in PARAMS}, 0.2),
    ],
    ids=["gaussian", "along", "scaled", "toward"],
)
def test_distance_is_tau_in_every_layer(move):
    moved = move()
    np.testing.assert_allclose(distances(moved), 0.2, rtol=1e-9)
    np.testing.assert_array_equal(moved["v"], PARAMS["v"])


def test_toward_stops_at_the_end():
    end = {name: weight + 1e-3 for name, weight in PARAMS.items()}
    np.testing.assert_allclose(perturbations.toward(PARAMS, end, 10.0)["W2"], end["W2"])
    np.testing.assert_array_equal(perturbations.toward(PARAMS, PARAMS, 1.0)["W1"], PARAMS["W1"])


def test_positive_scaling_never_flips():
    after = relu_pass(NETWORK, perturbations.scaled(PARAMS, 0.7), X)
    for layer in (1, 2):
        np.testing.assert_array_equal(after.mask(layer), BEFORE.mask(layer))


@pytest.mark.parametrize("tau", [0.01, 0.1, 0.5])
def test_adversarial_flips_the_most_units_for_its_norm(tau):
    moved, count = perturbations.adversarial(PARAMS, 1, X[0], tau)
    after = relu_pass(NETWORK, moved, X)
    flipped = int((after.mask(1)[0] != BEFORE.mask(1)[0]).sum())
    assert flipped == count
    assert np.linalg.norm(moved["W1"] - PARAMS["W1"], 2) <= tau * (1 + 1e-9)
    # brute force: turning over s units needs at least the s smallest values; one more would be too far
    values = np.sort(np.abs(X[0] @ PARAMS["W1"]))
    needed = np.sqrt(np.cumsum(values**2)) / np.linalg.norm(X[0])
    assert count == int((needed * (1 + 1e-6) <= tau).sum())
    np.testing.assert_array_equal(moved["W2"], PARAMS["W2"])


def test_moving_the_second_layer_leaves_the_first_pattern():
    moved, _ = perturbations.adversarial(PARAMS, 2, BEFORE.layers[1][0], 0.4)
    after = relu_pass(NETWORK, moved, X)
    np.testing.assert_array_equal(after.mask(1), BEFORE.mask(1))
    assert (after.mask(2)[0] != BEFORE.mask(2)[0]).any()


def test_nothing_moves_at_tau_zero():
    for moved in (
        perturbations.gaussian(PARAMS, 0.0, np.random.default_rng(0)),
        perturbations.scaled(PARAMS, 0.0),
        perturbations.adversarial(PARAMS, 1, X[0], 0.0)[0],
    ):
        np.testing.assert_array_equal(moved["W1"], PARAMS["W1"])


def test_large_zero_directions_are_left_alone():
    wide = {"W1": np.zeros((300, 300))}
    np.testing.assert_array_equal(perturbations.scaled(wide, 1.0)["W1"], 0.0)
