"""What a sweep keeps: a journal with one small file per finished task, and the results as one labelled Zarr store.

- `study.json`: the study that this folder belongs to.
- `progress.json`: how far it is, for those who watch; written about once a second while it runs.
- `tasks/DIGEST.json`: one finished task, its values and a checksum over them.
- `results.zarr`: everything, with named axes; made from the journal, so that it is the same, bit for bit, however often
  the sweep was interrupted.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from wideproof.errors import InputError
from wideproof.storage import read_json, write_bytes, write_json
from wideproof.sweeps.study import FORMAT, Study
from wideproof.sweeps.task import Task

RESULTS, JOURNAL, ABOUT, PARTIAL, PROGRESS = "results.zarr", "tasks", "study.json", ".results.", "progress.json"
OFTEN = 1.0  # seconds between two notes of how far a sweep is


class Store:
    """The folder of a sweep; opening one that belongs to another study, or to a newer version, is refused."""

    def __init__(self, folder: str | Path, study: Study, *, shared: bool = False) -> None:
        """Open or make the folder; `shared` with other processes, nothing of theirs is changed or tidied away."""
        self.folder, self.study, self.shared = Path(folder), study, shared
        self._noted = 0.0
        about = self.folder / ABOUT
        described = {"format": FORMAT, "name": study.name, "study": study.model_dump(mode="json")}
        if about.exists():
            found = read_json(about)
            _require_same(found, study, self.folder)
            if found != described and not shared:  # axes may have become longer
                write_json(about, described)
        elif not shared and self.folder.exists() and any(self.folder.iterdir()):
            raise InputError(f"{self.folder} is not empty and holds no sweep: choose another folder")
        else:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"cannot create {self.folder}: {error.strerror}; choose another folder") from error
            write_json(about, described)
        (self.folder / JOURNAL).mkdir(exist_ok=True)
        if not shared:
            for left_behind in self.folder.glob(f"{PARTIAL}*"):
                shutil.rmtree(left_behind, ignore_errors=True)

    def finished(self, tasks: Sequence[Task]) -> dict[str, dict[str, float]]:
        """Return the values of the tasks that are done; a damaged file counts as not done and is removed.

        A task that was trained together with others is done when all of them are.
        """
        lines: dict[str, dict[str, Any]] = {}
        for task in tasks:
            path = self._path(task.digest)
            if path.exists():
                line = _read(path)
                if line is None or set(line["values"]) != set(task.measures):
                    path.unlink()
                else:
                    lines[task.digest] = line
        return {
            digest: {name: float(value) for name, value in line["values"].items()}
            for digest, line in lines.items()
            if all(name in lines or self._path(name).exists() for name in line.get("companions", ()))
        }

    def keep(self, task: Task, values: Mapping[str, float], seconds: float, companions: Sequence[str] = ()) -> None:
        """Write down a finished task, whole or not at all."""
        body = json.dumps({name: _text(value) for name, value in values.items()}, sort_keys=True)
        about: dict[str, Any] = {"chosen": dict(task.chosen), "settings": json.loads(task.settings), "seconds": seconds}
        if len(companions) > 1:
            about["companions"] = list(companions)
        line = {"sum": zlib.crc32(body.encode()), "values": json.loads(body), **about}
        write_bytes(self._path(task.digest), (json.dumps(line) + "\n").encode())

    def note(self, done: int, failed: Sequence[str], total: int, *, ended: bool = False) -> None:
        """Write down how far the sweep is, unless that was done a moment ago; at the beginning and the end always.

        A process that shares the folder knows its own part only, and writes nothing.
        """
        now = time.time()
        if self.shared:
            return
        if ended or now - self._noted >= OFTEN:
            self._noted = now
            who = {"pid": os.getpid(), "host": socket.gethostname(), "at": now, "ended": ended}
            said = {"done": done, "failed": len(failed), "total": total, "errors": list(failed[:5])}
            write_json(self.folder / PROGRESS, {**said, **who})

    def assemble(self, tasks: Sequence[Task]) -> xr.Dataset:
        """Return everything that is done as one data set, and write it to the Zarr store."""
        found = labelled(self.study, tasks, self.finished(tasks))
        target = self.folder / RESULTS
        try:
            with tempfile.TemporaryDirectory(dir=self.folder, prefix=PARTIAL) as temporary:
                # Format 2: format 3 has no fixed way yet to write the names along an axis.
                found.to_zarr(Path(temporary) / RESULTS, mode="w", consolidated=False, zarr_format=2)
                shutil.rmtree(target, ignore_errors=True)
                (Path(temporary) / RESULTS).rename(target)
        except OSError as error:
            raise InputError(f"cannot write {target}: {error.strerror or error}; finished tasks are kept") from error
        return found

    def _path(self, digest: str) -> Path:
        return self.folder / JOURNAL / f"{digest}.json"


def labelled(study: Study, tasks: Sequence[Task], done: Mapping[str, Mapping[str, float]]) -> xr.Dataset:
    """Return the values with named axes; what is not done is not a number."""
    names = sorted({name for task in tasks for name in task.measures})
    if study.tasks:
        ordered = {tuple(task.items()): k for k, task in enumerate(study.combinations())}
        axes = sorted({axis for task in study.tasks for axis in task})
        coordinates: dict[str, Any] = {
            axis: ("task", [dict(chosen).get(axis, np.nan) for chosen in ordered]) for axis in axes
        }
        dims, shape = ("task",), (len(ordered),)
        place = {task.digest: (ordered[task.chosen],) for task in tasks}
    else:
        grid = study.values()
        coordinates = {axis: list(values) for axis, values in grid.items()}
        dims, shape = tuple(grid), tuple(len(values) for values in grid.values())
        place = {task.digest: tuple(grid[a].index(v) for a, v in task.chosen) for task in tasks}
    arrays = {name: np.full(shape, np.nan) for name in names}
    for digest, values in done.items():
        for name in names:
            arrays[name][place[digest]] = values[name]
    return xr.Dataset({name: (dims, array) for name, array in arrays.items()}, coordinates, {"study": study.name})


def _require_same(about: Mapping[str, Any], study: Study, folder: Path) -> None:
    if about.get("format", 0) > FORMAT:
        raise InputError(f"{folder} was written by a newer version of wideproof: update, or choose another folder")
    if about.get("name") != study.name:
        raise InputError(
            f"{folder} holds the sweep {about.get('name')!r}, and this study is {study.name!r}: choose another folder"
        )


def _text(value: float) -> float | str:
    return float(value) if np.isfinite(value) else repr(float(value))


def _read(path: Path) -> dict[str, Any] | None:
    try:
        line = json.loads(path.read_bytes())
        body = json.dumps(line["values"], sort_keys=True)
        if zlib.crc32(body.encode()) != line["sum"]:
            return None
        return line
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
