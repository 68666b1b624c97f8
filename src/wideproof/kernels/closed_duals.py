r"""Gaussian expectations of activations in closed form: of ReLU, erf, sin, GELU and the identity.

Each is a function of the variances $a$, $b$ and the covariance $c$ of a Gaussian pair, written so that no digits are
lost where the two are nearly parallel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array


class Pair(NamedTuple):
    r"""Variances, covariance, $\sqrt{ab} - c$ and $\sqrt{ab} + c$ with all their digits, and ReLU's $\sigma'(0)$."""

    a: Array
    b: Array
    c: Array
    below: Array
    above: Array
    at_zero: float

    def determinant(self, weight: float) -> Array:
        r"""$(1 + wa)(1 + wb) - w^2 c^2$ without cancellation."""
        return 1 + weight * (self.a + self.b) + weight * weight * self.below * self.above


def _relu(p: Pair) -> Array:
    sine = jnp.sqrt(p.below * p.above)
    return (sine + (math.pi - jnp.arctan2(sine, p.c)) * p.c) / (2 * math.pi)


def _relu_slope(p: Pair) -> Array:
    sine = jnp.sqrt(p.below * p.above)
    one_a, one_b = (jnp.where(v > 0, 0.5, p.at_zero).astype(v.dtype) for v in (p.a, p.b))
    both = (math.pi - jnp.arctan2(sine, p.c)) / (2 * math.pi)
    return jnp.where((p.a > 0) & (p.b > 0), both, one_a * one_b)


def _erf(p: Pair) -> Array:
    return (2 / math.pi) * jnp.arctan2(2 * p.c, jnp.sqrt(p.determinant(2.0)))


def _erf_slope(p: Pair) -> Array:
    return (4 / math.pi) / jnp.sqrt(p.determinant(2.0))


def _sin_terms(p: Pair) -> tuple[Array, Array]:
    """Half of exp(-Var(u - v)/2) and of exp(-Var(u + v)/2)."""
    apart = -0.5 * jnp.square(jnp.sqrt(p.a) - jnp.sqrt(p.b))
    return 0.5 * jnp.exp(apart - p.below), 0.5 * jnp.exp(apart - p.above)


def _sin(p: Pair) -> Array:
    minus, plus = _sin_terms(p)
    return minus - plus


def _sin_slope(p: Pair) -> Array:
    minus, plus = _sin_terms(p)
    return minus + plus


def _gelu_parts(p: Pair) -> tuple[Array, Array, Array, Array, Array]:
    r"""$\mathbb{E}[\Phi\Phi]$, $\mathbb{E}[\varphi\varphi]$, the determinant $D$, $q$ and $q'(c) / 2c$, where

    $\mathbb{E}[u\Phi(u) v\Phi(v)] = c\,\mathbb{E}[\Phi\Phi] + q\,\mathbb{E}[\varphi\varphi]$ by Stein's identity,
    $q = ab + c^2 (1/(1+a) + 1/(1+b) - 1)$.
    """
    d = p.determinant(1.0)
    root = jnp.sqrt(d)
    cdf = 0.25 + jnp.arctan2(p.c, root) / (2 * math.pi)
    h = 1 / (1 + p.a) + 1 / (1 + p.b) - 1
    # ab - c^2 + c^2 (1/(1+a) + 1/(1+b)): both terms are positive.
    q = p.below * p.above + jnp.square(p.c) * (1 / (1 + p.a) + 1 / (1 + p.b))
    return cdf, 1 / (2 * math.pi * root), d, q, h


def _gelu(p: Pair) -> Array:
    cdf, pdf, _, q, _ = _gelu_parts(p)
    return p.c * cdf + q * pdf


def _gelu_slope(p: Pair) -> Array:
    cdf, pdf, d, q, h = _gelu_parts(p)
    return cdf + p.c * pdf * (1 + q / d + 2 * h)


CLOSED_FORMS: dict[str, tuple[Callable[[Pair], Array], Callable[[Pair], Array]]] = {
    "relu": (_relu, _relu_slope),
    "erf": (_erf, _erf_slope),
    "sin": (_sin, _sin_slope),
    "gelu": (_gelu, _gelu_slope),
    "identity": (lambda p: p.c, lambda p: jnp.ones_like(p.c)),
}
