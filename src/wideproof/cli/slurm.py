"""`wideproof sweep --slurm` and `--part`: a sweep as a job array, and one of its tasks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from wideproof.cli.options import print_json
from wideproof.errors import InputError

if TYPE_CHECKING:
    from wideproof.sweeps import Study


def part_command(study: Study, folder: Path, part: str, threads: int | None, json: bool) -> None:
    """Carry out one part of a sweep, say what came of it, and end with its exit code."""
    from wideproof.report import part_summary, part_text
    from wideproof.sweeps import sweep_part

    found = re.fullmatch(r"(\d+)/(\d+)", part)
    if found is None:
        raise InputError(f"--part is one of several, as in 3/10, got {part!r}")
    done = sweep_part(study, folder, int(found[1]), int(found[2]), threads=threads)
    print_json(part_summary(done, part)) if json else typer.echo(part_text(done, part, study.name))
    raise typer.Exit(done.answer.exit_code)


def slurm_command(
    source: str, study: Study, folder: Path, options: str, chunk: int | None, at_once: int | None,
    threads: int | None, dry: bool, json: bool,
) -> None:  # fmt: skip
    """Print or submit the job array of what is left and end; return if nothing is left, so that it can be gathered."""
    from wideproof.sweeps import array_job, submit, under_way

    job = array_job(source, study, folder, chunk=chunk, at_once=at_once, options=options, threads=threads)
    if job.left == 0:
        if dry:
            raise InputError(f"all {job.total} tasks of {study.name} are done: there is nothing to submit")
        return
    if dry:
        typer.echo(job.script, nl=False)
        raise typer.Exit
    before = under_way(folder)
    if before is not None:
        raise InputError(
            f"job {before} is under way, {job.total - job.left} of {job.total} tasks are done: wait until it has "
            "ended, or cancel it with scancel"
        )
    number = submit(job, study, folder)
    if json:
        said = {"job": number, "array_tasks": job.array_tasks, "left": job.left, "tasks": job.total}
        print_json({"study": study.name, "folder": str(folder), **said})
    else:
        typer.echo(
            f"submitted job {number}: {job.left} of {job.total} tasks in {job.array_tasks} array tasks, logs in "
            f"{job.logs}; when it has ended, the same command gathers the results, or submits what is left"
        )
    raise typer.Exit
