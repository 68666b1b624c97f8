r"""The last hidden layer's Gram block in closed form, against products of gradients."""

from __future__ import annotations

import numpy as np

from wideproof.monitors import Trace
from wideproof.monitors.smooth import SmoothNetwork
from wideproof.papers.check import Check, conclude, identity
from wideproof.papers.du2019.functions import FUNCTIONS
from wideproof.papers.du2019.lab import Kind, Lab
from wideproof.papers.du2019.printed import layers
from wideproof.papers.du2019.records import Params
from wideproof.papers.statement import Section, misprint

statement = Section("gradient", "fc_smooth")


@statement("Fully connected: the last hidden block without a backward pass", "exact")
def eq_13(lab: Lab) -> Check:
    r"""The last hidden block of a fully connected network.

    $$ G^{(H)}_{ij} = \langle x_i^{(H-1)}, x_j^{(H-1)} \rangle\; \frac{c_\sigma}{m} \sum_r a_r^2\,
       \sigma'(z_{i,r})\,\sigma'(z_{j,r}), \qquad z_i = W^{(H)} x_i^{(H-1)} . $$
    """
    return _closed(lab, "fully-connected")


@statement("Residual: the last hidden block without a backward pass", "exact", network="resnet_smooth")
@misprint("for H = 1 the factor is c_σ instead")
def eq_14(lab: Lab) -> Check:
    r"""The last hidden block of a residual network, for $H \ge 2$.

    $$ G^{(H)}_{ij} = \frac{c_{res}^2}{H^2 m} \langle x_i^{(H-1)}, x_j^{(H-1)} \rangle \sum_r a_r^2\,
       \sigma'(z_{i,r})\,\sigma'(z_{j,r}) . $$
    """
    return _closed(lab, "residual")


@statement("Convolutional: the last hidden block without a backward pass", "exact", network="conv_resnet")
@misprint("indices of a exchanged")
def eq_15(lab: Lab) -> Check:
    r"""The last hidden block of a convolutional residual network, $x_{i,l}$ the patch at position $l$.

    $$ G^{(H)}_{ij} = \frac{c_{res}^2}{H^2 m} \sum_r \Big\langle \sum_l a_{r,l}\, x_{i,l}\, \sigma'(w_r^\top x_{i,l}),
       \sum_k a_{r,k}\, x_{j,k}\, \sigma'(w_r^\top x_{j,k}) \Big\rangle . $$
    """
    return _closed(lab, "conv-residual")


def last_scale(network: SmoothNetwork) -> float:
    r"""Return the square of the last layer's scale: $c_\sigma$, or $c_{res}^2/H^2$ behind a skip."""
    return layers(network)[-1].scale ** 2


def closed_form(network: SmoothNetwork, start: Params, seen: Trace) -> np.ndarray:
    r"""Return $G^{(H)}$ from $x^{(H-1)}$, $z^{(H)}$ and $a$, without a backward pass."""
    name = f"W{network.depth}"
    slope = FUNCTIONS[network.activation.name][1]
    u, z = seen.inputs[name][0], seen.values[name][0]
    n = len(u)
    u, z = u.reshape(n, -1, u.shape[-1]), z.reshape(n, -1, z.shape[-1])
    a = np.asarray(start["a"]).reshape(network.width, -1).T  # positions by units
    weighted = a[None] * slope(z)
    return (
        last_scale(network) / network.width * np.einsum("ilc,jkc,ilr,jkr->ij", u, u, weighted, weighted, optimize=True)
    )


def _closed(lab: Lab, kind: Kind) -> Check:
    network, blocks = lab.model(kind), lab.last_blocks(kind)
    some = range(lab.pick(3, 5, 10))
    formula = np.stack([closed_form(network, lab.start(kind, i), lab.traces(kind)[i]) for i in some])
    check = identity("closed form against products of gradients", formula, blocks[: len(some)], tolerance=1e-11)
    return conclude(check, assumptions=[f"{len(some)} starts of {network}"])
