r"""Starts near weights that fit: what the theorems about all of them have in common.

The anchor is nearly a zero of the residual: with $2 \Lambda \rho < s^2$ a zero lies within $2\rho/s$ of it. A start is
at most $D$ from its nearest zero, which is at most $F$ from the anchor. `docs/theory/certificates.md` has the proofs
(Theorems 4 to 10).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, NamedTuple, TypedDict, TypeVar

from wideproof.certificates.anchor import Anchor
from wideproof.certificates.attempt import Attempt, Obstacle
from wideproof.certificates.lipschitz import lipschitz
from wideproof.certificates.obstacles import contradiction, kink, no_eigenvalue
from wideproof.certificates.setting import Setting

UP, DOWN = 1 + 1e-9, 1 - 1e-9  # claims keep a little back, so that rounding never decides
ROUNDS, HALVINGS = 40, 60
VERIFY = "Run `wideproof verify` on this folder to have it proved by an independent program."

C = TypeVar("C", bound=Mapping[str, Any])


class Repeated(TypedDict, total=False):
    """What is claimed where inputs repeat: their number, and bounds of the least loss of any function of them."""

    distinct: int
    least_loss: float
    least_loss_at_most: float


class Near(TypedDict):
    """The claims that all theorems about starts near weights that fit share."""

    s: float
    S: float
    rho: float
    radii: list[float]
    lipschitz: list[float]
    near: float
    b: float
    eta: float
    d: float


@dataclass(frozen=True, eq=False)
class Ground(Setting):
    """A point that was measured."""

    anchor: Anchor = field(kw_only=True)

    @cached_property
    def constant(self) -> Callable[[float], float]:
        """The Lipschitz constant of the Jacobian on the ball of a radius."""
        return cache(lambda radius: lipschitz(self.anchor, radius).value)

    @property
    def rho(self) -> float:
        """The residual; never zero."""
        return max(self.anchor.residual, 1e-300)

    @property
    def near(self) -> float:
        r"""A zero lies within $2 \rho / s$."""
        return 2 * self.rho / self.anchor.s * UP

    def claims(self, radius: float, constant: float, eta: float, d: float) -> Near:
        """Return the claims that all these theorems share."""
        a = self.anchor
        return {
            "s": a.s, "S": a.S, "rho": self.rho, "radii": [radius], "lipschitz": [constant], "near": self.near,
            "b": (a.S + constant * radius) * UP, "eta": eta, "d": d,
        }  # fmt: skip

    @property
    def top(self) -> float:
        """A distance at which a search for the largest one may begin."""
        return 0.25 * self.anchor.s / max(self.constant(self.near), 1e-300)

    def fits(self, constant: float) -> bool:
        """Return whether a zero is known to be near."""
        return 2 * constant * self.rho < self.anchor.s**2 * DOWN

    def attempt(self, theorem: str, claims: Mapping[str, Any], summary: str, **weights: Any) -> Attempt[None]:
        """Return the certificate, or the unit of a piecewise linear network that is in the way."""
        blocked = kink(self.anchor, claims["radii"][0])
        if blocked is not None:
            return Attempt(self.anchor, None, blocked)
        if self.groups.repeated:
            low, high = self.groups.least_loss
            claims = {**claims, **Repeated(distinct=self.groups.n, least_loss=low, least_loss_at_most=high)}
        made = self.certificate(theorem, claims, f"Claim: {summary} {VERIFY}", **weights)
        return Attempt(self.anchor, made, None)

    def failed(self, distance: float | None, most: float = 0.25) -> Attempt[None]:
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


def measure(setting: Setting, *, singular: bool = False) -> Ground | Attempt[None]:
    """Measure the point, or say why there is nothing to be proved; a `singular` Gram matrix may do."""
    if setting.network.data_kind == "sequences" and not singular:
        impossible = contradiction(setting)
        if impossible is not None:
            return impossible
    anchor = setting.measured()
    obstacle = None if singular else no_eigenvalue(anchor, setting.groups.x)
    if obstacle is not None:
        return Attempt(anchor, None, obstacle)
    return Ground(setting.point, setting.level, setting.sharp, setting.about, anchor=anchor)


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


def farthest(found_at: Callable[[float], C | None], top: float) -> C | None:
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
