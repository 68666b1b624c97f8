"""`wideproof networks`, `losses`, `data`: what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wideproof.cli.options import Json, print_json

if TYPE_CHECKING:
    from rich.console import RenderableType


def networks_command(json: Json = False) -> None:
    """List the networks and the activations."""
    from wideproof.report import networks_summary, networks_view

    print_json(networks_summary()) if json else _show(networks_view())


def losses_command(json: Json = False) -> None:
    """List the losses with their constants, and which assumptions of Zou et al. 2018 they meet."""
    from wideproof.report import losses_summary, losses_view

    print_json(losses_summary()) if json else _show(losses_view())


def data_command(json: Json = False) -> None:
    """List the bundled data sets, the generators and the preparation steps."""
    from wideproof.data import BUNDLED, load
    from wideproof.report import data_summary, data_view

    bundled = {name: str(load(name)) for name in BUNDLED}
    print_json(data_summary(bundled)) if json else _show(data_view(bundled))


def _show(view: RenderableType) -> None:
    from rich.console import Console

    Console(highlight=False).print(view)
