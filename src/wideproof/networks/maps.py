r"""What happens to a value before a weight meets it: linear maps $\varphi$ that only move, repeat or average entries.

Values are laid out `... x positions x features`; a grid of two dimensions counts as one axis of positions, row by row.
Each map knows $\kappa \ge \|\varphi\|$ in Frobenius norms. What cannot be bounded is not here.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import product
from typing import Any, ClassVar

import numpy as np

from wideproof.errors import InputError

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Identity:
    """The value itself."""

    kind: ClassVar[str] = "identity"
    factor: ClassVar[float] = 1.0

    def once(self, weighted: bool) -> float:
        r"""Bound how far one unit at one position moves with the value, before the row of a weight.

        One position reads no entry of the value twice.
        """
        return min(1.0, self.factor)

    def grid(self, given: Sizes) -> Sizes:
        """Return the grid of positions that comes out."""
        return given

    def gather(self, x: Any) -> Any:
        """Apply the map to an array of JAX or NumPy."""
        return x


@dataclass(frozen=True)
class Flat(Identity):
    """All positions of a value as one vector, feature by feature (what PyTorch's `flatten` does to an image)."""

    kind: ClassVar[str] = "flat"

    def grid(self, given: Sizes) -> Sizes:
        """Return the grid of positions that comes out."""
        return ()

    def gather(self, x: Any) -> Any:
        """Apply the map to an array `n x positions x features`; without positions it is a vector already."""
        return x if x.ndim < 3 else x.swapaxes(-1, -2).reshape(*x.shape[:-2], x.shape[-1] * x.shape[-2])


@dataclass(frozen=True)
class Ones(Identity):
    """The constant 1 at every position, whatever the value: what a bias multiplies."""

    kind: ClassVar[str] = "ones"
    factor: ClassVar[float] = 0.0


@dataclass(frozen=True)
class Patches(Identity):
    r"""The window around each position, feature by feature: $\phi$ of Du et al. (2019), Section 7, in any dimension.

    Attributes
    ----------
    size, stride, padding, dilation
        For each dimension; `padding` is how many zeros stand before and after, `dilation` how far apart the places of a
        window are (empty for 1).

    >>> import numpy as np
    >>> Patches((3,), (3,), (1,), ((1, 1),)).gather(np.arange(1.0, 4.0).reshape(1, 3, 1))[0].tolist()
    [[0.0, 1.0, 2.0], [1.0, 2.0, 3.0], [2.0, 3.0, 0.0]]
    """

    kind: ClassVar[str] = "patches"

    positions: Sizes
    size: Sizes
    stride: Sizes
    padding: tuple[tuple[int, int], ...]
    dilation: Sizes = ()

    def __post_init__(self) -> None:
        if self.dilation and max(self.dilation) == 1:
            object.__setattr__(self, "dilation", ())
        if not len(self.apart) == len(self.size) or min(self.apart, default=1) < 1:
            raise InputError(f"{self.kind} have the dilation {self.dilation} for the size {self.size}")
        if not len(self.positions) == len(self.size) == len(self.stride) == len(self.padding) in (1, 2):
            raise InputError(f"{self.kind} need a grid, a size, a stride and a padding, all in one or two dimensions")
        pads = zip(self.padding, self.reach, strict=True)
        if (
            min(*self.size, *self.stride) < 1
            or min(self.out) < 1
            or not all(0 <= min(p) <= max(p) < q for p, q in pads)
        ):
            raise InputError(f"{self.kind} of size {self.size} do not fit a grid of {self.positions}")

    @property
    def out(self) -> Sizes:
        """The grid of positions that comes out."""
        sides = zip(self.positions, self.reach, self.stride, self.padding, strict=True)
        return tuple((p + sum(pad) - q) // s + 1 for p, q, s, pad in sides)

    @property
    def apart(self) -> Sizes:
        """How far apart the places of a window are, in each dimension."""
        return self.dilation or (1,) * len(self.size)

    @property
    def reach(self) -> Sizes:
        """From the first place of a window to its last, both counted."""
        return tuple(d * (q - 1) + 1 for q, d in zip(self.size, self.apart, strict=True))

    @property
    def count(self) -> int:
        """How many positions a window has."""
        return math.prod(self.size)

    @property
    def overlap(self) -> int:
        """How many windows a position can be in, at most: it is place l of a window if s w + d l is its own number."""
        sides = zip(self.size, self.stride, self.apart, strict=True)
        return math.prod(-(-q * math.gcd(s, d) // s) for q, s, d in sides)

    @property
    def factor(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        r"""$\kappa$: the square root of the overlap, rounded up."""
        return math.sqrt(self.overlap) * (1 + 1e-15) if self.overlap > 1 else 1.0

    def grid(self, given: Sizes) -> Sizes:
        """Return the grid of positions that comes out."""
        if given != self.positions:
            raise InputError(f"{self.kind} of a grid of {self.positions} meet a value on a grid of {given}")
        return self.out

    def shifts(self, x: Any) -> list[Any]:
        """Return, for each place in the window, what stands there: `... x positions x features`."""
        xp, lead, features = x.__array_namespace__(), x.shape[:-2], x.shape[-1]
        laid = x.reshape(*lead, *self.positions, features)
        padded = xp.pad(laid, [(0, 0)] * len(lead) + list(self.padding) + [(0, 0)])
        return [padded[..., *self._cut(o), :].reshape(*lead, -1, features) for o in product(*map(range, self.size))]

    def unshift(self, y: Any, at: int) -> Any:
        """Return where a value that place `at` of the window saw comes from: the adjoint of one of the `shifts`."""
        xp, lead, features = y.__array_namespace__(), y.shape[:-2], y.shape[-1]
        padded = [p + sum(pad) for p, pad in zip(self.positions, self.padding, strict=True)]
        out = xp.zeros((*lead, *padded, features), y.dtype)
        place = list(product(*map(range, self.size)))[at]
        out[..., *self._cut(place), :] = y.reshape(*lead, *self.out, features)
        inside = (slice(pad[0], pad[0] + p) for p, pad in zip(self.positions, self.padding, strict=True))
        return out[..., *inside, :].reshape(*lead, -1, features)

    def _cut(self, offsets: Sizes) -> tuple[slice, ...]:
        sides = zip(offsets, self.apart, self.stride, self.out, strict=True)
        return tuple(slice(d * o, d * o + s * (count - 1) + 1, s) for o, d, s, count in sides)

    def gather(self, x: Any) -> Any:
        """Apply the map to an array of JAX or NumPy."""
        stacked = x.__array_namespace__().stack(self.shifts(x), axis=-1)
        return stacked.reshape(*stacked.shape[:-2], -1)


@dataclass(frozen=True)
class Average(Patches):
    """The mean over the window around each position, feature by feature: average pooling."""

    kind: ClassVar[str] = "average"

    @property
    def factor(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        r"""$\kappa$: the square root of overlap by size, rounded up."""
        return math.sqrt(self.overlap / self.count) * (1 + 1e-15)

    def gather(self, x: Any) -> Any:
        """Apply the map to an array of JAX or NumPy."""
        return sum(self.shifts(x)) / self.count


@dataclass(frozen=True, eq=False)
class Select(Identity):
    r"""Some entries of a value in a new order, each times a number: $(\varphi x)_i = c_i x_{\iota(i)}$, 0 for -1.

    Slices, transposes, padding, one part of a concatenation are all of this kind. Entries are counted position by
    position, in what is read and in what comes out.

    Attributes
    ----------
    positions, inputs
        Grid and number of features of the value that is read.
    out, features
        Grid and number of features of what comes out.
    index
        $\iota$, one number for each entry that comes out.
    scale
        $c$, again from the start where it ends; empty for 1.

    Examples
    --------
    >>> swap = Select((), 3, (), 4, np.array([2, 1, 0, -1]))
    >>> swap.gather(np.array([[1.0, 2.0, 3.0]])).tolist(), swap.factor
    ([[3.0, 2.0, 1.0, 0.0]], 1.0)
    """

    kind: ClassVar[str] = "select"

    positions: Sizes
    inputs: int
    out: Sizes
    features: int
    index: np.ndarray
    scale: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        index = np.array(self.index, np.int64).reshape(-1)
        index.setflags(write=False)
        object.__setattr__(self, "index", index)
        if self.scale and set(self.scale) == {1.0}:
            object.__setattr__(self, "scale", ())
        count, size = math.prod(self.out) * self.features, self.entries
        if min(*self.positions, *self.out, self.inputs, self.features) < 1 or len(index) != count:
            raise InputError(
                f"a selection has {len(index)} entries for {self.features} features on a grid of {self.out}"
            )
        if index.min() < -1 or index.max() >= size:
            raise InputError(f"a selection reads the entry {index.max()} or {index.min()} of {size}")
        if self.scale and (count % len(self.scale) or not np.isfinite(self.scale).all()):
            raise InputError(f"a selection multiplies {count} entries by {len(self.scale)} numbers")

    @property
    def entries(self) -> int:
        """How many entries the value has that is read."""
        return math.prod(self.positions) * self.inputs

    @cached_property
    def times(self) -> np.ndarray | None:
        """C for every entry that comes out, if it is not 1."""
        return np.resize(np.array(self.scale), len(self.index)) if self.scale else None

    @cached_property
    def factor(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        r"""$\kappa = \|\varphi\|$: the largest root of $\sum c_i^2$ over the places of one entry, rounded up."""
        read = self.index >= 0
        squares = np.ones(len(self.index)) if self.times is None else np.square(self.times)
        most = float(np.bincount(self.index[read], squares[read], 1).max())
        return 1.0 if most == 1 and self.times is None else math.sqrt(most) * (1 + 1e-15 * (2 + len(self.readers)))

    def once(self, weighted: bool) -> float:
        """Bound how far one unit at one position moves: without a weight it reads one entry, times c."""
        if weighted:
            return self.factor
        return (
            min(1.0, self.factor) if self.times is None else float(np.abs(self.times[self.index >= 0]).max(initial=0))
        )

    @cached_property
    def readers(self) -> tuple[np.ndarray, ...]:
        """For each entry read its first place among what comes out, its second, ...; one beyond the last for none."""
        places = np.flatnonzero(self.index >= 0)
        order = places[np.argsort(self.index[places], kind="stable")]
        own = self.index[order]
        rank = np.arange(len(own)) - np.searchsorted(own, own)
        found = np.full((int(rank.max(initial=0)) + 1, self.entries), len(self.index))
        found[rank, own] = order
        return tuple(found)

    def grid(self, given: Sizes) -> Sizes:
        """Return the grid of positions that comes out."""
        if given != self.positions:
            raise InputError(f"a selection on a grid of {self.positions} meets a value on a grid of {given}")
        return self.out

    def pick(self, flat: Any) -> Any:
        """Return the entries of vectors, not multiplied yet."""
        if self.index.min() >= 0:
            return flat[..., self.index]
        xp = flat.__array_namespace__()
        return xp.concatenate([flat, xp.zeros((*flat.shape[:-1], 1), flat.dtype)], axis=-1)[..., self.index]

    def gather(self, x: Any) -> Any:
        """Apply the map to an array of JAX or NumPy."""
        lead = x.shape[:-2] if self.positions else x.shape[:-1]
        found = self.pick(x.reshape(*lead, self.entries))
        if self.times is not None:
            found = found * self.times.astype(found.dtype).reshape(*(1,) * len(lead), -1)
        return found.reshape(*lead, *([math.prod(self.out)] if self.out else []), self.features)

    @cached_property
    def digest(self) -> str:
        """A name for index and scale."""
        times = b"" if self.times is None else self.times.tobytes()
        return hashlib.sha256(str(len(self.index)).encode() + self.index.tobytes() + times).hexdigest()

    def _key(self) -> tuple[Any, ...]:
        return self.positions, self.inputs, self.out, self.features, self.digest

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Select) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Select({self.features} on {self.out} of {self.inputs} on {self.positions}, {self.digest[:8]})"


def runs(index: np.ndarray) -> list[list[int]]:
    """Return an array of integers as arithmetic sequences: start, step, how many; −1 only among −1.

    >>> runs(np.array([0, 3, 6, -1, -1, 4]))
    [[0, 3, 3], [-1, 0, 2], [4, 0, 1]]
    """
    steps = np.diff(index)
    apart = np.diff((index < 0).astype(np.int64)) != 0  # between −1 and another number
    kinds = np.where(apart, 2**40 + np.arange(len(steps)), steps)
    ends = np.append(np.flatnonzero(np.diff(kinds)) + 1, len(steps)).tolist()  # of stretches of one step
    found, start = [], 0
    for end in ends:
        while start < end or start == end == len(steps):  # one number alone is left to the next stretch
            count = end - start + 1 if start < end and not apart[start] else 1
            found.append([int(index[start]), int(steps[start]) if count > 1 else 0, count])
            start += count
    return found


def from_runs(parts: Sequence[Sequence[int]]) -> np.ndarray:
    """Return the array that `runs` wrote."""
    return np.concatenate([start + step * np.arange(count) for start, step, count in parts])


IDENTITY_MAP, FLAT, ONES = Identity(), Flat(), Ones()
MAPS: dict[str, type[Identity]] = {kind.kind: kind for kind in (Identity, Flat, Ones, Patches, Average, Select)}


def same(positions: Sizes, size: int, kind: type[Patches] = Patches) -> Patches:
    """Return windows of an odd size around each position, zeros outside.

    >>> same((28, 28), 3).out
    (28, 28)
    """
    ones = (1,) * len(positions)
    return kind(positions, (size,) * len(positions), ones, ((size // 2, size // 2),) * len(positions))


def map_to_dict(phi: Identity) -> dict[str, Any]:
    """Return a map as JSON can hold it."""
    if isinstance(phi, Select):
        sizes = {"positions": list(phi.positions), "inputs": phi.inputs, "out": list(phi.out), "features": phi.features}
        return {"kind": phi.kind, **sizes, "index": runs(phi.index), "scale": list(phi.scale) or None}
    found = {"kind": phi.kind, **asdict(phi)}
    if not found.get("dilation", True):
        del found["dilation"]
    return found


def map_from_dict(config: Mapping[str, Any]) -> Identity:
    """Rebuild the map that `map_to_dict` described."""
    if config.get("kind") not in MAPS:
        raise InputError(f"there is no map {config.get('kind')!r}: choose one of {', '.join(MAPS)}")
    if config["kind"] == Select.kind:
        sizes = tuple(config["positions"]), config["inputs"], tuple(config["out"]), config["features"]
        return Select(*sizes, from_runs(config["index"]), tuple(config["scale"] or ()))
    rest = {key: tuple(tuple(v) if isinstance(v, list) else v for v in value) for key, value in config.items()
            if key != "kind"}  # fmt: skip
    return MAPS[config["kind"]](**rest)
