"""Sign stability of ReLU units: no move within the certified radius changes a sign, and zeros are refused by name."""

import re

import numpy as np
import pytest

from tests.certificates.making import Reference, at, dataset, fitted, problem
from wideproof.certificates import Problem, certify
from wideproof.certificates.anchor import run
from wideproof.certificates.lipschitz import closest_to_a_kink, kink_radius, sign_slack
from wideproof.networks import DeepReLU, DeepRNN, ElmanRNN, FullyConnected, ResidualReLU, get_activation

NETWORKS = {
    "one layer": DeepReLU(5, 10, 1),
    "two layers": DeepReLU(5, 10, 2),
    "three layers, all trained": DeepReLU(5, 8, 3, trained=("hidden", "output")),
    "fully-connected": FullyConnected(5, 10, 2, get_activation("relu")),
    "residual": ResidualReLU(5, 8, 2, residual_scale=0.5),
    "recurrent": ElmanRNN(4, 8, 4),
    "recurrent, all trained": ElmanRNN(4, 8, 3, trained=("recurrent", "input", "output")),
    "deep recurrent": DeepRNN(4, 8, 3, depth=2, trained=("recurrent", "between")),
}


def everything(network):
    params, x, y = problem(network, n=4, seed=1)
    anchor, ref = at(network, params, x, y), Reference(network, params, x)
    nodes = network.graph.unrolled

    def pre_activations(theta):
        return np.concatenate([z.mid.ravel() for z in run(nodes, ref.unflat(theta), x, tracked=False).z])

    return anchor, ref.theta, pre_activations


def slopes(pre_activations, theta, which):
    """Gradients of some pre-activations by central differences, which are nearly exact inside a pattern."""
    rows, h = np.zeros((len(which), theta.size)), 1e-7
    for p in range(theta.size):
        step = np.zeros(theta.size)
        step[p] = h
        rows[:, p] = (pre_activations(theta + step) - pre_activations(theta - step))[which] / (2 * h)
    return rows


@pytest.mark.parametrize("name", NETWORKS)
def test_no_move_within_the_radius_flips_a_sign(rng, name):
    anchor, theta, pre_activations = everything(NETWORKS[name])
    radius = kink_radius(anchor)
    assert radius > 0
    z = pre_activations(theta)
    for u in rng.standard_normal((100, theta.size)):
        moved = pre_activations(theta + 0.999 * radius * u / np.linalg.norm(u))
        assert np.all(np.sign(moved) == np.sign(z))
    # The worst moves: each of the nearest units along its own gradient, towards zero.
    near = np.argsort(np.abs(z))[:20]
    gradients = slopes(pre_activations, theta, near)
    sizes = np.linalg.norm(gradients, axis=1)
    can = sizes > 1e-6
    assert can.any()
    for j, gradient, size in zip(near[can], gradients[can], sizes[can], strict=True):
        direction = -np.sign(z[j]) * gradient / size
        moved = pre_activations(theta + 0.999 * radius * direction)
        assert np.all(np.sign(moved) == np.sign(z))
    flips = np.abs(z[near[can]]) / sizes[can]
    assert radius <= flips.min()
    assert radius >= flips.min() / 20  # not vacuous
    nearest = near[can][flips.argmin()]
    direction = -np.sign(z[nearest]) * gradients[can][flips.argmin()] / sizes[can][flips.argmin()]
    beyond = pre_activations(theta + 1.05 * flips.min() * direction)
    assert np.sign(beyond[nearest]) != np.sign(z[nearest])  # and a little beyond there is a flip to be found


def test_the_slack_falls_with_the_radius_and_crosses_one():
    anchor, _, _ = everything(NETWORKS["two layers"])
    radius = kink_radius(anchor)
    values = [sign_slack(anchor, radius * factor) for factor in (0.01, 0.5, 1.0, 1.002, 2.0, 100.0)]
    assert values == sorted(values, reverse=True)
    assert values[2] > 1 > values[3]


def test_one_layer_is_exact():
    """|z| > R‖x‖, and the nearest unit is named."""
    network = NETWORKS["one layer"]
    params, x, y = problem(network, n=4, seed=1)
    anchor = at(network, params, x, y)
    ratios = np.abs(x @ params["W1"]) / np.linalg.norm(x, axis=1, keepdims=True)
    assert kink_radius(anchor) == pytest.approx(ratios.min(), rel=2e-3)
    i, j = np.unravel_index(ratios.argmin(), ratios.shape)
    assert closest_to_a_kink(anchor, 0.01)[:3] == (0, i, j)


def test_smooth_networks_have_no_kinks():
    network = FullyConnected(5, 6, 2)
    assert kink_radius(at(network, *problem(network))) == np.inf


def planted(unit, example, depth=2):
    """Weights that nearly fit, with one pre-activation of the first layer exactly zero."""
    network = DeepReLU(6, 24, depth)
    params, x, _ = problem(network, n=3, seed=2)
    x[example] = np.eye(6)[1]
    params["W1"][1, unit] = 0.0
    y = np.asarray(network(params, x)) + 1e-9
    return network, params, dataset(network, x, y)


@pytest.mark.parametrize(("unit", "example"), [(3, 0), (20, 2)])
def test_a_zero_is_refused_with_its_place(unit, example):
    network, params, data = planted(unit, example)
    attempt = certify(Problem(network, data).at(params))
    assert not attempt.passed
    assert attempt.certificate is None
    assert attempt.obstacle is not None
    assert attempt.obstacle.quantity == "kink"
    assert re.search(rf"unit {unit} of layer 1 on example {example}\b", attempt.obstacle.reason)
    assert attempt.anchor is not None
    assert kink_radius(attempt.anchor) == 0


def test_without_the_zero_it_passes():
    network, params, data = planted(3, 0)
    params["W1"][1, 3] = 0.05
    y = np.asarray(network(params, data.x)) + 1e-9
    assert certify(Problem(network, dataset(network, data.x, y)).at(params)).passed


def test_a_unit_that_cannot_move_may_be_zero():
    """The first layer of a recurrent network reads the inputs through a fixed matrix: z = 0 there stays 0."""
    network = ElmanRNN(4, 12, 3)
    params, x, _ = problem(network, n=2, seed=3)
    params["A"][5] = 0.0
    anchor = at(network, params, x, np.zeros((2, 3, 1)))
    assert anchor.clearance[0][0, 0, 5] <= 0
    assert kink_radius(anchor) > 0
    moving = ElmanRNN(4, 12, 3, trained=("recurrent", "input"))
    assert kink_radius(at(moving, params, x, np.zeros((2, 3, 1)))) == 0  # there the same zero can move


def test_a_radius_beyond_the_nearest_kink_is_an_obstacle():
    """A residual that needs more room than the pattern has: refused with the unit, the size and the advice."""
    network = DeepReLU(8, 32, 2)
    params, data = fitted(network, n=4)
    anchor = at(network, params, data.x, data.y)
    rho = 50 * kink_radius(anchor) * anchor.s
    y = data.y + rho / 2
    attempt = certify(Problem(network, dataset(network, data.x, y)).at(params))
    assert not attempt.passed
    assert attempt.obstacle is not None
    assert attempt.obstacle.quantity in ("kink", "ratio")
    smaller = certify(
        Problem(network, dataset(network, data.x, data.y + 0.2 * kink_radius(anchor) * anchor.s / 2)).at(params)
    )
    assert smaller.passed
