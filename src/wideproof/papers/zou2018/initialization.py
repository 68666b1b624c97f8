r"""Theorem 5.1: eight properties of Gaussian initialization, together with probability $1 - \delta$."""

from __future__ import annotations

import numpy as np

from wideproof.papers.check import Check, at_least, conclude
from wideproof.papers.statement import Section, misprint
from wideproof.papers.zou2018 import printed, starts
from wideproof.papers.zou2018.joint import AT_START
from wideproof.papers.zou2018.lab import Lab

statement = Section("initialization", "relu")


@statement("Layer outputs have norm 1 up to L√(log/m), and weight matrices have bounded norm", "scale")
@misprint("true only when the input dimension is at most of the order of the width")
def theorem_5_1_i(lab: Lab) -> Check:
    r"""Layer norms are near one, $|\|x_{l,i}\| - 1| \le C' L\sqrt{\log(nL/\delta)/m}$, and $\|W_l\|_2 \le C'$."""
    return conclude(
        AT_START.check(lab, "i", "i, weights"),
        starts.norms_in_width(lab),
        starts.norms_in_depth(lab),
        starts.weight_norms(lab),
        hypotheses=starts.width_conditions(lab),
        assumptions=("d = 6 is below every width: with d unrestricted ‖W_1‖ is about √2(1 + √(d/m))",),
    )


@statement("In every layer, normalized outputs with different labels are still φ/2 apart", "bound")
def theorem_5_1_ii(lab: Lab) -> Check:
    r"""Normalized outputs of different label stay apart: $\|\bar x_{l,i} - \bar x_{l,i'}\| \ge \phi/2$ for all $l$."""
    limits = np.concatenate([starts.limit_separations(3 / depth, depth) * depth / 3 for depth in range(3, 41)])
    edges = [starts.farthest(depth) * depth for depth in (3, 10, 40)]
    return conclude(
        AT_START.check(lab, "ii"),
        at_least("separation in all 3 layers >= φ/2", starts.shallow_separations(lab), starts.PHI / 2),
        at_least("at infinite width, L = 3..40, φ = 3/L: separation / φ >= 1/2", limits, 0.5),
        at_least("at infinite width, the largest φL with separation >= φ/2, which may be 1", edges, 1.0),
        hypotheses=starts.width_conditions(lab),
    )


@statement("The network's first outputs are no larger than √log(n/δ) up to a constant", "scale")
def theorem_5_1_iii(lab: Lab) -> Check:
    r"""Outputs at the start are moderate: $|f(x_i)| \le C' \sqrt{\log(n/\delta)}$ for all $i$."""
    return conclude(
        AT_START.check(lab, "iii"),
        starts.outputs_in_width(lab),
        *starts.outputs_are_bounded(lab),
        hypotheses=starts.width_conditions(lab),
        assumptions=("C' = 2√(1 - 1/π): twice the standard deviation at infinite width",),
    )


@statement("No more than 2 m^{3/2} β units of a layer have a pre-activation within β of zero", "bound")
def theorem_5_1_iv(lab: Lab) -> Check:
    r"""Few units are near zero: $\#\{j : |\langle w_{l,j}, x_{l-1,i}\rangle| \le \beta\} \le 2 m_l^{3/2}\beta$."""
    return conclude(
        AT_START.check(lab, "iv"),
        starts.small_preactivations(lab),
        hypotheses=starts.width_conditions(lab),
        assumptions=(starts.SCOPE_OF_BETA,),
    )


@statement("Chains of weights and activation masks from layer to layer have norm at most of order L", "scale")
def theorem_5_1_v(lab: Lab) -> Check:
    r"""Products between layers are bounded: $\|W_{l_2}^\top \prod_{r=l_1}^{l_2-1} \Sigma_r W_r^\top\|_2 \le C' L$."""
    return conclude(
        AT_START.check(lab, "v"),
        starts.products_in_length(lab),
        starts.products_in_width(lab),
        hypotheses=starts.width_conditions(lab),
    )


@statement("Against s-sparse directions the output is at most of order L√(s log M)", "scale")
@misprint("log M should be the logarithm of max(M, d)")
def theorem_5_1_vi(lab: Lab) -> Check:
    r"""On $s$-sparse unit vectors $a$, $v^\top \prod_{r=l}^L \Sigma_{r,i} W_r^\top a \le C' L\sqrt{s \log M}$."""
    return conclude(
        AT_START.check(lab, "vi"),
        *starts.sparse_outputs(lab),
        hypotheses=starts.width_conditions(lab),
        assumptions=("s >= 8 in place of s >= C log(nL²/δ)", starts.SHARPER_LOG),
    )


@statement("Between s-sparse directions of two layers the chain is at most of order L√(s log M / m)", "scale")
@misprint("the index range should be 1 ≤ l1 < l2 ≤ L")
def theorem_5_1_vii(lab: Lab) -> Check:
    r"""On $s$-sparse $a, b$: $b^\top W_{l_2}^\top \prod \Sigma_{r,i} W_r^\top a \le C' L\sqrt{s\log M/m}$."""
    return conclude(
        AT_START.check(lab, "vii"),
        *starts.sparse_products(lab),
        hypotheses=starts.width_conditions(lab),
        assumptions=(starts.FROM_BELOW,),
    )


@Section("gradient", "relu")(
    "Whatever non-negative weights the examples get, order mφ/n output units see a large weighted sum", "bound"
)
@misprint("the labels y_i are missing in the sum; without them the claim is trivial for L ≥ 2")
def theorem_5_1_viii(lab: Lab) -> Check:
    r"""For every $a \ge 0$ at least $c\, m_L\phi/n$ units have
    $\|\frac1n\sum_i a_i y_i \sigma'(\langle w_{L,j}, x_{L-1,i}\rangle) x_{L-1,i}\| \ge c' \|a\|_\infty / n$.
    """  # fmt: skip
    return conclude(
        AT_START.check(lab, "viii"),
        starts.large_nodes(lab),
        hypotheses=starts.width_conditions(lab),
        assumptions=("c = 1/74.6 and c' = 1/4, from the proof; seven kinds of a, the worst for the gradient too",),
    )


@statement("At a Gaussian start eight properties hold at once with probability 1 − δ", "scale")
def theorem_5_1(lab: Lab) -> Check:
    r"""All eight properties (i) to (viii) of the Gaussian start at once, with probability $1 - \delta$.

    Every draw is judged by all of them; the exponents of each are fitted besides.
    """
    items = (
        theorem_5_1_i, theorem_5_1_ii, theorem_5_1_iii, theorem_5_1_iv, theorem_5_1_v, theorem_5_1_vi,
        theorem_5_1_vii, theorem_5_1_viii,
    )  # fmt: skip
    n, phi = 8, starts.PHI
    conditions = (at_least("m >= n² φ⁻¹ log(n²/φ)", lab.widths[-1], n**2 / phi * np.log(n**2 / phi)),)
    parts = (AT_START.check(lab), *(item(lab) for item in items), *printed.start(lab))
    return conclude(*parts, hypotheses=(*starts.width_conditions(lab), *conditions))
