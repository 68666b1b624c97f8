"""One step of training against NumPy: the loss always, the weights where they are a plain gradient step in float64."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wideproof.data import Dataset
from wideproof.errors import MachineError
from wideproof.networks import FullyConnected, get_activation
from wideproof.training import Recipe, train
from wideproof.training.agreement import Step, require_agreement

NETWORK = FullyConnected(input_dim=3, width=8, depth=1)
RATE = 0.1


def step(precision: str = "float64") -> Step:
    """The step with a gradient from differences of the loss."""
    params = {name: np.asarray(weight, precision) for name, weight in NETWORK.init(0).items()}
    x, y = np.eye(3, dtype=precision), np.array([1.0, -1.0, 1.0], precision)
    trained = {name: params[name] for name in NETWORK.trained_names}
    fixed = {name: weight for name, weight in params.items() if name not in trained}

    def loss(name: str, at: tuple[int, ...], by: float) -> float:
        moved = {**params, name: params[name].astype(np.float64)}
        moved[name][at] += by
        return 0.5 * float(np.sum(np.square(np.asarray(NETWORK(moved, x.astype(np.float64))) - y)))

    moved = {}
    for name, weight in trained.items():
        slopes = np.empty(weight.shape)
        for at in np.ndindex(weight.shape):
            slopes[at] = (8 * (loss(name, at, 1e-3) - loss(name, at, -1e-3))
                          - (loss(name, at, 2e-3) - loss(name, at, -2e-3))) / 12e-3  # fmt: skip
        moved[name] = (weight - RATE * slopes).astype(precision)
    value = loss(next(iter(trained)), (0,) * trained[next(iter(trained))].ndim, 0.0)
    as_jax = partial(jax.tree.map, jnp.asarray)
    return Step(jnp.asarray(x), jnp.asarray(y), as_jax(fixed), as_jax(trained), as_jax(moved),
                jnp.asarray(RATE, precision), value)  # fmt: skip


@pytest.fixture(scope="module")
def right() -> Step:
    return step()


def elsewhere(right: Step) -> Step:
    """The same step with one weight off by a thousandth."""
    assert right.moved is not None
    name, weight = next(iter(right.moved.items()))
    return right._replace(moved={**right.moved, name: weight.at[(0,) * weight.ndim].add(1e-3)})


def test_the_right_step_agrees(right):
    require_agreement(NETWORK, Recipe(step_size=RATE), right)


def test_a_wrong_loss_is_found(right):
    with pytest.raises(MachineError, match="the loss in a training step of fully-connected"):
        require_agreement(NETWORK, Recipe(step_size=RATE), right._replace(loss=right.loss + 1e-3))


def test_a_wrong_weight_is_found(right):
    with pytest.raises(MachineError, match="after a training step of fully-connected"):
        require_agreement(NETWORK, Recipe(step_size=RATE), elsewhere(right))


@pytest.mark.parametrize("change", [{"batch": 2}, {"optimizer": "momentum"}])
def test_weights_of_other_steps_are_not_compared(right, change):
    require_agreement(NETWORK, dataclasses.replace(Recipe(step_size=RATE), **change), elsewhere(right))


def test_weights_in_float32_are_not_compared():
    require_agreement(NETWORK, Recipe(step_size=RATE, precision="float32"), elsewhere(step("float32")))


def test_targets_of_zero_and_outputs_that_cancel():
    """Pairs of units leave rounding of 1e-16 as output and 1e-31 as loss: no digit of it has to agree."""
    x, y = np.random.default_rng(0).normal(size=(5, 3)), np.zeros(5)
    network = FullyConnected(input_dim=3, width=2048, depth=1, activation=get_activation("erf"), start="doubled")
    run = train(network, Dataset(x, y, "regression"), Recipe(steps=2, step_size=0.01))
    assert run.loss < 1e-28
    here = step_of(network, x, y)
    require_agreement(network, Recipe(steps=1, step_size=RATE), here._replace(loss=float(here.loss or 0) + 3e-31))
    with pytest.raises(MachineError, match="the loss in a training step"):
        require_agreement(network, Recipe(steps=1, step_size=RATE), here._replace(loss=1e-20))


def step_of(network: FullyConnected, x: np.ndarray, y: np.ndarray) -> Step:
    """The loss at the start, and no step."""
    params = {name: jnp.asarray(weight) for name, weight in network.init(0).items()}
    loss = 0.5 * float(np.sum(np.square(np.asarray(network(params, x)) - y)))
    return Step(jnp.asarray(x), jnp.asarray(y), {}, params, None, jnp.asarray(RATE), loss)
