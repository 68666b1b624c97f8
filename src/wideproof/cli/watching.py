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
    from rich.console import Console

    from wideproof.progress import on_terminal

    with on_terminal(console or Console(stderr=True), texts=False) as show:

        def update(now: Progress) -> None:
            if above is not None:
                above(now)
            if now.total is not None:
                show(now)
            elif lines:
                typer.echo(now.text, err=True)

        yield update
