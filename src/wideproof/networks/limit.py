r"""How a network looks at infinite width: the list of its layers, free of matrices.

For vectors and images the features of layer $h$ are

$$ x^{(h)} = [\text{skip}]\, x^{(h-1)} + \frac{s_h}{\sqrt m}\, \sigma(W^{(h)} x^{(h-1)}), \qquad
   W^{(h)}_{rs} \sim N(0, 1), $$

and the paper's own weight is $W^{(h)}$ times a constant, which multiplies its part of the Gram matrix by
`factor` (1 for Du et al.; half the width for Zou et al. and Frei et al., whose entries are $N(0, 2/m)$).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wideproof.errors import InputError
from wideproof.networks.activations import Activation
from wideproof.networks.graph import Graph, Node, Recurrent
from wideproof.networks.maps import IDENTITY_MAP, Identity, Patches, same

HOMOGENEOUS = ("relu", "relu_closed", "identity")
NO_LIMIT = "this network has no known limit at infinite width"


@dataclass(frozen=True)
class LimitLayer:
    """One layer of a network at infinite width.

    Attributes
    ----------
    name
        Name of the layer's weight.
    skip
        Whether the layer's input is added to its output.
    scale
        The scale $s_h$ of the layer.
    factor
        Factor of the layer's part of the Gram matrix.
    """

    name: str
    skip: bool
    scale: float
    factor: float = 1.0


@dataclass(frozen=True)
class LayeredLimit:
    """A feed-forward network at infinite width.

    Attributes
    ----------
    activation
        The activation of all hidden layers.
    layers
        The hidden layers, in the order of the forward pass.
    output
        Name of the read-out weights.
    signs
        Whether the read-out is fixed with balanced signs, which removes the mean of the features from the covariance of
        the outputs.
    window
        Filter size of a convolution over positions, or `None` for vectors.
    alpha
        Factor of the outputs.
    """

    activation: Activation
    layers: tuple[LimitLayer, ...]
    output: str
    signs: bool = False
    window: int | None = None
    alpha: float = 1.0

    @property
    def homogeneous(self) -> bool:
        """Whether the network scales with its input: then only correlations matter."""
        return self.activation.name in HOMOGENEOUS


@dataclass(frozen=True)
class RecurrentLimit:
    """A ReLU recurrent network at infinite width.

    Attributes
    ----------
    recurrent
        Names of the recurrent weights, layer by layer.
    inputs
        Names of the input weights, layer by layer.
    output
        Name of the read-out weights.
    factor
        Factor of the Gram parts of the hidden weights: width / (2 outputs).
    output_scale
        Factor of the covariance of the outputs.
    alpha
        Factor of the outputs; its square multiplies every matrix.
    """

    recurrent: tuple[str, ...]
    inputs: tuple[str, ...]
    output: str
    factor: float
    output_scale: float
    alpha: float = 1.0


Limit = LayeredLimit | RecurrentLimit


def limit_of(graph: Graph, laws: Mapping[str, Any]) -> Limit:
    r"""Return the limit of a network whose width grows: scale, skip and factor of each layer from graph and law.

    A weight of variance $v$ is $\sqrt v$ times a standard one. Behind a homogeneous activation that is a factor of the
    layer, and its part of the Gram matrix is multiplied by $1/v$; others need $v = 1$. A network with biases, strides,
    pooling, a weight that is used twice or a skip from the input has no limit here.
    """
    from wideproof.networks.base import Balanced, Gaussian  # which imports this module

    if isinstance(graph.nodes[0], Recurrent):
        return _recurrent(graph, laws)
    layers, windows = [], set()
    for k, node in enumerate(graph.nodes):
        assert isinstance(node, Node)
        term = _single(node, k)
        law = laws[term.weight]
        if not isinstance(law, Gaussian):
            raise InputError(f"{NO_LIMIT}: the weights of layer {k + 1} do not start as normal numbers")
        variance, width = law.variance, _units(graph, law.shape)
        if variance != 1 and node.activation.name not in HOMOGENEOUS:
            raise InputError(f"{NO_LIMIT}: the weights of layer {k + 1} do not have variance 1")
        windows.add(term.map)
        scale = _width_free(node.scale * math.sqrt(variance * width), node.activation)
        layers.append(LimitLayer(term.weight, node.skip is not None, scale, 1 / variance))
    activations = {node.activation for node in graph.nodes}
    if len(activations) > 1 or len(windows) > 1 or graph.bias is not None:
        raise InputError(f"{NO_LIMIT}: its layers differ, or it has biases")
    if len({layer.name for layer in layers}) < len(layers) or graph.sites != (len(layers) - 1,):
        raise InputError(f"{NO_LIMIT}: a weight is used twice, or the last layer is not what is read out")
    read = laws[graph.read_out]
    signs = isinstance(read, Balanced)
    if not signs and not (isinstance(read, Gaussian) and read.variance == 1):
        raise InputError(f"{NO_LIMIT}: its read-out does not have variance 1")
    window = _window(graph, windows.pop())
    return LayeredLimit(activations.pop(), tuple(layers), graph.read_out, signs, window, graph.alpha)


def _width_free(scale: float, activation: Activation) -> float:
    r"""Take away what rounding left of the width, where the number or its ratio to $\sqrt{c_\sigma}$ is a short one."""
    root = math.sqrt(activation.c_sigma)
    for unit in (root, 1.0):
        short = float(f"{scale / unit:.12g}")
        if abs(short * unit - scale) <= 8e-16 * scale:
            return short * unit
    return scale


def _units(graph: Graph, shape: tuple[int, ...]) -> int:
    return shape[1] if graph.columns else shape[0]


def _single(node: Node, k: int) -> Any:
    term, *others = node.terms
    if others or term.weight is None or term.source != k - 1 or node.skip not in (None, k - 1) or node.skip == -1:
        raise InputError(f"{NO_LIMIT}: layer {k + 1} is more than one weight behind the layer before it")
    return term


def _window(graph: Graph, phi: Identity) -> int | None:
    if phi == IDENTITY_MAP and not graph.images:
        return None
    if not isinstance(phi, Patches) or len(phi.size) > 1 or phi != same(phi.positions, max(phi.size)):
        raise InputError(f"{NO_LIMIT}: known are windows in one dimension, of an odd size and with stride 1")
    return max(phi.size)


def _recurrent(graph: Graph, laws: Mapping[str, Any]) -> RecurrentLimit:
    nodes = [node for node in graph.nodes if isinstance(node, Recurrent)]
    law = laws[graph.read_out]
    if not hasattr(law, "variance"):
        raise InputError(f"{NO_LIMIT}: its read-out does not start as normal numbers")
    read, hidden = law.variance, laws[nodes[0].recurrent].variance
    names = (tuple(node.recurrent for node in nodes), tuple(node.incoming for node in nodes))
    return RecurrentLimit(*names, graph.read_out, read / hidden, read, graph.alpha)
