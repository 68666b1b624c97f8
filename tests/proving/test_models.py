"""Proofs from the weights of a model: as they are or polished, with targets as its outputs ask for."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

import wideproof as wp
from wideproof.errors import InputError
from wideproof.networks import Sketch
from wideproof.networks.exchange import Model, to_onnx
from wideproof.proving import Predictor, models

certify: Any = wp.certify  # the type of the proof depends on the model
FLOWERS = {"classes": ("setosa", "virginica"), "limit": 12, "prepare": "standardize"}
MOVED = {**FLOWERS, "polish": math.inf}


def model(outputs: int = 1) -> Model:
    sketch = Sketch(4)
    network = sketch.read_out(sketch.dense(sketch.input, 24, "tanh"), outputs)
    return Model(network, {name: np.asarray(w) for name, w in network.init(1).items()})


@pytest.fixture(scope="module")
def proof(tmp_path_factory):
    return certify(model(), "iris", folder=tmp_path_factory.mktemp("models") / "proof", **MOVED)


def test_weights_are_polished_and_the_proof_says_how_far(proof):
    assert proof.proved
    ((far, share),) = re.findall(r"at a distance of at most (\S+) from the given weights \((\S+) % of", proof.headline)
    assert proof.polished.moved < float(far) < 1.01 * (proof.polished.moved + proof.attempt.descent.radius)
    assert float(share) == pytest.approx(100 * proof.polished_share * float(far) / proof.polished.moved, rel=0.01)
    before, after = model().params, proof.certificate.params
    moved = np.sqrt(sum(float(np.sum((after[name] - before[name]) ** 2)) for name in before))
    size = np.sqrt(sum(float(np.sum(weight**2)) for weight in before.values()))
    assert proof.polished.moved == pytest.approx(moved, rel=1e-12)
    assert proof.polished_share == pytest.approx(moved / size, rel=1e-12)
    outputs = [np.asarray(proof.network(weights, proof.data.x)) for weights in (before, after)]
    change = float(np.abs(outputs[1] - outputs[0]).max())
    assert proof.notes[0].endswith("12 of 150 rows are used (classes and limit)")
    assert proof.notes[-1].endswith(f"no output by more than {change:.3g}")


def test_its_folder_predicts_and_reports(proof, tmp_path):
    rows = wp.load("iris", classes=FLOWERS["classes"], limit=12)
    truth = np.array(rows.classes)[rows.labels].tolist()
    assert proof.predict(rows.x).tolist() == truth
    assert Predictor.load(proof.folder).predict(rows.x).tolist() == truth
    assert "the given weights" in proof.save_report(tmp_path).read_text(encoding="utf-8")


def test_weights_that_pass_are_left_alone(proof):
    again = certify(Model(proof.network, dict(proof.certificate.params)), "iris", targets="one-hot", **FLOWERS)
    assert again.proved
    assert again.polished is None
    for name, weight in proof.certificate.params.items():
        np.testing.assert_array_equal(again.certificate.params[name], weight)


def test_a_little_polishing_is_said_in_passing(proof):
    near = {name: weight + 1e-3 * np.sign(weight) for name, weight in proof.certificate.params.items()}
    again = certify(Model(proof.network, near), "iris", targets="one-hot", polish=0.1, **FLOWERS)
    assert again.proved
    assert 0 < again.polished_share < 0.1
    assert again.headline.startswith(
        "An exact fit of the 12 rows of iris that are used exists at a distance of at most"
    )
    assert "from the given weights" in again.headline


def test_weights_are_not_polished_farther_than_allowed(proof):
    found = certify(model(), "iris", polish=0.01, **FLOWERS)
    assert not found.proved
    assert found.certificate is None
    assert found.polished is None
    assert found.attempt.obstacle.quantity == "polishing"
    assert found.attempt.obstacle.value == pytest.approx(proof.polished_share, rel=1e-6)


def test_nothing_moves_unless_that_is_asked_for():
    """All weights trained is not proved from there, the last layer alone is; and the weights are the model's."""
    found = certify(model(), "iris", **FLOWERS)
    assert found.proved
    assert found.polished is None
    assert found.headline.startswith(
        "Proved: from the given weights, gradient descent on its last layer alone with any"
    )
    assert found.certificate.graph.trained == ("W2", "b2")
    assert any(note.startswith("the proof is about the last layer alone; with all weights") for note in found.notes)
    for name, weight in model().params.items():
        np.testing.assert_array_equal(found.certificate.params[name], weight)


@pytest.mark.parametrize("polish", [-0.1, float("nan"), True, "0.1", None])
def test_a_share_is_no_less_than_zero(polish):
    with pytest.raises(InputError, match="polish must be a share of the weights' length, 0 or more"):
        certify(model(), "iris", polish=polish, **FLOWERS)


@pytest.mark.parametrize("argument", ["targets", "sharp"])
def test_a_word_that_is_no_choice_is_refused_by_name(argument):
    with pytest.raises(InputError, match=f"{argument} must be .* got 'perhaps'"):
        certify(model(), "iris", **{argument: "perhaps"}, **FLOWERS)


def test_a_file_is_the_same_as_the_model_in_it(proof, tmp_path):
    made = model()
    to_onnx(made.network, made.params, tmp_path / "model.onnx")
    found = certify(tmp_path / "model.onnx", "iris", **MOVED)
    assert found.proved
    assert found.headline.startswith("An exact fit of the 12 rows of iris that are used ")
    assert "from the weights of model.onnx" in found.headline
    assert "That training gets there is not proved." in found.headline
    assert found.certificate.claims == proof.certificate.claims


@pytest.mark.parametrize(("outputs", "targets", "values"), [(1, "signs", {-1, 1}), (2, "one-hot", {0, 1}),
                                                           (2, "signs", {-1, 1})])  # fmt: skip
def test_labels_are_coded_as_asked(outputs, targets, values):
    found = certify(model(outputs), "iris", targets=targets, **MOVED)
    assert found.proved
    assert set(np.unique(found.certificate.y)) == values
    assert found.certificate.y.shape == ((12,) if outputs == 1 else (12, 2))
    assert found.predict(wp.load("iris").x[:1]).tolist() == ["setosa"]


@pytest.mark.parametrize(("targets", "values"), [("signs", {-1, 1}), ("one-hot", {0, 1})])
def test_auto_takes_the_coding_that_the_outputs_are_closer_to(targets, values):
    fitted = certify(model(), "iris", targets=targets, **MOVED)
    again = certify(Model(fitted.network, dict(fitted.certificate.params)), "iris", **FLOWERS)
    assert set(np.unique(again.certificate.y)) == values
    assert again.polished is None


def test_only_the_named_weights_move():
    found = certify(model(), "iris", trained=["W1", "W2"], **MOVED)
    assert found.proved
    assert found.certificate.graph.trained == ("W1", "W2")
    np.testing.assert_array_equal(found.certificate.params["b1"], model().params["b1"])
    assert not np.array_equal(found.certificate.params["W1"], model().params["W1"])


def test_a_read_out_alone_is_linear_and_passes_from_anywhere():
    found = certify(model(), "iris", trained=["W2", "b2"], **FLOWERS)
    assert found.proved
    assert found.polished is None
    assert max(found.certificate.claims["lipschitz"]) < 1e-12


def test_rows_that_contradict_each_other_have_a_least_loss(rng):
    x = rng.standard_normal((5, 4))
    found = certify(
        model(), (np.vstack([x, x[:1]]), [1.0, 2.0, 3.0, 4.0, 5.0, 2.0]), task="regression", polish=math.inf
    )
    assert found.proved
    assert found.groups.least_loss[0] == pytest.approx(0.25)


@pytest.mark.slow
def test_images_may_come_as_arrays(rng):
    sketch = Sketch((1, 3, 3))
    network = sketch.read_out(sketch.conv(sketch.input, 4, 3, "softplus"), 1)
    table = rng.standard_normal((4, 1, 3, 3)), rng.standard_normal(4)
    found = certify(Model(network, network.init(0)), table, polish=math.inf)
    assert found.proved


def test_a_point_of_a_network_of_the_library_is_certified():
    data = wp.prepare(wp.load("iris", classes=FLOWERS["classes"], limit=12), "standardize")
    network = model().network
    point = wp.Problem(network, data).at(model().params)
    assert wp.certify(point, level="float64").anchor is not None
    said = wp.certify(point, wp.Logistic()).conclusion
    assert said is not None
    assert said.margin < 1
    with pytest.raises(InputError, match=re.escape("wp.Problem(network, data).at(params)")):
        wp.certify(network, "iris")


@pytest.mark.parametrize(("given", "options", "said"), [
    ((np.ones((3, 5)), [1.0, 2.0, 3.0]), {}, r"takes examples of shape \(4,\) and 'data' has \(5,\)"),
    ((np.eye(4), np.ones((4, 3))), {}, "the model has 1 outputs and 'data' has 3 targets"),
    ((np.eye(4), ["a", "b", "c", "a"]), {}, "the model has 1 outputs and 'data' has 3 classes"),
    ((np.eye(4), ["a", "b", "b", "a"]), {"targets": "dummy"}, "'auto', 'signs' or 'one-hot'"),
    ((np.eye(4), ["a", "b", "b", "a"]), {"trained": ["W9"]}, "there is no weight W9"),
])  # fmt: skip
def test_bad_input_is_one_sentence(tmp_path, given, options, said):
    with pytest.raises(InputError, match=said):
        certify(model(), given, folder=tmp_path / "proof", **options)
    assert not (tmp_path / "proof").exists()


def test_classes_the_other_way_round_are_noticed():
    """A model with one output whose signs are all wrong: the note says which class is which, and what to say."""
    data = wp.Dataset(np.eye(4), np.array([-1.0, 1.0, 1.0, 1.0]), "binary", classes=("benign", "malignant"))
    labels = np.array([0, 1, 1, 1])
    wrong = models._sides(np.array([[1.0], [-1.0], [-1.0], [-1.0]]), labels, data, 0.0, "-1 and 1")
    assert wrong == (
        "before any step the model has 0 of 4 rows on the right side, where the classes benign and malignant are "
        "-1 and 1: if it was trained with them the other way round, say classes malignant,benign"
    )
    right = models._sides(np.array([[-1.0], [1.0], [0.2], [-0.1]]), labels, data, 0.0, "-1 and 1")
    assert right.startswith("before any step the model has 3 of 4 rows")
    assert "other way" not in right
    several = models._sides(np.eye(4)[[0, 1, 1, 2]], labels, data, 0.5, "0 and 1")
    assert several == "before any step the model has 3 of 4 rows on the right side"


FAR = "say prepare='standardize' (--prepare standardize)"


def line(weight: float) -> tuple[wp.Network, dict[str, np.ndarray]]:
    """A network of one feature whose output is that feature times a number."""
    sketch = Sketch(1)
    network = sketch.read_out(sketch.dense(sketch.input, 1, "identity"), 1)
    return network, {"W1": np.eye(1), "b1": np.zeros(1), "W2": np.array([[weight]]), "b2": np.zeros(1)}


@pytest.mark.parametrize(("slope", "noticed"), [(-0.1, True), (0.1, False), (1.9, False), (2.1, True)])
@pytest.mark.parametrize("task", ["regression", "binary"])
def test_outputs_farther_from_the_targets_than_zero_are_noticed(slope, noticed, task):
    """Outputs that are the targets times s are as far as zero is at s = 0 and at s = 2."""
    network, params = line(slope)
    signs = np.array([-1.0, 1.0, 1.0])
    data = wp.Dataset(signs[:, None], signs, task)
    notes = models.coded(network, params, data, "signs")[1]
    assert any(FAR in note for note in notes) == noticed
    assert any("cross-entropy" in note for note in notes) == (noticed and task == "binary")


def test_prepared_inputs_need_no_such_advice():
    network, params = line(-50.0)
    data = wp.prepare(
        wp.Dataset(np.array([[1.0], [2.0], [4.0]]), np.array([1.0, 2.0, 4.0]), "regression"), "standardize"
    )
    assert models.coded(network, params, data, "auto")[1] == []


def test_the_advice_is_in_the_proof_and_the_coding_in_the_progress():
    told = []
    options = {**FLOWERS, "prepare": "none"}
    far = model()
    loud = Model(far.network, {**far.params, "b2": far.params["b2"] + 5.0})
    found = certify(loud, "iris", targets="one-hot", progress=lambda now: told.append(now.text), **options)
    assert any(FAR in note for note in found.notes)
    assert any("2 classes as 0 and 1 (setosa, virginica)" in text for text in told)
    assert not any(FAR in note for note in certify(loud, "iris", **FLOWERS).notes)
