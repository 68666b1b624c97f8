"""Everything that `prove` found out, as one value that prints itself and predicts new rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wideproof.answers import Answer
from wideproof.certificates import Attempt, Certificate, Polished, Start, distance, length
from wideproof.data import AnyDataset, Audit, Distinct, distinct
from wideproof.networks import Network
from wideproof.planning import Estimate
from wideproof.proving.limits import Limit
from wideproof.proving.predictor import Predictor, at_the_start
from wideproof.proving.ranges import Ranges
from wideproof.report import proof_sentences
from wideproof.training import Run

if TYPE_CHECKING:
    from wideproof_verify import Verdict


class Ratio(NamedTuple):
    """The proof ratio at one step of training, with the numbers that it consists of.

    Attributes
    ----------
    step
        The training step.
    residual
        Norm of the residual.
    s
        Smallest singular value of the Jacobian.
    h
        The proof ratio; Theorem 1 needs it below ½.
    moved
        Distance of the weights from the initial ones.
    """

    step: int
    residual: float
    s: float
    h: float
    moved: float


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Proof:
    """The result of `prove`.

    Attributes
    ----------
    data
        The rows of the statement, prepared.
    audit
        The data against the assumptions of the papers; `None` if there are too many rows to compare all pairs.
    network
        The network.
    run
        The training run; `None` if the problem was found impossible before training.
    ratios
        The proof ratio h during training.
    polished
        How the weights were changed after training, or `None`.
    attempt
        The certificate, or the obstacle.
    verdict
        The independent verifier's answer; `None` if there was nothing to verify.
    eigenvalues
        Eigenvalues of the Gram matrix at `"start"` and at `"end"`, where it was computed.
    predicted
        Steps, and the losses that the Gram matrix at the start predicts for them.
    seconds
        Time of each stage, by name.
    folder
        The folder with run, certificate and report; `None` if nothing was kept.
    estimates
        Estimates of the quality on unseen rows: by leaving rows out, and on held-out rows.
    notes
        How the table was read and what was chosen, one sentence each.
    given
        Name of the weights if they came with a model and nothing was trained; empty otherwise.
    limit
        Weights near the limit of gradient descent, with which `predict` predicts; `None` if none were found.
    ranges
        The range of each column of the table before preparation.
    """

    data: AnyDataset
    audit: Audit | None = None
    network: Network
    run: Run | None
    ratios: tuple[Ratio, ...] = ()
    polished: Polished | None = None
    attempt: Attempt[Any]
    verdict: Verdict | None
    eigenvalues: Mapping[str, np.ndarray] = field(default_factory=dict)
    predicted: tuple[np.ndarray, np.ndarray] | None = None
    seconds: Mapping[str, float]
    folder: Path | None
    estimates: tuple[Estimate, ...] = ()
    notes: tuple[str, ...] = ()
    given: str = ""
    limit: Limit | None = None
    ranges: Ranges | None = None

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
    def proved_from(self) -> str:
        """Where the proof begins: at the initial weights, the trained ones, or those that polishing found."""
        if not self.proved:
            return ""
        untrained = self.run is not None and self.run.step == 0
        if self.polished is not None and self.polished.steps:
            return "polished weights"
        if self.given:
            return self.given
        return "initial weights" if self.start is not None or self.before or untrained else "trained weights"

    @property
    def followed(self) -> int | None:
        """How many steps were followed until the theorem applied; `None` where the proof begins elsewhere."""
        if self.proved_from != "initial weights":
            return None
        return 0 if self.start is None else self.start.steps

    @property
    def share_moved(self) -> float | None:
        """How far gradient descent ever gets from the initial weights, at most, in units of their length."""
        certificate, found = self.certificate, self.attempt.descent
        if self.followed is None or self.run is None or certificate is None or found is None:
            return None
        names = self.network.trained_names
        there = distance(names, certificate.params, self.run.initial) + found.radius
        return (there + (0.0 if self.start is None else self.start.distance)) / length(
            {name: self.run.initial[name] for name in names}
        )

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
        """The network with the weights that gradient descent tends to, or those that the statement is about."""
        if self.limit is not None:
            return Predictor(self.network, self.limit.params, self.data, self.limit, self.ranges)
        made = None if self.before else self.certificate
        params = made.params if made else self.run.params if self.run else None
        if params is None:
            raise ValueError("nothing was trained, so there is nothing to predict with")
        return Predictor(self.network, params, self.data, ranges=self.ranges)

    def predict(self, rows: Any) -> np.ndarray:
        """Return predictions for new rows: names of classes, or numbers in the units of the target.

        Encoding and preparation of the proof's table are applied to the new rows.

        Parameters
        ----------
        rows
            New rows: a path, a DataFrame, or an array with the columns of the table.

        Returns
        -------
        array
            One prediction for each row.
        """
        return self.model.predict(rows)

    def save_report(self, folder: str | Path | None = None) -> Path:
        """Write the report as one HTML file, with its figures and the contradicting rows in the same folder.

        Parameters
        ----------
        folder
            The folder; by default that of the proof.

        Returns
        -------
        Path
            The path of the report.
        """
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
            "proved_from": self.proved_from,
            "followed": self.followed,
            "alpha": getattr(self.network, "alpha", 1.0),
            "share_moved": self.share_moved,
            "limit": None if self.limit is None else {"residual": self.limit.residual, "distance": self.limit.distance,
                                                      "share": self.limit.share},
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
