r"""Bounds for batches of examples: of their Jacobians, how these change, and how two batches meet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from wideproof.certificates.anchor import DENSE, Anchor
from wideproof.certificates.attempt import Attempt, Obstacle
from wideproof.certificates.ground import UP, Ground, Near, measure
from wideproof.certificates.lipschitz import batch_constants
from wideproof.certificates.setting import Setting

WITHIN = (1.15, 1.3, 1.7, 2.3, 3.2)  # how far a run may get from its zeros, in starting distances
GRID = math.log(1.02)  # constants are computed at radii on a grid


class Batches:
    """Bounds for the batches, on a ball of any radius: of a partition, or of all that have at most `size` examples."""

    def __init__(self, ground: Ground, parts: list[Int[np.ndarray, "_"]], size: int, fixed: bool) -> None:
        self.ground, self.parts, self.size, self.fixed = ground, parts, size, fixed
        self.blocks = block_norms(ground.anchor, parts)
        self.at = cache(self._at)

    def _at(self, radius: float) -> Constants:
        whole = self.ground.constant(radius)
        own = batch_constants(self.ground.anchor, radius, self.parts)
        each, norms = np.minimum(own, whole), np.sqrt(np.diag(self.blocks))
        across = (
            self.blocks + radius * (np.outer(each, norms) + np.outer(norms, each)) + radius**2 * np.outer(each, each)
        )
        np.fill_diagonal(across, 0.0)
        if self.fixed:
            most, beta = whole, float(np.square(norms + radius * each).max())
        else:
            largest = float(np.sort(self.blocks, axis=1)[:, -self.size :].sum(axis=1).max())
            most = min(float(np.sqrt(np.sort(np.square(own))[-self.size :].sum())), whole) * UP
            beta = (min(math.sqrt(largest), self.ground.anchor.S) + radius * most) ** 2
        return Constants(
            whole, most, float(np.linalg.norm(each)) * UP, beta * UP, float(np.linalg.norm(across)) / math.sqrt(2) * UP
        )


class Constants(NamedTuple):
    r"""On one ball: $\Lambda$, that of one batch, $(\sum \Lambda_j^2)^{1/2}$, $\beta$, $(\frac12 \sum T^2)^{1/2}$."""

    whole: float
    most: float
    all: float
    beta: float
    across: float


def block_norms(anchor: Anchor, parts: Sequence[Int[np.ndarray, "_"]]) -> Float[np.ndarray, "parts parts"]:
    """Return upper bounds of the norms of the blocks of the Gram matrix between every two parts."""
    c, (mid, rad) = anchor.outputs, (anchor.gram.mid, anchor.gram.rad)
    rows = [(c * part[:, None] + np.arange(c)).ravel() for part in parts]
    found = np.zeros((len(parts), len(parts)))
    for i, own in enumerate(rows):
        for j, other in enumerate(rows[: i + 1]):
            at = np.ix_(own, other)
            size = np.linalg.norm(mid[at]) if 1 in (len(own), len(other)) else np.linalg.norm(mid[at], 2)
            found[i, j] = found[j, i] = size + (0.0 if rad is None else np.linalg.norm(rad[at]))
    return found * (1 + 1e-8)


def measure_batches(setting: Setting, batch: int, partition: Sequence[int] | None = None) -> Batches | Attempt[None]:
    """Measure the point and its batches, or say why there is nothing to be proved."""
    ground = measure(setting)
    if isinstance(ground, Attempt):
        return ground
    if ground.groups.repeated:
        again = setting.data.n - ground.groups.n
        reason = f"{again} rows repeat the input of another row, and batches of them are not covered"
        return Attempt(ground.anchor, None, Obstacle("repeats", again, 0, reason, ("merge them",)))
    if ground.anchor.lean:
        rows = ground.anchor.n * ground.anchor.outputs
        reason = f"the Gram matrix of {rows} outputs is not formed, and the batches' norms come from it"
        return Attempt(ground.anchor, None, Obstacle("rows", rows, DENSE, reason, ("use fewer examples",)))
    if partition is None:
        return Batches(ground, [np.array([i]) for i in range(setting.data.n)], batch, False)
    numbers = np.asarray(partition)
    return Batches(ground, [np.flatnonzero(numbers == j) for j in range(int(numbers.max()) + 1)], batch, True)


def grid(radius: float) -> float:
    """Return the next larger radius at which constants are computed."""
    return math.exp(math.ceil(math.log(radius) / GRID + 1e-9) * GRID)


def method(ground: Ground, claims: Near) -> str:
    """Return what is done from which starts, as the beginning of a sentence."""
    return (
        f"stochastic gradient descent on the squared loss of {ground.data.name} ({ground.data.n} examples) with the "
        f"factor {claims['eta']:.4g} for the sum over a batch, from every start within {claims['d']:.4g} of "
        f"{ground.where} of {ground.network},"
    )
