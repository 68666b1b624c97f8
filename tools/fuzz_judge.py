r"""Judge the sentence of a verdict literally: is what it says about the stored numbers true?

Nothing of the prover or the verifier is used. Numbers are read from the sentence, arrays from the file, and the method
that the sentence names is run in long double, on the network as docs/theory/certificates.md (section 3) describes it:

    z_k = Σ_t M_t φ_t(x_src(t)),   x_k = [x_skip] + s_k σ_k(z_k),   f = C x_site + c

Every run has a shadow in float64. Long double rounds 2^11 times finer, so a sixteenth of what the two differ by is far
more than the error of the finer one, however errors grow on the way; it is the tolerance of every comparison. What
cannot be decided so (steps too many to be taken, a shadow that is lost) is `undecided`, never `violated`.

Values are arrays (examples, positions, features). All trained weights together are one vector, `theta`.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import random
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from fuzz_words import WordsError, counts_fit, digests_fit, subject_fits

LONG = np.longdouble
NUMBER = r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
WORK, OVERHEAD = 6e7, 1e5  # products that one judgement may take, about; what a node costs besides, in products
FAINT = "what a step should lower is at the level of rounding from the first on"
PARTLY = "the distance to the nearest minimum, where the Jacobian is large, was not looked at"
SHADOW = LONG(1) / 16  # of the difference from float64
FEWEST, MOST = 6, 600  # steps that are taken, at least and at most


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
        if k % 8 == 0 and (np.abs(term) <= 1e-22 * np.abs(total)).all():
            break
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
        if math.prod(sum(s) for s in zip(grid, map(sum, sides[3]), strict=True)) * math.prod(sides[1]) > 2**22:
            raise UndecidedError("the windows are too many")
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
    """The network on its inputs, in one precision; `theta` are all trained weights, as matrices row by row.

    `lift` takes float64 numbers into that precision, `table` has its activations.
    """

    def __init__(
        self, config: dict[str, Any], weights: dict[str, np.ndarray], x: np.ndarray, dtype: Any = LONG,
        lift: Callable[[np.ndarray], np.ndarray] | None = None, table: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.config, self.dtype, self.n = config, dtype, len(x)
        self.lift, self.activations = lift or (lambda a: a.astype(dtype)), table or ACTIVATIONS
        self.biases = {t["weight"] for node in config["nodes"] for t in node["terms"] if t["map"]["kind"] == "ones"}
        used = {t["weight"] for node in config["nodes"] for t in node["terms"]} - {None}
        used |= {config["read_out"], config["bias"]} - {None}
        self.matrices = {name: self.lift(self.matrix(name, weights[name])) for name in sorted(used)}
        self.trained = list(config["trained"])
        cuts = np.cumsum([0, *(self.matrices[name].size for name in self.trained)])
        self.place = {name: slice(cuts[k], cuts[k + 1]) for k, name in enumerate(self.trained)}
        self.size = int(cuts[-1])
        shape = config["shape"]
        if config["times"]:
            inputs = [x[:, t, None, :] for t in range(config["times"])]
        else:
            inputs = [x.reshape(self.n, shape[0], -1).swapaxes(1, 2)]
        self.inputs = [self.lift(part) for part in inputs]
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
        return self.lift(np.concatenate([self.matrix(name, weights[name]).ravel() for name in self.trained]))

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
                value, slope = net.activations[node["activation"]](z)
                scale = net.lift(np.array([float(node["scale"])]))[0]
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


# judging


class Judgement(NamedTuple):
    """`answer` is "holds", "violated", "undecided" or "unread"; `why` says which part of the sentence, or `FAINT`."""

    answer: str
    why: str = ""


class ViolatedError(Exception):
    """The sentence is false."""


class UndecidedError(Exception):
    """Nothing can be said."""


def understood(body: str) -> tuple[Callable[[Case, dict[str, str]], None], dict[str, str]] | None:
    """Return what checks a sentence, and what it says, if it is one of those that are known."""
    for pattern, check in FORMS:
        found = re.fullmatch(pattern, body)
        if found:
            return check, {name: value for name, value in found.groupdict().items() if value is not None}
    return None


def judge(
    document: dict[str, Any], arrays: dict[str, np.ndarray], statement: str, digests: dict[str, str] | None = None
) -> Judgement:
    """Judge one sentence that was called proved, about these files, and the digests of its verdict."""
    try:
        if digests is not None:
            digests_fit(document, arrays, digests)
        case = Case(document, arrays, statement)
        case.arrays_fit()
        counts_fit(case.body)
        net = case.nets[0]
        subject_fits(case.subject, document, arrays, [net.grids[k] for k in range(len(case.config["nodes"]))])
        known = understood(case.body)
        if known is None:
            return Judgement("unread", case.body[:300])
        check, said = known
        require(("more" in said) == ("count" in said and "steps" in said), "whether there are more steps")
        check(case, said)
        if case.open:
            return Judgement("undecided", "; ".join(dict.fromkeys(case.open)))
        return Judgement("holds", FAINT if case.faint else case.note)
    except ViolatedError as error:
        return Judgement("violated", str(error))
    except WordsError as error:
        return Judgement("unread" if error.unread else "violated", str(error))
    except UndecidedError as error:
        return Judgement("undecided", str(error))
    except (ArithmeticError, LookupError, ValueError, TypeError, AttributeError, np.linalg.LinAlgError) as error:
        # A network that the description of the format does not allow was called proved, or the judge is at fault.
        return Judgement("unread", f"{type(error).__name__}: {error}")


def require(holds: Any, otherwise: str) -> None:
    """Raise `ViolatedError` unless `holds`."""
    if not holds:
        raise ViolatedError(otherwise)


def norm(a: np.ndarray) -> Any:
    """Return the Euclidean norm of all entries, in their precision."""
    return np.sqrt((a * a).sum())


class Case:
    """One certificate whose sentence is judged."""

    def __init__(self, document: dict[str, Any], arrays: dict[str, np.ndarray], statement: str) -> None:
        self.document, self.arrays, self.config = document, arrays, document["network"]
        self.body, _, self.subject = statement.partition(" This is about ")
        self.weights = {k.removeprefix("weights/"): a for k, a in arrays.items() if k.startswith("weights/")}
        self.x, self.open, self.faint, self.note = arrays["x"], [], False, ""
        y = arrays["y"][:, 1:] if self.config["times"] else arrays["y"]
        self.n = len(self.x)
        self.y = y.reshape(self.n, -1)
        self.nets = [Net(self.config, self.weights, self.x, dtype) for dtype in (LONG, np.float64)]
        self.loss_name, self.mean = document["loss"]["name"], document["loss"]["reduction"] == "mean"
        self.anchor = self.nets[0].vector(self.weights)
        self._groups()
        net = self.nets[0]
        cost = 8.0 * self.n * sum(m.size for m in net.matrices.values()) * len(self.config["sites"])
        cost *= max(math.prod(grid) for grid, _ in net.grids.values())
        rows = len(self.first) * net.rows  # of the Jacobian
        self.heavy = rows * net.size > 2e6 or rows > 300  # it can be had a few times
        self.large = rows * net.size > 2e7 or rows > 2200  # it cannot
        self.few = 2 if self.heavy else FEWEST
        self.cap = int(min(MOST, max(self.few, WORK / (cost + OVERHEAD * len(self.config["nodes"])))))
        self.rng = np.random.default_rng(int(hashlib.sha256(statement.encode()).hexdigest()[:8], 16))

    def _groups(self) -> None:
        """Rows with equal inputs: their first row, how many, mean of their targets, and the least loss L*."""
        found: dict[tuple[float, ...], list[int]] = {}
        for i, row in enumerate(self.x.reshape(self.n, -1).tolist()):
            found.setdefault(tuple(row), []).append(i)
        self.members = list(found.values())
        self.first = [rows[0] for rows in self.members]
        self.roots = np.sqrt(np.array([len(rows) for rows in self.members], LONG))
        exact = [[Fraction(v) for v in row] for row in self.y.tolist()]
        least, means = Fraction(0), []
        for rows in self.members:
            mean = [sum((exact[i][j] for i in rows), Fraction(0)) / len(rows) for j in range(self.y.shape[1])]
            least += sum(((exact[i][j] - mean[j]) ** 2 for i in rows for j in range(len(mean))), Fraction(0)) / 2
            means.append([LONG(m.numerator) / LONG(m.denominator) for m in mean])
        self.least, self.means = least, np.array(means, LONG)
        self.lowest = LONG(least.numerator) / LONG(least.denominator)

    # what the sentence relies on

    def arrays_fit(self) -> None:
        """Arrays of a start or a centre that the sentence speaks of are those that are trained, of their shapes."""
        for prefix, words in (("start/", "start weights|the stored start"), ("centre/", "from the centre")):
            given = {k.removeprefix(prefix): a for k, a in self.arrays.items() if k.startswith(prefix)}
            if re.search(words, self.body):
                require(set(given) == set(self.config["trained"]), f"the arrays {prefix} are {sorted(given)}")
                for name, array in given.items():
                    wanted = self.weights[name].shape
                    words = "as many numbers" if array.size == self.weights[name].size else "another number of entries"
                    words = f"{prefix}{name} has the shape {array.shape}, the weights {wanted}: {words}"
                    require(array.shape == wanted, words)
        wanted = (self.config["times"],) if self.config["times"] else ()
        wanted += (self.config["outputs"],) if self.config["outputs"] > 1 or self.config["times"] else ()
        require(self.arrays["y"].shape == (self.n, *wanted), f"y has the shape {self.arrays['y'].shape}")

    # runs

    def given(self, prefix: str) -> np.ndarray:
        """Return the trained arrays of a start or a centre as a vector."""
        return self.nets[0].vector({name: self.arrays[prefix + name] for name in self.config["trained"]})

    def twin(self, theta: np.ndarray) -> Twin:
        """Begin a run and its shadow."""
        return Twin(self, theta)

    def gradient(self, net: Net, theta: np.ndarray, rows: Any = None) -> np.ndarray:
        """Return the gradient of the sum (of squares: of the half sum) over some rows, or over all."""
        run = net.at(theta, rows)
        y = (self.y if rows is None else self.y[rows]).astype(net.dtype)
        if self.loss_name == "squared":
            return run.pull(run.outputs - y)
        if self.loss_name == "cross_entropy":
            size = np.exp(run.outputs - run.outputs.max(axis=1, keepdims=True))
            return run.pull(size / size.sum(axis=1, keepdims=True) - (y > 0))
        return run.pull(y * MARGIN_LOSSES[self.loss_name](y * run.outputs)[1])

    def loss(self, net: Net, theta: np.ndarray) -> Any:
        """Return the loss of all rows."""
        f, y = net.at(theta).outputs, self.y.astype(net.dtype)
        if self.loss_name == "cross_entropy":
            gaps = np.where(y > 0, -np.inf, f - f[y > 0][:, None])
            return np.log1p(np.exp(gaps).sum(axis=1)).sum() / self.n
        each = (f - y) ** 2 / 2 if self.loss_name == "squared" else MARGIN_LOSSES[self.loss_name](y * f)[0]
        return each.sum() / self.n if self.mean else each.sum()

    def margins(self, net: Net, theta: np.ndarray) -> Any:
        """Return the margin of every row: y f, or by how much the own output exceeds all others."""
        f, y = net.at(theta).outputs, self.y.astype(net.dtype)
        if y.shape[1] == 1:
            return (y * f)[:, 0]
        require(((y == 1).sum(axis=1) == 1).all(), "the targets are not labels")
        own = y == 1
        return f[own] - np.where(own, -np.inf, f).max(axis=1)

    def margin(self, net: Net, theta: np.ndarray) -> Any:
        """Return the least of them."""
        return self.margins(net, theta).min()

    def apart(self, net: Net, theta: np.ndarray) -> np.ndarray:
        """Return the residuals from the means of equal rows, weighted: half their square is the loss above L*."""
        f = net.at(theta, self.first).outputs
        return (self.roots.astype(net.dtype)[:, None] * (f - self.means.astype(net.dtype))).ravel()

    def slope(self, theta: np.ndarray) -> np.ndarray:
        """Return the Jacobian of `apart` in float64."""
        j = self.nets[1].at(theta.astype(np.float64), self.first).jacobian()
        return np.repeat(self.roots.astype(np.float64), self.nets[1].rows)[:, None] * j

    def nearest(self, theta: np.ndarray, rounds: int = 60) -> np.ndarray:
        """Return the zero of `apart` that is nearest to `theta`, as far as Newton's method finds it."""
        z, before = theta, math.inf
        if self.large:
            raise UndecidedError("the Jacobian is too large")
        for _ in range(rounds):
            r, j = self.apart(self.nets[0], z), self.slope(z)
            if not (np.isfinite(r.astype(float)).all() and np.isfinite(j).all()):
                break
            wanted = j.astype(LONG) @ (z - theta) - r
            values, vectors = np.linalg.eigh(j @ j.T)
            values = np.where(values > 1e-13 * values[-1], values, np.inf)  # where the sum of outputs is constant
            solved = np.zeros(len(r), LONG)
            for _ in range(3):  # refined
                left = wanted - j.astype(LONG) @ (j.T.astype(LONG) @ solved)
                solved = solved + vectors @ ((vectors.T @ left.astype(np.float64)) / values)
            new = theta + j.T.astype(LONG) @ solved
            moved = norm(new - z)
            z = new
            if moved <= 1e-17 * (1 + norm(z)) or (moved >= before and moved <= 1e-13 * (1 + norm(z))):
                if norm(self.apart(self.nets[0], z)) <= 1e-14 * (1 + norm(self.means)):
                    return z
                break
            before = min(before, moved)
        raise UndecidedError("no zero was found near")

    def directions(self, theta: np.ndarray, count: int) -> Iterator[np.ndarray]:
        """Yield unit vectors: of the largest and the smallest singular value, along Jᵀ, and random ones."""
        if self.heavy:
            right = self.rng.standard_normal((2, len(theta)))
        else:
            _, _, right = np.linalg.svd(self.slope(theta), full_matrices=False)
        found = [right[0], -right[-1], -right[0], right[-1]]
        found += [right.T @ self.rng.standard_normal(len(right)), self.rng.standard_normal(len(theta))]
        found += [self.rng.standard_normal(len(theta)) for _ in range(max(0, count - len(found)))]
        for v in found[:count]:
            long = v.astype(LONG)
            yield long / norm(long)


class Twin:
    """A run in long double and its shadow in float64."""

    def __init__(self, case: Case, theta: np.ndarray) -> None:
        self.case, self.at, self.begun = case, [theta.astype(net.dtype) for net in case.nets], theta
        self.worst, self.floor = LONG(0), 256 * np.finfo(LONG).eps * (1 + norm(case.means))

    @property
    def theta(self) -> np.ndarray:
        """The finer weights."""
        return self.at[0]

    def update(self, change: Callable[[Net, np.ndarray], np.ndarray]) -> None:
        """Take one step in both."""
        with np.errstate(all="ignore"):
            self.at = [change(net, theta) for net, theta in zip(self.case.nets, self.at, strict=True)]

    def step(self, eta: Any, rows: Any = None) -> None:
        """Take one step of gradient descent on the sum over rows."""
        self.update(lambda net, theta: theta - net.dtype(eta) * self.case.gradient(net, theta, rows))

    def measure(self, what: Callable[[Net, np.ndarray], Any]) -> tuple[Any, Any]:
        """Return a number and its tolerance: what the shadow differs by, and the rounding of what is measured."""
        with np.errstate(all="ignore"):
            fine, coarse = (what(net, theta) for net, theta in zip(self.case.nets, self.at, strict=True))
        slack = SHADOW * abs(fine - LONG(coarse)) + 256 * np.finfo(LONG).eps * abs(fine)
        return (fine, slack) if np.isfinite(fine) and np.isfinite(slack) else (fine, LONG(math.inf))

    def residual(self) -> tuple[Any, Any]:
        """Return the norm of all residuals above the least loss, and a tolerance: how far the shadow's outputs are."""
        with np.errstate(all="ignore"):
            fine, coarse = (self.case.apart(net, theta) for net, theta in zip(self.case.nets, self.at, strict=True))
            value, slack = norm(fine), SHADOW * norm(fine - coarse.astype(LONG)) + self.floor
        self.worst = slack = max(slack, self.worst)  # float64 may be right by chance
        return (value, slack) if np.isfinite(slack) else (value, LONG(math.inf))

    def away(self, point: np.ndarray | None = None) -> tuple[Any, Any]:
        """Return the distance from a point, or from where it began, and a tolerance."""
        point = self.begun if point is None else point
        slack = SHADOW * norm(self.at[0] - self.at[1].astype(LONG)) + 1e-18 * norm(point)
        return norm(self.theta - point), slack if np.isfinite(slack) else LONG(math.inf)


def at_most(found: tuple[Any, Any], bound: Any, what: str, small: bool = False) -> None:
    """Require value ≤ bound up to the tolerance; a number that is lost is undecided.

    `small`: both sides may be so small, or so near each other, that the tolerance is all that is seen of them.
    """
    value, slack = found
    bound = LONG(bound)
    if np.isinf(slack):
        raise UndecidedError(f"{what}: float64 lost it")
    require(value <= bound + LONG(1e-15) * abs(bound) + slack, f"{what}: {value:.12g} is not at most {bound:.12g}")
    if value > bound and slack > 1e-3 * abs(bound) and not small:
        raise UndecidedError(f"{what}: {value:.6g} against {bound:.6g}, within a tolerance of {slack:.1g}")


# the sentences


def stored(text: str) -> Any:
    """Return a number that is printed as it is stored: a whole one exactly, any other as the float64 number."""
    return LONG(text) if re.fullmatch(r"[-+]?\d+", text) else LONG(float(text))


def stepped(case: Case, said: dict[str, str]) -> tuple[int, Any, list[Any]]:
    """Return how many steps lead from the start, the constant as the sentence has it, and the rows of each."""
    batches, count = case.arrays.get("batches"), int(said["count"])
    require((batches is not None) == ("stored_batch" in said), "batches are stored or said, not both")
    if batches is not None:
        require(batches.shape == (count, int(said["stored_batch"])), "steps or size of the stored batches")
        sets = all(len(set(rows)) == len(rows) and set(rows) <= set(range(case.n)) for rows in batches.tolist())
        require(sets, "a batch is not a set of rows")
        updated(case, said, "one", said["stored_batch"])
        return count, (stored(said["constant"]), int(said["over"]), int(said["under"])), list(batches)
    return count, (stored(said["size"]), 1, case.n if case.mean else 1), [None] * count


def updated(case: Case, said: dict[str, str], which: str, size: str) -> None:
    """Require that a formula of stochastic gradient descent is about this loss, and batches of one size."""
    wanted = "½‖f − y‖²" if case.loss_name == "squared" else f"ℓ(y f), ℓ being the {case.loss_name} loss"
    require(said[f"each_{which}"] == wanted, "the loss of an example")
    require((f"later_{which}" in said) == (case.config["times"] > 0), "whether the first time is left out")
    require(said.get("under", size) == size or which != "one", "two sizes of the stored batches")


def follow(case: Case, said: dict[str, str]) -> Twin:
    """Follow the stored steps from the start, and require where they end."""
    count, (constant, over, under), rows = stepped(case, said)
    if count > 20 * case.cap:
        raise UndecidedError(f"{count} steps are too many to follow")
    run = case.twin(case.given("start/"))
    for k in range(count):
        run.step(constant * over / under, rows[k])
    at_most(run.away(case.anchor), said["far"], f"distance from the weights after {count} steps from the start")
    return run


def begin(case: Case, said: dict[str, str]) -> tuple[Twin, Any]:
    """Return where gradient descent begins, and its step size."""
    run = follow(case, said) if "count" in said else case.twin(case.anchor)
    eta = stored(said.get("eta", "0"))
    if "there" in said:
        at_most(run.measure(case.loss), said["there"], "loss where the start leads")
    if "margin" in said:
        value, slack = run.measure(case.margin)
        at_most((-value, slack), -LONG(said["margin"]), "minus the least margin")
    run.begun = run.theta
    return run, eta


def descent(case: Case, said: dict[str, str]) -> None:
    """Theorem 1: the contraction of every step, how far the weights move, the loss after so many steps."""
    run, eta = begin(case, said)
    steps, share = int(said["steps"]), 1 - LONG(said["rate"])
    least = case.lowest if "above" in said else LONG(0)
    if "low" in said:
        require(LONG(said["low"]) <= case.lowest * (1 + LONG(1e-17)), "the least loss, from below")
        require(LONG(said["high"]) >= case.lowest * (1 - LONG(1e-17)), "the least loss, from above")
        alike = sum(len(rows) for rows in case.members if len(rows) > 1)
        require(int(said["alike"]) == alike, f"{alike} rows have the input of another one")
    require((case.least > 0) == ("low" in said), "whether zero loss can be reached")
    before, slack = run.residual()
    case.faint = bool(before <= 10 * slack)
    for k in range(case.cap + 1):
        if k == steps:
            loss, loose = run.measure(case.loss)
            at_most((loss - least, loose), said["epsilon"], f"loss after {steps} steps")
        run.step(eta / case.n if case.mean else eta)
        after, loose = run.residual()
        at_most((after, loose + slack), share * before, f"residual after step {k + 1}", True)
        at_most(run.away(), said["end"], f"way after step {k + 1}")
        before, slack = after, loose
    if steps > case.cap:
        extrapolate(case, run, eta, steps - case.cap - 1, LONG(said["epsilon"]))
    if "radius" in said:
        existence(case, said)


def extrapolate(case: Case, run: Twin, eta: Any, steps: int, epsilon: Any) -> None:
    """Continue with the Jacobian of the last weights; a loss far above what is said is not decided, and named."""
    value, slack = run.residual()
    if value <= slack * 100:
        return
    if case.large:
        raise UndecidedError("the Jacobian is too large to continue the steps with it")
    j = case.slope(run.theta)
    values, vectors = np.linalg.eigh(j @ j.T)
    r = vectors.T @ case.apart(case.nets[0], run.theta).astype(np.float64)
    shrink = np.abs(1 - float(eta) * np.maximum(values, 0))
    left = 0.5 * float(np.sum((r * np.exp(steps * np.log(np.maximum(shrink, 1e-300)))) ** 2))
    if left > 1.1 * epsilon + 1e-30:
        raise UndecidedError(f"the loss after all steps seems to be {left:.3g}, said is {epsilon:.3g}")


def existence(case: Case, said: dict[str, str]) -> None:
    """Theorem 2: a zero within the distance."""
    require((case.least > 0) == ("lowest" in said), "whether zero loss can be reached")
    z = case.nearest(case.anchor)
    far, slack = norm(z - case.anchor), 1e-15 * (1 + norm(z))
    at_most((far, slack + LONG(1e-9) * far), said["radius"], "distance of the nearest zero", True)


def exists(case: Case, said: dict[str, str]) -> None:
    """Only Theorem 2."""
    existence(case, said)


def logistic(case: Case, said: dict[str, str]) -> None:
    """Theorem 3: every step lowers the loss until it is small enough, in so many steps."""
    require(case.y.shape[1] == 1 and (np.abs(case.y) == 1).all(), "the targets are not labels")
    run, eta = begin(case, said)
    epsilon, steps = LONG(said["epsilon"]), int(said["steps"])
    before, slack = run.measure(case.loss)
    for k in range(min(steps, case.cap)):
        if before <= epsilon:
            return
        run.step(eta / case.n)
        after, loose = run.measure(case.loss)
        at_most((after, loose + slack), before, f"loss after step {k + 1}", True)
        before, slack = after, loose
    if steps <= case.cap:
        at_most((before, slack), epsilon, f"loss after {steps} steps")


def finite(case: Case, said: dict[str, str]) -> None:
    """The loss after the stored steps."""
    require(said["count"] == said["taken"], "two numbers of steps")
    if case.loss_name != "squared":
        require((np.abs(case.y) == 1).all(), "the targets are not labels")
    run, _ = begin(case, {**said, "there": said["loss"]})
    del run


def fit(case: Case, said: dict[str, str]) -> None:
    """Margins and loss at the stored weights."""
    require((np.abs(case.y) == 1).all(), "the targets are not labels")
    run = case.twin(case.anchor)
    value, slack = run.measure(case.margin)
    at_most((-value, slack), -LONG(said["margin"]), "minus the least margin")
    rows = said.get("right", said.get("all_", "0"))
    right = np.count_nonzero(case.margins(case.nets[0], case.anchor) > -1e-15)
    require(right >= int(rows) and int(said.get("all", said.get("all_", case.n))) == case.n, "rows on the right side")
    if "zero" in said:
        require(value + slack > 0, "the training error is not zero")
    if "loss" in said:
        at_most(run.measure(case.loss), said["loss"], "logistic loss")


def facts(case: Case, said: dict[str, str], run: Twin) -> None:
    """What a sentence says of the stored weights: rows on the right side, the least margin, the loss."""
    if case.loss_name != "squared":
        require((np.abs(case.y) == 1).all(), "the targets are not labels")
    if "all_" in said:
        said = {**said, "all": said["all_"], "right": said["all_"]}
    if "right" in said:
        require(int(said["all"]) == case.n, "another number of rows")
        right = np.count_nonzero(case.margins(case.nets[0], case.anchor) > -1e-15)
        require(right >= int(said["right"]), f"{right} rows are on the right side")
    if "margin" in said:
        value, slack = run.measure(case.margin)
        at_most((-value, slack), -LONG(said["margin"]), "minus the least margin")
    at_most(run.measure(case.loss), said["now"], "loss at the stored weights")


def falling(case: Case, said: dict[str, str]) -> None:
    """Theorems 11 and 12: what is true at the weights, no step raises the loss, and what it is in the end."""
    run, epsilon, steps = case.twin(case.anchor), LONG(said["epsilon"]), int(said["steps"])
    facts(case, said, run)
    if "alone" in said:
        ends = {case.config["read_out"], case.config["bias"]}
        require(set(case.config["trained"]) <= ends, "more than the read-out is trained")
    if "vanishes" in said:
        ends = {case.config["read_out"], case.config["bias"]} - {None}
        require(ends <= set(case.config["trained"]), "outputs are not linear in what is trained")
        require(case.margin(case.nets[0], case.given("goal/")) > 0, "the goal does not separate the classes")
    before, slack = run.measure(case.loss)
    for k in range(min(steps, case.cap)):
        if "alone" not in said and before <= epsilon:
            return
        size = stored(said["eta"]) if "eta" in said else 1 / (stored(said["growth"]) * -np.expm1(-before))
        run.step(size / (case.n if case.mean else 1))
        after, loose = run.measure(case.loss)
        at_most((after, loose + slack), before, f"loss after step {k + 1}", True)
        before, slack = after, loose
    if steps <= case.cap:
        at_most((before, slack), epsilon, f"loss after {steps} steps")


def impossible(case: Case, said: dict[str, str]) -> None:
    """Equal inputs with different targets."""
    require(case.least > 0, "no equal inputs have different targets")
    least = float(case.least) if case.least < 10**300 else math.inf
    require(Fraction(said["least"]) <= case.least, f"the least loss of any function is {least:.12g}")


def balls_of_starts(case: Case, far: Any, count: int) -> list[np.ndarray]:
    """Return starts within a distance of the stored weights: on the sphere, and the weights themselves."""
    far, count = far * (1 - LONG(1e-15)), 1 if case.heavy else count
    return [case.anchor + far * v for v in case.directions(case.anchor, count)] if far > 0 else [case.anchor]


def near_zeros(case: Case, said: dict[str, str], run: Twin, macro: Callable[[Twin], None], cap: int) -> None:
    """Check the contraction towards the nearest minimum, the ball, and the loss at the end, of one run."""
    share, end, steps = 1 - LONG(said["rate"]), LONG(said["end"]), int(said["steps"])
    require(stored(said["ball"]) == LONG(case.document["claims"]["radii"][0]), "the ball of the minima")
    least = case.lowest if "above" in said else LONG(0)
    before = None
    try:
        if case.heavy and case.rng.random() < 0.8:
            case.note = PARTLY
        else:
            before = norm(run.theta - case.nearest(run.theta))
    except UndecidedError as error:
        case.open.append(str(error))
    at_most(run.away(case.anchor), end, "distance from the stored weights at the start")
    for k in range(cap + 1):
        if k == steps:
            loss, loose = run.measure(case.loss)
            at_most((loss - least, loose), said["epsilon"], f"loss after {steps}")
        macro(run)
        at_most(run.away(case.anchor), end, f"distance from the stored weights after {k + 1}")
        if before is not None and (k == 0 if case.heavy else k < 3 or k == cap):
            try:
                after = norm(run.theta - case.nearest(run.theta))
            except UndecidedError as error:
                case.open.append(str(error))
                before = None
                continue
            power = share if k < 3 else share ** (k - 2)  # from the third on to the last
            slack = run.away(case.anchor)[1] + 1e-14 * (1 + norm(run.theta)) * LONG(1e-2) + LONG(1e-10) * before
            case.faint = case.faint or bool(k == 0 and before <= 10 * slack)
            at_most((after, slack), power * before, f"distance to the nearest minimum after {k + 1}", True)
            before = after


def basin(case: Case, said: dict[str, str]) -> None:
    """Theorem 4: from the stored start, or from every start within d."""
    require((case.least > 0) == ("least" in said), "whether zero loss can be reached")
    eta = stored(said["eta"])
    starts = balls_of_starts(case, LONG(said["d"]), 4) if "d" in said else [case.given("start/")]
    runs = [case.twin(start) for start in starts]
    if "count" in said:
        runs.insert(0, entered(case, said))
    for run in runs:
        near_zeros(case, said, run, lambda run: run.step(eta), max(case.few, case.cap // len(runs)))


def entered(case: Case, said: dict[str, str]) -> Twin:
    """The end of the stored steps, which is one of the starts that the sentence behind is about."""
    run = follow(case, said)
    at_most(run.away(case.anchor), said["d"], "distance at the end of the stored steps")
    return run


def epochs(case: Case, said: dict[str, str]) -> None:
    """Theorem 5: epochs in any order, of the stored batches or of free ones."""
    updated(case, said, "other", "")
    eta, size = stored(said["eta"]), int(said.get("most", 1))
    rng = random.Random(int(case.rng.integers(2**31)))
    fixed = None
    if "stored" in said:
        numbers = case.document["claims"]["partition"]
        fixed = [[i for i in range(case.n) if numbers[i] == j] for j in sorted(set(numbers))]
        require(len(numbers) == case.n, "the stored batches")
    require(size <= case.n, "the size of a batch")

    def epoch(run: Twin) -> None:
        rows = list(range(case.n))
        rng.shuffle(rows)
        batches = fixed
        if batches is None:
            batches = []
            while rows:
                k = rng.randint(1, size)
                batches.append(rows[:k])
                rows = rows[k:]
        for batch in rng.sample(batches, len(batches)):
            run.step(eta, batch)

    runs = [case.twin(start) for start in balls_of_starts(case, LONG(said["d"]), 3)]
    if "count" in said:
        runs.insert(0, entered(case, said))
    for run in runs:
        near_zeros(case, said, run, epoch, max(3, case.cap // len(runs) // case.n))


def sampling(case: Case, said: dict[str, str]) -> None:
    """Theorem 6: random batches; with a small probability of failure no run may leave the ball."""
    updated(case, said, "other", "")
    eta, steps, size = stored(said["eta"]), int(said["steps"]), int(said["taken"])
    require(size <= case.n == int(said["all"]), "the sizes of batch and data")
    chance, later = LONG(said["chance"]), LONG(said["later"])
    require(said["chance"] == said["chance_too"], "two probabilities")
    runs = [case.twin(start) for start in balls_of_starts(case, LONG(said["d"]), 3)]
    if "count" in said:
        runs.insert(0, entered(case, said))
    left = bad = 0
    cap = max(case.few, case.cap // len(runs))
    for run in runs:
        outside = False
        for _ in range(min(steps, cap) if steps <= cap else cap):
            run.step(eta, case.rng.permutation(case.n)[:size])
            away, slack = run.away(case.anchor)
            outside = outside or bool(away > LONG(said["end"]) + slack)
        left += outside
        if steps <= cap:
            loss, slack = run.measure(case.loss)
            bad += bool(loss > LONG(said["epsilon"]) + slack)
    for count, risk, what in ((left, chance, "left the ball"), (bad, chance + later, "kept a larger loss")):
        rare = math.comb(len(runs), count) * float(min(risk, 1)) ** count
        require(count == 0 or rare > 1e-6, f"{count} of {len(runs)} runs {what}, said is a probability of {risk:.3g}")


def orders(case: Case, said: dict[str, str]) -> None:
    """Theorem 7: any batches in any order; one run repeats a batch, one takes the batch that leads farthest."""
    updated(case, said, "other", "")
    eta, steps, size = stored(said["eta"]), int(said["steps"]), int(said.get("most", 1))
    require(size <= case.n, "the size of a batch")
    cap = max(case.few, case.cap // 4)
    for kind, start in enumerate(balls_of_starts(case, LONG(said["d"]), 4)):
        run, fixed = case.twin(start), case.rng.permutation(case.n)[:size]
        for k in range(min(steps, cap)):
            batch = fixed if kind % 2 == 0 else case.rng.permutation(case.n)[: 1 + int(case.rng.integers(size))]
            if kind == 3:
                choices = [case.rng.permutation(case.n)[:size] for _ in range(3)]
                way = run.theta - case.anchor
                batch = min(choices, key=lambda rows: float(way @ case.gradient(case.nets[0], run.theta, rows)))
            run.step(eta, batch)
            at_most(run.away(case.anchor), said["end"], f"distance from the stored weights after step {k + 1}")


def ridge(case: Case, said: dict[str, str]) -> None:
    """Theorem 10: weight decay, from every start in the ball."""
    eta, decay, steps = stored(said["eta"]), stored(said["decay"]), int(said["steps"])
    centre = case.given("centre/") if said["where"] == "the centre" else np.zeros_like(case.anchor)
    share, radius = 1 - LONG(said["rate"]), LONG(said["far"])

    def slope(net: Net, theta: np.ndarray) -> np.ndarray:
        return case.gradient(net, theta) + net.dtype(decay) * (theta - centre.astype(net.dtype))

    def value(net: Net, theta: np.ndarray) -> Any:
        away = theta - centre.astype(net.dtype)
        return case.loss(net, theta) + net.dtype(decay) * (away * away).sum() / 2

    def stationary(theta: np.ndarray) -> np.ndarray:
        before = math.inf
        if case.large:
            raise UndecidedError("the Jacobian is too large")
        for _ in range(400):  # Gauss and Newton: (JᵀJ + decay)⁻¹ = (1 − Jᵀ (JJᵀ + decay)⁻¹ J) / decay
            g, j = slope(case.nets[0], theta), case.slope(theta)
            inner = np.linalg.solve(j @ j.T + float(decay) * np.eye(len(j)), (j @ g.astype(np.float64)))
            move = (g - (j.T @ inner).astype(LONG)) / decay
            size = norm(move)
            if not np.isfinite(size):
                break
            theta = theta - move
            if size <= 1e-18 * (1 + norm(theta)) or (size >= before and size <= 1e-15 * (1 + norm(theta))):
                return theta
            before = min(before, size)
        raise UndecidedError("no stationary point was found")

    goal = stationary(case.anchor)
    end, rounding = LONG(said["end"]), 1e-16 * (1 + norm(goal))
    at_most((norm(goal - case.anchor), rounding), said["near"], "distance of the minimum from the stored weights")
    lowest = value(case.nets[0], goal)
    starts = balls_of_starts(case, radius, 4)
    cap = max(case.few, case.cap // len(starts))
    for start in starts:
        run = case.twin(start)
        before = norm(run.theta - goal)
        for k in range(cap + 1):
            if k == steps:
                most, loose = run.measure(value)
                at_most((most - lowest, loose + 1e-17 * abs(lowest)), said["epsilon"], f"regularized loss after {k}")
            run.update(lambda net, theta: theta - net.dtype(eta) * slope(net, theta))
            after, slack = run.away(goal)
            at_most((after, slack + rounding), share * before, f"distance to the minimum after step {k + 1}", True)
            at_most(run.away(case.anchor), end, f"distance from the stored weights after step {k + 1}")
            before = after
    other = "global" in said["what"]
    tries = [case.anchor + 5 * (1 + radius) * v for v in case.directions(case.anchor, 2)] if other else []
    for theta in [] if case.heavy else [*starts[:2], *tries]:
        try:
            found = stationary(theta)
        except UndecidedError:
            continue
        inside = norm(found - case.anchor) <= radius
        if inside and not other:
            require(norm(found - goal) <= 1e-9 * (1 + norm(goal)), "there are two stationary points")
        if other or inside:
            lower = value(case.nets[0], found)
            require(lower >= lowest - 1e-14 * (1 + abs(lowest)), "there are weights with a lower regularized loss")


def momentum(case: Case, said: dict[str, str]) -> None:
    """Theorem 9: the loss after k steps, the way, and the loss at the end."""
    require((case.least > 0) == ("least" in said), "whether zero loss can be reached")
    beta, eta, steps = stored(said["beta"]), stored(said["eta"]), int(said["steps"])
    share, factor = 1 - LONG(said["rate"]), LONG(said["factor"])
    run = case.twin(case.anchor)
    speeds: list[Any] = [np.zeros(len(case.anchor), net.dtype) for net in case.nets]
    value, slack = run.residual()
    case.faint = bool(value <= 10 * slack)
    first, power = value**2 / 2, LONG(1)
    for k in range(case.cap + 1):
        if k == steps:
            at_most((value**2 / 2, value * slack + slack**2), said["epsilon"], f"loss after {steps} steps")
        speeds = [net.dtype(beta) * v - net.dtype(eta) * case.gradient(net, theta)
                  for net, theta, v in zip(case.nets, run.at, speeds, strict=True)]  # fmt: skip
        run.at = [theta + v for theta, v in zip(run.at, speeds, strict=True)]
        power = power * share
        value, slack = run.residual()
        at_most((value**2 / 2, value * slack + slack**2), factor * power * first, f"loss after step {k + 1}", True)
        at_most(run.away(), said["end"], f"way after step {k + 1}")


def shortest(case: Case, net: Net, theta: np.ndarray) -> np.ndarray:
    """Return θ − J⁺r, the step of Gauss and Newton: a factor in float64, refined in the precision of `net`."""
    roots = np.repeat(case.roots.astype(net.dtype), net.rows)[:, None]
    j, r = roots * net.at(theta, case.first).jacobian(), case.apart(net, theta)
    coarse = j.astype(np.float64)
    values, vectors = np.linalg.eigh(coarse @ coarse.T)
    solved = np.zeros(len(r), net.dtype)
    for _ in range(4):
        left = r - j @ (j.T @ solved)
        solved = solved + (vectors @ ((vectors.T @ left.astype(np.float64)) / values)).astype(net.dtype)
    return theta - j.T @ solved


def newton(case: Case, said: dict[str, str]) -> None:
    """Theorem 13: what a step does to the residual, how far the weights move, the loss after so many steps."""
    require((case.least > 0) == ("least" in said), "whether zero loss can be reached")
    if case.large:
        raise UndecidedError("the Jacobian is too large")
    run, steps = case.twin(case.anchor), int(said["steps"])
    before, slack = run.residual()
    case.faint = bool(before <= 10 * slack)
    for k in range(max(steps, 3) + 1):
        if k == steps:
            at_most((before**2 / 2, before * slack + slack**2), said["epsilon"], f"loss after {steps} steps")
        run.update(lambda net, theta: shortest(case, net, theta))
        after, loose = run.residual()
        bound = LONG(said["square"]) * before**2
        at_most((after, loose + 2 * LONG(said["square"]) * before * slack), bound, f"residual after step {k + 1}", True)
        at_most(run.away(), said["end"], f"way after step {k + 1}", True)
        before, slack = after, loose


def number(name: str) -> str:
    """Return a group for a number."""
    return rf"(?P<{name}>{NUMBER})"


def whole(name: str) -> str:
    """Return a group for a whole number."""
    return rf"(?P<{name}>\d+)"


def counted(unit: str = "step") -> str:
    """Return the group for steps or epochs, and whether they are more."""
    return rf"{whole('steps')}(?P<more> more)? {unit}s?"


def update(which: str, constant: str) -> str:
    """Return the pattern of a formula of stochastic gradient descent."""
    each = rf"(?P<each_{which}>½‖f − y‖²|ℓ\(y f\), ℓ being the \w+ loss)"
    later = rf"(?P<later_{which}> at the times from the second on)?"
    return rf"Stochastic gradient descent θ ← θ − {constant} · \(sum over the batch of the gradients of {each}{later}\)"


STORED = update("one", rf"{number('constant')} · {whole('over')}/{whole('under')}")
COURSE = (
    rf"(?:Gradient descent with step size {number('size')}|{STORED}, with the stored batches of "
    rf"{whole('stored_batch')} in their order), started at the start weights,"
)
LED = rf"comes within {number('far')} of these weights in {whole('count')} steps?"
MARGIN = rf"(?:, and every example is on the right side by at least {number('margin')})?"
ORIGIN = (
    rf"(?:Gradient descent with step size {number('eta')} from these weights|{COURSE} {LED}"
    rf"(?:, where the loss is at most {number('there')}{MARGIN})?, and from there (?:it|gradient descent with step "
    rf"size {number('other')}))"
)
GOAL = "(?:zero loss|(?P<least>the least loss that any function of the inputs has))"
EXIST = (
    rf"Weights with (?:zero loss|(?P<lowest>the least loss that any function of the inputs has)) exist within the "
    rf"distance {number('radius')} of these weights\."
)
ABOVE = "(?P<above> more than that least loss)?"
ENTERED = rf"(?:{COURSE} {LED}\. )?"
SGD = rf"{ENTERED}{update('other', number('eta'))}, from every start within {number('d')} of these weights"


ROWS = (
    rf"(?:(?:All {whole('all_')} rows are|At least {whole('right')} of {whole('all')} rows are) on the right side\. )?"
)
NAMED = (
    "(?:half the sum of squares|half the mean over the rows of ‖f − y‖²|the mean logistic loss|"
    "the mean over the rows of the sum of the logistic losses of all outputs|"
    "the mean softmax cross-entropy)"
)
SIZED = (
    rf"(?:step size {number('eta')}|step sizes 1 / \({number('growth')} \(1 − exp\(−L\)\)\), L being its value before "
    "the step)"
)


def ends(unit: str) -> str:
    """Return the pattern of what is left of distance and loss."""
    return (
        rf"each {unit} multiplies the distance to the nearest of the global minima that lie within "
        rf"{number('ball')} of these weights by at most 1 - {number('rate')}, the "
        rf"weights stay within {number('end')} of these weights, and after {counted(unit)} the loss is at most "
        rf"{number('epsilon')}{ABOVE}\."
    )


def _sized(check: Callable[[Case, dict[str, str]], None]) -> Callable[[Case, dict[str, str]], None]:
    """Name the step size that counts behind the stored steps."""

    def run(case: Case, said: dict[str, str]) -> None:
        if "other" in said:
            said = {**said, "eta": said["other"]}
        elif "size" in said and "eta" not in said:
            said = {**said, "eta": said["size"]}
        require("eta" in said or check is finite, "there is no step size")
        require(("other" in said) == ("stored_batch" in said) or check is finite, "another step size without batches")
        check(case, said)

    return run


FORMS: list[tuple[str, Callable[[Case, dict[str, str]], None]]] = [
    (
        rf"{ORIGIN} converges to (?:zero loss|a global minimum, the least loss that any function of the inputs has, "
        rf"between {number('low')} and {number('high')} \({whole('alike')} rows have the input of another row, and "
        rf"some of them another target\)): each step multiplies the residual(?: from the means of equal rows)? by at "
        rf"most 1 - {number('rate')}, the weights move by less than {number('end')}, and after {counted()} "
        rf"the loss is at most {number('epsilon')}{ABOVE}\.(?: {EXIST})?",
        _sized(descent),
    ),
    (EXIST, exists),
    (
        rf"{ORIGIN} lowers the mean logistic loss at every step until it is at most {number('epsilon')}, after at most "
        rf"{counted()}\.",
        _sized(logistic),
    ),
    (
        rf"{ROWS}(?P<zero>The training error is zero\. )?Every margin is at least {number('margin')}\."
        rf"(?: The (?:logistic loss|softmax cross-entropy) is at most {number('loss')}\.)?",
        fit,
    ),
    (
        rf"{ROWS}(?:Every margin is at least {number('margin')}\. )?At these weights {NAMED} is at most "
        rf"{number('now')}\. Gradient descent on the (?P<alone>read-out) alone from these weights with {SIZED} never "
        rf"raises it, and after {counted()} it is at most {number('epsilon')}"
        rf"(?P<vanishes>; it tends to 0, the infimum over all weights of the network)?\.",
        falling,
    ),
    (
        rf"{ROWS}(?:Every margin is at least {number('margin')}\. )?At these weights {NAMED} is at most "
        rf"{number('now')}\. Gradient descent from these weights with {SIZED},? lowers it at every step until it is at "
        rf"most {number('epsilon')}, after at most {counted()}\.",
        falling,
    ),
    (rf"Equal inputs have different targets: the loss is never below {number('least')}\.", impossible),
    (
        rf"{COURSE} has a loss of at most {number('loss')} after {whole('taken')} steps?{MARGIN}\. It {LED}\.",
        _sized(finite),
    ),
    (
        rf"{ENTERED}Gradient descent with step size {number('eta')} from (?:the stored start|every start within "
        rf"{number('d')} of these weights) converges to {GOAL}: {ends('step')}",
        basin,
    ),
    (
        rf"{SGD} converges to zero loss, whatever the order of the batches, if every epoch uses every example once, in "
        rf"(?:(?P<stored>the stored batches)|batches of at most {whole('most')} examples, chosen in any way|batches of "
        rf"one example, chosen in any way): {ends('epoch')}",
        epochs,
    ),
    (
        rf"{SGD}, each batch {whole('taken')} of the {whole('all')} examples drawn at random without replacement and "
        rf"independently of the others, stays within {number('end')} of these weights for ever and converges to zero "
        rf"loss, with a probability of at least 1 - {number('chance')}; and after {counted()} the loss is "
        rf"at most {number('epsilon')} with a probability of at least 1 - {number('chance_too')} - {number('later')}\.",
        sampling,
    ),
    (
        rf"{SGD} stays within {number('end')} of these weights for {counted()}, whatever batches of (?:at "
        rf"most {whole('most')} examples|one example) are taken, in any order and however often\.",
        orders,
    ),
    (
        rf"Gradient descent with step size {number('eta')} on the loss plus {number('decay')}/2 times the squared "
        rf"distance of the trained weights from (?P<where>the centre|zero), from every start within {number('far')} of "
        rf"these weights, converges to (?P<what>.*?); it lies within {number('near')} of these weights\. Each step "
        rf"multiplies the distance to it by at most 1 - {number('rate')}, the weights stay within {number('end')} of "
        rf"these, and after {counted()} the regularized loss is at most {number('epsilon')} more than its "
        rf"value there\.",
        ridge,
    ),
    (
        rf"Gradient descent with momentum {number('beta')} and step size {number('eta')} \(.*?\) from these weights "
        rf"with Δ = 0 converges to {GOAL}: after k steps what the loss is above that is at most {number('factor')} "
        rf"\(1 - {number('rate')}\)\^k times what it was at first, the weights move by less than {number('end')}, and "
        rf"after {counted()} the loss is at most {number('epsilon')}{ABOVE}\.",
        momentum,
    ),
    (
        rf"Gauss–Newton with whole steps \(θ ← θ \+ Δ, of all Δ that minimize ‖f − y \+ JΔ‖ the shortest\) from these "
        rf"weights converges to {GOAL}: the weights stay within {number('end')} of these, each step takes the "
        rf"residual(?: from the means of equal rows)? to at most {number('square')} times its square, and after "
        rf"{counted()} the loss is at most {number('epsilon')}{ABOVE}\.",
        newton,
    ),
]
