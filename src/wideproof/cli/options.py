"""Options that several commands share: how to find and prepare a data set."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wideproof.errors import InputError

if TYPE_CHECKING:
    from wideproof.data import AnyDataset

Source = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A file (.csv .tsv .txt .npz .npy .parquet), a bundled name (see `wideproof data`), "
        "or a generator such as sphere:n=50,d=10,separation=0.3.",
        show_default=False,
    ),
]
Target = Annotated[
    str | None, typer.Option(help="Target column: its name or position (default: the last), or a key of an .npz.")
]
Classes = Annotated[str | None, typer.Option(help="Keep these classes, as in 0,1; two of them become -1 and +1.")]
Limit = Annotated[int | None, typer.Option(help="Keep at most this many examples, balanced over classes.")]
Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Whether a text file names its columns (default: found out)."),
]
Kind = Annotated[str | None, typer.Option(help="Read the examples as vectors, images or sequences.")]
Task = Annotated[str, typer.Option(help="auto, binary, multiclass or regression.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


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

    if kind not in (None, "vectors", "images", "sequences"):
        raise InputError(f"--kind is vectors, images or sequences, got {kind!r}")
    if task not in ("auto", "binary", "multiclass", "regression"):
        raise InputError(f"--task is auto, binary, multiclass or regression, got {task!r}")
    return load(
        source,
        target=_position(target),
        classes=None if classes is None else [part.strip() for part in classes.split(",") if part.strip()],
        limit=limit,
        header="auto" if header is None else header,
        kind=kind,  # pyright: ignore[reportArgumentType]
        task=task,  # pyright: ignore[reportArgumentType]
    )


def _position(target: str | None) -> str | int | None:
    if target is not None and target.lstrip("-").isdigit():
        return int(target)
    return target


def print_json(value: Any) -> None:
    """Print JSON in which no number is NaN or infinite: those become null."""
    print(json.dumps(_finite(value), indent=2))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
