r"""The first step of a compiled training loop against the same step in NumPy: the loss, and where the weights go.

With outputs $f$ and targets $y$ an output may be off by $\delta = \sqrt{u k}\,(\max |f| + \max |y|)$, hence the loss by
$\delta \sum |\ell'| + n \delta^2$, and a gradient $\sum b u^\top$ by $\sqrt{u k} \sum |b| |u|^\top$. Where pairs of
units cancel and targets are 0, only rounding is left: $\delta$ is at least $u \sqrt{k} \sum |a| |h|$.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from wideproof import machine
from wideproof.networks import Network, contract, linearize
from wideproof.training.recipe import Recipe

# Products of a pass over all examples: NumPy takes a tenth of a second for so many. Above, the activation alone is
# compared.
MOST = 2 * 10**8
CANCELLED = 2.0**-26  # the share of what is added up that rounding leaves, by the root of u that a tolerance has


class Step(NamedTuple):
    """One step of one run: the data, the weights before and after, the step size, and the loss before, if recorded."""

    x: Array
    targets: Array
    fixed: dict[str, Array]
    trained: dict[str, Array]
    moved: dict[str, Array] | None
    step_size: Array
    loss: float | None
    weights: Array | None = None


def affordable(network: Network, n: int) -> bool:
    """Say whether NumPy can take a step on `n` examples in about a tenth of a second."""
    return n * sum(math.prod(law.shape) for law in network.laws().values()) * _places(network) <= MOST


def family(network: Network, recipe: Recipe, n: int) -> tuple[Any, ...]:
    """Return what decides which operations a step consists of, and how long its vectors are, to a factor of four."""
    activation = getattr(network, "activation", None)
    widest = max(max(law.shape) for law in network.laws().values())
    value = None if activation is None else activation.value
    kind = (
        recipe.loss,
        recipe.label_smoothing,
        recipe.reduction,
        recipe.batch is None,
        recipe.shuffle,
        recipe.optimizer,
        recipe.decay > 0,
        recipe.precision,
    )
    return (network.name, activation, value, *kind, (n * widest).bit_length() // 2)


def require_right_functions(network: Network) -> None:
    """Raise `MachineError` if the network's activation is compiled wrongly."""
    if (activation := getattr(network, "activation", None)) is not None:
        machine.require_function(activation)


def require_agreement(network: Network, recipe: Recipe, step: Step) -> None:
    """Raise `MachineError` unless NumPy takes the same step.

    Minibatches and other optimizers than plain gradient descent are compared by the loss only, and so is float32, in
    which a ReLU within rounding of its kink may be on or off.
    """
    loss, slopes, size, moves, scales = machine.in_numpy(
        lambda *arrays: _reference(network, recipe, *arrays),
        step.fixed, step.trained, step.x, step.targets, step.weights,
    )  # fmt: skip
    shapes = [law.shape for law in network.laws().values()]
    within = machine.tolerance(step.x.dtype, 64 * (64 + max(max(shape) for shape in shapes)))
    what, activation = f"a training step of {network.name}", getattr(network, "activation", None)
    functions = () if activation is None else (activation,)
    largest = 1.0 if step.weights is None else float(np.asarray(step.weights).max())
    if step.loss is not None:
        delta = within * size
        off = delta * slopes + len(step.x) * largest * delta**2 + within * abs(loss)
        machine.require_agreement(f"the loss in {what}", step.loss, loss, float(off), functions)
    if step.moved is None or recipe.batch is not None or recipe.optimizer != "plain" or step.x.dtype != np.float64:
        return
    rate, decay = float(step.step_size), recipe.decay
    for name, weight in step.moved.items():
        before = np.asarray(step.trained[name])
        off = within * rate * scales[name].max() + 1e-15 * (1 + rate * decay) * np.abs(before).max()
        expected = before - rate * (moves[name] + decay * before)
        machine.require_agreement(f"{name} after {what}", weight, expected, float(off), functions)


def _reference(
    network: Network,
    recipe: Recipe,
    fixed: dict[str, Array],
    trained: dict[str, Array],
    x: Array,
    targets: Array,
    weights: Array | None,
) -> tuple[Array, Array, Array, dict[str, Array], dict[str, Array]]:
    """Return loss, sum of the slopes' sizes, size of the outputs, gradients, and sums of absolute values in them."""
    params = {**fixed, **trained}
    line = linearize(network, params, x, tuple(trained))

    def scored(outputs: Array) -> Array:
        return network.scored(outputs)

    outputs, score = jax.vjp(scored, line.outputs)
    goal = network.scored(targets)
    objective = recipe.objective
    slope = objective.cotangent(outputs, goal, weights)
    size = jnp.abs(outputs).max() + jnp.abs(goal).max()
    read = network.graph.read_out
    if read in trained:  # where all that is added up in an output cancels, rounding is what is left
        ones = line.pullback(score(jnp.ones(outputs.shape))[0])
        added = contract(
            network, params[read], [jnp.abs(u) for u in line.inputs[read]], [jnp.abs(b) for b in ones[read]]
        )
        size = jnp.maximum(size, CANCELLED * jnp.sum(added * jnp.abs(params[read])))
    heaviest = 1.0 if weights is None else jnp.abs(weights).max()
    share = heaviest * size / (len(x) if objective.reduction == "mean" else 1)
    cotangents, large = (
        line.pullback(score(jnp.broadcast_to(c, outputs.shape))[0]) for c in (slope, jnp.abs(slope).max() + share)
    )
    moves = {name: contract(network, params[name], line.inputs[name], cotangents[name]) for name in trained}
    scales = {
        name: contract(
            network, params[name], [jnp.abs(u) for u in line.inputs[name]], [jnp.abs(b) for b in large[name]]
        )
        for name in trained
    }
    return objective.value(outputs, goal, weights), jnp.abs(slope).sum(), size, moves, scales


def _places(network: Network) -> int:
    """Return how often a weight is used: once for each position or time."""
    return 1 if network.data_kind == "vectors" else max(network.input_shape)
