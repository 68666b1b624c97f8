r"""One pass through a network with everything that its statements speak of: inputs, values and cotangents of each use.

A weight $W$ meets an input $u$ and gives $z = W u$, which in all seven networks is a pre-activation or a part of one;
$b = \partial f / \partial z$ is what comes back. From these three follow layer norms, activation patterns, gradients
($\nabla_W f = \sum b u^\top$), and Gram matrices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from wideproof.networks import Network, linearize
from wideproof.precision import double


@dataclass(frozen=True)
class Trace:
    """A pass as NumPy arrays, the examples along the first axis; lists have one entry per use, in order.

    Attributes
    ----------
    outputs
        The outputs, `(n, *out)`.
    features
        Every layer, as `network.features` gives them.
    inputs
        By weight name, the input $u$ of each use.
    values
        By weight name, $z = W u$ of each use.
    cotangents
        By weight name, the cotangent $b$ of each use, for the sum of all outputs (for a network with one output, that
        output).
    """

    outputs: Float[np.ndarray, "n ..."]
    features: list[Float[np.ndarray, "n ..."]]
    inputs: dict[str, list[Float[np.ndarray, "n ..."]]]
    values: dict[str, list[Float[np.ndarray, "n ..."]]]
    cotangents: dict[str, list[Float[np.ndarray, "n ..."]]]


@double
def trace(network: Network, params: Mapping[str, ArrayLike], x: ArrayLike) -> Trace:
    """Run the network on a batch and record the inputs, values and cotangents of every use of every weight.

    Parameters
    ----------
    network
        The network.
    params
        Weights by name.
    x
        Inputs, one example in each row.

    Returns
    -------
    Trace
        The recorded arrays.

    Examples
    --------
    >>> from wideproof.networks import DeepReLU
    >>> network = DeepReLU(input_dim=3, width=4, depth=2)
    >>> seen = trace(network, network.init(0), np.eye(3))
    >>> [seen.values[name][0].shape for name in ("W1", "W2", "v")]
    [(3, 4), (3, 4), (3, 1)]
    """
    found = _trace(network, network.as_params(params), network.as_batch(params, x))
    outputs, features, inputs, values, cotangents = jax.tree.map(np.asarray, found)
    as_lists = [{name: list(uses) for name, uses in part.items()} for part in (inputs, values, cotangents)]
    return Trace(outputs, list(features), *as_lists)


@partial(jax.jit, static_argnums=0)
def _trace(network: Network, params: dict[str, Array], x: Array) -> tuple:
    plain = network.linear(params)
    values: dict[str, list[Array]] = {name: [] for name in network.laws()}

    def linear(name: str, u: Array) -> Array:
        values[name].append(plain(name, u))
        return values[name][-1]

    forward = network.forward(linear, x)
    line = linearize(network, params, x, tuple(network.laws()))
    cotangents = line.pullback(jnp.ones_like(line.outputs))
    return forward.outputs, forward.features, line.inputs, values, cotangents
