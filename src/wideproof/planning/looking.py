"""What a candidate's Gram matrix says before any training: the ends of its spectrum, and an estimate on new rows."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from wideproof.certificates import DENSE
from wideproof.data import AnyDataset, Dataset, distinct, flattens, merges, prepare
from wideproof.errors import InputError
from wideproof.kernels import closed_gram, has_closed_gram, limit_gram
from wideproof.networks import NETWORKS, FullyConnected
from wideproof.planning.candidates import Candidate, kind_of
from wideproof.planning.estimates import Estimate, leave_out, score
from wideproof.progress import Progress, Watch
from wideproof.resources import cores
from wideproof.threads import one_blas_thread

LEAST_WIDTH = 256
LOOKED_AT = 1000  # distinct rows that candidates are compared on
READ_OUT = 0.2  # of the smallest eigenvalue of the read-out, what to expect at finite width
PROVABLE = 1e-5  # smallest eigenvalue at which a certificate is expected


@dataclass(frozen=True, eq=False)
class Looked:
    """A candidate and what its Gram matrix says: ends of the spectrum at infinite width, and the estimate.

    Where a certificate will see the part of the read-out only, `smallest` is a share of that part's: a network of
    finite width has less of it.
    """

    candidate: Candidate
    smallest: float
    largest: float
    estimate: Estimate | None

    @property
    def turns(self) -> float:
        """How many steps the slowest part of the error takes to shrink e times, before training changes that."""
        return self.largest / self.smallest if self.smallest > 0 else math.inf

    @property
    def provable(self) -> bool:
        """Whether a certificate is to be expected."""
        return self.smallest >= PROVABLE


def rank(looked: Sequence[Looked], needed: float = PROVABLE, fast: bool = False) -> list[Looked]:
    """Sort: the `needed` eigenvalue first, then the best estimate, within a standard error the best condition.

    With `fast` the estimate does not count.
    """

    def condition(one: Looked) -> float:
        wide = _radius(one) / (4 if fast else 8)
        return one.smallest / one.largest / (1 + wide**2) if one.largest > 0 else 0.0

    provable = [one for one in looked if one.smallest >= needed] or [max(looked, key=condition)]
    most = max((one.estimate.value - one.estimate.error for one in provable if one.estimate), default=-math.inf)
    near = [one for one in provable if fast or one.estimate is None or one.estimate.value >= most]
    best = max(near, key=condition)
    return [best, *sorted((one for one in looked if one is not best), key=condition, reverse=True)]


def _radius(one: Looked) -> float:
    """Return the radius of the sphere: the larger it is, the more training takes from the smallest eigenvalue."""
    found = re.search(r"sphere\(([\d.]+)\)", one.candidate.preparation)
    return float(found[1]) if found else 1.0


def look(
    data: AnyDataset,
    candidates: Sequence[Candidate],
    prepared: dict[str, AnyDataset],
    notes: list[str],
    progress: Watch | None,
) -> list[Looked]:
    """Look at candidates, those in closed form side by side; what was `prepared` for one serves the others.

    BLAS has one thread: matrices have at most a thousand rows, and where a machine has less to give than it has cores,
    threads that wait for each other took ten times as long.
    """
    part = _part(data)
    lean = distinct(data).y.size > DENSE
    waiting: list[tuple[Candidate, Callable[[], Looked]]] = []
    with one_blas_thread(), ThreadPoolExecutor(cores()) as pool:
        for one in candidates:
            try:
                ready = prepared[one.preparation] = prepared.get(one.preparation) or _prepared(data, one.preparation)
            except InputError as error:  # a row of zeros has no direction
                notes.append(f"left out {one.preparation}: {error}")
                continue
            if merges(data, ready):
                notes.append(
                    f"`{one.preparation}` makes different rows of '{data.name}' equal, so a proof would be about the "
                    "preparation: leave `prepare` out, or end it with sphere"
                )
                continue
            if same := flattens(ready):
                notes.append(f"left out {one.preparation}: {same}" if len(candidates) > 1 else same)
                continue
            if one.network in NETWORKS and len(candidates) == 1 and kind_of(data) != "vectors":
                waiting.append((one, partial(Looked, one, PROVABLE, 0.0, None)))
                continue
            look = partial(_measured, one, ready.take(part) if part is not None else ready, data.n, lean)
            waiting.append((one, pool.submit(look).result if _closed(one, ready) else look))
        found = []
        for done, (one, look) in enumerate(waiting):
            if progress is not None:
                progress(Progress("choosing", done, len(candidates), str(one)))
            try:
                found.append(look())
            except InputError as error:  # a matrix that cannot be computed to the digits that it needs
                notes.append(f"left out {one.preparation or 'the rows as they are'}: {error}")
        return found


def _closed(one: Candidate, data: AnyDataset) -> bool:
    network = one.build(data, LEAST_WIDTH)
    return isinstance(network, FullyConnected) and has_closed_gram(network)


def _part(data: AnyDataset) -> np.ndarray | None:
    """Return the rows of some distinct inputs where there are more than candidates are compared on."""
    groups = distinct(data)
    if groups.n <= LOOKED_AT:
        return None
    chosen = np.random.default_rng(0).permutation(groups.n)[:LOOKED_AT]
    return np.flatnonzero(np.isin(groups.place, chosen))


def _measured(one: Candidate, data: AnyDataset, rows: int, lean: bool) -> Looked:
    groups = distinct(data)
    network = one.build(data, LEAST_WIDTH)
    if isinstance(network, FullyConnected) and has_closed_gram(network):
        part, matrix = closed_gram(network, groups.x)
    else:
        part, matrix = None, np.asarray(limit_gram(network, groups.x).matrix, np.float64)
    if not isinstance(data, Dataset):
        return Looked(one, *_ends(matrix), None)
    left = leave_out(matrix, groups)
    if left is None:
        return Looked(one, 0.0, float(np.trace(matrix)), None)
    smallest, estimate = left.smallest, None
    if groups.n > 1:  # with one input left out nothing is known
        estimate = score(data, left.outputs[groups.place].reshape(data.y.shape))
    if lean and part is not None:
        alone = leave_out(part, groups)
        smallest = 0.0 if alone is None else READ_OUT * alone.smallest
    return Looked(one, smallest, left.largest * rows / data.n, estimate)


def _ends(matrix: np.ndarray) -> tuple[float, float]:
    values = np.linalg.eigvalsh(matrix)
    return float(values[0]), float(values[-1])


def _prepared(data: AnyDataset, steps: str) -> AnyDataset:
    return prepare(data, steps) if steps else data
