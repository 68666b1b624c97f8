"""Gradient descent on half the sum of squares in 400 bits, by backpropagation over what a certificate states.

Nothing is shared with the verifier. The scale of the outputs multiplies them behind a network that does not have it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from flint import arb, ctx  # pyright: ignore[reportAttributeAccessIssue]

from wideproof.networks.maps import map_from_dict

BITS = 400
Weights = dict[str, np.ndarray]
ball: Any = np.frompyfunc(arb, 1, 1)


class OnAKinkError(Exception):
    """A pre-activation whose side 400 bits do not know."""


def _relu(z: arb) -> tuple[arb, arb]:
    if z > 0:
        return z, arb(1)
    if z < 0:
        return arb(0), arb(0)
    if z == 0:  # of units that read zeros alone: whatever the slope is, it meets them
        return arb(0), arb(0.5, 0.5)
    raise OnAKinkError


def _tanh(z: arb) -> tuple[arb, arb]:
    t = z.tanh()
    return t, 1 - t * t


SIGMA: dict[str, Any] = {
    "relu": _relu,
    "tanh": _tanh,
    "softplus": lambda z: (z.exp().log1p(), 1 / (1 + (-z).exp())),
    "erf": lambda z: (z.erf(), 2 / arb.pi().sqrt() * (-z * z).exp()),
    "identity": lambda z: (z, arb(1)),
}


def gradient(config: dict[str, Any], weights: Weights, x: np.ndarray, y: np.ndarray, alpha: arb) -> Weights:
    """Return the gradient of half the sum of squares of alpha f - y; y has one row for each site and output."""
    n, values = len(x), _inputs(config, x)
    before, slopes = {}, {}
    for k, node in enumerate(config["nodes"]):
        total: Any = 0
        for term in sorted(node["terms"], key=lambda term: term["map"]["kind"] == "ones"):
            if term["map"]["kind"] == "ones":
                total = total + weights[term["weight"]][:, 0]
                continue
            phi = before[k, term["source"], term["weight"]] = _gathered(term["map"], values[term["source"]])[0]
            total = total + (phi if term["weight"] is None else phi @ weights[term["weight"]].T)
        value, slope = np.frompyfunc(SIGMA[node["activation"]], 1, 2)(total)
        slopes[k] = arb(node["scale"]) * slope
        values[k] = arb(node["scale"]) * value + (0 if node["skip"] is None else values[node["skip"]])
    change: dict[str, Any] = dict.fromkeys(weights, 0)
    back: dict[int, Any] = dict.fromkeys(range(len(config["nodes"])), 0)
    read, per = weights[config["read_out"]], config["outputs"]
    for s, site in enumerate(config["sites"]):
        last = values[site].swapaxes(1, 2).reshape(n, -1)
        f = last @ read.T + (0 if config["bias"] is None else weights[config["bias"]][:, 0])
        r = alpha * (alpha * f - ball(y[s * per : (s + 1) * per].T))
        change[config["read_out"]] = change[config["read_out"]] + r.T @ last
        if config["bias"] is not None:
            change[config["bias"]] = change[config["bias"]] + r.sum(axis=0)[:, None]
        positions, features = values[site].shape[1:]
        back[site] = back[site] + (r @ read).reshape(n, features, positions).swapaxes(1, 2)
    for k in reversed(range(len(config["nodes"]))):
        node, b = config["nodes"][k], back[k] + np.full(values[k].shape, arb(0))
        if node["skip"] is not None and node["skip"] >= 0:
            back[node["skip"]] = back[node["skip"]] + b
        g = b * slopes[k]
        for term in node["terms"]:
            name, source = term["weight"], term["source"]
            flat = g.reshape(-1, g.shape[-1])
            if term["map"]["kind"] == "ones":
                change[name] = change[name] + flat.sum(axis=0)[:, None]
                continue
            phi = before[k, source, name]
            if name is not None:
                change[name] = change[name] + flat.T @ phi.reshape(-1, phi.shape[-1])
            if source >= 0:
                pushed = g if name is None else g @ weights[name]
                back[source] = back[source] + _spread(term["map"], values[source], pushed)
    return {name: change[name] for name in config["trained"]}


def descend(
    config: dict[str, Any], weights: Weights, x: np.ndarray, y: np.ndarray, eta: float, steps: int,
    batches: np.ndarray | None, alpha: float,
) -> Weights:  # fmt: skip
    """Return the trained weights after some steps of gradient descent, or of SGD with these batches."""
    with ctx.workprec(BITS):
        now = {name: ball(weight) for name, weight in weights.items()}
        for k in range(steps):
            rows = list(range(len(x))) if batches is None else list(batches[k])
            share = arb(eta) * arb(len(x)) / arb(len(rows))
            found = gradient(config, now, x[rows], y[:, rows], arb(alpha))
            now |= {name: now[name] - share * found[name] for name in found}
        return {name: now[name] for name in config["trained"]}


def _inputs(config: dict[str, Any], x: np.ndarray) -> dict[int, Any]:
    """The inputs at each time, examples x positions x features."""
    if config["times"]:
        return {-1 - t: ball(x[:, t : t + 1]) for t in range(config["times"])}
    return {-1: ball(x.reshape(len(x), config["shape"][0], -1).swapaxes(1, 2))}


def _places(config: dict[str, Any], shape: tuple[int, ...]) -> np.ndarray:
    """Where a map takes every entry from, counted from 1; 0 is padding."""
    entries = np.arange(1.0, 1 + math.prod(shape)).reshape(1, *shape)
    found = np.asarray(map_from_dict(config).gather(entries))[0].astype(int)
    return found if found.ndim == 2 else found[None]


def _gathered(config: dict[str, Any], value: Any) -> tuple[Any, np.ndarray]:
    places = _places(config, value.shape[1:])
    padded = np.concatenate([np.full((len(value), 1), arb(0)), value.reshape(len(value), -1)], axis=1)
    return padded[:, places], places


def _spread(config: dict[str, Any], value: Any, pushed: Any) -> Any:
    places, out = _places(config, value.shape[1:]), np.full((len(value), 1 + value[0].size), arb(0))
    for at, column in zip(places.ravel(), pushed.reshape(len(value), -1).T, strict=True):
        out[:, at] = out[:, at] + column
    return out[:, 1:].reshape(value.shape)
