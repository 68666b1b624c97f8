"""The main job: load, audit, choose, train, certify from the initial weights, have it verified. All can be resumed.

`prove` on a folder that exists goes on where it was interrupted, and refuses one of another problem.
"""

from __future__ import annotations

import dataclasses
import math
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from wideproof.certificates import (
    DENSE,
    Attempt,
    Descent,
    Polished,
    Problem,
    certify,
    distance,
    length,
    memory_of,
)
from wideproof.data import AnyDataset, Dataset, audit, date_column, distinct, last_rows, load, prepare
from wideproof.errors import InputError
from wideproof.networks import Network
from wideproof.planning import BUDGET, COMFORTABLE, Choice, Scale, choose, gap, kind_of, raised, score
from wideproof.precision import double
from wideproof.progress import Watch, shown, unwatched
from wideproof.proving import folders
from wideproof.proving.beginning import NOT_BEGUN, Begun, before_training, begun, gentler, moved, starts_near
from wideproof.proving.certifying import certified_end, spectra
from wideproof.proving.job import Job, verified
from wideproof.proving.limits import Limit, near_limit
from wideproof.proving.predictor import RUN, Predictor
from wideproof.proving.proof import Proof, Ratio
from wideproof.proving.ranges import Ranges
from wideproof.threads import threads_for
from wideproof.training import Recipe, Run, Status, begin, extend, train

if TYPE_CHECKING:
    from wideproof.proving.starts import Starts

FIRST_STEPS = 16  # training stops here for a first look at the proof ratio, where nothing is forecast
TRAININGS = 4  # at most, each with a smaller step size: what one leads to may need a smaller one than it took
OFTEN = 400  # rows of a Jacobian up to which the proof ratio is looked at while training
LONGER = 1.25  # how much later each look is
AUDITED = 3000  # rows of which all pairs are compared


@overload
def prove(source: Any, target: str | int | None = None, *, seeds: None = None, **options: Any) -> Proof: ...
@overload
def prove(source: Any, target: str | int | None = None, *, seeds: int, **options: Any) -> Starts: ...


@shown
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
    alpha: float | None = None,
    budget: float = BUDGET,
    from_start: bool | None = None,
    polish: bool = False,
    progress: Watch | None = None,
    seeds: int | None = None,
    **loading: Any,
) -> Proof | Starts:
    """Train a network on a table and prove that gradient descent reaches a global minimum, or say what prevents it.

    The outputs of the network begin at 0. The first steps are followed one by one, with bounds on all rounding, until a
    theorem applies. If that would take too many steps, the outputs are multiplied by `alpha`: then the weights move
    less and fewer steps are needed; with a large enough `alpha`, none. Unless `polish` is set, only gradient descent
    changes the weights of the proof.

    Parameters
    ----------
    source
        A file, the name of a bundled data set, a DataFrame, a pair `(X, y)` or a data set.
    target
        The column to predict, by name or position; by default the last one.
    network
        Name of a network; a network built for the data, which is then taken as prepared; or `None`, to choose one.
    width
        Number of hidden units in each layer; `None` leaves it open.
    depth
        Number of hidden layers; `None` leaves it open.
    activation
        Name of the activation; `None` leaves it open.
    options
        Further options of the network, by name.
    prepare
        Preparation steps, `"none"`, or `"auto"`, which never makes different rows equal.
    folder
        A new folder for run, certificate and report, or that of an interrupted proof; by default nothing is kept.
    seed
        Seed of the initial weights.
    steps
        Maximum number of training steps; by default `choose` decides.
    step_size
        Step size (learning rate): a number, or `"auto"`, with which `choose` decides.
    batch
        Batch size. If given, training is by SGD, by default with half of the usual step size.
    require_zero
        If equal inputs have different targets, prove that zero loss is impossible and stop.
    holdout
        Share of the rows to hold out, to measure predictions on them.
    sharp
        Use sharper Lipschitz constants, which take longer.
    alpha
        The scale of the outputs; by default the least of 1, 3, 10, 30, … whose steps are forecast to be followed in
        time; if that has no proof, larger ones.
    budget
        Seconds that following the steps may take.
    from_start
        `True` follows the steps however long that takes; `False` begins the proof at the trained weights. By default it
        begins at the initial weights if that fits `budget`.
    polish
        If nothing else can be proved, look for an exact fit near the trained weights by Gauss-Newton steps. The proof
        is then about the weights that these steps found.
    progress
        Callback; receives a `Progress` at every stage and during training.
    seeds
        Prove it from this many random starts, each by itself. Network, preparation and step size are chosen with the
        start `seed` and then fixed; the starts `seed + 1` to `seed + seeds` are counted, so that they are independent
        of the choice.
    **loading
        Further arguments of `load`, such as `classes`, `limit`, `missing`.

    Returns
    -------
    Proof or Starts
        Proved, proved impossible, or not proved with the obstacle. With `seeds`, how many starts have a proof, and the
        share of all starts that have one at least, with 95 % confidence (one-sided Clopper-Pearson bound). Ctrl-C and
        SIGTERM act as in `train`, and the same call with the same `folder` continues.

    Examples
    --------
    >>> import wideproof as wp
    >>> proof = wp.prove("iris", classes=("setosa", "virginica"), limit=20, steps=16)
    >>> proof.proved, proof.predict(wp.load("iris").x[:1]).tolist()
    (True, ['setosa'])
    >>> starts = wp.prove("iris", classes=("setosa", "virginica"), limit=6, seeds=3)
    >>> starts.proved, round(starts.least, 2)  # 0.05 to the power 1/3
    (3, 0.37)
    """
    whole: dict[str, Any] = dict(
        network=network, width=width, depth=depth, activation=activation, options=options, prepare=prepare, steps=steps,
        step_size=step_size, batch=batch, require_zero=require_zero, holdout=holdout, sharp=sharp, alpha=alpha,
        budget=budget, from_start=from_start, polish=polish, progress=progress, seed=seed, **loading,
    )  # fmt: skip
    if seeds is not None:
        from wideproof.proving.starts import prove_starts

        return prove_starts(source, target, seeds=seeds, folder=folder, **whole)
    if folder is None:
        with tempfile.TemporaryDirectory() as kept:
            made = prove(source, target, folder=Path(kept) / "proof", **whole)
            return dataclasses.replace(made, folder=None)
    if isinstance(step_size, str) and step_size not in ("auto", "safe", "paper"):
        raise InputError(f"the step size must be a number, 'auto', 'safe' or 'paper', got {step_size!r}")
    recipe = Recipe(steps=2048 if steps is None else steps, seed=seed, batch=batch,
                    step_size="safe" if step_size == "auto" else step_size)  # fmt: skip
    if not 0 <= budget < math.inf:
        raise InputError(f"the budget must be a number of seconds, at least 0, got {budget}")
    job = Job(
        Path(folder), recipe, sharp, progress or unwatched, from_start=from_start, budget=float(budget), polish=polish
    )
    with job.stage("loading", "loading the data"):
        data = load(source, target=target, **loading)
        by_date = date_column(data) if holdout else None
        data, kept_out = _split(data, holdout, None if by_date is None else by_date[1])
    if require_zero and distinct(data).least > 0:
        return _impossible(job, data)
    asked = {"network": network if isinstance(network, str) else None, "width": width, "depth": depth,
             "activation": activation, "prepare": prepare, "seed": seed, "alpha": alpha, "budget": float(budget),
             **(options or {})}  # fmt: skip
    with threads_for(distinct(data).n):
        with job.stage("choosing", "choosing a network"):
            choice = _chosen(job, data, network, asked, steps, step_size)
        while True:
            with job.stage("choosing", "looking at the initial weights"):
                choice = choice if alpha is not None or step_size != "auto" else raised(choice)
                if isinstance(network, str | None):
                    folders.write_choice(job.folder, choice, data, asked)
            proof = _attempt(job, choice)
            lazier = choice.lazier(_why_not_begun(proof))
            if begins_at_the_start(proof) or lazier is None or from_start is False:
                break
            choice = lazier
            job.tell(f"not proved yet: trying alpha = {choice.scales[0].alpha:g}")
            folders.forget(job.folder)
    if isinstance(data, Dataset):
        ranges = Ranges.of(data)
        ranges.put(job.folder)
        proof = dataclasses.replace(proof, ranges=ranges)
    return _with_held_out(proof, kept_out, "" if by_date is None else by_date[0])


def _split(data: AnyDataset, share: float, when: np.ndarray | None = None) -> tuple[AnyDataset, AnyDataset | None]:
    """Keep a share of the distinct inputs, with all their rows, out of the proof: the last ones by date."""
    if not 0 <= share < 1:
        raise InputError(f"holdout must be a share of the rows, at least 0 and below 1, got {share}")
    if when is not None:
        later = last_rows(when, share)
        if later is None:
            raise InputError(
                f"for holdout {share} the last rows by date are more than half of the table, since rows of one day "
                "stay together: hold out less, or leave the column of dates out"
            )
        return data.take(np.setdiff1d(np.arange(data.n), later)), data.take(later)
    groups = distinct(data)
    out = np.random.default_rng(0).permutation(groups.n)[: round(share * groups.n)]
    if len(out) == 0:
        if share:
            raise InputError(
                f"holdout {share} of {groups.n} different rows is less than half a row, and nothing would be held out: "
                "hold out more"
            )
        return data, None
    away = np.isin(groups.place, out)
    return data.take(np.flatnonzero(~away)), data.take(np.flatnonzero(away))


def _chosen(
    job: Job,
    data: AnyDataset,
    network: str | Network | None,
    asked: dict[str, Any],
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
    if (job.folder / folders.CHOICE).exists():
        return folders.read_choice(job.folder, data, asked, steps, step_size)
    choice = choose(data, progress=_counting(job), steps=steps, **asked)
    changes: dict[str, Any] = {"steps": steps, "step_size": None if step_size == "auto" else step_size}
    if job.recipe.batch is not None and step_size == "auto" and isinstance(choice.step_size, float):
        changes["step_size"] = choice.step_size / 2  # a batch is steeper than all rows are on average
    if step_size != "auto":  # it belongs to one scale
        changes["scales"] = choice.scales[:1]
    choice = dataclasses.replace(choice, **{key: value for key, value in changes.items() if value is not None})
    folders.write_choice(job.folder, choice, data, asked)
    return choice


def _counting(job: Job) -> Watch:
    return lambda now: job.tell(f"trying candidate {now.done + 1} of {now.total}: {now.text}")


def _impossible(job: Job, data: AnyDataset) -> Proof:
    """Certify that zero loss does not exist: then any network stands for all of them."""
    from wideproof.networks import build

    name = {"vectors": "fully-connected", "images": "conv-residual", "sequences": "elman-rnn"}[kind_of(data)]
    sizes: dict[str, object] = {"width": 2} if name == "elman-rnn" else {"width": 2, "depth": 1}
    network = build(name, data.input_shape, data.target_shape, **sizes)
    with job.stage("certifying", "certifying that zero loss is impossible"):
        attempt = certify(Problem(network, data).at(network.init(job.recipe.seed)), Descent(require_zero=True))
    verdict = verified(job, attempt)
    return job.proof(attempt, verdict, data=data, network=network, run=None, notes=data.notes)


def begins_at_the_start(proof: Proof) -> bool:
    """Return whether a proof begins at the initial weights."""
    untrained = proof.run is not None and proof.run.step == 0 and proof.polished is None
    return proof.proved and (proof.start is not None or proof.before or untrained)


def _why_not_begun(proof: Proof) -> str:
    """Return what the notes say about a proof from the initial weights that was not found."""
    return next((note.removeprefix(f"{NOT_BEGUN}: ") for note in proof.notes if note.startswith(NOT_BEGUN)), "")


def _attempt(job: Job, choice: Choice) -> Proof:
    """Train what was chosen, certify it from its initial weights, and have it verified."""
    ready, network = choice.data, choice.network
    folders.require_same_problem(job.folder, network, ready)
    job.tell(f"{ready}\n{network}")
    if distinct(ready).y.size > DENSE:
        job.tell(f"certifying this many rows takes about {memory_of(network, distinct(ready).n)}")
    recipe = dataclasses.replace(job.recipe, seed=choice.seed, step_size=choice.step_size, steps=choice.steps)
    scale = choice.scales[0] if choice.scales else None
    for left in reversed(range(TRAININGS)):
        with job.stage("training", "training"):
            run, looks, first = _train(job, network, ready, recipe, scale)
        attempt, verdict = before_training(job, run, _ratio_at(looks, 0))
        h, polished, end = _ratio_at(looks, run.step), None, looks[-1].attempt if attempt is not None else None
        found = Begun(attempt, verdict) if attempt is not None else begun(job, network, run, h)
        if found.step_size is None or not left:
            break
        job.tell(f"training again from the start with the smaller step size {found.step_size:.4g}")
        folders.forget_run(job.folder)
        recipe = dataclasses.replace(recipe, step_size=found.step_size)
    attempt, verdict = found.attempt, found.verdict
    if attempt is None or verdict is None:
        with job.stage("certifying", "certifying"):
            farthest = math.inf if job.polish else 0.0
            attempt, polished = certified_end(job, Problem(network, ready), run, h, farthest)
        verdict = verified(job, attempt)
    with job.stage("comparing", "comparing with the prediction"):
        audited = audit(ready, margin="never") if ready.n <= AUDITED else None
        eigenvalues, predicted = spectra(run, ready, first, end or attempt)
    limit = _limit(job, network, attempt, ready) if polished is None and _is_proved(verdict) else None
    with_what = _without_limit(run, polished) if limit is None else _with_limit(run, limit)
    notes = (*ready.notes, *choice.notes, *found.notes, with_what)
    estimates = () if choice.estimate is None else (choice.estimate,)
    return job.proof(
        attempt, verdict, data=ready, audit=audited, network=network, run=run,
        ratios=tuple(look.ratio for look in looks), polished=polished, eigenvalues=eigenvalues, predicted=predicted,
        estimates=estimates, notes=notes, limit=limit,
    )  # fmt: skip


def _is_proved(verdict: Any) -> bool:
    return verdict is not None and verdict.answer == "proved"


def _with_limit(run: Run, limit: Limit) -> str:
    """Say how well the limit is known, beside how far it is from the initial weights."""
    names = run.network.trained_names
    away = distance(names, limit.params, run.initial) / length({name: run.initial[name] for name in names})
    return f"{limit}; the initial weights are about {100 * away:.1g} % away"


def _without_limit(run: Run, polished: Polished | None) -> str:
    """Say with which weights predictions are made where those that gradient descent tends to are not known."""
    weights = f"the weights after {run.step} step{'' if run.step == 1 else 's'} of training"
    if polished is not None and polished.steps:
        weights = "the polished weights"
    elif not run.step:
        weights = "the initial weights"
    return (
        f"predictions are made with {weights}: those that gradient descent tends to were not found, and an estimate by "
        "cross-validation is about those"
    )


def _limit(job: Job, network: Network, attempt: Attempt, data: AnyDataset) -> Limit | None:
    """Look for the weights that gradient descent tends to, and keep them beside the certificate."""
    with job.stage("predicting", "looking for the weights that gradient descent tends to"):
        found = near_limit(network, attempt, data)
        if found is not None:
            found.put(job.folder)
    return found


@dataclass(frozen=True, eq=False)
class _Look:
    ratio: Ratio
    attempt: Attempt | None = None


def _ratio_at(looks: list[_Look], step: int) -> float:
    """Return the proof ratio after so many steps; infinity where nobody looked."""
    return next((look.ratio.h for look in looks if look.ratio.step == step), math.inf)


def _train(
    job: Job, network: Network, data: AnyDataset, recipe: Recipe, scale: Scale | None
) -> tuple[Run, list[_Look], Attempt | None]:
    """Train, with looks at the proof ratio: first where a proof is forecast, then a quarter later each time.

    Where the initial weights have a proof themselves nothing is waited for: all steps are taken at once.
    """
    place, problem = job.folder / RUN, Problem(network, data)
    looks = [_Look(ratio) for ratio in folders.read_ratios(job.folder)]
    outputs = int(np.prod(network.scored(data.y).shape[1:], dtype=int))
    rows, first = distinct(data).n * outputs, None
    at_once = scale is not None and scale.at_once
    often = rows <= (OFTEN if job.from_start is False else DENSE) and not at_once
    looked_at = rows <= DENSE or at_once
    soonest = FIRST_STEPS if scale is None else max(scale.forecast, 1)
    if place.exists():
        free = job.from_start is not False and not isinstance(job.recipe.step_size, float)
        run = folders.read_run(job.folder, network, data, recipe, free)
        run = dataclasses.replace(run, recipe=dataclasses.replace(run.recipe, steps=max(recipe.steps, run.step)))
        if looked_at and not looks:
            first = certify(problem.at(run.initial), level="float64")
            looks = [_Look(ratio_of(first, 0, 0.0), first)]
        near = starts_near(job, _ratio_at(looks, 0))
        often = often and not near
        if run.status is Status.RUNNING:
            run = extend(run, run.recipe.steps if not often else max(run.step, soonest), place, job.progress)
    else:
        start = begin(network, data, recipe)
        if looked_at:
            first = certify(problem.at(start.initial), level="float64")
            looks = [_Look(ratio_of(first, 0, 0.0), first)]
            start = gentler(job, start, first)
            recipe = start.recipe
        near = starts_near(job, _ratio_at(looks, 0))
        often = often and not near
        steps = min(soonest, recipe.steps) if often else recipe.steps
        run = train(
            network, data, dataclasses.replace(recipe, steps=steps), folder=place, progress=job.progress, start=start
        )
    while True:
        if run.status is Status.RUNNING:  # a signal asked to stop, and the caller's own handler of it returned
            raise KeyboardInterrupt
        last = run.status is not Status.LIMIT or run.step >= recipe.steps
        if (often or (near and rows <= DENSE)) and (not looks or looks[-1].ratio.step < run.step):
            job.tell(f"checking the proof ratio after {run.step} step{'' if run.step == 1 else 's'}")
            here = certify(problem.at(run.params), level="float64")
            looks.append(_Look(ratio_of(here, run.step, moved(run)), here))
            folders.write_ratios(job.folder, (look.ratio for look in looks))
        if last or _ratio_at(looks, run.step) < COMFORTABLE:
            return run, looks, first
        run = extend(run, min(max(math.ceil(LONGER * run.step), run.step + 1), recipe.steps), place, job.progress)


def ratio_of(attempt: Attempt[Any], step: int, away: float) -> Ratio:
    """Return the proof ratio after so many steps, and what it is made of; `away` is how far the weights have moved."""
    assert attempt.anchor is not None
    blocked = attempt.obstacle is not None and attempt.obstacle.quantity == "kink"
    h = max(attempt.h, 0.5) if blocked else attempt.h
    return Ratio(step, attempt.anchor.residual, attempt.anchor.s, h, away)


def _with_held_out(proof: Proof, kept_out: AnyDataset | None, date: str = "") -> Proof:
    if kept_out is None or proof.run is None:
        return proof
    model = Predictor(proof.network, proof.model.params, dataclasses.replace(proof.data, encoding=None))
    found = dataclasses.replace(score(kept_out, model.outputs(kept_out.x), "held out"), date=date)
    notes = (*proof.notes, *(gap(one, found) for one in proof.estimates[:1]))
    return dataclasses.replace(proof, estimates=(*proof.estimates, found), notes=notes)
