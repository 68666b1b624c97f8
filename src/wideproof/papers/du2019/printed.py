r"""The networks of (2), (3) and Section 7 as printed, $c_\sigma$ by quadrature, against those that are measured."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from wideproof.networks import ConvResidual, FullyConnected, Network, Residual
from wideproof.papers.check import Check
from wideproof.papers.du2019.functions import FUNCTIONS
from wideproof.papers.printed import Text, outputs_agree
from wideproof.training import Run

PRINTED = FullyConnected | Residual | ConvResidual


class Layer(NamedTuple):
    r"""A layer of $X = \sqrt m\, x$: $X^{(h)} = [X^{(h-1)}] + \text{scale}\cdot\sigma(\cdot)$."""

    name: str
    scale: float
    skip: bool


def c_sigma(activation: str) -> float:
    r"""Return $c_\sigma = (\mathbb{E}_{N(0,1)}[\sigma(z)^2])^{-1}$, Section 3, by quadrature.

    Examples
    --------
    >>> round(c_sigma("identity"), 12)
    1.0
    """
    z, w = hermegauss(120)
    return float(w.sum() / (w @ FUNCTIONS[activation][0](z) ** 2))


def layers(network: Network) -> list[Layer]:
    r"""Return (2) or (3): $\sqrt{c_\sigma}$ in every layer without a skip, $c_{res}/H$ in those with one.

    Depth, activation and $c_{res}$ are the reader's choice; what is made of them is the text's.

    Examples
    --------
    >>> from wideproof.networks import Residual
    >>> [(layer.name, layer.skip) for layer in layers(Residual(3, 8, 2, c_res=0.5))], layers(Residual(3, 8, 2))[1].scale
    ([('W1', False), ('W2', True)], 0.25)
    """
    assert isinstance(network, PRINTED)
    depth, first = network.depth, Layer("W1", math.sqrt(c_sigma(network.activation.name)), False)
    if isinstance(network, FullyConnected):
        return [first._replace(name=f"W{h}") for h in range(1, depth + 1)]
    return [first, *(Layer(f"W{h}", network.c_res / depth, True) for h in range(2, depth + 1))]


def formula(network: Network, params: Mapping[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    r"""Return the outputs by the printed formula, one example and one layer after the other."""
    assert isinstance(network, PRINTED)
    sigma, found = FUNCTIONS[network.activation.name][0], []
    root, window = math.sqrt(network.width), network.filter_size if isinstance(network, ConvResidual) else 1
    for example in x:
        value = example.reshape(len(example), -1)
        for layer in layers(network):
            below = value
            value = layer.scale / root * sigma(np.asarray(params[layer.name]) @ gathered(below, window))
            if layer.skip:
                value = below + value
        found.append(float((np.asarray(params["a"]).reshape(value.shape) * value).sum()))
    return np.array(found)


def gathered(pixels: np.ndarray, window: int) -> np.ndarray:
    r"""Return $\phi(x)$ of Section 7: around each pixel the window, channel by channel, zeros beyond the edge."""
    reach = window // 2
    padded = np.pad(pixels, ((0, 0), (reach, reach)))
    rows = [padded[channel, o : o + pixels.shape[1]] for channel in range(len(pixels)) for o in range(window)]
    return np.array(rows)


def text(network: Network) -> Text:
    r"""Return what the text says of the weights: entries $N(0, 1)$, all trained."""
    assert isinstance(network, PRINTED)
    m = network.width
    if isinstance(network, ConvResidual):
        q, first, out = network.filter_size, network.channels, (m, network.pixels)
    else:
        q, first, out = 1, network.input_dim, (m,)
    shapes = {f"W{h}": (m, q * (m if h > 1 else first)) for h in range(1, network.depth + 1)}
    return Text({**shapes, "a": out}, {**dict.fromkeys(shapes, 1.0), "a": 1.0}, frozenset({*shapes, "a"}))


def trained(run: Run) -> list[Check]:
    """Compare a run's start, its outputs before and after, and what it moved, with the text."""
    network, data = run.network, run.data
    said, parts = text(network), []
    for when, params, found in (
        ("outputs at the start", run.initial, run.records["outputs"][0]),
        ("last outputs", run.params, run.records["outputs"][-1]),
    ):
        parts.append(outputs_agree(found, formula(network, params, np.asarray(data.x)), when))
    return [*said.start(run.initial), *parts, said.moved(run.initial, run.params)]
