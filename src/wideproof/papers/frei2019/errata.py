"""Errata of the appendices of Frei et al. (2019), each with the printed words and the measurement that decides."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import expit

from wideproof.monitors.residual import interlayer
from wideproof.papers.check import at_least, at_most, conclude, identity, scales
from wideproof.papers.errata import Decision, Entries, Fault
from wideproof.papers.frei2019.lab import Lab
from wideproof.papers.frei2019.perturbation import pair
from wideproof.papers.study import Lab as AnyLab

erratum = Entries("frei2019")
MARGINS = np.array([0.01, 0.02, 0.05, 0.1, 0.2])


@erratum(
    "A.2, before the Markov step",
    "-ℓ'(x) = 1/(1 + e^-x), below 1/2 iff x < 0",
    "-ℓ'(x) = 1/(1 + e^x), above 1/2 iff x < 0; the inequality drawn from it is right",
    "theorem_3_6",
    fault=Fault.MISPRINT,
    place="Appendix A.2, before Markov's inequality",
    quotation="Since −`′(x) = (1 + exp(−x))−1 satisfies −`′(x) < 1 2 if and only if x < 0",
    under="the logistic loss log(1 + exp(-x)) of the paper, x from -4 to 4",
)
def derivative_of_the_loss(lab: AnyLab) -> Decision:
    """Compare both forms with the difference quotient of log(1 + e^-x), and the side of 1/2 with the sign of x."""
    x, step = np.linspace(-4, 4, 81), 1e-6
    quotient = (np.logaddexp(0, -(x - step)) - np.logaddexp(0, -(x + step))) / (2 * step)
    wrong, right = expit(x), expit(-x)
    return Decision(
        identity("-ℓ'(x) = 1/(1 + e^-x)", quotient, wrong, tolerance=1e-6),
        conclude(
            identity("-ℓ'(x) = 1/(1 + e^x)", quotient, right, tolerance=1e-6),
            at_most("x < 0 where -ℓ'(x) <= 1/2", np.count_nonzero((right <= 0.5) & (x < -1e-12)), 0, counts=True),
        ),
    )


@erratum(
    "A.3, display before eq. (11)",
    "E_S bounded by γ^-2 τ^-1 m^(-1/2)",
    "γ^-4 τ^-1 m^(-1/2), as eq. (11) has it",
    "eq_11",
    fault=Fault.MISPRINT,
    place="Appendix A.3, display before (11)",
    quotation="C4m − 1 2 γ−2τ−1 √ log(n/δ) = ε",
    under="arithmetic: Kη = γ^4 τ² in the bound of Theorem 3.5, margins from 0.01 to 0.2",
)
def margin_power_before_eq_11(lab: AnyLab) -> Decision:
    """Put Kη = γ^4 τ² into the bound of Theorem 3.5 and read off the power of γ."""
    radius, width = 0.01, 1e6
    bound = (MARGINS**4 * radius**2 * width) ** -0.5 * MARGINS**-2
    return Decision(
        scales("bound on E_S", "γ", MARGINS, bound, -2.0, sense="equal"),
        scales("bound on E_S", "γ", MARGINS, bound, -4.0, sense="equal"),
    )


@erratum(
    "A.3",
    "K of order γ^-4 ε^-2 at η = γ^4/m",
    "K of order γ^-8 ε^-2; γ^-4 ε^-2 is Kηm",
    "corollary_3_7",
    fault=Fault.ERROR,
    place="Appendix A.3, after (11)",
    quotation="K = Cγ−4 (log(n/δ)) 1 2 ε−2 and η ≤ ν′γ4m−1 gives the desired forms of K and η",
    under="arithmetic: the bound of Theorem 3.5 solved for K at η = γ^4/m, margins from 0.01 to 0.2",
)
def steps_in_corollary_3_7(lab: AnyLab) -> Decision:
    """Solve the bound of Theorem 3.5 for K at η = γ^4/m and read off the power of γ."""
    error, width = 0.1, 1e6
    steps = MARGINS**-4 / (error**2 * width) / (MARGINS**4 / width)
    return Decision(
        scales("K", "γ", MARGINS, steps, -4.0, sense="equal"),
        scales("K", "γ", MARGINS, steps, -8.0, sense="equal"),
    )


@erratum(
    "B.3, before eq. (33)",
    "C_3 τ < 134^(-1/2) - 1/16",
    "C_3 τ < γ (134^(-1/2) - 1/16), which τ ≤ νγ³ gives with ν small enough",
    "eq_33",
    fault=Fault.MISPRINT,
    place="Appendix B.3, before (33)",
    quotation="C3τ < ( (2 · 67)−1/2 − 1/16 )",
    under="arithmetic: C_3 τ at 0.99 of what is allowed, margins from 0.01 to 0.2",
)
def premise_of_eq_33(lab: AnyLab) -> Decision:
    """Take C_3 τ at 0.99 of its limit and compare γ/√134 - C_3 τ with γ/16, for margins that occur."""
    room = 134**-0.5 - 1 / 16
    return Decision(
        at_least("γ/√134 - C_3 τ >= γ/16", MARGINS / np.sqrt(134) - 0.99 * room, MARGINS / 16),
        at_least("γ/√134 - C_3 τ >= γ/16", MARGINS / np.sqrt(134) - 0.99 * room * MARGINS, MARGINS / 16),
    )


@erratum(
    "B.2, eq. (25)",
    "H_l^(L+1) in front of Σ_l",
    "H_(l+1)^(L+1), as in (23)",
    "eq_25",
    fault=Fault.MISPRINT,
    place="Appendix B.2, (25)",
    quotation="θ1(2≤l≤L)v>H̃L+1 l Σ̃l ( Ŵl − W̃l )> x̃l−1",
    under="one residual network at its start and moved weights, layers 2 to L",
)
def index_in_eq_25(lab: Lab) -> Decision:
    """Compare both sides on residual layers, where either index gives a number."""
    moved, base = pair(lab)
    wrong, right, traces = [], [], []
    for layer in range(2, base.depth + 1):
        change = moved.weights[layer - 1] - base.weights[layer - 1]
        for i in range(len(base.outputs)):
            linear = base.mask(layer)[i] * (base.x(layer - 1)[i] @ change)
            last = base.depth + 1
            wrong.append(base.theta * base.signs @ interlayer(base, layer, last, i).apply(linear))
            right.append(base.theta * base.signs @ interlayer(base, layer + 1, last, i).apply(linear))
            traces.append(np.sum(change * base.theta * np.outer(base.x(layer - 1)[i], base.b(layer)[i])))
    return Decision(identity("with H_l", wrong, traces), identity("with H_(l+1)", right, traces))


@erratum(
    "B.2, eq. (26)",
    "tr[(Ŵ - W̃) ∇f]",
    "tr[(Ŵ - W̃)ᵀ ∇f], as in (25)",
    "eq_26",
    fault=Fault.MISPRINT,
    place="Appendix B.2, (26)",
    quotation="tr [( Ŵl − W̃l ) ∇Wl fW̃ (x) ]",
    under="one residual network at its start and moved weights, layers 2 to L",
)
def transpose_in_eq_26(lab: Lab) -> Decision:
    """Compare tr[ΔW ∇f] and tr[ΔWᵀ ∇f] with the derivative along ΔW, on residual layers."""
    moved, base = pair(lab)
    plain, transposed, derivative = [], [], []
    for layer in range(2, base.depth + 1):
        change = moved.weights[layer - 1] - base.weights[layer - 1]
        gradient = base.theta * np.outer(base.x(layer - 1)[0], base.b(layer)[0])
        plain.append(np.trace(change @ gradient))
        transposed.append(np.trace(change.T @ gradient))
        derivative.append(base.theta * (base.x(layer - 1)[0] @ change) @ base.b(layer)[0])
    return Decision(identity("tr[ΔW ∇f]", plain, derivative), identity("tr[ΔWᵀ ∇f]", transposed, derivative))


@erratum(
    "B.2, below eq. (19)",
    "‖vᵀa‖ <= √‖a‖_0 for |a_i| <= 1",
    "‖vᵀ|D|‖ <= √‖D‖_0 for a 0/1 diagonal D, which is what (19) uses",
    "eq_19",
    fault=Fault.MISPRINT,
    place="Appendix B.2, below (19)",
    quotation="for any vector a with |ai| ≤ 1 it holds that ∥∥v>a∥∥ 2 ≤ ‖a‖ 1 2 0",
    under="v with half of its 64 entries 1 and half -1, as in the paper; a = v",
)
def sparse_vector_before_eq_19(lab: AnyLab) -> Decision:
    """Take a = v for the printed form, and random 0/1 diagonals for the one that is used."""
    rng, m = lab.rng("eq 19"), 64
    signs = np.repeat([1.0, -1.0], m // 2)
    diagonals = rng.integers(0, 2, (20, m))
    return Decision(
        at_most("|vᵀa| <= √‖a‖_0 at a = v", abs(signs @ signs), np.sqrt(m)),
        at_most("‖vᵀ|D|‖² <= ‖D‖_0", np.square(signs * diagonals).sum(axis=1), diagonals.sum(axis=1), counts=True),
    )


@erratum(
    "C.2, first display",
    "x_1 - x_1' = (Σ_1(x) - Σ_1(x')) W_1ᵀ(x - x')",
    "(Σ_1 + Σ̌_1) W_1ᵀ(x - x'), by Claim C.1; the bound that follows is right",
    "lemma_b_3",
    fault=Fault.MISPRINT,
    place="Appendix C.2, first display of the proof of Lemma B.3",
    quotation="‖x1 − x′1‖2 = ∥∥(Σ1(x1)− Σ1(x′1))W>1 (x− x′) ∥∥ 2",
    under="one network at its start, two inputs of norm 1",
)
def difference_in_lemma_b_3(lab: Lab) -> Decision:
    """Compare both factors in front of W_1ᵀ(x - x') with the change of the first layer."""
    _, base = pair(lab)
    one, two = base.u(1)[0], base.u(1)[1]
    change = np.maximum(one, 0) - np.maximum(two, 0)
    masks = (one >= 0).astype(float) - (two >= 0)
    claim = (one >= 0) + masks * two / (one - two)
    return Decision(
        identity("(Σ_1(x) - Σ_1(x')) W_1ᵀ(x - x')", change, masks * (one - two)),
        identity("(Σ_1 + Σ̌_1) W_1ᵀ(x - x')", change, claim * (one - two)),
    )


@erratum(
    "D.2",
    "C(m,s) 9^s <= m^s for s of 15 or more",
    "for s of 22 or more",
    "lemma_c_3",
    fault=Fault.MISPRINT,
    place="Appendix D.2, proof of Lemma C.3",
    quotation="for s larger than e.g. 15, we have |Na| ≤",
    under="m = 1000, 10 000 and 100 000; m is much larger than s",
)
def size_of_the_net_in_lemma_c_3(lab: AnyLab) -> Decision:
    """Compare log C(m, s) + s log 9 with s log m at both sparsities."""
    widths = np.array([1000, 10_000, 100_000])

    def room(s: int) -> tuple[list[float], np.ndarray]:
        counts = [math.lgamma(m + 1) - math.lgamma(s + 1) - math.lgamma(m - s + 1) + s * math.log(9) for m in widths]
        return counts, s * np.log(widths)

    return Decision(
        at_most("log(C(m,s) 9^s) <= s log m at s = 15", *room(15)),
        at_most("log(C(m,s) 9^s) <= s log m at s = 22", *room(22)),
    )


@erratum(
    "D.3",
    "g_l(a) as a sum of σ(w_j·ξa)",
    "a sum of 1[w_j·x_L >= 0] w_j·ξa, linear in a, as Lemma C.4 defines it and the proof uses it",
    "lemma_c_4",
    fault=Fault.INCONSISTENCY,
    place="Appendix D.3, proof of Lemma C.4",
    quotation="σ(w>L+1,jξl+1a)− σ(w>L+1,j+mL+1/2 ξl+1a)",
    under="one network at its start, ten sparse vectors",
)
def form_in_lemma_c_4(lab: Lab) -> Decision:
    """Compare both sums with vᵀΣ_{L+1}W_{L+1}ᵀξa for random sparse a, and test linearity."""
    _, base = pair(lab)
    last, rng = base.depth + 1, lab.rng("form")
    wrong, right, form = [], [], []
    for _ in range(10):
        vector = rng.standard_normal(48) * (rng.uniform(size=48) < 0.2)
        image = base.weights[last - 1].T @ interlayer(base, 2, base.depth).apply(vector)
        form.append(interlayer(base, 2, last).adjoint(base.signs) @ vector)
        wrong.append(base.signs @ np.maximum(image, 0))
        right.append(base.signs @ (base.mask(last)[0] * image))
    return Decision(identity("Σ v_j σ(w_j·ξa)", wrong, form), identity("Σ v_j 1[w_j·x_L >= 0] w_j·ξa", right, form))
