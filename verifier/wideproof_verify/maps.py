"""What a term of a node reads: a value itself, all positions as one vector, windows, their averages, entries in another
order, or the constant 1.

A value is an array (features, examples, positions); its positions lie on a grid. Each map knows its fields in the file,
what comes out, itself and its adjoint on arrays, and bounds of its norm.
"""

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, ClassVar

import numpy as np
from flint import arb  # pyright: ignore[reportAttributeAccessIssue]

from wideproof_verify.arithmetic import Arithmetic, Array, balls, larger
from wideproof_verify.refusals import is_number, is_size, require

MOST_READS = 2**24  # places of all windows together


@dataclass(frozen=True)
class Map:
    """The value itself; `grid` and `features` are of what comes out."""

    grid: tuple[int, ...]
    features: int
    fields: ClassVar[tuple[str, ...]] = ()
    optional: ClassVar[tuple[str, ...]] = ()
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

    def once(self, weighted: bool) -> arb:
        """Bound how far one unit at one position moves with the value, before the row of a weight.

        One position reads no entry twice.
        """
        return self.kappa.min(arb(1))

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
    """Windows of `size` on `positions`, `stride` apart, with `padding` zeros around; rows are features, then places.

    The places of a window are `dilation` apart, 1 if nothing is said.
    """

    positions: tuple[int, ...]
    size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    fields: ClassVar[tuple[str, ...]] = ("positions", "size", "stride", "padding")
    optional: ClassVar[tuple[str, ...]] = ("dilation",)
    each: ClassVar[bool] = True  # every place of a window comes out

    @classmethod
    def read(cls, stated: dict[str, Any], grid: tuple[int, ...], features: int) -> "Map":
        lists, pads = [stated[name] for name in ("positions", "size", "stride")], stated["padding"]
        lists.append(stated.get("dilation", [1] * len(grid)))
        right = len(grid) > 0 and all(_whole(w, len(grid), 1) for w in lists)
        right = right and isinstance(pads, list) and len(pads) == len(grid) and all(_whole(p, 2, 0) for p in pads)
        require(right and tuple(lists[0]) == grid, f"the windows {stated!r} do not fit the grid {grid}")
        positions, size, stride, dilation = map(tuple, lists)
        reach = tuple(d * (q - 1) + 1 for q, d in zip(size, dilation, strict=True))
        require(all(max(pad) < q for pad, q in zip(pads, reach, strict=True)), "there are windows of zeros alone")
        sides = zip(positions, reach, stride, pads, strict=True)
        out = tuple((p + sum(pad) - q) // s + 1 for p, q, s, pad in sides)
        fits = min(out) > 0 and math.prod(out) * math.prod(size) < MOST_READS
        require(fits, f"windows of {size} on {grid} are not there, or too many")
        count = math.prod(size) if cls.each else 1
        return cls(out, features * count, positions, size, stride, tuple((a, b) for a, b in pads), dilation)

    @property
    def count(self) -> int:
        """How many positions a window has."""
        return math.prod(self.size)

    @property
    def kappa(self) -> arb:
        """A position is in at most so many windows: it is place l of window w where s w + d l is its own number."""
        sides = zip(self.size, self.stride, self.dilation, strict=True)
        return arb(math.prod(-(-q * math.gcd(s, d) // s) for q, s, d in sides)).sqrt()

    @cached_property
    def table(self) -> np.ndarray:
        """The position that each place of each window reads; one beyond the last where that is outside."""
        sides = zip(self.grid, self.size, self.stride, self.padding, self.dilation, strict=True)
        axes = [s * np.arange(g)[:, None] + d * np.arange(q) - pad[0] for g, q, s, pad, d in sides]
        found, inside = np.zeros((1, 1), np.int64), np.ones((1, 1), bool)
        for at, side in zip(axes, self.positions, strict=True):
            shape = (len(found) * len(at), -1)
            found = (found[:, None, :, None] * side + at[None, :, None, :]).reshape(shape)
            inside = (inside[:, None, :, None] & ((at >= 0) & (at < side))[None, :, None, :]).reshape(shape)
        return np.where(inside, found, math.prod(self.positions))

    @cached_property
    def readers(self) -> np.ndarray:
        """For each position the windows' places that read it, as numbers into the flat table, filled up beyond it."""
        return _readers(self.table.ravel(), math.prod(self.positions))

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
        sides = zip(self.positions, self.size, self.dilation, self.padding, strict=True)
        torus, found = [p + max(*pad, sum(pad) - d * (q - 1)) for p, q, d, pad in sides], []
        steps = [range(0, d * q, d) for q, d in zip(self.size, self.dilation, strict=True)]
        pieces, places = balls(weight.reshape(len(weight), -1, self.count)), list(product(*steps))
        for k in product(range(torus[0] // 2 + 1), *map(range, torus[1:])):
            turns = [sum((arb(2 * f * i) / p for f, i, p in zip(k, o, torus, strict=True)), arb(0)) for o in places]
            waves = np.array([turn.sin_cos_pi() for turn in turns], dtype=object)
            s, c = np.moveaxis(np.asarray(pieces) @ waves, 2, 0)
            found.append(ops.spectral_norm(np.block([[c, -s], [s, c]])))  # the norm of c + is; −k is k's conjugate
        return larger.reduce(found)

    def __str__(self) -> str:
        sizes, strides = ("x".join(map(str, w)) for w in (self.size, self.stride))
        pads = "x".join(str(a) if a == b else f"{a}+{b}" for a, b in self.padding)
        apart = "" if max(self.dilation) == 1 else f", dilation {'x'.join(map(str, self.dilation))}"
        return f"{'windows' if self.each else 'means'}({{}}; size {sizes}, stride {strides}, padding {pads}{apart})"


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


@dataclass(frozen=True, eq=False)
class Select(Map):
    """Some entries of a value in a new order, each times a number: entry i is c_i x[index_i], or 0 where that is −1.

    Entries are counted position by position, in what is read and in what comes out.
    """

    index: np.ndarray
    scale: np.ndarray | None
    entries: int
    runs: tuple[tuple[int, int, int], ...]
    fields: ClassVar[tuple[str, ...]] = ("positions", "inputs", "out", "features", "index", "scale")

    @classmethod
    def read(cls, stated: dict[str, Any], grid: tuple[int, ...], features: int) -> "Map":
        right = stated["positions"] == list(grid) and stated["inputs"] == features
        require(right, f"a selection does not fit the grid {grid} with {features} features")
        out, count, parts, scale = (stated[name] for name in ("out", "features", "index", "scale"))
        right = isinstance(out, list) and all(map(is_size, out)) and is_size(count) and isinstance(parts, list)
        require(right and math.prod(out) * count < MOST_READS, "a selection has a wrong size, or is too large")
        size, entries = math.prod(out) * count, math.prod(grid) * features
        for part in parts:
            right = isinstance(part, list) and len(part) == 3 and all(type(k) is int for k in part) and part[2] > 0
            require(right and part[2] <= size, "the index of a selection is not made of start, step and length")
            ends, still = (part[0], part[0] + part[1] * (part[2] - 1)), part[1] == 0
            inside = min(ends) >= 0 and max(ends) < entries and (still or part[2] > 1)
            require(inside or (part[0] == -1 and still), "a selection reads entries that are not there")
        require(sum(part[2] for part in parts) == size, f"a selection has not {size} entries")
        index = np.concatenate([start + step * np.arange(length) for start, step, length in parts])
        right = scale is None or (isinstance(scale, list) and scale and not size % len(scale))
        right = right and all(is_number(c) and float(c) == c for c in scale or ())
        require(right, "a selection multiplies by something else than numbers")
        times = None if scale is None else np.resize(np.array(scale, np.float64), size)
        most = int(np.bincount(index[index >= 0], minlength=1).max())  # before the table of readers is made
        require(entries * max(1, most) < MOST_READS, "one entry is read too often")
        return cls(tuple(out), count, index, times, entries, tuple(map(tuple, parts)))

    @cached_property
    def digest(self) -> str:
        """Names everything: how many numbers follow is told before them, so no two selections have one text."""
        times = b"" if self.scale is None else self.scale.tobytes()
        sizes = [len(self.grid), *self.grid, self.features, self.entries, self.scale is not None]
        return hashlib.sha256(np.array(sizes, np.int64).tobytes() + self.index.tobytes() + times).hexdigest()

    @cached_property
    def kappa(self) -> arb:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The columns of the matrix are orthogonal: its norm is the length of the longest."""
        squares = [arb(0)] * self.entries
        if self.scale is None:
            read = self.index[self.index >= 0]
            return arb(int(np.bincount(read, minlength=1).max())).sqrt()
        for at, c in zip(self.index.tolist(), self.scale.tolist(), strict=True):
            if at >= 0:
                squares[at] += arb(c) * arb(c)
        return larger.reduce(np.array(squares, dtype=object)).sqrt()

    def once(self, weighted: bool) -> arb:
        """Without a weight a unit reads one entry, times c."""
        if weighted:
            return self.kappa
        if self.scale is None:
            return self.kappa.min(arb(1))
        return arb(float(np.abs(self.scale[self.index >= 0]).max(initial=0.0)))

    @cached_property
    def readers(self) -> np.ndarray:
        """For each entry read the places that read it; the number of places where there is none."""
        return _readers(np.where(self.index < 0, self.entries, self.index), self.entries)

    def _times(self, flat: Array, ops: Arithmetic) -> Array:
        if self.scale is None:
            return flat
        return flat * ops.lift(self.scale.reshape(-1, *(1,) * (flat.ndim - 1)))

    def gather(self, x: Array, ops: Arithmetic) -> Array:
        flat = x.transpose(2, 0, 1).reshape(self.entries, -1)
        beyond = np.concatenate([flat, ops.zeros((1, flat.shape[1]))], axis=0)
        found = self._times(beyond[np.where(self.index < 0, self.entries, self.index)], ops)
        return found.reshape(self.places, self.features, -1).transpose(1, 2, 0)

    def scatter(self, y: Array, positions: int, ops: Arithmetic) -> Array:
        flat = self._times(y.transpose(3, 0, 1, 2).reshape(len(self.index), *y.shape[1:3]), ops)
        beyond = np.concatenate([flat, ops.zeros((1, *flat.shape[1:]))], axis=0)
        found = beyond[self.readers].sum(axis=1)
        return found.reshape(positions, -1, *y.shape[1:3]).transpose(1, 2, 3, 0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Select) and (self.digest, self.entries) == (other.digest, other.entries)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __str__(self) -> str:
        size = "x".join(map(str, (*self.grid, self.features)))
        short = len(self.runs) <= 3 and (self.scale is None or len(set(self.scale)) == 1)
        parts = [
            f"{length} zeros" if start < 0 else f"{length} from {start} by {step}" for start, step, length in self.runs
        ]
        named = ", ".join(parts) if short else f"order {self.digest[:16]}"
        times = "" if self.scale is None or not short else f", times {float(self.scale[0])!r}"
        return f"entries({{}}; {size} of {self.entries}: {named}{times})"


def _readers(flat: np.ndarray, count: int) -> np.ndarray:
    """Return for each of `count` entries the places of `flat` that read it, filled up with one beyond the last."""
    order = np.argsort(flat, kind="stable")[: int((flat < count).sum())]
    own = flat[order]
    rank = np.arange(len(own)) - np.searchsorted(own, own)
    found = np.full((count, int(rank.max(initial=0)) + 1), flat.size)
    found[own, rank] = order
    return found


def _whole(values: Any, count: int, least: int) -> bool:
    return isinstance(values, list) and len(values) == count and all(is_size(i, least) for i in values)


MAPS: dict[str, type[Map]] = {
    "identity": Map, "flat": Flat, "ones": Ones, "patches": Patches, "average": Average, "select": Select,
}  # fmt: skip
