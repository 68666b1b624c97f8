"""Certificates of small random networks: outputs and Jacobians by NumPy, the Lipschitz claims from the recursion."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx  # pyright: ignore[reportAttributeAccessIssue]
from safetensors.numpy import save

from tests.cases import OWN
from tests.networks.derivatives import Derivatives
from wideproof.networks import (
    ConvResidual,
    DeepReLU,
    DeepRNN,
    ElmanRNN,
    FullyConnected,
    Network,
    Residual,
    ResidualReLU,
    get_activation,
)
from wideproof.networks.base import Zeros
from wideproof_verify import graphs
from wideproof_verify.arithmetic import BALLS, Arithmetic
from wideproof_verify.bounds import Bounds
from wideproof_verify.passes import Anchor

SMALL: dict[str, Network] = {
    "fully-connected": FullyConnected(5, 8, 3),
    "fully-connected-one": FullyConnected(5, 12, 1, get_activation("tanh")),
    "fully-connected-fixed": FullyConnected(5, 12, 1, trained=("hidden",)),
    "fully-connected-outputs": FullyConnected(5, 9, 2, get_activation("tanh"), outputs=2),
    "fully-connected-relu": FullyConnected(5, 9, 2, get_activation("relu")),
    "residual": Residual(5, 7, 3, c_res=0.7),
    "conv-residual": ConvResidual(2, 4, 5, 2),
    "conv-residual-outputs": ConvResidual(2, 4, 5, 2, filter_size=5, outputs=2),
    "conv-residual-long": ConvResidual(1, 16, 3, 2),  # many positions: its Gram matrix is taken from written gradients
    "deep-relu": DeepReLU(5, 8, 3),
    "deep-relu-widths": DeepReLU(5, (7, 9, 8), 3, trained=("hidden", "output")),
    "residual-relu": ResidualReLU(5, 8, 3, residual_scale=0.4),
    "elman-rnn": ElmanRNN(4, 9, 4, outputs=2),
    "elman-rnn-all": ElmanRNN(4, 9, 3, outputs=1, trained=("recurrent", "input", "output")),
    "deep-rnn": DeepRNN(4, 8, 3, depth=2, outputs=1),
    "deep-rnn-all": DeepRNN(4, 8, 3, depth=2, outputs=2, trained=("recurrent", "input", "between", "output")),
    **OWN,
}
VARIANTS = (
    "fully-connected-outputs",
    "conv-residual",
    "conv-residual-long",
    "deep-relu-widths",
    "elman-rnn",
    "deep-rnn",
)
CASES = [pytest.param(name, marks=pytest.mark.slow if name in VARIANTS else ()) for name in SMALL]


def scales(network: Any) -> list[float]:
    """The scale of every node of a paper's network, from its formula."""
    if network.data_kind == "sequences":
        return [1.0] * network.length * getattr(network, "depth", 1)
    if isinstance(network, DeepReLU):
        return [1.0] * network.depth
    if isinstance(network, ResidualReLU):
        return [1.0] + [network.theta] * (network.depth - 1) + [1.0]
    first = math.sqrt(network.activation.c_sigma / network.width)
    if isinstance(network, FullyConnected):
        return [first] * network.depth
    return [first] + [network.c_res / (network.depth * math.sqrt(network.width))] * (network.depth - 1)


def config(network: Network) -> dict[str, Any]:
    """The network as the certificate states it."""
    return json.loads(json.dumps(network.graph.to_dict()))


def read(stated: dict[str, Any], params: dict[str, Any]) -> tuple[graphs.Network, dict[str, np.ndarray]]:
    """The network as the verifier reads it, and its weights as matrices."""
    weights = {name: np.asarray(w) for name, w in params.items()}
    net = graphs.Network.read(stated, {name: w.shape for name, w in weights.items()})
    return net, {name: net.matrix(name, w) for name, w in weights.items()}


def jacobian(network: Network, params: dict[str, Any], x: Any) -> np.ndarray:
    """The Jacobian of the scored outputs, in plain NumPy."""
    return Derivatives(network, x).jacobian(params)[1]


def bounds(
    network: Network, params: dict[str, np.ndarray], x: np.ndarray, y: np.ndarray, sharp: bool,
    ops: Arithmetic = BALLS,
) -> Bounds:  # fmt: skip
    """The verifier's bounds around `params`, whatever the targets."""
    net, matrices = read(config(network), params)
    return Bounds(Anchor(net, matrices, x, ops=ops).differentiate(), sharp)


def problem(
    network: Network, n: int = 3, seed: int = 0, noise: float = 1e-9
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Weights, inputs, and targets that the weights nearly fit; biases are drawn, so that they matter."""
    rng = np.random.default_rng(seed)
    params = {name: np.array(w) for name, w in network.init(seed).items()}
    levels = [name for name, law in network.laws().items() if isinstance(law, Zeros)]
    params |= {name: 0.5 * rng.standard_normal(params[name].shape) for name in levels}
    x = rng.standard_normal((n, *network.input_shape))
    y = np.zeros((n, *network.output_shape))
    network.scored(y)[...] = Derivatives(network, x).outputs(params).reshape(network.scored(y).shape)
    return params, x, y + noise * rng.standard_normal(y.shape)


def claims(
    network: Network, params: dict[str, np.ndarray], x: np.ndarray, y: np.ndarray, *, sharp: bool, stairs: int = 1,
    newton: bool = False, radius: float | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The claims of Theorem 1, and of Theorem 2 with `newton`."""
    f, j, _ = Derivatives(network, x).jacobian(params)
    r = f - network.scored(y).ravel()
    values = np.linalg.svd(j, compute_uv=False)
    rho, s, largest = (
        float(np.linalg.norm(r)) * (1 + 1e-5),
        float(values[-1]) * (1 - 1e-6),
        float(values[0]) * (1 + 1e-9),
    )
    end = 2 * rho / s if radius is None else radius
    radii = [end * (k + 1) / stairs for k in range(stairs)]
    with ctx.workprec(128):
        found = bounds(network, params, x, y, sharp)
        lipschitz = [float(found.lipschitz(arb(t)).upper()) * (1 + 1e-6) for t in radii]
    steps = np.diff([0.0, *radii])
    m = float(np.dot(lipschitz, steps))
    sigma, b = (s - m) * (1 - 1e-12), (largest + m) * (1 + 1e-12)
    eta = (1 - 1e-9) / b**2
    rate = eta * sigma**2 * (1 - 1e-12)
    epsilon = 0.5 * (rho * 1e-3) ** 2
    made = {
        "rho": rho, "s": s, "S": largest, "radii": radii, "lipschitz": lipschitz, "sigma": sigma, "b": b, "eta": eta,
        "rate": rate, "h": lipschitz[-1] * rho / s**2 * (1 + 1e-12), "epsilon": epsilon,
        "steps": math.ceil(math.log(rho / math.sqrt(2 * epsilon)) / -math.log1p(-rate)) + 1,
    }  # fmt: skip
    if newton:
        size = float(np.linalg.norm(np.linalg.lstsq(j, r)[0])) * (1 + 1e-6)
        h = lipschitz[-1] * size / s * (1 + 1e-12)
        made |= {"D": size, "newton_h": h, "newton_radius": 2 * size / (1 + math.sqrt(1 - 2 * h)) * (1 + 1e-12)}
    return made


def statement(network: Network, theorem: str, claimed: dict[str, Any], *, sharp: bool = False) -> dict[str, Any]:
    """Everything of certificate.json but the digests."""
    mean = theorem in ("fit", "logistic")
    return {
        "summary": "a test", "format": "wideproof-certificate-2", "theorem": theorem, "level": "float64",
        "network": config(network), "bound": {"sharp": sharp},
        "loss": {"name": "logistic", "reduction": "mean"} if mean else {"name": "squared", "reduction": "half_sum"},
        "claims": claimed, "anchor": {"start": "initialization"}, "assumptions": [], "versions": {},
    }  # fmt: skip


def write(folder: Path, stated: dict[str, Any], params: dict[str, Any], x: np.ndarray, y: np.ndarray) -> Path:
    """Write the two files, with digests."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {"x": x, "y": y} | {f"weights/{name}": np.array(w) for name, w in params.items()}
    data = save({name: np.ascontiguousarray(a) for name, a in arrays.items()})
    canonical = json.dumps(stated, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    digests = {
        "arrays": hashlib.sha256(data).hexdigest(),
        "certificate": hashlib.sha256(canonical.encode()).hexdigest(),
    }
    (folder / "arrays.safetensors").write_bytes(data)
    (folder / "certificate.json").write_text(json.dumps({**stated, "digests": digests}, indent=1), encoding="utf-8")
    return folder
