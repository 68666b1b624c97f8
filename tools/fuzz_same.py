"""Mutations that write the same function in another way, and ones that ask the verifier for a lot.

The first keep every claim true, or scale all of them exactly, so that other graphs, shapes and sizes are proved and
judged. The second are large: many steps, rows, radii, nodes, windows, bits.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from fuzz_mutants import Mutant

KINDS = ("weights/", "start/", "centre/")
NAMES = ("W", "V", "weight", "w'", "a.b", "layer/0", "-", "0.5", "softplus", "*", "windows", "of", "θ0", "x y", "k,l")


def variants(m: Mutant, name: str) -> list[str]:
    """Return the arrays of a weight: its own, and those of the start and the centre."""
    return [kind + name for kind in KINDS if kind + name in m.arrays]


def biases(m: Mutant) -> set[str]:
    """Return the weights behind a constant."""
    return {t["weight"] for node in m.net["nodes"] for t in node["terms"] if t["map"]["kind"] == "ones"}


def hidden(m: Mutant) -> list[str]:
    """Return the weights of nodes that are turned where `columns` is true."""
    found = {t["weight"] for node in m.net["nodes"] for t in node["terms"]} - {None} - biases(m)
    return sorted(found)


def relay(rng: random.Random, m: Mutant, count: int = 0) -> None:
    """Read the outputs behind nodes that pass a value on: the identity, or nothing added to a skip."""
    net = m.net
    for _ in range(count or rng.choice([1, 1, 2, 3, 14])):
        passed = rng.random() < 0.6
        sites = []
        for site in net["sites"]:
            term = {"weight": None, "source": site, "map": {"kind": "identity"}}
            one = {"terms": [term], "activation": "identity", "scale": 1.0, "skip": None}
            if not passed:
                one |= {"activation": rng.choice(["tanh", "identity"]), "scale": 0.0, "skip": site}
            net["nodes"].append(one)
            sites.append(len(net["nodes"]) - 1)
        net["sites"] = sites


def turned(rng: random.Random, m: Mutant) -> None:
    """Write every matrix of a node with its other axis first."""
    before = m.net["columns"]
    for name in hidden(m):
        for key in variants(m, name):
            a = m.arrays[key]
            flat = a.reshape(-1, a.shape[-1]) if before else a.reshape(len(a), -1)
            m.arrays[key] = np.ascontiguousarray(flat.T)
    m.net["columns"] = not before


def reshaped(rng: random.Random, m: Mutant) -> None:
    """Write weights, or the inputs, with other axes and the same entries in the same order."""
    net, how = m.net, rng.randrange(3)
    if how == 0 and not net["times"]:
        n, shape = len(m.arrays["x"]), net["shape"]
        m.arrays["x"] = m.arrays["x"].reshape(n, *rng.choice([shape, [math.prod(shape)], [shape[0], -1]]))
        return
    name = rng.choice([net["read_out"], *hidden(m), *biases(m)])
    for key in variants(m, name):
        a = m.arrays[key]
        if name == net["read_out"] or how == 1:
            m.arrays[key] = a.reshape(*a.shape, 1) if not net["columns"] or name == net["read_out"] else a[None]
        elif net["columns"] and name in hidden(m):
            m.arrays[key] = a.reshape(-1, a.shape[-1])
        else:
            m.arrays[key] = a.reshape(len(a), -1)


def renamed(rng: random.Random, m: Mutant) -> None:
    """Call a weight something else."""
    net, new = m.net, rng.choice(NAMES) + rng.choice(["", "", "2", "_x"])
    used = {t["weight"] for node in net["nodes"] for t in node["terms"]} | {net["read_out"], net["bias"]}
    old = rng.choice(sorted(used - {None}))
    if new in used:
        raise ValueError("there is a weight of this name")
    for node in net["nodes"]:
        for t in node["terms"]:
            t["weight"] = new if t["weight"] == old else t["weight"]
    for key in ("read_out", "bias"):
        net[key] = new if net[key] == old else net[key]
    net["trained"] = [new if name == old else name for name in net["trained"]]
    for kind in KINDS:
        if kind + old in m.arrays:
            m.arrays[kind + new] = m.arrays.pop(kind + old)


def biased(rng: random.Random, m: Mutant) -> None:
    """Add a bias of zeros, or of tiny numbers, to a node or to the read-out; mostly it is not trained."""
    net, name, train = m.net, "bias_of_zeros", rng.random() < 0.2
    k = rng.randrange(len(net["nodes"]) + (net["bias"] is None))
    if k == len(net["nodes"]):
        net["bias"], units = name, net["outputs"]
    else:
        node = net["nodes"][k]
        named = [t["weight"] for t in node["terms"] if t["weight"] is not None]
        shape = m.arrays["weights/" + named[0]].shape
        units = shape[-1] if net["columns"] and named[0] not in biases(m) else shape[0]
        node["terms"].append({"weight": name, "source": rng.choice([-1, k - 1]), "map": {"kind": "ones"}})
    size = rng.choice([0.0, 0.0, 0.0, 1e-12])
    own = size * np.random.default_rng(rng.randrange(2**31)).standard_normal(units)
    m.arrays["weights/" + name] = own
    if train:
        net["trained"].append(name)
        for kind in KINDS[1:]:
            if any(key.startswith(kind) for key in m.arrays):
                m.arrays[kind + name] = own.copy()


def gridded(rng: random.Random, m: Mutant) -> None:
    """Lay vectors out on a grid: the only window of it, or all positions, are the vector again."""
    net = m.net
    if len(net["shape"]) > 1 or net["times"]:
        raise ValueError("the inputs are not vectors")
    (size,) = net["shape"]
    if not 0 < size < 10_000:
        raise ValueError("another mutation has made the inputs too large")
    window = {"kind": "patches", "positions": [size], "size": [size], "stride": [1], "padding": [[0, 0]]}
    single = {"kind": "patches", "positions": [1], "size": [1], "stride": [1], "padding": [[0, 0]]}
    divisors = [k for k in range(1, size + 1) if size % k == 0]
    parts = rng.choice(divisors)
    shape, phi = rng.choice([([1, size], window), ([size, 1], single), ([parts, size // parts], {"kind": "flat"}),
                             ([1, parts, size // parts], {"kind": "flat"})])  # fmt: skip
    for node in net["nodes"]:
        for t in node["terms"]:
            if t["source"] < 0 and t["map"]["kind"] == "identity":
                t["map"] = dict(phi)
    net["shape"] = shape


def ordered(rng: random.Random, m: Mutant) -> None:
    """Put terms, trained weights and rows into another order, with everything that names rows."""
    for node in m.net["nodes"]:
        rng.shuffle(node["terms"])
    rng.shuffle(m.net["trained"])
    claims, n = m.claims, len(m.arrays["x"])
    if rng.random() < 0.5 and "normal" not in claims:
        order = np.random.default_rng(rng.randrange(2**31)).permutation(n)
        place = np.argsort(order)
        m.arrays["x"], m.arrays["y"] = m.arrays["x"][order], m.arrays["y"][order]
        if "batches" in m.arrays:
            m.arrays["batches"] = place[m.arrays["batches"]].astype(np.int64)
        if "partition" in claims:
            claims["partition"] = [claims["partition"][i] for i in order]
        if "groups" in claims:
            claims["groups"] = [[int(place[i]) for i in group] for group in claims["groups"]]


ROOT = ("s", "S", "sigma", "b", "rho", "jump")  # are multiplied by √m if every row is there m times
WHOLE = ("epsilon", "decay", "gamma", "mu", "ell", "least_loss", "least_loss_at_most", "constant_sum")


def again(rng: random.Random, m: Mutant, times: int = 0) -> None:
    """Have every row 4, 16, … times: all claims are scaled by powers of 2, so none of them changes its truth."""
    root = times or rng.choice([2, 2, 4])
    m_, claims, n = root * root, m.claims, len(m.arrays["x"])
    rows = np.tile(np.arange(n), m_) if rng.random() < 0.7 else np.repeat(np.arange(n), m_)
    different = len({row.tobytes() for row in m.arrays["x"].reshape(n, -1) + 0.0})
    if "batches" in m.arrays and rows[1] == 0:
        raise ValueError("rows have other numbers")
    for name in ("x", "y"):
        m.arrays[name] = m.arrays[name][rows]
    begun = m.document.get("start")
    if m.document["loss"]["reduction"] == "half_sum":
        if begun is not None:
            begun["step_size"] /= m_
        if "loss" in claims:
            claims["loss"] *= m_
    if m.document["theorem"] not in ("descent", "existence", "basin", "ridge", "momentum"):
        return
    for name in ROOT:
        if name in claims:
            claims[name] *= root
    for name in WHOLE:
        if name in claims:
            claims[name] *= m_
    claims["lipschitz"] = [v * root for v in claims["lipschitz"]]
    if "eta" in claims:
        claims["eta"] /= m_
    claims["distinct"] = different
    claims.setdefault("least_loss", 0.0)
    claims.setdefault("least_loss_at_most", 0.0)


def stairs(rng: random.Random, m: Mutant, count: int = 0) -> None:
    """Divide every cell of the staircase, with the same constants: every integral stays what it was."""
    claims, parts = m.claims, count or rng.choice([2, 3, 8])
    radii, before = [], 0.0
    for radius in claims["radii"]:
        cell = [before + (radius - before) * k / parts for k in range(1, parts)]
        radii += [*cell, radius]
        before = radius
    claims["radii"] = radii
    claims["lipschitz"] = [v for v in claims["lipschitz"] for _ in range(parts)]
    if "nested" in claims:
        claims["nested"]["A"] = [v for v in claims["nested"]["A"] for _ in range(parts)]


def widened(rng: random.Random, m: Mutant, times: int = 0) -> None:
    """Add units whose weights are all 0 to a network with one hidden layer of vectors."""
    net, factor = m.net, times or rng.choice([2, 3])
    (node,) = net["nodes"]
    if len(net["shape"]) > 1 and not all(t["map"]["kind"] in ("flat", "ones") for t in node["terms"]):
        raise ValueError("the layer has positions")
    for name in {*hidden(m), *biases(m)} - {None}:
        for key in variants(m, name):
            a = m.arrays[key]
            axis = a.ndim - 1 if net["columns"] and name in hidden(m) else 0
            more = list(a.shape)
            more[axis] *= factor - 1
            m.arrays[key] = np.concatenate([a, np.zeros(more)], axis=axis)
    for key in variants(m, net["read_out"]):
        a = m.arrays[key].reshape(net["outputs"], -1)
        wide = np.concatenate([a, np.zeros((len(a), a.shape[1] * (factor - 1)))], axis=1)
        m.arrays[key] = wide[0] if net["outputs"] == 1 else wide


# much


def much_steps(rng: random.Random, m: Mutant) -> None:
    """Steps from a start, up to a million; batches and bits are repeated."""
    begun = m.document["start"]
    count = rng.choice([2000, 20000, 200000, 10**6])
    begun["bits"] = (begun["bits"] * (count // len(begun["bits"]) + 1))[:count]
    if "batches" in m.arrays:
        a = m.arrays["batches"]
        m.arrays["batches"] = np.tile(a, (count // len(a) + 1, 1))[:count]
    begun["steps"] = count


def much_bits(rng: random.Random, m: Mutant) -> None:
    """As many bits as are allowed, at every step or at some."""
    begun, most = m.document["start"], rng.choice([4096, 4096, 2000, 700])
    begun["bits"] = [most if rng.random() < 0.9 else b for b in begun["bits"]]


def much_rows(rng: random.Random, m: Mutant) -> None:
    """Thousands of rows: each again, or with other inputs."""
    n = len(m.arrays["x"])
    root = rng.choice([8, 16, 32, 64])
    if rng.random() < 0.6:
        again(rng, m, root)
        return
    count = min(root * root, 20000 // n + 1)
    noise = np.random.default_rng(rng.randrange(2**31))
    for name in ("x", "y"):
        m.arrays[name] = np.tile(m.arrays[name], (count, *[1] * (m.arrays[name].ndim - 1)))
    m.arrays["x"] = m.arrays["x"] + rng.choice([0.0, 1e-3]) * noise.standard_normal(m.arrays["x"].shape)


def much_stairs(rng: random.Random, m: Mutant) -> None:
    """Thousands of radii."""
    stairs(rng, m, rng.choice([100, 1000, 10000]))


def much_nodes(rng: random.Random, m: Mutant) -> None:
    """Hundreds or thousands of nodes that pass a value on."""
    relay(rng, m, rng.choice([30, 300, 3000, 30000]))


def much_units(rng: random.Random, m: Mutant) -> None:
    """Hundreds of times as many units."""
    widened(rng, m, rng.choice([20, 100, 500]))


def much_windows(rng: random.Random, m: Mutant) -> None:
    """Windows far larger than their grid, as many as before; their weights get the columns that are missing."""
    net = m.net
    found = [t for node in net["nodes"] for t in node["terms"] if "size" in t["map"]]
    term = rng.choice(found)
    phi, q = term["map"], rng.choice([8, 20, 60, 200, 1000, 4000])
    before = math.prod(phi["size"])
    for d, length in enumerate(phi["positions"]):
        front, behind = phi["padding"][d]
        count = (length + front + behind - phi["size"][d]) // phi["stride"][d] + 1
        pad = q - 1
        if rng.random() < 0.7:  # as many windows as before
            phi["stride"][d] = max(1, (length + 2 * pad - q) // max(count - 1, 1))
        phi["size"][d], phi["padding"][d] = q, [pad, pad]
    if phi["kind"] == "patches":
        factor = math.prod(phi["size"]) / before
        for key in variants(m, term["weight"]):
            a = m.arrays[key]
            flat = a.reshape(-1, a.shape[-1]).T if net["columns"] else a.reshape(len(a), -1)
            wide = np.zeros((len(flat), round(flat.shape[1] * factor)))
            if wide.size > 2e7:
                raise ValueError("the weights would be too large")
            wide[:, : flat.shape[1]] = flat[:, : wide.shape[1]]
            m.arrays[key] = np.ascontiguousarray(wide.T if net["columns"] else wide)


def much_grid(rng: random.Random, m: Mutant) -> None:
    """A far larger grid of inputs, with zeros where there was nothing."""
    net, side = m.net, rng.choice([40, 200, 1000])
    shape = net["shape"]
    old = m.arrays["x"].reshape(len(m.arrays["x"]), *shape)
    new = [shape[0], *(side for _ in shape[1:])]
    if len(shape) == 1 or len(old) * math.prod(new) > 3e7:
        raise ValueError("there is no grid, or it would be too large")
    x = np.zeros((len(old), *new))
    x[(slice(None), *(slice(0, k) for k in shape))] = old
    m.arrays["x"], net["shape"] = x, new
    grids: dict[int, list[int]] = {-1: new[1:]}
    for k, node in enumerate(net["nodes"]):
        for t in node["terms"]:
            phi: dict[str, Any] = t["map"]
            if "size" in phi:
                phi["positions"] = list(grids[t["source"]])
                sides = zip(phi["positions"], phi["size"], phi["stride"], phi["padding"], strict=True)
                grids[k] = [(p + sum(pad) - q) // s + 1 for p, q, s, pad in sides]
            elif phi["kind"] == "identity":
                grids.setdefault(k, grids[t["source"]])
            elif phi["kind"] == "flat":
                grids[k] = []
    (site,) = net["sites"]
    units = next(len(m.arrays["weights/" + t["weight"]]) for t in net["nodes"][site]["terms"] if t["weight"])
    size = net["outputs"], units * math.prod(grids[site])
    if math.prod(size) > 2e7:
        raise ValueError("the read-out would be too large")
    for key in variants(m, net["read_out"]):
        m.arrays[key] = np.full(size, 1e-3)


SAME = (relay, turned, reshaped, renamed, biased, gridded, ordered, again, stairs, widened)
MUCH = (
    much_steps, much_bits, much_rows, much_stairs, much_nodes, much_units, much_windows, much_grid,
)  # fmt: skip
