r"""The read-out alone: its weights enter the outputs linearly, so that these losses are convex in them (Theorem 11).

f_i = V h_i + what is fixed, h_i the features of row i and a 1 where the bias is trained, H all of them as columns.
Hessians of the mean loss are at most w‖H‖²/n, and at most u max|h_i|² (1 − e^−L), with

    logistic        w = ¼, u = 1        ℓ'' = p (1 − p),  p = 1 − e^−ℓ
    cross_entropy   w = ½, u = 2        uᵀ(diag p − ppᵀ)u = Var_p(u) ≤ Σ p_c (u_c − u_y)² ≤ 2 (1 − p_y) |u|²
    squared         w = 1               (half_sum: without n)

With steps of at most the reciprocal of that, |V_k − U|² falls by 2η(L_{k+1} − L(U)) at least, for every U. With steps
1/(A(1 − e^−L_k)) that is (2/A)(L_{k+1}/L_k − L(U)/ε) while L > ε, and the ratios add up to K − log(L_0/ε) or more.
"""

from decimal import ROUND_CEILING
from typing import Any

import numpy as np
from flint import arb  # pyright: ignore[reportAttributeAccessIssue]

from wideproof_verify.arithmetic import short, smaller
from wideproof_verify.certificate import Proof, theorem
from wideproof_verify.passes import Anchor
from wideproof_verify.refusals import require
from wideproof_verify.theorems.classification import facts
from wideproof_verify.theorems.starts import counted

BENDS = {"logistic": (0.25, 1), "cross_entropy": (0.5, 2), "squared": (1, None)}


@theorem(
    "loss epsilon steps", "right margin eta growth separates", losses=("squared", "logistic", "cross_entropy")
)  # fmt: skip
def read_out(p: Proof) -> str:
    """Theorem 11: the loss at these weights, and how far gradient descent on the read-out alone takes it."""
    c, k, net, said = p.c, p.k, p.c.network, ""
    require(set(net.trained) <= {net.read_out, net.bias}, "more than the read-out is trained")
    require(net.inputs == 1, "the theorem 'read_out' is not about sequences")
    require(len({"eta", "growth"} & set(c.claims)) == 1, "either eta or growth is claimed")
    labels = c.loss.name != "squared"
    require(labels or not {"right", "margin", "growth", "separates"} & set(c.claims), "a claim is about labels")
    require(c.loss.name != "logistic" or net.outputs == 1, "the logistic loss is for one output")
    require(c.loss.name != "cross_entropy" or net.outputs > 1, "the cross-entropy is for several outputs")
    anchor = Anchor(net, c.weights, c.x, ops=p.ops)
    outputs, there = p.ops.balls(anchor.outputs), _outputs(p, anchor)
    if labels:
        said = facts(p, outputs)
    p.need("loss", k.loss, "≥", str(c.loss), c.loss.value(outputs, c.targets))
    at_goal = c.loss.value(there, c.targets)
    p.positive("epsilon", "steps")
    p.need("epsilon", k.epsilon, "<", "loss", k.loss)
    rule = _descent(p, anchor, at_goal)
    end = _ends(p, there)
    most, least = (short(c.claims[name], ROUND_CEILING) for name in ("loss", "epsilon"))
    return (
        f"{said}At these weights {c.loss} is at most {most}. Gradient descent on the read-out alone from these weights "
        f"with {rule} never raises it, and after {counted(p)} it is at most {least}{end}."
    )


def _outputs(p: Proof, anchor: Anchor) -> Any:
    """Return the outputs with the weights of the goal."""
    c, net = p.c, p.c.network
    at = {**c.weights, **(c.goal or {})}
    found = p.ops.product(p.ops.lift(at[net.read_out]), anchor.read[0])
    if net.bias is not None:
        found = found + np.broadcast_to(p.ops.lift(at[net.bias]), found.shape)
    return p.ops.balls(found)


def _features(p: Proof, anchor: Anchor) -> Any:
    """Return all that trained weights multiply, one column for each row."""
    net, rows = p.c.network, []
    if net.read_out in net.trained:
        rows.append(anchor.read[0])
    if net.bias in net.trained:
        rows.append(p.ops.lift(np.ones((1, anchor.n))))
    return np.concatenate(rows) if len(rows) > 1 else rows[0]


def _descent(p: Proof, anchor: Anchor, at_goal: arb) -> str:
    """Check the steps, and return in words how large they are."""
    c, k, h = p.c, p.k, _features(p, anchor)
    whole, each = BENDS[c.loss.name]
    aim = {**c.weights, **(c.goal or {})}
    far = sum(p.ops.apart(p.ops.lift(aim[name]), p.ops.lift(c.weights[name])) ** 2 for name in c.network.trained)
    longest = p.ops.most(h, (0,), 0) ** 2
    p.need("epsilon", k.epsilon, ">", "loss of the goal", at_goal)
    if "growth" in c.claims:
        p.need("growth", k.growth, ">", "0", 0)
        p.need("growth", k.growth, "≥", "u max|h|²", each * longest)
        needed = (k.growth * far / 2 + (k.loss / k.epsilon).log()) / (1 - at_goal / k.epsilon)
        name = "(growth |goal − weights|² / 2 + log(loss / epsilon)) / (1 − loss of the goal / epsilon)"
        p.need("steps", k.steps, "≥", name, needed)
        return f"step sizes 1 / ({c.claims['growth']} (1 − exp(−L))), L being its value before the step"
    size = p.ops.spectral_norm(h)
    beta = whole * size * size / (p.n if c.loss.mean else 1)
    if each is not None:
        beta = beta.min(-each * longest * (-k.loss).expm1())
    p.positive("eta")
    p.need("eta β", k.eta * beta, "≤", "1", 1)
    name = "|goal − weights|² / (2 eta (epsilon − loss of the goal))"
    p.need("steps", k.steps, "≥", name, far / (2 * k.eta * (k.epsilon - at_goal)))
    return f"step size {c.claims['eta']}"


def _ends(p: Proof, there: Any) -> str:
    """If the goal has every row right and outputs are linear in what is trained, multiples of it have any loss."""
    if "separates" not in p.c.claims:
        return ""
    net = p.c.network
    linear = net.read_out in net.trained and (net.bias is None or net.bias in net.trained)
    p.record("outputs are linear in the trained weights", linear, 1, linear)
    p.positive("separates")
    p.need("separates", p.k.separates, "≤", "least margin at the goal", smaller.reduce(p.margins(there)))
    return "; it tends to 0, the infimum over all weights of the network"
