r"""Frei et al. 2019, Theorem 3.5: the width, step and iterations, with constants traced through appendices A to D.

The main text is not at hand: what the theorem supposes is rebuilt from its proof (A.1). Constants of three lemmas of
Cao and Gu that the proofs quote are worked out again with explicit inequalities. The chain: Lemma 4.3 from below, 4.4
from above, 4.2 in between give $\tau \le \nu\gamma^{12}(\log m)^{-3/2}$ and $\eta \le \nu'\gamma^4/m$; staying within
$\tau/2$ gives $K\eta$, and a surrogate error of $\varepsilon$ the width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from wideproof.theorems.trace import Trace

EVENTS = 6
PRODUCTS = 1.01  # Lemma B.2, as printed
SPECTRAL = 3.0
NORMS = 1.024  # Lemma 4.1, as printed
INPUTS = 1.004  # Lemma 4.1, first layer, as printed
UNION = "the units that flip are counted for one example and used for all"
FIXED = "Lemmas C.3 and C.4 take the lower layers as independent of the last one's weights, also after training"


@dataclass(frozen=True)
class FreiFacts:
    r"""What the theorem needs to know of the data: $n$, $d$ and the margin $\gamma$."""

    n: int
    d: int
    gamma: float


@dataclass(frozen=True)
class FreiAsk:
    r"""What is asked: depth, accuracy of the surrogate error $\mathcal E_S$, failure probability."""

    depth: int
    epsilon: float
    failure: float


def residual_relu(t: Trace, facts: FreiFacts, ask: FreiAsk) -> float:
    r"""Theorem 3.5; returns the largest residual scale $\theta$ that its proof allows."""
    depth = t.let("L", ask.depth, "asked for", "asked")
    n = t.let("n", facts.n, "the data", "data")
    d = t.let("d", facts.d, "the data", "data")
    gamma = t.let("γ", facts.gamma, "the data, Assumption 3.2", "data")
    epsilon = t.let("ε", ask.epsilon, "asked for", "asked")
    delta = t.let("failure probability", ask.failure, "asked for", "asked") / EVENTS
    spare = SPECTRAL / math.sqrt(2) - 2
    t.need("Lemma B.1", "‖W_l‖ <= 3", math.log(max(d, 2 * math.log(2 * (depth + 1) / delta) / spare**2)))
    deviation = 144 / (INPUTS**2 - 1) ** 2
    net = lambda x: math.log(deviation * (d * (math.log(3) + x) + math.log(2 * (depth + 1) / delta)))  # noqa: E731
    t.need("Lemma 4.1", "‖x_1‖ <= 1.004 on a net of the sphere", net)
    lipschitz = PRODUCTS * SPECTRAL
    average = NORMS * 2 / math.sqrt(math.pi) + 0.05
    drift = t.let("C_7", average + SPECTRAL * lipschitz / 2, "Proposition C.5")
    theta = min(math.log(PRODUCTS) / (SPECTRAL * depth), gamma / (4 * drift * depth))
    margins = 8 * SPECTRAL**2 / gamma**2 * (d * math.log(1 + 8 * SPECTRAL / gamma) + math.log(2 / delta))
    t.need("Proposition C.5", "the margin is γ/2 after the first layer", math.log(margins))
    t.need("Lemma B.6", "49 % of all units are on", math.log(math.log(2 * n / delta) / (2 * 0.01**2)))
    low = t.let("C_3 (Lemma 4.3)", 1 / (150 * 16**2), f"Lemma 4.3: 1/(150·16²); {UNION}", "printed")
    back = (SPECTRAL + 0.01) * PRODUCTS
    high = t.let("C (Lemma 4.4)", (NORMS + 0.01) * back, "Lemma 4.4")
    path = t.let("C' (5)", high * (2 + theta**2 * depth), "(5): h_k <= C' η √m E_S")
    inner, outer, flips = _perturbed(t)
    sums = t.let("C (Lemma B.5)", 2 * (7 + 8) * PRODUCTS, f"Lemmas C.3, C.4, B.5; {FIXED}", "printed")
    rough = (sums * math.sqrt(flips) + 2 * PRODUCTS) * (NORMS + outer)
    rough = t.let("C τ^(1/3) (Lemma 4.2)", rough, "(26), first term", "printed")
    curved = t.let("C h² (Lemma 4.2)", outer**2 / 4 + outer, "(26), second term, with ℓ'' <= 1/2")

    def ln_tau(x: float) -> float:
        descent = 3 * math.log(low * gamma**4 / (4 * rough * path * math.sqrt(x)))
        unflipped = 1.5 * math.log(gamma**2 * (1 / 141 - 1 / 150) / flips)
        near = math.log(gamma * (134**-0.5 - 1 / 16) / inner)
        return min(descent, unflipped, near, math.log(0.01))

    def ln_step(x: float) -> float:
        return min(math.log(low * gamma**4 / (4 * curved * path**2)) - x, ln_tau(x) - x / 2 - math.log(2 * high))

    def band(x: float) -> float:  # Lemma C.2 with β = τ^(2/3)/√m: m τ^(2/3) >= 3 (d log(1/β) + ...)/1.16
        beta = 2 / 3 * ln_tau(x) - x / 2
        points = d * math.log(1 + 2 * SPECTRAL * lipschitz * math.exp(-beta)) if beta > -600 else d * (3 - beta)
        return math.log(3 / 1.16 * (points + math.log(2 * (depth + 1) / delta))) - 2 / 3 * ln_tau(x)

    t.need("Lemma C.2", "few units near zero, on the whole sphere", band)
    t.need("Lemma B.5", "s log m >= log(2L/δ)", lambda x: math.log(math.log(2 * depth / delta)) - 2 / 3 * ln_tau(x))
    loss_0 = t.let("L_S(W(0))", 1 + NORMS * 2 * math.sqrt(math.log(2 * n / delta)), "(8)")
    whole = math.log(16 * high**2 * loss_0**2 / (low**2 * gamma**8 * epsilon**2))
    t.need("A.1 and (11)", "E_S <= ε before the weights leave τ/2", lambda x: whole - 2 * ln_tau(x))
    length = math.log(low * gamma**4 / (8 * high**2 * loss_0))  # of K η / τ²
    t.step = ln_step
    t.iterations = lambda x: 2 * ln_tau(x) + length - ln_step(x)
    t.notes.append(
        f"the proof holds for residual scales θ up to {theta:.3g}; its main text, with the theorem, is not at hand"
    )
    return theta


def _perturbed(t: Trace) -> tuple[float, float, float]:
    """Lemma B.4: how far layers move, the last one moves, and how many units flip, per m τ^(2/3)."""
    inner = t.let("C_2 (B.4), l <= L", 1.05, "Lemma B.4: products of at most 1.02, θL small")
    outer = t.let("C_2 (B.4), l = L+1", NORMS + 0.01 + (SPECTRAL + 0.01) * inner, "Lemma B.4, last layer")
    moved = outer**2  # ‖Ŵ x̂ - W x‖² / τ²
    flips = t.let("C_3 (B.4)", 2 * (2.33 + moved), "Lemma B.4: C m^(3/2) β + C_5 τ²/β²")
    return inner, outer, flips
