"""Gradient descent: it stays near the start, its loss falls, and its surrogate error becomes small."""

from __future__ import annotations

import numpy as np

from wideproof.monitors import spectral_norm
from wideproof.monitors.residual import loss_gradients
from wideproof.monitors.residual_moves import weight_distance
from wideproof.papers.check import Check, at_least, at_most, conclude, identity, scales, sides
from wideproof.papers.frei2019 import printed
from wideproof.papers.frei2019.hypotheses import width_conditions
from wideproof.papers.frei2019.joint import TRAINING
from wideproof.papers.frei2019.lab import RHO, Lab
from wideproof.papers.statement import Section, misprint

statement = Section("convergence", "resnet_relu")


def best_error(lab: Lab, width: int, seed: int, steps: int) -> float:
    r"""Return $\min_{k<K} \mathcal E_S(W^{(k)})$."""
    return float(lab.surrogates(width, seed)[:steps].min())


def first_step(lab: Lab, width: int, seed: int, target: float) -> int:
    r"""Return the first $k$ with $\mathcal E_S(W^{(k)}) \le \varepsilon$."""
    below = np.flatnonzero(lab.surrogates(width, seed) <= target)
    if not below.size:
        raise ValueError(f"the run of width {width} and seed {seed} did not reach surrogate error {target}")
    return int(below[0])


def late(lab: Lab) -> np.ndarray:
    """Return numbers of steps over the last part of a run, where the error falls."""
    return np.unique(np.geomspace(lab.steps / 5, lab.steps, 6).astype(int))


def budgets(lab: Lab, width: int) -> list[Check]:
    """The paper's conditions on radius, step size and time, every constant 1, for the runs as they are."""
    margin, logs = lab.margin(), np.log(lab.n / lab.failure_prob)
    radius, step = lab.radius(width, 0), lab.rate / width
    largest = margin**12 * np.log(width) ** -1.5
    return [
        at_most("τ <= γ^12 (log m)^(-3/2)", radius, largest),
        at_most("η <= min(γ^4/m, τ/√m)", step, min(margin**4 / width, radius / np.sqrt(width))),
        at_most("Kη <= τ² γ^4 (log n/δ)^(-1/2)", lab.steps * step, radius**2 * margin**4 / np.sqrt(logs)),
        *width_conditions(lab, width, radius, margin),
    ]


@statement("The weighted length h_k of a step is at most C η √m E_S", "scale")
@misprint("a constant is missing in the sum")
def eq_5(lab: Lab) -> Check:
    r"""$h_k = \eta[\|\nabla_{W_1} L_S\|_2 + \theta\sum_l \|\nabla_{W_l} L_S\|_2 + \|\nabla_{W_{L+1}} L_S\|_2] \le
    C\eta\sqrt m\,\mathcal E_S(W^{(k)})$.
    """
    y, lengths = lab.data().y, []

    def largest(width: int, seed: int) -> float:
        ratios = []
        for step in (0, *lab.snapshots):
            seen = lab.trained(width, seed, step)
            gradients = zip(seen.steps, loss_gradients(seen, y), strict=True)
            length = sum(seen.scale(k) * spectral_norm(gradient) for k, gradient in gradients)
            ratios.append(length / lab.surrogates(width, seed)[step])
            if seed == 0:
                lengths.append((lab.rate / width * length, weight_distance(lab.stepped(width, seed, step), seen)))
        return max(ratios)

    ratios = lab.over(lab.widths, lab.seeds, largest)
    return conclude(
        scales("h_k/(η E_S)", "m", lab.widths, ratios, 0.5),
        identity("h_k is the distance h of two iterates", *sides(lengths)),
        at_most("h_k <= 2 η√m E_S", ratios, 2 * np.sqrt(lab.widths)),
        assumptions=["C = 2"],
    )


@statement("Every step lowers the loss by at least C η m γ^4 E_S²", "scale")
def eq_6(lab: Lab) -> Check:
    r"""$L_S(W^{(k+1)}) - L_S(W^{(k)}) \le -C\eta m\gamma^4\mathcal E_S(W^{(k)})^2$."""
    rhos = (0.1, RHO, 0.9)
    by_width = [[_descent(lab, m, s, RHO).min() for m in lab.widths] for s in lab.seeds]
    by_margin = [[_descent(lab, lab.widths[1], s, rho).min() for rho in rhos] for s in lab.draws]
    margins = np.array([lab.margin(rho) for rho in rhos])
    whole = [[_against_gradient(lab, m, s) for m in lab.widths] for s in lab.seeds]
    return conclude(
        TRAINING.check(lab, "6"),
        scales("least decrease over η m E_S²", "m", lab.widths, by_width, 0.0, sense="at least"),
        scales("least decrease over η m E_S²", "γ", margins, by_margin, 4.0, lower=True),
        at_least("decrease >= η m γ^4 E_S²", by_margin, margins**4),
        at_least("decrease >= half of η‖∇L_S‖²", whole, 0.5),
        hypotheses=budgets(lab, lab.widths[-1]),
        assumptions=["C = 1"],
    )


def _descent(lab: Lab, width: int, seed: int, rho: float) -> np.ndarray:
    """Return (L_k - L_(k+1))/(η m E_k²) at every step."""
    records = lab.run(width, seed, rho).records
    return -np.diff(records["loss"]) / (lab.rate * records["surrogate"][:-1] ** 2)


def _against_gradient(lab: Lab, width: int, seed: int) -> float:
    records = lab.run(width, seed).records
    squares = np.sum([records[f"gradient.W{layer}"] ** 2 for layer in range(1, lab.depth + 2)], axis=0)
    return float((-np.diff(records["loss"]) / (lab.rate / width * squares[:-1])).min())


def targets(lab: Lab) -> np.ndarray:
    """Return surrogate errors that every run reaches."""
    reached = max(best_error(lab, m, s, lab.steps) for m in lab.widths for s in lab.seeds)
    return np.geomspace(0.25, max(reached, 0.02) * 1.05, 4)


@statement("The radius needed for surrogate error ε: C γ^-4 ε^-1 m^(-1/2) √log(n/δ)", "scale")
@misprint("the display before it has γ^-2")
def eq_11(lab: Lab) -> Check:
    r"""The radius that surrogate error $\varepsilon$ takes: $\tau = C\gamma^{-4}\varepsilon^{-1}
    m^{-1/2}\sqrt{\log(n/\delta)}$.
    """
    errors = targets(lab)
    by_width = [[lab.radius(m, s, first_step(lab, m, s, errors[-1])) for m in lab.widths] for s in lab.seeds]
    one = lab.widths[1]
    by_error = [[lab.radius(one, s, first_step(lab, one, s, e)) for e in errors] for s in lab.draws]
    constant = errors[-1] * np.sqrt(lab.widths) * lab.margin() ** 4 / np.sqrt(np.log(lab.n / lab.failure_prob))
    return conclude(
        scales(f"radius at E_S = {errors[-1]:.2g}", "m", lab.widths, by_width, -0.5),
        scales("radius", "1/ε", 1 / errors, by_error, 1.0),
        at_most("τ <= γ^-4 ε^-1 m^(-1/2) √log(n/δ)", np.array(by_width) * constant, 1.0),
        assumptions=["C = 1"],
    )


@statement(
    "Gradient descent keeps within τ of its start and reaches E_S <= C (Kηm)^(-1/2) (log n/δ)^(1/4) γ^-2", "scale"
)
@misprint("conditions rebuilt from the proof, whose sum runs over 1..K where 0..K-1 is meant")
def theorem_3_5(lab: Lab) -> Check:
    r"""Gradient descent stays within $\tau$ of its start, and for some $k < K$
    $\mathcal E_S(W^{(k)}) \le C (K\eta m)^{-1/2} (\log\frac n\delta)^{1/4} \gamma^{-2}$.

    The radius is $\|W_l^{(k)} - W_l^{(0)}\|_F \le C\sqrt{k\eta}\,\gamma^{-2}(\log\frac n\delta)^{1/4}$. The
    conditions on
    $\tau$, $\eta$ and $K\eta$ hold at no width that can be computed; the conclusions are measured without them.
    """
    counts, wide = late(lab), lab.widths[-1]
    errors = [[best_error(lab, wide, s, k) for k in counts] for s in lab.seeds]
    needed = [[_constant(lab, m, s) for m in lab.widths] for s in lab.seeds]
    radii = [[lab.radius(m, s) for m in lab.widths] for s in lab.seeds]
    in_time = [[lab.radius(wide, s, k) for k in lab.snapshots] for s in lab.seeds]
    logs = np.log(lab.n / lab.failure_prob) ** 0.25 / lab.margin() ** 2
    theta = lab.network(wide).theta
    inner = [_inner_movement(lab, wide, s) / theta for s in lab.seeds]
    return conclude(
        TRAINING.check(lab),
        scales("min E_S over k < K", "Kηm", lab.rate * counts, errors, -0.5),
        scales("largest over K of √(Kηm) min E_S", "m", lab.widths, needed, 0.0),
        scales(f"radius at Kηm = {lab.rate * lab.steps:.0f}", "m", lab.widths, radii, -0.5),
        scales("radius", "kη", lab.rate * np.array(lab.snapshots) / wide, in_time, 0.5),
        at_most("min E_S <= (Kηm)^(-1/2) (log n/δ)^(1/4) γ^-2", errors, logs / np.sqrt(lab.rate * counts)),
        at_most(
            "radius <= √(kη) (log n/δ)^(1/4) γ^-2", radii, logs * np.sqrt(lab.rate * lab.steps / np.array(lab.widths))
        ),
        at_most("residual layers move 2θ as far as the first, at most", inner, 2.0),
        *printed.trained(lab),
        hypotheses=budgets(lab, wide),
        assumptions=["C = 1", f"η = {lab.rate:g}/m", "the slope in Kηm over the last 80 % of the steps"],
    )


def _constant(lab: Lab, width: int, seed: int) -> float:
    r"""Return the largest $\sqrt{K\eta m}\,\min_{k<K}\mathcal E_S$: what the theorem bounds for all $K$ at once."""
    best = np.minimum.accumulate(lab.surrogates(width, seed)[:-1])
    return float((best * np.sqrt(lab.rate * np.arange(1, len(best) + 1))).max())


def _inner_movement(lab: Lab, width: int, seed: int) -> float:
    now, then = lab.trained(width, seed), lab.trained(width, seed, 0)
    moved = [float(np.linalg.norm(a - b)) for a, b in zip(now.weights, then.weights, strict=True)]
    return max(moved[1:-1]) / moved[0]
