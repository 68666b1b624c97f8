"""Compiled programs against NumPy: they agree on a sound machine, and a planted fault is found and named."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.cases import each_network
from wideproof import Recipe, load, machine, train
from wideproof.errors import MachineError
from wideproof.kernels import gram, limit_gram
from wideproof.kernels.duals import covariance
from wideproof.machine import in_numpy, require_agreement, trusted
from wideproof.networks import build, get_activation, gradient, linearize
from wideproof.training import train_many


@pytest.fixture
def fresh(monkeypatch):
    """Nothing has been compared in this process."""
    monkeypatch.setattr(machine, "_TRUSTED", set())


@pytest.fixture
def wrong_arctan(fresh, monkeypatch):
    """NumPy and the compiler disagree about arctan, as they did where vectors were 512 bits wide."""
    monkeypatch.setitem(machine.ELEMENTWISE, "atan", lambda z: np.where(z > 1, np.pi / 2, np.arctan(z)))


# Training compares one step of every network with NumPy: here a convolution, a scan and a plain one will do.
QUICK = ("fully-connected", "conv-residual", "deep-rnn")


@pytest.mark.parametrize(
    "network",
    [pytest.param(*p.values, id=p.id, marks=() if p.id in QUICK else pytest.mark.slow) for p in each_network()],
)
def test_networks_and_gradients_in_numpy(network, rng):
    x = rng.normal(size=(3, *network.input_shape))

    def both(params, x):
        line = linearize(network, params, x)
        return line.outputs, gradient(network, params, line, jnp.ones_like(line.outputs))

    found = in_numpy(both, network.init(0), x)
    expected = jax.jit(both)(network.init(0), x)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.at[:, 2].set(7.0),
        lambda x: jax.vmap(lambda row, k: row[k], in_axes=(0, 0))(x, jnp.arange(4) % 3),
        lambda x: x[np.array([3, 0])][:, np.array([1, 1, 2])],
        lambda x: jax.lax.pad(x, 0.5, [(1, -1, 0), (0, 2, 1)]),
        lambda x: jax.lax.map(lambda row: jnp.sum(jnp.sin(row)), x),
        lambda x: jax.lax.scan(lambda c, row: (c * row, c + row), x[0], x, reverse=True),
        lambda x: jnp.einsum("ij,kj->ki", x, x) + jnp.stack(list(x[:, 0]))[None, :],
        lambda x: jax.lax.dynamic_slice(x, (jnp.int64(9), 1), (2, 2)),
        lambda x: (x[::-1, ::2].cumsum(axis=0), jnp.where(x > 0, x, -1.0) ** 3, jnp.round(x), x.max(axis=1)),
    ],
)
def test_operations_in_numpy(function, rng):
    x = rng.normal(size=(4, 5))
    found, expected = jax.tree.leaves(in_numpy(function, x)), jax.tree.leaves(jax.jit(function)(x))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-14)


def test_a_check_runs_once_and_again_until_it_could_compare(fresh):
    ran = []
    for answer in (False, None, None):
        trusted("key", lambda answer=answer: ran.append(1) or answer)
    assert len(ran) == 2


def test_what_is_not_finite_is_wrong_unless_it_overflowed():
    require_agreement("it", np.inf, 1e40, 1e-3)
    require_agreement("it", np.nan, np.nan, 1e-3)
    with pytest.raises(MachineError, match=r"it, as compiled on this machine, is off by inf \(NumPy says 1\): run"):
        require_agreement("it", np.nan, 1.0, 1e-3)


@pytest.fixture
def problem():
    return build("fully-connected", (3,), (), width=67, depth=2, activation="arctan"), load(
        "sphere:n=9,d=3,separation=0.1"
    )


@pytest.mark.usefixtures("wrong_arctan")
@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(steps=3),
        pytest.param(Recipe(steps=3, precision="float32"), marks=pytest.mark.slow),
        pytest.param(Recipe(steps=3, batch=4, optimizer="momentum"), marks=pytest.mark.slow),
        Recipe(steps=3, batch=4, optimizer="momentum", precision="float32"),
    ],
    ids=["plain", "float32", "minibatches", "minibatches in float32"],
)
def test_a_wrong_function_in_training_is_named(problem, recipe):
    with pytest.raises(MachineError, match="compiled arctan is wrong by"):
        train(problem[0], problem[1], recipe)


@pytest.mark.usefixtures("wrong_arctan")
@pytest.mark.slow
def test_a_wrong_function_in_several_runs_and_large_ones_is_named(problem, monkeypatch):
    with pytest.raises(MachineError, match="compiled arctan is wrong by"):
        train_many(problem[0], problem[1], Recipe(steps=3), seeds=range(2), how="batch")
    monkeypatch.setattr("wideproof.training.agreement.MOST", 1)
    with pytest.raises(MachineError, match="compiled arctan is wrong by"):
        train(problem[0], problem[1], Recipe(steps=3))


@pytest.mark.parametrize("place", [-6, -4, -2, 0, 2, 4])
def test_a_function_that_is_wrong_anywhere_is_named(place, monkeypatch):
    """Wrong on a quarter only, on either side of 0 and far from it."""

    def wrong(z):
        return np.where(np.abs(z - place) < 0.25, 0.5, 0.0) + np.arctan(z)

    monkeypatch.setitem(machine.ELEMENTWISE, "atan", wrong)
    with pytest.raises(MachineError, match="compiled arctan is wrong by"):
        machine.require_function(get_activation("arctan"))


@pytest.mark.usefixtures("wrong_arctan")
def test_a_wrong_function_in_gram_matrices_is_named(problem):
    network, data = problem
    with pytest.raises(MachineError, match="compiled arctan is wrong by"):
        gram(network, network.init(0), 3 * data.x)
    with pytest.raises(MachineError, match="compiled arctan is wrong by"):
        covariance("arctan", 1.0, 2.0, 1.0)
    with pytest.raises(MachineError, match="compiled arctan is wrong by"):
        limit_gram(network, data.x * np.arange(1, 10)[:, None] * 1.3)


def test_a_wrong_product_is_named_by_what_it_spoils(problem, fresh, monkeypatch):
    network, data = problem
    right = machine.STRUCTURAL["dot_general"]
    monkeypatch.setitem(machine.STRUCTURAL, "dot_general", lambda params, a, b: right(params, a, b) * (1 + 1e-4))
    with pytest.raises(MachineError, match="training step of fully-connected, as compiled on this machine, is off by"):
        train(network, data, Recipe(steps=3))
    with pytest.raises(MachineError, match="the Gram matrix of fully-connected, as compiled on this machine, is off"):
        gram(network, network.init(0), data.x)
    relu = build("fully-connected", (3,), (), width=2, depth=2, activation="relu")
    with pytest.raises(MachineError, match=r"an infinite-width Gram matrix .* as compiled on this machine, is off"):
        limit_gram(relu, data.x)


def test_a_sound_machine_is_trusted(problem, fresh):
    """The same programs as above, so that nothing is compiled again."""
    network, data = problem
    train(network, data, Recipe(steps=3))
    gram(network, network.init(0), data.x)
    limit_gram(network, data.x)
    assert len(machine._TRUSTED) > 2
    machine.require_function(get_activation("arctan"))


@pytest.mark.slow
def test_a_sound_machine_is_trusted_in_several_runs_and_float32(problem, fresh):
    network, data = problem
    train_many(network, data, Recipe(steps=2), seeds=range(2), how="batch")
    gram(network, network.init(0), data.x, data.x[:4], by_weight=True, precision="float32")
    limit_gram(network, data.x, data.x[:4])
    assert len(machine._TRUSTED) > 2
    machine.require_function(get_activation("mish"))
