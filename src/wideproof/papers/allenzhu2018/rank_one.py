r"""Appendix C.4: changes of rank one that touch few rows of $W$."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wideproof.monitors import attacks
from wideproof.papers.allenzhu2018.attacked import draws
from wideproof.papers.allenzhu2018.lab import Lab, rho
from wideproof.papers.check import Check, at_most, conclude, scales, sides
from wideproof.papers.statement import Section, misprint
from wideproof.papers.study import kept

statement = Section("perturbation", "rnn")

COUNTS = (1, 4, 16, 64)
SPARSE = ("W' = y zᵀ with z the direction of h_{i,2}, y with N entries ±τ0/√m at random places, independent of B",)


@statement("W' = yzᵀ with N entries of y up to τ0/√m: each coordinate of Wh' is O(ρ⁸N^(2/3)τ0^(4/3)/m^(2/3))", "scale")
@misprint("the proof takes ‖D'g‖ of order τ0^(1/2), where Lemma C.2 (c) has τ0: its bounds give τ0^(4/3)")
def lemma_c_10(lab: Lab) -> Check:
    r"""A sparse change of rank one moves single coordinates little.

    $$ |((\tilde W + W') h'_{i,\ell})_k| \le O(\rho^8 N^{2/3} \tau_0^{4/3} / m^{2/3}) $$

    Printed with $\tau_0^{5/6}$, which is larger for $\tau_0 \le 1$ and too small above.
    """
    title = "signs of y chosen for one coordinate, against ρ⁸N^(2/3)τ0^(5/6)/m^(2/3)"
    return conclude(
        *_exponents(lab, "forward", {"m": -2 / 3, "N": 2 / 3, "τ0": 4 / 3}),
        at_most(title, *sides(aligned_coordinates(lab))),
        title="coordinates of W h' are O(ρ⁸N^(2/3)τ0^(4/3)/m^(2/3))",
        assumptions=(*SPARSE, "all constants are 1 where the signs are chosen"),
    )


@statement("The same W', drawn without looking at B: single columns of backward products move little", "scale")
def lemma_c_11(lab: Lab) -> Check:
    r"""A sparse change of rank one, independent of $B$, moves the columns of backward products little."""
    return conclude(lemma_c_11_a(lab), lemma_c_11_b(lab), title="columns of backward products move little")


@statement("What changed masks do to one column: O(ρ³τ0^(1/3)N^(1/6)/m^(1/6))", "scale")
@misprint("a factor L³ is lost in the sum and B costs another ρ: ρ³ should be about ρ⁷")
def lemma_c_11_a(lab: Lab) -> Check:
    r"""New masks.

    $$ |a^\top B (\prod D \tilde W - \prod \tilde D \tilde W) e_k| \le \|a\|\, O(\rho^3 \tau_0^{1/3} N^{1/6} / m^{1/6})
       $$

    The right side is a power of $x = \tau_0 \sqrt{N/m}$, the norm of $W'$: $O(\rho^3 x^{1/3})$ for $x \le 1$, so that
    the exponent of $x$ must not be less than $1/3$.
    """
    x, rows = _against_norm(lab)
    return conclude(
        *_exponents(lab, "masks", {"m": -1 / 6}),
        scales("columns against ‖W'‖₂ = τ0 √(N/m)", "τ0 √(N/m)", x, rows, 1 / 3, sense="at least"),
        title="mask part of the backward columns: O(ρ³τ0^(1/3)N^(1/6)/m^(1/6))",
        assumptions=SPARSE,
    )


@statement("What changed weights do to one column: O(ρ¹²N^(5/6)τ0^(5/3)/m^(1/3))", "scale")
def lemma_c_11_b(lab: Lab) -> Check:
    r"""New weights.

    $$ |a^\top B (\prod D W - \prod D \tilde W) e_k| \le \|a\|\, O(\rho^{12} N^{5/6} \tau_0^{5/3} / m^{1/3}) $$
    """
    return conclude(
        *_exponents(lab, "weights", {"m": -1 / 3, "N": 5 / 6, "τ0": 5 / 3}),
        title="weight part of the backward columns: O(ρ¹²N^(5/6)τ0^(5/3)/m^(1/3))",
        assumptions=(*SPARSE, "τ0 >= 1 in the fit over τ0"),
    )


class Sparse(NamedTuple):
    r"""The largest coordinate of $(\tilde W + W') h'$, and the largest columns of the two backward differences."""

    forward: float
    masks: float
    weights: float


@kept
def sparse_shift(lab: Lab, width: int, seed: int, count: int, radius: float) -> Sparse:
    """Apply one sparse change of rank one and measure; each combination is computed once."""
    start = lab.start(width, lab.length, seed)
    direction = start.seen.h[0, 1]
    change = attacks.sparse_attack(direction, count, radius, lab.rng("sparse", width, seed))
    before, after = start.seen, start.at(change).seen
    columns = np.zeros(2)
    for end in range(1, lab.length + 1):
        old = new = both = before.B
        for time in range(end, 0, -1):
            masks = after.mask[0, time - 1]
            old, new = (old * before.mask[0, time - 1]) @ before.W, (new * masks) @ before.W
            both = (both * masks) @ after.W
            gaps = [np.linalg.norm(gap, axis=0).max() for gap in (new - old, both - new)]
            columns = np.maximum(columns, gaps)
    forward = np.abs((after.h - before.h) @ after.W.T).max()
    return Sparse(float(forward), float(columns[0]), float(columns[1]))


def sparse_grid(lab: Lab, variable: str) -> tuple[tuple[float, ...], list[tuple[int, int, float]]]:
    """Return the values of one variable and the cells (width, count, radius) in which it alone varies."""
    if variable == "m":
        return lab.widths, [(m, 16, 1.0) for m in lab.widths]
    if variable == "N":
        return COUNTS, [(lab.width, count, 1.0) for count in COUNTS]
    radii = (1.0, 2.0, 4.0, 8.0)
    return radii, [(lab.width, 16, radius) for radius in radii]


def _exponents(lab: Lab, name: str, printed: dict[str, float]) -> list[Check]:
    """Compare the exponents of one part of `Sparse` with the printed ones."""
    checks = []
    for variable, exponent in printed.items():
        grid, cells = sparse_grid(lab, variable)
        rows = [[getattr(sparse_shift(lab, m, seed, n, r), name) for m, n, r in cells] for seed in draws(lab)]
        checks.append(scales(f"largest over all k, in {variable}", variable, grid, rows, exponent))
    return checks


def _against_norm(lab: Lab) -> tuple[list[float], list[list[float]]]:
    cells = [(m, n, r) for name in ("m", "N", "τ0") for m, n, r in sparse_grid(lab, name)[1]]
    x = [r * np.sqrt(n / m) for m, n, r in cells]
    return x, [[sparse_shift(lab, m, seed, n, r).masks for m, n, r in cells] for seed in draws(lab)]


def aligned_coordinates(lab: Lab) -> list[tuple[float, float]]:
    """Return the coordinate that signs and places of the change were chosen for, and the printed right side."""
    found = []
    for width in lab.widths:
        for count in COUNTS:
            start = lab.start(width, lab.length, 0)
            seen = start.seen
            unit, direction = 0, seen.h[0, 1]
            row = seen.W[unit] * seen.mask[0, 2]
            after = start.at(attacks.aligned_attack(row, direction, count, 1.0)).seen
            moved = np.abs((after.h[0, 2] - seen.h[0, 2]) @ after.W[unit])
            found.append((moved, rho(seen) ** 8 * count ** (2 / 3) / width ** (2 / 3)))
    return found
