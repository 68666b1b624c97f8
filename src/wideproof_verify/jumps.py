r"""One hidden layer of ReLU units before a fixed read-out: how far the Jacobian can jump in the ball of radius R.

The unit j of example i can change its sign there only if |z_ji| ≤ R|x_i|, x_i being all that trained weights multiply:
such a pair is open. Patterns of slopes in [0, 1] that agree on the other pairs have Jacobians with

    |(J − J')ᵀv|² = Σ_j |Σ_i v_i s a_j e_ji x_i|² ≤ |v|ᵀ P |v|,   P = (BᵀB) ∘ |XᵀX|,   B_ji = s|a_j| where open, else 0,

because |e_ji| ≤ 1 and e_ji = 0 where not open. So ‖J − J'‖ ≤ D with D² ≥ λ_max(P), and ‖J − J'‖ ≤ D/2 if J' has the
slope ½ at all open pairs. With several outputs columns are (output, example), B = s|a_oj|.
"""

import numpy as np

from wideproof_verify.arithmetic import Balls, arb, balls, norm, product, spectral_norm
from wideproof_verify.graphs import require
from wideproof_verify.networks import Anchor


def halve(anchor: Anchor, radius: arb) -> Balls:
    """Set the slopes of open pairs to ½ and return a bound of λ_max(P)."""
    net, node = anchor.network, anchor.network.nodes[0]
    own = [t for t in node.terms if t.weight in net.trained]
    right = len(net.nodes) == net.inputs == 1 and node.activation == "relu" and anchor.slopes[0].shape[2] == 1
    right = right and net.read_out not in net.trained and 0 < len(own) == len({t.weight for t in own})
    require(right, "jumps are for one hidden layer of ReLU units with fixed outputs")
    x = np.concatenate([anchor.gathered(t)[:, :, 0] for t in own])
    still = (abs(anchor.pre[0][:, :, 0]) > radius * norm(x, axis=0)).astype(bool)
    anchor.slopes[0][~still] = arb(0.5)
    size = abs(balls(anchor.floats[net.read_out]) * arb(node.scale))  # outputs x units
    b = (size.T[:, :, None] * ~still[:, None, :]).reshape(len(still), -1)
    inner = np.tile(abs(product(x.T, x)), (net.outputs, net.outputs))
    return spectral_norm(anchor.weighted(product(b.T, b) * inner, 0, 1))
