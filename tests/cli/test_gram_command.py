"""`wideproof gram` on sound and on bad input: what it prints and writes, and which exit code answers the question."""

import importlib.util
import json
import os

import numpy as np
import pytest

from tests.cli.test_bad_input import content, refused
from tests.cli.test_commands import check_figure
from tests.cli.tools import SEQUENCES, VECTORS, listing
from wideproof.data import load, prepare
from wideproof.errors import InputError
from wideproof.kernels import gram, limit_gram, predict, spectrum
from wideproof.networks import build
from wideproof.planning.assumptions import notes
from wideproof.report import save_gram

DIGITS = ("digits", "--classes", "0,1", "--limit", 12, "--prepare", "whiten,unit")


def problem(network="fully-connected", **options):
    data = prepare(load("digits", classes=(0, 1), limit=12), "whiten,unit")
    return data, build(network, data.input_shape, data.target_shape, **{"width": 64, "depth": 2, **options})


def answered(cli, *arguments):
    answer = cli("gram", *arguments, "--json")
    assert answer.err == ""
    return answer.code, json.loads(answer.out)


def test_infinite_width_is_the_default(cli, tmp_path):
    answer = cli("gram", *DIGITS, "--layers")
    assert (answer.code, answer.err) == (0, "")
    for words in ("infinite width; 12 rows, sum over W1, W2, a", "λ min", "λ max", "condition number", "stable step",
                  "positive definite: the smallest eigenvalue is", "share of the trace", "predicted from outputs 0",
                  "the target"):  # fmt: skip
        assert words in answer.out, words
    assert "width=" not in answer.out  # no width has a part in it
    assert "note:" not in answer.out
    assert not list(tmp_path.iterdir())
    data, network = problem()
    exact = spectrum(limit_gram(network, data.x))
    for extra in ((), ("--infinite",), ("--infinite", "--width", 8)):
        code, found = answered(cli, *DIGITS, *extra)
        assert (code, found["positive_definite"], found["infinite"], found["seed"]) == (0, True, True, None)
        assert found["spectrum"]["smallest"]["value"] == pytest.approx(exact.smallest.value, rel=1e-12)
        assert found["gram"]["source"] == "limit"


def test_the_limit_of_relu_networks_is_scaled_to_a_width(cli):
    small, large = (
        answered(cli, VECTORS, "--network", "deep-relu", "--infinite", "--width", width)[1] for width in (16, 32)
    )
    assert large["spectrum"]["largest"]["value"] == pytest.approx(2 * small["spectrum"]["largest"]["value"])
    assert "infinite width, scaled to width 256" in cli("gram", VECTORS, "--network", "deep-relu").out


def test_finite_width_predicts_the_run(cli):
    code, found = answered(cli, *DIGITS, "--width", 64, "--seed", 3, "--target-loss", 1e-4)
    assert (code, found["infinite"], found["seed"], found["gram"]["source"]) == (0, False, 3, "finite")
    data, network = problem()
    params = network.init(3)
    exact = spectrum(gram(network, params, data.x))
    assert found["spectrum"]["smallest"]["value"] == pytest.approx(exact.smallest.value, rel=1e-12)
    course = found["prediction"]
    assert course["step"] == pytest.approx(1 / exact.largest.value)
    assert course["start"] == "the outputs of this network"
    start = predict(gram(network, params, data.x), data.y, network(params, data.x), course["step"])
    assert course["steps"] == start.steps_to(1e-4)
    assert course["table"][0] == {"loss": pytest.approx(float(start.loss(0))), "steps": 0}
    assert course["table"][-1] == {"loss": 1e-4, "steps": course["steps"]}
    assert float(start.loss(0)) == pytest.approx(0.5 * np.square(network(params, data.x) - data.y).sum())


def test_the_mean_has_the_same_course(cli):
    total, mean = (
        answered(cli, *DIGITS, "--reduction", reduction, "--target-loss", target)[1]["prediction"]
        for reduction, target in (("half_sum", 1e-3), ("mean", 1e-3 / 12))
    )
    assert (total["objective"], mean["objective"]) == ("half_sum", "mean")
    assert mean["step"] == pytest.approx(12 * total["step"])
    assert abs(mean["steps"] - total["steps"]) <= 1
    assert "2n/λmax" in cli("gram", *DIGITS, "--reduction", "mean").out


@pytest.mark.parametrize(
    ("network", "arguments"),
    [
        ("residual", (VECTORS, "--width", 16, "--depth", 1)),
        ("conv-residual", ("iris", "--limit", 6, "--kind", "images", "--depth", 1)),
        pytest.param(
            "conv-residual",
            ("iris", "--limit", 6, "--kind", "images", "--depth", 1, "--width", 16),
            marks=pytest.mark.slow,
        ),
        ("residual-relu", (VECTORS,)),
        ("residual-relu", (VECTORS, "--width", 16, "--depth", 1)),
        ("elman-rnn", ("digits-rows", "--limit", 3, "--classes", "0,1,2")),
        ("elman-rnn", (SEQUENCES, "--width", 16)),
        ("deep-rnn", (SEQUENCES,)),
    ],
)
def test_every_other_network(cli, network, arguments):
    code, found = answered(cli, *arguments, "--network", network, "--layers")
    assert code in (0, 1, 2)
    assert found["positive_definite"] is {0: True, 1: False, 2: None}[code]
    assert sum(part["share"] for part in found["layers"].values()) == pytest.approx(1)
    assert found["prediction"]["table"][0]["steps"] == 0


def test_save_and_load(cli, tmp_path):
    answer = cli("gram", *DIGITS, "--width", 16, "--layers", "--save", "g.npz", "--quiet")
    assert (answer.code, answer.err) == (0, "")
    assert "matrix in g.npz" in answer.out
    assert len(answer.out.splitlines()) == 2
    data, network = problem(width=16)
    exact = gram(network, network.init(0), data.x, by_weight=True)
    with np.load(tmp_path / "g.npz") as file:
        assert set(file) == {"matrix", "eigenvalues", "metadata", "blocks/W1", "blocks/W2", "blocks/a"}
        np.testing.assert_array_equal(file["matrix"], exact.matrix)
        np.testing.assert_allclose(sum(file[f"blocks/{name}"] for name in exact.blocks), file["matrix"], rtol=1e-12)
        np.testing.assert_allclose(file["eigenvalues"], np.linalg.eigvalsh(exact), rtol=1e-9)
        about = json.loads(str(file["metadata"]))
    assert about["network"]["width"] == 16
    assert (about["precision"], about["source"], about["error"]) == ("float64", "finite", exact.error)
    assert about["data"]["digest"] == data.digest
    assert sorted(listing(tmp_path)) == ["g.npz"]


@pytest.mark.skipif(importlib.util.find_spec("zarr") is None, reason="zarr is not installed")
def test_save_as_zarr(cli, tmp_path):
    import zarr

    assert cli("gram", *DIGITS, "--width", 16, "--layers", "--save", "g.zarr", "--quiet").code == 0
    root = zarr.open_group(str(tmp_path / "g.zarr"), mode="r")
    data, network = problem(width=16)
    stored = {name: np.asarray(root[name]) for name in ("matrix", "blocks/W1")}
    np.testing.assert_array_equal(stored["matrix"], gram(network, network.init(0), data.x).matrix)
    assert json.loads(str(root.attrs["metadata"]))["source"] == "finite"
    assert stored["blocks/W1"].shape == (12, 12)


@pytest.mark.parametrize("name", ["g.svg", "g.png"])
def test_plots(cli, tmp_path, name):
    answer = cli("gram", *DIGITS, "--layers", "--plot", name)
    assert f"figure in {name}" in answer.out
    check_figure(tmp_path / name)


def test_lanczos_finds_both_ends(cli):
    _, dense = answered(cli, *DIGITS)
    code, found = answered(cli, *DIGITS, "--method", "lanczos")
    assert (code, found["prediction"], found["spectrum"]["rank"]) == (0, None, None)
    for end in ("smallest", "largest"):
        assert found["spectrum"][end]["value"] == pytest.approx(dense["spectrum"][end]["value"], rel=1e-9)
    assert "use --method dense" in cli("gram", *DIGITS, "--method", "lanczos").out


def test_equal_inputs_are_an_answer(cli, tmp_path):
    (tmp_path / "t.csv").write_text("a,b,kind\n1,0,cat\n1,0,dog\n0,1,cat\n0.6,0.8,dog\n")
    answer = cli("gram", "t.csv", "--plot", "g.svg")
    assert (answer.code, answer.err) == (1, "")
    assert "singular: examples 0 and 1 are equal" in answer.out
    assert "rank" in answer.out
    assert "never" in answer.out
    assert "the loss cannot fall below" in answer.out
    assert "Du et al. 2019 assume: no two parallel inputs" in answer.out
    check_figure(tmp_path / "g.svg")
    code, found = answered(cli, "t.csv", "--quiet")
    assert (code, found["positive_definite"], found["spectrum"]["condition"]) == (1, False, None)
    assert found["spectrum"]["culprits"][0] == {"i": 0, "j": 1, "what": "equal", "distance": 0.0}


def test_fewer_weights_than_rows(cli):
    answer = cli("gram", VECTORS, "--width", 2, "--depth", 1)
    assert answer.code == 1
    assert "singular: 12 rows are gradients by 10 weights" in answer.out


def test_what_cannot_be_resolved_is_undecided(cli, tmp_path):
    (tmp_path / "t.csv").write_text("a,b,kind\n1,0,0\n1,1e-4,1\n0,1,0\n0.6,0.8,1\n")
    answer = cli("gram", "t.csv", "--precision", "float32")
    assert (answer.code, answer.err) == (2, "")
    assert "float32 cannot resolve it" in answer.out
    assert "are not resolved" in answer.out
    assert cli("gram", "t.csv").code == 0


def test_notes_on_assumptions(cli):
    answer = cli("gram", "iris", "--limit", 9, "--prepare", "none", "--activation", "relu")
    assert "assume: unit inputs; here norms from" in answer.out
    assert "prepare with `unit`" in answer.out
    data = load(VECTORS)
    for activation, *words in (
        ("elu", "Condition 3.2", "Proposition F.1", "it is not analytic"),
        ("identity", "Condition 3.2", "it is a polynomial"),
        ("relu", "Conditions 3.1 and 3.2", "its derivative jumps"),
    ):
        (note,) = notes(data, build("residual", (4,), (), width=8, depth=1, activation=activation))
        assert note.startswith(f"{activation} does not meet")
        assert all(word in note for word in words), note
    for network in ("residual", "deep-relu", "residual-relu"):
        assert notes(data, build(network, (4,), (), width=8, depth=1)) == ()


def test_a_step_that_diverges_is_said(cli):
    answer = cli("gram", *DIGITS, "--step", 100)
    assert answer.code == 0
    assert "so this diverges" in answer.out


def test_memory_makes_tiles_of_the_same_matrix(cli):
    small, large = (answered(cli, *DIGITS, "--width", 16, "--memory", memory)[1] for memory in ("40kB", "1GiB"))
    assert small["spectrum"]["largest"]["value"] == pytest.approx(large["spectrum"]["largest"]["value"], rel=1e-13)


# --- bad input --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "patterns"),
    [
        (("--precision", "float16"), ("--precision must be float64, float32 or tf32, got 'float16'",)),
        (("--precision", "tf32"), ("'tf32' names the products of an NVIDIA GPU", "cpu", "use 'float32'")),
        (("--memory", 100, "--width", 64), ("memory=100 bytes is too small for one tile", "give at least that")),
        (("--memory", 1), ("memory=1 bytes is too small for one tile",)),
        (("--memory", 0), ("--memory must be a number of bytes, as in 500MB", "got '0'")),
        (("--memory", "lots"), ("--memory must be a number of bytes, as in 500MB", "got 'lots'")),
        (("--memory=-5MB",), ("--memory must be a number of bytes", "got '-5MB'")),
        (("--target-loss", 0), ("--target-loss must be a number > 0, got 0",)),
        (("--target-loss", -1), ("--target-loss must be a number > 0, got -1",)),
        (("--target-loss", "nan"), ("--target-loss must be a number > 0, got nan",)),
        (("--step", "big"), ("--step-size must be a number or safe, got 'big'",)),
        (("--step", 0), ("--step-size must be a number > 0, got 0",)),
        (("--step", "inf"), ("--step-size must be a number > 0, got inf",)),
        (("--method", "qr"), ("--method must be auto, dense or lanczos, got 'qr'",)),
        (("--method", "lanczos", "--plot", "a.svg"), ("--plot draws all eigenvalues", "use --method dense")),
        (("--reduction", "sum"), ("--reduction must be auto, half_sum or mean, got 'sum'",)),
        (("--seed", -1, "--width", 8), ("seed must be a whole number >= 0", "got -1")),
        (("--width", 0), ("needs width to be a whole number of at least 1, got 0",)),
        (("--network", "deep-relu", "--width", 7), ("needs an even width", "got 7: use 8")),
        (("--trained", "everything"), ("can train hidden, output", "got everything")),
        (
            ("--network", "conv-residual", "--prepare", "none"),
            ("conv-residual takes images", "load the data as images"),
        ),
        (("--network", "elman-rnn", "--prepare", "none"), ("elman-rnn", "sequences")),
        (("--save", "g.txt"), (r"Gram matrices must be written as \.npz or \.zarr, got 'g\.txt'",)),
        (("--save", "nowhere/g.npz"), (r"cannot write nowhere/g\.npz", "no folder nowhere", "create it first")),
        (("--save", "/proc/g.npz"), (r"cannot write /proc/g\.npz", "choose another folder")),
        (("--plot", "g.txt"), (r"\.svg or \.png, got 'g\.txt'",)),
        (("--plot", "nowhere/g.svg"), ("no folder nowhere",)),
    ],
)
def test_a_bad_setting(cli, tmp_path, arguments, patterns):
    refused(cli("gram", VECTORS, *arguments), *patterns)
    assert listing(tmp_path) == {}


def test_images_for_a_network_of_vectors(cli, tmp_path):
    answer = cli("gram", "digits-images", "--limit", 10, "--prepare", "none")
    refused(answer, r"fully-connected takes vectors", "load the data as vectors")
    answer = cli("gram", "iris", "--limit", 6, "--network", "conv-residual", "--kind", "vectors", "--prepare", "none")
    refused(answer, r"conv-residual takes images", "load the data as images")
    assert listing(tmp_path) == {}


def test_infinite_values_are_refused_and_missing_ones_filled(cli, tmp_path, rows):
    (tmp_path / "t.csv").write_text(content(rows, "infinite"))
    before = listing(tmp_path)
    refused(cli("gram", "t.csv", "--save", "g.npz"), r"t\.csv, line 5, column 'weight'")
    assert listing(tmp_path) == before
    for kind in ("nan", "empty field"):
        (tmp_path / "t.csv").write_text(content(rows, kind))
        assert cli("gram", "t.csv").code == 0


def test_a_file_that_exists_is_kept(cli, tmp_path):
    (tmp_path / "g.npz").write_text("mine")
    (tmp_path / "h.npz").symlink_to("nowhere")
    before = listing(tmp_path)
    for name in ("g.npz", "h.npz"):
        refused(cli("gram", VECTORS, "--save", name), f"{name} exists already", "choose another name")
    assert listing(tmp_path) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(cli, tmp_path):
    (tmp_path / "locked").mkdir(mode=0o555)
    refused(cli("gram", VECTORS, "--save", "locked/g.npz"), "locked is not writable", "choose another folder")


def test_zarr_that_is_not_installed(cli, tmp_path, monkeypatch):
    monkeypatch.setattr("wideproof.report.gram_file.find_spec", lambda name: None)
    refused(cli("gram", VECTORS, "--save", "g.zarr"), r"g\.zarr needs zarr, which is not installed", r"save as \.npz")
    assert listing(tmp_path) == {}


def test_a_save_that_fails_leaves_nothing(tmp_path, monkeypatch):
    data, network = problem()
    found = limit_gram(network, data.x)
    monkeypatch.setattr(np, "savez", lambda *a, **k: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(InputError, match=r"cannot write .*g\.npz: No space left on device"):
        save_gram(tmp_path / "g.npz", found)
    assert listing(tmp_path) == {}


@pytest.mark.parametrize(
    ("network", "shape", "wrong"),
    [("fully-connected", (4,), (3, 5)), ("conv-residual", (1, 9), (3, 1, 8)), ("elman-rnn", (3, 4), (2, 2, 4))],
)
def test_inputs_of_another_shape(network, shape, wrong):
    options = {} if network == "elman-rnn" else {"depth": 1}
    target = (3, 1) if network == "elman-rnn" else ()
    model = build(network, shape, target, width=8, **options)
    for compute in (lambda x: gram(model, model.init(0), x), lambda x: limit_gram(model, x)):
        with pytest.raises(InputError, match=rf"takes examples of shape \({shape[0]}.*the first axis counts"):
            compute(np.ones(wrong))
