r"""Starts and runs of gradient descent as events: all clauses at once, constants frozen before."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wideproof.monitors.residual import Pass, gradient_norms, interlayer, residual_pass
from wideproof.papers.frei2019.lab import MEASURES, Lab
from wideproof.papers.frozen import DELTA, Clause, Trials
from wideproof.papers.study import kept
from wideproof.training import Recipe, Run, train_many

Sides = tuple[np.ndarray, np.ndarray | float]
STRETCH = 1.1 * 2 * np.sqrt(2)  # C of Lemma B.2: a tenth above the limit of ‖W_r‖
BLOCK = 10


class Drawn(NamedTuple):
    """A pass of a fresh network on the training inputs, and the seed of what is chosen at random besides."""

    lab: Lab
    seen: Pass
    seed: int

    @property
    def length(self) -> float:
        r"""The product $\theta L$."""
        return self.seen.theta * self.seen.depth


def drawn(lab: Lab, size: tuple[int, int, float], draw: int) -> Drawn:
    r"""Draw a network of this width, depth and $\theta L$."""
    width, depth, theta_depth = size
    network = lab.network(width, depth, theta_depth)
    return Drawn(lab, residual_pass(network, lab.drawn(network, "joint", size, draw), lab.data().x[:24]), draw)


def stretched(one: Drawn) -> np.ndarray:
    r"""Return $\log\|\prod(I + \theta\tilde\Sigma W)\|$ for the activation patterns, random signs and greedy ones."""
    found = [interlayer(one.seen, 2, one.seen.depth, masks=masks).norm() for masks in diagonals(one)]
    return np.log(found)


def diagonals(one: Drawn) -> list[list[np.ndarray] | None]:
    r"""Return diagonals of norm 1: the patterns, random 0/1, random signs, and signs chosen to stretch most."""
    seen, rng = one.seen, one.lab.rng("diagonals", one.seed)
    middle, width = range(2, seen.depth + 1), seen.weights[1].shape[1]
    vector, greedy = rng.standard_normal(width), []
    for _ in range(20):  # signs that stretch a vector, and the vector they stretch most, in turn
        greedy, moving = [], vector
        for layer in middle:
            branch = seen.weights[layer - 1].T @ moving
            greedy.append(np.where(branch * moving >= 0, 1.0, -1.0))
            moving = moving + seen.theta * greedy[-1] * branch
        vector = interlayer(seen, 2, seen.depth, masks=greedy).adjoint(moving)
        vector = vector / np.linalg.norm(vector)
    coins = [rng.integers(0, 2, width).astype(float) for _ in middle]
    return [None, coins, [2 * coin - 1 for coin in coins], greedy]


def norms(one: Drawn) -> np.ndarray:
    r"""Return $\|x_l\|$ of all layers and examples."""
    return np.array([np.linalg.norm(one.seen.x(layer), axis=1) for layer in one.seen.steps])


def carried(one: Drawn) -> Sides:
    r"""Return $\|H_2^L\|$ and $\|H_2^{L+1}\|$."""
    depth = one.seen.depth
    return np.array([interlayer(one.seen, 2, end).norm() for end in (depth, depth + 1)]), 1.0


def outputs(one: Drawn) -> Sides:
    """Return the outputs against (8)."""
    return np.abs(one.seen.outputs), np.sqrt(np.log(len(one.seen.outputs) / DELTA))


def gradients(one: Drawn) -> Sides:
    r"""Return the gradients of the output against $\theta^{1(2\le l\le L)}\sqrt m$."""
    scale = np.array([one.seen.scale(layer) for layer in one.seen.steps])
    return gradient_norms(one.seen), scale * np.sqrt(one.seen.weights[-1].shape[1])


AT_START = Trials(
    "frei2019.lemma_4_1", drawn,
    (
        Clause("4.1, below", "‖x_l‖ >= C_1", lambda one: (norms(one), 1.0), least=True),
        Clause("4.1, above", "‖x_l‖ <= C_2", lambda one: (norms(one), 1.0)),
        Clause("4.1, products", "‖H_l^l'‖ <= C_2", carried),
        Clause("B.2", "‖∏(I + θΣ̃W')‖ <= exp(CθL), C = 2√2·1.1",
               lambda one: (stretched(one), one.length), constant=float(STRETCH)),
        Clause("8", "|f(x_i)| <= C√log(n/δ)", outputs),
        Clause("10", "‖∇_{W_l} f‖ <= C θ^{1(2<=l<=L)} √m", gradients),
    ),
    small=((64, 3, 0.025), (64, 6, 0.2), (96, 3, 0.2)),
    large=(
        ((128, 4, 0.025), (192, 12, 0.2)), ((128, 4, 0.025), (192, 12, 0.2), (256, 24, 0.1)),
        ((256, 8, 0.025), (512, 32, 0.2)),
    ),
    said="(m, L, θL)", calibrated=8,
)  # fmt: skip


class Trained(NamedTuple):
    r"""A run of gradient descent, the margin of its data, and $\log(n/\delta)$."""

    run: Run
    margin: float
    log: float

    @property
    def times(self) -> np.ndarray:
        r"""The products $K\eta m$, for $K = 1, 2, \dots$"""
        width = self.run.initial["W1"].shape[1]
        return self.run.step_size * width * np.arange(1, len(self.run.records["surrogate"]))


@kept
def trained(lab: Lab, width: int, rho: float, n: int, block: int) -> list[Trained]:
    r"""Train from several starts with $\eta = 6/m$ on $n$ points of margin $\rho/\sqrt{2\pi}$."""
    seeds = [BLOCK * block + k for k in range(BLOCK)]
    recipe = Recipe(loss="logistic", step_size=lab.rate / width, steps=lab.steps, record_every=1)
    runs = train_many(lab.network(width), lab.data(rho, n), recipe, seeds=seeds, record=MEASURES)
    return [Trained(run, lab.margin(rho), float(np.log(n / DELTA))) for run in runs]


def run_of(lab: Lab, size: tuple[int, float, int], draw: int) -> Trained:
    """Return a run of this size."""
    return trained(lab, *size, draw // BLOCK)[draw % BLOCK]


def errors(one: Trained) -> Sides:
    r"""Return $\min_{k<K} E_S$ for every $K$, and $(K\eta m)^{-1/2}\log^{1/4}\gamma^{-2}$."""
    best = np.minimum.accumulate(one.run.records["surrogate"][:-1])
    return best, one.log**0.25 / one.margin**2 / np.sqrt(one.times)


def distances(one: Trained) -> Sides:
    r"""Return the distance of every layer at the end, and $\sqrt{k\eta}\,\gamma^{-2}\log^{1/4}$."""
    run = one.run
    moved = [np.linalg.norm(run.params[name] - run.initial[name]) for name in run.initial if name != "v"]
    scale = np.sqrt(run.step_size * (len(run.records["surrogate"]) - 1))
    return np.array(moved), scale * one.log**0.25 / one.margin**2


def descents(one: Trained) -> Sides:
    r"""Return by how much each step lowers the loss, and $\eta m\gamma^4 E_S^2$."""
    width, records = one.run.initial["W1"].shape[1], one.run.records
    return -np.diff(records["loss"]), one.run.step_size * width * one.margin**4 * records["surrogate"][:-1] ** 2


TRAINING = Trials(
    "frei2019.theorem_3_5", run_of,
    (
        Clause("error", "min E_S <= C (Kηm)^(-1/2) (log n/δ)^(1/4) γ^-2 for every K", errors),
        Clause("radius", "‖W_l - W_l(0)‖ <= C √(kη) γ^-2 (log n/δ)^(1/4)", distances),
        Clause("6", "L_S falls by at least C η m γ^4 E_S² in every step", descents, least=True),
    ),
    small=((64, 0.9, 16), (64, 0.6, 32)),
    large=(
        ((128, 0.4, 32), (192, 0.2, 64)), ((128, 0.4, 64), (256, 0.2, 128), (512, 0.5, 32)),
        ((512, 0.1, 256), (1024, 0.5, 64)),
    ),
    said="(m, ρ, n)", calibrated=10,
)  # fmt: skip
