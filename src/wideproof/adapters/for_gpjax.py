"""The kernel of an infinitely wide network as a kernel of GPJax."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from wideproof.errors import InputError
from wideproof.estimators import LimitKernel

NAME = "GPJaxKernel"  # the class below, which is made when it is first asked for


def gpjax_kernel(
    network: str = "fully-connected",
    depth: int = 2,
    activation: str = "relu",
    kernel: str = "ntk",
    fixed_layers: int = 0,
    lengthscale: Any = 1.0,
    **options: Any,
) -> Any:
    r"""Return the kernel of an infinitely wide network at $(x / \ell, 1)$ divided by its norm, for GPJax.

    The same numbers as `NTKKernel`, and as `NTKRegressor(preparation=None)` on these inputs, if JAX's 64-bit types are
    enabled. The kernel is a polynomial in the angle between two inputs, so that JAX differentiates it by the length
    scales and by the inputs, also where two inputs are equal; there the derivative of a ReLU kernel, which has a kink,
    is set to 0.

    Parameters
    ----------
    network
        The network: `"fully-connected"`, `"residual"`, `"deep-relu"` or `"residual-relu"`.
    depth
        Number of hidden layers.
    activation
        Name of the activation; networks of ReLU units ignore it.
    kernel
        `"ntk"`, the tangent kernel, or `"nngp"`, the covariance of the outputs.
    fixed_layers
        Number of first layers that are drawn and not trained; their part is left out of the tangent kernel.
    lengthscale
        The length scale, one for each column if it is an array, or a parameter of GPJax.
    **options
        What every kernel of GPJax takes: `active_dims`, `n_dims`, `compute_engine`.

    Returns
    -------
    Any
        A `gpjax.kernels.AbstractKernel`.

    Examples
    --------
    >>> float(gpjax_kernel(depth=1)(jnp.zeros(1), jnp.zeros(1)))  # doctest: +SKIP
    2.0
    """
    series = LimitKernel(network, depth, activation, kernel, fixed_layers).angular().coefficients
    return _kernel()(series, lengthscale, options)


def __getattr__(name: str) -> Any:
    """Return the class, by whose name pickles find it."""
    if name == NAME:
        return _kernel()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@functools.cache
def _kernel() -> Any:
    """Return the class of the kernels; GPJax is imported here and nowhere else."""
    try:
        import equinox  # pyright: ignore[reportMissingImports]
        from gpjax.kernels import AbstractKernel  # pyright: ignore[reportMissingImports]
        from gpjax.parameters import PositiveReal, val  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise InputError("this kernel needs GPJax, version 1.0 or newer: `pip install gpjax`") from None

    class GPJaxKernel(AbstractKernel):
        """The kernel as a polynomial in the angle."""

        lengthscale: Any
        coefficients: tuple[float, ...] = equinox.field(static=True)

        def __init__(self, series: Any, lengthscale: Any, options: dict[str, Any]) -> None:
            number = isinstance(lengthscale, float | int) or hasattr(lengthscale, "shape")
            self.lengthscale = PositiveReal(lengthscale) if number else lengthscale
            self.coefficients = tuple(series.tolist())
            super().__init__(**options)

        def __call__(self, x: Any, y: Any) -> Any:
            u, v = self._direction(x), self._direction(y)
            theta = 2 * jnp.arctan2(_norm(u - v), _norm(u + v))
            return _clenshaw(jnp.asarray(self.coefficients, theta.dtype), theta * (2 / math.pi) - 1)

        def _direction(self, x: Any) -> Any:
            whole = jnp.append(self.slice_input(x) / val(self.lengthscale), 1.0)
            return whole / jnp.linalg.norm(whole)

    GPJaxKernel.__qualname__ = NAME
    return GPJaxKernel


def _clenshaw(series: Array, t: Array) -> Array:
    def step(carry: tuple[Array, Array], c: Array) -> tuple[tuple[Array, Array], None]:
        above, here = carry
        return (here, c + 2 * t * here - above), None

    zero = jnp.zeros_like(t)
    (above, here), _ = lax.scan(step, (zero, zero), series[:0:-1])
    return series[0] + t * here - above


def _norm(z: Array) -> Array:
    """Return the norm, with the derivative 0 at 0."""
    square = jnp.sum(z * z)
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)
