"""Where a long solve stands, on disk: a killed one goes on from there and ends with the same bits."""

from __future__ import annotations

import hashlib
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from wideproof.errors import InputError
from wideproof.estimators.solvers import Iterate
from wideproof.storage import read_tensors, write_tensors

NAME = "solve.safetensors"
SECONDS = 30.0  # between two writings: 400 MB for a million examples and ten classes take a second or two


def digest_of(*parts: object) -> str:
    """Return a digest of arrays and of what else tells one problem from another.

    >>> digest_of(np.zeros(2), "a") == digest_of(np.zeros(2), "b")
    False
    """
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            found.update(f"{part.shape} {part.dtype}".encode())
            found.update(np.ascontiguousarray(part).data)
        else:
            found.update(repr(part).encode())
    return found.hexdigest()


@dataclass
class Checkpoint:
    """The file of one solve in a folder of its own.

    Attributes
    ----------
    folder
        Where it lies; made if it is not there.
    digest
        Of the problem: what was kept for another one is refused.
    every
        Seconds between two writings.
    """

    folder: Path
    digest: str
    every: float = SECONDS
    _last: float = field(default_factory=time.monotonic)
    _full: bool = False

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / NAME

    def load(self) -> Iterate | None:
        """Return where an earlier solve of this problem stood, or nothing."""
        if not self.path.exists():
            return None
        arrays, told = read_tensors(self.path)
        if told.get("digest") != self.digest:
            raise InputError(
                f"{self.path} belongs to another problem (other examples, targets, kernel, ridge or rank): "
                "remove it, or choose another checkpoint folder"
            )
        return Iterate(**arrays, step=int(told["step"]), since=int(told["since"]), rough=bool(told["rough"]))

    def save(self, here: Iterate) -> None:
        """Write where the solve stands, unless that was done a moment ago; a full disk does not end the solve."""
        if self._full or time.monotonic() - self._last < self.every:
            return
        told = {"digest": self.digest, "step": here.step, "since": here.since, "rough": here.rough}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_tensors(self.path, here.arrays, told)
        except (InputError, OSError) as error:
            self._full = True
            warnings.warn(f"the solve goes on without checkpoints: {error}", RuntimeWarning, stacklevel=2)
        self._last = time.monotonic()

    def clear(self) -> None:
        """Remove the file of a solve that is done."""
        self.path.unlink(missing_ok=True)
