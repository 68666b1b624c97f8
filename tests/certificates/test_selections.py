"""Selections and dilated windows: bounds against dense derivatives, and proofs of models that have them."""

import jax.numpy as jnp
import numpy as np
import pytest

import wideproof as wp
from tests.cases import selected
from tests.certificates.making import Reference, at, problem
from tests.certificates.test_lipschitz import Case
from tests.certificates.test_lipschitz import test_it_does_not_decrease_with_the_radius as test_it_does_not_decrease
from tests.certificates.test_lipschitz import test_no_example_is_below_its_dense_hessian as test_dense_hessians
from tests.certificates.test_lipschitz import test_no_way_is_below_the_second_derivative_at_the_anchor as test_no_way
from tests.certificates.test_lipschitz import test_the_enclosed_bound_is_the_float_one_or_a_little_more as test_enclosed
from tests.certificates.test_lipschitz import test_the_jacobian_changes_no_faster_in_the_ball as test_in_the_ball
from tests.networks.exchange.making import rows
from tests.networks.exchange.test_operators import CASES
from tests.verify import making, stated
from wideproof.certificates.lipschitz import kink_radius
from wideproof.networks.exchange import from_onnx
from wideproof_verify.arithmetic import BALLS, FLOATS
from wideproof_verify.passes import Anchor

__all__ = ["test_dense_hessians", "test_enclosed", "test_in_the_ball", "test_it_does_not_decrease", "test_no_way"]
NETWORKS = {"smooth": selected(), "relu": selected("relu")}


@pytest.fixture(scope="module", params=NETWORKS)
def case(request) -> Case:
    network = NETWORKS[request.param]
    params, x, y = problem(network)
    return Case(Reference(network, params, x), x, y, at(network, params, x, y), at(network, params, x, y, sharp=True))


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("ops", [FLOATS, BALLS], ids=["float64", "balls"])
def test_the_verifier_reads_the_same_network(name, ops):
    """Outputs and the Gram matrix from the stated graph, against one that is run from its JSON alone."""
    network = NETWORKS[name]
    params, x, _ = problem(network)
    config, weights = making.config(network), {key: np.asarray(w, float) for key, w in params.items()}
    truth = stated.evaluate(config, weights, np.asarray(x))
    net, matrices = making.read(config, weights)
    anchor = Anchor(net, matrices, np.asarray(x), ops=ops).differentiate()
    np.testing.assert_allclose(ops.middle(anchor.outputs).T, truth.outputs, rtol=0, atol=1e-12)
    gram = ops.middle(anchor.gram(ops.product))
    wanted = truth.jacobian @ truth.jacobian.T
    np.testing.assert_allclose(gram, wanted, rtol=0, atol=1e-11 * np.abs(wanted).max())


def test_no_unit_changes_its_sign_within_the_radius(rng):
    """Of a ReLU of a difference of two entries: at random points of the ball, and along the gradients of its units."""
    network = NETWORKS["relu"]
    params, x, y = problem(network)
    anchor = at(network, params, x, y)
    radius, (k,) = kink_radius(anchor), list(anchor.clearance)
    ref = Reference(network, params, x)
    signs = _before_relu(network, params, x) > 0
    assert 1e-4 < radius < 10
    changed = 0
    for turn in range(300):
        u = rng.standard_normal(ref.theta.size)
        far = radius * u / np.linalg.norm(u) * (0.999 if turn % 2 else 200)
        moved = stated.moved(making.config(network), {key: np.asarray(w) for key, w in params.items()}, far)
        now = _before_relu(network, moved, x) > 0
        if turn % 2:
            assert (now == signs).all()
        changed += int((now != signs).any())
    assert changed > 10  # far outside they do
    assert k == 3


def _before_relu(network, params, x):
    graph = network.graph
    arrays = {name: jnp.asarray(w) for name, w in params.items()}
    values = graph.run(network.linear(arrays), jnp.asarray(x))[1]
    first, second = (np.asarray(term.map.gather(values[term.source])) for term in graph.nodes[3].terms)
    return first + second


MODELS = ["channels-last", "MaxPool", "tokens", "Conv-groups", "HardSwish-default", "sum-end", "Split-Concat",
          "LeakyRelu", "ConvTranspose", "BatchNormalization-behind-activation"]  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_models_with_selections_are_proved(name):
    """Near a fit, at their own weights, and the verifier agrees: from the file to the verdict."""
    model = from_onnx(CASES[name])
    x = rows(CASES[name], 3)
    y = np.asarray(model.network(model.params, x)).reshape(3, -1)
    y = y + 1e-7 * np.random.default_rng(1).standard_normal(y.shape)
    proof = wp.certify(model, (x, y[:, 0] if y.shape[1] == 1 else y), task="regression", polish=0.0)
    assert proof.proved, proof
    assert isinstance(proof, wp.Proof)
    assert proof.polished is None
