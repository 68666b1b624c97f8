"""Semi-smoothness: the exact expansion of a change of weights, and the size of what is not linear."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from wideproof.monitors.residual import Pass, interlayer, logistic_loss, loss_gradients, surrogate_error
from wideproof.monitors.residual_moves import (
    attack_remainder,
    certified_remainder,
    last_layer_attack,
    remainder,
    remainder_parts,
    weight_distance,
)
from wideproof.papers.check import Check, at_most, conclude, identity, scales, sides
from wideproof.papers.frei2019.hypotheses import width_conditions
from wideproof.papers.frei2019.lab import Lab
from wideproof.papers.frei2019.perturbation import RADII, pair
from wideproof.papers.statement import Section, misprint

statement = Section("smoothness", "resnet_relu")


def _tilted(moved: Pass, base: Pass, layer: int) -> np.ndarray:
    r"""Return $(\hat\Sigma_l \hat W_l^\top - \tilde\Sigma_l \tilde W_l^\top)\hat x_{l-1}$ of every example."""
    here = moved.mask(layer) * (moved.x(layer - 1) @ moved.weights[layer - 1])
    return here - base.mask(layer) * (moved.x(layer - 1) @ base.weights[layer - 1])


def _carried(base: Pass, layer: int, i: int, vector: np.ndarray) -> np.ndarray:
    r"""Return $\tilde H_{l+1}^{L+1}$ of example `i` times a vector; nothing follows the last layer."""
    return vector if layer == base.depth + 1 else interlayer(base, layer + 1, base.depth + 1, i).apply(vector)


def _three_parts(moved: Pass, base: Pass, layer: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    change = moved.weights[layer - 1] - base.weights[layer - 1]
    flipped = (moved.mask(layer).astype(float) - base.mask(layer)) * moved.u(layer)
    cross = base.mask(layer) * ((moved.x(layer - 1) - base.x(layer - 1)) @ change)
    return flipped, cross, base.mask(layer) * (base.x(layer - 1) @ change)


@statement("The change of the output as a sum over layers, exactly", "exact")
@misprint("two transposes are missing")
def eq_16(lab: Lab) -> Check:
    r"""The change of the output telescopes over the layers:

    $$ f_{\hat W} - f_{\tilde W} = \sum_{l=1}^{L+1} \theta^{1(2\le l\le L)}\, v^\top \tilde H_{l+1}^{L+1}
       (\hat\Sigma_l\hat W_l^\top - \tilde\Sigma_l\tilde W_l^\top)\hat x_{l-1}. $$
    """
    moved, base = pair(lab)
    total = np.zeros(len(base.outputs))
    for layer in base.steps:
        for i, tilted in enumerate(_tilted(moved, base, layer)):
            total[i] += base.scale(layer) * (base.signs @ _carried(base, layer, i, tilted))
    return conclude(identity("f̂ - f̃ against its three groups", moved.outputs - base.outputs, total))


@statement("The last layer's change: units that flip, a product of two changes, a linear part", "exact")
def eq_17(lab: Lab) -> Check:
    r"""The last layer's change is flips, cross and linear part: $(\hat\Sigma - \tilde\Sigma)\hat W^\top\hat x_L +
    \tilde\Sigma\Delta W^\top(\hat x_L - \tilde x_L) + \tilde\Sigma\Delta W^\top\tilde x_L$.
    """
    moved, base = pair(lab)
    last = base.depth + 1
    return conclude(identity("last layer", _tilted(moved, base, last), sum(_three_parts(moved, base, last))))


@statement("A residual layer's change in the same three parts, carried to the output", "exact")
def eq_22(lab: Lab) -> Check:
    r"""The same split inside, in front of it $\tilde H_{l+1}^{L+1}$, for $2 \le l \le L$."""
    moved, base = pair(lab)
    found = []
    for layer in range(2, base.depth + 1):
        parts = _three_parts(moved, base, layer)
        for i, tilted in enumerate(_tilted(moved, base, layer)):
            added = sum(_carried(base, layer, i, part[i]) for part in parts)
            found.append((_carried(base, layer, i, tilted), added))
    return conclude(identity("inner layers", *sides(found)))


@statement("The linear parts are inner products of the change with the gradient", "exact")
@misprint("H is printed with index l, it is l+1")
def eq_25(lab: Lab) -> Check:
    r"""$\theta^{1(2\le l\le L)} v^\top\tilde H_{l+1}^{L+1}\tilde\Sigma_l\Delta W_l^\top\tilde x_{l-1} =
    \mathrm{tr}[\Delta W_l^\top\nabla_{W_l} f_{\tilde W}(x)]$.
    """
    moved, base = pair(lab)
    found = []
    for layer in base.steps:
        change = moved.weights[layer - 1] - base.weights[layer - 1]
        for i in range(len(base.outputs)):
            image = _carried(base, layer, i, base.mask(layer)[i] * (base.x(layer - 1)[i] @ change))
            gradient = base.scale(layer) * np.outer(base.x(layer - 1)[i], base.b(layer)[i])
            found.append((base.scale(layer) * (base.signs @ image), np.trace(change.T @ gradient)))
    return conclude(identity("linear parts", *sides(found)))


def attacked(lab: Lab, width: int, seed: int, radius: float) -> float:
    """Return the remainder that the last-layer attack causes for one input, at a large width."""
    seen = lab.in_law(width, seed, lab.inputs(2))
    last = seen.depth + 1
    values, size = seen.u(last)[0], float(np.linalg.norm(seen.x(seen.depth)[0]))
    return attack_remainder(values, seen.signs, last_layer_attack(values, seen.signs, size, radius))


def remainder_slopes(lab: Lab) -> list[Check]:
    r"""Fit the remainder of the attack: $\tau^{4/3}$ and $\sqrt m$, the exponents of $\tau^{1/3}\sqrt m\,h$ at
    $h = \tau$.
    """
    wide, widths = lab.pick(2**13, 2**15, 2**17), lab.some(lab.law_widths, 1)
    by_radius = [[attacked(lab, wide, s, radius) for radius in RADII] for s in lab.draws]
    by_width = [[attacked(lab, m, s, 0.1) for m in widths] for s in lab.many]
    return [
        scales("remainder under attack", "τ", RADII, by_radius, 4 / 3, sense="at least"),
        scales("remainder under attack at τ = 0.1", "m", widths, by_width, 0.5),
    ]


def _size(width: int, radius: float, h: float) -> float:
    return radius ** (1 / 3) * np.sqrt(width * np.log(width)) * h + np.sqrt(width) * h**2


@statement("The output is linear in the weights up to C τ^(1/3) √(m log m) h + C √m h²", "scale")
@misprint("a transpose is missing and the last layer stands for the first")
def eq_26(lab: Lab) -> Check:
    r"""$|f_{\hat W} - f_{\tilde W} - \sum_l \mathrm{tr}[\Delta W_l^\top\nabla_{W_l} f_{\tilde W}]| \le
    C\tau^{1/3}\sqrt{m\log m}\,h + C\sqrt m\,h^2$, on both sides.
    """
    moved, base = pair(lab)
    parts = remainder_parts(moved, base)
    whole, found = (parts.flips + parts.cross).sum(axis=1), []

    def under_attack(width: int, seed: int) -> float:
        start, now = lab.at_start(width, seed), lab.moved(width, seed, "last", 0.1)
        left = np.abs(remainder(now, start))
        found.append((left, certified_remainder(start, 0.1).remainder))
        return left[0] / _size(width, 0.1, weight_distance(now, start))

    def after_training(width: int, seed: int) -> float:
        now, then = lab.trained(width, seed), lab.trained(width, seed, 0)
        return np.abs(remainder(now, then)).max() / _size(width, lab.radius(width, seed), weight_distance(now, then))

    ratios = lab.over(lab.start_widths, lab.many, under_attack)
    trained = lab.over(lab.widths, lab.seeds, after_training)
    return conclude(
        identity("the remainder is flips and cross parts", remainder(moved, base), whole),
        scales("attacked last layer: remainder over its bound", "m", lab.start_widths, ratios, 0.0),
        scales("trained weights: remainder over its bound", "m", lab.widths, trained, 0.0),
        *remainder_slopes(lab),
        at_most("remainder <= propagated limit", *sides(found)),
        hypotheses=width_conditions(lab, lab.start_widths[-1], 0.1),
        assumptions=["attacks look at one input, with W̃ the start; the limit of the attack is 0.390 ‖x_L‖ √m τ^(4/3)"],
    )


@statement("Near the start, network and loss are linear up to C τ^(1/3) √(m log m) h and C m h²", "scale")
@misprint("one-sided in print, used on both sides; ℓ'' is at most 1/4")
def lemma_4_2(lab: Lab) -> Check:
    r"""Network and loss are semi-smooth: eq. (26), and

    $$ L_S(\hat W) - L_S(\tilde W) \le C\tau^{1/3}\sqrt{m\log m}\,h\,\mathcal E_S(\tilde W) + C m h^2
       + \sum_l \mathrm{tr}[\Delta W_l^\top\nabla_{W_l} L_S(\tilde W)]. $$
    """
    y, found = lab.data().y, []

    def largest(width: int, seed: int) -> float:
        steps = [(lab.stepped(width, seed, k), lab.trained(width, seed, k)) for k in (0, *lab.snapshots)]
        beyond = [_excess(now, then, y) for now, then in steps]
        found.extend([*beyond, _excess(lab.trained(width, seed), lab.trained(width, seed, 0), y)])
        moves = [weight_distance(now, then) for now, then in steps]
        cases = zip(beyond, moves, strict=True)
        return max(left / _loss_size(width, lab.radius(width, seed), h, error) for (left, _, error), h in cases)

    ratios = lab.over(lab.widths, lab.seeds, largest)
    excess, bounds, _ = sides(found)
    return conclude(
        lab.keep("eq 26", lambda: eq_26(lab)),
        at_most("loss excess <= mean(-ℓ'|remainder| + Δ²/8)", excess, bounds),
        scales("steps of gradient descent: loss excess over its bound", "m", lab.widths, ratios, 0.0),
        hypotheses=width_conditions(lab, lab.start_widths[-1], 0.1),
        assumptions=["pairs of weights: steps of gradient descent and the end against the start"],
    )


def _loss_size(width: int, radius: float, h: float, error: float) -> float:
    return radius ** (1 / 3) * np.sqrt(width * np.log(width)) * h * error + width * h**2


def _excess(now: Pass, then: Pass, y: np.ndarray) -> tuple[float, float, float]:
    """Return the loss beyond its linear part, its bound by the remainder and the change, and the surrogate error."""
    gradients = loss_gradients(then, y)
    linear = sum(np.sum((a - b) * g) for a, b, g in zip(now.weights, then.weights, gradients, strict=True))
    left = logistic_loss(y * now.outputs) - logistic_loss(y * then.outputs) - linear
    change = now.outputs - then.outputs
    bound = np.mean(expit(-y * then.outputs) * np.abs(remainder(now, then)) + change**2 / 8)
    return float(left), float(bound), surrogate_error(y * then.outputs)
