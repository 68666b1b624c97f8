"""Bad input, each through the command line: exit code 2, one sentence on stderr, nothing left behind."""

import json
import os
import pickle
import re
import subprocess
import sys
import textwrap
import zipfile

import numpy as np
import pytest

from tests.cli.tools import SEQUENCES, VECTORS, listing
from wideproof.storage import read_json, read_tensors, write_json, write_tensors
from wideproof.training import Run, Status

SMALL = ("--width", 16, "--steps", 12)


def refused(answer, *patterns):
    """Check the exit code, and that stderr is one sentence in which the patterns occur in this order."""
    assert answer.code == 2, answer
    assert re.fullmatch(r"error: [^\n]+\n", answer.err), answer.err
    assert re.search(".*".join(patterns), answer.err), answer.err
    assert "Traceback" not in answer.out + answer.err


# --- the data ---------------------------------------------------------------------------------------------------


def content(rows, kind):
    """Return a table as text, after `kind` was done to it."""
    table = [[f"{value:.4g}" for value in row[:3]] + [str(i % 2)] for i, row in enumerate(rows[:6])]
    header = ["height", "weight", "age", "label"]
    if kind == "nan":
        table[3][1] = "nan"
    elif kind == "empty field":
        table[3][1] = ""
    elif kind == "infinite":
        table[3][1] = "-inf"
    elif kind == "ragged":
        table[2] = table[2][:-1]
    elif kind == "text":
        table[4][2] = "about 40"
    elif kind == "header only":
        table = []
    elif kind == "one class":
        table = [[*row[:-1], "1"] for row in table]
    elif kind == "nan target":
        table[2][3] = "nan"
    return "\n".join(",".join(row) for row in [header, *table]) + "\n"


@pytest.mark.parametrize("command", ["audit", "train"])
@pytest.mark.parametrize(
    ("kind", "patterns"),
    [
        ("infinite", (r"t\.csv, line 5, column 'weight' holds -inf", "finite number")),
        ("ragged", (r"t\.csv, line 4: 3 fields where line 1 has 4", "same number of fields")),
        ("text", (r"t\.csv, line 6, column 'age' holds the text 'about 40'", "correct it, or remove or encode")),
        ("header only", (r"t\.csv holds a header only", "add one row for each example")),
        ("one class", (r"'t' holds only one class \('1'\) in 6 examples", "use more.*--task 'regression'")),
    ],
)
def test_a_bad_table(cli, tmp_path, rows, command, kind, patterns):
    (tmp_path / "t.csv").write_text(content(rows, kind))
    before = listing(tmp_path)
    refused(cli(command, "t.csv"), *patterns)
    assert listing(tmp_path) == before


@pytest.mark.parametrize(
    ("table", "where"),
    [
        ("a;b;y\n1,5;2.5;0\n2,5;3.5;1\n", r"line 2, column 'a'"),
        ("a;b;y\n1.5;2;0\n2,5;3;1\n", r"line 3, column 'a'"),
    ],
)
def test_decimal_commas_and_points_in_one_table(cli, tmp_path, table, where):
    (tmp_path / "t.csv").write_text(table)
    refused(cli("audit", "t.csv"), where, "with a decimal comma", "write all its numbers with decimal points, or all")


def test_an_empty_file(cli, tmp_path):
    (tmp_path / "t.csv").write_text("")
    refused(cli("train", "t.csv"), r"t\.csv is empty", "give a table with one row for each example")
    assert listing(tmp_path) == {"t.csv": b""}


def test_a_missing_file_and_a_directory(cli, tmp_path):
    refused(cli("train", "nowhere.csv"), r"there is no file nowhere\.csv", "give a path", "digits", "sphere")
    (tmp_path / "folder.csv").mkdir()
    refused(cli("train", "folder.csv"), r"folder\.csv is a directory", "name one file in it")
    (tmp_path / "t.ods").write_text("")
    refused(cli("train", "t.ods"), r"t\.ods ends in '\.ods'", r"save it as one of \.csv")
    (tmp_path / "t.xlsx").write_text("")
    refused(cli("train", "t.xlsx"), r"t\.xlsx is damaged or not an Excel workbook")
    assert listing(tmp_path) == {"folder.csv": None, "t.ods": b"", "t.xlsx": b""}


def test_odd_names_and_fields_stay_one_sentence(cli, tmp_path):
    name = "a[bold]b[red].csv"
    refused(cli("audit", name), re.escape(f"there is no file {name}"))
    (tmp_path / name).write_text('1,2,0\n"two\nlines",3,1\n4,5,0\n')
    refused(cli("audit", name), re.escape(name), r"line 3, column 1 \(counting from 1\) holds the text 'two lines'")


def test_bad_arrays(cli, tmp_path, rows):
    x, y = rows.copy(), np.arange(12) % 2
    x[7, 2] = np.inf
    np.savez(tmp_path / "inf.npz", x=x, y=y)
    np.savez(tmp_path / "whole.npz", x=rows, y=y)
    whole = (tmp_path / "whole.npz").read_bytes()
    (tmp_path / "half.npz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "flipped.npz").write_bytes(whole[:200] + bytes(8) + whole[208:])
    (tmp_path / "text.npz").write_text("1,2,3\n4,5,6\n")
    (tmp_path / "empty.npz").write_bytes(b"")
    (tmp_path / "pickled.npy").write_bytes(pickle.dumps(rows))
    np.save(tmp_path / "objects.npy", np.array([[1, "a"], [2, None]], dtype=object))
    np.savez(tmp_path / "objects.npz", x=np.array([[1, 2], [3, None]], dtype=object), y=[0, 1])
    np.savez(tmp_path / "keys.npz", a=rows, b=y)
    np.savez(tmp_path / "lengths.npz", x=rows, y=y[:5])
    with zipfile.ZipFile(tmp_path / "zip.npz", "w") as archive:
        archive.writestr("readme", "no array")
    np.savez(tmp_path / "short.npz", x=rows[:, None, :], y=y)
    np.savez(tmp_path / "cube.npz", x=rows.reshape(4, 3, 5), y=[0, 1, 0, 1])
    before = listing(tmp_path)
    save = r"write it again with np\.save"
    for name, *patterns in (
        ("inf.npz", "'inf' holds inf at row 7, column 2", "counting from 0", "remove that row or fill the value in"),
        ("half.npz", r"half\.npz is damaged or not a NumPy file", save),
        ("flipped.npz", r"flipped\.npz is damaged or not a NumPy file", save),
        ("text.npz", r"text\.npz is damaged or not a NumPy file", save),
        ("empty.npz", r"empty\.npz is damaged or not a NumPy file", save),
        ("pickled.npy", r"pickled\.npy is refused: it needs pickle, which can run code", r"np\.savez"),
        ("objects.npy", r"objects\.npy is refused: it needs pickle", "save plain arrays"),
        ("objects.npz", r"objects\.npz is refused: it needs pickle", "save plain arrays"),
        ("keys.npz", r"keys\.npz holds a, b: save the inputs under the key 'x'"),
        ("lengths.npz", "'lengths' has 12 inputs and 5 labels", "give one for each input"),
        ("zip.npz", r"zip\.npz is damaged or not a NumPy file", save),
        ("cube.npz", r"cube\.npz holds inputs of shape \(4, 3, 5\)", "say what they are with --kind"),
    ):
        refused(cli("train", name), *patterns)
    for network in ("elman-rnn", "deep-rnn"):
        answer = cli("train", "short.npz", "--network", network)
        refused(answer, "'short' have length 1", "starts at step 2", "at least two tokens")
    assert listing(tmp_path) == before


# --- the settings -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "patterns"),
    [
        (("--network", "deep-relu", "--width", 15), ("deep-relu needs an even width", "got 15: use 16")),
        (("--network", "residual-relu", "--width", 7), ("residual-relu needs an even width", "got 7: use 8")),
        (("--width", 0), ("needs width to be a whole number of at least 1, got 0",)),
        (("--width", -3), ("needs width to be a whole number of at least 1, got -3",)),
        (("--network", "deep-relu", "--width", -3), ("needs width to be a whole number of at least 1, got -3",)),
        (("--depth", 0), ("needs depth to be a whole number of at least 1, got 0",)),
        (("--network", "transformer"), ("no network 'transformer'", "choose one of fully-connected, .*residual-relu")),
        (("--activation", "cosine"), ("no activation 'cosine'", "choose one of softplus, .*relu")),
        (("--loss", "hubert"), ("no loss 'hubert'", r"choose one of squared, .*canonical\(p\)")),
        (("--loss", "power_hinge(x)"), ("power_hinge takes a number in parentheses, got 'x'",)),
        (("--loss", "canonical(2)"), (r"canonical needs 0 < p <= 1, got 2",)),
        (("--reduction", "sum"), ("--reduction must be auto, half_sum or mean, got 'sum'",)),
        (("--loss", "logistic", "--reduction", "half_sum"), ("half_sum goes with the squared loss", "use 'mean'")),
        (("--optimizer", "lbfgs"), ("--optimizer must be plain, momentum, nesterov, adam or adamw, got 'lbfgs'",)),
        (("--optimizer", "adam"), ("adam", "give a number, such as 0.001")),
        (("--prepare", "normalise"), ("'normalise' is not a preparation step", "use center, .*unit")),
        (("--prepare", "pad"), ("`pad` prepares sequences", "holds vectors", "use `unit`")),
        (("--prepare", "constant(2)"), ("between 0 and 1, got '2'", r"try constant\(0\.5\)")),
        (("--precision", "float16"), ("--precision must be float64 or float32, got 'float16'",)),
        (("--kind", "graphs"), ("--kind must be vectors, images or sequences, got 'graphs'",)),
        (("--task", "ranking"), ("--task must be auto, binary, multiclass or regression, got 'ranking'",)),
        (("--batch", 0), ("batch must be a whole number >= 1, got 0",)),
        (("--batch", 13), ("batch is 13 and 'two_classes.* has 12 examples", "use at most 12")),
        (("--step-size", -0.1), ("step size must be a number >= 0, got -0.1",)),
        (("--step-size", "nan"), ("step size must be a number >= 0, got nan",)),
        (("--step-size", "inf"), ("step size must be a number >= 0, got inf",)),
        (("--step-size", "big"), ("the step size must be a number, 'safe' or 'paper', got 'big'",)),
        (("--constant", 0), ("constant of a step-size rule must be > 0, got 0",)),
        (("--steps", -1), ("steps must be a whole number >= 0", "got -1")),
        (("--seed", -1), ("seed must be a whole number >= 0", "got -1")),
        (("--record-every", -1), ("record_every must be a whole number >= 0", "got -1")),
        (("--target-loss", "nan"), ("the target loss must be a number >= 0, got nan",)),
        (("--target-loss", "-1"), ("the target loss must be a number >= 0, got -1",)),
        (("--target-loss", "inf"), ("the target loss must be", "got inf")),
        (("--seed", 2**63), ("seed must be a whole number", "got 9223372036854775808")),
        (("--steps", 10**20), ("steps must be a whole number", "got 1")),
        (("--record-every", 10**20), ("record_every must be a whole number", "got 1")),
        (("--out", "long" * 100), ("longlong", "File name too long", "choose another")),
        (("--plot", "long" * 100 + ".svg"), ("longlong", "File name too long", "choose another")),
        (("--trained", "everything"), ("can train hidden, output", "got everything")),
        (("--filter-size", 3), ("fully-connected has no option filter_size", "it has .*width")),
        (("--network", "deep-relu", "--activation", "tanh"), ("deep-relu has no option activation",)),
        (("--network", "residual", "--start", "positive"), ("start of residual must be normal, doubled or zero",)),
        (("--start", "positive"), ("needs a smooth activation that is 0 at 0", "got softplus")),
        (("--activation", "tanh", "--start", "positive(0)"), (r"positive\(A\) with a number A > 0",)),
        (("--network", "elman-rnn", "--depth", 2, "--prepare", "none"), ("elman-rnn", "sequences")),
        (
            ("--network", "conv-residual", "--prepare", "none"),
            ("conv-residual takes images", "load the data as images"),
        ),
        (("--network", "residual", "--c-res", 0), ("residual needs c_res > 0", "between 0 and 1", "got 0")),
        (("--limit", 0), ("--limit is 0", "keep at least one example")),
        (("--classes", "0,1"), ("makes its own targets: leave out --classes",)),
        (("--plot", "nowhere/loss.svg"), (r"cannot write nowhere/loss\.svg", "no folder nowhere", "create it first")),
        (("--plot", "loss.txt"), (r"\.svg or \.png, got 'loss\.txt'",)),
        (("--plot", "loss"), (r"\.svg or \.png, got 'loss'",)),
    ],
)
def test_a_bad_setting(cli, tmp_path, arguments, patterns):
    given = (*SMALL, *arguments)  # the later of two equal options counts
    refused(cli("train", VECTORS, *given, "--quiet"), *patterns)
    assert listing(tmp_path) == {}


def test_bad_generators(cli, tmp_path):
    refused(cli("train", "sphere:n=5"), "sphere", "d")
    refused(cli("train", "sphere:n=5,d=3,separation=9"), "sphere", "9")
    refused(cli("train", "sphere:n=many,d=3,separation=0.1"), "n", "many")
    refused(cli("train", "sphere:size=5"), "sphere", "size")
    assert listing(tmp_path) == {}


def test_an_unknown_class(cli, tmp_path):
    refused(cli("train", "iris", "--classes", "setosa,rose"), "'iris' has no class 'rose'", "choose among setosa")
    refused(cli("audit", "digits", "--classes", "0,12"), "'digits' has no class '12'", "choose among 0, 1")
    refused(cli("audit", "digits", "--classes", "3"), "keeps 1 class of 'digits'", "name at least two")
    refused(cli("train", "iris", "--network", "deep-relu"), "deep-relu has one output and the targets have 3", "choose")
    assert listing(tmp_path) == {}


def test_an_even_filter(cli, tmp_path):
    common = ("train", "digits", "--classes", "0,1", "--limit", 4, "--network", "conv-residual", *SMALL)
    refused(cli(*common, "--filter-size", 4), "needs an odd filter_size", "got 4: use 5")
    assert listing(tmp_path) == {}


def test_tokens_of_one_feature(cli, tmp_path, rows):
    np.savez(tmp_path / "series.npz", x=rows[:, :, None], y=np.arange(12) % 2)
    before = listing(tmp_path)
    for network in ("elman-rnn", "deep-rnn"):
        answer = cli("train", "series.npz", "--network", network, *SMALL, "--prepare", "none")
        refused(answer, f"{network} needs tokens of 2 or more features, got 1", "prepare the data with `pad`")
    assert listing(tmp_path) == before


def test_losses_that_do_not_fit_the_task(cli, tmp_path):
    for loss in ("logistic", "hinge", "canonical(0.75)"):
        answer = cli("train", "diabetes", "--limit", 12, *SMALL, "--loss", loss)
        refused(answer, f"the {re.escape(loss)} loss needs labels -1 and \\+1", "'diabetes'", "use the squared loss")
    answer = cli("train", "diabetes", "--limit", 12, *SMALL, "--zero-error")
    refused(answer, "'diabetes' has real targets", "stop at a target loss")
    assert listing(tmp_path) == {}


def test_audit_settings(cli, tmp_path):
    refused(
        cli("audit", VECTORS, "--paper", "vaswani2017"), "--paper must be one of du2019, .*frei2019", "'vaswani2017'"
    )
    refused(cli("audit", VECTORS, "--margin", "half"), "must be auto, never or full, got 'half'")
    refused(cli("audit", VECTORS, "--kind", "graphs"), "--kind must be vectors, images or sequences, got 'graphs'")
    refused(cli("audit", VECTORS, "--prepare", "bleach"), "'bleach' is not a preparation step")
    refused(cli("audit", SEQUENCES, "--prepare", "whiten"), "`whiten` prepares vectors", "use `standardize`")
    assert listing(tmp_path) == {}


def test_targets_that_are_not_there(cli, tmp_path, rows):
    (tmp_path / "t.csv").write_text(content(rows, ""))
    before = listing(tmp_path)
    answer = cli("train", "t.csv", "--target", "salary")
    refused(answer, r"t\.csv has no column 'salary'", "its columns are height, weight, age, label", "choose the target")
    refused(cli("train", "t.csv", "--target", 4), r"t\.csv has 4 columns", "position 4: use 0 to 3")
    assert listing(tmp_path) == before


# --- where to write ---------------------------------------------------------------------------------------------


def test_folders_that_cannot_be_made(cli, tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes").write_text("mine too")
    (tmp_path / "link").symlink_to("nowhere")
    before = listing(tmp_path)
    for out, *patterns in (
        ("taken", "taken exists already: resume it, or choose another folder"),
        ("file", "file exists already: .*choose another folder"),
        ("link", "link exists already: .*choose another folder"),
        ("file/run", "cannot create file/run: .*(Not a directory|not a folder)", "choose another folder"),
        ("file/deep/run", "cannot create file/deep/run: .*(Not a directory|not a folder)", "choose another folder"),
        ("/proc/nowhere/run", "cannot create /proc/nowhere/run: .+; choose another folder"),
    ):
        for quiet in ((), ("--quiet",)):
            refused(cli("train", VECTORS, *SMALL, "--out", out, *quiet), *patterns)
    assert listing(tmp_path) == before


def test_a_figure_that_cannot_be_written(cli, tmp_path):
    (tmp_path / "dir.svg").mkdir()
    refused(cli("train", VECTORS, *SMALL, "--quiet", "--out", "run", "--plot", "dir.svg"), r"dir\.svg", "directory")
    assert listing(tmp_path) == {"dir.svg": None}


FULL = """
    import json, resource, signal, sys
    from wideproof.cli import main

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # then a write past the limit fails as on a full disk
    answers = []
    for limit, arguments in json.loads(sys.argv[1]):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        sys.argv = ["wideproof", *arguments]
        try:
            main()
        except SystemExit as end:
            answers.append(end.code)
            print("-", file=sys.stderr, flush=True)
    print(json.dumps(answers))
"""


def test_a_full_disk(tmp_path):
    train = ["train", VECTORS, "--width", "16", "--checkpoint-seconds", "0", "--quiet"]
    cases = [
        (500, [*train, "--steps", "12", "--out", "none"]),  # not even the data set fits
        (2000, [*train, "--steps", "12", "--out", "some/where/none"]),  # the data set fits, the weights do not
        (8000, [*train, "--steps", "1000", "--out", "part"]),  # the start fits, a later state does not
        (8000, [*train, "--steps", "12", "--out", "whole"]),
        (8000, ["show", "whole", "--plot", "loss.svg"]),
    ]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FULL), json.dumps(cases)],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
        # Compiled programs would be torn too, and other tests read what is kept of them.
        env=os.environ | {"COLUMNS": "200", "JAX_ENABLE_COMPILATION_CACHE": "false", "WIDEPROOF_CACHE": "off"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [2, 2, 2, 0, 2]
    said = done.stderr.split("-\n")
    for sentence, file in zip(said, ("data", "initial", "state", "", "loss"), strict=False):
        if file:
            assert re.fullmatch(rf"error: cannot write \S*{file}\.\w+: File too large; free some space .*\n", sentence)
        else:
            assert sentence == ""
    files = ["data.safetensors", "initial.safetensors", "run.json", "state.safetensors"]
    assert sorted(listing(tmp_path)) == sorted(
        ["part", *(f"part/{name}" for name in files), "whole", *(f"whole/{name}" for name in files)]
    )
    run = Run.load(tmp_path / "part")  # the last checkpoint that fitted
    assert run.status is Status.RUNNING
    assert 0 < run.step < 1000
    assert run.steps.tolist() == list(range(run.step))


# --- run folders ------------------------------------------------------------------------------------------------


@pytest.fixture
def run(cli, tmp_path):
    assert cli("train", VECTORS, *SMALL, "--quiet", "--out", "run").code == 0
    return tmp_path / "run"


@pytest.mark.parametrize("command", ["resume", "show"])
def test_a_folder_that_is_no_run(cli, tmp_path, command):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    before = listing(tmp_path)
    refused(cli(command, "nowhere"), "there is no run folder nowhere", "give the folder that `train --out` wrote")
    refused(cli(command, "file"), "there is no run folder file")
    refused(cli(command, "empty"), r"there is no file empty/run\.json", "is this a run folder")
    assert listing(tmp_path) == before


def cut(path):
    path.write_bytes(path.read_bytes()[:-40])


def empty(path):
    path.write_bytes(b"")


def garbage(path):
    path.write_bytes(b"\x00\xff{ no JSON")


def not_an_object(path):
    path.write_text("[1, 2]")


def alter_data(path):
    tensors, meta = read_tensors(path)
    write_tensors(path, tensors | {"x": tensors["x"] * (1 + 1e-15) + 1e-15}, meta)


def other_data(path):
    from wideproof.data import load
    from wideproof.data.packing import pack

    tensors, meta = pack(load(VECTORS, seed=5))
    write_tensors(path, tensors, meta)


def lose_field(path):
    write_json(path, {key: value for key, value in read_json(path).items() if key != "recipe"})


def newer(path):
    write_json(path, read_json(path) | {"format": 99})


def odd_format(path):
    write_json(path, read_json(path) | {"format": "one"})


def odd_network(path):
    value = read_json(path)
    write_json(path, value | {"network": value["network"] | {"width": 0}})


def odd_recipe(path):
    value = read_json(path)
    write_json(path, value | {"recipe": value["recipe"] | {"friction": 0.5}})


def odd_recipe_value(path):
    value = read_json(path)
    write_json(path, value | {"recipe": value["recipe"] | {"precision": "float16"}})


def lose_tensor(path):
    tensors, meta = read_tensors(path)
    write_tensors(path, {name: array for name, array in tensors.items() if name != "ceiling"}, meta)


def lose_weight(path):
    tensors, meta = read_tensors(path)
    name = next(name for name in tensors if name.startswith("params."))
    write_tensors(path, tensors | {name: tensors[name][:-1]}, meta)


def lose_meta(path):
    tensors, meta = read_tensors(path)
    write_tensors(path, tensors, {key: value for key, value in meta.items() if key != "digest"})


def odd_status(path):
    tensors, meta = read_tensors(path)
    write_tensors(path, tensors, meta | {"status": "DANCING"})


@pytest.mark.parametrize("command", ["resume", "show"])
@pytest.mark.parametrize(
    ("file", "damage", "patterns"),
    [
        ("state.safetensors", cut, (r"run/state\.safetensors is damaged",)),
        ("state.safetensors", empty, (r"run/state\.safetensors is damaged",)),
        ("state.safetensors", os.remove, (r"there is no file run/state\.safetensors",)),
        ("state.safetensors", lose_tensor, ("run.* is damaged", "ceiling")),
        ("state.safetensors", lose_meta, ("run.* is damaged", "digest")),
        ("state.safetensors", odd_status, ("run.* is damaged", "DANCING")),
        ("state.safetensors", lose_weight, ("run", "damaged|do not belong together")),
        ("initial.safetensors", cut, (r"run/initial\.safetensors is damaged",)),
        ("run.json", garbage, (r"run/run\.json cannot be read", "damaged or not JSON")),
        ("run.json", empty, (r"run/run\.json cannot be read", "damaged or not JSON")),
        ("run.json", not_an_object, (r"run/run\.json is damaged", "no JSON object")),
        ("run.json", lose_field, ("run is damaged", "recipe")),
        ("run.json", newer, ("run was written by a newer version", "update wideproof")),
        ("run.json", odd_format, ("run", "damaged")),
        ("run.json", odd_network, ("width", "got 0")),
        ("run.json", odd_recipe, ("a recipe has no friction", "newer version")),
        ("run.json", odd_recipe_value, ("precision must be", "got 'float16'")),
        ("data.safetensors", cut, (r"run/data\.safetensors is damaged",)),
        ("data.safetensors", alter_data, ("two_classes.* does not match its digest", "the file was changed")),
        ("data.safetensors", other_data, ("run holds the state of another data set", "do not belong together")),
        ("data.safetensors", lose_meta, ("run", "damaged", "digest")),
    ],
)
def test_a_damaged_run(cli, run, tmp_path, command, file, damage, patterns):
    damage(run / file)
    before = listing(tmp_path)
    extra = ("--steps", 20) if command == "resume" else ()
    refused(cli(command, "run", *extra), *patterns)
    assert listing(tmp_path) == before


def test_resume_settings(cli, run, tmp_path):
    before = listing(tmp_path)
    refused(cli("resume", "run", "--steps", -1), "steps must be a whole number >= 0", "got -1")
    refused(cli("resume", "run", "--plot", "loss.txt"), r"\.svg or \.png, got 'loss\.txt'")
    refused(cli("show", "run", "--plot", "nowhere/loss.png"), "no folder nowhere")
    assert listing(tmp_path) == before
