r"""Descent: gradient descent on the squared loss reaches a global minimum from the point (Theorem 1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cache
from typing import NotRequired

from wideproof.certificates.anchor import Anchor
from wideproof.certificates.attempt import Attempt, Obstacle
from wideproof.certificates.balance import is_balanced
from wideproof.certificates.ground import VERIFY, Repeated
from wideproof.certificates.jumps import find_jumps, has_jumps
from wideproof.certificates.lipschitz import lipschitz
from wideproof.certificates.nested import climb_nested, nested_sets
from wideproof.certificates.obstacles import (
    contradiction,
    jumps_too_far,
    kink,
    no_eigenvalue,
    ratio_too_large,
    step_too_large,
)
from wideproof.certificates.setting import Setting
from wideproof.certificates.squared_loss import Convergence, Existence, existence, find_descent, proof_ratio
from wideproof.certificates.staircase import Staircase, climb
from wideproof.certificates.theorem import Theorem


class Claims(Repeated):
    """The claims of Theorem 1, and those of Theorem 2 (`D`, `newton_h`, `newton_radius`) where its ball is smaller."""

    rho: float
    s: float
    S: float
    radii: list[float]
    lipschitz: list[float]
    h: float
    sigma: float
    b: float
    eta: float
    rate: float
    epsilon: float
    steps: int
    kappa: NotRequired[float]
    jump: NotRequired[float]
    nested: NotRequired[dict[str, list[float]]]
    D: NotRequired[float]
    newton_h: NotRequired[float]
    newton_radius: NotRequired[float]
    constant_sum: NotRequired[float]


@dataclass(frozen=True)
class Descent(Theorem[Convergence]):
    r"""Gradient descent on $\tfrac12 \sum (f - y)^2$ converges to a global minimum from the point (Theorem 1).

    Equal inputs count as one example with the mean of their targets. If their targets differ, the global minimum is not
    zero but $L^*$, the least loss of any function of the inputs (`data.repeats`); the proof is that this loss is
    reached.

    Attributes
    ----------
    step_size
        Step size (learning rate) to certify, below $2/(b^2 + s^2)$; by default $1/b^2$, which requires least of the
        network.
    target_loss
        The loss, above the least one, for which the certificate counts steps.
    require_zero
        If equal inputs have different targets, prove that zero loss is impossible.
    rooms
        Relative increases of the residual; the first with a proof is taken. The proof then holds for all starts so near
        that their residual is larger by at most that share. (Sums of outputs are constant at the point, but not at
        those starts.)

    Examples
    --------
    >>> import numpy as np
    >>> from wideproof.certificates import Problem, certify, polish
    >>> from wideproof.data import Dataset
    >>> from wideproof.networks import FullyConnected
    >>> network = FullyConnected(input_dim=3, width=64, depth=1)
    >>> data = Dataset(np.eye(3), np.array([1.0, -1.0, 1.0]), "binary")
    >>> near = polish(network, network.init(0), data.x, data.y).params
    >>> certify(Problem(network, data).at(near), Descent(target_loss=1e-6)).passed
    True
    """

    step_size: float | None = None
    _: KW_ONLY
    target_loss: float = 1e-12
    require_zero: bool = False
    rooms: Sequence[float] = (0.0,)

    def prove(self, setting: Setting) -> Attempt[Convergence]:
        network, params, data, groups = setting.network, setting.params, setting.data, setting.groups
        sequences = network.data_kind == "sequences"  # those that share a prefix contradict each other in other ways
        impossible = contradiction(setting) if self.require_zero or sequences else None
        if impossible is not None:
            return Attempt(None, impossible.certificate, impossible.obstacle)
        anchor = setting.measured(constant=not any(self.rooms) and is_balanced(network.graph, params, data.y))
        obstacle = no_eigenvalue(anchor, groups.x)
        if obstacle is not None:
            return Attempt(anchor, None, obstacle)
        constant = cache(lambda radius: lipschitz(anchor, radius).value)
        found = self._find(setting, anchor, constant)
        if isinstance(found, Obstacle):
            return Attempt(anchor, None, found)
        claims = claims_of(found, None if kink(anchor, found.radius) else existence(anchor.s, anchor.newton, constant))
        claims["rho"] = max(anchor.residual, 1e-300)
        if groups.repeated:
            claims["distinct"] = groups.n
            claims["least_loss"], claims["least_loss_at_most"] = groups.least_loss
        if anchor.lifted:
            claims["constant_sum"] = anchor.lifted
        return Attempt(anchor, setting.certificate("descent", claims, _sentence(setting, found)), None, found)

    def _find(self, setting: Setting, anchor: Anchor, constant: Callable[[float], float]) -> Convergence | Obstacle:
        """Return what the first room with a proof concludes, or what is in the way of the last one."""
        found = None
        for room in self.rooms:
            found = self._find_with(room, setting, anchor, constant)
            if isinstance(found, Convergence):
                break
        assert found is not None
        return found

    def _find_with(
        self, room: float, setting: Setting, anchor: Anchor, constant: Callable[[float], float]
    ) -> Convergence | Obstacle:
        rho, eta, epsilon = max(anchor.residual, 1e-300) * (1 + room), self.step_size, self.target_loss
        search = _search(setting, anchor, rho, constant)
        found = find_descent(rho, anchor.s, anchor.S, search, eta=eta, epsilon=epsilon)
        if found is None:
            safe = None if eta is None else find_descent(rho, anchor.s, anchor.S, search, epsilon=epsilon)
            if eta is None or safe is None:
                return ratio_too_large(anchor, "polishing" in setting.about)
            return step_too_large(eta, safe)
        blocked = kink(anchor, found.radius)
        if blocked is None:
            return found
        if not has_jumps(anchor.graph) or anchor.lifted:
            return blocked
        groups = setting.groups
        counts = groups.counts if groups.repeated else None
        found, share = find_jumps(anchor, setting.params, groups.x, counts=counts, eta=eta, epsilon=epsilon, room=room)
        return found or jumps_too_far(blocked, share)


def _search(
    setting: Setting, anchor: Anchor, rho: float, constant: Callable[[float], float]
) -> Callable[[float], Staircase | None]:
    r"""Return the search for radii: balls, and where they fail the nested sets.

    A residual `rho` above the anchor's is that of starts at most $(\rho - |r|) / (S + s)$ away.
    """
    known = cache(lambda: nested_sets(anchor, setting.network, setting.params))
    off = max(rho - anchor.residual, 0.0) / (anchor.S + anchor.s)

    def search(pull: float) -> Staircase | None:
        stairs = climb(rho, pull, constant)
        if stairs is None and (sets := known()) is not None:
            return climb_nested(rho, anchor.s, sets, pull, off)
        return stairs

    return search


def claims_of(found: Convergence, near: Existence | None) -> Claims:
    """Return Theorem 1's numbers as a certificate names them, with Theorem 2's where its ball is the smaller one."""
    claims = Claims(
        rho=found.rho, s=found.s, S=found.S, radii=list(found.staircase.radii),
        lipschitz=list(found.staircase.constants), h=found.h, sigma=found.sigma, b=found.b, eta=found.eta,
        rate=found.rate, epsilon=found.epsilon, steps=found.steps,
    )  # fmt: skip
    if found.kappa < 1:
        claims["kappa"] = found.kappa
    if found.jump > 0:
        claims["jump"] = found.jump
    if found.staircase.caps is not None:
        claims["nested"] = {"A": list(found.staircase.caps)}
    elif near is not None:
        h = proof_ratio(near.distance, 1.0, found.staircase.constants[-1]) / found.s * (1 + 1e-12)
        if h < 0.5:
            radius = 2 * near.distance / (1 + math.sqrt(1 - 2 * h)) * (1 + 1e-12)
            if radius <= found.radius:
                claims["D"], claims["newton_h"], claims["newton_radius"] = near.distance, h, radius
    return claims


def _sentence(setting: Setting, found: Convergence) -> str:
    network, data, groups = setting.network, setting.data, setting.groups
    goal, above, jumps = "zero training loss", "", ""
    if found.jump:
        jumps = f", through switching units that change it by at most {found.jump:.3g}"
    if groups.least:
        goal = f"the least loss that any function of the inputs has, {groups.least_loss[0]:.6g}, a global minimum"
        above = " above that"
    return (
        f"Claim: gradient descent on the squared loss of {data.name} ({data.n} examples), started at {setting.where} "
        f"of {network} with step size {found.eta:.4g}, converges to {goal}. Every step removes at least the "
        f"share {found.rate:.3g} of the residual (with a smaller step size, proportionally less), no iterate is "
        f"farther than {found.radius:.3g} from the start, and the loss is at most {found.epsilon:.3g}{above} after "
        f"{found.steps} steps. (Proof ratio h = {found.h:.3g}, residual {found.rho:.3g}, smallest singular value of "
        f"the Jacobian {found.s:.3g}{jumps}.) {VERIFY}"
    )
