r"""The read-out alone: gradient descent on the last layer of a network whose other weights stay (Theorem 11).

The outputs are linear in these weights and the losses convex in the outputs, so that for every $U$

$$ L(V_K) \le L(U) + \frac{\|U - V_0\|^2}{2 \eta K} , $$

and with steps $1 / (A (1 - e^{-L_k}))$, which grow as the loss falls, $L(V_K) \le \varepsilon$ as soon as
$K (1 - L(U)/\varepsilon) \ge \tfrac12 A \|U - V_0\|^2 + \log(L(V_0)/\varepsilon)$.

Nothing is asked of the layers before: any architecture, any activation. `docs/theory/certificates.md` has the proof.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple, NotRequired, TypedDict

import numpy as np
import scipy.optimize
from jaxtyping import Float
from scipy.special import expit, softmax

from wideproof.certificates.attempt import Attempt, Obstacle
from wideproof.certificates.enclosure import UP, Ball, lengths, product, spectral_norm
from wideproof.certificates.ground import VERIFY
from wideproof.certificates.passes import features
from wideproof.certificates.setting import Setting
from wideproof.certificates.theorem import Theorem
from wideproof.data import AnyDataset
from wideproof.errors import InputError
from wideproof.networks import Graph, Network
from wideproof.precision import double

SHARE = 0.01  # of what can be gained, which is left by default
NAMES = {"squared": "half the sum of squares", "logistic": "mean logistic loss", "cross_entropy": "mean cross-entropy"}
BENDS = {"logistic": (0.25, 1.0), "cross_entropy": (0.5, 2.0)}  # of ℓ'', and of ℓ'' / (1 - e^-ℓ)
LOOSE = 1e-9  # of a loss and a margin, for a verifier whose enclosures are wider
SPARE = 1e-7  # what a verifier's own rounding may take
MOST_STEPS = 2**62


class Facts(NamedTuple):
    """What is true at the weights, with every rounding error bounded.

    `loss` is an upper bound, `margin` a lower bound of the least margin and `right` the rows that are right at least;
    `wrong` those that are wrong at least. Of numbers there is only a loss.
    """

    loss: float
    margin: float = math.nan
    right: int = 0
    wrong: int = 0


class Claims(TypedDict):
    """The claims of Theorem 11; of numbers there is neither `right` nor `margin`."""

    loss: float
    epsilon: float
    steps: int
    growth: NotRequired[float]
    eta: NotRequired[float]
    right: NotRequired[int]
    margin: NotRequired[float]
    separates: NotRequired[float]


@dataclass(frozen=True, eq=False)
class ReadOutDescent:
    """What is found about gradient descent on a read-out.

    Attributes
    ----------
    loss_name
        `"squared"`, `"logistic"` or `"cross_entropy"`.
    facts
        Loss, margin and right rows at the weights.
    epsilon
        The loss that gradient descent reaches; NaN where nothing is certified.
    steps
        After how many steps.
    eta
        The step size; NaN where it grows as the loss falls.
    growth
        A, where the step sizes are $1 / (A (1 - e^{-L_k}))$; otherwise NaN.
    separates
        Least margin at the goal where it is positive: then the loss tends to 0. Otherwise NaN.
    """

    loss_name: str
    facts: Facts
    epsilon: float = math.nan
    steps: int = 0
    eta: float = math.nan
    growth: float = math.nan
    separates: float = math.nan


@dataclass(frozen=True)
class ReadOut(Theorem[ReadOutDescent]):
    r"""How far gradient descent on the read-out takes the loss from the point, all other weights being fixed.

    Which of its weights the network calls trained does not matter. Labels are $\pm1$, with several outputs one 1 for
    each example (Theorem 11).

    Attributes
    ----------
    loss
        `"logistic"` for one output, `"cross_entropy"` for several, `"squared"` (half the sum of squares); by default
        what the task and the outputs say.
    target_loss
        The loss to be reached; by default a hundredth of what can be gained is left.
    step_size
        Step size (learning rate), of the mean for labels; by default the largest constant one, or one that grows as
        the loss falls, whichever needs fewer steps.

    Examples
    --------
    >>> from wideproof.certificates import Problem, certify
    >>> from wideproof.data import Dataset
    >>> from wideproof.networks import DeepReLU
    >>> network = DeepReLU(input_dim=3, width=32, depth=2)
    >>> data = Dataset(np.eye(3), np.array([1.0, -1.0, 1.0]), "binary")
    >>> attempt = certify(Problem(network, data).at(network.init(0)), ReadOut())
    >>> found = attempt.conclusion
    >>> found.loss_name, found.epsilon < found.facts.loss / 50, attempt.certificate.theorem
    ('logistic', True, 'read_out')
    """

    loss: str | None = None
    _: KW_ONLY
    target_loss: float | None = None
    step_size: float | None = None

    @double
    def prove(self, setting: Setting) -> Attempt[ReadOutDescent]:
        network, data, weights = setting.network, setting.data, setting.params
        name = self.loss or usual_loss(network, data)
        require_labels(name, network, data)
        graph = network.graph
        graph = dataclasses.replace(graph, trained=(graph.read_out, *([] if graph.bias is None else [graph.bias])))
        h, outputs = features(graph, weights, data.x, setting.level == "enclosed")
        y = data.y.reshape(data.n, -1)
        facts = facts_of(name, outputs, y)
        problem = _Problem.of(name, graph, weights, h, outputs, y)
        plan, obstacle = _plan(problem, facts, self.target_loss, self.step_size)
        if plan is None:
            return Attempt(None, None, obstacle, ReadOutDescent(name, facts))
        claims = Claims(loss=facts.loss, epsilon=plan.epsilon, steps=plan.steps)
        if plan.growth:
            claims["growth"] = plan.growth
        else:
            claims["eta"] = plan.eta
        separates = math.nan
        if name != "squared":
            claims["right"], claims["margin"] = facts.right, facts.margin
            separates = facts_of(name, problem.at(plan.goal), y).margin
        if separates > 0:
            claims["separates"] = separates
        found = ReadOutDescent(
            name, facts, plan.epsilon, plan.steps, plan.eta or math.nan, plan.growth or math.nan,
            separates if separates > 0 else math.nan,
        )  # fmt: skip
        made = setting.certificate(
            "read_out", claims, _sentence(network, data, found), graph=graph, sharp=False,
            loss={"name": name, "reduction": "half_sum" if name == "squared" else "mean"},
            goal=problem.named(plan.goal),
        )  # fmt: skip
        return Attempt(None, made, None, found)


def usual_loss(network: Network, data: AnyDataset) -> str:
    """Return the loss that labels and outputs suggest: cross-entropy, for one output the logistic loss, or squares.

    Parameters
    ----------
    network
        The network.
    data
        The data.

    Returns
    -------
    str
        `"squared"`, `"logistic"` or `"cross_entropy"`.
    """
    if data.task == "regression":
        return "squared"
    return "logistic" if network.output_shape in ((), (1,)) else "cross_entropy"


def require_labels(name: str, network: Network, data: AnyDataset) -> None:
    """Refuse a loss that does not go with the network or the data."""
    if network.data_kind == "sequences":
        raise InputError("a read-out over several times has no certificate of its own: certify the whole network")
    outputs = network.output_shape[0] if network.output_shape else 1
    if name != "squared" and data.task == "regression":
        raise InputError(f"the loss {name!r} needs class labels, and '{data.name}' has numbers: take loss='squared'")
    if (name == "logistic" and outputs > 1) or (name == "cross_entropy" and outputs == 1):
        other = "cross_entropy" if outputs > 1 else "logistic"
        raise InputError(f"the loss {name!r} does not go with {outputs} output{'s' * (outputs > 1)}: take {other!r}")


def facts_of(name: str, outputs: Ball, y: Float[np.ndarray, "n o"]) -> Facts:
    """Return what is true of enclosed outputs.

    >>> found = facts_of("cross_entropy", Ball(np.array([[3.0, 0.0], [1.0, 2.0]]), None), np.array([[1.0, -1]] * 2))
    >>> round(found.loss, 4), round(found.margin, 6), found.right, found.wrong
    (0.6809, -1.0, 1, 1)
    """
    f = outputs.mid
    off = np.zeros_like(f) if outputs.rad is None else (outputs.rad + 4e-16 * np.abs(f)) * UP
    if name == "squared":
        return Facts(float(np.square((np.abs(f - y) + off) * UP).sum() / 2) * (1 + LOOSE) + 1e-300)
    gaps = _gaps(f, off, y)
    low, high = gaps.min(axis=1), _gaps(f, -off, y).min(axis=1)
    with np.errstate(over="ignore"):
        each = np.logaddexp(0, -gaps).sum(axis=1) if gaps.shape[1] == 1 else np.log1p(np.exp(-gaps).sum(axis=1))
    each = np.where(np.isfinite(each), each, -low + math.log(gaps.shape[1] + 1))
    mean, least = float(each.mean()), float(low.min())
    return Facts(mean * (1 + LOOSE) + 1e-300, least - LOOSE * abs(least), int((low > 0).sum()), int((high < 0).sum()))


def _gaps(f: np.ndarray, off: np.ndarray, y: np.ndarray) -> Float[np.ndarray, "n others"]:
    """Return lower bounds of the own output minus each other one; upper bounds if `off` is negative."""
    if y.shape[1] == 1:
        return y * f - off
    own = y.argmax(axis=1)
    rows = np.arange(len(y))
    gaps = (f[rows, own] - off[rows, own])[:, None] - f - off
    gaps = gaps - 4e-16 * np.sign(off.sum() or 1) * np.abs(f).max(axis=1, keepdims=True)
    return gaps[np.arange(f.shape[1]) != own[:, None]].reshape(len(y), -1)


class _Plan(NamedTuple):
    goal: np.ndarray  # outputs x features
    epsilon: float
    steps: int
    eta: float  # 0 where steps grow
    growth: float  # 0 where they do not


@dataclass(frozen=True, eq=False)
class _Problem:
    """The loss as a function of the read-out: `v` outputs by features, with the bias in its last column."""

    name: str
    graph: Graph
    weights: Mapping[str, np.ndarray]
    h: Ball
    y: Float[np.ndarray, "n o"]
    v: Float[np.ndarray, "o q"]
    f: Float[np.ndarray, "n o"]

    @classmethod
    def of(cls, name: str, graph: Graph, weights: Mapping[str, np.ndarray], h: Ball, outputs: Ball, y: Any) -> _Problem:
        """Set it up; the alpha of a graph is part of its nodes here."""
        v = weights[graph.read_out].reshape(graph.outputs, -1)
        if graph.bias is not None:
            v = np.concatenate([v, weights[graph.bias].reshape(-1, 1)], axis=1)
            ones = np.ones((len(y), 1))
            rad = None if h.rad is None else np.concatenate([h.rad, 0 * ones], axis=1)
            h = Ball(np.concatenate([h.mid, ones], axis=1), rad)
        return cls(name, graph, weights, h, y, v, outputs.mid)

    def named(self, v: np.ndarray) -> dict[str, np.ndarray]:
        """Return the weights as arrays of their own shapes."""
        graph, own = self.graph, self.weights
        found = {graph.read_out: v[:, : own[graph.read_out].size // graph.outputs].reshape(own[graph.read_out].shape)}
        return found if graph.bias is None else found | {graph.bias: v[:, -1].reshape(own[graph.bias].shape)}

    def at(self, v: np.ndarray) -> Ball:
        """Return the outputs with other weights of the read-out, enclosed."""
        return product(self.h, v)

    def value(self, f: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the loss of outputs, and its gradient."""
        n, y = len(f), self.y
        if self.name == "squared":
            return float(np.square(f - y).sum()) / 2, f - y
        if self.name == "logistic":
            return float(np.logaddexp(0, -y * f).mean()), -y * expit(-y * f) / n
        own = np.maximum(y, 0)
        top = f.max(axis=1, keepdims=True)
        each = np.log(np.exp(f - top).sum(axis=1)) - ((f - top) * own).sum(axis=1)
        return float(each.mean()), (softmax(f, axis=1) - own) / n


def _paths(problem: _Problem) -> Iterator[tuple[float, float, np.ndarray]]:
    """Yield loss, distance and weights that minimize L + μ|V − V_0|²/2, for smaller and smaller μ."""
    h, f0 = problem.h.mid, problem.f
    left, sizes, basis = np.linalg.svd(h, full_matrices=False)
    keep = sizes > 1e-12 * max(sizes[0], 1e-300)
    t, basis = (left * sizes)[:, keep], basis[keep]
    z = np.zeros((problem.v.shape[0], t.shape[1]))
    scale = problem.value(f0)[0] / max(float(sizes[0]), 1e-300) ** 2
    for mu in scale * np.geomspace(1e6, 1e-16, 89):
        z = _ridge(problem, t, z, mu) if problem.name == "squared" else _least(problem, t, z, mu)
        v = problem.v + z @ basis
        yield problem.value(f0 + t @ z.T)[0], float(np.linalg.norm(v - problem.v)), v


def _ridge(problem: _Problem, t: np.ndarray, z: np.ndarray, mu: float) -> np.ndarray:
    size = np.square(t).sum(axis=0)  # columns of t are orthogonal
    return -((t.T @ (problem.f - problem.y)) / (size + mu)[:, None]).T


def _least(problem: _Problem, t: np.ndarray, z: np.ndarray, mu: float) -> np.ndarray:
    def look(flat: np.ndarray) -> tuple[float, np.ndarray]:
        at = flat.reshape(z.shape)
        loss, slope = problem.value(problem.f + t @ at.T)
        return loss + mu * float(np.square(at).sum()) / 2, (slope.T @ t + mu * at).ravel()

    found = scipy.optimize.minimize(look, z.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 200})
    return found.x.reshape(z.shape)


def _plan(
    problem: _Problem, facts: Facts, target: float | None, step_size: float | None
) -> tuple[_Plan | None, Obstacle | None]:
    """Choose the goal and the steps that reach the target soonest; or say what is in the way."""
    path = list(_paths(problem))
    least = min(loss for loss, _, _ in path)
    epsilon = least + SHARE * (facts.loss - least) if target is None else target
    if not least < epsilon * (1 - 1e-9) or not epsilon < facts.loss or not facts.loss - least > 1e-9 * facts.loss:
        reason = (
            f"the {NAMES[problem.name]} is {facts.loss:.6g} at these weights, and the read-out alone does not take it "
            f"below {max(least, 0.0):.6g}"
        )
        return None, Obstacle("read-out", least, epsilon, reason, ("train more than the read-out",))
    largest = _largest_step(problem, facts.loss)
    if step_size is not None and step_size > largest:
        reason = f"the step size {step_size:.6g} is above {largest:.6g}, the largest that is covered"
        return None, Obstacle("step", step_size, largest, reason, (f"take a step size of at most {largest:.4g}",))
    growth = _growth(problem) if problem.name != "squared" and step_size is None else 0.0
    ways = [(step_size or largest, 0.0)] + [(0.0, growth)] * (growth > 0)
    found = [(_steps(loss, far, epsilon, facts.loss, *way), way, v) for loss, far, v in path for way in ways]
    _, way, v = min(found, key=lambda one: one[0])
    after = facts_of(problem.name, problem.at(v), problem.y).loss
    far = float(np.linalg.norm(v - problem.v)) * (1 + 1e-12)
    steps = _steps(after, far, epsilon, facts.loss, *way) * (1 + SPARE)
    if not steps < MOST_STEPS:
        reason = f"rounding leaves no bound of the steps to {epsilon:.6g}"
        return None, Obstacle("read-out", after, epsilon, reason, ("ask for a larger loss (target_loss)",))
    return _Plan(v, epsilon, max(1, math.ceil(steps)), *way), None


def _steps(goal: float, far: float, epsilon: float, loss: float, eta: float, growth: float) -> float:
    """Return how many steps the theorem needs with a goal of this loss at this distance; one of the last two is 0."""
    if not goal < epsilon * (1 - 1e-12):
        return math.inf
    if growth:
        return (growth * far**2 / 2 + math.log(loss / epsilon)) / (1 - goal / epsilon)
    return far**2 / (2 * eta * (epsilon - goal))


def _largest_step(problem: _Problem, loss: float) -> float:
    """Return 1/β, rounded down."""
    whole = spectral_norm(problem.h) ** 2
    if problem.name == "squared":
        return (1 - SPARE) / whole
    bend, _ = BENDS[problem.name]
    return (1 - SPARE) / min(bend * whole / len(problem.y), _growth(problem) * -math.expm1(-loss))


def _growth(problem: _Problem) -> float:
    """Return A, rounded up."""
    return BENDS[problem.name][1] * float(lengths(problem.h, (1,)).max()) ** 2 * (1 + SPARE)


def _sentence(network: Network, data: AnyDataset, found: ReadOutDescent) -> str:
    name, facts = NAMES[found.loss_name], found.facts
    size = f"{found.eta:.4g}" if found.growth != found.growth else f"1 / ({found.growth:.4g} (1 - exp(-L)))"
    rows = "" if found.loss_name == "squared" else f", and {facts.right} of {data.n} rows are right"
    end = "; it tends to 0" if found.separates > 0 else ""
    return (
        f"Claim: at these weights of {network} the {name} on {data.name} ({data.n} examples) is at most "
        f"{facts.loss:.6g}{rows}. Gradient descent on the read-out alone with step size {size} takes it to "
        f"{found.epsilon:.6g} within {found.steps} steps{end}. {VERIFY}"
    )
