r"""Appendices B and C and Theorem 1 as events: one draw, all clauses as truth values, constants frozen before."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from wideproof.monitors import top_norms
from wideproof.monitors.recurrent import fresh, separability, tangent_kernel, unroll
from wideproof.papers.allenzhu2018.attacked import KINDS, Shift, perturbation, product_norm, shift
from wideproof.papers.allenzhu2018.lab import Lab, Start, rho, step_limit
from wideproof.papers.frozen import Clause, Trials
from wideproof.papers.study import kept
from wideproof.training import Recipe, Run, train_many

Sides = tuple[np.ndarray, np.ndarray | float]
FEW = 2  # sequences on which spectral norms of products are taken, and columns of their largest entries


class Drawn(NamedTuple):
    """A random start, and how far apart its first tokens are."""

    start: Start
    delta: float

    @property
    def sizes(self) -> tuple[int, int, float]:
        r"""The numbers $m$ and $L$, and $\log m$."""
        seen = self.start.seen
        return seen.width, seen.length, float(np.log(seen.width))


def drawn(lab: Lab, size: tuple[int, int, float], draw: int) -> Drawn:
    """Draw a start of this width and length on sequences this far apart."""
    width, length, delta = size
    network, data = lab.network(width, length), lab.data(length, separation=delta, unit=True)
    params = lab.drawn(network, "joint", size, draw)  # not kept: they are many, and wide
    return Drawn(Start(network, params, data, unroll(params, data.x)), delta)


def lengths(one: Drawn) -> np.ndarray:
    r"""Return $\|h_{i,\ell}\|$, by sequence and time."""
    return np.linalg.norm(one.start.seen.h, axis=-1)


def longest(one: Drawn) -> Sides:
    """Lemma B.3, from above, with the numbers that it prints."""
    seen, times = one.start.seen, np.arange(one.sizes[1])
    ratios = lengths(one) / (2 * times + 4), np.linalg.norm(seen.g, axis=-1) / (4 * times + 8)
    return np.array(ratios), 1.0


def shortest(one: Drawn) -> Sides:
    """Lemma B.3, from below, with the numbers that it prints."""
    _, length, _ = one.sizes
    return lengths(one), (1 - 1 / (4 * length)) ** np.arange(1, length + 1)


def freshness(one: Drawn) -> Sides:
    """(4.2) with the logarithms of Lemma B.6."""
    _, length, log = one.sizes
    return fresh(one.start.seen.h).norms, 1 / (length**2 * log**3)


def separate(one: Drawn) -> Sides:
    """(4.3)."""
    residuals = fresh(one.start.seen.h).residuals
    return np.array([separability(residuals[:, time]) for time in range(one.sizes[1])]), one.delta


def products(one: Drawn) -> Sides:
    """Lemma B.11: one factor, and all from the second time on."""
    _, length, _ = one.sizes
    seen = one.start.seen
    return np.array([seen.product_norm(i, 2, high) for i in range(FEW) for high in {2, length}]), length**3


def entries(one: Drawn) -> Sides:
    r"""Corollary B.16, $\rho/\sqrt m$, on 16 columns of the longest product."""
    width, length, _ = one.sizes
    seen, columns = one.start.seen, np.eye(width)[:, :: width // 16]
    found = [np.abs(seen.W @ seen.product(i, 2, length, columns)).max() for i in range(FEW)]
    return np.array(found), rho(seen) / np.sqrt(width)


def backward_forms(one: Drawn) -> Sides:
    r"""Lemma B.17 with $t = \sqrt{k\log m}$: every sequence, every $\ell_1 \le \ell_2$, k from 1 to 64."""
    seen, k = one.start.seen, np.array([1, 4, 16, 64])
    found = [
        top_norms(back[0])[k - 1]
        for i in range(seen.n)
        for end in range(2, seen.length + 1)
        for back in seen.backs(i, end)[:-1]
    ]
    return np.array(found), np.sqrt(k * one.sizes[2])


def columns(one: Drawn) -> Sides:
    r"""Corollary B.19: columns of backward matrices against $\rho$."""
    seen = one.start.seen
    found = [np.abs(seen.backs(i, seen.length)).max() for i in range(seen.n)]
    return np.array(found), rho(seen)


AT_START = Trials(
    "allenzhu2018.appendix_b", drawn,
    (
        Clause("B.3, above", "‖h‖ <= 2l + 4, ‖g‖ <= 4l + 8", longest, constant=1.0),
        Clause("4.2", "fresh part >= C/(L² log³ m)", freshness, least=True),
        Clause("4.3", "fresh parts are δ/2-separable", separate, least=True, constant=0.5),
        Clause("B.11", "‖∏ DW‖ <= C L³", products),
        Clause("B.16", "entries of W∏DW <= ρ/√m", entries, constant=1.0),
        Clause("B.17", "|a'B∏DW y| <= C√(k log m)/√d for k-sparse y", backward_forms),
        Clause("B.19", "columns of B∏DW <= ρ", columns, constant=1.0),
    ),
    small=((128, 2, 0.5), (128, 4, 0.1), (192, 3, 0.5)),
    large=(
        ((192, 4, 0.1), (256, 6, 0.01)), ((512, 4, 0.1), (512, 8, 0.01), (1024, 4, 0.05)),
        ((1024, 4, 0.01), (1024, 12, 0.1), (2048, 6, 0.05)),
    ),
    said="(m, L, δ)",
)  # fmt: skip


LENGTHS = Trials(
    "allenzhu2018.claim_b_5", drawn,
    (Clause("B.3, below", "‖h‖ >= (1 - 1/(4L))^l", shortest, least=True, constant=1.0),),
    small=(), large=(((1024, 2, 0.5),), ((1024, 2, 0.5), (2048, 3, 0.5)), ((2048, 3, 0.5), (4096, 4, 0.5))),
    said="(m, L, δ)",
)  # fmt: skip


class Moved(NamedTuple):
    r"""What one perturbation of a start did, by the radius $\tau_0$."""

    found: Shift
    radius: float
    width: int
    length: int
    norms: np.ndarray

    def against(self, tau: float, length: float, width: float, log: bool = False) -> float:
        r"""Return $\tau_0^a L^b m^c$, times $\log m$ if asked for."""
        return self.radius**tau * self.length**length * self.width**width * (np.log(self.width) if log else 1.0)


def moved(lab: Lab, size: tuple[int, int, float], draw: int) -> Moved:
    r"""Perturb a start by $\tau_0/\sqrt m$, one attack after the other."""
    width, length, radius = size
    kind, seed = KINDS[draw % len(KINDS)], 100 + draw
    start = lab.start(width, length, seed)
    after = start.at(perturbation(lab, kind, start, radius, seed)).seen
    masks = after.mask[0].astype(float)
    norms = np.array([product_norm(start.seen.W, masks), product_norm(after.W, masks)])
    return Moved(shift(lab, kind, width, length, seed, radius), radius, width, length, norms)


def _difference(place: int, powers: tuple[float, float, float, bool], one: Moved) -> tuple[float, float]:
    return float(one.found.backward[place]), one.against(*powers)


STABLE = Trials(
    "allenzhu2018.lemma_c_2", moved,
    (
        Clause("C.2a", "‖g'‖, ‖h'‖ <= C L⁶τ0/√m",
               lambda one: (max(one.found.values, one.found.hidden), one.against(1, 6, -0.5))),
        Clause("C.2b", "flips <= C L^{10/3}τ0^{2/3}m^{2/3}",
               lambda one: (one.found.flips, one.against(2 / 3, 10 / 3, 2 / 3))),
        Clause("C.2c", "‖D'g‖ <= C L⁵τ0/√m", lambda one: (one.found.flipped, one.against(1, 5, -0.5))),
        Clause("C.7", "‖∏ DW̃‖, ‖∏ DW‖ <= C L⁷", lambda one: (one.norms, float(one.length**7))),
        Clause("C.9a", "new masks, old weights <= C τ0^{1/3}L⁶m^{1/3} log m",
               partial(_difference, 0, (1 / 3, 6, 1 / 3, True))),
        Clause("C.9b", "new weights, new masks <= C τ0L^15", partial(_difference, 1, (1, 15, 0, False))),
        Clause("C.9c", "new weights, old masks <= C τ0L⁷", partial(_difference, 2, (1, 7, 0, False))),
        Clause("C.9d", "new masks, new weights <= C τ0^{1/3}L⁶m^{1/3} log m",
               partial(_difference, 3, (1 / 3, 6, 1 / 3, True))),
    ),
    small=((128, 2, 1.0), (128, 3, 0.5), (128, 2, 4.0)),
    large=(
        ((256, 2, 2.0), (512, 4, 0.5)), ((256, 2, 2.0), (512, 6, 0.5), (1024, 3, 1.0)),
        ((512, 2, 2.0), (1024, 8, 0.5)),
    ),
    said="(m, L, τ0)", trials=(120, 120, 240), calibrated=10,
)  # fmt: skip


class Trained(NamedTuple):
    """A run of gradient descent, with the separation of its first tokens."""

    run: Run
    delta: float
    rho: float


BLOCK = 10  # starts that are trained side by side


@kept
def trained(lab: Lab, width: int, n: int, length: int, delta: float, block: int) -> list[Trained]:
    r"""Train from several starts with $\eta = 1/\lambda_{\max}$, several sequences of a length, this far apart."""
    data = lab.data(length, n=n, separation=delta, unit=True)
    network, seeds = lab.network(width, length), [BLOCK * block + k for k in range(BLOCK)]
    states = [unroll(network.init(seed), data.x) for seed in seeds]
    step_size = min(step_limit(tangent_kernel(seen), data.n) for seen in states)
    recipe = Recipe(steps=lab.pick(100, 200, 2000), step_size=step_size, record_every=1, check_every=1)
    runs = train_many(network, data, recipe, seeds=seeds)
    return [Trained(run, delta, rho(seen)) for run, seen in zip(runs, states, strict=True)]


def run_of(lab: Lab, size: tuple[int, int, int, float], draw: int) -> Trained:
    """Return a run of this size."""
    return trained(lab, *size, draw // BLOCK)[draw % BLOCK]


def times(one: Trained) -> Sides:
    r"""Return $T$ at every step and $\log(f_0/f_T)\,\rho^{15}/(\delta\eta m)$, the theorem's time at its step size."""
    losses = np.asarray(one.run.records["loss"], float)
    losses = losses[losses > 1e-20 * losses[0]]
    width = len(one.run.initial["W"])
    steps = np.arange(1, losses.size)
    needed = one.rho**15 / (one.delta * one.run.step_size * width)
    return steps[9:].astype(float), needed * np.log(losses[0] / losses[1:])[9:]


def rates(one: Trained) -> Sides:
    r"""Return $1 - f_{T+1}/f_T$ at every step and $\eta\delta m/\rho^{14}$, by Theorem 3."""
    losses = np.asarray(one.run.records["loss"], float)
    losses = losses[losses > 1e-12 * losses[0]]
    width = len(one.run.initial["W"])
    return 1 - losses[1:] / losses[:-1], one.run.step_size * one.delta * width / one.rho**14


TRAINING = Trials(
    "allenzhu2018.theorem_1", run_of,
    (
        Clause("time", "T <= C ρ^15/(δηm) log(f(W(0))/ε)", times),
        Clause("rate", "f(W(t+1)) <= (1 - C ηδm/ρ^14) f(W(t))", rates, least=True),
    ),
    small=((32, 2, 2, 1.0), (32, 3, 3, 0.5)),
    large=(((64, 4, 3, 0.25),), ((64, 4, 3, 0.25), (128, 6, 4, 0.5)), ((128, 4, 3, 0.1), (512, 8, 5, 0.5))),
    said="(m, n, L, δ)", delta=0.2, trials=(30, 60, 120), calibrated=10,
)  # fmt: skip
