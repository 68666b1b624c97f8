"""A proof about a training run that is there already: nothing is chosen, and nothing is trained."""

from __future__ import annotations

from pathlib import Path

from wideproof.certificates import DENSE, certify
from wideproof.data import audit, distinct
from wideproof.deprecations import renamed
from wideproof.precision import double
from wideproof.progress import Watch, unwatched
from wideproof.proving.beginning import begun
from wideproof.proving.certifying import certified, spectra
from wideproof.proving.job import Job, verified
from wideproof.proving.proof import Proof
from wideproof.proving.stages import AUDITED, look_at
from wideproof.training import Run


@renamed(lambda stage: lambda now: stage(now.text), stage="progress")
@double
def prove_run(
    run: Run, folder: str | Path, *, from_start: bool | None = False, sharp: bool = False, progress: Watch | None = None
) -> Proof:
    r"""Prove that gradient descent goes on from a run to a global minimum, or say what is in the way.

    Parameters
    ----------
    run
        A run of the squared loss. Where its weights are too far from a fit for a proof they are polished first.
    folder
        Where the certificate is written.
    from_start
        Prove it from the run's initial weights on, by following every step (`None`: if that is quick).
    progress
        Is told what begins.
    sharp
        Spend a pass and some spectral norms for each example on sharper Lipschitz constants.

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
    data, network = run.data, run.network
    job = Job(Path(folder), run.recipe, sharp, progress or unwatched, from_start=from_start)
    size = distinct(data).n * network.scored(data.y)[0].size
    with job.stage("certifying", "measuring the weights"):
        first = certify(network, run.initial, data, level="float64") if size <= DENSE else None
        here = certify(network, run.params, data, level="float64")
    attempt, verdict, notes = begun(job, network, run, here.h)
    polished = None
    if attempt is None or verdict is None:
        with job.stage("certifying", "certifying"):
            attempt, polished = certified(job, network, run, data, here.h)
        verdict = verified(job, attempt)
    audited = audit(data, margin="never") if data.n <= AUDITED else None
    eigenvalues, predicted = spectra(run, data, first, attempt)
    ratios = tuple(look_at(run, found) for found in (here,) if found.anchor is not None)
    return Proof(
        data, audited, network, run, ratios, polished, attempt, verdict, eigenvalues, predicted, job.seconds,
        job.folder, (), (*data.notes, *notes),
    )  # fmt: skip
