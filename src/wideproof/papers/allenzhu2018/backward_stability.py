r"""Appendices C.2 and C.3: products of masks and $W$, and backward matrices, after a perturbation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from wideproof.papers.allenzhu2018.attacked import CHOICES, RADIUS, perturbation, product_norm
from wideproof.papers.allenzhu2018.joint import STABLE
from wideproof.papers.allenzhu2018.lab import Lab
from wideproof.papers.allenzhu2018.perturbation import against_radius, exponents
from wideproof.papers.check import Check, conclude, scales
from wideproof.papers.statement import Section, misprint

statement = Section("perturbation", "rnn")


@statement("Products of perturbed masks with old or new weights: spectral norm O(L⁷)", "scale")
@misprint("the count of flips is part (b) of Lemma C.2, not (c)")
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
        STABLE.check(lab, "C.7"),
        *product_exponents(lab, "perturbed masks", norms, ("old W", "new W")),
        title="perturbed intermediate products have norm O(L⁷)",
        assumptions=("W' flips the smallest units or drifts furthest, τ0 = 1", "the longest product, ℓ1 = 1, ℓ2 = L"),
    )


@statement("Products after any s²m^(2/3) mask changes of ±1 at every time: spectral norm O(L⁷)", "scale")
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


@statement("Backward products aᵀB∏DW before and after the perturbation: four differences", "scale")
@misprint("the proof announces five parts, there are four")
def lemma_c_9(lab: Lab) -> Check:
    r"""Backward stability: four differences of the products $a^\top B \prod D W$."""
    parts = (
        STABLE.check(lab, "C.9a", "C.9b", "C.9c", "C.9d"),
        lemma_c_9_a(lab),
        lemma_c_9_b(lab),
        lemma_c_9_c(lab),
        lemma_c_9_d(lab),
    )
    return conclude(*parts, title="backward stability")


@statement("Changed masks with the start's weights: O(τ0^(1/3)L⁶m^(1/3)log m)", "scale")
def lemma_c_9_a(lab: Lab) -> Check:
    r"""New masks at the old weights.

    $$ \|a^\top B (\prod \tilde D \tilde W - \prod D \tilde W)\| \le O(\tau_0^{1/3} L^6 m^{1/3} \log m) \|a\| $$
    """
    return _backward(lab, 0, "new masks at the old weights", {"m": 1 / 3, "L": 6.0}, 1 / 3)


@statement("Changed weights under changed masks: O(τ0L^15), whatever the width", "scale")
def lemma_c_9_b(lab: Lab) -> Check:
    r"""New weights under the new masks: $\|a^\top B (\prod D \tilde W - \prod D W)\| \le O(\tau_0 L^{15}) \|a\|$."""
    return _backward(lab, 1, "new weights under the new masks", {"m": 0.0, "τ0": 1.0, "L": 15.0})


@statement("Changed weights under the start's masks: O(τ0L⁷), whatever the width", "scale")
def lemma_c_9_c(lab: Lab) -> Check:
    r"""New weights under the old masks.

    $$ \|a^\top B (\prod \tilde D \tilde W - \prod \tilde D W)\| \le O(\tau_0 L^7) \|a\| $$
    """
    return _backward(lab, 2, "new weights under the old masks", {"m": 0.0, "τ0": 1.0, "L": 7.0})


@statement("Changed masks with changed weights: O(τ0^(1/3)L⁶m^(1/3)log m)", "scale")
def lemma_c_9_d(lab: Lab) -> Check:
    r"""New masks at the new weights.

    $$ \|a^\top B (\prod \tilde D W - \prod D W)\| \le O(\tau_0^{1/3} L^6 m^{1/3} \log m) \|a\| $$
    """
    return _backward(lab, 3, "new masks at the new weights", {"m": 1 / 3, "L": 6.0}, 1 / 3)


def _backward(lab: Lab, place: int, name: str, printed: dict[str, float], power: float | None = None) -> Check:
    found = [STABLE.check(lab, f"C.9{'abcd'[place]}")]
    found += exponents(lab, name, lambda seen: float(seen.backward[place]), printed)
    if power is not None:  # τ0^(1/3) m^(1/3) = √m (τ0/√m)^(1/3)
        found.append(against_radius(lab, name, lambda seen: float(seen.backward[place]), power))
    return conclude(*found, title=f"{name}: backward difference", assumptions=(*CHOICES, "sample 1, all ℓ1 <= ℓ2"))


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
    widths, lengths, small = lab.some(lab.widths, stop=3), lab.lengths[:4], lab.pick(128, 256, 512)
    by_width = np.array([[norms(m, lab.length, seed) for m in widths] for seed in range(12)])
    by_length = np.array([[norms(small, size, seed) for size in lengths] for seed in range(4)])
    checks = []
    for k, label in enumerate(labels):
        checks.append(scales(f"{name}, {label}, in m", "m", widths, by_width[..., k], 0.0))
        checks.append(scales(f"{name}, {label}, in L", "L", lengths, by_length[..., k], 7.0))
    return checks
