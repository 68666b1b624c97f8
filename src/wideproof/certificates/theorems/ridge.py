r"""Weight decay: gradient descent on $\tfrac12 \|r\|^2 + \tfrac{\lambda}{2} \|\theta - \theta_c\|^2$ converges.

On the ball of radius $R$ the residual is at most $\rho_R = \rho + S R + \Lambda R^2 / 2$, so the second derivative
$J^\top J + \lambda + \sum_i r_i \nabla^2 f_i$ lies between $\mu = \lambda - \Lambda \rho_R$ and
$\ell = (S + \Lambda R)^2 + \lambda + \Lambda \rho_R$. If $\mu > 0$ and the gradient at the anchor is at most $\mu R$,
steps of gradient descent are contractions of the ball. No eigenvalue has to be positive: rows may repeat, contradict
each other, and outnumber the weights. `docs/theory/certificates.md` has the proof (Theorem 10).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import NamedTuple, NotRequired, TypedDict

import numpy as np
from jax.typing import ArrayLike

from wideproof.certificates.attempt import Attempt, Obstacle
from wideproof.certificates.ground import DOWN, UP, Ground, Repeated, measure
from wideproof.certificates.lengths import length
from wideproof.certificates.polishing import regularized
from wideproof.certificates.setting import Setting
from wideproof.certificates.theorem import Theorem

RADII = 40  # tried


class Ball(TypedDict):
    """The claims about a ball."""

    S: float
    rho: float
    radii: list[float]
    lipschitz: list[float]
    decay: float
    gamma: float
    mu: float
    ell: float
    eta: float
    rate: float


class Claims(Ball, Repeated):
    """The claims of Theorem 10; with `reach` the limit is the global minimum over all weights."""

    epsilon: float
    steps: int
    reach: NotRequired[float]


class Contraction(NamedTuple):
    r"""What Theorem 10 concludes: bounds $\mu$, $\ell$ of the second derivative, and $1 - q$ for the step size."""

    mu: float
    ell: float
    eta: float
    rate: float


def contraction(
    rho: float, S: float, constant: float, radius: float, decay: float, gamma: float, eta: float | None = None
) -> Contraction | None:
    r"""Return what Theorem 10 concludes on the ball of `radius`, or `None` where its conditions fail.

    `gamma` is a bound of the gradient at the anchor; the step size is by default the best one, $2 / (\mu + \ell)$.

    >>> found = contraction(0.5, 1.0, 0.1, 1.0, 1.0, 0.5)
    >>> round(found.mu, 3), round(found.ell, 3), round(found.rate, 3)
    (0.845, 2.365, 0.526)
    >>> contraction(0.5, 1.0, 0.1, 1.0, 1.0, 0.9) is None
    True
    """
    bend = constant * (rho + S * radius + constant * radius**2 / 2) * UP
    mu, ell = (decay - bend) * DOWN, ((S + constant * radius) ** 2 + decay + bend) * UP
    if not (mu > 0 and math.isfinite(ell)):
        return None
    eta = 2 / (mu + ell) * DOWN if eta is None else eta
    rate = min(eta * mu, 2 - eta * ell) * DOWN
    if not (rate > 0 and eta * gamma * UP <= rate * radius):
        return None
    return Contraction(mu, ell, eta, rate)


@dataclass(frozen=True, eq=False)
class Ridge(Theorem[None]):
    r"""Gradient descent with weight decay converges from every start near the point.

    The loss is $\tfrac12 \sum \|f - y\|^2 + \tfrac{\lambda}{2} \|\theta - \theta_c\|^2$, over all rows and all trained
    weights. The limit is the only stationary point in a ball, and the minimum there. If weights outside the ball cannot
    have a smaller loss, it is the global minimum over all weights, and the certificate says so (`reach`). The point is
    near a stationary point of this loss (`polish_ridge`).

    Attributes
    ----------
    decay
        Weight decay $\lambda$; it must outweigh the curvature, about $\Lambda \|r\|$.
    centre
        $\theta_c$, the weights towards which decay pulls, by name: zero by default, often the initial weights.
    distance
        Minimum distance from the point that the starts may have; by default the ball with a global minimum if there is
        a proof for it, otherwise the ball that leaves the most slack.
    step_size
        Step size (learning rate) to certify; by default the one with the best rate.
    target_loss
        The regularized loss, above its least value, for which the certificate counts steps.

    Examples
    --------
    >>> from wideproof.certificates import Problem, certify, polish_ridge
    >>> from wideproof.data import Dataset
    >>> from wideproof.networks import FullyConnected
    >>> network = FullyConnected(input_dim=3, width=64, depth=1, trained=("hidden",))
    >>> data = Dataset(np.eye(3)[[0, 1, 2, 0]], np.array([1.0, -1.0, 1.0, -1.0]), "binary")  # rows 0 and 3 contradict
    >>> first = network.init(0)
    >>> near = polish_ridge(network, first, data.x, data.y, decay=1.0, centre=first).params
    >>> found = certify(Problem(network, data).at(near), Ridge(1.0, centre=first))
    >>> found.passed, "reach" in found.certificate.claims
    (True, True)
    """

    decay: float
    _: KW_ONLY
    centre: Mapping[str, ArrayLike] | None = field(default=None, repr=False)
    distance: float | None = None
    step_size: float | None = None
    target_loss: float = 1e-12

    def prove(self, setting: Setting) -> Attempt[None]:
        ground = measure(setting, singular=True)
        if isinstance(ground, Attempt):
            return ground
        decay, middle = self.decay, self._middle(ground)
        gaps = {name: ground.params[name] - weight for name, weight in middle.items()}
        size = length(gaps)
        slope = regularized(ground.network, ground.params, ground.data.x, ground.data.y, decay, middle).size
        gamma = slope * (1 + 1e-6) + 1e-9 * (ground.anchor.S * ground.rho + decay * size)  # room for its rounding
        reach = (size + math.sqrt((ground.rho**2 + decay * size**2) / decay)) * (1 + 1e-7)
        ball = self._find(ground, gamma, reach, self.distance, self.step_size)
        if ball is None:
            return self._failed(ground, gamma)
        left = ball["ell"] * ((ball["radii"][0] + gamma / ball["mu"]) * UP) ** 2 / 2
        many = math.log(max(left / self.target_loss, 1)) / (-2 * math.log1p(-ball["rate"])) if ball["rate"] < 1 else 0
        claims = Claims(**ball, epsilon=self.target_loss, steps=math.ceil(many * UP) + 1)
        if reach <= ball["radii"][0]:
            claims["reach"] = reach
        centre = None if self.centre is None else middle
        return ground.attempt("ridge", claims, _sentence(ground, claims, centre is not None), centre=centre)

    def _middle(self, ground: Ground) -> dict[str, np.ndarray]:
        names, centre = ground.network.trained_names, self.centre
        return {name: 0 * ground.params[name] if centre is None else np.asarray(centre[name]) for name in names}

    def _find(
        self, ground: Ground, gamma: float, reach: float, distance: float | None, step_size: float | None
    ) -> Ball | None:
        """Look for a ball: the given one or a larger one; or one with a global minimum; or the one with most room."""
        a, decay, best, room = ground.anchor, self.decay, None, -math.inf
        least = gamma / decay * UP
        tried = [distance] if distance else [reach]
        first = max(least, distance or 0.0, 1e-12)
        most = (decay / max(ground.constant(first), 1e-300) - ground.rho) / max(a.S, 1e-300)
        if most > first:
            tried += np.geomspace(first * (1 + 1e-6), min(most, 1e3 * max(reach, first)), RADII).tolist()
        for radius in tried:
            constant = ground.constant(radius)
            found = contraction(ground.rho, a.S, constant, radius, decay, gamma, step_size)
            if found is None or found.mu * radius - gamma <= room:
                continue
            best, room = (radius, constant, found), found.mu * radius - gamma
            if distance is not None or radius == reach:
                break
        if best is None:
            return None
        radius, constant, found = best
        return Ball(
            S=a.S, rho=ground.rho, radii=[radius], lipschitz=[constant], decay=decay, gamma=gamma, mu=found.mu,
            ell=found.ell, eta=found.eta, rate=found.rate,
        )  # fmt: skip

    def _failed(self, ground: Ground, gamma: float) -> Attempt[None]:
        """Say which of decay, gradient, distance and step size is in the way."""
        a, decay, distance, step_size = ground.anchor, self.decay, self.distance, self.step_size
        if step_size is not None and (safe := self._find(ground, gamma, 0.0, distance, None)) is not None:
            end = 2 / safe["ell"]
            reason = (
                f"the step size {step_size:.4g} must be below about 2/ℓ = {end:.4g}; {safe['eta']:.4g} is certified"
            )
            advice = ("leave step_size out, or use a smaller one",)
            return Attempt(a, None, Obstacle("step size", step_size, safe["eta"], reason, advice))
        if distance is not None and (safe := self._find(ground, gamma, 0.0, None, step_size)) is not None:
            most = safe["radii"][0]
            reason = f"the loss may bend too much within {distance:.3g} of these weights; {most:.3g} is certified"
            advice = ("use a smaller distance, or a larger decay",)
            return Attempt(a, None, Obstacle("distance", distance, most, reason, advice))
        constant = ground.constant(gamma / decay)
        bend = constant * ground.rho
        needed = min(
            ground.constant(radius) * (ground.rho + a.S * radius) + gamma / radius
            for radius in np.geomspace(1e-9, 1e3, 4 * RADII).tolist()
        )
        if decay > bend and gamma > 0:
            reason = (
                f"these weights are too far from a stationary point of the loss with weight decay {decay:.3g}: the "
                f"gradient there is {gamma:.3g} (curvature Λρ = {bend:.3g})"
            )
            advice = ("polish them first (`polish_ridge`)", f"a decay of about {needed:.2g}")
            return Attempt(a, None, Obstacle("gradient", gamma, 0.0, reason, advice))
        reason = (
            f"the weight decay {decay:.3g} does not outweigh the curvature Λρ = {bend:.3g} (residual ρ = "
            f"{ground.rho:.3g}, Lipschitz constant Λ = {constant:.3g})"
        )
        other = () if self.centre is not None else ("decay towards the initialization (`centre`)",)
        advice = (f"a decay of about {max(needed, bend):.2g}", *other, "use a wider network, or scale the targets down")
        return Attempt(a, None, Obstacle("decay", decay, max(needed, bend), reason, advice))


def _sentence(ground: Ground, claims: Claims, centred: bool) -> str:
    what = "the global minimum of that" if "reach" in claims else "the only stationary point that near, the least there"
    return (
        f"gradient descent on the squared loss of {ground.data.name} ({ground.data.n} examples) with the weight decay "
        f"{claims['decay']:.4g} towards {'the centre' if centred else 'zero'} and step size {claims['eta']:.4g}, from "
        f"every start within {claims['radii'][0]:.4g} of {ground.where} of {ground.network}, converges to {what}. "
        f"Every step takes at least the share {claims['rate']:.3g} off the distance to it, and the loss is within "
        f"{claims['epsilon']:.3g} of its value there after {claims['steps']} steps."
    )
