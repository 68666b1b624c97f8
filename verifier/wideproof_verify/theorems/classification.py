"""Labels: the logistic loss (Theorem 3), margins at the stored weights, and labels that no function fits."""

from decimal import ROUND_CEILING, ROUND_FLOOR
from typing import Any

import numpy as np
from flint import arb  # pyright: ignore[reportAttributeAccessIssue]

from wideproof_verify.arithmetic import balls, short, smaller
from wideproof_verify.bounds import Bounds
from wideproof_verify.certificate import Proof, theorem
from wideproof_verify.passes import Anchor
from wideproof_verify.refusals import require
from wideproof_verify.theorems.starts import counted, origin

CELLS = 4096  # of the integrals over losses


def _loss(p: Proof, margins: Any) -> None:
    """The mean logistic loss."""
    mean = sum((-m).exp().log1p() for m in margins) / p.n
    p.need("loss", p.k.loss, "≥", "mean log(1 + exp(−y f))", mean)


def right_rows(p: Proof, margins: Any) -> str:
    """Check how many rows are on the right side at least, if that is claimed, and say it."""
    if "right" not in p.c.claims:
        return ""
    right, wrong = (sum(1 for m in margins if holds(m)) for holds in (lambda m: m > 0, lambda m: m <= 0))
    count, n = p.c.claims["right"], len(p.c.x)
    require(0 <= count <= n, f"right is not one of 0 to {n}")
    p.record("right ≤ rows on the right side", True if count <= right else False if count > n - wrong else None,
             count, right)  # fmt: skip
    said = f"All {n} rows are" if count == n else f"At least {count} of {n} rows are"
    return f"{said} on the right side. "


def facts(p: Proof, outputs: Any) -> str:
    """Check how many rows are right and the least margin, where they are claimed, and say it."""
    margins = p.margins(outputs)
    said = right_rows(p, margins)
    if "margin" in p.c.claims:
        p.need("margin", p.k.margin, "≤", "least margin", smaller.reduce(margins))
        said += f"Every margin is at least {short(p.c.claims['margin'], ROUND_FLOOR)}. "
    return said


@theorem("margin", "loss_name loss right", losses=("logistic", "cross_entropy"))
def fit(p: Proof) -> str:
    """Loss and margin at the stored weights."""
    c, softmax = p.c, p.c.loss.name == "cross_entropy"
    single = len(c.targets) == 1
    require(not (softmax and single), "the cross-entropy is for several outputs")
    outputs = p.ops.balls(Anchor(c.network, c.weights, c.x, ops=p.ops).outputs)
    margins, valued = p.margins(outputs), single or softmax
    require(c.claims.get("loss_name") == (c.loss.name if valued else None), "loss_name does not fit the outputs")
    require(("loss" in c.claims) == valued, "a loss is claimed for one output, or of the softmax")
    p.need("margin", p.k.margin, "≤", "least margin", smaller.reduce(margins))
    if valued:
        p.need("loss", p.k.loss, "≥", str(c.loss), c.loss.value(outputs, c.targets))
    said = right_rows(p, margins)
    said += "The training error is zero. " if c.claims["margin"] > 0 else ""
    said += f"Every margin is at least {short(c.claims['margin'], ROUND_FLOOR)}."
    named = "softmax cross-entropy" if softmax else "logistic loss"
    return said + (f" The {named} is at most {short(c.claims['loss'], ROUND_CEILING)}." if valued else "")


@theorem(
    "s radii lipschitz loss epsilon c S R1 eta steps I1 I2", "margin", losses=("logistic",), start=True
)  # fmt: skip
def logistic(p: Proof) -> str:
    """Theorem 3, Θ(t) = st − ∫M and ψ(L) = max{(1 − 1/e) min(1, √n L), (1 − e^{−nL})/√n, 1 − e^{−L}}.

    Starts within `distance` have a loss of at most L = loss + b distance/√n, and the path is counted from there.
    Every |ℓ'| is at most q = 1 − e^{−nL}, all together at most P = (n q (1 − e^{−L}))^½, and ℓ'' ≤ q (1 − q) ≤ ¼.
    """
    c, k, n, off = p.c, p.k, p.n, p.off
    require(len(c.targets) == 1 and c.claims["R1"] in c.claims["radii"][:-1], "R1 is not a radius before the last")
    require(c.start is not None or "margin" not in c.claims, "a margin is claimed from a start only")
    p.anchor = Anchor(c.network, c.weights, c.x, ops=p.ops).differentiate()
    at, margins = c.claims["radii"].index(c.claims["R1"]) + 1, p.margins(p.ops.balls(p.anchor.outputs))
    p.bounds, p.g = Bounds(p.anchor, c.sharp), p.anchor.matrix()
    p.stairs()
    p.spectrum()
    p.lipschitz()
    _loss(p, margins)
    p.positive("epsilon", "c", "eta")
    p.need("epsilon", k.epsilon, "<", "loss", k.loss)
    p.need("c", k.c, "<", "1", 1)
    b, sigma = k.S + p.m[-1], k.s - p.m[at]
    most = k.loss + b * off / n.sqrt()
    ratio, left, first, second = (most / k.epsilon).root(CELLS), k.epsilon, arb(0), arb(0)
    for _ in range(CELLS):
        psi = (1 - arb(-1).exp()) * (n.sqrt() * left).min(arb(1))
        psi = psi.max(-(-n * left).expm1() / n.sqrt()).max(-(-left).expm1())
        first, second = first + left * (ratio - 1) / psi, second + left * (ratio - 1) / (psi * psi)
        left = left * ratio
    p.need("I1", k.I1, "≥", "∫dL/ψ", first)
    p.need("I2", k.I2, "≥", "∫dL/ψ²", second)
    q = -(-n * most).expm1()
    slope, q, far = (-n * q * (-most).expm1()).sqrt(), q.min(arb(0.5)), "R1" if off == 0 else "(R1 − distance)"
    beta = (q * (1 - q) * b * b + p.rises[-1] * slope) / n
    p.need("M_J", p.m[-1], "≤", "s", k.s)
    p.need("s − M(R1)", sigma, ">", "0", 0)
    p.need("n I1 / c", n * k.I1 / k.c, "≤", f"s {far} − ∫M", k.s * (k.R1 - off) - p.integral[at])
    p.need("t_J", p.radii[-1], "≥", "R1 + eta b P/n", k.R1 + k.eta * b * slope / n)
    p.need("eta", k.eta, "≤", "2(1 − c)/β", 2 * (1 - k.c) / beta)
    p.need("steps", k.steps, "≥", "n² I2 / (c eta σ²)", n * n * k.I2 / (k.c * k.eta * sigma * sigma))
    epsilon = short(c.claims["epsilon"], ROUND_CEILING)
    return (
        f"{origin(p, most)} lowers the mean logistic loss at every step until it is at most {epsilon}, after at most "
        f"{counted(p)}."
    )


@theorem("groups least_loss")
def impossible(p: Proof) -> str:
    """Equal inputs with different targets: no weights fit both."""
    c, least, groups = p.c, arb(0), p.c.claims["groups"]
    require(all(isinstance(group, list) for group in groups), "groups are not lists")
    members = [i for group in groups for i in group]
    right = all(type(i) is int and 0 <= i < len(c.x) for i in members) and len(set(members)) == len(members)
    require(right and min(map(len, groups), default=0) > 1, "groups are not disjoint lists of two or more examples")
    require(c.network.inputs == 1, "the theorem 'impossible' is not about sequences")
    for group in groups:
        same = all(np.array_equal(c.x[i], c.x[group[0]]) for i in group)
        p.record("inputs of a group are equal", same, 1, same)
        y = balls(c.targets[:, group])
        apart = y - np.broadcast_to(y.sum(axis=1, keepdims=True) / len(group), y.shape)
        least += (apart * apart).sum() / 2
    p.positive("least_loss")
    p.need("least_loss", p.k.least_loss, "≤", "½ Σ |y_i − mean|²", least)
    low = short(c.claims["least_loss"], ROUND_FLOOR)
    return f"Equal inputs have different targets: the loss is never below {low}."
