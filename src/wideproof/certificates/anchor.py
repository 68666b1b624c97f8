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
    activate,
    add,
    exact,
    inner,
    largest_eigenvalue,
    lengths,
    multiply,
    product,
    scaled,
    smallest_eigenvalue,
    spectral_norm,
)
from wideproof.certificates.graph import Graph, Term

CHUNK = 1 << 24  # entries of a Jacobian held at a time
EXTENDED = 4e9  # products of long doubles that are worth their time


@dataclass(frozen=True, eq=False)
class Pass:
    """A forward and a backward pass through the nodes, enclosed.

    Attributes
    ----------
    inputs : for each source (node, or input at a negative number) what its matrices multiply: `n x p x fan-in`.
    z, values, slopes : pre-activations, values and slopes of each node: `n x p x m`.
    b, g : cotangents of each node's value and pre-activation: `n x c x p x m`.
    outputs : all scored outputs of an example: `n x c`.
    """

    graph: Graph
    inputs: Mapping[int, Ball]
    z: tuple[Ball, ...]
    values: tuple[Ball, ...]
    slopes: tuple[Ball, ...]
    b: tuple[Ball, ...]
    g: tuple[Ball, ...]
    outputs: Ball


def run(
    graph: Graph,
    params: Mapping[str, np.ndarray],
    x: np.ndarray,
    tracked: bool = True,
    omega: Mapping[str, float] | None = None,
) -> Pass:
    """Run the network on all examples, forward and backward; `omega` bounds the spectral norms of its matrices."""
    omega = omega or {}
    forward = _forward(graph, params, x, tracked, omega, np.float64)
    if tracked and graph.kinked and _work(graph, params, len(x)) < EXTENDED:
        forward = _forward(graph, params, x, tracked, omega, np.longdouble)
    inputs, z, values, slopes, outputs = forward
    b, g = _backward(graph, params, values, slopes, tracked, omega)
    return Pass(graph, inputs, tuple(z), tuple(values), tuple(slopes), b, g, outputs)


def _work(graph: Graph, params: Mapping[str, np.ndarray], n: int) -> int:
    return n * sum(params[t.name].size for node in graph.nodes for t in node.terms)


def _forward(
    graph: Graph,
    params: Mapping[str, np.ndarray],
    x: np.ndarray,
    tracked: bool,
    omega: Mapping[str, float],
    dtype: type,
) -> tuple[dict[int, Ball], list[Ball], list[Ball], list[Ball], Ball]:
    """Run forward; ReLU networks in long double where that is cheap, since their errors are not smoothed on the way."""
    name = graph.activation.name.removesuffix("_closed")

    def matrix(key: str) -> np.ndarray:
        return graph.matrix(params, key).astype(dtype)

    inputs = {
        -1 - t: patches(exact(part.astype(dtype), tracked), graph.window) for t, part in enumerate(graph.inputs(x))
    }
    z, values, slopes = [], [], []
    for k, node in enumerate(graph.nodes):
        z.append(add(*(product(inputs[t.source], matrix(t.name), omega.get(t.name)) for t in node.terms)))
        value, slope = activate(name, z[-1], graph.lipschitz, graph.smoothness)
        value = scaled(value, node.scale)
        values.append(add(values[-1], value) if node.skip else value)
        slopes.append(slope)
        inputs[k] = patches(values[-1], graph.window)
    read = matrix(graph.read_out)
    flat = read.reshape(len(read), -1)
    size = float(np.sqrt(np.square(flat.astype(np.float64)).sum())) * UP
    sites = [product(values[k].joined(2), flat, size).rounded() for k in graph.outputs]
    radii = [site.rad for site in sites if site.rad is not None]
    outputs = Ball(
        np.concatenate([site.mid for site in sites], axis=1), np.concatenate(radii, axis=1) if radii else None
    )
    rounded = [[ball.rounded() for ball in part] for part in (z, values, slopes)]
    return {k: u.rounded() for k, u in inputs.items()}, *rounded, outputs  # pyright: ignore[reportReturnType]


def _backward(
    graph: Graph,
    params: Mapping[str, np.ndarray],
    values: list[Ball],
    slopes: list[Ball],
    tracked: bool,
    omega: Mapping[str, float],
) -> tuple[tuple[Ball, ...], tuple[Ball, ...]]:
    read = graph.matrix(params, graph.read_out)
    n, c = len(values[0].mid), len(read)
    gathered: list[list[Ball]] = [[] for _ in graph.nodes]
    for site, k in enumerate(graph.outputs):
        start = np.zeros((n, c * len(graph.outputs), *read.shape[1:]))
        start[:, site * c : (site + 1) * c] = read
        gathered[k].append(exact(start, tracked))
    b: dict[int, Ball] = {}
    g: dict[int, Ball] = {}
    for k in reversed(range(len(graph.nodes))):
        node = graph.nodes[k]
        if not gathered[k]:  # nothing scored depends on this node
            gathered[k].append(exact(np.zeros((n, c * len(graph.outputs), *values[k].mid.shape[1:])), tracked))
        b[k] = add(*gathered[k])
        g[k] = multiply(b[k], _for_outputs(slopes[k]))
        if node.skip:
            gathered[k - 1].append(b[k])
        for t in node.terms:
            if t.source >= 0:
                transposed = np.ascontiguousarray(graph.matrix(params, t.name).T)
                back = product(scaled(g[k], node.scale), transposed, omega.get(t.name))
                gathered[t.source].append(_fold(back, graph.window))
    return tuple(b[k] for k in range(len(b))), tuple(g[k] for k in range(len(g)))


def _for_outputs(slope: Ball) -> Ball:
    """Give an axis for the outputs to what all of them share."""
    if slope.rad is None:
        return Ball(slope.mid[:, None], None)
    return Ball(slope.mid[:, None], slope.rad[:, None], slope.off[:, None])


def patches(x: Ball, size: int) -> Ball:
    """Gather the `size` pixels around each pixel, channel by channel, zero outside."""
    if size == 1:
        return x

    def gather(a: np.ndarray) -> np.ndarray:
        pixels, half = a.shape[-2], size // 2
        padded = np.pad(a, [(0, 0)] * (a.ndim - 2) + [(half, half), (0, 0)])
        shifted = [padded[..., o : o + pixels, :] for o in range(size)]
        return np.stack(shifted, axis=-1).reshape(*a.shape[:-1], -1)

    return x.map(gather)


def _fold(y: Ball, size: int) -> Ball:
    """The adjoint of `patches`."""
    if size == 1:
        return y
    half = size // 2

    def shift(a: np.ndarray, o: int) -> np.ndarray:
        """What offset `o` read at pixel p belongs to pixel p + o - half."""
        part = a.reshape(*a.shape[:-1], -1, size)[..., o]
        out = np.zeros_like(part)
        move, pixels = o - half, part.shape[-2]
        if abs(move) < pixels:
            source = slice(max(0, -move), pixels - max(0, move))
            target = slice(max(0, move), pixels - max(0, -move))
            out[..., target, :] = part[..., source, :]
        return out

    return add(*(y.map(lambda a, o=o: shift(a, o)) for o in range(size)))


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
    b2, b_max, g2, slope : for each node and example $\|b\|_F$, the largest column, $\|g\|_F$, $\max|\sigma'|$.
    middle : for `(node, matrix)` and each example $\|M D_{\mathrm{src}}\|$, where the sharper bounds are wanted.
    clearance : for each ReLU node, lower bounds of $|z|$: `n x p x m`.
    rows : for each matrix, the norms of its rows.
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
    middle: Mapping[tuple[int, str], np.ndarray]
    clearance: tuple[np.ndarray, ...] = field(repr=False)
    rows: Mapping[str, np.ndarray] = field(repr=False)
    gram: Ball = field(repr=False)
    errors: Ball = field(repr=False)

    @property
    def sharp(self) -> bool:
        """Whether the sharper middle factors were computed."""
        return bool(self.middle)


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
        omega={name: graph.patch_factor * norm for name, norm in norms.items()},
        inputs={k: _patch_norms(passed.inputs[k]) for k in sources},
        all_inputs={k: spectral_norm(passed.inputs[k].joined(1)) for k in sources},
        b2=tuple(lengths(b, (1, 2, 3)) for b in passed.b),
        b_max=tuple(lengths(b, (1,)).max(axis=(1, 2)) for b in passed.b),
        g2=tuple(lengths(g, (1, 2, 3)) for g in passed.g),
        slope=tuple(d.above.max(axis=(1, 2)) for d in passed.slopes),
        middle=_middle(passed, matrices) if sharp else {},
        clearance=tuple(np.abs(z.mid) - (0 if z.rad is None else z.rad) for z in passed.z) if graph.kinked else (),
        rows={name: lengths(m, (1,)) for name, m in matrices.items()},
        gram=matrix,
        errors=errors,
    )


def _patch_norms(u: Ball) -> np.ndarray:
    if u.mid.shape[1] == 1:
        return lengths(u, (1, 2))
    return np.array([spectral_norm(u.map(lambda a, i=i: a[i])) for i in range(len(u.mid))])


def _middle(passed: Pass, matrices: Mapping[str, Ball]) -> dict[tuple[int, str], np.ndarray]:
    found = {}
    for k, node in enumerate(passed.graph.nodes):
        for t in node.terms:
            if t.source < 0 or passed.graph.nodes[t.source].skip or passed.z[k].mid.shape[1] > 1:
                continue
            slopes = passed.slopes[t.source].above[:, 0]
            weight = matrices[t.name]
            found[k, t.name] = np.array([spectral_norm(multiply(weight, exact(d, weight.rad is not None)))
                                         for d in slopes])  # fmt: skip
    return found


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
