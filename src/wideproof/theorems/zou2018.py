r"""Zou et al. 2018, Theorems 4.1 and 4.5: width, step and iterations, with constants traced through appendices A to E.

The chain: Theorem 5.1 at the start (A.1 to A.15), Theorem 5.3 within $\tau$ (B.1 to B.6), the descent of one step
(C.2), the radius $\tau$ for which it is a descent, the total step length $K\eta$ that it takes (C.8), and the width
for which the weights stay within $\tau$ for as long (Lemma 5.5; 5.7 with minibatches). The loss is the logistic one,
the only one of the paper's examples that meets all its assumptions on losses: $p = 1$, $\alpha_0 = \alpha_1$ = 1 − 1/e,
$|\ell'| \le 1$, $\lambda = 1/4$.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from wideproof.theorems.trace import Trace

EVENTS = 7  # that share the failure probability
SHARE = 1 - math.exp(-1)  # α0 = α1 of the logistic loss
CURVATURE = 0.25  # λ of the logistic loss
BALANCED = 37.3  # 4√(32e): P(‖h(w)‖ >= ‖a‖/2) >= φ/(37.3 n) with separation φ/2 (Lemma A.14)
SPECTRAL = 3.0  # bounds the spectral norm of an m x m Gaussian matrix of variance 2/m, whose limit is 2√2
NORMS = 1.15  # bounds the norms of hidden layers
BERNSTEIN = 144.0  # P(|‖x_l‖²/‖x_{l-1}‖² - 1| >= t) <= 2 exp(-m t²/144) for t <= 1
GAP = "the step 'similar to Lemma A.1' takes a union over 9^m points, where that lemma's small deviations end"


@dataclass(frozen=True)
class ZouFacts:
    r"""What the theorems need of the data: $n$, $d$, $\varphi$ (opposite labels) and $\mu$ (last coordinate)."""

    n: int
    d: int
    phi: float
    mu: float


@dataclass(frozen=True)
class ZouAsk:
    """What is asked: depth, accuracy of the mean logistic loss, failure probability, examples in a minibatch."""

    depth: int
    epsilon: float
    failure: float
    batch: int | None = None


def deep_relu(t: Trace, facts: ZouFacts, ask: ZouAsk) -> None:
    """Theorem 4.1, and Theorem 4.5 where the question names a minibatch."""
    depth = t.let("L", ask.depth, "asked for", "asked")
    n = t.let("n", facts.n, "the data", "data")
    epsilon = t.let("ε", ask.epsilon, "asked for", "asked")
    delta = t.let("failure probability", ask.failure, "asked for", "asked") / EVENTS
    separation = min(facts.phi, 2 * 0.573 / ask.depth, facts.mu / math.sqrt(2))  # 0.573 <= log2 (1 - log2/4)
    phi = t.let("φ", separation, "the data, at most 1.15/L (Lemma A.4) and μ/√2 (Lemma A.14)", "data")
    products, sparse, forms = _start(t, n, facts.d, depth, phi, delta)
    flips, moves, nodes, lipschitz = _region(t, products, sparse, forms)
    share, grad = nodes
    c_0 = t.let("c_0", share * grad**2 / 8, "Lemma B.5: C_2 C_1²/8")
    c_1 = t.let("c_1", products**2, "Lemma B.6: C_1²", "printed")
    kept, ln_step = _descent(t, depth, n, phi, (c_0, c_1, moves, flips, products))
    kept.append(lambda _: 1.5 * math.log(share * phi / (2 * _flip_share(moves) * n**2 * depth ** (4 / 3))))
    kept.append(lambda _: math.log(grad / (2 * depth**2 * moves)))
    kept.append(lambda _: -math.log(lipschitz) - 3 * math.log(depth))

    def ln_tau(x: float) -> float:
        return min(one(x) for one in kept)

    def small(x: float) -> float:  # Lemma B.1: √(s log M/m) <= κ/L³ with s = C' L^(4/3) τ^(2/3) m
        spread = math.log(_flip_share(moves)) + 4 / 3 * math.log(depth) + math.log(x)
        return 1.5 * (-2 * math.log(lipschitz) - 6 * math.log(depth) - spread)

    kept.append(small)

    def flipped(x: float) -> float:  # Lemma A.7 and (vi): m^(3/2) β and s of at least log(nL²/δ)
        asked = math.log(4 * math.log(2 * n * depth**2 / delta))
        return asked - 2 / 3 * ln_tau(x) - 4 / 3 * math.log(depth)

    t.need("Lemmas A.7 and A.9", "s >= C log(nL²/δ)", flipped)
    loss_0 = t.let("L_S(W(0))", math.log(2) + NORMS * 2 * math.sqrt(math.log(2 * n / delta)), "Lemma A.6")
    work = loss_0 / SHARE**2 + 1 / (n**2 * SHARE**2 * epsilon)
    ln_length = math.log(2 * n**5 * work) - math.log(c_0 * phi)  # of m K η, by (C.8)
    if ask.batch is None or ask.batch >= facts.n:
        away = math.log(2 * c_1**2 * n**3 * loss_0) + 4 * math.log(depth) - math.log(c_0 * phi)
        t.need("Lemma 5.5 and (C.8)", "Kη <= T: the weights stay within τ", lambda x: ln_length + away - 2 * ln_tau(x))
        t.step = ln_step
        t.iterations = lambda x: ln_length - x - ln_step(x)
    else:
        _stochastic(t, depth, n, phi, c_0, c_1, (ask.batch, delta, moves), ln_length, ln_tau, ln_step)
    t.notes.append("Lemma C.2 loses a factor L where it sums over layers: L^(20/3) for the printed L^(17/3)")


def _start(t: Trace, n: float, d: int, depth: float, phi: float, delta: float) -> tuple[float, float, float]:
    """Theorem 5.1; the constants of (v), (vi) and (vii)."""
    log_nl = math.log(2 * n * depth / delta)
    t.need("Lemma A.1, Corollary A.2", "|‖x_l‖ - 1| <= 0.15", math.log(16 * BERNSTEIN * depth**2 * log_nl))
    spare = SPECTRAL / math.sqrt(2) - 2
    spectral = max(float(d), 2 * math.log(2 * depth / delta) / spare**2)
    t.need("Theorem 5.1 (i)", "‖W_l‖ <= 3", math.log(spectral))
    noise = t.let("noise in (A.4)", 0.573 / 2 / 8 / 4, "Lemma A.4: 8t <= 0.286 (φ/2)²/L")
    apart = BERNSTEIN * math.log(4 * n**2 * depth / delta) * (depth / (noise * phi**2)) ** 2
    t.need("Lemma A.4", "hidden layers keep φ/2", math.log(apart))
    many = 8 * BALANCED * n / phi * (n * math.log(8 * n) + math.log(1 / delta))
    t.need("Lemma A.15", "units with a large part of the gradient, for all a", math.log(many))
    base = t.let("C_0 (A.8)", math.sqrt(BERNSTEIN), "Lemma A.8: Bernstein, as in Lemma A.1", "printed")
    products = t.let("C (v)", 2 * base * math.sqrt(2 * math.log(9)), f"Lemma A.8; {GAP}", "printed")
    sparse = t.let("C' (vi)", 2 * base * math.sqrt(2), f"Lemma A.9; {GAP}", "printed")
    forms = t.let("C' (vii)", 4 * base, f"Lemma A.10; {GAP}", "printed")
    return products, sparse, forms


def _flip_share(moves: float) -> float:
    """C' of Lemma B.3, 10 C^(2/3) C_0'^(2/3): the two terms of the count sum to 5, the printed 8 has 4."""
    return 10 * moves ** (2 / 3) * SPECTRAL ** (2 / 3)


def _region(t: Trace, products: float, sparse: float, forms: float) -> tuple[float, float, tuple[float, float], float]:
    """Theorem 5.3: the constants of (vi) with s put in, of (ii), of the nodes in B.5, and 1/κ of B.1."""
    perturbed = t.let("C (B.1)", products + math.exp(2), "Lemma B.1: (C_2 + e²) L", "printed")
    lipschitz = t.let("1/κ (B.1)", max(forms, products), "Lemma B.1: C_1 L τ <= 1/L²", "printed")
    moves = t.let("C (B.3)", 2 * perturbed, "Lemma B.3: 2(C_0 ∨ 1)", "printed")
    share = t.let("C' (B.3)", _flip_share(moves), "Lemma B.3", "printed")
    sums = (sparse + math.e * forms) * math.sqrt(share) + math.e**2 * forms
    flips = t.let("C' (5.3 vi)", sums, "Lemma B.2 with s = C' L^(4/3) τ^(2/3) m", "printed")
    units = t.let("C_2 (B.5)", 1 / (2 * BALANCED), "Lemma A.15: units")
    grad = t.let("C_1 (B.5)", 0.25, "Lemma A.15: gradient of a unit")
    return flips, moves, (units, grad), lipschitz


def _descent(
    t: Trace, depth: float, n: float, phi: float, constants: tuple[float, float, float, float, float]
) -> tuple[list[Callable[[float], float]], Callable[[float], float]]:
    """Lemma C.2 and (C.6): the radius within which a step lowers the loss, and the step size."""
    c_0, c_1, moves, flips, products = constants
    shift = t.let("C_2 (E.1)", moves * c_1, "(E.1): Theorem 5.3 (ii) and (viii)", "printed")
    change = t.let("C_3 (E.3)", 2 * NORMS * c_1 + SPECTRAL * shift, "(E.3)", "printed")
    first = t.let("C_1 (C.4)", change * flips, "(E.4): C_3 C_4", "printed")
    curved = products * c_1 * shift  # (E.6), with |ℓ'| <= 1
    second = t.let("C_2 (C.4)", curved + CURVATURE / 2 * shift**2, "(E.6) and (C.3), with |ℓ'| <= 1", "printed")

    def ln_tau(x: float) -> float:
        return 3 * math.log(c_0 * phi / (4 * first * n**3 * depth ** (20 / 3) * math.sqrt(x)))

    def ln_step(x: float) -> float:
        return math.log(c_0 * phi / (4 * second * n**3)) - 8 * math.log(depth) - x

    return [ln_tau], ln_step


def _stochastic(
    t: Trace,
    depth: float,
    n: float,
    phi: float,
    c_0: float,
    c_1: float,
    batches: tuple[int, float, float],
    ln_length: float,
    ln_tau: Callable[[float], float],
    ln_step: Callable[[float], float],
) -> None:
    r"""Lemmas 5.6, 5.7: twice the length, all steps one way at worst, as small as Azuma's inequality asks."""
    batch, delta, moves = batches
    batch = t.let("B", batch, "asked for", "asked")
    ln_length += math.log(2)  # half of the progress is left for what chance takes
    shift = moves * c_1
    away = math.log(c_1) + 2 * math.log(depth)
    t.need("Lemmas 5.7 and 5.6", "Kη c_1 L² √m <= τ", lambda x: 2 * (ln_length + away - ln_tau(x)))
    swing = 4 * math.sqrt(2 * math.log(1 / delta)) * shift * n**4 * depth**4 / (c_0 * phi * batch)
    least = t.let("K of Lemma D.3", swing**2, "Lemma D.3 in (D.10); Azuma for what is no martingale", "printed")

    def ln_small(x: float) -> float:
        variance = ln_step(x) + math.log(batch / n)
        return min(variance, ln_length - x - math.log(least))

    t.step = ln_small
    t.iterations = lambda x: ln_length - x - ln_small(x)
