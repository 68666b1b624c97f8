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
from typing import Any, NamedTuple

import numpy as np
from jax.typing import ArrayLike

from wideproof.certificates.arguments import checked
from wideproof.certificates.attempt import Attempt, Level, Obstacle
from wideproof.certificates.basins import DOWN, UP, Ground, prepare
from wideproof.certificates.lengths import length
from wideproof.certificates.polishing import regularized
from wideproof.data import AnyDataset
from wideproof.networks import Network

RADII = 40  # tried


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


@checked
def certify_ridge(
    network: Network,
    params: Mapping[str, ArrayLike],
    data: AnyDataset,
    *,
    decay: float,
    centre: Mapping[str, ArrayLike] | None = None,
    distance: float | None = None,
    step_size: float | None = None,
    level: Level = "enclosed",
    sharp: bool = False,
    target_loss: float = 1e-12,
    about: Mapping[str, Any] | None = None,
) -> Attempt:
    r"""Try to prove that gradient descent with weight decay converges from every start near `params`.

    The loss is $\tfrac12 \sum \|f - y\|^2 + \tfrac{\lambda}{2} \|\theta - \theta_c\|^2$, over all rows and all trained
    weights. Where it ends is the only stationary point in a ball, and the least there; where weights outside cannot
    have a smaller loss, it is the global minimum over all weights, and the certificate says so (`reach`).

    Parameters
    ----------
    params
        The anchor: weights near a stationary point of this loss (`polish_ridge`).
    decay
        $\lambda$; it must outweigh the curvature, about $\Lambda \|r\|$.
    centre
        $\theta_c$, the weights that decay pulls towards: by default zero, often the initialization.
    distance
        How far from `params` the starts may be, at least; by default the ball with a global minimum if there is a proof
        for it, or else the one that leaves the most room.
    step_size
        Certify this one; by default the one with the best rate.
    target_loss
        How far above its least value the regularized loss may be, for which steps are counted.
    level
        `"enclosed"` bounds every rounding error; `"float64"` is faster and proves nothing.
    sharp
        Spend a pass and some spectral norms for each example on sharper Lipschitz constants.

    Examples
    --------
    >>> from wideproof.certificates.polishing import polish_ridge
    >>> from wideproof.data import Dataset
    >>> from wideproof.networks import FullyConnected
    >>> network = FullyConnected(input_dim=3, width=64, depth=1, trained=("hidden",))
    >>> data = Dataset(np.eye(3)[[0, 1, 2, 0]], np.array([1.0, -1.0, 1.0, -1.0]), "binary")  # rows 0 and 3 contradict
    >>> first = network.init(0)
    >>> near = polish_ridge(network, first, data.x, data.y, decay=1.0, centre=first).params
    >>> found = certify_ridge(network, near, data, decay=1.0, centre=first)
    >>> found.passed, "reach" in found.certificate.claims
    (True, True)
    """
    ground = prepare(network, params, data, level=level, sharp=sharp, about=about, singular=True)
    if isinstance(ground, Attempt):
        return ground
    middle = _centre(ground, centre)
    gaps = {name: ground.params[name] - weight for name, weight in middle.items()}
    size = length(gaps)
    slope = regularized(network, ground.params, data.x, data.y, decay, middle).size
    gamma = slope * (1 + 1e-6) + 1e-9 * (ground.anchor.S * ground.rho + decay * size)  # room for its rounding
    reach = (size + math.sqrt((ground.rho**2 + decay * size**2) / decay)) * (1 + 1e-7)
    claims = _find(ground, decay, gamma, reach, distance, step_size)
    if claims is None:
        return _failed(ground, decay, gamma, distance, step_size, centre is not None)
    left = claims["ell"] * ((claims["radii"][0] + gamma / claims["mu"]) * UP) ** 2 / 2
    many = math.log(max(left / target_loss, 1)) / (-2 * math.log1p(-claims["rate"])) if claims["rate"] < 1 else 0
    claims |= {"epsilon": target_loss, "steps": math.ceil(many * UP) + 1}
    if reach <= claims["radii"][0]:
        claims["reach"] = reach
    return ground.attempt(
        "ridge", claims, _summary(ground, claims, centre is not None), centre=middle if centre is not None else None
    )


def _centre(ground: Ground, centre: Mapping[str, ArrayLike] | None) -> dict[str, np.ndarray]:
    names = ground.network.trained_names
    return {name: 0 * ground.params[name] if centre is None else np.asarray(centre[name]) for name in names}


def _find(
    ground: Ground, decay: float, gamma: float, reach: float, distance: float | None, step_size: float | None
) -> dict[str, Any] | None:
    """Look for a ball: the given one or a larger one; or one with a global minimum; or the one with most room."""
    a, best, room = ground.anchor, None, -math.inf
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
    return {
        "S": a.S, "rho": ground.rho, "radii": [radius], "lipschitz": [constant], "decay": decay, "gamma": gamma,
        **found._asdict(),
    }  # fmt: skip


def _failed(
    ground: Ground, decay: float, gamma: float, distance: float | None, step_size: float | None, centred: bool
) -> Attempt:
    """Say which of decay, gradient, distance and step size is in the way."""
    a = ground.anchor
    if step_size is not None and (safe := _find(ground, decay, gamma, 0.0, distance, None)) is not None:
        end = 2 / safe["ell"]
        reason = f"the step size {step_size:.4g} must be below about 2/ℓ = {end:.4g}; {safe['eta']:.4g} is certified"
        advice = ("leave step_size out, or use a smaller one",)
        return Attempt(a, None, Obstacle("step size", step_size, safe["eta"], reason, advice))
    if distance is not None and (safe := _find(ground, decay, gamma, 0.0, None, step_size)) is not None:
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
        f"the weight decay {decay:.3g} does not outweigh the curvature Λρ = {bend:.3g} (residual ρ = {ground.rho:.3g}, "
        f"Lipschitz constant Λ = {constant:.3g})"
    )
    other = () if centred else ("decay towards the initialization (`centre`)",)
    advice = (f"a decay of about {max(needed, bend):.2g}", *other, "use a wider network, or scale the targets down")
    return Attempt(a, None, Obstacle("decay", decay, max(needed, bend), reason, advice))


def _summary(ground: Ground, claims: dict[str, Any], centred: bool) -> str:
    where = ground.about.get("anchor", "these weights")
    what = "the global minimum of that" if "reach" in claims else "the only stationary point that near, the least there"
    return (
        f"gradient descent on the squared loss of {ground.data.name} ({ground.data.n} examples) with the weight decay "
        f"{claims['decay']:.4g} towards {'the centre' if centred else 'zero'} and step size {claims['eta']:.4g}, from "
        f"every start within {claims['radii'][0]:.4g} of {where} of {ground.network}, converges to {what}. Every step "
        f"takes at least the share {claims['rate']:.3g} off the distance to it, and the loss is within "
        f"{claims['epsilon']:.3g} of its value there after {claims['steps']} steps."
    )
