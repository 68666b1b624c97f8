"""Reading a certificate: `certificate.json` (claims) and `arrays.safetensors` (float64 `x`, `y`, `weights/NAME`).

A start has `start/NAME` as well, for every trained array, the centre of weight decay `centre/NAME`, weights that
gradient descent is compared with `goal/NAME`, and a direction in which margins grow `direction/NAME`.

Digests, format, fields, types and shapes are checked; whatever is not exactly as the format says is malformed.
"""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load

from wideproof_verify.certificate import Certificate, Start
from wideproof_verify.graphs import Network
from wideproof_verify.losses import Loss
from wideproof_verify.refusals import MalformedError, is_number, is_size, require
from wideproof_verify.theorems import THEOREMS

KEYS = {
    "summary", "format", "theorem", "level", "network", "bound", "loss", "claims", "anchor", "assumptions", "versions",
    "digests",
}  # fmt: skip
TYPES = {
    "steps": int, "distinct": int, "batch": int, "normal": list, "partition": list, "radii": list, "lipschitz": list,
    "groups": list, "nested": dict, "loss_name": str, "right": int,
}  # fmt: skip
BOUNDLESS = ("fit", "impossible", "finite", "read_out")  # theorems that need no `bound`
AIMS = {"goal": "read_out", "direction": "margins"}  # arrays of one theorem, each like the trained weights
MOST_STEPS, MOST_BITS = 10**6, 4096  # of a start
Arrays = dict[str, np.ndarray]


def read(folder: str | Path) -> Certificate:
    """Read the certificate in `folder`, or raise `MalformedError`."""
    try:
        stated, data = _files(Path(folder))
        _check_claims(stated, stated["claims"])
        return _certificate(stated, load(data))
    except MalformedError:
        raise
    except Exception as error:  # whatever a damaged file does to the libraries that read it
        raise MalformedError(f"the files cannot be read as a certificate: {type(error).__name__}: {error}") from error


def _files(folder: Path) -> tuple[dict[str, Any], bytes]:
    """Return what certificate.json states and the bytes of the arrays, if sizes and digests are right."""
    path, other = folder / "certificate.json", folder / "arrays.safetensors"
    for file, most in ((path, 2**26), (other, 2**34)):
        require(file.is_file(), f"there is no file {file}")  # a device or a pipe may never end
        require(file.stat().st_size < most, f"{file.name} is larger than {most >> 20} MiB")
    data, stated = other.read_bytes(), json.loads(path.read_bytes().decode(), object_pairs_hook=_unique)
    theorem = stated["theorem"]
    require(theorem in THEOREMS, f"there is no theorem {theorem!r}")
    missing = KEYS ^ (set(stated) - ({"start"} if THEOREMS[theorem].start else set()))
    require(
        not missing or (missing == {"bound"} and theorem in BOUNDLESS),
        "certificate.json lacks a key or has one that is not known",
    )
    digests = stated.pop("digests")
    found = {"arrays": hashlib.sha256(data).hexdigest(), "certificate": digest_of(stated)}
    for name, digest in found.items():
        require(digests[name] == digest and len(digests) == 2, f"the digest of the {name} does not match")
    return stated, data


def digest_of(stated: Any) -> str:
    """Return the SHA-256 of the canonical JSON text: sorted keys, no blanks, UTF-8."""
    text = json.dumps(stated, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    require(len(dict(pairs)) == len(pairs), "certificate.json gives a key twice")
    return dict(pairs)


def _check_claims(stated: dict[str, Any], claims: dict[str, Any]) -> None:
    """Require the format, and the claims of the theorem with their types."""
    again = ": an older version wrote it, make it again with `wideproof prove`"
    old = stated["format"] == "wideproof-certificate-1"
    right = stated["format"] == "wideproof-certificate-2"
    require(right, f"the format {stated['format']!r} is not known{again if old else ''}")
    require(stated["level"] in ("float64", "enclosed"), f"there is no level {stated['level']!r}")
    bound, theorem = stated.setdefault("bound", {"sharp": False}), THEOREMS[stated["theorem"]]
    require(set(bound) == {"sharp"} and isinstance(bound["sharp"], bool), "bound is not {'sharp': true or false}")
    known = [{"name": name, "reduction": "half_sum" if name == "squared" else "mean"} for name in theorem.losses]
    known += [{"name": "squared", "reduction": "mean"}] if {"squared", "logistic"} <= set(theorem.losses) else []
    require(stated["loss"] in known, f"the loss is not one of the theorem {stated['theorem']!r}")
    right = theorem.needed <= set(claims) <= theorem.needed | theorem.allowed
    require(right, f"the claims are not {', '.join(sorted(theorem.needed))}")
    require(len({"D", "newton_h", "newton_radius"} & set(claims)) in (0, 3), "the claims D and newton_* go together")
    for name, value in claims.items():
        right = type(value) is TYPES[name] if name in TYPES else is_number(value)
        if right and name in ("radii", "lipschitz"):
            right = 0 < len(value) == len(claims["radii"]) and all(map(is_number, value))
        right = right and (name != "steps" or 0 <= value < 2**63)
        require(right, f"the claim {name!r} has the value {value!r}")


def _certificate(stated: dict[str, Any], arrays: Arrays) -> Certificate:
    """Return the certificate, every array of the shape that the network gives it."""
    digests = {name: _digest(array) for name, array in sorted(arrays.items())} | {"graph": digest_of(stated["network"])}
    batches = arrays.pop("batches", None)
    _check_numbers(arrays)
    x, y = arrays.pop("x"), arrays.pop("y")
    weights, begun, middle = (_taken(arrays, kind) for kind in ("weights/", "start/", "centre/"))
    aims = {kind: _taken(arrays, f"{kind}/") for kind in AIMS}
    require(not arrays, f"there is an array of another name: {', '.join(sorted(arrays))[:80]!r}")
    network = Network.read(stated["network"], {name: array.shape for name, array in weights.items()})
    _check_shapes(network, x.shape, y.shape)
    theorem, given = stated["theorem"], stated.get("start")
    alone = theorem == "basin" and given is None  # the one start that a basin is about
    without = batches is None and (alone or not begun)
    _check_start(given is not None, without, theorem, middle)
    _check_beside(begun, "start", weights, network)
    _check_beside(middle, "centre", weights, network)
    for kind, aim in aims.items():
        require(bool(aim) == (theorem == AIMS[kind]), f"the arrays of a {kind} go with the theorem {AIMS[kind]!r}")
        _check_beside(aim, kind, weights, network)
    matrices, first, centre, goal = (
        {name: network.matrix(name, array) for name, array in each.items()}
        for each in (weights, begun, middle, {**aims["goal"], **aims["direction"]})
    )
    start = None if given is None else _start(given, first, batches, len(x))
    scored = (y[:, 1:] if network.times else y).reshape(len(y), -1).T
    loss, data = Loss(**stated["loss"]), _digest(x, y)
    _check_anchor(stated["anchor"], data)
    return Certificate(
        theorem, stated["claims"], network, stated["bound"]["sharp"], x, np.ascontiguousarray(scored), matrices,
        _subject("any function of them" if theorem == "impossible" else str(network), network, loss, x, data),
        {"data": data, **digests}, loss, start, (first or None) if alone else None, centre or None, goal or None,
    )  # fmt: skip


def _check_anchor(anchor: Any, data: str) -> None:
    right = isinstance(anchor, dict) and anchor.get("digest", data) == data
    require(right, "the digest of the data, which the anchor gives, is not that of x and y")


def _check_start(given: bool, without: bool, theorem: str, middle: Arrays) -> None:
    require(given or without, "there are arrays of a start, but no start")
    require(given or theorem != "finite", "the theorem 'finite' needs a start")
    require(not middle or theorem == "ridge", "a centre is of weight decay")


def _check_numbers(arrays: Arrays) -> None:
    for name, array in arrays.items():
        require(array.dtype == np.float64, f"the array {name!r} is {array.dtype}, not float64")
        require(np.isfinite(array).all(), f"the array {name!r} has an entry that is not a finite number")


def _check_beside(arrays: Arrays, what: str, weights: Arrays, network: Network) -> None:
    """Require every trained array, each of the shape of its weight, or none."""
    require(not arrays or set(arrays) == set(network.trained), f"the arrays of the {what} are not those trained")
    for name, array in arrays.items():
        wanted = weights[name].shape
        require(array.shape == wanted, f"the {what}'s {name!r} has the shape {array.shape}, not {wanted}")


def _taken(arrays: Arrays, kind: str) -> Arrays:
    """Take the arrays out whose names begin with `kind`."""
    return {name.removeprefix(kind): arrays.pop(name) for name in list(arrays) if name.startswith(kind)}


def _start(given: dict[str, Any], weights: Arrays, batches: Any, rows: int) -> Start:
    """Return what the certificate says about the start."""
    require(set(given) - {"tables"} == {"step_size", "steps", "bits", "distance"}, "the start has other fields")
    steps, bits, size, far = given["steps"], given["bits"], given["step_size"], given["distance"]
    require(is_size(steps) and steps <= MOST_STEPS, f"the start is {steps!r} steps away, not 1 to {MOST_STEPS}")
    right = isinstance(bits, list) and len(bits) == steps
    right = right and all(is_number(b) and -1000 <= b <= MOST_BITS for b in bits)
    require(right, f"the start has no number of bits, at most {MOST_BITS}, for each step")
    require(all(is_number(v) and v > 0 for v in (size, far)), "step size and distance of the start are not positive")
    tables = given.get("tables", [])
    right = isinstance(tables, list) and ("tables" not in given or tables) and all(is_size(k, 0) for k in tables)
    right = right and all(j < k for j, k in zip([-1, *tables], [*tables, steps], strict=True))
    require(right, "tables are not steps in ascending order, one or more")
    require(weights, "the start has no arrays")
    if batches is not None:
        right = batches.dtype == np.int64 and batches.ndim == 2 and len(batches) == steps
        require(right, "batches are not whole numbers, a row for each step")
        require(batches.shape[1] > 0, "a batch is empty")
        require(batches.min() >= 0 and batches.max() < rows, f"a batch has a row that is not one of 0 to {rows - 1}")
        ordered = np.sort(batches, axis=1)
        require((ordered[:, 1:] > ordered[:, :-1]).all(), "a batch has a row twice")
    return Start(weights, size, steps, batches, bits, far, frozenset(tables))


def _digest(*arrays: np.ndarray) -> str:
    """Return the SHA-256 over type, shape and bytes of arrays."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(f"{array.dtype.str}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def _check_shapes(net: Network, x: tuple[int, ...], y: tuple[int, ...]) -> None:
    """Require inputs and targets of the network's shapes; images may come as vectors."""
    n, example = (x[0], x[1:]) if len(x) > 1 else (0, ())
    require(n > 0, f"x has the shape {x}")
    flat = (net.shape, (net.shape[0], math.prod(net.shape[1:])), (math.prod(net.shape),))
    fits = example == (net.times, *net.shape) if net.times else example in flat
    require(fits, f"x has the shape {x}, not (n, {', '.join(map(str, net.shape))})")
    wanted = (net.times, net.outputs) if net.times else (net.outputs,) if net.outputs > 1 else ()
    require(y == (n, *wanted), f"y has the shape {y}")


def _subject(whom: str, net: Network, loss: Loss, x: np.ndarray, digest: str) -> str:
    """Say what a verdict is about."""
    rows, shape = f"{len(x)} row{'s' * (len(x) != 1)}", " x ".join(map(str, x.shape[1:]))
    about = f"{rows} of {shape} prepared inputs (SHA-256 of the data {digest})"
    later = " from the second time on (the targets at the first time are not used)" if net.times else ""
    many = loss.pair is not None and net.outputs * len(net.sites) > 1
    said = f"the mean over the rows of the sum of the {loss.name} losses of all outputs" if many else str(loss)
    return f"This is about {about}, {whom}, and {said}{later}."
