"""A model in its own loss: what is true at its very weights, and how far gradient descent on its last layer goes."""

from __future__ import annotations

import dataclasses
import re
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wideproof.answers import Answer
from wideproof.cards import Told
from wideproof.certificates import (
    Attempt,
    Certificate,
    Obstacle,
    Point,
    Problem,
    ReadOut,
    ReadOutDescent,
    Setting,
    certify,
)
from wideproof.data import AnyDataset, Dataset
from wideproof.errors import InputError
from wideproof.networks import Network
from wideproof.networks.exchange import Model
from wideproof.proving.job import Job, verified
from wideproof.proving.predictor import Predictor
from wideproof.storage import write_bytes

if TYPE_CHECKING:
    from wideproof_verify import Verdict

LOSSES = ("auto", "squared", "cross_entropy", "logistic")
WORDS = {"squared": "half the sum of squares", "logistic": "mean logistic loss", "cross_entropy": "mean cross-entropy"}
SURE = 1.5  # outputs that are typically this much further apart than the codes of labels are logits


@dataclass(frozen=True, eq=False, repr=False)
class LossProof(Told):
    """What is proved about a model in its own loss, with nothing moved.

    Attributes
    ----------
    data
        The rows of the statement, prepared, with targets as the loss takes them.
    network
        The network.
    params
        The model's weights, by name.
    given
        Where the weights come from, in a few words.
    attempt
        The certificate: how far gradient descent on the read-out takes the loss, or with an obstacle only what is true
        at the weights.
    verdict
        The independent verifier's answer.
    reversed
        The classes in the order that the model has them, where it has every row wrong and this order all right.
    notes
        How the table was read and what was chosen, one sentence each.
    seconds
        Time of each stage, by name.
    folder
        The folder with run, certificate and report; `None` if nothing was kept.
    """

    data: AnyDataset
    network: Network
    params: Mapping[str, np.ndarray]
    given: str
    attempt: Attempt[ReadOutDescent]
    verdict: Verdict | None = None
    reversed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: Mapping[str, float] = dataclasses.field(default_factory=dict)
    folder: Path | None = None

    @property
    def found(self) -> ReadOutDescent:
        """Loss, margin and right rows at the weights, and how far gradient descent on the read-out takes the loss."""
        assert self.attempt.conclusion is not None
        return self.attempt.conclusion

    @property
    def loss(self) -> str:
        """The loss: `"squared"`, `"logistic"` or `"cross_entropy"`."""
        return self.found.loss_name

    @property
    def certificate(self) -> Certificate | None:
        """The claims with the weights and the data, or `None`."""
        return self.attempt.certificate

    @property
    def obstacle(self) -> Obstacle | None:
        """Why gradient descent is not proved to go on from the weights; `None` if it is."""
        return self.attempt.obstacle

    @property
    def _confirmed(self) -> bool:
        return self.verdict is not None and self.verdict.answer == "proved"

    @property
    def proved(self) -> bool:
        """Whether the independent verifier confirmed how far gradient descent takes the loss."""
        return self._confirmed and self.attempt.passed

    @property
    def answer(self) -> Answer:
        """Whether it is proved; where it is not, nothing is decided."""
        return Answer.HOLDS if self.proved else Answer.UNDECIDED

    @property
    def exit_code(self) -> int:
        """0 proved, 2 not."""
        return self.answer.exit_code

    @property
    def headline(self) -> str:
        """What is proved, in sentences for everybody: first what is true now, then where gradient descent leads."""
        if self.reversed:
            return _reversed(self)
        if not self._confirmed:
            reason = self.obstacle if self.verdict is None else self.verdict.reason
            return f"Not proved: {reason}."
        if not self.proved:
            return f"{_now(self)} That gradient descent goes on from there is not proved: {self.obstacle}."
        return f"{_now(self)} {_course(self)}"

    @property
    def model(self) -> Predictor:
        """The network with the model's weights."""
        return Predictor(self.network, self.params, self.data)

    def predict(self, rows: Any) -> np.ndarray:
        """Return predictions for new rows, encoded and prepared as those of the table.

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
        """Write what is proved as a text file.

        Parameters
        ----------
        folder
            The folder; by default that of the proof.

        Returns
        -------
        Path
            The path of the file.
        """
        place = folder or self.folder
        if place is None:
            raise ValueError("this proof has no folder: give one")
        write_bytes(Path(place) / "report.txt", f"{self}\n".encode())
        return Path(place) / "report.txt"

    def __str__(self) -> str:
        parts = [_wrapped(self.headline)]
        if self.notes:
            parts.append("\n".join(_wrapped(note, "  ") for note in self.notes))
        if self._confirmed and self.verdict is not None:
            parts.append(_wrapped(self.verdict.statement))
            parts.append(f"Independent verifier: proved ({self.verdict.precision} bits, {self.verdict.seconds:.3g} s).")
        if self.seconds:
            parts.append("seconds: " + ", ".join(f"{name} {took:.1f}" for name, took in self.seconds.items()))
        if self.folder is not None and self.certificate is not None:
            parts.append(f"verify again  wideproof verify {shlex.quote(str(self.folder / 'certificate'))}")
        return "\n\n".join(parts)

    def __repr__(self) -> str:
        return f"<LossProof: {self.headline}>"

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as JSON-ready values."""
        facts, verdict, found = self.found.facts, self.verdict, self.found
        numbers = {name: getattr(found, name) for name in ("epsilon", "eta", "growth", "separates")}
        return {
            "proved": self.proved, "headline": self.headline, "loss": self.loss, "network": str(self.network),
            "facts": {"proved": self._confirmed, "loss": facts.loss, "right": facts.right, "n": self.data.n,
                      "margin": None if facts.margin != facts.margin else facts.margin},
            **{name: None if value != value else value for name, value in numbers.items()},
            "steps": found.steps or None, "reversed": list(self.reversed), "notes": list(self.notes),
            "claims": None if self.certificate is None else dict(self.certificate.claims),
            "obstacle": None if self.obstacle is None else str(self.obstacle),
            "verdict": None if verdict is None else {"answer": verdict.answer, "reason": verdict.reason,
                                                     "statement": verdict.statement, "seconds": verdict.seconds},
            "seconds": dict(self.seconds), "folder": None if self.folder is None else str(self.folder),
        }  # fmt: skip


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 100, subsequent_indent=indent, break_on_hyphens=False)


def _the(loss: str) -> str:
    return WORDS[loss] if loss == "squared" else f"the {WORDS[loss]}"


def _now(proof: LossProof) -> str:
    from wideproof.report import proof_sentences

    shown = proof_sentences.shown
    facts, n = proof.found.facts, proof.data.n
    said = f"Proved of {proof.given}, with nothing moved: {_the(proof.loss)} on the {n} rows of {proof.data.name}"
    said += f" is at most {shown(facts.loss, 4, ROUND_CEILING)}"
    if proof.loss == "squared":
        return f"{said}."
    rows = f"all {n} rows are right" if facts.right == n else f"at least {facts.right} of {n} rows are right"
    return f"{said}, {rows}, and the least margin is at least {shown(facts.margin, 4, ROUND_FLOOR)}."


def _course(proof: LossProof) -> str:
    from wideproof.report import proof_sentences

    shown = proof_sentences.shown
    found = proof.found
    size = f"step size {shown(found.eta, 4, ROUND_FLOOR)}"
    if found.growth == found.growth:
        size = f"steps of 1/({shown(found.growth, 4, ROUND_CEILING)} (1 − exp(−L))), L being the loss before each"
    end = ", and in the end to 0" if found.separates > 0 else ""
    return (
        f"From these very weights gradient descent on its last layer alone, with {size}, brings that to at most "
        f"{shown(found.epsilon, 4, ROUND_CEILING)} within {found.steps} steps{end}."
    )


def _reversed(proof: LossProof) -> str:
    n, order = proof.data.n, ",".join(proof.reversed)
    return (
        f"0 of {n} rows are right, and all of them with the classes in another order: the model takes them as {order}. "
        f"Not proved: say classes {order}."
    )


def guessed(loss: str, given: Model, network: Network, data: AnyDataset) -> tuple[str, list[str]]:
    """Return the loss that a model was trained with, as far as it shows, and how that was decided.

    Parameters
    ----------
    loss
        What was asked for; `"auto"` to have it guessed.
    given
        The model as it was read; its notes say what was cut off at its end.
    network
        Its network.
    data
        The table.

    Returns
    -------
    tuple[str, list[str]]
        `"squared"`, `"cross_entropy"` or `"logistic"`, and a sentence.
    """
    outputs = network.output_shape[0] if network.output_shape else 1
    own = "logistic" if outputs == 1 else "cross_entropy"
    if loss != "auto":
        if loss != "squared" and data.labels is None:
            raise InputError(f"the loss {loss} needs class labels, and '{data.name}' has numbers: take loss='squared'")
        if loss not in ("squared", own):
            raise InputError(f"the loss {loss} does not go with {outputs} output{'s' * (outputs > 1)}: take {own!r}")
        return loss, [f"the loss is {_the(loss)}, as was asked"]
    if data.labels is None or not network.takes(data.input_shape):
        return "squared", [] if data.labels is not None else [
            "the loss is half the sum of squares: targets are numbers"
        ]
    ends = re.findall(r"\b(Softmax|LogSoftmax|Sigmoid)\b.*left out", "\n".join(given.notes))
    if "Sigmoid" in ends and outputs > 1:
        return "squared", [
            "a Sigmoid over several outputs is one class against the rest: no theorem here has that loss"
        ]
    if ends:
        return own, [f"the loss is {_the(own)}: the model ends in a {ends[0]} (say loss for another)"]
    if any("turns it into labels" in note for note in given.notes):
        return own, [f"the loss is {_the(own)}: the model ends in labels (say loss for another)"]
    gaps = np.abs(_gaps(np.asarray(network(given.params, data.x)).reshape(data.n, outputs), data.labels))
    if float(np.median(gaps)) > SURE * (1 if outputs == 1 else 2):
        return own, [f"the loss is {_the(own)}: the outputs are larger than codes of labels (say loss for another)"]
    return "squared", ["the loss is half the sum of squares: the outputs are no larger than codes of labels"]


def _gaps(f: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The own output minus the largest other one; of one output y f."""
    if f.shape[1] == 1:
        return f[:, 0] * (2 * labels - 1)
    own = np.eye(f.shape[1])[labels] > 0
    return np.where(own, f, 0).sum(axis=1) - np.where(own, -np.inf, f).max(axis=1)


def in_signs(network: Network, data: AnyDataset) -> AnyDataset:
    """Return the data with labels as ±1, one column for each output.

    Parameters
    ----------
    network
        The network.
    data
        The data with class labels.

    Returns
    -------
    AnyDataset
        The same rows.
    """
    outputs, labels = network.output_shape[0] if network.output_shape else 1, data.labels
    assert labels is not None
    count = max(len(data.classes), int(labels.max()) + 1)
    if outputs not in (count, 1) or (outputs == 1 and count > 2):
        raise InputError(f"the model has {outputs} outputs and '{data.name}' has {count} classes")
    if (outputs == 1) == (data.task == "binary"):
        return data
    y = 2 * np.eye(count)[labels] - 1
    kept = {key: getattr(data, key) for key in ("classes", "preparation", "encoding", "remarks")}
    return dataclasses.replace(Dataset(data.x, y, "multiclass", data.name), **kept)


def reversed_classes(f: np.ndarray, data: AnyDataset) -> tuple[str, ...]:
    """Return the classes in the order in which all rows are right, where none is as it stands; otherwise nothing.

    Parameters
    ----------
    f
        Outputs, a row for each example.
    data
        The data with class labels.

    Returns
    -------
    tuple[str, ...]
        Names of the classes.

    Examples
    --------
    >>> data = Dataset(np.eye(2), np.array([-1.0, 1.0]), "binary", classes=("no", "yes"))
    >>> reversed_classes(np.array([[3.0], [-2.0]]), data), reversed_classes(np.array([[3.0], [2.0]]), data)
    (('yes', 'no'), ())
    """
    labels = data.labels
    assert labels is not None
    found = (f[:, 0] > 0).astype(int) if f.shape[1] == 1 else f.argmax(axis=1)
    pairs = set(zip(labels.tolist(), found.tolist(), strict=True))
    count = max(2, f.shape[1])
    if (found == labels).any() or len(pairs) < count or len({b for _, b in pairs}) < len(pairs) or len(pairs) > count:
        return ()
    order = {b: a for a, b in pairs}
    names = [str(name) for name in data.classes] or [str(k) for k in range(count)]
    return tuple(names[order[k]] for k in range(count))


def read_outs(network: Network) -> tuple[str, ...]:
    """Return the names of the last layer's weights.

    Parameters
    ----------
    network
        The network.

    Returns
    -------
    tuple[str, ...]
        The read-out and its bias, if it has one.
    """
    graph = network.graph
    return (graph.read_out,) if graph.bias is None else (graph.read_out, graph.bias)


def prove_loss(
    job: Job, given: Model, data: AnyDataset, loss: str, name: str, notes: Sequence[str], folder: Path | None = None
) -> LossProof:
    """Certify a model in its own loss with nothing moved, and have it verified.

    Parameters
    ----------
    job
        Folder, settings and progress.
    given
        The model.
    data
        The rows, prepared; targets as the loss takes them.
    loss
        `"squared"`, `"logistic"` or `"cross_entropy"`.
    name
        Where the weights come from, in a few words.
    notes
        What has been told so far.
    folder
        The folder that the result names.

    Returns
    -------
    LossProof
        What is proved.
    """
    network, point = given.network, Problem(given.network, data).at(given.params)
    with job.stage("certifying", "certifying"):
        about = {"anchor": name}
        attempt = certify(point, ReadOut(loss), about=about)
        found, order = attempt.conclusion, ()
        assert found is not None
        if loss != "squared" and found.facts.right == 0:
            outputs = np.asarray(network(point.params, data.x)).reshape(data.n, -1)
            order = reversed_classes(outputs, data)
        if order:
            attempt = dataclasses.replace(attempt, certificate=None)
        elif attempt.certificate is None and loss != "squared":
            attempt = dataclasses.replace(attempt, certificate=_facts(found, point, about))
    return LossProof(
        data=data, network=network, params=point.params, given=name, attempt=attempt,
        verdict=None if order else verified(job, attempt), reversed=order, notes=tuple(notes), seconds=job.seconds,
        folder=folder,
    )  # fmt: skip


def _facts(found: ReadOutDescent, point: Point, about: Mapping[str, Any]) -> Certificate:
    """Return the certificate of what is true at the weights."""
    facts, data = found.facts, point.data
    claims = {"margin": facts.margin, "loss": facts.loss, "loss_name": found.loss_name, "right": facts.right}
    said = (
        f"Claim: {point.network} at these weights has {facts.right} of {data.n} rows of {data.name} right and a "
        f"{WORDS[found.loss_name]} of at most {facts.loss:.6g}."
    )
    named = {"name": found.loss_name, "reduction": "mean"}
    return Setting(point, about=about).certificate("fit", claims, said, loss=named)
