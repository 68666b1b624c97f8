r"""Activations with the constants the theorems use: $c_\sigma$, Lipschitz and smoothness constants.

Du et al. (2019) ask for Condition 3.1 ($|\sigma(0)| \le c$, $\sigma$ and $\sigma'$ both $c$-Lipschitz)
and Condition 3.2 ($\sigma$ analytic and not a polynomial). Each activation says which it meets.
Value and derivative are both written out and tied together, so automatic differentiation uses the
derivative shown here, at kinks too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from wideproof.errors import InputError
from wideproof.networks.twins import PROVED, Proved

Function = Callable[[Float[Array, "..."]], Float[Array, "..."]]


@dataclass(frozen=True)
class Activation:
    r"""An activation $\sigma$ and its constants.

    Attributes
    ----------
    name
        The name by which networks and files refer to it.
    c_sigma
        $1 / \mathbb{E}_{X \sim N(0,1)}[\sigma(X)^2]$, which keeps norms at 1 (Du et al., Section 2).
    lipschitz
        $\sup |\sigma'|$.
    smoothness
        The Lipschitz constant of $\sigma'$; `None` if $\sigma'$ is discontinuous.
    analytic
        Whether $\sigma$ is analytic and not a polynomial (Condition 3.2).
    at_zero
        $\sigma(0)$.
    value
        $\sigma$, as a function of JAX arrays.
    derivative
        $\sigma'$, as a function of JAX arrays.
    proved
        NumPy versions of the functions, and constants rounded to the safe side (`twins`). Without them an activation
        can be trained and measured, but networks with it cannot be certified.

    Examples
    --------
    >>> TANH.c_sigma, TANH.condition_3_1, RELU.condition_3_1
    (2.5361754332174535, True, False)
    """

    name: str
    c_sigma: float
    lipschitz: float
    smoothness: float | None
    analytic: bool
    at_zero: float
    value: Function = field(repr=False, compare=False)
    derivative: Function = field(repr=False, compare=False)
    proved: Proved | None = field(default=None, repr=False, compare=False)
    _tied: Function = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_tied", _tie(self.value, self.derivative))

    @property
    def kinked(self) -> bool:
        r"""Whether $\sigma'$ jumps."""
        return self.smoothness is None

    @property
    def known(self) -> Proved:
        """What is proved about the activation, for certificates."""
        if self.proved is None:
            raise InputError(
                f"nothing is proved about the activation {self.name!r}: it can be trained and measured; a certificate "
                f"needs bounds of its derivatives and a twin in NumPy, which {', '.join(ACTIVATIONS)} have"
            )
        return self.proved

    def __call__(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        r"""Return $\sigma(z)$, differentiated by `derivative`."""
        return self._tied(z)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Copy and send to other processes by name: the functions of an activation stay where they are written."""
        named = _BY_NAME.get(self.name) is self
        return (_by_name, (self.name,)) if named else super().__reduce_ex__(protocol)

    @property
    def condition_3_1(self) -> bool:
        """Du et al. (2019), Condition 3.1: Lipschitz with a Lipschitz derivative."""
        return self.smoothness is not None

    @property
    def condition_3_2(self) -> bool:
        """Du et al. (2019), Condition 3.2: analytic and not a polynomial."""
        return self.analytic


if TYPE_CHECKING:
    Named = Activation  # what a field holds once the network is made
else:
    Named = Activation | str


def _tie(value: Function, derivative: Function) -> Function:
    @jax.custom_jvp
    def tied(z: Array) -> Array:
        return value(z)

    @tied.defjvp
    def _(primals, tangents):  # pyright: ignore[reportUnusedFunction]
        (z,), (dz,) = primals, tangents
        return tied(z), derivative(z) * dz

    return tied


# atanh(s)/s as a polynomial in s^2 for |s| <= (sqrt(2) - 1)/(sqrt(2) + 1), interpolated at Chebyshev points:
# errors 1.2e-18 and 7e-10. Short, because longer polynomials were measured to be far slower in XLA's loops.
_ATANH = {
    "float64": (
        1.0, 0.33333333333333822833, 0.19999999999651166926, 0.14285714380321322846, 0.1111109852831142242,
        0.090918158429213073963, 0.076562639990181607372, 0.07404855966380949155,
    ),
    "float32": (0.99999999931565631521, 0.33333407669302200324, 0.19987425233052672145, 0.14962195939048096776),
}  # fmt: skip


def _log1p_unit(e: Array) -> Array:
    """`log(1 + e)` for 0 <= e <= 1; with XLA's own log1p, float64 softplus was measured to be several times slower.

    `log(1 + e) = 2 atanh(e / (2 + e))`, and for large e the same of `(1 + e) / 2`, plus log 2.
    """
    large = e > math.sqrt(2) - 1
    s = jnp.where(large, e - 1, e) / jnp.where(large, e + 3, e + 2)
    square = s * s
    coefficients = _ATANH[e.dtype.name]
    series = jnp.full_like(square, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        series = series * square + coefficient
    return jnp.where(large, math.log(2), 0.0).astype(e.dtype) + 2 * s * series


def _sigmoid(z: Array) -> Array:
    """$1 / (1 + e^{-z})$ from $e^{-|z|}$, which softplus needs too: XLA computes it once."""
    e = jnp.exp(-jnp.abs(z))
    return jnp.where(z >= 0, 1, e) / (1 + e)


def _softplus(z: Array) -> Array:
    return jnp.maximum(z, 0) + _log1p_unit(jnp.exp(-jnp.abs(z)))


def _sigmoid_slope(z: Array) -> Array:
    s = lax.logistic(z)
    return s * (1 - s)


def _tanh_slope(z: Array) -> Array:
    t = jnp.tanh(z)
    return 1 - t * t


def _swish_slope(z: Array) -> Array:
    s = lax.logistic(z)
    return s + z * s * (1 - s)


def _normal_cdf(z: Array) -> Array:
    return 0.5 * lax.erfc(-z * math.sqrt(0.5))


def _normal_pdf(z: Array) -> Array:
    return jnp.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)


def _mish_slope(z: Array) -> Array:
    t = jnp.tanh(_softplus(z))
    return t + z * (1 - t * t) * lax.logistic(z)


def _elu_slope(z: Array) -> Array:
    return jnp.exp(jnp.minimum(z, 0))


def _inner(z: Array) -> Array:
    return math.sqrt(8 / math.pi) * (z + 0.044715 * z * z * z)


def _gelu_tanh_slope(z: Array) -> Array:
    s, t = lax.logistic(_inner(z)), lax.logistic(-_inner(z))
    return s + z * s * t * math.sqrt(8 / math.pi) * (1 + 3 * 0.044715 * z * z)


def _softsign_slope(z: Array) -> Array:
    return 1 / jnp.square(1 + jnp.abs(z))


SOFTPLUS = Activation(
    "softplus", 1.0854865029883434, 1.0, 0.25, True, math.log(2), _softplus, _sigmoid, PROVED["softplus"]
)
SIGMOID = Activation(
    "sigmoid", 3.408559841623103, 0.25, 1 / (6 * math.sqrt(3)), True, 0.5,
    lax.logistic, _sigmoid_slope, PROVED["sigmoid"],
)  # fmt: skip
TANH = Activation(
    "tanh", 2.5361754332174537, 1.0, 4 / (3 * math.sqrt(3)), True, 0.0, jnp.tanh, _tanh_slope, PROVED["tanh"]
)
ERF = Activation(
    "erf", 2.1525788606075986, 2 / math.sqrt(math.pi), 4 / math.sqrt(2 * math.pi * math.e), True, 0.0,
    lax.erf, lambda z: (2 / math.sqrt(math.pi)) * jnp.exp(-z * z), PROVED["erf"],
)  # fmt: skip
ARCTAN = Activation(
    "arctan", 2.2237001603815012, 1.0, 3 * math.sqrt(3) / 8, True, 0.0,
    jnp.arctan, lambda z: 1 / (1 + z * z), PROVED["arctan"],
)  # fmt: skip
SIN = Activation("sin", 2.3130352854993313, 1.0, 1.0, True, 0.0, jnp.sin, jnp.cos, PROVED["sin"])
SWISH = Activation(
    "swish", 2.810761124074471, 1.0998393201288669, 0.5, True, 0.0,
    lambda z: z * lax.logistic(z), _swish_slope, PROVED["swish"],
)  # fmt: skip
GELU = Activation(
    "gelu", 2.351715614073373, 1.1289041451851548, math.sqrt(2 / math.pi), True, 0.0,
    lambda z: z * _normal_cdf(z), lambda z: _normal_cdf(z) + z * _normal_pdf(z), PROVED["gelu"],
)  # fmt: skip
MISH = Activation(
    "mish", 2.210715729937989, 1.0884981612517279, 0.6442046372369724, True, 0.0,
    lambda z: z * jnp.tanh(_softplus(z)), _mish_slope, PROVED["mish"],
)  # fmt: skip
ELU = Activation(
    "elu", 1.5505188080679272, 1.0, 1.0, False, 0.0,
    lambda z: jnp.where(z > 0, z, jnp.expm1(jnp.minimum(z, 0))), _elu_slope, PROVED["elu"],
)  # fmt: skip
SOFTSIGN = Activation(
    "softsign", 5.46406222364552, 1.0, 2.0, False, 0.0,
    lambda z: z / (1 + jnp.abs(z)), _softsign_slope, PROVED["softsign"],
)  # fmt: skip
GELU_TANH = Activation(
    "gelu_tanh", 2.3518692164338113, 1.1289930686587718, math.sqrt(2 / math.pi), True, 0.0,
    lambda z: z * lax.logistic(_inner(z)), _gelu_tanh_slope, PROVED["gelu_tanh"],
)  # fmt: skip
"""The approximation of GELU by tanh that GPT-2 and PyTorch's `approximate="tanh"` have."""
RAMP = Activation(
    "ramp", 1.9053298549669023, 1.0, 0.5, False, 0.25,
    lambda z: jnp.where(z > 1, z, 0.25 * jnp.square(jnp.maximum(z, -1) + 1)),
    lambda z: jnp.clip(0.5 * (z + 1), 0, 1), PROVED["ramp"],
)  # fmt: skip
"""0 up to -1, z from 1 on, and a parabola between: ReLU with its kink rounded off; hard-swish is made of it."""
IDENTITY = Activation("identity", 1.0, 1.0, 0.0, False, 0.0, lambda z: z, jnp.ones_like, PROVED["identity"])
RELU = Activation(
    "relu", 2.0, 1.0, None, False, 0.0,
    lambda z: jnp.maximum(z, 0), lambda z: (z > 0).astype(z.dtype), PROVED["relu"],
)  # fmt: skip
"""ReLU with $\\sigma'(0) = 0$: Zou et al. (2018) write $1\\{z > 0\\}$."""
RELU_CLOSED = Activation(
    "relu_closed", 2.0, 1.0, None, False, 0.0,
    lambda z: jnp.maximum(z, 0), lambda z: (z >= 0).astype(z.dtype), PROVED["relu_closed"],
)  # fmt: skip
"""ReLU with $\\sigma'(0) = 1$: Allen-Zhu et al. (2018) and Frei et al. (2019) write $1\\{z \\ge 0\\}$."""

ACTIVATIONS = {
    a.name: a
    for a in (
        SOFTPLUS, SIGMOID, TANH, ERF, ARCTAN, SIN, SWISH, GELU, GELU_TANH, MISH, ELU, SOFTSIGN, IDENTITY, RELU,
    )
}  # fmt: skip
PARTS = {RAMP.name: RAMP}
"""What other activations are made of when they are read from a file."""


_BY_NAME = {**ACTIVATIONS, **PARTS, RELU_CLOSED.name: RELU_CLOSED}


def _by_name(name: str) -> Activation:
    return _BY_NAME[name]


def get_activation(name: str | Activation) -> Activation:
    """Return an activation by its name.

    Parameters
    ----------
    name
        Name of the activation, such as `"tanh"`; an `Activation` is returned as it is.

    Returns
    -------
    Activation
        The activation.

    Examples
    --------
    >>> get_activation("tanh") is TANH
    True
    """
    if isinstance(name, Activation):
        return name
    known = {**ACTIVATIONS, **PARTS}
    if name not in known:
        raise InputError(f"there is no activation {name!r}: choose one of {', '.join(ACTIVATIONS)}")
    return known[name]
