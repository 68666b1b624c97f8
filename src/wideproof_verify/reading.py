"""Reading a certificate: `certificate.json` (claims) and `arrays.safetensors` (float64 `x`, `y`, `weights/NAME`).

A start has `start/NAME` as well, for every trained array, and the centre of weight decay `centre/NAME`.

Digests, format, fields, types and shapes are checked; whatever is not exactly as the format says is malformed.
"""

import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load

from wideproof_verify.graphs import MalformedError, Network, build, describe, is_number, is_size, require

KEYS = "summary format theorem level network bound loss claims anchor assumptions versions digests"
NEAR = "s S rho radii lipschitz near b eta d"
CLAIMS = {  # needed, and allowed as well
    "descent": (
        "s radii lipschitz rho S sigma b eta rate h epsilon steps",
        "D newton_h newton_radius nested kappa distinct least_loss least_loss_at_most constant_sum jump",
    ),
    "existence": ("s radii lipschitz D newton_h newton_radius", "distinct least_loss least_loss_at_most"),
    "fit": ("margin", "loss_name loss"),
    "logistic": ("s radii lipschitz loss epsilon c S R1 eta steps I1 I2", "margin"),
    "impossible": ("groups least_loss", ""),
    "finite": ("loss", "margin"),
    "basin": (f"{NEAR} a sigma rate epsilon steps", "t normal distinct least_loss least_loss_at_most"),
    "epochs": (f"{NEAR} batch beta bend order a sigma rate epsilon steps", "partition"),
    "sampling": (f"{NEAR} batch beta bend within mu u failure rate epsilon steps late", ""),
    "orders": (f"{NEAR} batch beta bend within steps", ""),
    "ridge": (
        "S rho radii lipschitz decay gamma mu ell eta rate epsilon steps",
        "reach distinct least_loss least_loss_at_most",
    ),
    "momentum": (
        "s S rho radii lipschitz momentum sigma ell eta rate epsilon steps",
        "distinct least_loss least_loss_at_most",
    ),
}
TYPES = {
    "steps": int,
    "distinct": int,
    "batch": int,
    "normal": list,
    "partition": list,
    "radii": list,
    "lipschitz": list,
    "groups": list,
    "nested": dict,
    "loss_name": str,
}
FOLLOWED = ("descent", "logistic", "finite", "basin", "epochs", "sampling")  # theorems that may have a start
MOST_WORK, STEP = 10**15, 10**6  # of following a start, about a day; a step of the smallest network
MARGIN_LOSSES = ("logistic", "exp_linear", "squared_hinge", "half_squared_hinge", "huber_hinge")
LOSSES = {name: {"name": name, "reduction": "mean"} for name in MARGIN_LOSSES}
LOSSES["squared"] = {"name": "squared", "reduction": "half_sum"}


@dataclass(frozen=True)
class Start:
    """Where training began, as matrices of the trained weights, and how it went.

    `batches` are the rows of every step, (steps, batch size), or `None` for all of them. A local error of 2^-`bits`
    is small enough at each step, for the end to be within `distance` of the anchor: hints and a claim.
    """

    weights: dict[str, np.ndarray]
    step_size: float
    steps: int
    batches: np.ndarray | None
    bits: list[float]
    distance: float


@dataclass(frozen=True)
class Certificate:
    """What the files say; `weights` are matrices with one row per unit, `targets` is (scored outputs, examples).

    `subject` says in words what a verdict is about, from what was read: rows, network, loss, digest of the data.
    """

    theorem: str
    claims: dict[str, Any]
    network: Network
    sharp: bool
    x: np.ndarray
    targets: np.ndarray
    weights: dict[str, np.ndarray]
    subject: str
    loss: dict[str, str]
    start: Start | None = None
    begun: dict[str, np.ndarray] | None = None
    centre: dict[str, np.ndarray] | None = None

    @property
    def smooth(self) -> bool:
        """Whether float64 with radii can do: no signs to be decided, no products of layers to be followed."""
        kinked = any(node.activation == "relu" for node in self.network.nodes)
        return not kinked and not self.sharp and self.theorem not in ("fit", "impossible", "finite")

    @property
    def small(self) -> bool:
        """Whether balls can do in minutes."""
        return self.targets.size <= 1200 and len(self.x) * sum(w.size for w in self.weights.values()) <= 10**9


def read(folder: str | Path) -> Certificate:
    """Read the certificate in `folder`, or raise `MalformedError`."""
    try:
        path = Path(folder) / "certificate.json"
        for file, most in ((path, 2**26), (path.with_name("arrays.safetensors"), 2**34)):
            require(file.is_file(), f"there is no file {file}")  # a device or a pipe may never end
            require(file.stat().st_size < most, f"{file.name} is larger than {most >> 20} MiB")
        data = path.with_name("arrays.safetensors").read_bytes()
        stated = json.loads(path.read_bytes().decode(), object_pairs_hook=_unique)
        theorem = stated["theorem"]
        require(theorem in CLAIMS, f"there is no theorem {theorem!r}")
        missing = set(KEYS.split()) ^ (set(stated) - ({"start"} if theorem in FOLLOWED else set()))
        right = not missing or (missing == {"bound"} and theorem in ("fit", "impossible", "finite"))
        require(right, "certificate.json lacks a key or has one that is not known")
        digests = stated.pop("digests")
        text = json.dumps(stated, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        found = {"arrays": hashlib.sha256(data).hexdigest(), "certificate": hashlib.sha256(text.encode()).hexdigest()}
        for name, digest in found.items():
            require(digests[name] == digest and len(digests) == 2, f"the digest of the {name} does not match")
        _check_claims(stated, theorem, stated["claims"])
        arrays = load(data)
        batches = arrays.pop("batches", None)
        for name, array in arrays.items():
            require(array.dtype == np.float64, f"the array {name!r} is {array.dtype}, not float64")
            require(np.isfinite(array).all(), f"the array {name!r} has an entry that is not a finite number")
        x, y = arrays.pop("x"), arrays.pop("y")
        begun, middle = (
            {name.removeprefix(kind): arrays.pop(name) for name in list(arrays) if name.startswith(kind)}
            for kind in ("start/", "centre/")
        )
        require(all(name.startswith("weights/") for name in arrays), "there is an array of another name")
        weights = {name.removeprefix("weights/"): array for name, array in arrays.items()}
        network, matrices = build(stated["network"], weights)
        _check_shapes(network, x.shape, y.shape)
        alone = theorem == "basin" and "start" not in stated  # the one start that a basin is about
        one = build(stated["network"], weights | begun)[1] if begun and alone else None
        require(one is None or set(begun) == set(network.trained), "the start of a basin is every trained array")
        centre = build(stated["network"], weights | middle)[1] if middle and theorem == "ridge" else None
        right = not middle or (centre is not None and set(middle) == set(network.trained))
        require(right, "a centre is every trained array, and of weight decay")
        scored = (y[:, 1:] if network.times else y).reshape(len(y), -1).T
        digest = _digest(x, y)
        given = stated["anchor"].get("digest", digest) if isinstance(stated["anchor"], dict) else None
        require(given == digest, "the digest of the data, which the anchor gives, is not that of x and y")
        whom = "any function of them" if theorem == "impossible" else describe(network, matrices)
        subject = _subject(stated, whom, x, digest)
        start = _start(stated, weights, {} if alone else begun, network, batches, len(x))
        return Certificate(
            theorem, stated["claims"], network, stated["bound"]["sharp"], x, scored, matrices, subject, stated["loss"],
            start, one, centre,
        )  # fmt: skip
    except MalformedError:
        raise
    except Exception as error:  # whatever a damaged file does to the libraries that read it
        raise MalformedError(f"the files cannot be read as a certificate: {type(error).__name__}: {error}") from error


def _start(
    stated: dict[str, Any], weights: Any, begun: dict[str, np.ndarray], net: Network, batches: Any, rows: int
) -> Start | None:
    """Return what the certificate says about the start, if it has one."""
    given = stated.get("start")
    if given is None:
        require(stated["theorem"] != "finite", "the theorem 'finite' needs a start")
        require(not begun and batches is None, "there are arrays of a start, but no start")
        return None
    require(set(given) == {"step_size", "steps", "bits", "distance"}, "the start has other fields")
    steps, bits, size, far = given["steps"], given["bits"], given["step_size"], given["distance"]
    require(is_size(steps) and steps <= 10**6, f"the start is {steps!r} steps away, not 1 to 1000000")
    right = isinstance(bits, list) and len(bits) == steps and all(is_number(b) and -1000 <= b <= 4096 for b in bits)
    require(right, "the start has no number of bits, at most 4096, for each step")
    require(all(is_number(v) and v > 0 for v in (size, far)), "step size and distance of the start are not positive")
    require(
        set(begun) == set(net.trained), f"the start has the arrays {sorted(begun)}, trained are {sorted(net.trained)}"
    )
    for name, array in begun.items():
        wanted = weights[name].shape
        require(array.shape == wanted, f"the start's {name!r} has the shape {array.shape}, the anchor's has {wanted}")
    if batches is not None:
        right = batches.dtype == np.int64 and batches.ndim == 2 and len(batches) == steps
        require(right, "batches are not whole numbers, a row for each step")
        require(batches.shape[1] > 0, "a batch is empty")
        require(batches.min() >= 0 and batches.max() < rows, f"a batch has a row that is not one of 0 to {rows - 1}")
        distinct = all(len(set(batch)) == len(batch) for batch in batches.tolist())
        require(distinct, "a batch has a row twice")
    each = sum(array.size for array in weights.values()) * net.outputs * len(net.sites)
    each *= rows if batches is None else batches.shape[1]
    work = (STEP + each) * sum(max(b, 53) for b in bits)
    text = f"the start is {work:.0e} of work away, bits times (10^6 + rows times weights) summed over {steps} steps"
    require(work <= MOST_WORK, f"{text}, and at most {MOST_WORK:.0e} is followed")
    _, matrices = build(stated["network"], {**weights, **begun})
    return Start({name: matrices[name] for name in net.trained}, size, steps, batches, bits, far)


def _digest(*arrays: np.ndarray) -> str:
    """Return the SHA-256 over type, shape and bytes of x and y."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(f"{array.dtype.str}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def _check_shapes(net: Network, x: tuple[int, ...], y: tuple[int, ...]) -> None:
    """Require inputs and targets of the network's shapes; images may come as vectors."""
    n, example = (x[0], x[1:]) if len(x) > 1 else (0, ())
    require(n > 0, f"x has the shape {x}")
    fits = example == (net.times, *net.shape) if net.times else math.prod(example) == math.prod(net.shape)
    require(fits, f"x has the shape {x}, not (n, {', '.join(map(str, net.shape))})")
    wanted = (net.times, net.outputs) if net.times else (net.outputs,) if net.outputs > 1 else ()
    require(y == (n, *wanted), f"y has the shape {y}")


def _subject(stated: dict[str, Any], network: str, x: np.ndarray, digest: str) -> str:
    name, mean = stated["loss"]["name"], stated["loss"]["reduction"] == "mean"
    squares = "half the mean square" if mean else "half the sum of squares"
    loss = squares if name == "squared" else f"the mean {name} loss"
    return (
        f"This is about {len(x)} rows of {' x '.join(map(str, x.shape[1:]))} prepared inputs (SHA-256 of the data "
        f"{digest[:16]}…), {network}, and {loss}."
    )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    require(len(dict(pairs)) == len(pairs), "certificate.json gives a key twice")
    return dict(pairs)


def _check_claims(stated: dict[str, Any], theorem: str, claims: dict[str, Any]) -> None:
    again = ": an older version wrote it, make it again with `wideproof prove`"
    old = stated["format"] == "wideproof-certificate-1"
    right = stated["format"] == "wideproof-certificate-2"
    require(right, f"the format {stated['format']!r} is not known{again if old else ''}")
    require(stated["level"] in ("float64", "enclosed"), f"there is no level {stated['level']!r}")
    sharp = stated.setdefault("bound", {"sharp": False})
    require(set(sharp) == {"sharp"} and isinstance(sharp["sharp"], bool), "bound is not {'sharp': true or false}")
    losses = {"logistic": ["logistic"], "fit": ["logistic"], "finite": LOSSES}.get(theorem, ["squared"])
    known = [LOSSES[name] for name in losses] + ([{"name": "squared", "reduction": "mean"}] if losses is LOSSES else [])
    require(stated["loss"] in known, f"the loss is not one of the theorem {theorem!r}")
    needed, allowed = (set(names.split()) for names in CLAIMS[theorem])
    require(needed <= set(claims) <= needed | allowed, f"the claims are not {CLAIMS[theorem][0]}")
    require(len({"D", "newton_h", "newton_radius"} & set(claims)) in (0, 3), "the claims D and newton_* go together")
    for name, value in claims.items():
        right = type(value) is TYPES[name] if name in TYPES else is_number(value)
        if right and name in ("radii", "lipschitz"):
            right = 0 < len(value) == len(claims["radii"]) and all(map(is_number, value))
        right = right and (name != "steps" or 0 <= value < 2**63)
        require(right, f"the claim {name!r} has the value {value!r}")
