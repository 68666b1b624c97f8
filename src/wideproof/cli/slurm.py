"""`--slurm` and `--part`: a sweep, or the proofs of many starts, as a job array, and one of its tasks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from wideproof.cli.options import print_json
from wideproof.errors import InputError

if TYPE_CHECKING:
    from wideproof.sweeps import Job, Study


def part_command(study: Study, folder: Path, part: str, threads: int | None, json: bool) -> None:
    """Carry out one part of a sweep, say what came of it, and end with its exit code."""
    from wideproof.report import part_summary, part_text
    from wideproof.sweeps import sweep_part

    done = sweep_part(study, folder, *_numbers(part), threads=threads)
    print_json(part_summary(done, part)) if json else typer.echo(part_text(done, part, study.name))
    raise typer.Exit(done.answer.exit_code)


def slurm_command(
    source: str, study: Study, folder: Path, options: str, chunk: int | None, at_once: int | None,
    threads: int | None, dry: bool, json: bool,
) -> None:  # fmt: skip
    """Print or submit the job array of what is left and end; return if nothing is left, so that it can be gathered."""
    from wideproof.sweeps import array_job, submit

    job = array_job(source, study, folder, chunk=chunk, at_once=at_once, options=options, threads=threads)
    if job.left == 0:
        if dry:
            raise InputError(f"all {job.total} tasks of {study.name} are done: there is nothing to submit")
        return
    if dry:
        typer.echo(job.script, nl=False)
        raise typer.Exit
    _require_none_under_way(folder, job.total - job.left, job.total, "tasks")
    number = submit(job, folder, study)
    if json:
        said = {"job": number, "array_tasks": job.array_tasks, "left": job.left, "tasks": job.total}
        print_json({"study": study.name, "folder": str(folder), **said})
    else:
        typer.echo(_submitted(number, job, "tasks"))
    raise typer.Exit


def start_command(folder: Path | None, part: str, json: bool) -> NoReturn:
    """Prove one of the starts of a folder, say what came of it, and end with its exit code."""
    import dataclasses

    from wideproof.answers import Answer
    from wideproof.proving import prove_part

    if folder is None:
        raise InputError("--part proves one of the starts of a folder that --slurm began: give it by --out")
    found = prove_part(folder, *_numbers(part))
    said = f"start {found.seed}: {found.why or 'proved'}, {found.seconds:.1f} s"
    print_json(dataclasses.asdict(found)) if json else typer.echo(said)
    raise typer.Exit((Answer.HOLDS if found.proved else Answer.UNDECIDED).exit_code)


def starts_command(folder: Path | None, asked: dict[str, Any], source: str, options: str, json: bool) -> None:
    """Prove the pilot, submit the starts that are left as a job array and end; return if nothing is left."""
    from wideproof.proving import begin_starts, unfinished
    from wideproof.sweeps import command_array, submit

    if folder is None or asked["seeds"] is None:
        raise InputError("--slurm submits the starts of --seeds into the folder of --out: give both")
    if (folder / "starts.json").exists():
        left, count = unfinished(folder)
        _require_none_under_way(folder, count - len(left), count, "starts")
    _, about = begin_starts(source, **{"target": None, **asked})
    left, count = unfinished(folder)
    if not left:
        return
    command = ["prove", "--out", str(folder.absolute())]
    job = command_array(re.sub(r"\W+", "-", about["name"]), folder, command, left, count, options)
    number = submit(job, folder)
    if json:
        print_json({"folder": str(folder), "job": number, "left": job.left, "starts": count})
    else:
        typer.echo(_submitted(number, job, "starts"))
    raise typer.Exit


def _numbers(part: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)/(\d+)", part)
    if found is None:
        raise InputError(f"--part is one of several, as in 3/10, got {part!r}")
    return int(found[1]), int(found[2])


def _require_none_under_way(folder: Path, done: int, total: int, what: str) -> None:
    from wideproof.sweeps import under_way

    before = under_way(folder)
    if before is not None:
        raise InputError(
            f"job {before} is under way, {done} of {total} {what} are done: wait until it has ended, or cancel it "
            "with scancel"
        )


def _submitted(number: str, job: Job, what: str) -> str:
    return (
        f"submitted job {number}: {job.left} of {job.total} {what} in {job.array_tasks} array tasks, logs in "
        f"{job.logs}; when it has ended, the same command gathers the results, or submits what is left"
    )
