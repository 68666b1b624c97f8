r"""What a certificate measures at its anchor $\theta_0$: outputs, norms, and the Gram matrix, each enclosed.

With $b_k = \partial F / \partial x_k$ and $g_k = b_k \operatorname{diag} \sigma'(z_k)$ for all outputs of an example,
the rows of the Jacobian are $\sum_{\text{uses}} s_k\, g_k u_k^\top$, so the Gram matrix is made of inner products
of the inputs $u$ of a matrix and of the $g$ behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Int

from wideproof.certificates import many as many_rows
from wideproof.certificates.balance import raised
from wideproof.certificates.enclosure import (
    TINY,
    UP,
    Ball,
    add,
    exact,
    inner,
    largest_eigenvalue,
    lengths,
    multiply,
    scaled,
    smallest_eigenvalue,
    spectral_norm,
)
from wideproof.certificates.memory import Memory, Way, require_memory
from wideproof.certificates.passes import Pass, run
from wideproof.certificates.tangents import Tangents, operator_norms, tangents_of
from wideproof.kernels.cholesky import UNIT
from wideproof.networks import Graph, Network, Read, Term
from wideproof.precision import double

CHUNK = 1 << 24  # entries of a Jacobian held at a time
SPARE = 1e-3  # share of D that is left to a verifier's rounding
DENSE = 4000  # rows of a Jacobian whose Gram matrix has radii; of more, one bound, or the part by a wide read-out alone


def gram(passed: Pass, names: tuple[str, ...]) -> Ball:
    """Return the Gram matrix of the named parameters, enclosed, with the outputs of an example side by side."""
    graph = passed.graph
    c = passed.outputs.mid.shape[1]
    parts = []
    for name in names:
        if name in (graph.read_out, graph.bias):
            parts.append(inner(_read_out_rows(passed, name)))
            continue
        uses = graph.uses(name)
        (k, t), *others = uses
        if not others and passed.z[k].mid.shape[1] == 1:
            u = inner(passed.inputs[graph.read(k, t)].joined(2)).map(lambda a: a.repeat(c, axis=0).repeat(c, axis=1))
            parts.append(multiply(u, inner(scaled(passed.gain(k), graph.layers[k].scale).joined(2))))
        else:
            parts.append(_from_gradients(passed, uses))
    return add(*parts)


def _read_out_rows(passed: Pass, name: str) -> Ball:
    """The gradients of every output by the read-out, or by its bias: features or 1 at its own place, zero elsewhere."""
    graph, (n, total) = passed.graph, passed.outputs.mid.shape
    c = total // len(graph.sites)
    tracked = passed.outputs.rad is not None
    read = [passed.values[k].joined(2) if name == graph.read_out else exact(np.ones((n, 1)), tracked)
            for k in graph.sites]  # fmt: skip

    def rows(which: int) -> Float[np.ndarray, "rows _"]:
        out = np.zeros((n, len(graph.sites), c, c, read[0].mid.shape[1]))
        for site, features in enumerate(read):
            for o in range(c):
                out[:, site, o, o] = features[which]
        return out.reshape(n * total, -1)

    return Ball(rows(0), rows(1) if tracked else None)


def _from_gradients(passed: Pass, uses: list[tuple[int, Term]]) -> Ball:
    """Add the products of the gradients themselves, some units at a time: for matrices that are used many times."""
    rows = passed.outputs.mid.size
    units = passed.gain(uses[0][0]).mid.shape[-1]
    graph = passed.graph
    fan_in = passed.inputs[graph.read(*uses[0])].mid.shape[-1]
    step = max(1, CHUNK // (rows * fan_in))
    parts = []
    for first in range(0, units, step):
        cut = slice(first, first + step)
        chunk = [
            _outer(scaled(passed.gain(k), graph.layers[k].scale), passed.inputs[graph.read(k, t)], cut) for k, t in uses
        ]
        parts = [add(*parts, inner(add(*chunk)))]
    return parts[0]


def _outer(g: Ball, u: Ball, units: slice) -> Ball:
    r"""Return $\sum_p g_p u_p^\top$ of some units as one row for every example and output."""
    part = g.mid[..., units]
    mid = np.einsum("ncpm,npf->ncmf", part, u.mid, optimize=True)
    mid = mid.reshape(mid.shape[0] * mid.shape[1], -1)
    if g.rad is None or u.rad is None:
        return Ball(mid, None)
    left, right = lengths(exact(part, True), (3,)), lengths(exact(u.mid, True), (2,))[:, None]
    fresh = 4 * (g.mid.shape[2] + 2) * 2.0**-53 * left * right
    far = (left * u.off[:, None] + g.off * (right + u.off[:, None]) + fresh).sum(axis=2).ravel() * UP + TINY
    return Ball(mid, np.broadcast_to(far[:, None], mid.shape), far)


@dataclass(frozen=True, eq=False)
class Anchor:
    r"""Upper bounds (lower ones where said) of all that the inequalities need at $\theta_0$.

    Attributes
    ----------
    residual
        $\rho \ge \|F - y\|$.
    s
        $\le \sqrt{\lambda_{\min}(G)}$, 0 where nothing positive is known.
    S
        $\ge \|J\|$.
    newton
        $D \ge \sqrt{r^\top G^{-1} r}$, infinite where `s` is 0.
    omega
        For each use of a matrix or of the identity, the norm of $x \mapsto M \varphi(x)$.
    inputs, all_inputs
        For each value that a weight reads, the spectral norm of an example's, and of all examples' together.
    b2, b_max, slope
        For each node and example $\|b\|_F$, the largest column of b, $\max|\sigma'|$.
    g2
        For each node and example the spectral norm of g, all outputs and pixels side by side.
    tangents
        How hidden values move with each trained array, where the sharper bounds are wanted.
    roots
        Upper bounds of the square roots of how many rows each example stands for.
    many
        Whether `gram` has one radius for all entries, as that of many rows has, and there is no `newton`.
    lean
        Whether `gram` is the part of the read-out for one output only, which bounds the smallest eigenvalue of all.
    lifted
        What was added to the entries of every example's own block, where its outputs have a constant sum.
    clearance
        For each ReLU node, lower bounds of $|z|$: `n x p x m`.
    rows
        For each matrix, the norms of its rows.
    unit
        For each node, the largest norm of one unit's values.
    """

    graph: Graph
    level: str
    n: int
    outputs: int
    parameters: int
    residual: float
    s: float
    S: float
    newton: float
    omega: Mapping[tuple[int, Term], float]
    inputs: Mapping[Read, Float[np.ndarray, "n"]]
    all_inputs: Mapping[Read, float]
    b2: tuple[Float[np.ndarray, "n"], ...]
    b_max: tuple[Float[np.ndarray, "n"], ...]
    g2: tuple[Float[np.ndarray, "n"], ...]
    slope: tuple[Float[np.ndarray, "n"], ...]
    tangents: Tangents | None
    clearance: Mapping[int, Float[np.ndarray, "n _ _"]] = field(repr=False)
    rows: Mapping[str, Float[np.ndarray, "_"]] = field(repr=False)
    unit: tuple[float, ...]
    gram: Ball = field(repr=False)
    errors: Ball = field(repr=False)
    roots: Float[np.ndarray, "n"] = field(repr=False)
    lean: bool = False
    many: bool = False
    lifted: float = 0.0


def measure(
    graph: Graph,
    params: Mapping[str, np.ndarray],
    x: Float[np.ndarray, "n ..."],
    y: Float[np.ndarray, "n ..."],
    *,
    counts: Int[np.ndarray, "n"] | None = None,
    level: str = "enclosed",
    sharp: bool = False,
    constant: bool = False,
) -> Anchor:
    r"""Compute everything a certificate needs at `params`.

    `y` holds the scored targets, `n x c` or of a shape that flattens to it; `level` is `"float64"` or `"enclosed"`.
    With `counts` $m_i$ it is about $\sqrt{m_i} f(x_i)$ and $\sqrt{m_i} y_i$: example i stands for so many equal rows,
    and $y_i$ is the mean of their targets, rounded. `constant` says that outputs and targets of an example add up to
    the same number exactly, so that `s` is about vectors whose entries add up to 0 for each example (`balance`).
    """
    tracked = level == "enclosed"
    params = {name: np.asarray(weight, np.float64) for name, weight in params.items()}
    graph = graph.unrolled
    matrices = {t.weight: exact(graph.matrix(params, t.weight), tracked) for _, t in graph.terms() if t.weight}
    norms = {name: spectral_norm(m) for name, m in matrices.items()}
    way = way_of(graph, params, len(x), sharp)
    lean, many = way == "lean", way == "many"
    if way != "few":
        require_memory(graph, params, len(x), way)
    passed = run(graph, params, np.asarray(x, np.float64), tracked, norms, lean)
    n, c = passed.outputs.mid.shape
    weigh = weigher(counts, n, tracked)
    targets = np.asarray(y, np.float64).reshape(n, c)
    off = 0.0 if counts is None else 2 * UNIT * np.abs(targets) * (counts > 1)[:, None]
    given = Ball(-targets, np.broadcast_to(off, targets.shape)) if tracked else Ball(-targets, None)
    errors = weigh(add(passed.outputs, given), 0)
    if many:
        matrix, s, largest, lifted = _ends_of_many(passed, weigh, constant, tracked)
        whole = matrix
    else:
        own = inner(passed.values[graph.sites[0]].joined(2)) if lean else gram(passed, graph.trained)
        matrix = weigh(weigh(own, 0), 1)
        lifted = float(np.trace(matrix.mid)) / len(matrix.mid) / c if constant and not lean else 0.0
        whole = raised(matrix, c, lifted) if lifted else matrix
        s, largest = least_singular(whole, tracked), largest_eigenvalue(matrix)
    residual = float(lengths(errors, (0, 1))) * (1 + 1e-7 * tracked)
    reads = list(dict.fromkeys(graph.read(k, t) for k, t in graph.terms()))
    all_inputs = {read: spectral_norm(weigh(passed.inputs[read], 0).joined(1)) for read in reads}
    roots = np.ones(n) if counts is None else np.sqrt(counts) * (1 + 4 * UNIT)
    every = np.ones(n)  # what all examples share is kept once
    g2 = tuple(every * (_frobenius(passed, k) if lean else _gain_norms(passed.gain(k))) for k in range(len(passed.b)))
    S = float(np.sqrt(max(largest, 0.0)))
    if lean:
        S = _steepest(graph, S, g2, all_inputs, float(np.square(roots).sum()))
    return Anchor(
        graph=graph,
        level=level,
        n=n,
        outputs=c,
        parameters=sum(params[name].size for name in graph.trained),
        residual=residual,
        s=s,
        S=S * (1 + 1e-7 * tracked),
        newton=_newton(whole, errors, s) if s > 0 and not lean and not many else float("inf"),
        omega=operator_norms(graph, matrices, tracked),
        inputs={read: _patch_norms(passed.inputs[read]) for read in reads},
        all_inputs=all_inputs,
        b2=tuple(every * lengths(b, (1, 2, 3)) for b in passed.b),
        b_max=tuple(every * lengths(b, (1,)).max(axis=(1, 2)) for b in passed.b),
        g2=g2,
        slope=tuple(d.above.max(axis=(1, 2)) for d in passed.slopes),
        tangents=tangents_of(passed, params, norms, all_inputs, roots) if sharp else None,
        clearance={
            k: np.abs(z.mid) - (0 if z.rad is None else z.rad)
            for k, z in enumerate(passed.z)
            if graph.layers[k].activation.kinked
        },
        rows={name: lengths(m, (1,)) for name, m in matrices.items()},
        unit=tuple(float(lengths(weigh(value, 0), (0, 1)).max()) for value in passed.values),
        gram=matrix,
        errors=errors,
        roots=roots,
        lean=lean,
        many=many,
        lifted=lifted,
    )


@double
def _ends_of_many(
    passed: Pass, weigh: Callable[[Ball, int], Ball], constant: bool, tracked: bool
) -> tuple[Ball, float, float, float]:
    r"""Return the Gram matrix, s, a bound of its largest eigenvalue and what it was lifted by, without radii N x N.

    A verifier's product of N terms may lose $2 N u \sum |R_i|^2$: claims keep four times that back.
    """
    c = passed.outputs.mid.shape[1]
    whole = many_rows.gram_of(many_rows.factors(passed, weigh), c)
    n, trace = len(whole.mid), float(np.asarray(whole.mid.diagonal()).sum())
    lost = 8 * (n + 16) * UNIT * tracked
    largest = many_rows.largest(whole, tracked) * (1 + n * lost)
    lifted = trace / n / c if constant else 0.0
    up = many_rows.raised(whole, c, lifted) if lifted else whole
    smallest = many_rows.smallest(up, tracked)
    kept = lost * (trace + n * lifted) + 1024 * UNIT * tracked * trace
    smallest -= min(max(smallest, 0.0) / 2, kept)
    s = float(np.sqrt(smallest)) * (1 - 1e-7 * tracked) if smallest > 0 else 0.0
    if lifted:
        up = many_rows.raised(up, c, -lifted)
    mid = np.asarray(up.mid)
    return Ball(mid, np.broadcast_to(up.entry, mid.shape) if tracked else None), s, largest, lifted


def way_of(graph: Graph, params: Mapping[str, np.ndarray], n: int, sharp: bool = False) -> Way:
    """Return how the Gram matrix of `n` examples is bounded: see `Way`."""
    read = graph.matrix(params, graph.read_out)
    if n * len(read) * len(graph.sites) <= DENSE:
        return "few"
    wide = read[0].size >= n and len(graph.sites) == 1
    if wide and graph.read_out in graph.trained and not sharp:
        return "lean"
    return "many" if many_rows.is_plain(graph) else "radii"


def memory_of(network: Network, n: int) -> Memory:
    """Return the memory that a certificate needs, or raise an error that says how many examples would fit.

    Parameters
    ----------
    network
        The network.
    n
        Number of examples.

    Returns
    -------
    Memory
        The bytes that prover and verifier take, and those on the device.

    Examples
    --------
    >>> from wideproof.networks import FullyConnected
    >>> memory_of(FullyConnected(input_dim=8, width=16, depth=1), 100).device
    0.0
    """
    graph, shapes = network.graph.unrolled, {name: np.zeros(law.shape) for name, law in network.laws().items()}
    return require_memory(graph, shapes, n, way_of(graph, shapes, n))


def least_singular(matrix: Ball, tracked: bool) -> float:
    """Return a number below the root of a Gram matrix's smallest eigenvalue, 0 where nothing positive is known.

    Claims keep a ten-millionth back, and what a verifier's factorization may lose, so that rounding never decides.
    """
    smallest = smallest_eigenvalue(matrix)
    if tracked:
        smallest -= min(smallest / 2, 160 * (len(matrix.mid) + 8) * UNIT * float(np.linalg.norm(matrix.mid)))
    return float(np.sqrt(smallest)) * (1 - 1e-7 * tracked) if smallest > 0 else 0.0


def weigher(counts: Int[np.ndarray, "n"] | None, n: int, tracked: bool) -> Callable[[Ball, int], Ball]:
    """Return the product with the square roots of the counts along an axis of examples, or of examples and outputs."""
    if counts is None or (counts == 1).all():
        return lambda ball, axis: ball
    roots = np.sqrt(np.asarray(counts, np.float64))

    def weigh(ball: Ball, axis: int) -> Ball:
        times = roots.repeat(ball.mid.shape[axis] // n)
        shape = tuple(-1 if k == axis else 1 for k in range(ball.mid.ndim))
        factor = np.broadcast_to(times.reshape(shape), ball.mid.shape)
        return multiply(ball, Ball(factor, UNIT * factor if tracked else None))

    return weigh


def _frobenius(passed: Pass, k: int) -> Float[np.ndarray, "n"]:
    """Return the Frobenius norm of every example's g, from sums of b² over outputs where g itself is not there."""
    found = passed.g[k]
    if found is not None:
        return lengths(found, (1, 2, 3))
    square = np.square(passed.b[k].above).sum(axis=1)
    return np.sqrt((square * np.square(passed.slopes[k].above)).sum(axis=(1, 2))) * UP


def _steepest(
    graph: Graph, read_out: float, g2: tuple[Float[np.ndarray, "n"], ...], all_inputs: Mapping[Read, float], rows: float
) -> float:
    r"""Bound $\|J\|$ by $\|J_w\| \le \sum_{\text{uses}} s_k \max_i \|g_{k,i}\| \|\varphi\|$ for each array."""
    total = read_out**2 + (rows if graph.bias in graph.trained else 0.0)
    for name in (name for name in graph.trained if name not in (graph.read_out, graph.bias)):
        uses = [(graph.layers[k].scale * float(g2[k].max()), graph.read(k, t)) for k, t in graph.uses(name)]
        total += sum(size * all_inputs[read] for size, read in uses) ** 2
    return float(np.sqrt(total)) * UP


def _patch_norms(u: Ball) -> Float[np.ndarray, "n"]:
    """Return the spectral norm of every example's matrix."""
    if u.mid.shape[1] == 1:
        return lengths(u, (1, 2))
    return np.array([spectral_norm(u.map(lambda a, i=i: a[i])) for i in range(len(u.mid))])


def _gain_norms(g: Ball) -> Float[np.ndarray, "n"]:
    """Return the spectral norm of every example's g, all outputs and pixels side by side."""
    rows = g.map(lambda a: a.reshape(len(a), -1, a.shape[3]))
    return np.minimum(lengths(g, (1, 2, 3)), _patch_norms(rows))


def _newton(matrix: Ball, errors: Ball, s: float) -> float:
    r"""Bound $\sqrt{r^\top G^{-1} r}$ by $2 v^\top r - v^\top G v + \|r - G v\|^2 / s^2$, which holds for any $v$.

    A verifier's radii are not these: what it cannot decide in float64 it takes up again in balls, from the first step.
    """
    r = errors.mid.ravel()
    try:
        v = np.linalg.solve(matrix.mid, r)
    except np.linalg.LinAlgError:  # singular to rounding, which float64 without radii does not notice
        return float("inf")
    image = matrix.mid @ v
    if matrix.rad is None or errors.rad is None:
        return float(np.sqrt(max(v @ r, 0.0)))
    size = np.abs(v)
    rounding = 4 * (len(v) + 4) * 2.0**-53
    off_r = errors.rad.ravel() + rounding * np.abs(r)
    off_image = matrix.rad @ size + rounding * (np.abs(matrix.mid) @ size)
    rest = np.abs(r - image) + off_r + off_image
    value = v @ (2 * r - image) + size @ (2 * off_r + off_image) + rounding * (size @ (2 * np.abs(r) + np.abs(image)))
    total = max(float(value), 0.0) + float(rest @ rest) / s**2
    return float(np.sqrt(total)) * (1 + SPARE)
