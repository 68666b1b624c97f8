"""The first kernel matrix of its kind in a process, and of each size, against NumPy: one row at three examples."""

from __future__ import annotations

import math
from collections.abc import Mapping

import jax
import numpy as np
from jaxtyping import Array, PyTree

from wideproof import machine
from wideproof.kernels.contraction import AnyArray
from wideproof.kernels.tiles import Examples, Kernel, Record, State, examples


def require_agreement(
    kernel: Kernel[State, Record], state: State, x: Examples, other: Examples | None, found: Mapping[str, AnyArray]
) -> None:
    """Raise `MachineError` if the rows of the last example are not what the kernel's own operations give in NumPy."""
    dtype = jax.tree.leaves(x)[0].dtype
    columns = x if other is None else other
    if not kernel.family or examples(x) == 0 or examples(columns) == 0 or machine.traced(state, x, other):
        return
    if dtype != np.float64 and jax.default_backend() != "cpu":
        return  # a GPU's products in float32 keep as few digits as they were asked to
    size = kernel.rows * max(examples(x), examples(columns))
    key = (kernel.family, kernel.by_numpy, str(dtype), size.bit_length() // 2)
    machine.trusted(key, lambda: _compare(kernel, state, x, columns, found))


def _compare(
    kernel: Kernel[State, Record], state: State, x: Examples, columns: Examples, found: Mapping[str, AnyArray]
) -> None:
    last, m = examples(x) - 1, examples(columns)
    some = np.unique([0, m // 2, m - 1])

    def row(state: State, both: PyTree[Array]) -> Mapping[str, AnyArray]:
        records = kernel.keep(kernel.record(state, both))
        left, right = (jax.tree.map(lambda leaf, cut=cut: leaf[cut], records) for cut in (slice(1), slice(1, None)))
        return kernel.block(state, left, right)

    both = jax.tree.map(lambda a, b: np.concatenate([np.asarray(a)[last:], np.asarray(b)[some]]), x, columns)
    expected = machine.in_numpy(row, state, both)
    leaves = jax.tree.leaves(x)
    operations = 64 * (64 + sum(math.prod(leaf.shape[1:]) for leaf in leaves))
    entries = (some[:, None] * kernel.rows + np.arange(kernel.rows)).ravel()
    functions = tuple(part for part in kernel.family if hasattr(part, "name"))
    for name, matrix in found.items():
        own = np.asarray(matrix[kernel.rows * last : kernel.rows * (last + 1)])[:, entries]
        within = machine.tolerance(leaves[0].dtype, operations) * max(float(np.abs(expected[name]).max()), 1e-30)
        machine.require_agreement(str(kernel.family[0]), own, expected[name], within, functions)
