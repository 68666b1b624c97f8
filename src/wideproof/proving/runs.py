"""A proof about a training run that is there already: nothing is chosen, and nothing is trained."""

from __future__ import annotations

from pathlib import Path

from wideproof.certificates import DENSE, Problem, certify
from wideproof.data import audit
from wideproof.errors import InputError
from wideproof.precision import double
from wideproof.progress import Watch, shown, unwatched
from wideproof.proving.beginning import begun, moved
from wideproof.proving.certifying import certified_end, spectra
from wideproof.proving.job import Job, verified
from wideproof.proving.proof import Proof
from wideproof.proving.stages import AUDITED, ratio_of
from wideproof.training import Run, SquaredLoss


@shown
@double
def prove_run(
    run: Run, folder: str | Path, *, from_start: bool | None = False, sharp: bool = False, progress: Watch | None = None
) -> Proof:
    r"""Prove that gradient descent continues from a run to a global minimum, or say what is in the way.

    Parameters
    ----------
    run
        A run of the squared loss. If its weights are too far from a fit, they are polished first.
    folder
        The folder for the certificate.
    from_start
        Prove it from the run's initial weights, by following every step; `None`: if that is quick.
    sharp
        Use sharper Lipschitz constants: one more pass and some spectral norms for each example.
    progress
        Callback; receives a `Progress` at every stage.

    Returns
    -------
    Proof
        A `Proof`: proved, or not proved with the obstacle.

    Examples
    --------
    >>> import tempfile
    >>> import wideproof as wp
    >>> data = wp.load("sphere:n=4,d=8,separation=0.8")
    >>> network = wp.build("fully-connected", (8,), (), width=64, depth=1, activation="tanh")
    >>> run = wp.train(network, data, wp.Recipe(steps=200))
    >>> prove_run(run, tempfile.mkdtemp()).proved
    True
    """
    if not isinstance(run.recipe.objective.loss, SquaredLoss) or run.recipe.weighted:
        what = "weights of examples" if run.recipe.weighted else f"the loss {run.recipe.loss!r}"
        raise InputError(
            f"a global minimum of the squared loss without weights is proved, and this run was trained with {what}: "
            "use `follow`, or train with loss='squared'"
        )
    data, network = run.data, run.network
    job = Job(Path(folder), run.recipe, sharp, progress or unwatched, from_start=from_start)
    problem = Problem(network, data)
    size = problem.groups.n * network.scored(data.y)[0].size
    with job.stage("certifying", "measuring the weights"):
        first = certify(problem.at(run.initial), level="float64") if size <= DENSE else None
        here = certify(problem.at(run.params), level="float64")
    attempt, verdict, notes, _ = begun(job, network, run, here.h)
    polished = None
    if attempt is None or verdict is None:
        with job.stage("certifying", "certifying"):
            attempt, polished = certified_end(job, problem, run, here.h)
        verdict = verified(job, attempt)
    audited = audit(data, margin="never") if data.n <= AUDITED else None
    eigenvalues, predicted = spectra(run, data, first, attempt)
    return job.proof(
        attempt, verdict, data=data, audit=audited, network=network, run=run,
        ratios=() if here.anchor is None else (ratio_of(here, run.step, moved(run)),), polished=polished,
        eigenvalues=eigenvalues, predicted=predicted, notes=(*data.notes, *notes),
    )  # fmt: skip
