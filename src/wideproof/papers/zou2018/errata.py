"""Misprints and gaps of Zou et al. (2018) that change a number, each decided by a measurement."""

from __future__ import annotations

import numpy as np

from wideproof.monitors.relu import gradients, node_gradient_norms
from wideproof.papers.check import at_least, at_most, conclude, identity, scales
from wideproof.papers.errata import Decision, Entries
from wideproof.papers.zou2018.convergence import exponents
from wideproof.papers.zou2018.correlation import inner_products, opposite_pass
from wideproof.papers.zou2018.lab import PHI, Lab, margin_loss, powers, slopes, values
from wideproof.papers.zou2018.starts import relu_correlation

erratum = Entries("zou2018")


@erratum("Theorem 4.1", "step size O(n⁻³L⁻⁹m⁻¹)", "O(φ n⁻³L⁻⁹m⁻¹)", "theorem_4_1")
def step_size_lacks_phi(lab: Lab) -> Decision:
    r"""(C.6) needs the remainder $L^9 M^2\eta^2 S^2/n^2$ below a quarter of the descent $\eta (m\phi/n^5) S^2$."""
    n, depth, m, phi = 8.0, 3.0, 256.0, np.array([0.05, 0.1, 0.2])

    def sides(eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return depth**9 * m**2 * eta**2 / n**2, eta * m * phi / (4 * n**5)

    eta = 1 / (8 * n**3 * depth**9 * m)
    return Decision(
        at_most("remainder <= descent/4 at η = 1/(8 n³L⁹m)", *sides(eta + 0 * phi)),
        at_most("remainder <= descent/4 at η = φ/(8 n³L⁹m)", *sides(eta * phi)),
    )


@erratum("proof of Theorem 4.1", "n^{26−2p} + n^{26} ε^{1−2p}", "n^{26} + n^{26−2p} ε^{1−2p}", "theorem_4_1")
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


@erratum("Theorem 4.5", "step size of GD, n⁻³L⁻⁹m⁻¹", "φ m⁻¹ n^{2p−7} L⁻⁹ B²", "theorem_4_5")
def sgd_step_size(lab: Lab) -> Decision:
    r"""Theorem 4.5 prints GD's step; with it the steps of SGD would not have the powers of $n$ that it gives."""
    p = np.array([0.5, 0.75, 1.0])
    needed = np.array([exponents(x, lipschitz=True, stochastic=True)[1] for x in p])
    return Decision(
        identity("K from η = n⁻³/m", 5 + 3 + 0 * p, needed), identity("K from η = n^{2p-7}/m", 5 + 7 - 2 * p, needed)
    )


@erratum("Theorems 4.1 and 4.5", "rows for p < 1/2", "no loss meets 3.2 and 3.3 with p < 1/2", "assumption_3_3")
def small_powers_are_empty(lab: Lab) -> Decision:
    r"""Assumptions 3.2 and 3.3 exclude $p < 1/2$: $\ell'^2 \le 2\lambda\ell$ fails near zero loss for any $\lambda$."""
    losses = np.geomspace(1e-12, 1e-2, 30)
    slow = np.asarray(losses**0.25)  # -ℓ' = ℓ^p of the canonical loss with p = 1/4
    fast = np.asarray(losses**0.75)
    return Decision(
        at_most("p = 1/4: ℓ'² <= 2λℓ with λ = 100", slow**2, 200 * losses),
        at_most("p = 3/4: ℓ'² <= 2λℓ with λ = 3/4", fast**2, 1.5 * losses),
    )


@erratum("Theorem 5.1 (i)", "‖W_1‖ bounded for every d", "bounded when d = O(m)", "theorem_5_1_i")
def input_dimension_is_free(lab: Lab) -> Decision:
    r"""$\|W_1\|_2$ grows as $\sqrt2 (1 + \sqrt{d/m})$: bounded only if $d = O(m)$."""
    ratios, m = np.array([1, 4, 16]), 64
    rng = lab.rng("wide inputs")
    norms = lab.over(ratios, 3, lambda r, _: np.linalg.norm(rng.normal(size=(m * r, m)) * np.sqrt(2 / m), 2))
    printed = scales("‖W_1‖ is bounded whatever d", "d/m", ratios, norms, 0.0)
    right = np.sqrt(2) * (1 + np.sqrt(ratios))
    return Decision(printed, at_most("‖W_1‖ <= 1.1 √2(1 + √(d/m))", norms, 1.1 * right))


@erratum("Theorem 5.1 (viii)", "Σ a_i σ' x_i", "Σ a_i y_i σ' x_i", "theorem_5_1_viii")
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


@erratum("Lemma A.4", "all pairs", "pairs of different label", "lemma_a_4")
def separation_needs_labels(lab: Lab) -> Decision:
    r"""Lemma A.4 is printed for all pairs; examples of one label may coincide."""
    x = lab.data().x.copy()
    x[2] = x[0]  # the same label
    y = lab.data().y
    distances = np.linalg.norm(x[:, None] - x[None, :], axis=2)
    different = y[:, None] != y[None, :]
    return Decision(
        at_least("all pairs of inputs are φ/2 apart", distances[np.triu_indices(8, 1)], PHI / 2),
        at_least("pairs of different label are", distances[different], PHI / 2),
    )


@erratum("Lemma A.11", "right side ½E[σ(Z1)σ(Z2)]", "½E[Z1 Z2]", "lemma_a_11")
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


@erratum("before (C.7)", "S ≥ min{α0, n^p L_S^p}", "S ≥ min{α0, α1 n^p L_S^p}", "eq_c_7")
def slope_constant_is_lost(lab: Lab) -> Decision:
    r"""$S \ge \min\{\alpha_0, (nL_S)^p\}$ lacks $\alpha_1$: the logistic loss has $-\ell' < \ell$."""
    loss, margins = margin_loss("logistic"), np.linspace(3, 12, 40)
    total, level = 8 * slopes(loss, margins), 8 * values(loss, margins)
    alpha0, alpha1, _ = powers(loss)
    return Decision(
        at_least("S >= min(α0, n L_S)", total, np.minimum(alpha0, level)),
        at_least("S >= min(α0, α1 n L_S)", total, np.minimum(alpha0, alpha1 * level)),
    )


@erratum("Lemma C.2", "L^{17/3} and L⁹", "L^{20/3} and L^{10} after summing over layers", "lemma_c_2")
def layer_sum_loses_a_factor(lab: Lab) -> Decision:
    r"""Lemma C.2 sums $L$ remainders of order $L^{17/3}$ and prints $L^{17/3}$ for the sum."""
    depths = np.array([2, 4, 8, 16])
    total = [sum(float(depth) ** (17 / 3) for _ in range(depth)) for depth in depths]
    return Decision(
        scales("sum of the layers' remainders, printed", "L", depths, total, 17 / 3),
        scales("sum of the layers' remainders", "L", depths, total, 20 / 3),
    )
