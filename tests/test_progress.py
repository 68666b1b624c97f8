"""Every long job tells the same kind of value how far it is, and former spellings say what to use."""

import io

import numpy as np
import pytest
from rich.console import Console

import wideproof as wp
from wideproof.certificates import width_needed
from wideproof.cli.watching import watching
from wideproof.deprecations import renamed
from wideproof.networks import FullyConnected
from wideproof.papers import examine, statements
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
    wp.plan(data, networks=["deep-relu"], depths=[1], preparations=["unit"], progress=watch)


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


def test_the_former_argument_is_told_the_words(data, network):
    run = wp.train(network, data, wp.Recipe(loss="logistic", steps=20, step_size=0.5))
    said = []
    with pytest.warns(DeprecationWarning, match=r"follow\(\) takes progress= in place of stage="):
        wp.follow(run, stage=said.append)  # pyright: ignore[reportCallIssue]
    assert "certifying from the start" in said


def test_a_former_argument_and_the_present_one_are_not_guessed_between():
    take = renamed(step="step_size")(lambda step_size: step_size)
    with (
        pytest.raises(TypeError, match="which are the same: give step_size="),
        pytest.warns(DeprecationWarning, match="in place of step="),
    ):
        take(step=1.0, step_size=2.0)  # pyright: ignore[reportCallIssue]


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
