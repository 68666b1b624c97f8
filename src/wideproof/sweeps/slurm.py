"""A sweep, or many proofs, as one SLURM job array: the tasks are files already, so nothing outlives the submission.

Every array task of a sweep is `wideproof sweep STUDY --part K/N`. It skips what is finished and writes each result
whole, so it may be requeued, repeated or killed at any time.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wideproof.errors import InputError
from wideproof.storage import read_json, write_bytes, write_json
from wideproof.sweeps.store import ABOUT, Store
from wideproof.sweeps.study import Study, bundled, require_parts
from wideproof.sweeps.sweep import part_of
from wideproof.sweeps.task import tasks_of

FOLDER, SCRIPT, JOB = "slurm", "job.sh", "job.json"
MOST = 1000  # array tasks; SLURM's own limit is 1001 unless a site raised it
# Options that the script sets itself, and what to say instead.
OWN = {
    "array": "the array follows from the study: use --chunk and --at-once",
    "a": "the array follows from the study: use --chunk and --at-once",
    "wrap": "the command follows from the study: leave --wrap out",
    "parsable": "the number of the job is read anyway: leave --parsable out",
}


@dataclass(frozen=True)
class Job:
    """A job array.

    Attributes
    ----------
    script
        The script for sbatch.
    left
        Number of tasks that are not done.
    total
        Number of all tasks.
    array_tasks
        Number of tasks of the array.
    logs
        The folder of the logs.
    """

    script: str
    left: int
    total: int
    array_tasks: int
    logs: Path


def array_job(
    source: str | Path,
    study: Study,
    folder: str | Path,
    *,
    chunk: int | None = None,
    at_once: int | None = None,
    options: str = "",
    threads: int | None = None,
) -> Job:
    """Return a SLURM job array for the unfinished tasks of a study.

    Parameters
    ----------
    source
        The study file, or the name of a bundled study; array tasks read it again.
    study
        The same study, read.
    folder
        The folder of the sweep, which need not exist yet.
    chunk
        Number of tasks of the study in one array task; by default 1, or more if there would be more than 1,000 array
        tasks.
    at_once
        Maximum number of array tasks that run at the same time.
    options
        Options of sbatch, as on its command line: `"--partition=gpu --time=02:00:00"`.
    threads
        Number of tasks that one array task runs in parallel; by default as many as SLURM gives it cores.

    Returns
    -------
    Job
        The script, and what it covers.

    Examples
    --------
    >>> from wideproof.sweeps import read_study
    >>> job = array_job("rnn-length", read_study("rnn-length"), "out", chunk=5, options="--time=10")
    >>> [line for line in job.script.splitlines() if "array" in line or "time" in line]
    ['#SBATCH --array=1-4', '#SBATCH --time=10']
    """
    require_parts(study)
    if chunk is not None and chunk < 1:
        raise InputError(f"--chunk is a number of tasks >= 1, got {chunk}")
    if at_once is not None and at_once < 1:
        raise InputError(f"--at-once is a number of array tasks >= 1, got {at_once}")
    lines = _lines(options)
    place = Path(folder).absolute()
    tasks = tasks_of(study)
    finished = Store(place, study, shared=True).finished(tasks) if (place / ABOUT).exists() else {}
    parts = -(-len(tasks) // (chunk or -(-len(tasks) // MOST)))
    wanted = [k for k in range(1, parts + 1)
              if any(task.digest not in finished for task in part_of(tasks, k, parts))]  # fmt: skip
    given = str(source) if str(source) in bundled() else str(Path(source).absolute())
    command = [sys.executable, "-m", "wideproof", "sweep", given, "--out", str(place)]
    command += [] if threads is None else ["--threads", str(threads)]
    return _array(
        study.name, place, command, wanted, parts, lines, at_once, left=len(tasks) - len(finished), total=len(tasks),
        logs=Path(folder) / FOLDER,
    )  # fmt: skip


def command_array(
    name: str, folder: str | Path, command: Sequence[str], wanted: Sequence[int], parts: int, options: str = ""
) -> Job:
    """Return a SLURM job array that runs one command of this program for several of its parts.

    Parameters
    ----------
    name
        The name of the job.
    folder
        The folder in which the script and the logs go.
    command
        The command with its arguments; it is run as `wideproof COMMAND --part K/N`.
    wanted
        The numbers K of the parts that are left.
    parts
        The number N of all parts.
    options
        Options of sbatch, as on its command line.

    Returns
    -------
    Job
        The script, and what it covers.

    Examples
    --------
    >>> job = command_array("wine", "out", ["prove", "--out", "out"], [1, 2, 4], 4, "--time=10")
    >>> [line for line in job.script.splitlines() if "array" in line or "time" in line]
    ['#SBATCH --array=1-2,4', '#SBATCH --time=10']
    """
    if parts > MOST:
        raise InputError(f"a job array has at most {MOST:,} tasks here, got {parts:,}")
    program = [sys.executable, "-m", "wideproof", *command]
    return _array(
        name, Path(folder).absolute(), program, wanted, parts, _lines(options), None, left=len(wanted), total=parts,
        logs=Path(folder) / FOLDER,
    )  # fmt: skip


def _array(
    name: str, place: Path, command: Sequence[str], wanted: Sequence[int], parts: int, lines: Sequence[str],
    at_once: int | None, *, left: int, total: int, logs: Path,
) -> Job:  # fmt: skip
    throttle = "" if at_once is None else f"%{at_once}"
    script = "\n".join([
        "#!/bin/bash",
        f"#SBATCH --job-name=wideproof-{name}",
        f"#SBATCH --array={_ranges(wanted)}{throttle}",
        "#SBATCH --requeue",
        "#SBATCH --open-mode=append",
        f'#SBATCH --output="{str(place / FOLDER).replace("%", "%%")}/%A_%a.log"',
        *(f"#SBATCH {line}" for line in lines),
        f"cd {shlex.quote(str(Path.cwd()))} || exit",
        f'exec {shlex.join(command)} --part "$SLURM_ARRAY_TASK_ID/{parts}"',
        "",
    ])  # fmt: skip
    return Job(script, left, total, len(wanted), logs)


def submit(job: Job, folder: str | Path, study: Study | None = None) -> str:
    """Write the script of a job array into a folder and submit it with sbatch.

    Parameters
    ----------
    job
        The result of `array_job` or `command_array`.
    folder
        The folder of the sweep, or of the proofs.
    study
        The study of a sweep.

    Returns
    -------
    str
        The number of the job.
    """
    sbatch = shutil.which("sbatch")
    if sbatch is None:
        raise InputError("there is no sbatch on PATH: submit from a machine of the cluster, or see --slurm-dry-run")
    if study is not None:
        Store(folder, study)
    own = Path(folder) / FOLDER
    own.mkdir(exist_ok=True, parents=True)
    write_bytes(own / SCRIPT, job.script.encode())
    done = subprocess.run([sbatch, "--parsable", str(own / SCRIPT)], capture_output=True, text=True, check=False)
    number = re.match(r"\d+", done.stdout.strip())
    if done.returncode != 0 or number is None:
        said = " ".join((done.stderr or done.stdout).split()) or f"exit code {done.returncode}"
        raise InputError(f"sbatch refused the job: {said}; change --slurm-options")
    write_json(own / JOB, {"job": number[0], "array_tasks": job.array_tasks, "left": job.left})
    return number[0]


def under_way(folder: str | Path) -> str | None:
    """Return the number of the job that was submitted last, if SLURM still has it.

    Parameters
    ----------
    folder
        The folder of the sweep, or of the proofs.

    Returns
    -------
    str | None
        The number; `None` if there is no such job or if SLURM does not answer.
    """
    noted, squeue = Path(folder) / FOLDER / JOB, shutil.which("squeue")
    if not noted.exists() or squeue is None:
        return None
    number = str(read_json(noted).get("job", ""))
    done = subprocess.run([squeue, "--noheader", "--jobs", number], capture_output=True, text=True, check=False)
    return number if done.returncode == 0 and done.stdout.strip() else None


def _lines(options: str) -> list[str]:
    """Return one line for each option of sbatch, with its value.

    >>> _lines("--partition=gpu -t 10 --exclusive")
    ['--partition=gpu', '-t 10', '--exclusive']
    """
    try:
        words = shlex.split(options)
    except ValueError as error:
        raise InputError(f"--slurm-options cannot be read ({error}): write them as for sbatch") from None
    lines: list[str] = []
    for word in words:
        if word.startswith("-"):
            name = word[2:].partition("=")[0] if word.startswith("--") else word[1:2]
            if name in OWN:
                raise InputError(f"--slurm-options has {word!r}: {OWN[name]}")
            lines.append(_quoted(word))
        elif lines and "=" not in lines[-1] and " " not in lines[-1]:
            lines[-1] += f" {_quoted(word)}"
        else:
            raise InputError(f"--slurm-options has {word!r}, which is no option: write them as for sbatch")
    return lines


def _quoted(word: str) -> str:
    if re.search(r"[\n\"\\]", word):
        raise InputError(f"--slurm-options has {word!r}: no quotes, backslashes or line breaks inside an option")
    name, equals, value = word.partition("=")
    return word if not re.search(r"\s", word) else f'{name}{equals}"{value}"' if equals else f'"{word}"'


def _ranges(numbers: Sequence[int]) -> str:
    """Return numbers as SLURM lists them.

    >>> _ranges([1, 2, 3, 5, 7, 8])
    '1-3,5,7-8'
    """
    found: list[list[int]] = []
    for k in numbers:
        if found and k == found[-1][1] + 1:
            found[-1][1] = k
        else:
            found.append([k, k])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in found)
