"""`wideproof networks`, `losses`, `data`: what there is."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from wideproof.cli.options import Json, print_json
from wideproof.titles import PAPERS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.table import Table

    from wideproof.networks import Network

_ASSUMPTIONS = ("3.1", "3.2", "3.3", "4.4")


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
    console.print("[bold]Networks[/]")
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("name", "paper", "where", "data", "trained by the paper", "can be trained"):
        table.add_column(column, no_wrap=column == "name", overflow="fold")
    for name, kind in NETWORKS.items():
        trained = _trained_by_paper(kind)
        table.add_row(
            name,
            PAPERS[kind.paper],
            kind.equation,
            kind.data_kind,
            ", ".join(trained),
            ", ".join(kind.groups),
        )
    console.print(table)
    console.print("\n[bold]Activations[/] (3.1, 3.2: the conditions of Du et al. 2019)")
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("name", "c_sigma", "Lipschitz", "smoothness", "3.1", "3.2"):
        table.add_column(column)
    for name, a in ACTIVATIONS.items():
        table.add_row(
            name, f"{a.c_sigma:.6f}", f"{a.lipschitz:.5g}", "-" if a.smoothness is None else f"{a.smoothness:.5g}",
            _yes(a.condition_3_1), _yes(a.condition_3_2),
        )  # fmt: skip
    console.print(table)


def losses_command(json: Json = False) -> None:
    """List the losses, and which constants and assumptions of Zou et al. 2018 they meet."""
    from rich.console import Console
    from rich.table import Table

    from wideproof.training import LOSSES, MarginLoss, canonical, power_hinge

    margin = [loss for loss in LOSSES.values() if isinstance(loss, MarginLoss)]
    margin += [power_hinge(3.0), canonical(0.75)]
    constants = ("p", "alpha0", "alpha1", "smoothness", "rho0", "rho1", "at_zero")
    if json:
        print_json({
            loss.name: {key: _number(getattr(loss, key)) for key in constants}
            | {"formula": loss.formula, "meets": [one for one in _ASSUMPTIONS if loss.meets(one)]}
            for loss in margin
        } | {"squared": {"formula": LOSSES["squared"].formula, "smoothness": 1.0}})  # fmt: skip
        return
    console = Console(highlight=False)
    console.print("[bold]Losses[/] of the margin z = y f(x)")
    console.print(_pairs((loss.name, loss.formula) for loss in margin))
    console.print(
        "\n[bold]Their constants[/], and whether they meet Assumptions 3.1, 3.2, 3.3 and 4.4 of Zou et al. 2018"
    )
    table = Table(box=None, padding=(0, 1, 0, 0))
    for column in ("name", "p", "α0", "α1", "λ", "ρ0", "ρ1", "l(0)", *_ASSUMPTIONS):
        table.add_column(column, no_wrap=True)
    for loss in margin:
        numbers = [_number(getattr(loss, key)) for key in constants]
        shown = [x if isinstance(x, str) else "-" if x is None else f"{x:.3g}" for x in numbers]
        table.add_row(loss.name, *shown, *(_yes(loss.meets(one)) for one in _ASSUMPTIONS))
    console.print(table)
    console.print(
        "\npower_hinge(q) takes any q > 1, and canonical(p) any 0 < p <= 1."
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
    console = Console(highlight=False)
    for title, pairs in (
        ("[bold]Bundled[/] (with scikit-learn)", ((name, text.partition(": ")[2]) for name, text in bundled.items())),
        ("[bold]Generators[/], as in sphere:n=50,d=10,separation=0.3", (
            (name, (make.__doc__ or "").splitlines()[0].replace("`", "")) for name, make in GENERATORS.items())),
        ("[bold]Preparation steps[/], as in whiten,unit", STEPS.items()),
        ("[bold]What the papers need[/]", ((PAPERS[paper], ", ".join(steps)) for paper, steps in PAPERS_NEED.items())),
    ):  # fmt: skip
        console.print(title)
        console.print(_pairs(pairs))


def _pairs(rows: Iterable[tuple[str, str]]) -> Table:
    """Return names with what they are, wrapped beside them."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 2), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for name, text in rows:
        table.add_row(escape(name), escape(text))
    return table


def _trained_by_paper(kind: type[Network]) -> tuple[str, ...]:
    default = next(field.default for field in dataclasses.fields(kind) if field.name == "trained")
    assert isinstance(default, tuple)
    return default


def _yes(answer: bool) -> str:
    return "[green]yes[/]" if answer else "[red]no[/]"


def _number(value: float | None) -> float | str | None:
    return "inf" if value is not None and math.isinf(value) else value
