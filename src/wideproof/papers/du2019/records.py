"""What the laboratory of Du et al. (2019) hands out: moved weights, runs of gradient descent, draws of networks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from wideproof.monitors import trace
from wideproof.monitors.smooth import Constants, SmoothNetwork, blocks_of, second_order_change
from wideproof.training import Run

Params = dict[str, np.ndarray]


@dataclass(frozen=True)
class Moved:
    """A start, its constants, and the weights moved by `movement` times the root of the width, in one direction."""

    start: Params
    params: Params
    constants: Constants
    movement: float
    direction: str


@dataclass(frozen=True)
class Descent:
    r"""What one run of gradient descent recorded: $u(k)$, $G(k)e(k)$, gradient norms and the last hidden block."""

    run: Run
    y: np.ndarray
    constants: Constants

    @property
    def step_size(self) -> float:
        r"""The step size $\eta$."""
        return self.run.step_size

    @property
    def outputs(self) -> np.ndarray:
        r"""The outputs $u(0), u(1), \dots$"""
        return self.run.records["outputs"]

    @property
    def residuals(self) -> np.ndarray:
        r"""The residuals $e(k) = y - u(k)$."""
        return self.y - self.outputs

    @property
    def first_order(self) -> np.ndarray:
        r"""The products $G(k) e(k)$."""
        return self.run.records["first_order"]

    @property
    def second_order(self) -> np.ndarray:
        r"""The remainders $I_2(k)$."""
        return second_order_change(self.outputs, self.first_order, self.step_size)

    @property
    def blocks(self) -> np.ndarray:
        r"""The Gram blocks $G^{(H)}(k)$."""
        return self.run.records["block"]

    def gradients(self, name: str) -> np.ndarray:
        r"""Return $\|\nabla_W L(k)\|_F$ of one weight at every step."""
        return self.run.records[f"gradient.{name}"]


@dataclass(frozen=True)
class Finite:
    r"""Draws of networks, along the first axis: blocks $G^{(h)}$, $\frac1m\sum X_i X_j^\top$, $\frac1m\sum X_i$."""

    network: SmoothNetwork
    x: np.ndarray
    blocks: dict[str, np.ndarray]
    covariances: list[np.ndarray]
    means: list[np.ndarray]


def draws_of(network: SmoothNetwork, x: np.ndarray, starts: Iterable[Params]) -> Finite:
    """Trace every start and collect its Gram blocks, feature covariances and means."""
    blocks: dict[str, list] = {name: [] for name in network.laws()}
    covariances: list[list] = [[] for _ in range(network.depth)]
    means: list[list] = [[] for _ in range(network.depth)]
    for params in starts:
        seen = trace(network, params, x)
        for name, block in blocks_of(seen).items():
            blocks[name].append(block)
        for h, layer in enumerate(seen.features):
            pixels = layer.reshape(len(x), network.width, -1)
            covariances[h].append(np.einsum("icl,jcr->ijlr", pixels, pixels))
            means[h].append(np.sqrt(network.width) * pixels.mean(axis=1))
    stacked = {name: np.stack(values) for name, values in blocks.items()}
    return Finite(network, x, stacked, [np.stack(c) for c in covariances], [np.stack(b) for b in means])
