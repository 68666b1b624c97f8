"""`wideproof plan`: what `wideproof prove` would do with these data, and why, before anything is trained."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from wideproof.cli.options import (
    Classes,
    CRes,
    FilterSize,
    Header,
    Json,
    KeepIds,
    Kind,
    Limit,
    Missing,
    ResidualScale,
    Source,
    Start,
    Target,
    Task,
    Trained,
    kind_for,
    loading,
    network_option,
    print_json,
    whole_number,
)
from wideproof.cli.watching import watching
from wideproof.errors import InputError


def plan_command(
    source: Source,
    target: Target = None,
    classes: Classes = None,
    limit: Limit = None,
    header: Header = None,
    kind: Kind = None,
    task: Task = "auto",
    missing: Missing = "fill",
    keep_ids: KeepIds = False,
    prepare: Annotated[
        list[str] | None,
        network_option(
            help="Preparation, as in whiten,sphere(8); none: as it is; may be given several times (default: chosen "
            "for the data).",
            show_default=False,
        ),
    ] = None,
    network: Annotated[
        str | None, network_option(help="The network, or several, as in fully-connected,residual (default: chosen).")
    ] = None,
    width: Annotated[str, network_option(help="Units per layer, or several, or auto: chosen for the data.")] = "auto",
    depth: Annotated[str | None, network_option(help="Hidden layers, or several, as in 1,2 (default: chosen).")] = None,
    activation: Annotated[
        str | None, network_option(help="Activation of the smooth networks, or several (default: chosen).")
    ] = None,
    c_res: CRes = None,
    residual_scale: ResidualScale = None,
    filter_size: FilterSize = None,
    start: Start = None,
    trained: Trained = None,
    steps: Annotated[
        int | None, typer.Option(help="Limit of training steps (default: what the budget allows).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the initial weights.")] = 0,
    alpha: Annotated[
        float | None,
        network_option(
            help="Multiply the outputs by this number (default: the least of 1, 3, 10, 30, ... whose steps fit the "
            "budget)."
        ),
    ] = None,
    budget: Annotated[
        float, typer.Option(help="Seconds that following the steps from the start may take.", show_default=True)
    ] = 120.0,
    top: Annotated[int, typer.Option(help="Candidates in the table; 0 shows all.")] = 12,
    json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Say what `wideproof prove` would do with a table, and why, with all candidates that were compared.

    Nothing is trained. The choice is made by the same function, from the same options and the same seed. Of networks,
    widths, depths, activations and preparations several may be given: every combination is planned, the best first.
    Exit code 0 if a proof is to be expected, 2 if that is not known.
    """
    from wideproof.planning import plan

    if top < 0:
        raise InputError(f"--top must be a number of rows >= 0, got {top}")
    names = _words(network, "--network")
    grids: dict[str, Any] = {
        "network": names, "activation": _words(activation, "--activation"),
        "width": [whole_number(word, "--width", "auto") for word in _words(width, "--width") or []],
        "depth": [whole_number(word, "--depth", "auto") for word in _words(depth, "--depth") or ["auto"]],
        "prepare": prepare or ["auto"],
    }  # fmt: skip
    options = {"c_res": c_res, "residual_scale": residual_scale, "filter_size": filter_size, "start": start,
               "trained": None if trained is None else tuple(part.strip() for part in trained.split(","))}  # fmt: skip
    kind = kind or (kind_for(source, names) if names else None)
    with watching(quiet or json) as progress:
        found = plan(
            source, **grids, options=options, seed=seed, steps=steps, alpha=alpha, budget=budget, progress=progress,
            **loading(target, classes, limit, header, kind, task, missing, keep_ids),
        )  # fmt: skip
    told = {"target": target, "classes": classes, "limit": limit, "kind": kind, "task": task, "missing": missing}
    defaults = {"task": "auto", "missing": "fill", "prepare": "auto", "seed": 0, "budget": 120.0}
    given = {key: value for key, value in {**told, **found.asked}.items() if value != defaults.get(key)}
    flags = ([] if header is None else ["--header" if header else "--no-header"]) + ["--keep-ids"] * keep_ids
    command = prove_with(source, given, flags)
    if json:
        print_json({**found.to_dict(), "command": command})
    else:
        typer.echo(f"{found.text(top)}\n\nprove it with: {command}")
    raise typer.Exit(found.answer.exit_code)


def prove_with(source: str, given: Mapping[str, Any], flags: list[str]) -> str:
    """Return the command that does what was planned.

    >>> prove_with("my table.csv", {"c_res": 0.5, "trained": ("hidden", "output"), "limit": None}, ["--header"])
    "wideproof prove 'my table.csv' --c-res=0.5 --trained=hidden,output --header"
    """
    words = {key: ",".join(value) if isinstance(value, tuple) else value for key, value in given.items()}
    options = [f"--{key.replace('_', '-')}={value}" for key, value in words.items() if value is not None]
    return shlex.join(["wideproof", "prove", source, *options, *flags])


def _words(text: str | None, option: str) -> list[str] | None:
    """Split at commas.

    >>> _words("tanh, erf", "--activation")
    ['tanh', 'erf']
    """
    if text is None:
        return None
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise InputError(f"{option} names at least one, separated by commas, got {text!r}")
    return words
