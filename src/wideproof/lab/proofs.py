"""Proofs in the background: a process of its own for each, so that training goes on and nothing is shared but files."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from wideproof.lab.lane import Lane

Told = Callable[[int, Mapping[str, Any]], None]


class _Job:
    def __init__(self, lane: int, step: int, folder: Path, from_start: bool):
        self.lane, self.step, self.folder, self.from_start = lane, step, folder, from_start
        arguments = [sys.executable, "-m", "wideproof.lab.prover", str(folder), *(["--from-start"] * from_start)]
        self.log = (folder / "stages.jsonl").open("w")
        self.process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.DEVNULL)
        self.said = 0

    def news(self) -> list[dict[str, Any]]:
        lines = (self.folder / "stages.jsonl").read_text().splitlines()
        new, self.said = lines[self.said :], len(lines)
        return [json.loads(line) for line in new if line.endswith("}")]


class Proofs:
    """The proofs of one tab: at most one at work for each network, the newest."""

    def __init__(self, work: Path, told: Told):
        self.work, self.told = work, told
        self.jobs: dict[int, _Job] = {}
        self.count = 0

    @property
    def busy(self) -> bool:
        """Whether a proof is being made."""
        return bool(self.jobs)

    def ask(self, i: int, lane: Lane, from_start: bool) -> None:
        """Begin to prove the run of a network as it stands."""
        self._stop(i)
        self.work.mkdir(parents=True, exist_ok=True)
        plain = re.sub(r"[^A-Za-z0-9_.=]+", "-", lane.data.name)[:20]  # it stands in an address, and in a file name
        folder = Path(tempfile.mkdtemp(prefix=f"{plain}-", dir=self.work))
        lane.save(folder / "run")
        self.jobs[i] = _Job(i, lane.stepper.step, folder, from_start)
        self.told(i, {"state": "proving", "step": lane.stepper.step, "text": "certifying", "from_start": from_start})

    def poll(self) -> None:
        """Tell what the proofs at work have to say."""
        for i, job in list(self.jobs.items()):
            ended = job.process.poll() is not None
            common = {"step": job.step, "from_start": job.from_start}
            for line in job.news():
                self.told(i, {**common, "folder": job.folder.name, "path": str(job.folder), **line})
            if ended:
                job.log.close()
                del self.jobs[i]
                if job.process.returncode != 0:
                    how = f"it ended with code {job.process.returncode}"
                    self.told(i, {**common, "state": "failed", "text": f"the prover was lost: {how}"})

    def forget(self) -> None:
        """Stop all that is at work: it is about networks that are gone."""
        for i in list(self.jobs):
            self._stop(i)

    def _stop(self, i: int) -> None:
        job = self.jobs.pop(i, None)
        if job is not None:
            os.kill(job.process.pid, signal.SIGKILL)
            job.process.wait()
            job.log.close()
            shutil.rmtree(job.folder, ignore_errors=True)
