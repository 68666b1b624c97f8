r"""How large an output scale is large enough: the smallest one at which a network of given width is certified.

At the doubled start, with the outputs multiplied by $A$, the residual stays $\|y\|$, $\sigma_{\min}(J)$ grows like $A$
and so does $\Lambda$: the proof ratio $\Lambda \rho / s^2$ falls like $1 / A$. So every width with a positive definite
Gram matrix passes at some scale. The positive start has zero outputs too, and a Gram matrix that is known at every
depth and width, so there the scale answers for deep and narrow networks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from wideproof.cards import Told
from wideproof.certificates.arguments import ALONE
from wideproof.certificates.attempt import Attempt, Level
from wideproof.certificates.certify import certify
from wideproof.certificates.problem import Problem
from wideproof.certificates.widths import Tried, doubled, positive
from wideproof.data import AnyDataset
from wideproof.errors import InputError
from wideproof.networks import FullyConnected
from wideproof.progress import Progress, Watch, shown

Start = Literal["doubled", "positive"]
SMALLEST, LARGEST = 2.0**-20, 2.0**30


@dataclass(frozen=True, eq=False)
class NeededScale(Told):
    """The smallest scales found, one for each seed (`None`: not up to the largest), and all that was tried."""

    network: FullyConnected
    seeds: tuple[int, ...]
    scales: tuple[float | None, ...]
    tried: tuple[Tried, ...]
    attempts: tuple[Attempt | None, ...]

    def __str__(self) -> str:
        known = [scale for scale in self.scales if scale is not None]
        if not known:
            far = max(self.tried, key=lambda tried: tried.scale)
            return f"no proof before training at width {self.network.width} up to output scale {far.scale:.3g}"
        span = f"{min(known):.3g}" if min(known) == max(known) else f"{min(known):.3g} to {max(known):.3g}"
        width = self.network.width
        return f"a proof before training passes at width {width} from output scale {span} ({len(known)} seeds)"


@shown
def scale_needed(
    network: FullyConnected,
    data: AnyDataset,
    *,
    start: Start = "doubled",
    seeds: Sequence[int] = (0,),
    smallest: float = SMALLEST,
    largest: float = LARGEST,
    tolerance: float = 0.02,
    level: Level = "enclosed",
    progress: Watch | None = None,
) -> NeededScale:
    """Find the smallest output scale at which convergence before training is certified, at the network's width.

    The scale is doubled from 1 until a proof passes, or halved as long as one does, and the bracket is bisected. The
    hidden weights stay the same. With fixed output weights the proof ratio is inversely proportional to the scale; with
    trained ones the search assumes that a larger scale is easier.

    Parameters
    ----------
    network
        A fully-connected network; its width is kept.
    data
        The data, prepared for the network.
    start
        `"doubled"`, drawn from each seed; or `"positive"`, which needs linearly independent inputs and is the same for
        all seeds.
    seeds
        Seeds of the initial weights; one search for each.
    smallest
        The smallest scale to try.
    largest
        The largest scale to try.
    tolerance
        Relative width of the bracket at which the bisection ends.
    level
        `"enclosed"` bounds every rounding error; `"float64"` is faster and proves nothing.
    progress
        Callback; receives a `Progress` after every scale that was tried.

    Returns
    -------
    NeededScale
        The scale for each seed, with its attempt.

    Examples
    --------
    >>> from wideproof.data import Dataset
    >>> network = FullyConnected(input_dim=3, width=32, depth=1, trained=("hidden",))
    >>> found = scale_needed(network, Dataset(np.eye(3), np.array([1.0, -1.0, 1.0]), "binary"))
    >>> 0.2 < found.scales[0] < 1, found.attempts[0].passed
    (True, True)
    """
    ALONE["level"]("level", level)
    if not 0 < smallest <= 1 <= largest < math.inf:
        raise InputError(f"`smallest` must be at most 1 and `largest` at least 1, got {smallest} and {largest}")
    if start not in ("doubled", "positive"):
        raise InputError(f"the start must be 'doubled' or 'positive', got {start!r}")
    problem = Problem(network, data)
    tried: list[Tried] = []
    scales: list[float | None] = []
    attempts: list[Attempt | None] = []
    for seed in seeds:
        params = doubled(network, seed) if start == "doubled" else positive(network)

        def attempt(scale: float, seed: int = seed, params: dict[str, np.ndarray] = params) -> Attempt:
            about = {"anchor": f"the {start} initialization", "seed": seed, "scale": scale}
            found = certify(problem.at(params | {"a": scale * params["a"]}), level=level, about=about)
            tried.append(Tried(network.width, seed, found.h, found.passed, scale))
            if progress is not None:
                progress(Progress("certifying", len(tried), text=f"scale {scale:.3g}, seed {seed}", latest=tried[-1]))
            return found

        scale, best = _search(attempt, smallest, largest, tolerance)
        scales.append(scale)
        attempts.append(best)
    return NeededScale(network, tuple(seeds), tuple(scales), tuple(tried), tuple(attempts))


def _search(
    attempt: Callable[[float], Attempt], smallest: float, largest: float, tolerance: float
) -> tuple[float | None, Attempt | None]:
    high, best = 1.0, attempt(1.0)
    low = high
    while best.passed and low == high and high > smallest:
        low = max(smallest, high / 2)
        found = attempt(low)
        if found.passed:
            high, best = low, found
    while not best.passed:
        if high >= largest or best.anchor is None or not best.anchor.s > 0:
            return None, None
        low, high = high, min(largest, 2 * high)
        best = attempt(high)
    while high > (1 + tolerance) * low:
        middle = math.sqrt(low * high)
        found = attempt(middle)
        low, high, best = (low, middle, found) if found.passed else (middle, high, best)
    return high, best
