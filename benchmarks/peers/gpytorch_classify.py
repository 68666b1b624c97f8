"""Exact Gaussian-process regression on signs with a Gaussian kernel, by GPyTorch; started by ../scale_peers.py."""

# pyright: reportMissingImports=false

from __future__ import annotations

import time

import gpytorch
import torch
from common import load_job, report, versions


class Process(gpytorch.models.ExactGP):
    """One process for each class, with a kernel of its own."""

    def __init__(self, x, y, likelihood, classes: int) -> None:
        super().__init__(x, y, likelihood)
        shape = torch.Size([classes])
        self.mean_module = gpytorch.means.ConstantMean(batch_shape=shape)
        self.covar_module = gpytorch.kernels.ScaleKernel(
            gpytorch.kernels.RBFKernel(batch_shape=shape), batch_shape=shape
        )

    def forward(self, x):  # noqa: D102
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def main() -> None:
    job, arrays = load_job()
    torch.manual_seed(0)
    x, new = (torch.as_tensor(arrays[name]) for name in ("x", "new"))
    signs = torch.as_tensor(arrays["signs"].T.copy())
    began = time.perf_counter()
    shape = torch.Size([len(signs)])
    likelihood = gpytorch.likelihoods.GaussianLikelihood(batch_shape=shape).double()
    model = Process(x, signs, likelihood, len(signs)).double()
    model.train()
    likelihood.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    goal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    for _ in range(job["steps"]):
        optimizer.zero_grad()
        loss = -goal(model(x), signs).sum()
        loss.backward()
        optimizer.step()
    model.eval()
    fitted = time.perf_counter() - began
    began = time.perf_counter()
    with torch.no_grad(), gpytorch.settings.skip_posterior_variances():
        answers = model(new).mean.argmax(dim=0).numpy()
    predicted = time.perf_counter() - began
    report(fit=fitted, predict=predicted, answers=answers.tolist(), versions=versions("torch", "gpytorch"))


if __name__ == "__main__":
    main()
