r"""What the theorems suppose of the activation, the data and the width."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from wideproof.data import pairs
from wideproof.monitors.smooth import SmoothNetwork, geometric
from wideproof.networks import ACTIVATIONS, Activation
from wideproof.papers.check import Check, at_least, at_most, conclude, identity
from wideproof.papers.du2019.lab import Kind, Lab
from wideproof.papers.statement import Section, misprint
from wideproof.precision import double

statement = Section("hypothesis", "any")

REACH = 12.0  # beyond it tanh, softplus and their kin are linear or constant to rounding


@statement("The activation and its slope change at most in proportion to their argument", "bound")
@misprint("the second argument of σ' is printed as the first")
def condition_3_1(lab: Lab) -> Check:
    r"""The activation is tame: $|\sigma(0)| \le c$, and $\sigma$ and $\sigma'$ are both $c$-Lipschitz.

    $$ |\sigma(z) - \sigma(z')| \le c\,|z - z'|, \qquad |\sigma'(z) - \sigma'(z')| \le c\,|z - z'| . $$

    Checked for every analytic activation, each with its own sharp constants $L$ and $\beta$ in place of $c$.
    """
    smooth = tuple(a for a in ACTIVATIONS.values() if a.condition_3_1 and a.condition_3_2)
    return conclude(
        *lipschitz_checks(lab, smooth),
        assumptions=[f"pairs from a grid and at random in [-{REACH:g}, {REACH:g}], at distances down to 0.001"],
    )


def lipschitz_checks(lab: Lab, activations: tuple[Activation, ...]) -> list[Check]:
    r"""Compare difference quotients of $\sigma$ and $\sigma'$ with $L$ and $\beta$ (1 where there is none)."""
    rng = lab.rng("pairs of arguments")
    grid = np.arange(-REACH, REACH, 0.004) + 0.001
    z = np.concatenate([grid, rng.uniform(-REACH, REACH, 2000)])
    other = np.concatenate([grid + 0.001, rng.uniform(-REACH, REACH, 2000)])
    found = []
    for activation, (value, slope, at_zero) in zip(activations, _differences(activations, z, other), strict=True):
        name, ell = activation.name, activation.lipschitz
        beta = 1.0 if activation.smoothness is None else activation.smoothness
        found += [
            at_most(f"{name}: |Δσ| <= {ell:.6g} |Δz|", value, ell),
            at_most(f"{name}: |Δσ'| <= {beta:.6g} |Δz|", slope, beta),
            identity(f"{name}: σ(0)", at_zero, activation.at_zero, tolerance=1e-14),
        ]
    return found


@double
def _differences(activations: tuple[Activation, ...], z: np.ndarray, other: np.ndarray) -> list[tuple]:
    """Return difference quotients of every activation and of its derivative, and its value at zero."""

    @jax.jit
    def all_at_once(z: jax.Array, other: jax.Array) -> list[tuple]:
        gap, zero = jnp.abs(z - other), jnp.zeros(())
        quotient = lambda f: jnp.abs(f(z) - f(other)) / gap  # noqa: E731
        return [(quotient(a.value), quotient(a.derivative), a.value(zero)) for a in activations]

    return jax.tree.map(np.asarray, all_at_once(jnp.asarray(z), jnp.asarray(other)))


def data_hypotheses(lab: Lab, kind: Kind) -> list[Check]:
    """Check unit inputs, bounded labels, and that no two inputs are parallel."""
    data = lab.data(kind)
    flat = np.asarray(data.x).reshape(data.n, -1)
    nearest = pairs(flat)
    apart = min(pair.distance for pair in (nearest.direction, nearest.antipode) if pair is not None)
    return [
        identity("inputs have norm 1", np.linalg.norm(flat, axis=1), 1.0, tolerance=1e-12),
        at_most("labels are bounded", np.abs(data.y), 1.0, counts=True),
        at_least("no two inputs are parallel", apart, 0.0),
    ]


def width_hypothesis(lab: Lab, network: SmoothNetwork, kind: Kind) -> Check:
    r"""Compare the width with the theorem's, all unspecified constants put to 1."""
    data = lab.data(kind)
    n, depth, lambda_0 = data.n, network.depth, lab.lambda_0(network, data.x)
    concentration = n**2 * math.log(depth * n / lab.delta) / lambda_0**2
    if kind == "fully-connected":
        needed = 2**depth * max(n**4 / lambda_0**4, n / lab.delta, concentration)
    else:
        pixels = getattr(network, "pixels", 1)  # poly(p) as Lemmas D.1 and D.2 have it
        needed = pixels**2 * max(
            n**4 / (lambda_0**4 * depth**6), n**2 / (lambda_0**2 * depth**2), n / lab.delta, concentration
        )
    return at_least("width as the theorem asks, constants 1", network.width, needed)


def growth_constant(activation: Activation, factor: float = 3.0) -> float:
    r"""Return $C = c_\sigma L (2|\sigma(0)|\sqrt{2/\pi} + 3L)$, by which norm errors grow from layer to layer (B.1)."""
    ell = activation.lipschitz
    return activation.c_sigma * ell * (2 * abs(activation.at_zero) * math.sqrt(2 / math.pi) + factor * ell)


def norm_width(lab: Lab, network: SmoothNetwork, n: int) -> Check:
    r"""Compare the width with $n H g_C(H)^2 / \delta$ of Lemma B.1, its constant put to 1."""
    growth = float(geometric(growth_constant(network.activation), network.depth))
    return at_least("width as Lemma B.1 asks, constant 1", network.width, n * network.depth * growth**2 / lab.delta)
