r"""How much an error can grow along the steps of training, and so how many bits a proof from the start needs.

One step of gradient descent multiplies an error by at most

$$ G = \max\{1 + \eta N,\; \eta (\beta \|J\|^2 + N) - 1\}, \qquad N \ge \Bigl\|\sum_i \ell_i' \nabla^2 f_i\Bigr\|, $$

with $\beta = \sup \ell''$. N is bounded with the columns of all examples as one matrix, weighted by $|\ell_i'|^{1/2}$
(`docs/theory/certificates.md`). These are estimates in float64, for hints and plans: a verifier computes its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float, Int

from wideproof.certificates.anchor import gram
from wideproof.certificates.enclosure import exact
from wideproof.certificates.jacobians import gains_of, pull
from wideproof.certificates.passes import Pass, run
from wideproof.certificates.tangents import operator_norms
from wideproof.networks import Graph, Term
from wideproof.training import Objective, SquaredLoss

FLOOR = 0.05  # of the mean square of the residuals, the least weight of an example
# Seconds of a step for every two layers, product, product of pairs, norm's cubed size, unit, and weight (`Work`).
PLAIN = (4e-3, 1e-9, 1e-10, 1.2e-10, 6e-8, 5e-8)
DOUBLE = (3e-3, 1e-9, 0.0, 0.0, 3.6e-7, 1.5e-7)
BALLS = (3e-3, 5e-9, 0.0, 0.0, 1.4e-5, 5e-6)
FLOAT64, DOUBLED = 34, 76  # bits that float64 and double-double have to offer, about
BATCHES = 512  # the same for batches
SAMPLES = 24  # steps at which the growth is measured; between them the share of the residual is interpolated


@dataclass(frozen=True, eq=False)
class Growth:
    r"""What a run does to errors.

    Attributes
    ----------
    factors
        $G_k$ for every step.
    steepest
        $\eta \beta \|J\|^2$ at the sampled steps; beyond 2 errors grow at the edge of stability.
    nearest
        For ReLU networks the smallest $|z|$ seen, relative to how fast it moves.
    reach
        How far all outputs at the end move at most, for weights that move by 1.
    """

    factors: Float[np.ndarray, "steps"]
    steepest: Float[np.ndarray, "looks"]
    nearest: float
    reach: float

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


def follow(
    graph: Graph,
    params: Mapping[str, np.ndarray],
    x: Float[np.ndarray, "n ..."],
    y: Float[np.ndarray, "n ..."],
    objective: Objective,
    step_size: float,
    steps: int,
    batches: Int[np.ndarray, "steps batch"] | None = None,
) -> Growth:
    """Run the steps in float64 and measure what they do to errors; `y` are the scored targets.

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
    sizes, shares, steep, nearest, speeds = np.empty(steps), {}, {}, math.inf, []
    for k in range(steps):
        at = rows if batches is None else batches[k]
        factor = (1 if objective.reduction == "mean" else n) / len(at)
        passed = run(graph, weights, x[at], tracked=False)
        seeds = slopes(objective, passed.outputs.mid, y[at])
        sizes[k] = np.linalg.norm(seeds)
        gains = gains_of(passed, seeds)
        if k in looks:
            bend, speeds = _bend(graph, weights, passed, seeds, gains)
            shares[k] = factor * bend / max(sizes[k], 1e-300)
            share = factor * step_size * _curvature(objective)
            steep[k] = share * _steepest(passed, 2 / share)
        for j, node in enumerate(graph.layers):
            if node.activation.kinked:
                size = np.abs(passed.z[j].mid)
                away = float(size.min(where=size > 0, initial=np.inf))  # 0: nothing is on before it
                nearest = min(nearest, away / max(speeds[j], 1e-300))
        for name, change in pull(passed, seeds, gains).items():
            weights[name] = weights[name] - factor * step_size * change.reshape(weights[name].shape)
    known = np.array(sorted(shares))
    logs = np.log(np.maximum([shares[k] for k in known], 1e-300))
    bends = step_size * np.exp(np.interp(np.arange(steps), known, logs)) * sizes
    upper = np.interp(np.arange(steps), known, [steep[k] for k in known])
    reach = _reach(graph, weights, run(graph, weights, x, tracked=False))
    return Growth(np.maximum(1 + bends, upper + bends - 1), np.array([steep[k] for k in known]), nearest, reach)


def _curvature(objective: Objective) -> float:
    return 1.0 if objective.loss.smoothness is None else objective.loss.smoothness


def _steepest(passed: Pass, enough: float) -> float:
    """Return a bound of the largest eigenvalue of the Gram matrix, exact where a quick one is above `enough`."""
    matrix = gram(passed, tuple(passed.graph.trained)).mid
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
) -> tuple[dict[int, Float[np.ndarray, "K"]], list[Float[np.ndarray, "K"]], dict[tuple[int, Term], float]]:
    """Return how fast values and pre-activations move with each trained array, and the norms of what these read."""
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
    return paths, moves, reads


def _reach(graph: Graph, params: Mapping[str, np.ndarray], passed: Pass) -> float:
    r"""Return $\|O\|$: how far the outputs move at most, for weights that move by 1."""
    paths, _, _ = _tangents(graph, params, passed, np.ones(len(passed.outputs.mid)))
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
) -> tuple[float, list[float]]:
    """Return N, and how fast pre-activations move."""
    sizes = np.linalg.norm(seeds, axis=1)
    p = np.sqrt(np.maximum(sizes, FLOOR * math.sqrt(float(np.square(sizes).mean())) + 1e-100))
    names = {name: k for k, name in enumerate(graph.trained)}
    q, (paths, moves, reads) = np.zeros((len(names),) * 2), _tangents(graph, params, passed, p)
    speeds: list[float] = []
    for k, node in enumerate(graph.layers):
        known, own = node.activation.known, []
        gain, speed = _norm(_columns(gains[k], 1 / p)), moves[k]
        for t in node.terms:
            if t.weight in names:
                u, w = passed.inputs[graph.read(k, t)].mid, names[t.weight]
                size = reads[k, t]
                q[w] += node.scale * t.map.factor * gain * paths[t.source]
                q[:, w] += node.scale * t.map.factor * gain * paths[t.source]
                if t.source < 0 and len(graph.uses(t.weight)) == 1:
                    own.append((w, size, u.reshape(-1, u.shape[-1])))
        b = np.einsum("nc,ncpm->npm", seeds, passed.b[k].mid)
        z, step = passed.z[k].mid, 1e-5
        curve = known.smoothness and (known.slope(z + step) - known.slope(z - step)) / (2 * step)
        d = b * curve
        most = float((np.abs(d) / np.square(p)[:, None, None]).max())
        q += node.scale * most * np.outer(speed, speed)
        for w, size, u in own:
            flat = d.reshape(-1, d.shape[-1])
            forms = np.einsum("im,im->m", np.square(u @ u.T) @ flat, flat)
            q[w, w] += node.scale * min(0.0, math.sqrt(max(float(forms.max()), 0.0)) - most * size**2)
        speeds.append(float(np.linalg.norm(speed)) / float(p.min()))
    if graph.read_out in names:
        w = names[graph.read_out]
        sides = (seeds / p[:, None]).reshape(-1, graph.outputs)
        row = _norm(sides.T) * np.sqrt(sum(np.square(paths[k]) for k in graph.sites))
        q[w] += row
        q[:, w] += row
    return float(np.linalg.norm(q, 2)), speeds


class Work(NamedTuple):
    """What a verifier's step is made of.

    Attributes
    ----------
    layers
        How many nodes there are.
    passes
        Products forward, back for every output, and of gradients.
    pairs
        Those of the Gram matrix.
    norms
        Cubed sizes of the matrices whose norms are taken.
    units
        Values of activations.
    weights
        Entries of all matrices.
    """

    layers: int
    passes: float
    pairs: float
    norms: float
    units: float
    weights: float


def work_of(graph: Graph, params: Mapping[str, ArrayLike], rows: int) -> Work:
    """Count what a step on `rows` examples is made of.

    >>> from wideproof.networks import FullyConnected
    >>> network = FullyConnected(3, 16, 1)
    >>> work_of(network.graph, network.init(0), 5).units
    80.0
    """
    graph = graph.unrolled
    passes = pairs = units = norms = 0.0
    weights = {t.weight: float(np.size(np.asarray(params[t.weight or ""]))) for _, t in graph.terms()}
    columns = rows * graph.outputs * len(graph.sites)
    for k, t in graph.terms():
        matrix, places = graph.matrix(params, t.weight or ""), math.prod(graph.grids[k])
        out, fan_in = matrix.shape
        passes += out * fan_in * places * (2 * rows + columns)
        pairs += columns**2 * (out + fan_in)
        norms += min(fan_in, rows * places) ** 3 + min(out, rows * places) ** 3
        units += out * places * rows
    return Work(len(graph.layers), passes, pairs, norms + columns**3, units, sum(weights.values()))


def step_seconds(work: Work, bits: Sequence[float] | Float[np.ndarray, "steps"]) -> Float[np.ndarray, "steps"]:
    """Return about how long a verifier takes for steps of this work, with so many bits each.

    Every step is taken in float64, which bounds the growth; where that is not enough, once more in double-double or in
    balls, where every number is an object. The rates were measured on one core (`benchmarks/from_start.py cost`).

    >>> work = Work(layers=2, passes=4e6, pairs=1e6, norms=1e6, units=1e4, weights=2e4)
    >>> float64, double, balls = step_seconds(work, [20.0, 60.0, 120.0])
    >>> bool(float64 < double < balls)
    True
    """
    needed = np.asarray(bits, float)
    counts = np.array([(1 + work.layers) / 2, work.passes, work.pairs, work.norms, work.units, work.weights])
    plain, double, balls = (float(counts @ rates) for rates in (PLAIN, DOUBLE, BALLS))
    return plain + np.where(needed > DOUBLED, balls, np.where(needed > FLOAT64, double, 0.0))


def seconds_to_follow(
    graph: Graph, params: Mapping[str, ArrayLike], rows: int, bits: Sequence[float] | Float[np.ndarray, "steps"]
) -> float:
    """Return about how long a verifier takes to follow steps on `rows` examples each, with so many bits at each.

    Parameters
    ----------
    params
        Weights by name.

    Examples
    --------
    >>> from wideproof.networks import FullyConnected
    >>> network = FullyConnected(3, 16, 1)
    >>> 0.2 < seconds_to_follow(network.graph, network.init(0), 3, [20.0] * 100) < 2.0
    True
    """
    return float(step_seconds(work_of(graph, params, rows), bits).sum())
