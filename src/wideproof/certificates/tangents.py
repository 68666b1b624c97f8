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
from wideproof.certificates.graph import Graph
from wideproof.certificates.passes import Pass, patches
from wideproof.kernels.cholesky import UNIT, backward_error


def operator_norm(weight: np.ndarray, window: int, pixels: int, tracked: bool) -> float:
    r"""Bound the norm of $x \mapsto M \varphi(x)$ on images of so many `pixels`.

    It is a corner of the same convolution on a circle of $P = p + \lfloor q/2 \rfloor$ pixels, which the Fourier
    transform splits into the matrices $\sum_o M_o e^{2 \pi i k o / P}$.

    >>> round(operator_norm(np.array([[1.0, 1.0, 1.0]]), 3, 50, True), 6)
    3.0
    """
    if window == 1:
        return spectral_norm(exact(weight, tracked))
    pieces = weight.reshape(len(weight), -1, window)
    circle = pixels + window // 2
    # Four units in the last place of a sine, its argument (below 2π) off by three roundings, and the sum.
    rad = np.tile((32 * UNIT + gamma(window)) * np.abs(pieces).sum(axis=2), (2, 2)) * UP + TINY
    norms = []
    for k in range(circle // 2 + 1):  # the other frequencies are conjugates of these
        angle = 2 * np.pi * (k * np.arange(window) % circle) / circle
        c, s = pieces @ np.cos(angle), pieces @ np.sin(angle)
        norms.append(spectral_norm(Ball(np.block([[c, -s], [s, c]]), rad if tracked else None)))
    return max(norms)


class Tangents(NamedTuple):
    r"""For each node and trained array $\|\partial z_k / \partial w\|$ and $\|\partial x_k / \partial w\|$.

    `z` and `x` hold one row per example for each node, `all_z` and `all_x` one row for all examples together. The
    column of the read-out is zero. A piecewise linear network needs no `z`, which is zero there.
    """

    z: tuple[np.ndarray, ...]
    x: tuple[np.ndarray, ...]
    all_z: tuple[np.ndarray, ...]
    all_x: tuple[np.ndarray, ...]


def tangents_of(
    passed: Pass,
    params: Mapping[str, np.ndarray],
    norms: Mapping[str, float],
    all_inputs: Mapping[int, float],
    roots: np.ndarray,
) -> Tangents:
    """Measure them; `norms` are those of the matrices, `all_inputs` those of all examples' inputs together.

    `roots` are the square roots of how many rows each example stands for.
    """
    graph, n, nodes = passed.graph, len(passed.outputs.mid), range(len(passed.graph.nodes))
    matrices = {name: graph.matrix(params, name) for name in norms}
    uses = {name: _uses(graph, name) for name in graph.trained if name != graph.read_out}
    starts = {j for pairs in uses.values() for j, _ in pairs}
    size = np.zeros((2, len(nodes), n, len(graph.trained)))
    gain, reach = np.zeros_like(size), np.zeros(len(graph.trained))
    for i in range(n):
        pushed = {j: _push(passed, matrices, norms, i, j) for j in starts}
        for (name, pairs), k in pairs_of(uses.items(), nodes):
            column, own = graph.trained.index(name), [(j, source) for j, source in pairs if k in pushed[j][0]]
            reach[column] = math.hypot(*(all_inputs[source] for _, source in pairs))
            root = _root([passed.inputs[source].map(lambda a, i=i: a[i]) for _, source in own])
            for kind in (1,) if graph.kinked else (0, 1):
                at = kind, k, i, column
                gain[at], size[at] = _norms([pushed[j][kind][k] for j, _ in own], root)
    whole = np.minimum(gain.max(axis=2) * reach, np.sqrt(np.square(size * roots[:, None]).sum(axis=2)))[:, :, None] * UP
    return Tangents(*(tuple(part) for part in (*size, *whole)))


def _uses(graph: Graph, name: str) -> list[tuple[int, int]]:
    return [(k, t.source) for k, node in enumerate(graph.nodes) for t in node.terms if t.name == name]


def _push(
    passed: Pass, matrices: Mapping[str, np.ndarray], norms: Mapping[str, float], i: int, j: int
) -> tuple[dict[int, Ball], dict[int, Ball]]:
    """Return the derivatives of all later z and x by $z_j$ of example i, one row for each pixel and unit of it."""
    graph, (p, m) = passed.graph, passed.z[j].mid.shape[1:]
    z = {j: exact(np.eye(p * m).reshape(p * m, p, m), passed.z[j].rad is not None)}
    x: dict[int, Ball] = {}
    for k in range(j, len(graph.nodes)):
        node, slope = graph.nodes[k], passed.slopes[k]
        terms = [t for t in node.terms if t.source in x]
        if terms:
            z[k] = add(*(product(patches(x[t.source], graph.window), matrices[t.name], norms[t.name]) for t in terms))
        if k in z:
            here = Ball(slope.mid[i], None) if slope.rad is None else Ball(slope.mid[i], slope.rad[i], slope.off[i])
            x[k] = scaled(multiply(z[k], here), node.scale)
            if node.skip and k > j:
                x[k] = add(x[k - 1], x[k])
    return z, x


def _root(inputs: list[Ball]) -> np.ndarray:
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


def _norms(parts: list[Ball], root: np.ndarray) -> tuple[float, float]:
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
