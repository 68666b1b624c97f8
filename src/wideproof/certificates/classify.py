r"""Certificates for classifiers: zero training error and a small loss at the weights, and more of it to come.

$L_S = \frac1n \sum_i \log(1 + e^{-y_i f_i})$ and the margin $\min_i y_i f_i$ are facts about one point: enclosing the
outputs proves them. Theorem 3 adds that gradient descent on $L_S$ goes on from there to a given smaller loss.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float

from wideproof.certificates.anchor import Anchor, measure
from wideproof.certificates.arguments import checked
from wideproof.certificates.attempt import Level, Obstacle
from wideproof.certificates.certificate import Certificate
from wideproof.certificates.enclosure import UP, Ball
from wideproof.certificates.lipschitz import kink_radius, lipschitz
from wideproof.certificates.logistic_loss import LogisticDescent, least_loss, logistic_descent, loss_integrals, slopes
from wideproof.certificates.obstacles import kink
from wideproof.data import AnyDataset
from wideproof.errors import InputError
from wideproof.networks import Network

NEARBY = 1e-7  # the largest distance of starts for which Theorem 3 is asked: float64 steps end nearer


@dataclass(frozen=True, eq=False)
class Classified:
    """What is certified about a classifier.

    Attributes
    ----------
    margin
        Lower bound of the least margin; above 0 every training example is on the right side.
    loss
        Upper bound of the mean logistic loss; NaN for several classes.
    descent
        Theorem 3's conclusion for the least loss it reaches, or `None`.
    anchor
        The numbers at the weights.
    """

    margin: float
    loss: float
    descent: LogisticDescent | None
    certificate: Certificate | None
    obstacle: Obstacle | None
    anchor: Anchor


@checked
def certify_classifier(
    network: Network,
    params: Mapping[str, ArrayLike],
    data: AnyDataset,
    *,
    target_loss: float | None = None,
    level: Level = "enclosed",
    sharp: bool = False,
    step_size: float | None = None,
    room: float = 0.0,
    about: Mapping[str, Any] | None = None,
) -> Classified:
    r"""Certify the training error and the logistic loss at `params`, and how far gradient descent will take the loss.

    Parameters
    ----------
    params
        The anchor: trained weights, or an initialization.
    target_loss
        Asks Theorem 3 for that loss; by default for the least that it reaches.
    level
        `"enclosed"` bounds every rounding error; `"float64"` is faster and proves nothing.
    sharp
        Sharper Lipschitz constants; slower.
    step_size
        Of gradient descent on the mean loss; by default $1/\beta$, with the curvature $\beta$ of the theorem.
    room
        The share of the loss by which it may be larger at a start nearby: Theorem 3 then holds for all starts within
        `descent.distance`, at most 1e-7.
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
    >>> found = certify_classifier(network, near, data)
    >>> found.margin > 0.99, found.certificate.theorem
    (True, 'logistic')
    """
    if data.task == "regression" or network.data_kind == "sequences":
        raise InputError("a classifier's certificate needs labels, and a network with one answer for each example")
    weights = {name: np.asarray(weight) for name, weight in params.items()}
    about = {"data": data.name, "digest": data.digest, **(about or {})}
    anchor = measure(network.graph, weights, data.x, data.y, level=level, sharp=sharp)
    y = data.y.reshape(data.n, -1)
    outputs = Ball(anchor.errors.mid + y, anchor.errors.rad)
    off = np.zeros_like(y) if outputs.rad is None else (outputs.rad + 4e-16 * np.abs(outputs.mid)) * UP
    margin = least_margin(outputs.mid, off, y)
    loss = math.nan
    found = None
    if y.shape[1] == 1:
        worst = (y * outputs.mid - off).ravel()
        loss = float(np.logaddexp(0, -worst).mean()) * (1 + 1e-12) + 1e-300
        found = _more(anchor, data.n, loss, target_loss, step_size, room)
    if found is None and not margin > 0:
        reason = f"an example is not known to be on the right side: the least margin is {margin:.3g}"
        return Classified(margin, loss, None, None, Obstacle("margin", margin, 0.0, reason, ("train longer",)), anchor)
    theorem = "fit" if found is None else "logistic"
    claims: dict[str, Any] = {"margin": margin}
    if y.shape[1] == 1:
        claims = {"margin": margin, "loss_name": "logistic", "loss": loss} if found is None else _claims(found)
    summary = _summary(network, data, margin, loss, found)
    made = Certificate(summary, theorem, level, network.graph, claims, weights, data.x, data.y, sharp, about)
    return Classified(margin, loss, found, made, None, anchor)


def least_margin(
    outputs: Float[np.ndarray, "n c"], off: Float[np.ndarray, "n c"], y: Float[np.ndarray, "n c"]
) -> float:
    r"""Return a lower bound of $\min_i y_i f_i$, or of own output less the best other one for several classes.

    >>> least_margin(np.array([[0.5], [-1.0]]), np.zeros((2, 1)), np.array([[1.0], [-1.0]]))
    0.5
    """
    if y.shape[1] == 1:
        return float((y * outputs - off).min())
    own = np.where(y > 0, outputs - off, -np.inf).max(axis=1)
    other = np.where(y > 0, -np.inf, outputs + off).max(axis=1)
    gap = own - other
    return float((gap - 4e-16 * np.abs(gap)).min())


def no_lower_loss(found: Classified, n: int, step_size: float | None) -> Obstacle:
    r"""Return why Theorem 3 does not go on though s is positive: the step size, a kink, or $s^2/2\Lambda$."""
    anchor, loss = found.anchor, found.loss
    needed, most = n * loss_integrals(0.9 * loss, loss, n)[0], 2 * n / (slopes(loss, n)[1] * anchor.S**2)
    if step_size is not None and step_size >= most:
        reason = f"the step size {step_size:.4g} is not below 2n/(ℓ''S²) = {most:.4g}, beyond which the loss may rise"
        return Obstacle("step size", step_size, most, reason, ("train with a smaller step size",))
    blocked = kink(anchor, needed / anchor.s)
    if blocked is not None:
        return dataclasses.replace(blocked, advice=("use a smooth activation",))
    gain = anchor.s**2 / max(2 * lipschitz(anchor, 0.0).value, 1e-300)
    reason = (
        f"Theorem 3 does not lower the loss {loss:.3g} from there: s²/2Λ is {gain:.3g}, and to lower it by a tenth "
        f"takes more than n ∫dL/ψ = {needed:.3g}"
    )
    return Obstacle("gain", gain, needed, reason, ("use a wider network, or a larger output scale",))


def _more(
    anchor: Anchor, n: int, loss: float, target_loss: float | None, eta: float | None, room: float
) -> LogisticDescent | None:
    constant_at = cache(lambda radius: lipschitz(anchor, radius).value)
    limit, s, S = kink_radius(anchor), anchor.s, anchor.S
    distance = min(NEARBY, room * loss * math.sqrt(n) / (S + s)) if s > 0 else 0.0
    if target_loss is not None:
        return logistic_descent(n, loss, target_loss, s, S, constant_at, kink=limit, eta=eta, distance=distance)
    return least_loss(n, loss, s, S, constant_at, kink=limit, eta=eta, distance=distance)


def _claims(found: LogisticDescent) -> dict[str, Any]:
    return {
        "loss": found.loss, "epsilon": found.epsilon, "c": found.c, "s": found.s, "S": found.S,
        "radii": list(found.staircase.radii), "lipschitz": list(found.staircase.constants), "R1": found.inner,
        "eta": found.eta, "steps": found.steps, "I1": found.first_integral, "I2": found.second_integral,
    }  # fmt: skip


def _summary(network: Network, data: AnyDataset, margin: float, loss: float, found: LogisticDescent | None) -> str:
    right = f"classifies all {data.n} examples of {data.name} correctly, with margin at least {margin:.3g}"
    fit = f"Claim: {network} at these weights {right}" if margin > 0 else f"Claim: about {network} on {data.name}"
    more = ""
    if found is not None:
        more = (
            f"; and gradient descent on the mean logistic loss with step size {found.eta:.3g} takes it from {loss:.3g} "
            f"to {found.epsilon:.3g} or less within {found.steps} steps, no farther than {found.radius:.3g} away"
        )
    return f"{fit}{more}. Run `wideproof verify` on this folder to have it proved by an independent program."
