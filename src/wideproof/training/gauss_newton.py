r"""The direction of damped Gauss–Newton, from the $N \times N$ Gram matrix of the outputs.

For $L = \tfrac12 \|r\|^2$ with the residuals $r = D^{1/2} (f - y)$ ($D$ the weights of the examples, over $n$ for the
mean) and their Jacobian $J$, the direction $\Delta$ with damping $\lambda$ is the minimizer of
$\tfrac12 \|r - J \Delta\|^2 + \tfrac\lambda2 \|\Delta\|^2$:

$$ \Delta = J^\top (J J^\top + \lambda I)^{-1} r , \qquad \theta \leftarrow \theta - \eta \Delta . $$

With $\lambda = 0$ it is $J^+ r$, of all minimizers the shortest. No matrix of the weights' size is formed: $J J^\top$
is summed layer by layer, and $J^\top v$ is one backward pass.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from wideproof.errors import InputError
from wideproof.kernels import traced_gram
from wideproof.networks import Network, gradient, linearize
from wideproof.resources import memory
from wideproof.training.objective import Objective

MATRICES = 6  # of N x N that a step holds, about


def direction(
    network: Network,
    params: dict[str, Array],
    x: Array,
    targets: Array,
    weights: Float[Array, " n"] | None,
    objective: Objective,
    damping: float,
) -> dict[str, Array]:
    r"""Return the direction of the step for the trained weights.

    Without damping, eigenvalues of $J J^\top$ that float64 (float32) cannot tell from zero are left out.
    """
    line = linearize(network, params, x)
    outputs, score = jax.vjp(network.scored, line.outputs)
    rest = outputs - network.scored(targets)
    n = len(x)
    share = 1.0 / n if objective.reduction == "mean" else 1.0
    each = jnp.full((n,), share, x.dtype) if weights is None else share * weights
    roots = jnp.sqrt(jnp.broadcast_to(each.reshape(-1, *[1] * (rest.ndim - 1)), rest.shape))
    scale = roots.ravel()
    matrix = scale[:, None] * traced_gram(network, params, x) * scale[None, :]
    v = _solve(matrix, scale * rest.ravel(), damping)
    return gradient(network, params, line, score(roots * v.reshape(rest.shape))[0])


def _solve(matrix: Float[Array, "N N"], r: Float[Array, " N"], damping: float) -> Float[Array, " N"]:
    if damping > 0:
        shifted = matrix + damping * jnp.eye(len(matrix), dtype=matrix.dtype)
        return jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(shifted, lower=True), r)
    values, vectors = jnp.linalg.eigh(matrix)
    kept = values > len(values) * jnp.finfo(values.dtype).eps * values[-1]
    return vectors @ (jnp.where(kept, 1 / jnp.where(kept, values, 1), 0) * (vectors.T @ r))


def require_room(rows: int, itemsize: int) -> None:
    """Check that the matrices of a step fit into the machine's memory."""
    needed, there = MATRICES * rows**2 * itemsize, memory()
    if needed > there:
        raise InputError(
            f"Gauss–Newton solves with a matrix of {rows} rows, about {needed / 1e9:.3g} GB in all where this machine "
            f"has {there / 1e9:.3g} GB: use fewer examples, or another optimizer"
        )
