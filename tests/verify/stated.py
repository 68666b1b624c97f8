"""The network that a certificate states, run from its JSON in plain NumPy: outputs and Jacobian, nothing shared.

Maps are matrices written out, derivatives go forward. Rows of the Jacobian are (example, site, output).
"""

import math
from typing import Any, NamedTuple

import numpy as np

from tests.networks.reference import VALUES
from tests.networks.written import Map, written


class Stated(NamedTuple):
    """Outputs of all sites, `n x rows`, and the Jacobian in the trained weights, `(n rows) x weights`."""

    outputs: np.ndarray
    jacobian: np.ndarray


def turned(config: dict[str, Any]) -> set[str]:
    """The weights that have one column per unit: all but biases and the read-out, where the network says so."""
    terms = [term for node in config["nodes"] for term in node["terms"]]
    return {term["weight"] for term in terms if term["map"]["kind"] != "ones"} if config["columns"] else set()


def matrices(config: dict[str, Any], weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every weight with one row per unit; biases are columns."""
    found, columns = {}, turned(config)
    for name in {term["weight"] for node in config["nodes"] for term in node["terms"]} - {None}:
        weight = weights[name].reshape(-1, weights[name].shape[-1]).T if name in columns else weights[name]
        found[name] = weight.reshape(len(weight), -1)
    found[config["read_out"]] = weights[config["read_out"]].reshape(config["outputs"], -1)
    if config["bias"] is not None:
        found[config["bias"]] = weights[config["bias"]].reshape(-1, 1)
    return found


def evaluate(config: dict[str, Any], weights: dict[str, np.ndarray], x: np.ndarray) -> Stated:
    """Run the network, and every derivative with it."""
    with np.errstate(all="ignore"):
        return _evaluate(config, matrices(config, weights), x)


def _evaluate(config: dict[str, Any], matrix: dict[str, np.ndarray], x: np.ndarray) -> Stated:
    n, trained = len(x), list(config["trained"])
    starts = np.cumsum([0, *(matrix[name].size for name in trained)])
    place = {name: slice(starts[k], starts[k + 1]) for k, name in enumerate(trained)}
    total, grid = int(starts[-1]), tuple(config["shape"][1:])
    times = x.transpose(1, 0, 2)[:, :, :, None] if config["times"] else x.reshape(1, n, config["shape"][0], -1)
    given = [part.swapaxes(1, 2) for part in times]  # n x positions x features
    values: dict[int, Any] = {-1 - t: (part, np.zeros((*part.shape, total)), grid) for t, part in enumerate(given)}
    for k, node in enumerate(config["nodes"]):
        parts, places = [], None
        for term in sorted(node["terms"], key=lambda t: t["map"]["kind"] == "ones"):
            value, change, grid = values[term["source"]]
            phi, moved, places = _read(term["map"], value, change, grid, places)
            parts.append(_meet(term["weight"], matrix, place, phi, moved))
        z, dz = sum(p[0] for p in parts), sum(p[1] for p in parts)
        sigma, slope = VALUES[node["activation"]]
        value, change = node["scale"] * sigma(z), node["scale"] * slope(z)[..., None] * dz
        if node["skip"] is not None:
            value, change = value + values[node["skip"]][0], change + values[node["skip"]][1]
        values[k] = value, change, places
    outputs, rows = [], []
    for site in config["sites"]:
        value, change, _ = values[site]
        flat, moved = value.swapaxes(1, 2).reshape(n, 1, -1), change.swapaxes(1, 2).reshape(n, 1, -1, total)
        out, row = _meet(config["read_out"], matrix, place, flat, moved)
        if config["bias"] is not None:
            level = np.ones((n, 1, 1)), np.zeros((n, 1, 1, total))
            more = _meet(config["bias"], matrix, place, *level)
            out, row = out + more[0], row + more[1]
        outputs.append(out[:, 0])
        rows.append(row[:, 0])
    return Stated(np.concatenate(outputs, axis=1), np.concatenate(rows, axis=1).reshape(-1, total))


def _read(stated: dict[str, Any], x: np.ndarray, dx: np.ndarray, grid: Any, places: Any) -> tuple[Any, Any, Any]:
    """Return what a weight multiplies, its derivative, and the grid that comes out."""
    kind, n = stated["kind"], len(x)
    if kind == "ones":
        count = math.prod(places)
        return np.ones((n, count, 1)), np.zeros((n, count, 1, dx.shape[-1])), places
    if kind == "identity":
        return x, dx, grid
    if kind == "select":
        index = tuple(start + k * step for start, step, count in stated["index"] for k in range(count))
        out, scale = tuple(stated["out"]), tuple(stated["scale"] or [1.0])
        found, _, count = written(
            Map(kind, grid, out, features=stated["features"], index=index, scale=scale), x.shape[2]
        )
        phi = (x.reshape(n, -1) @ found.T).reshape(n, count, -1)
        return phi, np.einsum("rc,ncp->nrp", found, dx.reshape(n, -1, dx.shape[-1])).reshape(*phi.shape, -1), out
    size, stride = (tuple(stated.get(key, ())) for key in ("size", "stride"))
    padding = tuple(map(tuple, stated.get("padding", ())))
    apart = tuple(stated.get("dilation", (1,) * len(size)))
    found, divisor, count = written(Map(kind, grid, size, stride, padding, apart), x.shape[2])
    phi = (x.reshape(n, -1) @ found.T / divisor).reshape(n, count, -1)
    moved = np.einsum("rc,ncp->nrp", found / divisor, dx.reshape(n, -1, dx.shape[-1]))
    sides = zip(grid, size, stride, padding, apart, strict=True) if size else ()
    out = tuple((p + sum(pad) - d * (q - 1) - 1) // s + 1 for p, q, s, pad, d in sides)
    return phi, moved.reshape(*phi.shape, -1), out


def _meet(name: Any, matrix: dict[str, Any], place: dict[str, slice], phi: np.ndarray, moved: np.ndarray) -> Any:
    """Return the weight times what it reads, and the derivative of that."""
    if name is None:
        return phi, moved
    weight = matrix[name]
    value, change = phi @ weight.T, np.einsum("uf,npfw->npuw", weight, moved)
    if name in place:
        own = np.eye(len(weight))[:, :, None] * phi[:, :, None, None, :]
        change[..., place[name]] += own.reshape(*value.shape, -1)
    return value, change


def moved(config: dict[str, Any], weights: dict[str, np.ndarray], step: np.ndarray) -> dict[str, np.ndarray]:
    """The weights after a step in the trained ones, in the order of the Jacobian's columns."""
    out, at, found, columns = dict(weights), 0, matrices(config, weights), turned(config)
    for name in config["trained"]:
        rows = found[name]
        part = step[at : at + rows.size].reshape(rows.shape)
        at += rows.size
        out[name] = weights[name] + (part.T if name in columns else part).reshape(weights[name].shape)
    return out


def curvature(config: dict[str, Any], weights: dict[str, np.ndarray], x: np.ndarray, h: float, seed: int = 0) -> float:
    """A lower bound of the Lipschitz constant of the Jacobian within h, up to rounding: differences over 2h."""
    rng, best = np.random.default_rng(seed), 0.0
    u = rng.standard_normal(evaluate(config, weights, x).jacobian.shape[1])
    for _ in range(6):
        u = u / np.linalg.norm(u)
        ends = [evaluate(config, moved(config, weights, s * h * u), x).jacobian for s in (1, -1)]
        _, sizes, right = np.linalg.svd((ends[0] - ends[1]) / (2 * h), full_matrices=False)
        best, u = max(best, float(sizes[0])), right[0]
        if sizes[0] == 0:
            break
    return best
