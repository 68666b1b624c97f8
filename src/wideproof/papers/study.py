"""How large a study is, and the laboratory in which the statements of one paper are measured."""

from __future__ import annotations

import functools
import inspect
import itertools
import zlib
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar

import numpy as np

from wideproof.errors import InputError

if TYPE_CHECKING:
    from wideproof.networks import Network

Size = Literal["quick", "standard", "deep"]
SIZES: tuple[Size, ...] = ("quick", "standard", "deep")
LEAST_WIDTHS, LEAST_WIDTH = 3, 16  # an exponent needs three points; some statements choose 8 of the units
OWN_SIZES = "the widths asked for are not used: this statement is measured at sizes of its own"
T = TypeVar("T")
X = TypeVar("X")
P = ParamSpec("P")
L = TypeVar("L", bound="Lab")


def kept(measure: Callable[Concatenate[L, P], T]) -> Callable[Concatenate[L, P], T]:
    """Have a laboratory make a measurement once for each choice of its other arguments, however they are written.

    For methods of a laboratory, and for functions whose first argument is one.

    Examples
    --------
    >>> @kept
    ... def drawn(lab: Lab, size: int = 3) -> np.ndarray:
    ...     return lab.rng("drawn").normal(size=size)
    >>> lab = Lab("quick")
    >>> drawn(lab) is drawn(lab, size=3), drawn(lab) is drawn(lab, 4)
    (True, False)
    """
    name, signature = f"{measure.__module__}.{measure.__qualname__}", inspect.signature(measure)

    def key(*args: Any, **options: Any) -> Hashable:
        bound = signature.bind(*args, **options)
        bound.apply_defaults()
        _, *chosen = bound.arguments.values()
        return (name, *(tuple(sorted(value.items())) if isinstance(value, dict) else value for value in chosen))

    @functools.wraps(measure)
    def once(lab: L, *args: P.args, **options: P.kwargs) -> T:
        return lab.keep(key(lab, *args, **options), lambda: measure(lab, *args, **options))

    vars(once)["key"] = key
    return once


class Lab:
    """Draws, runs and measurements that many statements of one paper share; each is made once.

    The laboratory of a paper derives from this one and names its networks and runs. The order in which statements are
    measured changes nothing: random numbers depend only on the seed and on a label.

    Parameters
    ----------
    study
        `"quick"`, `"standard"` or `"deep"`.
    seed
        Seed of all draws.
    widths
        Widths over which exponents in the width are fitted, instead of those of the study: three or more, increasing.

    Examples
    --------
    >>> lab = Lab("quick")
    >>> lab.pick(8, 64, 512), lab.keep("sum", lambda: 2 + 2)
    (8, 4)
    >>> Lab("quick", widths=(64, 256, 1024)).grid((32, 64, 128), (64, 128, 256), (128, 256, 512))
    (64, 256, 1024)
    >>> bool((lab.rng("inputs").normal(size=3) == Lab("quick").rng("inputs").normal(size=3)).all())
    True
    """

    even = False  # whether the paper's networks have output signs in pairs, and so even widths

    def __init__(self, study: str = "quick", seed: int = 0, widths: Sequence[int] | None = None) -> None:
        if study not in SIZES:
            raise InputError(f"a study must be one of {', '.join(SIZES)}; got {study!r}")
        if seed < 0:
            raise InputError(f"a seed must be a whole number >= 0, got {seed}")
        self.study: Size = study  # pyright: ignore[reportAttributeAccessIssue]
        self.seed = seed
        self.chosen: tuple[int, ...] | None = None if widths is None else _accepted(widths, self.even)
        self._kept: dict[Hashable, Any] = {}
        self._over_widths: set[Hashable] = set()  # what was kept and depends on the widths
        self._asked = False

    def pick(self, quick: T, standard: T, deep: T) -> T:
        """Return the value for this study's size.

        Parameters
        ----------
        quick, standard, deep
            The values for the three sizes.

        Returns
        -------
        T
            One of them.
        """
        return {"quick": quick, "standard": standard, "deep": deep}[self.study]

    def grid(self, quick: tuple[int, ...], standard: tuple[int, ...], deep: tuple[int, ...]) -> tuple[int, ...]:
        """Return the widths over which exponents are fitted: the chosen ones, or those for this study's size.

        Parameters
        ----------
        quick, standard, deep
            The widths for the three sizes.

        Returns
        -------
        tuple[int, ...]
            The widths to measure.
        """
        self._asked = True
        return self.pick(quick, standard, deep) if self.chosen is None else self.chosen

    def some(self, widths: tuple[int, ...], start: int = 0, stop: int | None = None) -> tuple[int, ...]:
        """Return a part of a study's widths, if some are too narrow or too costly; all widths that a user has chosen.

        Parameters
        ----------
        widths
            The widths of the study.
        start
            Index of the first width to keep.
        stop
            Index behind the last width to keep.

        Returns
        -------
        tuple[int, ...]
            The widths to measure.
        """
        return widths[start:stop] if self.chosen is None else widths

    def asking(self, make: Callable[[], T]) -> tuple[T, bool]:
        """Call a function, and return whether it asked for the widths.

        Parameters
        ----------
        make
            A function that may use the widths of the laboratory.

        Returns
        -------
        tuple[T, bool]
            Its value, and whether it used them.

        Examples
        --------
        >>> lab = Lab("quick")
        >>> lab.asking(lambda: lab.pick(1, 2, 3)), lab.asking(lambda: lab.grid((8,), (16,), (32,)))
        ((1, False), ((8,), True))
        """
        before, self._asked = self._asked, False
        made, asked = make(), self._asked
        self._asked = before or asked
        return made, asked

    def rng(self, *label: Hashable) -> np.random.Generator:
        """Return random numbers that depend on the seed and the label only.

        Parameters
        ----------
        *label
            What the random numbers are for.

        Returns
        -------
        np.random.Generator
            A generator.
        """
        return np.random.default_rng([self.seed, zlib.crc32(repr(label).encode())])

    def over(self, grid: Iterable[X], draws: int | Iterable[Any], measure: Callable[[X, Any], Any]) -> np.ndarray:
        """Measure a quantity at every point of a grid and in every draw.

        Parameters
        ----------
        grid
            The points, such as widths.
        draws
            Number of draws, or the draws themselves.
        measure
            Function of a point and a draw; it returns one or several values.

        Returns
        -------
        array
            A table with one row for each draw; one table for each value if there are several.

        Examples
        --------
        >>> Lab("quick").over((1, 10), 3, lambda width, draw: width + draw).tolist()
        [[1, 10], [2, 11], [3, 12]]
        >>> whole, half = Lab("quick").over((2, 4), 1, lambda width, draw: (width, width / 2))
        >>> half.tolist()
        [[1.0, 2.0]]
        """
        points, seeds = tuple(grid), range(draws) if isinstance(draws, int) else draws
        table = np.array([[measure(x, draw) for x in points] for draw in seeds])
        return table if table.ndim < 3 else np.moveaxis(table, -1, 0)

    def drawn(self, network: Network, *label: Hashable, scale: float = 1.0) -> dict[str, np.ndarray]:
        """Draw weights from the network's Gaussian laws with NumPy, without a compilation for each size.

        Parameters
        ----------
        network
            The network.
        *label
            What the weights are for.
        scale
            Factor of all weights; other than 1 they do not have the network's law.

        Returns
        -------
        dict[str, array]
            Weights by name.
        """
        from wideproof.networks import Gaussian  # not above: a list of statements needs no JAX

        rng = self.rng(*label)
        laws = {name: law for name, law in network.laws().items() if isinstance(law, Gaussian)}
        return {name: scale * np.sqrt(law.variance) * rng.standard_normal(law.shape) for name, law in laws.items()}

    def keep(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return `make()`, computed once for this key.

        Parameters
        ----------
        key
            Name of the value.
        make
            Function that computes it.

        Returns
        -------
        T
            The value, computed once for each key.
        """
        if key not in self._kept:
            self._kept[key], asked = self.asking(make)
            if asked:
                self._over_widths.add(key)
        self._asked = self._asked or key in self._over_widths
        return self._kept[key]


def _accepted(widths: Sequence[int], even: bool) -> tuple[int, ...]:
    """Return widths over which exponents can be fitted, or refuse them."""
    came = ", ".join(str(width) for width in widths) or "none"
    if len(widths) < LEAST_WIDTHS:
        raise InputError(f"an exponent is fitted over at least {LEAST_WIDTHS} widths, got {came}: add wider ones")
    if any(not isinstance(width, int | np.integer) or isinstance(width, bool) for width in widths):
        raise InputError(f"widths must be whole numbers, got {came}")
    if any(b <= a for a, b in itertools.pairwise(widths)):
        raise InputError(f"widths must increase, got {came}: sort them, and give each of them once")
    if widths[0] < LEAST_WIDTH:
        raise InputError(f"widths must be at least {LEAST_WIDTH}, got {came}: leave out those below")
    if even and (odd := [width for width in widths if width % 2]):
        raise InputError(
            f"this paper's networks have even widths, since half of their fixed output signs are +1 and half -1; "
            f"got {came}: use {odd[0] + 1} for {odd[0]}"
        )
    return tuple(int(width) for width in widths)
