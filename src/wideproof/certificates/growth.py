r"""How much an error can grow along the steps of training, and so how many bits a proof from the start needs.

One step of gradient descent multiplies an error by at most

$$ G = \max\{1 + \eta N,\; \eta (\|\operatorname{diag}(\ell'')^{1/2} J\|^2 + N) - 1\}, \qquad
N \ge \Bigl\|\sum_i \ell_i' \nabla^2 f_i\Bigr\|, $$

with $\ell''$ of every output. N is bounded with the columns of all examples as one matrix, weighted by
$|\ell_i'|^{1/2}$ (`docs/theory/certificates.md`). These are estimates in float64, for hints and plans: a
verifier computes its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from wideproof.certificates.anchor import gram
from wideproof.certificates.enclosure import exact
from wideproof.certificates.jacobians import gains_of, pull
from wideproof.certificates.passes import Pass, run
from wideproof.certificates.tables import Along, Plan
from wideproof.certificates.tangents import operator_norms
from wideproof.networks import Graph, Term
from wideproof.training import Objective, SquaredLoss

FLOOR = 0.05  # of the mean square of the residuals, the least weight of an example
BATCHES = 512  # the same for batches
SAMPLES = 24  # steps at which the growth is measured; between them the share of the residual is interpolated
STEEP = 4  # the Gram matrix, which changes little, is formed at every fourth of them


@dataclass(frozen=True, eq=False)
class Growth:
    r"""What a run does to errors.

    Attributes
    ----------
    factors
        $G_k$ for every step.
    steepest
        $\eta \|\operatorname{diag}(\ell'')^{1/2} J\|^2$ at some of the sampled steps; beyond 2 errors grow at
        the edge of stability.
    nearest
        For ReLU networks the smallest $|z|$ seen, relative to how fast it moves.
    reach
        How far all outputs at the end move at most, for weights that move by 1.
    stiffness
        By how much the logarithm of each factor grows, at most, at a distance of 1 from the step.
    tables
        The steps at which tables of norms of products are made.
    """

    factors: Float[np.ndarray, "steps"]
    steepest: Float[np.ndarray, "looks"]
    nearest: float
    reach: float
    stiffness: Float[np.ndarray, "steps"]
    tables: tuple[int, ...] = ()

    @property
    def flat(self) -> float:
        """A distance at the end so small that the factors are those of the middle: they rise by a factor e at most.

        An error that is to be so large at the end is smaller at every step before by what it grows by in between.
        """
        shares = np.arange(1, len(self.factors) + 1) / len(self.factors) * np.exp2(-self.to_go())
        return 1 / max(float((self.stiffness / self.factors * shares).sum()), 1e-300)

    @property
    def bits(self) -> float:
        """How many bits an error at the start may have grown by at the end."""
        return float(np.log2(self.factors).sum())

    def to_go(self) -> Float[np.ndarray, "steps"]:
        """Return, for every step, how many bits an error made there can still grow by."""
        logs = np.log2(self.factors)
        return np.append(np.cumsum(logs[::-1])[::-1][1:], 0.0)


def slopes(
    objective: Objective, outputs: Float[np.ndarray, "n c"], y: Float[np.ndarray, "n c"]
) -> Float[np.ndarray, "n c"]:
    r"""Return $\ell'$ for every output, without the factor of a mean."""
    if isinstance(objective.loss, SquaredLoss):
        return outputs - y
    found = np.asarray(objective.cotangent(jnp.asarray(outputs), jnp.asarray(y)), np.float64)
    return found * len(outputs) if objective.reduction == "mean" else found


def bends(
    objective: Objective, outputs: Float[np.ndarray, "n c"], y: Float[np.ndarray, "n c"]
) -> Float[np.ndarray, "n c"]:
    r"""Return $\ell''$ for every output, without the factor of a mean, and the larger side where it jumps.

    >>> from wideproof.training import LOGISTIC
    >>> margins = np.array([[0.0], [3.0]])
    >>> bends(Objective(LOGISTIC, "mean"), margins, np.ones((2, 1))).round(4).ravel().tolist()
    [0.25, 0.0452]
    """
    most, z = 1.0 if objective.loss.smoothness is None else objective.loss.smoothness, y * outputs
    slope = np.abs(slopes(objective, outputs, y))
    found = {
        "logistic": slope * np.maximum(1 - slope, 0.0),  # rounding may take it above 1
        "exp_linear": np.where(z >= 0, slope, 0.0),
        "huber_hinge": np.where((z >= 0) & (z <= 1), most, 0.0),
        **dict.fromkeys(("squared_hinge", "half_squared_hinge"), np.where(z <= 1, most, 0.0)),
    }
    return found.get(objective.loss.name, np.full(z.shape, most))


def follow(
    graph: Graph,
    params: Mapping[str, np.ndarray],
    x: Float[np.ndarray, "n ..."],
    y: Float[np.ndarray, "n ..."],
    objective: Objective,
    step_size: float,
    steps: int,
    batches: Int[np.ndarray, "steps batch"] | None = None,
    tabled: bool = False,
) -> Growth:
    """Run the steps in float64 and measure what they do to errors; `y` are the scored targets.

    With `tabled` norms of products of layers are used, with a new table wherever it helps.

    >>> from wideproof.networks import FullyConnected
    >>> network, x, y = FullyConnected(3, 16, 1), np.eye(3), np.array([[1.0], [-1.0], [1.0]])
    >>> found = follow(network.graph, network.init(0), x, y, Objective(SquaredLoss(), "half_sum"), 0.1, 20)
    >>> len(found.factors), 0 < found.bits < 20, bool(found.to_go()[-1] == 0)
    (20, True, True)
    """
    graph = graph.unrolled
    weights = {name: np.array(weight, np.float64) for name, weight in params.items()}
    rows, n = np.arange(len(x)), len(x)
    y = y.reshape(n, -1)
    looks = {0, *np.geomspace(1, max(steps, 2) - 1, SAMPLES).astype(int), steps - 1}
    if batches is not None:  # every batch has a share of its own
        looks |= set(np.linspace(0, steps - 1, min(steps, BATCHES)).astype(int))
    sizes, shares, steep, stiff, nearest, speeds = np.empty(steps), {}, {}, {}, math.inf, []
    steeps = looks if batches is not None else {*sorted(looks)[::STEEP], steps - 1}
    plan, last = Plan(graph, x) if tabled else None, 0
    for k in range(steps):
        at = rows if batches is None else batches[k]
        factor = (1 if objective.reduction == "mean" else n) / len(at)
        passed = run(graph, weights, x[at], tracked=False)
        seeds = slopes(objective, passed.outputs.mid, y[at])
        sizes[k] = np.linalg.norm(seeds)
        gains = gains_of(passed, seeds)
        if k in looks:
            share, size = factor * step_size, max(sizes[k], 1e-300)
            if plan is not None and plan.made is None:
                plan.renew(k, weights)
            bend, speeds, more = _bend(graph, weights, passed, seeds, gains, plan)
            if plan is not None and plan.worn(bend / size, share * size, max(k - last, 1)):
                plan.renew(k, weights)
                bend, speeds, more = _bend(graph, weights, passed, seeds, gains, plan)
                plan.settle(bend / size)
            last, shares[k] = k, factor * bend / size
            stiff[k] = share * more
            if k in steeps:
                steep[k] = share * _steepest(passed, bends(objective, passed.outputs.mid, y[at]), 2 / share)
        for j, node in enumerate(graph.layers):
            if node.activation.kinked:
                size = np.abs(passed.z[j].mid)
                away = float(size.min(where=size > 0, initial=np.inf))  # 0: nothing is on before it
                nearest = min(nearest, away / max(speeds[j], 1e-300))
        for name, change in pull(passed, seeds, gains).items():
            weights[name] = weights[name] - factor * step_size * change.reshape(weights[name].shape)
    known = np.array(sorted(shares))
    logs = np.log(np.maximum([shares[k] for k in known], 1e-300))
    bent = step_size * np.exp(np.interp(np.arange(steps), known, logs)) * sizes
    upper = np.interp(np.arange(steps), sorted(steep), [steep[k] for k in sorted(steep)])
    reach = _reach(graph, weights, run(graph, weights, x, tracked=False))
    rises = np.exp(np.interp(np.arange(steps), known, np.log(np.maximum([stiff[k] for k in known], 1e-300))))
    factors, made = np.maximum(1 + bent, upper + bent - 1), () if plan is None else tuple(plan.steps)
    return Growth(factors, np.array([steep[k] for k in sorted(steep)]), nearest, reach, rises, made)


def _steepest(passed: Pass, curves: Float[np.ndarray, "n c"], enough: float) -> float:
    """Return a bound of the largest eigenvalue of the weighted Gram matrix, exact where a quick one is above `enough`.

    Rows of the Gram matrix are (example, output).
    """
    roots = np.sqrt(curves).ravel()
    matrix = gram(passed, tuple(passed.graph.trained)).mid * roots[:, None] * roots
    quick = float(np.sqrt(np.linalg.norm(matrix @ matrix)))
    return quick if quick <= enough else float(np.linalg.eigvalsh(matrix)[-1])


def _norm(a: Float[np.ndarray, "a b"]) -> float:
    small = a @ a.T if len(a) < a.shape[1] else a.T @ a
    return math.sqrt(max(float(np.linalg.eigvalsh(small)[-1]), 0.0))


def _columns(a: Float[np.ndarray, "n p m"], weights: Float[np.ndarray, "n"]) -> Float[np.ndarray, "m np"]:
    """Return `n x p x m` as a matrix with a column for every example and position."""
    return (a * weights[:, None, None]).reshape(-1, a.shape[-1]).T


def _tangents(
    graph: Graph, params: Mapping[str, np.ndarray], passed: Pass, p: Float[np.ndarray, "n"]
) -> tuple[
    dict[int, Float[np.ndarray, "K"]], list[Float[np.ndarray, "K"]], dict[tuple[int, Term], float],
    Mapping[tuple[int, Term], float],
]:  # fmt: skip
    """Return how values and pre-activations move with each trained array, norms of what these read, and of matrices."""
    matrices = {name: exact(graph.matrix(params, name), False) for name in params if name != graph.bias}
    omega = operator_norms(graph, {k: v for k, v in matrices.items() if k != graph.read_out}, False)
    names = {name: k for k, name in enumerate(graph.trained)}
    paths = {-1 - t: np.zeros(len(names)) for t in range(graph.times or 1)}
    moves, reads = [], {}
    for k, node in enumerate(graph.layers):
        speed = np.zeros(len(names))
        for t in node.terms:
            if t.moves:
                speed += omega[k, t] * paths[t.source]
            if t.weight in names:
                reads[k, t] = _norm(_columns(passed.inputs[graph.read(k, t)].mid, p))
                speed[names[t.weight]] += reads[k, t]
        skip = 0 if node.skip is None else paths[node.skip]
        paths[k] = skip + node.scale * node.activation.known.lipschitz * speed
        moves.append(speed)
    return paths, moves, reads, omega


def _reach(graph: Graph, params: Mapping[str, np.ndarray], passed: Pass) -> float:
    r"""Return $\|O\|$: how far the outputs move at most, for weights that move by 1."""
    paths, _, _, _ = _tangents(graph, params, passed, np.ones(len(passed.outputs.mid)))
    moved = _norm(graph.matrix(params, graph.read_out)) * np.sqrt(sum(np.square(paths[k]) for k in graph.sites))
    sizes = {graph.read_out: math.sqrt(sum(float(np.square(passed.values[k].mid).sum()) for k in graph.sites)),
             graph.bias: math.sqrt(len(passed.outputs.mid) * len(graph.sites))}  # fmt: skip
    return float(np.linalg.norm(moved + [sizes.get(name, 0.0) for name in graph.trained]))


def _bend(
    graph: Graph,
    params: Mapping[str, np.ndarray],
    passed: Pass,
    seeds: Float[np.ndarray, "n c"],
    gains: list[Float[np.ndarray, "n p m"]],
    plan: Plan | None = None,
) -> tuple[float, list[float], float]:
    """Return N, how fast pre-activations move, and how much N may grow at a distance of 1; `plan` has tables."""
    sizes = np.linalg.norm(seeds, axis=1)
    p = np.sqrt(np.maximum(sizes, FLOOR * math.sqrt(float(np.square(sizes).mean())) + 1e-100))
    names = {name: k for k, name in enumerate(graph.trained)}
    q, (paths, moves, reads, omega) = np.zeros((len(names),) * 2), _tangents(graph, params, passed, p)
    ahead: Along | None = None
    if plan is not None:
        ahead = plan.along(params, reads, omega)
        paths, moves = ahead.paths, ahead.speeds
    speeds: list[float] = []
    longest, pulls = [], [_norm(_columns(gain, 1 / p)) for gain in gains]
    for k, node in enumerate(graph.layers):
        known, own = node.activation.known, []
        gain, speed = pulls[k], moves[k]
        for t in node.terms:
            if t.weight in names:
                u, w = passed.inputs[graph.read(k, t)].mid, names[t.weight]
                q[w] += node.scale * t.map.factor * gain * paths[t.source]
                q[:, w] += node.scale * t.map.factor * gain * paths[t.source]
                if t.source < 0 and len(graph.uses(t.weight)) == 1:
                    own.append((w, u.reshape(-1, u.shape[-1])))
        b = np.einsum("nc,ncpm->npm", seeds, passed.b[k].mid)
        longest.append(float((np.abs(b) / np.square(p)[:, None, None]).max()))
        z, step = passed.z[k].mid, 1e-5
        curve = known.smoothness and (known.slope(z + step) - known.slope(z - step)) / (2 * step)
        d = b * curve
        most = float((np.abs(d) / np.square(p)[:, None, None]).max())
        side = math.sqrt(node.scale * most) * speed
        side = side if ahead is None else np.minimum(side, ahead.bent[k])
        q += np.outer(side, side)
        for w, u in own:
            flat = d.reshape(-1, d.shape[-1])
            forms = np.einsum("im,im->m", np.square(u @ u.T) @ flat, flat)
            q[w, w] += min(0.0, node.scale * math.sqrt(max(float(forms.max()), 0.0)) - side[w] ** 2)
        speeds.append(float(np.linalg.norm(speed)) / float(p.min()))
    if graph.read_out in names:
        w = names[graph.read_out]
        sides = (seeds / p[:, None]).reshape(-1, graph.outputs)
        row = _norm(sides.T) * np.sqrt(sum(np.square(paths[k]) for k in graph.sites))
        q[w] += row
        q[:, w] += row
    rest = _norm((seeds / p[:, None]).reshape(-1, graph.outputs).T)
    read_out = _norm(graph.matrix(params, graph.read_out))
    change = read_out * np.sqrt(sum(np.square(paths[k]) for k in graph.sites))
    if graph.read_out in names:
        sizes = [_columns(passed.values[k].mid, p) for k in graph.sites]
        change[names[graph.read_out]] += math.sqrt(sum(float(np.square(size).sum()) for size in sizes))
    shift = float(np.linalg.norm(change)) / float(p.min()) ** 2
    rise = _rise(graph, float(p.min()), shift, rest, longest, pulls, moves, paths, omega, read_out)
    return float(np.linalg.norm(q, 2)), speeds, rise


def _rise(
    graph: Graph,
    least: float,
    shift: float,
    rest: float,
    longest: list[float],
    pulls: list[float],
    moves: list[Float[np.ndarray, "K"]],
    paths: dict[int, Float[np.ndarray, "K"]],
    omega: Mapping[tuple[int, Term], float],
    read_out: float,
) -> float:
    """Return how much N may grow at a distance of 1: the change of adjoints and of second derivatives there."""
    site = math.sqrt(sum(float(np.square(paths[k]).sum()) for k in graph.sites))
    back, rise = dict.fromkeys(range(-(graph.times or 1), len(graph.layers)), 0.0), 2 * shift * site
    for k in graph.sites:
        back[k] = read_out * shift + rest
    for k in reversed(range(len(graph.layers))):
        node, fast = graph.layers[k], float(np.linalg.norm(moves[k]))
        known = node.activation.known
        turn = known.lipschitz * back[k] + (known.smoothness or 0.0) * longest[k] * fast
        apart = ((known.smoothness or 0.0) * back[k] + (known.third or 0.0) * longest[k] * fast) / least
        rise += node.scale * apart * fast**2
        if node.skip is not None:
            back[node.skip] += back[k]
        for t in node.terms:
            if t.moves and t.source >= 0:
                back[t.source] += node.scale * (omega[k, t] * turn + t.map.factor * pulls[k])
                rise += 2 * node.scale * t.map.factor * turn * float(np.linalg.norm(paths[t.source]))
    return rise
