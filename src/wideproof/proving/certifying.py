"""From weights to a certificate: as they are, or polished; and the spectra beside it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from wideproof.certificates import (
    DENSE,
    Attempt,
    Obstacle,
    Point,
    Polished,
    Problem,
    balanced,
    certify,
    fit_read_out,
    polish,
    too_far,
)
from wideproof.data import AnyDataset, distinct
from wideproof.kernels import predict
from wideproof.proving.beginning import about
from wideproof.proving.job import Job
from wideproof.training import Run, Status


def certified(
    job: Job, point: Point, told: Mapping[str, Any], h: float, farthest: float = math.inf
) -> tuple[Attempt[Any], Polished | None]:
    """Certify a point whose proof ratio is about `h`, polished where that is needed; `told` is for the certificate.

    Weights that would have to be polished by more than the share `farthest` of their length stay as they are.
    """
    if h < 0.5 or not farthest:
        attempt = certify(point, sharp=job.sharp, about=told)
        if attempt.passed or not farthest:
            return attempt, None
    job.tell("polishing the weights")
    network, data, found = point.network, point.data, _polished(point)
    share = found.share(network, point.params)
    if share > farthest:
        attempt = certify(point, level="float64")
        return dataclasses.replace(attempt, certificate=None, conclusion=None, obstacle=too_far(share, farthest)), None
    told = {
        **told,
        "anchor": f"{told['anchor']}, polished",
        "polishing": {"steps": found.steps, "moved": found.moved, "weights": found.kind},
    }
    even = balanced(network.graph, found.params, data.y)
    return certify(point.problem.at(even or found.params), sharp=job.sharp, about=told), found


def certified_end(
    job: Job, problem: Problem, run: Run, h: float, farthest: float = math.inf
) -> tuple[Attempt[Any], Polished | None]:
    """Certify the end of a run whose proof ratio there is about `h`; or say that it diverged."""
    if run.status is not Status.DIVERGED or h < 0.5:
        return certified(job, problem.at(run.params), about(run, "the trained weights"), h, farthest)
    attempt = certify(problem.at(run.initial), level="float64")
    smaller = run.smaller_step_size()
    reason = f"training with the step size {run.step_size:.4g} diverged after {run.step} steps"
    advice = (f"use a smaller step size, such as {smaller:.4g}",)
    diverged = Obstacle("divergence", run.step_size, smaller, reason, advice)
    return dataclasses.replace(attempt, certificate=None, conclusion=None, obstacle=diverged), None


def _polished(point: Point) -> Polished:
    """Polish all weights, which moves them least; the read-out alone where that is too much work, or does not fit.

    Where neither fits, the better of both is returned.
    """
    groups = point.problem.groups
    enough = 1e-6 * (1 + float(np.linalg.norm(groups.y)))
    stalled = []
    for kind in (polish, fit_read_out) if groups.y.size <= DENSE else (fit_read_out, polish):
        found = kind(point.network, point.params, groups.x, groups.y)
        if found is not None and found.residuals[-1] < enough:
            return found
        if found is not None:
            stalled.append(found)
    return min(stalled, key=lambda found: found.residuals[-1])


def spectra(
    run: Run, data: AnyDataset, first: Attempt | None, attempt: Attempt
) -> tuple[dict[str, np.ndarray], tuple[np.ndarray, np.ndarray] | None]:
    """Return the Gram matrix's eigenvalues at both ends, and the loss that the first one predicts for gradient descent.

    It says nothing about other methods.
    """
    if first is None or first.anchor is None or attempt.anchor is None or attempt.anchor.lean:
        return {}, None
    start, groups = first.anchor, distinct(data)
    eigenvalues = {
        name: np.linalg.eigvalsh((a.gram.mid + a.gram.mid.T) / 2)[::-1]
        for name, a in (("start", start), ("end", attempt.anchor))
    }
    errors = start.errors.mid
    if not run.recipe.plain:
        return eigenvalues, None
    course = predict(start.gram.mid, np.zeros(errors.shape), errors, run.step_size)
    steps = np.unique(np.geomspace(1, max(run.step, 2), 200).astype(int))
    return eigenvalues, (steps, course.loss(steps) + groups.least_loss[0])
