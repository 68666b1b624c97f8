r"""Classifiers: zero training error and a small loss at the weights, and more of it to come.

$L_S = \frac1n \sum_i \log(1 + e^{-y_i f_i})$ and the margin $\min_i y_i f_i$ are facts about one point: enclosing the
outputs proves them. Theorem 3 adds that gradient descent on $L_S$ goes on from there to a given smaller loss.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import KW_ONLY, dataclass
from functools import cache
from typing import NotRequired, TypedDict

import numpy as np
from jaxtyping import Float

from wideproof.certificates.anchor import Anchor
from wideproof.certificates.attempt import Attempt, Obstacle
from wideproof.certificates.enclosure import UP, Ball
from wideproof.certificates.ground import VERIFY
from wideproof.certificates.lipschitz import kink_radius, lipschitz
from wideproof.certificates.logistic_loss import LogisticDescent, least_loss, logistic_descent, loss_integrals, slopes
from wideproof.certificates.obstacles import kink
from wideproof.certificates.setting import Setting
from wideproof.certificates.theorem import Theorem
from wideproof.errors import InputError

NEARBY = 1e-7  # the largest distance of starts for which Theorem 3 is asked: float64 steps end nearer


class Fit(TypedDict):
    """The claims about the weights alone."""

    margin: float
    loss_name: NotRequired[str]
    loss: NotRequired[float]
    right: NotRequired[int]


class Claims(TypedDict):
    """The claims of Theorem 3; `margin` stands beside them where steps from a start are followed."""

    loss: float
    epsilon: float
    c: float
    s: float
    S: float
    radii: list[float]
    lipschitz: list[float]
    R1: float
    eta: float
    steps: int
    I1: float
    I2: float
    margin: NotRequired[float]


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
    """

    margin: float
    loss: float
    descent: LogisticDescent | None


@dataclass(frozen=True)
class Logistic(Theorem[Classified]):
    r"""The training error and the logistic loss at the point, and how far gradient descent will lower the loss.

    Theorem 3 is about one output. Where it does not apply, only what is true at the point is certified.

    Attributes
    ----------
    target_loss
        The loss that Theorem 3 is to prove; by default the least that it reaches.
    step_size
        Step size (learning rate) of gradient descent on the mean loss; by default $1/\beta$, with the curvature $\beta$
        of the theorem.
    room
        Relative increase of the loss that a nearby start may have: Theorem 3 then holds for all starts within
        `descent.distance`, at most 1e-7.

    Examples
    --------
    >>> from wideproof.certificates import Problem, certify, polish
    >>> from wideproof.data import Dataset
    >>> from wideproof.networks import FullyConnected
    >>> network = FullyConnected(input_dim=3, width=64, depth=1)
    >>> data = Dataset(np.eye(3), np.array([1.0, -1.0, 1.0]), "binary")
    >>> near = polish(network, network.init(0), data.x, data.y).params
    >>> attempt = certify(Problem(network, data).at(near), Logistic())
    >>> attempt.conclusion.margin > 0.99, attempt.certificate.theorem
    (True, 'logistic')
    """

    target_loss: float | None = None
    _: KW_ONLY
    step_size: float | None = None
    room: float = 0.0

    def prove(self, setting: Setting) -> Attempt[Classified]:
        data = setting.data
        if data.task == "regression" or setting.network.data_kind == "sequences":
            raise InputError("a classifier's certificate needs labels, and a network with one answer for each example")
        anchor = setting.measured_by_row()
        y = data.y.reshape(data.n, -1)
        outputs = Ball(anchor.errors.mid + y, anchor.errors.rad)
        off = np.zeros_like(y) if outputs.rad is None else (outputs.rad + 4e-16 * np.abs(outputs.mid)) * UP
        margin, loss, descent = least_margin(outputs.mid, off, y), math.nan, None
        if y.shape[1] == 1:
            worst = (y * outputs.mid - off).ravel()
            loss = float(np.logaddexp(0, -worst).mean()) * (1 + 1e-12) + 1e-300
            descent = self._more(anchor, data.n, loss)
        found = Classified(margin, loss, descent)
        if descent is None and not margin > 0:
            reason = f"an example is not known to be on the right side: the least margin is {margin:.3g}"
            return Attempt(anchor, None, Obstacle("margin", margin, 0.0, reason, ("train longer",)), found)
        made = setting.certificate("fit" if descent is None else "logistic", _claims(found), _sentence(setting, found))
        return Attempt(anchor, made, None, found)

    def _more(self, anchor: Anchor, n: int, loss: float) -> LogisticDescent | None:
        constant_at = cache(lambda radius: lipschitz(anchor, radius).value)
        limit, s, S, eta = kink_radius(anchor), anchor.s, anchor.S, self.step_size
        distance = min(NEARBY, self.room * loss * math.sqrt(n) / (S + s)) if s > 0 else 0.0
        if self.target_loss is not None:
            return logistic_descent(
                n, loss, self.target_loss, s, S, constant_at, kink=limit, eta=eta, distance=distance
            )
        return least_loss(n, loss, s, S, constant_at, kink=limit, eta=eta, distance=distance)


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


def no_lower_loss(anchor: Anchor, loss: float, n: int, step_size: float | None) -> Obstacle:
    r"""Return why Theorem 3 does not go on though s is positive: the step size, a kink, or $s^2/2\Lambda$."""
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


def _claims(found: Classified) -> Claims | Fit:
    more = found.descent
    if more is None:
        several = math.isnan(found.loss)
        return Fit(margin=found.margin) if several else Fit(margin=found.margin, loss_name="logistic", loss=found.loss)
    return Claims(
        loss=more.loss, epsilon=more.epsilon, c=more.c, s=more.s, S=more.S, radii=list(more.staircase.radii),
        lipschitz=list(more.staircase.constants), R1=more.inner, eta=more.eta, steps=more.steps,
        I1=more.first_integral, I2=more.second_integral,
    )  # fmt: skip


def _sentence(setting: Setting, found: Classified) -> str:
    network, data, margin, descent = setting.network, setting.data, found.margin, found.descent
    right = f"classifies all {data.n} examples of {data.name} correctly, with margin at least {margin:.3g}"
    fit = f"Claim: {network} at these weights {right}" if margin > 0 else f"Claim: about {network} on {data.name}"
    more = ""
    if descent is not None:
        more = (
            f"; and gradient descent on the mean logistic loss with step size {descent.eta:.3g} takes it from "
            f"{found.loss:.3g} to {descent.epsilon:.3g} or less within {descent.steps} steps, no farther than "
            f"{descent.radius:.3g} away"
        )
    return f"{fit}{more}. {VERIFY}"
