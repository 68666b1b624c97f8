"""What the tests of certificates measure against: derivatives in plain NumPy, and small problems."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from tests.cases import OWN
from tests.networks.derivatives import Derivatives
from wideproof.certificates.anchor import Anchor, measure
from wideproof.certificates.attempt import Attempt
from wideproof.certificates.polishing import polish
from wideproof.certificates.problem import Point, Problem
from wideproof.data import AnyDataset, Dataset, ImageDataset, SequenceDataset
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
from wideproof.networks.base import Balanced, Gaussian

ALL = ("recurrent", "input", "output")
F = TypeVar("F")
TINY: dict[str, Network] = {
    "fully-connected": FullyConnected(4, 6, 3),
    "fully-connected-hidden": FullyConnected(4, 9, 1, trained=("hidden",)),
    "fully-connected-tanh-outputs": FullyConnected(4, 5, 2, get_activation("tanh"), outputs=2),
    "fully-connected-relu": FullyConnected(4, 7, 2, get_activation("relu")),
    "fully-connected-gelu": FullyConnected(4, 6, 2, get_activation("gelu")),
    "residual": Residual(4, 5, 3, c_res=0.7),
    "conv-residual": ConvResidual(2, 4, 3, 2),
    "conv-residual-outputs": ConvResidual(2, 3, 4, 2, filter_size=5, activation=get_activation("tanh"), outputs=2),
    "deep-relu": DeepReLU(4, 6, 3),
    "deep-relu-widths": DeepReLU(4, (5, 7, 6), 3, trained=("hidden", "output")),
    "residual-relu": ResidualReLU(4, 6, 3, residual_scale=0.4, trained=("hidden", "output")),
    "elman-rnn": ElmanRNN(3, 9, 3, outputs=2),
    "elman-rnn-all": ElmanRNN(3, 8, 4, outputs=1, trained=ALL),
    "deep-rnn": DeepRNN(3, 9, 3, depth=2, outputs=1),
    "deep-rnn-all": DeepRNN(3, 9, 3, depth=2, outputs=2, trained=(*ALL, "between")),
    **OWN,
}


class Reference:
    """Outputs, Jacobian and second derivatives in the trained weights, in one vector, in plain NumPy."""

    def __init__(self, network: Network, params: Mapping[str, np.ndarray], x: np.ndarray) -> None:
        self.network, self.names = network, network.trained_names
        self.params = {name: np.asarray(weight, np.float64) for name, weight in params.items()}
        self.theta, self.x = self.flat(self.params), np.asarray(x, np.float64)
        self._derivatives = Derivatives(network, self.x)

    def flat(self, params: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the trained weights in one vector."""
        return np.concatenate([np.asarray(params[name], np.float64).ravel() for name in self.names])

    def unflat(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Return all weights, the trained ones out of `theta`."""
        moved, start = dict(self.params), 0
        for name in self.names:
            size = moved[name].size
            moved[name] = np.asarray(theta[start : start + size]).reshape(moved[name].shape)
            start += size
        return moved

    def outputs(self, theta: np.ndarray) -> np.ndarray:
        """All scored outputs, in one vector."""
        return self._derivatives.outputs(self.unflat(theta))

    def jacobian(self, theta: np.ndarray) -> np.ndarray:
        """One row for each scored output."""
        return self._derivatives.jacobian(self.unflat(theta))[1]

    def both(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Outputs and Jacobian."""
        return self._derivatives.jacobian(self.unflat(theta))[:2]

    def hessians(self, theta: np.ndarray) -> np.ndarray:
        """The dense second derivatives, outputs x parameters x parameters."""
        return np.moveaxis(self._derivatives.jacobian(self.unflat(theta), np.eye(theta.size))[2], 0, 2)

    def curvature(self, theta: np.ndarray, seed: int = 0, starts: int = 3, rounds: int = 30) -> float:
        r"""Return a lower bound of $\|D^2 F\|$ by alternating maximization, which never decreases.

        For a fixed u the best w and v of $\sum_i w_i D^2 f_i[u, v]$ are the leading singular vectors of $D^2 F[u, .]$.
        """
        rng, best, params = np.random.default_rng(seed), 0.0, self.unflat(theta)
        for _ in range(starts):
            u, last = rng.standard_normal(theta.size), 0.0
            u /= np.linalg.norm(u)
            for _ in range(rounds):
                change = self._derivatives.jacobian(params, u[None])[2][0]
                values, vectors = np.linalg.eigh(change @ change.T)
                size = math.sqrt(max(values[-1], 0.0))
                if size <= last * (1 + 1e-6) or size == 0:
                    break
                u, last = change.T @ vectors[:, -1] / size, size
            best = max(best, last, size)
        return best


def start(network: Network, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Draw from the network's own law, without compiling anything; biases at random too, so that they matter."""
    drawn = {}
    for name, law in network.laws().items():
        if isinstance(law, Balanced):
            drawn[name] = np.array([-1.0 if 2 * j >= law.shape[0] else 1.0 for j in range(law.shape[0])])
        else:
            drawn[name] = math.sqrt(law.variance if isinstance(law, Gaussian) else 0.3) * rng.standard_normal(law.shape)
    return drawn


def problem(network: Network, n: int = 4, seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Weights at the start, inputs of norm about 1, and random targets."""
    rng = np.random.default_rng(seed)
    params = start(network, rng)
    shape = network.input_shape
    x = rng.standard_normal((n, *shape)) / math.sqrt(math.prod(shape[-1:]))
    return params, x, rng.standard_normal((n, *network.output_shape))


def at(
    network: Network, params: Mapping[str, np.ndarray], x: np.ndarray, y: np.ndarray,
    sharp: bool = False, level: str = "enclosed",
) -> Anchor:  # fmt: skip
    """Everything the prover measures."""
    return measure(network.graph, params, x, network.scored(y), level=level, sharp=sharp)


def sphere(n: int, d: int, seed: int) -> np.ndarray:
    """Uniform points on the unit sphere."""
    x = np.random.default_rng(seed).standard_normal((n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def signs(n: int, seed: int) -> np.ndarray:
    """Random labels with both classes."""
    y = np.random.default_rng(seed + 1000).choice([-1.0, 1.0], n)
    y[:2] = 1.0, -1.0
    return y


def dataset(network: Network, x: np.ndarray, y: np.ndarray, task: str = "regression") -> AnyDataset:
    """The data set of the kind that the network takes; it has the pixels of an image in one row."""
    x = x.reshape(*x.shape[:2], -1) if network.data_kind == "images" else x
    kind = {"vectors": Dataset, "images": ImageDataset, "sequences": SequenceDataset}[network.data_kind]
    return kind(x, y, task)


def point(network: Network, params: Mapping[str, Any], data: AnyDataset) -> Point:
    """The point of some weights."""
    return Problem(network, data).at(params)


def concluded(attempt: Attempt[F]) -> F:
    """What a theorem says about the weights."""
    assert attempt.conclusion is not None
    return attempt.conclusion


def fitted(network: Network, n: int = 4, seed: int = 0) -> tuple[dict[str, np.ndarray], AnyDataset]:
    """Weights that fit random targets near the outputs at the start, polished to rounding, and the data."""
    params, x, noise = problem(network, n, seed)
    y = np.asarray(network(params, x)) + 0.1 * noise
    return polish(network, params, x, y).params, dataset(network, x, y)


def quadratic_maps(rng, count, outputs, parameters, h):
    """Maps r + J t + [t' B_i t] / 2 whose rho, s, S and Lipschitz constant are known, a third of them extremal."""
    left = np.linalg.qr(rng.standard_normal((count, outputs, outputs)))[0]
    right = np.linalg.qr(rng.standard_normal((count, parameters, parameters)))[0][:, :outputs]
    values = np.sort(rng.uniform(0.3, 1.0, (count, outputs)), axis=1)
    j = np.einsum("kij,kj,kjp->kip", left, values, right)
    r = rng.standard_normal((count, outputs)) * 10 ** rng.uniform(-3, 0, (count, 1))
    b = rng.standard_normal((count, outputs, parameters, parameters))
    b = b + b.transpose(0, 1, 3, 2)
    worst = np.arange(count) % 3 == 0  # the residual on the weakest direction, which the curvature weakens further
    r[worst] = left[worst, :, 0] * np.linalg.norm(r[worst], axis=1, keepdims=True)
    weakest = right[worst, 0]
    b[worst] = left[worst, :, 0][:, :, None, None] * (weakest[:, :, None] * weakest[:, None, :])[:, None]
    unfolded = b.transpose(0, 2, 1, 3).reshape(count, parameters, -1)
    size = np.linalg.norm(unfolded, ord=2, axis=(1, 2))  # ‖B[u, .]‖ ≤ this ‖u‖, with equality in the extremal ones
    rho, s, largest = np.linalg.norm(r, axis=1), values[:, 0], values[:, -1]
    constant = h * s**2 / rho
    b *= (constant / size)[:, None, None, None]
    return r, j, b, rho * (1 + 1e-13), s * (1 - 1e-13), largest * (1 + 1e-13), constant * (1 + 1e-13)


def residuals(r, j, b, t):
    """Residuals and Jacobians of these maps at the points t."""
    bent = np.einsum("kipq,kq->kip", b, t)
    return r + np.einsum("kip,kp->ki", j + bent / 2, t), j + bent
