r"""Theorems 5.1 and 5.3 as events: one draw, all eight clauses as truth values, constants frozen before."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wideproof.data import Dataset
from wideproof.monitors import flips, small_values, sparse_form, spectral_norm, union_of_flips
from wideproof.monitors.relu import (
    ReLUPass,
    gradient_norms,
    interlayer,
    interlayer_norm,
    node_gradient_norms,
    sparse_output,
)
from wideproof.papers.frozen import DELTA, Clause, Trials
from wideproof.papers.zou2018 import moves, starts
from wideproof.papers.zou2018.lab import Lab, margin_loss, slopes

Sides = tuple[np.ndarray, np.ndarray | float]
CLOSE = 0.9  # φL of the data, which the theorem wants below 1
SPARSE = np.array([8, 16, 32, 64])


class Drawn(NamedTuple):
    """A random start, or weights near one, with its data."""

    lab: Lab
    data: Dataset
    phi: float
    seen: ReLUPass
    near: moves.Near | None = None

    @property
    def sizes(self) -> tuple[int, int, int, float]:
        r"""The numbers $n$, $L$ and $m$, and $\log(nL/\delta)$."""
        n, depth = len(self.data.y), self.seen.depth
        return n, depth, self.seen.width, float(np.log(n * depth / DELTA))


def drawn(lab: Lab, size: tuple[int, int], draw: int) -> Drawn:
    """Draw a network of this width and depth on data as far apart as the theorem allows."""
    width, depth = size
    phi = CLOSE / depth
    data = lab.data(phi=phi)
    return Drawn(lab, data, phi, lab.seen(width, depth, draw, data))


def moved(lab: Lab, size: tuple[int, int, float], draw: int) -> Drawn:
    r"""Move a start by $\tau$ in every layer, in one direction after the other of those that there are."""
    width, depth, tau = size
    phi = CLOSE / depth
    data, family = lab.data(phi=phi), moves.FAMILIES[draw % len(moves.FAMILIES)]
    found = moves.near(lab, family, width, draw, tau, depth, data)
    return Drawn(lab, data, phi, found.after, found)


def layer_norms(one: Drawn) -> Sides:
    """Clause (i) of Theorem 5.1, layers."""
    _, depth, width, log = one.sizes
    return np.array(starts.norm_deviation(one.seen)), depth * np.sqrt(log / width)


def weight_norms(one: Drawn) -> Sides:
    """Clause (i), weights."""
    return np.array([spectral_norm(w) for w in one.seen.weights]), 1.0


def separation(one: Drawn) -> Sides:
    """Clause (ii)."""
    return starts.separations(one.seen, one.data.y), one.phi


def outputs(one: Drawn) -> Sides:
    """Clause (iii)."""
    return np.abs(one.seen.outputs), np.sqrt(np.log(one.sizes[0] / DELTA))


def near_zero(one: Drawn) -> Sides:
    r"""Clause (iv), where $m^{3/2}\beta \ge 4\log(nL/\delta)$."""
    _, _, width, log = one.sizes
    scaled = np.geomspace(0.05, 2.0, 12)
    beta = scaled[scaled * width >= 4 * log] / np.sqrt(width)
    return np.max([small_values(z, beta).max(axis=0) for z in one.seen.values], axis=0), width**1.5 * beta


def products(one: Drawn) -> Sides:
    """Clause (v): from the second layer to every later one, on two examples."""
    depth = one.sizes[1]
    ends = range(3, depth + 1, max(1, (depth - 2) // 3))
    return np.array([interlayer_norm(one.seen, i, 2, end) for i in (0, 1) for end in ends]), depth


def sparse_outputs(one: Drawn) -> Sides:
    """Clause (vi), s from 8 to 64."""
    _, depth, _, _ = one.sizes
    layers = range(2, depth + 1, max(1, (depth - 1) // 3))
    found = np.array([sparse_output(one.seen, layer).max(axis=0)[SPARSE - 1] for layer in layers])
    return found, depth * np.sqrt(SPARSE * np.log(one.seen.widest))


def sparse_products(one: Drawn) -> Sides:
    """Clause (vii): largest entries exactly, 8-sparse vectors from below."""
    _, depth, width, _ = one.sizes
    chain = interlayer(one.seen, 0, 2, depth)
    found = np.array([sparse_form(chain, s, restarts=2).value / np.sqrt(s) for s in (1, 8)])
    return found, depth * np.sqrt(np.log(one.seen.widest) / width)


def nodes(one: Drawn) -> Sides:
    r"""Clause (viii) with the proof's threshold 1/4: units that see enough, over $m\phi/n$, for seven weightings."""
    n, _, width, _ = one.sizes
    found = []
    for a in starts.weightings(one.lab, one.seen, one.data).values():
        large = node_gradient_norms(one.seen, one.data.y, a) >= starts.NODE_THRESHOLD * a.max() / n
        found.append(float(large.sum()))
    return np.array(found), width * one.phi / n


AT_START = Trials(
    "zou2018.theorem_5_1", drawn,
    (
        Clause("i", "|‖x‖ - 1| <= C L√(log(nL/δ)/m)", layer_norms),
        Clause("i, weights", "‖W‖ <= C", weight_norms),
        Clause("ii", "separation >= φ/2", separation, least=True, constant=0.5),
        Clause("iii", "|f| <= C√log(n/δ)", outputs),
        Clause("iv", "units within β of zero <= 2 m^{3/2} β", near_zero, constant=2.0),
        Clause("v", "‖W ∏ ΣW‖ <= C L", products),
        Clause("vi", "output form <= C L√(s log M)", sparse_outputs),
        Clause("vii", "b'W ∏ ΣW a <= C L√(s log M/m)", sparse_products),
        Clause("viii", "units with a large sum >= mφ/(74.6 n)", nodes, least=True, constant=float(starts.NODE_SHARE)),
    ),
    small=((64, 3), (96, 3), (96, 4)),
    large=(((128, 3), (256, 6)), ((128, 3), (256, 6), (512, 12)), ((256, 3), (512, 12), (1024, 16))),
    said="(m, L)",
)  # fmt: skip


def _moved_by(one: Drawn) -> np.ndarray:
    assert one.near is not None
    pairs = zip(one.near.after.weights, one.near.before.weights, strict=True)
    return np.cumsum([spectral_norm(a - b) for a, b in pairs])


def drifts(one: Drawn) -> Sides:
    """Clause (ii) of Theorem 5.3."""
    assert one.near is not None
    return moves.drift(one.near), (one.sizes[1] * _moved_by(one))[:, None]


def _allowed(one: Drawn) -> float:
    assert one.near is not None
    _, depth, width, _ = one.sizes
    return depth ** (4 / 3) * one.near.tau ** (2 / 3) * width


def flipped(one: Drawn) -> Sides:
    """Clause (iii), every layer."""
    assert one.near is not None
    after, before, layers = one.near.after, one.near.before, range(1, one.sizes[1] + 1)
    return np.array([flips(after.mask(k), before.mask(k)).max() for k in layers]), _allowed(one)


def flipped_together(one: Drawn) -> Sides:
    """Clause (iv)."""
    assert one.near is not None
    n, last = one.sizes[0], one.sizes[1]
    return np.array(union_of_flips(one.near.after.mask(last), one.near.before.mask(last))), n * _allowed(one)


def moved_products(one: Drawn) -> Sides:
    """Clause (v)."""
    depth = one.sizes[1]
    ends = range(3, depth + 1, max(1, (depth - 2) // 3))
    return np.array([interlayer_norm(one.seen, i, 2, end, closed=True) for i in (0, 1) for end in ends]), depth


def forms(one: Drawn) -> Sides:
    r"""Clause (vi), on vectors with $L^{4/3}\tau^{2/3}m$ entries."""
    assert one.near is not None
    _, depth, width, _ = one.sizes
    s, layers = moves.sparsity(one.near), range(2, depth + 1)
    found = np.array([sparse_output(one.seen, layer).max(axis=0)[s - 1] for layer in layers])
    return found, depth ** (5 / 3) * one.near.tau ** (1 / 3) * np.sqrt(width * np.log(one.seen.widest))


def large_gradient(one: Drawn) -> Sides:
    r"""Clause (vii) over all losses: $c^*/m_L$ and $\phi/n^5$."""
    return np.array(moves.worst_share(one.seen, one.data.y)), one.phi / one.sizes[0] ** 5


def small_gradients(one: Drawn) -> Sides:
    """Clause (viii), the whole gradient and those of three minibatches of 3."""
    y, found = one.data.y, []
    slope = slopes(margin_loss("logistic"), y * one.seen.outputs)
    batches = [np.arange(len(y)), *(one.lab.rng("batch", k).choice(len(y), 3, replace=False) for k in range(3))]
    for chosen in batches:
        part, a = one.seen.only(chosen), slope[chosen]
        found.append(gradient_norms(part, a * y[chosen]) / a.sum())
    return np.array(found), one.sizes[1] ** 2 * np.sqrt(one.seen.widest)


NEARBY = Trials(
    "zou2018.theorem_5_3", moved,
    (
        Clause("i", "‖W̃‖ <= C", weight_norms),
        Clause("ii", "drift <= C L Σ‖Ŵ - W̃‖", drifts),
        Clause("iii", "flips <= C L^{4/3} τ^{2/3} m", flipped),
        Clause("iv", "units that flip on some example <= C n L^{4/3} τ^{2/3} m", flipped_together),
        Clause("v", "‖∏ ΣW̃‖ <= C L", moved_products),
        Clause("vi", "form <= C L^{5/3} τ^{1/3} √(M log M)", forms),
        Clause("vii", "‖∇_{W_L}L_S‖² >= 8.4e-4 (mφ/n⁵)(Σℓ')²", large_gradient, least=True,
               constant=float(moves.LEAST_SHARE)),
        Clause("viii", "‖∇_{W_l}L_S‖ <= C L²√M mean slope", small_gradients),
    ),
    small=((64, 3, 0.01), (64, 3, 0.1), (96, 4, 0.03)),
    large=(
        ((128, 3, 0.003), (128, 6, 0.03)), ((128, 3, 0.003), (256, 6, 0.03), (256, 8, 0.1)),
        ((256, 3, 0.001), (512, 8, 0.03), (512, 12, 0.1)),
    ),
    said="(m, L, τ)",
)  # fmt: skip
