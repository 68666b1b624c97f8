"""How far layers and activation patterns move when the weights do."""

from __future__ import annotations

import numpy as np

from wideproof.monitors import flips, spectral_norm
from wideproof.monitors.residual import Pass, residual_pass
from wideproof.monitors.residual_moves import certified_remainder, flip_attack, spectral_distances
from wideproof.papers.check import Check, at_most, conclude, identity, scales, sides
from wideproof.papers.frei2019.hypotheses import width_conditions
from wideproof.papers.frei2019.lab import Lab
from wideproof.papers.statement import Section, misprint, tool
from wideproof.papers.study import kept

statement = Section("perturbation", "resnet_relu")

RADII = (0.01, 0.03, 0.1, 0.3)
DEPTHS = (2, 4, 8, 16)


@kept
def pair(lab: Lab, theta: float = 0.25, radius: float = 1.0) -> tuple[Pass, Pass]:
    r"""Return the passes of two sets of weights far apart, with many flips: for identities, which hold anywhere."""
    network = lab.network(48, 4, 4 * theta)
    start = lab.start(network, 0)
    rng = lab.rng("pair", radius)
    noise = {name: rng.standard_normal(w.shape) for name, w in start.items()}
    moved = {name: w + radius * noise[name] / np.linalg.norm(noise[name]) for name, w in start.items()}
    x = lab.inputs(8)
    return residual_pass(network, moved, x), residual_pass(network, start, x)


@tool("A difference of ReLUs is the difference of their arguments times numbers between 0 and 1", "exact")
def claim_c_1(lab: Lab) -> Check:
    r"""$\sigma(u) - \sigma(y) = (D(u) + \check D)(u - y)$ with diagonals $\|\check D\|, \|D(u) + \check D\| \le 1$.

    $\check D_{jj} = (D(u) - D(y))_{jj}\, y_j/(u_j - y_j)$, and 0 where $u_j = y_j$.
    """
    rng = lab.rng("claim C.1")
    u, y = rng.standard_normal((2, 100_000))
    y[:1000] = u[:1000]
    y[1000:2000], u[2000:3000] = 0.0, 0.0
    active = (u >= 0).astype(float)
    gap = np.where(u == y, 1.0, u - y)
    correction = np.where(u == y, 0.0, (active - (y >= 0)) * y / gap)
    return conclude(
        identity("the difference", np.maximum(u, 0) - np.maximum(y, 0), (active + correction) * (u - y)),
        at_most("|Ď| <= 1", np.abs(correction), 1.0, counts=True),
        at_most("|D + Ď| <= 1", np.abs(active + correction), 1.0, counts=True),
        assumptions=["100 000 pairs of normal numbers, with ties and zeros among them"],
    )


@statement("The first layer moves no further than its weights", "bound")
def eq_36(lab: Lab) -> Check:
    r"""$\|\hat x_1 - \tilde x_1\| \le \|\hat W_1 - \tilde W_1\|_2$."""
    found = []
    for radius in RADII:
        for seed in lab.draws:
            base = lab.at_start(64, seed)
            for moved in (lab.moved(64, seed, family, radius) for family in ("random", "attack")):
                size = spectral_norm(moved.weights[0] - base.weights[0])
                found.append((np.linalg.norm(moved.x(1) - base.x(1), axis=1), size))
    return conclude(at_most("first layer moves at most as far as its weights", *sides(found)))


@statement("Values of flipped units are no longer than the change of all values", "bound", role="smoothness")
def eq_18(lab: Lab) -> Check:
    r"""$\|(\hat\Sigma_l - \tilde\Sigma_l)\hat W_l^\top\hat x_{l-1}\| \le C\|\Delta W_l\|_2 + C\|\hat x_{l-1} -
    \tilde x_{l-1}\|$.

    The constants are known: $\|\hat u_l - \tilde u_l\|$, and $\|\hat x_{l-1}\|$ and $\|\tilde W_l\|_2$ in its bound.
    """
    found = []
    pairs = [pair(lab), pair(lab, 0.25, 0.1)]
    pairs += [(lab.moved(64, s, "attack", radius), lab.at_start(64, s)) for s in lab.draws for radius in RADII]
    for moved, base in pairs:
        for layer in base.steps:
            flipped = np.linalg.norm((moved.mask(layer) != base.mask(layer)) * moved.u(layer), axis=1)
            i = int(flipped.argmax())
            values = np.linalg.norm(moved.u(layer) - base.u(layer), axis=1)[i]
            change = spectral_norm(moved.weights[layer - 1] - base.weights[layer - 1])
            below = np.linalg.norm(moved.x(layer - 1) - base.x(layer - 1), axis=1)[i]
            size = np.linalg.norm(moved.x(layer - 1), axis=1)[i]
            found.append((flipped.max(), values, change * size + base.weight_norms[layer - 1] * below))
    first, second, third = sides(found)
    return conclude(
        at_most("flipped values <= change of the values", first, second),
        at_most("change of the values <= ‖ΔW‖‖x̂‖ + ‖W̃‖‖x̂ - x̃‖", second, third * (1 + 1e-11)),
    )


def attacked_flips(lab: Lab, width: int, seed: int, radius: float, layer: int | None = None) -> int:
    """Return how many units of one layer an attack of this radius flips for one input, at a large width."""
    seen = lab.in_law(width, seed, lab.inputs(2))
    k = layer or seen.depth + 1
    return flip_attack(seen.u(k)[0], float(np.linalg.norm(seen.x(k - 1)[0])), radius).units


def flip_slopes(lab: Lab, layers: tuple[int, ...]) -> list[Check]:
    r"""Fit the number of flips of the strongest attack: $\tau^{2/3}$ and $m$."""
    wide, found, widths = lab.pick(2**13, 2**15, 2**17), [], lab.some(lab.law_widths, 1)
    for layer in layers:
        by_radius = [[attacked_flips(lab, wide, s, radius, layer) for radius in RADII] for s in lab.draws]
        by_width = [[attacked_flips(lab, m, s, 0.1, layer) for m in widths] for s in lab.many]
        found += [
            scales(f"flips of layer {layer}", "τ", RADII, by_radius, 2 / 3, sense="at least"),
            scales(f"flips of layer {layer} at τ = 0.1", "m", widths, by_width, 1.0),
            at_most(f"flips of layer {layer} <= 1.2 m τ^(2/3)", by_radius, 1.2 * wide * np.array(RADII) ** (2 / 3)),
        ]
    return found


@statement("Moving weights by τ moves layers in proportion and flips at most C m τ^(2/3) units in each", "scale")
@misprint("sums in the proof begin one layer early")
def lemma_b_4(lab: Lab) -> Check:
    r"""Layers are Lipschitz in the weights and few units flip, for weights within $\tau$ of the start:

    $\|\hat x_l - \tilde x_l\| \le C\|\Delta W_1\|_2 + C\theta\sum_{r=2}^{\min(l,L)}\|\Delta W_r\|_2 + C\,1(l =
    L+1)\|\Delta W_{L+1}\|_2$
    and $\|\hat\Sigma_l - \tilde\Sigma_l\|_0 \le C m \tau^{2/3}$.
    """
    by_width = [[_lipschitz(lab, m, s, None) for m in lab.start_widths] for s in lab.draws]
    by_depth = [[_lipschitz(lab, 64, s, depth) for depth in DEPTHS] for s in lab.draws]
    moves, changed = [], []
    for seed in lab.seeds:
        width = lab.widths[-1]
        now, then = lab.trained(width, seed), lab.trained(width, seed, 0)
        certified = certified_remainder(then, lab.radius(width, seed))
        moves.append(([np.linalg.norm(now.x(k) - then.x(k), axis=1) for k in now.steps], certified.moves.T))
        changed.append(([flips(now.mask(k), then.mask(k)) for k in now.steps], certified.flips.T))
    return conclude(
        scales("largest ‖x̂_l - x̃_l‖ over the weighted distance", "m", lab.start_widths, by_width, 0.0),
        scales("largest ‖x̂_l - x̃_l‖ over the weighted distance", "L", DEPTHS, by_depth, 0.0),
        *flip_slopes(lab, (1, lab.depth + 1)),
        at_most("trained: moves <= propagated limit", *sides(moves)),
        at_most("trained: flips <= propagated limit", *sides(changed), counts=True),
        hypotheses=width_conditions(lab, lab.start_widths[-1], 0.1),
        assumptions=["moved weights: random and attacking, τ = 0.1", "attacks look at one input; (3/π)^(1/3) = 0.985"],
    )


def _lipschitz(lab: Lab, width: int, seed: int, depth: int | None) -> float:
    base, worst = lab.at_start(width, seed, depth), 0.0
    for family in ("random", "attack"):
        moved = lab.moved(width, seed, family, 0.1, depth)
        weighted = np.cumsum(
            [base.scale(k) * d for k, d in zip(base.steps, spectral_distances(moved, base), strict=True)]
        )
        gaps = [np.linalg.norm(moved.x(k) - base.x(k), axis=1).max() for k in base.steps]
        worst = max(worst, float((np.array(gaps) / weighted).max()))
    return worst
