"""The bench without a page: what it shows is what the library computes."""

import math

import numpy as np
import pytest

from tests.lab.benching import SETTINGS, library_run, points
from wideproof.certificates import Problem, certify
from wideproof.data import apply
from wideproof.kernels import gram, limit_gram, predict
from wideproof.lab import bench as benches
from wideproof.lab.looks import DRAWN


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
        attempt = certify(Problem(run.network, run.data).at(params), level="float64")
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
    np.testing.assert_array_equal(loss, library_run(20).records["loss"][:20].astype("f4"))


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
