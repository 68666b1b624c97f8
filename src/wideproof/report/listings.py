"""What `wideproof networks`, `losses` and `data` print: tables for people, dictionaries for programs."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from wideproof.titles import PAPERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rich.console import Group
    from rich.table import Table

    from wideproof.networks import Network
    from wideproof.training import MarginLoss

_ASSUMPTIONS = ("3.1", "3.2", "3.3", "4.4")
_CONSTANTS = ("p", "alpha0", "alpha1", "smoothness", "rho0", "rho1", "at_zero")


def networks_summary() -> dict[str, Any]:
    """Return all networks and activations as plain values.

    Returns
    -------
    dict[str, Any]
        Networks and activations, with their options and constants.
    """
    from wideproof.networks import ACTIVATIONS, NETWORKS

    return {
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
    }  # fmt: skip


def networks_view() -> Group:
    """Return all networks and activations as tables for a terminal.

    Returns
    -------
    Group
        The tables.
    """
    from rich.console import Group
    from rich.table import Table

    from wideproof.networks import ACTIVATIONS, NETWORKS

    kinds = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("name", "paper", "where", "data", "trained by the paper", "can be trained"):
        kinds.add_column(column, no_wrap=column == "name", overflow="fold")
    for name, kind in NETWORKS.items():
        parts = (", ".join(_trained_by_paper(kind)), ", ".join(kind.groups))
        kinds.add_row(name, PAPERS[kind.paper], kind.equation, kind.data_kind, *parts)
    activations = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("name", "c_sigma", "Lipschitz", "smoothness", "3.1", "3.2"):
        activations.add_column(column)
    for name, a in ACTIVATIONS.items():
        smoothness = "-" if a.smoothness is None else f"{a.smoothness:.5g}"
        numbers = (f"{a.c_sigma:.6f}", f"{a.lipschitz:.5g}", smoothness)
        activations.add_row(name, *numbers, _yes(a.condition_3_1), _yes(a.condition_3_2))
    title = "\n[bold]Activations[/] (3.1, 3.2: the conditions of Du et al. 2019)"
    return Group("[bold]Networks[/]", kinds, title, activations)


def losses_summary() -> dict[str, Any]:
    """Return all losses, their constants and the assumptions that they meet as plain values.

    Returns
    -------
    dict[str, Any]
        One entry for each loss.
    """
    from wideproof.training import LOSSES

    margin = {
        loss.name: {key: _number(getattr(loss, key)) for key in _CONSTANTS}
        | {"formula": loss.formula, "meets": [one for one in _ASSUMPTIONS if loss.meets(one)]}
        for loss in _margin_losses()
    }
    others = {name: loss for name, loss in LOSSES.items() if name not in margin}
    return margin | {name: {"formula": loss.formula, "smoothness": loss.smoothness} for name, loss in others.items()}


def losses_view() -> Group:
    """Return all losses, their constants and the assumptions that they meet as tables for a terminal.

    Returns
    -------
    Group
        The tables.
    """
    from rich.console import Group
    from rich.table import Table

    margin = _margin_losses()
    table = Table(box=None, padding=(0, 1, 0, 0))
    for column in ("name", "p", "α0", "α1", "λ", "ρ0", "ρ1", "l(0)", *_ASSUMPTIONS):
        table.add_column(column, no_wrap=True)
    for loss in margin:
        numbers = [_number(getattr(loss, key)) for key in _CONSTANTS]
        shown = [x if isinstance(x, str) else "-" if x is None else f"{x:.3g}" for x in numbers]
        table.add_row(loss.name, *shown, *(_yes(loss.meets(one)) for one in _ASSUMPTIONS))
    return Group(
        "[bold]Losses[/] of the margin z = y f(x)",
        _pairs((loss.name, loss.formula) for loss in margin),
        "\n[bold]Their constants[/], and whether they meet Assumptions 3.1, 3.2, 3.3 and 4.4 of Zou et al. 2018",
        table,
        "\npower_hinge(q) takes any q > 1, and canonical(p) any 0 < p <= 1."
        "\nsquared is (f - y)^2 / 2, as half_sum (Du, Allen-Zhu) or mean; cross_entropy is the softmax's, over all "
        "classes (logistic: one class against the rest).",
    )


def data_summary(bundled: Mapping[str, str]) -> dict[str, Any]:
    """Return the bundled data sets, the generators and the preparation steps as plain values.

    Parameters
    ----------
    bundled
        The bundled data sets: names and descriptions.

    Returns
    -------
    dict[str, Any]
        Names and descriptions.
    """
    from wideproof.data import GENERATORS, PAPERS_NEED, STEPS

    need = {paper: list(steps) for paper, steps in PAPERS_NEED.items()}
    return {"bundled": dict(bundled), "generators": list(GENERATORS), "steps": STEPS, "papers_need": need}


def data_view(bundled: Mapping[str, str]) -> Group:
    """Return tables of the bundled data sets, the generators and the preparation steps for a terminal.

    Parameters
    ----------
    bundled
        The bundled data sets: names and descriptions.

    Returns
    -------
    Group
        The tables.
    """
    from rich.console import Group

    from wideproof.data import GENERATORS, PAPERS_NEED, STEPS

    return Group(
        "[bold]Bundled[/] (with scikit-learn)",
        _pairs((name, text.partition(": ")[2]) for name, text in bundled.items()),
        "[bold]Generators[/], as in sphere:n=50,d=10,separation=0.3",
        _pairs((name, (make.__doc__ or "").splitlines()[0].replace("`", "")) for name, make in GENERATORS.items()),
        "[bold]Preparation steps[/], as in whiten,unit",
        _pairs(STEPS.items()),
        "[bold]What the papers need[/]",
        _pairs((PAPERS[paper], ", ".join(steps)) for paper, steps in PAPERS_NEED.items()),
    )


def _margin_losses() -> list[MarginLoss]:
    from wideproof.training import LOSSES, MarginLoss, canonical, power_hinge

    return [loss for loss in LOSSES.values() if isinstance(loss, MarginLoss)] + [power_hinge(3.0), canonical(0.75)]


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
