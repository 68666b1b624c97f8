"""Points in the plane and on the line, to be dragged about: small sets in which everything can be seen."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.datasets import make_circles, make_moons

from wideproof.errors import InputError

Points = np.ndarray
"""Rows `(x, y, label)` with coordinates in [-1, 1] and labels -1 or 1; on the line y is the target and no label."""


def plane(name: str, n: int = 40, noise: float = 0.1, seed: int = 0) -> Points:
    """Return `n` points of a set in the plane, or on the line.

    >>> plane("circles", n=6, noise=0.0).shape
    (6, 3)
    >>> bool((abs(plane("spirals", n=50)[:, :2]) <= 1).all())
    True
    """
    if name not in PLANES:
        raise InputError(f"there is no set of points {name!r}: choose one of {', '.join(PLANES)}")
    if n < 2 or not 0 <= noise <= 1:
        raise InputError(f"a set of points has at least 2 of them and noise from 0 to 1, got {n} and {noise}")
    found = PLANES[name](n, noise, np.random.default_rng(seed))
    return np.clip(found, -1.0, 1.0)


def is_line(name: str) -> bool:
    """Return whether the set is one of numbers with targets, and not of points with labels."""
    return name in LINES


def _labelled(x: np.ndarray, positive: np.ndarray) -> Points:
    return np.column_stack([x, np.where(positive, 1.0, -1.0)])


def _circles(n: int, noise: float, rng: np.random.Generator) -> Points:
    x, label = map(np.asarray, make_circles(n, noise=noise * 0.6, factor=0.45, random_state=int(rng.integers(2**31))))
    return _labelled(x * 0.8, label > 0)


def _moons(n: int, noise: float, rng: np.random.Generator) -> Points:
    x, label = map(np.asarray, make_moons(n, noise=noise, random_state=int(rng.integers(2**31))))
    return _labelled((x - [0.5, 0.25]) * [0.6, 0.8], label > 0)


def _blobs(n: int, noise: float, rng: np.random.Generator) -> Points:
    positive = np.arange(n) % 2 == 0
    return _labelled(np.where(positive, 0.4, -0.4)[:, None] + (0.05 + noise) * rng.standard_normal((n, 2)), positive)


def _squares(n: int, noise: float, rng: np.random.Generator) -> Points:
    x = rng.uniform(-0.9, 0.9, (n, 2))
    positive = x[:, 0] * x[:, 1] > 0
    return _labelled(x + 0.3 * noise * rng.standard_normal((n, 2)), positive)


def _spirals(n: int, noise: float, rng: np.random.Generator) -> Points:
    positive = np.arange(n) % 2 == 0
    t = np.linspace(0.12, 1.0, n)
    angle = 3.2 * np.pi * np.sqrt(t) + np.where(positive, 0.0, np.pi)
    x = (0.9 * t)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return _labelled(x + 0.15 * noise * rng.standard_normal((n, 2)), positive)


def _line(target: Callable[[np.ndarray], np.ndarray]) -> Callable[[int, float, np.random.Generator], Points]:
    def made(n: int, noise: float, rng: np.random.Generator) -> Points:
        x = np.linspace(-0.9, 0.9, n) + rng.uniform(-0.3, 0.3, n) * 1.8 / n
        y = target(x) + 0.5 * noise * rng.standard_normal(n)
        return np.column_stack([x, y, np.zeros(n)])

    return made


LINES = {
    "wave": _line(lambda x: 0.7 * np.sin(3 * np.pi * x)),
    "steps": _line(lambda x: np.where(np.floor(2.5 * x) % 2 == 0, 0.6, -0.6)),
}
PLANES = {
    "circles": _circles, "moons": _moons, "blobs": _blobs, "squares": _squares, "spirals": _spirals, **LINES,
}  # fmt: skip
