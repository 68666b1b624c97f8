"""Sweeps as job arrays: a stand-in for SLURM runs their tasks in any order, twice, and kills one; the bits stay."""

import json
import os
import random
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import cli as cli
from tests.sweeps.making import TINY, tree
from wideproof.errors import InputError
from wideproof.sweeps import read_study, sweep
from wideproof.sweeps.slurm import _lines, array_job, command_array
from wideproof.sweeps.store import Store
from wideproof.sweeps.sweep import part_of, sweep_part
from wideproof.sweeps.task import tasks_of

# Records what it was given; answers as sbatch does, or refuses.
SBATCH = """#!/bin/bash
echo "$@" > "$STAND_IN/arguments"
if [ -e "$STAND_IN/refuse" ]; then cat "$STAND_IN/refuse" >&2; exit 1; fi
echo "4711;cluster"
"""
SQUEUE = """#!/bin/bash
if [ -e "$STAND_IN/running" ]; then echo "4711 R"; fi
"""
# Stands for Python in the job's script: writes down how it was called.
PYTHON = """#!/bin/bash
printf '%s\\n' "$PWD" "$@" > "$STAND_IN/called"
"""


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """A folder with sbatch, squeue and a Python that only notes its arguments; first on PATH."""
    folder = tmp_path / "bin with blank"
    folder.mkdir()
    for name, text in {"sbatch": SBATCH, "squeue": SQUEUE, "python": PYTHON}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755 | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("STAND_IN", str(folder))
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    return folder


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "my study.toml"
    path.write_text(TINY)
    return path


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    path = tmp_path_factory.mktemp("study") / "tiny.toml"
    path.write_text(TINY)
    done = sweep(read_study(path), tmp_path_factory.mktemp("unbroken") / "out", batch=False)
    return tree(done.folder / "results.zarr")


def array_of(script):
    """The array tasks of a script, as SLURM reads them."""
    (found,) = re.findall(r"^#SBATCH --array=([\d,-]+)(?:%\d+)?$", script, re.MULTILINE)
    spans = [[int(k) for k in span.split("-")] for span in found.split(",")]
    return [k for span in spans for k in range(span[0], span[-1] + 1)]


def command_of(script, index, slurm):
    """Run the script as SLURM would, with a Python that only notes its arguments; return them."""
    assert script.startswith("#!/bin/bash\n#SBATCH")
    done = subprocess.run(["bash"], input=script, env={**os.environ, "SLURM_ARRAY_TASK_ID": str(index)}, text=True)
    assert done.returncode == 0
    _, dash_m, package, *arguments = (slurm / "called").read_text().splitlines()
    assert (dash_m, package) == ("-m", "wideproof")
    return arguments


def test_hostile_order_twice_and_damage_give_the_same_bits(cli, slurm, study, unbroken):
    answer = cli("sweep", study, "--slurm", "--out", "a folder", "--chunk", 2)
    assert answer.code == 0
    assert "submitted job 4711: 6 of 6 tasks in 3 array tasks" in answer.out
    (given,) = re.findall(r"--parsable (.*job.sh)\n", (slurm / "arguments").read_text())
    script = Path(given).read_text()
    order = array_of(script) * 2
    assert sorted(order) == [1, 1, 2, 2, 3, 3]
    random.Random(3).shuffle(order)
    for index in order:
        ran = cli(*command_of(script, index, slurm))
        assert ran.code == 0, ran.err
    torn = min((study.parent / "a folder" / "tasks").glob("*.json"))
    torn.write_bytes(torn.read_bytes()[:20])
    again = cli("sweep", study, "--slurm", "--out", "a folder", "--chunk", 2)
    assert "submitted job 4711: 1 of 6 tasks in 1 array tasks" in again.out
    script = Path(given).read_text()
    (index,) = array_of(script)
    assert "1 tasks done, 1 kept from before" in cli(*command_of(script, index, slurm)).out
    gathered = cli("sweep", study, "--slurm", "--out", "a folder")
    assert gathered.code == 0
    assert "0 tasks done, 6 kept from before" in gathered.out
    assert tree(study.parent / "a folder" / "results.zarr") == unbroken


def test_a_killed_array_task_loses_nothing(study, tmp_path, unbroken):
    """Half of the tasks in a process that is killed once one of them is done; then all parts again."""
    chosen, folder = read_study(study), tmp_path / "out"
    command = [sys.executable, "-m", "wideproof", "sweep", str(study), "--out", str(folder), "--part", "1/2"]
    running = subprocess.Popen([*command, "--threads", "1"], stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 120
        while not list(folder.glob("tasks/*.json")) and running.poll() is None and time.monotonic() < until:
            time.sleep(0.002)
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
    before = {path.name: path.read_bytes() for path in folder.glob("tasks/*.json")}
    assert before
    for number in (2, 1, 2):
        assert sweep_part(chosen, folder, number, 2, batch=False).failed == ()
    assert {name: (folder / "tasks" / name).read_bytes() for name in before} == before
    done = sweep(chosen, folder)
    assert (done.kept, done.done) == (6, 0)
    assert tree(folder / "results.zarr") == unbroken


def test_the_script(cli, slurm, study):
    options = "--partition=gpu -t 02:00:00 --gres gpu:1 --comment='two words' --exclusive"
    answer = cli("sweep", study, "--slurm-dry-run", "--at-once", 4, "--threads", 1, "--slurm-options", options)
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0] == "#!/bin/bash"
    for expected in (
        "#SBATCH --job-name=wideproof-tiny", "#SBATCH --array=1-6%4", "#SBATCH --requeue", "#SBATCH --partition=gpu",
        "#SBATCH -t 02:00:00", "#SBATCH --gres gpu:1", '#SBATCH --comment="two words"', "#SBATCH --exclusive",
        f'#SBATCH --output="{study.parent}/tiny/slurm/%A_%a.log"',
    ):  # fmt: skip
        assert expected in lines
    assert not (study.parent / "tiny").exists()  # nothing is written
    assert not (slurm / "arguments").exists()  # nor submitted
    arguments = command_of(answer.out, 3, slurm)
    assert arguments == ["sweep", str(study), "--out", f"{study.parent}/tiny", "--threads", "1", "--part", "3/6"]
    assert (slurm / "called").read_text().splitlines()[0] == str(study.parent)


def test_only_parts_with_something_left(study, tmp_path):
    chosen = read_study(study)
    sweep_part(chosen, tmp_path / "out", 2, 3)
    job = array_job(study, chosen, tmp_path / "out", chunk=2)
    assert (array_of(job.script), job.left, job.total, job.array_tasks) == ([1, 3], 4, 6, 2)


def test_no_more_array_tasks_than_slurm_takes(study, tmp_path):
    chosen = read_study(study).model_copy(update={"axes": {"seed": 2500, "width": [4]}})
    job = array_job(study, chosen, tmp_path / "out")
    assert job.array_tasks == 834  # 3 tasks each: 2 would be 1,250
    assert array_of(job.script)[-1] == 834


@pytest.mark.parametrize("parts", [1, 2, 4, 7])
def test_parts_are_all_tasks_once(study, parts):
    tasks = tasks_of(read_study(study))
    dealt = [part_of(tasks, k, parts) for k in range(1, parts + 1)]
    assert [task for part in dealt for task in part] == tasks
    assert max(map(len, dealt)) - min(map(len, dealt)) <= 1


def test_a_shared_folder_is_not_tidied(study, tmp_path):
    """What another process is writing stays, and so does what it says about progress."""
    chosen, folder = read_study(study), tmp_path / "out"
    Store(folder, chosen)
    (folder / ".results.another").mkdir()
    sweep_part(chosen, folder, 1, 6)
    assert (folder / ".results.another").exists()
    assert not (folder / "progress.json").exists()
    Store(folder, chosen)
    assert not (folder / ".results.another").exists()


def test_a_task_that_fails_is_said_and_submitted_again(cli, slurm, study):
    study.write_text(TINY.replace("width = [4, 8]", "width = [4, -1]"))
    ran = cli("sweep", study, "--part", "2/2")
    assert ran.code == 1
    assert "failed at width -1" in ran.out
    assert json.loads(cli("sweep", study, "--part", "1/2", "--json").out)["done"] == 3
    assert json.loads(cli("sweep", study, "--slurm", "--json").out) == {
        "study": "tiny", "folder": "tiny", "job": "4711", "array_tasks": 3, "left": 3, "tasks": 6,
    }  # fmt: skip


def test_a_job_that_is_under_way_is_not_submitted_again(cli, slurm, study):
    assert cli("sweep", study, "--slurm").code == 0
    (slurm / "running").touch()
    (slurm / "arguments").unlink()
    answer = cli("sweep", study, "--slurm")
    assert answer.code == 2
    assert "job 4711 is under way, 0 of 6 tasks are done: wait until it has ended" in answer.err
    assert not (slurm / "arguments").exists()


def test_no_sbatch(cli, study, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    answer = cli("sweep", study, "--slurm")
    assert answer.code == 2
    assert "no sbatch on PATH: submit from a machine of the cluster" in answer.err
    assert not (study.parent / "tiny").exists()


def test_what_sbatch_says_is_passed_on(cli, slurm, study):
    (slurm / "refuse").write_text("sbatch: error: invalid partition specified: gpux\nsbatch: error: Batch job failed\n")
    answer = cli("sweep", study, "--slurm", "--slurm-options", "--partition=gpux")
    assert answer.code == 2
    assert "sbatch refused the job: sbatch: error: invalid partition specified: gpux sbatch:" in answer.err
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--array=1-3", "use --chunk and --at-once"),
        ("-a1-3", "use --chunk and --at-once"),
        ("--wrap=ls", "leave --wrap out"),
        ("gpu", "'gpu', which is no option"),
        ("--time=10 20", "'20', which is no option"),
        ("--comment='open", "cannot be read"),
        ("--comment='a\nrm -rf x'", "line breaks"),
    ],
)
def test_bad_options(options, said):
    with pytest.raises(InputError, match=re.escape(said)):
        _lines(options)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--part", "3"], "as in 3/10, got '3'"),
        (["--part", "0/2"], "numbered from 1"),
        (["--part", "3/2"], "numbered from 1"),
        (["--part", "1/2", "--slurm"], "--slurm and --part are different ways"),
        (["--slurm", "--workers", "2"], "--slurm and --workers are different ways"),
        (["--chunk", "2"], "give --slurm too"),
        (["--slurm-dry-run", "--chunk", "0"], "--chunk is a number of tasks >= 1"),
        (["--slurm-dry-run", "--at-once", "0"], "--at-once is a number of array tasks >= 1"),
    ],
)
def test_bad_arguments(cli, study, arguments, said):
    answer = cli("sweep", study, *arguments)
    assert answer.code == 2
    assert said in answer.err
    assert not (study.parent / "tiny").exists()


def test_starts_are_submitted_and_parts_read_the_folder(cli, slurm):
    """A folder without a pilot, with other parts, or without a number is refused; `--slurm` asks for what it needs."""
    for arguments, said in (
        (("--slurm",), "--slurm submits the starts of --seeds into the folder of --out"),
        (("--slurm", "--seeds", "2"), "--slurm submits the starts of --seeds into the folder of --out"),
        (("--slurm-options", "--time=1"), "give --slurm too"),
    ):
        answer = cli("prove", "iris", *arguments)
        assert answer.code == 2
        assert said in " ".join(answer.err.split())
    for arguments, said in (
        (("--part", "1/2"), "give it by --out"),
        (("--part", "1/2", "--slurm"), "--part needs --out and nothing else"),
        (("--part", "1/2", "--out", "nowhere"), "begin them with `wideproof prove --seeds --slurm`"),
        (("--part", "two", "--out", "nowhere"), "as in 3/10"),
    ):
        answer = cli("prove", *arguments)
        assert answer.code == 2
        assert said in " ".join(answer.err.split())
    job = command_array("iris", "starts", ["prove", "--out", "starts"], [1, 3], 3, "--time=10")
    assert array_of(job.script) == [1, 3]
    assert command_of(job.script, 3, slurm) == ["prove", "--out", "starts", "--part", "3/3"]
    with pytest.raises(InputError, match="at most 1,000 tasks here, got 1,001"):
        command_array("iris", "starts", ["prove"], [1], 1001)
