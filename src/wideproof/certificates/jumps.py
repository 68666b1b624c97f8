r"""Theorem 1 with jumps: one hidden ReLU layer before fixed outputs, whose units switch on and off on the way.

Where no unit switches, $F$ is affine in the hidden weights; where one does, $J$ jumps. In the ball of radius $R$ a unit
$j$ can switch on example $i$ only if $|z_{ji}| \le R \|x_i\|$: such a pair is *open*. Jacobians whose slopes agree on
all other pairs are at most $D$ apart, $D^2 = \lambda_{\max}((B^\top B) \circ |X^\top X|)$, $B_{ji} = s_1 |a_j|$ on open
pairs and 0 elsewhere, and $D/2$ from the Jacobian with the slope ½ on all open pairs. With $\rho$, and s, S of that
one, gradient descent converges if $\rho < (\kappa s - \tfrac32 D) R$.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float, Int

from wideproof.certificates.anchor import Anchor, gram, least_singular, weigher
from wideproof.certificates.enclosure import UP, Ball, exact, inner, largest_eigenvalue, lengths, multiply
from wideproof.certificates.passes import Pass, run
from wideproof.certificates.squared_loss import Convergence, descent
from wideproof.certificates.staircase import Staircase
from wideproof.networks import Graph

RADII = 1.01 * 2 ** (np.arange(28) / 6)  # tried radii, in units of ρ/s


def has_jumps(graph: Graph) -> bool:
    """Return whether the network is one hidden layer of ReLU units, every weight used once, before a fixed read-out."""
    if len(graph.layers) != 1 or graph.times or graph.read_out in graph.trained:
        return False
    (node,) = graph.layers
    own = [t.weight for t in node.terms if t.weight in graph.trained]
    alone = math.prod(graph.grids[0]) == 1
    return node.activation.kinked and alone and 0 < len(own) == len(set(own))


class Jumps:
    """What is known at an anchor with open pairs: everything that does not depend on the radius, once."""

    def __init__(
        self,
        anchor: Anchor,
        params: Mapping[str, np.ndarray],
        x: Float[np.ndarray, "n ..."],
        counts: Int[np.ndarray, "n"] | None,
    ) -> None:
        self.graph, self.anchor, self.tracked = anchor.graph, anchor, anchor.level == "enclosed"
        self.passed: Pass = run(self.graph, params, np.asarray(x, np.float64), self.tracked)
        self.weigh = weigher(counts, anchor.n, self.tracked)
        node = self.graph.layers[0]
        reads = [self.passed.inputs[self.graph.read(0, t)] for t in node.terms if t.weight in self.graph.trained]
        rows = [read.map(lambda a: a[:, 0]) for read in reads]
        radii = [row.rad for row in rows if row.rad is not None]
        joined = np.concatenate([row.mid for row in rows], axis=1)
        trained = Ball(joined, np.concatenate(radii, axis=1) if self.tracked else None)
        self.far = lengths(trained, (1,)) * (1 + 1e-12)
        self.inner = inner(trained).map(lambda a: a.repeat(anchor.outputs, axis=0).repeat(anchor.outputs, axis=1))
        self.sizes = np.abs(self.passed.b[0].mid[:, :, 0]) * node.scale * UP  # examples x outputs x units

    def open(self, radius: float) -> Bool[np.ndarray, "n m"]:
        """Return which units can switch on which examples within `radius`: examples x units."""
        return ~(self.anchor.clearance[0][:, 0] > radius * self.far[:, None] * (1 + 1e-12))

    def distance(self, open_: Bool[np.ndarray, "n m"]) -> float:
        """Return D, how far apart two Jacobians can be that agree on all other pairs."""
        b = (self.sizes * open_[:, None]).reshape(-1, open_.shape[1])
        products = multiply(inner(exact(b, self.tracked)), Ball(self.inner.above, None))
        above = Ball(products.mid if products.rad is None else products.above, None)
        whole = self.weigh(self.weigh(above, 0), 1).mid
        v = np.abs(np.linalg.eigh(whole)[1][:, -1]) + 1e-9  # Collatz and Wielandt: any v > 0 gives a bound
        return math.sqrt(float((whole @ v / v).max())) * (1 + 1e-7 * self.tracked)

    def ends(self, open_: Bool[np.ndarray, "n m"]) -> tuple[float, float]:
        """Return s and S of the Jacobian with the slope ½ on open pairs."""
        slope = np.where(open_, 0.5, self.passed.slopes[0].mid[:, 0])[:, None, None]
        g = multiply(self.passed.b[0], exact(np.broadcast_to(slope, self.passed.b[0].mid.shape), self.tracked))
        matrix = gram(replace(self.passed, g=(g,)), self.graph.trained)
        matrix = self.weigh(self.weigh(matrix, 0), 1)
        return least_singular(matrix, self.tracked), math.sqrt(largest_eigenvalue(matrix)) * (1 + 1e-7 * self.tracked)


def find_jumps(
    anchor: Anchor,
    params: Mapping[str, np.ndarray],
    x: Float[np.ndarray, "n ..."],
    *,
    counts: Int[np.ndarray, "n"] | None = None,
    eta: float | None = None,
    epsilon: float = 1e-12,
    room: float = 0.0,
) -> tuple[Convergence | None, float]:
    r"""Look for the smallest radius from which Theorem 1 with jumps concludes.

    Returns what it concludes, `None` if there is none, and the least $\tfrac32 D / s$ that was met, which has to be
    below 1.
    """
    known, least = Jumps(anchor, params, x, counts), math.inf
    rho = max(anchor.residual, 1e-300) * (1 + room)
    for radius in rho / anchor.s * RADII:
        open_ = known.open(radius)
        jump = known.distance(open_)
        s, S = known.ends(open_)
        ratio = 1.5 * jump / s if s > 0 else math.inf
        least = min(least, ratio)
        if ratio < 1:
            found = descent(rho, s, S, Staircase((float(radius),), (0.0,)), eta=eta, epsilon=epsilon, jump=jump)
            if found is not None:
                return found, least
    return None, least
