"""Section 7 and Theorem 4: the objective is smooth up to a term of first order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wideproof.data import SequenceDataset
from wideproof.monitors import attacks
from wideproof.papers.allenzhu2018 import printed
from wideproof.papers.allenzhu2018.lab import Lab, Start
from wideproof.papers.check import Check, at_most, conclude, identity, scales, sides
from wideproof.papers.statement import Section, misprint
from wideproof.papers.study import kept

statement = Section("smoothness", "rnn")

RADII = (1.0, 2.0, 4.0, 8.0)


def remainder(centre: Start, change: np.ndarray) -> float:
    r"""Return $f(W_c + W') - f(W_c) - \langle\nabla f(W_c), W'\rangle$."""
    return centre.at(change).loss - centre.loss - centre.gradient.pair(change)


@kept
def centre(lab: Lab, width: int, seed: int, radius: float = 1.0) -> Start:
    r"""Return the start moved by Gaussian $\|W_c - \tilde W\|_2$ near $\tau_0/\sqrt m$."""
    change = attacks.gaussian_attack(width, radius, lab.rng("centre", width, seed))
    return lab.start(width, seed=seed).at(change)


def pointed(at: Start, sample: int, size: float = 10.0) -> Start:
    """Return the same network with a target that makes the loss of one sequence at the last time the largest."""
    y = at.data.y.copy()
    y[sample, -1] += size
    return replace(at, data=SequenceDataset(at.data.x, y, "regression", "one large target"))


@kept
def attacked_remainder(lab: Lab, width: int, seed: int, radius: float) -> float:
    r"""Return the remainder under the strongest attack known over $\max\|\mathrm{loss}\|\,\|W'\|_2\, r^{4/3}$.

    $r$ is the length of the part of $h_{i,L-1}$ that the attack acts through; it tends to a constant from below, and
    the attack's remainder grows like its power 4/3. Mean over the sequences.
    """

    def one(sample: int) -> float:
        at = pointed(centre(lab, width, seed), sample)
        change = attacks.remainder_attack(at.seen, at.losses, radius)
        reach = np.linalg.norm(attacks.isolated(at.seen, sample, at.seen.length - 1))
        size = at.worst * np.linalg.norm(change) * reach ** (4 / 3)  # W' has rank one: both norms agree
        return float(max(remainder(at, change), 0.0) / size)

    return float(np.mean([one(sample) for sample in range(lab.data().n)]))


@statement("The objective is smooth up to τ0^(1/3)m^(1/3)·loss·‖W'‖, near the start", "scale")
@misprint("the sums over samples and times are not counted in the printed powers of ρ")
def theorem_4(lab: Lab) -> Check:
    r"""$f$ is semi-smooth near the start, for $\|W_c - \tilde W\|_2, \|W'\|_2 \le \tau_0/\sqrt m$:

    $$ f(W_c + W') \le f(W_c) + \langle\nabla f(W_c), W'\rangle + \mathrm{poly}\cdot \tau_0^{1/3} m^{1/3}
       \max\|\mathrm{loss}\|\,\|W'\|_2 + \mathrm{poly}\cdot m\|W'\|_2^2 . $$
    """
    by_width = np.array([[attacked_remainder(lab, m, s, 4.0) for m in lab.widths] for s in lab.many])
    by_radius = np.array([[attacked_remainder(lab, lab.width, s, r) for r in RADII] for s in lab.seeds])
    found = []
    for seed in lab.seeds:
        at = centre(lab, lab.width, seed)
        change = attacks.gaussian_attack(lab.width, 1.0, lab.rng("remainder", seed))
        for scale in (1.0, 0.1, 0.01):
            size = scale * np.linalg.norm(change, 2)
            bound = lab.width ** (1 / 3) * at.worst * size + lab.width * size**2
            found.append((abs(remainder(at, scale * change)), bound))
    return conclude(
        scales("remainder over max loss ||W'|| r^(4/3), attacked", "m", lab.widths, by_width, 1 / 3),
        scales("remainder over max loss ||W'|| r^(4/3), attacked", "tau0", RADII, by_radius, 1 / 3),
        at_most("remainder of random W' of three sizes, constants 1", *sides(found)),
        *printed.start(lab),
        assumptions=(
            "W_c random at tau0 = 1; tau0 of W' is 4 where m varies",
            "W' pushes the units of the last time that gain most, or is Gaussian",
            "one target of size 10, so that one loss is the largest at every width",
            "the loss of the worst sequence for sqrt(f), as in the appendix",
        ),
    )  # fmt: skip


def corrected_masks(at: Start, moved: Start) -> tuple[np.ndarray, np.ndarray]:
    r"""Return $D_c$ and $D''$ with $\phi(g) - \phi(g_c) = (D_c + D'')(g - g_c)$, $D''$ nonzero at flips only."""
    old, new = at.seen.g, moved.seen.g
    gap = np.where(old == new, 1.0, new - old)
    flipped = at.seen.mask != moved.seen.mask
    slope = np.where(flipped, (np.maximum(new, 0) - np.maximum(old, 0)) / gap, at.seen.mask)
    return at.seen.mask.astype(float), slope - at.seen.mask


def _changes(lab: Lab, at: Start, seed: int) -> list[np.ndarray]:
    width = at.seen.width
    return [
        attacks.flip_attack(at.seen, 1.0, time=3),
        attacks.gaussian_attack(width, 4.0, lab.rng("change", width, seed)),
        1e-6 * attacks.gaussian_attack(width, 1.0, lab.rng("change", width, seed)),
    ]


@statement("The change of hidden states is a sum of propagated W'h, with masks corrected at flips", "exact")
@misprint("the text below cites (4.1) for (5.1)")
def eq_7_1(lab: Lab) -> Check:
    r"""The change of the hidden states is exactly a sum over where $W'$ acts.

    $$ h_{i,\ell} - h^c_{i,\ell} = \sum_{a<\ell} (D^c_\ell + D''_\ell) W_c \cdots W_c (D^c_{a+1} + D''_{a+1})
       W' h_{i,a} $$

    $D''$ is diagonal with entries in $[-1, 1]$ and at most $O(m^{2/3})$ of them not zero; the change is then
    proportional to $\|W'\|_2$, however small that is.
    """
    left, right, entries, sizes = [], [], [], []
    for seed in lab.seeds:
        at = centre(lab, lab.width, seed)
        for change in _changes(lab, at, seed):
            moved = at.at(change)
            masks, extra = corrected_masks(at, moved)
            slopes = masks + extra
            total = np.zeros_like(at.seen.h[:, 0])
            for start in range(1, at.seen.length):
                part = slopes[:, start] * (moved.seen.h[:, start - 1] @ change.T)
                for time in range(start + 2, at.seen.length + 1):
                    part = slopes[:, time - 1] * (part @ at.seen.W.T)
                total = total + part
            size = np.linalg.norm(change, 2)
            left.append((moved.seen.h - at.seen.h)[:, -1] / size)
            right.append(total / size)
            entries.append(np.abs(extra).max())
            sizes.append(np.linalg.norm(left[-1], axis=-1).max())
    flips = np.array([[_flips(lab, m, seed) for m in lab.widths] for seed in lab.many], float)
    return conclude(
        identity("change of the last states over ||W'||, against the sum", left, right, tolerance=1e-6),
        at_most("entries of D''", entries, 1 + 1e-12),
        scales("nonzeros of D'' under attack", "m", lab.widths, flips, 2 / 3),
        at_most("change of states over ||W'||, against L^9", sizes, float(lab.length**9)),
        assumptions=(
            "W' flipping, random, and random of size 1e-6",
            "tolerance 1e-6: rounding of the states over ||W'|| = 4e-8",
        ),
    )


def _flips(lab: Lab, width: int, seed: int) -> int:
    at = centre(lab, width, seed)
    moved = at.at(attacks.flip_attack(at.seen, 1.0, time=3))
    return int((at.seen.mask != moved.seen.mask).sum(axis=-1).max())


@statement("The objective's remainder beyond its linear part, exactly, from the change of states", "exact")
@misprint("f and its gradient are taken at W_c, printed at W")
def eq_7_2(lab: Lab) -> Check:
    r"""The remainder of $f$ at $W_c$ is exactly a sum over the states' changes:

    $$ \sum_{i,\ell\ge2} \mathrm{loss}_{i,\ell}^\top B\Big((h - h^c)_{i,\ell} - \sum_{a<\ell} D^c_\ell W_c \cdots W_c
       D^c_{a+1} W' h^c_{i,a}\Big) + \tfrac12\|B(h - h^c)_{i,\ell}\|^2 . $$
    """
    found = []
    for seed in lab.seeds:
        at = centre(lab, lab.width, seed)
        found += [(remainder(at, change), beyond_linear(at, change)) for change in _changes(lab, at, seed)[:2]]
    return conclude(
        identity("remainder, against the sum over states", *sides(found), tolerance=1e-9),
        assumptions=("f and its gradient at W_c, where the printed formula has W",),
    )


def beyond_linear(at: Start, change: np.ndarray) -> float:
    """Return the sum of eq. (7.2): what the states' change adds to the loss beyond its linear part."""
    linear, gap = np.zeros_like(at.seen.h), at.at(change).seen.h - at.seen.h
    for time in range(2, at.seen.length + 1):
        carried = linear[:, time - 2] @ at.seen.W.T + at.seen.h[:, time - 2] @ change.T
        linear[:, time - 1] = at.seen.mask[:, time - 1] * carried
    first = np.sum(at.losses * ((gap - linear) @ at.seen.B.T), axis=-1)
    second = 0.5 * np.square(gap @ at.seen.B.T).sum(axis=-1)
    return float((first + second)[:, 1:].sum())
