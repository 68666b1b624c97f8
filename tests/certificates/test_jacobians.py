"""Products with the Jacobian in NumPy, and the nearest fit: against backward passes written out, for every network."""

import numpy as np
import pytest

from tests.certificates.making import TINY, Reference, problem
from wideproof.certificates.jacobians import pull, push
from wideproof.certificates.lengths import distance
from wideproof.certificates.nearest import nearest, pulled
from wideproof.certificates.passes import run
from wideproof.networks import ConvResidual, FullyConnected, get_activation

TANH = get_activation("tanh")


@pytest.mark.parametrize("name", TINY)
def test_push_and_pull_are_the_jacobian_and_its_transpose(name):
    network = TINY[name]
    params, x, _ = problem(network)
    reference = Reference(network, params, x)
    jacobian = reference.jacobian(reference.theta)
    passed, rng = run(network.graph.unrolled, params, x, tracked=False), np.random.default_rng(0)
    u = {key: rng.standard_normal(params[key].shape) for key in network.trained_names}
    np.testing.assert_allclose(push(passed, u).ravel(), jacobian @ reference.flat(u), rtol=1e-9, atol=1e-10)
    w = rng.standard_normal(passed.outputs.mid.shape)
    np.testing.assert_allclose(reference.flat(pull(passed, w)), jacobian.T @ w.ravel(), rtol=1e-9, atol=1e-10)
    shaped = pulled(network, params, x, w)
    assert all(shaped[key].shape == params[key].shape for key in network.trained_names)


@pytest.mark.parametrize(
    "network", [FullyConnected(4, 40, 2, TANH, outputs=2), ConvResidual(2, 4, 16, 2, activation=TANH)]
)
def test_the_nearest_fit_is_a_fit_and_normal(network):
    """At the end the residual is zero, and the way back to the start is a combination of the Jacobian's rows."""
    params, x, noise = problem(network)
    y = np.asarray(network(params, x)) + 0.1 * noise
    found = nearest(network, params, x, y)
    assert found is not None
    reference = Reference(network, found.params, x)
    out, jacobian = reference.both(reference.theta)
    assert np.linalg.norm(out - y.ravel()) < 1e-10
    back = reference.flat(params) - reference.theta
    assert np.linalg.norm(back) == pytest.approx(distance(network.trained_names, params, found.params), rel=1e-12)
    np.testing.assert_allclose(jacobian.T @ found.normal.ravel(), back, atol=1e-9)
    along = back - jacobian.T @ np.linalg.lstsq(jacobian.T, back, rcond=None)[0]
    assert np.linalg.norm(along) < 1e-9 * np.linalg.norm(back) + 1e-10
