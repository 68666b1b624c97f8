"""The losses whose steps are followed: values, slopes, and bounds of the curvature."""

from typing import Any

import numpy as np

from wideproof_verify import near
from wideproof_verify.arithmetic import Balls, arb, balls
from wideproof_verify.near import Near


def _sigmoid(z: arb) -> arb:
    return 1 / (1 + (-z).exp())


def _short(z: arb) -> arb:
    return (1 - z).max(arb(0))


# name: the margin z -> (ℓ(z), ℓ'(z)), and a bound of ℓ''
LOSSES: dict[str, tuple[Any, float]] = {
    "logistic": (lambda z: ((-z).exp().log1p(), -_sigmoid(-z)), 0.25),
    "exp_linear": (lambda z: ((1 - z.min(arb(0))) * (-z.max(arb(0))).exp(), -(-z.max(arb(0))).exp()), 1),
    "squared_hinge": (lambda z: (_short(z) ** 2, -2 * _short(z)), 2),
    "half_squared_hinge": (lambda z: (_short(z) ** 2 / 2, -_short(z)), 1),
    "huber_hinge": (lambda z: ((1 - z.max(arb(0))).max(arb(0)) ** 2 / 2 - z.min(arb(0)), -_short(z).min(arb(1))), 1),
}


class Loss:
    """A loss of the outputs, summed or averaged over a batch: ℓ' and a bound of ℓ''."""

    def __init__(self, name: str, reduction: str):
        self.name, self.mean = name, reduction == "mean"
        self.pair, self.curvature = LOSSES.get(name, (None, 1))

    def slopes(self, outputs: Balls, y: np.ndarray) -> Balls:
        """Return ℓ' of every output: f − y, or y ℓ'(yf)."""
        if self.name == "squared":
            return outputs - (Near(y) if isinstance(outputs, Near) else balls(y))
        signs = balls(y)
        found = np.frompyfunc(lambda z: self.pair(z)[1], 1, 1)(signs * contained(outputs)) * signs
        if not isinstance(outputs, Near):
            return found
        return near.close(found) if outputs.low is None else near.fine(found)

    def value(self, outputs: Balls, y: np.ndarray) -> arb:
        """Return the loss."""
        f, signs = contained(outputs), balls(y)
        if self.name == "squared":
            total = ((f - signs) ** 2).sum() / 2
        else:
            total = np.frompyfunc(lambda z: self.pair(z)[0], 1, 1)(signs * f).sum()
        return total / y.shape[1] if self.mean else total

    def factor(self, rows: int, batch: int) -> arb:
        """Return what multiplies the sum over a batch: its expectation is the loss of all rows."""
        return arb(1) / batch if self.mean else arb(rows) / batch


def contained(a: Balls) -> Balls:
    """Return balls that hold the numbers."""
    return near.balls_of(a) if isinstance(a, Near) else a
