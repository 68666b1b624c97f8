"""`wideproof networks`, `losses`, `data`: what there is."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from wideproof.cli.audit import TITLES
from wideproof.cli.options import Json, print_json

if TYPE_CHECKING:
    from wideproof.networks import Network


def networks_command(json: Json = False) -> None:
    """List the networks and the activations."""
    from rich.console import Console
    from rich.table import Table

    from wideproof.networks import ACTIVATIONS, NETWORKS

    if json:
        print_json({
            "networks": {
                name: {"paper": kind.paper, "equation": kind.equation, "data": kind.data_kind,
                       "options": [f.name for f in dataclasses.fields(kind)], "trainable": kind.groups}
                for name, kind in NETWORKS.items()
            },
            "activations": {
                name: {"c_sigma": a.c_sigma, "lipschitz": a.lipschitz, "smoothness": a.smoothness,
                       "condition_3_1": a.condition_3_1, "condition_3_2": a.condition_3_2}
                for name, a in ACTIVATIONS.items()
            },
        })  # fmt: skip
        return
    console = Console(highlight=False)
    table = Table(title="Networks", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for column in ("name", "paper", "where", "data", "trained by the paper", "can be trained"):
        table.add_column(column, no_wrap=column == "name", overflow="fold")
    for name, kind in NETWORKS.items():
        trained = _trained_by_paper(kind)
        table.add_row(
            name,
            TITLES[kind.paper],
            kind.equation,
            kind.data_kind,
            ", ".join(trained),
            ", ".join(kind.groups),
        )
    console.print(table)
    table = Table(
        title="\nActivations (3.1, 3.2: the conditions of Du et al. 2019)", title_justify="left", box=None,
        padding=(0, 2, 0, 0),
    )  # fmt: skip
    for column in ("name", "c_sigma", "Lipschitz", "smoothness", "3.1", "3.2"):
        table.add_column(column)
    for name, a in ACTIVATIONS.items():
        table.add_row(
            name, f"{a.c_sigma:.6f}", f"{a.lipschitz:.5g}", "-" if a.smoothness is None else f"{a.smoothness:.5g}",
            _yes(a.condition_3_1), _yes(a.condition_3_2),
        )  # fmt: skip
    console.print(table)


def losses_command(json: Json = False) -> None:
    """List the losses with the constants of Zou et al. 2018, Assumptions 3.1-3.3 and 4.4."""
    from rich.console import Console
    from rich.table import Table

    from wideproof.training import LOSSES, MarginLoss, canonical, power_hinge

    margin = [loss for loss in LOSSES.values() if isinstance(loss, MarginLoss)]
    margin += [power_hinge(3.0), canonical(0.75)]
    constants = ("p", "alpha0", "alpha1", "smoothness", "rho0", "rho1", "at_zero")
    if json:
        print_json({
            loss.name: {key: _number(getattr(loss, key)) for key in constants}
            | {"formula": loss.formula, "meets": [a for a in ("3.1", "3.2", "3.3", "4.4") if loss.meets(a)]}
            for loss in margin
        } | {"squared": {"formula": LOSSES["squared"].formula, "smoothness": 1.0}})  # fmt: skip
        return
    table = Table(title="Losses of the margin z = y f(x)", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for column in ("name", "formula", "p", "α0", "α1", "λ", "ρ0", "ρ1", "l(0)", "3.1", "3.2", "3.3", "4.4"):
        table.add_column(column, no_wrap=column == "name", overflow="fold")
    for loss in margin:
        numbers = [_number(getattr(loss, key)) for key in constants]
        shown = [x if isinstance(x, str) else "-" if x is None else f"{x:.4g}" for x in numbers]
        table.add_row(loss.name, loss.formula, *shown, *(_yes(loss.meets(a)) for a in ("3.1", "3.2", "3.3", "4.4")))
    console = Console(highlight=False)
    console.print(table)
    console.print(
        "\npower_hinge(q) takes any q > 1 and canonical(p) any 0 < p <= 1."
        "\nsquared is (f - y)^2 / 2, as half_sum (Du, Allen-Zhu) or mean."
    )


def data_command(json: Json = False) -> None:
    """List the bundled data sets, the generators and the preparation steps."""
    from rich.console import Console

    from wideproof.data import BUNDLED, GENERATORS, PAPERS_NEED, STEPS, load

    bundled = {name: str(load(name)) for name in BUNDLED}
    if json:
        print_json({
            "bundled": bundled, "generators": list(GENERATORS), "steps": STEPS,
            "papers_need": {paper: list(steps) for paper, steps in PAPERS_NEED.items()},
        })  # fmt: skip
        return
    console = Console(highlight=False, soft_wrap=True)
    console.print("[bold]Bundled[/] (with scikit-learn)")
    for line in bundled.values():
        console.print(f"  {line}")
    console.print("[bold]Generators[/], written name:key=value,...")
    for name, make in GENERATORS.items():
        console.print(f"  {name:14} {(make.__doc__ or '').splitlines()[0].replace('`', '')}")
    console.print("[bold]Preparation steps[/], written as in whiten,unit")
    for name, what in STEPS.items():
        console.print(f"  {name:14} {what}")
    console.print("[bold]What the papers need[/]")
    for paper, steps in PAPERS_NEED.items():
        console.print(f"  {TITLES[paper]:22} {', '.join(steps)}")


def _trained_by_paper(kind: type[Network]) -> tuple[str, ...]:
    default = next(field.default for field in dataclasses.fields(kind) if field.name == "trained")
    assert isinstance(default, tuple)
    return default


def _yes(answer: bool) -> str:
    return "[green]yes[/]" if answer else "[red]no[/]"


def _number(value: float | None) -> float | str | None:
    return "inf" if value is not None and math.isinf(value) else value
