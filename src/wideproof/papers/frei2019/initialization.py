"""The network at its start: norms of weights, layers and residual products; its outputs and gradients."""

from __future__ import annotations

import itertools

import numpy as np

from wideproof.monitors import spectral_norm
from wideproof.monitors.residual import Pass, gradient_norms, interlayer, logistic_loss, residual_pass
from wideproof.papers.check import Check, at_least, at_most, conclude, identity, often, scales, sides
from wideproof.papers.frei2019.hypotheses import width_conditions
from wideproof.papers.frei2019.joint import AT_START, STRETCH, drawn, stretched
from wideproof.papers.frei2019.lab import Lab
from wideproof.papers.statement import Section, misprint
from wideproof.papers.study import kept

statement = Section("initialization", "resnet_relu")

DEPTHS = (2, 4, 8, 16, 32)


def norms(seen: Pass) -> np.ndarray:
    r"""Return $\|x_l\|$ for $l = 1..L+1$, `(n, L + 1)`."""
    return np.stack([np.linalg.norm(seen.x(layer), axis=1) for layer in seen.steps], axis=1)


def circle(lab: Lab, count: int) -> np.ndarray:
    """Return a net of the circle, embedded in the lab's input space: for two input dimensions it stands for all."""
    angles = 2 * np.pi * np.arange(count) / count
    return np.column_stack([np.cos(angles), np.sin(angles), np.zeros((count, lab.input_dim - 2))])


def largest_norms(lab: Lab, depth: int, seed: int) -> float:
    """Return the largest layer norm over a net of the circle, at one large width."""
    return float(norms(lab.in_law(2**10, seed, circle(lab, 8), depth, 0.2)).max())


@kept
def interlayer_norms(lab: Lab, width: int, depth: int, seed: int) -> tuple[float, float]:
    r"""Return $\|H_2^L\|_2$ and $\|H_2^{L+1}\|_2$ for the first training input."""
    seen = lab.at_start(width, seed, depth, 0.2)
    return interlayer(seen, 2, depth).norm(), interlayer(seen, 2, depth + 1).norm()


def depth_slopes(lab: Lab) -> list[Check]:
    """Fit how layer norms and residual products depend on the depth: they should not."""
    layer = [[largest_norms(lab, depth, s) for depth in DEPTHS] for s in lab.draws]
    inner = [[interlayer_norms(lab, 64, depth, s) for depth in DEPTHS] for s in lab.draws]
    return [
        scales("largest ‖x_l‖", "L", DEPTHS, layer, 0.0),
        scales("‖H_2^L‖", "L", DEPTHS, np.array(inner)[:, :, 0], 0.0),
        scales("‖H_2^(L+1)‖", "L", DEPTHS, np.array(inner)[:, :, 1], 0.0),
    ]


@statement("Layers and products of residual factors keep their size, whatever the depth", "scale")
@misprint("conditions rebuilt from the proof")
def lemma_4_1(lab: Lab) -> Check:
    r"""Layers and interlayer matrices are bounded free of depth: $C_1 \le \|x_l\| \le C_2$,
    $\|H_l^{l'}\|_2 \le C_2$.
    """
    net = circle(lab, 12)
    wide = norms(lab.in_law(2**14, 0, net))
    start = lab.at_start(128, 0, 8, 0.2)
    sharp = np.exp(0.2 * max(start.weight_norms[1:-1]))
    widths = lab.some(lab.start_widths, stop=3)
    inner = [[interlayer_norms(lab, width, 4, s)[1] for width in widths] for s in lab.many]
    rises = max(float((start.x(1) - start.x(layer)).max()) for layer in range(2, start.depth + 1))
    return conclude(
        AT_START.check(lab, "4.1, below", "4.1, above", "4.1, products"),
        at_most("‖x_l‖ <= 1.1", wide, 1.1),
        at_least("‖x_l‖ >= 0.9", wide, 0.9),
        at_most("entries only grow from layer to layer", rises, 0.0),
        at_most("‖H_2^L‖ <= exp(θL max‖W_l‖)", interlayer(start, 2, 8).norm(), sharp),
        at_most(
            "‖H_2^(L+1)‖ <= 3", [[interlayer_norms(lab, 64, depth, s)[1] for depth in DEPTHS] for s in lab.draws], 3
        ),
        scales("‖H_2^(L+1)‖", "m", widths, inner, 0.0),
        *depth_slopes(lab),
        hypotheses=width_conditions(lab, 2**14),
        assumptions=["C_1 = 0.9, C_2 = 1.1 for layers and 3 for products", "all inputs: a net of a great circle"],
    )


@statement("Spectral norms of all weight matrices stay below a constant", "bound")
def lemma_b_1(lab: Lab) -> Check:
    r"""Weight matrices are bounded, $\|W_l\|_2 \le C$ for all $l$, with probability $1 - \delta$.

    With the constant of Gaussian matrices, $\sqrt{2/m}(\sqrt m + \sqrt{m_{l-1}} + \sqrt{2\log(2(L+1)/\delta)})$.
    """
    delta, network = lab.failure_prob, lab.network(32)
    sizes = network.sizes()
    deviation = np.sqrt(2 * np.log(2 * (network.depth + 1) / delta))
    limits = np.array([np.sqrt(2 / b) * (np.sqrt(a) + np.sqrt(b) + deviation) for a, b in itertools.pairwise(sizes)])
    trials = lab.pick(40, 100, 400)
    measured = np.array([[spectral_norm(w) for w in lab.start(network, 1000 + s).values()] for s in range(trials)])
    widths, wide = np.array(lab.start_widths), [max(lab.at_start(m, 0).weight_norms) for m in lab.start_widths]
    return conclude(
        often("all layers within the limit", (measured <= limits).all(axis=1), 1 - delta),
        at_most("‖W_l‖ <= 2√2 + √(4 log(2(L+1)/δ)/m)", wide, 2 * np.sqrt(2) + deviation * np.sqrt(2 / widths)),
        at_least("square layers come near 2√2", wide, 2.5),
    )


@statement("Products of residual factors with arbitrary diagonals of norm 1 are at most exp(C θ L)", "bound")
@misprint("the number 1.01 asks for θL below 0.0035")
def lemma_b_2(lab: Lab) -> Check:
    r"""$\|\prod_{r=b}^a (I + \theta \tilde\Sigma_r W_r^\top)\|_2 \le \exp(C\theta L) \le 1.01$ for all diagonals
    $\|\tilde\Sigma_r\| \le 1$.

    With $C = 2\sqrt2\cdot1.1$, a tenth above the limit of $\|W_r\|$, for all widths, depths and $\theta L$; the number
    1.01 then needs $\theta L \le \log 1.01/(2\sqrt2) = 0.0035$.
    """
    found = []
    for theta_depth in (0.0035, 0.2, 1.0):
        for draw in lab.draws:
            one = drawn(lab, (64, 6, theta_depth), draw)
            found.append((stretched(one), STRETCH * one.length, theta_depth))
    logs, limits, scale = sides(found)
    return conclude(
        AT_START.check(lab, "B.2"),
        at_most("log of products <= 2√2·1.1 θL", logs, limits),
        at_most("products <= 1.01 at θL = 0.0035", np.exp(logs[scale == 0.0035]), 1.01),
        assumptions=["diagonals: the activation patterns, random 0/1, random signs, and signs chosen to stretch most"],
    )


@statement("Two inputs are carried to layers at most C times as far apart", "bound")
@misprint("the proof writes a difference of patterns where a sum is meant; it needs no more width than Lemma B.1")
def lemma_b_3(lab: Lab) -> Check:
    r"""Layers are Lipschitz in the input: $\|x_l - x_l'\| \le C \|x - x'\|$, with

    $C = \|W_1\| \prod_{r=2}^{\min(l,L)} (1 + \theta\|W_r\|) \cdot \|W_{L+1}\|^{1(l = L+1)}$ for any weights.
    """
    base = lab.inputs(24)
    near = base + 1e-3 * lab.rng("near").standard_normal(base.shape)
    near /= np.linalg.norm(near, axis=1, keepdims=True)
    x, other = np.concatenate([base, base[:12]]), np.concatenate([near, base[12:]])
    gap = np.linalg.norm(x - other, axis=1)

    def largest(depth: int, seed: int) -> tuple[float, float]:
        network = lab.network(64, depth, 0.2)
        one, two = (residual_pass(network, lab.start(network, seed), points) for points in (x, other))
        sizes = one.weight_norms
        growth = np.cumprod([sizes[0], *(1 + network.theta * s for s in sizes[1:-1]), sizes[-1]])
        measured = np.stack([np.linalg.norm(one.x(k) - two.x(k), axis=1) / gap for k in one.steps], axis=1)
        return (measured / growth).max(), measured.max()

    ratios, by_depth = lab.over(DEPTHS, lab.many, largest)
    return conclude(
        at_most("ratio of distances over its certified limit", ratios, 1.0),
        scales("largest ratio of distances", "L", DEPTHS, by_depth, 0.0),
        assumptions=["pairs: 24 at distance 0.001·√d and 12 far apart"],
    )


@statement("On a net of inputs no layer is longer than 1.02", "bound")
def eq_13(lab: Lab) -> Check:
    r"""$\|x_l\|_2 \le 1.02$ for all layers and all inputs of a net."""
    width = lab.pick(2**16, 2**18, 2**20)
    measured = norms(lab.in_law(width, 0, circle(lab, 8), None, 0.01))
    return conclude(
        at_most("‖x_l‖ <= 1.02", measured, 1.02),
        hypotheses=width_conditions(lab, width),
        assumptions=[f"m = {width}, θL = 0.01, a net of 8 inputs; ‖x_1‖ has standard deviation √(5/4m)"],
    )


@statement("On a net of inputs no layer is shorter than 1 - C √(d log/m); residual layers only add", "scale")
def eq_14(lab: Lab) -> Check:
    r"""$\|x_l\| \ge 1 - C\sqrt{d\log(3m/\tau_0\delta)/m}$ for $l \le L$, and
    $\|x_{L+1}\|^2 \ge \|x_L\|^2 - C\sqrt{d \log/m}$.
    """
    widths, net = lab.law_widths, circle(lab, 8)

    def short(width: int, draw: int) -> tuple[float, float]:
        seen = [norms(lab.in_law(width, 100 * draw + s, net)) for s in range(12)]
        lost = [np.square((s[:, -2] ** 2 - s[:, -1] ** 2).max()) for s in seen]
        return np.sqrt(np.mean([np.square(1 - s[:, 0].min()) for s in seen])), np.sqrt(np.mean(lost))

    first, last = lab.over(widths, lab.many, short)
    one = lab.in_law(widths[-1], 0, net)
    rises = [(one.x(1) - one.x(layer)).max() for layer in range(2, one.depth + 1)]
    return conclude(
        scales("1 - min‖x_1‖", "m", widths, first, -0.5),
        scales("max(‖x_L‖² - ‖x_(L+1)‖²)", "m", widths, last, -0.5),
        at_most("x_l >= x_1, entry by entry", rises, 0.0),
        assumptions=["a net of 8 inputs; root mean square over 12 networks in each draw"],
    )


@statement("The loss at the start is at most C √log(n/δ)", "scale")
@misprint("the norm of x_(L+1) stands where that of x_L is meant")
def eq_8(lab: Lab) -> Check:
    r"""$|f_{W^{(0)}}(x_i)| \le C\sqrt{\log(n/\delta)}$ for all $i$, hence $L_S(W^{(0)}) \le C\sqrt{\log(n/\delta)}$.

    Given $x_L$ the output is a sum of $m$ independent terms of variance $(1 - 1/\pi)\|x_L\|^2$ in all.
    """
    delta, trials, n = lab.failure_prob, lab.pick(100, 200, 400), 24
    x, y, widths, inside = lab.data().x[:n], lab.data().y[:n], lab.law_widths, []
    for seed in range(trials):
        seen = lab.in_law(64, 500 + seed, x)
        spread = np.sqrt(1 - 1 / np.pi) * np.linalg.norm(seen.x(seen.depth), axis=1)
        inside.append((np.abs(seen.outputs) <= spread * np.sqrt(2 * np.log(2 * n / delta))).all())

    def means(width: int, draw: int) -> tuple[float, float]:
        outputs = [lab.in_law(width, 100 * draw + s, x[:8]).outputs for s in range(12)]
        losses = [logistic_loss(y[:8] * f) for f in outputs]
        return float(np.mean([np.abs(f).max() for f in outputs])), float(np.mean(losses))

    largest, loss = lab.over(widths, lab.many, means)
    return conclude(
        AT_START.check(lab, "8"),
        often("max|f_0| <= √(2·0.682 log(2n/δ))·‖x_L‖", inside, 1 - delta),
        scales("max_i |f_0(x_i)|", "m", widths, largest, 0.0),
        scales("L_S(W_0)", "m", widths, loss, 0.0),
        at_most("L_S(W_0) <= 1 + √(2·0.7 log(2n/δ))", loss, 1 + np.sqrt(1.4 * np.log(2 * 8 / delta))),
        assumptions=[f"n = {n}, δ = {delta}, the constant of a Gaussian with the output's variance"],
    )


@Section("gradient", "resnet_relu")(
    "Gradients of the output at the start are at most C √m, a factor θ less in residual layers", "scale"
)
def eq_10(lab: Lab) -> Check:
    r"""$\|\nabla_{W_l} f_{W^{(0)}}\|_F \le C\,\theta^{1(2\le l\le L)} \sqrt m$; the limit is
    $\|x_{l-1}\|\sqrt{m/2}$.
    """
    widths, thetas = lab.start_widths, (0.02, 0.05, 0.1, 0.2)
    by_width = [[gradient_norms(lab.at_start(m, s)).max(axis=0) for m in widths] for s in lab.draws]
    by_depth = [[gradient_norms(lab.at_start(64, s, k, 0.2)).max(axis=0) for k in DEPTHS] for s in lab.draws]
    inner = [[gradient_norms(lab.at_start(64, s, 4, t))[:, 1:-1].max() for t in thetas] for s in lab.many]
    wide = np.array(by_width)
    exact = lab.at_start(widths[0], 0)
    active = np.sqrt(exact.mask(exact.depth + 1).sum(axis=1)) * np.linalg.norm(exact.x(exact.depth), axis=1)
    return conclude(
        AT_START.check(lab, "10"),
        scales("first layer", "m", widths, wide[:, :, 0], 0.5),
        scales("residual layers", "m", widths, wide[:, :, 1:-1].max(axis=2), 0.5),
        scales("last layer", "m", widths, wide[:, :, -1], 0.5),
        scales("residual layers", "θ", thetas, inner, 1.0, sense="at least"),
        scales("first and last layer", "L", DEPTHS, [[max(g[0], g[-1]) for g in row] for row in by_depth], 0.0),
        identity("last layer: ‖x_L‖·√(active units)", gradient_norms(exact)[:, -1], active),
    )
