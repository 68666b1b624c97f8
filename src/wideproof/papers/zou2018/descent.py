"""Appendix C: what one step of gradient descent does to margins and loss, and how the steps add up."""

from __future__ import annotations

import numpy as np

from wideproof.data import Dataset
from wideproof.monitors.relu import descent_coefficients
from wideproof.papers.check import Check, at_least, at_most, conclude, scales
from wideproof.papers.statement import Section, misprint, tool
from wideproof.papers.study import kept
from wideproof.papers.zou2018 import steps as single
from wideproof.papers.zou2018.hypotheses import excess
from wideproof.papers.zou2018.lab import PHI, Lab, Walk, grouped, margin_loss, powers, smoothness_of
from wideproof.papers.zou2018.moves import LEAST_SHARE
from wideproof.training import MarginLoss

statement = Section("convergence", "relu")
smoothness = Section("smoothness", "relu")

LOSSES = ("logistic", "squared_hinge", "huber_hinge", "canonical(0.75)")
FIXED_SPEED = "steps of size c/m, c fixed, from the start: the theorem's step is smaller by powers of n and L"
NAMED = "g = c0 mφ/(2n⁵) with the proof's c0 = 8.4e-4"


@tool("An inequality for powers: (a−b)/b^{2p} is at least the difference quotient of x^{1−2p}", "bound")
def lemma_c_1(lab: Lab) -> Check:
    r"""For $a, b > 0$: $(a-b)/b^{2p} \ge (a^{1-2p} - b^{1-2p})/(1-2p)$, and $(a-b)/b \ge \log a - \log b$ for
    $p = 1/2$.
    """
    rng, count = lab.rng("c1"), lab.pick(2000, 20000, 200000)
    a, b = np.exp(rng.uniform(-12, 12, (2, count)))
    p = rng.uniform(0, 1, count)
    p = np.where(np.abs(p - 0.5) < 0.01, 0.6, p)
    difference = (a ** (1 - 2 * p) - b ** (1 - 2 * p)) / (1 - 2 * p)
    return conclude(
        at_least("p != 1/2", (a - b) / b ** (2 * p), difference),
        at_least("p = 1/2", (a - b) / b, np.log(a) - np.log(b)),
        assumptions=(f"{count} random a, b in [e⁻¹², e¹²] and p in [0, 1]",),
    )


@smoothness("A margin moves by at most order L⁴Mη times the mean slope", "scale")
def eq_c_1(lab: Lab) -> Check:
    r"""One step moves each margin by at most $(C L^4 M \eta/n) S$ with $S = \sum_i |\ell'_i|$."""
    return conclude(single.WHOLE.check(lab, "C.1"), *single.change_is_bounded(lab, None), assumptions=(FIXED_SPEED,))


@smoothness("A margin moves at least by its linear part, less remainders in τ^{1/3} and η²", "scale")
@misprint("the powers of L are those of a single layer; the proof's sum over layers has one more")
def eq_c_2(lab: Lab) -> Check:
    r"""$\Delta_i \ge \sum_l y_i u_{l,i} - (C' L^{17/3}\tau^{1/3} M\eta\sqrt{\log M} + C'' L^9 M^2\eta^2) S/n$."""
    return conclude(
        single.WHOLE.check(lab, "C.2"),
        *single.remainder_is_small(lab, None),
        assumptions=(FIXED_SPEED, "the remainder in absolute value; τ is the distance moved, proportional to η"),
    )


@smoothness("How one step of GD moves a margin: linear part, upper bound, remainder", "scale")
@misprint("summed over layers the proof's remainders are L^{20/3} and L^{10}, one L more than printed")
def lemma_c_2(lab: Lab) -> Check:
    r"""A step of gradient descent changes each margin by its linear part plus a small remainder: (C.1) and (C.2)."""
    return conclude(single.WHOLE.check(lab), eq_c_1(lab), eq_c_2(lab), single.telescoped_change(lab))


def walks(lab: Lab, name: str) -> list[Walk]:
    """Return runs of gradient descent with a loss, several starts, every step looked at."""
    speed, steps = 0.25 / smoothness_of(name), lab.pick(24, 200, 1000)
    return [lab.walk(128, draw, loss=name, steps=steps, speed=speed) for draw in range(3)]


@statement("Smoothness turns margin changes into a bound on the change of the loss", "bound", network="any")
def eq_c_3(lab: Lab) -> Check:
    r"""$L_S(k+1) - L_S(k) \le \frac1n \sum_i [\ell'_i \Delta_i + \frac\lambda2 \Delta_i^2]$, for any $\lambda$-smooth
    loss.
    """
    parts, y = [], lab.data().y
    for name in LOSSES:
        for draw, walk in enumerate(walks(lab, name)):
            change = y * np.diff(walk.outputs, axis=0)
            bound = (-walk.slopes[:-1] * change + smoothness_of(name) / 2 * change**2).mean(axis=1)
            title = f"{name}, start {draw}: L_S(k+1) <= L_S(k) + slope term + λ/2 mean Δ²"
            parts.append(excess(title, walk.losses[1:], walk.losses[:-1] + bound))
    return conclude(*parts, assumptions=("equality counts as holding: a quadratic piece of a loss has it",))


@statement("The slope term is −η times the squared gradient, up to a small remainder", "scale")
def eq_c_5(lab: Lab) -> Check:
    r"""$\frac1n\sum_i \ell'_i\Delta_i \le -\eta\sum_l\|\nabla_{W_l}L_S\|_F^2$ plus remainders of order
    $\tau^{1/3}\eta$ and $\eta^2$.
    """

    def missed(width: int, draw: int, speed: float) -> float:
        taken = single.take(lab, width, draw, speed)
        return float(np.abs(taken.c) @ np.abs(taken.missed)) / (taken.scale * taken.total)

    in_eta = grouped(lab.over(single.SPEEDS, 12, lambda speed, k: missed(128, k, speed)))
    in_width = grouped(lab.over(lab.widths, single.DRAWS, lambda m, k: missed(m, k, 0.3)))
    return conclude(
        single.linear_identity(lab),
        scales("(slope term + η Σ‖∇‖²)/(ηM S²/n²)", "τ", single.SPEEDS, in_eta, 1 / 3, sense="at least"),
        scales("the same at fixed ηm", "m", lab.widths, in_width, 0.0),
        assumptions=(FIXED_SPEED, "τ is the distance moved, proportional to η"),
    )


def least_descent(walk: Walk, width: int) -> float:
    r"""Return $\min_k \gamma_k$, $\gamma_k = (L_S(k) - L_S(k+1))/(\eta m S_k^2)$; NaN once the loss has gone up."""
    least = float(descent_coefficients(walk.losses, walk.slopes.sum(axis=1), walk.eta, width).min())
    return least if least > 0 else np.nan


@kept
def descents(lab: Lab) -> list[Check]:
    r"""Fit the least descent coefficient along runs in $m$, $n$ and $\phi$."""
    sizes, gaps, draws = np.array([4, 8, 16]), np.array([0.05, 0.1, 0.2, 0.4]), lab.pick(6, 8, 8)

    def least(width: int, draw: int, data: Dataset | None = None) -> float:
        return least_descent(lab.walk(width, draw, steps=lab.pick(12, 100, 1000), data=data), width)

    in_width = lab.over(lab.widths, draws, least)
    in_n = lab.over(sizes, draws, lambda n, k: least(128, k, lab.data(n)))
    in_phi = lab.over(gaps, draws, lambda gap, k: least(128, k, lab.data(phi=gap)))
    return [
        scales("least (L_S(k) - L_S(k+1))/(ηm S²)", "m", lab.widths, in_width, 0.0, sense="at least"),
        scales("the same", "n", sizes, in_n, -5.0, sense="at least"),
        scales("the same", "φ", gaps, in_phi, 1.0, lower=True),
    ]


@statement("In each step GD lowers the loss by at least order η(mφ/n⁵) S²", "scale")
def eq_c_6(lab: Lab) -> Check:
    r"""Every step lowers the loss: $L_S(k+1) - L_S(k) \le -\eta\, (c_0 m\phi/(2n^5))\, S_k^2$."""
    return conclude(*descents(lab), assumptions=(FIXED_SPEED, "logistic loss"))


def slope_bound(walk: Walk, loss: MarginLoss) -> tuple[np.ndarray, np.ndarray]:
    r"""Return $S_k$ and $\min\{\alpha_0, \alpha_1 (n L_S)^p\}$ along a run."""
    (alpha0, alpha1, p), n = powers(loss), walk.slopes.shape[1]
    return walk.slopes.sum(axis=1), np.minimum(alpha0, alpha1 * (n * walk.losses) ** p)


@statement("What a single step must cost in loss, once S is bounded below by the loss", "bound")
@misprint("α1 is lost in the line before")
def eq_c_7(lab: Lab) -> Check:
    r"""Per step, $\eta \le [1/\alpha_0^2 + 1/(\alpha_1 (n L_S)^p)^2]\, (L_S(k) - L_S(k+1))/g$.

    Here $g = c_0 m\phi/(2n^5)$. It follows from (C.6) and
    $S \ge \min\{\alpha_0, \alpha_1 (nL_S)^p\}$, true for every loss of 3.2.
    """
    parts = []
    for name in LOSSES:
        loss = margin_loss(name)
        for draw, walk in enumerate(walks(lab, name)):
            case, drop = f"{name}, start {draw}", -np.diff(potential(walk, loss))
            parts.append(at_least(f"{case}: S >= min(α0, α1 (n L_S)^p)", *slope_bound(walk, loss)))
            parts.append(at_least(f"{case}: drop of the potential in a step >= η", drop, walk.eta))
    return conclude(*parts, assumptions=(NAMED,))


def named_descent(n: int, width: int) -> float:
    r"""Return $g = c_0 m\phi/(2n^5)$ with the constant of the proof, $c_0 = 8.4\cdot10^{-4}$."""
    return float(LEAST_SHARE) * width * PHI / (2 * n**5)


def potential(walk: Walk, loss: MarginLoss) -> np.ndarray:
    r"""Return, at each step, the bound of (C.7) summed up so far, negated.

    The right side of (C.7) is $-(L_S(k+1) - L_S(k))[1/\alpha_0^2 + 1/(\alpha_1 (nL_S(k))^p)^2]/g$.
    """
    (alpha0, alpha1, p), n = powers(loss), walk.slopes.shape[1]
    drops = walk.losses[:-1] - walk.losses[1:]
    g = named_descent(n, walk.end["W1"].shape[1])
    weight = 1 / alpha0**2 + 1 / (alpha1 * (n * walk.losses[:-1]) ** p) ** 2
    return -np.concatenate([[0.0], np.cumsum(drops * weight / g)])


def latest(loss: MarginLoss, first: float, fall: np.ndarray, n: int, g: float) -> np.ndarray:
    r"""Return $\frac1g[L_S(0)/\alpha_0^2 + n^{-2p} F/\alpha_1^2]$: by when the loss has fallen by $F$ of `fallen`."""
    alpha0, alpha1, p = powers(loss)
    return (first / alpha0**2 + n ** (-2 * p) * fall / alpha1**2) / g


def elapsed(lab: Lab, names: tuple[str, ...]) -> list[Check]:
    r"""Compare $k\eta$ with the bound that (C.8) or (C.9) gives from the losses at 0 and $k$."""
    parts = []
    for name in names:
        loss = margin_loss(name)
        for draw, walk in enumerate(walks(lab, name)):
            first, later = walk.losses[0], walk.losses[1:]
            n, width = walk.slopes.shape[1], walk.end["W1"].shape[1]
            bound = latest(loss, first, fallen(first, later, loss), n, named_descent(n, width))
            parts.append(at_most(f"{name}, start {draw}: kη <= bound", walk.eta * np.arange(1, later.size + 1), bound))
    return parts


def fallen(first: float, later: np.ndarray, loss: MarginLoss) -> np.ndarray:
    r"""Return $(L(0)^{1-2p} - L(k)^{1-2p})/(1-2p)$, or $\log L(0) - \log L(k)$ for $p = 1/2$."""
    _, _, p = powers(loss)
    if p == 0.5:
        return np.log(first) - np.log(later)
    return (first ** (1 - 2 * p) - later ** (1 - 2 * p)) / (1 - 2 * p)


@statement("Total step length bounded through L_S^{1−2p} when p is not 1/2", "bound")
def eq_c_8(lab: Lab) -> Check:
    r"""For $p \ne 1/2$,
    $k\eta \le \frac1g[L_S(0)/\alpha_0^2 + (L_S(0)^{1-2p} - L_S(k)^{1-2p})/((1-2p)\alpha_1^2 n^{2p})]$.
    """
    return conclude(*elapsed(lab, ("logistic", "canonical(0.75)")), assumptions=(NAMED,))


@statement("Total step length bounded through log L_S when p is 1/2", "bound")
def eq_c_9(lab: Lab) -> Check:
    r"""For $p = 1/2$, $k\eta \le \frac1g[L_S(0)/\alpha_0^2 + (\log L_S(0) - \log L_S(k))/(\alpha_1^2 n)]$."""
    return conclude(*elapsed(lab, ("squared_hinge", "huber_hinge")), assumptions=(NAMED,))
