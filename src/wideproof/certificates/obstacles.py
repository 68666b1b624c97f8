"""What can be in the way of a proof: its value, and what would change it."""

from __future__ import annotations

from typing import TypedDict

import numpy as np
from jaxtyping import Float

from wideproof.certificates.anchor import Anchor
from wideproof.certificates.attempt import Attempt, Obstacle
from wideproof.certificates.lipschitz import closest_to_a_kink, lipschitz, sign_slack
from wideproof.certificates.setting import Setting
from wideproof.certificates.squared_loss import Convergence, proof_ratio
from wideproof.data import SequenceDataset, conflicts, groups_of_equal_rows, half_square
from wideproof.kernels import spectrum


class Impossible(TypedDict):
    """The claims where equal inputs have different targets: which rows, and the least loss of any function of them."""

    groups: list[list[int]]
    least_loss: float


def contradiction(setting: Setting) -> Attempt[None] | None:
    """Equal inputs with different targets: zero loss is impossible, and that is certified."""
    data = setting.data
    found = conflicts(data)
    if not found.least_square > 0:
        return None
    i, j = found.first[0]
    reason = f"zero loss is impossible: examples {i} and {j} have the same input and different targets"
    advice = "correct or remove one of them"
    if found.pairs > 1:
        advice = "correct or remove rows until those with equal inputs have equal targets"
    obstacle = Obstacle("contradiction", found.least_square, 0.0, reason, (advice,))
    if isinstance(data, SequenceDataset):
        return Attempt(None, None, obstacle)
    groups = [group for group in groups_of_equal_rows(data.x) if len(group) > 1]
    y = data.y.reshape(data.n, -1)
    clashing = [group.tolist() for group in groups if half_square(y[group]) > 0]
    least = found.least_square * (1 - 1e-12)
    summary = (
        f"Claim: no network fits {data.name} ({data.n} examples): {reason}. The squared loss of every function of the "
        f"input is at least {least:.6g}. Run `wideproof verify` on this folder to have it proved by an independent "
        "program."
    )
    claims = Impossible(groups=clashing, least_loss=least)
    made = setting.certificate("impossible", claims, summary, sharp=False)
    return Attempt(None, made, obstacle)


def no_eigenvalue(anchor: Anchor, x: Float[np.ndarray, "n ..."]) -> Obstacle | None:
    """A Gram matrix that is not known to be positive definite."""
    if anchor.s > 0:
        return None
    rows = anchor.n * anchor.outputs
    if rows > anchor.parameters:
        reason = (
            f"{rows} outputs cannot be moved independently by {anchor.parameters} trained parameters, so the Gram "
            "matrix is singular"
        )
        return Obstacle(
            "parameters", anchor.parameters, rows, reason, ("train a wider network", "train more of its layers")
        )
    named = ""
    if not anchor.many:  # all eigenvectors of many rows would take hours
        found = spectrum(anchor.gram.mid, error=float(np.abs(anchor.gram.mid).max()), points=x.reshape(len(x), -1))
        named = f"; {found.culprits[0]}" if found.culprits else ""
    reason = f"the smallest eigenvalue of the Gram matrix is not known to be positive{named}"
    advice = ("merge or remove near-duplicates", "centre or whiten the data", "train a wider network")
    return Obstacle("eigenvalue", 0.0, 0.0, reason, advice)


def step_too_large(step_size: float, safe: Convergence) -> Obstacle:
    """A step size that is not certified, where the `safe` one is."""
    end = 2 / (safe.b**2 + safe.s**2)
    why = f"must be below 2/(b² + s²) = {end:.4g}" if step_size >= end else "leaves too little of s for the proof"
    reason = f"the step size {step_size:.4g} {why}; {safe.eta:.4g} is certified"
    return Obstacle(
        "step size", step_size, safe.eta, reason, ("leave step_size (--step-size) out, or use a smaller one",)
    )


def ratio_too_large(anchor: Anchor, polished: bool = False) -> Obstacle:
    """A residual too large for how fast the Jacobian may change."""
    rho, s = anchor.residual, anchor.s
    constant = lipschitz(anchor, 2 * rho / s).value
    h = proof_ratio(rho, s, constant)
    reason = (
        f"the proof ratio h = Λρ/s² is {h:.3g} and must be below 0.5 (residual ρ = {rho:.3g}, smallest singular value "
        f"s = {s:.3g}, Lipschitz constant Λ = {constant:.3g})"
    )
    advice = (
        []
        if polished
        else [f"train until the residual is below about {0.4 * s * s / constant:.2g}, or polish (--polish)"]
    )
    if anchor.graph.read_out in anchor.graph.trained:
        advice.append("freeze the output layer")
    advice += [
        "use a wider network, or a larger output scale (--alpha)",
        "another preparation: sphere(16), or lift,sphere",
    ]
    return Obstacle("ratio", h, 0.5, reason, tuple(advice))


def too_far(share: float, allowed: float) -> Obstacle:
    """Return the obstacle of weights that fit only after polishing has moved them farther than allowed.

    Parameters
    ----------
    share
        The distance, relative to the length of the weights.
    allowed
        The largest distance that was allowed, relative as well.

    Returns
    -------
    Obstacle
        The obstacle.

    Examples
    --------
    >>> print(too_far(0.97, 0.1))
    the weights must move by 97 % of their length to fit, and 10 % was allowed: train the model further; or allow more
    """
    reason = (
        f"the weights must move by {100 * share:.2g} % of their length to fit, and {100 * allowed:.2g} % was allowed"
    )
    return Obstacle("polishing", share, allowed, reason, ("train the model further", "allow more"))


def kink(anchor: Anchor, radius: float) -> Obstacle | None:
    """A unit of a piecewise linear network that could change its sign within `radius`."""
    if not anchor.graph.kinked or sign_slack(anchor, radius) > 1:
        return None
    k, i, j, size = closest_to_a_kink(anchor, radius)
    place = f"unit {j} of layer {k + 1} on example {i}"
    if size <= 0:
        reason = f"a pre-activation is zero to working precision ({place}), where the ReLU has no derivative"
        return Obstacle("kink", max(size, 0.0), 0.0, reason, ("train or polish a little more, or use another seed",))
    reason = (
        f"{place} has the pre-activation {size:.3g} and could change its sign within the radius {radius:.3g} that "
        "gradient descent may need"
    )
    return Obstacle("kink", size, radius, reason, ("polish further: the radius shrinks with the residual",))


def jumps_too_far(blocked: Obstacle, share: float) -> Obstacle:
    """Units that may switch, and change the Jacobian too much when they do."""
    if share < 1:
        why = f"and the residual or the step size is too large for the theorem with jumps (3D/2s = {share:.3g})"
        more = "train or polish a little more, or use a smaller step size"
    else:
        why = f"and units that may switch change the Jacobian by too much: 3D/2 = {share:.3g} s must be below s"
        more = "use a wider network"
    return Obstacle("kink", blocked.value, blocked.needed, f"{blocked.reason}, {why}", (*blocked.advice, more))
