"""Everything that is in the way of a file, in one answer; and what is understood of one that can be read."""

import json

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

from tests.networks.exchange.making import cnn, draw, mlp, model
from tests.networks.exchange.test_operators import CASES, f32, ints
from wideproof.cli import app
from wideproof.errors import InputError
from wideproof.networks.exchange import from_onnx, overview

MANY = mlp(
    ("LayerNormalization", "h s", "n"), ("Relu", "n", "r"), ("Softmax", "r", "p"), ("Tanh", "r", "t"),
    ("Mul", "p t", "m"), ("Sign", "m", "q"), ("LSTM", "q W V", "l", {"hidden_size": 2}), ("GRU", "l W V", "u"),
    ("Reshape", "u z", "o"), ("Relu", "o", "g"), tensors={"s": np.ones(6, f32), "z": ints(-1, 6)},
)  # fmt: skip
NAMES = ("LayerNormalization 'n_n'", "Softmax 'n_p'", "Mul 'n_m'", "Sign 'n_q'", "LSTM 'n_l'", "GRU 'n_u'")


def test_all_obstacles_are_named_at_once():
    with pytest.raises(InputError) as caught:
        from_onnx(MANY)
    said = str(caught.value)
    assert said.startswith("6 things are in the way: (1) LayerNormalization 'n_n' is not supported: use BatchNorm")
    assert [said.index(name) for name in NAMES] == sorted(said.index(name) for name in NAMES)
    assert "\n" not in said
    assert len(caught.value.obstacles) == len(NAMES)  # pyright: ignore[reportAttributeAccessIssue]


def test_obstacles_on_both_branches_and_of_different_kinds():
    """One does not hide the other, whether it is an operator or the way it is used."""
    proto = model(
        [("Sign", "x", "s"), ("Gemm", "s W b", "h"), ("Gemm", "x W b", "k", {"transA": 1}), ("Add", "h k", "y")],
        draw(W=(4, 6), b=(6,)),
    )
    with pytest.raises(InputError, match=r"^2 things are in the way: \(1\) Sign 'n_s'.*not continuous.*transA = 0"):
        from_onnx(proto)


def test_more_than_a_sentence_holds():
    steps = [("Sign", "h" if not k else f"s{k - 1}", f"s{k}") for k in range(12)]
    with pytest.raises(
        InputError, match=r"^12 things.*and 4 more, which `wideproof models FILE` lists\. What .* --head n_y \("
    ):
        from_onnx(mlp(*steps, ("Relu", "s11", "g")))


def test_one_obstacle_is_one_sentence():
    with pytest.raises(InputError, match=r"^Sign 'n_g' is not supported: it is not continuous"):
        from_onnx(mlp(("Sign", "h", "g")))


def test_what_is_understood():
    found = overview_of(CASES["MaxPool"])
    assert (found.input_shape, found.outputs, found.obstacles) == ((2, 6, 6), 2, ())
    assert found.trained == {"K": (3, 2, 3, 3), "weight_k": (3,), "V": (2, 27), "c": (2,)}
    assert found.parameters == 54 + 3 + 54 + 2
    assert "the weight 'k' is called 'weight_k' here" in found.notes
    assert found.layers[0] == "a sum of 3 units at 6 x 6 positions: K (3, 2, 3, 3), weight_k (3,)"


def overview_of(proto):
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(proto, path)
        return overview(path)


@pytest.mark.parametrize(
    ("end", "loss"), [("Softmax", "cross_entropy"), ("LogSoftmax", "cross_entropy"), ("Sigmoid", "logistic"), ("", "")]
)
def test_the_end_says_the_loss(end, loss):
    steps = [("Gemm", "x W b", "h"), ("Relu", "h", "g"), ("Gemm", "g V c", "o" if end else "y")]
    found = overview_of(model([*steps, (end, "o", "y")] if end else steps, draw(W=(4, 6), b=(6,), V=(6, 3), c=(3,))))
    assert found.loss == loss
    assert ("the loss cross_entropy" in str(found)) == (loss == "cross_entropy")
    assert ("says no loss" in str(found)) == (not loss)


def test_the_command(tmp_path):
    good, bad = tmp_path / "good.onnx", tmp_path / "bad.onnx"
    onnx.save(CASES["Relu"], good)
    onnx.save(MANY, bad)
    shown = CliRunner().invoke(app, ["models", str(good)])
    assert shown.exit_code == 0
    assert "good.onnx: 4 numbers in, 3 out, 51 trained in 4 arrays" in shown.output
    assert "1  relu of 6 units: W (6, 4), b (6,)" in shown.output
    shown = CliRunner().invoke(app, ["models", str(good), str(bad)])
    assert shown.exit_code == 1
    assert "bad.onnx: cannot be read, 6 things are in the way" in shown.output
    said = json.loads(CliRunner().invoke(app, ["models", str(bad), "--json"]).output)
    assert [one["readable"] for one in said] == [False]
    assert len(said[0]["obstacles"]) == len(NAMES)


def test_a_file_that_is_none_is_an_error(tmp_path):
    (tmp_path / "text.onnx").write_text("no model")
    for name in ("nowhere.onnx", "text.onnx"):
        with pytest.raises(InputError):
            overview(tmp_path / name)


def test_two_inputs_are_an_obstacle():
    proto = cnn(("Flatten", "h", "g"), inputs=("x", "z"))
    assert overview_of(proto).obstacles == (
        "the network must have one input, and the model has x, z: join them into one",
    )


@pytest.mark.parametrize("opset", [7, 8, 9, 10])
def test_old_files_are_valid(opset):
    """Attributes that are inputs today; such files were called damaged."""
    proto = cnn(
        ("Slice", "h", "s", {"starts": [0, 1], "ends": [6, 2**31 - 1], "axes": [2, 3]} if opset < 10 else {}),
        ("Pad", "s", "p", {"pads": [0, 0, 0, 1, 0, 0, 0, 0], "value": 0.0}), ("Flatten", "p", "g"), opset=opset,
    ) if opset < 10 else cnn(("Slice", "h a b", "s"), ("Flatten", "s", "g"), opset=opset,
                             tensors={"a": ints(0, 0), "b": ints(9, 9), **draw(V=(2, 108))})  # fmt: skip
    assert from_onnx(proto).network.graph.shape == (2, 6, 6)
