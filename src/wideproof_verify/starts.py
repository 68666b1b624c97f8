"""Claims from a start: the stored steps are followed to the stored weights, and there a theorem takes over."""

from decimal import ROUND_CEILING, ROUND_FLOOR
from typing import TYPE_CHECKING

import numpy as np

from wideproof_verify.arithmetic import Balls, above, arb, balls, norm, short, smaller
from wideproof_verify.following import LostError, follow
from wideproof_verify.graphs import require
from wideproof_verify.losses import Loss, contained

if TYPE_CHECKING:
    from wideproof_verify.theorems import Proof


def origin(p: "Proof", loss: arb | None = None) -> str:
    """Follow the steps from the start, if there is one, and say what begins where, and at which loss."""
    c, eta = p.c, p.c.claims["eta"]
    if c.start is None:
        return f"Gradient descent with step size {eta} from these weights"
    if c.start.batches is None:
        p.need("eta", p.k.eta, "≥", "step size of the start", c.start.step_size)
        p.need("eta", p.k.eta, "≤", "step size of the start", c.start.step_size)
    followed(p)
    there = "" if loss is None else f", where the loss is at most {short(above(loss), ROUND_CEILING)}{sides(p)}"
    again = "it" if c.start.batches is None else f"gradient descent with step size {eta}"
    return f"{course(p)} {led(p)}{there}, and from there {again}"


def entered(p: "Proof") -> str:
    """Follow the steps to within d, where a theorem about all starts takes over: both numbers as they are printed."""
    assert p.c.start is not None
    require("t" not in p.c.claims, "a basin is about one start, or about all that are near")
    far, near = short(p.c.start.distance, ROUND_CEILING), short(p.c.claims["d"], ROUND_FLOOR)
    p.need("distance", float(far), "≤", "d", float(near))
    followed(p)
    return f"{course(p)} {led(p)}."


def course(p: "Proof") -> str:
    """Say what is followed from where."""
    start = p.c.start
    assert start is not None
    said, order = "Gradient descent", ""
    if start.batches is not None:
        said, order = f"Stochastic {said.lower()}", f" and the stored order of batches of {start.batches.shape[1]}"
    return f"{said} with step size {start.step_size}{order}, started at the start weights,"


def led(p: "Proof") -> str:
    """Say where the steps end."""
    start = p.c.start
    assert start is not None
    return f"comes within {short(start.distance, ROUND_CEILING)} of these weights in {start.steps} steps"


def followed(p: "Proof") -> None:
    """The steps from the start end within the claimed distance of these weights."""
    c, start, loss = p.c, p.c.start, Loss(**p.c.loss)
    assert start is not None
    require("constant_sum" not in c.claims, "constant_sum is not for a proof from a start")
    signs = c.loss["name"] == "squared" or (np.abs(c.targets) == 1).all()
    require(signs, f"the targets of the {c.loss['name']} loss are not 1 and -1")
    try:
        p.tube = follow(c.network, c.weights, start, c.x, c.targets, loss)
    except LostError as error:
        p.refuse(str(error))
    apart = [norm(contained(p.tube.point[name]) - balls(c.weights[name])) for name in c.network.trained]
    off = norm(np.array(apart)) + p.tube.off
    if not off <= start.distance:
        text = f"the exact steps from the start end within {float(off):.6g} of these weights"
        p.refuse(f"{text}, claimed is {start.distance:.6g}")
    p.record("distance ≥ of the exact steps from these weights", True, start.distance, off)


def sides(p: "Proof", outputs: Balls = None) -> str:
    """Check the claimed margin after the steps, if there is one, and say it."""
    c = p.c
    if "margin" not in c.claims:
        return ""
    found = p.margins(p.tube.outputs(c.network, c.weights, c.x) if outputs is None else outputs)
    p.positive("margin")
    p.need("margin", p.k.margin, "≤", "least margin", smaller.reduce(found))
    return f", and every example is on the right side by at least {short(c.claims['margin'], ROUND_FLOOR)}"


def finite(p: "Proof") -> str:
    """The loss after the stored number of steps from the start, whatever comes later."""
    c, loss = p.c, Loss(**p.c.loss)
    assert c.start is not None
    followed(p)
    outputs = p.tube.outputs(c.network, c.weights, c.x)
    value = loss.value(outputs, c.targets)
    if not p.k.loss >= value:  # more bits here would repeat all steps, to the same end
        p.refuse(f"the loss after the steps is bounded by {float(value.upper()):.6g} only")
    p.need("loss", p.k.loss, "≥", "loss after the steps", value)
    most = short(c.claims["loss"], ROUND_CEILING)
    said = f"{course(p)} has a loss of at most {most} after {c.start.steps} steps"
    return f"{said}{sides(p, outputs)}. It {led(p)}."


THEOREMS = {"finite": finite}
