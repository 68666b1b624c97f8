"""Errata of appendices C to I of Allen-Zhu et al. (2018), version 4, each decided by a measurement."""

from __future__ import annotations

import numpy as np
from scipy import stats

from wideproof.monitors.recurrent import backward
from wideproof.papers.allenzhu2018.attacked import draws, fixed_losses, largest
from wideproof.papers.allenzhu2018.fake_gradient import backward_coordinates
from wideproof.papers.allenzhu2018.lab import Lab
from wideproof.papers.allenzhu2018.near_zero import near_start
from wideproof.papers.allenzhu2018.perturbation import moved, steps, unrolled
from wideproof.papers.check import at_least, at_most, identity, scales, sides
from wideproof.papers.errata import Decision, Entries, Fault

erratum = Entries("allenzhu2018")


@erratum(
    "Appendix C.1, eq. (C.3)",
    "g' = g'_1 = the sum over all times",
    "g' = the sum; g'_1 is the part of it defined afterwards",
    "eq_c_3",
    fault=Fault.MISPRINT,
    place="Appendix C.1, (C.3)",
    quotation=r"g'_\ell = g'_{\ell,1} = \sum_{\ell_a=1}^{\ell-1}",
    under="a network at its start, moved by a small W', with the parts as the proof defines them",
)
def unrolled_sum_is_not_its_first_part(lab: Lab) -> Decision:
    r"""The first part, as defined below the display, leaves out the entries of the mask terms up to $4\tau_5 \log m /
    m$.
    """
    before, after, change = moved(lab)
    parts = first_part(lab)
    title = "g' at the last time"
    return Decision(
        identity(f"{title} and its first part", (after.g - before.g)[:, -1], parts),
        identity(f"{title} and the whole sum", (after.g - before.g)[:, -1], unrolled(before, after, change)),
    )


def first_part(lab: Lab) -> np.ndarray:
    r"""Return $g'_{L,1}$: the direct terms, and of each mask term what clipping at $4 \tau_5 \log m / m$ leaves."""
    before, after, change = moved(lab)
    _, masks = steps(before, after, change)
    total = unrolled(before, after, change, masks=False)
    for back in range(1, before.length):
        time = before.length - back
        size = np.linalg.norm((after.mask != before.mask)[:, time - 1] * after.g[:, time - 1], axis=-1)
        z = masks[:, time - 1]
        for later in range(time + 1, before.length):
            z = (before.mask[:, later - 1] * z) @ before.W.T
        clip = (4 * size * np.log(before.width) / np.sqrt(before.width))[:, None]
        total = total + z - np.clip(z, -clip, clip)
    return total


@erratum(
    "Lemma C.10",
    "τ0^(5/6), from ‖D'g‖ of order τ0^(1/2)",
    "the proof's own bounds give τ0^(4/3), with ‖D'g‖ of order τ0; for τ0 <= 1 the lemma is weaker, hence true",
    "lemma_c_10",
    fault=Fault.INCONSISTENCY,
    place="Appendix C.4, proof of Lemma C.10, third bound, against Lemma C.2 (c)",
    quotation=r"O\left(\frac{L^5 \tau_0^{1/2} \sqrt{N}}{\sqrt{m}}\right)",
    under="arithmetic of exponents: 1/3 from Lemma C.2 (b) by Corollary B.15, and 1 from Lemma C.2 (c)",
)
def power_in_the_rank_one_change(lab: Lab) -> Decision:
    r"""The third bound multiplies $\tau_0^{1/3}$ by the size of $D'g$, which Lemma C.2 (c) has linear in $\tau_0$."""
    del lab
    sparsity, values = (2 / 3) / 2, 1.0  # s² ~ τ0^(2/3) of Lemma C.2 (b); ‖D'g‖ ~ τ0 of Lemma C.2 (c)
    title = "power of τ0 from Lemma C.2"
    return Decision(
        identity(f"{title}, 5/6", sparsity + values, 5 / 6), identity(f"{title}, 4/3", sparsity + values, 4 / 3)
    )


@erratum(
    "Appendix F, third term",
    "‖h'‖ <= L⁶ τ0^(1/2)/√m",
    "‖h'‖ <= L⁶ τ0/√m, as in Lemma C.2 (a); (F.1) stands, since m is large",
    "eq_f_1",
    fault=Fault.INCONSISTENCY,
    place="Appendix F, proof of Lemma F.1, third bound",
    quotation=r"(L^6\tau_0^{1/2} \frac{1}{\sqrt{m}})",
    under="perturbations of norm τ0/√m at the laboratory's width, the largest ‖h'‖ found",
)
def states_move_linearly(lab: Lab) -> Decision:
    r"""How far states move, over $\tau_0$."""
    radii, rows = largest(lab, lambda seen: seen.hidden, variables=("τ0",))["τ0"]
    return Decision(scales("‖h'‖ in τ0", "τ0", radii, rows, 0.5), scales("‖h'‖ in τ0", "τ0", radii, rows, 1.0))


@erratum(
    "Lemmas D.4 and D.5",
    "other places at least β− from zero",
    "at least β+ from zero, as Lemma D.2 asks; the proofs give it",
    "lemma_d_4",
    fault=Fault.INCONSISTENCY,
    place="Appendix D.1, Lemma D.4; Lemma D.5 has the same",
    quotation=r"\geq \frac{\beta_-}{\sqrt{m}}, \forall i \in [n] \setminus i^*",
    under="thresholds 0.05 and 0.5 in place of β− and β+, which are too small to be seen",
)
def units_away_need_the_larger_threshold(lab: Lab) -> Decision:
    r"""Units that are near zero at one place, and at least $\beta$ away at the others, counted within $\beta_+$ of zero
    there.
    """
    near, away = 0.05, 0.5
    close, kept = {}, {}
    for name, threshold in (("printed", near), ("right", away)):
        close[name] = kept[name] = 0
        for seed in range(3):
            seen = near_start(lab, seed)
            sizes = np.abs(seen.g) * np.sqrt(seen.width)
            elsewhere = np.minimum(sizes[1, 1], sizes[:, 2].min(axis=0))
            chosen = (sizes[0, 1] <= near) & (elsewhere >= threshold)
            close[name] += int((elsewhere[chosen] < away).sum())
            kept[name] += int(chosen.sum())
    title = "units of N4 within β+ of zero elsewhere"
    return Decision(
        at_most(f"{title}, of {kept['printed']}", close["printed"], 0, counts=True),
        at_most(f"{title}, of {kept['right']}", close["right"], 0, counts=True),
    )


@erratum(
    "Appendices E.2 and F",
    "u_l sums backward terms from a = l, with Back from l",
    "from a = l + 1, with Back from l + 1, as in Definition E.1",
    "definition_e_1",
    fault=Fault.INCONSISTENCY,
    place="Appendix E.2.1, definition of u; Appendix F repeats it",
    quotation=r"u_{i,\ell} &= \sum_{a=\ell}^L \text{Back}_{\ell \rightarrow a}^\top \text{loss}_{i,a}",
    under="three sequences, L = 4, fixed losses from time 2 on",
)
def backward_sum_starts_one_later(lab: Lab) -> Decision:
    r"""The fake gradient from $u_{i,\ell} = \sum_{a \ge \ell}$ and from $\sum_{a > \ell}$, $\ell = 1..L-1$."""
    seen = lab.start(64, 4, n=3).seen
    losses = fixed_losses(lab, seen)
    right = backward_coordinates(seen, losses)
    printed = np.empty_like(right)
    for i in range(seen.n):
        for time in range(1, seen.length):
            backs = [seen.back(i, time, a).T @ losses[i, a - 1] for a in range(max(time, 2), seen.length + 1)]
            printed[i, time - 1] = sum(backs)
    found = backward(seen, losses).matrix()

    def summed(u: np.ndarray) -> np.ndarray:
        return np.einsum("ilk,ilk,ilm->km", u, seen.mask[:, 1:], seen.h[:, :-1])

    return Decision(
        identity("Σ D u h with u from a = l", summed(printed), found),
        identity("Σ D u h with u from a = l + 1", summed(right), found),
    )


@erratum(
    "Lemma E.4, proof of (c)",
    "Pr[(g2)_k > 1/√m] >= 1/4",
    "Pr[(g2)_k > 0.75/√m] >= 1/4, which is enough",
    "lemma_e_4_c",
    fault=Fault.MISPRINT,
    place="Appendix E.1, proof of Lemma E.4 (c)",
    quotation=r"\Pr_{g_2}[(\theta g_2)_k > \frac{\theta}{\sqrt{m}}] \geq \frac{1}{4}",
    under="g2 of variance 2/m as in the proof, exact",
)
def quarter_of_a_gaussian(lab: Lab) -> Decision:
    r"""$\Pr[g > 1/\sqrt m]$, and $\Pr[g > 3/(4\sqrt m)]$, for $g \sim N(0, 2/m)$."""
    del lab
    return Decision(
        at_least("Pr[(g2)_k > 1/√m]", stats.norm.sf(1 / np.sqrt(2)), 0.25),
        at_least("Pr[(g2)_k > 0.75/√m]", stats.norm.sf(0.75 / np.sqrt(2)), 0.25),
    )


@erratum(
    "Lemma E.7",
    "n²L³d = O(ρ²)",
    "n²L³d = O(ρ³); ρ² only for L up to d log²m",
    "lemma_e_7",
    fault=Fault.ERROR,
    place="Appendix E.2.2, proof of Lemma E.7, from Lemma E.6",
    quotation=r"q = \frac{\beta_- |N|}{c\rho^2}$ for some sufficiently large constant",
    under="n = d = 1, m = L^20, L from 10² to 10⁸; Theorem 3 has poly(ρ), so that another power serves as well",
)
def core_lemma_needs_another_rho(lab: Lab) -> Decision:
    r"""$n^2 L^3 d$ against $\rho^2$ and $\rho^3$ as $L$ grows, with $m = L^{20}$."""
    del lab
    lengths = 10.0 ** np.arange(2, 9)
    rho = lengths * 20 * np.log(lengths)
    title = "n²L³d over a power of ρ, in L"
    return Decision(
        scales(f"{title}, ρ²", "L", lengths, lengths**3 / rho**2, 0.0),
        scales(f"{title}, ρ³", "L", lengths, lengths**3 / rho**3, 0.0),
    )


@erratum(
    "Appendix I, below eq. (I.2)",
    "‖∇_t‖² <= (n²/|S|²) Σ ‖∇f_i‖²",
    "‖∇_t‖² <= (n²/|S|) Σ ‖∇f_i‖², which gives the same bound O(ρ¹²m) with Theorem 3",
    "eq_i_2",
    fault=Fault.MISPRINT,
    place="Appendix I, explanation of (I.2)",
    quotation=r"\frac{n^2}{|S_t|^2} \sum_{i \in S_t} \|\nabla f_i(W^{(t)})\|_F^2",
    under="n = 4, all examples in S, random starts, all losses 1",
)
def minibatch_gradient_bound(lab: Lab) -> Decision:
    r"""All samples, all losses 1: $\|\sum_i \nabla f_i\|^2$ against $\sum_i \|\nabla f_i\|^2$ and $n \sum_i \|\nabla
    f_i\|^2$.
    """
    found, n = [], 4
    for seed in draws(lab):
        gradient = backward(lab.start(lab.width, lab.length, seed, n=n).seen, np.ones((n, lab.length, 1)))
        found.append((gradient.square(), sum(gradient.of(i).square() for i in range(n))))
    whole, parts = sides(found)
    title = "‖(n/|S|) Σ ∇f_i‖² with S everything"
    return Decision(
        at_most(f"{title}, against (n²/|S|²) Σ ‖∇f_i‖²", whole, parts),
        at_most(f"{title}, against (n²/|S|) Σ ‖∇f_i‖²", whole, n * parts),
    )
