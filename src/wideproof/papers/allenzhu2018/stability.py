r"""Section 5: what a perturbation $\|W'\|_2 \le \tau_0/\sqrt m$ of the recurrent matrix can change."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from wideproof.monitors import attacks, operator_norm
from wideproof.monitors.recurrent import Unrolled
from wideproof.papers.allenzhu2018.attacked import CHOICES, RADIUS, largest, perturbation
from wideproof.papers.allenzhu2018.lab import Lab, Start
from wideproof.papers.check import Check, conclude, scales
from wideproof.papers.statement import Section

statement = Section("perturbation", "rnn")

RANK_ONE = "W' = y z', z a unit fresh direction, y four entries of size 1/sqrt(m) at random or where they hurt most"


@statement("A change τ0/√m of W moves states O(m^(-1/2)) and flips O(m^(2/3)) units", "scale")
def eq_5_1(lab: Lab) -> Check:
    r"""$\|g'\|, \|h'\| \le O(m^{-1/2})$, $\|D'\|_0 \le O(m^{2/3})$, $\|D'g\| \le O(m^{-1/2})$ for every such $W'$."""
    quantities = {
        "||g'||": (lambda seen: seen.values, -0.5),
        "||h'||": (lambda seen: seen.hidden, -0.5),
        "||D'||_0": (lambda seen: float(seen.flips), 2 / 3),
        "||D'g||": (lambda seen: seen.flipped, -0.5),
    }
    parts = [scales(name, "m", *largest(lab, measure)["m"], printed) for name, (measure, printed) in quantities.items()]
    return conclude(*parts, assumptions=CHOICES)


def under_attack(
    lab: Lab,
    seeds: tuple[int, ...],
    value: Callable[[Unrolled, Unrolled], float],
    kinds: tuple[str, ...] = ("flips", "drift"),
) -> np.ndarray:
    """Return the worst value over the attacks for every seed (rows) and width (columns)."""

    def one(width: int, seed: int) -> float:
        start = lab.start(width, seed=seed)
        return max(value(start.seen, start.at(perturbation(lab, k, start, RADIUS, seed)).seen) for k in kinds)

    return np.array([[one(m, seed) for m in lab.widths] for seed in seeds])


def _product_change(before: Unrolled, after: Unrolled) -> float:
    low, high = 2, before.length
    return operator_norm(
        before.W.shape,
        lambda v: after.product(0, low, high, v) - before.product(0, low, high, v),
        lambda v: after.adjoint(0, low, high, v) - before.adjoint(0, low, high, v),
    )


@statement("A change of W moves products of masks and W by O(L⁷) in norm", "scale")
def eq_5_2(lab: Lab) -> Check:
    r"""Products of masks and matrices change by a bounded amount.

    $$ \|D_{\ell_1} W \cdots D_{\ell_2} W - \tilde D_{\ell_1}\tilde W \cdots \tilde D_{\ell_2}\tilde W\|_2 \le O(L^7) $$
    """
    by_width = under_attack(lab, lab.seeds, _product_change, ("flips",))
    width, lengths = lab.pick(128, 256, 512), lab.lengths[:4]

    def one(length: int, seed: int) -> float:
        start = lab.start(width, length, seed)
        return _product_change(start.seen, start.at(perturbation(lab, "drift", start, RADIUS, seed)).seen)

    by_length = [[one(length, seed) for length in lengths] for seed in lab.seeds]
    return conclude(
        scales("change of the product", "m", lab.widths, by_width, 0.0),
        scales("change of the product", "L", lengths, by_length, 7.0),
        assumptions=CHOICES,
        note="the change does not vanish as m grows: one flip changes a row of norm sqrt 2",
    )


def _back_change(before: Unrolled, after: Unrolled) -> float:
    changes = [after.backs(i, before.length) - before.backs(i, before.length) for i in range(before.n)]
    return float(np.linalg.norm(changes, axis=-1).max())


@statement("A change of W moves backward matrices by O(m^(1/3))", "scale")
def eq_5_3(lab: Lab) -> Check:
    r"""Backward matrices change less than they are long, which is $\sqrt m$.

    $$ \|B D_{\ell_1} W \cdots D_{\ell_2} W - B\tilde D_{\ell_1}\tilde W \cdots \tilde D_{\ell_2}\tilde W\|_2
       \le O(m^{1/3}) $$
    """
    found = under_attack(lab, lab.many, _back_change, ("flips", "drift", "outputs"))
    return conclude(scales("change of a backward matrix", "m", lab.widths, found, 1 / 3), assumptions=CHOICES)


def rank_one(lab: Lab, start: Start, seed: int) -> list[np.ndarray]:
    r"""Return sparse rank-one perturbations $y z^\top$ along the fresh direction of time 1."""
    seen = start.seen
    z = lab.fresh(seen.width, seed=seed).directions()[0, 1]
    row = seen.W[int(np.abs(seen.g[0, -1]).argmin())]
    rng = lab.rng("sparse", seen.width, seed)
    return [attacks.sparse_attack(z, 4, RADIUS, rng), attacks.aligned_attack(row, z, 4, RADIUS)]


def under_rank_one(lab: Lab, value: Callable[[Start, Start], float]) -> np.ndarray:
    """Return the worst value over rank-one perturbations for every seed (rows) and width (columns)."""

    def one(width: int, seed: int) -> float:
        start = lab.start(width, seed=seed)
        return max(value(start, start.at(change)) for change in rank_one(lab, start, seed))

    return np.array([[one(m, seed) for m in lab.widths] for seed in lab.many])


def _forward_entry(before: Start, after: Start) -> float:
    return float(np.abs((after.seen.h - before.seen.h) @ after.seen.W.T).max())


@statement("A sparse rank-one change moves every coordinate of W h' by O(m^(-2/3)) at most", "scale")
def eq_5_4(lab: Lab) -> Check:
    r"""$|((\tilde W + W') h'_{i,\ell})_k| \le O(m^{-2/3})$ for sparse rank-one $W' = y z^\top$, every $k$."""
    found = under_rank_one(lab, _forward_entry)
    return conclude(scales("largest coordinate of W h'", "m", lab.widths, found, -2 / 3), assumptions=(RANK_ONE,))


def _backward_column(before: Start, after: Start) -> float:
    end = before.seen.length
    changes = [after.seen.backs(i, end) - before.seen.backs(i, end) for i in range(before.seen.n)]
    return float(np.linalg.norm(changes, axis=2).max())


@statement("A sparse rank-one change moves every backward column by O(m^(-1/6)) at most", "scale")
def eq_5_5(lab: Lab) -> Check:
    r"""Columns of backward matrices change little, for sparse rank-one $W' = y z^\top$ and every $k$.

    $$ \|(B D_{\ell_1} W \cdots D_{\ell_2} W - B\tilde D_{\ell_1}\tilde W \cdots \tilde D_{\ell_2}\tilde W) e_k\|
       \le O(m^{-1/6}) $$
    """
    found = under_rank_one(lab, _backward_column)
    return conclude(
        scales("largest column of the change of a backward matrix", "m", lab.widths, found, -1 / 6),
        assumptions=(RANK_ONE,),
    )
