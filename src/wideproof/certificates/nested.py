"""Theorem 1 on sets smaller than balls, for one hidden layer whose output weights are trained too."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from wideproof.certificates.anchor import Anchor
from wideproof.certificates.enclosure import UP
from wideproof.certificates.staircase import Staircase
from wideproof.networks import FullyConnected, Network


class NestedSets(NamedTuple):
    r"""What is known at the start of a network with one hidden layer whose output weights are trained too."""

    scale: float
    lipschitz: float
    smoothness: float
    inputs: float  # the spectral norm of all inputs
    longest: float  # the longest input
    largest: float  # the largest output weight
    row: float  # the largest norm of a unit's activations over the examples


def nested_sets(anchor: Anchor, network: Network, params: Mapping[str, np.ndarray]) -> NestedSets | None:
    """Return what the nested sets need, for one smooth hidden layer with one trained output; else `None`."""
    if not isinstance(network, FullyConnected) or network.depth != 1 or network.outputs != 1:
        return None
    if anchor.graph.trained != ("W1", "a") or anchor.graph.kinked:
        return None
    (node,), known = anchor.graph.layers, network.activation.known
    read = anchor.graph.read(0, node.terms[0])
    return NestedSets(
        node.scale, known.lipschitz, known.smoothness, anchor.all_inputs[read], float(anchor.inputs[read].max()),
        float(np.abs(params["a"]).max()), anchor.unit[0] / node.scale * UP,
    )  # fmt: skip


def climb_nested(
    rho: float, s: float, known: NestedSets, pull: float, off: float = 0.0, cells: int = 2000
) -> Staircase | None:
    r"""Look for radii at which Theorem 1 holds on sets in which every single output weight stays small.

    Along the path $|\delta a_j| \le \bar a$, from the time integral $\sum \eta \|r_k\| \le \int dt / (s - M)$.
    `pull` is what the step size leaves of s, and `off` how far the start may be from these weights.
    """
    q = known.scale * known.inputs * known.lipschitz
    p = known.scale * known.inputs * known.longest * known.smoothness
    step = 2 * rho / pull / cells
    m = whole = time = 0.0
    radii, constants, bounds = [], [], []
    cap = known.largest
    for j in range(1, 2 * cells + 1):
        t = j * step
        for _ in range(60):
            constant = (p * cap / 2 + math.hypot(p * cap / 2, q)) * (1 + 1e-12)
            next_m = m + constant * step
            if not next_m < pull:
                return None
            next_time = time + step / (s - next_m)
            moved = min(t, off + known.scale * cap * known.lipschitz * known.inputs * next_time)
            needed = off + known.scale * (known.row + known.lipschitz * known.inputs * moved) * next_time
            wanted = (known.largest + min(t, needed)) * (1 + 1e-9)
            if cap > wanted * (1 - 1e-10):
                break
            cap = wanted * (1 + 1e-8)
        else:
            return None
        whole += m * step + constant * step * step / 2
        m, time = next_m, next_time
        radii.append(t)
        constants.append(constant)
        bounds.append(cap)
        if rho - pull * t + whole < -1e-12 * rho:
            return Staircase(tuple(radii), tuple(constants), tuple(bounds))
    return None
