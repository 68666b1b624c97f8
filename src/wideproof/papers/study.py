"""How large a study is, and the laboratory in which the statements of one paper are measured."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Hashable
from typing import Any, Literal, TypeVar

import numpy as np

from wideproof.errors import InputError

Size = Literal["quick", "standard", "deep"]
SIZES: tuple[Size, ...] = ("quick", "standard", "deep")
T = TypeVar("T")


class Lab:
    """Draws, runs and measurements that many statements of one paper share, each made once.

    A paper's own laboratory derives from this one and names its networks and runs. Nothing depends on the order in
    which statements are measured: random numbers come from the label of what they are for.

    Parameters
    ----------
    study
        `"quick"`, `"standard"` or `"deep"`.
    seed
        Another seed gives other draws of everything.

    Examples
    --------
    >>> lab = Lab("quick")
    >>> lab.pick(8, 64, 512), lab.keep("sum", lambda: 2 + 2)
    (8, 4)
    >>> bool((lab.rng("inputs").normal(size=3) == Lab("quick").rng("inputs").normal(size=3)).all())
    True
    """

    def __init__(self, study: str = "quick", seed: int = 0) -> None:
        if study not in SIZES:
            raise InputError(f"a study must be one of {', '.join(SIZES)}; got {study!r}")
        if seed < 0:
            raise InputError(f"a seed must be a whole number >= 0, got {seed}")
        self.study: Size = study  # pyright: ignore[reportAttributeAccessIssue]
        self.seed = seed
        self._kept: dict[Hashable, Any] = {}

    def pick(self, quick: T, standard: T, deep: T) -> T:
        """Return the value for this study's size."""
        return {"quick": quick, "standard": standard, "deep": deep}[self.study]

    def rng(self, *label: Hashable) -> np.random.Generator:
        """Return random numbers that depend on the seed and the label only."""
        return np.random.default_rng([self.seed, zlib.crc32(repr(label).encode())])

    def keep(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return `make()`, computed once for this key."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]
