"""Errata of Du et al. (2019), each with the printed words and the measurement that decides."""

from __future__ import annotations

import math

import numpy as np

from wideproof.monitors import trace
from wideproof.monitors.smooth import constants, step_bound
from wideproof.networks import Residual, get_activation
from wideproof.papers.check import at_least, at_most, identity, law, scales, sides
from wideproof.papers.du2019.concentration import log_amplification
from wideproof.papers.du2019.convergence import first_order_sides
from wideproof.papers.du2019.definitions import second_route
from wideproof.papers.du2019.functions import FUNCTIONS
from wideproof.papers.du2019.hypotheses import growth_constant
from wideproof.papers.du2019.lab import Kind, Lab, Norms
from wideproof.papers.du2019.positivity import pair_eigenvalues
from wideproof.papers.du2019.recursion import averages, recursion
from wideproof.papers.errata import Decision, Entries, Fault

erratum = Entries("du2019")


UNIT = "inputs of norm 1, as the theorem supposes; softplus, H = 2"


def _limits(lab: Lab, kind: Kind, name: str, misprint: str, norms: Norms = "unit", depth: int = 2) -> Decision:
    """Compare the mean block of one weight with the printed recursion and with the right one."""
    drawn = lab.finite(kind, norms, depth).blocks[name]
    printed = second_route(lab, kind, norms, (misprint,), depth).blocks[name]
    right = second_route(lab, kind, norms, (), depth).blocks[name]
    return Decision(
        law(f"{name} against the printed limit", drawn, printed, kind="oracle"),
        law(f"{name} against the right limit", drawn, right, kind="oracle"),
    )


@erratum(
    "Definition 5.1",
    "K^(H) with A^(H-1)",
    "A^(H), as in Appendix E.2",
    "definition_5_1",
    fault=Fault.INCONSISTENCY,
    place="Section 5, Definition 5.1, last line of (7)",
    quotation="K (H) ij =cσK (H−1) ij E (u,v)⊤∼N ( 0,A (H−1) ij ) [σ′(u)σ′(v)]",
    under=UNIT,
)
def index_fully_connected(lab: Lab) -> Decision:
    """Derivatives of the last block in Definition 5.1: of its own layer, not of the one before."""
    return _limits(lab, "fully-connected", "W2", "index")


@erratum(
    "Definition 6.1, last line",
    "K^(H) with A^(H-1)",
    "A^(H), as in Appendix E.2 and Proposition F.2",
    "definition_6_1",
    fault=Fault.INCONSISTENCY,
    place="Section 6, Definition 6.1, last line of (8)",
    quotation="K (H) ij = c2res H2 K (H−1) ij E (u,v)⊤∼N ( 0,A (H−1) ij ) [σ′(u)σ′(v)]",
    under=UNIT,
)
def index_residual(lab: Lab) -> Decision:
    """Derivatives of the last block in Definition 6.1."""
    return _limits(lab, "residual", "W2", "index")


@erratum(
    "Definition 6.1, means",
    "b_i σ(u) + b_j σ(v)",
    "b_i σ(v) + b_j σ(u), as in Definition E.1; no number changes where all ‖x_i‖ = 1, as Theorem 6.1 supposes",
    "definition_6_1",
    fault=Fault.MISPRINT,
    place="Section 6, Definition 6.1, K^(h) in (8)",
    quotation="cresb (h−1) i σ (u) H + cresb (h−1) j σ (v) H",
    under="outside the paper's suppositions: norms 4, 1/4, 1 and 2; with norm 1 the two forms are equal",
)
def pairing(lab: Lab) -> Decision:
    """The mean of one example goes with the activation of the other."""
    return _limits(lab, "residual", "a", "pairing", "spread")


@erratum(
    "Definition 7.1, index",
    "K^(H) with A^(H-1)",
    "A^(H), as in Appendix E.2",
    "definition_7_1",
    fault=Fault.INCONSISTENCY,
    place="Section 7, Definition 7.1, M^(H) in (10)",
    quotation="M (H) ij,lr =K (H−1) ij,lr E (u,v)∼N ( 0,A (H−1) ij ) [σ′(ul)σ ′(vr)]",
    under="images of norm 1, as the theorem supposes; softplus, H = 2",
)
def index_convolutional(lab: Lab) -> Decision:
    """Derivatives of the last block in Definition 7.1."""
    return _limits(lab, "conv-residual", "W2", "index")


@erratum(
    "Definition 7.1, patches",
    "what layer h adds, pixel by pixel, is added to the patch sums K^(h-1) of the layer before",
    "pixels are added to pixels, and then summed over patches",
    "definition_7_1",
    fault=Fault.INCONSISTENCY,
    place="Section 7, Definition 7.1, H^(h) in (10); K^(h) is then its sum over patches",
    quotation="H (h) ij =K (h−1) ij + E (u,v)∼N ( 0,A (h−1) ij )",
    under="images of norm 1; softplus, H = 4, h = 3 (for h = 2, K^(1) is printed without the sum over patches)",
)
def patch_level(lab: Lab) -> Decision:
    """The pixel covariance of the layer before, not its patch sum, enters the next one."""
    return _limits(lab, "conv-residual", "W4", "patch", depth=4)


@erratum(
    "Definition 7.1, factor",
    "K^(H) = tr M",
    "c_res²/H² tr M, as (15) has it",
    "definition_7_1",
    fault=Fault.INCONSISTENCY,
    place="Section 7, Definition 7.1, last line of (10)",
    quotation="K (H) ij =tr(M (H) ij )",
    under="images of norm 1; softplus, H = 2",
)
def missing_factor(lab: Lab) -> Decision:
    r"""The last block of Definition 7.1 carries $c_{res}^2/H^2$."""
    return _limits(lab, "conv-residual", "W2", "factor")


@erratum(
    "Remark E.5",
    "ρ = σ",
    "ρ = √c_σ σ, in layer 1 of residual networks too",
    "remark_e_5",
    fault=Fault.MISPRINT,
    place="Appendix E.1, Remark E.5",
    quotation="Choosing ρ(h)(z) to be σ (z) and D(h) to be the zero mapping, we recover the fully-connected",
    under=UNIT,
)
def rho(lab: Lab) -> Decision:
    r"""Remark E.5 needs $\rho = \sqrt{c_\sigma}\,\sigma$."""
    return _limits(lab, "fully-connected", "a", "rho")


@erratum(
    "after (12)",
    "e·I_1 >= λ_min ‖e‖²",
    "η λ_min ‖e‖²",
    "eq_12",
    fault=Fault.MISPRINT,
    place="Appendix A, display after (12)",
    quotation="=η (y − u(k)) ⊤ G(k)(y − u(k)) ≥λmin (G(k)) ‖y − u(k)‖22",
    under="training runs of a fully connected network, inputs of norm 1, η below 1",
)
def step_in_the_first_order_term(lab: Lab) -> Decision:
    r"""The display after (12): $e^\top I_1 \ge \eta\lambda_{\min}\|e\|^2$, printed without $\eta$."""
    descent = lab.runs("fully-connected", "practical")[0]
    return Decision(
        at_least("first-order term without η", *first_order_sides(descent, with_step=False)),
        at_least("first-order term with η", *first_order_sides(descent)),
    )


@erratum(
    "Lemmas C.5, D.5",
    "c_res/H in Q' of every weight",
    "of W^(2)..W^(H) only",
    "lemma_c_5",
    fault=Fault.ERROR,
    place="Appendix C, Lemma C.5; Lemma D.5 has the same factor",
    quotation="Q′(s) = 4crescx,0a2,0Le 2crescw,0L √ n ‖y − u(s)‖2 /H",
    under="first step, where Condition A.1 supposes nothing; c_res = 0.1, H = 4, inputs of norm 1, constants as drawn",
)
def movement_of_the_outer_layers(lab: Lab) -> Decision:
    r"""Lemmas C.5 and D.5: the factor $c_{res}/H$ is not there for $W^{(1)}$ and $a$.

    At the first step, where the induction hypothesis is empty, with $c_{res} = 0.1$ and $H = 4$.
    """
    network = Residual(8, lab.pick(128, 512, 2048), 4, c_res=0.1)
    data = lab.data("residual")
    found = []
    for i in range(3):
        start = lab.draw(network, "outer layers", i)
        seen, c = trace(network, start, data.x), constants(network, start, data.x)
        residual = data.y - seen.outputs
        size = float(np.linalg.norm(residual))
        for name in ("W1", "a"):
            u, b = seen.inputs[name][0], seen.cotangents[name][0]
            bounds = [step_bound(network, c, data.n, printed)[name] * size for printed in (True, False)]
            found.append((np.linalg.norm((residual[:, None] * b).T @ u), *bounds))
    left, printed, right = sides(found)
    return Decision(
        at_most("first step of W^(1) and a, with c_res/H", left, printed),
        at_most("first step of W^(1) and a, without", left, right),
    )


@erratum(
    "Lemmas C.7, D.7",
    "η <= cλ0H²/n² for all H",
    "η <= cλ0/n²",
    "lemma_c_7",
    fault=Fault.ERROR,
    place="Appendix C, Lemma C.7; Lemma D.7 has poly(1/p) besides",
    quotation="η ≤ cλ0H 2n−2 for some small constant c, we have ‖u(k + 1)− u(k)‖22 ≤ 1 8ηλ0 ‖y − u(k)‖22.",
    under="infinite width, first step, the labels' worst direction, inputs of norm 1; c must not depend on H",
)
def step_size_of_lemma_c_7(lab: Lab) -> Decision:
    r"""The change of outputs needs $\eta \le \lambda_0 / 8\lambda_{\max}^2$, so no factor $H^2$ is to be had.

    The largest admissible constant in $\eta = c\,\lambda_0 H^2/n^2$ and in $\eta = c\,\lambda_0/n^2$, for infinitely
    wide networks, against depth: a constant for all depths has exponent 0. The depths are those where the read-out's
    block has settled.
    """
    depths, x = [16, 32, 64, 128], lab.data("residual").x

    def largest(depth: int, c_res: float) -> float:
        top = np.linalg.eigvalsh(lab.limit(lab.network("residual", 1, depth, "softplus", c_res), x).total)[-1]
        return len(x) ** 2 / (8 * top**2)

    allowed = lab.over(depths, (0.3, 0.5, 0.9), largest)
    return Decision(
        scales("largest c in cλ0H²/n²", "H", depths, allowed / np.square(depths), 0.0, sense="at least"),
        scales("largest c in cλ0/n²", "H", depths, allowed, 0.0, sense="at least"),
    )


@erratum(
    "Section 2",
    "n² log(1/ε) steps for the residual network",
    "n²H² log(1/ε), with λ0 of order 1/H² as in the width n⁴H² quoted beside it",
    "theorem_6_1",
    fault=Fault.INCONSISTENCY,
    place="Section 2, comparison with Allen-Zhu et al. (2018c)",
    quotation="of Theo- rem 6.1 is T & n2 log 1 ǫ",
    under="λ0 at infinite width for H = 4 to 32, inputs of norm 1; Theorem 6.1 with its largest step size",
)
def iterations(lab: Lab) -> Decision:
    r"""Theorem 6.1 implies $\frac{2}{\eta\lambda_0}\log\frac1\epsilon \sim n^2 H^2$ steps; Section 2 quotes $n^2$."""
    depths, x = [4, 8, 16, 32], lab.data("residual").x

    def steps(depth: int, activation: str) -> float:
        return 2 * len(x) ** 2 / (lab.lambda_0(lab.network("residual", 1, depth, activation), x) ** 2 * depth**2)

    rows = lab.over(depths, ("softplus", "tanh", "gelu"), steps)
    return Decision(
        scales("steps free of depth", "H", depths, rows, 0.0), scales("steps in H²", "H", depths, rows, 2.0)
    )


@erratum(
    "Lemma F.3",
    "blocks of the residual network no worse than those of K^(0)",
    "than those of K^(1) - bb^T: the first layer has no skip; with a skip in every layer the lemma is true",
    "lemma_f_3",
    fault=Fault.GAP,
    place="Appendix F.2, Lemma F.3, as Proposition F.2 uses it; Appendix E.1 has D^(1) = 0",
    quotation="If D(h) is the identity mapping defined in Section E, then λ ( K(H) ) ≥ min(i,j)∈[n]×[n] λmin",
    under="the residual network of the paper, softplus, two orthonormal inputs, H = 4",
)
def first_layer_without_skip(lab: Lab) -> Decision:
    r"""Proposition F.2 compares with $K^{(0)}$ by Lemma F.3, across a layer that has no skip."""
    found = recursion(Residual(2, 1, 4), np.eye(2))
    blocks, centred = pair_eigenvalues(found), pair_eigenvalues(found, centred=True)
    return Decision(
        at_least("blocks of K^(h) against K^(0)", blocks[1:], blocks[0]),
        at_least("blocks of K^(h), h >= 2, against C^(1)", blocks[2:], centred[1]),
    )


@erratum(
    "Lemmas C.1, D.1",
    "‖σ(Wx)‖ <= L‖W‖‖x‖",
    "plus |σ(0)|√m; the lemma stands with another constant c_(x,0)",
    "lemma_c_1",
    fault=Fault.GAP,
    place="Appendix C.1, proof of Lemma C.1; Lemma D.1 has the same step",
    quotation="σ ( W(h)(0)x (h−1) i (0) ) ∥ ∥ ∥ ∥ 2 ≤ crescw,0L H ∥ ∥ ∥x (h−1) i (0) ∥ ∥ ∥ 2",
    under="sigmoid, which meets Conditions 3.1 and 3.2, Gaussian W, features of norm 1/2 to 2 as in the proof",
)
def value_at_zero(lab: Lab) -> Decision:
    r"""Lemmas C.1 and D.1 use $\|\sigma(Wx)\| \le L\|W\|\|x\|$, which needs $\sigma(0) = 0$; sigmoid has $L = 1/4$."""
    rng = lab.rng("features")
    m = lab.pick(200, 800, 2000)
    w, x = rng.standard_normal((m, m)), rng.standard_normal(m)
    slope, sigmoid = 0.25, FUNCTIONS["sigmoid"][0]
    lengths = np.array([2.0, 1.0, 0.5])
    left = [np.linalg.norm(sigmoid(w @ (t * x / np.linalg.norm(x)))) for t in lengths]
    bound = slope * float(np.linalg.norm(w, 2)) * lengths
    return Decision(
        at_most("‖σ(Wx)‖ <= L‖W‖‖x‖", left, bound),
        at_most("‖σ(Wx)‖ <= L‖W‖‖x‖ + |σ(0)|√m", left, bound + math.sqrt(m) / 2),
    )


@erratum(
    "Lemma C.1",
    "(1 - c/H)^(H-1) >= e^-c for every c = c_res c_(w,0) L",
    "for c <= 1 and all H; not for c = 1.8 and H = 2 or 3",
    "lemma_c_1",
    fault=Fault.GAP,
    place="Appendix C.1, proof of Lemma C.1, last display",
    quotation="which implies 1 2 e−crescw,0L ≤ ∥ ∥ ∥x (h)(0) ∥ ∥ ∥ 2",
    under="arithmetic; c = 1.8 is c_res = 0.9, c_(w,0) = 2 and L = 1, as for softplus",
)
def power_below_exponential(lab: Lab) -> Decision:
    r"""$(1 - c/H)^{H-1} \ge e^{-c}$ in the proof of Lemma C.1 fails for $c = 1.8$; it is true for $c \le 1$."""
    depth = np.array([2.0, 3.0, 4.0, 6.0, 8.0])
    return Decision(
        at_least("(1 - c/H)^(H-1) >= e^-c, c = 1.8", (1 - 1.8 / depth) ** (depth - 1), math.exp(-1.8)),
        at_least("(1 - c/H)^(H-1) >= e^-c, c = 1", (1 - 1 / depth) ** (depth - 1), math.exp(-1)),
    )


@erratum(
    "Lemma B.1",
    "C with 2L",
    "C with 3L",
    "lemma_b_1",
    fault=Fault.MISPRINT,
    place="Appendix B, Lemma B.1; its proof has L |α + 1| for 1/2 ≤ α ≤ 2",
    quotation="C , cσL ( 2 |σ(0)| √ 2 π + 2L ) , then with probability",
    under="the identity, which is Lipschitz as the lemma asks, α from 1/2 to 2; the theorem hides C in 2^O(H)",
)
def growth_of_norm_errors(lab: Lab) -> Decision:
    r"""Lemma B.1: on $\alpha \in [\frac12, 2]$ the factor is $L(\alpha + 1) \le 3L$, printed $2L$: see the identity."""
    linear = get_activation("identity")
    alpha = np.linspace(0.5, 1.99, 40)
    alpha = alpha[np.abs(alpha - 1) > 1e-6]
    left = np.abs(averages(np.square, alpha**2) - 1)
    return Decision(
        at_most("change of the squared norm with 2L", left, growth_constant(linear, 2.0) * np.abs(alpha - 1)),
        at_most("change of the squared norm with 3L", left, growth_constant(linear) * np.abs(alpha - 1)),
    )


@erratum(
    "Theorem E.1",
    "A_(h) = 1 + max{...}",
    "A_(h) = max{...}, that is 0 or 1 as in Remark E.7",
    "remark_e_7",
    fault=Fault.INCONSISTENCY,
    place="Appendix E.1, Theorem E.1",
    quotation="A(h) = 1 +max {",
    under="the product of Theorem E.1 for residual networks with C_(h) and Λ_(h) of order 1/H",
)
def skips_counted_once(lab: Lab) -> Decision:
    r"""Theorem E.1 with $A_{(h)} = 1 + \max\{\cdot\}$ grows like $2^H$ for skips; Remark E.7 needs $\max\{\cdot\}$."""
    depths = np.array([1e5, 1e6, 1e7])
    return Decision(
        scales("log E with A = 2", "H", depths, log_amplification(depths, skip=2.0), 0.0),
        scales("log E with A = 1", "H", depths, log_amplification(depths), 0.0),
    )


@erratum(
    "Lemma G.3",
    "derivative in the variance E[zσ'(αz)]",
    "E[zσ'(√α z)]/2√α, where N(0, α) has variance α as in Definition 6.1",
    "lemma_g_3",
    fault=Fault.MISPRINT,
    place="Appendix G, proof of Lemma G.3",
    quotation="dEz∼N(0,α)[σ (z)] dα ∣ ∣ ∣ ∣ = ∣ ∣ ∣ ∣ dEz∼N(0,1)[σ (αz)] dα",
    under="softplus, variances from 1/2 to 2",
)
def variance_or_deviation(lab: Lab) -> Decision:
    r"""The derivative in the proof of Lemma G.3 takes a variance for a standard deviation."""
    sigma, slope, _ = FUNCTIONS["softplus"]
    alpha, h = np.array([0.5, 1.0, 1.5, 2.0]), 1e-5
    measured = (averages(sigma, alpha + h) - averages(sigma, alpha - h)) / (2 * h)
    printed = averages(lambda z: z * slope(z), alpha**2) / alpha
    right = averages(lambda z: z * slope(z), alpha) / (2 * alpha)
    return Decision(
        identity("derivative E[zσ'(αz)]", measured, printed, tolerance=1e-6),
        identity("derivative E[zσ'(√α z)]/2√α", measured, right, tolerance=1e-6),
    )


@erratum(
    "Lemma G.4",
    "|∂ρ/∂A_12| <= 1/c²",
    "c²; the lemma stands with another constant",
    "lemma_g_4",
    fault=Fault.MISPRINT,
    place="Appendix G, proof of Lemma G.4",
    quotation="We can easily verify that | ∂ρ ∂A′ 12 | ≤ 1/c2",
    under="c = 2, deviations from 1/c to c",
)
def derivative_of_the_correlation(lab: Lab) -> Decision:
    r"""Proof of Lemma G.4: $|\partial\rho/\partial A_{12}| = 1/ab \le c^2$ for $a, b \ge 1/c$; printed $1/c^2$."""
    c = 2.0
    deviations = np.linspace(1 / c, c, 9)[1:]
    change = 1 / np.outer(deviations, deviations)
    return Decision(at_most("∂ρ/∂A_12 <= 1/c²", change, 1 / c**2), at_most("∂ρ/∂A_12 <= c²", change, c**2))
