"""The kernel of an infinitely wide network in six digits, quickly: enough to compare preparations by.

Of vectors of norm 1, and of any vectors where the network is homogeneous, the kernel is a function of the angle; it is
read from a table of that function, between whose knots it is linear.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from jaxtyping import Float

from wideproof.estimators.limit_kernel import LimitKernel

KNOTS = 1 << 12
SAME_NORM = 1e-9
Matrix = Float[np.ndarray, "n m"]
Kernel = Callable[..., Matrix]


def rough(kernel: LimitKernel) -> Kernel:
    """Return a quick stand-in for a kernel of vectors, off by less than a millionth of its largest value.

    >>> x = np.random.default_rng(0).normal(size=(20, 3))
    >>> exact, quick = LimitKernel()(x), rough(LimitKernel())(x)
    >>> bool(np.abs(exact - quick).max() < 1e-6 * exact.max())
    True
    """
    if kernel.image_shape is not None:
        return kernel
    homogeneous, values = kernel.homogeneous, _table(kernel)
    slopes = np.append(np.diff(values), 0.0)

    def matrix(x: Float[np.ndarray, "n d"], other: Float[np.ndarray, "m d"] | None = None) -> Matrix:
        right = x if other is None else other
        norms = [np.sqrt(np.einsum("ij,ij->i", side, side)) for side in (x, right)]
        both = np.concatenate(norms)
        if not homogeneous and np.abs(both - 1).max(initial=0.0) > SAME_NORM:
            return kernel(x, other)
        left, right = (side / np.where(n > 0, n, 1)[:, None] for side, n in zip((x, right), norms, strict=True))
        place = np.arccos(np.clip(left @ right.T, -1, 1)) * (KNOTS / np.pi)
        knot = place.astype(np.int64)
        place -= knot
        found = values[knot] + place * slopes[knot]
        return found * np.outer(*norms) if homogeneous else found

    return matrix


@lru_cache(maxsize=64)
def _table(kernel: LimitKernel) -> Float[np.ndarray, "k"]:
    angles = np.linspace(0, np.pi, KNOTS + 1)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    return kernel(circle[:1], circle)[0]
