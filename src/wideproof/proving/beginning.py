"""Proofs that begin at the initial weights: of those themselves, before training, or by following every step."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from wideproof.certificates import Attempt, certify, certify_from_start, distance, seconds_to_follow
from wideproof.networks import Network
from wideproof.proving.job import Job, verified
from wideproof.training import Run, Status, begin

AFFORDABLE = 90.0  # seconds that a proof from the start may take without being asked for


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
    return h < 0.5 and job.before and job.recipe.batch is None


def before_training(job: Job, run: Run, h: float) -> tuple[Attempt | None, Any]:
    """Try a proof of the initial weights themselves, whose proof ratio is about `h`, with the step size of the run."""
    if not starts_near(job, h):
        return None, None
    with job.stage("certifying", "certifying the initial weights"):
        told = about(dataclasses.replace(run, step=0, params=run.initial), "the initial weights")
        attempt = certify(
            run.network, run.initial, run.data, sharp=job.sharp, step_size=run.step_size, about=told
        )  # fmt: skip
    verdict = verified(job, attempt)
    return (attempt, verdict) if verdict is not None and verdict.answer == "proved" else (None, None)


def begun(job: Job, network: Network, run: Run, h: float) -> tuple[Attempt | None, Any, list[str]]:
    """Try a proof from the initial weights on; if there is none the note says why."""
    if job.from_start is False or run.step == 0 or run.status is Status.DIVERGED:
        return None, None, []
    why = "not proved from the initial weights"
    if not h < 0.5:
        ratio = "" if h == math.inf else f", its proof ratio is {h:.3g}"
        return None, None, [f"{why}: after {run.step} steps training is not near enough to a fit{ratio}"]
    with job.stage("certifying", "certifying from the start"):
        attempt = None
        rows = run.data.n if run.recipe.batch is None else min(run.recipe.batch, run.data.n)
        took = seconds_to_follow(network.graph, run.initial, rows, np.zeros(run.step))
        if job.from_start or took <= AFFORDABLE:
            attempt = certify_from_start(run, sharp=job.sharp, about=about(run, "the trained weights"))
        if attempt is not None and attempt.certificate is not None and attempt.certificate.start is not None:
            took = seconds_to_follow(network.graph, run.initial, rows, attempt.certificate.start.bits)
        if not job.from_start and took > AFFORDABLE:
            note = f"{why}: to follow {run.step} steps takes about {took:.0f} s, ask for it with from_start"
            return None, None, [note]
    assert attempt is not None
    if attempt.certificate is None:
        return None, None, [f"{why}: {attempt.obstacle}"]
    verdict = verified(job, attempt, f"following {run.step} steps from the start with rigorous bounds on all rounding")
    if verdict.answer != "proved":
        return None, None, [f"{why}: {verdict.reason}"]
    return attempt, verdict, []


def about(run: Run, weights: str) -> dict[str, Any]:
    """Return where the weights of a run come from, for the certificate."""
    return {
        "anchor": weights, "seed": run.recipe.seed, "steps": run.step, "step_size": run.step_size,
        "moved": moved(run), "preparation": [str(step) for step in run.data.preparation],
    }  # fmt: skip


def moved(run: Run) -> float:
    """Return how far training moved the weights."""
    return distance(run.network.trained_names, run.params, run.initial)
