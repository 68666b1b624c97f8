"""Nine PyTorch models, trained as people train them: loads it, does it agree, what is proved, moved how far, seconds.

    .venv/torch/bin/python benchmarks/torch_models.py [--only a,c]     # the environment that `make torch` makes

Each is trained in float32 with the optimizer and the loss that people take for it, on 300 of scikit-learn's digits
(classes: cross-entropy) or 200 rows of its diabetes table (numbers: mean squared error), and handed to `wp.certify` as
it is: the module, the rows, the labels; the loss is guessed. What cannot be read is handed in again with the layer
named at which its head begins (`--head`). Each model has a process of its own, so that its peak memory is its own: that
of PyTorch and JAX together, of which importing them is `imports_bytes`. Seconds are those on the clock, and those of
the processor, which do not count what other programs took.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import torch
from peers.common import RESULTS, machine, versions
from sklearn import datasets
from torch import nn

CLASSES, ROWS = 10, 300
# pyright: reportMissingImports=false


class Block(nn.Module):
    """What ResNet-18 is made of: two convolutions with batch norm, and a shortcut."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after))
        same = before == after and stride == 1
        self.short = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the sum of both, through a ReLU."""
        return torch.relu(self.second(self.first(x)) + self.short(x))


class Encoder(nn.Module):
    """Eight tokens of eight numbers through two layers of attention, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(8, 32)
        self.places = nn.Parameter(0.02 * torch.randn(8, 32))
        layer = nn.TransformerEncoderLayer(32, 4, 64, 0.1, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(32), enable_nested_tensor=False)
        self.fc = nn.Linear(32, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits of the mean over the tokens."""
        return self.fc(self.encoder(self.embed(x) + self.places).mean(1))


class Recurrent(nn.Module):
    """Eight rows of pixels through an LSTM, and a head on its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.fc = nn.LSTM(8, 48, batch_first=True), nn.Linear(48, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        return self.fc(self.lstm(x)[0][:, -1])


def mlp() -> nn.Module:
    """Return (a)."""
    return nn.Sequential(
        nn.Linear(64, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 64), nn.BatchNorm1d(64),
        nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, CLASSES),
    )  # fmt: skip


def cnn() -> nn.Module:
    """Return (b)."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64, CLASSES),
    )  # fmt: skip


def normed() -> nn.Module:
    """Return (d)."""
    return nn.Sequential(
        nn.Linear(64, 96), nn.LayerNorm(96), nn.GELU(), nn.Linear(96, 96), nn.LayerNorm(96), nn.GELU(),
        nn.Linear(96, CLASSES),
    )  # fmt: skip


def regressor() -> nn.Module:
    """Return (e)."""
    return nn.Sequential(nn.Linear(10, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))


def plain() -> nn.Module:
    """Return (f)."""
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, CLASSES))


def depthwise() -> nn.Module:
    """Return (h)."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU6(),
        nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.BatchNorm2d(16), nn.ReLU6(),
        nn.Conv2d(16, 32, 1), nn.BatchNorm2d(32), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(32, CLASSES),
    )  # fmt: skip


def resnet() -> nn.Module:
    """Return (i): the eight blocks of ResNet-18, with an eighth of its channels."""
    widths = [(8, 8, 1), (8, 8, 1), (8, 16, 2), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1)]
    stem = nn.Sequential(nn.Conv2d(1, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
    features = nn.Sequential(stem, *(Block(*sizes) for sizes in widths), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(features, nn.Linear(64, CLASSES))


def adamw(module: nn.Module) -> torch.optim.Optimizer:
    """Return AdamW as it comes, with a step of 0.003."""
    return torch.optim.AdamW(module.parameters(), 3e-3)


def adam(module: nn.Module) -> torch.optim.Optimizer:
    """Return Adam as it comes, with a step of 0.003."""
    return torch.optim.Adam(module.parameters(), 3e-3)


def momentum(module: nn.Module) -> torch.optim.Optimizer:
    """Return SGD with momentum 0.9."""
    return torch.optim.SGD(module.parameters(), 0.05, momentum=0.9)


Maker = Callable[[], nn.Module]
MODELS: dict[str, tuple[str, Maker, tuple[int, ...], Any, int, str]] = {
    "a": ("MLP, BatchNorm, Dropout, ReLU; AdamW", mlp, (64,), adamw, 40, "8"),
    "b": ("CNN, max pooling, BatchNorm; AdamW", cnn, (1, 8, 8), adamw, 40, "9"),
    "c": ("transformer encoder, LayerNorm, attention, GELU; AdamW", Encoder, (8, 8), adamw, 60, "fc"),
    "d": ("MLP, LayerNorm, GELU; AdamW", normed, (64,), adamw, 40, "6"),
    "e": ("tanh MLP, mean squared error; Adam", regressor, (10,), adam, 400, "4"),
    "f": ("ReLU MLP; SGD with momentum 0.9", plain, (64,), momentum, 40, "4"),
    "g": ("LSTM; Adam", Recurrent, (8, 8), adam, 60, "fc"),
    "h": ("depthwise CNN, ReLU6, BatchNorm; AdamW", depthwise, (1, 8, 8), adamw, 80, "11"),
    "i": ("ResNet-18's blocks, BatchNorm, linear head; AdamW", resnet, (1, 8, 8), adamw, 30, "1"),
}
"""What it is, its module, the shape of a row, the optimizer, epochs, and the layer at which a head begins."""


def rows_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and targets as they are given to PyTorch, in float32."""
    rng = np.random.default_rng(0)
    if name == "e":
        x, y = map(np.asarray, datasets.load_diabetes(return_X_y=True))
        pick = rng.permutation(len(x))[:200]
        x, y = x[pick], y[pick]
        return ((x - x.mean(0)) / x.std(0)).astype(np.float32), ((y - y.mean()) / y.std()).astype(np.float32)
    x, y = map(np.asarray, datasets.load_digits(return_X_y=True))
    pick = rng.permutation(len(x))[:ROWS]
    return (x[pick] / 16).astype(np.float32).reshape(ROWS, *MODELS[name][2]), y[pick]


def train(name: str) -> tuple[nn.Module, np.ndarray, np.ndarray, float]:
    """Train a model in shuffled batches of 32; return it with its rows, and the seconds of the processor."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    x, y = rows_of(name)
    module, epochs = MODELS[name][1](), MODELS[name][4]
    optimizer = MODELS[name][3](module)
    inputs, targets = torch.as_tensor(x), torch.as_tensor(y[:, None] if name == "e" else y)
    loss = nn.MSELoss() if name == "e" else nn.CrossEntropyLoss()
    begun = time.process_time()
    module.train()
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(32):
            optimizer.zero_grad()
            loss(module(inputs[batch]), targets[batch]).backward()
            optimizer.step()
    return module, x, y, time.process_time() - begun


def agreement(module: nn.Module, found: Any, x: np.ndarray) -> float:
    """Return how far the proof's network is from the module in float64, on all rows, over the largest output."""
    import copy

    with torch.no_grad():
        theirs = copy.deepcopy(module).double().eval()(torch.as_tensor(x).double()).numpy().reshape(len(x), -1)
    ours = np.asarray(found.network(found.params, found.data.x), np.float64).reshape(len(x), -1)
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def shift(module: nn.Module, proof: Any, x: np.ndarray, head: str | None) -> float | None:
    """Return how far the proof's weights are from those that were read, over their length; None without any proof."""
    from wideproof.networks.exchange import from_torch

    made = proof.certificate
    if made is None:
        return None
    if head is None:
        given = from_torch(module, x[:2], logits=True).params
    else:  # a single linear layer in each of these models
        given = {k: v.detach().double().numpy() for k, v in module.get_submodule(head).state_dict().items()}
    pairs = [(a, given[k if k in given else k.rpartition(".")[2]]) for k, a in made.params.items()]
    return float(np.sqrt(sum(np.sum((a - b) ** 2) for a, b in pairs) / sum(np.sum(b**2) for _, b in pairs)))


def measured(name: str) -> dict[str, Any]:
    """Train, hand over, and say what came of it."""
    import wideproof as wp
    from wideproof.errors import InputError

    imports = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    said, _, _, _, _, head = MODELS[name]
    module, x, y, took = train(name)
    task: dict[str, Any] = {"task": "regression"} if name == "e" else {}
    row: dict[str, Any] = {"model": name, "said": said, "rows": len(x), "train_seconds": took}
    row["weights"] = sum(p.numel() for p in module.parameters())
    begun, processor, proof = time.perf_counter(), time.process_time(), None
    row |= {"loads": True, "obstacles": [], "head": None}
    try:
        proof = wp.certify(module, (x, y), **task)
    except InputError as error:
        row |= {"loads": False, "obstacles": list(getattr(error, "obstacles", (str(error),))), "refusal": str(error)}
    if proof is None:
        row["head"] = head
        proof = wp.certify(module, (x, y), head=head, **task)
    row |= {"seconds": time.perf_counter() - begun, "processor_seconds": time.process_time() - processor}
    made, verdict = proof.certificate, proof.verdict
    claims = {} if made is None else dict(made.claims)
    row |= {
        "proved": proof.proved, "headline": proof.headline, "notes": list(proof.notes),
        "agreement": agreement(module, proof, x), "moved": shift(module, proof, x, row["head"]),
        "theorem": None if made is None else made.theorem,
        "loss": getattr(proof, "loss", "squared"), "loss_now": claims.get("loss"), "right": claims.get("right"),
        "loss_reached": claims.get("epsilon"), "steps": claims.get("steps"), "to_zero": "separates" in claims,
        "verifier_seconds": None if verdict is None else verdict.seconds,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "imports_bytes": imports,
    }  # fmt: skip
    return row


def main() -> int:
    """Measure each model in a process of its own, print, and keep the figures."""
    reader = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    reader.add_argument("--only", default=",".join(MODELS), help="letters, with commas between them")
    reader.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    chosen = reader.parse_args()
    names = chosen.only.split(",")
    if chosen.here:
        warnings.simplefilter("ignore")
        print(json.dumps(measured(names[0])))
        return 0
    rows, crashed = [], 0
    for name in names:
        made = subprocess.run(
            [sys.executable, __file__, "--here", "--only", name], capture_output=True, text=True, check=False
        )
        if made.returncode:
            crashed += 1
            rows.append({"model": name, "said": MODELS[name][0], "crash": made.stderr.strip().splitlines()[-1]})
        else:
            rows.append(json.loads(made.stdout.splitlines()[-1]))
        print(json.dumps(rows[-1], indent=1), flush=True)
    if names == list(MODELS):
        found = {"machine": machine(), "versions": versions("torch", "jax", "numpy"), "rows": rows}
        (RESULTS / "torch-models.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return int(crashed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
