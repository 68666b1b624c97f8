"""Where the rows of a proof lie, column by column: predictions for rows outside are extrapolated, and say so."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wideproof.data import Dataset
from wideproof.storage import read_tensors, write_tensors

RANGES = "ranges.safetensors"
MOST_NAMED = 5  # columns


@dataclass(frozen=True, eq=False)
class Ranges:
    """The least and the largest value of every column, before the preparation.

    Examples
    --------
    >>> found = Ranges.of(Dataset([[0.0, 1.0], [2.0, 5.0]], [1, -1], "binary"))
    >>> found.sentence(np.array([[1.0, 7.0], [3.0, 0.0], [0.0, 1.0]]), ("age", "height"))
    '2 of 3 rows lie outside the range of the training rows, in height (2) and age (1): extrapolated'
    """

    low: np.ndarray
    high: np.ndarray

    @staticmethod
    def of(data: Dataset) -> Ranges:
        """Return the ranges of a table as it was loaded."""
        return Ranges(data.x.min(axis=0), data.x.max(axis=0))

    def put(self, folder: Path) -> None:
        """Write them into the folder of a proof."""
        write_tensors(folder / RANGES, {"low": self.low, "high": self.high}, {})

    @staticmethod
    def read(folder: Path) -> Ranges | None:
        """Read them from the folder of a proof, if they are there."""
        if not (folder / RANGES).exists():
            return None
        found, _ = read_tensors(folder / RANGES)
        return Ranges(found["low"], found["high"])

    def outside(self, x: np.ndarray) -> np.ndarray:
        """Return for every row and column whether the value is smaller or larger than all of the training rows."""
        return (x < self.low) | (x > self.high)

    def sentence(self, x: np.ndarray, names: tuple[str, ...] = ()) -> str:
        """Say how many rows lie outside, and in which columns; nothing where none does."""
        out = self.outside(x)
        rows, each = int(out.any(axis=1).sum()), out.sum(axis=0)
        if not rows:
            return ""
        order = [j for j in np.argsort(-each, kind="stable").tolist() if each[j]]
        said = [f"{names[j] if names else f'column {j}'} ({each[j]})" for j in order[:MOST_NAMED]]
        if len(order) > MOST_NAMED:
            said.append(f"{len(order) - MOST_NAMED} more columns" if len(order) > MOST_NAMED + 1 else "one more column")
        where = said[0] if len(said) == 1 else f"{', '.join(said[:-1])} and {said[-1]}"
        lie = "row lies" if len(x) == 1 else "rows lies" if rows == 1 else "rows lie"
        return f"{rows} of {len(x)} {lie} outside the range of the training rows, in {where}: extrapolated"
