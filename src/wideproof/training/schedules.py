r"""Schedules: the factor $c_k$ of the step size at every step, $\eta_k = \eta\, c_k$, and epochs of shuffled batches.

With $K$ steps:

* `cosine(e)`: $e + (1 - e)\,(1 + \cos(\pi k / K))/2$, as PyTorch's `CosineAnnealingLR` and Optax's
  `cosine_decay_schedule`; $e = 0$ if not given;
* `linear(e)`: $1 - (1 - e)\,k/K$, as Optax's `linear_schedule`;
* `steps(s,g)`: $g^{\lfloor k/s \rfloor}$, as PyTorch's `StepLR`; $g = 0.1$ if not given;
* `milestones(a,b,...)`: $0.1^j$ with $j$ milestones $\le k$, as PyTorch's `MultiStepLR`;
* `warmup(w)`: $(k + 1)/w$ for $k < w$, then 1. Another one may follow, as in `warmup(100) cosine`: its $k$ and $K$ are
  counted from step $w$ on.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from wideproof.errors import InputError

Schedule = str | Sequence[float | int] | np.ndarray | Callable[[int], float]
MOST_FACTORS = 2**22
_EPOCHS = 2**31 - 2  # folded into the seed's key; `minibatch` uses another number
_PART = re.compile(r"(\w+)(?:\(([^()]*)\))?")
_NAMES = "constant, cosine, linear, steps(every), milestones(first,second), warmup(steps), warmup(100) cosine"


def settled(schedule: Any, steps: int) -> str | tuple[float, ...]:
    """Return a schedule as JSON can hold it: a name, or a list of factors.

    >>> settled(lambda k: 1 / (1 + k), 3)
    (1.0, 0.5, 0.3333333333333333)
    """
    if isinstance(schedule, str):
        _parts(schedule)
        return schedule
    if callable(schedule):
        if not 0 < steps <= MOST_FACTORS:
            raise InputError(f"a schedule that is a function is for 1 to {MOST_FACTORS} steps, got steps={steps}")
        schedule = [schedule(k) for k in range(steps)]
    try:
        found = np.asarray(schedule, np.float64)
    except (TypeError, ValueError):
        found = np.zeros(0)
    if found.ndim != 1 or not 0 < len(found) <= MOST_FACTORS or not (np.isfinite(found) & (found >= 0)).all():
        raise InputError(
            f"a schedule must be one of {_NAMES}, or factors >= 0 of the step size, a list with one for every step or "
            f"a function of the step's number; got {schedule!s:.60}"
        )
    return tuple(found.tolist())


def ends_with_the_steps(schedule: str | tuple[float, ...]) -> bool:
    """Return whether all factors depend on how many steps there are."""
    return isinstance(schedule, str) and any(name in ("cosine", "linear") for name, _ in _parts(schedule))


def factors(schedule: str | tuple[float, ...], steps: int) -> Float[np.ndarray, " k"] | None:
    """Return the factors of the first steps; the last holds for all later ones. `None`: all are 1.

    >>> factors("warmup(2) steps(1,0.5)", 5).tolist()
    [0.5, 1.0, 1.0, 0.5, 0.25]
    """
    if not isinstance(schedule, str):
        return np.array(schedule)
    parts = _parts(schedule)
    if not parts or steps == 0:
        return None
    warm = int(sum(sum(given) for name, given in parts if name == "warmup"))
    if all(name in ("warmup", "milestones") for name, _ in parts):
        steps = min(steps, warm + 1 + int(max([0.0, *(max(given) for name, given in parts if name == "milestones")])))
    if steps > MOST_FACTORS:
        raise InputError(f"the schedule {schedule!r} is for at most {MOST_FACTORS} steps, got steps={steps}")
    rising = (np.arange(min(warm, steps)) + 1) / max(warm, 1)
    k, length = np.arange(max(steps - warm, 0), dtype=np.float64), max(steps - warm, 1)
    rest = np.ones(len(k))
    for name, given in parts:
        if name in ("cosine", "linear"):
            end = given[0] if given else 0.0
            rest = end + (1 - end) * ((1 + np.cos(np.pi * k / length)) / 2 if name == "cosine" else 1 - k / length)
        elif name == "steps":
            every, factor = (*given, 0.1)[:2]
            rest = factor ** np.floor(k / every)
        elif name == "milestones":
            rest = 0.1 ** np.searchsorted(np.sort(given), k, side="right").astype(np.float64)
    return np.concatenate([rising, rest])


def _parts(schedule: str) -> list[tuple[str, tuple[float, ...]]]:
    """Read a schedule's name: its parts with their numbers.

    >>> _parts("warmup(100) cosine(0.01)")
    [('warmup', (100.0,)), ('cosine', (0.01,))]
    """
    found, rest = [], schedule.strip()
    while rest:
        part = _PART.match(rest)
        if part is None:
            raise _unknown(schedule)
        try:
            numbers = tuple(float(one) for one in (part[2] or "").split(",") if one.strip())
        except ValueError:
            raise _unknown(schedule) from None
        found.append((part[1], numbers))
        rest = rest[part.end() :].strip()
    names = [name for name, _ in found]
    if not found or not all(_sound(name, numbers) for name, numbers in found):
        raise _unknown(schedule)
    if len(names) > 2 or (len(names) == 2 and (names[0] != "warmup" or names[1] == "warmup")):
        raise InputError(f"of two schedules the first must be a warm-up, as in 'warmup(100) cosine'; got {schedule!r}")
    return [part for part in found if part[0] != "constant"]


def _sound(name: str, numbers: tuple[float, ...]) -> bool:
    whole = [math.isfinite(one) and one == int(one) and one >= 1 for one in numbers]
    share = [math.isfinite(one) and one >= 0 for one in numbers]
    if name in ("cosine", "linear"):
        return len(numbers) <= 1 and all(share)
    if name == "steps":
        return len(numbers) in (1, 2) and whole[0] and all(share)
    rule = {"constant": not numbers, "milestones": numbers and all(whole), "warmup": len(numbers) == 1 and all(whole)}
    return bool(rule.get(name))


def _unknown(schedule: str) -> InputError:
    return InputError(f"there is no schedule {schedule!r}: use one of {_NAMES}, or a list of factors")


def epoch_batch(key: Array, step: Array | int, n: int, batch: int) -> tuple[Int[Array, " b"], Bool[Array, " b"]]:
    r"""Return the rows of a step in epochs of shuffled batches, and which of them count.

    An epoch has $\lceil n/B \rceil$ steps and uses every example once, in an order that is drawn from the key and the
    epoch's number alone. If $B$ does not divide $n$ the last batch of an epoch is shorter: its further rows do not
    count.

    Parameters
    ----------
    key
        A JAX random key; the number of the epoch is folded into it.
    step
        Number of the step.
    n
        Number of examples.
    batch
        Batch size $B$.

    Returns
    -------
    tuple[Array, Array]
        The positions of `batch` examples, and whether each belongs to the batch.

    Examples
    --------
    >>> import jax
    >>> found = [epoch_batch(jax.random.key(0), k, 5, 2) for k in (0, 1, 2)]
    >>> sorted(int(row) for rows, counts in found for row in rows[counts])
    [0, 1, 2, 3, 4]
    """
    steps = -(-n // batch)
    epoch, place = step // steps, step % steps * batch
    order = jax.random.permutation(jax.random.fold_in(jax.random.fold_in(key, _EPOCHS), epoch), n)
    order = jnp.concatenate([order, order[: steps * batch - n]])
    return lax.dynamic_slice(order, (place,), (batch,)), place + jnp.arange(batch) < n
