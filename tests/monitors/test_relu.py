"""Monitors of deep ReLU networks, each by a second route."""

from __future__ import annotations

from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from wideproof.data.generators import two_classes
from wideproof.kernels import gram
from wideproof.monitors import relu
from wideproof.networks import DeepReLU

DATA = two_classes(6, 5, 0.3, mu=0.5, seed=3)
NETWORK = DeepReLU(5, (12, 16, 10), 3)
PARAMS = {name: np.asarray(weight) for name, weight in NETWORK.init(4).items()}
SEEN = relu.relu_pass(NETWORK, PARAMS, DATA.x)


def forward(params, x):
    """The network written out by hand."""
    for i in (1, 2, 3):
        x = jnp.maximum(x @ params[f"W{i}"], 0)
    return x @ params["v"]


def test_outputs_and_gradients_match_autodiff():
    c = np.linspace(-1, 1, 6)
    np.testing.assert_allclose(SEEN.outputs, forward(PARAMS, DATA.x), rtol=1e-12)
    wanted = jax.grad(lambda p: jnp.vdot(c, forward(p, DATA.x)))(PARAMS)
    for i, found in enumerate(relu.gradients(SEEN, c), 1):
        np.testing.assert_allclose(found, wanted[f"W{i}"], rtol=1e-10, atol=1e-12)


def test_tangent_gram_is_the_product_gram():
    np.testing.assert_allclose(relu.tangent_gram(SEEN), gram(NETWORK, PARAMS, DATA.x).matrix, rtol=1e-12)


def test_back_vectors_by_products_of_matrices():
    for i in range(6):
        vector = SEEN.signs
        for layer in (3, 2, 1):
            b = SEEN.mask(layer)[i] * vector
            np.testing.assert_allclose(SEEN.back[layer - 1][i], b, rtol=1e-12, atol=1e-14)
            vector = SEEN.weights[layer - 1] @ b
            np.testing.assert_allclose(SEEN.form(layer)[i], vector, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("closed", [False, True])
def test_interlayer_norm_dense_and_matrix_free(closed, monkeypatch):
    dense = [np.linalg.norm(relu.interlayer(SEEN, 1, a, b, closed), 2) for a, b in ((1, 2), (1, 3), (2, 3), (2, 2))]
    found = [relu.interlayer_norm(SEEN, 1, a, b, closed) for a, b in ((1, 2), (1, 3), (2, 3), (2, 2))]
    np.testing.assert_allclose(found, dense, rtol=1e-12)
    monkeypatch.setattr(relu, "SMALL", 0)
    free = [relu.interlayer_norm(SEEN, 1, a, b, closed) for a, b in ((1, 2), (1, 3), (2, 3), (2, 2))]
    np.testing.assert_allclose(free, dense, rtol=1e-8)


def test_sparse_output_by_enumeration():
    form = SEEN.form(2)[0]
    for s in (1, 2, 3):
        wanted = max(np.linalg.norm(form[list(chosen)]) for chosen in combinations(range(form.size), s))
        np.testing.assert_allclose(relu.sparse_output(SEEN, 2)[0, s - 1], wanted, rtol=1e-12)


def test_node_gradient_norms_by_loops():
    a = np.array([0.3, 0.0, 1.0, 2.0, 0.1, 0.5])
    wanted = [
        np.linalg.norm(sum(a[i] * DATA.y[i] * SEEN.mask(3)[i, j] * SEEN.layers[2][i] for i in range(6)) / 6)
        for j in range(10)
    ]
    np.testing.assert_allclose(relu.node_gradient_norms(SEEN, DATA.y, a), wanted, rtol=1e-9, atol=1e-12)


def test_last_layer_form_is_the_squared_gradient():
    a = np.linspace(0.1, 1, 6)
    gradient = relu.gradients(SEEN, -a * DATA.y / 6)[-1]
    np.testing.assert_allclose(a @ relu.last_layer_form(SEEN, DATA.y) @ a, (gradient**2).sum(), rtol=1e-10)


def test_worst_weights_against_a_general_solver_and_a_closed_form(rng):
    root = rng.normal(size=(9, 6))
    form = root.T @ root
    found = relu.worst_weights(form)
    solved = minimize(
        lambda a: a @ form @ a, np.full(6, 1 / 6), jac=lambda a: 2 * form @ a, bounds=[(0, None)] * 6, method="SLSQP",
        constraints={"type": "eq", "fun": lambda a: a.sum() - 1}, options={"ftol": 1e-14},
    )  # fmt: skip
    np.testing.assert_allclose(found.value, solved.fun, rtol=1e-6)
    assert found.weights.min() >= 0
    np.testing.assert_allclose(found.weights.sum(), 1.0)
    # a bad corner: an entry whose best weight is 0
    assert relu.worst_weights([[1.0, 2.0], [2.0, 5.0]]).weights.tolist() == [1.0, 0.0]


def test_gradient_norms_by_svd():
    c = np.linspace(-1, 2, 6)
    wanted = [np.linalg.norm(g, 2) for g in relu.gradients(SEEN, c)]
    np.testing.assert_allclose(relu.gradient_norms(SEEN, c), wanted, rtol=1e-10)
    slopes = np.linspace(0.1, 1, 6)
    ratio = np.linalg.norm(relu.gradients(SEEN, slopes * DATA.y)[1], 2) / (4 * slopes.sum())
    np.testing.assert_allclose(relu.upper_ratios(SEEN, slopes, DATA.y)[1], ratio, rtol=1e-10)


def test_linear_parts_by_contraction_and_by_differences():
    c, eta = np.linspace(-1, 1, 6), 1e-7
    moves = relu.gradients(SEEN, c)
    by_hand = [
        [-eta * SEEN.back[k][i] @ moves[k].T @ SEEN.layers[k][i] for i in range(6)] for k in range(3)
    ]  # fmt: skip
    np.testing.assert_allclose(relu.linear_parts(SEEN, c, eta), by_hand, rtol=1e-9, atol=1e-18)
    moved = PARAMS | {f"W{k + 1}": PARAMS[f"W{k + 1}"] - eta * moves[k] for k in range(3)}
    after = relu.relu_pass(NETWORK, moved, DATA.x)
    assert np.abs(relu.remainder(SEEN, after, c, eta)).max() < 1e-4 * np.abs(after.outputs - SEEN.outputs).max()


def test_descent_coefficients():
    found = relu.descent_coefficients([1.0, 0.5, 0.4], [2.0, 1.0, 1.0], 0.1, 10)
    np.testing.assert_allclose(found, [0.125, 0.1])


def test_only_keeps_the_examples():
    part = SEEN.only([4, 1])
    np.testing.assert_array_equal(part.outputs, SEEN.outputs[[4, 1]])
    np.testing.assert_array_equal(part.back[2], SEEN.back[2][[4, 1]])
    assert part.width == 10
    assert part.widest == 16
