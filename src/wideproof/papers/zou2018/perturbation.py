r"""Theorem 5.3: eight properties of all weights within $\tau$ of the Gaussian start."""

from __future__ import annotations

from wideproof.papers.check import Check, at_most, conclude
from wideproof.papers.statement import Section, misprint
from wideproof.papers.zou2018 import moves, printed
from wideproof.papers.zou2018.joint import NEARBY
from wideproof.papers.zou2018.lab import PHI, Lab
from wideproof.papers.zou2018.moves import REGION, SAMPLED

statement = Section("perturbation", "relu")
gradient = Section("gradient", "relu")
ALLOWED = min(3.0**-11, PHI**1.5 * 8.0**-3 / 9)
SUPPOSED = (at_most("τ <= L⁻¹¹ ∧ φ^{3/2} n⁻³ L⁻², constant 1", moves.RADII, ALLOWED),)


@statement("Moved weight matrices still have bounded norm", "scale")
def theorem_5_3_i(lab: Lab) -> Check:
    r"""Perturbed weights keep bounded norm, $\|\tilde W_l\|_2 \le C$."""
    parts = (NEARBY.check(lab, "i"), *moves.weights_stay_bounded(lab))
    return conclude(*parts, hypotheses=SUPPOSED, assumptions=(SAMPLED,))


@statement("Layer outputs change by at most order L times the summed change of the weights", "scale")
def theorem_5_3_ii(lab: Lab) -> Check:
    r"""Layer outputs move by $\|\hat x_{l,i} - \tilde x_{l,i}\| \le C L \sum_{r \le l} \|\hat W_r - \tilde W_r\|$."""
    parts = (NEARBY.check(lab, "ii"), *moves.outputs_move_little(lab))
    return conclude(*parts, hypotheses=SUPPOSED, assumptions=(SAMPLED, REGION))


@statement("In each layer at most order L^{4/3} τ^{2/3} m activations change sign", "scale")
def theorem_5_3_iii(lab: Lab) -> Check:
    r"""Few activations flip: $\|\hat\Sigma_{l,i} - \tilde\Sigma_{l,i}\|_0 \le C L^{4/3} \tau^{2/3} m_l$."""
    parts = (NEARBY.check(lab, "iii"), *moves.few_flips(lab))
    return conclude(*parts, hypotheses=SUPPOSED, assumptions=(SAMPLED, REGION))


@statement("At most order n L^{4/3} τ^{2/3} m last-layer units change sign on any example at all", "scale")
def theorem_5_3_iv(lab: Lab) -> Check:
    r"""At most $C n L^{4/3} \tau^{2/3} m_L$ units of the last layer flip on some example."""
    parts = (NEARBY.check(lab, "iv"), *moves.few_flips_together(lab))
    return conclude(*parts, hypotheses=SUPPOSED, assumptions=(SAMPLED, REGION))


@statement("Chains of moved weights and their masks still have norm at most of order L", "scale")
def theorem_5_3_v(lab: Lab) -> Check:
    r"""Perturbed products stay bounded: $\|\prod_{r=l_1}^{l_2} \tilde\Sigma_{r,i} \tilde W_r^\top\|_2 \le C L$."""
    parts = (NEARBY.check(lab, "v"), moves.products_stay_bounded(lab))
    return conclude(*parts, hypotheses=SUPPOSED, assumptions=(SAMPLED, REGION))


@statement("Against sparse directions the moved output is at most of order L^{5/3} τ^{1/3} √(M log M)", "scale")
def theorem_5_3_vi(lab: Lab) -> Check:
    r"""On $C L^{4/3}\tau^{2/3} m$-sparse vectors the output form is at most $C' L^{5/3}\tau^{1/3}\sqrt{M\log M}$."""
    parts = (NEARBY.check(lab, "vi"), *moves.forms_stay_small(lab))
    return conclude(*parts, hypotheses=SUPPOSED, assumptions=(SAMPLED, moves.LOGS))


@gradient("The last layer's gradient is not small: its square is at least of order (mφ/n⁵) S²", "scale")
def theorem_5_3_vii(lab: Lab) -> Check:
    r"""The last gradient stays large: $\|\nabla_{W_L} L_S(\tilde W)\|_F^2 \ge C' (m_L \phi/n^5) (\sum_i \ell'_i)^2$."""
    return conclude(
        NEARBY.check(lab, "vii"),
        *moves.gradients_stay_large(lab),
        hypotheses=SUPPOSED,
        assumptions=(SAMPLED, moves.WORST),
    )


@gradient("No layer's gradient, full or minibatch, exceeds order L²√M times the mean slope", "scale")
def theorem_5_3_viii(lab: Lab) -> Check:
    r"""Layer gradients, whole and minibatch, are at most $C L^2 \sqrt M$ times the mean slope."""
    return conclude(
        NEARBY.check(lab, "viii"),
        *moves.gradients_stay_bounded(lab),
        hypotheses=SUPPOSED,
        assumptions=(SAMPLED, REGION),
    )


@statement("For all weights within τ of the start eight properties hold at once", "scale")
@misprint("the definition of the perturbed masks lacks > 0 and has a wrong last index")
def theorem_5_3(lab: Lab) -> Check:
    r"""All eight properties within $\tau = O(L^{-11}(\log M)^{-3/2} \wedge \phi^{3/2} n^{-3} L^{-2})$ of the start."""
    items = (
        theorem_5_3_i, theorem_5_3_ii, theorem_5_3_iii, theorem_5_3_iv, theorem_5_3_v, theorem_5_3_vi,
        theorem_5_3_vii, theorem_5_3_viii,
    )  # fmt: skip
    parts = (NEARBY.check(lab), *(item(lab) for item in items), *printed.start(lab))
    return conclude(*parts, hypotheses=SUPPOSED, assumptions=(SAMPLED, REGION, moves.WORST))
