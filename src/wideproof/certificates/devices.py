r"""Large matrix products and factors where JAX computes: on a GPU if there is one, else by NumPy.

Errors are bounded in the same way in both places. A float64 product on a GPU, on its tensor cores too, multiplies and
adds by IEEE operations that round to nearest, fused or not, and in any order; so an entry of $AB$ with $k$ terms is a
sum of k products in which each meets at most k roundings, and $|\mathrm{fl}(AB) - AB| \le \gamma_k |A||B|$
entrywise (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1). It would not hold for products in TF32,
which `precision="highest"` forbids, nor for Strassen's or emulated ones; the first product in a process is therefore
compared with rational numbers. A factor that comes from a GPU is not trusted: its product is compared.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Shaped

from wideproof.errors import MachineError
from wideproof.kernels.cholesky import UNIT
from wideproof.machine import trusted

LEAST = 1e9  # products of numbers for which a copy to the device is worth its time


def accelerated() -> bool:
    """Return whether JAX's default device is another one than the CPU."""
    return jax.default_backend() != "cpu"


def matmul(a: Shaped[np.ndarray, "*places k"], b: Shaped[np.ndarray, "k m"]) -> Shaped[np.ndarray, "*places m"]:
    """Return `a @ b`, computed on the device where there is one and the product is large.

    >>> matmul(np.eye(2), np.array([[1.0], [2.0]])).tolist()
    [[1.0], [2.0]]
    """
    large = a.size * b.shape[-1] >= LEAST and a.dtype == b.dtype == np.float64
    return np.asarray(on_device(a, b)) if large and accelerated() else a @ b


def on_device(a: Any, b: Any) -> Any:
    """Return `a @ b` in float64 as an array of JAX, on its default device."""
    trusted(("products of certificates", jax.default_backend()), check_products)
    return _product(a, b)


def _product(a: Any, b: Any) -> Any:
    with jax.enable_x64(True):
        return jnp.matmul(jnp.asarray(a), jnp.asarray(b), precision="highest")


def check_products(product: Any = _product, k: int = 4096) -> None:
    r"""Raise unless some entries of a product of $k$ terms are within $\gamma_k |A||B|$ of the rational numbers.

    >>> check_products(k=64)
    >>> check_products(lambda a, b: a.astype("f4") @ b.astype("f4"), k=64)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    wideproof.errors.MachineError: a product in float64 is off by ...
    """
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((256, k)), rng.standard_normal((k, 256))
    found = np.asarray(product(a, b))
    for i, j in ((0, 0), (17, 200), (128, 64), (255, 255)):
        terms = [Fraction(u) * Fraction(v) for u, v in zip(a[i].tolist(), b[:, j].tolist(), strict=True)]
        off = abs(Fraction(float(found[i, j])) - sum(terms))
        most = Fraction(k * UNIT / (1 - k * UNIT)) * sum(map(abs, terms))
        if not off <= most:
            raise MachineError(
                f"a product in float64 is off by {float(off):.3g} on {jax.default_backend()}, where {float(most):.3g} "
                "is the most that rounding explains: run with JAX_PLATFORMS=cpu"
            )
