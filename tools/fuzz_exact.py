"""A second judge, far beyond long double: steps from a start are followed in 300 bits, and compared as they are.

The network is the judge's (`fuzz_judge.Net`), its numbers are mpmath's. A run in 240 bits goes along: what both differ
by is 2^60 times the error of the finer one, about, so a difference that cannot be seen beside a bound decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import mpmath
import numpy as np
from fuzz_judge import (
    Case,
    Judgement,
    Net,
    UndecidedError,
    ViolatedError,
    require,
    stepped,
    understood,
)
from mpmath import mpf

FINE, COARSE = 300, 240  # bits
WORK, STEPS = 2e6, 20  # products of one judgement, about; steps behind the stored ones, at most
mp: Any = mpmath.mp
lift: Any = np.frompyfunc(mpf, 1, 1)


def _each(both: Callable[[Any], tuple[Any, Any]]) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    return np.frompyfunc(both, 1, 2)


def _sigmoid(z: Any) -> Any:
    return 1 / (1 + mp.exp(-z))


def _softplus(z: Any) -> Any:
    return max(z, mpf(0)) + mp.log1p(mp.exp(-abs(z)))


def _gelu(z: Any) -> tuple[Any, Any]:
    below = mp.erfc(-z / mp.sqrt(2)) / 2
    return z * below, below + z * mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi)


def _mish(z: Any) -> tuple[Any, Any]:
    t = mp.tanh(_softplus(z))
    return z * t, t + z * (1 - t * t) * _sigmoid(z)


TABLE: dict[str, Any] = {
    "softplus": _each(lambda z: (_softplus(z), _sigmoid(z))),
    "sigmoid": _each(lambda z: (_sigmoid(z), _sigmoid(z) * _sigmoid(-z))),
    "tanh": _each(lambda z: (mp.tanh(z), 1 - mp.tanh(z) ** 2)),
    "erf": _each(lambda z: (mp.erf(z), 2 * mp.exp(-z * z) / mp.sqrt(mp.pi))),
    "arctan": _each(lambda z: (mp.atan(z), 1 / (1 + z * z))),
    "sin": _each(lambda z: (mp.sin(z), mp.cos(z))),
    "swish": _each(lambda z: (z * _sigmoid(z), _sigmoid(z) * (1 + z * _sigmoid(-z)))),
    "gelu": _each(_gelu),
    "mish": _each(_mish),
    "elu": _each(lambda z: (z, mpf(1)) if z >= 0 else (mp.expm1(z), mp.exp(z))),
    "softsign": _each(lambda z: (z / (1 + abs(z)), 1 / (1 + abs(z)) ** 2)),
    "identity": _each(lambda z: (z, mpf(1))),
    "relu": _each(lambda z: (max(z, mpf(0)), mpf(z > 0))),
}
MARGIN_LOSSES: dict[str, Any] = {  # margin -> ℓ, ℓ'
    "logistic": _each(lambda z: (_softplus(-z), -_sigmoid(-z))),
    "exp_linear": _each(lambda z: (mp.exp(-z), -mp.exp(-z)) if z >= 0 else (1 - z, mpf(-1))),
    "squared_hinge": _each(lambda z: (max(1 - z, mpf(0)) ** 2, -2 * max(1 - z, mpf(0)))),
    "half_squared_hinge": _each(lambda z: (max(1 - z, mpf(0)) ** 2 / 2, -max(1 - z, mpf(0)))),
    "huber_hinge": _each(
        lambda z: (max(1 - z, mpf(0)) ** 2 / 2, -max(1 - z, mpf(0))) if z >= 0 else (mpf(1) / 2 - z, mpf(-1))
    ),
}


class Run:
    """One course in one precision; yields what has to be at most what."""

    def __init__(self, case: Case, said: dict[str, str]) -> None:
        self.case, self.said = case, said
        self.net = Net(case.config, case.weights, case.x, object, lift, TABLE)
        self.y, self.anchor = lift(case.y), self.net.vector(case.weights)
        self.theta = self.anchor

    def gradient(self, rows: Any) -> np.ndarray:
        """Return the gradient of the sum over some rows, or over all."""
        run, y = self.net.at(self.theta, rows), self.y if rows is None else self.y[rows]
        if self.case.loss_name == "squared":
            return run.pull(run.outputs - y)
        return run.pull(y * MARGIN_LOSSES[self.case.loss_name](y * run.outputs)[1])

    def loss(self) -> Any:
        """Return the loss of all rows."""
        f = self.net.at(self.theta).outputs
        squared = self.case.loss_name == "squared"
        each = (f - self.y) ** 2 / 2 if squared else MARGIN_LOSSES[self.case.loss_name](self.y * f)[0]
        return each.sum() / (self.case.n if self.case.mean else 1)

    def margin(self) -> Any:
        """Return the least margin."""
        f = self.net.at(self.theta).outputs
        if self.y.shape[1] == 1:
            return (self.y * f).min()
        own = [int(np.flatnonzero(row == 1)[0]) for row in self.case.y]
        return min(f[i, j] - max(np.delete(f[i], j)) for i, j in enumerate(own))

    def above(self) -> Any:
        """Return ‖r‖ over the means of equal rows: half its square is the loss above the least one."""
        least = mpf(self.case.least.numerator) / self.case.least.denominator
        whole = self.loss() * (self.case.n if self.case.mean else 1)
        return mp.sqrt(max(2 * (whole - least), mpf(0)))

    def away(self, point: np.ndarray) -> Any:
        """Return a distance."""
        return mp.sqrt(((self.theta - point) ** 2).sum())

    def course(self) -> Iterator[tuple[str, Any, Any]]:
        """Yield (what, value, bound): the end of the stored steps, and what comes behind it."""
        case, said = self.case, self.said
        if "count" in said:
            count, (constant, over, under), rows = stepped(case, said)
            constant = number(said["constant" if "constant" in said else "size"])
            self.theta = self.net.vector({name: case.arrays[f"start/{name}"] for name in case.config["trained"]})
            for k in range(count):
                self.theta = self.theta - constant * over / under * self.gradient(rows[k])
            yield "distance", self.away(self.anchor), mpf(said["far"])
        for name in ("there", "loss"):
            if name in said and case.document["theorem"] in ("finite", "logistic"):
                yield "loss", self.loss(), mpf(said[name])
        if "margin" in said and "count" in said:
            yield "minus the margin", -self.margin(), -mpf(said["margin"])
        if case.document["theorem"] in ("descent", "logistic"):
            yield from self.onwards(number(said["eta" if "eta" in said else "other" if "other" in said else "size"]))

    def onwards(self, eta: Any) -> Iterator[tuple[str, Any, Any]]:
        """Yield what gradient descent does from here on."""
        case, said, begun = self.case, self.said, self.theta
        steps, descent = int(said["steps"]), case.document["theorem"] == "descent"
        least = mpf(case.least.numerator) / case.least.denominator if "above" in said else mpf(0)
        before = self.above() if descent else self.loss()
        for k in range(STEPS):
            if descent and k == steps:
                yield f"loss after {k} more", self.loss() - least, mpf(said["epsilon"])
            if not descent and (before <= mpf(said["epsilon"]) or k == steps):
                yield f"loss after {k} more", before, mpf(said["epsilon"])
                return
            self.theta = self.theta - eta / (case.n if case.mean else 1) * self.gradient(None)
            after = self.above() if descent else self.loss()
            share = 1 - mpf(said["rate"]) if descent else 1
            yield f"what is left after {k + 1} more", after, share * before
            if descent:
                yield f"way after {k + 1} more", self.away(begun), mpf(said["end"])
            before = after


def number(text: str) -> Any:
    """Return a number that is printed as it is stored."""
    return mpf(int(text)) if re.fullmatch(r"[-+]?\d+", text) else mpf(float(text))


def judge_exactly(document: dict[str, Any], arrays: dict[str, np.ndarray], statement: str) -> Judgement:
    """Judge the steps that a sentence speaks of; the answer is "none" where there are none, or too many."""
    try:
        case = Case(document, arrays, statement)
        known = understood(case.body)
        if known is None:
            return Judgement("unread", case.body[:300])
        said = known[1]
        if "count" not in said and document["theorem"] not in ("descent", "logistic"):
            return Judgement("none", "no steps are stored")
        net = case.nets[0]
        uses = sum(net.matrices[t["weight"]].size * int(np.prod(net.grids[k][0], dtype=int))
                   for k, node in enumerate(case.config["nodes"]) for t in node["terms"] if t["weight"])  # fmt: skip
        batch = int(said.get("stored_batch", case.n))
        uses += sum(net.matrices[case.config["read_out"]].size for _ in case.config["sites"])
        if (int(said.get("count", 0)) * batch + STEPS * case.n) * uses * 4 > WORK:
            return Judgement("none", "the steps are too many products")
        both = []
        for bits in (FINE, COARSE):
            with mpmath.workprec(bits):
                both.append(list(Run(case, said).course()))
        with mpmath.workprec(FINE):
            for (what, value, bound), (_, other, limit) in zip(*both, strict=True):
                slack = (abs(value - other) + abs(bound - limit)) * mpf(2) ** -40 + abs(bound) * mpf(2) ** -200
                if not mp.isfinite(value) or slack > max(abs(bound), mpf(2) ** -200) * mpf(2) ** -20:
                    raise UndecidedError(f"{what}: 300 bits are too few")
                require(value <= bound + slack, f"{what}: {mp.nstr(value, 12)} is not at most {mp.nstr(bound, 12)}")
        return Judgement("holds")
    except ViolatedError as error:
        return Judgement("violated", str(error))
    except UndecidedError as error:
        return Judgement("undecided", str(error))
    except (ArithmeticError, LookupError, ValueError, TypeError, AttributeError) as error:
        return Judgement("unread", f"{type(error).__name__}: {error}")
