"""Which values of an axis are tried next, to find from which one on enough of the seeds succeed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from wideproof.sweeps.study import SEEDS, Study
from wideproof.sweeps.task import Task


def between(values: Sequence[float], shares: Mapping[float, float], level: float) -> float | None:
    """Return the value in the middle between those that are not enough and those that are, or nothing.

    Enough is a value from which on all that were tried have a share of at least `level`. The value in the middle is
    the one of the list, so that with logarithmic steps the bisection is logarithmic.

    >>> between([2, 4, 8, 16, 32], {}, 0.9), between([2, 4, 8, 16, 32], {8: 1.0, 4: 0.3}, 0.9)
    (8, None)
    """
    places = sorted(values)
    few = max((k for k, value in enumerate(places) if value in shares and shares[value] < level), default=-1)
    enough = (k for k, value in enumerate(places) if k > few and shares.get(value, -1.0) >= level)
    first = min(enough, default=len(places))
    return None if first - few <= 1 else places[(few + first) // 2]


def decisive(study: Study, tasks: Sequence[Task], done: Mapping[str, Mapping[str, float]]) -> list[Task]:
    """Return the tasks at the values that are to be tried next; where some of the last ones failed, none."""
    assert study.bisect is not None
    axis, level = study.bisect.axis, study.bisect.level
    groups: dict[tuple[object, ...], dict[float, list[Task]]] = {}
    for task in tasks:
        chosen = dict(task.chosen)
        where = tuple(value for name, value in task.chosen if name != axis and name not in SEEDS)
        groups.setdefault(where, {}).setdefault(chosen[axis], []).append(task)
    found = []
    for group in groups.values():
        tried = {value: one for value, one in group.items() if any(task.digest in done for task in one)}
        unfinished = [task for one in tried.values() for task in one if task.digest not in done]
        wanted = set()
        for name in study.bisect.quantities if not unfinished else ():
            shares = {value: float(np.mean([done[task.digest][name] for task in one])) for value, one in tried.items()}
            wanted.add(between(list(group), shares, level))
        found += unfinished + [task for value in sorted(wanted - {None}) for task in group[value]]
    return found
