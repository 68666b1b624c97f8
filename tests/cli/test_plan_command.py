"""`wideproof plan`: what it prints, the command that does it, and which exit code answers the question."""

import json
import shlex

import pytest

from tests.cli.test_bad_input import refused
from tests.cli.tools import SEQUENCES
from wideproof.errors import InputError
from wideproof.planning import plan

DIGITS = ("digits", "--classes", "0,1", "--limit", 12)
FEW = ("--width", 64, "--activation", "erf")
STEPS = ("--prepare", "standardize,sphere(4)", "--prepare", "standardize,sphere(8)")


def test_what_would_be_done_and_why(cli, tmp_path):
    answer = cli("plan", *DIGITS, *FEW, *STEPS, "--top", 1)
    assert answer.code == 0
    for words in ("prepared by", "network", "alpha", "to be followed from the start", "allowed: 120 s", "unseen rows",
                  "Why: it is the only candidate", "Other combinations", "2 classes: 0 (6) and 1 (6)",
                  "prove it with: wideproof prove digits"):  # fmt: skip
        assert words in answer.out, words
    assert list(tmp_path.iterdir()) == []  # nothing is trained, nothing is written
    some = cli("plan", *DIGITS, *FEW, "--top", 3)
    assert "\n3 of " in some.out
    assert "left behind on 12 distinct rows" in cli("plan", *DIGITS, *FEW, "--top", 0).out


def test_json_is_the_plan_and_its_command_makes_the_choice(cli, tmp_path, monkeypatch):
    answer = cli("plan", *DIGITS, *FEW, *STEPS, "--seed", 2, "--json")
    assert (answer.code, answer.err) == (0, "")
    found = json.loads(answer.out)
    exact = plan("digits", classes=("0", "1"), limit=12, width=64, activation="erf", seed=2,
                 prepare=["standardize,sphere(4)", "standardize,sphere(8)"])  # fmt: skip
    assert found["candidates"] == exact.to_dict()["candidates"]
    assert (found["alpha"], found["steps"], found["seconds"]) == (exact.alpha, exact.steps, exact.seconds)
    assert len(found["others"]) == 1
    command = shlex.split(found["command"])
    assert command[:3] == ["wideproof", "prove", "digits"]

    def attempt(*arguments):
        raise InputError("that is enough")

    monkeypatch.setattr("wideproof.proving.stages._attempt", attempt)
    refused(cli(*command[1:], "--quiet", "--out", "proof"), "that is enough")
    stored = json.loads((tmp_path / "proof" / "choice.json").read_text())
    assert {key: stored[key] for key in found["choice"]} == found["choice"]


def test_every_option_stands_in_the_command(cli):
    given = ("--network", "residual", "--depth", 1, "--c-res", 0.3, "--trained", "hidden,output", "--budget", 50,
             "--steps", 30, "--prepare", "standardize,sphere(4)", "--kind", "vectors", "--keep-ids",
             "--header")  # fmt: skip
    found = json.loads(cli("plan", "iris", "--limit", 12, "--width", 32, *given, "--json").out)
    again = set(shlex.split(found["command"]))
    assert {"--network=residual", "--depth=1", "--c-res=0.3", "--trained=hidden,output", "--budget=50.0", "--steps=30",
            "--prepare=standardize,sphere(4)", "--kind=vectors", "--keep-ids", "--header", "--width=32",
            "--limit=12"} <= again  # fmt: skip
    assert not [word for word in again if word.startswith(("--seed", "--task", "--missing", "--alpha"))]


@pytest.mark.parametrize(
    ("arguments", "network"),
    [
        ((*DIGITS, "--network", "conv-residual"), "conv-residual"),
        ((SEQUENCES, "--prepare", "pad"), "elman-rnn"),
    ],
)
def test_kinds_follow_the_networks_and_one_candidate_is_not_looked_at(cli, arguments, network):
    code, out, _ = cli("plan", *arguments, "--json")
    found = json.loads(out)
    assert (code, found["choice"]["network"]["network"]) == (2, network)
    assert found["answer"] is None
    assert found["steps"] > 0
    assert found["seconds"] > 0
    assert (network == "conv-residual") == ("--kind=images" in found["command"])


def test_contradictions_are_told(cli, tmp_path):
    (tmp_path / "clash.csv").write_text("a,b,kind\n1,0,cat\n1,0,dog\n0,1,cat\n0.6,0.8,dog\n")
    answer = cli("plan", "clash.csv", *FEW, "--prepare", "standardize,sphere(4)")
    assert answer.code == 0
    for words in ("3 of 4: equal rows count as one", "zero loss is impossible", "the least loss of any function is 1"):
        assert words in answer.out, words
    found = json.loads(cli("plan", "clash.csv", *FEW, "--prepare", "standardize,sphere(4)", "--json").out)
    assert (found["data"]["distinct"], found["data"]["contradicting"]) == (3, [0, 1])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere.csv",), "there is no file nowhere.csv"),
        ((*DIGITS, "--depth", "two"), "--depth must be auto or a whole number of at least 1, got 'two'"),
        ((*DIGITS, "--depth", "0"), "a whole number of at least 1"),
        ((*DIGITS, "--activation", ","), "--activation names at least one"),
        ((*DIGITS, "--activation", "tan"), "no activation 'tan'"),
        ((*DIGITS, "--network", "mlp"), "no network 'mlp'"),
        ((*DIGITS, "--prepare", "wash"), "'wash' is not a preparation step"),
        ((*DIGITS, "--budget", "-1"), "the budget must be a number of seconds"),
        ((*DIGITS, "--top", "-1"), "--top must be a number of rows >= 0"),
    ],
)
def test_bad_input_is_one_sentence(cli, arguments, words):
    refused(cli("plan", *arguments), words.replace("(", r"\("))
