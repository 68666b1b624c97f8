r"""Appendix C.2 to C.4: products of masks and $W$, backward matrices, and changes of rank one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from wideproof.monitors import attacks
from wideproof.monitors.norms import operator_norm
from wideproof.papers.allenzhu2018.attacked import CHOICES, RADIUS, draws, perturbation
from wideproof.papers.allenzhu2018.lab import Lab
from wideproof.papers.allenzhu2018.perturbation import exponents
from wideproof.papers.check import Check, at_most, conclude, scales
from wideproof.papers.statement import statement


@statement
def lemma_c_7(lab: Lab) -> Check:
    r"""Intermediate products stay bounded: $\|\prod D_{i,\ell} \tilde W\|_2$ and $\|\prod D_{i,\ell} W\|_2 \le O(L^7)$.

    $D$ and $W$ are those after the perturbation.
    """

    def norms(width: int, length: int, seed: int) -> tuple[float, float]:
        start = lab.start(width, length, seed)
        worst = np.zeros(2)
        for kind in ("flips", "drift"):
            after = start.at(perturbation(lab, kind, start, RADIUS, seed)).seen
            masks = after.mask[0].astype(float)
            found = [product_norm(start.seen.W, masks), product_norm(after.W, masks)]
            worst = np.maximum(worst, found)
        return float(worst[0]), float(worst[1])

    return conclude(
        *product_exponents(lab, "perturbed masks", norms, ("old W", "new W")),
        title="perturbed intermediate products have norm O(L⁷)",
        assumptions=("W' flips the smallest units or drifts furthest, τ0 = 1", "the longest product, ℓ1 = 1, ℓ2 = L"),
    )


@statement
def claim_c_8(lab: Lab) -> Check:
    r"""Arbitrary sparse changes of the masks, $\|D'_{i,\ell}\|_0 \le s^2 m^{2/3}$, leave products at $O(L^7)$.

    The entries of $D'$ are in $\{-1, 0, 1\}$, so that $\tilde D + D'$ may have entries from $-1$ to 2.
    """

    def norms(width: int, length: int, seed: int) -> tuple[float, float, float]:
        seen = lab.start(width, length, seed).seen
        masks = seen.mask[0].astype(float)
        count = int(width ** (2 / 3))
        rng = lab.rng("masks", width, seed)
        random = np.stack([rng.permutation(width) < count for _ in range(length)])
        rank = np.argsort(np.argsort(np.abs(seen.g[0]), axis=1), axis=1)
        closest = (rank < count) * np.where(seen.mask[0], -1.0, 1.0)
        greedy = greedy_masks(seen.W, masks, count)
        return tuple(product_norm(seen.W, masks + change) for change in (1.0 * random, closest, greedy))  # pyright: ignore[reportReturnType]

    return conclude(
        *product_exponents(lab, "s = 1", norms, ("random units", "units closest to zero", "units chosen to do harm")),
        title="products with arbitrary sparse mask changes have norm O(L⁷)",
        assumptions=("s = 1: m^(2/3) changes at every time", "the longest product, ℓ1 = 1, ℓ2 = L"),
    )


@statement
def lemma_c_9(lab: Lab) -> Check:
    r"""Backward stability: four differences of the products $a^\top B \prod D W$."""
    parts = (lemma_c_9_a(lab), lemma_c_9_b(lab), lemma_c_9_c(lab), lemma_c_9_d(lab))
    return conclude(*parts, title="backward stability")


@statement
def lemma_c_9_a(lab: Lab) -> Check:
    r"""New masks at the old weights.

    $$ \|a^\top B (\prod \tilde D \tilde W - \prod D \tilde W)\| \le O(\tau_0^{1/3} L^6 m^{1/3} \log m) \|a\| $$
    """
    return _backward(lab, 0, "new masks at the old weights", {"m": 1 / 3, "τ0": 1 / 3, "L": 6.0})


@statement
def lemma_c_9_b(lab: Lab) -> Check:
    r"""New weights under the new masks: $\|a^\top B (\prod D \tilde W - \prod D W)\| \le O(\tau_0 L^{15}) \|a\|$."""
    return _backward(lab, 1, "new weights under the new masks", {"m": 0.0, "τ0": 1.0, "L": 15.0})


@statement
def lemma_c_9_c(lab: Lab) -> Check:
    r"""New weights under the old masks.

    $$ \|a^\top B (\prod \tilde D \tilde W - \prod \tilde D W)\| \le O(\tau_0 L^7) \|a\| $$
    """
    return _backward(lab, 2, "new weights under the old masks", {"m": 0.0, "τ0": 1.0, "L": 7.0})


@statement
def lemma_c_9_d(lab: Lab) -> Check:
    r"""New masks at the new weights.

    $$ \|a^\top B (\prod \tilde D W - \prod D W)\| \le O(\tau_0^{1/3} L^6 m^{1/3} \log m) \|a\| $$
    """
    return _backward(lab, 3, "new masks at the new weights", {"m": 1 / 3, "τ0": 1 / 3, "L": 6.0})


COUNTS = (1, 4, 16, 64)
SPARSE = ("W' = y zᵀ with z the direction of h_{i,2}, y with N entries ±τ0/√m at random places, independent of B",)


@statement
def lemma_c_10(lab: Lab) -> Check:
    r"""A sparse change of rank one moves single coordinates little.

    $$ |((\tilde W + W') h'_{i,\ell})_k| \le O(\rho^8 N^{2/3} \tau_0^{4/3} / m^{2/3}) $$

    Printed with $\tau_0^{5/6}$, which is larger for $\tau_0 \le 1$ and too small above.
    """
    forward = [
        _sparse_exponent(lab, "m", -2 / 3, _forward),
        _sparse_exponent(lab, "N", 2 / 3, _forward),
        _sparse_exponent(lab, "τ0", 4 / 3, _forward),
    ]
    measured, allowed = aligned_coordinates(lab)
    return conclude(
        *forward,
        at_most("signs of y chosen for one coordinate, against ρ⁸N^(2/3)τ0^(5/6)/m^(2/3)", measured, allowed),
        title="coordinates of W h' are O(ρ⁸N^(2/3)τ0^(4/3)/m^(2/3))",
        assumptions=(*SPARSE, "all constants are 1 where the signs are chosen"),
    )


@statement
def lemma_c_11(lab: Lab) -> Check:
    r"""A sparse change of rank one, independent of $B$, moves the columns of backward products little."""
    return conclude(lemma_c_11_a(lab), lemma_c_11_b(lab), title="columns of backward products move little")


@statement
def lemma_c_11_a(lab: Lab) -> Check:
    r"""New masks.

    $$ |a^\top B (\prod D \tilde W - \prod \tilde D \tilde W) e_k| \le \|a\|\, O(\rho^3 \tau_0^{1/3} N^{1/6} / m^{1/6})
       $$

    The right side is a power of $x = \tau_0 \sqrt{N/m}$, the norm of $W'$: $O(\rho^3 x^{1/3})$ for $x \le 1$, so that
    the exponent of $x$ must not be less than $1/3$.
    """
    x, rows = _against_norm(lab)
    return conclude(
        _sparse_exponent(lab, "m", -1 / 6, _mask_part),
        scales("columns against ‖W'‖₂ = τ0 √(N/m)", "τ0 √(N/m)", x, rows, 1 / 3, sense="at least"),
        title="mask part of the backward columns: O(ρ³τ0^(1/3)N^(1/6)/m^(1/6))",
        assumptions=SPARSE,
    )


@statement
def lemma_c_11_b(lab: Lab) -> Check:
    r"""New weights.

    $$ |a^\top B (\prod D W - \prod D \tilde W) e_k| \le \|a\|\, O(\rho^{12} N^{5/6} \tau_0^{5/3} / m^{1/3}) $$
    """
    return conclude(
        _sparse_exponent(lab, "m", -1 / 3, _weight_part),
        _sparse_exponent(lab, "N", 5 / 6, _weight_part),
        _sparse_exponent(lab, "τ0", 5 / 3, _weight_part),
        title="weight part of the backward columns: O(ρ¹²N^(5/6)τ0^(5/3)/m^(1/3))",
        assumptions=(*SPARSE, "τ0 >= 1 in the fit over τ0"),
    )


class Sparse(NamedTuple):
    r"""The largest coordinate of $(\tilde W + W') h'$, and the largest columns of the two backward differences."""

    forward: float
    masks: float
    weights: float


def sparse_shift(lab: Lab, width: int, seed: int, count: int, radius: float) -> Sparse:
    """Apply one sparse change of rank one and measure; each combination is computed once."""

    def make() -> Sparse:
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

    return lab.keep(("sparse", width, seed, count, radius), make)


def _forward(seen: Sparse) -> float:
    return seen.forward


def _mask_part(seen: Sparse) -> float:
    return seen.masks


def _weight_part(seen: Sparse) -> float:
    return seen.weights


def sparse_grid(lab: Lab, variable: str) -> tuple[tuple[float, ...], list[tuple[int, int, float]]]:
    """Return the values of one variable and the cells (width, count, radius) in which it alone varies."""
    if variable == "m":
        return lab.widths, [(m, 16, 1.0) for m in lab.widths]
    if variable == "N":
        return COUNTS, [(lab.width, count, 1.0) for count in COUNTS]
    radii = (1.0, 2.0, 4.0, 8.0)
    return radii, [(lab.width, 16, radius) for radius in radii]


def _sparse_exponent(lab: Lab, variable: str, printed: float, measure: Callable[[Sparse], float]) -> Check:
    grid, cells = sparse_grid(lab, variable)
    rows = [[measure(sparse_shift(lab, m, seed, n, r)) for m, n, r in cells] for seed in draws(lab)]
    return scales(f"largest over all k, in {variable}", variable, grid, rows, printed)


def _against_norm(lab: Lab) -> tuple[list[float], list[list[float]]]:
    cells = [(m, n, r) for name in ("m", "N", "τ0") for m, n, r in sparse_grid(lab, name)[1]]
    x = [r * np.sqrt(n / m) for m, n, r in cells]
    return x, [[sparse_shift(lab, m, seed, n, r).masks for m, n, r in cells] for seed in draws(lab)]


def aligned_coordinates(lab: Lab) -> tuple[list[float], list[float]]:
    """Return the coordinate that signs and places of the change were chosen for, and the printed right side."""
    measured, allowed = [], []
    for width in lab.widths:
        for count in COUNTS:
            start = lab.start(width, lab.length, 0)
            seen = start.seen
            unit, direction = 0, seen.h[0, 1]
            row = seen.W[unit] * seen.mask[0, 2]
            after = start.at(attacks.aligned_attack(row, direction, count, 1.0)).seen
            measured.append(float(np.abs((after.h[0, 2] - seen.h[0, 2]) @ after.W[unit])))
            rho = seen.n * lab.length * len(seen.B) * np.log(width)
            allowed.append(float(rho**8 * count ** (2 / 3) / width ** (2 / 3)))
    return measured, allowed


def _backward(lab: Lab, place: int, name: str, printed: dict[str, float]) -> Check:
    found = exponents(lab, name, lambda seen: float(seen.backward[place]), printed)
    return conclude(*found, title=f"{name}: backward difference", assumptions=(*CHOICES, "sample 1, all ℓ1 <= ℓ2"))


def product_norm(weight: np.ndarray, masks: np.ndarray) -> float:
    r"""Return $\|D_L W \cdots D_1 W\|_2$ for the diagonals `masks`, `(L, m)`, with any entries."""

    def apply(v: np.ndarray) -> np.ndarray:
        for mask in masks:
            v = mask * (weight @ v)
        return v

    def adjoint(v: np.ndarray) -> np.ndarray:
        for mask in masks[::-1]:
            v = weight.T @ (mask * v)
        return v

    return operator_norm(weight.shape, apply, adjoint)


def greedy_masks(weight: np.ndarray, masks: np.ndarray, count: int, rounds: int = 3) -> np.ndarray:
    r"""Return mask changes $+1$ at the `count` units of each time where they lengthen the longest image most."""
    changes = np.zeros_like(masks)
    v = np.random.default_rng(0).standard_normal(weight.shape[1])
    for _ in range(rounds):
        moved = masks + changes
        for _ in range(6):
            for mask in moved:
                v = mask * (weight @ v)
            for mask in moved[::-1]:
                v = weight.T @ (mask * v)
            v /= np.linalg.norm(v)
        z, seen = v, []
        for mask in moved:
            seen.append(weight @ z)
            z = mask * seen[-1]
        y, pulled = z, []
        for mask in moved[::-1]:
            pulled.append(y)
            y = weight.T @ (mask * y)
        gains = np.array(seen) * np.array(pulled[::-1])
        changes = np.zeros_like(masks)
        for time, gain in enumerate(gains):
            changes[time, np.argsort(-gain)[:count]] = 1.0
    return changes


def product_exponents(
    lab: Lab, name: str, norms: Callable[[int, int, int], tuple[float, ...]], labels: tuple[str, ...]
) -> list[Check]:
    """Fit each of several product norms over the width, where it must be flat, and over the length."""
    widths, lengths, small = lab.widths[:3], lab.lengths[:4], lab.pick(128, 256, 512)
    by_width = np.array([[norms(m, lab.length, seed) for m in widths] for seed in range(12)])
    by_length = np.array([[norms(small, size, seed) for size in lengths] for seed in range(4)])
    checks = []
    for k, label in enumerate(labels):
        checks.append(scales(f"{name}, {label}, in m", "m", widths, by_width[..., k], 0.0))
        checks.append(scales(f"{name}, {label}, in L", "L", lengths, by_length[..., k], 7.0))
    return checks
