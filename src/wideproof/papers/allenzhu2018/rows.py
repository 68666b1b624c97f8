r"""Appendix E.2 and E.3: rows of the fake gradient under the split of $W$: large on average, stable under one nudge."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats

from wideproof.monitors.recurrent import Unrolled, backward, unroll
from wideproof.papers.allenzhu2018.fake_gradient import backward_coordinates
from wideproof.papers.allenzhu2018.lab import Lab, rho
from wideproof.papers.allenzhu2018.randomness import SAMPLE, TIME, split
from wideproof.papers.check import Check, at_least, at_most, conclude, identity, scales
from wideproof.papers.statement import Section, misprint
from wideproof.papers.study import kept

statement = Section("gradient", "rnn")

LENGTH, COUNT, THETA = 4, 64, 0.15
NEAR, AWAY, NUDGE = 0.05, 1.0, 1.0
NUDGED = 24  # starts: one nudge flips few units, so that single starts scatter; 16 left a seed undecided
CHOICES = (
    f"n = 2, L = 4, (i*, l*) = (2, 2), |N| = {COUNT}, losses ±1 in the first output",
    f"θ = {THETA}, β− = {NEAR}, β+ = {AWAY}: the paper's values choose no unit at widths within reach",
)
NUDGES = (CHOICES[0], f"one unit nudged by u_j = {NUDGE}/√m along v; 3θρ = {NUDGE}")


@statement("Averaged over the split on N, at least β−|N|/(100L) rows of the fake gradient are Ω(loss/(nL√d))", "scale")
@misprint("(i*, l*) is printed as the smallest loss; it is the largest")
def lemma_e_6(lab: Lab) -> Check:
    r"""On average over the split, rows are not small.

    $$ E\|\hat\nabla_k f(W_1 + W'_N)\| \ge \Omega(\|\mathrm{loss}\| / (n L \sqrt d)) $$

    For at least $\beta_- |N| / (100 L)$ of the $k \in N$. At a unit that is near zero at $(i^*, \ell^*+1)$ and away
    from it elsewhere, the split gives that place both signs with probability at least 1/5 each, keeps all other signs,
    and changes nothing before.
    """
    seeds = range(12)
    by_width = [[row_average(lab, m, seed).mean for m in widths(lab)] for seed in seeds]
    outputs = (1, 2, 4, 8)
    by_outputs = [[row_average(lab, widths(lab)[1], seed, d).mean for d in outputs] for seed in seeds]
    large = [row_average(lab, m, seed).large for m in widths(lab) for seed in seeds]
    signs, changed, before = sign_cases(lab)
    return conclude(
        scales("E‖∇̂_k f‖ over N in m", "m", widths(lab), by_width, 0.0, sense="at least"),
        scales("E‖∇̂_k f‖ over N in d", "d", outputs, by_outputs, -0.5, sense="at least"),
        at_least("rows with E‖∇̂_k f‖ >= 0.1 loss/(nL√d)", large, NEAR * COUNT / (100 * LENGTH)),
        at_least("probability of each sign at (i*, l*+1)", signs, 0.2),
        at_most("signs that change elsewhere", changed, 0, counts=True),
        identity("pre-activations up to l*", *before),
        title="expected rows are large for a fraction β−/(100L) of N",
        assumptions=CHOICES,
    )


@statement("The split changes the terms of each row by O(ρ⁶τ0^(1/3)N^(1/6)/m^(1/6)) times the loss", "scale")
def eq_e_2(lab: Lab) -> Check:
    r"""The split moves the terms of a row little.

    $$ \sum_{i,\ell} \|u' \tilde h + \tilde u h' + u' h'\| \le O(\rho^6 \tau_0^{1/3} N^{1/6} / m^{1/6}) $$

    At every unit $k$, times the loss; $u h - \tilde u \tilde h$ is the sum of the three.
    """
    values = [[row_average(lab, m, seed).terms for m in widths(lab)] for seed in range(12)]
    return conclude(scales("largest over N, in m", "m", widths(lab), values, -1 / 6), assumptions=CHOICES)


@statement("The pre-activation of unit k at (i*, l*+1) after the split, written out exactly", "exact")
def eq_e_4(lab: Lab) -> Check:
    r"""The pre-activation of unit $k$ at $(i^*, \ell^*+1)$ after the split, exactly.

    $$ (g)_k = \langle A_k, x \rangle + (W_1 \tilde h)_k + (W h')_k + (W'_N v)_k\, \|(I - U U^\top) \tilde h\| $$
    """
    pieces = Pieces.of(lab, widths(lab)[-1], 0)
    u = pieces.draw(lab.rng("exact"))
    after, seen = pieces.moved(u), pieces.seen
    h, moved = seen.h[SAMPLE, TIME - 1], after.h[SAMPLE, TIME - 1] - seen.h[SAMPLE, TIME - 1]
    drive = seen.A @ seen.x[SAMPLE, TIME]
    right = drive + seen.W @ h + after.W @ moved + u * (pieces.v @ h)
    title = "g at (i*, l*+1), every k in N"
    rows = pieces.chosen
    return conclude(identity(title, after.g[SAMPLE, TIME][rows], right[rows]), assumptions=CHOICES)


@statement("Over random sets N, the averaged squared rows sum to at least Ω(β−|N|/ρ²) times the squared loss", "scale")
@misprint("n²L³d is O(ρ²) only for L up to d log²m; in general ρ³")
def lemma_e_7(lab: Lab) -> Check:
    r"""Over random sets, $\sum_{k \in N} E\|\hat\nabla_k f\|^2 \ge \Omega(\beta_- |N| / \rho^2)$ times the squared
    loss.
    """
    sizes, width = (8, 16, 32, 64), widths(lab)[2]
    by_size = [[min(sums(lab, width, seed, size)) for size in sizes] for seed in range(24)]
    by_width = [[float(np.mean(sums(lab, m, seed, COUNT))) for m in widths(lab)] for seed in range(24)]
    allowed = [NEAR * size / rho(Pieces.of(lab, width, 0).seen) ** 2 for size in sizes]
    return conclude(
        scales("least of four sums in |N|", "|N|", sizes, by_size, 1.0, sense="at least"),
        scales("mean of four sums in m", "m", widths(lab), by_width, 0.0, sense="at least"),
        at_least("least of four sums against β−|N|/ρ²", by_size, allowed),
        title="expected squared rows over N are at least β−|N|/ρ²",
        assumptions=CHOICES,
    )


@statement("A nudge of one coordinate changes the squared rows over N by O(ρ⁸ + ρ¹¹θ^(1/3)|N|/m^(1/6)) in sum", "scale")
@misprint("smallest loss printed for largest; the choice of which units leave the good set is not counted")
def lemma_e_8(lab: Lab) -> Check:
    r"""A nudge changes $\sum_{k \in N} \|\hat\nabla_k f\|^2$ by $O(\rho^8 + \rho^{11} \theta^{1/3} |N| / m^{1/6})$."""
    sizes, angles, width = (16, 32, 64), (0.25, 0.5, 1.0), lab.widths[1]

    def change(width: int, seed: int, size: float = NUDGE) -> float:
        return float(np.mean([s.changes.mean() for s in nudges(lab, width, seed, size)]))

    by_size = lab.over(sizes, NUDGED, lambda n, k: np.mean([s.changes[:n].sum() for s in nudges(lab, width, k)]))
    by_width = lab.over(lab.widths, NUDGED, change)
    by_angle = lab.over(angles, NUDGED, lambda angle, k: change(width, k, angle))
    limit = rho(Pieces.of(lab, width, 0).seen) ** 8
    return conclude(
        scales("sum over N in |N|", "|N|", sizes, by_size, 1.0),
        scales("mean over k in m", "m", lab.widths, by_width, -1 / 6),
        scales("mean over k in θ <= 1", "θ", angles, by_angle, 1 / 3, sense="at least"),
        at_most("sum over N against ρ⁸", by_size, limit),
        title="one nudge changes summed squared rows by O(ρ⁸ + ρ¹¹θ^(1/3)|N|/m^(1/6))",
        assumptions=NUDGES,
    )


@statement("A nudge changes all but few squared rows by O(ρ¹¹θ^(1/3)/m^(1/6)), and no row by more than O(ρ⁶)", "scale")
@misprint("smallest loss printed for largest; ρ⁶ is ρ⁸ when nL² exceeds ρ")
def claim_e_9(lab: Lab) -> Check:
    r"""One nudge changes most $\|\hat\nabla_k f\|^2$ by $O(\rho^{11} \theta^{1/3} / m^{1/6})$, and every one by
    $O(\rho^6)$.

    Most: all but a fraction $\rho^5 \theta^{2/3} / m^{1/3}$, the units that change a sign.
    """
    seeds = range(NUDGED)
    median = [[float(np.mean([np.median(s.changes) for s in nudges(lab, m, k)])) for m in lab.widths] for k in seeds]
    share = [[float(np.mean([s.flipped for s in nudges(lab, m, k)])) for m in lab.widths] for k in seeds]
    every = [[max(s.changes.max() for s in nudges(lab, m, k)) for m in lab.widths] for k in seeds]
    limits = [rho(Pieces.of(lab, m, 0).seen) ** 6 for m in lab.widths]
    return conclude(
        scales("median over k in m", "m", lab.widths, median, -1 / 6),
        scales("fraction of units with a sign change in m", "m", lab.widths, share, -1 / 3),
        at_most("every k, against ρ⁶", every, limits),
        title="one nudge changes most squared rows by O(m^(-1/6)), every one by O(ρ⁶)",
        assumptions=NUDGES,
    )


@statement("For random sets N, every nudge in N changes the squared rows over N by O(ρ⁸) in sum", "scale")
@misprint("refers to part (c) of Lemma E.5 by a broken label")
def lemma_e_10(lab: Lab) -> Check:
    r"""Every nudge in a random set changes $\sum_{k \in N} \|\hat\nabla_k f\|^2$ by at most $O(\rho^8)$ times the
    squared loss.
    """
    seeds = range(NUDGED)
    totals = [[float(np.mean([s.changes[:16].sum() for s in nudges(lab, m, k)])) for m in lab.widths] for k in seeds]
    worst = [[max(s.changes[:16].sum() for s in nudges(lab, m, k)) for m in lab.widths] for k in seeds]
    limits = [rho(Pieces.of(lab, m, 0).seen) ** 8 for m in lab.widths]
    return conclude(
        scales("mean over j of the sum over N, in m", "m", lab.widths, totals, 0.0),
        at_most("every j, against ρ⁸", worst, limits),
        title="every nudge changes squared rows by O(ρ⁸)",
        assumptions=(*NUDGES, "N the first 16 units, j in N"),
    )


def widths(lab: Lab) -> tuple[int, ...]:
    """Return the widths over which rows are followed."""
    return lab.grid((64, 128, 256, 512), (128, 256, 512, 1024), (256, 512, 1024, 2048))


class Pieces(NamedTuple):
    r"""A start as $W_1$, the direction $v$, the coordinates $N$, and the part of $u_N$ that $W_1$ fixes."""

    seen: Unrolled
    v: np.ndarray
    chosen: np.ndarray
    fixed: np.ndarray
    losses: np.ndarray

    @staticmethod
    def of(lab: Lab, width: int, seed: int, outputs: int = 1, count: int = COUNT, label: int = 0) -> Pieces:
        """Take a start of the laboratory as the matrix before the split part is added."""
        seen = lab.start(width, LENGTH, seed, outputs=outputs, n=2).seen
        piece = lab.keep(("direction", width, seed, outputs), lambda: split(seen, THETA, lab.rng("unused")))
        chosen = lab.rng("chosen", width, seed, count, label).permutation(width)[:count]
        fixed = -(1 - np.sqrt(1 - THETA**2)) * (seen.W @ piece.v)
        losses = np.zeros((2, LENGTH, outputs))
        losses[..., 0] = np.sign(lab.rng("signs of losses").standard_normal((2, LENGTH)))
        return Pieces(seen, piece.v, chosen, fixed, losses)

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        r"""Draw $u_N$ given $W_1$: $u = \theta g_2 - (1 - \sqrt{1-\theta^2}) g_1$ with fresh $g_2$."""
        u = np.zeros(self.seen.width)
        noise = np.sqrt(2 / self.seen.width) * rng.standard_normal(len(self.chosen))
        u[self.chosen] = THETA * noise + self.fixed[self.chosen]
        return u

    def moved(self, u: np.ndarray) -> Unrolled:
        r"""Return the network at $W_1 + u v^\top$."""
        weight = self.seen.W.copy()
        rows = np.flatnonzero(u)
        weight[rows] += np.outer(u[rows], self.v)
        return unroll({"W": weight, "A": self.seen.A, "B": self.seen.B}, self.seen.x)

    def rows(self, seen: Unrolled) -> np.ndarray:
        r"""Return $\|\hat\nabla_k f\|^2$ for every $k$."""
        return np.maximum(backward(seen, self.losses).row_squares(), 0.0)


class Average(NamedTuple):
    r"""Over draws of the split: mean of $E\|\hat\nabla_k\|$ over $N$, how many are large, the terms of eq. (E.2)."""

    mean: float
    large: int
    terms: float


@kept
def row_average(lab: Lab, width: int, seed: int, outputs: int = 1) -> Average:
    """Average row norms over draws of the split part; each combination is computed once."""
    pieces = Pieces.of(lab, width, seed, outputs)
    rng = lab.rng("draws", width, seed, outputs)
    old = backward_coordinates(pieces.seen, pieces.losses)[..., pieces.chosen]
    norms, terms = [], []
    for _ in range(lab.pick(8, 20, 50)):
        after = pieces.moved(pieces.draw(rng))
        norms.append(np.sqrt(pieces.rows(after)[pieces.chosen]))
        new = backward_coordinates(after, pieces.losses)[..., pieces.chosen]
        h, there = pieces.seen.h[:, :-1], after.h[:, :-1]
        square = new**2 * np.sum(there**2, -1)[..., None] + old**2 * np.sum(h**2, -1)[..., None]
        square -= 2 * new * old * np.sum(h * there, -1)[..., None]
        terms.append(np.sqrt(np.maximum(square, 0)).sum(axis=(0, 1)).max())
    average = np.mean(norms, axis=0)
    large = average >= 0.1 / (2 * LENGTH * np.sqrt(outputs))
    return Average(float(average.mean()), int(large.sum()), float(np.mean(terms)))


def sign_cases(lab: Lab) -> tuple[list[float], int, tuple[np.ndarray, np.ndarray]]:
    """Return the sign probabilities at units near zero, sign changes elsewhere, and what must not change at all."""
    width = lab.pick(2048, 2048, 4096)
    pieces = Pieces.of(lab, width, 0, count=width)
    sizes = np.abs(pieces.seen.g) * np.sqrt(width)
    others = [i for i in range(2) if i != SAMPLE]
    good = (sizes[SAMPLE, TIME] <= NEAR) & (sizes[others, TIME] >= AWAY).all(axis=0)
    units = np.flatnonzero(good & (sizes[:, TIME + 1 :] >= AWAY).all(axis=(0, 1)))
    pieces = pieces._replace(chosen=units)
    fresh_part = float(pieces.v @ pieces.seen.h[SAMPLE, TIME - 1])
    mean = pieces.seen.g[SAMPLE, TIME, units] + pieces.fixed[units] * fresh_part
    positive = stats.norm.cdf(mean / (THETA * np.sqrt(2 / width) * fresh_part))
    changed, rng = 0, lab.rng("signs")
    after = pieces.seen
    for _ in range(lab.pick(10, 40, 100)):
        after = pieces.moved(pieces.draw(rng))
        flips = (after.mask != pieces.seen.mask)[..., units]
        flips[SAMPLE, TIME] = False
        changed += int(flips.sum())
    return [*positive, *(1 - positive)], changed, (after.g[:, :TIME], pieces.seen.g[:, :TIME])


@kept
def sums(lab: Lab, width: int, seed: int, size: int) -> list[float]:
    """Return the summed average squared rows over four random sets of one size."""
    found = []
    for label in range(4):
        pieces = Pieces.of(lab, width, seed, count=size, label=label)
        rng = lab.rng("sums", width, seed, size, label)
        drawn = [pieces.rows(pieces.moved(pieces.draw(rng)))[pieces.chosen].sum() for _ in range(3)]
        found.append(float(np.mean(drawn)))
    return found


class Nudged(NamedTuple):
    r"""How $\|\hat\nabla_k f\|^2$ changed for every $k$, and the fraction of units that changed a sign anywhere."""

    changes: np.ndarray
    flipped: float


@kept
def nudges(lab: Lab, width: int, seed: int, size: float = NUDGE) -> list[Nudged]:
    """Nudge a few of the first units, one at a time."""
    pieces = Pieces.of(lab, width, seed)
    before = pieces.rows(pieces.seen)
    found = []
    for unit in range(0, 16, 2):
        u = np.zeros(width)
        u[unit] = size / np.sqrt(width)
        after = pieces.moved(u)
        flipped = (after.mask != pieces.seen.mask).any(axis=(0, 1)).mean()
        found.append(Nudged(np.abs(pieces.rows(after) - before), float(flipped)))
    return found
