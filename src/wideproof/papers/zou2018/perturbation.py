r"""Theorem 5.3: eight properties of all weights within $\tau$ of the Gaussian start."""

from __future__ import annotations

from wideproof.papers.check import Check, at_most, conclude
from wideproof.papers.statement import statement
from wideproof.papers.zou2018 import moves
from wideproof.papers.zou2018.lab import PHI, Lab
from wideproof.papers.zou2018.moves import REGION, SAMPLED


@statement
def theorem_5_3_i(lab: Lab) -> Check:
    r"""Perturbed weights keep bounded norm, $\|\tilde W_l\|_2 \le C$."""
    return conclude(*moves.weights_stay_bounded(lab), assumptions=(SAMPLED,))


@statement
def theorem_5_3_ii(lab: Lab) -> Check:
    r"""Layer outputs move by $\|\hat x_{l,i} - \tilde x_{l,i}\| \le C L \sum_{r \le l} \|\hat W_r - \tilde W_r\|$."""
    return conclude(*moves.outputs_move_little(lab), assumptions=(SAMPLED, REGION))


@statement
def theorem_5_3_iii(lab: Lab) -> Check:
    r"""Few activations flip: $\|\hat\Sigma_{l,i} - \tilde\Sigma_{l,i}\|_0 \le C L^{4/3} \tau^{2/3} m_l$."""
    return conclude(*moves.few_flips(lab), assumptions=(SAMPLED, REGION))


@statement
def theorem_5_3_iv(lab: Lab) -> Check:
    r"""At most $C n L^{4/3} \tau^{2/3} m_L$ units of the last layer flip on some example."""
    return conclude(*moves.few_flips_together(lab), assumptions=(SAMPLED, REGION))


@statement
def theorem_5_3_v(lab: Lab) -> Check:
    r"""Perturbed products stay bounded: $\|\prod_{r=l_1}^{l_2} \tilde\Sigma_{r,i} \tilde W_r^\top\|_2 \le C L$."""
    return conclude(moves.products_stay_bounded(lab), assumptions=(SAMPLED, REGION))


@statement
def theorem_5_3_vi(lab: Lab) -> Check:
    r"""On $C L^{4/3}\tau^{2/3} m$-sparse vectors the output form is at most $C' L^{5/3}\tau^{1/3}\sqrt{M\log M}$."""
    return conclude(*moves.forms_stay_small(lab), assumptions=(SAMPLED, moves.LOGS))


@statement
def theorem_5_3_vii(lab: Lab) -> Check:
    r"""The last gradient stays large: $\|\nabla_{W_L} L_S(\tilde W)\|_F^2 \ge C' (m_L \phi/n^5) (\sum_i \ell'_i)^2$."""
    return conclude(*moves.gradients_stay_large(lab), assumptions=(SAMPLED, "c* is the worst case over all losses"))


@statement
def theorem_5_3_viii(lab: Lab) -> Check:
    r"""Layer gradients, whole and minibatch, are at most $C L^2 \sqrt M$ times the mean slope."""
    return conclude(*moves.gradients_stay_bounded(lab), assumptions=(SAMPLED, REGION))


@statement
def theorem_5_3(lab: Lab) -> Check:
    r"""All eight properties within $\tau = O(L^{-11}(\log M)^{-3/2} \wedge \phi^{3/2} n^{-3} L^{-2})$ of the start."""
    items = (
        theorem_5_3_i, theorem_5_3_ii, theorem_5_3_iii, theorem_5_3_iv, theorem_5_3_v, theorem_5_3_vi,
        theorem_5_3_vii, theorem_5_3_viii,
    )  # fmt: skip
    allowed = min(3.0**-11, PHI**1.5 * 8.0**-3 / 9)
    return conclude(
        *(item(lab) for item in items),
        hypotheses=(at_most("τ <= L⁻¹¹ ∧ φ^{3/2} n⁻³ L⁻², constant 1", moves.RADII, allowed),),
        assumptions=(SAMPLED, REGION),
    )
