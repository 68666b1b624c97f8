"""Kernels of infinitely wide networks for other libraries: GPyTorch, BoTorch and GPJax, none of which is needed here.

SingleTaskGP(X, y, covar_module=ScaleKernel(gpytorch_kernel(depth=2)))  # BoTorch takes GPyTorch's kernels
gpjax.gps.Prior(mean_function=mean, kernel=gpjax_kernel(depth=2))
"""

from wideproof.adapters.for_gpjax import gpjax_kernel as gpjax_kernel
from wideproof.adapters.for_gpytorch import gpytorch_kernel as gpytorch_kernel
