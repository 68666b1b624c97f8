"""What all theorems ask of their arguments, in one place: every function named `certify...` is `@checked`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
from jaxtyping import Int

from wideproof.arguments import Check, flag, mapping, number, one_of, refusal, whole_number
from wideproof.data import AnyDataset
from wideproof.errors import InputError
from wideproof.networks import Network
from wideproof.training import Run

P = ParamSpec("P")
T = TypeVar("T")

_POSITIVE = number("a positive number", lambda value: value > 0)
_AT_LEAST_0 = number("a number of at least 0", lambda value: value >= 0)


def _kind(kind: Any, words: str) -> Check:
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
    "run": _kind(Run, "a run, as `wideproof.train` returns one"),
    "network": _kind(Network, "a network, as `wideproof.build` makes one"),
    "level": one_of("float64", "enclosed", because="only a verifier says 'proved'"),
    "sharp": flag,
    "require_zero": flag,
    "about": mapping,
    "step_size": _POSITIVE,
    "target_loss": _POSITIVE,
    "decay": _POSITIVE,
    "distance": _AT_LEAST_0,
    "room": _AT_LEAST_0,
    "rooms": _rooms,
    "momentum": number("from 0 to below 1", lambda value: 0 <= value < 1),
    "failure": number("a probability between 0 and 1", lambda value: 0 < value < 1),
    "share": number("a multiple of 1/b² between 0 and 2", lambda value: 0 < value < 2),
    "steps": whole_number(1, 2**63 - 1, "a positive whole number below 2^63"),
}


def _params(given: Any, others: Mapping[str, Any]) -> dict[str, np.ndarray]:
    network = others["network"]
    weights = _arrays("params", given, tuple(network.laws()), network)
    unknown = sorted(given.keys() - weights.keys())
    if unknown:
        raise InputError(f"params has {', '.join(unknown)}, which {network.name} does not have: leave that out")
    return weights


def _data(given: Any, others: Mapping[str, Any]) -> AnyDataset:
    network, data = others["network"], _kind(AnyDataset, "a data set, as `wideproof.load` makes one")("data", given)
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


def _batch(given: Any, others: Mapping[str, Any]) -> int:
    data = others["data"]
    words = f"a whole number from 1 to the {data.n} examples of '{data.name}'"
    return whole_number(1, data.n, words)("batch", given)


def _partition(given: Any, others: Mapping[str, Any]) -> Int[np.ndarray, "n"]:
    try:
        numbers = np.asarray(given)
    except ValueError:  # ragged
        numbers = np.zeros(0)
    fits = numbers.shape == (others["data"].n,) and numbers.dtype.kind in "iu"
    if not fits or set(numbers.tolist()) != set(range(int(numbers.max()) + 1)):
        raise refusal("partition", "the number of its batch for every example, from 0 without a gap", given)
    largest = int(np.bincount(numbers).max())
    if largest != others["batch"]:
        raise InputError(f"the largest batch of the partition has {largest} examples: say batch={largest}")
    return numbers


def _trained(name: str) -> Callable[[Any, Mapping[str, Any]], dict[str, Any]]:
    """Return the check of other weights of the same network, of which only the trained ones have to be there."""

    def check(given: Any, others: Mapping[str, Any]) -> dict[str, Any]:
        found = _arrays(name, given, others["network"].trained_names, others["network"])
        return {**given, **found}

    return check


# Each with the arguments that stand before it in the signature, which have been checked.
AMONG_OTHERS: dict[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    "params": _params, "data": _data, "batch": _batch, "partition": _partition,
    "start": _trained("start"), "centre": _trained("centre"),
}  # fmt: skip


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """Have all arguments of a function checked by their names, and passed on as plain numbers and float64 arrays.

    What no theorem can be asked with is refused in a sentence that names the argument. `None` may be given where it is
    the default.

    >>> @checked
    ... def half(step_size: float, *, level: str = "float64") -> float:
    ...     return step_size / 2
    >>> half(np.float32(3.0))
    1.5
    >>> half(3.0, level="rigorous")
    Traceback (most recent call last):
    ...
    wideproof.errors.InputError: level must be 'float64' or 'enclosed', got 'rigorous': only a verifier says 'proved'
    """
    signature = inspect.signature(function)
    defaults = {name: one.default for name, one in signature.parameters.items() if one.kind is not one.VAR_KEYWORD}
    assert defaults.keys() <= ALONE.keys() | AMONG_OTHERS.keys(), f"{function.__name__} has arguments without a check"

    @functools.wraps(function)
    def call(*args: Any, **given: Any) -> T:
        try:
            bound = signature.bind(*args, **given)
        except TypeError:  # of arguments that are missing, or that there are not, Python tells
            return function(*args, **given)
        found = bound.arguments
        for name, default in defaults.items():
            value = found.get(name, default)
            if name in found and not (value is None and default is None):
                found[name] = ALONE[name](name, value) if name in ALONE else AMONG_OTHERS[name](value, found)
        return function(*bound.args, **bound.kwargs)

    return cast("Callable[P, T]", call)


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
