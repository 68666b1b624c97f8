r"""How wide is wide enough: the smallest width at which convergence is certified before any training.

At an initialization with $F(\theta_0) = 0$ the residual is $\|y\|$, whatever the width, and $\Lambda / s^2$ falls like
$m^{-1/2}$: so some width passes. The doubled start has every unit of the last hidden layer twice, with opposite
output signs $\pm A$; half of the units are independent. With fixed outputs and one hidden layer only $m A^2$ matters.

Two theorems can do it. Theorem 1 asks for a small residual over $s^2$; Theorem 4 for a fit close by, whatever the
residual, and gains from smaller steps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wideproof.cards import Told
from wideproof.certificates.arguments import ALONE
from wideproof.certificates.attempt import Attempt, Level
from wideproof.certificates.certify import certify
from wideproof.certificates.lipschitz import lipschitz
from wideproof.certificates.nearest import nearest
from wideproof.certificates.problem import Problem
from wideproof.certificates.theorems.basin import Basin
from wideproof.data import AnyDataset, distinct
from wideproof.errors import InputError
from wideproof.networks import FullyConnected
from wideproof.progress import Progress, Watch, shown

LARGEST = 1 << 16
SHARES = (1.0, 0.5, 0.1)  # of the step size 1/b², for Theorem 4
THEOREMS = {"descent": "Theorem 1", "basin": "Theorem 4"}


def doubled(network: FullyConnected, seed: int = 0, scale: float = 1.0) -> dict[str, np.ndarray]:
    r"""Draw a start whose outputs are all zero: the last hidden layer twice, output weights $\pm A$.

    Parameters
    ----------
    network
        A fully-connected network of even width.
    seed
        Seed of the draw.
    scale
        The scale $A$ of the output weights.

    Returns
    -------
    dict[str, array]
        The weights by name.

    Examples
    --------
    >>> network = FullyConnected(input_dim=3, width=8, depth=2)
    >>> start = doubled(network, seed=1)
    >>> bool(np.all(network(start, np.eye(3)) == 0)), start["a"].tolist()
    (True, [1.0, 1.0, 1.0, 1.0, -1.0, -1.0, -1.0, -1.0])
    """
    if not isinstance(network, FullyConnected) or network.outputs != 1:
        raise InputError("the doubled start is for fully-connected networks with one output")
    if network.width % 2:
        raise InputError(f"the doubled start needs an even width, got {network.width}: use {network.width + 1}")
    drawn = dataclasses.replace(network, start="normal").init(seed)
    params = {name: np.array(weight) for name, weight in drawn.items()}
    half = network.width // 2
    last = f"W{network.depth}"
    params[last][half:] = params[last][:half]
    params["a"] = np.concatenate([np.full(half, scale), np.full(half, -scale)])
    return params


def positive(network: FullyConnected, scale: float = 1.0) -> dict[str, np.ndarray]:
    r"""Return Chatterjee's start: $W_1 = 0$, $W_h = \sqrt m\, I$ behind it, all output weights $A$.

    These are the weights of `FullyConnected(..., start="positive(A)")` (`networks.starts`), of a network with any
    start: the Gram matrix is $A^2 (c_\sigma \sigma'(0)^2)^H X X^\top$ for depth $H$, at every width.

    Parameters
    ----------
    network
        A fully-connected network.
    scale
        The scale $A$ of the output weights.

    Returns
    -------
    dict[str, array]
        The weights by name.

    Examples
    --------
    >>> network = FullyConnected(input_dim=3, width=2, depth=3, activation="tanh")
    >>> start = positive(network, scale=10.0)
    >>> bool(np.all(network(start, np.eye(3)) == 0)), start["W2"].round(3).tolist(), start["a"].tolist()
    (True, [[1.414, 0.0], [0.0, 1.414]], [10.0, 10.0])
    """
    if not isinstance(network, FullyConnected):
        raise InputError(f"the positive start is for fully-connected networks, got {network.name}")
    made = dataclasses.replace(network, start=f"positive({float(scale)!r})")
    return {name: np.array(weight) for name, weight in made.init().items()}


@dataclass(frozen=True)
class Tried:
    """One width, seed and output scale: the proof ratio of Theorem 1, whether a proof passed, and of which theorem."""

    width: int
    seed: int
    h: float
    passed: bool
    scale: float
    theorem: str = ""


@dataclass(frozen=True, eq=False)
class Needed(Told):
    """The smallest widths found, one for each seed (`None`: not up to the largest), and all that was tried.

    `theorems` says which theorem passed there: `"descent"` (Theorem 1), `"basin"` (Theorem 4) or `""`.
    """

    network: FullyConnected
    scale: float
    seeds: tuple[int, ...]
    widths: tuple[int | None, ...]
    tried: tuple[Tried, ...]
    attempts: tuple[Attempt | None, ...]

    @property
    def theorems(self) -> tuple[str, ...]:
        """Which theorem passed at each of the widths."""
        made = [attempt.certificate if attempt is not None else None for attempt in self.attempts]
        return tuple("" if one is None else one.theorem for one in made)

    def __str__(self) -> str:
        known = [w for w in self.widths if w is not None]
        if not known:
            least = min(self.tried, key=lambda t: t.h)
            return f"no proof before training up to width {max(t.width for t in self.tried)}: h = {least.h:.3g} there"
        span = f"{min(known)}" if min(known) == max(known) else f"{min(known)} to {max(known)}"
        names = " and ".join(THEOREMS[name] for name in dict.fromkeys(self.theorems) if name)
        seeds = f"{len(known)} seed{'s' * (len(known) > 1)}"
        return f"a proof before training passes from width {span} by {names} (output scale {self.scale:g}, {seeds})"


@shown
def width_needed(
    network: FullyConnected,
    data: AnyDataset,
    *,
    seeds: Sequence[int] = (0,),
    scale: float = 1.0,
    smallest: int = 16,
    largest: int = LARGEST,
    tolerance: float = 0.02,
    level: Level = "enclosed",
    shares: Sequence[float] = SHARES,
    progress: Watch | None = None,
) -> Needed:
    r"""Find the smallest width at which convergence from the doubled start is certified, by Theorem 1 or Theorem 4.

    The width is raised until a proof passes, and the bracket is bisected, with a fresh draw at each width. The search
    assumes that wider is easier, which is true up to the randomness of the draw. It is in float64; where it ends, the
    proof is made at `level`, a little wider if rounding requires that.

    Parameters
    ----------
    network
        A fully-connected network; its width is replaced.
    data
        The data, prepared for the network.
    seeds
        Seeds of the initial weights; one search for each.
    scale
        The scale $A$ of the output weights.
    smallest
        The smallest width to try.
    largest
        The largest width to try.
    tolerance
        Relative width of the bracket at which the bisection ends.
    level
        `"enclosed"` bounds every rounding error; `"float64"` is faster and proves nothing.
    shares
        Step sizes, relative to $1/b^2$, at which Theorem 4 is tried if Theorem 1 fails; `()` for none.
    progress
        Callback; receives a `Progress` after every width that was tried.

    Returns
    -------
    Needed
        The width for each seed, with its attempt.

    Examples
    --------
    >>> from wideproof.data import Dataset
    >>> network = FullyConnected(input_dim=3, width=16, depth=1, trained=("hidden",))
    >>> data = Dataset(np.eye(3), np.array([1.0, -1.0, 1.0]), "binary")
    >>> found = width_needed(network, data, smallest=32, tolerance=1.0)  # up to a factor of two
    >>> found.widths, found.theorems
    ((32,), ('descent',))
    """
    ALONE["level"]("level", level)
    tried: list[Tried] = []
    widths: list[int | None] = []
    attempts: list[Attempt | None] = []
    for seed in seeds:

        def attempt(width: int, level: Level = "float64", seed: int = seed) -> Attempt:
            wide = dataclasses.replace(network, width=width)
            about = {"anchor": "the doubled initialization", "seed": seed, "scale": scale}
            start = doubled(wide, seed, scale)
            found = certify(Problem(wide, data).at(start), level=level, about=about)
            h = found.h
            if not found.passed:
                found = _by_a_fit_next_to_it(wide, start, data, found, level, shares) or found
            theorem = found.certificate.theorem if found.passed and found.certificate is not None else ""
            tried.append(Tried(width, seed, h, found.passed, scale, theorem))
            if progress is not None:
                progress(Progress("certifying", len(tried), text=f"width {width}, seed {seed}", latest=tried[-1]))
            return found

        width, best, low = _even(smallest), None, 0
        while True:
            found = attempt(width)
            if found.passed:
                best = found
                break
            low = width
            if width >= largest or found.anchor is None:
                break
            # h falls like the root of the width: jump to where it should pass, but not far beyond.
            h = tried[-1].h
            leap = (h / 0.45) ** 2 if np.isfinite(h) and h < 1e6 else 4.0
            width = min(largest, _even(int(width * min(max(leap, 1.02), 4.0)) + 2))
        high = width
        while best is not None and high - low > max(2, tolerance * high):
            middle = _even((low + high) // 2)
            if middle in (low, high):
                break
            found = attempt(middle)
            low, high, best = (low, middle, found) if found.passed else (middle, high, best)
        while best is not None and level != "float64":
            best = attempt(high, level)
            if best.passed:
                break
            high, best = min(largest, _even(int(1.01 * high) + 2)), best if high < largest else None
        widths.append(high if best is not None else None)
        attempts.append(best)
    return Needed(network, scale, tuple(seeds), tuple(widths), tuple(tried), tuple(attempts))


def _by_a_fit_next_to_it(
    network: FullyConnected,
    start: dict[str, np.ndarray],
    data: AnyDataset,
    failed: Attempt,
    level: Level,
    shares: Sequence[float],
) -> Attempt | None:
    """Try Theorem 4 with the fit that is nearest to the start; `None` where it does not pass either."""
    anchor = failed.anchor
    if anchor is None or not np.isfinite(anchor.newton) or not shares:
        return None
    if lipschitz(anchor, anchor.newton).value * anchor.newton > 1.5 * anchor.s:  # 0.5 is needed at the fit
        return None
    groups = distinct(data)
    found = nearest(network, start, groups.x, groups.y)
    about = {"anchor": "the fit next to the doubled initialization"}
    if found is None:
        return None
    point = Problem(network, data).at(found.params)
    for share in shares:
        attempt = certify(point, Basin(start=start, share=share), level=level, about=about)
        if attempt.passed:
            return attempt
    return None


def _even(width: int) -> int:
    return width + width % 2
