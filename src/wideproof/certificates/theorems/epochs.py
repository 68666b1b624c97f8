r"""Epochs: stochastic gradient descent in which every epoch uses every example once, in any order (Theorem 5).

$\eta$ multiplies the *sum* over the batch. `train` multiplies by $n/B$ for the half sum, so its step size is
$\eta B / n$; for the mean over a batch it is $\eta B$. `docs/theory/certificates.md` has the proof.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import NotRequired

from wideproof.certificates.attempt import Attempt
from wideproof.certificates.batches import Batches, grid, measure_batches, method
from wideproof.certificates.ground import ROUNDS, UP, Near, contract, farthest, first_zero
from wideproof.certificates.setting import Setting
from wideproof.certificates.squared_loss import steps_to
from wideproof.certificates.theorem import Theorem


class Claims(Near):
    """The claims of Theorem 5; `partition` says which batches are fixed."""

    beta: float
    bend: float
    order: float
    a: float
    sigma: float
    rate: float
    epsilon: float
    steps: int
    batch: int
    partition: NotRequired[list[int]]


@dataclass(frozen=True, eq=False)
class Epochs(Theorem[None]):
    r"""SGD in epochs converges from every start near the point, whatever the order of the batches.

    Every epoch uses every example once, in batches of at most `batch` examples. The composition of the batches is free
    in every epoch, and may depend on anything. With a `partition` the batches are fixed and only their order is free,
    which allows larger steps. Theorem 5: an epoch is a step of Theorem 4 with $c (1 - \kappa/2) / N$ in place of
    $c (1 - \kappa/2)$ and a larger curvature term, where $N = 1 + \eta (\tfrac12 \sum_{i \ne j} T_{ij}^2)^{1/2}$ and
    $T_{ij} \ge \|J_i J_j^\top\|$ on the ball. The weights at the point fit up to rounding (`polish`).

    Attributes
    ----------
    batch
        Maximum batch size.
    partition
        For every example the number of its batch; by default every epoch may form other batches.
    distance
        Maximum distance of the starts from the point; by default about 0.8 times the largest with a proof.
    step_size
        Step size (learning rate); it multiplies the sum over a batch. By default about the one with the best proven
        rate.
    target_loss
        The loss for which the certificate counts steps.

    Examples
    --------
    >>> import numpy as np
    >>> from wideproof.certificates import Problem, certify, polish
    >>> from wideproof.data import Dataset
    >>> from wideproof.networks import FullyConnected
    >>> network = FullyConnected(input_dim=3, width=64, depth=1)
    >>> data = Dataset(np.eye(3), np.array([1.0, -1.0, 1.0]), "binary")
    >>> near = polish(network, network.init(0), data.x, data.y).params
    >>> certify(Problem(network, data).at(near), Epochs(batch=2)).passed
    True
    """

    batch: int
    _: KW_ONLY
    partition: Sequence[int] | None = None
    distance: float | None = None
    step_size: float | None = None
    target_loss: float = 1e-12

    def prove(self, setting: Setting) -> Attempt[None]:
        batches = measure_batches(setting, self.batch, self.partition)
        if isinstance(batches, Attempt):
            return batches
        ground, d = batches.ground, self.distance
        claims = self._find(batches, d) if d is not None else farthest(lambda d: self._find(batches, d), ground.top)
        if claims is None:
            return ground.failed(d)
        if self.partition is not None:
            claims["partition"] = [int(j) for j in self.partition]
        which = "fixed batches" if batches.fixed else f"batches of at most {batches.size}"
        return ground.attempt("epochs", claims, (
            f"{method(ground, claims)} converges to zero loss if every epoch uses every example once, in {which} and "
            f"in any order. Every epoch takes at least the share {claims['rate']:.3g} off the distance to the nearest "
            f"zero, no iterate is farther than {claims['radii'][0]:.3g} away, and the loss is at most "
            f"{claims['epsilon']:.3g} after {claims['steps']} epochs."
        ))  # fmt: skip

    def _find(self, batches: Batches, d: float) -> Claims | None:
        """Look for a ball on which Theorem 5 holds for all starts within d."""
        ground = batches.ground
        far, radius = d + ground.near, 3 * d + 2 * ground.near
        for _ in range(ROUNDS):
            radius = grid(radius)
            k = batches.at(radius)
            first = first_zero(ground, k.whole, d, None)
            if not ground.fits(k.whole) or first is None:
                return None
            eta = 1 / (k.beta + k.across) if self.step_size is None else self.step_size
            c, order = 2 - eta * k.beta * UP, (1 + eta * k.across) * UP
            x = eta * (k.all * far) ** 2 / (4 * c) * UP if c > 0 else math.inf
            if not x < 0.2499:
                return None
            swell = 2 / (1 + math.sqrt(1 - 4 * x)) * UP
            found = contract(ground.anchor.s, k.whole, far, first, eta, c, order, k.all, swell)
            if found is None:
                return None
            if found.radius <= radius:
                shared = ground.claims(radius, k.whole, eta, d)
                return Claims(
                    **shared, beta=k.beta, bend=k.all, order=order, a=found.a, sigma=found.sigma, rate=found.rate,
                    epsilon=self.target_loss, steps=steps_to(shared["b"] * far * UP, found.rate, self.target_loss),
                    batch=batches.size,
                )  # fmt: skip
            radius = found.radius
        return None
