"""The network of a certificate, run from its JSON text: outputs, gradients and Jacobians in NumPy of any precision.

It is written from the description of the format (docs/theory/certificates.md, section 3) for the judge of the fuzzer, and
shares no code with the prover or the verifier:

    z_k = Σ_t M_t φ_t(x_src(t)),   x_k = [x_skip] + s_k σ_k(z_k),   f = C x_site + c

Values are arrays (examples, positions, features). All trained weights together are one vector, `theta`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

LONG = np.longdouble


def erf(z: np.ndarray) -> np.ndarray:
    """Return erf to about the precision of the numbers: 2/√π e^(−z²) Σ 2^k z^(2k+1) / (2k+1)!!, all terms of one sign.

    >>> bool(abs(erf(np.array([0.5], LONG))[0] - LONG("0.520499877813046537682746653891964529")) < 1e-18)
    True
    """
    near = np.clip(z, -7, 7)  # 1 − erf(7) is 4e-23
    term, total = near, near
    for k in range(1, 220):
        term = term * (2 * near * near) / (2 * k + 1)
        total = total + term
    root = np.sqrt(np.arctan(near.dtype.type(1)) * 4)
    return np.clip(2 / root * np.exp(-near * near) * total, -1, 1)


def sigmoid(z: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + e^−z) without overflow."""
    small = np.exp(-np.abs(z))
    return np.where(z >= 0, 1, small) / (1 + small)


def softplus(z: np.ndarray) -> np.ndarray:
    """Return log(1 + e^z) without overflow."""
    return np.maximum(z, 0) + np.log1p(np.exp(-np.abs(z)))


def _mish(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    t = np.tanh(softplus(z))
    return z * t, t + z * (1 - t * t) * sigmoid(z)


def _gelu(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    two = z.dtype.type(2)
    below = (1 + erf(z / np.sqrt(two))) / 2
    return z * below, below + z * np.exp(-z * z / 2) / np.sqrt(8 * np.arctan(z.dtype.type(1)))


ACTIVATIONS: dict[str, Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]] = {  # z -> value, slope
    "softplus": lambda z: (softplus(z), sigmoid(z)),
    "sigmoid": lambda z: (sigmoid(z), sigmoid(z) * sigmoid(-z)),
    "tanh": lambda z: (np.tanh(z), 1 / np.cosh(np.clip(z, -5000, 5000)) ** 2),
    "erf": lambda z: (erf(z), 2 * np.exp(-z * z) / np.sqrt(4 * np.arctan(z.dtype.type(1)))),
    "arctan": lambda z: (np.arctan(z), 1 / (1 + z * z)),
    "sin": lambda z: (np.sin(z), np.cos(z)),
    "swish": lambda z: (z * sigmoid(z), sigmoid(z) * (1 + z * sigmoid(-z))),
    "gelu": _gelu,
    "mish": _mish,
    "elu": lambda z: (np.where(z > 0, z, np.expm1(np.minimum(z, 0))), np.exp(np.minimum(z, 0))),
    "softsign": lambda z: (z / (1 + np.abs(z)), 1 / (1 + np.abs(z)) ** 2),
    "identity": lambda z: (z, np.ones_like(z)),
    "relu": lambda z: (np.maximum(z, 0), (z > 0).astype(z.dtype)),
}
# margin z -> ℓ(z), ℓ'(z)
MARGIN_LOSSES: dict[str, Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]] = {
    "logistic": lambda z: (softplus(-z), -sigmoid(-z)),
    "exp_linear": lambda z: (
        np.where(z > 0, np.exp(-np.maximum(z, 0)), 1 - z),
        np.where(z > 0, -np.exp(-np.maximum(z, 0)), -1),
    ),
    "squared_hinge": lambda z: (np.maximum(1 - z, 0) ** 2, -2 * np.maximum(1 - z, 0)),
    "half_squared_hinge": lambda z: (np.maximum(1 - z, 0) ** 2 / 2, -np.maximum(1 - z, 0)),
    "huber_hinge": lambda z: (
        np.where(z < 0, z.dtype.type(1) / 2 - z, np.maximum(1 - z, 0) ** 2 / 2),
        -np.clip(1 - z, 0, 1),
    ),
}


class Map:
    """One map φ of a term on a grid: what it reads, its adjoint, and the grid that comes out."""

    def __init__(self, stated: dict[str, Any], grid: tuple[int, ...], features: int) -> None:
        self.kind, self.positions = stated["kind"], math.prod(grid)
        self.out, self.features = grid, features
        if self.kind == "ones":
            self.features = 1
        elif self.kind == "flat":
            self.out, self.features = (), features * self.positions
        elif self.kind in ("patches", "average"):
            self._windows(stated, grid, features)
        elif self.kind != "identity":
            raise ValueError(f"there is no map {self.kind!r}")

    def _windows(self, stated: dict[str, Any], grid: tuple[int, ...], features: int) -> None:
        sides = [stated[name] for name in ("positions", "size", "stride", "padding")]
        if tuple(sides[0]) != grid:
            raise ValueError("windows on another grid")
        per_axis = []
        for length, size, stride, (before, after) in zip(*sides, strict=True):
            count = (length + before + after - size) // stride + 1
            per_axis.append([[j * stride + i - before for i in range(size)] for j in range(count)])
        self.out = tuple(map(len, per_axis))
        table = []
        for window in itertools.product(*per_axis):
            row = []
            for place in itertools.product(*window):
                inside = all(0 <= i < length for i, length in zip(place, grid, strict=True))
                row.append(int(np.ravel_multi_index(place, grid)) if inside else self.positions)
            table.append(row)
        self.table = np.array(table)
        self.count = self.table.shape[1]
        self.features = features * (self.count if self.kind == "patches" else 1)

    def read(self, x: np.ndarray, places: int) -> np.ndarray:
        """Return φ(x), (examples, positions, features)."""
        n = len(x)
        if self.kind == "ones":
            return np.ones((n, places, 1), x.dtype)
        if self.kind == "identity":
            return x
        if self.kind == "flat":
            return x.swapaxes(1, 2).reshape(n, 1, -1)
        seen = np.concatenate([x, np.zeros_like(x[:, :1])], axis=1)[:, self.table]
        if self.kind == "average":
            return seen.sum(axis=2) / self.count
        return seen.swapaxes(2, 3).reshape(n, len(self.table), -1)

    def back(self, y: np.ndarray) -> np.ndarray:
        """Return the adjoint of φ, applied to (examples, positions, features)."""
        n = len(y)
        if self.kind == "identity":
            return y
        if self.kind == "flat":
            return y.reshape(n, -1, self.positions).swapaxes(1, 2)
        if self.kind == "average":
            parts = np.repeat(y[:, :, :, None] / self.count, self.count, axis=3)
        else:
            parts = y.reshape(n, len(self.table), -1, self.count)
        found = np.zeros((n, self.positions + 1, parts.shape[2]), y.dtype)
        for o in range(self.count):  # windows at different places read different positions with the same offset
            inside = self.table[:, o] < self.positions
            found[:, self.table[inside, o]] += parts[..., o][:, inside]
        return found[:, :-1]


class Net:
    """The network on its inputs, in one precision; `theta` is a vector of all trained weights, as matrices row by row."""

    def __init__(
        self, config: dict[str, Any], weights: dict[str, np.ndarray], x: np.ndarray, dtype: Any = LONG
    ) -> None:
        self.config, self.dtype, self.n = config, dtype, len(x)
        self.biases = {t["weight"] for node in config["nodes"] for t in node["terms"] if t["map"]["kind"] == "ones"}
        used = {t["weight"] for node in config["nodes"] for t in node["terms"]} - {None}
        used |= {config["read_out"], config["bias"]} - {None}
        self.matrices = {name: self.matrix(name, weights[name]).astype(dtype) for name in sorted(used)}
        self.trained = list(config["trained"])
        cuts = np.cumsum([0, *(self.matrices[name].size for name in self.trained)])
        self.place = {name: slice(cuts[k], cuts[k + 1]) for k, name in enumerate(self.trained)}
        self.size = int(cuts[-1])
        shape = config["shape"]
        if config["times"]:
            inputs = [x[:, t, None, :] for t in range(config["times"])]
        else:
            inputs = [x.reshape(self.n, shape[0], -1).swapaxes(1, 2)]
        self.inputs = [part.astype(dtype) for part in inputs]
        self.rows = len(config["sites"]) * config["outputs"]
        self.maps: list[list[Map]] = []
        grids = {-1 - t: (tuple(shape[1:]), shape[0]) for t in range(len(inputs))}
        for k, node in enumerate(config["nodes"]):
            self.maps.append([Map(t["map"], *grids[t["source"]]) for t in node["terms"]])
            outs = {m.out for m in self.maps[-1] if m.kind != "ones"}
            if len(outs) != 1:
                raise ValueError("the terms of a node have different grids")
            units = {m.features if t["weight"] is None else len(self.matrices[t["weight"]])
                     for t, m in zip(node["terms"], self.maps[-1], strict=True)}  # fmt: skip
            if len(units) != 1:
                raise ValueError("the terms of a node have different sizes")
            grids[k] = (outs.pop(), units.pop())
        self.grids = grids

    def matrix(self, name: str, weight: np.ndarray) -> np.ndarray:
        """Return a weight with one row for each unit."""
        config = self.config
        if name in (config["read_out"], config["bias"]):
            return weight.reshape(config["outputs"], -1)
        if config["columns"] and name not in self.biases:
            weight = weight.reshape(-1, weight.shape[-1]).T
        return weight.reshape(len(weight), -1)

    def vector(self, weights: dict[str, np.ndarray]) -> np.ndarray:
        """Return the trained weights of a dictionary as one vector."""
        return np.concatenate([self.matrix(name, weights[name]).ravel() for name in self.trained]).astype(self.dtype)

    def at(self, theta: np.ndarray, rows: Any = None) -> Pass:
        """Run the network with these trained weights on all rows, or on some."""
        parts = {name: theta[at].reshape(self.matrices[name].shape) for name, at in self.place.items()}
        return Pass(self, {**self.matrices, **parts}, rows)


class Pass:
    """One run: `outputs` (examples, sites x outputs), and what the way back needs."""

    def __init__(self, net: Net, matrices: dict[str, np.ndarray], rows: Any) -> None:
        config = net.config
        self.net, self.matrices = net, matrices
        values = {-1 - t: part if rows is None else part[rows] for t, part in enumerate(net.inputs)}
        self.n = len(values[-1])
        self.read: list[list[np.ndarray]] = []
        self.slopes: list[np.ndarray] = []
        with np.errstate(all="ignore"):
            for k, node in enumerate(config["nodes"]):
                places = math.prod(net.grids[k][0])
                terms = zip(node["terms"], net.maps[k], strict=True)
                self.read.append([phi.read(values[t["source"]], places) for t, phi in terms])
                z: Any = 0
                for t, phi in zip(node["terms"], self.read[-1], strict=True):
                    z = z + (phi if t["weight"] is None else phi @ matrices[t["weight"]].T)
                value, slope = ACTIVATIONS[node["activation"]](z)
                scale = net.dtype(node["scale"])
                value = scale * value
                if node["skip"] is not None:
                    value = value + values[node["skip"]]
                values[k] = value
                self.slopes.append(scale * slope)
            self.sites = [values[k].swapaxes(1, 2).reshape(self.n, -1) for k in config["sites"]]
            found = [site @ matrices[config["read_out"]].T for site in self.sites]
            if config["bias"] is not None:
                found = [part + matrices[config["bias"]].T for part in found]
            self.outputs = np.concatenate(found, axis=1)

    def pull(self, seeds: np.ndarray) -> np.ndarray:
        """Return the gradient of Σ seeds · outputs by `theta`; seeds are (examples, sites x outputs)."""
        return self._back(seeds, 1).sum(axis=0)

    def jacobian(self) -> np.ndarray:
        """Return the derivatives of all outputs by `theta`, rows (example, site, output)."""
        count = self.net.rows
        return self._back(np.tile(np.eye(count, dtype=self.net.dtype), (self.n, 1)), count)

    def _back(self, seeds: np.ndarray, count: int) -> np.ndarray:
        """Return a gradient for each row of the seeds; every example has `count` rows, one after the other."""
        net, config, n = self.net, self.net.config, len(seeds)
        found = np.zeros((n, net.size), net.dtype)
        backs: dict[int, Any] = {}
        outputs, read_out, level = config["outputs"], config["read_out"], config["bias"]
        with np.errstate(all="ignore"):
            for k, (site, value) in enumerate(zip(config["sites"], self.sites, strict=True)):
                part = seeds[:, k * outputs : (k + 1) * outputs]
                if read_out in net.place:
                    own = part[:, :, None] * np.repeat(value, count, axis=0)[:, None, :]
                    found[:, net.place[read_out]] += own.reshape(n, -1)
                if level in net.place:
                    found[:, net.place[level]] += part
                back = (part @ self.matrices[read_out]).reshape(n, net.grids[site][1], -1).swapaxes(1, 2)
                backs[site] = backs.get(site, 0) + back
            for k in reversed(range(len(config["nodes"]))):
                if k not in backs:
                    continue
                node, back = config["nodes"][k], backs[k]
                if node["skip"] is not None:
                    backs[node["skip"]] = backs.get(node["skip"], 0) + back
                gain = back * np.repeat(self.slopes[k], count, axis=0)
                for t, phi, read in zip(node["terms"], net.maps[k], self.read[k], strict=True):
                    if t["weight"] in net.place:
                        own = gain.swapaxes(1, 2) @ np.repeat(read, count, axis=0)
                        found[:, net.place[t["weight"]]] += own.reshape(n, -1)
                    if phi.kind != "ones" and t["source"] >= 0:
                        down = gain if t["weight"] is None else gain @ self.matrices[t["weight"]]
                        backs[t["source"]] = backs.get(t["source"], 0) + phi.back(down)
        return found
