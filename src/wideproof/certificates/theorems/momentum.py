r"""Momentum: gradient descent with heavy ball momentum converges to zero loss.

$\Delta_{k+1} = \beta \Delta_k - \eta \nabla L_k$ and $\theta_{k+1} = \theta_k + \Delta_{k+1}$ from $\Delta_0 = 0$. With
$\sigma = s - \Lambda R$, $\ell = (S + \Lambda R)^2 + \Lambda \rho$, $\eta \ell \le 1 - \beta$ and
$c = \beta + \sigma \sqrt{\beta \eta}$ the path is at most $2 \rho (1 + c) / ((1 - \beta) \sigma)$; if that is below
$R$, everything stays in the ball. `docs/theory/certificates.md` has the proof (Theorem 9).
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

from wideproof.certificates.attempt import Attempt, Obstacle
from wideproof.certificates.ground import DOWN, ROUNDS, UP, Ground, Repeated, measure
from wideproof.certificates.setting import Setting
from wideproof.certificates.theorem import Theorem


class Claims(Repeated):
    """The claims of Theorem 9."""

    s: float
    S: float
    rho: float
    radii: list[float]
    lipschitz: list[float]
    momentum: float
    sigma: float
    ell: float
    eta: float
    rate: float
    epsilon: float
    steps: int


class Inertia(NamedTuple):
    r"""What Theorem 9 says of a ball: bounds, the step size, the length of the path, and the rate.

    After k steps the loss is at most $(1 + c/(1 - x)) (1 - x)^k$ times the first one, where x is the `rate` and c the
    `drag`.
    """

    sigma: float
    ell: float
    eta: float
    drag: float
    path: float
    rate: float


def inertia(
    rho: float, s: float, S: float, constant: float, radius: float, beta: float, eta: float | None = None
) -> Inertia | None:
    r"""Return what follows while all is in the ball, or `None`; the proof needs `path` to be below `radius`.

    The step size is by default $(1 - \beta) / \ell$, the largest there is a proof for.

    >>> found = inertia(0.01, 1.0, 2.0, 0.5, 0.5, 0.5)
    >>> round(found.path, 3), round(found.eta, 3), found.rate > 0.009
    (0.089, 0.099, True)
    """
    sigma, ell = (s - constant * radius) * DOWN, ((S + constant * radius) ** 2 + constant * rho) * UP
    if not (sigma > 0 and math.isfinite(ell)):
        return None
    eta = (1 - beta) / ell * DOWN if eta is None else eta
    if not 0 < eta * ell * (1 + 1e-12) <= 1 - beta:
        return None
    drag = beta + sigma * math.sqrt(beta * eta)
    gain = (1 - beta) * eta * sigma**2 / (1 + drag)
    whole = 1 + drag + gain
    rate = 2 * gain / (whole + math.sqrt(max(whole**2 - 4 * gain, 0.0))) * DOWN
    path = 2 * rho * (1 + drag) / ((1 - beta) * sigma) * UP
    return Inertia(sigma, ell, eta, drag, path, min(rate, 1 - 1e-9))


@dataclass(frozen=True)
class Momentum(Theorem[None]):
    r"""Gradient descent with heavy ball momentum converges to a global minimum from the point.

    Every step is $\Delta \leftarrow \beta \Delta - \eta \nabla L$, $\theta \leftarrow \theta + \Delta$ with
    $L = \tfrac12 \sum (f - y)^2$, from $\Delta = 0$ (Theorem 9). The weights at the point have a small residual: they
    were trained or polished (`polish`). The proof does not say that this is faster than without momentum.

    Attributes
    ----------
    momentum
        $\beta$, at least 0 and below 1.
    step_size
        Step size (learning rate) to certify; by default the largest with a proof, about $(1 - \beta)/S^2$.
    target_loss
        The loss, above the least one, for which the certificate counts steps.

    Examples
    --------
    >>> import numpy as np
    >>> from wideproof.certificates import Problem, certify, polish
    >>> from wideproof.data import Dataset
    >>> from wideproof.networks import FullyConnected
    >>> network = FullyConnected(input_dim=3, width=64, depth=1)
    >>> data = Dataset(np.eye(3), np.array([1.0, -1.0, 1.0]), "binary")
    >>> near = polish(network, network.init(0), data.x, data.y).params
    >>> certify(Problem(network, data).at(near), Momentum(0.9)).passed
    True
    """

    momentum: float = 0.9
    _: KW_ONLY
    step_size: float | None = None
    target_loss: float = 1e-12

    def prove(self, setting: Setting) -> Attempt[None]:
        ground = measure(setting)
        if isinstance(ground, Attempt):
            return ground
        claims = self._find(ground, self.step_size)
        return self._failed(ground) if claims is None else ground.attempt("momentum", claims, _sentence(ground, claims))

    def _find(self, ground: Ground, eta: float | None) -> Claims | None:
        """Look for the smallest ball that the path cannot leave."""
        beta, epsilon = self.momentum, self.target_loss
        a, rho, radius = ground.anchor, ground.rho, 2 * ground.rho * (1 + beta) / ((1 - beta) * ground.anchor.s)
        for _ in range(ROUNDS):
            radius *= 1 + 1e-6
            constant = ground.constant(radius)
            found = inertia(rho, a.s, a.S, constant, radius, beta, eta)
            if found is None:
                return None
            if found.path < radius * DOWN:
                first = (1 + found.drag / (1 - found.rate)) * rho**2 / 2 * UP
                many = math.log(max(first / epsilon, 1.0)) / -math.log1p(-found.rate)
                return Claims(
                    s=a.s, S=a.S, rho=rho, radii=[radius], lipschitz=[constant], momentum=beta, sigma=found.sigma,
                    ell=found.ell, eta=found.eta, rate=found.rate, epsilon=epsilon,
                    steps=math.ceil(many * UP) + 1 if many else 0,
                )  # fmt: skip
            radius = found.path
        return None

    def _failed(self, ground: Ground) -> Attempt[None]:
        a, beta, step_size = ground.anchor, self.momentum, self.step_size
        if step_size is not None and (safe := self._find(ground, None)) is not None:
            reason = f"the step size {step_size:.4g} must be at most about (1 - β)/ℓ = {safe['eta']:.4g}"
            advice = ("leave step_size out, or use a smaller one",)
            return Attempt(a, None, Obstacle("step size", step_size, safe["eta"], reason, advice))
        path = 2 * ground.rho * (1 + beta) / ((1 - beta) * a.s)
        constant = ground.constant(path)
        value, needed = constant * ground.rho / a.s**2, (1 - beta) / (8 * (1 + beta))
        reason = (
            f"the proof ratio Λρ/s² is {value:.3g} and must be below about {needed:.2g} with momentum {beta:g} "
            f"(residual ρ = {ground.rho:.3g}, smallest singular value s = {a.s:.3g}, Lipschitz constant Λ = "
            f"{constant:.3g})"
        )
        less = f"train until the residual is below about {0.8 * needed * a.s**2 / max(constant, 1e-300):.2g}, or polish"
        return Attempt(a, None, Obstacle("ratio", value, needed, reason, (less, "use less momentum")))


def _sentence(ground: Ground, claims: Claims) -> str:
    data = ground.data
    return (
        f"gradient descent with momentum {claims['momentum']:g} and step size {claims['eta']:.4g} on the squared loss "
        f"of {data.name} ({data.n} examples), started at {ground.where} of {ground.network} without a velocity, "
        f"converges to a global minimum. The weights move by less than {claims['radii'][0]:.3g}, the proven bound of "
        f"the loss falls by the share {claims['rate']:.3g} at every step, and the loss is within "
        f"{claims['epsilon']:.3g} of the least after {claims['steps']} steps."
    )
