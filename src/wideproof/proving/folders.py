"""The folder of a proof: what an earlier run left there is gone on with, and another problem's is refused.

It holds it all: what was chosen in `choice.json`, the training run in `run/`, the proof ratios in `ratios.json`, the
certificate in `certificate/`, and the report.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from wideproof.certificates import load_certificate
from wideproof.data import AnyDataset, prepare
from wideproof.errors import InputError
from wideproof.networks import Network, from_config
from wideproof.planning import Choice, Estimate, Scale, scaled
from wideproof.proving.limits import LIMIT
from wideproof.proving.predictor import CERTIFICATE, RUN
from wideproof.proving.proof import Ratio
from wideproof.storage import read_json, write_json
from wideproof.training import Recipe, Run

P = ParamSpec("P")
R = TypeVar("R")

RATIOS, CHOICE = "ratios.json", "choice.json"


def temporary(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function that is given no `folder` work in a temporary one, and return its result without it.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Made:
    ...     folder: Path | None
    ...     was: str
    >>> @temporary("proof")
    ... def make(folder: Path | None = None) -> Made:
    ...     return Made(folder, folder.name)
    >>> make(), make(Path("mine")).folder.name
    (Made(folder=None, was='proof'), 'mine')
    """

    def wrapped(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            bound = signature.bind(*args, **kwargs)
            if bound.arguments.get("folder") is not None:
                return function(*args, **kwargs)
            with tempfile.TemporaryDirectory() as kept:
                bound.arguments["folder"] = Path(kept) / name
                return dataclasses.replace(function(*bound.args, **bound.kwargs), folder=None)  # pyright: ignore[reportArgumentType]

        return call

    return wrapped


def require_place(folder: Path) -> None:
    """Refuse a folder that holds something, but no proof."""
    parts = (RUN, CERTIFICATE, CHOICE)
    if folder.is_dir() and any(folder.iterdir()) and not any((folder / name).exists() for name in parts):
        raise InputError(f"{folder} is not empty and holds no proof: choose another folder")


def require_same_problem(folder: Path, network: Network, data: AnyDataset) -> None:
    """Refuse a folder whose certificate is about other data or another network."""
    if not (folder / CERTIFICATE).exists():
        return
    old = load_certificate(folder / CERTIFICATE)
    if (
        old.graph.to_dict() != network.graph.to_dict()
        or not np.array_equal(old.x, data.x)
        or not np.array_equal(old.y, data.y)
    ):
        raise _another_problem(folder)


def forget(folder: Path) -> None:
    """Remove what an attempt left, so that another one can begin."""
    forget_run(folder)
    (folder / CHOICE).unlink(missing_ok=True)


def forget_run(folder: Path) -> None:
    """Remove what training left, so that it can begin again with what was chosen."""
    for name in (RUN, CERTIFICATE):
        shutil.rmtree(folder / name, ignore_errors=True)
    for name in (RATIOS, LIMIT):
        (folder / name).unlink(missing_ok=True)


def write_choice(folder: Path, choice: Choice, data: AnyDataset, asked: Mapping[str, Any]) -> None:
    """Write down what was chosen for `data`, and what had been asked for."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / CHOICE, {**choice.to_dict(), "asked": asked, "digest": data.digest})


def read_choice(
    folder: Path, data: AnyDataset, asked: Mapping[str, Any], steps: int | None, step_size: float | str
) -> Choice:
    """Rebuild the choice that an earlier run of the same proof wrote down; nothing is planned again."""
    config = read_json(folder / CHOICE)
    if config.get("digest") != data.digest:
        raise _another_problem(folder)
    before = config.get("asked", {})
    changed = {
        key: (before.get(key, config.get(key)), asked[key]) for key in sorted(asked) if before.get(key) != asked[key]
    }
    if step_size not in ("auto", config["step_size"]):
        changed["step_size"] = config["step_size"], step_size
    if changed:
        raise _another_recipe(folder, changed)
    ready = scaled(data, asked["prepare"])
    ready = prepare(ready, config["preparation"]) if config["preparation"] else ready
    estimate = None if config["estimate"] is None else Estimate(**config["estimate"])
    return Choice(
        ready, from_config(config["network"]), config["preparation"], config["seed"], config["step_size"],
        config["steps"] if steps is None else steps, estimate, tuple(Scale(*row) for row in config.get("scales", ())),
        notes=tuple(config["notes"]),
    )  # fmt: skip


def read_run(folder: Path, network: Network, data: AnyDataset, recipe: Recipe, free: bool = False) -> Run:
    """Read the training run; refuse one of another problem or recipe, where only the number of steps may differ.

    With `free` the step size may, too.
    """
    run = Run.load(folder / RUN)
    if run.data.digest != data.digest or run.network != network:
        raise _another_problem(folder)
    if free:
        recipe = dataclasses.replace(recipe, step_size=run.recipe.step_size)
    if dataclasses.replace(run.recipe, steps=recipe.steps) != recipe:
        old, new = run.recipe.to_config(), recipe.to_config()
        changed = {name: (old[name], new[name]) for name in old if name != "steps" and old[name] != new[name]}
        raise _another_recipe(folder, changed)
    return run


def write_ratios(folder: Path, ratios: Iterable[Ratio]) -> None:
    """Write down the proof ratios along the training."""
    rows = [[value if math.isfinite(value) else None for value in ratio] for ratio in ratios]
    write_json(folder / RATIOS, {"ratios": rows})


def read_ratios(folder: Path) -> list[Ratio]:
    """Read the proof ratios that were written down, if any were."""
    if not (folder / RATIOS).exists():
        return []
    rows = read_json(folder / RATIOS)["ratios"]
    return [Ratio(row[0], *(math.inf if value is None else value for value in row[1:])) for row in rows]


def _another_problem(folder: Path) -> InputError:
    return InputError(f"{folder} holds a proof of another problem: choose another folder")


def _another_recipe(folder: Path, changed: Mapping[str, tuple[Any, Any]]) -> InputError:
    told = ", ".join(f"{name} {old}, now {new}" for name, (old, new) in changed.items())
    return InputError(
        f"{folder} was begun with another recipe ({told}): choose another folder, or go on with the same one; "
        "only the number of steps may change"
    )
