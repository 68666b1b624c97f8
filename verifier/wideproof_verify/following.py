r"""The steps of training, followed from the start, with a bound of the distance to gradient descent without rounding.

The claim is about θ_{k+1} = θ_k − η_k ∇ Σ_{i∈B_k} ℓ(f_i) in exact arithmetic. Points θ̂_k are computed, each from the
one before with a local error δ_k, and if ‖θ_k − θ̂_k‖ ≤ ε_k, then by the mean value inequality

    ε_{k+1} = G_k ε_k + δ_k,   G_k = sup ‖I − η_k ∇²L‖ ≤ max(1 + η_k N_k, η_k (ℓ''‖J‖² + N_k) − 1)

on the ball of radius ε_k around θ̂_k (`growth`).
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flint import arb, ctx  # pyright: ignore[reportAttributeAccessIssue]

from wideproof_verify import floats
from wideproof_verify.arithmetic import BALLS, FLOATS, Arithmetic, Array, above
from wideproof_verify.certificate import Start
from wideproof_verify.floats import Floats
from wideproof_verify.graphs import Network
from wideproof_verify.growth import Kept, Norms, Point, Reach
from wideproof_verify.losses import Loss
from wideproof_verify.passes import Anchor
from wideproof_verify.refusals import NotProvedError, check
from wideproof_verify.tables import Tables

SPARE = 4  # bits of a hint that double-double may miss before balls are taken
Point_ = dict[str, Any]  # trained weights, exact numbers in one of the arithmetics


def rounded(here: Point_, ops: Arithmetic, fine: bool = False) -> tuple[Point_, arb]:
    """Return the point in an arithmetic (`fine`: double-double), and how far that is."""
    found, square = {}, arb(0)
    for name, weight in here.items():
        if ops is not FLOATS:
            new, rest = ops.lift(weight), arb(0)
        else:
            new, rest = FLOATS.split(weight if isinstance(weight, Floats) else floats.from_balls(weight, fine=True))
            if fine and new.low is None:
                new = Floats(new.mid, None, np.zeros(new.shape))
            elif not fine and new.low is not None:
                new, rest = Floats(new.mid), rest + FLOATS.norm(Floats(new.low))
        found[name], square = new, square + rest * rest
    return found, square.sqrt().upper()


def _plain(here: Point_) -> Point_:
    """Return exact float64 numbers as such."""
    return {name: a.mid if isinstance(a, Floats) else a for name, a in here.items()}


@dataclass
class Tube:
    """Where exact gradient descent is: within `off` of `point`; `course` has (ε, bits, growth, ρ) for every step."""

    point: Point_
    off: arb
    course: list[tuple[float, int, float, float]] = field(default_factory=list)

    def outputs(self, net: Network, fixed: dict[str, np.ndarray], x: np.ndarray, ops: Arithmetic) -> Any:
        """Return balls of the outputs, (outputs, examples), at every point of the ball around the last one."""
        state, apart = rounded(self.point, ops)
        anchor = Anchor(net, {**fixed, **_plain(state)}, x, ops=ops)
        moved = Reach(anchor, np.ones(len(x)), Norms(ops)).moved(self.off + apart)
        finer, _ = rounded({**{name: Floats(a) for name, a in fixed.items()}, **self.point}, ops, fine=True)
        return ops.balls(Anchor(net, finer, x, ops=ops).outputs) + arb(0, 1) * moved

    def distance(self, weights: dict[str, np.ndarray]) -> arb:
        """Bound how far exact gradient descent is from these weights."""
        total = arb(0)
        for name, here in self.point.items():
            ops = FLOATS if isinstance(here, Floats) else BALLS
            total = total + ops.norm(here - ops.lift(weights[name])) ** 2
        return total.sqrt() + self.off


def follow(
    net: Network, fixed: dict[str, np.ndarray], start: Start, x: np.ndarray, y: np.ndarray, loss: Loss, ops: Arithmetic
) -> Tube:
    """Follow the steps from the stored start; `fixed` are all weights, of which those not trained are used.

    `start.bits[k]` says that a local error of 2^-bits is small enough at step k: it decides the arithmetic (float64,
    double-double, balls), and nothing is concluded from it. Neither is from `start.tables`: which steps' points tables
    are made at.
    """
    tube = Tube({name: Floats(start.weights[name]) for name in net.trained}, arb(0))
    norms, whole, rows, tables = Norms(ops), Kept(), np.arange(len(x)), None
    for k in range(start.steps):
        check()
        at = rows if start.batches is None else start.batches[k]
        data, eta = (x[at], y[:, at]), arb(start.step_size) * loss.factor(len(x), len(at))
        state, apart = rounded(tube.point, ops)
        radius, kept = tube.off + apart, whole if start.batches is None else Kept()
        here = {**fixed, **_plain(state)}
        tables = Tables(net, here, x, ops) if k in start.tables else tables
        point = Point(net, here, *data, loss, norms, kept, radius, tables, at)
        factor, speeds = point.growth(eta, radius)
        if not factor.is_finite():
            text = f"after {k} of {start.steps} steps nothing bounds the distance to exact gradient descent"
            raise NotProvedError(text, decided=True)
        after, delta = _stepped(state, point.anchor, point.seeds, eta)
        lost, bits, clear = factor * apart + delta, 53, point.clear(point.anchor, speeds, radius)
        if ops is not FLOATS:
            bits = ctx.prec
        if not (lost <= arb(2) ** -start.bits[k] and clear):
            lacking = math.log2(max(float(above(delta)), 1e-300)) + start.bits[k]
            wide = max(ctx.prec, 128) + 32 * math.ceil(max(lacking, 44) / 32)
            for bits in (100, wide) if lacking < 44 and ops is FLOATS else (wide,):
                with ctx.workprec(max(bits, 128)):
                    eta = arb(start.step_size) * loss.factor(len(x), len(at))
                    anchor, after, apart, delta = _finer(net, fixed, tube.point, bits, data, loss, eta)
                    lost, clear = factor * apart + delta, point.clear(anchor, speeds, tube.off + apart)
                if clear and lost <= arb(2) ** (SPARE - start.bits[k]):
                    break
        if not clear:
            text = f"at step {k} of {start.steps} a pre-activation is so near 0 that its side is not known"
            raise NotProvedError(f"{text}: follow it with more bits", decided=True)
        error = point.rho + arb(loss.curvature) * point.moved(radius)
        tube.off, tube.point = (factor * tube.off + lost).upper(), after
        tube.course.append((float(above(tube.off)), bits, float(above(factor)), float(above(error))))
    return tube


def _finer(
    net: Network, fixed: dict[str, np.ndarray], here: Point_, bits: int, data: tuple, loss: Loss, eta: arb
) -> tuple[Anchor, Point_, arb, arb]:
    """Take a step in double-double (100 bits) or in balls: the pass, the point after it, and both errors."""
    used = FLOATS if bits == 100 else BALLS
    state, apart = rounded(here, used, fine=True)
    others, _ = rounded({name: Floats(a) for name, a in fixed.items()}, used, fine=True)
    anchor = Anchor(net, {**others, **state}, data[0], ops=used, keep=True)
    seeds = loss.slopes(anchor.outputs, data[1], used)
    after, delta = _stepped(state, anchor.differentiate(seeds), seeds, eta)
    return anchor, after, apart, delta


def _stepped(here: Point_, anchor: Anchor, seeds: Array, eta: arb) -> tuple[Point_, arb]:
    """Return the middle of θ − η∇L, and how far the exact one may be from it."""
    gradient, found = anchor.gradient(seeds), {}
    for name, weight in here.items():
        found[name] = anchor.ops.split(weight - eta * gradient[name])
    square = sum((rest * rest for _, rest in found.values()), arb(0))
    return {name: new for name, (new, _) in found.items()}, square.sqrt().upper()
