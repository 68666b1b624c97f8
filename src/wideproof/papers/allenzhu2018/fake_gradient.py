r"""Appendices D.2, E.2 and F: the fake gradient, its backward coordinates, and its norms at and around the start."""

from __future__ import annotations

import numpy as np

from wideproof.monitors.recurrent import Unrolled, backward, objective, unroll
from wideproof.papers.allenzhu2018.attacked import CHOICES, draws, fixed_losses, largest
from wideproof.papers.allenzhu2018.lab import Lab
from wideproof.papers.allenzhu2018.perturbation import against_radius, exponents
from wideproof.papers.check import Check, agrees, conclude, identity, law, often, scales
from wideproof.papers.statement import Section, misprint

statement = Section("gradient", "rnn")


@statement(
    "All but a fraction 1/(2nL) of the backward coordinates at the largest loss are at least loss/(6√d nL)", "bound"
)
def lemma_d_7(lab: Lab) -> Check:
    r"""Most backward coordinates are not small: $|(u_{i^*,\ell^*})_k| \ge \|\mathrm{loss}\| / (6 \sqrt d\, n L)$.

    For a share $1 - 1/(2nL)$ of any set $N_4$ that does not depend on $B$; $u_{i,\ell} = \sum_{a>\ell}
    \mathrm{Back}_{i,\ell+1\to a}^\top \mathrm{loss}_{i,a}$ and the largest loss is at $(i^*, \ell^*+1)$. Over draws of
    $B$, $(u)_k$ is Gaussian with variance $\tfrac1d \sum_j \|1\{j=k\}\, \mathrm{loss}_{\ell^*+1} + \sum_{a>\ell^*+1}
    (C_a)_{jk} \mathrm{loss}_a\|^2$, $C_a = D_a W \cdots D_{\ell^*+2} W$.
    """
    checks = []
    for name, only in (("all losses", False), ("one loss", True)):
        large = []
        for seed in draws(lab):
            seen = lab.start(lab.width, 4, seed, outputs=2, n=2).seen
            sizes = np.abs(backward_coordinates(seen, losses_at(lab, seen, only))[0, 1])
            near = np.abs(seen.g[0, 2]) <= np.quantile(np.abs(seen.g[0, 2]), 0.5)
            large.append(sizes[near] >= 1 / (6 * np.sqrt(2) * 8))
        checks.append(often(f"share of N5 in N4, {name}", np.concatenate(large), 1 - 1 / 16))
    samples, expected = coordinate_variance(lab)
    return conclude(
        *checks,
        law("variance of (u)_k over draws of B", samples, expected),
        title="most units have a backward coordinate of at least loss/(6√d nL)",
        assumptions=("n = 2, L = 4, d = 2; N4 the half of the units that are closest to zero at (1, 3)",),
    )


@statement("The gradient formula with losses that are given vectors; with the true losses it is the gradient", "exact")
@misprint("Appendices E.2 and F start the backward sum one time earlier than the definition")
def definition_e_1(lab: Lab) -> Check:
    r"""The fake gradient $\hat\nabla f = \sum_i \sum_a \sum_{\ell<a} D_{i,\ell+1} (\mathrm{Back}_{i,\ell+1\to a}^\top
    \mathrm{loss}_{i,a}) h_{i,\ell}^\top$.

    The triple sum, the form $\sum D_{i,\ell+1} u_{i,\ell} h_{i,\ell}^\top$, and its rows are the same; with the true
    losses it is the gradient.
    """
    start = lab.start(64, 4, n=3, outputs=2)
    seen = start.seen
    losses = fixed_losses(lab, seen)
    found = backward(seen, losses)
    u = backward_coordinates(seen, losses)
    by_rows = np.einsum("ilk,ilk,ilm->km", u, seen.mask[:, 1:], seen.h[:, :-1])
    direction = lab.rng("direction").standard_normal((64, 64)) / 64
    step = 1e-6
    up, down = (objective(start.at(sign * step * direction).seen.outputs, start.data.y) for sign in (1, -1))
    numeric, slope = (up - down) / (2 * step), start.gradient.pair(direction)
    return conclude(
        identity("triple sum", triple_sum(seen, losses), found.matrix()),
        identity("row by row", by_rows, found.matrix()),
        identity("‖·‖² of each row", np.square(by_rows).sum(axis=1), found.row_squares()),
        agrees("directional derivative, true losses", numeric, slope, tolerance=1e-7),
        title="the fake gradient, and that it is the gradient at the true losses",
    )


@statement(
    "The fake gradient is at most O(nL⁶√m), its part of one sample O(L⁶√m), one row O(nρL³), times the largest loss",
    "scale",
)
def lemma_e_2(lab: Lab) -> Check:
    r"""$\|\hat\nabla f\|_F \le O(n L^6 \sqrt m)$, $\|\hat\nabla f_i\|_F \le O(L^6 \sqrt m)$, $\|\hat\nabla_k f\| \le
    O(n \rho L^3)$, times the loss.
    """

    def norms(width: int, length: int, seed: int, n: int = 4) -> tuple[float, float, float]:
        seen = lab.start(width, length, seed, n=n).seen
        found = backward(seen, fixed_losses(lab, seen))
        parts = max(found.of(i).square() for i in range(n))
        row = found.row_squares().max() / np.log(width) ** 2
        return float(np.sqrt(found.square())), float(np.sqrt(parts)), float(np.sqrt(row))

    seeds, small = draws(lab), lab.pick(128, 256, 512)
    by_width = lab.over(lab.widths, 16, lambda m, seed: norms(m, lab.length, seed))
    by_length = lab.over(lab.lengths[:4], seeds, lambda size, seed: norms(small, size, seed))
    samples = (2, 4, 8)
    by_samples = lab.over(samples, seeds, lambda n, seed: norms(small, lab.length, seed, n))
    names = ("‖∇̂f‖", "largest ‖∇̂f_i‖", "largest ‖∇̂_k f‖ over log m")
    printed = {"m": (0.5, 0.5, 0.0), "L": (6.0, 6.0, 4.0), "n": (1.0, 0.0, 2.0)}
    grids = {"m": (lab.widths, by_width), "L": (lab.lengths[:4], by_length), "n": (samples, by_samples)}
    checks = [
        scales(f"{name} in {variable}", variable, grid, values[k], printed[variable][k])
        for variable, (grid, values) in grids.items()
        for k, name in enumerate(names)
        if (variable, k) != ("n", 1)
    ]
    return conclude(
        *checks,
        title="the fake gradient is O(nL⁶√m), each row O(nρL³)",
        assumptions=("losses of norm 1 drawn once, not with the weights",),
    )


@statement("The bounds of Theorem 3 for given losses, at every point within τ0/√m of the start", "scale")
def lemma_f_1(lab: Lab) -> Check:
    r"""Around the start the fake gradient stays large and bounded.

    $$ \Omega(\delta m/\rho^{14}) \le \|\hat\nabla f(\tilde W + W')\|_F^2 \le O(\rho^{12} m) $$

    Times the largest $\|\mathrm{loss}\|^2$; each $\|\hat\nabla f_i\|_F^2 \le O(\rho^{12} m)/n^2$.
    """
    found = largest(lab, lambda seen: float(seen.gradient[0]), variables=("m",))["m"]
    parts = largest(lab, lambda seen: float(seen.gradient[1]), variables=("m",))["m"]
    least = largest(lab, lambda seen: float(seen.gradient[0]), variables=("m",), worst=min)["m"]
    return conclude(
        scales("least ‖∇̂f‖ in m", "m", *least, 0.5, sense="at least"),
        scales("largest ‖∇̂f‖ in m", "m", *found, 0.5),
        scales("largest ‖∇̂f_i‖ in m", "m", *parts, 0.5),
        title="bounds on the fake gradient around the start",
        assumptions=(*CHOICES, "losses of norm 1 drawn once, not with the weights", "δ = 0.5 is not varied here"),
    )


@statement("Moving W by τ0/√m moves the fake gradient by O(ρ⁸τ0^(1/3)m^(1/3)) times the loss", "scale")
@misprint("ρ⁸ should be about ρ⁹; the third term has τ0^(1/2) for τ0")
def eq_f_1(lab: Lab) -> Check:
    r"""A change $\|W'\|_2 \le \tau_0/\sqrt m$ moves the fake gradient by $O(\rho^8 \tau_0^{1/3} m^{1/3})$ times the
    loss.

    That is $\sqrt m\, (\tau_0/\sqrt m)^{1/3}$, for $\tau_0 \le \sqrt m$: the exponent of $\tau_0/\sqrt m$ must not be
    less than $1/3$.
    """
    name = "‖∇̂f(W) − ∇̂f(W̃)‖"
    return conclude(
        *exponents(lab, name, lambda seen: float(seen.gradient[2]), {"m": 1 / 3}),
        against_radius(lab, name, lambda seen: float(seen.gradient[2]), 1 / 3),
        title="perturbation moves the fake gradient O(τ0^(1/3) m^(1/3))",
        assumptions=(*CHOICES, "losses of norm 1 drawn once, not with the weights"),
    )


def backward_coordinates(seen: Unrolled, losses: np.ndarray) -> np.ndarray:
    r"""Return $u_{i,\ell} = \sum_{a=\ell+1}^L \mathrm{Back}_{i,\ell+1\to a}^\top \mathrm{loss}_{i,a}$ for $\ell =
    1..L-1$.
    """
    e = backward(seen, losses).e
    later = np.concatenate([e[:, 1:], np.zeros_like(e[:, :1])], axis=1)
    return losses[:, 1:] @ seen.B + later @ seen.W


def triple_sum(seen: Unrolled, losses: np.ndarray) -> np.ndarray:
    """Return the fake gradient as it is written, one term for every sample and pair of times."""
    total = np.zeros_like(seen.W)
    for i in range(seen.n):
        for a in range(2, seen.length + 1):
            for time in range(1, a):
                back = seen.back(i, time + 1, a).T @ losses[i, a - 1]
                total += np.outer(seen.mask[i, time] * back, seen.h[i, time - 1])
    return total


def losses_at(lab: Lab, seen: Unrolled, only: bool) -> np.ndarray:
    """Return fixed losses of norm 1, or only the one at sample 1 and time 3."""
    losses = fixed_losses(lab, seen)
    if only:
        kept = np.zeros_like(losses)
        kept[0, 2] = losses[0, 2]
        return kept
    return losses


def coordinate_variance(lab: Lab) -> tuple[np.ndarray, np.ndarray]:
    """Return squared backward coordinates of a few units over draws of `B`, and their expected values."""
    seen = lab.start(64, 4, 0, outputs=2, n=2).seen
    losses = fixed_losses(lab, seen)
    rng = lab.rng("outputs")
    drawn = []
    for _ in range(lab.pick(400, 2000, 5000)):
        other = unroll({"W": seen.W, "A": seen.A, "B": rng.standard_normal((2, 64)) / np.sqrt(2)}, seen.x)
        drawn.append(backward_coordinates(other, losses)[0, 1, :4] ** 2)
    later = seen.matrix(0, 4, 4)  # C_4 = D_4 W
    expected = [
        0.5 * sum(np.sum(((j == k) * losses[0, 2] + later[j, k] * losses[0, 3]) ** 2) for j in range(64))
        for k in range(4)
    ]
    return np.array(drawn), np.array(expected)
