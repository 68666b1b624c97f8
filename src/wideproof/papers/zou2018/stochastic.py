"""Appendices D and E: one step of stochastic gradient descent, and how its potential fluctuates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from wideproof.papers.check import Check, at_least, at_most, conclude, identity, scales, sides
from wideproof.papers.frozen import DELTA, Clause, Trials
from wideproof.papers.statement import Section, misprint, tool
from wideproof.papers.study import kept
from wideproof.papers.zou2018 import steps as single
from wideproof.papers.zou2018.descent import FIXED_SPEED, NAMED, fallen, latest, named_descent
from wideproof.papers.zou2018.lab import Lab, Walk, grouped, margin_loss, subsets
from wideproof.papers.zou2018.steps import SPEEDS, Enumerated, enumerate_steps

statement = Section("convergence", "relu")
smoothness = Section("smoothness", "relu")

BATCHES = (1, 2, 4)
STARTS = (30, 90, 90)
ENUMERATED = "expectations over minibatches are exact: all of them are taken in turn"


@smoothness("With a minibatch a margin moves by at most order L⁴Mη times the minibatch's mean slope", "scale")
def eq_d_2(lab: Lab) -> Check:
    r"""One SGD step moves each margin by at most $(C L^4 M\eta/B) S_B$, $S_B$ the slopes of its minibatch."""

    def ratio(found: Enumerated) -> float:
        return float((np.abs(found.changes).max(axis=1) / found.slopes).max()) / (found.width * found.eta)

    in_eta, _, in_depth = single.change_is_bounded(lab, 2)
    return conclude(
        in_eta,
        in_depth,
        scales("max_i |Δ_i| / (ηM S_B/B), every example as a minibatch", "m", lab.widths, over_widths(lab, ratio), 0.0),
        assumptions=(FIXED_SPEED, "B = 2 of n = 8, and B = 1"),
    )


@smoothness("With a minibatch a margin moves at least by its linear part, less two remainders", "scale")
def eq_d_3(lab: Lab) -> Check:
    r"""The change is at least its linear part minus
    $(C' L^{17/3}\tau^{1/3} M\eta\sqrt{\log M} + C'' L^9 M^2\eta^2) S_B/B$.
    """
    return conclude(
        *single.remainder_is_small(lab, 2),
        assumptions=(FIXED_SPEED, "B = 2 of n = 8; the remainder in absolute value, τ the distance moved"),
    )


@smoothness("How one step of SGD moves a margin: linear part, upper bound, remainder", "scale")
def lemma_d_1(lab: Lab) -> Check:
    r"""A step of SGD changes each margin by its linear part plus a small remainder: (D.2) and (D.3)."""
    return conclude(eq_d_2(lab), eq_d_3(lab), single.telescoped_change(lab))


@tool("The mean of a random subset of centred numbers has variance at most 1/B of theirs", "exact")
def lemma_d_2(lab: Lab) -> Check:
    r"""For $\sum_i u_i = 0$ and a uniform $B$-subset:
    $E[(\frac1B\sum_{i\in B} u_i)^2] = \frac{n-B}{B(n-1)} E[u_i^2] \le E[u_i^2]/B$.
    """
    found = []
    for n, batch in ((4, 2), (7, 3), (8, 1), (8, 5), (9, 9)):
        u = lab.rng("d2", n).normal(size=n)
        u -= u.mean()
        square = float(np.mean(u**2))
        mean = np.mean([np.mean(u[chosen]) ** 2 for chosen in subsets(n, batch)])
        found.append((mean, (n - batch) / (batch * (n - 1)) * square, square / batch))
    left, exact, bound = sides(found)
    return conclude(
        identity("mean over all subsets", left, exact),
        at_most("<= E[u²]/B", left, bound * (1 + 1e-12), counts=True),
    )


def over_widths(lab: Lab, measure: Callable[[Enumerated], float], alone: bool = False) -> np.ndarray:
    """Measure the step with every single example in turn, at every width; starts `alone` or in groups as rows."""
    rows = lab.over(lab.widths, lab.pick(*STARTS), lambda m, k: measure(enumerate_steps(lab, m, k, 1, 0.3)))
    return rows if alone else grouped(rows)


def over_speeds(lab: Lab, measure: Callable[[Enumerated], float]) -> np.ndarray:
    """Measure the step with every pair of examples in turn, at every step size."""
    return lab.over(SPEEDS, 3, lambda speed, k: measure(enumerate_steps(lab, 128, k, 2, speed)))


@kept
def margin_moments(lab: Lab) -> list[Check]:
    r"""Fit $E\Delta_i^2$ in $\eta$ and, over $M^2\eta^2 S^2/(nB)$, in $m$; bound the minibatch slopes exactly."""

    def moment(found: Enumerated) -> float:
        return float((found.changes**2).mean())

    def ratio(found: Enumerated) -> float:
        return np.sqrt(moment(found) * 8) / (found.width * found.eta * found.total)

    slopes = enumerate_steps(lab, 128, 0, 2, 0.3).slopes
    sizes = np.arange(1, 9)
    squares = [np.mean([slopes[chosen].mean() ** 2 for chosen in subsets(8, int(b))]) for b in sizes]
    return [
        scales("E Δ², mean over examples", "η", SPEEDS, over_speeds(lab, moment), 2.0, sense="at least"),
        scales("√(E Δ² n/B)/(MηS/B), B = 1", "m", lab.widths, over_widths(lab, ratio), 0.0),
        at_most("E[(mean slope of a minibatch)²] <= 2S²/(nB)", squares, slopes.sum() ** 2 / 4 / sizes),
    ]


@statement("The squared margin change bounded by the squared mean slope of the minibatch", "bound")
def eq_d_6(lab: Lab) -> Check:
    r"""$E[\Delta_i^2 \mid W] \le C L^8M^2\eta^2\, E[(\frac1B\sum_{s\in B}|\ell'_s|)^2 \mid W]$ for every $i$."""
    return conclude(single.MINIBATCHES.check(lab, "D.6"), assumptions=(FIXED_SPEED, ENUMERATED))


@statement("The mean squared margin change is at most of order L⁸M²η²S²/(nB)", "scale")
def eq_d_7(lab: Lab) -> Check:
    r"""$E[\Delta_i^2 \mid W] \le (2 C L^8 M^2\eta^2/(nB))\, S^2$."""
    return conclude(single.MINIBATCHES.check(lab, "D.7"), *margin_moments(lab), assumptions=(FIXED_SPEED, ENUMERATED))


@statement("The mean change of the loss: minus the squared gradient, plus two remainders", "scale")
@misprint("the factor S² is missing")
def eq_d_8(lab: Lab) -> Check:
    r"""$E[L_S(k+1) \mid W] - L_S(k) \le -\eta\|\nabla_{W_L} L_S\|_F^2$ plus remainders $\tau^{1/3}\eta$ and
    $\eta^2/(nB)$ times $S^2$.
    """

    def missed(found: Enumerated) -> float:
        left = found.losses.mean() - found.before + found.eta * found.squares
        return abs(float(left)) * 64 / (found.eta * found.width * found.total**2)

    cases, in_eta = [enumerate_steps(lab, 128, k, b, 0.3) for k in range(3) for b in BATCHES], over_speeds(lab, missed)
    falls = [found.losses.mean() - found.before for found in cases]
    return conclude(
        scales("|E L_S(k+1) - L_S(k) + η Σ_l‖∇‖²| n²/(ηM S²)", "τ", SPEEDS, in_eta, 1 / 3, sense="at least"),
        scales("the same at fixed ηm", "m", lab.widths, over_widths(lab, missed), 0.0),
        at_most("E L_S(k+1) - L_S(k) <= -η‖∇_{W_L} L_S‖²", falls, [-found.eta * found.last for found in cases]),
        assumptions=(FIXED_SPEED, ENUMERATED, "all layers' gradients in the first part, which is more than stated"),
    )


@kept
def expected_descent(lab: Lab) -> list[Check]:
    r"""Fit the expected descent coefficient $(L_S - E L_S(k+1))/(\eta m S^2)$ in $m$ and in $B$."""

    def gamma(found: Enumerated) -> float:
        drop = found.before - float(found.losses.mean())
        return drop / (found.eta * found.width * found.total**2) if drop > 0 else np.nan

    in_width = over_widths(lab, gamma, alone=True)
    in_batch = lab.over(BATCHES, 3, lambda b, k: gamma(enumerate_steps(lab, 128, k, b, 0.3)))
    return [
        scales("(L_S - E L_S(k+1))/(ηm S²)", "m", lab.widths, in_width, 0.0, sense="at least"),
        scales("the same", "B", BATCHES, in_batch, 0.0, sense="at least"),
        at_least("the same, against 8.4e-4 φ/n⁵ of the start", in_batch, 8.4e-4 * 0.3 / 8**5),
    ]


@statement("On average an SGD step lowers the loss by at least order η(mφ/n⁵) S²", "scale")
def eq_d_9(lab: Lab) -> Check:
    r"""On average every SGD step lowers the loss: $E[L_S(k+1) \mid W] - L_S(k) \le -\eta\,(c_0 m\phi/(2n^5))\,S^2$."""
    return conclude(single.MINIBATCHES.check(lab, "D.9"), *expected_descent(lab), assumptions=(FIXED_SPEED, ENUMERATED))


def sgd_walks(lab: Lab, name: str, batch: int = 2, speed: float = 0.5) -> list[Walk]:
    """Return SGD runs from one start that differ in their minibatches only."""
    count, steps = lab.pick(36, 96, 240), lab.pick(16, 64, 256)
    return [lab.walk(64, 0, loss=name, steps=steps, speed=speed, batch=batch, batches=k, depth=2) for k in range(count)]


def expected_elapsed(lab: Lab, name: str) -> Check:
    r"""Compare $k\eta$ with the bound of (D.10) or (D.11), expectations over minibatch seeds."""
    loss, walks = margin_loss(name), sgd_walks(lab, name)
    losses = np.array([walk.losses for walk in walks])
    eta, n = walks[0].eta, walks[0].slopes.shape[1]
    g = named_descent(n, walks[0].end["W1"].shape[1])
    bound = latest(loss, losses[0, 0], fallen(losses[0, 0], losses[:, 1:], loss).mean(axis=0), n, g)
    return at_most(f"{name}: kη <= bound", eta * np.arange(1, bound.size + 1), bound)


@statement("Mean total step length for SGD when p is not 1/2", "bound")
def eq_d_10(lab: Lab) -> Check:
    r"""For $p \ne 1/2$,
    $k\eta \le \frac1g[L_S(0)/\alpha_0^2 + (L_S(0)^{1-2p} - E L_S(k)^{1-2p})/((1-2p)\alpha_1^2 n^{2p})]$.
    """
    parts = [expected_elapsed(lab, name) for name in ("logistic", "canonical(0.75)")]
    return conclude(*parts, assumptions=(FIXED_SPEED, NAMED))


@statement("Mean total step length for SGD when p is 1/2", "bound")
def eq_d_11(lab: Lab) -> Check:
    r"""For $p = 1/2$, $k\eta \le \frac1g[L_S(0)/\alpha_0^2 + (\log L_S(0) - E\log L_S(k))/(\alpha_1^2 n)]$."""
    return conclude(expected_elapsed(lab, "huber_hinge"), assumptions=(FIXED_SPEED, NAMED))


def potentials(walks: list[Walk], p: float) -> np.ndarray:
    r"""Return $L_S^{1-2p}/(1-2p)$, or $\log L_S$ for $p = 1/2$: runs by steps."""
    losses = np.array([walk.losses for walk in walks])
    return np.log(losses) if p == 0.5 else losses ** (1 - 2 * p) / (1 - 2 * p)


@kept
def fluctuations(lab: Lab) -> list[Check]:
    r"""Fit how the spread of the potential around its mean grows with $k$."""
    parts = []
    for name, p in (("logistic", 1.0), ("huber_hinge", 0.5)):
        found = potentials(sgd_walks(lab, name), p)
        when = np.unique(np.geomspace(2, found.shape[1] - 1, 5).astype(int))
        spread = grouped((found - found.mean(axis=0))[:, when], groups=12)
        parts.append(scales(f"{name}: spread of the potential around its mean", "k", when, spread, 0.5))
    return parts


@statement("The SGD potential is above its mean by at most order √k nL⁴Mη/B", "scale")
@misprint("Azuma's inequality needs a martingale with increments bounded on both sides")
def lemma_d_3(lab: Lab) -> Check:
    r"""The SGD potential exceeds its mean by at most $\sqrt{2k\log(1/\delta)}\; C n L^4 M\eta/B$ with probability
    $1-\delta$.
    """
    return conclude(
        *fluctuations(lab),
        *increments(lab),
        assumptions=("many minibatch seeds from one start; root mean square deviations in place of quantiles",),
        note="Azuma's inequality is applied to what is no martingale, with increments bounded from above only",
    )


def _rise(lab: Lab, size: tuple[int, int, int], draw: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Return how far the potential is above its first value, $p = 1$, and (D.15) without its constant, by step."""
    width, depth, batch = size
    walk = lab.walk(width, 0, steps=lab.pick(16, 32, 256), speed=0.5, batch=batch, batches=draw, depth=depth)
    found, steps = potentials([walk], 1.0)[0], np.arange(1, len(walk.losses))
    grown = walk.slopes.shape[1] * depth**4 * width * walk.eta / batch
    return found[1:] - found[0], np.sqrt(steps * np.log(1 / DELTA)) * grown


POTENTIAL = Trials(
    "zou2018.eq_d_15", _rise,
    (Clause("D.15", "potential - its first value <= C √(k log(1/δ)) n L⁴Mη/B", lambda found: found),),
    small=((32, 2, 1), (32, 2, 2), (48, 2, 1)),
    large=(((64, 2, 1),), ((64, 2, 1), (96, 3, 2)), ((128, 2, 1), (256, 4, 2))), said="(m, L, B)",
)  # fmt: skip


@statement("The SGD potential hardly rises above its first value, with high probability", "bound")
@misprint("α0 is printed where α1 is meant")
def eq_d_15(lab: Lab) -> Check:
    r"""$\frac{L_S(k)^{1-2p}}{1-2p} \le \frac{L_S(0)^{1-2p}}{1-2p} + C\sqrt{k\log(1/\delta)}\,nL^4M\eta/B$ for all
    $k$, since the potential falls in the mean.
    """
    return conclude(POTENTIAL.check(lab), assumptions=(FIXED_SPEED, "logistic loss, p = 1"))


@kept
def increments(lab: Lab) -> list[Check]:
    r"""Fit how far a minibatch raises the loss in one step in $\eta$ and, over $(M\eta/(nB)) S^2$, in $m$."""

    def rise(found: Enumerated) -> float:
        return float(np.sqrt(np.mean(np.maximum(found.losses - found.before, 0) ** 2)))

    def ratio(found: Enumerated) -> float:
        return rise(found) * 8 / (found.width * found.eta * found.total**2)

    cases, rises = [enumerate_steps(lab, 128, k, 2, 0.3) for k in range(3)], over_speeds(lab, rise)
    return [
        scales("rise of L_S in a step, root mean square over minibatches", "η", SPEEDS, rises, 1.0, sense="at least"),
        scales("the same / ((Mη/(nB)) S²), B = 1", "m", lab.widths, over_widths(lab, ratio), 0.0),
        at_most("S <= ρ1 n L_S^p", [found.total for found in cases], [8 * found.before for found in cases]),
    ]


@smoothness("The change of an output in a step is a telescoping sum over the layers", "exact")
@misprint("the last display names the sum's index i where the layer l is meant")
def eq_e_2(lab: Lab) -> Check:
    r"""The change of an output in a step is a sum over layers, exactly; pattern changes cost no more than value
    changes.
    """
    return conclude(single.telescoped_change(lab), single.pattern_changes(lab))


@statement("A single SGD step raises the loss by at most order (nL⁴Mη/B) L_S^{2p}", "scale")
def eq_e_8(lab: Lab) -> Check:
    r"""One SGD step raises the loss by at most $(C n L^4 M\eta/B)\, L_S^{2p}$."""
    return conclude(
        single.MINIBATCHES.check(lab, "E.8"),
        *increments(lab),
        assumptions=(FIXED_SPEED, ENUMERATED, "logistic loss, p = 1"),
    )
