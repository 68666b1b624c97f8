"""Targets with a constant sum: the Jacobian is singular at every fit, and gradient descent never notices."""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.certificates.making import Reference
from wideproof.certificates import Problem, certify
from wideproof.certificates.balance import balanced, is_balanced, raised
from wideproof.certificates.enclosure import exact
from wideproof.data import Dataset
from wideproof.networks import Sketch
from wideproof_verify import verify

ROWS, OUTPUTS = 12, 3


def network():
    sketch = Sketch(6)
    hidden = sketch.dense(sketch.dense(sketch.input, 8, "tanh"), 8, "gelu")
    return sketch.read_out(hidden, OUTPUTS)


@pytest.fixture(scope="module")
def fit():
    """Weights and targets that fit to about 1e-9, with sums that are exactly 0 and 1: fewer features than rows."""
    rng, net = np.random.default_rng(3), network()
    params = {name: np.asarray(w) + 0.4 * rng.standard_normal(w.shape) for name, w in net.init(0).items()}
    params["W3"] -= params["W3"].mean(axis=0)
    params["b3"] += (1 - params["b3"].sum()) / OUTPUTS
    x = rng.standard_normal((ROWS, 6))
    even = balanced(net.graph, params, np.eye(OUTPUTS)[np.arange(ROWS) % OUTPUTS])
    assert even is not None
    y = np.rint((np.asarray(net(even, x)) + 1e-9 * rng.standard_normal((ROWS, OUTPUTS))) * 2.0**40) / 2.0**40
    y[:, -1] = 1 - y[:, :-1].sum(axis=1)
    return net, even, Dataset(x, y, "regression")


def test_rounding_to_a_grid_adds_up_exactly(fit):
    net, even, data = fit
    assert is_balanced(net.graph, even, data.y)
    assert all(math.fsum(column) == 0 for column in even["W3"].T)
    off = even | {"W3": np.nextafter(even["W3"], 1)}
    assert not is_balanced(net.graph, off, data.y)
    assert not is_balanced(net.graph, even, np.nextafter(data.y, 2))
    near = balanced(net.graph, off, data.y)
    assert near is not None
    assert np.abs(near["W3"] - even["W3"]).max() < 1e-11


def test_weights_that_are_not_nearly_balanced_are_left_alone(fit):
    net, even, data = fit
    assert balanced(net.graph, even | {"W3": even["W3"] + 0.1}, data.y) is None
    assert balanced(net.graph, even, data.y * np.linspace(1, 2, ROWS)[:, None]) is None


def test_the_jacobian_is_singular_and_yet_it_is_proved(fit, tmp_path):
    net, even, data = fit
    jacobian = Reference(net, even, data.x).jacobian(Reference(net, even, data.x).theta)
    values = np.linalg.svd(jacobian, compute_uv=False)
    assert values[-1] < 1e-12 * values[0]
    project = np.eye(ROWS * OUTPUTS) - np.kron(np.eye(ROWS), np.full((OUTPUTS, OUTPUTS), 1 / OUTPUTS))
    smallest = np.linalg.svd(project @ jacobian, compute_uv=False)[ROWS * (OUTPUTS - 1) - 1]
    found = certify(Problem(net, data).at(even))
    assert found.passed
    assert found.certificate is not None
    assert found.anchor is not None
    assert found.anchor.s == pytest.approx(smallest, rel=1e-5)
    assert found.anchor.s <= smallest
    found.certificate.save(tmp_path / "c")
    assert verify(tmp_path / "c").answer == "proved"
    claims = {name: value for name, value in found.certificate.claims.items() if name != "constant_sum"}
    dataclasses.replace(found.certificate, claims=claims).save(tmp_path / "without")
    assert verify(tmp_path / "without").answer == "not proved"


@pytest.mark.parametrize("where", ["W3", "b3", "y"])
def test_a_sum_that_is_off_by_one_unit_is_not_proved(fit, tmp_path, where):
    net, even, data = fit
    made = certify(Problem(net, data).at(even)).certificate
    assert made is not None
    if where == "y":
        y = data.y.copy()
        y[0, 0] = np.nextafter(y[0, 0], 9)
        about = {key: value for key, value in made.about.items() if key != "digest"}
        forged = dataclasses.replace(made, y=y, about=about)
    else:
        weight = made.params[where].copy()
        weight.flat[0] = np.nextafter(weight.flat[0], 9)
        forged = dataclasses.replace(made, params={**made.params, where: weight})
    forged.save(tmp_path / "c")
    found = verify(tmp_path / "c")
    assert found.answer == "not proved"
    assert "same sum" in found.reason


def test_gradient_descent_keeps_the_sums_and_the_rate(fit):
    """From weights with the same sums but far enough that the loss can be seen to fall."""
    net, even, data = fit
    rng = np.random.default_rng(0)
    start = {name: w + 1e-4 * rng.standard_normal(w.shape) * (name not in ("W3", "b3")) for name, w in even.items()}

    @jax.jit
    def step(params):
        def loss(params):
            return 0.5 * jnp.sum(jnp.square(net.forward(net.linear(params), jnp.asarray(data.x)).outputs - data.y))

        value, slopes = jax.value_and_grad(loss)(params)
        return value, {name: w - 0.01 * slopes[name] for name, w in params.items()}

    params, losses = {name: jnp.asarray(w) for name, w in start.items()}, []
    for _ in range(2000):
        value, params = step(params)
        losses.append(float(value))
    assert losses[-1] < 1e-3 * losses[0]
    assert np.abs(np.asarray(params["W3"]).sum(axis=0)).max() < 1e-12
    assert abs(float(params["b3"].sum()) - 1) < 1e-12


def test_what_is_added_vanishes_for_vectors_that_add_up_to_zero(rng):
    matrix = exact(np.eye(6), True)
    v = rng.standard_normal((2, 3))
    v -= v.mean(axis=1, keepdims=True)
    up = raised(matrix, 3, 2.0)
    assert v.ravel() @ up.mid @ v.ravel() == pytest.approx(v.ravel() @ v.ravel(), rel=1e-12)
    assert np.linalg.eigvalsh(up.mid)[-1] == pytest.approx(7)
