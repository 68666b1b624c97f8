"""The main results: GD and SGD drive the training loss to zero (Theorems 4.1 and 4.5 and what follows)."""

from __future__ import annotations

import numpy as np

from wideproof.papers.check import Check, at_least, at_most, conclude, identity, scales
from wideproof.papers.statement import Section, misprint
from wideproof.papers.study import kept
from wideproof.papers.zou2018 import hypotheses, printed
from wideproof.papers.zou2018.lab import Lab, margin_loss, pace
from wideproof.training import Run

statement = Section("convergence", "relu")

LOSSES = ("logistic", "squared_hinge", "huber_hinge", "canonical(0.75)")
BATCH = 2
WIDTH_NOTE = "the widths in the theorem (n^26 L^38 φ^-8 and more) cannot be reached; η = 1/(λm) in place of its step"


def runs(lab: Lab, loss: str, batch: int | None) -> list[Run]:
    """Return trained networks, one per start."""
    draws = lab.pick(3, 5, 8) if batch is None else lab.pick(5, 6, 8)
    return [lab.run(loss, batch, draw, steps_for(lab, loss)) for draw in range(draws)]


def steps_for(lab: Lab, loss: str) -> int:
    """Return enough steps to see the rate."""
    quick = {"logistic": 2000, "squared_hinge": 2500, "huber_hinge": 2500}.get(loss, 4000)
    return quick * lab.pick(1, 4, 20)


def first_below(run: Run, levels: np.ndarray) -> np.ndarray:
    """Return the time (ηm times steps) at which each level is first reached; NaN where it is not."""
    hits = run.records["loss"][:, None] <= levels
    times = run.steps * run.step_size * run.network.widths[0]  # pyright: ignore[reportAttributeAccessIssue]
    return np.where(hits.any(axis=0), times[np.argmax(hits, axis=0)], np.nan)


def epsilon_law(lab: Lab, loss: str, batch: int | None) -> list[Check]:
    r"""Fit the time to reach $\epsilon$ and the loss at a time, over the last two decades of the loss or more.

    The time is a power $2p - 1$ of $1/\epsilon$ and the loss a power $-1/(2p-1)$ of the time; for $p = 1/2$ the time
    beyond a first $\epsilon_0$ is linear in $\log(\epsilon_0/\epsilon)$.
    """
    p, found = margin_loss(loss).p, runs(lab, loss, batch)
    assert p is not None
    lowest = max(float(run.records["loss"].min()) for run in found)
    if p == 0.5:
        levels = np.geomspace(1e-3, max(lowest, 1e-12) * 1.05, 9)
        times = np.array([first_below(run, levels) for run in found])
        wait, decades = times[:, 1:] - times[:, :1], np.log(levels[0] / levels[1:])
        return [scales(f"{loss}: time from 0.001 to ε", "log(0.001/ε)", decades, wait, 1.0)]
    levels = np.geomspace(min(0.2, 30 * lowest), lowest * 1.05, 8)
    times = np.array([first_below(run, levels) for run in found])
    last = int(found[0].steps[-1])
    when = np.unique(np.geomspace(last / 10, last, 8).astype(int))
    losses = np.array([run.records["loss"][np.searchsorted(run.steps, when)] for run in found])
    return [
        scales(f"{loss}: time to reach ε", "1/ε", 1 / levels, times, 2 * p - 1),
        scales(f"{loss}: L_S after k steps", "k", when, losses, -1 / (2 * p - 1)),
    ]


def reached(lab: Lab, loss: str, batch: int | None) -> Check:
    """Compare the last loss with the smallest level asked for."""
    target = 1e-6 if margin_loss(loss).p == 0.5 else 2e-2
    return at_most(f"{loss}: last loss", [run.records["loss"][-1] for run in runs(lab, loss, batch)], target)


def rates(lab: Lab, batch: int | None) -> list[Check]:
    """Train with every loss; the loss reaches every level in time."""
    return [part for loss in LOSSES for part in (reached(lab, loss, batch), *epsilon_law(lab, loss, batch))]


@kept
def as_printed(lab: Lab, batch: int | None) -> list[Check]:
    """Compare a run of each loss with the network, the start and the training that the paper prints."""
    return [part for loss in LOSSES for part in printed.trained(lab, runs(lab, loss, batch)[0], loss)]


def every_step_descends(lab: Lab, loss: str) -> Check:
    r"""Compare successive losses, as (C.6) promises for its much smaller step.

    With $\eta = 1/(\lambda m)$ single steps in which activations flip can raise the loss, by up to 5e-4 of it.
    """
    losses = [run.records["loss"] for run in runs(lab, loss, None)]
    ratios = np.concatenate([(one[1:] / one[:-1])[one[:-1] > 1e-12] for one in losses])
    return at_most(f"{loss}: L_S(k+1)/L_S(k) <= 1 while L_S > 1e-12", ratios, 1 + 1e-9)


def assumptions_of(lab: Lab, stochastic: bool) -> tuple[Check, ...]:
    """Return the checks of the assumptions that the theorems make."""
    checks = (
        hypotheses.assumption_3_1, hypotheses.assumption_3_2, hypotheses.assumption_3_3, hypotheses.assumption_3_4,
        hypotheses.assumption_3_5, hypotheses.assumption_3_6,
    )  # fmt: skip
    return tuple(check(lab) for check in (*checks, *((hypotheses.assumption_4_4,) if stochastic else ())))


@statement(
    "Gradient descent brings the training loss below any ε, after log(1/ε) or ε^{1−2p} times a polynomial", "scale"
)
@misprint("the step size lacks a factor φ; two powers of n in the width for α0 < ∞ and p > 1/2 are exchanged")
def theorem_4_1(lab: Lab) -> Check:
    r"""GD reaches $L_S \le \epsilon$ after a time that grows as $\log(1/\epsilon)$ ($p = 1/2$) or $\epsilon^{1-2p}$."""
    return conclude(
        *rates(lab, None),
        *as_printed(lab, None),
        hypotheses=(*assumptions_of(lab, False), *(every_step_descends(lab, loss) for loss in LOSSES)),
        assumptions=(WIDTH_NOTE, f"losses {', '.join(LOSSES)}; ηm = {', '.join(f'{pace(x):.3g}' for x in LOSSES)}"),
    )


@statement("Stochastic gradient descent brings the training loss below any ε, with high probability", "scale")
@misprint(
    "prints the step size of GD where the proof needs φ n^{2p−7} B²; the width has log² where the proof, for α0 = "
    "∞, prints log"
)
def theorem_4_5(lab: Lab) -> Check:
    r"""SGD reaches $L_S \le \epsilon$ with high probability, after the same times up to a polynomial in $n$."""
    return conclude(
        *rates(lab, BATCH),
        *as_printed(lab, BATCH),
        hypotheses=assumptions_of(lab, True),
        assumptions=(WIDTH_NOTE, f"minibatches of {BATCH} of 8, several seeds of start and minibatches together"),
    )


def _time_to(lab: Lab, width: int, draw: int, n: int = 8, phi: float = 0.3, depth: int = 3) -> float:
    """Time to bring the loss to 80 % of its first value, by linear interpolation between steps."""
    walk = lab.walk(
        width, draw, steps=lab.pick(60, 400, 2000), speed=0.5, data=lab.data(n, phi), depth=depth, until=0.5
    )
    level = 0.8 * walk.losses[0]
    k = int(np.argmax(walk.losses <= level))
    if k == 0:
        return np.nan
    before, after = walk.losses[k - 1], walk.losses[k]
    return 0.5 * (k - 1 + (before - level) / (before - after))


@statement("Polynomial width and steps in n, 1/φ and L suffice, and the price of small ε is at most 1/ε", "scale")
def remark_4_2(lab: Lab) -> Check:
    r"""Width and steps are polynomial in $n$, $1/\phi$ and $L$, and grow with $1/\epsilon$ no faster than linearly."""
    depths, sizes, gaps = (1, 2, 4), (4, 8, 16), np.array([0.05, 0.1, 0.4])
    draws = range(lab.pick(3, 8, 8))
    in_depth = [[_time_to(lab, 128, k, depth=depth) for depth in depths] for k in draws]
    in_n = [[_time_to(lab, 128, k, n) for n in sizes] for k in draws]
    in_phi = [[_time_to(lab, 128, k, phi=gap) for gap in gaps] for k in draws]
    return conclude(
        scales("time mηK to 80 % of the first loss", "L", depths, in_depth, 0.0),
        scales("the same", "n", sizes, in_n, 5.0),
        scales("the same", "1/φ", 1 / gaps, in_phi, 1.0),
        epsilon_law(lab, "logistic", None)[0],
        assumptions=("mηK at fixed ηm; the paper's L⁹ in K comes from its step size",),
    )


def zero_error(lab: Lab, batch: int | None) -> list[Check]:
    r"""Compare when the training error vanishes with when $L_S < \ell(0)/n$, which forces it."""
    parts = []
    for loss in LOSSES:
        found = runs(lab, loss, batch)
        level = margin_loss(loss).at_zero / 8
        errors = [run.records["error"][run.records["loss"] < level].max(initial=0.0) for run in found]
        first_zero = [run.steps[np.argmax(run.records["error"] == 0)] for run in found]
        first_level = [run.steps[np.argmax(run.records["loss"] < level)] for run in found]
        parts += [
            at_most(f"{loss}: error wherever L_S < ℓ(0)/n", errors, 0.0),
            at_most(f"{loss}: first step without error, with L_S < ℓ(0)/n", first_zero, first_level, counts=True),
            at_most(f"{loss}: training error at the end", [run.records["error"][-1] for run in found], 0.0),
            at_most(f"{loss}: last loss < ℓ(0)/n", [run.records["loss"][-1] for run in found], level),
        ]  # fmt: skip
    return parts


@statement("Gradient descent classifies every training example correctly, since L_S < ℓ(0)/n leaves no error", "bound")
def corollary_4_3(lab: Lab) -> Check:
    r"""If $\ell(0) > 0$, GD reaches zero training error: $L_S < \ell(0)/n$ forces $y_i f(x_i) > 0$ for all $i$."""
    return conclude(
        *zero_error(lab, None), *as_printed(lab, None), hypotheses=assumptions_of(lab, False), assumptions=(WIDTH_NOTE,)
    )


@statement("Stochastic gradient descent classifies every training example correctly", "bound")
def corollary_4_6(lab: Lab) -> Check:
    r"""If $\ell(0) > 0$, SGD reaches zero training error."""
    return conclude(
        *zero_error(lab, BATCH),
        *as_printed(lab, BATCH),
        hypotheses=assumptions_of(lab, True),
        assumptions=(WIDTH_NOTE,),
    )


def exponents(p: float, lipschitz: bool, stochastic: bool) -> tuple[float, float]:
    r"""Return the powers of $n$ in width and steps for zero training error ($\epsilon = \ell(0)/n$), from the lemmas.

    `lipschitz` is $\alpha_0 < \infty$. $K\eta m \gtrsim n^e$ by Lemma 5.4 or 5.6; the region has
    $\tau = n^{-9}$; $T = n^{-3}\tau^2$ for GD and $n^{-1} m^{-1/2}\tau$ or $m^{-1/2}\tau$ for SGD; the step is
    $n^{-3}/m$ or $n^{2p-7}/m$.
    """
    e = 5 - 2 * p + max(2 * p - 1, 0)
    e = max(e, 5.0) if lipschitz else e
    if not stochastic:
        return e + 3 + 18, e + 3
    return 2 * (e + 9 + (0 if lipschitz else 1)), e + 7 - 2 * p


@statement("In powers of n, SGD needs between n² and n⁴ times what GD needs for zero training error", "exact")
def remark_4_7(lab: Lab) -> Check:
    r"""For zero training error SGD pays between $n^2$ and $n^4$ over GD, in width and in steps."""
    powers = np.linspace(0.0, 1.0, 11)
    cases = [(p, lipschitz) for p in powers for lipschitz in (False, True)]
    table = np.array([[*exponents(p, b, False), *exponents(p, b, True)] for p, b in cases])
    printed = [_printed(p, b) for p, b in cases]
    extra = table[:, 2:] - table[:, :2]
    return conclude(
        identity("powers of n for width and steps, GD and SGD", table, printed),
        at_least("extra power of n for SGD >= 2", np.round(extra, 12), 2.0, counts=True),
        at_most("extra power of n for SGD <= 4", np.round(extra, 12), 4.0, counts=True),
    )


def _printed(p: float, lipschitz: bool) -> list[float]:
    """The powers of n in the proofs of Theorems 4.1 and 4.5 with ε = ℓ(0)/n."""
    if lipschitz:
        return [26, 8, 28, 12 - 2 * p]
    if p < 0.5:
        return [26 - 2 * p, 8 - 2 * p, 30 - 4 * p, 12 - 4 * p]
    return [25, 7, 28, 11 - 2 * p]
