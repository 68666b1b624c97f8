r"""Rows with equal inputs as one example: its target is their mean, and it counts as often as they are.

½ Σ_i |f(x_i) − y_i|² = ½ Σ_g r_g |f(x_g) − ȳ_g|² + L*,   L* = ½ Σ_g Σ_{i ∈ g} |y_i − ȳ_g|²

for every function f: L* is the least loss of any function of these inputs, and gradient descent on all rows is gradient
descent on the first term.
"""

from dataclasses import dataclass

import numpy as np

from wideproof_verify.arithmetic import Balls, arb, balls


@dataclass(frozen=True)
class Rows:
    """`first` row and `counts` of every group, `means` of the targets (outputs, groups), the `least` loss L*.

    `clash`: whether equal inputs have different targets, which alone makes L* positive.
    """

    first: np.ndarray
    counts: np.ndarray
    means: Balls
    least: arb
    clash: bool

    @property
    def repeated(self) -> bool:
        """Whether any input is there twice."""
        return bool((self.counts > 1).any())


def grouped(x: np.ndarray, targets: np.ndarray) -> Rows:
    """Group rows whose inputs are equal numbers; `targets` is (outputs, rows)."""
    flat = np.ascontiguousarray(x.reshape(len(x), -1)) + 0.0  # -0.0 becomes 0.0
    whole = flat.view([("", np.void, flat.itemsize * flat.shape[1])])[:, 0]
    _, first, inverse, counts = np.unique(whole, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first)
    place = np.argsort(order)[inverse.ravel()]
    first, counts = first[order], counts[order]
    if not (flat == flat[first][place]).all():
        raise ValueError("rows of a group are not equal")
    means, least, clash = balls(targets[:, first]), arb(0), False
    for g in np.flatnonzero(counts > 1):
        own = targets[:, place == g]
        if (own == own[:, :1]).all():
            continue
        y, clash = balls(own), True
        mean = y.sum(axis=1) / int(counts[g])
        means[:, g], apart = mean, y - mean[:, None]
        least += (apart * apart).sum() / 2
    return Rows(first, counts, means, least, clash)
