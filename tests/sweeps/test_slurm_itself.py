"""SLURM itself runs sweeps and proofs as job arrays: tasks are requeued and cancelled, and nothing is lost."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sweeps.daemons import cluster, slurm, until, why_not
from tests.sweeps.making import TINY, tree
from wideproof.sweeps import read_study, sweep

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("slurm")]
LONGER = TINY.replace("seed = 3", "seed = 20").replace("steps = 20\n", "steps = 100_000\n")


@pytest.fixture(scope="module")
def daemons():
    if reason := why_not():
        pytest.skip(reason)
    with cluster() as place:
        yield place


def command(*arguments, cwd):
    done = subprocess.run(
        [sys.executable, "-m", "wideproof", *map(str, arguments)], capture_output=True, text=True, cwd=cwd, timeout=300
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def states(job):
    """The array tasks that SLURM still has, by number, with their states."""
    lines = slurm("squeue", "--noheader", "--array", f"--jobs={job}", "--format=%K %T").split("\n")
    return {int(line.split()[0]): line.split()[1] for line in lines if line}


def ended(job):
    def there():
        asked = subprocess.run(["squeue", "--noheader", f"--jobs={job}"], capture_output=True, text=True)
        return asked.returncode != 0 or not asked.stdout.strip()

    until(there, 240)


def number(done):
    assert done.returncode == 0, done.stderr
    return re.findall(r"submitted job (\d+)", done.stdout)[0]


def listeners(place):
    """The addresses at which the daemons of this configuration listen."""
    ports = re.findall(r"^Slurm(?:ctl)?dPort=(\d+)", (place / "slurm.conf").read_text(), re.MULTILINE)
    found = []
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        address, state = line.split()[1], line.split()[3]
        if state == "0A" and str(int(address.split(":")[1], 16)) in ports:
            found.append(address.split(":")[0])
    return found


def test_only_this_machine_is_spoken_to(daemons):
    assert listeners(daemons) == ["0100007F"] * 2  # 127.0.0.1


def test_a_sweep_with_a_requeued_and_a_cancelled_task_gives_the_same_bits(daemons, tmp_path):
    (tmp_path / "study.toml").write_text(LONGER)
    asked = ("sweep", "study.toml", "--out", "out", "--slurm", "--chunk", "20", "--threads", "1")
    job = number(command(*asked, cwd=tmp_path))
    tasks, out = tmp_path / "out" / "tasks", tmp_path / "out"

    def of(part):  # how many tasks of one array task are done: by the width, which is its half of the study
        done = [json.loads(path.read_bytes()) for path in tasks.glob("*.json")]
        return sum(f'"width": {(4, 8)[part - 1]}' in json.dumps(one) for one in done)

    until(lambda: states(job).get(1) == "RUNNING" and of(1) >= 2 and of(2) >= 2)
    slurm("scontrol", "requeue", f"{job}_1")
    slurm("scancel", f"{job}_2")
    kept = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in tasks.glob("*.json")}
    assert 4 <= len(kept) < 40  # both were stopped in the middle
    again = command(*asked, cwd=tmp_path)
    assert again.returncode == 2
    assert f"job {job} is under way" in again.stderr
    ended(job)
    assert of(1) == 20  # it went on by itself
    assert of(2) < 20
    second = command(*asked, cwd=tmp_path)
    assert "20 of 40 tasks" not in second.stdout
    assert "in 1 array tasks" in second.stdout
    ended(number(second))
    gathered = command(*asked, cwd=tmp_path)
    assert gathered.returncode == 0, gathered.stderr
    assert "0 tasks done, 40 kept from before" in gathered.stdout
    for name, before in kept.items():
        assert ((tasks / name).stat().st_mtime_ns, (tasks / name).read_bytes()) == before  # nothing ran twice
    whole = sweep(read_study(tmp_path / "study.toml"), tmp_path / "whole", threads=1, batch=False)
    assert tree(out / "results.zarr") == tree(whole.folder / "results.zarr")
    log = next((out / "slurm").glob(f"{job}_1.log")).read_text()
    assert "REQUEUE" in log


def test_proofs_from_many_starts(daemons, tmp_path):
    table = ("iris", "--classes", "setosa,virginica", "--limit", "6")
    asked = ("prove", *table, "--seeds", "3", "--out", "starts", "--quiet")
    job = number(command(*asked, "--slurm", "--slurm-options", "--comment=starts", cwd=tmp_path))
    until(lambda: "RUNNING" in states(job).values())
    slurm("scancel", f"{job}_3")
    ended(job)
    shared = tmp_path / "starts"
    found = {k for k in (1, 2, 3) if (shared / f"start-{k}" / "start.json").exists()}
    assert found == {1, 2}
    ended(number(command(*asked, "--slurm", cwd=tmp_path)))
    gathered = command(*asked, "--slurm", cwd=tmp_path)
    assert gathered.returncode == 0, gathered.stderr
    assert "3 of 3 random starts were proved" in gathered.stdout
    shutil.copytree(shared / "pilot", tmp_path / "alone" / "pilot")
    alone = command(*asked[:-3], "--out", "alone", "--quiet", cwd=tmp_path)
    assert alone.returncode == 0, alone.stderr
    for k in (1, 2, 3):
        mine, theirs = (tmp_path / place / f"start-{k}" / "certificate" for place in ("starts", "alone"))
        assert tree(mine) == tree(theirs)
    assert command("verify", "starts", cwd=tmp_path).returncode == 0
