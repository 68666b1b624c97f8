r"""Allen-Zhu et al. 2018, Theorems 1 and 2: the width, step and iterations that appendices C to I ask for.

Powers of $\rho = nLd\log m$ and $\varrho = nLd\delta^{-1}\log(m/\varepsilon)$ are as printed,
$\delta \le 1/(10^6 L^2 \log^3 m)$ as Lemma B.9 asks. The constants within $O$ and $\Omega$ have no values in the text:
they are taken as 1, so that what comes out is the size that the printed powers ask for, and no more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from wideproof.theorems.trace import Needed, Trace

RADIUS = 50  # (H.1): ‖W(t) - W(0)‖ <= ϱ^50/√m


@dataclass(frozen=True)
class AllenZhuFacts:
    r"""What the theorems need to know of the data: $n$, length $L$, outputs $d$, $\delta$ of the first tokens."""

    n: int
    length: int
    outputs: int
    delta: float


@dataclass(frozen=True)
class AllenZhuAsk:
    """What is asked: accuracy of the half sum of squares, failure probability, whether minibatches are used."""

    epsilon: float
    failure: float
    batch: int | None = None


def recurrent(t: Trace, facts: AllenZhuFacts, ask: AllenZhuAsk) -> None:
    """Theorem 1, and Theorem 2 where the question names a minibatch."""
    n = t.let("n", facts.n, "the data", "data")
    length = t.let("L", facts.length, "the data: length", "data")
    outputs = t.let("d", facts.outputs, "the data: outputs", "data")
    measured = t.let("δ", min(1.0, facts.delta), "the data: Assumption 2.1", "data")
    epsilon = t.let("ε", ask.epsilon, "asked for", "asked")
    failure = t.let("failure probability", ask.failure, "asked for", "asked")
    small = t.let("10^6 (B.9)", 1e6, "Lemma B.9: δ <= 1/(10^6 L² log³ m)")
    one = t.let("O and Ω", 1.0, "everywhere", "taken as 1")
    radius = t.let("50 of ϱ^50", RADIUS, "(H.1): the radius", "printed")

    def ln_delta(x: float) -> float:
        return min(math.log(measured), -math.log(small) - 2 * math.log(length) - 3 * math.log(max(x, 1.0)))

    def ln_rho(x: float) -> float:
        return math.log(n * length * outputs) + math.log(max(x, 1.0))

    def ln_varrho(x: float) -> float:
        return math.log(n * length * outputs) - ln_delta(x) + math.log(max(x - math.log(epsilon), 1.0))

    def needs(lemma: str, says: str, of: Needed) -> None:
        t.need(lemma, says, lambda x: math.log(one) + of(x))

    batched = ask.batch is not None and ask.batch < facts.n
    needs("Lemma B.3", "m/L² >= log(1/failure)", lambda _: math.log(length**2 * max(math.log(1 / failure), 1.0)))
    needs(
        "Theorem 4 in Appendix H",
        "ρ^11 τ0^(1/3) m^(1/3) ρ^6 √m η <= ρ^30 η² m², η = δ/(ρ^44 m)",
        lambda x: 6 * (31 * ln_rho(x) - ln_delta(x)) + 2 * radius * ln_varrho(x),
    )
    needs(
        "(F.1)",
        "ρ^8 τ0^(1/3) m^(1/3) <= √(δm/ρ^14)/2",
        lambda x: 6 * math.log(2) + 90 * ln_rho(x) - 3 * ln_delta(x) + 2 * radius * ln_varrho(x),
    )
    needs(
        "Lemma E.10",
        "ρ^11 θ^(1/3) |N| <= ρ^8 m^(1/6), |N| = ρ^42/δ², θ = δ/ρ^5",
        lambda x: 6 * (3 * ln_rho(x) + 42 * ln_rho(x) - 2 * ln_delta(x)) + 2 * (ln_delta(x) - 5 * ln_rho(x)),
    )
    power = 57 if batched else 59

    def ln_iterations(x: float) -> float:
        return power * ln_rho(x) - 2 * ln_delta(x) + math.log(max(math.log(1 / epsilon), 1.0))

    t.step = lambda x: ln_delta(x) - (42 if batched else 44) * ln_rho(x) - x
    t.iterations = ln_iterations
    t.notes.append(
        "the paper gives no value to any constant within O and Ω: the powers are its own, the constants are 1"
    )
    if batched:
        t.notes.append("Theorem 2 prints the step δ/(ρ^12 m); its proof uses δ/(ρ^42 m), which is taken here")
