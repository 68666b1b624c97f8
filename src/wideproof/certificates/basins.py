r"""Basins: gradient descent converges from every start near weights that fit, or from one start and a fit next to it.

The anchor is nearly a zero of the residual: with $2 \Lambda \rho < s^2$ a zero lies within $2\rho/s$ of it. A start is
at most $D$ from its nearest zero, which is at most $F$ from the anchor. With $\kappa = \Lambda D / (s - \Lambda F)$ and
$c = 2 - \eta b^2$, gradient descent converges if $2 \kappa^2 < (1 - \kappa)(c - (1 + c/2) \kappa)$: the residual at the
start does not matter. `docs/theory/certificates.md` has the proof (Theorem 4).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from jax.typing import ArrayLike

from wideproof.certificates.anchor import Anchor, measure
from wideproof.certificates.arguments import checked
from wideproof.certificates.attempt import Attempt, Level, Obstacle
from wideproof.certificates.certificate import Certificate
from wideproof.certificates.lengths import length
from wideproof.certificates.lipschitz import lipschitz
from wideproof.certificates.nearest import nearest, pulled
from wideproof.certificates.obstacles import contradiction, kink, no_eigenvalue
from wideproof.certificates.squared_loss import steps_to
from wideproof.data import AnyDataset, Distinct, distinct
from wideproof.errors import InputError
from wideproof.networks import Network

UP, DOWN = 1 + 1e-9, 1 - 1e-9  # claims keep a little back, so that rounding never decides
ROUNDS, HALVINGS = 40, 60
VERIFY = "Run `wideproof verify` on this folder to have it proved by an independent program."


@dataclass(frozen=True, eq=False)
class Ground:
    """The anchor of a basin, and what all its theorems start from."""

    network: Network
    data: AnyDataset
    params: dict[str, np.ndarray]
    groups: Distinct
    anchor: Anchor
    level: Level
    sharp: bool
    about: dict[str, Any]
    constant: Callable[[float], float]

    @property
    def rho(self) -> float:
        """The residual; never zero."""
        return max(self.anchor.residual, 1e-300)

    @property
    def near(self) -> float:
        r"""A zero lies within $2 \rho / s$."""
        return 2 * self.rho / self.anchor.s * UP

    def claims(self, radius: float, constant: float, eta: float, d: float) -> dict[str, Any]:
        """Return the claims that all these theorems share."""
        a = self.anchor
        return {
            "s": a.s, "S": a.S, "rho": self.rho, "radii": [radius], "lipschitz": [constant], "near": self.near,
            "b": (a.S + constant * radius) * UP, "eta": eta, "d": d,
        }  # fmt: skip

    def fits(self, constant: float) -> bool:
        """Return whether a zero is known to be near."""
        return 2 * constant * self.rho < self.anchor.s**2 * DOWN

    def attempt(
        self, theorem: str, claims: dict[str, Any], summary: str, start: dict[str, np.ndarray] | None = None,
        centre: dict[str, np.ndarray] | None = None,
    ) -> Attempt:  # fmt: skip
        """Return the certificate, or the unit of a piecewise linear network that is in the way."""
        blocked = kink(self.anchor, claims["radii"][0])
        if blocked is not None:
            return Attempt(self.anchor, None, blocked)
        if self.groups.repeated:
            low, high = self.groups.least_loss
            claims |= {"distinct": self.groups.n, "least_loss": low, "least_loss_at_most": high}
        made = Certificate(
            f"Claim: {summary} {VERIFY}", theorem, self.level, self.network.graph, claims, self.params, self.data.x,
            self.data.y, self.sharp, self.about, begun=start, centre=centre,
        )  # fmt: skip
        return Attempt(self.anchor, made, None)

    def failed(self, distance: float | None, most: float = 0.25) -> Attempt:
        r"""No zero is known to be near, or $\Lambda d / s$ is too large: `most` is what no step size allows."""
        a = self.anchor
        constant = self.constant(self.near)
        if not self.fits(constant):
            value = constant * self.rho / a.s**2
            reason = (
                f"these weights are not known to be near a fit: Λρ/s² is {value:.3g} and must be below 0.5 (residual "
                f"ρ = {self.rho:.3g}, smallest singular value s = {a.s:.3g}, Lipschitz constant Λ = {constant:.3g})"
            )
            advice = ("polish them first", "use a wider network")
            return Attempt(a, None, Obstacle("ratio", value, 0.5, reason, advice))
        advice = ("use a smaller step size", "use a wider network, or a larger output scale")
        if distance is None:
            reason = "no distance passes: the step size is too large, or the fit not close enough"
            return Attempt(a, None, Obstacle("step size", math.nan, math.nan, reason, advice))
        value = self.constant(distance) * distance / a.s
        reason = (
            f"the Jacobian may change too much on the way: Λd/s is {value:.3g}, and {most:g} is too much for any step "
            f"size (distance d = {distance:.3g}, smallest singular value s = {a.s:.3g})"
            if math.isfinite(most)
            else f"so many steps in any order may lead too far away from a start at the distance {distance:.3g}"
        )
        return Attempt(a, None, Obstacle("distance", value, most, reason, ("use a smaller distance", *advice)))


def prepare(
    network: Network,
    params: Mapping[str, ArrayLike],
    data: AnyDataset,
    *,
    level: Level,
    sharp: bool,
    about: Mapping[str, Any] | None,
    singular: bool = False,
) -> Ground | Attempt:
    """Measure the anchor, or say why there is nothing to be proved; a `singular` Gram matrix may do."""
    weights = {name: np.asarray(weight) for name, weight in params.items()}
    about = {"data": data.name, "digest": data.digest, **(about or {})}
    if network.data_kind == "sequences" and not singular:
        impossible = contradiction(network, weights, data, level, about)
        if impossible is not None:
            return impossible
    groups = distinct(data)
    anchor = measure(
        network.graph, weights, groups.x, network.scored(groups.y), counts=groups.counts if groups.repeated else None,
        level=level, sharp=sharp,
    )  # fmt: skip
    obstacle = None if singular else no_eigenvalue(anchor, groups.x)
    if obstacle is not None:
        return Attempt(anchor, None, obstacle)
    constant = cache(lambda radius: lipschitz(anchor, radius).value)
    return Ground(network, data, weights, groups, anchor, level, sharp, about, constant)


class Macro(NamedTuple):
    """What a macro-step (a step, or an epoch) gives: the drift a, singular values, the rate, the ball it needs."""

    kappa: float
    a: float
    sigma: float
    rate: float
    radius: float


def contract(
    s: float, constant: float, far: float, first: float, eta: float, c: float,
    order: float = 1.0, bend: float | None = None, swell: float = 1.0,
) -> Macro | None:  # fmt: skip
    r"""Return what macro-steps from `far` conclude, or `None` where the conditions fail.

    >>> found = contract(1.0, 0.37, 1.0, 0.0, 0.01, 1.0)  # κ = 0.37, below 0.3722
    >>> (round(found.a, 2), found.sigma > 0) if found else None
    (2.64, True)
    >>> contract(1.0, 0.373, 1.0, 0.0, 0.01, 1.0) is None
    True
    """
    bend = constant if bend is None else bend
    low = s - constant * first
    if not (low > 0 and c > 0):
        return None
    kappa, gamma = constant * far / low, bend * far / low
    pull = c * (1 - kappa / 2) / order - gamma * swell
    if not (kappa < DOWN and pull > 1e-9 * c):
        return None
    a = 2 * gamma * math.sqrt(swell) / ((1 - kappa) * pull) * (1 + 1e-6) + 1e-12
    sigma = (low - constant * a * far) * DOWN
    if not sigma > 0:
        return None
    drop = eta * sigma**2 * (1 - kappa / 2) / order * pull * DOWN
    if not drop > 0:
        return None
    rate = drop / (1 + math.sqrt(max(0.0, 1 - drop))) * DOWN
    return Macro(kappa, a, sigma, rate, (first + max(a, math.sqrt(swell)) * far) * (1 + 1e-6))


def find_basin(
    ground: Ground, d: float, *, along: float | None = None, step_size: float | None, share: float, epsilon: float
) -> dict[str, Any] | None:
    r"""Look for a ball on which gradient descent from distance d converges; `along` is a start's tangential part.

    The step size is the given one, or `share` of $1/b^2$.
    """
    a, near = ground.anchor, ground.near
    far, radius = d + near, 3 * d + 2 * near if along is None else d + near
    for _ in range(ROUNDS):
        radius *= 1 + 1e-5
        constant = ground.constant(radius)
        first = first_zero(ground, constant, d, along)
        if not ground.fits(constant) or first is None:
            return None
        b = (a.S + constant * radius) * UP
        eta = share / b**2 if step_size is None else step_size
        found = contract(a.s, constant, far, first, eta, 2 - eta * b**2 * UP)
        if found is None:
            return None
        if found.radius <= radius:
            steps = steps_to(b * far * UP, found.rate, epsilon)
            more = {"a": found.a, "sigma": found.sigma, "rate": found.rate, "epsilon": epsilon, "steps": steps}
            return ground.claims(radius, constant, eta, d) | more
        radius = found.radius
    return None


def first_zero(ground: Ground, constant: float, d: float, along: float | None) -> float | None:
    """Return how far the zero that is nearest to the start may be from the anchor; `None` if that is not known."""
    near, s = ground.near, ground.anchor.s
    if along is None:
        return (2 * d + near) * UP
    far, low = d + near, s - constant * near
    if not constant * far < low * DOWN:
        return None
    t = along + near * (1 + constant * d / s)
    return (near + 2 * t / (1 - constant * far / low)) * UP


def farthest(found_at: Callable[[float], dict[str, Any] | None], top: float) -> dict[str, Any] | None:
    """Return the claims at 0.8 times the largest distance with a proof: at that distance itself the rate is nothing."""
    for _ in range(HALVINGS):
        if found_at(top) is not None:
            break
        top /= 2
    else:
        return None
    low, high = top, 2 * top
    for _ in range(4):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if found_at(middle) is not None else (low, middle)
    return found_at(0.8 * low)


@checked
def certify_basin(
    network: Network,
    params: Mapping[str, ArrayLike],
    data: AnyDataset,
    *,
    start: Mapping[str, ArrayLike] | None = None,
    distance: float | None = None,
    level: Level = "enclosed",
    sharp: bool = False,
    step_size: float | None = None,
    share: float = 1.0,
    target_loss: float = 1e-12,
    about: Mapping[str, Any] | None = None,
) -> Attempt:
    r"""Try to prove that gradient descent converges from *every* start near `params`, or from one `start`.

    Theorem 4: with $c = 2 - \eta b^2$ and $\kappa = \Lambda D / (s - \Lambda F)$ it does if
    $2 \kappa^2 < (1 - \kappa)(c - (1 + c/2) \kappa)$, and each step multiplies the distance to the zeros by at most
    $q$, $q^2 = 1 - \eta \sigma^2 (1 - \kappa/2)(c - (1 + c/2) \kappa)$. For all starts within $d$ the nearest zero is
    at most $D = d + 2\rho/s$ away, and $F = 2d + 2\rho/s$ from `params`.

    Parameters
    ----------
    params
        The anchor: weights that fit to rounding (`polish`). With a `start`, those that `nearest` finds for it.
    start
        Prove it for this start only; it may be farther away, and should differ from `params` across the zeros.
    distance
        How far from `params` the starts may be; by default about 0.8 times the largest with a proof.
    step_size
        Certify this one; by default `share` times $1/b^2$. Smaller steps allow larger distances.
    target_loss
        The loss for which steps are counted.
    level
        `"enclosed"` bounds every rounding error; `"float64"` is faster and proves nothing.
    sharp
        Spend a pass and some spectral norms for each example on sharper Lipschitz constants.

    Examples
    --------
    >>> from wideproof.certificates.polishing import polish
    >>> from wideproof.data import Dataset
    >>> from wideproof.networks import FullyConnected
    >>> network = FullyConnected(input_dim=3, width=64, depth=1)
    >>> data = Dataset(np.eye(3), np.array([1.0, -1.0, 1.0]), "binary")
    >>> near = polish(network, network.init(0), data.x, data.y).params
    >>> found = certify_basin(network, near, data)
    >>> found.passed, found.certificate.claims["d"] > 0.05
    (True, True)
    """
    if start is not None and distance is not None:
        raise InputError("a start has its own distance: leave `distance` out")
    ground = prepare(network, params, data, level=level, sharp=sharp, about=about)
    if isinstance(ground, Attempt):
        return ground
    options: dict[str, Any] = {"step_size": step_size, "share": share, "epsilon": target_loss}
    if start is not None:
        return _from_start(ground, start, options)
    if distance is not None:
        claims = find_basin(ground, distance, **options)
    else:
        top = 0.25 * ground.anchor.s / max(ground.constant(ground.near), 1e-300)
        claims = farthest(lambda d: find_basin(ground, d, **options), top)
    if claims is None:
        return ground.failed(distance)
    return ground.attempt("basin", claims, _summary(ground, claims, f"every start within {claims['d']:.4g} of"))


def _from_start(ground: Ground, start: Mapping[str, ArrayLike], options: dict[str, Any]) -> Attempt:
    network, graph = ground.network, ground.network.graph
    begun = {name: np.asarray(start[name]) for name in graph.trained}
    fixed = [name for name in ground.params if name not in begun and name in start]
    if any(not np.array_equal(np.asarray(start[name]), ground.params[name]) for name in fixed):
        raise InputError("the start differs from the anchor in weights that are not trained")
    gap = {name: begun[name] - ground.params[name] for name in graph.trained}
    found = nearest(network, ground.params | begun, ground.groups.x, ground.groups.y, start=ground.params, steps=1)
    d = length(gap) * UP
    if found is None:
        return ground.failed(d, 0.5)
    back = pulled(network, ground.params, ground.groups.x, found.normal)
    t = length({name: gap[name] - back[name] for name in graph.trained}) * (1 + 1e-6) + 1e-11 * d
    claims = find_basin(ground, d, along=t, **options)
    if claims is None:
        return ground.failed(d, 0.5)
    rows = found.normal.reshape(ground.groups.n, -1).T  # a verifier has outputs first
    claims |= {"t": t, "normal": rows.ravel().tolist()}
    return ground.attempt("basin", claims, _summary(ground, claims, "the stored start, next to"), begun)


def _summary(ground: Ground, claims: dict[str, Any], begun: str) -> str:
    where = ground.about.get("anchor", "these weights")
    return (
        f"gradient descent on the squared loss of {ground.data.name} ({ground.data.n} examples) with step size "
        f"{claims['eta']:.4g}, from {begun} {where} of {ground.network}, converges to a global minimum. Every step "
        f"takes at least the share {claims['rate']:.3g} off the distance to the nearest one, no iterate is farther "
        f"than {claims['radii'][0]:.3g} away, and the loss is within {claims['epsilon']:.3g} of the least after "
        f"{claims['steps']} steps."
    )
