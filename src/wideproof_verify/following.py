r"""The steps of training, followed from the start, with a bound of the distance to gradient descent without rounding.

The claim is about θ_{k+1} = θ_k − η_k ∇ Σ_{i∈B_k} ℓ(f_i) in exact arithmetic. Points θ̂_k are computed, each from the
one before with a local error δ_k, and if ‖θ_k − θ̂_k‖ ≤ ε_k, then by the mean value inequality

    ε_{k+1} = G_k ε_k + δ_k,   G_k = sup ‖I − η_k ∇²L‖ ≤ max(1 + η_k N_k, η_k (ℓ''‖J‖² + N_k) − 1)

on the ball of radius ε_k around θ̂_k (`growth`).
"""

import math
from dataclasses import dataclass, field

import numpy as np
from flint import ctx  # pyright: ignore[reportAttributeAccessIssue]

from wideproof_verify import near
from wideproof_verify.arithmetic import Balls, above, arb, norm
from wideproof_verify.graphs import Network
from wideproof_verify.growth import Norms, Point, Reach
from wideproof_verify.losses import Loss, contained
from wideproof_verify.near import Near
from wideproof_verify.networks import Anchor
from wideproof_verify.reading import Start

SPARE = 4  # bits of a hint that double-double may miss before balls are taken


class LostError(Exception):
    """The steps cannot be followed any further."""


@dataclass
class Tube:
    """Where exact gradient descent is: within `off` of `point`; `course` has (ε, bits, growth, ρ) for every step."""

    point: dict[str, Balls]
    off: arb
    course: list[tuple[float, int, float, float]] = field(default_factory=list)

    def outputs(self, net: Network, fixed: dict[str, np.ndarray], x: np.ndarray) -> Balls:
        """Return balls of the outputs, (outputs, examples), at every point of the ball around the last one."""
        state, apart = _rounded(self.point, 53)
        plain = {**fixed, **{name: a.mid for name, a in state.items()}}
        moved = Reach(Anchor(net, plain, x, large=True), plain, np.ones(len(x)), Norms()).moved(self.off + apart)
        finer, _ = _rounded({**{name: Near(a) for name, a in fixed.items()}, **self.point}, 100)
        found = contained(Anchor(net, finer, x, large=True).outputs)
        return found + arb(0, 1) * moved


def follow(net: Network, fixed: dict[str, np.ndarray], start: Start, x: np.ndarray, y: np.ndarray, loss: Loss) -> Tube:
    """Follow the steps from the stored start; `fixed` are all weights, of which those not trained are used.

    `start.bits[k]` says that a local error of 2^-bits is small enough at step k: it decides the arithmetic (float64,
    double-double, balls), and nothing is concluded from it.
    """
    here: dict[str, Balls] = {name: Near(start.weights[name]) for name in net.trained}
    tube, norms, squares, rows = Tube(here, arb(0)), Norms(), {}, np.arange(len(x))
    for k in range(start.steps):
        at = rows if start.batches is None else start.batches[k]
        eta = arb(start.step_size) * loss.factor(len(x), len(at))
        state, apart = _rounded(here, 53)
        plain = {**fixed, **{name: a.mid for name, a in state.items()}}
        radius, known = tube.off + apart, squares if start.batches is None else {}
        point = Point(net, plain, x[at], y[:, at], loss, norms, known, radius)
        factor, speeds = point.growth(eta, radius)
        if not factor.is_finite():
            raise LostError(f"after {k} of {start.steps} steps nothing bounds the distance to exact gradient descent")
        after, delta = _stepped(state, point.anchor.gradient(point.seeds), eta)
        lost, bits, clear = factor * apart + delta, 53, point.clear(point.anchor, speeds, radius)
        if not (lost <= arb(2) ** -start.bits[k] and clear):
            lacking = math.log2(max(float(above(delta)), 1e-300)) + start.bits[k]
            wide = 128 + 32 * math.ceil(max(lacking, 44) / 32)
            for bits in (100, wide) if lacking < 44 else (wide,):
                with ctx.workprec(max(bits, 128)):
                    eta = arb(start.step_size) * loss.factor(len(x), len(at))
                    state, apart = _rounded(here, bits)
                    others, _ = _rounded({name: Near(a) for name, a in fixed.items()}, bits)  # not in float64
                    anchor = Anchor(net, {**others, **state}, x[at], large=bits <= 100, keep=True)
                    seeds = loss.slopes(anchor.outputs, y[:, at])
                    after, delta = _stepped(state, anchor.differentiate(seeds).gradient(seeds), eta)
                    lost = factor * apart + delta
                    clear = point.clear(anchor, speeds, tube.off + apart)
                if clear and lost <= arb(2) ** (SPARE - start.bits[k]):
                    break
        if not clear:
            raise LostError(
                f"at step {k} of {start.steps} a pre-activation is so near 0 that its side is not known: "
                "follow it with more bits"
            )
        error = point.rho + arb(loss.curvature) * point.moved(radius)
        tube.off = (factor * tube.off + lost).upper()
        here = tube.point = after
        tube.course.append((float(above(tube.off)), bits, float(above(factor)), float(above(error))))
    return tube


def _stepped(here: dict[str, Balls], gradient: dict[str, Balls], eta: arb) -> tuple[dict[str, Balls], arb]:
    """Return the middle of θ − η∇L, and how far the exact one may be from it."""
    after, square = {}, arb(0)
    for name, weight in here.items():
        new = weight - eta * gradient[name]
        if isinstance(new, Near):
            after[name], rest = near.exact(new), norm(Near(new.rad))
        else:
            after[name], rest = np.frompyfunc(arb.mid, 1, 1)(new), norm(np.frompyfunc(arb.rad, 1, 1)(new))
        square = square + rest * rest
    return after, square.sqrt().upper()


def _rounded(here: dict[str, Balls], bits: int) -> tuple[dict[str, Balls], arb]:
    """Return the point in an arithmetic of so many bits (53: float64, 100: double-double), and how far that is."""
    found, square = {}, arb(0)
    for name, weight in here.items():
        new, rest = weight, arb(0)
        if bits > 100 and isinstance(weight, Near):
            new = near.balls_of(weight)
        elif bits <= 100 and not isinstance(weight, Near):
            new = near.fine(weight)
            new, rest = near.exact(new), norm(Near(new.rad))
        if bits == 100 and new.low is None:
            new = Near(new.mid, None, np.zeros(new.shape))
        if bits == 53 and new.low is not None:
            new, rest = Near(new.mid), rest + norm(Near(new.low))
        found[name], square = new, square + rest * rest
    return found, square.sqrt().upper()
