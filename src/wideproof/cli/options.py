"""Options that several commands share: how to find and prepare a data set, and which network."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wideproof.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from wideproof.data import AnyDataset
    from wideproof.networks import Network


def one_of(*words: str, says: str, option: Callable[..., Any] = typer.Option) -> Any:
    """Return an option with words to choose from, which are completed; another is refused in one sentence."""

    def chosen(context: typer.Context, given: typer.CallbackParam, value: str | None) -> str | None:
        if value is not None and value not in words and not context.resilient_parsing:
            name = max(given.opts, key=len)
            raise InputError(f"{name} must be {', '.join(words[:-1])} or {words[-1]}, got {value!r}")
        return value

    def completed(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return option(autocompletion=completed, callback=chosen, help=says)


# Options of one kind stand together in the help.
data_option = partial(typer.Option, rich_help_panel="Data")
network_option = partial(typer.Option, rich_help_panel="Network")

Source = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A file (.csv .tsv .txt, .csv.gz, .npz .npy .parquet .json .jsonl .ndjson, .xlsx .xlsm, .db .sqlite "
        ".sqlite3; FILE.db::TABLE, FILE.xlsx::SHEET), a bundled name (see `wideproof data`), or a generator such as "
        "sphere:n=50,d=10,separation=0.3.",
        show_default=False,
    ),
]
Target = Annotated[
    str | None,
    data_option(
        help="Target column: its name, or its position from 0 (default: the last); or a key of an .npz. Several "
        "columns of numbers with commas between."
    ),
]
Classes = Annotated[str | None, data_option(help="Keep only these classes, as in 0,1; two become -1 and +1.")]
Limit = Annotated[int | None, data_option(help="Keep at most this many examples, balanced across classes.")]
Header = Annotated[
    bool | None,
    data_option("--header/--no-header", help="Whether a text file names its columns (default: detected)."),
]
Kind = Annotated[
    str | None,
    one_of(
        "vectors", "images", "sequences", says="Read the examples as vectors, images or sequences.", option=data_option
    ),
]
Task = Annotated[
    str,
    one_of(
        "auto",
        "binary",
        "multiclass",
        "regression",
        says="The task: auto, binary, multiclass or regression.",
        option=data_option,
    ),
]
Missing = Annotated[
    str,
    one_of(
        "fill",
        "drop",
        "error",
        says="Missing inputs: fill (and mark them), drop the row, or error.",
        option=data_option,
    ),
]
KeepIds = Annotated[bool, data_option("--keep-ids", help="Keep columns that look like row numbers or names.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

DEFAULT_WIDTH = 256
Prepare = Annotated[
    str,
    network_option(help="Preparation steps, as in whiten,unit; auto (what the network's paper needs); or none."),
]
NetworkName = Annotated[str, network_option(help="The network: see `wideproof networks`.")]
Depth = Annotated[int | None, network_option(help="Hidden layers, H or L (default 2; not for elman-rnn).")]
ActivationName = Annotated[str | None, network_option(help="Activation of the smooth networks (default softplus).")]
CRes = Annotated[float | None, network_option(help="Residual scale of Du et al. (default 0.5).")]
ResidualScale = Annotated[float | None, network_option(help="Residual scale θ of Frei et al. (default 1/L).")]
FilterSize = Annotated[int | None, network_option(help="Filter size of the convolution (default 3).")]
Start = Annotated[
    str | None,
    network_option(
        help="Initial weights: normal, as in the paper; doubled, which begins at 0; zero, a read-out of zeros (not "
        "fully-connected); or positive(A), not random (fully-connected, tanh or erf, one output)."
    ),
]
Trained = Annotated[str | None, network_option(help="Parts to train, as in hidden,output (default: the paper's).")]
Reduction = Annotated[str, one_of("auto", "half_sum", "mean", says="How losses are combined: auto, half_sum or mean.")]


def loading(
    target: str | None,
    classes: str | None,
    limit: int | None,
    header: bool | None,
    kind: str | None,
    task: str,
    missing: str = "fill",
    keep_ids: bool = False,
) -> dict[str, Any]:
    """Return the arguments of `load` that the options stand for."""
    return {
        "target": _position(target),
        "classes": None if classes is None else [part.strip() for part in classes.split(",") if part.strip()],
        "limit": limit, "header": "auto" if header is None else header, "kind": kind, "task": task,
        "missing": missing, "keep_ids": keep_ids,
    }  # fmt: skip


def find_data(
    source: str,
    target: str | None,
    classes: str | None,
    limit: int | None,
    header: bool | None,
    kind: str | None,
    task: str,
) -> AnyDataset:
    """Load the data set that the options describe."""
    from wideproof.data import load

    return load(source, **loading(target, classes, limit, header, kind, task))


def whole_number(text: str, option: str, word: str) -> int | None:
    """Return a number of at least 1, or None for the `word`."""
    if text == word:
        return None
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise InputError(f"{option} must be {word} or a whole number of at least 1, got {text!r}")
    return int(text)


def find_problem(
    source: str,
    target: str | None,
    classes: str | None,
    limit: int | None,
    header: bool | None,
    kind: str | None,
    task: str,
    *,
    prepare: str,
    network: str,
    depth: int | None,
    trained: str | None,
    **options: object,
) -> tuple[AnyDataset, Network]:
    """Load and prepare the data set, and build the network for its shape; options that are None keep the default."""
    from wideproof.data import PAPERS_NEED
    from wideproof.data import prepare as prepared
    from wideproof.networks import NETWORKS, build

    named = NETWORKS.get(network)
    data = find_data(
        source, target, classes, limit, header, kind_for(source, [network]) if kind is None else kind, task
    )
    options["depth"] = depth if depth is not None or network == "elman-rnn" else 2
    options["trained"] = None if trained is None else tuple(part.strip() for part in trained.split(","))
    if prepare == "auto":
        prepare = ",".join(PAPERS_NEED[named.paper]) if named else "none"
    if prepare != "none":
        data = prepared(data, prepare)
    given = {key: value for key, value in options.items() if value is not None}
    return data, build(network, data.input_shape, data.target_shape, **given)


def is_model(network: str) -> bool:
    """Return whether a network is given as a file of a trained model."""
    return network.lower().endswith(".onnx")


def find_model(
    source: str,
    target: str | None,
    classes: str | None,
    limit: int | None,
    header: bool | None,
    task: str,
    prepare: str,
    network: str,
    trained: str | None,
) -> tuple[AnyDataset, Network, dict[str, np.ndarray]]:
    """Load the data set, with targets as the model's outputs ask for, and the model with its weights."""
    from wideproof.data import prepare as prepared
    from wideproof.proving import as_model, coded

    data = find_data(source, target, classes, limit, header, None, task)
    data = data if prepare in ("auto", "none") else prepared(data, prepare)
    model, _ = as_model(network, data.x)
    names = None if trained is None else [part.strip() for part in trained.split(",")]
    chosen = model.network if names is None else model.network.training(names)
    return coded(chosen, model.params, data, "auto")[0], chosen, dict(model.params)


def kind_for(source: str, networks: Sequence[str]) -> str | None:
    """Return the kind of data that all these networks take, or None where that needs no saying.

    Vectors are read without being asked for, and a generator has a kind of its own.
    """
    from wideproof.data import GENERATORS
    from wideproof.networks import NETWORKS

    generated = source.partition(":")[0] in GENERATORS and not Path(source).exists()
    kinds = {NETWORKS[name].data_kind for name in networks if name in NETWORKS} - {"vectors"}
    return kinds.pop() if len(kinds) == 1 and not generated else None


def number_or_word(text: str) -> float | str:
    """Return a number where the text is one."""
    try:
        return float(text)
    except ValueError:
        return text


def numbers_or_word(text: str | None) -> tuple[float, ...] | str | None:
    """Return the numbers between commas where the text is such a list."""
    try:
        return None if text is None else tuple(float(part) for part in text.split(","))
    except ValueError:
        return text


def _position(target: str | None) -> str | int | None:
    return int(target) if target is not None and re.fullmatch(r"-?[0-9]+", target) else target


def print_json(value: Any) -> None:
    """Print JSON in which no number is NaN or infinite: those become null."""
    from wideproof.storage import plain

    print(json.dumps(plain(value, odd=lambda number: None), indent=2))
