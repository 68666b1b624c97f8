"""`wideproof sweep`: many runs over a grid, resumable, on one machine or a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wideproof.cli.options import Json, print_json
from wideproof.cli.watching import watching
from wideproof.errors import InputError

if TYPE_CHECKING:
    from wideproof.sweeps import Exponent, Figure, Study, Sweep

MANY = 10_000  # tasks; more must be asked for


def sweep_command(
    study: Annotated[
        str | None, typer.Argument(help="A study file (.toml) or a bundled study.", show_default=False)
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the results (default: the study's name).")] = None,
    workers: Annotated[int, typer.Option(help="Processes on this machine.")] = 1,
    threads: Annotated[int | None, typer.Option(help="Tasks side by side in one process (default: the cores).")] = None,
    cluster: Annotated[str | None, typer.Option(help="A Dask scheduler, as in tcp://host:8786.")] = None,
    slurm: Annotated[
        bool, typer.Option("--slurm", help="Submit what is left as a SLURM job array; when all is done, gather it.")
    ] = False,
    slurm_options: Annotated[
        str, typer.Option(help='Of sbatch, as in "--partition=gpu --time=02:00:00 --mem=4G".', show_default=False)
    ] = "",
    slurm_dry_run: Annotated[
        bool, typer.Option("--slurm-dry-run", help="Print the script of the job array, and submit nothing.")
    ] = False,
    chunk: Annotated[
        int | None, typer.Option(help="Tasks in one array task (default: 1, more where there were over 1,000).")
    ] = None,
    at_once: Annotated[int | None, typer.Option(help="Array tasks that may run at the same time.")] = None,
    part: Annotated[
        str | None, typer.Option(help="Only one part of the tasks, as in 3/10; the sweep without it gathers the parts.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help=f"Run more than {MANY:,} tasks.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="List the bundled studies.")] = False,
    json: Json = False,
) -> None:
    """Run a study: every combination of its axes, each once; an interrupted sweep continues where it was.

    Exit code 0 if every task is done (or submitted), 1 if some failed, 2 if the study cannot be run or is under way.
    """
    from rich.console import Console

    from wideproof.report import save_sweep_page
    from wideproof.sweeps import bundled, read_study, sweep

    console = Console(highlight=False)
    if listing or study is None:
        _list(bundled(), json)
        return
    for name, given in (("--workers", workers), ("--threads", threads)):
        if given is not None and given < 1:
            raise InputError(f"{name} must be a number >= 1, got {given}")
    _require_one_way(slurm, slurm_options, slurm_dry_run, chunk, at_once, part, workers, cluster)
    chosen = read_study(study)
    folder = out or Path(chosen.name)
    if part is not None:
        from wideproof.cli.slurm import part_command

        part_command(chosen, folder, part, threads, json)
    if chosen.count > MANY and not yes:
        _refuse(chosen)
    if slurm or slurm_dry_run:
        from wideproof.cli.slurm import slurm_command

        slurm_command(study, chosen, folder, slurm_options, chunk, at_once, threads, slurm_dry_run, json)
    with watching(json) as progress:
        try:
            done = sweep(chosen, folder, workers=workers, threads=threads, cluster=cluster, progress=progress)
        except KeyboardInterrupt:
            console.print(f"interrupted: the same command goes on in {folder}", markup=False, soft_wrap=True)
            raise typer.Exit(2) from None
    page = save_sweep_page(done)
    if json:
        print_json(_plain(done))
    else:
        _show(console, done, page)
    raise typer.Exit(done.answer.exit_code)


def _require_one_way(
    slurm: bool, options: str, dry: bool, chunk: int | None, at_once: int | None, part: str | None,
    workers: int, cluster: str | None,
) -> None:  # fmt: skip
    """Refuse two ways to run a sweep at once, and options of a way that was not taken."""
    ways = {"--slurm": slurm or dry, "--part": part is not None, "--workers": workers > 1, "--cluster": cluster}
    taken = [name for name, asked in ways.items() if asked]
    if len(taken) > 1:
        raise InputError(f"{' and '.join(taken)} are different ways to run a sweep: give one")
    given = {"--slurm-options": options, "--chunk": chunk, "--at-once": at_once}
    if not (slurm or dry) and (idle := [name for name, value in given.items() if value]):
        raise InputError(f"{' and '.join(idle)} say how a job array is made: give --slurm too")


def _list(studies: dict[str, str], json: bool) -> None:
    from rich.console import Console

    if json:
        print_json(studies)
        return
    for name, title in studies.items():
        Console(highlight=False).print(f"{name:16} {title}", markup=False)


def _refuse(study: Study) -> None:
    """Say how many tasks there are and how long they would take, from one that is timed."""
    import time

    from wideproof.sweeps import execute, first_task

    task = first_task(study)
    execute(task)  # compiles
    began = time.perf_counter()
    execute(task)
    seconds = (time.perf_counter() - began) * study.count
    raise InputError(
        f"{study.name} has {study.count:,} tasks; the first takes {seconds / study.count:.2g} s, so all would take "
        f"about {_duration(seconds)} one after another: give --yes to run them, or shorten the axes"
    )


def _duration(seconds: float) -> str:
    """Return a length of time in its natural unit.

    >>> _duration(7200)
    '2 hours'
    """
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} seconds"


def _exponents(done: Sweep) -> list[tuple[Figure, Exponent]]:
    """Return every exponent that the study's figures ask for."""
    from wideproof.sweeps import fitted

    return [(wanted, one) for wanted in done.study.figures for one in fitted(done.results, wanted)]


def _quantity(wanted: Figure) -> str:
    return f"{wanted.y} needed" if wanted.kind == "threshold" else wanted.quantity


def _plain(done: Sweep) -> dict[str, Any]:
    exponents = [
        {
            "quantity": _quantity(wanted), "axis": wanted.x, "where": one.where,
            "kind": "factor" if wanted.kind == "factor" else "exponent", "value": one.value,
            "interval": [one.low, one.high] if one.interval else None, "predicted": wanted.printed_at(one.where),
            "left_out": list(one.left_out),
        }
        for wanted, one in _exponents(done)
    ]  # fmt: skip
    return {
        "study": done.study.name, "folder": str(done.folder), "tasks": done.study.count, "kept": done.kept,
        "done": done.done, "failed": [one.error for one in done.failed], "seconds": done.seconds,
        "exponents": exponents,
    }  # fmt: skip


def _show(console: Any, done: Sweep, page: Path) -> None:
    from rich.table import Table

    rows = []
    for wanted, one in _exponents(done):
        predicted = wanted.printed_at(one.where)
        rows.append({
            "quantity": _quantity(wanted), "against": wanted.x, "where": one.label,
            "exponent": f"{one.value:.2f}" + (" per unit" if wanted.kind == "factor" else ""),
            "95 % interval": one.interval, "predicted": "" if predicted is None else f"{predicted:g}",
            "left out": ", ".join(f"{value:g}" for value in one.left_out),
        })  # fmt: skip
    if rows:
        table = Table(box=None, padding=(0, 2, 0, 0))
        columns = [name for name in rows[0] if any(row[name] for row in rows)]
        for name in columns:
            table.add_column(name, overflow="fold")
        for row in rows:
            table.add_row(*(row[name] for name in columns))
        console.print(table)
    for outcome in done.failed[:5]:
        chosen = ", ".join(f"{k} {v}" for k, v in outcome.task.chosen)
        console.print(f"failed at {chosen}: {outcome.error}", markup=False, soft_wrap=True)
    console.print(
        f"\n{done.done} tasks done, {done.kept} kept from before, {len(done.failed)} failed, {done.seconds:.1f} s; "
        f"results in {done.folder}, report in {page}",
        markup=False,
        soft_wrap=True,
    )
