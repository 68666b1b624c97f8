r"""Norms of whole products of layers at the anchor: how far hidden values move with each trained array.

A direction $U$ of an array used at nodes $j$ moves $z_k$ by $\sum_j A_{kj}\, U \varphi_j$, $A_{kj} = \partial z_k /
\partial z_j$. With $\Phi$ the Gram matrix of all columns of all $\varphi_j$, this map has the norm
$\|A_k (\Phi \otimes I) A_k^\top\|^{1/2}$, and for all examples at once at most $\max_i \|A_{k,i}\| \cdot \|\varphi\|$.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product as pairs_of
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from wideproof.certificates.enclosure import (
    TINY,
    UP,
    Ball,
    add,
    exact,
    gamma,
    inner,
    lengths,
    multiply,
    product,
    scaled,
    spectral_norm,
    spread,
)
from wideproof.certificates.passes import Pass, reading
from wideproof.kernels.cholesky import UNIT, backward_error
from wideproof.networks import Graph, Read, Term
from wideproof.networks.maps import Identity, Patches


def operator_norms(graph: Graph, matrices: Mapping[str, Ball], tracked: bool) -> dict[tuple[int, Term], float]:
    r"""Bound the norm of $x \mapsto M \varphi(x)$ for every term; 0 where it does not depend on x."""
    norms = {name: spectral_norm(m) for name, m in matrices.items()}
    found: dict[tuple[int, Term], float] = {}
    known: dict[tuple[str, Identity], float] = {}
    for k, t in ((k, t) for k, node in enumerate(graph.layers) for t in node.terms):
        if t.weight is None or not t.moves:
            found[k, t] = t.map.factor
        elif type(t.map) is Patches:
            if (t.weight, t.map) not in known:
                known[t.weight, t.map] = operator_norm(matrices[t.weight].mid, t.map, tracked)
            found[k, t] = known[t.weight, t.map]
        else:
            found[k, t] = norms[t.weight] * (1.0 if t.map.factor == 1 else t.map.factor * UP)
    return found


def operator_norm(weight: Float[np.ndarray, "m fan_in"], phi: Patches, tracked: bool) -> float:
    r"""Bound the norm of a convolution.

    It is a corner of the same convolution on a circle (a torus) of $P = p + \text{padding}$ positions, which the
    Fourier transform splits into the matrices $\sum_o M_o e^{2 \pi i k o / P}$.

    >>> from wideproof.networks.maps import same
    >>> round(operator_norm(np.array([[1.0, 1.0, 1.0]]), same((50,), 3), True), 6)
    3.0
    """
    if phi.count == 1:
        return spectral_norm(exact(weight, tracked))
    pieces = weight.reshape(len(weight), -1, phi.count)
    sides = zip(phi.positions, phi.reach, phi.padding, strict=True)
    circles = [p + max(*pad, sum(pad) - q + 1) for p, q, pad in sides]
    places = np.array(list(pairs_of(*map(range, phi.size)))) * phi.apart
    # Four units in the last place of a sine, its argument (below 4π) off by eight roundings, and the sum.
    rad = np.tile((64 * UNIT + gamma(phi.count)) * np.abs(pieces).sum(axis=2), (2, 2)) * UP + TINY
    norms = []
    first, *others = circles
    for k in pairs_of(range(first // 2 + 1), *map(range, others)):  # the other frequencies are conjugates of these
        turns = sum((f * places[:, d] % c) / c for d, (f, c) in enumerate(zip(k, circles, strict=True)))
        c, s = pieces @ np.cos(2 * np.pi * turns), pieces @ np.sin(2 * np.pi * turns)
        norms.append(spectral_norm(Ball(np.block([[c, -s], [s, c]]), rad if tracked else None)))
    return max(norms)


class Tangents(NamedTuple):
    r"""For each node and trained array $\|\partial z_k / \partial w\|$ and $\|\partial x_k / \partial w\|$.

    `z` and `x` hold one row per example for each node, `all_z` and `all_x` one row for all examples together. The
    column of the read-out is zero. A piecewise linear layer needs no `z`, which is zero there.
    """

    z: tuple[Float[np.ndarray, "n K"], ...]
    x: tuple[Float[np.ndarray, "n K"], ...]
    all_z: tuple[Float[np.ndarray, "1 K"], ...]
    all_x: tuple[Float[np.ndarray, "1 K"], ...]


def tangents_of(
    passed: Pass,
    params: Mapping[str, np.ndarray],
    norms: Mapping[str, float],
    all_inputs: Mapping[Read, float],
    roots: Float[np.ndarray, "n"],
) -> Tangents:
    """Measure them; `norms` are those of the matrices, `all_inputs` those of all examples' inputs together.

    `roots` are the square roots of how many rows each example stands for.
    """
    graph, n, nodes = passed.graph, len(passed.outputs.mid), range(len(passed.graph.layers))
    matrices = {name: graph.matrix(params, name) for name in norms}
    hidden = [name for name in graph.trained if name not in (graph.read_out, graph.bias)]
    uses = {name: [(k, graph.read(k, t)) for k, t in graph.uses(name)] for name in hidden}
    bends = [node.activation.known.smoothness for node in graph.layers]
    starts = {j for pairs in uses.values() for j, _ in pairs}
    size = np.zeros((2, len(nodes), n, len(graph.trained)))
    gain, reach = np.zeros_like(size), np.zeros(len(graph.trained))
    for i in range(n):
        pushed = {j: _push(passed, matrices, norms, i, j) for j in starts}
        for (name, pairs), k in pairs_of(uses.items(), nodes):
            column, own = graph.trained.index(name), [(j, read) for j, read in pairs if k in pushed[j][0]]
            reach[column] = math.hypot(*(all_inputs[read] for _, read in pairs))
            root = _root([passed.inputs[read].map(lambda a, i=i: a[i]) for _, read in own])
            for kind in (1,) if bends[k] == 0 else (0, 1):
                at = kind, k, i, column
                gain[at], size[at] = _norms([pushed[j][kind][k] for j, _ in own], root)
    whole = np.minimum(gain.max(axis=2) * reach, np.sqrt(np.square(size * roots[:, None]).sum(axis=2)))[:, :, None] * UP
    return Tangents(*(tuple(part) for part in (*size, *whole)))


def _push(
    passed: Pass, matrices: Mapping[str, Float[np.ndarray, "m fan_in"]], norms: Mapping[str, float], i: int, j: int
) -> tuple[dict[int, Ball], dict[int, Ball]]:
    """Return the derivatives of all later z and x by $z_j$ of example i, one row for each pixel and unit of it."""
    graph, (p, m) = passed.graph, passed.z[j].mid.shape[1:]
    z = {j: exact(np.eye(p * m).reshape(p * m, p, m), passed.z[j].rad is not None)}
    x: dict[int, Ball] = {}
    for k in range(j, len(graph.layers)):
        node, slope = graph.layers[k], passed.slopes[k]
        terms = [t for t in node.terms if t.source in x and t.moves]
        if terms:
            z[k] = add(*(_through(x[t.source], t, matrices, norms) for t in terms))
        if k in z:
            here = Ball(slope.mid[i], None) if slope.rad is None else Ball(slope.mid[i], slope.rad[i], slope.off[i])
            x[k] = scaled(multiply(z[k], here), node.scale)
        if node.skip in x:
            z.setdefault(k, exact(np.zeros_like(x[node.skip].mid), slope.rad is not None))
            x[k] = add(x[node.skip], x[k]) if k in x else x[node.skip]
    return z, x


def _through(
    x: Ball, t: Term, matrices: Mapping[str, Float[np.ndarray, "m fan_in"]], norms: Mapping[str, float]
) -> Ball:
    u = reading(x, t.map, 0)
    return u if t.weight is None else product(u, matrices[t.weight], norms[t.weight])


def _root(inputs: list[Ball]) -> Float[np.ndarray, "u u"]:
    r"""Return a lower triangular R with $R R^\top \succeq \Phi$, and hardly more, for the columns of all inputs."""
    if not inputs:
        return np.zeros((0, 0))
    if len(inputs) == len(inputs[0].mid) == 1:
        return lengths(inputs[0], (0, 1)).reshape(1, 1)
    rads = [u.rad for u in inputs if u.rad is not None]
    gram = inner(Ball(np.concatenate([u.mid for u in inputs]), np.concatenate(rads) if rads else None))
    size = len(gram.mid)
    shift = 2 * (spread(gram) + 4 * backward_error(size) * float(np.trace(gram.mid))) + TINY
    return np.linalg.cholesky((gram.mid + gram.mid.T) / 2 + shift * np.eye(size))


def _norms(parts: list[Ball], root: Float[np.ndarray, "u u"]) -> tuple[float, float]:
    r"""Return $\|A\|$ and $\|A (R \otimes I)\|$ A having one column for each unit at each place."""
    if not parts:
        return 0.0, 0.0
    rows = [part.mid.reshape(-1, part.mid[0].size) for part in parts]
    rads = [part.rad.reshape(-1, part.mid[0].size) for part in parts if part.rad is not None]
    whole = Ball(np.concatenate(rows), np.concatenate(rads) if rads else None)
    gain = spectral_norm(whole)
    if len(root) == 1:
        return gain, gain * float(root[0, 0]) * UP
    columns = whole.map(lambda a: np.moveaxis(a.reshape(len(root), -1, a.shape[1]), 0, 2))
    mixed = product(columns, np.ascontiguousarray(root.T))
    return gain, spectral_norm(mixed.map(lambda a: a.transpose(2, 0, 1).reshape(-1, a.shape[1])))
