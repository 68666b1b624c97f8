r"""Moved weights of a ReLU residual network (Frei et al. 2019): distances, the linearization's error, attacks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from wideproof.monitors.norms import spectral_norm
from wideproof.monitors.residual import Pass
from wideproof.monitors.sparse import top_norms


def weight_distance(one: Pass, other: Pass) -> float:
    r"""Return $h = \|\Delta W_1\|_2 + \theta \sum_{l=2}^L \|\Delta W_l\|_2 + \|\Delta W_{L+1}\|_2$."""
    return float(sum(one.scale(layer) * d for layer, d in enumerate(spectral_distances(one, other), 1)))


def spectral_distances(one: Pass, other: Pass) -> list[float]:
    r"""Return $\|\Delta W_l\|_2$ for every layer."""
    changes = [a - b for a, b in zip(one.weights, other.weights, strict=True)]
    return [spectral_norm(change) if change.any() else 0.0 for change in changes]


def linear_parts(moved: Pass, base: Pass) -> Float[np.ndarray, "n layers"]:
    r"""Return $\mathrm{tr}[\Delta W_l^\top \nabla_{W_l} f_{base}(x_i)]$, `(n, L + 1)`."""
    parts = []
    for layer in base.steps:
        change = moved.weights[layer - 1] - base.weights[layer - 1]
        parts.append(base.scale(layer) * np.sum((base.x(layer - 1) @ change) * base.b(layer), axis=1))
    return np.stack(parts, axis=1)


def remainder(moved: Pass, base: Pass) -> Float[np.ndarray, "n"]:
    r"""Return $f_{moved} - f_{base} - \sum_l \mathrm{tr}[\Delta W_l^\top \nabla_{W_l} f_{base}]$ of every example."""
    return moved.outputs - base.outputs - linear_parts(moved, base).sum(axis=1)


class RemainderParts(NamedTuple):
    r"""The remainder, layer by layer: units that flip, and the change of the weights times that of the inputs."""

    flips: Float[np.ndarray, "n layers"]
    cross: Float[np.ndarray, "n layers"]


def remainder_parts(moved: Pass, base: Pass) -> RemainderParts:
    r"""Return the two parts of each layer of the remainder, `(n, L + 1)` each; their sum is the remainder, exactly:

    $$ \theta^{1(2\le l\le L)}\, q_l^\top (\hat\Sigma_l - \Sigma_l) \hat u_l, \qquad
       \theta^{1(2\le l\le L)}\, q_l^\top \Sigma_l \Delta W_l^\top (\hat x_{l-1} - x_{l-1}). $$
    """
    flips, cross = [], []
    for layer in base.steps:
        change = moved.weights[layer - 1] - base.weights[layer - 1]
        moved_mask = moved.mask(layer).astype(float) - base.mask(layer)
        flips.append(base.scale(layer) * np.sum(base.q(layer) * moved_mask * moved.u(layer), axis=1))
        cross.append(
            base.scale(layer) * np.sum(base.b(layer) * ((moved.x(layer - 1) - base.x(layer - 1)) @ change), axis=1)
        )
    return RemainderParts(np.stack(flips, axis=1), np.stack(cross, axis=1))


class Certified(NamedTuple):
    r"""What holds for every $W$ with $\|W_l - W_l^{(0)}\|_F \le \tau$, for each example.

    `moves` and `flips` bound $\|\hat x_l - x_l\|$ and the number of changed units in the layers $1..L+1$, `(n, L + 1)`;
    `remainder` bounds $|f_W - F_{W^{(0)},W}|$, `(n,)`.
    """

    moves: Float[np.ndarray, "n layers"]
    flips: Float[np.ndarray, "n layers"]
    remainder: Float[np.ndarray, "n"]


def certified_remainder(seen: Pass, radius: float) -> Certified:
    r"""Propagate the radius through the layers: bounds with no unknown constant.

    With $\Delta_0 = 0$, $\rho_l = \tau(\|x_{l-1}\| + \Delta_{l-1}) + \|W_l\|_2 \Delta_{l-1}$ and $s_l$ the most
    units whose $\sum u_j^2 \le \rho_l^2$ (a unit that flips has $|u_j| \le |\hat u_j - u_j|$), the remainder is at most
    $\sum_l \theta^{1(2\le l\le L)} [\mathrm{top}_{s_l}(q_l)\, \rho_l + \|\Sigma_l q_l\|\, \tau\, \Delta_{l-1}]$.
    """
    n = len(seen.outputs)
    before, total = np.zeros(n), np.zeros(n)
    moves, flips = [], []
    for layer in seen.steps:
        reach = radius * (np.linalg.norm(seen.x(layer - 1), axis=1) + before)
        reach = reach + seen.weight_norms[layer - 1] * before
        squares = np.cumsum(np.sort(np.square(seen.u(layer)), axis=1), axis=1)
        most = np.count_nonzero(squares <= np.square(reach)[:, None], axis=1)
        tops = np.column_stack([np.zeros(n), top_norms(seen.q(layer))])
        largest = tops[np.arange(n), most]
        total += seen.scale(layer) * (largest * reach + np.linalg.norm(seen.b(layer), axis=1) * radius * before)
        before = before + seen.theta * reach if 2 <= layer <= seen.depth else reach
        moves.append(before)
        flips.append(most)
    return Certified(np.stack(moves, axis=1), np.stack(flips, axis=1), total)


class Attack(NamedTuple):
    r"""A perturbation of one layer along one example: unit $j$ moves by `shifts[j]` $x_{l-1}/\|x_{l-1}\|^2$.

    `shifts` are the changes of the unit's value on that example, `units` how many move.
    """

    shifts: Float[np.ndarray, "m"]
    units: int

    def change(self, x: Float[np.ndarray, "p"]) -> Float[np.ndarray, "p m"]:
        r"""Return $\Delta W_l$ for the layer's input $x_{l-1}$."""
        return np.outer(x, self.shifts) / (x @ x)


def last_layer_attack(values: ArrayLike, signs: ArrayLike, input_norm: float, radius: float) -> Attack:
    r"""Return the perturbation of the last layer that pushes the remainder of one example furthest, of norm $\tau$.

    Among units of sign $+1$ those with $|u_j| \le t/2$ move by $-\mathrm{sign}(u_j)\, t$: every flip pushes the same
    way, and the remainder is $\sum (t - |u_j|)$ over them, about $0.390\, \|x_L\| \sqrt m\, \tau^{4/3}$.

    Examples
    --------
    >>> last_layer_attack([0.1, -0.2, 5.0, 0.3], [1, 1, 1, -1], input_norm=1.0, radius=1.0).units
    2
    """
    u, v = np.asarray(values, float), np.asarray(signs)
    order = np.argsort(np.where(v > 0, np.abs(u), np.inf))
    counts = np.arange(1, np.count_nonzero(v > 0) + 1)
    fits = np.abs(u[order[: counts.size]]) <= radius * input_norm / (2 * np.sqrt(counts))
    most = int(counts[fits].max(initial=0))
    shifts = np.zeros_like(u)
    if most:
        chosen = order[:most]
        shifts[chosen] = -np.where(u[chosen] >= 0, 1.0, -1.0) * radius * input_norm / np.sqrt(most)
    return Attack(shifts, most)


def flip_attack(values: ArrayLike, input_norm: float, radius: float, beyond: float = 1e-9) -> Attack:
    r"""Return the perturbation of norm at most $\tau$ that flips the most units of one layer for one example.

    The smallest $|u_j|$ are pushed just past zero while $\sum u_j^2 \le \tau^2 \|x\|^2$: about
    $(3/\pi)^{1/3}\, m\, \tau^{2/3}$ of them at the start.

    Examples
    --------
    >>> flip_attack([0.1, -0.2, 5.0], input_norm=1.0, radius=0.5).units
    2
    """
    u = np.asarray(values, float)
    order = np.argsort(np.abs(u))
    most = int(np.count_nonzero(np.cumsum(np.square((1 + beyond) * u[order])) <= (radius * input_norm) ** 2))
    shifts = np.zeros_like(u)
    shifts[order[:most]] = -(1 + beyond) * u[order[:most]]
    return Attack(shifts, most)


def attack_remainder(values: ArrayLike, signs: ArrayLike, attack: Attack) -> float:
    r"""Return $\sum_j v_j [\sigma(u_j + \delta_j) - \sigma(u_j) - 1\{u_j \ge 0\}\, \delta_j]$: the remainder."""
    u, shifts = np.asarray(values, float), attack.shifts
    return float(np.asarray(signs) @ (np.maximum(u + shifts, 0) - np.maximum(u, 0) - (u >= 0) * shifts))
