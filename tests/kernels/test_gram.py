"""Gram matrices from recorded uses against explicit Jacobians."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.cases import NETWORKS
from wideproof.kernels import gram, largest_eigenvalue


def jacobian_gram(network, params, x, names):
    def outputs(part):
        scored = network.scored(network.forward(network.linear({**params, **part}), x).outputs)
        return scored.reshape(-1)

    blocks = jax.jacrev(outputs)({name: params[name] for name in names})
    flat = np.concatenate([np.asarray(block).reshape(block.shape[0], -1) for block in blocks.values()], axis=1)
    return flat @ flat.T


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_gram_is_the_jacobian_product(network, rng):
    params = network.as_params(network.init(2))
    x = jnp.asarray(rng.normal(size=(4, *network.input_shape)))
    for names in (list(network.trained_names), [network.trained_names[0]]):
        expected = jacobian_gram(network, params, x, names)
        found = gram(network, params, x, names)
        np.testing.assert_allclose(found, expected, atol=1e-12 * np.abs(expected).max(), rtol=0)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_power_iteration_finds_the_largest_eigenvalue(network, rng):
    params = network.init(2)
    x = rng.normal(size=(4, *network.input_shape))
    exact = np.linalg.eigvalsh(gram(network, params, x))[-1]
    found = largest_eigenvalue(network, params, x, iterations=300)
    assert found <= exact * (1 + 1e-12)
    assert found >= exact * 0.99


def test_weights_scale_the_rows(rng):
    network = NETWORKS["fully-connected"]
    params, x = network.init(0), rng.normal(size=(4, 5))
    weights = np.array([0.1, 2.0, 0.5, 1.0])
    root = np.sqrt(weights)
    exact = np.linalg.eigvalsh(root[:, None] * gram(network, params, x) * root[None, :])[-1]
    assert largest_eigenvalue(network, params, x, weights=jnp.asarray(weights), iterations=300) == pytest.approx(exact)
