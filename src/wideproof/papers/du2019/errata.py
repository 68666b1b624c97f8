r"""Misprints and gaps that change a number, each with the measurement that decides."""

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
from wideproof.papers.du2019.hypotheses import growth_constant
from wideproof.papers.du2019.lab import Kind, Lab
from wideproof.papers.du2019.positivity import pair_eigenvalues
from wideproof.papers.du2019.recursion import FUNCTIONS, averages, recursion
from wideproof.papers.du2019.smoothness import first_steps
from wideproof.papers.errata import Decision, Entries

erratum = Entries("du2019")


def _limits(lab: Lab, kind: Kind, name: str, misprint: str, spread: bool) -> Decision:
    """Compare the mean block of one weight with the printed recursion and with the right one."""
    drawn = lab.finite(kind, spread).blocks[name]
    printed = second_route(lab, kind, spread, (misprint,)).blocks[name]
    right = second_route(lab, kind, spread).blocks[name]
    return Decision(
        law(f"{name} against the printed limit", drawn, printed, kind="oracle"),
        law(f"{name} against the right limit", drawn, right, kind="oracle"),
    )


@erratum("Definition 5.1", "K^(H) with A^(H-1)", "A^(H)", "definition_5_1")
def index_fully_connected(lab: Lab) -> Decision:
    """Derivatives of the last block in Definition 5.1: of its own layer, not of the one before."""
    return _limits(lab, "fully-connected", "W2", "index", True)


@erratum("Definition 6.1", "K^(H) with A^(H-1)", "A^(H)", "definition_6_1")
def index_residual(lab: Lab) -> Decision:
    """Derivatives of the last block in Definition 6.1."""
    return _limits(lab, "residual", "W2", "index", True)


@erratum("Definition 6.1", "b_i σ(u) + b_j σ(v)", "b_i σ(v) + b_j σ(u)", "definition_6_1")
def pairing(lab: Lab) -> Decision:
    """The mean of one example goes with the activation of the other."""
    return _limits(lab, "residual", "a", "pairing", True)


@erratum("Definition 7.1", "K^(H) with A^(H-1)", "A^(H)", "definition_7_1")
def index_convolutional(lab: Lab) -> Decision:
    """Derivatives of the last block in Definition 7.1."""
    return _limits(lab, "conv-residual", "W2", "index", True)


@erratum("Definition 7.1", "pixels added to the patch sum", "pixels added to pixels", "definition_7_1")
def patch_level(lab: Lab) -> Decision:
    """The pixel covariance of the layer before, not its patch sum, enters the next one."""
    return _limits(lab, "conv-residual", "a", "patch", False)


@erratum("Definition 7.1", "K^(H) = tr M", "c_res²/H² tr M", "definition_7_1")
def missing_factor(lab: Lab) -> Decision:
    r"""The last block of Definition 7.1 carries $c_{res}^2/H^2$."""
    return _limits(lab, "conv-residual", "W2", "factor", False)


@erratum("Remark E.5", "ρ = σ", "ρ = √c_σ σ, in layer 1 of residual networks too", "remark_e_5")
def rho(lab: Lab) -> Decision:
    r"""Remark E.5 needs $\rho = \sqrt{c_\sigma}\,\sigma$."""
    return _limits(lab, "fully-connected", "a", "rho", False)


@erratum("after (12)", "e·I_1 >= λ_min ‖e‖²", "η λ_min ‖e‖²", "eq_12")
def step_in_the_first_order_term(lab: Lab) -> Decision:
    r"""The display after (12): $e^\top I_1 \ge \eta\lambda_{\min}\|e\|^2$, printed without $\eta$."""
    descent = lab.runs("fully-connected", "practical")[0]
    return Decision(
        at_least("first-order term without η", *first_order_sides(descent, with_step=False)),
        at_least("first-order term with η", *first_order_sides(descent)),
    )


@erratum("Lemmas C.5, D.5", "c_res/H in Q' of every weight", "of W^(2)..W^(H) only", "lemma_c_5")
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


@erratum("Lemmas C.7, D.7", "η <= cλ0H²/n² for all H", "η <= cλ0/n²", "lemma_c_7")
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


@erratum("Section 2", "n² log(1/ε) steps for the residual network", "n²H² log(1/ε)", "theorem_6_1")
def iterations(lab: Lab) -> Decision:
    r"""Theorem 6.1 implies $\frac{2}{\eta\lambda_0}\log\frac1\epsilon \sim n^2 H^2$ steps; Section 2 quotes $n^2$."""
    depths, x = [4, 8, 16, 32], lab.data("residual").x

    def steps(depth: int, activation: str) -> float:
        return 2 * len(x) ** 2 / (lab.lambda_0(lab.network("residual", 1, depth, activation), x) ** 2 * depth**2)

    rows = lab.over(depths, ("softplus", "tanh", "gelu"), steps)
    return Decision(
        scales("steps free of depth", "H", depths, rows, 0.0), scales("steps in H²", "H", depths, rows, 2.0)
    )


@erratum("Lemma F.3", "blocks no worse than those of K^(0)", "than those of K^(1) - bb^T", "lemma_f_3")
def first_layer_without_skip(lab: Lab) -> Decision:
    r"""Lemma F.3 compares with $K^{(0)}$, across a layer that has no skip: two orthonormal inputs, softplus."""
    found = recursion(Residual(2, 1, 4), np.eye(2))
    blocks, centred = pair_eigenvalues(found), pair_eigenvalues(found, centred=True)
    return Decision(
        at_least("blocks of K^(h) against K^(0)", blocks[1:], blocks[0]),
        at_least("blocks of K^(h), h >= 2, against C^(1)", blocks[2:], centred[1]),
    )


@erratum("Lemmas C.1, D.1", "‖σ(Wx)‖ <= L‖W‖‖x‖", "plus |σ(0)|√m", "lemma_c_1")
def value_at_zero(lab: Lab) -> Decision:
    r"""Lemmas C.1 and D.1 use $\|\sigma(Wx)\| \le L\|W\|\|x\|$, which needs $\sigma(0) = 0$: softplus, short inputs."""
    rng = lab.rng("short inputs")
    m = lab.pick(200, 800, 2000)
    w, x = rng.standard_normal((m, m)), rng.standard_normal(m)
    top, softplus = float(np.linalg.norm(w, 2)), FUNCTIONS["softplus"][0]
    lengths = np.array([1.0, 0.1, 0.01])
    left = [np.linalg.norm(softplus(w @ (t * x / np.linalg.norm(x)))) for t in lengths]
    return Decision(
        at_most("‖σ(Wx)‖ <= L‖W‖‖x‖", left, top * lengths),
        at_most("‖σ(Wx)‖ <= L‖W‖‖x‖ + |σ(0)|√m", left, top * lengths + math.log(2) * math.sqrt(m)),
    )


@erratum("Lemma C.1", "(1 - c/H)^(H-1) >= e^-c", "for c <= 1 only", "lemma_c_1")
def power_below_exponential(lab: Lab) -> Decision:
    r"""$(1 - c/H)^{H-1} \ge e^{-c}$ in the proof of Lemma C.1 fails for $c = 2$, $H = 3$; it is true for $c \le 1$."""
    depth = np.array([3.0, 4.0, 6.0, 8.0])
    return Decision(
        at_least("(1 - c/H)^(H-1) >= e^-c, c = 2", (1 - 2 / depth) ** (depth - 1), math.exp(-2)),
        at_least("(1 - c/H)^(H-1) >= e^-c, c = 1", (1 - 1 / depth) ** (depth - 1), math.exp(-1)),
    )


@erratum("Lemma B.1", "C with 2L", "C with 3L", "lemma_b_1")
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


@erratum("Theorem E.1", "A_(h) = 1 + max{...}", "A_(h) = max{...}", "remark_e_7")
def skips_counted_once(lab: Lab) -> Decision:
    r"""Theorem E.1 with $A_{(h)} = 1 + \max\{\cdot\}$ grows like $2^H$ for skips; Remark E.7 needs $\max\{\cdot\}$."""
    depths = np.array([1e5, 1e6, 1e7])
    return Decision(
        scales("log E with A = 2", "H", depths, log_amplification(depths, skip=2.0), 0.0),
        scales("log E with A = 1", "H", depths, log_amplification(depths), 0.0),
    )


@erratum("Lemmas B.6, C.6, D.6", "blocks h <= H", "the read-out's block too", "lemma_b_6")
def read_out_in_the_second_order_term(lab: Lab) -> Decision:
    r"""Lemmas B.6, C.6 and D.6 sum over $h \le H$; without the read-out's block $I_2$ is of first order in $\eta$."""
    network, data = lab.trainee("fully-connected"), lab.data("fully-connected")
    sizes, steps = first_steps(lab, "fully-connected")
    printed, right = [], []
    for row in steps:
        read_out = trace(network, row[0].run.initial, data.x).features[-1]
        missing = read_out @ read_out.T @ row[0].residuals[0]
        right.append([np.linalg.norm(d.second_order[0]) for d in row])
        printed.append([np.linalg.norm(d.second_order[0] + d.step_size * missing) for d in row])
    return Decision(
        scales("I_2 without the read-out", "η", sizes, printed, 2.0, sense="at least"),
        scales("I_2 with the read-out", "η", sizes, right, 2.0, sense="at least"),
    )


@erratum("Lemmas C.4, D.4", "drift at most λ0/2", "λ0/4", "lemma_c_4")
def room_of_the_induction(lab: Lab) -> Decision:
    r"""$\lambda_{\min}(G(k)) \ge \lambda_0/2$ from $\tfrac34\lambda_0$ leaves $\lambda_0/4$ for the drift."""
    return Decision(
        at_least("3/4 - 1/2 >= 1/2", 0.75 - 0.5, 0.5, counts=True),
        at_least("3/4 - 1/4 >= 1/2", 0.75 - 0.25, 0.5, counts=True),
    )


@erratum("Lemma G.3", "derivative in the variance E[zσ'(αz)]", "E[zσ'(√α z)]/2√α", "lemma_g_3")
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


@erratum("Lemma G.4", "|∂ρ/∂A_12| <= 1/c²", "c²", "lemma_g_4")
def derivative_of_the_correlation(lab: Lab) -> Decision:
    r"""Proof of Lemma G.4: $|\partial\rho/\partial A_{12}| = 1/ab \le c^2$ for $a, b \ge 1/c$; printed $1/c^2$."""
    c = 2.0
    deviations = np.linspace(1 / c, c, 9)[1:]
    change = 1 / np.outer(deviations, deviations)
    return Decision(at_most("∂ρ/∂A_12 <= 1/c²", change, 1 / c**2), at_most("∂ρ/∂A_12 <= c²", change, c**2))
