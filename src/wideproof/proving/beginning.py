"""Proofs that begin at the initial weights: of those themselves, before training, or by following every step."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np

from wideproof.certificates import (
    Attempt,
    Descent,
    Problem,
    certify,
    certify_from_start,
    distance,
    require_followable,
    seconds_to_follow,
)
from wideproof.errors import InputError
from wideproof.networks import Network
from wideproof.proving.job import Job, verified
from wideproof.training import Run, Status, begin

NOT_BEGUN = "not proved from the initial weights"  # how a note begins that says why
UNBOUNDED = "nothing bounds the distance"  # what a verifier says where the ball around a step outgrows its bounds
MUCH = 1.5  # times the budget: estimates of seconds are no better than that
ROOM = 0.99  # of the certified step size: the end of a run with it is a little elsewhere


class Begun(NamedTuple):
    """A proof from the initial weights on, or why there is none: a note, and the step size with which there may be."""

    attempt: Attempt | None = None
    verdict: Any = None
    notes: tuple[str, ...] = ()
    step_size: float | None = None


def gentler(job: Job, start: Run, first: Attempt) -> Run:
    """Return the run with a step size at which the theorem can take over: at most 1/S² of the network as it is.

    Where the initial weights have a proof themselves, it is at most the step size of that.
    """
    assert first.anchor is not None
    most = 1 / first.anchor.S**2 / (1 if job.recipe.batch is None else 2)
    near = starts_near(job, first.h)
    if near and first.descent is not None:
        most = first.descent.eta * (1 - 1e-6)  # what rounding may take from it
    free = (near or job.from_start is not False) and not isinstance(job.recipe.step_size, float)
    if not free or start.step_size <= most:
        return start
    recipe = dataclasses.replace(start.recipe, step_size=most)
    return begin(start.network, start.data, recipe)


def starts_near(job: Job, h: float) -> bool:
    """Return whether the proof ratio at the initial weights is one for a proof before training, by gradient descent."""
    return h < 0.5 and job.from_start is not False and job.recipe.batch is None


def before_training(job: Job, run: Run, h: float) -> tuple[Attempt | None, Any]:
    """Try a proof of the initial weights themselves, whose proof ratio is about `h`, with the step size of the run."""
    if not starts_near(job, h):
        return None, None
    with job.stage("certifying", "certifying the initial weights"):
        told = about(run, "the initial weights", trained=False)
        point = Problem(run.network, run.data).at(run.initial)
        attempt = certify(point, Descent(run.step_size), sharp=job.sharp, about=told)
    verdict = verified(job, attempt)
    return (attempt, verdict) if verdict is not None and verdict.answer == "proved" else (None, None)


def begun(job: Job, network: Network, run: Run, h: float) -> Begun:
    """Try a proof from the initial weights on; if there is none the note says why."""
    if job.from_start is False or run.step == 0 or run.status is Status.DIVERGED:
        return Begun()
    why = NOT_BEGUN
    try:
        require_followable(run)
    except InputError as error:
        if job.from_start:
            raise
        return Begun(notes=(f"{why}: {error}",))
    if not h < 0.5:
        ratio = "" if h == math.inf else f", its proof ratio is {h:.3g}"
        if h == 0.5 and network.graph.kinked:  # what looks put there instead of a smaller one, which does not suffice
            ratio = ": a unit could switch on or off on the way"
        after = f"{run.step} step{'' if run.step == 1 else 's'}"
        return Begun(notes=(f"{why}: after {after} training is not near enough to a fit{ratio}",))
    rows = run.data.n if run.recipe.batch is None else min(run.recipe.batch, run.data.n)
    attempt, verdict = None, None
    for careful in (False, True):
        with job.stage("certifying", "certifying from the start" + (" with more bits" if careful else "")):
            took = seconds_to_follow(network.graph, run.initial, rows, np.zeros(run.step))
            if job.from_start or took <= MUCH * job.budget:
                told = about(run, "the trained weights")
                attempt = certify_from_start(run, careful=careful, sharp=job.sharp, about=told)
            if attempt is not None and attempt.certificate is not None and attempt.certificate.start is not None:
                took = seconds_to_follow(network.graph, run.initial, rows, attempt.certificate.start.bits)
        if not job.from_start and took > MUCH * job.budget:
            note = (
                f"{why}: to follow {run.step} steps takes about {took:.0f} s, and {job.budget:.0f} s are allowed "
                f"(--budget {2 * took:.0f} allows it, --from-start asks for it)"
            )
            return Begun(notes=(note,))
        assert attempt is not None
        if attempt.certificate is None:
            found = attempt.obstacle
            given = isinstance(job.recipe.step_size, float)
            if found is None or found.quantity != "step size" or given:
                return Begun(notes=(f"{why}: {found}",))
            smaller = ROOM * found.needed
            note = f"{why}: {found.reason} (--step-size {smaller:.3g} takes it from the first step on)"
            return Begun(notes=(note,), step_size=smaller)
        what = f"following {run.step} steps from the start with rigorous bounds on all rounding"
        verdict = verified(job, attempt, what)
        if verdict.answer == "proved":
            return Begun(attempt, verdict)
        if UNBOUNDED not in verdict.reason:
            break
    assert verdict is not None
    return Begun(notes=(f"{why}: {verdict.reason}",))


def about(run: Run, weights: str, trained: bool = True) -> dict[str, Any]:
    """Return where the trained or the initial weights of a run come from, for the certificate."""
    return {
        "anchor": weights, "seed": run.recipe.seed, "steps": run.step if trained else 0, "step_size": run.step_size,
        "moved": moved(run) if trained else 0.0, "preparation": [str(step) for step in run.data.preparation],
    }  # fmt: skip


def moved(run: Run) -> float:
    """Return how far training moved the weights."""
    return distance(run.network.trained_names, run.params, run.initial)
