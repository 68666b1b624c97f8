"""float64 decides: a scope in which JAX computes in double precision, whatever the session's flags say.

Public entry points open the scope themselves, so nobody has to set `jax_enable_x64`; float32 is a
choice of dtype, made by an argument, inside the same scope.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal, ParamSpec, TypeVar

import jax
import numpy as np
from jax.core import Tracer

from wideproof.errors import InputError

P = ParamSpec("P")
R = TypeVar("R")

Precision = Literal["float64", "float32"]


def double(fn: Callable[P, R]) -> Callable[P, R]:
    """Run `fn` with JAX's 64-bit types enabled.

    >>> import jax.numpy as jnp
    >>> double(lambda: jnp.zeros(1).dtype.name)()
    'float64'
    """

    @functools.wraps(fn)
    def scoped(*args: P.args, **kwargs: P.kwargs) -> R:
        with jax.enable_x64(True):
            return fn(*args, **kwargs)

    return scoped


def double_to_numpy(fn: Callable[P, R]) -> Callable[P, R]:
    """Run `fn` in double precision and hand its arrays out as NumPy arrays.

    Outside the scope JAX would round its own float64 arrays at the next operation; NumPy does not. Inside a
    trace (`jit`, `grad`, `vmap`) values pass unchanged.

    >>> import jax.numpy as jnp
    >>> type(double_to_numpy(lambda: jnp.zeros(1))()).__module__
    'numpy'
    """

    @functools.wraps(fn)
    def scoped(*args: P.args, **kwargs: P.kwargs) -> R:
        with jax.enable_x64(True):
            return _to_numpy(fn(*args, **kwargs))

    return scoped


def _to_numpy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _to_numpy(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_to_numpy(inner) for inner in value]
    return np.asarray(value) if isinstance(value, jax.Array) and not isinstance(value, Tracer) else value


def as_dtype(precision: str) -> np.dtype:
    """Return the dtype named by `precision`, which is `"float64"` or `"float32"`.

    >>> as_dtype("float32")
    dtype('float32')
    """
    if precision not in ("float64", "float32"):
        raise InputError(f"precision must be 'float64' or 'float32', got {precision!r}")
    return np.dtype(precision)
