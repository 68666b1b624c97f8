"""One task: data, network and training as plain values, a name that follows from them, and how it is carried out."""

from __future__ import annotations

import functools
import hashlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import numpy as np

from wideproof.data import GENERATORS, AnyDataset, load, prepare
from wideproof.errors import InputError
from wideproof.interrupts import raising_interrupts
from wideproof.kernels import gram, limit_gram
from wideproof.networks import Network, build
from wideproof.sweeps.measures import find_measure
from wideproof.sweeps.study import Study
from wideproof.threads import one_blas_thread
from wideproof.training import Recipe, Run, begin, train, train_many

MEANING = 2  # raised when the same task would give other numbers, so that old results are not taken for new ones


@dataclass(frozen=True)
class Task:
    """What is computed: `chosen` are its values along the axes, `settings` everything, `measures` what is kept."""

    chosen: tuple[tuple[str, Any], ...]
    settings: str
    measures: tuple[str, ...]

    @cached_property
    def digest(self) -> str:
        """A name that depends on everything that decides the numbers."""
        return hashlib.sha256(f"{MEANING}|{self.settings}|{','.join(self.measures)}".encode()).hexdigest()[:24]

    @property
    def kin(self) -> str:
        """Tasks that differ only in the seed of training have the same kin."""
        parts = json.loads(self.settings)
        parts["training"].pop("seed", None)
        return json.dumps(parts, sort_keys=True)

    @property
    def seed(self) -> int:
        """The seed of training."""
        return int(json.loads(self.settings)["training"].get("seed", Recipe.seed))

    @property
    def shape(self) -> str:
        """Tasks of equal shape use the same compiled program."""
        parts = json.loads(self.settings)
        own = {k: v for k, v in parts["training"].items() if k not in ("seed", "step_size", "constant", "target_loss")}
        data = {k: v for k, v in parts["data"].items() if k not in ("seed", "separation")}
        return json.dumps([data, parts["network"], own], sort_keys=True)


def tasks_of(study: Study) -> list[Task]:
    """Return the tasks of a study, those of equal shape one after another."""
    made = [_task(study, chosen) for chosen in study.combinations()]
    first: dict[str, int] = {}
    for k, task in enumerate(made):
        first.setdefault(task.shape, k)
    return sorted(made, key=lambda task: first[task.shape])


def first_task(study: Study) -> Task:
    """Return the first task of a study, without listing the others.

    Parameters
    ----------
    study
        The result of `read_study`.

    Returns
    -------
    Task
        The task.
    """
    return _task(study, next(study.combinations()))


def _task(study: Study, chosen: dict[str, Any]) -> Task:
    settings = json.dumps(study.settings(chosen), sort_keys=True)
    return Task(tuple(chosen.items()), settings, tuple(sorted(study.measures)))


T = TypeVar("T")


def _once(compute: Callable[[Any], T]) -> T:
    """Make a property that is computed at its first use.

    `functools.cached_property` of Python 3.11 lets one thread at a time compute, for all instances together.
    """

    @functools.wraps(compute)
    def found(self: Any) -> T:
        kept = self.__dict__.setdefault("_kept", {})
        if compute.__name__ not in kept:
            kept[compute.__name__] = compute(self)
        return kept[compute.__name__]

    return property(found)  # pyright: ignore[reportReturnType]


class Work:
    """A task being carried out; the run, and what several measures need, are made when first asked for."""

    def __init__(self, settings: Mapping[str, Mapping[str, Any]], together: Together | None = None) -> None:
        self.settings, self.together = settings, together
        self.data: AnyDataset = _data(json.dumps(settings["data"], sort_keys=True))
        options = {k: v for k, v in settings["network"].items() if k != "name"}
        shapes = self.data.input_shape, self.data.target_shape
        self.network: Network = build(settings["network"]["name"], *shapes, **options)
        self.recipe = Recipe.from_config(dict(settings["training"]))

    @_once
    def start(self) -> dict[str, np.ndarray]:
        """The initial weights."""
        return dict(begin(self.network, self.data, self.recipe).initial)

    @_once
    def eigenvalues(self) -> np.ndarray:
        """The eigenvalues of the Gram matrix at the start."""
        return np.linalg.eigvalsh(np.asarray(gram(self.network, self.start, self.data.x)))

    @_once
    def limit_eigenvalues(self) -> np.ndarray:
        """The eigenvalues of the Gram matrix at infinite width."""
        return _limit_eigenvalues(self.network, json.dumps(self.settings["data"], sort_keys=True))

    @_once
    def run(self) -> Run:
        """The training run."""
        if self.together is not None:
            return self.together.run(self)
        return train(self.network, self.data, self.recipe)


class Together:
    """Seeds of one network on one data set, all trained in one program when the first run is asked for."""

    def __init__(self, seeds: Sequence[int]) -> None:
        self.seeds = seeds
        self._runs: dict[int, Run] = {}
        self._error: Exception | None = None

    def run(self, work: Work) -> Run:
        """Return the run of this work's seed; what went wrong once is raised for every seed, and not tried again."""
        if self._error is not None:
            raise self._error
        if not self._runs:
            try:
                runs = train_many(work.network, work.data, work.recipe, seeds=self.seeds, how="batch")
            except Exception as error:
                self._error = error
                raise
            self._runs = dict(zip(self.seeds, runs, strict=True))
        return self._runs[work.recipe.seed]


def execute(task: Task, together: Together | None = None, given_up: threading.Event | None = None) -> dict[str, float]:
    """Run a task and return its measurements.

    A task that trains stops with `KeyboardInterrupt` soon after `given_up` is set.

    Parameters
    ----------
    task
        The task.
    together
        The seeds that are trained in one program with this task's seed; `None` trains it alone.
    given_up
        An event that stops the task.

    Returns
    -------
    dict[str, float]
        The measured values, in the order of the names of the measures.
    """
    work = Work(json.loads(task.settings), together)
    with one_blas_thread(), raising_interrupts(given_up):
        return {name: float(find_measure(name)(work)) for name in task.measures}


@lru_cache(maxsize=64)
def _limit_eigenvalues(network: Network, data: str) -> np.ndarray:
    return np.linalg.eigvalsh(np.asarray(limit_gram(network, _data(data).x)))  # the same for every seed


@lru_cache(maxsize=16)
def _data(text: str) -> AnyDataset:
    given = json.loads(text)
    source, steps = given.pop("source"), given.pop("prepare", "")
    loaded = {key: given.pop(key) for key in ("limit", "kind", "target", "task") if key in given}
    classes = given.pop("classes", None)
    if source in GENERATORS:
        seed = given.pop("seed", 0)
        spec = f"{source}:{','.join(f'{key}={value}' for key, value in sorted(given.items()))}".rstrip(":")
        data = load(spec, seed=seed, limit=loaded.get("limit"))
    elif given:
        raise InputError(f"the data {source!r} has no {', '.join(sorted(given))}")
    else:
        data = load(source, classes=None if classes is None else classes.split(","), **loaded)
    return prepare(data, steps) if steps else data
