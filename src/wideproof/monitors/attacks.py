r"""Perturbations of a recurrent matrix that come close to what the stability bounds of Allen-Zhu et al. (2018) allow.

A bound "for every $W'$ with $\|W'\|_2 \le \tau_0 / \sqrt m$" is hardly tested by random $W'$: they flip about $\sqrt m$
units where the bound allows $m^{2/3}$. Each function here returns one $W'$ of that size, made for one quantity. The
`radius` is $\tau_0$ throughout; samples count from 0, times are the paper's, $\ell = 1..L$.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from wideproof.monitors.norms import spectral_norm
from wideproof.monitors.recurrent import Unrolled

MARGIN = 1e-6  # how far past zero a flipped unit is pushed, relative
PUSHES = (1.5, 2.0, 3.0, 4.0)  # how far the remainder attack pushes its units, as multiples of their value


def isolated(seen: Unrolled, sample: int, time: int) -> Float[np.ndarray, "m"]:
    r"""Return the part of $h_{i,\ell}$ orthogonal to all states of earlier times and to the other samples' at $\ell$.

    A matrix $u v^\top$ with this direction $v$ changes nothing before time $\ell + 1$, and there only the sample $i$.
    """
    h = seen.h[sample, time - 1]
    others = np.concatenate([seen.h[:, : time - 1].reshape(-1, h.size), np.delete(seen.h[:, time - 1], sample, axis=0)])
    if len(others):
        basis = np.linalg.qr(others.T)[0]
        for _ in range(2):
            h = h - basis @ (basis.T @ h)
    return h


def flip_attack(seen: Unrolled, radius: float, sample: int = 0, time: int = 2) -> Float[np.ndarray, "m m"]:
    r"""Flip as many units as possible at one time: move the smallest pre-activations just past zero.

    With $v$ the isolated part of $h_{i,\ell-1}$ and $r$ its length, $W' = u \bar v^\top$ moves $g_{i,\ell}$ by $r u$.
    The units with the smallest $|g_{i,\ell}|$ are chosen while $\sum g^2 \le (\tau_0 r)^2 / m$: about
    $1.24\, (\tau_0 r / s)^{2/3} m^{2/3}$ of them for entries of variance $s^2/m$.

    Examples
    --------
    >>> from wideproof.monitors.recurrent import unroll
    >>> from wideproof.networks import ElmanRNN
    >>> params = ElmanRNN(input_dim=3, width=64, length=3).init(0)
    >>> before = unroll(params, np.eye(3)[None])
    >>> change = flip_attack(before, radius=2.0, time=2)
    >>> after = unroll({**params, "W": before.W + change}, np.eye(3)[None])
    >>> int((before.mask != after.mask)[0, 0].sum()), int((before.mask != after.mask)[0, 1].sum())
    (0, 20)
    """
    v = isolated(seen, sample, time - 1)
    r = float(np.linalg.norm(v))
    g = seen.g[sample, time - 1]
    order = np.argsort(np.abs(g))
    cost = np.cumsum(np.square((1 + MARGIN) * g[order]))
    chosen = order[cost <= (radius * r) ** 2 / seen.width]
    u = np.zeros_like(g)
    u[chosen] = -(1 + MARGIN) * g[chosen] / r
    return np.outer(u, v / r)


def push_attack(seen: Unrolled, radius: float, sample: int = 0, time: int = 2) -> Float[np.ndarray, "m m"]:
    r"""Spend everything on the one unit that is closest to zero: $\|D' g\|$ becomes as large as one flip makes it."""
    v = isolated(seen, sample, time - 1)
    g = seen.g[sample, time - 1]
    u = np.zeros_like(g)
    unit = np.abs(g).argmin()
    u[unit] = -radius / np.sqrt(seen.width) * (1.0 if g[unit] >= 0 else -1.0)
    return np.outer(u, v / np.linalg.norm(v))


def polar_attack(seen: Unrolled, radius: float, sample: int = 0, rounds: int = 12) -> Float[np.ndarray, "m m"]:
    r"""Move the last hidden state as far as possible, to first order.

    $h'_L \approx \sum_a J_a W' h_a$ with $J_a = D_L W \cdots W D_{a+1}$. For a unit vector $p$ the best $W'$ is
    $\tau_0 / \sqrt m$ times the orthogonal factor of $\sum_a (J_a^\top p)\, h_a^\top$; for that $W'$ the best $p$ is
    the direction of $h'_L$; a few rounds of both settle.
    """
    states = seen.h[sample, :-1]
    right = np.linalg.qr(states.T)
    size = radius / np.sqrt(seen.width)
    p = seen.h[sample, -1] / np.linalg.norm(seen.h[sample, -1])
    left, core = np.zeros((seen.width, 1)), np.zeros((1, states.shape[0]))
    for _ in range(rounds):
        left, core = _polar(_pulled(seen, sample, p), right[1])
        moved = np.zeros(seen.width)
        steps = left @ (core @ right[1])  # column a: W' h_a over its size
        for time in range(2, seen.length + 1):
            moved = seen.mask[sample, time - 1] * ((seen.W @ moved if time > 2 else 0.0) + steps[:, time - 2])
        p = moved / np.linalg.norm(moved)
    return size * (left @ core) @ right[0].T


def _pulled(seen: Unrolled, sample: int, p: Float[np.ndarray, "m"]) -> Float[np.ndarray, "m l"]:
    r"""Return the columns $J_a^\top p$, $a = 1..L-1$."""
    columns = np.empty((seen.width, seen.length - 1))
    y = seen.mask[sample, -1] * p
    for time in range(seen.length, 1, -1):
        columns[:, time - 2] = y
        y = seen.mask[sample, time - 2] * (seen.W.T @ y)
    return columns


def _polar(
    columns: Float[np.ndarray, "m l"], r: Float[np.ndarray, "l l"]
) -> tuple[Float[np.ndarray, "m l"], Float[np.ndarray, "l l"]]:
    r"""Return $Q$ and $O$ with $Q O Q_2^\top$ the orthogonal factor of $C R^\top Q_2^\top$."""
    q, upper = np.linalg.qr(columns)
    u, _, vt = np.linalg.svd(upper @ r.T)
    return q, u @ vt


def remainder_attack(seen: Unrolled, losses: ArrayLike, radius: float) -> Float[np.ndarray, "m m"]:
    r"""Make the objective exceed its linear part by as much as possible, through flips at the last time.

    At the sample with the largest last loss, units are pushed past zero to $(1 - \kappa) g_k$ where
    $c_k (\phi(g_k + s_k) - \phi(g_k) - D_k s_k) > 0$, $c = B^\top \mathrm{loss}_L$, in the order of gain per squared
    push, until $\|W'\|_2 = \tau_0 / \sqrt m$ is spent; the best of four $\kappa$ is kept.
    """
    last = np.asarray(losses, float)[:, -1]
    sample = int(np.linalg.norm(last, axis=-1).argmax())
    v = isolated(seen, sample, seen.length - 1)
    r = float(np.linalg.norm(v))
    g, c = seen.g[sample, -1], last[sample] @ seen.B
    budget = (radius * r) ** 2 / seen.width
    best, found = -np.inf, np.zeros_like(g)
    for push in PUSHES:
        shift = -push * g
        gain = c * (np.maximum(g + shift, 0) - np.maximum(g, 0) - seen.mask[sample, -1] * shift)
        with np.errstate(divide="ignore", invalid="ignore"):
            order = np.argsort(-np.where(gain > 0, gain / shift**2, -np.inf))
        order = _affordable(order[gain[order] > 0], shift**2, budget)
        if gain[order].sum() > best:
            best, found = float(gain[order].sum()), np.zeros_like(g)
            found[order] = shift[order] / r
    return np.outer(found, v / r)


def _affordable(order: Int[np.ndarray, "k"], costs: Float[np.ndarray, "m"], budget: float) -> list[int]:
    """Take units in order, leaving out those that what is left cannot pay."""
    taken = []
    for k in order:
        if costs[k] <= budget:
            taken.append(int(k))
            budget -= float(costs[k])
    return taken


def backward_attack(seen: Unrolled, radius: float, sample: int = 0, time: int = 2) -> Float[np.ndarray, "m m"]:
    r"""Return $\tfrac{\tau_0}{\sqrt m}\, \bar b\, \bar h_{i,\ell-1}^\top$, the direction that the outputs see best.

    $b$ is the first row of $B D_L W \cdots W D_\ell$. It moves backward products by an amount that does not fall with
    the width.
    """
    b = seen.mask[sample, time - 1] * seen.back(sample, time, seen.length)[0]
    h = seen.h[sample, time - 2]
    return radius / np.sqrt(seen.width) * np.outer(b / np.linalg.norm(b), h / np.linalg.norm(h))


def gaussian_attack(width: int, radius: float, rng: np.random.Generator) -> Float[np.ndarray, "m m"]:
    r"""Return independent entries $N(0, \tau_0^2 / (4 m^2))$, whose spectral norm is near $\tau_0 / \sqrt m$."""
    return radius / (2 * width) * rng.standard_normal((width, width))


def trajectory_attack(change: ArrayLike, radius: float) -> Float[np.ndarray, "m m"]:
    r"""Return the direction in which training moved, $W^{(t)} - W^{(0)}$, at spectral norm $\tau_0 / \sqrt m$.

    Examples
    --------
    >>> float(trajectory_attack(np.diag([2.0, 0, 0, 0]), radius=1.0)[0, 0])
    0.5
    """
    moved = np.asarray(change, float)
    return radius / np.sqrt(len(moved)) / spectral_norm(moved) * moved


def sparse_attack(
    direction: ArrayLike, count: int, radius: float, rng: np.random.Generator
) -> Float[np.ndarray, "m m"]:
    r"""Return $y z^\top$: $z$ the unit `direction`, $y$ `count` entries $\pm \tau_0 / \sqrt m$ at random places."""
    z = np.asarray(direction, float)
    y = np.zeros_like(z)
    y[rng.choice(z.size, count, replace=False)] = radius / np.sqrt(z.size) * rng.choice([-1.0, 1.0], count)
    return np.outer(y, z / np.linalg.norm(z))


def aligned_attack(row: ArrayLike, direction: ArrayLike, count: int, radius: float) -> Float[np.ndarray, "m m"]:
    r"""Return $y z^\top$ with the places and signs of `count` entries that make $\langle row, y \rangle$ largest."""
    weights, z = np.asarray(row, float), np.asarray(direction, float)
    y = np.zeros_like(z)
    places = np.argsort(-np.abs(weights))[:count]
    y[places] = radius / np.sqrt(z.size) * np.sign(weights[places])
    return np.outer(y, z / np.linalg.norm(z))
