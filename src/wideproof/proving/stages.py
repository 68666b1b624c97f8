"""The main job: load, audit, choose, train, polish if needed, certify, have it verified. Every stage can be resumed.

`prove` on a folder that exists goes on where it was interrupted, and refuses one of another problem.
"""

from __future__ import annotations

import dataclasses
import math
import tempfile
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wideproof.certificates import (
    DENSE,
    Attempt,
    certify,
    memory_of,
)
from wideproof.data import AnyDataset, audit, distinct, load, prepare
from wideproof.deprecations import renamed
from wideproof.errors import InputError
from wideproof.networks import Network
from wideproof.networks.starts import DOUBLED
from wideproof.precision import double
from wideproof.progress import Watch, unwatched
from wideproof.proving import folders
from wideproof.proving.beginning import before_training, begun, gentler, moved, starts_near
from wideproof.proving.certifying import certified, spectra
from wideproof.proving.choosing import Choice, choose
from wideproof.proving.estimates import score
from wideproof.proving.job import Job, verified
from wideproof.proving.predictor import RUN, Predictor
from wideproof.proving.proof import Proof, Ratio
from wideproof.threads import one_blas_thread
from wideproof.training import Recipe, Run, Status, begin, extend, train

FIRST_STEPS = 16  # training stops here for a first look at the proof ratio, then at every doubling
COMFORTABLE = 0.4  # a ratio below this is certified; between this and 1/2 a little more training costs nothing
OFTEN = 400  # rows of a Jacobian up to which the proof ratio is looked at while training
OFTEN_FROM_START, LONGER = 1000, 1.25  # the same, and how much later each look is, where every step is followed
TURNS = 4  # times the condition number: steps that training takes at least until a proof begins
AUDITED = 3000  # rows of which all pairs are compared
# Distinct rows up to which BLAS has one thread: their matrices take a second at most, and where a machine has less to
# give than it has cores, threads that wait for each other took ten times as long.
FEW = 1500
CHOICES = 3  # preparations that are tried before the answer is "not proved"


@renamed(lambda stage: lambda now: stage(now.text), stage="progress")
@double
def prove(
    source: Any,
    target: str | int | None = None,
    *,
    network: str | Network | None = None,
    width: int | None = None,
    depth: int | None = None,
    activation: str | None = None,
    options: Mapping[str, object] | None = None,
    prepare: str = "auto",
    folder: str | Path | None = None,
    seed: int = 0,
    steps: int | None = None,
    step_size: float | str = "auto",
    batch: int | None = None,
    require_zero: bool = False,
    holdout: float = 0.0,
    sharp: bool = False,
    from_start: bool | None = None,
    progress: Watch | None = None,
    **loading: Any,
) -> Proof:
    """Prove that gradient descent reaches a global minimum on a table, or say what is in the way.

    Parameters
    ----------
    source
        A file, a bundled name, a DataFrame, a pair `(X, y)` or a data set; `target` is the column to predict.
    network
        A name; a network built for the data, which is then taken as prepared; or `None`, to have one chosen.
    width, depth, activation, options
        Of the network, where it is not left open.
    prepare
        Preparation steps, `"none"`, or `"auto"`, which never makes different rows equal.
    folder
        A new one, or one that an interrupted proof left behind; by default nothing is kept.
    seed
        Decides the start.
    steps, step_size
        Of training; by default what `choose` says. What is left over is polished away.
    batch
        Train by SGD with so many rows a step, by default with half of the usual step size.
    require_zero
        Where equal inputs have different targets, prove that zero loss is impossible and stop.
    holdout
        This share of the rows is kept out, to see what the network does on them.
    sharp
        Sharper Lipschitz constants; slower.
    from_start
        Prove it from the initial weights on, by following every step of training; by default where that takes a minute
        or so. If it fails, or with `False`, the proof begins at the trained weights.
    progress
        Is told what begins, in a few words, and how training goes.
    loading
        Further arguments of `load`, such as `classes`, `limit`, `missing`.

    Returns
    -------
    A `Proof`: proved, proved impossible, or not proved with the obstacle. Ctrl-C and SIGTERM act as they do in `train`,
    and the same call with the same `folder` goes on.

    Examples
    --------
    >>> import wideproof as wp
    >>> proof = wp.prove("iris", classes=("setosa", "virginica"), limit=20, steps=16)
    >>> proof.proved, proof.predict(wp.load("iris").x[:1]).tolist()
    (True, ['setosa'])
    """
    if folder is None:
        with tempfile.TemporaryDirectory() as kept:
            made = prove(
                source, target, network=network, width=width, depth=depth, activation=activation, options=options,
                prepare=prepare, folder=Path(kept) / "proof", seed=seed, steps=steps, step_size=step_size, batch=batch,
                require_zero=require_zero, holdout=holdout, sharp=sharp, from_start=from_start,
                progress=progress, **loading,
            )  # fmt: skip
            return dataclasses.replace(made, folder=None)
    if isinstance(step_size, str) and step_size not in ("auto", "safe", "paper"):
        raise InputError(f"the step size must be a number, 'auto', 'safe' or 'paper', got {step_size!r}")
    recipe = Recipe(steps=2048 if steps is None else steps, seed=seed, batch=batch,
                    step_size="safe" if step_size == "auto" else step_size)  # fmt: skip
    job = Job(Path(folder), recipe, sharp, progress or unwatched, from_start=from_start, before=from_start is not False)
    with job.stage("loading", "loading the data"):
        data = load(source, target=target, **loading)
        data, kept_out = _split(data, holdout)
    if require_zero and distinct(data).least > 0:
        return _impossible(job, data)
    asked = {"network": network if isinstance(network, str) else None, "width": width, "depth": depth,
             "activation": activation, "prepare": prepare, "seed": seed, **(options or {})}  # fmt: skip
    tried: list[str] = []
    few = distinct(data).n <= FEW
    with one_blas_thread() if few else nullcontext():
        while True:
            with job.stage("choosing", "choosing a network"):
                choice = _chosen(job, data, network, asked, tried, steps, step_size)
            proof = _attempt(job, choice)
            open_ = isinstance(network, str | None) and prepare == "auto" and len(tried) + 1 < CHOICES
            blocked = proof.attempt.obstacle
            if (
                proof.proved
                or not open_
                or (blocked is not None and blocked.quantity not in ("ratio", "eigenvalue", "kink"))
            ):
                break
            tried.append(choice.preparation)
            job.tell(f"no proof with {choice}: trying another preparation")
            folders.forget(job.folder)
    return _with_held_out(proof, kept_out)


def _split(data: AnyDataset, share: float) -> tuple[AnyDataset, AnyDataset | None]:
    """Keep a share of the distinct inputs, with all their rows, out of the proof."""
    if not 0 <= share < 1:
        raise InputError(f"holdout must be a share of the rows, at least 0 and below 1, got {share}")
    groups = distinct(data)
    out = np.random.default_rng(0).permutation(groups.n)[: round(share * groups.n)]
    if len(out) == 0:
        return data, None
    away = np.isin(groups.place, out)
    return data.take(np.flatnonzero(~away)), data.take(np.flatnonzero(away))


def _chosen(
    job: Job,
    data: AnyDataset,
    network: str | Network | None,
    asked: dict[str, Any],
    tried: list[str],
    steps: int | None,
    step_size: float | str,
) -> Choice:
    """Return the choice: the folder's own, the network that was given, or the best one there is."""
    folders.require_place(job.folder)
    if isinstance(network, Network):
        wanted = "" if asked["prepare"] in ("auto", "none") else asked["prepare"]
        ready = prepare(data, wanted) if wanted else data
        given = job.recipe.step_size
        return Choice(ready, network, wanted, job.recipe.seed, given, job.recipe.steps, None, ())
    if (job.folder / folders.CHOICE).exists() and not tried:
        return folders.read_choice(job.folder, data, asked, steps, step_size)
    choice = choose(data, avoid=tried, fast=bool(job.from_start), progress=_counting(job), **asked)
    changes: dict[str, Any] = {"steps": steps, "step_size": None if step_size == "auto" else step_size}
    if job.recipe.batch is not None and step_size == "auto" and isinstance(choice.step_size, float):
        changes["step_size"] = choice.step_size / 2  # a batch is steeper than all rows are on average
    choice = dataclasses.replace(choice, **{key: value for key, value in changes.items() if value is not None})
    folders.write_choice(job.folder, choice, data, asked)
    return choice


def _counting(job: Job) -> Watch:
    return lambda now: job.tell(f"trying candidate {now.done + 1} of {now.total}: {now.text}")


def _impossible(job: Job, data: AnyDataset) -> Proof:
    """Certify that zero loss does not exist: then any network stands for all of them."""
    from wideproof.networks import build
    from wideproof.planning import kind_of

    name = {"vectors": "fully-connected", "images": "conv-residual", "sequences": "elman-rnn"}[kind_of(data)]
    sizes: dict[str, object] = {"width": 2} if name == "elman-rnn" else {"width": 2, "depth": 1}
    network = build(name, data.input_shape, data.target_shape, **sizes)
    with job.stage("certifying", "certifying that zero loss is impossible"):
        attempt = certify(network, network.init(job.recipe.seed), data, require_zero=True)
    verdict = verified(job, attempt)
    return Proof(
        data, None, network, None, (), None, attempt, verdict, {}, None, job.seconds, job.folder, notes=data.notes
    )


def _attempt(job: Job, choice: Choice) -> Proof:
    """Train what was chosen, polish it, certify it, and have it verified."""
    ready, network = choice.data, choice.network
    folders.require_same_problem(job.folder, network, ready)
    job.tell(f"{ready}\n{network}")
    if distinct(ready).y.size > DENSE:
        job.tell(f"certifying this many rows takes about {memory_of(network, distinct(ready).n)}")
    recipe = dataclasses.replace(
        job.recipe, seed=choice.seed, step_size=choice.step_size, steps=choice.steps
    )  # fmt: skip
    pairs = getattr(network, "start", None) == DOUBLED  # what is left of the slow parts then is small at once
    if job.from_start is None and not pairs and choice.looked and TURNS * choice.looked[0].turns > recipe.steps:
        job = dataclasses.replace(job, from_start=False)  # training would end long before
    with job.stage("training", "training"):
        run, looks, first = _train(job, network, ready, recipe)
    attempt, verdict = before_training(job, run, _ratio_at(looks, 0))
    h, polished, more, end = _ratio_at(looks, run.step), None, [], looks[-1].attempt if attempt is not None else None
    if attempt is None:
        attempt, verdict, more = begun(job, network, run, h)
    if attempt is None or verdict is None:
        with job.stage("certifying", "certifying"):
            attempt, polished = certified(job, network, run, ready, h)
        verdict = verified(job, attempt)
    with job.stage("comparing", "comparing with the prediction"):
        audited = audit(ready, margin="never") if ready.n <= AUDITED else None
        eigenvalues, predicted = spectra(run, ready, first, end or attempt)
    notes = (*ready.notes, *choice.notes, *more)
    estimates = () if choice.estimate is None else (choice.estimate,)
    return Proof(
        ready, audited, network, run, tuple(look.ratio for look in looks), polished, attempt, verdict, eigenvalues,
        predicted, job.seconds, job.folder, estimates, notes,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Look:
    ratio: Ratio
    attempt: Attempt | None = None


def _ratio_at(looks: list[_Look], step: int) -> float:
    """Return the proof ratio after so many steps; infinity where nobody looked."""
    return next((look.ratio.h for look in looks if look.ratio.step == step), math.inf)


def _train(job: Job, network: Network, data: AnyDataset, recipe: Recipe) -> tuple[Run, list[_Look], Attempt | None]:
    """Train in doubling segments, with a look at the proof ratio after each where that is cheap, or all at once.

    Where the initial weights have a proof themselves nothing is waited for: all steps are taken at once.
    """
    place = job.folder / RUN
    looks = [_Look(ratio) for ratio in folders.read_ratios(job.folder)]
    outputs = int(np.prod(network.scored(data.y).shape[1:], dtype=int))
    often, first = distinct(data).n * outputs <= (OFTEN if job.from_start is False else OFTEN_FROM_START), None
    longer = 2.0 if job.from_start is False else LONGER
    dense = distinct(data).n * outputs <= DENSE
    if place.exists():
        free = job.from_start is not False and not isinstance(job.recipe.step_size, float)
        run = folders.read_run(job.folder, network, data, recipe, free)
        run = dataclasses.replace(run, recipe=dataclasses.replace(run.recipe, steps=max(recipe.steps, run.step)))
        if dense and not looks:
            first = certify(network, run.initial, data, level="float64")
            looks = [_look(dataclasses.replace(run, step=0, params=run.initial), first)]
        near = starts_near(job, _ratio_at(looks, 0))
        often = often and not near
        if run.status is Status.RUNNING:
            run = extend(run, run.recipe.steps if not often else max(run.step, FIRST_STEPS), place, job.progress)
    else:
        start = begin(network, data, recipe)
        if dense:
            first = certify(network, start.initial, data, level="float64")
            looks = [_look(start, first)]
            start = gentler(job, start, first)
            recipe = start.recipe
        near = starts_near(job, _ratio_at(looks, 0))
        often = often and not near
        steps = min(FIRST_STEPS, recipe.steps) if often else recipe.steps
        run = train(
            network, data, dataclasses.replace(recipe, steps=steps), folder=place, progress=job.progress, start=start
        )
    while True:
        if run.status is Status.RUNNING:  # a signal asked to stop, and the caller's own handler of it returned
            raise KeyboardInterrupt
        last = run.status is not Status.LIMIT or run.step >= recipe.steps
        if (often or near) and (not looks or looks[-1].ratio.step < run.step):
            job.tell(f"checking the proof ratio after {run.step} steps")
            looks.append(_look(run, certify(network, run.params, data, level="float64")))
            folders.write_ratios(job.folder, (look.ratio for look in looks))
        if last or _ratio_at(looks, run.step) < COMFORTABLE:
            return run, looks, first
        run = extend(run, min(max(math.ceil(longer * run.step), FIRST_STEPS), recipe.steps), place, job.progress)


def _look(run: Run, attempt: Attempt) -> _Look:
    return _Look(look_at(run, attempt), attempt)


def look_at(run: Run, attempt: Attempt) -> Ratio:
    """Return the proof ratio of a run where it stands, and what it is made of."""
    assert attempt.anchor is not None
    blocked = attempt.obstacle is not None and attempt.obstacle.quantity == "kink"
    h = max(attempt.h, 0.5) if blocked else attempt.h
    return Ratio(run.step, attempt.anchor.residual, attempt.anchor.s, h, moved(run))


def _with_held_out(proof: Proof, kept_out: AnyDataset | None) -> Proof:
    if kept_out is None or proof.run is None:
        return proof
    model = Predictor(proof.network, proof.model.params, dataclasses.replace(proof.data, encoding=None))
    found = score(kept_out, model.outputs(kept_out.x), "held out")
    return dataclasses.replace(proof, estimates=(*proof.estimates, found))
