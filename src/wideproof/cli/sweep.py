"""`wideproof sweep`: many runs over a grid, resumable, on one machine or a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wideproof.cli.options import Json, print_json
from wideproof.cli.stopping import continuable
from wideproof.cli.watching import watching
from wideproof.errors import InputError

if TYPE_CHECKING:
    from wideproof.sweeps import Study

MANY = 10_000  # tasks; more must be asked for


def sweep_command(
    study: Annotated[
        str | None,
        typer.Argument(
            metavar="STUDY", help="A study file (.toml) or a bundled study (default: list those).", show_default=False
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the results (default: the study's name).")] = None,
    workers: Annotated[int, typer.Option(help="Processes on this machine.")] = 1,
    threads: Annotated[
        int | None, typer.Option(help="Tasks at the same time in one process (default: one per core).")
    ] = None,
    cluster: Annotated[str | None, typer.Option(help="A Dask scheduler, as in tcp://host:8786.")] = None,
    slurm: Annotated[
        bool,
        typer.Option("--slurm", help="Submit what is left as a SLURM job array; when all is done, gather the results."),
    ] = False,
    slurm_options: Annotated[
        str,
        typer.Option(help='Options for sbatch, as in "--partition=gpu --time=02:00:00 --mem=4G".', show_default=False),
    ] = "",
    slurm_dry_run: Annotated[
        bool, typer.Option("--slurm-dry-run", help="Print the job array's script, and submit nothing.")
    ] = False,
    chunk: Annotated[
        int | None, typer.Option(help="Tasks in one array task (default: 1, or more to stay within 1,000 array tasks).")
    ] = None,
    at_once: Annotated[int | None, typer.Option(help="Most array tasks that run at the same time.")] = None,
    part: Annotated[
        str | None, typer.Option(help="Run one part of the tasks, as in 3/10; the sweep without --part gathers them.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help=f"Run more than {MANY:,} tasks.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="List the bundled studies.")] = False,
    json: Json = False,
) -> None:
    """Run a study: every combination of its axes, each once. An interrupted sweep continues where it stopped.

    Exit code 0 if every task is done (or submitted), 1 if some failed, 2 if the study cannot be run or is under way.
    """
    from rich.console import Console

    from wideproof.report import save_sweep_page, sweep_summary, sweep_table, sweep_text
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

    def say() -> None:
        console.print(f"interrupted: run the same command to continue in {folder}", markup=False, soft_wrap=True)

    with continuable(say), watching(json) as progress:
        done = sweep(chosen, folder, workers=workers, threads=threads, cluster=cluster, progress=progress)
    page = save_sweep_page(done)
    if json:
        print_json(sweep_summary(done))
    else:
        if (table := sweep_table(done)) is not None:
            console.print(table)
        typer.echo(sweep_text(done, page))
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

    from wideproof.report import too_many
    from wideproof.sweeps import execute, first_task

    task = first_task(study)
    execute(task)  # compiles
    began = time.perf_counter()
    execute(task)
    raise InputError(too_many(study, time.perf_counter() - began))
