"""The kernel as an object of scikit-learn's Gaussian processes, which `SVC` and `KernelRidge` take as well."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

from wideproof.estimators.limit_kernel import LimitKernel
from wideproof.estimators.preparation import with_constant

# Five points of the derivative by the logarithm of the length: off by about 1e-10 of the kernel.
_STEP = 2e-3
_STENCIL = ((-2, 1 / 12), (-1, -8 / 12), (1, 8 / 12), (2, -1 / 12))


class NTKKernel(Kernel):
    r"""The kernel of an infinitely wide network at $(x / \ell, 1)$, for scikit-learn's Gaussian processes.

    The larger the length scale $\ell$, the more nearly linear the function. Products with `ConstantKernel` and sums
    with `WhiteKernel` work as for any other kernel, and so do `SVC(kernel=NTKKernel())` and
    `KernelRidge(kernel=NTKKernel())`. Standardize the inputs first.

    Parameters
    ----------
    length_scale
        The length scale $\ell$, a hyperparameter.
    length_scale_bounds
        Bounds of the length scale while a Gaussian process is fitted; `"fixed"` does not fit it.
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
    unit
        Whether to divide $(x / \ell, 1)$ by its norm.

    Examples
    --------
    >>> NTKKernel(depth=1)(np.array([[0.0], [1.0]])).round(6)
    array([[2.      , 1.285739],
           [1.285739, 2.      ]])
    """

    def __init__(
        self,
        length_scale: float = 1.0,
        length_scale_bounds: tuple[float, float] | str = (1e-2, 1e2),
        network: str = "fully-connected",
        depth: int = 2,
        activation: str = "relu",
        kernel: str = "ntk",
        fixed_layers: int = 0,
        unit: bool = True,
    ) -> None:
        self.length_scale = length_scale
        self.length_scale_bounds = length_scale_bounds
        self.network = network
        self.depth = depth
        self.activation = activation
        self.kernel = kernel
        self.fixed_layers = fixed_layers
        self.unit = unit

    @property
    def hyperparameter_length_scale(self) -> Hyperparameter:
        """The length, by which a Gaussian process is fitted unless its bounds are `"fixed"`."""
        return Hyperparameter("length_scale", "numeric", self.length_scale_bounds)

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """Return the matrix, and if asked its derivative by the logarithm of the length, `n x n x 1`."""
        x = np.atleast_2d(np.asarray(X, np.float64))
        if not eval_gradient:
            return self._matrix(x, None if Y is None else np.atleast_2d(np.asarray(Y, np.float64)), 0.0)
        if Y is not None:
            raise ValueError("Gradient can only be evaluated when Y is None.")
        matrix = self._matrix(x, None, 0.0)
        if self.hyperparameter_length_scale.fixed:
            return matrix, np.empty((*matrix.shape, 0))
        slope = sum(share * self._matrix(x, None, k * _STEP) for k, share in _STENCIL) / _STEP
        return matrix, np.asarray(slope)[:, :, None]

    def diag(self, X: Any) -> Float[np.ndarray, "n"]:
        """Return the diagonal of the matrix.

        Parameters
        ----------
        X
            Inputs, one example in each row.

        Returns
        -------
        array
            One number for each example.
        """
        return self._limit_kernel().diagonal(self._prepared(np.atleast_2d(np.asarray(X, np.float64)), 0.0))

    def is_stationary(self) -> bool:
        """Say that the kernel depends on more than differences of inputs."""
        return False

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(length_scale={self.length_scale:.3g}, network={self.network!r}, "
            f"depth={self.depth}, activation={self.activation!r}, kernel={self.kernel!r})"
        )

    def _limit_kernel(self) -> LimitKernel:
        return LimitKernel(self.network, self.depth, self.activation, self.kernel, self.fixed_layers)

    def _prepared(self, x: Float[np.ndarray, "n d"], shift: float) -> Float[np.ndarray, "n p"]:
        return with_constant(x / (self.length_scale * math.exp(shift)), 1.0, self.unit)

    def _matrix(
        self, x: Float[np.ndarray, "n d"], y: Float[np.ndarray, "m d"] | None, shift: float
    ) -> Float[np.ndarray, "n _"]:
        return self._limit_kernel()(self._prepared(x, shift), None if y is None else self._prepared(y, shift))
