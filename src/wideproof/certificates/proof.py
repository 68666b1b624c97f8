"""Everything that `wideproof prove` found out, as one value for reports."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Context
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wideproof.certificates.attempt import Attempt
from wideproof.certificates.polishing import Polished
from wideproof.data import AnyDataset
from wideproof.data.audit import Audit
from wideproof.networks import Network
from wideproof.training import Run

if TYPE_CHECKING:
    from wideproof_verify import Verdict


class Ratio(NamedTuple):
    """The proof ratio at one step of training, with what it is made of."""

    step: int
    residual: float
    s: float
    h: float
    moved: float


def toward(value: float, digits: int, rounding: str) -> float:
    """Return the number with fewer digits, rounded to the side on which a sentence about it stays true.

    >>> toward(0.038867, 3, ROUND_FLOOR), toward(4.9411e-05, 3, "ROUND_CEILING")
    (0.0388, 4.95e-05)
    """
    return float(Context(prec=digits, rounding=rounding).create_decimal(value))


@dataclass(frozen=True, eq=False)
class Proof:
    """The main job's result.

    Attributes
    ----------
    run : the training run; `None` where the problem was found impossible before.
    ratios : the proof ratio h along the training.
    polished : the Gauss-Newton steps after training, or `None`.
    attempt : the certificate or the obstacle.
    verdict : the independent verifier's answer; `None` if there was nothing to verify.
    eigenvalues : of the Gram matrix, at `"start"` and at `"end"`.
    predicted : the loss that the Gram matrix at the start predicts at `steps`.
    seconds : for each stage.
    folder : where run, certificate and report lie.
    """

    data: AnyDataset
    audit: Audit
    network: Network
    run: Run | None
    ratios: tuple[Ratio, ...]
    polished: Polished | None
    attempt: Attempt
    verdict: Verdict | None
    eigenvalues: Mapping[str, np.ndarray]
    predicted: tuple[np.ndarray, np.ndarray] | None
    seconds: Mapping[str, float]
    folder: Path | None
    advice: tuple[str, ...] = field(default=())

    @property
    def proved(self) -> bool:
        """Whether the independent verifier confirmed that gradient descent converges."""
        return self.attempt.passed and self.verdict is not None and self.verdict.answer == "proved"

    @property
    def impossible(self) -> bool:
        """Whether the independent verifier confirmed that zero loss does not exist."""
        certificate = self.attempt.certificate
        confirmed = self.verdict is not None and self.verdict.answer == "proved"
        return certificate is not None and certificate.theorem == "impossible" and confirmed

    @property
    def headline(self) -> str:
        """The verdict in one sentence for people who do not know the theory."""
        if self.proved:
            found = self.attempt.descent
            assert found is not None
            return (
                f"Proved: from these weights, gradient descent fits all {self.data.n} examples of {self.data.name} "
                f"exactly; its error shrinks by at least {toward(100 * found.rate, 3, ROUND_FLOOR):.3g} % a step."
            )
        if self.impossible:
            least = self.attempt.obstacle.value if self.attempt.obstacle else math.nan
            how = ", ".join(map(str, self.data.preparation))
            as_given = f"{self.data.name}, prepared by {how}" if how else self.data.name
            return f"Proved impossible: no network fits {as_given}; the loss stays at {least:.4g} or more."
        if self.verdict is not None:
            return f"Not proved: the independent verifier refused the certificate ({self.verdict.reason})."
        return f"Not proved: {self.attempt.obstacle}."

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as JSON-ready values."""
        run, found = self.run, self.attempt.descent
        return {
            "proved": self.proved,
            "impossible": self.impossible,
            "headline": self.headline,
            "network": str(self.network),
            "data": {"name": self.data.name, "n": self.data.n, "digest": self.data.digest},
            "training": None if run is None else {"steps": run.step, "loss": run.loss, "step_size": run.step_size,
                                                  "seed": run.recipe.seed, "seconds": run.seconds},
            "polished": None if self.polished is None else {"steps": self.polished.steps, "moved": self.polished.moved,
                                                            "residuals": list(self.polished.residuals)},
            "ratios": [ratio._asdict() for ratio in self.ratios],
            "claims": None if self.attempt.certificate is None else dict(self.attempt.certificate.claims),
            "h": self.attempt.h,
            "radius": None if found is None else found.radius,
            "obstacle": None if self.attempt.obstacle is None else str(self.attempt.obstacle),
            "verdict": None if self.verdict is None else {"answer": self.verdict.answer, "reason": self.verdict.reason,
                                                          "seconds": self.verdict.seconds},
            "seconds": dict(self.seconds),
            "folder": None if self.folder is None else str(self.folder),
        }  # fmt: skip
