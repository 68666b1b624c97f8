"""Single steps of (S)GD from a start, and what Appendices C to E say about them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wideproof.monitors.relu import ReLUPass, gradients, linear_parts
from wideproof.papers.check import Check, at_most, identity, scales, sides
from wideproof.papers.frozen import Clause, Trials
from wideproof.papers.study import kept
from wideproof.papers.zou2018.lab import (
    PHI,
    Lab,
    coefficients,
    grouped,
    look,
    margin_loss,
    slopes,
    step,
    subsets,
    values,
)

SPEEDS = np.array([0.01, 0.03, 0.1, 0.3])  # ηm
DEPTHS = (1, 2, 4, 8)
DRAWS = 48


class Step(NamedTuple):
    """One step: outputs before and after, its first-order part by layer, and the coefficients of the examples in it."""

    before: np.ndarray
    after: np.ndarray
    linear: np.ndarray
    c: np.ndarray
    eta: float
    width: int
    y: np.ndarray

    @property
    def total(self) -> float:
        r"""$S/n$ for a whole step, $S_B/B$ for a minibatch: the sum of $|c_i|$."""
        return float(np.abs(self.c).sum())

    @property
    def change(self) -> np.ndarray:
        r"""$\Delta_i = y_i (f(x_i) \text{ after} - \text{before})$."""
        return self.y * (self.after - self.before)

    @property
    def missed(self) -> np.ndarray:
        r"""$\Delta_i - \sum_l y_i u_{l,i}$."""
        return self.change - self.y * self.linear.sum(axis=0)

    @property
    def scale(self) -> float:
        r"""$\eta M S/n$, the size of the bounds without powers of $L$."""
        return self.eta * self.width * self.total


@kept
def take(
    lab: Lab, width: int, draw: int, speed: float, batch: int | None = None, depth: int = 3, name: str = "logistic"
) -> Step:
    r"""Take one step of size `speed`$/m$ from a fresh start, on all examples or on a random minibatch."""
    data, loss, eta = lab.data(), margin_loss(name), speed / width
    start, before = lab.start(width, depth, draw), lab.seen(width, depth, draw)
    chosen = None if batch is None else lab.rng("minibatch", draw).choice(8, batch, replace=False)
    c = coefficients(before, data, loss, chosen)
    after = look(step(start, before, c, eta), data.x)
    return Step(before.outputs, after.outputs, linear_parts(before, c, eta), c, eta, width, data.y)


@kept
def change_is_bounded(lab: Lab, batch: int | None) -> list[Check]:
    r"""Fit $\max_i |\Delta_i|$ in $\eta$, and over $\eta M S/n$ in $m$ and $L$."""

    def ratio(width: int, draw: int, depth: int = 3) -> float:
        taken = take(lab, width, draw, 0.3, batch, depth)
        return float(np.abs(taken.change).max()) / taken.scale

    in_eta = grouped(lab.over(SPEEDS, 12, lambda speed, k: np.abs(take(lab, 128, k, speed, batch).change).max()))
    in_width = grouped(lab.over(lab.widths, DRAWS, ratio))
    in_depth = grouped(lab.over(DEPTHS, 12, lambda depth, k: ratio(128, k, depth)))
    over = "ηMS/n" if batch is None else "ηM S_B/B"
    return [
        scales("max_i |Δ_i|", "η", SPEEDS, in_eta, 1.0, sense="at least"),
        scales(f"max_i |Δ_i| / ({over})", "m", lab.widths, in_width, 0.0),
        scales(f"max_i |Δ_i| / ({over})", "L", DEPTHS, in_depth, 4.0),
    ]


@kept
def remainder_is_small(lab: Lab, batch: int | None) -> list[Check]:
    r"""Fit what the linear part misses, over $\eta M S/n$: as a power of the size of the step, of $m$ and of $L$."""

    def ratio(width: int, draw: int, speed: float, depth: int = 3) -> float:
        taken = take(lab, width, draw, speed, batch, depth)
        return float(np.sqrt(np.mean(taken.missed**2))) / taken.scale / np.sqrt(np.log(width))

    in_eta = grouped(lab.over(SPEEDS, 12, lambda speed, k: ratio(128, k, speed)))
    in_width = grouped(lab.over(lab.widths, DRAWS, lambda m, k: ratio(m, k, 0.3)))
    in_depth = grouped(lab.over(DEPTHS[1:], 12, lambda depth, k: ratio(128, k, 0.3, depth)))
    return [
        scales("remainder / ηMS√log M, τ the length of the step", "τ", SPEEDS, in_eta, 1 / 3, sense="at least"),
        scales("remainder / ηMS√log M at fixed ηm", "m", lab.widths, in_width, 0.0),
        scales("remainder / ηMS√log M", "L", DEPTHS[1:], in_depth, 17 / 3),
    ]


@kept
def linear_identity(lab: Lab) -> Check:
    r"""Check $\frac1n \sum_i \ell'_i y_i u_{l,i} = -\eta \|\nabla_{W_l} L_S\|_F^2$ layer by layer."""
    taken = take(lab, 128, 0, 0.3)
    squares = [float((g**2).sum()) for g in gradients(lab.seen(128), taken.c)]
    return identity(
        "(1/n) Σ_i ℓ'_i y_i u_{l,i} = -η ‖∇_{W_l} L_S‖²", taken.linear @ taken.c, -taken.eta * np.array(squares)
    )


def _moved(lab: Lab) -> tuple[ReLUPass, ReLUPass]:
    """Return the passes before and after a step large enough to flip activations."""
    before, data = lab.seen(128), lab.data()
    c = coefficients(before, data, margin_loss("logistic"))
    return before, look(step(lab.start(128, 3, 0), before, c, 1.0 / 128), data.x)


@kept
def telescoped_change(lab: Lab) -> Check:
    r"""Check that the change of the output telescopes over layers.

    $f' - f = \sum_l v^\top (\prod_{r>l} \Sigma_r W_r^\top)(\Sigma'_l W_l'^\top - \Sigma_l W_l^\top) x'_{l-1}$,
    with primes for what comes after the step.
    """
    before, after = _moved(lab)
    total = np.zeros(len(before.outputs))
    for layer in range(1, 4):
        old = before.mask(layer) * (after.layers[layer - 1] @ before.weights[layer - 1])
        back = before.signs[None, :] + 0 * before.layers[-1]
        for above in range(3, layer, -1):
            back = (back * before.mask(above)) @ before.weights[above - 1].T
        total += ((after.layers[layer] - old) * back).sum(axis=1)
    return identity("output change, telescoped over layers", total, after.outputs - before.outputs)


@kept
def pattern_changes(lab: Lab) -> Check:
    r"""Compare $\|(\Sigma' - \Sigma) W'^\top x'\|$ with $\|W'^\top x' - W^\top x\|$ in every layer."""
    before, after = _moved(lab)
    found = []
    for layer in range(1, 4):
        new, old = after.values[layer - 1], before.values[layer - 1]
        flipped = (after.mask(layer) ^ before.mask(layer)) * new
        found.append((np.linalg.norm(flipped, axis=1), np.linalg.norm(new - old, axis=1)))
    return at_most("‖(Σ' - Σ) z'‖ <= ‖z' - z‖", *sides(found))


class Enumerated(NamedTuple):
    """One SGD step with every possible minibatch: `chances` rows."""

    before: float
    losses: np.ndarray
    changes: np.ndarray
    slopes: np.ndarray
    squares: float
    last: float
    eta: float
    width: int
    means: np.ndarray

    @property
    def total(self) -> float:
        r"""$S = \sum_i |\ell'_i|$."""
        return float(self.slopes.sum())


@kept
def enumerate_steps(
    lab: Lab, width: int, draw: int, batch: int, speed: float, depth: int = 3, name: str = "logistic"
) -> Enumerated:
    """Take the step with each minibatch of a size in turn."""
    data, loss, eta = lab.data(), margin_loss(name), speed / width
    start, before = lab.start(width, depth, draw), lab.seen(width, depth, draw)
    outputs = np.array(
        [look(step(start, before, coefficients(before, data, loss, chosen), eta), data.x).outputs
         for chosen in subsets(8, batch)]
    )  # fmt: skip
    whole = gradients(before, coefficients(before, data, loss))
    slope = slopes(loss, data.y * before.outputs)
    return Enumerated(
        float(values(loss, data.y * before.outputs).mean()),
        values(loss, (data.y * outputs).ravel()).reshape(outputs.shape).mean(axis=1),
        data.y * (outputs - before.outputs),
        slope,
        sum(float((g**2).sum()) for g in whole),
        float((whole[-1] ** 2).sum()),
        eta,
        width,
        np.array([slope[chosen].mean() for chosen in subsets(8, batch)]),
    )


def _enumerated(lab: Lab, size: tuple[int, int, int, float], draw: int) -> tuple[Enumerated, int, int]:
    width, depth, batch, speed = size
    return enumerate_steps(lab, width, draw, batch, speed, depth), depth, batch


def _moments(drawn: tuple[Enumerated, int, int]) -> tuple[np.ndarray, float]:
    r"""Return $E\Delta_i^2$ of every example, and (D.7) without its constant."""
    found, depth, batch = drawn
    size = depth**4 * found.width * found.eta * found.total
    return (found.changes**2).mean(axis=0), size**2 / (found.changes.shape[1] * batch)


def _by_minibatch(drawn: tuple[Enumerated, int, int]) -> tuple[np.ndarray, float]:
    r"""Return $E\Delta_i^2$ of every example, and (D.6) without its constant: the minibatch's squared mean slope."""
    found, depth, _ = drawn
    return (found.changes**2).mean(axis=0), (depth**4 * found.width * found.eta) ** 2 * float((found.means**2).mean())


def _rises(drawn: tuple[Enumerated, int, int]) -> tuple[np.ndarray, float]:
    r"""Return by how much each minibatch raises the loss, and (E.8) without its constant, for $p = 1$."""
    found, depth, batch = drawn
    n = found.changes.shape[1]
    return found.losses - found.before, n * depth**4 * found.width * found.eta / batch * found.before**2


def _falls(drawn: tuple[Enumerated, int, int]) -> tuple[float, float]:
    r"""Return $L_S - E L_S(k+1)$ and (D.9) without the constant $c_0/2$, which the proof names."""
    found, _, _ = drawn
    n = found.changes.shape[1]
    return found.before - float(found.losses.mean()), found.eta * found.width * PHI / n**5 * found.total**2


def _whole(lab: Lab, size: tuple[int, int, float], draw: int) -> tuple[Step, int]:
    width, depth, speed = size
    return take(lab, width, draw, speed, None, depth), depth


def _remainders(drawn: tuple[Step, int]) -> tuple[np.ndarray, float]:
    r"""Return what the linear part misses, and (C.2)'s remainders with one constant; $\tau$ is the distance moved."""
    taken, depth = drawn
    tau = taken.eta * np.sqrt(taken.width) * taken.total
    small = depth ** (17 / 3) * tau ** (1 / 3) * np.sqrt(np.log(taken.width))
    return -taken.missed, taken.scale * (small + depth**9 * taken.width * taken.eta)


MINIBATCHES = Trials(
    "zou2018.eq_d_7", _enumerated,
    (
        Clause("D.6", "E Δ_i² <= C L⁸M²η² E(mean slope of the minibatch)²", _by_minibatch),
        Clause("D.7", "E Δ_i² <= (2C L⁸M²η²/(nB)) S² for every i", _moments),
        Clause("E.8", "rise of L_S <= (C n L⁴Mη/B) L_S^{2p}", _rises),
        Clause("D.9", "L_S - E L_S(k+1) >= η(c0 mφ/(2n⁵)) S²", _falls, least=True, constant=4.2e-4),
    ),
    small=((64, 2, 1, 0.1), (64, 2, 2, 0.3), (64, 3, 1, 0.3)),
    large=(
        ((128, 2, 1, 0.3), (128, 3, 4, 0.1)), ((128, 2, 1, 0.3), (256, 3, 2, 0.1), (128, 4, 1, 0.03)),
        ((256, 2, 1, 0.3), (512, 4, 4, 0.1), (256, 6, 2, 0.03)),
    ),
    said="(m, L, B, ηm)",
)  # fmt: skip

WHOLE = Trials(
    "zou2018.lemma_c_2", _whole,
    (
        Clause("C.1", "|Δ_i| <= (C L⁴Mη/n) S",
               lambda drawn: (np.abs(drawn[0].change), drawn[1] ** 4 * drawn[0].scale)),
        Clause("C.2", "Δ_i >= linear part - (C L^{17/3}τ^{1/3}Mη√log M + C L⁹M²η²) S/n", _remainders),
    ),
    small=((64, 2, 0.1), (64, 3, 0.3), (64, 2, 0.3)),
    large=(
        ((128, 2, 0.3), (128, 4, 0.1)), ((128, 2, 0.3), (256, 4, 0.1), (256, 8, 0.03)),
        ((256, 2, 0.3), (512, 4, 0.1), (512, 12, 0.03)),
    ),
    said="(m, L, ηm)",
)  # fmt: skip
