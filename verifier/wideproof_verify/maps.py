"""What a term of a node reads: a value itself, all positions as one vector, windows, their averages, or the constant 1.

A value is an array (features, examples, positions); its positions lie on a grid. Each map knows its fields in the file,
what comes out, itself and its adjoint on arrays, and bounds of its norm.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, ClassVar

import numpy as np
from flint import arb  # pyright: ignore[reportAttributeAccessIssue]

from wideproof_verify.arithmetic import Arithmetic, Array, balls, larger
from wideproof_verify.refusals import is_size, require

MOST_READS = 2**24  # places of all windows together


@dataclass(frozen=True)
class Map:
    """The value itself; `grid` and `features` are of what comes out."""

    grid: tuple[int, ...]
    features: int
    fields: ClassVar[tuple[str, ...]] = ()
    text: ClassVar[str] = "{}"

    @classmethod
    def read(cls, stated: dict[str, Any], grid: tuple[int, ...], features: int) -> "Map":
        """Return the map that the file states, of a value with this grid and so many features."""
        return cls(grid, features)

    @property
    def places(self) -> int:
        """How many positions come out."""
        return math.prod(self.grid)

    @property
    def kappa(self) -> arb:
        """A bound of the norm of the map."""
        return arb(1)

    def gather(self, x: Array, ops: Arithmetic) -> Array:
        """Return φ(x)."""
        return x

    def scatter(self, y: Array, positions: int, ops: Arithmetic) -> Array:
        """Apply the adjoint to (features, outputs, examples, positions), for a value with so many positions."""
        return y

    def norm(self, weight: np.ndarray | None, ops: Arithmetic) -> arb:
        """Bound ‖x ↦ Mφ(x)‖ by ‖M‖ κ; no weight is the identity."""
        return self.kappa if weight is None else self.kappa * ops.spectral_norm(weight)

    def __str__(self) -> str:
        return self.text


class Flat(Map):
    """All positions as one vector, feature by feature."""

    text = "flat({})"

    @classmethod
    def read(cls, stated: dict[str, Any], grid: tuple[int, ...], features: int) -> "Map":
        return cls((), features * math.prod(grid))

    def gather(self, x: Array, ops: Arithmetic) -> Array:
        return x.transpose(0, 2, 1).reshape(-1, x.shape[1], 1)

    def scatter(self, y: Array, positions: int, ops: Arithmetic) -> Array:
        return y.reshape(-1, positions, *y.shape[1:3]).transpose(0, 2, 3, 1)


class Ones(Map):
    """The constant 1 at every position, which a bias multiplies."""

    text = "1"

    @classmethod
    def read(cls, stated: dict[str, Any], grid: tuple[int, ...], features: int) -> "Map":
        return cls(grid, 1)

    @property
    def kappa(self) -> arb:
        return arb(0)

    def gather(self, x: Array, ops: Arithmetic) -> Array:
        return ops.lift(np.ones((1, x.shape[1], self.places)))


@dataclass(frozen=True)
class Patches(Map):
    """Windows of `size` on `positions`, `stride` apart, with `padding` zeros around; rows are features, then places."""

    positions: tuple[int, ...]
    size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    fields: ClassVar[tuple[str, ...]] = ("positions", "size", "stride", "padding")
    each: ClassVar[bool] = True  # every place of a window comes out

    @classmethod
    def read(cls, stated: dict[str, Any], grid: tuple[int, ...], features: int) -> "Map":
        lists, pads = [stated[name] for name in ("positions", "size", "stride")], stated["padding"]
        right = len(grid) > 0 and all(_whole(w, len(grid), 1) for w in lists)
        right = right and isinstance(pads, list) and len(pads) == len(grid) and all(_whole(p, 2, 0) for p in pads)
        require(right and tuple(lists[0]) == grid, f"the windows {stated!r} do not fit the grid {grid}")
        positions, size, stride = map(tuple, lists)
        require(all(max(pad) < q for pad, q in zip(pads, size, strict=True)), "there are windows of zeros alone")
        sides = zip(positions, size, stride, pads, strict=True)
        out = tuple((p + sum(pad) - q) // s + 1 for p, q, s, pad in sides)
        fits = min(out) > 0 and math.prod(out) * math.prod(size) < MOST_READS
        require(fits, f"windows of {size} on {grid} are not there, or too many")
        count = math.prod(size) if cls.each else 1
        return cls(out, features * count, positions, size, stride, tuple((a, b) for a, b in pads))

    @property
    def count(self) -> int:
        """How many positions a window has."""
        return math.prod(self.size)

    @property
    def kappa(self) -> arb:
        """A position is in at most so many windows."""
        return arb(math.prod(-(-q // s) for q, s in zip(self.size, self.stride, strict=True))).sqrt()

    @cached_property
    def table(self) -> np.ndarray:
        """The position that each place of each window reads; one beyond the last where that is outside."""
        sides = zip(self.grid, self.size, self.stride, self.padding, strict=True)
        axes = [s * np.arange(g)[:, None] + np.arange(q) - pad[0] for g, q, s, pad in sides]
        found, inside = np.zeros((1, 1), np.int64), np.ones((1, 1), bool)
        for at, side in zip(axes, self.positions, strict=True):
            shape = (len(found) * len(at), -1)
            found = (found[:, None, :, None] * side + at[None, :, None, :]).reshape(shape)
            inside = (inside[:, None, :, None] & ((at >= 0) & (at < side))[None, :, None, :]).reshape(shape)
        return np.where(inside, found, math.prod(self.positions))

    @cached_property
    def readers(self) -> np.ndarray:
        """For each position the windows' places that read it, as numbers into the flat table, filled up beyond it."""
        flat, count = self.table.ravel(), math.prod(self.positions)
        order = np.argsort(flat, kind="stable")[: int((flat < count).sum())]
        own = flat[order]
        rank = np.arange(len(own)) - np.searchsorted(own, own)
        found = np.full((count, int(rank.max(initial=0)) + 1), flat.size)
        found[own, rank] = order
        return found

    def gather(self, x: Array, ops: Arithmetic) -> Array:
        beyond = np.concatenate([x, ops.zeros((*x.shape[:2], 1))], axis=2)
        return self._merge(beyond[:, :, self.table], ops)

    def _merge(self, seen: Array, ops: Arithmetic) -> Array:
        return seen.transpose(0, 3, 1, 2).reshape(-1, seen.shape[1], self.places)

    def scatter(self, y: Array, positions: int, ops: Arithmetic) -> Array:
        spread = self._spread(y, ops)
        beyond = np.concatenate([spread, ops.zeros((*spread.shape[:3], 1))], axis=3)
        return beyond[..., self.readers].sum(axis=4)

    def _spread(self, y: Array, ops: Arithmetic) -> Array:
        windows = y.reshape(-1, self.count, *y.shape[1:]).transpose(0, 2, 3, 4, 1)
        return windows.reshape(*windows.shape[:3], -1)

    def norm(self, weight: np.ndarray | None, ops: Arithmetic) -> arb:
        """Bound the norm of a convolution.

        It is a corner of the convolution on a torus whose sides P are long enough that no window reaches round it, with
        the blocks Σ_o M_o e^{2πi(k·o/P)}.
        """
        if self.count == 1 or weight is None:
            return super().norm(weight, ops)
        sides = zip(self.positions, self.size, self.padding, strict=True)
        torus, found = [p + max(*pad, sum(pad) - q + 1) for p, q, pad in sides], []
        pieces, places = balls(weight.reshape(len(weight), -1, self.count)), list(product(*map(range, self.size)))
        for k in product(range(torus[0] // 2 + 1), *map(range, torus[1:])):
            turns = [sum((arb(2 * f * i) / p for f, i, p in zip(k, o, torus, strict=True)), arb(0)) for o in places]
            waves = np.array([turn.sin_cos_pi() for turn in turns], dtype=object)
            s, c = np.moveaxis(np.asarray(pieces) @ waves, 2, 0)
            found.append(ops.spectral_norm(np.block([[c, -s], [s, c]])))  # the norm of c + is; −k is k's conjugate
        return larger.reduce(found)

    def __str__(self) -> str:
        sizes, strides = ("x".join(map(str, w)) for w in (self.size, self.stride))
        pads = "x".join(str(a) if a == b else f"{a}+{b}" for a, b in self.padding)
        return f"{'windows' if self.each else 'means'}({{}}; size {sizes}, stride {strides}, padding {pads})"


class Average(Patches):
    """The averages of windows, the zeros around counted in."""

    each = False

    @property
    def kappa(self) -> arb:
        """Averages divide by the size of a window."""
        return super().kappa / arb(self.count).sqrt()

    def _merge(self, seen: Array, ops: Arithmetic) -> Array:
        return (arb(1) / self.count) * seen.sum(axis=3)

    def _spread(self, y: Array, ops: Arithmetic) -> Array:
        return (arb(1) / self.count) * y[..., np.arange(y.shape[3]).repeat(self.count)]

    def norm(self, weight: np.ndarray | None, ops: Arithmetic) -> arb:
        """Bound ‖x ↦ Mφ(x)‖ by ‖M‖ κ."""
        return Map.norm(self, weight, ops)


def _whole(values: Any, count: int, least: int) -> bool:
    return isinstance(values, list) and len(values) == count and all(is_size(i, least) for i in values)


MAPS: dict[str, type[Map]] = {"identity": Map, "flat": Flat, "ones": Ones, "patches": Patches, "average": Average}
