"""The kernel of an infinitely wide network as a kernel of GPyTorch, which BoTorch's models take too."""

from __future__ import annotations

import functools
import math
from typing import Any

from wideproof.errors import InputError
from wideproof.estimators import LimitKernel

NAME = "GPyTorchKernel"  # the class below, which is made when it is first asked for


def gpytorch_kernel(
    network: str = "fully-connected",
    depth: int = 2,
    activation: str = "relu",
    kernel: str = "ntk",
    fixed_layers: int = 0,
    **options: Any,
) -> Any:
    r"""Return the kernel of an infinitely wide network at $(x / \ell, 1)$, divided by its norm, for GPyTorch, BoTorch.

    The same numbers as `NTKKernel`, and as `NTKRegressor(preparation=None)` on these inputs. The kernel is a polynomial
    in the angle between two inputs, so that PyTorch differentiates it by the length scales and by the inputs, also
    where two inputs are equal; there the derivative of a ReLU kernel, which has a kink, is set to 0.

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
    **options
        What every kernel of GPyTorch takes, such as `ard_num_dims` and `lengthscale_prior`.

    Returns
    -------
    Any
        A `gpytorch.kernels.Kernel` with a length scale.

    Examples
    --------
    >>> import torch  # doctest: +SKIP
    >>> gpytorch_kernel(depth=1)(torch.zeros(1, 1)).to_dense().item()  # doctest: +SKIP
    2.0
    """
    series = LimitKernel(network, depth, activation, kernel, fixed_layers).angular().coefficients
    return _kernel()(series, **options)


def __getattr__(name: str) -> Any:
    """Return the class, by whose name pickles find it."""
    if name == NAME:
        return _kernel()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@functools.cache
def _kernel() -> Any:
    """Return the class of the kernels; GPyTorch is imported here and nowhere else."""
    try:
        import torch  # pyright: ignore[reportMissingImports]
        from gpytorch.kernels import Kernel  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise InputError("this kernel needs GPyTorch: `pip install gpytorch`, or botorch, which brings it") from None

    class GPyTorchKernel(Kernel):
        """The kernel as a polynomial in the angle."""

        has_lengthscale = True

        def __init__(self, series: Any, **options: Any) -> None:
            super().__init__(**options)
            self.register_buffer("coefficients", torch.tensor(series, dtype=torch.float64))

        @property
        def is_stationary(self) -> bool:
            return False

        def forward(self, x1: Any, x2: Any, diag: bool = False, last_dim_is_batch: bool = False, **params: Any) -> Any:
            if last_dim_is_batch:
                raise InputError("a network takes all columns together: leave last_dim_is_batch out")
            u, v = self._directions(x1), self._directions(x2)
            if diag:
                apart, along = torch.linalg.vector_norm(u - v, dim=-1), torch.linalg.vector_norm(u + v, dim=-1)
            else:  # by a product of matrices an angle near 0 would lose half of its digits
                exactly = "donot_use_mm_for_euclid_dist"
                apart, along = torch.cdist(u, v, compute_mode=exactly), torch.cdist(u, -v, compute_mode=exactly)
            return self._at_angles(2 * torch.atan2(apart, along))

        def _directions(self, x: Any) -> Any:
            whole = torch.cat([x / self.lengthscale, torch.ones_like(x[..., :1])], dim=-1)
            return whole / torch.linalg.vector_norm(whole, dim=-1, keepdim=True)

        def _at_angles(self, theta: Any) -> Any:
            """Sum the series by Clenshaw's rule."""
            t = theta * (2 / math.pi) - 1
            above, here = torch.zeros_like(t), torch.zeros_like(t)
            series = self.coefficients.to(t)
            for k in range(len(series) - 1, 0, -1):
                above, here = here, series[k] + 2 * t * here - above
            return series[0] + t * here - above

    GPyTorchKernel.__qualname__ = NAME
    return GPyTorchKernel
