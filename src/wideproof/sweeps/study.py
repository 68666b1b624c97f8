"""The study file: what is swept, in TOML, checked before anything runs.

    name = "lazy-width"
    measures = ["distance", "gram_drift"]

    [data]
    source = "sphere"
    n = 20
    d = 10
    separation = 0.3

    [network]
    name = "fully-connected"
    depth = 2

    [training]
    steps = 200

    [axes]
    width = [64, 128, 256]
    seed = 5                      # 0, 1, 2, 3, 4

    [[figures]]
    kind = "slope"
    quantity = "distance"
    x = "width"
    printed = -0.5

An axis is a key of the network, of the training or of the data; `seed` decides start and minibatches, `data_seed` the
data. Instead of a grid, `[[tasks]]` lists the combinations one by one.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import re
import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from wideproof.data import GENERATORS
from wideproof.errors import InputError
from wideproof.networks import NETWORKS
from wideproof.training import Recipe

Scalar = int | float | str
FORMAT = 1
SEEDS = ("seed", "data_seed")  # the axes over which is averaged
_SHAPED = ("input_dim", "channels", "pixels", "length", "outputs")  # the data decides these
_NOT_SWEPT = (
    "a paper's statement is measured in a laboratory of its own, for which a study sets the seed only: leave this axis "
    "out, or measure at other widths with `wideproof check --widths`"
)
_LOADED = ("limit", "prepare", "classes", "kind", "target", "task")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Data(_Part):
    """Where the examples come from; further keys are the generator's own (`n`, `d`, `separation`, ...)."""

    model_config = ConfigDict(extra="allow", frozen=True)

    source: str
    prepare: str = ""
    classes: str | None = None
    limit: int | None = None
    kind: str | None = None
    target: str | None = None
    task: str = "auto"


class NetworkPart(_Part):
    """The network and its options; further keys are the network's own (`width`, `depth`, `activation`, ...)."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str


class Figure(_Part):
    """One figure of a study.

    Attributes
    ----------
    kind
        `"slope"` (an exponent along an axis), `"factor"` (a factor per unit), `"phase"` or `"map"` (over two axes), or
        `"threshold"`.
    quantity
        The measure that is drawn.
    x
        The axis along which it is drawn.
    y
        The second axis, for a phase diagram, a map or a threshold.
    printed
        The exponent of the theory: a number, or a table if it differs along the other axis, as in
        `{ "canonical(1)" = -1.0 }`.
    level
        For a threshold, the mean over seeds that is enough.
    title
        Title of the figure.
    """

    kind: Literal["slope", "factor", "phase", "map", "threshold"]
    quantity: str
    x: str
    y: str | None = None
    printed: float | dict[str, float] | None = None
    level: float = 0.5
    title: str = ""

    def printed_at(self, where: dict[str, object]) -> float | None:
        """Return the exponent of the theory at some values of the other axes.

        Parameters
        ----------
        where
            Values of the other axes, by name.

        Returns
        -------
        float | None
            The exponent, or `None`.
        """
        if not isinstance(self.printed, dict):
            return self.printed
        return next((self.printed[str(value)] for value in where.values() if str(value) in self.printed), None)


class Bisect(_Part):
    """Which values of one axis are tried: those that decide from which one on enough of the seeds succeed.

    Attributes
    ----------
    axis
        The axis, of numbers.
    quantities
        The measures, each 0 or 1; a value is tried if it decides for one of them.
    level
        The mean over seeds that is enough.
    """

    axis: str
    quantities: list[str] = Field(min_length=1)
    level: float = 0.9


class Study(_Part):
    """A validated study file.

    Attributes
    ----------
    name
        Name of the study: letters, digits, `_` and `-`.
    title
        One line that says what the study shows.
    measures
        The quantities to measure in every task.
    data
        The data of the tasks.
    network
        The network and its options.
    training
        Fields of `Recipe`.
    axes
        What varies: a list of values for each axis; a number for `seed` or `data_seed` counts from 0.
    tasks
        Combinations of values listed one by one, instead of a grid.
    figures
        The figures of the report.
    bisect
        The axis along which not all values are tried; `None` runs every combination.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")
    title: str = ""
    measures: list[str] = Field(min_length=1)
    data: Data
    network: NetworkPart
    training: dict[str, Any] = Field(default_factory=dict)
    axes: dict[str, list[Scalar] | int] = Field(default_factory=dict)
    tasks: list[dict[str, Scalar]] = Field(default_factory=list)
    figures: list[Figure] = Field(default_factory=list)
    bisect: Bisect | None = None

    def values(self) -> dict[str, list[Scalar]]:
        """Return the values along every axis; a whole number for `seed` or `data_seed` counts from 0."""
        return {name: list(range(v)) if isinstance(v, int) else list(v) for name, v in self.axes.items()}

    @property
    def count(self) -> int:
        """How many tasks there are."""
        if self.tasks:
            return len(self.tasks)
        total = 1
        for values in self.values().values():
            total *= len(values)
        return total

    def combinations(self) -> Iterator[dict[str, Scalar]]:
        """Yield what varies, one dictionary a task, the last axis fastest."""
        if self.tasks:
            yield from (dict(task) for task in self.tasks)
            return
        grid = self.values()
        yield from (dict(zip(grid, chosen, strict=True)) for chosen in itertools.product(*grid.values()))

    def settings(self, chosen: dict[str, Scalar]) -> dict[str, dict[str, Any]]:
        """Return data, network and training of one task, as plain values.

        Parameters
        ----------
        chosen
            One of the `combinations`.

        Returns
        -------
        dict[str, dict[str, Any]]
            The three sections with the chosen values.
        """
        data = {k: v for k, v in self.data.model_dump().items() if v is not None}
        parts = {"data": data, "network": self.network.model_dump(), "training": dict(self.training)}
        for axis, value in chosen.items():
            section, key = self.home(axis)
            parts[section][key] = value
        return parts

    def home(self, axis: str) -> tuple[str, str]:
        """Return the section and the key that an axis sets.

        Parameters
        ----------
        axis
            Name of an axis.

        Returns
        -------
        tuple[str, str]
            Section and key.
        """
        if axis == "seed":
            return "training", "seed"
        if axis == "data_seed":
            return "data", "seed"
        if axis == "network":
            return "network", "name"
        if axis in _network_keys(self.network.name):
            return "network", axis
        if axis in _training_keys():
            return "training", axis
        if axis in _data_keys(self.data.source):
            return "data", axis
        known = sorted({*_network_keys(self.network.name), *_training_keys(), *_data_keys(self.data.source)})
        raise InputError(
            f"the study {self.name!r} has an axis {axis!r}, which neither {self.network.name} nor the training nor "
            f"{self.data.source!r} has: axes can be seed, data_seed, network, {', '.join(known)}"
        )


def read_study(path: str | Path) -> Study:
    """Read a study file, or a bundled study by its name; errors name the key and the line.

    Parameters
    ----------
    path
        A file, or the name of a bundled study.

    Returns
    -------
    Study
        The study.

    Examples
    --------
    >>> read_study("lazy-width").name
    'lazy-width'
    """
    text, where = _find(path)
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{where} is not TOML: {error}") from None
    try:
        study = Study.model_validate(raw)
    except ValidationError as error:
        raise InputError(f"{where}: {_first(error, text)}") from None
    _require_meaning(study, text, where)
    return study


def require_parts(study: Study) -> None:
    """Refuse to cut a study into parts that decides by bisection what to run next."""
    if study.bisect is not None:
        raise InputError(
            f"the study {study.name!r} decides by bisection what to run next, so it has no parts: leave --slurm and "
            "--part out, and use --workers or --cluster"
        )


def bundled() -> dict[str, str]:
    """Return the studies that come with this package.

    Returns
    -------
    dict[str, str]
        Names and titles.
    """
    folder = resources.files("wideproof.sweeps").joinpath("studies")
    found = {}
    for file in sorted(folder.iterdir(), key=lambda f: f.name):
        if file.name.endswith(".toml"):
            found[file.name.removesuffix(".toml")] = tomllib.loads(file.read_text(encoding="utf-8")).get("title", "")
    return found


def _find(path: str | Path) -> tuple[str, str]:
    if str(path) in bundled():
        name = f"{path}.toml"
        return resources.files("wideproof.sweeps").joinpath("studies", name).read_text(encoding="utf-8"), name
    try:
        return Path(path).read_text(encoding="utf-8"), str(path)
    except (OSError, UnicodeDecodeError):
        names = ", ".join(bundled())
        raise InputError(f"there is no study file {str(path)!r}; bundled studies are {names}") from None


def _first(error: ValidationError, text: str) -> str:
    found = error.errors()[0]
    keys = [str(part) for part in found["loc"]]
    named = [key for key in keys if not key.isdecimal() and "[" not in key]
    line = line_of(text, named)
    said = {"extra_forbidden": "there is no such key", "missing": "this key is missing"}.get(
        found["type"], found["msg"]
    )
    return f"`{'.'.join(keys)}`{f' (line {line})' if line else ''}: {said}"


def line_of(text: str, keys: list[str]) -> int | None:
    r"""Return the line of a key inside its section, of the section where the key is missing, or None.

    Examples
    --------
    >>> line_of("a = 1\n[b]\nc = 2", ["b", "c"])
    3
    """
    section, found = "", None
    for number, line in enumerate(text.splitlines(), 1):
        head = re.match(r"\s*\[+\s*([^\]\s]+)\s*\]+", line)
        if head:
            section = head[1]
        path = [*filter(None, section.split(".")), *([m[1]] if (m := re.match(r"\s*\"?([\w-]+)\"?\s*=", line)) else [])]
        if path == keys[: len(path)] and path:
            found = number
            if path == keys:
                return number
    return found


def _require_meaning(study: Study, text: str, where: str) -> None:
    """Check what single keys cannot show: axes, measures, figures, and that the first task can be built."""
    from wideproof.sweeps.measures import find_measure

    def wrong(keys: list[str], said: str) -> InputError:
        line = line_of(text, keys)
        return InputError(f"{where}: `{'.'.join(keys)}`{f' (line {line})' if line else ''}: {said}")

    if bool(study.axes) == bool(study.tasks):
        raise wrong(["axes"], "a study has either [axes] or a list of [[tasks]]")
    for name, values in study.axes.items():
        if isinstance(values, int):
            if name not in ("seed", "data_seed") or values < 1:
                raise wrong(["axes", name], "an axis is a list of values; only seeds can be counted, as in seed = 5")
        elif not values or len(set(values)) != len(values):
            raise wrong(["axes", name], "an axis has at least one value, and each value once")
    for name in study.axes or {key for task in study.tasks for key in task}:
        try:
            study.home(name)
        except InputError as error:
            raise wrong(["axes", name], str(error)) from None
    if all(name.startswith("check:") for name in study.measures):
        for name in study.axes or {key for task in study.tasks for key in task}:
            if name != "seed":
                raise wrong(["axes", name], _NOT_SWEPT)
    unknown = sorted(set(study.training) - set(_training_keys()) - {"seed"})
    if unknown:
        raise wrong(["training", unknown[0]], f"training has {', '.join(_training_keys())}")
    for name in study.measures:
        try:
            find_measure(name)
        except InputError as error:
            raise wrong(["measures"], str(error)) from None
    if study.bisect is not None:
        along = study.axes.get(study.bisect.axis)
        if not isinstance(along, list) or not all(isinstance(value, int | float) for value in along):
            raise wrong(["bisect", "axis"], "bisection is along an axis of this study that is a list of numbers")
        for name in set(study.bisect.quantities) - set(study.measures):
            raise wrong(["bisect", "quantities"], f"bisection for {name!r}, which is not among the measures")
    for figure in study.figures:
        for axis in filter(None, (figure.x, figure.y)):
            if axis not in study.axes:
                raise wrong(["figures"], f"a figure over {axis!r}, which is not an axis of this study")
        if figure.quantity not in study.measures:
            raise wrong(["figures"], f"a figure of {figure.quantity!r}, which is not among the measures")
        if figure.kind in ("phase", "map", "threshold") and figure.y is None:
            raise wrong(["figures"], f"a {figure.kind} needs two axes, x and y")


def _network_keys(name: str) -> list[str]:
    if name not in NETWORKS:
        raise InputError(f"there is no network {name!r}: choose one of {', '.join(NETWORKS)}")
    return [field.name for field in dataclasses.fields(NETWORKS[name]) if field.name not in _SHAPED]


def _training_keys() -> list[str]:
    return [field.name for field in dataclasses.fields(Recipe) if field.name != "seed"]


def _data_keys(source: str) -> list[str]:
    own = list(inspect.signature(GENERATORS[source]).parameters) if source in GENERATORS else []
    return [*(key for key in own if key != "seed"), *_LOADED]
