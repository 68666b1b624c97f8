r"""The Gram matrix of a finite network, from the inputs and cotangents of every use of a weight.

$$ G_{(i,k),(j,l)} = \sum_W \langle \partial f_k(x_i)/\partial W, \partial f_l(x_j)/\partial W \rangle
   = \sum_W \sum_{\text{uses}} \langle u_i, u_j' \rangle \langle b_{ik}, b_{jl}' \rangle . $$

No Jacobian is formed, and weights shared over time or position are summed exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from wideproof.networks import Network, linearize
from wideproof.precision import double_to_numpy


@double_to_numpy
def gram(
    network: Network, params: Mapping[str, ArrayLike], x: ArrayLike, names: Sequence[str] | None = None
) -> Float[Array, "N N"]:
    """Return the Gram matrix of the scored outputs with respect to the weights `names` (default: the trained ones).

    Rows are ordered by example first, then by output. For one weight matrix this is the paper's $G^{(h)}$.

    Examples
    --------
    >>> import numpy as np
    >>> from wideproof.networks import FullyConnected
    >>> network = FullyConnected(input_dim=3, width=16, depth=2)
    >>> gram(network, network.init(0), np.eye(3)).shape
    (3, 3)
    """
    names = network.trained_names if names is None else tuple(names)
    return _gram(network, network.as_params(params), network.as_batch(params, x), names)


@partial(jax.jit, static_argnums=(0, 3))
def _gram(network: Network, params: dict[str, Array], x: Array, names: tuple[str, ...]) -> Array:
    line = linearize(network, params, x, names)
    scored, score = jax.vjp(network.scored, line.outputs)
    n = x.shape[0]
    count = scored[0].size

    def one_output(k: Array) -> dict[str, Array]:
        cotangent = jnp.zeros((n, count), x.dtype).at[:, k].set(1).reshape(scored.shape)
        pulled = line.pullback(score(cotangent)[0])
        return {name: _positions(n, pulled[name]) for name in names}

    pulled = jax.vmap(one_output, out_axes=1)(jnp.arange(count))
    total = jnp.zeros((n, count, n, count), x.dtype)
    for name in names:
        u, b = _positions(n, line.inputs[name]), pulled[name]
        inner = jnp.einsum("ipa,jqa->ipjq", u, u)
        total += jnp.einsum("ipjq,ikpb,jlqb->ikjl", inner, b, b, optimize=True)
    return total.reshape(n * count, n * count)


def _positions(n: int, uses: Sequence[Array]) -> Array:
    """Lay all uses and positions of a weight along one axis: `n x positions x size`."""
    return jnp.concatenate([u.reshape(n, -1, u.shape[-1]) for u in uses], axis=1)
