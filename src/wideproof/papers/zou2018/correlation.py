"""Appendix A, second half: inner products of layers and gradients of output units (Lemmas A.11 to A.15)."""

from __future__ import annotations

import numpy as np

from wideproof.answers import Answer
from wideproof.data import Dataset
from wideproof.monitors.relu import ReLUPass
from wideproof.papers.check import Check, at_least, conclude, identity, often
from wideproof.papers.statement import Section, comes_out, misprint, tool
from wideproof.papers.zou2018 import starts
from wideproof.papers.zou2018.lab import Lab, look
from wideproof.papers.zou2018.starts import relu_correlation

statement = Section("initialization", "relu")


@tool("E[σ(Z1)σ(Z2)] is never below half of E[Z1 Z2]", "bound")
@misprint("the printed right side repeats the left one; ½E[Z1 Z2] is meant")
def lemma_a_11(lab: Lab) -> Check:
    r"""$E[\sigma(Z_1)\sigma(Z_2)] \ge \frac12 E[Z_1 Z_2]$ for standard jointly Gaussian $Z_1, Z_2$."""
    rho = np.linspace(-1, 0.999, lab.pick(2000, 20000, 200000))
    return conclude(
        at_least("E[σσ] >= ρ/2", relu_correlation(rho) / 2, rho / 2),
        identity("equality at ρ = 1", relu_correlation(1.0), 1.0),
    )


def opposite_inputs(mu: float) -> Dataset:
    r"""Return two inputs with last coordinate $\mu$ and opposite first ones: $x^\top x' = 2\mu^2 - 1$."""
    side = np.sqrt(1 - mu**2)
    return Dataset(np.array([[side, 0.0, mu], [-side, 0.0, mu]]), np.array([1.0, -1.0]), "binary", "opposite")


def opposite_pass(lab: Lab, mu: float = 0.3) -> ReLUPass:
    """Return a pass of a wide network with one hidden layer on such a pair."""
    width = lab.pick(8192, 16384, 65536)
    data = opposite_inputs(mu)
    return lab.keep(("opposite", mu), lambda: look(lab.start(width, 1, 0, 3), data.x))


def inner_products(seen: ReLUPass) -> np.ndarray:
    """Return for each layer, the inputs first, the least inner product of normalized outputs."""
    return np.array([float((x @ x.T).min()) for x in map(starts.unit, seen.layers)])


FALSE_BASE = "x_iᵀx_i' >= 2μ² - 1 is all that Assumption 3.4 gives; the induction starts from μ²"


@statement("Claim that normalized outputs have inner products at least μ²(1 − log2/(2L))^l", "bound")
@comes_out(
    Answer.FAILS,
    "false as printed: two inputs with μ = 0.3 and opposite other coordinates have normalized inner product "
    "0.02 after one layer, where 0.059 is claimed",
)
@misprint("false: the induction starts from x_iᵀx_i' ≥ μ², and only 2μ² − 1 is assumed")
def lemma_a_12(lab: Lab) -> Check:
    r"""Normalized outputs have $\bar x_{l,i}^\top \bar x_{l,i'} \ge \mu^2 (1 - \log 2/(2L))^l$: false."""
    products = inner_products(opposite_pass(lab))
    return conclude(
        at_least("μ = 0.3, opposite inputs, L = l = 1", products[1], 0.3**2 * (1 - np.log(2) / 2)), note=FALSE_BASE
    )


@statement("Claim that normalized outputs have inner products at least μ²/2", "bound")
@comes_out(
    Answer.FAILS,
    "false as printed: two inputs with μ = 0.3 and opposite other coordinates have normalized inner product "
    "0.02 after one layer, where 0.045 is claimed",
)
@misprint("false in the first layer, from the same wrong start of the induction")
def corollary_a_13(lab: Lab) -> Check:
    r"""Normalized outputs have $\bar x_{l,i}^\top \bar x_{l,i'} \ge \mu^2/2$: false for $\mu < 0.568$."""
    products = inner_products(opposite_pass(lab))
    return conclude(at_least("μ = 0.3, opposite inputs, L = l = 1", products[1], 0.3**2 / 2), note=FALSE_BASE)


@Section("gradient", "none")(
    "A Gaussian unit sees a weighted sum of at least half the largest weight with probability of order φ/n", "bound"
)
@misprint("the bound on inner products is needed for all pairs")
def lemma_a_14(lab: Lab) -> Check:
    r"""For Gaussian $w$, separated $z_i$, $P(\|h(w)\| \ge C\|a\|_\infty) \ge C'\tilde\phi/n$ for every $a \ge 0$.

    Here $h(w) = \sum_i a_i y_i \sigma'(\langle w, z_i\rangle) z_i$.
    """
    data = lab.data()
    seen = lab.seen(256, data=data)
    z, n, trials = starts.unit(seen.layers[-2]), len(data.y), lab.pick(2000, 20000, 200000)
    i, j = np.nonzero(np.triu(data.y[:, None] != data.y[None, :]))
    products = z @ z.T
    phi = min(float(np.linalg.norm(z[i] - z[j], axis=1).min()), 0.5 * float(np.sqrt(products.min())))
    active = z @ lab.rng("units").normal(size=(z.shape[1], trials)) > 0
    parts = []
    for name, a in starts.weightings(lab, seen, data).items():
        weights = (a * data.y)[:, None] * active
        size = np.sqrt(np.maximum(np.einsum("ij,ij->j", weights, products @ weights), 0))
        parts.append(often(f"{name}: P(‖h‖ >= max a/2)", size >= 0.5 * a.max(), SHARE * phi / n))
    return conclude(
        *parts,
        hypotheses=(at_least("z_iᵀz_j >= (2φ̃)² for all pairs", products, 4 * phi**2, counts=True),),
        assumptions=("C = 1/2 and C' = 1/(2√(32e)), from the proof",),
    )


SHARE = 1 / (2 * np.sqrt(32 * np.e))


@statement("Order mφ/n output units see a large weighted sum, for all weights at once", "bound", role="gradient")
@misprint("in the proof the exponent of the probability lacks its minus sign")
def lemma_a_15(lab: Lab) -> Check:
    r"""For all $a \ge 0$ at once, at least $C'' m_L \phi/n$ units see a feature sum $\ge C''' \|a\|_\infty/n$."""
    return conclude(
        starts.large_nodes(lab), assumptions=("C'' = 1/74.6, C''' = 1/4; seven kinds of a stand for all of them",)
    )
