"""The losses whose steps are followed, of outputs in either arithmetic.

ℓ'' of a margin z that is known within ρ is at most c(ℓ', z, ρ), with what is known of ℓ'(z) = −q:

    logistic      ℓ'' = q (1 − q), which changes by at most |dq|, and by at most 0.0963 |dz|
    exp_linear    ℓ'' = q where z ≥ 0, and q changes by at most |dz|; 0 below 0
    hinges        a constant where z < 1 (of huber_hinge where 0 < z < 1), else 0

Of `cross_entropy`, log Σ_c exp(f_c − f_y) with the class y whose target is 1, only the value is known here.

Where ℓ'' jumps, ℓ' is still Lipschitz with the larger of both sides, and that is all that is used.
"""

import math
from typing import Any

import numpy as np
from flint import arb  # pyright: ignore[reportAttributeAccessIssue]

from wideproof_verify import floats
from wideproof_verify.arithmetic import BALLS, Arithmetic, Array, above, balls
from wideproof_verify.floats import Floats
from wideproof_verify.functions import MARGIN_LOSSES


class Loss:
    """A loss of the outputs, summed or averaged over a batch: ℓ' and a bound of ℓ''."""

    def __init__(self, name: str, reduction: str):
        self.name, self.mean = name, reduction == "mean"
        self.pair, self.curvature = MARGIN_LOSSES.get(name, (None, 1))

    def slopes(self, outputs: Array, y: np.ndarray, ops: Arithmetic) -> Array:
        """Return ℓ' of every output: f − y, or y ℓ'(yf)."""
        if self.pair is None:
            return outputs - ops.lift(y)
        found = self._each(1, ops.balls(outputs), y) * balls(y)
        return floats.from_balls(found, outputs.low is not None) if isinstance(outputs, Floats) else found

    def bends(self, outputs: Array, slopes: Array, y: np.ndarray, moved: arb) -> np.ndarray | None:
        """Return float64 bounds of ℓ'' for every output, where outputs move by at most `moved`; `None` where all are 1.

        The targets of these losses are 1 and −1.
        """
        if self.pair is None:
            return None

        def bend(z: arb, q: arb) -> float:
            if self.name == "logistic":
                return above(q * (1 - q) + 0.0963 * moved)
            if self.name == "exp_linear":
                return 0.0 if z < 0 else above(q + moved)
            return 0.0 if z >= 1 or (self.name == "huber_hinge" and z <= 0) else math.inf

        z, q = balls(y) * BALLS.lift(outputs) + moved * arb(0, 1), abs(BALLS.lift(slopes))
        found: Any = np.frompyfunc(bend, 2, 1)(np.asarray(z), np.asarray(q))
        return np.fmin(found.astype(np.float64), float(self.curvature))  # what is no number is not below it

    def value(self, outputs: Any, y: np.ndarray) -> arb:
        """Return the loss of outputs that are balls."""
        if self.name == "cross_entropy":
            f = np.asarray(outputs)
            apart = (np.delete(f[:, i], own) - f[own, i] for i, own in enumerate(y.argmax(axis=0)))
            return sum((sum((d.exp() for d in each), arb(0)).log1p() for each in apart), arb(0)) / y.shape[1]
        total = ((outputs - balls(y)) ** 2).sum() / 2 if self.pair is None else self._each(0, outputs, y).sum()
        return total / y.shape[1] if self.mean else total

    def _each(self, which: int, outputs: Any, y: np.ndarray) -> Any:
        pair: Any = self.pair
        return np.frompyfunc(lambda z: pair(z)[which], 1, 1)(balls(y) * outputs)

    def factor(self, rows: int, batch: int) -> arb:
        """Return what multiplies the sum over a batch: its expectation is the loss of all rows."""
        return arb(1) / batch if self.mean else arb(rows) / batch

    def __str__(self) -> str:
        if self.pair is None:
            if self.name == "cross_entropy":
                return "the mean softmax cross-entropy"
            return "half the mean over the rows of ‖f − y‖²" if self.mean else "half the sum of squares"
        return f"the mean {self.name} loss"
