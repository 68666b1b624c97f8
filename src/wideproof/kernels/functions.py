r"""The Gram matrix of any JAX function of a pytree of parameters, from blocks of its Jacobian.

$$ G_{(i,k),(j,l)} = \sum_p \frac{\partial f_k(x_i)}{\partial \theta_p} \frac{\partial f_l(x_j)}{\partial \theta_p},
   \qquad G = J J^\top . $$

Every example goes through the function alone, as a batch of one; its rows of $J$ are pulled back together. A sum over
parameters is cut into pieces of at most $q$ terms, $m$ of them in all. So whatever order BLAS adds in,

$$ |\hat G_{ab} - (\hat J \hat J^\top)_{ab}| \le \gamma_{q+m} \|\hat J_a\| \|\hat J_b\|, \qquad
   \|\hat G - \hat J \hat J^\top\|_2 \le \gamma_{q+m} \|\hat J\|_F^2, \qquad \gamma_k = \frac{k u}{1 - k u} . $$

This is `Gram.error`, with what underflow can add. How far $\hat J$ is from $J$ depends on the function: that is not
bounded.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from wideproof.errors import InputError
from wideproof.kernels import finite
from wideproof.kernels.callables import as_function, as_network, as_side, as_state, choose, count_outputs
from wideproof.kernels.contraction import AnyArray
from wideproof.kernels.finite import ROUNDOFF, require_precision
from wideproof.kernels.gram_result import Gram, why_singular
from wideproof.kernels.jacobians import FunctionKernel, within
from wideproof.kernels.sharded import assemble
from wideproof.kernels.tiles import default_memory, examples
from wideproof.networks import Network
from wideproof.precision import double

MIXED = 1e-3  # outputs in a batch of two that differ by more, relative to the largest, depend on the other example


@double
def gram(
    function: Network | Callable[..., Array],
    params: PyTree,
    x: PyTree,
    other: PyTree | None = None,
    *,
    names: Sequence[str] | None = None,
    by_weight: bool = False,
    batched: bool = True,
    precision: str = "float64",
    memory: int | None = None,
    on_device: bool = False,
) -> Gram:
    r"""Return the Gram matrix of all outputs on `x`, or between `x` and `other`: $G = J J^\top$.

    A network of this package goes by its layers, and no Jacobian is formed (`finite.gram`). Any other function
    `f(params, x)` goes by blocks of its Jacobian with respect to all floating-point leaves of `params`; integer leaves
    are constants. It must be pure, as for `jax.jit`: it is traced once. The outputs of an example must depend on that
    example alone.

    Parameters
    ----------
    function
        A network, or a function of a pytree and a batch, such as `model.apply`.
    x, other
        Arrays, or pytrees of arrays, with the examples along the first axis.
    names
        What to sum over: paths such as `"params/Dense_0/kernel"`, everything under a path (`"params/Dense_0"`), or
        patterns (`"*/kernel"`). By default all; for networks the trained weights.
    by_weight
        Also keep the part of each leaf, by its path, in `blocks`.
    batched
        Whether the function takes a batch; `False`: one example, without the first axis.
    precision
        `"float64"`, `"float32"`, or on a GPU `"tf32"`. Parameters and examples are cast to it.
    memory
        Bytes of working memory besides the result, by default 2 GiB, or a quarter of a GPU's. Where the Jacobian takes
        more than half of it, its blocks are computed again for each tile.
    on_device
        Leave the matrix where it was computed, as a JAX array.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> from wideproof.kernels import predict, spectrum
    >>> params = {"hidden": np.array([[1.0, -1.0]]), "out": np.array([2.0, 1.0])}
    >>> x = np.array([[1.0], [2.0]])
    >>> found = gram(lambda p, x: jnp.tanh(x @ p["hidden"]) @ p["out"], params, x)
    >>> found.matrix.round(3)
    array([[2.042, 1.765],
           [1.765, 1.959]])
    >>> print(found)
    Gram matrix of 2 rows, sum over hidden, out: float64 on cpu, off by at most 1.8e-15 in norm
    >>> spectrum(found).positive_definite
    True
    >>> predict(found, targets=np.array([1.0, 0.0]), start=0.0, step_size=0.5).steps_to(1e-3)
    25
    """
    network = as_network(function)
    if network is not None:
        if not batched:
            raise InputError(f"{network.name} takes batches: leave `batched` at True")
        return finite.gram(network, params, x, other, names=names, by_weight=by_weight, precision=precision,
                           memory=memory, on_device=on_device)  # fmt: skip
    function, dtype = as_function(function), require_precision(precision)
    state, paths = as_state(params, dtype)
    chosen = choose(paths, names)
    sides = [as_side(side, dtype) for side in (x, other) if side is not None]
    sizes = tuple(np.size(leaf) for leaf in jax.tree.leaves(state))
    leaves = tuple((k, paths[k], sizes[k]) for k in chosen)
    with jax.default_matmul_precision("tensorfloat32" if precision == "tf32" else "highest"):
        outputs = {count_outputs(function, batched, state, side, dtype) for side in sides}
        if len(outputs) > 1:
            raise InputError(f"x and other have {outputs} outputs for each example: give examples of one shape")
        kernel = FunctionKernel(function, batched, leaves, outputs.pop(), by_weight, str(dtype))
        kernel, free = within(kernel, state, sides, default_memory() if memory is None else memory)
        for side in sides:
            _require_values(kernel, state, side)
        found = assemble(kernel, state, sides[0], None if other is None else sides[1], free)
        norms = _norms(kernel, state, sides, found)
    found = {key: jnp.asarray(matrix) if on_device else np.asarray(matrix) for key, matrix in found.items()}
    total = reduce(operator.add, found.values()) if by_weight else found.pop("total")
    count = sum(size for *_, size in leaves)
    singular = "" if other is not None else why_singular(x, kernel.rows * examples(sides[0]), count, "parameters")
    underflow = math.sqrt(total.size) * count * float(np.finfo(dtype).tiny)
    error = rounding(kernel.terms, precision) * norms + underflow
    named = tuple(path for _, path, _ in leaves)
    return Gram(total, named, "finite", precision, jax.default_backend(), error, found, singular)


def rounding(terms: int, precision: str) -> float:
    r"""Return $\gamma_k / (1 - \gamma_k)$: how far sums of `terms` products are off, relative to the computed norms.

    The products of tf32 have both factors rounded, and are added in float32.

    >>> rounding(100, "float64") < 1.2e-14 < rounding(100, "float32") < 6.1e-6 < 1.9e-3 < rounding(100, "tf32")
    True
    """
    unit = ROUNDOFF["float32" if precision == "tf32" else precision]
    if terms * unit > 0.25:
        raise InputError(f"sums of {terms} terms are more than {precision} can bound: use precision='float64'")
    gamma = terms * unit / (1 - terms * unit) + (4 * ROUNDOFF["tf32"] if precision == "tf32" else 0)
    return gamma / (1 - gamma)


@partial(jax.jit, static_argnums=0)
def _values(kernel: FunctionKernel, state: PyTree[Array], x: PyTree[Array]) -> Array:
    return kernel.each(partial(kernel.values, state), x)


@partial(jax.jit, static_argnums=0)
def _together(kernel: FunctionKernel, state: PyTree[Array], x: PyTree[Array]) -> Array:
    return kernel.function(state, x).reshape(examples(x), -1)


@partial(jax.jit, static_argnums=0)
def _squares(kernel: FunctionKernel, state: PyTree[Array], x: PyTree[Array]) -> Array:
    def square(example: PyTree[Array]) -> Array:
        rows = kernel.jacobian(state, example)
        return sum((jnp.sum(jnp.square(row.astype(jnp.float64))) for row in rows), jnp.zeros(()))

    return kernel.each(square, x)


def _require_values(kernel: FunctionKernel, state: PyTree[Array], x: PyTree[Array]) -> None:
    """Check that outputs are finite, and that those of two examples are the same together as alone."""
    alone = np.asarray(_values(kernel, state, x), np.float64)
    bad = np.flatnonzero(~np.isfinite(alone).all(axis=1))
    if len(bad):
        raise InputError(f"the outputs of example {bad[0]} are not finite: look for NaN or overflow in the parameters")
    if not kernel.batched or len(alone) < 2:
        return
    two = np.array([0, len(alone) - 1])
    together = np.asarray(_together(kernel, state, jax.tree.map(lambda leaf: leaf[two], x)), np.float64)
    off = float(np.abs(together - alone[two]).max())
    if not off <= MIXED * float(np.abs(alone[two]).max()) + math.sqrt(np.finfo(kernel.precision).eps):
        raise InputError(
            f"the outputs of examples {two[0]} and {two[1]} change by {off:.3g} when they are in one batch: each must "
            "depend on its example alone, so use batch normalization in evaluation mode, and no dropout"
        )


def _norms(
    kernel: FunctionKernel, state: PyTree[Array], sides: list[PyTree[Array]], found: Mapping[str, AnyArray]
) -> float:
    r"""Return $\|J_1\|_F \|J_2\|_F$, by the trace where both are the same."""
    if len(sides) == 1:
        squares = [np.sum([np.asarray(matrix.diagonal(), np.float64) for matrix in found.values()], axis=0)]
    else:
        squares = [np.asarray(_squares(kernel, state, side), np.float64) for side in sides]
    for square in squares:
        bad = np.flatnonzero(~np.isfinite(square))
        if len(bad):
            example = bad[0] * examples(sides[0]) // len(square) if len(sides) == 1 else bad[0]
            raise InputError(
                f"the gradient of example {example} is not finite, though its outputs are: look for a root or a "
                "logarithm at zero"
            )
    return math.sqrt(math.prod(float(np.sum(square)) for square in squares * (3 - len(squares))))
