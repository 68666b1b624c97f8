"""The bench of one tab: data, one or two networks, and what the page is told about them. It knows nothing of the web.

`Bench` is driven by two calls: `do(command)` with what the page asks for, and `turn()`, again and again, which takes
steps while it runs. Both hand frames to `send`. A page acknowledges the curves it has drawn; while it owes some, steps
go on and are sent together later, so that a slow page does not slow training down.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from wideproof.data import BUNDLED
from wideproof.errors import InputError
from wideproof.lab.frames import frame
from wideproof.lab.given import NAME, Given
from wideproof.lab.lane import PROVABLE, Lane
from wideproof.lab.looks import Look, Twin, drawn, frame_of, thinned
from wideproof.lab.planes import LINES, PLANES
from wideproof.lab.proofs import Proofs
from wideproof.lab.settings import NetworkSettings, Settings, raw_data, read, ready_data
from wideproof.networks import ACTIVATIONS, NETWORKS
from wideproof.precision import double

CHUNK = 0.02  # seconds of steps between two moments in which commands are heard
LOOK = 0.25  # seconds between two looks, or twice what the last one took
EARLY = 2048  # steps during which each doubling is looked at
OWED = 4  # frames of curves that a page may not have drawn yet
KEPT = 50_000  # steps that wait for such a page; of more, those are kept that it draws
EXAMPLES = {
    "sphere": "sphere:n=30,d=10,separation=0.4", "two_classes": "two_classes:n=30,d=10,separation=0.4",
    "teacher": "teacher:n=30,d=10,width=8", "random_labels": "random_labels:n=30,d=20",
    "linear_margin": "linear_margin:n=30,d=10,rho=0.2", "xor": "xor",
    "sequences": "sequences:n=6,length=4,features=5,separation=0.5",
}  # fmt: skip


class Bench:
    """Data and networks of one tab, or of a notebook, whose own data and network are `given`."""

    def __init__(self, send: Callable[[bytes], None], uploads: Path | None, work: Path, given: Given | None = None):
        self.send, self.uploads, self.given = send, uploads, given
        self.settings, self.lanes = Settings(), []
        self.running, self.pace = False, 0.0
        self.owed, self._waiting = 0, []
        self.proofs = Proofs(work, self._told)
        self._chunks: list[int] = []
        self._looked: list[tuple[float, float, int]] = []
        self._credit, self._paced = 0.0, time.perf_counter()
        self._proved: list[bool] = []
        self._aside = ThreadPoolExecutor(1)  # for infinitely wide networks, whose kernels take seconds to compile
        self._growing: dict[int, tuple[Lane, Future[Twin]]] = {}

    @double
    def do(self, command: Mapping[str, Any]) -> None:
        """Carry out what the page asks for; bad input becomes one sentence on the page."""
        doing = {
            "configure": self._configure, "run": self._run, "pause": self._pause, "step": self._step,
            "reset": self._reset, "pace": self._set_pace, "steer": self._steer, "move": self._move,
            "prove": self._prove, "ack": self._ack, "choose": self._choose, "hello": self.hello,
        }.get(str(command.get("do")))  # fmt: skip
        if doing is None:
            self.say("error", f"the bench does not know the command {str(command.get('do'))[:40]!r}")
            return
        try:
            doing(command)
        except InputError as error:
            self.say("error", str(error))
        except BrokenPipeError:
            raise
        except Exception as error:  # whatever it was, the tab goes on
            self._failed(error)

    def hello(self, command: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Say what there is to choose from; in a notebook also what was given, and to which of its views."""
        kinds: dict[str, Any] = {**NETWORKS}
        notebook: dict[str, Any] = {}
        if self.given is not None:
            summary = self.given.summary()
            if self.given.network is not None:
                kinds = {NAME: self.given.network, **kinds}
            if summary is not None:
                kinds = {name: kind for name, kind in kinds.items() if kind.data_kind == summary["kind"]}
            settings = self.settings.model_dump() if self.lanes else self.given.settings
            notebook = {"given": summary, "settings": settings, "view": command.get("view")}
        networks = {
            name: {
                "data": kind.data_kind,
                "groups": list(kind.groups),
                "options": [field.name for field in fields(kind)],
            }
            for name, kind in kinds.items()
        }
        self.send(frame("hello", networks=networks, activations=list(ACTIVATIONS), bundled=list(BUNDLED),
                        points=list(PLANES), lines=list(LINES), generators=EXAMPLES, **notebook))  # fmt: skip

    def say(self, kind: str, text: str, **fields: Any) -> None:
        """Send a sentence."""
        self.send(frame(kind, text=text, **fields))

    def close(self) -> None:
        """Stop what is at work beside."""
        self.proofs.forget()
        self._aside.shutdown(wait=False, cancel_futures=True)

    def _failed(self, error: Exception) -> None:
        first = (str(error).splitlines() or [""])[0][:300] or type(error).__name__
        self.say("error", f"that did not work: {first}")

    # What the page asks for.

    def _configure(self, command: Mapping[str, Any]) -> None:
        asked = read(command.get("settings", {}))
        self.running = False
        self.say("busy", "compiling")
        raw, data = ready_data(asked.data, asked.networks[0].name, self.uploads, self.given)
        lanes = [Lane(one, raw, data, self.given) for one in asked.networks]
        self.settings, self.lanes, self._waiting = asked, lanes, []
        self._chunks, self._proved = [1] * len(lanes), [False] * len(lanes)
        self._looked = [(0.0, 0.0, 0)] * len(lanes)
        self.proofs.forget()
        self._show_data()
        for i, lane in enumerate(lanes):
            self._show_lane(i, lane)
        self.say("ready", "")

    def _reset(self, command: Mapping[str, Any]) -> None:
        self._configure({"settings": self.settings.model_dump()})

    def _run(self, command: Mapping[str, Any]) -> None:
        if not self.lanes:
            raise InputError("there is no network on the bench yet")
        self.running, self._paced, self._credit = True, time.perf_counter(), 0.0
        self.say("running", "")

    def _pause(self, command: Mapping[str, Any]) -> None:
        self.running = False
        self._flush()
        for i in range(len(self.lanes)):
            self._look(i)
        self.say("paused", "")

    def _step(self, command: Mapping[str, Any]) -> None:
        self.running, steps = False, max(1, min(int(command.get("steps", 1)), 1000))
        for i in range(len(self.lanes)):
            self._advance(i, steps)
        self._flush()
        for i in range(len(self.lanes)):
            self._look(i)

    def _set_pace(self, command: Mapping[str, Any]) -> None:
        pace = float(command.get("pace", 0))
        if not 0 <= pace <= 1e9:
            raise InputError(f"the pace must be a number of steps per second, or 0 for as fast as possible, got {pace}")
        self.pace, self._credit, self._paced = pace, 0.0, time.perf_counter()

    def _steer(self, command: Mapping[str, Any]) -> None:
        i = self._which(command)
        asked = read({**self.lanes[i].asked.model_dump(), "step": command.get("step")}, NetworkSettings)
        self.lanes[i].steer(asked.step)
        networks = list(self.settings.networks)
        networks[i] = asked
        self.settings = self.settings.model_copy(update={"networks": networks})
        self._proved[i] = False
        self._show_forecast(i, self.lanes[i])
        self._look(i)
        self._grow(i, self.lanes[i])

    def _move(self, command: Mapping[str, Any]) -> None:
        """Points have been dragged: the same number goes on, another number begins anew."""
        data = read({**self.settings.data.model_dump(), "points": command.get("points")}, type(self.settings.data))
        changed = self.settings.model_copy(update={"data": data})
        same = self.lanes and len(data.points or []) == self.lanes[0].data.n
        if not same:
            was = self.running
            self._configure({"settings": changed.model_dump()})
            if was:
                self._run(command)
            return
        raw, ready = ready_data(data, self.settings.networks[0].name, self.uploads)
        self.settings = changed
        for i, lane in enumerate(self.lanes):
            lane.move(raw, ready)
            self._proved[i] = False
            self._show_forecast(i, lane)
            self._look(i)
            self._grow(i, lane)
        self._show_data()

    def _prove(self, command: Mapping[str, Any]) -> None:
        i = self._which(command)
        lane, from_start = self.lanes[i], bool(command.get("from_start"))
        if from_start and not lane.pure:
            raise InputError(
                "a proof from the start needs one run without momentum, with one step size and batches of one size, on "
                "the same points: press reset and run again"
            )
        self.proofs.ask(i, lane, from_start)

    def _choose(self, command: Mapping[str, Any]) -> None:
        """Let the planner choose preparation, network and step size for these data."""
        from wideproof.planning import choose

        asked = read(command.get("settings", {}))
        self.running = False
        self.say("busy", "looking for a network that can be proved")
        raw = raw_data(asked.data, "vectors", self.uploads, self.given)
        found = choose(raw, progress=lambda now: self.say("busy", f"candidate {now.done + 1} of {now.total}"))
        network: Any = found.network
        self.send(frame("chosen", prepare=found.preparation or "none", name=network.name, width=network.width,
                        depth=network.depth, activation=network.activation.name, seed=found.seed,
                        notes=list(found.notes)))  # fmt: skip

    def _ack(self, command: Mapping[str, Any]) -> None:
        self.owed = max(0, self.owed - 1)

    def _which(self, command: Mapping[str, Any]) -> int:
        i = command.get("lane", 0)
        if not isinstance(i, int) or not 0 <= i < len(self.lanes):
            raise InputError(f"there is no network {i!r} on the bench")
        return i

    # What happens by itself.

    @double
    def turn(self) -> None:
        """Take steps for a moment, send what is due, look where it is time to."""
        try:
            self._turn()
        except BrokenPipeError:
            raise
        except Exception as error:  # the bench stands still, and can be reset
            self.running, self._waiting = False, []
            self._failed(error)
            self.say("paused", "")

    def _turn(self) -> None:
        self.proofs.poll()
        self._grown()
        if self.running:
            now = time.perf_counter()
            allowed = math.inf
            if self.pace:
                self._credit = min(self._credit + (now - self._paced) * self.pace, max(2.0, self.pace / 4))
                allowed = math.floor(self._credit)
                self._credit -= allowed
                self._paced = now
            for i, lane in enumerate(self.lanes):
                if lane.state == "running" and allowed >= 1:
                    self._advance(i, int(min(self._chunks[i], allowed, self._until_look(i))))
            for i, lane in enumerate(self.lanes):
                last, took, at = self._looked[i]
                late = time.perf_counter() - last > max(LOOK, 3 * took)
                if lane.stepper.step != at and (late or self._until_look(i) == 0):
                    self._look(i)
            if all(lane.state != "running" for lane in self.lanes):
                self.running = False
                for i in range(len(self.lanes)):
                    self._look(i)
                self.say("paused", "", over=[lane.state for lane in self.lanes])
        if self.owed < OWED:
            self._flush()

    def _until_look(self, i: int) -> float:
        """Steps until a look is due whatever the time: early on most happens, and one at each doubling is cheap."""
        _, took, at = self._looked[i]
        step = self.lanes[i].stepper.step
        return max(0, max(1, 2 * at) - step) if step <= EARLY and took < LOOK else math.inf

    def wait(self) -> float:
        """Return how long nothing need be done, in seconds."""
        if (self.proofs.busy or self._growing) and not self.running:
            return 0.1
        if self.running and self.pace and self._credit < 1:
            return min(0.02, (1 - self._credit) / self.pace)
        return 0.0 if self.running else 0.5

    def _advance(self, i: int, steps: int) -> None:
        lane = self.lanes[i]
        began = time.perf_counter()
        at, loss = lane.advance(min(steps, lane.stepper.longest))
        took = max(time.perf_counter() - began, 1e-6)
        if steps >= self._chunks[i]:
            self._chunks[i] = int(np.clip(self._chunks[i] * min(4.0, CHUNK / took), 1, lane.stepper.longest))
        self._waiting.append((i, at, loss))
        if sum(len(at) for _, at, _ in self._waiting) > KEPT:  # as behind another tab, for hours
            self._waiting = [(j, *thinned(*self._joined(j))) for j in range(len(self.lanes))]

    def _joined(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Return all steps of a network that wait to be sent, and their losses."""
        own = [(at, loss) for j, at, loss in self._waiting if j == i]
        none = np.zeros(0)
        return np.concatenate([none, *(at for at, _ in own)]), np.concatenate([none, *(loss for _, loss in own)])

    def _flush(self) -> None:
        """Send the curves of all steps since the last time, together."""
        for i, lane in enumerate(self.lanes):
            at, loss = self._joined(i)
            if any(j == i for j, _, _ in self._waiting):
                arrays = {"step": at.astype("f8"), "loss": loss.astype("f4")}
                self.owed += 1
                self.send(frame("points", arrays, lane=i, at=lane.stepper.step, state=lane.state))
        self._waiting = []

    def _look(self, i: int) -> None:
        lane = self.lanes[i]
        if lane.state == "diverged":
            return
        began = time.perf_counter()
        found = lane.look()
        self._show_look(i, found)
        self._show_field(i, lane)
        self._looked[i] = (time.perf_counter(), time.perf_counter() - began, found.step)
        if found.h < PROVABLE and not found.obstacle and not self._proved[i] and found.step:
            self._proved[i] = True
            self.proofs.ask(i, lane, False)

    def _told(self, i: int, fields: Mapping[str, Any]) -> None:
        self.send(frame("proof", lane=i, **fields))

    # What the page is shown.

    def _show_data(self) -> None:
        lane = self.lanes[0]
        raw, data = lane.raw, lane.data
        points, movable = np.zeros((raw.n, 0)), self.settings.data.kind == "points"
        if lane.grid is not None:
            middle, half = frame_of(raw)
            points = (raw.x - middle) / half
        labels = data.labels if data.labels is not None else np.zeros(data.n, int)
        target = (raw if movable else data).y.reshape(raw.n, -1)[:, -1]
        arrays = {"points": points.astype("f4"), "labels": labels.astype("i4"), "target": target.astype("f4")}
        self.send(frame(
            "data", arrays, n=data.n, name=data.name, task=data.task, classes=list(data.classes), text=str(raw),
            dimension=int(np.prod(raw.input_shape)), inputs=list(data.input_shape), notes=list(raw.notes),
            prepared=", ".join(map(str, data.preparation)), movable=movable,
        ))  # fmt: skip

    def _show_lane(self, i: int, lane: Lane) -> None:
        weights = lane.start.network.number_of_weights
        self.send(frame("network", lane=i, text=str(lane.network), weights=weights, step_size=lane.run.step_size,
                        largest=lane.first.largest))  # fmt: skip
        self._show_forecast(i, lane)
        self._show_look(i, lane.first)
        self._show_field(i, lane)
        self._grow(i, lane)

    def _show_forecast(self, i: int, lane: Lane) -> None:
        if lane.forecast is not None:
            arrays = {"step": lane.forecast.steps.astype("f8"), "loss": lane.forecast.loss.astype("f4")}
            self.send(frame("forecast", arrays, lane=i, origin=lane.forecast.origin))

    def _grow(self, i: int, lane: Lane) -> None:
        """Begin with the infinitely wide twin of a network, beside everything else."""
        if i in self._growing:
            self._growing[i][1].cancel()
        self._growing[i] = (lane, self._aside.submit(lane.make_twin))

    def _grown(self) -> None:
        """Show the twins that are done."""
        for i, (lane, twin) in list(self._growing.items()):
            if not twin.done():
                continue
            del self._growing[i]
            if i < len(self.lanes) and self.lanes[i] is lane and twin.exception() is None:
                lane.twin = twin.result()
                steps, loss = drawn(lane.twin.loss)
                arrays = {"step": steps.astype("f8"), "loss": loss.astype("f4")}
                self.send(frame("twin", arrays, lane=i))
                self._show_field(i, lane)

    def _show_look(self, i: int, found: Look) -> None:
        arrays = {"eigenvalues": found.eigenvalues.astype("f4"), "gram": found.gram.astype("f4")}
        self.send(frame(
            "look", arrays, lane=i, step=found.step, h=found.h, residual=found.residual, s=found.s,
            constant=found.constant, largest=found.largest, top=found.top, moved=found.moved, relative=found.relative,
            flipped=found.flipped, obstacle=found.obstacle, pure=self.lanes[i].pure,
        ))  # fmt: skip

    def _show_field(self, i: int, lane: Lane) -> None:
        values = lane.field()
        if values is None:
            return
        arrays = {"network": values.astype("f4")}
        twin = lane.twin.outputs(lane.stepper.step) if lane.twin is not None else None
        if twin is not None:
            arrays["twin"] = twin.astype("f4")
        self.send(frame("field", arrays, lane=i, step=lane.stepper.step))
