r"""Starts at output zero for networks of any depth: units in mirrored pairs, or a read-out of zeros.

The *doubled* start. Let $S$ swap unit $j$ with unit $j + m/2$ in every hidden layer. Weights are drawn so that the
network commutes with $S$, and the read-out changes its sign:

- a weight that reads the input has equal rows for a pair, $S U = U$;
- a weight between hidden layers, or from one time to the next, is $\begin{pmatrix} P & Q \\ Q & P \end{pmatrix}$,
  hence $S W S = W$;
- the read-out has random signs in its first half, times the deviation that the paper gives its entries, and minus these
  signs in its second half, $a S = -a$. The fixed signs of Zou et al. and Frei et al. are so already.

Then every hidden layer has $S x = x$, so $f = a^\top x = -a^\top x = 0$ on every input: exactly as real numbers, up
to rounding in floats, where sums run in an order of their own. Each entry of a hidden weight has the paper's law.
What goes forward sees $P + Q$ alone, $x = (z, z)$; what comes back sees $P^\top - Q^\top$ alone, $b = (d, -d)$. These
two are independent normal matrices of $m/2$ units and twice the variance, so at infinite width the Gram matrix is the
paper's, the parts of all weights included. At finite width it is as noisy as that of half the width.

It is not enough that the units of the last hidden layer come in pairs, if there are layers below it. The output is zero
then too, but it is zero for whatever the last hidden layer reads, so weights below have gradient zero at the start and
their parts of the Gram matrix are missing.

The *zero* start has the paper's hidden weights and a read-out of zeros. Of the Gram matrix only the read-out's part is
there at first, so the read-out has to be trained.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Array

from wideproof.errors import InputError
from wideproof.networks.base import Balanced, Gaussian, Law, Network, Opposed, Paired, Zeros
from wideproof.networks.starts import DOUBLED, NORMAL, ZERO, require_even


@dataclass(frozen=True)
class Mirrored(Gaussian):
    """Two independent matrices of half the columns, P and Q, as [[P, Q], [Q, P]]."""

    def sample(self, key: Array, dtype: np.dtype) -> Any:
        """Draw the upper half, and exchange its parts for the lower."""
        upper = Gaussian((self.shape[0] // 2, *self.shape[1:]), self.variance).sample(key, dtype)
        return np.concatenate([upper, np.roll(upper, self.shape[1] // 2, axis=1)])


@dataclass(frozen=True)
class PairedColumns(Gaussian):
    """Independent columns N(0, `variance`), each of them twice: column j and column j + m/2 are equal."""

    def sample(self, key: Array, dtype: np.dtype) -> Any:
        """Draw the first half, and repeat it."""
        half = Gaussian((*self.shape[:-1], self.shape[-1] // 2), self.variance).sample(key, dtype)
        return np.concatenate([half, half], axis=-1)


@dataclass(frozen=True)
class OpposedRows(Opposed):
    """Random signs, times the root of `variance`; the second half along the last axis but one is minus the first."""

    def sample(self, key: Array, dtype: np.dtype) -> Any:
        """Draw the first half, and turn it round."""
        *outer, rows, columns = self.shape
        flat = Opposed((*outer, columns, rows), self.variance).sample(key, dtype)
        return np.ascontiguousarray(flat.swapaxes(-1, -2))


def begin(network: Network, start: str, widths: Collection[int], trained: Collection[str]) -> None:
    """Refuse, in one sentence, a start that the network does not have."""
    if start not in (NORMAL, DOUBLED, ZERO):
        raise InputError(f"the start of {network.name} must be normal, doubled or zero, got {start!r}")
    if start == DOUBLED:
        for width in widths:
            require_even(width)
    if start == ZERO and "output" not in trained:
        raise InputError(
            f"from the zero start {network.name} moves only if its output weights are trained: add 'output' to what is "
            "trained, or take the doubled start"
        )


def begun(
    laws: Mapping[str, Law], start: str, first: str, *, columns: bool = False, positions: bool = False
) -> dict[str, Law]:
    """Return the laws of a start, from those of the paper's.

    Parameters
    ----------
    laws
        In any order, the read-out last.
    first
        The weight that reads the input.
    columns
        Whether units are columns of the weights.
    positions
        Whether the read-out has a number for each unit at each position.

    Examples
    --------
    >>> laws = {"W1": Gaussian((4, 3), 1.0), "W2": Gaussian((4, 4), 1.0), "a": Gaussian((4,), 1.0)}
    >>> [type(law).__name__ for law in begun(laws, "doubled", "W1").values()]
    ['Paired', 'Mirrored', 'Opposed']
    >>> begun(laws, "zero", "W1")["a"]
    Zeros(shape=(4,))
    """
    *hidden, read_out = laws
    if start == ZERO:
        return {**laws, read_out: Zeros(laws[read_out].shape)}
    if start != DOUBLED:
        return dict(laws)
    drawn: dict[str, Law] = {}
    for name in hidden:
        law = laws[name]
        assert isinstance(law, Gaussian)
        kind = Mirrored if name != first else PairedColumns if columns else Paired
        drawn[name] = kind(law.shape, law.variance)
    read = laws[read_out]
    if isinstance(read, Balanced):  # the first half +1, the second -1: opposed as it is
        return drawn | {read_out: read}
    assert isinstance(read, Gaussian)
    return drawn | {read_out: (OpposedRows if positions else Opposed)(read.shape, read.variance)}
