"""Mutants of certificates: claims, network, loss, theorem, start and arrays changed, with digests made to fit again.

A mutant is decided by the certificate's name, a seed and a number. Some mutations make claims weaker, or state them
again with room to spare, so that many mutants are still proved and their sentences can be judged.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_same import MUCH, SAME
from safetensors.numpy import load, save

DOCUMENT, ARRAYS = "certificate.json", "arrays.safetensors"
THEOREMS = (
    "descent", "existence", "fit", "logistic", "impossible", "finite", "basin", "epochs", "sampling", "orders",
    "ridge", "momentum", "read_out", "margins", "newton",
)  # fmt: skip
CLAIMS = (
    "s", "S", "rho", "radii", "lipschitz", "sigma", "b", "eta", "rate", "h", "epsilon", "steps", "D", "newton_h",
    "newton_radius", "nested", "kappa", "distinct", "least_loss", "least_loss_at_most", "constant_sum", "jump",
    "margin", "loss_name", "loss", "c", "R1", "I1", "I2", "groups", "near", "d", "a", "t", "normal", "batch", "beta",
    "bend", "order", "partition", "within", "mu", "u", "failure", "late", "decay", "gamma", "ell", "reach",
    "momentum", "right", "growth", "separates", "square",
)  # fmt: skip
ACTIVATIONS = (
    "softplus", "sigmoid", "tanh", "erf", "arctan", "sin", "swish", "gelu", "mish", "elu", "softsign", "identity",
    "relu",
)  # fmt: skip
LOSSES = (
    "squared", "logistic", "exp_linear", "squared_hinge", "half_squared_hinge", "huber_hinge", "hinge",
    "cross_entropy",
)  # fmt: skip
# larger is weaker; smaller is weaker, or leaves more room
UP = (
    "S", "rho", "lipschitz", "b", "h", "epsilon", "steps", "D", "newton_h", "newton_radius", "least_loss_at_most",
    "loss", "I1", "I2", "near", "beta", "bend", "order", "gamma", "ell", "late", "failure", "reach", "t",
    "growth",
)  # fmt: skip
DOWN = (
    "s", "sigma", "eta", "rate", "kappa", "least_loss", "margin", "d", "a", "mu",
    "right", "separates",
)  # fmt: skip
NEAR = (1 + 2**-52, 1 - 2**-53, 1 + 1e-14, 1 - 1e-12, 1 + 1e-9, 1 - 1e-6, 1.0001, 0.999, 1.01, 0.97, 1.1)
FAR = (0.5, 2.0, 0.1, 10.0, 1e-3, 1e3, 1e-9, 1e9, 1e-300, 1e300)
TEXTS = ("@1e400@", "@-1e400@", "@0.1e-400@", "@-0@", "@1E5@", "@123456789012345678901234567890@")
JUNK: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2, 3, 10**9, 10**30, -(2**31), 2**63, 1e308, 5e-324, -0.0, 0.5, math.nan, math.inf,
    -math.inf, "", "x", "W1", "0", "1.5", [], {}, [1], [[1]], [[[0, 0]]], {"a": 1}, [None], 10**400, *TEXTS,
)  # fmt: skip


@dataclass
class Mutant:
    """A certificate that is being changed; `files` change the bytes of a file at the very end."""

    document: dict[str, Any]
    arrays: dict[str, np.ndarray]
    did: list[str] = field(default_factory=list)
    files: list[tuple[str, Callable[[bytes], bytes]]] = field(default_factory=list)

    @property
    def claims(self) -> dict[str, Any]:
        """What is claimed."""
        return self.document["claims"]

    @property
    def net(self) -> dict[str, Any]:
        """The network as it is stated."""
        return self.document["network"]


def load_parts(folder: Path) -> Mutant:
    """Read a certificate."""
    arrays = {name: np.array(a) for name, a in load((folder / ARRAYS).read_bytes()).items()}
    return Mutant(json.loads((folder / DOCUMENT).read_text(encoding="utf-8")), arrays)


def write(folder: Path, mutant: Mutant) -> None:
    """Write both files, with the digests of what they hold, and of the data in the anchor where it has one."""
    folder.mkdir(parents=True, exist_ok=True)
    content = save({name: np.ascontiguousarray(a) for name, a in mutant.arrays.items()})
    document = {key: value for key, value in mutant.document.items() if key != "digests"}
    anchor = document.get("anchor")
    if isinstance(anchor, dict) and "digest" in anchor and {"x", "y"} <= set(mutant.arrays):
        total = hashlib.sha256()
        for array in (mutant.arrays["x"], mutant.arrays["y"]):
            total.update(f"{array.dtype.str}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
        document["anchor"] = {**anchor, "digest": total.hexdigest()}
    files = {ARRAYS: content, DOCUMENT: b""}
    for name, change in mutant.files:
        if name == ARRAYS:
            files[ARRAYS] = change(files[ARRAYS])
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    digests = {
        "arrays": hashlib.sha256(files[ARRAYS]).hexdigest(),
        "certificate": hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
    }
    whole = json.dumps({**document, "digests": digests}, ensure_ascii=True)
    for literal in TEXTS:
        whole = whole.replace(f'"{literal}"', literal.strip("@"))
    files[DOCUMENT] = whole.encode()
    for name, change in mutant.files:
        if name == DOCUMENT:
            files[DOCUMENT] = change(files[DOCUMENT])
    for name, data in files.items():
        (folder / name).write_bytes(data)


# places in JSON


def paths(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the ways to all parts of a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [way, *(path for key, part in inner for path in paths(part, (*way, key)))]


def at(value: Any, way: tuple[Any, ...]) -> Any:
    """Return the part at the end of a way."""
    for key in way:
        value = value[key]
    return value


def place(value: Any, way: tuple[Any, ...], new: Any) -> None:
    """Put something at the end of a way."""
    at(value, way[:-1])[way[-1]] = new


def numbers(value: Any) -> list[tuple[Any, ...]]:
    """Return the ways to all numbers."""
    return [way for way in paths(value) if way and type(at(value, way)) in (int, float)]


def scaled(value: Any, factor: float) -> Any:
    """Return a number, or a list of them, times a factor; whole numbers stay whole."""
    if isinstance(value, list):
        return [scaled(v, factor) for v in value]
    if type(value) is int:
        return value + (factor > 1) - (factor < 1) if 0.5 < factor < 2 else int(min(max(value * factor, 0), 2**62))
    return value * factor if type(value) is float else value


# claims


def claim_factor(rng: random.Random, m: Mutant) -> None:
    """Scale one number, by a factor near 1 or far from it."""
    way = rng.choice(numbers(m.claims))
    factor = rng.choice(NEAR if rng.random() < 0.6 else FAR)
    place(m.claims, way, scaled(at(m.claims, way), factor))


def claim_value(rng: random.Random, m: Mutant) -> None:
    """Change the sign, or set to zero, something tiny or something huge."""
    way = rng.choice(numbers(m.claims))
    old = at(m.claims, way)
    place(m.claims, way, rng.choice([-old, 0, 0.0, -0.0, 5e-324, 1e-300, 1e308, 1, 1.0, 2**53 + 1, 2**63 - 1, old + 1]))


def claim_swap(rng: random.Random, m: Mutant) -> None:
    """Exchange two numbers."""
    one, other = rng.choice(numbers(m.claims)), rng.choice(numbers(m.claims))
    first, second = at(m.claims, one), at(m.claims, other)
    place(m.claims, one, second)
    place(m.claims, other, first)


def claim_list(rng: random.Random, m: Mutant) -> None:
    """Change the length or the order of a list; radii and constants together, or one of them."""
    names = [name for name, value in m.claims.items() if isinstance(value, list)]
    if "nested" in m.claims:
        m.claims["nested"]["A"] = (m.claims["nested"]["A"] * 2)[: rng.randint(0, 3)]
    both = ["radii", "lipschitz"] if "radii" in names and rng.random() < 0.6 else [rng.choice(names)]
    how, k = rng.randrange(7), rng.random()
    for name in both:
        value = m.claims[name]
        j = int(k * len(value))
        if how == 0:
            value.append(value[-1] * 2 if type(value[-1]) in (int, float) else value[-1])
        elif how == 1:
            del value[j]
        elif how == 2:
            value.insert(j, copy.deepcopy(value[j]))
        elif how == 3:
            value.reverse()
        elif how == 4:
            m.claims[name] = [value]
        elif how == 5:
            value[j] = copy.deepcopy(rng.choice(JUNK))
        else:
            value.insert(0, scaled(value[0], 0.5))


def claim_whole(rng: random.Random, m: Mutant) -> None:
    """Change a whole number: steps, batch, distinct, a group, a partition."""
    ways = [way for way in numbers(m.claims) if type(at(m.claims, way)) is int]
    way = rng.choice(ways)
    old = at(m.claims, way)
    new = rng.choice([0, 1, -1, old - 1, old + 1, 2 * old, old // 2, 10**6, 2**31, 2**53 + 1, 2**63 - 1, float(old)])
    place(m.claims, way, new)


def claim_type(rng: random.Random, m: Mutant) -> None:
    """Put something of another type in place of a claim or of a part of one."""
    way = rng.choice(paths(m.claims)[1:])
    old = at(m.claims, way)
    place(m.claims, way, copy.deepcopy(rng.choice([*JUNK, str(old), [old], {"a": old}, [[old]]])))


def claim_drop(rng: random.Random, m: Mutant) -> None:
    """Leave out a claim, or all that are optional together."""
    sets = [["D", "newton_h", "newton_radius"], ["margin"], ["kappa"], ["reach"], ["t", "normal"], ["nested"], ["jump"],
            ["partition"], ["distinct", "least_loss", "least_loss_at_most"], ["constant_sum"]]  # fmt: skip
    there = [names for names in sets if set(names) <= set(m.claims)]
    for name in rng.choice(there) if there and rng.random() < 0.7 else [rng.choice(list(m.claims))]:
        del m.claims[name]


def claim_add(rng: random.Random, m: Mutant) -> None:
    """Add a claim of some theorem, or an unknown one."""
    name = rng.choice([*CLAIMS, "kappa", "reach", "t", "margin", "jump", "constant_sum", "extra"])
    some = at(m.claims, rng.choice(numbers(m.claims)))
    m.claims[name] = copy.deepcopy(rng.choice([some, 1.0, 0.5, 0.0, 1, 2, [some], "logistic", {"A": [some]}, []]))


def weaker(rng: random.Random, m: Mutant) -> None:
    """Make one claim weaker: it often stays provable."""
    names = [name for name in m.claims if name in (*UP, *DOWN)]
    name = rng.choice(names)
    by = rng.choice([1e-15, 1e-9, 1e-4, 1e-2, 0.2, 1.0, 10.0])
    m.claims[name] = scaled(m.claims[name], 1 + by if name in UP else 1 / (1 + by))


def weaker_end(rng: random.Random, m: Mutant) -> None:
    """Promise less at the end: more steps, a larger loss, a slower rate, a smaller margin, another probability."""
    names = {"epsilon": 1, "steps": 1, "rate": -1, "margin": -1, "late": 1, "failure": 1, "loss": 1, "newton_radius": 1}
    there = [name for name in names if name in m.claims]
    for name in rng.sample(there, rng.randint(1, len(there))):
        factor = 1 + rng.choice([1e-9, 1e-3, 0.5, 3.0])
        m.claims[name] = scaled(m.claims[name], factor if names[name] > 0 else 1 / factor)


def restate(rng: random.Random, m: Mutant) -> None:
    """State all claims again with room to spare, so that small changes of arrays stay provable."""
    k, room = m.claims, rng.choice([1e-6, 1e-3, 1e-2, 0.05])
    for name, sign in (("s", -1), ("S", 1), ("lipschitz", 1)):
        if name in k:
            k[name] = scaled(k[name], 1 + sign * room)
    if "rho" in k:
        k["rho"] = k["rho"] * (1 + room) + rng.choice([0, 1e-12, 1e-9, 1e-6])
    begun = m.document.get("start")
    if begun is not None and "near" not in k:
        begun["distance"] = begun["distance"] * (1 + room) + rng.choice([0, 0, 1e-12, 1e-9, 1e-6])
    RESTATED[m.document["theorem"]](m, room)


def _steps(rate: float, size: float, epsilon: float) -> int:
    return max(0, math.ceil(math.log(max(size / math.sqrt(2 * epsilon), 1)) / -math.log1p(-rate))) + 1


def _descent(m: Mutant, room: float) -> None:
    k = m.claims
    if len(k["radii"]) == 1 and not {"nested", "jump"} & set(k):
        root = math.sqrt(max(k["s"] ** 2 - 2 * k["lipschitz"][0] * k["rho"], 0))
        k["radii"] = [max(k["radii"][0], 2 * k["rho"] / (k["s"] + root) * (1 + 1e-6))]
    cells = np.diff([0.0, *k["radii"]])
    moved = float(np.dot(cells, k["lipschitz"])) + k.get("jump", 0.0) / 2
    k["sigma"], k["b"] = (k["s"] - moved) * (1 - 1e-12), (k["S"] + moved) * (1 + 1e-12)
    if "start" not in m.document and "kappa" not in k:
        k["eta"] = min(k["eta"], (1 - 1e-12) / k["b"] ** 2)
    if "kappa" in k:
        beta, low = k["eta"] * k["b"] ** 2, k["eta"] * k["s"] ** 2
        k["kappa"] = min(k["kappa"], math.sqrt(beta * (2 - beta - low) / (1 - beta * low)) * (1 - 1e-12))
    pull = k.get("kappa", 1.0) * k["s"] - moved - k.get("jump", 0.0)
    far = m.document["start"]["distance"] if "start" in m.document else 0.0
    k["rate"] = k["eta"] * k["sigma"] * pull * (1 - 1e-12)
    rho = k["rho"] + (k["b"] + k["s"]) * far
    k["h"] = k["lipschitz"][-1] * rho / (k.get("kappa", 1.0) * k["s"]) ** 2 * (1 + 1e-12)
    k["steps"] = _steps(k["rate"], k["rho"] + k["b"] * far, k["epsilon"])
    if "D" in k:
        _existence(m, room)


def _existence(m: Mutant, room: float) -> None:
    k = m.claims
    k["D"] = k["D"] * (1 + 2 * room) + 1e-12
    k["newton_h"] = k["lipschitz"][-1] * k["D"] / k["s"] * (1 + 1e-12)
    k["newton_radius"] = 2 * k["D"] / (1 + math.sqrt(1 - 2 * k["newton_h"])) * (1 + 1e-12)
    if m.document["theorem"] == "existence" and len(k["radii"]) == 1:
        k["radii"] = [max(k["radii"][0], k["newton_radius"])]


def _finite(m: Mutant, room: float) -> None:
    k = m.claims
    k["loss"] = k["loss"] * (1 + 10 * room) + 1e-9
    if "margin" in k:
        k["margin"] = k["margin"] * (1 - 10 * room)


def _fit(m: Mutant, room: float) -> None:
    m.claims["margin"] -= room * (1 + abs(m.claims["margin"]))
    if "loss" in m.claims:
        m.claims["loss"] *= 1 + room


def _logistic(m: Mutant, room: float) -> None:
    k, n = m.claims, len(m.arrays["x"])
    k["loss"] *= 1 + room
    cells = np.diff([0.0, *k["radii"]])
    moved = np.cumsum(cells * k["lipschitz"])
    far = m.document["start"]["distance"] if "start" in m.document else 0.0
    b, low = k["S"] + moved[-1], k["s"] - moved[k["radii"].index(k["R1"])]
    most = k["loss"] + b * far / math.sqrt(n)
    ratio = (most / k["epsilon"]) ** (1 / 4096)
    left = k["epsilon"] * ratio ** np.arange(4096)
    psi = np.maximum((1 - math.exp(-1)) * np.minimum(1, math.sqrt(n) * left), -np.expm1(-n * left) / math.sqrt(n))
    psi = np.maximum(psi, -np.expm1(-left))
    k["I1"], k["I2"] = (float(np.sum(left * (ratio - 1) / psi**power)) * (1 + 1e-9) for power in (1, 2))
    k["steps"] = math.ceil(n**2 * k["I2"] / (k["c"] * k["eta"] * low**2) * (1 + 1e-9)) + 1
    if "margin" in k:
        k["margin"] *= 1 - 10 * room


def _place(m: Mutant, room: float) -> tuple[float, float]:
    k, (rise,), (radius,) = m.claims, m.claims["lipschitz"], m.claims["radii"]
    k["near"], k["b"] = 2 * k["rho"] / k["s"] * (1 + 1e-12), (k["S"] + rise * radius) * (1 + 1e-12)
    if "t" not in k and "start" not in m.document:
        k["d"] = k["d"] * (1 - 3 * room)
    for name in ("beta", "bend"):
        if name in k:
            k[name] *= 1 + room
    return k["d"] + k["near"], 2 * k["d"] + k["near"]


def _epochs(m: Mutant, room: float) -> None:
    k, (rise,) = m.claims, m.claims["lipschitz"]
    far, first = _place(m, room)
    k["order"] = 1 + (k["order"] - 1) * (1 + room)
    c, low = 2 - k["eta"] * k["beta"], k["s"] - rise * first
    swell = 2 / (1 + math.sqrt(1 - k["eta"] * (k["bend"] * far) ** 2 / c))
    kappa = rise * far / low
    pull = c * (1 - kappa / 2) / k["order"] - k["bend"] * far * swell / low
    k["a"] = max(k["a"], 2 * k["bend"] * far * math.sqrt(swell) / (low * (1 - kappa) * pull) * (1 + 1e-9))
    k["sigma"] = (low - rise * k["a"] * far) * (1 - 1e-12)
    fall = k["eta"] * k["sigma"] ** 2 * (1 - kappa / 2) * pull / k["order"]
    k["rate"] = (1 - math.sqrt(1 - fall)) * (1 - 1e-9)
    k["steps"] = _steps(k["rate"], k["b"] * far, k["epsilon"])


def _sampling(m: Mutant, room: float) -> None:
    k, (rise,) = m.claims, m.claims["lipschitz"]
    far, first = _place(m, room)
    k["u"] *= 1 - 20 * min(room, 0.01)
    c, share = 2 - k["eta"] * k["beta"], k["batch"] / len(m.arrays["x"])
    sigma = k["s"] - rise * (first + k["within"] / k["mu"]) - rise * k["within"] / 2
    k["failure"] = math.exp(-k["u"] * (1 - far / k["within"])) * (1 + 1e-9)
    k["rate"] = min(k["rate"], k["eta"] * share * sigma * (c * sigma - rise * k["within"]) * (1 - 1e-9))
    log = math.log((k["b"] * far) ** 2 / (2 * k["epsilon"] * k["late"]))
    k["steps"] = max(0, math.ceil(log / -math.log1p(-k["rate"]))) + 1


def _orders(m: Mutant, room: float) -> None:
    _place(m, room)
    m.claims["steps"] = int(m.claims["steps"] * (1 - 10 * min(room, 0.05)))


def _basin(m: Mutant, room: float) -> None:
    k, (rise,) = m.claims, m.claims["lipschitz"]
    far, first = _place(m, room)
    if "t" in k:
        along = k["t"] + k["near"] * (1 + rise * k["d"] / k["s"])
        first = k["near"] + 2 * along / (1 - rise * far / (k["s"] - rise * k["near"]))
    low = k["s"] - rise * first
    kappa, c = rise * far / low, 2 - k["eta"] * k["b"] ** 2
    pull = c * (1 - kappa / 2) - rise * far / low
    k["a"] = max(k["a"], 2 * rise * far / (low * (1 - kappa) * pull) * (1 + 1e-9))
    k["sigma"] = (low - rise * k["a"] * far) * (1 - 1e-12)
    k["rate"] = (1 - math.sqrt(1 - k["eta"] * k["sigma"] ** 2 * (1 - kappa / 2) * pull)) * (1 - 1e-9)
    k["steps"] = _steps(k["rate"], k["b"] * far, k["epsilon"])


def _ridge(m: Mutant, room: float) -> None:
    k, (rise,), (radius,) = m.claims, m.claims["lipschitz"], m.claims["radii"]
    bend = rise * (k["rho"] + k["S"] * radius + rise * radius**2 / 2)
    k["mu"] = (k["decay"] - bend) * (1 - 1e-12)
    k["ell"] = ((k["S"] + rise * radius) ** 2 + k["decay"] + bend) * (1 + 1e-12)
    k["rate"] = min(k["eta"] * k["mu"], 2 - k["eta"] * k["ell"]) * (1 - 1e-9)
    k["gamma"] = max(k["gamma"], min(k["gamma"] * 1000 + 1e-9, 0.5 * k["rate"] * radius / k["eta"]))
    k["steps"] = _steps(k["rate"], math.sqrt(k["ell"]) * (radius + k["gamma"] / k["mu"]), k["epsilon"])


def _momentum(m: Mutant, room: float) -> None:
    k, (rise,), (radius,) = m.claims, m.claims["lipschitz"], m.claims["radii"]
    beta = k["momentum"]
    k["sigma"] = (k["s"] - rise * radius) * (1 - 1e-12)
    k["ell"] = ((k["S"] + rise * radius) ** 2 + rise * k["rho"]) * (1 + 1e-12)
    k["eta"] = min(k["eta"], (1 - beta) / k["ell"] * (1 - 1e-12))
    drag = beta + k["sigma"] * math.sqrt(beta * k["eta"])
    gain = (1 - beta) * k["eta"] * k["sigma"] ** 2 / (1 + drag)
    k["rate"] = gain / (1 + drag + gain) * (1 - 1e-9)
    size = math.sqrt(1 + drag / (1 - k["rate"])) * k["rho"]
    k["steps"] = 2 * _steps(k["rate"], size, k["epsilon"])


def _newton(m: Mutant, room: float) -> None:
    _existence(m, room)
    k, (rise,) = m.claims, m.claims["lipschitz"]
    k["radii"] = [max(k["radii"][0], k["newton_radius"])]
    k["sigma"] = (k["s"] - rise * k["newton_radius"]) * (1 - 1e-12)
    k["square"] = rise / (2 * k["sigma"] ** 2) * (1 + room) * (1 + 1e-12)
    far, step, left, k["steps"] = 0.0, k["D"], k["rho"], 0
    while left > math.sqrt(2 * k["epsilon"]) * (1 - 1e-12) and k["steps"] < 50:
        far, left, k["steps"] = far + step, rise * step * step / 2, k["steps"] + 1
        step = left / (k["s"] - rise * far)


def _read_out(m: Mutant, room: float) -> None:
    k = m.claims
    k["loss"], k["epsilon"] = k["loss"] * (1 + room), k["epsilon"] * (1 + room)
    k["steps"] = 2 * k["steps"] + 1
    for name, factor in (("eta", 1 - room), ("growth", 1 + room)):
        if name in k:
            k[name] *= factor
    for name in ("margin", "separates"):
        if name in k:
            k[name] -= room * (1 + abs(k[name])) if name == "margin" else room * k[name]


def _margins(m: Mutant, room: float) -> None:
    k = m.claims
    k["loss"] *= 1 + room / 10
    k["gamma"], k["a"], k["epsilon"] = k["gamma"] * (1 - room / 100), k["a"] * (1 + room), k["epsilon"] * (1 + room / 4)
    k["steps"] = 4 * k["steps"] + 1
    if "margin" in k:
        k["margin"] -= room * (1 + abs(k["margin"]))


RESTATED = {
    "descent": _descent, "existence": _existence, "fit": _fit, "logistic": _logistic, "finite": _finite,
    "basin": _basin, "epochs": _epochs, "sampling": _sampling, "orders": _orders, "ridge": _ridge,
    "momentum": _momentum, "newton": _newton, "read_out": _read_out, "margins": _margins,
}  # fmt: skip


# the rest of the document


def theorem(rng: random.Random, m: Mutant) -> None:
    """Another theorem with the claims kept; or with those that it does not know left out."""
    m.document["theorem"] = rng.choice([*THEOREMS, "theorem", "Descent", ""])
    if rng.random() < 0.5:
        keep = {"existence": "s radii lipschitz D newton_h newton_radius", "fit": "margin loss loss_name",
                "finite": "loss margin", "impossible": "groups least_loss"}.get(m.document["theorem"])  # fmt: skip
        if keep:
            m.document["claims"] = {name: v for name, v in m.claims.items() if name in keep.split()}


def loss(rng: random.Random, m: Mutant) -> None:
    """Another loss or another reduction."""
    m.document["loss"] = {"name": rng.choice(LOSSES), "reduction": rng.choice(["mean", "half_sum", "sum", "mean"])}


def keys(rng: random.Random, m: Mutant) -> None:
    """Add, remove or change a key of the document."""
    how = rng.randrange(6)
    key = rng.choice([key for key in m.document if key != "claims"])
    if how == 0:
        del m.document[key]
    elif how == 1:
        m.document[rng.choice(["extra", "start", "bound", "centre", "batches"])] = copy.deepcopy(rng.choice(JUNK))
    elif how == 2:
        m.document[key] = copy.deepcopy(rng.choice(JUNK))
    elif how == 3:
        m.document["level"] = rng.choice(["float64", "enclosed", "proved", 1])
    elif how == 4:
        m.document["anchor"] = copy.deepcopy(rng.choice([{}, {"start": "seed"}, [], None, {"digest": "0" * 64}]))
    else:
        m.document["format"] = rng.choice(["wideproof-certificate-1", "wideproof-certificate-3", 2, None])


def sharp(rng: random.Random, m: Mutant) -> None:
    """Bounds of the other kind."""
    m.document["bound"] = {"sharp": rng.choice([True, True, False, 1, "true"])}


def start_field(rng: random.Random, m: Mutant) -> None:
    """Change step size, steps, bits or distance of the start."""
    begun = m.document["start"]
    key = rng.choice(["step_size", "steps", "bits", "distance", "distance"])
    if key == "steps":
        new = rng.choice([begun["steps"] - 1, begun["steps"] + 1, 0, 1, 2 * begun["steps"], 10**6])
        begun["steps"] = new
        if rng.random() < 0.7 and 0 < new <= 10**4:
            begun["bits"] = (begun["bits"] * 2)[:new]
            if "batches" in m.arrays:
                m.arrays["batches"] = np.concatenate([m.arrays["batches"]] * 2)[:new]
    elif key == "bits":
        shift = rng.choice([-200, -50, -10, 10, 50, 150])
        begun["bits"] = rng.choice([[b + shift for b in begun["bits"]], begun["bits"][:-1], [53] * begun["steps"], 60])
    else:
        begun[key] = scaled(begun[key], rng.choice(NEAR if rng.random() < 0.5 else [0.5, 2.0, 10.0, 100.0, 1e-3, -1.0]))
        if key == "step_size" and rng.random() < 0.5 and "eta" in m.claims:
            m.claims["eta"] = begun[key]


def file_bytes(rng: random.Random, m: Mutant) -> None:
    """Damage a file: cut, longer, bytes changed, nested very deep, a key twice."""
    number = rng.randrange(2**31)

    def cut(data: bytes) -> bytes:
        return data[: number % (len(data) + 1)]

    def longer(data: bytes) -> bytes:
        return data + bytes(8)

    def flipped(data: bytes) -> bytes:
        k = number % max(1, len(data))
        return data[:k] + bytes([data[k] ^ (1 << (number % 8))]) + data[k + 1 :] if data else data

    def deep(data: bytes) -> bytes:
        return b'{"a":' * 100000 + data

    def twice(data: bytes) -> bytes:
        return data.replace(b'"rho":', b'"rho":1,"rho":', 1)

    if rng.random() < 0.5:
        m.files.append((ARRAYS, rng.choice([cut, longer, flipped, flipped])))
    else:
        m.files.append((DOCUMENT, rng.choice([cut, longer, flipped, flipped, deep, twice])))


# the network


def net_junk(rng: random.Random, m: Mutant) -> None:
    """Put something else anywhere in the network, or drop a part."""
    way = rng.choice(paths(m.net)[1:])
    if rng.random() < 0.25:
        del at(m.net, way[:-1])[way[-1]]
    else:
        place(m.net, way, copy.deepcopy(rng.choice(JUNK)))


def net_node(rng: random.Random, m: Mutant) -> None:
    """Change activation, scale or skip of a node."""
    node, how = rng.choice(m.net["nodes"]), rng.randrange(3)
    if how == 0:
        node["activation"] = rng.choice(ACTIVATIONS)
    elif how == 1:
        node["scale"] *= rng.choice([*NEAR, 0.5, 0.0, -1.0, 1e6, 2.0])
    else:
        node["skip"] = rng.choice([None, *range(-2, len(m.net["nodes"]) + 1)])


def net_term(rng: random.Random, m: Mutant) -> None:
    """Change what a term reads, or which terms a node has."""
    nodes = m.net["nodes"]
    node, other = rng.choice(nodes), rng.choice(nodes)
    term, how = rng.choice(node["terms"]), rng.randrange(6)
    if how == 0:
        term["source"] = rng.randint(-3, len(nodes))
    elif how == 1:
        node["terms"].append(copy.deepcopy(term))
    elif how == 2:
        node["terms"].remove(term)
    elif how == 3:
        other["terms"].append(copy.deepcopy(term))
    elif how == 4:
        where = rng.randint(-1, len(nodes) - 1)
        node["terms"].append({"weight": None, "source": where, "map": {"kind": "identity"}})
    else:
        names = [t["weight"] for n in nodes for t in n["terms"]] + [m.net["read_out"], m.net["bias"], None]
        term["weight"] = rng.choice(names)


def net_map(rng: random.Random, m: Mutant) -> None:
    """Change a map: its kind, or positions, size, stride, padding of windows."""
    term = rng.choice(rng.choice(m.net["nodes"])["terms"])
    phi = term["map"]
    if "size" not in phi or rng.random() < 0.2:
        term["map"] = {"kind": rng.choice(["identity", "flat", "ones", "patches", "average"])}
        return
    key = rng.choice(["kind", "positions", "size", "stride", "padding"])
    if key == "kind":
        phi["kind"] = rng.choice(["patches", "average"])
    elif key == "padding":
        rng.choice(phi["padding"])[rng.randrange(2)] += rng.choice([-1, 1, 2, 10**6])
    else:
        phi[key][rng.randrange(len(phi[key]))] += rng.choice([-1, 1, 1, 10**6])


def net_whole(rng: random.Random, m: Mutant) -> None:
    """Change sites, read-out, bias, outputs, times, columns, shape, or the order of nodes."""
    net, how = m.net, rng.randrange(9)
    if how == 0:
        net["sites"] = [rng.randrange(len(net["nodes"])) for _ in range(rng.choice([1, 1, 2, len(net["sites"])]))]
    elif how == 1:
        net["read_out"] = rng.choice([net["bias"], *net["trained"], "a"])
    elif how == 2:
        net["bias"] = rng.choice([None, net["read_out"], *net["trained"]])
    elif how == 3:
        net["outputs"] = rng.randint(0, 4)
    elif how == 4:
        net["times"] = rng.choice([0, 1, 2, 3, 10**9])
    elif how == 5:
        net["columns"] = not net["columns"]
    elif how == 6:
        old = net["shape"]
        net["shape"] = rng.choice([old[::-1], [*old, 1], [math.prod(old)], [1, *old]])
    elif how == 7:
        rng.shuffle(net["nodes"])
    else:
        net["nodes"].insert(0, copy.deepcopy(rng.choice(net["nodes"])))


def net_trained(rng: random.Random, m: Mutant) -> None:
    """Change which arrays are trained."""
    used = [name.removeprefix("weights/") for name in m.arrays if name.startswith("weights/")]
    how = rng.randrange(4)
    if how == 0:
        rng.shuffle(m.net["trained"])
    elif how == 1:
        m.net["trained"].pop(rng.randrange(len(m.net["trained"])))
    elif how == 2:
        m.net["trained"].append(rng.choice([*used, "none"]))
    else:
        m.net["trained"] = rng.sample(used, rng.randint(1, len(used)))


# arrays


def pick(rng: random.Random, m: Mutant) -> str:
    """Return the name of an array; those of a start or a centre are taken more often."""
    names = sorted(m.arrays)
    special = [name for name in names if name.startswith(("start/", "centre/")) or name == "batches"]
    return rng.choice(special) if special and rng.random() < 0.5 else rng.choice(names)


def array_entry(rng: random.Random, m: Mutant) -> None:
    """Change one entry."""
    name = pick(rng, m)
    a = m.arrays[name]
    k = rng.randrange(a.size)
    if a.dtype != np.float64:
        a.reshape(-1)[k] = rng.choice([0, 1, -1, 10**6, int(a.max()) + 1])
        return
    old = a.reshape(-1)[k]
    new = [old * (1 + 2**-52), old + 1e-14, old + 1e-9, old + 1e-5, old + 0.01, -old, 0.0, -0.0, old * 2, 1e300, 5e-324,
           math.nan, math.inf]  # fmt: skip
    a.reshape(-1)[k] = rng.choice(new)


def array_nudge(rng: random.Random, m: Mutant) -> None:
    """Move all entries of an array a little."""
    names = [name for name in sorted(m.arrays) if m.arrays[name].dtype == np.float64]
    name, size = rng.choice(names), rng.choice([1e-15, 1e-12, 1e-9, 1e-7, 1e-5, 1e-3])
    noise = np.random.default_rng(rng.randrange(2**31)).standard_normal(m.arrays[name].shape)
    m.arrays[name] = m.arrays[name] + size * noise


def array_rows(rng: random.Random, m: Mutant) -> None:
    """Permute rows, repeat one, scale the array, change signs; of `x` and `y` together or alone."""
    name, how = pick(rng, m), rng.randrange(6)
    together = ["x", "y"] if name in ("x", "y") and rng.random() < 0.5 else [name]
    order = list(range(len(m.arrays[name])))
    rng.shuffle(order)
    for name in together:
        a = m.arrays[name]
        if how == 0:
            m.arrays[name] = a[order]
        elif how == 1:
            m.arrays[name] = np.concatenate([a, a[:1]])
        elif how == 2:
            a[order[0]] = a[order[-1]]
        elif how == 3:
            m.arrays[name] = a[:-1]
        elif how == 4:
            m.arrays[name] = -a
        else:
            m.arrays[name] = (a * rng.choice((*NEAR, 0.5, 2.0))).astype(a.dtype)


def array_type(rng: random.Random, m: Mutant) -> None:
    """Another type of numbers."""
    name = pick(rng, m)
    types = [np.float32, np.float16, np.int64, np.int32, np.bool_, np.float64]
    m.arrays[name] = m.arrays[name].astype(rng.choice(types))


def array_shape(rng: random.Random, m: Mutant) -> None:
    """Another shape: turned, flat, with axes of size 1, the first row or column only, fewer rows, a number."""
    name = pick(rng, m)
    a = m.arrays[name]
    ways: list[Callable[[], np.ndarray]] = [
        lambda: a.T, lambda: a.reshape(-1), lambda: a[None], lambda: a[..., None], lambda: a[:1], lambda: a[..., :1],
        lambda: a[0], lambda: a.reshape(-1)[:1], lambda: a.reshape(-1)[0].reshape(()), lambda: a.reshape(1, -1),
        lambda: a.reshape(-1, 1), lambda: a[:-1], lambda: np.concatenate([a, a]), lambda: a[:0],
        lambda: a.reshape(-1)[:1, None], lambda: a.reshape(2, -1),
        lambda: np.mean(a, axis=0, keepdims=True).astype(a.dtype),
        lambda: np.mean(a, axis=-1, keepdims=True).astype(a.dtype),
    ]  # fmt: skip
    m.arrays[name] = np.array(rng.choice(ways)())


def array_narrow(rng: random.Random, m: Mutant) -> None:
    """Make all arrays of a start or a centre (or all weights) narrower together: one unit, or one entry, for many."""
    prefix = rng.choice([p for p in ("start/", "centre/", "weights/") if any(k.startswith(p) for k in m.arrays)])
    how = rng.randrange(4)
    for name in [name for name in m.arrays if name.startswith(prefix)]:
        a = m.arrays[name]
        if how == 0:
            a = a[:1]
        elif how == 1:
            a = a[..., :1] if name.endswith(("/a", "/" + str(m.net["read_out"]))) else a[:1]
        elif how == 2:
            a = a[..., :1]
        else:
            a = a.reshape(-1)[:1]
        m.arrays[name] = np.array(a)


def array_names(rng: random.Random, m: Mutant) -> None:
    """Add, remove or rename arrays."""
    name, how = pick(rng, m), rng.randrange(5)
    if how == 0:
        del m.arrays[name]
    elif how == 1:
        m.arrays[rng.choice(["extra", "weights/extra", "start/extra", "centre/extra", "goal/extra", name + " "])] = (
            m.arrays[name]
        )
    elif how == 2:
        m.arrays[rng.choice(["start/", "centre/", "weights/", "goal/", "direction/"]) + name.split("/")[-1]] = (
            m.arrays.pop(name)
        )
    elif how == 3:  # the weights as a start or a centre as well
        prefix = rng.choice(["start/", "centre/"])
        for each in m.net["trained"]:
            m.arrays[prefix + each] = m.arrays["weights/" + each].copy()
    else:
        prefix = rng.choice(["start/", "centre/"])
        m.arrays = {key: a for key, a in m.arrays.items() if not key.startswith(prefix)}


def batches(rng: random.Random, m: Mutant) -> None:
    """Batches out of range, repeated, of other sizes, in another order, or where there were none."""
    n, how = len(m.arrays["x"]), rng.randrange(7)
    if "batches" not in m.arrays:
        steps = m.document["start"]["steps"]
        m.arrays["batches"] = np.array([[i % n] for i in range(steps)])
        return
    a = m.arrays["batches"]
    if how == 0:
        a[0, 0] = n
    elif how == 1:
        a[-1, 0] = -1
    elif how == 2:
        a[0, :] = a[0, 0]
    elif how == 3:
        m.arrays["batches"] = a[:, :-1]
    elif how == 4:
        m.arrays["batches"] = a[::-1].copy()
    elif how == 5:
        m.arrays["batches"] = np.sort(a, axis=1)  # the same batches
    else:
        del m.arrays["batches"]


KINDS: tuple[tuple[float, tuple[Callable[[random.Random, Mutant], None], ...]], ...] = (
    (0.17, (claim_factor, claim_value, claim_swap, claim_list, claim_whole, claim_type, claim_drop, claim_add)),
    (0.26, (weaker, weaker_end, restate, restate)),
    (0.12, (net_junk, net_node, net_term, net_map, net_whole, net_trained)),
    (0.05, (theorem, loss, keys, sharp, file_bytes)),
    (0.05, (start_field, batches)),
    (0.18, (array_entry, array_nudge, array_nudge, array_rows, array_type, array_shape, array_shape, array_narrow,
            array_names)),
    (0.15, SAME),
    (0.02, MUCH),
)  # fmt: skip


def mutate(original: Mutant, name: str, seed: int, index: int) -> Mutant:
    """Return the mutant of a certificate with this number: 1 to 4 mutations, one after the other; 0 is as it was."""
    rng = random.Random(f"{seed} {name} {index}")
    mutant = Mutant(copy.deepcopy(original.document), {key: a.copy() for key, a in original.arrays.items()})
    for _ in range(rng.choice([1, 1, 1, 1, 2, 2, 3, 4]) if index else 0):
        kinds = rng.choices([kind for _, kind in KINDS], [weight for weight, _ in KINDS])[0]
        change = rng.choice(kinds)
        try:
            with np.errstate(all="ignore"):
                change(rng, mutant)
            mutant.did.append(change.__name__)
            if change is restate:
                array_nudge(rng, mutant)
        except (TypeError, KeyError, IndexError, ValueError, AttributeError, ArithmeticError):
            mutant.did.append(f"({change.__name__})")  # not possible here, or only in part
    return mutant
