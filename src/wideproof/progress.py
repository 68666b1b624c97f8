"""How far a long job is: one value for all of them, and a bar where somebody looks."""

from __future__ import annotations

import contextlib
import functools
import html
import multiprocessing
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Progress:
    """The progress of a long job: functions with an argument `progress` call it with one of these.

    Without that argument they show a bar in notebooks, and on the terminal of a program; `unwatched` switches it off.

    Attributes
    ----------
    stage
        The current stage, in one word: `"training"`, `"choosing"`, `"certifying"`, …
    done
        How much of it is finished.
    total
        How much there is; `None` if that is not counted.
    text
        The progress in words.
    latest
        The newest result, if there is one: in training the loss, error and rate; in a sweep the task that ended.

    Examples
    --------
    >>> print(Progress("training", 128, 2048, "loss 0.02"))
    training, 128 of 2048: loss 0.02
    >>> print(Progress("certifying", text="certifying the initial weights"))
    certifying the initial weights
    """

    stage: str
    done: int = 0
    total: int | None = None
    text: str = ""
    latest: Any = None

    def __str__(self) -> str:
        if self.total is None:
            return self.text or self.stage
        return f"{self.stage}, {self.done} of {self.total}" + (f": {self.text}" if self.text else "")


Watch = Callable[[Progress], None]
_P = ParamSpec("_P")
_T = TypeVar("_T")
_SHOWN: ContextVar[bool] = ContextVar("shown", default=False)  # whether a job that began this one shows the way
PAUSE = 0.1  # seconds between two pictures of a bar in a notebook


def unwatched(now: Progress) -> None:
    """Take what a job tells, and do nothing with it: `progress=wp.unwatched` switches the bar off.

    Parameters
    ----------
    now
        How far the job is.

    Examples
    --------
    >>> unwatched(Progress("training", 128, 2048))
    """


def shown(job: Callable[_P, _T]) -> Callable[_P, _T]:
    """Give a long job a bar where somebody looks and no `progress` is given: in notebooks and on terminals.

    Jobs inside such a job are its own affair: they show nothing.
    """

    @functools.wraps(job)
    def watched(*args: _P.args, **options: _P.kwargs) -> _T:
        if _SHOWN.get():
            return job(*args, **options)
        mark = _SHOWN.set(True)
        try:
            with contextlib.nullcontext() if options.get("progress") is not None else looking() as watch:
                if watch is not None:
                    options["progress"] = watch
                return job(*args, **options)
        finally:
            _SHOWN.reset(mark)

    return watched


@contextlib.contextmanager
def by_others() -> Iterator[None]:
    """Show no bar by default: whoever runs the jobs inside says how far they are."""
    mark = _SHOWN.set(True)
    try:
        yield
    finally:
        _SHOWN.reset(mark)


@contextlib.contextmanager
def looking() -> Iterator[Watch | None]:
    """Yield what shows a job in this notebook or on this terminal while it runs; `None` where nobody looks."""
    first = threading.current_thread() is threading.main_thread() and multiprocessing.parent_process() is None
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if first and getattr(shell, "kernel", None) is not None:
        with in_notebook() as watch:
            yield watch
    elif first and sys.stderr is not None and sys.stderr.isatty():
        from rich.console import Console

        with on_terminal(Console(stderr=True), texts=True) as watch:
            yield watch
    else:
        yield None


@contextlib.contextmanager
def on_terminal(console: Console, *, texts: bool) -> Iterator[Watch]:
    """Yield what shows a bar for what is counted, and with `texts` a line for the rest; it goes when the job ends."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(bar_width=24), MofNCompleteColumn(), TextColumn("{task.description}", markup=False),
               TimeRemainingColumn())  # fmt: skip
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        stage, task = "", None

        def update(now: Progress) -> None:
            nonlocal stage, task
            if now.total is None and not texts:
                return
            if task is None or stage != now.stage:
                if task is not None:
                    bar.remove_task(task)
                stage, task = now.stage, bar.add_task(now.text, total=now.total)
            total = None if now.total is None else max(now.total, 1)
            bar.update(task, completed=now.done, total=total, description=now.text)

        yield update


@contextlib.contextmanager
def in_notebook() -> Iterator[Watch]:
    """Yield what shows a bar below the cell; it goes when the job ends."""
    from IPython.display import HTML, display

    handle: Any = None
    last = ("", 0.0)

    def update(now: Progress) -> None:
        nonlocal handle, last
        moment = time.monotonic()
        if now.stage == last[0] and moment - last[1] < PAUSE:
            return
        last = (now.stage, moment)
        if handle is None:
            handle = display(HTML(as_html(now)), display_id=True)
        else:
            handle.update(HTML(as_html(now)))

    try:
        yield update
    finally:
        if handle is not None:
            handle.update(HTML(""))


def as_html(now: Progress) -> str:
    """Return how far a job is as a bar and a line.

    >>> as_html(Progress("training", 3, 7, "loss < 1"))
    '<div><progress value="3" max="7"></progress> 3/7 loss &lt; 1</div>'
    """
    text = html.escape(now.text or now.stage)
    if now.total is None:
        return f"<div><progress></progress> {text}</div>"
    return (
        f'<div><progress value="{now.done}" max="{max(now.total, 1)}"></progress> {now.done}/{now.total} {text}</div>'
    )
