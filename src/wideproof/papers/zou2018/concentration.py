"""Appendix A, first half: norms, separations, outputs and products at the Gaussian start (Lemmas A.1 to A.10)."""

from __future__ import annotations

import numpy as np
from scipy import stats
from scipy.integrate import quad
from scipy.special import erf

from wideproof.monitors import small_values
from wideproof.papers.check import Check, at_least, at_most, conclude, identity, law
from wideproof.papers.statement import Section, misprint, tool
from wideproof.papers.zou2018 import starts
from wideproof.papers.zou2018.lab import PHI, Lab
from wideproof.papers.zou2018.starts import relu_correlation

statement = Section("initialization", "relu")


@statement("From one layer to the next the squared norm changes by a factor near 1, with a known law", "exact")
def lemma_a_1(lab: Lab) -> Check:
    r"""$\|x_{l,i}\|^2 / \|x_{l-1,i}\|^2$ concentrates at 1.

    Its law is exactly $(2/m)\chi^2_N$ with $N \sim$ Bin$(m, 1/2)$: mean 1, variance $5/m$; the distribution
    function is compared at five points.
    """
    found = starts.many(lab)
    m, ratios = found.width, found.ratios.ravel()  # layers are independent of each other
    counts = np.arange(1, m + 1)
    points = 1 + np.sqrt(5 / m) * np.array([-1.5, -0.5, 0.0, 0.5, 1.5])
    below = stats.chi2.cdf(m * points[:, None] / 2, counts) @ stats.binom.pmf(counts, m, 0.5) + 0.5**m
    return conclude(
        law("mean of the ratio is 1", ratios, 1.0),
        law("variance of the ratio is 5/m", (ratios - 1) ** 2, 5 / m),
        law("distribution function of the ratio", (ratios[:, None] <= points).astype(float), below),
    )


@statement("After l layers the norm is within l√(log(nL/δ)/m) of 1, up to a constant", "scale")
def corollary_a_2(lab: Lab) -> Check:
    r"""$|\|x_{l,i}\| - 1| \le C\, l \sqrt{\log(nL/\delta)/m}$; the true growth with $l$ is a square root."""
    return conclude(starts.norms_in_width(lab), starts.norms_in_depth(lab))


@tool("E[σ(Z1)σ(Z2)] ≤ 1/2 − θ²/4 + Cθ³ for correlation at most 1 − θ²/2", "bound")
def lemma_a_3(lab: Lab) -> Check:
    r"""If $E Z_1 Z_2 \le 1 - \theta^2/2$ then $E[\sigma(Z_1)\sigma(Z_2)] \le 1/2 - \theta^2/4 + C\theta^3$.

    Closed form $(\sqrt{1-\rho^2} + (\pi - \arccos\rho)\rho)/(2\pi)$; $C = 1/16$ does for all $\theta \le 2$.
    """
    theta = np.linspace(0.01, 1.99, lab.pick(199, 1981, 19801))
    angle = 2 * np.arcsin(theta / 2)
    over = (np.sin(angle) - angle * np.cos(angle)) / (2 * np.pi)  # excess, without the cancellation of the difference
    rho = np.array([-0.9, -0.3, 0.2, 0.8, 0.99])
    integrals = [_half_moment(r) for r in rho]
    return conclude(
        at_most("excess over 1/2 - θ²/4 <= θ³/16", over / theta**3, 1 / 16),
        identity("excess in closed form", 0.5 * relu_correlation(np.cos(angle)) - 0.5 + theta**2 / 4, over),
        identity("closed form of E[σ(Z1)σ(Z2)], by quadrature", integrals, relu_correlation(rho) / 2),
    )


def _half_moment(rho: float) -> float:
    """E[σ(Z1)σ(Z2)] as an integral over the angle, the radius done by hand."""
    spread = np.arccos(rho)

    def integrand(t: float) -> float:
        return max(np.cos(t), 0.0) * max(np.cos(t - spread), 0.0)

    return quad(integrand, spread - np.pi / 2, np.pi / 2)[0] / np.pi


@statement("Per layer the normalized separation loses at most the factor 1 − log2/(2L)", "bound")
@misprint("only for pairs of different label; the proof prints log(1/δ) once for log(4n²L/δ)")
def lemma_a_4(lab: Lab) -> Check:
    r"""For $\phi \le \kappa/L$ and different labels $\|\bar x_{l,i} - \bar x_{l,i'}\| \ge (1 - \log 2/(2L))^l \phi$."""
    depths = range(2, 41)
    limits = np.concatenate([starts.limit_separations(2.5 / depth, depth) * depth / 2.5 for depth in depths])
    shrink = np.concatenate([_shrinking(depth) for depth in depths])
    width, y = lab.pick(1024, 2048, 8192), lab.data().y
    apart = lab.keep("a4", lambda: [starts.separations(lab.seen(width, 2, draw), y) for draw in range(lab.few)])
    return conclude(
        at_least(f"L = 2, m = {width}: separation >= (1 - log2/(2L))^l φ", apart, _shrinking(2) * PHI),
        at_least("at infinite width, φ = 2.5/L, L = 2..40: separation / φ", limits, shrink),
        hypotheses=starts.width_conditions(lab),
        assumptions=("κ = 2.5: at infinite width the bound holds up to φL = 2.8 for L = 2, 3.2 for L = 10",),
    )


def _shrinking(depth: int) -> np.ndarray:
    return (1 - np.log(2) / (2 * depth)) ** np.arange(1, depth + 1)


@statement("After all layers more than half of the separation is left", "bound")
@misprint("only for pairs of different label")
def corollary_a_5(lab: Lab) -> Check:
    r"""Under the same conditions the separation stays above $\phi/2$ in every layer."""
    x = np.linspace(0.001, np.log(2) - 0.001, 500)
    limits = np.concatenate([starts.limit_separations(3 / depth, depth) * depth / 3 for depth in range(3, 41)])
    return conclude(
        at_least("separation >= φ/2", starts.shallow_separations(lab), PHI / 2),
        at_least("at infinite width, φ = 3/L, L = 3..40: separation / φ", limits, 0.5),
        at_least("1 - x/2 >= exp(-x) on (0, log 2]", 1 - x / 2, np.exp(-x)),
    )


@statement("Balanced output signs keep the first outputs at order √log(n/δ)", "scale")
def lemma_a_6(lab: Lab) -> Check:
    r"""$|f(x_i)| \le C\sqrt{\log(n/\delta)}$ for all $i$, because half of the output signs are $+1$."""
    return conclude(
        starts.outputs_in_width(lab),
        *starts.outputs_are_bounded(lab),
        assumptions=("C = 2√(1 - 1/π)",),
    )


@statement("Counting units near zero: at most 2 m^{3/2} β of them, for all layers and examples", "bound")
@misprint("the proof drops a factor 2, without effect")
def lemma_a_7(lab: Lab) -> Check:
    r"""At most $2 m_l^{3/2} \beta$ units have $|\langle w_{l,j}, x_{l-1,i}\rangle| \le \beta$.

    On average it is $m\,\mathrm{erf}(\beta\sqrt m/(2\|x_{l-1,i}\|))$ of them, about $0.56\, m^{3/2}\beta$.
    """
    m, scaled = starts.NARROW, np.array([0.1, 0.5, 1.0])
    passes = [lab.seen(m, draw=draw) for draw in range(lab.pick(120, 400, 2000))]
    counts = [small_values(seen.values[1][0], scaled / np.sqrt(m)) for seen in passes]
    wanted = [m * erf(scaled / (2 * np.linalg.norm(seen.layers[1][0]))) for seen in passes]
    return conclude(
        starts.small_preactivations(lab),
        law("count minus its mean", np.array(counts) - np.array(wanted), 0.0),
        assumptions=(starts.SCOPE_OF_BETA,),
    )


@statement("Chains between layers have norm of order L at most; masked weights preserve norms on average", "scale")
@misprint(
    "the net of the proof asks of every layer an error of order 1, which compounds over layers; the claim itself "
    "is what is measured"
)
def lemma_a_8(lab: Lab) -> Check:
    r"""Products of weights and masks between layers have norm $O(L)$.

    The proof rests on $E\|\Sigma_{l,i} W_l^\top \alpha\|^2 = \|\alpha\|^2$ for $\alpha$ independent of $W_l$.
    """
    m, rng = starts.NARROW, lab.rng("masked")
    alpha = starts.unit(rng.normal(size=(1, m)))[0]
    passes = [lab.seen(m, draw=draw) for draw in range(lab.pick(240, 1000, 10000))]
    masked = [seen.mask(2)[0] * (seen.weights[1].T @ alpha) for seen in passes]
    return conclude(
        starts.products_in_length(lab),
        starts.products_in_width(lab),
        law("‖Σ Wᵀα‖² on average ‖α‖² = 1", [z @ z for z in masked], 1.0),
    )


@statement("Seen from any layer, the output against s-sparse directions is at most of order L√(s log M)", "scale")
def lemma_a_9(lab: Lab) -> Check:
    r"""From every layer, the output form on $s$-sparse unit vectors is at most $C' L\sqrt{s\log M}$."""
    return conclude(
        *starts.sparse_outputs(lab), assumptions=("s >= 8 in place of s >= C log(nL/δ)", starts.SHARPER_LOG)
    )


@statement("The chain between s-sparse directions is at most of order L√(s log m / m)", "scale")
def lemma_a_10(lab: Lab) -> Check:
    r"""Between layers, the form on pairs of $s$-sparse unit vectors is at most $C' L\sqrt{s\log m/m}$."""
    return conclude(*starts.sparse_products(lab), assumptions=(starts.FROM_BELOW,))
