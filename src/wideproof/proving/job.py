"""What all stages of a proof share: where it lies, who is told, how long each took, and the verifier's answer."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wideproof.certificates import Attempt
from wideproof.planning import BUDGET
from wideproof.progress import Progress, Watch
from wideproof.proving.predictor import CERTIFICATE
from wideproof.proving.proof import Proof
from wideproof.threads import one_blas_thread
from wideproof.training import Recipe


@dataclass
class Job:
    """What all stages share: where the proof lies, who is told, how long each stage took.

    `from_start` says whether training is followed from its first step: `None` where that fits the `budget`, in seconds.
    `polish` says whether Gauss-Newton steps may move the weights.
    """

    folder: Path
    recipe: Recipe
    sharp: bool
    progress: Watch
    seconds: dict[str, float] = field(default_factory=dict)
    from_start: bool | None = False
    budget: float = BUDGET
    polish: bool = False
    doing: str = "loading"

    def tell(self, text: str) -> None:
        """Tell what is under way."""
        self.progress(Progress(self.doing, text=text))

    def proof(self, attempt: Attempt[Any], verdict: Any, **more: Any) -> Proof:
        """Return what came of it all; `more` are further attributes of `Proof`."""
        return Proof(attempt=attempt, verdict=verdict, seconds=self.seconds, folder=self.folder, **more)

    @contextmanager
    def stage(self, name: str, words: str) -> Iterator[None]:
        """Tell what begins, and count its seconds."""
        self.doing = name
        self.tell(words)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


def verified(job: Job, attempt: Attempt, words: str = "verifying with rigorous bounds on all rounding") -> Any:
    """Write the certificate, and return what the independent verifier says of it; `None` where there is none."""
    if attempt.certificate is None:
        return None
    from wideproof_verify import verify

    with job.stage("verifying", words):
        place = job.folder / CERTIFICATE
        attempt.certificate.put(place)
        with one_blas_thread() if attempt.certificate.start is not None else nullcontext():  # many small products
            return verify(place, time=math.inf)
