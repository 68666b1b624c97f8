"""Misprints and gaps of appendices C to I of Allen-Zhu et al. (2018), each decided by a measurement."""

from __future__ import annotations

import numpy as np
from scipy import stats

from wideproof.monitors.recurrent import backward
from wideproof.papers.allenzhu2018.attacked import draws, fixed_losses, largest
from wideproof.papers.allenzhu2018.fake_gradient import backward_coordinates
from wideproof.papers.allenzhu2018.iterates import first_steps, widths
from wideproof.papers.allenzhu2018.lab import Lab
from wideproof.papers.allenzhu2018.near_zero import near_start
from wideproof.papers.allenzhu2018.perturbation import moved, steps, unrolled
from wideproof.papers.allenzhu2018.rank_one import sparse_shift
from wideproof.papers.check import at_least, at_most, identity, often, scales, sides
from wideproof.papers.errata import Decision, Entries

erratum = Entries("allenzhu2018")


@erratum(
    "Appendix C.1, eq. (C.3)",
    "g' = g'_1 = the sum over all times",
    "g' = the sum; g'_1 is the part of it defined afterwards",
    "eq_c_3",
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


@erratum("Lemma C.10", "τ0^(5/6), for τ0 up to ϱ^50", "τ0^(4/3); 5/6 only for τ0 <= 1", "lemma_c_10")
def rank_one_change_beyond_one(lab: Lab) -> Decision:
    r"""Coordinates of $W h'$ over $\tau_0$ from 1 to 16, at sixteen entries."""
    radii = (1.0, 2.0, 4.0, 8.0, 16.0)
    rows = [[sparse_shift(lab, lab.width, seed, 16, r).forward for r in radii] for seed in range(24)]
    title = "largest coordinate of W h' in τ0 >= 1"
    return Decision(scales(title, "τ0", radii, rows, 5 / 6), scales(title, "τ0", radii, rows, 4 / 3))


@erratum("Appendix F, third term", "‖h'‖ <= L⁶ τ0^(1/2)/√m", "‖h'‖ <= L⁶ τ0/√m", "eq_f_1")
def states_move_linearly(lab: Lab) -> Decision:
    r"""How far states move, over $\tau_0$."""
    radii, rows = largest(lab, lambda seen: seen.hidden, variables=("τ0",))["τ0"]
    return Decision(scales("‖h'‖ in τ0", "τ0", radii, rows, 0.5), scales("‖h'‖ in τ0", "τ0", radii, rows, 1.0))


@erratum("Lemmas D.4 and D.5", "other places at least β− from zero", "at least β+ from zero", "lemma_d_4")
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


@erratum("Lemma D.7", "threshold loss/(6√(dnL))", "threshold loss/(6√d nL)", "lemma_d_7")
def backward_threshold(lab: Lab) -> Decision:
    r"""One loss at the last time, $n = 4$, $L = 8$, $d = 1$: coordinates are Gaussian of variance 1."""
    n, length = 4, 8
    sizes = np.concatenate([np.abs(lab.weights(lab.width, seed)["B"][0]) for seed in range(48)])
    claimed = 1 - 1 / (2 * n * length)
    title = "share of coordinates above the threshold"
    return Decision(
        often(f"{title} 1/(6√(dnL))", sizes >= 1 / (6 * np.sqrt(n * length)), claimed),
        often(f"{title} 1/(6√d nL)", sizes >= 1 / (6 * n * length), claimed),
    )


@erratum(
    "Appendices D.2, E.2 and F",
    "u_l sums backward terms from a = l",
    "from a = l + 1, with Back from l + 1",
    "definition_e_1",
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
    "Lemma E.4, proof of (c)", "Pr[(g2)_k > 1/√m] >= 1/4", "Pr[(g2)_k > 0.75/√m] >= 1/4, which is enough", "lemma_e_4_c"
)
def quarter_of_a_gaussian(lab: Lab) -> Decision:
    r"""$\Pr[g > 1/\sqrt m]$, and $\Pr[g > 3/(4\sqrt m)]$, for $g \sim N(0, 2/m)$."""
    del lab
    return Decision(
        at_least("Pr[(g2)_k > 1/√m]", stats.norm.sf(1 / np.sqrt(2)), 0.25),
        at_least("Pr[(g2)_k > 0.75/√m]", stats.norm.sf(0.75 / np.sqrt(2)), 0.25),
    )


@erratum("Lemma E.7", "n²L³d = O(ρ²)", "n²L³d = O(ρ³); ρ² only for L up to d log²m", "lemma_e_7")
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


@erratum("Appendix H, eq. (H.1)", "radius ϱ^50", "radius ϱ^60", "eq_h_1")
def radius_of_gradient_descent(lab: Lab) -> Decision:
    r"""$\log_{10}$ of $\eta T \rho^{8.5} m$ at the end of the window, against those of $\varrho^{50}$ and
    $\varrho^{60}$.
    """
    del lab
    rho, varrho, target = _parameters(2, 2, 1e4, 1.0)
    path = 23.5 * np.log10(rho) + 28 * np.log10(varrho) + np.log10(np.log(1 / target))
    title = "log10 of the path at n = L = 2, δ = 1, m = 10⁴"
    return Decision(
        at_most(f"{title} against ϱ^50", path, 50 * np.log10(varrho)),
        at_most(f"{title} against ϱ^60", path, 60 * np.log10(varrho)),
    )


@erratum("Appendix I, last line", "radius ρ^50", "radius ϱ^60", "eq_i_1")
def radius_of_sgd(lab: Lab) -> Decision:
    r"""$\log_{10}$ of $\eta T \rho^{8.5} m$ for $\eta = \delta/(\rho^{42} m)$, against those of $\rho^{50}$ and
    $\varrho^{60}$.
    """
    del lab
    delta = 0.1
    rho, varrho, target = _parameters(2, 2, 1e4, delta)
    path = 23.5 * np.log10(rho) + 28 * np.log10(varrho) - np.log10(delta) + np.log10(np.log(1 / target))
    title = "log10 of the path at n = L = 2, δ = 0.1, m = 10⁴"
    return Decision(
        at_most(f"{title} against ρ^50", path, 50 * np.log10(rho)),
        at_most(f"{title} against ϱ^60", path, 60 * np.log10(varrho)),
    )


def _parameters(n: int, length: int, width: float, delta: float) -> tuple[float, float, float]:
    target = 0.1
    return n * length * float(np.log(width)), n * length / delta * float(np.log(width / target)), target


@erratum("Appendix I, eq. (I.2)", "rate 1 − Ω(ηδ/(ρ^15 m))", "rate 1 − Ω(ηδm/ρ^15)", "eq_i_2")
def expected_rate_grows_with_width(lab: Lab) -> Decision:
    r"""The mean relative fall of the objective over $\eta$, in $m$."""
    rows = [[first_steps(lab, m, seed).fall for m in widths(lab)] for seed in range(48)]
    title = "mean relative fall over η, in m"
    return Decision(
        scales(title, "m", widths(lab), rows, -1.0, sense="equal"),
        scales(title, "m", widths(lab), rows, 1.0, sense="at least"),
    )


@erratum("Appendix I, below eq. (I.2)", "‖∇_t‖² <= (n²/|S|²) Σ ‖∇f_i‖²", "‖∇_t‖² <= (n²/|S|) Σ ‖∇f_i‖²", "eq_i_2")
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
