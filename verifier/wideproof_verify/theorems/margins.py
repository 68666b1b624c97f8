r"""Margins that one direction raises: gradient descent on all trained weights (Theorem 12).

d are the margins of a row, own output minus another one, or y f; ω is the stored direction, of length 1. The mean loss
has ∇ℓ_i = −Σ p ∇d with Σ p = π_i = 1 − e^−ℓ_i, so with Π = mean π: ⟨−∇L, ω⟩ ≥ Π (γ − M), |∇L| ≤ aΠ, ∇²L ≤ Π (a² + Λ),
and (1 − e^−nL)/n ≤ Π ≤ 1 − e^−L. A margin's second derivatives are at most √2 ‖Q_i‖, with one output ‖Q_i‖.
"""

from decimal import ROUND_CEILING
from typing import Any

import numpy as np
from flint import arb  # pyright: ignore[reportAttributeAccessIssue]

from wideproof_verify.arithmetic import balls, larger, norm, root, short, smaller
from wideproof_verify.bounds import Bounds
from wideproof_verify.certificate import Proof, theorem
from wideproof_verify.passes import Anchor
from wideproof_verify.refusals import NotJudgedError, require
from wideproof_verify.theorems.classification import facts
from wideproof_verify.theorems.starts import counted

LARGEST = 1.25  # of nL_0 where steps grow: Φ(L)²/L increases while 2nL ≥ e^(nL) − 1


@theorem(
    "loss epsilon c gamma a radii lipschitz R1 steps", "right margin eta growth", losses=("logistic", "cross_entropy")
)  # fmt: skip
def margins(p: Proof) -> str:
    """Theorem 12, from the stored weights, all trained weights moving."""
    c, k, net = p.c, p.k, p.c.network
    require(net.inputs == 1, "the theorem 'margins' is not about sequences")
    require((c.loss.name == "logistic") == (net.outputs == 1), "logistic is for one output, cross_entropy for several")
    require(c.claims["R1"] in c.claims["radii"][:-1], "R1 is not a radius before the last")
    require(len({"eta", "growth"} & set(c.claims)) == 1, "either eta or growth is claimed")
    p.anchor = Anchor(net, c.weights, c.x, ops=p.ops).differentiate()
    if p.anchor.lean:
        raise NotJudgedError("there are too many rows for the gradients of all margins")
    outputs = p.ops.balls(p.anchor.outputs)
    said = facts(p, outputs)
    p.need("loss", k.loss, "≥", str(c.loss), c.loss.value(outputs, c.targets))
    p.positive("gamma", "a", "epsilon", "c", "steps")
    p.need("epsilon", k.epsilon, "<", "loss", k.loss)
    p.need("c", k.c, "<", "1", 1)
    p.bounds = Bounds(p.anchor, c.sharp)
    p.stairs()
    _measured(p)
    rule = _steps(p)
    most, least = (short(c.claims[name], ROUND_CEILING) for name in ("loss", "epsilon"))
    return (
        f"{said}At these weights {c.loss} is at most {most}. Gradient descent from these weights with {rule} lowers it "
        f"at every step until it is at most {least}, after at most {counted(p)}."
    )


def _measured(p: Proof) -> None:
    """What is needed at the weights and on the ball: γ, a and Λ."""
    c, k, one = p.c, p.k, p.c.network.outputs == 1
    length = norm(np.concatenate([balls(a).ravel() for a in (c.goal or {}).values()]))
    p.need("length of the direction", length, ">", "0", 0)
    slopes = _apart(p, p.ops.balls(p.anchor.along(c.goal or {})))
    p.need("gamma", k.gamma, "≤", "least growth of a margin", min_of(slopes) / length)
    if any(node.activation == "relu" for node in c.network.nodes):
        p.record("|z| > how far z can move in the ball of radius t_J", *p.bounds.sign(p.radii[-1]))
    apart, parts = arb(1) if one else arb(2).sqrt(), [np.array([i]) for i in range(len(c.x))]
    for j, (radius, rise) in enumerate(zip(p.radii, p.rises, strict=True), 1):
        bend = apart * larger.reduce(balls(p.bounds.parts(radius, parts)))
        p.need(f"Λ_{j}", rise, "≥", f"second derivatives of margins within t_{j}", bend)
    steep = [_steepest(p, i) for i in range(len(c.x))]
    p.need("a", k.a, "≥", "largest gradient of a margin + M_J", larger.reduce(balls(steep)) + p.m[-1])


def min_of(slopes: list[Any]) -> Any:
    """Return the least of all, row by row."""
    return smaller.reduce(balls([smaller.reduce(row) for row in slopes]))


def _apart(p: Proof, f: Any) -> list[Any]:
    """Return the own entry minus the others for every row; with one output y f."""
    y = p.c.targets
    if len(y) == 1:
        return [balls(y[:, i]) * f[:, i] for i in range(y.shape[1])]
    return [f[own, i] - balls(np.delete(np.asarray(f)[:, i], own)) for i, own in enumerate(y.argmax(axis=0))]


def _steepest(p: Proof, i: int) -> arb:
    """The largest gradient of a margin of row i at the stored weights, from its own block of JJᵀ."""
    g, rows = p.ops.balls(p.anchor.own(i)), p.c.network.outputs
    if rows == 1:
        return root(g[0, 0])
    own = int(p.c.targets[:, i].argmax())
    return root(larger.reduce(balls([g[own, own] - g[own, o] - g[o, own] + g[o, o] for o in range(rows) if o != own])))


def _steps(p: Proof) -> str:
    """Check the way and the steps, and return in words how large they are."""
    c, k, n = p.c, p.k, p.n
    at = c.claims["radii"].index(c.claims["R1"]) + 1
    sigma, bend = k.gamma - p.m[at], k.a * k.a + p.rises[-1]
    p.need("M_J", p.m[-1], "≤", "gamma", k.gamma)
    p.need("gamma − M(R1)", sigma, ">", "0", 0)
    first, last = (n * k.loss).expm1(), (n * k.epsilon).expm1()
    way = (first / last).log()
    p.need("c (gamma R1 − ∫M)", k.c * (k.gamma * k.R1 - p.integral[at]), "≥", "log((e^nL − 1)/(e^nε − 1))", way)
    most = -(-k.loss).expm1()
    if "growth" in c.claims:
        p.positive("growth")
        p.need("n loss", n * k.loss, "≤", "1.25", LARGEST)
        p.need("growth", k.growth, "≥", "(a² + Λ_J) / (2(1 − c))", bend / (2 * (1 - k.c)))
        p.need("t_J", p.radii[-1], "≥", "R1 + a/growth", k.R1 + k.a / k.growth)
        x = n * k.loss
        grown = (x / -(-x).expm1()) ** 2 * (k.loss / k.epsilon).log()
        p.need(
            "c gamma² steps / growth", k.steps * k.c * sigma * sigma / k.growth, "≥", "(x/(1 − e^−x))² log(L/ε)", grown
        )
        return f"step sizes 1 / ({c.claims['growth']} (1 − exp(−L))), L being its value before the step,"
    p.positive("eta")
    p.need("eta (a² + Λ_J)(1 − e^−L)", k.eta * bend * most, "≤", "2(1 − c)", 2 * (1 - k.c))
    p.need("t_J", p.radii[-1], "≥", "R1 + eta a (1 − e^−L)", k.R1 + k.eta * k.a * most)
    taken = n * (way + 1 / last - 1 / first)
    p.need("c eta gamma² steps", k.steps * k.c * k.eta * sigma * sigma, "≥", "n [log u − 1/u]", taken)
    return f"step size {c.claims['eta']}"
