"""What is asked of the arguments of all theorems, in one place and by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int

from wideproof.arguments import Check, flag, mapping, number, one_of, refusal, whole_number
from wideproof.data import AnyDataset
from wideproof.errors import InputError
from wideproof.networks import Network
from wideproof.training import Run

_POSITIVE = number("a positive number", lambda value: value > 0)
_AT_LEAST_0 = number("a number of at least 0", lambda value: value >= 0)


def instance_of(kind: Any, words: str) -> Check:
    """Return the check that an argument is of this kind; `words` say what that is, and how to make one."""

    def check(name: str, value: Any) -> Any:
        if not isinstance(value, kind):
            raise refusal(name, words, value)
        return value

    return check


def _rooms(name: str, value: Any) -> tuple[float, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        raise refusal(name, "a sequence of shares, as (0.1, 0.0)", value)
    return tuple(_AT_LEAST_0(f"{name}[{k}]", one) for k, one in enumerate(value))


ALONE: dict[str, Check] = {
    "run": instance_of(Run, "a run, as `wideproof.train` returns one"),
    "level": one_of("float64", "enclosed", because="only a verifier says 'proved'"),
    "careful": flag,
    "sharp": flag,
    "require_zero": flag,
    "about": mapping,
    "step_size": _POSITIVE,
    "target_loss": _POSITIVE,
    "decay": _POSITIVE,
    "loss": one_of("squared", "cross_entropy", "logistic"),
    "distance": _AT_LEAST_0,
    "room": _AT_LEAST_0,
    "rooms": _rooms,
    "momentum": number("from 0 to below 1", lambda value: 0 <= value < 1),
    "failure": number("a probability between 0 and 1", lambda value: 0 < value < 1),
    "share": number("a multiple of 1/b² between 0 and 2", lambda value: 0 < value < 2),
    "steps": whole_number(1, 2**63 - 1, "a positive whole number below 2^63"),
}


def all_weights(given: Any, network: Network) -> dict[str, np.ndarray]:
    """Return all weights of a network in float64, and refuse what are not its weights."""
    weights = _arrays("params", given, tuple(network.laws()), network)
    unknown = sorted(given.keys() - weights.keys())
    if unknown:
        raise InputError(f"params has {', '.join(unknown)}, which {network.name} does not have: leave that out")
    return weights


def fitting_data(given: Any, network: Network) -> AnyDataset:
    """Return the data, and refuse what the network does not take."""
    data = instance_of(AnyDataset, "a data set, as `wideproof.load` makes one")("data", given)
    if not network.takes(data.input_shape):
        raise InputError(
            f"data '{data.name}' has examples of shape {data.input_shape} and {network.name} takes "
            f"{network.input_shape}: build the network for this data"
        )
    if network.output_shape != data.target_shape:
        raise InputError(
            f"data '{data.name}' has targets of shape {data.target_shape} and {network.name} gives outputs of shape "
            f"{network.output_shape}: choose another number of outputs, or other labels"
        )
    return data


def check_fields(instance: Any) -> None:
    """Check the fields of a new frozen dataclass by their names, and let them be plain numbers.

    What no theorem can be asked with is refused in a sentence that names the argument. `None` may be given where it is
    the default.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Half:
    ...     step_size: float
    ...     level: str = "float64"
    ...     __post_init__ = check_fields
    >>> Half(np.float32(3.0)).step_size
    3.0
    >>> Half(3.0, level="rigorous")
    Traceback (most recent call last):
    ...
    wideproof.errors.InputError: level must be 'float64' or 'enclosed', got 'rigorous': only a verifier says 'proved'
    """
    for name, value in _given(instance):
        if name in ALONE:
            object.__setattr__(instance, name, ALONE[name](name, value))


def for_problem(theorem: Any, network: Network, data: AnyDataset) -> dict[str, Any]:
    """Return the fields of a theorem that only a network and its data can tell to be right, checked."""
    found: dict[str, Any] = {}
    for name, value in _given(theorem):
        if name in ("start", "centre"):
            weights = _arrays(name, value, network.trained_names, network)  # others may be there
            found[name] = {**value, **weights}
        elif name == "batch":
            words = f"a whole number from 1 to the {data.n} examples of '{data.name}'"
            found[name] = whole_number(1, data.n, words)(name, value)
        elif name == "partition":
            found[name] = _partition(value, data, found["batch"])
    return found


def _given(instance: Any) -> list[tuple[str, Any]]:
    """Return the fields that are not `None` by default, with their values."""
    pairs = [(field, getattr(instance, field.name)) for field in dataclasses.fields(instance)]
    return [(field.name, value) for field, value in pairs if value is not None or field.default is not None]


def _partition(given: Any, data: AnyDataset, batch: int) -> Int[np.ndarray, "n"]:
    try:
        numbers = np.asarray(given)
    except ValueError:  # ragged
        numbers = np.zeros(0)
    fits = numbers.shape == (data.n,) and numbers.dtype.kind in "iu"
    if not fits or set(numbers.tolist()) != set(range(int(numbers.max()) + 1)):
        raise refusal("partition", "the number of its batch for every example, from 0 without a gap", given)
    largest = int(np.bincount(numbers).max())
    if largest != batch:
        raise InputError(f"the largest batch of the partition has {largest} examples: say batch={largest}")
    return numbers


def _arrays(name: str, given: Any, wanted: Sequence[str], network: Network) -> dict[str, np.ndarray]:
    """Return the wanted arrays in float64; each must be there, have the network's shape, and be finite."""
    if not (isinstance(given, Mapping) and all(isinstance(key, str) for key in given)):
        raise refusal(name, "arrays by name, as `network.init` returns them", given)
    missing = [key for key in wanted if key not in given]
    if missing:
        raise InputError(f"{name} has no {', '.join(missing)}, which {network.name} has: give all its weights")
    laws = network.laws()
    return {key: _array(f"{name}[{key!r}]", given[key], laws[key].shape) for key in wanted}


def _array(name: str, given: Any, shape: tuple[int, ...]) -> np.ndarray:
    try:
        read = np.asarray(given)
        array = read.astype(np.float64, copy=False) if read.dtype.kind not in "bcSUmM" else None
    except (TypeError, ValueError):
        array = None
    if array is None:
        raise refusal(name, f"an array of numbers of the shape {shape}", given)
    if array.shape != shape:
        raise InputError(f"{name} must have the shape {shape}, got {array.shape}: are these weights of this network?")
    if not np.isfinite(array).all():
        raise InputError(f"{name} must be finite, and holds NaN or infinity: did the training diverge?")
    return array
