"""The Gram matrix of a network inside a program that JAX traces, such as a step of training."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from wideproof.kernels.finite import finite_kernel
from wideproof.networks import Network


def traced_gram(network: Network, params: Mapping[str, Array], x: Array) -> Float[Array, "N N"]:
    r"""Return the Gram matrix $G = JJ^\top$ of the trained weights, in one piece and by operations that JAX can trace.

    `gram` computes the same tile by tile, with a bound on its error.

    Parameters
    ----------
    network
        The network.
    params
        Its weights, by name.
    x
        Inputs, one example in each row.

    Returns
    -------
    Array
        The matrix; rows are ordered by example first, then by output.

    Examples
    --------
    >>> import numpy as np
    >>> from wideproof.kernels import gram
    >>> from wideproof.networks import FullyConnected
    >>> from wideproof.precision import double
    >>> network = FullyConnected(input_dim=3, width=16, depth=2)
    >>> params = network.init(0)
    >>> found = double(jax.jit(lambda params, x: traced_gram(network, params, x)))(params, np.eye(3))
    >>> bool(np.allclose(found, gram(network, params, np.eye(3)).matrix, rtol=1e-12))
    True
    """
    with jax.ensure_compile_time_eval():  # the plan is made from shapes, and by numbers of its own
        kernel = finite_kernel(network, len(x), network.trained_names, False)
    record = kernel.keep(kernel.record(params, x))
    return jnp.asarray(kernel.block(params, record, record)["total"])
