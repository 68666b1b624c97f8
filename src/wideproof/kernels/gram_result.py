"""A Gram matrix with what is known about it: which weights, which arithmetic, how far off, whether singular."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import jax
import numpy as np
from jaxtyping import Float, PyTree

from wideproof.cards import card, heat
from wideproof.data import equal_rows
from wideproof.errors import InputError
from wideproof.kernels.contraction import AnyArray

_DRAWN = 4_000_000  # entries; a larger matrix may be on a device, and need not come here to be looked at


@dataclass(frozen=True, eq=False)
class Gram:
    r"""The Gram matrix of a network on one data set, or between two.

    `numpy.asarray(gram)` gives the matrix.

    Attributes
    ----------
    matrix
        Rows are ordered by example first, then by output (recurrent networks: by time step, then output).
    names
        The weights that the sum runs over.
    source
        `"finite"` for given parameters, `"limit"` for infinite width.
    precision
        `"float64"`, `"float32"` or `"tf32"` (products of a GPU's tensor cores).
    device
        The device that computed it, such as `"cpu"`.
    error
        A first-order bound on $\|G - \hat G\|_2$ from rounding and quadrature. It assumes that the passes through the
        network are stable, and for a user's function it leaves them out: see `docs/reference/gram.md`.
    blocks
        The part of each weight, $G^{(h)}$, by name; empty unless asked for.
    singular
        Why the exact matrix is singular whatever the rounding; empty if no reason is known.
    groups
        The rows of every group, where the matrix is of functions by group.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from wideproof.kernels import gram
    >>> functions = {"value": lambda w, x: w[0] * x, "slope": lambda w, x: w[0]}
    >>> found = gram(functions, [1.0], {"value": np.array([1.0, 2.0]), "slope": np.zeros(1)}, batched=False)
    >>> found.groups, found.between("value", "slope").ravel().tolist()
    ({'value': slice(0, 2, None), 'slope': slice(2, 3, None)}, [1.0, 2.0])
    >>> found.mean_eigenvalues
    {'value': 2.5, 'slope': 1.0}
    """

    matrix: Float[AnyArray, "N M"]
    names: tuple[str, ...]
    source: str
    precision: str
    device: str
    error: float
    blocks: Mapping[str, AnyArray] = field(default_factory=dict)
    singular: str = ""
    groups: Mapping[str, slice] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix."""
        rows, columns = self.matrix.shape
        return rows, columns

    @property
    def traces(self) -> dict[str, float]:
        """The trace of every group's own block: the sum of its eigenvalues."""
        diagonal = np.asarray(self.matrix.diagonal(), np.float64)
        return {name: float(diagonal[rows].sum()) for name, rows in self.groups.items()}

    @property
    def mean_eigenvalues(self) -> dict[str, float]:
        """The mean eigenvalue of every group's own block: its trace over its rows."""
        return {name: trace / (rows.stop - rows.start) for (name, trace), rows in zip(
            self.traces.items(), self.groups.values(), strict=True)}  # fmt: skip

    def between(self, group: str, other: str) -> Float[AnyArray, "n m"]:
        r"""Return the block of two groups, $J_a J_b^	op$.

        Parameters
        ----------
        group, other
            Names of groups; the same one twice for its own block.

        Returns
        -------
        array
            The rows of the first, the columns of the second.
        """
        for name in (group, other):
            if name not in self.groups:
                raise InputError(f"there is no group '{name}': this matrix has {', '.join(self.groups) or 'none'}")
        return self.matrix[self.groups[group], self.groups[other]]

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> Float[np.ndarray, "N M"]:
        return np.asarray(self.matrix, dtype)

    def __str__(self) -> str:
        rows, columns = self.shape
        size = f"{rows} rows" if rows == columns else f"{rows} by {columns} rows"
        if self.groups:
            size += f" ({', '.join(f'{name} {cut.stop - cut.start}' for name, cut in self.groups.items())})"
        summed = f", sum over {', '.join(self.names)}" if self.names else ""
        known = f"; singular: {self.singular}" if self.singular else ""
        return (
            f"Gram matrix of {size}{summed}: {self.precision} on {self.device}, off by at most {self.error:.2g} in norm"
            f"{known}"
        )

    def _repr_html_(self) -> str:
        facts = {
            "width": {"finite": "finite", "limit": "infinite"}.get(self.source, self.source),
            "weights": ", ".join(self.names) or "all",
            "computed in": f"{self.precision} on {self.device}",
            "error": f"at most {self.error:.2g} in norm",
        }
        if self.singular:
            facts["singular"] = self.singular
        rows, columns = self.shape
        picture = heat(np.asarray(self.matrix), "the matrix; white is 0") if rows * columns <= _DRAWN else ""
        return card(f"Gram matrix, {rows} × {columns}", facts, picture)


def why_singular(x: PyTree, rows: int = 0, numbers: float | int = math.inf, what: str = "weights") -> str:
    """Say why a Gram matrix of `rows` gradients by `numbers` weights on the examples `x` is singular, or nothing.

    `x` is an array, or a pytree of arrays with the examples along the first axis. They are compared as given, before
    any rounding to the precision of the matrix.

    >>> why_singular(np.array([[1.0], [2.0], [1.0]]))
    'examples 0 and 2 are equal, and so are their rows: remove one of them'
    >>> why_singular(np.eye(3), rows=3, numbers=2)
    '3 rows are gradients by 2 weights, so the rank is at most 2'
    """
    if rows > numbers:
        return f"{rows} rows are gradients by {numbers} {what}, so the rank is at most {numbers}"
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(np.asarray(x) if isinstance(x, list) else x)]
    if len(leaves[0]) < 2:
        return ""
    place = np.stack([equal_rows(leaf)[1] for leaf in leaves if leaf[0].size], axis=1)
    first, group = equal_rows(place)
    if len(first) == len(group):
        return ""
    j = int(np.flatnonzero(first[group] != np.arange(len(group)))[0])
    return f"examples {first[group[j]]} and {j} are equal, and so are their rows: remove one of them"
