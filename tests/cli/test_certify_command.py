"""`wideproof certify` and `gram --network MODEL`: answers, exit codes, and one sentence for bad input."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.cli.test_bad_input import refused
from wideproof.networks import Sketch
from wideproof.networks.exchange import to_onnx
from wideproof_verify import verify


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A model, and tables that it can and cannot fit."""
    folder, rng = tmp_path_factory.mktemp("certify"), np.random.default_rng(0)
    sketch = Sketch(3)
    network = sketch.read_out(sketch.dense(sketch.input, 24, "tanh"), 1)
    to_onnx(network, network.init(0), folder / "model.onnx")
    (folder / "cut.onnx").write_bytes((folder / "model.onnx").read_bytes()[:200])
    x = rng.standard_normal((8, 3))
    for name, rows in (("table", x), ("equal", np.vstack([x, x[:1]])), ("narrow", x[:, :2])):
        lines = [",".join([*(f"{value:.6f}" for value in row), "yes" if i % 2 else "no"]) for i, row in enumerate(rows)]
        header = ",".join([*"abc"[: rows.shape[1]], "label"])
        (folder / f"{name}.csv").write_text("\n".join([header, *lines]) + "\n")
    return folder


def test_it_proves_and_says_so(cli, files, tmp_path):
    out = tmp_path / "proof"
    answer = cli("certify", files / "model.onnx", files / "table.csv", "--target", "label", "--polish", "inf",
                 "--out", out)  # fmt: skip
    assert answer.code == 0
    assert " ".join(answer.out.split()).startswith("An exact fit of all")
    assert verify(out / "certificate").answer == "proved"
    assert (out / "report.html").exists()
    predicted = cli("predict", out, files / "table.csv")
    assert predicted.out.splitlines()[0] == "label,output(yes)"
    assert predicted.out.splitlines()[1].startswith("no,")
    assert predicted.err == ""


def test_polishing_has_a_limit(cli, files, tmp_path):
    answer = cli("certify", files / "model.onnx", files / "table.csv", "--polish", "0.1", "--out", tmp_path / "proof")
    assert answer.code == 2
    assert "polishing would move the weights farther than was allowed" in " ".join(answer.out.split())
    assert not (tmp_path / "proof" / "certificate").exists()


def test_json(cli, files, tmp_path):
    answer = cli("certify", files / "model.onnx", files / "table.csv", "--json", "--targets", "signs",
                 "--out", tmp_path / "proof")  # fmt: skip
    assert (answer.code, answer.err) == (0, "")
    found = json.loads(answer.out)
    assert found["proved"]
    assert "the targets are -1 and 1" in found["notes"]


def test_a_head_on_features(cli, files, tmp_path):
    """The folder's model takes features; rows of the table are refused with that."""
    sketch, out = Sketch(3), tmp_path / "proof"
    network = sketch.read_out(sketch.dense(sketch.dense(sketch.input, 16, "gelu"), 24, "tanh"), 1)
    to_onnx(network, network.init(0), tmp_path / "deep.onnx")
    answer = cli("certify", tmp_path / "deep.onnx", files / "table.csv", "--head", "W2", "--out", out)
    assert answer.code == 0
    said = " ".join(answer.out.split())
    assert "the head 'W2' of deep.onnx" in said
    assert f"SHA-256 {json.loads((out / 'features.json').read_text())['features_sha256']}" in said
    assert verify(out / "certificate").answer == "proved"
    refused(cli("predict", out, files / "table.csv"), "16 inputs are no columns of a table")
    unknown = cli(
        "certify", tmp_path / "deep.onnx", files / "table.csv", "--head", "fc", "--out", tmp_path / "q", "--quiet"
    )
    refused(unknown, "the model has no layer 'fc': give a node, a value or a weight, such as W1")


@pytest.mark.parametrize(("model", "table", "said"), [
    ("cut.onnx", "table.csv", "cut.onnx is not an ONNX model, or was cut off"),
    ("none.onnx", "table.csv", "there is no file"),
    ("model.onnx", "narrow.csv", r"the model takes examples of shape \(3,\) and 'narrow' has \(2,\)"),
])  # fmt: skip
def test_bad_input_is_one_sentence(cli, files, tmp_path, model, table, said):
    refused(cli("certify", files / model, files / table, "--out", tmp_path / "proof", "--quiet"), said)
    assert not (tmp_path / "proof").exists()


def test_the_gram_matrix_of_a_model(cli, files):
    answer = cli("gram", files / "table.csv", "--network", files / "model.onnx")
    assert answer.code == 0
    assert "the model's weights; 8 rows" in answer.out
    answer = cli("gram", files / "equal.csv", "--network", files / "model.onnx")
    assert answer.code == 1
    assert "singular: examples 0 and 8 are equal" in answer.out
