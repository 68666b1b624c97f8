r"""What a certificate measures at its anchor $\theta_0$: outputs, norms, and the Gram matrix, each enclosed.

With $b_k = \partial F / \partial x_k$ and $g_k = b_k \operatorname{diag} \sigma'(z_k)$ for all outputs of an example,
the rows of the Jacobian are $\sum_{\text{uses}} s_k\, g_k u_k^\top$, so the Gram matrix is made of inner products
of the inputs $u$ of a matrix and of the $g$ behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

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
from wideproof.certificates.graph import Graph, Term
from wideproof.certificates.passes import Pass, run
from wideproof.certificates.tangents import Tangents, operator_norm, tangents_of

CHUNK = 1 << 24  # entries of a Jacobian held at a time


def gram(passed: Pass, names: tuple[str, ...]) -> Ball:
    """Return the Gram matrix of the named parameters, enclosed, with the outputs of an example side by side."""
    graph = passed.graph
    c = passed.outputs.mid.shape[1]
    parts = []
    for name in names:
        if name == graph.read_out:
            parts.append(inner(_read_out_rows(passed)))
            continue
        uses = [(k, t) for k, node in enumerate(graph.nodes) for t in node.terms if t.name == name]
        if len(uses) == 1 and passed.z[0].mid.shape[1] == 1:
            ((k, t),) = uses
            u = inner(passed.inputs[t.source].joined(2)).map(lambda a: a.repeat(c, axis=0).repeat(c, axis=1))
            parts.append(multiply(u, inner(scaled(passed.g[k], graph.nodes[k].scale).joined(2))))
        else:
            parts.append(_from_gradients(passed, uses))
    return add(*parts)


def _read_out_rows(passed: Pass) -> Ball:
    """The gradients of every output by the read-out: the features at its own place, zero elsewhere."""
    graph, (n, total) = passed.graph, passed.outputs.mid.shape
    c = total // len(graph.outputs)

    def rows(which: int) -> np.ndarray:
        out = np.zeros((n, len(graph.outputs), c, c, passed.values[graph.outputs[0]].mid[0].size))
        for site, k in enumerate(graph.outputs):
            features = passed.values[k][which]
            assert features is not None
            for o in range(c):
                out[:, site, o, o] = features.reshape(n, -1)
        return out.reshape(n * total, -1)

    return Ball(rows(0), None if passed.outputs.rad is None else rows(1))


def _from_gradients(passed: Pass, uses: list[tuple[int, Term]]) -> Ball:
    """Add the products of the gradients themselves, some units at a time: for matrices that are used many times."""
    rows = passed.outputs.mid.size
    units = passed.g[uses[0][0]].mid.shape[-1]
    fan_in = passed.inputs[uses[0][1].source].mid.shape[-1]
    step = max(1, CHUNK // (rows * fan_in))
    parts = []
    for first in range(0, units, step):
        cut = slice(first, first + step)
        chunk = [
            _outer(scaled(passed.g[k], passed.graph.nodes[k].scale), passed.inputs[t.source], cut) for k, t in uses
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
    residual : $\rho \ge \|F - y\|$. `s` : $\le \sqrt{\lambda_{\min}(G)}$, 0 where nothing positive is known.
    S : $\ge \|J\|$. `newton` : $D \ge \sqrt{r^\top G^{-1} r}$, infinite where `s` is 0.
    omega : for each matrix, the norm of $x \mapsto M \varphi(x)$.
    inputs, all_inputs : for each source, the spectral norm of an example's patches, and of all examples' together.
    b2, b_max, slope : for each node and example $\|b\|_F$, the largest column of b, $\max|\sigma'|$.
    g2 : for each node and example the spectral norm of g, all outputs and pixels side by side.
    tangents : how hidden values move with each trained array, where the sharper bounds are wanted.
    clearance : for each ReLU node, lower bounds of $|z|$: `n x p x m`.
    rows : for each matrix, the norms of its rows. `unit` : for each node, the largest norm of one unit's values.
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
    omega: Mapping[str, float]
    inputs: Mapping[int, np.ndarray]
    all_inputs: Mapping[int, float]
    b2: tuple[np.ndarray, ...]
    b_max: tuple[np.ndarray, ...]
    g2: tuple[np.ndarray, ...]
    slope: tuple[np.ndarray, ...]
    tangents: Tangents | None
    clearance: tuple[np.ndarray, ...] = field(repr=False)
    rows: Mapping[str, np.ndarray] = field(repr=False)
    unit: tuple[float, ...]
    gram: Ball = field(repr=False)
    errors: Ball = field(repr=False)


def measure(
    graph: Graph,
    params: Mapping[str, np.ndarray],
    x: np.ndarray,
    y: np.ndarray,
    *,
    level: str = "enclosed",
    sharp: bool = False,
) -> Anchor:
    """Compute everything a certificate needs at `params`.

    `y` holds the scored targets, `n x c` or of a shape that flattens to it; `level` is `"float64"` or `"enclosed"`.
    """
    tracked = level == "enclosed"
    params = {name: np.asarray(weight, np.float64) for name, weight in params.items()}
    used = {t.name for node in graph.nodes for t in node.terms}
    matrices = {name: exact(graph.matrix(params, name), tracked) for name in used}
    norms = {name: spectral_norm(m) for name, m in matrices.items()}
    passed = run(graph, params, np.asarray(x, np.float64), tracked, norms)
    n, c = passed.outputs.mid.shape
    targets = np.asarray(y, np.float64).reshape(n, c)
    errors = add(passed.outputs, exact(-targets, tracked))
    matrix = gram(passed, graph.trained)
    smallest, largest = smallest_eigenvalue(matrix), largest_eigenvalue(matrix)
    s = float(np.sqrt(smallest)) * (1 - 1e-12 * tracked) if smallest > 0 else 0.0
    residual = float(lengths(errors, (0, 1)))
    sources = {t.source for node in graph.nodes for t in node.terms}
    all_inputs = {k: spectral_norm(passed.inputs[k].joined(1)) for k in sources}
    return Anchor(
        graph=graph,
        level=level,
        n=n,
        outputs=c,
        parameters=sum(params[name].size for name in graph.trained),
        residual=residual,
        s=s,
        S=float(np.sqrt(max(largest, 0.0))) * (1 + 1e-12 * tracked),
        newton=_newton(matrix, errors, s) if s > 0 else float("inf"),
        omega={
            name: operator_norm(m.mid, graph.window, passed.z[0].mid.shape[1], tracked) for name, m in matrices.items()
        },
        inputs={k: _patch_norms(passed.inputs[k]) for k in sources},
        all_inputs=all_inputs,
        b2=tuple(lengths(b, (1, 2, 3)) for b in passed.b),
        b_max=tuple(lengths(b, (1,)).max(axis=(1, 2)) for b in passed.b),
        g2=tuple(_gain_norms(g) for g in passed.g),
        slope=tuple(d.above.max(axis=(1, 2)) for d in passed.slopes),
        tangents=tangents_of(passed, params, norms, all_inputs) if sharp else None,
        clearance=tuple(np.abs(z.mid) - (0 if z.rad is None else z.rad) for z in passed.z) if graph.kinked else (),
        rows={name: lengths(m, (1,)) for name, m in matrices.items()},
        unit=tuple(float(lengths(value, (0, 1)).max()) for value in passed.values),
        gram=matrix,
        errors=errors,
    )


def _patch_norms(u: Ball) -> np.ndarray:
    """Return the spectral norm of every example's matrix."""
    if u.mid.shape[1] == 1:
        return lengths(u, (1, 2))
    return np.array([spectral_norm(u.map(lambda a, i=i: a[i])) for i in range(len(u.mid))])


def _gain_norms(g: Ball) -> np.ndarray:
    """Return the spectral norm of every example's g, all outputs and pixels side by side."""
    rows = g.map(lambda a: a.reshape(len(a), -1, a.shape[3]))
    return np.minimum(lengths(g, (1, 2, 3)), _patch_norms(rows))


def _newton(matrix: Ball, errors: Ball, s: float) -> float:
    r"""Bound $\sqrt{r^\top G^{-1} r}$ by $2 v^\top r - v^\top G v + \|r - G v\|^2 / s^2$, which holds for any $v$."""
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
    return float(np.sqrt(total)) * (1 + 1e-10)
