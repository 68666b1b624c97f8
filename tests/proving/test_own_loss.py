"""Models in their own loss: the guess, what is true at the weights, how far it goes, and classes in another order."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import wideproof as wp
from wideproof.errors import InputError
from wideproof.networks import Sketch
from wideproof.networks.exchange import Model
from wideproof.proving import Predictor, losses

certify: Any = wp.certify  # the type of the proof depends on the model
NAMES = ("no", "yes", "maybe")


def model(outputs: int, activation: str = "relu", notes: tuple[str, ...] = ()) -> Model:
    sketch = Sketch(3)
    network = sketch.read_out(sketch.dense(sketch.input, 12, activation), outputs)
    return Model(network, {name: np.asarray(a) for name, a in network.init(2).items()}, notes)


def table(given: Model, rows: int = 20, order: tuple[int, ...] | None = None) -> tuple[np.ndarray, list[str]]:
    """Rows that the model has right; or, in another order of the classes, as it would have them."""
    x = np.random.default_rng(0).standard_normal((rows, 3))
    f = np.asarray(given.network(given.params, x)).reshape(rows, -1)
    which = (f[:, 0] > 0).astype(int) if f.shape[1] == 1 else f.argmax(axis=1)
    count = max(2, f.shape[1])
    return x, [NAMES[(order or range(count))[k]] for k in which]


SOFTMAX = ("Softmax 'p' at the end is left out: the outputs are logits",)
SIGMOID = ("Sigmoid 'p' at the end is left out: the outputs are logits",)


@pytest.mark.parametrize(("outputs", "notes"), [(1, SIGMOID), (3, SOFTMAX)])
def test_a_classifier_is_proved_in_its_own_loss_where_it_is(tmp_path, outputs, notes):
    given = model(outputs, notes=notes)
    x, labels = table(given)
    found = certify(given, (x, labels), classes=NAMES[: max(2, outputs)], folder=tmp_path / "proof")
    assert isinstance(found, wp.LossProof)
    assert found.proved
    assert bool(found.answer)
    assert found.loss == ("logistic" if outputs == 1 else "cross_entropy")
    assert found.headline.startswith("Proved of the given weights, with nothing moved: the mean ")
    assert "all 20 rows are right" in found.headline
    assert "and in the end to 0" in found.headline
    assert any(f"the model ends in a {notes[0].split()[0]}" in note for note in found.notes)
    assert found.certificate is not None
    assert all(np.array_equal(found.certificate.params[name], given.params[name]) for name in given.params)
    assert wp.verify(tmp_path / "proof" / "certificate").answer == "proved"
    assert found.predict(x[:5]).tolist() == labels[:5]
    assert Predictor.load(tmp_path / "proof").predict(x).tolist() == labels
    assert found.headline.split(":")[0] in found.save_report().read_text(encoding="utf-8").replace("\n", " ")
    stated = json.loads(json.dumps(found.to_dict()))
    assert stated["proved"]
    assert stated["facts"]["right"] == 20
    assert repr(found).startswith("<LossProof: Proved")


@pytest.mark.parametrize(("outputs", "order", "said"), [(1, (1, 0), "yes,no"), (3, (1, 2, 0), "yes,maybe,no")])
def test_classes_in_another_order_are_said_first(outputs, order, said):
    given = model(outputs, notes=SOFTMAX)
    x, labels = table(given, order=order)
    found = certify(given, (x, labels), classes=NAMES[: max(2, outputs)])
    assert not found.proved
    assert found.certificate is None
    assert found.headline.startswith("0 of 20 rows are right, and all of them with the classes in another order: ")
    assert found.headline.endswith(f"say classes {said}.")
    again = certify(given, (x, labels), classes=tuple(said.split(",")))
    assert again.proved
    assert again.found.facts.right == 20


def test_rows_that_are_merely_wrong_are_no_other_order():
    data = wp.from_labels(np.eye(4), [0, 1, 2, 0], name="data")
    assert losses.reversed_classes(np.eye(3)[[1, 2, 0, 2]], data) == ()
    assert losses.reversed_classes(np.eye(3)[[1, 2, 1, 1]], data) == ()
    assert losses.reversed_classes(np.eye(3)[[1, 2, 0, 1]], data) == ("2", "0", "1")


def test_wrong_rows_are_counted_and_the_rest_is_still_proved():
    given = model(1, notes=SIGMOID)
    x, labels = table(given)
    labels[0] = {"no": "yes", "yes": "no"}[labels[0]]
    found = certify(given, (x, labels), classes=("no", "yes"))
    assert found.proved
    assert "at least 19 of 20 rows are right" in found.headline


def test_where_nothing_goes_on_the_facts_are_proved():
    """Features that are all alike: the loss is the least there is, and that is said after what is true."""
    given = model(1, notes=SIGMOID)
    params = {name: np.zeros_like(a) for name, a in given.params.items()}
    params["b1"] += 1.0
    still = Model(given.network, params, SIGMOID)
    x, _ = table(given, rows=4)
    found = certify(still, (x, ["no", "yes", "no", "yes"]), classes=("no", "yes"))
    assert not found.proved
    assert found.certificate is not None
    assert found.certificate.theorem == "fit"
    assert found.verdict is not None
    assert found.verdict.answer == "proved"
    assert "at least 0 of 4 rows are right" in found.headline
    assert "That gradient descent goes on from there is not proved" in found.headline
    assert found.exit_code == 2


def test_numbers_that_the_last_layer_cannot_fit_get_the_loss_that_it_reaches():
    given = model(1, "tanh")
    rng = np.random.default_rng(1)
    found = certify(given, (rng.standard_normal((30, 3)), rng.standard_normal(30)), task="regression")
    assert isinstance(found, wp.LossProof)
    assert found.proved
    assert found.loss == "squared"
    assert found.found.epsilon < found.found.facts.loss
    assert "half the sum of squares on the 30 rows of data is at most" in found.headline
    assert any(note.startswith("an exact fit is not proved") for note in found.notes)


def test_numbers_that_it_can_fit_are_fitted_exactly():
    given = model(1, "tanh")
    rng = np.random.default_rng(1)
    found = certify(given, (rng.standard_normal((6, 3)), rng.standard_normal(6)), task="regression")
    assert isinstance(found, wp.Proof)
    assert found.proved
    assert found.headline.startswith("Proved: from the given weights, gradient descent on its last layer alone")
    assert any(note.startswith("half the sum of squares at these weights is") for note in found.notes)


def guess(given: Model, x: np.ndarray, labels: list[str], loss: str = "auto") -> str:
    data = wp.from_labels(x, labels, name="data")
    return losses.guessed(loss, given, given.network, data)[0]


def test_the_loss_is_guessed_by_the_end_then_by_the_outputs():
    ends = "the network ends at 'f': what turns it into labels (ArgMax) is left out"
    for outputs, own in ((1, "logistic"), (3, "cross_entropy")):
        given = model(outputs)
        x, labels = table(given)
        small, large = ({k: a * (s if k in ("W2", "b2") else 1) for k, a in given.params.items()} for s in (0.1, 30))
        assert guess(Model(given.network, small), x, labels) == "squared"
        assert guess(Model(given.network, small, SOFTMAX), x, labels) == own
        assert guess(Model(given.network, small, (ends,)), x, labels) == own
        assert guess(Model(given.network, large), x, labels) == own
        assert guess(Model(given.network, large), x, labels, "squared") == "squared"
        assert guess(Model(given.network, small), x, labels, own) == own
    assert guess(Model(given.network, small, SIGMOID), x, labels) == "squared"


@pytest.mark.parametrize(("options", "said"), [
    ({"targets": "signs"}, "is a coding for squares"), ({"polish": 0.1}, "polishing is for squares"),
    ({"trained": ["W1"]}, r"about the last layer \(W2, b2\)"), ({"loss": "logistic"}, "take 'cross_entropy'"),
    ({"loss": "hinge"}, "loss must be"),
])  # fmt: skip
def test_what_does_not_go_together_is_refused(options, said):
    given = model(3, notes=SOFTMAX)
    with pytest.raises(InputError, match=said):
        certify(given, table(given), **{"loss": "cross_entropy", **options})


def test_numbers_have_no_cross_entropy():
    given = model(1)
    with pytest.raises(InputError, match="needs class labels"):
        certify(given, (np.eye(3), [0.5, 1.5, 2.25]), task="regression", loss="logistic")


def test_two_outputs_take_two_classes():
    given = model(2, notes=SOFTMAX)
    x, labels = table(given)
    found = certify(given, (x, labels), classes=("no", "yes"))
    assert found.proved
    assert found.loss == "cross_entropy"
    assert found.predict(x[:3]).tolist() == labels[:3]
