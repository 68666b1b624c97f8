r"""The infinite-width recursions: limits in `wideproof.kernels` beside means of finite networks and a second route."""

from __future__ import annotations

from wideproof.kernels import limit_gram
from wideproof.papers.check import Check, agrees, conclude, law
from wideproof.papers.du2019.lab import KINDS, Kind, Lab, Norms
from wideproof.papers.du2019.recursion import Recursion, recursion
from wideproof.papers.statement import Section, misprint

statement = Section("setting", "fc_smooth")

NODES = 160  # of the second route: inputs of norm 2 need many
TOLERANCE = 1e-6


@statement("The fully connected network's Gram matrix at infinite width", "oracle")
@misprint("the last block is printed with the covariance of the layer before, A^(H-1) for A^(H)")
def definition_5_1(lab: Lab) -> Check:
    r"""The limit of a fully connected network's Gram matrix: covariances layer by layer, then the last block.

    $$ K^{(h)}_{ij} = c_\sigma\, \mathbb{E}_{N(0, A^{(h)}_{ij})}[\sigma(u)\sigma(v)], \qquad
       K^{(H)}_{ij} = c_\sigma K^{(H-1)}_{ij}\, \mathbb{E}_{N(0, A^{(H)}_{ij})}[\sigma'(u)\sigma'(v)], $$

    $A^{(h)}_{ij}$ the covariance $K^{(h-1)}$ of the pair. Means over finite networks, block by block.
    """
    return _definition(lab, "fully-connected")


@statement("The residual network's Gram matrix at infinite width", "oracle", network="resnet_smooth")
@misprint(
    "each mean b is printed with the activation of its own example, which changes nothing where all ‖x_i‖ = 1; "
    "A^(H-1) for A^(H)"
)
def definition_6_1(lab: Lab) -> Check:
    r"""The limit of a residual network's Gram matrix, with the mean $b$ of the features.

    $$ K^{(h)}_{ij} = K^{(h-1)}_{ij} + \mathbb{E}\Big[\tfrac{c_{res}}{H}\big(b_i\,\sigma(v) + b_j\,\sigma(u)\big)
       + \tfrac{c_{res}^2}{H^2}\sigma(u)\sigma(v)\Big], \qquad
       K^{(H)}_{ij} = \tfrac{c_{res}^2}{H^2} K^{(H-1)}_{ij}\, \mathbb{E}_{A^{(H)}}[\sigma'(u)\sigma'(v)] . $$
    """
    return _definition(lab, "residual")


@statement("The convolutional network's Gram matrix at infinite width", "oracle", network="conv_resnet")
@misprint("c_res²/H² is missing, from h = 3 on pixels are added to patch sums, index and pairing as in Definition 6.1")
def definition_7_1(lab: Lab) -> Check:
    r"""The limit of a convolutional residual network's Gram matrix: pixel covariances and their sums over patches.

    $$ K^{(H)}_{ij} = \tfrac{c_{res}^2}{H^2} \sum_l S^{(H-1)}_{ij,ll}\,
       \mathbb{E}_{A^{(H)}}[\sigma'(u_l)\sigma'(v_l)], \qquad S^{(h)}_{lr} = \sum_o Q^{(h)}_{l+o,r+o}, $$

    with the pixel covariances $Q^{(h)}$ of Definition E.1.
    """
    return _definition(lab, "conv-residual")


@statement("One recursion of covariances and means for all three networks", "oracle", network="any")
def definition_e_1(lab: Lab) -> Check:
    r"""One recursion for all networks: covariances $K^{(h)}$ and means $b^{(h)}$ of $X^{(h)} = \sqrt m\, x^{(h)}$.

    $$ K^{(h)}_{ij} = D K^{(h-1)}_{ij} D^\top + \mathbb{E}[\rho(U)(D b_j)^\top + (D b_i)\rho(V)^\top
       + \rho(U)\rho(V)^\top], \qquad b^{(h)}_i = D b^{(h-1)}_i + \mathbb{E}\rho(U) . $$

    Every layer, every pair of examples and of positions, against means over finite networks.
    """
    parts = []
    for kind in KINDS:
        found, right = lab.finite(kind), second_route(lab, kind)
        for h, (covariance, mean) in enumerate(zip(found.covariances, found.means, strict=True), 1):
            parts.append(law(f"{kind}: K^({h})", covariance, right.covariances[h], kind="oracle"))
            parts.append(law(f"{kind}: b^({h})", mean, right.means[h], kind="oracle"))
    return conclude(*parts)


def second_route(
    lab: Lab, kind: Kind, norms: Norms = "unequal", misprints: tuple[str, ...] = (), depth: int = 2
) -> Recursion:
    """Return the recursion of this package on the inputs of the finite networks."""
    found, key = lab.finite(kind, norms, depth), ("second route", kind, norms, misprints, depth)
    return lab.keep(key, lambda: recursion(found.network, found.x, misprints, NODES))


def _definition(lab: Lab, kind: Kind) -> Check:
    found, right = lab.finite(kind), second_route(lab, kind)
    limit = lab.keep(("limit gram", kind), lambda: limit_gram(found.network, found.x, by_weight=True))
    drawn = [
        law(f"mean of finite blocks of {name}", block, limit.blocks[name], kind="oracle")
        for name, block in found.blocks.items()
    ]
    routes = [
        agrees(f"limit of {name} by tensor quadrature", limit.blocks[name], right.blocks[name], tolerance=TOLERANCE)
        for name in found.blocks
    ]
    draws = len(found.blocks["a"])
    return conclude(*drawn, *routes, assumptions=[f"{draws} draws of {found.network}"])
