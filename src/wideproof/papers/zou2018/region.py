"""Appendix B: products, sparse forms, drift, flips and gradients near the start (Lemmas B.1 to B.6)."""

from __future__ import annotations

import numpy as np

from wideproof.monitors import flips, small_values, top_norms
from wideproof.monitors.relu import ReLUPass, gradients
from wideproof.papers.check import Check, at_most, conclude, identity, scales
from wideproof.papers.statement import Section, misprint
from wideproof.papers.study import kept
from wideproof.papers.zou2018 import moves
from wideproof.papers.zou2018.lab import Lab, margin_loss, slopes
from wideproof.papers.zou2018.moves import REGION, SAMPLED
from wideproof.papers.zou2018.starts import product_lengths

statement = Section("perturbation", "relu")
gradient = Section("gradient", "relu")


def changed_masks(lab: Lab, seen: ReLUPass, s: int, how: str, draw: int) -> list[np.ndarray]:
    r"""Return diagonals on example 0 that differ from the activation pattern in `s` places of every layer.

    `"random"` puts numbers of $[-1, 1]$ on random units that leave $\tilde\Sigma - \Sigma$ in $[-1, 1]$ too; `"greedy"`
    switches on, with sign $-1$, the inactive units whose weights are longest.
    """
    rng, diagonals = lab.rng("masks", how, draw, s), []
    for layer in range(1, seen.depth + 1):
        mask = seen.mask(layer)[0].astype(float)
        if how == "random":
            places = rng.choice(mask.size, s, replace=False)
            mask[places] = np.where(mask[places] > 0, rng.uniform(0, 1, s), rng.uniform(-1, 1, s))
        else:
            length = np.linalg.norm(seen.weights[layer - 1], axis=0) * (mask == 0)
            mask[np.argsort(-length)[:s]] = -1.0
        diagonals.append(mask)
    return diagonals


def product_norm(seen: ReLUPass, diagonals: list[np.ndarray], first: int, last: int) -> float:
    r"""Return $\|\prod_{r=l_1}^{l_2} \tilde\Sigma_r \tilde W_r^\top\|_2$ for given diagonals."""
    product = np.eye(seen.weights[first - 1].shape[0])
    for layer in range(first, last + 1):
        product = diagonals[layer - 1][:, None] * (seen.weights[layer - 1].T @ product)
    return float(np.linalg.norm(product, 2))


def output_form(seen: ReLUPass, diagonals: list[np.ndarray], layer: int) -> np.ndarray:
    r"""Return $(\prod_{r=l}^{L} \tilde\Sigma_r \tilde W_r^\top)^\top v$ for given diagonals."""
    vector = seen.signs
    for index in range(seen.depth, layer - 1, -1):
        vector = seen.weights[index - 1] @ (diagonals[index - 1] * vector)
    return vector


@statement("Chains keep norm of order L when weights move by τ and s mask entries change", "scale")
@misprint("the proof leaves out the end pieces of the chains; the claim itself is what is measured")
def lemma_b_1(lab: Lab) -> Check:
    r"""Products with weights moved by $\tau$ and at most $s$ changed mask entries keep norm $O(L)$."""
    lengths, parts = product_lengths(lab), []
    for how in ("random", "greedy"):
        norms = []
        for draw, case in enumerate(moves.deep(lab)):
            diagonals = changed_masks(lab, case.after, 2, how, draw)
            norms.append([product_norm(case.after, diagonals, 2, k + 1) for k in lengths])
        parts.append(scales(f"‖product of k‖, {how} changes of 2 mask entries a layer", "k", lengths, norms, 1.0))
    return conclude(*parts, assumptions=("τ = 0.05 and s = 2 in place of κ/L³", SAMPLED))


@statement("The output against s-sparse directions is then at most of order L²τ√M + L√(s log M)", "scale")
def lemma_b_2(lab: Lab) -> Check:
    r"""The output form then satisfies
    $v^\top\prod \tilde\Sigma_r \tilde W_r^\top a \le C (L^2 \tau \sqrt M + L \sqrt{s \log M})$.
    """
    sizes = np.array([8, 16, 32, 64])

    def largest(width: int, draw: int, s: int) -> float:
        seen = moves.near(lab, "gaussian", width, draw, 0.1).after
        form = output_form(seen, changed_masks(lab, seen, s, "greedy", draw), 2)
        return float(top_norms(form)[s - 1])

    def ratio(width: int, draw: int) -> float:
        return largest(width, draw, 8) / (0.1 * np.sqrt(width) + np.sqrt(8 * np.log(width)))

    in_size = lab.over(sizes, lab.few, lambda s, k: largest(256, k, s))
    in_width = lab.over(lab.widths, lab.few, ratio)
    return conclude(
        scales("form on s-sparse vectors, s changed mask entries a layer", "s", sizes, in_size, 0.5),
        scales("form / (τ√M + √(s log M)), s = 8", "m", lab.widths, in_width, 0.0),
        assumptions=("τ = 0.1, changes on the units with the longest weights",),
    )


@kept
def telescoping(lab: Lab) -> list[Check]:
    r"""Check the exact identities for $\hat x_l - \tilde x_l$ behind Lemma B.3 and its count of flips."""
    hat, tilde = (moves.near(lab, family, 128, 0, 0.3).after for family in ("gradient", "gaussian"))
    left, right, signs, sums = [], [], [], []
    previous = np.zeros_like(hat.layers[0])
    for layer in range(1, hat.depth + 1):
        a, b = hat.values[layer - 1], tilde.values[layer - 1]
        change = np.where(a != b, a - b, 1.0)
        check = np.where(a != b, (hat.mask(layer) * 1.0 - tilde.mask(layer)) * b / change, 0.0)
        factor = hat.mask(layer) + check
        left.append(hat.layers[layer] - tilde.layers[layer])
        right.append(factor * (a - b))
        signs.append(np.maximum(np.abs(check), np.abs(factor)).max())
        difference = hat.weights[layer - 1] - tilde.weights[layer - 1]
        previous = factor * (previous @ hat.weights[layer - 1] + tilde.layers[layer - 1] @ difference)
        sums.append(previous)
    betas = np.geomspace(0.001, 1.0, 13)
    counts = [flips(hat.mask(i), tilde.mask(i))[:, None] + 0 * betas for i in (1, 2, 3)]
    bounds = [
        small_values(tilde.values[i], betas) + ((hat.values[i] - tilde.values[i]) ** 2).sum(axis=1)[:, None] / betas**2
        for i in range(3)
    ]
    return [
        identity("x̂ - x̃ = (Σ̂ + Σ̌)(Ŵᵀx̂ - W̃ᵀx̃)", np.stack(left), np.stack(right)),
        identity("the same telescoped to the input", np.stack(left), np.stack(sums)),
        at_most("|Σ̌| and |Σ̂ + Σ̌| <= 1", signs, 1 + 1e-12),
        at_most("flips <= #{|z| <= β} + ‖Δz‖²/β² for every β", counts, bounds, counts=True),
    ]


@statement("Drift and flips near the start, through exact telescoping over layers", "scale")
@misprint("two constants do not add up, and the correction matrix is real and not binary")
def lemma_b_3(lab: Lab) -> Check:
    r"""Drift of outputs $\le C L \sum \|\hat W_r - \tilde W_r\|$ and flips $\le C' L^{4/3}\tau^{2/3} m_l$, by exact
    telescoping.
    """
    return conclude(
        *telescoping(lab), *moves.outputs_move_little(lab), *moves.few_flips(lab), assumptions=(SAMPLED, REGION)
    )


@statement("Counted over all examples, at most order n L^{4/3} τ^{2/3} m last-layer units flip", "scale")
def corollary_b_4(lab: Lab) -> Check:
    r"""United over examples, at most $C n L^{4/3}\tau^{2/3} m_L$ activations of the last layer flip."""
    return conclude(*moves.few_flips_together(lab), assumptions=(SAMPLED, REGION))


@gradient("Near the start the last layer's gradient is at least of order (mφ/n⁵) S² in square", "scale")
@misprint("the proof loses 1/n in one line; the result is right")
def lemma_b_5(lab: Lab) -> Check:
    r"""For $\tau = O(\phi^{3/2} n^{-3} L^{-2})$:
    $\|\nabla_{W_L} L_S(\tilde W)\|_F^2 \ge C (m_L\phi/n^5)(\sum_i \ell'_i)^2$.
    """
    data = lab.data()
    seen = moves.near(lab, "gaussian", 128, 0, 0.05).after
    slope = slopes(margin_loss("logistic"), data.y * seen.outputs)
    direct = float((gradients(seen, -slope * data.y / len(slope))[-1] ** 2).sum())
    form = slope @ moves.last_layer_form(seen, data.y) @ slope
    return conclude(
        *moves.gradients_stay_large(lab),
        identity("‖∇_{W_L} L_S‖² = aᵀQa", direct, form),
        assumptions=(SAMPLED, moves.WORST),
    )


@gradient("Near the start every layer's gradient is at most of order L²√M times the mean slope", "scale")
@misprint("the product shows W̃_l where W̃_r is meant")
def lemma_b_6(lab: Lab) -> Check:
    r"""Layer gradients are at most $C L^2\sqrt M$ times the mean slope; one example's is
    $|\ell'|\,\|x_{l-1}\|\,\|b_l\|$.
    """
    data = lab.data()
    seen = moves.near(lab, "gaussian", 128, 0, 0.3).after
    slope = slopes(margin_loss("logistic"), data.y * seen.outputs)
    one = gradients(seen, np.eye(8)[0] * slope[0])
    sizes = [
        slope[0] * np.linalg.norm(x[0]) * np.linalg.norm(b[0]) for x, b in zip(seen.layers, seen.back, strict=False)
    ]
    return conclude(
        *moves.gradients_stay_bounded(lab),
        identity("‖∇_W ℓ_i‖ = |ℓ'| ‖x‖ ‖b‖", [float(np.linalg.norm(g, 2)) for g in one], sizes),
        assumptions=(SAMPLED, REGION),
    )
