r"""Gradient descent with weight decay, and with momentum.

Weight decay (Theorem 10): on the ball of radius R = t_1 around the stored weights ‖r‖ ≤ ρ + SR + ΛR²/2, so the second
derivative JᵀJ + decay + Σ r_i ∇²f_i of ½‖r‖² + ½ decay ‖θ − centre‖² lies between mu and ell. A step is a contraction
by q = max(1 − eta mu, eta ell − 1) there, and maps the ball into itself if eta gamma ≤ (1 − q) R.

Momentum (Theorem 9): Δ⁺ = β Δ − eta ∇L, θ⁺ = θ + Δ⁺, from Δ = 0. E = L + β‖Δ‖²/(2 eta) falls by (1 − β)‖Δ⁺‖²/(2 eta) or
more if eta ell ≤ 1 − β, and √E ≤ C1‖Δ⁺‖ + C2‖Δ‖ where σ_min(J) ≥ sigma.
"""

from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR
from typing import TYPE_CHECKING, Any

import numpy as np

from wideproof_verify.arithmetic import Balls, ball, norm, short
from wideproof_verify.basins import ground

if TYPE_CHECKING:
    from wideproof_verify.theorems import Proof


def ridge(p: "Proof") -> str:
    """Theorem 10: gradient descent on the loss with weight decay, from every start in the ball."""
    c, k, (anchor, _, r, _) = p.c, p.k, ground(p)
    radius, rise = p.radii[0], p.rises[0]
    p.positive("decay", "mu", "eta", "rate", "epsilon")
    bend = rise * (k.rho + k.S * radius + rise * radius * radius / 2)
    p.need("mu", k.mu, "≤", "decay − Λ (rho + S R + Λ R²/2)", k.decay - bend)
    p.need(
        "ell", k.ell, "≥", "(S + Λ R)² + decay + Λ (rho + S R + Λ R²/2)", (k.S + rise * radius) ** 2 + k.decay + bend
    )
    anchor.lean, seeds = False, anchor.weighted(r, 1)  # what is needed of J itself has been taken
    gradient = anchor.differentiate(seeds).gradient(seeds)
    centre = c.centre or {name: np.zeros_like(c.weights[name]) for name in c.network.trained}
    gaps = {name: anchor.lift(c.weights[name]) - anchor.lift(centre[name]) for name in c.network.trained}
    whole = norms([gradient[name] + k.decay * gap for name, gap in gaps.items()])
    p.need("gamma", k.gamma, "≥", "‖Jᵀr + decay (θ − centre)‖", whole)
    p.need("rate", k.rate, "≤", "eta mu", k.eta * k.mu)
    p.need("rate", k.rate, "≤", "2 − eta ell", 2 - k.eta * k.ell)
    p.need("eta gamma", k.eta * k.gamma, "≤", "rate R", k.rate * radius)
    left = (radius + k.gamma / k.mu) * (1 - k.rate) ** c.claims["steps"]
    p.need("ell (R + gamma/mu)² (1 − rate)^(2 steps) / 2", k.ell * left * left / 2, "≤", "epsilon", k.epsilon)
    what = "the only stationary point within that distance, where the regularized loss is least within it"
    if "reach" in c.claims:
        size = norms(gaps.values())
        all_ = size + ((k.rho * k.rho + k.decay * size * size) / k.decay).sqrt()
        p.need("reach", k.reach, "≥", "‖θ − centre‖ + √(2 L / decay)", all_)
        p.need("reach", k.reach, "≤", "R", radius)
        what = "the only global minimum of the regularized loss over all trained weights"
    value = c.claims["decay"]
    decay = f"{value}/2 times the squared distance of the trained weights from {'the centre' if c.centre else 'zero'}"
    far, most = (short(c.claims["radii"][0], way) for way in (ROUND_FLOOR, ROUND_CEILING))
    near = short(float((k.gamma / k.mu).upper()), ROUND_CEILING)
    return (
        f"Gradient descent with step size {c.claims['eta']} on the loss plus {decay}, from every start within {far} of "
        f"these weights, converges to {what}; it lies within {near} of these weights. Each step multiplies the "
        f"distance to it by at most 1 - {short(c.claims['rate'], ROUND_FLOOR)}, the weights stay within {most} of "
        f"these, and after {c.claims['steps']} steps the regularized loss is at most "
        f"{short(c.claims['epsilon'], ROUND_CEILING)} more than its value there."
    )


def norms(arrays: Any) -> Balls:
    """Return the norm of all arrays together."""
    return norm(np.array([ball(norm(a)) for a in arrays]))


THEOREMS: dict[str, Callable[[Any], str]] = {"ridge": ridge}
