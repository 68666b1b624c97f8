"""One network on the bench: it takes steps, is looked at, and becomes a proof."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np

from wideproof.data import AnyDataset, apply
from wideproof.lab.given import Given
from wideproof.lab.looks import Forecast, Look, Twin, foretell, grid_of, look, signs_of
from wideproof.lab.settings import FITTED, NetworkSettings, begin_run, build_network
from wideproof.training import Run, Status, Stepper

PROVABLE = 0.4  # a proof ratio at which a certificate is asked for: below 1/2, with room for rounding


class Lane:
    """A network in training, with what is known about its start."""

    def __init__(self, asked: NetworkSettings, raw: AnyDataset, data: AnyDataset, given: Given | None = None):
        self.asked, self.raw, self.data = asked, raw, data
        self.network = build_network(asked, data, given)
        self.stepper = Stepper(begin_run(asked, self.network, data))
        self.start = self.run_now = self.stepper.run  # what a twin is made of: never touched by steps
        self.signs = signs_of(self.network, self.start.initial, data)
        self.grid = grid_of(raw)
        even = asked.order == "subsets" or self._whole or data.n % asked.batch == 0
        # Whether all steps so far are those of one run, which could be proved from its start.
        self.pure = even and not asked.momentum
        self.first = self.look()
        # The step size that a multiple of 1 stands for, as the run found it.
        self._edge = self.run.step_size / asked.step if asked.step else 2 / self.first.largest
        self._begun = {asked.step: self.run.step_size}
        self.forecast: Forecast | None = foretell(self.first, self.run) if self._descends else None
        self.twin: Twin | None = None
        self.first_loss = self.loss = math.nan

    @property
    def run(self) -> Run:
        """The run as it stands."""
        return self.stepper.run

    @property
    def _whole(self) -> bool:
        return self.asked.batch == 0 or self.asked.batch >= self.data.n

    @property
    def _descends(self) -> bool:
        return self._whole and not self.asked.momentum

    @property
    def state(self) -> str:
        """`running`, `fitted` (what is left of the loss is rounding), or `diverged`."""
        if self.stepper.over and self.run.status is Status.DIVERGED:
            return "diverged"
        return "fitted" if self.loss <= FITTED * self.first_loss else "running"

    def advance(self, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Take steps; return the recorded ones and the loss before each."""
        at, found = self.stepper.advance(steps)
        if len(at):
            if math.isnan(self.first_loss):
                self.first_loss = float(found["loss"][0])
            self.loss = float(found["loss"][-1])
        return at, found["loss"]

    def look(self) -> Look:
        """Measure where it stands."""
        return look(self.run, self.signs)

    def field(self) -> np.ndarray | None:
        """Return the first output on the grid, or `None` where there is nothing to draw."""
        if self.grid is None:
            return None
        outputs = np.asarray(self.network(self.run.params, apply(self.data.preparation, self.grid)))
        return outputs.reshape(len(self.grid), -1)[:, 0]

    def make_twin(self) -> Twin:
        """Return the infinitely wide network for these data and this step size."""
        return Twin(self.run_now, self.grid, self.asked.scale)

    def steer(self, step: float) -> None:
        """Go on with another multiple of 2/λmax of the start, foretold anew from here."""
        self.asked = self.asked.model_copy(update={"step": step})
        self._again(self._begun.get(step, step * self._edge), None)

    def move(self, raw: AnyDataset, data: AnyDataset) -> None:
        """Go on with examples that have moved."""
        self.raw, self.data = raw, data
        self._again(None, data)

    def _again(self, step_size: float | None, data: AnyDataset | None) -> None:
        self.pure = self.pure and self.stepper.step == 0
        self.stepper.steer(step_size, data)
        if self.pure:
            self.start = self.stepper.run
        self.run_now, self.twin = self.stepper.run, None
        if self._descends:
            self.forecast = foretell(self.look(), self.run)

    def save(self, folder: Path) -> None:
        """Write the run to a new folder, for a proof."""
        run = self.run
        ended = dataclasses.replace(run.recipe, steps=run.step, step_size=run.step_size, record_every=0)
        dataclasses.replace(run, recipe=ended, status=Status.LIMIT).save(folder)
