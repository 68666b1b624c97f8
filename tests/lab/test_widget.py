"""The bench in a notebook: one module, messages both ways, a worker that ends, the losses of `train`."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wideproof as wp
from wideproof.errors import InputError
from wideproof.lab.frames import parse
from wideproof.lab.given import NAME, Given
from wideproof.lab.joined import MODULES, STATIC, module, plain
from wideproof.lab.settings import DataSettings, NetworkSettings, build_network, ready_data

pytest.importorskip("anywidget")

from wideproof.lab import widget

PATIENT = 240.0  # seconds: the machine may have other things to do
NETWORK = {"width": 32, "depth": 1}


# One module.


def test_the_module_stands_alone():
    text = module()
    assert not re.search(r'\bfrom "\.|\bimport\(', text)
    assert re.findall(r"^export .*$", text, re.MULTILINE) == ["export default { render };"]
    assert len(text.encode()) < 200_000


def test_every_module_that_the_bench_imports_is_in_it():
    for name in MODULES:
        for found in re.findall(r'^import .* from "\./(.+)";', (STATIC / name).read_text(), re.MULTILINE):
            assert MODULES.index(found) < MODULES.index(name), f"{name} needs {found} before it"


def test_no_two_modules_declare_the_same_name():
    declared = re.compile(r"^(?:async )?(?:function|class|const|let|var) (\{[^}]*\}|\w+)", re.MULTILINE)
    seen: dict[str, str] = {"STYLES": "joined.py"}
    for file in MODULES:
        text = plain((STATIC / file).read_text())
        for name in {one for found in declared.findall(text) for one in re.findall(r"\w+", found)}:
            assert name not in seen, f"{name} is declared by {seen[name]} and by {file}"
            seen[name] = file
    assert {"Bench", "Curves", "uPlot", "render"} <= set(seen)


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_module_parses(tmp_path: Path):
    path = tmp_path / "bench.mjs"
    path.write_text(module())
    done = subprocess.run(["node", "--check", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    path.write_text(module() + "\nconst Bench = 1;")  # the check can fail: a name twice is an error
    assert subprocess.run(["node", "--check", path], capture_output=True).returncode != 0


def test_styles_stay_in_the_element():
    """Variables are set on the page, or on the host of the element."""
    text = (STATIC / "lab.css").read_text()
    roots = re.findall(r"^\s*(:root.*?) \{", text, re.MULTILINE)
    assert len(roots) == 3
    assert all(":host" in root for root in roots)


# A name that is a package and a function.


@pytest.mark.parametrize(
    "code",
    [
        "import wideproof as wp; first = wp.lab; from wideproof.lab import serve; assert wp.lab is first",
        "from wideproof.lab import serve; import wideproof as wp",
        "from wideproof.lab.frames import frame; import wideproof as wp",
        "import wideproof as wp; from wideproof import lab; assert lab is wp.lab",
        "import wideproof.lab as first; import wideproof as wp; assert first is wp.lab",
    ],
)
def test_the_package_can_be_called(code: str):
    ending = "; assert callable(wp.lab) and callable(wp.lab.serve); assert 'jax' not in __import__('sys').modules"
    subprocess.run([sys.executable, "-c", code + ending], check=True)


def test_without_anywidget(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "wideproof.lab.widget")
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(InputError, match=r"needs anywidget.*pip install 'wideproof\[widget\]'"):
        wp.lab()


# What was given.


def test_given_things_go_through_files(tmp_path: Path):
    data = wp.prepare(wp.load("iris", limit=9), "whiten,sphere(2)")
    sketch = wp.Sketch(data.input_shape[0])
    network = sketch.read_out(sketch.dense(sketch.input, 8, "tanh"), 3)
    Given(data, network, {"networks": [{"width": 3}]}).save(tmp_path)
    found = Given.load(tmp_path)
    assert found.data is not None
    assert found.data.digest == data.digest
    assert found.network == network
    assert found.settings == {"networks": [{"width": 3}]}
    assert not list(tmp_path.glob("*.pkl"))


def test_a_given_network_is_taken_as_it_is_and_may_be_changed():
    data = wp.load("sphere:n=6,d=4,separation=0.3")
    network = wp.build("residual", (4,), (), width=16, depth=2, c_res=0.25)
    given = Given(data, network)
    asked = NetworkSettings(name=NAME, width=16, depth=2, activation=network.activation.name)  # pyright: ignore[reportAttributeAccessIssue]
    assert ready_data(DataSettings(kind=NAME), NAME, given=given)[1] is data
    assert build_network(asked, data, given) == network
    wider = build_network(asked.model_copy(update={"width": 64}), data, given)
    assert (wider.width, wider.c_res) == (64, 0.25)  # pyright: ignore[reportAttributeAccessIssue]


def test_a_network_of_another_shape_is_refused():
    with pytest.raises(InputError, match=r"takes examples of shape \(7,\), and these have \(4,\)"):
        wp.lab("sphere:n=6,d=4,separation=0.3", wp.build("deep-relu", (7,), (), width=8, depth=1))
    with pytest.raises(InputError, match="the examples are vectors, and this network takes images"):
        wp.lab("sphere:n=6,d=4,separation=0.3", "conv-residual")
    with pytest.raises(InputError, match="there is no network 'perceptron': choose one of fully-connected"):
        wp.lab("sphere:n=6,d=4,separation=0.3", "perceptron")
    with pytest.raises(InputError, match="a network is built for its data"):
        wp.lab(network=wp.build("deep-relu", (7,), (), width=8, depth=1))
    with pytest.raises(InputError, match=r"networks.0.width: Input should be greater than or equal to 1"):
        wp.lab("iris", width=0)
    assert not widget._OPEN


# A notebook without a notebook.


class Notebook:
    """What a page does: it hears frames, and sends commands."""

    def __init__(self, view: widget.View):
        self.view, self.heard = view, []
        view.send = self._comm  # pyright: ignore[reportAttributeAccessIssue]

    def _comm(self, content: Any, buffers: list[bytes]) -> None:
        assert content == {}
        kind, fields, arrays = parse(buffers[0])
        self.heard.append((kind, fields, arrays))
        if kind == "points":
            self.say("ack")

    def say(self, do: str, **fields: Any) -> None:
        self.view._handle_custom_msg({"do": do, **fields}, [])

    def wait(self, kind: str, fits: Callable[[dict[str, Any]], Any] = lambda fields: True) -> dict[str, Any]:
        end = time.monotonic() + PATIENT
        while time.monotonic() < end:
            for name, fields, _ in list(self.heard):
                assert name not in ("error", "lost") or kind == name, fields
                if name == kind and fits(fields):
                    return fields
            time.sleep(0.02)
        raise AssertionError(f"no {kind} in {[name for name, _, _ in self.heard]}")

    def open(self, view: str = "v") -> dict[str, Any]:
        self.say("hello", view=view)
        hello = self.wait("hello", lambda fields: fields["view"] == view)
        self.say("configure", settings=hello["settings"])
        self.wait("ready")
        return hello


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Notebook]]:
    views: list[widget.View] = []

    def open_(*arguments: Any, **options: Any) -> Notebook:
        views.append(wp.lab(*arguments, **options))
        return Notebook(views[-1])

    yield open_
    for view in views:
        view.close()


def test_a_whole_session(opened: Callable[..., Notebook], tmp_path: Path):
    """The user's data and network: the losses of `train`, a proof, kept; then nothing is left."""
    data = wp.prepare(wp.load("sphere:n=8,d=6,separation=0.5", seed=3), "unit")
    network = wp.build("fully-connected", data.input_shape, data.target_shape, width=256, depth=1, activation="tanh")
    page = opened(data, network, step=0.25, seed=5, folder=tmp_path / "proofs")
    hello = page.open()
    assert hello["given"] == {"name": data.name, "n": 8, "kind": "vectors"}
    assert next(iter(hello["networks"])) == NAME
    assert "conv-residual" not in hello["networks"]
    page.say("step", steps=20)
    page.wait("points")
    points = next(arrays for kind, _, arrays in page.heard if kind == "points")
    same = wp.train(network, data, wp.Recipe(constant=0.5, seed=5, record_every=1, steps=20))
    losses = np.asarray(same.history["loss"])[: len(points["loss"])]
    np.testing.assert_array_equal(points["loss"], losses.astype("f4"))

    page.say("run")
    page.wait("proof", lambda fields: fields.get("state") == "proved")
    proof = page.view.proof
    assert proof is not None
    assert (proof / "certificate").is_dir()
    page.say("keep", lane=0, folder=proof.name)
    kept = Path(page.wait("kept")["folder"])
    assert page.view.proof == kept
    assert kept.parent == tmp_path / "proofs"
    assert wp.Run.load(kept / "run").data.digest == data.digest
    page.say("keep", lane=0, folder="../..")
    assert page.wait("error") == {"text": "this proof is no longer there"}

    worker, work = page.view._worker, page.view._work
    assert worker is not None
    page.view.close()
    assert worker.process.poll() is not None
    assert not work.exists()
    assert kept.exists()


@pytest.mark.slow  # waits for a worker to be lost twice
def test_a_worker_that_is_lost_rests_or_comes_back(opened: Callable[..., Notebook], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(widget, "PATIENCE", 0.1)
    page = opened("sphere:n=4,d=3,separation=0.5", **NETWORK)
    page.open()
    first = page.view._worker
    assert first is not None
    os.kill(first.process.pid, signal.SIGKILL)
    assert "killed by SIGKILL" in page.wait("lost")["text"]
    page.heard.clear()
    page.say("reset")
    page.wait("ready")
    second = page.view._worker
    assert second is not None
    assert second is not first

    page.say("leave", view="v")  # nobody looks on
    second.process.wait(PATIENT)
    page.heard.clear()
    changed = page.view.settings["networks"][0] | {"width": 16}
    page.say("configure", settings={**page.view.settings, "networks": [changed]})
    assert page.open("w")["settings"]["networks"][0]["width"] == 16


@pytest.mark.slow  # a process of its own
def test_the_worker_ends_with_the_kernel(tmp_path: Path):
    code = (
        "import os, signal, sys, wideproof as wp\n"
        "view = wp.lab('sphere:n=4,d=3,separation=0.5', width=8, depth=1)\n"
        "print(view._worker.process.pid, view._work.parent, flush=True)\n"
        "if sys.argv[1] == 'kill': os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    for how in ("leave", "kill"):
        done = subprocess.run(
            [sys.executable, "-c", code, how],
            capture_output=True,
            text=True,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )
        pid, workshop = done.stdout.split()
        end = time.monotonic() + PATIENT
        while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
            time.sleep(0.1)
        assert not Path(f"/proc/{pid}").exists(), how
        assert not Path(workshop).exists(), how


def test_messages_that_are_no_commands(opened: Callable[..., Notebook]):
    page = opened("sphere:n=4,d=3,separation=0.5", **NETWORK)
    page.view._handle_custom_msg(["run"], [])
    page.view._handle_custom_msg({"do": "move", "points": "x" * widget.MOST_COMMAND}, [])
    assert [kind for kind, _, _ in page.heard] == ["error", "error"]
    page.heard.clear()
    page.view._handle_custom_msg({"do": "dance"}, [])
    assert page.wait("error") == {"text": "the bench does not know the command 'dance'"}


def test_nothing_given_is_the_whole_bench(opened: Callable[..., Notebook]):
    page = opened(network="deep-relu", width=64, step=0.9)
    page.say("hello", view="v")
    hello = page.wait("hello", lambda fields: fields["view"] == "v")
    assert hello["given"] is None
    assert hello["settings"]["data"]["kind"] == "points"
    assert {key: hello["settings"]["networks"][0][key] for key in ("name", "width", "step")} == {
        "name": "deep-relu", "width": 64, "step": 0.9}  # fmt: skip
    assert "elman-rnn" in hello["networks"]


def test_a_large_table_begins_with_its_first_rows(opened: Callable[..., Notebook], rng: np.random.Generator):
    import pandas as pd

    frame = pd.DataFrame(rng.standard_normal((900, 3)), columns=["a", "b", "c"])
    assert opened(frame, target="c").view.settings["data"]["n"] == widget.FIRST
    assert opened(frame, target="c", limit=700).view.settings["data"]["n"] == 700


# What a saved notebook shows.


def test_a_saved_notebook_keeps_a_picture_of_the_start():
    """The facts are the library's, the pictures are those of the Gram matrix and of the loss that it predicts."""
    from wideproof.cards import heat
    from wideproof.certificates import Problem, certify
    from wideproof.kernels import gram

    data = wp.prepare(wp.load("iris", classes=("setosa", "virginica"), limit=8), "standardize,sphere")
    network = wp.build("fully-connected", data.input_shape, data.target_shape, width=16, depth=1, activation="tanh")
    view = wp.lab(data, network, scale=0.5)
    try:
        bundle, _ = view._repr_mimebundle_()
    finally:
        view.close()
    assert {"text/html", "text/plain", "application/vnd.jupyter.widget-view+json"} == set(bundle)
    text = bundle["text/html"]
    params = {name: np.asarray(weight, np.float64) for name, weight in network.init(0).items()}
    params["a"] = 0.5 * params["a"]
    attempt = certify(Problem(network, data).at(params), level="float64")
    assert f"{attempt.h:.3g}; below 0.5" in text
    assert "8 examples" in text
    matrix = np.asarray(gram(network, params, data.x).matrix)
    size = np.sqrt(np.diagonal(matrix))
    assert heat(matrix / np.outer(size, size), "Gram matrix") in text
    assert text.count("<polyline") == 1
    assert "script" not in text


def test_a_bench_without_a_picture_still_shows_itself(monkeypatch: pytest.MonkeyPatch):
    def broken(*_: Any) -> str:
        raise ValueError("no picture")

    monkeypatch.setattr(widget, "still", broken)
    view = wp.lab("iris", limit=6)
    try:
        bundle, _ = view._repr_mimebundle_()
    finally:
        view.close()
    assert "text/html" not in bundle
    assert "application/vnd.jupyter.widget-view+json" in bundle
