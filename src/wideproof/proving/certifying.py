"""From a run to a certificate: its weights as they are, or polished; and the spectra beside it."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from wideproof.certificates import (
    DENSE,
    Attempt,
    Obstacle,
    Polished,
    balanced,
    certify,
    fit_read_out,
    polish,
    too_far,
)
from wideproof.data import AnyDataset, distinct
from wideproof.kernels import predict
from wideproof.networks import Network
from wideproof.proving.beginning import about
from wideproof.proving.job import Job
from wideproof.training import Run, Status


def certified(
    job: Job,
    network: Network,
    run: Run,
    data: AnyDataset,
    h: float,
    weights: str = "the trained weights",
    farthest: float = math.inf,
) -> tuple[Attempt, Polished | None]:
    """Certify the weights of a run whose proof ratio is about `h`, polished where that is needed.

    Weights that would have to be polished by more than the share `farthest` of their length stay as they are.
    """
    told = about(run, weights)
    if h < 0.5:
        attempt = certify(network, run.params, data, sharp=job.sharp, about=told)
        if attempt.passed:
            return attempt, None
    if run.status is Status.DIVERGED:
        attempt = certify(network, run.initial, data, level="float64")
        smaller = run.smaller_step_size()
        reason = f"training with the step size {run.step_size:.4g} diverged after {run.step} steps"
        advice = (f"use a smaller step size, such as {smaller:.4g}",)
        diverged = Obstacle("divergence", run.step_size, smaller, reason, advice)
        return dataclasses.replace(attempt, certificate=None, descent=None, obstacle=diverged), None
    if not farthest:
        return certify(network, run.params, data, sharp=job.sharp, about=told), None
    job.tell("polishing the weights")
    found = _polished(network, run, data)
    share = found.share(network, run.params)
    if share > farthest:
        attempt = certify(network, run.params, data, level="float64")
        return dataclasses.replace(attempt, certificate=None, descent=None, obstacle=too_far(share, farthest)), None
    told |= {
        "anchor": f"{weights}, polished",
        "polishing": {"steps": found.steps, "moved": found.moved, "weights": found.kind},
    }
    even = balanced(network.graph, found.params, data.y)
    return certify(network, even or found.params, data, sharp=job.sharp, about=told), found


def _polished(network: Network, run: Run, data: AnyDataset) -> Polished:
    """Polish all weights, which moves them least; the read-out alone where that is too much work, or does not fit.

    Where neither fits, the better of both is returned.
    """
    groups = distinct(data)
    enough = 1e-6 * (1 + float(np.linalg.norm(groups.y)))
    stalled = []
    for kind in (polish, fit_read_out) if groups.y.size <= DENSE else (fit_read_out, polish):
        found = kind(network, run.params, groups.x, groups.y)
        if found is not None and found.residuals[-1] < enough:
            return found
        if found is not None:
            stalled.append(found)
    return min(stalled, key=lambda found: found.residuals[-1])


def spectra(
    run: Run, data: AnyDataset, first: Attempt | None, attempt: Attempt
) -> tuple[dict[str, np.ndarray], tuple[np.ndarray, np.ndarray] | None]:
    """Return the Gram matrix's eigenvalues at both ends, and the loss that the first one predicts."""
    if first is None or first.anchor is None or attempt.anchor is None or attempt.anchor.lean:
        return {}, None
    start, groups = first.anchor, distinct(data)
    eigenvalues = {
        name: np.linalg.eigvalsh((a.gram.mid + a.gram.mid.T) / 2)[::-1]
        for name, a in (("start", start), ("end", attempt.anchor))
    }
    errors = start.errors.mid
    course = predict(start.gram.mid, np.zeros(errors.shape), errors, run.step_size)
    steps = np.unique(np.geomspace(1, max(run.step, 2), 200).astype(int))
    return eigenvalues, (steps, course.loss(steps) + groups.least_loss[0])
