"""Ctrl-C and SIGTERM during training: the run is saved first, then the signal does what it does elsewhere."""

import importlib
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from wideproof.data import load
from wideproof.networks import FullyConnected
from wideproof.training import Recipe, Run, Status, resume, train, train_many

SPHERE = "sphere:n=4,d=3,separation=0.5,seed=1"
NETWORK, DATA = FullyConnected(3, 8, 1), load(SPHERE)
ENDLESS = 10**9

# A program that trains again and again, and says so; it begins as one does that a shell started in the foreground.
PROGRAM = f"""
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from wideproof.data import load
from wideproof.networks import FullyConnected
from wideproof.training import Recipe, train
{{before}}
data, network = load("{SPHERE}"), FullyConnected(3, 8, 1)
try:
    for k in range(3):
        told = lambda now: print("at step", now.done, flush=True)
        run = train(network, data, Recipe(steps={ENDLESS}, step_size=1e-6), folder=f"run{{{{k}}}}", progress=told)
        print("returned", k, run.status.name, flush=True)
        {{after}}
except KeyboardInterrupt:
    print("caught Ctrl-C", flush=True)
"""


def signalled(folder, number, before="", after="pass"):
    """Send a signal to the program once it trains; return its exit code and what it prints from then on."""
    program = PROGRAM.format(before=before, after=after)
    with subprocess.Popen([sys.executable, "-c", program], cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("at step")
        process.send_signal(number)
        said, _ = process.communicate(timeout=100)
    return process.returncode, [line for line in said.splitlines() if not line.startswith("at step")]


def test_sigterm_ends_a_program_that_loops_once_the_run_is_saved(tmp_path):
    assert signalled(tmp_path, signal.SIGTERM) == (-signal.SIGTERM, [])
    assert [path.name for path in tmp_path.iterdir()] == ["run0"]
    run = Run.load(tmp_path / "run0")
    assert run.status is Status.RUNNING
    assert run.step > 0


def test_ctrl_c_raises_once_the_run_is_saved_and_the_rest_has_the_same_bits(tmp_path):
    assert signalled(tmp_path, signal.SIGINT) == (0, ["caught Ctrl-C"])
    assert [path.name for path in tmp_path.iterdir()] == ["run0"]
    run = Run.load(tmp_path / "run0")
    assert run.status is Status.RUNNING
    limit = run.step + 100
    whole = train(run.network, run.data, Recipe(steps=limit, step_size=1e-6))
    rest = resume(tmp_path / "run0", steps=limit)
    assert (rest.step, rest.status) == (limit, Status.LIMIT)
    for name in whole.params:
        assert rest.params[name].tobytes() == whole.params[name].tobytes()
    assert np.array_equal(rest.steps, whole.steps)
    assert rest.records["loss"].tobytes() == whole.records["loss"].tobytes()


def test_a_handler_of_the_programs_own_is_called_once_and_stays(tmp_path):
    before = "def own(number, frame): print('handled', number, flush=True)\nsignal.signal(signal.SIGTERM, own)"
    after = "print('its own' if signal.getsignal(signal.SIGTERM) is own else 'another', flush=True); break"
    code, said = signalled(tmp_path, signal.SIGTERM, before, after)
    assert (code, said) == (0, [f"handled {int(signal.SIGTERM)}", "returned 0 RUNNING", "its own"])
    assert Run.load(tmp_path / "run0").step > 0


@pytest.fixture
def handled():
    """Return the signals that handlers of the test's own were called for; SIGINT raises as well."""
    seen = []

    def interrupt(number, frame):
        seen.append(number)
        signal.default_int_handler(number, frame)

    own = {signal.SIGINT: interrupt, signal.SIGTERM: lambda number, frame: seen.append(number)}
    before = {number: signal.signal(number, handler) for number, handler in own.items()}
    yield seen
    now = {number: signal.signal(number, handler) for number, handler in before.items()}
    assert now == own, "the handlers were not given back"


def sending(*numbers):
    """Return a `progress` that sends signals to this process, at its first call."""
    waiting = iter([numbers])

    def send(_):
        for each in waiting:
            for number in each:
                os.kill(os.getpid(), number)

    return send


def test_the_signal_acts_after_the_run_is_saved(handled, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(NETWORK, DATA, Recipe(steps=ENDLESS), folder=tmp_path / "run", progress=sending(signal.SIGINT))
    assert handled == [signal.SIGINT]
    assert Run.load(tmp_path / "run").step > 0


def test_where_the_handler_returns_so_does_train(handled):
    run = train(NETWORK, DATA, Recipe(steps=ENDLESS), progress=sending(signal.SIGTERM))
    assert (run.status, handled) == (Status.RUNNING, [signal.SIGTERM])


def test_a_second_signal_acts_at_once(handled, tmp_path):
    place = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(NETWORK, DATA, Recipe(steps=ENDLESS), folder=place, progress=sending(signal.SIGINT, signal.SIGINT))
    assert handled == [signal.SIGINT]
    assert Run.load(place).step == 0  # it did not wait to be saved


def test_two_different_signals_are_both_delivered(handled):
    with pytest.raises(KeyboardInterrupt):
        train(NETWORK, DATA, Recipe(steps=ENDLESS), progress=sending(signal.SIGTERM, signal.SIGINT))
    assert handled == [signal.SIGINT, signal.SIGTERM]


def test_an_error_does_not_swallow_the_signal(handled):
    def fail(_):
        os.kill(os.getpid(), signal.SIGINT)
        raise OSError("no room")

    with pytest.raises(KeyboardInterrupt) as raised:
        train(NETWORK, DATA, Recipe(steps=ENDLESS), progress=fail)
    assert isinstance(raised.value.__context__, OSError)
    assert handled == [signal.SIGINT]


def test_a_signal_that_is_ignored_stays_so(handled):
    own = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        run = train(NETWORK, DATA, Recipe(steps=50), progress=sending(signal.SIGINT))
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, own)
    assert (run.status, handled) == (Status.LIMIT, [])


def test_in_a_thread_no_signal_is_touched(handled):
    runs = []
    thread = threading.Thread(target=lambda: runs.append(train(NETWORK, DATA, Recipe(steps=50))))
    thread.start()
    thread.join()
    assert (runs[0].status, handled) == (Status.LIMIT, [])


def test_many_in_one_program_stop(handled):
    with pytest.raises(KeyboardInterrupt):
        train_many(NETWORK, DATA, Recipe(steps=ENDLESS), seeds=range(2), how="batch", progress=sending(signal.SIGINT))
    assert handled == [signal.SIGINT]


def test_many_in_threads_stop(handled, monkeypatch):
    """The second seed is trained in a thread, which no signal reaches; it is asked all the same."""
    module = importlib.import_module("wideproof.training.train")  # the package has a function of that name
    send, begin = sending(signal.SIGINT), module.begin

    def begun(network, data, recipe):
        if recipe.seed == 1:
            send(None)
        return begin(network, data, recipe if recipe.seed else Recipe(steps=5))

    monkeypatch.setattr(module, "begin", begun)
    with pytest.raises(KeyboardInterrupt):
        train_many(NETWORK, DATA, Recipe(steps=ENDLESS), seeds=range(3), how="loop")
    assert handled == [signal.SIGINT]
