"""Sweeps: finished once, resumed to the same bits, torn files found, workers that die replaced."""

import errno
import functools
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
import xarray as xr

from tests.sweeps.making import TINY, tree
from wideproof import sweeps
from wideproof.errors import InputError, JobError
from wideproof.networks import FullyConnected
from wideproof.report import save_sweep_page
from wideproof.sweeps import engines, read_study
from wideproof.sweeps import task as task_module
from wideproof.sweeps.store import Store
from wideproof.sweeps.study import Study
from wideproof.sweeps.task import Work, tasks_of
from wideproof.training import Recipe, train

sweep = functools.partial(sweeps.sweep, batch=False)  # an accelerator would batch, and finish a batch as a whole


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    path = tmp_path_factory.mktemp("study") / "tiny.toml"
    path.write_text(TINY)
    return read_study(path)


@pytest.fixture(scope="module")
def unbroken(study, tmp_path_factory):
    return sweep(study, tmp_path_factory.mktemp("unbroken") / "out")


def test_values_are_those_of_single_runs(study, unbroken):
    data = Work(study.settings({"width": 8, "seed": 1})).data
    run = train(FullyConnected(3, 8, 1), data, Recipe(steps=20, target_loss=1e-12, seed=1))
    assert float(unbroken.results["loss"].sel(width=8, seed=1)) == run.loss
    moved = max(np.linalg.norm(run.params[k] - run.initial[k]) / np.linalg.norm(run.initial[k]) for k in run.params)
    assert float(unbroken.results["distance"].sel(width=8, seed=1)) == pytest.approx(moved, rel=1e-12)
    assert (unbroken.results["reached"] == 0).all()
    assert (unbroken.kept, unbroken.done, unbroken.failed) == (0, 6, ())


def test_the_store_is_a_labelled_data_set(unbroken):
    stored = xr.open_zarr(unbroken.folder / "results.zarr", consolidated=False)
    xr.testing.assert_identical(stored.load(), unbroken.results)
    assert stored["loss"].dims == ("width", "seed")


def test_what_is_finished_is_not_run_again(study, unbroken, monkeypatch):
    monkeypatch.setattr(engines, "execute", lambda *_: pytest.fail("ran again"))
    before = tree(unbroken.folder / "results.zarr")
    again = sweep(study, unbroken.folder)
    assert (again.kept, again.done) == (6, 0)
    assert tree(unbroken.folder / "results.zarr") == before


def test_more_values_run_only_what_is_new(study, tmp_path):
    sweep(study, tmp_path / "out")
    longer = study.model_copy(update={"axes": {"width": [2, 4, 8], "seed": 3}})
    more = sweep(longer, tmp_path / "out")
    assert (more.kept, more.done) == (6, 3)
    assert np.isfinite(more.results["loss"]).all()


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other"])
def test_a_torn_file_is_found_and_done_again(study, unbroken, tmp_path, damage):
    store = Store(tmp_path / "out", study)
    for path in (unbroken.folder / "tasks").iterdir():
        (tmp_path / "out" / "tasks" / path.name).write_bytes(path.read_bytes())
    victim = next((tmp_path / "out" / "tasks").iterdir())
    content = victim.read_bytes()
    line = json.loads(content)
    line["values"]["loss"] *= 1 + 1e-15 * 8
    victim.write_bytes({
        "cut": content[:40], "empty": b"", "other": b"[]", "flipped": json.dumps(line).encode(),
    }[damage])  # fmt: skip
    assert len(store.finished(tasks_of(study))) == 5
    done = sweep(study, tmp_path / "out")
    assert (done.kept, done.done) == (5, 1)
    assert tree(tmp_path / "out" / "results.zarr") == tree(unbroken.folder / "results.zarr")


def test_folders_of_others_are_refused(study, tmp_path):
    sweep(study.model_copy(update={"axes": {"seed": 1, "width": [2]}}), tmp_path / "out")
    with pytest.raises(InputError, match="holds the sweep 'tiny', and this study is 'other'"):
        sweep(study.model_copy(update={"name": "other"}), tmp_path / "out")
    about = tmp_path / "out" / "study.json"
    about.write_text(json.dumps({"format": 99, "name": "tiny"}))
    with pytest.raises(InputError, match="newer version"):
        sweep(study, tmp_path / "out")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="not empty and holds no sweep"):
        sweep(study, tmp_path / "full")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot create"):
        sweep(study, tmp_path / "file" / "out")


def test_a_task_that_fails_does_not_end_the_others(study, tmp_path):
    """Width 0 is no network; the failed task is tried again the next time, the others are kept."""
    wrong = study.model_copy(update={"axes": {"width": [0, 4], "seed": 1}})
    done = sweep(wrong, tmp_path / "out")
    (failed,) = done.failed
    assert "width" in failed.error
    assert done.done == 1
    assert np.isnan(done.results["loss"].sel(width=0)).all()
    assert save_sweep_page(done).exists()
    again = sweep(wrong, tmp_path / "out")
    assert (again.kept, again.done, len(again.failed)) == (1, 0, 1)


@pytest.fixture
def ctrl_c():
    """Let SIGINT raise: in a suite that a shell started in the background it is ignored, and so it would hang."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupted_task_is_not_kept(study, tmp_path, monkeypatch):
    """Ctrl-C in the middle of a training run: half a run is no result."""

    once = iter([signal.SIGINT])

    def kill(_):
        for number in once:
            os.kill(os.getpid(), number)

    def interrupted(network, data, recipe):
        return train(network, data, recipe, progress=kill)

    monkeypatch.setattr(task_module, "train", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sweep(study, tmp_path / "out")
    assert not list((tmp_path / "out" / "tasks").iterdir())


@pytest.mark.usefixtures("ctrl_c")
def test_a_task_in_a_thread_gives_up(study, tmp_path):
    """No signal reaches a thread: the engine tells it, and a run of hours ends after its chunk."""
    endless = study.model_copy(update={"training": {"steps": 10**9}})
    outcomes, others = engines.in_threads(tasks_of(endless), 2), threading.active_count()
    threading.Timer(2.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        next(outcomes)
    assert time.monotonic() - began < 60
    assert threading.active_count() == others


def test_tasks_in_processes_end_with_an_interruption(study, monkeypatch):
    """SIGTERM reaches the process that waits, and not its workers: a run of hours ends with it."""

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    endless = study.model_copy(update={"training": {"steps": 10**9}})
    monkeypatch.setattr(engines, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(engines.in_processes(tasks_of(endless), 2))
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("threads", [1, 3])
def test_side_by_side_the_bits_are_the_same(study, unbroken, tmp_path, threads):
    done = sweep(study, tmp_path / "out", threads=threads)
    assert tree(done.folder / "results.zarr") == tree(unbroken.folder / "results.zarr")


def test_the_first_task_of_a_shape_runs_before_its_others(study, monkeypatch):
    """So each program is compiled once, although tasks run side by side."""
    began, ended, lock = [], [], threading.Lock()

    def attempt(task, *_, **__):
        with lock:
            began.append((task.shape, sum(shape == task.shape for shape in ended)))
        time.sleep(0.01)
        with lock:
            ended.append(task.shape)
        return engines.Outcome(task, {}, 0.0)

    monkeypatch.setattr(engines, "_attempt", attempt)
    tasks = tasks_of(study)
    assert len({task.shape for task in tasks}) == 2
    found = list(engines.in_threads(tasks, 4))
    assert {one.task.digest for one in found} == {task.digest for task in tasks}
    for shape in {task.shape for task in tasks}:
        assert [before > 0 for own, before in began if own == shape] == [False, True, True]


def test_batched_seeds_have_the_same_values(study, unbroken, tmp_path):
    done = sweep(study, tmp_path / "out", batch=True)
    for name, values in unbroken.results.items():
        # 20 steps of some 50 operations, each off by 1.1e-16 at most, and the differences may grow tenfold
        np.testing.assert_allclose(done.results[name], values, rtol=20 * 50 * 1.1e-16 * 10)
    lines = [json.loads(path.read_text()) for path in (tmp_path / "out" / "tasks").iterdir()]
    assert sorted(len(line["companions"]) for line in lines) == [3] * 6


@pytest.mark.parametrize("damage", ["gone", "torn"])
@pytest.mark.parametrize("seed", [0, 2])
def test_a_batch_is_finished_as_a_whole(study, tmp_path, damage, seed):
    """Killed between two files of a batch: all of it runs again, with the same bits, and nothing else does."""
    whole = sweep(study, tmp_path / "out", batch=True)
    before = tree(whole.folder / "results.zarr")
    victim = next(task for task in tasks_of(study) if dict(task.chosen) == {"width": 8, "seed": seed})
    file = tmp_path / "out" / "tasks" / f"{victim.digest}.json"
    file.unlink() if damage == "gone" else file.write_text("{")
    again = sweep(study, tmp_path / "out", batch=True)
    assert (again.kept, again.done) == (3, 3)
    assert tree(again.folder / "results.zarr") == before


def test_a_batch_that_cannot_be_trained_is_tried_once(study, monkeypatch):
    tried = []

    def fails(*_, seeds, how):
        tried.append(tuple(seeds))
        raise MemoryError("no room")

    monkeypatch.setattr(task_module, "train_many", fails)
    outcomes = list(engines.in_batches(tasks_of(study)))
    assert tried == [(0, 1, 2)] * 2
    assert {one.error for one in outcomes} == {"MemoryError: no room"}


def test_batches_take_no_more_than_their_share(study):
    sizes = [len(one.companions) for one in engines.in_batches(tasks_of(study), most=2)]
    assert sizes == [2, 2, 1, 2, 2, 1]


def test_the_page(unbroken):
    page = save_sweep_page(unbroken).read_text()
    assert "6 of 6 tasks" in page
    assert "<svg" in page
    assert {p.suffix for p in (unbroken.folder / "figures").iterdir()} == {".svg", ".png"}


SCRIPT = """
    import sys
    from wideproof.sweeps import read_study, sweep
    if __name__ == "__main__":
        sweep(read_study(sys.argv[1]), sys.argv[2], workers=int(sys.argv[3]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_sweep_ends_with_the_same_bits(tmp_path, workers):
    text = TINY.replace("seed = 3", "seed = 40")
    (tmp_path / "study.toml").write_text(text)
    (tmp_path / "script.py").write_text(textwrap.dedent(SCRIPT))
    study = read_study(tmp_path / "study.toml")
    out = tmp_path / "out"
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "study.toml"), str(out), str(workers)]
    process = subprocess.Popen(command, start_new_session=True)
    finished = 0
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        finished = len(list((out / "tasks").glob("*.json"))) if (out / "tasks").exists() else 0
        if finished >= 10:
            break
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert finished >= 10
    stamps = {p.name: p.stat().st_mtime_ns for p in (out / "tasks").glob("*.json")}
    done = subprocess.run(command, timeout=240)
    assert done.returncode == 0
    for name, stamp in stamps.items():
        assert (out / "tasks" / name).stat().st_mtime_ns == stamp  # nothing ran twice
    whole = sweep(study, tmp_path / "whole")
    assert tree(out / "results.zarr") == tree(whole.folder / "results.zarr")


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced(study, unbroken, tmp_path, monkeypatch):
    """The first task's first attempt kills its process; the sweep still ends with the unbroken results."""
    flag = tmp_path / "died"
    monkeypatch.setenv("WIDEPROOF_TEST_FLAG", str(flag))
    monkeypatch.setattr(engines, "_attempt", _attempt_that_dies_once)
    done = sweep(study, tmp_path / "out", workers=2)
    assert flag.exists()
    assert not done.failed
    assert tree(done.folder / "results.zarr") == tree(unbroken.folder / "results.zarr")


def _attempt_that_dies_once(task, *_):
    from pathlib import Path

    flag = Path(os.environ["WIDEPROOF_TEST_FLAG"])
    if not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return engines.Outcome(task, engines.execute(task), 0.0)


@pytest.mark.slow
@pytest.mark.xdist_group("cluster")
def test_a_cluster_gives_the_same_bits_and_survives_a_worker(study, unbroken, tmp_path):
    distributed = pytest.importorskip("distributed")
    longer = study.model_copy(update={"axes": {"width": [4, 8], "seed": 40}})
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        killed = []

        def progress(now):
            if now.done == 5 and not killed:
                workers = list(cluster.scheduler_info["workers"].values())
                pids = distributed.Client(cluster.scheduler_address, set_as_default=False).run(os.getpid)
                killed.append(next(iter(pids.values())))
                os.kill(killed[0], signal.SIGKILL)
                assert len(workers) == 2

        done = sweep(longer, tmp_path / "out", cluster=cluster.scheduler_address, progress=progress)
    assert killed
    assert not done.failed
    whole = sweep(longer, tmp_path / "whole")
    assert tree(done.folder / "results.zarr") == tree(whole.folder / "results.zarr")


@pytest.mark.slow
def test_no_cluster_there(study, tmp_path):
    pytest.importorskip("distributed")
    with pytest.raises(InputError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        sweep(study, tmp_path / "out", cluster="tcp://127.0.0.1:9")


@pytest.mark.slow
@pytest.mark.xdist_group("cluster")
def test_a_cluster_that_goes_away(study, tmp_path):
    distributed = pytest.importorskip("distributed")
    longer = study.model_copy(update={"axes": {"width": [4, 8], "seed": 40}})
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:

        def progress(now):
            if now.done == 5:
                cluster.close()

        with pytest.raises(JobError, match=r"the cluster at tcp://.* went away: .*finished is kept"):
            sweep(longer, tmp_path / "out", cluster=cluster.scheduler_address, progress=progress)
    assert 5 <= len(list((tmp_path / "out" / "tasks").iterdir())) < 80
    assert not sweep(longer, tmp_path / "out").failed


def test_a_full_disk_keeps_what_is_finished(study, unbroken, tmp_path, monkeypatch):
    written, sync = [], os.fsync

    def full(descriptor):
        written.append(descriptor)
        if len(written) > 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"cannot write .*: No space left on device; free some space"):
        sweep(study, tmp_path / "out")
    monkeypatch.undo()
    assert all(path.name.endswith(".json") for path in (tmp_path / "out" / "tasks").iterdir())
    done = sweep(study, tmp_path / "out")
    assert 0 < done.kept < 4
    assert tree(done.folder / "results.zarr") == tree(unbroken.folder / "results.zarr")


def test_a_sweep_says_what_it_is_and_how_far(study, tmp_path):
    """Others can watch: the study and the progress lie in the folder, and a longer axis changes both."""
    short = study.model_copy(update={"axes": {"width": [0, 4], "seed": 1}})
    sweep(short, tmp_path / "out")
    noted = json.loads((tmp_path / "out" / "progress.json").read_text())
    assert (noted["done"], noted["failed"], noted["total"], noted["ended"]) == (1, 1, 2, True)
    assert len(noted["errors"]) == 1
    sweep(study.model_copy(update={"axes": {"width": [4], "seed": 2}}), tmp_path / "out")
    about = json.loads((tmp_path / "out" / "study.json").read_text())
    assert Study.model_validate(about["study"]).count == 2
    assert json.loads((tmp_path / "out" / "progress.json").read_text())["done"] == 2
