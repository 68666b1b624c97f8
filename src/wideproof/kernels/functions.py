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
from wideproof.kernels import finite, modules
from wideproof.kernels.callables import as_function, as_network, as_side, as_state, choose, count_outputs
from wideproof.kernels.contraction import AnyArray
from wideproof.kernels.entries import require_values
from wideproof.kernels.finite import require_precision
from wideproof.kernels.gram_result import Gram, why_singular
from wideproof.kernels.groups import gram_of_groups
from wideproof.kernels.jacobians import FunctionKernel, rounding, within
from wideproof.kernels.sharded import assemble
from wideproof.kernels.tiles import default_memory, examples
from wideproof.networks import Network
from wideproof.precision import double


@double
def gram(
    function: Network | Callable[..., Array] | Mapping[str, Callable[..., Array]],
    params: PyTree = None,
    x: PyTree | None = None,
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

    For a network of this package it is computed layer by layer, without a Jacobian. For any other function
    `f(params, x)` it is computed from blocks of the Jacobian with respect to all floating-point leaves of `params`;
    integer leaves are constants. Such a function must be pure, as for `jax.jit`: it is traced once. The outputs of an
    example must depend on that example alone.

    A PyTorch module has its own parameters: `gram(module, x)`, `gram(module, x, other)`. A copy of it is computed in
    float64 and in evaluation mode, with `torch.func`, and by default summed over the parameters that require a
    gradient. Examples are an array or a tensor, a tuple of them for several arguments, or a dictionary for arguments
    by name.

    Parameters
    ----------
    function
        A network, a function of a pytree and a batch, such as `model.apply`, or a PyTorch module. Or several functions
        by name, with `x` a dictionary of the points of each: the rows of the result are in groups (`Gram.groups`), such
        as those of a differential equation and of its boundary conditions; `Residuals` has more for them.
    params
        The weights at which the Jacobian is taken: a pytree of arrays; left out for a PyTorch module.
    x, other
        Arrays, or pytrees of arrays, with the examples along the first axis.
    names
        The weights to sum over: paths such as `"params/Dense_0/kernel"`, everything under a path (`"params/Dense_0"`),
        or patterns (`"*/kernel"`); with dots for a PyTorch module (`"layer1.0"`). By default all weights; for networks
        of this package, the trained ones.
    by_weight
        Also return the part of each weight, in `blocks`.
    batched
        Whether the function takes a batch; if `False` it takes one example, without the first axis.
    precision
        `"float64"`, `"float32"`, or on a GPU `"tf32"`. Parameters and examples are cast to it.
    memory
        Bytes of working memory besides the result; by default 2 GiB, or a quarter of a GPU's memory. If the Jacobian
        takes more than half of it, its blocks are computed again for each tile.
    on_device
        Leave the matrix on the device, as a JAX array.

    Returns
    -------
    Gram
        The matrix, with a bound on its error.

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
    if isinstance(function, Mapping):
        if other is not None:
            raise InputError("functions by group have one set of points: make the other points a group, too")
        return gram_of_groups(function, params, x, names=names, by_weight=by_weight, batched=batched,
                              precision=precision, memory=memory, on_device=on_device)  # fmt: skip
    if modules.is_module(function):
        given = [side for side in (params, x, other) if side is not None]
        if not 1 <= len(given) <= 2:
            raise InputError(
                f"a PyTorch module has its own parameters: gram(module, x) or gram(module, x, other); got {len(given)} "
                "further arguments"
            )
        if precision != "float64" or on_device:
            raise InputError("the Gram matrix of a PyTorch module is computed in float64, and given as a NumPy array")
        return modules.gram(function, *given, names=names, by_weight=by_weight, batched=batched, memory=memory)
    if x is None:
        raise InputError("gram takes a function, its parameters and examples: give x")
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
            require_values(kernel, state, side)
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


@partial(jax.jit, static_argnums=0)
def _squares(kernel: FunctionKernel, state: PyTree[Array], x: PyTree[Array]) -> Array:
    def square(example: PyTree[Array]) -> Array:
        rows = kernel.jacobian(state, example)
        return sum((jnp.sum(jnp.square(row.astype(jnp.float64))) for row in rows), jnp.zeros(()))

    return kernel.each(square, x)


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
