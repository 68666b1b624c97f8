r"""Every network of the papers as one list of nodes, the form in which its bounds are computed.

$$ z_k = \sum_t M_t\, \varphi_t(x_{\mathrm{src}(t)}), \qquad x_k = [\text{skip}]\, x_{k-1} + s_k\, \sigma(z_k), $$

a term's matrix $M_t$ being trained or fixed, its source an earlier node or the input, and $\varphi$ the patches of a
convolution (the identity elsewhere). Recurrent networks are unrolled: the same matrix stands in several nodes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import singledispatch

import numpy as np

from wideproof.errors import InputError
from wideproof.networks import Network
from wideproof.networks.activations import RELU, Activation
from wideproof.networks.fully_connected import DeepReLU, FullyConnected
from wideproof.networks.recurrent import DeepRNN, ElmanRNN
from wideproof.networks.residual import ConvResidual, Residual, ResidualReLU


@dataclass(frozen=True)
class Term:
    """One use of a matrix: `source` is a node, or the input at time `-1 - source`."""

    name: str
    source: int


@dataclass(frozen=True)
class Node:
    """One hidden layer, at one time."""

    terms: tuple[Term, ...]
    scale: float
    skip: bool = False


@dataclass(frozen=True)
class Graph:
    """A network as nodes; `read_out` is applied to every node in `outputs`."""

    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]
    read_out: str
    trained: tuple[str, ...]
    activation: Activation
    window: int = 1
    columns: bool = False
    images: bool = False

    @property
    def kinked(self) -> bool:
        """Whether the activation is piecewise linear, so that bounds hold while no unit changes its sign."""
        return self.activation.smoothness is None

    @property
    def lipschitz(self) -> float:
        """$L_1$, rounded up."""
        return CONSTANTS[self.activation.name.removesuffix("_closed")][0]

    @property
    def smoothness(self) -> float:
        """$L_2$, rounded up; 0 for a piecewise linear activation inside a fixed pattern."""
        return CONSTANTS[self.activation.name.removesuffix("_closed")][1]

    @property
    def patch_factor(self) -> float:
        r"""$\kappa = \sqrt q$, the most by which taking patches lengthens."""
        return math.sqrt(self.window) * (1 + 1e-15) if self.window > 1 else 1.0

    def matrix(self, params: Mapping[str, np.ndarray], name: str) -> np.ndarray:
        """Return a weight with one row per unit; the read-out as `outputs x positions x units`."""
        weight = np.asarray(params[name], np.float64)
        if name != self.read_out:
            return weight.T if self.columns else weight
        if weight.ndim == 1:
            return weight[None, None, :]
        if self.images:
            whole = weight if weight.ndim == 3 else weight[None]
            return np.ascontiguousarray(whole.transpose(0, 2, 1))
        return weight[:, None, :]

    def inputs(self, x: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the input at each time, each `n x positions x features`."""
        x = np.asarray(x, np.float64)
        if self.images:
            return (np.ascontiguousarray(x.transpose(0, 2, 1)),)
        if x.ndim == 3:
            return tuple(x[:, t : t + 1] for t in range(x.shape[1]))
        return (x[:, None, :],)


def _up(value: float) -> float:
    return value * (1 + 2**-50)


CONSTANTS: dict[str, tuple[float, float]] = {
    "softplus": (1.0, 0.25),
    "sigmoid": (0.25, _up(1 / (6 * math.sqrt(3)))),
    "tanh": (1.0, _up(4 / (3 * math.sqrt(3)))),
    "erf": (_up(2 / math.sqrt(math.pi)), _up(4 / math.sqrt(2 * math.pi * math.e))),
    "arctan": (1.0, _up(3 * math.sqrt(3) / 8)),
    "sin": (1.0, 1.0),
    "swish": (_up(1.09984), 0.5),
    "gelu": (_up(1.12891), _up(math.sqrt(2 / math.pi))),
    "elu": (1.0, 1.0),
    "softsign": (1.0, 2.0),
    "mish": (_up(1.0885), _up(0.64421)),
    "identity": (1.0, 0.0),
    "relu": (1.0, 0.0),
}
r"""Upper bounds of $\sup|\sigma'|$ and of the Lipschitz constant of $\sigma'$ for each activation."""


@singledispatch
def graph(network: Network) -> Graph:
    """Return the nodes of a network.

    >>> graph(FullyConnected(input_dim=2, width=4, depth=2)).nodes[1].terms
    (Term(name='W2', source=0),)
    """
    raise InputError(f"certificates know the seven networks of the papers, not {type(network).__name__}")


def _chain(
    network: FullyConnected | Residual | ConvResidual | DeepReLU | ResidualReLU,
    scales: list[float],
    skips: list[bool],
    activation: Activation,
    read_out: str,
    window: int = 1,
) -> Graph:
    layers = enumerate(zip(scales, skips, strict=True))
    nodes = tuple(Node((Term(f"W{k + 1}", k - 1),), s, skip) for k, (s, skip) in layers)
    columns = network.units == "columns"
    images = network.data_kind == "images"
    return Graph(nodes, (len(nodes) - 1,), read_out, network.trained_names, activation, window, columns, images)


@graph.register
def _(network: FullyConnected) -> Graph:
    scale = math.sqrt(network.activation.c_sigma / network.width)
    return _chain(network, [scale] * network.depth, [False] * network.depth, network.activation, "a")


def _residual_scales(network: Residual | ConvResidual) -> tuple[list[float], list[bool]]:
    first = math.sqrt(network.activation.c_sigma / network.width)
    inner = network.c_res / (network.depth * math.sqrt(network.width))
    later = network.depth - 1
    return [first] + [inner] * later, [False] + [True] * later


@graph.register
def _(network: Residual) -> Graph:
    return _chain(network, *_residual_scales(network), network.activation, "a")


@graph.register
def _(network: ConvResidual) -> Graph:
    return _chain(network, *_residual_scales(network), network.activation, "a", network.filter_size)


@graph.register
def _(network: DeepReLU) -> Graph:
    return _chain(network, [1.0] * network.depth, [False] * network.depth, RELU, "v")


@graph.register
def _(network: ResidualReLU) -> Graph:
    inner = network.depth - 1
    scales = [1.0, *([network.theta] * inner), 1.0]
    return _chain(network, scales, [False, *([True] * inner), False], RELU, "v")


def _unrolled(network: ElmanRNN | DeepRNN, names: list[tuple[str, str]]) -> Graph:
    """Nodes layer by layer, each over all times."""
    length, nodes = network.length, []
    for j, (recurrent, incoming) in enumerate(names):
        for t in range(length):
            below = -1 - t if j == 0 else (j - 1) * length + t
            terms = (Term(incoming, below),)
            nodes.append(Node(terms if t == 0 else (Term(recurrent, len(nodes) - 1), *terms), 1.0))
    scored = tuple(range(len(nodes) - length + 1, len(nodes)))
    return Graph(tuple(nodes), scored, "B", network.trained_names, RELU)


@graph.register
def _(network: ElmanRNN) -> Graph:
    return _unrolled(network, [("W", "A")])


@graph.register
def _(network: DeepRNN) -> Graph:
    return _unrolled(network, [(f"W{j}", f"A{j}") for j in range(1, network.depth + 1)])
