"""One Gram matrix in PyTorch, by torch.func or nngeometry; started by ../gram.py."""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from common import gram_sample, load_job, measure, report, versions
from torch import nn
from torch.func import functional_call, jacrev, jvp, vjp, vmap
from torch.nn import functional as F


class Feedforward(nn.Module):
    """Du et al. (2019), eq. (2)."""

    def __init__(self, job: dict, weights: dict) -> None:
        super().__init__()
        self.scale = float(np.sqrt(job["c_sigma"] / job["sizes"]["width"]))
        self.hidden = nn.ModuleList(linear(weights[f"W{h}"]) for h in range(1, job["sizes"]["depth"] + 1))
        self.a = linear(np.atleast_2d(weights["a"]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        for layer in self.hidden:
            x = self.scale * F.softplus(layer(x))
        return self.a(x)


class Recurrent(nn.Module):
    """The Elman network of Allen-Zhu et al. (2018), its outputs from the second step on; only `w` is trained."""

    def __init__(self, job: dict, weights: dict) -> None:
        super().__init__()
        self.w, self.a, self.b = (linear(weights[name]) for name in "WAB")
        for fixed in (self.a, self.b):
            fixed.weight.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        drive = self.a(x)
        h = torch.relu(drive[:, 0])
        outputs = []
        for t in range(1, x.shape[1]):
            h = torch.relu(self.w(h) + drive[:, t])
            outputs.append(self.b(h))
        return torch.cat(outputs, dim=-1)


class Convolutional(nn.Module):
    """Du et al. (2019), Section 7."""

    def __init__(self, job: dict, weights: dict) -> None:
        super().__init__()
        width, depth, size = job["sizes"]["width"], job["sizes"]["depth"], job["filter_size"]
        self.first = float(np.sqrt(job["c_sigma"] / width))
        self.later = float(job["c_res"] / (depth * np.sqrt(width)))
        self.layers = nn.ModuleList()
        for h in range(1, depth + 1):
            w = weights[f"W{h}"].reshape(width, -1, size)
            layer = nn.Conv1d(w.shape[1], width, size, padding=size // 2, bias=False)
            layer.weight.data = torch.from_numpy(w.copy())
            self.layers.append(layer)
        self.a = linear(weights["a"].reshape(1, -1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = self.first * F.softplus(self.layers[0](x))
        for layer in self.layers[1:]:
            x = x + self.later * F.softplus(layer(x))
        return self.a(x.reshape(x.shape[0], -1))


def linear(w: np.ndarray) -> nn.Linear:
    layer = nn.Linear(w.shape[1], w.shape[0], bias=False)
    layer.weight.data = torch.from_numpy(w.copy())
    return layer


KINDS = {"fc": Feedforward, "rnn": Recurrent, "conv": Convolutional}


def functional(model: nn.Module) -> tuple[Callable, dict]:
    params = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
    fixed = {name: p.detach() for name, p in model.named_parameters() if not p.requires_grad}
    return lambda p, x: functional_call(model, {**p, **fixed}, (x.unsqueeze(0),)).squeeze(0), params


def jacobian(model: nn.Module, x: torch.Tensor) -> Callable[[], torch.Tensor]:
    """PyTorch's tutorial "Neural Tangent Kernels", method 1; the Jacobian is formed once, as both sides are equal."""
    f, params = functional(model)

    def call() -> torch.Tensor:
        total = None
        for j in vmap(jacrev(f), (None, 0))(params, x).values():
            flat = j.flatten(2)
            part = torch.einsum("Naf,Mbf->NMab", flat, flat)
            total = part if total is None else total.add_(part)
        assert total is not None
        return total

    return call


def products(model: nn.Module, x: torch.Tensor) -> Callable[[], torch.Tensor]:
    """The tutorial's method 2: NTK-vector products with the columns of the identity, for every pair of examples."""
    f, params = functional(model)
    count = f(params, x[0]).shape[0]

    def pair(x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
        pull = vjp(lambda p: f(p, x1), params)[1]

        def column(v: torch.Tensor) -> torch.Tensor:
            return jvp(lambda p: f(p, x2), (params,), pull(v))[1]

        return vmap(column)(torch.eye(count, dtype=x.dtype))

    return lambda: vmap(vmap(pair, (None, 0)), (0, None))(x, x)


def nngeometry(model: nn.Module, x: torch.Tensor) -> Callable[[], torch.Tensor]:
    """`FMatDense` over the trained layers, all examples in one batch; its layout is `K x n x K x n`."""
    from nngeometry.backend import TorchHooksJacobianBackend
    from nngeometry.layercollection import LayerCollection
    from nngeometry.object import FMatDense
    from torch.utils.data import DataLoader, TensorDataset

    layers = LayerCollection()
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv1d) and module.weight.requires_grad:
            layers.add_layer_from_model(model, module)
    loader = DataLoader(TensorDataset(x), batch_size=len(x))

    def call() -> torch.Tensor:
        backend = TorchHooksJacobianBackend(model, layer_collection=layers, centering=False)
        return FMatDense(backend, examples=loader).to_torch().detach().permute(1, 3, 0, 2)

    return call


METHODS = {"torch.func jacobian": jacobian, "torch.func ntk-vector": products, "nngeometry": nngeometry}


def main() -> None:
    job, arrays = load_job()
    torch.set_default_dtype(getattr(torch, job["precision"]))  # nngeometry's buffers have the default dtype
    x = torch.from_numpy(arrays.pop("x"))
    model = KINDS[job["kind"]](job, arrays)
    kernel, times = measure(METHODS[job["method"]](model, x), job["rounds"], job["budget"])
    trace = float(torch.einsum("iikk->", kernel))
    used = versions("torch", "nngeometry", "numpy")
    report(**times, **gram_sample(lambda i, j: kernel[i, j].numpy(), trace, job), versions=used)


if __name__ == "__main__":
    main()
