r"""Orders: stochastic gradient descent stays in a ball whatever batches it takes (Theorem 7).

$\eta$ multiplies the *sum* over the batch, as in `Epochs`. `docs/theory/certificates.md` has the proof.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass

from wideproof.certificates.attempt import Attempt
from wideproof.certificates.batches import WITHIN, Batches, grid, measure_batches, method
from wideproof.certificates.ground import DOWN, UP, Near, farthest
from wideproof.certificates.setting import Setting
from wideproof.certificates.theorem import Theorem


class Claims(Near):
    """The claims of Theorem 7."""

    beta: float
    bend: float
    within: float
    steps: int
    batch: int


@dataclass(frozen=True, eq=False)
class Orders(Theorem[None]):
    r"""SGD from every start near the point stays near for `steps` steps, whatever batches it takes.

    The batches may be chosen by an adversary, and some examples may never be used, so nothing is proved about the loss.
    Theorem 7: after $K$ steps the distance to a zero is at most $\bar d$ if
    $1/\bar d^2 \le 1/(d + 2\rho/s)^2 - K \eta \Lambda_*^2 / 4c$, $c = 2 - \eta\beta$. The weights at the point fit up
    to rounding (`polish`).

    Attributes
    ----------
    batch
        Batch size.
    steps
        Number of steps.
    distance
        Maximum distance of the starts from the point; by default about 0.8 times the largest with a proof.
    step_size
        Step size (learning rate); it multiplies the sum over a batch. By default $1/\beta$, the reciprocal of the
        largest $\|J_B\|^2$.

    Examples
    --------
    >>> import numpy as np
    >>> from wideproof.certificates import Problem, certify, polish
    >>> from wideproof.data import Dataset
    >>> from wideproof.networks import FullyConnected
    >>> network = FullyConnected(input_dim=3, width=64, depth=1)
    >>> data = Dataset(np.eye(3), np.array([1.0, -1.0, 1.0]), "binary")
    >>> near = polish(network, network.init(0), data.x, data.y).params
    >>> certify(Problem(network, data).at(near), Orders(batch=1, steps=1000)).passed
    True
    """

    batch: int
    _: KW_ONLY
    steps: int = 1_000_000
    distance: float | None = None
    step_size: float | None = None

    def prove(self, setting: Setting) -> Attempt[None]:
        batches = measure_batches(setting, self.batch)
        if isinstance(batches, Attempt):
            return batches
        ground, d = batches.ground, self.distance
        claims = self._find(batches, d) if d is not None else farthest(lambda d: self._find(batches, d), 4 * ground.top)
        if claims is None:
            return ground.failed(d, math.inf)
        return ground.attempt("orders", claims, (
            f"{method(ground, claims)} stays within {claims['radii'][0]:.3g} for {self.steps} steps, whatever batches "
            f"of at most {batches.size} examples are taken."
        ))  # fmt: skip

    def _find(self, batches: Batches, d: float) -> Claims | None:
        """Look for a ball that no batches lead out of from a start within d."""
        ground = batches.ground
        far = d + ground.near
        for ratio in WITHIN:
            within = ratio * far * UP
            radius = grid((within + ground.near) * UP)
            k = batches.at(radius)
            eta = 1 / k.beta if self.step_size is None else self.step_size
            c = 2 - eta * k.beta * UP
            if not ground.fits(k.whole) or not c > 0:
                continue
            w = eta * k.most**2 / (4 * c) * UP
            if (far / within) ** 2 <= (1 - self.steps * w * far**2 * UP) * DOWN:
                return Claims(
                    **ground.claims(radius, k.whole, eta, d), beta=k.beta, bend=k.most, within=within,
                    steps=self.steps, batch=batches.size,
                )  # fmt: skip
        return None
