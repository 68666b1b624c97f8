"""A run that was killed in the middle and resumed ends with the same bits as one that was not."""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time

import pytest

from tests.cases import each
from tests.cli.tools import same_bits
from wideproof.cli.stopping import continuable
from wideproof.errors import InputError
from wideproof.storage import read_json, read_tensors

DATA = ("digits", "--classes", "0,1", "--limit", 100, "--width", 128, "--activation", "softplus", "--step-size", 0.001)
# As a shell starts it in the foreground: a suite that runs in the background has Ctrl-C ignored, and its children too.
WIDEPROOF = (
    sys.executable, "-c",
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from wideproof.cli import main; main()",
)  # fmt: skip
MODES = {
    "gd": ("--steps", 40000),
    "sgd": ("--batch", 16, "--steps", 12_000),
    "momentum": ("--optimizer", "momentum", "--steps", 5000),
    "epochs": ("--batch", 16, "--shuffle", "--optimizer", "nesterov", "--momentum", 0.5, "--weight-decay", 0.001,
               "--schedule", "warmup(500) cosine", "--steps", 12_000),
}  # fmt: skip


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
        [*WIDEPROOF, *map(str, command)],
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


@pytest.mark.parametrize("mode", each(list(MODES), slow=["gd", "sgd", "momentum"]))
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


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, -signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_a_signal_tells_how_to_resume(cli, tmp_path, unbroken, number, code):
    process = started(tmp_path, "gd", "my run")
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (code, "")
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
    assert (answer.code, answer.out) == (130, "")
    assert answer.err == "interrupted before there was a result: run the same command to start again\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)])
def test_a_signal_ends_a_proof_with_a_word_on_how_to_go_on(tmp_path, number, code):
    command = [*WIDEPROOF, "prove", "digits", "--classes", "0,1", "--limit", "100", "--out", "my proof"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "loading the data\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=100)
    assert (process.returncode, out) == (code, "")
    assert err.splitlines()[-1] == "interrupted: run the same command with --out 'my proof' to continue"


@pytest.fixture
def terminations():
    """Return the signals that a handler of the test's own was called for."""
    seen = []

    def own(number, frame):
        seen.append(number)

    before = signal.signal(signal.SIGTERM, own), signal.signal(signal.SIGINT, signal.default_int_handler)
    yield seen
    assert signal.signal(signal.SIGTERM, before[0]) is own
    signal.signal(signal.SIGINT, before[1])


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_command_is_ended_by_its_signal_after_it_has_spoken(terminations, number, code):
    said = []
    with pytest.raises(SystemExit) as ended, continuable(lambda: said.append(list(terminations))):
        os.kill(os.getpid(), number)
    assert ended.value.code == code
    assert said == [[]]  # once, and before the signal was passed on
    assert terminations == [signal.SIGTERM] * (number == signal.SIGTERM)


def test_a_sigterm_whose_exception_is_lost_ends_the_command_all_the_same(terminations):
    lost = contextlib.suppress(KeyboardInterrupt)  # as compiled code may do
    with pytest.raises(SystemExit) as ended, continuable(lambda: None), lost:
        os.kill(os.getpid(), signal.SIGTERM)
    assert (ended.value.code, terminations) == (143, [signal.SIGTERM])
