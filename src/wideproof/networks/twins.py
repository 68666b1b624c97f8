r"""What a proof knows about an activation: NumPy twins of $\sigma$ and $\sigma'$, and constants that are rounded up.

`wideproof_verify` has its own, in ball arithmetic; the tests compare the two, and enclose the constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.special

Twin = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Proved:
    r"""Proved constants, and functions whose elementary parts are right to 4 units in the last place.

    Attributes
    ----------
    lipschitz, smoothness
        Upper bounds of $\sup|\sigma'|$ and of the Lipschitz constant of $\sigma'$; the latter is 0 for a piecewise
        linear activation inside a fixed pattern.
    third
        An upper bound of the Lipschitz constant of $\sigma''$, or `None` where $\sigma''$ jumps.
    growth
        Whether the twins' errors grow like $1 + |z|$.
    """

    lipschitz: float
    smoothness: float
    third: float | None
    value: Twin
    slope: Twin
    growth: bool = False


def _up(value: float) -> float:
    return value * (1 + 2**-50)


def _sigmoid_slope(z: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(z))
    return e / np.square(1 + e)


def _normal(z: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)


def _mish_slope(z: np.ndarray) -> np.ndarray:
    t = np.tanh(np.logaddexp(0, z))
    return t + z * (1 - t) * (1 + t) * scipy.special.expit(z)


def _swish_slope(z: np.ndarray) -> np.ndarray:
    s = scipy.special.expit(z)
    return s * (1 + z * scipy.special.expit(-z))


def _inner(z: np.ndarray) -> np.ndarray:
    return np.sqrt(8 / np.pi) * (z + 0.044715 * z * z * z)


def _gelu_tanh_slope(z: np.ndarray) -> np.ndarray:
    s, t = scipy.special.expit(_inner(z)), scipy.special.expit(-_inner(z))
    return s + z * s * t * np.sqrt(8 / np.pi) * (1 + 3 * 0.044715 * z * z)


_SIGMOID_2 = _up(1 / (6 * math.sqrt(3)))
PROVED: dict[str, Proved] = {
    "softplus": Proved(1.0, 0.25, _SIGMOID_2, lambda z: np.logaddexp(0, z), scipy.special.expit),
    "sigmoid": Proved(0.25, _SIGMOID_2, 0.125, scipy.special.expit, _sigmoid_slope),
    "tanh": Proved(1.0, _up(4 / (3 * math.sqrt(3))), 2.0, np.tanh, lambda z: 4 * _sigmoid_slope(2 * z)),
    "erf": Proved(
        _up(2 / math.sqrt(math.pi)), _up(4 / math.sqrt(2 * math.pi * math.e)), _up(4 / math.sqrt(math.pi)),
        scipy.special.erf, lambda z: 2 / np.sqrt(np.pi) * np.exp(-z * z),
    ),
    "arctan": Proved(1.0, _up(3 * math.sqrt(3) / 8), 2.0, np.arctan, lambda z: 1 / (1 + z * z)),
    "sin": Proved(1.0, 1.0, 1.0, np.sin, np.cos),
    "swish": Proved(_up(1.09984), 0.5, _up(0.30819), lambda z: z * scipy.special.expit(z), _swish_slope, True),
    "gelu": Proved(
        _up(1.12891), _up(math.sqrt(2 / math.pi)), _up(0.77877),
        lambda z: z * scipy.special.ndtr(z), lambda z: scipy.special.ndtr(z) + z * _normal(z), True,
    ),
    "gelu_tanh": Proved(
        _up(1.12899306954), _up(0.7978845614), _up(0.7766914514),
        lambda z: z * scipy.special.expit(_inner(z)), _gelu_tanh_slope, True,
    ),
    "mish": Proved(
        _up(1.0885), _up(0.64421), _up(0.58842), lambda z: z * np.tanh(np.logaddexp(0, z)), _mish_slope, True
    ),
    "elu": Proved(
        1.0, 1.0, None, lambda z: np.where(z > 0, z, np.expm1(np.minimum(z, 0))), lambda z: np.exp(np.minimum(z, 0))
    ),
    "softsign": Proved(1.0, 2.0, None, lambda z: z / (1 + np.abs(z)), lambda z: 1 / np.square(1 + np.abs(z))),
    "ramp": Proved(
        1.0, 0.5, None,
        lambda z: np.where(z > 1, z, 0.25 * np.square(np.clip(z, -1, 1) + 1)), lambda z: 0.5 * (np.clip(z, -1, 1) + 1),
    ),
    "identity": Proved(1.0, 0.0, 0.0, lambda z: z, np.ones_like),
    "relu": Proved(1.0, 0.0, 0.0, lambda z: np.maximum(z, 0), lambda z: (z > 0).astype(np.float64)),
}  # fmt: skip
PROVED["relu_closed"] = PROVED["relu"]
