"""The bench without a page: what it shows is what the library computes, and no command ends it."""

import json
import math
import random
import string

import numpy as np
import pytest

from wideproof.certificates import certify
from wideproof.kernels import gram, predict
from wideproof.lab import bench as benches
from wideproof.lab.bench import Bench
from wideproof.lab.frames import parse
from wideproof.lab.looks import DRAWN
from wideproof.lab.settings import DataSettings, NetworkSettings, begin_run, build_network, read, ready_data
from wideproof.training import Recipe, train

SETTINGS = {"data": {"name": "blobs", "n": 8}, "networks": [{"width": 32, "depth": 1, "step": 0.4, "seed": 3}]}


class Heard(list):
    """What a bench has sent, read as a page reads it."""

    def __call__(self, message):
        self.append(parse(message))

    def of(self, kind, lane=0):
        return [(fields, arrays) for found, fields, arrays in self if found == kind and fields.get("lane", 0) == lane]


@pytest.fixture
def heard():
    return Heard()


@pytest.fixture
def bench(heard, tmp_path):
    made = Bench(heard, tmp_path / "uploads", tmp_path / "work")
    made.do({"do": "configure", "settings": SETTINGS})
    assert [kind for kind, *_ in heard] == ["busy", "data", "network", "forecast", "look", "field", "ready"]
    yield made
    made.close()


def library_run(steps):
    """The same run by the library alone: the same start, step size and data."""
    asked = read(SETTINGS)
    _, data = ready_data(asked.data, asked.networks[0].name)
    network = build_network(asked.networks[0], data)
    begun = begin_run(asked.networks[0], network, data)
    recipe = Recipe(step_size=begun.step_size, seed=3, steps=steps, record_every=1)
    return train(network, data, recipe)


def points(heard, lane=0):
    found = [arrays for _, arrays in heard.of("points", lane)]
    return np.concatenate([a["step"] for a in found]), np.concatenate([a["loss"] for a in found])


def test_the_losses_are_those_of_train(bench, heard):
    for steps in (1, 7, 30):
        bench.do({"do": "step", "steps": steps})
    at, loss = points(heard)
    run = library_run(38)
    np.testing.assert_array_equal(at, np.arange(38))
    np.testing.assert_array_equal(loss, run.records["loss"][:38].astype("f4"))


def test_what_a_look_shows(bench, heard):
    bench.do({"do": "step", "steps": 20})
    run = library_run(20)
    for (fields, arrays), params in zip(heard.of("look"), (run.initial, run.params), strict=True):
        attempt = certify(run.network, params, run.data, level="float64")
        matrix = np.asarray(gram(run.network, params, run.data.x).matrix)
        eigenvalues = np.linalg.eigvalsh(matrix)[::-1]
        assert fields["h"] == attempt.h
        assert fields["residual"] == pytest.approx(
            np.linalg.norm(run.data.y - run.network(params, run.data.x)), rel=1e-9
        )
        np.testing.assert_allclose(arrays["eigenvalues"], eigenvalues, rtol=1e-6)
        assert fields["largest"] == pytest.approx(eigenvalues[0], rel=1e-9)
        assert fields["top"] == pytest.approx(run.step_size * eigenvalues[0], rel=1e-9)
        size = np.sqrt(np.diag(matrix))
        np.testing.assert_allclose(arrays["gram"], matrix / np.outer(size, size), rtol=1e-5, atol=1e-6)
        assert fields["h"] == pytest.approx(fields["constant"] * fields["residual"] / fields["s"] ** 2)
    trained = run.network.trained_names
    moved = math.sqrt(sum(np.square(run.params[k] - run.initial[k]).sum() for k in trained))
    assert fields["moved"] == pytest.approx(moved, rel=1e-12)
    assert fields["step"] == 20


def test_the_forecast_is_that_of_the_gram_matrix_at_the_start(heard, bench):
    run = library_run(1)
    start = np.asarray(run.network(run.initial, run.data.x))
    course = predict(gram(run.network, run.initial, run.data.x).matrix, run.data.y, start, run.step_size)
    ((fields, arrays),) = heard.of("forecast")
    assert fields["origin"] == 0
    wanted = course.loss(arrays["step"].astype(int))
    np.testing.assert_allclose(arrays["loss"], wanted, rtol=1e-5, atol=1e-12)
    assert arrays["loss"][0] == np.float32(run.records["loss"][0])


def test_the_field_is_the_network_on_the_grid(bench, heard):
    from wideproof.data import apply

    bench.do({"do": "step", "steps": 5})
    axis = np.linspace(-1, 1, 41)
    grid = np.array([(x, y) for y in axis for x in axis])
    run = library_run(5)
    wanted = np.asarray(run.network(run.params, apply(run.data.preparation, grid)))
    np.testing.assert_allclose(heard.of("field")[-1][1]["network"], wanted, rtol=1e-5, atol=1e-6)


def test_the_twin_is_regression_with_the_limit(bench, heard):
    bench._growing[0][1].result()
    bench.turn()
    ((_, arrays),) = heard.of("twin")
    run = library_run(1)
    from wideproof.data import apply
    from wideproof.kernels import limit_gram

    kernel = np.asarray(limit_gram(run.network, run.data.x).matrix)
    power = np.eye(len(kernel)) - run.step_size * kernel  # one step of the residual, taken again and again
    residual = run.data.y.copy()
    losses, weights = [], np.zeros(len(kernel))
    for k in range(30):
        losses.append(np.square(residual).sum() / 2)
        if k < 10:
            weights += run.step_size * residual
        residual = power @ residual
    np.testing.assert_allclose(arrays["loss"][:30], losses, rtol=1e-5)
    bench.do({"do": "step", "steps": 10})
    axis = np.linspace(-1, 1, 41)
    grid = apply(run.data.preparation, np.array([(x, y) for y in axis for x in axis]))
    wanted = np.asarray(limit_gram(run.network, grid, run.data.x).matrix) @ weights
    np.testing.assert_allclose(heard.of("field")[-1][1]["twin"], wanted, rtol=1e-4, atol=1e-5)


def test_steering_to_the_same_step_size_changes_nothing(bench, heard):
    bench.do({"do": "step", "steps": 10})
    bench.do({"do": "steer", "lane": 0, "step": 0.4})
    bench.do({"do": "step", "steps": 10})
    _, loss = points(heard)
    np.testing.assert_allclose(loss, library_run(20).records["loss"][:20], rtol=1e-6)


def test_another_step_size_acts_and_ends_the_run_that_could_be_repeated(bench, heard):
    bench.do({"do": "step", "steps": 10})
    bench.do({"do": "steer", "lane": 0, "step": 0})
    assert heard.of("look")[-1][0]["pure"] is False
    assert bench.settings.networks[0].step == 0
    bench.do({"do": "step", "steps": 5})
    _, loss = points(heard)
    assert len(set(loss[10:].tolist())) == 1
    assert loss[10] == np.float32(library_run(10).loss)
    bench.do({"do": "prove", "lane": 0, "from_start": True})
    assert "press reset" in heard.of("error")[-1][0]["text"]


def test_moved_points_are_trained_on(bench, heard):
    bench.do({"do": "step", "steps": 10})
    x = bench.lanes[0].raw.x
    rows = [[*row, label] for row, label in zip(x, bench.lanes[0].raw.y, strict=True)]
    rows[0][:2] = [0.9, -0.9]
    bench.do({"do": "move", "points": rows})
    _, arrays = heard.of("data")[-1]
    np.testing.assert_allclose(arrays["points"][0], [0.9, -0.9], rtol=1e-6)
    assert bench.lanes[0].stepper.step == 10
    bench.do({"do": "step"})
    lane = bench.lanes[0]
    _, loss = points(heard)
    again = np.square(lane.data.y - np.asarray(lane.network(library_run(10).params, lane.data.x))).sum() / 2
    assert loss[10] == pytest.approx(again, rel=1e-6)


def test_equal_inputs_with_different_labels_have_an_eigenvalue_of_zero(bench, heard):
    rows = [[*row, label] for row, label in zip(bench.lanes[0].raw.x, bench.lanes[0].raw.y, strict=True)]
    before = heard.of("look")[-1][1]["eigenvalues"][-1]
    near = [list(row) for row in rows]
    near[1][:2] = [near[0][0] + 1e-3, near[0][1]]
    bench.do({"do": "move", "points": near})
    beside = heard.of("look")[-1][1]["eigenvalues"][-1]
    rows[1][:2] = rows[0][:2]
    assert rows[0][2] != rows[1][2]
    bench.do({"do": "move", "points": rows})
    eigenvalues, matrix = heard.of("look")[-1][1]["eigenvalues"], heard.of("look")[-1][1]["gram"]
    assert before > 100 * beside > 0
    assert len(eigenvalues) == 8
    assert eigenvalues[-1] == 0
    assert matrix.shape == (8, 8)
    np.testing.assert_array_equal(matrix[0], matrix[1])
    bench.do({"do": "run"})
    bench.turn()
    assert not heard.of("error")


def test_another_number_of_points_begins_anew(bench, heard):
    bench.do({"do": "step", "steps": 10})
    bench.do({"do": "move", "points": [[0.1, 0.2, 1], [0.5, -0.2, -1], [-0.5, 0, 1]]})
    assert bench.lanes[0].data.n == 3
    assert bench.lanes[0].stepper.step == 0
    bench.do({"do": "reset"})
    assert bench.lanes[0].data.n == 3


def test_two_networks_take_the_same_data(bench, heard):
    two = {**SETTINGS, "networks": [SETTINGS["networks"][0], {**SETTINGS["networks"][0], "seed": 4}]}
    bench.do({"do": "configure", "settings": two})
    bench.do({"do": "step", "steps": 4})
    first, second = points(heard, 0), points(heard, 1)
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1], library_run(4).records["loss"][:4].astype("f4"))
    assert (first[1] != second[1]).all()


def test_a_page_that_does_not_answer_costs_no_memory_and_misses_nothing(bench, heard, monkeypatch):
    monkeypatch.setattr(benches, "KEPT", 300)
    bench.owed = benches.OWED
    bench.running = True
    while bench.lanes[0].stepper.step < 2000:
        bench.turn()
        assert sum(len(at) for _, at, _ in bench._waiting) <= 300 + bench.lanes[0].stepper.longest
    assert not heard.of("points")
    bench.do({"do": "pause"})
    at, loss = points(heard)
    taken = bench.lanes[0].stepper.step
    assert at[-1] == taken - 1
    assert set(DRAWN[taken > DRAWN].tolist()) <= set(at.tolist())
    all_losses = library_run(taken).records["loss"].astype("f4")
    np.testing.assert_array_equal(loss, all_losses[at.astype(int)])


def test_the_frames_a_page_owes_are_counted(bench, heard):
    bench.do({"do": "run"})
    for _ in range(30):
        bench.turn()
    assert len(heard.of("points")) == benches.OWED
    bench.do({"do": "ack"})
    bench.turn()
    assert len(heard.of("points")) == benches.OWED + 1


def test_a_failure_while_it_runs_pauses_with_a_sentence(bench, heard, monkeypatch):
    def broken(self):
        raise np.linalg.LinAlgError("Eigenvalues did not converge\nand more")

    bench.do({"do": "run"})
    monkeypatch.setattr("wideproof.lab.lane.Lane.look", broken)
    bench.turn()
    assert heard.of("error")[-1][0]["text"] == "that did not work: Eigenvalues did not converge"
    assert heard[-1][0] == "paused"
    assert not bench.running


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"kind": "generator", "name": "/etc/passwd"}, "there is no generator"),
        ({"kind": "generator", "name": "http://evil.example/a.csv"}, "there is no generator"),
        ({"kind": "bundled", "name": "../secret.csv"}, "there is no bundled data set"),
        ({"kind": "file", "name": "../../etc/passwd"}, "not here any more"),
        ({"kind": "file", "name": "0123456789abcdef"}, "not here any more"),
        ({"kind": "generator", "name": "sphere:n=100000000,d=3,separation=0.1"}, "at most 5000 examples"),
        ({"kind": "generator", "name": "sphere:n=100,d=100000000,separation=0.1"}, "at most 5000 examples"),
        ({"points": [[0, 0, 1]] * 501}, "data.points"),
        ({"points": [[0, float("nan"), 1]] * 5}, "data.points"),
        ({"points": []}, "data.points"),
        ({"name": "\0"}, "there is no set of points"),
    ],
)
def test_data_that_are_refused(bench, heard, data, sentence):
    bench.do({"do": "configure", "settings": {"data": data}})
    assert sentence in heard.of("error")[-1][0]["text"]
    bench.do({"do": "step"})
    assert heard.of("points"), "what was there before goes on"


def test_a_network_that_is_too_large_is_refused(bench, heard):
    bench.do({"do": "configure", "settings": {"networks": [{"width": 8192, "depth": 30}]}})
    assert "at most 100,000,000 weights" in heard.of("error")[-1][0]["text"]


def anything(rng: random.Random, depth: int = 3):
    """A value that JSON can hold, or that Python reads from it."""
    leaf = [None, True, False, 0, -1, 1, 10**30, 10**400, 0.5, -1e308, math.inf, -math.inf, math.nan, "", "\0",
            "\ud800", "circles", "__class__", "x" * 300, "<script>", "0", "1e5"]  # fmt: skip
    kind = rng.randrange(10 if depth else 8)
    if kind < 8:
        return rng.choice([*leaf, "".join(rng.choices(string.printable, k=8))])
    if kind == 8:
        return [anything(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {rng.choice(["lane", "step", "data", "x"]): anything(rng, depth - 1) for _ in range(rng.randrange(3))}


def any_command(rng: random.Random):
    do = rng.choice(
        ["configure", "run", "pause", "step", "reset", "pace", "steer", "move", "prove", "ack", "choose", "?"]
    )
    command = {"do": do if rng.random() < 0.95 else anything(rng)}
    for key in ("lane", "step", "steps", "pace", "points", "from_start", "settings"):
        if rng.random() < 0.5:
            command[key] = anything(rng)
    if do in ("configure", "choose") and rng.random() < 0.8:  # settings that are right but for one
        data = {"name": "blobs", "n": 6}
        network = {"width": 16, "depth": 1}
        part = rng.choice([data, network])
        part[rng.choice([*data, *network, *DataSettings.model_fields, *NetworkSettings.model_fields])] = anything(rng)
        command["settings"] = {"data": data, "networks": [network]}
    if do == "move" and rng.random() < 0.5:
        command["points"] = [[rng.uniform(-1, 1), rng.uniform(-1, 1), anything(rng, 0)] for _ in range(6)]
    return command


def test_no_command_ends_the_bench(bench, heard, monkeypatch):
    monkeypatch.setattr("wideproof.lab.proofs.Proofs.ask", lambda *_: None)
    monkeypatch.setattr(Bench, "_grow", lambda *_: None)
    rng = random.Random(0)
    sentences = 0
    for _ in range(300):
        heard.clear()
        command = any_command(rng)
        bench.do(command)
        bench.turn()
        for fields, _ in heard.of("error"):
            sentences += 1
            assert 0 < len(fields["text"]) < 700, command
            assert "\n" not in fields["text"], command
            json.dumps(fields["text"]).encode()
    assert sentences > 100
    heard.clear()
    bench.do({"do": "configure", "settings": SETTINGS})
    bench.do({"do": "step", "steps": 4})
    np.testing.assert_array_equal(points(heard)[1], library_run(4).records["loss"][:4].astype("f4"))
