"""Activations and losses in balls: values, slopes, and proved constants of both."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from flint import arb  # pyright: ignore[reportAttributeAccessIssue]


@dataclass(frozen=True)
class Activation:
    """One activation; a function that is missing is not known, and not needed."""

    both: Callable  # z -> (value, slope)
    constants: Callable = lambda: (1, 0)  # () -> (bound of |slope|, Lipschitz constant of the slope)
    series: Callable | None = None  # the value as a power series, for polynomials in float64
    strip: float = 0.0  # a bound of |σ'| on the complex plane within distance 1 of the real line
    bend: Callable | None = None  # z -> σ''(z)
    third: float = 0.0  # a bound of |σ'''|

    @cached_property
    def floats(self) -> tuple[float, float]:
        """Floats that are not below the two constants."""
        first, second = (math.nextafter(float(arb(c).upper()), math.inf) for c in self.constants())
        return first, second


def _sigmoid(z: Any) -> Any:
    return 1 / ((-z).exp() + 1)


def _relu(z: arb) -> tuple[arb, arb]:
    """A fixed pattern: a sign that is not known gives the slope [0, 1], an exact zero the slope 0."""
    return z.max(arb(0)), arb(1) if z > 0 else arb(0) if z <= 0 else arb(0.5, 0.5)


def _gelu_tanh(z: arb) -> tuple[arb, arb]:
    """Z s(w), w = √(8/π) (z + 0.044715 z³), s = 1/(1 + e^-w)."""
    c, w = (8 / arb.pi()).sqrt(), arb("0.044715")
    s, t = (_sigmoid(sign * c * (z + w * z * z * z)) for sign in (1, -1))
    return z * s, s + z * s * t * c * (1 + 3 * w * z * z)


def _ramp(z: arb) -> tuple[arb, arb]:
    """0 up to −1, z from 1 on, (z + 1)²/4 between."""
    slope = (z.max(arb(-1)).min(arb(1)) + 1) / 2
    return z.max(arb(1)) - 1 + slope * slope, slope


# Beyond ±T these are all but sign(z), (1 + sign(z))/2 or max(z, 0), and their slopes 0, 0 or (1 + sign(z))/2. T and by
# how much value and slope are off at most for |z| ≥ T, first in float64, then in double-double:
#     tanh   2 e^(-2T), 4 e^(-2T)      sigmoid, softplus   e^-T, e^-T (log(1 + x) ≤ x)
#     swish  T e^-T, (1 + T) e^-T      erf   e^(-T²), 2 e^(-T²)      gelu   2T e^(-T²/2), 2T e^(-T²/2)
ENDS: dict[str, tuple[str, tuple[float, float, float], tuple[float, float, float]]] = {
    "erf": ("sign", (6.5, 4.49e-19, 8.97e-19), (9.0, 6.65e-36, 1.33e-35)),
    "gelu": ("ramp", (9.5, 4.8e-19, 4.8e-19), (13.0, 5.22e-36, 5.22e-36)),
    "tanh": ("sign", (22.0, 1.56e-19, 3.12e-19), (40.0, 3.61e-35, 7.22e-35)),
    "sigmoid": ("step", (40.0, 4.25e-18, 4.25e-18), (72.0, 5.39e-32, 5.39e-32)),
    "softplus": ("ramp", (40.0, 4.25e-18, 4.25e-18), (72.0, 5.39e-32, 5.39e-32)),
    "swish": ("ramp", (40.0, 1.7e-16, 1.75e-16), (72.0, 3.88e-30, 3.93e-30)),
}

# Of swish: with s = sigmoid, |s| ≤ 1 and |s'| ≤ 1/(3.08 + x²), as |cosh(z/2)|² ≥ 1 + x²/4 − sin²(1/2): so |z s'| ≤ 0.5.
# Of gelu: |Φ(x + iy)| ≤ 1 + ∫_0^1 |φ(it)| dt ≤ 1.5, and |z φ(z)| ≤ (|x| + 1) e^((1 − x²)/2) / √(2π) ≤ 0.9.
ACTIVATIONS = {
    "softplus": Activation(
        lambda z: (z.exp().log1p(), _sigmoid(z)), lambda: (1, 0.25), lambda z: (z.exp() + 1).log(), 1.1,
        lambda z: _sigmoid(z) * _sigmoid(-z), 0.0963,
    ),
    "sigmoid": Activation(
        lambda z: (_sigmoid(z), _sigmoid(z) * _sigmoid(-z)), lambda: (0.25, 1 / (6 * arb(3).sqrt())), _sigmoid, 1.1,
        lambda z: _sigmoid(z) * _sigmoid(-z) * (1 - 2 * _sigmoid(z)), 0.125,
    ),
    "tanh": Activation(
        lambda z: (z.tanh(), z.sech() * z.sech()), lambda: (1, 4 / (3 * arb(3).sqrt())),
        lambda z: 1 - 2 / ((2 * z).exp() + 1), 3.5, lambda z: -2 * z.tanh() * z.sech() * z.sech(), 2.0,
    ),
    "erf": Activation(
        lambda z: (z.erf(), 2 * (-z * z).exp() / arb.pi().sqrt()),
        lambda: (2 / arb.pi().sqrt(), 4 / (2 * arb.pi() * arb(1).exp()).sqrt()),
        lambda z: z.erf(), 3.1, lambda z: -4 * z * (-z * z).exp() / arb.pi().sqrt(), 2.2568,
    ),
    "arctan": Activation(lambda z: (z.atan(), 1 / (1 + z * z)), lambda: (1, 3 * arb(3).sqrt() / 8)),
    "sin": Activation(
        lambda z: (z.sin(), z.cos()), lambda: (1, 1), lambda z: z.sin(), 1.6, lambda z: -z.sin(), 1.0
    ),
    "swish": Activation(
        lambda z: (z * _sigmoid(z), _sigmoid(z) * (1 + z * _sigmoid(-z))), lambda: (arb("1.09984"), 0.5),
        lambda z: z / ((-z).exp() + 1), 1.6,
    ),
    "gelu": Activation(
        lambda z: (z * (p := (-z / arb(2).sqrt()).erfc() / 2), p + z * (-z * z / 2).exp() / (2 * arb.pi()).sqrt()),
        lambda: (arb("1.12891"), (2 / arb.pi()).sqrt()),
        lambda z: z * ((z / arb(2).sqrt()).erf() + 1) / 2, 2.4,
    ),
    "gelu_tanh": Activation(_gelu_tanh, lambda: (arb("1.12899306954"), arb("0.7978845614"))),
    "ramp": Activation(_ramp, lambda: (1, 0.5)),
    "mish": Activation(  # t = tanh(log(1 + e^z))
        lambda z: (z * (t := 1 - 2 / (z.exp() * (z.exp() + 2) + 2)), t + z * (1 - t * t) * _sigmoid(z)),
        lambda: (arb("1.0885"), arb("0.64421")),
    ),
    "elu": Activation(lambda z: (z.max(arb(0)) + z.min(arb(0)).expm1(), z.min(arb(0)).exp()), lambda: (1, 1)),
    "softsign": Activation(lambda z: (z / (1 + abs(z)), 1 / (1 + abs(z)) / (1 + abs(z))), lambda: (1, 2)),
    "identity": Activation(lambda z: (z, arb(1))),
    "relu": Activation(_relu),
}  # fmt: skip


def _short(z: arb) -> arb:
    return (1 - z).max(arb(0))


# name: the margin z -> (ℓ(z), ℓ'(z)), and a bound of ℓ''
MARGIN_LOSSES: dict[str, tuple[Callable, float]] = {
    "logistic": (lambda z: ((-z).exp().log1p(), -_sigmoid(-z)), 0.25),
    "exp_linear": (lambda z: ((1 - z.min(arb(0))) * (-z.max(arb(0))).exp(), -(-z.max(arb(0))).exp()), 1),
    "squared_hinge": (lambda z: (_short(z) ** 2, -2 * _short(z)), 2),
    "half_squared_hinge": (lambda z: (_short(z) ** 2 / 2, -_short(z)), 1),
    "huber_hinge": (lambda z: ((1 - z.max(arb(0))).max(arb(0)) ** 2 / 2 - z.min(arb(0)), -_short(z).min(arb(1))), 1),
}
