"""The losses whose steps are followed, of outputs in either arithmetic."""

from typing import Any

import numpy as np
from flint import arb  # pyright: ignore[reportAttributeAccessIssue]

from wideproof_verify import floats
from wideproof_verify.arithmetic import Arithmetic, Array, balls
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

    def value(self, outputs: Any, y: np.ndarray) -> arb:
        """Return the loss of outputs that are balls."""
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
            return "half the mean over the rows of ‖f − y‖²" if self.mean else "half the sum of squares"
        return f"the mean {self.name} loss"
