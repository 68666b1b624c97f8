"""Separability of the hidden layers: one direction that separates all of them, and what it gives to the last units."""

from __future__ import annotations

import numpy as np

from wideproof.monitors.residual import Pass, layer_margin, least_unit_gradients, unit_gradients
from wideproof.papers.check import Check, at_least, at_most, conclude, identity, law, sides
from wideproof.papers.frei2019.hypotheses import width_conditions
from wideproof.papers.frei2019.lab import Lab
from wideproof.papers.statement import Section, misprint
from wideproof.papers.study import kept

statement = Section("initialization", "resnet_relu")
gradient = Section("gradient", "resnet_relu")

BRANCH = float(2 / np.sqrt(np.pi))
"""The limit of (1/√m) Σ_k |w_k·x| for a unit vector: the constant of the drift in Proposition C.5."""


@kept
def direction(lab: Lab, width: int, seed: int) -> tuple[Pass, np.ndarray]:
    r"""Return a wide pass of the training inputs and $\alpha_j = m^{-1/2} c(\sqrt{m/2}\, w_{1,j})$,
    $c(u) = \mathrm{sign}\, u_1$.
    """
    seen = lab.in_law(width, seed, lab.data().x)
    inputs = lab.data().x
    first = np.linalg.lstsq(inputs, seen.u(1), rcond=None)[0]  # the weights, from the values on the inputs
    return seen, np.sign(first[0]) / np.sqrt(width)


def _wide(lab: Lab) -> int:
    return lab.pick(2**13, 2**14, 2**16)


@statement("One direction separates all hidden layers, by γ/2", "bound")
@misprint("the proof gives γ/4 beyond the first layer")
def proposition_c_5(lab: Lab) -> Check:
    r"""One direction $\alpha$, a function of $W_1$, separates every hidden layer:
    $y\langle\alpha, x_l\rangle \ge \gamma/2$.

    The proof has $\gamma/4$ for $l \ge 2$, which is what is used later. With this data the first layer gives
    $\sqrt2\,\gamma$, so that the printed $\gamma/2$ holds with room.
    """
    y, width = lab.data().y, _wide(lab)
    fixed = []
    for seed in lab.draws:
        seen, alpha = direction(lab, width, seed)
        fixed.append([(y * (seen.x(layer) @ alpha)).min() for layer in range(1, seen.depth + 1)])
    best = [
        [layer_margin(seen.x(layer), y) for layer in range(1, seen.depth + 1)]
        for seen in (lab.at_start(256, s, None, t) for s in lab.draws for t in (0.05, 0.2, 1.0))
    ]
    limit = lab.margin() / (4 * BRANCH)
    return conclude(
        at_least("y<α, x_l> >= γ/2, l = 1..L", fixed, lab.margin() / 2),
        at_least("best direction of each layer >= γ/2", best, lab.margin() / 2),
        hypotheses=[
            at_most("θL <= γ/(4·2/√π)", lab.theta_depth, limit),
            *width_conditions(lab, width, margin=lab.margin()),
        ],
        assumptions=[f"m = {width} for the fixed direction, 256 for the best ones (θL = 0.05, 0.2 and 1)"],
    )


@statement("The component of a layer along α, branch by branch", "exact")
@misprint("needs equal widths")
def eq_39(lab: Lab) -> Check:
    r"""$\langle\alpha, x_l\rangle = \langle\alpha, x_1\rangle + \theta\sum_{l'=2}^l \langle\alpha, \Sigma_{l'}
    W_{l'}^\top x_{l'-1}\rangle$.
    """
    found, alpha = [], lab.rng("alpha").standard_normal(64)
    for seen in (lab.at_start(64, 0, 6, theta_depth) for theta_depth in (0.05, 1.0)):
        branches = [(seen.mask(k) * (seen.x(k - 1) @ seen.weights[k - 1])) @ alpha for k in range(2, 7)]
        right = seen.x(1) @ alpha + seen.theta * np.cumsum(branches, axis=0)
        found.append(([seen.x(layer) @ alpha for layer in range(2, 7)], right))
    return conclude(identity("projection on α, branch by branch", *sides(found)))


@statement("A branch adds at most the mean size of its values to the component along α", "bound")
@misprint("needs equal widths")
def eq_40(lab: Lab) -> Check:
    r"""$|\langle\alpha, \Sigma_l W_l^\top x_{l-1}\rangle| \le \sum_k m^{-1/2} |w_{l,k}^\top x_{l-1}|$, about
    $\frac2{\sqrt\pi}\|x_{l-1}\|$.
    """
    found, means = [], []
    for seed in lab.many:
        seen, alpha = direction(lab, lab.pick(2**10, 2**12, 2**14), seed)
        for values in (seen.u(layer) for layer in range(2, seen.depth + 1)):
            sizes = np.abs(values).sum(axis=1) / np.sqrt(values.shape[1])
            found.append((np.abs(np.maximum(values, 0) @ alpha), sizes))
        means.append(found[-1][1][0] / np.linalg.norm(seen.x(seen.depth - 1)[0]))
    return conclude(
        at_most("projection of a branch", *sides(found)),
        law("the right side over ‖x_(l-1)‖ has mean 2/√π", means, BRANCH),
    )


@gradient("Weighted examples have a component of at least γ/4 of their weight along α", "bound")
@misprint("a label too many on the right")
def eq_41(lab: Lab) -> Check:
    r"""$\langle a_i y_i x_{L,i}, \alpha\rangle \ge a_i \gamma/4$ for weights $a_i \ge 0$ (the $y_i$ printed on the
    right is a slip).
    """
    y, found = lab.data().y, []
    for seed in lab.draws:
        seen, alpha = direction(lab, _wide(lab), seed)
        for weights in lab.rng("weights", seed).uniform(0.01, 1, (5, len(y))):
            found.append(((weights * y)[:, None] * seen.x(seen.depth) @ alpha, weights * lab.margin() / 4))
    return conclude(
        at_least("<a y x_L, α> >= a γ/4", *sides(found)),
        hypotheses=width_conditions(lab, _wide(lab), margin=lab.margin()),
    )


@statement("At least 49 percent of the last units are active for every example", "bound")
def eq_42(lab: Lab) -> Check:
    r"""For every example at least 49 % of the last units are active: $\frac1m\sum_j \sigma'(w_{L+1,j}^\top x_{L,i})
    \ge 0.49$.

    The share has standard deviation $1/(2\sqrt m)$ about one half, so the printed number needs $m \gtrsim 5000 \log n$.
    """
    width = lab.pick(2**15, 2**16, 2**18)
    shares = [lab.in_law(width, s, lab.data().x[:12]).mask(lab.depth + 1).mean(axis=1) for s in lab.draws]
    return conclude(
        at_least("share of active units", shares, 0.49),
        law("its mean is one half", np.mean(shares, axis=1), 0.5),
        hypotheses=[at_least("m >= 5000 log n", width, 5000 * np.log(12))],
        assumptions=[f"m = {width}, 12 examples"],
    )


@gradient("Weighted sums over the examples, unit by unit: their squares add up to at least m γ² ā²/67", "bound")
def lemma_b_6(lab: Lab) -> Check:
    r"""$\sum_j \|\frac1n\sum_i a_i y_i \sigma'(w_{L+1,j}^\top x_{L,i})\,x_{L,i}\|^2 \ge \frac1{67} m\gamma^2
    (\frac1n\sum_i a_i)^2$ for all $a$.

    The least ratio over all $a \ge 0$ is a quadratic program, solved exactly.
    """
    y, least, sampled = lab.data().y, [], []
    for width in lab.start_widths:
        for seed in lab.draws:
            seen = lab.at_start(width, seed)
            least.append(least_unit_gradients(seen, y) / width)
            if width == lab.start_widths[0]:
                for weights in (*np.eye(len(y)), *lab.rng("weights", seed).uniform(0, 1, (5, len(y)))):
                    total = np.square(unit_gradients(seen, y, weights)).sum() / (width * weights.mean() ** 2)
                    sampled.append(total / least[-1])
    return conclude(
        at_least("least Σ‖g_j‖²/(m ā²) over all a", least, lab.margin() ** 2 / 67),
        at_least("one-hot and random weights stay above the least", sampled, 1.0, rounding=1e-9),
        hypotheses=width_conditions(lab, lab.start_widths[-1], margin=lab.margin()),
    )
