r"""Certify that gradient descent on the squared loss reaches zero from given weights, or say what is in the way."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from jax.typing import ArrayLike

from wideproof.certificates.anchor import Anchor, measure
from wideproof.certificates.arguments import checked
from wideproof.certificates.attempt import Attempt, Level, Obstacle
from wideproof.certificates.balance import is_balanced
from wideproof.certificates.certificate import Certificate
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
from wideproof.certificates.squared_loss import Descent, Existence, existence, find_descent, proof_ratio
from wideproof.certificates.staircase import Staircase, climb
from wideproof.data import AnyDataset, Distinct, distinct
from wideproof.networks import Network


@checked
def certify(
    network: Network,
    params: Mapping[str, ArrayLike],
    data: AnyDataset,
    *,
    level: Level = "enclosed",
    sharp: bool = False,
    step_size: float | None = None,
    target_loss: float = 1e-12,
    require_zero: bool = False,
    rooms: Sequence[float] = (0.0,),
    about: Mapping[str, Any] | None = None,
) -> Attempt:
    r"""Try to prove that gradient descent on $\tfrac12 \sum (f - y)^2$ converges to a global minimum from `params`.

    Equal inputs count as one example with the mean of their targets; where these differ the global minimum is not zero
    but $L^*$, the least loss of any function of the inputs (`data.repeats`), and that is what is proved to be reached.

    Parameters
    ----------
    params
        The anchor: an initialization (a proof before training) or trained weights.
    level
        `"enclosed"` bounds every rounding error; `"float64"` is faster and proves nothing.
    sharp
        Spend a pass and some spectral norms for each example on sharper Lipschitz constants.
    step_size
        Certify this one, which is below $2/(b^2 + s^2)$; by default $1/b^2$, which asks least of the network.
    target_loss
        The loss, above the least one, for which steps are counted.
    require_zero
        Prove zero loss, or that it is impossible.
    rooms
        Shares, of which the first with a proof is taken: it then holds for all starts so near that their residual is
        larger by at most that share. (Sums of outputs, which are constant at the anchor, are not at those.)
    about
        Where the anchor comes from; it is written into the certificate.

    Examples
    --------
    >>> from wideproof.data import Dataset
    >>> from wideproof.networks import FullyConnected
    >>> from wideproof.certificates.polishing import polish
    >>> network = FullyConnected(input_dim=3, width=64, depth=1)
    >>> data = Dataset(np.eye(3), np.array([1.0, -1.0, 1.0]), "binary")
    >>> near = polish(network, network.init(0), data.x, data.y).params
    >>> certify(network, near, data).passed
    True
    """
    weights = {name: np.asarray(weight) for name, weight in params.items()}
    about = {"data": data.name, "digest": data.digest, **(about or {})}
    sequences = network.data_kind == "sequences"  # those that share a prefix contradict each other in other ways
    impossible = contradiction(network, weights, data, level, about) if require_zero or sequences else None
    if impossible is not None:
        return impossible
    groups = distinct(data)
    counts = groups.counts if groups.repeated else None
    anchor = measure(
        network.graph, weights, groups.x, network.scored(groups.y), counts=counts,
        level=level, sharp=sharp, constant=not any(rooms) and is_balanced(network.graph, weights, data.y),
    )  # fmt: skip
    obstacle = no_eigenvalue(anchor, groups.x)
    if obstacle is not None:
        return Attempt(anchor, None, obstacle)
    constant = cache(lambda radius: _constant(anchor, radius))
    near = existence(anchor.s, anchor.newton, constant)

    def look(room: float) -> Descent | Obstacle:
        rho = max(anchor.residual, 1e-300) * (1 + room)
        search = _search(anchor, network, weights, rho, constant)
        found = find_descent(rho, anchor.s, anchor.S, search, eta=step_size, epsilon=target_loss)
        if found is None:
            safe = None
            if step_size is not None:
                safe = find_descent(rho, anchor.s, anchor.S, search, epsilon=target_loss)
            too_far = ratio_too_large(anchor, "polishing" in about)
            return too_far if step_size is None or safe is None else step_too_large(step_size, safe)
        blocked = kink(anchor, found.radius)
        if blocked is None:
            return found
        if not has_jumps(anchor.graph) or anchor.lifted:
            return blocked
        found, share = find_jumps(
            anchor, weights, groups.x, counts=counts, eta=step_size, epsilon=target_loss, room=room
        )
        return found or jumps_too_far(blocked, share)

    found = look(rooms[0])
    for room in rooms[1:]:
        if isinstance(found, Descent):
            break
        found = look(room)
    if isinstance(found, Obstacle):
        return Attempt(anchor, None, found, existence=near if found.quantity != "kink" else None)
    if kink(anchor, found.radius) is not None:  # units may switch on the way, which Theorem 2 does not allow
        near = None
    claims = descent_claims(found, near) | {"rho": max(anchor.residual, 1e-300)}
    if groups.repeated:
        low, high = groups.least_loss
        claims |= {"distinct": groups.n, "least_loss": low, "least_loss_at_most": high}
    if anchor.lifted:
        claims["constant_sum"] = anchor.lifted
    summary = _summary(network, data, found, about, groups)
    made = Certificate(summary, "descent", level, network.graph, claims, weights, data.x, data.y, sharp, about)
    return Attempt(anchor, made, None, found, near)


def _constant(anchor: Anchor, radius: float) -> float:
    return lipschitz(anchor, radius).value


def _search(
    anchor: Anchor,
    network: Network,
    params: Mapping[str, np.ndarray],
    rho: float,
    constant: Callable[[float], float],
) -> Callable[[float], Staircase | None]:
    """Return the search for radii: balls, and where they fail the nested sets."""
    known = cache(lambda: nested_sets(anchor, network, params))

    def search(pull: float) -> Staircase | None:
        stairs = climb(rho, pull, constant)
        if stairs is None and (sets := known()) is not None:
            return climb_nested(rho, anchor.s, sets, pull)
        return stairs

    return search


def descent_claims(found: Descent, near: Existence | None) -> dict[str, Any]:
    """Return Theorem 1's numbers as a certificate names them, with Theorem 2's where its ball is the smaller one."""
    claims: dict[str, Any] = {
        "rho": found.rho, "s": found.s, "S": found.S,
        "radii": list(found.staircase.radii), "lipschitz": list(found.staircase.constants),
        "h": found.h, "sigma": found.sigma, "b": found.b, "eta": found.eta, "rate": found.rate,
        "epsilon": found.epsilon, "steps": found.steps,
    }  # fmt: skip
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
                claims |= {"D": near.distance, "newton_h": h, "newton_radius": radius}
    return claims


def _summary(network: Network, data: AnyDataset, found: Descent, about: Mapping[str, Any], groups: Distinct) -> str:
    where = about.get("anchor", "these weights")
    goal, above, jumps = "zero training loss", "", ""
    if found.jump:
        jumps = f", through switching units that change it by at most {found.jump:.3g}"
    if groups.least:
        goal = f"the least loss that any function of the inputs has, {groups.least_loss[0]:.6g}, a global minimum"
        above = " above that"
    return (
        f"Claim: gradient descent on the squared loss of {data.name} ({data.n} examples), started at {where} of "
        f"{network} with step size {found.eta:.4g}, converges to {goal}. Every step removes at least the "
        f"share {found.rate:.3g} of the residual (with a smaller step size, proportionally less), no iterate is "
        f"farther than {found.radius:.3g} from the start, and the loss is at most {found.epsilon:.3g}{above} after "
        f"{found.steps} steps. (Proof ratio h = {found.h:.3g}, residual {found.rho:.3g}, smallest singular value of "
        f"the Jacobian {found.s:.3g}{jumps}.) Run `wideproof verify` on this folder to have it proved by an "
        "independent program."
    )
