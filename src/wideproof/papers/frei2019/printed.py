"""The network of Section 3 as printed, against the networks that the theorems are measured on."""

from __future__ import annotations

import numpy as np

from wideproof.papers.check import Check, at_most
from wideproof.papers.frei2019.lab import Lab
from wideproof.papers.printed import Text, logistic, outputs_agree, residual_relu
from wideproof.papers.study import kept

SMALL = 0.22  # of γ: the θL below which the proof of (C.5) goes through


def text(input_dim: int, width: int, depth: int) -> Text:
    r"""Return Section 3: $L + 1$ weights of variance $2/m$, trained, and $v = \pm 1$, fixed."""
    names = [f"W{layer}" for layer in range(1, depth + 2)]
    shapes = {name: (width if k else input_dim, width) for k, name in enumerate(names)}
    return Text({**shapes, "v": (width,)}, dict.fromkeys(names, 2 / width), frozenset(names), "v")


@kept
def trained(lab: Lab) -> list[Check]:
    r"""Compare a run's start, its losses, what it moved, and $\theta L$, with the text.

    The text asks for $\theta = 1/\Omega(L)$, and its proof for $\theta L \le 0.22\gamma$.
    """
    width, depth, data = lab.widths[0], lab.depth, lab.data()
    run, said = lab.run(width, 0), text(lab.input_dim, width, depth)
    network = lab.network(width)
    theta = SMALL * lab.margin() / depth  # the largest that the text allows
    parts = [at_most("θL, which the proof of (C.5) takes to be at most 0.22γ", network.theta * depth, theta * depth)]
    for when, params, found in (
        ("loss at the start", run.initial, run.records["loss"][0]),
        ("last loss", run.params, run.records["loss"][-1]),
    ):
        weights = [np.asarray(params[f"W{layer}"]) for layer in range(1, depth + 2)]
        outputs = residual_relu(weights, np.asarray(params["v"]), data.x, lab.theta_depth / depth)
        parts.append(outputs_agree(found, logistic(data.y * outputs), when))
    return [*said.start(run.initial), *parts, said.moved(run.initial, run.params)]
