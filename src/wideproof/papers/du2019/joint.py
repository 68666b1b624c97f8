r"""Theorem E.1 with all its variables, and the lemmas on starts as one event, constants frozen before."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from wideproof.papers.du2019.hypotheses import growth_constant
from wideproof.papers.du2019.lab import PIXELS, Kind, Lab
from wideproof.papers.du2019.recursion import Recursion
from wideproof.papers.frozen import DELTA, Clause, Trials


class Drawn(NamedTuple):
    """Features of a start, their limits, and the right side of Theorem E.1 without its constant."""

    features: list[np.ndarray]
    limit: Recursion
    right: float


def drawn(lab: Lab, size: tuple[Kind, int, int], draw: int) -> Drawn:
    r"""Draw a start; $\mathcal{E}$ is $C^H$ without skips, $C$ of Lemma B.1, and free of depth with them (E.7)."""
    kind, width, depth = size
    network, x = lab.network(kind, width, depth), lab.data(kind).x
    features = lab.features(network, lab.draw(network, "joint", draw), x)
    grown = growth_constant(network.activation) ** (depth - 1) if kind == "fully-connected" else 1.0
    positions = PIXELS if kind == "conv-residual" else 1
    right = grown * math.sqrt(math.log(depth * len(x) * positions / DELTA) / width)
    return Drawn(features, lab.limit(network, x), right)


def covariances(one: Drawn) -> tuple[np.ndarray, float]:
    r"""Return $\|\frac1m \sum X_i X_j - K^{(h)}_{ij}\|_\infty$ for every layer."""
    found = []
    for h, layer in enumerate(one.features, 1):
        pixels = layer.reshape(*layer.shape[:2], -1)
        found.append(np.abs(np.einsum("icl,jcr->ijlr", pixels, pixels) - one.limit.covariances[h]).max())
    return np.array(found), one.right


def means(one: Drawn) -> tuple[np.ndarray, float]:
    r"""Return $\|\frac1m \sum X_i - b^{(h)}_i\|_\infty$ for every layer."""
    found = []
    for h, layer in enumerate(one.features, 1):
        mean = math.sqrt(layer.shape[1]) * layer.reshape(*layer.shape[:2], -1).mean(axis=1)
        found.append(np.abs(mean - one.limit.means[h]).max())
    return np.array(found), one.right


def _trials(kind: Kind, small: tuple, large: tuple) -> Trials:
    sizes = [[(kind, *size) for size in group] for group in large]
    return Trials(
        f"du2019.theorem_e_1.{kind}", drawn,
        (
            Clause("E.18", "errors of covariances <= C E √(log(Hn max p/δ)/m)", covariances),
            Clause("E.19", "errors of means <= C E √(log(Hn max p/δ)/m)", means),
        ),
        small=[(kind, *size) for size in small], large=(sizes[0], sizes[1], sizes[2]), said="(m, H)",
    )  # fmt: skip


CLOSE = (
    _trials(
        "fully-connected", ((32, 1), (48, 2), (32, 2)),
        (((64, 3), (256, 2)), ((128, 4), (512, 2), (256, 6)), ((1024, 8), (4096, 2))),
    ),
    _trials(
        "residual", ((32, 2), (48, 3), (32, 4)),
        (((64, 8), (256, 4)), ((128, 16), (512, 4), (256, 8)), ((512, 32), (2048, 8))),
    ),
    _trials(
        "conv-residual", ((16, 2), (24, 3), (16, 4)),
        (((32, 6), (96, 3)), ((48, 8), (192, 3)), ((128, 16), (512, 4))),
    ),
)  # fmt: skip


def _run(lab: Lab, depth: int, draw: int) -> tuple[np.ndarray, float]:
    r"""Return $\|u(k+1) - u(k)\|^2/\|e(k)\|^2$ along a residual run of this depth, and $\eta^2n^2$.

    With $\|u(k+1) - u(k)\| \le C\eta n\|e(k)\|$ the lemma holds for $\eta \le c\lambda_0/n^2$, $c = 1/(8C^2)$.
    """
    data = lab.data("residual")
    eta = lab.lambda_0(lab.trainee("residual", depth), data.x) / (32 * data.n**2)
    run = lab.at_depth("residual", depth, eta, BLOCK, draw // BLOCK)[draw % BLOCK]
    outputs = run.records["outputs"]
    change = np.square(np.diff(outputs, axis=0)).sum(axis=1)
    return change / np.square(data.y - outputs[:-1]).sum(axis=1), eta**2 * data.n**2


BLOCK = 10
SPEED = Trials(
    "du2019.lemma_c_7", _run,
    (Clause("C.7", "‖u(k+1) - u(k)‖² <= C η²n²‖e(k)‖², one C for all depths", lambda found: found),),
    small=(4, 6), large=((8,), (8, 32), (8, 32)), said="H", delta=0.2, trials=(30, 60, 120), calibrated=10,
)  # fmt: skip
