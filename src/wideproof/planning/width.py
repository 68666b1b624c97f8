r"""How wide: a network is drawn and measured, and doubled until half of the limit's smallest eigenvalue is there.

**The rule.** Start at the smallest power of two that is at least $\max(64, n)$; draw the network (one seed); double
the width until $\lambda_{\min}(G_m) \ge \tfrac12 \lambda_{\min}(G_\infty)$, both matrices at the same width. It is
measured on one draw, not proved, and says nothing about how far the matrix moves while the network learns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from wideproof.data import AnyDataset
from wideproof.kernels import LARGE, gram, limit_gram, predict, spectrum
from wideproof.planning.candidates import Candidate
from wideproof.progress import Progress, Watch, unwatched

ENOUGH = 0.5  # of the limit's smallest eigenvalue
LEAST = 64
MOST_WEIGHTS = 2**26  # half a gigabyte in float64


@dataclass(frozen=True)
class Measured:
    r"""One drawn network beside its limit at the same width.

    Attributes
    ----------
    share
        $\lambda_{\min}(G_m) / \lambda_{\min}(G_\infty)$.
    largest
        $\lambda_{\max}(G_m)$.
    limit_largest
        $\lambda_{\max}(G_\infty)$, at this width.
    steps
        Predicted steps to the target loss with $G_m$, `step_size`, and the drawn network's outputs at the start; `None`
        if it is not reached.
    outputs
        How many outputs the drawn network had: all, or one where all would make too large a matrix.
    """

    width: int
    share: float
    largest: float
    limit_largest: float
    steps: int | None
    outputs: int

    @property
    def enough(self) -> bool:
        """Whether the share is at least one half."""
        return self.share >= ENOUGH

    @property
    def step_size(self) -> float:
        r"""$1 / \max(\lambda_{\max}(G_m), \lambda_{\max}(G_\infty))$, for half the sum of squares."""
        return _step_size(self.largest, self.limit_largest)


def find_width(
    candidate: Candidate,
    data: AnyDataset,
    target_loss: float = 1e-6,
    *,
    seed: int = 0,
    most_weights: int = MOST_WEIGHTS,
    progress: Watch = unwatched,
) -> tuple[Measured, ...]:
    """Draw networks of doubling width on prepared data until one is wide enough, or has `most_weights` weights.

    Parameters
    ----------
    candidate
        What to draw.
    target_loss
        Half the sum of squares that the steps lead to.
    seed
        Of the networks that are drawn.
    progress
        Is called with every width.

    Examples
    --------
    >>> from wideproof.data import load, prepare
    >>> data = prepare(load("sphere:n=6,d=3,separation=0.5"), "unit")
    >>> tried = find_width(Candidate("fully-connected", "tanh", 1, "unit"), data)
    >>> tried[-1].width, tried[-1].enough
    (64, True)
    """
    width = 2 ** math.ceil(math.log2(max(LEAST, data.n)))
    while width > 2 and candidate.build(data, width).number_of_weights > most_weights:
        width //= 2
    tried = []
    while True:
        progress(Progress("drawing", len(tried), text=f"drawing {candidate.network} of width {width}"))
        tried.append(measure(candidate, data, width, target_loss, seed=seed))
        if tried[-1].enough or candidate.build(data, 2 * width).number_of_weights > most_weights:
            return tuple(tried)
        width *= 2


def measure(
    candidate: Candidate, data: AnyDataset, width: int, target_loss: float = 1e-6, *, seed: int = 0
) -> Measured:
    """Draw one network and put the ends of its spectrum beside those of the limit.

    Examples
    --------
    >>> from wideproof.data import load, prepare
    >>> data = prepare(load("sphere:n=6,d=3,separation=0.5"), "unit")
    >>> measure(Candidate("deep-relu", None, 1, "unit"), data, 4096).enough
    True
    """
    network = candidate.build(data, width)
    outputs = math.prod(network.output_shape)
    if data.n * outputs > LARGE:
        network = candidate.build(data, width, outputs=1)
    params = network.init(seed)
    matrix = gram(network, params, data.x)
    drawn = spectrum(matrix, method="dense", vectors=True)
    limit = spectrum(limit_gram(network, data.x))
    start = network.scored(np.asarray(network(params, data.x)))
    y = network.scored(data.y)
    if math.prod(start.shape) < y.size:  # one output where all would make too large a matrix
        y = y[..., :1]
    step = _step_size(drawn.largest.value, limit.largest.value)
    steps = predict(matrix, y, start.reshape(y.shape), step, eigen=drawn).steps_to(target_loss)
    outputs = network.output_shape[-1] if network.output_shape else 1
    share = drawn.smallest.value / limit.smallest.value
    return Measured(width, share, drawn.largest.value, limit.largest.value, steps, outputs)


def _step_size(drawn: float, limit: float) -> float:
    return 1 / max(drawn, limit)
