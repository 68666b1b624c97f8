"""Heads of ONNX files: what is before them may be anything that can be evaluated; what is proved is about the head."""

import hashlib
import json
import math

import numpy as np
import onnx
import pytest

import wideproof as wp
from tests.networks.exchange.making import draw, model
from wideproof.certificates import load_certificate
from wideproof.errors import InputError
from wideproof.networks.exchange import cut_head, from_onnx
from wideproof.proving import Predictor

TENSORS = draw(3, A=(4, 16), a=(16,), B=(16, 12), b=(12,), C=(12, 3), c=(3,)) | {
    "g": np.ones(16, np.float32), "z": np.zeros(16, np.float32)
}  # fmt: skip
BACKBONE = [
    ("Gemm", "x A a", "h"), ("LayerNormalization", "h g z", "n"), ("Softmax", "n", "s", {"axis": -1}),
    ("Mul", "n s", "m"), ("Sin", "m", "f"),
]  # fmt: skip
HEAD = [("Gemm", "f B b", "k"), ("Tanh", "k", "l"), ("Gemm", "l C c", "y")]


def file(tmp_path, steps=(*BACKBONE, *HEAD), tensors=TENSORS, name="model.onnx", **more):
    onnx.save(model(list(steps), tensors, **more), tmp_path / name)
    return tmp_path / name


def features(x):
    """The backbone by hand, in NumPy."""
    t = {key: np.asarray(value, np.float64) for key, value in TENSORS.items()}
    h = x @ t["A"] + t["a"]
    n = (h - h.mean(1, keepdims=True)) / np.sqrt(h.var(1, keepdims=True) + 1e-5)
    e = np.exp(n - n.max(1, keepdims=True))
    return np.sin(n * e / e.sum(1, keepdims=True))


def head_by_hand(f):
    t = {key: np.asarray(value, np.float64) for key, value in TENSORS.items()}
    return np.tanh(f @ t["B"] + t["b"]) @ t["C"] + t["c"]


TENSORS["c"] = (
    TENSORS["c"] - head_by_hand(features(np.random.default_rng(5).normal(size=(40, 4)))).mean(axis=0)
).astype(np.float32)  # every class occurs


@pytest.mark.parametrize("layer", ["B", "n_k", "k", "b"])
def test_the_head_and_its_features_are_the_model(tmp_path, rng, layer):
    """A node, its value, a weight; the file as a whole cannot be read."""
    x, place = rng.normal(size=(70, 4)), file(tmp_path)
    with pytest.raises(InputError, match="Softmax"):
        from_onnx(place)
    found = cut_head(place, layer, x)
    np.testing.assert_allclose(found.features, features(x), rtol=1e-12, atol=1e-14)
    ours = np.asarray(found.model.network(found.model.params, found.features))
    np.testing.assert_allclose(ours, head_by_hand(features(x)), rtol=1e-11)
    assert found.features.dtype == np.float64
    assert found.evaluator == "ONNX's reference evaluator with its constants and inputs in float64"
    assert sorted(found.model.params) == ["B", "C", "b", "c"]


def test_a_later_layer_and_the_very_first(tmp_path, rng):
    x, place = rng.normal(size=(5, 4)), file(tmp_path)
    last = cut_head(place, "C", x)
    assert sorted(last.model.params) == ["C", "c"]
    t = {key: np.asarray(value, np.float64) for key, value in TENSORS.items()}
    np.testing.assert_allclose(last.features, np.tanh(features(x) @ t["B"] + t["b"]), rtol=1e-11)
    plain = file(tmp_path, [("Gemm", "x A a", "h"), ("Tanh", "h", "f"), *HEAD], name="plain.onnx")
    first = cut_head(plain, "A", x)
    np.testing.assert_array_equal(first.features, x)
    assert first.evaluator == "nothing: the table itself"


def test_weights_of_a_module_by_their_prefix(tmp_path, rng):
    """PyTorch writes `fc.weight`, transposed, and nodes `/fc/Gemm`."""
    tensors = TENSORS | {"fc.weight": TENSORS["B"].T.copy(), "fc.bias": TENSORS["b"]}
    steps = [*BACKBONE, ("Gemm", "f fc.weight fc.bias", "k", {"transB": 1}), *HEAD[1:]]
    found = cut_head(file(tmp_path, steps, tensors), "fc", rng.normal(size=(5, 4)))
    assert sorted(found.model.params) == ["C", "c", "fc.bias", "fc.weight"]
    made = model([*BACKBONE, *HEAD], TENSORS)
    for node in made.graph.node:
        node.name = {"k": "/fc/Gemm"}.get(node.output[0], f"/back/{node.output[0]}")
    onnx.save(made, tmp_path / "named.onnx")
    assert cut_head(tmp_path / "named.onnx", "fc", rng.normal(size=(5, 4))).features.shape == (5, 16)


def test_images_blocks_and_a_fixed_batch(tmp_path, rng):
    """A head that begins with positions; rows that do not fill the last batch."""
    tensors = draw(1, K=(3, 1, 3, 3), k=(3,), L=(2, 3, 1, 1), l=(2,), V=(32, 3), c=(3,)) | {"s": np.array([-1, 32])}
    steps = [
        ("Conv", "x K k", "a", {"pads": [1, 1, 1, 1]}), ("Sin", "a", "f"), ("Conv", "f L l", "g"), ("Tanh", "g", "h"),
        ("Reshape", "h s", "r"), ("Gemm", "r V c", "y"),
    ]  # fmt: skip
    x = rng.normal(size=(67, 16))
    free = cut_head(file(tmp_path, steps, tensors, shape=("N", 1, 4, 4)), "L", x)
    fixed = cut_head(file(tmp_path, steps, tensors, shape=(6, 1, 4, 4), name="fixed.onnx"), "L", x)
    unknown = cut_head(file(tmp_path, steps, tensors, shape=("N", 1, "h", "w"), name="open.onnx"), "L", x, (1, 4, 4))
    assert free.features.shape == (67, 48)
    for other in (fixed, unknown):
        np.testing.assert_allclose(other.features, free.features, rtol=1e-13, atol=1e-14)
    pad = np.pad(x.reshape(67, 4, 4), ((0, 0), (1, 1), (1, 1)))
    kernel = np.asarray(tensors["K"], np.float64)[0, 0]
    one = sum(kernel[i, j] * pad[:, i : i + 4, j : j + 4] for i in range(3) for j in range(3)) + float(tensors["k"][0])
    np.testing.assert_allclose(free.features.reshape(67, 3, 16)[:, 0], np.sin(one).reshape(67, 16), rtol=1e-12)


def test_tokens_are_whole_numbers(tmp_path, rng):
    tensors = TENSORS | {"E": rng.normal(size=(7, 4)).astype(np.float32)}
    steps = [("Gather", "E x", "e"), ("ReduceMean", "e", "f", {"axes": [1], "keepdims": 0}), ("Gemm", "f A a", "y")]
    place = file(tmp_path, steps, tensors, shape=("N", 5), kind=onnx.TensorProto.INT64, opset=17)
    x = rng.integers(0, 7, size=(9, 5)).astype(float)
    found = cut_head(place, "A", x)
    np.testing.assert_allclose(found.features, tensors["E"].astype(float)[x.astype(int)].mean(axis=1), rtol=1e-12)
    with pytest.raises(InputError, match="of whole numbers, and the rows are not"):
        cut_head(place, "A", x + 0.5)


def test_what_float64_cannot_do_is_done_in_the_models_own_types(tmp_path, rng):
    """Quantized weights have scales in float32: the features are what the model has."""
    tensors = TENSORS | {"q": np.array([[3, -2]] * 4, np.int8), "u": np.float32(0.1), "o": np.int8(0),
                         "V": TENSORS["C"][:2]}  # fmt: skip
    steps = [("DequantizeLinear", "q u o", "w"), ("MatMul", "x w", "f"), ("MatMul", "f V", "y")]
    found = cut_head(file(tmp_path, steps, tensors), "V", x := rng.normal(size=(5, 4)))
    assert found.evaluator == "ONNX's reference evaluator in the model's own types"
    expected = x.astype(np.float32) @ (np.array([[3, -2]] * 4) * np.float32(0.1)).astype(np.float32)
    np.testing.assert_allclose(found.features, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("layer", "steps", "words"),
    [
        ("D", [*BACKBONE, *HEAD], "no layer 'D': give a node, a value or a weight, such as A, g, B, C"),
        ("", [*BACKBONE, *HEAD], "no layer ''"),
        ("m", [*BACKBONE, *HEAD], "reads 2 values, n, s: a head begins where it is one"),
        ("B", [*BACKBONE, *HEAD[:2], ("Add", "l p", "l2"), ("Gemm", "x D", "p"), ("Gemm", "l2 C c", "y")], "past f"),
        ("B", [*BACKBONE, ("Gemm", "f B b", "k"), ("Gemm", "f A2 c", "y")], "no output of the model depends on"),
        ("B", [*BACKBONE[:-1], ("custom:Odd", "m", "f"), *HEAD], "cannot compute what stands before 'B'"),
        ("B", [*BACKBONE, ("Gemm", "f B b", "k"), ("Sin", "k", "l"), ("Softmax", "l", "q"), ("Gemm", "q C c", "y")],
         "Softmax"),
        ("B", [*BACKBONE[:-1], ("Log", "m", "f"), *HEAD], "row 0 has a feature before 'B' that is not finite"),
    ],
)  # fmt: skip
def test_what_cannot_be_cut_is_said(tmp_path, rng, layer, steps, words):
    order = sorted(steps, key=lambda step: step[2] in ("l2", "y")) if any(s[2] == "p" for s in steps) else steps
    place = file(tmp_path, order, TENSORS | draw(1, D=(4, 12), A2=(16, 3)))
    with pytest.raises(InputError, match=words):
        cut_head(place, layer, rng.normal(size=(5, 4)))


def test_a_network_of_the_library_has_no_head_to_cut(rng):
    sketch = wp.Sketch(4)
    network = sketch.read_out(sketch.dense(sketch.input, 8, "tanh"), 1)
    with pytest.raises(InputError, match="head is for an ONNX file or a PyTorch module, got Model"):
        wp.certify(wp.Model(network, network.init(0)), (rng.normal(size=(6, 4)), np.arange(6.0)), head="W1")


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """Rows with the labels that the model gives them."""
    place, x = file(tmp_path_factory.mktemp("head")), np.random.default_rng(5).normal(size=(40, 4))
    return place, x, [("no", "yes", "maybe")[k] for k in head_by_hand(features(x)).argmax(axis=1)]


def test_the_head_is_proved_on_its_features(labelled, tmp_path):
    place, x, labels = labelled
    found = wp.certify(place, (x, labels), head="B", loss="cross_entropy", classes=("no", "yes", "maybe"),
                       folder=tmp_path / "p")  # fmt: skip
    assert found.proved
    assert found.headline.startswith("Proved of the head 'B' of model.onnx, with nothing moved: the mean cross-entropy")
    assert " rows of the features of " in found.headline
    stored = load_certificate(tmp_path / "p" / "certificate")
    np.testing.assert_allclose(stored.x, features(x), rtol=1e-12, atol=1e-14)
    origin = json.loads((tmp_path / "p" / "features.json").read_text())
    digest = hashlib.sha256(stored.x.astype("<f8").tobytes()).hexdigest()
    assert origin["features_sha256"] == digest
    assert origin["sha256"] == hashlib.sha256(place.read_bytes()).hexdigest()
    assert (origin["head"], origin["shape"]) == ("B", [40, 16])
    (note,) = [note for note in found.notes if digest in note]
    assert "the proof is about the head on these numbers, and says nothing about how they were computed" in note
    assert isinstance(found, wp.LossProof)
    f = head_by_hand(features(x))
    q = np.array([("no", "yes", "maybe").index(name) for name in labels])
    now = float(np.mean(np.log(np.exp(f - f[np.arange(40), q][:, None]).sum(axis=1))))
    assert now <= found.found.facts.loss <= now * 1.01
    assert found.predict(features(x)).tolist() == labels
    again = Predictor.load(tmp_path / "p")
    assert again.predict(features(x)).tolist() == labels
    with pytest.raises(InputError, match="16 inputs are no columns of a table"):
        again.predict("table.csv")
    with pytest.raises(InputError, match="another problem"):  # other features are another problem
        wp.certify(place, (x + 1e-9, labels), head="B", loss="cross_entropy", classes=("no", "yes", "maybe"),
                   folder=tmp_path / "p")  # fmt: skip


def test_squares_on_features(labelled, tmp_path):
    place, x, _ = labelled
    found = wp.certify(place, (x[:12], head_by_hand(features(x[:12]))), head="C", task="regression", loss="squared")
    assert found.proved, found
    assert found.headline.startswith("Proved: from the head 'C' of model.onnx, gradient descent")
    assert not math.isinf(found.attempt.h)


def test_a_changed_feature_is_caught(labelled, tmp_path):
    """The digest of the features is that of the certificate: a number that was changed is found out."""
    place, x, labels = labelled
    wp.certify(place, (x, labels), head="B", loss="cross_entropy", classes=("no", "yes", "maybe"),
               folder=tmp_path / "p")  # fmt: skip
    stored = load_certificate(tmp_path / "p" / "certificate")
    origin = json.loads((tmp_path / "p" / "features.json").read_text())
    changed = stored.x.copy()
    changed[3, 5] = np.nextafter(changed[3, 5], 1)
    assert hashlib.sha256(changed.tobytes()).hexdigest() != origin["features_sha256"]
    assert wp.verify(tmp_path / "p" / "certificate").answer == "proved"
