"""Eigenvalues of Gram matrices without the matrix."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array

from wideproof.networks import Network, gradient, linearize
from wideproof.precision import double


@double
def largest_eigenvalue(
    network: Network,
    params: Mapping[str, ArrayLike],
    x: ArrayLike,
    *,
    weights: Array | None = None,
    iterations: int = 60,
    seed: int = 0,
) -> float:
    r"""Estimate $\lambda_{\max}(D^{1/2} J J^\top D^{1/2})$ by power iteration, $D$ = diag(`weights`) or the identity.

    $J$ is the Jacobian of the scored outputs with respect to the trained weights; each iteration costs one
    forward-mode and one reverse-mode pass. The estimate is a Rayleigh quotient, so never above the truth.

    Examples
    --------
    >>> import numpy as np
    >>> from wideproof.kernels import gram
    >>> from wideproof.networks import FullyConnected
    >>> network = FullyConnected(input_dim=3, width=16, depth=2)
    >>> params, x = network.init(0), np.eye(3)
    >>> dense = np.linalg.eigvalsh(gram(network, params, x))[-1]
    >>> bool(abs(largest_eigenvalue(network, params, x) / dense - 1) < 1e-6)
    True
    """
    batch = network.as_batch(params, x)
    return float(_power(network, network.as_params(params), batch, weights, iterations, seed))


@partial(jax.jit, static_argnums=(0, 4, 5))
def _power(
    network: Network, params: dict[str, Array], x: Array, weights: Array | None, iterations: int, seed: int
) -> Array:
    line = linearize(network, params, x)
    shape = network.scored(line.outputs).shape
    root = jnp.ones(shape, x.dtype) if weights is None else jnp.sqrt(jnp.broadcast_to(weights, shape))

    def outputs(trained: dict[str, Array]) -> Array:
        return network.scored(network.forward(network.linear({**params, **trained}), x).outputs)

    trained = {name: params[name] for name in network.trained_names}

    def apply(v: Array) -> Array:
        cotangent = jax.vjp(network.scored, line.outputs)[1](root * v)[0]
        pulled = gradient(network, params, line, cotangent)
        return root * jax.jvp(outputs, (trained,), (pulled,))[1]

    def step(_: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        v = carry[0]
        w = apply(v)
        norm = jnp.linalg.norm(w.ravel())
        return w / jnp.where(norm > 0, norm, 1), jnp.vdot(v, w)

    start = jax.random.normal(jax.random.key(seed), shape, x.dtype)
    start = start / jnp.linalg.norm(start.ravel())
    return lax.fori_loop(0, iterations, step, (start, jnp.zeros((), x.dtype)))[1]
