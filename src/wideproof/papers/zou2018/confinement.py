"""Section 5: near the start (S)GD converges, and for a while it stays there (Lemmas 5.4 to 5.7)."""

from __future__ import annotations

import numpy as np

from wideproof.monitors.relu import gradients
from wideproof.papers.check import Check, at_least, at_most, conclude, identity, scales, sides
from wideproof.papers.statement import Section, misprint
from wideproof.papers.study import kept
from wideproof.papers.zou2018 import descent, stochastic
from wideproof.papers.zou2018.descent import FIXED_SPEED
from wideproof.papers.zou2018.lab import Lab, Walk, coefficients, margin_loss, subsets

statement = Section("convergence", "relu")


def reaches(walk: Walk, loss: str, fractions: tuple[float, ...] = (0.9, 0.8, 0.7)) -> tuple[list[float], list[float]]:
    r"""Return the times $k\eta$ at which fractions of the first loss are reached, and by when the lemma says so."""
    known, first, n = margin_loss(loss), walk.losses[0], walk.slopes.shape[1]
    g = descent.named_descent(n, walk.end["W1"].shape[1])
    levels = [f * first for f in fractions if (walk.losses <= f * first).any()]
    falls = [descent.fallen(first, np.array([level]), known)[0] for level in levels]
    times = [walk.eta * int(np.argmax(walk.losses <= level)) for level in levels]
    return times, [float(descent.latest(known, first, fall, n, g)) for fall in falls]


@statement("As long as GD stays within τ, enough total step length Kη brings the loss below ε", "scale")
@misprint("the proof prints φ⁹ where φ³ is meant in τ")
def lemma_5_4(lab: Lab) -> Check:
    r"""GD that stays within $\tau$ of the start reaches $L_S \le \epsilon$ once $K\eta$ is large enough."""
    parts = []
    for name in descent.LOSSES:
        for draw, walk in enumerate(descent.walks(lab, name)):
            times, bounds = reaches(walk, name)
            if times:
                parts.append(at_most(f"{name}, start {draw}: time to 90, 80, 70 % of the first loss", times, bounds))
    return conclude(
        *descent.descents(lab),
        *parts,
        assumptions=(FIXED_SPEED, descent.NAMED),
    )


def far_walks(lab: Lab, batch: int | None) -> list[list[Walk]]:
    """Return runs at every width that measure how far they go: starts by widths."""
    steps = lab.pick(12 if batch is None else 24, 100, 1000)
    return [
        [lab.walk(m, k, steps=steps, speed=0.5, batch=batch, norms=True) for m in lab.widths]
        for k in range(lab.pick(14, 14, 14))
    ]


def farthest(walk: Walk) -> np.ndarray:
    r"""Return $\max_l \|W_l^{(k)} - W_l^{(0)}\|_2$ at the steps where it was measured."""
    rows = walk.moved[~np.isnan(walk.moved).any(axis=1)]
    return rows.max(axis=1)


def gains(walk: Walk) -> np.ndarray:
    r"""Return what each step gains of $\eta\|\nabla L_S\|_F^2$, which is 1 for very small steps."""
    return (walk.losses[:-1] - walk.losses[1:]) / (walk.eta * walk.squares)


@kept
def gd_distances(lab: Lab) -> list[Check]:
    r"""Fit the distance from the start, at fixed $\eta m k$ and over $\sqrt{k\eta}$, in $m$ and $k$."""
    table, widths = far_walks(lab, None), lab.widths
    end = np.array([[farthest(walk)[-1] for walk in row] for row in table])
    elapsed = np.array([[walk.eta * (walk.losses.size - 1) for walk in row] for row in table])
    measured = np.flatnonzero(~np.isnan(table[0][1].moved[:, 0]))[1:]
    in_steps = np.array([farthest(row[1])[1:] for row in table])
    found = []
    for walk in (walk for row in table for walk in row):
        good = np.cumprod(gains(walk) >= 0.5).astype(bool)  # while every step so far has gained half
        bound = np.sqrt(2 * walk.eta * np.arange(1, good.size + 1) * (walk.losses[0] - walk.losses[1:]))
        found.append((walk.spread[1:][good], bound[good]))
    return [
        scales("max_l ‖W_l - W_l(0)‖ at fixed ηmk", "m", widths, end, -0.5),
        scales("the same over √(kη)", "m", widths, end / np.sqrt(elapsed), 0.0),
        scales("the same", "k", measured, in_steps, 1.0),
        at_most("distance over all layers <= √(2kη (L_S(0) - L_S(k)))", *sides(found)),
    ]


@statement("GD stays within τ for a total step length T of order τ²φ/(L⁴n³)", "scale")
@misprint("T hides the loss at the start")
def lemma_5_5(lab: Lab) -> Check:
    r"""GD stays near: $\|W_l^{(k)} - W_l^{(0)}\|_2 \le \tau$ while $k\eta \le T$, where $T$ contains $1/L_S(W^{(0)})$.

    From the proof, the distance is at most $\sqrt{2k\eta\, c\, L^4 n^3 L_S(0)/\phi}$; where each step gains half of
    $\eta\|\nabla L_S\|^2$ the explicit form is $\sqrt{2k\eta (L_S(0) - L_S(k))}$.
    """
    gained = [gains(walk) for row in far_walks(lab, None) for walk in row]
    return conclude(
        *gd_distances(lab),
        hypotheses=(at_least("every step gains half of η Σ‖∇‖², for the explicit form", gained, 0.5),),
        assumptions=(FIXED_SPEED, "the explicit form is compared while every step so far has gained half"),
    )


@kept
def unbiased(lab: Lab) -> list[Check]:
    r"""Check $E[G_l \mid W] = \nabla_{W_l} L_S$ by taking every minibatch."""
    seen, data, loss = lab.seen(64), lab.data(), margin_loss("logistic")
    whole = gradients(seen, coefficients(seen, data, loss))
    parts = []
    for batch in (1, 3):
        all_of_them = [gradients(seen, coefficients(seen, data, loss, chosen)) for chosen in subsets(8, batch)]
        mean = [np.mean([found[i] for found in all_of_them], axis=0) for i in range(seen.depth)]
        parts += [identity(f"E G_{i + 1} = ∇L_S, B = {batch}", mean[i], whole[i]) for i in range(seen.depth)]
    return parts


@statement("As long as SGD stays within τ, enough total step length Kη brings the loss below ε", "scale")
@misprint("the number of steps in the proof lacks L⁸")
def lemma_5_6(lab: Lab) -> Check:
    r"""SGD within $\tau$ of the start reaches $L_S \le \epsilon$ with high probability once $K\eta$ is large enough."""
    return conclude(
        *unbiased(lab),
        *stochastic.expected_descent(lab),
        stochastic.expected_elapsed(lab, "logistic"),
        stochastic.expected_elapsed(lab, "huber_hinge"),
        assumptions=(FIXED_SPEED, descent.NAMED),
    )


@kept
def sgd_distances(lab: Lab) -> list[Check]:
    r"""Bound the distance from the start by the sum of gradient norms, and fit it in $m$."""
    table, widths = far_walks(lab, 2), lab.widths
    end = np.array([[farthest(walk)[-1] for walk in row] for row in table])
    elapsed = np.array([[walk.eta * (walk.losses.size - 1) for walk in row] for row in table])
    sums = [[float((walk.eta * walk.gradient.sum(axis=0)).max()) for walk in row] for row in table]
    most = [[float((walk.gradient.max(axis=0) * walk.eta * len(walk.taken)).max()) for walk in row] for row in table]
    growth = [float(walk.losses.max() / walk.losses[0]) for row in table for walk in row]
    return [
        at_most("distance <= η Σ_t ‖G_l(t)‖", end, sums),
        at_most("distance <= kη max_t ‖G_l(t)‖", end, most),
        scales("max_l ‖W_l - W_l(0)‖ / (kη√m)", "m", widths, end / (elapsed * np.sqrt(widths)), 0.0),
        scales("max_l ‖W_l - W_l(0)‖ at fixed ηmk", "m", widths, end, -0.5),
        at_most("sup_k L_S(k)/L_S(0) <= 2", growth, 2.0),
    ]


@statement("SGD stays within τ for a total step length T of order τ/(L²√m)", "scale")
@misprint("the proof of Theorem 4.5 drops B in T, and the proof of the lemma names both of its cases α0 < ∞")
def lemma_5_7(lab: Lab) -> Check:
    r"""SGD stays near: $\|W_l^{(k)} - W_l^{(0)}\| \le \eta\sum_t\|G_l^{(t)}\| \le \tau$ while
    $k\eta \le T = O(L^{-2} m^{-1/2}\tau)$.
    """
    return conclude(*sgd_distances(lab), assumptions=(FIXED_SPEED, "B = 2 of n = 8, logistic loss"))
