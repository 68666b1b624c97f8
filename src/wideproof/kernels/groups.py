r"""The Gram matrix of several functions of one pytree of parameters, each on points of its own: rows in groups.

The rows of group $a$ are the gradients of all outputs of its function on its points, so the matrix consists of the
blocks $J_a J_b^\top$. The Jacobians of all groups are kept while they are multiplied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import accumulate
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from wideproof.errors import InputError
from wideproof.kernels.callables import as_function, as_side, as_state, choose, count_outputs
from wideproof.kernels.contraction import AnyArray
from wideproof.kernels.entries import require_values
from wideproof.kernels.finite import require_precision
from wideproof.kernels.gram_result import Gram, why_singular
from wideproof.kernels.jacobians import FunctionKernel, rounding, within
from wideproof.kernels.tiles import default_memory, examples


class Group(NamedTuple):
    """A function as a kernel, and its points."""

    kernel: FunctionKernel
    points: PyTree[Array]

    @property
    def rows(self) -> int:
        """How many rows of the matrix are its own."""
        return self.kernel.rows * examples(self.points)


def gram_of_groups(
    functions: Mapping[str, Callable[..., Array]],
    params: PyTree,
    points: object,
    *,
    names: Sequence[str] | None,
    by_weight: bool,
    batched: bool,
    precision: str,
    memory: int | None,
    on_device: bool,
) -> Gram:
    """Return the Gram matrix of all groups, in the order of `functions`; the parameters are those of `gram`."""
    sides, dtype = require_same_names(functions, points), require_precision(precision)
    state, paths = as_state(params, dtype)
    sizes = [np.size(leaf) for leaf in jax.tree.leaves(state)]
    leaves = tuple((k, paths[k], sizes[k]) for k in choose(paths, names))
    count = sum(size for *_, size in leaves)
    memory = default_memory() if memory is None else memory
    with jax.default_matmul_precision("tensorfloat32" if precision == "tf32" else "highest"):
        groups = {}
        for name, function in functions.items():
            with named(name):
                side, function = as_side(sides[name], dtype), as_function(function)
                outputs = count_outputs(function, batched, state, side, dtype)
                kernel = FunctionKernel(function, batched, leaves, outputs, by_weight, str(dtype))
                groups[name] = Group(within(kernel, state, [side], memory)[0], side)
        rows = sum(group.rows for group in groups.values())
        if 2 * rows * count * dtype.itemsize > memory:
            raise InputError(
                f"gradients of {rows} rows by {count} parameters take {rows * count * dtype.itemsize} bytes, and at "
                f"most half of memory={memory} may go there: give more, fewer points, or fewer parameters by `names`"
            )
        for name, group in groups.items():
            with named(name):
                require_values(group.kernel, state, group.points)
        found = _assemble(state, groups)
    places = _places(groups)
    norm = _norm(found, places, groups)
    found = {key: matrix if on_device else np.asarray(matrix) for key, matrix in found.items()}
    total = sum(found.values()) if by_weight else found.pop("total")
    assert not isinstance(total, int)
    terms = max(group.kernel.terms for group in groups.values())
    underflow = rows * count * float(np.finfo(dtype).tiny)
    error = rounding(terms, precision) * norm + underflow
    paths_named = tuple(path for _, path, _ in leaves)
    singular = _why_singular(sides, groups, count)
    return Gram(total, paths_named, "finite", precision, jax.default_backend(), error, found, singular, places)


@contextmanager
def named(group: str) -> Iterator[None]:
    """Say in front of what is wrong which group it is about."""
    try:
        yield
    except InputError as error:
        raise InputError(f"group '{group}': {error}") from error


def require_same_names(functions: Mapping[str, Callable], points: object) -> Mapping[str, PyTree]:
    """Return the points of the groups, which are the functions' own."""
    if not isinstance(points, Mapping) or not functions or set(points) != set(functions):
        given = ", ".join(map(str, points)) if isinstance(points, Mapping) else type(points).__name__
        raise InputError(
            f"functions by group need points under the same names, at least one: the functions are "
            f"{', '.join(functions) or 'none'}, the points {given or 'none'}"
        )
    return points


def _assemble(state: PyTree[Array], groups: Mapping[str, Group]) -> dict[str, Array]:
    """Return the matrices from the blocks of two groups at a time."""
    records = {name: _record(group.kernel, state, group.points) for name, group in groups.items()}
    blocks: dict[tuple[str, str], Mapping[str, AnyArray]] = {}
    for i, a in enumerate(groups):
        for b in list(groups)[: i + 1]:
            blocks[a, b] = _block(groups[a].kernel, state, records[a], records[b])
            blocks[b, a] = {key: block.T for key, block in blocks[a, b].items()} if a != b else blocks[a, b]
    keys = next(iter(groups.values())).kernel.keys
    whole = {key: jnp.block([[blocks[a, b][key] for b in groups] for a in groups]) for key in keys}
    return {key: jnp.tril(matrix) + jnp.tril(matrix, -1).T for key, matrix in whole.items()}


@partial(jax.jit, static_argnums=0)
def _record(kernel: FunctionKernel, state: PyTree[Array], points: PyTree[Array]) -> tuple[AnyArray, ...]:
    return kernel.record(state, points)


@partial(jax.jit, static_argnums=0)
def _block(
    kernel: FunctionKernel, state: PyTree[Array], left: tuple[AnyArray, ...], right: tuple[AnyArray, ...]
) -> dict[str, AnyArray]:
    return kernel.block(state, left, right)


def _places(groups: Mapping[str, Group]) -> dict[str, slice]:
    ends = list(accumulate(group.rows for group in groups.values()))
    return {name: slice(end - group.rows, end) for (name, group), end in zip(groups.items(), ends, strict=True)}


def _norm(found: Mapping[str, Array], places: Mapping[str, slice], groups: Mapping[str, Group]) -> float:
    r"""Return $\|J\|_F^2$, the trace."""
    squares = np.sum([np.asarray(matrix.diagonal(), np.float64) for matrix in found.values()], axis=0)
    for name, place in places.items():
        bad = np.flatnonzero(~np.isfinite(squares[place]))
        if len(bad):
            raise InputError(
                f"group '{name}': the gradient at point {bad[0] // groups[name].kernel.rows} is not finite, though the "
                "outputs are: look for a root or a logarithm at zero"
            )
    return float(squares.sum())


def _why_singular(points: Mapping[str, PyTree], groups: Mapping[str, Group], count: int) -> str:
    """Say why the matrix is singular: more rows than parameters, or equal points in a group."""
    many = why_singular(np.zeros((1, 1)), sum(group.rows for group in groups.values()), count, "parameters")
    equal = ((name, why_singular(points[name])) for name in groups)
    return many or next((f"group '{name}': {why}" for name, why in equal if why), "")
