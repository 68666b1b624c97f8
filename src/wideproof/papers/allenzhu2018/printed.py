"""The recurrent network of Section 2 as printed, against the networks that the theorems are measured on."""

from __future__ import annotations

import numpy as np

from wideproof.papers.allenzhu2018.lab import Lab
from wideproof.papers.check import Check
from wideproof.papers.printed import Text, elman, outputs_agree
from wideproof.papers.study import kept
from wideproof.training import Run

WIDTH = 128  # of the start that is looked at


def text(features: int, width: int, outputs: int) -> Text:
    r"""Return Definition 2.3: $W$, $A$ of variance $2/m$ and $B$ of variance $1/d$; $W$ alone is trained."""
    shapes = {"W": (width, width), "A": (width, features), "B": (outputs, width)}
    return Text(shapes, {"W": 2 / width, "A": 2 / width, "B": 1 / outputs}, frozenset({"W"}))


@kept
def start(lab: Lab) -> list[Check]:
    """Compare a start as the statements draw it, its outputs unrolled and those of the network, with the text."""
    found = lab.start(WIDTH)
    params, x = found.params, found.data.x
    printed = elman(params["W"], params["A"], params["B"], x)
    return [
        *text(x.shape[-1], WIDTH, found.data.y.shape[-1]).start(params),
        outputs_agree(found.seen.outputs, printed, "unrolled"),
        outputs_agree(np.asarray(found.network(params, x)), printed, "at the start"),
    ]


def trained(run: Run) -> list[Check]:
    r"""Compare a run's start, its first and last loss $\frac12\sum_{\ell\ge2}$, and what it moved, with the text."""
    x, y = np.asarray(run.data.x), np.asarray(run.data.y)
    said, parts = text(x.shape[-1], len(run.initial["W"]), y.shape[-1]), []
    for when, params, found in (
        ("loss at the start", run.initial, run.records["loss"][0]),
        ("last loss over the first", run.params, run.records["loss"][-1]),
    ):
        w, a, b = (np.asarray(params[name]) for name in "WAB")
        outputs = elman(w, a, b, x)
        parts.append((when, found, 0.5 * np.square(outputs - y)[:, 1:].sum()))
    (when, first, printed), (later, last, then) = parts
    return [
        *said.start(run.initial),
        outputs_agree(first, printed, when),
        outputs_agree(1 + last / first, 1 + then / printed, later),
        said.moved(run.initial, run.params),
    ]
