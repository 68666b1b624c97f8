r"""Limits are positive definite: the propositions and lemmas of Appendix F, and the tensor powers behind them."""

from __future__ import annotations

import numpy as np
from flint import fmpz_mat

from wideproof.papers.check import Check, at_least, conclude, identity, scales
from wideproof.papers.du2019.functions import FUNCTIONS
from wideproof.papers.du2019.lab import Lab
from wideproof.papers.du2019.recursion import Recursion, expectations, recursion
from wideproof.papers.statement import Section, misprint

statement = Section("positivity", "none")

ANALYTIC = ("softplus", "sigmoid", "tanh", "erf", "gelu", "swish")


@statement("Fully connected: K^(H) is positive definite if no two inputs are parallel", "bound", network="fc_smooth")
@misprint("refers to (8) for (7)")
def proposition_f_1(lab: Lab) -> Check:
    r"""Fully connected: $\lambda_{\min}(K^{(H)}) > 0$ if $\sigma$ is analytic, no polynomial, and no two inputs are
    parallel.
    """
    parts = []
    for activation in ANALYTIC:
        for depth in (1, 2, 3):
            network = lab.network("fully-connected", 1, depth, activation)
            for k, x in enumerate(_inputs(lab, "unit", lab.pick(1, 2, 5))):
                coarse, fine = (recursion(network, x, nodes=nodes).blocks[f"W{depth}"] for nodes in (48, 64))
                parts.append(positive_check(f"{activation}, depth {depth}, inputs {k}", coarse, fine))
    return conclude(*parts, assumptions=["five unit vectors in eight dimensions; depths 1, 2, 3"])


@statement("E[σ(w·z_i)σ(w·z_j)] is positive definite if no two points are parallel", "bound")
@misprint("the proof differentiates σ(w·z), n - 1 times")
def lemma_f_1(lab: Lab) -> Check:
    r"""For points of which no two are parallel, the matrix
    $\mathbb{E}_{w \sim N(0,I)}[\sigma(w^\top z_i)\sigma(w^\top z_j)]$ is strictly positive definite.
    """
    return conclude(*_dual_matrices(lab, 0), assumptions=["five points of norms between 0.5 and 1.5, two draws"])


@statement("E[σ'(w·z_i)σ'(w·z_j)] z_i·z_j is positive definite if no two points are parallel", "bound")
def lemma_f_2(lab: Lab) -> Check:
    r"""For points of which no two are parallel, the matrix
    $\mathbb{E}_{w \sim N(0,I)}[\sigma'(w^\top z_i)\sigma'(w^\top z_j)]\, z_i^\top z_j$ is strictly positive definite.
    """
    return conclude(*_dual_matrices(lab, 1), assumptions=["five points of norms between 0.5 and 1.5, two draws"])


@statement("Residual: K^(H) is positive definite, its λ_min of order 1/H²", "scale", network="resnet_smooth")
@misprint("c_H is printed once too often; the diagonal is bounded by c_(x,0)²")
def proposition_f_2(lab: Lab) -> Check:
    r"""Residual: $\lambda_{\min}(K^{(H)}) \ge c_H\,\kappa > 0$, $c_H$ of order $1/H^2$ and $\kappa$ free of depth."""
    depths = lab.pick([2, 4, 8], [2, 4, 8, 16, 32], [2, 4, 8, 16, 32, 64])
    parts = []
    for activation in ("softplus", "tanh"):
        least = [
            [lab.lambda_0(lab.network("residual", 1, depth, activation), x) for depth in depths]
            for x in _inputs(lab, "unit", 3)
        ]
        parts.append(at_least(f"{activation}: λ0 > 0", least, 0.0))
        title = f"{activation}: λ0 falls no faster than 1/H²"
        parts.append(scales(title, "H", depths, least, -2.0, sense="at least"))
    return conclude(*parts, assumptions=[f"depths {depths}, c_res = 0.5, three draws of five unit vectors"])


@statement("Skips never bring two examples closer than the first layer has", "bound", network="resnet_smooth")
@misprint("used across layer 1, which has no skip; checked against K^(1) - bb^T")
def lemma_f_3(lab: Lab) -> Check:
    r"""Skips keep pairs apart: with $C^{(h)} = K^{(h)} - b^{(h)} b^{(h)\top}$ and blocks of pairs $i, j$,

    $$ C^{(h+1)} \succeq C^{(h)} \quad (h \ge 1), \qquad
       \lambda_{\min}\big(K^{(h)}_{\{i,j\}}\big) \ge \lambda_{\min}\big(C^{(1)}_{\{i,j\}}\big) > 0 . $$

    The paper compares with $K^{(0)}$ instead of $C^{(1)}$, but its first layer has no skip.
    """
    parts = []
    for activation in ANALYTIC:
        for x in (np.eye(8)[:2], *_inputs(lab, "unit")):
            found = lab.limit(lab.network("residual", 1, 4, activation), x)
            blocks, centred = pair_eigenvalues(found), pair_eigenvalues(found, centred=True)
            parts.append(at_least(f"{activation}: blocks of layers 2..4", blocks[2:], centred[1]))
            parts.append(at_least(f"{activation}: C^(1) > 0", centred[1], 0.0))
            grown = [np.linalg.eigvalsh(_centred(found, h + 1) - _centred(found, h))[0] for h in range(1, 4)]
            parts.append(at_least(f"{activation}: C grows", grown, 0.0))
    return conclude(
        *parts, assumptions=["depth 4, c_res = 0.5, an orthonormal pair and two draws of five unit vectors"]
    )


@statement("Tensor powers of n vectors, no two parallel, are independent", "exact")
@misprint("v_(i,p)/v_(i,1) in the proof")
def lemma_g_6(lab: Lab) -> Check:
    r"""The $n$-fold tensor powers of $n$ vectors, no two of them parallel, are linearly independent.

    Their inner products are $\langle v_i, v_j\rangle^n$; the rank of that matrix is computed exactly over the integers
    (the length of a vector does not matter), also where all vectors lie in a plane.
    """
    rng = lab.rng("integer vectors")
    cases = [(n, dimension) for n in range(2, lab.pick(9, 13, 17)) for dimension in (2, 3, 5)]
    ranks = [tensor_rank(_integer_vectors(rng, n, dimension), n) for n, dimension in cases]
    return conclude(identity("rank of the n-fold powers", ranks, [n for n, _ in cases], tolerance=1e-9))


def pair_eigenvalues(found: Recursion, centred: bool = False) -> np.ndarray:
    """Return the least eigenvalue over all blocks of two examples, one for each layer 0..H."""
    layers = range(len(found.covariances))
    matrices = [_centred(found, h) if centred else found.covariances[h][:, :, 0, 0] for h in layers]
    i, j = np.triu_indices(len(matrices[0]), 1)
    return np.array(
        [min(np.linalg.eigvalsh(k[np.ix_(pair, pair)])[0] for pair in zip(i, j, strict=True)) for k in matrices]
    )


def tensor_rank(vectors: np.ndarray, power: int) -> int:
    """Return the exact rank of the tensor powers of integer vectors, from their inner products."""
    inner = (vectors @ vectors.T).tolist()
    return int(fmpz_mat([[entry**power for entry in row] for row in inner]).rank())


def _centred(found: Recursion, h: int) -> np.ndarray:
    b = found.means[h][:, 0]
    return found.covariances[h][:, :, 0, 0] - np.outer(b, b)


def _inputs(lab: Lab, norms: str, draws: int = 2) -> list[np.ndarray]:
    found = []
    for k in range(draws):
        rng = lab.rng("non-parallel inputs", k)
        x = rng.normal(size=(5, 8))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        found.append(x if norms == "unit" else x * rng.uniform(0.5, 1.5, size=(5, 1)))
    return found


def positive_check(title: str, coarse: np.ndarray, fine: np.ndarray) -> Check:
    """Compare the least eigenvalue with ten times the change that more quadrature nodes made."""
    doubt = 10 * float(np.linalg.norm(fine - coarse, 2)) + 1e-13 * float(np.trace(fine))
    return at_least(f"{title}: λ_min above the error of quadrature", float(np.linalg.eigvalsh(fine)[0]), doubt)


def _dual_matrices(lab: Lab, order: int) -> list[Check]:
    parts = []
    for activation in ANALYTIC:
        for k, z in enumerate(_inputs(lab, "unequal")):
            inner = z @ z.T
            coarse, fine = (expectations(FUNCTIONS[activation][order], inner, nodes) for nodes in (80, 120))
            if order:
                coarse, fine = coarse * inner, fine * inner
            parts.append(positive_check(f"{activation}, points {k}", coarse, fine))
    return parts


def _integer_vectors(rng: np.random.Generator, n: int, dimension: int) -> np.ndarray:
    """Draw integer vectors until no two are parallel; those of a plane are (1, k)."""
    if dimension == 2:
        return np.column_stack([np.ones(n, int), np.arange(n) - n // 2])
    while True:
        v = rng.integers(-9, 10, size=(n, dimension))
        square = v @ v.T
        parallel = square**2 == np.outer(np.diagonal(square), np.diagonal(square))
        if parallel.sum() == n:
            return v
