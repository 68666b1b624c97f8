r"""Appendices H and I: how far gradient descent and SGD move, and how fast the objective falls in one step."""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np

from wideproof.monitors.recurrent import Factors, Unrolled, backward, objective, unroll
from wideproof.papers.allenzhu2018.lab import SEPARATION, Lab, N, Start, step_limit
from wideproof.papers.check import Check, at_most, conclude, scales
from wideproof.papers.statement import Section, misprint
from wideproof.papers.study import kept

statement = Section("convergence", "rnn")

STEPS = "η = 1/λmax(K) at the start, shorter for minibatches, in place of δ/(ρ^44 m), below 10^-60"
BATCH = 2
TWO = "minibatches of two of the four sequences, all of them in turn; along the runs, a fiftieth of their step"
TARGET = 0.1  # the ε in ϱ
DRAWS, OUTPUTS = 8, 4  # targets and outputs at one start: several of each scatter less than one
FIRST = f"at the start: d = {OUTPUTS}, half the step, the mean over {DRAWS} targets with normal losses"


@statement("Gradient descent stays within ϱ^50/√m of its start", "scale")
def eq_h_1(lab: Lab) -> Check:
    r"""Gradient descent stays close: $\|W^{(t)} - W^{(0)}\|_F \le \varrho^{50}/\sqrt m$ for all $t$."""
    return _distance(lab, None)


@statement("SGD stays within ϱ^50/√m of its start", "scale")
def eq_i_1(lab: Lab) -> Check:
    r"""SGD stays close: $\|W^{(t)} - W^{(0)}\|_F \le \varrho^{50}/\sqrt m$ for all $t$."""
    return _distance(lab, BATCH)


@statement("Averaged over the minibatch, one SGD step takes off a fraction Ω(ηδm/ρ^15) of the objective", "scale")
@misprint("the minibatch gradient needs n²/|S| where n²/|S|² is printed")
def eq_i_2(lab: Lab) -> Check:
    r"""On average over the minibatch, one SGD step reduces the objective by a factor $1 - \Omega(\eta \delta m /
    \rho^{15})$.

    The mean is taken over all samples that the step could have chosen.
    """
    first = [[first_steps(lab, m, seed).fall for m in widths(lab)] for seed in range(48)]
    means = [descent(lab, m, seed, BATCH).means for m in widths(lab) for seed in seeds(lab)]
    return conclude(
        scales("mean relative fall over η at the start, in m", "m", widths(lab), first, 1.0, sense="at least"),
        at_most("E f after the step over f, along the runs", means, 1.0),
        title="expected SGD loss shrinks by 1 − Ω(ηδm/ρ¹⁵) per step",
        assumptions=(STEPS, TWO, FIRST),
    )


@statement("Whatever the minibatch, one SGD step multiplies the objective by at most 1 + O(ρ¹²ηm)", "scale")
def eq_i_3(lab: Lab) -> Check:
    r"""One SGD step multiplies the objective by at most $1 + O(\rho^{12} \eta m)$, whatever the minibatch."""
    changes = [[first_steps(lab, m, seed).change for m in widths(lab)] for seed in range(48)]
    worst = [[descent(lab, m, seed, BATCH).worst for m in widths(lab)] for seed in seeds(lab)]
    limits = lab.over(widths(lab), seeds(lab), lambda m, k: 1 + descent(lab, m, k, BATCH).step * m * rho(lab, m) ** 12)
    return conclude(
        scales("largest relative change over η at the start, in m", "m", widths(lab), changes, 1.0),
        at_most("largest f after the step over f, along the runs", worst, limits),
        title="one SGD step multiplies the loss by at most 1 + O(ρ¹²ηm)",
        assumptions=(STEPS, TWO, FIRST),
    )


class Descent(NamedTuple):
    r"""A run: step size, first objective, largest $\|W^{(t)} - W^{(0)}\|_F$, last objective over first.

    For minibatches of two, over all of them at every tenth step: `means` of $f$ after the step over $f$ before, and
    `worst`, the largest ratio.
    """

    step: float
    first: float
    moved: float
    ratio: float
    means: np.ndarray
    worst: float


class Steps(NamedTuple):
    r"""First steps with minibatches of two: mean of $(1 - E f'/f)/\eta$, and of the largest $|f'/f - 1|/\eta$."""

    fall: float
    change: float


def widths(lab: Lab) -> tuple[int, ...]:
    """Return the widths of the runs."""
    return lab.grid((64, 128, 256), (64, 128, 256, 512), (128, 256, 512, 1024))


def seeds(lab: Lab) -> range:
    """Return the starts of the runs."""
    return range(lab.pick(32, 32, 20))


def rho(lab: Lab, width: int) -> float:
    r"""Return $\rho = n L d \log m$ of the runs."""
    return N * lab.length * float(np.log(width))


def targets(lab: Lab, start: Start, label: int) -> np.ndarray:
    """Return the targets for which the losses at the start are given normal draws, the same for all widths."""
    return start.seen.outputs - lab.rng("losses", label).standard_normal(start.data.y.shape)


def all_steps(seen: Unrolled, y: np.ndarray, step: float) -> np.ndarray:
    r"""Return $f(W - \eta \tfrac{n}{|S|} \sum_{i \in S} \nabla f_i)/f(W)$ for every minibatch $S$ of two."""
    gradient = backward(seen, seen.outputs - y)
    ratios = []
    for chosen in combinations(range(seen.n), BATCH):
        part = Factors(gradient.e[list(chosen)], gradient.h[list(chosen)])
        params = {"W": seen.W - step * seen.n / BATCH * part.matrix(), "A": seen.A, "B": seen.B}
        ratios.append(objective(unroll(params, seen.x).outputs, y))
    return np.array(ratios) / objective(seen.outputs, y)


@kept
def first_steps(lab: Lab, width: int, seed: int) -> Steps:
    """Take the first step for many targets, each minibatch in turn; made once for each start."""
    start = lab.start(width, lab.length, seed, outputs=OUTPUTS)
    step = 0.5 * step_limit(lab.kernel(width, lab.length, seed, outputs=OUTPUTS), start.data.n, BATCH)
    found = np.array([all_steps(start.seen, targets(lab, start, k), step) for k in range(DRAWS)])
    fall = (1 - found.mean(axis=1)) / step
    return Steps(float(fall.mean()), float((np.abs(found - 1).max(axis=1) / step).mean()))


@kept
def descent(lab: Lab, width: int, seed: int, batch: int | None) -> Descent:
    """Train one start, with all samples or with minibatches drawn without replacement; each run is made once."""
    start = lab.start(width, lab.length, seed)
    y, n = start.data.y, start.data.n
    step = step_limit(lab.kernel(width, lab.length, seed), n, batch)
    weight, seen, rng = start.seen.W, start.seen, lab.rng("batches", width, seed)
    moved, first = [0.0], objective(seen.outputs, y)
    means, worst = [], []
    for t in range(lab.pick(60, 100, 300)):
        gradient = backward(seen, seen.outputs - y)
        if batch is not None and t % 20 == 0:
            ratios = all_steps(seen, y, step / 50)
            means.append(ratios.mean())
            worst.append(ratios.max())
        chosen = np.arange(n) if batch is None else rng.choice(n, batch, replace=False)
        part = Factors(gradient.e[chosen], gradient.h[chosen])
        weight = weight - step * n / len(chosen) * part.matrix()
        moved.append(float(np.linalg.norm(weight - start.seen.W)))
        seen = unroll({"W": weight, "A": seen.A, "B": seen.B}, seen.x)
    ratio = objective(seen.outputs, y) / first
    return Descent(step, first, max(moved), ratio, np.array(means), max(worst, default=0.0))


def _distance(lab: Lab, batch: int | None) -> Check:
    def distances(width: int, seed: int) -> tuple[float, float, float]:
        run = descent(lab, width, seed, batch)
        return run.moved, run.moved / np.sqrt(run.first), run.ratio

    moved, relative, ratios = lab.over(widths(lab), seeds(lab), distances)
    varrho = [N * lab.length / SEPARATION * np.log(m / TARGET) for m in widths(lab)]
    return conclude(
        scales("largest ‖W(t) − W(0)‖_F over √f(0), in m", "m", widths(lab), relative, -0.5),
        at_most("largest ‖W(t) − W(0)‖_F", moved, np.array(varrho) ** 50 / np.sqrt(widths(lab))),
        hypotheses=(at_most("last objective over the first", ratios, TARGET),),
        title="iterates stay within ϱ^50/√m of the start",
        assumptions=(STEPS, "minibatches of two sequences" if batch else "all sequences in every step"),
    )
