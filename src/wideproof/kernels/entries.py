"""What is checked of a function's outputs before its gradients are taken."""

from __future__ import annotations

import math
from functools import partial

import jax
import numpy as np
from jaxtyping import Array, PyTree

from wideproof.errors import InputError
from wideproof.kernels.jacobians import MIXED, FunctionKernel
from wideproof.kernels.tiles import examples


@partial(jax.jit, static_argnums=0)
def _values(kernel: FunctionKernel, state: PyTree[Array], x: PyTree[Array]) -> Array:
    return kernel.each(partial(kernel.values, state), x)


@partial(jax.jit, static_argnums=0)
def _together(kernel: FunctionKernel, state: PyTree[Array], x: PyTree[Array]) -> Array:
    return kernel.function(state, x).reshape(examples(x), -1)


def require_values(kernel: FunctionKernel, state: PyTree[Array], x: PyTree[Array]) -> None:
    """Check that outputs are finite, and that those of two examples are the same together as alone."""
    alone = np.asarray(_values(kernel, state, x), np.float64)
    bad = np.flatnonzero(~np.isfinite(alone).all(axis=1))
    if len(bad):
        raise InputError(f"the outputs of example {bad[0]} are not finite: look for NaN or overflow in the parameters")
    if not kernel.batched or len(alone) < 2:
        return
    two = np.array([0, len(alone) - 1])
    together = np.asarray(_together(kernel, state, jax.tree.map(lambda leaf: leaf[two], x)), np.float64)
    off = float(np.abs(together - alone[two]).max())
    if not off <= MIXED * float(np.abs(alone[two]).max()) + math.sqrt(np.finfo(kernel.precision).eps):
        raise InputError(
            f"the outputs of examples {two[0]} and {two[1]} change by {off:.3g} when they are in one batch: each must "
            "depend on its example alone, so use batch normalization in evaluation mode, and no dropout"
        )
