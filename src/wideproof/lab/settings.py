"""The state of the bench: what the page may ask for, checked, and what it means to the library."""

from __future__ import annotations

import math
import re
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from wideproof.data import BUNDLED, GENERATORS, AnyDataset, Dataset, first_examples, load, prepare
from wideproof.errors import InputError
from wideproof.lab.given import NAME, Given, kind_of
from wideproof.lab.planes import is_line, plane
from wideproof.networks import NETWORKS, Network, build, from_config, to_config
from wideproof.training import Recipe, Run, begin

FITTED = 1e-22  # of the first loss: what is left then is rounding
FILES = ".csv", ".tsv", ".txt"
MOST_EXAMPLES, MOST_NUMBERS, MOST_WEIGHTS = 5000, 10**7, 10**8
Whole = Annotated[int, Field(ge=0, lt=2**31)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class DataSettings(_Strict):
    """Which examples: points, a bundled or generated set, a file dropped onto the page, or those of a notebook."""

    kind: Literal["points", "bundled", "generator", "file", "given"] = "points"
    name: Annotated[str, Field(max_length=200)] = "circles"
    n: Annotated[int, Field(ge=2, le=5000)] = 40
    noise: Annotated[float, Field(ge=0, le=1)] = 0.1
    seed: Whole = 0
    classes: Annotated[str, Field(max_length=200)] = ""
    target: Annotated[str, Field(max_length=200)] = ""
    prepare: Annotated[str, Field(max_length=200)] = "auto"
    points: Annotated[list[tuple[float, float, float]], Field(min_length=2, max_length=500)] | None = None


class NetworkSettings(_Strict):
    """One network and how it is trained.

    Attributes
    ----------
    scale
        Multiplies the read-out weights at the start: large is lazy, small learns features.
    step
        The step size as a multiple of 2/λmax of the Gram matrix at the start.
    order
        Of batches: a random subset for every step, or epochs that use every example once.
    momentum
        The coefficient of the momentum; 0 for none.
    """

    name: Annotated[str, Field(max_length=40)] = "fully-connected"
    width: Annotated[int, Field(ge=1, le=8192)] = 256
    depth: Annotated[int, Field(ge=1, le=30)] = 2
    activation: Annotated[str, Field(max_length=20)] = "tanh"
    trained: Literal["all", "hidden", "output"] = "all"
    scale: Annotated[float, Field(gt=0, le=1000)] = 1.0
    step: Annotated[float, Field(ge=0, le=8)] = 0.5
    batch: Annotated[int, Field(ge=0, le=5000)] = 0
    order: Literal["subsets", "epochs"] = "subsets"
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    seed: Whole = 0


class Settings(_Strict):
    """All of the bench."""

    data: DataSettings = DataSettings()
    networks: Annotated[list[NetworkSettings], Field(min_length=1, max_length=2)] = [NetworkSettings()]


def read(value: Any, model: type[BaseModel] = Settings) -> Any:
    """Return the settings that a page sent; say which one is wrong.

    >>> read({"networks": [{"width": 0}]})
    Traceback (most recent call last):
    wideproof.errors.InputError: networks.0.width: Input should be greater than or equal to 1, got 0
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the settings"
        raise InputError(f"{where}: {first['msg']}, got {str(first['input'])[:60]}") from None


def raw_data(asked: DataSettings, kind: str, uploads: Path | None = None, given: Given | None = None) -> AnyDataset:
    """Return the examples as they come, for networks that take `kind` ("vectors", "images" or "sequences")."""
    if asked.kind == NAME:
        data = given.data if given is not None else None
        if data is None:
            raise InputError("no data were given to this bench: choose others")
        if kind != kind_of(data):
            raise InputError(f"the examples are {kind_of(data)}, and this network takes {kind}: choose another network")
        return data if asked.n >= data.n else data.take(first_examples(data, asked.n))
    if asked.kind == "points":
        if kind != "vectors":
            raise InputError(f"points are vectors, and this network takes {kind}: choose digits, or another network")
        rows = plane(asked.name, asked.n, asked.noise, asked.seed) if asked.points is None else np.array(asked.points)
        if is_line(asked.name):
            return Dataset(rows[:, :1], rows[:, 1], "regression", asked.name)
        return Dataset(rows[:, :2], np.where(rows[:, 2] > 0, 1.0, -1.0), "binary", asked.name)
    if asked.kind == "generator":
        head = asked.name.partition(":")[0]
        if head not in GENERATORS:
            raise InputError(f"there is no generator {head!r}: choose one of {', '.join(GENERATORS)}")
        _check_size(asked.name)
        return load(asked.name, seed=asked.seed)
    classes = [part.strip() for part in asked.classes.split(",") if part.strip()] or None
    if asked.kind == "bundled":
        if asked.name not in BUNDLED:
            raise InputError(f"there is no bundled data set {asked.name!r}: choose one of {', '.join(BUNDLED)}")
        own = kind if asked.name.startswith("digits") else None
        numbers = [int(c) if c.isdigit() else c for c in classes] if classes else None
        return load(asked.name, classes=numbers, limit=asked.n, kind=own)  # pyright: ignore[reportArgumentType]
    if uploads is None or not re.fullmatch(r"[0-9a-f]{16}", asked.name):
        raise InputError("this file is no longer available: drop it onto the page again")
    found = [path for path in sorted(uploads.glob(f"{asked.name}*")) if path.suffix in FILES]
    if not found:
        raise InputError("this file is no longer available: drop it onto the page again")
    own = None if kind == "vectors" else kind
    name = found[0].stem.partition("-")[2] or "table"
    return load(found[0], asked.target or None, classes=classes, limit=asked.n, kind=own, name=name)  # pyright: ignore[reportArgumentType]


def data_kind(network: str, given: Given | None = None) -> str:
    """Return what the network of this name takes.

    >>> data_kind("elman-rnn")
    'sequences'
    """
    if network == NAME and given is not None and given.network is not None:
        return given.network.data_kind
    if network not in NETWORKS:
        raise InputError(f"there is no network {network!r}: choose one of {', '.join(NETWORKS)}")
    return NETWORKS[network].data_kind


def _check_size(generator: str) -> None:
    sizes = {key: int(text) for key, text in re.findall(r"(\w+)\s*=\s*(\d{1,18})\d*\s*(?:,|$)", generator)}
    numbers = math.prod(max(1, size) for key, size in sizes.items() if key != "seed")
    if sizes.get("n", 0) > MOST_EXAMPLES or numbers > MOST_NUMBERS:
        raise InputError(f"the bench takes at most {MOST_EXAMPLES} examples and {MOST_NUMBERS} numbers: use fewer")


def usual_preparation(data: AnyDataset, asked: DataSettings, network: str) -> str:
    """Return the steps that suit such data and such a network, where nobody says otherwise."""
    if network == NAME or data.preparation:  # who gives a network has built it for the data as they are
        return ""
    kind = data_kind(network)
    if kind != "vectors":
        return {"images": "unit", "sequences": "pad"}[kind]
    if asked.kind == "generator":
        return ""
    first = "sphere(4)" if asked.kind == "points" else "whiten,unit" if asked.name == "digits" else "whiten,sphere(4)"
    return f"{first},scale_targets" if data.task == "regression" and asked.kind in ("file", NAME) else first


def ready_data(
    asked: DataSettings, network: str, uploads: Path | None = None, given: Given | None = None
) -> tuple[AnyDataset, AnyDataset]:
    """Return the examples as they come and as the network gets them."""
    raw = raw_data(asked, data_kind(network, given), uploads, given)
    steps = usual_preparation(raw, asked, network) if asked.prepare == "auto" else asked.prepare
    steps = "" if steps == "none" else steps
    return raw, prepare(raw, steps) if steps else raw


def build_network(asked: NetworkSettings, data: AnyDataset, given: Given | None = None) -> Network:
    """Return the network for these data; options that it does not have are left out."""
    own = given.network if asked.name == NAME and given is not None else None
    if own is None and asked.name not in NETWORKS:
        raise InputError(f"there is no network {asked.name!r}: choose one of {', '.join(NETWORKS)}")
    kind = type(own) if own is not None else NETWORKS[asked.name]
    known = {field.name for field in fields(kind)}
    options: dict[str, object] = {"width": asked.width, "depth": asked.depth, "activation": asked.activation}
    if asked.trained != "all":
        if asked.trained not in kind.groups:
            raise InputError(f"{asked.name} has the parts {', '.join(kind.groups)}: train one of them, or all")
        options["trained"] = (asked.trained,)
    made = {key: value for key, value in options.items() if key in known}
    if own is None:
        network = build(asked.name, data.input_shape, data.target_shape, **made)
    elif own.takes(data.input_shape):
        network = from_config({**to_config(own), **made})
    else:
        raise InputError(
            f"the given network takes examples of shape {own.input_shape}, and these have {data.input_shape}: "
            "prepare the data before building it, or choose another network"
        )
    weights = sum(math.prod(law.shape) for law in network.laws().values())
    if weights > MOST_WEIGHTS:
        raise InputError(f"the bench takes at most {MOST_WEIGHTS:,} weights, got {weights:,}: make it narrower")
    return network


def begin_run(asked: NetworkSettings, network: Network, data: AnyDataset) -> Run:
    """Return the run at step 0: the paper's start with its read-out scaled, and the step size that was asked for."""
    weights = {name: np.asarray(weight, np.float64) for name, weight in network.init(asked.seed).items()}
    weights[network.graph.read_out] = weights[network.graph.read_out] * asked.scale
    batch = asked.batch if 0 < asked.batch < data.n else None
    rule = Recipe(constant=2 * asked.step or 1.0, batch=batch, seed=asked.seed, record_every=1, steps=10**12,
                  shuffle=asked.order == "epochs" and batch is not None,
                  optimizer="momentum" if asked.momentum else "plain", momentum=asked.momentum or None)  # fmt: skip
    run = begin(network, data, rule, weights)
    if asked.step == 0:
        run = begin(network, data, Recipe(**{**rule.to_config(), "step_size": 0.0}), weights)
    return run
