"""From training to test error: the right-hand side of the bound in four variants, and the sizes of Corollary 3.7."""

from __future__ import annotations

import numpy as np

from wideproof.answers import Answer
from wideproof.monitors.generalization import GeneralizationBound, layer_grams, linear_term, rounded_radius
from wideproof.monitors.residual import residual_pass, surrogate_error
from wideproof.monitors.residual_moves import attack_remainder, certified_remainder, last_layer_attack
from wideproof.papers.check import Check, at_least, at_most, conclude, identity, often, scales
from wideproof.papers.frei2019 import printed
from wideproof.papers.frei2019.convergence import best_error, budgets, first_step, targets
from wideproof.papers.frei2019.initialization import depth_slopes
from wideproof.papers.frei2019.joint import TRAINING
from wideproof.papers.frei2019.lab import Lab
from wideproof.papers.frei2019.smoothness import remainder_slopes
from wideproof.papers.statement import Section, comes_out, misprint
from wideproof.papers.study import kept

statement = Section("generalization", "resnet_relu")

LARGEST_RADIUS = 4.0


@kept
def fresh_signs(lab: Lab, width: int, seed: int) -> np.ndarray:
    r"""Return $y f(x)$ of a trained network on fresh examples from the same distribution."""
    fresh = lab.data(n=lab.pick(2000, 20_000, 100_000), sample="test")
    weights = lab.weights(width, seed, lab.steps)
    return fresh.y[2:] * residual_pass(lab.network(width), weights, fresh.x[2:]).outputs  # two mirror each other


@kept
def bound(lab: Lab, width: int, seed: int) -> GeneralizationBound:
    """Return the right-hand side for a trained network, its radius rounded up on a grid chosen before."""
    start, now = lab.trained(width, seed, 0), lab.trained(width, seed)
    radius, delta = rounded_radius(lab.radius(width, seed), LARGEST_RADIUS, lab.failure_prob)
    last = start.depth + 1
    attacked = []
    for i in range(lab.n):
        values, size = start.u(last)[i], float(np.linalg.norm(start.x(start.depth)[i]))
        attack = last_layer_attack(values, start.signs, size, radius)
        attacked.append(attack_remainder(values, start.signs, attack))
    return GeneralizationBound(
        surrogate=surrogate_error(lab.data().y * now.outputs),
        radius=radius,
        width=width,
        n=lab.n,
        failure_prob=delta,
        linear=linear_term(layer_grams(start), radius, draws=1024).value,
        attacked=float(np.mean(attacked)),
        certified=float(certified_remainder(start, radius).remainder.mean()),
    )


def linear_slopes(lab: Lab) -> list[Check]:
    r"""Fit $I_2$, the complexity of the linearized network at radius 1: $n^{-1/2}$ and $m^{1/2}$."""
    counts, network = (8, 16, 32, 64, 128), lab.network(96)
    data = lab.data(n=max(counts), sample="complexity")

    def one(n: int, seed: int) -> float:
        seen = residual_pass(network, lab.start(network, seed), data.x[:n])
        return linear_term(layer_grams(seen), 1.0, draws=512).value

    def wide(width: int, seed: int) -> float:
        return linear_term(layer_grams(lab.at_start(width, seed)), 1.0, draws=512).value

    by_count, by_width = lab.over(counts, lab.draws, one), lab.over(lab.start_widths, lab.draws, wide)
    return [
        scales("I_2 at τ = 1", "n", counts, by_count, -0.5),
        scales("I_2 at τ = 1", "m", lab.start_widths, by_width, 0.5),
    ]


@statement(
    "Test error is at most 2 E_S + C τ^(4/3) √(m log m) + C τ √(m/n) + C √(log(1/δ)/n), for all weights within τ",
    "scale",
)
@misprint("the proof prints -ℓ' with the wrong sign in the exponent")
@comes_out(
    Answer.UNDECIDED,
    "all four right sides are above 1, so that no test error could exceed them; the order of each term is measured",
)
def theorem_3_6(lab: Lab) -> Check:
    r"""For all weights within $\tau$ of the start, with probability $1 - \delta$,

    $$ P(y f_W(x) < 0) \le 2\mathcal E_S(W) + C\tau^{4/3}\sqrt{m\log m} + C\tau\sqrt{m/n} + C\sqrt{\log(1/\delta)/n}. $$

    Undecided: a right side of at least 1 says nothing about a probability, and at widths that can be trained all are:
    training takes a radius of some $7/\sqrt m$, so that the second term is of order $m^{-1/6}\sqrt{\log m}$ times a
    large constant. Four right-hand sides: every constant 1; the constants measured ($I_2$, and an attack for the
    remainder); explicit statistics; and a proof, with the remainder propagated. The last has no unknown.
    """
    runs = [(m, s) for m in lab.widths for s in lab.draws]
    bounds = [bound(lab, m, s) for m, s in runs]
    signs = [fresh_signs(lab, m, s) for m, s in runs]
    errors = [float((z < 0).mean()) for z in signs]
    twice = [2 * surrogate_error(z) for z in signs]
    last, error = bounds[-1], errors[-1]
    ratios = [linear_term(layer_grams(lab.trained(m, s, 0)), 1.0, draws=1024) for m, s in runs]
    variants = [
        at_most(f"test error <= {name} form", errors, [b.variants()[name] for b in bounds], largest=1.0)
        for name in last.variants()
    ]
    return conclude(
        *variants,
        at_most("2 E_D <= proved form", twice, [b.proved for b in bounds], largest=2.0),
        at_most("test error <= 2 E_D", errors, twice),
        at_most("I_2 <= its bound by traces", [r.value for r in ratios], [r.trace_bound for r in ratios]),
        at_most("bound by traces <= √2 I_2", [r.trace_bound for r in ratios], [np.sqrt(2) * r.value for r in ratios]),
        *linear_slopes(lab),
        *remainder_slopes(lab),
        *printed.trained(lab),
        hypotheses=[
            at_most(f"the {name} form says something: below 1", [b.variants()[name] for b in bounds], 1.0)
            for name in last.variants()
        ],
        assumptions=[
            f"δ = {lab.failure_prob}, radius rounded up on the grid {LARGEST_RADIUS:g}·2^-j",
            f"at m = {last.width}: test error {error:.3f}, 2E_S {2 * last.surrogate:.3f}, I_2 {last.linear:.2f}, "
            f"I_1 between {last.attacked:.2f} and {last.certified:.1f}, right sides "
            + ", ".join(f"{name} {value:.3g}" for name, value in last.variants().items()),
        ],
    )


@statement("Widths, examples and steps after which some iterate errs on at most a share ε", "scale")
@misprint("K needs γ^-8, not γ^-4, at the step size given; m* in A.3 drops the factor d of τ^(-4/3)")
def corollary_3_7(lab: Lab) -> Check:
    r"""Some iterate has test error at most $\varepsilon$, for $n = \tilde O(\gamma^{-8})\varepsilon^{-4}$,
    $m = \tilde\Omega(\mathrm{poly}(\gamma^{-1}))\max(d, \varepsilon^{-14})$,
    $K = \tilde O(\mathrm{poly}(\gamma^{-1}))\varepsilon^{-2}$.

    Steps do not grow with the width and only like a power below 2 of $1/\varepsilon$; nothing grows with the depth; the
    exponents 14 and 4 are what eq. (11) makes of the second and third term.
    """
    errors, epsilon = targets(lab), 0.2
    by_error = [[first_step(lab, lab.widths[-1], s, e) for e in errors] for s in lab.seeds]
    needed = [[max(e**2 * first_step(lab, m, s, e) for e in errors) for m in lab.widths] for s in lab.seeds]
    signs = np.concatenate([fresh_signs(lab, m, s) for m in lab.widths for s in lab.draws])
    small = np.array([0.5, 0.1, 0.01])
    width, count = small**-14, small**-4
    radius = 1 / (small * np.sqrt(width))
    return conclude(
        TRAINING.check(lab, "error"),
        scales("steps to E_S = ε", "1/ε", 1 / errors, by_error, 2.0),
        scales("largest over ε of ε² · steps to E_S = ε", "m", lab.widths, needed, 0.0),
        *depth_slopes(lab),
        often(f"test accuracy at least 1 - ε, ε = {epsilon}", signs >= 0, 1 - epsilon),
        identity("τ^(4/3) √m = ε at m = ε^-14, τ from eq. (11)", radius ** (4 / 3) * np.sqrt(width) / small, 1.0),
        identity("τ √(m/n) = ε at n = ε^-4, τ from eq. (11)", radius * np.sqrt(width / count) / small, 1.0),
        *printed.trained(lab),
        hypotheses=[
            *budgets(lab, lab.widths[-1]),
            at_least("n >= ε^-4", lab.n, epsilon**-4),
            at_least("m >= ε^-14", lab.widths[-1], epsilon**-14),
            at_most("2 E_S <= ε", 2 * best_error(lab, lab.widths[-1], 0, lab.steps), epsilon),
        ],
        assumptions=["constants, logarithms and powers of γ set to 1 in the two identities"],
    )
