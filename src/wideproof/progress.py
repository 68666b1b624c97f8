"""How far a long job is: one value for all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Progress:
    """What a long job tells whoever watches: `progress=` of every function that takes one is called with it.

    Attributes
    ----------
    stage
        What is under way, in one word: "training", "choosing", "certifying", …
    done, total
        How much of it is finished, and how much there is; `None` where nothing is counted.
    text
        The same for people.
    latest
        The newest result, if there is one: of training its loss, error and rate, of a sweep the task that ended.

    Examples
    --------
    >>> print(Progress("training", 128, 2048, "loss 0.02"))
    training, 128 of 2048: loss 0.02
    >>> print(Progress("certifying", text="certifying the initial weights"))
    certifying the initial weights
    """

    stage: str
    done: int = 0
    total: int | None = None
    text: str = ""
    latest: Any = None

    def __str__(self) -> str:
        if self.total is None:
            return self.text or self.stage
        return f"{self.stage}, {self.done} of {self.total}" + (f": {self.text}" if self.text else "")


Watch = Callable[[Progress], None]


def unwatched(now: Progress) -> None:
    """Take what a job tells, and do nothing with it."""
