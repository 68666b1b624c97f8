"""The main job: audit, train, polish if needed, certify, have it verified. Every stage can be resumed.

A folder holds it all: the training run in `run/`, the proof ratios in `ratios.json`, the certificate in `certificate/`,
and the report. `prove` on a folder that exists goes on where it was interrupted, and refuses one of another problem.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from wideproof.certificates.attempt import Attempt, Obstacle
from wideproof.certificates.certificate import ARRAYS, DOCUMENT, load_certificate
from wideproof.certificates.certifying import certify, scored
from wideproof.certificates.polishing import Polished, polish
from wideproof.certificates.proof import Proof, Ratio
from wideproof.data import AnyDataset, audit
from wideproof.data.conflicts import conflicts
from wideproof.errors import InputError
from wideproof.kernels import gram, predict
from wideproof.networks import Network
from wideproof.precision import double
from wideproof.storage import read_json, write_json
from wideproof.training import Progress, Recipe, Run, Status, resume, train
from wideproof.training.train import begin

STEPS = 2048  # of training at most, unless told otherwise: what is left is polished away
FIRST_STEPS = 16  # training stops here for a first look at the proof ratio, then at every doubling
COMFORTABLE = 0.4  # a ratio below this is certified; between this and 1/2 a little more training costs nothing
RATIOS, RUN, CERTIFICATE = "ratios.json", "run", "certificate"

Tell = Callable[[str], None]


@double
def prove(
    data: AnyDataset,
    network: Network,
    *,
    folder: str | Path,
    recipe: Recipe | None = None,
    sharp: bool = False,
    stage: Tell | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Proof:
    """Train `network` on `data` until convergence can be certified, certify it, and have it verified.

    Parameters
    ----------
    data : prepared as the network needs it.
    folder : a new one, or one that an interrupted `prove` left behind.
    recipe : squared loss; `steps` is the most that is trained. What is left over is polished away.
    stage : is told what begins, in a few words.

    Returns
    -------
    A `Proof`: proved, impossible, or not proved with the obstacle.
    """
    folder = Path(folder)
    recipe = recipe or Recipe(steps=STEPS)
    if recipe.loss != "squared" or recipe.objective.reduction != "half_sum":
        raise InputError("a proof of convergence is about half the sum of squares: take the squared loss, half_sum")
    _require_same_problem(folder, network, data, recipe)
    tell = stage or (lambda text: None)
    clock: dict[str, float] = {}
    with _timed(clock, "audit"):
        tell("auditing the data")
        audited = audit(data)
    if conflicts(data).least_square > 0:
        tell("certifying that zero loss is impossible")
        attempt = certify(network, begin(network, data, recipe).initial, data)
        verdict = _verified(attempt, folder, tell, clock)
        return Proof(data, audited, network, None, (), None, attempt, verdict, {}, None, clock, folder)
    with _timed(clock, "training"):
        tell("training")
        run, ratios = _train(network, data, recipe, folder, progress, tell)
    with _timed(clock, "certifying"):
        tell("certifying")
        attempt, polished = _certify(network, run, data, sharp, tell)
    verdict = _verified(attempt, folder, tell, clock)
    with _timed(clock, "spectra"):
        tell("comparing with the prediction")
        eigenvalues, predicted = _spectra(network, run, data, polished)
    return Proof(
        data, audited, network, run, ratios, polished, attempt, verdict, eigenvalues, predicted, clock, folder
    )  # fmt: skip


def _require_same_problem(folder: Path, network: Network, data: AnyDataset, recipe: Recipe) -> None:
    """Refuse a folder whose run or certificate is about other data, another network or another recipe."""
    same = True
    if folder.is_dir() and any(folder.iterdir()) and not any((folder / name).is_dir() for name in (RUN, CERTIFICATE)):
        raise InputError(f"{folder} is not empty and holds no proof: choose another folder")
    if (folder / RUN).exists():
        run = Run.load(folder / RUN)
        same = run.data.digest == data.digest and run.network == network
        if same and dataclasses.replace(run.recipe, steps=recipe.steps) != recipe:
            raise InputError(
                f"{folder} was begun with another recipe ({_differences(run.recipe, recipe)}): choose another folder, "
                "or go on with the same one; only the number of steps may change"
            )
    if same and (folder / CERTIFICATE).exists():
        old = load_certificate(folder / CERTIFICATE)
        same = old.network == network and np.array_equal(old.x, data.x) and np.array_equal(old.y, data.y)
    if not same:
        raise InputError(f"{folder} holds a proof of another problem: choose another folder")


def _differences(old: Recipe, new: Recipe) -> str:
    before, after = old.to_config(), new.to_config()
    names = [name for name in before if name != "steps" and before[name] != after[name]]
    return ", ".join(f"{name} {before[name]}, now {after[name]}" for name in names)


def _train(
    network: Network,
    data: AnyDataset,
    recipe: Recipe,
    folder: Path,
    progress: Callable[[Progress], None] | None,
    tell: Tell,
) -> tuple[Run, tuple[Ratio, ...]]:
    """Train in doubling segments, with a look at the proof ratio after each, until it is comfortable."""
    place, notes = folder / RUN, folder / RATIOS
    ratios = _read_ratios(notes)
    if place.exists():
        run = Run.load(place)
        if run.status is Status.RUNNING:
            run = resume(place, progress=progress)
    else:
        first = dataclasses.replace(recipe, steps=min(FIRST_STEPS, recipe.steps))
        run = train(network, data, first, folder=place, progress=progress)
    if not ratios:
        ratios.append(_ratio(network, begin(network, data, recipe), data))
    while True:
        if run.status is Status.RUNNING:
            raise KeyboardInterrupt
        if ratios[-1].step < run.step:
            tell(f"looking at the proof ratio after {run.step} steps")
            ratios.append(_ratio(network, run, data))
            rows = [[value if math.isfinite(value) else None for value in ratio] for ratio in ratios]
            write_json(notes, {"ratios": rows})
        done = run.status is not Status.LIMIT or ratios[-1].h < COMFORTABLE
        if done or run.step >= recipe.steps:
            return run, tuple(ratios)
        tell("training")
        run = resume(place, steps=min(max(2 * run.step, FIRST_STEPS), recipe.steps), progress=progress)


def _read_ratios(path: Path) -> list[Ratio]:
    if not path.exists():
        return []
    rows = read_json(path)["ratios"]
    return [Ratio(row[0], *(math.inf if value is None else value for value in row[1:])) for row in rows]


def _ratio(network: Network, run: Run, data: AnyDataset) -> Ratio:
    attempt = certify(network, run.params, data, level="float64")
    assert attempt.anchor is not None
    blocked = attempt.obstacle is not None and attempt.obstacle.quantity == "kink"
    h = max(attempt.h, 0.5) if blocked else attempt.h
    return Ratio(run.step, attempt.anchor.residual, attempt.anchor.s, h, _moved(run))


def _moved(run: Run) -> float:
    squares = (np.sum(np.square(np.asarray(run.params[k], float) - run.initial[k])) for k in run.network.trained_names)
    return float(np.sqrt(sum(float(s) for s in squares)))


def _certify(network: Network, run: Run, data: AnyDataset, sharp: bool, tell: Tell) -> tuple[Attempt, Polished | None]:
    about: dict[str, Any] = {
        "anchor": "the trained weights", "seed": run.recipe.seed, "steps": run.step, "step_size": run.step_size,
        "moved": _moved(run), "preparation": [str(step) for step in data.preparation],
    }  # fmt: skip
    attempt = certify(network, run.params, data, sharp=sharp, about=about)
    if attempt.passed:
        return attempt, None
    if run.status is Status.DIVERGED:
        smaller = run.smaller_step_size()
        reason = f"training with the step size {run.step_size:.4g} diverged after {run.step} steps"
        advice = (f"take a smaller step size, such as {smaller:.4g}",)
        diverged = Obstacle("divergence", run.step_size, smaller, reason, advice)
        return dataclasses.replace(attempt, obstacle=diverged), None
    tell("polishing by Gauss-Newton steps")
    found = polish(network, run.params, data.x, data.y)
    about |= {
        "anchor": "the trained and polished weights",
        "polishing": {"steps": found.steps, "moved": found.moved},
    }
    again = certify(network, found.params, data, sharp=sharp, about=about)
    return again, found


def _verified(attempt: Attempt, folder: Path, tell: Tell, clock: dict[str, float]) -> Any:
    if attempt.certificate is None:
        return None
    from wideproof_verify import verify

    with _timed(clock, "verifying"):
        tell("verifying in ball arithmetic")
        place = folder / CERTIFICATE
        if not attempt.certificate.is_in(place):
            if place.exists():  # of the same problem, from fewer steps or with other bounds
                for name in (ARRAYS, DOCUMENT):
                    (place / name).unlink()
                place.rmdir()
            attempt.certificate.save(place)
        return verify(place)


@double
def _spectra(
    network: Network, run: Run, data: AnyDataset, polished: Polished | None
) -> tuple[dict[str, np.ndarray], tuple[np.ndarray, np.ndarray] | None]:
    """Return the Gram matrix's eigenvalues at both ends, and the loss that the first one predicts."""
    end = run.params if polished is None else polished.params
    first = np.asarray(gram(network, run.initial, data.x).matrix, np.float64)
    last = np.asarray(gram(network, end, data.x).matrix, np.float64)
    eigenvalues = {"start": np.linalg.eigvalsh(first)[::-1], "end": np.linalg.eigvalsh(last)[::-1]}
    if run.recipe.optimizer != "plain" or run.recipe.batch is not None:
        return eigenvalues, None
    start = np.asarray(network.scored(jnp.asarray(network(run.initial, data.x))), np.float64)
    course = predict(first, scored(network, data.y), start, run.step_size)
    steps = np.unique(np.geomspace(1, max(run.step, 2), 200).astype(int))
    return eigenvalues, (steps, course.loss(steps))


@contextmanager
def _timed(clock: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    try:
        yield
    finally:
        clock[name] = clock.get(name, 0.0) + time.perf_counter() - start
