"""Every long job tells the same kind of value how far it is."""

import inspect
import io
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import wideproof as wp
from wideproof.certificates import width_needed
from wideproof.cli.watching import watching
from wideproof.networks import FullyConnected
from wideproof.papers import examine, statements
from wideproof.progress import by_others, shown
from wideproof.sweeps import Study, sweep


@pytest.fixture(scope="module")
def data():
    return wp.prepare(wp.load("digits", classes=(0, 1), limit=12), "whiten,unit")


@pytest.fixture(scope="module")
def network(data):
    return wp.build("deep-relu", data.input_shape, data.target_shape, width=16, depth=2)


def train(data, network, folder, watch):
    wp.train(network, data, wp.Recipe(steps=20, step_size=0.1), progress=watch)


def follow(data, network, folder, watch):
    run = wp.train(network, data, wp.Recipe(loss="logistic", steps=20, step_size=0.5))
    wp.follow(run, progress=watch)


def plan(data, network, folder, watch):
    wp.plan(
        wp.load("digits", classes=(0, 1), limit=12),
        network="deep-relu",
        depth=1,
        prepare=["unit", "standardize,unit"],
        progress=watch,
    )


def check(data, network, folder, watch):
    examine(statements("zou2018.lemma_c_1"), progress=watch)


def look_for_a_width(data, network, folder, watch):
    small = wp.Dataset(np.eye(3), np.array([1.0, -1.0, 1.0]), "binary")
    wide = FullyConnected(input_dim=3, width=16, depth=1, trained=("hidden",))
    width_needed(wide, small, smallest=32, tolerance=1.0, progress=watch)


def sweep_a_little(data, network, folder, watch):
    study = Study.model_validate({
        "name": "small", "data": {"source": "sphere:n=4,d=3,separation=0.5", "prepare": "unit"},
        "network": {"name": "fully-connected", "depth": 1}, "training": {"steps": 2}, "axes": {"width": [4, 8]},
        "measures": ["loss"],
    })  # fmt: skip
    sweep(study, folder / "out", progress=watch)


@pytest.mark.parametrize(
    ("job", "stage", "counted"),
    [
        (train, "training", True),
        (plan, "planning", True),
        (check, "measuring", True),
        (sweep_a_little, "sweeping", True),
        (look_for_a_width, "certifying", False),
        (follow, "verifying", False),
    ],
)
def test_a_job_tells_how_far_it_is(data, network, tmp_path, job, stage, counted):
    seen = []
    job(data, network, tmp_path, seen.append)
    assert {type(now) for now in seen} == {wp.Progress}
    assert stage in {now.stage for now in seen}
    assert [now.done for now in seen] == sorted(now.done for now in seen)
    assert all(now.text for now in seen)
    assert {now.total is None for now in seen} == {not counted}
    assert all(now.done <= now.total for now in seen if counted)


def test_what_is_newest_comes_along(data, network):
    seen = []
    run = wp.train(network, data, wp.Recipe(steps=20, step_size=0.1), progress=seen.append)
    assert (seen[-1].done, seen[-1].total) == (run.step, 20)
    assert seen[-1].latest["loss"] == run.loss
    assert f"loss {run.loss:.3g}" in seen[-1].text


def test_counts_are_a_bar_and_the_rest_is_lines(capsys):
    shown = io.StringIO()
    terminal = Console(file=shown, force_terminal=True, width=100)
    with watching(False, lines=True, console=terminal) as tell:
        assert tell is not None
        tell(wp.Progress("loading", text="loading the data"))
        tell(wp.Progress("training", 3, 7, "loss 0.5 [x]"))
        tell(wp.Progress("sweeping", 1, 9, "fast"))
    assert capsys.readouterr().err == "loading the data\n"
    assert "1/9" in shown.getvalue()
    with watching(True) as tell:
        assert tell is None


def test_a_log_gets_lines_and_no_bar(capsys):
    log = io.StringIO()
    with watching(False, lines=False, console=Console(file=log)) as tell:
        assert tell is not None
        tell(wp.Progress("training", 3, 7, "loss 0.5"))
        tell(wp.Progress("loading", text="loading"))
    assert (log.getvalue().strip(), capsys.readouterr().err) == ("", "")


# What is shown where nobody gives a `progress`.


class Terminal(io.StringIO):
    def isatty(self):
        return True


def on_a_terminal(monkeypatch):
    """Put a terminal where warnings go; not in a fixture, after which pytest puts its own there."""
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    return terminal


@shown
def inner(progress=None):
    (progress or wp.unwatched)(wp.Progress("inside", 1, 2, "the inner job"))
    return progress


@shown
def outer(fail=False, progress=None):
    (progress or wp.unwatched)(wp.Progress("outside", text="the outer job"))
    if fail:
        raise RuntimeError("lost")
    return progress, inner()


def test_a_terminal_shows_a_bar_and_one_only(monkeypatch, data, network):
    terminal = on_a_terminal(monkeypatch)
    run = wp.train(network, data, wp.Recipe(steps=20, step_size=0.1))
    assert "20/20" in terminal.getvalue()
    assert f"loss {run.loss:.3g}" in terminal.getvalue()
    watch, within = outer()
    assert "the outer job" in terminal.getvalue()
    assert watch is not None
    assert within is None
    assert "the inner job" not in terminal.getvalue()
    with pytest.raises(RuntimeError, match="lost"):
        outer(fail=True)
    assert inner() is not None  # after an error, too, the next job shows itself
    assert "the inner job" in terminal.getvalue()


def test_who_wants_no_bar_gets_none(monkeypatch, data, network):
    terminal = on_a_terminal(monkeypatch)
    wp.train(network, data, wp.Recipe(steps=5, step_size=0.1), progress=wp.unwatched)
    with by_others():
        assert outer() == (None, None)
    seen = []
    outer(progress=seen.append)
    assert [now.stage for now in seen] == ["outside"]
    found = []
    thread = threading.Thread(target=lambda: found.append(outer()))
    thread.start()
    thread.join()
    assert found == [(None, None)]  # bars of several threads would overwrite each other
    assert terminal.getvalue() == ""


def test_a_log_and_a_script_without_a_terminal_show_nothing(monkeypatch):
    for stream in (io.StringIO(), None):
        monkeypatch.setattr("sys.stderr", stream)
        assert outer() == (None, None)


def test_a_notebook_shows_a_bar_below_the_cell_and_takes_it_away(monkeypatch):
    display = pytest.importorskip("IPython.display", reason="no IPython here")
    pictures = []

    class Handle:
        def update(self, html):
            pictures.append(html.data)

    def show(html, display_id):
        assert display_id is True
        pictures.append(html.data)
        return Handle()

    monkeypatch.setattr("IPython.get_ipython", lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setattr(display, "display", show)
    outer()
    assert pictures == ["<div><progress></progress> the outer job</div>", ""]
    pictures.clear()

    @shown
    def counts(progress: Any = None):
        for k in range(1000):
            progress(wp.Progress("counting", k, 1000, "<b>"))
        progress(wp.Progress("ending", text="done"))

    counts()
    assert pictures[0] == '<div><progress value="0" max="1000"></progress> 0/1000 &lt;b&gt;</div>'
    assert pictures[-2:] == ["<div><progress></progress> done</div>", ""]
    assert len(pictures) < 500  # not every one of a thousand steps
    monkeypatch.setattr("IPython.get_ipython", lambda: None)
    assert outer() == (None, None)


def test_every_long_job_of_the_front_door_is_shown():
    functions = {name: value for name in dir(wp) if inspect.isfunction(value := getattr(wp, name))}
    jobs = {name for name, value in functions.items() if "progress" in inspect.signature(value).parameters}
    assert {
        "train",
        "train_many",
        "resume",
        "prove",
        "prove_run",
        "plan",
        "choose",
        "follow",
        "sweep",
    } <= jobs
    assert [name for name in sorted(jobs) if "shown.<locals>" not in _code(functions[name])] == []


def _code(function):
    return function.__code__.co_qualname
