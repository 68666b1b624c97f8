"""Section 4 and Appendix B.1-B.3: norms of hidden states, fresh randomness, separability."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import norm

from wideproof.data import SequenceDataset
from wideproof.monitors.recurrent import Unrolled, fresh, separability, unroll
from wideproof.papers.allenzhu2018.distributions import rectified_cdf, rectified_tail
from wideproof.papers.allenzhu2018.joint import AT_START, LENGTHS
from wideproof.papers.allenzhu2018.lab import Lab
from wideproof.papers.allenzhu2018.oracles import limit_fresh, limit_states
from wideproof.papers.check import Check, agrees, at_least, at_most, conclude, scales
from wideproof.papers.statement import Section, misprint
from wideproof.papers.study import kept

statement = Section("initialization", "rnn")

SHORT = 2  # the length at which deviations of 1/(4L) are several standard deviations at reachable widths


def over(lab: Lab, widths: tuple[int, ...], value: Callable[[Unrolled], float], **options: Any) -> np.ndarray:
    """Return a value of the start for every seed (rows) and width (columns)."""
    return lab.over(widths, lab.seeds, lambda m, seed: value(lab.start(m, seed=seed, **options).seen))


def over_lengths(lab: Lab, value: Callable[[Unrolled], float], **options: Any) -> np.ndarray:
    """Return a value of the start for every seed (rows) and length (columns), at one width."""
    return lab.over(lab.lengths, lab.seeds, lambda k, seed: value(lab.start(lab.width, k, seed=seed, **options).seen))


def _longest(states: np.ndarray) -> float:
    return float(np.linalg.norm(states, axis=-1).max())


def _least_fresh(seen: Unrolled) -> float:
    return float(fresh(seen.h).norms.min())


@statement("Hidden states and pre-activations have norm between 1/2 and O(L)", "scale")
def eq_4_1(lab: Lab) -> Check:
    r"""$\tfrac12 \le \|h_{i,\ell}\|, \|g_{i,\ell}\| \le O(L)$ at random initialization."""
    starts = [lab.start(m, seed=seed, tail=tail).seen for m in lab.widths for seed in lab.seeds for tail in TAILS]
    h, g = (np.array([np.linalg.norm(part, axis=-1).min() for part in parts]) for parts in _parts(starts))
    longest_h = over_lengths(lab, lambda seen: _longest(seen.h), unit=True)
    longest_g = over_lengths(lab, lambda seen: _longest(seen.g), unit=True)
    return conclude(
        at_least("least ||h||", h, 0.5),
        at_least("least ||g||", g, 0.5),
        scales("largest ||h||, unit tokens", "L", lab.lengths, longest_h, 1.0),
        scales("largest ||g||, unit tokens", "L", lab.lengths, longest_g, 1.0),
        scales("largest ||h||", "m", lab.widths, over(lab, lab.widths, lambda seen: _longest(seen.h)), 0.0),
    )


TAILS = ("random", "zero")


def _parts(starts: list[Unrolled]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    return [seen.h for seen in starts], [seen.g for seen in starts]


@statement("What a hidden state adds to all earlier ones is at least of order 1/L²", "scale")
def eq_4_2(lab: Lab) -> Check:
    r"""$\|(I - U_{\ell-1}U_{\ell-1}^\top) h_{i,\ell}\| \ge \tilde\Omega(1/L^2)$: every state has fresh randomness."""
    zero = over_lengths(lab, _least_fresh, tail="zero")
    return conclude(AT_START.check(lab, "4.2"),
        scales("least fresh part, zero tokens after the first", "L", lab.lengths, zero, -2.0, sense="at least"),
        scales("the same, unit tokens", "L", lab.lengths, over_lengths(lab, _least_fresh, unit=True), -2.0,
               sense="at least"),
        scales("least fresh part", "m", lab.widths, over(lab, lab.widths, _least_fresh, tail="zero"), 0.0,
               sense="at least"),
        assumptions=("zero tokens after the first are the worst data tried: about 6.7 / L",),
    )  # fmt: skip


@kept
def close_pair(lab: Lab, delta: float, length: int, tail: str) -> SequenceDataset:
    """Return sequences whose pair (0, 1) has first tokens at this distance, exact however small it is."""
    data = lab.data(length, tail=tail)
    x = data.x.copy()
    u = np.sqrt(2) * x[0, 0, :-1]
    turn = lab.rng("turn").standard_normal(u.size)
    turn -= (turn @ u) * u
    turn /= np.linalg.norm(turn)
    angle = 2 * np.arcsin(delta / np.sqrt(2))
    x[1, 0, :-1] = (u - 2 * np.sin(angle / 2) ** 2 * u + np.sin(angle) * turn) / np.sqrt(2)
    return SequenceDataset(x, data.y, "regression", "close pair")


@kept
def separations(lab: Lab, delta: float, length: int, tail: str, width: int, seed: int) -> np.ndarray:
    """Return the separability of the first tokens, then that of the fresh parts of the states at times 1..L."""
    data = close_pair(lab, delta, length, tail)
    residuals = fresh(unroll(lab.weights(width, seed), data.x).h).residuals
    layers = [separability(residuals[:, time]) for time in range(length)]
    return np.array([separability(data.x[:, 0]), *layers])


@statement("Fresh parts of two sequences' states stay δ/2-separable at all times", "bound")
@misprint("the sketch below it says δ-separable of the first states; Lemma B.9 proves δ/2")
def eq_4_3(lab: Lab) -> Check:
    r"""$(I - U_\ell U_\ell^\top) h_{i,\ell+1}$ and $(I - U_\ell U_\ell^\top) h_{j,\ell+1}$ are $\delta/2$-separable."""
    deltas, width = (0.1, 0.01, 1e-3, 1e-4), lab.widths[-1]
    found = np.array([
        [[separations(lab, delta, 4, tail, width, seed)[1:].min() for delta in deltas] for seed in lab.seeds]
        for tail in ("zero", "shared")
    ])  # fmt: skip
    return conclude(
        AT_START.check(lab, "4.3"),
        at_least("separability at any time, against delta/2", found, np.array(deltas) / 2),
        *(
            scales(f"separability, {tail} tokens after the first", "delta", deltas, rows, 1.0, sense="equal")
            for tail, rows in zip(("zero", "shared"), found, strict=True)
        ),
        assumptions=("L = 4", "equal or no tokens after the first, so that only the first tells sequences apart"),
    )


def _step_ratios(lab: Lab, tail: str) -> np.ndarray:
    """Return the norms of states at times 1..L for every seed and sequence, at the short length and largest width."""
    return np.concatenate([
        np.linalg.norm(lab.start(lab.widths[-1], SHORT, seed, tail=tail).seen.h, axis=-1) for seed in lab.seeds
    ])  # fmt: skip


def _rare(event: str, sizes: np.ndarray, share: float, above: bool) -> Check:
    r"""Fit $-\log\Pr$ that a fresh step leaves $1 \pm$ `share`$/L$, exact, over $m/L^2$ = `sizes` at $L = 2$."""
    m = (4 * sizes).astype(int)
    edge = (1 + share / 2) if above else (1 - share / 2)
    tail = rectified_tail if above else rectified_cdf
    exponents = [-np.log(float(tail(np.array(edge**2 * k / 2), k))) for k in m]
    return scales(f"-log Pr[{event}], exact", "m/L^2", sizes, exponents, 1.0, sense="at least")


SIZES = np.array([1000.0, 2000.0, 4000.0, 8000.0])


@statement("Norms of hidden states and pre-activations at each time, with constants", "bound")
@misprint("the lower bound's power is l+1, printed l")
def lemma_b_3(lab: Lab) -> Check:
    r"""$(1 - \tfrac1{4L})^{\ell+1} \le \|h_{i,\ell+1}\| \le 2\ell + 4$ and $\|g_{i,\ell+1}\| \le 4\ell + 8$.

    With probability $1 - e^{-\Omega(m/L^2)}$, for all $i$ and $\ell = 0..L-1$. Norms tend to $\sqrt{q_{i,\ell}}$.
    """
    width, parts = lab.widths[-1], []
    for tail in TAILS:
        starts = [lab.start(width, SHORT, seed, tail=tail).seen for seed in lab.seeds]
        h, g = (np.array([np.linalg.norm(part, axis=-1) for part in which]) for which in _parts(starts))
        times = np.arange(SHORT)
        limit = np.sqrt(limit_states(starts[0].x).q)
        parts += [
            at_least(f"||h||, {tail} tokens", h, np.broadcast_to((1 - 1 / (4 * SHORT)) ** (times + 1), h.shape)),
            at_most(f"||h||, {tail} tokens", h, np.broadcast_to(2 * times + 4, h.shape)),
            at_most(f"||g||, {tail} tokens", g, np.broadcast_to(4 * times + 8, g.shape)),
            agrees(f"||h|| against its limit, {tail} tokens", h, np.broadcast_to(limit, h.shape), tolerance=0.15),
        ]
    parts.append(_rare("first step below 1 - 1/(4L)", SIZES, 0.25, above=False))
    return conclude(
        AT_START.check(lab, "B.3, above"),
        LENGTHS.check(lab),
        *parts,
        assumptions=(f"L = {SHORT}, m = {width}: deviations of 1/(4L) are then rare",),
    )


@statement("One time step lengthens a state to at most (1+1/L)(‖h‖+1)", "bound")
def claim_b_4(lab: Lab) -> Check:
    r"""$\|h_{i,\ell+1}\| \le (1 + 1/L)(\|h_{i,\ell}\| + 1)$ with probability $1 - e^{-\Omega(m/L^2)}$.

    The proof gives the stronger $(1 + 1/L)(\|h_{i,\ell}\|^2 + 1)^{1/2}$, checked as well.
    """
    parts = []
    for tail in TAILS:
        norms = _step_ratios(lab, tail)
        before = np.concatenate([np.zeros((len(norms), 1)), norms[:, :-1]], axis=1)
        parts += [
            at_most(f"one step, {tail} tokens", norms, (1 + 1 / SHORT) * (before + 1)),
            at_most(f"the proof's form, {tail} tokens", norms, (1 + 1 / SHORT) * np.sqrt(before**2 + 1)),
        ]
    sizes = SIZES / 10  # a larger deviation is rarer: smaller sizes keep the probability above the smallest number
    parts.append(_rare("first step above 1 + 1/L", sizes, 1.0, above=True))
    return conclude(*parts, assumptions=(f"L = {SHORT}, m = {lab.widths[-1]}",))


@statement("One time step keeps 1-1/(4L) of a state's norm", "bound")
def claim_b_5(lab: Lab) -> Check:
    r"""$\|h_{i,\ell+1}\| \ge (1 - \tfrac1{4L})\|h_{i,\ell}\|$ with probability $1 - e^{-\Omega(m/L^2)}$."""
    parts = []
    for tail in TAILS:
        norms = _step_ratios(lab, tail)
        parts.append(at_least(f"one step, {tail} tokens", norms[:, 1:], (1 - 1 / (4 * SHORT)) * norms[:, :-1]))
    parts.append(_rare("a fresh step below 1 - 1/(4L)", SIZES, 0.25, above=False))
    return conclude(*parts, assumptions=(f"L = {SHORT}, m = {lab.widths[-1]}",))


@statement("The fresh part of a state is at least 1/(2·10⁶L²log³m)", "bound")
@misprint("the proof asks for ‖z_1‖ ≥ 1/√2, false at l = 1; only the sum of squares is needed")
def lemma_b_6(lab: Lab) -> Check:
    r"""$\|(I - U_\ell U_\ell^\top) h_{i,\ell+1}\| \ge \frac1{2\cdot10^6 L^2\log^3 m}$ with probability
    $1 - e^{-\Omega(\sqrt m)}$.
    """
    parts = []
    for tail in TAILS:
        found = [[lab.fresh(m, seed=seed, tail=tail).norms for m in lab.widths] for seed in lab.seeds]
        least = np.array([[norms.min() for norms in row] for row in found])
        bound = 1 / (2e6 * lab.length**2 * np.log(lab.widths) ** 3)
        limit = limit_fresh(lab.data(tail=tail).x)
        widest = np.array([row[-1] for row in found])
        parts += [
            at_least(f"least fresh part, {tail} tokens", least, np.broadcast_to(bound, least.shape)),
            agrees(f"fresh parts against their limit, {tail} tokens", widest, limit, tolerance=0.2),
        ]
    return conclude(*parts, note="a bound loose by 1e8 and more: the limit is reached instead")


@statement("A ReLU of a good vector plus noise keeps most of the noise off any few directions", "bound", network="none")
@misprint("used with α below the printed range; the proof gives α^1.5/2, printed /4")
def lemma_b_7(lab: Lab) -> Check:
    r"""$\|(I - UU^\top)\phi(w + rv)\| \ge r(1 - 2\alpha) - \tfrac12\alpha^{3/2}$ for good $w$, orthonormal $U$,
    $v \sim N(0, \tfrac2m I)$.

    $r \le \alpha/(16\log m)$, $w$ is $(\alpha, 1/(8\sqrt m))$-good. The right side is positive for $\alpha$ below about
    $1/(64\log^2 m)$, so that a million coordinates are needed; $U$ holds $\phi(w)$ and the mask of $w$.
    """
    m, alpha = 10**6, 2e-5
    r = alpha / (16 * np.log(m))
    w = np.sqrt(2 / m) * norm.ppf((np.arange(m) + 0.5) / m)
    basis = np.linalg.qr(np.stack([np.maximum(w, 0), (w > 0).astype(float)], axis=1))[0]
    found = []
    for seed in lab.seeds:
        v = np.sqrt(2 / m) * lab.rng("noise", seed).standard_normal(m)
        moved = np.maximum(w + r * v, 0) - np.maximum(w, 0)  # phi(w) lies in U
        found.append(np.linalg.norm(moved - basis @ (basis.T @ moved)))
    level = alpha / (8 * np.sqrt(m))
    return conclude(
        at_least("projected norm, m = 1e6", found, r * (1 - 2 * alpha) - alpha**1.5 / 2),
        *_residual_limit(lab),
        hypotheses=[
            at_least("share of w above alpha/(8 sqrt m)", (w >= level).mean(), (1 - alpha) / 2),
            at_least("share of w below", (w <= -level).mean(), (1 - alpha) / 2),
            at_least("m, against 4 d / alpha", m, 4 * 2 / alpha),
        ],
        assumptions=("w the quantiles of N(0, 2/m)", "the loss term is the proof's alpha^1.5 / 2"),
    )


def _residual_limit(lab: Lab) -> list[Check]:
    r"""Compare the part of $\phi(w + rv)$ outside $\phi(w)$'s span with its limit, for $w$ and $v$ of like size."""
    m, parts = lab.pick(20000, 100000, 1000000), []
    for r in (0.1, 0.5, 1.0):
        rng = lab.rng("residual", r)
        w, v = np.sqrt(2 / m) * rng.standard_normal((2, m))
        q = 1 + r * r
        # E_v phi(w + r v) is what U holds: its inner product with phi(w + r v) is q J(t), cos t = 1/q
        spread = r * np.sqrt(2 / m)
        mean = w * norm.cdf(w / spread) + spread * norm.pdf(w / spread)
        image = np.maximum(w + r * v, 0)
        rest = image - mean * (mean @ image) / (mean @ mean)
        t = np.arccos(1 / q)
        parts.append(
            agrees(f"squared residual against q(1 - J), r = {r}", rest @ rest,
                   q * (1 - (np.sin(t) + (np.pi - t) * np.cos(t)) / np.pi), tolerance=0.06)
        )  # fmt: skip
    return parts


@statement("Separability of first tokens lasts: fresh parts are δ/2-separable at every time", "bound")
@misprint("first tokens δ apart are δ/√2-separable at least")
def lemma_b_9(lab: Lab) -> Check:
    r"""If the first tokens are $\delta$-separable, $\delta \le \frac1{10^6 L^2\log^3 m}$, fresh parts stay
    $\delta/2$-separable.

    For all times and pairs, with probability $1 - e^{-\Omega(\sqrt m)}$.
    """
    width, parts, hypotheses = lab.widths[-1], [], []
    for length in (2, 4):
        delta = 0.5 / (1e6 * length**2 * np.log(width) ** 3)
        for tail in ("zero", "shared"):
            found = np.array([separations(lab, delta, length, tail, width, seed) for seed in lab.seeds])
            parts.append(at_least(f"separability, L = {length}, {tail} tokens", found[:, 1:], found[:, :1] / 2))
        hypotheses.append(at_most(f"delta, L = {length}", delta, 1 / (1e6 * length**2 * np.log(width) ** 3)))
    return conclude(*parts, hypotheses=hypotheses, assumptions=("delta is half of the largest the lemma allows",))


@statement("One time step of the induction for separability", "bound")
@misprint("(B.10) and the proof have the factor 1-2α-1/(4L), the claim 1-3α")
def claim_b_10(lab: Lab) -> Check:
    r"""One step keeps separability up to the factor $1 - 2\alpha - \tfrac1{4L}$, $\alpha = 16\delta\log m$."""
    width, parts = lab.widths[-1], []
    for delta in (1e-6, 1e-9):
        factor = 1 - 32 * delta * np.log(width) - 1 / (4 * SHORT)
        for tail in ("zero", "shared"):
            found = np.array([separations(lab, delta, SHORT, tail, width, seed) for seed in lab.seeds])
            title = f"separability one step later, delta = {delta:g}, {tail}"
            parts.append(at_least(title, found[:, 1:], factor * found[:, :-1]))
    return conclude(*parts, assumptions=(f"L = {SHORT}, m = {width}",))
