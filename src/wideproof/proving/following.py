r"""What a training run reached, proved from its first step on: the verifier takes every step again."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wideproof.answers import Answer
from wideproof.cards import Told
from wideproof.certificates import (
    DENSE,
    Attempt,
    Epochs,
    Finite,
    Obstacle,
    Problem,
    certify,
    certify_from_start,
    enter,
    lowers,
    polish,
    require_followable,
)
from wideproof.data import distinct
from wideproof.precision import double
from wideproof.progress import Progress, Watch, shown
from wideproof.proving import folders
from wideproof.threads import one_blas_thread
from wideproof.training import Objective, Run, SquaredLoss

if TYPE_CHECKING:
    from wideproof_verify import Verdict

WORTHWHILE = 0.9  # a loss that is lowered to this share of it is claimed


@dataclass(frozen=True, eq=False)
class Followed(Told):
    """What is proved about a training run.

    Attributes
    ----------
    run
        The training run.
    attempt
        The certificate, or the obstacle.
    verdict
        The independent verifier's answer; `None` if there was nothing to verify.
    folder
        The folder of the certificate; `None` if it was not kept.
    notes
        How the run was read, where it comes from elsewhere, one sentence each.
    """

    run: Run
    attempt: Attempt
    verdict: Verdict | None
    folder: Path | None = None
    notes: tuple[str, ...] = ()

    @property
    def proved(self) -> bool:
        """Whether the independent verifier confirmed the certificate."""
        return self.verdict is not None and self.verdict.answer == "proved"

    @property
    def answer(self) -> Answer:
        """Whether it is proved; where it is not, nothing is decided."""
        return Answer.HOLDS if self.proved else Answer.UNDECIDED

    @property
    def minimum(self) -> bool:
        """Whether what is proved is that a global minimum is reached, and not only the loss after the last step."""
        made = self.attempt.certificate
        return self.proved and made is not None and made.theorem in ("descent", "epochs")

    def __str__(self) -> str:
        return "\n\n".join([self._answer, *self.notes])

    @property
    def _answer(self) -> str:
        if self.verdict is None:
            return f"Not proved: {self.attempt.obstacle}."
        if not self.proved:
            return f"Not proved: {self.verdict.reason}."
        return f"Proved: {self.verdict.statement}"

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as JSON-ready values."""
        made, start, verdict = self.attempt.certificate, None, self.verdict
        if made is not None and made.start is not None:
            start = {"steps": made.start.steps, "step_size": made.start.step_size, "distance": made.start.distance}
        return {
            "proved": self.proved, "minimum": self.minimum, "text": str(self), "start": start,
            "theorem": None if made is None else made.theorem, "claims": None if made is None else dict(made.claims),
            "verdict": None if verdict is None else {"answer": verdict.answer, "reason": verdict.reason,
                                                     "statement": verdict.statement, "seconds": verdict.seconds},
            "folder": None if self.folder is None else str(self.folder),
        }  # fmt: skip


@shown
@folders.temporary("certificate")
@double
def follow(
    run: Run, folder: str | Path | None = None, *, sharp: bool = False, progress: Watch | None = None
) -> Followed:
    r"""Prove what a training run reached, from its initial weights on.

    If the run ends near enough to a fit of the squared loss, a global minimum is proved: Theorem 1 goes on from there
    with gradient descent, and for a run of SGD Theorem 5 with epochs in any order. Otherwise the loss after the last
    step is proved, and that every example is on the right side. With the logistic loss, Theorem 3 also proves how far
    gradient descent lowers it from there, if that is by a tenth or more. The run may be gradient descent or stochastic
    gradient descent (with its own batches), on any network. The distance to the exact steps obeys
    $\varepsilon_{k+1} = G_k \varepsilon_k + \delta_k$, see `wideproof.certificates.growth`.

    Parameters
    ----------
    run
        A run of `train` with the optimizer `"plain"` and one step size in float64, in any batches of one size (with
        `shuffle=True`: one that divides the number of examples), without weight decay, and without weights of examples
        or classes.
    folder
        The folder for the certificate; by default it is not kept.
    sharp
        Use sharper Lipschitz constants, which take longer.
    progress
        Callback; receives a `Progress` at every stage.

    Returns
    -------
    Followed
        The certificate or the obstacle, and the verifier's answer.

    Examples
    --------
    >>> import wideproof as wp
    >>> data = wp.prepare(wp.load("digits", classes=(0, 1), limit=12), "whiten,unit")
    >>> network = wp.build("deep-relu", data.input_shape, data.target_shape, width=16, depth=2)
    >>> found = follow(wp.train(network, data, wp.Recipe(loss="logistic", steps=20, step_size=0.5)))
    >>> found.proved, found.minimum
    (True, False)
    """
    from wideproof_verify import verify

    assert folder is not None

    def tell(stage: str, text: str) -> None:
        if progress is not None:
            progress(Progress(stage, text=text))

    require_followable(run)
    place, squared = Path(folder), run.recipe.objective == Objective(SquaredLoss(), "half_sum")
    claims: list[Callable[[], Attempt]] = [lambda: certify_from_start(run, Finite())]
    if squared:
        claims.insert(0, lambda: certify_from_start(run, sharp=sharp))
    if lowers(run):
        claims.insert(0, lambda: _lower(run, sharp))
    if squared and run.recipe.batch is not None and run.network.data_kind != "sequences":
        claims.insert(0, lambda: _epochs(run, sharp))
    for claim in claims:
        tell("certifying", "certifying from the start")
        attempt, verdict = claim(), None
        if attempt.certificate is not None:
            attempt.certificate.put(place)
            tell("verifying", f"following {run.step} steps from the start with rigorous bounds on all rounding")
            with one_blas_thread():
                verdict = verify(place, time=math.inf)
        found = Followed(run, attempt, verdict, place)
        if found.proved:
            break
    return found


def _epochs(run: Run, sharp: bool) -> Attempt:
    """SGD from the start into the basin of a fit, and from there in epochs of any order."""
    groups = distinct(run.data)
    if groups.repeated or run.data.y.size > DENSE:
        return Attempt(None, None, Obstacle("rows", run.data.y.size, DENSE, "too many outputs, or equal rows", ()))
    near = polish(run.network, run.params, run.data.x, run.data.y).params
    point = Problem(run.network, run.data).at(near)
    return enter(run, certify(point, Epochs(run.recipe.batch or run.data.n), sharp=sharp))


def _lower(run: Run, sharp: bool) -> Attempt:
    """The logistic loss after the run's steps, and how far gradient descent takes it from there."""
    attempt = certify_from_start(run, sharp=sharp)
    made = attempt.certificate
    if made is None or made.claims["epsilon"] <= WORTHWHILE * made.claims["loss"]:
        return attempt
    reason = f"gradient descent is known to lower the loss to {made.claims['epsilon']:.3g} only"
    return Attempt(attempt.anchor, None, Obstacle("gain", made.claims["epsilon"], 0.0, reason, ()))
