r"""Appendix G: the exact change of the hidden states between two points near the start, and the terms of Theorem 4.

Three points: the start $\tilde W$, a point $W_c$ within $\tau_0/\sqrt m$ of it, and $W_c + W'$ with $\|W'\|_2 \le
\tau_0/\sqrt m$.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from wideproof.monitors import attacks, spectral_norm
from wideproof.monitors.recurrent import Unrolled, unroll
from wideproof.papers.allenzhu2018.attacked import RADII, draws, perturbation
from wideproof.papers.allenzhu2018.lab import Lab
from wideproof.papers.check import Check, at_most, conclude, identity, scales
from wideproof.papers.statement import Section, tool
from wideproof.papers.study import kept

statement = Section("smoothness", "rnn")

CHOICES = (
    "W_c is the start moved by Gaussian entries of spectral norm τ0/√m",
    "W' is the remainder, flip, drift or output attack at W_c",
    "τ0 = 1 where the width varies",
)


@statement(
    "h − h_c as an exact sum over earlier times, at most O(L⁹)‖W'‖, with O(L^(10/3)τ0^(2/3)m^(2/3)) changed units",
    "exact",
)
def claim_g_2(lab: Lab) -> Check:
    r"""Exact change of the states.

    $$ h_\ell - h_{c,\ell} = \sum_{a<\ell} (D_{c,\ell} + D''_\ell) W_c \cdots W_c (D_{c,a+1} + D''_{a+1}) W' h_a $$

    With $D''$ of Proposition G.3; moreover $\|h - h_c\| \le O(L^9) \|W'\|_2$ and $\|D''\|_0 \le O(L^{10/3} \tau_0^{2/3}
    m^{2/3})$.
    """
    three = points(lab, lab.width, 0, 4.0, "drift")
    total = np.zeros_like(three.after.h[:, -1])
    length = lab.length
    for a in range(1, length):
        z = three.after.h[:, a - 1] @ three.change.T
        for time in range(a + 1, length + 1):
            z = three.masks[:, time - 1] * (z if time == a + 1 else z @ three.centre.W.T)
        total += z
    widths = lab.widths
    moved = [[points(lab, m, seed, 1.0, "drift").moved for m in widths] for seed in draws(lab)]
    shrinking = [[points(lab, lab.width, seed, r, "drift").moved for r in RADII] for seed in draws(lab)]
    flips = [[points(lab, m, seed, 1.0, "flips").flips for m in widths] for seed in draws(lab)]
    return conclude(
        identity("h − h_c at the last time", total, (three.after.h - three.centre.h)[:, -1]),
        scales("‖h − h_c‖/‖W'‖ in m", "m", widths, moved, 0.0),
        scales("‖h − h_c‖/‖W'‖ in ‖W'‖", "τ0", RADII, shrinking, 0.0),
        scales("‖D''‖₀ in m", "m", widths, flips, 2 / 3),
        title="the change of the states, exactly, with its size and its flips",
        assumptions=CHOICES,
    )


@statement("The squared loss at W_c + W' written around W_c: three terms, exactly", "exact")
def eq_g_2(lab: Lab) -> Check:
    r"""$\tfrac12\|B h - y\|^2 = \tfrac12\|\mathrm{loss}_c\|^2 + \mathrm{loss}_c^\top B (h - h_c) + \tfrac12\|B (h -
    h_c)\|^2$, loss for loss.
    """
    three = points(lab, lab.width, 0, 4.0, "drift")
    y = lab.start(lab.width, lab.length, 0).data.y
    loss, change = three.centre.outputs - y, three.after.outputs - three.centre.outputs
    left = 0.5 * np.square(three.after.outputs - y).sum(axis=-1)
    right = 0.5 * np.square(loss).sum(axis=-1) + (loss * change).sum(axis=-1) + 0.5 * np.square(change).sum(axis=-1)
    return conclude(identity("squared losses around W_c", left, right), assumptions=CHOICES)


@statement("Outputs move by O(L⁹√m)‖W'‖", "scale")
def eq_g_4(lab: Lab) -> Check:
    r"""Outputs move by $\|B (h_\ell - h_{c,\ell})\| \le O(L^9 \sqrt m) \|W'\|_2$."""
    return _in_the_width(lab, "‖B(h − h_c)‖/‖W'‖ in m", lambda seen: seen.outputs)


@statement("Changed masks alter the linear term by O(ρ¹¹τ0^(1/3)m^(1/3)) times loss and ‖W'‖", "scale")
def eq_g_5(lab: Lab) -> Check:
    r"""The masks cost $O(\rho^{11} \tau_0^{1/3} m^{1/3}) \|\mathrm{loss}\| \|W'\|_2$ in the linear term.

    The difference between $\mathrm{loss}_c^\top B (D_c + D'') W_c \cdots (D_c + D'') W' h_a$ and the same without
    $D''$. One of the eleven factors $\rho$ stands for the $\log m$ of Corollary B.18, so that the width is fitted after
    dividing by it; and $\tau_0^{1/3} m^{1/3} = \sqrt m\, (\tau_0/\sqrt m)^{1/3}$ for $\tau_0 \le \sqrt m$ asks for an
    exponent of $\tau_0$ of at least $1/3$.
    """
    by_width = [[points(lab, m, k, 1.0, "remainder").masked / np.log(m) for m in lab.widths] for k in range(24)]
    by_radius = [[points(lab, lab.width, k, r, "remainder").masked for r in RADII] for k in range(20)]
    return conclude(
        scales("mask error over loss ‖W'‖ log m, in m", "m", lab.widths, by_width, 1 / 3),
        scales("mask error over loss ‖W'‖ in τ0 <= √m", "τ0", RADII, by_radius, 1 / 3, sense="at least"),
        title="mask error of the linear term O(τ0^(1/3) m^(1/3))",
        assumptions=CHOICES,
    )


@statement("Changed states alter the linear term by O(ρ^16√m) times loss and ‖W'‖²", "scale")
def eq_g_6(lab: Lab) -> Check:
    r"""The change of the states costs $|\mathrm{loss}_c^\top B D_c W_c \cdots D_c W' (h_a - h_{c,a})| \le O(\rho^{16}
    \sqrt m) \|\mathrm{loss}\| \|W'\|_2^2$.
    """
    return _in_the_width(lab, "second-order part over loss ‖W'‖² in m", lambda seen: seen.second)


def _in_the_width(lab: Lab, title: str, value: Callable[[Points], float]) -> Check:
    def worst(width: int, seed: int) -> float:
        return max(value(points(lab, width, seed, 1.0, kind)) for kind in ("outputs", "drift"))

    rows = lab.over(lab.widths, draws(lab), worst)
    return conclude(scales(title, "m", lab.widths, rows, 0.5), assumptions=CHOICES)


@tool("φ(a) − φ(b) = (D + D'')(a − b), D'' at most 1 and zero where a and b have the same sign", "exact")
def proposition_g_3(lab: Lab) -> Check:
    r"""$\phi(a) - \phi(b) = (D + D'')(a - b)$ with $|D''_{kk}| \le 1$, nonzero only where the signs of $a$ and $b$
    differ.
    """
    rng = lab.rng("pairs")
    a, b = rng.standard_normal((2, 10000))
    special = np.array([0.0, -0.0, 1.0, -1.0, 1e-300, -1e-300, 1e300, -1e300])
    first, second = (grid.ravel() for grid in np.meshgrid(special, special))
    a, b = np.concatenate([a, first]), np.concatenate([b, second])
    between = bridge(a, b)
    with np.errstate(over="ignore"):
        right = (a >= 0) * (a - b) + between * (a - b)
    scale = np.maximum(np.maximum(np.abs(a), np.abs(b)), 1e-308)
    differ = (a >= 0) != (b >= 0)
    return conclude(
        identity("ReLU difference", (np.maximum(a, 0) - np.maximum(b, 0)) / scale, right / scale),
        at_most("|D''|", np.abs(between), 1.0, counts=True),
        at_most("nonzero D'' where the signs agree", np.count_nonzero(between[~differ]), 0, counts=True),
        title="the ReLU's difference is (D + D'')(a − b)",
    )


def bridge(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    r"""Return the diagonal of $D''$: $b/(a-b)$ for $a \ge 0 > b$, $b/(b-a)$ for $a < 0 \le b$, else 0.

    Examples
    --------
    >>> bridge(np.array([1.0, -1.0, 2.0]), np.array([-1.0, 3.0, 1.0])).tolist()
    [-0.5, 0.75, 0.0]
    """
    values = np.zeros_like(a)
    down, up = (a >= 0) & (b < 0), (a < 0) & (b >= 0)
    values[down] = b[down] / (a[down] - b[down])
    values[up] = b[up] / (b[up] - a[up])
    return values


class Points(NamedTuple):
    r"""$W_c$ and $W_c + W'$, and what Appendix G bounds, divided by the powers of $\|W'\|_2$ and the loss that go with
    it.

    `masks` are the diagonals $D_c + D''$; `moved` is $\|h - h_c\|/\|W'\|$, `outputs` $\|B(h - h_c)\|/\|W'\|$, `flips`
    $\|D''\|_0$, `masked` the mask error of eq. (G.5) and `second` the term of eq. (G.6), each at its largest.
    """

    centre: Unrolled
    after: Unrolled
    change: np.ndarray
    masks: np.ndarray
    moved: float
    outputs: float
    flips: int
    masked: float
    second: float


@kept
def points(lab: Lab, width: int, seed: int, radius: float, kind: str) -> Points:
    """Return the two points around one start and the terms between them; each combination is computed once."""
    start = lab.start(width, lab.length, seed)
    centre = start.at(perturbation(lab, "random", start, radius, seed))
    if kind == "remainder":
        change = attacks.remainder_attack(centre.seen, centre.losses, radius)
    else:
        change = perturbation(lab, kind, centre, radius, seed)
    found = measure(centre.seen, change, centre.losses)
    if width > lab.widths[0] and (seed, radius) != (0, 4.0):  # large arrays are kept once only
        return found._replace(change=np.zeros(0), centre=None, after=None, masks=np.zeros(0))  # pyright: ignore[reportArgumentType]
    return found


def measure(centre: Unrolled, change: np.ndarray, losses: np.ndarray) -> Points:
    r"""Compare the network at $W_c$ with the one at $W_c + W'$."""
    after = unroll({"W": centre.W + change, "A": centre.A, "B": centre.B}, centre.x)
    between = bridge(centre.g, after.g)
    masks = centre.mask + between
    size = spectral_norm(change)
    gap = after.h - centre.h
    units = losses / np.linalg.norm(losses, axis=-1, keepdims=True)
    masked = second = 0.0
    for a in range(1, centre.length):
        plain = bent = after.h[:, a - 1] @ change.T
        moved = gap[:, a - 1] @ change.T
        for time in range(a + 1, centre.length + 1):
            if time > a + 1:
                plain, bent, moved = plain @ centre.W.T, bent @ centre.W.T, moved @ centre.W.T
            old = centre.mask[:, time - 1]
            plain, bent, moved = old * plain, masks[:, time - 1] * bent, old * moved
            seen = units[:, time - 1] @ centre.B
            masked = max(masked, float(np.abs(np.sum(seen * (bent - plain), axis=-1)).max()))
            second = max(second, float(np.abs(np.sum(seen * moved, axis=-1)).max()))
    return Points(
        centre,
        after,
        change,
        masks,
        float(np.linalg.norm(gap, axis=-1).max()) / size,
        float(np.linalg.norm(gap @ centre.B.T, axis=-1).max()) / size,
        int(np.count_nonzero(between, axis=-1).max()),
        masked / size,
        second / size**2,
    )
