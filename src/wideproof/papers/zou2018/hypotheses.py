"""What the theorems suppose of the loss, the data and the widths (Assumptions 3.1 to 3.6 and 4.4)."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from wideproof.networks import DeepReLU
from wideproof.papers.check import Check, at_least, at_most, conclude, identity
from wideproof.papers.statement import Section, misprint
from wideproof.papers.zou2018.lab import DIMENSION, MU, PHI, Lab, powers
from wideproof.precision import double
from wideproof.training import MarginLoss, get_loss

statement = Section("hypothesis", "any")

# The losses that training offers and that are at least continuous and non-increasing.
CATALOGUE = (
    "logistic", "exponential", "exp_linear", "hinge", "squared_hinge", "half_squared_hinge", "huber_hinge",
    "canonical(0.75)", "canonical(0.6)", "probit", "sigmoid", "power_hinge(3)",
)  # fmt: skip
TINY = 1e-12  # what float64 leaves of an equality


class Curve(NamedTuple):
    r"""A loss on a grid of margins: $\ell$ and $-\ell'$."""

    loss: MarginLoss
    value: np.ndarray
    slope: np.ndarray

    @property
    def lower(self) -> np.ndarray:
        r"""$\min\{\alpha_0, \alpha_1 \ell^p\}$."""
        alpha0, alpha1, p = powers(self.loss)
        return np.minimum(alpha0, alpha1 * self.value**p)


def grid(lab: Lab) -> np.ndarray:
    """Return margins from -20 to 30 whose differences are exact, close together near the kinks at 0 and 1."""
    per_unit = lab.pick(32, 256, 4096)
    return np.union1d(np.arange(-20 * per_unit, 30 * per_unit + 1), np.arange(-2, 2, 1 / 16) * per_unit) / per_unit


def curves(lab: Lab, assumption: str) -> list[Curve]:
    """Return the losses that state constants for an assumption, evaluated in one compiled program."""
    known = [loss for loss in map(get_loss, CATALOGUE) if isinstance(loss, MarginLoss)]

    @double
    def make() -> list[Curve]:
        program = jax.jit(lambda z: [(loss.value(z), loss.derivative(z)) for loss in known])
        found = program(grid(lab))
        return [Curve(loss, np.asarray(v), -np.asarray(d)) for loss, (v, d) in zip(known, found, strict=True)]

    return [curve for curve in lab.keep("curves", make) if curve.loss.meets(assumption)]


def excess(title: str, left: np.ndarray, right: np.ndarray) -> Check:
    """Compare `left <= right` where equality is allowed: what is above may only be rounding."""
    size = np.maximum(np.maximum(np.abs(left), np.abs(right)), 1e-300)
    return at_most(title, np.max((left - right) / size), TINY)


@statement("The loss is continuous and non-increasing, and loss and slope die out for large margins", "bound")
def assumption_3_1(lab: Lab) -> Check:
    r"""The loss is continuous and never increases, and both $\ell$ and $\ell'$ vanish at $+\infty$."""
    z, parts = grid(lab), []
    for loss, value, slope in curves(lab, "3.1"):
        fall = (value[:-1] - value[1:]) / np.diff(z)
        parts += [
            at_least(f"{loss.name}: ℓ >= 0 and -ℓ' >= 0", np.concatenate([value, slope]), 0.0),
            at_most(f"{loss.name}: ℓ and |ℓ'| at margin 30", [value[-1], slope[-1]], 1e-11),
            at_most(f"{loss.name}: no jump, -Δℓ/Δz <= sup|ℓ'|", fall, np.maximum(slope[:-1], slope[1:]) + 1e-9),
        ]
    return conclude(*parts, assumptions=(f"margins in [{z[0]:g}, {z[-1]:g}], {z.size} of them",))


@statement("Where the loss is large its slope is too: −ℓ' ≥ min{α0, α1 ℓ^p} for some 0 < p ≤ 1", "bound")
@misprint("prints a0 for α0 once; p must be positive although the theorems include p = 0")
def assumption_3_2(lab: Lab) -> Check:
    r"""The slope is large where the loss is: $-\ell' \ge \min\{\alpha_0, \alpha_1 \ell^p\}$ with $0 < p \le 1$."""
    found = [(powers(curve.loss)[2], curve) for curve in curves(lab, "3.2")]
    return conclude(
        *(excess(f"{c.loss.name}: min(α0, α1 ℓ^p) <= -ℓ', p = {p:g}", c.lower, c.slope) for p, c in found),
        at_most("p <= 1", [p for p, _ in found], 1.0, counts=True),
        at_least("p > 0", [p for p, _ in found], 0.0),
        assumptions=("equality counts as holding: the canonical losses have it everywhere",),
    )


@statement("The slope of the loss is λ-Lipschitz", "bound")
@misprint(
    "together with 3.1 and 3.2 it leaves only p ≥ 1/2, and p = 1/2 when α0 is infinite, for every loss but 0: the "
    "rows for smaller p are empty"
)
def assumption_3_3(lab: Lab) -> Check:
    r"""The slope is $\lambda$-Lipschitz; hence $\ell'^2 \le 2\lambda\ell$, which leaves no room for $p < 1/2$."""
    z, parts = grid(lab), []
    for loss, value, slope in curves(lab, "3.3"):
        assert loss.smoothness is not None
        quotients = np.abs(np.diff(slope)) / np.diff(z)
        parts.append(excess(f"{loss.name}: |Δℓ'|/Δz <= λ", quotients, loss.smoothness + 0 * quotients))
        parts.append(excess(f"{loss.name}: ℓ'^2 <= 2λℓ", slope**2, 2 * loss.smoothness * value))
        if loss.p is not None:
            parts.append(at_least(f"{loss.name}: p >= 1/2", loss.p, 0.5, counts=True))
    return conclude(*parts, assumptions=("difference quotients between neighbouring margins",))


@statement("For SGD the slope lies between two multiples of ℓ^p, capped at constants", "bound")
@misprint("asks for α0 < ρ0 and allows both to be infinite")
def assumption_4_4(lab: Lab) -> Check:
    r"""For SGD: $\min\{\alpha_0, \alpha_1\ell^p\} \le |\ell'| \le \min\{\rho_0, \rho_1\ell^p\}$."""
    parts = []
    for curve in curves(lab, "4.4"):
        loss = curve.loss
        assert loss.rho0 is not None
        assert loss.rho1 is not None
        parts.append(excess(f"{loss.name}: min(α0, α1 ℓ^p) <= |ℓ'|", curve.lower, curve.slope))
        upper = np.minimum(loss.rho0, loss.rho1 * curve.value**loss.p)
        parts.append(excess(f"{loss.name}: |ℓ'| <= min(ρ0, ρ1 ℓ^p)", curve.slope, upper))
    return conclude(*parts, assumptions=("α = ρ allowed: enlarging ρ by any amount makes it strict",))


@statement("Every input is a unit vector whose last coordinate is the same μ", "exact")
def assumption_3_4(lab: Lab) -> Check:
    r"""Inputs are unit vectors with the same last coordinate $\mu$; so $x_i^\top x_j \ge 2\mu^2 - 1$."""
    x = lab.data(32).x
    products = x @ x.T
    return conclude(
        identity("‖x_i‖ = 1", np.linalg.norm(x, axis=1), 1.0),
        identity("last coordinate = μ", x[:, -1], MU),
        at_least("x_i·x_j >= 2μ² - 1", products, 2 * MU**2 - 1),
    )


def opposite_distances(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the distances between examples of different label."""
    i, j = np.nonzero(np.triu(y[:, None] != y[None, :]))
    return np.linalg.norm(x[i] - x[j], axis=1)


@statement("Inputs with different labels have distance at least φ", "bound")
def assumption_3_5(lab: Lab) -> Check:
    r"""Inputs of different label are at least $\phi$ apart."""
    data = lab.data(32)
    distances = opposite_distances(data.x, data.y)
    title = "‖x_i - x_j‖ >= φ for y_i != y_j (the closest pair is φ apart to 1e-9)"
    return conclude(at_least(title, distances, PHI * (1 - 1e-9)))


@statement("No layer is more than twice as wide as another: M ≤ 2m", "bound", network="relu")
@misprint("the input dimension is free, but bounded first-layer weights need d = O(m)")
def assumption_3_6(lab: Lab) -> Check:
    r"""Widths are comparable, $M \le 2m$; bounded first-layer weights need $d = O(m)$ besides."""
    networks = [DeepReLU(DIMENSION, m, 3) for m in lab.widths] + [DeepReLU(DIMENSION, (128, 192, 256), 3)]
    ratios = [max(network.widths) / min(network.widths) for network in networks]
    inputs = [network.input_dim / min(network.widths) for network in networks]
    return conclude(
        at_most("M / m <= 2 for every network used", ratios, 2.0, counts=True), at_most("d / m <= 1", inputs, 1.0)
    )
