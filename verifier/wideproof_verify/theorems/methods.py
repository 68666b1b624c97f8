r"""Gradient descent with weight decay, and with momentum.

Weight decay (Theorem 10): on the ball of radius R = t_1 around the stored weights ‖r‖ ≤ ρ + SR + ΛR²/2, so the second
derivative JᵀJ + decay + Σ r_i ∇²f_i of ½‖r‖² + ½ decay ‖θ − centre‖² lies between mu and ell. A step is a contraction
by q = max(1 − eta mu, eta ell − 1) there, and maps the ball into itself if eta gamma ≤ (1 − q) R.

Momentum (Theorem 9): Δ⁺ = β Δ − eta ∇L, θ⁺ = θ + Δ⁺, from Δ = 0. E = L + β‖Δ‖²/(2 eta) falls by (1 − β)‖Δ⁺‖²/(2 eta)
or more if eta ell ≤ 1 − β, and √(2E) ≤ (‖Δ⁺‖ + c‖Δ‖)/(sigma eta) with c = β + sigma √(β eta) if σ_min(J) ≥ sigma.
Adding up, Σ‖Δ‖ ≤ 2ρ(1 + c)/((1 − β) sigma); and E⁺ ≤ (1 − c − e)E + cE⁻ with e = (1 − β) eta sigma²/(1 + c).
"""

from decimal import ROUND_CEILING, ROUND_FLOOR

import numpy as np

from wideproof_verify.arithmetic import above, short
from wideproof_verify.certificate import Proof, theorem
from wideproof_verify.theorems.basins import REPEATED, ground, lengths
from wideproof_verify.theorems.starts import counted


@theorem("S rho radii lipschitz decay gamma mu ell eta rate epsilon steps", f"reach {REPEATED}")
def ridge(p: Proof) -> str:
    """Theorem 10: gradient descent on the loss with weight decay, from every start in the ball."""
    c, k = p.c, p.k
    ground(p)
    anchor, radius, rise = p.anchor, p.radii[0], p.rises[0]
    p.positive("decay", "mu", "eta", "rate", "epsilon")
    bend = rise * (k.rho + k.S * radius + rise * radius * radius / 2)
    p.need("mu", k.mu, "≤", "decay − Λ (rho + S R + Λ R²/2)", k.decay - bend)
    p.need(
        "ell", k.ell, "≥", "(S + Λ R)² + decay + Λ (rho + S R + Λ R²/2)", (k.S + rise * radius) ** 2 + k.decay + bend
    )
    anchor.lean, seeds = False, anchor.weighted(p.r, 1)  # what is needed of J itself has been taken
    gradient = anchor.differentiate(seeds).gradient(seeds)
    centre = c.centre or {name: np.zeros_like(c.weights[name]) for name in c.network.trained}
    gaps = {name: p.ops.lift(c.weights[name]) - p.ops.lift(centre[name]) for name in c.network.trained}
    whole = lengths(p, [gradient[name] + k.decay * gap for name, gap in gaps.items()])
    p.need("gamma", k.gamma, "≥", "‖Jᵀr + decay (θ − centre)‖", whole)
    p.need("rate", k.rate, "≤", "eta mu", k.eta * k.mu)
    p.need("rate", k.rate, "≤", "2 − eta ell", 2 - k.eta * k.ell)
    p.need("eta gamma", k.eta * k.gamma, "≤", "rate R", k.rate * radius)
    left = (radius + k.gamma / k.mu) * (1 - k.rate) ** c.claims["steps"]
    p.need("ell (R + gamma/mu)² (1 − rate)^(2 steps) / 2", k.ell * left * left / 2, "≤", "epsilon", k.epsilon)
    what = "the only stationary point within that distance, where the regularized loss is least within it"
    if "reach" in c.claims:
        size = lengths(p, gaps.values())
        all_ = size + ((k.rho * k.rho + k.decay * size * size) / k.decay).sqrt()
        p.need("reach", k.reach, "≥", "‖θ − centre‖ + √(2 L / decay)", all_)
        p.need("reach", k.reach, "≤", "R", radius)
        what = "the only global minimum of the regularized loss over all trained weights"
    value, exact = c.claims["decay"], c.claims["radii"][0]  # not rounded: the only one in this very ball
    decay = f"{value}/2 times the squared distance of the trained weights from {'the centre' if c.centre else 'zero'}"
    most = short(c.claims["radii"][0], ROUND_CEILING)
    near = short(above(k.gamma / k.mu), ROUND_CEILING)
    return (
        f"Gradient descent with step size {c.claims['eta']} on the loss plus {decay}, from every start within {exact} "
        f"of these weights, converges to {what}; it lies within {near} of these weights. Each step multiplies the "
        f"distance to it by at most 1 - {short(c.claims['rate'], ROUND_FLOOR)}, the weights stay within {most} of "
        f"these, and after {counted(p)} the regularized loss is at most "
        f"{short(c.claims['epsilon'], ROUND_CEILING)} more than its value there."
    )


@theorem("s S rho radii lipschitz momentum sigma ell eta rate epsilon steps", REPEATED)
def momentum(p: Proof) -> str:
    """Theorem 9: gradient descent with momentum, started at the stored weights without a velocity."""
    c, k = p.c, p.k
    ground(p)
    radius, rise, beta = p.radii[0], p.rises[0], p.k.momentum
    p.positive("sigma", "eta", "rate", "epsilon")
    p.need("momentum", beta, "≥", "0", 0)
    p.need("momentum", beta, "<", "1", 1)
    p.need("sigma", k.sigma, "≤", "s − Λ R", k.s - rise * radius)
    p.need("ell", k.ell, "≥", "(S + Λ R)² + Λ rho", (k.S + rise * radius) ** 2 + rise * k.rho)
    p.need("eta ell", k.eta * k.ell, "≤", "1 − momentum", 1 - beta)
    drag = beta + k.sigma * (beta * k.eta).sqrt()
    path = 2 * k.rho * (1 + drag) / ((1 - beta) * k.sigma)
    p.need("2 rho (1 + c) / ((1 − momentum) sigma)", path, "<", "R", radius)
    gain = (1 - beta) * k.eta * k.sigma * k.sigma / (1 + drag)
    p.need("rate", k.rate, "<", "1", 1)  # 1 − rate is not below the positive root of t² = (1 − c − e) t + c
    p.need("e − (1 + c + e) rate + rate²", gain - (1 + drag + gain) * k.rate + k.rate * k.rate, "≥", "0", 0)
    most = (1 + drag / (1 - k.rate)) * (1 - k.rate) ** c.claims["steps"] * k.rho * k.rho / 2
    p.need("(1 + c/(1 − rate)) (1 − rate)^steps rho²/2", most, "≤", "epsilon", k.epsilon)
    first, extra = above(1 + drag / (1 - k.rate)), " more than that least loss" if p.rows.clash else ""
    goal = "the least loss that any function of the inputs has" if p.rows.clash else "zero loss"
    how, rate = f"momentum {c.claims['momentum']} and step size {c.claims['eta']}", short(c.claims["rate"], ROUND_FLOOR)
    end, loss = (short(value, ROUND_CEILING) for value in (c.claims["radii"][0], c.claims["epsilon"]))
    return (
        f"Gradient descent with {how} (Δ ← momentum Δ − step size ∇L, θ ← θ + Δ) from these weights with Δ = 0 "
        f"converges to {goal}: after k steps what the loss is above that is at most {short(first, ROUND_CEILING)} "
        f"(1 - {rate})^k times what it was at first, the weights move by less than {end}, and after "
        f"{counted(p)} the loss is at most {loss}{extra}."
    )
