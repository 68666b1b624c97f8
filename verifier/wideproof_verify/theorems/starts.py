"""Claims from a start: the stored steps are followed to the stored weights, and there a theorem takes over.

One way of writing every update: θ ← θ − c Σ_(i in the batch) ∇ℓ_i, with c as it is.
"""

from decimal import ROUND_CEILING, ROUND_FLOOR
from typing import Any

import numpy as np
from flint import arb  # pyright: ignore[reportAttributeAccessIssue]

from wideproof_verify.arithmetic import above, short, smaller
from wideproof_verify.certificate import Proof, Start, theorem
from wideproof_verify.following import Tube, follow
from wideproof_verify.functions import MARGIN_LOSSES
from wideproof_verify.refusals import require


def stochastic(p: Proof, factor: str) -> str:
    """Write the update of stochastic gradient descent out."""
    loss = "½‖f − y‖²" if p.c.loss.pair is None else f"ℓ(y f), ℓ being the {p.c.loss.name} loss"
    times = " at the times from the second on" if p.c.network.times else ""
    return f"Stochastic gradient descent θ ← θ − {factor} · (sum over the batch of the gradients of {loss}{times})"


def counted(p: Proof, unit: str = "step") -> str:
    """Say how many steps are claimed; those that come after the ones from the start are more steps."""
    steps = p.c.claims["steps"]
    return f"{steps}{'' if p.c.start is None else ' more'} {unit}{'s' * (steps != 1)}"


def origin(p: Proof, loss: arb | None = None) -> str:
    """Follow the steps from the start, if there is one, and say what begins where, and at which loss."""
    c, eta = p.c, p.c.claims["eta"]
    if c.start is None:
        return f"Gradient descent with step size {eta} from these weights"
    if c.start.batches is None:
        p.need("eta", p.k.eta, "≥", "step size of the start", c.start.step_size)
        p.need("eta", p.k.eta, "≤", "step size of the start", c.start.step_size)
    tube = followed(p, c.start)
    there = "" if loss is None else f", where the loss is at most {short(above(loss), ROUND_CEILING)}{sides(p, tube)}"
    again = "it" if c.start.batches is None else f"gradient descent with step size {eta}"
    return f"{course(p, c.start)} {led(c.start)}{there}, and from there {again}"


def entered(p: Proof) -> str:
    """Follow the steps to within d, where a theorem about all starts takes over: both numbers as they are printed."""
    start = p.c.start
    assert start is not None
    require("t" not in p.c.claims, "a basin is about one start, or about all that are near")
    far, near = short(start.distance, ROUND_CEILING), short(p.c.claims["d"], ROUND_FLOOR)
    p.need("distance", float(far), "≤", "d", float(near))
    followed(p, start)
    return f"{course(p, start)} {led(start)}."


def course(p: Proof, start: Start) -> str:
    """Say what is followed from where."""
    if start.batches is None:
        return f"Gradient descent with step size {start.step_size}, started at the start weights,"
    size, rows = start.batches.shape[1], len(p.c.x)
    factor = f"{start.step_size} · {'1' if p.c.loss.mean else rows}/{size}"
    return f"{stochastic(p, factor)}, with the stored batches of {size} in their order, started at the start weights,"


def led(start: Start) -> str:
    """Say where the steps end."""
    steps = f"{start.steps} step{'s' * (start.steps > 1)}"
    return f"comes within {short(start.distance, ROUND_CEILING)} of these weights in {steps}"


def followed(p: Proof, start: Start) -> Tube:
    """The steps from the start end within the claimed distance of these weights."""
    c = p.c
    require("constant_sum" not in c.claims, "constant_sum is not for a proof from a start")
    signs = c.loss.pair is None or (np.abs(c.targets) == 1).all()
    require(signs, f"the targets of the {c.loss.name} loss are not 1 and -1")
    tube = follow(c.network, c.weights, start, c.x, c.targets, c.loss, p.ops)
    p.course, off = tube.course, tube.distance(c.weights)
    if not off <= start.distance:
        text = f"the exact steps from the start end within {float(off):.6g} of these weights"
        p.refuse(f"{text}, claimed is {start.distance:.6g}")
    p.record("distance ≥ of the exact steps from these weights", True, start.distance, off)
    return tube


def sides(p: Proof, tube: Tube, outputs: Any = None) -> str:
    """Check the claimed margin after the steps, if there is one, and say it."""
    c = p.c
    if "margin" not in c.claims:
        return ""
    found = p.margins(tube.outputs(c.network, c.weights, c.x, p.ops) if outputs is None else outputs)
    p.positive("margin")
    p.need("margin", p.k.margin, "≤", "least margin", smaller.reduce(found))
    return f", and every example is on the right side by at least {short(c.claims['margin'], ROUND_FLOOR)}"


@theorem("loss", "margin", losses=("squared", *MARGIN_LOSSES), start=True)
def finite(p: Proof) -> str:
    """The loss after the stored number of steps from the start, whatever comes later."""
    c, start = p.c, p.c.start
    assert start is not None
    tube = followed(p, start)
    outputs = tube.outputs(c.network, c.weights, c.x, p.ops)
    value = c.loss.value(outputs, c.targets)
    if not p.k.loss >= value:  # more bits here would repeat all steps, to the same end
        p.refuse(f"the loss after the steps is bounded by {float(value.upper()):.6g} only")
    p.need("loss", p.k.loss, "≥", "loss after the steps", value)
    most = short(c.claims["loss"], ROUND_CEILING)
    said = f"{course(p, start)} has a loss of at most {most} after {start.steps} step{'s' * (start.steps > 1)}"
    return f"{said}{sides(p, tube, outputs)}. It {led(start)}."
