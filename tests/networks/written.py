"""The maps in front of weights written out as matrices, one loop at a time; nothing here is shared with the package.

A value is `positions x features`, as one vector position by position.
"""

from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np


class Map(NamedTuple):
    """A map on a certain grid."""

    kind: str
    grid: tuple[int, ...]
    size: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    padding: tuple[tuple[int, int], ...] = ()
    dilation: tuple[int, ...] = ()
    features: int = 0
    index: tuple[int, ...] = ()
    scale: tuple[float, ...] = ()


def settled(phi: Any, grid: tuple[int, ...]) -> Map:
    """A map of the package, on the grid of the value that it reads."""
    if phi.kind in ("identity", "flat", "ones"):
        return Map(phi.kind, tuple(grid))
    assert phi.positions == tuple(grid)
    if phi.kind == "select":
        index, scale = tuple(phi.index.tolist()), phi.scale or (1.0,)
        return Map(phi.kind, phi.positions, phi.out, features=phi.features, index=index, scale=scale)
    return Map(phi.kind, phi.positions, phi.size, phi.stride, phi.padding, phi.dilation or (1,) * len(phi.size))


def written(phi: Map, features: int) -> tuple[np.ndarray, int, int]:
    """A matrix of zeros and ones, the number it is divided by, and how many positions come out."""
    positions = prod(phi.grid)
    if phi.kind == "identity":
        return np.eye(positions * features), 1, positions
    if phi.kind == "flat":
        matrix = np.zeros((features * positions, positions * features))
        for p, f in product(range(positions), range(features)):
            matrix[f * positions + p, p * features + f] = 1
        return matrix, 1, 1
    if phi.kind == "select":
        matrix = np.zeros((len(phi.index), positions * features))
        for i, j in enumerate(phi.index):
            if j >= 0:
                matrix[i, j] = phi.scale[i % len(phi.scale)]
        return matrix, 1, prod(phi.size)
    starts = [
        range(-before, p + behind - d * (q - 1), s)
        for p, q, s, (before, behind), d in zip(phi.grid, phi.size, phi.stride, phi.padding, phi.dilation, strict=True)
    ]
    windows, places = list(product(*starts)), list(product(*map(range, phi.size)))
    wide = features * len(places) if phi.kind == "patches" else features
    matrix = np.zeros((len(windows) * wide, positions * features))
    for (w, corner), (o, offset), f in product(enumerate(windows), enumerate(places), range(features)):
        at = [a + d * b for a, b, d in zip(corner, offset, phi.dilation, strict=True)]
        if not all(0 <= a < p for a, p in zip(at, phi.grid, strict=True)):
            continue
        position = at[0] if len(at) == 1 else at[0] * phi.grid[1] + at[1]
        row = w * wide + (f * len(places) + o if phi.kind == "patches" else f)
        matrix[row, position * features + f] += 1
    return matrix, 1 if phi.kind == "patches" else len(places), len(windows)
