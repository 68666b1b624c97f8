r"""The part of one weight matrix in the Gram matrix, from the inputs and cotangents of its uses.

A weight used at $P$ places (steps of a sequence, pixels of an image) has inputs $u_{ip}$ and, for each output
$k$, cotangents $b_{ikp}$. Its part of the Gram matrix can be summed in two orders:

$$ \sum_{p, q} \langle u_{ip}, u_{jq} \rangle \langle b_{ikp}, b_{jlq} \rangle
   \;=\; \Big\langle \sum_p b_{ikp} u_{ip}^\top, \sum_q b_{jlq} u_{jq}^\top \Big\rangle . $$

The left one pairs the uses, about $n^2 P^2$ inner products; the right one sums each example's gradient first.
The order with fewer operations is taken, weight by weight. Cotangents that are zero by structure (a step after
the output) are left out of the products.

All of this is written for arrays of JAX and of NumPy alike: `on_cpu` multiplies with the latter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Array, Bool, Float

AnyArray = Array | np.ndarray

# More groups skip more structural zeros but make more and smaller products.
MOST_GROUPS = 8


@dataclass(frozen=True)
class Group:
    """Consecutive outputs, and the places whose use reaches any of them."""

    outputs: tuple[int, int]
    places: tuple[int, ...]


@dataclass(frozen=True)
class Uses:
    """How the uses of one weight are contracted."""

    order: Literal["pairs", "gradients"]
    groups: tuple[Group, ...]
    places: int

    @property
    def outputs(self) -> int:
        """How many outputs the groups have."""
        return self.groups[-1].outputs[1]

    @property
    def plain(self) -> bool:
        """Whether blocks are plain products of matrices, without sums over pairs of places."""
        return self.order == "gradients" or all(group.places == (0,) for group in self.groups)

    def record(self, u: Float[AnyArray, "n *P a"], b: Float[AnyArray, "n *KP b"]) -> tuple[AnyArray, ...]:
        """Return what is kept of the examples: inputs and cotangents, or the gradients.

        Axes of one output or place may be missing, and places may have several.
        """
        if self.order == "pairs":
            return u, b
        u, b = self._laid(u, b)
        gradients = b.mT @ u[:, None]  # the faster of the two layouts on a CPU
        return (gradients.reshape(*gradients.shape[:2], -1),)

    def _laid(self, u: AnyArray, b: AnyArray) -> tuple[Float[AnyArray, "n P a"], Float[AnyArray, "n K P b"]]:
        n = len(u)
        return u.reshape(n, self.places, u.shape[-1]), b.reshape(n, self.outputs, self.places, b.shape[-1])

    def block(self, left: tuple[AnyArray, ...], right: tuple[AnyArray, ...]) -> Float[AnyArray, "nK mK"]:
        """Return this weight's part of the Gram matrix between two records, examples before outputs."""
        if self.order == "gradients":
            return _products(left[0], right[0])
        (u, b), (v, c) = self._laid(*left), self._laid(*right)
        (n, K, P, _), m = b.shape, c.shape[0]
        if P == 1:
            outer, inner = _products(b, c), u[:, 0] @ v[:, 0].T
            if K == 1:
                outer *= inner
                return outer
            outer = outer.reshape(n, K, m * K)
            outer *= inner.repeat(K, axis=1)[:, None]
            return outer.reshape(n * K, m * K)
        # Places outside, examples inside: the sum over places then runs over whole rows.
        u, v = (w.transpose(1, 0, 2).reshape(-1, w.shape[-1]) for w in (u, v))
        inner = (u @ v.T).reshape(P, n, P, m)
        parts = [[_pair(inner, b, c, g, h) for h in self.groups] for g in self.groups]
        concat = u.__array_namespace__().concat
        laid = concat([concat(row, axis=2) for row in parts])
        return laid.transpose(1, 0, 3, 2).reshape(n * K, m * K)

    @property
    def product_rows(self) -> int:
        """The rows that one example has in the largest product."""
        if self.order == "gradients":
            return self.outputs
        return sum((g.outputs[1] - g.outputs[0]) * len(g.places) for g in self.groups)

    def pair_bytes(self, itemsize: int) -> float:
        """Return the bytes of temporaries for one pair of examples."""
        if self.order == "gradients":
            return 3.0 * itemsize * self.outputs**2
        widest = max((g.outputs[1] - g.outputs[0]) * len(g.places) for g in self.groups)
        return itemsize * (self.places**2 + 2.0 * widest**2 + 3 * self.outputs**2)


def _products(left: AnyArray, right: AnyArray) -> Float[AnyArray, "nK mK"]:
    """Return all inner products of the rows `(n, K, ...)`; NumPy computes half of them if both are the same array."""
    g, h = (rows.reshape(rows.shape[0] * rows.shape[1], -1) for rows in (left, right))
    return g @ h.T


def _pair(inner: AnyArray, b: AnyArray, c: AnyArray, g: Group, h: Group) -> Float[AnyArray, "k n l m"]:
    def rows(cotangents: AnyArray, group: Group) -> tuple[AnyArray, int]:
        picked = cotangents[:, slice(*group.outputs)][:, :, np.array(group.places)]
        return picked.transpose(2, 1, 0, 3).reshape(-1, picked.shape[-1]), picked.shape[1]

    (left, k), (right, l) = rows(b, g), rows(c, h)  # noqa: E741
    p, q = len(g.places), len(h.places)
    n, m = b.shape[0], c.shape[0]
    outer = (left @ right.T).reshape(p, k, n, q, l, m)
    weights = inner[np.array(g.places)][:, :, np.array(h.places)]
    return (outer * weights[:, None, :, :, None]).sum(axis=(0, 3))


def plan_uses(examples: int, fan_in: int, fan_out: int, reach: Bool[np.ndarray, "K P"]) -> Uses:
    """Choose the order with fewer operations.

    Parameters
    ----------
    examples
        How many examples each side of the matrix has.
    fan_in, fan_out
        Sizes of an input and of a cotangent.
    reach
        Whether the use at a place can reach an output.
    """
    groups = _groups(reach)
    active = sum((g.outputs[1] - g.outputs[0]) * len(g.places) for g in groups)
    outputs, places = reach.shape
    pairs = examples**2 * (places**2 * fan_in + active**2 * fan_out)
    gradients = examples * outputs * places * fan_in * fan_out + (examples * outputs) ** 2 * fan_in * fan_out
    return Uses("pairs" if pairs <= gradients else "gradients", groups, places)


def _groups(reach: np.ndarray) -> tuple[Group, ...]:
    outputs, places = reach.shape
    if reach.all():
        return (Group((0, outputs), tuple(range(places))),)
    size = -(-outputs // MOST_GROUPS)
    groups = []
    for start in range(0, outputs, size):
        stop = min(start + size, outputs)
        reached = np.flatnonzero(reach[start:stop].any(axis=0))
        groups.append(Group((start, stop), tuple(int(p) for p in reached)))
    return tuple(groups)
