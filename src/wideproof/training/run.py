"""A run as a value: what was trained on what and how, what was recorded, where it ended; saved without pickle."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wideproof.answers import Answer
from wideproof.cards import card, line
from wideproof.data import AnyDataset, pack, unpack
from wideproof.errors import InputError
from wideproof.networks import Network, from_config, to_config
from wideproof.storage import new_folder, read_json, read_tensors, write_json, write_tensors
from wideproof.training.loop import Status
from wideproof.training.recipe import Recipe
from wideproof.training.step_size import step_size_for

if TYPE_CHECKING:
    import xarray

FORMAT = 1


class Ending(StrEnum):
    """How a run ended, in words."""

    RUNNING = "interrupted"
    TARGET = "reached the target loss"
    ZERO_ERROR = "reached zero training error"
    LIMIT = "reached the step limit"
    DIVERGED = "diverged"


@dataclass(frozen=True, eq=False)
class Run:
    """The result of a training run.

    Attributes
    ----------
    network
        The network.
    recipe
        The settings of the run.
    data
        The prepared data.
    step_size
        The step size (learning rate) that the recipe's rule gave.
    status
        Why it stopped; `Status.RUNNING` if it was interrupted and can be resumed.
    step
        Number of steps that were taken.
    initial
        All weights before the first step, by name.
    params
        All weights after the last step, by name.
    steps
        The recorded steps.
    records
        For each recorded quantity an array with one row for each recorded step.
    optimizer
        The arrays of the optimizer's state, needed to resume.
    ceiling
        The loss above which the run counts as diverged.
    seconds
        Time spent in the loop.
    batches
        The rows of every step, `steps x batch`, where they come from elsewhere; `None` where all rows or the recipe's
        seed give them.
    """

    network: Network
    recipe: Recipe
    data: AnyDataset
    step_size: float
    status: Status
    step: int
    initial: Mapping[str, np.ndarray]
    params: Mapping[str, np.ndarray]
    steps: np.ndarray
    records: Mapping[str, np.ndarray]
    optimizer: tuple[np.ndarray, ...]
    ceiling: float
    seconds: float
    batches: np.ndarray | None = None

    @property
    def loss(self) -> float:
        """The last recorded loss."""
        return float(self.records["loss"][-1]) if len(self.steps) else math.nan

    @property
    def error(self) -> float:
        """The last recorded training error; NaN for regression."""
        return float(self.records["error"][-1]) if len(self.steps) else math.nan

    @property
    def ending(self) -> str:
        """Why the run stopped, in words."""
        return Ending[self.status.name].value

    @property
    def succeeded(self) -> Answer:
        """Whether it reached what was asked for; undecided if nothing was asked or it was interrupted."""
        if self.status in (Status.TARGET, Status.ZERO_ERROR):
            return Answer.HOLDS
        if self.status is Status.DIVERGED:
            return Answer.FAILS
        asked = self.recipe.target_loss is not None or self.recipe.stop_at_zero_error
        return Answer.FAILS if asked and self.status is Status.LIMIT else Answer.UNDECIDED

    @property
    def advice(self) -> str:
        """What to do about the ending, in one sentence; empty if nothing."""
        if self.status is Status.DIVERGED and self.recipe.optimizer == "gauss-newton":
            return f"the loss left all bounds at step {self.step}: use a larger damping, or a smaller step size"
        if self.status is Status.DIVERGED:
            return (
                f"the loss left all bounds at step {self.step} with step size {self.step_size:.3g}: "
                f"use {self.smaller_step_size():.2g}, or the rule 'safe'"
            )
        if self.succeeded is Answer.FAILS:
            return (
                f"the loss is {self.loss:.3g} after {self.step} steps: allow more steps, or a better prepared data set"
            )
        return ""

    def smaller_step_size(self) -> float:
        """Return a step size to try after divergence: the safe one at the start, or a quarter if it was that."""
        quarter = self.step_size / 4
        if self.recipe.optimizer in ("adam", "adamw"):
            return quarter
        safe = replace(self.recipe, step_size="safe", constant=1.0)
        return min(quarter, step_size_for(self.network, self.initial, self.data, safe))

    @property
    def record_unit(self) -> int:
        """Steps between two records, before thinning."""
        return self.recipe.record_every or self.recipe.check_unit(self.data.n)

    @property
    def history(self) -> xarray.Dataset:
        """Everything recorded, with the steps as an axis."""
        import xarray

        variables = {
            name: (["step", *(f"{name}_{i}" for i in range(values.ndim - 1))], values)
            for name, values in self.records.items()
        }
        attributes = {"network": str(self.network), "data": self.data.name, "digest": self.data.digest}
        return xarray.Dataset(variables, coords={"step": self.steps}, attrs=attributes)

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Return the trained network's outputs.

        Parameters
        ----------
        x
            Prepared inputs, one example in each row.

        Returns
        -------
        array
            The outputs.
        """
        return np.asarray(self.network(self.params, x))  # pyright: ignore[reportArgumentType]

    def save(self, folder: str | Path) -> Path:
        """Write the run to a new folder.

        Parameters
        ----------
        folder
            The folder.

        Returns
        -------
        Path
            Its path.
        """
        folder = Path(folder)
        with new_folder(folder) as new:
            save_start(new, self)
            save_state(new, self)
        return folder

    @staticmethod
    def load(folder: str | Path) -> Run:
        """Read a run from its folder, finished or not.

        Parameters
        ----------
        folder
            The folder of the run.

        Returns
        -------
        Run
            The run.
        """
        return _load(Path(folder))

    def __str__(self) -> str:
        error = "" if math.isnan(self.error) else f", training error {self.error:.3g}"
        return f"{self.network}: {self.ending} at step {self.step}, loss {self.loss:.3g}{error}"

    def _repr_html_(self) -> str:
        facts: dict[str, Any] = {
            "network": self.network, "data": self.data, "loss": f"{self.loss:.4g} ({self.recipe.loss})",
            "step size": self.step_size, "seed": self.recipe.seed, "seconds": f"{self.seconds:.2f}",
        }  # fmt: skip
        if not math.isnan(self.error):
            facts["training error"] = self.error
        if self.advice:
            facts["advice"] = self.advice
        return card(f"{self.ending} at step {self.step}", facts, line(self.records["loss"], "loss, logarithmic"))


def save_start(folder: Path, run: Run) -> None:
    """Write what does not change while a run goes on."""
    tensors, meta = pack(run.data)
    write_tensors(folder / "data.safetensors", tensors, meta)
    write_tensors(folder / "initial.safetensors", dict(run.initial), {"format": FORMAT})
    save_description(folder, run)


def save_description(folder: Path, run: Run) -> None:
    """Write the readable description of a run."""
    import jax

    from wideproof.version import __version__

    write_json(
        folder / "run.json",
        {
            "format": FORMAT,
            "network": to_config(run.network),
            "recipe": run.recipe.to_config(),
            "step_size": run.step_size,
            "data": {"name": run.data.name, "n": run.data.n, "digest": run.data.digest},
            "versions": {"wideproof": __version__, "jax": jax.__version__, "numpy": np.__version__},
        },
    )


def save_state(folder: Path, run: Run) -> None:
    """Write where a run stands: one file, replaced whole."""
    trained = {f"params.{name}": run.params[name] for name in run.network.trained_names}
    tensors = (
        trained
        | {f"optimizer.{i}": leaf for i, leaf in enumerate(run.optimizer)}
        | {f"records.{name}": values for name, values in run.records.items()}
        | {"steps": run.steps, "ceiling": np.float64(run.ceiling).reshape(1)}
        | ({} if run.batches is None else {"batches": np.asarray(run.batches, np.int64)})
    )
    meta = {"format": FORMAT, "step": run.step, "status": run.status.name, "seconds": run.seconds,
            "digest": run.data.digest}  # fmt: skip
    write_tensors(folder / "state.safetensors", tensors, meta)


def _load(folder: Path) -> Run:
    if not folder.is_dir():
        raise InputError(f"there is no run folder {folder}: give the folder that `train --out` wrote")
    description = read_json(folder / "run.json")
    written = description.get("format")
    if not isinstance(written, int):
        raise InputError(f"{folder} is damaged: its description lacks a format number")
    if written > FORMAT:
        raise InputError(f"{folder} was written by a newer version of wideproof: update wideproof to read it")
    tensors, state = read_tensors(folder / "state.safetensors")
    initial, _ = read_tensors(folder / "initial.safetensors")
    try:
        data = unpack(*read_tensors(folder / "data.safetensors"))
        if state["digest"] != data.digest:
            raise InputError(f"{folder} holds the state of another data set: its files do not belong together")
        if any(initial[name].shape != weight.shape for name, weight in part(tensors, "params").items()):
            raise InputError(f"{folder} holds the state of another network: its files do not belong together")
        return Run(
            network=from_config(description["network"]),
            recipe=Recipe.from_config(description["recipe"]),
            data=data,
            step_size=description["step_size"],
            status=Status[state["status"]],
            step=state["step"],
            initial=initial,
            params=initial | part(tensors, "params"),
            steps=tensors["steps"],
            records=part(tensors, "records"),
            optimizer=tuple(tensors[f"optimizer.{i}"] for i in range(len(part(tensors, "optimizer")))),
            ceiling=float(tensors["ceiling"][0]),
            seconds=state["seconds"],
            batches=tensors.get("batches"),
        )
    except (KeyError, TypeError) as error:
        raise InputError(f"{folder} is damaged: its description lacks or misspells {error}") from error


def part(tensors: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the tensors whose names begin with `prefix.`, without the prefix."""
    return {name.removeprefix(f"{prefix}."): value for name, value in tensors.items() if name.startswith(f"{prefix}.")}
