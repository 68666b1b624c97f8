"""What cannot be read is refused with one sentence that names it, and nothing is opened or made before."""

import math
import os
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.networks.exchange.making import MLP, cnn, draw, mlp, model, rows
from tests.networks.exchange.test_operators import BN, CASES, NORM, NORM3, f32, ints
from wideproof.errors import InputError
from wideproof.networks.exchange import from_onnx, onnx_file

RELU = ("Relu", "h", "r")
FLAT = ("Flatten", "q", "g")
SUBGRAPH = helper.make_graph(
    [helper.make_node("Relu", ["h"], ["z"])], "branch", [], [helper.make_tensor_value_info("z", 1, None)]
)

REFUSED = {
    "Softmax": (mlp(("Softmax", "h", "g")), "Softmax 'n_g' is not supported: it can only stand at the end"),
    "Attention": (mlp(("com.microsoft:Attention", "h W b", "g")), "Attention 'n_g' .*: only feed-forward.*attention"),
    "LSTM": (mlp(("LSTM", "h W V", "g", {"hidden_size": 2})), "LSTM 'n_g' is not supported: only feed-forward"),
    "own-domain": (mlp(("com.example:Thing", "h", "g")), "com.example.Thing 'n_g' is not supported: what can be read"),
    "LayerNorm": (mlp(("LayerNormalization", "h b", "g")), "LayerNorm.* 'n_g' is not supported: use BatchNorm"),
    "Cast-half": (mlp(("Cast", "h", "g", {"to": 10})), "Cast 'n_g' is not supported: values stay float32"),
    "product": (mlp(RELU, ("Tanh", "h", "t"), ("Mul", "r t", "g")), "Mul 'n_g' does not multiply by a constant"),
    "Where": (
        mlp(("Softplus", "h", "s"), ("Greater", "h t", "w"), ("Where", "w h s", "g"), tensors={"t": f32(2)}),
        "Greater 'n_w' is not supported",
    ),
    "quotient": (mlp(("Div", "o h", "g"), tensors={"o": f32(1)}), "Div 'n_g' does not multiply by a constant"),
    "division-by-zero": (mlp(("Div", "h o", "g"), tensors={"o": f32(0)}), "divides by zero"),
    "wide-padding": (
        cnn(("Conv", "h L", "q", {"pads": [3] * 4}), FLAT, tensors=draw(L=(3, 3, 3, 3))), "Conv 'n_q' with the padding"
    ),
    "Conv-3d": (
        model([("Conv", "x K", "h"), ("Flatten", "h", "y")], draw(K=(2, 2, 1, 1, 1)), ("N", 2, 2, 2)), "signals .1-D."
    ),
    "Conv-channels": (cnn(("Conv", "h L", "q"), FLAT, tensors=draw(L=(3, 4, 3, 3))), "for 4 channels and reads 3"),
    "Gemm-transA": (mlp(("Gemm", "h U", "g", {"transA": 1}), tensors=draw(U=(6, 6))), "transA = 0"),
    "MatMul-left": (mlp(("MatMul", "U h", "g"), tensors=draw(U=(6, 6))), "MatMul .n_g. combines rows of the data"),
    "MatMul-values": (mlp(("Transpose", "h", "t"), ("MatMul", "h t", "g")), "Transpose 'n_t' mixes the rows"),
    "MatMul-sizes": (mlp(("MatMul", "h U", "g"), tensors=draw(U=(5, 6))), "by a matrix with 5 columns"),
    "pool-ceil": (cnn(("AveragePool", "h", "q", {"kernel_shape": [4, 4], "strides": [4, 4], "ceil_mode": 1}), FLAT),
                  "ceil_mode = 1"),
    "Flatten-axis": (cnn(("Flatten", "h", "g", {"axis": 2})), "the rows must stay as they are"),
    "Reshape-rows": (mlp(("Reshape", "h s", "g"), tensors={"s": ints(-1, 3)}), "the rows must stay as they are"),
    "Reshape-one-row": (mlp(("Reshape", "h s", "g"), tensors={"s": ints(1, 6)}), "the rows must stay as they are"),
    "Reshape-hidden": (mlp(("Reshape", "h s", "g"), tensors={"s": ints(-1, 2, 3)}), "multiplies a value of shape"),
    "Squeeze": (mlp(("Squeeze", "h a", "g"), tensors={"a": ints(1)}), "Squeeze 'n_g' is not well formed"),
    "Unsqueeze": (mlp(("Unsqueeze", "h a", "g"), tensors={"a": ints(0)}), "puts an axis before them"),
    "shapes-of-a-sum": (
        cnn(("Conv", "h K2", "p"), ("Add", "h p", "q"), FLAT, tensors=draw(K2=(3, 3, 3, 3))), "they must be the same"
    ),
    "constant-shape": (mlp(("Mul", "h m", "g"), tensors=draw(m=(5, 6))), "combines a constant of shape"),
    "two-layouts": (
        model([("MatMul", "x W", "h"), ("Relu", "h", "g"), ("Gemm", "g W", "y", {"transB": 1})], draw(W=(4, 4))),
        "'W' of Gemm 'n_y' is used a second time in another layout",
    ),
    "BatchNorm-variance": (
        cnn(BN, ("Flatten", "n", "g"), tensors={**NORM3, "var": -np.ones(3, f32)}), "variance that is not positive"
    ),
    "BatchNorm-training": (
        mlp((BN[0], BN[1], ("n", "m2", "v2"), {"training_mode": 1}), ("Relu", "n", "g"), tensors=NORM), "training mode"
    ),
    "Dropout-training": (
        mlp(("Dropout", "h p t", "g"), tensors={"p": f32(0.5), "t": np.array(True)}), "Dropout 'n_g' draws random"
    ),
    "RandomNormalLike": (mlp(("RandomNormalLike", "h", "r"), ("Add", "h r", "g")), "draws random numbers"),
    "RandomNormal": (mlp(("RandomNormal", "", "r", {"shape": [1, 6]}), ("Add", "h r", "g")), "draws random numbers"),
    "Bernoulli": (mlp(("Bernoulli", "h", "g")), "draws random numbers"),
    "If": (
        mlp(("If", "o", "g", {"then_branch": SUBGRAPH, "else_branch": SUBGRAPH}), tensors={"o": np.array(True)}),
        "If 'n_g' is control flow",
    ),
    "softmax-end": (model([("Gemm", "x W b", "h"), ("Softmax", "h", "y")], MLP), "`logits=True`"),
    "sigmoid-end": (model([("Gemm", "x W b", "h"), ("Sigmoid", "h", "y")], MLP), "`logits=True`"),
    "output-read-elsewhere": (
        model([("MatMul", "x W", "y"), ("Tanh", "y", "t")], draw(W=(4, 6)), outputs=("y", "t")), "the outputs y, t"
    ),
    "constant-output": (model([("Gemm", "x W b", "h"), ("Tanh", "b", "y")], MLP), "'y' does not depend on the input"),
    "nothing-trained": (
        model([("Mul", "x m", "y")], {"m": np.ones(4, f32)}), "no layer of weights that could be trained"
    ),
    "undefined-input": (mlp(("Add", "h nowhere", "g")), "reads 'nowhere', which nothing before it computes"),
    "out-of-order": (model([("Relu", "h", "g"), ("Gemm", "x W b", "h"), ("Gemm", "g V c", "y")], MLP), "reads 'h'"),
    "no-such-output": (model([("Gemm", "x W b", "h")], MLP), "nothing computes the output 'y'"),
    "computed-twice": (model([("Gemm", "x W b", "y"), ("Relu", "x", "y")], MLP), "computes 'y' twice"),
    "malformed": (model([("Gemm", "x", "y")], MLP), "Gemm 'n_y'"),
    "too-many-inputs": (mlp(("Relu", "h h", "g")), "Relu 'n_g' has 2 inputs"),
    "malformed-pattern": (mlp(("Div", "h", "g")), "not well formed"),
    "malformed-axes": (mlp(("Unsqueeze", "h a", "g"), tensors={"a": ints(1, 1)}), "Unsqueeze 'n_g' is not well formed"),
    "malformed-shape": (mlp(("Reshape", "h s", "g"), tensors={"s": ints(-1, -1, 0, 5)}), "Reshape 'n_g'"),
    "two-inputs": (mlp(RELU, ("Identity", "r", "g"), inputs=("x", "z")), "one input, and the model has x, z"),
    "two-outputs": (mlp(("Relu", "h", "g"), outputs=("y", "h")), "has the outputs y, h: choose one with `output`"),
    "symbolic-size": (mlp(("Relu", "h", "g"), shape=("N", "d")), r"shape \('N', 'd'\).*fixed sizes"),
    "no-rows": (model([("Gemm", "x W b", "y")], MLP, (4,)), r"multiplies a value of shape \(4,\)"),
    "five-axes": (model([("Flatten", "x", "y")], MLP, ("N", 1, 1, 1, 4)), "no layer of weights"),
    "integers": (mlp(("Relu", "h", "g"), kind=TensorProto.INT64), "must be of floating-point numbers"),
    "old-operators": (mlp(("Relu", "h", "g"), opset=6), "version 6 of ONNX's operators: convert it to 7"),
    "infinite": (mlp(("Relu", "h", "g"), tensors={"W": np.full((4, 6), np.inf, f32)}), "'W' holds numbers that"),
    "nan": (mlp(("Relu", "h", "g"), tensors={"b": np.full(6, np.nan, f32)}), "'b' holds numbers that are not finite"),
    "int8": (mlp(("Relu", "h", "g"), tensors={"W": np.ones((4, 6), np.int8)}), "'W' has the type int8: float16"),
    "large-constant": (
        mlp(("Add", "u v", "w"), ("Add", "h w", "g"), tensors=draw(u=(1, 40000), v=(40000, 1))), "constant that is too"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_one_sentence(name):
    proto, sentence = REFUSED[name]
    with pytest.raises(InputError, match=sentence) as caught:
        from_onnx(proto.SerializeToString())
    assert "\n" not in str(caught.value)


def test_functions_and_sparse_weights():
    proto = mlp(("Relu", "h", "g"))
    proto.functions.append(
        helper.make_function("own", "F", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], proto.opset_import)
    )
    with pytest.raises(InputError, match=r"functions of its own.*onnx\.inliner"):
        from_onnx(proto)
    proto = mlp(("Relu", "h", "g"))
    proto.graph.sparse_initializer.add()
    with pytest.raises(InputError, match="sparse weights"):
        from_onnx(proto)


def test_what_is_no_file(tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        from_onnx(tmp_path / "nowhere.onnx")
    with pytest.raises(InputError, match="is not a file"):
        from_onnx(tmp_path)
    with pytest.raises(InputError, match="got int"):
        from_onnx(3)
    os.mkfifo(tmp_path / "pipe.onnx")
    with pytest.raises(InputError, match="is not a file"):
        from_onnx(tmp_path / "pipe.onnx")


def test_every_cut_file_is_refused(tmp_path):
    proto = mlp(("Relu", "h", "g"))
    del proto.opset_import[1:]
    content = proto.SerializeToString()
    path = tmp_path / "model.onnx"
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(InputError):
            from_onnx(path)


def test_damaged_bytes_give_a_sentence_or_a_network():
    """Never another kind of error; most of these bytes are in names and weights, where the file stays well formed."""
    rng = np.random.default_rng(0)
    sources = [
        CASES[name].SerializeToString() for name in ("Conv", "gelu-x-gate-half", "Reshape-by-Shape", "ReduceMean")
    ]
    refused = 0
    for k in range(600):
        damaged = bytearray(sources[k % len(sources)])
        for at in rng.integers(0, len(damaged), 1 + k % 3):
            damaged[at] = rng.integers(0, 256)
        try:
            from_onnx(bytes(damaged))
        except InputError:
            refused += 1
    assert refused > 100


def test_large_files_are_not_read(tmp_path, monkeypatch):
    path = tmp_path / "model.onnx"
    path.write_bytes(mlp(("Relu", "h", "g")).SerializeToString())
    monkeypatch.setattr(onnx_file, "LARGEST", 100)
    monkeypatch.setattr(type(path), "read_bytes", lambda self: pytest.fail("was read"))
    with pytest.raises(InputError, match="larger than 2 GiB"):
        from_onnx(path)


@pytest.mark.parametrize("dims", [(1 << 20, 1 << 20), (1 << 40, 1 << 40), (4, 7), (-4, 6), (4, -6)])
def test_sizes_are_checked_before_memory_is_asked_for(dims):
    proto = mlp(("Relu", "h", "g"))
    weight = next(t for t in proto.graph.initializer if t.name == "W")
    del weight.dims[:]
    weight.dims.extend(dims)
    with pytest.raises(InputError, match=r"'W' (says it has the shape|needs 112 bytes and has 96)"):
        from_onnx(proto)
    weight.ClearField("raw_data")
    weight.float_data.extend([1.0] * 24)
    with pytest.raises(InputError, match=r"'W' (says it has the shape|needs 28 numbers and has 24)"):
        from_onnx(proto)


def external(location: str, offset: str = "0", length: str = "96") -> onnx.ModelProto:
    proto = mlp(("Relu", "h", "g"))
    weight = next(t for t in proto.graph.initializer if t.name == "W")
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, "offset": offset, "length": length}.items():
        weight.external_data.add(key=key, value=value)
    return proto


def test_weights_beside_the_model(tmp_path):
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "weights.bin").write_bytes(b"1234" + MLP["W"].tobytes())
    path = tmp_path / "model.onnx"
    path.write_bytes(external("inside/weights.bin", "4").SerializeToString())
    model = from_onnx(path, check=rows(CASES["Relu"]))
    np.testing.assert_array_equal(model.params["W"], MLP["W"].T.astype(float))


@pytest.mark.parametrize(
    ("location", "offset", "length", "sentence"),
    [
        ("/etc/hostname", "0", "96", "not in the folder of the model"),
        ("../secret.bin", "0", "96", "not in the folder of the model"),
        ("inside/../../secret.bin", "0", "96", "not in the folder of the model"),
        ("link.bin", "0", "96", "not in the folder of the model"),
        ("linked/secret.bin", "0", "96", "not in the folder of the model"),
        ("", "0", "96", "not in the folder of the model"),
        ("a\0b", "0", "96", "not in the folder of the model"),
        ("nowhere.bin", "0", "96", "copy it beside the model"),
        ("pipe", "0", "96", "copy it beside the model"),
        ("weights.bin", "1", "96", "needs 96 bytes, which 'weights.bin' does not have at 1"),
        ("weights.bin", "-4", "96", "needs 96 bytes"),
        ("weights.bin", "0", "92", "needs 96 bytes"),
        ("weights.bin", "zero", "96", "is not a number"),
    ],
)
def test_weights_elsewhere_are_not_opened(tmp_path, location, offset, length, sentence):
    folder = tmp_path / "folder"
    (folder / "inside").mkdir(parents=True)
    (tmp_path / "secret.bin").write_bytes(MLP["W"].tobytes())
    (folder / "weights.bin").write_bytes(MLP["W"].tobytes())
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    (folder / "linked").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    path = folder / "model.onnx"
    path.write_bytes(external(location, offset, length).SerializeToString())
    with pytest.raises(InputError, match=sentence):
        from_onnx(path)


def test_bytes_have_no_folder():
    with pytest.raises(InputError, match=r"stored in another file, 'weights\.bin': give the path"):
        from_onnx(external("weights.bin").SerializeToString())


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(InputError, match=r'pip install "wideproof\[onnx\]"'):
        from_onnx(b"")


COMPARING = sys.modules["wideproof.networks.exchange.agreement"]  # the package has a function of that name


def test_a_disagreement_is_refused(monkeypatch):
    proto = CASES["Relu"]
    monkeypatch.setattr(COMPARING, "agreement", lambda *_: 1e-9)
    with pytest.raises(InputError, match=r"differs from ONNX's reference evaluator by 1\.0e-09"):
        from_onnx(proto, check=rows(proto))
    monkeypatch.setattr(COMPARING, "agreement", lambda *_: math.nan)
    with pytest.raises(InputError, match="please report the file"):
        from_onnx(proto, check=rows(proto))


def test_the_check_sees_one_changed_weight():
    from wideproof.networks.exchange import agreement

    proto = CASES["Conv"]
    read = from_onnx(proto)
    read.params["K"][0, 0, 0, 0] += 1e-6
    assert agreement(proto, read, rows(proto)) > 1e-8


def test_deep_products_do_not_exhaust_the_stack():
    steps = [("Mul", f"p{k} m", f"p{k + 1}") for k in range(5000)]
    proto = mlp(("Relu", "h", "p0"), *steps, ("Identity", "p5000", "g"), tensors={"m": f32(1)})
    assert len(from_onnx(proto).network.graph.nodes) == 1


def test_typed_fields_are_read_as_bytes_are():
    proto = mlp(("Tanh", "h", "g"))
    wanted = from_onnx(proto).params
    for tensor in proto.graph.initializer:
        array = numpy_helper.to_array(tensor)
        tensor.ClearField("raw_data")
        tensor.float_data.extend(array.ravel().tolist())
    for name, array in from_onnx(proto).params.items():
        np.testing.assert_array_equal(array, wanted[name])
