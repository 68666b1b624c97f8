"""The network of Section 3 as printed, against the networks that the theorems are measured on."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from wideproof.papers.check import Check
from wideproof.papers.printed import Text, deep_relu, outputs_agree
from wideproof.papers.study import kept
from wideproof.papers.zou2018.lab import DIMENSION, Lab, margin_loss, values
from wideproof.training import Run

STARTS = 64, 3  # width and depth of the start that is looked at


def text(input_dim: int, width: int, depth: int) -> Text:
    r"""Return Section 3: $W_l \in \mathbb{R}^{m_{l-1} \times m_l}$ of variance $2/m_l$, trained; $v = \pm 1$, fixed."""
    sizes = [input_dim, *[width] * depth]
    shapes = {f"W{layer}": (sizes[layer - 1], sizes[layer]) for layer in range(1, depth + 1)}
    return Text({**shapes, "v": (width,)}, dict.fromkeys(shapes, 2 / width), frozenset(shapes), "v")


def formula(params: Mapping[str, np.ndarray], x: np.ndarray, depth: int) -> np.ndarray:
    """Return the outputs by (3.1)."""
    return deep_relu([np.asarray(params[f"W{k}"]) for k in range(1, depth + 1)], np.asarray(params["v"]), x)


@kept
def start(lab: Lab) -> list[Check]:
    """Compare a start as the statements draw it, and its outputs, with the text."""
    width, depth = STARTS
    params, seen = lab.start(width, depth, 0), lab.seen(width, depth, 0)
    outputs = outputs_agree(seen.outputs, formula(params, lab.data().x, depth), "at the start")
    return [*text(DIMENSION, width, depth).start(params), outputs]


def trained(lab: Lab, run: Run, loss: str) -> list[Check]:
    """Compare a run's start, its first and last loss, and what it moved, with the text."""
    width, depth = run.initial["W1"].shape[1], sum(name.startswith("W") for name in run.initial)
    said = text(DIMENSION, width, depth)
    first, last = (
        values(margin_loss(loss), run.data.y * formula(params, run.data.x, depth)).mean()
        for params in (run.initial, run.params)
    )
    found = run.records["loss"]
    return [
        *said.start(run.initial),
        outputs_agree(found[0], first, "loss at the start"),
        outputs_agree(
            1 + found[-1] / found[0], 1 + last / first, "1 + last loss over the first"
        ),  # a loss may end at 0
        said.moved(run.initial, run.params),
    ]
