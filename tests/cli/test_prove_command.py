"""`wideproof prove` and `verify`: from data to a verdict, its files, and going on after an interruption."""

import dataclasses
import json

import numpy as np
import pytest

from wideproof.data import Dataset, frames, load
from wideproof.networks import FullyConnected
from wideproof.proving import prove
from wideproof.proving.ranges import Ranges
from wideproof.training import Recipe, train
from wideproof_verify import verify

SPHERE = "sphere:n=6,d=4,separation=0.5,seed=1"
SMALL = (SPHERE, "--network", "fully-connected", "--width", 64, "--alpha", 1, "--depth", 1)


@pytest.fixture
def no_figures(monkeypatch):
    """Drawing takes longer than a small proof."""
    monkeypatch.setattr("wideproof.report.html.draw", lambda proof: {})


def test_a_proof_with_all_its_files(cli, tmp_path):
    answer = cli("prove", *SMALL, "--out", "proof")
    assert answer.code == 0, answer
    words = "Proved: from its initial weights (seed 0), gradient descent with step size"
    assert " ".join(answer.out.split()).startswith(words)
    assert "steps from the start with rigorous bounds" in answer.err
    folder = tmp_path / "proof"
    assert {path.name for path in folder.iterdir()} == {
        "run", "ratios.json", "choice.json", "certificate", "limit.safetensors",
        "ranges.safetensors", "figures", "report.html",
    }  # fmt: skip
    assert verify(folder / "certificate").answer == "proved"
    again = cli("verify", "proof/certificate")
    assert (again.code, again.out.splitlines()[0].partition(":")[0]) == (0, "proved")

    # The same command finds everything there and comes to the same end.
    before = (folder / "certificate" / "certificate.json").read_bytes()
    repeated = cli("prove", *SMALL, "--out", "proof", "--json")
    found = json.loads(repeated.out)
    assert (repeated.code, found["proved"], found["verdict"]["answer"]) == (0, True, "proved")
    assert (folder / "certificate" / "certificate.json").read_bytes() == before
    ratios = [ratio["h"] for ratio in found["ratios"]]
    assert ratios[0] > 0.5
    assert ratios[-1] < ratios[0]

    # Another problem does not go into the same folder, and an altered certificate proves nothing.
    other = cli("prove", *SMALL[:-1], 2, "--out", "proof")
    assert (other.code, "another recipe (depth 1, now 2)" in other.err) == (2, True)
    text = before.decode().replace('"theorem": "descent"', '"theorem": "existence"')
    (folder / "certificate" / "certificate.json").write_text(text)
    altered = cli("verify", "proof/certificate")
    assert (altered.code, altered.out.partition(":")[0]) == (2, "malformed")


def test_many_starts_from_the_command_line(cli, tmp_path):
    answer = cli("prove", *SMALL, "--seeds", 2, "--out", "starts")
    said = "2 of 2 random starts were proved to reach a global minimum: with 95 % confidence at least 22.3 % of all"
    assert (answer.code, said in answer.out) == (0, True)
    assert "wideproof verify starts" in answer.out
    assert (tmp_path / "starts/report.html").exists()
    found = json.loads(cli("prove", *SMALL, "--seeds", 2, "--out", "starts", "--json").out)
    assert (found["proved"], found["starts"], round(found["least"], 3)) == (2, 2, 0.224)
    verified = cli("verify", "starts", "--time", "10m")
    assert (verified.code, said in verified.out) == (0, True)
    assert verified.out.count(": proved: ") == 2
    assert json.loads(cli("verify", "starts", "--json").out)["confirmed"]
    assert cli("verify", "starts", "--time", "4GB").code == 64
    (tmp_path / "starts/start-2/start.json").unlink()
    unfinished = cli("verify", "starts")
    assert (unfinished.code, "1 of 2 starts are not finished" in unfinished.out) == (1, True)
    more = cli("prove", *SMALL, "--seeds", 3, "--out", "starts")
    assert (more.code, "begun for 2 starts, now 3" in more.err) == (2, True)


@pytest.mark.usefixtures("no_figures")
def test_a_deep_network_is_proved_before_training(cli, tmp_path):
    answer = cli("prove", "digits", "--classes", "0,1", "--limit", 12, "--prepare", "unit", "--width", 4, "--depth", 10,
                 "--start", "positive", "--steps", 16, "--out", "proof", "--json")  # fmt: skip
    found = json.loads(answer.out)
    assert (answer.code, found["before_training"]) == (0, True), answer
    assert "start=positive(" in found["network"]
    assert verify(tmp_path / "proof" / "certificate").answer == "proved"


@pytest.mark.usefixtures("no_figures")
def test_contradictions_are_proved_impossible(cli, tmp_path):
    (tmp_path / "clash.csv").write_text("a,b,y\n1,0,1\n1,0,-1\n0,1,1\n0,2,-1\n3,1,1\n")
    answer = cli("prove", "clash.csv", "--network", "fully-connected", "--width", 32, "--out", "proof",
                 "--require-zero")  # fmt: skip
    assert answer.code == 1, answer
    assert "Proved impossible" in answer.out
    assert verify(tmp_path / "proof" / "certificate").answer == "proved"


@pytest.mark.usefixtures("no_figures")
def test_contradictions_are_proved_impossible_before_a_network_is_chosen(cli, tmp_path):
    (tmp_path / "clash.csv").write_text("a,b,y\n1,0,1\n1,0,-1\n0,1,1\n0,2,-1\n3,1,1\n")
    answer = cli("prove", "clash.csv", "--out", "proof", "--quiet", "--require-zero")
    assert answer.code == 1, answer
    said = " ".join(answer.out.split())
    assert "no network fits clash; the loss stays at 1 or more (half the sum of squares, labels -1 and +1)." in said
    assert "correct or remove one of them" in said
    assert cli("verify", "proof").code == 0  # the folder of the proof will do


@pytest.mark.usefixtures("no_figures")
def test_the_least_loss_is_proved_where_labels_contradict(cli, tmp_path):
    """Two of five rows contradict each other: the loss tends to the least one, 1, and the rows are named by line."""
    (tmp_path / "clash.csv").write_text("a,b,y\n1,0,1\n1,0,-1\n0,1,1\n0,2,-1\n3,1,1\n")
    answer = cli("prove", "clash.csv", "--network", "fully-connected", "--width", 64, "--out", "proof", "--quiet")
    assert answer.code == 0, answer
    said = " ".join(answer.out.split())
    assert "2 rows of 5 have an equal row with another target" in said
    least = "the least loss of any function is 1 (half the sum of squares, labels -1 and +1), and the loss tends to it"
    assert least in said
    assert "equal inputs: line 2 is 1; line 3 is -1" in said
    table = (tmp_path / "proof" / "contradictions.csv").read_text().splitlines()
    assert table == ["group,line,target", "1,2,1", "1,3,-1"]
    assert "a global minimum" in verify(tmp_path / "proof" / "certificate").statement


@pytest.mark.usefixtures("no_figures")
def test_a_preparation_that_makes_inputs_equal_is_refused(cli, tmp_path):
    """What would be proved is about the preparation: never a word of impossible."""
    (tmp_path / "rays.csv").write_text("a,b,y\n1,2,0\n2,4,1\n3,1,0\n-1,1,1\n")
    for more in ((), ("--require-zero",)):
        answer = cli("prove", "rays.csv", *SMALL[1:], "--prepare", "unit", "--out", "proof", "--quiet", *more)
        assert answer.code == 2, answer
        assert "makes different rows of 'rays' equal" in answer.err
    assert list(tmp_path.iterdir()) == [tmp_path / "rays.csv"]
    assert cli("prove", "rays.csv", *SMALL[1:], "--out", "proof", "--quiet", "--steps", 16).code == 0


@pytest.mark.usefixtures("no_figures")
def test_divergence_is_named(cli, tmp_path):
    answer = cli("prove", *SMALL, "--step-size", "1e6", "--out", "proof", "--quiet")
    assert answer.code == 2, answer
    assert answer.out.startswith("Not proved: training diverged.")
    assert "use a smaller step size, such as" in answer.out


def test_a_folder_of_something_else_is_left_alone(cli, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "report.html").write_text("mine")
    answer = cli("prove", *SMALL, "--out", "mine")
    assert (answer.code, "not empty and holds no proof" in answer.err) == (2, True)
    assert (tmp_path / "mine" / "report.html").read_text() == "mine"


@pytest.mark.slow
def test_too_few_parameters_are_not_proved(cli, tmp_path):
    answer = cli("prove", "sphere:n=40,d=3,separation=0.1,seed=1", "--network", "fully-connected", "--width", 2,
                 "--depth", 1, "--steps", 20, "--out", "proof")  # fmt: skip
    assert answer.code == 2
    assert answer.out.startswith("Not proved")
    assert not (tmp_path / "proof" / "certificate").exists()
    assert (tmp_path / "proof" / "report.html").exists()


@pytest.mark.parametrize(("arguments", "words"), [
    (("--width", "wide"), "--width must be auto or a whole number"),
    (("--width", 0), "--width must be auto or a whole number"),
    (("--network", "transformer", "--width", 8), "there is no network"),
    ((*SMALL[1:], "--step-size", "fast"), "the step size must be a number, 'auto', 'safe' or 'paper', got 'fast'"),
])  # fmt: skip
def test_bad_options_are_one_sentence(cli, tmp_path, arguments, words):
    answer = cli("prove", SPHERE, *arguments, "--out", "proof", "--quiet")
    assert answer.code == 2
    assert words in answer.err
    assert list(tmp_path.iterdir()) == []


def test_no_certificate_is_malformed(cli):
    assert cli("verify", "nowhere").code == 2


@pytest.mark.parametrize("arguments", [(), ("a", "b"), ("a", "--colour"), ("a", "--time"), ("a", "--time", "4GB")])
def test_a_bad_command_line_is_no_malformed_certificate(cli, arguments):
    answer = cli("verify", *arguments)
    assert answer.code == 64, answer
    assert not answer.out
    assert cli("verify", "--help").code == 0


def test_training_in_segments_ends_with_the_same_bits(tmp_path):
    """Stopping to look at the proof ratio does not change what is trained."""
    from wideproof.data import load

    data, network = load(SPHERE), FullyConnected(4, 64, 1)
    found = prove(data, network=network, folder=tmp_path / "proof", steps=100, step_size=0.05)
    assert found.run is not None
    whole = train(network, data, Recipe(steps=found.run.step, step_size=0.05))
    assert all(np.array_equal(found.run.params[name], whole.params[name]) for name in whole.params)
    assert found.ratios[0].step == 0
    assert found.ratios[0].moved == 0
    assert found.predicted is not None


def test_an_interruption_says_how_to_go_on(cli, tmp_path, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("wideproof.proving.stages.train", interrupted)
    answer = cli("prove", *SMALL, "--out", "proof")
    assert (answer.code, "the same command with --out proof to continue" in answer.err) == (130, True)


def test_predictions_name_their_outputs_and_tell_of_unseen_texts(cli, tmp_path, monkeypatch):
    (tmp_path / "old.csv").write_text("city,age,member\nBonn,1.5,yes\nUlm,2,no\nBonn,3,no\n")
    (tmp_path / "new.csv").write_text("city,age\nKiel,1\nUlm,2\nKiel,3\n")
    data = load(tmp_path / "old.csv", "member")
    train(FullyConnected(input_dim=3, width=8, depth=1), data, Recipe(steps=1)).save(tmp_path / "proof" / "run")
    read, once = [], frames.as_table
    monkeypatch.setattr(frames, "as_table", lambda *given, **how: read.append(given) or once(*given, **how))
    answer = cli("predict", "proof", "new.csv")
    assert len(read) == 1  # a pipe can be read only once
    assert answer.code == 0
    assert answer.out.splitlines()[0] == "member,output(yes)"
    assert answer.err.startswith("column 'city': 2 rows have a value that the training table does not hold ('Kiel'): ")
    assert len(answer.out.splitlines()) == 4


def test_predictions_tell_of_rows_outside_and_of_ties(cli, tmp_path):
    (tmp_path / "old.csv").write_text("age,height,member\n1.5,10,yes\n2,20,no\n3,30,no\n")
    (tmp_path / "new.csv").write_text("age,height\n2,15\n9,15\n0,99\n")
    data = load(tmp_path / "old.csv", "member")
    assert isinstance(data, Dataset)
    run = train(FullyConnected(input_dim=2, width=8, depth=1), data, Recipe(steps=1))
    zero = {name: np.zeros_like(weight) for name, weight in run.params.items()}
    dataclasses.replace(run, params=zero).save(tmp_path / "proof" / "run")
    Ranges.of(data).put(tmp_path / "proof")
    answer = cli("predict", "proof", "new.csv")
    assert answer.code == 0
    outside, ties = answer.err.splitlines()
    assert outside.startswith("2 of 3 rows lie outside the range of the training rows, in age (2) and height (1): ")
    assert ties.startswith("3 predictions are ties: ")
    assert [line.split(",")[0] for line in answer.out.splitlines()] == ["member", *["no or yes"] * 3]


def test_the_kind_of_data_decides_the_network():
    """A generator has a kind of its own, so sequences get a recurrent network without being told."""
    import wideproof as wp

    assert wp.choose(wp.load("sequences:n=4,length=3,features=4,separation=0.5")).network.name == "elman-rnn"
    assert wp.choose(wp.load(SPHERE)).network.name == "fully-connected"
