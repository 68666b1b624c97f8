r"""Basins: gradient descent converges from every start near weights that fit, or from one start and a fit next to it.

With $\kappa = \Lambda D / (s - \Lambda F)$ and $c = 2 - \eta b^2$, gradient descent converges if
$2 \kappa^2 < (1 - \kappa)(c - (1 + c/2) \kappa)$: the residual at the start does not matter.
`docs/theory/certificates.md` has the proof (Theorem 4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import NotRequired

import numpy as np
from jax.typing import ArrayLike

from wideproof.certificates.attempt import Attempt
from wideproof.certificates.ground import ROUNDS, UP, Ground, Near, Repeated, contract, farthest, first_zero, measure
from wideproof.certificates.lengths import length
from wideproof.certificates.nearest import nearest, pulled
from wideproof.certificates.setting import Setting
from wideproof.certificates.squared_loss import steps_to
from wideproof.certificates.theorem import Theorem
from wideproof.errors import InputError


class Claims(Near, Repeated):
    """The claims of Theorem 4; `t` and `normal` are of a single start."""

    a: float
    sigma: float
    rate: float
    epsilon: float
    steps: int
    t: NotRequired[float]
    normal: NotRequired[list[float]]


@dataclass(frozen=True, eq=False)
class Basin(Theorem[None]):
    r"""Gradient descent converges from *every* start near the point, or from one `start`.

    Theorem 4: with $c = 2 - \eta b^2$ and $\kappa = \Lambda D / (s - \Lambda F)$ it does if
    $2 \kappa^2 < (1 - \kappa)(c - (1 + c/2) \kappa)$, and each step multiplies the distance to the zeros by at most
    $q$, $q^2 = 1 - \eta \sigma^2 (1 - \kappa/2)(c - (1 + c/2) \kappa)$. For all starts within $d$ the nearest zero is
    at most $D = d + 2\rho/s$ away, and $F = 2d + 2\rho/s$ from the point. The weights there fit up to rounding
    (`polish`); with a `start`, they are those that `nearest` finds for it.

    Attributes
    ----------
    distance
        Maximum distance of the starts from the point; by default about 0.8 times the largest with a proof.
    start
        A single start, by name: the proof is for this start only. It may be farther away, and should differ from
        the point across the zeros.
    step_size
        Step size (learning rate) to certify; by default `share` times $1/b^2$. Smaller steps allow larger distances.
    share
        Factor of the default step size.
    target_loss
        The loss for which the certificate counts steps.

    Examples
    --------
    >>> from wideproof.certificates import Problem, certify, polish
    >>> from wideproof.data import Dataset
    >>> from wideproof.networks import FullyConnected
    >>> network = FullyConnected(input_dim=3, width=64, depth=1)
    >>> data = Dataset(np.eye(3), np.array([1.0, -1.0, 1.0]), "binary")
    >>> near = polish(network, network.init(0), data.x, data.y).params
    >>> found = certify(Problem(network, data).at(near), Basin())
    >>> found.passed, found.certificate.claims["d"] > 0.05
    (True, True)
    """

    distance: float | None = None
    _: KW_ONLY
    start: Mapping[str, ArrayLike] | None = field(default=None, repr=False)
    step_size: float | None = None
    share: float = 1.0
    target_loss: float = 1e-12

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.start is not None and self.distance is not None:
            raise InputError("a start has its own distance: leave `distance` out")

    def prove(self, setting: Setting) -> Attempt[None]:
        ground = measure(setting)
        if isinstance(ground, Attempt):
            return ground
        if self.start is not None:
            return self._from_start(ground, self.start)
        if self.distance is not None:
            claims = self._find(ground, self.distance)
        else:
            claims = farthest(lambda d: self._find(ground, d), ground.top)
        if claims is None:
            return ground.failed(self.distance)
        return ground.attempt("basin", claims, _sentence(ground, claims, f"every start within {claims['d']:.4g} of"))

    def _find(self, ground: Ground, d: float, along: float | None = None) -> Claims | None:
        r"""Look for a ball on which steps from distance d converge; `along` is a single start's tangential part."""
        a, near = ground.anchor, ground.near
        far, radius = d + near, 3 * d + 2 * near if along is None else d + near
        for _ in range(ROUNDS):
            radius *= 1 + 1e-5
            constant = ground.constant(radius)
            first = first_zero(ground, constant, d, along)
            if not ground.fits(constant) or first is None:
                return None
            b = (a.S + constant * radius) * UP
            eta = self.share / b**2 if self.step_size is None else self.step_size
            found = contract(a.s, constant, far, first, eta, 2 - eta * b**2 * UP)
            if found is None:
                return None
            if found.radius <= radius:
                steps = steps_to(b * far * UP, found.rate, self.target_loss)
                return Claims(
                    **ground.claims(radius, constant, eta, d), a=found.a, sigma=found.sigma, rate=found.rate,
                    epsilon=self.target_loss, steps=steps,
                )  # fmt: skip
            radius = found.radius
        return None

    def _from_start(self, ground: Ground, start: Mapping[str, ArrayLike]) -> Attempt[None]:
        network, graph = ground.network, ground.network.graph
        begun = {name: np.asarray(start[name]) for name in graph.trained}
        fixed = [name for name in ground.params if name not in begun and name in start]
        if any(not np.array_equal(np.asarray(start[name]), ground.params[name]) for name in fixed):
            raise InputError("the start differs from the anchor in weights that are not trained")
        gap = {name: begun[name] - ground.params[name] for name in graph.trained}
        found = nearest(network, ground.params | begun, ground.groups.x, ground.groups.y, start=ground.params, steps=1)
        d = length(gap) * UP
        if found is None:
            return ground.failed(d, 0.5)
        back = pulled(network, ground.params, ground.groups.x, found.normal)
        t = length({name: gap[name] - back[name] for name in graph.trained}) * (1 + 1e-6) + 1e-11 * d
        claims = self._find(ground, d, t)
        if claims is None:
            return ground.failed(d, 0.5)
        rows = found.normal.reshape(ground.groups.n, -1).T  # a verifier has outputs first
        claims["t"], claims["normal"] = t, rows.ravel().tolist()
        return ground.attempt("basin", claims, _sentence(ground, claims, "the stored start, next to"), begun=begun)


def _sentence(ground: Ground, claims: Claims, begun: str) -> str:
    return (
        f"gradient descent on the squared loss of {ground.data.name} ({ground.data.n} examples) with step size "
        f"{claims['eta']:.4g}, from {begun} {ground.where} of {ground.network}, converges to a global minimum. Every "
        f"step takes at least the share {claims['rate']:.3g} off the distance to the nearest one, no iterate is "
        f"farther than {claims['radii'][0]:.3g} away, and the loss is within {claims['epsilon']:.3g} of the least "
        f"after {claims['steps']} steps."
    )
