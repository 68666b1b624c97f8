r"""Appendix E.1: the split of $W$ into a matrix of the same law and a correlated part of rank one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from wideproof.monitors.recurrent import Unrolled, fresh, unroll
from wideproof.papers.allenzhu2018.lab import Lab, rho
from wideproof.papers.check import Check, at_least, at_most, conclude, identity, law, often, sides
from wideproof.papers.statement import Section, misprint
from wideproof.papers.study import kept

statement = Section("tool", "rnn")


class Split(NamedTuple):
    r"""One draw of the split $W = W_2 + u v^\top$ at $(i^*, \ell^*)$, with what it was made from."""

    seen: Unrolled
    basis: np.ndarray
    v: np.ndarray
    g1: np.ndarray
    u: np.ndarray


SAMPLE, TIME, WIDE_THETA = 1, 2, 0.5
SMALL = (
    "m = 48, n = 2, L = 3, (i*, l*) = (2, 2), θ = 1/2: the laws hold for every θ in (0, 1), and a wrong one shows best "
    "for a large θ",
)


def split(seen: Unrolled, theta: float, rng: np.random.Generator) -> Split:
    r"""Split $W$: with $g'$ fresh noise, $g_1 = \sqrt{1-\theta^2}\, W v + \theta g'$, $g_2 = \theta W v -
    \sqrt{1-\theta^2}\, g'$.

    Then $W v = \sqrt{1-\theta^2}\, g_1 + \theta g_2$ and $u = \theta g_2 - (1 - \sqrt{1-\theta^2}) g_1$.
    """
    parts = fresh(seen.h[:, :TIME])
    v = parts.directions()[SAMPLE, TIME - 1]
    noise = np.sqrt(2 / seen.width) * rng.standard_normal(seen.width)
    root = np.sqrt(1 - theta**2)
    g1, g2 = root * (seen.W @ v) + theta * noise, theta * (seen.W @ v) - root * noise
    return Split(seen, parts.before(TIME - 1), v, g1, theta * g2 - (1 - root) * g1)


@kept
def splits(lab: Lab, count: int, theta: float = WIDE_THETA, width: int = 48) -> list[Split]:
    """Draw small networks and split each one."""
    rng = lab.rng("splits", theta, width)
    x = lab.data(3, n=2).x
    found = []
    for _ in range(count):
        w, a = (np.sqrt(2 / width) * rng.standard_normal((width, k)) for k in (width, x.shape[-1]))
        found.append(split(unroll({"W": w, "A": a, "B": np.ones((1, width))}, x), theta, rng))
    return found


def moments(weight: np.ndarray, piece: Split, rows: Sequence[int] | np.ndarray | slice = slice(None)) -> list[float]:
    r"""Return statistics of $\sqrt{m/2}\, W$ on some rows that are 1, 3, 0.8413, 0.5, 1, 0, 1 for $N(0, 2/m)$ entries.

    The second and fourth moment, two values of the distribution function, and the second moments along $v$ and an
    earlier direction, with their product in between.
    """
    z = np.sqrt(len(weight) / 2) * weight[rows]
    along, earlier = z @ piece.v, z @ piece.basis[:, 0]
    inside = [np.mean(z <= 1), np.mean(z <= 0)]
    return [np.mean(z**2), np.mean(z**4), *inside, np.mean(along**2), np.mean(along * earlier), np.mean(earlier**2)]


MOMENTS = (1.0, 3.0, float(stats.norm.cdf(1)), 0.5, 1.0, 0.0, 1.0)


@statement("W is a matrix of the same law plus u times the fresh direction of (i*, l*)", "exact")
def lemma_e_4(lab: Lab) -> Check:
    r"""$W = W_2 + u v^\top$ with $W_2$ of the same law as $W$, and $u$ small but of both signs."""
    parts = (lemma_e_4_a(lab), lemma_e_4_b(lab), lemma_e_4_c(lab), lemma_e_4_d(lab))
    return conclude(*parts, title="W is a matrix of the same law plus a part of rank one")


@statement("What remains, W2, has independent N(0, 2/m) entries", "exact")
def lemma_e_4_a(lab: Lab) -> Check:
    r"""The entries of $W_2$ are independent $N(0, 2/m)$."""
    drawn = [moments(s.seen.W - np.outer(s.u, s.v), s) for s in _many(lab)]
    return conclude(law("moments of √(m/2) W2", drawn, MOMENTS), assumptions=SMALL)


@statement("What is split off is uvᵀ, which no state up to l* sees", "exact")
def lemma_e_4_b(lab: Lab) -> Check:
    r"""The other part is $W' = u v_{i^*,\ell^*}^\top$; states up to $\ell^*$ do not see it."""
    weights, states = [], []
    for s in _many(lab)[:20]:
        identity_, whole = np.eye(s.seen.width), s.basis @ s.basis.T
        rest = s.seen.W @ (identity_ - whole) @ (identity_ - np.outer(s.v, s.v))
        weights.append((s.seen.W @ whole + np.outer(s.g1, s.v) + rest + np.outer(s.u, s.v), s.seen.W))
        without = unroll({"W": s.seen.W - np.outer(s.u, s.v), "A": s.seen.A, "B": s.seen.B}, s.seen.x)
        states.append((without.h[:, :TIME], s.seen.h[:, :TIME]))
    return conclude(
        identity("W U Uᵀ + g1 vᵀ + W(I − U Uᵀ)(I − v vᵀ) + u vᵀ = W", *sides(weights)),
        identity("states up to l* at W2 and at W", *sides(states)),
        title="the split-off part is u vᵀ",
        assumptions=SMALL,
    )


@statement("Given W2, each u_k exceeds θ/(2√m), and is below −θ/(2√m), with probability at least 1/4", "bound")
@misprint("the proof's Pr[(g2)_k > 1/√m] >= 1/4 is false, 0.2398; the claim needs only 0.75/√m, 0.2979")
def lemma_e_4_c(lab: Lab) -> Check:
    r"""Given $W_2$, each $u_k$ is at least $\theta/(2\sqrt m)$, and at most $-\theta/(2\sqrt m)$, with probability $\ge
    1/4$.

    Given $W_2$, $g_1$ is known and $g_2$ is not, so that both probabilities are values of the normal distribution.
    """
    width, least, passed = lab.width, [], []
    seen = lab.start(width, 3, n=2).seen
    theta = largest_theta(seen)
    for k in range(4):
        piece = split(seen, theta, lab.rng("split", k))
        offset = (1 - np.sqrt(1 - theta**2)) * piece.g1 * np.sqrt(width)
        for sign in (1, -1):
            least.append(stats.norm.sf((theta / 2 + sign * offset) / (theta * np.sqrt(2))))
        passed.append(piece.u >= theta / (2 * np.sqrt(width)))
    return conclude(
        at_least("probability given W2, all k, both signs", least, 0.25),
        often("share of u_k >= θ/(2√m)", passed, 0.25),
        title="each u_k passes ±θ/(2√m) with probability at least 1/4",
        assumptions=("θ = 1/(2ρ), the largest that is allowed",),
    )


@statement("All u_k are at most 3θρ/(2√m) in size", "bound")
def lemma_e_4_d(lab: Lab) -> Check:
    r"""No $u_k$ is larger than $3\theta\rho/(2\sqrt m)$."""
    seen = lab.start(lab.width, 3, n=2).seen
    theta = largest_theta(seen)
    largest = [np.abs(split(seen, theta, lab.rng("split", k)).u).max() for k in range(lab.pick(20, 50, 200))]
    limit = 3 * theta * rho(seen) / (2 * np.sqrt(seen.width))
    return conclude(at_most("‖u‖∞ <= 3θρ/(2√m)", largest, limit), assumptions=("θ = 1/(2ρ)",))


@statement("The split on some coordinates only leaves a matrix of the law of W", "exact")
def lemma_e_5(lab: Lab) -> Check:
    r"""The split restricted to one coordinate, a set, or a set and its complement."""
    return conclude(lemma_e_5_a(lab), lemma_e_5_b(lab), lemma_e_5_c(lab), title="the split on chosen coordinates")


@statement("On one coordinate k", "exact")
def lemma_e_5_a(lab: Lab) -> Check:
    r"""$W = W_0 + u_k e_k v^\top$ with a single coordinate $k$, and $W_0$ of the law of $W$."""
    drawn = [np.mean([moments(masked(s, [k]), s, [k]) for k in range(8)], axis=0) for s in _many(lab)]
    title = "moments of row k of √(m/2) W0"
    return conclude(law(title, drawn, MOMENTS), assumptions=(*SMALL, "k = 1..8 in turn"))


@statement("On the coordinates of a given set N", "exact")
@misprint("the remainder is called W0 once, where W1 is meant")
def lemma_e_5_b(lab: Lab) -> Check:
    r"""$W = W_1 + u_N v^\top$ with the coordinates of a fixed set $N$, and $W_1$ of the law of $W$."""
    chosen = np.arange(0, 48, 3)
    drawn = [moments(masked(s, chosen), s) + moments(masked(s, chosen), s, chosen)[4:6] for s in _many(lab)]
    title = "moments of √(m/2) W1, and of its rows in N"
    return conclude(law(title, drawn, (*MOMENTS, 1.0, 0.0)), assumptions=(*SMALL, "N every third unit"))


@statement("On a set N and on its complement, one after the other", "exact")
def lemma_e_5_c(lab: Lab) -> Check:
    r"""$W = W_2 + u_N v^\top + u_{-N} v^\top$, a set and its complement."""
    chosen = np.arange(48) % 3 == 0
    s = _many(lab)[0]
    total = masked(s, slice(None)) + np.outer(chosen * s.u, s.v) + np.outer(~chosen * s.u, s.v)
    return conclude(
        identity("W2 + W'_N + W'_(-N) = W", total, s.seen.W),
        law("moments of √(m/2) W2", [moments(masked(t, slice(None)), t) for t in _many(lab)], MOMENTS),
        title="the split into a set and its complement",
        assumptions=SMALL,
    )


def masked(piece: Split, rows: Sequence[int] | np.ndarray | slice) -> np.ndarray:
    r"""Return $W - u_N v^\top$ for the coordinates $N$ in `rows`."""
    weight = piece.seen.W.copy()
    weight[rows] -= np.outer(piece.u[rows], piece.v)
    return weight


def largest_theta(seen: Unrolled) -> float:
    r"""Return $1/(2\rho)$."""
    return 1 / (2 * rho(seen))


def _many(lab: Lab) -> list[Split]:
    return splits(lab, lab.pick(300, 1000, 5000))
