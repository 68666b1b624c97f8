r"""Gaussian expectations of activations in closed form: of ReLU, erf, sin, GELU and the identity.

Each is a function of the variances $a$, $b$ and the covariance $c$ of a Gaussian pair, written so that no digits are
lost where the two are nearly parallel. Arrays of NumPy stay with NumPy, where nothing is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from wideproof.kernels.contraction import AnyArray


class Pair(NamedTuple):
    r"""Variances, covariance, $\sqrt{ab} - c$ and $\sqrt{ab} + c$ with all their digits, and ReLU's $\sigma'(0)$."""

    a: AnyArray
    b: AnyArray
    c: AnyArray
    below: AnyArray
    above: AnyArray
    at_zero: float

    @property
    def xp(self) -> Any:
        """NumPy for its arrays, else JAX's."""
        return np if isinstance(self.c, np.ndarray) else jnp

    def determinant(self, weight: float) -> AnyArray:
        r"""$(1 + wa)(1 + wb) - w^2 c^2$ without cancellation."""
        return 1 + weight * (self.a + self.b) + weight * weight * self.below * self.above


def _relu(p: Pair) -> AnyArray:
    sine = p.xp.sqrt(p.below * p.above)
    return (sine + (math.pi - p.xp.arctan2(sine, p.c)) * p.c) / (2 * math.pi)


def _relu_slope(p: Pair) -> AnyArray:
    sine = p.xp.sqrt(p.below * p.above)
    one_a, one_b = (p.xp.where(v > 0, 0.5, p.at_zero).astype(v.dtype) for v in (p.a, p.b))
    both = (math.pi - p.xp.arctan2(sine, p.c)) / (2 * math.pi)
    return p.xp.where((p.a > 0) & (p.b > 0), both, one_a * one_b)


def _erf(p: Pair) -> AnyArray:
    return (2 / math.pi) * p.xp.arctan2(2 * p.c, p.xp.sqrt(p.determinant(2.0)))


def _erf_slope(p: Pair) -> AnyArray:
    return (4 / math.pi) / p.xp.sqrt(p.determinant(2.0))


def _sin_terms(p: Pair) -> tuple[AnyArray, AnyArray]:
    """Half of exp(-Var(u - v)/2) and of exp(-Var(u + v)/2)."""
    apart = -0.5 * p.xp.square(p.xp.sqrt(p.a) - p.xp.sqrt(p.b))
    return 0.5 * p.xp.exp(apart - p.below), 0.5 * p.xp.exp(apart - p.above)


def _sin(p: Pair) -> AnyArray:
    minus, plus = _sin_terms(p)
    return minus - plus


def _sin_slope(p: Pair) -> AnyArray:
    minus, plus = _sin_terms(p)
    return minus + plus


def _gelu_parts(p: Pair) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray, AnyArray]:
    r"""$\mathbb{E}[\Phi\Phi]$, $\mathbb{E}[\varphi\varphi]$, the determinant $D$, $q$ and $q'(c) / 2c$, where

    $\mathbb{E}[u\Phi(u) v\Phi(v)] = c\,\mathbb{E}[\Phi\Phi] + q\,\mathbb{E}[\varphi\varphi]$ by Stein's identity,
    $q = ab + c^2 (1/(1+a) + 1/(1+b) - 1)$.
    """
    d = p.determinant(1.0)
    root = p.xp.sqrt(d)
    cdf = 0.25 + p.xp.arctan2(p.c, root) / (2 * math.pi)
    h = 1 / (1 + p.a) + 1 / (1 + p.b) - 1
    # ab - c^2 + c^2 (1/(1+a) + 1/(1+b)): both terms are positive.
    q = p.below * p.above + p.xp.square(p.c) * (1 / (1 + p.a) + 1 / (1 + p.b))
    return cdf, 1 / (2 * math.pi * root), d, q, h


def _gelu(p: Pair) -> AnyArray:
    cdf, pdf, _, q, _ = _gelu_parts(p)
    return p.c * cdf + q * pdf


def _gelu_slope(p: Pair) -> AnyArray:
    cdf, pdf, d, q, h = _gelu_parts(p)
    return cdf + p.c * pdf * (1 + q / d + 2 * h)


CLOSED_FORMS: dict[str, tuple[Callable[[Pair], AnyArray], Callable[[Pair], AnyArray]]] = {
    "relu": (_relu, _relu_slope),
    "erf": (_erf, _erf_slope),
    "sin": (_sin, _sin_slope),
    "gelu": (_gelu, _gelu_slope),
    "identity": (lambda p: p.c, lambda p: p.xp.ones_like(p.c)),
}
