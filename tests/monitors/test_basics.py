"""Monitors by two routes: brute force, decompositions, autodiff."""

from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.cases import each_network
from wideproof.monitors import (
    active,
    distances,
    flips,
    small_values,
    sparse_form,
    spectral_norm,
    top_norms,
    trace,
    union_of_flips,
)
from wideproof.monitors.norms import operator_norm

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (7, 3), (250, 300)])
def test_norms_of_matrices_and_operators(shape):
    a = RNG.normal(size=shape)
    largest = np.linalg.svd(a, compute_uv=False)[0]
    assert spectral_norm(a) == pytest.approx(largest, rel=1e-9)
    assert operator_norm(shape, lambda v: a @ v, lambda v: a.T @ v) == pytest.approx(largest, rel=1e-9)


def test_a_zero_matrix_has_norm_zero():
    assert spectral_norm(np.zeros((250, 300))) == 0.0
    assert spectral_norm(np.zeros((0, 3))) == 0.0


def test_distances():
    start = {"W": RNG.normal(size=(4, 6))}
    moved = {"W": start["W"] + np.outer([1.0, 0, 0, 2.0], np.eye(6)[1])}
    found = distances(moved, start)["W"]
    assert found == pytest.approx((np.sqrt(5), np.sqrt(5), 2.0))
    assert distances(moved, start, units="columns")["W"].unit == pytest.approx(np.sqrt(5))


def test_patterns():
    z = np.array([[0.0, 1.0, -1.0], [2.0, -3.0, 0.0]])
    assert active(z).tolist() == [[False, True, False], [True, False, False]]
    assert active(z, at_zero=True).tolist() == [[True, True, False], [True, False, True]]
    assert flips(active(z), active(z, at_zero=True)).tolist() == [1, 1]
    assert union_of_flips(active(z), active(z, at_zero=True)) == 2
    betas = np.array([0.0, 0.5, 1.0, 2.5])
    brute = (np.abs(z)[..., None] <= betas).sum(axis=1)
    assert (small_values(z, betas) == brute).all()


def test_top_norms_by_enumeration():
    q = RNG.normal(size=6)
    for s in range(1, 7):
        best = max(np.linalg.norm(q[list(chosen)]) for chosen in combinations(range(6), s))
        assert top_norms(q)[s - 1] == pytest.approx(best)


@pytest.mark.parametrize(("s", "other"), [(1, 1), (1, 3), (2, 1), (2, 2), (2, 3), (5, 6)])
def test_sparse_form_by_enumeration(s, other):
    a = RNG.normal(size=(6, 5))
    best = max(
        np.linalg.norm(a[np.ix_(rows, columns)], 2)
        for rows in combinations(range(6), other)
        for columns in combinations(range(5), s)
    )
    found = sparse_form(a, s, other)
    assert found.value <= best * (1 + 1e-12)
    assert found.value >= best * (1 - 1e-9 if found.exact else 0.9)
    assert found.exact == (1 in (s, other) or (s, other) == (5, 6))


@pytest.mark.parametrize("network", each_network(slow=["conv-residual"]))
def test_trace_gives_values_and_gradients(network):
    x = RNG.normal(size=(3, *network.input_shape))
    params = network.init(3)
    seen = trace(network, params, x)
    assert np.allclose(seen.outputs, network(params, x), rtol=1e-12)
    for feature, same in zip(seen.features, network.features(params, x), strict=True):
        assert np.allclose(feature, same, rtol=1e-12)
    with jax.enable_x64(True):
        arrays = {name: jnp.asarray(weight) for name, weight in params.items()}
        gradient = jax.grad(lambda p: network.forward(network.linear(p), jnp.asarray(x)).outputs.sum())(arrays)
        linear = network.linear(arrays)
    for name, weight in params.items():
        total = np.zeros(weight.shape)
        for u, z, b in zip(seen.inputs[name], seen.values[name], seen.cotangents[name], strict=True):
            with jax.enable_x64(True):
                assert np.allclose(z, linear(name, jnp.asarray(u)), rtol=1e-10, atol=1e-12)
            left, right = (u, b) if network.units == "columns" else (b, u)
            total += np.einsum("pa,pb->ab", *(v.reshape(-1, v.shape[-1]) for v in (left, right))).reshape(total.shape)
        assert np.allclose(total, gradient[name], rtol=1e-9, atol=1e-11), name
