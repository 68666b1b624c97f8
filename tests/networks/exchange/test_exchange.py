"""Files out and in again, ends that are cut off, names of weights."""

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import cast

import numpy as np
import onnx
import pytest
from safetensors.numpy import load_file

import wideproof as wp
from tests.cases import NETWORKS, OWN
from tests.networks.exchange.making import MLP, draw, mlp, model, rows
from tests.networks.exchange.test_operators import CASES, f32, ints
from wideproof.errors import InputError
from wideproof.networks import ACTIVATIONS, Described, Graph, Network, Sketch
from wideproof.networks.base import Gaussian
from wideproof.networks.exchange import agreement, from_onnx, to_onnx, to_safetensors
from wideproof.networks.exchange.agreement import reference
from wideproof.networks.graph import Node, Term
from wideproof.networks.maps import Patches

FORWARD = {name: network for name, network in {**NETWORKS, **OWN}.items() if not network.graph.times}
SAMPLES = {f"sketch-{name}": name for name in ACTIVATIONS}


def batch(network: Network) -> np.ndarray:
    return np.random.default_rng(5).standard_normal((4, *network.input_shape))


def outputs(network: Network, params: Mapping, x: np.ndarray) -> np.ndarray:
    return np.asarray(network(params, x)).reshape(len(x), -1)


def check_round_trip(network: Network, path) -> wp.Model:
    params, x = network.init(3), batch(network)
    to_onnx(network, params, path)
    wanted = outputs(network, params, x)
    scale = np.abs(wanted).max()
    assert np.abs(reference(path, onnx.load(path).graph.output[0].name, x) - wanted).max() < 1e-12 * scale
    again = from_onnx(path, check=x)
    assert np.abs(outputs(again.network, again.params, x) - wanted).max() < 1e-12 * scale
    assert set(again.network.trained_names) == set(network.trained_names) - lost(network)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    return again


def lost(network: Network) -> set[str]:
    """Return the weights that no output depends on: a file does not have them."""
    graph, seen, rest = network.graph, set(), list(network.graph.sites)
    while rest:
        k = rest.pop()
        if k >= 0 and k not in seen:
            seen.add(k)
            node = cast(Node, graph.nodes[k])
            rest += [term.source for term in node.terms] + ([] if node.skip is None else [node.skip])
    used = {term.weight for k in seen for term in cast(Node, graph.nodes[k]).terms}
    return set(graph.weights) - used - {graph.read_out, graph.bias}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if k % 3 == 0 else pytest.mark.slow) for k, name in enumerate(FORWARD)]
)
def test_round_trip(name, tmp_path):
    network = FORWARD[name]
    again = check_round_trip(network, tmp_path / "model.onnx")
    if "tied" not in name:
        assert len(again.network.graph.nodes) == len(network.graph.nodes)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if k % 3 == 0 else pytest.mark.slow) for k, name in enumerate(ACTIVATIONS)]
)
def test_round_trip_of_every_activation(name, tmp_path):
    sketch = Sketch(3)
    network = sketch.read_out(sketch.dense(sketch.dense(sketch.input, 4, "tanh"), 4, name, skip=0, scale=0.7), 2)
    again = check_round_trip(network, tmp_path / "model.onnx")
    if name not in ("identity", "ramp"):  # a ramp comes back in parts
        assert again.network.graph.nodes == network.graph.nodes


@pytest.mark.parametrize(
    "name", ["normalised-input", "scaled-output", "Mul-channels", "difference-of-values", "Scaler"]
)
def test_round_trip_keeps_what_is_fixed(name, tmp_path):
    first = from_onnx(CASES[name])
    x = batch(first.network)
    to_onnx(first.network, first.params, tmp_path / "model.onnx")
    again = from_onnx(tmp_path / "model.onnx", check=x)
    np.testing.assert_allclose(outputs(again.network, again.params, x), outputs(first.network, first.params, x), 1e-12)
    assert again.network.trained_names == first.network.trained_names


def test_recurrent_networks_are_refused(tmp_path):
    network = NETWORKS["elman-rnn"]
    with pytest.raises(InputError, match="elman-rnn is recurrent"):
        to_onnx(network, network.init(0), tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_written(tmp_path):
    windows = Patches((5,), (3,), (1,), ((1, 1),))
    bare = Graph((2, 5), (Node((Term(None, -1, windows),)),), "C", (0,), 1, ("C",))
    two = Graph(
        (2, 5), (Node((Term("U", -1, windows),)), Node((Term("U", 0),))), "C", (1,), 1, ("C", "U")
    )  # fmt: skip
    laws = {"C": Gaussian((1, 30), 1.0), "U": Gaussian((6, 6), 1.0)}
    networks = {
        "windows without a weight": Described(bare, (("C", laws["C"]),)),
        "used in two shapes": Described(two, tuple(laws.items())),
    }
    for sentence, network in networks.items():
        with pytest.raises(InputError, match=sentence):
            to_onnx(network, network.init(0), tmp_path / "model.onnx")
    network = FORWARD["fully-connected"]
    with pytest.raises(InputError, match="W2, W3, a of the network are not in `params`"):
        to_onnx(network, {"W1": network.init(0)["W1"]}, tmp_path / "model.onnx")
    with pytest.raises(InputError, match="cannot write"):
        to_onnx(network, network.init(0), tmp_path / "nowhere" / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_a_weight_named_as_a_value_of_the_file(tmp_path):
    graph = Graph((3,), (Node((Term("x", -1),), ACTIVATIONS["tanh"]),), "outputs", (0,), 1, ("x", "outputs"))
    network = Described(graph, (("x", Gaussian((4, 3), 1.0)), ("outputs", Gaussian((1, 4), 1.0))))
    assert set(check_round_trip(network, tmp_path / "model.onnx").params) == {"x", "outputs"}


def test_the_note_of_what_is_trained():
    proto = mlp(("Relu", "h", "g"))
    onnx.helper.set_model_props(proto, {"wideproof.trained": json.dumps(["W", "V"])})
    assert from_onnx(proto).network.trained_names == ("W", "V")
    for note in ("[", "3", "[[["):
        onnx.helper.set_model_props(proto, {"wideproof.trained": note})
        with pytest.raises(InputError, match=r"'wideproof\.trained' cannot be read"):
            from_onnx(proto)


CLASSES = np.array([0, 1, 2], np.int64)
LABELS = [
    ("ArgMax", "p", "a", {"axis": 1}),
    ("ai.onnx.ml:ArrayFeatureExtractor", "classes a", "e"),
    ("Cast", "e", "label", {"to": 7}),
    ("ai.onnx.ml:ZipMap", "p", "maps", {"classlabels_int64s": [0, 1, 2]}),
]


def classifier(*end: tuple) -> onnx.ModelProto:
    """Return what skl2onnx writes for an MLPClassifier."""
    steps = [("Cast", "x", "k", {"to": 1}), ("MatMul", "k W", "m"), ("Add", "m b", "h"), ("Sigmoid", "h", "g"),
             ("MatMul", "g V", "n"), ("Add", "n c", "y"), *end, *LABELS]  # fmt: skip
    return model(steps, {**MLP, "classes": CLASSES, "one": f32(1)}, outputs=("label", "maps"))


@pytest.mark.parametrize(
    "end",
    [
        [("Softmax", "y", "p")],
        [("Sigmoid", "y", "s"), ("Sub", "one s", "t"), ("Concat", "t s", "p", {"axis": 1})],
    ],
)
def test_classifiers_end_at_the_last_linear_layer(end):
    proto = classifier(*end)
    read = from_onnx(proto, check=rows(proto))
    assert read.output == "y"
    (note,) = read.notes
    assert note.startswith("the network ends at 'y': what turns it into labels (ArgMax, ArrayFeatureExtractor, ZipMap)")
    assert [node.activation.name for node in read.network.graph.nodes] == ["sigmoid"]
    assert read.network.trained_names == ("W", "b", "V", "c")


def test_segmentations_end_at_the_last_convolution():
    """What follows the labels is left out too, and said to be."""
    image = draw(K=(3, 2, 3, 3), k=(3,), L=(2, 3, 1, 1))
    steps = [("Conv", "x K k", "h"), ("Relu", "h", "g"), ("Conv", "g L", "y"), ("Softmax", "y", "p", {"axis": 1}),
             ("ArgMax", "p", "a", {"axis": 1, "keepdims": 0}), ("Equal", "a mask", "hit"),
             ("Cast", "hit", "n", {"to": 7})]  # fmt: skip
    proto = model(steps, {**image, "mask": np.zeros((1, 4, 4), np.int64)}, ("N", 2, 6, 6), outputs=("n",))
    read = from_onnx(proto, check=np.random.default_rng(0).normal(size=(3, 2, 6, 6)))
    assert read.output == "y"
    assert any(note.endswith("into labels (ArgMax) and what is computed from them are left out") for note in read.notes)


def test_constants_that_a_file_computes():
    """Each is compared with ONNX's reference evaluator, behind the layer that it shifts."""
    steps = [("Gemm", "x W b", "h"), ("Relu", "s", "s1"), ("Exp", "s1", "s2"), ("Pow", "s2 two", "s3"),
             ("Sigmoid", "s3", "s4"), ("ReduceSum", "many axes", "s5", {"keepdims": 0}),
             ("Range", "start end step", "s6"), ("Tanh", "s6", "s7"), ("Reciprocal", "s2", "s8")]  # fmt: skip
    steps += [("Add", "s4 s5", "t"), ("Add", "t s7", "u"), ("Add", "u s8", "v"), ("Add", "h v", "q"),
              ("Tanh", "q", "g"), ("Gemm", "g V c", "y")]  # fmt: skip
    constants = {**draw(2, s=(6,), many=(3, 6)), "two": f32(2), "axes": ints(0), "start": f32(0), "end": f32(6),
                 "step": f32(1)}  # fmt: skip
    proto = model(steps, {**MLP, **constants})
    from_onnx(proto, check=np.random.default_rng(0).normal(size=(5, 4)))


def test_a_constant_for_every_row_is_one_constant():
    half = onnx.helper.make_tensor("v", 1, [1], [0.5])
    steps = [("Gemm", "x W b", "h"), ("Shape", "h", "s"), ("ConstantOfShape", "s", "o", {"value": half}),
             ("Add", "h o", "q"), ("Relu", "q", "g"), ("Gemm", "g V c", "y")]  # fmt: skip
    from_onnx(model(steps, MLP), check=np.random.default_rng(0).normal(size=(5, 4)))


@pytest.mark.parametrize("opset", [7, 9, 13, 15])
def test_batch_norm_of_every_version_has_its_stored_mean(opset):
    """ONNX's own evaluator takes the batch's mean before version 14: the comparison is with the formula."""
    parts = draw(3, s=(6,), t=(6,), m=(6,)) | {"v": np.array([0.5, 1, 2, 3, 4, 5], np.float32)}
    steps = [("Gemm", "x W b", "h"), ("Relu", "h", "r"), ("BatchNormalization", "r s t m v", "g", {"momentum": 0.9}),
             ("Gemm", "g V c", "y")]  # fmt: skip
    proto, x = model(steps, {**MLP, **parts}, opset=opset), np.random.default_rng(0).normal(size=(5, 4))
    exact = {name: np.asarray(a, np.float64) for name, a in {**MLP, **parts}.items()}
    r = np.maximum(x @ exact["W"] + exact["b"], 0)
    g = exact["s"] * (r - exact["m"]) / np.sqrt(exact["v"] + np.float32(1e-5).astype(float)) + exact["t"]
    expected = g @ exact["V"] + exact["c"]
    np.testing.assert_allclose(reference(proto, "y", x), expected, rtol=1e-6)
    read = from_onnx(proto, check=x)
    np.testing.assert_allclose(np.asarray(read.network(read.params, x)), expected, rtol=1e-6)


def test_an_endless_range_is_refused():
    steps = [("Gemm", "x W b", "h"), ("Range", "start end step", "r"), ("Add", "h r", "g"), ("Gemm", "g V c", "y")]
    proto = model(steps, {**MLP, "start": f32(0), "end": f32(1e30), "step": f32(1)})
    with pytest.raises(InputError, match="computes a constant that is too large"):
        from_onnx(proto)


def test_the_head_is_named_where_it_is_the_last_layer():
    with pytest.raises(InputError, match="with --head n_y ") as caught:
        from_onnx(mlp(("Softmax", "h", "g")))
    assert caught.value.head == "n_y"  # type: ignore[attr-defined]
    assert len(caught.value.obstacles) == 1  # type: ignore[attr-defined]
    with pytest.raises(InputError) as caught:
        from_onnx(model([("Gemm", "x W b", "h"), ("Softmax", "h", "g"), ("Relu", "g", "y")], MLP))
    assert caught.value.head == ""  # type: ignore[attr-defined]


def test_an_output_by_name():
    proto = classifier(("Softmax", "y", "p"))
    assert from_onnx(proto, output="y").notes == ()
    assert from_onnx(proto, output="h").network.output_shape == (6,)
    with pytest.raises(InputError, match="computes no 'z': its outputs are label, maps"):
        from_onnx(proto, output="z")
    with pytest.raises(InputError, match=r"Softmax 'n_p'.*logits"):
        from_onnx(proto, output="p")
    assert from_onnx(proto, output="p", logits=True).output == "y"


@pytest.mark.parametrize("end", ["Softmax", "LogSoftmax", "Sigmoid"])
def test_logits(end):
    proto = model(
        [("Gemm", "x W b", "h"), ("Relu", "h", "g"), ("Gemm", "g V c", "z"), (end, "z", "e"), ("Identity", "e", "y")],
        MLP,
    )
    read = from_onnx(proto, logits=True, check=rows(proto))
    assert read.output == "z"
    assert read.notes == (f"{end} 'n_e' at the end is left out: the outputs are logits",)
    assert from_onnx(CASES["Relu"], logits=True).notes == ()


def test_initializers_that_are_inputs_too():
    proto = mlp(("Relu", "h", "g"))
    proto.graph.input.append(onnx.helper.make_tensor_value_info("W", 1, [4, 6]))
    assert from_onnx(proto).network.input_shape == (4,)


def test_names_made_by_us_meet_no_name_in_the_file():
    proto = model(
        [("Add", "x m", "z"), ("MatMul", "z fixed1", "h"), ("Tanh", "h", "g"), ("MatMul", "g fixed3", "y")],
        {"fixed1": MLP["W"], "fixed3": MLP["V"], "m": np.ones(4, f32)},
    )
    read = from_onnx(proto, check=rows(proto))
    assert read.network.trained_names == ("fixed1", "fixed3")
    assert set(read.params) == {"fixed1", "fixed2", "fixed3"}


def test_rows_as_vectors_and_a_fixed_number_of_rows():
    proto = CASES["fixed-batch"]
    x = rows(proto, 7)
    read = from_onnx(proto, check=x)
    assert agreement(proto, read, x.reshape(7, -1)) < 1e-12
    with pytest.raises(InputError, match=r"takes examples of shape \(2, 6, 6\)"):
        agreement(proto, read, np.zeros((3, 7)))
    with pytest.raises(InputError, match="rows to compare on"):
        agreement(proto, read, np.zeros(3))


def test_a_reshaped_input_takes_vectors_too():
    read = from_onnx(CASES["Reshape-vector-to-image"])
    assert read.network.input_shape == (1, 2, 4)
    x = batch(read.network)
    np.testing.assert_array_equal(
        outputs(read.network, read.params, x), outputs(read.network, read.params, x.reshape(4, 8))
    )


def test_safetensors(tmp_path):
    read = from_onnx(CASES["Conv"])
    to_safetensors(read.params, tmp_path / "weights.safetensors")
    for name, array in load_file(tmp_path / "weights.safetensors").items():
        np.testing.assert_array_equal(array, read.params[name])


def test_what_the_evaluator_cannot_run(monkeypatch):
    proto = CASES["Relu"]
    read = from_onnx(proto)
    monkeypatch.setattr("onnx.reference.ReferenceEvaluator.run", lambda *_: 1 / 0)
    with pytest.raises(InputError, match="evaluator cannot run the model: division by zero"):
        agreement(proto, read, rows(proto))


def test_onnx_and_torch_are_imported_when_needed():
    script = "import sys, wideproof.networks.exchange; assert not {'onnx', 'torch'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=60).returncode == 0


def test_from_the_front_door(tmp_path):
    network = FORWARD["residual"]
    wp.to_onnx(network, network.init(0), tmp_path / "model.onnx")
    read = wp.from_onnx(tmp_path / "model.onnx")
    assert str(read) == str(read.network)
    assert "networks" in wp.from_torch.__module__
    assert ints(1).dtype == np.int64


@pytest.mark.parametrize("name", [
    "MaxPool-padded", "Split-Concat", "channels-last", "tokens", "Conv-groups", "Conv-dilations", "ConvTranspose",
    "HardSwish-default", "PRelu-channels", "product-image", "image-end", "BatchNormalization-padded", "Pad",
])  # fmt: skip
def test_selections_go_out_and_come_in_again(name, tmp_path):
    """What was read is written, and read again: the same outputs, by the evaluator and by both networks."""
    first, path = from_onnx(CASES[name]), tmp_path / "model.onnx"
    x = rows(CASES[name])
    to_onnx(first.network, first.params, path)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    again = from_onnx(path, check=x.reshape(len(x), *first.network.input_shape))
    wanted = outputs(first.network, first.params, x)
    assert np.abs(outputs(again.network, again.params, x) - wanted).max() < 1e-12 * np.abs(wanted).max()
    assert again.network.trained_names == first.network.trained_names
    for key in first.network.trained_names:
        np.testing.assert_array_equal(again.params[key], first.params[key].reshape(again.params[key].shape))
