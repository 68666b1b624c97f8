r"""Sampling: stochastic gradient descent with random batches, each independent of the past (Theorem 6).

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

DRIFTS = (0.1, 0.2, 0.4, 0.8, 1.6)  # prices of moving along the zeros


class Claims(Near):
    """The claims of Theorem 6."""

    beta: float
    bend: float
    within: float
    mu: float
    u: float
    failure: float
    rate: float
    epsilon: float
    steps: int
    late: float
    batch: int


@dataclass(frozen=True, eq=False)
class Sampling(Theorem[None]):
    r"""SGD with random batches converges from every start near the point, up to a small probability.

    Every batch is drawn without replacement and independently of the past, as in `train`. Theorem 6: the weights always
    stay within $\bar d$ of the zeros, except with a probability of $e^{-u (1 - D/\bar d)}$, where
    $m (1 - e^{-u}) \ge e^{u\nu} - 1$. The weights at the point fit up to rounding (`polish`).

    Attributes
    ----------
    batch
        Batch size.
    failure
        Largest accepted probability of failure; the certificate states its own.
    distance
        Maximum distance of the starts from the point; by default about 0.8 times the largest with a proof.
    step_size
        Step size (learning rate); it multiplies the sum over a batch. By default $1/\beta$, the reciprocal of the
        largest $\|J_B\|^2$.
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
    >>> found = certify(Problem(network, data).at(near), Sampling(batch=1))
    >>> found.passed, found.certificate.claims["failure"] <= 1e-6
    (True, True)
    """

    batch: int
    _: KW_ONLY
    failure: float = 1e-6
    distance: float | None = None
    step_size: float | None = None
    target_loss: float = 1e-12

    def prove(self, setting: Setting) -> Attempt[None]:
        batches = measure_batches(setting, self.batch)
        if isinstance(batches, Attempt):
            return batches
        ground = batches.ground

        def found_at(d: float) -> Claims | None:
            found = self._find(batches, d)
            return found if found is not None and found["failure"] <= self.failure else None

        claims = found_at(self.distance) if self.distance is not None else farthest(found_at, ground.top)
        if claims is None:
            return ground.failed(self.distance)
        return ground.attempt("sampling", claims, (
            f"{method(ground, claims)}, with independent random batches of {batches.size}, stays within "
            f"{claims['radii'][0]:.3g} and converges to zero loss with a probability of at least 1 - "
            f"{claims['failure']:.3g}; after {claims['steps']} steps the loss is at most {claims['epsilon']:.3g}, but "
            f"for a probability of {claims['late']:.3g} more."
        ))  # fmt: skip

    def _find(self, batches: Batches, d: float) -> Claims | None:
        """Look for the smallest failure probability of Theorem 6 for all starts within d."""
        ground, best, epsilon = batches.ground, None, self.target_loss
        far, s, share = d + ground.near, ground.anchor.s, batches.size / ground.anchor.n
        for ratio in WITHIN:
            for mu in DRIFTS:
                within = ratio * far * UP
                radius = grid((2 * d + ground.near + within / mu + 1.1 * within) * UP)
                k = batches.at(radius)
                eta = 1 / k.beta if self.step_size is None else self.step_size
                c = 2 - eta * k.beta * UP
                if not ground.fits(k.whole) or not c > 0:
                    continue
                swell = within * math.sqrt(1 + eta * (k.most * within) ** 2 / (4 * c)) * UP
                low = (s - k.whole * (2 * d + ground.near + within / mu) * UP) * DOWN
                if not k.whole * swell < low * DOWN or swell > 1.1 * within:
                    continue
                drift = mu * 2 * k.most / (1 - k.whole * swell / low) * UP
                sigma = (low - k.whole * within / 2) * DOWN
                gain = c * sigma - (k.whole * within + 2 * drift * within / math.sqrt(share)) * UP
                if not (sigma > 0 and gain > 1e-9):
                    continue
                mean = eta * share * sigma * gain / 2 * DOWN
                top = eta * (within * (k.most / 2 + drift)) ** 2 / (2 * c) * UP
                u = exponent(mean, top)
                failure = math.exp(-u * (1 - far / within) * DOWN) * UP + 1e-300
                if best is None or failure < best["failure"]:
                    rate = eta * share * sigma * (c * sigma - k.whole * within * UP) * DOWN
                    shared = ground.claims(radius, k.whole, eta, d)
                    late = max(failure, 1e-9)
                    size = (shared["b"] * far) ** 2 / (2 * epsilon) * UP
                    steps = max(0, math.ceil(math.log(size / late) / -math.log1p(-rate) * UP)) + 1
                    best = Claims(
                        **shared, beta=k.beta, bend=k.most, within=within, mu=mu, u=u, failure=failure, rate=rate,
                        epsilon=epsilon, steps=steps, late=late, batch=batches.size,
                    )  # fmt: skip
        return best


def exponent(mean: float, top: float) -> float:
    r"""Return a u with $m (1 - e^{-u}) \ge e^{u\nu} - 1$, about the largest; 0 if there is none.

    >>> u = exponent(0.1, 0.001)
    >>> 90 < u < 100, 0.1 * -math.expm1(-u) >= math.expm1(0.001 * u)
    (True, True)
    >>> exponent(0.1, 0.2)
    0.0
    """
    if top <= 1e-300:
        return 700.0
    low, high = 0.0, min(math.log1p(mean) / top, 1e4)
    for k in range(60):
        middle = high if k == 0 else (low + high) / 2
        holds = -mean * math.expm1(-middle) >= math.expm1(middle * top) * (1 + 1e-9)
        low, high = (middle, high) if holds else (low, middle)
    return low
