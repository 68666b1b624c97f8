r"""What a task can measure: one number each, from the start, the run, or the network at infinite width.

| name | meaning |
|---|---|
| `loss`, `error` | at the end of training |
| `steps` | steps taken; not a number if the target was not reached |
| `reached` | 1 if the target loss (or zero error) was reached, else 0 |
| `rate` | fitted decrease of $\log_{10}$ loss per step over the second half of the run |
| `distance` | $\max_W \|W(k) - W(0)\|_F / \|W(0)\|_F$ over trained weights |
| `distance_absolute` | $\max_W \|W(k) - W(0)\|_F$ |
| `gram_drift` | $\|G(k) - G(0)\|_2 / \|G(0)\|_2$ |
| `flips` | fraction of pre-activations whose sign changed |
| `lambda_min`, `lambda_max`, `condition` | of the Gram matrix at the start |
| `limit_lambda_min`, `limit_condition` | of the Gram matrix at infinite width |
| `lambda_kept` | 1 if `lambda_min` is at least 3/4 of `limit_lambda_min`, else 0: where Du et al. start |
| `proved` | 1 if a proof from the initial weights, with at most `steps` steps followed, is verified, else 0 |
| `proof_ratio` | $h = \Lambda\rho/s^2$ at the end of training; below 1/2 convergence is proved |
| `proof_ratio_start` | the same at the start: a proof before training |
| `proof_width` | the least width (not the task's own) with a proof before training, fully-connected, doubled start |
| `proof_scale` | the least output scale with a proof before training, at the task's own width, doubled start |
| `proof_scale_positive` | the same from the positive start, for linearly independent inputs |
| `check:PAPER.STATEMENT` | 1, 0 or not a number: a paper's statement in a quick laboratory with this task's seed |
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import numpy as np

from wideproof.certificates import Problem, certify
from wideproof.errors import InputError
from wideproof.kernels import gram
from wideproof.training import Status

if TYPE_CHECKING:
    from wideproof.sweeps.task import Work

Measure = Callable[["Work"], float]


def find_measure(name: str) -> Measure:
    """Return the function behind a measure's name."""
    if name.startswith("check:"):
        from wideproof.papers import statements

        wanted = name.removeprefix("check:")
        (*_, statement) = statements(wanted)
        return functools.partial(_statement, statement.name)
    if name not in MEASURES:
        raise InputError(f"there is no measure {name!r}: choose from {', '.join(MEASURES)}, or check:PAPER.STATEMENT")
    return MEASURES[name]


def _steps(work: Work) -> float:
    return float(work.run.step) if _reached(work) else np.nan


def _reached(work: Work) -> float:
    return float(work.run.status is Status.TARGET or work.run.status is Status.ZERO_ERROR)


def _rate(work: Work) -> float:
    losses, steps = work.run.records["loss"], work.run.steps
    kept = (steps >= steps[-1] / 2) & (losses > 0)
    if kept.sum() < 2:
        return np.nan
    return float(-np.polyfit(steps[kept], np.log10(losses[kept]), 1)[0])


def _change(work: Work, name: str) -> tuple[float, float]:
    start = work.run.initial[name]
    return float(np.linalg.norm(work.run.params[name] - start)), float(np.linalg.norm(start))


def _distance(work: Work) -> float:
    return max(moved / size for moved, size in (_change(work, name) for name in work.network.trained_names))


def _distance_absolute(work: Work) -> float:
    return max(_change(work, name)[0] for name in work.network.trained_names)


def _gram_drift(work: Work) -> float:
    before, after = (np.asarray(gram(work.network, p, work.data.x)) for p in (work.run.initial, work.run.params))
    return float(np.linalg.norm(after - before, 2) / np.linalg.norm(before, 2))


def _flips(work: Work) -> float:
    from wideproof.monitors import trace

    before, after = (trace(work.network, p, work.data.x).values for p in (work.run.initial, work.run.params))
    hidden = [name for name in before if work.network.group(name) != "output"]
    changed = [np.mean((a > 0) != (b > 0)) for name in hidden for a, b in zip(before[name], after[name], strict=True)]
    return float(np.mean(changed))


def _condition(values: np.ndarray) -> float:
    return float(values[-1] / values[0]) if values[0] > 0 else np.inf


def _proof_ratio(work: Work, at: str) -> float:

    return float(certify(Problem(work.network, work.data).at(work.start if at == "start" else work.run.params)).h)


def _proved(work: Work) -> float:
    from wideproof.sweeps.proofs import proved

    return float(proved(work.network, work.data, work.recipe))


def _proof_width(work: Work) -> float:
    from wideproof.certificates import width_needed
    from wideproof.networks import FullyConnected

    if not isinstance(work.network, FullyConnected):
        raise InputError(f"proof_width is for fully-connected networks, and this task has {work.network.name}")
    (found,) = width_needed(work.network, work.data, seeds=(work.recipe.seed,)).widths
    return np.nan if found is None else float(found)


def _proof_scale(work: Work, start: Literal["doubled", "positive"]) -> float:
    from wideproof.certificates import scale_needed
    from wideproof.networks import FullyConnected

    if not isinstance(work.network, FullyConnected):
        raise InputError(f"proof_scale is for fully-connected networks, and this task has {work.network.name}")
    (found,) = scale_needed(work.network, work.data, start=start, seeds=(work.recipe.seed,)).scales
    return np.nan if found is None else found


def _statement(name: str, work: Work) -> float:
    from wideproof.answers import Answer
    from wideproof.papers import laboratory, statements

    (statement,) = (one for one in statements(name) if one.name == name)
    outcome = statement.measure(laboratory(statement.paper, "quick", work.recipe.seed)).check.outcome
    return {Answer.HOLDS: 1.0, Answer.FAILS: 0.0}.get(outcome, np.nan)


MEASURES: dict[str, Measure] = {
    "loss": lambda work: work.run.loss,
    "error": lambda work: float(work.run.records["error"][-1]),
    "steps": _steps,
    "reached": _reached,
    "rate": _rate,
    "distance": _distance,
    "distance_absolute": _distance_absolute,
    "gram_drift": _gram_drift,
    "flips": _flips,
    "lambda_min": lambda work: float(work.eigenvalues[0]),
    "lambda_max": lambda work: float(work.eigenvalues[-1]),
    "condition": lambda work: _condition(work.eigenvalues),
    "limit_lambda_min": lambda work: float(work.limit_eigenvalues[0]),
    "lambda_kept": lambda work: float(work.eigenvalues[0] >= 0.75 * work.limit_eigenvalues[0]),
    "limit_condition": lambda work: _condition(work.limit_eigenvalues),
    "proved": _proved,
    "proof_ratio": lambda work: _proof_ratio(work, "end"),
    "proof_ratio_start": lambda work: _proof_ratio(work, "start"),
    "proof_width": _proof_width,
    "proof_scale": lambda work: _proof_scale(work, "doubled"),
    "proof_scale_positive": lambda work: _proof_scale(work, "positive"),
}
