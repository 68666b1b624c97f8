"""`wideproof plan`: what it prints and writes, and which exit code answers the question."""

import json
import shlex

import pytest

from tests.cli.test_bad_input import refused
from tests.cli.test_commands import check_figure
from tests.cli.tools import SEQUENCES
from tests.planning.conftest import undrawn as undrawn
from wideproof.data import load
from wideproof.planning import plan

DIGITS = ("digits", "--classes", "0,1", "--limit", 12)
FEW = ("--activations", "erf", "--depths", "1,2", "--networks", "fully-connected,deep-relu")


def test_table_recommendation_and_figure(cli, tmp_path):
    answer = cli("plan", *DIGITS, *FEW, "--top", 3, "--plot", "plan.svg")
    assert (answer.code, answer.err) == (0, "")
    for words in ("3 of 12 candidates, by steps", "condition", "steps", "unseen", "λ min", "fewest predicted steps",
                  "train it with: wideproof", "A proof before training", "m·A² >", "figure in plan.svg"):  # fmt: skip
        assert words in answer.out, words
    check_figure(tmp_path / "plan.svg")
    text = (tmp_path / "plan.svg").read_text()
    assert text.count("<!-- depth -->") == 2
    for words in ("fully-connected", "deep-relu", "whiten", "as loaded", "condition number at infinite width"):
        assert f"<!-- {words} -->" in text, words
    assert [path.name for path in tmp_path.iterdir()] == ["plan.svg"]


def test_json_is_the_plan_and_its_command_trains(cli, tmp_path):
    answer = cli(
        "plan", *DIGITS, *FEW, "--json", "--target-loss", 1e-3, "--prepare", "whiten,unit", "--prepare", "unit"
    )
    assert (answer.code, answer.err) == (0, "")
    found = json.loads(answer.out)
    exact = plan(load("digits", classes=(0, 1), limit=12), networks=["fully-connected", "deep-relu"], depths=[1, 2],
                 activations=["erf"], preparations=["whiten,unit", "unit"], target_loss=1e-3)  # fmt: skip
    assert [row["steps"] for row in found["rows"]] == [row.steps for row in exact.rows]
    assert [row["condition"]["value"] for row in found["rows"]] == [
        row.to_dict()["condition"]["value"] for row in exact.rows
    ]
    best = found["recommendation"]
    assert exact.recommendation is not None
    assert (best["width"], best["step_size"]) == (exact.recommendation.width, exact.recommendation.step_size)
    assert found["proofs"][0]["need"] == exact.proofs[0].need
    command = shlex.split(best["command"])
    assert command[:2] == ["wideproof", "train"]
    assert cli(*command[1:], "--quiet", "--out", "run").code == 0


def test_order_and_quiet(cli):
    answer = cli("plan", *DIGITS, *FEW, "--by", "condition", "--top", 0)
    assert "12 of 12 candidates, by condition number" in answer.out
    short = cli("plan", *DIGITS, *FEW, "--quiet")
    assert short.code == 0
    assert "candidates" not in short.out
    assert "train it with" in short.out


@pytest.mark.parametrize(
    ("arguments", "network"),
    [
        ((*DIGITS, "--networks", "conv-residual", "--activations", "erf", "--depths", 1), "conv-residual"),
        ((SEQUENCES, "--depths", 1), "elman-rnn"),
    ],
)
def test_kinds_follow_the_networks(cli, undrawn, arguments, network):
    code, out, _ = cli("plan", *arguments, "--json")
    found = json.loads(out)
    assert (code, {row["network"] for row in found["rows"]}) == (0, {network})
    assert len(found["rows"]) == 3
    assert (network == "conv-residual") == ("--kind=images" in found["recommendation"]["command"])
    assert found["proofs"] == []


def test_equal_examples_are_the_answer_no(cli, tmp_path):
    (tmp_path / "clash.csv").write_text("a,b,kind\n1,0,cat\n1,0,dog\n0,1,cat\n0.6,0.8,dog\n")
    answer = cli("plan", "clash.csv", *FEW)
    assert (answer.code, answer.err) == (1, "")
    for words in (
        "undecided",
        "nothing to recommend",
        "zero training loss is impossible",
        "first: 0 and 1",
        "not by the closed",
    ):
        assert words in answer.out, words
    found = json.loads(cli("plan", "clash.csv", *FEW, "--json").out)
    assert (found["answer"], found["recommendation"]) == (False, None)
    assert all(row["condition"] is None and row["steps"] is None for row in found["rows"])
    refused(cli("plan", "clash.csv", *FEW, "--plot", "none.png"), "no condition number is known", "equal examples")
    assert not (tmp_path / "none.png").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere.csv",), "there is no file nowhere.csv"),
        ((*DIGITS, "--depths", "two"), "--depths must be whole numbers >= 1, as in 1,2,6, got 'two'"),
        ((*DIGITS, "--depths", "0"), "hidden layers >= 1, got 0"),
        ((*DIGITS, "--activations", ","), "--activations names at least one"),
        ((*DIGITS, "--activations", "tan"), "no activation 'tan'"),
        ((*DIGITS, "--networks", "mlp"), "no network 'mlp'"),
        ((*DIGITS, "--prepare", "wash"), "'wash' is not a preparation step"),
        ((*DIGITS, "--target-loss", "0"), "target_loss must be a number > 0"),
        ((*DIGITS, "--by", "luck"), "--by must be steps or condition"),
        ((*DIGITS, "--top", "-1"), "--top must be a number of rows >= 0"),
        ((*DIGITS, "--plot", "plan.pdf"), "figures must be written as .svg or .png"),
    ],
)
def test_bad_input_is_one_sentence(cli, arguments, words):
    refused(cli("plan", *arguments), words.replace("(", r"\("))
