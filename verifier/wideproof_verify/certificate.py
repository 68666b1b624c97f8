"""A certificate as a value, and one attempt at proving it."""

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple, NoReturn

import numpy as np
from flint import arb  # pyright: ignore[reportAttributeAccessIssue]

from wideproof_verify.arithmetic import FLOATS, Arithmetic, balls, smaller
from wideproof_verify.bounds import Bounds
from wideproof_verify.eigenvalues import Symmetric
from wideproof_verify.graphs import Network
from wideproof_verify.losses import Loss
from wideproof_verify.passes import Anchor
from wideproof_verify.refusals import NotProvedError, is_number, require

RELATIONS = {
    "≤": (operator.le, operator.gt), "<": (operator.lt, operator.ge),
    "≥": (operator.ge, operator.lt), ">": (operator.gt, operator.le),
}  # fmt: skip


class Theorem(NamedTuple):
    """How it is proved, the claims it needs and allows, the losses it is about, and whether it may have a start."""

    prove: Callable[["Proof"], str]
    needed: frozenset[str]
    allowed: frozenset[str]
    losses: tuple[str, ...]
    start: bool


THEOREMS: dict[str, Theorem] = {}


def theorem(needed: str, allowed: str = "", *, losses: tuple[str, ...] = ("squared",), start: bool = False) -> Any:
    """Register a function that proves a theorem under its own name."""

    def register(prove: Callable[["Proof"], str]) -> Callable[["Proof"], str]:
        claims = frozenset(needed.split()), frozenset(allowed.split())
        THEOREMS[prove.__name__] = Theorem(prove, *claims, losses, start)
        return prove

    return register


@dataclass(frozen=True)
class Start:
    """Where training began, as matrices of the trained weights, and how it went.

    `batches` are the rows of every step, (steps, batch size), or `None` for all of them. A local error of 2^-`bits`
    is small enough at each step, for the end to be within `distance` of the anchor: hints and a claim. `tables` are the
    steps at whose points norms of products of layers are to be taken, a hint too.
    """

    weights: dict[str, np.ndarray]
    step_size: float
    steps: int
    batches: np.ndarray | None
    bits: list[float]
    distance: float
    tables: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Certificate:
    """What the files say; `weights` are matrices with one row per unit, `targets` is (scored outputs, examples).

    `subject` says in words what a verdict is about, `digests` are of every array and of the graph.
    """

    theorem: str
    claims: dict[str, Any]
    network: Network
    sharp: bool
    x: np.ndarray
    targets: np.ndarray
    weights: dict[str, np.ndarray]
    subject: str
    digests: dict[str, str]
    loss: Loss
    start: Start | None = None
    begun: dict[str, np.ndarray] | None = None
    centre: dict[str, np.ndarray] | None = None
    goal: dict[str, np.ndarray] | None = None


class Rows(NamedTuple):
    r"""Rows with equal inputs as one example: its target is their mean, and it counts as often as they are.

    ½ Σ_i |f(x_i) − y_i|² = ½ Σ_g r_g |f(x_g) − ȳ_g|² + L*,   L* = ½ Σ_g Σ_{i ∈ g} |y_i − ȳ_g|²

    for every function f: L* is the `least` loss of any function of these inputs, and gradient descent on all rows is
    gradient descent on the first term. `first` row and `counts` of every group, `means` of the targets (outputs,
    groups). `clash`: whether equal inputs have different targets, which alone makes L* positive.
    """

    first: np.ndarray
    counts: np.ndarray
    means: Any
    least: arb
    clash: bool

    @property
    def repeated(self) -> bool:
        """Whether any input is there twice."""
        return bool((self.counts > 1).any())


def grouped(x: np.ndarray, targets: np.ndarray) -> Rows:
    """Group rows whose inputs are equal numbers; `targets` is (outputs, rows)."""
    flat = np.ascontiguousarray(x.reshape(len(x), -1)) + 0.0  # -0.0 becomes 0.0
    whole = flat.view([("", np.void, flat.itemsize * flat.shape[1])])[:, 0]
    _, first, inverse, counts = np.unique(whole, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first)
    place = np.argsort(order)[inverse.ravel()]
    first, counts = first[order], counts[order]
    if not np.array_equal(flat, flat[first][place]):
        raise ValueError("rows of a group are not equal")
    means: Any = targets[:, first]
    unequal = np.zeros(len(first), bool)
    np.logical_or.at(unequal, place, (targets != means[:, place]).any(axis=0))
    least = arb(0)
    if unequal.any():
        means = balls(means)
        for g in np.flatnonzero(unequal):
            y = balls(targets[:, place == g])
            means[:, g] = mean = y.sum(axis=1) / int(counts[g])
            least += ((y - np.broadcast_to(mean[:, None], y.shape)) ** 2).sum() / 2
    return Rows(first, counts, means, least, bool(unequal.any()))


class Proof:
    """One attempt in one arithmetic: `checks` are rows (inequality, claimed, found), `k` the claims as balls."""

    def __init__(self, certificate: Certificate, ops: Arithmetic):
        self.c, self.ops, self.checks, self.course = certificate, ops, [], []
        self.k = SimpleNamespace(**{name: arb(v) for name, v in certificate.claims.items() if is_number(v)})
        self.n = arb(len(certificate.x))
        self.off = arb(0 if certificate.start is None else certificate.start.distance)

    def record(self, name: str, holds: bool | None, claimed: Any, found: Any) -> None:
        """Note an inequality, and stop unless it is proved; bounds in float64 refute nothing but an eigenvalue."""
        self.checks.append((name, float(arb(claimed)), None if found is None else float(arb(found))))
        if not holds:
            holds = None if self.ops is FLOATS and "λ_min" not in name else holds
            how = "is not decided" if holds is None else "fails"
            again = "" if found is None else f", recomputed {self.checks[-1][2]:.17g}"
            raise NotProvedError(f"{name} {how}: claimed {self.checks[-1][1]:.17g}{again}", holds is not None)

    def need(self, left: str, claimed: Any, relation: str, right: str, found: Any) -> None:
        """Require `claimed relation found`."""
        true, false = RELATIONS[relation]
        holds = True if true(arb(claimed), arb(found)) else False if false(arb(claimed), arb(found)) else None
        self.record(f"{left} {relation} {right}", holds, claimed, found)

    def refuse(self, reason: str) -> NoReturn:
        """Stop where no further bits would help."""
        raise NotProvedError(reason, decided=True)

    def positive(self, *names: str) -> None:
        """Require each of these claims to be positive."""
        for name in names:
            self.need(name, getattr(self.k, name), ">", "0", 0)

    def look(self, prepare: Callable[[Anchor], None] | None = None) -> None:
        """Pass through the network at the stored weights, forward and back; repeated inputs are claimed as such."""
        c, k, rows = self.c, self.k, grouped(self.c.x, self.c.targets)
        named = {"distinct", "least_loss", "least_loss_at_most"} & set(c.claims)
        require(len(named) == (3 if rows.repeated else 0), "distinct and least_loss are claimed where rows repeat only")
        if rows.repeated:
            count = len(rows.first)
            self.record("distinct = number of different inputs", c.claims["distinct"] == count, k.distinct, count)
            self.need("least_loss", k.least_loss, "≥", "0", 0)
            self.need("least_loss", k.least_loss, "≤", "½ Σ |y_i − mean|²", rows.least)
            self.need("least_loss_at_most", k.least_loss_at_most, "≥", "½ Σ |y_i − mean|²", rows.least)
        self.rows = rows
        self.anchor = Anchor(c.network, c.weights, c.x[rows.first], rows.counts, self.ops)
        if prepare is not None:
            prepare(self.anchor)
        self.anchor.differentiate()
        self.bounds, self.g = Bounds(self.anchor, c.sharp), self.anchor.matrix()
        self.r = self.anchor.weighted(self.anchor.outputs - self.ops.lift(rows.means), 1)

    def stairs(self) -> None:
        """M_j = Σ_{i≤j} Λ_i Δ_i and its integral Σ_{i≤j} (M_{i-1} Δ_i + Λ_i Δ_i²/2), Δ_i = t_i − t_{i-1}."""
        self.radii, self.rises = ([arb(v) for v in self.c.claims[name]] for name in ("radii", "lipschitz"))
        self.m, self.integral, self.cells, t, before = [arb(0)], [arb(0)], [], arb(0), arb(0)
        for j, (radius, rise) in enumerate(zip(self.radii, self.rises, strict=True), 1):
            self.need(f"t_{j}", radius, ">", f"t_{j - 1}", t)
            self.need(f"Λ_{j}", rise, "≥", f"Λ_{j - 1}", before)
            cell, t, before = radius - t, radius, rise
            self.cells.append(cell)
            self.integral.append(self.integral[-1] + self.m[-1] * cell + rise * cell * cell / 2)
            self.m.append(self.m[-1] + rise * cell)

    def raised(self) -> Any:
        """Return what is checked for s: JJᵀ, with `constant_sum` added to every entry of an example's own block.

        If the rows of C add up to exactly 0 and its biases to the sum of every row of targets, the residuals of a row
        add up to 0, gradient descent keeps all that, and vectors which do not add up to 0 need not be looked at.
        """
        net, y, c = self.c.network, self.c.targets, self.c
        if "constant_sum" not in c.claims:
            return self.g
        level = c.weights[net.bias].ravel() if net.bias is not None else np.zeros(net.outputs)
        even = all(math.fsum(column) == 0 for column in c.weights[net.read_out].T)
        even = even and all(math.fsum([*row, *-level]) == 0 for row in y.T)
        even = even and not self.anchor.lean and not net.times and net.outputs > 1
        self.record("outputs and targets of a row have the same sum", even, 1, even)
        self.positive("constant_sum")
        if isinstance(self.g, Symmetric):
            self.g = self.g.raised(net.outputs, c.claims["constant_sum"])
        else:
            own = np.tile(np.eye(len(self.g) // net.outputs), (net.outputs, net.outputs))  # rows are (output, example)
            self.g = self.g + balls(own * c.claims["constant_sum"])
        return self.g

    def spectrum(self) -> None:
        """0 < s, s² ≤ λ_min(JJᵀ), raised where sums are constant, and S² ≥ λ_max(JJᵀ), if they are claimed."""
        claims, k, ops = self.c.claims, self.k, self.ops
        self.positive(*(name for name in ("s", "S") if name in claims))
        near = self.near()
        if "S" in claims and self.anchor.lean:
            self.need("S", k.S, "≥", "‖J‖", self.bounds.steepest(ops.largest(self.g)))
        elif "S" in claims:
            self.record("S ≥ ‖J‖", ops.at_most(self.g, k.S * k.S), k.S, near and near[1])
        if "s" in claims:
            up = self.raised()
            near = self.near() if "constant_sum" in claims else near
            self.record("s ≤ √λ_min(JJᵀ)", ops.at_least(up, k.s * k.s), k.s, near and near[0])

    def near(self) -> tuple[float, float] | None:
        """Return the least and the largest singular value of J in float64, for the table, where there are few rows."""
        values = self.g.near() if isinstance(self.g, Symmetric) else np.linalg.eigvalsh(self.ops.middle(self.g))
        if values is None:
            return None
        least, most = np.sqrt(np.maximum(values[[0, -1]], 0))
        return float(least), float(most)

    def lipschitz(self) -> None:
        """Λ_j ≥ Λ(t_j); with ReLU, every sign is kept in the ball of radius t_J."""
        if any(node.activation == "relu" for node in self.c.network.nodes):
            self.record("|z| > how far z can move in the ball of radius t_J", *self.bounds.sign(self.radii[-1]))
        for j, (radius, rise) in enumerate(zip(self.radii, self.rises, strict=True), 1):
            self.need(f"Λ_{j}", rise, "≥", f"Λ(t_{j})", self.bounds.lipschitz(radius))

    def margins(self, f: Any) -> Any:
        """y_i f_i, or with several outputs the own one minus the best other one."""
        y = self.c.targets
        right = (np.abs(y) == 1).all() and (len(y) == 1 or ((y == 1).sum(axis=0) == 1).all())
        require(right and self.c.network.inputs == 1, "the targets are not labels 1 and -1, one 1 for each example")
        if len(y) == 1:
            return (balls(y) * f)[0]
        own = enumerate(y.argmax(axis=0))
        return balls([smaller.reduce(f[j, i] - np.delete(np.asarray(f)[:, i], j)) for i, j in own])
