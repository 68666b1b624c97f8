"""Gradients: their closed form, the upper bound in every layer, and the lower bound in the last one with its proof."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from wideproof.monitors import flips, trace, union_of_flips
from wideproof.monitors.residual import (
    Pass,
    gradient_norms,
    interlayer,
    layer_margin,
    loss_gradients,
    surrogate_error,
    unit_gradients,
)
from wideproof.papers.check import Check, at_least, at_most, conclude, identity, scales, sides
from wideproof.papers.frei2019.hypotheses import width_conditions
from wideproof.papers.frei2019.lab import RHO, Lab
from wideproof.papers.frei2019.perturbation import DEPTHS, flip_slopes
from wideproof.papers.statement import Section, misprint
from wideproof.papers.study import kept

statement = Section("gradient", "resnet_relu")


@statement("The gradient of the output in each layer is one column times one row", "exact")
def eq_2(lab: Lab) -> Check:
    r"""$\nabla_{W_l} f = \theta^{1(2\le l\le L)}\, x_{l-1} v^\top H_{l+1}^{L+1} \Sigma_l$: rank one, against
    automatic differentiation.
    """
    width = lab.widths[0]
    seen = lab.trained(width, 0, 0)
    weights = lab.run(width, 0).initial
    automatic = trace(lab.network(width), weights, lab.data().x)
    found = []
    for layer in seen.steps:
        inputs, cotangents = automatic.inputs[f"W{layer}"][0], automatic.cotangents[f"W{layer}"][0]
        for i in (0, 1):
            inner = np.eye(width) if layer == seen.depth + 1 else interlayer(seen, layer + 1, seen.depth + 1, i).dense()
            formula = seen.scale(layer) * np.outer(seen.x(layer - 1)[i], (seen.signs @ inner) * seen.mask(layer)[i])
            found.append((formula.ravel(), np.outer(inputs[i], cotangents[i]).ravel()))
    sizes, outputs = [np.linalg.norm(part) for part, _ in found], [np.sum(seen.q(k) * seen.x(k), 1) for k in seen.steps]
    return conclude(
        identity("entries", *sides(found)),
        identity("‖∇f‖ = θ‖x_(l-1)‖‖Σ_l q_l‖", sizes, gradient_norms(seen)[:2].T.ravel()),
        identity("f = <q_l, x_l> for every l", outputs, automatic.outputs),
    )


@statement("The gradient of the loss as a mean of gradients of the output", "exact")
def eq_34(lab: Lab) -> Check:
    r"""$\nabla_{W_l} L_S = \frac1n\sum_i \ell'(y_i f_i)\, y_i\, \nabla_{W_l} f(x_i)$, against the step that
    training takes.
    """
    width = lab.widths[0]
    before, after = lab.trained(width, 1, 0), lab.trained(width, 1, 1)
    taken = [(a - b) * width / lab.rate for a, b in zip(before.weights, after.weights, strict=True)]
    closed = loss_gradients(before, lab.data().y)
    flat = [np.concatenate([g.ravel() for g in gradients]) for gradients in (closed, taken)]
    return conclude(identity("closed form against (W_0 - W_1)/η", *flat))


@statement("Gradients of the loss are at most C √m E_S, a factor θ less in residual layers", "scale")
@misprint("conditions rebuilt from the proof")
def lemma_4_4(lab: Lab) -> Check:
    r"""$\|\nabla_{W_l} L_S(\tilde W)\|_F \le C\,\theta^{1(2\le l\le L)}\sqrt m\, \mathcal E_S(\tilde W)$ for
    weights near the start.
    """
    y, theta = lab.data().y, lab.network(lab.widths[0]).theta
    ratios = np.array([[_gradient_ratios(lab, m, s) for m in lab.widths] for s in lab.seeds])

    def attacked(depth: int, seed: int) -> tuple[float, float, float]:
        seen = lab.moved(64, seed, "attack", 0.1, depth)
        error = surrogate_error(y * seen.outputs)
        sizes = np.array([np.linalg.norm(g) for g in loss_gradients(seen, y)])
        largest = gradient_norms(seen)[:, sizes.argmax()].max()
        return max(sizes[0], sizes[-1]) / error, sizes.max(), largest * error

    by_depth, left, right = lab.over(DEPTHS, 2 * len(lab.many), attacked)
    return conclude(
        scales("first and last layer over E_S, runs", "m", lab.widths, ratios[:, :, [0, -1]].max(axis=2), 0.5),
        scales("residual layers over θ E_S, runs", "m", lab.widths, ratios[:, :, 1:-1].max(axis=2) / theta, 0.5),
        scales("first and last layer over E_S, attacked weights", "L", DEPTHS, by_depth, 0.0),
        at_most("‖∇L_S‖ <= max_i ‖∇f(x_i)‖·E_S", left, right),
        at_most(
            "residual layers over θ√m E_S <= 1", ratios[:, :, 1:-1].max(axis=2) / (theta * np.sqrt(lab.widths)), 1.0
        ),
        assumptions=["C = 1"],
    )


def _gradient_ratios(lab: Lab, width: int, seed: int) -> np.ndarray:
    """Return the largest ‖∇_l L_S‖/E_S over a run, by layer."""
    records = lab.run(width, seed).records
    norms = np.stack([records[f"gradient.W{layer}"] for layer in range(1, lab.depth + 2)], axis=1)
    return (norms / records["surrogate"][:, None]).max(axis=0)


class Units(NamedTuple):
    """The last units at moved weights: g_j (start's activations, current slopes), gradients, large and flipped
    units.
    """

    error: float
    g: np.ndarray
    gradients: np.ndarray
    large: np.ndarray
    flipped: np.ndarray


def units(lab: Lab, moved: Pass, start: Pass, margin: float) -> Units:
    r"""Return $g_j$, $\nabla_{w_j} L_S$, $A = \{\|g_j\|^2 \ge \gamma^2\mathcal E_S^2/134\}$ and the units that flip
    for any example.
    """
    y = lab.data().y
    slopes = expit(-y * moved.outputs)
    g = unit_gradients(start, y, slopes)
    last = start.depth + 1
    large = np.square(g).sum(axis=1) >= (margin * slopes.mean()) ** 2 / 134
    flipped = (moved.mask(last) != start.mask(last)).any(axis=0)
    return Units(float(slopes.mean()), g, unit_gradients(moved, y, slopes), large, flipped)


@kept
def trained_units(lab: Lab, width: int, seed: int, steps: int) -> Units:
    """Return the last units at an iterate."""
    return units(lab, lab.trained(width, seed, steps), lab.trained(width, seed, 0), lab.margin())


@kept
def near_units(lab: Lab, seed: int, radius: float, family: str = "attack") -> Units:
    """Return the last units at perturbed weights within a radius, at one width."""
    width = lab.start_widths[2]
    return units(lab, lab.moved(width, seed, family, radius), lab.at_start(width, seed), lab.margin())


def iterates(lab: Lab) -> list[tuple[int, int, int]]:
    """Return width, seed and step of the iterates that are looked at."""
    return [(m, s, k) for m in lab.widths for s in lab.seeds for k in lab.snapshots]


@statement("The squares of the unit vectors g_j add up to at least m γ² E_S²/67", "bound")
def eq_27(lab: Lab) -> Check:
    r"""$\sum_j \|g_j\|^2 \ge \frac1{67} m\gamma^2 \mathcal E_S(\tilde W)^2$."""
    seen = [(m, trained_units(lab, m, s, k)) for m, s, k in iterates(lab)]
    left = [np.square(u.g).sum() / (m * u.error**2) for m, u in seen]
    return conclude(
        at_least("Σ‖g_j‖²/(m E_S²) along runs", left, lab.margin() ** 2 / 67),
        hypotheses=width_conditions(lab, lab.widths[-1], margin=lab.margin()),
    )


@statement("No unit vector g_j is longer than 1.02 E_S", "bound")
def eq_28(lab: Lab) -> Check:
    r"""$\|g_j\| \le 1.02\, \mathcal E_S(\tilde W)$ for every last unit."""
    left = [np.linalg.norm(u.g, axis=1).max() / u.error for u in (trained_units(lab, *at) for at in iterates(lab))]
    near = [np.linalg.norm(u.g, axis=1).max() / u.error for u in (near_units(lab, s, 0.1) for s in lab.draws)]
    return conclude(at_most("largest ‖g_j‖/E_S", left + near, 1.02))


@statement("A share γ²/141 of the last units has a long g_j", "bound")
def eq_29(lab: Lab) -> Check:
    r"""At least $\frac1{141} m\gamma^2$ last units have $\|g_j\|^2 \ge \gamma^2\mathcal E_S^2/134$."""
    left = [trained_units(lab, *at).large.sum() for at in iterates(lab)]
    return conclude(at_least("|A|", left, [m * lab.margin() ** 2 / 141 for m, _, _ in iterates(lab)]))


@statement("At most C τ^(2/3) m last units flip, for one example", "scale")
@misprint("needed for all examples at once, where it may be n times as many")
def eq_30(lab: Lab) -> Check:
    r"""$|A'| = \|\tilde\Sigma_{L+1} - \Sigma_{L+1}\|_0 \le C\tau^{2/3} m$ last units flip, for one example at a
    time.
    """
    last = lab.depth + 1

    def shares(width: int, seed: int) -> tuple[float, float]:
        now, then = lab.trained(width, seed).mask(last), lab.trained(width, seed, 0).mask(last)
        size = width * lab.radius(width, seed) ** (2 / 3)
        return flips(now, then).max() / size, union_of_flips(now, then) / size

    ratios, together = lab.over(lab.widths, lab.seeds, shares)
    return conclude(
        *flip_slopes(lab, (last,)),
        scales("trained: flips of one example over m τ^(2/3)", "m", lab.widths, ratios, 0.0),
        assumptions=["an example at a time; the proof then uses the set for all examples at once"],
        note=f"for all {lab.n} examples at once the constant is {np.max(together):.2f}, for one {np.max(ratios):.2f}",
    )


@statement("A share γ²/150 of the last units has a long g_j and does not flip", "bound")
@misprint("inherits the set of one example")
def eq_31(lab: Lab) -> Check:
    r"""At least $\frac1{150} m\gamma^2$ units are large and flip for no example, as the proof needs it."""
    radius, last = lab.margin() ** 3, lab.depth + 1
    inside = [near_units(lab, s, radius, family) for s in lab.draws for family in ("attack", "random")]
    found = []
    for width, seed, step in iterates(lab):
        at = trained_units(lab, width, seed, step)
        changed = lab.trained(width, seed, step).mask(last) != lab.trained(width, seed, 0).mask(last)
        one = (at.large & ~changed).sum(axis=1).min()
        found.append((one, width * lab.margin() ** 2 / 150, (at.large & ~at.flipped).mean()))
    one, limits, union = sides(found)
    kept = [(u.large & ~u.flipped).sum() for u in inside]
    return conclude(
        at_least("|A∖A'| at τ = γ³", kept, lab.start_widths[2] * lab.margin() ** 2 / 150),
        at_least("|A∖A'| along runs, for one example", one, limits),
        assumptions=["at τ = γ³ the set A' holds the units that flip for any example: an attack, a random direction"],
        note=f"along runs, beyond γ³, units that flip for no example are {np.min(union):.0%} of all at least",
    )


@statement("Where nothing flips, unit gradients differ from g_j by at most C τ E_S", "scale")
@misprint("σ is printed for its derivative")
def eq_32(lab: Lab) -> Check:
    r"""On units that do not flip, $\|g_j\| - \|\nabla_{w_j} L_S(\tilde W)\| \le C\tau\,\mathcal E_S(\tilde W)$."""
    radii, width = (0.003, 0.01, 0.03, 0.1), lab.start_widths[2]

    def changes(radius: float, seed: int) -> tuple[float, float, float]:
        found = near_units(lab, seed, radius, "random")
        kept = ~found.flipped
        gap = (np.linalg.norm(found.g, axis=1) - np.linalg.norm(found.gradients, axis=1))[kept].max() / found.error
        move = np.linalg.norm(found.g - found.gradients, axis=1)[kept].max() / found.error
        return move, gap, _drift(lab, lab.moved(width, seed, "random", radius), lab.at_start(width, seed))

    moves, left, right = lab.over(radii, lab.draws, changes)
    return conclude(
        scales("‖g_j - ∇_j‖/E_S on units that do not flip", "τ", radii, moves, 1.0, sense="at least"),
        at_most("(‖g_j‖ - ‖∇_j‖)/E_S <= max_i ‖x̃_L - x_L‖", left, right),
        assumptions=["a random direction in every layer; units that flip for any example are left out"],
    )


def _drift(lab: Lab, moved: Pass, start: Pass) -> float:
    return np.linalg.norm(moved.x(lab.depth) - start.x(lab.depth), axis=1).max()


@statement("There, unit gradients are at least γ E_S/16", "bound")
@misprint("the condition on τ lacks a factor γ")
def eq_33(lab: Lab) -> Check:
    r"""$\|\nabla_{w_j} L_S(\tilde W)\| \ge \frac1{16}\gamma\,\mathcal E_S(\tilde W)$ on large units that do not
    flip.
    """
    gap = lab.margin() * (134**-0.5 - 1 / 16)
    radius, width = gap / 2, lab.start_widths[2]
    found = [near_units(lab, seed, radius) for seed in lab.draws]
    sizes = [np.linalg.norm(u.gradients[u.large & ~u.flipped], axis=1).min() / u.error for u in found]
    drifts = [_drift(lab, lab.moved(width, s, "attack", radius), lab.at_start(width, s)) for s in lab.draws]
    return conclude(
        at_least("least ‖∇_j‖/E_S on A∖A'", sizes, lab.margin() / 16),
        hypotheses=[at_most("C_3 τ <= γ(134^-½ - 1/16), C_3 τ = max_i ‖x̃_L - x_L‖", drifts, gap)],
        assumptions=[f"attack on every layer with τ = {radius:.2g}"],
    )


@statement("The last layer's gradient is at least γ² √(m/38400) times the surrogate error", "bound")
@misprint("the set of flipped units belongs to one example and is used for all")
def lemma_4_3(lab: Lab) -> Check:
    r"""$\|\nabla_{W_{L+1}} L_S(\tilde W)\|_F^2 \ge \frac1{38400} m\gamma^4\mathcal E_S(\tilde W)^2$ near the start.

    A shorter proof gives $m\,\bar s^2\tilde\gamma_L^2\mathcal E_S^2$ for any weights, with the least share $\bar s$ of
    active last units and the margin $\tilde\gamma_L$ of the last hidden layer: $\gamma^2$ in place of $\gamma^4$.
    """
    rhos = (0.1, RHO, 0.9)
    least = [[last_ratio(lab, lab.widths[1], s, rho) for rho in rhos] for s in lab.draws]
    along = [[last_ratio(lab, m, s) for m in lab.widths] for s in lab.seeds]
    margins = [lab.margin(rho) for rho in rhos]
    found = []
    for width, seed, step in iterates(lab):
        seen, y = lab.trained(width, seed, step), lab.data().y
        error = surrogate_error(y * seen.outputs)
        share = seen.mask(seen.depth + 1).mean(axis=1).min()
        square = np.square(loss_gradients(seen, y)[-1]).sum() / (width * error**2)
        found.append((square, (share * layer_margin(seen.x(seen.depth), y)) ** 2))
    return conclude(
        at_least("‖∇_(L+1) L_S‖²/(m E_S²) along runs", least, np.array(margins) ** 4 / 38400),
        at_least("the same >= (share of active units · margin of the layer)²", *sides(found)),
        scales("least ratio along runs", "γ", margins, least, 4.0, lower=True),
        scales("least ratio along runs", "m", lab.widths, along, 0.0, sense="at least"),
        hypotheses=[
            at_most("τ <= γ³", lab.radius(lab.widths[-1], 0), lab.margin() ** 3),
            *width_conditions(lab, lab.widths[-1], margin=lab.margin()),
        ],
        assumptions=["the radius of the runs is far beyond γ³; the bound holds there all the same"],
    )


def last_ratio(lab: Lab, width: int, seed: int, rho: float = RHO) -> float:
    """Return the least ‖∇_(L+1) L_S‖²/(m E_S²) over a run."""
    records = lab.run(width, seed, rho).records
    return float((records[f"gradient.W{lab.depth + 1}"] ** 2 / (width * records["surrogate"] ** 2)).min())
