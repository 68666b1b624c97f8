"""What people see while a command works: a bar where something is counted, a line where something else begins."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from wideproof.progress import Progress, Watch


@contextlib.contextmanager
def watching(
    quiet: bool,
    *,
    lines: bool = False,
    console: Console | None = None,
    above: Callable[[Progress], None] | None = None,
) -> Iterator[Watch | None]:
    """Yield what a job's `progress` takes: on stderr a bar for what is counted, if there is a terminal.

    Parameters
    ----------
    quiet
        Yield `None`: nobody is told anything.
    lines
        Print what is not counted as lines, into logs, too.
    console
        Where the bar is, if not on stderr.
    above
        Is called with everything, and may print above the bar.
    """
    if quiet:
        yield None
        return
    import typer
    from rich import console as rich
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    where = console or rich.Console(stderr=True)
    columns = (BarColumn(bar_width=24), MofNCompleteColumn(), TextColumn("{task.description}", markup=False),
               TimeRemainingColumn())  # fmt: skip
    with Bar(*columns, console=where, transient=True, disable=not where.is_terminal) as bar:
        stage, task = "", None

        def update(now: Progress) -> None:
            nonlocal stage, task
            if above is not None:
                above(now)
            if now.total is None:
                if lines:
                    typer.echo(now.text, err=True)
                return
            if task is None or stage != now.stage:
                if task is not None:
                    bar.remove_task(task)
                stage, task = now.stage, bar.add_task(now.text, total=now.total)
            bar.update(task, completed=now.done, total=max(now.total, 1), description=now.text)

        yield update
