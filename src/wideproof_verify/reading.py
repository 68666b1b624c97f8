"""Reading a certificate: `certificate.json` (claims) and `arrays.safetensors` (float64 `x`, `y`, `weights/NAME`).

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

from wideproof_verify.networks import ACTIVATIONS, C_SIGMA, Network, Node

KEYS = "summary format theorem level network bound loss claims anchor assumptions versions digests"
FIELDS = {
    "fully-connected": "input_dim width depth activation outputs trained scales",
    "residual": "input_dim width depth activation c_res outputs trained scales",
    "conv-residual": "channels pixels width depth filter_size activation c_res outputs trained scales",
    "deep-relu": "input_dim width depth trained scales",
    "residual-relu": "input_dim width depth residual_scale trained scales",
    "elman-rnn": "input_dim width length outputs trained",
    "deep-rnn": "input_dim width length depth outputs trained",
}
SIZES = {"input_dim", "channels", "pixels", "depth", "length", "outputs", "filter_size"}
CLAIMS = {  # needed, and allowed as well
    "descent": (
        "s radii lipschitz rho S sigma b eta rate h epsilon steps",
        "D newton_h newton_radius nested kappa distinct least_loss least_loss_at_most",
    ),
    "existence": ("s radii lipschitz D newton_h newton_radius", "distinct least_loss least_loss_at_most"),
    "fit": ("margin", "loss_name loss"),
    "logistic": ("s radii lipschitz loss epsilon c S R1 eta steps I1 I2", ""),
    "impossible": ("groups least_loss", ""),
}
TYPES = {
    "steps": int,
    "distinct": int,
    "radii": list,
    "lipschitz": list,
    "groups": list,
    "nested": dict,
    "loss_name": str,
}
LOSSES = {
    "squared": {"name": "squared", "reduction": "half_sum"},
    "logistic": {"name": "logistic", "reduction": "mean"},
}


class MalformedError(Exception):
    """The files are not a certificate."""


def require(holds: Any, otherwise: str) -> None:
    """Raise `MalformedError` with the sentence `otherwise` unless `holds`."""
    if not holds:
        raise MalformedError(otherwise)


def is_number(value: Any) -> bool:
    """Return whether `value` is a finite JSON number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


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

    @property
    def smooth(self) -> bool:
        """Whether float64 with radii can do: no signs to be decided, no products of layers to be followed."""
        return self.network.activation != "relu" and not self.sharp and self.theorem in ("descent", "existence")

    @property
    def small(self) -> bool:
        """Whether balls can do in minutes."""
        return self.targets.size <= 1200 and len(self.x) * sum(w.size for w in self.weights.values()) <= 10**9


def read(folder: str | Path) -> Certificate:
    """Read the certificate in `folder`, or raise `MalformedError`."""
    try:
        path = Path(folder) / "certificate.json"
        for file, most in ((path, 2**26), (path.with_name("arrays.safetensors"), 2**34)):
            require(file.is_file(), f"{file.name} is not a file")  # a device or a pipe may never end
            require(file.stat().st_size < most, f"{file.name} is larger than {most >> 20} MiB")
        data = path.with_name("arrays.safetensors").read_bytes()
        stated = json.loads(path.read_bytes().decode(), object_pairs_hook=_unique)
        theorem = stated["theorem"]
        require(theorem in CLAIMS, f"there is no theorem {theorem!r}")
        missing = set(KEYS.split()) ^ set(stated)  # a proof at one point needs no bound
        right = not missing or (missing == {"bound"} and theorem in ("fit", "impossible"))
        require(right, "certificate.json lacks a key or has one that is not known")
        digests = stated.pop("digests")
        text = json.dumps(stated, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        found = {"arrays": hashlib.sha256(data).hexdigest(), "certificate": hashlib.sha256(text.encode()).hexdigest()}
        for name, digest in found.items():
            require(digests[name] == digest and len(digests) == 2, f"the digest of the {name} does not match")
        _check_claims(stated, theorem, stated["claims"])
        arrays = load(data)
        for name, array in arrays.items():
            require(array.dtype == np.float64, f"the array {name!r} is {array.dtype}, not float64")
            require(np.isfinite(array).all(), f"the array {name!r} has an entry that is not a finite number")
        x, y = arrays.pop("x"), arrays.pop("y")
        require(all(name.startswith("weights/") for name in arrays), "there is an array of another name")
        weights = {name.removeprefix("weights/"): array for name, array in arrays.items()}
        network, matrices = build(stated["network"], x.shape, y.shape, weights)
        scored = (y[:, 1:] if y.ndim == 3 else y).reshape(len(y), -1).T
        digest = _digest(x, y)
        given = stated["anchor"].get("digest", digest) if isinstance(stated["anchor"], dict) else None
        require(given == digest, "the digest of the data, which the anchor gives, is not that of x and y")
        subject = _subject(stated, x, digest)
        return Certificate(theorem, stated["claims"], network, stated["bound"]["sharp"], x, scored, matrices, subject)
    except MalformedError:
        raise
    except Exception as error:  # whatever a damaged file does to the libraries that read it
        raise MalformedError(f"the files cannot be read as a certificate: {type(error).__name__}: {error}") from error


def _digest(*arrays: np.ndarray) -> str:
    """Return the SHA-256 over type, shape and bytes of x and y."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(f"{array.dtype.str}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def _subject(stated: dict[str, Any], x: np.ndarray, digest: str) -> str:
    sizes = {key: value for key, value in stated["network"].items() if key not in ("network", "trained", "scales")}
    told = ", ".join(f"{key} {value}" for key, value in sizes.items())
    loss = {"squared": "half the sum of squares", "logistic": "the mean logistic loss"}[stated["loss"]["name"]]
    return (
        f"This is about {len(x)} rows of {' x '.join(map(str, x.shape[1:]))} prepared inputs (SHA-256 of the data "
        f"{digest[:16]}…), the network {stated['network']['network']} ({told}), trained: "
        f"{', '.join(stated['network']['trained'])}, and {loss}."
    )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    require(len(dict(pairs)) == len(pairs), "certificate.json gives a key twice")
    return dict(pairs)


def _check_claims(stated: dict[str, Any], theorem: str, claims: dict[str, Any]) -> None:
    require(stated["format"] == "wideproof-certificate-1", f"the format {stated['format']!r} is not known")
    require(stated["level"] in ("float64", "enclosed"), f"there is no level {stated['level']!r}")
    sharp = stated.setdefault("bound", {"sharp": False})
    require(set(sharp) == {"sharp"} and isinstance(sharp["sharp"], bool), "bound is not {'sharp': true or false}")
    losses = {"logistic": ["logistic"], "fit": ["logistic", "squared"]}.get(theorem, ["squared"])
    require(stated["loss"] in [LOSSES[name] for name in losses], f"the loss is not one of the theorem {theorem!r}")
    needed, allowed = (set(names.split()) for names in CLAIMS[theorem])
    require(needed <= set(claims) <= needed | allowed, f"the claims are not {CLAIMS[theorem][0]}")
    require(len({"D", "newton_h", "newton_radius"} & set(claims)) in (0, 3), "the claims D and newton_* go together")
    for name, value in claims.items():
        right = type(value) is TYPES[name] if name in TYPES else is_number(value)
        if right and name in ("radii", "lipschitz"):
            right = 0 < len(value) == len(claims["radii"]) and all(map(is_number, value))
        right = right and (name != "steps" or 0 <= value < 2**63)
        require(right, f"the claim {name!r} has the value {value!r}")


def layer_scales(config: dict[str, Any], depth: int, c_sigma: float) -> list[float]:
    """Return the factor of each layer, from the other numbers of the network."""
    if config["network"] in ("deep-relu", "residual-relu"):
        inner = config.get("residual_scale", 1.0)
        return [1.0, *[1 / (depth - 1) if inner is None else inner] * (depth - 2), 1.0][:depth]
    first = math.sqrt(c_sigma / config["width"])
    inner = config["c_res"] / (depth * math.sqrt(config["width"])) if "c_res" in config else first
    return [first] + [inner] * (depth - 1)


def build(config: dict[str, Any], x: tuple, y: tuple, weights: dict) -> tuple[Network, dict[str, np.ndarray]]:
    """Return the nodes of the network and the weights as matrices, for arrays x and y of these shapes."""
    kind = config["network"]
    require(kind in FIELDS, f"there is no network {kind!r}")
    require(set(config) == {"network", *FIELDS[kind].split()}, f"the fields of {kind} are not {FIELDS[kind]}")
    right = all(type(config[name]) is int and 0 < config[name] < 2**40 for name in SIZES & set(config))
    require(right, f"a size of {kind} is not a whole number of at least 1")
    recurrent, conv, signed = "length" in config, "channels" in config, kind in ("deep-relu", "residual-relu")
    depth = config.get("depth", 1) + (kind == "residual-relu")
    require(len(weights) == (2 if recurrent else 1) * depth + 1, f"{len(weights)} weights do not fit the depth {depth}")
    widths = config["width"] if kind == "deep-relu" and isinstance(config["width"], list) else [config["width"]] * depth
    require(len(widths) == depth and all(type(m) is int and m > 0 for m in widths), f"width is {config['width']!r}")
    activation = "relu" if signed or recurrent else config["activation"]
    require(activation in ACTIVATIONS, f"there is no activation {activation!r}")
    outputs, q, length = config.get("outputs", 1), config.get("filter_size", 1), config.get("length", 1)
    require(q % 2 == 1, f"filter_size is {q}, not odd")
    fan_in, m = config["channels" if conv else "input_dim"], widths[-1]
    example = (length, fan_in) if recurrent else (fan_in, config["pixels"]) if conv else (fan_in,)
    several = (outputs,) if outputs > 1 else ()
    require(x == (x[0], *example) and x[0] > 0, f"x has the shape {x}, not (n, {', '.join(map(str, example))})")
    require(y == (x[0], *((length, outputs) if recurrent else several)), f"y has the shape {y}")
    shapes, nodes, groups = {}, [], {}
    if recurrent:
        require(length >= 2, "the sequences are shorter than 2")
        read_out, inputs, sites = "B", length, tuple(range(length * depth + 1, length * (depth + 1)))
        for j in range(1, depth + 1):
            w, a = ("W", "A") if kind == "elman-rnn" else (f"W{j}", f"A{j}")
            shapes |= {w: (m, m), a: (m, m if j > 1 else fan_in), "B": (outputs, m)}
            groups.setdefault("recurrent", []).append(w)
            groups.setdefault("between" if j > 1 else "input", []).append(a)
            terms = [((w, length * j + t - 1), (a, length * (j - 1) + t)) for t in range(length)]
            nodes += [Node(pair if t else pair[1:], 1.0, False) for t, pair in enumerate(terms)]
    else:
        read_out, inputs, sites, scales = "v" if signed else "a", 1, (depth,), config["scales"]
        right = all(is_number(s) and s >= 0 for s in scales)
        require(right and scales == layer_scales(config, depth, C_SIGMA[activation]), "scales are not the network's")
        last = depth - (kind == "residual-relu")
        for j, wide in enumerate(widths, 1):
            skip = "residual" in kind and 1 < j <= last
            shape = (wide, q * fan_in)
            shapes[f"W{j}"], fan_in = shape[::-1] if signed else shape, wide
            nodes.append(Node(((f"W{j}", j - 1),), float(scales[j - 1]), skip))
        shapes[read_out] = (*several, m, *example[1:])
        groups["hidden"] = [f"W{j}" for j in range(1, depth + 1)]
    for name, shape in shapes.items():
        require(name in weights and weights[name].shape == shape, f"the weight {name!r} has not the shape {shape}")
    groups["output"] = [read_out]
    if kind == "deep-rnn":
        groups.setdefault("between", [])  # with one layer there is nothing between
    require(set(config["trained"]) <= set(groups), f"trained is {config['trained']!r}, not out of {', '.join(groups)}")
    trained = tuple(name for group in groups if group in config["trained"] for name in groups[group])
    require(trained and isinstance(config["trained"], list), "nothing is trained")
    matrices = {name: np.ascontiguousarray(w.T if signed and w.ndim == 2 else w) for name, w in weights.items()}
    matrices[read_out] = matrices[read_out].reshape(outputs, -1)
    return Network(activation, tuple(nodes), inputs, sites, read_out, trained, outputs, q), matrices
