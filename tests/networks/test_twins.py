r"""Constants of activations are proved: $\sup|\sigma'|$, $\sup|\sigma''|$, $\sup|\sigma'''|$ over the whole line.

Taylor series in balls give each derivative's enclosure on an interval; intervals are halved until all are below the
constant. Beyond 40 the tails are short formulas.
"""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from flint import arb, arb_series, ctx  # pyright: ignore[reportAttributeAccessIssue]

from wideproof.networks.activations import ACTIVATIONS, PARTS
from wideproof.networks.twins import PROVED

FAR = 40.0
EVERY = {**ACTIVATIONS, **PARTS}


def sigmoid(z):
    return 1 / (1 + (-z).exp())


def softplus(z):
    """In the form whose exponential is small: the other one's derivatives cancel."""
    return z + (1 + (-z).exp()).log() if z[0].mid() > 0 else (1 + z.exp()).log()


def mish(z):
    e = z.exp()
    return z * (1 - 2 / (e * (e + 2) + 2))


def gelu(z):
    return z * (1 + (z * (1 / arb(2).sqrt())).erf()) / 2


def gelu_tanh(z):
    return z * sigmoid((8 / arb.pi()).sqrt() * (z + arb("0.044715") * z * z * z))


SERIES = {
    "softplus": softplus,
    "sigmoid": sigmoid,
    "tanh": lambda z: 1 - 2 / (1 + (2 * z).exp()),
    "erf": lambda z: z.erf(),
    "arctan": lambda z: z.atan(),
    "sin": lambda z: z.sin(),
    "swish": lambda z: z * sigmoid(z),
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "mish": mish,
    "elu": lambda z: z.exp() - 1,  # its left half
    "softsign": lambda z: 1 - 1 / (1 + z),  # its right half
}
# Bounds of |σ'|, |σ''|, |σ'''| for |z| > 40. With s the logistic function, |s^(k)| ≤ 6 e^{-|z|} for k = 1..4, and a
# product with z adds a derivative: |(z s)^(k)| ≤ |s^(k)| |z| + k |s^(k-1)|, s itself ≤ 1.
SMALL = 400 * math.exp(-FAR)
TAILS = {
    "softplus": (1.0, SMALL, SMALL),
    "sigmoid": (SMALL, SMALL, SMALL),
    "tanh": (SMALL, SMALL, SMALL),
    "erf": (1e-300, 1e-300, 1e-300),  # derivatives are polynomials below z^3 times e^{-z²}, at 40 below 1e-680
    "arctan": (1 / FAR**2, 2 / FAR**3, 8 / FAR**4),  # (6z² - 2)/(1 + z²)³ ≤ 8/z⁴
    "swish": (1 + SMALL, SMALL, SMALL),
    "gelu": (1 + 1e-300, 1e-300, 1e-300),
    "gelu_tanh": (1 + 1e-300, 1e-300, 1e-300),  # the logistic function of something above 4000, times powers of z
    "mish": (1 + SMALL * 10, SMALL * 10, SMALL * 10),
    "elu": (math.exp(-FAR),) * 3,
    "softsign": (1 / FAR**2, 2 / FAR**3, 6 / FAR**4),
}


def derivatives(name, low, high=None) -> Any:
    """Enclose all derivatives up to the fifth on an interval, or at a point; `None` where it is too wide for that."""
    z = arb(low) if high is None else arb((low + high) / 2, (high - low) / 2)
    try:
        found = SERIES[name](arb_series([z, 1], prec=6)).coeffs()
    except ValueError:  # a denominator that may be zero
        return None
    return [math.factorial(k) * (found[k] if k < len(found) else arb(0)) for k in range(6)]


def below(name, order, bound, low, high):
    r"""Return whether $|f| \le$ `bound` on an interval, f the derivative of this order.

    Around the midpoint c by $|f(c)| + |f'(c)| h + |f''| h^2 / 2$; where $|f|$ is concave, $|f''| \ge m$, by
    $|f(c)| + f'(c)^2 / 2m$ for any c, best the maximum.
    """
    wide, c = derivatives(name, low, high), arb((low + high) / 2)
    if wide is None:
        return False
    value, slope, bend = derivatives(name, c)[order : order + 3]
    h = arb((high - low) / 2)
    if abs(value) + abs(slope) * h + abs(wide[order + 2]) * h * h / 2 <= bound:
        return True
    if not (wide[order] * wide[order + 2] < 0 and low < high):
        return False
    for _ in range(8):
        value, slope, bend = derivatives(name, c)[order : order + 3]
        c = (c - slope / bend).mid().max(arb(low)).min(arb(high))
    value, slope, _ = derivatives(name, c)[order : order + 3]
    return bool(abs(value) + slope * slope / (2 * arb(abs(wide[order + 2]).lower())) <= bound)


def everywhere(name, order, bound, low, high):
    """Return whether it holds on the whole range, after halving it into at most twenty thousand intervals."""
    waiting = [(low, high)]
    for _ in range(20000):
        if not waiting:
            return True
        a, b = waiting.pop()
        if not below(name, order, bound, a, b):
            if b - a < 1e-9:
                return False
            waiting += [(a, (a + b) / 2), ((a + b) / 2, b)]
    return False


RANGES = {"elu": (-FAR, 0.0), "softsign": (0.0, FAR), "sin": (-4.0, 4.0)}


@pytest.mark.parametrize("name", SERIES)
def test_the_constants_are_upper_bounds(name):
    """To half a unit in the last place, on [-40, 40] and beyond; and no more than a ten-thousandth too large."""
    known = PROVED[name]
    low, high = RANGES.get(name, (-FAR, FAR))
    with ctx.workprec(128):
        for order, bound in enumerate((known.lipschitz, known.smoothness, known.third), 1):
            if bound is None:
                continue
            assert everywhere(name, order, arb(bound) * (1 + arb(2) ** -53), low, high), order
            assert name not in TAILS or TAILS[name][order - 1] <= bound, order
            assert not everywhere(name, order, arb(bound) * (1 - arb(1e-4)), low, high), order


def test_a_constant_that_is_too_small_is_caught():
    """By a few units in the sixteenth digit already."""
    with ctx.workprec(128):
        for name, order, sharp in (("softplus", 2, 0.25), ("tanh", 3, 2.0), ("erf", 1, PROVED["erf"].lipschitz)):
            assert not everywhere(name, order, arb(sharp * (1 - 2e-15)), -FAR, FAR)


def test_jumps_and_patterns():
    """The second derivatives of elu and softsign jump at zero; a ReLU is affine in a pattern."""
    assert {name for name, known in PROVED.items() if known.third is None} == {"elu", "softsign", "ramp"}
    assert (PROVED["ramp"].lipschitz, PROVED["ramp"].smoothness) == (1.0, 0.5)  # a slope of (z + 1)/2 between 0 and 1
    for name in ("identity", "relu", "relu_closed"):
        assert (PROVED[name].lipschitz, PROVED[name].smoothness, PROVED[name].third) == (1.0, 0.0, 0.0)
    assert SERIES.keys() | {"identity", "relu", "ramp"} == EVERY.keys()


@pytest.mark.parametrize("name", EVERY)
def test_twins_are_the_activation(name):
    """The same values as JAX computes, and constants that are those of the activation, rounded up."""
    z = np.concatenate([np.linspace(-12, 12, 401), [-700.0, 700.0, 1e-300]])
    known, activation = PROVED[name], EVERY[name]
    np.testing.assert_allclose(known.value(z), activation.value(jnp.asarray(z)), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(known.slope(z), activation.derivative(jnp.asarray(z)), rtol=1e-12, atol=3e-15)
    assert activation.lipschitz <= known.lipschitz <= activation.lipschitz * (1 + 1e-5)
    if activation.smoothness is not None:
        assert activation.smoothness <= known.smoothness <= activation.smoothness * (1 + 1e-5)
