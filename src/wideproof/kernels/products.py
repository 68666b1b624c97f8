"""Products with a Gram matrix that is never formed, and its largest eigenvalue from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from wideproof.errors import InputError
from wideproof.kernels.finite import check_names
from wideproof.networks import Network, gradient, linearize
from wideproof.precision import double, double_to_numpy


@double_to_numpy
def gram_vector(
    network: Network,
    params: Mapping[str, ArrayLike],
    x: ArrayLike,
    v: ArrayLike,
    *,
    names: Sequence[str] | None = None,
) -> Float[Array, "N"]:
    r"""Return $G v = J (J^\top v)$ from one reverse-mode and one forward-mode pass.

    Parameters
    ----------
    network
        The network.
    params
        Its weights, by name.
    x
        Inputs, one example in each row.
    v
        One number for each row of the Gram matrix, ordered by example first, then by output.
    names
        The weights to sum over; by default the trained ones.

    Returns
    -------
    Array
        $G v$, in the order of `v`.

    Examples
    --------
    >>> import numpy as np
    >>> from wideproof.kernels import gram
    >>> from wideproof.networks import FullyConnected
    >>> network = FullyConnected(input_dim=3, width=16, depth=2)
    >>> params, v = network.init(0), np.array([1.0, -2.0, 0.5])
    >>> product = gram_vector(network, params, np.eye(3), v)
    >>> bool(np.allclose(product, gram(network, params, np.eye(3)).matrix @ v, rtol=1e-12))
    True
    """
    batch = network.as_batch(params, x)
    rows = jax.eval_shape(network.scored, jnp.zeros((len(batch), *network.output_shape))).size
    vector = jnp.asarray(v, batch.dtype)
    if vector.shape != (rows,):
        raise InputError(f"the Gram matrix has {rows} rows, got a vector of shape {vector.shape}")
    return _product(network, network.as_params(params), batch, vector, check_names(network, names))


@partial(jax.jit, static_argnums=(0, 4))
def _product(network: Network, params: dict[str, Array], x: Array, v: Array, names: tuple[str, ...]) -> Array:
    shape, apply = product(network, params, x, names)
    return apply(v.reshape(shape)).ravel()


def product(
    network: Network, params: Mapping[str, Array], x: Array, names: tuple[str, ...]
) -> tuple[tuple[int, ...], Callable[[Array], Array]]:
    r"""Return the shape of the scored outputs and the function $v \mapsto G v$ on arrays of that shape."""
    line = linearize(network, params, x, names)
    scored, score = jax.vjp(network.scored, line.outputs)
    chosen = {name: params[name] for name in names}

    def outputs(weights: dict[str, Array]) -> Array:
        return network.scored(network.forward(network.linear({**params, **weights}), x).outputs)

    def apply(v: Array) -> Array:
        return jax.jvp(outputs, (chosen,), (gradient(network, params, line, score(v)[0]),))[1]

    return scored.shape, apply


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
    forward-mode and one reverse-mode pass. The estimate is a Rayleigh quotient, so it never exceeds the true value.

    Parameters
    ----------
    network
        The network.
    params
        Its weights, by name.
    x
        Inputs, one example in each row.
    weights
        The diagonal of $D$, one number for each scored output; by default the identity.
    iterations
        Number of power iterations.
    seed
        Seed of the first vector.

    Returns
    -------
    float
        The estimate, at most $\lambda_{\max}$ up to rounding.

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
    shape, apply = product(network, params, x, network.trained_names)
    root = jnp.ones(shape, x.dtype) if weights is None else jnp.sqrt(jnp.broadcast_to(weights, shape))

    def step(_: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        v = carry[0]
        w = root * apply(root * v)
        norm = jnp.linalg.norm(w.ravel())
        return w / jnp.where(norm > 0, norm, 1), jnp.vdot(v, w)

    start = jax.random.normal(jax.random.key(seed), shape, x.dtype)
    start = start / jnp.linalg.norm(start.ravel())
    return lax.fori_loop(0, iterations, step, (start, jnp.zeros((), x.dtype)))[1]
