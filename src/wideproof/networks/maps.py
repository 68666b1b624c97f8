r"""What happens to a value before a weight meets it: linear maps $\varphi$ that only move, repeat or average entries.

Values are laid out `... x positions x features`; a grid of two dimensions counts as one axis of positions, row by row.
Each map knows $\kappa \ge \|\varphi\|$ in Frobenius norms. What cannot be bounded is not here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, ClassVar

from wideproof.errors import InputError

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Identity:
    """The value itself."""

    kind: ClassVar[str] = "identity"
    factor: ClassVar[float] = 1.0

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
    size, stride, padding
        For each dimension; `padding` is how many zeros stand before and after.

    >>> import numpy as np
    >>> Patches((3,), (3,), (1,), ((1, 1),)).gather(np.arange(1.0, 4.0).reshape(1, 3, 1))[0].tolist()
    [[0.0, 1.0, 2.0], [1.0, 2.0, 3.0], [2.0, 3.0, 0.0]]
    """

    kind: ClassVar[str] = "patches"

    positions: Sizes
    size: Sizes
    stride: Sizes
    padding: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        if not len(self.positions) == len(self.size) == len(self.stride) == len(self.padding) in (1, 2):
            raise InputError(f"{self.kind} need a grid, a size, a stride and a padding, all in one or two dimensions")
        pads = zip(self.padding, self.size, strict=True)
        if (
            min(*self.size, *self.stride) < 1
            or min(self.out) < 1
            or not all(0 <= min(p) <= max(p) < q for p, q in pads)
        ):
            raise InputError(f"{self.kind} of size {self.size} do not fit a grid of {self.positions}")

    @property
    def out(self) -> Sizes:
        """The grid of positions that comes out."""
        sides = zip(self.positions, self.size, self.stride, self.padding, strict=True)
        return tuple((p + sum(pad) - q) // s + 1 for p, q, s, pad in sides)

    @property
    def count(self) -> int:
        """How many positions a window has."""
        return math.prod(self.size)

    @property
    def overlap(self) -> int:
        """How many windows a position can be in, at most."""
        return math.prod(-(-q // s) for q, s in zip(self.size, self.stride, strict=True))

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
        sides = zip(offsets, self.stride, self.out, strict=True)
        return tuple(slice(o, o + s * (count - 1) + 1, s) for o, s, count in sides)

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


IDENTITY_MAP, FLAT, ONES = Identity(), Flat(), Ones()
MAPS: dict[str, type[Identity]] = {kind.kind: kind for kind in (Identity, Flat, Ones, Patches, Average)}


def same(positions: Sizes, size: int, kind: type[Patches] = Patches) -> Patches:
    """Return windows of an odd size around each position, zeros outside.

    >>> same((28, 28), 3).out
    (28, 28)
    """
    ones = (1,) * len(positions)
    return kind(positions, (size,) * len(positions), ones, ((size // 2, size // 2),) * len(positions))


def map_to_dict(phi: Identity) -> dict[str, Any]:
    """Return a map as JSON can hold it."""
    return {"kind": phi.kind, **asdict(phi)}


def map_from_dict(config: Mapping[str, Any]) -> Identity:
    """Rebuild the map that `map_to_dict` described."""
    if config.get("kind") not in MAPS:
        raise InputError(f"there is no map {config.get('kind')!r}: choose one of {', '.join(MAPS)}")
    rest = {key: tuple(tuple(v) if isinstance(v, list) else v for v in value) for key, value in config.items()
            if key != "kind"}  # fmt: skip
    return MAPS[config["kind"]](**rest)
