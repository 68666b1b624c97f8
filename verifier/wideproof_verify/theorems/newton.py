r"""Gauss–Newton with shortest whole steps from the stored weights: Kantorovich's theorem for surjective J (Theorem 13).

θ⁺ = θ − J⁺r. After a step of length δ ‖r⁺‖ ≤ Λδ²/2, and σ_min(J) ≥ s − Λt at the distance t. So the steps are no longer
than those of Newton's method for s(D − t) + Λt²/2 from t = 0, which climb to 2D / (1 + √(1 − 2ΛD/s)) and not beyond.
"""

from decimal import ROUND_CEILING

from flint import arb  # pyright: ignore[reportAttributeAccessIssue]

from wideproof_verify.arithmetic import short
from wideproof_verify.certificate import Proof, theorem
from wideproof_verify.refusals import require
from wideproof_verify.theorems.basins import REPEATED, ground
from wideproof_verify.theorems.descent import NEWTON, _newton
from wideproof_verify.theorems.starts import counted

MOST_STEPS = 100  # of a method that squares the residual


@theorem(f"s rho radii lipschitz {NEWTON} sigma square epsilon steps", REPEATED)
def newton(p: Proof) -> str:
    """Theorem 13: existence nearby (Theorem 2), and that Gauss–Newton finds it."""
    c, k = p.c, p.k
    require(c.claims["steps"] <= MOST_STEPS, f"there are more than {MOST_STEPS} steps")
    ground(p)
    _newton(p)
    rise = p.rises[0]
    p.positive("sigma", "epsilon")
    p.need("sigma", k.sigma, "≤", "s − Λ newton_radius", k.s - rise * k.newton_radius)
    p.need("square", k.square, "≥", "Λ / (2 sigma²)", rise / (2 * k.sigma * k.sigma))
    far, step, left = arb(0), k.D, k.rho
    for _ in range(c.claims["steps"]):
        far, left = far + step, rise * step * step / 2
        step = left / (k.s - rise * far)
    p.need("‖r‖ after the steps", left, "≤", "√(2 epsilon)", (2 * k.epsilon).sqrt())
    goal, means, extra = "zero loss", "", ""
    if p.rows.clash:
        goal, means = "the least loss that any function of the inputs has", " from the means of equal rows"
        extra = " more than that least loss"
    moved, square, loss = (short(c.claims[name], ROUND_CEILING) for name in ("newton_radius", "square", "epsilon"))
    return (
        "Gauss–Newton with whole steps (θ ← θ + Δ, of all Δ that minimize ‖f − y + JΔ‖ the shortest) from these "
        f"weights converges to {goal}: the weights stay within {moved} of these, each step takes the residual{means} "
        f"to at most {square} times its square, and after {counted(p)} the loss is at most {loss}{extra}."
    )
