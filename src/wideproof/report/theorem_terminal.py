"""What `wideproof theorem` prints: a row a theorem, then the inequalities and the constants behind one width."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wideproof.titles import PAPERS

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from wideproof.theorems import Answer, Asks

MOST_CONSTANTS = 12


def theorem_view(found: Answer, *, details: str | None = None) -> Group:
    """Return the requirements of the theorems as tables for a terminal.

    Parameters
    ----------
    found
        The result of `wp.theorem`.
    details
        The theorem to show in detail, with every inequality and constant, such as `Theorem 5.1`.

    Returns
    -------
    Group
        The tables.
    """
    from rich.console import Group
    from rich.text import Text

    title = f"{found.name}: {found.n} examples, depth {found.depth}, ε = {found.epsilon:g}, failure {found.failure:g}"
    if details is not None:
        return Group(Text(title), Text(), *_details(found[details]))
    said = [Text(line) for line in _said(found)]
    return Group(Text(title), Text(), _table(found), Text(), *said)


def power(exponent: float | None) -> str:
    """Return a power of ten; small ones as numbers.

    >>> power(41.42), power(2.0), power(-0.5), power(None)
    ('10^41.4', '100', '0.32', '')
    """
    if exponent is None:
        return ""
    return f"{float(f'{10**exponent:.2g}'):g}" if -1 <= exponent <= 3 else f"10^{exponent:.1f}"


def _table(found: Answer) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("theorem", "network", "width", "step size", "iterations", "constants", "what costs most"):
        table.add_column(column, overflow="fold")
    for asks in found:
        name = f"{PAPERS[asks.paper]}, {asks.theorem}"
        network = f"{asks.network}, {asks.method}"
        if asks.log10_width is None:
            table.add_row(name, network, "none", "", "", "", escape(asks.unmet))
            continue
        cost = asks.costliest
        costs = (
            "" if cost is None else f"{cost.name} = {cost.value:.3g} (10^{cost.cost:.1f}), {cost.place.split(';')[0]}"
        )
        sizes = [power(number) for number in (asks.log10_width, asks.log10_step, asks.log10_iterations)]
        table.add_row(name, network, *sizes, standing(asks), escape(costs))
    if found.trained:
        table.add_row(
            "trains", "", "none" if found.trains is None else f"{found.trains}", "", "", "", escape(found.trained)
        )
        table.add_row(
            "proved", "", "none" if found.proves is None else f"{found.proves}", "", "", "", escape(found.proved)
        )
    return table


def standing(asks: Asks) -> str:
    """Return how the constants of a width were come by, in a word or two."""
    hows = {constant.how for constant in asks.constants}
    if "taken as 1" in hows:
        return "taken as 1"
    return "some as printed" if "printed" in hows else "traced"


def _said(found: Answer) -> list[str]:
    lines = [
        "traced: every constant follows from the proof; some as printed: steps with a gap give what they print;",
        "taken as 1: the text gives no values, and the width is what its powers alone ask for.",
    ]
    for asks in found:
        about = "; ".join((*asks.prepared, *asks.notes))
        if about and asks.log10_width is not None:
            lines.append(f"{asks.theorem}: {about}.")
    return lines


def _details(asks: Asks) -> list[Table | Text]:
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    if asks.log10_width is None:
        return [Text(str(asks))]
    needs = Table(box=None, padding=(0, 2, 0, 0), title="What the proof needs", title_justify="left")
    for column in ("where", "inequality", "width"):
        needs.add_column(column, overflow="fold")
    for one in asks.requirements:
        needs.add_row(escape(one.lemma), escape(one.says), power(one.log10_width))
    constants = Table(box=None, padding=(0, 2, 0, 0), title="Its numbers", title_justify="left")
    for column in ("name", "value", "powers of ten", "by", "where"):
        constants.add_column(column, overflow="fold")
    for one in asks.constants:
        constants.add_row(escape(one.name), f"{one.value:.4g}", f"{one.cost:.1f}", one.how, escape(one.place))
    notes = [Text(f"{note}.") for note in (*asks.prepared, *asks.notes)]
    return [Text(str(asks)), Text(), needs, Text(), constants, Text(), *notes]
