"""A Gram matrix with what is known about it: which weights, which arithmetic, how far its entries can be off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True, eq=False)
class Gram:
    r"""The Gram matrix of a network on one data set, or between two.

    Attributes
    ----------
    matrix : rows are ordered by example first, then by output (recurrent: by step, then output).
    blocks : the part of every weight, $G^{(h)}$, by name; empty unless asked for.
    names : the weights that were summed.
    source : `"finite"` for given parameters, `"limit"` for infinite width.
    precision : `"float64"`, `"float32"` or `"tf32"` (products of a GPU's tensor cores).
    device : where it was computed, such as `"cpu"`.
    error : a first-order bound on $\|G - \hat G\|_2$ from rounding and quadrature; it takes the passes through the
        network for stable, see `docs/gram.md`.

    `numpy.asarray(gram)` is the matrix.
    """

    matrix: Any
    names: tuple[str, ...]
    source: str
    precision: str
    device: str
    error: float
    blocks: Mapping[str, Any] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix."""
        return self.matrix.shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Float[np.ndarray, "N M"]:
        return np.asarray(self.matrix, dtype)
