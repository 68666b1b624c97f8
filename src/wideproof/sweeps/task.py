"""One task: data, network and training as plain values, a name that follows from them, and how it is carried out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from wideproof.data import AnyDataset, load, prepare
from wideproof.data.generators import GENERATORS
from wideproof.errors import InputError
from wideproof.kernels import gram, limit_gram
from wideproof.networks import Network, build
from wideproof.sweeps.measures import find_measure
from wideproof.sweeps.study import Study
from wideproof.training import Recipe, Run, train
from wideproof.training.train import begin, raising_interrupts

MEANING = 1  # raised when the same task would give other numbers, so that old results are not taken for new ones


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
    """Return one task, without listing the others."""
    return _task(study, next(study.combinations()))


def _task(study: Study, chosen: dict[str, Any]) -> Task:
    settings = json.dumps(study.settings(chosen), sort_keys=True)
    return Task(tuple(chosen.items()), settings, tuple(sorted(study.measures)))


class Work:
    """A task being carried out; the run, and what several measures need, are made when first asked for."""

    def __init__(self, settings: Mapping[str, Mapping[str, Any]]) -> None:
        self.settings = settings
        self.data: AnyDataset = _data(json.dumps(settings["data"], sort_keys=True))
        options = {k: v for k, v in settings["network"].items() if k != "name"}
        shapes = self.data.input_shape, self.data.target_shape
        self.network: Network = build(settings["network"]["name"], *shapes, **options)
        self.recipe = Recipe.from_config(dict(settings["training"]))

    @cached_property
    def start(self) -> dict[str, np.ndarray]:
        """The initial weights."""
        return dict(begin(self.network, self.data, self.recipe).initial)

    @cached_property
    def eigenvalues(self) -> np.ndarray:
        """The eigenvalues of the Gram matrix at the start."""
        return np.linalg.eigvalsh(np.asarray(gram(self.network, self.start, self.data.x)))

    @cached_property
    def limit_eigenvalues(self) -> np.ndarray:
        """The eigenvalues of the Gram matrix at infinite width."""
        return np.linalg.eigvalsh(np.asarray(limit_gram(self.network, self.data.x)))

    @cached_property
    def run(self) -> Run:
        """The training run."""
        return train(self.network, self.data, self.recipe)


def execute(task: Task) -> dict[str, float]:
    """Carry a task out and return what was measured, in the order of the measures' names."""
    work = Work(json.loads(task.settings))
    with raising_interrupts():
        return {name: float(find_measure(name)(work)) for name in task.measures}


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
