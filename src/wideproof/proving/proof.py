"""Everything that `prove` found out, as one value that prints itself and predicts new rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wideproof.answers import Answer
from wideproof.certificates import Attempt, Certificate, Polished, Start
from wideproof.data import AnyDataset, Audit, Distinct, distinct
from wideproof.networks import Network
from wideproof.proving.estimates import Estimate
from wideproof.proving.predictor import Predictor, at_the_start
from wideproof.report import proof_sentences
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


@dataclass(frozen=True, eq=False, repr=False)
class Proof:
    """The main job's result.

    Attributes
    ----------
    data
        The rows that the statement is about, prepared.
    audit
        The data against the papers' assumptions; `None` where there are too many rows to compare all pairs.
    run
        The training run; `None` where the problem was found impossible before.
    ratios
        The proof ratio h along the training.
    polished
        What was done to the weights after training, or `None`.
    attempt
        The certificate or the obstacle.
    verdict
        The independent verifier's answer; `None` if there was nothing to verify.
    eigenvalues
        Of the Gram matrix, at `"start"` and at `"end"`, where it was formed.
    predicted
        The loss that the Gram matrix at the start predicts, at its steps.
    estimates
        How good predictions on unseen rows are, by leaving out and of held out rows.
    notes
        How the table was read and what was chosen, one sentence each.
    seconds
        For each stage.
    folder
        Where run, certificate and report lie.
    given
        What the weights are called, where they came with a model and nothing was trained.
    """

    data: AnyDataset
    audit: Audit | None
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
    estimates: tuple[Estimate, ...] = ()
    notes: tuple[str, ...] = ()
    given: str = ""

    @property
    def _confirmed(self) -> bool:
        return self.verdict is not None and self.verdict.answer == "proved"

    @property
    def proved(self) -> bool:
        """Whether the independent verifier confirmed that gradient descent converges to a global minimum."""
        return self.attempt.passed and self._confirmed

    @property
    def impossible(self) -> bool:
        """Whether the independent verifier confirmed that zero loss does not exist, where that was asked."""
        certificate = self.certificate
        return certificate is not None and certificate.theorem == "impossible" and self._confirmed

    @property
    def certificate(self) -> Certificate | None:
        """The claims with the weights and the data, or `None`."""
        return self.attempt.certificate

    @property
    def start(self) -> Start | None:
        """Where the proof begins, if that is at the initial weights; `None` if at the weights of the certificate."""
        return None if self.certificate is None else self.certificate.start

    @property
    def before(self) -> bool:
        """Whether the proof is one before training: about the initial weights, from which training then went on."""
        return self.run is not None and self.certificate is not None and at_the_start(self.run, self.certificate)

    @property
    def polished_share(self) -> float:
        """How far polishing moved the weights, in units of their length; 0 where nothing was polished."""
        if self.polished is None or self.run is None:
            return 0.0
        return self.polished.share(self.network, self.run.params)

    @property
    def groups(self) -> Distinct:
        """The distinct inputs with their counts, and the least loss of any function."""
        return distinct(self.data)

    @property
    def headline(self) -> str:
        """The verdict in one sentence for people who do not know the theory."""
        return proof_sentences.headline(self)

    @property
    def answer(self) -> Answer:
        """Whether it is proved; it fails where it is proved impossible."""
        return Answer.HOLDS if self.proved else Answer.FAILS if self.impossible else Answer.UNDECIDED

    @property
    def exit_code(self) -> int:
        """0 proved, 1 proved impossible, 2 neither."""
        return self.answer.exit_code

    @property
    def model(self) -> Predictor:
        """The network with the weights that the statement is about, or leads to where it is one before training."""
        made = None if self.before else self.certificate
        params = made.params if made else self.run.params if self.run else None
        if params is None:
            raise ValueError("nothing was trained, so there is nothing to predict with")
        return Predictor(self.network, params, self.data)

    def predict(self, rows: Any) -> np.ndarray:
        """Return classes (their names) or numbers (in the target's own units) for new rows.

        `rows` is a path, a DataFrame, or an array with the columns of the table that was given; encoding and
        preparation are applied as they were to the rows of the proof.
        """
        return self.model.predict(rows)

    def save_report(self, folder: str | Path | None = None) -> Path:
        """Write the report as one HTML file, with its figures and the contradicting rows beside it."""
        from wideproof.report import save_report

        if folder is None and self.folder is None:
            raise ValueError("this proof has no folder: give one")
        return save_report(self, Path(folder or self.folder or "."))

    def __str__(self) -> str:
        from wideproof.report import proof_text

        return proof_text(self)

    def __repr__(self) -> str:
        return f"<Proof: {self.headline}>"

    def _repr_html_(self) -> str:
        from wideproof.report import proof_card

        return proof_card(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as JSON-ready values."""
        run, found, low = self.run, self.attempt.descent, self.groups.least_loss[0]
        return {
            "proved": self.proved,
            "impossible": self.impossible,
            "headline": self.headline,
            "network": str(self.network),
            "data": {"name": self.data.name, "n": self.data.n, "distinct": self.groups.n, "least_loss": low,
                     "digest": self.data.digest, "preparation": [str(step) for step in self.data.preparation]},
            "estimates": [vars(estimate) | {"text": str(estimate)} for estimate in self.estimates],
            "notes": list(self.notes),
            "training": None if run is None else {"steps": run.step, "loss": run.loss, "step_size": run.step_size,
                                                  "seed": run.recipe.seed, "seconds": run.seconds},
            "polished": None if self.polished is None else {"steps": self.polished.steps, "moved": self.polished.moved,
                                                            "share": self.polished_share,
                                                            "residuals": list(self.polished.residuals)},
            "ratios": [ratio._asdict() for ratio in self.ratios],
            "start": None if self.start is None else {"steps": self.start.steps, "step_size": self.start.step_size,
                                                      "distance": self.start.distance},
            "before_training": self.before,
            "claims": None if self.certificate is None else dict(self.certificate.claims),
            "h": self.attempt.h,
            "radius": None if found is None else found.radius,
            "obstacle": None if self.attempt.obstacle is None else str(self.attempt.obstacle),
            "verdict": None if self.verdict is None else {"answer": self.verdict.answer, "reason": self.verdict.reason,
                                                          "statement": self.verdict.statement,
                                                          "seconds": self.verdict.seconds},
            "seconds": dict(self.seconds),
            "folder": None if self.folder is None else str(self.folder),
        }  # fmt: skip
