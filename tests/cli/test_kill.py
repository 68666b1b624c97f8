"""A run that was killed in the middle and resumed ends with the same bits as one that was not."""

import shlex
import signal
import subprocess
import sys
import time

import pytest

from tests.cases import each
from tests.cli.tools import same_bits
from wideproof.errors import InputError
from wideproof.storage import read_json, read_tensors

DATA = ("digits", "--classes", "0,1", "--limit", 100, "--width", 128, "--activation", "softplus", "--step-size", 0.001)
MODES = {
    "gd": ("--steps", 6000),
    "sgd": ("--batch", 16, "--steps", 12_000),
    "momentum": ("--optimizer", "momentum", "--steps", 5000),
}


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """Folders of uninterrupted runs, each trained once, when it is asked for."""
    return tmp_path_factory.mktemp("unbroken")


def train(cli, folder, mode):
    if not folder.exists():
        answer = cli("train", *DATA, *MODES[mode], "--quiet", "--out", folder)
        assert (answer.code, answer.err) == (0, "")
    return folder


def started(tmp_path, mode, out):
    """Start a run in another process and come back when it has written two checkpoints of its own."""
    command = ["train", *DATA, *MODES[mode], "--quiet", "--out", out, "--checkpoint-seconds", 0.1]
    process = subprocess.Popen(
        [sys.executable, "-m", "wideproof", *map(str, command)],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    seen, deadline = set(), time.monotonic() + 100
    while len(seen) < 3 and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        seen.add(step(tmp_path / out))
        time.sleep(0.02)
    assert len(seen) >= 3, "no checkpoints"
    return process


def step(folder):
    try:
        return read_tensors(folder / "state.safetensors")[1]["step"]
    except InputError:  # not there yet
        return 0


@pytest.mark.parametrize("mode", each(list(MODES), slow=["gd", "momentum"]))
def test_kill_9_and_resume(cli, tmp_path, unbroken, mode):
    process = started(tmp_path, mode, "run")
    process.kill()
    assert process.wait(10) == -signal.SIGKILL
    process.communicate()
    reached, limit = step(tmp_path / "run"), MODES[mode][-1]
    assert 0 < reached < limit
    shown = cli("show", "run")
    assert shown.code == 2
    assert f"interrupted at step {reached}" in shown.out
    answer = cli("resume", "run", "--quiet")
    assert (answer.code, answer.err) == (0, "")
    assert f"reached the step limit at step {limit}" in answer.out
    same_bits(train(cli, unbroken / mode, mode), tmp_path / "run")
    files = {path.name for path in (tmp_path / "run").iterdir()} - {"run.json"}
    assert {name for name in files if not name.startswith(".")} == {
        "data.safetensors",
        "initial.safetensors",
        "state.safetensors",
    }
    assert read_json(tmp_path / "run" / "run.json") == read_json(unbroken / mode / "run.json")
    for name in ("data.safetensors", "initial.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == (unbroken / mode / name).read_bytes()


def test_ctrl_c_tells_how_to_resume(cli, tmp_path, unbroken):
    process = started(tmp_path, "gd", "my run")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (2, "")
    reached = step(tmp_path / "my run")
    assert 0 < reached < MODES["gd"][-1]
    assert f"interrupted at step {reached}" in out
    command = shlex.split(out.splitlines()[-1].removeprefix("resume it with: "))
    assert command == ["wideproof", "resume", "my run"]
    answer = cli(*command[1:], "--quiet")
    assert (answer.code, answer.err) == (0, "")
    same_bits(train(cli, unbroken / "gd", "gd"), tmp_path / "my run")
    assert sorted(path.name for path in (tmp_path / "my run").iterdir()) == [
        "data.safetensors",
        "initial.safetensors",
        "run.json",
        "state.safetensors",
    ]


def test_ctrl_c_before_there_is_anything_to_save(cli, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("wideproof.cli.audit.find_data", interrupted)
    answer = cli("audit", "iris")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == "interrupted before there was a result: run the same command to start again\n"
    assert not list(tmp_path.iterdir())
