"""What certificates are measured against: derivatives in NumPy, by automatic differentiation and by differences."""

import numpy as np
import pytest

from tests.cases import NETWORKS, OWN, VARIANTS, each, selected
from tests.certificates.making import start
from tests.networks import derivatives
from tests.networks.derivatives import BENDS, FIRST, Derivatives, automatic
from wideproof.networks.activations import ACTIVATIONS, PARTS, RELU_CLOSED

CASES = {**NETWORKS, **OWN, "selected": selected()}


def drawn(network):
    rng = np.random.default_rng(0)
    params = start(network, rng)
    size = sum(params[name].size for name in network.trained_names)
    return params, rng.standard_normal((3, *network.input_shape)), rng.standard_normal((2, size))


def moved(network, params, step):
    """The weights after a step in the trained ones."""
    cuts = np.cumsum([params[name].size for name in network.trained_names])[:-1]
    parts = zip(network.trained_names, np.split(step, cuts), strict=True)
    return params | {name: params[name] + part.reshape(params[name].shape) for name, part in parts}


@pytest.mark.parametrize("name", each(list(CASES), slow=[*VARIANTS, "own-strided", "own-branching"]))
def test_automatic_differentiation_agrees(name):
    """JAX's derivatives, its programs run by NumPy: no program is compiled."""
    network = CASES[name]
    params, x, (u, _) = drawn(network)

    expected = automatic(network, params, x, u)
    run = Derivatives(network, x)
    out, jac, change = run.jacobian(params, u[None])
    for found, truth in zip((out, jac, change[0]), expected, strict=True):
        np.testing.assert_allclose(found, truth, rtol=1e-10, atol=1e-11 * np.abs(truth).max())
    np.testing.assert_array_equal(run.outputs(params), out)


def differ(network):
    """How far Jacobian and its change are from differences of outputs and of Jacobians, relative to their size."""
    params, x, directions = drawn(network)
    run, h = Derivatives(network, x), 1e-6
    _, jac, change = run.jacobian(params, directions)
    worst = 0.0
    for u, rate in zip(directions, change, strict=True):
        ends = [run.jacobian(moved(network, params, s * h * u)) for s in (1, -1)]
        for found, ahead, behind in ((jac @ u, ends[0][0], ends[1][0]), (rate, ends[0][1], ends[1][1])):
            truth = (ahead - behind) / (2 * h)
            worst = max(worst, float(np.abs(found - truth).max() / max(np.abs(truth).max(), 1e-3)))
    return worst


@pytest.mark.parametrize("name", CASES)
def test_differences_agree(name):
    assert differ(CASES[name]) < 1e-6


def test_a_wrong_second_derivative_is_seen(monkeypatch):
    monkeypatch.setitem(derivatives.BENDS, "tanh", lambda z: -1.99 * np.tanh(z) * (1 - np.tanh(z) ** 2))
    assert differ(CASES["fully-connected-tanh-outputs"]) > 1e-3


@pytest.mark.parametrize("name", BENDS)
def test_second_derivatives_are_those_of_the_first(name):
    z, h = np.linspace(-6.07, 5.03, 333), 1e-6
    slope = FIRST[name][1]
    truth = np.asarray(slope(z + h) - slope(z - h)) / (2 * h)
    np.testing.assert_allclose(BENDS[name](z), truth, atol=1e-8)


def test_every_activation_is_there():
    assert {*ACTIVATIONS, *PARTS, RELU_CLOSED.name} == set(FIRST) == set(BENDS)


def test_the_derivative_of_the_last_hidden_value_gives_that_of_the_outputs():
    network = NETWORKS["fully-connected"]
    params, x, _ = drawn(network)
    run = Derivatives(network, x)
    hidden = run.hidden(params, 2)
    found = np.einsum("e,eirc->irc", np.ravel(params["a"]), hidden["W2"]).reshape(3, -1)
    first = params["W1"].size
    np.testing.assert_allclose(found, run.jacobian(params)[1][:, first : first + params["W2"].size], rtol=1e-12)
