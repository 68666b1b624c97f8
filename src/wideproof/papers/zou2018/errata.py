"""Errata of Zou et al. (2018), each with the printed words and decided by a measurement."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wideproof.monitors.relu import gradients, node_gradient_norms
from wideproof.papers.check import at_least, at_most, conclude, identity, scales
from wideproof.papers.errata import Decision, Entries, Fault
from wideproof.papers.zou2018.convergence import exponents
from wideproof.papers.zou2018.correlation import inner_products, opposite_pass
from wideproof.papers.zou2018.lab import PHI, Lab, margin_loss, powers, slopes, values
from wideproof.papers.zou2018.starts import relu_correlation, unit

erratum = Entries("zou2018")


@erratum(
    "Theorem 4.1",
    "step size O(n⁻³L⁻⁹m⁻¹)",
    "O(φ n⁻³L⁻⁹m⁻¹), as Lemma 5.4 and its proof have it",
    "theorem_4_1",
    fault=Fault.INCONSISTENCY,
    place="Section 4.1, Theorem 4.1",
    quotation=r"\eta=O(n^{-3}L^{-9}m^{-1})",
    under="equal widths and φ from 0.01 to 0.16; the condition that leads to (C.6), not the theorem itself",
)
def step_size_lacks_phi(lab: Lab) -> Decision:
    r"""(C.6) needs the remainder $L^9 M^2\eta^2 S^2/n^2$ below a quarter of the descent $\eta (m\phi/n^5) S^2$.

    The largest $c$ that this allows in $\eta = c\, n^{-3}L^{-9}m^{-1}$ and in $\eta = c\, \phi n^{-3}L^{-9}m^{-1}$: a
    constant for every $\phi$ has exponent 0.
    """
    n, depth, m, phi = 8.0, 3.0, 256.0, np.geomspace(0.01, 0.16, 5)
    largest = (m * phi / (4 * n**5)) / (depth**9 * m**2 / n**2)
    unit_step = n**-3 * depth**-9 / m
    return Decision(
        scales("largest c in c n⁻³L⁻⁹m⁻¹", "φ", phi, largest / unit_step, 0.0),
        scales("largest c in c φ n⁻³L⁻⁹m⁻¹", "φ", phi, largest / (unit_step * phi), 0.0),
    )


@erratum(
    "proof of Theorem 4.1",
    "n^{26−2p} + n^{26} ε^{1−2p}",
    "n^{26} + n^{26−2p} ε^{1−2p}, from Lemmas 5.4 and 5.5; what is printed is larger, so that it is enough too",
    "theorem_4_1",
    fault=Fault.MISPRINT,
    place="Section 5.1, proof of Theorem 4.1, width for α0 < ∞ and 1/2 < p ≤ 1",
    quotation="rΩ ` n26´2pL38{φ8 ˘ ` rΩ ` n26L38{φ8 ˘ ¨ Ωpε1´2pq",
    under="arithmetic of exponents at p = 0.6, 0.75, 1 with ε = ℓ(0)/n",
)
def width_powers_exchanged(lab: Lab) -> Decision:
    r"""GD, $\alpha_0 < \infty$, $p > 1/2$: which of $n^{26}$ and $n^{26-2p}$ carries $\epsilon^{1-2p}$."""
    p = np.array([0.6, 0.75, 1.0])
    needed = np.array([exponents(x, lipschitz=True, stochastic=False)[0] for x in p])
    # With ε = ℓ(0)/n, ε^{1-2p} is n^{2p-1}.
    printed = np.maximum(26 - 2 * p, 26 + 2 * p - 1)
    right = np.maximum(26, 26 - 2 * p + 2 * p - 1)
    return Decision(
        identity("power of n: n^{26-2p} + n^{26} ε^{1-2p}", printed, needed),
        identity("power of n: n^{26} + n^{26-2p} ε^{1-2p}", right, needed),
    )


@erratum(
    "Theorem 4.5",
    "step size of GD, n⁻³L⁻⁹m⁻¹",
    "φ m⁻¹ n^{2p−7} L⁻⁹ B², as the proof sets it",
    "theorem_4_5",
    fault=Fault.INCONSISTENCY,
    place="Section 4.2, Theorem 4.5",
    quotation=r"\eta=O(n^{-3}L^{-9}m^{-1})",
    under="arithmetic of exponents at p = 1/2, 3/4, 1 with α0 < ∞, against the number of iterations in the proof",
)
def sgd_step_size(lab: Lab) -> Decision:
    r"""Theorem 4.5 prints GD's step; with it the steps of SGD would not have the powers of $n$ that it gives."""
    p = np.array([0.5, 0.75, 1.0])
    needed = np.array([exponents(x, lipschitz=True, stochastic=True)[1] for x in p])
    return Decision(
        identity("K from η = n⁻³/m", 5 + 3 + 0 * p, needed), identity("K from η = n^{2p-7}/m", 5 + 7 - 2 * p, needed)
    )


@erratum(
    "Theorems 4.1 and 4.5",
    "rows for 0 ≤ p < 1/2, besides those for larger p",
    "no loss but 0 meets Assumptions 3.1 to 3.3 with p < 1/2: those rows are true and empty",
    "assumption_3_3",
    fault=Fault.GAP,
    place="Section 4.1, Theorem 4.1, first row of m and of K",
    quotation="rΩ ` polypn, φ´1, Lq ˘ 0 ď p ă 1 2",
    under="a loss with −ℓ' = ℓ^p near zero loss, λ = 100",
)
def small_powers_are_empty(lab: Lab) -> Decision:
    r"""Assumptions 3.2 and 3.3 exclude $p < 1/2$: $\ell'^2 \le 2\lambda\ell$ fails near zero loss for any $\lambda$."""
    losses = np.geomspace(1e-12, 1e-2, 30)
    slow = np.asarray(losses**0.25)  # -ℓ' = ℓ^p of the canonical loss with p = 1/4
    fast = np.asarray(losses**0.75)
    return Decision(
        at_most("p = 1/4: ℓ'² <= 2λℓ with λ = 100", slow**2, 200 * losses),
        at_most("p = 3/4: ℓ'² <= 2λℓ with λ = 3/4", fast**2, 1.5 * losses),
    )


@erratum(
    "Theorem 5.1 (i)",
    "‖W_1‖ bounded for every d",
    "bounded when d = O(m)",
    "theorem_5_1_i",
    fault=Fault.GAP,
    place="Section 5, Theorem 5.1 (i)",
    quotation="}Wl}2 ď C 1 for all l “ 1 . . . , L",
    under="Gaussian initialization, m = 64 and d up to 16 m; Assumptions 3.4 to 3.6 leave d free",
)
def input_dimension_is_free(lab: Lab) -> Decision:
    r"""$\|W_1\|_2$ grows as $\sqrt2 (1 + \sqrt{d/m})$: bounded only if $d = O(m)$."""
    ratios, m = np.array([1, 4, 16]), 64
    rng = lab.rng("wide inputs")
    norms = lab.over(ratios, 3, lambda r, _: np.linalg.norm(rng.normal(size=(m * r, m)) * np.sqrt(2 / m), 2))
    printed = scales("‖W_1‖ is bounded whatever d", "d/m", ratios, norms, 0.0)
    right = np.sqrt(2) * (1 + np.sqrt(ratios))
    return Decision(printed, at_most("‖W_1‖ <= 1.1 √2(1 + √(d/m))", norms, 1.1 * right))


@erratum(
    "Theorem 5.1 (viii)",
    "Σ a_i σ' x_i",
    "Σ a_i y_i σ' x_i, as Lemma A.15 has it and Lemma B.5 uses it; for L ≥ 2 what is printed is true and says less",
    "theorem_5_1_viii",
    fault=Fault.INCONSISTENCY,
    place="Section 5, Theorem 5.1 (viii)",
    quotation="1 n n ÿ i“1 aiσ 1pxwL,j ,xL´1,iyqxL´1,i",
    under="Assumptions 3.4 to 3.6, m = 256, L = 3, the pair of opposite labels that is closest",
)
def labels_are_missing(lab: Lab) -> Decision:
    r"""Theorem 5.1 (viii) without $y_i$: the smallest sum is far larger than the gradient it should bound."""
    data = lab.data()
    seen = lab.seen(256, data=data)
    a = np.eye(8)[0] + np.eye(8)[1]  # the closest pair, which has opposite labels
    signed = node_gradient_norms(seen, data.y, a)
    plain = node_gradient_norms(seen, np.ones(8), a)
    columns = gradients(seen, a * data.y / 8)[-1]  # ∇_{W_L} L_S for slopes -a: one column per unit
    gradient = np.linalg.norm(columns, axis=0)
    return Decision(
        identity("unit gradients without labels", plain, gradient),
        identity("unit gradients with labels", signed, gradient),
    )


@erratum(
    "Lemma A.4",
    "all pairs",
    "pairs of different label, as in Theorem 5.1 (ii)",
    "lemma_a_4",
    fault=Fault.MISPRINT,
    place="Appendix A, Lemma A.4",
    quotation="for all i, j “ 1, . . . , n, l “ 1, . . . , L.",
    under="Assumptions 3.4 and 3.5 with φ = 0.3, two examples of one label equal, m = 256, L = 3",
)
def separation_needs_labels(lab: Lab) -> Decision:
    r"""Lemma A.4 is printed for all pairs; examples of one label may coincide, and then every layer has them equal."""
    data = lab.data()
    x, same = data.x.copy(), np.flatnonzero(data.y == data.y[0])
    x[same[1]] = x[same[0]]
    layers = [unit(layer) for layer in lab.seen(256, data=replace(data, x=x)).layers[1:]]
    distances = np.array([np.linalg.norm(one[:, None] - one[None, :], axis=2) for one in layers])
    different = data.y[:, None] != data.y[None, :]
    rows, columns = np.triu_indices(len(x), 1)
    return Decision(
        at_least("normalized outputs of all pairs are φ/2 apart", distances[:, rows, columns], PHI / 2),
        at_least("those of pairs of different label are", distances[:, different], PHI / 2),
    )


@erratum(
    "Lemma A.11",
    "right side ½E[σ(Z1)σ(Z2)]",
    "½E[Z1 Z2], as the proof ends",
    "lemma_a_11",
    fault=Fault.MISPRINT,
    place="Appendix A, Lemma A.11",
    quotation="ErσpZ1qσpZ2qs ě 1 2 ErσpZ1qσpZ2qs.",
    under="correlations from 0.1 to 0.99; what the printed form gives for the use in Lemma A.12",
)
def right_side_repeats_left(lab: Lab) -> Decision:
    r"""Lemma A.11 as printed says nothing; what the next proof uses is $\frac12 E[Z_1Z_2]$."""
    rho = np.linspace(0.1, 0.99, 50)
    moment = relu_correlation(rho) / 2
    # The use: x̄ᵀx̄' does not fall, that is 2E[σσ] >= ρ. The printed form gives 2E[σσ] >= E[σσ] only.
    return Decision(
        at_least("lower bound for 2E[σσ] from the printed form, against ρ", moment, rho),
        at_least("lower bound for 2E[σσ] from the right form", 2 * moment, rho),
    )


@erratum(
    "Lemma A.12, Corollary A.13",
    "inner products at least μ²/2",
    "at least 2μ² − 1 for inputs, then 0",
    "corollary_a_13",
    fault=Fault.ERROR,
    place="Appendix A, Lemma A.12; Corollary A.13 has μ²/2",
    quotation="ě µ2r1´ p2Lq´1 logp2qsl for all i, i1 P t1, . . . , nu and all l P rLs",
    under="Assumption 3.4 with μ = 0.3, one layer of 8192 units or more; at infinite width the product is 0.023",
)
def inner_products_start_lower(lab: Lab) -> Decision:
    r"""Lemma A.12: inner products start from $2\mu^2 - 1$, and hidden layers have non-negative ones."""
    products = inner_products(opposite_pass(lab))
    mu = 0.3
    return Decision(
        at_least("x̄_lᵀx̄_l' >= μ²/2 in the first layer", products[1], mu**2 / 2),
        conclude(
            identity("inputs: 2μ² - 1", products[0], 2 * mu**2 - 1), at_least("first layer: >= 0", products[1], 0.0)
        ),
    )


@erratum(
    "before (C.7)",
    "S ≥ min{α0, n^p L_S^p}",
    "S ≥ min{α0, α1 n^p L_S^p}, as the next display has it",
    "eq_c_7",
    fault=Fault.MISPRINT,
    place="Appendix C.1, proof of Lemma 5.4, display after (C.6)",
    quotation="ě min α0, n pLpSpW pkqq (",
    under="the logistic loss, which meets Assumptions 3.1 to 3.3, at margins from 3 to 12, n = 8",
)
def slope_constant_is_lost(lab: Lab) -> Decision:
    r"""$S \ge \min\{\alpha_0, (nL_S)^p\}$ lacks $\alpha_1$: the logistic loss has $-\ell' < \ell$."""
    loss, margins = margin_loss("logistic"), np.linspace(3, 12, 40)
    total, level = 8 * slopes(loss, margins), 8 * values(loss, margins)
    alpha0, alpha1, _ = powers(loss)
    return Decision(
        at_least("S >= min(α0, n L_S)", total, np.minimum(alpha0, level)),
        at_least("S >= min(α0, α1 n L_S)", total, np.minimum(alpha0, alpha1 * level)),
    )


@erratum(
    "Lemma C.2",
    "a sum over L layers of remainders of order L^{17/3} and L⁹ each, of the order of one of them",
    "L^{20/3} and L^{10} are what the proof gives; whether the lemma is true with less is not decided here",
    "lemma_c_2",
    fault=Fault.INCONSISTENCY,
    place="Appendix E.2, last display of the proof; (C.2) has the same powers",
    quotation="C7L 17{3τ1{3Mη ¨ a logpMq ` C8L 9M2η2",
    under="arithmetic: the bounds of (E.4) and (E.7) hold for each layer, and are added up for L = 2 to 16",
)
def layer_sum_loses_a_factor(lab: Lab) -> Decision:
    r"""The proof of Lemma C.2 sums $L$ remainders of order $L^{17/3}$ and prints $L^{17/3}$ for the sum."""
    depths = np.array([2, 4, 8, 16])
    total = [sum(float(depth) ** (17 / 3) for _ in range(depth)) for depth in depths]
    return Decision(
        scales("sum of the layers' remainders, printed", "L", depths, total, 17 / 3),
        scales("sum of the layers' remainders", "L", depths, total, 20 / 3),
    )
