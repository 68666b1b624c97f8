r"""One candidate at infinite width: its spectrum, the steps it would take, its error on left-out examples.

Gradient descent on $\tfrac12 \|y - u\|^2$ from outputs 0 with $\eta = 1/\lambda_{\max}$ has the loss

$$ \tfrac12 \sum_i (1 - \lambda_i/\lambda_{\max})^{2k} \langle v_i, y \rangle^2 , $$

so a small eigenvalue costs steps only as far as the targets lie along its eigenvector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from wideproof.data import AnyDataset
from wideproof.kernels import Enclosed, Spectrum, limit_gram, predict, spectrum
from wideproof.planning.candidates import Candidate

NOMINAL_WIDTH = 2  # condition and steps are the same at every width: the limit is in proportion to a power of it


@dataclass(frozen=True)
class Row:
    r"""What is known of one candidate. Undecided ones have no condition number, no steps and no error.

    Attributes
    ----------
    smallest, largest
        The extreme eigenvalues at infinite width with their radii; for ReLU networks, whose matrix grows with the
        width, at width 2.
    condition
        $\lambda_{\max}/\lambda_{\min}$, or `None` where rounding leaves the sign of $\lambda_{\min}$ open.
    steps
        Predicted steps of gradient descent to the target loss, with $\eta = 1/\lambda_{\max}$ from outputs 0.
    left_out
        The error of kernel regression on an example that was left out, over all of them, relative to the size of the
        targets: $\sqrt{\sum_i r_i^2 / \sum_i y_i^2}$ with $r_i = (G^{-1}y)_i / (G^{-1})_{ii}$. About 1 is no better
        than answering 0: such a network learns by heart.
    cause
        The examples that leave it undecided, in words.
    """

    candidate: Candidate
    smallest: Enclosed
    largest: Enclosed
    condition: Enclosed | None
    steps: int | None
    left_out: float | None
    cause: str = ""

    @property
    def decided(self) -> bool:
        """Whether the Gram matrix is known to be positive definite."""
        return self.condition is not None

    def to_dict(self) -> dict[str, Any]:
        """Return numbers and texts, ready for JSON."""
        ends = (("smallest", self.smallest), ("largest", self.largest), ("condition", self.condition))
        numbers = {key: None if end is None else {"value": end.value, "radius": end.radius} for key, end in ends}
        one = self.candidate
        return {
            "network": one.network, "activation": one.activation, "depth": one.depth, "preparation": one.preparation,
            "decided": self.decided, **numbers, "steps": self.steps, "left_out": self.left_out, "cause": self.cause,
        }  # fmt: skip


def evaluate(candidate: Candidate, data: AnyDataset, target_loss: float) -> Row:
    """Measure one candidate on data that are prepared already.

    Parameters
    ----------
    target_loss
        Half the sum of squares that the steps lead to.

    Examples
    --------
    >>> from wideproof.data import load, prepare
    >>> data = prepare(load("sphere:n=6,d=3,separation=0.5"), "unit")
    >>> row = evaluate(Candidate("fully-connected", "tanh", 2, "unit"), data, 1e-6)
    >>> row.decided, 1 < row.condition.value < 1e4
    (True, True)
    """
    network = candidate.build(data, NOMINAL_WIDTH)
    matrix = limit_gram(network, data.x)
    found = spectrum(matrix, method="dense", points=data.x, vectors=True)
    condition = found.condition
    if not isinstance(condition, Enclosed):
        cause = str(found.culprits[0]) if found.culprits else ""
        return Row(candidate, found.smallest, found.largest, None, None, None, cause)
    y = network.scored(data.y)
    if y.ndim == 3:  # one matrix for every output: its rows are examples and steps
        y = y.reshape(-1, y.shape[-1])
    course = predict(matrix, y, 0.0, 1 / found.largest.value, eigen=found)
    return Row(candidate, found.smallest, found.largest, condition, course.steps_to(target_loss), _left_out(found, y))


def _left_out(found: Spectrum, y: Float[np.ndarray, "n *k"]) -> float:
    """Leave-one-out error from the eigenvectors: one inverse instead of n regressions."""
    assert found.vectors is not None
    assert found.eigenvalues is not None
    inverse = (found.vectors / found.eigenvalues) @ found.vectors.T
    targets = y.reshape(len(inverse), -1)
    missed = (inverse @ targets) / np.diagonal(inverse)[:, None]
    size = float(np.linalg.norm(targets))
    return float(np.linalg.norm(missed)) / size if size else 0.0
