r"""Gauss–Newton: the undamped method with shortest steps converges to zero loss, by Kantorovich's theorem.

With $s \le \sigma_{\min}(J_0)$, $D \ge \|J_0^+ r_0\|$ (the length of the first step) and
$h' = \Lambda D / s < \tfrac12$ the steps are no longer than those of Newton's method for
$s (D - t) + \tfrac12 \Lambda t^2$ from $t = 0$, which climb to $R' = 2D / (1 + \sqrt{1 - 2h'})$.
`docs/theory/certificates.md` has the proof (Theorem 13).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

from wideproof.certificates.attempt import Attempt, Obstacle
from wideproof.certificates.ground import DOWN, ROUNDS, UP, Ground, Repeated, measure
from wideproof.certificates.setting import Setting
from wideproof.certificates.theorem import Theorem

MOST = 100  # steps, of a method that squares the residual


class Claims(Repeated):
    """The claims of Theorem 13."""

    s: float
    rho: float
    radii: list[float]
    lipschitz: list[float]
    D: float
    newton_h: float
    newton_radius: float
    sigma: float
    square: float
    epsilon: float
    steps: int


class Ascent(NamedTuple):
    """What Theorem 13 says: the ball, its constant, and bounds along the way."""

    radius: float
    constant: float
    h: float
    end: float
    sigma: float
    square: float
    steps: int


def newton(
    rho: float, s: float, first: float, constant_at: Callable[[float], float], epsilon: float = 1e-12
) -> Ascent | None:
    r"""Return the smallest ball in which Kantorovich's condition holds, or `None`; `first` is D.

    >>> found = newton(1.0, 1.0, 0.8, lambda radius: 0.5)
    >>> (round(found.h, 3), round(found.end, 3), round(found.sigma, 3), found.steps) if found else None
    (0.4, 1.106, 0.447, 4)
    >>> newton(1.0, 1.0, 1.01, lambda radius: 0.5) is None
    True
    """
    if not (s > 0 and math.isfinite(first)):
        return None
    radius = first
    for _ in range(ROUNDS):
        constant = constant_at(radius)
        h = constant * first / s * UP
        if not h < 0.5:
            return None
        end = 2 * first / (1 + math.sqrt(1 - 2 * h)) * UP
        sigma = (s - constant * end) * DOWN
        if end <= radius and sigma > 0:
            steps = steps_to(rho, s, first, constant, epsilon)
            square = constant / (2 * sigma**2) * UP
            return None if steps is None else Ascent(radius, constant, h, end, sigma, square, steps)
        if end <= radius:
            return None
        radius = end * (1 + 1e-6)
    return None


def steps_to(rho: float, s: float, first: float, constant: float, epsilon: float) -> int | None:
    r"""Return after how many steps the bound of the residual is $\sqrt{2 \varepsilon}$ or less.

    >>> steps_to(1.0, 1.0, 0.8, 0.0, 1e-12), steps_to(1.0, 1.0, 0.8, 0.0, 0.6)
    (1, 0)
    """
    far, step, left = 0.0, first, rho
    for k in range(MOST + 1):
        if left <= math.sqrt(2 * epsilon) * DOWN:
            return k
        far, left = far + step, constant * step * step / 2 * UP
        low = s - constant * far
        if not low > 0:
            return None
        step = left / (low * DOWN)
    return None


@dataclass(frozen=True)
class Newton(Theorem[None]):
    r"""Gauss–Newton from the point converges quadratically to a global minimum of the squared loss.

    The method is $\theta \leftarrow \theta - J^+ r$ in exact arithmetic, without damping and with whole steps, as
    `Recipe(optimizer="gauss-newton")` takes them up to rounding (Theorem 13). The point may be initial weights.

    Attributes
    ----------
    target_loss
        The loss, above the least one, for which the certificate counts steps.

    Examples
    --------
    >>> import numpy as np
    >>> from wideproof.certificates import Problem, certify
    >>> from wideproof.data import Dataset
    >>> from wideproof.networks import FullyConnected
    >>> network = FullyConnected(input_dim=3, width=1024, depth=1)
    >>> data = Dataset(np.eye(3), np.array([1.0, -1.0, 1.0]), "binary")
    >>> found = certify(Problem(network, data).at(network.init(0)), Newton())
    >>> found.passed, found.certificate.claims["steps"]
    (True, 3)
    """

    _: KW_ONLY
    target_loss: float = 1e-12

    def prove(self, setting: Setting) -> Attempt[None]:
        ground = measure(setting)
        if isinstance(ground, Attempt):
            return ground
        a = ground.anchor
        if not math.isfinite(a.newton):
            reason = "the length of the first step is not bounded: there are too many rows of the Jacobian"
            return Attempt(a, None, Obstacle("rows", a.n * a.outputs, math.nan, reason, ("use fewer examples",)))
        found = newton(ground.rho, a.s, a.newton, ground.constant, self.target_loss)
        if found is None:
            return Attempt(a, None, _obstacle(a.s, a.newton, ground.constant(a.newton)))
        claims = Claims(
            s=a.s, rho=ground.rho, radii=[found.radius], lipschitz=[found.constant], D=a.newton, newton_h=found.h,
            newton_radius=found.end, sigma=found.sigma, square=found.square, epsilon=self.target_loss,
            steps=found.steps,
        )  # fmt: skip
        return ground.attempt("newton", claims, _sentence(ground, found, self.target_loss))


def _sentence(ground: Ground, found: Ascent, target_loss: float) -> str:
    data = ground.data
    return (
        f"Gauss–Newton with whole steps on the squared loss of {data.name} ({data.n} examples), started at "
        f"{ground.where} of {ground.network}, converges to a global minimum within {found.end:.3g} of the start. Every "
        f"step takes the residual to at most {found.square:.3g} times its square, and the loss is within "
        f"{target_loss:.3g} of the least after {found.steps} steps. (h' = ΛD/s = {found.h:.3g}.)"
    )


def _obstacle(s: float, first: float, constant: float) -> Obstacle:
    h = constant * first / s
    reason = (
        f"ΛD/s is {h:.3g}, or grows to more on the way, and must be below 0.5 (first step D = {first:.3g}, smallest "
        f"singular value s = {s:.3g}, Lipschitz constant Λ = {constant:.3g} within D)"
    )
    advice = ("use a wider network, or a larger output scale", "start nearer to a fit: train, or polish")
    return Obstacle("ratio", h, 0.5, reason, advice)
