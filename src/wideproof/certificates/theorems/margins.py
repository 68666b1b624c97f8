r"""Margins that one direction raises: how far gradient descent on all weights takes cross-entropy (Theorem 12).

A unit vector $\omega$ in which every margin grows, $\nabla d \cdot \omega \ge \gamma$, gives
$\|\nabla L\| \ge (\gamma - M(t))\, \Phi(L)$ within the distance $t$ of the weights. No Gram matrix has to be positive
definite: rows that are nearly equal cost nothing if their labels are. `docs/theory/certificates.md` has the proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NotRequired, TypedDict

import numpy as np
import scipy.linalg
import scipy.optimize
from jaxtyping import Float

from wideproof.certificates.anchor import Anchor
from wideproof.certificates.attempt import Attempt, Obstacle
from wideproof.certificates.enclosure import UP, Ball
from wideproof.certificates.ground import VERIFY
from wideproof.certificates.lipschitz import batch_constants, kink_radius
from wideproof.certificates.polishing import pull
from wideproof.certificates.setting import Setting
from wideproof.certificates.staircase import Staircase
from wideproof.certificates.theorem import Theorem
from wideproof.certificates.theorems.read_out import NAMES, Facts, facts_of, require_labels, usual_loss
from wideproof.data import AnyDataset
from wideproof.errors import InputError
from wideproof.networks import Network
from wideproof.precision import double

CELLS, GRID, SHARE = 4, 40, 0.6  # of the staircase; of radii that are tried; of γ that the radius R_1 uses up
KEPT = 0.8  # c: the share of what a step of the gradient promises
SPARE = 1e-6  # what a verifier's own rounding may take
LARGEST = 1.25  # of nL, where steps grow
MOST_ROWS = 2000  # margins whose direction is looked for


class Claims(TypedDict):
    """The claims of Theorem 12."""

    loss: float
    epsilon: float
    c: float
    gamma: float
    a: float
    radii: list[float]
    lipschitz: list[float]
    R1: float
    steps: int
    growth: NotRequired[float]
    eta: NotRequired[float]
    right: NotRequired[int]
    margin: NotRequired[float]


@dataclass(frozen=True, eq=False)
class MarginDescent:
    """What is found about gradient descent from weights where one direction raises all margins.

    Attributes
    ----------
    loss_name
        `"logistic"` or `"cross_entropy"`.
    facts
        Loss, margin and right rows at the weights.
    epsilon
        The loss that gradient descent reaches; NaN where nothing is certified.
    steps
        After how many steps at most.
    radius
        How far from the weights it can get until then.
    eta
        The step size; NaN where it grows as the loss falls.
    growth
        G, where the step sizes are $1 / (G (1 - e^{-L_k}))$; otherwise NaN.
    gamma
        How fast every margin grows along the direction, at least.
    """

    loss_name: str
    facts: Facts
    epsilon: float = math.nan
    steps: int = 0
    radius: float = math.nan
    eta: float = math.nan
    growth: float = math.nan
    gamma: float = math.nan


@dataclass(frozen=True)
class Margins(Theorem[MarginDescent]):
    r"""How far gradient descent on all trained weights takes the cross-entropy or the logistic loss from the point.

    Labels are $\pm1$, with several outputs one 1 for each example (Theorem 12).

    Examples
    --------
    >>> from wideproof.certificates import Problem, certify
    >>> from wideproof.data import Dataset
    >>> from wideproof.networks import FullyConnected
    >>> network = FullyConnected(input_dim=3, width=256, depth=1)
    >>> data = Dataset(np.eye(3), np.array([1.0, -1.0, 1.0]), "binary")
    >>> attempt = certify(Problem(network, data).at(network.init(0)), Margins())
    >>> attempt.conclusion.epsilon < attempt.conclusion.facts.loss, attempt.certificate.theorem
    (True, 'margins')
    """

    @double
    def prove(self, setting: Setting) -> Attempt[MarginDescent]:
        network, data, weights = setting.network, setting.data, setting.params
        name = usual_loss(network, data)
        if name == "squared":
            raise InputError(f"margins are of class labels, and '{data.name}' has numbers: take Descent instead")
        require_labels(name, network, data)
        y = data.y.reshape(data.n, -1)
        if data.n * max(1, y.shape[1] - 1) > MOST_ROWS:
            raise InputError(f"{data.n} rows with {y.shape[1]} outputs are too many margins: take ReadOut")
        anchor = setting.measured_by_row()
        facts = facts_of(name, Ball(anchor.errors.mid + y, anchor.errors.rad), y)
        differences = _differences(y)
        gram = differences @ anchor.gram.mid @ differences.T
        steepest = math.sqrt(float(np.diagonal(gram).max())) * (1 + SPARE)
        gamma, mix = _direction(gram)
        if not gamma > 1e-9 * steepest:
            reason = "no direction of the weights raises all margins at once"
            obstacle = Obstacle("margins", gamma, 0.0, reason, ("use a wider network",))
            return Attempt(anchor, None, obstacle, MarginDescent(name, facts))
        cotangents = (mix @ differences).reshape(data.y.shape)
        direction = {key: np.asarray(a, np.float64) for key, a in pull(network, weights, data.x, cotangents).items()}
        gamma *= 1 - SPARE
        end = _descend(anchor, name, facts, data.n, gamma, steepest)
        if isinstance(end, Obstacle):
            return Attempt(anchor, None, end, MarginDescent(name, facts, gamma=gamma))
        found, claims = end
        claims["right"], claims["margin"] = facts.right, facts.margin
        made = setting.certificate(
            "margins", claims, _sentence(network, data, found), loss={"name": name, "reduction": "mean"},
            direction=direction,
        )  # fmt: skip
        return Attempt(anchor, made, None, found)


def _differences(y: Float[np.ndarray, "n o"]) -> Float[np.ndarray, "margins _"]:
    """Return the matrix that makes margins of outputs, which stand side by side for each example."""
    n, outputs = y.shape
    if outputs == 1:
        return np.diag(y[:, 0])
    rows = []
    for i, own in enumerate(y.argmax(axis=1)):
        for other in range(outputs):
            if other != own:
                row = np.zeros((n, outputs))
                row[i, own], row[i, other] = 1.0, -1.0
                rows.append(row.ravel())
    return np.array(rows)


def _direction(gram: np.ndarray) -> tuple[float, np.ndarray]:
    r"""Return how fast all margins grow along $\sum p \nabla d$, p a mixture with the shortest sum, and p."""
    size = float(np.diagonal(gram).max())
    values, vectors = np.linalg.eigh(gram / max(size, 1e-300))
    root = np.sqrt(np.maximum(values, 0))[:, None] * vectors.T
    weight = 10.0  # of the condition that p adds up to 1; scaled afterwards
    stacked = np.vstack([root, np.full((1, len(gram)), weight)])
    mix, _ = scipy.optimize.nnls(stacked, np.append(np.zeros(len(root)), weight), maxiter=50 * len(gram))
    if not mix.sum() > 0:
        return 0.0, mix
    mix = mix / mix.sum()
    length = math.sqrt(max(float(mix @ gram @ mix), 0.0))
    return (float((gram @ mix).min()) / length if length > 0 else 0.0), mix


def _descend(
    anchor: Anchor, name: str, facts: Facts, n: int, gamma: float, steepest: float
) -> tuple[MarginDescent, Claims] | Obstacle:
    """Return the conclusion of Theorem 12 with its claims; or the obstacle."""
    apart = (1.0 if name == "logistic" else math.sqrt(2)) * (1 + SPARE)
    parts = [np.array([i]) for i in range(n)]
    bend = cache(lambda radius: apart * float(batch_constants(anchor, radius, parts).max()))
    limit, kept = kink_radius(anchor), KEPT if n * facts.loss <= LARGEST else 0.9
    stairs = _inner(gamma, bend, limit)
    if stairs is None:
        reason = f"a unit of the network switches within {limit:.3g} of the weights, before a margin grows by much"
        return Obstacle("kink", limit, 0.0, reason, ())
    most, inner = -math.expm1(-facts.loss) * UP, stairs.radii[-1]
    m1, whole = map(float, stairs.integrals())
    outer = inner * (1 + 1e-9)
    for _ in range(20):
        rise = max(bend(outer), stairs.constants[-1])
        m = m1 + rise * (outer - inner)
        a = (steepest + m) * (1 + SPARE)
        growth = (a * a + rise) / (2 * (1 - kept)) * (1 + SPARE)
        far = a / growth  # the first step of either kind is the longest, and at most this long
        if inner + far * (1 + SPARE) <= outer:
            break
        outer = inner + far * (1 + 1e-3)
    sigma = gamma - m1
    if not (m <= gamma and sigma > 0 and outer < limit and inner + far <= outer):
        reason = f"one step leaves the region in which margins are known to grow: γ is {gamma:.3g}, Λ {rise:.3g}"
        return Obstacle("gain", gamma, m, reason, ("use a wider network",))
    budget = kept * (gamma * inner - whole) * (1 - SPARE)
    epsilon, steps, eta = _reached(facts.loss, n, budget, kept * sigma**2, growth, most)
    if not (0 < epsilon < facts.loss and steps < 2**62):
        reason = f"the loss is not proved to fall below {facts.loss:.6g}"
        return Obstacle("gain", budget, 0.0, reason, ())
    claims = Claims(
        loss=facts.loss, epsilon=epsilon, c=kept, gamma=gamma, a=a, radii=[*stairs.radii, outer],
        lipschitz=[*stairs.constants, rise], R1=inner, steps=steps,
    )  # fmt: skip
    if eta is None:
        claims["growth"] = growth
    else:
        claims["eta"] = eta
    step, own = (math.nan, growth) if eta is None else (eta, math.nan)
    return MarginDescent(name, facts, epsilon, steps, outer, step, own, gamma), claims


def _inner(gamma: float, bend: Callable[[float], float], limit: float) -> Staircase | None:
    """Return radii up to the largest R_1 on which M stays below a share of gamma."""
    found = None
    guess = min(gamma / max(bend(0.0), 1e-300), 0.5 * limit)
    for radius in guess * np.geomspace(1e-3, 1, GRID):
        radii = tuple(radius * k / CELLS for k in range(1, CELLS + 1))
        stairs = Staircase(radii, tuple(np.maximum.accumulate([bend(r) for r in radii]).tolist()))
        if float(stairs.integrals()[0]) > SHARE * gamma:
            break
        found = stairs
    return found


def _reached(
    loss: float, n: int, budget: float, pace: float, growth: float, most: float
) -> tuple[float, int, float | None]:
    """Return the loss that is reached, the steps, and the step size where it is constant."""

    def log_u(value: float) -> float:  # log(e^nL − 1)
        return n * value + math.log(-math.expm1(-n * value))

    last = log_u(loss) - budget
    epsilon = float(np.logaddexp(0, last)) / n * (1 + SPARE)
    if not 0 < epsilon < loss:
        return epsilon, 0, None
    x = n * loss
    if x <= LARGEST:
        steps = growth / pace * (x / -math.expm1(-x)) ** 2 * math.log(loss / epsilon)
        return epsilon, math.ceil(steps * (1 + SPARE)) + 1, None
    eta = (1 - SPARE) / (growth * most)
    gain = log_u(loss) - log_u(epsilon) + math.exp(-log_u(epsilon)) - math.exp(-log_u(loss))
    steps = n * gain / (pace * eta)
    return epsilon, math.ceil(min(steps * (1 + SPARE), 2.0**62)) + 1, eta


def _sentence(network: Network, data: AnyDataset, found: MarginDescent) -> str:
    name, facts = NAMES[found.loss_name], found.facts
    size = f"{found.eta:.4g}" if found.growth != found.growth else f"1 / ({found.growth:.4g} (1 - exp(-L)))"
    return (
        f"Claim: at these weights of {network} the {name} on {data.name} ({data.n} examples) is at most "
        f"{facts.loss:.6g}, and {facts.right} rows are right. Gradient descent on all trained weights with step size "
        f"{size} lowers it to {found.epsilon:.6g} within {found.steps} steps, no farther than {found.radius:.3g} away. "
        f"{VERIFY}"
    )
