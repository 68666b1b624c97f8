"""Every command on sound input: what it prints, what it writes, and which exit code answers the question."""

import csv
import json
import struct
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import wideproof
from tests.cli.tools import SEQUENCES, VECTORS, same_bits
from wideproof.data import BUNDLED, GENERATORS
from wideproof.networks import ACTIVATIONS, NETWORKS
from wideproof.storage import read_json
from wideproof.training import LOSSES, Run, Status

SMALL = ("--width", 16, "--depth", 2, "--quiet")
IMAGES = ("digits", "--classes", "0,1", "--limit", 8)  # folded into images for the convolutional network
TOKENS = ("tokens.npz",)


def test_version_and_help(cli):
    assert cli("--version") == (0, f"{wideproof.__version__}\n", "")
    answer = cli("--help")
    assert answer.code == 0
    for command in ("audit", "train", "resume", "show", "gram", "networks", "losses", "data"):
        assert command in answer.out
        assert cli(command, "--help").code == 0


def test_audit_holds(cli, tmp_path):
    answer = cli("audit", VECTORS, "--paper", "zou2018")
    assert (answer.code, answer.err) == (0, "")
    assert "opposite labels φ  0.5, between 0 and 1" in answer.out
    assert "Zero training loss is not ruled out" in answer.out
    assert "fails" not in answer.out
    assert cli("audit", VECTORS).code == 0
    assert not list(tmp_path.iterdir())


def test_audit_fails(cli, tmp_path):
    (tmp_path / "clash.csv").write_text("a,b,kind\n1,0,cat\n1,0,dog\n0,1,cat\n0.6,0.8,dog\n")
    answer = cli("audit", "clash.csv")
    assert (answer.code, answer.err) == (1, "")
    assert "Zero training loss is impossible" in answer.out
    assert "first: 0 and 1" in answer.out
    for paper in ("du2019", "zou2018", "frei2019"):
        assert cli("audit", "clash.csv", "--paper", paper).code == 1


def test_audit_of_a_name_with_brackets(cli, tmp_path):
    (tmp_path / "a[bold]b[red].csv").write_text("1,0,0\n0,1,1\n")
    answer = cli("audit", "a[bold]b[red].csv")
    assert (answer.code, answer.err) == (0, "")
    assert "a[bold]b[red]: 2 examples" in answer.out


def test_audit_cannot_tell(cli):
    assert cli("audit", VECTORS, "--paper", "allenzhu2018").code == 2  # the paper is on sequences
    assert cli("audit", VECTORS, "--paper", "frei2019", "--margin", "never").code == 2
    assert cli("audit", SEQUENCES, "--paper", "allenzhu2018").code == 0


def test_audit_after_preparation(cli):
    raw = ("audit", "iris", "--classes", "setosa,versicolor", "--limit", 20, "--paper", "zou2018")
    assert cli(*raw).code == 1
    assert cli(*raw, "--prepare", "standardize,constant").code == 0


def test_audit_json(cli):
    answer = cli("audit", VECTORS, "--json")
    found = json.loads(answer.out)
    assert (answer.code, answer.err) == (0, "")
    assert found["n"] == 12
    assert found["input_shape"] == [4]
    assert found["task"] == "binary"
    assert found["geometry"]["opposite"] == {"distance": pytest.approx(0.5, abs=1e-12), "i": 0, "j": 1}
    assert found["norms"] == pytest.approx([1, 1])
    assert found["zero_loss_possible"] is True
    assert 0 < found["margin"]["lower"] <= found["margin"]["upper"]
    assert found["holds"] == {"du2019": True, "zou2018": True, "allenzhu2018": None, "frei2019": None}
    undecided = {verdict["assumption"] for verdict in found["verdicts"] if verdict["status"] != "holds"}
    assert undecided == {"3.2 positive margin"}


@pytest.mark.parametrize(
    ("network", "data", "rule"),  # of step sizes; a number spares a compilation
    [
        ("fully-connected", (VECTORS,), ()),
        ("residual", (VECTORS,), ("--step-size", 0.01)),
        ("conv-residual", IMAGES, ("--step-size", 0.001)),
        ("deep-relu", (VECTORS,), ()),
        ("elman-rnn", (SEQUENCES,), ()),
        ("deep-rnn", TOKENS, ("--step-size", 0.001)),
        ("residual-relu", (VECTORS,), ("--step-size", 0.01)),
    ],
)
def test_every_network_trains(cli, tmp_path, network, data, rule):
    if data is TOKENS:
        x = np.random.default_rng(0).standard_normal((6, 3, 2))
        np.savez(tmp_path / TOKENS[0], x=x, y=["cat", "dog", "owl"] * 2)
    size = [option for option in SMALL if network != "elman-rnn" or option not in ("--depth", 2)]
    answer = cli("train", *data, "--network", network, *size, "--steps", 12, "--out", "run", *rule)
    assert (answer.code, answer.err) == (0, "")
    assert "reached the step limit at step 12" in answer.out
    assert "saved in run" in answer.out
    run = Run.load(tmp_path / "run")
    assert run.network.name == network
    assert run.steps.tolist() == list(range(13))
    assert run.loss < run.records["loss"][0]
    assert run.data.preparation  # what the network's paper needs, without being asked
    loss = "logistic" if network in ("deep-relu", "residual-relu") else "squared"
    assert run.recipe.loss == loss
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "data.safetensors",
        "initial.safetensors",
        "run.json",
        "state.safetensors",
    ]


def test_cross_entropy_with_weights_of_classes(cli, tmp_path):
    iris = ("iris", "--limit", 12, *SMALL, "--loss", "cross_entropy", "--steps", 12)
    assert cli("train", *iris, "--label-smoothing", 0.1, "--class-weights", "1,5,1", "--out", "run").code == 0
    recipe = Run.load(tmp_path / "run").recipe
    assert (recipe.loss, recipe.label_smoothing, recipe.class_weights) == ("cross_entropy", 0.1, (1.0, 5.0, 1.0))
    assert "use 'cross_entropy'" in cli("train", *iris, "--loss", "softmax").err
    assert "'balanced', got 'even'" in cli("train", *iris, "--class-weights", "even").err


def test_methods_of_training(cli, tmp_path):
    small = ("train", VECTORS, *SMALL, "--steps", 12, "--step-size", 0.01)
    method = ("--batch", 3, "--shuffle", "--optimizer", "nesterov", "--momentum", 0.5, "--weight-decay", 0.1)
    assert cli(*small, *method, "--schedule", "warmup(3) cosine", "--out", "run").code == 0
    assert Run.load(tmp_path / "run").recipe.method == (
        "SGD, shuffled batches of 3, Nesterov momentum 0.5, weight decay 0.1, step sizes by warmup(3) cosine"
    )
    assert "no schedule 'cosin': use one of constant" in cli(*small, "--schedule", "cosin").err


def test_every_network_is_tested():
    marks = next(mark for mark in test_every_network_trains.pytestmark if mark.name == "parametrize")
    assert {network for network, *_ in marks.args[1]} == set(NETWORKS)


def test_target_loss_answers_the_question(cli, tmp_path):
    answer = cli("train", VECTORS, *SMALL, "--steps", 5000, "--target-loss", 4.0, "--out", "yes")
    assert answer.code == 0
    assert "reached the target loss at step" in answer.out
    assert Run.load(tmp_path / "yes").loss <= 4.0
    answer = cli("train", VECTORS, *SMALL, "--steps", 12, "--target-loss", 1e-9, "--out", "no")
    assert (answer.code, answer.err) == (1, "")
    assert "reached the step limit at step 12" in answer.out
    assert "after 12 steps: allow more steps" in answer.out


def test_zero_error_answers_the_question(cli, tmp_path):
    linear = "linear_margin:n=12,d=4,rho=0.5"
    answer = cli("train", linear, *SMALL, "--steps", 3000, "--zero-error", "--out", "run")
    assert answer.code == 0
    assert "reached zero training error" in answer.out
    assert Run.load(tmp_path / "run").error == 0


def test_divergence_is_an_answer_with_advice(cli, tmp_path):
    answer = cli("train", VECTORS, *SMALL, "--steps", 50, "--step-size", 1e6, "--out", "run")
    assert (answer.code, answer.err) == (1, "")
    run = Run.load(tmp_path / "run")
    assert run.status is Status.DIVERGED
    assert f"diverged at step {run.step}" in answer.out
    assert f"left all bounds at step {run.step} with step size 1e+06: use " in answer.out
    assert cli("show", "run").code == 1
    assert cli("resume", "run", "--quiet").code == 1


def test_train_json(cli, tmp_path):
    answer = cli("train", VECTORS, *SMALL, "--steps", 12, "--seed", 3, "--out", "run", "--json")
    found = json.loads(answer.out)
    assert (answer.code, answer.err) == (0, "")
    run = Run.load(tmp_path / "run")
    assert (found["folder"], found["status"], found["step"], found["succeeded"]) == ("run", "LIMIT", 12, None)
    assert found["loss"] == run.loss
    assert found["history"] == {"step": run.steps.tolist(), "loss": run.records["loss"].tolist()}
    assert found["network"]["width"] == 16
    assert found["recipe"]["seed"] == 3
    assert found["data"]["digest"] == run.data.digest
    shown = cli("show", "run", "--json")
    assert shown.code == 0
    assert json.loads(shown.out) == found


def test_divergence_in_json_has_no_infinities(cli):
    answer = cli("train", VECTORS, *SMALL, "--steps", 50, "--step-size", 1e200, "--out", "run", "--json")
    assert answer.code == 1

    def refuse(word):
        raise AssertionError(word)

    assert json.loads(answer.out, parse_constant=refuse)["status"] == "DIVERGED"


def test_the_default_folder_is_new_each_time(cli, tmp_path):
    for number in (1, 2):
        answer = cli("train", VECTORS, *SMALL, "--steps", 12)
        folder = f"runs/two_classes-fully-connected-{number}"
        assert f"saved in {folder}" in answer.out
        assert (tmp_path / folder / "run.json").is_file()
    same_bits(tmp_path / "runs/two_classes-fully-connected-1", tmp_path / "runs/two_classes-fully-connected-2")


def test_what_is_said_without_quiet(cli):
    answer = cli("train", VECTORS, "--width", 16, "--steps", 12, "--out", "run")
    assert (answer.code, answer.err) == (0, "")  # no bar where nobody watches
    assert "two_classes" in answer.out
    assert "prepared by unit" in answer.out
    assert "fully-connected(input_dim=4, width=16, depth=2, activation=softplus" in answer.out
    assert "training loss against step" in answer.out
    assert any("\u2800" < letter <= "\u28ff" for letter in answer.out)


@pytest.mark.parametrize(("steps", "name"), [(12, "loss.svg"), (12, "loss.PNG")])
def test_plots_are_valid(cli, tmp_path, steps, name):
    answer = cli("train", VECTORS, *SMALL, "--steps", steps, "--target-loss", 1e-3, "--out", "run", "--plot", name)
    assert f"curve in {name}" in answer.out
    check_figure(tmp_path / name)
    again = cli("show", "run", "--plot", f"again-{name}")
    assert f"curve in again-{name}" in again.out
    check_figure(tmp_path / f"again-{name}")


def check_figure(path):
    content = path.read_bytes()
    if path.suffix == ".svg":
        assert ET.fromstring(content).tag == "{http://www.w3.org/2000/svg}svg"
        return
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", content[16:24])
    assert min(width, height) > 300
    assert content[-8:-4] == b"IEND"


def test_regression_and_divergence_plot_too(cli, tmp_path):
    cli("train", SEQUENCES, "--network", "elman-rnn", "--width", 16, "--quiet", "--steps", 12, "--out", "a",
        "--plot", "a.svg")  # fmt: skip
    cli("train", VECTORS, *SMALL, "--steps", 50, "--step-size", 1e200, "--out", "b", "--plot", "b.svg")
    check_figure(tmp_path / "a.svg")
    check_figure(tmp_path / "b.svg")


@pytest.mark.parametrize("extra", [(), ("--batch", 4), ("--optimizer", "momentum"), ("--record-every", 5)])
def test_resume_continues_to_the_same_end(cli, tmp_path, extra):
    cli("train", VECTORS, *SMALL, *extra, "--steps", 32, "--out", "whole")
    cli("train", VECTORS, *SMALL, *extra, "--steps", 13, "--out", "parts")
    answer = cli("resume", "parts", "--steps", 32, "--quiet")
    assert (answer.code, answer.err) == (0, "")
    assert "reached the step limit at step 32" in answer.out
    same_bits(tmp_path / "whole", tmp_path / "parts")
    assert read_json(tmp_path / "parts" / "run.json")["recipe"]["steps"] == 32


def test_resume_of_a_finished_run_changes_nothing(cli, tmp_path):
    cli("train", VECTORS, *SMALL, "--steps", 12, "--out", "run")
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    answer = cli("resume", "run", "--json")
    assert (answer.code, json.loads(answer.out)["step"]) == (0, 12)
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


def test_show_prints_how_it_ended(cli):
    trained = cli("train", VECTORS, "--width", 16, "--steps", 12, "--out", "run")
    shown = cli("show", "run")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out == trained.out[trained.out.index("training loss against step") :]


def test_settings_reach_the_run(cli, tmp_path):
    answer = cli(
        "train", "iris", "--classes", "setosa,virginica", "--limit", 12, "--prepare", "standardize,unit",
        "--network", "residual", "--width", 16, "--depth", 2, "--activation", "tanh", "--c-res", 0.25,
        "--trained", "hidden", "--loss", "canonical(0.75)", "--step-size", 0.01, "--steps", 12, "--batch", 4,
        "--optimizer", "nesterov", "--seed", 7, "--precision", "float32", "--record-every", 3, "--quiet",
        "--out", "run",
    )  # fmt: skip
    assert (answer.code, answer.err) == (0, "")
    run = Run.load(tmp_path / "run")
    assert (run.network.activation.name, run.network.c_res, run.network.trained) == ("tanh", 0.25, ("hidden",))  # pyright: ignore[reportAttributeAccessIssue]
    assert (run.recipe.loss, run.recipe.batch, run.recipe.optimizer) == ("canonical(0.75)", 4, "nesterov")
    assert (run.recipe.seed, run.recipe.precision, run.step_size) == (7, "float32", 0.01)
    assert run.steps.tolist() == [0, 3, 6, 9, 12]
    assert {array.dtype.name for array in run.params.values()} == {"float32"}
    assert (run.params["a"] == run.initial["a"]).all()
    assert run.data.classes == ("setosa", "virginica")
    assert [step.name for step in run.data.preparation] == ["standardize", "unit"]


def test_the_papers_step_size_and_its_constant(cli, tmp_path):
    for name, constant in (("a", 1.0), ("b", 2.0)):
        common = ("--step-size", "paper", "--constant", constant, "--steps", 12, "--out", name)
        assert cli("train", VECTORS, "--network", "deep-relu", *SMALL, *common).code == 0
    first, second = (Run.load(tmp_path / name).step_size for name in "ab")
    assert second == pytest.approx(2 * first)
    assert 0 < first < 1e-3


def write_csv(path, header, table):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *table])


def test_my_own_table_for_regression(cli, tmp_path, rows):
    table = [[f"{v:.6g}" for v in row] for row in rows]
    write_csv(tmp_path / "mine.csv", ["age", "price", "b", "c", "d"], table)
    answer = cli("train", "mine.csv", "--target", "price", "--prepare", "standardize,unit,scale_targets", *SMALL,
                 "--steps", 12, "--out", "run")  # fmt: skip
    assert (answer.code, answer.err) == (0, "")
    data = Run.load(tmp_path / "run").data
    assert (data.name, data.task, data.input_shape) == ("mine", "regression", (4,))
    price = np.array([float(row[1]) for row in table])
    np.testing.assert_allclose(data.y, (price - price.mean()) / price.std(), rtol=1e-12)
    assert "training error" not in answer.out


def test_my_own_table_with_three_classes(cli, tmp_path, rows):
    table = [[f"{v:.6g}" for v in row[:2]] + [("cat", "dog", "owl")[i % 3]] + [row[3]] for i, row in enumerate(rows)]
    write_csv(tmp_path / "pets.csv", ["weight", "height", "kind", "age"], table)
    answer = cli("train", "pets.csv", "--target", "kind", *SMALL, "--step-size", 0.01, "--steps", 12,
                 "--out", "run", "--json")  # fmt: skip
    assert (answer.code, answer.err) == (0, "")
    run = Run.load(tmp_path / "run")
    assert run.data.classes == ("cat", "dog", "owl")
    assert run.data.y.shape == (12, 3)
    assert run.params["a"].shape == (3, 16)
    assert 0 <= json.loads(answer.out)["error"] <= 1
    again = ("--target", 2, "--step-size", 0.01, "--steps", 12, "--out", "by-position")
    assert cli("train", "pets.csv", *SMALL, *again).code == 0
    same_bits(tmp_path / "run", tmp_path / "by-position")
    two = cli("audit", "pets.csv", "--target", "kind", "--classes", "cat,owl", "--prepare", "unit", "--json")
    assert json.loads(two.out)["task"] == "binary"


def test_networks_lists_everything(cli):
    text, found = cli("networks").out, json.loads(cli("networks", "--json").out)
    assert set(found["networks"]) == set(NETWORKS)
    assert set(found["activations"]) == set(ACTIVATIONS)
    for name in (*NETWORKS, *ACTIVATIONS):
        assert name in text
    assert found["networks"]["conv-residual"]["data"] == "images"
    assert "filter_size" in found["networks"]["conv-residual"]["options"]


def test_losses_lists_everything(cli):
    text, found = cli("losses").out, json.loads(cli("losses", "--json").out)
    assert set(found) >= set(LOSSES) | {"power_hinge(3)", "canonical(0.75)"}
    for name in (*LOSSES, "power_hinge", "canonical"):
        assert name in text
    assert found["logistic"]["smoothness"] == 0.25
    assert found["exponential"]["alpha0"] == "inf"
    assert found["sigmoid"]["meets"] == ["3.1", "3.3"]


def test_data_lists_everything(cli):
    text, found = cli("data").out, json.loads(cli("data", "--json").out)
    assert set(found["bundled"]) == set(BUNDLED)
    assert found["generators"] == list(GENERATORS)
    for name in (*BUNDLED, *GENERATORS, *found["steps"]):
        assert name in text
    assert found["papers_need"]["zou2018"] == ["constant"]
